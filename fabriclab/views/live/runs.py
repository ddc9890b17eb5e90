"""Live views of values: fabrics, timelines, races of simulations, sweeps, traffic between ranks, and rulers.

Traffic is a map of what each rank sends to each other rank, with bars above for what each receives, and bars on the
right for what each sends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Fabric, Flags, Floats, Flows, Result, Timeline
from fabriclab.look import Algorithm, algorithm
from fabriclab.texts import text
from fabriclab.views import rulers, sweeps
from fabriclab.views.common import common_ends
from fabriclab.views.fabrics import scene_of
from fabriclab.views.layout import SAYS, counted
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    heading,
    lines,
    log_axis,
    scale,
    shade,
    texts,
    texts_at,
    tick_layers,
)
from fabriclab.views.timelines import timeline_scene

_ALONE = 880.0  # width of a picture without a panel [px]

# The race, in px: names to the left of the bars, states to the right.
_ROW_HEIGHT = (48.0, 84.0)  # least and greatest of a lane
_BAR_PART = 0.54  # of the height of its lane
_MARGIN = 8.0
_NAME_LETTER = 7.4  # of a name in bold
_NAMES_ROOM = (60.0, 190.0)  # least and greatest left end of the bars
_STATE_ROOM = 144.0  # to the right of the bars
_MOST_LISTED = 60  # letters of the finding that name the runs before they begin
_RACE_WIDTH = 590.0
_SLOWEST_PLAYS = 12_000  # [ms]
_BEATS = 100  # steps of the slider while the slowest run plays

# The shares done over time, in px, beside the race.
_CHART_WIDTH = 320.0
_CHART_HEIGHT = 236.0
_LANES_TOP = 26.0  # below the title of the lanes
_CHART_X = (52.0, 284.0)
_CHART_Y = (186.0, 40.0)
_CHART_POINTS = 60
_PROMISE_LETTER = 6.4  # width of a letter of what is promised [px]
_FAR_APART = 20.0  # times as long: then the chart of a race has a logarithmic axis

# The map of traffic, in px: a square of cells, with bars above and on the right.
_MAP_LEFT = 92.0
_MAP_TOP = 76.0
_MAP_SIDE = 248.0
_MAP_RIGHT = _MAP_LEFT + _MAP_SIDE
_MAP_BOTTOM = _MAP_TOP + _MAP_SIDE
_BARS_GAP = 6.0
_LONGEST_BAR = 54.0
_MAP_WIDTH = 450.0
_MAP_HEIGHT = _MAP_BOTTOM + 58
_MOST_RANKS = 128
_NAMED_RANKS = 16  # so many have a name each
_FEWER_NAMES = 10  # of more ranks so many have one
_SORTED_LEFT = 40.0
_SORTED_RIGHT = 340.0
_SORTED_WIDTH = 360.0
_BESIDE_TOP = 24.0  # a bar that is so much higher than the next has room for words beside it [px]
_SORTED_TOP = 70.0


# Fabric and timeline ----------------------------------------------------------------------------


def fabric(
    fabric: Fabric,
    load: Callable[..., Any] | Any = None,
    *,
    colour: str | None = None,
    layout: str = "tiers",
    open: int | None = None,
    said: str = "",
    controls: dict[str, Control] | None = None,
    **values: Any,
) -> Live:
    """Show a fabric, with controls for its load and its look; point at links and nodes or use arrow keys to read them.

    A fabric with more than 200 nodes shows each tier as blocks; Enter or a click opens a block and closes it again.

    Parameters
    ----------
    fabric : Fabric
        What to show.
    load : callable, Timeline, simulation or array_like, optional
        Mean load of each link as a fraction of its capacity (L,), or a run from which it follows. A callable takes the
        values of ``controls`` and returns one of these, or a pair (fabric with the same cables, load), or a triple with
        the sentence as its third value.
    colour : str, optional
        What the colour of a link shows: load, tier, rail or failure, if the fabric has it. Where colours do not show
        the load, links with little load are pale.
    layout : str
        "tiers": rows from the endpoints upwards. "floor": a cell for every endpoint, in a column for each server.
    open : int, optional
        Any node of the block that is open.
    said : str
        The sentence below the picture; by default it names the fullest link.
    controls : dict of str to Slider or Choice
        Controls whose values ``load`` takes.
    **values
        First values of these controls.
    """
    modes = colour_modes(fabric, has_load=load is not None)
    arguments = {
        "fabric": fabric,
        "load": load,
        "colour": colour or modes[0],
        "layout": layout,
        "open": open,
        "said": said,
        "controls": controls,
        "values": values,
    }
    own_controls: dict[str, Control] = {
        "colour": Choice(modes),
        "layout": Choice(("tiers", "floor")),
    }
    scene = partial(loaded_fabric_scene, fabric, load, said)
    return live_view("fabric", arguments, scene, own_controls, hidden=("open",), held=("load",))


def colour_modes(fabric: Fabric, has_load: bool) -> tuple[str, ...]:
    """Return what the colours of a fabric's links can show; the first is the default."""
    possible = {
        "load": has_load,
        "rail": np.any(fabric.rail > 0),
        "failure": np.any(fabric.capacity == 0),
    }
    return tuple(mode for mode in SAYS if possible.get(mode, True))


