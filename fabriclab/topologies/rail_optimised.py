"""Rail-optimised: GPU i of every server on the leaves of rail i, so that equal numbers meet at one leaf."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import catalog, units
from fabriclab.core import Fabric, FabricBuilder
from fabriclab.registry import register
from fabriclab.topologies._clos import HOST_LENGTH, SWITCH_LENGTH, Parts, add_switches, start
from fabriclab.topologies._closed_forms import bisection, networks

__all__ = ["of_servers", "rail_optimised"]


@register(
    "topology", "rail_optimised", small={"servers": 4, "gpus": 2, "rails": 2, "radix": 4}, bisection=bisection,
)  # fmt: skip
def rail_optimised(
    servers: int = 128, gpus: int = 8, rails: int = 8, radix: int | None = None, oversubscription: float = 1,
    tiers: int | None = None, expand: bool = True, *, rate: units.Quantity | None = None,
    nvlink: units.Quantity | None = None, pcie: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None, host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:  # fmt: skip
    """Return servers with one NIC per GPU; the NIC of local GPU i hangs on rail i modulo ``rails``.

    Left out: host processors and their memory, and forwarding times inside a server (no source gives one
    for NVLink switches). A server is expanded to its GPUs, one NVLink node (the NVSwitch chips taken
    together; the NVLinks of a GPU are one link), and per GPU a PCIe switch with a NIC. Rank r is GPU
    r modulo ``gpus`` of server r // ``gpus``. A GPU lets no traffic of others pass.

    The defaults are the running case: 4 leaves on each of 8 rails, 16 spines, 1,024 cables to servers and
    1,024 between switches, two from each leaf to each spine; leaf i of a rail has servers 32 i to 32 i + 31.
    Between NICs: 2 links on one leaf, 4 through a spine, 6 through a core. Three tiers have pods of up to
    k^2/4 NICs, k the radix; full size at 1:1 is that of the fat tree: k^3/4 GPUs, 5k^2/4 switches. Other
    sizes: leaves and pods are filled in order and all pods have the same switches; a leaf has the uplinks
    that the fullest leaf needs; spines and cores are the fewest that spread evenly, as in ``leaf_spine``.
    Only leaves are oversubscribed.

    Parameters
    ----------
    servers, gpus, rails : int
        Servers, GPUs of each, and rails. >= 1, rails divides gpus
    radix, oversubscription : int, float, optional
        As in ``leaf_spine``.
    tiers : int, optional
        2 or 3; unless given 2 while a spine has a port for every leaf.
    expand : bool
        False: the NICs are the endpoints, and nothing inside a server is built.
    rate, nvlink, pcie : float or str, optional
        Rates of NICs and cables, of all NVLinks of a GPU, and of PCIe; ConnectX-7, NVLink 4 and 16 lanes of
        PCIe 5.0 unless given. [B/s]
    switch_delay, host_length, switch_length : float or str, optional
        As in ``leaf_spine``. [s], [m], [m]

    Raises
    ------
    ValueError
        If rails do not divide gpus, or the servers do not fit into the tiers.
    """
    parts = Parts.parse(radix, rate, switch_delay, host_length, switch_length)
    return of_servers(parts, servers, gpus, rails, oversubscription, tiers, expand, nvlink, pcie)


def of_servers(
    parts: Parts, servers: int, gpus: int, rails: int, oversubscription: float, tiers: int | None, expand: bool,
    nvlink: units.Quantity | None, pcie: units.Quantity | None, **how: Any,
) -> Fabric:  # fmt: skip
    """Return servers on one network, on one per rail (``apart``), or with their NICs on several (``planes``).

    A NIC has a port for each plane, and the rate of ``parts`` is that of a port. The planes are networks of their
    own, or, unless ``dual_plane``, leaves of their own under common spines.
    """
    n, g, r = units.count(servers, "servers"), units.count(gpus, "gpus"), units.count(rails, "rails")
    nvports, links = _nvlinks()
    if (expand := units.flag(expand, "expand")) and g * links > nvports:
        most = nvports // links
        msg = f"gpus must be within 1..{most} (a server has {nvports} NVLink ports, a GPU takes {links}), got {g}"
        raise ValueError(msg + "; take more servers, or leave out their inside with expand=False")
    a, plan, per_leaf, per_pod = networks(servers=n, gpus=g, rails=r, radix=parts.radix // how.get("planes", 1),
                                          oversubscription=oversubscription, tiers=tiers, **how)  # fmt: skip
    kinds, nodes, inside = (("gpu", "nvlink", "pcie", "nic"), 3 * g + 1, 3 * g) if expand else (("nic",), g, 0)
    cables, copies = inside + a.planes * g, r if a.apart else a.planes // a.ports
    b = start(kinds, plan, nodes * n, cables * n, f"a fabric of {n} servers with {g} GPUs each", copies)
    server, local = np.divmod(np.arange(n * g), g)
    where: dict[str, Any] = {"server": server, "local": local}
    if expand:
        endpoint, nic = _add_servers(b, n, where, nvlink, pcie)
    else:
        endpoint = nic = b.add_nodes("nic", n * g, tier=0, transit=False, **where)
    (pod, place), rail = np.divmod(server, per_pod), local % r
    block = np.arange(a.ports)[:, None] * r + rail * (not a.apart)
    leaf_of = pod * plan.leaves + block * (plan.leaves // a.joined) + place // per_leaf
    for i in range(copies):
        mine = rail == i if a.apart else slice(None)
        each = {"rail" if a.apart else "plane": i} if copies > 1 else {}
        add_switches(b, plan, parts, nic[mine], leaf_of[:, mine], tier=3 if expand else 1, rails=0 if a.apart else r,
                     ports=a.ports, **each)  # fmt: skip
    return b.build("rails", {}, endpoint=endpoint, rail=rail, server=server)


def _nvlinks() -> tuple[int, int]:
    """Return the NVLink ports of a server's switches, and the NVLinks of a GPU."""
    ports = catalog.value("systems", "dgxh100", "nvswitch_chips") * catalog.value("switches", "nvswitch3", "ports")
    return int(ports), int(catalog.value("links", "nvlink4", "links_per_gpu"))


def _add_servers(
    b: FabricBuilder, n: int, where: dict[str, Any], nvlink: units.Quantity | None, pcie: units.Quantity | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Add the inside of ``n`` servers; return the GPUs and the NICs."""
    fact, ends = catalog.value, where["server"].size
    ports, links = _nvlinks()
    bus = fact("links", "pcie5", "bandwidth_after_encoding") if pcie is None else units.rate(pcie, "pcie")
    fast = fact("links", "nvlink4", "bandwidth_per_gpu") if nvlink is None else units.rate(nvlink, "nvlink")
    gpu = b.add_nodes("gpu", ends, tier=0, transit=False, **where)
    domain = b.add_nodes("nvlink", n, tier=1, transit=True, radix=ports, server=np.arange(n))
    switch = b.add_nodes("pcie", ends, tier=1, transit=True, **where)
    nic = b.add_nodes("nic", ends, tier=2, transit=True, **where)
    b.add_cables(gpu, domain[where["server"]], capacity=fast, ports=links, medium="nvlink")
    b.add_cables(gpu, switch, capacity=bus, medium="pcie")
    b.add_cables(switch, nic, capacity=bus, medium="pcie")
    return gpu, nic
