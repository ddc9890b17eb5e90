"""Algorithms x protocols that NCCL weighs for a collective on a system, each with the parts of its cost.

LL has the parts and limits of 2024, near the versions that most sweeps ran (2.18 to 2.22); 2026 has 1/2 everywhere.
"""

from dataclasses import dataclass
from functools import cache

from fabriclab import catalog
from fabriclab.core import bus_factor
from fabriclab.tuner.system import P2P, System

PROTOCOLS = ("LL", "LL128", "Simple")
EAGER = 2**14  # B to one peer; source: NCCL-tune-old, NCCL_P2P_LL_THRESHOLD
LL_CHUNK = 2**15  # B for each NIC, which has two channels; source: NCCL-tune-old
_GENERATIONS = ("Volta", "Ampere", "Hopper", "Blackwell")
_SCALES = ("1 server", "2 servers", "more servers")
_LINKS = {"pcie": "PCI", "shm": "PCI"}
# source: NCCL-tune-old for all factors below but those of LL: parts of a channel's rate, and latencies
_TREE = 0.92
_TREE_LL = 1 / 3.8
_TREE_LL128 = (7 / 9, 120 / 128)  # in a server, between servers
_LL_PARTS = (1 / 3, 1 / 4)  # the second for sums, and between servers; source: NCCL-tune-2024
# Of a hop inside where a tree also leaves the server; source: NCCL-tune-2022. Later versions have no such factor, and
# without it the visible sweeps miss a goal: the 90th percentile at middle sizes is 62 % instead of 56 %.
_LL_HOP = 1.8
_PLATEAU = (1.9, 1.4)  # Volta and later, from 64 B on for each rank and channel
_ARITY = 0.4e-6  # s for each GPU of a server that CollNet gathers from
_PAT_RATE, _PAT_NET, _PAT_RANK = 0.75, 3.5, 2.8e-6  # source: NCCL-tune-old
_POST = (1e-6, 2e-6)  # Intel's and other hosts, AMD's
# 16 channels on Hopper, 24 on Blackwell; source: NCCL-tune-old
_HOPPER, _NVLS_HEADS, _NVLS_CHUNK = (2, 32, 2**17)
# source: NCCL-tune-new, NCCL-topo; its channels in parts of those of the links
_NVLS_CHANNELS = 8 * 40 / (18 * 20.6)


@dataclass(frozen=True, slots=True)
class Plan:
    """One algorithm with one protocol, in parts that the size of a message multiplies.

    Parameters
    ----------
    algorithm, protocol : str
        As NCCL names them; ``P2P`` where each rank sends to each.
    start : float
        Start-up. [s]
    steps, hop : int, float
        Steps inside a server and the time of each. [s]
    posts : int
        Requests to a NIC that each of these steps waits for.
    network : float
        Latencies between servers. [s]
    own, nic, copy : float
        Time of each byte on a GPU's own links, on the NICs, and in the protocol itself. [s/B]
    peers : int
        Peers outside that a rank posts to, one after the other.
    forwards : int
        Times that an all-reduce by LL hands all of a chunk on to another server.
    loop : float
        Bytes that NVLS has under way: switches add them while they hand out those before. [B]
    plateau : float
        What NCCL multiplies the latency with when it chooses, from a size on.
    chain : float
        Latency that NCCL takes for all hops of a broadcast or reduce when it chooses. [s]
    """

    algorithm: str
    protocol: str
    start: float
    steps: int
    hop: float
    posts: int
    network: float
    own: float
    nic: float = 0.0
    copy: float = 0.0
    peers: int = 0
    forwards: int = 0
    loop: float = 0.0
    plateau: float = 1.0
    chain: float = 0.0

    def expected(self, system: System, size: float) -> float:
        """Return the time [s] by which NCCL chooses."""
        waits = self.chain or self.steps * max(self.hop, self.posts * post(system)) + self.network
        per_byte = max(self.own, self.nic, self.copy) / self.tree_part(size)
        # A NIC has two channels.
        return (self.start + waits) * self.plateau ** (
            size >= 64 * 2 * system.nics * system.ranks
        ) + size * per_byte

    def tree_part(self, size: float) -> float:
        """Return the part of its rate that a tree reaches at a size."""
        by_size = _tree_parts(self.protocol) if self.algorithm == "Tree" else ()
        power = max(int(size), 1).bit_length() - 7  # of two, above 64 B
        return by_size[power] if 0 <= power < len(by_size) else 1.0


