"""Trees of switches: leaf-spine, fat tree and XGFT, and one ideal switch, the network of the textbook formulas."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from fabriclab import catalog, units
from fabriclab.catalog.clos import Plan, rail_plan
from fabriclab.core import Fabric, FabricBuilder, check_size, column
from fabriclab.registry import register
from fabriclab.topologies._switches import Parts, add_switches, bisection, down_ports, family, start


@register("topology", "crossbar", small={"hosts": 4})
def crossbar(hosts: int, rate: units.Quantity | None = None, delay: units.Quantity = 0.0) -> Fabric:
    """Return hosts around one ideal switch: no two flows meet except at a host.

    ``hosts`` cables; diameter 2 links; every half can send to the other at hosts/2 times the rate.

    Parameters
    ----------
    hosts : int
        Number of hosts. >= 1
    rate : float or str, optional
        Rate of every link; a ConnectX-7 NIC unless given. [B/s]
    delay : float or str
        Delay of every link: two of them lie between two hosts. [s]
    """
    n = units.count(hosts, "hosts")
    capacity = catalog.value("nics", "cx7", "throughput") if rate is None else units.rate(rate)
    check_size(f"a crossbar of {n} hosts", n + 1, n)
    b = FabricBuilder(("host", "switch"), ("server",))
    host = b.add_nodes("host", n, tier=0, transit=False, server=np.arange(n))
    switch = b.add_nodes("switch", 1, tier=1, transit=True)
    b.add_cables(host, switch, capacity=capacity, delay=units.latency(delay, "delay"))
    return b.build("crossbar", {}, endpoint=host, rail=np.zeros(n), server=np.arange(n))


def _of_one_rail(hosts: int, **asked: Any) -> int | None:
    """Take the hosts as servers of one NIC on one rail."""
    return bisection(servers=hosts, gpus=1, rails=1, expand=False, apart=True, **asked)


@family("leaf_spine", small={"hosts": 16, "radix": 8}, bisection=_of_one_rail)
def leaf_spine(
    hosts: int, radix: int | None = None, oversubscription: float = 1, **asked: Any
) -> Fabric:
    """Return two tiers of switches, or one switch where it has ports for all hosts.

    With radix k and 1:1 a leaf has k/2 hosts and k/2 uplinks. Full size: k leaves, k/2 spines, k^2/2 hosts
    and as many cables between switches; diameter 4 links; bisection hosts/2 links each way, divided by the
    oversubscription. Other sizes: leaves are filled in order, so the last may have free ports; the spines
    are the fewest with which every leaf has the same number of cables to every spine, and a leaf gets more
    uplinks than it needs if only so they spread evenly.

    Parameters
    ----------
    hosts : int
        Number of hosts. >= 1
    radix : int, optional
        Ports of a switch; 64 (Quantum-2) unless given. >= 2
    oversubscription : float
        Ports down to ports up of a leaf, at most. >= 1
    rate : float or str, optional
        Rate of every link; 400 Gb/s (ConnectX-7) unless given. [B/s]
    switch_delay : float or str, optional
        Forwarding time of a switch; see `Parts.parse`. [s]
    host_length, switch_length : float or str
        Length of the cables to hosts and between switches; illustrative. [m]

    Raises
    ------
    ValueError
        If the hosts need more leaves than a spine has ports.
    """
    parts = Parts.parse(radix=radix, **asked)
    n, k = units.count(hosts, "hosts"), parts.radix
    down = down_ports(k, oversubscription)
    if n > k * down:
        msg = f"hosts must be within 1..{k * down} for two tiers of {k}-port switches with {down} ports down, got {n}; "
        raise ValueError(msg + "take a larger radix or the family fat_tree")
    plan, per_leaf, _ = rail_plan(n, 1, 1, k, down, oversubscription, joined=1)
    return _of_hosts(n, per_leaf, plan, parts)


@family(
    "fat_tree",
    fixed="radix",
    small={"k": 4},
    bisection=lambda k, tiers=3, **_: (k**3 if tiers == 3 else 2 * k * k) // 8,
)
def fat_tree(k: int, tiers: int = 3, **asked: Any) -> Fabric:
    """Return a k-ary fat tree of full size; leaves and spines are the edge and aggregation switches of [1]_.

    Three tiers: k pods of k/2 leaves and k/2 spines, and k^2/4 cores; k^3/4 hosts, 5k^2/4 switches, k^3/4
    cables at each of three levels; spine i of each pod is joined to the cores i k/2, ..., i k/2 + k/2 - 1;
    diameter 6 links, k^2/4 shortest paths between pods. Two tiers: k leaves, k/2 spines, k^2/2 hosts and
    as many cables at each of two levels; diameter 4. Bisection: hosts/2 links each way in both.

    Parameters
    ----------
    k : int
        Ports of a switch, even. >= 2
    tiers : int
        2 or 3.
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
    parts = Parts.parse(radix=k, **asked)
    two = units.count(tiers, "tiers", 2, 3) == 2
    plan = Plan(1, k, half, 1) if two else Plan(k, half, half, 1, half, 1)
    return _of_hosts(plan.pods * plan.leaves * half, half, plan, parts)


