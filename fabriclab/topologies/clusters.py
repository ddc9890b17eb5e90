"""Servers joined to a network: copies of any server, or servers with an NVLink node and a NIC for each GPU.

The latter are the servers of all families: of those with rails, and of every other one that is given ``gpus``.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import catalog, units
from fabriclab.core import Fabric, FabricBuilder, Flags, Ints, check_size
from fabriclab.core.fabric import LINK_ARRAYS, NODE_ARRAYS

_GPUS = 8  # of a server unless given, as in the families with rails
_MEDIA_INSIDE = ("nvlink", "xgmi", "pcie", "c2c", "socket")  # of servers and scale-up domains


class ServerEndpoints(NamedTuple):
    """Endpoints of all servers, and the NIC of each endpoint."""

    endpoint: Ints
    nic: Ints


class NvLinks(NamedTuple):
    """NVLink ports of all switch chips of a server together, and NVLinks of a GPU."""

    ports: int
    links_per_gpu: int


def _nvlinks() -> NvLinks:
    """Return the NVLink ports of a server's switch chips, and the NVLinks of a GPU."""
    chips = catalog.value("systems", "dgxh100", "nvswitch_chips")
    ports = chips * catalog.value("switches", "nvswitch3", "ports")
    links = catalog.value("links", "nvlink4", "links_per_gpu")
    return NvLinks(int(ports), int(links))


def check_nvlinks(gpus: int) -> None:
    """Refuse more GPUs per server than its NVLink ports can join."""
    ports, links = _nvlinks()
    if gpus * links > ports:
        most = ports // links
        msg = f"gpus must be within 1..{most} (a server has {ports} NVLink ports, a GPU takes {links}), got {gpus}"
        raise ValueError(
            msg
            + "; take more servers, or leave out their inside: with rails expand=False, else hosts and no gpus"
        )


def add_servers(
    b: FabricBuilder,
    server: Ints,
    local: Ints,
    nvlink: units.Quantity | None,
    pcie: units.Quantity | None,
) -> ServerEndpoints:
    """Add the inside of all servers; ``server`` and ``local`` give each GPU's server and its number there."""
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


@dataclass(frozen=True)
class Ends:
    """What a network has to connect: hosts with a port each, or servers with a NIC and a port for each GPU."""

    count: int  # hosts, or servers
    each: int  # ports that one of them needs
    gpus: int | None  # of a server; None for hosts

    @property
    def ports(self) -> int:
        """Ports that all of them need."""
        return self.count * self.each

    @property
    def title(self) -> str:
        """Name of the argument that counts them."""
        return "hosts" if self.gpus is None else "servers"


