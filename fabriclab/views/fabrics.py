"""Fabric view: endpoints at the bottom, switches above; a large fabric is drawn as blocks with their members.

The floor is a second view of the same fabric: every endpoint is one cell, in the column of its server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import catalog
from fabriclab.core import Fabric, Flags, Floats, Ints, Timeline
from fabriclab.texts import text
from fabriclab.views import layout
from fabriclab.views.halls import WIDE, hall_of, hall_scene
from fabriclab.views.layout import Lines, Marks, Placed, counted
from fabriclab.views.loops import looped
from fabriclab.views.maps import crosses, is_direct, map_scene
from fabriclab.views.page import Axes, Picture, Table
from fabriclab.views.scene import (
    COLOUR,
    WIDTH,
    Layer,
    Scene,
    boxes,
    coloured,
    graded,
    ink_on,
    key,
    lines,
    link_width,
    printed,
    scale,
    texts_at,
)

MOST_NODES = 200
MOST_BOXES = 4096  # so many a browser still redraws without a visible delay
TALL = 388.0  # greatest height of a picture [px]
_ROW = 70.0  # greatest distance between two rows [px]
_HALF = 12.0  # greatest half height of a box [px]
_LINE = 15.0  # distance between two lines of text [px]
_LETTER = 7.2  # width of a letter; letters in a box are narrower: [px]
_BOX_LETTER = 6.6  # [px]
_FREE = 4.2  # beside a number in its box, on both sides together [px]
_DIGIT = 7.7  # width of a digit of the widest font [px]
_LEGEND = 30.0  # height of the scale of loads [px]
# Kinds of nodes that are named alike: the tiers of a network, and of boxes of GPUs on a PCIe fabric.
_SWITCH_TIERS = ("leaf", "spine", "core", "apa", "draco", "root")
_MOST_PLATES = 16  # lines with a count, which more of them would hide
_PLATE, _PLATE_AT = 15.0, 0.3  # height of a count [px], and where on its line it stands, from below
_MANY_LINES = 16  # so many lines in use between two rows can have their full width
_OF_MANY = 0.56  # of their width have more than these, so that a full one has 2.5 px
# Links between CPUs whose rate is a constant of NCCL. source: NCCL-topo
_PLANNED_BY_NCCL = ("upi-bdw", "upi-spr", "amd-if")
_STACK = 0.05  # offset between two boxes of a stack, in units of `Marks`
# Between two blocks of words beside the rows: where there is room, and at least. [px]
_BLOCKS_APART = (14.0, 5.0)
_MOST_COLUMNS = 128  # columns of a floor side by side; further ones begin a new band
_FLOOR_HEIGHT = 420.0  # [px]
_FLOOR_EDGE = 10.0  # [px]
_MOST_NAMED_ROWS = 32
_FLOOR_NAMES = 46.0  # room for the names of its rows [px]


class Canvas(NamedTuple):
    """The mapping from the units of `Marks` to pixels of the picture."""

    left: float  # where the drawing begins, in units of `Marks`
    high: float  # its upper end
    low: float  # its lower end
    unit: float  # width of a unit [px]
    row: float  # height of a unit [px]
    start: float  # room beside the drawing for the names of rows [px]
    end: float  # right end of the drawing [px]

    def across(self, x: ArrayLike) -> Floats:
        """Convert x from units of `Marks` to pixels."""
        return np.asarray(self.start + (np.asarray(x) - self.left) * self.unit)

    def down(self, y: ArrayLike) -> Floats:
        """Convert y from units of `Marks` to pixels, which count downwards."""
        return np.asarray((self.high - np.asarray(y)) * self.row)

    def path(self, points: Floats) -> Floats:
        """Convert the points of a line (P, 2) from units of `Marks` to pixels."""
        return np.stack([self.across(points[:, 0]), self.down(points[:, 1])], axis=1)

    @property
    def bottom(self) -> float:
        """The lower end of the drawing [px]."""
        return float(self.down(self.low))

    @property
    def half(self) -> float:
        """Half the height of a box [px]."""
        return min(_HALF, layout.HALF_HEIGHT * self.row)


def fabric(
    fabric: Fabric,
    *,
    load: Timeline | ArrayLike | None = None,
    loop: Sequence[int] = (),
    counts: bool = False,
    ax: Axes | None = None,
    finding: str | None = None,
) -> Picture:
    """Draw a fabric in rows of tiers or, if it is a direct network, as a map.

    In rows of tiers, endpoints are at the bottom with their servers as rounded boxes, and switches are above them.
    Parallel cables are one line, which is wider the more capacity they have together. A fabric with more than 200
    nodes shows each tier as blocks, one for each rail where the tier keeps rails apart. Leaves out delays and media.

    Parameters
    ----------
    fabric : Fabric
        What to draw.
    load : Timeline or array_like, shape (L,), optional
        Mean load of each link as a fraction of its capacity, shown in the colours of cividis. [1], >= 0
    loop : sequence of int, optional
        Links that form a circle, such as `fabriclab.routing.deadlock` returns: they are drawn with arrows, and
        numbered in their order.
    counts : bool
        Whether a line that stands for several cables says how many, in a fabric whose tiers have few lines.
    ax, finding : optional
        Axes to draw on, and the sentence above the picture.

    Raises
    ------
    ValueError
        If the fabric has no link or no endpoint, or ``load`` or ``loop`` does not fit it.
    """
    share = None if load is None else share_of(fabric, load)
    scene = fabric_scene(fabric, share, width=WIDE, loop=loop, counts=counts)
    return printed(scene, ax=ax, finding=finding)


def share_of(fabric: Fabric, load: Timeline | ArrayLike) -> Floats:
    """Return the load of each link as a fraction of its capacity, (L,).

    Raises
    ------
    ValueError
        If the load is not one finite number >= 0 for each link.
    """
    given = load.utilisation(fabric.capacity) if isinstance(load, Timeline) else load
    share = np.asarray(given, dtype=np.float64)
    if share.shape != (fabric.n_links,) or not np.all(np.isfinite(share) & (share >= 0)):
        raise ValueError(
            f"load must hold one finite number >= 0 for each of {fabric.n_links} links,"
            f" got shape {share.shape};"
            " give a Timeline of this fabric, or bytes / (capacity * time)"
        )
    return share


# Rows of tiers ------------------------------------------------------------------------------------


def fabric_scene(
    f: Fabric,
    share: Floats | None = None,
    colour: str = "load",
    open: int | None = None,
    said: str = "",
    *,
    width: float | None = None,
    tall: float = TALL,
    hall: bool = True,
    loop: Sequence[int] = (),
    counts: bool = False,
) -> Scene:
    """Return a picture of a fabric with the load of each link, (L,).

    A fabric with more than 200 nodes is a hall (see `halls`) or, without ``hall`` or if it is none, has its tiers as
    blocks; there the block that contains the node ``open`` shows its members, unless they are too many to draw.
    ``colour`` says what the colours stand for: load, tier, rail or failure. ``said`` replaces the sentence above the
    picture. The picture is ``width`` px wide (700, a hall 880) and at most ``tall`` px high.
    ``loop`` are links that form a circle, to be drawn as one; a hall has no room for it. ``counts`` is as in `fabric`.
    """
    if not f.n_links or not f.n_ranks:
        return Scene(text("fabric.empty", links=f.n_links, ends=f.n_ranks), wrong=True)
    if share is None:
        share = np.full(f.n_links, np.nan)
    if is_direct(f):
        return map_scene(f, share, colour, said, loop)
    if hall and not loop and f.n_nodes > MOST_NODES:
        plan = hall_of(f)
        if plan:
            return hall_scene(plan, share, colour, open, said, width or WIDE)
    width = width or WIDTH

    marks = layout.marks_of(f, f.n_nodes > MOST_NODES, open, through=True)
    if marks.row.size > MOST_BOXES:  # then the block stays closed
        marks = layout.marks_of(f, True, through=True)
        members = np.sum(marks.of_node == marks.of_node[open])
        said = text("fabric.many", n=members, most=MOST_BOXES)
        open = None
    cables = layout.lines_of(f, marks, share)
    if not marks.folded:  # what is passed on within a box is not drawn
        cables = Lines._make(column[cables.a != cables.b] for column in cables)
    # The fullest lines lie on top, so they are drawn last.
    order = np.argsort(np.nan_to_num(cables.fullest), kind="stable")
    cables = Lines._make(column[order] for column in cables)

    placed = Placed(f, marks, cables, share)
    has_legend = colour != "load" or bool(np.isfinite(share).all())
    canvas = _canvas(placed, width, tall - (_LEGEND if has_legend else 2))
    paths = [canvas.path(path) for path in layout.paths_of(marks, cables)]
    layers = {
        **_server_layers(placed, canvas),
        **_cable_layers(placed, canvas, paths, colour),
        **(_count_layers(cables, paths) if counts else {}),
        "nodes": _node_layer(placed, canvas, colour, open),
        "margins": _margins(placed, canvas),
        **_legend(placed, canvas, colour),
    }
    height = canvas.bottom + (_LEGEND if "scale" in layers else 2)
    place = marks.row if colour == "tier" else marks.rail
    colours = layout.colour_sentence(colour, cables.fullest, place, cables.failed.sum(), f.n_cables)
    scene = layout.scene_with_words(placed, layers, height, said=said, colours=colours)
    scene = replace(scene, width=width, hint=_planned(placed))
    return looped(scene, placed, loop) if loop else scene


def _canvas(placed: Placed, width: float, tall: float) -> Canvas:
    """Return a canvas that has room for all boxes, lines and words."""
    m, k = placed.marks, placed.lines
    left = float((m.x - m.width / 2).min() - 0.3)
    right = float((m.x + m.width / 2).max() + 0.3)
    high = m.row.max() + 0.4
    low = m.row.min() - _foot(m, k)
    start = 28 + _LETTER * max(map(len, row_names(placed).values()))
    start = max(start, 28 + _LETTER * len(_lead(placed)))
    end = (
        width - 14 - _LETTER * max(len(word) for _, words in _cable_names(placed) for word in words)
    )
    return Canvas(
        left=left,
        high=high,
        low=low,
        unit=(end - start) / (right - left),
        row=min(_ROW, tall / (high - low)),
        start=start,
        end=end,
    )


def _foot(m: Marks, k: Lines) -> float:
    """Return the room needed below the lowest row, for names of servers or rails and arcs of cables within the row."""
    names = 0.36 if m.folded or layout.boxes_of(m, 0.0) else 0.0
    return 0.32 + names + layout.arc_room(m, k)


def _line_widths(placed: Placed, canvas: Canvas) -> Floats:
    """Return the width of each line (K,) [px]: wider with the load or, idle, with the capacity, if there is room."""
    m, k = placed.marks, placed.lines
    thinnest = max(k.total[k.total > 0].min(initial=np.inf), 1.0)  # [B/s]
    idle = link_width(0.0) * np.clip(k.total / thinnest, 1.0, 40.0) ** 0.08
    busy = np.nan_to_num(k.fullest) > 0
    width = np.where(busy, link_width(k.fullest), idle)
    # Where many lines between two rows are in use, or some leave a box close to each other, they would be one area.
    of_pair = np.unique(m.row[[k.a, k.b]], axis=1, return_inverse=True)[1].ravel()
    many = np.bincount(of_pair, busy)[of_pair] > _MANY_LINES
    part = np.where(many, _OF_MANY, 1.0)
    part = np.minimum(
        part, layout.part_apart(width, canvas.unit * layout.port_gaps(m, k), of_pair, busy)
    )
    width = np.where(busy, part * width, width)
    # An open block has narrow boxes.
    narrower = canvas.unit * np.minimum(m.width[k.a], m.width[k.b])
    return np.asarray(np.minimum(width, np.maximum(0.9 * narrower, 0.5)))


def _cable_layers(
    placed: Placed, canvas: Canvas, paths: Sequence[Floats], colour: str
) -> dict[str, Layer]:
    """Return the lines of cables, each from the end that sends more, and crosses on bundles with failed cables."""
    m, k = placed.marks, placed.lines
    if colour == "tier":
        upper = m.row[k.b]
    else:
        upper = np.maximum(m.rail[k.a], m.rail[k.b])
    ways = [path[::-1] if back else path for path, back in zip(paths, k.back, strict=True)]
    look = layout.line_look(k, colour, upper, _line_widths(placed, canvas))
    cables = lines(ways, **look, **layout.readable(m, k))
    return {"cables": cables, **_crosses(paths, k)}


def _count_layers(k: Lines, paths: Sequence[Floats]) -> dict[str, Layer]:
    """Return the number of cables on a plate on each line that stands for several, if these are few."""
    several = np.flatnonzero(k.cables > 1).tolist()
    if not several or len(several) > _MOST_PLATES:
        return {}
    places = np.array([paths[i][round(_PLATE_AT * (len(paths[i]) - 1))] for i in several])
    words = [text("fabric.count", n=int(k.cables[i])) for i in several]
    wide = _BOX_LETTER * max(map(len, words)) + 4
    return {
        "counts": boxes(
            places[:, 0] - wide / 2,
            places[:, 1] - _PLATE / 2,
            wide,
            _PLATE,
            colour=COLOUR["paper"],
            edge=COLOUR["hair"],
            ink=COLOUR["ink"],
            round=4.0,
            texts=words,
        )
    }


def _node_layer(placed: Placed, canvas: Canvas, colour: str, open: int | None) -> Layer:
    """Return a box for each node or block; selecting a block opens it."""
    m = placed.marks
    colours = np.where(placed.fabric.transit[m.first], COLOUR["switch"], COLOUR["host"])
    if colour == "tier":
        colours = graded(m.row)
    elif colour == "rail":
        colours = coloured(m.rail, colours)

    half = _half_widths(m, canvas)
    left = canvas.across(m.x) - half
    right = canvas.across(m.x) + half
    ids = [placed.fabric.kinds[kind] for kind in placed.fabric.kind[m.first]]
    return boxes(
        left,
        canvas.down(m.row) - canvas.half,
        np.maximum(right - left, 1.5),
        2 * canvas.half,
        colour=colours,
        ink=ink_on(colours),
        texts=_box_texts(m, ids, right - left),
        names=list(m.names),
        notes=_port_notes(placed),
        pick="open" if m.folded else None,
        picks=_picks(m, open),
    )


def _half_widths(m: Marks, canvas: Canvas) -> Floats:
    """Return half the width of each box, (M,) [px]; a little more where numbers of its row need it and have room."""
    half = canvas.unit * m.width / 2
    for row in np.unique(m.row) if not m.folded else []:
        here = m.row == row
        numbers = [len(layout.number_in(m.names[i])) for i in np.flatnonzero(here).tolist()]
        needed = (_DIGIT * max(numbers) + _FREE) / 2
        apart = float(canvas.unit * np.diff(np.sort(m.x[here])).min(initial=np.inf))
        if 2 * needed <= apart - _FREE / 2:
            half[here] = np.maximum(half[here], needed)
    return np.asarray(half)


def _box_texts(m: Marks, ids: Sequence[str], room: Floats) -> list[str]:
    """Return the texts in the boxes, which are ``room`` wide [px]: names such as "NIC 3", or the numbers alone.

    The nodes of a row all have the same kind of text in their box, and so have all tiers of switches. ``ids`` are the
    kinds of the nodes.
    """
    if m.folded:
        return [name.split()[0] for name in m.names]
    numbers = [layout.number_in(name) for name in m.names]
    whole = [
        f"{layout.short(kind)} {number}".strip() for kind, number in zip(ids, numbers, strict=True)
    ]

    def fits(words: list[str], i: int) -> bool:
        return bool(_BOX_LETTER * len(words[i]) + 4 < room[i])

    of_tiers = [i for i, kind in enumerate(ids) if kind in _SWITCH_TIERS]
    if not all(fits(whole, i) for i in of_tiers):
        for i in of_tiers:
            whole[i] = numbers[i]
    out = [""] * len(numbers)
    for row in np.unique(m.row):
        here = np.flatnonzero(m.row == row).tolist()
        for kind_of_text in (whole, numbers):
            if all(fits(kind_of_text, i) for i in here):
                for i in here:
                    out[i] = kind_of_text[i]
                break
    return out


def _port_notes(placed: Placed) -> list[str]:
    """Return the note of each box: the ports of its node, if it is one with a known number of ports."""
    f, m = placed.fabric, placed.marks
    alone = np.bincount(m.of_node, minlength=m.first.size) == 1
    radix = np.where(alone, f.radix[m.first], 0)
    return [text("fabric.ports", n=n) if n > 0 else "" for n in radix.tolist()]


def _picks(m: Marks, open: int | None) -> list[int | None]:
    """Return for each box what is open after it is selected: its block, or nothing if that block was open already."""
    size = np.bincount(m.of_node, minlength=m.first.size)  # (M,) nodes
    in_open_block = (size == 1) & (open is not None)
    closes = in_open_block if m.folded else np.ones(size.size, dtype=bool)
    return [None if close else int(node) for node, close in zip(m.first, closes, strict=True)]


def _crosses(paths: Sequence[Floats], k: Lines) -> dict[str, Layer]:
    """Return a cross in the middle of each bundle of which some cables have failed and others work."""
    middles = []
    for i in np.flatnonzero((k.failed > 0) & (k.failed < k.cables)).tolist():
        half = len(paths[i]) // 2
        middles.append(paths[i][half - 1 :][:2].mean(axis=0))
    x, y = np.array(middles).reshape(-1, 2).T
    return crosses("failed", x, y)


def _legend(placed: Placed, canvas: Canvas, colour: str) -> dict[str, Layer]:
    """Return the key to the colours: the scale of loads, if every link has a load, or a legend."""
    top = canvas.bottom + 10
    if colour == "load":
        middle = (canvas.start + canvas.end) / 2
        if not np.isfinite(placed.share).all():
            return {}
        return scale(top, middle - 160, layout.bundled(placed.lines))
    rails = []
    if colour == "rail":
        rails = [str(rail) for rail in range(1 + int(placed.marks.rail.max()))]
    return key(top, text(f"fabric.key_{colour}"), rails, width=canvas.start + canvas.end)


# Servers ------------------------------------------------------------------------------------------


def _server_layers(placed: Placed, canvas: Canvas) -> dict[str, Layer]:
    """Return the boxes around servers, and the names below them."""
    foot = _foot(placed.marks, placed.lines)
    return {
        "servers": _servers(placed.marks, foot, canvas),
        "places": _server_names(placed, canvas),
    }


def _servers(m: Marks, foot: float, canvas: Canvas) -> Layer:
    """Return servers as rounded boxes and scale-up domains as tinted ones; a stack of boxes stands for many servers."""
    stacked = []  # left, right, low, high, whether tinted, and how many boxes are in front of it
    for box in layout.boxes_of(m, foot):
        behind = 2 if m.folded and not box.tinted else 0
        for back in range(behind, -1, -1):  # the front one is drawn last
            stacked.append((*box, back))
    columns = np.array(stacked, dtype=np.float64).reshape(-1, 6).T
    left, right, low, high, tinted, depth = columns
    is_tinted = tinted > 0
    shift = _STACK * depth  # of a box behind others, to the right and down
    width = canvas.across(right) - canvas.across(left)  # [px]
    height = canvas.down(low) - canvas.down(high)  # [px]
    return boxes(
        canvas.across(left + shift),
        canvas.down(high - shift),
        width,
        height,
        colour=np.where(is_tinted, COLOUR["tint"], COLOUR["none"]),
        round=7.0,
        edge=np.where(
            is_tinted, COLOUR["none"], np.where(depth > 0, COLOUR["line"], COLOUR["edge"])
        ),
    )


def _server_names(placed: Placed, canvas: Canvas) -> Layer:
    """Return the names below the boxes: those of servers or, for blocks, the number of servers and each rail."""
    f, m, _, _ = placed
    if m.folded:
        ends = np.flatnonzero((m.server >= 0) & (m.row == 0) & (m.rail >= 0))
        x = canvas.across(m.x[ends])
        numbers = m.rail[ends].tolist()
        names = [text("fabric.rail", s=n, r=n) for n in numbers]
        align = 1
    else:
        frames = [box for box in layout.boxes_of(m, 0.0) if not box.tinted]
        x = canvas.across(np.array([(box.left + box.right) / 2 for box in frames]))
        numbers = [int(m.server[(m.server >= 0) & (m.x > box.left)][0]) for box in frames]
        names = [text(f"fabric.{layout.holder(f)}", s=n, r=n) for n in numbers]
        if len(names) == 1:  # a fabric that is one server
            names = [layout.server_name(f.family, names[0])]
        align = 1

    room = float(np.diff(np.sort(x)).min(initial=WIDTH))  # [px]
    narrow = _LETTER * max(map(len, names), default=0) > room
    if narrow:  # then the number alone, or nothing where even that has no room
        names = [str(n) if room > 24 else "" for n in numbers]
    y = canvas.bottom - 8
    words: list[tuple[float, float, str, int]] = []
    if narrow or (m.folded and m.server.max() >= 0):
        words.append((canvas.start - 16, y, _lead(placed), 2))
    words += [(at, y, name, align) for at, name in zip(x.tolist(), names, strict=True)]
    return layout.soft(texts_at(*words))


def _lead(placed: Placed) -> str:
    """Return the words to the left of the names of servers or rails."""
    if placed.marks.folded:
        return text("fabric.in_server", n=int(placed.fabric.summary()["servers"]))
    return text("fabric.servers")


# Margins ------------------------------------------------------------------------------------------


def _margins(placed: Placed, canvas: Canvas) -> Layer:
    """Name the rows on the left and the cables between them on the right."""
    words = []
    for row, name in row_names(placed).items():
        words.append((canvas.start - 16, float(canvas.down(row)), name, 2))

    # So far apart that each is read as one block, or at least not touching.
    for apart in _BLOCKS_APART:
        blocks, end = _blocks(placed, canvas, apart)
        if end <= canvas.bottom:
            break
    margins = texts_at(*words, *blocks)
    named = np.asarray(margins.fields["align"]) == 2
    look = {"colour": np.where(named, COLOUR["ink"], COLOUR["soft"])}
    return replace(margins, fields={**margins.fields, **look})


def _blocks(
    placed: Placed, canvas: Canvas, apart: float
) -> tuple[list[tuple[float, float, str, int]], float]:
    """Return the words to the right of the rows, in blocks that keep apart, and the lower end of the last one [px]."""
    words = []
    # Lower end of the words above; the first ones have the picture's edge. [px]
    end = 2.0 - apart
    for y, about in _cable_names(placed):
        top = max(float(canvas.down(y)) - _LINE / 2 * len(about), end + apart)
        for i, word in enumerate(about):
            words.append((canvas.end + 8, top + _LINE * (i + 0.5), word, 0))
        end = top + _LINE * len(about)
    return words, end


def row_names(placed: Placed) -> dict[int, str]:
    """Return how many nodes of which kind each row has."""
    f, m, _, _ = placed
    names = {}
    for row in np.unique(m.row).tolist():
        first = m.first[m.row == row]
        kind = f.kind[first[0]]
        here = (m.row[m.of_node] == row) & (f.kind == kind)  # (N,)
        names[row] = counted(int(here.sum()), f.kinds[kind])
    return names


def _cable_names(placed: Placed) -> list[tuple[float, list[str]]]:
    """Return places and lines of text for the cables between each pair of rows, from above."""
    m, k = placed.marks, placed.lines
    lowest = m.row.min()
    pairs = np.unique([m.row[k.a], m.row[k.b]], axis=1).T.tolist()  # (lower row, same or upper row)
    out = []  # height in units of `Marks`, and lines of text
    for low, high in pairs:
        within_upper = low == high and low != lowest
        # Where cables skip a row, or join boxes within an upper row, their position alone does not show what they join.
        words = [_end_names(placed, low, high)] if within_upper or high > low + 1 else []
        words.append(_bundle(k, (m.row[k.a] == low) & (m.row[k.b] == high)))
        out.append((high if within_upper else high - 0.5, words))
    return sorted(out, key=lambda block: -block[0])


def _end_names(placed: Placed, low: int, high: int) -> str:
    """Return the short names of the kinds of nodes in two rows, such as "GPU–leaf"."""
    f, m, _, _ = placed
    kind_of = dict(zip(m.row.tolist(), f.kind[m.first].tolist(), strict=True))
    return "–".join(layout.short(f.kinds[kind_of[row]]) for row in (low, high))


def _planned(placed: Placed) -> str:
    """Return in words that links between CPUs have a rate that NCCL plans with, and no datasheet states, if so."""
    f, m, k, _ = placed
    if "socket" not in f.media or "cpu" not in f.kinds:
        return ""
    is_cpu = f.kind[m.first] == f.kinds.index("cpu")
    rates = k.fastest[is_cpu[k.a] & is_cpu[k.b]]
    plans = [catalog.value("memory_path", part, "bandwidth") for part in _PLANNED_BY_NCCL]
    return text("fabric.planned") if np.isclose(rates[:, None], plans).any() else ""


def _bundle(k: Lines, here: Flags) -> str:
    """Return in words how many cables some lines stand for, and their rates."""
    rates = layout.rates_in_words(k.slowest[here].min(), k.fastest[here].max())
    return f"{k.cables[here].sum():,} × {rates}"


# A floor ------------------------------------------------------------------------------------------


def scene_of(
    f: Fabric,
    load: Any = None,
    colour: str = "load",
    open: int | None = None,
    said: str = "",
    layout: str = "tiers",
    *,
    width: float | None = None,
    tall: float = TALL,
    hall: bool = True,
) -> Scene:
    """Return a picture of a fabric, in rows or as a floor; ``load`` is what `live.fabric` takes, except a callable.

    Of rows, ``width`` and the greatest height can be given [px], and whether a large fabric may be a hall.
    """
    if isinstance(load, tuple):  # fabric, load and possibly the sentence
        f, load, *rest = load
        said = rest[0] if rest else said
    run = getattr(load, "timeline", load)
    values = run.utilisation(f.capacity) if isinstance(run, Timeline) else run
    if values is None:
        share = np.full(f.n_links, np.nan)
    elif np.isnan(np.asarray(values, dtype=np.float64)).any():
        return Scene(text("live.fabric.nan"), wrong=True)
    else:
        share = share_of(f, values)

    if layout == "floor" and f.n_ranks > MOST_BOXES:
        layout = "tiers"
        said = text("fabric.no_floor", n=f.n_ranks, most=MOST_BOXES)
    if layout == "tiers" or not f.n_links or not f.n_ranks:
        return fabric_scene(f, share, colour, open, said, width=width, tall=tall, hall=hall)
    return _floor(f, share, colour, said)


class FloorCells(NamedTuple):
    """The endpoints of a fabric as cells of a floor: one entry per rank, (R,)."""

    row: Ints
    column: Ints
    load: Floats  # load of the fullest link that leaves it; NaN where no load is given
    failed: Flags  # whether such a link has failed
    place: NDArray[Any]  # rail or tier, which its colour may show
    n_columns: int  # columns side by side


def _cells(f: Fabric, share: Floats, colour: str) -> FloorCells:
    """Place every endpoint in the column of its server, by rank from the top; many columns make several bands."""
    _, column = np.unique(f.server, return_inverse=True)
    order = np.lexsort((np.arange(f.n_ranks), column))
    first_of_column = np.searchsorted(column[order], column[order])
    row = np.empty(f.n_ranks, dtype=np.int64)
    row[order] = np.arange(f.n_ranks) - first_of_column

    n_columns = max(1, min(int(column.max()) + 1, _MOST_COLUMNS))
    band = column // n_columns
    first_row = band * (int(row.max()) + 2)  # first row of its band
    load = np.full(f.n_nodes, -1.0)
    failed = np.zeros(f.n_nodes, dtype=bool)
    np.maximum.at(load, f.source, np.nan_to_num(share, nan=-1.0))
    np.logical_or.at(failed, f.source, f.capacity == 0)
    return FloorCells(
        row=row + first_row,
        column=column % n_columns,
        load=np.where(load < 0, np.nan, load)[f.endpoint],
        failed=failed[f.endpoint],
        place=f.rail if colour == "rail" else f.tier[f.endpoint],
        n_columns=n_columns,
    )


def _floor(f: Fabric, share: Floats, colour: str, said: str) -> Scene:
    """Return a picture of every endpoint as a cell in its server's column, with the load of its fullest link out."""
    cells = _cells(f, share, colour)
    names = [f.name(int(node)) for node in f.endpoint]
    notes = _cell_notes(f, cells)
    known = bool(np.isfinite(cells.load).any())

    n_rows = int(cells.row.max()) + 1
    rails = _rails_of_rows(f, cells)
    left = _FLOOR_EDGE + (_FLOOR_NAMES if rails else 0.0)
    width = (WIDTH - _FLOOR_EDGE - left) / cells.n_columns
    height = min(24.0, _FLOOR_HEIGHT / n_rows)
    bottom = _FLOOR_EDGE + height * n_rows
    layers = {
        "nodes": boxes(
            left + width * cells.column,
            _FLOOR_EDGE + height * cells.row,
            max(width - 1, 1.0),
            height - 2,
            colour=graded(cells.place)
            if colour == "tier"
            else layout.colours_of(colour, cells.load, cells.failed, cells.place),
            hatch=np.where(cells.failed, 3, 0),
            round=1.0,
            names=names,
            notes=notes,
        )
    }
    words = [(left, bottom + 14, text("fabric.column"), 0)]
    if rails:  # then a cell can be looked up
        words = [(left - 8, _FLOOR_EDGE + height * (row + 0.5) - 1, name, 2) for row, name in rails]
        servers = np.unique(f.server).tolist()
        words.append((left, bottom + 14, text("fabric.server", s=servers[0]), 0))
        if len(servers) > 1:
            right = left + width * len(servers)
            words.append((right, bottom + 14, text("fabric.server", s=servers[-1]), 2))
    layers["columns"] = layout.soft(texts_at(*words))
    if colour == "load" and known:
        layers |= scale(bottom + 8)

    table = Table(
        {
            "endpoint": names,
            "server": f.server,
            "rail": f.rail,
            "load": cells.load,
            "failed links": cells.failed.astype(np.int64),
        }
    )
    n_failed = int(cells.failed.sum())
    about = text(
        "live.fabric.floor", ends=f.n_ranks, servers=np.unique(f.server).size, cut=n_failed
    )
    if known:
        fullest = int(np.argmax(np.nan_to_num(cells.load, nan=-1)))
        about += f" {names[fullest]}: {notes[fullest]}."
    colours = layout.colour_sentence(colour, cells.load, cells.place, n_failed, f.n_ranks)
    return Scene(said or about, table, layers, bottom + 34, f"{about} {said} {colours}")


def _rails_of_rows(f: Fabric, cells: FloorCells) -> list[tuple[int, str]]:
    """Return rows of a floor with the rail of their endpoints, if each has one of its own; none of several bands."""
    n_rows = int(cells.row.max()) + 1
    least, most = np.full(n_rows, np.iinfo(np.int64).max), np.full(n_rows, -1)
    np.minimum.at(least, cells.row, f.rail)
    np.maximum.at(most, cells.row, f.rail)
    one_band = np.unique(f.server).size <= cells.n_columns
    if (
        not 1 < n_rows <= _MOST_NAMED_ROWS
        or not one_band
        or np.any(least != most)
        or np.unique(least).size < n_rows
    ):
        return []
    return [(row, text("fabric.rail", r=int(least[row]))) for row in range(n_rows)]


def _cell_notes(f: Fabric, cells: FloorCells) -> list[str]:
    """Return a note for each cell: its load or, where none is given, its rail."""
    notes = []
    for load, rail in zip(cells.load, f.rail, strict=True):
        if np.isfinite(load):
            notes.append(layout.in_load(load))
        else:
            notes.append(text("fabric.rail", r=rail))
    return notes
