"""The work of a subnet manager: find all nodes, give each a local identifier, and fill the tables of all switches.

An InfiniBand switch knows nothing of the network. A subnet manager, a program on one host, sends packets with directed
routes (out by port 3, then by port 1, ...), finds one node after another, gives every end a local identifier (LID), and
writes a table into each switch: for each LID the port by which packets leave. Which port that is, the routing engine
decides. The texts that a real manager and its tools print are written in
`fabriclab.operations.subnet_text` and read in `fabriclab.operations.subnet_files`.

Examples
--------
>>> from fabriclab import topologies
>>> swept = sweep(topologies.build("leaf_spine", hosts=8, radix=4))
>>> swept
<Sweep from host 0: 14 nodes, 26 packets, at most 4 hops>
>>> forwarding_tables(swept, "updn").ports.shape
(6, 15)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import routing, units
from fabriclab.core import Fabric, Flags, Floats, Ints, as_html, as_text
from fabriclab.routing.updown import climbs

__all__ = [
    "Sweep",
    "SwitchTables",
    "forwarding_tables",
    "sweep",
]

NO_PORT = 255  # source: IBA specification, LinearForwardingTable: the packet is dropped
ENGINES = ("updn", "minhop", "ftree", "dor")
# Routings of this library that do what the engines of OpenSM do.
_ROUTINGS = {"minhop": "shortest", "ftree": "d_mod_k", "dor": "dimension_order"}


@dataclass(frozen=True, eq=False)
class Sweep:
    """What a subnet manager finds, in the order in which it finds it.

    Parameters
    ----------
    fabric : Fabric
        The network.
    order : (F,) int64
        Nodes as they are found; the first one is the host of the manager.
    hops : (N,) int64
        Cables between the manager and each node; -1 for nodes that it does not find.
    by : (N,) int64
        Link by which each node was found first; -1 for the manager's host and for nodes that are not found.
    lid : (N,) int64
        Local identifier of each node, from 1 in the order of `order`; 0 for nodes that are not found.
    port : (L,) int64
        Port at which each link leaves its node, from 1.
    """

    fabric: Fabric
    order: Ints
    hops: Ints
    by: Ints
    lid: Ints
    port: Ints

    @property
    def packets(self) -> int:
        """Queries: one to itself, and one through each port that has a working cable of each node that passes it on."""
        working = (self.fabric.capacity > 0) & (self.hops[self.fabric.source] >= 0)
        passes = self.fabric.transit[self.fabric.source] | (self.fabric.source == self.order[0])
        return 1 + int(np.count_nonzero(working & passes))

    def directed_route(self, node: int) -> tuple[int, ...]:
        """Return the ports by which a query to a node leaves the nodes on its way."""
        at = units.count(node, "node", 0, self.fabric.n_nodes - 1)
        if self.hops[at] < 0:
            raise ValueError(
                f"{self.fabric.name(at)} was not found; repair a cable to it, and sweep again"
            )
        ports = []
        while self.by[at] >= 0:
            link = int(self.by[at])
            ports.append(int(self.port[link]))
            at = int(self.fabric.source[link])
        return tuple(reversed(ports))

    def rows(self) -> list[list[str]]:
        """Return a table of texts, a row for each node as it is found."""
        table = [["found", "node", "hops", "directed route", "LID"]]
        for number, node in enumerate(self.order.tolist(), start=1):
            path = ",".join(map(str, (0, *self.directed_route(node))))
            table.append(
                [
                    str(number),
                    self.fabric.name(node),
                    str(self.hops[node]),
                    path,
                    str(self.lid[node]),
                ]
            )
        return table

    def __repr__(self) -> str:
        """Show what was found."""
        start = self.fabric.name(int(self.order[0]))
        lost = self.fabric.n_nodes - self.order.size
        missing = f", {lost} not found" if lost else ""
        return (
            f"<Sweep from {start}: {self.order.size:,} nodes{missing}, {self.packets:,} packets, "
            f"at most {int(self.hops.max())} hops>"
        )

    def draw(self) -> str:
        """Return the table as text."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), repr(self)[1:-1])


