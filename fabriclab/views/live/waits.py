"""Live views of waiting: for a message, for slower memory, and for the slowest of many workers."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from matplotlib.ticker import MaxNLocator

from fabriclab import catalog, units
from fabriclab.catalog.tables import read_rows
from fabriclab.core import Flags, Floats, Ints, Spec
from fabriclab.physics import memory
from fabriclab.texts import text
from fabriclab.views.asides import Curve, Spot, curve_panel
from fabriclab.views.common import common_ends
from fabriclab.views.layout import counted
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    heading,
    lines,
    log_axis,
    texts,
    tick_layers,
)

# Facts on each part of a message's path, of which the smallest and the largest time are used.
_FACTS = read_rows(Path(__file__).with_name("latency.csv"))
_STACKS = ("InfiniBand, RDMA", "Ethernet, RDMA", "Slingshot, RDMA", "Ethernet, kernel TCP")
_SEQUENCES = 16  # illustrative: sequences served at the same time
_STATE = 12  # illustrative: bytes of optimiser state per parameter
_TIERS = ("HBM", "DDR", "CXL")

# The picture of stacked bars, in px.
_WIDTH = 880.0
_LEFT, _RIGHT = 96.0, 800.0  # ends of the axis
_TOP = 22.0
_BAR = 34.0  # height of a bar
_LEVEL = 17.0  # height of a level of labels above a bar
_LEVELS = 5  # of labels above a bar at most
_LATENCY_LEVELS, _TIERS_LEVELS = 4, 2  # so many are enough for all settings of a view
_SHADES = np.array([COLOUR["soft"], COLOUR["hair"], COLOUR["edge"]])
_BELOW_BAR = 20.0  # from a bar to the labels of the next one
_LETTER = 7.0  # width of a letter of a label
_APART = 8.0  # least distance between two labels of a level
_BESIDE = 3.0  # least distance between a label and a line that passes it
_LINES_APART = 10.0  # least distance between two lines that lead to labels
_OVERHANG = 4.0  # of a name that begins or ends at its line, beyond it
_PAGE_EDGE = 4.0  # from a name to the edge of the picture

# The workers of a step, and their picture in px: a bar for each, with a scale of seconds on the left.
_MOST_WORKERS = 128
_STEPS = 100
_DOUBLINGS = 10  # of the number of workers beside the picture, up to 1,024
_LONGEST_STEP = 2.0  # [s]
_WORKERS_ROOM = 560.0
_WORKERS_LEFT = 56.0
_WORKERS_WIDTH = 480.0
_WORKERS_TOP = 40.0
_WORKERS_FOOT = 270.0
_LEAST_PITCH = 18.0  # between bars that have a number below them


# Latency of a message ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LatencyTerm:
    """One part of a message's latency: how often it occurs on the path, and the facts about its time."""

    count: float  # number of devices, or metres of cable
    facts: list[Spec]

    @property
    def low(self) -> float:
        """The shortest time in all facts, for the whole path [s]."""
        return self.count * min(fact.ends[0] for fact in self.facts)

    @property
    def high(self) -> float:
        """The longest time in all facts, for the whole path [s]."""
        return self.count * max(fact.ends[1] for fact in self.facts)

    @property
    def sources(self) -> str:
        """The sources of the facts with their evidence, each source once."""
        sources = [f"{fact.source} ({fact.evidence})" for fact in self.facts]
        return " ".join(dict.fromkeys(sources))


def latency(
    way: str = "InfiniBand, RDMA",
    switches: int = 2,
    metres: float = 5.0,  # illustrative: a cable
) -> Live:
    """Show the parts of the latency of a small message between two servers, each with its least and greatest time.

    Leaves out the time of the message's own bytes, waiting in queues, and lost packets.

    Parameters
    ----------
    way : str
        Kind of switches and protocol stack, such as "Ethernet, kernel TCP".
    switches, metres : int, float
        Number of switches on the path, 0..6; length of each cable, 1..1000 [m].
    """
    arguments = {"way": way, "switches": switches, "metres": metres}
    controls: dict[str, Control] = {
        "way": Choice(_STACKS),
        "switches": Slider(0, 6),
        "metres": Slider(1, 1000, unit="m", log=True),
    }
    return live_view("latency", arguments, latency_scene, controls)


