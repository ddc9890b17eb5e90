"""Find a noisy NIC or a degraded link in counters: alarms, their delay, and how many of them are false.

An alarm rule says which counter is looked at, from which value on, and for how many samples in a row. A low limit finds
a bad link early and calls healthy ones bad; a high one does neither. `tradeoff` computes both for many limits, and
`best_limit` picks the fastest one that stays within an agreed number of false alarms.

Examples
--------
>>> from fabriclab import operations, topologies
>>> hall = topologies.build("leaf_spine", hosts=16, radix=8)
>>> seen = operations.observe(hall, [operations.Cause("slow NIC", "host 5", start=1800)])
>>> operations.alerts(seen).earliest.rule.counter
'pauses'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Flags, Floats, Ints, as_html, as_text
from fabriclab.operations.causes import COUNTERS
from fabriclab.operations.telemetry import Telemetry

__all__ = [
    "Alert",
    "AlertRule",
    "Alerts",
    "Score",
    "Tradeoff",
    "alerts",
    "best_limit",
    "first_alarm",
    "over_baseline",
    "score",
    "tradeoff",
]

_DAY = 86_400.0


class AlertRule(NamedTuple):
    """An alarm rule: a counter, the limit of one sample, and how many samples in a row have to be above it.

    With ``baseline`` the sample is divided by the mean of the link's own first samples, so that a link that has
    always been noisy is compared with itself.
    """

    counter: str
    limit: float
    hold: int = 1
    baseline: bool = False

    def __str__(self) -> str:
        """Return the rule in words."""
        samples = f"{self.hold} samples in a row" if self.hold > 1 else "one sample"
        what = "times its own baseline" if self.baseline else "a sample"
        return f"{self.counter} above {self.limit:g} {what}, {samples}"


# illustrative: rules as a site might begin with; none of the limits is published
RULES = (
    AlertRule("bit_errors", 10.0, hold=3, baseline=True),
    AlertRule("symbol_errors", 0.0),
    AlertRule("pauses", 10.0, hold=3, baseline=True),
    AlertRule("ecn_marks", 10.0, hold=3, baseline=True),
    AlertRule("discards", 0.0),
    AlertRule("temperature", 68.0, hold=3),
)


def first_alarm(values: ArrayLike, limit: float | ArrayLike, hold: int = 1) -> Ints:
    """Return at which sample each link raises an alarm, (L,) from 0; -1 if it never does.

    Parameters
    ----------
    values : (T, L)
        Samples of a counter.
    limit : float or (L,)
        Value that has to be exceeded.
    hold : int
        Samples in a row above the limit; the alarm is at the last of them. >= 1
    """
    series = np.asarray(values, dtype=np.float64)
    if series.ndim != 2:
        raise ValueError(f"values must have shape (samples, links), got shape {series.shape}")
    n = units.count(hold, "hold")
    over = series > limit  # NaN, a missing sample, is not above anything
    if n > series.shape[0]:
        return np.full(series.shape[1], -1, dtype=np.int64)

    # samples above the limit among the last n of each moment
    count = np.cumsum(over, axis=0)
    window = count.copy()
    window[n:] -= count[:-n]
    alarm = window == n
    return np.where(alarm.any(axis=0), np.argmax(alarm, axis=0), -1).astype(np.int64)


def over_baseline(values: ArrayLike, samples: int = 20) -> Floats:
    """Return samples over the mean of the first ones of their link, (T, L); a mean below 1 counts as 1."""
    series = np.asarray(values, dtype=np.float64)
    n = units.count(samples, "samples", 1, series.shape[0])
    return np.asarray(series / np.maximum(np.nanmean(series[:n], axis=0), 1.0))


@dataclass(frozen=True, eq=False)
class Score:
    """What a set of alarms is worth: delay of the right ones, and the false ones.

    Parameters
    ----------
    found, missed : int
        Bad links with and without an alarm after they went bad.
    false : int
        Alarms of healthy links, and of bad ones before they went bad.
    delay : float
        Mean time from the onset to the alarm over the bad links that were found; NaN if none was. [s]
    false_per_day : float
        False alarms a day on all links together.
    """

    found: int
    missed: int
    false: int
    delay: float
    false_per_day: float

    def __repr__(self) -> str:
        """Show all of it in one line."""
        delay = units.format_time(self.delay) if self.found else "no delay"
        return (
            f"<Score: {self.found} of {self.found + self.missed} bad links found, after {delay} on average; "
            f"{self.false} false alarms, {self.false_per_day:.3g} a day>"
        )


def score(alarm: ArrayLike, onset: ArrayLike, interval: float, samples: int) -> Score:
    """Compare alarms with the truth.

    Parameters
    ----------
    alarm : (L,) int
        Sample of the first alarm of each link, -1 if none.
    onset : (L,) int
        Sample from which each link is bad, -1 if it stays healthy.
    interval : float
        Time from one sample to the next. [s]
    samples : int
        Samples in all.
    """
    raised = np.asarray(alarm, dtype=np.int64)
    since = np.asarray(onset, dtype=np.int64)
    if raised.shape != since.shape:
        raise ValueError(
            f"alarm and onset must have the same links, got shapes {raised.shape} and {since.shape}"
        )
    bad = since >= 0
    right: Flags = bad & (raised >= since)
    wrong: Flags = (raised >= 0) & ~right
    delays = (raised[right] - since[right]) * interval
    days = units.count(samples, "samples") * interval / _DAY
    return Score(
        found=int(right.sum()),
        missed=int((bad & ~right).sum()),
        false=int(wrong.sum()),
        delay=float(delays.mean()) if delays.size else float("nan"),
        false_per_day=float(wrong.sum() / days),
    )


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """Scores of one rule at K limits: the lower the limit, the sooner the alarm and the more of them are false.

    Parameters
    ----------
    rule : AlertRule
        The rule; its limit is replaced by each of the limits.
    limits : (K,)
        Limits, rising.
    scores : tuple of Score
        One for each limit.
    """

    rule: AlertRule
    limits: Floats
    scores: tuple[Score, ...]

    @property
    def delay(self) -> Floats:
        """Mean delay at each limit, (K,) [s]; NaN where no bad link was found."""
        return np.array([s.delay for s in self.scores])

    @property
    def false(self) -> Ints:
        """False alarms at each limit, (K,)."""
        return np.array([s.false for s in self.scores], dtype=np.int64)

    @property
    def missed(self) -> Ints:
        """Bad links without an alarm at each limit, (K,)."""
        return np.array([s.missed for s in self.scores], dtype=np.int64)

    def rows(self) -> list[list[str]]:
        """Return a table of texts, a row for each limit."""
        table = [["limit", "found", "missed", "delay", "false alarms", "a day"]]
        for limit, each in zip(self.limits, self.scores, strict=True):
            delay = units.format_time(each.delay) if each.found else "-"
            table.append(
                [
                    f"{limit:g}",
                    str(each.found),
                    str(each.missed),
                    delay,
                    str(each.false),
                    f"{each.false_per_day:.3g}",
                ]
            )
        return table

    def __repr__(self) -> str:
        """Show the table."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), f"{self.rule.counter}, {self.rule.hold} in a row")