def loaded_fabric_scene(
    fabric: Fabric,
    load: Callable[..., Any] | Any,
    sentence: str,
    /,
    *,
    colour: str,
    layout: str,
    open: int | None,
    **values: Any,
) -> Scene:
    """Return a picture of a fabric with its load, which is ``load`` or what it returns for ``values`` if callable."""
    if callable(load):
        load = load(**values)
    return scene_of(fabric, load, colour, open, sentence, layout)


def timeline(
    timeline: Timeline, flows: Flows, fabric: Fabric | None = None, *, at: float = 0.0
) -> Live:
    """Show flows as bars, with one lane per sender and a slider that moves through the time.

    Parameters
    ----------
    timeline, flows, fabric
        As in `views.timeline`.
    at : float
        First place of the line that the slider moves, as a time of the run. [s]
    """
    arguments = {"timeline": timeline, "flows": flows, "fabric": fabric, "at": at}
    last, step = ends_of_slider(float(timeline.end))
    controls: dict[str, Control] = {"at": Slider(0.0, last, step, unit="s", play=True)}
    name = None if fabric is None else fabric.name
    scene = partial(timeline_scene, timeline, flows, name, width=_ALONE)
    held = ("timeline", "flows", "fabric")
    return live_view("timeline", arguments, scene, controls, held=held, room=1)


# Race -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Standings:
    """How far each run of a race is at one moment."""

    labels: list[str]
    looks: list[Algorithm]  # of each run
    ends: Floats  # (R,) time of each run [s]
    shares: Floats  # (R,) fraction of the steps of a run that is done, 0..1
    n_steps: list[int]  # of each run
    steps: list[str]  # "12 / 30": steps that have ended, and all steps
    states: list[str]  # "40.0 %", or "done after 36.1 us"
    top: Floats  # (R,) upper edge of the bar [px]
    left: float  # left end of all bars [px]
    high: float  # height of a bar [px]

    @property
    def width(self) -> float:
        """Length of the bar of a finished run [px]."""
        return _RACE_WIDTH - _STATE_ROOM - self.left

    @property
    def middle(self) -> Floats:
        """Middle of each bar, (R,) [px]."""
        return self.top + self.high / 2

    @property
    def hues(self) -> Floats:
        """Colour of each run, by its algorithm, (R,)."""
        return np.array([look.colour for look in self.looks])

    @property
    def shapes(self) -> Floats:
        """Shape of the mark of each run, by its algorithm, (R,)."""
        return np.array([look.shape for look in self.looks])

    @property
    def is_done(self) -> Flags:
        """Whether each run is done, (R,)."""
        return np.asarray(self.shares >= 1)


@dataclass(frozen=True, slots=True)
class Course:
    """The whole race: how far each run is at each time."""

    at: list[Floats]  # of each run, times (K,) [s]
    shares: list[Floats]  # of each run, the fraction of its steps that is done then (K,)
    last: float  # when the slowest run is done [s]
    first: float  # the earliest time that is shown [s]; 0 if time is linear


def race(runs: Mapping[str, Any], *, seconds: float | None = None, log: bool = False) -> Live:
    """Let simulations race: show how far each of them is after a time that a slider sets.

    Time runs evenly, and the slowest run plays for about 12 seconds, so what is done at once is done at once here, too.

    Parameters
    ----------
    runs : mapping of label to simulation
        The runs by name, as `fabriclab.simulate` returns them. A name that contains an algorithm's gets the
        colour of the one that ran.
    seconds : float, optional
        Time to show first; by default the beginning. [s]
    log : bool
        Whether time runs logarithmically, from 1 % of the time of the fastest run, so that very different runs can be
        compared.
    """
    if not runs or min(run.time for run in runs.values()) <= 0:
        raise ValueError(
            f"runs must be simulations that take time, by name, got {dict(runs)!r:.80}"
        )
    slider = race_slider(runs, log)
    arguments = {"runs": runs, "log": log, "seconds": slider.low if seconds is None else seconds}
    scene = partial(race_scene, runs, course_of(runs, slider))
    return live_view("race", arguments, scene, {"seconds": slider}, held=("runs",))


def race_slider(runs: Mapping[str, Any], log: bool) -> Slider:
    """Return the slider of a race: from 0, or from 1 % of the fastest run's time, to the end of the slowest run."""
    times = [float(run.time) for run in runs.values()]
    if log:
        first = float(f"{min(times) / 100:.2g}")
        return Slider(first, max(times), unit="s", log=True, play=True, beat=_SLOWEST_PLAYS / 60)
    last, step = ends_of_slider(max(times))
    return Slider(0.0, last, step, unit="s", play=True, beat=_SLOWEST_PLAYS * step / last)