def _amd(s: System) -> bool:
    """Return whether its CPUs are AMD's, which no table says: with AMD's GPUs, and with Ampere for the most."""
    return s.kind == "xgmi" or s.generation == 1


def post(system: System) -> float:
    """Return the time [s] to post one request to a NIC."""
    return _POST[_amd(system)] if system.servers > 1 else 0.0


@cache
def plans(system: System) -> tuple[Plan, ...]:
    """Return what NCCL weighs on a system; what a run forced is all there is."""
    if system.what in P2P:
        return (_peers(system),)
    shapes = (_ring, _tree) if system.what == "all_reduce" else (_ring,)
    found = [
        shape(system, p) for shape in shapes for p in PROTOCOLS if p != "LL128" or system.long_lines
    ]
    found += _special(system)
    forced = [p for p in found if p.algorithm.lower() in system.algo.lower().split()]
    # whether switches add is in no table
    return tuple(forced or [p for p in found if p.algorithm != "CollNet"])


@cache
def _latency(link: str, algorithm: str, protocol: str) -> float:
    name = f"baseLat {algorithm}" if link == "base" else f"hwLat {link} {algorithm}"
    return catalog.value(
        "nccl_model", "base" if link == "base" else "hw", f"latency_{protocol}", name=name
    )


@cache
def _tree_parts(protocol: str) -> tuple[float, ...]:
    row = catalog.nccl_model["treefit"].spec(
        "bandwidth_part_by_size", name=f"treeCorrectionFactor {protocol}"
    )
    return tuple(map(float, str(row.value).split()))


def _limit(s: System, part: str, attribute: str) -> float:
    row = (
        min(s.generation, 2)
        if part == "treemax"
        else min(s.generation, 1)
        if s.servers == 1
        else _amd(s)
    )
    return catalog.value(
        "nccl_model", part, attribute, name=f"{_GENERATIONS[row]} {_SCALES[min(s.servers, 3) - 1]}"
    )


def _inside(s: System) -> str:
    return _LINKS.get(s.kind, "NVLINK")


def _logs(s: System) -> int:
    return s.servers.bit_length() - 1


def _ring(s: System, protocol: str) -> Plan:
    many, twice, ll, simple = (
        s.servers > 1,
        1 + (s.what == "all_reduce"),
        protocol == "LL",
        protocol == "Simple",
    )
    sums = s.what in ("all_reduce", "reduce")
    part = (
        1.0
        if simple
        else _LL_PARTS[many or sums]
        if ll
        else catalog.value("nccl_model", "ll128", "factor")
    )
    factor, out = bus_factor(s.what, s.ranks), twice * (s.servers - 1)
    # with switches all channels are alike
    hops = (1 if s.switched else s.ranks) * (s.what in ("broadcast", "reduce"))
    chain = hops * _latency(
        "NET" if many else _inside(s), "Tree" if simple and hops > 1 else "Ring", protocol
    )
    return Plan(
        "Ring",
        protocol,
        _latency("base", "Ring", protocol),
        twice * (s.ranks - 1) - out,
        _latency(_inside(s), "Ring", protocol),
        (1 + 2 * simple) * many,
        out * _latency("NET", "Ring", protocol),
        factor / (s.ring * part),
        factor / (s.node * part) if many else 0.0,
        forwards=2 * (many and twice == 2 and ll),
        chain=chain,
        copy=factor / _limit(s, "llmax", "bandwidth_LL_max") if ll else 0.0,
        plateau=_PLATEAU[s.generation > 0] if many and twice == 2 and simple else 1.0,
    )


