"""Cuts: the smallest capacity between some ranks and all others, and between two halves of the ranks (bisection)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import registry, units
from fabriclab.core import Fabric, Flags, Ints, check_within, frozen
from fabriclab.metrics.hops import AccessSwitches, access_switches, check_ranks, outside
from fabriclab.metrics.traffic import times, uniform_load

_FINE = 1000  # capacities are counted in thousandths of the smallest, as far as 32 bits reach
_MOST = 2.0**30  # all capacities together, in those units
_PATIENCE = 1000  # moves without a better cut after which a pass ends


class Bisection(NamedTuple):
    """Bounds on the smallest capacity, in one direction, of a cut with half of the ranks on each side [B/s].

    ``side`` (N,) is True for the nodes on one side of the cut that ``upper`` belongs to; it is empty if ``upper`` comes
    from a formula.
    """

    lower: float
    upper: float
    how: str
    side: Flags

    @property
    def exact(self) -> bool:
        """Whether both bounds are equal."""
        return self.lower == self.upper

    def __repr__(self) -> str:
        """Show the value, or both bounds, and where they come from."""
        value = units.format_rate(self.lower)
        if not self.exact:
            value = f"between {value} and {units.format_rate(self.upper)}"
        return f"<Bisection: {value}, {self.how}>"


def bisection(fabric: Fabric) -> Bisection:
    """Return the bisection of a fabric: the smallest capacity between two halves of its ranks, or bounds on it.

    If the number of ranks is odd, one side has one more. The bisection is exact if the topology has a closed form for
    its arguments and the fabric was not changed afterwards. Otherwise there are two bounds:

    Lower bound: if every rank can send at rate f to every other at the same time, a cut carries f for each pair that it
    separates. Cables between a host and its switch are treated separately: a cut may also separate hosts from their
    switches, at the price of their cables. The bound is about half of the bisection if there are at least as many
    cables between switches as to hosts.

    Upper bound: the best cut that is found by moving nodes one by one [1]_ [2]_. The search starts from halves along
    the second eigenvector of the Laplacian [3]_, along each coordinate, in the order of the nodes, and of hosts alone.

    Raises
    ------
    ValueError
        If there are fewer than two ranks.

    References
    ----------
    .. [1] B. W. Kernighan, S. Lin, An efficient heuristic procedure for partitioning graphs, Bell System Technical
       Journal 49(2), 1970.
    .. [2] C. M. Fiduccia, R. M. Mattheyses, A linear-time heuristic for improving network partitions, DAC 1982.
    .. [3] M. Fiedler, A property of eigenvectors of nonnegative symmetric matrices and its application to graph
       theory, Czechoslovak Mathematical Journal 25(4), 1975.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> torus = topologies.build("torus", shape=(4, 4), rate="50 GB/s")
    >>> bisection(torus)
    <Bisection: 400 GB/s, by the closed form of the family>
    >>> bisection(torus.without(cables=[0]))
    <Bisection: between 308 GB/s and 350 GB/s, by an exchange of all with all and the best cut found>
    """
    check_ranks(fabric)
    closed = _closed_form(fabric)
    if closed is not None:
        return Bisection(closed, closed, "by the closed form of the family", frozen([], np.bool_))

    side = min(_halves(fabric), key=lambda side: _capacity(fabric, side))
    lower = _from_below(fabric)
    upper = _capacity(fabric, side)
    agree = lower > upper * (1 - 1e-9)
    if agree:
        lower = upper
        how = "by an exchange of all with all and a cut that agree"
    else:
        how = "by an exchange of all with all and the best cut found"
    return Bisection(lower, upper, how, frozen(side, np.bool_))


def _closed_form(fabric: Fabric) -> float | None:
    """Return the bisection by the formula of the topology [B/s], or None if no formula applies."""
    arguments = [repr(fabric.family)]
    for name, value in fabric.asked.items():
        arguments.append(f"{name}={value!r}")
    if fabric.call != f"topologies.build({', '.join(arguments)})":  # made by hand, or changed since
        return None

    form = registry.info("topology", fabric.family).get("bisection")
    rates = np.unique(fabric.capacity[outside(fabric)])
    if not form or rates.size != 1:
        return None
    links = form(**fabric.asked)
    return None if links is None else float(links * rates[0])


def _from_below(fabric: Fabric) -> float:
    """Return a lower bound on the capacity of every cut into halves, from a uniform exchange. [B/s].

    If every rank sends 1 B to every other, the fullest link between switches takes t seconds. So a cut through links
    between switches carries the traffic of half (n - half) pairs in t. A cut through the cable of a host has the
    capacity of that cable instead.
    """
    n = fabric.n_ranks
    uniform = uniform_load(fabric, np.ones(n))
    if uniform.pairs != n * (n - 1):
        return 0.0

    access_link = access_switches(fabric).link
    down = access_link[access_link >= 0]
    to_hosts = np.concatenate([down, down ^ 1])  # links of hosts, in both directions
    uniform.load[to_hosts] = 0.0
    slowest = float(times(fabric, uniform.load).max())

    half = n // 2
    through_switches = half * (n - half) / slowest if slowest else np.inf
    through_hosts = half * fabric.capacity[to_hosts].min(initial=np.inf)
    return float(min(through_switches, through_hosts))


def _capacity(fabric: Fabric, side: Flags) -> float:
    """Return the capacity from one side to the other, in the direction with the smaller one. [B/s]."""
    starts_here = side[fabric.source]
    ends_here = side[fabric.target]
    leaving = fabric.capacity[starts_here & ~ends_here].sum()
    entering = fabric.capacity[ends_here & ~starts_here].sum()
    return float(min(leaving, entering))


def _halves(fabric: Fabric) -> Iterator[Flags]:
    """Yield cuts with half of the ranks on each side, (N,) each; True for the nodes on one side.

    The search uses a graph without the ranks that are attached to a single switch: they count as weight of that switch,
    and to separate one of them from its switch costs ``host_price``, the smallest capacity of their cables.
    """
    from scipy.sparse import csr_array

    n = fabric.n_nodes
    access = access_switches(fabric)
    hangs = access.link >= 0  # (R,)
    down = access.link[hangs]
    host_price = fabric.capacity[down].min(initial=np.inf)
    weight = np.bincount(access.node, minlength=n)  # (N,) number of ranks at each node

    capacity = fabric.capacity.copy()
    capacity[np.concatenate([down, down ^ 1])] = 0.0
    # Mean of both directions, so that the graph is symmetric.
    graph = csr_array((capacity / 2, (fabric.source, fabric.target)), shape=(n, n))
    graph = csr_array(graph + graph.T)
    graph.eliminate_zeros()

    inner = np.diff(graph.indptr) > 0
    for start in _starts(fabric, graph, weight):
        all_moved = _refined(graph, weight, host_price, start, inner | (weight > 0))
        switches_moved = _refined(graph, weight, host_price, all_moved, inner & (weight == 0))
        for side in (start, all_moved, switches_moved):
            if _balance(fabric, side, access):
                yield side


def _balance(fabric: Fabric, side: Flags, access: AccessSwitches) -> bool:
    """Assign the ranks to sides in ``side`` so that each side has half of them; return whether that was possible.

    Ranks are on the side of their switch; if a side has too many, some of its ranks change sides without their switch.
    """
    ends = fabric.endpoint
    hangs = access.link >= 0
    side[ends] = side[access.node]
    too_many = np.count_nonzero(side[ends]) - fabric.n_ranks / 2  # on the side that is True
    movable = ends[hangs & (side[ends] == (too_many > 0))]
    side[movable[: int(abs(too_many))]] ^= True
    return bool(abs(np.count_nonzero(side[ends]) - fabric.n_ranks / 2) < 1)


def _starts(fabric: Fabric, graph: Any, weight: Ints) -> Iterator[Flags]:
    """Yield cuts to start from, (N,): the first nodes in some order, until they have half of the weight."""
    from scipy.sparse.csgraph import laplacian
    from scipy.sparse.linalg import eigsh

    yield np.zeros(
        weight.size, dtype=np.bool_
    )  # `_balance` moves half of the hosts, without their switches

    keys: list[NDArray[Any]] = [np.arange(weight.size), *fabric.coord.T]
    used = np.flatnonzero(np.diff(graph.indptr))
    if used.size > 2:
        matrix = laplacian(graph[used][:, used] / graph.data.max()).tocsc()
        first = np.random.default_rng(0).random(used.size)  # arbitrary, but the same in every run
        _, vectors = eigsh(matrix, k=2, sigma=-1e-6, v0=first)
        # Eigenvalue 0 says nothing. The second least has the Fiedler vector, in which well-joined nodes are close.
        fiedler = np.zeros(weight.size)
        fiedler[used] = vectors[:, 1]
        keys.append(fiedler)

    for key in keys:
        order = np.argsort(key, kind="stable")
        side = np.zeros(weight.size, dtype=np.bool_)
        side[order] = np.cumsum(weight[order]) <= fabric.n_ranks // 2
        yield side


def _refined(graph: Any, weight: Ints, host_price: float, side: Flags, may_move: Flags) -> Flags:
    """Improve a cut by passes that move nodes to the other side; ``may_move`` tells which nodes may move.

    In a pass each node moves at most once, always the node whose move helps most, even if it makes the cut worse. The
    next pass starts from the best cut of this one; passes end when one finds nothing better.
    """
    side = side.copy()
    while True:
        sign = np.where(side, 1.0, -1.0)  # (N,)
        free = may_move.copy()
        # Gain of moving a node = its capacity to the other side - its capacity to its own side. (N,)
        gain = -sign * (graph @ sign)
        spare = int(weight @ sign)  # ranks on the True side minus ranks on the other
        cut = (graph.sum() + gain.sum()) / 4
        moved: list[int] = []
        costs = [cut + _price_of_spare(spare, host_price)]  # after each move
        while len(costs) - np.argmin(costs) <= _PATIENCE:
            # A node with ranks may move only from the side that has too many.
            may = free & ((weight == 0) | (abs(spare) <= 1) | (sign == np.sign(spare)))
            i = int(np.argmax(np.where(may, gain, -np.inf)))
            if not may[i]:
                break

            cut = cut - gain[i]
            spare = spare - 2 * int(weight[i] * sign[i])
            row = slice(graph.indptr[i], graph.indptr[i + 1])
            neighbours = graph.indices[row]
            gain[neighbours] += 2 * graph.data[row] * sign[neighbours] * sign[i]
            sign[i] = -sign[i]
            free[i] = False
            moved.append(i)
            costs.append(cut + _price_of_spare(spare, host_price))

        best = int(np.argmin(costs))
        if costs[best] >= costs[0] * (1 - 1e-12):
            return side
        side[moved[:best]] ^= True


def _price_of_spare(spare: int, host_price: float) -> float:
    """Return the capacity that is cut if ranks change sides without their switch until both sides have equally many."""
    if abs(spare) <= 1:
        return 0.0
    return host_price * (abs(spare) // 2)


def cut(fabric: Fabric, ranks: ArrayLike) -> Ints:
    """Return the minimum cut: the links with the smallest total capacity whose loss separates some ranks from the rest.

    Only the direction from ``ranks`` to the other ranks counts. Switches are on the side that makes the cut smallest.
    This is computed by maximum flow, on capacities rounded to a thousandth of the smallest capacity, or to a 2^30-th of
    their sum if that is more.

    Parameters
    ----------
    fabric : Fabric
        The network.
    ranks : array_like of int
        Ranks on one side; not none and not all.

    Returns
    -------
    (K,) int64
        Link numbers; ``fabric.capacity[links].sum()`` is the rate at which that side can send to the other.

    Raises
    ------
    ValueError
        If a rank does not exist, or one side is empty.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> cut(topologies.build("fat_tree", k=4), range(8)).size
    8
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    given = list(ranks) if isinstance(ranks, range) else ranks
    side = np.unique(frozen(given, np.int64, "ranks"))
    check_within(side, "ranks", 0, fabric.n_ranks - 1)
    if not 0 < side.size < fabric.n_ranks:
        raise ValueError(
            f"ranks must be some of {fabric.n_ranks}, not none and not all, got {side.size}"
        )
    n = fabric.n_nodes
    live = np.flatnonzero(fabric.capacity > 0)
    source = fabric.source[live]
    rates = fabric.capacity[live]
    scale = min(_FINE / rates.min(initial=np.inf), _MOST / max(rates.sum(), 1.0))
    amounts = np.rint(rates * scale)  # whole numbers that fit into 32 bits together

    # Node i has row i. A rank that forbids transit stands twice: as a sender in row i, as a receiver in row n + i.
    ends = fabric.endpoint.astype(np.int64)
    stands_twice = np.isin(np.arange(n), ends) & ~fabric.transit
    target = fabric.target[live]
    target = np.where(stands_twice[target], target + n, target).astype(np.int64)
    others = np.delete(ends, side)
    receivers = np.where(stands_twice[others], others + n, others)

    # One more node sends to all ranks of the side, and another one receives from all others, as much as they can.
    start = 2 * n
    goal = 2 * n + 1
    unlimited = np.full(fabric.n_ranks, amounts.sum() + 1)
    rows = np.concatenate([source, np.full(side.size, start), receivers])
    columns = np.concatenate([target, ends[side], np.full(others.size, goal)])
    data = np.concatenate([amounts, unlimited])
    graph = csr_array((data, (rows, columns)), shape=(goal + 1, goal + 1)).astype(np.int32)

    # The cut links lead from nodes that the sender still reaches in the residual network to nodes that it does not.
    left = graph - maximum_flow(graph, start, goal).flow
    left.data[left.data < 0] = 0
    left.eliminate_zeros()
    reached = breadth_first_order(left, start, return_predecessors=False)
    near = np.isin(np.arange(goal + 1), reached)
    return np.asarray(live[near[source] & ~near[target]])
