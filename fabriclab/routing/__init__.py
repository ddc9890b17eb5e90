"""Routing: from flows to Routes on a Fabric.

Every method is a file that registers itself. A method sees *pairs* of nodes, each once, and the shortest
paths between them; two flows with the same ends take the same routes, unless their entropy differs. Routes
that depend on load are a fixed point at which no flow finds a cheaper candidate. Deadlock means that packets
which hold one buffer and wait for the next can wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Callable
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
from fabriclab.routing._clos import from_tables, shortest_paths, tables
from fabriclab.routing.shortest import PairRoutes, Seed, by_pair

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
    """Return routes for all flows. A node that forbids transit is never crossed, except as a relay that takes a copy.

    Leaves out load, except for methods that choose by it ("adaptive", "ugal_l", "ugal_g"): they see all flows sent at
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
        What the header of each flow has in addition to its ends, such as the number of its queue pair or its UDP
        source port: it enters the hash, so that flows with the same ends may take different paths.

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
    """Return routes as `route` does, with how well a choice by load has settled (0 iterations for other methods)."""
    choose: Callable[..., PairRoutes] = registry.get("routing", method)
    n_subflows = units.count(subflows, "subflows")
    seed = units.count(seed, "seed", 0)
    paths = shortest_paths(fabric)

    def rows_of_pairs(source: Ints, target: Ints, own_seed: Seed) -> PairRoutes:
        return choose(fabric, paths, source, target, subflows=n_subflows, seed=own_seed)

    routes = by_pair(fabric, flows, rows_of_pairs, seed, entropy)
    cost = registry.info("routing", method).get("cost")
    if not cost:
        return Settled(routes, iterations=0, change=0.0)
    return settle(fabric, flows, routes, cost)


def lanes(fabric: Fabric, flows: Flows, routes: Routes, method: str) -> Ints:
    """Return the virtual lane that ``method`` uses on each entry of its ``routes``, (E,); 0 where it names none."""
    rule = registry.info("routing", method).get("lanes")
    if rule is None:
        return np.zeros(routes.link.size, dtype=np.int64)
    return np.asarray(rule(fabric, flows, routes))


