"""Forwarding tables: the next link of every node towards every rank, and routes that follow them."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import registry
from fabriclab.core import Fabric, Flows, Routes, check_memory, rows_of, whole
from fabriclab.errors import NoPath
from fabriclab.routing._clos import ways
from fabriclab.routing._ways import Ints, Links, Tables, Walk, Ways, by_pair, first, follow

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
    check_memory(4 * n * r + 1200 * min(_ROWS, n * r), f"tables of {n} nodes", "take a smaller fabric")
    choose, found, search = registry.get("routing", method), ways(fabric), Tables(fabric)
    table = np.full((n, r), -1, dtype=np.int32)
    step, other_way = max(1, _ROWS // max(1, r)), "; name a method that looks at the target alone, such as d_mod_k"
    # What ranks send first, since a tree has its ways at hand for that; then from where none of it passed.
    for low, nodes in itertools.product(range(0, r, step), (fabric.endpoint.astype(np.int64), np.arange(n))):
        i, k = np.nonzero(table[nodes, low : low + step] < 0)
        source, rank, target = nodes[i], low + k, fabric.endpoint[low + k].astype(np.int64)
        joined = search.reaches(source, target) & (source != target)
        rows = choose(fabric, found, source[joined], target[joined])
        if rows.ptr.size - 1 != np.count_nonzero(joined):
            raise ValueError(f"{method} has no forwarding tables: it gives several ways for each pair{other_way}")
        at, towards = fabric.source[rows.link], rank[joined][rows_of(rows.ptr)]
        before = table[at, towards]
        table[at, towards] = rows.link
        if (other := np.flatnonzero((table[at, towards] != rows.link) | ((before >= 0) & (before != rows.link)))).size:
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
    wrong = (given[rows, ranks] >= fabric.n_links) | (fabric.source[given[rows, ranks] % fabric.n_links] != rows)
    if wrong.any():
        i = int(np.argmax(wrong))
        msg = f"table[{rows[i]}, {ranks[i]}] must be a link that leaves {fabric.name(int(rows[i]))}, got "
        msg += f"{given[rows[i], ranks[i]]}"
        raise ValueError(msg)
    static = _Static(fabric, given)
    if (off := np.flatnonzero(static.rank[flows.target] < 0)).size:
        msg = f"flow {off[0]} ends at {fabric.name(int(flows.target[off[0]]))}, no rank: tables lead to ranks"
        raise ValueError(msg)
    return by_pair(fabric, flows, lambda s, t, _: follow(fabric, static, s, t, 1, first))


class _Static(Ways):
    """Ways that a table gives: one link at each node."""

    def __init__(self, fabric: Fabric, table: NDArray[np.integer]) -> None:
        self.fabric, self.graph, self.table = fabric, fabric, table
        self.rank = np.full(fabric.n_nodes, -1)
        self.rank[fabric.endpoint] = np.arange(fabric.n_ranks)

    def walk(self, source: Ints, target: Ints) -> Walk:
        self.hops = 0
        return partial(self._next_links, self.rank[target])

    def _next_links(self, goal: Ints, pair: Ints, node: Ints) -> Links:
        self.hops += 1
        link = self.table[node, goal[pair]].astype(np.int64)
        lost = np.flatnonzero(link < 0) if self.hops <= self.graph.n_nodes else np.zeros(1, np.int64)
        if lost.size:
            why = "goes in a circle through" if self.hops > self.graph.n_nodes else "ends at"
            rank, name = goal[pair[lost[0]]], self.fabric.name(int(node[lost[0]]))
            msg = f"the way to rank {rank} in the tables {why} {name}"
            raise NoPath(msg + "; compute the tables again with tables(fabric, method)")
        return Links(np.arange(link.size), np.ones(link.size, np.int64), link)