def port_numbers(fabric: Fabric) -> Ints:
    """Return at which port each link leaves its node, from 1 in the order of its links, (L,)."""
    pointer, order = fabric.out
    port = np.empty(fabric.n_links, dtype=np.int64)
    port[order] = np.arange(fabric.n_links) - pointer[fabric.source[order]] + 1
    return port


def sweep(fabric: Fabric, start: int = 0) -> Sweep:
    """Find the nodes of a fabric from one of its ranks, breadth first and by port, and number them.

    Parameters
    ----------
    fabric : Fabric
        The network; each rank has one cable, as a NIC with one port has. Built with ``expand=False`` if it has servers.
    start : int
        Rank on whose host the subnet manager runs.

    Raises
    ------
    ValueError
        If ranks have several cables, or let other traffic pass.
    """
    rank = units.count(start, "start", 0, fabric.n_ranks - 1)
    ends = fabric.endpoint.astype(np.int64)
    cables = np.bincount(fabric.source, minlength=fabric.n_nodes)[ends]
    if (cables != 1).any() or fabric.transit[ends].any():
        worst = int(np.argmax((cables != 1) | fabric.transit[ends]))
        raise ValueError(
            f"each rank must be an adapter with one cable, but {fabric.name(int(ends[worst]))} has {cables[worst]}; "
            "build the fabric with expand=False and switches between the ranks"
        )
    port = port_numbers(fabric)
    pointer, links = fabric.out
    hops = np.full(fabric.n_nodes, -1, dtype=np.int64)
    by = np.full(fabric.n_nodes, -1, dtype=np.int64)
    front = ends[rank : rank + 1]
    hops[front] = 0
    found = [front]
    while front.size:
        passing = front[fabric.transit[front] | (hops[front] == 0)]
        out = np.concatenate(
            [links[pointer[n] : pointer[n + 1]] for n in passing.tolist()] or [links[:0]]
        )
        out = out[(fabric.capacity[out] > 0) & (fabric.capacity[out ^ 1] > 0)]
        out = out[hops[fabric.target[out]] < 0]
        # a node that several links lead to is found by the first of them
        nodes, first = np.unique(fabric.target[out], return_index=True)
        in_order = np.argsort(first)
        front = nodes[in_order].astype(np.int64)
        by[front] = out[first[in_order]]
        hops[front] = hops[fabric.source[by[front]]] + 1
        found.append(front)
    order = np.concatenate(found)
    lid = np.zeros(fabric.n_nodes, dtype=np.int64)
    lid[order] = np.arange(1, order.size + 1)
    return Sweep(fabric, order, hops, by, lid, port)


@dataclass(frozen=True, eq=False)
class SwitchTables:
    """Linear forwarding tables of all switches that were found.

    Parameters
    ----------
    swept : Sweep
        The nodes and their LIDs.
    engine : str
        Routing engine.
    switch : (S,) int64
        Switches.
    ports : (S, Q + 1) int64
        Port for each LID; 0 is the switch itself, 255 none. LID 0 is not used.
    next_link : (N, R) int32
        The same for ranks as links, for `fabriclab.routing.from_tables`.
    """

    swept: Sweep
    engine: str
    switch: Ints
    ports: Ints
    next_link: NDArray[np.int32]

    def __repr__(self) -> str:
        """Show sizes and the engine."""
        entries = int(np.count_nonzero(self.ports[:, 1:] != NO_PORT))
        return (
            f"<SwitchTables by {self.engine}: {self.switch.size:,} switches, {entries:,} entries>"
        )