def deadlock(fabric: Fabric, routes: Routes, lanes: ArrayLike | None = None) -> tuple[int, ...]:
    """Return a circle of links, each of which may wait for the next and the last for the first; () if there is none.

    A buffer stands at the end of each link, one for each virtual lane; a packet in it waits for the buffer of the
    next link on its route. Without a circle of such waits no packet waits for ever [1]_. A node that forbids transit
    takes what arrives out of the network (a relay too), so no wait passes it. Leaves out whether traffic fills the
    buffers of a circle at the same time: routes with a circle can deadlock, but need not.

    Parameters
    ----------
    fabric : Fabric
        Where.
    routes : Routes
        All that may be in use at the same time.
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

    n_entries = routes.link.size
    given = np.zeros(n_entries, int) if lanes is None else lanes
    hint = "those of routing.lanes(fabric, flows, routes, method)"
    lane = whole(given, "lanes", (n_entries,), hint)
    check_within(lane, "lanes", 0)

    # Buffers are the nodes of a graph, one for each link and lane in use; an edge is a possible wait.
    key = lane * fabric.n_links + routes.link
    buffers, buffer_of_entry = np.unique(key, return_inverse=True)
    waits = _waits(fabric, routes)
    before = buffer_of_entry[waits.before]
    after = buffer_of_entry[waits.after]

    # Buffers that can reach each other are in one part, so a circle is in a part of two or more: the smallest.
    part = parts_of(buffers.size, before, after, both_ways=True)
    sizes = np.bincount(part, minlength=1)
    if sizes.max() < 2:
        return ()
    smallest = np.argmin(np.where(sizes > 1, sizes, buffers.size + 1))
    inside = part == smallest
    edges = inside[before] & inside[after]
    graph = DiGraph(zip(before[edges].tolist(), after[edges].tolist(), strict=True))
    circle = [buffer for buffer, _ in find_cycle(graph)]
    return tuple((buffers[circle] % fabric.n_links).tolist())


class _Waits(NamedTuple):
    """Pairs of entries of routes: the buffer of one may wait for the buffer of the other."""

    before: Ints
    after: Ints


def _waits(fabric: Fabric, routes: Routes) -> _Waits:
    """Return pairs of entries of one row: the first ends where the second begins, and traffic may pass there."""
    row = rows_of(routes.ptr) * fabric.n_nodes
    starts = row + fabric.source[routes.link]  # (E,) row and node where each entry begins
    ends = row + fabric.target[routes.link]  # (E,) and where it ends

    # Entries sorted by where they begin: those that begin where entry e ends are order[low[e] : high[e]].
    order = np.argsort(starts, kind="stable")
    low = np.searchsorted(starts[order], ends, "left")
    high = np.searchsorted(starts[order], ends, "right")
    may_pass = fabric.transit[fabric.target[routes.link]]
    count = np.where(may_pass, high - low, 0)
    return _Waits(np.repeat(np.arange(ends.size), count), order[expand(low, count)])


# Illustrative: queues stay short up to the capacity and grow without end above it. At its capacity a link costs a
# third more than idle, so that the short path wins while it has room. Powers of 6 to 12 change the fullest link by 10%
# at most.
_STEEP = 8
_IDLE = 3.0
# Rounds end below this `Settled.change`, ...
_REST = 0.002
# ... or when there have been so many.
_ROUNDS = 1000
# Rows that carry less than this part of their flow are left out of the result.
_LEAST_SHARE = 1e-3


class Settled(NamedTuple):
    """Routes with the shares at which load and choice agree, and how well they do.

    Parameters
    ----------
    routes : Routes
        Without the candidates that carry less than a thousandth of their flow.
    iterations : int
        Rounds of averaging.
    change : float
        What the traffic could still gain if each flow took its cheapest candidate, as a part of the load that it meets.
        [1]
    """

    routes: Routes
    iterations: int
    change: float


def settle(fabric: Fabric, flows: Flows, routes: Routes, cost: str = "global") -> Settled:
    """Return routes in which each flow is shared out among its rows, until no row is cheaper than one that is used.

    The fluid form of a choice by queues (UGAL, flowlets): a link costs 3 + (load / capacity)^8, with all flows
    sent at once such that the busiest endpoint sends at its full rate; a row costs the sum over its links of cost times
    use. In round t shares move towards the cheapest row by a step of 1 / (t + 1). With ``cost="global"`` this is a
    potential game, so the shares converge. Leaves out time: how old the knowledge of a switch is, and how long flows
    live.

    Parameters
    ----------
    fabric, flows, routes : Fabric, Flows, Routes
        The rows of each flow are its candidates.
    cost : str
        ``"global"``: the whole row; ``"local"``: its first link between switches, which is all that a switch sees by
        itself, times the number of links of the row.

    References
    ----------
    .. [1] J. Kim, W. J. Dally, S. Scott, D. Abts, Technology-driven, highly-scalable dragonfly topology, ISCA 2008
       (UGAL-L and UGAL-G).
    .. [2] Y. Sheffi, Urban transportation networks, Prentice-Hall 1985, chapters 3 and 5 (equilibrium, averages).
    """
    units.choice(cost, "cost", ("global", "local"))
    hint = "; make the routes by route(fabric, flows)"
    check_within(routes.flow, "flow of a row", 0, flows.n_flows - 1, hint)
    check_within(routes.link, "link", 0, fabric.n_links - 1, hint)
    row = rows_of(routes.ptr)  # (E,) row of each entry
    hops = routes.hops()  # (R,)
    weight = routes.use  # (E,) of the cost of each link in that of its row
    if cost == "local":
        weight = weight * _first_links(fabric, flows, routes, row) * hops[row]
    if not routes.n_rows:
        return Settled(routes, iterations=0, change=0.0)

    size = (flows.size * flows.repeat[flows.group])[
        routes.flow
    ]  # (R,) bytes of the flow of each row
    scale = _scale(fabric, flows)  # (L,)
    share = _cheapest(
        hops, routes.flow
    )  # (R,) at first each flow takes the row with the fewest links
    change = 0.0
    t = 0
    for t in range(1, _ROUNDS + 1):
        # Load of a link: the sum of bytes times share times use, relative to its capacity. (L,)
        moved = (size * share)[row] * routes.use
        load = np.bincount(routes.link, moved, fabric.n_links) * scale
        # Price of a row: the sum of weight times (3 + load^8). (R,)
        price = weight * (_IDLE + load[routes.link] ** _STEEP)
        paid = np.bincount(row, price, routes.n_rows).astype(np.float64)
        cheapest = _cheapest(paid, routes.flow)

        # The price as a load, in which the steep cost does not drown what is left to gain: its eighth root.
        met = paid ** (1 / _STEEP)
        now = np.sum(size * share * met)
        least = np.sum(size * cheapest * met)
        change = float((now - least) / now) if now > 0 else 0.0
        if change < _REST:
            break
        share += (cheapest - share) / (t + 1)

    # Rows that carry something, with shares that add up to 1 for each flow again.
    used = np.flatnonzero(share > _LEAST_SHARE)
    n_flows = int(routes.flow.max(initial=0)) + 1
    total = np.bincount(routes.flow[used], share[used], n_flows)
    final_share = share[used] / total[routes.flow[used]]
    return Settled(routes.of_rows(used, share=final_share), t, change)


def _cheapest(paid: Floats, flow: NDArray[np.int32]) -> Floats:
    """Return 1 for the cheapest row of each flow, the first one if several cost the same, and 0 for the others."""
    low = np.full(int(flow.max()) + 1, np.inf)  # (F,) lowest price of each flow
    np.minimum.at(low, flow, paid)
    tied = np.flatnonzero(paid <= low[flow] * (1 + 1e-12))  # equal but for rounding
    _, first = np.unique(flow[tied], return_index=True)
    is_cheapest = np.zeros(paid.size)
    is_cheapest[tied[first]] = 1.0
    return is_cheapest


def _scale(fabric: Fabric, flows: Flows) -> Floats:
    """Return 1 / capacity of each link (L,), scaled so that the busiest sender offers 1 to its own links."""
    # Seconds that a sender needs: its bytes, over the capacity of all its links.
    sent = np.bincount(flows.source, flows.size * flows.repeat[flows.group], fabric.n_nodes)
    capacity_out = np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)
    busiest = float(np.max(sent / np.maximum(capacity_out, 1.0), initial=0.0))
    if busiest == 0:
        busiest = 1.0

    inverse = np.where(fabric.capacity > 0, 1.0 / np.maximum(fabric.capacity, 1.0), 0.0)
    return inverse / busiest


def _first_links(fabric: Fabric, flows: Flows, routes: Routes, row: Ints) -> Floats:
    """Return 1 for the entries that leave the first switch of their row, 0 for the others; ``row`` is that of each."""
    start = flows.source[routes.flow].astype(np.int64)  # (R,)
    entry_source = fabric.source[routes.link]  # (E,) where each entry begins

    # The first switch is the node to which the first link leads, or a chip that sends by itself.
    begins = entry_source == start[row]
    switch = start.copy()  # (R,)
    switch[row[begins]] = fabric.target[routes.link[begins]]  # of several in a row, the last
    switch = np.where(fabric.transit[start], start, switch)
    return np.asarray(entry_source == switch[row], dtype=np.float64)
