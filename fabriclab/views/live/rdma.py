"""Live views of RDMA: the states of a queue pair, a request from post to completion, and copies in a server."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from fabriclab import gpudirect, topologies, units
from fabriclab.catalog.tables import read_rows
from fabriclab.core import Fabric, Flags, Floats, Flows, Ints, Timeline
from fabriclab.rdma import PyverbsRDMAError, QPAttr, enums
from fabriclab.rdma.records import check_step, needs
from fabriclab.texts import text, wrapped
from fabriclab.views import timelines
from fabriclab.views.asides import Curve, Spot, curve_panel
from fabriclab.views.common import common_ends
from fabriclab.views.fabrics import scene_of
from fabriclab.views.layout import counted, number_in, spoken_names
from fabriclab.views.live.widget import Choice, Control, Live, Slider, live_view
from fabriclab.views.page import Table, plain
from fabriclab.views.scene import (
    COLOUR,
    FORM,
    Layer,
    Scene,
    boxes,
    heading,
    ink_on,
    lines,
    log_axis,
    texts,
    texts_at,
    tick_layers,
)
from fabriclab.views.timelines import timeline_scene

_MECHANISMS = ("peer", "pinned", "pageable")
_PICTURE = 560.0  # width of a picture with a panel beside it [px]
_PANEL = 276.0  # height of such a panel [px]

# Queue pair: four states side by side and ERR below them; what a transition needs stands in a panel. [px]
_STATES = ("RESET", "INIT", "RTR", "RTS", "ERR")
_STATE_WIDTH = 82.0
_STATE_HEIGHT = 36.0
_STATE_LEFT = np.array([22.0, 138.0, 254.0, 370.0, 196.0])
_STATE_TOP = np.array([128.0, 128.0, 128.0, 128.0, 236.0])
_STATES_WIDTH = 480.0
_STATES_HEIGHT = 300.0
_NEEDS_WIDTH = 400.0
_NEEDS_TOP = 44.0
_NEEDS_ROW = 40.0
_REFUSED_LIFT = 0.17  # how much higher the way of a refused transition is, below the title
_LOOP = 24.0  # height of a step from a state to itself, lower than all other steps [px]
_REASON_LETTERS = 56  # in a line
_CURVE = 24  # points of a curve

# Request: lanes for program, kernel and NIC of A, then for NIC, kernel and program of B; a row for each step. [px]
_COUNTERS = ("calls", "copies", "doorbells", "transfers", "completions")
_SHOWN_COUNTERS = _COUNTERS[:4]  # in the panel beside the lanes
_LANES = np.array([38.0, 84.0, 130.0, 190.0, 236.0, 282.0])
_NIC_OF_B = 5  # despite its name, the lane of B's program; `part_name` mirrors the lanes
_STEPS_TOP = 60.0
_STEPS_BOTTOM = 374.0
_STEP_HEIGHTS = (24.0, 36.0)  # least and greatest
_WORDS_LEFT = 316.0
_LADDER_WIDTH = 600.0
_COMPARED = ("WRITE", "SEND", "TCP socket")
_COUNTS_WIDTH = 280.0
_COUNTS_LEFT = 104.0
_COUNT = 18.0  # length of a bar of one [px]
_COUNT_HEIGHT = 12.0
_COUNT_FIRST_ROW = 17.0  # from the upper edge of a counter, where its name is, to its bars
_COUNT_NAME_HEIGHT = 26.0  # that distance, and room below the bars
_COUNTS_TOP = 36.0

_NUMBERED = 32  # at most so many chunks have numbers in their bars

# Savings: a row for each mechanism, with its meaning above its copies. [px]
_ROW_LEFT = 16.0
_BAR_LETTER = (
    10.0  # width of a letter in a bar, on a page that shows the picture at its smallest [px]
)
_ROW_RIGHT = 480.0
_ROWS_TOP = 52.0
_ROW = 66.0
_ROW_BAR = 28.0
_SIZES = np.geomspace(1e3, 1e9, 13)  # of a transfer, the range of the slider [B]

# Copies: a line for each copy, and a description below the picture. [px]
_COPY_COLOURS = np.array([COLOUR["ink"], COLOUR["edge"]])  # in turn; each copy has its number
_COPY_ROW = 18
_NUMBER_SIZE = 18.0  # of the number of a copy on its line [px]
_COPY_TALL = 306.0  # greatest height of the picture above the words [px]
_DRIVE_SIZE = 40.0, 18.0  # width and height [px]
_BESIDE_CABLE = 26.0  # from the middle of a box to the middle of a drive beside its cable [px]
_COPIES_APART = 8.0
_COPY_WIDTH = 4.0
_HALF_BOX = 10.0  # half of the height of a box, about
_COPY_ROOM = 4.0  # least between a copy and a box


# Bars of spans ----------------------------------------------------------------------------------


class Bar(NamedTuple):
    """A span of time in a lane; ``lane`` and ``label`` are indices into lists of names."""

    lane: int
    label: int
    start: float  # [s]
    finish: float  # [s]


def stacked(
    bars: Sequence[Bar],
    lanes: list[str],
    labels: list[str],
    said: str,
    table: Table | None = None,
    height: float = 0.0,
) -> Scene:
    """Return a picture of spans of time as bars, with a sentence and a table; by default a table of the spans.

    Few lanes fill ``height`` [px], that of the panel beside them.
    """
    lane, label, start, finish = np.array(bars).T
    flows = Flows.make(lane, len(lanes), 0.0, label=label, labels=tuple(labels))
    timeline = Timeline(
        start=start,
        finish=finish,
        link_bytes=np.zeros(1),
        group_start=np.zeros(1),
        period=np.max(finish, keepdims=True),
        repeat=np.ones(1, np.int64),
        engine="model",
    )
    drawn = timeline_scene(timeline, flows, lanes.__getitem__, width=_PICTURE, height=height)
    if table is None:
        names = [lanes[int(i)] for i in lane]
        table = Table({"lane": names, "start [s]": start, "finish [s]": finish})
    return replace(drawn, said=said, alt=said, table=table)


# Queue pair -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateChange:
    """A transition of a queue pair between two states, and the answer of the device."""

    kind: str
    now: str
    to: str
    attributes: list[str]  # attributes that the transition needs; none if the device refuses it
    refusal: str  # why the device refuses it; empty if it is accepted


def queue_pair(kind: str = "RC", now: str = "INIT", to: str = "RTR") -> Live:
    """Show which attributes a transition of a queue pair needs, whether it is accepted, and what the new state allows.

    Parameters
    ----------
    kind : str
        Type of the queue pair: RC, UC or UD.
    now, to : str
        Present state and target state: RESET, INIT, RTR, RTS or ERR.
    """
    arguments = {"kind": kind, "now": now, "to": to}
    states = Choice(_STATES)
    controls: dict[str, Control] = {"kind": Choice(("RC", "UC", "UD")), "now": states, "to": states}
    return live_view("queue_pair", arguments, queue_pair_scene, controls)


def queue_pair_scene(kind: str, now: str, to: str) -> Scene:
    """Return a picture of the states of a queue pair, a transition between two of them, and what it needs."""
    change = state_change(kind, now, to)
    attributes = change.attributes
    asked = change_path(now, to)
    possible = [change_path(*pair) for pair in possible_changes(kind) if pair != (now, to)]
    heads = [arrow_head(path) for path in possible]
    is_refused = bool(change.refusal)
    if is_refused:  # clear of the way back, which the device does accept
        above = asked[:, 1] - _STATE_TOP[0]
        asked[:, 1] += _REFUSED_LIFT * np.minimum(above, 0.0)
    form = FORM["failed" if is_refused else "plain"]
    layers = {
        "possible": lines([*possible, *heads], width=1.4, colour=COLOUR["edge"]),
        "step": lines([asked], width=2.5, colour=COLOUR["ink"], dash=1.0 * is_refused, form=form),
        "end": lines([arrow_head(asked, 8.0)], width=2.5, colour=COLOUR["ink"]),
        "states": states_layer(change),
        "kind": heading(18.0, text("live.queue_pair.pair", kind=kind), 14.0),
    }
    caption = change_caption(change)
    if is_refused:
        columns = {text("live.queue_pair.refusal"): [change.refusal]}
    else:
        columns = {"attribute": attributes or [text("live.queue_pair.none")]}
    return Scene(
        said=caption,
        table=Table(columns),
        layers=layers,
        height=_STATES_HEIGHT,
        alt=f"{caption} {change.refusal or ', '.join(attributes)}",
        width=_STATES_WIDTH,
        side=needs_panel(change),
    )


def needs_panel(change: StateChange) -> Scene:
    """Return a list of the attributes that a transition needs, each with its meaning."""
    attributes = change.attributes
    rows = _NEEDS_TOP + _NEEDS_ROW * np.arange(len(attributes))
    meanings = [text(f"live.queue_pair.{name}") for name in attributes]
    if change.refusal:
        title = text("live.queue_pair.refusal")
        reason = wrapped(change.refusal, _REASON_LETTERS)
    else:
        title = text("live.queue_pair.needs", to=change.to, n=len(attributes))
        reason = [] if attributes else [text("live.queue_pair.none")]
    return Scene(
        "",
        layers={
            "title": heading(18.0, title, 16.0),
            "attributes": texts(16.0, rows + 4, attributes, bold=1.0),
            "meanings": texts(16.0, rows + 20, meanings, colour=COLOUR["soft"]),
            "reason": texts(
                16.0, _NEEDS_TOP + 4 + 18.0 * np.arange(len(reason)), reason, colour=COLOUR["soft"]
            ),
        },
        height=_STATES_HEIGHT,
        width=_NEEDS_WIDTH,
    )


@functools.cache
def possible_changes(kind: str) -> list[tuple[str, str]]:
    """Return all transitions between states that the device accepts for a type of queue pair."""
    pairs = itertools.product(_STATES, _STATES)
    return [(now, to) for now, to in pairs if not state_change(kind, now, to).refusal]


def state_change(kind: str, now: str, to: str) -> StateChange:
    """Return a transition with the attributes that it needs, or with the reason why the device refuses it."""
    qp_type = enums.ibv_qp_type[f"IBV_QPT_{kind}"]
    before = enums.ibv_qp_state[f"IBV_QPS_{now}"]
    after = enums.ibv_qp_state[f"IBV_QPS_{to}"]
    mask = needs(after, qp_type)
    try:
        check_step(qp_type, before, QPAttr(after), mask | enums.IBV_QP_STATE)
    except PyverbsRDMAError as error:
        refusal, _, _ = str(error).partition(". Errno")
        refusal = f"{refusal[:1].upper()}{refusal[1:]}."
        return StateChange(kind, now, to, attributes=[], refusal=refusal)

    needed = [flag for flag in enums.ibv_qp_attr_mask if flag & mask]
    attributes = [flag.name.removeprefix("IBV_QP_") for flag in needed]
    return StateChange(kind, now, to, attributes, refusal="")


def change_caption(change: StateChange) -> str:
    """Return a sentence on whether the device accepts a transition, and what the state after it allows."""
    answer = "refused" if change.refusal else "taken"
    state = change.now if change.refusal else change.to
    caption = text(
        f"live.queue_pair.{answer}",
        kind=change.kind,
        now=change.now,
        to=change.to,
        n=len(change.attributes),
    )
    return caption + " " + text(f"live.queue_pair.in.{state}")


def states_layer(change: StateChange) -> Layer:
    """Return a box for each state: the present state is filled, and the target has an edge in ink."""
    is_now = np.array(_STATES) == change.now
    is_target = np.array(_STATES) == change.to
    fill = np.where(is_now, COLOUR["ink"], COLOUR["paper"])
    return boxes(
        _STATE_LEFT,
        _STATE_TOP,
        _STATE_WIDTH,
        _STATE_HEIGHT,
        colour=fill,
        edge=np.where(is_target | is_now, COLOUR["ink"], COLOUR["edge"]),
        texts=_STATES,
        names=_STATES,
        notes=[text(f"live.queue_pair.in.{state}") for state in _STATES],
        ink=np.where(is_now, COLOUR["paper"], COLOUR["ink"]),
        round=6.0,
    )


def change_path(now: str, to: str) -> Floats:
    """Return the points (P, 2) of the line from a state to another [px].

    A step to the next state is straight; other steps between the four states of the row run above it, those from and
    to ERR below it.
    """
    start, end = _STATES.index(now), _STATES.index(to)
    last = len(_STATES) - 1
    left, top = _STATE_LEFT, _STATE_TOP
    bottom = top + _STATE_HEIGHT
    middle = left + _STATE_WIDTH / 2
    if start == end:  # a loop above its right corner, or below that of ERR
        is_below = start == last
        y = bottom[start] if is_below else top[start]
        away = y + (_LOOP if is_below else -_LOOP)
        x = left[start] + _STATE_WIDTH
        return curve((x - 30, y), (x - 38, away), (x + 4, away), (x - 8, y))
    if end == start + 1 and end < last:
        y = top[start] + _STATE_HEIGHT / 2
        return np.array([[left[start] + _STATE_WIDTH, y], [left[end] - 1, y]])
    if last not in (start, end):  # above the row, the higher the farther
        away = top[0] - 36 * abs(end - start) - 6
        # Of the ways back the longest one, which is the highest, ends furthest to the left: so none crosses another.
        x = middle[start] - 8, middle[end] + 18 - 16 * (start - end)
        if end > start:
            x = middle[start] - 8, middle[end] - 16 + 12 * (end - start)
        return curve((x[0], top[start]), (x[0], away), (x[1], away), (x[1], top[end] - 1))
    if end == last:
        x_end = left[end] + _STATE_WIDTH * (start + 0.7) / 4.4
        return curve(
            (middle[start] + 8, bottom[start]),
            (middle[start] + 8, top[end] - 30),
            (x_end, bottom[start] + 20),
            (x_end, top[end] - 1),
        )
    y = top[last] + _STATE_HEIGHT / 2
    x = middle[end] - 14
    if end < last - 2:  # out of the left side, up to a state at the left
        return curve((left[last], y), (left[last] - 70, y), (x, y), (x, bottom[end] + 1))
    right = left[last] + _STATE_WIDTH
    return curve((right, y), (right + 70, y), (x, y), (x, bottom[end] + 1))


def curve(*corners: tuple[float, float]) -> Floats:
    """Return points (P, 2) of the cubic Bezier curve with four given points."""
    t = np.linspace(0, 1, _CURVE)[:, None]
    a, b, c, d = np.array(corners)
    along = (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
    return np.asarray(along)


def arrow_head(path: Floats, size: float = 6.0) -> Floats:
    """Return the points (3, 2) of an arrow head at the end of a path."""
    tip = path[-1]
    step = tip - path[-2]
    ahead = step / np.hypot(*step)
    aside = np.array([-ahead[1], ahead[0]])
    return np.array([tip - size * (ahead - 0.6 * aside), tip, tip - size * (ahead + 0.6 * aside)])


# Request ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestStep:
    """One step of a message between two machines."""

    source: int  # lane of the part that acts
    target: int  # lane of the part it acts on
    name: str  # name of its sentence in the language table
    counter: str  # the counter it adds to, one of `_COUNTERS`, or ""
    count: int

    @property
    def actor(self) -> str:
        """The part and the machine that act, in words."""
        machine = "AB"[self.source // 3]
        return f"{part_name(self.source)} {machine}"

    @property
    def action(self) -> str:
        """A sentence on what the part does."""
        return text(f"live.request.{self.name}")


def part_name(lane: int) -> str:
    """Return the name of the part in a lane; the lanes of machine B mirror those of machine A."""
    return text(f"live.request.part{min(lane, 5 - lane)}")


def read_requests() -> dict[str, list[RequestStep]]:
    """Return the steps of each kind of message from ``requests.csv``."""
    requests: dict[str, list[RequestStep]] = {}
    for row in read_rows(Path(__file__).with_name("requests.csv")):
        counter, _, count = row["counts"].partition("=")
        step = RequestStep(
            source=int(row["source"]),
            target=int(row["target"]),
            name=row["step"],
            counter=counter,
            count=int(count or 0),
        )
        requests.setdefault(row["way"], []).append(step)
    return requests


_REQUESTS = read_requests()


def request(way: str = "WRITE", step: int = 4) -> Live:
    """Step through a message between two machines: which part acts, what it does, and counts of such actions so far.

    Parameters
    ----------
    way : str
        Kind of message: WRITE, READ, SEND, WRITE with immediate, TCP socket, or set-up.
    step : int
        Number of steps that are done, 0..13, or at most as many as the message has.
    """
    arguments = {"way": way, "step": step}
    controls: dict[str, Control] = {
        "way": Choice(tuple(_REQUESTS)),
        "step": Slider(0, 13, play=True),
    }
    return live_view("request", arguments, request_scene, controls)


def request_scene(way: str, step: int) -> Scene:
    """Return a picture of the first ``step`` steps of a message as arrows between lanes."""
    every = _REQUESTS[way]
    done = every[:step]
    totals = counter_totals(done)
    caption = request_caption(way, len(every), done, totals)
    listed = " ".join(f"{i}. {step.actor}: {step.action}." for i, step in enumerate(done, 1))
    return Scene(
        said=caption,
        table=request_table(done, totals) if done else None,
        layers={**lane_layers(_STEPS_BOTTOM), **step_layers(every, len(done))},
        height=_STEPS_BOTTOM + 4,
        alt=f"{caption} {listed}",
        moves=bool(done),
        width=_LADDER_WIDTH,
        side=counts_panel(way, done, _STEPS_BOTTOM + 4),
        limits={"step": len(every)},
    )


def counts_panel(way: str, done: Sequence[RequestStep], height: float) -> Scene:
    """Return a bar for each counter of this message and of others; that of this message fills step by step."""
    rows = count_rows(way, done, height)
    title = text("live.request.counts")
    layers = {
        "title": heading(16.0, title, 14.0),
        "heads": counter_names(height),
        "names": count_names(rows),
        "bars": count_bars(rows),
        "counted": counted_bars(rows, done),
        "numbers": count_numbers(rows),
    }
    return Scene("", layers=layers, height=height, width=_COUNTS_WIDTH)


class CountRows(NamedTuple):
    """Bars of the counters, one row for each way of sending and each counter. R rows."""

    ways: list[str]
    top: Floats  # (R,) of the bars [px]
    total: Ints  # (R,) counter after the last step
    reached: Ints  # (R,) counter after the steps that are done; 0 in rows of other ways
    is_current: Flags  # (R,) whether the way is the one of the picture

    @property
    def middle(self) -> Floats:
        """Middles of the bars, (R,) [px]."""
        return self.top + _COUNT_HEIGHT / 2

    @property
    def ink(self) -> Floats:
        """Colour of the words of each row, (R,)."""
        return np.where(self.is_current, COLOUR["ink"], COLOUR["soft"])


def count_rows(way: str, done: Sequence[RequestStep], height: float) -> CountRows:
    """Return the rows of all ways that are compared, counter by counter, in a panel of so many px."""
    ways = list(_COMPARED)
    if way not in ways:
        ways.append(way)
    n_shown = len(_SHOWN_COUNTERS)
    total = np.array([counter_totals(_REQUESTS[name])[-1, :n_shown] for name in ways])  # (W, C)
    reached = np.zeros_like(total)
    if done:
        reached[ways.index(way)] = counter_totals(done)[-1, :n_shown]

    row_height = (counter_height(height) - _COUNT_NAME_HEIGHT) / len(ways)
    first_row = counter_tops(height) + _COUNT_FIRST_ROW  # (C,) [px]
    top = first_row[:, np.newaxis] + row_height * np.arange(len(ways))  # (C, W) [px]
    names = ways * n_shown
    return CountRows(
        ways=names,
        top=top.ravel(),
        total=total.T.ravel(),
        reached=reached.T.ravel(),
        is_current=np.array([name == way for name in names]),
    )


def counter_height(height: float) -> float:
    """Return the height of the bars of one counter with its name, in a panel of so many px. [px]."""
    return (height - _COUNTS_TOP) / len(_SHOWN_COUNTERS)


def counter_tops(height: float) -> Floats:
    """Return the upper edge of each counter, in a panel of so many px, (C,). [px]."""
    place = np.arange(len(_SHOWN_COUNTERS), dtype=np.float64)
    return _COUNTS_TOP + counter_height(height) * place


def counter_names(height: float) -> Layer:
    """Return the name of each counter above its bars."""
    names = []
    tops = counter_tops(height).tolist()
    for counter, top in zip(_SHOWN_COUNTERS, tops, strict=True):
        names.append((14.0, top + 6, text(f"live.request.count_{counter}"), 0))
    return replace_colour(texts_at(*names), COLOUR["ink"])


def count_names(rows: CountRows) -> Layer:
    """Return the way of sending of each row, before its bar."""
    return texts(_COUNTS_LEFT - 8, rows.middle, rows.ways, align=2.0, size=11.0, colour=rows.ink)


def count_bars(rows: CountRows) -> Layer:
    """Return a bar for the total of each row that has one, with an edge for the way of the picture."""
    shown = rows.total > 0
    is_current = rows.is_current[shown]
    return boxes(
        _COUNTS_LEFT,
        rows.top[shown],
        _COUNT * rows.total[shown],
        _COUNT_HEIGHT,
        round=2.0,
        colour=np.where(is_current, COLOUR["sunk"], COLOUR["hair"]),
        edge=np.where(is_current, COLOUR["edge"], COLOUR["none"]),
    )


def counted_bars(rows: CountRows, done: Sequence[RequestStep]) -> Layer:
    """Return in ink how far each bar of this message is; it grows once the arrow of the last step has arrived."""
    has_arrow = bool(done) and done[-1].source != done[-1].target
    return boxes(
        _COUNTS_LEFT,
        rows.top[rows.is_current],
        _COUNT * rows.reached[rows.is_current],
        _COUNT_HEIGHT,
        round=2.0,
        colour=COLOUR["ink"],
        late=has_arrow,
    )


def count_numbers(rows: CountRows) -> Layer:
    """Return the total of each row behind its bar."""
    numbers = [str(total) for total in rows.total]
    right = _COUNTS_LEFT + _COUNT * rows.total  # (R,) [px]
    return texts(right + 7, rows.middle, numbers, size=11.0, colour=rows.ink)


def replace_colour(layer: Layer, colour: float) -> Layer:
    """Return a layer with one colour for all its items."""
    return replace(layer, fields={**layer.fields, "colour": colour})


def counter_totals(done: Sequence[RequestStep]) -> Ints:
    """Return the value of each counter after each step, (steps, counters)."""
    added = np.zeros((len(done), len(_COUNTERS)), dtype=np.int64)
    for row, step in enumerate(done):
        if step.counter:
            added[row, _COUNTERS.index(step.counter)] = step.count
    return np.cumsum(added, axis=0)


def request_caption(way: str, steps: int, done: Sequence[RequestStep], totals: Ints) -> str:
    """Return a sentence on how far a message is, with all counters and how often the program on B has acted."""
    reached = totals[-1] if done else np.zeros(len(_COUNTERS), dtype=np.int64)
    counters = zip(_COUNTERS, reached, strict=True)
    if done:
        acts = text("live.request.acts", who=done[-1].actor, what=done[-1].action)
    else:
        acts = text("live.request.nothing")
    return text(
        "live.request.done" if len(done) == steps else "live.request.said",
        way=way,
        step=len(done),
        steps=steps,
        acts=acts,
        list=", ".join(count_in_words(counter, int(n)) for counter, n in counters),
        b=count_in_words("acts_of_b", sum(step.source == _NIC_OF_B for step in done)),
    )


def count_in_words(counter: str, n: int) -> str:
    """Return a counter with its number, such as "2 system calls"."""
    many, one = text(f"live.request.{counter}", n=n).split("|")
    return one if n == 1 else many


def request_table(done: Sequence[RequestStep], totals: Ints) -> Table:
    """Return a table of who did what in each step, and all counters after it except the completions."""
    columns = {
        "step": np.arange(1, len(done) + 1),
        "who": [step.actor for step in done],
        "what": [step.action for step in done],
    }
    for place, counter in enumerate(_COUNTERS[:4]):
        columns[counter] = totals[:, place]
    return Table(columns)


def lane_layers(bottom: float) -> dict[str, Layer]:
    """Return the lanes down to ``bottom`` [px], with the machines as boxes and their parts named above them."""
    machines = [text("live.request.machine", name=name) for name in "AB"]
    parts = [part_name(lane) for lane in range(len(_LANES))]
    paths = [np.array([[x, 44], [x, bottom - 4]]) for x in _LANES]
    return {
        "frames": boxes(
            _LANES[[0, 3]] - 28,
            22.0,
            _LANES[2] - _LANES[0] + 56,
            bottom - 22,
            round=8.0,
            colour=COLOUR["sunk"],
            edge=COLOUR["line"],
        ),
        "machines": texts(_LANES[[1, 4]], 11.0, machines, align=1.0, bold=1.0),
        "lanes": lines(paths, width=1.0, colour=COLOUR["hair"]),
        "parts": texts(_LANES, 34.0, parts, align=1.0, size=11.0, colour=COLOUR["soft"]),
    }


def step_paths(steps: Sequence[RequestStep]) -> list[Floats]:
    """Return the line of each step from the lane that acts to the one it acts on, (2 ends, x and y) each [px]."""
    source = _LANES[[step.source for step in steps]]  # (T,) [px]
    target = _LANES[[step.target for step in steps]]  # (T,) [px]
    height = np.clip((_STEPS_BOTTOM - _STEPS_TOP) / len(steps), *_STEP_HEIGHTS)
    y = _STEPS_TOP + height * np.arange(len(steps), dtype=np.float64)
    return list(np.stack([source, y, target, y], axis=1).reshape(-1, 2, 2))


def step_layers(every: Sequence[RequestStep], n_done: int) -> dict[str, Layer]:
    """Return the steps that are done as arrows, numbers and sentences, and those to come as dotted hairlines."""
    done = every[:n_done]
    paths = step_paths(every)
    crossing = [path for path in paths[:n_done] if np.ptp(path[:, 0])]
    to_come = [path for path in paths[n_done:] if np.ptp(path[:, 0])]
    y = np.array([path[0, 1] for path in paths[:n_done]])
    x = np.array([path[0, 0] for path in paths[:n_done]])
    is_last = np.arange(n_done) == n_done - 1
    colour = np.where(is_last, COLOUR["ink"], COLOUR["edge"])
    leaves = np.array([np.ptp(path[:, 0]) > 0 for path in paths[:n_done]], dtype=bool)
    both = [*crossing, *(arrow_head(path, 7.0) for path in crossing)]
    return {
        "to come": lines(to_come, width=1.0, colour=COLOUR["hair"], dash=2.0),
        "arrows": lines(both, width=2.0, colour=np.tile(colour[leaves], 2)),
        "actors": actor_layer(done, x, y, colour),
        "what": texts(
            _WORDS_LEFT,
            y,
            [step.action for step in done],
            colour=np.where(is_last, COLOUR["ink"], COLOUR["soft"]),
        ),
        "movers": request_mover(paths[:n_done]),
    }


def actor_layer(done: Sequence[RequestStep], x: Floats, y: Floats, colour: Floats) -> Layer:
    """Return the number of each step, in the lane of the part that acts."""
    numbers = [str(i + 1) for i in range(len(done))]
    actors = [step.actor for step in done]
    actions = [step.action for step in done]
    return boxes(
        x - 10,
        y - 9,
        20.0,
        18.0,
        colour=colour,
        ink=ink_on(colour) if done else 0.0,
        texts=numbers,
        names=actors,
        notes=actions,
    )


def request_mover(paths: list[Floats]) -> Layer:
    """Return the packet that moves along the arrow of the last step, if that step leaves its lane."""
    moving = [path for path in paths[-1:] if np.ptp(path[:, 0])]
    fields = {"w": 12.0, "h": 12.0, "colour": COLOUR["queue"], "gone": True}
    return Layer("movers", {**lines(moving).fields, **fields})


# Copies inside a server -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerSources:
    """A server, and the NICs at the sources that can send to its GPU 0."""

    fabric: Fabric
    numbers: dict[str, str]  # class in `nvidia-smi topo -m` -> number of a NIC of that class


@functools.cache
def server_sources(server: str, source: str) -> ServerSources:
    """Return a server with one NIC for each class of relation to GPU 0; the ``source`` is this NIC or beside it."""
    fabric = topologies.build(server)
    matrix = gpudirect.topo(fabric)
    numbers = {}
    for name in matrix.names:
        if name.startswith("NIC"):
            numbers[matrix.relation("GPU0", name)] = name.removeprefix("NIC")
    if source == "gpu":  # GPU 0 cannot send to itself
        numbers = {relation: number for relation, number in numbers.items() if number != "0"}
    return ServerSources(fabric, numbers)


def copies(
    mechanism: str = "pinned",
    relation: str = "PIX",
    iommu: str = "off",
    *,
    source: str = "nic",
    server: str = "dgx_h100",
    size: units.Quantity = "64 MiB",
) -> Live:
    """Show each copy that a transfer to GPU 0 makes on a picture of the server, with its rate and time.

    Parameters
    ----------
    mechanism : str
        How the transfer is copied: peer, pinned or pageable; see `fabriclab.gpudirect.path`.
    relation : str
        Relation between GPU 0 and the NIC at the source, as `nvidia-smi topo -m` prints it, such as PIX.
    iommu : str
        Whether the IOMMU is off or on.
    source : str
        Source of the transfer: the NIC itself, "nic", or the drive or GPU with its number, "nvme" or "gpu".
    server : str
        Name of a topology that is one server.
    size : float or str
        Size of the transfer. [B]
    """
    arguments = {
        "mechanism": mechanism,
        "relation": relation,
        "iommu": iommu,
        "source": source,
        "server": server,
        "size": size,
    }
    sources = server_sources(server, source)
    controls: dict[str, Control] = {
        "mechanism": Choice(_MECHANISMS),
        "relation": Choice(tuple(sources.numbers)),
        "iommu": Choice(("off", "on")),
    }
    scene = functools.partial(copies_scene, sources, source, size)
    return live_view("copies", arguments, scene, controls)


def copies_scene(
    sources: ServerSources,
    source: str,
    size: units.Quantity,
    mechanism: str,
    relation: str,
    iommu: str,
) -> Scene:
    """Return a picture of a server with the copies of a transfer to GPU 0 as numbered lines."""
    start = f"{source} {sources.numbers[relation]}"
    path = gpudirect.path(sources.fabric, start, "gpu 0", mechanism, iommu=iommu)
    drawn = scene_of(sources.fabric, tall=_COPY_TALL)
    total = units.size(size)

    places = server_map(sources.fabric, drawn, path.moves)
    passed = [places.passed(part_names(sources.fabric, move)) for move in path.moves]
    over = [" – ".join(names) for names in passed]
    links = sum(len(names) - 1 for names in passed if len(set(names)) > 1)
    times = [move.issue + move.latency + total / move.rate for move in path.moves]
    words = []
    for move, parts, time in zip(path.moves, over, times, strict=True):
        shown = four_digits(time) if len(times) > 1 else units.format_time(time)
        words.append(text("live.copies.copy", by=move.by, over=parts, rate=move.rate, time=shown))
    caption = text(
        "live.copies.said",
        a=drawn_name(sources.fabric, start),
        b=drawn_name(sources.fabric, "gpu 0"),
        n=times_in_words(path.copies),
        links=counted(links, "link"),
        time=path.time(total),
        size=total,
    )
    through_host = "host" if path.host_traffic else "no_host"
    caption += " " + text(f"live.copies.{through_host}", n=times_in_words(path.host_traffic))
    if path.flush:
        caption += " " + text("live.copies.flush", time=path.flush)
    columns = {
        "copy": np.arange(1, path.copies + 1),
        "by": [move.by for move in path.moves],
        "over": over,
        "rate [B/s]": [move.rate for move in path.moves],
        "time [s]": times,
    }
    return replace(
        drawn,
        said=caption,
        alt=f"{caption} {'; '.join(words)}",
        table=Table(columns),
        layers=copy_layers(drawn, places, copy_paths(sources.fabric, places, path.moves), words),
        height=drawn.height + _COPY_ROW * path.copies + 8,
        hint=text("live.copies.start"),
    )


def four_digits(time: float) -> str:
    """Return a time [s] with a digit more than their sum has, so that a reader who adds several gets that sum."""
    _, unit = units.format_time(time).split()
    return f"{time / units.time(f'1 {unit}'):#.4g} {unit}"


def times_in_words(n: int) -> str:
    """Return how often something happens, such as "once" or "3 times"."""
    word = {1: "once", 2: "twice"}.get(n, "times")
    return text(f"live.copies.{word}", n=n)


@dataclass(frozen=True, slots=True)
class ServerMap:
    """Places of the parts of a server in its picture, and the cables between them. [px]."""

    spots: dict[str, Floats]  # name of a part -> its middle (2,)
    cables: dict[tuple[str, str], Floats]  # (start, end) -> points (P, 2) from start to end
    drives: dict[str, Floats]  # name of a drive -> its place (2,); the picture has no box for it
    boxes: dict[str, Floats]  # name of a part -> its left, upper, right and lower edge (4,)

    def leg(self, start: str, end: str) -> Floats:
        """Return the line (P, 2) from one part to the next: their cable or, without one, a straight line."""
        if (start, end) in self.cables:
            return self.cables[start, end]
        return np.array([self.spots[start], self.spots[end]])

    def passed(self, names: Sequence[str]) -> list[str]:
        """Return the parts on a copy's path with the ports between them.

        A copy's path does not name the port of a GPU, but the picture shows it.
        """
        found = [names[0]]
        for start, end in itertools.pairwise(names):
            if (start, end) not in self.cables:
                found += [
                    port
                    for port in self.spots
                    if (start, port) in self.cables and (port, end) in self.cables
                ][:1]
            found.append(end)
        return found


def server_map(fabric: Fabric, drawn: Scene, moves: Sequence[gpudirect.Move]) -> ServerMap:
    """Return the places of the parts of a server in its picture; drives are placed below their neighbours."""
    box = drawn.layers["nodes"].fields
    middle = np.stack([box["x"] + box["w"] / 2, box["y"] + box["h"] / 2], axis=1)  # (B, 2)
    spots = dict(zip(box["names"], middle, strict=True))

    cable = drawn.layers["cables"].fields
    points = np.stack([cable["x"], cable["y"]], axis=1)
    paths = np.split(points, cable["ptr"][1:-1].astype(int))
    cables = {}
    for name, path in zip(cable["names"], paths, strict=True):
        one, other = name.split(" – ")
        cables[one, other] = path
    cables |= {(other, one): path[::-1] for (one, other), path in cables.items()}

    drives = {}
    for move in moves:
        first, neighbour = part_names(fabric, move)[:2]
        if first not in spots:
            spots[first] = drive_spot(middle, points, spots[neighbour])
            drives[first] = spots[first]
    edges = np.stack([box["x"], box["y"], box["x"] + box["w"], box["y"] + box["h"]], axis=1)
    return ServerMap(spots, cables, drives, dict(zip(box["names"], edges, strict=True)))


def drive_spot(boxes_at: Floats, cables: Floats, neighbour: Floats) -> Floats:
    """Return the place of a drive (2,): between its neighbour and the row below, where cables leave most room.

    ``boxes_at`` (B, 2) are the middles of all boxes, ``cables`` (P, 2) the points of all cables. [px]
    """
    x, y = neighbour
    below = boxes_at[boxes_at[:, 1] > y + 1, 1]
    down = (below.min() - y) / 2
    near = (cables[:, 1] > y) & (cables[:, 1] < y + 2 * down)
    places = x + np.array([0.0, _BESIDE_CABLE])
    room = np.abs(places[:, None] - cables[near, 0]).min(axis=1)
    return np.array([places[room.argmax()], y + 0.86 * down])  # above the number of the copy


def part_names(fabric: Fabric, move: gpudirect.Move) -> list[str]:
    """Return the parts on a copy's path under the names that they have in the picture."""
    return [drawn_name(fabric, part) for part in move.over]


