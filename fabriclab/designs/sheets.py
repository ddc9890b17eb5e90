"""The sheet of a design: plain data that a learner returns, and the `Design` that is read from it.

A sheet names a topology and its arguments, or lists switches and cables; it may say how NICs are plugged, where racks
stand, how switches forward, and in which order the job uses its servers. `sheet_of` turns a `Fabric` into a sheet, so
that nothing but text and numbers has to leave the process of a learner.

Examples
--------
>>> from fabriclab import designs
>>> hall = designs.read({"family": "rail_optimised", "arguments": {"servers": 128, "oversubscription": 2}})
>>> hall.servers, hall.gpus, len(hall.switches)
(128, 8, 43)
"""

from __future__ import annotations

import inspect
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np

from fabriclab import catalog, registry, spelling, topologies, units
from fabriclab.core import Fabric, FabricBuilder, Floats, Ints, ReadOnly
from fabriclab.core.fabric import LINK_ARRAYS, NODE_ARRAYS
from fabriclab.designs.network import Network, Rules, shortest_rules
from fabriclab.designs.racks import place, read_floor
from fabriclab.economics.floor import MEDIA, switches
from fabriclab.errors import FabricError
from fabriclab.topologies.clusters import outside_servers

__all__ = ["KEYS", "PLUGS", "SPRAY", "Design", "plug", "read", "sheet_of"]

SPRAY = "spray"
PLUGS = ("by rail", "by server")
KEYS = (
    "name",
    "family",
    "arguments",
    "servers",
    "gpus",
    "plug",
    "switches",
    "cables",
    "without",
    "floor",
    "server_racks",
    "routing",
    "order",
    "front",
    "choice",
    "drains",
)
_NIC = re.compile(r"server\s*(\d+)\s*nic\s*(\d+)", re.IGNORECASE)
_NUMBERED = re.compile(r"(?P<kind>[A-Za-z]+)[ _-]*(?P<numbers>\d+(?:\.\d+)*)")
_SWITCH_KEYS = ("name", "ports", "rate", "tier", "rack")
_CABLE_KEYS = ("from", "to", "count", "medium", "rate")
_MOST_SWITCHES = 320
_MOST_CABLES = 20_000
_MOST_SERVERS = 1200
_LARGE = 4096  # of an argument
_LEAST_SERVERS = 2
_MOST_WITH_RULES = 80  # switches, as rules are tables of n x n x n, followed after each failure
_MOST_READ_RULES = 112  # switches: so many may have rules that say what shortest paths do anyway


