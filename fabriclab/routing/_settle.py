"""Routes that depend on load: a fixed point at which no flow finds a cheaper candidate."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Fabric, Floats, Flows, Routes, check_within, rows_of

# Illustrative: queues stay short up to the capacity and grow without end above it. At its capacity a link costs a
# third more than idle, so that the short way wins while it has room. Powers of 6 to 12 change the fullest link by 10%
# at most.
_STEEP = 8
_IDLE = 3.0


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


def settle(
    fabric: Fabric, flows: Flows, routes: Routes, cost: str = "global", *, tolerance: float = 0.002, most: int = 1000
) -> Settled:
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
    tolerance : float
        Ends below this `Settled.change`. [1]
    most : int
        Rounds at most.

    References
    ----------
    .. [1] J. Kim, W. J. Dally, S. Scott, D. Abts, Technology-driven, highly-scalable dragonfly topology, ISCA 2008
       (UGAL-L and UGAL-G).
    .. [2] Y. Sheffi, Urban transportation networks, Prentice-Hall 1985, chapters 3 and 5 (equilibrium, averages).
    """
    units.choice(cost, "cost", ("global", "local"))
    if not isinstance(tolerance, (int, float, np.number)):
        raise TypeError(f"tolerance must be a number such as 0.002, got {tolerance!r:.80}")
    rounds = units.count(most, "most")
    check_within(routes.flow, "flow of a row", 0, flows.n_flows - 1, "; make the routes by route(fabric, flows)")
    check_within(routes.link, "link", 0, fabric.n_links - 1, "; make the routes by route(fabric, flows)")
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
    for t in range(1, rounds + 1):
        load = np.bincount(routes.link, (size * share)[entry] * routes.use, fabric.n_links) * scale
        paid = np.bincount(entry, seen * (_IDLE + load[routes.link] ** _STEEP), routes.n_rows).astype(np.float64)
        best = _cheapest(paid, routes.flow)
        met = paid ** (1 / _STEEP)  # as a load, in which the steep cost does not drown what is left to gain
        now, least = np.sum(size * share * met), np.sum(size * best * met)
        change = float((now - least) / now) if now > 0 else 0.0
        if change < tolerance:
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
