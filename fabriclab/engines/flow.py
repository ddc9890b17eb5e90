"""Flows as fluids: weighted max-min fair rates, shared anew whenever a flow starts or ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import Changes, Fabric, Flows, Routes
from fabriclab.core._arrays import check_pointer
from fabriclab.engines._events import Events
from fabriclab.engines._rows import Rows
from fabriclab.registry import register

__all__ = ["max_min_rates"]

Floats = NDArray[np.float64]


def max_min_rates(
    ptr: ArrayLike, link: ArrayLike, capacity: ArrayLike, *, use: ArrayLike | None = None,
    weight: ArrayLike | None = None, limit: ArrayLike | None = None,
) -> Floats:  # fmt: skip
    """Share links among rows so that no rate can rise without lowering one of lower rate per weight.

    Leaves out delay, packets and the way in which real transports approach this state.

    Parameters
    ----------
    ptr : (R + 1,) array_like of int
        Row r crosses the links ``link[ptr[r]:ptr[r + 1]]``.
    link : (E,) array_like of int
        Link numbers within 0..L-1; a link named twice in a row is used twice.
    capacity : (L,) array_like
        Rate of each link. [B/s], >= 0, inf for a link that never binds
    use : (E,) array_like, optional
        Part of the row's rate that the link carries, >= 0; 1 where not given.
    weight : (R,) array_like, optional
        Factor of the fair share, > 0; 1 where not given.
    limit : (R,) array_like, optional
        Highest rate of the row. [B/s], >= 0, inf for none

    Returns
    -------
    (R,) float64
        Rate of each row [B/s]; a row that no link binds gets its limit, or inf without one.

    Raises
    ------
    ValueError
        If shapes disagree or a number is out of its range; the message names the argument.

    Examples
    --------
    Two rows share link 0; the second also crosses link 1 and is held back there.

    >>> max_min_rates([0, 1, 3], [0, 0, 1], [10.0, 2.0])
    array([8., 2.])

    References
    ----------
    .. [1] D. Bertsekas and R. Gallager, Data Networks, 2nd ed., 1992, section 6.5.2.
    """
    starts, links = _whole("ptr", ptr), _whole("link", link)
    check_pointer(starts, links.size, "ptr")
    n, given = starts.size - 1, {"use": use, "weight": weight, "limit": limit}
    sizes = {"use": links.size, "weight": n, "limit": n}
    rate = _column("capacity", capacity, np.size(capacity))
    part = {k: None if v is None else _column(k, v, sizes[k]) for k, v in given.items()}
    if links.size and (links.min() < 0 or links.max() >= rate.size):
        msg = f"link must be within 0..{rate.size - 1}, got {links.min()}..{links.max()}"
        raise ValueError(msg)
    rows = Rows(starts, links, rate, part["use"], part["weight"], part["limit"])
    bound = np.flatnonzero(np.diff(rows.ptr))
    out = np.full(n, np.inf)
    out[bound] = rows.levels(bound, rows.capacity)
    return out if part["weight"] is None else out * part["weight"]


def _whole(name: str, value: ArrayLike) -> NDArray[np.int64]:
    column = np.asarray(value)
    if column.ndim != 1 or (column.size and column.dtype.kind not in "iu"):
        msg = f"{name} must be a row of whole numbers, got {column.dtype} of shape {column.shape}"
        raise ValueError(msg)
    return column.astype(np.int64, copy=False)


def _column(name: str, value: ArrayLike, n: int) -> Floats:
    try:
        column = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        msg = f"{name} must be numbers in SI units, got {value!r:.60}"
        raise TypeError(msg) from None
    if column.shape != (n,):
        msg = f"{name} must have shape ({n},), got {column.shape}"
        raise ValueError(msg)
    finite, positive = name in ("use", "weight"), name == "weight"
    right = (column > 0 if positive else column >= 0) & (np.isfinite(column) if finite else True)
    if not right.all():
        bound = f"{'> 0' if positive else '>= 0'}{' and finite' if finite else ' B/s'}"
        msg = f"{name} must be {bound}, got {column[~right][0]} at {np.flatnonzero(~right)[0]}"
        raise ValueError(msg)
    return column


@register("engine", "flow")
def flow(
    fabric: Fabric, routes: Routes, flows: Flows, changes: Changes | None, config: Mapping[str, Any],
    rng: np.random.Generator | None,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Return start and finish of each flow of a graph [s], (F,); see `fabriclab.engines.run`."""
    events = Events(fabric, routes, flows, changes)
    events.go()
    return events.start, events.finish
