"""Time a collective on a fabric: build, lower, route and run it in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import collectives, engines, registry, routing, tuner, units
from fabriclab.core import (
    Changes,
    Fabric,
    Flows,
    Ints,
    Result,
    Routes,
    Schedule,
    Timeline,
    available_memory,
    check_memory,
    column,
    rows_of,
)
from fabriclab.lower import lower
from fabriclab.simulation.library import (
    FLOW_BYTES,
    IN_NETWORK,
    LIBRARY,
    Cluster,
    Setup,
    as_chosen,
    comparison,
    in_network,
    outside_what_is_known,
    server_switches,
)
from fabriclab.simulation.rings import (
    Rings,
    WiringRates,
    best_rings,
    growth,
    links_of_rings,
    ring_busbw,
    wiring_rates,
)

__all__ = [
    "Rings",
    "Simulation",
    "WiringRates",
    "best_rings",
    "growth",
    "links_of_rings",
    "ring_busbw",
    "simulate",
    "sweep",
    "wiring_rates",
]


@dataclass(frozen=True, eq=False)
class Simulation:
    """A collective that was run on a fabric, with everything that its time was computed from."""

    schedule: Schedule
    fabric: Fabric
    flows: Flows
    routes: Routes
    timeline: Timeline
    result: Result
    notes: tuple[str, ...] = ()  # what to know before its time is held against a measurement

    @property
    def time(self) -> float:
        """Time until the last byte has arrived [s]."""
        return self.timeline.end

    def sharers(self) -> NDArray[np.int64]:
        """Return for each link the largest number of routes that share it within one step, (L,).

        Raises
        ------
        ValueError
            If the run was expanded (``expand=True``), because it then has no common steps.
        """
        if self.flows.after.size:
            raise ValueError(
                "sharers counts the routes of a step, and this run was expanded; run it with expand=False"
            )
        n_links = self.fabric.n_links
        flow = self.routes.flow[rows_of(self.routes.ptr)]  # flow of each link of a route
        step = self.flows.group.astype(np.int64)[flow]
        step_and_link, count = np.unique(step * n_links + self.routes.link, return_counts=True)
        most = np.zeros(n_links, dtype=np.int64)
        np.maximum.at(most, step_and_link % n_links, count)
        return most

    def bounds(self, **machine: Any) -> tuple[collectives.Bound, ...]:
        """Return the lower bounds of this run, on a machine whose switches can do what its algorithm needs.

        Parameters
        ----------
        **machine
            Further arguments of `fabriclab.collectives.bounds`, such as ``port_rate`` and ``cuts``.
        """
        s = self.schedule
        who = registry.info("collective", f"{s.collective}.{s.algorithm}")["machine"]
        return collectives.bounds(
            s.collective, s.n_ranks, float(self.result.size[0]), machine=who, **machine
        )

    def __repr__(self) -> str:
        """Show what ran and how long it took."""
        s = self.schedule
        title = f"Simulation {s.collective} {s.algorithm}, {s.n_ranks} ranks: {units.format_time(self.time)}"
        return f"<{'; '.join([title, *self.notes])}>"


def simulate(
    collective: str,
    algorithm: str,
    fabric: Fabric | Cluster,
    size: units.Quantity,
    *,
    placement: ArrayLike | None = None,
    root: int = 0,
    segments: int = 1,
    pipelined: bool = False,
    method: str = "ecmp",
    subflows: int = 1,
    seed: int = 0,
    engine: str = "flow",
    lag: units.Quantity = 0.0,
    gamma: float = 0.0,
    expand: bool = False,
    switches: ArrayLike | None = None,
    changes: Changes | None = None,
    options: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Simulation:
    """Run a collective on a fabric and return its time, its traffic on each link and its lower bounds.

    The flow engine shares links fairly between flows; it has no packets, queues or congestion control.

    Parameters
    ----------
    collective, algorithm : str
        Names that `fabriclab.collectives.build` knows, such as ``"all_reduce"`` and ``"ring"``. The algorithm
        ``"nccl"`` runs what the library would choose on a system.
    fabric : Fabric or system
        Network on which the collective runs. On a system, ``"nvls_sharp"`` and ``"collnet"`` find their switches by
        themselves, and run in chunks at the rates that the library reaches, as ``"nccl"`` does.
    size : float or str
        Size of the whole array, as nccl-tests counts it. [B], >= 0
    placement : array_like, shape (n,) or (G, n), optional
        Endpoint of each rank, or of each rank of G groups that run at the same time; all endpoints in order unless
        given.
    root, segments, pipelined, options
        As in `fabriclab.collectives.build`; options of the algorithm as a mapping, such as ``{"per_server": 8}``. Of
        ``"nccl"``: ``{"algorithm": "Tree"}`` forces one of its algorithms.
    method, subflows, seed
        As in `fabriclab.routing.route`.
    engine, changes, config
        As in `fabriclab.engines.run`.
    lag, gamma, expand, switches
        As in `fabriclab.lower.lower`.

    Returns
    -------
    Simulation
        The run. Its ``time`` is the time of the slowest group.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> star = topologies.build("crossbar", hosts=4, rate="400 Gb/s")
    >>> round(simulate("all_reduce", "ring", star, "50 GB").time, 6)
    1.5
    """
    given = {
        "placement": placement is not None,
        "root": root != 0,
        "segments": segments != 1,
        "pipelined": pipelined,
        "method": method != "ecmp",
        "subflows": subflows != 1,
        "lag": lag != 0,
        "gamma": gamma != 0,
        "expand": expand,
        "switches": switches is not None,
        "changes": changes is not None,
        "config": bool(config),
    }
    if isinstance(algorithm, str) and algorithm.lower() == LIBRARY:
        _refuse_given(algorithm, given)
        asked_for = dict(options or {})
        forced = asked_for.pop("algorithm", "")
        if asked_for:
            raise TypeError(
                f"algorithm {LIBRARY!r} has the option algorithm alone, got {', '.join(asked_for)}"
            )
        n_bytes = units.size(size, may_be_zero=False)
        setup = as_chosen(collective, fabric, n_bytes, forced)
        return _as_library(collective, LIBRARY, setup, n_bytes, engine=engine, seed=seed)
    by_switches = _in_network_name(collective, algorithm)
    if by_switches and switches is None:
        if isinstance(fabric, Fabric) or placement is not None or options:
            raise ValueError(_needs_switches(by_switches))
        _refuse_given(by_switches, given)
        n_bytes = units.size(size, may_be_zero=False)
        setup = in_network(by_switches, fabric, n_bytes)
        return _as_library(collective, by_switches, setup, n_bytes, engine=engine, seed=seed)
    network = fabric if isinstance(fabric, Fabric) else _fabric_of(fabric)
    place = np.arange(network.n_ranks) if placement is None else column(placement, "placement")
    if np.isscalar(placement) or place.ndim > 2 or not place.size:
        raise ValueError(
            f"placement must be a row of endpoints, or one such row for each group, got {placement!r}"
        )
    n = place.shape[-1]
    more = dict(options or {})
    if switches is None and not isinstance(fabric, Fabric):
        switches = _nvls_switches(collective, algorithm, fabric, more)
    drawn = {"subflows": subflows, "seed": seed}
    cut: dict[str, Any] = {"root": root, "segments": segments, "pipelined": pipelined}
    costs: dict[str, Any] = {"lag": lag, "gamma": gamma, "expand": expand, "switches": switches}
    method = registry.find("routing", method)
    plan = collectives.build(collective, algorithm, n, **cut, **more)
    flows = lower(plan, network, size, placement=place, **costs)
    _check_room(flows, place.size)
    routes = routing.route(network, flows, method, **drawn)
    timeline = engines.run(network, routes, flows, engine=engine, changes=changes, config=config)
    asked = {
        "algorithm": collectives.find(collective, algorithm).algorithm,
        "fabric": repr(network),
        "routing": method,
        "engine": timeline.engine,
        **drawn,
        **cut,
        **costs,
        "groups": place.size // n,
        "changes": repr(changes),
        "options": more,
        "config": dict(config or {}),
    }
    sizes = np.array([units.size(size)])
    times = np.array([timeline.end])
    how = f"{timeline.engine} engine on {network!r}"
    result = Result(plan.collective, "predicted", sizes, times, n, asked=asked, how=how)
    notes = _idle_nics(network, timeline, place)
    if not isinstance(fabric, Fabric):
        notes += (
            "without the start-up, channels and chunks of a library, which algorithm 'nccl' has",
        )
    run = Simulation(plan, network, flows, routes, timeline, result)
    return replace(run, notes=(*notes, *_shared(run))) if notes else run


def _refuse_given(algorithm: str, given: Mapping[str, bool]) -> None:
    """Refuse arguments that a run at the library's rates has no use for, if they are given."""
    wrong = [name for name, is_given in given.items() if is_given]
    if wrong:
        raise TypeError(
            f"{algorithm} on a system runs as the library would, so it takes no {', '.join(wrong)}; of a failure "
            "fabriclab.what_if tells, and another algorithm takes all arguments"
        )


