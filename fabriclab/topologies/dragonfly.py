"""Dragonfly and dragonfly+: groups of switches, each group joined with every other by few long cables."""

from typing import NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Ints
from fabriclab.registry import register
from fabriclab.topologies._switches import HOST_LENGTH, SWITCH_LENGTH, Parts, assemble, check

_ARRANGEMENTS = ("palm_tree", "absolute")


@register("topology", "dragonfly", small={"p": 1, "a": 2, "h": 1})
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
) -> Fabric:
    """Return a dragonfly: all switches of a group are joined with each other, and so are all groups.

    With g groups: a g switches, p a g hosts, g a (a - 1) / 2 cables within groups; any two groups have
    floor(a h / (g - 1)) cables, and ports beyond that are free. Degree of a full one p + a - 1 + h; balanced is
    a = 2p = 2h [1]_. Diameter at most 3 links between switches (5 between hosts): within the group, across, within
    the other. The mean depends on the arrangement: h = 4 of the balanced has 2.686 as "palm_tree" and 2.694 as
    "absolute" between distinct switches.

    Parameters
    ----------
    p : int
        Hosts on each switch; 0: chips. >= 0
    a : int
        Switches in a group. >= 1
    h : int
        Ports of a switch to other groups. >= 1
    groups : int, optional
        2..a h + 1, which is the default.
    arrangement : str
        Which port of a group leads to which group: switch r of group g has the ports r h, ..., r h + h - 1 of it,
        and port j leads to group g + j + 1 (modulo g groups) as "palm_tree" [2]_, and to group j, or j + 1 from
        j = g on, as "absolute" [3]_. Fewer groups: the ports that remain in use are spread over the switches in order.
    radix, rate, switch_delay, host_length, switch_length : int, float or str, optional
        As in ``leaf_spine``. [ports], [B/s], [s], [m], [m]

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

    one, other = np.triu_indices(routers, 1)  # all pairs of a group
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
    return assemble(parts, hosts, (within, across), {"group": group, "router": router})


@register("topology", "dragonfly_plus", small={"hosts": 1, "leaves": 2, "spines": 2, "h": 1})
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
) -> Fabric:
    """Return a dragonfly+: in a group every leaf is joined with every spine, and spines join the groups.

    With g groups: g leaves and g spines times their number in a group, hosts x leaves x g hosts; any two groups
    have floor(spines h / (g - 1)) cables. Degree of a leaf hosts + spines, of a spine at most leaves + h. Two hosts
    are 2 links apart on one leaf, 4 in one group and 5 otherwise (the diameter), from which the mean follows.

    Parameters
    ----------
    hosts : int
        Hosts on each leaf. >= 1
    leaves, spines : int
        Switches of each kind in a group. >= 1
    h : int
        Ports of a spine to other groups. >= 1
    groups : int, optional
        2..spines h + 1, which is the default.
    arrangement : str
        As in ``dragonfly``, with the spines in place of its switches.
    radix, rate, switch_delay, host_length, switch_length : int, float or str, optional
        As in ``leaf_spine``. [ports], [B/s], [s], [m], [m]

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
    )


class Ends(NamedTuple):
    """The switches at both ends of some cables."""

    one: Ints
    other: Ints


def _number_of_groups(groups: int | None, ports: int) -> int:
    """Return the number of groups whose switches have ``ports`` to other groups: all that fit, unless given."""
    if groups is None:
        return ports + 1
    return units.count(groups, "groups", 2, ports + 1)


def _between_groups(groups: int, each: int, ports: int, arrangement: str) -> Ends:
    """Return the switches at both ends of all cables between groups of ``each`` switches with ``ports`` cables out.

    All pairs of groups have equally many cables, so ports may be left over; used ones are spread over the switches
    in order. Each round of ``groups - 1`` ports has one to every other group t: in group g that is the port
    t - g - 1 (modulo groups) as "palm_tree", and t, or t - 1 if t > g, as "absolute".
    """
    units.choice(arrangement, "arrangement", _ARRANGEMENTS)
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
