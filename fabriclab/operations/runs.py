"""A training run played many times: failures at random, restarts, checkpoints, spare servers and repairs.

All draws go forward together, one failure of each at a time, so a run with hundreds of failures takes hundreds of steps
on arrays. Leaves out failures while the job waits for a server, failures of idle spares, and servers that fail again
and again.

Examples
--------
90 days on 16,384 GPUs at the rate of Llama 3, with 40 spare servers:

>>> from fabriclab import operations
>>> from fabriclab.units import format_share
>>> job = operations.Checkpoints("60 s", "600 s", operations.fleet("llama3").published)
>>> runs = operations.play_runs(job, wall="90 d", spares=40, draws=200, seed=1)
>>> round(float(runs.failures.mean())), format_share(runs.goodput.mean(), 1)
(688, '83.7 %')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from fabriclab import units
from fabriclab.core import Floats, Ints
from fabriclab.operations.checkpoints import Checkpoints
from fabriclab.operations.rates import figure

__all__ = ["Repair", "Runs", "play_runs", "spares_for"]

_DAY = 86400.0  # [s]
_MOST_FAILURES = 1e6  # of a draw; each takes a step on arrays, so this is minutes


class Repair(NamedTuple):
    """How long a server is away after a failure: a log-normal time by its mean and its median. [s].

    Most repairs are a reboot and some wait for a part, so the mean is far above the median.
    """

    mean: float
    median: float

    @classmethod
    def published(cls) -> Self:
        """Return the repairs of the InfiniteHBD trace: a mean of 5.5 days and a median of 0.85 days."""
        return cls(
            mean=float(figure("FA0041")["value"]) * _DAY,
            median=float(figure("FA0042")["value"]) * _DAY,
        )

    def draw(self, rng: np.random.Generator, n: int) -> Floats:
        """Return n times of repair, (n,). [s]."""
        sigma = np.sqrt(2 * np.log(self.mean / self.median))
        return np.asarray(self.median * np.exp(sigma * rng.standard_normal(n)))


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of one job, a column for each draw, (D,); all times in seconds.

    Parameters
    ----------
    wall : (D,) float64
        Length of the run; the sum of the parts below. [s]
    work, checkpoint : (D,) float64
        Work that was kept, and the writing of the checkpoints that were kept. [s]
    lost, restart : (D,) float64
        Work and writing that failures made void, and restarts. [s]
    waiting : (D,) float64
        Time without enough working servers. [s]
    open : (D,) float64
        Work since the last checkpoint at the end of a run of fixed length. [s]
    failures : (D,) int64
        How often the job was interrupted.
    """

    wall: Floats
    work: Floats
    checkpoint: Floats
    lost: Floats
    restart: Floats
    waiting: Floats
    open: Floats
    failures: Ints

    @property
    def goodput(self) -> Floats:
        """Share of each run that is work that was kept, (D,). 0..1."""
        return np.asarray(self.work / self.wall)

    def error(self, column: str = "wall") -> float:
        """Return the standard error of the mean of a column, such as ``"wall"`` or ``"goodput"``."""
        values = np.asarray(getattr(self, column), dtype=np.float64)
        if values.size < 2:
            raise ValueError(
                f"a standard error needs two draws or more, got {values.size}; raise draws"
            )
        return float(values.std(ddof=1) / np.sqrt(values.size))

    def __repr__(self) -> str:
        """Show the number of draws, their mean length, goodput and failures."""
        days = float(self.wall.mean()) / _DAY
        return (
            f"<Runs: {self.wall.size} draws of {days:.4g} days, goodput {units.format_share(self.goodput.mean(), 1)} "
            f"({units.format_share(self.goodput.min(), 1)} to {units.format_share(self.goodput.max(), 1)}), "
            f"{self.failures.mean():.4g} failures>"
        )


