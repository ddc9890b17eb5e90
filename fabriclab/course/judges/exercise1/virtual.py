"""Ranks with a virtual clock: what a benchmark of an all-reduce meets on real machines, the same on every run.

Nothing waits: a call moves the clocks of the ranks. The log of the calls tells afterwards what other ways to
benchmark would have given on this very run.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.course.judges import Proxy, Rng
from fabriclab.course.questions.files import message

# illustrative: all figures of this file make a virtual machine, none is of a real one. [s]
_BARRIER, _START, _SKEW, _CLOCKS = 8e-6, 0.5e-6, 200e-6, 0.7e-3
# the first round is 20 times longer; after 9 rounds less than 5% is left of that
_FIRST, _DECAY, WARM = (20.0, 1.5, 9)
_OUTLIER, _FROM, _EVERY, _NOISE = 40.0, 12, 33, 0.02  # one round of 33, never one of the first 12
MOST_CALLS = 3_000  # of all methods of one group: a count, since no seconds pass here


class Op(NamedTuple):
    """An all-reduce: its number and size, when the last rank had come, what being early or an outlier cost [s]."""

    number: int
    size: float
    ready: float
    cold: float
    slow: float


class VirtualRanks:
    """A few ranks, some of them always late, whose calls are made for all ranks at once."""

    def __init__(self, rng: Rng, who: NDArray[np.bool_]) -> None:
        """Draw how fast the machine is and how late ``who`` of its ranks are."""
        self._rng, self.n_ranks = rng, len(who)
        # illustrative: of no real machine
        self.alpha, self.rate = rng.uniform(16e-6, 24e-6), rng.uniform(4e9, 6e9)
        self.late = self.alpha * rng.uniform(1.2, 1.4) * who  # (n,)
        self._done, self._calls, self._last = 0, 0, "now"
        self.clock = _CLOCKS * (1 + rng.permutation(self.n_ranks)) + rng.uniform(
            0, _CLOCKS / 10, self.n_ranks
        )
        self._true = rng.uniform(0, _SKEW, self.n_ranks)
        self._slow = _FROM
        self.log: list[tuple[str, Any]] = []

    def proxy(self) -> Proxy:
        """Return what a learner's code may use."""
        return Proxy(self, ("barrier", "all_reduce", "now"), {"n_ranks": self.n_ranks})

    def base(self, size: float) -> float:
        """Return the time [s] from the last rank's start to the end, without noise."""
        return float(self.alpha + size / self.rate)

    def true(self, size: float) -> float:
        """Return the time [s] of the whole group, which waits for those who are late."""
        return self.base(size) + float(self.late.max())

    def barrier(self) -> None:
        """Wait until every rank is here; all go on within half a microsecond, but for who is late."""
        self._count()
        before = self._true.max()
        self._true[:] = before + _BARRIER + self._rng.uniform(0, _START, self.n_ranks)
        self._note("barrier", float(self._true.max() - before))
        self._true += self.late

    def all_reduce(self, size: float) -> None:
        """Sum ``size`` bytes over all ranks; it ends for all at once."""
        self._count()
        size = units.size(size)
        length = self.base(size) * (1 + _NOISE * min(max(self._rng.normal(), -2.5), 2.5))
        if self._last == "all_reduce":
            self._true += self.late
        ready, cold = (
            float(self._true.max()),
            length * (_FIRST - 1) * float(np.exp(-self._done / _DECAY)),
        )
        slow = (length + cold) * (_OUTLIER - 1) * (self._done == self._slow)
        self._true[:] = ready + length + cold + slow
        self._note("all_reduce", Op(self._done, size, ready, cold, slow))
        self._done += 1
        if self._done >= _FROM and (self._done - _FROM) % _EVERY == 0:
            self._slow = self._done + int(self._rng.integers(_EVERY))

    def now(self) -> list[float]:
        """Return what the clock of each rank shows [s]; after an all-reduce each then has work of its own."""
        self._count()
        shown = self._true + self.clock
        if self._last == "all_reduce":
            self._true += self._rng.uniform(0, _SKEW, self.n_ranks) + self.late
        self._note("now", shown)
        return [float(t) for t in shown]

    def _count(self) -> None:
        self._calls += 1
        if self._calls > MOST_CALLS:
            raise ValueError(message(1, "latency.calls", most=f"{MOST_CALLS:,}"))

    def _note(self, call: str, about: Any) -> None:
        self._last = call
        self.log.append((call, about))
