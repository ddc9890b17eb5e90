"""Hall view: a large fabric with every endpoint as a cell, in the column of its server, and its switches above.

All cables of a switch to the row above are one line, and so are those to its endpoints, until a reader opens the
switch. NICs, and what else sits in a server, belong to the cell of their GPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Fabric, Flags, Floats, Ints
from fabriclab.texts import text
from fabriclab.views import layout
from fabriclab.views.layout import Lines, Marks, Placed, counted
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    coloured,
    graded,
    ink_on,
    key,
    lines,
    link_width,
    scale,
    shade,
    texts_at,
)

WIDE = 880.0  # width of a picture without a second panel [px]
_MOST_COLUMNS = 128  # servers
_MOST_ROWS = 16  # endpoints of a server
_MOST_SWITCHES = 72  # in a row
_TOP = 26.0  # middle of the highest row [px]
_TALLEST = 112.0  # height of all cells [px]
_CELL = 15.0  # greatest height of a cell [px]
_HALF = 11.0  # half the height of a switch [px]
_BETWEEN = (
    120.0,
    98.0,
    64.0,
)  # between two rows, if there are one, two or more rows of switches [px]
_LETTER = 7.2  # width of a letter [px]
_NUMBER = 8.6  # room for a digit in a box [px]
_RIGHT = 72.0  # room for the number of cables [px]


@dataclass(frozen=True, slots=True, eq=False)
class Hall:
    """What the picture of a hall needs to know about a fabric, whatever its load.

    The boxes of the picture are, in this order: each switch, each row of switches as a whole, the endpoints below
    each switch of the lowest row, and each server.
    """

    fabric: Fabric
    tiers: tuple[Ints, ...]  # switches of each row from the lowest one up, from left to right
    level: Ints  # (N,) row of each node; -1: within a server
    box: Ints  # (N,) box of each switch; -1: no switch
    column: Ints  # (R,) of each rank
    row: Ints  # (R,)
    rank: Ints  # (N,) rank to which a node in a server belongs; -1: to none, or to several
    leaf: Ints  # (R,) switch of the lowest row that the rank's cables lead to
    names: tuple[str, ...]  # (R,)

    @property
    def n_switches(self) -> int:
        """Number of switches that are drawn."""
        return sum(tier.size for tier in self.tiers)

    @property
    def n_columns(self) -> int:
        """Number of servers."""
        return int(self.column.max()) + 1

    @property
    def n_rows(self) -> int:
        """Most endpoints of a server."""
        return int(self.row.max()) + 1


# The fabric ---------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def hall_of(f: Fabric) -> Hall | None:
    """Return how to draw a fabric as a hall; none if it has too many parts, or cables that skip a row."""
    servers, column = np.unique(f.server, return_inverse=True)
    if servers.size > _MOST_COLUMNS or f.n_ranks > _MOST_COLUMNS * _MOST_ROWS:
        return None
    level = _levels(f)
    n_tiers = int(level.max()) + 1
    sizes = np.bincount(level[level >= 0], minlength=1)
    between = level[f.target] - level[f.source]
    into_server = (level[f.source] < 0) ^ (level[f.target] < 0)
    lowest_end = np.minimum(level[f.source], level[f.target])
    skips = (level[f.source] >= 0) & (level[f.target] >= 0) & (np.abs(between) != 1)
    skips |= into_server & (lowest_end + np.abs(between) > 0)
    if n_tiers < 1 or sizes.max() > _MOST_SWITCHES or skips.any():
        return None

    order = np.lexsort((np.arange(f.n_ranks), column))
    row = np.empty(f.n_ranks, dtype=np.int64)
    row[order] = np.arange(f.n_ranks) - np.searchsorted(column[order], column[order])
    if row.max() >= _MOST_ROWS:
        return None
    rank = _rank_of_node(f, level)
    leaf = _leaf_of_rank(f, level, rank)
    if np.any(leaf < 0):
        return None

    # Switches stand above the middle of what is below them, those of one place in the order of their rails.
    place = np.zeros(f.n_nodes)
    down = np.zeros(f.n_nodes)
    mean_of = np.bincount(leaf, minlength=f.n_nodes).clip(1)
    place[:] = np.bincount(leaf, column, f.n_nodes) / mean_of
    down[:] = np.bincount(leaf, row, f.n_nodes) / mean_of
    tiers = []
    for tier in range(n_tiers):
        here = np.flatnonzero(level == tier)
        if tier:
            link = (level[f.source] == tier) & (level[f.target] == tier - 1)
            n_below = np.bincount(f.source[link], minlength=f.n_nodes).clip(1)
            below = np.bincount(f.source[link], place[f.target[link]], f.n_nodes) / n_below
            place[here] = below[here]
        nodes = here[np.lexsort((here, down[here], np.round(place[here], 6)))]
        place[nodes] = (np.arange(nodes.size) + 0.5) / nodes.size * servers.size
        tiers.append(nodes)
    box = np.full(f.n_nodes, -1)
    every = np.concatenate(tiers)
    box[every] = np.arange(every.size)
    spoken = layout.spoken_names(f)
    names = tuple(spoken[node] for node in f.endpoint.tolist())
    return Hall(f, tuple(tiers), level, box, column, row, rank, leaf, names)


def _levels(f: Fabric) -> Ints:
    """Return the row of each node (N,): 0 for the lowest switches outside of servers; -1 within servers."""
    inside = np.isin(np.arange(f.n_nodes), f.endpoint) | (f.coordinate("server") >= 0)
    if "server" not in f.coord_names:
        inside = np.isin(np.arange(f.n_nodes), f.endpoint)
    for kind in ("gpu", "nic", "pcie", "cpu", "nvlink", "nvswitch", "port"):
        if kind in f.kinds:
            inside = inside | (f.kind == f.kinds.index(kind))
    level = np.full(f.n_nodes, -1)
    if not inside.all():
        level[~inside] = np.unique(f.tier[~inside], return_inverse=True)[1]
    return level


def _rank_of_node(f: Fabric, level: Ints) -> Ints:
    """Return the rank that each node in a server belongs to (N,): the one whose cables alone reach it."""
    scale_up = np.zeros(f.n_nodes, dtype=bool)
    for kind in ("nvlink", "nvswitch", "port"):
        if kind in f.kinds:
            scale_up |= f.kind == f.kinds.index(kind)
    rank = np.full(f.n_nodes, -1)
    rank[f.endpoint] = np.arange(f.n_ranks)
    usable = ~scale_up & (level < 0)
    for _ in range(3):
        link = (rank[f.source] >= 0) & (rank[f.target] < 0) & usable[f.target]
        lowest = np.full(f.n_nodes, f.n_ranks)
        highest = np.full(f.n_nodes, -1)
        np.minimum.at(lowest, f.target[link], rank[f.source[link]])
        np.maximum.at(highest, f.target[link], rank[f.source[link]])
        rank = np.where(lowest == highest, highest, rank)
    return rank


def _leaf_of_rank(f: Fabric, level: Ints, rank: Ints) -> Ints:
    """Return the first switch outside of its server that each rank reaches, (R,); -1: none."""
    link = np.flatnonzero((rank[f.source] >= 0) & (level[f.target] == 0))[::-1]
    leaf = np.full(f.n_ranks, -1)
    leaf[rank[f.source[link]]] = f.target[link]  # links in reverse order, so the first one wins
    return leaf


# Boxes and lines ----------------------------------------------------------------------------------


def _marks(hall: Hall) -> Marks:
    """Return the boxes of a hall, with their names; their places are in pixels, and come later."""
    f = hall.fabric
    spoken = layout.spoken_names(f)
    switches = np.concatenate(hall.tiers)
    kinds = [f.kinds[f.kind[tier[0]]] for tier in hall.tiers]
    leaves = hall.tiers[0]
    below = np.bincount(hall.leaf, minlength=f.n_nodes)[leaves].tolist()
    kind_of_end = f.kinds[f.kind[f.endpoint[0]]]

    names = [spoken[node] for node in switches.tolist()]
    names += [counted(tier.size, kind) for tier, kind in zip(hall.tiers, kinds, strict=True)]
    for node, n in zip(leaves.tolist(), below, strict=True):
        names.append(text("fabric.below", ends=counted(n, kind_of_end), leaf=spoken[node]))
    servers = np.unique(f.server)
    names += [text(f"fabric.{layout.holder(f)}", s=s) for s in servers.tolist()]

    n_tiers, n_boxes = len(hall.tiers), len(names)
    first_end = switches.size + n_tiers
    first = np.zeros(n_boxes, dtype=np.int64)
    first[: switches.size] = switches
    first[switches.size : first_end] = [tier[0] for tier in hall.tiers]
    row = np.zeros(n_boxes, dtype=np.int64)
    row[: switches.size] = 1 + hall.level[switches]
    row[switches.size : first_end] = 1 + np.arange(n_tiers)
    rail = np.full(n_boxes, -1)
    if 2 <= np.unique(f.rail[f.rail >= 0]).size <= _MOST_ROWS:
        rail_of_leaf = _shared(hall.leaf, f.rail.astype(np.int64), f.n_nodes)
        rail[: leaves.size] = rail_of_leaf[leaves]
        rail[first_end : first_end + leaves.size] = rail_of_leaf[leaves]
    server = np.full(n_boxes, -1)
    server[first_end:] = 0
    of_node = np.where(hall.box >= 0, hall.box, first_end)
    empty = np.zeros(n_boxes)
    return Marks(of_node, first, names, row, rail, server, empty, empty, folded=True)


def _shared(group: Ints, value: Ints, n: int) -> Ints:
    """Return for each of n groups the value that all its members share; -1: none."""
    lowest = np.full(n, np.iinfo(np.int64).max)
    highest = np.full(n, -1)
    np.minimum.at(lowest, group, value)
    np.maximum.at(highest, group, value)
    return np.where(lowest == highest, highest, -1)


class _Bundles(NamedTuple):
    """Which cables of a hall are drawn, and the boxes that they join."""

    links: Ints  # (2 C,) both directions of each cable
    capacity: Floats  # (2 C,) [B/s]
    low: Ints  # (C,) boxes at their ends
    high: Ints  # (C,)
    turned: Flags  # (C,) whether the second direction leads up


def _lines(hall: Hall, share: Floats, open: int | None) -> Lines:
    """Return the lines of a hall: a line for all cables of a switch to the row above, and for those to its endpoints.

    The cables of the switch ``open`` have a line for each switch or server that they lead to.
    """
    of = _bundles(hall, open)
    return layout.bundles_of(of.capacity, of.low, of.high, share[of.links], of.turned)


@lru_cache(maxsize=8)
def _bundles(hall: Hall, open: int | None) -> _Bundles:
    """Return the cables that the lines of a hall stand for; the same ones for each load."""
    f = hall.fabric
    n_switches, n_tiers = hall.n_switches, len(hall.tiers)
    first_end = n_switches + n_tiers
    first_server = first_end + hall.tiers[0].size
    source, target = f.source[::2], f.target[::2]
    swap = hall.level[source] > hall.level[target]
    low, high = np.where(swap, target, source), np.where(swap, source, target)
    drawn = hall.level[high] >= 0
    low, high = low[drawn], high[drawn]

    opened = (low == open) | (high == open) if open is not None else np.zeros(low.size, bool)
    to_end = hall.level[low] < 0
    lower, upper = hall.box[low], hall.box[high].copy()
    bundle = ~to_end & ~opened
    upper[bundle] = n_switches + hall.level[high[bundle]]
    lower = np.where(to_end, first_end + hall.box[high], lower)
    rank = hall.rank[low]
    single = to_end & opened & (rank >= 0)
    lower[single] = first_server + hall.column[rank[single]]
    links = np.repeat(2 * np.flatnonzero(drawn), 2) + np.tile([0, 1], low.size)
    return _Bundles(links, f.capacity[links], lower, upper, swap[drawn])


def _cell_loads(hall: Hall, share: Floats) -> tuple[Floats, Flags]:
    """Return the load of the fullest link of each rank to the network (R,), and whether a cable of it has failed."""
    f = hall.fabric
    link, rank = _own_links(hall)
    load = np.full(f.n_ranks, -1.0)
    failed = np.zeros(f.n_ranks, dtype=bool)
    np.maximum.at(load, rank, np.nan_to_num(share[link], nan=-1.0))
    np.logical_or.at(failed, rank, f.capacity[link] == 0)
    return np.where(load < 0, np.nan, load), failed


@lru_cache(maxsize=8)
def _own_links(hall: Hall) -> tuple[Ints, Ints]:
    """Return the links between a rank and the network, and the rank of each; the same ones for each load."""
    f = hall.fabric
    rank = np.maximum(hall.rank[f.source], hall.rank[f.target])
    both_in = (hall.level[f.source] < 0) & (hall.level[f.target] < 0)
    stray = both_in & ((hall.rank[f.source] < 0) | (hall.rank[f.target] < 0))
    link = np.flatnonzero((rank >= 0) & ~stray)
    return link, rank[link]


# The picture --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the parts of a hall are drawn. [px]."""

    left: float
    right: float
    switch_x: Floats  # (switches,)
    switch_width: Floats
    switch_y: Floats
    tier_y: Floats  # from the lowest row up
    top: float  # upper end of the cells
    cell: float  # height of a cell, with the gap below it
    column: float  # width of a column, with the gap beside it
    bottom: float  # lower end of the cells


