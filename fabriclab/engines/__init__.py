"""Run flows on their routes and return a timeline of when each starts and ends.

Every engine is a file that registers itself; it solves one graph of flows and returns the times at which each flow
starts and finishes. Sequences of groups are run here in the same manner for all engines.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from fabriclab import registry, routing, workload
from fabriclab.core import PATH, Changes, Fabric, Floats, Flows, Routes, Timeline, check_within
from fabriclab.errors import NoPath

__all__ = ["StepRun", "names", "run", "run_pattern", "run_step"]

Times = tuple[Floats, Floats]  # start and finish of each flow [s], as an engine returns them
_COMPUTES = "^(forward|backward|compute)$"  # labels of computations in the steps of `workload`


class StepRun(NamedTuple):
    """A training step that was run: what it consists of, when each part ran, and what it waited for."""

    flows: Flows
    streams: Fabric  # a node for the computation of each rank, and one for communication
    timeline: Timeline  # with computations that last from beginning to end
    exposed: float  # communication during which nothing is computed [s]

    @property
    def end(self) -> float:
        """When the last computation or message has ended [s]."""
        return float(self.timeline.end)


def names() -> tuple[str, ...]:
    """Return the names of all engines that `run` knows."""
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
    """Run flows on a fabric and return when each of them starts and ends.

    A flow starts at its ``start``, but not before its last dependency has ended and its ``lag`` has passed after that
    (without dependencies the lag counts from time 0). Each row of the flow moves its share at its own rate; the flow
    ends when its last row has ended and its delay has passed. A flow of size 0 takes only the delay.

    In a sequence each group starts when the one before has ended in full, and so does each repetition. A
    group is solved once and multiplied, which is exact for steps that are all alike.

    Parameters
    ----------
    fabric : Fabric
        The network.
    routes : Routes
        Rows for every flow that moves bytes between two nodes.
    flows : Flows
        A graph of flows with dependencies, or a sequence of groups.
    engine : str
        ``"flow"``: flows are fluids that share links max-min fairly, each row with the weight of its flow.
        ``"ideal"``: every flow runs as if it were alone, which gives a lower bound. Both leave out packets and queues.
    changes : Changes, optional
        Capacities that change during the run; no change may happen during a repeated group.
    config : mapping, optional
        Settings of the engine; the two engines here have none.
    rng : numpy.random.Generator, optional
        Generator for engines that draw random numbers; the two engines here draw none.

    Returns
    -------
    Timeline
        Times in seconds; the bytes of each link include all repetitions.

    Raises
    ------
    ValueError
        If fabric, routes and flows do not fit together, or the engine does not support an argument.
    NoPath
        If a flow between two nodes has bytes and no route.
    Unreachable
        If a flow can never end because a link has no capacity.
    Deadlock
        If flows wait for each other in a cycle.
    """
    engine = registry.find("engine", engine)
    function = registry.get("engine", engine)
    settings = dict(config or {})
    _check_engine(engine, settings, changes)
    _check_parts(fabric, routes, flows, changes)
    _check_routes(fabric, routes, flows)

    solve = partial(function, fabric, config=settings, rng=rng)
    if flows.is_sequence:
        start, finish, group_start, period = _sequence(solve, routes, flows, changes)
    else:
        start, finish = solve(routes, flows, changes)
        group_start = np.zeros(1)
        period = np.array([finish.max(initial=0.0)])
    return Timeline(
        start,
        finish,
        routes.link_bytes(flows, fabric.n_links),
        group_start,
        period,
        flows.repeat,
        engine,
    )


def run_pattern(fabric: Fabric, pattern: str, /, *arguments: Any, **options: Any) -> Timeline:
    """Build the flows of a pattern on a fabric, route them with ECMP, and return when each of them ran.

    Three steps in one: `fabriclab.workload.build`, `fabriclab.routing.route` and `run` with the flow engine. It leaves
    out what that engine leaves out: packets and queues.

    Parameters
    ----------
    fabric : Fabric
        The network.
    pattern : str
        Name of a pattern of `fabriclab.workload` that sends over a fabric, such as ``"broadcast"``.
    *arguments, **options
        As the pattern takes them after its fabric.

    Returns
    -------
    Timeline
        Times of all flows [s] and bytes of all links [B].

    Raises
    ------
    ValueError
        If nothing has that name, or the pattern does not accept an argument.

    Examples
    --------
    >>> from fabriclab import engines, topologies
    >>> star = topologies.build("crossbar", hosts=4, rate="400 Gb/s")
    >>> chain = {"ranks": range(4), "way": "chain", "segments": 2}
    >>> engines.run_pattern(star, "broadcast", "50 GB", **chain).end  # 4 halves of a second
    2.0
    """
    flows = workload.build(pattern, fabric, *arguments, **options)
    return run(fabric, routing.route(fabric, flows), flows)


def run_step(pattern: str, /, *arguments: Any, **options: Any) -> StepRun:
    """Build a training step whose collectives take given times, run it, and measure its exposed communication.

    Each rank computes in one stream, and all communication runs in another, one message at a time. It leaves out that
    communication slows the computation beside it.

    Parameters
    ----------
    pattern : str
        Name of a step of `fabriclab.workload`: ``"data_parallel"``, ``"sharded"`` or ``"tensor_parallel"``.
    *arguments, **options
        As the pattern takes them.

    Returns
    -------
    StepRun
        Flows, streams, timeline, and the exposed time [s].

    Raises
    ------
    ValueError
        If nothing has that name, or the pattern does not accept an argument.

    Examples
    --------
    Two layers whose backward passes take 1 s each, and all-reduces of 1.5 s. The second one ends at 4 s:

    >>> from fabriclab import engines
    >>> step = engines.run_step("data_parallel", [0, 0], [1, 1], [1e6, 1e6], lambda size: 1.5e-6 * size)
    >>> step.exposed
    2.0
    """
    flows = workload.build(pattern, *arguments, **options)
    streams = workload.streams(flows)
    timeline = run(streams, routing.route(streams, flows), flows, "ideal")
    computes = workload.labelled(flows, _COMPUTES)
    exposed = workload.exposed(timeline, flows, computes, ~computes)
    return StepRun(flows, streams, workload.spans(timeline, flows), exposed)


def _check_engine(engine: str, settings: Mapping[str, Any], changes: Changes | None) -> None:
    """Refuse settings that an engine does not know, and changes if it does not support them."""
    about = registry.info("engine", engine)
    known = about.get("settings", ())
    for key in settings:
        if key not in known:
            names = ", ".join(known) or "no settings"
            raise ValueError(
                f"config has {key!r}, which engine {engine!r} does not know; it knows {names}"
            )
    if isinstance(changes, Changes) and changes.time.size and not about.get("changes", True):
        raise ValueError(
            f"engine {engine!r} takes no changes; use 'flow', or fabric.with_capacity for the whole run"
        )


def _check_parts(fabric: Fabric, routes: Routes, flows: Flows, changes: Changes | None) -> None:
    """Refuse numbers of nodes, links and flows that do not exist."""
    if changes is not None and not isinstance(changes, Changes):
        raise TypeError(
            f"changes must be a fabriclab.core.Changes (time, link, capacity), got {changes!r}"
        )
    hint = "; take the parts of one run"
    check_within(routes.link, "routes.link", 0, fabric.n_links - 1, hint)
    check_within(routes.flow, "routes.flow", 0, flows.n_flows - 1, hint)
    if changes is not None:
        check_within(changes.link, "changes.link", 0, fabric.n_links - 1, hint)
    check_within(flows.source, "flows.source", 0, fabric.n_nodes - 1, hint)
    check_within(flows.target, "flows.target", 0, fabric.n_nodes - 1, hint)


def _check_routes(fabric: Fabric, routes: Routes, flows: Flows) -> None:
    """Refuse flows that have bytes but no route, and rows among which a choice is still open."""

    def ends(f: int) -> str:
        return f"{fabric.name(int(flows.source[f]))} to {fabric.name(int(flows.target[f]))}"

    if routes.adaptive.any():
        raise ValueError(
            "routes hold adaptive rows, and no engine here chooses among rows; route by 'spray' or 'ecmp'"
        )

    # A path begins at the source of its flow and ends at the target.
    has_links = np.diff(routes.ptr) > 0  # (R,)
    path = np.flatnonzero((routes.kind == PATH) & has_links)
    owner = routes.flow[path]
    first = routes.link[routes.ptr[path]]
    last = routes.link[routes.ptr[path + 1] - 1]
    starts_elsewhere = fabric.source[first] != flows.source[owner]
    ends_elsewhere = fabric.target[last] != flows.target[owner]
    lost = starts_elsewhere | ends_elsewhere
    if lost.any():
        f = int(owner[lost][0])
        raise ValueError(
            f"flow {f}: its route does not go from {ends(f)}; route these flows on this fabric"
        )

    # The rows of a flow must carry all of its bytes: their shares add up to 1.
    moving = (flows.size > 0) & (flows.source != flows.target)  # (F,)
    share = np.bincount(routes.flow, routes.share * has_links, flows.n_flows)  # (F,)
    wrong = np.flatnonzero(moving & (np.abs(share - 1) > 1e-9))
    if wrong.size:
        f = int(wrong[0])
        msg = f"flow {f} from {ends(f)} has {flows.size[f]:g} B and routes for {share[f]:g} of them; route these flows"
        raise NoPath(msg) if share[f] == 0 else ValueError(msg)


class _Solved(NamedTuple):
    """A solved group, with times counted from the start of the group."""

    routes: Routes
    flows: Flows
    times: Times


def _sequence(
    solve: Callable[..., Times], routes: Routes, flows: Flows, changes: Changes | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return start and finish of the flows, and start and period of the groups. [s].

    Equal groups are solved once, unless capacities change during the run.
    """
    if np.any(np.diff(routes.flow) < 0):
        routes = routes.of_rows(np.argsort(routes.flow, kind="stable"))
    start = np.zeros(flows.n_flows)
    finish = np.zeros(flows.n_flows)
    group_start = np.zeros(flows.repeat.size)
    period = np.zeros(flows.repeat.size)

    solved: dict[tuple[int, int, int], list[_Solved]] = {}  # by number of flows and two checksums
    now = 0.0
    for g, repeat in enumerate(flows.repeat.tolist()):
        span = flows.of_group(g)
        group_routes, group_flows = _part(routes, flows, span)
        key = (group_flows.n_flows, crc32(group_routes.link.data), crc32(group_flows.size.data))
        candidates = solved.setdefault(key, [])
        times = _known_times(candidates, group_routes, group_flows)
        if times is None or changes is not None:
            times = solve(group_routes, group_flows, _from_now(changes, now))
            candidates.append(_Solved(group_routes, group_flows, times))

        start[span] = times[0] + now
        finish[span] = times[1] + now
        group_start[g] = now
        period[g] = times[1].max(initial=0.0)
        now += period[g] * repeat
        if repeat > 1 and changes is not None:
            _check_no_change(changes, g, repeat, float(group_start[g]), now)
    return start, finish, group_start, period


