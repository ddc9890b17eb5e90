"""Helpers for compressed rows, the form in which `Routes`, `Flows` and `Fabric.out` keep lists of different lengths.

Row r holds the entries ``ptr[r]:ptr[r + 1]`` of one long array; ``ptr`` is the row pointer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ids = NDArray[np.int32]  # nodes, links, flows, ranks
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def rows_of(ptr: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the row number of every entry of compressed rows with the pointer ``ptr`` (R + 1,)."""
    return np.repeat(np.arange(ptr.size - 1), np.diff(ptr))


def pointer(counts: ArrayLike) -> NDArray[np.int64]:
    """Return the row pointer (R + 1,) of compressed rows that have ``counts`` (R,) entries each."""
    return np.append(0, np.cumsum(np.asarray(counts, dtype=np.int64)))


def expand(start: NDArray[np.integer], counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return several runs of consecutive numbers as one array: run i has counts[i] numbers and begins at start[i]."""
    counts = np.asarray(counts, dtype=np.int64)
    # Place p of run i, which begins at place first[i], gets start[i] + (p - first[i]).
    shift = np.repeat(start - pointer(counts)[:-1], counts)
    return np.arange(shift.size) + shift


def distinct(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct keys, sorted, for keys >= 0.

    Sorting is faster here than `numpy.unique`, which hashes first, because nearly all keys are distinct.
    """
    key = np.sort(key)
    return np.asarray(key[np.diff(key, prepend=-1) != 0], dtype=np.int64)


def distinct_pairs(
    one: NDArray[np.int64], other: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each distinct pair (one[i], other[i]) once, sorted; all numbers are >= 0."""
    # Each pair becomes a single key, one * most + other, which divmod takes apart again.
    most = int(other.max(initial=0)) + 1
    return np.divmod(distinct(one * most + other), most)


def parts_of(
    n: int, one: NDArray[np.integer], other: NDArray[np.integer], *, both_ways: bool = False
) -> Ints:
    """Return the connected part that each of ``n`` nodes of a graph belongs to, numbered from 0, (n,).

    Edge i leads from one[i] to other[i]. With ``both_ways`` two nodes share a part only if each can be reached from
    the other along the edges (strongly connected); without it, directions are ignored.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    joined = coo_array((np.ones(one.size, np.int8), (one, other)), shape=(n, n))
    return np.asarray(
        connected_components(joined, directed=both_ways, connection="strong")[1], dtype=np.int64
    )
