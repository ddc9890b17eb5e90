"""Timeline: flows as bars over time, one lane per sender; of repeated groups only one repetition is drawn."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from fabriclab import registry, units
from fabriclab.core import Fabric, Flags, Floats, Flows, Ints, Timeline
from fabriclab.texts import text
from fabriclab.views.common import common_ends
from fabriclab.views.page import Axes, Picture, Table
from fabriclab.views.rulers import fitted
from fabriclab.views.scene import (
    COLOUR,
    WIDTH,
    Layer,
    Scene,
    boxes,
    ink_on,
    lines,
    printed,
    texts,
    tick_layers,
    tick_texts,
)
from fabriclab.views.sweeps import readable

_MOST_LANES = 16
_MOST_BARS = 4096  # so many a browser still redraws without a visible delay
_PRINTED = 880.0  # width of a picture that is no live view [px]
_REST = 0.13  # room for all other repetitions of a group, as a fraction of all drawn repetitions together
_BOTH_SIDES = 0.095  # of those before it, and of those behind it, where there are both
_SEAM = 4.0  # between such rooms of two groups beside each other [px]
_LABEL_GAP = 0.09  # least distance between two ticks, as a fraction of the axis
# Edges of the drawing area [px].
_TOP = 30.0
_MARGIN = 32.0  # on the right
_LEFT = 24.0  # without the names of the lanes
_NAME_LETTER = 6.8  # width of a letter of such a name
_LANES_HEIGHT = 320.0  # of all lanes, where there are many [px]
_ROWS = (20.0, 44.0)  # least and greatest height of a lane [px]
_HIGHEST_ROW = 84.0  # of a lane beside a higher panel [px]
_BELOW = 40.0  # room for the axis [px]
_BAR_TOP = 0.11  # upper edge of a bar that has its lane for itself, as a fraction of the height of the lane
_BAR_SHARE = 0.78  # height of such a bar, as a fraction of the height of the lane
_LETTER = 6.8  # width of a letter in the legend [px]
_ABOVE = 7.0  # from the names of passes to their bars [px]
_PALE = 0.65  # opacity of flows that are not under way
_TICKS_APART = 85.0  # about [px]
_NUMBER_ROOM = 4.0  # in a bar beside its number [px]
_WAIT = 22.0  # room for a time that is marked above the lanes [px]
_NEAR = 0.05  # how far before a tick an axis may end that is made to reach it, as a fraction of the axis
_SAMPLE_ROOM = 38.0  # room for a sample in the legend, without its name [px]
Namer = Callable[[int], str]
# One hue for each kind of work in the whole course. Computations are grey: a forward pass is near the paper, a backward
# pass far from it. Messages have the hue of their traffic; two kinds of one traffic differ in `PATTERNS`.
HUES = {
    "forward": "hair",
    "backward": "work",
    "compute": "work",
    "all-reduce": "dp",
    "all-gather": "dp",
    "reduce-scatter": "dp",
    "push": "dp",
    "pull": "dp",
    "send": "pp",
    "all-to-all": "ep",
    "CPU": "work",
    "DMA": "hair",
    "tensor sums": "tp",
    "keys, values": "cp",
    "experts": "ep",
    "sends": "pp",
    "parameters": "dp",
    "gradients": "dp",
    "optimiser": "optimiser",
    "waits": "sunk",
}
_PASSES = ("forward", "backward")
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
PATTERNS = {"pull": 1.0, "reduce-scatter": 1.0}  # hatching, a place in `HATCHES`
# Of kinds without a hue of their own, in turn: ink and greys, as the hues of traffic stand for traffic only.
FILLS = ("ink", "direct", "hair", "soft", "grey")


class Room(NamedTuple):
    """Where the time axis begins and ends [px]."""

    left: float
    right: float


class Bars(NamedTuple):
    """The flows that are drawn, one bar each, in the order of the flows."""

    flow: Ints  # (B,)
    lane: Ints  # (B,) lane of each bar, counted from the top
    names: list[str]  # names of the lanes that are drawn
    n_lanes: int  # number of all lanes, drawn or not


def room_for(names: list[str], width: float) -> Room:
    """Return the room that the names of the lanes leave to the time axis in a picture of a width [px]."""
    return Room(_LEFT + _NAME_LETTER * max(map(len, names)), width - _MARGIN)


def timeline(
    timeline: Timeline,
    flows: Flows,
    fabric: Fabric | None = None,
    *,
    waits: tuple[float, float] | None = None,
    numbers: ArrayLike | None = None,
    title: str = "",
    ax: Axes | None = None,
    finding: str | None = None,
) -> Picture:
    """Draw when each flow sends, one lane per source.

    Of a repeated group only the first repetition is drawn, followed by a grey span with the number of repetitions. At
    most 16 lanes are drawn: those that finish last.

    Parameters
    ----------
    timeline, flows : Timeline, Flows
        Times that an engine computed, and the flows that it ran.
    fabric : Fabric, optional
        Where the lanes take their names from.
    waits : pair of float, optional
        Beginning and end of a time in which computation waits, marked above the lanes. Without a length nothing is
        marked. [s]
    numbers : array_like, shape (F,), optional
        Number of each flow, such as that of the piece that it carries, which is written in its bar where it has room.
        Flows with the least number are in ink, so that one can be followed; all others are grey.
    title : str
        What a lane shows, in words above all lanes. Only with ``numbers``, instead of the names of kinds of flows.
    ax, finding : optional
        Axes to draw on, and the sentence above the picture.

    Raises
    ------
    ValueError
        If there is no flow, timeline and flows do not belong to the same run, ``waits`` is not within the run, or
        ``numbers`` has not one number for each flow.
    """
    name = None if fabric is None else fabric.name
    scene = timeline_scene(timeline, flows, name, width=_PRINTED)
    if numbers is not None and not scene.wrong:
        scene = _with_numbers(scene, bars_of(timeline, flows, name).flow, flows, numbers, title)
    if waits is not None and not scene.wrong:
        scene = _with_wait(scene, timeline, waits)
    return printed(scene, ax=ax, finding=finding)


def hue(kind: str) -> float:
    """Return the colour of a kind of work that has a hue of its own, such as "backward" or "all-reduce"."""
    return COLOUR[HUES[kind]]


def hues_of(labels: tuple[str, ...]) -> Floats:
    """Return the colour of each kind of flow (K,); all kinds from the fifth without a hue of its own on are grey."""
    colours = []
    in_turn = 0
    for label in labels:
        if label in HUES:
            colours.append(hue(label))
        else:
            colours.append(COLOUR[FILLS[min(in_turn, len(FILLS) - 1)]])
            in_turn += 1
    return np.array(colours)


def patterns_of(labels: tuple[str, ...]) -> Floats:
    """Return the hatching of each kind of flow (K,), 0 for none."""
    return np.array([PATTERNS.get(label, 0.0) for label in labels])


def row_height(lanes: int) -> float:
    """Return the height of each of some lanes [px], so that many fit into a window."""
    return float(np.clip(_LANES_HEIGHT / lanes, *_ROWS))


def timeline_scene(
    t: Timeline,
    flows: Flows,
    name: Namer | None = None,
    at: float | None = None,
    width: float = WIDTH,
    height: float = 0.0,
) -> Scene:
    """Return a picture of a timeline; if ``at`` is given, with a line after that time [s].

    ``name`` is a function from a source to the name of its lane, such as `Fabric.name`; ``width`` is that of the
    picture [px], and ``height`` what few lanes should fill, as far as they do not get too high [px].

    Raises
    ------
    ValueError
        If timeline and flows do not belong to the same run.
    """
    if t.start.size != flows.n_flows or t.repeat.size != flows.repeat.size:
        raise ValueError(f"timeline and flows must be of one run, got {t!r} and {flows!r}")
    if not flows.n_flows or t.end <= 0:
        return Scene(text("timeline.empty", n=flows.n_flows, end=t.end), wrong=True)

    bars = bars_of(t, flows, name)
    left_out = ""
    if len(bars.names) < bars.n_lanes:
        left_out = text("timeline.lanes", n=len(bars.names), all=bars.n_lanes)
    if bars.flow.size > _MOST_BARS:
        left_out = text("timeline.bars", n=_MOST_BARS, all=bars.flow.size)
        bars = latest(t, bars)

    if at is None:
        now = t.end
        busy = np.ones(bars.flow.size, dtype=bool)
        turns = np.ones(t.repeat.size, dtype=np.int64)
    else:
        now = at
        busy = busy_at(t, flows, bars.flow, now)
        turns = turns_at(t, now)

    room = room_for(bars.names, width)
    row = row_height(len(bars.names))
    row = max(row, min((height - _TOP - _BELOW) / len(bars.names), _HIGHEST_ROW))
    bottom = _TOP + row * len(bars.names)
    middle = _TOP + row * (np.arange(len(bars.names)) + 0.5)  # middle of each lane [px]
    marked = busy if at is not None else np.zeros(bars.flow.size, dtype=bool)
    layers = {
        **axis_layers(t, bottom, room, turns),
        **legend_layers(flows, np.unique(flows.label[bars.flow]), width),
        "bars": bar_layer(t, flows, bars, busy, marked, room, row, turns),
        "lanes": texts(room.left - 8, middle, bars.names, align=2.0),
    }
    table = as_table(t, flows, bars)
    clauses = clauses_of(t, flows, bars.n_lanes)
    if at is None:
        alt = "; ".join(clauses)
        return Scene(clauses[0], table, layers, bottom + _BELOW, alt, caption=left_out, width=width)

    layers["kinds pale"] = pale_samples(layers["kinds"])
    layers["passes"] = pass_words(flows, bars, layers["bars"])
    line = float(across(t, now, room, turns))
    if len(flows.labels) < 2:  # else the legend stands there
        layers["turns"] = turn_layer(t, room, turns)
    moment = np.array([[line, _TOP - 4], [line, bottom + 4]])
    # With a gap in the bars behind it, which may be as dark as the line.
    layers["now"] = lines(
        [moment, moment],
        width=np.array([5.0, 2.0]),
        colour=np.array([COLOUR["paper"], COLOUR["ink"]]),
    )
    sentence = sentence_at(t, flows, bars, busy, now)
    return Scene(
        f"{sentence} {left_out}".rstrip(),
        table,
        layers,
        bottom + _BELOW,
        alt=f"{sentence} " + "; ".join(clauses),
        hint=text("timeline.hint"),
        width=width,
    )


# What is shown ------------------------------------------------------------------------------------


def bars_of(t: Timeline, flows: Flows, name: Namer | None) -> Bars:
    """Return a bar for each flow in the lanes that finish last; at most `_MOST_LANES` lanes are drawn."""
    source, lane = np.unique(flows.source, return_inverse=True)
    last = np.zeros(source.size)  # (S,) time at which each source has sent everything [s]
    np.maximum.at(last, lane, t.finish)
    shown = np.sort(np.argsort(-last, kind="stable")[:_MOST_LANES])

    flow = np.flatnonzero(np.isin(lane, shown))
    if name is None:
        name = "node {}".format
    return Bars(
        flow=flow,
        lane=np.searchsorted(shown, lane[flow]),
        names=[name(int(i)) for i in source[shown]],
        n_lanes=source.size,
    )


def latest(t: Timeline, bars: Bars) -> Bars:
    """Return the `_MOST_BARS` bars that finish last, as many as a browser redraws without a visible delay."""
    kept = np.sort(np.argsort(-t.finish[bars.flow], kind="stable")[:_MOST_BARS])
    return bars._replace(flow=bars.flow[kept], lane=bars.lane[kept])


def busy_at(t: Timeline, flows: Flows, flow: Ints, time: float) -> Flags:
    """Return which of some flows are under way at a given time, in any repetition of their group."""
    group = flows.group[flow]
    begun = t.group_start[group]
    period = t.period[group]
    in_group = (begun <= time) & (time < begun + period * t.repeat[group])
    # Time since the current repetition began; a group without a period runs once.
    since = np.mod(time - begun, np.where(period > 0, period, np.inf))
    return in_group & (t.start[flow] - begun <= since) & (since < t.finish[flow] - begun)


def turns_at(t: Timeline, time: float) -> Ints:
    """Return the repetition of each group that is drawn (G,): the one at a time [s], otherwise the first."""
    begun = t.group_start
    period = np.where(t.period > 0, t.period, np.inf)
    runs = (begun <= time) & (time < begun + t.period * t.repeat)
    turn = ((time - begun) / period).astype(np.int64) + 1
    return np.asarray(np.where(runs, np.minimum(turn, t.repeat), 1))


def drawn_from(t: Timeline, turns: Ints) -> Floats:
    """Return when the drawn repetition of each group begins (G,). [s]."""
    return np.asarray(t.group_start + t.period * (turns - 1))


def slots_of(lane: Ints, left: Floats, right: Floats) -> tuple[Ints, Ints]:
    """Return the slot of each bar (B,) within its lane, and the number of slots in each lane.

    Bars that overlap are in different slots; each bar takes the first free slot.
    """
    slot = np.zeros(lane.size, dtype=np.int64)
    ends = np.full((int(lane.max()) + 1, lane.size), -np.inf)  # end of the last bar in each slot
    for i in np.lexsort((right, left)):
        free = ends[lane[i]] <= left[i] + 1e-12  # its last bar has ended, or there was none
        slot[i] = np.argmax(free)
        ends[lane[i], slot[i]] = right[i]
    return slot, np.count_nonzero(np.isfinite(ends), axis=1)


def axis_of(t: Timeline, room: Room, turns: Ints) -> tuple[Floats, Floats]:
    """Return places along the axis, in any unit, and the time [s] at each of these places.

    Between these places the axis is linear. Each group has three spans: for the repetition that is drawn, and for all
    earlier and all later ones together, which have no width if there are none. An axis that would end shortly before a
    tick ends there.
    """
    repeated = (t.repeat > 1) & (t.period > 0)
    earlier = repeated & (turns > 1)
    later = repeated & (turns < t.repeat)
    rest = np.where(earlier & later, _BOTH_SIDES, _REST) * t.period.sum()  # (G,)
    spans = np.stack([rest * earlier, t.period, rest * later], axis=1)  # (G, 3)
    places = np.append(0.0, np.cumsum(spans))
    begin = drawn_from(t, turns)
    times = np.append(np.stack([t.group_start, begin, begin + t.period], axis=1), t.end)  # [s]
    if not repeated.any():
        _, last = common_ends("time", 0.0, t.end)
        tick = float(_ticks(last, room)[-1])
        if last < tick <= (1 + _NEAR) * last:
            last = tick
        places = np.append(places, places[-1] + last - t.end)
        times = np.append(times, last)
    return places, times


def across(t: Timeline, time: float | Floats, room: Room, turns: Ints) -> Floats:
    """Return the horizontal place of a time [s] in the picture, in which some repetitions are drawn (G,). [px]."""
    places, times = axis_of(t, room, turns)
    length = room.right - room.left
    return np.asarray(room.left + length * np.interp(time, times, places) / places[-1])


# Layers -------------------------------------------------------------------------------------------


def axis_layers(t: Timeline, bottom: float, room: Room, turns: Ints) -> dict[str, Layer]:
    """Return the ticks and title of the time axis, and grey spans for the repetitions that are not drawn."""
    places, times = axis_of(t, room, turns)
    length = room.right - room.left
    unit = length / places[-1]  # [px]

    n = t.repeat.size
    spans = np.diff(places)[: 3 * n].reshape(n, 3)[
        :, [0, 2]
    ]  # (G, 2) earlier and later repetitions
    group, side = np.nonzero(spans)
    if group.size:
        marks = _apart(places, np.flatnonzero(np.arange(places.size) % 3))
    else:
        marks = _ticks(float(places[-1]), room)
    marks = marks[(marks >= 0) & (marks <= places[-1])]

    def to_x(place: Any) -> Floats:
        return np.asarray(room.left + unit * np.asarray(place))

    def time_at(place: float) -> str:
        return units.format_time(float(np.interp(place, places, times)))

    begins = 3 * group + 2 * side
    seam = np.where((side == 0) & (group > 0), _SEAM, 0.0)
    left = to_x(places[begins]) + seam
    counts = np.stack([turns - 1, t.repeat - turns], axis=1)[group, side].tolist()
    grey = boxes(
        left,
        _TOP - 4,
        to_x(places[begins + 1]) - left,
        bottom + 4 - _TOP,
        round=0.0,
        colour=COLOUR["sunk"],
        edge=COLOUR["line"],
        texts=[text("timeline.further", n=count) for count in counts],
        ink=COLOUR["ink"],
    )
    words = text("timeline.axis_folded" if group.size else "timeline.axis")
    title = texts(room.right, bottom + 29, [words], align=2.0, colour=COLOUR["soft"])
    return {
        **tick_layers(marks, to_x, time_at, (_TOP - 4, bottom), True),
        "axis": title,
        "repeats": grey,
    }


def turn_layer(t: Timeline, room: Room, turns: Ints) -> Layer:
    """Return above each repeated group which of its repetitions is drawn, and when that begins."""
    begin = drawn_from(t, turns)
    middle, words = [], []
    groups = np.flatnonzero((t.repeat > 1) & (t.period > 0)).tolist()
    key = "timeline.drawn_in" if len(groups) > 1 else "timeline.drawn"
    for group in groups:
        ends = begin[group] + np.array([0.0, t.period[group]])
        left, right = across(t, ends, room, turns).tolist()
        start = _begin_words(begin[group], t.period[group])
        name = text(key, g=group, turn=turns[group], n=t.repeat[group], start=start)
        if _NAME_LETTER * len(name) < right - left:
            middle.append((left + right) / 2)
            words.append(name)
    return texts(middle, _TOP - 14, words, align=1.0, colour=COLOUR["soft"])


def _begin_words(begin: float, length: float) -> str:
    """Return when something begins that takes a time [s]; zero has the unit of that time."""
    return tick_texts([begin, length], units.format_time)[0]


def _ticks(last: float, room: Room) -> Floats:
    """Return the places of ticks from 0 to the end of an axis or to the first tick behind it."""
    most = int((room.right - room.left) / _TICKS_APART)
    return np.asarray(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(0, last))


def _apart(places: Floats, first: Ints) -> Floats:
    """Return places that are far enough from each other, those at the indices ``first`` before all others."""
    taken: list[float] = []
    for place in np.append(places[first], places).tolist():
        if all(abs(place - other) > _LABEL_GAP * places[-1] for other in taken):
            taken.append(place)
    return np.sort(taken)


def legend_layers(flows: Flows, shown: Ints, width: float = WIDTH) -> dict[str, Layer]:
    """Return a legend with a sample for each colour of the kinds ``shown``; empty if the run has one kind only."""
    if len(flows.labels) < 2:
        return named_samples([], np.array([]))
    looks = np.stack([hues_of(flows.labels), patterns_of(flows.labels)], axis=1)  # (K, 2)
    names: dict[tuple[float, float], list[str]] = {}  # colour and hatching -> kinds that have it
    for kind in shown:
        colour, hatch = looks[kind].tolist()
        names.setdefault((colour, hatch), []).append(readable(flows.labels[kind]))
    words = []
    for (colour, _), kinds in names.items():
        alike = colour == COLOUR["grey"] and len(kinds) > 1
        words.append(text("sweep.others", n=len(kinds)) if alike else ", ".join(kinds))
    room = (width - 2 * _MARGIN) / len(words) - _SAMPLE_ROOM
    drawn, hatches = np.array(list(names)).reshape(-1, 2).T
    return named_samples([fitted(word, room) for word in words], drawn, hatches=hatches)


def named_samples(
    names: list[str], colours: Floats, top: float = 4.0, hatches: Floats | None = None
) -> dict[str, Layer]:
    """Return a row of samples that look like their bars, with a name behind each."""
    widths = [_SAMPLE_ROOM + _LETTER * len(name) for name in names]
    left = 12 + np.cumsum([0, *widths])[: len(names)]
    edges = np.where(np.isin(colours, [COLOUR["sunk"]]), COLOUR["hair"], COLOUR["paper"])
    edges = np.where(colours < 0, COLOUR["edge"], edges)  # a hatched box without a fill
    return {
        "kinds": boxes(left, top, 18.0, 12.0, colour=colours, edge=edges, hatch=hatches, round=2.0),
        "kind names": texts(left + 24, top + 6, names),
    }


def pale_samples(samples: Layer) -> Layer:
    """Return the right halves of the samples of a legend as pale as what is not under way."""
    look = samples.fields
    n = np.size(look["x"])
    half = np.asarray(look["w"]) / 2
    hatch = np.broadcast_to(look.get("hatch", 0.0), n)
    return boxes(
        np.tile(look["x"] + half, 2),
        np.tile(look["y"], 2),
        np.tile(half, 2),
        np.tile(look["h"], 2),
        round=2.0,
        colour=np.append(np.full(n, COLOUR["paper"]), np.broadcast_to(look["colour"], n)),
        hatch=np.append(np.zeros(n), hatch),
        alpha=np.repeat([1.0, _PALE], n),
    )


def legend_end(samples: dict[str, Layer]) -> float:
    """Return where the last name of a row of samples ends [px]."""
    names = samples["kind names"].fields
    return float(names["x"][-1]) + _LETTER * len(names["texts"][-1])


def bar_layer(
    t: Timeline,
    flows: Flows,
    bars: Bars,
    busy: Flags,
    marked: Flags,
    room: Room,
    row: float,
    turns: Ints,
) -> Layer:
    """Return a bar for each flow; bars that overlap share the height of their lane.

    Bars are pale where they are not ``busy``, and have an edge in ink where they are ``marked``. ``row`` is the height
    of a lane [px], ``turns`` the repetition of each group that is drawn (G,).
    """
    flow = bars.flow
    later = (drawn_from(t, turns) - t.group_start)[flows.group[flow]]  # (B,) than the first one [s]
    start, finish = t.start[flow] + later, t.finish[flow] + later  # (B,) [s]
    left = across(t, start, room, turns)  # (B,) [px]
    right = across(t, finish, room, turns)  # (B,) [px]
    slot, n_slots = slots_of(bars.lane, left, right)
    height = _BAR_SHARE * row / n_slots[bars.lane]  # (B,) [px]
    top = _TOP + row * (bars.lane + _BAR_TOP) + slot * height

    roomy = (height > 4) & (right - left > 4)  # a line between thin bars would hide them
    edge = np.where(roomy, np.where(marked, COLOUR["ink"], COLOUR["paper"]), COLOUR["none"])
    alpha = np.where(busy, 1.0, _PALE)

    names = []
    for lane, kind in zip(bars.lane, flows.label[flow], strict=True):
        names.append(f"{bars.names[lane]}, {readable(flows.labels[kind])}")
    notes = [
        _bar_note(size, *ends)
        for size, *ends in zip(
            flows.size[flow].tolist(), start.tolist(), finish.tolist(), strict=True
        )
    ]
    return boxes(
        left,
        top,
        np.maximum(right - left, 1.0),
        height,
        round=2.0,
        colour=hues_of(flows.labels)[flows.label[flow]],
        hatch=patterns_of(flows.labels)[flows.label[flow]],
        alpha=alpha,
        edge=edge,
        names=names,
        notes=notes,
    )


def pass_words(flows: Flows, bars: Bars, drawn: Layer) -> Layer:
    """Return the names of the passes above the runs of their bars in the first lane.

    A pale bar of one pass may look as a strong one of another in the legend.
    """
    x, wide, top = (drawn.fields[name] for name in ("x", "w", "y"))
    first = np.flatnonzero(bars.lane == 0)
    in_order = first[np.argsort(x[first], kind="stable")].tolist()
    middles, words = [], []
    for kind, run in itertools.groupby(
        in_order, lambda bar: flows.labels[flows.label[bars.flow[bar]]]
    ):
        here = list(run)
        begin, end = float(x[here[0]]), float(x[here[-1]] + wide[here[-1]])
        if kind in _PASSES and end - begin > _LETTER * len(kind):
            middles.append((begin + end) / 2)
            words.append(kind)
    height = float(top[first].min(initial=np.inf)) - _ABOVE if words else 0.0
    return texts(middles, height, words, align=1.0, size=11.0, colour=COLOUR["soft"], halo=1.0)


def _bar_note(size: float, start: float, finish: float) -> str:
    """Return the note of a bar: size, start and finish of the flow; a computation has no size."""
    size_words = units.format_size(size) if size else ""
    begin = _begin_words(start, finish)
    return text("timeline.bar", size=size_words, start=begin, end=finish).strip()


def _with_numbers(scene: Scene, shown: Ints, flows: Flows, numbers: ArrayLike, title: str) -> Scene:
    """Return a scene whose bars have the numbers of their flows, those with the least in ink and the others grey."""
    each = np.asarray(numbers)
    if each.shape != (flows.n_flows,):
        raise ValueError(
            f"numbers must have one for each of {flows.n_flows} flows, got {each.shape}"
        )
    each = each[shown]
    colours = np.where(each == each.min(), COLOUR["ink"], COLOUR["hair"])
    bars = with_numbers(scene.layers["bars"], [f"{number}" for number in each.tolist()], colours)
    layers = {name: layer for name, layer in scene.layers.items() if not name.startswith("kind")}
    layers["bars"] = bars
    layers["title"] = texts(12.0, 10.0, [title], bold=1.0)
    return replace(scene, layers=layers)


def with_numbers(bars: Layer, numbers: list[str], colours: Floats | None = None) -> Layer:
    """Return bars with numbers in them, where these have room, and in other ``colours`` if they are given."""
    fields = bars.fields
    fills = fields["colour"] if colours is None else colours
    room = fields["w"] - _NUMBER_ROOM
    words = [
        number if _LETTER * len(number) < space else ""
        for number, space in zip(numbers, room.tolist(), strict=True)
    ]
    names = [f"{name} {number}" for name, number in zip(fields["names"], numbers, strict=True)]
    more = {"colour": fills, "ink": ink_on(fills), "texts": words, "names": names}
    return Layer("boxes", {**fields, **more})


def _with_wait(scene: Scene, t: Timeline, waits: tuple[float, float]) -> Scene:
    """Return a scene in which a bracket with a length stands over a time, in a row of its own above the lanes."""
    begin, end = waits
    if not 0 <= min(waits) <= max(waits) <= t.end:
        raise ValueError(f"waits must be within 0..{t.end:g} s, got {begin:g} to {end:g} s")
    if begin >= end:
        return scene
    layers = {}
    for name, layer in scene.layers.items():
        if name in ("kinds", "kind names"):
            layers[name] = layer
        else:
            layers[name] = replace(layer, fields={**layer.fields, "y": layer.fields["y"] + _WAIT})

    room = room_for(list(scene.layers["lanes"].fields["texts"]), scene.width)
    firsts = np.ones(t.repeat.size, dtype=np.int64)
    left, right = across(t, np.array([begin, end]), room, firsts)
    high, low = _TOP + _WAIT - 10, _TOP + _WAIT - 4
    bracket = np.array([[left, low], [left, high], [right, high], [right, low]])
    words = text("timeline.wait", time=units.format_time(end - begin))
    layers["wait"] = lines([bracket], width=1.5, colour=COLOUR["ink"])
    layers["wait words"] = texts((left + right) / 2, high - 9, [words], align=1.0, bold=1.0)
    return replace(scene, layers=layers, height=scene.height + _WAIT)


def idle_of(bars: Layer, rows: Any) -> Layer:
    """Return empty bars from the left end of all bars to their right end; ``rows`` are their upper edges."""
    fields = bars.fields
    left = np.min(fields["x"])
    right = np.max(fields["x"] + fields["w"])
    height = np.max(fields["h"])
    return boxes(
        left, rows, right - left, height, round=2.0, colour=COLOUR["sunk"], edge=COLOUR["hair"]
    )


# Words and numbers --------------------------------------------------------------------------------


def as_table(t: Timeline, flows: Flows, bars: Bars) -> Table:
    """Return a table of all bars: size, first start and finish, and how often each flow runs.

    Sizes are left out if no flow has one, and repetitions if every flow runs once.
    """
    flow = bars.flow
    lanes = [bars.names[lane] for lane in bars.lane]
    kinds = [readable(flows.labels[kind]) for kind in flows.label[flow]]
    sizes = flows.size[flow]
    repeats = flows.repeat[flows.group[flow]]
    columns: dict[str, Any] = {"lane": lanes, "what": kinds}
    if np.any(sizes > 0):  # flows of a given length have no size
        columns["size [B]"] = sizes
    columns["start [s]"] = t.start[flow]
    columns["finish [s]"] = t.finish[flow]
    if np.any(repeats > 1):
        columns["times"] = repeats
    return Table(columns)


def clauses_of(t: Timeline, flows: Flows, n_lanes: int) -> list[str]:
    """Return clauses: how many flows there are, then which of the first eight groups are repeated, and how often."""
    clauses = [text("timeline.flows", n=flows.n_flows, lanes=n_lanes, end=t.end)]
    for group in np.flatnonzero(t.repeat[:8] > 1):
        clauses.append(text("timeline.group", g=group, time=t.period[group], n=t.repeat[group]))
    return clauses


def sentence_at(t: Timeline, flows: Flows, bars: Bars, busy: Flags, now: float) -> str:
    """Return sentences on the time ``now``: how many flows are under way, of which kinds, and in which repetition."""
    n_busy = int(busy.sum())
    key = "timeline.said_one" if n_busy == 1 else "timeline.said"
    # What follows has the unit.
    moment = units.format_time(now) if now else "0"
    sentence = text(key, now=moment, end=t.end, busy=n_busy, n=bars.flow.size)
    if not n_busy:
        return sentence
    kinds, counts = np.unique(flows.label[bars.flow[busy]], return_counts=True)
    listed = [kind_in_words(flows.labels[kind]) for kind in kinds]
    if kinds.size > 1:
        listed = [
            text("timeline.kind", kind=kind, n=n)
            for kind, n in zip(listed, counts.tolist(), strict=True)
        ]
    turn = turn_at(t, np.unique(flows.group[bars.flow[busy]]), now)
    belonging = text("timeline.belong", kinds=", ".join(listed), turn=turn)
    return f"{sentence} {belonging}"


def kind_in_words(label: str) -> str:
    """Return a kind of flow as a part of a sentence, such as "the ring all-reduce" or "the backward pass"."""
    if label in _PASSES:
        return text("timeline.of_pass", kind=label)
    if label in _COLLECTIVES:
        return text("timeline.of_collective", kind=label)
    collective, _, algorithm = label.partition(" ")
    if f"{collective}.{algorithm}" in registry.known("collective"):
        kind = f"{readable(algorithm)} {readable(collective)}"
        return text("timeline.of_collective", kind=kind)
    return readable(label)


def turn_at(t: Timeline, groups: Ints, now: float) -> str:
    """Return in words which repetition of a group runs at the time ``now``; empty unless it is one repeated group."""
    if groups.size != 1 or t.repeat[groups[0]] < 2 or t.period[groups[0]] <= 0:
        return ""
    return text("timeline.turn", turn=turns_at(t, now)[groups[0]], n=t.repeat[groups[0]])