def forwarding_tables(swept: Sweep, engine: str = "updn") -> SwitchTables:
    """Fill the tables of all switches.

    Parameters
    ----------
    swept : Sweep
        What `sweep` found.
    engine : str
        ``"updn"``: a packet goes up towards the roots, then down, and never up again; so no deadlock is possible with
        one virtual lane. A switch with a way down to a LID takes the shortest one, any other the shortest one up.
        ``"minhop"``, ``"ftree"`` and ``"dor"`` do what engines of these names do, by the routings ``"shortest"``,
        ``"d_mod_k"`` and ``"dimension_order"``. Packets to switches take the ports of ``"updn"`` in all of them.

    Raises
    ------
    ValueError
        If the engine is not known, or does not fit the fabric.
    """
    name = units.choice(engine, "engine", ENGINES)
    fabric = swept.fabric
    switch = np.flatnonzero(fabric.transit & (swept.hops >= 0))
    ends = fabric.endpoint.astype(np.int64)
    goals = np.append(ends, switch)
    link = _updown_links(fabric, goals)
    if name != "updn":
        link[:, : ends.size] = routing.tables(fabric, _ROUTINGS[name])

    ports = np.full((switch.size, swept.order.size + 1), NO_PORT, dtype=np.int64)
    ahead = link[switch]  # (S, goals)
    known = swept.lid[goals] > 0
    filled = np.where(ahead >= 0, swept.port[ahead], NO_PORT)
    ports[:, swept.lid[goals[known]]] = filled[:, known]
    ports[np.arange(switch.size), swept.lid[switch]] = 0
    return SwitchTables(swept, name, switch, ports, link[:, : ends.size].astype(np.int32))


class _Ordered(NamedTuple):
    """Links that may be used, by their sources: links (U,), where each source begins (V,), and the sources (V,)."""

    links: Ints
    start: Ints
    node: Ints


def _ordered(fabric: Fabric, usable: Flags) -> _Ordered:
    """Return the links that may be used in the order of their sources."""
    links = np.flatnonzero(usable)
    links = links[np.argsort(fabric.source[links], kind="stable")]
    node, start = np.unique(fabric.source[links], return_index=True)
    return _Ordered(links, start, node.astype(np.int64))


def _updown_links(fabric: Fabric, goals: Ints) -> Ints:
    """Return the next link of each node towards each goal, first up and then down, (N, goals); -1 where none is."""
    works = (fabric.capacity > 0) & (fabric.capacity[np.arange(fabric.n_links) ^ 1] > 0)
    up = climbs(fabric)
    ups = _ordered(fabric, works & up & fabric.transit[fabric.target])
    downs = _ordered(fabric, works & ~up)
    below = np.full((fabric.n_nodes, goals.size), np.inf)  # hops downwards
    below[goals, np.arange(goals.size)] = 0
    below = _relaxed(fabric, below, downs, np.ones(below.shape, dtype=bool))
    climbing = np.isinf(below)
    hops = _relaxed(fabric, below, ups, climbing)

    link = np.full(hops.shape, -1, dtype=np.int64)
    _choose(fabric, link, downs, ~climbing, below)
    _choose(fabric, link, ups, climbing & np.isfinite(hops), hops)
    return link


def _relaxed(fabric: Fabric, hops: Floats, usable: _Ordered, may_change: Flags) -> Floats:
    """Return hops after the links that may be used have brought them down as far as they can, (N, goals)."""
    while usable.links.size:
        offer = np.minimum.reduceat(hops[fabric.target[usable.links]], usable.start, axis=0) + 1
        better = hops.copy()
        here = usable.node
        better[here] = np.where(may_change[here], np.minimum(hops[here], offer), hops[here])
        if np.array_equal(better, hops):
            break
        hops = better
    return hops


def _choose(fabric: Fabric, link: Ints, usable: _Ordered, here: Flags, hops: Floats) -> None:
    """Enter for each node and goal one of its links that lead nearer; equal ones take turns by goal, as in d_mod_k."""
    if not usable.links.size:
        return
    source = fabric.source[usable.links]
    target = fabric.target[usable.links]
    nearer = here[source] & (hops[target] + 1 == hops[source])  # (U, goals)
    count = np.add.reduceat(nearer, usable.start, axis=0, dtype=np.int64)  # (V, goals)
    number = np.cumsum(
        nearer, axis=0
    )  # of a link among the nearer ones, after those of earlier nodes
    before = number[usable.start] - nearer[usable.start]
    goal = np.arange(link.shape[1])
    tier = np.maximum(fabric.tier[usable.node].astype(np.int64) - 1, 0)[:, None]
    turn = goal // np.maximum(count, 1) ** tier % np.maximum(count, 1)
    row = np.searchsorted(usable.node, source)
    chosen, to = np.nonzero(nearer & (number - 1 - before[row] == turn[row]))
    link[source[chosen], to] = usable.links[chosen]
