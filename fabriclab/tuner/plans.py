"""Pairs of algorithm and protocol that NCCL considers for a collective on a system, with the parts of their cost.

LL has the fractions and limits of 2024, close to the versions that most sweeps ran (2.18 to 2.22); in 2026 the fraction
is 1/2 everywhere. Where each server has one rank, a choice follows the rule of NCCL since 2.23: see `Plan.exposed`.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from fabriclab import catalog
from fabriclab.core import bus_factor
from fabriclab.tuner.system import AMPERE, HOPPER, P2P, VOLTA, System

PROTOCOLS = ("LL", "LL128", "Simple")
_CHAINS = ("broadcast", "reduce")  # by a ring, one hop after another
EAGER = 2**14  # B to one peer; source: NCCL-tune-old, NCCL_P2P_LL_THRESHOLD
LL_CHUNK = 2**15  # B for each NIC, which has two channels; source: NCCL-tune-old
_GENERATIONS = ("Volta", "Ampere", "Hopper", "Blackwell")
_SCALES = ("1 server", "2 servers", "more servers")
_LINKS = {"pcie": "PCI", "shm": "PCI"}

# Fractions of a channel's rate that a protocol leaves for the data.
_TREE = 0.92  # source: NCCL-tune-old
_TREE_LL = 1 / 3.8  # source: NCCL-tune-old
_TREE_LL128_INSIDE = 7 / 9  # source: NCCL-tune-old
_TREE_LL128_OUTSIDE = 120 / 128  # between servers; source: NCCL-tune-old
_LL_COPY = 1 / 3  # source: NCCL-tune-2024
_LL_REDUCE = 1 / 4  # also for every collective between servers; source: NCCL-tune-2024

# Data in one line of LL, beside 8 B of flags, and in one message until all channels are in use: a channel has up to
# 512 threads of 8 B each.
LL_LINE = 8  # B; source: NCCL-enqueue
_LL_MESSAGE = 512 * 8  # B; source: NCCL-enqueue
# Chunk of a tree by Simple in each channel: one of eight steps of a buffer of 4 MiB, halved while the data has fewer
# chunks than so many for each level of the tree. A limit is the chunk that is not halved any more.
_CHUNK = 2**22 / 8  # B; source: NCCL-enqueue
_CHUNK_LIMITS = ((2**17, 8), (2**16, 4), (2**15, 1))  # B, chunks a level; source: NCCL-enqueue
_PLATEAU_VOLTA = 1.9  # source: NCCL-tune-old
_PLATEAU_LATER = 1.4  # source: NCCL-tune-old
_PLATEAU_FROM = 64  # B for each rank and channel; source: NCCL-tune-old
_CHANNELS_PER_NIC = 2  # source: NCCL-tune-old
_SIMPLE_POSTS = 3  # requests to a NIC in each step
_ARITY = 0.4e-6  # s for each GPU of a server that CollNet gathers from; source: NCCL-tune-old
_PAT_PART = 0.75  # part of the rate of the NICs; source: NCCL-tune-old
_PAT_NET = 3.5  # by which the latency between servers is divided; source: NCCL-tune-old
_PAT_RANK = 2.8e-6  # s for each rank; source: NCCL-tune-old
_POST_INTEL = 1e-6  # s, also for other hosts; source: NCCL-tune-old
_POST_AMD = 2e-6  # s; source: NCCL-tune-old

_NVLS_HEADS = 32  # source: NCCL-tune-old
_NVLS_CHUNK = 2**17  # B; source: NCCL-tune-old
_NVLS_CHANNELS_HOPPER = 16  # source: NCCL-tune-old
_NVLS_CHANNELS_BLACKWELL = 24  # source: NCCL-tune-old
# Rate of the channels of NVLS as a fraction of the rate of the links.
# source: NCCL-tune-new, NCCL-topo
_NVLS_RATE = 8 * 40 / (18 * 20.6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One algorithm with one protocol: the constants from which its time for a message size follows.

    Parameters
    ----------
    algorithm, protocol : str
        Names as in NCCL; ``P2P`` if each rank sends to each other.
    start : float
        Start-up time. [s]
    steps, hop : int, float
        Number of steps inside a server, and the time of each. [s]
    posts : int
        Requests to a NIC for which each of these steps waits.
    network : float
        Latencies between servers, in total. [s]
    own, nic, copy : float
        Time per byte on a GPU's own links, on the NICs, and in the protocol itself. [s/B]
    peers : int
        Peers outside the server to which a rank posts, one after another.
    forwards : int
        How often an all-reduce with LL passes a whole chunk on to another server.
    messages : int
        Messages between servers that follow one another by LL, each of which a proxy reads line by line.
    parts : int
        Blocks into which the data of such a message is cut: the ranks of a ring, 1 for a tree.
    loop : float
        Bytes that NVLS has in transit: switches add them while they send out the previous ones. [B]
    levels : int
        Levels of a tree: servers that follow one another on the way up, and hops of the chain in each server.
    outside : int
        Hops of a tree from server to server, up and down again.
    channels : int
        Channels, which divide the data; 0 where NCCL's tables give no number.
    plateau : float
        Factor by which NCCL multiplies the latency when it chooses, from a certain size on.
    chain : float
        Latency that NCCL assumes for all hops of a broadcast or reduce when it chooses. [s]
    exposed : float
        What NCCL adds to the latencies between servers when it chooses, if each server has one rank: it takes those of
        a tree then. Not in the time itself: ten such servers were as fast as with a ring's own latency. [s]
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
    messages: int = 0
    parts: int = 1
    loop: float = 0.0
    levels: int = 0
    outside: int = 0
    channels: int = 0
    plateau: float = 1.0
    chain: float = 0.0
    exposed: float = 0.0

    def expected(self, system: System, size: float) -> float:
        """Return the time [s] that NCCL expects of this plan when it chooses."""
        hop = max(self.hop, self.posts * post(system))
        latency = self.start + (self.chain or self.steps * hop + self.network + self.exposed)
        channels = _CHANNELS_PER_NIC * system.nics
        if size >= _PLATEAU_FROM * channels * system.ranks:
            latency *= self.plateau
        per_byte = max(self.own, self.nic, self.copy) / self.tree_part(size)
        return latency + size * per_byte

    def lines(self, size: float) -> float:
        """Return the lines of LL that proxies read one after another before the last rank has its first data.

        A proxy sends a message of LL only when it has found every flag of it in host memory.
        """
        data = min(size / self.parts, _LL_MESSAGE)
        return self.messages * data / LL_LINE

    def filling(self, size: float) -> float:
        """Return the bytes that a tree by Simple has under way in its first chunks, one chunk after another [B].

        A level hands a chunk on only when it has all of it, so the last rank waits for one chunk on each hop between
        servers before the tree runs at its rate.
        """
        if self.algorithm != "Tree" or self.protocol != "Simple" or not self.outside:
            return 0.0
        chunk = _CHUNK
        for limit, chunks in _CHUNK_LIMITS:
            while size / (self.channels * chunk) < self.levels * chunks and chunk > limit:
                chunk /= 2
        return self.outside * min(size, self.channels * chunk)

    def tree_part(self, size: float) -> float:
        """Return the fraction of its rate that a tree reaches at a size."""
        if self.algorithm != "Tree":
            return 1.0
        by_size = _tree_parts(self.protocol)
        power = max(int(size), 1).bit_length() - 7  # of two, above 64 B
        return by_size[power] if 0 <= power < len(by_size) else 1.0


def _amd(system: System) -> bool:
    """Return whether the hosts have AMD CPUs, which is assumed for AMD GPUs and for Ampere."""
    return system.kind == "xgmi" or system.generation == AMPERE


def post(system: System) -> float:
    """Return the time [s] to post one request to a NIC."""
    if system.servers == 1:
        return 0.0
    return _POST_AMD if _amd(system) else _POST_INTEL


@cache
def plans(system: System) -> tuple[Plan, ...]:
    """Return the plans that NCCL considers: the one that the run forced, if possible, otherwise all but CollNet."""
    if system.what in P2P:
        return (_peers(system),)

    protocols = [p for p in PROTOCOLS if p != "LL128" or system.long_lines]
    candidates = [_ring(system, protocol) for protocol in protocols]
    if system.what == "all_reduce":
        candidates += [_tree(system, protocol) for protocol in protocols]
    candidates += _special(system)

    # `algo` is what the source of a run says: "ring", or "default; aws-ofi-nccl 1.13.0". A run forced an algorithm if
    # its name is one of the words between spaces. So "default (NVLS for all_reduce)" forces none: "(nvls" is no name.
    words = system.algo.lower().split()
    forced = [plan for plan in candidates if plan.algorithm.lower() in words]
    if forced:
        return tuple(forced)

    # CollNet needs switches that reduce; no table says where they do, so it counts only where a run forced it.
    return tuple(plan for plan in candidates if plan.algorithm != "CollNet")


@cache
def _latency(link: str, algorithm: str, protocol: str) -> float:
    """Return a latency of NCCL's tables [s]: of a hop over a link, or of the start if ``link`` is ``base``."""
    if link == "base":
        part = "base"
        name = f"baseLat {algorithm}"
    else:
        part = "hw"
        name = f"hwLat {link} {algorithm}"
    return catalog.value("nccl_model", part, f"latency_{protocol}", name=name)


