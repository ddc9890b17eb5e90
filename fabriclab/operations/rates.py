"""How often published fleets fail: mean times between failures by size, and counts by component.

A rate here is failures of one GPU and second, with everything around the GPU that can stop a job: its share of the
server, of the network and of the software. A job of n GPUs needs all of them, so it is interrupted n times as often as
one GPU, and the mean time between interruptions is 1 / (n rate). Leaves out that parts fail together, that a new fleet
fails more often than one that has run for a while, that some nodes fail far more often than others, and that software
bugs, which the counts include, do not grow in number with the GPUs.

Examples
--------
>>> from fabriclab import operations
>>> llama = operations.fleet("llama3")
>>> [f"{hours:.2f}" for hours in llama.mean_time([16384, 1024]) / 3600]
['3.09', '49.49']
>>> operations.components("llama3")["network"].events
35
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.catalog.tables import data_rows, near
from fabriclab.core import Floats, ReadOnly

__all__ = ["PARTS", "Component", "Fleet", "components", "fleet", "fleets", "poisson_interval"]

#: Parts that interruptions are sorted into: `network` has switches and cables, `host` the rest of a server.
PARTS = ("gpu", "network", "nic", "host", "software", "maintenance", "other")

_HOUR = 3600.0  # [s]
_DAY = 86400.0  # [s]
_GPUS_PER_NODE = 8  # source: failures.csv; all its studies that count nodes have servers of 8 GPUs
_NODE_DAYS = 1000.0  # for which studies quote a rate
# Studies that publish counts by component, by the names of their rows; (metric, source_id).
_COUNTED = {
    "llama3": ("interruption_count", "llama3"),
    "infinitehbd": ("fault_count", "infinitehbd"),
}


class Fleet(NamedTuple):
    """A published rate of failures.

    Parameters
    ----------
    key, fleet, name : str
        Short name of the row, the fleet that it is of (some have several rows), and its name for people.
    gpus : float
        GPUs for which the mean time was published.
    published : float
        Mean time between failures of these GPUs. [s]
    counts : str
        What it counts, such as "interruptions of a job".
    confidence, source, date, note : str
        As in the catalog: A (read in the source) or B (second hand); citation, its date, and remarks.
    """

    key: str
    fleet: str
    name: str
    gpus: float
    published: float
    counts: str
    confidence: str
    source: str
    date: str
    note: str

    @property
    def rate(self) -> float:
        """Failures of one GPU in a second. [1/s]."""
        return 1 / (self.gpus * self.published)

    @property
    def per_1000_node_days(self) -> float:
        """Failures of a server of 8 GPUs in 1,000 days, as operators quote them."""
        return self.rate * _GPUS_PER_NODE * _NODE_DAYS * _DAY

    def mean_time(self, gpus: ArrayLike) -> Floats:
        """Return the mean time between failures of jobs of other sizes, in the shape of ``gpus``. [s]."""
        return mean_time(self.rate, gpus)

    def expected(self, gpus: float, duration: units.Quantity) -> float:
        """Return how many failures to expect on ``gpus`` GPUs in a time; ``duration`` in seconds or with its unit."""
        return expected(self.rate, gpus, duration)


class Component(NamedTuple):
    """What a study counted of one part.

    Parameters
    ----------
    part : str
        One of `PARTS`.
    events : int
        Failures that were counted.
    share : float
        Their share of all failures of the study. 0..1
    rate : float
        Failures of this part for each GPU of the fleet. [1/s]
    low, high : float
        Interval that has the true number of events in 95 of 100 cases, by counting alone.
    """

    part: str
    events: int
    share: float
    rate: float
    low: float
    high: float


def mean_time(rate: float, gpus: ArrayLike) -> Floats:
    """Return the mean time between failures of jobs on some GPUs: 1 / (gpus rate), in the shape of ``gpus``. [s]."""
    n = np.asarray(gpus, dtype=np.float64)
    if not np.all((n >= 1) & np.isfinite(n)):
        raise ValueError(f"gpus must be >= 1, got {gpus!r:.60}; give the number of GPUs of a job")
    return np.asarray(1 / (n * rate))


def expected(rate: float, gpus: float, duration: units.Quantity) -> float:
    """Return the failures to expect of some GPUs in a time, from the rate of one. [1/s], any number, [s]."""
    return float(units.time(duration, "duration") / mean_time(rate, gpus))


def fleets() -> tuple[Fleet, ...]:
    """Return all published rates of the catalog, each with its source."""
    figures = {row["row_id"]: row for row in data_rows("failures")}
    found = []
    for row in data_rows("fleets"):
        figure = figures[row["row_id"]]
        gpus, published = _mean_time_of(figure)
        found.append(
            Fleet(
                key=row["key"],
                fleet=row["fleet"],
                name=row["name"],
                gpus=gpus,
                published=published,
                counts=row["counts"],
                confidence=figure["confidence"],
                source=f"{figure['study']}; {figure['source']}",
                date=figure["date"],
                note=row["note"],
            )
        )
    return tuple(found)


def fleet(key: str) -> Fleet:
    """Return one of `fleets` by its key, such as ``"llama3"``.

    Raises
    ------
    KeyError
        If there is none; the message suggests similar keys.
    """
    by_key = {one.key: one for one in fleets()}
    if key not in by_key:
        raise KeyError(near(key, by_key, "the table of fleets"))
    return by_key[key]


def components(study: str) -> ReadOnly[str, Component]:
    """Return what a study counted, by part and most frequent first.

    Parameters
    ----------
    study : str
        ``"llama3"`` (interruptions of one job on 16,384 GPUs) or ``"infinitehbd"`` (faults of 400 servers). What
        counts as a fault differs: the second has faults that were found by tests and stopped no job.

    Returns
    -------
    mapping of str to Component
        By name of the part.

    Examples
    --------
    >>> from fabriclab import operations
    >>> from fabriclab.units import format_share
    >>> {part: format_share(one.share, 1) for part, one in operations.components("llama3").items()}
    {'gpu': '64.0 %', 'software': '13.4 %', 'network': '8.4 %', 'maintenance': '7.6 %', 'host': '3.3 %', 'nic': '1.7 %',
    'other': '1.7 %'}
    """
    counted = events_by_part(study)
    watched = exposure(study)
    whole = sum(counted.values())
    found = {}
    for part in sorted(counted, key=lambda name: -counted[name]):
        events = counted[part]
        low, high = poisson_interval(events)
        found[part] = Component(
            part=part,
            events=events,
            share=events / whole,
            rate=events / watched,
            low=low,
            high=high,
        )
    return ReadOnly(found)


def events_by_part(study: str) -> dict[str, int]:
    """Return the number of failures of each part that a study counted."""
    counted = dict.fromkeys(PARTS, 0)
    for row in _rows_of(study):
        counted[row["part"]] += int(row["count"])
    return {part: events for part, events in counted.items() if events}


def poisson_interval(events: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of the mean number of events, when so many were counted.

    Parameters
    ----------
    events : int
        What was counted. >= 0
    confidence : float
        How often such intervals have the mean. 0..1, ends excluded

    References
    ----------
    .. [1] F. Garwood, Biometrika 28, 1936, pp. 437-442.

    Examples
    --------
    >>> low, high = poisson_interval(10)
    >>> round(low, 1), round(high, 1)
    (4.8, 18.4)
    """
    from scipy.special import gammaincinv

    n = units.count(events, "events", 0)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be within 0..1, such as 0.95, got {confidence!r}")
    tail = (1 - confidence) / 2
    low = float(gammaincinv(n, tail)) if n else 0.0
    return low, float(gammaincinv(n + 1, 1 - tail))


