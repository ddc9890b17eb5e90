"""Timeline: flows as bars over time, one lane per sender; repetitions are drawn once."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from fabriclab import units
from fabriclab.core import Fabric, Flags, Floats, Flows, Ints, Timeline
from fabriclab.texts import text
from fabriclab.views.page import Axes, Picture, Table
from fabriclab.views.rulers import fitted
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    lines,
    printed,
    texts,
    texts_at,
    tick_layers,
)

_MOST, _MOST_BARS = 16, 4096  # lanes, and bars that a browser still redraws in time
_REST = 0.13  # room for all further repetitions, as a part of all first ones together
_TOP, _LEFT, _RIGHT, _ROW = 24.0, 140.0, 668.0, 22.0  # [px]
Namer = Callable[[int], str]
FILLS = ("predicted", "tint", "other2", "other3", "grey")  # and a hatch for each kind of flow


def timeline(
    timeline: Timeline,
    flows: Flows,
    fabric: Fabric | None = None,
    *,
    ax: Axes | None = None,
    finding: str | None = None,
) -> Picture:
    """Draw when each flow sends, one lane per source.

    Of a repeated group the first repetition is drawn, then how many follow. At most 16 lanes are drawn: those that
    end last.

    Parameters
    ----------
    timeline, flows : Timeline, Flows
        What an engine found, and for which flows.
    fabric : Fabric, optional
        Gives the lanes their names.
    ax, finding : optional
        Where to draw, and the sentence above the picture.

    Raises
    ------
    ValueError
        If there is no flow, or timeline and flows are not of one run.
    """
    name = None if fabric is None else fabric.name
    return printed(timeline_scene(timeline, flows, name), ax=ax, finding=finding)


def timeline_scene(
    t: Timeline, flows: Flows, name: Namer | None = None, at: float | None = None
) -> Scene:
    """Return one picture of a timeline, with a line after ``at`` per cent of its time if that is given.

    ``name`` gives the lane of a source its name, such as that of its node in a fabric.
    """
    if t.start.size != flows.n_flows or t.repeat.size != flows.repeat.size:
        raise ValueError(f"timeline and flows must be of one run, got {t!r} and {flows!r}")
    if not flows.n_flows or t.end <= 0:
        return Scene(text("timeline.empty", n=flows.n_flows, end=t.end), wrong=True)
    flow, lane, names, total = _lanes(t, flows, name)
    cut = text("timeline.lanes", n=len(names), all=total) if len(names) < total else ""
    if flow.size > _MOST_BARS:
        cut = text("timeline.bars", n=_MOST_BARS, all=flow.size)
        late = np.sort(np.argsort(-t.finish[flow], kind="stable")[:_MOST_BARS])
        flow, lane = flow[late], lane[late]
    places, times = axis_of(t)

    def across(time: Any) -> Floats:
        return np.asarray(_LEFT + (_RIGHT - _LEFT) * np.interp(time, times, places) / places[-1])

    time = t.end if at is None else at / 100 * t.end
    busy = np.ones(flow.size, dtype=bool) if at is None else _busy(t, flows, flow, time)
    bottom = _TOP + _ROW * len(names)
    row = _TOP + _ROW * (np.arange(len(names)) + 0.5)
    layers = {
        **_axis(t, places, times, bottom),
        **_legend(flows, np.unique(flows.label[flow])),
        "bars": _bars(t, flows, flow, lane, names, busy, across),
        "lanes": texts(_LEFT - 8, row, names, align=2.0),
    }
    words = [text("timeline.flows", n=flows.n_flows, lanes=total, end=t.end)]
    repeated = np.flatnonzero(t.repeat[:8] > 1)
    words += [text("timeline.group", g=g, time=t.period[g], n=t.repeat[g]) for g in repeated]
    table = Table(
        {
            "lane": [names[i] for i in lane],
            "what": [flows.labels[i] for i in flows.label[flow]],
            "size [B]": flows.size[flow],
            "start [s]": t.start[flow],
            "finish [s]": t.finish[flow],
            "times": flows.repeat[flows.group[flow]],
        }
    )
    if at is None:
        return Scene(words[0], table, layers, bottom + 40, "; ".join(words), caption=cut)
    line = float(across(time))
    layers["now"] = lines([np.array([[line, _TOP - 4], [line, bottom + 4]])], width=2.0)
    kinds = zip(*np.unique(flows.label[flow[busy]], return_counts=True), strict=True)
    said = text("timeline.said", now=time, end=t.end, busy=int(busy.sum()), n=flow.size)
    said += f" {', '.join(f'{n} {flows.labels[i]}' for i, n in kinds)}." if busy.any() else ""
    return Scene(
        f"{said} {cut}".rstrip(), table, layers, bottom + 40, f"{said} " + "; ".join(words)
    )


def _axis(t: Timeline, places: Floats, times: Floats, bottom: float) -> dict[str, Layer]:
    """Return ticks, the title, and grey spans in which all further repetitions of a group lie."""
    unit = (_RIGHT - _LEFT) / places[-1]
    rest = np.flatnonzero(np.diff(places)[1::2])
    far = places[:1]
    for place in places:
        far = np.append(far, place) if place - far[-1] > 0.09 * places[-1] else far
    marks = far if rest.size else np.asarray(MaxNLocator(6).tick_values(0, float(places[-1])))
    a, b = (_LEFT + unit * places[2 * rest + k] for k in (1, 2))
    shown = marks[(marks >= 0) & (marks <= places[-1])]
    ticks = tick_layers(
        shown,
        lambda p: _LEFT + unit * np.asarray(p),
        lambda p: units.format_time(float(np.interp(p, places, times))),
        (_TOP - 4, bottom),
        True,
    )
    return {
        **ticks,
        "axis": texts_at((_RIGHT, bottom + 29, text("sweep.axis_time"), 2)),
        "repeats": boxes(
            a,
            _TOP - 4,
            b - a,
            bottom + 4 - _TOP,
            round=0.0,
            colour=COLOUR["grey"],
            alpha=0.2,
            texts=[f"x {t.repeat[g]:,}" for g in rest],
            ink=COLOUR["ink"],
        ),
    }


def _bars(
    t: Timeline,
    flows: Flows,
    flow: Ints,
    lane: Ints,
    names: list[str],
    busy: Flags,
    across: Callable[[Any], Floats],
) -> Layer:
    """Return a bar for each flow; those of a lane that overlap share its height."""
    left, right = across(t.start[flow]), across(t.finish[flow])
    slot, slots = slots_of(lane, left, right)
    high = 0.78 * _ROW / slots[lane]
    roomy = (high > 4) & (right - left > 6)  # edges and strokes would make thin bars black
    label = np.minimum(flows.label[flow], len(FILLS) - 1)
    # computations have none
    sizes = [units.format_size(float(size)) if size else "" for size in flows.size[flow]]
    whose = [f"{names[k]}, {flows.labels[flows.label[i]]}" for k, i in zip(lane, flow, strict=True)]
    notes = [
        text("timeline.bar", size=size, start=t.start[i], end=t.finish[i]).strip()
        for size, i in zip(sizes, flow, strict=True)
    ]
    return boxes(
        left,
        _TOP + _ROW * (lane + 0.11) + slot * high,
        np.maximum(right - left, 1.0),
        high,
        round=1.0,
        colour=np.array([COLOUR[FILLS[i]] for i in label]),
        alpha=np.where(busy, 1.0, 0.55),
        hatch=label * roomy,
        edge=np.where(busy & roomy, -1.0, 0.0),
        names=whose,
        notes=notes,
    )


def idle_of(bars: Layer, rows: Any) -> Layer:
    """Return grey bars behind lanes, whose upper ends are ``rows``, from the first bar to the last."""
    b = bars.fields
    left, right = np.min(b["x"]), np.max(b["x"] + b["w"])
    return boxes(
        left, rows, right - left, np.max(b["h"]), round=0.0, colour=COLOUR["grey"], alpha=0.5
    )


def _legend(flows: Flows, shown: Ints) -> dict[str, Layer]:
    """Return a sample with a name for each kind of flow, where there are several."""
    last = len(FILLS) - 1  # all further kinds look alike
    names = [flows.labels[i] for i in shown[shown < last]] if len(flows.labels) > 1 else []
    if (more := shown[shown >= last]).size and names:
        names.append(flows.labels[more[0]] if more.size == 1 else text("sweep.others", n=more.size))
    shown = np.unique(np.minimum(shown, last))
    names = [fitted(name, 680 / len(names) - 38) for name in names]
    x = 8 + np.cumsum([0, *(38 + 7.5 * len(name) for name in names)])[: len(names)]
    key, hatch = np.array([COLOUR[FILLS[i]] for i in shown[: len(names)]]), shown[: len(names)]
    kinds = boxes(x, 2.0, 18.0, 12.0, colour=key, hatch=hatch, edge=-1.0)
    return {"kinds": kinds, "kind names": texts(x + 24, 8.0, names)}


def _busy(t: Timeline, flows: Flows, flow: Ints, time: float) -> Flags:
    """Return which flows move bytes at a time, in whichever repetition of their group that is."""
    begun, period = t.group_start[flows.group[flow]], t.period[flows.group[flow]]
    inside = (begun <= time) & (time < begun + period * t.repeat[flows.group[flow]])
    since = np.mod(time - begun, np.where(period > 0, period, np.inf))
    return inside & (t.start[flow] - begun <= since) & (since < t.finish[flow] - begun)


def _lanes(t: Timeline, flows: Flows, name: Namer | None) -> tuple[Ints, Ints, list[str], int]:
    """Return flow and lane of each bar, the names of the lanes that are drawn, and how many there are in all."""
    used, lane = np.unique(flows.source, return_inverse=True)
    last = np.zeros(used.size)
    np.maximum.at(last, lane, t.finish)
    shown = np.sort(np.argsort(-last, kind="stable")[:_MOST])
    flow = np.flatnonzero(np.isin(lane, shown))
    names = [(name or "node {}".format)(int(i)) for i in used[shown]]
    return flow, np.searchsorted(shown, lane[flow]), names, used.size


def slots_of(lane: Ints, left: Floats, right: Floats) -> tuple[Ints, Ints]:
    """Return the slot of each bar within its lane, and the number of slots of each lane."""
    slot, ends = (
        np.zeros(lane.size, dtype=np.int64),
        np.full((int(lane.max()) + 1, lane.size), -np.inf),
    )
    for i in np.lexsort((right, left)):
        # the first that has ended, or was never used
        slot[i] = np.argmax(ends[lane[i]] <= left[i] + 1e-12)
        ends[lane[i], slot[i]] = right[i]
    return slot, np.count_nonzero(np.isfinite(ends), axis=1)


def axis_of(t: Timeline) -> tuple[Floats, Floats]:
    """Return places on the axis and the times there: further repetitions of a group share one span."""
    rest = np.where((t.repeat > 1) & (t.period > 0), _REST * t.period.sum(), 0.0)
    at = np.append(0.0, np.cumsum(np.stack([t.period, rest], axis=1)))
    return at, np.append(np.stack([t.group_start, t.group_start + t.period], axis=1), t.end)