def drawn_name(fabric: Fabric, part: str) -> str:
    """Return the name of a part in the picture; the picture has no box for a drive, which is called as it is."""
    if part.split()[0] not in fabric.kinds:
        return part.replace("nvme", text("live.copies.drive"))
    return spoken_names(fabric)[fabric.node(part)]


def copy_paths(fabric: Fabric, places: ServerMap, moves: Sequence[gpudirect.Move]) -> list[Floats]:
    """Return the line of each copy (P, 2), shifted sideways so that none hides another or runs behind a box. [px].

    A copy that has a cable for itself lies on it.
    """
    over = [places.passed(part_names(fabric, move)) for move in moves]
    between = [number for number, names in enumerate(over) if len(set(names)) > 1]
    on: dict[frozenset[str], list[int]] = {}  # both ends of a cable -> copies that use it
    for number in between:
        for ends in itertools.pairwise(over[number]):
            on.setdefault(frozenset(ends), []).append(number)
    paths = []
    for number, names in enumerate(over):
        legs = []
        if number not in between:  # a copy within host memory: drawn beside its processor
            aside = _COPIES_APART * (number - (len(moves) - 1) / 2)
            beside = np.array([90 + 2.5 * aside, 0.0])
            legs = [places.leg(a, b) + beside for a, b in itertools.pairwise(names)]
        else:
            for start, end in itertools.pairwise(names):
                users = on[frozenset((start, end))]
                aside = _COPIES_APART * (users.index(number) - (len(users) - 1) / 2)
                wide = _COPIES_APART * (len(users) - 1) + _COPY_WIDTH  # of all of them side by side
                legs.append(beside_boxes(places.leg(start, end), aside, wide, places))
        paths.append(np.concatenate(legs))
    return paths