def play_runs(
    checkpoints: Checkpoints,
    interval: units.Quantity | None = None,
    *,
    wall: units.Quantity | None = None,
    work: units.Quantity | None = None,
    spares: int | None = None,
    repair: Repair | None = None,
    repaired: float = 1.0,
    draws: int = 1000,
    seed: int = 0,
) -> Runs:
    """Play a job many times, for a fixed time or until its work is done.

    Parameters
    ----------
    checkpoints : Checkpoints
        Times of a checkpoint and a restart, and the mean time between failures of the job.
    interval : float or str, optional
        Work between two checkpoints; the best one unless given. [s], > 0
    wall, work : float or str
        Length of the run, or the work that it has to do, rounded up to whole intervals; one of the two. [s], > 0
    spares : int, optional
        Servers that stand by. A server that fails is repaired and becomes a spare; without a spare the job waits for
        the first one to come back. Without a number there is always one. >= 0
    repair : Repair, optional
        How long repairs take; those of the InfiniteHBD trace unless given.
    repaired : float
        Share of failures after which a server goes to repair; the other failures need a restart only. 0..1
    draws, seed : int
        Number of runs, and the seed of all of them. >= 1, >= 0

    Raises
    ------
    ValueError
        If both or neither of ``wall`` and ``work`` are given, or a number is outside its range.
    """
    spacing = checkpoints.best if interval is None else units.time(interval, "interval")
    checkpoints.goodput(spacing)  # refuses an interval at which the job never ends
    length, segments = _goal(wall, work, spacing)
    _check_failures(checkpoints, spacing, length, segments)
    if not 0 <= repaired <= 1:
        raise ValueError(f"repaired must be within 0..1, got {repaired!r}; a half is 0.5")
    game = _Game(
        checkpoints=checkpoints,
        spacing=spacing,
        length=length,
        segments=segments,
        spares=None if spares is None else units.count(spares, "spares", 0),
        repair=_checked(Repair.published() if repair is None else repair),
        repaired=repaired,
        draws=units.count(draws, "draws"),
        rng=np.random.default_rng(units.count(seed, "seed", 0)),
    )
    while game.playing.size:
        game.step()
    return game.result()


def spares_for(
    checkpoints: Checkpoints,
    repair: Repair | None = None,
    *,
    share: float = 0.95,
    repaired: float = 1.0,
) -> int:
    """Return how many spares a job needs so that one is at hand in a given share of the failures, in the long run.

    The number of servers in repair is Poisson, whatever the times of repair are like (M/G/infinity), with the mean of
    failures in the mean time of a repair. Counts failures as often as if the job never stood still.

    Parameters
    ----------
    checkpoints : Checkpoints
        The job.
    repair : Repair, optional
        How long repairs take; those of the InfiniteHBD trace unless given.
    share : float
        How often there shall be a spare. 0..1, ends excluded
    repaired : float
        Share of failures after which a server goes to repair. 0..1

    References
    ----------
    .. [1] L. Takacs, Introduction to the Theory of Queues, 1962, chapter 3: the infinite-server queue.
    """
    from scipy.stats import poisson

    if not 0 < share < 1:
        raise ValueError(f"share must be within 0..1, such as 0.95, got {share!r}")
    mean = _checked(Repair.published() if repair is None else repair).mean
    away = repaired * mean / checkpoints.mtbf
    return int(poisson.ppf(share, away)) + 1  # the server that fails now, beside those away


def _goal(
    wall: units.Quantity | None, work: units.Quantity | None, spacing: float
) -> tuple[float, float]:
    """Return the length of a run [s] and its number of intervals; the one that was not asked for is infinite."""
    if (wall is None) == (work is None):
        raise ValueError(
            f'give one of wall and work, got wall={wall!r} and work={work!r}; write wall="90 d" or work="17 d"'
        )
    if wall is not None:
        length = units.time(wall, "wall")
        if not length > 0:
            raise ValueError(f'wall must be > 0 s, got {wall!r}; write "90 d"')
        return length, np.inf
    assert work is not None
    seconds = units.time(work, "work")
    if not seconds > 0:
        raise ValueError(f'work must be > 0 s, got {work!r}; write "17 d"')
    return np.inf, float(np.ceil(seconds / spacing * (1 - 1e-12)))


