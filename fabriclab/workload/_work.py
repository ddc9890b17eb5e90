"""Work: operations in streams, gathered as arrays, then made into Flows; and what a run of them tells.

That is when operations ran, how long they were busy, what communication was exposed; and what stragglers do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

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

_BYTES = 120  # peak per flow and per dependency, measured and rounded up; a test holds it


class Work:
    """Collect computations and transfers with their order, then make `Flows`; used by all files of this folder.

    A computation is a flow of size 0 from a node to itself that takes its lag. Operations of one stream run one after
    another, by ``turn``, then as they were added; two streams meet through ``after`` only.
    """

    def __init__(self) -> None:
        # held: flows and dependencies, of which room fit into memory
        self.n, self.held, self.room = (0, 0, 0.0)
        self.labels, self.parts = list[str](), list[dict[str, Any]]()
        self.waits = [np.zeros((2, 0), dtype=np.int64)]  # who waits, and for whom

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
        """Add operations that broadcast together; return their numbers, in that shape.

        Parameters
        ----------
        label : str
            What they are.
        source, target : array_like of int
            Nodes; a computation has no target.
        size, lag : array_like
            As in `Flows`. [B], [s]
        stream, turn : array_like
            Stream of each, -1 for none, and its place there.
        after : sequence of array_like of int
            What each waits for: numbers of operations, with one axis more than the operations; -1 for none.
        """
        self.labels += [label] * (label not in self.labels)
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
        # Each is a flow, waits for the one before it in its stream, and for some more.
        self.held += columns[0].size * (2 + sum(np.shape(row)[-1] for row in after))
        if self.held > self.room:
            # asking for the memory that there is takes longer than a small step
            self.room = 1.1 * self.held
            what = f"a graph of {self.held} flows and dependencies"
            check_memory(
                _BYTES * self.room, what, "take fewer ranks, steps, segments or micro-batches"
            )
        self.parts.append(
            {name: column.ravel() for name, column in zip(given, columns, strict=True)}
        )
        number = self.n + np.arange(columns[0].size).reshape(columns[0].shape)
        self.n += number.size
        for row in map(np.asarray, after):
            pairs = np.stack(np.broadcast_arrays(number[..., None], row))
            self.waits.append(pairs[:, pairs[1] >= 0])
        return number

    def flows(self) -> Flows:
        """Return all that was added, as a graph."""
        c: dict[str, Any] = {
            name: np.concatenate([part[name] for part in self.parts]) for name in self.parts[0]
        }
        line = np.lexsort((c.pop("turn"), stream := c.pop("stream")))
        line = line[stream[line] >= 0]
        next_to = stream[line[1:]] == stream[line[:-1]]
        waits = np.concatenate([*self.waits, np.stack([line[1:], line[:-1]])[:, next_to]], axis=1)
        owner, after = waits[:, np.argsort(waits[0], kind="stable")]
        graph = Flows.make(**c, labels=tuple(self.labels))
        return replace(graph, after_ptr=pointer(np.bincount(owner, minlength=self.n)), after=after)


def nodes_of(fabric: Fabric, ranks: ArrayLike, name: str, least: int = 1) -> Ints:
    """Return the nodes of some ranks, (n,), or refuse them by name."""
    rank = whole(
        ranks if np.size(ranks) else np.zeros(0, np.int64),
        name,
        (-1,),
        "ranks of the fabric",
        fabric.n_ranks,
    )
    if rank.size < least or np.unique(rank).size < rank.size:
        msg = f"{name} must be {least} or more different ranks of the fabric, such as range(4), got {ranks!r:.60}"
        raise ValueError(msg)
    out: Ints = fabric.endpoint[rank].astype(np.int64)
    return out


def times_of(value: ArrayLike, name: str, *shape: int) -> Floats:
    """Return times that broadcast to a shape, or refuse them by name. [s]."""
    given = si(value, name, units.time)
    if given.ndim > len(shape) or any(
        a not in (1, b) for a, b in zip(given.shape[::-1], shape[::-1], strict=False)
    ):
        raise ValueError(
            f"{name} must be one time or times of shape {shape}, got shape {given.shape}"
        )
    return np.broadcast_to(given, shape)


def spans(timeline: Timeline, flows: Flows) -> Timeline:
    """Return the timeline of a graph with computations as bars: engines count a lag before the start of its flow."""
    if flows.is_sequence:
        raise ValueError(
            "a sequence of groups is solved once for all repetitions; write it out with flows.expanded()"
        )
    computes = (flows.size == 0) & (flows.source == flows.target)
    return replace(timeline, start=np.where(computes, timeline.finish - flows.lag, timeline.start))


def labelled(flows: Flows, pattern: str) -> Flags:
    """Return which flows have a label in which a regular expression is found, (F,)."""
    return np.array([re.search(pattern, label) is not None for label in flows.labels])[flows.label]


def busy(timeline: Timeline, flows: Flows, which: Flags) -> float:
    """Return the time in which at least one of some flows (F,) runs [s]; what is left of a step is their bubble."""
    seen = spans(timeline, flows)
    order = np.argsort(seen.start[which], kind="stable")
    start, finish = seen.start[which][order], np.maximum.accumulate(seen.finish[which][order])
    return float(
        np.sum(np.maximum(finish - np.maximum(start, np.append(-np.inf, finish[:-1])), 0.0))
    )


def exposed(timeline: Timeline, flows: Flows, compute: Flags, communication: Flags) -> float:
    """Return the time in which communication runs and computation waits [s], >= 0; both are flows, (F,)."""
    both = busy(timeline, flows, compute | communication)
    return max(0.0, both - busy(timeline, flows, compute))  # rounding shall not make it negative


def slowed(
    flows: Flows,
    nodes: ArrayLike,
    *,
    factor: float = 1.0,
    jitter: units.Quantity = 0.0,
    seed: int = 0,
) -> Flows:
    """Return the flows with stragglers: what some nodes do before each first byte takes longer.

    A slow link is no change of flows: run them on ``fabric.with_capacity(...)``. In a sequence of groups the noise
    would be the same in each repetition: write it out first (``expand`` of `lower`, or ``flows.expanded()``).

    Parameters
    ----------
    nodes : array_like of int
        Nodes whose computations and messages are late.
    factor : float
        Factor of their lags. >= 0
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
    lag = np.where(
        np.isin(flows.source, late),
        flows.lag * frozen(factor, np.float64, "factor") + noise,
        flows.lag,
    )
    return replace(flows, lag=lag)