def _check_room(flows: Flows, ranks: int) -> None:
    """Refuse a run whose routes do not fit into memory, and say for how many ranks they would."""
    needed = flows.n_flows * FLOW_BYTES
    part = min(available_memory() / needed, 1.0) if needed else 1.0
    each_with_each = flows.n_flows > ranks * ranks / 2  # flows grow with the square of the ranks
    most = ranks * (np.sqrt(part) if each_with_each else part)
    check_memory(
        needed,
        f"{flows.n_flows:,} flows between {ranks:,} ranks",
        f"{int(most):,} ranks fit",
    )


def _fabric_of(cluster: Any) -> Fabric:
    """Return the fabric of a system, or refuse anything else."""
    network = getattr(cluster, "fabric", None)
    if not isinstance(network, Fabric):
        raise TypeError(
            f"fabric must be a Fabric or a system, got {cluster!r:.80}; make one with topologies.build(...) or "
            "fabriclab.system(...)"
        )
    return network


def _idle_nics(fabric: Fabric, timeline: Timeline, place: Ints) -> tuple[str, ...]:
    """Say how many NICs of the servers that take part carry nothing, if there are any."""
    if "nic" not in fabric.kinds or "server" not in fabric.coord_names:
        return ()
    nic = fabric.nodes("nic")
    of_run = np.isin(fabric.coordinate("server")[nic], fabric.server[place.ravel()])
    nic = nic[of_run & fabric.transit[nic]]
    if not nic.size or np.unique(fabric.server[place.ravel()]).size < 2:
        return ()
    carries = np.zeros(fabric.n_nodes, dtype=bool)
    used = np.flatnonzero(timeline.link_bytes)
    carries[fabric.source[used]] = True
    carries[fabric.target[used]] = True
    busy = int(np.count_nonzero(carries[nic]))
    if busy in (0, nic.size):  # without any, all ranks are in one scale-up domain
        return ()
    return (
        f"{busy} of {nic.size} NICs busy, where a library uses all: take algorithm {LIBRARY!r} on a system",
    )


