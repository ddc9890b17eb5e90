"""Fabric view: endpoints at the bottom, switches above; a large fabric is drawn as blocks with their members.

A floor is another view: every endpoint is one cell, in the column of its server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import Fabric, Floats, Timeline
from fabriclab.texts import text
from fabriclab.views import layout
from fabriclab.views.layout import Lines, Marks, counted
from fabriclab.views.maps import crosses, is_direct, map_scene, scale
from fabriclab.views.page import Axes, Picture, Table, plain
from fabriclab.views.scene import (
    COLOUR,
    WIDTH,
    Layer,
    Scene,
    boxes,
    coloured,
    ink_on,
    key,
    lines,
    printed,
    texts_at,
)

MOST_NODES = 200
MOST_BOXES = 4096  # that a browser still redraws in time
_LEFT, _RIGHT, _ROW, _HALF = 176.0, 96.0, 70.0, 12.0
_SHORT = 11  # letters of a line that fit at the right


def fabric(
    fabric: Fabric,
    *,
    load: Timeline | ArrayLike | None = None,
    ax: Axes | None = None,
    finding: str | None = None,
) -> Picture:
    """Draw a fabric: endpoints at the bottom, their servers as rounded boxes, switches above; or, if direct, a map.

    Parallel cables are one line, as wide as their capacity asks. Above 200 nodes each tier is drawn as blocks, one per
    rail where a tier keeps rails apart. Leaves out delays and media.

    Parameters
    ----------
    fabric : Fabric
        What to draw.
    load : Timeline or array_like, shape (L,), optional
        Mean load of each link as a part of its capacity, coloured by cividis. [1], >= 0
    ax, finding : optional
        Where to draw, and the sentence above the picture.

    Raises
    ------
    ValueError
        If there is no link or no endpoint, or load does not fit.
    """
    return printed(
        fabric_scene(fabric, None if load is None else share_of(fabric, load)),
        ax=ax,
        finding=finding,
    )


def share_of(fabric: Fabric, load: Timeline | ArrayLike) -> Floats:
    """Return the load of each link as a part of its capacity, (L,), or refuse what does not fit."""
    share = np.asarray(
        load.utilisation(fabric.capacity) if isinstance(load, Timeline) else load, dtype=np.float64
    )
    if share.shape != (fabric.n_links,) or not np.all(np.isfinite(share) & (share >= 0)):
        msg = f"load must hold one finite number >= 0 for each of {fabric.n_links} links, got shape {share.shape}; "
        raise ValueError(msg + "give a Timeline of this fabric, or bytes / (capacity * time)")
    return share


def fabric_scene(
    f: Fabric,
    share: Floats | None = None,
    colour: str = "load",
    open: int | None = None,
    said: str = "",
) -> Scene:
    """Return one picture of a fabric with loads (L,); the block with the node ``open`` shows its members."""
    if not f.n_links or not f.n_ranks:
        return Scene(text("fabric.empty", links=f.n_links, ends=f.n_ranks), wrong=True)
    share = np.full(f.n_links, np.nan) if share is None else share
    if is_direct(f):
        return map_scene(f, share, colour, said)
    marks = layout.marks_of(f, f.n_nodes > MOST_NODES, open)
    if marks.row.size > MOST_BOXES:  # then the block stays closed
        marks = layout.marks_of(f, True)
        said = text("fabric.many", n=np.sum(marks.of_node == marks.of_node[open]), most=MOST_BOXES)
        open = None
    cables = layout.lines_of(f, marks, share)
    # Room below the lowest row: names of servers or rails, and the arcs of cables within a row.
    foot = 0.32 + 0.36 * (marks.server.max() >= 0) + layout.arc_room(marks, cables)
    low, high = marks.row.min() - foot, marks.row.max() + 0.5
    left, right = (
        float((marks.x - marks.width / 2).min() - 0.3),
        float((marks.x + marks.width / 2).max() + 0.3),
    )
    unit = (WIDTH - _LEFT - _RIGHT) / (right - left)

    def across(x: Any) -> Floats:
        return np.asarray(_LEFT + (np.asarray(x) - left) * unit)

    def down(y: Any) -> Floats:
        return np.asarray((high - np.asarray(y)) * _ROW)

    paths = [
        np.stack([across(p[:, 0]), down(p[:, 1])], axis=1) for p in layout.paths_of(marks, cables)
    ]
    order = np.argsort(np.nan_to_num(cables.load), kind="stable")  # what is full lies on top
    cables, paths = Lines._make(column[order] for column in cables), [paths[i] for i in order]
    width = (
        1.5
        * np.clip(
            cables.total / max(cables.total[cables.total > 0].min(initial=np.inf), 1.0), 1.0, 40.0
        )
        ** 0.4
    )
    # A line is never wider than its box: an open block has narrow ones.
    width = np.minimum(
        width,
        np.maximum(0.9 * unit * np.minimum(marks.width[cables.a], marks.width[cables.b]), 1.0),
    )
    place = marks.row if colour == "tier" else marks.rail
    upper = (
        marks.row[cables.b]
        if colour == "tier"
        else np.maximum(marks.rail[cables.a], marks.rail[cables.b])
    )
    # A line is pale if it is dead or, where the colour is not the load, idle.
    dead = cables.failed == cables.cables
    idle = 0.0 if colour == "load" else 1 - np.clip(np.nan_to_num(cables.load, nan=1.0), 0, 1)
    x0, x1 = across(marks.x - marks.width / 2), across(marks.x + marks.width / 2)
    keys = np.where(f.transit[marks.first], COLOUR["switch"], COLOUR["host"])
    keys = coloured(place, keys) if colour in ("tier", "rail") else keys
    layers = {
        "servers": _servers(marks, foot, across, down),
        "places": _server_names(f, marks, low, across, down),
        "case": lines(
            paths, width=width + 2.5, colour=COLOUR["grey"], alpha=0.6 * (colour == "load")
        ),
        "cables": lines(
            paths,
            width=width,
            colour=layout.colours_of(colour, cables.load, cables.failed, upper),
            **layout.readable(marks, cables),
            alpha=np.where(dead, 0.35, 1 - 0.75 * idle),
            dash=2 * dead,
        ),
        "nodes": boxes(
            x0,
            down(marks.row) - _HALF,
            np.maximum(x1 - x0, 1.5),
            2 * _HALF,
            colour=keys,
            ink=ink_on(keys),
            texts=_fitting(marks, x1 - x0),
            names=list(marks.names),
            pick="open" if marks.folded else None,
            picks=_picks(marks, open),
        ),
        **_crosses(paths, cables),
        "margins": _margins(f, marks, cables, down),
    }
    if colour != "load":
        rails = [str(r) for r in range(1 + int(marks.rail.max()))] if colour == "rail" else []
        layers |= key(float(down(low)) + 14, text(f"fabric.key_{colour}"), rails)
    elif np.isfinite(share).all():
        layers |= scale(float(down(low)) + 14)
    words = layout.told(colour, cables.load, place, cables.failed.sum(), f.n_cables)
    height = float(down(low)) + (34 if "scale" in layers else 6)
    return layout.worded(f, marks, cables, share, layers, height, said, words)


def _fitting(m: Marks, room: Floats) -> list[str]:
    """Return the texts in the boxes: a row is named in full or not at all."""
    names = [name.split()[0 if m.folded else -1] for name in m.names]
    fits = np.array([7.0 * len(name) for name in names]) < room
    return [
        name * bool(fits[m.row == row].all() or m.folded)
        for name, row in zip(names, m.row, strict=True)
    ]


def _picks(m: Marks, open: int | None) -> list[int | None]:
    """Return what is open after a box is chosen: its block, or nothing if that one is open already."""
    size = np.bincount(m.of_node, minlength=m.first.size)
    closes = (size == 1) & (open is not None) | (not m.folded)
    return [None if close else int(i) for i, close in zip(m.first, closes, strict=True)]


def _servers(
    m: Marks, foot: float, across: Callable[..., Floats], down: Callable[..., Floats]
) -> Layer:
    """Return servers as rounded boxes and scale-up domains as tinted ones; one stack stands for many servers."""
    ends = np.array(layout.boxes_of(m, foot), dtype=np.float64).reshape(-1, 5)
    deep = np.where(ends[:, 4] > 0, 0, 2 * m.folded)
    which = np.repeat(np.arange(len(ends)), deep + 1)
    # the front one is drawn last
    back = np.concatenate([np.arange(d, -1, -1) for d in deep] or [np.zeros(0)])
    left, right, low, high, tinted = ends[which].T
    return boxes(
        across(left + 0.05 * back),
        down(high - 0.05 * back),
        across(right) - across(left),
        down(low) - down(high),
        colour=np.where(tinted > 0, COLOUR["tint"], COLOUR["none"]),
        alpha=np.where(tinted > 0, 0.3, np.where(back > 0, 0.35, 0.8)),
        round=7.0,
        edge=np.where(tinted > 0, 0, -1),
    )


def _server_names(
    f: Fabric, m: Marks, low: float, across: Callable[..., Floats], down: Callable[..., Floats]
) -> Layer:
    """Return the names below the boxes: of servers, or how many there are and which rail stands where."""
    if m.folded:
        ends = np.flatnonzero((m.server >= 0) & (m.row == 0) & (m.rail >= 0))
        x, numbers, align = across(m.x[ends]), m.rail[ends].tolist(), 1
        word, lead = "fabric.rail", text("fabric.in_server", n=int(f.summary()["servers"]))
    else:
        lefts = np.array([left for left, _, _, _, tinted in layout.boxes_of(m, 0.0) if not tinted])
        x, align = across(lefts + 0.05), 0
        numbers = [int(m.server[(m.server >= 0) & (m.x > left)][0]) for left in lefts]
        word, lead = f"fabric.{layout.holder(f)}", text("fabric.servers")
    names, room = (
        [text(word, s=n, r=n) for n in numbers],
        float(np.diff(np.sort(x)).min(initial=WIDTH)),
    )
    narrow = 8.0 * max(map(len, names), default=0) > room
    if narrow:  # then the number alone, or nothing in an open block
        names = [str(n) if room > 24 else "" for n in numbers]
    leads = [(_LEFT - 16, lead, 2)] * bool(narrow or (m.folded and m.server.max() >= 0))
    places = [*leads, *((at, name, align) for at, name in zip(x.tolist(), names, strict=True))]
    return texts_at(*((at, float(down(low)) - 7, name, side) for at, name, side in places))


def _crosses(paths: Sequence[NDArray[Any]], k: Lines) -> dict[str, Layer]:
    """Return a cross on each line with failed cables; its note says how many of them failed."""
    here = np.flatnonzero(k.failed)
    middle = np.array(
        [paths[i][len(paths[i]) // 2 - 1 :][:2].mean(axis=0) for i in here.tolist()]
    ).reshape(-1, 2)
    return crosses("failed", *middle.T)


def _margins(f: Fabric, m: Marks, k: Lines, down: Callable[..., Floats]) -> Layer:
    """Name the rows on the left and the cables between them on the right."""
    out: list[tuple[float, float, str, int]] = []
    for row in np.unique(m.row):
        here = m.row[m.of_node] == row
        radix = np.unique(f.radix[here])
        words = [counted(int(here.sum()), f.kinds[f.kind[here][0]])]
        words += [text("fabric.ports", n=radix[0])] if radix.size == 1 and radix[0] > 0 else []
        top = float(down(row)) - 8 * (len(words) - 1)
        out += [(_LEFT - 16, top + 16 * i, word, 2) for i, word in enumerate(words)]
    blocks, joined = [], np.unique([m.row[k.a], m.row[k.b]], axis=1)
    # Where cables pass a row, or join boxes of an upper one, their place does not say what they join.
    named = np.any(
        (joined[1] > joined[0] + 1) | (joined[1] == joined[0]) & (joined[0] > m.row.min())
    )
    kind = dict(zip(m.row.tolist(), f.kind[m.first].tolist(), strict=True))
    for low, high in joined.T.tolist():
        here = (m.row[k.a] == low) & (m.row[k.b] == high)
        rates = [
            plain(units.format_rate(v))
            for v in (k.slowest[here].min(), k.fastest[here].max())
            if np.isfinite(v)
        ]
        rates = list(dict.fromkeys(rates))
        each = np.unique(k.cables[here])
        rates[:-1] = [text("fabric.to", rate=rate) for rate in rates[:-1]]
        rates += [text("fabric.per_line", n=each[0])] * bool(
            each.size == 1 < min(each[0], here.sum())
        )
        ends = (
            [layout.short(f.kinds[kind[low]]) + "–", layout.short(f.kinds[kind[high]])]
            if named
            else []
        )
        words = [*_joined(ends, ""), *_joined([f"{k.cables[here].sum():,} x", *rates], " ")]
        blocks.append((high - 0.5 if low != high or low == m.row.min() else high, words))
    end = -np.inf  # of the block above, which none may touch
    for y, words in sorted(blocks, key=lambda block: -block[0]):
        top = max(float(down(y)) - 8 * len(words), end + 10)
        out += [(WIDTH - _RIGHT + 8, top + 8 + 16 * i, word, 0) for i, word in enumerate(words)]
        end = top + 16 * len(words)
    return texts_at(*out)


def _joined(words: list[str], by: str) -> list[str]:
    return [by.join(words)] if words and len(by.join(words)) <= _SHORT else words


def scene_of(
    f: Fabric,
    load: Any = None,
    colour: str = "load",
    open: int | None = None,
    said: str = "",
    layout: str = "tiers",
) -> Scene:
    """Return one picture of a fabric, in rows or as a floor; ``load`` is as in `live.fabric`."""
    if isinstance(load, tuple):
        f, load, said = (*load, said)[:3]
    run = getattr(load, "timeline", load)
    values = run.utilisation(f.capacity) if isinstance(run, Timeline) else run
    if values is not None and np.isnan(np.asarray(values, dtype=np.float64)).any():
        return Scene(text("live.fabric.nan"), wrong=True)
    share = np.full(f.n_links, np.nan) if values is None else share_of(f, values)
    if layout == "floor" and f.n_ranks > MOST_BOXES:
        layout, said = "tiers", text("fabric.no_floor", n=f.n_ranks, most=MOST_BOXES)
    if layout == "tiers" or not f.n_links or not f.n_ranks:
        return fabric_scene(f, share, colour, open, said)
    return _floor(f, share, colour, said)


def _floor(f: Fabric, share: Floats, colour: str, said: str) -> Scene:
    """Return every endpoint as a cell in the column of its server, with the fullest link that leaves it."""
    _, column = np.unique(f.server, return_inverse=True)
    order = np.lexsort((np.arange(f.n_ranks), column))
    row = np.empty(f.n_ranks, dtype=np.int64)
    row[order] = np.arange(f.n_ranks) - np.searchsorted(column[order], column[order])
    wrap = max(1, min(int(column.max()) + 1, 128))  # columns side by side; more begin a new band
    row, column = row + (column // wrap) * (int(row.max()) + 2), column % wrap
    full, dead = np.full(f.n_nodes, -1.0), np.zeros(f.n_nodes, dtype=bool)
    np.maximum.at(full, f.source, np.nan_to_num(share, nan=-1.0))
    np.logical_or.at(dead, f.source, f.capacity == 0)
    full, dead = np.where(full < 0, np.nan, full)[f.endpoint], dead[f.endpoint]
    wide, high = (WIDTH - 20.0) / wrap, min(24.0, 420.0 / (int(row.max()) + 1))
    place = f.rail if colour == "rail" else f.tier[f.endpoint]
    keys = layout.colours_of(colour, full, dead, place)
    names = [f.name(int(e)) for e in f.endpoint]
    notes = [
        text("fabric.load", percent=100 * v) if np.isfinite(v) else text("fabric.rail", r=r)
        for v, r in zip(full, f.rail, strict=True)
    ]
    bottom = 10 + high * (int(row.max()) + 1)
    layers = {
        "nodes": boxes(
            10 + wide * column,
            10 + high * row,
            max(wide - 1, 1.0),
            high - 2,
            colour=keys,
            hatch=3 * dead,
            round=1.0,
            names=names,
            notes=notes,
        )
    }
    layers |= scale(bottom + 8) if colour == "load" and np.isfinite(full).any() else {}
    table = Table(
        {
            "endpoint": names,
            "server": f.server,
            "rail": f.rail,
            "load": full,
            "failed links": 1 * dead,
        }
    )
    cut = int(dead.sum())
    words = text("live.fabric.floor", ends=f.n_ranks, servers=np.unique(f.server).size, cut=cut)
    top = int(np.argmax(np.nan_to_num(full, nan=-1)))
    words += f" {names[top]}: {notes[top]}." if np.isfinite(full).any() else ""
    colours = layout.told(colour, full, place, cut, f.n_ranks)
    return Scene(said or words, table, layers, bottom + 34, f"{words} {said} {colours}")