def figure(row_id: str) -> Mapping[str, str]:
    """Return a published figure of the catalog by its number, such as ``"FA0041"``."""
    return {row["row_id"]: row for row in data_rows("failures")}[row_id]


def _rows_of(study: str) -> list[Mapping[str, str]]:
    """Return the rows of a study's counts by component."""
    if study not in _COUNTED:
        raise KeyError(near(study, _COUNTED, "the list of studies with counts by component"))
    metric, source = _COUNTED[study]
    return [r for r in data_rows("failures") if (r["metric"], r["source_id"]) == (metric, source)]


def exposure(study: str) -> float:
    """Return the time for which a study watched its GPUs, all of them together. [s]."""
    known = fleet(study)
    return known.published * known.gpus * sum(events_by_part(study).values())


def _mean_time_of(figure: Mapping[str, str]) -> tuple[float, float]:
    """Return for how many GPUs a row has a mean time, and that time [s]; a rate of nodes becomes one."""
    value = float(figure["value"])
    if "1000 node-days" in figure["unit"]:
        nodes = float(figure["nodes"] or 1)  # without a number the rate is that of one node
        return nodes * _GPUS_PER_NODE, _NODE_DAYS * _DAY / (value * nodes)
    gpus = np.mean(_ends(figure["gpus"]))
    seconds = {"h": _HOUR, "days": _DAY}[figure["unit"]]
    return float(gpus), value * seconds


def _ends(text: str) -> list[float]:
    """Return the numbers of a cell such as "992-1024"."""
    return [float(number) for number in re.findall(r"\d+", text)]
