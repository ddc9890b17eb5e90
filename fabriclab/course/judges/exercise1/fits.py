"""Exercise 1, what a sweep over sizes tells: a fit, when it may be used, and where two libraries change places."""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fabriclab.catalog import published
from fabriclab.catalog.tables import rows_of
from fabriclab.course.judges import Ask, Floats, Rng, Verdict
from fabriclab.course.judges.shared.numbers import near, number
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.units import format_size, format_time

from .cases import Part, apart, judge

# ex1-c -----------------------------------------------------------------------------------------------------------


def _noise(rng: Rng, n: int, width: float = 0.015) -> Floats:
    return 1 + width * np.clip(rng.normal(size=n), -2, 2)


def _sweep(rng: Rng) -> tuple[Any, Floats, float, float]:
    """Return sizes, times, alpha and beta, such that the plain straight line misses alpha by half or more."""
    while True:
        alpha, beta, sizes = (
            float(rng.uniform(5e-6, 30e-6)),
            float(rng.uniform(10e9, 90e9)),
            2.0 ** np.arange(3, 31),
        )
        times = (alpha + sizes / beta) * _noise(rng, sizes.size)
        if not 0.5 < np.polyfit(sizes, times, 1)[1] / alpha < 1.5:
            return sizes, times, alpha, beta


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


def _protocols(rng: Rng) -> tuple[Any, Any, list[int], list[tuple[int, float, int]]]:
    """Return sizes, times, changes, and sizes to ask with their times and at how many sizes their protocol is known.

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
        out = [(int(s), float(alpha[h] + s / beta[h]), int((home == h).sum())) for h, s in asked]
        off = [
            [abs(value / time - 1) for _, value in _ways(sizes, times, home, h, size)]
            for (h, _), (size, time, points) in zip(asked, out, strict=True)
            if points > 1
        ]
        if np.max(off, axis=0).min() > 0.2:
            return sizes, times, [int(c) for c in changes], out


def _foretold(value: Any) -> Any:
    """Read a time, an interval as a pair, or None; NaN says the same as None."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, list | tuple) and len(value) == 2:
        return tuple(number(end, "time") for end in value)
    return number(value, "time")


def _stands(got: Any, time: float, points: int) -> bool:
    """Return whether a prediction is right: a number where two points make a line, else none or an interval."""
    if points > 1 or not isinstance(got, tuple):
        return near(got, time, 0.1) if points > 1 else got is None
    return bool(got[0] <= time <= got[1] <= 3 * got[0])


