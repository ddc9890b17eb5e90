"""Flows: bytes from node to node, with their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core._arrays import check_pointer, expand, frozen, pointer, rows_of
from fabriclab.errors import Deadlock

__all__ = ["Flows"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Flows:
    """F flows. With one group and no repeat they form a graph: each starts when its own dependencies end.

    With several groups or a repeat they form a sequence: the groups run in order, each repetition after
    the one before has ended in full (a barrier). Every group is then solved once and multiplied, so a
    ring of 65,536 ranks is 131,072 flows and not 8.6e9. `expanded` gives the same traffic as a graph.

    Parameters
    ----------
    source, target : (F,) int32
        Nodes. A flow of size 0 from a node to itself is a computation that takes its lag.
    size : (F,) float64
        Bytes of one repetition. [B], >= 0
    start : (F,) float64
        Earliest first byte, in a sequence counted from the start of the group. [s], >= 0
    lag : (F,) float64
        Time between the last dependency and the first byte: software cost or computation. [s], >= 0
    after_ptr, after : (F + 1,) int64, (A,) int32
        Compressed rows of the flows that must have ended first, within the same group.
    weight : (F,) float64
        Factor of the fair share. > 0
    limit : (F,) float64
        Highest rate that the source can give; inf where there is none. [B/s], > 0
    label, labels : (F,) int32, tuple of str
        What each flow is, as an index into ``labels``.
    group, repeat : (F,) int32, (G,) int64
        Group of each flow, in order, and how often each group is run. >= 1

    Raises
    ------
    ValueError
        If shapes disagree or a number is out of its range.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    size: Floats
    start: Floats
    lag: Floats
    after_ptr: NDArray[np.int64]
    after: NDArray[np.int32]
    weight: Floats
    limit: Floats
    label: NDArray[np.int32]
    labels: tuple[str, ...]
    group: NDArray[np.int32]
    repeat: NDArray[np.int64]

    @classmethod
    def make(
        cls, source: ArrayLike, target: ArrayLike, size: ArrayLike, *, start: ArrayLike = 0.0, lag: ArrayLike = 0.0,
        after: Sequence[Sequence[int]] | None = None, weight: ArrayLike = 1.0, limit: ArrayLike = np.inf,
        label: ArrayLike = 0, labels: tuple[str, ...] = ("flow",), group: ArrayLike = 0, repeat: ArrayLike = 1,
    ) -> Flows:  # fmt: skip
        """Return flows from columns that broadcast together; ``after`` is one list of flows per flow."""
        arrays = np.broadcast_arrays(
            *(np.atleast_1d(v) for v in (source, target, size, start, lag, weight, limit, label, group))
        )
        names = ("source", "target", "size", "start", "lag", "weight", "limit", "label", "group")
        columns = dict(zip(names, arrays, strict=True))
        counts = (
            np.zeros(columns["size"].size, np.int64) if after is None else np.array([len(r) for r in after], np.int64)
        )
        entries = [x for row in after or () for x in row]
        return cls(
            **columns, after_ptr=pointer(counts), after=np.asarray(entries, dtype=np.int32),
            labels=labels, repeat=np.atleast_1d(repeat),
        )  # fmt: skip

    def __post_init__(self) -> None:
        """Freeze the arrays and check shapes and ranges."""
        kinds: dict[str, Any] = dict.fromkeys(("size", "start", "lag", "weight", "limit"), np.float64)
        kinds |= dict.fromkeys(("source", "target", "label", "group", "after"), np.int32)
        kinds |= dict.fromkeys(("after_ptr", "repeat"), np.int64)
        for name, dtype in kinds.items():
            object.__setattr__(self, name, frozen(getattr(self, name), dtype))
        n = self.size.size
        for name in ("source", "target", "start", "lag", "weight", "limit", "label", "group"):
            if getattr(self, name).shape != (n,):
                msg = f"{name} must have shape ({n},), got {getattr(self, name).shape}"
                raise ValueError(msg)
        check_pointer(self.after_ptr, self.after.size, "after_ptr")
        self._check_ranges(n)
        self._check_groups()

    def _check_ranges(self, n: int) -> None:
        if self.after_ptr.size != n + 1:
            msg = f"after must have one row per flow ({n}), got {self.after_ptr.size - 1}"
            raise ValueError(msg)
        finite = {"size": "B", "start": "s", "lag": "s"}
        for name, unit in finite.items():
            value = getattr(self, name)
            if not np.all(np.isfinite(value) & (value >= 0)):
                msg = f"{name} must be finite and >= 0 {unit}, got {value[~(np.isfinite(value) & (value >= 0))][0]}"
                raise ValueError(msg)
        for name, unit in (("weight", ""), ("limit", " B/s")):
            value = getattr(self, name)
            if not np.all(value > 0) or (name == "weight" and not np.all(np.isfinite(value))):
                msg = f"{name} must be > 0{unit}, got {value.min()}"
                raise ValueError(msg)
        for name, bound in (("source", None), ("target", None), ("label", len(self.labels))):
            value = getattr(self, name)
            if value.size and (value.min() < 0 or (bound is not None and value.max() >= bound)):
                allowed = ">= 0" if bound is None else f"within 0..{bound - 1}"
                msg = f"{name} must be {allowed}, got {value.min() if value.min() < 0 else value.max()}"
                raise ValueError(msg)
        if self.after.size and (self.after.min() < 0 or self.after.max() >= n):
            msg = f"after must name flows within 0..{n - 1}, got {self.after.min()}..{self.after.max()}"
            raise ValueError(msg)

    def _check_groups(self) -> None:
        if self.repeat.size == 0 or np.any(self.repeat < 1):
            got = f"must be >= 1, got {self.repeat.min()}" if self.repeat.size else "must have one entry per group"
            msg = f"repeat {got}"
            raise ValueError(msg)
        steps = np.diff(self.group, prepend=0)
        if self.group.size and (np.any(steps < 0) or self.group.max() >= self.repeat.size or self.group.min() < 0):
            msg = f"group must rise within 0..{self.repeat.size - 1}, one entry of repeat per group"
            raise ValueError(msg)
        if self.after.size and np.any(self.group[self.after] != self.group[rows_of(self.after_ptr)]):
            msg = "after must stay within the group: a later group waits for the whole group before it"
            raise ValueError(msg)

    @property
    def n_flows(self) -> int:
        """Number of flows, each counted once however often it is repeated."""
        return int(self.size.size)

    @property
    def is_sequence(self) -> bool:
        """Whether groups run one after another, with barriers."""
        return bool(self.repeat.size > 1 or self.repeat[0] > 1)

    def of_group(self, g: int) -> slice:
        """Return the flows of group ``g`` as a slice."""
        return slice(int(np.searchsorted(self.group, g)), int(np.searchsorted(self.group, g, side="right")))

    def order(self) -> NDArray[np.int64]:
        """Return the flows in an order in which each comes after its dependencies.

        Raises
        ------
        Deadlock
            If flows wait for each other in a cycle; the message names one.
        """
        waiting = np.diff(self.after_ptr).copy()
        users = np.argsort(self.after, kind="stable")
        first = pointer(np.bincount(self.after, minlength=self.n_flows))
        owner = rows_of(self.after_ptr)
        ready = np.flatnonzero(waiting == 0)
        done = [ready]
        while ready.size:
            entries = users[expand(first[ready], first[ready + 1] - first[ready])]
            freed = owner[entries]
            np.subtract.at(waiting, freed, 1)
            ready = np.unique(freed[waiting[freed] == 0])
            done.append(ready)
        flat = np.concatenate(done)
        if flat.size < self.n_flows:
            raise Deadlock(self._cycle(np.flatnonzero(waiting > 0)))
        return flat

    def _cycle(self, stuck: NDArray[np.int64]) -> str:
        among = set(stuck.tolist())
        path, at = [], int(stuck[0])
        while at not in path:
            path.append(at)
            row = self.after[self.after_ptr[at] : self.after_ptr[at + 1]]
            at = next(int(x) for x in row if int(x) in among)
        loop = [*path[path.index(at) :], at]
        return "flows wait for each other in a cycle: " + " after ".join(str(x) for x in loop)

    def expanded(self) -> Flows:
        """Return the same traffic as one graph: every repetition written out, a barrier flow between them.

        A barrier is a flow of size 0 that waits for all flows of a repetition. A start, which counts from
        the start of the group, becomes a flow of size 0 that ends so early that the lag ends then. Route the
        result anew.
        """
        origin: list[int] = []
        lag: list[float] = []
        real: list[bool] = []
        rows: list[list[int]] = []
        barrier = -1
        for g, times in enumerate(self.repeat.tolist()):
            span = self.of_group(g)
            members = range(span.start, span.stop)
            late = [f for f in members if self.start[f] > self.lag[f]]
            inner = [(self.after[self.after_ptr[f] : self.after_ptr[f + 1]] - span.start).tolist() for f in members]
            for _ in range(times if members else 0):
                wait = [barrier] if barrier >= 0 else []
                timer = {f: len(rows) + i for i, f in enumerate(late)}
                first = len(rows) + len(late)
                rows += [wait] * len(late)
                rows += [
                    [*wait, *([timer[f]] if f in timer else []), *(x + first for x in row)]
                    for f, row in zip(members, inner, strict=True)
                ]
                rows.append(list(range(first, first + len(members))))
                barrier = len(rows) - 1
                origin += [*late, *members, members[0]]
                lag += [*(self.start - self.lag)[late].tolist(), *self.lag[span].tolist(), 0.0]
                real += [False] * len(late) + [True] * len(members) + [False]
        is_real = np.array(real, dtype=bool)
        pick = {k: getattr(self, k)[origin] for k in ("source", "weight", "limit", "label")}
        target = np.where(is_real, self.target[origin], pick["source"])
        size = np.where(is_real, self.size[origin], 0.0)
        return Flows.make(target=target, size=size, lag=lag, after=rows, labels=self.labels, **pick)

    def __repr__(self) -> str:
        """Show how many flows and bytes there are."""
        from fabriclab.units import format_size

        total = float(np.sum(self.size * self.repeat[self.group])) if self.n_flows else 0.0
        form = f"{self.repeat.size} groups in order, {int(self.repeat.sum())} steps" if self.is_sequence else "a graph"
        return f"<Flows: {self.n_flows} flows, {form}, {format_size(total)} in all>"
