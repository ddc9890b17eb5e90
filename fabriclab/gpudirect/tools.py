"""What tools print of a server: ``nvidia-smi topo -m``, made off a fabric too, ``ibv_devinfo`` and ``rdma link``."""

import itertools
import os
import re
from dataclasses import dataclass, field

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.errors import FileFormat
from fabriclab.gpudirect.copies import End, Server
from fabriclab.importers import text_lines

# From near to far; NV# comes first, and SOC is how drivers before 2018 wrote SYS.
CLASSES = ("X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS")
_CELL = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC")
_HEAD = re.compile(r"\s*GPU0\s+(?!X\s)")  # a row of GPU0 begins with its X
_COLUMNS = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID")
_NAMED = re.compile(r"\s*(NIC\d+): (\S+)")
_FIELD = re.compile(r"\s*(\w+):\s+(\S.*?)\s*$")
_LINK = re.compile(r"(?:\d+: )*\s*(?:link |\d+/\d+: )(\S+)/(\d+):?\s+(.*)")
_STATE = re.compile(r"(?:PORT_)?(NOP|DOWN|INIT|ARMED|ACTIVE|ACTIVE_DEFER)(?: \(\d\))?")
_NUMBER = re.compile(r"([\d.]+)(?:X| Gbps) \(")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Topology:
    """The matrix of ``nvidia-smi topo -m``.

    Parameters
    ----------
    names : tuple of str
        GPUs and NICs, (N,).
    cells : tuple of tuple of str
        Class of each two, (N, N).
    devices : mapping of str to str
        What each ``NIC0`` of the matrix is called elsewhere.
    """

    names: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    devices: dict[str, str] = field(default_factory=dict)

    def relation(self, a: str, b: str) -> str:
        """Return the class of two parts by name."""
        row, column = (self.names.index(units.choice(x, "name", self.names)) for x in (a, b))
        return self.cells[row][column]

    def nearest(self, gpu: str) -> tuple[str, ...]:
        """Return the NICs that no other is nearer to a GPU than."""
        far = {
            n: CLASSES.index(self.relation(gpu, n).rstrip("0123456789"))
            for n in self.names
            if n[:3] != "GPU"
        }
        return tuple(n for n, rank in far.items() if rank == min(far.values()))

    def __str__(self) -> str:
        """Return the matrix as nvidia-smi prints it, without affinities and legend."""
        rows = [
            ("", *self.names),
            *((n, *row) for n, row in zip(self.names, self.cells, strict=True)),
        ]
        return "\n".join("\t".join(" X " if cell == "X" else cell for cell in row) for row in rows)


