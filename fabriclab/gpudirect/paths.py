"""Paths inside a server: the copies that a transfer makes by each mechanism, its time, and the load on the host."""

import errno
import math
from dataclasses import dataclass
from pathlib import Path as File
from typing import overload

from fabriclab import catalog, topologies, units
from fabriclab.catalog.tables import read_rows
from fabriclab.core import Fabric, Spec
from fabriclab.gpudirect.copies import Move, Server, fact
from fabriclab.gpudirect.matrix_paths import MatrixPath, matrix_path
from fabriclab.gpudirect.tools import Topology, topo

# How many ends may be host memory; at least one end is a GPU.
_HOST_ENDS = {"nvlink": (0,), "peer": (0,), "pinned": (0, 1), "pageable": (0, 1), "cpu": (1,)}
MECHANISMS = tuple(_HOST_ENDS)
_LONG = 2.0**30  # [B] a copy so long that the time to start it does not matter


# What else people call a mechanism.
_OTHER_WORDS = {
    "gdr": "peer",
    "gpudirect": "peer",
    "gpudirect_rdma": "peer",
    "gds": "peer",
    "p2p": "peer",
    "dmabuf": "peer",
    "nvlink_p2p": "nvlink",
    "xgmi": "nvlink",
    "bounce": "pinned",
    "staged": "pinned",
    "host": "pinned",
    "gdrcopy": "cpu",
    # classes of paths in the matrix of nvidia-smi topo -m
    "pix": "peer",
    "pxb": "peer",
    "phb": "peer",
    "node": "peer",
    "sys": "peer",
}
# What the parts on a path are called in words; the others by their kind in capitals.
_IN_WORDS = {"pcie": "PCIe switch", "nvswitch": "NVSwitch", "nvme": "drive", "cxl": "CXL memory"}
_MOST_NVLINKS = 36  # of a GPU, in the name of a class such as NV18
_OTHER_WORDS |= {f"nv{links}": "nvlink" for links in range(1, _MOST_NVLINKS + 1)}


@dataclass(frozen=True)
class Path:
    """The copies that a transfer makes, in order.

    Parameters
    ----------
    moves : tuple of Move
        The copies, at least one.
    flush : float
        Time of the read by which a NIC makes sure that the GPU sees what it has written. [s]
    note : str
        Why the transfer uses another mechanism than the one asked for; empty if it does not.
    """

    moves: tuple[Move, ...]
    flush: float = 0.0
    note: str = ""

    @property
    def copies(self) -> int:
        """Number of times the bytes are copied."""
        return len(self.moves)

    @property
    def hops(self) -> int:
        """Number of links crossed by all copies together."""
        return sum(len(m.over) - 1 for m in self.moves)

    @property
    def rate(self) -> float:
        """Rate of a long transfer whose copies overlap, without the time to start its chunks [B/s]."""
        return min(m.rate for m in self.moves)

    @property
    def latency(self) -> float:
        """Time until the first byte has arrived and may be read [s]."""
        return sum(m.issue + m.latency for m in self.moves) + self.flush

    @property
    def host_traffic(self) -> int:
        """Bytes that host memory reads or writes for each byte of the transfer."""
        return sum(m.host for m in self.moves)

    @property
    def parts(self) -> list[list[str]]:
        """Names of the parts that each copy passes, in order, both ends included.

        A processor at an end of a copy stands for its memory; between the ends the bytes only pass it.

        Examples
        --------
        >>> from fabriclab import topologies
        >>> path(topologies.build("dgx_h100"), "nic 0", "gpu 0", "pinned").parts
        [['NIC 0', 'PCIe switch 0', 'CPU 0'], ['CPU 0', 'PCIe switch 0', 'GPU 0']]
        """
        return [[_in_words(part) for part in move.over] for move in self.moves]

    def cores(
        self,
        chunk: units.Quantity,
        rate: units.Quantity = "400 Gb/s",  # source: nics, cx7
    ) -> float:
        """Return how many cores a transfer at ``rate`` keeps busy, in chunks of ``chunk`` each.

        Counts the time to start each copy and the copies by a core; cores that only poll are left out.
        """
        size = units.size(chunk, "chunk", may_be_zero=False)
        asked = units.rate(rate)
        busy = 0.0  # [s/B]
        for move in self.moves:
            copying = 1 / move.rate if move.by == "CPU" else 0.0
            busy += move.issue / size + copying
        return asked * busy

    def time(self, size: units.Quantity, chunk: units.Quantity | None = None) -> float:
        """Return the time of a transfer [s] whose chunks, of at most ``chunk`` each, pass the copies as a pipeline.

        Without ``chunk`` each copy waits until the one before has finished.
        """
        n = units.size(size)
        pieces = 1
        if chunk is not None:
            pieces = max(1, math.ceil(n / units.size(chunk, "chunk", may_be_zero=False)))
        steps = [m.issue + n / pieces / m.rate for m in self.moves]  # [s] of one piece
        latency = sum(m.latency for m in self.moves)
        return sum(steps) + (pieces - 1) * max(steps) + latency + self.flush

    def __repr__(self) -> str:
        """Show copies, rate, latency and host traffic in one line."""
        copies = "1 copy" if self.copies == 1 else f"{self.copies} copies"
        hops = "1 hop" if self.hops == 1 else f"{self.hops} hops"
        rate = units.format_rate(self.rate)
        latency = units.format_time(self.latency)
        return f"<Path: {copies}, {hops}, {rate}, {latency}, host memory {self.host_traffic} x>"

    def draw(self) -> str:
        """Return the path as text, one copy per line."""
        lines = [repr(self)]
        for move in self.moves:
            lines.append(f"{move.by}: {' - '.join(move.over)}, {units.format_rate(move.rate)}")
        if self.note:
            lines.append(self.note)
        return "\n".join(lines)