def ends_of_slider(time: float) -> tuple[float, float]:
    """Return the upper end and the step of a slider that runs from 0 to a time. [s]."""
    if time <= 0:  # nothing to move through
        return 1.0, 0.5
    digit = 10.0 ** (np.floor(np.log10(time)) - 2)
    last = float(f"{np.ceil(time / digit) * digit:.3g}")  # three digits, rounded up
    step = float(f"{last / _BEATS:.6g}")
    while step == int(step):  # whole steps would round the times that are typed
        step /= 2
    return last, step


def course_of(runs: Mapping[str, Any], slider: Slider) -> Course:
    """Return how far each run is from the beginning to the end of a race."""
    last = [float(run.timeline.end) for run in runs.values()]
    first = slider.low
    if not first and max(last) > _FAR_APART * min(last):
        first = min(last) / 10  # else the fast ones would lie on each other at the left end
    at = []
    shares = []
    for run in runs.values():
        end = float(run.timeline.end)
        times = np.linspace(first, end, _CHART_POINTS)
        if first:
            times = np.geomspace(first, end, _CHART_POINTS)
        at.append(np.append(times, slider.high))
        shares.append(np.array([share_done(run.timeline, float(time)) for time in at[-1]]))
    return Course(at=at, shares=shares, last=slider.high, first=first)


def race_scene(runs: Mapping[str, Any], course: Course, seconds: float) -> Scene:
    """Return a picture of a race after ``seconds``: a lane for each run, and the shares done over the whole time."""
    standings = standings_at(runs, seconds)
    layers = {
        "title": heading(16.0, text("live.race.lanes")),
        "way": track_layer(standings),
        "bars": bar_layer(standings),
        "names": name_layer(standings),
        "marks": mark_layer(standings),
        "state": state_layer(standings),
        "ahead": ahead_layer(standings, seconds),
    }
    columns = {
        "run": standings.labels,
        "part [%]": 100 * standings.shares,
        "steps ended": standings.steps,
        "end [s]": standings.ends,
    }
    pairs = zip(standings.labels, standings.states, strict=True)
    sentence = text("live.race.said", time=seconds, list=", ".join(map(" ".join, pairs)))
    said = finding_of(standings, seconds)
    lanes = float(standings.top[-1]) + standings.high + _MARGIN
    return Scene(
        said,
        Table(columns),
        layers,
        height=max(lanes, _CHART_HEIGHT),
        width=_RACE_WIDTH,
        alt=f"{said} {sentence}",
        side=race_chart(standings, course, seconds),
    )


def finding_of(standings: Standings, seconds: float) -> str:
    """Return in words who is done, and how many times as long the slowest takes."""
    ends = standings.ends
    fast = int(np.argmin(ends))
    slow = int(np.argmax(ends))
    if seconds == 0:
        return text("live.race.begin", runs=runs_in_words(standings))
    if not standings.is_done.any():
        ahead = int(np.argmax(standings.shares))
        return text(
            "live.race.none",
            time=seconds,
            first=standings.labels[ahead],
            share=standings.shares[ahead],
        )
    if len(ends) == 1:
        return text("live.race.alone", fast=standings.labels[fast], end=ends[fast])
    words = {
        "fast": standings.labels[fast],
        "end": ends[fast],
        "slow": standings.labels[slow],
    }
    if standings.is_done.all():
        factor = f"{ends[slow] / ends[fast]:.3g}"
        return text("live.race.all", **words, last=ends[slow], factor=factor)
    left = np.flatnonzero(~standings.is_done)
    slowest = int(left[np.argmin(standings.shares[left])])
    words["slow"] = standings.labels[slowest]
    factor = f"{seconds / ends[fast]:.3g}"
    share = standings.shares[slowest]
    return text("live.race.some", **words, share=share, time=seconds, factor=factor)


def runs_in_words(standings: Standings) -> str:
    """Return the runs with their numbers of steps or, if they are too many for a line, the least and the greatest."""
    parts = []
    for label, n in zip(standings.labels, standings.n_steps, strict=True):
        parts.append(text("live.race.steps_of", run=label, steps=counted(n, "step")))
    listed = ", ".join(parts)
    if len(listed) <= _MOST_LISTED:
        return listed
    least, most = min(standings.n_steps), max(standings.n_steps)
    runs = counted(len(standings.labels), "run")
    if least == most:
        return text("live.race.same_steps", runs=runs, steps=counted(most, "step"))
    return text("live.race.from_steps", runs=runs, least=least, steps=counted(most, "step"))


def standings_at(runs: Mapping[str, Any], seconds: float) -> Standings:
    """Return how far each run is after ``seconds``."""
    shares = []
    n_steps = []
    steps = []
    states = []
    for run in runs.values():
        total = int(run.timeline.repeat.sum())
        share = share_done(run.timeline, seconds)
        ended = int(share * total + 1e-9)  # a step counts as ended if only rounding is missing
        if share == 1:
            state = text("live.race.done", time=run.timeline.end)
        else:
            state = f"{100 * share:.1f} %" if share else "0 %"
        shares.append(share)
        n_steps.append(run.schedule.n_steps)
        steps.append(f"{ended:,} / {total:,}")
        states.append(state)
    least, most = _ROW_HEIGHT
    room = _CHART_HEIGHT - _LANES_TOP
    row = float(np.clip(room / len(runs), least, most))
    high = _BAR_PART * row
    first = _LANES_TOP + max(0.0, (room - row * len(runs)) / 2) + (row - high) / 2
    longest = max(len(label) for label in runs)
    return Standings(
        labels=list(runs),
        looks=[look_of(label, run) for label, run in runs.items()],
        ends=np.array([float(run.time) for run in runs.values()]),
        shares=np.array(shares),
        n_steps=n_steps,
        steps=steps,
        states=states,
        top=first + row * np.arange(len(runs), dtype=np.float64),
        left=float(np.clip(_NAME_LETTER * longest + 34, *_NAMES_ROOM)),
        high=high,
    )


