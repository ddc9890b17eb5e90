"""Hops from all nodes to many goals at once, by breadth-first search with one bit for each goal."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric, pointer
from fabriclab.routing._ways import Copies, Ints

FAR = 2**15  # no way
_CACHE = 2**18  # words that a sweep works on, 2 MiB: they stay in the cache


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