def _places(hall: Hall, width: float, left: float) -> _Places:
    """Return the places of all parts in a picture of a width [px]; the drawing begins at ``left``."""
    right = width - _RIGHT
    n_tiers = len(hall.tiers)
    between = _BETWEEN[min(n_tiers, len(_BETWEEN)) - 1]
    tier_y = _TOP + between * np.arange(n_tiers, dtype=np.float64)[::-1]
    top = float(tier_y[0]) + between * 0.8
    cell = min(_CELL, _TALLEST / hall.n_rows)
    x, wide, y = [], [], []
    for tier, nodes in enumerate(hall.tiers):
        each = (right - left) / nodes.size
        x.append(left + each * (np.arange(nodes.size) + 0.5))
        wide.append(np.full(nodes.size, min(0.9 * each, 44.0)))
        y.append(np.full(nodes.size, tier_y[tier]))
    return _Places(
        left=left,
        right=right,
        switch_x=np.concatenate(x),
        switch_width=np.concatenate(wide),
        switch_y=np.concatenate(y),
        tier_y=tier_y,
        top=top,
        cell=cell,
        column=(right - left) / hall.n_columns,
        bottom=top + cell * hall.n_rows,
    )


def hall_scene(
    hall: Hall,
    share: Floats,
    colour: str,
    open: int | None,
    said: str,
    width: float = WIDE,
) -> Scene:
    """Return a picture of a hall with the load of each link, (L,); the cables of the switch ``open`` are apart.

    If ``open`` is a node in a server, the switch that its cables lead to is open.
    """
    f = hall.fabric
    if open is not None:
        open = units.count(open, "open", 0, f.n_nodes - 1)
        if hall.level[open] < 0:
            open = int(hall.leaf[hall.rank[open]]) if hall.rank[open] >= 0 else None
    marks = _marks_of(hall)
    cables = _lines(hall, share, open)
    order = np.argsort(np.nan_to_num(cables.fullest), kind="stable")
    cables = Lines._make(column[order] for column in cables)
    placed = Placed(f, marks, cables, share)

    named = _row_names(hall)
    places = _places_of(hall, width, 20 + _LETTER * max(map(len, named)))
    cell_load, cell_failed = _cell_loads(hall, share)
    layers = {
        "servers": _server_layer(hall, places),
        "ranks": _cell_layer(hall, places, colour, cell_load, cell_failed),
        "rows": _frames(hall, places),
        **_cable_layers(hall, placed, places, colour),
        "nodes": _switches_of(hall, width, colour, open),
        "margins": _margins(hall, placed, places, named),
    }
    foot = places.bottom + 34
    if colour == "load" and np.isfinite(share).all():
        many = layout.bundled(cables)
        layers |= scale(foot, (places.left + places.right) / 2 - 160, many)
    elif colour != "load":
        rails = []
        if colour == "rail":
            rails = [str(rail) for rail in range(1 + int(marks.rail.max()))]
        layers |= key(foot, text(f"fabric.key_{colour}"), rails, width=width)
    height = foot + (20 if "scale" in layers else -8)
    place = marks.row if colour == "tier" else marks.rail
    colours = layout.colour_sentence(colour, cables.fullest, place, cables.failed.sum(), f.n_cables)
    scene = layout.scene_with_words(placed, layers, height, said=said, colours=colours)
    return replace(scene, width=width, hint=_order_words(layers["nodes"]))


