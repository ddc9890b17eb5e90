"""Servers on rails: on one network, on one for each rail or port of a NIC, or with two leaves for each NIC.

GPU i of every server hangs on the leaves of rail i, so that equal numbers meet at one leaf.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from fabriclab import catalog, units
from fabriclab.core import Fabric, FabricBuilder, Ints
from fabriclab.registry import register
from fabriclab.topologies._switches import (
    HOST_LENGTH,
    SWITCH_LENGTH,
    Parts,
    add_switches,
    bisection,
    networks,
    start,
)

_Rate = units.Quantity | None


def _servers_on_rails(
    whole: Parts,
    *,
    servers: int,
    gpus: int,
    rails: int,
    oversubscription: float,
    tiers: int | None,
    expand: bool,
    nvlink: _Rate,
    pcie: _Rate,
    planes: int = 1,
    dual_plane: bool = True,
    apart: bool = False,
) -> Fabric:
    """Return servers on one network, on one per rail (``apart``), or with their NICs on several (``planes``).

    A NIC has a port for each plane, with its part of the rate. The planes are networks of their own, or, unless
    ``dual_plane``, leaves of their own under common spines. ``whole`` are switches with ports of the whole rate.
    """
    parts = whole.split(planes)
    n = units.count(servers, "servers")
    g = units.count(gpus, "gpus")
    r = units.count(rails, "rails")
    expand = units.flag(expand, "expand")
    if expand:
        _check_nvlinks(g)
    network = networks(
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
    copies = r if apart else planes // network.ports  # of the network

    if expand:
        kinds: tuple[str, ...] = ("gpu", "nvlink", "pcie", "nic")
        nodes_each = 3 * g + 1  # of a server
        cables_each = 3 * g + planes * g
    else:
        kinds = ("nic",)
        nodes_each = g
        cables_each = planes * g
    title = f"a fabric of {n} servers with {g} GPUs each"
    b = start(kinds, network.clos, nodes_each * n, cables_each * n, title, copies)

    server, local = np.divmod(np.arange(n * g), g)  # (n g,) of each GPU and its NIC
    if expand:
        ends = _add_servers(b, server, local, nvlink, pcie)
    else:
        nic = b.add_nodes("nic", n * g, tier=0, transit=False, server=server, local=local)
        ends = ServerEndpoints(nic, nic)

    # Leaves stand pod by pod, in a pod block by block (a rail, once for each port of a NIC), and in order of servers.
    rail = local % r
    pod, server_in_pod = np.divmod(server, network.servers_per_pod)
    rail_block = np.zeros_like(rail) if apart else rail
    block = np.arange(network.ports)[:, None] * r + rail_block  # (ports, n g)
    leaves_in_block = network.clos.leaves // network.blocks
    leaf_of = (
        pod * network.clos.leaves
        + block * leaves_in_block
        + server_in_pod // network.servers_per_leaf
    )  # (ports, n g)

    for copy in range(copies):
        nic = ends.nic
        leaf = leaf_of
        where = {}
        if apart:
            on_this_rail = rail == copy
            nic = nic[on_this_rail]
            leaf = leaf[:, on_this_rail]
        if copies > 1:
            where["rail" if apart else "plane"] = copy
        add_switches(
            b,
            network.clos,
            parts,
            nic,
            leaf,
            tier=3 if expand else 1,
            rails=0 if apart else r,
            ports=network.ports,
            **where,
        )
    return b.build("rails", {}, endpoint=ends.endpoint, rail=rail, server=server)


class ServerEndpoints(NamedTuple):
    """Endpoints of all servers, and the NIC of each."""

    endpoint: Ints
    nic: Ints


class NvLinks(NamedTuple):
    """NVLink ports of all switch chips of a server, and NVLinks of a GPU."""

    ports: int
    links_per_gpu: int


def _nvlinks() -> NvLinks:
    """Return the NVLink ports of a server's switches, and the NVLinks of a GPU."""
    chips = catalog.value("systems", "dgxh100", "nvswitch_chips")
    ports = chips * catalog.value("switches", "nvswitch3", "ports")
    links = catalog.value("links", "nvlink4", "links_per_gpu")
    return NvLinks(int(ports), int(links))


def _check_nvlinks(gpus: int) -> None:
    """Refuse more GPUs of a server than its NVLink ports join."""
    ports, links = _nvlinks()
    if gpus * links > ports:
        most = ports // links
        msg = f"gpus must be within 1..{most} (a server has {ports} NVLink ports, a GPU takes {links}), got {gpus}"
        raise ValueError(msg + "; take more servers, or leave out their inside with expand=False")