def tradeoff(seen: Telemetry, rule: AlertRule, limits: Sequence[float]) -> Tradeoff:
    """Return delay and false alarms of a rule at several limits, on telemetry whose causes are known.

    A link is bad if the cause acts on the rule's counter there; see `Telemetry.onset`.
    """
    values = _values(seen, rule)
    ordered = np.sort(np.asarray(limits, dtype=np.float64))
    if ordered.ndim != 1 or not ordered.size:
        raise ValueError(f"limits must list at least one limit, got {limits!r:.60}")
    onset = seen.onset(rule.counter)
    scores = []
    for limit in ordered.tolist():
        alarm = first_alarm(values, limit, rule.hold)
        scores.append(score(alarm, onset, seen.interval, seen.samples))
    return Tradeoff(rule, ordered, tuple(scores))


def best_limit(found: Tradeoff, false_per_day: float) -> float:
    """Return the limit with the shortest delay among those that miss no bad link and stay within the false alarms.

    Raises
    ------
    ValueError
        If no limit does both; the error says which limit comes nearest.
    """
    rate = np.array([s.false_per_day for s in found.scores])
    fits = (rate <= false_per_day) & (found.missed == 0)
    if not fits.any():
        nearest = int(np.lexsort((rate, found.missed))[0])
        raise ValueError(
            f"no limit finds every bad link with at most {false_per_day:g} false alarms a day; "
            f"{found.limits[nearest]:g} comes nearest, with {rate[nearest]:.3g}; "
            "look at another counter, or hold longer"
        )
    delay = np.where(fits, found.delay, np.inf)
    return float(found.limits[int(np.argmin(delay))])


class Alert(NamedTuple):
    """An alert: the rule, the links that raised it, (K,), and when the first of them did [s]."""

    rule: AlertRule
    links: Ints
    first: float


@dataclass(frozen=True, eq=False)
class Alerts:
    """Alerts of several rules on one telemetry, the earliest first."""

    seen: Telemetry
    raised: tuple[Alert, ...]

    @property
    def earliest(self) -> Alert | None:
        """The alert that would have caught it."""
        return self.raised[0] if self.raised else None

    def rows(self) -> list[list[str]]:
        """Return a table of texts, a row for each alert."""
        table = [["first", "alert", "links", "for example"]]
        for alert in self.raised:
            table.append(
                [
                    units.format_time(alert.first),
                    str(alert.rule),
                    f"{alert.links.size:,}",
                    self.seen.names[int(alert.links[0])],
                ]
            )
        return table

    def __repr__(self) -> str:
        """Show the table."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), "alerts")


def alerts(seen: Telemetry, rules: Sequence[AlertRule] = RULES) -> Alerts:
    """Return which rules raise an alert, on which links, and when first."""
    raised = []
    for rule in rules:
        alarm = first_alarm(_values(seen, rule), rule.limit, rule.hold)
        links = np.flatnonzero(alarm >= 0)
        if links.size:
            by_time = links[np.argsort(alarm[links], kind="stable")]
            raised.append(Alert(rule, by_time, float(seen.time[alarm[by_time[0]]])))
    raised.sort(key=lambda alert: alert.first)
    return Alerts(seen, tuple(raised))


def _values(seen: Telemetry, rule: AlertRule) -> Floats:
    """Return the samples that a rule looks at, (T, L)."""
    values = seen.values[units.choice(rule.counter, "counter", COUNTERS)]
    return over_baseline(values) if rule.baseline else values
