"""Readers of what a subnet manager and its tools write: ``ibnetdiscover`` and forwarding tables.

Tried with OpenSM 3.3.23 (``opensm-lfts.dump``) and infiniband-diags 44 (``ibnetdiscover``, ``dump_fts``).
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import catalog
from fabriclab.catalog.tables import load_table
from fabriclab.core import Fabric, FabricBuilder
from fabriclab.errors import FileFormat
from fabriclab.importers import Line, Scan, Source, Unread, open_whole, text_lines

_NODE = re.compile(r'(Switch|Ca|Rt)\s+(\d+)\s+"([SHR]-[0-9a-f]+)"\s*#\s*"(.*?)"(?:.*?\blid (\d+))?')
_PORT = re.compile(
    r'\[(\d+)\](?:\([0-9a-f]+\))?\s+"([SHR]-[0-9a-f]+)"\[(\d+)\](?:\([0-9a-f]+\))?\s*#\s*(?:lid (\d+) lmc \d+\s+)?'
    r'"(.*)"\s+lid \d+ ([1-9]\d*)x([A-Z]+\d*)'
)
_TABLE = re.compile(r"Unicast lids \[.*\bguid 0x([0-9a-f]+) ")
_ROW = re.compile(r"0x([0-9a-f]+)\s+(\d+)\s*[#:]")
_FAR = 127  # more tiers than any fabric has


@dataclass(frozen=True, eq=False)
class Subnet:
    """A fabric as a subnet manager found it.

    Parameters
    ----------
    fabric : Fabric
        Switches and channel adapters, which are the ranks, by name; the tier of a switch is its way to the nearest.
    names : tuple of str
        What each node calls itself, (N,).
    guid : tuple of str
        Identifier of each node, (N,), as hexadecimal digits.
    lid : mapping of int to int
        Local identifier -> node.
    port : (L,) int32
        Number of the port at which each link leaves its source.
    """

    fabric: Fabric
    names: tuple[str, ...]
    guid: tuple[str, ...]
    lid: Mapping[int, int]
    port: NDArray[np.int32]

    def __repr__(self) -> str:
        """Show what was found."""
        return f"<Subnet: {', '.join(f'{n} {what}' for what, n in self.fabric.summary().items() if what != 'servers')}>"


class PrintedNode(NamedTuple):
    """A node of ibnetdiscover: its kind (Switch, Ca or Rt), number of ports, identifier, name, lid and line."""

    kind: str
    ports: int
    guid: str
    name: str
    lid: int | None
    line: Line


class PrintedPort(NamedTuple):
    """A connected port of ibnetdiscover: where it is, where its cable ends, lanes, name of the rate, and line."""

    node: PrintedNode
    number: int
    far_guid: str
    far_number: int
    far_name: str
    lid: int | None  # of this port
    lanes: int
    speed: str
    line: Line


class Discovered(NamedTuple):
    """Nodes of ibnetdiscover by their identifiers, and a scan of their ports."""

    nodes: Mapping[str, PrintedNode]
    ports: Scan[PrintedPort]


def scan_ibnetdiscover(source: Source) -> Discovered:
    """Return the nodes and ports that ``ibnetdiscover`` printed into a text, and the ports that cannot be read.

    Parameters
    ----------
    source : Source
        A text, which may hold other things as well.
    """
    nodes: dict[str, PrintedNode] = {}
    ports: list[PrintedPort] = []
    unread: list[Unread] = []
    here: PrintedNode | None = None
    for line in source.lines:
        text = line.text
        node = _NODE.match(text)
        if node:
            lid = int(node[5]) if node[5] else None
            here = PrintedNode(node[1], int(node[2]), node[3], node[4], lid, line)
            nodes[here.guid] = here
        elif text.startswith("["):
            port = _printed_port(here, line)
            if port:
                ports.append(port)
            else:
                why = (
                    f'must be a port such as [1] "S-...8"[2] # "leaf" lid 3 4xEDR, got {text!r:.80}'
                )
                unread.append(Unread(line, why))
    return Discovered(nodes, Scan(tuple(ports), tuple(unread)))


def _printed_port(node: PrintedNode | None, line: Line) -> PrintedPort | None:
    """Return the port in a line below its node, or None if the line is none or no node stands before it."""
    found = _PORT.match(line.text)
    if not found or not node:
        return None
    return PrintedPort(
        node=node,
        number=int(found[1]),
        far_guid=found[2],
        far_number=int(found[3]),
        far_name=found[5],
        lid=int(found[4]) if found[4] else None,
        lanes=int(found[6]),
        speed=found[7],
        line=line,
    )


def read_ibnetdiscover(source: str | os.PathLike[str]) -> Subnet:
    """Return the fabric that ``ibnetdiscover`` printed.

    Parameters
    ----------
    source : path or str
        A file, or its text. Rates are those after coding, from the catalog; lengths and delays are not in it.

    Raises
    ------
    FileFormat
        If a line cannot be read, a link has one end only, or a rate is unknown, naming the line.
    """
    found = scan_ibnetdiscover(open_whole(source))
    printed = found.ports.whole(
        "the text holds no port of any node; give what ibnetdiscover prints without options"
    )
    nodes: dict[str, tuple[str, int, str]] = {}
    lids: dict[int, str] = {}
    for guid, node in found.nodes.items():
        nodes[guid] = (node.kind, node.ports, node.name)
        if node.lid is not None:
            lids[node.lid] = guid
    ports: dict[tuple[str, int], tuple[str, int, float, int]] = {}
    for port in printed:
        if port.lid is not None:
            lids[port.lid] = port.node.guid
        number = port.line.number
        rate = _rate(port.speed, port.lanes, number)
        ports[port.node.guid, port.number] = (port.far_guid, port.far_number, rate, number)
    for end, (far, far_port, _, number) in ports.items():
        if ports.get((far, far_port), ("", 0))[:2] != end:
            way = f"port {end[1]} of {end[0]} leads to port {far_port} of {far}"
            raise FileFormat.at(number, f"{way}, which does not lead back")
    return _subnet(nodes, lids, ports)


def _rate(speed: str, width: int, number: int) -> float:
    """Return the rate of so many lanes after coding [B/s]."""
    known, wanted = load_table("links"), "4x_data_rate"
    if wanted not in known.get(f"ib-{speed.lower()}", {}):
        names = ", ".join(
            part[3:].upper() for part in known if part.startswith("ib-") and wanted in known[part]
        )
        raise FileFormat.at(
            number, f"the catalog knows no InfiniBand speed {speed!r}; it has {names}"
        )
    return width / 4 * float(catalog.value("links", f"ib-{speed.lower()}", wanted))


def _subnet(
    nodes: Mapping[str, tuple[str, int, str]],
    lids: Mapping[int, str],
    ports: Mapping[tuple[str, int], tuple[str, int, float, int]],
) -> Subnet:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    order = sorted(nodes, key=lambda g: (nodes[g][0] == "Switch", nodes[g][2], g))
    place = {guid: i for i, guid in enumerate(order)}
    switch = np.array([nodes[g][0] == "Switch" for g in order])
    once = [(a, b) for a, b in ports.items() if (place[a[0]], a[1]) < (place[b[0]], b[1])]
    a, b = (np.array([place[end[0]] for end in ends]) for ends in zip(*once, strict=True))
    cables = coo_array((np.ones(a.size), (a, b)), shape=(len(order), len(order)))
    way = dijkstra(
        cables, directed=False, indices=np.flatnonzero(~switch), unweighted=True, min_only=True
    )
    tier = np.minimum(way, _FAR).astype(np.int64)
    builder = FabricBuilder(("host", "switch"), ("index",))
    n = int(np.sum(~switch))
    radix = np.array([nodes[g][1] for g in order])
    host = builder.add_nodes("host", n, tier=0, transit=False, radix=radix[:n], index=np.arange(n))
    index = np.arange(switch.sum())
    builder.add_nodes(
        "switch", index.size, tier=tier[n:], transit=True, radix=radix[n:], index=index
    )
    builder.add_cables(a, b, capacity=np.array([far[2] for _, far in once]), medium="infiniband")
    fabric = builder.build("subnet", {}, endpoint=host, rail=np.zeros(n), server=host)
    port = np.array([number for near, far in once for number in (near[1], far[1])], dtype=np.int32)
    names, guids = tuple(nodes[g][2] for g in order), tuple(g[2:] for g in order)
    return Subnet(fabric, names, guids, {lid: place[g] for lid, g in lids.items()}, port)


def read_forwarding_tables(source: str | os.PathLike[str], subnet: Subnet) -> NDArray[np.int32]:
    """Return the next link of each node towards each rank, (N, R), for `routing.from_tables`.

    Parameters
    ----------
    source : path or str
        ``opensm-lfts.dump`` of OpenSM (option -D 0x43) or what ``dump_fts`` prints, or the text of either.
    subnet : Subnet
        What `read_ibnetdiscover` gave. An adapter with several ports is reached at its lowest local identifier.

    Raises
    ------
    FileFormat
        If there is no table, or a switch, adapter or port is not in the subnet, naming the line.
    """
    fabric = subnet.fabric
    link_at = {(int(fabric.source[x]), int(p)): x for x, p in enumerate(subnet.port)}
    place = {int(guid, 16): i for i, guid in enumerate(subnet.guid)}
    # which is written last
    lowest = {subnet.lid[lid]: lid for lid in sorted(subnet.lid, reverse=True)}
    column = {lowest[int(node)]: r for r, node in enumerate(fabric.endpoint) if int(node) in lowest}
    table = np.full((fabric.n_nodes, fabric.n_ranks), -1, dtype=np.int32)
    near, here = -1, False
    for number, line in enumerate(text_lines(source), 1):
        if head := _TABLE.match(line):
            near, here = place.get(int(head[1], 16), -1), True
            if near < 0:
                raise FileFormat.at(
                    number, f"switch {head[1]} is not in the subnet; take both files from one sweep"
                )
        elif (
            (row := _ROW.match(line.strip()))
            and here
            and int(row[1], 16) in column
            and int(row[2]) > 0
        ):
            link = link_at.get((near, int(row[2])))
            if link is None:
                raise FileFormat.at(
                    number, f"port {int(row[2])} of {subnet.names[near]} has no cable in the subnet"
                )
            table[near, column[int(row[1], 16)]] = link
    if not here:
        raise FileFormat(
            "the text holds no forwarding table; give opensm-lfts.dump, or what dump_fts prints"
        )
    ptr, order = fabric.out
    ends = fabric.endpoint
    table[ends] = order[ptr[ends]][:, None]  # an adapter has its first link
    table[ends, np.arange(ends.size)] = -1
    return table
