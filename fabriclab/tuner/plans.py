"""Algorithms x protocols that NCCL weighs for a collective on a system, each with the parts of its cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from fabriclab import catalog
from fabriclab.core.result import bus_factor
from fabriclab.tuner.system import System

PROTOCOLS: Final = ("LL", "LL128", "Simple")
EAGER: Final = 2**14  # B to one peer; source: NCCL-tune-old, NCCL_P2P_LL_THRESHOLD
_P2P: Final = ("all_to_all", "send_recv", "gather", "scatter")
_GENERATIONS: Final = ("Volta", "Ampere", "Hopper", "Blackwell")
_SCALES: Final = ("1 server", "2 servers", "more servers")
# source: NCCL-tune-old for all factors below: parts of a channel's rate, and latencies
_TREE: Final = 0.92
_TREE_LL: Final = 1 / 3.8
_TREE_LL128: Final = (7 / 9, 120 / 128)  # in a server, between servers
_LL_BETWEEN: Final = 1 / 4
_LL_HOP: Final = 1.8  # of a hop in a server where a tree also leaves it
_PLATEAU: Final = 1.4
_ARITY: Final = 0.4e-6  # s for each GPU of a server that CollNet gathers from
_PAT_RATE, _PAT_NET, _PAT_RANK = 0.75, 3.5, 2.8e-6
_POST: Final = (2e-6, 1e-6)  # AMD and other hosts; the first taken up to Ampere, whose servers are AMD's for the most
_NVLS_CHANNELS: Final = 8 * 40 / (18 * 20.6)  # source: NCCL-tune-new, NCCL-topo: its channels in parts of the links'


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
    plateau : float
        What NCCL multiplies the latency with when it chooses.
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
    plateau: float = 1.0

    def expected(self, system: System, size: float) -> float:
        """Return the time [s] by which NCCL chooses."""
        waits = self.steps * max(self.hop, self.posts * post(system)) + self.network
        per_byte = max(self.own, self.nic, self.copy) / self.tree_part(size)
        return (self.start + waits) * self.plateau + size * per_byte

    def tree_part(self, size: float) -> float:
        """Return the part of its rate that a tree reaches at a size."""
        by_size = _tree_parts(self.protocol) if self.algorithm == "Tree" else ()
        power = max(int(size), 1).bit_length() - 7  # of two, above 64 B
        return by_size[power] if 0 <= power < len(by_size) else 1.0


def post(system: System) -> float:
    """Return the time [s] to post one request to a NIC."""
    return _POST[system.generation > 1] if system.servers > 1 else 0.0


@cache
def plans(system: System) -> tuple[Plan, ...]:
    """Return what NCCL weighs on a system; what a run forced is all there is."""
    if system.what in _P2P:
        return (_peers(system),)
    long = [p for p in PROTOCOLS if p != "LL128" or system.long_lines]
    found = [_ring(system, p) for p in long]
    if system.what == "all_reduce":
        found += [_tree(system, p) for p in long] + _in_switches(system)
        found += [_collnet(system)] if system.servers > 1 and "collnet" in system.algo.lower() else []
    elif system.local == 1 and system.what in ("all_gather", "reduce_scatter"):
        found.append(_pat(system))
    forced = [p for p in found if p.algorithm.lower() in system.algo.lower().split()]
    return tuple(forced or found)


@cache
def _latency(link: str, algorithm: str, protocol: str) -> float:
    name = f"baseLat {algorithm}" if link == "base" else f"hwLat {link} {algorithm}"
    return catalog.value("nccl_model", "base" if link == "base" else "hw", f"latency_{protocol}", name=name)


@cache
def _tree_parts(protocol: str) -> tuple[float, ...]:
    row = catalog.nccl_model["treefit"].spec("bandwidth_part_by_size", name=f"treeCorrectionFactor {protocol}")
    return tuple(map(float, str(row.value).split()))


def _limit(system: System, part: str, attribute: str, newest: int) -> float:
    name = f"{_GENERATIONS[min(system.generation, newest)]} {_SCALES[min(system.servers, 3) - 1]}"
    return catalog.value("nccl_model", part, attribute, name=name)


def _logs(servers: int) -> int:
    return servers.bit_length() - 1


def _ring(s: System, protocol: str) -> Plan:
    many, twice = s.servers > 1, 1 + (s.what == "all_reduce")
    part = {"LL": _LL_BETWEEN if many else catalog.value("nccl_model", "ll", "factor"),
            "LL128": catalog.value("nccl_model", "ll128", "factor"), "Simple": 1.0}[protocol]  # fmt: skip
    factor, out = bus_factor(s.what, s.ranks), twice * (s.servers - 1)
    copies = factor / _limit(s, "llmax", "bandwidth_LL_max", 1) if protocol == "LL" else 0.0
    return Plan(
        "Ring", protocol, _latency("base", "Ring", protocol), twice * (s.ranks - 1) - out,
        _latency(s.link, "Ring", protocol), many * (3 if protocol == "Simple" else 1),
        out * _latency("NET", "Ring", protocol), factor / (s.ring * part),
        factor / (s.node * part) if many else 0.0, copies,
        plateau=_PLATEAU if many and twice == 2 and protocol == "Simple" else 1.0,
    )  # fmt: skip


def _tree(s: System, protocol: str) -> Plan:
    """Return a double tree over servers with a chain in each: a byte goes up and down once."""
    many = s.servers > 1
    part = {"LL": _TREE_LL, "LL128": _TREE_LL128[many], "Simple": 1.0}[protocol]
    nic = 0.0
    if many:  # a server of two sends up or down; of more, both ways at once through the same NICs
        channel = min(_TREE * s.nic * (2 if s.servers == 2 else 1), _limit(s, "treemax", "bandwidth_per_channel_max", 2))
        nic = 2 / (s.nics * channel * part)
    copies = 1 / _limit(s, "llmax", "bandwidth_LL_max", 1) if protocol == "LL" else 0.0
    hop = _latency(s.link, "Tree", protocol) * (_LL_HOP if many and protocol == "LL" else 1.0)
    return Plan(
        "Tree", protocol, _latency("base", "Tree", protocol), 2 * (s.local - 1), hop, 0,
        2 * _logs(s.servers) * _latency("NET", "Tree", protocol), 2 / (s.own * _TREE * part) if s.local > 1 else 0.0,
        nic, copies,
    )  # fmt: skip


def _in_switches(s: System) -> list[Plan]:
    """Return NVLS in one domain, NVLSTree between several: NVSwitches add what their GPUs send."""
    if not s.switched or s.generation < 2 or s.local < 2 + (s.servers == 1):
        return []
    part = catalog.value("nccl_model", "nvls", "factor", name=f"NVLS efficiency {_GENERATIONS[s.generation]}")
    own, hop = 1 / (s.own * _NVLS_CHANNELS * part), _latency("NVLINK", "NVLS", "Simple")
    if s.servers == 1:
        return [Plan("NVLS", "Simple", 0.0, 1, hop, 0, 0.0, own)]
    network = 2 * _logs(s.servers) * _latency("NET", "NVLSTree", "Simple")
    return [Plan("NVLSTree", "Simple", 0.0, 1, hop, 0, network, own, (1 if s.servers == 2 else 2) / s.node)]


def _collnet(s: System) -> Plan:
    """Return reduction in the switches between servers, as SHARP does it: S up and S down for each server."""
    hop, inside = _latency(s.link, "Tree", "Simple"), s.local - 1
    network = _latency("NET", "CollNetDirect", "Simple") + 2 * inside * _ARITY
    own = 2 * inside / s.local / s.own
    return Plan("CollNet", "Simple", 0.0, 2 * bool(inside), hop, 0, network, own, 1 / s.node)


def _pat(s: System) -> Plan:
    """Return parallel aggregated trees, of which NCCL runs one rank for each server."""
    network = _logs(s.servers) * _latency("NET", "Ring", "Simple") / _PAT_NET + s.ranks * _PAT_RANK
    return Plan("PAT", "Simple", _latency("base", "PAT", "Simple"), 0, 0.0, 0, network, 0.0,
                bus_factor(s.what, s.ranks) / (s.node * _PAT_RATE))  # fmt: skip


def _peers(s: System) -> Plan:
    """Return one message to each peer, or to the next rank: blocks for other servers through a GPU's part of the NICs."""
    outside, inside, size = s.ranks - s.local, s.local - 1, s.ranks
    gpu_nic = s.gpu_nic
    if s.what == "send_recv":
        outside, inside, size = min(outside, 1), min(inside, 1), 1
        gpu_nic = max(s.nic, s.gpu_nic)
    return Plan(
        "P2P", "Simple", _latency("base", "Ring", "Simple"), 1, bool(inside) * _latency(s.link, "Ring", "Simple"), 0,
        outside * _latency("NET", "Ring", "LL"), inside / size / s.own, outside / size / gpu_nic if outside else 0.0,
        peers=outside,
    )  # fmt: skip