def _tree(s: System, protocol: str) -> Plan:
    """Return a double tree over servers with a chain in each: a byte goes up and down once."""
    many, ll, nic = s.servers > 1, protocol == "LL", 0.0
    part = {"LL": _TREE_LL, "LL128": _TREE_LL128[many], "Simple": 1.0}[protocol]
    if many:  # a server of two sends up or down; of more, both ways at once through the same NICs
        most = _limit(s, "treemax", "bandwidth_per_channel_max")
        nic = 2 / (s.nics * min(_TREE * s.nic * (2 if s.servers == 2 else 1), most) * part)
    return Plan(
        "Tree",
        protocol,
        _latency("base", "Tree", protocol),
        2 * (s.local - 1),
        _latency(_inside(s), "Tree", protocol) * (_LL_HOP if many and ll else 1.0),
        0,
        2 * _logs(s) * _latency("NET", "Tree", protocol),
        2 / (s.own * _TREE * part) if s.local > 1 else 0.0,
        nic,
        1 / _limit(s, "llmax", "bandwidth_LL_max") if ll else 0.0,
        forwards=2 * _logs(s) * ll,
    )


def _special(s: System) -> list[Plan]:
    """Return NVLS in one domain, NVLSTree between several, CollNet, or PAT, of which NCCL runs one rank a server."""
    many, found = s.servers > 1, []
    if s.what == "all_reduce" and s.switched and s.generation > 1 and s.local > 2 - many:
        part = catalog.value(
            "nccl_model", "nvls", "factor", name=f"NVLS efficiency {_GENERATIONS[s.generation]}"
        )
        found = [
            Plan(
                "NVLSTree" if many else "NVLS",
                "Simple",
                0.0,
                1,
                _latency("NVLINK", "NVLS", "Simple"),
                0,
                2 * _logs(s) * _latency("NET", "NVLSTree", "Simple"),
                1 / (s.own * _NVLS_CHANNELS * part),
                min(s.servers - 1, 2) / s.node if many else 0.0,
                loop=min(s.local, _NVLS_HEADS)
                * (16 if s.generation == _HOPPER else 24)
                * _NVLS_CHUNK,
            )
        ]
    if s.what == "all_reduce" and many:  # S up and S down for each server
        network = _latency("NET", "CollNetDirect", "Simple") + 2 * (s.local - 1) * _ARITY
        found += [
            Plan(
                "CollNet",
                "Simple",
                0.0,
                2 * (s.local > 1),
                _latency(_inside(s), "Tree", "Simple"),
                0,
                network,
                2 * (s.local - 1) / s.local / s.own,
                1 / s.node,
            )
        ]
    if s.local == 1 and many and s.what in ("all_gather", "reduce_scatter"):
        network = _logs(s) * _latency("NET", "Ring", "Simple") / _PAT_NET + s.ranks * _PAT_RANK
        found += [
            Plan(
                "PAT",
                "Simple",
                _latency("base", "PAT", "Simple"),
                0,
                0.0,
                0,
                network,
                0.0,
                bus_factor(s.what, s.ranks) / (s.node * _PAT_RATE),
            )
        ]
    return found


def _peers(s: System) -> Plan:
    """Return one message to each peer, or to the next rank: out of the server through a GPU's part of the NICs."""
    outside, inside, parts, nic = s.ranks - s.local, s.local - 1, s.ranks, s.node / s.local
    if s.what == "send_recv":
        outside, inside, parts, nic = min(outside, 1), min(inside, 1), 1, max(s.nic, nic)
    return Plan(
        "P2P",
        "Simple",
        _latency("base", "Ring", "Simple"),
        min(inside, 1),
        _latency(_inside(s), "Ring", "Simple"),
        0,
        outside * _latency("NET", "Ring", "LL"),
        inside / parts / s.own,
        outside / parts / nic if outside else 0.0,
        peers=outside,
    )
