"""Find the routes of flows on a fabric, and check them for deadlock.

Every routing method is a file that registers itself. A method sees each *pair* of nodes once, with the shortest paths
between them, so two flows with the same ends take the same routes unless their entropy differs. Routes that depend on
load are a fixed point at which no flow finds a cheaper candidate. Deadlock means that packets, each of which occupies
one buffer and waits for the next, wait for each other in a circle.
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
from fabriclab.routing.dragonfly import direct_share
from fabriclab.routing.shortest import PairRoutes, Seed, by_pair

__all__ = [
    "Settled",
    "deadlock",
    "direct_share",
    "from_tables",
    "lanes",
    "names",
    "route",
    "settle",
    "settled",
    "tables",
]


def names() -> tuple[str, ...]:
    """Return the names of all routing methods that `route` knows."""
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
    """Find the routes of all flows on a fabric.

    A node that forbids transit is never crossed, except as a relay that copies the data. Leaves out load, except for
    the methods that choose by it ("adaptive", "ugal_l", "ugal_g"): they assume that all flows are sent at the same
    time, and `settled` also returns how well their choice has settled.

    Parameters
    ----------
    fabric : Fabric
        The network. Links of capacity 0 are avoided.
    flows : Flows
        Sources and targets. A flow from a node to itself gets no route.
    method : str
        ``"ecmp"`` (a hash selects one path for each subflow), ``"spray"`` (all shortest paths share the traffic, in
        proportion to capacity), or another of `names`.
    subflows : int
        Rows per flow, each with a hash of its own, such as the queue pairs of a connection. >= 1
    seed : int
        Seed of the hash. The same seed gives the same routes on every machine.
    entropy : (F,) int, optional
        What the header of each flow contains in addition to its ends, such as the number of its queue pair or its UDP
        source port. It enters the hash, so flows with the same ends may take different paths.

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
    """Find routes as `route` does, and also return how well a choice by load has settled.

    Methods that do not choose by load need 0 iterations. Parameters are the same as those of `route`.
    """
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
    """Return the virtual lane that ``method`` uses on each entry of its ``routes``, (E,); all 0 if it has no lanes."""
    rule = registry.info("routing", method).get("lanes")
    if rule is None:
        return np.zeros(routes.link.size, dtype=np.int64)
    return np.asarray(rule(fabric, flows, routes))


