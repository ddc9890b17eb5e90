"""Networks side by side: one for each rail, one for each port of a NIC, or two leaves for each NIC."""

from __future__ import annotations

from functools import partial

from fabriclab import catalog, units
from fabriclab.core import Fabric
from fabriclab.registry import register
from fabriclab.topologies._clos import HOST_LENGTH, SWITCH_LENGTH, Parts
from fabriclab.topologies._closed_forms import bisection
from fabriclab.topologies.rail_optimised import of_servers

__all__ = ["dual_tor", "multi_plane", "rail_only"]

_Given = units.Quantity | None


@register(
    "topology", "rail_only", small={"servers": 5, "gpus": 2, "rails": 2, "radix": 4}, connected=False,
    bisection=partial(bisection, servers=64, apart=True),
)  # fmt: skip
def rail_only(
    servers: int = 64, gpus: int = 8, rails: int = 8, radix: int | None = None, oversubscription: float = 1,
    tiers: int | None = None, expand: bool = True, *, rate: _Given = None, nvlink: _Given = None, pcie: _Given = None,
    switch_delay: _Given = None, host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:  # fmt: skip
    """Return servers whose rails are networks of their own: no spine joins two rails [1]_.

    The servers are those of ``rail_optimised``. A rail of up to ``radix`` NICs is one switch, so that 64 servers of
    8 GPUs need 8 switches; a larger rail is a leaf-spine, or a fat tree of three tiers. Two GPUs on different rails
    in different servers have no path without a relay: a GPU of the one server passes the data on over NVLink.
    Without servers (``expand=False``) the bisection is 0 for an even number of rails.

    Parameters
    ----------
    servers, gpus, rails, radix, oversubscription, tiers, expand : optional
        As in ``rail_optimised``, for each rail alone.
    rate, nvlink, pcie, switch_delay, host_length, switch_length : float or str, optional
        As in ``rail_optimised``. [B/s], [B/s], [B/s], [s], [m], [m]

    Raises
    ------
    ValueError
        If rails do not divide gpus, or the servers do not fit into the tiers.

    References
    ----------
    .. [1] W. Wang, M. Ghobadi, K. Shakeri, Y. Zhang, N. Hasani, Rail-only: a low-cost high-performance network
       for training LLMs with trillion parameters, arXiv 2307.12169, 2023.
    """
    parts = Parts.parse(radix, rate, switch_delay, host_length, switch_length)
    return of_servers(parts, servers, gpus, rails, oversubscription, tiers, expand, nvlink, pcie, apart=True)


@register(
    "topology", "multi_plane", small={"servers": 5, "gpus": 2, "rails": 2, "planes": 2, "radix": 4},
    bisection=partial(bisection, planes=4),
)  # fmt: skip
def multi_plane(
    servers: int = 128, gpus: int = 8, rails: int = 8, planes: int = 4, radix: int | None = None,
    oversubscription: float = 1, tiers: int | None = None, expand: bool = True, *, rate: _Given = None,
    nvlink: _Given = None, pcie: _Given = None, switch_delay: _Given = None,
    host_length: units.Quantity = HOST_LENGTH, switch_length: units.Quantity = SWITCH_LENGTH,
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


@register(
    "topology", "dual_tor", small={"servers": 5, "gpus": 2, "rails": 2, "radix": 4, "dual_plane": False},
    bisection=partial(bisection, planes=2),
)  # fmt: skip
def dual_tor(
    servers: int = 128, gpus: int = 8, rails: int = 8, radix: int | None = None, oversubscription: float = 1,
    tiers: int | None = None, expand: bool = True, dual_plane: bool = True, *, rate: _Given = None,
    nvlink: _Given = None, pcie: _Given = None, switch_delay: _Given = None,
    host_length: units.Quantity = HOST_LENGTH, switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:  # fmt: skip
    """Return servers whose NICs hang on two leaves each, as in HPN 7.0 [1]_ (there with uplinks of twice the rate).

    A switch of ``radix`` ports at the rate of the NIC has 2 ``radix`` ports at half of it. With ``dual_plane`` the
    first ports and the second ports of all NICs are two networks: a flow stays in the plane in which it left. Without
    it both leaves of a pair share their spines, so that two tiers reach half as many servers. If a leaf fails, its
    NICs keep half of their rate. With ``radix=128`` at 400 Gb/s a segment is 128 servers, 1,024 GPUs on 16 leaves,
    and 15 segments are two tiers.

    Parameters
    ----------
    servers, gpus, rails : int
        As in ``rail_optimised``.
    radix : int, optional
        Ports of a switch at the full rate of a NIC; 64 unless given. >= 2
    oversubscription, tiers, expand : optional
        As in ``rail_optimised``.
    dual_plane : bool
        Whether the two leaves of a NIC belong to networks of their own.
    rate : float or str, optional
        Rate of a NIC, both ports together; 400 Gb/s (ConnectX-7) unless given. [B/s]
    nvlink, pcie, switch_delay, host_length, switch_length : float or str, optional
        As in ``rail_optimised``. [B/s], [B/s], [s], [m], [m]

    Raises
    ------
    ValueError
        If rails do not divide gpus, or the servers do not fit into the tiers.

    References
    ----------
    .. [1] K. Qian et al., Alibaba HPN: a data center network for large language model training, SIGCOMM 2024.
    """
    parts, two = Parts.parse(radix, rate, switch_delay, host_length, switch_length).split(2), {"planes": 2}
    two |= {"dual_plane": units.flag(dual_plane, "dual_plane")}
    return of_servers(parts, servers, gpus, rails, oversubscription, tiers, expand, nvlink, pcie, **two)
