"""Layout of a fabric: which boxes and lines stand for its nodes and cables, where, and what is told of them."""

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
_BESIDE = 0.09  # way of a line past a box


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


def counted(number: int, kind: str) -> str:
    """Return a number of nodes or cables with their kind, such as "1,024 GPUs"."""
    return f"{number:,} {_names(kind)[number != 1]}"


def short(kind: str) -> str:
    """Return the name of a kind of nodes where there is little room."""
    return (_names(kind)[2:] or _names(kind))[0]


def _names(kind: str) -> list[str]:
    return table().get(f"kind.{kind}", f"{kind}|{kind}s").split("|")


def marks_of(f: Fabric, fold: bool, open: int | None = None) -> Marks:
    """Return a box for each node, or with ``fold`` a block for each kind, one per rail where it keeps rails apart.

    The members of the block with the node ``open`` have a box each.
    """
    server = _coordinate(f, "server", f.server)
    row = _rows(f, server)
    rail = _rails(f, row)
    key = row * 64 + rail if fold else row * f.n_nodes + np.arange(f.n_nodes)
    if fold and open is not None:
        inside = key == key[units.count(open, "open", 0, f.n_nodes - 1)]
        # they keep the place of their block
        key = key * f.n_nodes + np.where(inside, np.arange(f.n_nodes), 0)
        server = np.where(inside, server[inside].min(), server)
    _, first, of_node, count = np.unique(
        key, return_index=True, return_inverse=True, return_counts=True
    )
    names = []
    for n, i in zip(count.tolist(), first.tolist(), strict=True):
        rails = ", " + text("fabric.rail", r=rail[i]) if rail[i] >= 0 else ""
        names.append(f.name(i) if n == 1 else counted(n, f.kinds[f.kind[i]]) + rails)
    row, rail, server = row[first], rail[first], server[first]
    a, b = np.sort(row[of_node[[f.source, f.target]]], axis=0)
    passed = [r for r in np.unique(row).tolist() if np.any((a < r) & (r < b))]
    x, width = _places(row, server, np.isin(first, f.endpoint), fold, fold & (count == 1), passed)
    return Marks(of_node, first, names, row, rail, server, x, width, fold)


def _coordinate(f: Fabric, name: str, of_rank: Any) -> Ints:
    """Return rail or server of each node (N,), -1 where it has none."""
    out = f.coordinate(name)
    out[f.endpoint] = of_rank
    return out


def _rows(f: Fabric, server: Ints) -> Ints:
    """Return the row of each node (N,): tiers upwards, kinds apart; scale-up switches go down from their endpoints."""
    end = np.isin(np.arange(f.n_nodes), f.endpoint)
    _, row = np.unique(f.tier.astype(np.int64) * 128 + f.kind, return_inverse=True)
    # Switches within a server, or of NVLink, that meet endpoints or NVLink only are their scale-up domain.
    nvlink = np.isin(f.kind, [i for i, kind in enumerate(f.kinds) if kind.startswith("nv")])
    meets = np.isin(np.arange(f.n_nodes), f.source[~(end | nvlink)[f.target]])
    row = np.where(((server >= 0) | nvlink) & ~end & ~meets, -np.maximum(f.tier, 1), row)
    level, row = np.unique(row, return_inverse=True)
    return row - np.count_nonzero(level < 0)


def _rails(f: Fabric, row: Ints) -> Ints:
    """Return the rail of each node (N,): its own, or that of all its neighbours in the rows below."""
    rail = _coordinate(f, "rail", f.rail)
    for r in range(1, int(row.max()) + 1):
        down = (
            (row[f.source] == r) & (row[f.target] < r) & (row[f.target] >= 0) & (rail[f.source] < 0)
        )
        low, high = np.full(f.n_nodes, f.n_nodes), np.full(f.n_nodes, -1)
        np.minimum.at(low, f.source[down], rail[f.target[down]])
        np.maximum.at(high, f.source[down], rail[f.target[down]])
        rail = np.where(low == high, high, rail)
    return rail if 2 <= np.unique(f.rail[f.rail >= 0]).size <= 16 else np.full(f.n_nodes, -1)


