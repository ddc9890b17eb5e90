"""Time a collective on a fabric: build, lower, route and run it in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import collectives, engines, registry, routing, units
from fabriclab.core import (
    Changes,
    Fabric,
    Flows,
    Result,
    Routes,
    Schedule,
    Timeline,
    bus_factor,
    column,
    rows_of,
)
from fabriclab.lower import lower

__all__ = [
    "Rings",
    "Simulation",
    "best_rings",
    "ring_busbw",
    "simulate",
    "sweep",
]

_MOST = 8  # ranks at most: all their rings are tried, 7! of them
_OUTSIDE = ("pcie", "c2c", "socket")  # media of paths over PCIe or processors


@dataclass(frozen=True, eq=False)
class Simulation:
    """A collective that was run on a fabric, with everything that its time was computed from."""

    schedule: Schedule
    fabric: Fabric
    flows: Flows
    routes: Routes
    timeline: Timeline
    result: Result

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
        return f"<Simulation {s.collective} {s.algorithm}, {s.n_ranks} ranks: {units.format_time(self.time)}>"


def simulate(
    collective: str,
    algorithm: str,
    fabric: Fabric,
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
) -> Simulation:
    """Run a collective on a fabric and return its time, its traffic on each link and its lower bounds.

    The flow engine shares links fairly between flows; it has no packets, queues or congestion control.

    Parameters
    ----------
    collective, algorithm : str
        Names that `fabriclab.collectives.build` knows, such as ``"all_reduce"`` and ``"ring"``.
    fabric : Fabric
        Network on which the collective runs.
    size : float or str
        Size of the whole array, as nccl-tests counts it. [B], >= 0
    placement : array_like, shape (n,) or (G, n), optional
        Endpoint of each rank, or of each rank of G groups that run at the same time; all endpoints in order unless
        given.
    root, segments, pipelined, options
        As in `fabriclab.collectives.build`; options of the algorithm as a mapping, such as ``{"per_server": 8}``.
    method, subflows, seed
        As in `fabriclab.routing.route`.
    engine, changes
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
    place = np.arange(fabric.n_ranks) if placement is None else column(placement, "placement")
    if np.isscalar(placement) or place.ndim > 2 or not place.size:
        raise ValueError(
            f"placement must be a row of endpoints, or one such row for each group, got {placement!r}"
        )
    n = place.shape[-1]
    more = dict(options or {})
    drawn = {"subflows": subflows, "seed": seed}
    cut: dict[str, Any] = {"root": root, "segments": segments, "pipelined": pipelined}
    costs: dict[str, Any] = {"lag": lag, "gamma": gamma, "expand": expand, "switches": switches}
    method = registry.find("routing", method)
    plan = collectives.build(collective, algorithm, n, **cut, **more)
    flows = lower(plan, fabric, size, placement=place, **costs)
    routes = routing.route(fabric, flows, method, **drawn)
    timeline = engines.run(fabric, routes, flows, engine=engine, changes=changes)
    asked = {
        "algorithm": collectives.find(collective, algorithm).algorithm,
        "fabric": repr(fabric),
        "routing": method,
        "engine": timeline.engine,
        **drawn,
        **cut,
        **costs,
        "groups": place.size // n,
        "changes": repr(changes),
        "options": more,
    }
    sizes = np.array([units.size(size)])
    times = np.array([timeline.end])
    how = f"{timeline.engine} engine on {fabric!r}"
    result = Result(plan.collective, "predicted", sizes, times, n, asked=asked, how=how)
    return Simulation(plan, fabric, flows, routes, timeline, result)


