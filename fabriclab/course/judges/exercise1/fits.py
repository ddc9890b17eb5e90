"""Exercise 1, what a sweep over sizes tells: a fit, when it may be used, and where two libraries change places."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fabriclab.catalog import published
from fabriclab.catalog.tables import rows_of
from fabriclab.course.judges import Ask, Floats, Rng, Verdict
from fabriclab.course.judges.shared.numbers import near, number
from fabriclab.course.judges.shared.parts import (
    Call,
    JudgedCase,
    NumberPart,
    QuestionPart,
    apart,
    judge,
    shown,
)
from fabriclab.course.questions.files import message
from fabriclab.registry import register
from fabriclab.units import format_size, format_time

# ex1-c -----------------------------------------------------------------------------------------------------------


def _noise(rng: Rng, n: int, width: float = 0.015) -> Floats:
    return 1 + width * np.clip(rng.normal(size=n), -2, 2)


class Fitted(NamedTuple):
    """A sweep of one protocol, and what a fit of it must give."""

    sizes: Any
    times: Any
    alpha: float  # [s]
    beta: float  # [B/s]


def _sweep(rng: Rng) -> Fitted:
    """Return a sweep of which the plain straight line misses alpha by half or more."""
    while True:
        alpha, beta, sizes = (
            float(rng.uniform(5e-6, 30e-6)),
            float(rng.uniform(10e9, 90e9)),
            2.0 ** np.arange(3, 31),
        )
        times = (alpha + sizes / beta) * _noise(rng, sizes.size)
        if not 0.5 < np.polyfit(sizes, times, 1)[1] / alpha < 1.5:
            return Fitted(sizes, times, alpha, beta)


def _lines(sizes: Any, times: Any) -> list[Any]:
    """Return one straight line through all points, fitted plainly and by relative error: (slope, start) each."""
    return [np.polyfit(sizes, times, 1, w=w) for w in (np.ones(sizes.size), 1 / times)]


def _ways(sizes: Floats, times: Floats, home: Any, h: int, size: float) -> list[tuple[str, float]]:
    """Return what known wrong ways foretell for a size of protocol ``h``, each by the name of its mistake."""
    count = np.bincount(home, minlength=4)
    here = home == h if count[h] > 1 else home >= 0
    s, t = sizes[here], times[here]
    near_by = [
        np.argmin(abs(s - size)),
        np.argmin(abs(np.log(s / size))),
        0,
        s.size - 1,
        *np.clip(np.searchsorted(s, size) - np.array([1, 0]), 0, s.size - 1),
    ]
    others = [
        line
        for k in np.flatnonzero(count > 1)
        if k != h
        for line in _lines(sizes[home == k], times[home == k])
    ]
    bent = [np.polyfit(np.log(x), np.log(y), 1) for x, y in ((sizes, times), (s, t))]
    return [
        *(("one straight line", float(np.polyval(line, size))) for line in _lines(sizes, times)),
        *(("protocol of another size", float(np.polyval(line, size))) for line in others),
        *(("nearest size", float(t[i])) for i in near_by),
        *(("rate of one size", float(t[i] * size / s[i])) for i in near_by),
        *(("power law", math.exp(np.polyval(line, math.log(size)))) for line in bent),
        ("power law", math.exp(np.interp(math.log(size), np.log(s), np.log(t)))),
        ("average of a protocol", float(t.mean())),
    ]


Sweep = tuple[Any, Any, list[int]]  # sizes, times, and the sizes at which the protocol changes


class Asked(NamedTuple):
    """A size to predict."""

    size: int
    time: float  # that is right [s]
    points: int  # sizes at which its protocol was measured


def _protocols(rng: Rng) -> tuple[Sweep, list[Asked]]:
    """Return a sweep of four protocols, and sizes to ask.

    One protocol is measured at each power of two, one at two sizes, one at one size and one at none. Each of the known
    wrong ways misses by more than 20 % somewhere.
    """
    while True:
        alpha = rng.uniform(4e-6, 8e-6) * np.cumprod([1, *rng.uniform(3, 4, 3)])
        # illustrative: of no real library
        beta = rng.uniform(1e9, 2e9) * np.cumprod([1, *rng.uniform(4, 6, 3)])
        # Time jumps up a little there.
        changes = np.diff(alpha) / -np.diff(1 / beta) * rng.uniform(0.75, 0.9, 3)
        sizes, gap = 2.0 ** np.arange(6, 29), int(rng.integers(1, 3))
        home = np.searchsorted(changes, sizes, "right")
        single = rng.permutation([gap, 3])[0]
        sizes = sizes[
            np.sort(
                [
                    *np.flatnonzero(home == 0),
                    *np.flatnonzero(home == 3 - gap)[[0, -1]],
                    np.flatnonzero(home == single)[0],
                ]
            )
        ]
        home = np.searchsorted(changes, sizes, "right")
        times = (alpha[home] + sizes / beta[home]) * _noise(rng, sizes.size)
        asked = [
            (h, lo * (hi / lo) ** rng.uniform(a, a + 0.3))
            for h in (0, 3 - gap)
            for a in (0.3, 0.65)
            for lo, hi in [(sizes[home == h][0], sizes[home == h][-1])]
        ]
        asked += [
            (gap, changes[gap - 1] * rng.uniform(2.1, 3)),
            (3, changes[2] * rng.uniform(2.1, 6)),
        ]
        out = [
            Asked(int(s), float(alpha[h] + s / beta[h]), int((home == h).sum())) for h, s in asked
        ]
        off = [
            [abs(value / time - 1) for _, value in _ways(sizes, times, home, h, size)]
            for (h, _), (size, time, points) in zip(asked, out, strict=True)
            if points > 1
        ]
        if np.max(off, axis=0).min() > 0.2:
            return (sizes, times, [int(c) for c in changes]), out


class PredictPart(QuestionPart):
    """A time at a size that was not measured: a number where two points make a line, else none or an interval."""

    within = 0.1

    def __init__(self, sweep: Sweep, asked: Sequence[Asked]) -> None:
        sizes, times, changes = sweep
        calls = [Call("predict", (sizes, times, changes, one.size)) for one in asked]
        super().__init__("ex1-c", "predict", 0.4, calls)
        self.sizes = sizes
        self.times = times
        self.asked = asked
        self.ends = [0.0, *map(float, changes), math.inf]
        self.protocols = np.searchsorted(changes, sizes, "right")  # of the sizes that were measured
        self.places = [int(np.searchsorted(changes, one.size, "right")) for one in asked]

    def read(self, case: int, value: Any) -> Any:
        """Return a time, an interval as a pair, or None; NaN says the same as None."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        if isinstance(value, list | tuple) and len(value) == 2:
            return tuple(number(end, "time") for end in value)
        return number(value, "time")

    def is_right(self, case: int, answer: Any) -> bool:
        """Return whether a prediction is right."""
        asked = self.asked[case]
        if asked.points > 1:
            return near(answer, asked.time, self.within)
        if not isinstance(answer, tuple):
            return answer is None
        low, high = answer
        return bool(low <= asked.time <= high <= 3 * low)

    def mistakes(self, case: int, answer: Any) -> list[str]:
        """Return what is wrong with the kind of answer, and which known ways foretell this time."""
        asked = self.asked[case]
        span = isinstance(answer, tuple)
        kinds = {
            "refused what was measured": asked.points > 1 and answer is None,
            "interval for a number": asked.points > 1 and span,
            "interval too wide": span and answer[1] > 3 * answer[0],
            "interval misses": span,
            "one point for a line": asked.points == 1,
            "extrapolated over a change": asked.points < 2,
        }
        of_kind = [mistake for mistake, fits in kinds.items() if fits]
        foretold = _ways(self.sizes, self.times, self.protocols, self.places[case], asked.size)
        ways = sorted(
            (abs(answer - value), mistake)
            for mistake, value in foretold
            if near(answer, value, 0.01)
        )
        of_way = [mistake for _, mistake in ways]
        found = [*of_kind, *of_way] if asked.points < 2 else [*of_way, *of_kind]
        if any(near(answer, asked.time * factor, 0.1) for factor in (1e3, 1e6)):
            return ["other unit of time", *found]
        return found

    def off(self, case: int, answer: Any) -> str:
        """Return what is right: the time, or that nobody can know it."""
        asked = self.asked[case]
        words = {"call": self.written(case), "got": shown(answer, "time")}
        want = format_time(asked.time) if asked.points > 1 else message(1, "predict.none")
        return message(1, "predict.off", **words, want=want)

    def step(self, case: int, answer: Any, mistake: str) -> str:
        """Return what was measured in the protocol of this size, and what follows from it."""
        asked, place = self.asked[case], self.places[case]
        here = self.protocols == place
        end = message(1, "predict.few")
        if asked.points > 1:
            line = np.polyval(_lines(self.sizes[here], self.times[here])[1], asked.size)
            end = message(1, "predict.line", line=format_time(float(line)))
        high = self.ends[place + 1]
        return message(
            1,
            "predict.step",
            n=asked.points,
            size=float(asked.size),
            low=self.ends[place],
            high=format_size(high) if high < math.inf else "∞",
            end=end,
        )