def _places(
    row: Ints, server: Ints, end: Flags, fold: bool, single: Flags, passed: list[int]
) -> tuple[Floats, Floats]:
    """Return centre and width of boxes: endpoints side by side, others evenly above those of their server.

    The members of an open block, ``single``, share the room of six blocks, if they need more. Boxes of the
    rows ``passed`` by cables leave gaps for these.
    """
    ends = np.flatnonzero(end)[np.argsort(server[end], kind="stable")]
    room = 8.0 if ends.size == 1 else 1.0
    x, width = np.zeros(row.size), np.full(row.size, room - 0.28 if fold else 0.8 * room)
    boxed = 1 < np.unique(server[ends]).size < ends.size
    each = (
        np.where(single[ends], min(1.0, 6.0 / max(1, int(single[ends].sum()))), 1.0)
        if fold
        else np.ones(ends.size)
    )
    width[ends] = np.where(each < 1, 0.8 * each, width[ends])
    x[ends] = np.cumsum(each) - each / 2 - 0.5
    x[ends] += 0.9 * boxed * np.cumsum(np.diff(server[ends], prepend=server[ends[0]]) != 0)
    for r, s in np.unique([row[~end], server[~end]], axis=1).T:
        here = np.flatnonzero(~end & (row == r) & (server == s))
        among = x[end & ((server == s) | (s < 0))]
        gap = (np.ptp(among) + room) / here.size
        x[here] = among.min() - room / 2 + gap * (np.arange(here.size) + 0.5)
        if fold:
            width[here] = 0.8 * gap if single[here].any() else gap - 0.28
        else:
            width[here] = 0.94 * gap if r < 0 else min((0.6 if r in passed else 0.8) * gap, 2.6)
    return x, width


def boxes_of(m: Marks, foot: float) -> list[tuple[float, float, float, float, bool]]:
    """Return left, right, lower and upper end of the boxes around servers and, tinted, their scale-up domains."""
    low, out = m.row.min() - foot + 0.34, []
    for s in np.unique(m.server[m.server >= 0]):
        group = m.server == s
        if group.sum() == 1:
            continue
        left, right = (
            (m.x - m.width / 2)[group].min() - 0.14,
            (m.x + m.width / 2)[group].max() + 0.14,
        )
        if m.row[group].min() < 0:
            out.append((left + 0.06, right - 0.06, low + 0.06, 0.26, True))
        out.append((left, right, low, m.row[group].max() + 0.36, False))
    return out


def lines_of(f: Fabric, m: Marks, share: Floats) -> Lines:
    """Return a line for each pair of boxes with cables between them; a cable is as fast as its slower direction."""
    ends = np.sort(m.of_node[[f.source[::2], f.target[::2]]], axis=0)
    pair, line, cables = np.unique(
        ends[0] * m.row.size + ends[1], return_inverse=True, return_counts=True
    )
    order, start = np.argsort(line, kind="stable"), np.cumsum(cables) - cables
    rate = np.minimum(f.capacity[::2], f.capacity[1::2])[order]
    failed = np.add.reduceat(rate == 0, start, dtype=np.int64)
    slowest = np.minimum.reduceat(np.where(rate > 0, rate, np.inf), start)
    fastest, total = np.maximum.reduceat(rate, start), np.add.reduceat(rate, start)
    fuller = np.maximum(share[::2], share[1::2])[order]
    load, fullest = np.add.reduceat(fuller, start) / cables, np.maximum.reduceat(fuller, start)
    return Lines(
        *np.divmod(pair, m.row.size), cables, failed, slowest, fastest, total, load, fullest
    )