@dataclass(frozen=True, eq=False)
class Design:
    """A cluster that somebody has designed: its fabric, and how the job uses it.

    Parameters
    ----------
    name : str
        Name that its designer gave it.
    fabric : Fabric
        The network in its racks, with NICs as endpoints. A port limit that the design breaks is left out; see
        ``ports``.
    servers, gpus : int
        Number of servers, and of GPUs (and NICs) in each.
    ports : (N,) int64
        Ports that each switch is said to have.
    port_rate : (N,) float64
        Rate of a port of each switch. [B/s]
    racks : (N,) int64
        Rack of each node, -1 where it is not known.
    network : Network
        Switches, bundles and ports in arrays.
    order : tuple of int or None
        Servers in the order of the job's rings, if the design gives one.
    names : mapping of str to int
        Node of each switch by the name that the design uses.
    sheet : mapping
        The sheet that was read.
    """

    name: str
    fabric: Fabric
    servers: int
    gpus: int
    ports: Ints
    port_rate: Floats
    racks: Ints
    network: Network
    order: tuple[int, ...] | None = None
    names: Mapping[str, int] = field(default_factory=dict)
    sheet: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def switches(self) -> Ints:
        """Nodes of all switches."""
        return self.network.switch

    def node(self, name: str) -> int:
        """Return the node of a switch by its name in the design, or by that in the fabric."""
        if name in self.names:
            return self.names[name]
        try:
            return self.fabric.node(name)
        except (TypeError, ValueError):
            near = spelling.near(str(name), list(self.names))
            raise ValueError(f"{name!r:.60} is no switch of the design{near}") from None

    def switch(self, name: str) -> int:
        """Return the number of a switch within ``network.switch`` by its name."""
        number = self._numbers.get(self.node(name))
        if number is None:
            raise ValueError(
                f"{name!r:.60} is no switch of the design; name one such as {self.title(0)!r}"
            )
        return number

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {node: number for number, node in enumerate(self.network.switch.tolist())}

    def title(self, number: int) -> str:
        """Return the name of a switch by its number within ``network.switch``."""
        return self._titles[number]

    @cached_property
    def _titles(self) -> list[str]:
        own = {node: name for name, node in self.names.items()}
        return [own.get(node) or self.fabric.name(node) for node in self.network.switch.tolist()]

    def label(self, node: int) -> str:
        """Return the name of a node as a sheet writes it: that of a switch, or ``"server 4 nic 0"``."""
        number = self._numbers.get(node)
        if number is not None:
            return self.title(number)
        rank = int(self.fabric.rank_of[node])
        if rank < 0 or "local" not in self.fabric.coord_names:
            return self.fabric.name(node)
        return f"server {int(self.fabric.server[rank])} nic {int(self.fabric.coordinate('local')[node])}"

    def link_title(self, link: int) -> str:
        """Return the name of a link as a sheet writes it, such as ``"server 4 nic 0 -> leaf 1"``."""
        one, other = int(self.fabric.source[link]), int(self.fabric.target[link])
        return f"{self.label(one)} -> {self.label(other)}"

    def same_network(self, other: Design) -> bool:
        """Return whether another design is the same network, however its sheet is written.

        Servers, switches, cables, lengths, media, rules and order count; names do not, nor do drains and choice. Two
        designs that number their switches in another order count as different.
        """
        mine, yours = self._content, other._content
        return len(mine) == len(yours) and all(
            np.array_equal(a, b) for a, b in zip(mine, yours, strict=True)
        )

    @cached_property
    def _content(self) -> list[Any]:
        fabric, net = self.fabric, self.network
        live = np.flatnonzero(fabric.capacity > 0)
        number = np.full(fabric.n_nodes, -1)
        number[net.switch] = np.arange(net.n)
        end = fabric.rank_of >= 0
        number[end] = net.n + fabric.rank_of[end]
        source, target = number[fabric.source], number[fabric.target]
        # Alike networks list their links alike, whatever the order in which a sheet names its cables.
        keys = (fabric.length, fabric.capacity, target, source)
        links = live[np.lexsort([key[live] for key in keys])]
        servers_in_order = () if self.order is None else self.order
        rules = np.zeros(0) if net.rules is None else net.rules.part
        return [
            np.array([self.servers, self.gpus]),
            source[links],
            target[links],
            fabric.capacity[links],
            fabric.length[links],
            np.array(fabric.media)[fabric.medium[links]],
            self.ports[net.switch],
            self.port_rate[net.switch],
            np.array(servers_in_order, dtype=np.int64),
            rules,
        ]

    def __repr__(self) -> str:
        """Show the name and the sizes."""
        return f"<Design {self.name!r}: {self.servers} servers of {self.gpus} GPUs, {self.network.n} switches>"


def read(sheet: Mapping[str, Any] | Fabric | Design) -> Design:
    """Return the design that a sheet describes.

    Parameters
    ----------
    sheet : mapping, Fabric or Design
        The sheet; a Fabric is turned into one by `sheet_of`, a Design is returned as it is.

    Raises
    ------
    ValueError, TypeError
        If the sheet contradicts itself or asks for something that does not exist; the error says what was given, what
        was expected, and how to mend it.
    """
    if isinstance(sheet, Design):
        return sheet
    if isinstance(sheet, Fabric):
        sheet = sheet_of(sheet)
    if not isinstance(sheet, Mapping):
        raise TypeError(
            f"a design must be a dict with keys such as 'family' and 'arguments', got {sheet!r:.80}"
        )
    _check_keys(sheet, KEYS, "a design")
    try:
        return _read(sheet)
    except MemoryError:
        raise ValueError(
            "a design must fit into memory, and this one does not; build it for about 1,000 GPUs"
        ) from None
    except FabricError as error:
        raise ValueError(str(error)) from error


def _read(sheet: Mapping[str, Any]) -> Design:
    """Return the design of a sheet whose keys are known."""
    if "switches" in sheet or "cables" in sheet:
        if "family" in sheet:
            raise ValueError(
                "a design must have either a family or switches and cables, got both; leave out one of them"
            )
        draft = _explicit(sheet)
    elif "family" in sheet:
        draft = _of_family(sheet)
    else:
        raise ValueError(
            "a design must have a 'family' with 'arguments', or 'switches' and 'cables', got "
            f"{sorted(map(str, sheet))}; see designs.sheet_of(fabric)"
        )
    if draft.servers < _LEAST_SERVERS:
        raise ValueError(
            f"a design must have at least {_LEAST_SERVERS} servers, since a server alone needs no network, got "
            f"{draft.servers}; give more servers"
        )
    return _finished(draft, sheet)


