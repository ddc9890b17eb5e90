"""Shared by the topologies of switches: rates and lengths, direct networks, and the folded Clos and its bisection.

In a folded Clos any two switches of neighbouring tiers that are joined at all are joined by the same number of cables.
Every cable is a link of its own, so that a hash can choose among them. A node is named by its kind and coordinates. In
a Clos these are ``pod`` (if there are three tiers), ``server`` and ``local`` (of hosts, GPUs and NICs), ``plane``,
``rail`` and ``index``. In a direct network they are ``x``, ``y``, ``z``, ``d4``, ... for a grid, ``group`` and
``router``, or ``index``; ``local`` numbers the hosts of a switch.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from fabriclab import catalog, units
from fabriclab.catalog.clos import ClosPlan, rail_plan
from fabriclab.core import Fabric, FabricBuilder, Ints, check_size
from fabriclab.topologies.clusters import in_servers

# illustrative: cables as in a hall of some tens of racks
HOST_LENGTH = "10 m"
# illustrative: cables as in a hall of some tens of racks
SWITCH_LENGTH = "30 m"
_CLOS_COORDINATES = ("pod", "server", "local", "plane", "rail", "index")


@dataclass(frozen=True)
class Parts:
    """Properties of the switches, and of the cables outside the servers, in SI units."""

    radix: int
    rate: float
    forwarding: float
    host_length: float
    switch_length: float

    @classmethod
    def parse(
        cls,
        *,
        radix: int | None = None,
        rate: units.Quantity | None = None,
        switch_delay: units.Quantity | None = None,
        host_length: units.Quantity = HOST_LENGTH,
        switch_length: units.Quantity = SWITCH_LENGTH,
    ) -> Self:
        """Convert the arguments to SI units; None stands for 64-port NDR switches (Quantum-2) and ConnectX-7 NICs.

        Two resellers quote the forwarding time of that switch, one as 330 ns, the other as at most 150 ns; its maker
        publishes none. The longer time is used, so that a predicted time is too long rather than too short.
        """
        if rate is None:
            capacity = catalog.value("nics", "cx7", "throughput")
        else:
            capacity = units.rate(rate)
        if switch_delay is None:
            forwarding = catalog.value(
                "switches", "quantum2", "latency_port_to_port", source="Q2-yobi"
            )
        else:
            forwarding = units.latency(switch_delay, "switch_delay")
        host_metres = units.length(host_length, "host_length")
        switch_metres = units.length(switch_length, "switch_length")
        ports = default_radix() if radix is None else units.count(radix, "radix", 2)
        return cls(
            radix=ports,
            rate=capacity,
            forwarding=forwarding,
            host_length=host_metres,
            switch_length=switch_metres,
        )

    def join(self, b: FabricBuilder, one: Ints, other: Ints, length: float) -> None:
        """Add a fibre of ``length`` [m] from each node of ``one`` to its node of ``other``, broadcast together."""
        delay = length * catalog.value("media", "fibre", "propagation")
        b.add_cables(one, other, capacity=self.rate, delay=delay, medium="fibre", length=length)

    def split(self, planes: int) -> Self:
        """Return the same switches with each port split into ``planes`` slower ones."""
        return replace(self, radix=self.radix * planes, rate=self.rate / planes)


def default_radix() -> int:
    """Return the number of ports of the switch that is used if no radix is given (Quantum-2)."""
    return int(catalog.value("switches", "quantum2", "ports"))


def check(switches: int, cables: int, hosts: int, spines: int = 0) -> None:
    """Refuse a fabric that needs more memory than this machine has, before it is built.

    Parameters
    ----------
    switches : int
        Number of switches with hosts, or of chips.
    cables : int
        Number of cables between them, and to spines.
    hosts : int
        Hosts on each switch; with 0 the switches are chips. >= 0
    spines : int
        Number of switches without hosts.
    """
    units.count(hosts, "hosts", 0)
    if hosts:
        title = f"a fabric of {switches * hosts} hosts"
    else:
        title = f"a fabric of {switches} chips"
    check_size(title, switches * (1 + hosts) + spines, cables + switches * hosts)


def assemble(
    parts: Parts,
    hosts: int,
    cables: Iterable[tuple[Ints, Ints]],
    *layers: Mapping[str, Ints],
    gpus: int | None = None,
) -> Fabric:
    """Build a fabric of switches that are joined directly, or of leaves and spines.

    Parameters
    ----------
    parts : Parts
        The switches and cables.
    hosts : int
        Hosts on each switch of the first layer. With 0 the nodes of that layer are chips: endpoints that let traffic
        pass and have as many ports as they use.
    cables : iterable of pairs of arrays
        The switches at both ends of each cable, numbered layer by layer.
    *layers : mapping of str to array of int
        Coordinates of all switches of each layer, by name. If there are two layers, they are leaves and spines.
    gpus : int, optional
        GPUs of a server, if the hosts are the NICs of servers.
    """
    if gpus is not None and not hosts:
        raise ValueError(
            f"gpus must be left out where the switches have no hosts, got gpus={gpus!r:.80}; "
            "give the switches hosts, such as one for each GPU of a server"
        )
    if len(layers) > 1:
        kinds: tuple[str, ...] = ("leaf", "spine")
    elif hosts:
        kinds = ("switch",)
    else:
        kinds = ("chip",)
    coordinates = tuple(layers[0])
    if hosts:
        b = FabricBuilder(("host", *kinds), (*coordinates, "local"))
    else:
        b = FabricBuilder(kinds, coordinates)

    n = _length(layers[0])  # number of switches, or chips, in the first layer
    host = np.zeros(0, dtype=np.int64)
    if hosts:
        where = {name: np.repeat(values, hosts) for name, values in layers[0].items()}
        where["local"] = np.tile(np.arange(hosts), n)
        host = b.add_nodes("host", n * hosts, tier=0, transit=False, **where)

    lowest_tier = 1 if hosts else 0
    blocks = []
    for tier, (kind, layer) in enumerate(zip(kinds, layers, strict=True), start=lowest_tier):
        block = b.add_nodes(
            kind,
            _length(layer),
            tier=tier,
            transit=True,
            radix=parts.radix if hosts else 0,
            forwarding=parts.forwarding,
            **layer,
        )
        blocks.append(block)
    node = np.concatenate(blocks)

    parts.join(b, host, np.repeat(node[:n], hosts), parts.host_length)
    for one, other in cables:
        parts.join(b, node[one], node[other], parts.switch_length)

    endpoint = host if hosts else node
    network = b.build(
        "direct",
        {},
        endpoint=endpoint,
        rail=np.zeros(endpoint.size),
        server=np.arange(endpoint.size),
    )
    return in_servers(network, gpus)


def _length(layer: Mapping[str, Ints]) -> int:
    """Return the number of switches in a layer."""
    return len(next(iter(layer.values())))


def down_ports(radix: int, oversubscription: float) -> int:
    """Return how many ports of a leaf face down, the most for which down : up is at most ``oversubscription``."""
    is_number = hasattr(oversubscription, "__float__") and not isinstance(oversubscription, bool)
    if not is_number or np.ndim(oversubscription):
        raise TypeError(
            f"oversubscription must be one number such as 2 (down : up), got {oversubscription!r:.80}"
        )
    up = math.floor(radix / (1 + oversubscription) + 1e-9) if oversubscription >= 1 else 0
    if up < 1:
        raise ValueError(
            f"oversubscription must be within 1..{radix - 1} (down : up), got {oversubscription!r}"
        )
    return math.floor(up * oversubscription + 1e-9)


def start(
    kinds: tuple[str, ...],
    plan: ClosPlan,
    nodes: int,
    cables: int,
    title: str,
    networks: int = 1,
) -> FabricBuilder:
    """Return a builder for several networks of one plan and for other nodes; refuse them if memory does not suffice.

    Parameters
    ----------
    kinds : tuple of str
        Kinds of the nodes outside the networks; the kinds of the switches follow them.
    plan : ClosPlan
        Plan of each network.
    nodes, cables : int
        Number of nodes and cables outside the networks.
    title : str
        Name of the fabric in the error message.
    networks : int
        Number of networks.
    """
    check_size(title, nodes + networks * sum(plan.switches), cables + networks * plan.cables)
    switch_kinds = ["leaf"]
    if plan.spines:
        switch_kinds.append("spine")
    if plan.cores:
        switch_kinds.append("core")
    return FabricBuilder((*kinds, *switch_kinds), _CLOS_COORDINATES)


def add_switches(
    b: FabricBuilder,
    plan: ClosPlan,
    parts: Parts,
    ends: Ints,
    leaf_of: Ints,
    *,
    tier: int = 1,
    rails: int = 0,
    ports: int = 1,
    **where: int,
) -> None:
    """Add all switches, the cables from ``ends`` (hosts or NICs) to their leaves, and the cables between switches.

    The leaves of a pod are numbered rail by rail. If ``ports`` of a NIC lead to the same spines, each of these ports
    has such a block of leaves.

    Parameters
    ----------
    b : FabricBuilder
        Builder to which the ends have been added already.
    plan : ClosPlan
        Counts of switches and cables.
    parts : Parts
        The switches and cables.
    ends, leaf_of : arrays of int
        Nodes, and the number of the leaf of each; broadcast together, one cable per entry.
    tier : int
        Tier of the leaves.
    rails : int
        Number of rails, which the leaves have as the coordinate ``rail``; with 0 they have no such coordinate.
    ports : int
        Ports of a NIC in this network.
    **where : int
        Coordinates that all switches have in common.
    """

    def add(kind: str, n: int, height: int) -> Ints:
        """Add all switches of a kind, with the coordinates pod, rail and plane where there are several of these."""
        index = np.arange(n)
        coordinates: dict[str, Ints | int] = dict(where)
        if plan.cores and kind != "core":
            coordinates["pod"], index = np.divmod(index, n // plan.pods)
        if rails and kind == "leaf":
            block, index = np.divmod(index, plan.leaves // (rails * ports))
            coordinates["rail"] = block % rails
            if ports > 1:
                coordinates["plane"] = block // rails
        return b.add_nodes(
            kind,
            n,
            tier=height,
            transit=True,
            radix=parts.radix,
            forwarding=parts.forwarding,
            index=index,
            **coordinates,
        )

    def join(lower: Ints, upper: Ints, length: float, copies: int = 1) -> None:
        """Add ``copies`` cables between each pair of switches, broadcast together."""
        one = lower[..., None] + np.zeros(copies, dtype=np.int64)  # (..., copies)
        parts.join(b, one, upper[..., None], length)

    leaf = add("leaf", plan.pods * plan.leaves, tier)
    join(ends, leaf[leaf_of], parts.host_length)

    if plan.spines:  # every leaf to every spine of its pod
        spine = add("spine", plan.pods * plan.spines, tier + 1)
        join(
            leaf.reshape(plan.pods, plan.leaves, 1),
            spine.reshape(plan.pods, 1, plan.spines),
            parts.switch_length,
            plan.per_spine,
        )

    if plan.cores:  # spine i of every pod to the cores of group i
        core = add("core", plan.spines * plan.cores, tier + 2)
        join(
            spine.reshape(plan.pods, plan.spines, 1),
            core.reshape(1, plan.spines, plan.cores),
            parts.switch_length,
            plan.per_core,
        )


@dataclass(frozen=True, kw_only=True)
class RailNetworks:
    """Servers on rails, and the plan of each network that joins them.

    A NIC has ``planes`` ports: each in a network of its own with ``dual_plane``, otherwise all in one network. With
    ``apart`` each rail is a network of its own, too.
    """

    servers: int
    gpus: int  # of a server
    rails: int
    planes: int
    apart: bool
    ports: int  # of a NIC in one network
    blocks: (
        int  # of leaves that meet at the spines of a network: its rails, times the ports of a NIC
    )
    clos: ClosPlan  # of each network
    servers_per_leaf: int
    servers_per_pod: int


def networks(
    *,
    servers: int = 128,
    gpus: int = 8,
    rails: int = 8,
    radix: int | None = None,
    oversubscription: float = 1,
    tiers: int | None = None,
    planes: int = 1,
    dual_plane: bool = True,
    apart: bool = False,
    **_without_effect: object,
) -> RailNetworks:
    """Plan the networks that join servers on rails.

    Takes the arguments of all topologies with rails; those that change no network have no effect.
    """
    whole_ports = default_radix() if radix is None else radix
    split_ports = planes * whole_ports
    ports = 1 if dual_plane else planes
    room = down_ports(split_ports, oversubscription)
    blocks = 1 if apart else rails * ports
    joined = blocks if apart or planes > 1 else None

    plan = rail_plan(
        servers, gpus, rails, split_ports, room, oversubscription, tiers=tiers, joined=joined
    )
    return RailNetworks(
        servers=servers,
        gpus=gpus,
        rails=rails,
        planes=planes,
        apart=apart,
        ports=ports,
        blocks=blocks,
        clos=plan.clos,
        servers_per_leaf=plan.servers_per_leaf,
        servers_per_pod=plan.servers_per_pod,
    )


def bisection(
    *,
    expand: bool = True,
    rate: units.Quantity | None = None,
    pcie: units.Quantity | None = None,
    **asked: Any,
) -> int | None:
    """Return the number of cables in the narrowest cut into halves, or None if the formula does not settle it.

    Takes the arguments of the topologies with rails and of `networks`. Lower bound: every rank of one half sends to a
    rank of the other half through its own NIC, spread evenly, at the fraction of its rate that a leaf has in uplinks.
    Upper bound: a cut through the cables of half of the ranks, or through the uplinks of half of the leaves. The
    formula holds where the two bounds are equal.
    """
    network = networks(**asked)
    own_rates = rate is not None or pcie is not None
    if expand and (network.servers % 2 or own_rates):
        return None  # a cut may go through a server or its PCIe
    if network.apart and network.rails > 1:
        return None if expand or network.rails % 2 else 0

    plan = network.clos
    uplinks = plan.spines * plan.per_spine  # of a leaf
    nics = network.servers_per_leaf * (network.gpus // network.rails)  # of a full leaf
    if not plan.spines or uplinks >= nics:
        return int(network.planes * (network.servers * network.gpus // 2))

    full_leaves, rest = divmod(network.servers, network.servers_per_leaf)  # of one rail
    movable = (
        full_leaves if expand else full_leaves * network.rails
    )  # blocks, each of which a cut may put on either side
    if rest or movable % 2:
        return None
    return int(network.planes * full_leaves * network.rails * uplinks // 2)
