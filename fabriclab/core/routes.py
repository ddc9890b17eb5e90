"""Routes: the links that each flow uses, with the part of its bytes and of its rate on each.

Two more types belong to an engine. Changes of link capacities while traffic runs are one of its inputs. The Timeline
is its output: when each flow ran, and how many bytes each link carried.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core._arrays import Floats, Ids, Ints, expand, pointer, rows_of
from fabriclab.core._frozen import (
    Value,
    check_finite,
    check_pointer,
    check_shape,
    check_within,
    freeze,
    si,
    spread,
)
from fabriclab.core.flows import Flows

PATH = 0
SPRAY = 1
TREE = 2
_KINDS = ("path", "spray", "tree")


@dataclass(frozen=True, eq=False)
class Routes(Value):
    """Routes of flows as compressed rows of link numbers; row r belongs to flow ``flow[r]``.

    Several rows of one flow are its subflows: each moves ``share`` of the flow's bytes at its own rate,
    and the flow ends when the last of them ends.

    Parameters
    ----------
    ptr : (R + 1,) int64
        Row r holds the entries ``ptr[r]:ptr[r + 1]``.
    link : (E,) int32
        Link of each entry; on a path in the order of travel.
    use : (E,) float64
        Part of the row's rate that the link carries: 1 on a path and in a tree, a fraction in a spray.
    flow : (R,) int32
        Flow of each row.
    share : (R,) float64
        Part of the flow's bytes that the row moves; the rows of a flow sum to 1.
    delay : (R,) float64
        Time from the moment the last byte is sent to the moment it arrives. [s]
    kind : (R,) int8
        `PATH`, `SPRAY` or `TREE`.
    adaptive : (R,) bool
        True for the rows of a flow among which the engine chooses while it runs.

    Raises
    ------
    ValueError
        If shapes disagree or a use or share is out of its range.
    """

    ptr: Ints
    link: Ids
    use: Floats
    flow: Ids
    share: Floats
    delay: Floats
    kind: NDArray[np.int8]
    adaptive: NDArray[np.bool_]

    def __post_init__(self) -> None:
        """Freeze the arrays and check shapes and ranges."""
        freeze(
            self,
            {
                "ptr": np.int64,
                "link": np.int32,
                "use": np.float64,
                "flow": np.int32,
                "share": np.float64,
                "delay": np.float64,
                "kind": np.int8,
                "adaptive": np.bool_,
            },
        )
        check_pointer(self.ptr, self.link.size, "ptr")
        check_shape(self, ("flow", "share", "delay", "kind", "adaptive"), (self.n_rows,))
        check_shape(self, ["use"], self.link.shape)
        for name, value in (("use", self.use), ("share", self.share)):
            if not np.all((value >= 0) & (value <= 1 + 1e-9)):
                raise ValueError(
                    f"{name} must be within 0..1, got {value.min():g}..{value.max():g}"
                )
        check_within(self.flow, "flow", 0)
        check_within(self.link, "link", 0)
        if not np.all(np.isin(self.kind, (PATH, SPRAY, TREE))):
            raise ValueError(
                f"kind must be {PATH}, {SPRAY} or {TREE} (PATH, SPRAY, TREE), got {np.unique(self.kind)}"
            )
        check_finite(self, {"delay": " s"})

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.ptr.size - 1)

    def row(self, r: int) -> Ids:
        """Return the link numbers of row ``r``."""
        return self.link[self.ptr[r] : self.ptr[r + 1]]

    def padded(self) -> Ints:
        """Return the links of each row with -1 behind them, (R, links of the longest row)."""
        lengths = np.diff(self.ptr)
        table = np.full((self.n_rows, int(lengths.max(initial=0))), -1, dtype=np.int64)
        hop = expand(np.zeros(self.n_rows, dtype=np.int64), lengths)  # 0, 1, ... in each row
        table[rows_of(self.ptr), hop] = self.link
        return table

    def of_rows(self, rows: NDArray[np.integer], **columns: NDArray[Any]) -> Self:
        """Return some of the rows, with the given columns replaced; as in `cut`, nothing is checked again."""
        lengths = np.diff(self.ptr)[rows]
        entries = expand(self.ptr[rows], lengths)
        kept = {
            name: getattr(self, name)[rows]
            for name in ("flow", "share", "delay", "kind", "adaptive")
        }
        kept |= {"ptr": pointer(lengths), "link": self.link[entries], "use": self.use[entries]}
        return self.cut(**kept | columns)

    def hops(self) -> Floats:
        """Return the number of links that each row crosses, averaged over the paths of a spray, (R,)."""
        return np.bincount(rows_of(self.ptr), weights=self.use, minlength=self.n_rows).astype(
            np.float64
        )

    def link_bytes(self, flows: Flows, n_links: int) -> Floats:
        """Return the bytes that all flows, repetitions included, put on each link, (n_links,)."""
        # Bytes of row r: size x repetitions of its flow x share; each entry's link carries its use of them.
        moved = (flows.size * flows.repeat[flows.group])[self.flow] * self.share
        return np.bincount(self.link, moved[rows_of(self.ptr)] * self.use, n_links).astype(
            np.float64
        )

    def __repr__(self) -> str:
        """Show the number of rows of each kind."""
        kinds = ", ".join(
            f"{np.count_nonzero(self.kind == k)} {n}"
            for k, n in enumerate(_KINDS)
            if k in self.kind
        )
        return f"<Routes: {kinds or 'no rows'}; {self.link.size} links>"


@dataclass(frozen=True, eq=False)
class Changes(Value):
    """Changes of link capacities during a run: at ``time[i]`` link ``link[i]`` gets ``capacity[i]``; sorted by time.

    A time or capacity that all changes share may be a text with its unit.

    Parameters
    ----------
    time : (M,) float64
        When the capacity changes. [s], >= 0
    link : (M,) int32
        Link number.
    capacity : (M,) float64
        New rate of the link. [B/s], 0 or 1e6..1e14

    Raises
    ------
    ValueError
        If shapes disagree or a number is out of its range.
    TypeError
        If a column is not an array of numbers.
    """

    time: Floats
    link: Ids
    capacity: Floats

    def __post_init__(self) -> None:
        """Broadcast, sort by time (stable: of two changes at the same time the one given later holds) and check."""
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
        """Show the number of changes and the time they span."""
        span = f" from {self.time[0]:g} s to {self.time[-1]:g} s" if self.time.size else ""
        return f"<Changes: {self.time.size}{span}>"


@dataclass(frozen=True, eq=False)
class Timeline(Value):
    """Result of an engine: when each flow ran, and how many bytes each link carried.

    Parameters
    ----------
    start, finish : (F,) float64
        When the first byte is sent and when the last one arrives; for a repeated group, in its first repetition. [s]
    link_bytes : (L,) float64
        Bytes that each link carried in the whole run. [B]
    group_start, period : (G,) float64
        Start of each group and the duration of one of its repetitions. [s]
    repeat : (G,) int64
        Repetitions of each group.
    engine : str
        Name of the engine that ran.

    Raises
    ------
    ValueError
        If shapes disagree or a flow ends before it starts.
    """

    start: Floats
    finish: Floats
    link_bytes: Floats
    group_start: Floats
    period: Floats
    repeat: Ints
    engine: str

    def __post_init__(self) -> None:
        """Freeze the arrays and check shapes and order of times."""
        freeze(
            self,
            dict.fromkeys(("start", "finish", "link_bytes", "group_start", "period"), np.float64),
        )
        freeze(self, {"repeat": np.int64})
        check_shape(self, ["finish"], self.start.shape)
        check_shape(self, ("period", "repeat"), self.group_start.shape)
        if not np.all(self.finish >= self.start):
            flow = int(np.flatnonzero(~(self.finish >= self.start))[0])
            raise ValueError(
                f"flow {flow} ends at {self.finish[flow]} s, before its start at {self.start[flow]} s"
            )

    @property
    def end(self) -> float:
        """Time at which everything has ended [s]."""
        return float(np.max(self.group_start + self.period * self.repeat, initial=0.0))

    def utilisation(self, capacity: Floats) -> Floats:
        """Return the mean load of each link over the whole run, as a fraction of its ``capacity`` (L,)."""
        possible = np.asarray(capacity) * self.end
        return np.divide(
            self.link_bytes, possible, out=np.zeros_like(self.link_bytes), where=possible > 0
        )

    def __repr__(self) -> str:
        """Show the engine, the number of flows and the end of the run."""
        return f"<Timeline {self.engine}: {self.start.size} flows end at {units.format_time(self.end)}>"
