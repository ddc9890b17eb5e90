"""What a routing method sees: links that lead on from a node, a walk along them, and each pair of nodes once.

The shortest ways of any graph are found by breadth-first search, a bit for each goal.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import (
    PATH,
    Fabric,
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
Seed = int | NDArray[np.uint64]  # of all pairs, or of each


class Copies(NamedTuple):
    """Copies of a Fabric of N nodes and L links, joined: node v N + i and link v L + i are those of copy v."""

    n_nodes: int
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    capacity: NDArray[np.float64]
    transit: NDArray[np.bool_]


@dataclass(frozen=True)
class Links:
    """Links to choose from: those of k are ``table[start[k] : start[k] + count[k]]``, by rising number."""

    start: Ints
    count: Ints
    table: Ints

    def all(self) -> Ints:
        """Return the links of all k in one row."""
        return self.table[expand(self.start, self.count)]


class Rows(NamedTuple):
    """Rows of links for pairs of nodes, as a routing method returns them."""

    ptr: Ints
    link: Ints
    use: NDArray[np.float64]
    kind: int


# Shortest ways of some pairs: (pair, node) -> the links of all of them that lead on from ``node[k]`` for ``pair[k]``.
Walk = Callable[[Ints, Ints], Links]


class Ways(Protocol):
    """Shortest ways of a fabric; pairs are given in batches."""

    # where the walk goes: links and nodes are taken modulo those of the fabric
    graph: Fabric | Copies

    def batches(self, source: Ints, target: Ints) -> list[Ints]:
        """Return the pairs in batches that fit into memory together: all at once where no table is needed."""
        return [np.arange(source.size)] if source.size else []

    def walk(self, source: Ints, target: Ints) -> Walk:
        """Return the ways of these pairs."""


# What a method chooses: (row, node, links) -> index among the links of each k. Row r is that of pair r // subflows;
# the node is one of the fabric, the links may be those of a copy.
Pick = Callable[[Ints, Ints, Links], NDArray[np.integer]]


def follow(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, subflows: int, pick: Pick
) -> Rows:
    """Walk all pairs at once, link by link, on the links that ``pick`` chooses; ``subflows`` paths per pair."""
    columns: list[NDArray[np.int32]] = []
    n, graph = source.size * subflows, ways.graph
    for batch in ways.batches(source, target):
        walk = ways.walk(source[batch], target[batch])
        pair = np.repeat(np.arange(batch.size), subflows)
        row = (batch[pair] * subflows + np.tile(np.arange(subflows), batch.size)).astype(np.int64)
        node, goal, hop = source[batch][pair], target[batch][pair], 0
        while row.size:
            links = walk(pair, node)
            chosen = links.table[links.start + pick(row, node % fabric.n_nodes, links)]
            if hop == len(columns):
                columns.append(np.full(n, -1, dtype=np.int32))
            columns[hop][row] = chosen
            node, hop = graph.target[chosen].astype(np.int64), hop + 1
            on = node % fabric.n_nodes != goal
            pair, row, node, goal = pair[on], row[on], node[on], goal[on]
    table = np.stack(columns, axis=1) if columns else np.full((n, 0), -1, dtype=np.int32)
    taken = table >= 0
    link = table[taken].astype(np.int64) % fabric.n_links
    return Rows(ptr=pointer(taken.sum(axis=1)), link=link, use=np.ones(link.size), kind=PATH)


def first(row: Ints, node: Ints, links: Links) -> Ints:
    """Choose the lowest link number everywhere."""
    return np.zeros(row.size, dtype=np.int64)


def hashed(seed: Seed, *columns: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return a 64-bit hash per row (the finaliser of splitmix64, Steele et al., OOPSLA 2014)."""
    start = np.array([seed % 2**64], dtype=np.uint64) if isinstance(seed, int) else seed
    value = np.broadcast_to(start * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1), columns[0].shape)
    for column in columns:
        value = value ^ (column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value = value ^ (value >> np.uint64(31))
    return value


def kept(fabric: Fabric, name: str, make: Callable[[Fabric], Found]) -> Found:
    """Return what ``make`` reads off a fabric; it is kept there, like the cached properties, and freed with it."""
    if name not in fabric.__dict__:
        fabric.__dict__[name] = make(fabric)
    found: Found = fabric.__dict__[name]
    return found


def check_paths(
    fabric: Fabric, lost: NDArray[np.bool_], source: Ints, target: Ints, more: str = ""
) -> None:
    """Refuse pairs that are ``lost``, each of which has no path; the first is named."""
    if lost.any():
        one, other = (fabric.name(int(end[lost][0])) for end in (source, target))
        why = (
            f"every way has a failed link (capacity 0) or passes a node that forbids transit{more}"
        )
        raise NoPath(f"no path from {one} to {other}: {why}; restore a link, or route other ends")


def by_pair(
    fabric: Fabric,
    flows: Flows,
    choose: Callable[[Ints, Ints, Seed], Rows],
    seed: int = 0,
    entropy: ArrayLike | None = None,
) -> Routes:
    """Return the routes that ``choose(source, target, seed)`` gives, as many rows for each pair as for the others."""
    for name in ("source", "target"):
        check_within(getattr(flows, name), f"{name} of a flow", 0, fabric.n_nodes - 1)
    moving = np.flatnonzero(flows.source != flows.target)
    fields = code = np.zeros(1, np.int64)
    if entropy is not None:
        given = whole(entropy, "entropy", flows.size.shape, "one per flow, such as its queue pair")
        fields, code = np.unique(given[moving], return_inverse=True)
    ends = flows.source[moving].astype(np.int64) * fabric.n_nodes + flows.target[moving]
    pairs, inverse = np.unique(ends * max(fields.size, 1) + code, return_inverse=True)
    ends, code = np.divmod(pairs, max(fields.size, 1))
    own: Seed = seed if entropy is None else hashed(seed, fields[code])
    rows = choose(ends // fabric.n_nodes, ends % fabric.n_nodes, own)
    n, each = rows.ptr.size - 1, (rows.ptr.size - 1) // max(pairs.size, 1)
    delay: Any = np.bincount(rows_of(rows.ptr), fabric.delay[rows.link] * rows.use, n)
    share, kind, fixed = (
        np.full(n, 1.0 / max(each, 1)),
        np.full(n, rows.kind),
        np.zeros(n, dtype=np.bool_),
    )
    routes = Routes(
        rows.ptr,
        rows.link.astype(np.int32),
        rows.use,
        np.zeros(n, np.int32),
        share,
        delay,
        kind,
        fixed,
    )
    # of each flow the rows of its pair
    wanted = (inverse[:, None] * each + np.arange(each)).ravel()
    return routes.of_rows(wanted, flow=np.repeat(moving, each).astype(np.int32))


FAR = 2**15  # no way
_CACHE = 2**18  # words that a sweep works on, 2 MiB: they stay in the cache
# hop counts that are held at once (2 MiB for each bit of them: they stay in the cache)
_BATCH = 2**24


def bit(column: Ints) -> NDArray[np.uint64]:
    """Return the bit of each column within its word."""
    return np.uint64(1) << (column & 63).astype(np.uint64)


class Search:
    """Breadth-first search over the links that work, from many goals back; a goal is one bit of a word.

    Nodes that forbid transit are reached and do not pass on what they reach.
    """

    def __init__(self, graph: Fabric | Copies) -> None:
        live = np.flatnonzero(graph.capacity > 0)
        degree = np.bincount(graph.source[live], minlength=graph.n_nodes)
        order, first = live[np.argsort(graph.source[live], kind="stable")], pointer(degree)
        by_degree = np.argsort(-degree, kind="stable")
        self.row = np.argsort(by_degree)  # of each node: those with most links stand first
        self.passes = np.where(graph.transit[by_degree], ~np.uint64(0), np.uint64(0))[:, None]
        # Where link j of each row leads, for the rows that have so many.
        counts = [np.count_nonzero(degree > j) for j in range(int(degree.max()))]
        self.ahead = [
            self.row[graph.target[order[first[by_degree[:n]] + j]]] for j, n in enumerate(counts)
        ]

    def blocks(self, goals: Ints) -> list[Ints]:
        """Return the goals in blocks that the cache holds."""
        step = 64 << max(0, (_CACHE // self.row.size).bit_length() - 1)
        return np.split(goals, range(step, goals.size, step))

    def start(self, goals: Ints, copies: int = 1) -> NDArray[np.uint64]:
        """Return the goals that each row reaches in 0 hops: itself, in each of the copies; (N, goals / 64) words."""
        # numpy copies rows of 1, 2, 4, ... words several times faster than those between.
        reached = np.zeros(
            (self.row.size, 1 << ((goals.size - 1) // 64).bit_length()), dtype=np.uint64
        )
        column = np.arange(goals.size)
        for first in range(0, self.row.size, self.row.size // copies):
            np.bitwise_or.at(reached, (self.row[first + goals], column >> 6), bit(column))
        return reached

    def sweeps(self, goals: Ints, copies: int = 1) -> Iterator[NDArray[np.uint64]]:
        """Yield for 1, 2, ... hops the goals that each row reaches in so many and no fewer, as `start` does for 0."""
        reached = self.start(goals, copies)
        passes, new, there = reached.copy(), np.empty_like(reached), np.empty_like(reached)
        while True:
            new[:] = 0
            for ahead in self.ahead:
                new[: ahead.size] |= np.take(
                    passes, ahead, axis=0, out=there[: ahead.size], mode="clip"
                )
            new &= np.invert(reached, out=there)
            if not new.any():
                return
            yield new
            reached |= new
            np.bitwise_and(reached, self.passes, out=passes)

    def hops(self, goals: Ints, copies: int = 1) -> "_Hops":
        """Return the hops from every node to each goal, in whichever copy it is nearest."""
        seen, planes = self.start(goals, copies), list[NDArray[np.uint64]]()
        for hops, new in enumerate(self.sweeps(goals, copies), 1):
            planes += [np.zeros_like(new) for _ in range(hops.bit_length() - len(planes))]
            for k, plane in enumerate(planes):
                if hops >> k & 1:
                    plane |= new
            seen |= new
        return _Hops(self.row, seen, planes)

    def table(self, goals: Ints) -> NDArray[np.uint16]:
        """Return the hops from every node to each goal as a table, `FAR` where there is no way, (N, goals)."""
        return self.hops(goals).count(np.arange(self.row.size)[:, None], np.arange(goals.size))


@dataclass(frozen=True)
class _Hops:
    """Hop counts from nodes to goals, bit k of every count in plane k: (N, goals / 64) words each, by row."""

    row: Ints
    seen: NDArray[np.uint64]
    planes: list[NDArray[np.uint64]]

    def count(self, node: NDArray[np.integer], column: Ints) -> NDArray[np.uint16]:
        """Return the hops from each node to the goal of each column, `FAR` where there is no way."""
        word, mask = self.row[node] * self.seen.shape[1] + (column >> 6), bit(column)
        hops = np.where(self.seen.take(word) & mask, np.uint16(0), np.uint16(FAR))
        for k, plane in enumerate(self.planes):
            hops += (plane.take(word) & mask != 0) * np.uint16(1 << k)
        return hops


class Tables:
    """Hop counts to every target by search; for any graph, and for copies of a fabric that are joined.

    In copies a way starts in the first and may end in any.
    """

    def __init__(self, fabric: Fabric, copies: Copies | None = None) -> None:
        self.fabric = fabric
        self.graph: Fabric | Copies = fabric if copies is None else copies
        live = np.flatnonzero(self.graph.capacity > 0)
        self.order = live[np.argsort(self.graph.source[live], kind="stable")]
        self.ptr = pointer(np.bincount(self.graph.source[self.order], minlength=self.graph.n_nodes))

    def batches(self, source: Ints, target: Ints) -> list[Ints]:
        """Return the pairs sorted by target, so many that their hop counts fit."""
        order = np.argsort(target, kind="stable")
        goals, first = np.unique(target[order], return_index=True)
        step = max(1, _BATCH // max(1, self.graph.n_nodes))
        return np.split(order, first[step::step]) if goals.size else []

    def walk(self, source: Ints, target: Ints) -> Walk:
        """Return the ways of these pairs."""
        goals, column = np.unique(target, return_inverse=True)
        seen = self._search(goals)
        more = "" if self.graph is self.fabric else ", or climbs again after it has come down"
        check_paths(self.fabric, seen.count(source, column) == FAR, source, target, more)
        return partial(self._next_links, seen, goals, column)

    def _next_links(self, hops: _Hops, goals: Ints, column: Ints, pair: Ints, node: Ints) -> Links:
        """Return all live links to a node one hop nearer."""
        graph, ptr = self.graph, self.ptr
        counts = ptr[node + 1] - ptr[node]
        links, column = self.order[expand(ptr[node], counts)], column[pair]
        owner, ahead = np.repeat(np.arange(node.size), counts), graph.target[links]
        nearer = hops.count(ahead, column[owner]) + np.uint16(1) == hops.count(node, column)[owner]
        nearer &= graph.transit[ahead] | (ahead % self.fabric.n_nodes == goals[column[owner]])
        counts = np.bincount(owner[nearer], minlength=node.size)
        return Links(pointer(counts)[:-1], counts, links[nearer])

    def reaches(self, source: Ints, target: Ints) -> NDArray[np.bool_]:
        """Return whether each pair has a way."""
        goals, column = np.unique(target, return_inverse=True)
        return np.not_equal(self._search(goals).count(source, column), FAR)

    def _search(self, goals: Ints) -> _Hops:
        return Search(self.graph).hops(goals, self.graph.n_nodes // self.fabric.n_nodes)
