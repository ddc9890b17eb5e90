"""Timeline: flows as bars over time, one lane per sender or per link; repetitions are drawn once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.ticker import MaxNLocator

from fabriclab import units
from fabriclab.core import Fabric, Flows, Routes, Timeline
from fabriclab.core._arrays import rows_of
from fabriclab.views.page import Floats, Ints, Picture, canvas, finish, styled, ticks
from fabriclab.views.palette import FILLS, GREY, INK
from fabriclab.views.tables import Table

_MOST: Final = 16
_REST: Final = 0.13  # room for all further repetitions, as a part of all first ones together


@styled
def timeline(
    timeline: Timeline, flows: Flows, fabric: Fabric | None = None, *, routes: Routes | None = None,
    ax: Axes | None = None, finding: str | None = None,
) -> Picture:  # fmt: skip
    """Draw when each flow sends, one lane per source, or per link where routes are given.

    Of a repeated group the first repetition is drawn, then how many follow. At most 16 lanes are drawn: those that
    end last.

    Parameters
    ----------
    timeline, flows : Timeline, Flows
        What an engine found, and for which flows.
    fabric, routes : Fabric, Routes, optional
        The fabric gives the lanes their names; with routes too a lane is a link.
    ax, finding : optional
        Where to draw, and the sentence above the picture.

    Raises
    ------
    ValueError
        If there is no flow, or timeline and flows are not of one run.
    """
    if timeline.start.size != flows.n_flows or timeline.repeat.size != flows.repeat.size or not flows.n_flows:
        msg = f"timeline and flows must be of one run with at least one flow, got {timeline!r} and {flows!r}"
        raise ValueError(msg)
    flow, lane, names, total = shown_lanes(timeline, flows, fabric, routes)
    own, ax = ax is None, canvas(ax, 1.3 + 0.27 * len(names))
    place = _axis(ax, timeline)
    _bars(ax, flows, flow, lane, place(timeline.start[flow]), place(timeline.finish[flow]))
    ax.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.45, -0.55))
    table = table_of(timeline, flows, flow, lane, names)
    lanes = f"{total:,} {'links' if routes else 'senders'}"
    said = [f"{flows.n_flows:,} flows of {lanes} end after {units.format_time(timeline.end)}"]
    for g in np.flatnonzero(timeline.repeat[:8] > 1):
        said.append(f"group {g} takes {units.format_time(timeline.period[g])}, {timeline.repeat[g]:,} times")
    caption = f"Drawn are the {len(names)} of {total:,} lanes that end last." if len(names) < total else ""
    return finish(ax, own, finding, said, table, caption)


def shown_lanes(
    t: Timeline, flows: Flows, fabric: Fabric | None, routes: Routes | None
) -> tuple[Ints, Ints, list[str], int]:
    """Return flow and lane of each bar, the names of the lanes that are drawn, and how many there are in all."""
    flow, lane, names = _lanes(flows, fabric, routes)
    last = np.zeros(len(names))
    np.maximum.at(last, lane, t.finish[flow])
    shown = np.sort(np.argsort(-last, kind="stable")[:_MOST])
    keep = np.isin(lane, shown)
    return flow[keep], np.searchsorted(shown, lane[keep]), [names[i] for i in shown], len(names)


def table_of(t: Timeline, flows: Flows, flow: Ints, lane: Ints, names: list[str]) -> Table:
    """Return the numbers of the bars."""
    return Table({
        "lane": [names[i] for i in lane], "what": [flows.labels[i] for i in flows.label[flow]],
        "size [B]": flows.size[flow], "start [s]": t.start[flow], "finish [s]": t.finish[flow],
        "times": flows.repeat[flows.group[flow]],
    })  # fmt: skip


def _lanes(flows: Flows, fabric: Fabric | None, routes: Routes | None) -> tuple[Ints, Ints, list[str]]:
    """Return flow and lane of each bar, and the names of all lanes."""
    if routes is not None and fabric is not None:
        used, lane = np.unique(routes.link, return_inverse=True)
        return routes.flow[rows_of(routes.ptr)].astype(np.int64), lane, [fabric.link_name(int(i)) for i in used]
    used, lane = np.unique(flows.source, return_inverse=True)
    names = [f"node {i}" if fabric is None else fabric.name(int(i)) for i in used]
    return np.arange(flows.n_flows), lane, names


def _bars(ax: Axes, flows: Flows, flow: Ints, lane: Ints, left: Floats, right: Floats) -> None:
    """Draw the bars; flows of a lane that overlap share its height."""
    slot, slots = slots_of(lane, left, right)
    height = 0.78 / slots[lane]
    low = lane - 0.39 + slot * height
    corners = np.stack([left, low, left, low + height, right, low + height, right, low], axis=1).reshape(-1, 4, 2)
    thin = 0.5 if flow.size < 400 else 0.1
    for i in np.unique(flows.label[flow]):
        colour, hatch = FILLS[min(i, len(FILLS) - 1)]
        bars = PolyCollection(list(corners[flows.label[flow] == i]), facecolors=colour, edgecolors=INK, hatch=hatch,
                              label=flows.labels[i], linewidths=thin)  # fmt: skip
        ax.add_collection(bars)
    if len(flows.labels) > 1:
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=5)


def slots_of(lane: Ints, left: Floats, right: Floats) -> tuple[Ints, Ints]:
    """Return the slot of each bar within its lane, and the number of slots of each lane."""
    slot, slots = np.zeros(lane.size, dtype=np.int64), np.ones(int(lane.max()) + 1, dtype=np.int64)
    free: list[list[float]] = [[] for _ in slots]
    for i in np.lexsort((right, left)):
        ends = free[lane[i]]
        fit = next((s for s, end in enumerate(ends) if end <= left[i] + 1e-12), len(ends))
        ends[fit : fit + 1] = [right[i]]
        slot[i], slots[lane[i]] = fit, len(ends)
    return slot, slots


def axis_of(t: Timeline) -> tuple[Floats, Floats]:
    """Return places on the axis and the times there: further repetitions of a group share one span."""
    rest = np.where((t.repeat > 1) & (t.period > 0), _REST * t.period.sum(), 0.0)
    at = np.append(0.0, np.cumsum(np.stack([t.period, rest], axis=1)))
    return at, np.append(np.stack([t.group_start, t.group_start + t.period], axis=1), t.end)


def _axis(ax: Axes, t: Timeline) -> Callable[[Floats], Floats]:
    """Set the axis and return where a time stands."""
    at, edge = axis_of(t)
    rest = np.diff(at)[1::2]
    for g in np.flatnonzero(rest):
        left, right = at[2 * g + 1 : 2 * g + 3]
        ax.axvspan(left, right, fc=GREY, alpha=0.15, lw=0)
        ax.annotate(f"x {t.repeat[g]:,}", ((left + right) / 2, 0.5), xycoords=("data", "axes fraction"),
                    ha="center", va="center", fontsize=10)  # fmt: skip
    ax.set_xlim(0, at[-1] * 1.01)
    far = at[np.diff(at, prepend=-at[-1]) > 0.07 * at[-1]]
    places = far if rest.any() else MaxNLocator(6).tick_values(0, at[-1])
    ticks(ax.xaxis, places, lambda place: units.format_time(float(np.interp(place, at, edge))))
    ax.grid(axis="x")
    ax.set_xlabel("time [s]", loc="right")
    ax.tick_params(axis="y", length=0)
    return lambda time: np.interp(time, edge, at)