def _shared(run: Simulation) -> tuple[str, ...]:
    """Say how many routes share a cable between servers, if several do and the run has common steps."""
    if run.flows.after.size:
        return ()
    between = run.fabric.transit[run.fabric.source] & run.fabric.transit[run.fabric.target]
    most = int(run.sharers()[between].max(initial=0))
    if most < 2:
        return ()
    return (
        f"up to {most} routes of a step share a cable, as the routing placed them: see the argument method",
    )


def _nvls_switches(
    collective: str, algorithm: str, cluster: Any, options: dict[str, Any]
) -> Ints | None:
    """Return the NVLink switches of a system's servers for NVLS over all of them, and set its option; else None."""
    if collectives.find(collective, algorithm).algorithm != "nvls_tree":
        return None
    facts = tuner.read({**cluster, "collective": collective})
    options.setdefault("per_server", facts.local)
    return server_switches(cluster.fabric, facts)


def _in_network_name(collective: str, algorithm: str) -> str:
    """Return the registered name of an algorithm with a switch for each rail that adds; empty for any other."""
    if not isinstance(collective, str) or not isinstance(algorithm, str):
        return ""
    name = collectives.find(collective, algorithm).algorithm
    return name if name in IN_NETWORK else ""


def _needs_switches(algorithm: str) -> str:
    """Return which switches an algorithm needs on a fabric, in words."""
    nodes = "the leaf of each rail"
    example = "fabric.nodes('leaf')"
    if algorithm == "nvls_sharp":
        nodes = f"the NVLink node of each server, then {nodes}"
        example = f"np.concatenate([fabric.nodes('nvlink'), {example}])"
    return (
        f"{algorithm} needs the nodes of the switches that add: {nodes}, such as switches={example} on servers in "
        "rails with one leaf each; a system without placement and options finds them by itself, see fabriclab.system"
    )


