"""How parts of a server are joined, in the classes of ``nvidia-smi topo -m``: off a fabric, or off what it prints."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.errors import FileFormat
from fabriclab.gpudirect.copies import End, Server
from fabriclab.importers.opensm import _lines

# From near to far; NV# comes first, and SOC is how drivers before 2018 wrote SYS.
CLASSES: Final = ("X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS")
_CELL: Final = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC")
_COLUMNS: Final = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID")
_NAMED: Final = re.compile(r"\s*(NIC\d+): (\S+)")
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Topology:
    """The matrix of ``nvidia-smi topo -m``.

    Parameters
    ----------
    names : tuple of str
        GPUs and NICs, (N,).
    cells : tuple of tuple of str
        Class of each two, (N, N).
    affinity : mapping of str to mapping of str to str
        Column such as ``"CPU Affinity"`` -> name of a GPU -> cell.
    devices : mapping of str to str
        What each ``NIC0`` of the matrix is called elsewhere.
    """

    names: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    affinity: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)

    def relation(self, a: str, b: str) -> str:
        """Return the class of two parts by name."""
        row, column = (self.names.index(units.choice(x, "name", self.names)) for x in (a, b))
        return self.cells[row][column]

    def nearest(self, gpu: str) -> tuple[str, ...]:
        """Return the NICs that no other is nearer to a GPU than."""
        far = {n: CLASSES.index(self.relation(gpu, n).rstrip("0123456789")) for n in self.names if n[:3] != "GPU"}
        return tuple(n for n, rank in far.items() if rank == min(far.values()))

    def __str__(self) -> str:
        """Return the matrix as nvidia-smi prints it, without affinities and legend."""
        rows = [("", *self.names), *((n, *row) for n, row in zip(self.names, self.cells, strict=True))]
        return "\n".join("\t".join(" X " if cell == "X" else cell for cell in row) for row in rows)


def topo(fabric: Fabric, maker: str = "") -> Topology:
    """Return the matrix of a server, or of the first server of several.

    Each root port is taken to have a host bridge of its own, so that devices of one processor that share no switch are
    NODE, but for processors before Skylake, which have one bridge (PHB). A GPU that hangs on its processor by C2C is
    SYS to all that PCIe joins, as nvidia-smi prints it for a GH200 [1]_.

    References
    ----------
    .. [1] NVIDIA/nvbandwidth, issue 23, 2024.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> server = topo(topologies.build("dgx_h100"))
    >>> server.relation("GPU0", "GPU1"), server.relation("GPU0", "NIC0"), server.relation("GPU0", "NIC7")
    ('NV18', 'PIX', 'SYS')
    """
    server, where = Server(fabric, maker), fabric.coord[:, fabric.coord_names.index("server")]
    ends = [server.end(f"{k} {i}") for k in ("gpu", "nic") for i in range(int(np.sum(where[fabric.nodes(k)] == 0)))]
    cells = tuple(tuple(_relation(server, a, b) for b in ends) for a in ends)
    return Topology(tuple(e.name.upper().replace(" ", "") for e in ends), cells)


def _relation(server: Server, a: End, b: End) -> str:
    """Return the class of two ends."""
    fabric = server.fabric
    if a.node == b.node:
        return "X"
    if "nvlink" in fabric.media and (a.kind, b.kind) == ("gpu", "gpu"):
        mine = (fabric.source == a.node) & (fabric.medium == fabric.media.index("nvlink"))
        mine &= np.isin(fabric.target, [b.node, *(fabric.nodes("nvswitch") if "nvswitch" in fabric.kinds else [])])
        if ports := int(fabric.ports[mine].sum()):
            return f"NV{ports}"
    link = server.way(a.node, b.node)
    kinds = [part.split(" ")[0] for part in server.over(a, b, link)[1:-1]]
    if kinds.count("cpu") > 1 or "c2c" in [fabric.media[m] for m in fabric.medium[link]]:
        return "SYS"
    if "cpu" in kinds:
        return "PHB" if server.sockets == "upi-bdw" else "NODE"
    return "PIX" if len(kinds) == 1 else "PXB"


def read_topo(source: str | os.PathLike[str]) -> Topology:
    """Return the matrix that ``nvidia-smi topo -m`` or ``topo -mp`` printed, in any of its versions since 2017.

    Parameters
    ----------
    source : path or str
        A file, or its text: what stands before the matrix is passed over, and so are the styles of a terminal.

    Raises
    ------
    FileFormat
        If there is no matrix, or a row is cut, missing, has an unknown class, or differs from its column.
    """
    names: list[str] = []
    columns: list[str] = []
    rows: dict[str, list[str]] = {}
    devices: dict[str, str] = {}
    affinity: dict[str, dict[str, str]] = {}
    for number, raw in enumerate(_lines(source), 1):
        line = _STYLE.sub("", raw)
        words = line.split()
        if not names and words[:1] == ["GPU0"] and not _CELL.fullmatch(words[1] if words[1:] else "X"):
            columns = _COLUMNS.findall(line)
            names = _COLUMNS.split(line)[0].split()
        elif words and words[0] in names and words[0] not in rows:
            name, cells = words[0], words[1 : len(names) + 1]
            if wrong := [c for c in cells if not _CELL.fullmatch(c)] or [""] * (len(cells) < len(names)):
                got = f"{wrong[0]!r} is none" if wrong[0] else f"{len(cells)} of {len(names)} are there, was it cut?"
                raise FileFormat.at(number, f"the row of {name} must have a class for each of the names: {got}")
            rows[name] = ["SYS" if c == "SOC" else c for c in cells]
            for column, cell in zip(columns, words[len(names) + 1 :], strict=False):
                affinity.setdefault(column, {})[name] = cell
        elif named := _NAMED.match(line):
            devices[named[1]] = named[2]
    if not names or len(rows) < len(names):
        lost = f"the rows of {', '.join(n for n in names if n not in rows)} are missing" if names else "it holds none"
        raise FileFormat(f"the text must hold the matrix of nvidia-smi topo -m, a row for each name: {lost}")
    table = tuple(tuple(rows[n]) for n in names)
    if odd := [(i, j) for i in range(len(names)) for j in range(i) if table[i][j] != table[j][i]]:
        a, b = (names[k] for k in odd[0])
        raise FileFormat(f"{a} and {b} must have one class, got {table[odd[0][0]][odd[0][1]]} and the other way round "
                         f"{table[odd[0][1]][odd[0][0]]}; give one whole output")  # fmt: skip
    return Topology(tuple(names), table, affinity, devices)