@dataclass
class _Draft:
    """A fabric before its racks, and what is known of its switches."""

    fabric: Fabric
    servers: int
    gpus: int
    ports: Ints
    names: dict[str, int]
    switch_racks: Ints | None = None  # (N,)
    media: Sequence[str | None] = ()  # of each cable; None: the cheapest that reaches
    port_rate: Floats | None = None


def _finished(draft: _Draft, sheet: Mapping[str, Any]) -> Design:
    """Return a design in its racks, with its rules."""
    fabric = draft.fabric
    if sheet.get("without"):
        parts = sheet["without"]
        named = [parts] if isinstance(parts, str) else list(parts)
        fabric = fabric.without(*(_known_part(part, draft.names) for part in named))
    if fabric.n_cables > _MOST_CABLES or int(switches(fabric).sum()) > _MOST_SWITCHES:
        raise ValueError(
            f"a design may have {_MOST_SWITCHES} switches and {_MOST_CABLES:,} cables, got "
            f"{int(switches(fabric).sum())} and {fabric.n_cables:,}; build one for about 1,000 GPUs"
        )
    plan = read_floor(sheet.get("floor"))
    fabric, racks = place(
        fabric,
        plan,
        server_racks=_own_racks(sheet, draft.servers),
        switch_racks=draft.switch_racks,
        media=draft.media,
    )
    rate = draft.port_rate
    if rate is None:
        rate = np.zeros(fabric.n_nodes)
        bought = draft.fabric.capacity  # as it was before parts were left out
        np.maximum.at(rate, draft.fabric.source, bought)
    network = Network.of(fabric, draft.servers, idle=False)
    if not network.n:
        raise ValueError(
            "a design must have a switch with a cable, got none; leave some of 'without' out"
        )
    design = Design(
        name=str(sheet.get("name") or sheet.get("family") or "a design of one's own"),
        fabric=fabric,
        servers=draft.servers,
        gpus=draft.gpus,
        ports=draft.ports,
        port_rate=rate,
        racks=racks,
        network=network,
        order=_order(sheet.get("order"), draft.servers),
        names=ReadOnly(draft.names),
        sheet=ReadOnly(dict(sheet)),
    )
    rules = _rules(design, sheet.get("routing", SPRAY))
    if rules is None:
        return design
    return replace(design, network=replace(network, rules=rules))


def _known_part(part: Any, names: Mapping[str, int]) -> Any:
    """Return a part that is left out as the fabric knows it: the node of a switch that has a name of one's own."""
    return names.get(part, part) if isinstance(part, str) else part


def _own_racks(sheet: Mapping[str, Any], servers: int) -> Ints | None:
    """Return the rack of each server that a sheet gives, if it does."""
    given = sheet.get("server_racks")
    if given is None:
        return None
    racks = [_count(rack, "server_racks", 0, 10_000) for rack in _listed(given, "server_racks")]
    if len(racks) != servers:
        raise ValueError(
            f"server_racks must have a rack for each of {servers} servers, got {len(racks)}"
        )
    return np.array(racks)


def _order(given: Any, servers: int) -> tuple[int, ...] | None:
    """Return the order of servers that a sheet gives, if it does."""
    if given is None:
        return None
    order = tuple(_count(s, "order", 0, servers - 1) for s in _listed(given, "order"))
    if len(set(order)) != servers or len(order) != servers:
        raise ValueError(
            f"order must name each of {servers} servers once, got {len(order)} entries with {len(set(order))} "
            "different ones; leave it out, and servers follow each other by their switches"
        )
    return order


def _listed(given: Any, name: str) -> list[Any]:
    """Return a list that a sheet gives, or refuse anything else."""
    if isinstance(given, str | Mapping) or not hasattr(given, "__iter__"):
        raise TypeError(f"{name} must be a list, got {given!r:.80}")
    return list(given)


# ---- a topology by its name ------------------------------------------------------------------------------------------


