"""Cuts: the least that parts some ranks from all others, and the least between two halves of the ranks (bisection)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import registry, units
from fabriclab.core import Fabric, Flags, Ints, check_within, frozen
from fabriclab.metrics.hops import check_ranks, doors, outside
from fabriclab.metrics.traffic import times, uniform_load

_FINE = 1000  # capacities are counted in thousandths of the smallest, as far as 32 bits reach
_MOST = 2.0**30
_PATIENCE = 1000  # moves without a better cut before a pass ends


class Bisection(NamedTuple):
    """The least capacity, one way, of a cut with half of the ranks on each side: bounds [B/s], and where they are from.

    ``side`` (N,) has the nodes on one side of the cut with ``upper``; it is empty where that is from a formula.
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
        """Show the value, or both bounds, and where they are from."""
        low, high = units.format_rate(self.lower), units.format_rate(self.upper)
        return f"<Bisection: {low if self.exact else f'between {low} and {high}'}, {self.how}>"


def bisection(fabric: Fabric) -> Bisection:
    """Return the bisection of a fabric, or two bounds of it; of an odd number of ranks one side has one more.

    It is exact where the family has a closed form for the arguments, and nothing was changed since. Elsewhere:

    From below: if every rank can send f to every other at once, a cut carries f for each of the pairs that it parts.
    Cables that join a host to its switch count apart: a cut may as well part hosts from their switches, at the price
    of the cables. That is about half of the truth where the cables between switches are no fewer than those of hosts.

    From above: the best cut that is found by moving nodes, one by one [1]_ [2]_, from halves along the second
    eigenvector of the Laplacian [3]_, along each coordinate, in the order of the nodes, and of hosts alone.

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
    lower, upper = _from_below(fabric), _capacity(fabric, side)
    met = lower > upper * (1 - 1e-9)
    how = (
        f"by an exchange of all with all and {'a cut that agree' if met else 'the best cut found'}"
    )
    return Bisection(upper if met else lower, upper, how, frozen(side, np.bool_))


def _closed_form(fabric: Fabric) -> float | None:
    asked = ", ".join([repr(fabric.family), *(f"{k}={v!r}" for k, v in fabric.asked.items())])
    if fabric.call != f"topologies.build({asked})":  # made by hand, or changed since
        return None
    form, rates = (
        registry.info("topology", fabric.family).get("bisection"),
        np.unique(fabric.capacity[outside(fabric)]),
    )
    links = form(**fabric.asked) if form and rates.size == 1 else None
    return None if links is None else float(links * rates[0])


def _from_below(fabric: Fabric) -> float:
    """Return what every cut has at least, from a uniform exchange. [B/s]."""
    n, (_, last) = fabric.n_ranks, doors(fabric)
    load, met = uniform_load(fabric, np.ones(n))
    hung, half = np.concatenate([last[last >= 0], last[last >= 0] ^ 1]), n // 2
    load[hung] = 0.0
    slowest = float(times(fabric, load).max())
    between = half * (n - half) / slowest if slowest else np.inf
    return (
        float(min(between, half * fabric.capacity[hung].min(initial=np.inf)))
        if met == n * (n - 1)
        else 0.0
    )


def _capacity(fabric: Fabric, side: Flags) -> float:
    """Return the capacity from one side to the other, in the direction that has less. [B/s]."""
    ahead, behind = side[fabric.source], side[fabric.target]
    return float(
        min(fabric.capacity[ahead & ~behind].sum(), fabric.capacity[behind & ~ahead].sum())
    )


def _halves(fabric: Fabric) -> Iterator[Flags]:
    """Yield cuts with half of the ranks on each side, (N,) each."""
    from scipy.sparse import csr_array

    n, ends, (door, last) = fabric.n_nodes, fabric.endpoint, doors(fabric)
    weight, hung, capacity = np.bincount(door, minlength=n), last >= 0, fabric.capacity.copy()
    fine = capacity[last[hung]].min(initial=np.inf)  # for a host that is parted from its switch
    capacity[np.concatenate([last[hung], last[hung] ^ 1])] = 0.0
    graph = csr_array((capacity / 2, (fabric.source, fabric.target)), shape=(n, n))
    graph = csr_array(graph + graph.T)
    graph.eliminate_zeros()
    inner = np.diff(graph.indptr) > 0
    for start in _starts(fabric, graph, weight):
        moved = _refined(graph, weight, fine, start, inner | (weight > 0))
        for side in (start, moved, _refined(graph, weight, fine, moved, inner & (weight == 0))):
            side[ends] = side[door]
            spare = np.count_nonzero(side[ends]) - fabric.n_ranks / 2
            side[ends[hung & (side[ends] == (spare > 0))][: int(abs(spare))]] ^= True
            if abs(np.count_nonzero(side[ends]) - fabric.n_ranks / 2) < 1:
                yield side


def _starts(fabric: Fabric, graph: Any, weight: Ints) -> Iterator[Flags]:
    """Yield the nodes that come first in some order, until half of the weight is there."""
    from scipy.sparse.csgraph import laplacian
    from scipy.sparse.linalg import eigsh

    yield np.zeros(weight.size, dtype=np.bool_)  # half of the hosts alone
    orders: list[NDArray[Any]] = [np.arange(weight.size), *fabric.coord.T]
    used = np.flatnonzero(np.diff(graph.indptr))
    if used.size > 2:
        matrix = laplacian(graph[used][:, used] / graph.data.max()).tocsc()
        orders.append(np.zeros(weight.size))
        first = np.random.default_rng(0).random(used.size)  # any will do, and the same in every run
        orders[-1][used] = eigsh(matrix, k=2, sigma=-1e-6, v0=first)[1][:, 1]
    for order in (np.argsort(key, kind="stable") for key in orders):
        side = np.zeros(weight.size, dtype=np.bool_)
        side[order] = np.cumsum(weight[order]) <= fabric.n_ranks // 2
        yield side


def _refined(graph: Any, weight: Ints, fine: float, side: Flags, may_move: Flags) -> Flags:
    """Move nodes, each at most once in a pass and the one that helps most first; keep the best cut of every pass."""
    side = side.copy()
    while True:
        sign, free, moved = np.where(side, 1.0, -1.0), may_move.copy(), []
        # what the cut loses if the node moves
        gain, spare = (-sign * (graph @ sign), int(weight @ sign))
        cut = (graph.sum() + gain.sum()) / 4
        costs = [cut + (fine * (abs(spare) // 2) if abs(spare) > 1 else 0.0)]
        while len(costs) - np.argmin(costs) <= _PATIENCE:
            may = free & ((weight == 0) | (abs(spare) <= 1) | (sign == np.sign(spare)))
            i = int(np.argmax(np.where(may, gain, -np.inf)))
            if not may[i]:
                break
            cut, spare, near = (
                cut - gain[i],
                spare - 2 * int(weight[i] * sign[i]),
                slice(*graph.indptr[i : i + 2]),
            )
            gain[graph.indices[near]] += 2 * graph.data[near] * sign[graph.indices[near]] * sign[i]
            sign[i], free[i] = -sign[i], False
            moved.append(i)
            costs.append(cut + (fine * (abs(spare) // 2) if abs(spare) > 1 else 0.0))
        best = int(np.argmin(costs))
        if costs[best] >= costs[0] * (1 - 1e-12):
            return side
        side[moved[:best]] ^= True


def cut(fabric: Fabric, ranks: ArrayLike) -> Ints:
    """Return the links of the least capacity whose loss leaves no way from some ranks to the others.

    Switches stand on the side where the cut is least: by max-flow and min-cut, on capacities rounded to a thousandth
    of the smallest, or to a part in 2^30 of all together if that is more.

    Parameters
    ----------
    fabric : Fabric
        Where.
    ranks : array_like of int
        One side; neither none nor all.

    Returns
    -------
    (K,) int64
        Link numbers; ``fabric.capacity[links].sum()`` is what all of that side can send to the other at once.

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

    side = np.unique(frozen(list(ranks) if isinstance(ranks, range) else ranks, np.int64, "ranks"))
    check_within(side, "ranks", 0, fabric.n_ranks - 1)
    if not 0 < side.size < fabric.n_ranks:
        raise ValueError(
            f"ranks must be some of {fabric.n_ranks}, not none and not all, got {side.size}"
        )
    n, live = fabric.n_nodes, np.flatnonzero(fabric.capacity > 0)
    rates = fabric.capacity[live]
    units = np.rint(rates * min(_FINE / rates.min(initial=np.inf), _MOST / max(rates.sum(), 1.0)))
    # A rank forbids transit: it stands twice, as a sender and as a receiver.
    ends = fabric.endpoint.astype(np.int64)
    inner = np.isin(np.arange(n), ends) & ~fabric.transit
    target = np.where(
        inner[fabric.target[live]], fabric.target[live] + n, fabric.target[live]
    ).astype(np.int64)
    other = np.delete(ends, side)
    last = np.where(inner[other], other + n, other)
    much = np.full(fabric.n_ranks, units.sum() + 1)
    rows = np.concatenate([fabric.source[live], np.full(side.size, 2 * n), last])
    columns = np.concatenate([target, ends[side], np.full(other.size, 2 * n + 1)])
    graph = csr_array(
        (np.concatenate([units, much]), (rows, columns)), shape=(2 * n + 2, 2 * n + 2)
    ).astype(np.int32)
    left = graph - maximum_flow(graph, 2 * n, 2 * n + 1).flow
    left.data[left.data < 0] = 0
    left.eliminate_zeros()
    near = np.isin(
        np.arange(2 * n + 2), breadth_first_order(left, 2 * n, return_predecessors=False)
    )
    return np.asarray(live[near[fabric.source[live]] & ~near[target]])