@cache
def _tree_parts(protocol: str) -> tuple[float, ...]:
    """Return the fractions of its rate that a tree reaches, one for each power of two of the size from 64 B on."""
    row = catalog.nccl_model["treefit"].spec(
        "bandwidth_part_by_size", name=f"treeCorrectionFactor {protocol}"
    )
    return tuple(map(float, str(row.value).split()))


def _limit(system: System, part: str, attribute: str) -> float:
    """Return a limit of NCCL's tables [B/s]: ``treemax`` for a channel of a tree, ``llmax`` for all of LL.

    Rows are named after GPUs, but between servers the CPU selects the row of LL: Ampere for AMD, Volta for others.
    """
    if part == "treemax":
        row = min(system.generation, HOPPER)  # the last that this table has
    elif system.servers == 1:
        row = min(system.generation, AMPERE)  # the last that this table has
    else:
        row = AMPERE if _amd(system) else VOLTA
    scale = _SCALES[min(system.servers, len(_SCALES)) - 1]
    return catalog.value("nccl_model", part, attribute, name=f"{_GENERATIONS[row]} {scale}")


def _inside(system: System) -> str:
    """Return the name of the links inside a server in NCCL's tables."""
    return _LINKS.get(system.kind, "NVLINK")


def _tree_depth(system: System) -> int:
    """Return the hops from the root to a leaf of a tree over the servers: log2 of their number, rounded down."""
    return system.servers.bit_length() - 1