def _of_family(sheet: Mapping[str, Any]) -> _Draft:
    """Return the design of a topology: one with rails, or hosts into which NICs are plugged."""
    family = registry.find("topology", sheet["family"])
    arguments = sheet.get("arguments", {})
    if not isinstance(arguments, Mapping):
        raise TypeError(
            f"arguments must be a dict such as {{'servers': 128}}, got {arguments!r:.80}"
        )
    known = inspect.signature(registry.get("topology", family)).parameters
    asked = {name: _whole(value) for name, value in arguments.items()}
    _check_small(asked)
    for key in ("servers", "gpus"):
        if key in sheet and key in asked and sheet[key] != asked[key]:
            raise ValueError(
                f"{key} must be said once, got {sheet[key]!r:.60} in the sheet and {asked[key]!r:.60} in its "
                "arguments; leave one of them out"
            )
    if "rails" in known:
        for key in ("servers", "gpus"):
            if key in sheet:
                asked.setdefault(key, _whole(sheet[key]))
        if "plug" in sheet:
            raise ValueError(
                f"plug must be left out with {family}, which plugs NIC i into rail i; got {sheet['plug']!r:.60}"
            )
        asked["expand"] = False
        fabric = topologies.build(family, **asked)
        return _draft(fabric)

    gpus = _count(sheet.get("gpus", asked.pop("gpus", 8)), "gpus", 1, 64)
    servers = sheet.get("servers", asked.pop("servers", None))
    if servers is not None and "hosts" in known and "hosts" not in asked and _counts_all(family):
        asked["hosts"] = _count(servers, "servers", 1, _MOST_SERVERS) * gpus
    network = topologies.build(family, **asked)
    if servers is None:
        servers = network.n_ranks // gpus
    plugged = plug(network, servers, gpus, sheet.get("plug", "by server"))
    return _draft(plugged)


