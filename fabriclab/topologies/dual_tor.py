"""Dual-ToR: each NIC has two ports to two leaves, so that no leaf is a single point of failure."""

from __future__ import annotations

from functools import partial

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.registry import register
from fabriclab.topologies._clos import HOST_LENGTH, SWITCH_LENGTH, Parts
from fabriclab.topologies._closed_forms import bisection, hops
from fabriclab.topologies.rail_optimised import of_servers

__all__ = ["dual_tor"]


@register(
    "topology", "dual_tor", small={"servers": 5, "gpus": 2, "rails": 2, "radix": 4, "dual_plane": False},
    hops=partial(hops, planes=2), bisection=partial(bisection, planes=2),
)  # fmt: skip
def dual_tor(
    servers: int = 128, gpus: int = 8, rails: int = 8, radix: int | None = None, oversubscription: float = 1,
    tiers: int | None = None, expand: bool = True, dual_plane: bool = True, *, rate: units.Quantity | None = None,
    nvlink: units.Quantity | None = None, pcie: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None, host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
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
    parts = Parts.parse(radix, rate, switch_delay, host_length, switch_length).split(2)
    split = units.flag(dual_plane, "dual_plane")
    return of_servers(
        parts, servers, gpus, rails, oversubscription, tiers, expand, nvlink, pcie, planes=2, dual_plane=split
    )
