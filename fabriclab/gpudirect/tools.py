"""The matrix of ``nvidia-smi topo -m``: as the tool prints it, or computed from a fabric."""

import itertools
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fabriclab import spelling, units
from fabriclab.core import Fabric, as_html
from fabriclab.gpudirect.copies import End, Server, Walk
from fabriclab.importers import Line, Scan, Source, Unread, open_whole

# From near to far, with NV (NVLink) before all PCIe paths. Drivers before 2018 wrote SOC for SYS.
CLASSES = ("X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS")
_CELL = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC")
_HEAD = re.compile(r"\s*GPU0\s+(?!X\s)")  # not the row of GPU0, where an X follows
_COLUMNS = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID")
_UNKNOWN = "?"
_WANTED = "the text must hold the matrix of nvidia-smi topo -m, a row for each name"
_NAMED = re.compile(r"\s*(NIC\d+): (\S+)")


@dataclass(frozen=True, repr=False)
class Topology:
    """The matrix of ``nvidia-smi topo -m``.

    Parameters
    ----------
    names : tuple of str
        GPUs and NICs, (N,).
    cells : tuple of tuple of str
        Class of the path between each pair, (N, N); "?" where it is not known.
    devices : mapping of str to str
        Device name of each ``NIC0``, ``NIC1``, ... of the matrix, such as ``mlx5_0``.
    """

    names: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    devices: dict[str, str] = field(default_factory=dict)

    def relation(self, a: str, b: str) -> str:
        """Return the class of the path between two parts, given by name."""
        place = self.names.index
        return self.cells[place(self.name_of(a))][place(self.name_of(b))]

    def name_of(self, name: str) -> str:
        """Return the name in the matrix of a part, given so, as in "gpu 0", or by its device, such as mlx5_0.

        Raises
        ------
        ValueError
            If there is no such part.
        """
        for label, device in self.devices.items():
            if spelling.find(name, [device, f"{device}:1"]):  # a device, or its first port
                name = label
        joined = re.sub(r"[\s/]+", "", str(name))
        if spelling.find(joined, self.names):
            name = joined
        return units.choice(name, "name", self.names)

    def nearest(self, gpu: str) -> tuple[str, ...]:
        """Return the NICs nearest to a GPU; several if they are equally near."""
        distance = {}
        for name in self.names:
            if not name.startswith("GPU"):
                kind = self.relation(gpu, name).rstrip("0123456789")
                distance[name] = CLASSES.index(kind)
        least = min(distance.values(), default=0)
        return tuple(name for name, rank in distance.items() if rank == least)

    def __repr__(self) -> str:
        """Show how many parts there are, and how near they are to each other."""
        gpus = [name for name in self.names if name.startswith("GPU")]
        pairs = {self.relation(a, b) for a, b in itertools.combinations(gpus, 2)}
        text = f"<Topology: {len(gpus)} GPUs, {len(self.names) - len(gpus)} NICs"
        if pairs:
            text += f"; GPU to GPU {_in_order(pairs)}"
        nearest = {self.relation(gpu, nic) for gpu in gpus for nic in self.nearest(gpu)}
        if nearest:
            text += f"; nearest NIC {_in_order(nearest)}"
        return text + ">"

    def _repr_html_(self) -> str:
        rows = [("", *self.names)]
        for name, cells in zip(self.names, self.cells, strict=True):
            device = self.devices.get(name, "")
            rows.append((f"{name} {device}".strip(), *cells))
        return as_html(rows, repr(self)[1:-1])

    def __str__(self) -> str:
        """Return the matrix as nvidia-smi prints it, without affinities and legend."""
        lines = ["\t".join(["", *self.names])]
        for name, row in zip(self.names, self.cells, strict=True):
            cells = [" X " if cell == "X" else cell for cell in row]
            lines.append("\t".join([name, *cells]))
        return "\n".join(lines)


def _in_order(classes: Iterable[str]) -> str:
    """Return classes from near to far, with commas."""
    order = sorted(classes, key=lambda each: (CLASSES.index(each.rstrip("0123456789")), each))
    return ", ".join(order)


def topo(fabric: Fabric) -> Topology:
    """Return the matrix of a server, or of the first server of several.

    A switch counts as one bridge; where it has several inside, as in a DGX A100, nvidia-smi prints PXB [2]_ instead of
    PIX. Each root port is assumed to have a host bridge of its own, so devices of one processor that share no switch
    are NODE; processors before Skylake have a single bridge (PHB). A GPU that is attached to its processor by C2C is
    SYS to everything on PCIe, as nvidia-smi prints it for a GH200 [1]_.

    References
    ----------
    .. [1] NVIDIA/nvbandwidth, issue 23, 2024.
    .. [2] NVIDIA/nccl, issue 1505, 2024.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> server = topo(topologies.build("dgx_h100"))
    >>> server.relation("GPU0", "GPU1"), server.relation("GPU0", "NIC0"), server.relation("GPU0", "NIC7")
    ('NV18', 'PIX', 'SYS')
    """
    server = Server(fabric)
    ends: list[End] = []
    for kind in ("gpu", "nic"):
        number_of_server = fabric.coord[fabric.nodes(kind), fabric.coord_names.index("server")]
        for i in range(int(np.sum(number_of_server == 0))):
            ends.append(server.end(f"{kind} {i}"))

    # The class is the same in either order: each pair is looked at once, from the node with the lower number.
    in_order = sorted(ends, key=lambda end: end.node)
    relation: dict[tuple[str, str], str] = {}
    over_pcie: list[tuple[End, End]] = []
    for a, b in itertools.combinations_with_replacement(in_order, 2):
        ports = _nvlink_ports(fabric, a, b)
        if ports:
            relation[a.name, b.name] = relation[b.name, a.name] = f"NV{ports}"
        else:
            over_pcie.append((a, b))
    for (a, b), route in zip(over_pcie, server.walks(over_pcie), strict=True):
        relation[a.name, b.name] = relation[b.name, a.name] = _class_of(server, route)
    cells = tuple(tuple(relation[a.name, b.name] for b in ends) for a in ends)
    names = tuple(end.name.upper().replace(" ", "") for end in ends)
    return Topology(names, cells)


