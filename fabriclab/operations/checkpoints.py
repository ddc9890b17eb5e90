"""How often to write a checkpoint: the exact mean time of a job that fails at random, and the interval that is best.

Failures come at random with a mean time M between them (exponential). After each one the job restarts for a time R
from its last checkpoint, and does again what came after it; failures during the restart and during the writing count
too. Work between two checkpoints is t, and writing one takes C. Then the mean time of a segment is

    M exp(R / M) (exp((t + C) / M) - 1),

and goodput is t over that. R is a factor for every t alike, so the best interval does not depend on it. Leaves out
wear, failures in clusters, checkpoints that are written while the job goes on, and waiting for a spare server, which
`fabriclab.operations.play_runs` has.

Examples
--------
The running case, and the same job on 131,072 GPUs:

>>> import fabriclab as fl
>>> from fabriclab.units import format_share
>>> job = fl.operations.Checkpoints.of_case(fl.case())
>>> round(job.best / 60), format_share(job.goodput(job.best), 1), format_share(job.goodput(2 * job.best), 1)
(76, '97.1 %', '96.5 %')
>>> large = job.scaled(128)
>>> format_share(large.goodput(large.best))
'48 %'
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.catalog.running_case import Case
from fabriclab.core import Floats

__all__ = ["Checkpoints", "TimeSpent", "best_interval", "daly_interval", "young_interval"]

_SHORT = 1e-6  # of the mean time; the next term of Daly's series is below 1e-9 of the interval
_NEWTON_STEPS = 60  # far more than it takes: it converges quadratically
_CLOSE = 1e-15  # relative step at which Newton's method stops
_LONGEST = 36.0  # checkpoints in multiples of the mean time: one of exp(36) tries succeeds
_MOST = 600.0  # of (t + C + R) / M; beyond, exp overflows and no job would ever end


class TimeSpent(NamedTuple):
    """How the time of a job divides, each as a share of the whole, in the shape of the interval; they add up to 1.

    Parameters
    ----------
    work : float64
        Work that is kept: the goodput.
    checkpoint : float64
        Writing the checkpoints that are kept.
    lost : float64
        Work and writing that a failure made void.
    restart : float64
        Restarts.
    """

    work: Floats
    checkpoint: Floats
    lost: Floats
    restart: Floats


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """A job that writes checkpoints and fails at random.

    Parameters
    ----------
    write : float or str
        Time to write a checkpoint, in which the job stands still. [s], >= 0
    restart : float or str
        Time from a failure until the job goes on from its last checkpoint: detect, replace, load. [s], >= 0
    mtbf : float or str
        Mean time between failures of the whole job. [s], > 0

    Raises
    ------
    ValueError
        If a time is outside its range.
    """

    write: float
    restart: float
    mtbf: float

    def __post_init__(self) -> None:
        """Read the times and check them."""
        write = units.time(self.write, "write")
        restart = units.time(self.restart, "restart")
        mtbf = units.time(self.mtbf, "mtbf")
        if not mtbf > 0:
            raise ValueError(
                f'mtbf must be > 0 s, got {self.mtbf!r}; a mean time of 49.5 h is written "49.5 h"'
            )
        for name, seconds in (("write", write), ("restart", restart), ("mtbf", mtbf)):
            object.__setattr__(self, name, seconds)

    @classmethod
    def of_case(cls, case: Case) -> Self:
        """Return the checkpoints of the running case, or of one with other numbers."""
        return cls(write=case.checkpoint_write, restart=case.restart, mtbf=case.mtbf)

    def scaled(self, factor: float) -> Self:
        """Return the same job on ``factor`` times the GPUs: failures come that many times as often. > 0."""
        if not factor > 0:
            raise ValueError(f"factor must be > 0, got {factor!r}; 128 is 128 times the GPUs")
        return replace(self, mtbf=self.mtbf / factor)

    def replace(self, **changes: Any) -> Self:
        """Return the job with other times, such as ``replace(restart="60 s")``."""
        return replace(self, **changes)

    @property
    def best(self) -> float:
        """Interval with the largest goodput. [s] of work between two checkpoints."""
        return best_interval(self.write, self.mtbf)

    @property
    def young(self) -> float:
        """Interval by Young's formula. [s]."""
        return young_interval(self.write, self.mtbf)

    @property
    def daly(self) -> float:
        """Interval by Daly's formula of higher order. [s]."""
        return daly_interval(self.write, self.mtbf)

    def goodput(self, interval: ArrayLike | str) -> Floats:
        """Return which share of the time is work that is kept, in the shape of ``interval``. 0..1.

        Parameters
        ----------
        interval : array_like or str
            Work between two checkpoints. [s], > 0
        """
        work = self._interval(interval)
        return np.asarray(work / self._segment(work))

    def wall_time(self, work: units.Quantity, interval: ArrayLike | str) -> Floats:
        """Return the mean time that some work takes, in the shape of ``interval``. [s].

        Parameters
        ----------
        work : float or str
            Time that the work takes without failures and checkpoints. [s]
        interval : array_like or str
            Work between two checkpoints. The work may end within an interval, which is counted as that part of it.
            [s], > 0
        """
        return np.asarray(units.time(work, "work") / self.goodput(interval))

    def failures(self, work: units.Quantity, interval: ArrayLike | str) -> Floats:
        """Return the mean number of failures until some work is done, in the shape of ``interval``."""
        return np.asarray(self.wall_time(work, interval) / self.mtbf)

    def spent(self, interval: ArrayLike | str) -> TimeSpent:
        """Return how the time divides into work that is kept, checkpoints, lost work and restarts.

        Examples
        --------
        >>> import fabriclab as fl
        >>> from fabriclab.units import format_share
        >>> job = fl.operations.Checkpoints.of_case(fl.case())
        >>> [format_share(float(part), 2) for part in job.spent(job.best)]
        ['97.10 %', '1.27 %', '1.29 %', '0.34 %']
        """
        work = self._interval(interval)
        whole = self._segment(work)
        tries = self.mtbf * np.expm1(
            (work + self.write) / self.mtbf
        )  # in all tries of a segment [s]
        restarts = tries * np.expm1(self.restart / self.mtbf)
        return TimeSpent(
            work=np.asarray(work / whole),
            checkpoint=np.asarray(self.write / whole),
            lost=np.asarray((tries - work - self.write) / whole),
            restart=np.asarray(restarts / whole),
        )

    def within(self, points: float) -> tuple[float, float]:
        """Return the shortest and the longest interval that lose at most so much goodput against the best one. [s].

        Parameters
        ----------
        points : float
            Goodput that may be lost; 0.01 is a point. > 0, less than the best goodput

        Examples
        --------
        >>> import fabriclab as fl
        >>> job = fl.operations.Checkpoints.of_case(fl.case())
        >>> [round(seconds / 60) for seconds in job.within(0.01)]
        [32, 182]
        """
        best = self.best
        most = float(self.goodput(best))
        if not 0 < points < most:
            raise ValueError(
                f"points must be within 0..{most:.3g}, ends excluded, got {points!r}; a point of goodput is 0.01"
            )
        floor = most - points
        short = self._crossing(best, floor, 0.5)
        return short, self._crossing(best, floor, 2.0)

    def _crossing(self, start: float, floor: float, step: float) -> float:
        """Return the interval at which goodput falls to ``floor``, on the side of ``start`` to which ``step`` leads."""
        from scipy.optimize import brentq

        end = start
        while self._above(end, floor) > 0:
            end *= step
        return float(brentq(self._above, start, end, args=(floor,), xtol=1e-12 * start))

    def _above(self, interval: float, floor: float) -> float:
        """Return by how much goodput at an interval exceeds ``floor``; none where the interval is out of range."""
        if (interval + self.write + self.restart) / self.mtbf > _MOST:
            return -floor
        return float(self.goodput(interval)) - floor

    def _interval(self, interval: ArrayLike | str) -> Floats:
        """Return intervals in seconds, or refuse them."""
        if isinstance(interval, str):
            interval = units.time(interval, "interval")
        work = np.asarray(interval, dtype=np.float64)
        if not np.all((work > 0) & np.isfinite(work)):
            raise ValueError(
                f'interval must be finite and > 0 s, got {interval!r:.80}; write "77 min"'
            )
        worst = float(work.max(initial=0.0) + self.write + self.restart) / self.mtbf
        if worst > _MOST:
            raise ValueError(
                f"interval, write and restart together must be at most {_MOST:g} times the mtbf, got {worst:.4g} "
                "times; such a job never ends: shorten the interval"
            )
        return work

    def _segment(self, work: Floats) -> Floats:
        """Return the mean time until a segment and its checkpoint are done. [s]."""
        tries = self.mtbf * np.expm1((work + self.write) / self.mtbf)
        return np.asarray(np.exp(self.restart / self.mtbf) * tries)


