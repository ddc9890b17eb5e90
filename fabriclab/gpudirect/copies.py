"""One copy inside a server: the parts it crosses, its rate, and the time it takes to start.

The payload share of a PCIe link is computed from packet sizes and from the small packets that answer them.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import catalog, routing, spelling, units
from fabriclab.catalog.tables import load_table
from fabriclab.core import Fabric, Flows
from fabriclab.topologies.servers import SERVERS

_MAKERS = {"upi-bdw": "intel", "upi-spr": "intel", "amd-if": "amd", "grace-grace": "arm"}
LINE = 64  # [B] cache line: size of a CPU load, and of the packets into which an Intel root complex splits others
_KINDS = ("write", "read")
_ENDS = ("gpu", "nic", "nvme", "cpu", "cxl")
_END = re.compile(r"(?P<kind>[a-zA-Z]+)[\s/_-]*(?P<number>[\d.]*)")
# Ends that the fabric does not have, and the kind of the nodes to which they are attached.
_ATTACHED = {"nvme": "nic", "cxl": "cpu"}


def fact(part: str, attribute: str, table: str = "memory_path", **where: str) -> float:
    """Return a fact as an SI number; for a range such as "105-150", its middle."""
    return sum(load_table(table)[part].spec(attribute, **where).ends) / 2


def pcie_part(
    kind: str = "write",
    *,
    size: units.Quantity | None = None,
    payload: int | None = None,
    lanes: int = 16,
    back: str = "none",
) -> float:
    """Return the fraction of a PCIe link's rate after coding that carries data, in one direction.

    A write sends packets with data. A read sends requests in one direction, and completions with data come back. Every
    packet is answered in the opposite direction by an acknowledgement and a flow-control update; one such pair of
    answers may serve several packets. Leaves out the flits of PCIe 6, skip sequences, replays, and waiting for credits
    or tags.

    Parameters
    ----------
    kind : str
        How the data in this direction move: ``"write"`` or ``"read"``.
    size : float or str, optional
        Data of one transfer, by default a long one. [B]
    payload : int, optional
        Most data in one packet, by default the catalog's. [B], 64 to 4096
    lanes : int
        4, 8 or 16; the number of packets that one pair of answers serves depends on it.
    back : str
        How the same amount of data moves in the other direction at the same time: ``"none"``, ``"write"`` or
        ``"read"``.

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
    kind = units.choice(kind, "kind", _KINDS)
    back = units.choice(back, "back", ("none", *_KINDS))
    name = units.choice(f"x{lanes}", "lanes", ("x4", "x8", "x16"))
    if payload is None:
        most = int(fact("pcie-tlp", "max_payload"))
    else:
        most = units.count(payload, "payload", LINE, 4096)
    ask = fact("pcie-tlp", "max_read_request")
    if size is None:
        n = float(max(most, ask))
    else:
        n = units.size(size, may_be_zero=False)
    packets = math.ceil(n / most)
    requests = math.ceil(n / ask)

    headers = packets * fact("pcie-tlp", f"overhead_{kind}")  # [B]
    asking = 0.0  # [B] requests for the data that move in the other direction
    if back == "read":
        asking = requests * fact("pcie-tlp", "overhead_request")
    # Packets that arrive from the other side; their answers travel in this direction.
    met = 0
    if back != "none":
        met += packets
    if kind == "read":
        met += requests
    answers = 2 * fact("pcie-tlp", "dllp") * met / fact("pcie-tlp", "packets_per_answer", name=name)
    return n / (n + headers + asking + answers)


@dataclass(frozen=True)
class End:
    """One end of a copy: a memory or a device.

    Parameters
    ----------
    kind, name : str
        Such as ``"gpu"`` and ``"gpu 0"``.
    node : int
        Node of the fabric; a drive or CXL memory has no node of its own and takes the one that it is attached to.
    rate : float
        Rate after coding of the link of a drive, which has four lanes, or of CXL memory; inf for other ends. [B/s]
    """

    kind: str
    name: str
    node: int
    rate: float = np.inf

    @property
    def in_host(self) -> bool:
        """Whether this end is memory of the host."""
        return self.kind in ("cpu", "cxl")

    @property
    def latency(self) -> float:
        """Latency that the memory at this end adds [s]; what NICs and drives add is left out."""
        if self.kind == "gpu":
            return fact("gpu-bar", "round_trip") / 2
        if self.kind == "cpu":
            return fact("ddr", "latency")
        if self.kind == "cxl":
            return fact("ddr", "latency") * fact("cxl", "ratio_to_local")
        return 0.0