def sweep(
    collective: str, algorithm: str, fabric: Fabric, sizes: Sequence[units.Quantity], **options: Any
) -> Result:
    """Run a collective with several sizes on the same routes and return its time for each size.

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
    of_lower = ("placement", "lag", "gamma", "expand", "switches")
    lower_options = {name: options[name] for name in of_lower if name in options}
    run_options = {name: options[name] for name in ("engine", "changes") if name in options}

    times = [first.time]
    for size in sizes[1:]:
        flows = lower(first.schedule, fabric, size, **lower_options)
        timeline = engines.run(fabric, first.routes, flows, **run_options)
        times.append(timeline.end)
    all_sizes = np.array([units.size(size) for size in sizes])
    return replace(first.result, size=all_sizes, time=np.array(times))


def ring_busbw(
    what: str, fabric: Fabric, orders: ArrayLike, size: units.Quantity = 2.0**30
) -> float:
    """Return the bus bandwidth of a collective that runs on several rings at the same time [B/s].

    Each ring carries an equal part of the data. Between two ranks the data takes all shortest paths, as a GPU uses all
    its switch chips (routing "spray").

    Parameters
    ----------
    what : str
        A collective with the algorithm ``ring``. A broadcast is taken as a full pipeline, in which all hops are busy
        at the same time.
    fabric : Fabric
        Network of the ranks; its links carry no other traffic.
    orders : array_like, shape (n,) or (rings, n)
        The same ranks of the fabric in the order of each ring.
    size : float or str
        Size of the whole array. [B], > 0

    Raises
    ------
    ValueError
        If a ring has fewer than 2 ranks, the size is 0, or `lower` cannot place an order.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> mesh = topologies.build("mi300x")
    >>> [round(ring_busbw("all_reduce", mesh, x) / 1e9) for x in ([0, 1], [range(8), range(7, -1, -1)])]
    [64, 128]
    """
    table = np.atleast_2d(orders)
    total = units.size(size)
    if table.ndim != 2 or table.shape[1] < 2 or not total:
        raise ValueError(
            f"orders must be rings of 2 or more ranks and size above 0 B, got {table.shape} and {size!r}"
        )
    n = table.shape[1]
    plan = collectives.build(what, "ring", n)
    parts = []
    for order in table:
        from_lowest = np.roll(order, -np.argmin(order))
        parts.append(lower(plan, fabric, total / len(table), placement=from_lowest))
    source = np.concatenate([part.source for part in parts])
    target = np.concatenate([part.target for part in parts])
    moved = np.concatenate([part.size for part in parts])
    group = np.concatenate([part.group for part in parts])

    by_group = np.argsort(group, kind="stable")
    repeat = parts[0].repeat
    if what == "broadcast":  # a full pipeline: all hops at once
        group = np.zeros_like(group)
        repeat = np.ones(1, dtype=np.int64)
    flows = Flows.make(
        source[by_group], target[by_group], moved[by_group], group=group[by_group], repeat=repeat
    )
    timeline = engines.run(fabric, routing.route(fabric, flows, "spray"), flows)
    return bus_factor(what, n) * total / timeline.end


@dataclass(frozen=True, eq=False)
class Rings:
    """K rings that run at the same time: the bandwidth of all together, and the rate of each.

    Parameters
    ----------
    rate : float
        Bus bandwidth of an all-reduce, all-gather or reduce-scatter on them. [B/s]
    orders : (K, n) int64
        Ranks in the order of each ring.
    rates : (K,) float64
        Rate on the links of each ring. [B/s]
    load : (L,) float64
        Load of each link of the fabric, as a fraction of its capacity.
    outside : bool
        Whether the rings cross PCIe or processors.
    """

    rate: float
    orders: NDArray[np.int64]
    rates: NDArray[np.float64]
    load: NDArray[np.float64]
    outside: bool

    def __repr__(self) -> str:
        """Show the number of rings and their bandwidth together."""
        return f"<Rings: {self.rates.size} over {self.orders.shape[1]} ranks, {units.format_rate(self.rate)} together>"


def best_rings(fabric: Fabric, ranks: ArrayLike | None = None) -> Rings:
    """Return the rings over some ranks with the highest bandwidth together, an upper bound for every ring algorithm.

    A linear program decides how much each of all possible rings carries. Each pair of ranks uses its shortest paths
    (routing "spray"). As communication libraries do [1]_, rings cross PCIe and processors only if no ring avoids them.

    Parameters
    ----------
    fabric : Fabric
        Network of the ranks. Links of capacity 0 are avoided.
    ranks : array_like of int, shape (n,), optional
        2 to 8 ranks of the fabric; all unless given.

    Returns
    -------
    Rings
        The rings that carry anything, with the rate of each.

    Raises
    ------
    ValueError
        If ``ranks`` are not 2 to 8 different ranks of the fabric.
    NoPath
        If two of the ranks have no path.

    References
    ----------
    .. [1] NVIDIA/nccl, issue 301, 2020.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> [round(best_rings(topologies.build("dgx1v"), range(n)).rate / 1e9) for n in (4, 5, 8)]
    [100, 12, 150]
    """
    from scipy.optimize import linprog

    rank = np.arange(fabric.n_ranks) if ranks is None else np.asarray(ranks)
    n = rank.size
    whole = rank.ndim == 1 and rank.dtype.kind in "iu" and 2 <= n <= _MOST
    if not whole or np.unique(rank).size < n or rank.min() < 0 or rank.max() >= fabric.n_ranks:
        raise ValueError(
            f"ranks must be 2 to {_MOST} different ones in 0..{fabric.n_ranks - 1}, got {rank!r:.60}"
        )
    use, outside = _pair_use(fabric, rank)
    orders = np.array([(0, *rest) for rest in permutations(range(1, n))])  # (rings, n)
    takes_outside = np.any(outside[orders, np.roll(orders, -1, axis=1)], axis=1)
    all_outside = bool(takes_outside.all())
    if not all_outside:
        orders = orders[~takes_outside]

    # Time that each link needs for a byte on every hop of a ring: the sum over its hops of use / capacity.
    hops = [use[orders[:, k - 1], orders[:, k]] for k in range(n)]
    load = np.sum(hops, axis=0) / np.maximum(fabric.capacity, 1.0)  # (rings, L)
    # rings that put the same load on all links count once
    load, first = np.unique(load, axis=0, return_index=True)

    # The most data on all rings together, with no link over its capacity.
    on = load.any(axis=0)
    scale = load.max()  # so that the solver sees numbers near 1
    solved = linprog(-np.ones(first.size), A_ub=load[:, on].T / scale, b_ub=np.ones(on.sum()))
    rates = solved.x / scale  # [B/s] of each ring
    kept = np.flatnonzero(rates > 1e-9 * rates.sum())
    return Rings(
        rate=float(rates.sum()),
        orders=rank[orders[first[kept]]],
        rates=rates[kept],
        load=rates @ load,
        outside=all_outside,
    )


def _pair_use(
    fabric: Fabric, rank: NDArray[np.integer]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return how much of each link a flow between two ranks uses, (n, n, L), and whether it crosses PCIe or a CPU."""
    n = rank.size
    one, other = np.nonzero(~np.eye(n, dtype=np.bool_))
    flows = Flows.make(fabric.endpoint[rank[one]], fabric.endpoint[rank[other]], 1.0)
    routes = routing.route(fabric, flows, "spray")
    pair = routes.flow[rows_of(routes.ptr)]  # pair of ranks of each link of a route
    use = np.zeros((n, n, fabric.n_links))
    np.add.at(use, (one[pair], other[pair], routes.link), routes.use)

    is_outside = np.isin(np.array(fabric.media)[fabric.medium], _OUTSIDE)  # (L,)
    return use, np.any(use, axis=-1, where=is_outside)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
