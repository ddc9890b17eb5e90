"""Engines: from flows on routes to a Timeline.

Every engine is a file that registers itself; it solves one graph of flows and returns their starts and
finishes. Sequences of groups are run here, for all engines alike.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from fabriclab import registry
from fabriclab.core import PATH, Changes, Fabric, Floats, Flows, Routes, Timeline, check_within
from fabriclab.errors import NoPath

__all__ = ["names", "run"]

Times = tuple[Floats, Floats]


def names() -> tuple[str, ...]:
    """Return the registered engines."""
    return registry.names("engine")


def run(
    fabric: Fabric,
    routes: Routes,
    flows: Flows,
    engine: str = "flow",
    changes: Changes | None = None,
    config: Mapping[str, Any] | None = None,
    rng: np.random.Generator | None = None,
) -> Timeline:
    """Return when each flow starts and ends on a fabric.

    A flow starts at its ``start``, but not before its last dependency has ended and its ``lag`` has passed
    (without dependencies the lag counts from time 0). Each of its rows moves its share at its own rate; the
    flow ends when the last row has ended and its delay has passed. A flow of size 0 takes only the delay.

    In a sequence each group starts when the one before has ended in full, and so does each repetition. A
    group is solved once and multiplied, which is exact for steps that are all alike.

    Parameters
    ----------
    fabric : Fabric
        Nodes and links.
    routes : Routes
        Rows for every flow that moves bytes between two nodes.
    flows : Flows
        A graph or a sequence.
    engine : str
        ``"flow"``: fluids that share links max-min fairly, each row with the weight of its flow.
        ``"ideal"``: every flow as if it were alone, a lower bound. Both leave out packets and queues.
    changes : Changes, optional
        Capacities that change on the way; none may fall into a repeated group.
    config : mapping, optional
        Settings of the engine; those here have none.
    rng : numpy.random.Generator, optional
        For engines that draw; those here draw nothing.

    Returns
    -------
    Timeline
        Times in seconds; the bytes of each link are those of all repetitions.

    Raises
    ------
    ValueError
        If the parts do not fit together, or the engine cannot do what is asked.
    NoPath
        If a flow between two nodes has bytes and no route.
    Unreachable
        If a flow can never end because a link has no capacity.
    Deadlock
        If flows wait for each other in a cycle.
    """
    function, about = registry.get("engine", engine), registry.info("engine", engine)
    settings = dict(config or {})
    unknown = [key for key in settings if key not in about.get("settings", ())]
    if unknown:
        known = ", ".join(about.get("settings", ())) or "no settings"
        raise ValueError(
            f"config has {unknown[0]!r}, which engine {engine!r} does not know; it knows {known}"
        )
    if isinstance(changes, Changes) and changes.time.size and not about.get("changes", True):
        raise ValueError(
            f"engine {engine!r} takes no changes; use 'flow', or fabric.with_capacity for the whole run"
        )
    _check_parts(fabric, routes, flows, changes)
    _check_routes(fabric, routes, flows)

    solve = partial(function, fabric, config=settings, rng=rng)
    if flows.is_sequence:
        start, finish, begin, period = _sequence(solve, routes, flows, changes)
    else:
        start, finish = solve(routes, flows, changes)
        begin, period = np.zeros(1), np.array([finish.max(initial=0.0)])
    return Timeline(
        start, finish, routes.link_bytes(flows, fabric.n_links), begin, period, flows.repeat, engine
    )


def _check_parts(fabric: Fabric, routes: Routes, flows: Flows, changes: Changes | None) -> None:
    """Refuse numbers of nodes, links and flows that do not exist."""
    if changes is not None and not isinstance(changes, Changes):
        raise TypeError(
            f"changes must be a fabriclab.core.Changes (time, link, capacity), got {changes!r}"
        )
    for name, value, bound in (
        ("routes.link", routes.link, fabric.n_links),
        ("routes.flow", routes.flow, flows.n_flows),
        ("changes.link", np.zeros(0) if changes is None else changes.link, fabric.n_links),
        ("flows.source", flows.source, fabric.n_nodes),
        ("flows.target", flows.target, fabric.n_nodes),
    ):
        check_within(value, name, 0, bound - 1, "; take the parts of one run")


def _check_routes(fabric: Fabric, routes: Routes, flows: Flows) -> None:
    """Refuse flows whose bytes have no way, and rows that no engine here can choose among."""

    def ends(f: int) -> str:
        return f"{fabric.name(int(flows.source[f]))} to {fabric.name(int(flows.target[f]))}"

    if routes.adaptive.any():
        raise ValueError(
            "routes hold adaptive rows, and no engine here chooses among rows; route by 'spray' or 'ecmp'"
        )
    path = np.flatnonzero((routes.kind == PATH) & (np.diff(routes.ptr) > 0))
    owner = routes.flow[path]
    first, last = routes.link[routes.ptr[path]], routes.link[routes.ptr[path + 1] - 1]
    lost = (fabric.source[first] != flows.source[owner]) | (
        fabric.target[last] != flows.target[owner]
    )
    if lost.any():
        f = int(owner[lost][0])
        raise ValueError(
            f"flow {f}: its route does not go from {ends(f)}; route these flows on this fabric"
        )
    moving = (flows.size > 0) & (flows.source != flows.target)
    share = np.bincount(routes.flow, routes.share * (np.diff(routes.ptr) > 0), flows.n_flows)
    wrong = np.flatnonzero(moving & (np.abs(share - 1) > 1e-9))
    if wrong.size:
        f = int(wrong[0])
        msg = f"flow {f} from {ends(f)} has {flows.size[f]:g} B and routes for {share[f]:g} of them; route these flows"
        raise NoPath(msg) if share[f] == 0 else ValueError(msg)


def _sequence(
    solve: Callable[..., Times], routes: Routes, flows: Flows, changes: Changes | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return start and finish of the flows, and start and period of the groups. [s]."""
    if np.any(np.diff(routes.flow) < 0):
        routes = routes.of_rows(np.argsort(routes.flow, kind="stable"))
    start, finish = np.zeros(flows.n_flows), np.zeros(flows.n_flows)
    begin, period = np.zeros(flows.repeat.size), np.zeros(flows.repeat.size)
    solved: dict[tuple[int, int, int], list[tuple[Routes, Flows, Times]]] = {}
    now = 0.0
    for g, repeat in enumerate(flows.repeat.tolist()):
        span = flows.of_group(g)
        ways, part = _part(routes, flows, span)
        alike = solved.setdefault((part.n_flows, crc32(ways.link.data), crc32(part.size.data)), [])
        times = next((t for w, p, t in alike if _same(w, ways) and _same(p, part)), None)
        if times is None or changes is not None:
            ahead = changes and Changes(
                np.maximum(changes.time - now, 0.0), changes.link, changes.capacity
            )
            times = solve(ways, part, ahead)  # on a clock that starts now
            alike.append((ways, part, times))
        start[span], finish[span] = times[0] + now, times[1] + now
        begin[g], period[g] = now, times[1].max(initial=0.0)
        now += period[g] * repeat
        if (
            repeat > 1
            and changes is not None
            and np.any((changes.time > begin[g]) & (changes.time < now))
        ):
            msg = f"a change falls into group {g}, whose {repeat} repetitions from {begin[g]:g} s to {now:g} s are "
            raise ValueError(
                msg + "solved once; write them out with flows.expanded() and route the result"
            )
    return start, finish, begin, period


def _part(routes: Routes, flows: Flows, span: slice) -> tuple[Routes, Flows]:
    """Return the routes and flows of one group as a graph of its own; ``routes`` are in the order of the flows."""
    row = np.arange(*np.searchsorted(routes.flow, [span.start, span.stop]))
    ways = routes.of_rows(row, flow=routes.flow[row] - span.start)
    columns = ("source", "target", "size", "start", "lag", "weight", "limit", "label")
    ptr = flows.after_ptr[span.start : span.stop + 1]
    part = flows.cut(
        **{name: getattr(flows, name)[span] for name in columns},
        group=np.zeros(span.stop - span.start, np.int32),
        repeat=np.ones(1, dtype=np.int64),
        after_ptr=ptr - ptr[0],
        after=flows.after[ptr[0] : ptr[-1]] - span.start,
    )
    return ways, part


def _same(a: Routes | Flows, b: Routes | Flows) -> bool:
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
