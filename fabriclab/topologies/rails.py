"""Servers on rails: joined by one network, by one network per rail or NIC port, or with two leaves per NIC.

The NIC of GPU i of every server is plugged into the leaves of rail i, so NICs with the same number meet at a leaf.
"""

from functools import partial

import numpy as np

from fabriclab import catalog, units
from fabriclab.core import Fabric
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
from fabriclab.topologies.clusters import ServerEndpoints, add_servers, check_nvlinks

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
    """Build servers on one network, on one network per rail (``apart``), or with each NIC on several ``planes``.

    A NIC has one port per plane, each with an equal part of its rate. With ``dual_plane`` each plane is a network of
    its own; otherwise each has leaves of its own under common spines. ``whole`` describes the switches before their
    ports are split among the planes.
    """
    parts = whole.split(planes)
    n = units.count(servers, "servers")
    g = units.count(gpus, "gpus")
    r = units.count(rails, "rails")
    expand = units.flag(expand, "expand")
    if expand:
        check_nvlinks(g)
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
    copies = r if apart else planes // network.ports  # number of equal networks

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

    server, local = np.divmod(np.arange(n * g), g)  # (n g,) for each GPU and its NIC
    if expand:
        ends = add_servers(b, server, local, nvlink, pcie)
    else:
        nic = b.add_nodes("nic", n * g, tier=0, transit=False, server=server, local=local)
        ends = ServerEndpoints(nic, nic)

    # Leaves are numbered pod by pod, within a pod block by block (one block per rail and port of a NIC), and within a
    # block in the order of their servers.
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
    """Build a rail-optimised cluster: servers with one NIC per GPU, in which NIC i is plugged into rail i.

    If there are fewer ``rails`` than GPUs per server, NIC i is on rail i modulo ``rails``. A server is expanded to its
    GPUs, one NVLink node (for all NVSwitch chips together; the NVLinks of a GPU are one link), and for each GPU a PCIe
    switch with a NIC. Rank r is GPU r modulo ``gpus`` of server r // ``gpus``. A GPU does not pass on traffic of
    others. Leaves out host CPUs and their memory, and forwarding times inside a server (no source gives one for NVLink
    switches).

    The defaults are the cluster of the course: 4 leaves on each of 8 rails, 16 spines, 1,024 cables to servers and
    1,024 between switches, two from each leaf to each spine; leaf i of a rail serves servers 32 i to 32 i + 31. Two
    NICs are 2 links apart on one leaf, 4 through a spine, 6 through a core. With three tiers a pod has up to k^2/4
    NICs, where k is the radix; the full size at 1:1 is the same as for the fat tree: k^3/4 GPUs, 5k^2/4 switches. Other
    sizes: leaves and pods are filled in order, and all pods have the same switches. Every leaf has as many uplinks as
    the fullest leaf needs; spines and cores are as few as can be with evenly spread cables, as in ``leaf_spine``. Only
    leaves are oversubscribed.

    Parameters
    ----------
    servers, gpus, rails : int
        Number of servers, GPUs per server, and rails. >= 1, rails divides gpus
    radix, oversubscription : int, float, optional
        As in ``leaf_spine``.
    tiers : int, optional
        Tiers of switches, 2 or 3; unless given, 2 as long as a spine has a port for every leaf.
    expand : bool
        Whether to build the inside of the servers. If False, the NICs are the endpoints.
    rate, nvlink, pcie : float or str, optional
        Rate of a NIC and of a cable, of all NVLinks of a GPU together, and of PCIe; ConnectX-7, NVLink 4 and 16 lanes
        of PCIe 5.0 unless given. [B/s]
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
    """Build a rail-only cluster, in which every rail is a network of its own: no spine joins two rails [1]_.

    The servers are the same as in ``rail_optimised``. A rail of up to ``radix`` NICs is a single switch, so 64 servers
    of 8 GPUs need 8 switches; a larger rail is a leaf-spine network or a fat tree of three tiers. Two GPUs on different
    rails of different servers have no path without a relay: a GPU in one of the two servers has to pass the data on
    over NVLink. Without the inside of the servers (``expand=False``) the bisection is 0 for an even number of rails.

    Parameters
    ----------
    servers, gpus, rails, radix, oversubscription, tiers, expand : optional
        As in ``rail_optimised``, but for each rail by itself.
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
    """Build a multi-plane cluster: each NIC has one port in each of several planes, which are separate networks.

    A switch with ``radix`` ports at the rate of the NIC is split into ``radix`` x ``planes`` ports at the rate of the
    NIC divided by ``planes``. Each plane is a rail-optimised network of such switches, or, with ``rails=1``, a
    leaf-spine network or fat tree (a single switch, if it has ports for all). The trade-off: two tiers of k-port
    switches connect k^2/2 NICs; on P planes they connect P^2 times as many with the same number of switches per NIC,
    but with P times the cables, and a flow that stays on one plane has 1/P of the rate. If a leaf fails, its NICs lose
    1/P of their rate. Distances are those of one plane; the bisection counts the cables of all planes.

    Parameters
    ----------
    servers, gpus, rails : int
        As in ``rail_optimised``.
    planes : int
        Number of planes, which is the number of ports of a NIC. >= 1
    radix : int, optional
        Ports of a switch at the full rate of a NIC; 64 unless given. >= 2
    oversubscription, tiers, expand : optional
        As in ``rail_optimised``.
    rate : float or str, optional
        Rate of all ports of a NIC together; 800 Gb/s (ConnectX-8) unless given. [B/s]
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
    """Build a cluster whose NICs have two leaves each, as in HPN 7.0 [1]_ (whose uplinks are twice as fast).

    A switch with ``radix`` ports at the rate of the NIC has 2 ``radix`` ports at half that rate. With ``dual_plane``
    the first ports of all NICs form one network and the second ports another, so a flow stays in the plane on which it
    left its NIC. Without it both leaves of a pair share their spines, so two tiers connect half as many servers. If a
    leaf fails, its NICs keep half of their rate. With ``radix=128`` at 400 Gb/s a segment has 128 servers, which are
    1,024 GPUs on 16 leaves, and two tiers hold 15 segments.

    Parameters
    ----------
    servers, gpus, rails : int
        As in ``rail_optimised``.
    radix : int, optional
        Ports of a switch at the full rate of a NIC; 64 unless given. >= 2
    oversubscription, tiers, expand : optional
        As in ``rail_optimised``.
    dual_plane : bool
        Whether the two leaves of a NIC belong to separate networks.
    rate : float or str, optional
        Rate of both ports of a NIC together; 400 Gb/s (ConnectX-7) unless given. [B/s]
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