def deadlock(fabric: Fabric, routes: Routes, lanes: ArrayLike | None = None) -> tuple[int, ...]:
    """Find a circle of links in which packets can deadlock, or return () if there is none.

    At the end of each link there is one buffer per virtual lane, and a packet in it waits for the buffer of the next
    link on its route. If no such waits form a circle, no packet waits forever [1]_. A node that forbids transit (a
    relay, too) takes what arrives out of the network, so waiting does not continue beyond it. Leaves out whether
    traffic fills all buffers of a circle at the same time: routes with a circle can deadlock, but need not.

    Parameters
    ----------
    fabric : Fabric
        The network.
    routes : Routes
        All routes that may be in use at the same time.
    lanes : (E,) int, optional
        Virtual lane of each entry of the routes, as `fabriclab.routing.lanes` returns them; one lane unless given.

    Returns
    -------
    tuple of int
        Numbers of the links, each of which may wait for the next and the last for the first; ``fabric.link_name``
        returns their names.

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

    # Buffers that can reach each other form one component, so a circle lies in a component of two or more buffers;
    # the smallest such component is searched.
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
    """Return all pairs of entries of a row where the first ends at the node at which the second begins.

    Only nodes that let traffic pass count.
    """
    row = rows_of(routes.ptr) * fabric.n_nodes
    starts = row + fabric.source[routes.link]  # (E,) row, and node where each entry begins
    ends = row + fabric.target[routes.link]  # (E,) and where it ends

    # Entries sorted by where they begin: order[low[e] : high[e]] are those that begin where entry e ends.
    order = np.argsort(starts, kind="stable")
    low = np.searchsorted(starts[order], ends, "left")
    high = np.searchsorted(starts[order], ends, "right")
    may_pass = fabric.transit[fabric.target[routes.link]]
    count = np.where(may_pass, high - low, 0)
    return _Waits(np.repeat(np.arange(ends.size), count), order[expand(low, count)])


# Illustrative: queues stay short up to the capacity and grow without limit above it. At its capacity a link costs a
# third more than when idle, so the short path wins as long as it has room. Powers of 6 to 12 change the load of the
# fullest link by at most 10 %.
_STEEP = 8
_IDLE = 3.0
# Rounds end when `Settled.change` falls below this, ...
_REST = 0.002
# ... or after this many rounds.
_ROUNDS = 1000
# Rows that carry less than this fraction of their flow are left out of the result.
_LEAST_SHARE = 1e-3


class Settled(NamedTuple):
    """Routes whose shares fit the load that they cause, and how well they fit.

    Parameters
    ----------
    routes : Routes
        The routes, without candidates that carry less than a thousandth of their flow.
    iterations : int
        Rounds of averaging.
    change : float
        What the traffic could still gain if each flow took its cheapest candidate, as a fraction of the load that it
        meets. [1]
    """

    routes: Routes
    iterations: int
    change: float


def settle(fabric: Fabric, flows: Flows, routes: Routes, cost: str = "global") -> Settled:
    """Divide each flow among its candidate routes by load, until no candidate is cheaper than one that is used.

    This is the fluid form of a choice by queue lengths (UGAL, flowlets). A link costs 3 + (load / capacity)^8, where
    all flows are sent at the same time and the busiest endpoint sends at its full rate. A row costs the sum over its
    links of cost times use. In round t shares move towards the cheapest row by a step of 1 / (t + 1). With
    ``cost="global"`` this is a potential game, so the shares converge. Leaves out time: how old a switch's knowledge of
    the load is, and how long flows last.

    Parameters
    ----------
    fabric, flows, routes : Fabric, Flows, Routes
        The rows of each flow are its candidates.
    cost : str
        ``"global"``: cost of the whole row; ``"local"``: cost of its first link between switches, which is all that a
        switch can see by itself, times the number of links of the row.

    References
    ----------
    .. [1] J. Kim, W. J. Dally, S. Scott, D. Abts, Technology-driven, highly-scalable dragonfly topology, ISCA 2008
       (UGAL-L and UGAL-G).
    .. [2] Y. Sheffi, Urban transportation networks, Prentice-Hall 1985, chapters 3 and 5 (equilibrium, averages).
    """
    cost = units.choice(cost, "cost", ("global", "local"))
    hint = "; make the routes by route(fabric, flows)"
    check_within(routes.flow, "flow of a row", 0, flows.n_flows - 1, hint)
    check_within(routes.link, "link", 0, fabric.n_links - 1, hint)
    row = rows_of(routes.ptr)  # (E,) row of each entry
    hops = routes.hops()  # (R,)
    weight = routes.use  # (E,) weight of the cost of each link in the cost of its row
    if cost == "local":
        weight = weight * _first_links(fabric, flows, routes, row) * hops[row]
    if not routes.n_rows:
        return Settled(routes, iterations=0, change=0.0)

    size = (flows.size * flows.repeat[flows.group])[routes.flow]  # (R,) bytes of each row's flow
    scale = _scale(fabric, flows)  # (L,)
    share = _cheapest(
        hops, routes.flow
    )  # (R,) in the beginning each flow takes its row with the fewest links
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

        # Compare prices as loads (their eighth root), in which the steep cost does not hide what is left to gain.
        met = paid ** (1 / _STEEP)
        now = np.sum(size * share * met)
        least = np.sum(size * cheapest * met)
        change = float((now - least) / now) if now > 0 else 0.0
        if change < _REST:
            break
        share += (cheapest - share) / (t + 1)

    # Keep the rows that carry something, and scale their shares so that they add up to 1 for each flow again.
    used = np.flatnonzero(share > _LEAST_SHARE)
    n_flows = int(routes.flow.max(initial=0)) + 1
    total = np.bincount(routes.flow[used], share[used], n_flows)
    final_share = share[used] / total[routes.flow[used]]
    return Settled(routes.of_rows(used, share=final_share), t, change)


def _cheapest(paid: Floats, flow: NDArray[np.int32]) -> Floats:
    """Return 1 for the cheapest row of each flow and 0 for the others; of equally cheap rows the first one counts."""
    low = np.full(int(flow.max()) + 1, np.inf)  # (F,) lowest price of each flow
    np.minimum.at(low, flow, paid)
    tied = np.flatnonzero(paid <= low[flow] * (1 + 1e-12))  # equal except for rounding
    _, first = np.unique(flow[tied], return_index=True)
    is_cheapest = np.zeros(paid.size)
    is_cheapest[tied[first]] = 1.0
    return is_cheapest


def _scale(fabric: Fabric, flows: Flows) -> Floats:
    """Return 1 / capacity of each link, (L,), scaled so that the busiest sender puts a load of 1 on its own links."""
    # Seconds that a sender needs: its bytes divided by the capacity of all its links.
    sent = np.bincount(flows.source, flows.size * flows.repeat[flows.group], fabric.n_nodes)
    capacity_out = np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)
    busiest = float(np.max(sent / np.maximum(capacity_out, 1.0), initial=0.0))
    if busiest == 0:
        busiest = 1.0

    inverse = np.where(fabric.capacity > 0, 1.0 / np.maximum(fabric.capacity, 1.0), 0.0)
    return inverse / busiest


def _first_links(fabric: Fabric, flows: Flows, routes: Routes, row: Ints) -> Floats:
    """Return 1 for entries that leave the first switch of their row, else 0; ``row`` is the row of each entry, (E,)."""
    start = flows.source[routes.flow].astype(np.int64)  # (R,)
    entry_source = fabric.source[routes.link]  # (E,) where each entry begins

    # The first switch is the node to which the first link leads, or a chip that sends by itself.
    begins = entry_source == start[row]
    switch = start.copy()  # (R,)
    switch[row[begins]] = fabric.target[routes.link[begins]]  # of several in a row, the last
    switch = np.where(fabric.transit[start], start, switch)
    return np.asarray(entry_source == switch[row], dtype=np.float64)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