def _ports(m: Marks, box: Ints, other: Ints, towards: Floats) -> Floats:
    """Return where each line leaves its box: towards the other end or the gap before it, apart from its neighbours."""
    x = np.empty(box.size)
    for i in np.unique(box):
        here = np.flatnonzero(box == i)
        several = here.size > 1 or m.width[i] > 1.5 * m.width[other[here[0]]]
        half = m.width[i] / 2 - 0.06 if several else 0.0
        gap = min(0.25, 2 * half / max(here.size - 1, 1))
        x[here] = spread(towards[here], gap, m.x[i] - half, m.x[i] + half)
    return x


def _gaps(m: Marks, a: int, b: int) -> list[Floats]:
    """Return the points in the gaps of the rows between two boxes through which a line passes, from the lower one."""
    x, points = m.x[a], []
    for r in range(int(m.row[a]) + 1, int(m.row[b])):
        centre, half = (v[m.row == r] for v in (m.x, m.width / 2))
        x += 0.1 * (m.x[b] - x)  # of two gaps as near it takes the one towards its end
        places = np.concatenate([[x], centre - half - _BESIDE, centre + half + _BESIDE])
        free = places[np.all(np.abs(places[:, None] - centre) > half + 0.9 * _BESIDE, axis=1)]
        x = free[np.argmin(np.abs(free - x))]
        points += [np.array([x, r - 0.2]), np.array([x, r + 0.2])]
    return points


def arc_room(m: Marks, k: Lines) -> float:
    """Return the room below the lowest row for cables within it; many need more to stay apart."""
    own = np.sum((m.row[k.a] == m.row.min()) & (m.row[k.b] == m.row.min()))
    return 0.0 if not own else 0.5 if own <= _FEW_ARCS else 1.5


def paths_of(m: Marks, k: Lines) -> list[Floats]:
    """Return the points of each line: straight from row to row, through gaps of rows between, an arc within a row."""
    lowest, room = m.row.min(), arc_room(m, k)
    longest = max(float(np.abs(m.x[k.a] - m.x[k.b]).max()), 1.0)
    turn = np.linspace(0, np.pi, 16)
    out = []
    gaps = [_gaps(m, a, b) for a, b in zip(k.a.tolist(), k.b.tolist(), strict=True)]
    first = np.array([g[0][0] if g else m.x[b] for g, b in zip(gaps, k.b, strict=True)])
    last = np.array([g[-1][0] if g else m.x[a] for g, a in zip(gaps, k.a, strict=True)])
    starts, ends = _ports(m, k.a, k.b, first), _ports(m, k.b, k.a, last)
    for a, b, xa, xb, between in zip(k.a, k.b, starts, ends, gaps, strict=True):
        ya, yb = m.row[a] + 0.17, m.row[b] - 0.17
        path = np.array([[xa, ya], *between, [xb, yb]])
        if m.row[a] == m.row[b]:
            half = max(xb - xa, m.width[a] * 0.5) / 2
            depth = 0.08 + (room - 0.05 if m.row[a] == lowest else 0.45) * min(
                2 * half / longest, 1.0
            )
            path = np.stack(
                [(xa + xb) / 2 - half * np.cos(turn), yb - depth * np.sin(turn)], axis=1
            )
        out.append(path)
    return out


def colours_of(colour: str, load: Floats, failed: ArrayLike, place: NDArray[Any]) -> Floats:
    """Return the colour of each line or cell: of its load, of a failure, or of its place."""
    if colour == "failure":
        return np.where(failed, COLOUR["failed"], COLOUR["grey"])
    return shade(load) if colour == "load" else coloured(place)


def told(colour: str, load: Floats, places: NDArray[Any], failed: int, parts: int) -> str:
    """Return what the colour says, for those who do not see it."""
    seen = 100 * load[np.isfinite(load)]
    if colour == "load" and not seen.size:
        return ""
    n = np.unique(places[places >= 0]).size
    said = text(
        SAYS[colour],
        low=seen.min(initial=1e9),
        high=seen.max(initial=0),
        failed=failed,
        all=parts,
        n=n,
    )
    return said + (" " + text("fabric.repeats", n=len(KEYS))) * (
        colour in ("tier", "rail") and n > len(KEYS)
    )