def beside_boxes(leg: Floats, aside: float, wide: float, places: ServerMap) -> Floats:
    """Return a line (P, 2) between two parts, moved ``aside`` from its cable, and further away from boxes. [px].

    All copies together are ``wide``; they end within the boxes of both parts and pass between those that they cross.
    """
    points = np.linspace(0, leg.shape[0] - 1, _CURVE)
    index = np.arange(leg.shape[0])
    x, y = (np.interp(points, index, column) for column in leg.T)
    left, top, right, foot = np.array(list(places.boxes.values())).T
    middle = (top + foot) / 2
    low, high = np.sort(y[[0, -1]])
    if high - low < _HALF_BOX:  # between two boxes of one row: its cable passes below them
        return np.asarray(leg + np.array([aside, 0.0]))
    half = wide / 2 + _COPY_ROOM
    centres = []  # height, and where the middle of all copies is there
    inside: dict[int, float] = {}  # height within the box of each end
    for i in (0, -1):
        here = (left - 1 < x[i]) & (x[i] < right + 1) & (top - 2 < y[i]) & (y[i] < foot + 2)
        centre = x[i]
        if here.any():
            centre = clamped(centre, float(left[here][0]) + half, float(right[here][0]) - half)
            inside[i] = float(middle[here][0])
        centres.append((y[i], centre))
    for row in np.unique(middle[(low + 2 < middle) & (middle < high - 2)]):
        here = middle == row
        at = float(
            np.interp(row, *(np.array([y, x]) if y[0] < y[-1] else np.array([y, x])[:, ::-1]))
        )
        is_left = (left + right)[here] / 2 < at
        lower = float(right[here][is_left].max(initial=-math.inf))
        upper = float(left[here][~is_left].min(initial=math.inf))
        centre = clamped(at, lower + half, upper - half)
        passed = float(top[here][0]) - _COPY_ROOM, float(foot[here][0]) + _COPY_ROOM
        centres += [(height, centre) for height in passed]
    heights, wanted = np.array(sorted(centres)).T
    # A line turns at these heights, and one that had no point there would cut the corner, across the edge of a box.
    y = np.unique(np.concatenate([y, np.clip(heights, low, high)]))[:: 1 if y[0] < y[-1] else -1]
    path = np.stack([np.interp(y, heights, wanted) + aside, y], axis=1)
    # Where a copy turns within a box, it does so behind it and not along its edge.
    begins = [[path[0, 0], inside[0]]] if 0 in inside else np.empty((0, 2))
    ends = [[path[-1, 0], inside[-1]]] if -1 in inside else np.empty((0, 2))
    return np.concatenate([begins, path, ends])


