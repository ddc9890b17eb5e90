"""Layout of a fabric: which boxes and lines stand for its nodes and cables, and where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import Fabric, Routes
from fabriclab.views.page import spread

__all__ = ["Lines", "Marks", "lines_of", "marks_of", "paths_of"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Marks:
    """M boxes: nodes, or blocks of nodes. A unit of x is the room of one endpoint, a unit of y that of one row."""

    of_node: Ints  # (N,)
    row: Ints  # (M,)
    count: Ints  # (M,)
    first: Ints  # (M,) lowest node
    rail: Ints  # (M,) -1 where it holds several rails
    server: Ints  # (M,) -1 where it belongs to none
    x: Floats  # (M,)
    width: Floats  # (M,)


@dataclass(frozen=True, eq=False)
class Lines:
    """K lines from a box to one in the same row or above: all cables between the two."""

    a: Ints
    b: Ints
    cables: Ints
    failed: Ints
    slowest: Floats  # of the cables that work, [B/s]
    fastest: Floats
    total: Floats  # [B/s]
    load: Floats  # of the fullest link, as a part of its capacity
    marked: NDArray[np.bool_]


def _rows(f: Fabric) -> Ints:
    """Return the row of each node (N,): tiers upwards, kinds apart; scale-up switches stand below their endpoints."""
    n, end = f.n_nodes, np.isin(np.arange(f.n_nodes), f.endpoint)
    _, row = np.unique(f.tier.astype(np.int64) * 128 + f.kind, return_inverse=True)

    def beside(flag: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which nodes have a neighbour with this flag."""
        return np.bincount(f.source, weights=flag[f.target], minlength=n) > 0

    # A switch that meets endpoints only, all of which have another way out, is their scale-up domain.
    inner = ~end & ~beside(~end) & beside(end)
    row[inner & ~beside(end & ~beside(~inner & ~end))] = -1
    level, row = np.unique(row, return_inverse=True)
    return row.astype(np.int64) - int(level[0] == -1)


def _owner(f: Fabric, row: Ints, name: str, of_rank: NDArray[np.int32]) -> Ints:
    """Return rail or server of every node: its coordinate, or what all its neighbours of the row below agree on."""
    owner = np.full(f.n_nodes, -1, dtype=np.int64)
    known = name in f.coord_names
    if known:
        owner[:] = f.coord[:, f.coord_names.index(name)]
    owner[f.endpoint] = of_rank
    for r in range(1, 1 if known and name == "server" else int(row.max()) + 1):
        down = (row[f.source] == r) & (row[f.target] < r) & (row[f.target] >= 0) & (owner[f.source] < 0)
        low, high = np.full(f.n_nodes, np.iinfo(np.int64).max), np.full(f.n_nodes, -1)
        np.minimum.at(low, f.source[down], owner[f.target[down]])
        np.maximum.at(high, f.source[down], owner[f.target[down]])
        owner = np.where(low == high, high, owner)
    return owner


def marks_of(f: Fabric, fold: bool) -> Marks:
    """Return a box for each node, or with ``fold`` a block for each kind, one per rail where it keeps rails apart."""
    row = _rows(f)
    rail, server = _owner(f, row, "rail", f.rail), _owner(f, row, "server", f.server)
    rails = np.unique(rail[f.endpoint])
    rails = rails[rails >= 0]
    if not 2 <= rails.size <= 16:
        rail[:] = -1
    key = row * 64 + np.where(rail >= 0, np.searchsorted(rails, rail) + 1, 0) if fold else np.arange(f.n_nodes)
    _, first, of_node, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    mine = {"row": row[first], "rail": rail[first], "server": server[first]}
    place = _blocks(mine["rail"], rails) if fold else _places(f, row, server)
    return Marks(of_node.astype(np.int64), count=count, first=first, x=place[0], width=place[1], **mine)


def _blocks(rail: Ints, rails: Ints) -> tuple[Floats, Floats]:
    """Return centre and width of blocks: one column per rail, the others as wide as all."""
    columns = rails.size if np.any(rail >= 0) else 8
    x = np.where(rail >= 0, np.searchsorted(rails, rail), (columns - 1) / 2).astype(np.float64)
    return x, np.where(rail >= 0, 0.72, columns - 0.28)