def young_interval(write: units.Quantity, mtbf: units.Quantity) -> float:
    """Return Young's interval: sqrt(2 C M). [s].

    Parameters
    ----------
    write, mtbf : float or str
        Time to write a checkpoint, and mean time between failures of the job. [s]

    References
    ----------
    .. [1] J. W. Young, Communications of the ACM 17(9), 1974, pp. 530-531.
    """
    cost, mean = _cost_and_mean(write, mtbf)
    return float(np.sqrt(2 * cost * mean))


def daly_interval(
    write: units.Quantity,
    mtbf: units.Quantity,
    restart: units.Quantity = 0.0,
    *,
    order: str = "higher",
) -> float:
    """Return Daly's interval, of first or of higher order. [s].

    Of higher order it is sqrt(2 C M) (1 + sqrt(C / 2 M) / 3 + (C / 2 M) / 9) - C if C < 2 M, else M. It is within 1 %
    of the best interval while C is below 0.7 M, where the best goodput is 23 % and less. Just below C = 2 M it is 6 %
    too short, from there on 6 % too long and less; what that costs in goodput is below 0.02 points everywhere.

    Parameters
    ----------
    write, mtbf : float or str
        Time to write a checkpoint, and mean time between failures of the job. [s]
    restart : float or str
        Time of a restart, which only the first order asks for. [s]
    order : str
        ``"first"``: sqrt(2 C (M + R)) - C. ``"higher"``.

    References
    ----------
    .. [1] J. T. Daly, Future Generation Computer Systems 22(3), 2006, pp. 303-312.
    """
    cost, mean = _cost_and_mean(write, mtbf)
    wanted = units.choice(order, "order", ("first", "higher"))
    if wanted == "first":
        return float(np.sqrt(2 * cost * (mean + units.time(restart, "restart"))) - cost)
    if cost >= 2 * mean:
        return mean
    half = cost / (2 * mean)
    series = 1 + np.sqrt(half) / 3 + half / 9
    return float(np.sqrt(2 * cost * mean) * series - cost)


