"""Lower a Schedule onto a Fabric: who becomes where, and blocks become bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.collectives.algorithm import number
from fabriclab.core import Fabric, Flows, Ints, Schedule, check_memory, column, pointer, whole
from fabriclab.core import expand as spread

_FLOW_BYTES = 320  # measured peak per flow, rounded up; a test holds it
_ENTRY_BYTES = 48  # the same per dependency
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
    """Return the Flows of a schedule on a fabric.

    By default each step waits for the whole step before it (a barrier, common to all rows of the
    placement), and a group with ``repeat`` stays one group. With ``expand`` there is no barrier: a
    transfer waits for what its source sent in the last step in which it sent, and for all that it has
    received since. A target takes early arrivals at any time, as a library with staging buffers does.
    Where steps then overlap and share ports, this may take longer than with barriers.

    Blocks count as equal; those of a real array differ by up to one element.

    Parameters
    ----------
    schedule : Schedule
        What is done, by ranks.
    fabric : Fabric
        Where.
    size : float or str
        Size of the whole array, as nccl-tests counts it. [B], >= 0
    placement : array_like, shape (n_ranks,) or (G, n_ranks), optional
        Endpoint (0, 1, ... in the order of ``fabric.endpoint``) of each rank of the schedule; by default the
        first ones in order. Several rows run the same schedule at once in G groups of endpoints.
    lag : float or str
        Software time of each message before its first byte. [s], >= 0
    gamma : float
        Time to add one byte; one that receives several buffers in a step adds one after another. It is
        counted before the first byte, like ``lag``. [s/B], >= 0
    expand : bool
        Write every repetition out and replace the barriers by dependencies.
    weight : float
        Factor of the fair share. > 0
    limit : float or str
        Highest rate of one flow's source. [B/s], > 0
    switches : array_like, shape (n_switches,) or (G, n_switches), optional
        Node of the fabric for each switch of the schedule that adds or multicasts; one may serve several.

    Returns
    -------
    Flows
        Labelled by the row of the placement.

    Raises
    ------
    ValueError
        If a number or unit is wrong, or the placement does not fit.
    TooLarge
        If the flows need more memory than there is.

    Examples
    --------
    >>> from fabriclab import collectives, topologies
    >>> fabric = topologies.build("crossbar", hosts=8)
    >>> lower(collectives.build("all_reduce", "ring", 8), fabric, "8 MiB")
    <Flows: 16 flows, 2 groups in order, 14 steps, 112 MiB in all>
    """
    units.flag(expand, "expand")
    total, wait = units.size(size), units.latency(lag, "lag")
    rate = np.inf if limit == np.inf else units.rate(limit, "limit")
    per_byte = float(number(gamma, "gamma"))
    place = _placed(schedule, fabric, placement)
    nodes = np.hstack([fabric.endpoint[place], _switches(schedule, fabric, switches, len(place))])
    rows, n = (
        place.shape[0],
        sum(g.n_transfers * (g.repeat if expand else 1) for g in schedule.groups),
    )
    check_memory(
        rows * n * _FLOW_BYTES,
        f"a graph of {rows * n} flows" if expand else f"{rows * n} flows",
        _ADVICE,
    )
    steps = tuple(schedule.steps()) if expand else schedule.groups
    none, names = np.zeros(0, dtype=np.int64), ("source", "target", "reduce")
    source, target, reduce = (
        np.concatenate([none, *(getattr(s, k) for s in steps)]) for k in names
    )
    step = np.repeat(np.arange(len(steps)), [s.n_transfers for s in steps])
    moved = total * np.concatenate([np.zeros(0), *map(schedule.moved, steps)])
    # One that receives several buffers in a step adds them one after another; switches add at the rate of their ports.
    _, same = np.unique(step * schedule.n_participants + target, return_inverse=True)
    added = np.bincount(same, weights=moved * reduce)[same] * (target < schedule.n_ranks)
    lags = wait + reduce * (per_byte * added)
    # Flows of a sequence stand step by step; in a graph each row of the placement keeps its own order.
    order = np.arange(rows * n) if expand else np.argsort(np.tile(step, rows), kind="stable")
    row, item = np.divmod(order, max(n, 1))
    name = f"{schedule.collective} {schedule.algorithm}"
    flows = Flows.make(
        nodes[row, source[item]],
        nodes[row, target[item]],
        moved[item],
        lag=lags[item],
        weight=weight,
        limit=rate,
        label=row,
        labels=(name,) if rows == 1 else tuple(f"{name} {r}" for r in range(rows)),
        group=0 if expand else step[item],
        repeat=1 if expand or not steps else [s.repeat for s in steps],
    )
    if not expand:
        return flows
    ptr, after = _dependencies(step, source, target, len(steps), rows)
    shift = np.repeat(np.arange(rows) * n, after.size)
    return replace(
        flows, after_ptr=pointer(np.tile(np.diff(ptr), rows)), after=np.tile(after, rows) + shift
    )


def _dependencies(
    step: Ints, source: Ints, target: Ints, n_steps: int, rows: int
) -> tuple[Ints, Ints]:
    """Return for each transfer the transfers that it waits for, as compressed rows; ``rows`` copies must fit.

    Waiting only for the last step in which the source took part would lose data: a rank that receives in
    two steps and then sends must wait for both.
    """
    n = step.size
    # Every transfer is an event of its source and of its target; sorted by participant and step.
    event = np.concatenate([source, target]) * np.int64(n_steps + 1) + np.tile(step, 2)
    order = np.argsort(event, kind="stable")
    event = event[order]
    now = source * np.int64(n_steps + 1) + step
    sends = np.unique(now)
    before = sends[np.maximum(np.searchsorted(sends, now) - 1, 0)]
    same = (before < now) & (before // (n_steps + 1) == source)
    since = np.where(same, before, now - step)
    low, high = np.searchsorted(event, since), np.searchsorted(event, now)
    ptr = pointer(high - low)
    check_memory(
        rows * float(ptr[-1]) * _ENTRY_BYTES, f"a graph with {rows * ptr[-1]} dependencies", _ADVICE
    )
    return ptr, order[spread(low, high - low)] % max(n, 1)


def _placed(schedule: Schedule, fabric: Fabric, placement: ArrayLike | None) -> Ints:
    """Return the endpoint of each rank as a table (G, n_ranks), or refuse the placement."""
    n, ends = schedule.n_ranks, fabric.n_ranks
    if placement is None and n > ends:
        raise ValueError(
            f"the schedule has {n} ranks and the fabric {ends} endpoints; take fewer or a larger one"
        )
    given = np.arange(n) if placement is None else column(placement, "placement")
    table = whole(
        np.atleast_2d(given), "placement", (-1, n), "endpoints, a row for each group", ends
    )
    flat = table.ravel()
    twice = np.flatnonzero(np.bincount(flat) > 1)
    if twice.size:
        ranks = np.flatnonzero(flat == twice[0]) % n
        raise ValueError(
            f"placement puts ranks {ranks[0]} and {ranks[1]} on endpoint {twice[0]}; each holds one rank"
        )
    return table


def _switches(schedule: Schedule, fabric: Fabric, switches: ArrayLike | None, rows: int) -> Ints:
    """Return the node of each switch as a table (G, n_switches), or refuse them."""
    n, none = schedule.n_switches, switches is None or not np.size(switches)
    given = np.atleast_2d(np.zeros(0, np.int64) if none else column(switches, "switches"))
    what = "a node of the fabric for each switch of the schedule"
    table = whole(given, "switches", (1 if len(given) == 1 else rows, n), what, fabric.n_nodes)
    return np.broadcast_to(table, (rows, n))