def _in_words(part: str) -> str:
    """Return the name of a part of a server as engineers say it: "PCIe switch 1" for "pcie 0.1"."""
    kind, _, number = part.partition(" ")
    name = _IN_WORDS.get(kind, kind.upper())
    return f"{name} {number.rpartition('.')[2]}".strip()


@dataclass(frozen=True)
class SlowServer:
    """A server to diagnose: the NIC from which GPU 0 receives, the class of the pair, and its path.

    Parameters
    ----------
    name : str
        ``"healthy"``, or a letter.
    relation : str
        Class of GPU 0 and its NIC, as ``nvidia-smi topo -m`` prints it.
    path : Path
        Path from the NIC to GPU 0.
    """

    name: str
    relation: str
    path: Path


def slow_servers(fabric: Fabric) -> list[SlowServer]:
    """Return a healthy server and some with one fault each, with the path from a NIC to GPU 0 on each of them.

    Parameters
    ----------
    fabric : Fabric
        A server of `fabriclab.topologies` with at least eight NICs.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> [server.name for server in slow_servers(topologies.build("dgx_h100"))]
    ['healthy', 'A', 'B', 'C', 'D']
    """
    matrix = topo(fabric)
    servers = []
    for row in read_rows(File(__file__).with_name("slow_servers.csv")):
        moved = path(
            fabric,
            f"nic {row['nic']}",
            "gpu 0",
            "peer",
            iommu=row["iommu"],
            acs=row["acs"] == "yes",
            module=row["module"] == "yes",
        )
        relation = matrix.relation("GPU0", f"NIC{row['nic']}")
        servers.append(SlowServer(row["server"], relation, moved))
    return servers


@overload
def path(
    fabric: Fabric,
    source: str,
    target: str,
    mechanism: str,
    *,
    maker: str = ...,
    iommu: str = ...,
    acs: bool = ...,
    module: bool = ...,
    back: str = ...,
    kernel: bool = ...,
) -> Path: ...


@overload
def path(fabric: Topology, source: str, target: str, mechanism: str) -> MatrixPath: ...