def look_of(label: str, run: Any) -> Algorithm:
    """Return the look of a run whose label names an algorithm: "tree" may be a double tree or a binomial one."""
    named = algorithm(label)
    return named if named == algorithm("") else algorithm(run.schedule.algorithm)


def share_done(timeline: Timeline, seconds: float) -> float:
    """Return the fraction of the steps of a run that is done after ``seconds``, 0..1."""
    if seconds >= timeline.end:
        return 1.0
    return progress_in_steps(timeline, seconds) / float(timeline.repeat.sum())


def progress_in_steps(timeline: Timeline, seconds: float) -> float:
    """Return the number of steps that have ended, plus the fraction done of each step under way."""
    period = np.where(timeline.period > 0, timeline.period, np.inf)  # (G,) of each step group [s]
    elapsed = seconds - timeline.group_start  # (G,) [s]
    steps = np.clip(elapsed / period, 0, timeline.repeat)  # (G,)
    return float(steps.sum())


def track_layer(standings: Standings) -> Layer:
    """Return an empty lane for each run, as long as the bar of a finished run; it can be read from the beginning."""
    notes = [", ".join(pair) for pair in zip(standings.states, standings.steps, strict=True)]
    return boxes(
        standings.left,
        standings.top,
        standings.width,
        standings.high,
        colour=COLOUR["sunk"],
        edge=COLOUR["line"],
        names=standings.labels,
        notes=notes,
    )


def bar_layer(standings: Standings) -> Layer:
    """Return a bar for each run; its length shows the fraction of steps done, and is at least 1 px."""
    width = np.maximum(standings.width * standings.shares, 1.0)  # (R,) [px]
    return boxes(standings.left, standings.top, width, standings.high, colour=standings.hues)


def name_layer(standings: Standings) -> Layer:
    """Return the names of the runs, right-aligned in front of the bars, and shortened if they do not fit."""
    right = standings.left - 26
    names = [rulers.fitted(label, right) for label in standings.labels]
    return texts(right, standings.middle, names, align=2.0, bold=1.0)


def mark_layer(standings: Standings) -> Layer:
    """Return the mark of each run's algorithm, between its name and its bar."""
    x = np.full(standings.top.size, standings.left - 13)
    fields = {"x": x, "y": standings.middle, "size": 5.0}
    return Layer("dots", {**fields, "colour": standings.hues, "shape": standings.shapes})


def state_layer(standings: Standings) -> Layer:
    """Return how far each run is, or in bold after which time it was done, to the right of its lane."""
    left = standings.left + standings.width + _MARGIN
    done = standings.is_done
    colour = np.where(done, COLOUR["ink"], COLOUR["soft"])
    return texts(left, standings.middle, standings.states, bold=done * 1.0, colour=colour)


def ahead_layer(standings: Standings, seconds: float) -> Layer:
    """Return in each lane how many steps lie ahead, as long as no run has begun."""
    if seconds:
        return texts([], [], [])
    words = [text("live.race.ahead", steps=counted(n, "step")) for n in standings.n_steps]
    return texts(standings.left + 12, standings.middle, words, colour=COLOUR["soft"])


def race_chart(standings: Standings, course: Course, seconds: float) -> Scene:
    """Return the shares done up to now, on an axis that ends with the slowest run; nothing tells the end beforehand."""
    to_x = log_axis(course.first, course.last, *_CHART_X)
    to_y = log_axis(0.0, 1.0, *_CHART_Y)
    ticks = np.asarray(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]).tick_values(0.0, course.last))
    ticks = ticks[ticks <= course.last]
    if course.first:
        ticks = np.array([course.first, np.sqrt(course.first * course.last), course.last])
        decades = 10.0 ** np.arange(np.ceil(np.log10(course.first)), np.log10(course.last))
        if decades.size > 1:
            ticks = np.asarray(decades, dtype=np.float64)
    shown = max(seconds, course.first)
    now = float(to_x(shown))
    curves = []
    for at, shares, share in zip(course.at, course.shares, standings.shares, strict=True):
        reached = np.where(
            at <= seconds, shares, share
        )  # what is still to come lies on the present point
        curves.append(np.stack([to_x(np.minimum(at, shown)), to_y(reached)], axis=1))
    here = {"x": to_x(np.minimum(standings.ends, shown)), "y": to_y(standings.shares)}
    moment = np.array([[now, _CHART_Y[0]], [now, _CHART_Y[1]]])
    bottom, top = _CHART_Y
    hues = standings.hues
    size = 4.0 if seconds else 0.0  # before they begin all lie on each other
    layers = {
        "title": heading(16.0, text("live.race.chart"), 16.0),
        **tick_layers(ticks, to_x, units.format_time, (top, bottom), True),
        **tick_layers(
            np.array([0, 0.5, 1]), to_y, lambda share: f"{100 * share:.0f} %", _CHART_X, False
        ),
        "curves": lines(curves, width=2.2, colour=hues),
        "now": lines([moment], width=1.2, colour=COLOUR["ink"]),
        "here": Layer("dots", {**here, "size": size, "colour": hues, "shape": standings.shapes}),
        "axis": texts(
            _CHART_X[1], [bottom + 32], [text("live.race.axis")], align=2.0, colour=COLOUR["soft"]
        ),
        "promise": promise_layer(seconds, to_x(ticks)),
    }
    return Scene("", layers=layers, height=_CHART_HEIGHT, width=_CHART_WIDTH)


