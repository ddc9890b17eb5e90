"""Ranks with a virtual clock: what a benchmark of an all-reduce meets on real machines, the same on every run.

Nothing waits: a call moves the clocks of the ranks. The log of the calls tells afterwards what other ways to
benchmark would have given on this very run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.exercises import Proxy
from fabriclab.texts import text

Floats = NDArray[np.float64]
# illustrative: all figures of this file make a virtual machine, none is of a real one. [s]
_BARRIER, _START, _SKEW, _CLOCKS = 5e-6, 0.5e-6, 200e-6, 0.7e-3
_FIRST, _DECAY, _WARM = 20.0, 1.5, 9  # the first round is 20 times longer; after 9 rounds less than 5% is left of that
_OUTLIER, _FROM, _EVERY, _NOISE = 40.0, 12, 33, 0.02  # one round of 33, never one of the first 12
_WAYS: Final = (np.median, np.mean, np.min)
_MOST: Final = 25  # rounds that a learner may have left out at the start, of those that were timed


class Round(NamedTuple):
    """What lies between two readings of the clocks with at least one all-reduce between them."""

    begin: Floats
    end: Floats
    rounds: list[tuple[int, bool]]  # number and whether it was an outlier, of each all-reduce
    aligned: bool  # a barrier came right before it
    inside: bool  # a barrier came within it


class VirtualRanks:
    """A few ranks, one of them always late, whose calls are made for all ranks at once."""

    def __init__(self, rng: np.random.Generator, late_rank: int = -1) -> None:
        """Draw the machine: how many ranks, how fast and how late."""
        self._rng, self.n_ranks = rng, int(rng.integers(4, 7))
        # illustrative: of no real machine
        self.alpha, self.rate = rng.uniform(16e-6, 24e-6), rng.uniform(4e9, 6e9)
        self.late = self.alpha * rng.uniform(0.8, 1.0)
        self._late_rank, self._done, self._last = late_rank, 0, "now"
        self._clock = _CLOCKS * (1 + rng.permutation(self.n_ranks)) + rng.uniform(0, _CLOCKS / 10, self.n_ranks)
        self._true = rng.uniform(0, _SKEW, self.n_ranks)
        self._slow = _FROM
        self.log: list[tuple[str, Any]] = []

    def proxy(self) -> Proxy:
        """Return what a learner's code may use."""
        return Proxy(self, ("barrier", "all_reduce", "now"), {"n_ranks": self.n_ranks})

    def base(self, size: float) -> float:
        """Return the time [s] from the last rank's start to the end, without noise."""
        return float(self.alpha + size / self.rate)

    def barrier(self) -> None:
        """Wait until every rank is here; all go on within half a microsecond, but for the late one."""
        self._true[:] = self._true.max() + _BARRIER + self._rng.uniform(0, _START, self.n_ranks)
        self._note("barrier")

    def all_reduce(self, size: float) -> None:
        """Sum ``size`` bytes over all ranks; it ends for all at once."""
        length = self.base(units.size(size)) * (1 + _NOISE * float(np.clip(self._rng.normal(), -2.5, 2.5)))
        if self._last == "all_reduce":
            self._true[self._late_rank] += self.late
        slow = self._done == self._slow
        self._true[:] = self._true.max() + length * (1 + (_FIRST - 1) * np.exp(-self._done / _DECAY)) * _OUTLIER**slow
        self._note("all_reduce", (self._done, slow))
        self._done += 1
        if self._done >= _FROM and (self._done - _FROM) % _EVERY == 0:
            self._slow = self._done + int(self._rng.integers(_EVERY))

    def now(self) -> list[float]:
        """Return what the clock of each rank shows [s]; after an all-reduce each then has work of its own."""
        shown = self._true + self._clock
        if self._last == "all_reduce":
            self._true += self._rng.uniform(0, _SKEW, self.n_ranks)
            self._true[self._late_rank] += self.late
        self._note("now", shown)
        return [float(t) for t in shown]

    def _note(self, call: str, about: Any = None) -> None:
        if call == "barrier":
            self._true[self._late_rank] += self.late
        self._last = call
        self.log.append((call, about))

    def rounds(self) -> list[Round]:
        """Return what was timed."""
        out, begin, done, before, aligned, inside = list[Round](), None, list[Any](), "", False, False
        for call, about in self.log:
            if call != "now":
                done += [about] if call == "all_reduce" else []
                before, inside = call, inside or call == "barrier"
                continue
            if begin is not None and done:
                out.append(Round(begin, about, done, aligned, inside))
            begin, done, aligned, inside = about, [], before == "barrier", False
        return out

    def mistakes(self, got: float, size: float) -> Iterator[str]:
        """Yield the mistakes that give this very number on this run, and then those that the log shows."""
        truth, rounds = self.base(size) + self.late, self.rounds()
        if not rounds:
            yield "nothing timed"
            return
        ops, most = [r.rounds for r in rounds], len(rounds) / 2
        facts = {
            "barrier timed": sum(r.inside for r in rounds) > most,
            "no barrier": sum(not r.aligned for r in rounds) > most,
            "first round only": len(ops) == 1 and ops[0][0][0] == 0,
        }
        by_rank, by_round = _by_rank(rounds), _by_round(rounds)
        if np.isclose(by_round.pop(""), got, rtol=1e-6, atol=0).any():
            by_rank = {}  # the last rank of each round counts; what one round says is also what one rank says
        ways: dict[str, Any] = {**by_rank, **facts, **by_round}
        for name, values in ways.items():
            if values is True or (values is not False and np.isclose(values, got, rtol=1e-6, atol=0).any()):
                yield name
        if any(abs(got * unit / truth - 1) < 0.25 for unit in (1e-3, 1e-6, 1e-9)):
            yield "other unit of time"
        for name, value in (
            ("fastest rank", self.base(size)),
            ("average over ranks", truth - self.late / self.n_ranks),
        ):
            if abs(got / value - 1) < 0.03:
                yield name
        if sum(k < _WARM for each in ops for k, _ in each) > sum(map(len, ops)) / 4:
            yield "warm-up averaged in"
        if any(slow for each in ops for _, slow in each):
            yield "outliers averaged in"

    def seen(self) -> dict[str, Any]:
        """Return what the learner's readings say of the timed round in the middle, for a worked step."""
        rounds = self.rounds()
        if not rounds:
            return {}
        one = rounds[len(rounds) // 2]
        times, ops = one.end - one.begin, len(one.rounds)
        last = float(times.max())
        spent = ", ".join(map(units.format_time, times))
        return {"times": spent, "ops": ops, "rounds": len(rounds), "last": last, "each": last / ops}

    def remark(self) -> str:
        """Return what to say to a right answer whose timed rounds have the slow first ones among them."""
        cold = any(k < _WARM for r in self.rounds() for k, _ in r.rounds)
        return text("ex1.latency.cold") if cold else ""


def _by_rank(rounds: list[Round]) -> dict[str, Floats]:
    """Return mistakes with ranks, clocks and numbers of operations, each with all numbers that it may give."""
    count = np.array([[len(r.rounds)] for r in rounds])
    begin, end = (np.array([getattr(r, side) for r in rounds]) for side in ("begin", "end"))
    spent, longest = (end - begin) / count, (end - begin).max(axis=1)  # (R, n), (R,)
    forms = {f"one rank only/{r}": _over_rounds(spent[:, r]) for r in range(spent.shape[1])}
    for name, over in (("fastest rank", np.min), ("average over ranks", np.mean)):
        each = [over(way(spent[w:], axis=0)) for w in _starts(spent) for way in _WAYS]
        forms[name] = np.concatenate([_over_rounds(over(spent, axis=1)), each])
    pairs = [end[:, i] - begin[:, j] for i in range(end.shape[1]) for j in range(end.shape[1]) if i != j]
    pairs += [end.max(axis=1) - begin.min(axis=1), end.min(axis=1) - begin.max(axis=1)]
    forms["two clocks compared"] = np.concatenate([_over_rounds(pair / count[:, 0]) for pair in pairs])
    total = [longest[w:].sum() for w in _starts(longest) if len(longest) - w > 1]
    forms["total for one operation"] = np.array([*total, *(_over_rounds(longest) if (count > 1).any() else ())])
    return forms


def _by_round(rounds: list[Round]) -> dict[str, Floats]:
    """Return mistakes with the rounds, where each counts as long as its last rank takes; "" holds what may be right."""
    spent = np.array([(r.end - r.begin) / len(r.rounds) for r in rounds])
    longest, cold = spent.max(axis=1), np.array([r.rounds[0][0] < _WARM for r in rounds])
    means = np.array([[longest[w:].mean(), spent[w:].mean(axis=0).max()] for w in _starts(spent)])
    mixed = np.array([cold[w:].any() for w in _starts(spent)])
    ranks = [way(spent[w:], axis=0).max() for w in _starts(spent) for way in _WAYS]
    return {
        "": np.concatenate([longest, _over_rounds(longest), ranks]),
        "first round only/of many": longest[:1] if cold[0] else longest[:0],
        "warm-up averaged in": means[mixed].ravel(),
        "outliers averaged in": means[~mixed].ravel(),
        "slowest round as typical": np.array([longest[w:].max() for w in _starts(longest)]),
    }


def _starts(table: Floats) -> range:
    return range(min(len(table), _MOST))


def _over_rounds(column: Floats) -> Floats:
    """Return the first value, and median, mean and minimum of those that stay when some at the start are left out."""
    return np.array([column[0], *(way(column[w:]) for w in _starts(column) for way in _WAYS)])
