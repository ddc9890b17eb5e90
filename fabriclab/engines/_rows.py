"""Max-min fair sharing of links by water filling, which freezes all local bottlenecks of a round at once."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import compiled
from fabriclab.core import (
    Fabric,
    Floats,
    Ints,
    check_pointer,
    check_within,
    expand,
    frozen,
    pointer,
    rows_of,
)
from fabriclab.engines import _levels
from fabriclab.errors import Unreachable

_SPARSE = 4  # links are renumbered if the rows have fewer entries than a _SPARSE-th of the links


class Scratch(NamedTuple):
    """What the kernels of `_levels` are given: the entries as they read them, and room for what they write down."""

    starts: NDArray[np.uint64]  # (R,)
    stops: NDArray[np.uint64]  # (R,)
    link: NDArray[np.uint64]  # (E,)
    coef: Floats  # (E,), or (0,) where every coefficient is 1
    links: Floats  # (4, L)
    mark: NDArray[np.uint8]  # (L,)
    changed: NDArray[np.uint32]  # (L + 1,)
    left: NDArray[np.uint32]  # (R,)
    gone: NDArray[np.uint32]  # (R,)
    rows: NDArray[np.uint64]  # (R,)


class SharedLinks:
    """Links that rows share, and the rate that each link carries per unit of the level of a row.

    The level of a row is its rate divided by its weight. Only what can limit a row is stored: entries with use 0 or on
    links of infinite capacity are left out, and each finite limit is a link of its own, which all rows of its owner
    cross.

    Parameters
    ----------
    ptr : (R + 1,) int64
        Row r crosses the links ``link[ptr[r]:ptr[r + 1]]``.
    link : (E,) int64
        Link numbers within 0..L-1; a link named twice in a row is used twice.
    capacity : (L,) float64
        Rate of each link. [B/s], >= 0, inf for a link that never binds
    use : (E,) float64, optional
        Fraction of the row's rate that the link carries; None for 1. >= 0
    weight : (R,) float64, optional
        Factor of the fair share; None for 1. > 0
    limit : (O,) float64, optional
        Highest rate of all rows of an owner together; None for no limit. [B/s], >= 0, inf for none
    owner : (R,) int64, optional
        Owner of each row; None if each row is its own.
    """

    def __init__(
        self,
        ptr: Ints,
        link: Ints,
        capacity: Floats,
        use: Floats | None = None,
        weight: Floats | None = None,
        limit: Floats | None = None,
        owner: Ints | None = None,
    ) -> None:
        n = ptr.size - 1
        if limit is not None and np.isfinite(limit).any():
            owner = np.arange(n) if owner is None else owner
            capped = np.flatnonzero(np.isfinite(limit[owner]))  # rows whose owner has a limit
            # Each of them gets one more entry, on the link that represents the limit of its owner.
            row = np.concatenate([rows_of(ptr), capped])
            order = np.argsort(row, kind="stable")
            ptr = pointer(np.bincount(row, minlength=n))
            if use is not None:
                use = np.concatenate([use, np.ones(capped.size)])[order]
            link = np.concatenate([link, capacity.size + owner[capped]])[order]
            capacity = np.concatenate([capacity, limit])

        # A level of 1 puts weight times use on a link.
        coef = use
        if weight is not None and not (weight == 1.0).all():
            coef = np.repeat(weight, np.diff(ptr))
            if use is not None:
                coef *= use
        # Entries that cannot bind are left out.
        keep = None if np.isfinite(capacity).all() else np.isfinite(capacity)[link]
        if coef is not None and not (coef > 0).all():
            keep = coef > 0 if keep is None else keep & (coef > 0)
        if keep is not None and not keep.all():
            ptr = pointer(np.bincount(rows_of(ptr)[keep], minlength=n))
            link = link[keep]
            coef = None if coef is None else coef[keep]
        # None means 1 everywhere, because counting is faster than adding
        self.coef = None if coef is None or (coef == 1.0).all() else coef
        self.ptr = ptr
        self.link = link
        self.capacity = capacity
        self._scratch: Scratch | None = None

    def scratch(self) -> "Scratch":
        """Return the entries as kernels read them, and room for what they write down meanwhile."""
        if self._scratch is None:
            n_rows = self.ptr.size - 1
            n_links = self.capacity.size
            # kernels take writeable arrays only, though they do not write to these
            self.ptr = np.require(self.ptr, requirements="W")
            self.link = np.require(self.link, requirements="W")
            coef = np.empty(0) if self.coef is None else self.coef
            self._scratch = Scratch(
                starts=self.ptr[:-1].view(np.uint64),
                stops=self.ptr[1:].view(np.uint64),
                link=self.link.view(np.uint64),
                coef=np.require(coef, requirements="W"),
                # written here, while `zeros` would only reserve it: a new page that is read first faults twice
                links=np.full((_levels.LINES, n_links), 0.0),
                mark=np.empty(n_links, dtype=np.uint8),
                changed=np.empty(n_links + 1, dtype=np.uint32),
                left=np.empty(n_rows, dtype=np.uint32),
                gone=np.empty(n_rows, dtype=np.uint32),
                rows=np.empty(n_rows, dtype=np.uint64),
            )
        return self._scratch

    def levels(self, rows: Ints, room: Floats) -> Floats:
        """Return the max-min levels of some rows that share the free capacity ``room``, (L,). [B/s].

        Every row must have at least one entry. If the level of a link is the lowest among all links of all its rows, it
        stays the same whatever happens elsewhere, because the level of a link never falls while rows are frozen below
        it. So all such local bottlenecks are frozen in one round, while the textbook rule [1]_ freezes one per round.
        Room below 0 counts as 0.

        References
        ----------
        .. [1] D. Bertsekas and R. Gallager, Data Networks, 2nd ed., 1992, section 6.5.2.
        """
        fill = compiled.loaded(_levels.fill)
        if fill is not None:
            own = self.scratch()
            own.links[_levels.ROOM] = room
            level = np.empty(self.ptr.size - 1)
            entries = (own.starts, own.stops, own.link, own.coef)
            lists = (own.links, own.mark, own.changed, own.left, own.gone)
            fill(*entries, *lists, rows.view(np.uint64), rows.size, level)
            return level[rows]
        return self._levels(rows, room)

    def _levels(self, rows: Ints, room: Floats) -> Floats:
        """Return the same with NumPy, where nothing is compiled."""
        at, counts = self.entries(rows)
        link, coef = self.link[at], None if self.coef is None else self.coef[at]
        if _SPARSE * link.size < room.size:
            used, link = np.unique(link, return_inverse=True)
            room = room[used]
        level, left, share = np.empty(rows.size), np.arange(rows.size), np.zeros(room.size)
        while left.size:
            with np.errstate(divide="ignore", invalid="ignore"):
                # rounding must not lower a level
                np.fmax(share, room / np.bincount(link, coef, room.size), out=share)
            each, first = share[link], pointer(counts)[:-1]
            least = np.minimum.reduceat(each, first)
            low = np.repeat(least, counts)
            # links with a row that has a lower level elsewhere
            waits = np.zeros(room.size, dtype=bool)
            waits[link[each > low]] = True
            stays = np.logical_and.reduceat(waits[link], first)
            level[left[~stays]] = least[~stays]
            kept = np.repeat(stays, counts)
            room = room - np.bincount(
                link[~kept], low[~kept] if coef is None else (low * coef)[~kept], room.size
            )
            left, counts, link, coef = (
                left[stays],
                counts[stays],
                link[kept],
                None if coef is None else coef[kept],
            )
        return level

    def load(self, rows: Ints, level: Floats) -> NDArray[Any]:
        """Return the rate that some rows at these levels put on each link, (L,). [B/s]."""
        at, counts = self.entries(rows)
        each = np.repeat(level, counts)
        if self.coef is not None:
            each = each * self.coef[at]
        return np.bincount(self.link[at], each, self.capacity.size)

    def entries(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the entries of some rows, one row after another, and the number of entries of each row."""
        counts = self.ptr[rows + 1] - self.ptr[rows]
        return expand(self.ptr[rows], counts), counts