def _fitted(sweep: Fitted) -> dict[str, float]:
    """Return the quantities that right and wrong fits of a sweep are made of."""
    s, t = sweep.sizes, sweep.times
    return {
        "alpha": sweep.alpha,
        "beta": sweep.beta,
        "line": _lines(s, t)[0][1],
        "mean": np.mean(t),
        "rates": np.mean(s / t),
        "small": s[0],
        "first": t[0],
        "large": s[-1],
        "last": t[-1],
        "most": s[-1] / (t[-1] - t[0]),
    }


@register("question", "ex1-c", example=lambda rng: _protocols(rng)[0])
def model(ask: Ask, rng: Rng) -> Verdict:
    """Judge a fit of alpha and beta, the size of half the rate, and when a fit may be used."""
    sweeps = apart(lambda: _sweep(rng), lambda sweep: [sweep.alpha, sweep.beta], 1.4)
    fits = [JudgedCase((sweep.sizes, sweep.times), _fitted(sweep)) for sweep in sweeps]
    # illustrative: from fast to slow starts and links
    pairs = [(float(rng.uniform(2e-6, 40e-6)), float(rng.uniform(5e9, 90e9))) for _ in range(3)]
    halves = [
        JudgedCase((alpha, beta), {"alpha": alpha, "beta": beta, "product": alpha * beta})
        for alpha, beta in pairs
    ]
    sweep, asked = _protocols(rng)
    return judge(
        ask,
        NumberPart("ex1-c", "alpha", fits),
        NumberPart("ex1-c", "beta", fits),
        NumberPart("ex1-c", "half", halves),
        PredictPart(sweep, asked),
    )