def _check_failures(
    checkpoints: Checkpoints, spacing: float, length: float, segments: float
) -> None:
    """Refuse a run with so many failures that it would not be over in minutes."""
    if np.isfinite(length):
        failures = length / checkpoints.mtbf
    else:
        failures = float(checkpoints.failures(segments * spacing, spacing))
    if failures > _MOST_FAILURES:
        raise ValueError(
            f"a run must have at most {_MOST_FAILURES:g} failures, got {failures:.3g} to be expected with "
            f"{units.format_time(checkpoints.mtbf)} between them; ask for less work or a shorter interval"
        )


def _checked(repair: Repair) -> Repair:
    """Return times of repair, or refuse them."""
    mean = units.time(repair.mean, "repair.mean")
    median = units.time(repair.median, "repair.median")
    if not 0 < median <= mean:
        raise ValueError(
            f"repair must have 0 < median <= mean, got a median of {median:g} s and a mean of {mean:g} s; "
            "write Repair(mean, median)"
        )
    return Repair(mean, median)


class _Game:
    """Runs under way: columns of times, and which draws still play."""

    def __init__(
        self,
        *,
        checkpoints: Checkpoints,
        spacing: float,
        length: float,
        segments: float,
        spares: int | None,
        repair: Repair,
        repaired: float,
        draws: int,
        rng: np.random.Generator,
    ) -> None:
        """Set all clocks to 0: every draw begins to work, with all spares at hand."""
        self.job = checkpoints
        self.spacing = spacing
        self.length = length
        self.segments = segments
        self.repair = repair
        self.repaired = repaired
        self.rng = rng
        self.playing = np.arange(draws)
        self.clock = np.zeros(draws)
        self.done = np.zeros(draws)  # segments with a checkpoint
        self.lost = np.zeros(draws)
        self.restart = np.zeros(draws)
        self.waiting = np.zeros(draws)
        self.open = np.zeros(draws)
        self.failures = np.zeros(draws, dtype=np.int64)
        self.before_work = 0.0  # the restart before the next work: none at the start [s]
        # When each spare server is at hand, (D, S); a server that has failed takes the place of its spare.
        self.back = None if spares is None else np.zeros((draws, spares))

    def step(self) -> None:
        """Let every draw go on to its next failure or to its end."""
        i = self.playing
        uptime = self.rng.exponential(self.job.mtbf, i.size)
        segment = self.spacing + self.job.write
        missing = (self.segments - self.done[i]) * segment  # until the work is done [s]
        end = np.minimum(self.length - self.clock[i], self.before_work + missing)
        ends = end <= uptime
        spent = np.where(ends, end, uptime)

        restart = np.minimum(spent, self.before_work)
        running = spent - restart
        done = np.floor(running / segment * (1 + 1e-12))
        rest = np.maximum(running - done * segment, 0.0)
        self.clock[i] += spent
        self.restart[i] += restart
        self.done[i] += done
        self.open[i] += np.where(ends, rest, 0.0)
        self.lost[i] += np.where(ends, 0.0, rest)

        self.before_work = self.job.restart
        self.playing = i[~ends]
        self.failures[self.playing] += 1
        if self.back is not None:
            self._replace(self.back)

    def _replace(self, back: Floats) -> None:
        """Give every draw that has failed a working server, and let it wait until there is one."""
        i = self.playing[self.rng.random(self.playing.size) < self.repaired]
        if not i.size:
            return
        returns = self.clock[i] + self.repair.draw(self.rng, i.size)
        ready = returns.copy()
        if back.shape[1]:
            first = back[i].argmin(axis=1)
            earliest = back[i, first]
            is_spare = earliest <= returns  # otherwise the failed server is back before any other
            ready = np.where(is_spare, earliest, returns)
            back[i, first] = np.where(is_spare, returns, earliest)
        wait = np.maximum(ready - self.clock[i], 0.0)
        wait = np.minimum(wait, self.length - self.clock[i])
        self.waiting[i] += wait
        self.clock[i] += wait
        over = self.clock[self.playing] >= self.length
        self.playing = self.playing[~over]

    def result(self) -> Runs:
        """Return the columns of all runs."""
        return Runs(
            wall=self.clock,
            work=self.done * self.spacing,
            checkpoint=self.done * self.job.write,
            lost=self.lost,
            restart=self.restart,
            waiting=self.waiting,
            open=self.open,
            failures=self.failures,
        )