def clamped(value: float, low: float, high: float) -> float:
    """Return the value between two bounds that is nearest to another, or the middle where they leave no room."""
    return (low + high) / 2 if low > high else min(max(value, low), high)


def copy_layers(
    drawn: Scene, places: ServerMap, paths: Sequence[Floats], words: list[str]
) -> dict[str, Layer]:
    """Return the layers of a picture with copies as numbered lines, and below it each copy in words."""
    colours = _COPY_COLOURS[np.arange(len(paths)) % len(_COPY_COLOURS)]
    rows = drawn.height + 12 + _COPY_ROW * np.arange(len(paths), dtype=np.float64)  # (C,) [px]
    cables = drawn.layers["cables"]
    return {
        "servers": drawn.layers["servers"],
        "places": drawn.layers["places"],
        "margins": drawn.layers["margins"],
        "cables": replace(cables, fields={**cables.fields, "colour": COLOUR["hair"]}),
        "copies": lines(paths, width=_COPY_WIDTH, colour=colours, names=words, flow=0.4),
        "nodes": drawn.layers["nodes"],
        "drives": drive_layer(places),
        "drive names": drive_words(places),
        "numbers": number_layer(paths, rows, colours, places),
        "words": copy_words(rows, words),
    }


def number_layer(
    paths: Sequence[Floats], rows: Floats, colours: Floats, places: ServerMap
) -> Layer:
    """Return the number of each copy twice: on the last part of its line, clear of boxes, and before its words."""
    edges = list(places.boxes.values())
    wide, tall = _DRIVE_SIZE
    for x, y in places.drives.values():
        edges.append(np.array([x - wide / 2, y - tall / 2, x + wide / 2, y + tall / 2]))
    left, top, right, foot = np.array(edges).T
    on_lines: list[Floats] = []
    for path in paths:
        x, y = path[-_CURVE:].T[:, :, None]  # (P, 1) each
        across = np.maximum(np.maximum(left - x, x - right), 0.0)
        down = np.maximum(np.maximum(top - y, y - foot), 0.0)
        room = np.hypot(across, down).min(axis=1)
        for other in on_lines:  # two numbers do not lie on each other
            away = np.abs(path[-_CURVE:] - other).max(axis=1)
            room = np.where(away < _NUMBER_SIZE + 1, -1.0, room)
        on_lines.append(path[-_CURVE:][int(room.argmax())])
    before_words = np.stack([np.full(rows.size, 18.0), rows], axis=1)
    # Those before the words are smaller than a row is high, so that they don't touch.
    size = np.repeat([_NUMBER_SIZE, _COPY_ROW - 3.0], len(paths))
    x, y = np.concatenate([on_lines, before_words]).T - size / 2
    both = np.tile(colours, 2)
    return boxes(
        x,
        y,
        size,
        size,
        colour=both,
        ink=ink_on(both),
        round=size / 2,
        texts=[str(number) for number in range(1, len(paths) + 1)] * 2,
    )


