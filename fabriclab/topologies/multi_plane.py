"""Multi-plane: a NIC of several slower ports, each on a network of its own, whose switches have more ports."""

from __future__ import annotations

from functools import partial

from fabriclab import catalog, units
from fabriclab.core import Fabric
from fabriclab.registry import register
from fabriclab.topologies._clos import HOST_LENGTH, SWITCH_LENGTH, Parts
from fabriclab.topologies._closed_forms import bisection, hops
from fabriclab.topologies.rail_optimised import of_servers

__all__ = ["multi_plane"]


@register(
    "topology", "multi_plane", small={"servers": 5, "gpus": 2, "rails": 2, "planes": 2, "radix": 4},
    hops=partial(hops, planes=4), bisection=partial(bisection, planes=4),
)  # fmt: skip
def multi_plane(
    servers: int = 128, gpus: int = 8, rails: int = 8, planes: int = 4, radix: int | None = None,
    oversubscription: float = 1, tiers: int | None = None, expand: bool = True, *, rate: units.Quantity | None = None,
    nvlink: units.Quantity | None = None, pcie: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None, host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:  # fmt: skip
    """Return servers whose NICs have one port in each of several planes: networks that never meet.

    A switch of ``radix`` ports at the rate of the NIC is split into ``radix`` x ``planes`` ports at the rate of the
    NIC divided by ``planes``. Each plane is a rail-optimised network of such switches, or, with ``rails=1``, a
    leaf-spine or fat tree (one switch, where it has ports for all). The trade: two tiers of k ports reach k^2/2
    NICs, on P planes P^2 times as many with as many switches per NIC, but P times the cables, and a flow that stays
    on one plane has 1/P of the rate; so does a NIC lose 1/P with a leaf. Hops are those of one plane, the bisection
    counts the cables of all.

    Parameters
    ----------
    servers, gpus, rails : int
        As in ``rail_optimised``.
    planes : int
        Ports of a NIC, each in a plane of its own. >= 1
    radix : int, optional
        Ports of a switch at the full rate of a NIC; 64 unless given. >= 2
    oversubscription, tiers, expand : optional
        As in ``rail_optimised``.
    rate : float or str, optional
        Rate of a NIC, all its ports together; 800 Gb/s (ConnectX-8) unless given. [B/s]
    nvlink, pcie : float or str, optional
        As in ``rail_optimised``; PCIe 6.0 unless given. [B/s]
    switch_delay, host_length, switch_length : float or str, optional
        As in ``leaf_spine``. [s], [m], [m]

    Raises
    ------
    ValueError
        If rails do not divide gpus, or the servers do not fit into the tiers.
    """
    p = units.count(planes, "planes")
    nic = catalog.value("nics", "cx8", "throughput") if rate is None else units.rate(rate)
    bus = catalog.value("links", "pcie6", "bandwidth_after_encoding") if pcie is None else pcie
    parts = Parts.parse(radix, nic, switch_delay, host_length, switch_length).split(p)
    return of_servers(parts, servers, gpus, rails, oversubscription, tiers, expand, nvlink, bus, planes=p)
