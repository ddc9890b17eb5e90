"""A small all-reduce beside large transfers of another tenant, on the cables between leaves and spines."""

from __future__ import annotations

from typing import Any

import numpy as np

from fabriclab import collectives, units
from fabriclab.core import Fabric, Flows, Routes
from fabriclab.lower import lower
from fabriclab.registry import register
from fabriclab.routing import route
from fabriclab.scenarios.parts import (
    fullest_link,
    hashed,
    joined,
    labelled,
    pairs,
    sample_of,
    two_tiers,
)
from fabriclab.scenarios.scenario import Scenario

__all__ = ["SHARING", "neighbour"]

# How the two tenants may share the fabric.
SHARING = ("alone", "sharing", "weights", "priority", "own cables")
# Queue pairs of a flow of the small tenant under weights: queues that serve connections in turn give it so many turns.
WEIGHT = 4  # illustrative: the small tenant counts four times as much


# illustrative: small, for tests
@register("scenario", "neighbour", small={"hosts": 4, "small": "16 kB", "bulk": "100 kB"})
def neighbour(
    sharing: str = "sharing",
    hosts: int = 8,
    small: units.Quantity = "64 KiB",
    bulk: units.Quantity = "4 MB",  # illustrative: chosen for a short run
    *,
    spines: int = 4,
    rate: units.Quantity = "400 Gb/s",  # illustrative: a port of 400 Gb/s, as of a ConnectX-7
    buffer: units.Quantity = "16 MB",  # illustrative: memory of a switch chip
    seed: int = 0,
    **config: Any,
) -> Scenario:
    """Return an all-reduce over some hosts of two leaves, beside transfers of as many other hosts on the same leaves.

    No port of a host is shared: the tenants meet on cables to and from the spines, where a hash puts them. The seed
    draws the hash, who sends to whom, and when the all-reduce begins within the first 10 us.

    Parameters
    ----------
    sharing : str
        ``"alone"``: the neighbour sends nothing. ``"sharing"``: all packets are equal. ``"weights"``: queues serve
        connections in turn, and each flow of the all-reduce has four queue pairs. ``"priority"``: the all-reduce has a
        class that goes first. ``"own cables"``: it has the first spine for itself, and the neighbour the others.
    hosts : int
        Hosts of each tenant, half of them on each leaf: a power of two. >= 4
    small, bulk : float or str
        The array of the all-reduce (halving and doubling), and what each host of the neighbour sends. [B]
    spines : int
        Number of spines. >= 2
    rate, buffer, **config
        As in `incast`.
    seed : int
        Seed of all that is drawn.
    """
    mode = units.choice(sharing, "sharing", SHARING)
    n = units.count(hosts, "hosts", 4)
    fabric = two_tiers(2, n, units.count(spines, "spines", 2), rate)
    array = units.size(small, "small", may_be_zero=False)
    large = units.size(bulk, "bulk", may_be_zero=False)
    rng = np.random.default_rng(units.count(seed, "seed", 0))

    # Each leaf has n hosts: the first half belongs to the small tenant, the second to its neighbour.
    half = n // 2
    ranks = np.arange(2 * n)
    is_small = ranks % n < half
    mine = ranks[is_small]
    first, second = ranks[~is_small][:half], ranks[~is_small][half:]
    begin = float(rng.uniform(0.0, 1e-5))  # illustrative: somewhere in the first 10 us
    reduce = collectives.build("all_reduce", "halving_doubling", n)
    flows = labelled(lower(reduce, fabric, array, placement=mine, expand=True), "small")
    flows = flows.cut(start=np.full(flows.n_flows, begin))
    n_small = flows.n_flows
    groups: dict[str, Any] = {"small": range(n_small)}
    if mode != "alone":
        source = np.concatenate([first, second])
        target = np.concatenate([rng.permutation(second), rng.permutation(first)])
        flows = joined(flows, Flows.make(*pairs(fabric, source, target), large, labels=("bulk",)))
        groups["bulk"] = range(n_small, flows.n_flows)

    routes = _routes(fabric, flows, mode, n_small, seed)
    given: dict[str, Any] = {
        "control": "dcqcn",
        "buffer": buffer,
        "sample": sample_of(large + array, rate),
    }
    if mode == "priority":
        given["classes"] = {"small": 0, "bulk": 1}
    if mode == "weights":
        given["fair"] = True
    between = (
        fabric.transit[fabric.source[routes.link]] & fabric.transit[fabric.target[routes.link]]
    )
    return Scenario(
        name="neighbour",
        shows="A small all-reduce is as fast as the fullest cable that a hash gave to one of its messages.",
        fabric=fabric,
        flows=flows,
        routes=routes,
        config=given | config,
        links={"fullest link": fullest_link(fabric, routes, between)},
        groups=groups,
    )


def _routes(fabric: Fabric, flows: Flows, mode: str, n_small: int, seed: int) -> Routes:
    """Return one hashed path of each flow, on cables of its own or with several queue pairs if the mode says so."""
    if mode != "own cables":
        routes = hashed(fabric, flows, seed)
        if mode != "weights":
            return routes
        often = np.where(routes.flow < n_small, WEIGHT, 1)
        rows = np.repeat(np.arange(routes.n_rows), often)
        return routes.of_rows(rows, share=routes.share[rows] / often[rows])
    spines = np.flatnonzero(fabric.tier == fabric.tier.max())
    entropy = np.arange(flows.n_flows)
    for_small = route(fabric.without(nodes=spines[1:]), flows, "ecmp", seed=seed, entropy=entropy)
    for_bulk = route(fabric.without(nodes=spines[:1]), flows, "ecmp", seed=seed, entropy=entropy)
    parts = (
        (for_small, np.flatnonzero(for_small.flow < n_small)),
        (
            for_bulk,
            np.flatnonzero(for_bulk.flow >= n_small),
        ),
    )
    return joined_routes([routes.of_rows(rows) for routes, rows in parts])


def joined_routes(several: list[Routes]) -> Routes:
    """Return the rows of several routes as one."""
    lengths = np.concatenate([np.diff(routes.ptr) for routes in several])
    columns = {
        name: np.concatenate([getattr(routes, name) for routes in several])
        for name in ("link", "use", "flow", "share", "delay", "kind", "adaptive")
    }
    return Routes(ptr=np.concatenate([[0], np.cumsum(lengths)]), **columns)
