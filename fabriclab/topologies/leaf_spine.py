"""Leaf-spine: hosts on leaves, every leaf on every spine."""

from __future__ import annotations

from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.catalog.clos import rail_plan
from fabriclab.core import Fabric
from fabriclab.topologies._clos import Parts, Plan, add_switches, down_ports, family, start
from fabriclab.topologies._closed_forms import bisection

__all__ = ["leaf_spine", "of_hosts"]


def _bisection(hosts: int, **asked: Any) -> int | None:
    """Take the hosts as servers of one NIC on one rail."""
    return bisection(servers=hosts, gpus=1, rails=1, expand=False, apart=True, **asked)


@family("leaf_spine", small={"hosts": 16, "radix": 8}, bisection=_bisection)
def leaf_spine(hosts: int, radix: int | None = None, oversubscription: float = 1, **asked: Any) -> Fabric:
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
        msg = (
            f"hosts must be within 1..{k * down} for two tiers of {k}-port switches with {down} ports down, got {n}; "
            "take a larger radix or the family fat_tree"
        )
        raise ValueError(msg)
    plan, per_leaf, _ = rail_plan(n, 1, 1, k, down, oversubscription, joined=1)
    return of_hosts(n, per_leaf, plan, parts)


def of_hosts(n: int, down: int, plan: Plan, parts: Parts) -> Fabric:
    """Return a Clos with ``n`` hosts, ``down`` on each leaf in order."""
    b = start(("host",), plan, n, n, f"a fabric of {n} hosts")
    number = np.arange(n)
    host = b.add_nodes("host", n, tier=0, transit=False, server=number)
    add_switches(b, plan, parts, host, number // down)
    return b.build("clos", {}, endpoint=host, rail=np.zeros(n), server=number)
