"""Changes: capacities that change while traffic runs (failures, flaps, drains, optical circuits)."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core._arrays import spread
from fabriclab.core._frozen import Value, check_finite, check_shape, check_within, freeze, si


@dataclass(frozen=True, eq=False)
class Changes(Value):
    """At ``time[i]`` link ``link[i]`` gets ``capacity[i]``; kept in order of time.

    One time and one capacity for all may be given as text with a unit.

    Parameters
    ----------
    time : (M,) float64
        [s], >= 0
    link : (M,) int32
        Link number.
    capacity : (M,) float64
        New rate of the link. [B/s], 0 or 1e6..1e14

    Raises
    ------
    ValueError
        If shapes disagree or a number is out of its range.
    TypeError
        If a column is no array of numbers.
    """

    time: NDArray[np.float64]
    link: NDArray[np.int32]
    capacity: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Broadcast, check, sort by time (stable: of two changes at one time the later one holds)."""
        kinds = {"time": np.float64, "link": np.int32, "capacity": np.float64}
        time = si(self.time, "time", units.time)
        capacity = si(self.capacity, "capacity", partial(units.rate, may_be_zero=True))
        columns = spread({"time": time, "link": self.link, "capacity": capacity})
        order = np.argsort(columns["time"], kind="stable")
        for name, column in columns.items():
            object.__setattr__(self, name, np.take_along_axis(column, order, -1))
        freeze(self, kinds)
        check_shape(self, kinds, (self.time.size,))
        check_finite(self, {"time": " s", "capacity": " B/s"})
        check_within(self.link, "link", 0)

    def __repr__(self) -> str:
        """Show how many changes there are and when."""
        span = f" from {self.time[0]:g} s to {self.time[-1]:g} s" if self.time.size else ""
        return f"<Changes: {self.time.size}{span}>"