def path(
    fabric: Fabric | Topology,
    source: str,
    target: str,
    mechanism: str,
    *,
    maker: str = "",
    iommu: str = "off",
    acs: bool = False,
    module: bool = True,
    back: str = "none",
    kernel: bool = False,
) -> Path | MatrixPath:
    """Return the path of a transfer from one end to another: the copies that it makes.

    Of a matrix, which `read_topo` returns, it is the class of the path, with what the matrix cannot tell. Leaves out
    other traffic, the rate limits of host memory, NICs and drives themselves, and series of IOTLB misses.

    Parameters
    ----------
    fabric : Fabric or Topology
        A server of `fabriclab.topologies`, or the matrix of a server; of a matrix, only ends and mechanism are given.
    source, target : str
        ``"gpu 0"``, ``"nic 0"``, ``"nvme 0"`` (a drive of four lanes next to that NIC), ``"cpu 0"`` (its memory) or
        ``"cxl 0"`` (memory on a CXL link of that processor, whose rate is taken without packet overhead).
    mechanism : str
        ``"nvlink"`` (or xGMI), ``"peer"`` (between devices over PCIe: GPUDirect P2P, RDMA or Storage, depending on
        the ends), ``"pinned"`` or ``"pageable"`` (through host memory, or to or from it), or ``"cpu"`` (a core loads
        and stores).
    maker : str
        Maker of the processors, ``"intel"``, ``"amd"`` or ``"arm"``; for a fabric that is none of the library's
        servers.
    iommu : str
        ``"off"``; ``"on"``: it translates, so that switches send traffic between devices up to it; or ``"ats"``: it
        translates, and the devices cache translations.
    acs : bool
        Whether switches always send traffic between devices up to the root complex (ACS redirect).
    module : bool
        Whether the kernel can give a NIC or drive access to the GPU's memory: nvidia-peermem, DMA-BUF or nvidia-fs.
    back : str
        What moves in the other direction at the same time: ``"none"``, ``"write"`` or ``"read"``.
    kernel : bool
        Whether a GPU kernel copies, as NCCL's do, instead of a copy engine; copies by a NIC, a drive or a core are the
        same either way.

    Returns
    -------
    Path or MatrixPath
        Copies with their rates; of a matrix, the parts that are passed.

    Raises
    ------
    ValueError
        If an end does not exist, the mechanism does not fit the ends, or the fabric is none of the library's servers
        and the model needs to know its processors or its links between GPUs.
    NoPath
        If no suitable links lead from one end to the other.
    TypeError
        If ``fabric`` is neither, or a matrix comes with an option that it cannot know of.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> server = topologies.build("dgx_h100")
    >>> path(server, "nic 0", "gpu 0", "peer")
    <Path: 1 copy, 2 hops, 57.6 GB/s, 2.71 µs, host memory 0 x>
    >>> path(server, "nic 0", "gpu 0", "pinned")
    <Path: 2 copies, 4 hops, 57.6 GB/s, 7.90 µs, host memory 2 x>
    >>> path(topo(server), "gpu 0", "nic 4", "peer")
    <MatrixPath GPU0 to NIC4, peer: SYS, over two processors and the link between them; its rate is not in a matrix>
    """
    mechanism = units.choice(mechanism, "mechanism", MECHANISMS, other_words=_OTHER_WORDS)
    if isinstance(fabric, Topology):
        if (maker, iommu, acs, module, back, kernel) != ("", "off", False, True, "none", False):
            raise TypeError(
                "a matrix of nvidia-smi topo -m has classes of paths only, so it takes no options; "
                "ask a server such as topologies.build('dgx_h100')"
            )
        return matrix_path(fabric, source, target, mechanism)
    back = units.choice(back, "back", ("none", "write", "read"))
    if maker:
        maker = units.choice(maker, "maker", ("amd", "arm", "intel"))
    asks = units.choice(iommu, "iommu", ("off", "on", "ats")) == "on"
    server = Server(fabric, maker, back, asks, units.flag(acs, "acs"), units.flag(kernel, "kernel"))
    a = server.end(source)
    b = server.end(target)
    kinds = (a.kind, b.kind)
    if a.name == b.name or "gpu" not in kinds or a.in_host + b.in_host not in _HOST_ENDS[mechanism]:
        msg = f"source and target must be two ends that {mechanism!r} joins, got {a.name!r} and {b.name!r}; "
        raise ValueError(
            msg + "nvlink joins GPUs, peer a GPU and a device, cpu a GPU and host memory"
        )
    by_device = "nic" in kinds or "nvme" in kinds
    if not units.flag(module, "module") and mechanism == "peer" and by_device:
        note = "the kernel cannot give the GPU's memory to the device: through pinned host memory"
        return Path(server.bounce(a, b, pageable=False), note=note)

    if mechanism in ("pinned", "pageable"):
        return Path(server.bounce(a, b, pageable=mechanism == "pageable"))
    if mechanism == "nvlink":
        return Path((server.between_gpus(a, b),))
    if mechanism == "cpu":
        return Path((server.loads(a, b),))
    move = server.dma(a, b)
    flush = 0.0
    if kinds == ("nic", "gpu"):
        flush = 2 * move.latency
    return Path((move,), flush)