def drive_layer(places: ServerMap) -> Layer:
    """Return a box for each drive."""
    x, y = np.array(list(places.drives.values())).reshape(-1, 2).T
    wide, tall = _DRIVE_SIZE
    return boxes(
        x - wide / 2,
        y - tall / 2,
        wide,
        tall,
        colour=COLOUR["node"],
        round=3.0,
        names=list(places.drives),
    )


def drive_words(places: ServerMap) -> Layer:
    """Return the short name of each drive on its box, which is narrower than names of the usual size."""
    x, y = np.array(list(places.drives.values())).reshape(-1, 2).T
    words = [text("live.copies.box", n=number_in(name)) for name in places.drives]
    ink = ink_on(np.full(x.size, COLOUR["node"]))
    return texts(x, y, words, align=1.0, size=11.0, colour=ink)


def copy_words(rows: Floats, words: list[str]) -> Layer:
    """Return a line of text for each copy below the picture."""
    return texts(34.0, rows, words)


# Savings ----------------------------------------------------------------------------------------


def savings(
    size: float = 1000.0, source: str = "nic", relation: str = "PIX", *, server: str = "dgx_h100"
) -> Live:
    """Compare transfers to GPU 0 by each mechanism: the time of each copy, bytes moved in host memory, and CPU cores.

    Parameters
    ----------
    size : float
        Size of the transfer, which is copied in one piece. [kB]
    source, relation, server : str
        As in `copies`.
    """
    arguments = {"size": size, "source": source, "relation": relation, "server": server}
    sources = server_sources(server, source)
    controls: dict[str, Control] = {
        "size": Slider(1, 1e6, unit="kB", log=True),
        "source": Choice(("nic", "nvme"), names=("NIC", "NVMe")),
        "relation": Choice(tuple(sources.numbers)),
    }
    scene = functools.partial(savings_scene, sources)
    return live_view("savings", arguments, scene, controls)