def readable(m: Marks, k: Lines) -> dict[str, list[str]]:
    """Return the names of lines, and the notes that a reader of one line is told."""
    notes = []
    inside = (m.server[k.a] >= 0) & (m.server[k.a] == m.server[k.b])
    for i in range(k.a.size):
        words = [
            counted(int(k.cables[i]), "link" if inside[i] else "cable"),
            units.format_rate(float(k.fastest[i])),
        ]
        words += [text("fabric.failed_here", n=k.failed[i])] * bool(k.failed[i])
        if not np.isnan(load := 100 * k.load[i]):
            several = "fabric.mean" if k.cables[i] > 1 else "fabric.load"
            words.append(text(several, percent=load, most=100 * k.fullest[i]))
        notes.append(", ".join(words))
    return {
        "names": [f"{m.names[a]} – {m.names[b]}" for a, b in zip(k.a, k.b, strict=True)],
        "notes": notes,
    }


def _listed(f: Fabric, nodes: Any, *more: str) -> str:
    """Return how many of the nodes there are of each kind, as in "4 leaves, 1 spine and 16 cables"."""
    kinds, numbers = np.unique(f.kind[nodes], return_counts=True)
    words = [*(counted(int(n), f.kinds[k]) for k, n in zip(kinds, numbers, strict=True)), *more]
    return ", ".join(words[:-1]) + text("word.and") * (len(words) > 1) + words[-1]


def holder(f: Fabric) -> str:
    """Return what holds the GPUs that a picture keeps together: a server, or a box that a host stands beside."""
    return "box" if "box" in f.coord_names else "server"


def said_of(f: Fabric, m: Marks, k: Lines, share: Floats) -> list[str]:
    """Return what the picture says: load first, then failures, then the parts."""
    outside = (m.server[m.of_node] < 0) & ~np.isin(np.arange(f.n_nodes), f.endpoint)
    # Connections on the boards of a server are no cables of the network.
    cables = int(np.sum(outside[f.source[::2]] | outside[f.target[::2]])) or f.n_cables
    servers, failed = int(f.summary()["servers"]), int(k.failed.sum())
    where = " " + text(f"fabric.in_{holder(f)}", n=servers) if 1 < servers < f.n_ranks else ""
    over = _listed(f, outside, counted(cables, "cable"))
    said = [text("fabric.meet", ends=_listed(f, f.endpoint) + where, over=over)]
    said.append(text("fabric.drawn", list=_listed(f, slice(None))))
    if failed:
        said.insert(0, text("fabric.failed", n=failed, all=f.n_cables))
    if np.isfinite(share).all():
        link = int(np.argmax(share))
        said.insert(0, text("fabric.fullest", link=f.link_name(link), percent=100 * share[link]))
    return said


def worded(
    f: Fabric,
    m: Marks,
    k: Lines,
    share: Floats,
    layers: Mapping[str, Layer],
    height: float,
    said: str,
    colours: str,
    within: str = "",
) -> Scene:
    """Return the scene of a fabric with its words and its table; ``colours`` is what the colours say."""
    words = said_of(f, m, k, share)
    first = said or words[0][:1].upper() + words[0][1:] + "."
    alt = "; ".join([first.rstrip("."), *words[not said :]]) + f". {colours}"
    to = [(within if a == b else "") or m.names[b] for a, b in zip(k.a, k.b, strict=True)]
    table = Table(
        {
            "from": [m.names[i] for i in k.a],
            "to": to,
            "cables": k.cables,
            "failed": k.failed,
            "together [B/s]": k.total,
            "load": k.load,
            "fullest": k.fullest,
        }
    )
    return Scene(first, table, layers, height, alt)
