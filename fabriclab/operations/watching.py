"""Watch many links for a small loss of rate, with an agreed number of false alarms for all of them together.

Examples
--------
>>> week = watch(0.01, 0.01, links=1024, step=4.6)
>>> round(week.delay), week.threshold_delay > 100_000
(33, True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fabriclab import units
from fabriclab.core import as_html, as_text
from fabriclab.operations.sequential import Cusum, Threshold, limit_for, positive

__all__ = ["Watch", "calibration_factor", "shift_of", "watch"]

_DAY = 86400.0  # [s]
_WHOLE = 1000  # samples, from which on nobody reads a fraction; illustrative


def shift_of(loss: float, noise: float) -> float:
    """Return by how many standard deviations the time of a link grows that loses a part of its rate.

    The time grows by loss / (1 - loss): by 1.01 % at a loss of 1 %.

    Parameters
    ----------
    loss : float
        Lost part of the rate. 0..1, ends excluded
    noise : float
        Standard deviation of one timing as a part of its mean. > 0

    Examples
    --------
    >>> round(shift_of(0.01, noise=0.01), 3)
    1.01
    """
    if not units.is_number(loss) or not 0 < loss < 1:
        raise ValueError(
            f"loss must be a part of the rate within 0..1, ends excluded, got {loss!r:.60}; write 0.01 for 1 %"
        )
    spread = positive(
        noise, "noise", "it is the standard deviation of one timing over its mean, such as 0.02"
    )
    return loss / (1 - loss) / spread


def _count(samples: float) -> str:
    """Return a mean number of samples: with four digits, and from a thousand on as a whole number of three."""
    return f"{samples:.4g}" if samples < _WHOLE else f"{float(f'{samples:.3g}'):,.0f}"


def _lasting(seconds: float) -> str:
    """Return a time with three digits, from a day on in days."""
    return units.format_time(seconds) if seconds < _DAY else f"{seconds / _DAY:.3g} d"


@dataclass(frozen=True, slots=True)
class Watch:
    """A sequential test on many links at once; `watch` makes one.

    Parameters
    ----------
    cusum : Cusum
        The test of one link.
    threshold : Threshold
        A threshold with as many false alarms, to compare with.
    links : int
        Links that are watched.
    step : float
        Time from one sample of a link to the next. [s]
    loss, noise : float
        Lost part of the rate that is looked for, and standard deviation of one timing over its mean.
    run_length : float
        Samples of one link between two false alarms.
    delay, threshold_delay : float
        Samples from the loss to the alarm, of the test and of the threshold.
    """

    cusum: Cusum
    threshold: Threshold
    links: int
    step: float
    loss: float
    noise: float
    run_length: float
    delay: float
    threshold_delay: float

    @property
    def false_alarm_every(self) -> float:
        """Time between two false alarms of all links together [s]."""
        return self.run_length * self.step / self.links

    def rows(self) -> list[list[str]]:
        """Return a table of texts."""

        def cells(delay: float) -> list[str]:
            return [_count(delay), _lasting(delay * self.step)]

        return [
            ["test", "samples until it finds the loss", "time"],
            [f"CUSUM, limit {self.cusum.limit:.3g}", *cells(self.delay)],
            [f"threshold at {self.threshold.limit:.3g}", *cells(self.threshold_delay)],
        ]

    def __repr__(self) -> str:
        """Show loss, delay and false alarms."""
        every = _lasting(self.false_alarm_every)
        return (
            f"<Watch: a loss of {units.format_share(self.loss, 2)} at noise {units.format_share(self.noise, 2)} "
            f"is found after {_count(self.delay)} samples "
            f"on average; {self.links:,} links, a false alarm every {every}>\n{as_text(self.rows())}"
        )

    def _repr_html_(self) -> str:
        return as_html(self.rows(), repr(self).splitlines()[0][1:-1])


def watch(
    loss: float = 0.01,
    noise: float = 0.01,
    *,
    links: int = 1024,
    step: units.Quantity = 1.0,  # illustrative: a sample each second unless given
    false_alarm_every: units.Quantity = 7 * _DAY,  # illustrative: once a week
) -> Watch:
    """Return the test that finds a loss of rate fastest, for a number of links and an agreed number of false alarms.

    Leaves out that the healthy mean and the noise have to be measured first, and that noise of real links has longer
    tails than the normal distribution; `Cusum.simulate` takes other noise.

    Parameters
    ----------
    loss, noise : float
        As for `shift_of`.
    links : int
        Links that are watched, each with a test of its own. >= 1
    step : float or str
        Time from one sample of a link to the next. [s]
    false_alarm_every : float or str
        Mean time between two false alarms of all links together. [s]

    Examples
    --------
    >>> week = watch(0.01, 0.01, links=1024, step=4.6)
    >>> round(week.delay), week.threshold_delay > 10_000
    (33, True)
    """
    shift = shift_of(loss, noise)
    n = units.count(links, "links")
    seconds = positive(units.time(step, "step"), "step", "write a time such as '4.6 s'")
    every = positive(
        units.time(false_alarm_every, "false_alarm_every"),
        "false_alarm_every",
        "write a time such as '604800 s'",
    )
    wanted = n * every / seconds
    limit = limit_for(wanted, shift)
    cusum = Cusum(shift, limit)
    threshold = Threshold(_normal_limit(wanted))
    return Watch(
        cusum=cusum,
        threshold=threshold,
        links=n,
        step=seconds,
        loss=loss,
        noise=noise,
        run_length=wanted,
        delay=cusum.run_length(shift),
        threshold_delay=threshold.run_length(shift),
    )


def _normal_limit(run_length: float) -> float:
    """Return the limit that a normal sample exceeds once in so many."""
    from scipy.special import ndtri

    return float(-ndtri(1 / run_length))


def calibration_factor(cusum: Cusum, samples: int) -> float:
    """Return how many times as many false alarms there are if the healthy mean was measured on so many samples.

    A mean that was measured too low by a part of a standard deviation makes every later sample look slow. The factor is
    the mean of the false alarm rates over such errors, by Gauss-Hermite quadrature; the noise is taken as known.

    Parameters
    ----------
    cusum : Cusum
        The test.
    samples : int
        Samples of the healthy link from which its mean was computed. >= 1

    Examples
    --------
    >>> calibration_factor(Cusum(1, 5), 10_000) < 1.01 < calibration_factor(Cusum(1, 5), 20)
    True
    """
    n = units.count(samples, "samples")
    node, weight = np.polynomial.hermite_e.hermegauss(15)
    rate = 0.0
    for error, part in zip(
        (node / math.sqrt(n)).tolist(), (weight / weight.sum()).tolist(), strict=True
    ):
        rate += part * _rate(cusum, error)
    return rate * cusum.run_length()


def _rate(cusum: Cusum, mean: float) -> float:
    """Return alarms per sample at a mean; 0 where they are too rare to be computed."""
    try:
        return 1 / cusum.run_length(mean)
    except ValueError:
        return 0.0
