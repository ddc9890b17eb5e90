"""Trees of switches: leaf-spine, fat tree and XGFT, and the single ideal switch that textbook formulas assume."""

from collections.abc import Sequence
from math import prod

import numpy as np

from fabriclab import catalog, units
from fabriclab.catalog.clos import ClosPlan, rail_plan
from fabriclab.core import Fabric, FabricBuilder, Ints, check_size, column
from fabriclab.registry import register
from fabriclab.topologies._switches import (
    HOST_LENGTH,
    SWITCH_LENGTH,
    Parts,
    add_switches,
    bisection,
    down_ports,
    start,
)


@register("topology", "crossbar", small={"hosts": 4})
def crossbar(hosts: int, rate: units.Quantity | None = None, delay: units.Quantity = 0.0) -> Fabric:
    """Build one ideal switch with hosts around it: two flows share a link only if they share a host.

    It has ``hosts`` cables and a diameter of 2 links; any half of the hosts can send to the other half at hosts/2 times
    the rate of a link.

    Parameters
    ----------
    hosts : int
        Number of hosts. >= 1
    rate : float or str, optional
        Rate of every link; a ConnectX-7 NIC unless given. [B/s]
    delay : float or str
        Delay of every link; there are two links between two hosts. [s]
    """
    n = units.count(hosts, "hosts")
    if rate is None:
        capacity = catalog.value("nics", "cx7", "throughput")
    else:
        capacity = units.rate(rate)
    check_size(f"a crossbar of {n} hosts", n + 1, n)
    b = FabricBuilder(("host", "switch"), ("server",))
    host = b.add_nodes("host", n, tier=0, transit=False, server=np.arange(n))
    switch = b.add_nodes("switch", 1, tier=1, transit=True)
    b.add_cables(host, switch, capacity=capacity, delay=units.latency(delay, "delay"))
    return b.build("crossbar", {}, endpoint=host, rail=np.zeros(n), server=np.arange(n))


def _leaf_spine_bisection(
    hosts: int, radix: int | None = None, oversubscription: float = 1, **_: object
) -> int | None:
    """Return the number of cables in the narrowest cut; each host counts as a server with one NIC, on a single rail."""
    return bisection(
        servers=hosts,
        gpus=1,
        rails=1,
        radix=radix,
        oversubscription=oversubscription,
        expand=False,
        apart=True,
    )


