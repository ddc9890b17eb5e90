"""Layout of a fabric: which boxes and lines stand for its nodes and cables, where they are, and their words."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import Fabric, Flags, Floats, Ints
from fabriclab.texts import table, text
from fabriclab.views.page import Table, spread
from fabriclab.views.scene import COLOUR, KEYS, Layer, Scene, coloured, shade

SAYS = {mode: f"fabric.says_{mode}" for mode in ("load", "tier", "rail", "failure")}
_FEW_ARCS = 12  # cables within a row that are told apart in little room
_BESIDE = 0.09  # distance of a line from a box that it passes
_SERVER_GAP = 0.9  # room between the endpoints of two servers
_OPEN_ROOM = 6.0  # room of an open block, if its members need more than one place
_BLOCK_GAP = 0.28  # between two blocks
_ALL_RAILS = 64  # more than a fabric has
_HALF_HEIGHT = 0.17  # of a box


class Marks(NamedTuple):
    """M boxes, row by row: nodes, or blocks of nodes. A unit of x is the room of one endpoint, of y that of a row."""

    of_node: Ints  # (N,) the box of each node; the others are (M,)
    first: Ints  # lowest node
    names: list[str]
    row: Ints
    rail: Ints  # -1 where it holds several rails
    server: Ints  # -1 where it belongs to none
    x: Floats
    width: Floats
    folded: bool  # whether a box may stand for several nodes


class Lines(NamedTuple):
    """K lines from a box to one in the same row or above: all cables between the two."""

    a: Ints
    b: Ints
    cables: Ints
    failed: Ints
    slowest: Floats  # of the cables that work, [B/s]
    fastest: Floats
    total: Floats  # [B/s]
    load: Floats  # mean of the cables, each in its fuller direction, as a part of capacity; NaN where none is given
    fullest: Floats  # of them


class Placed(NamedTuple):
    """A fabric in one picture: the boxes of its nodes, and the lines of its cables."""

    fabric: Fabric
    marks: Marks
    lines: Lines
    share: Floats  # (L,) load of each link as a part of its capacity; NaN where none is given


class ServerBox(NamedTuple):
    """A box around the boxes of a server or, tinted, of its scale-up domain, in the units of `Marks`."""

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
    """Return the name of a kind of nodes where there is little room."""
    singular, _, *shorter = _names(kind)
    return shorter[0] if shorter else singular


def _names(kind: str) -> list[str]:
    """Return singular and plural of a kind of nodes and, where there is one, its short name."""
    return table().get(f"kind.{kind}", f"{kind}|{kind}s").split("|")


def holder(f: Fabric) -> str:
    """Return what holds the GPUs that a picture keeps together: a server, or a box that a host stands beside."""
    return "box" if "box" in f.coord_names else "server"


# Boxes --------------------------------------------------------------------------------------------


def marks_of(f: Fabric, fold: bool, open: int | None = None) -> Marks:
    """Return a box for each node, or with ``fold`` a block for each kind, one per rail where it keeps rails apart.

    The members of the block with the node ``open`` have a box each.
    """
    node = np.arange(f.n_nodes)
    server = _coordinate(f, "server", f.server)
    row = _rows(f, server)
    rail = _rails(f, row)

    # Nodes with the same key share a box; boxes are in order of their keys.
    key = row * _ALL_RAILS + rail if fold else row * f.n_nodes + node
    if fold and open is not None:
        inside = key == key[units.count(open, "open", 0, f.n_nodes - 1)]
        # They keep the place of their block.
        key = key * f.n_nodes + np.where(inside, node, 0)
        server = np.where(inside, server[inside].min(), server)
    _, first, of_node, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )

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


def _mark_name(f: Fabric, first: int, count: int, rail: int) -> str:
    """Return the name of a node, or of a block of several with their rail if they have one."""
    if count == 1:
        return f.name(first)
    name = counted(count, f.kinds[f.kind[first]])
    if rail < 0:
        return name
    return f"{name}, {text('fabric.rail', r=rail)}"


def _rows_passed(f: Fabric, row: Ints) -> list[int]:
    """Return the rows that some cable passes without an end there, from the row of each node (N,)."""
    low, high = np.sort(row[[f.source, f.target]], axis=0)  # (L,) rows of the ends of each link
    return [r for r in np.unique(row).tolist() if np.any((low < r) & (r < high))]


def _coordinate(f: Fabric, name: str, of_rank: Any) -> Ints:
    """Return rail or server of each node (N,), -1 where it has none."""
    out = f.coordinate(name)
    out[f.endpoint] = of_rank
    return out


def _rows(f: Fabric, server: Ints) -> Ints:
    """Return the row of each node (N,): tiers upwards, kinds apart; scale-up switches go down from their endpoints."""
    end = np.isin(np.arange(f.n_nodes), f.endpoint)
    _, upwards = np.unique(f.tier.astype(np.int64) * 128 + f.kind, return_inverse=True)

    # Switches within a server, or of NVLink, that meet endpoints or NVLink only are their scale-up domain.
    nvlink_kinds = [i for i, kind in enumerate(f.kinds) if kind.startswith("nv")]
    nvlink = np.isin(f.kind, nvlink_kinds)
    to_others = ~(end | nvlink)[f.target]  # (L,)
    meets_others = np.isin(np.arange(f.n_nodes), f.source[to_others])
    scale_up = ((server >= 0) | nvlink) & ~end & ~meets_others
    row = np.where(scale_up, -np.maximum(f.tier, 1), upwards)

    # Rows without a node are left out; the first one from 0 upwards stays 0.
    level, row = np.unique(row, return_inverse=True)
    return row - np.count_nonzero(level < 0)


def _rails(f: Fabric, row: Ints) -> Ints:
    """Return the rail of each node (N,): its own, or that of all its neighbours in the rows below."""
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
    """Return centre and width of boxes (M,): endpoints side by side, others evenly above those of their server.

    The members of an open block, ``single``, share the room of six blocks, if they need more. Boxes of the
    rows ``passed`` by cables leave gaps for these.
    """
    ends = np.flatnonzero(end)[np.argsort(server[end], kind="stable")]
    room = 8.0 if ends.size == 1 else 1.0  # of an endpoint
    x = np.zeros(row.size)
    width = np.full(row.size, room - _BLOCK_GAP if fold else 0.8 * room)

    each = np.ones(ends.size)  # room of each endpoint
    if fold:
        n_open = max(1, int(single[ends].sum()))
        each = np.where(single[ends], min(1.0, _OPEN_ROOM / n_open), 1.0)
    width[ends] = np.where(each < 1, 0.8 * each, width[ends])
    x[ends] = np.cumsum(each) - each / 2 - 0.5
    if 1 < np.unique(server[ends]).size < ends.size:  # there are boxes around servers
        before = np.cumsum(np.diff(server[ends], prepend=server[ends[0]]) != 0)  # servers
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
    """Return the boxes around servers and, tinted, their scale-up domains."""
    left_ends, right_ends = m.x - m.width / 2, m.x + m.width / 2
    low = m.row.min() - foot + 0.34
    out = []
    for s in np.unique(m.server[m.server >= 0]):
        group = m.server == s
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
    """Return a line for each pair of boxes with cables between them; a cable is as fast as its slower direction."""
    # Links 2 i and 2 i + 1 are the two directions of cable i.
    low, high = np.sort(m.of_node[[f.source[::2], f.target[::2]]], axis=0)  # (C,) boxes
    pair, line, cables = np.unique(low * m.row.size + high, return_inverse=True, return_counts=True)
    a, b = np.divmod(pair, m.row.size)

    # Cables in order of their lines; those of line i begin at start[i].
    order = np.argsort(line, kind="stable")
    start = np.cumsum(cables) - cables
    rate = np.minimum(f.capacity[::2], f.capacity[1::2])[order]
    working = np.where(rate > 0, rate, np.inf)
    fuller = np.maximum(share[::2], share[1::2])[order]
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
    )


def arc_room(m: Marks, k: Lines) -> float:
    """Return the room below the lowest row for cables within it; many need more to stay apart."""
    lowest = m.row.min()
    n_arcs = np.sum((m.row[k.a] == lowest) & (m.row[k.b] == lowest))
    if not n_arcs:
        return 0.0
    return 0.5 if n_arcs <= _FEW_ARCS else 1.5


def paths_of(m: Marks, k: Lines) -> list[Floats]:
    """Return the points of each line: straight from row to row, through gaps of rows between, an arc within a row."""
    gaps = [_gaps(m, a, b) for a, b in zip(k.a.tolist(), k.b.tolist(), strict=True)]
    # The first and the last gap, or else the other end, is what a line leaves its boxes for.
    first = np.array([g[0][0] if g else m.x[b] for g, b in zip(gaps, k.b, strict=True)])
    last = np.array([g[-1][0] if g else m.x[a] for g, a in zip(gaps, k.a, strict=True)])
    starts = _ports(m, k.a, k.b, first)
    ends = _ports(m, k.b, k.a, last)

    longest = max(float(np.abs(m.x[k.a] - m.x[k.b]).max()), 1.0)
    room = arc_room(m, k)
    lowest = m.row.min()
    out = []
    for a, b, start, end, between in zip(k.a, k.b, starts, ends, gaps, strict=True):
        low, high = m.row[a] + _HALF_HEIGHT, m.row[b] - _HALF_HEIGHT
        if m.row[a] != m.row[b]:
            out.append(np.array([[start, low], *between, [end, high]]))
            continue
        half = max(end - start, m.width[a] * 0.5) / 2
        deepest = room - 0.05 if m.row[a] == lowest else 0.45
        depth = 0.08 + deepest * min(2 * half / longest, 1.0)
        out.append(_arc((start + end) / 2, high, half, depth))
    return out


def _arc(x: float, y: float, half: float, depth: float) -> Floats:
    """Return the points of the lower half of an ellipse around a point (x, y)."""
    turn = np.linspace(0, np.pi, 16)
    return np.stack([x - half * np.cos(turn), y - depth * np.sin(turn)], axis=1)


def _gaps(m: Marks, a: int, b: int) -> list[Floats]:
    """Return the points in the gaps of the rows between two boxes through which a line passes, from the lower one."""
    x = m.x[a]
    points = []
    for r in range(int(m.row[a]) + 1, int(m.row[b])):
        centre = m.x[m.row == r]
        half = m.width[m.row == r] / 2
        x += 0.1 * (m.x[b] - x)  # of two gaps at the same distance it takes the one towards its end
        # Straight on, or just beside one of the boxes: whatever of these is nearest and hits no box.
        places = np.concatenate([[x], centre - half - _BESIDE, centre + half + _BESIDE])
        clear = np.abs(places[:, None] - centre) > half + 0.9 * _BESIDE  # (places, boxes)
        free = places[np.all(clear, axis=1)]
        x = free[np.argmin(np.abs(free - x))]
        points += [np.array([x, r - 0.2]), np.array([x, r + 0.2])]
    return points


def _ports(m: Marks, box: Ints, other: Ints, towards: Floats) -> Floats:
    """Return where each line leaves its box: towards the other end or the gap before it, apart from its neighbours."""
    x = np.empty(box.size)
    for i in np.unique(box):
        here = np.flatnonzero(box == i)
        # A single line leaves in the middle, unless its box is much wider than the other one.
        half = 0.0
        if here.size > 1 or m.width[i] > 1.5 * m.width[other[here[0]]]:
            half = m.width[i] / 2 - 0.06
        gap = min(0.25, 2 * half / max(here.size - 1, 1))
        x[here] = spread(towards[here], gap, m.x[i] - half, m.x[i] + half)
    return x


# Colours and words --------------------------------------------------------------------------------


def colours_of(colour: str, load: Floats, failed: ArrayLike, place: NDArray[Any]) -> Floats:
    """Return the colour of each line or cell: of its load, of a failure, or of its place."""
    if colour == "failure":
        return np.where(failed, COLOUR["failed"], COLOUR["grey"])
    return shade(load) if colour == "load" else coloured(place)


def colour_sentence(
    colour: str, load: Floats, places: NDArray[Any], failed: int, parts: int
) -> str:
    """Return what the colours say, for those who do not see them.

    Parameters
    ----------
    colour : str
        What they stand for: load, tier, rail or failure.
    load : ndarray
        Loads that are shown; NaN where none is given.
    places : ndarray
        Tier or rail of each line or cell; -1 where it has none.
    failed, parts : int
        How many cables or endpoints have failed, and how many there are.
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
    """Return the names of lines, and the notes that a reader of one line is told."""
    in_server = (m.server[k.a] >= 0) & (m.server[k.a] == m.server[k.b])
    return {
        "names": [f"{m.names[a]} – {m.names[b]}" for a, b in zip(k.a, k.b, strict=True)],
        "notes": [_line_note(k, i, bool(in_server[i])) for i in range(k.a.size)],
    }