def _order_words(nodes: Layer) -> str:
    """Return why the numbers in a row of switches are not in order; nothing if they are, or if there are none."""
    y, x, words = (nodes.fields[name] for name in ("y", "x", "texts"))
    numbers = [
        (up, across, int(word)) for up, across, word in zip(y, x, words, strict=True) if word
    ]
    rows = [
        [n for _, _, n in row] for _, row in itertools.groupby(sorted(numbers), lambda one: one[0])
    ]
    return "" if all(row == sorted(row) for row in rows) else text("fabric.above_servers")


@lru_cache(maxsize=8)
def _marks_of(hall: Hall) -> Marks:
    """Return the boxes of a hall; the same ones for each load."""
    return _marks(hall)


@lru_cache(maxsize=8)
def _places_of(hall: Hall, width: float, left: float) -> _Places:
    """Return the places of all parts of a hall; the same ones for each load."""
    return _places(hall, width, left)


@lru_cache(maxsize=16)
def _switches_of(hall: Hall, width: float, colour: str, open: int | None) -> Layer:
    """Return the boxes of the switches of a hall; the same ones for each load."""
    left = 20 + _LETTER * max(map(len, _row_names(hall)))
    return _switch_layer(hall, _marks_of(hall), _places_of(hall, width, left), colour, open)


