"""Traffic that many hosts make together: permutations, all-to-all, all-reduces, and what hashing does to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fabriclab import collectives, topologies, units
from fabriclab.core import Fabric, Flows
from fabriclab.lower import lower
from fabriclab.registry import register
from fabriclab.scenarios.parts import (
    all_paths,
    all_to_all_ranks,
    fullest_link,
    hashed,
    joined,
    labelled,
    one_switch,
    pairs,
    port_to,
    sample_of,
    two_tiers,
)
from fabriclab.scenarios.scenario import LINE_RATE, Scenario

__all__ = ["all_to_all", "ecmp_collision", "mixed_tenants", "permutation", "ring_all_reduce"]

_SLOW_CABLES = ("all", "behind")


# illustrative: small, for tests
@register("scenario", "ecmp_collision", small={"flows": 4, "size": "100 kB"})
def ecmp_collision(
    flows: int = 16,
    size: units.Quantity = "4 MB",  # illustrative: chosen for a short run
    *,
    paths: int | None = None,
    slow_path: float = 1.0,
    slow_cables: str = "all",
    rate: units.Quantity = "400 Gb/s",  # illustrative: a port of 400 Gb/s, as of a ConnectX-7
    seed: int = 0,
    **config: Any,
) -> Scenario:
    """Return flows between the hosts of two leaves, which a hash puts on the cables to the spines.

    With as many paths as flows there would be one for each, but a hash puts several on some and none on others. The
    slowest flow is as slow as its path is shared. ``balance="adaptive"`` and ``balance="spray"`` use all paths; packets
    then overtake each other, which a transport with go-back-N takes for loss. Senders keep line rate, switches pause.

    Parameters
    ----------
    flows : int
        Flows, each from one host of the first leaf to one of the second. >= 1
    size : float or str
        What each flow carries. [B], > 0
    paths : int, optional
        Spines, and so paths; as many as flows unless given. >= 1
    slow_path : float
        Part of their rate that the cables of the last spine have, as after a fault. 0..1, without 0
    slow_cables : str
        Which cables of the last spine are slow: ``"all"``, or those ``"behind"`` it only, on the way to the receivers,
        where the first leaf has no queue that would tell it.
    rate : float or str
        Rate of all cables. [B/s]
    seed : int
        Seed of the hash.
    **config
        Settings of the run.
    """
    n = units.count(flows, "flows")
    spines = n if paths is None else units.count(paths, "paths")
    each = units.size(size, "size", may_be_zero=False)
    if not (units.is_number(slow_path) and 0 < slow_path <= 1):
        raise ValueError(f"slow_path must be within 0..1, without 0, got {slow_path!r}")
    where = units.choice(slow_cables, "slow_cables", _SLOW_CABLES)
    fabric = two_tiers(2, n, spines, rate)
    if slow_path < 1:
        last_spine = int(np.flatnonzero(fabric.tier == 2)[-1])
        slow = fabric.source == last_spine
        if where == "behind":
            last_leaf = fabric.target[fabric.source == fabric.endpoint[-1]][0]
            slow &= fabric.target == last_leaf
        else:
            slow |= fabric.target == last_spine
        cables = np.flatnonzero(slow)
        fabric = fabric.with_capacity(cables, float(fabric.capacity.max()) * slow_path)
    ends = pairs(fabric, np.arange(n), n + np.arange(n))
    graph = Flows.make(*ends, each, labels=("flow",))
    routes = hashed(fabric, graph, seed)
    uplink = routes.link[routes.ptr[:-1] + 1]  # (F,) from leaf to spine
    links, count = np.unique(uplink, return_counts=True)
    fullest = int(links[np.argmax(count)])
    given = {
        **LINE_RATE,
        "sample": sample_of(each * int(count.max()), rate),
    }
    return Scenario(
        name="ecmp_collision",
        shows=f"A hash puts {count.max()} of {n} flows on one of {spines} paths.",
        fabric=fabric,
        flows=graph,
        routes=routes,
        paths=all_paths(fabric, graph),
        config=given | config,
        links={"fullest uplink": fullest},
        groups={"on the fullest uplink": np.flatnonzero(uplink == fullest).tolist()},
    )


# illustrative: small, for tests
@register("scenario", "permutation", small={"size": "100 kB"})
def permutation(
    fabric: Fabric | None = None,
    size: units.Quantity = "1 MB",  # illustrative: chosen for a short run
    *,
    seed: int = 0,
    **config: Any,
) -> Scenario:
    """Return one flow from each host to another one, such that each host gets one flow.

    No port of a host is shared, so all queues come from the network between: from hashes that put flows together, or
    from oversubscription.

    Parameters
    ----------
    fabric : Fabric, optional
        The network; 4 leaves with 8 hosts each and 8 spines at 400 Gb/s unless given.
    size : float or str
        What each host sends. [B], > 0
    seed : int
        Seed of the permutation and of the hash.
    **config
        Settings of the run; DCQCN and PFC unless given.
    """
    rate = "400 Gb/s"  # illustrative: a port of 400 Gb/s, as of a ConnectX-7
    network = two_tiers(4, 8, 8, rate) if fabric is None else fabric
    n = network.n_ranks
    if n < 2:
        raise ValueError(f"a permutation needs a fabric with at least 2 ranks, got {n}")
    each = units.size(size, "size", may_be_zero=False)
    # One circle through all hosts in random order: nobody sends to itself.
    order = np.random.default_rng(seed).permutation(n)
    ends = pairs(network, order, np.roll(order, 1))
    flows = Flows.make(*ends, each, labels=("flow",))
    routes = hashed(network, flows, seed)
    between = network.transit[network.source[routes.link]]
    slowest_port = float(network.capacity[routes.link[routes.ptr[:-1]]].min())
    given = {"control": "dcqcn", "sample": sample_of(2 * each, slowest_port)}
    return Scenario(
        name="permutation",
        shows="Each host sends to one host and receives from one, and still flows meet in the network.",
        fabric=network,
        flows=flows,
        routes=routes,
        paths=all_paths(network, flows),
        config=given | config,
        links={"fullest link": fullest_link(network, routes, between)},
    )


# illustrative: small, for tests
@register("scenario", "all_to_all", small={"hosts": 4, "size": "20 kB"})
def all_to_all(
    hosts: int = 16,
    size: units.Quantity = "64 kB",  # illustrative: chosen for a short run
    *,
    skew: float = 1.0,
    rate: units.Quantity = "400 Gb/s",  # illustrative: a port of 400 Gb/s, as of a ConnectX-7
    buffer: units.Quantity = "64 MB",  # illustrative: memory of a switch chip
    **config: Any,
) -> Scenario:
    """Return hosts around one switch that all send to all others, and more to one of them (a hot expert).

    Parameters
    ----------
    hosts : int
        Number of hosts. >= 2
    size : float or str
        What each host sends to each other one. [B], > 0
    skew : float
        How many times as much goes to host 0. > 0
    rate, buffer, **config
        As in `incast`.
    """
    n = units.count(hosts, "hosts", 2)
    each = units.size(size, "size", may_be_zero=False)
    if not (units.is_number(skew) and 0 < skew < np.inf):
        raise ValueError(f"skew must be a number > 0, such as 4, got {skew!r}")
    fabric = one_switch(n, rate, "10 m")  # illustrative: a cable in a row of racks
    source, target = all_to_all_ranks(n)
    is_hot = target == 0
    sizes = np.where(is_hot, each * skew, each)
    ends = pairs(fabric, source, target)
    labels = ("to the others", "to the hot host")
    flows = Flows.make(*ends, sizes, label=is_hot.astype(np.int64), labels=labels)
    busiest = (n - 1) * each * max(skew, 1.0)
    given = {
        "control": "dcqcn",
        "buffer": buffer,
        "sample": sample_of(busiest, rate),
    }
    return Scenario(
        name="all_to_all",
        shows="All hosts send to all, and the port of the hot host decides when the last flow ends.",
        fabric=fabric,
        flows=flows,
        routes=hashed(fabric, flows),
        config=given | config,
        links={"hot port": port_to(fabric, int(fabric.endpoint[0]))},
        groups={
            "to the hot host": np.flatnonzero(is_hot).tolist(),
            "to the others": np.flatnonzero(~is_hot).tolist(),
        },
    )


# illustrative: small, for tests
@register("scenario", "ring_all_reduce", small={"servers": 4, "rails": 2, "size": "200 kB"})
def ring_all_reduce(
    servers: int = 8,
    rails: int = 4,
    size: units.Quantity = "4 MB",  # illustrative: chosen for a short run
    *,
    background: units.Quantity = "4 MB",  # illustrative: chosen for a short run
    own_class: bool = False,
    rate: units.Quantity = "400 Gb/s",  # illustrative: a port of 400 Gb/s, as of a ConnectX-7
    seed: int = 0,
    **config: Any,
) -> Scenario:
    """Return an all-reduce by rings on each rail, beside other traffic on the same rails.

    The fabric is rail-optimised, with two leaves to a rail: a ring crosses the spines twice. The background goes from
    each network card to the one of the same rail half of the servers further on, so all of it crosses the spines.
    ``trace.time_of("ring")`` is the time of the collective.

    Parameters
    ----------
    servers : int
        Servers, half of them on each leaf. Even, >= 4
    rails : int
        Network cards of a server, each on a rail of its own. >= 1
    size : float or str
        The array of each ring. [B], > 0
    background : float or str
        What each network card sends besides; 0 for none. [B]
    own_class : bool
        Whether the rings go first, in a class of their own.
    rate : float or str
        Rate of all cables. [B/s]
    seed : int
        Seed of the hash.
    **config
        Settings of the run; DCQCN and PFC unless given.
    """
    n = units.count(servers, "servers", 4)
    if n % 2:
        raise ValueError(f"servers must be even, half of them on each leaf, got {n}")
    g = units.count(rails, "rails")
    array = units.size(size, "size", may_be_zero=False)
    other = units.size(background, "background")
    fabric = topologies.build(
        "rail_optimised",
        servers=n,
        gpus=g,
        rails=g,
        radix=max(n, 2 * g),
        expand=False,
        rate=rate,
    )
    rank = np.arange(n * g).reshape(n, g)
    ring = collectives.build("all_reduce", "ring", n)
    flows = labelled(lower(ring, fabric, array, placement=rank.T, expand=True), "ring")
    n_ring = flows.n_flows
    if other > 0:
        ends = pairs(fabric, rank.ravel(), np.roll(rank, n // 2, axis=0).ravel())
        flows = joined(flows, Flows.make(*ends, other, labels=("background",)))
    given: dict[str, Any] = {
        "control": "dcqcn",
        "sample": sample_of(2 * (2 * array + other), rate),
    }
    groups: dict[str, Any] = {"ring": range(n_ring)}
    if other > 0:
        groups["background"] = range(n_ring, flows.n_flows)
        if own_class:
            given["classes"] = {"ring": 0, "background": 1}
    routes = hashed(fabric, flows, seed)
    between = fabric.tier[fabric.source[routes.link]] > 0
    return Scenario(
        name="ring_all_reduce",
        shows="Each step of a ring waits for the slowest hop, so traffic of others on one cable delays all.",
        fabric=fabric,
        flows=flows,
        routes=routes,
        paths=all_paths(fabric, flows),
        config=given | config,
        links={"fullest link": fullest_link(fabric, routes, between)},
        groups=groups,
    )


# illustrative: small, for tests
@register("scenario", "mixed_tenants", small={"hosts": 4, "rounds": 2, "bulk": "200 kB"})
def mixed_tenants(
    hosts: int = 8,
    rounds: int = 10,
    small: units.Quantity = "64 kB",  # illustrative: chosen for a short run
    bulk: units.Quantity = "16 MB",  # illustrative: chosen for a short run
    *,
    own_class: bool = False,
    rate: units.Quantity = "400 Gb/s",  # illustrative: a port of 400 Gb/s, as of a ConnectX-7
    buffer: units.Quantity = "16 MB",  # illustrative: memory that fills soon
    **config: Any,
) -> Scenario:
    """Return small all-reduces, one after another, on the same ports as large transfers of somebody else.

    All hosts stand around one switch. Hosts 0 and 1 send a large flow to host 2, hosts 2 and 3 to host 4, and so on in
    a circle, so a queue stands at each even port. The all-reduces (halving and doubling) are short, but their messages
    wait behind the packets of the large flows: in that queue, and at the port of their own host. With ``own_class``
    they go first (strict priority). ``trace.time_of("small") / rounds`` is the mean time of one all-reduce.

    Parameters
    ----------
    hosts : int
        Number of hosts, a power of two. >= 4
    rounds : int
        All-reduces, each of which begins when the one before has ended everywhere. >= 1
    small, bulk : float or str
        The array of an all-reduce, and the size of each large flow; 0 for none. [B]
    own_class : bool
        Whether the all-reduces have a class of their own, which goes first.
    rate, buffer, **config
        As in `incast`.
    """
    n = units.count(hosts, "hosts", 4)
    many = units.count(rounds, "rounds")
    array = units.size(small, "small", may_be_zero=False)
    large = units.size(bulk, "bulk")
    fabric = one_switch(n, rate, "10 m")  # illustrative: a cable in a row of racks
    reduce = collectives.build("all_reduce", "halving_doubling", n)
    one = lower(reduce, fabric, array, expand=True)
    flows = labelled(_one_after_another(one, many), "small")
    n_small = flows.n_flows
    groups: dict[str, Any] = {"small": range(n_small)}
    if large > 0:
        source = np.arange(n)
        target = (source // 2 * 2 + 2) % n
        flows = joined(flows, Flows.make(*pairs(fabric, source, target), large, labels=("bulk",)))
        groups["bulk"] = range(n_small, flows.n_flows)
    given: dict[str, Any] = {
        "control": "dcqcn",
        "buffer": buffer,
        "sample": sample_of(2 * large + array, rate),
    }
    if own_class and large > 0:
        given["classes"] = {"small": 0, "bulk": 1}
    return Scenario(
        name="mixed_tenants",
        shows="Messages that need a microsecond wait behind megabytes of somebody else.",
        fabric=fabric,
        flows=flows,
        routes=hashed(fabric, flows),
        config=given | config,
        links={"port": port_to(fabric, int(fabric.endpoint[0]))},
        groups=groups,
    )


def _one_after_another(flows: Flows, rounds: int) -> Flows:
    """Return a graph of flows several times; each waits for the whole one before."""
    n = flows.n_flows
    ptr = flows.after_ptr
    is_last = np.ones(n, dtype=bool)
    is_last[flows.after] = False  # nobody waits for it
    last = np.flatnonzero(is_last)
    after: list[list[int]] = []
    for r in range(rounds):
        for f in range(n):
            row = (flows.after[ptr[f] : ptr[f + 1]] + r * n).tolist()
            if not row and r > 0:
                row = (last + (r - 1) * n).tolist()
            after.append(row)
    columns: dict[str, Any] = {}
    for name in ("source", "target", "size", "start", "lag", "weight", "limit"):
        columns[name] = np.tile(getattr(flows, name), rounds)
    return Flows.make(**columns, after=after)