@register(
    "topology", "leaf_spine", small={"hosts": 16, "radix": 8}, bisection=_leaf_spine_bisection
)
def leaf_spine(
    hosts: int,
    radix: int | None = None,
    oversubscription: float = 1,
    *,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
    """Build a leaf-spine network of two tiers, or a single switch if it has ports for all hosts.

    With radix k and no oversubscription (1:1) a leaf has k/2 hosts and k/2 uplinks. Full size: k leaves, k/2 spines,
    k^2/2 hosts and as many cables between switches; the diameter is 4 links, and the bisection hosts/2 links in each
    direction, divided by the oversubscription. Other sizes: leaves are filled in order, so the last one may have free
    ports. There are as few spines as possible while every leaf has the same number of cables to every spine; a leaf
    gets more uplinks than it needs where they cannot be spread evenly otherwise.

    Parameters
    ----------
    hosts : int
        Number of hosts. >= 1
    radix : int, optional
        Ports of a switch; 64 (Quantum-2) unless given. >= 2
    oversubscription : float
        Highest ratio of ports down to ports up of a leaf. >= 1
    rate : float or str, optional
        Rate of every link; 400 Gb/s (ConnectX-7) unless given. [B/s]
    switch_delay : float or str, optional
        Forwarding time of a switch; 330 ns (Quantum-2) unless given, see `Parts.parse`. [s]
    host_length, switch_length : float or str
        Length of the cables to hosts and between switches; illustrative. [m]

    Raises
    ------
    ValueError
        If the hosts need more leaves than a spine has ports.
    """
    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    n = units.count(hosts, "hosts")
    k = parts.radix
    down = down_ports(k, oversubscription)
    if n > k * down:
        msg = f"hosts must be within 1..{k * down} for two tiers of {k}-port switches with {down} ports down, got {n}; "
        raise ValueError(msg + "take a larger radix or the family fat_tree")
    plan = rail_plan(n, 1, 1, k, down, oversubscription, joined=1)
    return _of_hosts(n, plan.servers_per_leaf, plan.clos, parts)


def _fat_tree_bisection(k: int, tiers: int = 3, **_: object) -> int:
    """Return the number of cables in the narrowest cut: one for each host of one half."""
    hosts = k**3 // 4 if tiers == 3 else k * k // 2
    return hosts // 2


@register(
    "topology",
    "fat_tree",
    small={"k": 4},
    bisection=_fat_tree_bisection,
)
def fat_tree(
    k: int,
    tiers: int = 3,
    *,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
    """Build a k-ary fat tree of full size, from switches with k ports.

    Leaves and spines are called edge and aggregation switches in [1]_. Three tiers: k pods, each of k/2 leaves and k/2
    spines, and k^2/4 cores; in all k^3/4 hosts, 5k^2/4 switches and k^3/4 cables at each of three levels. Spine i of
    each pod is joined to cores i k/2, ..., i k/2 + k/2 - 1. The diameter is 6 links, and k^2/4 shortest paths lead from
    a host to a host of another pod. Two tiers: k leaves, k/2 spines, k^2/2 hosts and as many cables at each of two
    levels; the diameter is 4 links. The bisection is hosts/2 links in each direction for both.

    Parameters
    ----------
    k : int
        Ports of a switch, an even number. >= 2
    tiers : int
        Tiers of switches, 2 or 3.
    rate, switch_delay, host_length, switch_length : float or str, optional
        As in ``leaf_spine``. [B/s], [s], [m], [m]

    Raises
    ------
    ValueError
        If k is odd.

    References
    ----------
    .. [1] M. Al-Fares, A. Loukissas, A. Vahdat, A scalable, commodity data center network architecture,
       SIGCOMM 2008.
    """
    half = units.count(k, "k", 2) // 2
    if k % 2:
        raise ValueError(
            f"k must be even (half of the ports face up), got {k}; take {k - 1} or {k + 1}"
        )
    parts = Parts.parse(
        radix=k,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    if units.count(tiers, "tiers", 2, 3) == 2:
        plan = ClosPlan(pods=1, leaves=k, spines=half, per_spine=1)
    else:
        plan = ClosPlan(pods=k, leaves=half, spines=half, per_spine=1, cores=half, per_core=1)
    return _of_hosts(plan.pods * plan.leaves * half, half, plan, parts)


def _of_hosts(n: int, down: int, plan: ClosPlan, parts: Parts) -> Fabric:
    """Build a folded Clos with ``n`` hosts, ``down`` on each leaf, filled in order."""
    b = start(("host",), plan, n, n, f"a fabric of {n} hosts")
    number = np.arange(n)
    host = b.add_nodes("host", n, tier=0, transit=False, server=number)
    add_switches(b, plan, parts, host, number // down)
    return b.build("clos", {}, endpoint=host, rail=np.zeros(n), server=number)


def _xgft_bisection(m: Sequence[int], w: Sequence[int], **_: object) -> int | None:
    """Return the number of cables in the narrowest cut, or None if the tier with the fewest has no even cut."""
    # For each tier, hosts first: the number of subtrees below its cables, and the number of these cables.
    subtrees = [prod(m[i:]) for i in range(len(m))]
    cables = [n * prod(w[: i + 1]) for i, n in enumerate(subtrees)]
    fewest = min(cables)
    if cables[0] == fewest:
        return w[0] * (subtrees[0] // 2)

    for tier_cables, tier_subtrees in zip(cables, subtrees, strict=True):
        if tier_cables == fewest and tier_subtrees % 2 == 0:
            return tier_cables // 2
    return None


@register("topology", "xgft", small={"m": (3, 2, 2), "w": (1, 2, 2)}, bisection=_xgft_bisection)
def xgft(
    m: Sequence[int],
    w: Sequence[int],
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
    """Build an extended generalised fat tree, XGFT(h; m1, ..., mh; w1, ..., wh) [1]_: h tiers of switches above hosts.

    A switch of tier i has m_i children, and a node of tier i - 1 has w_i parents, with one cable to each. Tier i has
    w_1 ... w_i m_{i+1} ... m_h nodes. A node is named by h digits: first its subtree in each tier above, then its
    number among the parallel switches of that subtree. A node of tier i - 1 and a switch of tier i are joined if they
    differ in digit i only. The diameter is 2 h links; two hosts whose digits first differ in digit i are 2 i links
    apart, with w_1 ... w_i shortest paths. A switch of tier i is oversubscribed by m_i : w_{i+1}. The bisection is half
    of the cables of the tier with the fewest, if these lead to an even number of subtrees. With w_1 > 1 a host has a
    cable to each of w_1 planes.

    ``m=(k/2, k/2, k), w=(1, k/2, k/2)`` is the fat tree of k-port switches; ``m=(d, leaves), w=(1, spines)`` is a
    leaf-spine network.

    Parameters
    ----------
    m, w : sequence of int
        Children of a switch and parents of the node below it, one number of each per tier, lowest tier first. >= 1
    radix : int, optional
        Ports of a switch; 64 (Quantum-2) unless given. >= m_i + w_{i+1}
    rate, switch_delay, host_length, switch_length : float or str, optional
        As in ``leaf_spine``. [B/s], [s], [m], [m]

    Raises
    ------
    ValueError
        If m and w differ in length, or a switch has too few ports.

    References
    ----------
    .. [1] S. R. Öhring, M. Ibel, S. K. Das, M. J. Kumar, On generalized fat trees, IPPS 1995.
    """
    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    children = _whole_numbers(m, "m")
    parents = _whole_numbers(w, "w")
    _check_ports(children, parents, parts.radix)
    tiers = len(children)
    # Tier i has w_1 ... w_i m_{i+1} ... m_h nodes.
    size = [prod(parents[:i]) * prod(children[i:]) for i in range(tiers + 1)]
    cables = sum(n * up for n, up in zip(size[:-1], parents, strict=True))
    check_size(f"a fabric of {size[0]} hosts", sum(size), cables)

    kinds = _xgft_kinds(tiers)
    names = [f"digit {i}" for i in range(tiers, 0, -1)]
    b = FabricBuilder(kinds, names)

    def add(tier: int) -> Ints:
        """Add all nodes of a tier, with their digits as coordinates, and return their numbers."""
        bases = (*reversed(children[tier:]), *reversed(parents[:tier]))
        digits = np.unravel_index(np.arange(size[tier]), bases)
        is_switch = tier > 0
        return b.add_nodes(
            kinds[tier],
            size[tier],
            tier=tier,
            transit=is_switch,
            radix=parts.radix if is_switch else 0,
            forwarding=parts.forwarding if is_switch else 0.0,
            **dict(zip(names, digits, strict=True)),
        )

    below = add(0)
    for tier in range(1, tiers + 1):
        node = add(tier)
        # Nodes that are joined differ in digit i only. Axes: the digits above it, digit i of the child, digit i of
        # the parent, the digits below it.
        n_below = prod(parents[: tier - 1])  # combinations of the digits below
        lower = below.reshape(-1, children[tier - 1], 1, n_below)
        upper = node.reshape(-1, 1, parents[tier - 1], n_below)
        length = parts.host_length if tier == 1 else parts.switch_length
        parts.join(b, lower, upper, length)
        below = node
    return b.build(
        "xgft", {}, endpoint=range(size[0]), rail=np.zeros(size[0]), server=range(size[0])
    )


def _whole_numbers(values: Sequence[int], name: str) -> list[int]:
    """Return a sequence as a list of whole numbers >= 1, or refuse it by name."""
    return [units.count(value, name) for value in column(values, name).tolist()]


def _check_ports(children: list[int], parents: list[int], radix: int) -> None:
    """Refuse lists of children and parents that differ in length or need more ports than a switch has."""
    if len(children) != len(parents) or not children:
        raise ValueError(
            "m and w must have one number for each tier of switches, "
            f"got {len(children)} and {len(parents)}; "
            "write m=(4, 8), w=(1, 4) for 4 hosts on each of 8 leaves, and 4 spines"
        )
    parents_of_switch = [*parents[1:], 0]
    for tier, (down, up) in enumerate(zip(children, parents_of_switch, strict=True), 1):
        if down + up > radix:
            raise ValueError(
                f"radix must be >= {down + up} (a switch of tier {tier} has {down} children and {up} parents), "
                f"got {radix}; take a larger radix, or a smaller m or w"
            )


def _xgft_kinds(tiers: int) -> tuple[str, ...]:
    """Return the kinds of nodes of an XGFT, hosts first."""
    kinds = ["host", "leaf", "spine", "core"]
    for tier in range(4, tiers + 1):
        kinds.append(f"tier{tier}")
    return tuple(kinds[: tiers + 1])