def _known_times(candidates: list[_Solved], routes: Routes, flows: Flows) -> Times | None:
    """Return the times of the first candidate that is equal in all arrays, or None."""
    for group in candidates:
        if _same(group.routes, routes) and _same(group.flows, flows):
            return group.times
    return None


def _from_now(changes: Changes | None, now: float) -> Changes | None:
    """Return the changes on a clock that starts now; past changes happen at time 0."""
    if changes is None:
        return None
    return Changes(np.maximum(changes.time - now, 0.0), changes.link, changes.capacity)


def _check_no_change(changes: Changes, g: int, repeat: int, begin: float, end: float) -> None:
    """Refuse a change between beginning and end [s] of a repeated group, because such a group is solved only once."""
    if np.any((changes.time > begin) & (changes.time < end)):
        msg = f"a change falls into group {g}, whose {repeat} repetitions from {begin:g} s to {end:g} s are "
        raise ValueError(
            msg + "solved once; write them out with flows.expanded() and route the result"
        )


def _part(routes: Routes, flows: Flows, span: slice) -> tuple[Routes, Flows]:
    """Return the routes and flows of one group as a graph of its own; ``routes`` are in the order of the flows."""
    first_row, end_row = np.searchsorted(routes.flow, [span.start, span.stop])
    row = np.arange(first_row, end_row)
    group_routes = routes.of_rows(row, flow=routes.flow[row] - span.start)

    n = span.stop - span.start
    columns: dict[str, Any] = {}
    for name in ("source", "target", "size", "start", "lag", "weight", "limit", "label"):
        columns[name] = getattr(flows, name)[span]
    columns["group"] = np.zeros(n, np.int32)
    columns["repeat"] = np.ones(1, dtype=np.int64)
    # Dependencies stay within the group, in which flows are numbered from 0.
    ptr = flows.after_ptr[span.start : span.stop + 1]
    columns["after_ptr"] = ptr - ptr[0]
    columns["after"] = flows.after[ptr[0] : ptr[-1]] - span.start
    return group_routes, flows.cut(**columns)


def _same(a: Routes | Flows, b: Routes | Flows) -> bool:
    """Return whether two values of one type are equal in all fields."""
    for field in fields(a):
        if not np.array_equal(getattr(a, field.name), getattr(b, field.name)):
            return False
    return True


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
