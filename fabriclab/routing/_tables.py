"""Breadth-first search, a bit for each goal: hops from all nodes to many goals, and the shortest ways of any graph."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric, expand, pointer
from fabriclab.routing._ways import Copies, Ints, Links, Walk, check_paths

FAR = 2**15  # no way
_CACHE = 2**18  # words that a sweep works on, 2 MiB: they stay in the cache
_BATCH = 2**24  # hop counts that are held at once (2 MiB for each bit of them: they stay in the cache)


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
        self.ahead = [self.row[graph.target[order[first[by_degree[:n]] + j]]] for j, n in enumerate(counts)]

    def blocks(self, goals: Ints) -> list[Ints]:
        """Return the goals in blocks that the cache holds."""
        step = 64 << max(0, (_CACHE // self.row.size).bit_length() - 1)
        return np.split(goals, range(step, goals.size, step))

    def start(self, goals: Ints, copies: int = 1) -> NDArray[np.uint64]:
        """Return the goals that each row reaches in 0 hops: itself, in each of the copies; (N, goals / 64) words."""
        # numpy copies rows of 1, 2, 4, ... words several times faster than those between.
        reached = np.zeros((self.row.size, 1 << ((goals.size - 1) // 64).bit_length()), dtype=np.uint64)
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
                new[: ahead.size] |= np.take(passes, ahead, axis=0, out=there[: ahead.size], mode="clip")
            new &= np.invert(reached, out=there)
            if not new.any():
                return
            yield new
            reached |= new
            np.bitwise_and(reached, self.passes, out=passes)

    def table(self, goals: Ints) -> NDArray[np.uint16]:
        """Return the hops from every node to each goal, `FAR` where there is no way, (N, goals)."""
        out = np.full((self.row.size, goals.size), FAR, dtype=np.uint16)
        for hops, new in enumerate(self.sweeps(goals), 1):
            bits = np.unpackbits(new.astype("<u8").view(np.uint8), axis=1, count=goals.size, bitorder="little")
            np.copyto(out, np.uint16(hops), where=bits.view(np.bool_))
        out[self.row[goals], np.arange(goals.size)] = 0
        return out[self.row]


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
        search, copies = Search(self.graph), self.graph.n_nodes // self.fabric.n_nodes
        seen, planes = search.start(goals, copies), list[NDArray[np.uint64]]()
        for hops, new in enumerate(search.sweeps(goals, copies), 1):
            planes += [np.zeros_like(new) for _ in range(hops.bit_length() - len(planes))]
            for k, plane in enumerate(planes):
                if hops >> k & 1:
                    plane |= new
            seen |= new
        return _Hops(search.row, seen, planes)
