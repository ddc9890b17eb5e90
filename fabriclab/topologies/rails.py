"""Servers on rails: on one network, on one for each rail or port of a NIC, or with two leaves for each NIC.

GPU i of every server hangs on the leaves of rail i, so that equal numbers meet at one leaf.
"""

from functools import partial
from typing import Any

import numpy as np

from fabriclab import catalog, units
from fabriclab.core import Fabric, FabricBuilder, Ints
from fabriclab.topologies._switches import Parts, add_switches, bisection, family, networks, start

_Given = units.Quantity | None


def _of_servers(
    planes: int = 1,
    dual_plane: bool = True,
    apart: bool = False,
    *,
    servers: int = 128,
    gpus: int = 8,
    rails: int = 8,
    radix: int | None = None,
    oversubscription: float = 1,
    tiers: int | None = None,
    expand: bool = True,
    nvlink: _Given = None,
    pcie: _Given = None,
    **asked: Any,
) -> Fabric:
    """Return servers on one network, on one per rail (``apart``), or with their NICs on several (``planes``).

    A NIC has a port for each plane, with its part of the rate. The planes are networks of their own, or, unless
    ``dual_plane``, leaves of their own under common spines.
    """
    whole = Parts.parse(radix=radix, **asked)
    parts = whole.split(planes)
    n, g, r = (
        units.count(servers, "servers"),
        units.count(gpus, "gpus"),
        units.count(rails, "rails"),
    )
    nvports, links = _nvlinks()
    if (expand := units.flag(expand, "expand")) and g * links > nvports:
        most = nvports // links
        msg = f"gpus must be within 1..{most} (a server has {nvports} NVLink ports, a GPU takes {links}), got {g}"
        raise ValueError(msg + "; take more servers, or leave out their inside with expand=False")
    a, plan, per_leaf, per_pod = networks(
        servers=n,
        gpus=g,
        rails=r,
        radix=whole.radix,
        oversubscription=oversubscription,
        tiers=tiers,
        planes=planes,
        dual_plane=dual_plane,
        apart=apart,
    )
    kinds, nodes, inside = (
        (("gpu", "nvlink", "pcie", "nic"), 3 * g + 1, 3 * g) if expand else (("nic",), g, 0)
    )
    cables, copies = inside + planes * g, r if apart else planes // a.ports
    b = start(
        kinds, plan, nodes * n, cables * n, f"a fabric of {n} servers with {g} GPUs each", copies
    )
    server, local = np.divmod(np.arange(n * g), g)
    where: dict[str, Any] = {"server": server, "local": local}
    if expand:
        endpoint, nic = _add_servers(b, n, where, nvlink, pcie)
    else:
        endpoint = nic = b.add_nodes("nic", n * g, tier=0, transit=False, **where)
    (pod, place), rail = np.divmod(server, per_pod), local % r
    block = np.arange(a.ports)[:, None] * r + rail * (not apart)
    leaf_of = pod * plan.leaves + block * (plan.leaves // a.joined) + place // per_leaf
    for i in range(copies):
        mine = rail == i if apart else slice(None)
        each = {"rail" if apart else "plane": i} if copies > 1 else {}
        add_switches(
            b,
            plan,
            parts,
            nic[mine],
            leaf_of[:, mine],
            tier=3 if expand else 1,
            rails=0 if apart else r,
            ports=a.ports,
            **each,
        )
    return b.build("rails", {}, endpoint=endpoint, rail=rail, server=server)


def _nvlinks() -> tuple[int, int]:
    """Return the NVLink ports of a server's switches, and the NVLinks of a GPU."""
    ports = catalog.value("systems", "dgxh100", "nvswitch_chips") * catalog.value(
        "switches", "nvswitch3", "ports"
    )
    return int(ports), int(catalog.value("links", "nvlink4", "links_per_gpu"))


def _add_servers(
    b: FabricBuilder, n: int, where: dict[str, Any], nvlink: _Given, pcie: _Given
) -> tuple[Ints, Ints]:
    """Add the inside of ``n`` servers; return the GPUs and the NICs."""
    fact, ends = catalog.value, where["server"].size
    ports, links = _nvlinks()
    bus = (
        fact("links", "pcie5", "bandwidth_after_encoding")
        if pcie is None
        else units.rate(pcie, "pcie")
    )
    fast = (
        fact("links", "nvlink4", "bandwidth_per_gpu")
        if nvlink is None
        else units.rate(nvlink, "nvlink")
    )
    gpu = b.add_nodes("gpu", ends, tier=0, transit=False, **where)
    domain = b.add_nodes("nvlink", n, tier=1, transit=True, radix=ports, server=np.arange(n))
    switch = b.add_nodes("pcie", ends, tier=1, transit=True, **where)
    nic = b.add_nodes("nic", ends, tier=2, transit=True, **where)
    b.add_cables(gpu, domain[where["server"]], capacity=fast, ports=links, medium="nvlink")
    b.add_cables(gpu, switch, capacity=bus, medium="pcie")
    b.add_cables(switch, nic, capacity=bus, medium="pcie")
    return gpu, nic


@family(
    "rail_optimised",
    _of_servers,
    small={"servers": 4, "gpus": 2, "rails": 2, "radix": 4},
    bisection=bisection,
)
def rail_optimised(**asked: Any) -> Fabric:
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
    return _of_servers(**asked)


@family(
    "rail_only",
    _of_servers,
    small={"servers": 5, "gpus": 2, "rails": 2, "radix": 4},
    connected=False,
    bisection=partial(bisection, servers=64, apart=True),
)
def rail_only(servers: int = 64, **asked: Any) -> Fabric:
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
    return _of_servers(apart=True, servers=servers, **asked)


@family(
    "multi_plane",
    _of_servers,
    small={"servers": 5, "gpus": 2, "rails": 2, "planes": 2, "radix": 4},
    bisection=partial(bisection, planes=4),
)
def multi_plane(
    planes: int = 4, *, rate: _Given = None, pcie: _Given = None, **asked: Any
) -> Fabric:
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
    nic = catalog.value("nics", "cx8", "throughput") if rate is None else rate
    bus = catalog.value("links", "pcie6", "bandwidth_after_encoding") if pcie is None else pcie
    return _of_servers(units.count(planes, "planes"), rate=nic, pcie=bus, **asked)


@family(
    "dual_tor",
    _of_servers,
    small={"servers": 5, "gpus": 2, "rails": 2, "radix": 4, "dual_plane": False},
    bisection=partial(bisection, planes=2),
)
def dual_tor(dual_plane: bool = True, **asked: Any) -> Fabric:
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
    return _of_servers(2, units.flag(dual_plane, "dual_plane"), **asked)