@dataclass(frozen=True)
class Move:
    """One copy from one memory to another.

    Parameters
    ----------
    by : str
        What copies: ``"DMA"`` (an engine of a device) or ``"CPU"`` (a core).
    over : tuple of str
        Parts crossed, in order, both ends included; NVSwitch chips that share the bytes count as one part.
    rate : float
        Rate of a long copy. [B/s]
    latency : float
        Time of the first byte from end to end. [s]
    issue : float
        Time to start a copy, or a chunk of one. [s]
    host : int
        How often host memory reads or writes each byte.
    """

    by: str
    over: tuple[str, ...]
    rate: float
    latency: float
    issue: float
    host: int


class Walk(NamedTuple):
    """A route between two ends inside a server."""

    link: NDArray[np.int64]  # (L,)
    over: tuple[str, ...]  # parts in order, both ends included
    latency: float  # [s]


@dataclass(frozen=True)
class Server:
    """A server, with the settings on which copies inside it depend.

    Parameters
    ----------
    fabric : Fabric
        Nodes of the kinds ``gpu``, ``nic`` and ``cpu``, as the builders of servers make them.
    maker : str
        Maker of the processors, ``"intel"``, ``"amd"`` or ``"arm"``; if empty, that of this family of servers.
    back : str
        What moves over PCIe in the other direction at the same time; see `pcie_part`.
    asks, acs : bool
        Whether devices must ask the IOMMU to translate addresses, and whether switches redirect packets (ACS). With
        either, traffic between devices goes up to the root complex.
    kernel : bool
        Whether a GPU kernel copies instead of a copy engine; its packets on NVLink and PCIe carry at most 128 B.
    """

    fabric: Fabric
    maker: str = ""
    back: str = "none"
    asks: bool = False
    acs: bool = False
    kernel: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no fabric, such as the matrix that a tool printed."""
        if isinstance(self.fabric, Fabric):
            return
        hint = "topologies.build('dgx_h100') makes one"
        if isinstance(getattr(self.fabric, "fabric", None), Fabric):
            hint = "a system has its own in .fabric"
        raise TypeError(
            f"fabric must be the Fabric of a server, got a {type(self.fabric).__name__}; {hint}"
        )

    def parts(self) -> dict[str, str]:
        """Return the row of this family in the table of servers; empty if the fabric is none of these servers."""
        return SERVERS.get(self.fabric.family.replace("nvl72", "gb200"), {})

    def splits(self) -> bool:
        """Return whether the root complex splits packets between devices into cache lines, as Intel's does."""
        maker = self.maker or _MAKERS.get(self.parts().get("sockets", ""), "")
        known = sorted(set(_MAKERS.values()))
        maker = units.choice(maker, "maker", known, " for this fabric: say whose processors it has")
        return maker == "intel"

    def end(self, text: str) -> End:
        """Return the end with a name such as ``"gpu 0"``, also as the fabric or a tool prints it: "gpu 0.0" or GPU0.

        Drive i is attached where NIC i is, and CXL memory i to processor i.
        """
        printed = spelling.printed_part(str(text))
        if printed is None:
            match = _END.fullmatch(str(text).strip())
            word = match["kind"] if match else text
            kind = units.choice(word, "end", _ENDS, "; name it as in 'gpu 0'")
            number = match["number"] if match else ""
        else:
            kind = printed.kind
            number = str(printed.number)
        nodes = self.fabric.nodes(_ATTACHED.get(kind, kind))
        if "." in number and kind not in _ATTACHED:
            number = str(np.searchsorted(nodes, self.fabric.node(f"{kind} {number}")))
        if not number.isdecimal() or int(number) >= nodes.size:
            raise ValueError(
                f"end must be {kind} 0 to {kind} {nodes.size - 1}, got {text!r}; the server has no other"
            )
        node = int(nodes[int(number)])
        rate = np.inf
        if kind == "cxl":
            rate = catalog.value("links", "cxl2.0", "x16_raw_bandwidth")
        elif kind == "nvme":
            link = int(np.flatnonzero(self.fabric.source == node)[0])
            node = int(self.fabric.target[link])
            rate = float(self.fabric.capacity[link]) * 4 / 16  # lanes
        return End(kind, f"{kind} {int(number)}", node, rate)

    def processor(self, end: End) -> End:
        """Return the memory of the processor nearest to an end."""

        def distance(node: int) -> tuple[int, int]:
            """Return the number of links to a processor, and its node number to decide between equally near ones."""
            return _route(self.fabric, end.node, node).size, node

        near = min(map(int, self.fabric.nodes("cpu")), key=distance)
        return End("cpu", self.fabric.name(near), near)

    def walk(self, a: End, b: End, *via: int) -> Walk:
        """Return a route between two ends, through the given nodes.

        The parts crossed leave out the ports of GPUs and include the node that a drive or CXL memory is attached to.
        The latency is a sum over the parts, in which a root complex counts as a switch.
        """
        return self._along(a, b, _route(self.fabric, a.node, *via, b.node))

    def walks(self, pairs: Sequence[tuple[End, End]]) -> list[Walk]:
        """Return a route between the two ends of each pair, as `walk` does; all are looked for together."""
        links = _routes(self.fabric, [(a.node, b.node) for a, b in pairs])
        return [self._along(a, b, link) for (a, b), link in zip(pairs, links, strict=True)]

    def _along(self, a: End, b: End, link: NDArray[np.int64]) -> Walk:
        """Return the route between two ends over some links."""
        fabric = self.fabric
        nodes = [a.node, *fabric.target[link]]
        if a.kind not in ("nvme", "cxl"):  # the node is the end itself
            nodes = nodes[1:]
        if b.kind not in ("nvme", "cxl"):
            nodes = nodes[:-1]
        names = [fabric.name(node) for node in nodes]
        between = [name for name in names if not name.startswith("port")]

        passed = sum(name.startswith(("pcie", "cpu")) for name in between)
        sockets = sum(fabric.media[medium] == "socket" for medium in fabric.medium[link])
        hops = passed * fact("pcie-sw", "latency") + sockets * fact("pcie-numa", "extra_latency")
        latency = a.latency + b.latency + float(hops)
        return Walk(link, (a.name, *between, b.name), latency)

    def dma(self, a: End, b: End) -> Move:
        """Return a copy by a DMA engine: that of the NIC or drive if there is one, else of a GPU.

        A GPU's engine writes to the other end, but reads if the source is host memory.
        """
        kinds = (a.kind, b.kind)
        peer = not (a.in_host or b.in_host)
        if peer and (self.asks or self.acs):  # up to the root complex, and down again
            link, over, latency = self.walk(a, b, self.processor(a).node)
        else:
            link, over, latency = self.walk(a, b)

        # Whether the bytes cross PCIe as writes or as reads
        kind = "read" if b.kind in ("nic", "nvme") or a.in_host else "write"
        by_processor = peer and any(part.startswith("cpu") for part in over)
        payload = LINE if by_processor and self.splits() else None
        by_kernel = self.kernel and "nic" not in kinds and "nvme" not in kinds
        rate = self._pcie(link, kind, payload, by_kernel)
        of_ends = min(a.rate, b.rate)
        if "nvme" in kinds:
            of_ends *= pcie_part(kind, lanes=4, back=self.back)

        if "nic" in kinds:
            issue = fact("net-sw", "latency", "nics")
        else:
            issue = fact("launch", "latency")
        if self.asks:
            latency += fact("iommu", "extra_latency")
        return Move("DMA", over, min(rate, of_ends), latency, issue, a.in_host + b.in_host)

    def bounce(self, a: End, b: End, pageable: bool) -> tuple[Move, ...]:
        """Return the copies through a buffer in host memory, near the GPU, or near the first of two GPUs.

        If the memory is pageable, a core also copies everything to or from a pinned buffer.
        """
        if a.in_host:
            buffer = a
        elif b.in_host:
            buffer = b
        else:
            buffer = self.processor(a if a.kind == "gpu" else b)
        core = Move(
            by="CPU",
            over=(buffer.name, buffer.name),
            rate=fact("cpu-copy", "bandwidth"),
            latency=2 * fact("ddr", "latency"),
            issue=0.0,
            host=2,
        )

        moves = []
        if not a.in_host:
            moves.append(self.dma(a, buffer))
            if pageable:
                moves.append(core)
        if not b.in_host:
            if pageable:
                moves.append(core)
            moves.append(self.dma(buffer, b))
        return tuple(moves)

    def between_gpus(self, a: End, b: End) -> Move:
        """Return a copy over the links between GPUs; its latency is that of one step of NCCL's LL protocol.

        Each generation of NVLink has one payload share, taken from the rate with which NCCL plans. NCCL's rate is that
        of the packets of a kernel; packets of a copy engine have the same overhead around more data. The share of xGMI
        comes from one measured ring.
        """
        link = self.parts().get("link", "")
        if not link:
            raise ValueError(
                f"fabric must be a server whose GPUs are joined, got the family {self.fabric.family!r}"
            )
        xgmi = link.startswith("xgmi")
        if xgmi:
            data_rate = catalog.value("measured", "mi300x-2", "busbw")
        else:
            data_rate = catalog.value("links", link, "nccl_effective_per_link")
        around = catalog.value("links", link, "bandwidth_per_link") / data_rate - 1  # [B/B of data]
        if not (self.kernel or xgmi):
            of_kernel = fact("nvlink-packet", "max_payload", name="a kernel")
            of_engine = fact("nvlink-packet", "max_payload", name="a copy engine")
            around *= of_kernel / of_engine
        part = 1 / (1 + around)

        between = _halves(self.fabric).between_gpus
        routes = routing.route(between, Flows.make(a.node, b.node, 1.0), "spray")
        rate = float(np.min(between.capacity[routes.link] / routes.use)) * part
        over = [a.name, b.name]
        if routes.link.size > 1:
            over.insert(1, "nvswitch")
        latency = fact("hw", "latency_LL", "nccl_model", name="hwLat NVLINK Ring")
        return Move("DMA", tuple(over), rate, latency, fact("launch", "latency"), 0)

    def loads(self, a: End, b: End) -> Move:
        """Return a copy by loads and stores of a core, which keeps only a few reads from a device in flight."""
        link, over, latency = self.walk(a, b)
        once = latency - fact("ddr", "latency")
        reads = fact("cpu-loads", "in_flight") * LINE / (2 * once)
        if b.in_host:
            rate = reads
        else:
            rate = self._pcie(link, "write", LINE)
        return Move("CPU", over, rate, once * (1 + b.in_host), 0.0, 1)

    def _pcie(
        self, link: NDArray[np.int64], kind: str, payload: int | None, kernel: bool = False
    ) -> float:
        """Return the rate of the slowest of some links [B/s]; links between processors already have NCCL's rate."""
        c2c = fact("h2d-gh200", "bandwidth") / catalog.value("links", "nvlink-c2c", "bandwidth")
        size = fact("nvlink-packet", "max_payload", name="a kernel") if kernel else None
        part = {"pcie": pcie_part(kind, size=size, payload=payload, back=self.back), "c2c": c2c}
        of_medium = np.array([part.get(medium, 1.0) for medium in self.fabric.media])
        rate = self.fabric.capacity[link] * of_medium[self.fabric.medium[link]]  # (L,) [B/s]
        return float(np.min(rate, initial=np.inf))