def latency_scene(way: str, switches: int, metres: float) -> Scene:
    """Return a picture of the latency as two rows of bars, for the least and the greatest times."""
    parts = latency_parts(way, switches, metres)
    low = np.array([part.low for part in parts])  # (5,) [s]
    high = np.array([part.high for part in parts])  # (5,) [s]

    labels = [text(f"live.latency.{part}") for part in ("stack", "nic", "switch", "code", "metre")]
    lanes = [text("live.latency.least"), text("live.latency.most")]

    caption = text(
        "live.latency.said",
        way=way,
        n=counted(switches, "switch"),
        metres=metres,
        part=labels[high.argmax()],
        share=high.max(),
        low=low.sum(),
        high=high.sum(),
    )
    columns = {
        "part": labels,
        "least [s]": low,
        "most [s]": high,
        "source": [part.sources for part in parts],
    }
    parts_of_ends = np.stack([low, high])
    return stacks_scene(
        lanes, labels, parts_of_ends, caption, Table(columns), levels=_LATENCY_LEVELS
    )


def latency_parts(way: str, switches: int, metres: float) -> list[LatencyTerm]:
    """Return the latency of protocol stack, adapters, switches, coding and cables of a path, in this order."""
    network, _, stack = way.partition(", ")
    cables = switches + 1
    return [
        LatencyTerm(1, facts_of(stack)),
        LatencyTerm(1, facts_of("adapters")),
        LatencyTerm(switches, facts_of(network)),
        LatencyTerm(cables, facts_of("coding")),
        LatencyTerm(cables * metres, facts_of("cables")),
    ]


def facts_of(part: str) -> list[Spec]:
    """Return the facts from the catalog that ``latency.csv`` lists for a part of the path."""
    facts = []
    for row in _FACTS:
        if row["part"] != part:
            continue
        entry = getattr(catalog, row["table"])[row["id"]]
        for spec in entry.specs:
            if spec.attribute == row["attribute"]:
                facts.append(spec)
    return facts


# Memory tiers -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemoryTraffic:
    """The bytes that a GPU of the running case reads from memory, and the rates at which memory delivers them."""

    sizes: Floats  # (3,) sizes of weights, KV cache and optimiser state [B]
    rates: dict[str, float]  # tier -> rate at which the GPU gets its data [B/s]
    copy_rate: float  # rate of a copy from the host [B/s]
    step_time: float  # time of a training step of the case [s]


def tiers(weights: str = "HBM", cache: str = "HBM", optimiser: str = "HBM") -> Live:
    """Show how long a GPU waits for weights, KV cache and optimiser state, given the memory tier of each.

    The GPU is one of the running case. When it serves, it reads its weights and the KV cache of 16 whole sequences for
    each token. When it trains, it reads and writes its optimiser state, 12 B per parameter, once in each step. (The 16
    and the 12 are illustrative.) Data outside HBM arrive at the rate of their tier or of a copy from the host,
    whichever is lower. Leaves out computation and overlap.

    Parameters
    ----------
    weights, cache, optimiser : str
        Tier that stores each of them: HBM, DDR or CXL.
    """
    arguments = {"weights": weights, "cache": cache, "optimiser": optimiser}
    controls: dict[str, Control] = dict.fromkeys(("weights", "cache", "optimiser"), Choice(_TIERS))
    scene = partial(tiers_scene, memory_traffic())
    return live_view("tiers", arguments, scene, controls)


def memory_traffic() -> MemoryTraffic:
    """Return the sizes and rates for a GPU of the running case."""
    case = catalog.case()
    copy_rate = catalog.value("memory_path", "h2d", "bandwidth")
    rates = {}
    for tier in _TIERS:
        _, rate = memory.tier(tier)
        rates[tier] = rate if tier == "HBM" else min(rate, copy_rate)

    # Keys and values of all layers and all tokens of a sequence, split by tensor parallelism. [B]
    heads = 2 * case.layers * case.kv_heads * case.head_dim
    sequence = heads * case.gradient_bytes * case.sequence / case.tp
    sizes = np.array(
        [
            case.parameters * case.gradient_bytes / case.tp,
            _SEQUENCES * sequence,
            _STATE * case.parameters / case.gpus,
        ]
    )
    return MemoryTraffic(sizes, rates, copy_rate, step_time=case.t_step)