class StepCounts(NamedTuple):
    """Number of steps of an algorithm, one after the other, by where they take place."""

    inside: int
    outside: int


# Time of n bytes through a ring, by which NCCL chooses:
#   start + steps.inside * max(hop, posts) + steps.outside * network + n * factor / (rate * part)
# factor: that of bus bandwidth, such as 2(P-1)/P; rate: of GPU links, NICs or LL, the slowest.
# source: NVIDIA/nccl, src/graph/tuning.cc
def _ring(system: System, protocol: str) -> Plan:
    """Return the plan of a ring over all ranks, around which an all-reduce goes twice."""
    all_reduce = system.what == "all_reduce"
    between_servers = system.servers > 1
    steps = _ring_steps(system)
    part = _ring_part(system, protocol)
    factor = bus_factor(system.what, system.ranks)

    posts = 0
    nic = 0.0  # [s/B]
    if between_servers:
        posts = _SIMPLE_POSTS if protocol == "Simple" else 1
        nic = factor / (system.node * part)
    copy = 0.0  # [s/B]
    if protocol == "LL":
        copy = factor / _limit(system, "llmax", "bandwidth_LL_max")
    forwards = 0
    if protocol == "LL" and between_servers and all_reduce:
        forwards = 2
    messages = steps.outside if protocol == "LL" else 0
    cut = system.what in ("all_reduce", "all_gather", "reduce_scatter")
    plateau = 1.0
    if protocol == "Simple" and between_servers and all_reduce:
        plateau = _PLATEAU_VOLTA if system.generation == VOLTA else _PLATEAU_LATER

    return Plan(
        algorithm="Ring",
        protocol=protocol,
        start=_latency("base", "Ring", protocol),
        steps=steps.inside,
        hop=_latency(_inside(system), "Ring", protocol),
        posts=posts,
        network=steps.outside * _latency("NET", "Ring", protocol),
        own=factor / (system.ring * part),
        nic=nic,
        copy=copy,
        forwards=forwards,
        messages=messages,
        parts=system.ranks if cut else 1,
        channels=_CHANNELS_PER_NIC * system.nics if between_servers else 0,
        plateau=plateau,
        chain=_chain_latency(system, protocol),
        exposed=steps.outside * _exposed(system, "Ring", protocol),
    )