@register(
    "question",
    "ex1-c",
    functions=("fit", "half_size", "predict"),
    points=20,
    example=lambda rng: _protocols(rng)[:3],
)
def model(ask: Ask, rng: Rng) -> Verdict:
    """Judge a fit of alpha and beta, the size of half the rate, and when a fit may be used."""
    sweeps = apart(lambda: _sweep(rng), lambda sweep: sweep[2:], 1.4)
    fits = [("fit", *sweep[:2]) for sweep in sweeps]
    # illustrative: from quick to slow starts and links
    pairs = [(float(rng.uniform(2e-6, 40e-6)), float(rng.uniform(5e9, 90e9))) for _ in range(3)]
    sizes, times, changes, asked = _protocols(rng)
    ends, home = [0.0, *map(float, changes), math.inf], np.searchsorted(changes, sizes, "right")
    places = [int(np.searchsorted(changes, size, "right")) for size, _, _ in asked]

    def fitted(i: int, got: Any) -> dict[str, Any]:
        s, t, alpha, beta = sweeps[i]
        return {
            "alpha": alpha,
            "beta": beta,
            "line": _lines(s, t)[0][1],
            "mean": np.mean(t),
            "rates": np.mean(s / t),
            "small": s[0],
            "first": t[0],
            "large": s[-1],
            "last": t[-1],
            "most": s[-1] / (t[-1] - t[0]),
        }

    def multiplied(i: int, got: Any) -> dict[str, Any]:
        alpha, beta = pairs[i]
        return {"alpha": alpha, "beta": beta, "product": alpha * beta}

    def around(i: int, got: Any) -> dict[str, Any]:
        size, time, points = asked[i]
        here, high = home == places[i], ends[places[i] + 1]
        want, end = text("ex1.predict.none"), text("ex1.predict.few")
        if points > 1:
            line = np.polyval(_lines(sizes[here], times[here])[1], size)
            want, end = format_time(time), text("ex1.predict.line", line=format_time(float(line)))
        return {
            "n": points,
            "low": ends[places[i]],
            "size": float(size),
            "want": want,
            "end": end,
            "high": format_size(high) if high < math.inf else "∞",
        }

    def spoiled(i: int, got: Any) -> list[str]:
        (size, time, points), span = asked[i], isinstance(got, tuple)
        close = [
            (abs(got - v), name)
            for name, v in _ways(sizes, times, home, places[i], size)
            if near(got, v, 0.01)
        ]
        ways = [name for _, name in sorted(close)]
        unit = any(near(got, time * factor, 0.1) for factor in (1e3, 1e6))
        facts = {
            "refused what was measured": points > 1 and got is None,
            "interval for a number": points > 1 and span,
            "interval too wide": span and got[1] > 3 * got[0],
            "interval misses": span,
            "one point for a line": points == 1,
            "extrapolated over a change": points < 2,
        }
        found = [[name for name, holds in facts.items() if holds], ways][:: 1 if points < 2 else -1]
        return ["other unit of time"] * unit + found[0] + found[1]

    return judge(
        ask,
        Part("alpha", 0.2, fits, fitted, 0.15, "time", place=0),
        Part("beta", 0.2, fits, fitted, 0.1, "rate", place=1),
        Part("half", 0.2, [("half_size", *pair) for pair in pairs], multiplied, 0.01, "size"),
        Part(
            "predict",
            0.4,
            [("predict", sizes, times, changes, size) for size, _, _ in asked],
            around,
            0.1,
            "time",
            truth=asked,
            tags=spoiled,
            read=_foretold,
            right=lambda i, got: _stands(got, *asked[i][1:]),
        ),
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


@register("question", "ex1-e", functions=("crossover",), points=20, example=_pairs)
def crossover(ask: Ask, rng: Rng) -> Verdict:
    """Judge where two libraries change places, in five published pairs of sweeps and three drawn ones."""
    pairs = _pairs(rng)
    truth = [_places(*pair) for pair in pairs]

    def holds(got: Any, region: Any) -> bool:
        if got is None or region is None:
            return got is region
        return bool(region[0] * (1 - 1e-9) <= got <= region[1] * (1 + 1e-9))

    def spoiled(i: int, got: Any) -> list[str]:
        (sizes, a, b), region = pairs[i], truth[i]
        if got is None:
            return [*["one direction only"] * bool(a[0] > b[0]), "crossover missed"]
        low, high = np.searchsorted(sizes, region) if region else (0, sizes.size - 1)
        one, other = (np.polyfit(sizes, t, 1) for t in (a, b))
        turns = np.flatnonzero(np.diff(a < b))
        back = region is None and turns.size and sizes[turns[0]] <= got <= sizes[turns[-1] + 1]
        ahead = {
            f"ahead somewhere/{name}": sizes[np.argmax(first)]
            for name, first in (("a", a < b), ("b", b < a))
        }
        facts = {
            "smallest gap for the crossover": near(got, sizes[np.argmin(abs(a - b))], 1e-6),
            "one straight line": near(got, (other[1] - one[1]) / (one[0] - other[0]), 0.01),
            "end for no crossover": region is None and got in (0, sizes[0], sizes[-1], -1),
            **{name: near(got, size, 1e-6) for name, size in ahead.items()},
            "crossover invented": region is None,
            "largest gap for the crossover": any(
                near(got, sizes[np.argmax(gap)], 1e-6) for gap in (a / b, b / a, abs(a - b))
            ),
            "time for size": np.min((a, b)) <= got <= np.max((a, b)) < sizes[0],
            "place for size": low <= got <= high + 1,
            "other unit of size": any(
                holds(got * unit, region) for unit in (1e3, 1e6, 2**10, 2**20)
            ),
        }
        return [
            *["crossover invented"] * bool(back),
            *(name for name, fits in facts.items() if fits),
        ]

    def facts(i: int, got: Any) -> dict[str, Any]:
        sizes, a, b = pairs[i]
        faster, ends = np.where(a < b, "a", "b"), sizes[[0, -1]]
        low, high = map(format_size, truth[i] or ends)
        right = text(
            "ex1.crossover.between" if truth[i] else "ex1.crossover.never", low=low, high=high
        )
        return {
            "right": right,
            "small": ends[0],
            "large": ends[1],
            "first": faster[0],
            "last": faster[-1],
        }

    calls = [("crossover", *pair) for pair in pairs]
    return judge(
        ask,
        Part(
            "crossover",
            1.0,
            calls,
            facts,
            0.0,
            "size",
            sets=4,
            truth=truth,
            tags=spoiled,
            right=lambda i, got: holds(got, truth[i]),
            read=lambda value: None if value is None else number(value, "size"),
        ),
    )
