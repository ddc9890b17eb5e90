"""Compressed rows, shared by the types of this folder."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def rows_of(ptr: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the row number of every entry of compressed rows ``ptr`` (R + 1,)."""
    return np.repeat(np.arange(ptr.size - 1), np.diff(ptr))


def pointer(counts: ArrayLike) -> NDArray[np.int64]:
    """Return the row pointer (R + 1,) of rows with these ``counts`` (R,)."""
    counts = np.asarray(counts, dtype=np.int64)
    ptr = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def expand(start: NDArray[np.integer], counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return start[0], start[0] + 1, ... (counts[0] of them), start[1], ... as one array."""
    counts = np.asarray(counts, dtype=np.int64)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if ends.size else 0
    shift = np.repeat(np.asarray(start, dtype=np.int64) - (ends - counts), counts)
    out: NDArray[np.int64] = np.arange(total) + shift
    return out


def check_pointer(ptr: NDArray[np.integer], entries: int, name: str) -> None:
    """Refuse a row pointer that does not rise from 0 to the number of entries."""
    if ptr.ndim != 1 or ptr.size < 1 or ptr[0] != 0 or ptr[-1] != entries or np.any(np.diff(ptr) < 0):
        msg = f"{name} must rise from 0 to {entries} (one more entry than rows), got {ptr[:4]}..{ptr[-1:]}"
        raise ValueError(msg)
