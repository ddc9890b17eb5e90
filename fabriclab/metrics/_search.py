"""Hops from all nodes to many goals at once, and where ranks enter the network: what all measures share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric
from fabriclab.core._arrays import pointer

__all__ = ["FAR", "Ints", "Search", "check_ranks", "doors", "outside"]

Ints = NDArray[np.int64]
FAR: Final = 2**15  # no way
_CACHE: Final = 2**16  # words that a sweep works on, 512 KiB: they stay in the cache


class Search:
    """Breadth-first search over the links that work, from many goals back; a goal is one bit of a word.

    Nodes that forbid transit are reached and do not pass on what they reach.
    """

    def __init__(self, fabric: Fabric) -> None:
        live = np.flatnonzero(fabric.capacity > 0)
        degree = np.bincount(fabric.source[live], minlength=fabric.n_nodes)
        order, first = live[np.argsort(fabric.source[live], kind="stable")], pointer(degree)
        by_degree = np.argsort(-degree, kind="stable")
        self.row = np.argsort(by_degree)  # of each node: those with most links stand first
        self.passes = np.where(fabric.transit[by_degree], ~np.uint64(0), np.uint64(0))[:, None]
        # Where link j of each row leads, for the rows that have so many.
        counts = [np.count_nonzero(degree > j) for j in range(int(degree.max()))]
        self.ahead = [self.row[fabric.target[order[first[by_degree[:n]] + j]]] for j, n in enumerate(counts)]

    def blocks(self, goals: Ints) -> list[Ints]:
        """Return the goals in blocks that the cache holds."""
        step = 64 << max(0, (_CACHE // self.row.size).bit_length() - 1)
        return np.split(goals, range(step, goals.size, step))

    def sweeps(self, goals: Ints) -> Iterator[NDArray[np.uint64]]:
        """Yield for 1, 2, ... hops the goals that each row reaches in so many and no fewer: (N, goals / 64) words."""
        # numpy copies rows of 1, 2, 4, ... words several times faster than those between.
        reached = np.zeros((self.row.size, 1 << ((goals.size - 1) // 64).bit_length()), dtype=np.uint64)
        column = np.arange(goals.size)
        np.bitwise_or.at(reached, (self.row[goals], column >> 6), np.uint64(1) << (column & 63).astype(np.uint64))
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


def check_ranks(fabric: Fabric) -> int:
    """Return the number of ranks, or refuse fewer than two."""
    if fabric.n_ranks < 2:
        msg = f"fabric must have at least 2 ranks, got {fabric.n_ranks}; take a larger one"
        raise ValueError(msg)
    return fabric.n_ranks


def doors(fabric: Fabric) -> tuple[Ints, Ints]:
    """Return the switch on which each rank hangs by a single cable, and that link to the rank, (R,) each.

    A rank that lets traffic pass, or with another number of links, is its own door, by no link (-1).
    """
    ends, live, n = fabric.endpoint.astype(np.int64), np.flatnonzero(fabric.capacity > 0), fabric.n_nodes
    last = np.zeros(n, dtype=np.int64)
    last[fabric.target[live]] = live
    link, door = last[ends], fabric.source[last[ends]]
    one = ~fabric.transit[ends] & fabric.transit[door] & (fabric.capacity[link ^ 1] > 0)
    for end in (fabric.source, fabric.target):
        one &= np.bincount(end[live], minlength=n)[ends] == 1
    return np.where(one, door, ends), np.where(one, link, -1)


def outside(fabric: Fabric) -> NDArray[np.bool_]:
    """Return which links lead from one server to another, or to what is in no server, (L,); if none does, all."""
    names = fabric.coord_names
    server = fabric.coord[:, names.index("server")] if "server" in names else np.full(fabric.n_nodes, -1)
    out: NDArray[np.bool_] = (server[fabric.source] != server[fabric.target]) | (server[fabric.source] < 0)
    return out if out.any() else ~out
