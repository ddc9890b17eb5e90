"""How a number was read off the clocks of virtual ranks, and what the same calls give without each of its mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.exercises.virtual import WARM, Op, VirtualRanks
from fabriclab.texts import text

Floats = NDArray[np.float64]
WITHIN: Final = 0.05
_MOST: Final = 25  # rounds that a learner may have left out at the start, of those that were timed
_WAYS: Final[Mapping[str, Callable[..., Any]]] = {
    "median": np.median, "mean": np.mean, "min": np.min, "max": np.max, "first": lambda a, axis=0: a[0], "sum": np.sum,
}  # fmt: skip
_UNITS: Final = (1.0, 1e-3, 1e-6, 1e-9)
_WAY_FLAWS: Final = {"max": "slowest round as typical", "sum": "total for one operation"}
_RANKS: Final = ("one rank only", "fastest rank", "average over ranks")


class Round(NamedTuple):
    """What lies between two readings of the clocks with at least one all-reduce between them."""

    begin: Floats
    end: Floats
    ops: list[Op]
    undo: dict[str, Any]  # mistake -> how much later each rank would have begun without it [s]


class Recipe(NamedTuple):
    """A way from the readings to one number; only "total for one operation" is both in ``way`` and in ``each``."""

    ranks: str  # "" is the last rank of each round, else a mistake
    place: int  # which of several numbers of that kind
    way: str  # over the rounds
    start: int  # rounds left out at the start
    each: bool  # divided by the number of all-reduces between two readings
    unit: float

    def without(self) -> dict[str, Recipe]:
        """Return the recipe without each of its mistakes."""
        out = {} if self.unit == 1 else {"other unit of time": self._replace(unit=1)}
        if not self.each or self.way == "sum":
            way = "mean" if self.way == "sum" else self.way
            out["total for one operation"] = self._replace(way=way, each=True)
        if self.way == "max":
            out[_WAY_FLAWS["max"]] = self._replace(way="median")
        return out | ({self.ranks: self._replace(ranks="", place=0)} if self.ranks else {})


def _rounds(ranks: VirtualRanks) -> list[Round]:
    """Return what was timed."""
    late = ranks.late * (np.arange(ranks.n_ranks) != ranks.late_rank)
    out, begin, before, ops = list[Round](), None, "", list[Op]()
    aligned, leading, cost = False, False, 0.0
    for call, about in ranks.log:
        if call == "all_reduce":
            ops.append(about)
        elif call == "barrier":
            leading, cost = leading or not ops, cost + about * bool(ops)
        else:
            if begin is not None and ops:
                skew = ops[0].ready - late - (begin - ranks.clock)
                undo = {"barrier timed": cost + skew * leading, "no barrier": skew * (not aligned and not leading)}
                undo["first round only" if len(ops) == 1 and ops[0].number < WARM else "warm-up averaged in"] = sum(
                    op.cold for op in ops)  # fmt: skip
                out.append(Round(begin, about, ops, undo | {"outliers averaged in": sum(op.slow for op in ops)}))
            begin, aligned, leading, cost, ops = about, before == "barrier", False, 0.0, []
        before = call
    return out


class Readings:
    """What a learner's calls to one group have read."""

    def __init__(self, ranks: VirtualRanks, size: float) -> None:
        """Take the log of the group."""
        self.truth, self.n = ranks.base(size) + ranks.late, ranks.n_ranks
        self.rounds = _rounds(ranks)
        self.begin, self.end = (np.array([getattr(r, side) for r in self.rounds]) for side in ("begin", "end"))
        self.count = np.array([[len(r.ops)] for r in self.rounds])

    def _numbers(self, way: str, start: int, each: bool, undo: tuple[str, ...] = ()) -> dict[str, list[float]]:
        """Return all numbers that readings may be boiled down to, by the mistake with ranks that is in them."""
        count, begin = self.count[start:] if each else 1, self.begin[start:]
        if undo:
            begin = np.array([sum((r.undo.get(name, 0.0) for name in undo), r.begin) for r in self.rounds[start:]])
        return _boiled(begin / count, self.end[start:] / count, _WAYS[way])

    def _value(self, recipe: Recipe, undo: tuple[str, ...] = ()) -> float:
        numbers = self._numbers(recipe.way, recipe.start, recipe.each, undo)
        return numbers[recipe.ranks][recipe.place] / recipe.unit

    def recipes(self, got: float) -> list[Recipe]:
        """Return the recipes that give a number, those with the fewest mistakes only; else the nearest one."""
        known = [*self._all()]
        found = [recipe._replace(unit=unit) for recipe, value in known for unit in _UNITS
                 if abs(got * unit - value) <= 1e-6 * abs(value)]  # fmt: skip
        if found:
            strange = [len(recipe.without()) + (recipe.way == "first") for recipe in found]
            return [recipe for recipe, n in zip(found, strange, strict=True) if n == min(strange)]
        far = [(abs(math.log(got / value)) + 0.05 * len(recipe.without()), recipe) for recipe, value in known
               if got > 0 < value and recipe.ranks != "two clocks compared"]  # fmt: skip
        return [recipe for distance, recipe in sorted(far)[:1] if distance < 0.15]

    def _all(self) -> Iterator[tuple[Recipe, float]]:
        for each in (True, False)[: 1 + bool((self.count > 1).any())]:
            for start in range(min(len(self.rounds), _MOST)):
                for way in _WAYS if start == 0 else [way for way in _WAYS if way != "first"]:
                    if way != "sum" or len(self.rounds) - start > 1:
                        for ranks, values in self._numbers(way, start, each).items():
                            for place, value in enumerate(values):
                                yield Recipe(ranks, place, way, start, each, 1.0), value

    def off(self, value: float) -> float:
        """Return how far a number is from the truth, as a ratio."""
        return abs(math.log(value / self.truth)) if value > 0 else math.inf

    def mistakes(self, got: float) -> dict[str, float]:
        """Return the mistakes that cost most in a number, with what the same calls give without each of them.

        What does not bring the number clearly closer is not the cause, whatever the calls look like.
        """
        if not self.rounds:
            return {"nothing timed": self.truth}
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
                out |= {name: value for name, value in less.items() if self.off(value) <= most and name not in out}
        if not out and any(abs(got * unit / self.truth - 1) < 0.25 for unit in _UNITS[1:]):
            out["other unit of time"] = self.truth
        return out

    def step(self, got: float, name: str) -> str:
        """Return what the learner's own calls give without a mistake, or without all of them."""
        if not self.rounds:
            return ""
        found = self.mistakes(got)
        if name not in found:
            everything = tuple({name for r in self.rounds for name in r.undo})
            right = self._value(Recipe("", 0, "median", 0, True, 1.0), everything)
            return text("ex1.latency.all", right=units.format_time(right))
        said = [text("ex1.latency.step", undone=units.format_time(found[name]))]
        if name.partition("/")[0] in _RANKS:
            spent = (self.end - self.begin) / self.count
            one = spent[np.argsort(spent.max(axis=1))[len(spent) // 2]]
            said.insert(0, text("ex1.latency.ranks", times=", ".join(map(units.format_time, one))))
        if self.off(found[name]) > WITHIN:
            said.append(text("ex1.latency.more"))
        return " ".join(said)

    def remark(self, got: float) -> str:
        """Return what to say to a right answer that is a median with slow first rounds in it."""
        found = self.recipes(got) if self.rounds else []
        cold = all(r.way == "median" and self.rounds[r.start].ops[0].number < WARM // 2 for r in found)
        return text("ex1.latency.cold") if found and cold else ""


def _boiled(begin: Floats, end: Floats, way: Callable[..., Any]) -> dict[str, list[float]]:
    """Return the numbers of times (R, n) by the mistake with ranks in them; "" is the last rank."""
    spent = end - begin
    alone = way(spent, axis=0)
    pairs = way(end[:, :, None] - begin[:, None, :], axis=0)[~np.eye(spent.shape[1], dtype=bool)]
    ends = [way(end.max(axis=1) - begin.min(axis=1)), way(end.min(axis=1) - begin.max(axis=1))]
    return {
        "": [way(spent.max(axis=1)), alone.max()],
        **{f"one rank only/{r}": [value] for r, value in enumerate(alone)},
        "fastest rank": [way(spent.min(axis=1)), alone.min()],
        "average over ranks": [way(spent.mean(axis=1)), alone.mean()],
        "two clocks compared": [*pairs, *ends],
    }  # fmt: skip
