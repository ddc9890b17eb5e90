"""Collect operations of streams as arrays, turn them into flows, and evaluate a run of them.

The evaluation tells when operations ran, how long they were busy, and which communication was exposed. Stragglers can
be added to the flows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import (
    Fabric,
    Flags,
    Floats,
    Flows,
    Ints,
    Timeline,
    check_memory,
    frozen,
    pointer,
    si,
    whole,
)

_BYTES = 120  # peak per flow and per dependency, measured and rounded up; a test checks it


class FlowsBuilder:
    """Collect computations and transfers with their order, then make `Flows`; all files of this folder use it.

    A computation is a flow of size 0 from a node to itself, whose lag is its duration. Operations of one stream run one
    after another, sorted by ``turn`` and then by when they were added; two streams are linked only through ``after``.
    """

    def __init__(self) -> None:
        self.n = 0  # operations
        self.entries = 0  # flows and dependencies
        self.room = 0.0  # number of entries known to fit into memory
        self.labels: list[str] = []
        self.parts: list[dict[str, NDArray[Any]]] = []  # columns of each call of `add`
        self.waits = [np.zeros((2, 0), dtype=np.int64)]  # which operation waits, and for which

    def add(
        self,
        label: str,
        source: ArrayLike,
        target: ArrayLike | None = None,
        *,
        size: ArrayLike = 0.0,
        lag: ArrayLike = 0.0,
        stream: ArrayLike = -1,
        turn: ArrayLike = 0.0,
        after: Sequence[ArrayLike] = (),
    ) -> Ints:
        """Add operations, whose arguments broadcast together, and return their numbers in that shape.

        Parameters
        ----------
        label : str
            Kind of operation, such as ``"forward"``.
        source, target : array_like of int
            Nodes; a computation has no target.
        size, lag : array_like
            As in `Flows`. [B], [s]
        stream, turn : array_like
            Stream of each operation, -1 for none, and its place in the stream.
        after : sequence of array_like of int
            Numbers of the operations for which each waits, with one axis more than the operations; -1 for none.
        """
        if label not in self.labels:
            self.labels.append(label)
        given = {
            "source": source,
            "target": source if target is None else target,
            "size": size,
            "lag": lag,
            "stream": stream,
            "turn": turn,
            "label": self.labels.index(label),
        }
        columns = np.broadcast_arrays(*given.values())
        shape = columns[0].shape
        n = columns[0].size
        # Each is a flow, waits for the one before it in its stream, and for some more.
        more = sum(np.shape(row)[-1] for row in after)
        self._check_room(n * (2 + more))

        self.parts.append(
            {name: column.ravel() for name, column in zip(given, columns, strict=True)}
        )
        number = self.n + np.arange(n).reshape(shape)
        self.n += n
        for row in after:
            pairs = np.stack(np.broadcast_arrays(number[..., None], np.asarray(row)))
            self.waits.append(pairs[:, pairs[1] >= 0])
        return number

    def _check_room(self, entries: int) -> None:
        """Refuse the graph if memory does not suffice for this many more flows and dependencies."""
        self.entries += entries
        if self.entries > self.room:
            # asking for the memory that there is takes longer than a small step
            self.room = 1.1 * self.entries
            title = f"a graph of {self.entries} flows and dependencies"
            advice = "take fewer ranks, steps, segments or micro-batches"
            check_memory(_BYTES * self.room, title, advice)

    def flows(self) -> Flows:
        """Return all operations as a graph of flows."""
        columns: dict[str, Any] = {}
        for name in self.parts[0]:
            columns[name] = np.concatenate([part[name] for part in self.parts])
        stream = columns.pop("stream")
        turn = columns.pop("turn")

        # In a stream each waits for the one before it.
        line = np.lexsort((turn, stream))  # operations, stream by stream in their order
        line = line[stream[line] >= 0]
        same_stream = stream[line[1:]] == stream[line[:-1]]
        in_streams = np.stack([line[1:], line[:-1]])[:, same_stream]

        waits = np.concatenate([*self.waits, in_streams], axis=1)
        owner, after = waits[:, np.argsort(waits[0], kind="stable")]
        graph = Flows.make(**columns, labels=tuple(self.labels))
        return replace(graph, after_ptr=pointer(np.bincount(owner, minlength=self.n)), after=after)


def nodes_of(fabric: Fabric, ranks: ArrayLike, name: str, least: int = 1) -> Ints:
    """Return the nodes of some ranks, (n,), or refuse them by name."""
    given = ranks if np.size(ranks) else np.zeros(0, np.int64)
    rank = whole(given, name, (-1,), "ranks of the fabric", fabric.n_ranks)
    if rank.size < least or np.unique(rank).size < rank.size:
        msg = f"{name} must be {least} or more different ranks of the fabric, such as range(4), got {ranks!r:.60}"
        raise ValueError(msg)
    out: Ints = fabric.endpoint[rank].astype(np.int64)
    return out


def times_of(value: ArrayLike, name: str, *shape: int) -> Floats:
    """Return times, broadcast to a shape, or refuse them by name. [s]."""
    given = si(value, name, units.time)
    last_axes = zip(given.shape[::-1], shape[::-1], strict=False)
    if given.ndim > len(shape) or any(size not in (1, wanted) for size, wanted in last_axes):
        raise ValueError(
            f"{name} must be one time or times of shape {shape}, got shape {given.shape}"
        )
    return np.broadcast_to(given, shape)


def spans(timeline: Timeline, flows: Flows) -> Timeline:
    """Return a timeline in which computations last from beginning to end.

    Engines count a lag before the start of its flow, so in their timelines a computation takes no time.
    """
    if flows.is_sequence:
        raise ValueError(
            "a sequence of groups is solved once for all repetitions; write it out with flows.expanded()"
        )
    computes = (flows.size == 0) & (flows.source == flows.target)
    return replace(timeline, start=np.where(computes, timeline.finish - flows.lag, timeline.start))


def labelled(flows: Flows, pattern: str) -> Flags:
    """Return which flows have a label that contains a match of a regular expression, (F,)."""
    found = np.array([re.search(pattern, label) is not None for label in flows.labels])
    return found[flows.label]


def busy(timeline: Timeline, flows: Flows, which: Flags) -> float:
    """Return the time during which at least one of the selected flows runs [s]; the rest of a step is their bubble.

    ``which`` (F,) selects the flows.
    """
    seen = spans(timeline, flows)
    order = np.argsort(seen.start[which], kind="stable")
    start = seen.start[which][order]
    latest = np.maximum.accumulate(seen.finish[which][order])  # end of the last one so far
    latest_before = np.append(-np.inf, latest[:-1])
    # Each flow adds the time from its start, or from the end of all before it, to its own end.
    added = np.maximum(latest - np.maximum(start, latest_before), 0.0)
    return float(np.sum(added))


def exposed(timeline: Timeline, flows: Flows, compute: Flags, communication: Flags) -> float:
    """Return the time of exposed communication [s], >= 0: communication runs, and computation waits.

    ``compute`` and ``communication`` (F,) select the flows of each.
    """
    both = busy(timeline, flows, compute | communication)
    return max(0.0, both - busy(timeline, flows, compute))  # rounding shall not make it negative


def longest_wait(timeline: Timeline, flows: Flows, which: Flags) -> tuple[float, float]:
    """Return the begin and the end of the longest time between some flows in which none of them runs [s].

    ``which`` (F,) selects the flows, such as the computations of a trace. If one of them always runs, both
    times are the end of the last one.
    """
    seen = spans(timeline, flows)
    order = np.argsort(seen.start[which], kind="stable")
    start = seen.start[which][order]
    latest = np.maximum.accumulate(seen.finish[which][order])  # end of all so far
    gaps = start[1:] - latest[:-1]
    if not gaps.size or gaps.max() <= 0:
        end = float(latest[-1]) if latest.size else 0.0
        return end, end
    longest = int(np.argmax(gaps))
    return float(latest[longest]), float(start[longest + 1])


def slowed(
    flows: Flows,
    nodes: ArrayLike,
    *,
    factor: float = 1.0,
    jitter: units.Quantity = 0.0,
    seed: int = 0,
) -> Flows:
    """Turn some nodes into stragglers: their computations, and their work before each message, take longer.

    A slow link does not change the flows; run these on ``fabric.with_capacity(...)`` instead. In a sequence of groups
    the noise would be the same in each repetition, so write it out first (``expand`` of `lower`, or
    ``flows.expanded()``).

    Parameters
    ----------
    flows : Flows
        The flows; they are not changed.
    nodes : array_like of int
        Nodes whose computations and messages are late.
    factor : float
        Factor by which their lags are multiplied. >= 0
    jitter : float or str
        Mean of an exponential delay that is added to each of their lags. [s], >= 0
    seed : int
        Seed of the delays.

    References
    ----------
    .. [1] T. Hoefler, T. Schneider, A. Lumsdaine, Characterizing the influence of system noise, SC 2010.
    """
    most = int(max(flows.source.max(initial=0), flows.target.max(initial=0)))
    late = whole(nodes, "nodes", (-1,), "nodes of the flows", most + 1)
    noise = np.random.default_rng(seed).exponential(units.time(jitter, "jitter"), flows.n_flows)
    longer = flows.lag * frozen(factor, np.float64, "factor") + noise
    is_late = np.isin(flows.source, late)
    return replace(flows, lag=np.where(is_late, longer, flows.lag))