# ex1-e -----------------------------------------------------------------------------------------------------------

Two = tuple[Any, Any, Any]  # sizes, and times of two libraries


def _published(rng: Rng, row: Mapping[str, str]) -> Two:
    """Return sizes and times of two published sweeps, some sizes at the ends left out."""
    one, other = published.load(row["one"]), published.load(row["other"])
    sizes, i, j = np.intersect1d(one.size, other.size, return_indices=True)
    keep = slice(int(rng.integers(3)), sizes.size - int(rng.integers(3)))
    return sizes[keep], one.time[i][keep], other.time[j][keep]


def _drawn(rng: Rng, flips: int, noise: float) -> Two:
    """Return two drawn sweeps that change places so many times, an odd number for good."""
    while True:
        sizes, (a, b) = (
            2.0 ** np.arange(6, 27),
            rng.uniform(1.15, 1.5, 2) ** (1, 1 if flips % 2 else -0.3),
        )
        # illustrative: of no real library
        start, rate = (rng.uniform(8e-6, 20e-6), 10 ** rng.uniform(8.5, 11))
        one = (start + sizes / rate) * _noise(rng, sizes.size, noise)
        other = (a * start + sizes / rate / b) * _noise(rng, sizes.size, noise)
        turns = np.flatnonzero(np.diff(one < other))
        if turns.size == flips and 0 < turns[0] <= turns[-1] < sizes.size - 2:
            return sizes, one, other


def _places(sizes: Floats, a: Floats, b: Floats) -> tuple[float, float] | None:
    """Return the measured sizes between which two sweeps change places for good, or None."""
    turns = np.flatnonzero(np.diff(a < b))
    return (float(sizes[turns[0]]), float(sizes[turns[-1] + 1])) if turns.size % 2 else None


