"""Writers of what a subnet manager and its tools print: ``ibnetdiscover``, forwarding tables, and the list of cables.

The identifiers are our own: 0x200000 and the node's number for a switch, 0x100000 and twice the number for a host.
`fabriclab.operations.subnet_files` reads the first two.
"""

from __future__ import annotations

import numpy as np

from fabriclab import catalog, units
from fabriclab.catalog.tables import load_table
from fabriclab.operations.subnet import NO_PORT, Sweep, SwitchTables

__all__ = ["write_forwarding_tables", "write_ibnetdiscover", "write_subnet_list"]

_SWITCH_GUID = 0x200000
_HOST_GUID = 0x100000


def _guid(swept: Sweep, node: int) -> str:
    """Return the identifier of a node, 16 hexadecimal digits."""
    if swept.fabric.transit[node]:
        return f"{_SWITCH_GUID + node:016x}"
    return f"{_HOST_GUID + 2 * node:016x}"


def _port_guid(swept: Sweep, node: int) -> str:
    """Return the identifier of a node's port: its own for a switch, one more for an adapter."""
    number = int(_guid(swept, node), 16)
    return f"{number if swept.fabric.transit[node] else number + 1:016x}"


def _speeds() -> dict[float, str]:
    """Return names of InfiniBand rates such as ``"4xNDR"`` by their rate after coding [B/s]."""
    names = {}
    for part, facts in load_table("links").items():
        if part.startswith("ib-") and "4x_data_rate" in facts:
            rate = float(catalog.value("links", part, "4x_data_rate"))
            for width in (1, 2, 4, 8, 12):
                names.setdefault(width / 4 * rate, f"{width}x{part[3:].upper()}")
            names[rate] = f"4x{part[3:].upper()}"
    return names


def _speed(rate: float) -> str:
    """Return the name of a rate, or refuse one that InfiniBand does not have."""
    known = _speeds()
    near = min(known, key=lambda each: abs(each - rate))
    if abs(near - rate) > 1e-6 * rate:
        raise ValueError(
            f"no InfiniBand link has {units.format_rate(rate)}; the nearest is {known[near]} with "
            f"{units.format_rate(near)}; build the fabric with that rate"
        )
    return known[near]


def _out(swept: Sweep, node: int) -> list[int]:
    """Return the working links of a node by port."""
    pointer, order = swept.fabric.out
    links = order[pointer[node] : pointer[node + 1]]
    works = (swept.fabric.capacity[links] > 0) & (swept.fabric.capacity[links ^ 1] > 0)
    return [int(link) for link in links[works]]


def write_ibnetdiscover(swept: Sweep) -> str:
    """Return what ``ibnetdiscover`` prints of a fabric, with identifiers of our own."""
    fabric = swept.fabric
    pointer, _ = fabric.out
    radix = np.diff(pointer)
    parts = ["#\n# Topology file\n#"]
    switches_first = sorted(swept.order.tolist(), key=lambda node: not fabric.transit[node])
    for node in switches_first:
        guid = _guid(swept, node)
        kind, letter = ("Switch", "S") if fabric.transit[node] else ("Ca", "H")
        title = f'{kind}\t{radix[node]} "{letter}-{guid}"\t\t# "{fabric.name(node)}"'
        if fabric.transit[node]:
            title += f" base port 0 lid {swept.lid[node]} lmc 0"
        lines = [title]
        lines += [_port_line(swept, node, link) for link in _out(swept, node)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _port_line(swept: Sweep, node: int, link: int) -> str:
    """Return the line of a port: what it is connected to, and how fast."""
    fabric = swept.fabric
    other = int(fabric.target[link])
    speed = _speed(float(fabric.capacity[link]))
    letter = "S" if fabric.transit[other] else "H"
    far = f'"{letter}-{_guid(swept, other)}"[{swept.port[link ^ 1]}]'
    if not fabric.transit[other]:
        far += f"({_port_guid(swept, other).lstrip('0')})"
    name = f'"{fabric.name(other)}" lid {swept.lid[other]} {speed}'
    if fabric.transit[node]:
        return f"[{swept.port[link]}]\t{far}\t\t# {name}"
    own = f"({_port_guid(swept, node).lstrip('0')})"
    return f"[{swept.port[link]}]{own}\t{far}\t\t# lid {swept.lid[node]} lmc 0 {name}"


def write_forwarding_tables(tables: SwitchTables) -> str:
    """Return the tables in the format of OpenSM's ``opensm-lfts.dump``; LIDs without a port are left out."""
    swept = tables.swept
    fabric = swept.fabric
    lines = []
    top = swept.order.size
    for row, node in enumerate(tables.switch.tolist()):
        guid = _guid(swept, node)
        name = fabric.name(node)
        lines.append(
            f"Unicast lids [0-{top}] of switch Lid {swept.lid[node]} guid 0x{guid} ('{name}'):"
        )
        for lid, other in enumerate(swept.order.tolist(), start=1):
            port = int(tables.ports[row, lid])
            if port == NO_PORT:
                continue
            kind = "Switch" if fabric.transit[other] else "Channel Adapter"
            far = f"{kind} portguid 0x{_port_guid(swept, other)}: '{fabric.name(other)}'"
            lines.append(f"0x{lid:04x} {port:03d} # {far}")
        lines.append(f"{top} lids dumped")
    return "\n".join(lines) + "\n"


def write_subnet_list(swept: Sweep) -> str:
    """Return the cables in the format of OpenSM's ``opensm-subnet.lst``, a line for each direction."""
    fabric = swept.fabric
    lines = []
    for node in swept.order.tolist():
        for link in _out(swept, node):
            other = int(fabric.target[link])
            near = _end(swept, node, int(swept.port[link]))
            far = _end(swept, other, int(swept.port[link ^ 1]))
            lines.append(f"{near} {far} PHY={_speed(float(fabric.capacity[link]))} LOG=ACT")
    return "\n".join(lines) + "\n"


def _end(swept: Sweep, node: int, port: int) -> str:
    """Return one end of a cable."""
    kind = "SW" if swept.fabric.transit[node] else "CA"
    guid = _guid(swept, node).upper()
    name = swept.fabric.name(node)
    return f"{{ {kind} NodeGUID:{guid} {{{name}}} LID:{swept.lid[node]:04X} PN:{port:02X} }}"
