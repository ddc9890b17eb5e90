"""What a run tells: when operations ran, how long they were busy, what communication was exposed; and stragglers."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Flags, Flows, Timeline, check_within, frozen


def spans(timeline: Timeline, flows: Flows) -> Timeline:
    """Return the timeline of a graph with computations as bars: engines count a lag before the start of its flow."""
    if flows.is_sequence:
        raise ValueError("a sequence of groups is solved once for all repetitions; write it out with flows.expanded()")
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
    return float(np.sum(np.maximum(finish - np.maximum(start, np.append(-np.inf, finish[:-1])), 0.0)))


def exposed(timeline: Timeline, flows: Flows, compute: Flags, communication: Flags) -> float:
    """Return the time in which communication runs and computation waits [s], >= 0; both are flows, (F,)."""
    both = busy(timeline, flows, compute | communication)
    return max(0.0, both - busy(timeline, flows, compute))  # rounding shall not make it negative


def slowed(
    flows: Flows, nodes: ArrayLike, *, factor: float = 1.0, jitter: units.Quantity = 0.0, seed: int = 0
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
    late = frozen(nodes, np.int64, "nodes")
    check_within(late, "nodes", 0, int(max(flows.source.max(initial=0), flows.target.max(initial=0))))
    noise = np.random.default_rng(seed).exponential(units.time(jitter, "jitter"), flows.n_flows)
    lag = np.where(np.isin(flows.source, late), flows.lag * frozen(factor, np.float64, "factor") + noise, flows.lag)
    return replace(flows, lag=lag)
