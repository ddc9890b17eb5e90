"""Changes: capacities that change while traffic runs (failures, flaps, drains, optical circuits)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core._arrays import frozen

__all__ = ["Changes"]


@dataclass(frozen=True, eq=False)
class Changes:
    """At ``time[i]`` link ``link[i]`` gets ``capacity[i]``; kept in order of time.

    Parameters
    ----------
    time : (M,) float64
        [s], >= 0
    link : (M,) int32
        Link number.
    capacity : (M,) float64
        New rate of the link. [B/s], >= 0

    Raises
    ------
    ValueError
        If shapes disagree or a number is out of its range.
    """

    time: NDArray[np.float64]
    link: NDArray[np.int32]
    capacity: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Broadcast, check, sort by time (stable: of two changes at one time the later one holds)."""
        columns: list[ArrayLike] = [self.time, self.link, self.capacity]
        time, link, capacity = np.broadcast_arrays(*(np.atleast_1d(v) for v in columns))
        for name, value, unit in (("time", time, "s"), ("capacity", capacity, "B/s")):
            if not np.all(np.isfinite(value) & (value >= 0)):
                msg = f"{name} must be finite and >= 0 {unit}, got {value.min()}"
                raise ValueError(msg)
        if link.size and link.min() < 0:
            msg = f"link must be >= 0, got {link.min()}"
            raise ValueError(msg)
        order = np.argsort(time, kind="stable")
        object.__setattr__(self, "time", frozen(time[order], np.float64))
        object.__setattr__(self, "link", frozen(link[order], np.int32))
        object.__setattr__(self, "capacity", frozen(capacity[order], np.float64))

    def __repr__(self) -> str:
        """Show how many changes there are and when."""
        span = f" from {self.time[0]:g} s to {self.time[-1]:g} s" if self.time.size else ""
        return f"<Changes: {self.time.size}{span}>"
