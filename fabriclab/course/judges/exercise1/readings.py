"""How a number was read off the clocks of virtual ranks, and what the same calls give without each of its mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.course.judges import Floats
from fabriclab.course.questions.files import message

from .virtual import WARM, Op, VirtualRanks

WITHIN = 0.05
FEW = 5  # rounds: the median of fewer is moved by two outliers
_MOST = 25  # rounds that a learner may have left out at the start, of those that were timed
_WAYS: Mapping[str, Callable[..., Any]] = {
    "median": np.median,
    "mean": np.mean,
    "min": np.min,
    "max": np.max,
    "first": lambda a, axis=0: a[0],
    "sum": np.sum,
    "p99": lambda a, axis=0: np.percentile(a, 99, axis),
    "spread": np.ptp,
}
# A mistake with the whole number, and what the right one was divided by.
_SCALES = (
    *(("other unit of time", unit) for unit in (1e-3, 1e-6, 1e-9)),
    ("time doubled", 0.5),
    ("half of the time", 2.0),
)
_SPREAD = "spread for the time"
_TOO_FEW = "too few rounds"
_WAY_FLAWS = dict.fromkeys(("max", "p99"), "slowest round as typical") | {"spread": _SPREAD}
# The mistake with ranks -> the figure over ranks; without one it is the last rank.
_OVER: Mapping[str, Callable[..., Any]] = {
    "": np.max,
    "fastest rank": np.min,
    "average over ranks": np.mean,
    "median over ranks": np.median,
    _SPREAD: np.ptp,
}


class Round(NamedTuple):
    """What lies between two readings of the clocks with at least one all-reduce between them."""

    begin: Floats
    end: Floats
    ops: list[Op]
    undo: dict[str, Any]  # mistake -> how much later each rank would have begun without it [s]


class Recipe(NamedTuple):
    """A way from the readings to one number; only "total for one operation" is both in ``way`` and in ``each``."""

    ranks: str  # "" is the last rank of each round, else a mistake
    column: int  # of the numbers that a way gives; 0 is the last rank of each round
    way: str  # over the rounds
    start: int  # rounds left out at the start
    each: bool  # divided by the number of all-reduces between two readings
    scale: tuple[str, float] = ("", 1.0)

    def without(self) -> dict[str, Recipe]:
        """Return the recipe without each of its mistakes."""
        out = {self.scale[0]: self._replace(scale=("", 1.0))} if self.scale[0] else {}
        if not self.each or self.way == "sum":
            way = "mean" if self.way == "sum" else self.way
            out["total for one operation"] = self._replace(way=way, each=True)
        if self.way in _WAY_FLAWS:
            out[_WAY_FLAWS[self.way]] = self._replace(way="median")
        return out | ({self.ranks: self._replace(ranks="", column=0)} if self.ranks else {})


def _rounds(ranks: VirtualRanks) -> list[Round]:
    """Return what was timed."""
    early = ranks.late.max() - ranks.late
    out, begin, before, ops = list[Round](), None, "", list[Op]()
    aligned, leading, cost = False, False, 0.0
    for call, about in ranks.log:
        if call == "all_reduce":
            ops.append(about)
        elif call == "barrier":
            leading, cost = leading or not ops, cost + about * bool(ops)
        else:
            if begin is not None and ops:
                skew = ops[0].ready - early - (begin - ranks.clock)
                undo = {
                    "barrier timed": cost + skew * leading,
                    "no barrier": skew * (not aligned and not leading),
                }
                undo[
                    "first round only"
                    if len(ops) == 1 and ops[0].number < WARM
                    else "warm-up averaged in"
                ] = sum(op.cold for op in ops)
                out.append(
                    Round(
                        begin,
                        about,
                        ops,
                        undo | {"outliers averaged in": sum(op.slow for op in ops)},
                    )
                )
            begin, aligned, leading, cost, ops = about, before == "barrier", False, 0.0, []
        before = call
    return out


class Readings:
    """What a learner's calls to one group have read."""

    def __init__(self, ranks: VirtualRanks, size: float) -> None:
        """Take the log of the group; only all-reduces of the size that is asked tell anything about it."""
        self.truth, n, rounds = ranks.true(size), ranks.n_ranks, _rounds(ranks)
        self.rounds = [r for r in rounds if all(op.size == size for op in r.ops)]
        self._missed = "another size" if rounds else "nothing timed"
        self._scales = (("", 1.0), *_SCALES, ("divided by the ranks", float(n)))
        (last, *over), clocks = _OVER, ["two clocks compared"] * (n * (n - 1) + 2)
        one = [f"one rank only/{r}" for r in range(n)]
        # of the numbers that `_boiled` returns
        self._kinds = [last, *one, *over, *clocks, *_OVER, "median over ranks"]
        self.begin, self.end = (
            np.array([getattr(r, side) for r in self.rounds]) for side in ("begin", "end")
        )
        self.count = np.array([[len(r.ops)] for r in self.rounds])

    def _times(self, each: bool, undo: tuple[str, ...] = ()) -> Floats:
        """Return what one could read off each round, as in `_read_off`."""
        count = self.count if each else 1
        begin = np.array(
            [sum((r.undo.get(name, 0.0) for name in undo), r.begin) for r in self.rounds]
        )
        return _read_off(begin / count, self.end / count)

    def _value(self, recipe: Recipe, undo: tuple[str, ...] = ()) -> float:
        numbers = _boiled(
            self._times(recipe.each, undo)[recipe.start :], recipe.way, self.begin.shape[1]
        )
        return float(numbers[recipe.column] / recipe.scale[1])

    def recipes(self, got: float) -> list[Recipe]:
        """Return the recipes that give a number, those with the fewest mistakes only; else the nearest one."""
        ways, rows = zip(*self._all(), strict=True)
        values = np.array(rows)

        def matching(those: Any, scale: tuple[str, float] = ("", 1.0)) -> list[Recipe]:
            return [
                Recipe(self._kinds[j], int(j), *ways[i])._replace(scale=scale)
                for i, j in np.argwhere(those)
            ]

        found = [
            recipe
            for scale in self._scales
            for recipe in matching(abs(got * scale[1] - values) <= 1e-6 * abs(values), scale)
        ]
        # Of those that differ only in the rounds left out, the one that leaves out fewest; one rank before all ranks.
        found = [*{recipe._replace(start=0): recipe for recipe in reversed(found)}.values()][::-1]
        found.sort(key=lambda recipe: recipe.column)
        if found:
            strange = [
                len(r.without()) + (r.way == "first") + 0.5 * bool(r.scale[0]) for r in found
            ]
            return [recipe for recipe, n in zip(found, strange, strict=True) if n == min(strange)]
        near_by = (values > 0) & (abs(values - got) < 0.2 * got)
        far = [
            (distance + 0.05 * len(recipe.without()), recipe)
            for distance, recipe in zip(
                abs(np.log(values[near_by] / got)), matching(near_by), strict=True
            )
            if recipe.ranks != "two clocks compared"
        ]
        return [recipe for distance, recipe in sorted(far)[:1] if distance < 0.15]

    def _all(self) -> Iterator[tuple[tuple[str, int, bool], Floats]]:
        for each in (True, False)[: 1 + bool((self.count > 1).any())]:
            times = self._times(each)
            for start in range(min(len(self.rounds), _MOST)):
                for way in _WAYS:
                    if (way != "first" or start == 0) and (
                        way != "sum" or len(self.rounds) - start > 1
                    ):
                        yield (way, start, each), _boiled(times[start:], way, self.begin.shape[1])

    def off(self, value: float) -> float:
        """Return how far a number is from the truth, as a ratio."""
        return abs(math.log(value / self.truth)) if value > 0 else math.inf

    def mistakes(self, got: float) -> dict[str, float]:
        """Return the mistakes that cost most in a number, with what the same calls give without each of them.

        What does not bring the number clearly closer is not the cause, whatever the calls look like.
        """
        if not self.rounds:
            return {self._missed: self.truth}
        few = {_TOO_FEW: self.truth} if len(self.rounds) < FEW else {}
        if few and abs(got / self.truth - 1) <= WITHIN:
            return few
        out = dict[str, float]()
        for recipe in self.recipes(got):
            less = {name: self._value(other) for name, other in recipe.without().items()}
            used = self.rounds[recipe.start :][: 1 if recipe.way == "first" else None]
            single = len(used) == 1 and "first round only" in used[0].undo
            cold = ("first round only",) * single or ("first round only", "warm-up averaged in")
            for names in (("barrier timed",), ("no barrier",), cold, ("outliers averaged in",)):
                less[names[-1]] = self._value(recipe, names)
            least = min(map(self.off, less.values()))
            if least < 0.8 * self.off(got) or least <= WITHIN:
                most = 1.1 * max(least, WITHIN)
                out |= {
                    name: value
                    for name, value in less.items()
                    if self.off(value) <= most and name not in out
                }
        if not out and any(abs(got * unit / self.truth - 1) < 0.25 for _, unit in _SCALES[:3]):
            out["other unit of time"] = self.truth
        return out | few

    def step(self, got: float, name: str) -> str:
        """Return what the learner's own calls give without a mistake, or without all of them."""
        if not self.rounds or name == _TOO_FEW:
            return ""
        found = self.mistakes(got)
        if name not in found:
            everything = tuple({name for r in self.rounds for name in r.undo})
            right = self._value(Recipe("", 0, "median", 0, True), everything)
            return message(1, "latency.all", right=units.format_time(right))
        said = [message(1, "latency.step", undone=units.format_time(found[name]))]
        if name.partition("/")[0] in ("one rank only", *_OVER):
            spent = (self.end - self.begin) / self.count
            one = spent[np.argsort(spent.max(axis=1))[len(spent) // 2]]
            said.insert(
                0, message(1, "latency.ranks", times=", ".join(map(units.format_time, one)))
            )
        if self.off(found[name]) > WITHIN:
            said.append(message(1, "latency.more"))
        return " ".join(said)

    def remark(self, got: float) -> str:
        """Return what to say to a right answer that is a median with slow first rounds in it."""
        found = self.recipes(got) if self.rounds else []
        cold = all(
            r.way == "median" and self.rounds[r.start].ops[0].number < WARM // 2 for r in found
        )
        return message(1, "latency.cold") if found and cold else ""


def _read_off(begin: Floats, end: Floats) -> Floats:
    """Return by round: the last rank, each rank, other figures over ranks, what two clocks give (R, 1 + n + ...)."""
    spent, first, last = end - begin, begin[:, :, None], end[:, None, :]
    ends = [end.max(axis=1) - begin.min(axis=1), end.min(axis=1) - begin.max(axis=1)]
    pairs = (last - first)[:, ~np.eye(spent.shape[1], dtype=bool)]
    last_rank, *over = (of(spent, axis=1) for of in _OVER.values())
    return np.column_stack([last_rank, spent, *over, *ends, pairs])


def _boiled(times: Floats, way: str, n: int) -> Floats:
    """Return what a way over rounds gives: each column of `_read_off`, figures over ranks of that, all in one."""
    ranks, each = slice(1, n + 1), _WAYS[way](times, axis=0)
    pooled = np.median(times[:, ranks]) if way == "median" else math.nan
    return np.array([*each, *(of(each[ranks]) for of in _OVER.values()), pooled])
