"""Dragonfly and dragonfly+: groups of switches, with few long cables between any two groups."""

from typing import NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Ints
from fabriclab.registry import register
from fabriclab.topologies._switches import HOST_LENGTH, SWITCH_LENGTH, Parts, assemble, check

_ARRANGEMENTS = ("palm_tree", "absolute")


@register(
    "topology",
    "dragonfly",
    small={"p": 1, "a": 2, "h": 1},
    with_servers={"p": 2, "a": 2, "h": 1, "gpus": 2},
)
def dragonfly(
    p: int,
    a: int,
    h: int,
    groups: int | None = None,
    arrangement: str = "palm_tree",
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
    gpus: int | None = None,
) -> Fabric:
    """Build a dragonfly: every switch is joined to all others of its group, and every group to all other groups.

    Sizes, with g groups: a g switches, p a g hosts, g a (a - 1) / 2 cables within groups, and floor(a h / (g - 1))
    cables between any two groups; further ports to other groups stay free. A switch that uses all its ports has degree
    p + a - 1 + h. A dragonfly is balanced if a = 2p = 2h [1]_. Distance: at most 3 links between switches (one in the
    first group, one between groups, one in the last group), so at most 5 between hosts. The mean depends on the
    arrangement: between distinct switches of the balanced dragonfly with h = 4 it is 2.686 links as "palm_tree" and
    2.694 as "absolute".

    Parameters
    ----------
    p : int
        Hosts on each switch; with 0 the switches are chips, which are endpoints themselves. >= 0
    a : int
        Switches in a group. >= 1
    h : int
        Ports of a switch that lead to other groups. >= 1
    groups : int, optional
        Number of groups, 2..a h + 1; the largest unless given.
    arrangement : str
        Which port of a group leads to which group. Switch r of a group has ports r h, ..., r h + h - 1 of that group.
        As "palm_tree" [2]_, port j of group i leads to group i + j + 1, modulo the number of groups; as "absolute"
        [3]_, it leads to group j, or from j = i on to group j + 1. With fewer groups the ports that remain in use are
        spread over the switches in order.
    radix, rate, switch_delay, host_length, switch_length : int, float or str, optional
        As in ``leaf_spine``. [ports], [B/s], [s], [m], [m]
    gpus : int, optional
        GPUs of a server: the hosts, in their order, become the NICs of servers, as in ``leaf_spine``. >= 1

    Raises
    ------
    ValueError
        If there are more groups than a group has ports for, or the arrangement is unknown.

    References
    ----------
    .. [1] J. Kim, W. J. Dally, S. Scott, D. Abts, Technology-driven, highly-scalable dragonfly topology, ISCA 2008.
    .. [2] C. Camarero, E. Vallejo, R. Beivide, Topological characterization of Hamming and dragonfly networks and
       its implications on routing, ACM Transactions on Architecture and Code Optimization 11(4), 2014.
    .. [3] E. Hastings et al., Comparing global link arrangements for dragonfly networks, CLUSTER 2015.
    """
    hosts = units.count(p, "p", 0)
    routers = units.count(a, "a")  # of a group
    ports = routers * units.count(h, "h")  # of a group, to others
    g = _number_of_groups(groups, ports)
    check(g * routers, g * (routers * (routers - 1) + ports) // 2, hosts)

    one, other = np.triu_indices(routers, 1)  # all pairs of switches of a group
    first = np.arange(0, g * routers, routers)[:, None]  # router 0 of every group
    within = Ends((first + one).ravel(), (first + other).ravel())
    across = _between_groups(g, routers, ports, arrangement)

    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    group, router = np.divmod(np.arange(g * routers), routers)
    return assemble(parts, hosts, (within, across), {"group": group, "router": router}, gpus=gpus)


@register(
    "topology",
    "dragonfly_plus",
    small={"hosts": 1, "leaves": 2, "spines": 2, "h": 1},
    with_servers={"hosts": 2, "leaves": 2, "spines": 2, "h": 1, "gpus": 4},
)
def dragonfly_plus(
    hosts: int,
    leaves: int,
    spines: int,
    h: int,
    groups: int | None = None,
    arrangement: str = "palm_tree",
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
    gpus: int | None = None,
) -> Fabric:
    """Build a dragonfly+: in a group every leaf is joined to every spine, and cables between spines join the groups.

    Sizes, with g groups: g x ``leaves`` leaves, g x ``spines`` spines, g x ``leaves`` x ``hosts`` hosts, and
    floor(spines h / (g - 1)) cables between any two groups. A leaf uses hosts + spines ports, a spine at most
    leaves + h. Distance between two hosts: 2 links on one leaf, 4 in one group, and otherwise 5, the diameter; the mean
    follows from these.

    Parameters
    ----------
    hosts : int
        Hosts on each leaf. >= 1
    leaves, spines : int
        Switches of each kind in a group. >= 1
    h : int
        Ports of a spine to other groups. >= 1
    groups : int, optional
        Number of groups, 2..spines h + 1; the largest unless given.
    arrangement : str
        As in ``dragonfly``, with spines in place of its switches.
    radix, rate, switch_delay, host_length, switch_length : int, float or str, optional
        As in ``leaf_spine``. [ports], [B/s], [s], [m], [m]
    gpus : int, optional
        GPUs of a server: the hosts, in their order, become the NICs of servers, as in ``leaf_spine``. >= 1

    Raises
    ------
    ValueError
        If there are more groups than a group has ports for, or the arrangement is unknown.

    References
    ----------
    .. [1] A. Shpiner et al., Dragonfly+: low cost topology for scaling datacenters, HiPINEB 2017.
    """
    units.count(hosts, "hosts")
    leaves_each = units.count(leaves, "leaves")  # of a group
    spines_each = units.count(spines, "spines")
    ports = spines_each * units.count(h, "h")  # of a group, to others
    g = _number_of_groups(groups, ports)
    n_leaves = g * leaves_each
    n_spines = g * spines_each
    check(n_leaves, g * (leaves_each * spines_each + ports // 2), hosts, n_spines)

    # Switches are numbered leaves first, and within each kind group by group.
    leaf = np.arange(n_leaves)
    spine = np.arange(n_spines)
    spines_of_leaf = np.repeat(spine.reshape(g, 1, spines_each), leaves_each, axis=1)
    within = Ends(np.repeat(leaf, spines_each), n_leaves + spines_of_leaf.ravel())
    between = _between_groups(g, spines_each, ports, arrangement)
    across = Ends(n_leaves + between.one, n_leaves + between.other)

    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    leaf_group, leaf_router = np.divmod(leaf, leaves_each)
    spine_group, spine_router = np.divmod(spine, spines_each)
    return assemble(
        parts,
        hosts,
        (within, across),
        {"group": leaf_group, "router": leaf_router},
        {"group": spine_group, "router": spine_router},
        gpus=gpus,
    )


class Ends(NamedTuple):
    """The switches at both ends of some cables, (cables,) each."""

    one: Ints
    other: Ints


def _number_of_groups(groups: int | None, ports: int) -> int:
    """Return the number of groups, each with ``ports`` to other groups: as many as fit unless given."""
    if groups is None:
        return ports + 1
    return units.count(groups, "groups", 2, ports + 1)


def _between_groups(groups: int, each: int, ports: int, arrangement: str) -> Ends:
    """Return the switches at both ends of all cables between groups of ``each`` switches and ``ports`` outgoing ports.

    All pairs of groups have equally many cables, so some ports may stay free; the ports in use are spread over the
    switches in order. They come in rounds of ``groups - 1`` ports, one to every other group t: in group g that is port
    t - g - 1 (modulo groups) as "palm_tree", and port t, or t - 1 if t > g, as "absolute".
    """
    arrangement = units.choice(arrangement, "arrangement", _ARRANGEMENTS)
    low, high = np.triu_indices(groups, 1)  # all pairs of groups
    if arrangement == "palm_tree":
        port_of_low = (high - low - 1) % groups
        port_of_high = (low - high - 1) % groups
    else:
        port_of_low = high - 1
        port_of_high = low

    used = ports - ports % (groups - 1)  # of a group
    first = np.arange(0, used, groups - 1)[:, None]  # port of each round: (rounds, 1)
    one = low * each + (first + port_of_low) * each // used  # (rounds, pairs)
    other = high * each + (first + port_of_high) * each // used
    return Ends(one.ravel(), other.ravel())