def promise_layer(seconds: float, ticks: Floats) -> Layer:
    """Return what will stand in the chart, as long as no run has begun: between grid lines, where there is room."""
    words = "" if seconds else text("live.race.promise")
    x, y = sum(_CHART_X) / 2, float(np.interp(0.75, (0, 1), _CHART_Y))
    edges = np.append(ticks, _CHART_X[1])
    widest = int(np.argmax(np.diff(edges)))
    if edges[widest + 1] - edges[widest] > _PROMISE_LETTER * len(words):
        x = float(edges[widest : widest + 2].mean())
    return texts(x, [y], [words], align=1.0, halo=1.0, colour=COLOUR["soft"])


# Sweep ------------------------------------------------------------------------------------------

_CURSOR_UNITS = {
    "size": ("KiB", 1024.0),
    "ranks": ("ranks", 1.0),
    "tokens": ("tokens", 1.0),
}  # unit of its slider, in SI units


def sweep(
    results: Callable[..., Any] | sweeps.Results,
    *,
    y: str = "time",
    x: str = "size",
    controls: Mapping[str, Control] | None = None,
    bounds: sweeps.Bounds | None = None,
    said: str = "",
    error: bool = False,
    cursor: units.Quantity | None = None,
    x_name: str = "",
    token: units.Quantity | None = None,
    **values: Any,
) -> Live:
    """Show sweeps of time or bus bandwidth over size or ranks, with controls for their results.

    Point at the curves or use the arrow keys to read their values. Without a cursor, the first two predicted series get
    a mark where they cross.

    Parameters
    ----------
    results : callable, Result, sequence of Result or mapping of label to these
        What to draw, as in `views.sweep`. A callable takes the values of ``controls`` and returns such results, or a
        pair (results, sentence).
    y, x : str
        Quantities on the axes: "time" or "busbw" over "size", "ranks" or "tokens".
    controls : mapping of str to Slider or Choice
        Controls whose values ``results`` takes.
    bounds, said, error
        Bounds and error as in `views.sweep`; and the sentence, which by default gives the ends of the first series.
    cursor : float or str, optional
        First place of a cursor, which a slider moves and which reads all predicted series: a size such as "1 MiB" (a
        number is in KiB), or a number of ranks or tokens.
    x_name : str, optional
        What the x axis shows if it is not the size of messages or the number of ranks, such as "size of a piece".
    token : float or str, optional
        Size of a token, which an axis of tokens needs. [B]
    **values
        First values of the controls.
    """
    arguments = {
        "results": results,
        "y": y,
        "x": x,
        "controls": controls,
        "bounds": bounds,
        "said": said,
        "error": error,
        "cursor": cursor,
        "x_name": x_name,
        "token": token,
        "values": values,
    }
    scene = partial(results_scene, results, y, x, bounds, said, error, x_name, token)
    slider: dict[str, Control] = {}
    if cursor is not None:
        if isinstance(cursor, str):
            arguments["cursor"] = units.size(cursor) / _CURSOR_UNITS[x][1]
        first = {name: control.samples()[0] for name, control in (controls or {}).items()}
        drawn, _ = results_of(results, first | values)
        slider["cursor"] = cursor_slider(drawn, y, x, token)
    return live_view("sweep", arguments, scene, slider, held=("results",))


def cursor_slider(
    results: sweeps.Results, y: str, x: str, token: units.Quantity | None = None
) -> Slider:
    """Return a slider from the lowest to the highest value of x of all predicted results."""
    unit, factor = _CURSOR_UNITS[x]
    low, high = sweeps.reach(sweeps.collect(sweeps.by_label(results, x), {}, x, y, token))
    return Slider(low / factor, high / factor, unit=unit, log=True)


def results_of(
    results: Callable[..., Any] | sweeps.Results, values: Mapping[str, Any]
) -> tuple[sweeps.Results, str]:
    """Return results and their sentence: as they are given, or what a function returns for ``values``."""
    drawn = results(**values) if callable(results) else results
    if isinstance(drawn, tuple) and isinstance(drawn[-1], str):
        return drawn
    return drawn, ""