def calls(way: str) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return the calls that a program makes, in order: each with its purpose and the calls that must come before it.

    Parameters
    ----------
    way : str
        ``"peermem"`` or ``"dmabuf"`` (GPUDirect RDMA), or ``"cufile"`` (GPUDirect Storage).
    """
    rows = read_rows(File(__file__).with_name("calls.csv"))
    way = units.choice(way, "way", dict.fromkeys(row["way"] for row in rows))
    return tuple(
        (row["call"], row["does"], tuple(row["needs"].split())) for row in rows if row["way"] == way
    )


def misplaced(way: str, order: list[str]) -> tuple[tuple[str, str], ...]:
    """Return each misplaced call of an order, together with a call that must come before it and comes later.

    Nothing is returned for a correct order; several orders are correct.

    Parameters
    ----------
    way : str
        As for `calls`.
    order : list of str
        All its calls, each once.

    Raises
    ------
    ValueError
        If a call is missing, appears twice or is unknown.
    """
    known = calls(way)
    names = [name for name, _, _ in known]
    if sorted(order) != sorted(names):
        raise ValueError(f"order must name each of {', '.join(names)} once, got {', '.join(order)}")
    place = {name: i for i, name in enumerate(order)}
    found = []
    for name, _, needs in known:
        for other in needs:
            if place[other] > place[name]:
                found.append((name, other))
    return tuple(found)


def register(memory: str, call: str = "ibv_reg_mr", *, module: bool = True) -> str:
    """Return which part of the kernel gives a NIC the addresses of some memory; fail as the real call would.

    Parameters
    ----------
    memory : str
        ``"host"``, ``"gpu"`` (from cuMemAlloc), or ``"managed"`` (from cuMemAllocManaged), which no NIC can register.
    call : str
        ``"ibv_reg_mr"`` or ``"ibv_reg_dmabuf_mr"``.
    module : bool
        Whether the kernel has what the call needs for GPU memory: nvidia-peermem, or DMA-BUF.

    Raises
    ------
    OSError
        With the errno of the call.
    """
    rows = read_rows(File(__file__).with_name("registrations.csv"))
    asked = {
        "memory": units.choice(memory, "memory", dict.fromkeys(row["memory"] for row in rows)),
        "call": units.choice(call, "call", dict.fromkeys(row["call"] for row in rows)),
        "module": "yes" if units.flag(module, "module") else "no",
    }
    row = next(row for row in rows if asked.items() <= row.items())
    if row["errno"]:
        raise OSError(getattr(errno, row["errno"]), f"{call} of {memory} memory: {row['says']}")
    return row["says"]


def published() -> tuple[tuple[Spec, float, str], ...]:
    """Return each published figure that the model covers, the model's value [SI], and why it is not for validation.

    A row that sets a constant of the model is not for validation; the text is empty for a row that is. The processors,
    GPUs and drives of a row may differ from those of the server that stands for it; PCIe and NVLink are of the same
    generation. The latency is for one cache line, there and back.

    The model misses six rows: that latency (-51 %: its source times 32 loads of 4 B one after another and does not say
    how many are in flight at once); a kernel of an H100 that reads host memory (+49 %), and a copy to an A100 while
    another comes from it (+158 %), whose sources themselves ask for the cause; peer access of RTX 4090, which later
    drivers removed (+191 %), of A6000 over a path that the source does not describe (+30 %), and between AMD
    processors, where NCCL plans with less than was measured (-21 %).

    That packets of a kernel hold 128 B on PCIe, as they do on NVLink, is inferred, after the three rows of kernels on
    PCIe had been seen: with 256 B their errors are +9 %, +64 % and +15.2 %, with 128 B +1 %, +49 % and +5 %.

    Examples
    --------
    >>> [row.id for row, model, why in published() if not why and abs(model / row.si - 1) > 0.15]
    ['p2p-pcie', 'h2d-h100-kernel', 'p2p-pcie4-far', 'p2p-pcie4-root', 'h2d-pcie4-both', 'p2p-a40-far']
    """
    rows = []
    for row in read_rows(File(__file__).with_name("published.csv")):
        spec = getattr(catalog, row["table"])[row["part"]].spec(row["attribute"], name=row["name"])
        modelled = path(
            topologies.build(row["server"]),
            row["source"],
            row["target"],
            row["mechanism"],
            back=row["back"],
            kernel=row["by"] == "kernel",
        )
        if row["attribute"] == "latency_min":
            value = 2 * modelled.moves[0].latency
        else:
            chunk = fact(row["chunk"], "chunk") if row["chunk"] else None
            value = int(row["factor"]) * _LONG / modelled.time(_LONG, chunk)
        rows.append((spec, value, row["why"] if row["role"] == "sets" else ""))
    return tuple(rows)