def tiers_scene(traffic: MemoryTraffic, weights: str, cache: str, optimiser: str) -> Scene:
    """Return a picture of the times of a token and of a training step as bars."""
    chosen = [weights, cache, optimiser]
    rates = np.array([traffic.rates[tier] for tier in chosen])  # (3,) [B/s]
    passes = [1, 1, 2]  # the optimiser state is read and written
    times = traffic.sizes * passes / rates  # (3,) [s]
    token = times[:2].sum()
    step = times[2]

    labels = [text(f"live.tiers.{part}") for part in ("weights", "cache", "optimiser")]
    lanes = [text("live.tiers.token"), text("live.tiers.step")]
    parts = np.array([[times[0], times[1], 0.0], [0.0, 0.0, step]])

    caption = text(
        "live.tiers.said",
        token=token,
        state=step,
        part=100 * step / traffic.step_time,
    )
    more = text(
        "live.tiers.hint",
        rate=1 / token,
        n=_SEQUENCES,
        held=np.sum(traffic.sizes * (rates > traffic.copy_rate)),
    )
    columns = {
        "what": labels,
        "tier": chosen,
        "size [B]": traffic.sizes,
        "rate [B/s]": rates,
        "time [s]": times,
    }
    drawn = stacks_scene(lanes, labels, parts, caption, Table(columns), levels=_TIERS_LEVELS)
    return replace(drawn, hint=more, alt=f"{caption} {more}")


# Stacked bars -----------------------------------------------------------------------------------


def stacks_scene(
    lanes: Sequence[str],
    labels: Sequence[str],
    parts: Floats,
    said: str,
    table: Table,
    *,
    levels: int,
) -> Scene:
    """Return a picture of times as bars that consist of parts, each named above it, the largest in bold.

    Parameters
    ----------
    lanes, labels : sequence of str
        Names of the bars (B,) and of the parts (P,).
    parts : ndarray, shape (B, P)
        Time of each part; a part of 0 is left out. [s]
    said, table : str, Table
        The sentence above the picture, and its numbers.
    levels : int
        Room for so many rows of names above each bar.
    """
    above = levels * _LEVEL  # of a bar [px]
    lane_height = above + _BAR + _BELOW_BAR
    _, longest = common_ends("time", 0.0, float(parts.sum(axis=1).max()))
    to_x = log_axis(0, longest, _LEFT, _RIGHT)  # linear, as it begins at 0
    ends = np.cumsum(parts, axis=1)
    lane, part = np.nonzero(parts)  # (N,) of each piece that is drawn
    start = to_x(ends[lane, part] - parts[lane, part])
    width = to_x(ends[lane, part]) - start
    top = np.asarray(_TOP + lane_height * lane + above, np.float64)  # upper edge of each piece
    bottom = _TOP + lane_height * len(lanes)
    is_largest = parts[lane, part] == parts.max(axis=1)[lane]
    names = [
        f"{labels[p]} {units.format_time(parts[bar, p])}"
        for bar, p in zip(lane.tolist(), part.tolist(), strict=True)
    ]
    ticks = np.array(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(0, longest))
    ticks = ticks[(ticks >= 0) & (ticks <= longest)]
    each = np.arange(len(lanes), dtype=np.float64)
    middle = _TOP + lane_height * each + above + _BAR / 2
    # The name of the only part of a bar gives its time already.
    totals = [
        units.format_time(total) if several else ""
        for total, several in zip(ends[:, -1], (parts > 0).sum(axis=1) > 1, strict=True)
    ]
    layers = {
        **tick_layers(ticks, to_x, units.format_time, (_TOP, bottom), True),
        "backs": boxes(start, top, width, _BAR, colour=COLOUR["paper"], round=0.0),
        "bars": boxes(
            start,
            top,
            width,
            _BAR,
            colour=_SHADES[part % _SHADES.size],  # a part has one shade in all bars
            round=0.0,
            names=[f"{lanes[bar]}: {name}" for bar, name in zip(lane.tolist(), names, strict=True)],
            glide=True,
        ),
        **part_names(names, np.asarray(start + width / 2, np.float64), top, lane, is_largest),
        "lanes": texts(_LEFT - 10, middle, list(lanes), align=2.0),
        "totals": texts(to_x(ends[:, -1]) + 8, middle, totals, bold=1.0),
    }
    return Scene(said, table, layers, bottom + 26, alt=said, width=_WIDTH)