def results_scene(
    results: Callable[..., Any] | sweeps.Results,
    y: str,
    x: str,
    bounds: sweeps.Bounds | None,
    sentence: str,
    error: bool,
    x_name: str = "",
    token: units.Quantity | None = None,
    /,
    cursor: float | None = None,
    **values: Any,
) -> Scene:
    """Return a picture of sweeps, of ``results`` or of what it returns for ``values``, read at ``cursor``."""
    drawn, own_sentence = results_of(results, values)
    at = None if cursor is None else cursor * _CURSOR_UNITS[x][1]
    said = own_sentence or sentence
    scene = sweeps.sweep_scene(
        drawn,
        y,
        x,
        bounds,
        said,
        cross=True,
        error=error,
        cursor=at,
        x_name=x_name,
        token=token,
    )
    return scene if scene.wrong else replace(scene, hint=sweeps.published_sources(drawn, x))


# Traffic ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Traffic:
    """What each of n ranks sends to each other rank, with the sums that are drawn as bars."""

    table: Floats  # (n, n) row: sender, column: receiver
    received: Floats  # (n,) sums of the columns
    sent: Floats  # (n,) sums of the rows
    names: list[str]  # names of the ranks

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.names)

    @property
    def mean(self) -> float:
        """What a rank receives on average, which is also what a rank sends on average."""
        return float(self.received.mean())

    @property
    def most(self) -> float:
        """The largest sum of any row or column."""
        return float(max(self.received.max(), self.sent.max()))

    @property
    def cell(self) -> float:
        """Side of a cell [px]."""
        return _MAP_SIDE / self.ranks

    @property
    def places(self) -> Floats:
        """Upper edge of each row and left edge of each column, relative to the map, (n,) [px]."""
        return self.cell * np.arange(self.ranks, dtype=np.float64)

    def times_mean(self, sums: Floats) -> list[str]:
        """Return sums as multiples of the mean, in words."""
        return [text("live.traffic.note", times=multiple) for multiple in sums / self.mean]


def traffic(
    table: Callable[..., Any] | ArrayLike,
    *,
    controls: Mapping[str, Control] | None = None,
    said: str = "",
    **values: Any,
) -> Live:
    """Show a map of how much each rank sends to each other rank, with controls for the amounts.

    The result of `collectives.expert_tables` contains such tables.

    Parameters
    ----------
    table : callable or array_like, shape (n, n)
        Amounts in any unit, >= 0, with a row for each sender and a column for each receiver. A callable takes the
        values of ``controls`` and returns such a table, or a pair (table, sentence).
    controls : mapping of str to Slider or Choice
        Controls whose values ``table`` takes.
    said : str
        The sentence; by default it names the rank that receives most.
    **values
        First values of the controls.
    """
    arguments = {"table": table, "controls": controls, "said": said, "values": values}
    scene = partial(traffic_scene, table, said)
    return live_view("traffic", arguments, scene, {}, held=("table",))


def traffic_scene(table: Callable[..., Any] | ArrayLike, sentence: str, /, **values: Any) -> Scene:
    """Return the map of a table: of ``table``, or of what it returns for ``values`` if it is callable."""
    drawn = table(**values) if callable(table) else table
    if isinstance(drawn, tuple):
        return traffic_map(*drawn)
    return traffic_map(drawn, sentence)


def traffic_map(table: ArrayLike, sentence: str = "") -> Scene:
    """Return the map of a table with ``sentence`` or, if that is empty, one that names the rank that receives most."""
    traffic = traffic_of(table)
    layers = {
        **cell_layers(traffic),
        "taken": received_layer(traffic),
        "sent": sent_layer(traffic),
        "mean": mean_layer(traffic),
        **traffic_words(traffic),
    }
    top = int(traffic.received.argmax())
    fact = text("live.traffic.said", rank=top, times=traffic.received[top] / traffic.mean)
    columns = {
        "rank": np.arange(traffic.ranks),
        "takes in": traffic.received,
        "sends": traffic.sent,
    }
    return Scene(
        said=sentence or fact,
        table=Table(columns),
        layers=layers,
        height=_MAP_HEIGHT,
        alt=f"{fact} {sentence}".strip(),
        width=_MAP_WIDTH,
        side=sorted_panel(traffic),
    )


def traffic_of(table: ArrayLike) -> Traffic:
    """Return a table with the sums of its rows and columns.

    Raises
    ------
    ValueError
        If the table is not square, has fewer than 2 or more than 128 ranks, or contains anything but finite numbers
        >= 0, of which at least one is above 0.
    """
    amounts = np.asarray(table, dtype=np.float64)
    ranks = len(amounts) if amounts.ndim == 2 else 0
    is_square = amounts.shape == (ranks, ranks) and 1 < ranks <= _MOST_RANKS
    if not is_square or not np.all(np.isfinite(amounts) & (amounts >= 0)) or not amounts.any():
        msg = (
            f"table must be (n, n) of what each of 2..{_MOST_RANKS} ranks has for each, >= 0, "
            f"got shape {amounts.shape}"
        )
        raise ValueError(msg)
    names = [text("live.traffic.rank", rank=rank) for rank in range(ranks)]
    return Traffic(amounts, received=amounts.sum(axis=0), sent=amounts.sum(axis=1), names=names)


