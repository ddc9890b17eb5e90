"""Fat tree: equal switches in two or three tiers, as many cables up as down."""

from __future__ import annotations

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.registry import register
from fabriclab.topologies._clos import HOST_LENGTH, SWITCH_LENGTH, Parts, Plan
from fabriclab.topologies.leaf_spine import of_hosts


@register(
    "topology", "fat_tree", small={"k": 4},
    bisection=lambda k, tiers=3, **_: (k**3 if tiers == 3 else 2 * k * k) // 8,
)  # fmt: skip
def fat_tree(
    k: int, tiers: int = 3, *, rate: units.Quantity | None = None, switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH, switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:  # fmt: skip
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
        msg = f"k must be even (half of the ports face up), got {k}; take {k - 1} or {k + 1}"
        raise ValueError(msg)
    parts = Parts.parse(
        radix=k, rate=rate, switch_delay=switch_delay, host_length=host_length, switch_length=switch_length
    )
    two = units.count(tiers, "tiers", 2, 3) == 2
    plan = Plan(1, k, half, 1) if two else Plan(k, half, half, 1, half, 1)
    return of_hosts(plan.pods * plan.leaves * half, half, plan, parts)