def _add_servers(
    b: FabricBuilder, server: Ints, local: Ints, nvlink: _Rate, pcie: _Rate
) -> ServerEndpoints:
    """Add the inside of all servers; ``server`` and ``local`` are of each GPU."""
    ports, links = _nvlinks()
    if pcie is None:
        pcie_rate = catalog.value("links", "pcie5", "bandwidth_after_encoding")
    else:
        pcie_rate = units.rate(pcie, "pcie")
    if nvlink is None:
        nvlink_rate = catalog.value("links", "nvlink4", "bandwidth_per_gpu")
    else:
        nvlink_rate = units.rate(nvlink, "nvlink")

    gpus = server.size
    n = int(server[-1]) + 1  # servers
    gpu = b.add_nodes("gpu", gpus, tier=0, transit=False, server=server, local=local)
    domain = b.add_nodes("nvlink", n, tier=1, transit=True, radix=ports, server=np.arange(n))
    switch = b.add_nodes("pcie", gpus, tier=1, transit=True, server=server, local=local)
    nic = b.add_nodes("nic", gpus, tier=2, transit=True, server=server, local=local)
    b.add_cables(gpu, domain[server], capacity=nvlink_rate, ports=links, medium="nvlink")
    b.add_cables(gpu, switch, capacity=pcie_rate, medium="pcie")
    b.add_cables(switch, nic, capacity=pcie_rate, medium="pcie")
    return ServerEndpoints(gpu, nic)


@register(
    "topology",
    "rail_optimised",
    small={"servers": 4, "gpus": 2, "rails": 2, "radix": 4},
    bisection=bisection,
)
def rail_optimised(
    *,
    servers: int = 128,
    gpus: int = 8,
    rails: int = 8,
    radix: int | None = None,
    oversubscription: float = 1,
    tiers: int | None = None,
    expand: bool = True,
    nvlink: _Rate = None,
    pcie: _Rate = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
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
    whole = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    return _servers_on_rails(
        whole,
        servers=servers,
        gpus=gpus,
        rails=rails,
        oversubscription=oversubscription,
        tiers=tiers,
        expand=expand,
        nvlink=nvlink,
        pcie=pcie,
    )


@register(
    "topology",
    "rail_only",
    small={"servers": 5, "gpus": 2, "rails": 2, "radix": 4},
    connected=False,
    bisection=partial(bisection, servers=64, apart=True),
)
def rail_only(
    servers: int = 64,
    *,
    gpus: int = 8,
    rails: int = 8,
    radix: int | None = None,
    oversubscription: float = 1,
    tiers: int | None = None,
    expand: bool = True,
    nvlink: _Rate = None,
    pcie: _Rate = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
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
    whole = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    return _servers_on_rails(
        whole,
        servers=servers,
        gpus=gpus,
        rails=rails,
        oversubscription=oversubscription,
        tiers=tiers,
        expand=expand,
        nvlink=nvlink,
        pcie=pcie,
        apart=True,
    )


@register(
    "topology",
    "multi_plane",
    small={"servers": 5, "gpus": 2, "rails": 2, "planes": 2, "radix": 4},
    bisection=partial(bisection, planes=4),
)
def multi_plane(
    planes: int = 4,
    *,
    rate: units.Quantity | None = None,
    pcie: _Rate = None,
    servers: int = 128,
    gpus: int = 8,
    rails: int = 8,
    radix: int | None = None,
    oversubscription: float = 1,
    tiers: int | None = None,
    expand: bool = True,
    nvlink: _Rate = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
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
    ports = units.count(planes, "planes")
    if rate is None:
        rate = catalog.value("nics", "cx8", "throughput")
    if pcie is None:
        pcie = catalog.value("links", "pcie6", "bandwidth_after_encoding")
    whole = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    return _servers_on_rails(
        whole,
        servers=servers,
        gpus=gpus,
        rails=rails,
        oversubscription=oversubscription,
        tiers=tiers,
        expand=expand,
        nvlink=nvlink,
        pcie=pcie,
        planes=ports,
    )


@register(
    "topology",
    "dual_tor",
    small={"servers": 5, "gpus": 2, "rails": 2, "radix": 4, "dual_plane": False},
    bisection=partial(bisection, planes=2),
)
def dual_tor(
    dual_plane: bool = True,
    *,
    servers: int = 128,
    gpus: int = 8,
    rails: int = 8,
    radix: int | None = None,
    oversubscription: float = 1,
    tiers: int | None = None,
    expand: bool = True,
    nvlink: _Rate = None,
    pcie: _Rate = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
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
    separate = units.flag(dual_plane, "dual_plane")
    whole = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    return _servers_on_rails(
        whole,
        servers=servers,
        gpus=gpus,
        rails=rails,
        oversubscription=oversubscription,
        tiers=tiers,
        expand=expand,
        nvlink=nvlink,
        pcie=pcie,
        planes=2,
        dual_plane=separate,
    )