def topo(fabric: Fabric) -> Topology:
    """Return the matrix of a server, or of the first server of several.

    A switch is taken as one bridge; where it has more inside, as in a DGX A100, nvidia-smi prints PXB [2]_ for PIX.
    Each root port is taken to have a host bridge of its own, so that devices of one processor that share no switch are
    NODE, but for processors before Skylake, which have one bridge (PHB). A GPU that hangs on its processor by C2C is
    SYS to all that PCIe joins, as nvidia-smi prints it for a GH200 [1]_.

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
    server, nodes = Server(fabric), {k: fabric.coord[fabric.nodes(k)] for k in ("gpu", "nic")}
    first = {
        k: np.sum(where[:, fabric.coord_names.index("server")] == 0) for k, where in nodes.items()
    }
    ends = [server.end(f"{k} {i}") for k, n in first.items() for i in range(int(n))]
    cells = tuple(
        tuple(_relation(server, *sorted((a, b), key=lambda e: e.node)) for b in ends) for a in ends
    )
    return Topology(tuple(e.name.upper().replace(" ", "") for e in ends), cells)


def _relation(server: Server, a: End, b: End) -> str:
    """Return the class of two ends."""
    fabric = server.fabric
    if "nvlink" in fabric.media and a.kind == b.kind == "gpu" and a.node != b.node:
        mine = (fabric.source == a.node) & (fabric.medium == fabric.media.index("nvlink"))
        mine &= np.isin(
            fabric.target,
            [b.node, *(fabric.nodes("nvswitch") if "nvswitch" in fabric.kinds else [])],
        )
        if ports := int(fabric.ports[mine].sum()):
            return f"NV{ports}"
    link, over, _ = server.walk(a, b)
    passed, far = (
        " ".join(over[1:-1]),
        "PHB" if server.parts().get("sockets") == "upi-bdw" else "NODE",
    )
    if passed.count("cpu") > 1 or "c2c" in [fabric.media[m] for m in fabric.medium[link]]:
        return "SYS"
    return (
        far if "cpu" in passed else "PIX" if passed.count("pcie") == 1 else "PXB" if passed else "X"
    )


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
    lines = [_STYLE.sub("", line) for line in text_lines(source)]
    head, top = next(
        ((i, line) for i, line in enumerate(lines, 1) if _HEAD.match(line)), (len(lines), "")
    )
    names = _COLUMNS.split(top)[0].split()
    found = [(number, line.split()) for number, line in enumerate(lines[head:], head + 1)]
    rows = {
        words[0]: (number, words[1:])
        for number, words in reversed(found)
        if words and words[0] in names
    }
    if not names or len(rows) < len(names):
        lost = (
            f"the rows of {', '.join(n for n in names if n not in rows)} are missing"
            if names
            else "it holds none"
        )
        raise FileFormat(
            f"the text must hold the matrix of nvidia-smi topo -m, a row for each name: {lost}"
        )
    for name, (number, words) in rows.items():
        if not all(map(_CELL.fullmatch, (cells := words[: len(names)]))) or len(cells) < len(names):
            got = f"the row of {name} must have a class for each of {len(names)} names, got {' '.join(cells)}"
            raise FileFormat.at(number, f"{got}; is it cut, or from a tool of another maker?")
    table = tuple(
        tuple("SYS" if c == "SOC" else c for c in rows[name][1][: len(names)]) for name in names
    )
    for (i, a), (j, b) in itertools.combinations_with_replacement(enumerate(names), 2):
        if table[i][j] != table[j][i] or (table[i][j] == "X") != (i == j):
            got = f"{a} and {b} must have one class, X for a name and itself only, got {table[i][j]} and {table[j][i]}"
            raise FileFormat(f"{got}; give one whole output")
    return Topology(tuple(names), table, {m[1]: m[2] for m in map(_NAMED.match, lines) if m})


@dataclass(frozen=True)
class RdmaPort:
    """One port of an RDMA device.

    Parameters
    ----------
    device, port : str, int
        Such as ``"mlx5_0"`` and 1.
    state : str
        ``"ACTIVE"``, ``"DOWN"``, ...
    link_layer : str
        ``"InfiniBand"`` or ``"Ethernet"``; empty where the text does not tell. The transport is InfiniBand for both.
    netdev : str
        Network interface of the port, where the text tells it.
    rate : float or None
        Lanes times the speed of one as printed, where the text tells it (``-v``); up to QDR that is before coding.
        [B/s]
    facts : mapping of str to str
        All that is printed of device and port, as it stands.
    """

    device: str
    port: int
    state: str
    link_layer: str
    netdev: str
    rate: float | None
    facts: dict[str, str]


def _port(device: str, port: str, facts: dict[str, str], line: int) -> RdmaPort:
    state, layer = _STATE.fullmatch(facts.get("state", "")), facts.get("link_layer", "")
    if not (
        state and device and port.isdecimal() and layer in ("", "InfiniBand", "Ethernet", "Unknown")
    ):
        got = f"a port of {device or 'a device'} must have a number and a state, and a known link layer, got {facts}"
        raise FileFormat.at(line, f"{got}; was it cut?")
    lanes, speed = (_NUMBER.match(facts.get(f"active_{k}", "")) for k in ("width", "speed"))
    rate = int(lanes[1]) * units.parse(f"{speed[1]} Gb/s", "rate") if lanes and speed else None
    return RdmaPort(device, int(port), state[1], layer, facts.get("netdev", ""), rate, facts)


def read_ibv_devinfo(source: str | os.PathLike[str]) -> tuple[RdmaPort, ...]:
    """Return the ports that ``ibv_devinfo`` printed, with or without ``-v``, indented or not.

    Raises
    ------
    FileFormat
        If there is no port, or one is cut, naming the line.
    """
    device = now = dict[str, str]()  # what the next lines tell of: the device, or its last port
    found = list[tuple[int, dict[str, str]]]()
    for number, match in (
        (n, m) for n, m in enumerate(map(_FIELD.match, text_lines(source)), 1) if m
    ):
        if match[1] == "hca_id":
            device = now = {}
        elif match[1] == "port":
            found.append((number, now := dict(device)))
        now[match[1]] = match[2]
    if not found:
        raise FileFormat(
            "the text must hold what ibv_devinfo prints, with a line hca_id and a port; it holds no port"
        )
    return tuple(
        _port(facts.get("hca_id", ""), facts["port"], facts, number) for number, facts in found
    )


def read_rdma_link(source: str | os.PathLike[str]) -> tuple[RdmaPort, ...]:
    """Return the ports that ``rdma link`` of iproute2 printed: ``link mlx5_0/1 ...``, or once ``1/1: mlx5_0/1: ...``.

    Raises
    ------
    FileFormat
        If there is no such line, or one is cut, naming it.
    """
    found = [
        (n, m[1], m[2], m[3].split())
        for n, m in enumerate(map(_LINK.match, text_lines(source)), 1)
        if m
    ]
    if not found:
        raise FileFormat(
            "the text must hold lines of rdma link, such as link mlx5_0/1 state ACTIVE; it holds none"
        )
    # odd: it was cut
    pairs = [dict(zip(w[::2], w[1::2], strict=False)) if len(w) % 2 == 0 else {} for *_, w in found]
    return tuple(
        _port(d, p, facts, number) for (number, d, p, _), facts in zip(found, pairs, strict=True)
    )
