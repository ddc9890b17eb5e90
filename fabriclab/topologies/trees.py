"""Trees of switches: leaf-spine, fat tree and XGFT, and the single ideal switch that textbook formulas assume."""

import math
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

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
from fabriclab.topologies.clusters import Ends, in_servers, read_ends


@register("topology", "crossbar", small={"hosts": 4}, with_servers={"servers": 2, "gpus": 2})
def crossbar(
    hosts: int | None = None,
    rate: units.Quantity | None = None,
    delay: units.Quantity = 0.0,
    *,
    servers: int | None = None,
    gpus: int | None = None,
    nvlink: units.Quantity | None = None,
    pcie: units.Quantity | None = None,
) -> Fabric:
    """Build one ideal switch with hosts around it: two flows share a link only if they share a host.

    It has ``hosts`` cables and a diameter of 2 links; any half of the hosts can send to the other half at hosts/2 times
    the rate of a link.

    Parameters
    ----------
    hosts : int
        Number of hosts; instead of it, ``servers``. >= 1
    rate : float or str, optional
        Rate of every link; a ConnectX-7 NIC unless given. [B/s]
    delay : float or str
        Delay of every link; there are two links between two hosts. [s]
    servers, gpus, nvlink, pcie : optional
        As in ``leaf_spine``. [servers], [GPUs], [B/s], [B/s]
    """
    ends = _needed(read_ends(hosts, servers, gpus), "crossbar")
    n = ends.ports
    if rate is None:
        capacity = catalog.value("nics", "cx7", "throughput")
    else:
        capacity = units.rate(rate)
    check_size(f"a crossbar of {n} hosts", n + 1, n)
    b = FabricBuilder(("host", "switch"), ("server",))
    host = b.add_nodes("host", n, tier=0, transit=False, server=np.arange(n))
    switch = b.add_nodes("switch", 1, tier=1, transit=True)
    b.add_cables(host, switch, capacity=capacity, delay=units.latency(delay, "delay"))
    network = b.build("crossbar", {}, endpoint=host, rail=np.zeros(n), server=np.arange(n))
    return in_servers(network, ends.gpus, nvlink, pcie)


def _needed(ends: Ends | None, family: str, others: str = "") -> Ends:
    """Return what a network has to connect, or say that it is missing; ``others`` are further arguments that count."""
    if ends is None:
        raise TypeError(
            f"{family}: missing the size, got neither hosts nor servers; give {others}hosts=256 for so many hosts, "
            "or servers=32, gpus=8 for servers with 8 GPUs and NICs each"
        )
    return ends


def _leaf_spine_bisection(
    hosts: int | None = None,
    radix: int | None = None,
    oversubscription: float = 1,
    *,
    servers: int | None = None,
    gpus: int | None = None,
    rate: units.Quantity | None = None,
    pcie: units.Quantity | None = None,
    **_: object,
) -> int | None:
    """Return the number of cables in the narrowest cut; hosts and servers are all on one rail."""
    ends = _needed(read_ends(hosts, servers, gpus), "leaf_spine")
    return bisection(
        servers=ends.count,
        gpus=ends.each,
        rails=1,
        radix=radix,
        oversubscription=oversubscription,
        rate=rate,
        pcie=pcie,
        expand=ends.gpus is not None,
        apart=True,
    )


