"""Rings that run at the same time on a fabric: what given ones reach together, and the best ones of a few ranks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import collectives, engines, metrics, routing, units
from fabriclab.core import Fabric, Flows, Result, bus_factor, rows_of
from fabriclab.lower import lower

MOST_RANKS = 8  # ranks at most: all their rings are tried, 7! of them
_OUTSIDE = ("pcie", "c2c", "socket")  # media of paths over PCIe or processors


def ring_flows(
    what: str, fabric: Fabric, orders: ArrayLike, size: float, weights: ArrayLike = 1.0
) -> Flows:
    """Return the flows of a collective on several rings at the same time.

    Parameters
    ----------
    what : str
        A collective with the algorithm ``ring``.
    fabric : Fabric
        Network of the ranks.
    orders : (rings, n) array_like
        The same endpoints in the order of each ring.
    size : float
        Size of the whole array. [B]
    weights : array_like, shape (rings,), optional
        Part of the data on each ring, in any unit; equal parts unless given.
    """
    table = np.atleast_2d(orders)
    weight = np.broadcast_to(np.asarray(weights, dtype=float), len(table))
    part_of_data = weight / weight.sum()
    plan = collectives.build(what, "ring", table.shape[1])
    parts = []
    for order, part in zip(table, part_of_data.tolist(), strict=True):
        from_lowest = np.roll(order, -np.argmin(order))
        parts.append(lower(plan, fabric, size * part, placement=from_lowest))
    source = np.concatenate([part.source for part in parts])
    target = np.concatenate([part.target for part in parts])
    moved = np.concatenate([part.size for part in parts])
    group = np.concatenate([part.group for part in parts])
    by_group = np.argsort(group, kind="stable")
    return Flows.make(
        source[by_group],
        target[by_group],
        moved[by_group],
        group=group[by_group],
        repeat=parts[0].repeat,
    )


def at_once(flows: Flows) -> Flows:
    """Return flows of several groups as one group: a full pipeline, in which all steps are busy at the same time."""
    return Flows.make(flows.source, flows.target, flows.size)


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
    flows = ring_flows(what, fabric, table, total)
    if what == "broadcast":
        flows = at_once(flows)
    timeline = engines.run(fabric, routing.route(fabric, flows, "spray"), flows)
    return bus_factor(what, table.shape[1]) * total / timeline.end


def links_of_rings(fabric: Fabric, orders: ArrayLike) -> tuple[tuple[str, ...], ...]:
    """Return the names of the links that each ring crosses, such as ``"draco 0 -> root 0"``.

    A ring goes from each rank to the next one and from the last one to the first, over a shortest path; where there are
    several, the links of all of them are named. Links of the medium ``xgmi`` are left out: two GPUs of one box have
    them to themselves.

    Parameters
    ----------
    fabric : Fabric
        Network of the ranks.
    orders : (rings, n) array_like
        The ranks in the order of each ring.
    """
    table = np.atleast_2d(orders)
    between_gpus = np.array(fabric.media)[fabric.medium] == "xgmi"  # (L,)
    crossed = []
    for order in table:
        source = fabric.endpoint[order]
        hops = Flows.make(source, np.roll(source, -1), 1.0)
        used = routing.route(fabric, hops, "spray").link_bytes(hops, fabric.n_links) > 0
        names = [fabric.link_name(int(link)) for link in np.flatnonzero(used & ~between_gpus)]
        crossed.append(tuple(names))
    return tuple(crossed)


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
    whole = rank.ndim == 1 and rank.dtype.kind in "iu" and 2 <= n <= MOST_RANKS
    if not whole or np.unique(rank).size < n or rank.min() < 0 or rank.max() >= fabric.n_ranks:
        raise ValueError(
            f"ranks must be 2 to {MOST_RANKS} different ones in 0..{fabric.n_ranks - 1}, got {rank!r:.60}"
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


def growth(fabric: Fabric, most: int = MOST_RANKS, size: units.Quantity = "4 GiB") -> list[Result]:
    """Return what the best rings reach over the first 2, 3, ... ranks of a fabric, as predicted all-reduces.

    ``fl.views.sweep({"mesh": growth(mesh)}, x="ranks", y="busbw")`` draws how a server rewards each further GPU.
    Leaves out what `best_rings` leaves out: a library need not find these rings, and they have no latency.

    Parameters
    ----------
    fabric : Fabric
        A server.
    most : int
        Ranks of the last result. 2..8
    size : float or str
        Size of the arrays; the bus bandwidth is the same for all. [B], > 0

    Returns
    -------
    list of Result
        One for each number of ranks, 2 first.

    Raises
    ------
    TypeError, ValueError
        If ``most`` is no whole number from 2 to 8, or the fabric has fewer ranks.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> [round(run.busbw[0] / 1e9) for run in growth(topologies.build("mi300x"), 4)]
    [64, 128, 192]
    """
    last = units.count(most, "most", 2, MOST_RANKS)
    runs = []
    for n in range(2, last + 1):
        rate = best_rings(fabric, range(n)).rate
        runs.append(Result.of_busbw("all_reduce", rate, n, size))
    return runs


@dataclass(frozen=True)
class WiringRates:
    """What a pair, a pairing, all GPUs and two halves of a server get from its wiring.

    Parameters
    ----------
    pair : float
        Bus bandwidth of rank 0 with the partner with which it reaches least. [B/s]
    pairings : float
        Rate of each rank if all are paired at random, in the worst pairing that was drawn. [B/s]
    rings : float
        Bus bandwidth of the best rings over all ranks. [B/s]
    halves : float
        Capacity between two halves where it is smallest, both directions added, without what crosses processors.
        [B/s]
    worst : Rings
        The rings of that pair.
    """

    pair: float
    pairings: float
    rings: float
    halves: float
    worst: Rings


def wiring_rates(fabric: Fabric, pairings: int = 20, seed: int = 0) -> WiringRates:
    """Return four numbers that tell wirings of a server apart: for a pair, for random pairings, for rings, for halves.

    Rings hide the difference between a mesh and switch chips, and a pair shows it.

    Parameters
    ----------
    fabric : Fabric
        A server with 2 to 8 ranks.
    pairings : int
        How many random pairings are tried; in each of them every rank sends to a partner and receives from one. >= 1
    seed : int
        Draws the pairings.

    Raises
    ------
    TypeError, ValueError
        If ``pairings`` is no whole number from 1 on, or the fabric has more ranks than 8.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> rates = wiring_rates(topologies.build("dgx_h100"))
    >>> [round(rate / 1e9) for rate in (rates.pair, rates.pairings, rates.rings, rates.halves)]
    [450, 450, 450, 3600]
    """
    drawn = units.count(pairings, "pairings", 1)
    n = fabric.n_ranks
    orders = np.random.default_rng(seed).permuted([range(n)] * drawn, axis=1)
    at_once_rates = []
    for order in orders:
        flows = Flows.make(fabric.endpoint[order], fabric.endpoint[order[::-1]], 1.0)
        at_once_rates.append(metrics.throughput(fabric, flows).part)
    pairs = [best_rings(fabric, [0, other]) for other in range(1, n)]
    worst = min(pairs, key=lambda rings: rings.rate)
    without_processors = fabric.without(nodes=np.flatnonzero(fabric.tier > 1))
    return WiringRates(
        pair=worst.rate,
        pairings=min(at_once_rates),
        rings=best_rings(fabric).rate,
        halves=2 * metrics.bisection(without_processors).upper,
        worst=worst,
    )
