"""What a routing method sees: rows of links, and the links that lead on from a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric
from fabriclab.errors import NoPath

__all__ = ["Ints", "Rows", "Walk", "Ways", "hashed", "no_path"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Rows of links for pairs of nodes, as a routing method returns them."""

    ptr: Ints
    link: Ints
    use: NDArray[np.float64]
    kind: int


class Walk(Protocol):
    """Shortest ways of some pairs: which links lead on from a node."""

    def next_links(self, pair: Ints, node: Ints) -> tuple[Ints, Ints]:
        """Return the counts (K,) and the links of all shortest ways on from ``node[k]`` for ``pair[k]``."""
        ...


class Ways(Protocol):
    """Shortest ways of a fabric; pairs are given in batches."""

    def batches(self, source: Ints, target: Ints) -> list[Ints]:
        """Return the pairs in batches that fit into memory together."""
        ...

    def walk(self, source: Ints, target: Ints) -> Walk:
        """Return the ways of these pairs."""
        ...


def hashed(seed: int, *columns: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return a 64-bit hash per row (the finaliser of splitmix64, Steele et al., OOPSLA 2014)."""
    value = np.full(columns[0].shape, (seed * 0x9E3779B97F4A7C15 + 1) % 2**64, dtype=np.uint64)
    for column in columns:
        value = value ^ (column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value = value ^ (value >> np.uint64(31))
    return value


def no_path(fabric: Fabric, source: int, target: int) -> NoPath:
    return NoPath(
        f"no path from {fabric.name(source)} to {fabric.name(target)}: every way has a failed link (capacity 0) "
        "or passes a node that forbids transit; restore a link, or route other ends"
    )
