"""The front of cost and performance: the designs that no other one dominates.

Examples
--------
>>> from fabriclab import designs
>>> designs.front([(4.3, 5.0), (3.4, 5.0), (3.0, 6.0), (3.5, 7.0)])
(False, True, True, False)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["beaten_by", "front"]


def front(points: ArrayLike) -> tuple[bool, ...]:
    """Return for each point whether no other one is at least as good in all numbers, and better in one.

    Parameters
    ----------
    points : array_like, shape (P, K)
        Numbers of which less is better, such as cost [USD] and time per step [s].
    """
    return tuple(beaten is None for beaten in beaten_by(points))


def beaten_by(points: ArrayLike) -> list[int | None]:
    """Return for each point the first other one that dominates it, or None."""
    table = np.asarray(points, dtype=np.float64)
    if table.size == 0:
        return []
    if table.ndim != 2 or not np.all(np.isfinite(table)):
        raise ValueError(
            f"points must be finite numbers of shape (points, numbers), got shape {table.shape}; "
            "give (cost, time) of each"
        )
    found: list[int | None] = []
    for point in table:
        dominates = np.all(table <= point, axis=1) & np.any(table < point, axis=1)
        found.append(int(np.argmax(dominates)) if dominates.any() else None)
    return found


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