@dataclass(frozen=True, slots=True)
class LabelPlace:
    """Where the name of a piece stands above its bar, and the line that leads down from it."""

    left: float  # [px]
    right: float  # [px], for the widest letters
    level: int  # 0 is nearest to the bar
    leader: float  # x of the line [px]
    align: float  # 0: the name begins at ``left``, 1: its middle is between both, 2: it ends at ``right``

    @property
    def x(self) -> float:
        """Where the name is anchored, so that its line meets it however narrow its letters are [px]."""
        return self.left + self.align / 2 * (self.right - self.left)

    def agrees(self, other: "LabelPlace") -> bool:
        """Return whether two names keep apart, and no line of one crosses the name of the other."""
        if self.level == other.level:
            return self.left >= other.right + _APART or other.left >= self.right + _APART
        upper, lower = (self, other) if self.level > other.level else (other, self)
        return not lower.left - _BESIDE < upper.leader < lower.right + _BESIDE


def label_places(middle: Sequence[float], wide: Sequence[float]) -> list[LabelPlace]:
    """Return a place for each name of a bar, as low as can be, so that names and lines keep apart.

    ``middle`` and ``wide`` are the middle of each piece, from left to right, and the width of its name (N,) [px]. A
    name stands in the middle above its line, or begins or ends there.
    """
    leaders: list[float] = []
    for at in middle:  # lines of short pieces keep apart, and bend to their pieces
        leaders.append(max(at, leaders[-1] + _LINES_APART) if leaders else at)
    n = len(leaders)
    numbers = list(range(n))

    # From the left, from the right, and from both sides to some name in the middle.
    trials: list[list[tuple[int, tuple[str, ...]]]] = [
        [(number, ("middle", "ends", "begins")) for number in numbers],
        [(number, ("middle", "begins", "ends")) for number in reversed(numbers)],
    ]
    for split in range(n + 1):
        trial: list[tuple[int, tuple[str, ...]]] = []
        trial += [(number, ("ends",)) for number in numbers[:split]]
        trial += [(number, ("begins",)) for number in reversed(numbers[split:])]
        trials.append(trial)

    best: list[LabelPlace] = []
    for trial in trials:
        placed: dict[int, LabelPlace] = {}
        for number, forms in trial:
            for level, form in itertools.product(range(_LEVELS), forms):
                place = label_place(leaders[number], wide[number], level, form)
                if place is not None and all(place.agrees(other) for other in placed.values()):
                    placed[number] = place
                    break
        found = [placed[number] for number in numbers if number in placed]
        if len(found) == n and (not best or _levels(found) < _levels(best)):
            best = found
    best = best or _first_that_fits(leaders, wide, [])
    if best:
        return best
    stairs = []  # more names than levels in one place: then lines may cross names
    for number, (leader, width) in enumerate(zip(leaders, wide, strict=True)):
        level = (n - 1 - number) % _LEVELS
        begins = label_place(leader, width, level, "begins")
        stairs.append(begins or LabelPlace(leader - width, leader, level, leader, align=2.0))
    return stairs


def _first_that_fits(
    leaders: Sequence[float], wide: Sequence[float], placed: list[LabelPlace]
) -> list[LabelPlace]:
    """Return places for all names, with those of the first ones given, or none: each way is tried, so it is slow."""
    number = len(placed)
    if number == len(leaders):
        return placed
    for level, form in itertools.product(range(_LEVELS), ("begins", "ends", "middle")):
        place = label_place(leaders[number], wide[number], level, form)
        if place is not None and all(place.agrees(other) for other in placed):
            found = _first_that_fits(leaders, wide, [*placed, place])
            if found:
                return found
    return []


