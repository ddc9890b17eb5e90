"""Shortest paths, computed from the tiers of a folded Clos without a table, otherwise by search; and forwarding tables.

A shortest path in a folded Clos climbs to the lowest tier at which both ends have a common ancestor, then comes down.
That is true only if every node of a tier reaches every subtree below its component, which is checked first. A test
compares both methods.

A forwarding table has the next link of every node towards every rank; routes can follow it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
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
    NextLinks,
    PairRoutes,
    Paths,
    Seed,
    Tables,
    by_pair,
    cached,
    check_paths,
    first,
    follow,
)

_FAR = 127  # above every tier, which is an int8


class Clos(Paths):
    """Shortest paths up and down a folded Clos, computed from its tiers alone.

    The components of tier h are the connected components of the switches of tiers 0..h. Any two switches of one
    component have a common ancestor of tier h at most.

    Parameters
    ----------
    fabric : Fabric
        The folded Clos.
    comp : (tiers, N) int32
        Component of each switch at each tier, as `_components` returns it.
    up, down : (U,), (D,) int64
        Working links that climb one tier, and working links that descend one tier.
    """

    def __init__(self, fabric: Fabric, comp: NDArray[np.int32], up: Ints, down: Ints) -> None:
        self.fabric = fabric
        self.graph = fabric
        self.comp = comp

        # The links up of node n are up[up_ptr[n] : up_ptr[n + 1]].
        self.up = up[np.argsort(fabric.source[up], kind="stable")]
        self.up_ptr = pointer(np.bincount(fabric.source[self.up], minlength=fabric.n_nodes))

        # Links down are sorted by key = node * nodes + component below, so that links of one node into the same
        # component (or to the same end) are next to each other. down_count is the number of links with the same key.
        low = fabric.target[down]
        below = np.where(fabric.transit[low], comp[fabric.tier[low], low], low)  # (D,)
        key = fabric.source[down].astype(np.int64) * fabric.n_nodes + below
        order = np.argsort(key, kind="stable")
        self.down_key = key[order]
        run = np.diff(np.flatnonzero(np.diff(self.down_key, prepend=-1, append=-1)))
        self.down_count = np.repeat(run, run)

        self.links = np.concatenate([self.up, down[order]])

    @classmethod
    def of(cls, fabric: Fabric) -> Clos | None:
        """Return the shortest paths of a fabric, or None if it is not a folded Clos."""
        live = np.flatnonzero(fabric.capacity > 0)
        rise = fabric.tier[fabric.target[live]].astype(np.int64) - fabric.tier[fabric.source[live]]
        if live.size == 0 or np.any(np.abs(rise) != 1):
            return None

        up = live[rise > 0]
        down = live[rise < 0]
        works_both_ways = np.array_equal(
            np.sort(up ^ 1), down
        )  # links 2 i and 2 i + 1 form a cable
        if not works_both_ways or not np.all(fabric.transit[fabric.target[up]]):
            return None

        comp = _components(fabric, up)
        if comp is None or _has_dead_end(fabric, comp, up):
            return None
        return cls(fabric, comp, up, down)

    def walk(self, source: Ints, target: Ints) -> NextLinks:
        """Return the function that gives the next links of these pairs.

        For each pair it first finds the links by which its paths leave the source and arrive at the target. The tiers
        do not settle a pair with an end inside the network, with paths of equal length over several planes, or with
        two ends at one tier that meet only below it. If there is such a pair, all pairs are left to the search.
        """
        fabric = self.fabric
        if fabric.transit[source].any() or fabric.transit[target].any():
            return Tables(fabric).walk(source, target)

        turn = np.full(source.size, _FAR, dtype=np.int64)  # tier at which the path turns
        leave = np.full(source.size, -1)  # first link
        arrive = np.full(source.size, -1)  # last link
        tied = np.zeros(
            source.size, dtype=np.bool_
        )  # whether two choices of these links turn at the same tier
        degree = np.diff(self.up_ptr)  # number of links up of each node

        # Combine link i up of each source with link j up of each target; an end has few of them.
        for i in range(int(degree[source].max(initial=0))):
            for j in range(int(degree[target].max(initial=0))):
                pairs = np.flatnonzero((degree[source] > i) & (degree[target] > j))
                from_source = self.up[self.up_ptr[source[pairs]] + i]
                from_target = self.up[self.up_ptr[target[pairs]] + j]
                first = fabric.target[from_source]  # switch above the source
                last = fabric.target[from_target]  # switch above the target
                here = self._turn(first, last)
                if np.any((here == fabric.tier[last]) & (first != last)):
                    return Tables(fabric).walk(source, target)

                lower = here < turn[pairs]
                tied[pairs[lower]] = False
                tied[pairs[(here == turn[pairs]) & (here < _FAR)]] = True
                better = pairs[lower]
                turn[better] = here[lower]
                leave[better] = from_source[lower]
                arrive[better] = from_target[lower] ^ 1

        check_paths(fabric, turn == _FAR, source, target)
        if tied.any():
            return Tables(fabric).walk(source, target)
        table = np.concatenate([self.links, leave, arrive])
        return partial(self._next_links, source, fabric.source[arrive], table)

    def _next_links(self, source: Ints, last: Ints, table: Ints, pair: Ints, node: Ints) -> Links:
        """Return the links that lead on: up to the component of the last switch, then down to that switch.

        ``last`` is the node before the target. ``table`` has the links up, the links down, the first link of each
        pair, and the last link of each pair.
        """
        tier = self.fabric.tier[node]
        last = last[pair]

        # At the source take the first link of the pair, at the last switch its last link.
        start = self.links.size + pair
        count = np.ones(node.size, dtype=np.int64)
        start[node == last] += source.size

        # Between them take all links up as long as the last switch lies in another component.
        between = (node != last) & (node != source[pair])
        climbs = between & (self.comp[tier, node] != self.comp[tier, last])
        low = node[climbs]
        start[climbs] = self.up_ptr[low]
        count[climbs] = self.up_ptr[low + 1] - self.up_ptr[low]

        # Then take all links down into the component of the last switch at the tier below.
        descends = np.flatnonzero(between & ~climbs)
        below = self.comp[tier[descends] - 1, last[descends]]
        at = np.searchsorted(self.down_key, node[descends] * self.fabric.n_nodes + below)
        start[descends] = self.up.size + at
        count[descends] = self.down_count[at]
        return Links(start, count, table)

    def _turn(self, a: NDArray[np.integer], b: NDArray[np.integer]) -> Ints:
        """Return the lowest tier at which switches ``a`` and ``b`` share a component; `_FAR` if they share none."""
        turn = np.full(a.size, _FAR, dtype=np.int64)
        for h in range(self.comp.shape[0] - 1, -1, -1):  # from the top, so that the lowest stays
            together = (self.comp[h, a] == self.comp[h, b]) & (self.comp[h, a] >= 0)
            turn[together] = h
        return turn


def _components(fabric: Fabric, up: Ints) -> NDArray[np.int32] | None:
    """Return the component of each transit node among the tiers up to h, (tiers, N); -1 for other nodes and tiers.

    Returns None if some node cannot reach every component of the tier below it within its own component, or if an end
    has two links into one component of the highest tier.
    """
    n = fabric.n_nodes
    tier = fabric.tier
    transit = fabric.transit
    comp = np.full((int(tier.max()) + 1, n), -1, dtype=np.int32)
    between_switches = up[transit[fabric.source[up]]]
    for h in range(comp.shape[0]):
        links = between_switches[tier[fabric.target[between_switches]] <= h]
        label = parts_of(n, fabric.source[links], fabric.target[links])  # (N,)
        here = np.flatnonzero(transit & (tier == h))
        below = np.flatnonzero(transit & (tier < h))

        # Components of tier h - 1 below each component of tier h: every one of its nodes has to reach them all.
        wanted = np.bincount(distinct_pairs(label[below], comp[h - 1, below])[0], minlength=n)
        # Components of tier h - 1 to which each node of tier h has a link.
        new = links[tier[fabric.target[links]] == h]
        high = fabric.target[new].astype(np.int64)
        low_part = comp[h - 1, fabric.source[new]]
        reached = np.bincount(distinct_pairs(high, low_part)[0], minlength=n)
        if np.any(reached[here] != wanted[label[here]]):
            return None
        comp[h] = np.where(transit & (tier <= h), label, -1)

    from_ends = up[~transit[fabric.source[up]]]
    entry = fabric.source[from_ends].astype(np.int64) * n + comp[-1, fabric.target[from_ends]]
    one_link_each = np.unique(entry).size == entry.size
    return comp if one_link_each else None


def _has_dead_end(fabric: Fabric, comp: NDArray[np.int32], up: Ints) -> bool:
    """Return whether a path that climbs could end at a switch that leads no higher, although its neighbours do.

    Such is a NIC whose cable has failed beside another one at the same PCIe switch.
    """
    switches = np.flatnonzero(fabric.transit)
    part = comp[-1, switches]
    highest = np.zeros(fabric.n_nodes, dtype=np.int64)  # tier in each component
    np.maximum.at(highest, part, fabric.tier[switches])
    climbs = np.zeros(fabric.n_nodes, dtype=np.bool_)
    climbs[fabric.source[up]] = True
    from_switches = up[fabric.transit[fabric.source[up]]]
    entered = np.unique(fabric.target[from_switches])
    return bool(np.any(~climbs[entered] & (highest[comp[-1, entered]] > fabric.tier[entered])))


def shortest_paths(fabric: Fabric) -> Paths:
    """Return the shortest paths of a fabric, computed from its tiers if it is a folded Clos, otherwise by search."""
    return cached(fabric, "_ways", lambda f: Clos.of(f) or Tables(f))


_ROWS = 2**18  # pairs routed at once; each takes up to 1,150 bytes, measured
_BY_TARGET = "; name a method that looks at the target alone, such as d_mod_k"


def tables(fabric: Fabric, method: str) -> NDArray[np.int32]:
    """Compute the forwarding tables of a fabric: the next link of each node towards each rank, (N, R) int32.

    An entry is -1 where no path leads on.

    Parameters
    ----------
    fabric : Fabric
        The network.
    method : str
        A routing whose choice depends on node and target alone, such as ``"d_mod_k"`` or ``"shortest"``.

    Raises
    ------
    ValueError
        If the method uses different links of one node towards the same rank, depending on where the traffic comes
        from.
    NoPath
        If the method finds no path although there is one.
    TooLarge
        If the tables do not fit into memory.
    """
    n = fabric.n_nodes
    r = fabric.n_ranks
    check_memory(
        4 * n * r + 1200 * min(_ROWS, n * r), f"tables of {n} nodes", "take a smaller fabric"
    )
    choose: Callable[..., PairRoutes] = registry.get("routing", method)
    paths = shortest_paths(fabric)
    search = Tables(fabric)
    table = np.full((n, r), -1, dtype=np.int32)

    # First enter the routes between ranks, which a tree computes quickly; then those of nodes that none of them passed.
    ranks = fabric.endpoint.astype(np.int64)
    step = max(1, _ROWS // max(1, r))
    for low, nodes in itertools.product(range(0, r, step), (ranks, np.arange(n))):
        # Pairs of a node and a rank that have a path but no entry yet.
        i, k = np.nonzero(table[nodes, low : low + step] < 0)
        source = nodes[i]
        rank = low + k
        target = ranks[rank]
        has_path = search.reaches(source, target) & (source != target)

        rows = choose(fabric, paths, source[has_path], target[has_path])
        if rows.ptr.size - 1 != np.count_nonzero(has_path):
            raise ValueError(
                f"{method} has no forwarding tables: it gives several ways for each pair{_BY_TARGET}"
            )
        _enter(fabric, method, table, rows, rank[has_path])
    return table


def _enter(
    fabric: Fabric, method: str, table: NDArray[np.int32], rows: PairRoutes, rank: Ints
) -> None:
    """Write the links of all rows into a forwarding table; row r leads to ``rank[r]``.

    Refuses rows that would give a node two links towards one rank, within these rows or with earlier entries.
    """
    at = fabric.source[rows.link]  # (E,) node of each link
    towards = rank[rows_of(rows.ptr)]  # (E,)
    before = table[at, towards]
    table[at, towards] = rows.link

    overwritten = table[at, towards] != rows.link
    changed = (before >= 0) & (before != rows.link)
    clash = np.flatnonzero(overwritten | changed)
    if clash.size:
        i = clash[0]
        msg = f"{method} has no forwarding tables here: from {fabric.name(int(at[i]))} to rank "
        msg += f"{towards[i]} it takes two links, by the source of the flow{_BY_TARGET}"
        raise ValueError(msg)


def from_tables(fabric: Fabric, flows: Flows, table: ArrayLike) -> Routes:
    """Find the routes that follow given forwarding tables (static routing); not even failed links are avoided.

    Parameters
    ----------
    fabric : Fabric
        The network.
    flows : Flows
        Flows between endpoints.
    table : (N, R) int
        Next link of each node towards each rank, -1 where there is none, as `tables` returns it.

    Raises
    ------
    NoPath
        If the tables lead nowhere or in a circle; the message names the node.
    ValueError
        If the table does not fit the fabric, or a flow ends at a node that is not a rank.
    """
    given = whole(table, "table", (fabric.n_nodes, fabric.n_ranks), "nodes, ranks")
    rows, ranks = np.nonzero(given >= 0)
    link = given[rows, ranks]  # one per entry of the table that is set
    is_wrong = (link >= fabric.n_links) | (fabric.source[link % fabric.n_links] != rows)
    if is_wrong.any():
        i = int(np.argmax(is_wrong))
        name = fabric.name(int(rows[i]))
        msg = f"table[{rows[i]}, {ranks[i]}] must be a link that leaves {name}, got {link[i]}"
        raise ValueError(msg)

    no_rank = np.flatnonzero(fabric.rank_of[flows.target] < 0)
    if no_rank.size:
        name = fabric.name(int(flows.target[no_rank[0]]))
        raise ValueError(f"flow {no_rank[0]} ends at {name}, no rank: tables lead to ranks")

    def along_table(source: Ints, target: Ints, seed: Seed) -> PairRoutes:
        return follow(fabric, _Static(fabric, given), source, target, 1, first)

    return by_pair(fabric, flows, along_table)


class _Static(Paths):
    """The paths of a forwarding table, which has one link at each node."""

    are_shortest = False

    def __init__(self, fabric: Fabric, table: NDArray[np.integer]) -> None:
        self.fabric = fabric
        self.graph = fabric
        self.table = table

    def walk(self, source: Ints, target: Ints) -> NextLinks:
        """Return the function that gives the next link of these pairs, with a hop count that starts at 0."""
        self.hops = 0
        return partial(self._next_links, self.fabric.rank_of[target])

    def _next_links(self, goal: Ints, pair: Ints, node: Ints) -> Links:
        """Return the link of the table at each node, or refuse tables that lead nowhere or in a circle."""
        self.hops += 1
        link = self.table[node, goal[pair]].astype(np.int64)
        if self.hops > self.fabric.n_nodes:  # more hops than nodes: some node was passed twice
            raise self._lost("goes in a circle through", goal[pair[0]], node[0])
        ends = np.flatnonzero(link < 0)
        if ends.size:
            raise self._lost("ends at", goal[pair[ends[0]]], node[ends[0]])
        return Links(np.arange(link.size), np.ones(link.size, np.int64), link)

    def _lost(self, why: str, rank: int, node: int) -> NoPath:
        """Return the error for a table that leads no further at ``node``, on the path to ``rank``."""
        msg = f"the way to rank {rank} in the tables {why} {self.fabric.name(int(node))}"
        return NoPath(msg + "; compute the tables again with tables(fabric, method)")
