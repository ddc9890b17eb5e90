"""Shortest ways by search, 64 targets at once: for any graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric, expand, pointer
from fabriclab.routing._search import FAR, Search, bit
from fabriclab.routing._ways import Copies, Ints, Links, Walk, no_path

_BATCH = 2**24  # hop counts that are held at once (2 MiB for each bit of them: they stay in the cache)


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
        cut = np.flatnonzero(seen.count(source, column) == FAR)
        if cut.size:
            more = "" if self.graph is self.fabric else ", or climbs again after it has come down"
            raise no_path(self.fabric, int(source[cut[0]]), int(target[cut[0]]), more)
        return partial(self._next_links, seen, goals, column)

    def _next_links(self, hops: _Hops, goals: Ints, column: Ints, pair: Ints, node: Ints) -> Links:
        """Return all live links to a node one hop nearer."""
        graph, ptr = self.graph, self.ptr
        counts = ptr[node + 1] - ptr[node]
        links, column = self.order[expand(ptr[node], counts)], column[pair]
        owner, ahead = np.repeat(np.arange(node.size), counts), graph.target[links]
        here = hops.count(node, column)
        nearer = hops.count(ahead, column[owner]) + np.uint16(1) == here[owner]
        nearer &= graph.transit[ahead] | (ahead % self.fabric.n_nodes == goals[column[owner]])
        counts = np.bincount(owner[nearer], minlength=node.size)
        return Links(pointer(counts)[:-1], counts, links[nearer])

    def reaches(self, source: Ints, target: Ints) -> NDArray[np.bool_]:
        """Return whether each pair has a way."""
        goals, column = np.unique(target, return_inverse=True)
        out: NDArray[np.bool_] = self._search(goals).count(source, column) != FAR
        return out

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