def read_ends(hosts: int | None, servers: int | None, gpus: int | None) -> Ends | None:
    """Return what ``hosts``, ``servers`` and ``gpus`` describe together, or None without hosts and servers.

    Servers have 8 GPUs unless ``gpus`` is given; hosts with ``gpus`` are the NICs of servers.
    """
    if hosts is not None and servers is not None:
        raise ValueError(
            f"hosts and servers must not both be given, got hosts={hosts!r:.80} and servers={servers!r:.80}; "
            "give servers with gpus for GPUs behind NVLink, or hosts alone for one port each"
        )
    if servers is not None:
        each = units.count(_GPUS if gpus is None else gpus, "gpus")
        return Ends(units.count(servers, "servers"), each, each)
    if hosts is None:
        return None

    ports = units.count(hosts, "hosts")
    if gpus is None:
        return Ends(ports, 1, None)
    each = units.count(gpus, "gpus")
    _check_whole_servers(ports, each)
    return Ends(ports // each, each, each)


def in_servers(
    network: Fabric,
    gpus: int | None,
    nvlink: units.Quantity | None = None,
    pcie: units.Quantity | None = None,
) -> Fabric:
    """Return a cluster in which the hosts of a network are the NICs of servers, or the network itself if gpus is None.

    Hosts s g to s g + g - 1 are NICs 0 to g - 1 of server s, with g GPUs in each; inside they are the servers of
    ``rail_optimised``.
    """
    if gpus is None:
        for name, rate in (("nvlink", nvlink), ("pcie", pcie)):
            if rate is not None:
                raise ValueError(
                    f"{name} must be left out where there are no servers, got {rate!r:.80}; "
                    "give servers and gpus, or leave it out"
                )
        return network
    each = units.count(gpus, "gpus")
    _check_whole_servers(network.n_ranks, each)
    check_nvlinks(each)

    b = FabricBuilder(("gpu", "nvlink", "pcie", "nic"), ("server", "local"))
    local = np.arange(each)
    ends = add_servers(b, np.zeros(each, dtype=np.int64), local, nvlink, pcie)
    server = b.build("server", {}, endpoint=ends.endpoint, rail=local, server=np.zeros(each))
    return compose(server, network, network.n_ranks // each)


def _check_whole_servers(hosts: int, gpus: int) -> None:
    """Refuse hosts that do not fill whole servers."""
    if hosts % gpus:
        raise ValueError(
            f"gpus must divide the number of hosts ({hosts}), each of which is one NIC, got {gpus}; "
            f"take a divisor of {hosts}, or {hosts - hosts % gpus or gpus} hosts"
        )


def compose(server: Fabric, fabric: Fabric, count: int) -> Fabric:
    """Connect ``count`` copies of a server through a network, and return the whole cluster with its GPUs as ranks.

    Every endpoint of the network is replaced by a NIC: with q NICs (nodes of kind ``nic``) per server, endpoint
    s q + i becomes NIC i of server s, and the cables of the endpoint are plugged into that NIC. The ranks are the GPUs
    of server 0, then those of server 1, and so on. With g GPUs per server, GPU j gets the rail of NIC j q // g, so
    that each NIC serves GPUs with neighbouring numbers. The switches of the network stand above the NICs in the order
    of tiers. All nodes of a copy have its number as the coordinate ``server``; if ``server`` is a rack of several
    servers, these are numbered on from copy to copy.

    Parameters
    ----------
    server : Fabric
        GPUs as endpoints, and NICs that let traffic pass, such as ``topologies.build("dgx_h100")``.
    fabric : Fabric
        Any network whose endpoints are NICs or hosts, ``count`` times q of them.
    count : int
        Number of servers. >= 1

    Returns
    -------
    Fabric
        The cluster.

    Raises
    ------
    TypeError
        If ``server`` or ``fabric`` is not a Fabric.
    ValueError
        If the server has no NIC that lets traffic pass, or the network does not have ``count`` times q endpoints.
    TooLarge
        If the result needs more memory than this machine has.
    """
    for name, value in (("server", server), ("fabric", fabric)):
        if not isinstance(value, Fabric):
            raise TypeError(
                f"{name} must be a Fabric, got {value!r:.80}; make one with topologies.build(...)"
            )
    n = units.count(count, "count")
    nic = server.nodes("nic") if "nic" in server.kinds else np.zeros(0, np.int64)
    if not nic.size or not server.transit[nic].all():
        raise ValueError(
            "server must have nodes of the kind 'nic' that let traffic pass, "
            f"got the kinds {', '.join(server.kinds)}; "
            "take a server of topologies.names(), or add NICs to yours"
        )
    if fabric.n_ranks != n * nic.size:
        raise ValueError(
            f"fabric must have {n * nic.size} endpoints ({n} servers with {nic.size} NICs each), "
            f"got {fabric.n_ranks}; build it for as many hosts, or change count"
        )
    # Nodes of the result: those of the server, copy by copy, then those of the fabric that are not endpoints.
    rest = np.setdiff1d(np.arange(fabric.n_nodes), fabric.endpoint)
    inside = n * server.n_nodes
    cables = n * server.n_cables + fabric.n_cables
    check_size(f"a fabric of {n} servers", inside + rest.size, cables)

    first = np.arange(n)[:, None] * server.n_nodes  # (n, 1) node 0 of every copy
    place = np.zeros(
        fabric.n_nodes, dtype=np.int64
    )  # (N,) number that each node of the fabric has in the result
    place[rest] = inside + np.arange(rest.size)
    place[fabric.endpoint] = (first + nic).ravel()

    column: dict[str, Any] = {}
    for name in NODE_ARRAYS:
        column[name] = np.concatenate(
            [np.tile(getattr(server, name), n), getattr(fabric, name)[rest]]
        )
    for name in LINK_ARRAYS:
        column[name] = np.concatenate([np.tile(getattr(server, name), n), getattr(fabric, name)])
    for name in ("source", "target"):
        of_copies = first + getattr(server, name)  # (n, links of a server)
        column[name] = np.concatenate([of_copies.ravel(), place[getattr(fabric, name)]])
    column["tier"][inside:] += server.tier[nic].max()

    links = n * server.n_links
    kinds, column["kind"][inside:] = _joined(server.kinds, fabric.kinds, column["kind"][inside:])
    media, column["medium"][links:] = _joined(server.media, fabric.media, column["medium"][links:])
    servers_each = int(server.server.max(initial=0)) + 1  # servers of a copy: a rack has several
    coord_names, coord = _joined_coordinates(server, fabric, n, rest, servers_each)

    nearest_nic = np.arange(server.n_ranks) * nic.size // server.n_ranks  # of each GPU
    composed = Fabric(
        kinds=kinds,
        media=media,
        coord=coord,
        coord_names=coord_names,
        **column,
        endpoint=(first + server.endpoint).ravel(),
        rail=fabric.rail.reshape(n, -1)[:, nearest_nic].ravel(),
        server=(np.arange(n)[:, None] * servers_each + server.server).ravel(),
        family="compose",
        asked={"server": server.family, "fabric": fabric.family, "count": n},
    )
    if server.call and fabric.call:
        return composed.shown_as(f"topologies.compose({server.call}, {fabric.call}, {n})")
    return composed


def outside_servers(fabric: Fabric) -> Flags:
    """Return which links are cables of the network: between servers, or with an end in none, (L,).

    Their length does not tell, as it may be given as 0. Links of a scale-up domain are no such cables, even those that
    leave a server of a rack.
    """
    is_inside = np.isin(np.array(fabric.media)[fabric.medium], _MEDIA_INSIDE)
    server = fabric.coordinate("server")
    one = server[fabric.source]
    other = server[fabric.target]
    within_one = (one == other) & (one >= 0)
    return np.asarray(~is_inside & ~within_one)


def _joined(
    one: tuple[str, ...], other: tuple[str, ...], code: NDArray[Any]
) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Return the names of both, and the numbers ``code`` of the other in the new list; unused names are left out."""
    used = np.unique(code)
    names = tuple(dict.fromkeys([*one, *(other[i] for i in used)]))
    new_code = np.array([names.index(other[i]) for i in used])
    return names, new_code[np.searchsorted(used, code)]


def _joined_coordinates(
    server: Fabric, fabric: Fabric, n: int, rest: NDArray[np.integer], servers_each: int
) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Return names and values of the coordinates of ``n`` copies of a server, then of the ``rest`` of a fabric.

    All nodes of a copy have its number as the coordinate ``server``; if a copy has ``servers_each`` servers, these are
    numbered on from copy to copy. A node that lacks a coordinate gets -1.
    """
    names = list(fabric.coord_names)
    if "server" not in names:
        names.insert(0, "server")
    for name in server.coord_names:
        if name not in names:
            names.append(name)

    inside = n * server.n_nodes
    coord = np.full((inside + rest.size, len(names)), -1)
    of_server = [names.index(name) for name in server.coord_names]
    coord[:inside, of_server] = np.tile(server.coord, (n, 1))
    of_fabric = [names.index(name) for name in fabric.coord_names]
    coord[inside:, of_fabric] = fabric.coord[rest]

    number = names.index("server")
    first_server = np.repeat(
        np.arange(n) * servers_each, server.n_nodes
    )  # of each node of all copies
    server_in_copy = np.maximum(coord[:inside, number], 0)
    coord[:inside, number] = first_server + server_in_copy
    return tuple(names), coord
