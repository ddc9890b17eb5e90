"""Compressed rows, shared by the types of this folder."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ids = NDArray[np.int32]  # nodes, links, flows, ranks
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def rows_of(ptr: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the row number of every entry of compressed rows ``ptr`` (R + 1,)."""
    return np.repeat(np.arange(ptr.size - 1), np.diff(ptr))


def pointer(counts: ArrayLike) -> NDArray[np.int64]:
    """Return the row pointer (R + 1,) of rows with these ``counts`` (R,)."""
    return np.append(0, np.cumsum(np.asarray(counts, dtype=np.int64)))


def expand(start: NDArray[np.integer], counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return start[0], start[0] + 1, ... (counts[0] of them), start[1], ... as one array."""
    counts = np.asarray(counts, dtype=np.int64)
    shift = np.repeat(start - pointer(counts)[:-1], counts)
    return np.arange(shift.size) + shift


def distinct(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct keys, sorted; np.unique hashes first, which is slower for nearly distinct keys."""
    key = np.sort(key)
    return np.asarray(key[np.diff(key, prepend=-1) != 0], dtype=np.int64)


def distinct_pairs(
    one: NDArray[np.int64], other: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each pair of numbers >= 0 once, in order."""
    most = int(other.max(initial=0)) + 1
    return np.divmod(distinct(one * most + other), most)


def parts_of(
    n: int, one: NDArray[np.integer], other: NDArray[np.integer], *, both_ways: bool = False
) -> Ints:
    """Return the part of each of ``n`` things (n,) that pairs of them join, numbered from 0; perhaps there and back."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    joined = coo_array((np.ones(one.size, np.int8), (one, other)), shape=(n, n))
    return np.asarray(
        connected_components(joined, directed=both_ways, connection="strong")[1], dtype=np.int64
    )
