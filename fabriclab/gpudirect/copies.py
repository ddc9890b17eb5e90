"""One copy inside a server: over which parts it goes, how fast, and what it costs to start.

What of a PCIe link is payload is arithmetic of packets and of the small packets that answer them.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fabriclab import catalog, routing, units
from fabriclab.catalog.tables import load_table
from fabriclab.core import Fabric, Flows
from fabriclab.topologies.servers import SERVERS

_MAKERS = {"upi-bdw": "intel", "upi-spr": "intel", "amd-if": "amd", "grace-grace": "arm"}
LINE = 64  # bytes of a cache line: a load of a processor, and what an Intel root complex makes of packets
_KINDS = ("write", "read")


def fact(part: str, attribute: str, table: str = "memory_path", **where: str) -> float:
    """Return a fact as an SI number; of a range such as "105-150" the middle."""
    return sum(load_table(table)[part].spec(attribute, **where).ends) / 2


def pcie_part(
    kind: str = "write",
    *,
    size: units.Quantity | None = None,
    payload: int | None = None,
    lanes: int = 16,
    back: str = "none",
) -> float:
    """Return which part of a PCIe link's rate after coding carries data, in one direction.

    A write sends packets with data; a read sends requests one way, and completions with data come back. Every
    packet is answered by an acknowledgement and a flow-control update, against its direction, and several packets
    by one such pair. Leaves out the flits of PCIe 6, skip sequences, replays, and waiting for credits or tags.

    Parameters
    ----------
    kind : str
        How the data of this direction move: ``"write"`` or ``"read"``.
    size : float or str, optional
        Data of one transfer; the default is a long one. [B]
    payload : int, optional
        Most data of one packet; the default is the catalog's. [B], 64 to 4096
    lanes : int
        4, 8 or 16: how many packets one answer serves depends on it.
    back : str
        How as much data moves the other way at the same time: ``"none"``, ``"write"`` or ``"read"``.

    Returns
    -------
    float
        Between 0 and 1.

    References
    ----------
    .. [1] R. Neugebauer et al., Understanding PCIe performance for end host networking, SIGCOMM 2018.

    Examples
    --------
    >>> round(pcie_part("write"), 3), round(pcie_part("write", payload=64), 3)
    (0.914, 0.727)
    """
    units.choice(kind, "kind", _KINDS)
    units.choice(back, "back", ("none", *_KINDS))
    name = units.choice(f"x{lanes}", "lanes", ("x4", "x8", "x16"))
    most = (
        int(fact("pcie-tlp", "max_payload"))
        if payload is None
        else units.count(payload, "payload", LINE, 4096)
    )
    ask = fact("pcie-tlp", "max_read_request")
    n = float(max(most, ask)) if size is None else units.size(size, may_be_zero=False)
    packets, requests = math.ceil(n / most), math.ceil(n / ask)
    bytes_of = {k: fact("pcie-tlp", f"overhead_{k}") for k in (*_KINDS, "request")}
    # packets that come the other way
    met = packets * (back != "none") + requests * (kind == "read")
    answers = 2 * fact("pcie-tlp", "dllp") * met / fact("pcie-tlp", "packets_per_answer", name=name)
    return n / (
        n + packets * bytes_of[kind] + requests * bytes_of["request"] * (back == "read") + answers
    )


@dataclass(frozen=True)
class End:
    """Where a copy begins or ends.

    Parameters
    ----------
    kind, name : str
        Such as ``"gpu"`` and ``"gpu 0"``.
    node : int
        Node of the fabric: that of a drive or of CXL memory is what it hangs on.
    rate : float
        Of the link of such a drive, which has four lanes, after coding, or of such memory. [B/s]
    """

    kind: str
    name: str
    node: int
    rate: float = np.inf

    @property
    def in_host(self) -> bool:
        """Whether this is memory of the host."""
        return self.kind in ("cpu", "cxl")

    @property
    def latency(self) -> float:
        """Return what the memory there adds [s]; what NICs and drives add is left out."""
        near, gpu = fact("ddr", "latency"), fact("gpu-bar", "round_trip") / 2
        return {"cpu": near, "cxl": near * fact("cxl", "ratio_to_local"), "gpu": gpu}.get(
            self.kind, 0.0
        )


@dataclass(frozen=True)
class Move:
    """One copy from a memory to another.

    Parameters
    ----------
    by : str
        ``"DMA"`` (an engine of a device) or ``"CPU"`` (a core).
    over : tuple of str
        Parts in order, both ends included; NVSwitch chips that share the bytes are one of them.
    rate : float
        Of a long copy. [B/s]
    latency : float
        Of the first byte, from end to end. [s]
    issue : float
        What it takes to start a copy, or a chunk of one. [s]
    host : int
        How often host memory reads or writes each byte.
    """

    by: str
    over: tuple[str, ...]
    rate: float
    latency: float
    issue: float
    host: int


@dataclass(frozen=True)
class Server:
    """A server with what copies in it depend on.

    Parameters
    ----------
    fabric : Fabric
        Nodes of the kinds ``gpu``, ``nic`` and ``cpu``, as the builders of servers give them.
    maker : str
        Of the processors, ``"intel"``, ``"amd"`` or ``"arm"``; if empty, that of this family of servers.
    back : str
        What moves the other way over PCIe meanwhile; see `pcie_part`.
    asks, acs : bool
        Whether devices must ask the IOMMU for an address, and whether switches redirect (ACS): with either, what is
        between devices goes up to the root complex.
    kernel : bool
        Whether a kernel copies, and no copy engine: packets of NVLink and of PCIe then carry at most its 128 B.
    """

    fabric: Fabric
    maker: str = ""
    back: str = "none"
    asks: bool = False
    acs: bool = False
    kernel: bool = False

    def parts(self) -> dict[str, str]:
        """Return the row of this family in the table of servers; empty for a fabric that is none of them."""
        return SERVERS.get(self.fabric.family.replace("nvl72", "gb200"), {})

    def splits(self) -> bool:
        """Whether the root complex splits packets between devices into lines, as Intel's does."""
        made, known = (
            self.maker or _MAKERS.get(self.parts().get("sockets", ""), ""),
            sorted(set(_MAKERS.values())),
        )
        return (
            units.choice(made, "maker", known, " for this fabric: say whose processors it has")
            == "intel"
        )

    def end(self, text: str) -> End:
        """Return the end that a name such as ``"gpu 0"`` means; drive i hangs where NIC i hangs, CXL on a processor."""
        kind, _, number = str(text).partition(" ")
        units.choice(kind, "end", ("gpu", "nic", "nvme", "cpu", "cxl"), "; name it as in 'gpu 0'")
        nodes = self.fabric.nodes({"nvme": "nic", "cxl": "cpu"}.get(kind, kind))
        if not number.isdecimal() or int(number) >= nodes.size:
            raise ValueError(
                f"end must be {kind} 0 to {kind} {nodes.size - 1}, got {text!r}; the server has no other"
            )
        node = int(nodes[int(number)])
        rate = catalog.value("links", "cxl2.0", "x16_raw_bandwidth") if kind == "cxl" else np.inf
        if kind == "nvme":
            link = int(np.flatnonzero(self.fabric.source == node)[0])
            node, rate = int(self.fabric.target[link]), float(self.fabric.capacity[link]) * 4 / 16
        return End(kind, f"{kind} {int(number)}", node, rate)

    def processor(self, end: End) -> End:
        """Return the memory of the nearest processor."""
        near = min(
            (_way(self.fabric, end.node, int(n)).size, int(n)) for n in self.fabric.nodes("cpu")
        )[1]
        return End("cpu", self.fabric.name(near), near)

    def walk(self, a: End, b: End, *via: int) -> tuple[NDArray[np.int64], tuple[str, ...], float]:
        """Return the links of a way, what is on it, and the latency: a sum, in which a root complex counts as a switch.

        The port of a GPU is no part; what a drive hangs on is one.
        """
        link = _way(self.fabric, a.node, *via, b.node)
        first, last = (end.kind not in ("nvme", "cxl") for end in (a, b))
        names = [
            self.fabric.name(n)
            for n in [a.node, *self.fabric.target[link]][first : link.size + 1 - last]
        ]
        over = (a.name, *(n for n in names if not n.startswith("port")), b.name)
        passed = sum(part.startswith(("pcie", "cpu")) for part in over[1:-1])
        sockets = sum(self.fabric.media[m] == "socket" for m in self.fabric.medium[link])
        hops = passed * fact("pcie-sw", "latency") + sockets * fact("pcie-numa", "extra_latency")
        return link, over, a.latency + b.latency + float(hops)

    def dma(self, a: End, b: End) -> Move:
        """Return a copy by an engine: of the NIC or drive, else of the GPU, which writes, but reads host memory."""
        peer = not (a.in_host or b.in_host)
        link, over, latency = self.walk(
            a, b, *[self.processor(a).node] * (peer and (self.asks or self.acs))
        )
        split = peer and any(part.startswith("cpu") for part in over) and self.splits()
        kind = "read" if b.kind in ("nic", "nvme") or a.in_host else "write"
        engine = {"nic", "nvme"} & {a.kind, b.kind} or not self.kernel
        lanes = pcie_part(kind, lanes=4, back=self.back) if "nvme" in (a.kind, b.kind) else 1.0
        rate = min(
            self._pcie(link, kind, LINE if split else None, not engine), min(a.rate, b.rate) * lanes
        )
        issue = (
            fact("net-sw", "latency", "nics")
            if "nic" in (a.kind, b.kind)
            else fact("launch", "latency")
        )
        latency += fact("iommu", "extra_latency") * self.asks
        return Move("DMA", over, rate, latency, issue, a.in_host + b.in_host)

    def bounce(self, a: End, b: End, pageable: bool) -> tuple[Move, ...]:
        """Return the copies through host memory near the GPU, or near the first of two.

        Of pageable memory a core copies all to or from pinned memory.
        """
        at = a if a.in_host else b if b.in_host else self.processor(a if a.kind == "gpu" else b)
        core = Move(
            "CPU",
            (at.name, at.name),
            fact("cpu-copy", "bandwidth"),
            2 * fact("ddr", "latency"),
            0.0,
            2,
        )
        there = () if a.in_host else (self.dma(a, at), *[core] * pageable)
        return there + (() if b.in_host else (*[core] * pageable, self.dma(at, b)))

    def between_gpus(self, a: End, b: End) -> Move:
        """Return a copy over the links that join GPUs; a step of NCCL's LL protocol stands for its latency.

        The part of NVLink's rate that it gets is one for each generation: the rate with which NCCL plans. That holds
        for a kernel's packets, and those of a copy engine have as much around more data. That of xGMI is one measured
        ring.
        """
        if not (link := self.parts().get("link", "")):
            raise ValueError(
                f"fabric must be a server whose GPUs are joined, got the family {self.fabric.family!r}"
            )
        xgmi = link.startswith("xgmi")
        got = (
            ("measured", "mi300x-2", "busbw")
            if xgmi
            else ("links", link, "nccl_effective_per_link")
        )
        # for each byte of data
        around = catalog.value("links", link, "bandwidth_per_link") / catalog.value(*got) - 1
        kernel, engine = (
            fact("nvlink-packet", "max_payload", name=n) for n in ("a kernel", "a copy engine")
        )
        part = 1 / (1 + around * (1.0 if self.kernel or xgmi else kernel / engine))
        alone = _halves(self.fabric)[1]
        way = routing.route(alone, Flows.make(a.node, b.node, 1.0), "spray")
        rate = float(np.min(alone.capacity[way.link] / way.use)) * part
        over = (a.name, *["nvswitch"] * (way.link.size > 1), b.name)
        latency = fact("hw", "latency_LL", "nccl_model", name="hwLat NVLINK Ring")
        return Move("DMA", over, rate, latency, fact("launch", "latency"), 0)

    def loads(self, a: End, b: End) -> Move:
        """Return a copy by loads and stores of a core, which reads a few lines from a device at once, and waits."""
        link, over, latency = self.walk(a, b)
        once = latency - fact("ddr", "latency")
        reads = fact("cpu-loads", "in_flight") * LINE / (2 * once)
        rate = reads if b.in_host else self._pcie(link, "write", LINE)
        return Move("CPU", over, rate, once * (1 + b.in_host), 0.0, 1)

    def _pcie(
        self, link: NDArray[np.int64], kind: str, payload: int | None, kernel: bool = False
    ) -> float:
        """Return the least rate of some links; those between processors have NCCL's already."""
        c2c = fact("h2d-gh200", "bandwidth") / catalog.value("links", "nvlink-c2c", "bandwidth")
        size = fact("nvlink-packet", "max_payload", name="a kernel") if kernel else None
        part = {"pcie": pcie_part(kind, size=size, payload=payload, back=self.back), "c2c": c2c}
        share = np.array([part.get(m, 1.0) for m in self.fabric.media])
        return float(
            np.min(self.fabric.capacity[link] * share[self.fabric.medium[link]], initial=np.inf)
        )


@lru_cache(maxsize=8)
def _halves(fabric: Fabric) -> tuple[Fabric, Fabric]:
    """Return a server without the links that join GPUs only, and with these alone."""
    peer = np.isin(np.array(fabric.media)[fabric.medium], ("nvlink", "xgmi"))
    return fabric.without(links=np.flatnonzero(peer)), fabric.without(links=np.flatnonzero(~peer))


@lru_cache(maxsize=1024)
def _way(fabric: Fabric, *nodes: int) -> NDArray[np.int64]:
    """Return the links of a way through some nodes that leaves out links between GPUs."""
    return routing.route(_halves(fabric)[0], Flows.make(nodes[:-1], nodes[1:], 1.0)).link.astype(
        np.int64
    )