def _line_note(k: Lines, i: int, in_server: bool) -> str:
    """Return how many cables a line stands for, the rate of the fastest, how many have failed, and their load."""
    words = [
        counted(int(k.cables[i]), "link" if in_server else "cable"),
        units.format_rate(float(k.fastest[i])),
    ]
    if k.failed[i]:
        words.append(text("fabric.failed_here", n=k.failed[i]))
    if not np.isnan(k.load[i]):
        key = (
            "fabric.mean" if k.cables[i] > 1 else "fabric.load"
        )  # only the mean names the fullest, too
        words.append(text(key, percent=100 * k.load[i], most=100 * k.fullest[i]))
    return ", ".join(words)


def _listed(f: Fabric, nodes: Any, *more: str) -> str:
    """Return how many of the nodes there are of each kind, as in "4 leaves, 1 spine and 16 cables"."""
    kinds, numbers = np.unique(f.kind[nodes], return_counts=True)
    words = [counted(int(n), f.kinds[kind]) for kind, n in zip(kinds, numbers, strict=True)]
    *others, last = [*words, *more]
    if not others:
        return last
    return ", ".join(others) + text("word.and") + last


def clauses_of(placed: Placed) -> list[str]:
    """Return the facts of a picture of a fabric: load first, then failures, then the parts."""
    f = placed.fabric
    clauses = []
    if np.isfinite(placed.share).all():
        link = int(np.argmax(placed.share))
        percent = 100 * placed.share[link]
        clauses.append(text("fabric.fullest", link=f.link_name(link), percent=percent))
    failed = int(placed.lines.failed.sum())
    if failed:
        clauses.append(text("fabric.failed", n=failed, all=f.n_cables))

    in_no_server = placed.marks.server[placed.marks.of_node] < 0
    outside = in_no_server & ~np.isin(np.arange(f.n_nodes), f.endpoint)
    # Connections on the boards of a server are no cables of the network.
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
    """Return the scene of a fabric with its words and its table.

    Parameters
    ----------
    placed : Placed
        The fabric, and what of it is drawn.
    layers, height : mapping of str to Layer, float
        The picture. [px]
    said : str
        The sentence above it; if empty, the first fact.
    colours : str
        What the colours say.
    within : str
        What the table says instead of the name of a box that a line leads back to.
    """
    clauses = clauses_of(placed)
    sentence = said
    if not said:
        first = clauses.pop(0)
        sentence = first[:1].upper() + first[1:] + "."
    alt = "; ".join([sentence.rstrip("."), *clauses]) + f". {colours}"
    return Scene(sentence, as_table(placed, within), layers, height, alt)


def as_table(placed: Placed, within: str = "") -> Table:
    """Return a row for each line: its ends, its cables, what they carry together, and their load."""
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