def _exposed(system: System, algorithm: str, protocol: str) -> float:
    """Return what NCCL adds to one latency between servers when it chooses [s]: that of a tree, where it is exposed.

    Where each server has one rank, nothing inside a server can hide the network.
    source: NCCL-tune, since NCCL 2.23.4
    """
    if system.local > 1 or system.what in _CHAINS:
        return 0.0
    return _latency("NET", "Tree", protocol) - _latency("NET", algorithm, protocol)


def _ring_steps(system: System) -> StepCounts:
    """Return the steps of a ring: P - 1 per time around; one fewer than the number of servers go outside a server."""
    rounds = 2 if system.what == "all_reduce" else 1
    outside = rounds * (system.servers - 1)
    inside = rounds * (system.ranks - 1) - outside
    return StepCounts(inside=inside, outside=outside)


def _ring_part(system: System, protocol: str) -> float:
    """Return the fraction of a channel's rate that a protocol leaves for the data of a ring."""
    if protocol == "Simple":
        return 1.0
    if protocol == "LL128":
        return catalog.value("nccl_model", "ll128", "factor")
    if system.servers > 1 or system.what in ("all_reduce", "reduce"):
        return _LL_REDUCE
    return _LL_COPY


def _chain_latency(system: System, protocol: str) -> float:
    """Return the latency [s] that NCCL assumes for all hops of a broadcast or reduce; 0 for other collectives."""
    if system.what not in _CHAINS:
        return 0.0
    hops = 1 if system.switched else system.ranks  # with switches all channels are alike
    link = "NET" if system.servers > 1 else _inside(system)
    algorithm = "Tree" if protocol == "Simple" and hops > 1 else "Ring"
    return hops * _latency(link, algorithm, protocol)


def _tree(system: System, protocol: str) -> Plan:
    """Return the plan of a double tree over servers with a chain in each; a byte goes up and down once."""
    between_servers = system.servers > 1
    depth = _tree_depth(system)
    part = _tree_part_of_rate(system, protocol)

    own = 0.0  # [s/B]
    if system.local > 1:
        own = 2 / (system.own * _TREE * part)
    nic = 0.0  # [s/B]
    if between_servers:
        # With two servers each sends only up or only down; with more, both at once through the same NICs.
        directions = 2 if system.servers == 2 else 1
        limit = _limit(system, "treemax", "bandwidth_per_channel_max")
        nic = 2 / (system.nics * min(_TREE * system.nic * directions, limit) * part)
    copy = 0.0  # [s/B]
    forwards = 0
    if protocol == "LL":
        copy = 1 / _limit(system, "llmax", "bandwidth_LL_max")
        forwards = 2 * depth

    return Plan(
        algorithm="Tree",
        protocol=protocol,
        start=_latency("base", "Tree", protocol),
        steps=2 * (system.local - 1),
        hop=_latency(_inside(system), "Tree", protocol),
        posts=0,
        network=2 * depth * _latency("NET", "Tree", protocol),
        own=own,
        nic=nic,
        copy=copy,
        forwards=forwards,
        messages=2 * depth if protocol == "LL" else 0,
        levels=system.local - 1 + depth,
        outside=2 * depth,
        channels=_CHANNELS_PER_NIC * system.nics if between_servers else 0,
    )


def _tree_part_of_rate(system: System, protocol: str) -> float:
    """Return the fraction of a channel's rate that a protocol leaves for the data of a tree."""
    if protocol == "LL":
        return _TREE_LL
    if protocol == "LL128":
        return _TREE_LL128_OUTSIDE if system.servers > 1 else _TREE_LL128_INSIDE
    return 1.0