def _places(f: Fabric, row: Ints, server: Ints) -> tuple[Floats, Floats]:
    """Return centre and width of single nodes: endpoints side by side, others near the middle of those below."""
    order = np.lexsort((np.arange(f.n_ranks), f.server))
    x, width = np.zeros(f.n_nodes), np.full(f.n_nodes, 0.8)
    boxes = np.unique(f.server).size > 1 and np.unique(f.server).size < f.n_ranks
    jumps = np.diff(f.server[order], prepend=f.server[order[:1]]) != 0
    x[f.endpoint[order]] = np.arange(f.n_ranks) + 0.9 * np.cumsum(jumps) * boxes
    placed = np.isin(np.arange(f.n_nodes), f.endpoint)
    for r in (*range(1, int(row.max()) + 1), 0, -1):
        near = placed[f.target] & (row[f.source] == r)
        total = np.bincount(f.source[near], weights=x[f.target[near]], minlength=f.n_nodes)
        mean = total / np.maximum(np.bincount(f.source[near], minlength=f.n_nodes), 1)
        for s in np.unique(server[(row == r) & ~placed]):
            here = np.flatnonzero((row == r) & ~placed & (server == s))
            among = x[f.endpoint[f.server == s]] if s >= 0 else x[f.endpoint]
            low, high = among.min() - 0.5, among.max() + 0.5
            gap = (high - low) / here.size
            x[here] = spread(mean[here], gap, low + gap / 2, high - gap / 2)
            width[here] = min(0.8 * gap, 2.6) if r >= 0 else 0.94 * gap
        placed |= row == r
    return x, width


def lines_of(f: Fabric, m: Marks, share: Floats | None, highlight: Routes | ArrayLike | None) -> Lines:
    """Return a line for each pair of boxes with cables between them; a cable is as fast as its slower direction."""
    links = np.unique(
        highlight.link if isinstance(highlight, Routes) else np.asarray(() if highlight is None else highlight)
    )
    if links.size and not 0 <= links[0] <= links[-1] < f.n_links:
        msg = f"highlight must hold links within 0..{f.n_links - 1}, got {links[0]}..{links[-1]}"
        raise ValueError(msg)
    ends = np.sort(np.stack([m.of_node[f.source[::2]], m.of_node[f.target[::2]]]), axis=0)
    pair, line, cables = np.unique(ends[0] * m.row.size + ends[1], return_inverse=True, return_counts=True)
    rate = np.minimum(f.capacity[::2], f.capacity[1::2])
    slowest, fastest, load = np.full(pair.size, np.inf), np.zeros(pair.size), np.zeros(pair.size)
    np.minimum.at(slowest, line[rate > 0], rate[rate > 0])
    np.maximum.at(fastest, line, rate)
    if share is not None:
        np.maximum.at(load, line, np.maximum(share[::2], share[1::2]))
    a, b = np.divmod(pair, m.row.size)
    swap = m.row[a] > m.row[b]
    return Lines(
        a=np.where(swap, b, a), b=np.where(swap, a, b), cables=cables,
        failed=np.bincount(line[rate == 0], minlength=pair.size), slowest=slowest, fastest=fastest,
        total=np.bincount(line, weights=rate, minlength=pair.size).astype(np.float64), load=load,
        marked=np.isin(np.arange(pair.size), line[links.astype(np.int64) // 2]),
    )  # fmt: skip


def _ports(m: Marks, k: Lines) -> tuple[Floats, Floats]:
    """Return where each line leaves its lower and its upper box: towards the other end, apart from its neighbours."""
    ends = m.x[k.a].copy(), m.x[k.b].copy()
    for box, other, x in ((k.a, k.b, ends[0]), (k.b, k.a, ends[1])):
        for i in np.unique(box):
            here = np.flatnonzero(box == i)
            if here.size == 1 and m.width[i] <= 1.5 * m.width[other[here[0]]]:
                continue
            half = m.width[i] / 2 - 0.06
            gap = min(0.25, 2 * half / max(here.size - 1, 1))
            x[here] = spread(m.x[other[here]], gap, m.x[i] - half, m.x[i] + half)
    return ends


def paths_of(m: Marks, k: Lines) -> list[Floats]:
    """Return the points of each line: straight between rows, an arc below within a row."""
    xa, xb = _ports(m, k)
    longest = max(float(np.abs(m.x[k.a] - m.x[k.b]).max()), 1.0)
    turn = np.linspace(0, np.pi, 16)
    out = []
    for i in range(k.a.size):
        ya, yb = m.row[k.a[i]] + 0.17, m.row[k.b[i]] - 0.17
        if m.row[k.a[i]] != m.row[k.b[i]]:
            out.append(np.array([[xa[i], ya], [xb[i], yb]]))
            continue
        half = max(xb[i] - xa[i], m.width[k.a[i]] * 0.5) / 2
        depth = 0.08 + 0.45 * min(2 * half / longest, 1.0)
        out.append(np.stack([(xa[i] + xb[i]) / 2 - half * np.cos(turn), yb - depth * np.sin(turn)], axis=1))
    return out
