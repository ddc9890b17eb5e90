"""Lower a schedule onto a fabric: ranks get endpoints, and blocks become bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import core, units
from fabriclab.collectives.algorithm import number
from fabriclab.core import (
    Fabric,
    Floats,
    Flows,
    Ints,
    Schedule,
    StepGroup,
    check_memory,
    column,
    pointer,
    whole,
)

__all__ = [
    "Transfers",
    "lower",
]

_FLOW_BYTES = 320  # measured peak per flow, rounded up; a test checks it
_ENTRY_BYTES = 48  # measured peak per dependency, rounded up
_ADVICE = "let expand be False, or take fewer ranks"


def lower(
    schedule: Schedule,
    fabric: Fabric,
    size: units.Quantity,
    *,
    placement: ArrayLike | None = None,
    lag: units.Quantity = 0.0,
    gamma: float = 0.0,
    expand: bool = False,
    weight: float = 1.0,
    limit: units.Quantity = np.inf,
    switches: ArrayLike | None = None,
) -> Flows:
    """Turn a schedule into flows between the nodes of a fabric, with their sizes and their order.

    By default each step waits for the whole step before it (a barrier, common to all rows of the placement), and a
    group with ``repeat`` stays one group. With ``expand`` there is no barrier: a transfer waits for what its source
    sent in the last step in which it sent, and for everything that the source has received since. A target accepts
    early arrivals at any time, as a library with staging buffers does. If steps then overlap and share ports, this may
    take longer than with barriers.

    Blocks count as equal; those of a real array differ by up to one element.

    Parameters
    ----------
    schedule : Schedule
        The collective, between ranks.
    fabric : Fabric
        The network.
    size : float or str
        Size of the whole array, as nccl-tests counts it. [B], >= 0
    placement : array_like, shape (n_ranks,) or (G, n_ranks), optional
        Endpoint (0, 1, ... in the order of ``fabric.endpoint``) of each rank of the schedule; the first endpoints in
        order unless given. With several rows, G groups of endpoints run the same schedule at the same time.
    lag : float or str
        Software time of each message before its first byte. [s], >= 0
    gamma : float
        Time to add one byte. A rank that receives several buffers in a step adds them one after another. The time is
        counted before the first byte of the message that brings the data, like ``lag``. [s/B], >= 0
    expand : bool
        Whether to write every repetition out and replace barriers by dependencies.
    weight : float
        Weight of every flow when flows share a link. > 0
    limit : float or str
        Highest rate at which the source of a flow can send it. [B/s], > 0
    switches : array_like, shape (n_switches,) or (G, n_switches), optional
        Node of the fabric for each switch of the schedule that adds or multicasts; one node may serve several.

    Returns
    -------
    Flows
        The flows, labelled by the row of the placement.

    Raises
    ------
    ValueError
        If a number or unit is wrong, or the placement does not fit.
    TooLarge
        If the flows need more memory than this machine has.

    Examples
    --------
    >>> from fabriclab import collectives, topologies
    >>> fabric = topologies.build("crossbar", hosts=8)
    >>> lower(collectives.build("all_reduce", "ring", 8), fabric, "8 MiB")
    <Flows: 16 flows, 2 groups in order, 14 steps, 112 MiB in all>
    """
    units.flag(expand, "expand")
    total = units.size(size)
    wait = units.latency(lag, "lag")
    rate = np.inf if limit == np.inf else units.rate(limit, "limit")
    per_byte = float(number(gamma, "gamma"))
    place = _placed(schedule, fabric, placement)
    switch_nodes = _switches(schedule, fabric, switches, len(place))
    nodes = np.hstack([fabric.endpoint[place], switch_nodes])  # (rows, participants)
    rows = place.shape[0]
    _check_flows(schedule, rows, expand)

    transfers = _transfers(schedule, total, expand)
    n = transfers.step.size  # of a row
    lags = wait + per_byte * _added(schedule, transfers) * transfers.reduce

    # Flows of a sequence are sorted by step; in a graph each row of the placement keeps its own order.
    if expand:
        order = np.arange(rows * n)
    else:
        order = np.argsort(np.tile(transfers.step, rows), kind="stable")
    row, item = np.divmod(order, max(n, 1))
    title = f"{schedule.collective} {schedule.algorithm}"
    labels = [title]
    if rows != 1:
        labels = [f"{title} {row_number}" for row_number in range(rows)]
    flows = Flows.make(
        nodes[row, transfers.source[item]],
        nodes[row, transfers.target[item]],
        transfers.size[item],
        lag=lags[item],
        weight=weight,
        limit=rate,
        label=row,
        labels=tuple(labels),
        group=0 if expand else transfers.step[item],
        repeat=transfers.repeat,
    )
    if not expand:
        return flows

    # Each row of the placement is a copy of the same graph, with its own flows.
    ptr, after = _dependencies(transfers, rows)
    n_after = np.tile(np.diff(ptr), rows)  # (F,) flows that each flow waits for
    first = np.repeat(np.arange(rows) * n, after.size)  # number of the first flow of the row
    return replace(flows, after_ptr=pointer(n_after), after=np.tile(after, rows) + first)


def _check_flows(schedule: Schedule, rows: int, expand: bool) -> None:
    """Refuse a schedule whose flows need more memory than this machine has, before they are made."""
    n = 0
    for group in schedule.groups:
        times = group.repeat if expand else 1
        n += group.n_transfers * times
    title = f"{rows * n} flows"
    if expand:
        title = f"a graph of {title}"
    check_memory(rows * n * _FLOW_BYTES, title, _ADVICE)


class Transfers(NamedTuple):
    """All transfers of a schedule as columns, sorted by step."""

    n_steps: int
    step: Ints  # (T,)
    source: Ints  # (T,) ranks, or switches of the schedule
    target: Ints  # (T,)
    reduce: Ints  # (T,) 1 if the target adds what it receives, else 0
    size: Floats  # (T,) [B]
    repeat: list[int]  # of each step; one entry where there is none, or a graph


def _transfers(schedule: Schedule, total: float, expand: bool) -> Transfers:
    """Return the transfers of a schedule for an array of ``total`` bytes; ``expand`` writes repetitions out."""
    steps: tuple[StepGroup, ...]
    if expand:
        steps = tuple(schedule.steps())
    else:
        steps = schedule.groups
    repeat = [1]
    if steps and not expand:
        repeat = [step.repeat for step in steps]

    n_transfers = [step.n_transfers for step in steps]
    share = _joined([schedule.moved(step) for step in steps], np.float64)  # (T,) of the array
    return Transfers(
        n_steps=len(steps),
        step=np.repeat(np.arange(len(steps)), n_transfers),
        source=_joined([step.source for step in steps], np.int64),
        target=_joined([step.target for step in steps], np.int64),
        reduce=_joined([step.reduce for step in steps], np.int64),
        size=total * share,
        repeat=repeat,
    )


def _joined(arrays: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    """Return arrays one after another; an empty array of a type if there are none."""
    nothing = np.zeros(0, dtype=dtype)
    return np.concatenate([nothing, *arrays])


def _added(schedule: Schedule, transfers: Transfers) -> Floats:
    """Return the bytes that the target of each transfer adds in this step before its next message, (T,).

    A rank that receives several buffers in a step adds them one after another; switches add at the rate of their ports.
    """
    event = transfers.step * schedule.n_participants + transfers.target
    _, same = np.unique(event, return_inverse=True)  # (T,) number of step and target together
    added = np.bincount(same, weights=transfers.size * transfers.reduce)  # of each step and target
    is_rank = transfers.target < schedule.n_ranks
    return np.asarray(added[same] * is_rank)


def _dependencies(transfers: Transfers, rows: int) -> tuple[Ints, Ints]:
    """Return for each transfer the transfers that it waits for, as compressed rows; memory must hold ``rows`` copies.

    Waiting only for the last step in which the source took part would lose data: a rank that receives in
    two steps and then sends must wait for both.
    """
    step, source = transfers.step, transfers.source
    n = step.size
    # Every transfer is an event of its source and of its target; participant and step identify an event.
    period = np.int64(transfers.n_steps + 1)
    participant = np.concatenate([source, transfers.target])
    event = participant * period + np.tile(step, 2)  # (2 T,)
    order = np.argsort(event, kind="stable")
    event = event[order]

    # The last step in which the source sent; if there is none, it waits for everything that it has received.
    now = source * period + step
    sends = np.unique(now)
    before = sends[np.maximum(np.searchsorted(sends, now) - 1, 0)]
    sent_before = (before < now) & (before // period == source)
    since = np.where(sent_before, before, now - step)

    low = np.searchsorted(event, since)
    high = np.searchsorted(event, now)
    ptr = pointer(high - low)
    check_memory(
        rows * float(ptr[-1]) * _ENTRY_BYTES, f"a graph with {rows * ptr[-1]} dependencies", _ADVICE
    )
    return ptr, order[core.expand(low, high - low)] % max(n, 1)


def _placed(schedule: Schedule, fabric: Fabric, placement: ArrayLike | None) -> Ints:
    """Return the endpoint of each rank as a table (G, n_ranks), or refuse the placement."""
    n = schedule.n_ranks
    ends = fabric.n_ranks
    if placement is None and n > ends:
        raise ValueError(
            f"the schedule has {n} ranks and the fabric {ends} endpoints; take fewer or a larger one"
        )
    given = np.arange(n) if placement is None else column(placement, "placement")
    table = whole(
        np.atleast_2d(given), "placement", (-1, n), "endpoints, a row for each group", ends
    )

    flat = table.ravel()
    taken_twice = np.flatnonzero(np.bincount(flat) > 1)
    if taken_twice.size:
        endpoint = taken_twice[0]
        ranks = np.flatnonzero(flat == endpoint) % n
        raise ValueError(
            f"placement puts ranks {ranks[0]} and {ranks[1]} on endpoint {endpoint}; each holds one rank"
        )
    return table


def _switches(schedule: Schedule, fabric: Fabric, switches: ArrayLike | None, rows: int) -> Ints:
    """Return the node of each switch as a table (G, n_switches), or refuse them."""
    n = schedule.n_switches
    if switches is None or not np.size(switches):
        given = np.zeros((1, 0), np.int64)
    else:
        given = np.atleast_2d(column(switches, "switches"))
    title = "a node of the fabric for each switch of the schedule"
    n_rows = 1 if len(given) == 1 else rows  # one row serves all groups
    table = whole(given, "switches", (n_rows, n), title, fabric.n_nodes)
    return np.broadcast_to(table, (rows, n))


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
