"""Paths inside a server: which copies a transfer makes by each mechanism, how long it takes, what the host pays."""

import errno
import math
from dataclasses import dataclass
from pathlib import Path as File

from fabriclab import catalog, topologies, units
from fabriclab.catalog.tables import read_rows
from fabriclab.core import Fabric, Spec
from fabriclab.gpudirect.copies import Move, Server, fact

# How many ends may be memory of the host; one at least is a GPU.
_HOST_ENDS = {"nvlink": (0,), "peer": (0,), "pinned": (0, 1), "pageable": (0, 1), "cpu": (1,)}
MECHANISMS = tuple(_HOST_ENDS)
_LONG = 2.0**30  # bytes of a copy that is long enough for its start not to count


@dataclass(frozen=True)
class Path:
    """The copies of a transfer, in order.

    Parameters
    ----------
    moves : tuple of Move
        At least one.
    flush : float
        Time of the read by which a NIC makes sure that the GPU sees what it has written. [s]
    note : str
        Why another mechanism was taken than the one asked for.
    """

    moves: tuple[Move, ...]
    flush: float = 0.0
    note: str = ""

    @property
    def copies(self) -> int:
        """How often the bytes are copied."""
        return len(self.moves)

    @property
    def hops(self) -> int:
        """Links passed, all copies together."""
        return sum(len(m.over) - 1 for m in self.moves)

    @property
    def rate(self) -> float:
        """Rate [B/s] of a long transfer whose copies overlap, but for what its chunks cost to start."""
        return min(m.rate for m in self.moves)

    @property
    def latency(self) -> float:
        """Time [s] until the first byte has arrived and may be read."""
        return sum(m.issue + m.latency for m in self.moves) + self.flush

    @property
    def host_traffic(self) -> int:
        """Bytes that host memory reads and writes for each byte of the transfer."""
        return sum(m.host for m in self.moves)

    def cores(
        self,
        chunk: units.Quantity,
        rate: units.Quantity = "400 Gb/s",  # source: nics, cx7
    ) -> float:
        """Return how many cores a rate keeps busy in transfers of ``chunk`` each; what only polls is left out."""
        size = units.size(chunk, "chunk", may_be_zero=False)
        asked = units.rate(rate)
        busy = 0.0  # [s/B]
        for move in self.moves:
            copying = 1 / move.rate if move.by == "CPU" else 0.0
            busy += move.issue / size + copying
        return asked * busy

    def time(self, size: units.Quantity, chunk: units.Quantity | None = None) -> float:
        """Return the time of a transfer [s] whose chunks, of at most ``chunk`` each, pass the copies as a pipeline.

        Without ``chunk`` each copy waits for the one before.
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
        rate, latency = units.format_rate(self.rate), units.format_time(self.latency)
        return f"<Path: {self.copies} copies, {self.hops} hops, {rate}, {latency}, host memory {self.host_traffic} x>"

    def draw(self) -> str:
        """Return the path as text, one copy in a line."""
        lines = [repr(self)]
        for move in self.moves:
            lines.append(f"{move.by}: {' - '.join(move.over)}, {units.format_rate(move.rate)}")
        if self.note:
            lines.append(self.note)
        return "\n".join(lines)


def path(
    fabric: Fabric,
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
) -> Path:
    """Return how a transfer goes from one end to another.

    Leaves out other traffic, the rate of host memory and of NICs and drives themselves, and IOTLB misses in a row.

    Parameters
    ----------
    fabric : Fabric
        A server of `fabriclab.topologies`.
    source, target : str
        ``"gpu 0"``, ``"nic 0"``, ``"nvme 0"`` (a drive of four lanes beside that NIC), ``"cpu 0"`` (its memory) or
        ``"cxl 0"`` (memory on a CXL link of that processor, whose rate is taken before its packets).
    mechanism : str
        ``"nvlink"`` (or xGMI), ``"peer"`` (between devices over PCIe: GPUDirect P2P, RDMA or Storage, by the ends),
        ``"pinned"`` or ``"pageable"`` (through host memory, or to or from it), or ``"cpu"`` (a core loads and stores).
    maker : str
        Of the processors: ``"intel"``, ``"amd"`` or ``"arm"``; for a fabric that is none of the library's servers.
    iommu : str
        ``"off"``; ``"on"``: it translates, so that switches send what is between devices up to it; or ``"ats"``: it
        translates, and the devices keep translations.
    acs : bool
        Whether switches send what is between devices up to the root complex in any case (ACS redirect).
    module : bool
        Whether the kernel can give a NIC or drive the GPU's memory: nvidia-peermem, DMA-BUF or nvidia-fs.
    back : str
        What moves the other way meanwhile: ``"none"``, ``"write"`` or ``"read"``.
    kernel : bool
        Whether a kernel copies, as NCCL's do, and no copy engine; a NIC, a drive or a core copies as without it.

    Raises
    ------
    ValueError
        If an end is not there, the mechanism does not fit the ends, or the fabric is none of the library's servers
        and something must be known of its processors or links between GPUs.
    NoPath
        If no such links lead from one end to the other.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> server = topologies.build("dgx_h100")
    >>> path(server, "nic 0", "gpu 0", "peer")
    <Path: 1 copies, 2 hops, 57.6 GB/s, 2.71 us, host memory 0 x>
    >>> path(server, "nic 0", "gpu 0", "pinned")
    <Path: 2 copies, 4 hops, 57.6 GB/s, 7.90 us, host memory 2 x>
    """
    units.choice(mechanism, "mechanism", MECHANISMS)
    units.choice(back, "back", ("none", "write", "read"))
    units.choice(maker or "amd", "maker", ("amd", "arm", "intel"))
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
    """Return what a program calls, in order: each call, what it does, and the calls that must come before it.

    Parameters
    ----------
    way : str
        ``"peermem"`` or ``"dmabuf"`` (GPUDirect RDMA), or ``"cufile"`` (GPUDirect Storage).
    """
    rows = read_rows(File(__file__).with_name("calls.csv"))
    units.choice(way, "way", dict.fromkeys(row["way"] for row in rows))
    return tuple(
        (row["call"], row["does"], tuple(row["needs"].split())) for row in rows if row["way"] == way
    )


def misplaced(way: str, order: list[str]) -> tuple[tuple[str, str], ...]:
    """Return each call of an order with one that must come before it and does not; several orders have none.

    Parameters
    ----------
    way : str
        As for `calls`.
    order : list of str
        All its calls, each once.

    Raises
    ------
    ValueError
        If a call is missing, stands twice, or is none of these.
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
    """Return what in the kernel gives a NIC the addresses of some memory; it fails as the call would.

    Parameters
    ----------
    memory : str
        ``"host"``, ``"gpu"`` (from cuMemAlloc), or ``"managed"`` (from cuMemAllocManaged), which no NIC can have.
    call : str
        ``"ibv_reg_mr"`` or ``"ibv_reg_dmabuf_mr"``.
    module : bool
        Whether the kernel has what the call needs for a GPU: nvidia-peermem, or DMA-BUF.

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
    """Return the published figures that the model has a path for, what the model gives [SI], and why a row counts not.

    A row that sets a constant of the model does not count; the text is empty for a row that counts. The processors,
    GPUs and drives of a row may be others than those of the server that stands for it; PCIe and NVLink are of the same
    generation. The latency is that of one line, there and back. Six rows are missed: that latency (-51 %: its source
    times 32 loads of 4 B one by one, and how many are under way at once is not told); a kernel of an H100 that reads
    host memory (+49 %), and a copy to an A100 against one from it (+158 %), whose sources ask for the cause; peer
    access of RTX 4090, which later drivers took away (+191 %), of A6000 over a way that is not told (+30 %), and
    between AMD processors, where NCCL plans with less than was measured (-21 %).

    That packets of a kernel hold 128 B on PCIe as they do on NVLink is inferred, after the three rows of kernels on
    PCIe had been seen: with 256 B they are +9 %, +64 % and +15.2 % off, with 128 B +1 %, +49 % and +5 %.

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