def _row_names(hall: Hall) -> list[str]:
    """Return what each row holds, from the endpoints up, such as "1,024 GPUs"."""
    f = hall.fabric
    names = [counted(f.n_ranks, f.kinds[f.kind[f.endpoint[0]]])]
    return names + [counted(tier.size, f.kinds[f.kind[tier[0]]]) for tier in hall.tiers]


def _server_layer(hall: Hall, places: _Places) -> Layer:
    """Return a tinted column behind the cells of each server that holds several endpoints."""
    several = hall.n_rows > 1
    n = hall.n_columns if several else 0
    return boxes(
        places.left + places.column * np.arange(n),
        places.top - 1.5,
        max(places.column - 0.5, 1.0),
        places.bottom - places.top + 2,
        colour=COLOUR["domain"],
        round=1.5,
    )


def _cell_layer(hall: Hall, places: _Places, colour: str, load: Floats, failed: Flags) -> Layer:
    """Return a cell for each endpoint, lit by the load of its fullest link to the network."""
    f = hall.fabric
    if colour == "load":
        idle = np.where(np.isnan(load), COLOUR["gpu"], COLOUR["hair"])
        hue = np.where(np.nan_to_num(load) > 0, shade(load), idle)
    elif colour == "failure":
        hue = np.where(failed, COLOUR["failed"], COLOUR["gpu"])
    else:
        hue = coloured(f.rail) if colour == "rail" else graded(np.zeros(f.n_ranks, np.int64))
    if np.isfinite(load).any():
        # Many GPUs have the same load, and so the same note.
        loads, same = np.unique(np.round(load, 8), return_inverse=True)
        each = [layout.in_load(one) for one in loads.tolist()]
        notes = [each[i] for i in same.tolist()]
    else:
        notes = [text("fabric.rail", r=rail) for rail in f.rail.tolist()]
    gap = min(1.2, 0.25 * places.column)
    return boxes(
        places.left + places.column * hall.column + gap / 2,
        places.top + places.cell * hall.row,
        places.column - gap,
        places.cell - 1.5,
        colour=hue,
        hatch=np.where(failed, 3.0, 0.0),
        round=1.0,
        names=list(hall.names),
        notes=notes,
    )


