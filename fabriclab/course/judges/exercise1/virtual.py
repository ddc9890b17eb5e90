"""Ranks with virtual clocks, which show a benchmark what real machines do, and always in the same way.

Nothing really waits: a call advances the clocks of the ranks. Afterwards the log of the calls tells what other
methods would have measured in the same run.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.course.judges import Proxy, Rng
from fabriclab.course.questions.files import message

# illustrative: all figures of this file make a virtual machine, none is of a real one.
_BARRIER = 8e-6  # from the last rank that comes until all go on [s]
_START = 0.5e-6  # within which they go on [s]
_SKEW = 200e-6  # within which ranks come from work of their own [s]
_CLOCKS = 0.7e-3  # by which clocks differ, at least [s]
_FIRST = 20.0  # times longer than others is the first all-reduce
_DECAY = 1.5  # all-reduces in which the excess falls by a factor of e
WARM = 9  # all-reduces after which less than 5 % of it is left
_OUTLIER = 40.0  # times longer than others is an outlier
_FROM = 12  # the first all-reduces, which are no outliers
_EVERY = 33  # of as many later ones, one is an outlier
_NOISE = 0.02  # standard deviation, relative
MOST_CALLS = 3_000  # of all methods of one group: a count, since no seconds pass here


class AllReduceRecord(NamedTuple):
    """The record of an all-reduce in the log."""

    number: int  # number of all-reduces before it
    size: float  # [B]
    ready: float  # time at which the last rank arrived [s]
    cold: float  # extra time because it is one of the first [s]
    slow: float  # extra time because it is an outlier [s]


class VirtualRanks:
    """A few ranks, some of which are always late; each call acts on all ranks at once."""

    def __init__(self, rng: Rng, who: NDArray[np.bool_]) -> None:
        """Draw the speed of the machine, and how late the ranks in ``who`` are."""
        n = len(who)
        self._rng = rng
        self.n_ranks = n
        # illustrative: of no real machine
        self.alpha = rng.uniform(16e-6, 24e-6)  # [s]
        # illustrative: of no real machine
        self.rate = rng.uniform(4e9, 6e9)  # [B/s]
        self.late = self.alpha * rng.uniform(1.2, 1.4) * who  # (n,) [s]
        self.clock = _CLOCKS * (1 + rng.permutation(n)) + rng.uniform(
            0, _CLOCKS / 10, n
        )  # (n,) [s]
        self._true = rng.uniform(0, _SKEW, n)  # (n,) where each rank is in true time [s]
        self._done = 0  # all-reduces
        self._next_outlier = _FROM  # its number among the all-reduces
        self._calls = 0
        self._last = "now"  # call
        self.log: list[tuple[str, Any]] = []

    def proxy(self) -> Proxy:
        """Return the object that a learner's code may use."""
        return Proxy(self, ("barrier", "all_reduce", "now"), {"n_ranks": self.n_ranks})

    def base(self, size: float) -> float:
        """Return the time [s] from the arrival of the last rank to the end, without noise."""
        return float(self.alpha + size / self.rate)

    def true(self, size: float) -> float:
        """Return the time [s] of the whole group, which includes waiting for late ranks."""
        return self.base(size) + float(self.late.max())

    def barrier(self) -> None:
        """Wait until every rank has arrived; all but late ranks then continue within half a microsecond."""
        self._count()
        before = self._true.max()
        self._true[:] = before + _BARRIER + self._rng.uniform(0, _START, self.n_ranks)
        self._note("barrier", float(self._true.max() - before))
        self._true += self.late

    def all_reduce(self, size: float) -> None:
        """Sum ``size`` bytes over all ranks; the call ends for all of them at the same time."""
        self._count()
        size = units.size(size)
        length = self.base(size) * (1 + _NOISE * min(max(self._rng.normal(), -2.5), 2.5))
        if self._last == "all_reduce":
            self._true += self.late
        ready = float(self._true.max())
        cold = length * (_FIRST - 1) * float(np.exp(-self._done / _DECAY))
        slow = 0.0
        if self._done == self._next_outlier:
            slow = (length + cold) * (_OUTLIER - 1)
        self._true[:] = ready + length + cold + slow
        self._note("all_reduce", AllReduceRecord(self._done, size, ready, cold, slow))

        self._done += 1
        if self._done >= _FROM and (self._done - _FROM) % _EVERY == 0:
            self._next_outlier = self._done + int(self._rng.integers(_EVERY))

    def now(self) -> list[float]:
        """Return the time that each rank's clock shows [s]; after an all-reduce, each rank then has other work."""
        self._count()
        shown = self._true + self.clock
        if self._last == "all_reduce":
            self._true += self._rng.uniform(0, _SKEW, self.n_ranks) + self.late
        self._note("now", shown)
        return list(shown.tolist())

    def _count(self) -> None:
        self._calls += 1
        if self._calls > MOST_CALLS:
            raise ValueError(message(1, "latency.calls", most=f"{MOST_CALLS:,}"))

    def _note(self, call: str, about: Any) -> None:
        self._last = call
        self.log.append((call, about))