@register(
    "topology",
    "leaf_spine",
    small={"hosts": 16, "radix": 8},
    with_servers={"servers": 6, "gpus": 2, "radix": 8},
    bisection=_leaf_spine_bisection,
)
def leaf_spine(
    hosts: int | None = None,
    radix: int | None = None,
    oversubscription: float = 1,
    *,
    servers: int | None = None,
    gpus: int | None = None,
    nvlink: units.Quantity | None = None,
    pcie: units.Quantity | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
    """Build a leaf-spine network of two tiers, or a single switch if it has ports for all hosts.

    ``leaf_spine(hosts=256)`` connects hosts with one port each; ``leaf_spine(servers=32, gpus=8)`` connects the servers
    of ``rail_optimised`` by rack: a leaf takes all NICs of a few neighbouring servers.

    With radix k and no oversubscription (1:1) a leaf has k/2 hosts and k/2 uplinks. Full size: k leaves, k/2 spines,
    k^2/2 hosts and as many cables between switches; the diameter is 4 links, and the bisection hosts/2 links in each
    direction, divided by the oversubscription. Other sizes: leaves are filled in order, so the last one may have free
    ports. There are as few spines as possible while every leaf has the same number of cables to every spine; a leaf
    gets more uplinks than it needs where they cannot be spread evenly otherwise.

    With servers, NIC i of a server is the port of its GPU i, all NICs of a server are on one leaf (so a leaf may have
    free ports), rank r is GPU r modulo ``gpus`` of server r // ``gpus``, and all ranks have rail 0. For other servers
    see ``topologies.compose``.

    Parameters
    ----------
    hosts : int
        Number of hosts; instead of it, ``servers``. With ``gpus`` the hosts are the NICs of servers. >= 1
    radix : int, optional
        Ports of a switch; 64 (Quantum-2) unless given. >= 2
    oversubscription : float
        Highest ratio of ports down to ports up of a leaf. >= 1
    servers : int, optional
        Number of servers, in place of hosts. >= 1
    gpus : int, optional
        GPUs of a server, each with a NIC; 8 unless given. >= 1
    nvlink, pcie : float or str, optional
        Rates inside a server, as in ``rail_optimised``. [B/s]
    rate : float or str, optional
        Rate of every link; 400 Gb/s (ConnectX-7) unless given. [B/s]
    switch_delay : float or str, optional
        Forwarding time of a switch; 330 ns (Quantum-2) unless given, see `Parts.parse`. [s]
    host_length, switch_length : float or str
        Length of the cables to hosts and between switches; illustrative. [m]

    Raises
    ------
    TypeError
        If neither hosts nor servers are given.
    ValueError
        If the hosts or servers need more leaves than a spine has ports.
    """
    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    ends = _needed(read_ends(hosts, servers, gpus), "leaf_spine")
    k = parts.radix
    down = down_ports(k, oversubscription)
    _check_fits_leaf(ends, k, down)
    most = max(k * (down // ends.each), k // ends.each)  # in two tiers, or on one switch
    if ends.count > most:
        msg = (
            f"{ends.title} must be within 1..{most} for two tiers of {k}-port switches with {down} ports down, "
            f"got {ends.count}; "
        )
        raise ValueError(msg + "take a larger radix or the family fat_tree")
    plan = rail_plan(ends.count, ends.each, 1, k, down, oversubscription, joined=1)
    network = _of_hosts(ends.ports, plan.servers_per_leaf * ends.each, plan.clos, parts)
    return in_servers(network, ends.gpus, nvlink, pcie)


def _check_fits_leaf(ends: Ends, radix: int, down: int) -> None:
    """Refuse servers with more NICs than a leaf has ports for, unless all of them fit on a single switch."""
    if ends.each > down and ends.ports > radix:
        raise ValueError(
            f"gpus must be within 1..{down}, since one leaf takes all NICs of a server and {down} of its {radix} "
            f"ports face down, got {ends.each}; take a larger radix, or a family with rails"
        )


class _FatTree(NamedTuple):
    """Size of a fat tree: ports of a switch, tiers, ports of a leaf that face down, and what it connects."""

    k: int
    tiers: int
    down: int
    ends: Ends


def _leaves(k: int, tiers: int) -> int:
    """Return the most leaves of a fat tree: a pod has k/2 and there are k pods; in two tiers there are k leaves."""
    return k if tiers == 2 else k // 2 * k


def _fat_tree_size(
    k: int | None,
    tiers: int,
    hosts: int | None,
    servers: int | None,
    gpus: int | None,
    oversubscription: float,
) -> _FatTree:
    """Return the size of a fat tree: of full size for the given k, or with the least k for the given hosts."""
    tiers = units.count(tiers, "tiers", 2, 3)
    ends = read_ends(hosts, servers, gpus)
    if k is None:
        ports = _least_k(
            _needed(ends, "fat_tree", "k=8 for the largest of 8-port switches, "),
            tiers,
            oversubscription,
        )
    else:
        ports = units.count(k, "k", 2)
        if ports % 2:
            raise ValueError(
                f"k must be even (half of the ports face up), got {k}; take {ports - 1} or {ports + 1}"
            )
    down = down_ports(ports, oversubscription)
    if ends is None:
        each = 1 if gpus is None else units.count(gpus, "gpus")
        ends = Ends(down // each * _leaves(ports, tiers), each, gpus)
    if ends.each > down:
        raise ValueError(
            f"gpus must be within 1..{down}, since one leaf takes all NICs of a server and {down} of its {ports} "
            f"ports face down, got {ends.each}; take a larger k"
        )
    most = down // ends.each * _leaves(ports, tiers)
    if ends.count > most:
        raise ValueError(
            f"{ends.title} must be within 1..{most} for {tiers} tiers of {ports}-port switches with {down} ports down "
            f"of a leaf, got {ends.count}; leave out k for the least that is enough"
        )
    return _FatTree(ports, tiers, down, ends)


def _least_k(ends: Ends, tiers: int, oversubscription: float) -> int:
    """Return the least even number of ports with which a fat tree of so many tiers connects all hosts or servers."""
    # k^tiers is more than a tree of k-port switches can have, so no smaller k than this root needs to be tried.
    root: float = ends.ports ** (1 / tiers)
    k = 2 * math.floor(root / 2)
    while True:
        k += 2
        if k < 1 + oversubscription:  # not even one port would face up
            continue
        servers_per_leaf = down_ports(k, oversubscription) // ends.each
        if servers_per_leaf * _leaves(k, tiers) >= ends.count:
            return k


def _fat_tree_bisection(
    k: int | None = None,
    tiers: int = 3,
    *,
    hosts: int | None = None,
    servers: int | None = None,
    gpus: int | None = None,
    oversubscription: float = 1,
    rate: units.Quantity | None = None,
    pcie: units.Quantity | None = None,
    **_: object,
) -> int | None:
    """Return the number of cables in the narrowest cut; hosts and servers are all on one rail."""
    tree = _fat_tree_size(k, tiers, hosts, servers, gpus, oversubscription)
    return bisection(
        servers=tree.ends.count,
        gpus=tree.ends.each,
        rails=1,
        radix=tree.k,
        oversubscription=oversubscription,
        tiers=tree.tiers,
        rate=rate,
        pcie=pcie,
        expand=tree.ends.gpus is not None,
    )


@register(
    "topology",
    "fat_tree",
    small={"k": 4},
    with_servers={"servers": 6, "gpus": 2, "k": 4},
    bisection=_fat_tree_bisection,
)
def fat_tree(
    k: int | None = None,
    tiers: int = 3,
    *,
    hosts: int | None = None,
    servers: int | None = None,
    gpus: int | None = None,
    oversubscription: float = 1,
    nvlink: units.Quantity | None = None,
    pcie: units.Quantity | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
    """Build a fat tree from switches with k ports: of full size for a given k, or for a given number of hosts.

    Leaves and spines are called edge and aggregation switches in [1]_. Full size with three tiers: k pods, each of k/2
    leaves and k/2 spines, and k^2/4 cores; in all k^3/4 hosts, 5k^2/4 switches and k^3/4 cables at each of three
    levels. Spine i of each pod is joined to cores i k/2, ..., i k/2 + k/2 - 1. The diameter is 6 links, and k^2/4
    shortest paths lead from a host to a host of another pod. Two tiers: k leaves, k/2 spines, k^2/2 hosts and as many
    cables at each of two levels; the diameter is 4 links. The bisection is hosts/2 links in each direction for both.

    ``fat_tree(hosts=256)`` is the part of a full tree that 256 hosts need. k is the least even number with which a full
    tree has room for them (here 12, room for 432), unless it is given: ``fat_tree(k=64, hosts=256)`` takes real
    switches. Leaves and pods are filled in order, and all pods have the same switches; spines and cores are as few as
    can be with evenly spread cables, as in ``rail_optimised``.

    ``fat_tree(hosts=256, oversubscription=2)`` has up to two ports down for each port up on a leaf; above the leaves it
    is not oversubscribed. A full tree with oversubscription s has about k^3 s / (2 (1 + s)) hosts.

    ``fat_tree(servers=32, gpus=8)`` connects servers by rack, as ``leaf_spine`` does.

    Parameters
    ----------
    k : int, optional
        Ports of a switch, an even number; needed unless hosts or servers are given. >= 2
    tiers : int
        Tiers of switches, 2 or 3.
    hosts, servers, gpus : int, optional
        What it connects, as in ``leaf_spine``; with k alone as many hosts, or servers of ``gpus`` GPUs, as fit.
    oversubscription : float
        Highest ratio of ports down to ports up of a leaf; also called taper. >= 1
    nvlink, pcie, rate, switch_delay, host_length, switch_length : float or str, optional
        As in ``leaf_spine``. [B/s], [B/s], [B/s], [s], [m], [m]

    Raises
    ------
    TypeError
        If neither k nor hosts nor servers are given.
    ValueError
        If k is odd, or too small for the hosts or servers.

    References
    ----------
    .. [1] M. Al-Fares, A. Loukissas, A. Vahdat, A scalable, commodity data center network architecture,
       SIGCOMM 2008.
    """
    tree = _fat_tree_size(k, tiers, hosts, servers, gpus, oversubscription)
    parts = Parts.parse(
        radix=tree.k,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    ends = tree.ends
    check_size(f"a fabric of {ends.ports} hosts", ends.ports, ends.ports)
    plan = rail_plan(
        ends.count, ends.each, 1, tree.k, tree.down, oversubscription, tiers=tree.tiers
    )
    network = _of_hosts(ends.ports, plan.servers_per_leaf * ends.each, plan.clos, parts)
    return in_servers(network, ends.gpus, nvlink, pcie)


def _of_hosts(n: int, down: int, plan: ClosPlan, parts: Parts) -> Fabric:
    """Build a folded Clos with ``n`` hosts, ``down`` on each leaf, filled in order."""
    b = start(("host",), plan, n, n, f"a fabric of {n} hosts")
    number = np.arange(n)
    host = b.add_nodes("host", n, tier=0, transit=False, server=number)
    add_switches(b, plan, parts, host, number // down)
    return b.build("clos", {}, endpoint=host, rail=np.zeros(n), server=number)


def _xgft_bisection(
    m: Sequence[int], w: Sequence[int], gpus: int | None = None, **_: object
) -> int | None:
    """Return the number of cables in the narrowest cut, or None if the tier with the fewest has no even cut."""
    if gpus is not None:  # a server ties its hosts together
        return None
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


@register(
    "topology",
    "xgft",
    small={"m": (3, 2, 2), "w": (1, 2, 2)},
    with_servers={"m": (4, 2, 2), "w": (1, 2, 2), "gpus": 2},
    bisection=_xgft_bisection,
)
def xgft(
    m: Sequence[int],
    w: Sequence[int],
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
    gpus: int | None = None,
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
    gpus : int, optional
        GPUs of a server: the hosts, in their order, become the NICs of servers, as in ``leaf_spine``. >= 1

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
    network = b.build(
        "xgft", {}, endpoint=range(size[0]), rail=np.zeros(size[0]), server=range(size[0])
    )
    return in_servers(network, gpus)


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