def _frames(hall: Hall, places: _Places) -> Layer:
    """Return a frame around each row of switches that lines lead to as a whole."""
    y = places.tier_y[1:]
    return boxes(
        np.full(y.size, places.left - 4),
        y - _HALF - 5,
        places.right - places.left + 8,
        2 * _HALF + 10,
        colour=COLOUR["paper"],
        edge=COLOUR["line"],
        round=7.0,
    )


def _cable_layers(hall: Hall, placed: Placed, places: _Places, colour: str) -> dict[str, Layer]:
    """Return the lines of a hall, and crosses on bundles with failed cables."""
    m, k = placed.marks, placed.lines
    n_switches, n_tiers = hall.n_switches, len(hall.tiers)
    first_end = n_switches + n_tiers
    first_server = first_end + hall.tiers[0].size
    paths = []
    for a, b, back in zip(k.a.tolist(), k.b.tolist(), k.back.tolist(), strict=True):
        if a >= first_server:
            start = [places.left + places.column * (a - first_server + 0.5), places.top - 3]
        elif a >= first_end:
            start = [places.switch_x[a - first_end], places.top - 3]
        else:
            start = [places.switch_x[a], places.switch_y[a] - _HALF]
        if b < n_switches:
            end = [places.switch_x[b], places.switch_y[b] + _HALF]
        else:
            end = [start[0], places.tier_y[b - n_switches] + _HALF + 5]
        path = layout.upright([np.array(start), np.array(end)])
        paths.append(path[::-1] if back else path)

    place = m.row[k.b] if colour == "tier" else np.maximum(m.rail[k.a], m.rail[k.b])
    single = max(float(k.fastest.max(initial=0.0)), 1.0)  # [B/s]
    idle = link_width(0.0) * np.clip(k.total / single, 1.0, 40.0) ** 0.08
    width = np.where(np.nan_to_num(k.fullest) > 0, link_width(k.fullest), idle)
    cables = lines(paths, **layout.line_look(k, colour, place, width), **layout.readable(m, k))
    part = np.flatnonzero((k.failed > 0) & (k.failed < k.cables))
    x, y = np.array([paths[i].mean(axis=0) for i in part]).reshape(-1, 2).T
    failed = Layer("dots", {"x": x, "y": y, "size": 5.0, "shape": 2.0, "colour": COLOUR["failed"]})
    return {"cables": cables, "failed": failed}