def label_place(leader: float, width: float, level: int, form: str) -> LabelPlace | None:
    """Return the place of a name at its line, or None if a name that begins or ends there would leave the picture."""
    before, align = {
        "middle": (width / 2, 1.0),
        "begins": (_OVERHANG, 0.0),
        "ends": (width - _OVERHANG, 2.0),
    }[form]
    wanted = leader - before
    # No name begins before the bars, except where it has to end at its line.
    first = _LEFT if form == "middle" else _PAGE_EDGE
    left = min(max(wanted, first), _WIDTH - width - _PAGE_EDGE)
    if left != wanted and form != "middle":
        return None
    if left > wanted:
        align = 0.0
    elif left < wanted:
        align = 2.0
    return LabelPlace(left, left + width, level, leader, align)


def _levels(places: Sequence[LabelPlace]) -> int:
    """Return the sum of the levels of names, which is small where they are near to their bar."""
    return sum(place.level for place in places)


def part_names(
    names: Sequence[str], middle: Floats, top: Floats, lane: Ints, bold: Flags
) -> dict[str, Layer]:
    """Return the names of the pieces of bars above them, on several levels so that none meets another.

    ``middle`` and ``top`` are the places of the pieces (N,) [px], from left to right within each bar.
    """
    places: list[LabelPlace] = []
    for bar in range(int(lane.max()) + 1):
        which = np.flatnonzero(lane == bar).tolist()
        wide = [_LETTER * len(names[i]) for i in which]
        places += label_places([float(middle[i]) for i in which], wide)
    leader = [place.leader for place in places]
    height = top - 14 - _LEVEL * np.array([place.level for place in places])
    leaders = [
        np.array([[x, y + 7], [x, edge - 6], [at, edge]])
        for x, at, y, edge in zip(leader, middle, height, top, strict=True)
    ]
    colour = np.where(bold, COLOUR["ink"], COLOUR["soft"])
    return {
        "leaders": lines(leaders, width=0.8, colour=COLOUR["edge"]),
        "parts": texts(
            np.array([place.x for place in places]),
            height,
            names,
            align=np.array([place.align for place in places]),
            bold=bold.astype(np.float64),
            colour=colour,
            halo=1.0,
        ),
    }


# The slowest worker -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """How long each worker computes in one step, of which the longest is the time of the step."""

    seconds: Floats  # (N,) [s]

    @property
    def last(self) -> int:
        """Number of the worker for whom all others wait."""
        return int(self.seconds.argmax())

    @property
    def step(self) -> float:
        """Time of the step [s]."""
        return float(self.seconds.max())

    @property
    def idle_share(self) -> float:
        """Mean share of the step in which a worker waits."""
        return float(1 - self.seconds.mean() / self.step)


def slowest(workers: int = 8, jitter: float = 0.1, step: int = 0) -> Live:
    """Show how long the workers of a synchronous step compute, and how long they wait for the last of them.

    Each worker computes for a second on average, with normally distributed times; ``step`` is the seed of the draw.
    Leaves out the communication itself, and workers that are late again and again.

    Parameters
    ----------
    workers : int
        Number of workers, 2..128.
    jitter : float
        Standard deviation of the time of a worker. 0..0.2 [s]
    step : int
        Number of the step, 0..99.
    """
    arguments = {"workers": workers, "jitter": jitter, "step": step}
    controls: dict[str, Control] = {
        "workers": Slider(2, _MOST_WORKERS),
        "jitter": Slider(0, 0.2, 0.01, unit="s"),
        "step": Slider(0, _STEPS - 1, play=True),
    }
    return live_view("slowest", arguments, slowest_scene, controls)


def worker_times(workers: int, jitter: float, step: int) -> WorkerTimes:
    """Return the times of the workers in a step; the first of more workers have the times of fewer."""
    draw = np.random.default_rng(step)
    return WorkerTimes(np.maximum(draw.normal(1.0, jitter, workers), 0.0))


def worker_numbers() -> Ints:
    """Return numbers of workers from 1 to 1,024, close enough that a curve through their times has no corners."""
    return np.unique(np.rint(np.exp2(np.arange(0, _DOUBLINGS + 0.1, 0.25)))).astype(np.int64)


