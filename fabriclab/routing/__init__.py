"""Routing: from flows to Routes on a Fabric.

Every method is a file that registers itself. A method sees *pairs* of nodes, each once, and the shortest
ways between them; two flows with the same ends take the same routes, unless their entropy differs. Routes
that depend on load are a fixed point at which no flow finds a cheaper candidate. Deadlock is whether packets
that hold one buffer and wait for the next can wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import registry, units
from fabriclab.core import (
    Fabric,
    Floats,
    Flows,
    Ints,
    Routes,
    check_within,
    expand,
    parts_of,
    rows_of,
    whole,
)
from fabriclab.routing._clos import from_tables, tables, ways
from fabriclab.routing.shortest import Rows, by_pair

__all__ = [
    "Settled",
    "deadlock",
    "from_tables",
    "lanes",
    "names",
    "route",
    "settle",
    "settled",
    "tables",
]


def names() -> tuple[str, ...]:
    """Return the registered routings."""
    return registry.names("routing")


def route(
    fabric: Fabric,
    flows: Flows,
    method: str = "ecmp",
    *,
    subflows: int = 1,
    seed: int = 0,
    entropy: ArrayLike | None = None,
) -> Routes:
    """Return routes for all flows; nodes that forbid transit are never crossed, but by a relay that takes a copy.

    Leaves out load, but for methods that choose by it ("adaptive", "ugal_l", "ugal_g"): they see all flows sent at
    once, and `settled` tells how well their choice has settled.

    Parameters
    ----------
    fabric : Fabric
        Links of capacity 0 are avoided.
    flows : Flows
        Their sources and targets. A flow from a node to itself gets no route.
    method : str
        ``"ecmp"`` (each subflow takes one path, by hash) or ``"spray"`` (every shortest path carries its
        part, in proportion to capacity), or another name of `names`.
    subflows : int
        Rows per flow with a hash of their own, such as the queue pairs of a connection. >= 1
    seed : int
        Seed of the hash. The same seed gives the same routes on every machine.
    entropy : (F,) int, optional
        What the header of each flow has besides its ends, such as the number of its queue pair or its UDP source
        port: it enters the hash, so that flows with the same ends may part.

    Returns
    -------
    Routes
        ``subflows`` rows per flow, in the order of the flows.

    Raises
    ------
    NoPath
        If a flow has no path, naming its ends.
    TooLarge
        If the routes would need more memory than the machine has.
    ValueError
        If the method does not fit the fabric, or ``entropy`` the flows.
    """
    return settled(fabric, flows, method, subflows=subflows, seed=seed, entropy=entropy).routes


def settled(
    fabric: Fabric,
    flows: Flows,
    method: str,
    *,
    subflows: int = 1,
    seed: int = 0,
    entropy: ArrayLike | None = None,
) -> Settled:
    """Return routes as `route` does, with the iterations and the rest of a choice by load (0 for other methods)."""
    choose: Callable[..., Rows] = registry.get("routing", method)
    n_sub, number = units.count(subflows, "subflows"), units.count(seed, "seed", 0)
    chosen = partial(choose, fabric, ways(fabric), subflows=n_sub)
    routes = by_pair(fabric, flows, lambda s, t, own: chosen(s, t, seed=own), number, entropy)
    cost = registry.info("routing", method).get("cost")
    return settle(fabric, flows, routes, cost) if cost else Settled(routes, 0, 0.0)


def lanes(fabric: Fabric, flows: Flows, routes: Routes, method: str) -> Ints:
    """Return the virtual lane that ``method`` uses on each entry of its ``routes``, (E,); 0 where it names none."""
    rule = registry.info("routing", method).get("lanes")
    return (
        np.zeros(routes.link.size, dtype=np.int64)
        if rule is None
        else np.asarray(rule(fabric, flows, routes))
    )


def deadlock(fabric: Fabric, routes: Routes, lanes: ArrayLike | None = None) -> tuple[int, ...]:
    """Return links of which each may wait for the next and the last for the first; () if there is no such circle.

    A buffer stands at the end of each link, one for each virtual lane; a packet in it waits for the buffer of the
    next link on its route. Without a circle of such waits no packet waits for ever [1]_. A node that forbids transit
    takes what arrives out of the network (a relay too), so no wait passes it. Leaves out whether traffic fills the
    buffers of a circle at one time: routes with a circle can deadlock, and need not.

    Parameters
    ----------
    fabric : Fabric
        Where.
    routes : Routes
        All that may be on the way at one time.
    lanes : (E,) int, optional
        Virtual lane of each entry of the routes, as `fabriclab.routing.lanes` returns it; one lane unless given.

    Returns
    -------
    tuple of int
        Link numbers in the order of waiting; ``fabric.link_name`` has their names.

    Raises
    ------
    ValueError
        If there is not one lane per entry.

    References
    ----------
    .. [1] W. J. Dally, C. L. Seitz, Deadlock-free message routing in multiprocessor interconnection networks,
       IEEE Transactions on Computers C-36(5), 1987.
    """
    from networkx import DiGraph, find_cycle

    what, none = (
        "those of routing.lanes(fabric, flows, routes, method)",
        np.zeros(routes.link.size, int),
    )
    lane = whole(none if lanes is None else lanes, "lanes", none.shape, what)
    check_within(lane, "lanes", 0)
    buffers, at = np.unique(lane * fabric.n_links + routes.link, return_inverse=True)
    before, after = (at[entry] for entry in _waits(fabric, routes))
    part = parts_of(buffers.size, before, after, both_ways=True)
    sizes = np.bincount(part, minlength=1)
    if sizes.max() < 2:
        return ()
    inside = part == np.argmin(np.where(sizes > 1, sizes, buffers.size + 1))
    on = inside[before] & inside[after]
    circle = find_cycle(DiGraph(zip(before[on].tolist(), after[on].tolist(), strict=True)))
    return tuple((buffers[[buffer for buffer, _ in circle]] % fabric.n_links).tolist())


def _waits(fabric: Fabric, routes: Routes) -> tuple[Ints, Ints]:
    """Return pairs of entries of one row: the first ends where the second begins, and traffic may pass there."""
    row = rows_of(routes.ptr) * fabric.n_nodes
    starts = row + fabric.source[routes.link]
    order = np.argsort(starts, kind="stable")
    ends = row + fabric.target[routes.link]
    low, high = (np.searchsorted(starts[order], ends, side) for side in ("left", "right"))
    count = np.where(fabric.transit[fabric.target[routes.link]], high - low, 0)
    return np.repeat(np.arange(ends.size), count), order[expand(low, count)]


# Illustrative: queues stay short up to the capacity and grow without end above it. At its capacity a link costs a
# third more than idle, so that the short way wins while it has room. Powers of 6 to 12 change the fullest link by 10%
# at most.
_STEEP = 8
_IDLE = 3.0
# rounds end below this `Settled.change`, or when there have been so many
_REST, _ROUNDS = (0.002, 1000)


class Settled(NamedTuple):
    """Routes with the shares at which load and choice agree, and how they were found.

    Parameters
    ----------
    routes : Routes
        Without the candidates that carry less than a thousandth of their flow.
    iterations : int
        Rounds of averaging.
    change : float
        What the traffic could still gain, each flow by its cheapest candidate, as a part of the load that it meets. [1]
    """

    routes: Routes
    iterations: int
    change: float


def settle(fabric: Fabric, flows: Flows, routes: Routes, cost: str = "global") -> Settled:
    """Share each flow out among its rows until none of them is cheaper than another that is used.

    The fluid form of a choice by queues (UGAL, flowlets): a link costs 3 + (load / capacity)^8, all flows
    sent at once such that the busiest endpoint sends at its full rate; a row costs what its links cost, each counted
    by its use. Shares move to the cheapest row by a step of 1 / (t + 1). With ``cost="global"`` this is a potential
    game, so that the shares converge. Leaves out time: how stale what a switch knows is, and how long flows live.

    Parameters
    ----------
    fabric, flows, routes : Fabric, Flows, Routes
        The rows of each flow are its candidates.
    cost : str
        ``"global"``: the whole row; ``"local"``: its first link between switches, all that a switch sees by itself,
        times the links of the row.

    References
    ----------
    .. [1] J. Kim, W. J. Dally, S. Scott, D. Abts, Technology-driven, highly-scalable dragonfly topology, ISCA 2008
       (UGAL-L and UGAL-G).
    .. [2] Y. Sheffi, Urban transportation networks, Prentice-Hall 1985, chapters 3 and 5 (equilibrium, averages).
    """
    units.choice(cost, "cost", ("global", "local"))
    check_within(
        routes.flow,
        "flow of a row",
        0,
        flows.n_flows - 1,
        "; make the routes by route(fabric, flows)",
    )
    check_within(
        routes.link, "link", 0, fabric.n_links - 1, "; make the routes by route(fabric, flows)"
    )
    entry = rows_of(routes.ptr)
    size = (flows.size * flows.repeat[flows.group])[routes.flow]
    seen, hops = routes.use, routes.hops()
    if cost == "local":
        seen = seen * _first_links(fabric, flows, routes, entry) * hops[entry]
    if not routes.n_rows:
        return Settled(routes, 0, 0.0)
    scale = _scale(fabric, flows)
    # At first each flow takes the row with the fewest links.
    share = _cheapest(hops, routes.flow)
    change, t = 0.0, 0
    for t in range(1, _ROUNDS + 1):
        load = np.bincount(routes.link, (size * share)[entry] * routes.use, fabric.n_links) * scale
        paid = np.bincount(
            entry, seen * (_IDLE + load[routes.link] ** _STEEP), routes.n_rows
        ).astype(np.float64)
        best = _cheapest(paid, routes.flow)
        # as a load, in which the steep cost does not drown what is left to gain
        met = paid ** (1 / _STEEP)
        now, least = np.sum(size * share * met), np.sum(size * best * met)
        change = float((now - least) / now) if now > 0 else 0.0
        if change < _REST:
            break
        share += (best - share) / (t + 1)
    row = np.flatnonzero(share > 1e-3)  # those that carry something
    total = np.bincount(routes.flow[row], share[row], int(routes.flow.max(initial=0)) + 1)
    return Settled(routes.of_rows(row, share=share[row] / total[routes.flow[row]]), t, change)


def _cheapest(paid: Floats, flow: NDArray[np.int32]) -> Floats:
    """Return 1 for the cheapest row of each flow, the first of equals, and 0 for the others."""
    low, out = np.full(int(flow.max()) + 1, np.inf), np.zeros(paid.size)
    np.minimum.at(low, flow, paid)
    tied = np.flatnonzero(paid <= low[flow] * (1 + 1e-12))
    out[tied[np.unique(flow[tied], return_index=True)[1]]] = 1.0
    return out


def _scale(fabric: Fabric, flows: Flows) -> Floats:
    """Return 1 / capacity of each link (L,), such that the busiest sender offers 1 to its own links."""
    sent = np.bincount(flows.source, flows.size * flows.repeat[flows.group], fabric.n_nodes)
    room = np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)
    busiest = np.max(sent / np.maximum(room, 1.0), initial=0.0) or 1.0
    return np.where(fabric.capacity > 0, 1.0 / np.maximum(fabric.capacity, 1.0), 0.0) / busiest


def _first_links(fabric: Fabric, flows: Flows, routes: Routes, entry: NDArray[np.int64]) -> Floats:
    """Return 1 for the entries that leave the first switch of their row, 0 for the others."""
    start, source = flows.source[routes.flow].astype(np.int64), fabric.source[routes.link]
    begins = source == start[entry]
    at = start.copy()
    at[entry[begins]] = fabric.target[routes.link[begins]]
    at = np.where(fabric.transit[start], start, at)  # a chip that sends is the first switch itself
    return np.asarray(source == at[entry], dtype=np.float64)