def cell_layers(traffic: Traffic) -> dict[str, Layer]:
    """Return the cells of the map, the fuller the darker, and its ground, which is what is seen of empty cells.

    Each cell is drawn as a line as thick as the cell is high, because printing thousands of boxes takes seconds.
    """
    row, column = np.nonzero(traffic.table)  # (C,) each
    gap = min(1.0, 0.2 * traffic.cell)  # the same across and down
    left = _MAP_LEFT + traffic.cell * column + gap / 2
    middle = _MAP_TOP + traffic.cell * (row + 0.5)
    share = traffic.table[row, column] / traffic.table.max()
    return {
        "ground": boxes(
            _MAP_LEFT,
            _MAP_TOP,
            _MAP_SIDE,
            _MAP_SIDE,
            round=3.0,
            colour=COLOUR["sunk"],
            edge=COLOUR["line"],
        ),
        "map": Layer(
            "lines",
            {
                "ptr": 2 * np.arange(row.size + 1),
                "x": np.stack([left, left + traffic.cell - gap], axis=1).ravel(),
                "y": np.repeat(middle, 2),
                "width": traffic.cell - gap,
                "grows": 1.0,
                "colour": shade(share),
            },
        ),
    }


def sum_colours(sums: Floats) -> Floats:
    """Return the colour of the bar of each sum: the largest is in ink, all others are grey."""
    return np.where(np.arange(sums.size) == int(sums.argmax()), COLOUR["ink"], COLOUR["edge"])


def received_layer(traffic: Traffic) -> Layer:
    """Return a bar above each column, whose height shows what the rank receives."""
    height = _LONGEST_BAR * traffic.received / traffic.most
    return boxes(
        _MAP_LEFT + traffic.places,
        _MAP_TOP - _BARS_GAP - height,
        max(traffic.cell - 1, 1.0),
        height,
        notes=traffic.times_mean(traffic.received),
        round=1.0,
        colour=sum_colours(traffic.received),
        names=traffic.names,
        glide=True,
    )


def sent_layer(traffic: Traffic) -> Layer:
    """Return a bar beside each row, whose length shows what the rank sends."""
    return boxes(
        _MAP_RIGHT + _BARS_GAP,
        _MAP_TOP + traffic.places,
        _LONGEST_BAR * traffic.sent / traffic.most,
        max(traffic.cell - 1, 1.0),
        notes=traffic.times_mean(traffic.sent),
        round=1.0,
        colour=COLOUR["edge"],
        names=traffic.names,
        glide=True,
    )


def mean_height(traffic: Traffic) -> float:
    """Return the height in the picture of the mean of the bars above the map [px]."""
    return _MAP_TOP - _BARS_GAP - _LONGEST_BAR * traffic.mean / traffic.most


def mean_layer(traffic: Traffic) -> Layer:
    """Return a dotted line at the mean of the bars above the map."""
    y = mean_height(traffic)
    path = np.array([[_MAP_LEFT - 6, y], [_MAP_RIGHT + 6, y]])
    return lines([path], width=1.2, colour=COLOUR["ink"], dash=2.0)


