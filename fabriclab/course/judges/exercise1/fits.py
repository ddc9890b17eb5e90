"""Exercise 1, sweeps over sizes: a fit, when it may be used, and the size at which the faster library changes."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from fabriclab.texts import text
from fabriclab.units import format_size, format_time

# ex1-c -----------------------------------------------------------------------------------------------------------

_PROTOCOLS = 4  # number of protocols in the sweep for predictions
_TELLING = 0.2  # relative error that each known wrong prediction exceeds at some size


def _noise(rng: Rng, n: int, width: float = 0.015) -> Floats:
    """Return ``n`` factors near 1, with a standard deviation of ``width`` and no outliers beyond two deviations."""
    return 1 + width * np.clip(rng.normal(size=n), -2, 2)


def _powers_of_two(first: int, end: int) -> Floats:
    """Return 2 to the powers from ``first`` to ``end`` - 1."""
    powers: Floats = 2.0 ** np.arange(first, end, dtype=np.float64)
    return powers


class Fitted(NamedTuple):
    """A sweep of one protocol, with the alpha and beta that a fit must give."""

    sizes: Floats  # [B]
    times: Floats  # [s]
    alpha: float  # [s]
    beta: float  # [B/s]


def _sweep(rng: Rng) -> Fitted:
    """Draw a sweep for which an unweighted straight line misses alpha by half or more."""
    while True:
        alpha = float(rng.uniform(5e-6, 30e-6))
        beta = float(rng.uniform(10e9, 90e9))
        sizes = _powers_of_two(3, 31)
        times = (alpha + sizes / beta) * _noise(rng, sizes.size)

        start_of_line = _plain_line(sizes, times)[1]
        if not 0.5 < start_of_line / alpha < 1.5:
            return Fitted(sizes, times, alpha, beta)


def _plain_line(sizes: Floats, times: Floats) -> Floats:
    """Return slope and intercept of the straight line with the least squared error."""
    return np.polyfit(sizes, times, 1)


def _relative_line(sizes: Floats, times: Floats) -> Floats:
    """Return slope and intercept of the straight line with the least squared relative error."""
    return np.polyfit(sizes, times, 1, w=1 / times)


class WrongPrediction(NamedTuple):
    """The time [s] that a known mistake predicts."""

    mistake: str
    time: float


def _wrong_predictions(
    sizes: Floats, times: Floats, protocols: NDArray[np.intp], protocol: int, size: float
) -> list[WrongPrediction]:
    """Return the times that known mistakes predict for a size.

    Parameters
    ----------
    sizes, times, protocols : array of shape (S,)
        The sweep: sizes [B], times [s], and the number of the protocol of each size.
    protocol : int
        The protocol at the size to predict. If it was measured at one size at most, all points count as its own.
    size : float
        The size to predict. [B]
    """
    points = np.bincount(protocols, minlength=_PROTOCOLS)  # (4,) measured sizes of each protocol
    own = np.full(sizes.size, True)  # (S,)
    if points[protocol] > 1:
        own = protocols == protocol
    own_sizes = sizes[own]
    own_times = times[own]
    found = list[WrongPrediction]()

    for line in (_plain_line(sizes, times), _relative_line(sizes, times)):
        found.append(WrongPrediction("one straight line", float(np.polyval(line, size))))

    for other in np.flatnonzero(points > 1):
        if other == protocol:
            continue
        there = protocols == other
        for fit in (_plain_line, _relative_line):
            time = float(np.polyval(fit(sizes[there], times[there]), size))
            found.append(WrongPrediction("protocol of another size", time))

    candidates = _nearest_points(own_sizes, size)
    for i in candidates:
        found.append(WrongPrediction("nearest size", float(own_times[i])))
    for i in candidates:
        found.append(WrongPrediction("rate of one size", float(own_times[i] * size / own_sizes[i])))

    for some_sizes, some_times in ((sizes, times), (own_sizes, own_times)):
        line = np.polyfit(np.log(some_sizes), np.log(some_times), 1)
        found.append(WrongPrediction("power law", math.exp(np.polyval(line, math.log(size)))))
    between = np.interp(math.log(size), np.log(own_sizes), np.log(own_times))
    found.append(WrongPrediction("power law", math.exp(between)))

    found.append(WrongPrediction("average of a protocol", float(own_times.mean())))
    return found


def _nearest_points(sizes: Floats, size: float) -> list[int]:
    """Return the indices of all points that somebody may take for the nearest to a size."""
    last = sizes.size - 1
    above = int(np.searchsorted(sizes, size))
    by_difference = int(np.argmin(abs(sizes - size)))
    by_ratio = int(np.argmin(abs(np.log(sizes / size))))
    return [by_difference, by_ratio, 0, last, min(max(above - 1, 0), last), min(above, last)]


class Sweep(NamedTuple):
    """A sweep of several protocols."""

    sizes: Floats  # [B]
    times: Floats  # [s]
    changes: list[int]  # sizes at which the protocol changes [B]


class Asked(NamedTuple):
    """A size to predict, with its right time."""

    size: int
    time: float  # right time [s]
    points: int  # number of sizes at which its protocol was measured


class ProtocolModel(NamedTuple):
    """Alpha and beta of each protocol, and the sizes at which the next protocol takes over."""

    alpha: Floats  # (4,) [s]
    beta: Floats  # (4,) [B/s]
    changes: Floats  # (3,) [B]

    def protocol_of(self, sizes: Floats) -> NDArray[np.intp]:
        """Return the number of the protocol at each size."""
        return np.searchsorted(self.changes, sizes, "right")

    def times(self, sizes: Floats) -> Floats:
        """Return the time [s] at each size."""
        protocols = self.protocol_of(sizes)
        times: Floats = self.alpha[protocols] + sizes / self.beta[protocols]
        return times


def _protocol_model(rng: Rng) -> ProtocolModel:
    """Draw four protocols, each with a higher alpha and a higher rate than the one before."""
    alpha = rng.uniform(4e-6, 8e-6) * np.cumprod([1, *rng.uniform(3, 4, 3)])
    # illustrative: of no real library
    beta = rng.uniform(1e9, 2e9) * np.cumprod([1, *rng.uniform(4, 6, 3)])

    # Two neighbours take equally long at (difference in alpha) / (difference in 1 / beta). The library changes a
    # little earlier, so time jumps up a little there.
    break_even = np.diff(alpha) / -np.diff(1 / beta)  # (3,) [B]
    return ProtocolModel(alpha, beta, break_even * rng.uniform(0.75, 0.9, 3))


def _protocols(rng: Rng) -> tuple[Sweep, list[Asked]]:
    """Draw a sweep of four protocols, and sizes to predict.

    One protocol is measured at every power of two, one at two sizes, one at one size and one at none. Each known wrong
    prediction misses by more than 20 % at some size between measured ones.
    """
    while True:
        model = _protocol_model(rng)
        middle = int(rng.integers(1, 3))  # of the two protocols in the middle, that with few points
        two_points = 3 - middle  # the other one
        one_point = int(rng.permutation([middle, 3])[0])

        powers = _powers_of_two(6, 29)
        protocols = model.protocol_of(powers)
        kept = [
            *np.flatnonzero(protocols == 0),
            *np.flatnonzero(protocols == two_points)[[0, -1]],
            np.flatnonzero(protocols == one_point)[0],
        ]
        sizes = powers[np.sort(kept)]
        protocols = model.protocol_of(sizes)
        times = model.times(sizes) * _noise(rng, sizes.size)

        asked = list[Asked]()
        errors = list[list[float]]()  # of known wrong predictions, for each size with a right one
        for protocol, size in _sizes_to_ask(rng, model, sizes, middle):
            time = float(model.alpha[protocol] + size / model.beta[protocol])
            points = int((protocols == protocol).sum())
            asked.append(Asked(int(size), time, points))
            if points > 1 and size < sizes[protocols == protocol][-1]:
                wrong = _wrong_predictions(sizes, times, protocols, protocol, int(size))
                errors.append([abs(prediction.time / time - 1) for prediction in wrong])

        largest_errors = np.max(errors, axis=0)  # of each known wrong prediction
        if largest_errors.min() > _TELLING:
            return Sweep(sizes, times, [int(change) for change in model.changes]), asked


def _sizes_to_ask(
    rng: Rng, model: ProtocolModel, sizes: Floats, middle: int
) -> list[tuple[int, float]]:
    """Draw protocols and sizes [B] to predict: of two a line can be fitted, of the other two none can.

    One size lies beyond all that was measured of its protocol, where the line holds as well. Another one is the first
    of its protocol.
    """
    protocols = model.protocol_of(sizes)
    chosen = list[tuple[int, float]]()
    for protocol in (0, 3 - middle):
        measured = sizes[protocols == protocol]
        low = measured[0]
        high = measured[-1]
        for place in (0.3, 0.65):  # on the way from low to high, on a log axis
            chosen.append((protocol, low * (high / low) ** rng.uniform(place, place + 0.3)))
    last = sizes[protocols == 0][-1]
    room = model.changes[0] / last
    chosen[1] = (0, last * room ** rng.uniform(0.3, 0.9))

    chosen.append((middle, float(int(model.changes[middle - 1]))))
    chosen.append((3, model.changes[2] * rng.uniform(2.1, 6)))
    return chosen


class PredictPart(QuestionPart):
    """The time at a size that was not measured.

    A number is right if two points or more determine a line; else None is right, or an interval with the true time.
    """

    within = 0.1

    def __init__(self, sweep: Sweep, asked: Sequence[Asked]) -> None:
        arguments = (sweep.sizes, sweep.times, sweep.changes)
        calls = [Call("predict", (*arguments, one.size)) for one in asked]
        super().__init__("ex1-c", "predict", 0.4, calls)
        self.sweep = sweep
        self.asked = asked
        self.protocols = self._protocol_of(sweep.sizes)  # of the sizes that were measured

    def _protocol_of(self, sizes: Any) -> Any:
        """Return the number of the protocol at a size, or at each of several sizes."""
        return np.searchsorted(self.sweep.changes, sizes, "right")

    def read(self, case: int, value: Any) -> Any:
        """Return a time, an interval as a pair, or None; NaN means the same as None."""
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
        """Return the mistakes in the kind of answer, and the known mistakes that predict this time."""
        asked = self.asked[case]
        of_kind = self._mistakes_of_kind(asked, answer)
        of_time = self._mistakes_of_time(asked, answer)
        found = [*of_time, *of_kind]
        if asked.points < 2:
            found = [*of_kind, *of_time]
        if any(near(answer, asked.time * factor, 0.1) for factor in (1e3, 1e6)):
            found.insert(0, "other unit of time")
        if self._is_before_change(asked, answer):
            found.insert(0, "change taken for the old protocol")
        return found

    def _is_before_change(self, asked: Asked, answer: Any) -> bool:
        """Return whether the first size of a protocol got the time of the protocol before."""
        if asked.size not in self.sweep.changes:
            return False
        before = self.protocols == int(self._protocol_of(asked.size)) - 1
        if before.sum() < 2:
            return False
        points = self.sweep.sizes[before], self.sweep.times[before]
        lines = (_plain_line(*points), _relative_line(*points))
        return any(near(answer, float(np.polyval(line, asked.size)), 0.002) for line in lines)

    def _mistakes_of_kind(self, asked: Asked, answer: Any) -> list[str]:
        """Return the mistakes in giving a number, an interval or None."""
        interval = isinstance(answer, tuple)
        found = list[str]()
        if asked.points > 1 and answer is None:
            found.append("refused what was measured")
        if asked.points > 1 and interval:
            found.append("interval for a number")
        if interval and answer[1] > 3 * answer[0]:
            found.append("interval too wide")
        if interval:
            found.append("interval misses")
        if asked.points == 1:
            found.append("one point for a line")
        if asked.points < 2:
            found.append("extrapolated over a change")
        return found

    def _mistakes_of_time(self, asked: Asked, answer: Any) -> list[str]:
        """Return the known mistakes that predict this time, the nearest first."""
        protocol = int(self._protocol_of(asked.size))
        known = _wrong_predictions(
            self.sweep.sizes, self.sweep.times, self.protocols, protocol, asked.size
        )
        matching = [
            (abs(answer - wrong.time), wrong.mistake)
            for wrong in known
            if near(answer, wrong.time, 0.01)
        ]
        sizes, times, _ = self.sweep
        nearest = float(times[np.argmin(abs(sizes - asked.size))])
        between = float(np.interp(asked.size, sizes, times))
        axes = (math.log(asked.size), np.log(sizes), np.log(times))
        log_between = math.exp(np.interp(*axes))
        # Beyond the last point of a protocol the neighbour belongs to another one.
        for time, mistake in ((nearest, "nearest size"), (log_between, "power law")):
            if near(answer, time, 0.002):
                matching.append((abs(answer - time), mistake))
        found = [mistake for _, mistake in sorted(matching)]
        if asked.points > 1 and near(answer, between, 0.002):
            found += ["interpolated over a change", "extrapolated over a change"]
        return found

    def seen(self, case: int, answer: Any) -> str:
        """Return a sentence with the answer."""
        return text("ex.seen", call=self.written(case), got=shown(answer, "time"))

    def off(self, case: int, answer: Any) -> str:
        """Return a sentence with the right answer: the time, or that it cannot be known."""
        asked = self.asked[case]
        want = message(1, "predict.none")
        if asked.points > 1:
            want = format_time(asked.time)
        call = self.written(case)
        return message(1, "predict.off", call=call, got=shown(answer, "time"), want=want)

    def step(self, case: int, answer: Any, mistake: str) -> str:
        """Return what was measured for the protocol at this size, and what follows from it."""
        asked = self.asked[case]
        protocol = int(self._protocol_of(asked.size))
        end = message(1, "predict.few")
        if asked.points > 1:
            own = self.protocols == protocol
            line = _relative_line(self.sweep.sizes[own], self.sweep.times[own])
            time = float(np.polyval(line, asked.size))
            end = message(1, "predict.line", line=format_time(time))

        limits = [0.0, *map(float, self.sweep.changes), math.inf]
        high = limits[protocol + 1]
        return message(
            1,
            "predict.step",
            n=asked.points,
            size=float(asked.size),
            low=limits[protocol],
            high=format_size(high) if high < math.inf else "∞",
            end=end,
        )


def _quantities_of_fit(sweep: Fitted) -> dict[str, float]:
    """Return the quantities in the formulas for right and wrong fits of a sweep."""
    sizes = sweep.sizes
    times = sweep.times
    rates = sizes / times
    return {
        "alpha": sweep.alpha,
        "beta": sweep.beta,
        "line": _plain_line(sizes, times)[1],
        "mean": np.mean(times),
        "rates": np.mean(rates),
        "median_rate": np.median(rates),
        "middle_rate": rates[sizes.size // 2],
        "start_of_power": math.exp(np.polyfit(np.log(sizes), np.log(times), 1)[1]),
        "small": sizes[0],
        "first": times[0],
        "large": sizes[-1],
        "last": times[-1],
        "most": sizes[-1] / (times[-1] - times[0]),
    }


def _half_case(rng: Rng) -> JudgedCase:
    """Draw an alpha and a beta, for which the size that reaches half of the rate is asked."""
    # illustrative: from fast to slow starts and links
    alpha = float(rng.uniform(2e-6, 40e-6))  # [s]
    # illustrative: as above
    beta = float(rng.uniform(5e9, 90e9))  # [B/s]
    return JudgedCase((alpha, beta), {"alpha": alpha, "beta": beta, "product": alpha * beta})


def _example_sweep(rng: Rng) -> tuple[Floats, Floats, list[int]]:
    """Return sizes, times and changes of protocol to try a function on."""
    sweep, _ = _protocols(rng)
    return sweep.sizes, sweep.times, sweep.changes


@register("question", "ex1-c", example=_example_sweep)
def model(ask: Ask, rng: Rng) -> Verdict:
    """Judge a fit of alpha and beta, the size that reaches half of the rate, and when a fit may be used."""
    sweeps = apart(lambda: _sweep(rng), lambda sweep: [sweep.alpha, sweep.beta], 1.4)
    fits = [JudgedCase((sweep.sizes, sweep.times), _quantities_of_fit(sweep)) for sweep in sweeps]
    halves = [_half_case(rng) for _ in range(3)]
    sweep, asked = _protocols(rng)
    return judge(
        ask,
        NumberPart("ex1-c", "alpha", fits),
        NumberPart("ex1-c", "beta", fits),
        NumberPart("ex1-c", "half", halves),
        PredictPart(sweep, asked),
    )


# ex1-e -----------------------------------------------------------------------------------------------------------


class SizeRegion(NamedTuple):
    """The two neighbouring sizes between which the faster of two sweeps changes for good [B]."""

    low: float
    high: float

    def holds(self, size: float) -> bool:
        """Return whether a size is in the region, up to rounding."""
        return bool(self.low * (1 - 1e-9) <= size <= self.high * (1 + 1e-9))


class SweepPair(NamedTuple):
    """The sweeps of two libraries, ``a`` and ``b``, at the same sizes."""

    sizes: Floats  # [B]
    a: Floats  # times of one library [s]
    b: Floats  # times of the other [s]

    def swapped(self) -> "SweepPair":
        """Return the pair with the two libraries in the other order."""
        return SweepPair(self.sizes, self.b, self.a)

    def turns(self) -> NDArray[np.intp]:
        """Return the indices after which the other library is faster."""
        return np.flatnonzero(np.diff(self.a < self.b))

    def region(self) -> SizeRegion | None:
        """Return where the faster library changes for good, or None if the same one is faster at both ends."""
        turns = self.turns()
        if turns.size % 2 == 0:
            return None
        return SizeRegion(float(self.sizes[turns[0]]), float(self.sizes[turns[-1] + 1]))


def _published(rng: Rng, row: Mapping[str, str]) -> SweepPair:
    """Return sizes and times of two published sweeps, without some sizes at the ends."""
    one = published.load(row["one"])
    other = published.load(row["other"])
    sizes, places, other_places = np.intersect1d(one.size, other.size, return_indices=True)
    first = int(rng.integers(3))
    end = sizes.size - int(rng.integers(3))
    kept = slice(first, end)
    return SweepPair(sizes[kept], one.time[places][kept], other.time[other_places][kept])


def _drawn(rng: Rng, flips: int, noise: float) -> SweepPair:
    """Draw two sweeps of which the faster one changes ``flips`` times; after an odd number it has changed for good."""
    sizes = _powers_of_two(6, 27)
    # illustrative: who starts slower is faster at large sizes, or a little slower there, too
    power = 1.0 if flips % 2 else -0.3
    while True:
        start_factor, rate_factor = rng.uniform(1.15, 1.5, 2) ** (1, power)
        # illustrative: of no real library
        start = rng.uniform(8e-6, 20e-6)
        rate = 10 ** rng.uniform(8.5, 11)
        a = (start + sizes / rate) * _noise(rng, sizes.size, noise)
        b = (start_factor * start + sizes / rate / rate_factor) * _noise(rng, sizes.size, noise)

        pair = SweepPair(sizes, a, b)
        turns = pair.turns()
        if turns.size == flips and 0 < turns[0] <= turns[-1] < sizes.size - 2:
            return pair


def _published_pairs(rng: Rng, rows: Sequence[Mapping[str, str]]) -> list[SweepPair]:
    """Return published pairs of sweeps in random order."""
    return [_published(rng, rows[i]) for i in rng.permutation(len(rows))]


def _pairs(rng: Rng) -> list[SweepPair]:
    """Return four sets of two pairs of sweeps: first one pair of each set, then the others.

    In one pair of a set the faster library changes for good, and in the other it does not; both begin with the same
    library ahead. No size is in the regions of two sets, so that no constant answer is right twice. In one region at
    least the sweeps are not closest to each other, so that to look for the smallest gap is not enough.
    """
    # NCCL over TCP sockets (env1) against libfabric (the others) on one machine, and NCCL against RCCL on 8 GPUs each.
    rows = rows_of("sweeps.csv", __file__)
    changing = [row for row in rows if row["change"] == "once"]
    steady = [row for row in rows if row["change"] == "never"]
    while True:
        cross = _published_pairs(rng, changing)
        never = _published_pairs(rng, steady)
        sets = [
            (cross[0], never[0]),
            (cross[1], never[1]),
            (_drawn(rng, 1, 0.01), never[2]),
            (_drawn(rng, 3, 0.04), _drawn(rng, 2, 0.04)),
        ]
        for i, (one, other) in enumerate(sets):
            a_ahead = i % 2 == 0  # at the smallest size
            sets[i] = (_ahead(one, a_ahead), _ahead(other, a_ahead))

        pairs = _mixed(rng, sets)
        if _are_disjoint(pair.region() for pair in pairs) and not all(map(_crosses_at_gap, pairs)):
            return pairs


def _ahead(pair: SweepPair, a_ahead: bool) -> SweepPair:
    """Return a pair in the order in which ``a`` is ahead at the smallest size or, with ``a_ahead`` false, is behind."""
    if (pair.a[0] < pair.b[0]) == a_ahead:
        return pair
    return pair.swapped()


def _mixed(rng: Rng, sets: Sequence[tuple[SweepPair, SweepPair]]) -> list[SweepPair]:
    """Return one pair of each set, then the others, with the sets in the same random order."""
    first = list[SweepPair]()
    second = list[SweepPair]()
    for i in rng.permutation(len(sets)):
        one, other = rng.permutation(2)
        first.append(sets[i][one])
        second.append(sets[i][other])
    return [*first, *second]


def _are_disjoint(regions: Iterable[SizeRegion | None]) -> bool:
    """Return whether no size is in two of the regions."""
    ends = sorted(region for region in regions if region)
    return all(lower.high < upper.low for lower, upper in itertools.pairwise(ends))


def _crosses_at_gap(pair: SweepPair) -> bool:
    """Return whether two sweeps are closest to each other where they cross for good, or never do."""
    region = pair.region()
    return region is None or region.holds(float(pair.sizes[np.argmin(abs(pair.a - pair.b))]))


class CrossoverPart(QuestionPart):
    """The size at which the faster of two libraries changes for good, or None if it never does."""

    def __init__(self, pairs: Sequence[SweepPair]) -> None:
        calls = [Call("crossover", (pair.sizes, pair.a, pair.b)) for pair in pairs]
        super().__init__("ex1-e", "crossover", 1.0, calls, sets=4)
        self.pairs = pairs
        self.regions = [pair.region() for pair in pairs]
        self._found = dict[int, bool]()  # whether a size was given, by case

    def read(self, case: int, value: Any) -> float | None:
        """Return a size [B], or None."""
        size = None if value is None else number(value, "size")
        self._found[case] = size is not None
        return size

    def is_right(self, case: int, answer: float | None) -> bool:
        """Return whether a size is in the right region, or None is right."""
        region = self.regions[case]
        if answer is None or region is None:
            return answer is None and region is None
        return region.holds(answer)

    def mistakes(self, case: int, answer: float | None) -> list[str]:
        """Return the known mistakes that give this answer."""
        pair = self.pairs[case]
        if answer is None:
            known = ["crossover missed"]
            if self._finds_one_direction():
                known.insert(0, "one direction only")
            if not pair.sizes[0] <= _where_lines_meet(*pair) <= pair.sizes[-1]:
                known.append("one straight line")
            return known

        found = self._mistakes_with_size(case, answer)
        turns = pair.turns()
        changed_back = self.regions[case] is None and turns.size
        if changed_back and pair.sizes[turns[0]] <= answer <= pair.sizes[turns[-1] + 1]:
            return ["crossover invented", *found]
        return found

    def _finds_one_direction(self) -> bool:
        """Return whether crossovers were missed where one library is ahead at first, and found where the other is."""
        found = {True: set[bool](), False: set[bool]()}  # by whether ``a`` is ahead at first
        for case, region in enumerate(self.regions):
            if region and case in self._found:
                pair = self.pairs[case]
                found[bool(pair.a[0] < pair.b[0])].add(self._found[case])
        return sorted(map(sorted, found.values())) == [[False], [True]]

    def _mistakes_with_size(self, case: int, answer: float) -> list[str]:
        """Return the known mistakes that give a number, the likeliest first."""
        region = self.regions[case]
        sizes, a, b = self.pairs[case]

        # The sizes [B] that the mistakes lead to.
        difference = abs(a - b)  # [s]
        smallest_gap = sizes[np.argmin(difference)]
        largest_gaps = [sizes[np.argmax(gap)] for gap in (a / b, b / a, difference)]
        first_a_ahead = sizes[np.argmax(a < b)]
        first_b_ahead = sizes[np.argmax(b < a)]
        lines_meet = _where_lines_meet(sizes, a, b)

        # What is no size at all: an end of the table, a place in it, a time, another unit.
        is_end = answer in (0, sizes[0], sizes[-1], -1)
        first_place = 0
        last_place = sizes.size - 1
        if region:
            first_place, last_place = np.searchsorted(sizes, region)
        shortest = np.min((a, b))  # [s]
        longest = np.max((a, b))  # [s]
        fits_in_other_unit = False
        is_next = False
        if region:
            around = slice(max(first_place - 1, 0), last_place + 2)
            is_next = bool(sizes[around][0] <= answer <= sizes[around][-1])
            in_bytes = [answer * unit for unit in (1e3, 1e6, 2**10, 2**20)]
            fits_in_other_unit = any(map(region.holds, in_bytes))

        known = {
            "smallest gap for the crossover": near(answer, smallest_gap, 1e-6),
            "one straight line": near(answer, lines_meet, 0.01),
            "end for no crossover": region is None and is_end,
            "ahead somewhere/a": near(answer, first_a_ahead, 1e-6),
            "ahead somewhere/b": near(answer, first_b_ahead, 1e-6),
            "crossover invented": region is None,
            "largest gap for the crossover": any(near(answer, size, 1e-6) for size in largest_gaps),
            "time for size": shortest <= answer <= longest < sizes[0],
            "place for size": first_place <= answer <= last_place + 1,
            "other unit of size": fits_in_other_unit,
            "next to the crossover": is_next,
        }
        return [mistake for mistake, fits in known.items() if fits]

    def seen(self, case: int, answer: float | None) -> str:
        """Return a sentence with the answer."""
        return text("ex.seen", call=self.written(case), got=shown(answer, "size"))

    def off(self, case: int, answer: float | None) -> str:
        """Return a sentence with the right answer: a size in the region, or None."""
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


def _where_lines_meet(sizes: Floats, a: Floats, b: Floats) -> float:
    """Return the size [B] at which straight lines through all times of each library cross."""
    slope_a, start_a = np.polyfit(sizes, a, 1)
    slope_b, start_b = np.polyfit(sizes, b, 1)
    return float((start_b - start_a) / (slope_a - slope_b))


def _example_pairs(rng: Rng) -> list[tuple[Floats, Floats, Floats]]:
    """Return sizes and times of two libraries, as the function ``crossover`` gets them."""
    return [(pair.sizes, pair.a, pair.b) for pair in _pairs(rng)]


@register("question", "ex1-e", example=_example_pairs)
def crossover(ask: Ask, rng: Rng) -> Verdict:
    """Judge where the faster of two libraries changes, for five published pairs of sweeps and three random ones."""
    return judge(ask, CrossoverPart(_pairs(rng)))