def best_interval(write: units.Quantity, mtbf: units.Quantity) -> float:
    """Return the interval at which goodput is largest, by Newton's method. [s].

    Goodput is flat there: (1 - t / M) exp((t + C) / M) = 1. The time of a restart is not in it.

    Parameters
    ----------
    write, mtbf : float or str
        Time to write a checkpoint, and mean time between failures of the job. [s], write < 36 mtbf

    Examples
    --------
    >>> from fabriclab import operations
    >>> round(operations.best_interval("60 s", "3.09 h")), round(operations.young_interval("60 s", "3.09 h"))
    (1116, 1155)
    """
    cost, mean = _cost_and_mean(write, mtbf)
    part = cost / mean
    if part < _SHORT:  # 1 - v would round; Daly's series is exact here
        return daly_interval(write, mtbf)

    # With v = 1 - t / M the condition is log(v) + 1 - v + C / M = 0. Its left side is concave and rises up to v = 1, so
    # from any start below the root Newton's method climbs to it. Both bounds below are such starts.
    v = max(1 - float(np.sqrt(2 * part)), float(np.exp(-1 - part)))
    for _ in range(_NEWTON_STEPS):
        step = (np.log(v) + 1 - v + part) / (1 / v - 1)
        v -= float(step)
        if abs(step) <= _CLOSE * v:
            break
    return mean * (1 - v)


def _cost_and_mean(write: units.Quantity, mtbf: units.Quantity) -> tuple[float, float]:
    """Return the time of a checkpoint and the mean time between failures in seconds, or refuse them."""
    cost = units.time(write, "write")
    mean = units.time(mtbf, "mtbf")
    if not mean > 0:
        raise ValueError(f'mtbf must be > 0 s, got {mtbf!r}; a mean time of 3.09 h is "3.09 h"')
    if cost >= _LONGEST * mean:
        raise ValueError(
            f"write must be below {_LONGEST:g} times the mtbf of {units.format_time(mean)}, got {write!r}; "
            "no checkpoint would ever be written"
        )
    return cost, mean