def max_min_rates(
    ptr: ArrayLike,
    link: ArrayLike,
    capacity: ArrayLike,
    *,
    use: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    limit: ArrayLike | None = None,
) -> Floats:
    """Return the max-min fair rates of rows that share links.

    With these rates no row can get more without taking from a row that has less per unit of weight. Leaves out delay,
    packets, and how real transports approach this state.

    Parameters
    ----------
    ptr, link, capacity : array_like, shapes (R + 1,), (E,), (L,)
        As in `SharedLinks`; link numbers are within 0..L-1. [B/s]
    use, weight, limit : array_like, shapes (E,), (R,), (R,), optional
        As in `SharedLinks`, with each row its own owner; 1, 1 and inf unless given. [1], [1], [B/s]

    Returns
    -------
    (R,) float64
        Rate of each row [B/s]; a row that no link limits gets its own limit, or inf if it has none.

    Raises
    ------
    ValueError, TypeError
        If shapes do not match, a number is out of range, or a value is not a number.

    Examples
    --------
    Two rows share link 0; the second also crosses link 1 and is held back there.

    >>> max_min_rates([0, 1, 3], [0, 0, 1], [10.0, 2.0])
    array([8., 2.])
    """
    starts = frozen(ptr, np.int64, "ptr")
    links = frozen(link, np.int64, "link")
    rate = np.asarray(capacity)
    check_pointer(starts, links.size, "ptr")
    check_within(links, "link", 0, rate.size - 1)
    if links.ndim != 1:
        raise ValueError(f"link must be one row of whole numbers, got shape {links.shape}")

    n = starts.size - 1
    capacities = _column("capacity", rate, rate.size, ">= 0")
    uses = None if use is None else _column("use", use, links.size, "finite and >= 0")
    weights = None if weight is None else _column("weight", weight, n, "finite and > 0")
    limits = None if limit is None else _column("limit", limit, n, ">= 0")
    rows = SharedLinks(starts, links, capacities, uses, weights, limits)

    rates = np.full(n, np.inf)
    used = np.flatnonzero(np.diff(rows.ptr))  # rows with a link that can bind
    rates[used] = rows.levels(used, rows.capacity)
    return rates if weights is None else rates * weights


def _column(name: str, value: ArrayLike, size: int, bound: str) -> Floats:
    """Return ``size`` numbers, or refuse numbers outside of ``bound``."""
    column = frozen(value, np.float64, name)
    is_right = column >= 0
    if bound.endswith("> 0"):
        is_right = column > 0
    if "finite" in bound:
        is_right &= np.isfinite(column)
    if column.shape != (size,) or not is_right.all():
        raise ValueError(f"{name} must be {size} numbers, each {bound}, got {value!r:.60}")
    return column


def never_ends(fabric: Fabric, flow: int, link: int) -> Unreachable:
    """Return the error for a flow that waits forever at a link of capacity 0."""
    msg = f"flow {flow} can never end: it crosses {fabric.link_name(link)} (link {link}), which has no capacity and "
    msg += (
        "gets none later; route around it (routing avoids links of capacity 0) or give it capacity"
    )
    return Unreachable(msg)
