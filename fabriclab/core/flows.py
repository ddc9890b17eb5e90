"""Flows: how many bytes go from which node to which, and in what order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core._arrays import Floats, Ids, Ints, pointer, rows_of
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
from fabriclab.core._memory import check_memory
from fabriclab.errors import Deadlock

# Peak memory of `expanded` per flow and per dependency, measured and rounded up; checked by a test. [B]
_FLOW_BYTES = 400
_ROW_BYTES = 50


@dataclass(frozen=True, eq=False)
class Flows(Value):
    """F flows, either as a graph or as a sequence of groups.

    With a single group that is run once, the flows form a graph: each starts when the flows it depends on have ended.
    With several groups, or one that repeats, they form a sequence: the groups run in order, and each repetition starts
    when the one before has ended in full (a barrier). An engine then solves each group once and multiplies, so a
    ring of 65,536 ranks is 131,072 flows and not 8.6e9. `expanded` gives the same traffic as a graph.

    Parameters
    ----------
    source, target : (F,) int32
        Nodes. A flow of size 0 from a node to itself is a computation that takes its lag.
    size : (F,) float64
        Bytes that the flow moves in one repetition. [B], >= 0
    start : (F,) float64
        Earliest time of the first byte; in a sequence it counts from the start of the group. [s], >= 0
    lag : (F,) float64
        Time between the end of the last dependency and the first byte: software cost or computation. [s], >= 0
    after_ptr, after : (F + 1,) int64, (A,) int32
        Compressed rows: the flows that must have ended before each flow, all of them in its own group.
    weight : (F,) float64
        Weight of the flow when a link is shared fairly. > 0
    limit : (F,) float64
        Highest rate at which the source can send; inf if there is no limit. [B/s], > 0
    label, labels : (F,) int32, tuple of str
        What each flow is for, as an index into ``labels``.
    group, repeat : (F,) int32, (G,) int64
        Group of each flow, in order, and how often each group runs. >= 1

    Raises
    ------
    ValueError
        If shapes disagree or a number is out of its range.
    """

    source: Ids
    target: Ids
    size: Floats
    start: Floats
    lag: Floats
    after_ptr: Ints
    after: Ids
    weight: Floats
    limit: Floats
    label: Ids
    labels: tuple[str, ...]
    group: Ids
    repeat: Ints

    @classmethod
    def make(
        cls,
        source: ArrayLike,
        target: ArrayLike,
        size: ArrayLike,
        *,
        start: ArrayLike = 0.0,
        lag: ArrayLike = 0.0,
        after: Sequence[Sequence[int]] | None = None,
        weight: ArrayLike = 1.0,
        limit: ArrayLike = np.inf,
        label: ArrayLike = 0,
        labels: tuple[str, ...] = ("flow",),
        group: ArrayLike = 0,
        repeat: ArrayLike = 1,
    ) -> Self:
        """Return flows from columns that are broadcast together; ``after`` has one list of flow numbers per flow.

        A size, start, lag or limit that all flows share may be a text with its unit. A limit is inf or 1e6..1e14 B/s.
        """
        given: dict[str, ArrayLike] = {
            "source": source,
            "target": target,
            "size": si(size, "size", units.size),
            "start": si(start, "start", units.time),
            "lag": si(lag, "lag", units.time),
            "weight": weight,
            "limit": si(limit, "limit", units.rate),
            "label": label,
            "group": group,
        }
        columns = spread(given)
        rows = [] if after is None else list(after if hasattr(after, "__iter__") else [after])
        if wrong := [r for r in rows if isinstance(r, str) or not hasattr(r, "__len__")]:
            raise TypeError(
                f"after must be one list of flows per flow, such as [[], [0]], got {wrong[0]!r} in it"
            )
        counts = np.zeros(columns["size"].size) if after is None else [len(r) for r in rows]
        lists = spread({"after": [x for r in rows for x in r]}) | spread({"repeat": repeat})
        return cls(**columns, **lists, after_ptr=pointer(counts), labels=labels)

    def __post_init__(self) -> None:
        """Freeze the arrays and check shapes and ranges."""
        kinds: dict[str, Any] = dict.fromkeys(
            ("size", "start", "lag", "weight", "limit"), np.float64
        )
        kinds |= dict.fromkeys(("source", "target", "label", "group", "after"), np.int32)
        freeze(self, kinds | {"after_ptr": np.int64, "repeat": np.int64, "labels": str})
        n = self.size.size
        check_shape(
            self, ("source", "target", "start", "lag", "weight", "limit", "label", "group"), (n,)
        )
        check_pointer(self.after_ptr, self.after.size, "after_ptr")
        self._check_ranges(n)

    def _check_ranges(self, n: int) -> None:
        """Raise an error for the first column whose numbers or order are wrong."""
        if self.after_ptr.size != n + 1:
            raise ValueError(
                f"after must have one row per flow ({n}), got {self.after_ptr.size - 1}"
            )
        check_finite(self, {"size": " B", "start": " s", "lag": " s"})
        for name, unit in (("weight", ""), ("limit", " B/s")):
            value = getattr(self, name)
            if not np.all(value > 0) or (name == "weight" and not np.all(np.isfinite(value))):
                raise ValueError(f"{name} must be > 0{unit}, got {value.min()}")
        for name, values in (
            ("label", len(self.labels)),
            ("after", n),
            ("source", 2**31),
            ("target", 2**31),
        ):
            check_within(getattr(self, name), name, 0, values - 1)
        check_within(self.repeat, "repeat", 1)
        last = self.repeat.size - 1
        if last < 0 or np.any(np.diff(self.group, prepend=0, append=last) < 0):
            raise ValueError(
                f"group must rise within 0..{last}, and repeat have one entry per group, got {last + 1}"
            )
        if self.after.size and np.any(
            self.group[self.after] != self.group[rows_of(self.after_ptr)]
        ):
            raise ValueError(
                "after must stay within the group: a later group waits for the whole group before it"
            )

    @property
    def n_flows(self) -> int:
        """Number of flows, each counted once however often it is repeated."""
        return int(self.size.size)

    @property
    def is_sequence(self) -> bool:
        """Whether the groups run one after another, with barriers between them."""
        return bool(self.repeat.size > 1 or self.repeat[0] > 1)

    def of_group(self, g: int) -> slice:
        """Return the flows of group ``g`` as a slice."""
        return slice(
            int(np.searchsorted(self.group, g)), int(np.searchsorted(self.group, g, side="right"))
        )

    def order(self) -> Ints:
        """Return the flow numbers sorted so that each flow comes after those it depends on.

        Raises
        ------
        Deadlock
            If flows wait for each other in a cycle; the message names one such cycle.
        """
        rows = {
            f: self.after[a:b].tolist()
            for f, (a, b) in enumerate(pairwise(self.after_ptr.tolist()))
        }
        try:
            return np.fromiter(TopologicalSorter(rows).static_order(), np.int64, len(rows))
        except CycleError as error:
            msg = f"flows wait for each other in a cycle: {' after '.join(str(f) for f in error.args[1][::-1])}"
            raise Deadlock(msg) from None

    def expanded(self) -> Self:
        """Return the same traffic as one graph: every repetition is written out, and a barrier flow ends each.

        A barrier is a flow of size 0 that waits for all flows of a repetition. In a sequence a start counts from the
        start of its group, which a graph does not know. So a start becomes a timer, a flow of size 0 that lasts until
        only the lag is left to wait.

        The flows are new ones, so they have to be routed again. Raises `TooLarge` if memory does not suffice.
        """
        times = self.repeat[self.group]
        flows = int(np.sum(times * (1 + (self.start > self.lag)))) + int(self.repeat.sum())
        entries = int(np.sum(np.diff(self.after_ptr) * times) + 2 * flows)
        advice = "keep the groups (no expand), or take fewer ranks or another algorithm"
        check_memory(
            flows * _FLOW_BYTES + entries * _ROW_BYTES, f"a graph of {flows} flows", advice
        )
        # For each new flow: the flows it waits for, the flow it is copied from, its lag, and whether it moves bytes.
        graph: list[tuple[list[int], int, float, bool]] = []
        for g, often in enumerate(self.repeat.tolist()):
            span = self.of_group(g)
            members = range(span.start, span.stop)
            late = [f for f in members if self.start[f] > self.lag[f]]
            inner = {
                f: (self.after[self.after_ptr[f] : self.after_ptr[f + 1]] - span.start).tolist()
                for f in members
            }
            for _ in range(often if members else 0):
                barrier = [len(graph) - 1] if graph else []
                timer, first = (
                    {f: [len(graph) + i] for i, f in enumerate(late)},
                    len(graph) + len(late),
                )
                graph += [(barrier, f, float(self.start[f] - self.lag[f]), False) for f in late]
                waits = [
                    [*barrier, *timer.get(f, []), *(x + first for x in inner[f])] for f in members
                ]
                graph += [
                    (row, f, float(self.lag[f]), True)
                    for f, row in zip(members, waits, strict=True)
                ]
                graph.append((list(range(first, len(graph))), members[0], 0.0, False))
        rows, origin, lag, moves = zip(*graph, strict=True) if graph else ((),) * 4
        pick = {
            k: getattr(self, k)[list(origin)]
            for k in ("source", "target", "size", "weight", "limit", "label")
        }
        target, size = (
            np.where(moves, pick.pop("target"), pick["source"]),
            np.where(moves, pick.pop("size"), 0.0),
        )
        return self.make(target=target, size=size, lag=lag, after=rows, labels=self.labels, **pick)

    def __repr__(self) -> str:
        """Show how many flows and bytes there are."""
        total = float(np.sum(self.size * self.repeat[self.group])) if self.n_flows else 0.0
        form = (
            f"{self.repeat.size} groups in order, {int(self.repeat.sum())} steps"
            if self.is_sequence
            else "a graph"
        )
        return f"<Flows: {self.n_flows} flows, {form}, {units.format_size(total)} in all>"