def traffic_words(traffic: Traffic) -> dict[str, Layer]:
    """Return the words around the map: names of the ranks, and what bars and colours show."""
    apart = 1 if traffic.ranks <= _NAMED_RANKS else -(-traffic.ranks // _FEWER_NAMES)
    named = np.arange(0, traffic.ranks, apart)
    middle = traffic.places[named] + traffic.cell / 2
    rows = [traffic.names[0], *(f"{rank}" for rank in named[1:])]
    columns = [f"{rank}" for rank in named]
    top = int(traffic.received.argmax())
    height = _LONGEST_BAR * traffic.received[top] / traffic.most
    fullest_x = _MAP_LEFT + traffic.places[top] + traffic.cell / 2
    half = 3.6 * len(traffic.names[top])
    fullest_x = float(np.clip(fullest_x, _MAP_LEFT + half, _MAP_RIGHT - half))
    below = _MAP_BOTTOM + 10
    steps = scale(_MAP_BOTTOM + 40, left=74.0, named=False)
    # A cell that carries nothing is empty; a hairline stands for links.
    steps["idle"] = boxes(
        82.0,
        _MAP_BOTTOM + 40,
        12.0,
        12.0,
        round=1.0,
        colour=COLOUR["sunk"],
        edge=COLOUR["hair"],
    )
    return {
        "senders": texts(_MAP_LEFT - 6, _MAP_TOP + middle, rows, align=2.0, size=11.0),
        "receivers": texts(_MAP_LEFT + middle, below, columns, align=1.0, size=11.0),
        "fullest": texts(
            fullest_x,
            _MAP_TOP - _BARS_GAP - height - 8,
            [traffic.names[top]],
            align=1.0,
            bold=1.0,
            halo=1.0,
        ),
        "words": texts_at(
            (_MAP_LEFT - 10, mean_height(traffic), text("live.traffic.mean"), 2),
            (_MAP_RIGHT + 10, _MAP_TOP - 2 * _BARS_GAP, text("live.traffic.in"), 0),
            (_MAP_LEFT - 38, _MAP_TOP + _MAP_SIDE / 2, text("live.traffic.from"), 2),
            (_MAP_LEFT - 14, below, text("live.traffic.to"), 2),
            (_MAP_RIGHT + 14, below, text("live.traffic.out"), 0),
            (46.0, _MAP_BOTTOM + 30, text("live.traffic.scale"), 0),
        ),
        **steps,
    }


def sorted_panel(traffic: Traffic) -> Scene:
    """Return what each rank receives in multiples of the mean, from the fullest rank to the emptiest."""
    order = np.argsort(-traffic.received, kind="stable")
    times = traffic.received[order] / traffic.mean
    _, most = common_ends("received", 0.0, max(float(times[0]), 1.0))
    ticks = np.asarray(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(0.0, most))
    bottom = _MAP_BOTTOM
    to_y = log_axis(0.0, float(ticks[-1]), bottom, _SORTED_TOP)
    wide = (_SORTED_RIGHT - _SORTED_LEFT) / traffic.ranks
    gap = min(2.0, wide / 4)
    left = _SORTED_LEFT + wide * np.arange(traffic.ranks)
    grid = tick_layers(
        ticks, to_y, lambda value: f"{value:g}", (_SORTED_LEFT, _SORTED_RIGHT), False
    )
    mean = float(to_y(1.0))
    words = text("live.traffic.top", name=traffic.names[order[0]], times=float(times[0]))
    tops = to_y(times)
    # Beside the highest bar, if that stands out; a number of the axis may be left of its top.
    stands_out = float(tops[:2].max()) - float(tops[0]) > _BESIDE_TOP
    name_x = _SORTED_LEFT + (wide + 8 if stands_out else 0.0)
    name_y = float(tops[0]) + (8 if stands_out else -10)
    return Scene(
        "",
        layers={
            "title": heading(16.0, text("live.traffic.panel"), 14.0),
            **grid,
            "ordered": boxes(
                left,
                to_y(times),
                wide - gap,
                bottom - to_y(times),
                round=1.0,
                colour=np.where(left == left[0], COLOUR["ink"], COLOUR["hair"]),
                ghost=traffic.ranks <= _NAMED_RANKS,
                glide=True,
            ),
            "mean": lines(
                [np.array([[_SORTED_LEFT, mean], [_SORTED_RIGHT, mean]])], width=1.2, dash=2.0
            ),
            "mean name": texts(
                _SORTED_RIGHT, mean - 9, [text("live.traffic.mean")], align=2.0, halo=1.0
            ),
            "fullest": texts(name_x, name_y, [words], bold=1.0, halo=1.0),
            "axis": texts(
                _SORTED_RIGHT,
                bottom + 12,
                [text("live.traffic.ordered")],
                align=2.0,
                colour=COLOUR["soft"],
            ),
        },
        height=_MAP_HEIGHT,
        width=_SORTED_WIDTH,
    )


# Ruler ------------------------------------------------------------------------------------------


def ruler(
    measured: Mapping[str, Result | units.Quantity],
    links: Mapping[str, units.Quantity],
    *,
    rate: float | None = None,
) -> Live:
    """Show rates on a logarithmic ruler, with a link to compare them with, whose rate a slider sets.

    Parameters
    ----------
    measured, links : mapping
        As in `views.ruler`.
    rate : float, optional
        First value of the slider, 0.01..1e4; by default the middle of the ruler. [GB/s]
    """
    held: tuple[str, ...] = ()
    rates = {name: value for name, value in measured.items() if not isinstance(value, Result)}
    if len(rates) < len(measured):
        # A result is more than its rate, so the line of code has to name the variables.
        held = ("measured", "links")
    else:
        measured = rounded_rates(rates)
        links = rounded_rates(links)
    marks = rulers.marks_of(measured, links)

    # illustrative: from a slow disk to more than a server's NVLinks together
    slider = Slider(0.01, 1e4, unit="GB/s", log=True)
    middle = slider.samples()[1]
    arguments = {
        "measured": measured,
        "links": links,
        "rate": middle if rate is None else rate,
    }
    scene = partial(rate_scene, marks, slider.unit)
    return live_view("ruler", arguments, scene, {"rate": slider}, held=held)


def rounded_rates(rates: Mapping[str, units.Quantity]) -> dict[str, str]:
    """Return rates rounded as they are shown, so that a short line of code gives the same picture."""
    return {name: units.format_rate(units.rate(rate, name)) for name, rate in rates.items()}


def rate_scene(marks: list[rulers.RulerMark], unit: str, rate: float) -> Scene:
    """Return a picture of a ruler with marks and a movable ``rate``, given in ``unit``."""
    return rulers.ruler_scene(marks, units.rate(f"{rate} {unit}"))
