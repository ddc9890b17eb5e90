"""Changes of capacity while traffic runs, and the Timeline: when each flow ran, and what each link carried."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core._frozen import Value, check_finite, check_shape, check_within, freeze, si, spread


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


@dataclass(frozen=True, eq=False)
class Timeline(Value):
    """What an engine found.

    Parameters
    ----------
    start, finish : (F,) float64
        First byte sent and last byte arrived; of a repeated group its first repetition. [s]
    link_bytes : (L,) float64
        Bytes that each link carried in the whole run. [B]
    group_start, period : (G,) float64
        Start of each group and the length of one of its repetitions. [s]
    repeat : (G,) int64
        Repetitions of each group.
    engine : str
        Which engine ran.

    Raises
    ------
    ValueError
        If shapes disagree or a flow ends before it starts.
    """

    start: NDArray[np.float64]
    finish: NDArray[np.float64]
    link_bytes: NDArray[np.float64]
    group_start: NDArray[np.float64]
    period: NDArray[np.float64]
    repeat: NDArray[np.int64]
    engine: str

    def __post_init__(self) -> None:
        """Freeze the arrays and check them."""
        freeze(self, dict.fromkeys(("start", "finish", "link_bytes", "group_start", "period"), np.float64))
        freeze(self, {"repeat": np.int64})
        check_shape(self, ["finish"], self.start.shape)
        check_shape(self, ("period", "repeat"), self.group_start.shape)
        if not np.all(self.finish >= self.start):
            flow = int(np.flatnonzero(~(self.finish >= self.start))[0])
            raise ValueError(f"flow {flow} ends at {self.finish[flow]} s, before its start at {self.start[flow]} s")

    @property
    def end(self) -> float:
        """Time at which everything has ended [s]."""
        ends = self.group_start + self.period * self.repeat
        return float(ends.max()) if ends.size else 0.0

    def utilisation(self, capacity: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean load of each link as a part of its ``capacity`` (L,), over the whole run."""
        possible = np.asarray(capacity) * self.end
        return np.divide(self.link_bytes, possible, out=np.zeros_like(self.link_bytes), where=possible > 0)

    def __repr__(self) -> str:
        """Show the engine, the number of flows and the end."""
        return f"<Timeline {self.engine}: {self.start.size} flows end at {units.format_time(self.end)}>"
