"""Layout of a fabric: the boxes and lines for its nodes and cables, their places, and the words about them."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import Fabric, Flags, Floats, Ints
from fabriclab.texts import table, text
from fabriclab.views.page import Table, plain, spread
from fabriclab.views.scene import COLOUR, FORM, KEYS, Layer, Scene, coloured, graded, shade

SAYS = {mode: f"fabric.says_{mode}" for mode in ("load", "tier", "rail", "failure")}
_FEW_ARCS = 12  # so many cables within a row can be told apart in little room
_BESIDE = 0.09  # distance between a line and a box that it passes
_SERVER_GAP = 0.9  # room between the endpoints of two servers
_OPEN_ROOM = 6.0  # room for an open block, if its members need more than one place
_BLOCK_GAP = 0.28  # room between two blocks
_ALL_RAILS = 64  # more than a fabric has
HALF_HEIGHT = 0.17  # half the height of a box
_CURVE = 25  # points of a curve between two rows
_OF_GAP = 0.7  # of the distance between lines side by side their width is at most
_LEAST_APART = 1.5  # but a line in use is as wide as this [px]
_PORT_GAP = 0.25  # greatest distance between two lines that leave a box side by side


class Marks(NamedTuple):
    """M boxes, row by row: nodes, or blocks of nodes.

    A unit of x is the room for one endpoint, a unit of y the distance between two rows.
    """

    of_node: Ints  # (N,) the box of each node; the other arrays are (M,)
    first: Ints  # lowest node in the box
    names: list[str]
    row: Ints
    rail: Ints  # -1 where the box has no rail, or several
    server: Ints  # -1 where the box belongs to no server
    x: Floats
    width: Floats
    folded: bool  # whether a box may stand for several nodes


class Lines(NamedTuple):
    """K lines, each from a box to another in the same row or above; a line stands for all cables between them."""

    a: Ints
    b: Ints
    cables: Ints
    failed: Ints
    slowest: Floats  # rate of the slowest cable that works [B/s]
    fastest: Floats
    total: Floats  # [B/s]
    load: Floats  # mean over the cables, each in its fuller direction, as a fraction of capacity; NaN: no load
    fullest: Floats  # load of the fullest of these cables
    back: Flags  # whether the fullest one carries more from b to a than from a to b


class Placed(NamedTuple):
    """A fabric with the places of all parts of its picture: boxes for its nodes, lines for its cables."""

    fabric: Fabric
    marks: Marks
    lines: Lines
    share: Floats  # (L,) load of each link as a fraction of its capacity; NaN where none is given


class ServerBox(NamedTuple):
    """A frame around the boxes of a server or, tinted, around its scale-up domain, in the units of `Marks`."""

    left: float
    right: float
    low: float
    high: float
    tinted: bool


# Names --------------------------------------------------------------------------------------------


def counted(number: int, kind: str) -> str:
    """Return a number of nodes or cables with their kind, such as "1,024 GPUs"."""
    singular, plural, *_ = _names(kind)
    return f"{number:,} {singular if number == 1 else plural}"


def short(kind: str) -> str:
    """Return the short name of a kind of node, for places with little room."""
    singular, _, *shorter = _names(kind)
    return shorter[0] if shorter else singular


def _names(kind: str) -> list[str]:
    """Return the singular and plural of a kind of node and, if it has one, its short name."""
    return table().get(f"kind.{kind}", f"{kind}|{kind}s").split("|")


@lru_cache(maxsize=16)
def spoken_names(f: Fabric) -> tuple[str, ...]:
    """Return the name of each node (N,) as engineers say it, such as "leaf 5" or "GPU 3 of server 4".

    Nodes of a kind are counted from 0 in the order of the fabric, and in each server anew where it holds several.
    """
    inside = f.coordinate(holder(f)) if holder(f) in f.coord_names else np.full(f.n_nodes, -1)
    if holder(f) == "server":
        inside[f.endpoint] = f.server
    several = np.unique(f.server).size > 1
    group = np.stack([f.kind, inside], axis=1)
    _, of_group, size = np.unique(group, axis=0, return_inverse=True, return_counts=True)
    of_group = of_group.ravel()
    order = np.argsort(of_group, kind="stable")
    start = np.cumsum(size) - size
    in_group = np.empty(f.n_nodes, dtype=np.int64)
    in_group[order] = np.arange(f.n_nodes) - start[of_group[order]]
    counts = np.bincount(f.kind, minlength=len(f.kinds))
    in_kind = np.empty(f.n_nodes, dtype=np.int64)
    for kind in range(len(f.kinds)):
        here = np.flatnonzero(f.kind == kind)
        in_kind[here] = np.arange(here.size)

    singular = [_names(kind)[0] for kind in f.kinds]
    of_server = text(f"fabric.of_{holder(f)}", name="{name}", s="{s}")
    names = []
    for node in range(f.n_nodes):
        kind = singular[f.kind[node]]
        if inside[node] < 0 or size[of_group[node]] == 1:
            names.append(f"{kind} {in_kind[node]}" if counts[f.kind[node]] > 1 else kind)
        else:
            name = f"{kind} {in_group[node]}"
            whole = of_server.format(name=name, s=inside[node]) if several else name
            names.append(whole)
    return tuple(names)


def place_name(f: Fabric, node: int) -> str:
    """Return the name of a node of a direct network: "chip 3 0 2" by its coordinates, or "switch 3 of group 0".

    An endpoint beside a switch has its number among the endpoints, such as "host 8".
    """
    kind = _names(f.kinds[f.kind[node]])[0]
    if not f.transit[node]:
        rank = np.flatnonzero(f.endpoint == node)
        return f"{kind} {rank[0]}" if rank.size else f.name(node)
    if "group" in f.coord_names:
        group = int(f.coordinate("group")[node])
        number = f.name(node).split()[-1].split(".")[-1]
        return text("map.of_group", name=f"{kind} {number}", n=group)
    return f.name(node).replace(".", " ")


def link_in_words(f: Fabric, link: int) -> str:
    """Return the ends of a link, such as "from NIC 3 of server 4 to leaf 5"."""
    spoken = spoken_names(f)
    return text("fabric.link", a=spoken[f.source[link]], b=spoken[f.target[link]])


def rates_in_words(slowest: float, fastest: float) -> str:
    """Return the rates of some cables, such as "25–50 GB/s"; none if no cable works."""
    rates = [plain(units.format_rate(rate)) for rate in (slowest, fastest) if np.isfinite(rate)]
    low, high = rates[0], rates[-1]
    if low == high:
        return low
    number, unit = low.split()
    if unit == high.split()[1]:
        low = number
    return text("fabric.between", low=low, high=high)


def number_in(name: str) -> str:
    """Return the number in the name of a node, such as "3" of "GPU 3 of server 4"; none if it has none."""
    for word in name.split():
        if word.isdigit():
            return word
    return ""


def server_name(family: str, otherwise: str = "") -> str:
    """Return the name by which the server of a topology is known, such as "DGX H100"."""
    return str(table().get(f"server.{family}", otherwise or family))


def holder(f: Fabric) -> str:
    """Return what the GPUs drawn in one frame sit in: a server, or a box of GPUs beside its host."""
    return "box" if "box" in f.coord_names else "server"


# Boxes --------------------------------------------------------------------------------------------


def marks_of(f: Fabric, fold: bool, open: int | None = None, through: bool = False) -> Marks:
    """Return a box for each node, or with ``fold`` a block for each row, and one per rail where it keeps rails apart.

    The members of the block that contains the node ``open`` have a box each. With ``through``, and where nodes
    have a box each, a PCIe switch that only passes on what one GPU and one NIC send is in the box of its NIC.
    """
    node = np.arange(f.n_nodes)
    server = _coordinate(f, holder(f), f.server)
    row = _rows(f, server)
    rail = _rails(f, row)
    nic_of = _passed_through(f) if through and not fold else node
    if np.any(nic_of != node):
        row = row[nic_of]
        lowest = int(row.min())
        row = np.unique(row, return_inverse=True)[1].reshape(row.shape) + lowest

    # Nodes with the same key share a box; boxes are in order of their keys.
    key = row * _ALL_RAILS + rail if fold else row * f.n_nodes + node
    if fold and open is not None:
        inside = key == key[units.count(open, "open", 0, f.n_nodes - 1)]
        # Its members stay at the place of their block.
        key = key * f.n_nodes + np.where(inside, node, 0)
        server = np.where(inside, server[inside].min(), server)
    drawn = np.flatnonzero(nic_of == node)
    _, first, box, count = np.unique(
        key[drawn], return_index=True, return_inverse=True, return_counts=True
    )
    first = drawn[first]
    of_node = np.empty(f.n_nodes, dtype=np.int64)
    of_node[drawn] = box
    of_node = of_node[nic_of]

    names = [
        _mark_name(f, i, n, int(rail[i]))
        for i, n in zip(first.tolist(), count.tolist(), strict=True)
    ]
    row, rail, server = row[first], rail[first], server[first]
    x, width = _places(
        row,
        server,
        end=np.isin(first, f.endpoint),
        fold=fold,
        single=fold & (count == 1),
        passed=_rows_passed(f, row[of_node]),
    )
    return Marks(
        of_node=of_node,
        first=first,
        names=names,
        row=row,
        rail=rail,
        server=server,
        x=x,
        width=width,
        folded=fold,
    )


def _passed_through(f: Fabric) -> Ints:
    """Return for each node (N,) itself or, for a PCIe switch with nothing but one GPU and one NIC, that NIC.

    Servers that hold a single GPU, and a fabric of a single server, keep all their PCIe switches.
    """
    out = np.arange(f.n_nodes)
    if not {"pcie", "nic"} <= set(f.kinds) or np.unique(f.server).size < 2:
        return out
    degree = np.bincount(f.source, minlength=f.n_nodes)
    is_switch = (f.kind == f.kinds.index("pcie")) & (degree == 2)
    to_nic = is_switch[f.source] & (f.kind[f.target] == f.kinds.index("nic"))
    to_end = is_switch[f.source] & np.isin(f.target, f.endpoint)
    both = np.zeros((2, f.n_nodes), dtype=np.int64)
    np.add.at(both[0], f.source[to_nic], 1)
    np.add.at(both[1], f.source[to_end], 1)
    links = np.flatnonzero(to_nic & (both[:, f.source] == 1).all(axis=0))
    out[f.source[links]] = f.target[links]
    return out


def _mark_name(f: Fabric, first: int, count: int, rail: int) -> str:
    """Return the name of a box: that of its only node, or the number of its nodes and, if they have one, their rail."""
    if count == 1:
        return spoken_names(f)[first]
    name = counted(count, f.kinds[f.kind[first]])
    if rail < 0:
        return name
    return f"{name}, {text('fabric.rail', r=rail)}"


def _rows_passed(f: Fabric, row: Ints) -> list[int]:
    """Return the rows that some cable crosses without ending there; ``row`` (N,) is the row of each node."""
    low, high = np.sort(row[[f.source, f.target]], axis=0)  # (L,) rows of the ends of each link
    return [r for r in np.unique(row).tolist() if np.any((low < r) & (r < high))]


def _coordinate(f: Fabric, name: str, of_rank: Any) -> Ints:
    """Return a coordinate of each node (N,), such as its server; for endpoints it is ``of_rank``. -1: none."""
    out = f.coordinate(name)
    out[f.endpoint] = of_rank
    return out


def _rows(f: Fabric, server: Ints) -> Ints:
    """Return the row of each node (N,): one row for each kind in each tier, from the endpoints upwards.

    Switches of a scale-up domain are below the endpoints, in rows with negative numbers.
    """
    end = np.isin(np.arange(f.n_nodes), f.endpoint)
    _, upwards = np.unique(f.tier.astype(np.int64) * 128 + f.kind, return_inverse=True)

    # Switches in a server, and NVLink switches, form the scale-up domain if they only join endpoints or NVLink.
    nvlink_kinds = [i for i, kind in enumerate(f.kinds) if kind.startswith("nv")]
    nvlink = np.isin(f.kind, nvlink_kinds)
    to_others = ~(end | nvlink)[f.target]  # (L,)
    meets_others = np.isin(np.arange(f.n_nodes), f.source[to_others])
    scale_up = ((server >= 0) | nvlink) & ~end & ~meets_others
    row = np.where(scale_up, -np.maximum(f.tier, 1), upwards)

    # Rows without a node are left out; the lowest row that is not of a scale-up domain stays 0.
    level, row = np.unique(row, return_inverse=True)
    return row - np.count_nonzero(level < 0)


def _rails(f: Fabric, row: Ints) -> Ints:
    """Return the rail of each node (N,): its own, or the one that all its neighbours in lower rows share. -1: none."""
    if not 2 <= np.unique(f.rail[f.rail >= 0]).size <= 16:
        return np.full(f.n_nodes, -1)

    rail = _coordinate(f, "rail", f.rail)
    for r in range(1, int(row.max()) + 1):
        from_here = (row[f.source] == r) & (rail[f.source] < 0)
        downwards = (row[f.target] < r) & (row[f.target] >= 0)
        link = from_here & downwards
        lowest = np.full(f.n_nodes, f.n_nodes)
        highest = np.full(f.n_nodes, -1)
        np.minimum.at(lowest, f.source[link], rail[f.target[link]])
        np.maximum.at(highest, f.source[link], rail[f.target[link]])
        rail = np.where(lowest == highest, highest, rail)
    return rail


def _places(
    row: Ints, server: Ints, *, end: Flags, fold: bool, single: Flags, passed: list[int]
) -> tuple[Floats, Floats]:
    """Return the centre and the width of each box (M,).

    Endpoints are side by side, and all other boxes evenly spaced above the endpoints of their server. The members of
    an open block, ``single``, share the room of six blocks if they would need more. In the rows that cables cross,
    ``passed``, boxes are narrower to leave gaps for these cables.
    """
    ends = np.flatnonzero(end)[np.argsort(server[end], kind="stable")]
    room = 8.0 if ends.size == 1 else 1.0  # room for an endpoint
    x = np.zeros(row.size)
    width = np.full(row.size, room - _BLOCK_GAP if fold else 0.8 * room)

    each = np.ones(ends.size)  # room for each endpoint
    if fold:
        n_open = max(1, int(single[ends].sum()))
        each = np.where(single[ends], min(1.0, _OPEN_ROOM / n_open), 1.0)
    width[ends] = np.where(each < 1, 0.8 * each, width[ends])
    x[ends] = np.cumsum(each) - each / 2 - 0.5
    if 1 < np.unique(server[ends]).size < ends.size:  # then servers have frames
        before = np.cumsum(np.diff(server[ends], prepend=server[ends[0]]) != 0)  # servers before it
        x[ends] += _SERVER_GAP * before

    for r, s in np.unique([row[~end], server[~end]], axis=1).T:
        here = np.flatnonzero(~end & (row == r) & (server == s))
        below = x[end & ((server == s) | (s < 0))]
        gap = (np.ptp(below) + room) / here.size
        x[here] = below.min() - room / 2 + gap * (np.arange(here.size) + 0.5)
        if fold:
            width[here] = 0.8 * gap if single[here].any() else gap - _BLOCK_GAP
        elif r < 0:
            width[here] = 0.94 * gap
        else:
            part = 0.6 if r in passed else 0.8
            width[here] = min(part * gap, 2.6)
    return x, width


def boxes_of(m: Marks, foot: float) -> list[ServerBox]:
    """Return the frames around servers and, tinted, around their scale-up domains."""
    left_ends, right_ends = m.x - m.width / 2, m.x + m.width / 2
    low = m.row.min() - foot + 0.34
    out = []
    servers = np.unique(m.server[m.server >= 0])
    for s in servers:
        group = m.server == s if servers.size > 1 else np.ones(m.server.size, dtype=bool)
        if group.sum() == 1:
            continue
        left = left_ends[group].min() - 0.14
        right = right_ends[group].max() + 0.14
        if m.row[group].min() < 0:
            out.append(ServerBox(left + 0.06, right - 0.06, low + 0.06, 0.26, tinted=True))
        out.append(ServerBox(left, right, low, m.row[group].max() + 0.36, tinted=False))
    return out


# Lines --------------------------------------------------------------------------------------------


def lines_of(f: Fabric, m: Marks, share: Floats) -> Lines:
    """Return a line for each pair of boxes that cables join; the rate of a cable is that of its slower direction."""
    one, other = m.of_node[f.source[::2]], m.of_node[f.target[::2]]
    low, high = np.sort([one, other], axis=0)  # (C,) boxes
    return bundles_of(f.capacity, low, high, share, one > other)


def bundles_of(capacity: Floats, low: Ints, high: Ints, share: Floats, turned: Flags) -> Lines:
    """Return a line for each pair of boxes that cables join, where cable i leads from box ``low`` to box ``high``.

    ``capacity`` and ``share`` hold both directions of cable i as numbers 2 i and 2 i + 1; where ``turned``, the
    second of them leads from ``low`` to ``high``.
    """
    n_boxes = 1 + max(int(low.max()), int(high.max()))
    pair, line, cables = np.unique(low * n_boxes + high, return_inverse=True, return_counts=True)
    a, b = np.divmod(pair, n_boxes)

    # Cables sorted by line; the cables of line i begin at start[i].
    order = np.argsort(line, kind="stable")
    start = np.cumsum(cables) - cables
    rate = np.minimum(capacity[::2], capacity[1::2])[order]
    working = np.where(rate > 0, rate, np.inf)
    forth, back = share[::2], share[1::2]
    fuller = np.maximum(forth, back)[order]
    up = np.where(turned, back, forth)[order]
    down = np.where(turned, forth, back)[order]
    return Lines(
        a=a,
        b=b,
        cables=cables,
        failed=np.add.reduceat(rate == 0, start, dtype=np.int64),
        slowest=np.minimum.reduceat(working, start),
        fastest=np.maximum.reduceat(rate, start),
        total=np.add.reduceat(rate, start),
        load=np.add.reduceat(fuller, start) / cables,
        fullest=np.maximum.reduceat(fuller, start),
        back=np.maximum.reduceat(down, start) > np.maximum.reduceat(up, start),
    )


def arc_room(m: Marks, k: Lines) -> float:
    """Return the room below the lowest row for the arcs of cables within it: more room for many cables."""
    lowest = m.row.min()
    n_arcs = np.sum((m.row[k.a] == lowest) & (m.row[k.b] == lowest))
    if not n_arcs:
        return 0.0
    return 0.5 if n_arcs <= _FEW_ARCS else 1.5


def paths_of(m: Marks, k: Lines) -> list[Floats]:
    """Return the points of each line, in the units of `Marks`.

    A line from row to row is a curve that leaves and arrives upright, and passes the rows in between through gaps;
    within a row it is an arc.
    """
    gaps = [_gaps(m, a, b) for a, b in zip(k.a.tolist(), k.b.tolist(), strict=True)]
    # A line leaves each of its boxes towards the nearest gap or, without a gap, towards its other end.
    first = np.array([g[0][0] if g else m.x[b] for g, b in zip(gaps, k.b, strict=True)])
    last = np.array([g[-1][0] if g else m.x[a] for g, a in zip(gaps, k.a, strict=True)])
    starts = _ports(m, k.a, k.b, first)
    ends = _ports(m, k.b, k.a, last)

    longest = max(float(np.abs(m.x[k.a] - m.x[k.b]).max()), 1.0)
    room = arc_room(m, k)
    lowest = m.row.min()
    out = []
    for a, b, start, end, between in zip(k.a, k.b, starts, ends, gaps, strict=True):
        low, high = m.row[a] + HALF_HEIGHT, m.row[b] - HALF_HEIGHT
        if m.row[a] != m.row[b]:
            corners = [np.array([start, low]), *between, np.array([end, high])]
            out.append(upright(corners))
            continue
        half = max(end - start, m.width[a] * 0.5) / 2
        deepest = room - 0.05 if m.row[a] == lowest else 0.45
        depth = 0.08 + deepest * min(2 * half / longest, 1.0)
        out.append(_arc((start + end) / 2, high, half, depth))
    return out


def _arc(x: float, y: float, half: float, depth: float) -> Floats:
    """Return points on the lower half of an ellipse around the point (x, y)."""
    turn = np.linspace(0, np.pi, 33)
    return np.stack([x - half * np.cos(turn), y - depth * np.sin(turn)], axis=1)


def along_curve(n: int) -> Floats:
    """Return n places from 0 to 1 along a curve, the closer to each other the nearer to its ends, where it bends."""
    return np.asarray((1 - np.cos(np.linspace(0, np.pi, n))) / 2)


@cache
def _upright_part() -> Floats:
    """Return points (P, 2) of an upright curve from (0, 0) to (1, 1)."""
    along = along_curve(_CURVE)
    # A cubic Bezier curve whose handles are upright and half as long as the part is high.
    across = along**2 * (3 - 2 * along)
    rise = 1.5 * along * (1 - along) + along**3
    return np.stack([across, rise], axis=1)


def upright(corners: Sequence[Floats]) -> Floats:
    """Return points (P, 2) of a curve through corners; each part is a Bezier curve that is upright at both ends."""
    parts = [np.array(corners[:1])]
    for start, end in itertools.pairwise(corners):
        if start[0] == end[0]:
            parts.append(end[None])
            continue
        parts.append((start + _upright_part() * (end - start))[1:])
    return np.concatenate(parts)


def _gaps(m: Marks, a: int, b: int) -> list[Floats]:
    """Return points in gaps of the rows between two boxes, through which a line passes from ``a`` up to ``b``."""
    x = m.x[a]
    points = []
    for r in range(int(m.row[a]) + 1, int(m.row[b])):
        centre = m.x[m.row == r]
        half = m.width[m.row == r] / 2
        x += 0.1 * (m.x[b] - x)  # of two equally distant gaps, take the one nearer to b
        # Of all places, straight on or just beside a box, take the nearest that hits no box.
        places = np.concatenate([[x], centre - half - _BESIDE, centre + half + _BESIDE])
        clear = np.abs(places[:, None] - centre) > half + 0.9 * _BESIDE  # (places, boxes)
        free = places[np.all(clear, axis=1)]
        x = free[np.argmin(np.abs(free - x))]
        points += [np.array([x, r - 0.2]), np.array([x, r + 0.2])]
    return points


def _ports(m: Marks, box: Ints, other: Ints, towards: Floats) -> Floats:
    """Return the x at which each line leaves its box: near ``towards``, but at a distance from its neighbours."""
    x = np.empty(box.size)
    for i in np.unique(box):
        here = np.flatnonzero(box == i)
        # A single line leaves from the middle, unless its box is much wider than the box at its other end.
        half = 0.0
        if here.size > 1 or m.width[i] > 1.5 * m.width[other[here[0]]]:
            half = float(_half_edge(m.width[i]))
        gap = min(_PORT_GAP, 2 * half / max(here.size - 1, 1))
        x[here] = spread(towards[here], gap, m.x[i] - half, m.x[i] + half)
    return x


def _half_edge(width: ArrayLike) -> Floats:
    """Return half the part of the edges of boxes of a width at which lines leave them."""
    return np.asarray(np.asarray(width) / 2 - 0.06)


def port_gaps(m: Marks, k: Lines) -> Floats:
    """Return the distance of each line (L,) from its neighbours at its boxes, at the end with less room."""
    gaps = np.full(k.a.size, _PORT_GAP)
    for box in (k.a, k.b):
        lines_of_box = np.bincount(box, minlength=m.x.size)[box]
        room = 2 * _half_edge(m.width[box])
        gaps = np.minimum(
            gaps, np.where(lines_of_box > 1, room / np.maximum(lines_of_box - 1, 1), _PORT_GAP)
        )
    return np.asarray(gaps)


def part_apart(width: Floats, gap: Floats, of_pair: Ints, busy: Flags) -> Floats:
    """Return what part of its width each line (L,) has, so that lines that leave a box side by side are no one area.

    All lines between two rows have the same part, so that of two the fuller stays the wider.

    Parameters
    ----------
    width, gap : ndarray, shape (L,)
        Full width of each line, and its distance from its neighbours at its boxes. [px]
    of_pair : ndarray, shape (L,)
        Number of the pair of rows that each line joins.
    busy : ndarray, shape (L,)
        Whether a line is in use; others are hairlines.
    """
    part = np.ones(of_pair.max(initial=0) + 1)
    room = np.maximum(_OF_GAP * gap, _LEAST_APART)
    np.minimum.at(part, of_pair[busy], (room / width)[busy])
    return np.asarray(part[of_pair])


# Colours and words --------------------------------------------------------------------------------


def colours_of(colour: str, load: Floats, failed: ArrayLike, place: NDArray[Any]) -> Floats:
    """Return the colour of each line or cell, which shows its load, a failure, or its tier, rail or axis, ``place``."""
    if colour == "failure":
        return np.where(failed, COLOUR["failed"], COLOUR["grey"])
    return shade(load) if colour == "load" else coloured(place)


def line_look(k: Lines, colour: str, place: NDArray[Any], width: Floats) -> dict[str, ArrayLike]:
    """Return the look of cables that are ``width`` px wide: those without load are hairlines, others full of packets.

    A line all of whose cables have failed is broken. ``place`` is the row or rail whose colour a line has where
    ``colour`` says so; then lines with little load are pale.
    """
    dead = k.failed == k.cables
    busy = np.nan_to_num(k.fullest) > 0
    strength: ArrayLike = 1.0
    if colour == "load":
        hue = np.where(busy, shade(k.fullest), COLOUR["hair"])
    else:  # then only the opacity tells a busy line from an idle one
        hue = graded(place) if colour == "tier" else colours_of(colour, k.fullest, k.failed, place)
        strength = 1 - 0.75 * (1 - np.clip(np.nan_to_num(k.fullest, nan=1.0), 0, 1))
    look: dict[str, ArrayLike] = {
        "width": np.where(dead, 1.2, width),
        "colour": np.where(dead, COLOUR["failed"], hue),
        "alpha": np.where(dead, 1.0, strength),
        "form": np.where(dead, FORM["failed"], FORM["plain"]),
    }
    if busy.any() and colour == "load":
        look["flow"] = np.clip(np.nan_to_num(k.fullest), 0, 1)
    return look


def bundled(k: Lines) -> bool:
    """Return whether a line in use stands for several cables, so that its colour is that of the fullest."""
    return bool(np.any((k.cables > 1) & (np.nan_to_num(k.fullest) > 0)))


def soft(words: Layer) -> Layer:
    """Return texts in the colour of what only explains."""
    return replace(words, fields={**words.fields, "colour": COLOUR["soft"]})


def colour_sentence(
    colour: str, load: Floats, places: NDArray[Any], failed: int, parts: int
) -> str:
    """Return a sentence on what the colours show, for readers who cannot see them.

    Parameters
    ----------
    colour : str
        What the colours stand for: load, tier, rail or failure.
    load : ndarray
        The loads that are shown; NaN where none is given.
    places : ndarray
        Tier or rail of each line or cell; -1 where it has none.
    failed, parts : int
        Number of cables or endpoints that have failed, and of all.
    """
    percent = 100 * load[np.isfinite(load)]
    if colour == "load" and not percent.size:
        return ""
    n_places = np.unique(places[places >= 0]).size
    sentence = text(
        SAYS[colour],
        low=percent.min(initial=1e9),
        high=percent.max(initial=0),
        failed=failed,
        all=parts,
        n=n_places,
    )
    if colour in ("tier", "rail") and n_places > len(KEYS):
        sentence += " " + text("fabric.repeats", n=len(KEYS))
    return sentence


def readable(m: Marks, k: Lines) -> dict[str, list[str]]:
    """Return the names of lines, and the note that appears when a reader points at one."""
    in_server = (m.server[k.a] >= 0) & (m.server[k.a] == m.server[k.b])
    # Many lines have the same cables or the same load, and so the same words.
    cables = zip(k.cables.tolist(), in_server.tolist(), k.fastest.tolist(), strict=True)
    loads = zip(k.cables.tolist(), k.load.tolist(), k.fullest.tolist(), strict=True)
    said_of_cables: dict[Any, str] = {}
    said_of_load: dict[Any, str] = {}
    notes = []
    for of_cables, failed, of_load in zip(cables, k.failed.tolist(), loads, strict=True):
        if of_cables not in said_of_cables:
            said_of_cables[of_cables] = _cable_words(*of_cables)
        words = [said_of_cables[of_cables]]
        if failed:
            words.append(text("fabric.failed_here", n=failed))
        if not np.isnan(of_load[1]):
            if of_load not in said_of_load:
                said_of_load[of_load] = _load_words(*of_load)
            words.append(said_of_load[of_load])
        notes.append(", ".join(words))
    names = [f"{m.names[a]} – {m.names[b]}" for a, b in zip(k.a, k.b, strict=True)]
    return {"names": names, "notes": notes}


def _cable_words(cables: int, in_server: bool, fastest: float) -> str:
    """Return the number of cables of a line, and the rate of the fastest."""
    number = counted(cables, "link" if in_server else "cable")
    return f"{number}, {units.format_rate(fastest)}"


def _load_words(cables: int, load: float, fullest: float) -> str:
    """Return the load of a line in words; where it is a mean, they name the fullest cable, too."""
    if cables > 1 and fullest > 0:
        return text("fabric.mean", percent=100 * load, most=100 * fullest)
    return in_load(load)


def in_load(share: float) -> str:
    """Return a load in words, from a fraction of the capacity; a link without any is "idle", as the scale says."""
    return text("fabric.load", percent=100 * share) if share > 0 else text("fabric.idle")


def _listed(f: Fabric, nodes: Any, *more: str) -> str:
    """Return the number of nodes of each kind and ``more``, in words such as "4 leaves, 1 spine and 16 cables"."""
    kinds, numbers = np.unique(f.kind[nodes], return_counts=True)
    words = [counted(int(n), f.kinds[kind]) for kind, n in zip(kinds, numbers, strict=True)]
    *others, last = [*words, *more]
    if not others:
        return last
    return ", ".join(others) + text("word.and") + last


def clauses_of(placed: Placed) -> list[str]:
    """Return the facts about a picture of a fabric: the fullest link first, then failures, then the parts."""
    f = placed.fabric
    clauses = []
    if np.isfinite(placed.share).all():
        link = int(np.argmax(placed.share))
        percent = 100 * placed.share[link]
        clauses.append(text("fabric.fullest", link=link_in_words(f, link), percent=percent))
    failed = int(placed.lines.failed.sum())
    if failed:
        clauses.append(text("fabric.failed", n=failed, all=f.n_cables))

    in_no_server = placed.marks.server[placed.marks.of_node] < 0
    outside = in_no_server & ~np.isin(np.arange(f.n_nodes), f.endpoint)
    # Connections on the boards of a server do not count as cables of the network.
    cables = int(np.sum(outside[f.source[::2]] | outside[f.target[::2]])) or f.n_cables
    ends = _listed(f, f.endpoint)
    servers = int(f.summary()["servers"])
    if 1 < servers < f.n_ranks:
        ends += " " + text(f"fabric.in_{holder(f)}", n=servers)
    over = _listed(f, outside, counted(cables, "cable"))
    clauses.append(text("fabric.meet", ends=ends, over=over))
    clauses.append(text("fabric.drawn", list=_listed(f, slice(None))))
    return clauses


def scene_with_words(
    placed: Placed,
    layers: Mapping[str, Layer],
    height: float,
    *,
    said: str,
    colours: str,
    within: str = "",
) -> Scene:
    """Return the scene of a fabric: its layers with a sentence, alternative text and a table.

    Parameters
    ----------
    placed : Placed
        The fabric, with its boxes and lines.
    layers, height : mapping of str to Layer, float
        The drawing, and its height. [px]
    said : str
        The sentence above the picture; if empty, the first fact of `clauses_of`.
    colours : str
        A sentence on what the colours show.
    within : str
        What the table says, if not empty, in place of the target of a line that leads back to its own box.
    """
    clauses = clauses_of(placed)
    sentence = said
    if not said:
        first = clauses.pop(0)
        sentence = first[:1].upper() + first[1:] + "."
    alt = "; ".join([sentence.rstrip("."), *clauses]) + f". {colours}"
    return Scene(sentence, as_table(placed, within), layers, height, alt)


def as_table(placed: Placed, within: str = "") -> Table:
    """Return a row for each line: its ends, its cables, their total rate, and their load."""
    k = placed.lines
    names = placed.marks.names
    targets = []
    for a, b in zip(k.a, k.b, strict=True):
        targets.append(within if a == b and within else names[b])
    return Table(
        {
            "from": [names[a] for a in k.a],
            "to": targets,
            "cables": k.cables,
            "failed": k.failed,
            "together [B/s]": k.total,
            "load": k.load,
            "fullest": k.fullest,
        }
    )