@lru_cache(maxsize=32)
def mean_step_times(jitter: float) -> Floats:
    """Return the mean time of 100 steps for each of `worker_numbers` [s]."""
    numbers = worker_numbers()
    times = [worker_times(int(numbers[-1]), jitter, step).seconds for step in range(_STEPS)]
    longest_so_far = np.maximum.accumulate(np.array(times), axis=1)  # (steps, workers)
    return np.asarray(longest_so_far.mean(axis=0)[numbers - 1])


def slowest_scene(workers: int, jitter: float, step: int) -> Scene:
    """Return a bar for each worker: below it computes, and up to the line at the last one's end it waits."""
    found = worker_times(workers, jitter, step)
    caption = text(
        "live.slowest.said",
        step=step,
        last=found.last,
        time=found.step,
        others=workers - 1,
        idle=100 * found.idle_share,
    )
    names = [text("live.slowest.worker", n=n) for n in range(workers)]
    waits = found.step - found.seconds
    table = Table({"worker": np.arange(workers), "computes [s]": found.seconds, "waits [s]": waits})

    pitch = _WORKERS_WIDTH / workers
    width = max(pitch - 3, 2.0)
    x = _WORKERS_LEFT + pitch * np.arange(workers)
    per_second = (_WORKERS_FOOT - _WORKERS_TOP) / _LONGEST_STEP  # [px/s]
    top = _WORKERS_FOOT - per_second * found.seconds
    end = _WORKERS_FOOT - per_second * found.step
    is_last = np.arange(workers) == found.last
    right = _WORKERS_LEFT + _WORKERS_WIDTH
    grid = tick_layers(
        np.arange(0.0, _LONGEST_STEP, 0.5),
        lambda value: _WORKERS_FOOT - per_second * value,
        lambda value: f"{value:g} s",
        (_WORKERS_LEFT - 6, right),
        across=False,
    )
    waiting = boxes(
        x,
        end,
        width,
        top - end,
        colour=-1.0,
        edge=COLOUR["edge"],
        hatch=1.0,
        names=names,
        notes=[text("live.slowest.waits", time=float(wait)) for wait in waits],
        glide=True,
    )
    computing = boxes(
        x,
        top,
        width,
        _WORKERS_FOOT - top,
        colour=np.where(is_last, COLOUR["ink"], COLOUR["edge"]),
        names=names,
        notes=[text("live.slowest.computes", time=float(each)) for each in found.seconds],
        glide=True,
    )
    end_of_step = [np.array([[_WORKERS_LEFT - 6, end], [right, end]])]
    end_name = [text("live.slowest.end", time=found.step)]
    numbers_below = texts(
        x + width / 2,
        _WORKERS_FOOT + 14,
        [str(n) if pitch > _LEAST_PITCH else "" for n in range(workers)],
        align=1.0,
        bold=is_last,
        colour=np.where(is_last, COLOUR["ink"], COLOUR["soft"]),
    )
    below = [text("live.slowest.below")]
    layers = {
        "title": heading(16.0, text("live.slowest.axis")),
        **grid,
        "waits": waiting,
        "computes": computing,
        "end": lines(end_of_step, width=1.5, dash=1.0, colour=COLOUR["ink"]),
        "end name": texts(right, end - 11, end_name, align=2.0, bold=1.0, halo=1.0),
        "numbers": numbers_below,
        "below": texts(_WORKERS_LEFT, _WORKERS_FOOT + 34, below, colour=COLOUR["soft"]),
    }
    numbers = worker_numbers().astype(np.float64)
    means = mean_step_times(float(jitter))
    side = curve_panel(
        text("live.slowest.panel"),
        text("live.slowest.workers"),
        [Curve(text("live.slowest.mean", n=_STEPS), numbers, means)],
        [Spot(workers, found.step, text("live.slowest.spot", step=step, time=found.step))],
        show_x=lambda value: f"{value:,.0f}",
        show_y=lambda value: f"{value:g} s",
        ticks_x=np.array([1.0, 8.0, 64.0, 1024.0]),
        log_x=True,
        height=_WORKERS_FOOT + 48,
    )
    return Scene(
        caption, table, layers, _WORKERS_FOOT + 48, alt=caption, width=_WORKERS_ROOM, side=side
    )