def _of_hosts(n: int, down: int, plan: Plan, parts: Parts) -> Fabric:
    """Return a Clos with ``n`` hosts, ``down`` on each leaf in order."""
    b = start(("host",), plan, n, n, f"a fabric of {n} hosts")
    number = np.arange(n)
    host = b.add_nodes("host", n, tier=0, transit=False, server=number)
    add_switches(b, plan, parts, host, number // down)
    return b.build("clos", {}, endpoint=host, rail=np.zeros(n), server=number)


def _narrowest(m: Sequence[int], w: Sequence[int], **_: Any) -> int | None:
    # that hang on the cables of each tier, the hosts first
    subtrees = [prod(m[i:]) for i in range(len(m))]
    cables = [n * prod(w[: i + 1]) for i, n in enumerate(subtrees)]
    if cables[0] == min(cables):
        return w[0] * (subtrees[0] // 2)
    return next(
        (c // 2 for c, n in zip(cables, subtrees, strict=True) if c == min(cables) and n % 2 == 0),
        None,
    )


@family("xgft", small={"m": (3, 2, 2), "w": (1, 2, 2)}, bisection=_narrowest)
def xgft(m: Sequence[int], w: Sequence[int], **asked: Any) -> Fabric:
    """Return the XGFT(h; m1, ..., mh; w1, ..., wh) of [1]_: h tiers of switches above the hosts.

    A switch of tier i has m_i children, a node of tier i - 1 has w_i parents, one cable each. Tier i has
    w_1 ... w_i m_{i+1} ... m_h nodes, named by h digits: where it hangs in the tiers above, then which of the
    parallel ones it is. Two nodes are joined that differ in digit i only. Diameter 2 h links; two hosts whose
    digits differ first in digit i are 2 i apart, over w_1 ... w_i shortest paths. A switch of tier i is
    oversubscribed by m_i : w_{i+1}. Bisection: half of the cables of the tier that has fewest, if they lead to an
    even number of subtrees. With w_1 > 1 a host hangs on w_1 planes.

    ``m=(k/2, k/2, k), w=(1, k/2, k/2)`` is the fat tree of k ports, ``m=(d, leaves), w=(1, spines)`` a leaf-spine.

    Parameters
    ----------
    m, w : sequence of int
        Children and parents, lowest tier first; as many of each. >= 1
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
    parts = Parts.parse(**asked)
    children, parents = (
        [units.count(x, name) for x in column(v, name).tolist()] for name, v in (("m", m), ("w", w))
    )
    h = len(children)
    if h != len(parents) or not h:
        msg = f"m and w must have one number for each tier of switches, got {h} and {len(parents)}; write m=(4, 8), "
        raise ValueError(msg + "w=(1, 4) for 4 hosts on each of 8 leaves, and 4 spines")
    for i, (down, up) in enumerate(zip(children, [*parents[1:], 0], strict=True), 1):
        if down + up > parts.radix:
            msg = f"radix must be >= {down + up} (a switch of tier {i} has {down} children and {up} parents), got "
            raise ValueError(msg + f"{parts.radix}; take a larger radix, or a smaller m or w")
    size = [prod(parents[:i]) * prod(children[i:]) for i in range(h + 1)]
    check_size(
        f"a fabric of {size[0]} hosts",
        sum(size),
        sum(n * up for n, up in zip(size[:-1], parents, strict=True)),
    )
    kinds = ("host", "leaf", "spine", "core", *(f"tier{i}" for i in range(4, h + 1)))[: h + 1]
    b = FabricBuilder(kinds, [f"digit {i}" for i in range(h, 0, -1)])
    below = np.zeros(0, dtype=np.int64)
    for i, kind in enumerate(kinds):
        digits = np.unravel_index(
            np.arange(size[i]), (*reversed(children[i:]), *reversed(parents[:i]))
        )
        coord = dict(zip(b.coord_names, digits, strict=True))
        ports, forwarding = (parts.radix, parts.forwarding) if i else (0, 0.0)
        node = b.add_nodes(
            kind, size[i], tier=i, transit=i > 0, radix=ports, forwarding=forwarding, **coord
        )
        if i:
            length, same = (
                (parts.switch_length if i > 1 else parts.host_length),
                prod(parents[: i - 1]),
            )
            lower, upper = (
                below.reshape(-1, children[i - 1], 1, same),
                node.reshape(-1, 1, parents[i - 1], same),
            )
            parts.join(b, lower, upper, length)
        below = node
    return b.build(
        "xgft", {}, endpoint=range(size[0]), rail=np.zeros(size[0]), server=range(size[0])
    )
