"""Rail-only: a network for each rail, and none between rails."""

from __future__ import annotations

from functools import partial

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.registry import register
from fabriclab.topologies._clos import HOST_LENGTH, SWITCH_LENGTH, Parts
from fabriclab.topologies._closed_forms import bisection
from fabriclab.topologies.rail_optimised import of_servers

__all__ = ["rail_only"]


@register(
    "topology", "rail_only", small={"servers": 5, "gpus": 2, "rails": 2, "radix": 4}, connected=False,
    bisection=partial(bisection, servers=64, apart=True),
)  # fmt: skip
def rail_only(
    servers: int = 64, gpus: int = 8, rails: int = 8, radix: int | None = None, oversubscription: float = 1,
    tiers: int | None = None, expand: bool = True, *, rate: units.Quantity | None = None,
    nvlink: units.Quantity | None = None, pcie: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None, host_length: units.Quantity = HOST_LENGTH,
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
