"""What families of switches share: their parts; direct networks; counts, cables and bisection of the folded Clos.

In a folded Clos two switches of neighbouring tiers that are joined at all have the same number of cables as any other
two, and every cable is a link of its own, so that a hash can choose among them. Names are kind and coordinates:
``pod`` where there are three tiers, ``server`` and ``local`` of hosts, GPUs and NICs, ``plane``, ``rail``, ``index``;
of direct networks ``x``, ``y``, ``z``, ``d4``, ... of a grid, ``group`` and ``router``, or ``index``, and ``local``,
which numbers the hosts of a switch.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from fabriclab import catalog, units
from fabriclab.catalog.clos import Plan, rail_plan
from fabriclab.core import Fabric, FabricBuilder, Ints, check_size
from fabriclab.registry import register

# illustrative: cables as in a hall of some tens of racks
HOST_LENGTH, SWITCH_LENGTH = "10 m", "30 m"
_Build = Callable[..., Fabric]
_COORD = ("pod", "server", "local", "plane", "rail", "index")
# Arguments of the families of servers on rails, for those that are not given.
_DEFAULT = {
    "servers": 128,
    "gpus": 8,
    "rails": 8,
    "radix": None,
    "oversubscription": 1,
    "tiers": None,
    "expand": True,
    "planes": 1,
    "dual_plane": True,
    "apart": False,
    "rate": None,
    "pcie": None,
}


@dataclass(frozen=True)
class Parts:
    """Switches, and the cables outside the server, in SI."""

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
        """Read the arguments; None stands for 64-port NDR switches (Quantum-2) and NICs (ConnectX-7).

        Two resellers give 330 ns and at most 150 ns as the forwarding time of that switch and its maker
        none: the longer one is taken, so that a time is rather too long than too short.
        """
        ports = int(catalog.value("switches", "quantum2", "ports"))
        delay = catalog.value("switches", "quantum2", "latency_port_to_port", source="Q2-yobi")
        capacity = catalog.value("nics", "cx7", "throughput") if rate is None else units.rate(rate)
        forwarding = delay if switch_delay is None else units.latency(switch_delay, "switch_delay")
        lengths = (
            units.length(host_length, "host_length"),
            units.length(switch_length, "switch_length"),
        )
        return cls(
            units.count(ports if radix is None else radix, "radix", 2),
            capacity,
            forwarding,
            *lengths,
        )

    def join(self, b: FabricBuilder, one: Ints, other: Ints, length: float) -> None:
        """Add fibres between nodes, broadcast together."""
        delay = length * catalog.value("media", "fibre", "propagation")
        b.add_cables(one, other, capacity=self.rate, delay=delay, medium="fibre", length=length)

    def split(self, planes: int) -> Self:
        """Return the same switches with each port split into ``planes`` slower ones."""
        return replace(self, radix=self.radix * planes, rate=self.rate / planes)


def family(
    name: str, *of: Callable[..., Any], fixed: str = "", **about: Any
) -> Callable[[_Build], _Build]:
    """Return a decorator that registers a family of switches.

    What its function takes as ``**asked`` and hands on are the keywords of ``of`` and of `Parts.parse`, but for one
    that is ``fixed``.
    """

    def keep(build: _Build) -> _Build:
        own = [
            p for p in inspect.signature(build).parameters.values() if p.kind is not p.VAR_KEYWORD
        ]
        every = {p.name: p for p in own}
        for p in (p for f in (*of, Parts.parse) for p in inspect.signature(f).parameters.values()):
            if p.kind is p.KEYWORD_ONLY and p.name != fixed:
                every.setdefault(p.name, p)
        build.__signature__ = inspect.Signature([*every.values()])  # type: ignore[attr-defined]
        return register("topology", name, **about)(build)

    return keep


def check(switches: int, cables: int, hosts: int, spines: int = 0) -> None:
    """Refuse a fabric that needs more memory than there is, before it is made; spines have no hosts."""
    units.count(hosts, "hosts", 0)
    what = f"a fabric of {switches * (hosts or 1)} {'hosts' if hosts else 'chips'}"
    check_size(what, switches * (1 + hosts) + spines, cables + switches * hosts)


def assemble(
    asked: Mapping[str, Any],
    hosts: int,
    cables: Iterable[tuple[Ints, Ints]],
    *layers: Mapping[str, Any],
) -> Fabric:
    """Return a fabric of switches with these coordinates; ``cables`` join them by number, ``asked`` is as in `Parts`.

    Two layers are leaves and spines. Hosts are on the first layer; without hosts its nodes are chips, which are
    endpoints, let traffic pass and have as many ports as they use.
    """
    parts = Parts.parse(**asked)
    kinds = ("leaf", "spine") if len(layers) > 1 else ("switch",) if hosts else ("chip",)
    b = FabricBuilder(
        ("host", *kinds) if hosts else kinds, (*layers[0], "local") if hosts else tuple(layers[0])
    )
    n, end = len(next(iter(layers[0].values()))), np.zeros(0, dtype=np.int64)
    if hosts:
        where: dict[str, Any] = {name: np.repeat(c, hosts) for name, c in layers[0].items()}
        end = b.add_nodes(
            "host", n * hosts, tier=0, transit=False, **where, local=np.tile(np.arange(hosts), n)
        )
    node = np.concatenate(
        [
            b.add_nodes(
                kind,
                len(next(iter(layer.values()))),
                tier=tier,
                transit=True,
                radix=parts.radix if hosts else 0,
                forwarding=parts.forwarding,
                **layer,
            )
            for tier, (kind, layer) in enumerate(zip(kinds, layers, strict=True), start=hosts > 0)
        ]
    )
    parts.join(b, end, np.repeat(node[:n], hosts), parts.host_length)
    for one, other in cables:
        parts.join(b, node[one], node[other], parts.switch_length)
    end = end if hosts else node
    return b.build("direct", {}, endpoint=end, rail=np.zeros(end.size), server=np.arange(end.size))


def down_ports(radix: int, oversubscription: float) -> int:
    """Return the ports of a leaf that face down, so that down : up is at most ``oversubscription``."""
    number = hasattr(oversubscription, "__float__") and not isinstance(oversubscription, bool)
    if not number or np.ndim(oversubscription):
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
    kinds: tuple[str, ...], plan: Plan, nodes: int, cables: int, what: str, networks: int = 1
) -> FabricBuilder:
    """Return a builder for networks of this plan with that many further nodes and cables, if memory allows."""
    check_size(what, nodes + networks * sum(plan.switches), cables + networks * plan.cables)
    return FabricBuilder(
        (*kinds, *("leaf", "spine", "core")[: 1 + (plan.spines > 0) + (plan.cores > 0)]), _COORD
    )


def add_switches(
    b: FabricBuilder,
    plan: Plan,
    parts: Parts,
    ends: Ints,
    leaf_of: Ints,
    *,
    tier: int = 1,
    rails: int = 0,
    ports: int = 1,
    **where: int,
) -> None:
    """Add all switches, the cables from ``ends`` (hosts or NICs) to their leaves, and those between switches.

    The leaves of a pod stand rail by rail, and this once for each of the ``ports`` of a NIC that meet at the spines;
    ``where`` are coordinates of all switches.
    """
    pods, leaves, spines = plan.pods, plan.leaves, plan.spines

    def add(kind: str, n: int, height: int) -> Ints:
        index, coord = np.arange(n), dict[str, Any](where)
        if plan.cores and kind != "core":
            coord["pod"], index = np.divmod(index, n // pods)
        if rails and kind == "leaf":
            block, index = np.divmod(index, leaves // (rails * ports))
            coord |= {"rail": block % rails} | ({"plane": block // rails} if ports > 1 else {})
        return b.add_nodes(
            kind,
            n,
            tier=height,
            transit=True,
            radix=parts.radix,
            forwarding=parts.forwarding,
            index=index,
            **coord,
        )

    def join(lower: Ints, upper: Ints, length: float, copies: int = 1) -> None:
        parts.join(b, lower[..., None] + np.zeros(copies, dtype=np.int64), upper[..., None], length)

    leaf = add("leaf", pods * leaves, tier)
    join(ends, leaf[leaf_of], parts.host_length)
    if spines:
        spine = add("spine", pods * spines, tier + 1)
        join(
            leaf.reshape(pods, leaves, 1),
            spine.reshape(pods, 1, spines),
            parts.switch_length,
            plan.per_spine,
        )
    if plan.cores:
        core = add("core", spines * plan.cores, tier + 2)
        join(
            spine.reshape(pods, spines, 1),
            core.reshape(1, spines, plan.cores),
            parts.switch_length,
            plan.per_core,
        )


def networks(**asked: Any) -> tuple[SimpleNamespace, Plan, int, int]:
    """Return all arguments, the plan of each network, and the servers of a leaf and of a pod.

    A NIC has ``planes`` ports, each in a network of its own if ``dual_plane``, else all in one: ``ports`` are those
    in one network, and ``joined`` the rails that meet at its spines, times those. Rails ``apart`` are networks too.
    """
    a = SimpleNamespace(**_DEFAULT | asked)
    radix = a.planes * (
        int(catalog.value("switches", "quantum2", "ports")) if a.radix is None else a.radix
    )
    a.ports, room = 1 if a.dual_plane else a.planes, down_ports(radix, a.oversubscription)
    a.joined = 1 if a.apart else a.rails * a.ports
    joined = a.joined if a.apart or a.planes > 1 else None
    return a, *rail_plan(
        a.servers, a.gpus, a.rails, radix, room, a.oversubscription, a.tiers, joined
    )


def bisection(**asked: Any) -> int | None:
    """Return the cables of the narrowest cut into halves, or None where the formula does not settle it.

    From below: every rank of one half sends to another of the other half through its own NIC at the part of the
    rate that a leaf passes on, spread evenly. From above: half of the ranks, or the uplinks of half of the leaves.
    """
    a, plan, per_leaf, _ = networks(**asked)
    up, (full, rest) = plan.spines * plan.per_spine, divmod(a.servers, per_leaf)
    if a.expand and (
        a.servers % 2 or a.rate is not None or a.pcie is not None
    ):  # a cut may pass a server or its PCIe
        return None
    if a.apart and a.rails > 1:
        return None if a.expand or a.rails % 2 else 0
    if not plan.spines or up >= per_leaf * (a.gpus // a.rails):
        return int(a.planes * (a.servers * a.gpus // 2))
    return (
        None
        if rest or (full if a.expand else full * a.rails) % 2
        else int(a.planes * full * a.rails * up // 2)
    )
