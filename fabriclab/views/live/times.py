"""Live timelines: scrub through a run, or let several race."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Fabric, Flows, Routes, Timeline
from fabriclab.texts import text
from fabriclab.views import timelines
from fabriclab.views.live.controls import Slider
from fabriclab.views.live.scene import COLOUR, Layer, Scene, lines
from fabriclab.views.live.widget import Live
from fabriclab.views.page import Ints
from fabriclab.views.tables import Table

_FILL: Final = ("predicted", "tint", "other2", "other3", "grey")


def timeline(
    timeline: Timeline, flows: Flows, fabric: Fabric | None = None, *, routes: Routes | None = None, at: float = 0.0
) -> Live:
    """Show flows as bars, one lane per sender, or per link where routes are given, and scrub through the time.

    Parameters
    ----------
    timeline, flows, fabric, routes
        As in `views.timeline`.
    at : float
        Time of the line that the slider moves, in per cent of the time of the run.
    """

    def scene(at: float) -> Scene:
        return timeline_scene(timeline, flows, fabric, routes, at)

    control = Slider(0, 100, 1, label=text("live.time.at"), unit="%", play=True)
    call = "fl.live.timeline(run.timeline, run.flows, run.fabric" + (", routes=run.routes" if routes else "")
    return Live(call, scene, {"at": control}, {"at": at}, text("live.time.title"))


def timeline_scene(
    t: Timeline, flows: Flows, fabric: Fabric | None = None, routes: Routes | None = None, at: float = 0.0
) -> Scene:
    """Return one picture of a timeline; see `timeline`."""
    if not flows.n_flows or t.end <= 0:
        return Scene(text("live.time.empty", n=flows.n_flows, end=units.format_time(t.end)), wrong=True)
    flow, lane, names, total = timelines.shown_lanes(t, flows, fabric, routes)
    places, times = timelines.axis_of(t)
    x0, x1, row = 140.0, 690.0, 22.0
    begin, end = (np.interp(v[flow], times, places) / places[-1] for v in (t.start, t.finish))
    left, right = x0 + (x1 - x0) * begin, x0 + (x1 - x0) * end
    slot, slots = timelines.slots_of(lane, left, right)
    high = 0.78 * row / slots[lane]
    y = 8 + row * lane + 0.11 * row + slot * high
    label = np.minimum(flows.label[flow], len(_FILL) - 1)
    time = at / 100 * t.end
    busy = _busy(t, flows, flow, time)
    bottom = 8 + row * len(names)
    what = [f"{names[k]}, {flows.labels[flows.label[i]]}" for k, i in zip(lane, flow, strict=True)]
    spans = [[units.format_time(float(v[i])) for v in (t.start, t.finish)] for i in flow]
    sizes = [units.format_size(float(size)) for size in flows.size[flow]]
    notes = [text("live.time.bar", size=s, start=a, end=b) for s, (a, b) in zip(sizes, spans, strict=True)]
    line = x0 + (x1 - x0) * float(np.interp(time, times, places)) / places[-1]
    texts = {"x": np.array([x0, line, x1]), "y": np.full(3, bottom + 14.0), "align": np.array([0, 1, 2])}
    ends = ["0 s", units.format_time(time) if 0.12 < (line - x0) / (x1 - x0) < 0.85 else "", units.format_time(t.end)]
    rest = np.flatnonzero(np.diff(places)[1::2])  # groups whose further repetitions share one span
    a, b = (x0 + (x1 - x0) * places[2 * rest + k] / places[-1] for k in (1, 2))
    span = {"x": a, "y": np.full(rest.size, 4.0), "w": b - a, "h": np.full(rest.size, bottom - 4.0), "round": 0.0}
    layers = {
        "repeats": Layer("boxes", {**span, "colour": COLOUR["grey"], "alpha": 0.2,
                                   "texts": [f"x {t.repeat[g]:,}" for g in rest], "ink": COLOUR["ink"]}),
        "bars": Layer("boxes", {"x": left, "y": y, "w": np.maximum(right - left, 1.0), "h": high, "round": 1.0,
                                "colour": np.array([COLOUR[_FILL[i]] for i in label]), "hatch": np.minimum(label, 3),
                                "edge": np.where(busy, -1.0, 0.0), "alpha": np.where(busy, 1.0, 0.55),
                                "names": what, "notes": notes}),
        "lanes": Layer("texts", {"x": np.full(len(names), x0 - 8), "y": 8 + row * (np.arange(len(names)) + 0.5),
                                 "texts": list(names), "align": 2.0}),
        "now": lines([np.array([[line, 4.0], [line, bottom + 4]])], width=2.0),
        "ends": Layer("texts", {**texts, "texts": ends}),
    }  # fmt: skip
    kinds = [
        f"{n} {flows.labels[i]}" for i, n in zip(*np.unique(flows.label[flow[busy]], return_counts=True), strict=True)
    ]
    clock = {"now": units.format_time(time), "end": units.format_time(t.end)}
    said = text("live.time.said", **clock, busy=int(busy.sum()), n=flow.size) + f" {', '.join(kinds)}".rstrip()
    table = timelines.table_of(t, flows, flow, lane, names)
    alt = text("live.time.alt", n=f"{flows.n_flows:,}", lanes=f"{total:,}") + " " + said
    return Scene(said, table, layers, bottom + 26, alt)


def _busy(t: Timeline, flows: Flows, flow: Ints, time: float) -> NDArray[np.bool_]:
    """Return which flows move bytes at a time, in whichever repetition of their group that is."""
    begun, period = t.group_start[flows.group[flow]], t.period[flows.group[flow]]
    inside = (begun <= time) & (time < begun + period * t.repeat[flows.group[flow]])
    since = np.mod(time - begun, np.where(period > 0, period, np.inf))
    return inside & (t.start[flow] - begun <= since) & (since < t.finish[flow] - begun)


def race(runs: Mapping[str, Any], *, seconds: float | None = None) -> Live:
    """Let simulations race: show how far each is after the time that a logarithmic slider sets.

    Parameters
    ----------
    runs : mapping of label to simulation
        As `fabriclab.simulate` returns them.
    seconds : float, optional
        Time to show; that of the fastest unless given. [s]
    """
    if not runs or min(run.time for run in runs.values()) <= 0:
        msg = f"runs must be simulations that take time, by name, got {dict(runs)!r:.80}"
        raise ValueError(msg)
    times = [float(run.time) for run in runs.values()]
    control = Slider(min(times) / 100, max(times), label=text("live.race.time"), unit="s", log=True, play=True)

    def scene(seconds: float) -> Scene:
        return race_scene(runs, seconds)

    start = min(times) if seconds is None else seconds
    names = {k: re.sub(r"\W+", "_", k) for k in runs}  # as variables that hold the runs
    call = f"fl.live.race({{{', '.join(f'{k!r}: {v}' for k, v in names.items())}}}"
    return Live(call, scene, {"seconds": control}, {"seconds": start}, text("live.race.title"))


def race_scene(runs: Mapping[str, Any], seconds: float) -> Scene:
    """Return how far each run is after some time, by the steps that it has ended [s]; see `race`."""
    parts, steps, state, ends = [], [], [], []
    for run in runs.values():
        t = run.timeline
        done = np.clip((seconds - t.group_start) / np.where(t.period > 0, t.period, np.inf), 0, t.repeat)
        over, total = seconds >= t.end, int(t.repeat.sum())
        parts.append(1.0 if over else float(done.sum()) / total)
        steps.append(f"{total if over else int(done.sum() + 1e-9):,} / {total:,}")
        state.append(text("live.race.done", time=units.format_time(t.end)) if over else f"{parts[-1]:.1%}")
        ends.append(t.end)
    n, x0, wide, row = len(parts), 150.0, 420.0, 34.0
    y = 8 + row * np.arange(n)
    box = {"x": np.full(n, x0), "y": y, "h": np.full(n, row - 10)}
    middle, notes = y + (row - 10) / 2, [", ".join(words) for words in zip(state, steps, strict=True)]
    layers = {
        "way": Layer("boxes", {**box, "w": np.full(n, wide), "colour": COLOUR["none"], "edge": COLOUR["grey"]}),
        "bars": Layer("boxes", {**box, "w": np.maximum(wide * np.array(parts), 1.0), "colour": COLOUR["predicted"],
                                "names": list(runs), "notes": notes}),
        "names": Layer("texts", {"x": np.full(n, x0 - 8), "y": middle, "texts": list(runs), "align": 2.0}),
        "state": Layer("texts", {"x": np.full(n, x0 + wide + 8), "y": middle, "texts": state}),
    }  # fmt: skip
    table = Table({"run": list(runs), "part [%]": 100 * np.array(parts), "steps ended": steps, "end [s]": ends})
    words = ", ".join(f"{name} {how}" for name, how in zip(runs, state, strict=True))
    said = text("live.race.said", time=units.format_time(seconds), list=words)
    return Scene(said, table, layers, float(y[-1]) + row, said)