def savings_scene(sources: ServerSources, size: float, source: str, relation: str) -> Scene:
    """Return the copies of ``size`` kB by each mechanism as bars, with the cost of each mechanism in a table."""
    total = size * 1e3  # [B]
    start = f"{source} {sources.numbers[relation]}"
    paths = {
        mechanism: gpudirect.path(sources.fabric, start, "gpu 0", mechanism)
        for mechanism in _MECHANISMS
    }
    times = {mechanism: path.time(total) for mechanism, path in paths.items()}
    columns = {
        "mechanism": list(_MECHANISMS),
        "copies": [path.copies for path in paths.values()],
        "time [s]": list(times.values()),
        "host memory [B]": [path.host_traffic * total for path in paths.values()],
        "cores at 400 Gb/s": [path.cores(total) for path in paths.values()],  # source: nics, cx7
    }
    # As the picture rounds the times, so that a reader who subtracts gets the same.
    saved = three_digits(times["pinned"]) - three_digits(times["peer"])
    caption = text(
        "live.savings.said",
        size=plain(units.format_size(total)),
        **times,
        saved=saved,
        part=100 * (1 - times["peer"] / times["pinned"]),
        host=paths["pinned"].host_traffic * total,
    )
    return Scene(
        caption,
        Table(columns),
        savings_layers(paths, total),
        _PANEL,
        alt=caption,
        hint=text("live.savings.hint"),
        width=_PICTURE,
        side=savings_panel(paths, total),
    )