def _as_library(
    collective: str, algorithm: str, setup: Setup, n_bytes: float, *, engine: str, seed: int
) -> Simulation:
    """Run a collective as the library sets it up; see `simulate`."""
    flows = setup.flows
    _check_room(flows, setup.schedule.n_ranks)
    routes = routing.route(setup.fabric, flows, setup.method, seed=seed)
    timeline = engines.run(setup.fabric, routes, flows, engine=engine)
    notes = list(setup.notes)
    # Before a pipeline is full its first chunk passes each stage, which takes the start-up at least.
    filling = timeline.end * setup.filling / n_bytes  # [s]
    wait = max(setup.startup, filling)
    what = "start-up" if setup.startup >= filling else "for its pipeline to fill"
    said = [f"{units.format_time(wait)} {what}"]
    slower = setup.protocol - timeline.end  # [s]
    if slower > 0:
        wait += slower
        said.append(
            f"{units.format_time(setup.protocol)} for data, as its protocol is slower than the links"
        )
    if wait > 0:
        steps = max(1, int(flows.repeat.sum()))  # a ring waits a little in each
        flows = replace(flows, lag=np.full(flows.n_flows, wait / steps))
        timeline = engines.run(setup.fabric, routes, flows, engine=engine)
        notes += said
    if setup.estimate is None:
        unknown = outside_what_is_known(setup.startup, timeline.end)
        if unknown and setup.startup:
            raise ValueError(
                f"{algorithm} of {units.format_size(n_bytes)} is {unknown}; take a larger array, or see "
                "innetwork.compare.for_servers"
            )
    if engine == "flow":  # another one leaves out what only the fabric shows
        notes += comparison(setup, timeline)

    asked = {
        "algorithm": algorithm,
        "fabric": repr(setup.fabric),
        "routing": setup.method,
        "engine": engine,
        "seed": seed,
    }
    if setup.estimate:
        asked["chosen"] = f"{setup.estimate.algorithm}/{setup.estimate.protocol}"
    result = Result(
        collective,
        "predicted",
        np.array([n_bytes]),
        np.array([timeline.end]),
        setup.schedule.n_ranks,
        asked=asked,
        how=f"{engine} engine on {setup.fabric!r:.200}, {'; '.join(notes)}",
    )
    return Simulation(
        setup.schedule, setup.fabric, flows, routes, timeline, result, notes=tuple(notes)
    )


def sweep(
    collective: str,
    algorithm: str,
    fabric: Fabric | Cluster,
    sizes: Sequence[units.Quantity],
    **options: Any,
) -> Result:
    """Run a collective with several sizes and return its time for each; on a fabric, all sizes take the same routes.

    Parameters
    ----------
    collective, algorithm, fabric, **options
        As in `simulate`.
    sizes : sequence of float or str
        Sizes of the whole array, as nccl-tests counts them. [B], >= 0

    Returns
    -------
    Result
        One time per size. [s]

    Raises
    ------
    ValueError
        If there is no size, or `simulate` refuses an argument.
    """
    if isinstance(sizes, str) or np.ndim(sizes) != 1 or not len(sizes):
        raise ValueError(
            f'sizes must be a list of at least one size, such as ["1 MiB", "1 GiB"], got {sizes!r}'
        )
    first = simulate(collective, algorithm, fabric, sizes[0], **options)
    all_sizes = np.array([units.size(size) for size in sizes])
    if not isinstance(fabric, Fabric):  # on a system, algorithm and rates depend on the size
        others = [simulate(collective, algorithm, fabric, size, **options) for size in sizes[1:]]
        runs = [first, *others]
        times = [run.time for run in runs]
        asked = dict(first.result.asked)
        if "chosen" in asked:
            asked["chosen"] = [run.result.asked["chosen"] for run in runs]
        return replace(first.result, size=all_sizes, time=np.array(times), asked=asked)

    of_lower = ("placement", "lag", "gamma", "expand", "switches")
    lower_options = {name: options[name] for name in of_lower if name in options}
    run_options = {name: options[name] for name in ("engine", "changes") if name in options}

    times = [first.time]
    for size in sizes[1:]:
        flows = lower(first.schedule, fabric, size, **lower_options)
        timeline = engines.run(fabric, first.routes, flows, **run_options)
        times.append(timeline.end)
    return replace(first.result, size=all_sizes, time=np.array(times))


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