def _special(system: System) -> list[Plan]:
    """Return the plans that NCCL considers besides rings and trees: NVLS, CollNet and PAT, where they can run."""
    between_servers = system.servers > 1
    plans = []
    if system.what == "all_reduce":
        fewest = 2 if between_servers else 3  # ranks of a server
        if system.switched and system.generation >= HOPPER and system.local >= fewest:
            plans.append(_nvls(system))
        if between_servers:
            plans.append(_collnet(system))
    if system.what in ("all_gather", "reduce_scatter") and system.local == 1 and between_servers:
        plans.append(_pat(system))
    return plans


def _nvls(system: System) -> Plan:
    """Return the plan of NVLS in one scale-up domain, or of NVLSTree between several."""
    between_servers = system.servers > 1
    generation = _GENERATIONS[system.generation]
    efficiency = catalog.value("nccl_model", "nvls", "factor", name=f"NVLS efficiency {generation}")
    channels = _NVLS_CHANNELS_BLACKWELL
    if system.generation == HOPPER:
        channels = _NVLS_CHANNELS_HOPPER
    heads = min(system.local, _NVLS_HEADS)

    hops = 2 * _tree_depth(system)  # between servers, up the tree and down again
    nic = 0.0  # [s/B]
    if between_servers:
        neighbours = min(system.servers - 1, 2)
        nic = neighbours / system.node
    return Plan(
        algorithm="NVLSTree" if between_servers else "NVLS",
        protocol="Simple",
        start=0.0,
        steps=1,
        hop=_latency("NVLINK", "NVLS", "Simple"),
        posts=0,
        network=hops * _latency("NET", "NVLSTree", "Simple"),
        own=1 / (system.own * _NVLS_RATE * efficiency),
        nic=nic,
        loop=heads * channels * _NVLS_CHUNK,
        channels=channels,
    )


def _collnet(system: System) -> Plan:
    """Return the plan of CollNet, with which a server sends S bytes up and receives S bytes."""
    others = system.local - 1
    return Plan(
        algorithm="CollNet",
        protocol="Simple",
        start=0.0,
        steps=2 if others > 0 else 0,
        hop=_latency(_inside(system), "Tree", "Simple"),
        posts=0,
        network=_latency("NET", "CollNetDirect", "Simple") + 2 * others * _ARITY,
        own=2 * others / system.local / system.own,
        nic=1 / system.node,
        exposed=_exposed(system, "CollNetDirect", "Simple"),
    )


def _pat(system: System) -> Plan:
    """Return the plan of PAT, which NCCL uses with one rank per server."""
    hops = _tree_depth(system) * _latency("NET", "Ring", "Simple") / _PAT_NET
    return Plan(
        algorithm="PAT",
        protocol="Simple",
        start=_latency("base", "PAT", "Simple"),
        steps=0,
        hop=0.0,
        posts=0,
        network=hops + system.ranks * _PAT_RANK,
        own=0.0,
        nic=bus_factor(system.what, system.ranks) / (system.node * _PAT_PART),
    )


def _peers(system: System) -> Plan:
    """Return the plan of one message to each peer, or to the next rank, through a GPU's share of the NICs."""
    peers = StepCounts(inside=system.local - 1, outside=system.ranks - system.local)
    parts = system.ranks  # of the message
    rate = system.node / system.local  # of one rank [B/s]
    if system.what == "send_recv":
        peers = StepCounts(inside=min(peers.inside, 1), outside=min(peers.outside, 1))
        parts = 1
        rate = max(system.nic, rate)

    nic = 0.0  # [s/B]
    if peers.outside:
        nic = peers.outside / parts / rate
    return Plan(
        algorithm="P2P",
        protocol="Simple",
        start=_latency("base", "Ring", "Simple"),
        steps=min(peers.inside, 1),
        hop=_latency(_inside(system), "Ring", "Simple"),
        posts=0,
        network=peers.outside * _latency("NET", "Ring", "LL"),
        own=peers.inside / parts / system.own,
        nic=nic,
        peers=peers.outside,
    )
