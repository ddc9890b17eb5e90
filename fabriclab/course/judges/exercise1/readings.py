"""Explain how a learner read a time off the clocks of virtual ranks, and what its mistakes cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.course.judges import Floats
from fabriclab.course.questions.files import message

from .virtual import WARM, AllReduceRecord, VirtualRanks

WITHIN = 0.05
FEW = 5  # least number of rounds; two outliers would shift the median of fewer
_MOST = 25  # most timed rounds that a learner may have left out at the start


class Rounds:
    """The times (R, columns) [s] of rounds, sorted once for all statistics that need it: hundreds are taken of them."""

    def __init__(self, times: Floats) -> None:
        self.times = times

    @cached_property
    def ordered(self) -> Floats:
        """Each column by itself from its least time to its largest."""
        return np.sort(self.times, axis=0)

    def quantile(self, share: float) -> Floats:
        """Return the time that a share of the rounds stays below, as ``numpy.quantile`` interpolates it."""
        below, part = divmod(share * (len(self.times) - 1), 1)
        low = self.ordered[int(below)]
        high = self.ordered[math.ceil(below + part)]
        return np.asarray(low + part * (high - low))


# How all rounds become one number.
_STATISTICS: Mapping[str, Callable[[Rounds], Floats]] = {
    "median": lambda rounds: rounds.quantile(0.5),
    "mean": lambda rounds: rounds.times.mean(axis=0),
    "min": lambda rounds: rounds.ordered[0],
    "max": lambda rounds: rounds.ordered[-1],
    "first": lambda rounds: rounds.times[0],
    "sum": lambda rounds: rounds.times.sum(axis=0),
    "p99": lambda rounds: rounds.quantile(0.99),
    "spread": lambda rounds: rounds.ordered[-1] - rounds.ordered[0],
}


class Scale(NamedTuple):
    """A mistake in the scale of the number, and the divisor that it applied to the right one."""

    mistake: str
    divisor: float


_NO_SCALE = Scale("", 1.0)
_UNITS = (
    Scale("other unit of time", 1e-3),
    Scale("other unit of time", 1e-6),
    Scale("other unit of time", 1e-9),
)
_SCALES = (*_UNITS, Scale("time doubled", 0.5), Scale("half of the time", 2.0))
_SPREAD = "spread for the time"
_TOO_FEW = "too few rounds"
_TOTAL = "total for one operation"
_CLOCKS = "two clocks compared"
_FIRST_ONLY = "first round only"
_COLD = "warm-up averaged in"
_OUTLIERS = "outliers averaged in"
# Statistic over rounds -> the mistake that it is.
_STATISTIC_FLAWS = {
    "max": "slowest round as typical",
    "p99": "slowest round as typical",
    "spread": _SPREAD,
}
# Mistake over ranks -> what it takes of the ranks' times; no mistake takes the last rank.
_OVER: Mapping[str, Callable[..., Any]] = {
    "": np.max,
    "fastest rank": np.min,
    "average over ranks": np.mean,
    "median over ranks": np.median,
    _SPREAD: np.ptp,
}


class Round(NamedTuple):
    """A timed round: two readings of the clocks with at least one all-reduce between them."""

    begin: Floats
    end: Floats
    ops: list[AllReduceRecord]
    undo: dict[str, Any]  # mistake -> how much later each rank begins without it [s]


class Recipe(NamedTuple):
    """A way to turn readings into one number.

    The mistake `_TOTAL` appears as the statistic ``sum``, or as a false ``each``.
    """

    ranks: str  # "" is the last rank of each round, else a mistake
    column: int  # column of the numbers; 0 is the last rank of each round
    statistic: str  # statistic over the rounds
    start: int  # rounds left out at the start
    each: bool  # whether it is divided by the number of all-reduces in a round
    scale: Scale = _NO_SCALE

    def without(self) -> dict[str, Recipe]:
        """Return mistake -> this recipe without that mistake."""
        found = dict[str, Recipe]()
        if self.scale.mistake:
            found[self.scale.mistake] = self._replace(scale=_NO_SCALE)
        if self.statistic == "sum":
            found[_TOTAL] = self._replace(statistic="mean", each=True)
        elif not self.each:
            found[_TOTAL] = self._replace(each=True)
        if self.statistic in _STATISTIC_FLAWS:
            found[_STATISTIC_FLAWS[self.statistic]] = self._replace(statistic="median")
        if self.ranks:
            found[self.ranks] = self._replace(ranks="", column=0)
        return found

    def oddity(self) -> float:
        """Return how unlikely a recipe is: the number of its mistakes, with a little more for some."""
        oddity = float(len(self.without()))
        if self.statistic == "first":
            oddity += 1
        if self.scale.mistake:
            oddity += 0.5
        return oddity


class _RoundReader:
    """Rounds in the making: each call of the log is a method, and a reading of the clocks ends a round."""

    def __init__(self, ranks: VirtualRanks) -> None:
        self.clock = ranks.clock
        self.early = ranks.late.max() - ranks.late  # (n,) before the latest rank [s]
        self.rounds = list[Round]()
        self._previous_call = ""
        self._start(begin=None, aligned=False)

    def _start(self, begin: Floats | None, aligned: bool) -> None:
        """Begin a round with a reading of the clocks, or with none at the start of the log."""
        self._begin = begin
        self._aligned = aligned  # a barrier came just before the reading
        self._barrier_first = False  # a barrier came after it, before any all-reduce
        self._barrier_time = 0.0  # of the barriers after an all-reduce [s]
        self._ops = list[AllReduceRecord]()

    def read(self, log: Sequence[tuple[str, Any]]) -> list[Round]:
        """Return the rounds of a log."""
        for call, about in log:
            if call == "all_reduce":
                self._ops.append(about)
            elif call == "barrier":
                self._barrier(about)
            else:
                self._now(about)
            self._previous_call = call
        return self.rounds

    def _barrier(self, seconds: float) -> None:
        if self._ops:
            self._barrier_time += seconds
        else:
            self._barrier_first = True

    def _now(self, shown: Floats) -> None:
        if self._begin is not None and self._ops:
            self.rounds.append(Round(self._begin, shown, self._ops, self._undo(self._begin)))
        self._start(shown, aligned=self._previous_call == "barrier")

    def _undo(self, begin: Floats) -> dict[str, Any]:
        """Return for each mistake how much later each rank would have begun without it [s]."""
        skew = (
            self._ops[0].ready - self.early - (begin - self.clock)
        )  # (n,) waiting for the last rank
        undo: dict[str, Any] = {"barrier timed": self._barrier_time, "no barrier": 0.0}
        if self._barrier_first:
            undo["barrier timed"] = self._barrier_time + skew
        elif not self._aligned:
            undo["no barrier"] = skew

        single = len(self._ops) == 1 and self._ops[0].number < WARM
        undo[_FIRST_ONLY if single else _COLD] = sum(op.cold for op in self._ops)
        undo[_OUTLIERS] = sum(op.slow for op in self._ops)
        return undo


class Readings:
    """All that a learner's calls to one group of ranks have read."""

    def __init__(self, ranks: VirtualRanks, size: float) -> None:
        """Read the log of the group; only all-reduces of the size asked for count."""
        self.truth = ranks.true(size)
        rounds = _RoundReader(ranks).read(ranks.log)
        self.rounds = [r for r in rounds if all(op.size == size for op in r.ops)]
        self._missed = "another size" if rounds else "nothing timed"
        self._scales = (
            _NO_SCALE,
            *_SCALES,
            Scale("divided by the ranks", float(ranks.n_ranks)),
        )
        self._kinds = _mistakes_of_columns(ranks.n_ranks)
        self.begin = np.array([r.begin for r in self.rounds])  # (R, n) [s]
        self.end = np.array([r.end for r in self.rounds])  # (R, n) [s]
        self.count = np.array([[len(r.ops)] for r in self.rounds])  # (R, 1)

    def _times(self, each: bool, undo: Sequence[str] = ()) -> Floats:
        """Return the times that can be read off each round, as in `_read_off`, without the mistakes in ``undo``."""
        begins = list[Floats]()
        for r in self.rounds:
            begin = r.begin
            for mistake in undo:
                begin = begin + r.undo.get(mistake, 0.0)
            begins.append(begin)
        count = self.count if each else 1
        return _read_off(np.array(begins) / count, self.end / count)

    def _value(self, recipe: Recipe, undo: Sequence[str] = ()) -> float:
        """Return the number that a recipe gives, without the mistakes in ``undo``."""
        rounds = Rounds(self._times(recipe.each, undo)[recipe.start :])
        (numbers,) = _summarised(rounds, [recipe.statistic], self.begin.shape[1])
        return float(numbers[recipe.column] / recipe.scale.divisor)

    def recipes(self, got: float) -> list[Recipe]:
        """Return the recipes with the fewest mistakes that give a number or, if none gives it, the nearest recipe."""
        recipes, values = self._all

        exact = list[Recipe]()
        for scale in self._scales:
            matching = abs(got * scale.divisor - values) <= 1e-6 * abs(values)
            exact += [recipe._replace(scale=scale) for recipe in self._matching(recipes, matching)]
        if exact:
            exact = _fewest_left_out(exact)
            exact.sort(key=lambda recipe: recipe.column)  # one rank before all ranks
            least = min(recipe.oddity() for recipe in exact)
            return [recipe for recipe in exact if recipe.oddity() == least]

        near_by = (values > 0) & (abs(values - got) < 0.2 * got)
        distances = abs(np.log(values[near_by] / got)).tolist()
        candidates = list[tuple[float, Recipe]]()
        for distance, recipe in zip(distances, self._matching(recipes, near_by), strict=True):
            if recipe.ranks != _CLOCKS:
                candidates.append((distance + 0.05 * len(recipe.without()), recipe))
        if not candidates:
            return []
        distance, nearest = min(candidates)
        return [nearest] if distance < 0.15 else []

    def _matching(self, recipes: Sequence[Recipe], those: NDArray[np.bool_]) -> list[Recipe]:
        """Return the recipes that a mask over all recipes and columns selects."""
        return [
            recipes[i]._replace(ranks=self._kinds[j], column=int(j)) for i, j in np.argwhere(those)
        ]

    @cached_property
    def _all(self) -> tuple[list[Recipe], Floats]:
        """Each recipe for the first column, and the numbers (recipes, columns) [s] that it gives for all columns."""
        recipes = list[Recipe]()
        values = list[Floats]()
        divided = [True]
        if (self.count > 1).any():
            divided.append(False)
        for each in divided:
            times = self._times(each)
            for start in range(min(len(self.rounds), _MOST)):
                statistics = list(_STATISTICS)
                if start > 0:
                    statistics.remove("first")
                if len(self.rounds) - start <= 1:
                    statistics.remove("sum")
                for statistic in statistics:
                    recipes.append(Recipe("", 0, statistic, start, each))
                values.append(_summarised(Rounds(times[start:]), statistics, self.begin.shape[1]))
        return recipes, np.concatenate(values)

    def off(self, value: float) -> float:
        """Return how far a number is from the truth: the absolute logarithm of their ratio, infinite unless above 0."""
        return abs(math.log(value / self.truth)) if value > 0 else math.inf

    def mistakes(self, got: float) -> dict[str, float]:
        """Return the mistakes that changed a number most, each with the number that the same calls give without it.

        A mistake is left out if undoing it does not bring the number clearly closer to the truth.
        """
        if not self.rounds:
            return {self._missed: self.truth}

        few = dict[str, float]()
        if len(self.rounds) < FEW:
            few[_TOO_FEW] = self.truth
            if abs(got / self.truth - 1) <= WITHIN:
                return few

        found = dict[str, float]()
        for recipe in self.recipes(got):
            without = self._without_each(recipe)
            least = min(map(self.off, without.values()))
            if least >= 0.8 * self.off(got) and least > WITHIN:
                continue
            most = 1.1 * max(least, WITHIN)
            for mistake, value in without.items():
                if self.off(value) <= most:
                    found.setdefault(mistake, value)

        if not found and any(abs(got * unit.divisor / self.truth - 1) < 0.25 for unit in _UNITS):
            found["other unit of time"] = self.truth
        return found | few

    def _without_each(self, recipe: Recipe) -> dict[str, float]:
        """Return what the calls give without each mistake of a recipe, and without each mistake of the calls [s]."""
        without = {mistake: self._value(other) for mistake, other in recipe.without().items()}
        without["barrier timed"] = self._value(recipe, ["barrier timed"])
        without["no barrier"] = self._value(recipe, ["no barrier"])

        used = self.rounds[recipe.start :]
        if recipe.statistic == "first":
            used = used[:1]
        if len(used) == 1 and _FIRST_ONLY in used[0].undo:
            without[_FIRST_ONLY] = self._value(recipe, [_FIRST_ONLY])
        else:
            without[_COLD] = self._value(recipe, [_FIRST_ONLY, _COLD])
        without[_OUTLIERS] = self._value(recipe, [_OUTLIERS])
        return without

    def step(self, got: float, name: str) -> str:
        """Return a sentence on what the learner's own calls give without a mistake, or without all mistakes."""
        if not self.rounds or name == _TOO_FEW:
            return ""
        found = self.mistakes(got)
        if name not in found:
            everything = dict.fromkeys(mistake for r in self.rounds for mistake in r.undo)
            median = Recipe("", 0, "median", 0, True)
            right = self._value(median, list(everything))
            return message(1, "latency.all", right=units.format_time(right))

        said = list[str]()
        if name.partition("/")[0] in ("one rank only", *_OVER):
            spent = (self.end - self.begin) / self.count  # (R, n) [s]
            typical = spent[np.argsort(spent.max(axis=1))[len(spent) // 2]]
            times = ", ".join(map(units.format_time, typical))
            said.append(message(1, "latency.ranks", times=times))
        said.append(message(1, "latency.step", undone=units.format_time(found[name])))
        if self.off(found[name]) > WITHIN:
            said.append(message(1, "latency.more"))
        return " ".join(said)

    def remark(self, got: float) -> str:
        """Return a remark for a right answer that is a median over rounds that include slow first ones."""
        found = self.recipes(got) if self.rounds else []
        if not found:
            return ""
        for recipe in found:
            first = self.rounds[recipe.start].ops[0]
            if recipe.statistic != "median" or first.number >= WARM // 2:
                return ""
        return message(1, "latency.cold")


def _fewest_left_out(recipes: Sequence[Recipe]) -> list[Recipe]:
    """Of recipes that differ only in the rounds left out, keep the one that leaves out fewest."""
    fewest = dict[Recipe, Recipe]()
    for recipe in reversed(recipes):  # those that leave out most come last
        fewest[recipe._replace(start=0)] = recipe
    return list(reversed(fewest.values()))


# The numbers of a round, and then of all rounds, stand in columns: for ``n`` ranks
# - the last rank, and each rank;
# - the other figures over ranks;
# - what one gets from the clocks of two ranks;
# - and, only of all rounds: each figure over the ranks' own statistics, and the median of all times.


def _mistakes_of_columns(n: int) -> list[str]:
    """Return the mistake that each column of `_summarised` stands for, which is none for the last rank."""
    last, *over = _OVER
    ranks = [f"one rank only/{rank}" for rank in range(n)]
    clocks = [_CLOCKS] * (2 + n * (n - 1))
    return [last, *ranks, *over, *clocks, *_OVER, "median over ranks"]


def _read_off(begin: Floats, end: Floats) -> Floats:
    """Return all times that can be read off each round, from the clocks of ``n`` ranks at its begin and end.

    Parameters
    ----------
    begin, end : array of shape (R, n)
        Times that the clocks show. [s]

    Returns
    -------
    array of shape (R, 1 + n + 4 + 2 + n (n - 1))
        The columns listed above, without those for all rounds together. [s]
    """
    spent = end - begin  # (R, n)
    last_rank, *over = (figure(spent, axis=1) for figure in _OVER.values())
    longest = end.max(axis=1) - begin.min(axis=1)
    shortest = end.min(axis=1) - begin.max(axis=1)
    between = (
        end[:, None, :] - begin[:, :, None]
    )  # (R, n, n) from the begin of one rank to the end of another
    others = ~np.eye(spent.shape[1], dtype=bool)
    return np.column_stack([last_rank, spent, *over, longest, shortest, between[:, others]])


def _summarised(rounds: Rounds, statistics: Sequence[str], n: int) -> Floats:
    """Return a row for each statistic over rounds: the columns of `_read_off`, and those for all rounds together."""
    each = np.array([_STATISTICS[name](rounds) for name in statistics])  # (statistics, columns)
    ranks = slice(1, n + 1)
    over = [figure(each[:, ranks], axis=1) for figure in _OVER.values()]
    pooled = np.full(len(statistics), math.nan)
    if "median" in statistics:
        pooled[statistics.index("median")] = np.median(rounds.times[:, ranks])
    return np.column_stack([each, *over, pooled])
