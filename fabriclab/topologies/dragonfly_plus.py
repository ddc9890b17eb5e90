"""Dragonfly+: groups of leaves and spines, with the cables between groups on the spines."""

from __future__ import annotations

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.topologies._clos import Parts
from fabriclab.topologies._direct import assemble, between_groups, check, family

__all__ = ["dragonfly_plus"]


@family("dragonfly_plus", small={"hosts": 1, "leaves": 2, "spines": 2, "h": 1})
def dragonfly_plus(
    hosts: int, leaves: int, spines: int, h: int, groups: int | None = None, arrangement: str = "palm_tree", *,
    parts: Parts,
) -> Fabric:  # fmt: skip
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
    low, top = units.count(leaves, "leaves"), units.count(spines, "spines")
    ports = top * units.count(h, "h")
    g = ports + 1 if groups is None else units.count(groups, "groups", 2, ports + 1)
    check(g * low, g * (low * top + ports // 2), hosts, g * top)
    leaf, spine = np.arange(g * low), np.arange(g * top)
    up = (np.repeat(leaf, top), g * low + np.repeat(spine.reshape(g, 1, top), low, axis=1).ravel())
    one, other = between_groups(g, top, ports, arrangement)
    where = [dict(zip(("group", "router"), np.divmod(i, n), strict=True)) for i, n in ((leaf, low), (spine, top))]
    return assemble(parts, hosts, (up, (g * low + one, g * low + other)), *where)