def _class_of(server: Server, route: Walk) -> str:
    """Return the class of a path that does not cross NVLink."""
    passed = " ".join(route.over[1:-1])
    media = [server.fabric.media[medium] for medium in server.fabric.medium[route.link]]
    if passed.count("cpu") > 1 or "c2c" in media:
        return "SYS"
    if "cpu" in passed:
        return "PHB" if server.parts().get("sockets") == "upi-bdw" else "NODE"
    if passed.count("pcie") == 1:
        return "PIX"
    if passed:
        return "PXB"
    return "X"


def _nvlink_ports(fabric: Fabric, a: End, b: End) -> int:
    """Return how many NVLinks lead from one GPU to another or to its switches; 0 if the ends are not two GPUs."""
    if "nvlink" not in fabric.media or (a.kind, b.kind) != ("gpu", "gpu") or a.node == b.node:
        return 0
    beyond = [b.node]
    if "nvswitch" in fabric.kinds:
        beyond.extend(fabric.nodes("nvswitch"))
    nvlink = fabric.medium == fabric.media.index("nvlink")  # (L,)
    between = (fabric.source == a.node) & np.isin(fabric.target, beyond)  # (L,)
    return int(fabric.ports[nvlink & between].sum())


class _MatrixRow(NamedTuple):
    """One row of the printed matrix: its line and its cells."""

    line: Line
    cells: list[str]


def read_topo(source: str | os.PathLike[str]) -> Topology:
    """Return the matrix that ``nvidia-smi topo -m`` or ``topo -mp`` printed, in any of its versions since 2017.

    Parameters
    ----------
    source : path or str
        A file, or its text. Text before the matrix is skipped, and terminal styles are removed.

    Raises
    ------
    FileFormat
        If there is no such file, no matrix, or a row is cut, missing, has an unknown class, or differs from its column.
    """
    (matrix,) = scan_topo(open_whole(source)).whole(f"{_WANTED}: it holds none")
    return matrix


def scan_topo(source: Source) -> Scan[Topology]:
    """Return the matrix that ``nvidia-smi topo -m`` printed into a text, if the rows of all GPUs are whole.

    Rows of NICs that are missing, as where somebody copied the upper part only, are taken from the columns of the NICs;
    the class of two NICs is then "?".

    Parameters
    ----------
    source : Source
        A text, which may hold other things as well.
    """
    lines = source.lines
    head = len(lines)  # number of lines up to the head of the matrix
    names: list[str] = []
    for number, line in enumerate(lines, 1):
        if _HEAD.match(line.text):
            head = number
            names = _COLUMNS.split(line.text)[0].split()
            break
    if not names:
        return Scan(())

    rows: dict[str, _MatrixRow] = {}
    for line in reversed(lines[head:]):  # of rows with the same name the first one counts
        words = line.text.split()
        if words and words[0] in names:
            rows[words[0]] = _MatrixRow(line, words[1 : 1 + len(names)])
    unread: list[Unread] = []
    missing = [name for name in names if name not in rows]
    if missing:
        lost = f"{_WANTED}: the rows of {', '.join(missing)} are missing"
        unread.append(Unread(lines[head - 1], lost))
    for name, row in rows.items():
        if len(row.cells) < len(names) or not all(map(_CELL.fullmatch, row.cells)):
            got = f"the row of {name} must have a class for each of {len(names)} names, got {' '.join(row.cells)}"
            unread.append(Unread(row.line, f"{got}; is it cut, or from a tool of another maker?"))
            missing.append(name)
    if any(name.startswith("GPU") for name in missing):
        return Scan((), tuple(unread))

    table = []
    for i, name in enumerate(names):
        cells = (
            rows[name].cells if name not in missing else _cells_of_column(i, names, rows, missing)
        )
        table.append(tuple("SYS" if cell == "SOC" else cell for cell in cells))
    for (i, a), (j, b) in itertools.combinations_with_replacement(enumerate(names), 2):
        if _UNKNOWN in (table[i][j], table[j][i]):
            continue
        if table[i][j] != table[j][i] or (table[i][j] == "X") != (i == j):
            got = f"{a} and {b} must have one class, X for a name and itself only, got {table[i][j]} and {table[j][i]}"
            unread.append(Unread(lines[head - 1], f"{got}; give one whole output"))
            return Scan((), tuple(unread))
    devices = {}
    for line in lines:
        named = _NAMED.match(line.text)
        if named:
            devices[named[1]] = named[2]
    return Scan((Topology(tuple(names), tuple(table), devices),), tuple(unread))


def _cells_of_column(
    i: int, names: list[str], rows: Mapping[str, _MatrixRow], missing: list[str]
) -> list[str]:
    """Return the cells of a row that is missing, from its column in the others."""
    cells = []
    for j, name in enumerate(names):
        if i == j:
            cells.append("X")
        else:
            cells.append(rows[name].cells[i] if name not in missing else _UNKNOWN)
    return cells