def three_digits(value: float) -> float:
    """Return a value with three significant digits."""
    return float(f"{value:.3g}")


def savings_layers(paths: dict[str, gpudirect.Path], size: float) -> dict[str, Layer]:
    """Return a row for each mechanism: what it means, and its copies as bars one after the other, with their times."""
    times = [path.time(size) for path in paths.values()]  # (M,) [s]
    _, longest = common_ends("time", 0.0, max(times))
    to_x = log_axis(0.0, longest, _ROW_LEFT, _ROW_RIGHT)
    top = _ROWS_TOP + _ROW * np.arange(len(paths), dtype=np.float64)  # (M,) of the bars [px]
    bottom = _ROWS_TOP + _ROW * len(paths) - 18
    grid = tick_layers(round_ticks(longest), to_x, units.format_time, (_ROWS_TOP - 4, bottom), True)
    meanings = [text(f"live.savings.{mechanism}") for mechanism in paths]
    return {
        **grid,
        **copier_samples(),
        "bars": timed_bars(timed_copies(paths, size), to_x),
        "mechanisms": texts(_ROW_LEFT, top - 11, meanings),
        "times": time_words(times, top, to_x),
    }


class TimedCopy(NamedTuple):
    """A copy of a transfer in one piece: by which mechanism, who does it, and when."""

    row: int
    mechanism: str
    number: int  # 1, 2, ... in the row
    by: str  # "DMA" or "CPU"
    start: float  # [s]
    finish: float  # [s]

    @property
    def words(self) -> str:
        """Number of the copy, and who does it."""
        return text("live.savings.copy", n=self.number, by=self.by)

    def words_in(self, width: float) -> str:
        """Return what is written in a bar of a width [px]: only the number if it is too narrow for all words."""
        return self.words if width > _BAR_LETTER * len(self.words) else str(self.number)


def timed_copies(paths: dict[str, gpudirect.Path], size: float) -> list[TimedCopy]:
    """Return the copies of each mechanism, one after the other; the last one of a row includes the flush."""
    copies = []
    for row, (mechanism, path) in enumerate(paths.items()):
        durations = [move.issue + move.latency + size / move.rate for move in path.moves]
        ends = np.cumsum([0.0, *durations])
        ends[-1] += path.flush
        for place, move in enumerate(path.moves):
            copies.append(
                TimedCopy(
                    row=row,
                    mechanism=mechanism,
                    number=place + 1,
                    by=move.by,
                    start=ends[place],
                    finish=ends[place + 1],
                )
            )
    return copies


def copier_samples() -> dict[str, Layer]:
    """Return samples of the two colours: copies by a DMA engine, and by a CPU."""
    names = [text("live.savings.dma"), text("live.savings.cpu")]
    colours = np.array([timelines.hue("DMA"), timelines.hue("CPU")])
    return timelines.named_samples(names, colours)


