"""Rows of links as the fluid engine solves them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric
from fabriclab.core._arrays import expand, pointer, rows_of
from fabriclab.engines._maxmin import Array, Floats, Ints, fill
from fabriclab.errors import Unreachable

__all__ = ["Rows", "never_ends"]


class Rows:
    """Compressed rows with the rate that each link carries per unit of the row's level.

    Holds only what can bind: entries without use or on links of infinite capacity are left out, and each
    finite limit is a link of its own, crossed by all rows of its owner.

    Parameters
    ----------
    ptr, link, capacity, use, weight, limit
        As in `fabriclab.engines.flow.max_min_rates`; ``limit`` has one entry per owner.
    owner : (R,) int64, optional
        Who owns each row; by default each row itself.
    """

    def __init__(
        self, ptr: Ints, link: Ints, capacity: Floats, use: Floats | None, weight: Floats | None,
        limit: Floats | None, owner: Ints | None = None,
    ) -> None:  # fmt: skip
        n = ptr.size - 1
        if limit is not None and np.isfinite(limit).any():
            owner = np.arange(n) if owner is None else owner
            capped = np.flatnonzero(np.isfinite(limit[owner]))
            row = np.concatenate([rows_of(ptr), capped])
            order = np.argsort(row, kind="stable")
            ptr = pointer(np.bincount(row, minlength=n))
            link = np.concatenate([link, capacity.size + owner[capped]])[order]
            use = None if use is None else np.concatenate([use, np.ones(capped.size)])[order]
            capacity = np.concatenate([capacity, limit])
        coef = use if weight is None else np.repeat(weight, np.diff(ptr)) * (1.0 if use is None else use)
        if coef is not None and (coef == 1.0).all():
            coef = None  # counting is faster than adding
        keep: NDArray[np.bool_] = np.isfinite(capacity)[link] & (True if coef is None else coef > 0)
        if not keep.all():
            ptr = pointer(np.bincount(rows_of(ptr)[keep], minlength=n))
            link, coef = link[keep], None if coef is None else coef[keep]
        self.ptr, self.link, self.coef, self.capacity = ptr, link, coef, capacity

    def levels(self, rows: Ints, room: Floats) -> Floats:
        """Return the max-min levels of some rows that share ``room`` (L,); each has an entry. [B/s]."""
        if np.array_equal(rows, np.arange(self.ptr.size - 1)):
            return fill(self.ptr, self.link, self.coef, room)
        at, counts = self.entries(rows)
        return fill(pointer(counts), self.link[at], None if self.coef is None else self.coef[at], room)

    def load(self, rows: Ints, level: Floats) -> Array:
        """Return what some rows at these levels put on each link. [B/s], (L,)."""
        at, counts = self.entries(rows)
        each = np.repeat(level, counts)
        return np.bincount(self.link[at], each if self.coef is None else each * self.coef[at], self.capacity.size)

    def entries(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the entries of some rows, one row after another, and how many each has."""
        counts = self.ptr[rows + 1] - self.ptr[rows]
        return expand(self.ptr[rows], counts), counts


def never_ends(fabric: Fabric, flow: int, link: int) -> Unreachable:
    """Return the error of a flow that waits for ever at a link of capacity 0."""
    msg = (
        f"flow {flow} can never end: it crosses {fabric.link_name(link)} (link {link}), which has no capacity and "
        "gets none later; route around it (routing avoids links of capacity 0) or give it capacity"
    )
    return Unreachable(msg)