def _switch_layer(
    hall: Hall, marks: Marks, places: _Places, colour: str, open: int | None
) -> Layer:
    """Return a box for each switch; selecting it sets its cables apart."""
    f = hall.fabric
    switches = np.concatenate(hall.tiers)
    n = switches.size
    hue: NDArray[Any] = np.full(n, COLOUR["node"])
    if colour in ("tier", "rail"):
        hue = graded(marks.row[:n]) if colour == "tier" else coloured(marks.rail[:n], hue)
    names = marks.names[:n]
    ports = f.radix[switches].tolist()
    numbers = [layout.number_in(name) for name in names]
    for level in range(len(hall.tiers)):  # all switches of a row show their number, or none does
        here = np.flatnonzero(hall.level[switches] == level)
        if any(_NUMBER * len(numbers[i]) > places.switch_width[i] for i in here):
            for i in here:
                numbers[i] = ""
    # The open switch has an edge, and a click on it closes it.
    is_open = switches == (-1 if open is None else open)
    picks = [None if node == open else node for node in switches.tolist()]
    notes = [text("fabric.ports", n=n_ports) if n_ports > 0 else "" for n_ports in ports]
    return boxes(
        places.switch_x - places.switch_width / 2,
        places.switch_y - _HALF,
        places.switch_width,
        2 * _HALF,
        colour=hue,
        ink=ink_on(hue),
        edge=np.where(is_open, COLOUR["ink"], COLOUR["none"]),
        texts=numbers,
        names=names,
        notes=notes,
        pick="open",
        picks=picks,
    )


def _margins(hall: Hall, placed: Placed, places: _Places, named: Sequence[str]) -> Layer:
    """Name the rows at the left, the cables at the right, and the servers below."""
    f, k = hall.fabric, placed.lines
    ink, soft = COLOUR["ink"], COLOUR["soft"]
    words: list[tuple[float, float, str, int, float]] = []
    margin = places.left - 12
    middle = (places.top + places.bottom) / 2
    for name, y in zip(named, [middle, *places.tier_y.tolist()], strict=True):
        words.append((margin, y, name, 2, ink))
    if hall.n_rows > 5 and np.unique(f.rail).size == hall.n_rows:
        for row in (0, hall.n_rows - 1):
            rail = text("fabric.rail", r=int(f.rail[hall.row == row][0]))
            words.append((margin, places.top + places.cell * (row + 0.5), rail, 2, soft))

    # Cables of each row, in the middle of their lines.
    heights = np.append(places.top - 3, places.tier_y)
    for row in range(len(hall.tiers)):
        here = placed.marks.row[k.b] == row + 1
        rates = layout.rates_in_words(k.slowest[here].min(), k.fastest[here].max())
        y = float(heights[row] + heights[row + 1]) / 2
        for line, word in enumerate([f"{k.cables[here].sum():,} ×", rates]):
            words.append((places.right + 12, y + 15 * line - 8, word, 0, soft))

    servers = np.unique(f.server).tolist()
    step = max(1, -(-len(servers) // 4))
    for i in [*range(0, len(servers) - step // 2, step), len(servers) - 1]:
        name = text(f"fabric.{layout.holder(f)}", s=servers[i]) if i == 0 else str(servers[i])
        x = places.left + places.column * (i + 0.5)
        words.append((x - (2 if i == 0 else 0), places.bottom + 13, name, 0 if i == 0 else 1, soft))
    layer = texts_at(*(word[:4] for word in words))
    return replace(layer, fields={**layer.fields, "colour": np.array([word[4] for word in words])})