def _check_small(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that would build a network far larger than the brief's, before it is built."""
    for name, value in arguments.items():
        numbers = value if isinstance(value, list | tuple) else [value]
        for number in numbers:
            if (
                isinstance(number, Integral)
                and not isinstance(number, bool)
                and int(number) > _LARGE
            ):
                raise ValueError(
                    f"{name} must be at most {_LARGE:,} for about 1,000 GPUs, got {int(number):,}; see the topology's "
                    "help"
                )
        sides = [int(n) for n in numbers if isinstance(n, Integral) and int(n) > 0]
        if math.prod(sides) > _LARGE:
            raise ValueError(
                f"{name} must have at most {_LARGE:,} places in all for about 1,000 GPUs, got {math.prod(sides):,}; "
                "take shorter sides"
            )


def _whole(value: Any) -> Any:
    """Return a float that is a whole number of moderate size as an int, and anything else as it is."""
    if isinstance(value, float) and abs(value) <= _LARGE and value.is_integer():
        return int(value)
    return value


def _count(value: Any, name: str, low: int = 1, high: int | None = None) -> int:
    """Return a whole number within bounds; 128.0 is one, too, as 1024 / 8 gives it."""
    return units.count(_whole(value), name, low, high)


def _counts_all(family: str) -> bool:
    """Return whether ``hosts`` of a topology are all hosts, and not those of a switch."""
    return family in ("crossbar", "leaf_spine", "fat_tree", "xgft", "jellyfish")


def _draft(fabric: Fabric) -> _Draft:
    """Return what is known of a fabric whose endpoints are NICs."""
    servers = int(fabric.server.max()) + 1
    gpus = fabric.n_ranks // servers
    if servers > _MOST_SERVERS:
        raise ValueError(
            f"servers must be at most {_MOST_SERVERS} for about 1,000 GPUs, got {servers}"
        )
    names = {fabric.name(node): node for node in np.flatnonzero(switches(fabric)).tolist()}
    return _Draft(fabric, servers, gpus, fabric.radix.astype(np.int64), names)


def plug(
    network: Fabric, servers: int, gpus: int = 8, by: str | Sequence[int] = "by rail"
) -> Fabric:
    """Return a network whose hosts have become the NICs of servers.

    Parameters
    ----------
    network : Fabric
        Any network of hosts, such as ``topologies.build("leaf_spine", hosts=1024)``. Hosts that are not needed go.
    servers, gpus : int
        Number of servers, and of GPUs and NICs in each. >= 1
    by : str or sequence of int
        ``"by rail"``: NIC j of all servers take the hosts j x servers and on, so that they meet at switches;
        ``"by server"``: the NICs of a server take neighbouring hosts. Or the host of each NIC, server after server.

    Examples
    --------
    >>> from fabriclab import designs, topologies
    >>> designs.plug(topologies.build("leaf_spine", hosts=32, radix=8), 8, 4).summary()
    {'leaf': 8, 'spine': 4, 'nic': 32, 'cables': 64, 'ranks': 32, 'servers': 8}
    """
    n = _count(servers, "servers", 1, _MOST_SERVERS)
    each = _count(gpus, "gpus", 1, 64)
    number = np.arange(n * each)
    if n * each > network.n_ranks:
        raise ValueError(
            f"the network must have a host for each of {n} x {each} = {n * each} NICs, got {network.n_ranks}; "
            "build it for more hosts, or take fewer servers"
        )
    if np.any(network.transit[network.endpoint]):
        raise ValueError(
            "the network must have hosts, whose places NICs take, but its endpoints pass on traffic of others; "
            "give its switches hosts, such as hosts=8"
        )
    if isinstance(by, str):
        way = units.choice(by, "plug", PLUGS)
        slot = number if way == "by server" else number % each * n + number // each
    else:
        slot = np.array([_count(s, "plug", 0, network.n_ranks - 1) for s in _listed(by, "plug")])
        if slot.size != n * each or np.unique(slot).size != slot.size:
            raise ValueError(
                f"plug must name a different host for each of {n} x {each} = {n * each} NICs, server after server, "
                f"got {slot.size} with {np.unique(slot).size} different ones"
            )
    return _renamed(network, network.endpoint[slot].astype(np.int64), n, each)


def _renamed(network: Fabric, endpoint: Ints, servers: int, gpus: int) -> Fabric:
    """Return a network whose endpoints are called NICs of servers, without the other endpoints."""
    unused = np.setdiff1d(network.endpoint, endpoint)
    keep = np.setdiff1d(np.arange(network.n_nodes), unused)
    place_of = np.full(network.n_nodes, -1)
    place_of[keep] = np.arange(keep.size)
    link = (place_of[network.source] >= 0) & (place_of[network.target] >= 0)
    column: dict[str, Any] = {name: getattr(network, name)[keep] for name in NODE_ARRAYS}
    column |= {name: getattr(network, name)[link] for name in LINK_ARRAYS}
    for name in ("source", "target"):
        column[name] = place_of[column[name]]
    end = place_of[endpoint]

    names = [name for name in network.coord_names if name not in ("server", "local")]
    coord = np.full((keep.size, len(names) + 2), -1)
    for i, name in enumerate(names):
        coord[:, i] = network.coordinate(name)[keep]
    coord[end, :] = -1
    coord[end, -2], coord[end, -1] = np.divmod(np.arange(end.size), gpus)
    kinds = (*(kind for kind in network.kinds if kind != "nic"), "nic")
    code = np.array([kinds.index(kind) for kind in network.kinds])
    column["kind"] = code[column["kind"]]
    column["kind"][end] = kinds.index("nic")
    used = sorted(set(column["kind"].tolist()))
    column["kind"] = np.searchsorted(used, column["kind"])
    return Fabric(
        kinds=tuple(kinds[i] for i in used),
        coord_names=(*names, "server", "local"),
        coord=coord,
        media=network.media,
        endpoint=end,
        rail=np.arange(end.size, dtype=np.int32) % gpus,
        server=np.arange(end.size, dtype=np.int32) // gpus,
        family=network.family,
        asked=network.asked,
        **column,
    )


# ---- switches and cables of one's own --------------------------------------------------------------------------------


def _explicit(sheet: Mapping[str, Any]) -> _Draft:
    """Return the design of a list of switches and a list of cables."""
    for key in ("servers", "switches", "cables"):
        if key not in sheet:
            raise ValueError(
                f"a design with switches and cables must have {key!r}, got {sorted(map(str, sheet))}"
            )
    for key in ("plug", "arguments"):
        if key in sheet:
            raise ValueError(f"{key} must be left out with switches and cables, which say it all")
    servers = _count(sheet["servers"], "servers", 1, _MOST_SERVERS)
    gpus = _count(sheet.get("gpus", 8), "gpus", 1, 64)
    boxes = [_switch(given, i) for i, given in enumerate(_listed(sheet["switches"], "switches"))]
    if not boxes or len(boxes) > _MOST_SWITCHES:
        raise ValueError(f"switches must list 1..{_MOST_SWITCHES} switches, got {len(boxes)}")
    names: dict[str, int] = {}
    for box in boxes:
        if box["name"] in names:
            raise ValueError(
                f"each switch must have a name of its own, got {box['name']!r:.60} twice"
            )
        names[box["name"]] = servers * gpus + len(names)
    cables = _cables(sheet, names, servers, gpus)
    return _built(servers, gpus, boxes, names, cables)


def _check_keys(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    """Refuse a key that nobody reads, and name the nearest that somebody does."""
    for key in given:
        if key not in known:
            question = spelling.near(str(key), known)
            raise ValueError(
                f"{what} has no key {key!r:.60}{question}; its keys are {', '.join(known)}"
            )


def _switch(given: Any, number: int) -> dict[str, Any]:
    """Return a switch of a sheet with all of its fields."""
    if not isinstance(given, Mapping):
        raise TypeError(
            f"a switch must be a dict such as {{'name': 'leaf 0', 'ports': 64, 'rate': '400 Gb/s'}}, got {given!r:.80}"
        )
    _check_keys(given, _SWITCH_KEYS, "a switch")
    job = catalog.case()
    rack = given.get("rack")
    return {
        "name": str(given.get("name", f"switch {number}")),
        "ports": _count(given.get("ports", int(job.switch_ports)), "ports", 1, 1024),
        "rate": units.rate(given.get("rate", float(job.nic_rate)), "rate"),
        "tier": _count(given.get("tier", 0), "tier", 0, 9),
        "rack": -1 if rack is None else _count(rack, "rack", 0, 10_000),
    }


@dataclass(frozen=True, slots=True)
class _Cable:
    """Cables between the same two boxes."""

    one: int
    other: int
    count: int
    rate: float | None
    medium: str | None


def _cables(
    sheet: Mapping[str, Any], names: Mapping[str, int], servers: int, gpus: int
) -> list[_Cable]:
    """Return the cables of a sheet."""

    def node(name: Any) -> int:
        if isinstance(name, str) and name in names:
            return names[name]
        nic = _NIC.fullmatch(name.strip()) if isinstance(name, str) else None
        if nic is None:
            question = spelling.near(str(name), list(names)) if isinstance(name, str) else ""
            raise ValueError(
                f"an end of a cable must be a switch or a NIC such as 'server 0 nic 3', got {name!r:.60}{question}"
            )
        server = _count(int(nic[1]), "server of a cable", 0, servers - 1)
        return server * gpus + _count(int(nic[2]), "nic of a cable", 0, gpus - 1)

    found = []
    for given in _listed(sheet["cables"], "cables"):
        if isinstance(given, Mapping):
            _check_keys(given, _CABLE_KEYS, "a cable")
            row = [given.get("from"), given.get("to"), given.get("count", 1)]
            rate = units.rate(given["rate"], "rate of a cable") if "rate" in given else None
            medium = units.choice(given["medium"], "medium", MEDIA) if given.get("medium") else None
        else:
            row = _listed(given, "a cable")
            if len(row) not in (2, 3):
                raise ValueError(
                    f"a cable must be [from, to] or [from, to, how many], got {given!r:.80}"
                )
            rate = medium = None
        count = _count(row[2] if len(row) > 2 else 1, "number of cables", 1, 1024)
        one, other = node(row[0]), node(row[1])
        if one == other:
            raise ValueError(f"a cable must have two different ends, got {row[0]!r} twice")
        if max(one, other) < servers * gpus:
            raise ValueError(
                f"a cable must have a switch at one end at least, got {row[0]!r} - {row[1]!r}: servers pass on no "
                "traffic of others; put a switch between them"
            )
        found.append(_Cable(one, other, count, rate, medium))
    if not found:
        raise ValueError("cables must list at least one cable, got none")
    return found


def _built(
    servers: int,
    gpus: int,
    boxes: list[dict[str, Any]],
    names: dict[str, int],
    cables: list[_Cable],
) -> _Draft:
    """Return the fabric of switches and cables."""
    nics = servers * gpus
    at_nic = Counter[int]()
    for cable in cables:
        for end in (cable.one, cable.other):
            at_nic[end] += cable.count
    nic_rate = float(catalog.case().nic_rate)
    tiers = _tiers(boxes, nics, cables)
    kinds, numbers = _kinds(boxes, tiers)

    order = list(dict.fromkeys(kinds))
    b = FabricBuilder(("nic", *order), ("server", "local", "index", "sub"))
    server, local = np.divmod(np.arange(nics), gpus)
    b.add_nodes("nic", nics, tier=0, transit=False, server=server, local=local)
    forwarding = catalog.value("switches", "quantum2", "latency_port_to_port", source="Q2-yobi")
    for i in range(len(boxes)):
        index, sub = numbers[i]
        b.add_nodes(
            kinds[i],
            1,
            tier=tiers[i],
            transit=True,
            forwarding=forwarding,
            index=index,
            sub=sub,
        )
    ends = np.array([(c.one, c.other) for c in cables for _ in range(c.count)])
    media = [c.medium for c in cables for _ in range(c.count)]
    rates = []
    for cable in cables:
        least = [boxes[end - nics]["rate"] for end in (cable.one, cable.other) if end >= nics]
        least += [nic_rate / at_nic[end] for end in (cable.one, cable.other) if end < nics]
        rates += [cable.rate or min(least)] * cable.count
    if len(ends) > _MOST_CABLES:
        raise ValueError(f"cables must be at most {_MOST_CABLES:,}, got {len(ends):,}")
    # illustrative: lengths and media follow from the racks
    b.add_cables(ends[:, 0], ends[:, 1], capacity=np.array(rates), medium="fibre", length=1.0)
    fabric = b.build("custom", {}, endpoint=np.arange(nics), rail=local, server=server)
    ports = np.concatenate([np.zeros(nics, np.int64), [box["ports"] for box in boxes]])
    rate = np.concatenate([np.zeros(nics), [box["rate"] for box in boxes]])
    racks = np.concatenate([np.full(nics, -1), [box["rack"] for box in boxes]])
    own = racks if np.any(racks >= 0) else None
    return _Draft(fabric, servers, gpus, ports, names, own, media, rate)


def _tiers(boxes: list[dict[str, Any]], nics: int, cables: list[_Cable]) -> list[int]:
    """Return the tier of each switch: as given, or 1 with servers and 2 without."""
    serves = set()
    for cable in cables:
        if min(cable.one, cable.other) < nics:
            serves.add(max(cable.one, cable.other) - nics)
    return [box["tier"] or (1 if i in serves else 2) for i, box in enumerate(boxes)]


def _kinds(
    boxes: list[dict[str, Any]], tiers: list[int]
) -> tuple[list[str], list[tuple[int, int]]]:
    """Return kind and numbers of each switch: those of its name if all names are alike, else by its tier."""
    found = [_NUMBERED.fullmatch(box["name"].strip()) for box in boxes]
    parsed = []
    for match in found:
        if match is None or match["kind"].lower() in ("nic", "server", "gpu"):
            break
        numbers = [int(digits) for digits in match["numbers"].split(".")]
        if len(numbers) > 2 or max(numbers) >= 2**31:
            break
        parsed.append((match["kind"].lower(), (numbers[0], numbers[1] if len(numbers) > 1 else -1)))
    if len(parsed) == len(boxes) and len(set(parsed)) == len(boxes):
        return [kind for kind, _ in parsed], [numbers for _, numbers in parsed]
    by_tier = {1: "leaf", 2: "spine", 3: "core"}
    kinds = [by_tier.get(tier, "switch") for tier in tiers]
    return kinds, [(i, -1) for i in range(len(boxes))]


def sheet_of(fabric: Fabric, **rest: Any) -> dict[str, Any]:
    """Return a fabric as a sheet that lists its switches and cables.

    Lengths and media are left out: they follow from the racks (``floor=...``).

    Parameters
    ----------
    fabric : Fabric
        A cluster with a NIC for each GPU: with the inside of its servers, or with the NICs as endpoints. Links that
        have failed are left out.
    **rest
        Other keys of the sheet, such as ``choice`` and ``drains``.

    Raises
    ------
    ValueError
        If the fabric has no servers of equal size, or not a NIC for each GPU.
    """
    if not isinstance(fabric, Fabric):
        raise TypeError(
            f"fabric must be a Fabric, got {fabric!r:.80}; make one with topologies.build(...)"
        )
    nic_of = _nics(fabric)  # (N,) number of the NIC of each node, -1
    servers = int(fabric.server.max()) + 1
    gpus = fabric.n_ranks // servers
    is_switch = switches(fabric)
    if "nic" in fabric.kinds:
        is_switch &= fabric.coordinate("server") < 0
    label = {node: fabric.name(node) for node in np.flatnonzero(is_switch).tolist()}
    for node in np.flatnonzero(nic_of >= 0).tolist():
        server, local = divmod(int(nic_of[node]), gpus)
        label[node] = f"server {server} nic {local}"

    outside = outside_servers(fabric)[::2] & (fabric.capacity[::2] > 0)
    bundles: Counter[tuple[int, int, float]] = Counter()
    port_rate = np.zeros(fabric.n_nodes)
    for cable in np.flatnonzero(outside).tolist():
        one, other = int(fabric.source[2 * cable]), int(fabric.target[2 * cable])
        for end in (one, other):
            if end not in label:
                raise ValueError(
                    f"cables between servers must join NICs and switches, got one at {fabric.name(end)}"
                )
        ports = max(int(fabric.ports[2 * cable]), 1)
        rate = float(fabric.capacity[2 * cable]) / ports
        bundles[one, other, rate] += ports
        for end in (one, other):
            port_rate[end] = max(port_rate[end], rate)
    boxes = []
    for node in np.flatnonzero(is_switch).tolist():
        boxes.append(
            {
                "name": label[node],
                "ports": int(fabric.radix[node] or fabric.ports_used[node]),
                "rate": float(port_rate[node] or catalog.case().nic_rate),
                "tier": int(fabric.tier[node] - fabric.tier[is_switch].min() + 1),
            }
        )
    cables = []
    for (one, other, rate), count in bundles.items():
        cables.append({"from": label[one], "to": label[other], "count": count, "rate": rate})
    sheet = {"servers": servers, "gpus": gpus, "switches": boxes, "cables": cables}
    return sheet | rest


def _nics(fabric: Fabric) -> Ints:
    """Return the number of each node as a NIC, server after server; -1 for all others, (N,)."""
    number = np.full(fabric.n_nodes, -1)
    servers = int(fabric.server.max(initial=-1)) + 1
    size = np.bincount(fabric.server.clip(0), minlength=max(servers, 1))
    if servers < 1 or np.any(size != size[0]):
        raise ValueError(
            "fabric must have servers with the same number of GPUs each; build it with servers and gpus, or use "
            "designs.plug(network, servers)"
        )
    passes = fabric.transit[fabric.endpoint].any()
    inner = "nic" in fabric.kinds and not np.isin(fabric.endpoint, fabric.nodes("nic")).all()
    if not inner:
        if passes:
            raise ValueError(
                "fabric must have NICs as endpoints that pass on no traffic; use designs.plug(network, servers)"
            )
        order = np.argsort(fabric.server, kind="stable")
        number[fabric.endpoint[order]] = np.arange(fabric.n_ranks)
        return number
    nic = fabric.nodes("nic")
    server = fabric.coordinate("server")[nic]
    if nic.size != fabric.n_ranks:
        raise ValueError(
            f"fabric must have a NIC for each of its {fabric.n_ranks} GPUs, got {nic.size}"
        )
    number[nic[np.argsort(server, kind="stable")]] = np.arange(nic.size)
    return number


# ---- forwarding ------------------------------------------------------------------------------------------------------


def _rules(design: Design, given: Any) -> Rules | None:
    """Return the forwarding rules of a sheet, completed by shortest paths; None where those do it all."""
    if given is None or given == SPRAY or (isinstance(given, Mapping) and not given):
        return None
    if not isinstance(given, Mapping):
        raise ValueError(
            f"routing must be 'spray' (all shortest paths share) or rules such as "
            f"{{'leaf 0': {{'leaf 8': ['spine 0']}}}}, got {given!r:.80}"
        )
    net = design.network
    n = net.n
    too_many = f"rules of one's own are for at most {_MOST_WITH_RULES} switches, got {n}; leave routing out for 'spray'"
    if n > _MOST_READ_RULES:
        raise ValueError(too_many)
    part = np.stack([shortest_rules(net.capacity, net.hops[:, goal]) for goal in range(n)])
    shortest = part.copy()
    has_servers = np.bincount(net.port_switch, minlength=n) > 0  # no traffic ends at the others
    for here_name, towards in given.items():
        here = design.switch(here_name)
        if not isinstance(towards, Mapping):
            raise TypeError(
                f"rules of {here_name!r:.60} must be a dict from goal to next switches, got {towards!r:.80}"
            )
        for goal_name, following in towards.items():
            goal = design.switch(goal_name)
            names = (
                [following] if isinstance(following, str) else _listed(following, "next switches")
            )
            if not names:
                raise ValueError(
                    f"rules of {here_name!r:.60} towards {goal_name!r:.60} must name a next switch, got none; leave "
                    "the goal out for shortest paths"
                )
            row = np.zeros(n)
            for name in names:
                ahead = design.switch(name)
                if net.capacity[here, ahead] <= 0:
                    raise ValueError(
                        f"rules of {here_name!r:.60} name {name!r:.60} as the next switch, but no cable joins them; "
                        "name a neighbour"
                    )
                row[ahead] += 1.0 / len(names)
            if goal != here and has_servers[goal]:
                part[goal, here] = row
    if np.allclose(part, shortest):
        return None
    if n > _MOST_WITH_RULES:
        raise ValueError(too_many)
    return Rules(part, _loops(part))


def _loops(part: Floats) -> tuple[tuple[int, int], ...]:
    """Return goals whose rules lead in a circle, each with a switch on it."""
    n = len(part)
    # Switches from which traffic may go on forever: those left after all that lead to none of them are taken away.
    uses = part > 0
    uses[np.arange(n), np.arange(n), :] = False  # what has arrived stays
    left = np.ones((n, n), dtype=np.bool_)  # (goal, here)
    while True:
        stays = left & np.any(uses & left[:, None, :], axis=2)
        if np.array_equal(stays, left):
            break
        left = stays
    found = []
    for goal in np.flatnonzero(left.any(axis=1)).tolist():
        here = int(np.flatnonzero(left[goal])[0])
        for _ in range(n):  # into the circle
            here = int(np.flatnonzero(uses[goal, here] & left[goal])[0])
        found.append((goal, here))
    return tuple(found)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
