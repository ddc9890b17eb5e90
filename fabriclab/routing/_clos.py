"""Shortest ways, read off the tiers of a folded Clos without a table, else by search; a test holds both equal.

Climb to the lowest tier at which both ends have a common ancestor, then come down. It holds only if every node at a
tier reaches every subtree below its component, which is checked first.

Forwarding tables are the next link of every node towards every rank; routes may follow them.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import registry
from fabriclab.core import (
    Fabric,
    Flows,
    Ints,
    Routes,
    check_memory,
    distinct_pairs,
    parts_of,
    pointer,
    rows_of,
    whole,
)
from fabriclab.errors import NoPath
from fabriclab.routing.shortest import (
    Links,
    Tables,
    Walk,
    Ways,
    by_pair,
    check_paths,
    first,
    follow,
    kept,
)

_FAR = 127  # above every tier, which is an int8


class Clos(Ways):
    """Up and down ways of a folded Clos, from the tiers alone."""

    def __init__(self, fabric: Fabric, comp: NDArray[np.int32], up: Ints, down: Ints) -> None:
        self.fabric, self.graph, self.comp = fabric, fabric, comp
        self.up = up[np.argsort(fabric.source[up], kind="stable")]
        self.up_ptr = pointer(np.bincount(fabric.source[self.up], minlength=fabric.n_nodes))
        low = fabric.target[down]
        below = np.where(fabric.transit[low], comp[fabric.tier[low], low], low)
        key = fabric.source[down].astype(np.int64) * fabric.n_nodes + below
        order = np.argsort(key, kind="stable")
        self.down_key = key[order]
        run = np.diff(np.flatnonzero(np.diff(self.down_key, prepend=-1, append=-1)))
        self.down_count = np.repeat(run, run)
        self.links = np.concatenate([self.up, down[order]])

    @classmethod
    def of(cls, fabric: Fabric) -> Clos | None:
        """Return the ways of a fabric that is a folded Clos, or None."""
        live = np.flatnonzero(fabric.capacity > 0)
        source, target = fabric.source[live], fabric.target[live]
        rise = fabric.tier[target].astype(np.int64) - fabric.tier[source]
        up, down = live[rise > 0], live[rise < 0]
        if live.size == 0 or np.any(np.abs(rise) != 1) or not np.array_equal(np.sort(up ^ 1), down):
            return None
        if not np.all(fabric.transit[fabric.target[up]]):
            return None
        comp = _components(fabric, up)
        return None if comp is None else cls(fabric, comp, up, down)

    def walk(self, source: Ints, target: Ints) -> Walk:
        """Return the ways of these pairs: the links on which they leave, turn and arrive.

        Pairs that the tiers do not settle (an end inside the network, equal ways over several planes, or two ends
        at one tier that meet only below it) are left to the search.
        """
        fabric, n = self.fabric, source.size
        if fabric.transit[source].any() or fabric.transit[target].any():
            return Tables(fabric).walk(source, target)
        tied = np.zeros(n, dtype=np.bool_)
        turn, first, arrive = np.full(n, _FAR, dtype=np.int64), np.full(n, -1), np.full(n, -1)
        degree = np.diff(self.up_ptr)
        for i in range(int(degree[source].max(initial=0))):
            for j in range(int(degree[target].max(initial=0))):
                pairs = np.flatnonzero((degree[source] > i) & (degree[target] > j))
                a, b = (
                    self.up[self.up_ptr[source[pairs]] + i],
                    self.up[self.up_ptr[target[pairs]] + j],
                )
                here = self._turn(fabric.target[a], fabric.target[b])
                if np.any(
                    (here == fabric.tier[fabric.target[b]]) & (fabric.target[a] != fabric.target[b])
                ):
                    return Tables(fabric).walk(source, target)
                tied[pairs[here < turn[pairs]]] = False
                tied[pairs[(here == turn[pairs]) & (here < _FAR)]] = True
                nearer = here < turn[pairs]
                won = pairs[nearer]
                turn[won], first[won], arrive[won] = here[nearer], a[nearer], b[nearer] ^ 1
        check_paths(fabric, turn == _FAR, source, target)
        if tied.any():
            return Tables(fabric).walk(source, target)
        return partial(
            self._next_links,
            source,
            fabric.source[arrive],
            np.concatenate([self.links, first, arrive]),
        )

    def _next_links(self, source: Ints, last: Ints, table: Ints, pair: Ints, node: Ints) -> Links:
        """Return the links up until the last node's component is reached, then the links down to it.

        ``last`` is the node before the target; ``table`` has the links up, the links down, and for each pair the first
        link and the last.
        """
        tier, last = self.fabric.tier[node], last[pair]
        start, count = self.links.size + pair, np.ones(node.size, dtype=np.int64)
        start[node == last] += source.size
        inner = (node != last) & (node != source[pair])
        climbs = inner & (self.comp[tier, node] != self.comp[tier, last])
        high, down = node[climbs], np.flatnonzero(inner & ~climbs)
        start[climbs], count[climbs] = self.up_ptr[high], self.up_ptr[high + 1] - self.up_ptr[high]
        below = self.comp[tier[down] - 1, last[down]]
        at = np.searchsorted(self.down_key, node[down] * self.fabric.n_nodes + below)
        start[down], count[down] = self.up.size + at, self.down_count[at]
        return Links(start, count, table)

    def _turn(self, a: NDArray[np.integer], b: NDArray[np.integer]) -> Ints:
        """Return the lowest tier at which ``a`` and ``b`` are in one component."""
        turn = np.full(a.size, _FAR, dtype=np.int64)
        for h in range(self.comp.shape[0] - 1, -1, -1):
            turn[(self.comp[h, a] == self.comp[h, b]) & (self.comp[h, a] >= 0)] = h
        return turn


def _components(fabric: Fabric, up: Ints) -> NDArray[np.int32] | None:
    """Return (tiers, N): the component of each transit node among the tiers up to h; -1 else.

    None if some node cannot reach every part of its component from above, or an end has two links into one.
    """
    n, tier, transit = fabric.n_nodes, fabric.tier, fabric.transit
    comp = np.full((int(tier.max()) + 1, n), -1, dtype=np.int32)
    inner = up[transit[fabric.source[up]]]
    for h in range(comp.shape[0]):
        links = inner[tier[fabric.target[inner]] <= h]
        label, below = (
            parts_of(n, fabric.source[links], fabric.target[links]),
            np.flatnonzero(transit & (tier < h)),
        )
        wanted = np.bincount(distinct_pairs(label[below], comp[h - 1, below])[0], minlength=n)
        new = links[tier[fabric.target[links]] == h]
        reached = distinct_pairs(
            fabric.target[new].astype(np.int64), comp[h - 1, fabric.source[new]]
        )[0]
        here = np.flatnonzero(transit & (tier == h))
        if np.any(np.bincount(reached, minlength=n)[here] != wanted[label[here]]):
            return None
        comp[h] = np.where(transit & (tier <= h), label, -1)
    ends = up[~transit[fabric.source[up]]]
    entry = fabric.source[ends].astype(np.int64) * n + comp[-1, fabric.target[ends]]
    return comp if np.unique(entry).size == entry.size else None


def ways(fabric: Fabric) -> Ways:
    """Return the shortest ways of a fabric, from the tiers where they allow it, else by search."""
    return kept(fabric, "_ways", lambda f: Clos.of(f) or Tables(f))


_ROWS = 2**18  # pairs routed at once; each takes up to 1,150 bytes, measured


def tables(fabric: Fabric, method: str) -> NDArray[np.int32]:
    """Return the next link of each node towards each rank, (N, R) int32; -1 where no way leads on.

    Parameters
    ----------
    fabric : Fabric
        Where.
    method : str
        A routing whose choice depends on node and target alone, such as ``"d_mod_k"`` or ``"shortest"``.

    Raises
    ------
    ValueError
        If the method sends traffic to one rank by different links of one node, according to where it comes from.
    NoPath
        If the method finds no way where there is one.
    TooLarge
        If the tables do not fit into memory.
    """
    n, r = fabric.n_nodes, fabric.n_ranks
    check_memory(
        4 * n * r + 1200 * min(_ROWS, n * r), f"tables of {n} nodes", "take a smaller fabric"
    )
    choose, found, search = registry.get("routing", method), ways(fabric), Tables(fabric)
    table = np.full((n, r), -1, dtype=np.int32)
    step, other_way = (
        max(1, _ROWS // max(1, r)),
        "; name a method that looks at the target alone, such as d_mod_k",
    )
    # What ranks send first, since a tree has its ways at hand for that; then from where none of it passed.
    for low, nodes in itertools.product(
        range(0, r, step), (fabric.endpoint.astype(np.int64), np.arange(n))
    ):
        i, k = np.nonzero(table[nodes, low : low + step] < 0)
        source, rank, target = nodes[i], low + k, fabric.endpoint[low + k].astype(np.int64)
        joined = search.reaches(source, target) & (source != target)
        rows = choose(fabric, found, source[joined], target[joined])
        if rows.ptr.size - 1 != np.count_nonzero(joined):
            raise ValueError(
                f"{method} has no forwarding tables: it gives several ways for each pair{other_way}"
            )
        at, towards = fabric.source[rows.link], rank[joined][rows_of(rows.ptr)]
        before = table[at, towards]
        table[at, towards] = rows.link
        if (
            other := np.flatnonzero(
                (table[at, towards] != rows.link) | ((before >= 0) & (before != rows.link))
            )
        ).size:
            msg = f"{method} has no forwarding tables here: from {fabric.name(int(at[other[0]]))} to rank "
            msg += f"{towards[other[0]]} it takes two links, by the source of the flow{other_way}"
            raise ValueError(msg)
    return table


def from_tables(fabric: Fabric, flows: Flows, table: ArrayLike) -> Routes:
    """Return the routes that forwarding tables give (static routing): no link is avoided, not even a failed one.

    Parameters
    ----------
    fabric : Fabric
        Where.
    flows : Flows
        Between endpoints.
    table : (N, R) int
        Next link of each node towards each rank, -1 where there is none, as `tables` returns it.

    Raises
    ------
    NoPath
        If the tables lead nowhere or in a circle, naming the node.
    ValueError
        If the table does not fit the fabric, or a flow ends at no rank.
    """
    given = whole(table, "table", (fabric.n_nodes, fabric.n_ranks), "nodes, ranks")
    rows, ranks = np.nonzero(given >= 0)
    wrong = (given[rows, ranks] >= fabric.n_links) | (
        fabric.source[given[rows, ranks] % fabric.n_links] != rows
    )
    if wrong.any():
        i = int(np.argmax(wrong))
        msg = f"table[{rows[i]}, {ranks[i]}] must be a link that leaves {fabric.name(int(rows[i]))}, got "
        msg += f"{given[rows[i], ranks[i]]}"
        raise ValueError(msg)
    if (off := np.flatnonzero(fabric.rank_of[flows.target] < 0)).size:
        msg = f"flow {off[0]} ends at {fabric.name(int(flows.target[off[0]]))}, no rank: tables lead to ranks"
        raise ValueError(msg)
    return by_pair(
        fabric, flows, lambda s, t, _: follow(fabric, _Static(fabric, given), s, t, 1, first)
    )


class _Static(Ways):
    """Ways that a table gives: one link at each node."""

    def __init__(self, fabric: Fabric, table: NDArray[np.integer]) -> None:
        self.fabric, self.graph, self.table = fabric, fabric, table

    def walk(self, source: Ints, target: Ints) -> Walk:
        self.hops = 0
        return partial(self._next_links, self.fabric.rank_of[target])

    def _next_links(self, goal: Ints, pair: Ints, node: Ints) -> Links:
        self.hops += 1
        link = self.table[node, goal[pair]].astype(np.int64)
        lost = (
            np.flatnonzero(link < 0) if self.hops <= self.graph.n_nodes else np.zeros(1, np.int64)
        )
        if lost.size:
            why = "goes in a circle through" if self.hops > self.graph.n_nodes else "ends at"
            rank, name = goal[pair[lost[0]]], self.fabric.name(int(node[lost[0]]))
            msg = f"the way to rank {rank} in the tables {why} {name}"
            raise NoPath(msg + "; compute the tables again with tables(fabric, method)")
        return Links(np.arange(link.size), np.ones(link.size, np.int64), link)
