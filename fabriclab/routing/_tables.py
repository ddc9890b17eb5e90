"""Shortest ways by search, 64 targets at once: for any graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric
from fabriclab.core._arrays import expand, pointer
from fabriclab.routing._ways import Copies, Ints, Links, Walk, no_path

__all__ = ["Tables"]

_FAR: Final = np.uint16(2**15)  # no way
_BATCH: Final = 2**24  # hop counts that are held at once (2 MiB for each bit of them: they stay in the cache)


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
        cut = np.flatnonzero(seen.count(source, column) == _FAR)
        if cut.size:
            more = "" if self.graph is self.fabric else ", or climbs again after it has come down"
            raise no_path(self.fabric, int(source[cut[0]]), int(target[cut[0]]), more)
        return _TableWalk(self, seen, goals, column)

    def reaches(self, source: Ints, target: Ints) -> NDArray[np.bool_]:
        """Return whether each pair has a way."""
        goals, column = np.unique(target, return_inverse=True)
        out: NDArray[np.bool_] = self._search(goals).count(source, column) != _FAR
        return out

    def _search(self, goals: Ints) -> _Hops:
        """Search from all goals at once: every sweep tells each node what its neighbours have reached.

        A goal is one bit, so a word carries 64 searches.
        """
        graph, n = self.graph, self.fabric.n_nodes
        reached = np.zeros((graph.n_nodes, -(-goals.size // 64)), dtype=np.uint64)
        column = np.arange(goals.size)
        for first in range(0, graph.n_nodes, n):
            reached[first + goals, column >> 6] |= _bit(column)
        # What a node passes on: all that it has reached, or, where it forbids transit, itself as a goal.
        passes, on = reached.copy(), np.flatnonzero(graph.transit)
        ahead, some = graph.target[self.order], np.flatnonzero(np.diff(self.ptr))
        planes: list[NDArray[np.uint64]] = []
        for hops in range(1, int(_FAR)):
            new = np.zeros_like(reached)
            new[some] = np.bitwise_or.reduceat(passes[ahead], self.ptr[some], axis=0)
            new &= ~reached
            if not new.any():
                break
            for k in range(hops.bit_length()):
                if k == len(planes):
                    planes.append(np.zeros_like(reached))
                if hops >> k & 1:
                    planes[k] |= new
            reached |= new
            passes[on] = reached[on]
        return _Hops(reached, planes)


def _bit(column: Ints) -> NDArray[np.uint64]:
    """Return the bit of each column within its word."""
    return np.uint64(1) << (column & 63).astype(np.uint64)


@dataclass(frozen=True)
class _Hops:
    """Hop counts from nodes to goals, bit k of every count in plane k: (N, goals / 64) words each."""

    seen: NDArray[np.uint64]
    planes: list[NDArray[np.uint64]]

    def count(self, node: NDArray[np.integer], column: Ints) -> NDArray[np.uint16]:
        """Return the hops from each node to the goal of each column, _FAR where there is no way."""
        word, bit = node * self.seen.shape[1] + (column >> 6), _bit(column)
        hops = np.where(self.seen.take(word) & bit, np.uint16(0), _FAR)
        for k, plane in enumerate(self.planes):
            hops += (plane.take(word) & bit != 0) * np.uint16(1 << k)
        return hops


@dataclass(frozen=True)
class _TableWalk:
    tables: Tables
    hops: _Hops
    goals: Ints
    column: Ints

    def next_links(self, pair: Ints, node: Ints) -> Links:
        """Return all live links to a node one hop nearer."""
        graph, ptr, n = self.tables.graph, self.tables.ptr, self.tables.fabric.n_nodes
        counts = ptr[node + 1] - ptr[node]
        links = self.tables.order[expand(ptr[node], counts)]
        owner, ahead, column = np.repeat(np.arange(node.size), counts), graph.target[links], self.column[pair]
        here = self.hops.count(node, column)
        nearer = self.hops.count(ahead, column[owner]) + np.uint16(1) == here[owner]
        nearer &= graph.transit[ahead] | (ahead % n == self.goals[column[owner]])
        counts = np.bincount(owner[nearer], minlength=node.size)
        return Links(pointer(counts)[:-1], counts, links[nearer])