class Halves(NamedTuple):
    """A server split in two: without the links between GPUs, and with these links only."""

    without_gpu_links: Fabric
    between_gpus: Fabric


@lru_cache(maxsize=8)
def _halves(fabric: Fabric) -> Halves:
    """Return a server without its links between GPUs, and with these links only."""
    peer = np.isin(np.array(fabric.media)[fabric.medium], ("nvlink", "xgmi"))  # (L,)
    return Halves(
        without_gpu_links=fabric.without(links=np.flatnonzero(peer)),
        between_gpus=fabric.without(links=np.flatnonzero(~peer)),
    )


@lru_cache(maxsize=1024)
def _route(fabric: Fabric, *nodes: int) -> NDArray[np.int64]:
    """Return the links of a route through some nodes that avoids links between GPUs."""
    legs = Flows.make(nodes[:-1], nodes[1:], 1.0)
    return routing.route(_halves(fabric).without_gpu_links, legs).link.astype(np.int64)


def _routes(fabric: Fabric, pairs: Sequence[tuple[int, int]]) -> list[NDArray[np.int64]]:
    """Return the links of a route between the nodes of each pair, as `_route` does, all looked for together."""
    if not pairs:
        return []
    sources, targets = zip(*pairs, strict=True)
    routes = routing.route(_halves(fabric).without_gpu_links, Flows.make(sources, targets, 1.0))
    links = [np.zeros(0, np.int64) for _ in pairs]  # of a node to itself there is no route
    for row, pair in enumerate(routes.flow):
        links[pair] = routes.link[routes.ptr[row] : routes.ptr[row + 1]].astype(np.int64)
    return links
