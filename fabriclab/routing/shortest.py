"""Tools for routing methods: find the links that lead on from a node, follow them, and route each pair of nodes once.

A method gets the shortest paths of a fabric as a function from pairs and nodes to the links that lead on
(`NextLinks`), and chooses among these links (`Pick`); `follow` turns the choices into paths. In this module shortest
paths come from a breadth-first search over any graph, with one bit for each goal; `fabriclab.routing._clos` computes
them from the tiers of a tree.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import (
    PATH,
    Fabric,
    Floats,
    Flows,
    Ints,
    Routes,
    check_within,
    expand,
    pointer,
    rows_of,
    whole,
)
from fabriclab.errors import NoPath

Found = TypeVar("Found")
Seed = int | NDArray[np.uint64]  # one for all pairs, or one for each


class Copies(NamedTuple):
    """Several copies of a fabric of N nodes and L links as one graph: copy v has nodes v N + i and links v L + i."""

    n_nodes: int
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    capacity: NDArray[np.float64]
    transit: NDArray[np.bool_]


@dataclass(frozen=True)
class Links:
    """Links to choose from: for each k the links ``table[start[k] : start[k] + count[k]]``, by rising number."""

    start: Ints
    count: Ints
    table: Ints

    def all(self) -> Ints:
        """Return the links of all k in one array."""
        return self.table[expand(self.start, self.count)]


class PairRoutes(NamedTuple):
    """Routes between pairs of nodes, as a routing method returns them: R rows with E links in all."""

    ptr: Ints  # (R + 1,) row r has the entries ptr[r] to ptr[r + 1] - 1
    link: Ints  # (E,)
    use: NDArray[np.float64]  # (E,) part of the rate of the row that the link carries, 0..1
    kind: int  # PATH or SPRAY, of all rows


class LinkParts(NamedTuple):
    """Parts of rows on links: one entry for each row and link."""

    row: Ints
    link: Ints
    part: Floats  # of the rate of the row that the link carries, 0..1

    @classmethod
    def join(cls, several: "list[LinkParts]") -> "LinkParts":
        """Return the entries of several in one."""
        empty = cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        several = [empty, *several]
        return cls(
            row=np.concatenate([parts.row for parts in several]),
            link=np.concatenate([parts.link for parts in several]),
            part=np.concatenate([parts.part for parts in several]),
        )


# (pair, node) -> for each k the links that lead on from node[k] on the shortest paths of pair[k].
NextLinks = Callable[[Ints, Ints], Links]


class Paths(Protocol):
    """Shortest paths of a fabric, for pairs of nodes in batches."""

    # The fabric, or copies of it: link and node numbers are taken modulo those of the fabric.
    graph: Fabric | Copies
    # Whether a pair that a link joins takes that link; forwarding tables may lead elsewhere.
    are_shortest: bool = True

    def batches(self, source: Ints, target: Ints) -> list[Ints]:
        """Return the numbers of the pairs in batches that fit into memory; one batch if no table is needed."""
        return [np.arange(source.size)] if source.size else []

    def walk(self, source: Ints, target: Ints) -> NextLinks:
        """Return the function that gives the next links of these pairs."""


# The choice of a method: (row, node, links) -> for each k an index among its links. Row r belongs to pair
# r // subflows. Nodes have their numbers in the fabric, links may have their numbers in a copy.
Pick = Callable[[Ints, Ints, Links], NDArray[np.integer]]


def follow(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, subflows: int, pick: Pick
) -> PairRoutes:
    """Return ``subflows`` paths for each pair, along the links that ``pick`` chooses.

    All pairs advance together, one hop after another, until each has reached its target. Pairs with an end inside the
    network that a link joins need no search, which for them would be one over the whole network.
    """
    n_rows = source.size * subflows
    columns: list[NDArray[np.int32]] = []  # per hop the link of every row, -1 for none
    searched = np.arange(source.size)
    if paths.graph is fabric and paths.are_shortest:
        is_joined, links = _direct(fabric, source, target)
        if is_joined.any():
            searched = np.flatnonzero(~is_joined)
            rows = np.flatnonzero(np.repeat(is_joined, subflows))
            pair = np.flatnonzero(is_joined).repeat(subflows)
            each = Links(links.start[pair], links.count[pair], links.table)
            choice = pick(rows, source[pair], each)
            columns.append(np.full(n_rows, -1, dtype=np.int32))
            columns[0][rows] = each.table[each.start + choice]

    for numbers in paths.batches(source[searched], target[searched]):
        batch = searched[numbers]
        next_links = paths.walk(source[batch], target[batch])

        # One entry for each row that has not arrived yet; a row belongs to a pair and a subflow.
        pair = np.repeat(np.arange(batch.size), subflows)  # within the batch
        subflow = np.tile(np.arange(subflows), batch.size)
        row = (batch[pair] * subflows + subflow).astype(np.int64)
        node = source[batch][pair]
        goal = target[batch][pair]
        hop = 0
        while row.size:
            links = next_links(pair, node)
            choice = pick(row, node % fabric.n_nodes, links)
            link = links.table[links.start + choice]
            if hop == len(columns):
                columns.append(np.full(n_rows, -1, dtype=np.int32))
            columns[hop][row] = link
            hop += 1

            node = paths.graph.target[link].astype(np.int64)
            on_the_way = node % fabric.n_nodes != goal  # number of a copy's node in the fabric
            pair = pair[on_the_way]
            row = row[on_the_way]
            node = node[on_the_way]
            goal = goal[on_the_way]

    if columns:
        table = np.stack(columns, axis=1)  # (rows, hops)
    else:
        table = np.full((n_rows, 0), -1, dtype=np.int32)
    taken = table >= 0
    link = table[taken].astype(np.int64) % fabric.n_links
    return PairRoutes(ptr=pointer(taken.sum(axis=1)), link=link, use=np.ones(link.size), kind=PATH)


def _direct(fabric: Fabric, source: Ints, target: Ints) -> tuple[NDArray[np.bool_], Links]:
    """Return which pairs with an end inside the network a working link joins, and for each pair these links."""
    inside = fabric.transit[source] | fabric.transit[target]
    nothing = np.zeros(source.size, dtype=np.int64)
    if not inside.any():
        return inside, Links(nothing, nothing, nothing[:0])
    keys, order = cached(fabric, "_links_by_ends", _links_by_ends)
    wanted = source.astype(np.int64) * fabric.n_nodes + target
    start = np.searchsorted(keys, wanted, side="left")
    count = np.searchsorted(keys, wanted, side="right") - start
    return inside & (count > 0), Links(start, count, order)


def _links_by_ends(fabric: Fabric) -> tuple[Ints, Ints]:
    """Return the working links sorted by their ends: the keys source * nodes + target, and the links, both (live,)."""
    live = np.flatnonzero(fabric.capacity > 0)
    keys = fabric.source[live].astype(np.int64) * fabric.n_nodes + fabric.target[live]
    order = np.argsort(keys, kind="stable")
    return keys[order], live[order]


def first(row: Ints, node: Ints, links: Links) -> Ints:
    """Choose the link with the lowest number everywhere, which has index 0."""
    return np.zeros(row.size, dtype=np.int64)


def hashed(seed: Seed, *columns: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return a 64-bit hash for each row of the columns.

    Each column in turn is mixed in with the finaliser of splitmix64 (Steele et al., OOPSLA 2014): add a constant, then
    shift, xor and multiply modulo 2^64, so that each bit of the input changes about half of the bits of the hash.
    """
    start = np.array([seed % 2**64], dtype=np.uint64) if isinstance(seed, int) else seed
    value = np.broadcast_to(start * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1), columns[0].shape)
    for column in columns:
        value = value ^ (column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value = value ^ (value >> np.uint64(31))
    return value


def cached(fabric: Fabric, name: str, make: Callable[[Fabric], Found]) -> Found:
    """Return ``make(fabric)``, which is computed at the first call only.

    The result is stored on the fabric under ``name``, like its cached properties, and is freed together with it.
    """
    if name not in fabric.__dict__:
        fabric.__dict__[name] = make(fabric)
    found: Found = fabric.__dict__[name]
    return found


def check_paths(
    fabric: Fabric, lost: NDArray[np.bool_], source: Ints, target: Ints, more: str = ""
) -> None:
    """Raise `NoPath` with the name of the first pair that is ``lost``, which means that it has no path."""
    if not lost.any():
        return
    one = fabric.name(int(source[lost][0]))
    other = fabric.name(int(target[lost][0]))
    why = f"every way has a failed link (capacity 0) or passes a node that forbids transit{more}"
    raise NoPath(f"no path from {one} to {other}: {why}; restore a link, or route other ends")


def by_pair(
    fabric: Fabric,
    flows: Flows,
    choose: Callable[[Ints, Ints, Seed], PairRoutes],
    seed: int = 0,
    entropy: ArrayLike | None = None,
) -> Routes:
    """Return the routes of all flows, calling ``choose(source, target, seed)`` with each pair of nodes once.

    ``choose`` returns the same number of rows for every pair. Flows with the same ends but different ``entropy`` count
    as different pairs, each with a seed of its own.
    """
    for name in ("source", "target"):
        check_within(getattr(flows, name), f"{name} of a flow", 0, fabric.n_nodes - 1)
    moving = np.flatnonzero(flows.source != flows.target)  # (M,) flows that need a route
    if entropy is None:
        values = code = np.zeros(1, np.int64)
    else:
        given = whole(entropy, "entropy", flows.size.shape, "one per flow, such as its queue pair")
        values, code = np.unique(given[moving], return_inverse=True)
    n_values = max(values.size, 1)

    # Each combination of ends and entropy once: key = (source * nodes + target) * values + entropy.
    ends = flows.source[moving].astype(np.int64) * fabric.n_nodes + flows.target[moving]
    pairs, pair_of_flow = np.unique(ends * n_values + code, return_inverse=True)
    ends, code = np.divmod(pairs, n_values)
    source, target = np.divmod(ends, fabric.n_nodes)
    own_seed: Seed = seed if entropy is None else hashed(seed, values[code])
    rows = choose(source, target, own_seed)

    n_rows = rows.ptr.size - 1
    each = n_rows // max(pairs.size, 1)  # rows per pair
    # Delay of a row: the sum over its links of delay times use; for a spray that is a mean over its paths.
    delay = np.bincount(rows_of(rows.ptr), fabric.delay[rows.link] * rows.use, n_rows)
    routes = Routes(
        ptr=rows.ptr,
        link=rows.link.astype(np.int32),
        use=rows.use,
        flow=np.zeros(n_rows, np.int32),
        share=np.full(n_rows, 1.0 / max(each, 1)),
        delay=delay.astype(np.float64),
        kind=np.full(n_rows, rows.kind),
        adaptive=np.zeros(n_rows, dtype=np.bool_),
    )

    row_of_flow = (pair_of_flow[:, None] * each + np.arange(each)).ravel()
    return routes.of_rows(row_of_flow, flow=np.repeat(moving, each).astype(np.int32))


FAR = 2**15  # hop count if there is no path
# words in each of the four arrays that a sweep works on together (512 KiB each, which stay in the cache)
_CACHE = 2**16
# hop counts in memory at the same time (2 MiB for each of their bits, which stay in the cache)
_BATCH = 2**24


def bit(column: Ints) -> NDArray[np.uint64]:
    """Return a word with only the bit of each column set."""
    return np.uint64(1) << (column & 63).astype(np.uint64)


class ShortestPathSearch:
    """Breadth-first search from many goals back over working links; each goal is one bit of a 64-bit word.

    Every node has a row of words, whose bits tell which goals it reaches. One hop back is a bitwise or over the nodes
    to which its links lead, so 64 goals advance with each operation. Nodes that forbid transit reach goals, but no path
    continues through them.
    """

    def __init__(self, graph: Fabric | Copies) -> None:
        live = np.flatnonzero(graph.capacity > 0)

        # Links into each node, for the first hop back from a goal.
        degree = np.bincount(graph.target[live], minlength=graph.n_nodes)
        by_target = live[np.argsort(graph.target[live], kind="stable")]
        self.into = Links(start=pointer(degree)[:-1], count=degree, table=by_target)
        self.source = graph.source

        # All further hops lead over nodes that let traffic pass: the links of node 0 to such nodes, of node 1, ...
        onward = live[graph.transit[graph.target[live]]]
        links = onward[np.argsort(graph.source[onward], kind="stable")]
        degree = np.bincount(graph.source[onward], minlength=graph.n_nodes)  # (N,) such links
        first = pointer(degree)  # where the links of a node begin in `links`

        # Row i of all words belongs to node by_degree[i]; nodes with the most such links come first.
        by_degree = np.argsort(-degree, kind="stable")
        self.row = np.argsort(by_degree)  # (N,) row of each node
        # All bits set if a node lets traffic pass, else none; (N, 1) words, by row.
        self.passes = np.where(graph.transit[by_degree], ~np.uint64(0), np.uint64(0))[:, None]

        # Link j of all nodes with more than j such links: the rows to which they lead. Links j of as many nodes stand
        # together in one table (links, nodes), as long as it has no more entries than there are nodes.
        self.ahead: list[Ints] = []
        degree_of_row = degree[by_degree]
        j = 0
        while j < int(degree.max()):
            n = int(np.count_nonzero(degree > j))
            n_links = min(int(degree_of_row[n - 1]) - j, max(1, graph.n_nodes // n))
            link = links[first[by_degree[:n]] + np.arange(j, j + n_links)[:, None]]
            self.ahead.append(self.row[graph.target[link]])
            j += n_links

    def blocks(self, goals: Ints) -> list[Ints]:
        """Divide the goals into blocks whose words fit into the cache together."""
        words = _CACHE // self.row.size  # per node
        step = 64 << max(
            0, words.bit_length() - 1
        )  # words rounded down to a power of 2, 64 goals each
        return np.split(goals, range(step, goals.size, step))

    def start(self, goals: Ints, copies: int = 1) -> NDArray[np.uint64]:
        """Return the goals that each node reaches in 0 hops, only itself, in each of the copies; (N, words), by row."""
        node, column = self._goal_nodes(goals, copies)
        return self._marked(goals.size, node, column)

    def _goal_nodes(self, goals: Ints, copies: int) -> tuple[Ints, Ints]:
        """Return the node of each goal in each copy, and the goal's column."""
        first = np.arange(0, self.row.size, self.row.size // copies)  # node 0 of each copy
        node = (first[:, None] + goals).ravel()
        return node, np.tile(np.arange(goals.size), copies)

    def _marked(self, n_goals: int, node: NDArray[np.integer], column: Ints) -> NDArray[np.uint64]:
        """Return words in which only the bits of these nodes and columns are set, (N, words), by row."""
        # numpy copies rows of 1, 2, 4, ... words several times faster than rows of other lengths.
        words = 1 << ((n_goals - 1) // 64).bit_length()
        marked = np.zeros((self.row.size, words), dtype=np.uint64)
        np.bitwise_or.at(marked, (self.row[node], column >> 6), bit(column))
        return marked

    def sweeps(self, goals: Ints, copies: int = 1) -> Iterator[NDArray[np.uint64]]:
        """Yield for 1, 2, ... hops the goals that each node reaches in exactly that many, in the shape of `start`.

        The array is overwritten by the next step.
        """
        reached = self.start(goals, copies)
        scratch = np.empty_like(reached)
        passed_on = np.empty_like(reached)

        # One hop: the nodes from which a link leads to the goal itself, which may be a node that forbids transit.
        node, column = self._goal_nodes(goals, copies)
        count = self.into.count[node]
        link = Links(self.into.start[node], count, self.into.table).all()
        new = self._marked(goals.size, self.source[link], np.repeat(column, count))
        while True:
            new &= np.invert(reached, out=scratch)
            if not new.any():
                return
            yield new

            reached |= new
            np.bitwise_and(new, self.passes, out=passed_on)
            if not passed_on.any():
                return
            # New goals of a node: all goals of the nodes to which its links lead, except those reached before.
            new[:] = 0
            for ahead in self.ahead:
                n_links, n = ahead.shape
                gathered = scratch[: ahead.size].reshape(n_links, n, -1)
                np.take(passed_on, ahead, axis=0, out=gathered, mode="clip")
                new[:n] |= gathered[0] if n_links == 1 else np.bitwise_or.reduce(gathered, axis=0)

    def hops(self, goals: Ints, copies: int = 1) -> "_HopCounts":
        """Return the hops from every node to each goal, to the nearest of the goal's copies."""
        seen = self.start(goals, copies)
        planes: list[NDArray[np.uint64]] = []
        for hops, new in enumerate(self.sweeps(goals, copies), 1):
            while len(planes) < hops.bit_length():
                planes.append(np.zeros_like(new))
            for k, plane in enumerate(planes):
                if hops >> k & 1:
                    plane |= new
            seen |= new
        return _HopCounts(self.row, seen, planes)

    def table(self, goals: Ints) -> NDArray[np.uint16]:
        """Return a table of the hops from every node to each goal, (N, goals); `FAR` if there is no path."""
        node = np.arange(self.row.size)[:, None]
        return self.hops(goals).count(node, np.arange(goals.size))


@dataclass(frozen=True)
class _HopCounts:
    """Hop counts from nodes to goals, stored in bit planes: plane k has bit k of every count.

    ``seen`` has a bit set if there is a path at all. Each plane is an array (N, words) by row, as in
    `ShortestPathSearch`.
    """

    row: Ints
    seen: NDArray[np.uint64]
    planes: list[NDArray[np.uint64]]

    def count(self, node: NDArray[np.integer], column: Ints) -> NDArray[np.uint16]:
        """Return the hops from each node to the goal of its column; `FAR` if there is no path."""
        words_per_row = self.seen.shape[1]
        word = self.row[node] * words_per_row + (column >> 6)
        mask = bit(column)
        hops = np.where(self.seen.take(word) & mask, np.uint16(0), np.uint16(FAR))
        for k, plane in enumerate(self.planes):
            is_set = plane.take(word) & mask != 0
            hops += is_set * np.uint16(1 << k)
        return hops


class Tables(Paths):
    """Shortest paths by search, from hop counts to every target; for any graph, and for joined copies of a fabric.

    A path through copies starts in the first copy and may end in any.
    """

    def __init__(self, fabric: Fabric, copies: Copies | None = None) -> None:
        self.fabric = fabric
        self.graph: Fabric | Copies = fabric if copies is None else copies
        live = np.flatnonzero(self.graph.capacity > 0)
        # Working links sorted by source: those of node n are order[ptr[n] : ptr[n + 1]].
        self.order = live[np.argsort(self.graph.source[live], kind="stable")]
        self.ptr = pointer(np.bincount(self.graph.source[self.order], minlength=self.graph.n_nodes))

    def batches(self, source: Ints, target: Ints) -> list[Ints]:
        """Return the numbers of the pairs, sorted by target, in batches whose hop counts fit into memory."""
        order = np.argsort(target, kind="stable")
        goals, first = np.unique(target[order], return_index=True)
        if not goals.size:
            return []
        step = max(1, _BATCH // max(1, self.graph.n_nodes))  # goals per batch
        return np.split(order, first[step::step])

    def walk(self, source: Ints, target: Ints) -> NextLinks:
        """Return the function that gives the next links of these pairs."""
        goals, column = np.unique(target, return_inverse=True)
        hops = self._search(goals)
        more = "" if self.graph is self.fabric else ", or climbs again after it has come down"
        check_paths(self.fabric, hops.count(source, column) == FAR, source, target, more)
        return partial(self._next_links, hops, goals, column)

    def _next_links(
        self, hops: _HopCounts, goals: Ints, column: Ints, pair: Ints, node: Ints
    ) -> Links:
        """Return for each pair at its node all working links that lead one hop closer to its goal.

        The goal of pair p is ``goals[column[p]]``.
        """
        degree = self.ptr[node + 1] - self.ptr[node]
        links = self.order[
            expand(self.ptr[node], degree)
        ]  # all links out of the first node, then the second, ...
        owner = np.repeat(np.arange(node.size), degree)  # index into pair and node, for each link
        column = column[pair]

        ahead = self.graph.target[links]
        hops_here = hops.count(node, column)[owner]
        hops_ahead = hops.count(ahead, column[owner])
        nearer = hops_ahead + np.uint16(1) == hops_here
        arrives = ahead % self.fabric.n_nodes == goals[column[owner]]
        nearer &= self.graph.transit[ahead] | arrives

        counts = np.bincount(owner[nearer], minlength=node.size)
        return Links(pointer(counts)[:-1], counts, links[nearer])

    def reaches(self, source: Ints, target: Ints) -> NDArray[np.bool_]:
        """Return whether each pair has a path."""
        goals, column = np.unique(target, return_inverse=True)
        return np.not_equal(self._search(goals).count(source, column), FAR)

    def _search(self, goals: Ints) -> _HopCounts:
        """Return the hops from every node to the goals."""
        n_copies = self.graph.n_nodes // self.fabric.n_nodes
        return ShortestPathSearch(self.graph).hops(goals, n_copies)