def timed_bars(copies: list[TimedCopy], to_x: Callable[[Any], Floats]) -> Layer:
    """Return a bar for each copy, at least 1 px long; ``to_x`` gives the place of a time [px]."""
    left = to_x(np.array([copy.start for copy in copies]))  # (C,) [px]
    right = to_x(np.array([copy.finish for copy in copies]))  # (C,) [px]
    wide = np.maximum(right - left, 1.0)
    row = np.array([copy.row for copy in copies])
    colours = np.array([timelines.hue(copy.by) for copy in copies])
    return boxes(
        left,
        _ROWS_TOP + _ROW * row,
        wide,
        _ROW_BAR,
        round=2.0,
        colour=colours,
        edge=COLOUR["paper"],
        texts=[copy.words_in(width) for copy, width in zip(copies, wide.tolist(), strict=True)],
        ink=ink_on(colours),
        names=[f"{copy.mechanism}, {copy.words}" for copy in copies],
        notes=[units.format_time(copy.finish - copy.start) for copy in copies],
    )


def time_words(times: list[float], top: Floats, to_x: Callable[[Any], Floats]) -> Layer:
    """Return the time of each mechanism behind the last of its bars, whose upper edges are ``top`` [px]."""
    words = [units.format_time(time) for time in times]
    end = to_x(np.array(times))  # (M,) [px]
    return texts(end + 8, top + _ROW_BAR / 2, words, bold=1.0, halo=1.0)


def round_ticks(longest: float) -> Floats:
    """Return round values from 0 on that are less than the longest."""
    ticks = np.asarray(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(0.0, longest))
    return ticks[(ticks >= 0) & (ticks <= longest)]


def savings_panel(paths: dict[str, gpudirect.Path], size: float) -> Scene:
    """Return the time of each mechanism over the size of the transfer, with the current size."""
    curves = [
        Curve(name, _SIZES, np.array([path.time(each) for each in _SIZES]), COLOUR[colour], shape)
        for (name, path), colour, shape in zip(
            paths.items(), ("edge", "edge", "edge"), (3.0, 4.0, 5.0), strict=True
        )
    ]
    spots = [Spot(size, path.time(size), "") for path in paths.values()]
    return curve_panel(
        text("live.savings.panel"),
        text("live.savings.size"),
        curves,
        spots,
        show_x=units.format_size,
        show_y=units.format_time,
        log_x=True,
        log_y=True,
        height=_PANEL,
    )


# Chunks -----------------------------------------------------------------------------------------


def chunks(
    chunk: float = 1024.0,
    mechanism: str = "pinned",
    *,
    server: str = "dgx_h100",
    size: units.Quantity = "8 MiB",
) -> Live:
    """Show how the chunks of a transfer from GPU 0 to GPU 1 pass through its copies in a pipeline.

    Parameters
    ----------
    chunk : float
        Size of a chunk. [KiB]
    mechanism : str
        How the transfer is copied: pinned or pageable.
    server : str
        As in `copies`.
    size : float or str
        Size of the transfer. [B]
    """
    arguments = {"chunk": chunk, "mechanism": mechanism, "server": server, "size": size}
    fabric = topologies.build(server)
    total = units.size(size)
    controls: dict[str, Control] = {
        "chunk": Slider(32, 8192, unit="KiB", log=True),
        "mechanism": Choice(_MECHANISMS[1:]),
    }
    scene = functools.partial(chunks_scene, fabric, total)
    return live_view("chunks", arguments, scene, controls)


def chunks_scene(fabric: Fabric, total: float, chunk: float, mechanism: str) -> Scene:
    """Return the chunks of a transfer of ``total`` bytes as bars, with a lane for each copy."""
    path = gpudirect.path(fabric, "gpu 0", "gpu 1", mechanism)
    pieces = max(1, math.ceil(total / (chunk * 1024)))
    duration = np.array([move.issue + total / pieces / move.rate for move in path.moves])  # (C,)
    finish = chunk_finish(path, duration, pieces)  # (C, pieces) [s]

    kinds = ("DMA", "CPU")
    bars = []
    for lane, (move, times) in enumerate(zip(path.moves, finish, strict=True)):
        for time in times:
            bars.append(Bar(lane, kinds.index(move.by), time - duration[lane], time))
    lanes = [
        text("live.chunks.lane", n=number, by=move.by, to=spoken(move.over[-1]))
        for number, move in enumerate(path.moves, 1)
    ]

    # illustrative: chunks from 32 KiB to 8 MiB, the ends of the slider
    sizes = np.exp2(np.arange(15, 24, dtype=np.float64))  # [B]
    times = np.array([path.time(total, size) for size in sizes])
    best = int(np.argmin(times))
    caption = text(
        "live.chunks.said",
        size=total,
        n=pieces,
        chunks=text("live.chunks.one" if pieces == 1 else "live.chunks.several"),
        each=total / pieces,
        time=finish.max(),
    )
    caption += " " + text(
        "live.chunks.best_of_all" if pieces == 1 else "live.chunks.others",
        at=float(sizes[best]),
        whole=path.time(total),
        best=float(times[best]),
    )
    drawn = stacked(bars, lanes, list(kinds), caption, height=_PANEL)
    if pieces <= _NUMBERED:
        drawn = numbered(drawn, pieces)
    now = chunk * 1024
    side = curve_panel(
        text("live.chunks.panel"),
        text("live.chunks.chunk"),
        [
            Curve("", sizes, times, COLOUR["edge"], 3.0),
            Curve(
                text("live.chunks.best", at=float(sizes[best]), time=float(times[best])),
                sizes[[best]],
                times[[best]],
                COLOUR["ink"],
                9.0,
            ),
        ],
        [Spot(now, float(finish.max()), units.format_time(float(finish.max())))],
        show_x=units.format_size,
        show_y=units.format_time,
        ticks_x=sizes[::4],
        log_x=True,
        height=_PANEL,
    )
    return replace(drawn, side=side)


def spoken(part: str) -> str:
    """Return the name of a part of a server as engineers say it: "GPU 1" for "gpu 1", "CPU 0" for "cpu 0.0"."""
    kind, _, number = part.partition(" ")
    return f"{kind.upper()} {number.rpartition('.')[2]}"


def numbered(drawn: Scene, pieces: int) -> Scene:
    """Return a picture of chunks with the number of each chunk in its bars."""
    bars = drawn.layers["bars"]
    count = bars.fields["x"].size
    numbers = [str(i % pieces + 1) for i in range(count)]
    fields = {**bars.fields, "texts": numbers, "ink": ink_on(bars.fields["colour"])}
    return replace(drawn, layers={**drawn.layers, "bars": replace(bars, fields=fields)})


def chunk_finish(path: gpudirect.Path, duration: Floats, pieces: int) -> Floats:
    """Return the time at which each chunk has passed each copy, (C, pieces). [s].

    The first chunk has passed copy c after all durations and latencies of the copies up to c. Each further chunk
    follows after the longest of these durations, because the slowest copy so far sets the pace.
    """
    latency = np.array([move.latency for move in path.moves])  # (C,)
    first = np.cumsum(duration) + np.cumsum(latency)  # (C,)
    pace = np.maximum.accumulate(duration)  # (C,)
    return np.asarray(first[:, None] + pace[:, None] * np.arange(pieces))