def _pairs(rng: Rng) -> list[Two]:
    """Return four sets of two pairs of sweeps, the first of each, then the others.

    One of a set changes places for good and the other does not, and both begin with the same library ahead. No size
    lies in the change of two sets, so that no number that is typed in is right twice.
    """
    # NCCL over TCP sockets (env1) against libfabric (the others) on one machine, and NCCL against RCCL on 8 GPUs each.
    known = [
        [row for row in rows_of("sweeps.csv", __file__) if row["change"] == change]
        for change in ("once", "never")
    ]
    while True:
        cross, never = (
            [_published(rng, rows[i]) for i in rng.permutation(len(rows))] for rows in known
        )
        sets = (
            (cross[0], never[0]),
            (cross[1], never[1]),
            (_drawn(rng, 1, 0.01), never[2]),
            (_drawn(rng, 3, 0.04), _drawn(rng, 2, 0.04)),
        )
        turned = [
            [(s, b, a) if (a[0] < b[0]) == i % 2 else (s, a, b) for s, a, b in two]
            for i, two in enumerate(sets)
        ]
        mixed = [
            [two[i] for i in rng.permutation(2)] for two in (turned[i] for i in rng.permutation(4))
        ]
        pairs = [two[i] for i in range(2) for two in mixed]
        ends = sorted(region for region in (_places(*pair) for pair in pairs) if region)
        if all(low[1] < high[0] for low, high in itertools.pairwise(ends)):
            return pairs


class CrossoverPart(QuestionPart):
    """The size at which the faster of two libraries changes for good, or None."""

    def __init__(self, pairs: Sequence[Two]) -> None:
        calls = [Call("crossover", pair) for pair in pairs]
        super().__init__("ex1-e", "crossover", 1.0, calls, sets=4)
        self.pairs = pairs
        self.regions = [_places(*pair) for pair in pairs]

    def read(self, case: int, value: Any) -> float | None:
        """Return a size [B], or None."""
        return None if value is None else number(value, "size")

    def is_right(self, case: int, answer: float | None) -> bool:
        """Return whether a size lies where the two change places, or whether they never do."""
        return self._holds(answer, self.regions[case])

    def _holds(self, size: float | None, region: tuple[float, float] | None) -> bool:
        if size is None or region is None:
            return size is None and region is None
        return bool(region[0] * (1 - 1e-9) <= size <= region[1] * (1 + 1e-9))

    def mistakes(self, case: int, answer: float | None) -> list[str]:
        """Return the known ways to this size."""
        (sizes, a, b), region = self.pairs[case], self.regions[case]
        if answer is None:
            missed = ["crossover missed"]
            return ["one direction only", *missed] if a[0] > b[0] else missed
        low, high = np.searchsorted(sizes, region) if region else (0, sizes.size - 1)
        one, other = (np.polyfit(sizes, t, 1) for t in (a, b))
        lines_meet = (other[1] - one[1]) / (one[0] - other[0])
        gaps = (a / b, b / a, abs(a - b))
        known = {
            "smallest gap for the crossover": near(answer, sizes[np.argmin(abs(a - b))], 1e-6),
            "one straight line": near(answer, lines_meet, 0.01),
            "end for no crossover": region is None and answer in (0, sizes[0], sizes[-1], -1),
            "ahead somewhere/a": near(answer, sizes[np.argmax(a < b)], 1e-6),
            "ahead somewhere/b": near(answer, sizes[np.argmax(b < a)], 1e-6),
            "crossover invented": region is None,
            "largest gap for the crossover": any(
                near(answer, sizes[np.argmax(gap)], 1e-6) for gap in gaps
            ),
            "time for size": np.min((a, b)) <= answer <= np.max((a, b)) < sizes[0],
            "place for size": low <= answer <= high + 1,
            "other unit of size": any(
                self._holds(answer * unit, region) for unit in (1e3, 1e6, 2**10, 2**20)
            ),
        }
        found = [mistake for mistake, fits in known.items() if fits]
        turns = np.flatnonzero(np.diff(a < b))
        changed_back = region is None and turns.size
        if changed_back and sizes[turns[0]] <= answer <= sizes[turns[-1] + 1]:
            return ["crossover invented", *found]
        return found

    def off(self, case: int, answer: float | None) -> str:
        """Return what is right: a size in the region, or None."""
        region = self.regions[case]
        right = message(1, "crossover.never")
        if region:
            low, high = map(format_size, region)
            right = message(1, "crossover.between", low=low, high=high)
        return message(1, "crossover.off", got=shown(answer, "size"), right=right)

    def step(self, case: int, answer: float | None, mistake: str) -> str:
        """Return which library is ahead at both ends."""
        sizes, a, b = self.pairs[case]
        faster = np.where(a < b, "a", "b")
        return message(
            1,
            "crossover.step",
            small=sizes[0],
            large=sizes[-1],
            first=faster[0],
            last=faster[-1],
        )


@register("question", "ex1-e", example=_pairs)
def crossover(ask: Ask, rng: Rng) -> Verdict:
    """Judge where two libraries change places, in five published pairs of sweeps and three drawn ones."""
    return judge(ask, CrossoverPart(_pairs(rng)))
