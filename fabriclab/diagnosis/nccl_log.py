"""What NCCL says of itself with ``NCCL_DEBUG=INFO``: versions, settings, network, channels, GPUDirect and warnings.

RCCL and other relatives print the same messages. Versions from 2.4 to 2.30 word some of them differently; what is not
understood is left alone, so a log that is torn or cut off gives less, and nothing wrong.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from fabriclab.diagnosis.messages import Message
from fabriclab.importers.lines import Line, Source

__all__ = [
    "Call",
    "Channel",
    "Device",
    "Distance",
    "NcclLog",
    "Setting",
    "bare_versions",
    "read_nccl_log",
]

_SETTING = re.compile(r"(NCCL_\w+|RCCL_\w+|MCCL_\w+) set (?:by environment )?to (.*?)\.?$")
_VERSION = re.compile(r"[NRM]CCL version (\S+)")
_BARE_VERSION = re.compile(r"\s*(?:\[[^\]]*\]\s*)?[NRM]CCL version (\d\S*)\s*$")
# 2.3 and earlier: NET : Using interface eth0:10.0.0.1<0>, the first of which is used to find each other.
_BOOTSTRAP = re.compile(
    r"(?:Bootstrap ?: Using|NET : Using interface) (?:\[\d+\])?(\S+?)(?:\[\d+\])?:(\S+?)<\d+>"
)
_NETWORK = re.compile(r"Using network (\S.*?)\s*$")
_DEVICES = re.compile(r"NET/IB ?: (?:Using (.*)|(\[\d+\] .*))")  # the latter up to 2.3
_DEVICE = re.compile(r"\[(\d+)\] ?([\w.\-]+?):(\d+)/(IB|RoCE|uverbs\S*)")
_COMM = re.compile(r"\brank (\d{1,6}) n[rR]anks (\d{1,6})\b")
_SHAPE = re.compile(r"\brank (\d{1,6}) nRanks (\d{1,6}) nNodes (\d{1,6}) localRanks (\d{1,6})\b")
# Up to 2.7 a channel was called a ring, and up to 2.4 the ends between servers had no GPU in brackets.
_CHANNEL = re.compile(
    r"(?:Channel|Ring) (\d+)(?:/\d+)? ?: (\d+)(?:\[[0-9a-f]+\])? -> (\d+)(?:\[[0-9a-f]+\])? "
    r"(?:\[(send|receive)\] )?via (\S.*)$"
)
# With NCCL_DEBUG_SUBSYS=COLL the library prints each call.
_CALL = re.compile(
    r"(\w+): opCount ([0-9a-f]{1,12}) sendbuff \S+ recvbuff \S+ count (\d{1,18}) datatype (\d{1,3}) op \d+ root (\d+) "
    r"comm (0x[0-9a-f]+)"
)
_COMM_OF_RANK = re.compile(
    r"comm (0x[0-9a-f]+) rank (\d{1,6}) n[rR]anks (\d{1,6})\b(?:.*?\bcommId (0x[0-9a-f]+))?"
)
_OF_RCCL = " comm 0x"  # what RCCL puts behind the way of a channel
_VIA_NET = re.compile(r"NET/(.+?)/(\d+)(?:\(\d+\))?(/GDRDMA)?(?:\(PCI\))?(?:/Shared)?$")
_HCA_GDR = re.compile(
    r"NET/[^:]{1,40}: GPU Direct RDMA (Enabled|Disabled) for HCA (\d+) '?([\w.\-]+)'?"
)
_GPU_GDR = re.compile(
    r"GPU Direct RDMA (Enabled|Disabled) for GPU (\w+)(?:\[\w+\])? / HCA (\w+) \(distance (\d+) (<=|<|>=|>) (\d+)\)"
)
_NO_MODULE = re.compile(r"GPU Direct RDMA Disabled for GPU \S+ / HCA (\w+) \(no module\)")
_CHANNELS = re.compile(r"(\d{1,6}) (coll channels|p2p channels per peer)")
_PLANNED = re.compile(r"Channel 00/(\d{1,4}) ?:\s+\d")
_AFFINITY = re.compile(
    r"Affinity for GPU (\d+) is (.*?)\. ?\(GPU affinity = (.*?) ; CPU affinity = (.*?)\)"
)


# Cores as a mask in groups of 32 (2.4 to 2.27), or as ranges (later).
_CORES = re.compile(
    r"Setting affinity for GPU (\d+) to ([0-9a-f]{1,8}(?:,[0-9a-f]{8})*|[\d,\-]+)\s*$"
)
_PLUGIN_NICS = re.compile(
    r"[Ss]elected [Pp]rovider is (\S+?)(?:, fabric is \S+)? \(found (\d{1,4}) nics\)"
)


class Setting(NamedTuple):
    """An environment variable that NCCL obeyed."""

    name: str
    value: str
    line: Line


class Device(NamedTuple):
    """An RDMA device of a host, as NCCL numbers them."""

    number: int
    name: str
    port: int
    layer: str  # IB or RoCE


class Distance(NamedTuple):
    """Whether GPUDirect RDMA is used between a GPU and a NIC, by how far apart they are."""

    enabled: bool
    gpu: str
    nic: str
    distance: int
    limit: int
    line: Line


class Channel(NamedTuple):
    """A connection of a channel between two ranks."""

    number: int
    source: int
    target: int
    direction: str  # send, receive, or empty inside a server
    via: str  # as printed
    network: str  # such as IB or Socket; empty inside a server
    device: int  # number of the NIC, -1 inside a server
    gdr: bool
    host: str
    line: Line

    @property
    def outside(self) -> bool:
        """Whether it leaves the server."""
        return bool(self.network)


class Call(NamedTuple):
    """A call of a collective as a process recorded it; the communicator is named by its address in that process."""

    kind: str  # such as AllReduce
    number: int
    elements: int
    datatype: int  # number of NCCL's type
    root: int
    communicator: tuple[str, int, str]  # host, process, address
    line: Line


class Member(NamedTuple):
    """The process of a rank."""

    host: str
    pid: int


class Affinity(NamedTuple):
    """Processor cores that NCCL lets the process of a GPU use, those near the GPU, and those the job was given."""

    gpu: int
    chosen: str
    near: str
    given: str
    host: str
    line: Line


class Cores(NamedTuple):
    """How many processor cores the process of a GPU may use, and which, as printed."""

    gpu: int
    number: int
    which: str
    host: str
    line: Line


@dataclass
class NcclLog:
    """What the messages of all ranks say. Versions are kept by host, and counts of channels by file.

    Parameters
    ----------
    messages : list of Message
        All messages.
    """

    messages: list[Message] = field(default_factory=list)
    versions: dict[str, dict[str, Line]] = field(default_factory=dict)  # by host, then version
    settings: list[Setting] = field(default_factory=list)
    networks: dict[str, Line] = field(default_factory=dict)
    bootstraps: dict[str, tuple[str, str, Line]] = field(default_factory=dict)  # by host
    devices: dict[str, dict[int, Device]] = field(default_factory=dict)  # by host, then number
    device_lines: dict[str, Line] = field(default_factory=dict)  # by host
    ranks: int = 0
    nodes: int = 0
    local_ranks: int = 0
    channels: list[Channel] = field(default_factory=list)
    gdr_of_nic: list[tuple[bool, str, Line]] = field(default_factory=list)
    distances: list[Distance] = field(default_factory=list)
    channel_counts: dict[tuple[str, str, int], Line] = field(
        default_factory=dict
    )  # file, kind, count
    members: dict[str, dict[tuple[int, int], Member]] = field(default_factory=dict)  # by file, rank
    affinities: list[Affinity] = field(default_factory=list)
    cores: list[Cores] = field(default_factory=list)
    network_of: dict[str, tuple[str, Line]] = field(default_factory=dict)  # by host
    plugin_nics: dict[str, tuple[int, Line]] = field(default_factory=dict)  # by host
    calls: list[Call] = field(default_factory=list)
    # Name (empty in versions that print none), number of ranks and rank, by host, process and address.
    communicators: dict[tuple[str, int, str], tuple[str, int, int]] = field(default_factory=dict)

    @cached_property
    def calls_of_ranks(self) -> list[dict[int, list[Call]]]:
        """The calls of each rank, a dictionary for each communicator of which several ranks record theirs.

        A communicator in which ranks send to each other is left out, because its ranks count different calls; so is one
        that cannot be told from another of as many ranks.
        """
        of_process: dict[tuple[str, int, str], list[Call]] = {}
        for call in self.calls:
            of_process.setdefault(call.communicator, []).append(call)
        groups: dict[tuple[str, int], dict[int, list[Call]]] = {}
        unclear = set()
        for key, calls in of_process.items():
            if key not in self.communicators:
                continue
            name, ranks, rank = self.communicators[key]
            group = groups.setdefault((name, ranks), {})
            if rank in group or any(call.kind in ("Send", "Recv") for call in calls):
                unclear.add((name, ranks))
            group[rank] = calls
        return [group for key, group in groups.items() if len(group) > 1 and key not in unclear]

    @cached_property
    def run_of(self) -> dict[str, int]:
        """Number of the run that each file is of; files that say nothing of their ranks are missing.

        Files are of separate runs if a rank of the largest communicator is another process, or another communicator, in
        each: files of hosts or ranks of one run have no rank in common.
        """
        runs: list[dict[tuple[int, int], Member]] = []
        found = {}
        for file, members in self.members.items():
            most = max(ranks for ranks, _ in members)
            largest = {key: member for key, member in members.items() if key[0] == most}
            for number, run in enumerate(runs):
                both = run.keys() & largest.keys()
                same_size = any(ranks == most for ranks, _ in run)
                if same_size and all(run[key] == largest[key] for key in both):
                    run.update(largest)
                    found[file] = number
                    break
            else:
                found[file] = len(runs)
                runs.append(dict(largest))
        return found

    @cached_property
    def hosts(self) -> list[str]:
        """Hosts in the order in which they first speak."""
        return list(dict.fromkeys(message.host for message in self.messages))

    @cached_property
    def several_servers(self) -> bool:
        """Whether more than one server takes part, as far as the log tells."""
        if self.nodes:
            return self.nodes > 1
        return len(self.hosts) > 1 or any(channel.outside for channel in self.channels)

    @cached_property
    def warnings(self) -> list[Message]:
        """Messages of level WARN."""
        return [message for message in self.messages if message.level == "WARN"]

    def setting(self, *names: str) -> Setting | None:
        """Return the first of some variables that was set."""
        for setting in self.settings:
            if setting.name in names:
                return setting
        return None

    @cached_property
    def outside_channels(self) -> list[Channel]:
        """Channels that leave their server."""
        return [channel for channel in self.channels if channel.outside]

    @cached_property
    def inside_channels(self) -> list[Channel]:
        """Channels within a server."""
        return [channel for channel in self.channels if not channel.outside]


def read_nccl_log(messages: Iterable[Message]) -> NcclLog:
    """Return what messages say; those that say nothing known are only kept.

    Parameters
    ----------
    messages : iterable of Message
        From `fabriclab.diagnosis.messages.messages`.
    """
    log = NcclLog(list(messages))
    for message in log.messages:
        text = message.text
        if " via " in text and ("Channel" in text or "Ring " in text):  # most of a long log
            _take_channel(log, message)
            continue
        if "opCount" in text:
            _take_call(log, message)
            continue
        for words, take in _READERS:
            if words in text:
                take(log, message)
    return log


def _take_setting(log: NcclLog, message: Message) -> None:
    found = _SETTING.search(message.text)
    if found:
        log.settings.append(Setting(found[1].replace("MCCL", "NCCL"), found[2], message.line))


def _take_version(log: NcclLog, message: Message) -> None:
    found = _VERSION.search(message.text)
    if found:
        log.versions.setdefault(message.host, {}).setdefault(_release(found[1]), message.line)


def _release(version: str) -> str:
    """Return a version without the one of CUDA that it was built for, which some messages leave out."""
    return version.partition("+")[0].rstrip(".,;)")


def bare_versions(source: Source, said: Sequence[Message]) -> Iterator[tuple[str, str, Line]]:
    """Yield the versions in lines without a speaker, with the host that speaks last before them.

    Parameters
    ----------
    source : Source
        A file or text.
    said : sequence of Message
        Its messages.
    """
    if not said or not source.holds("ccl version"):
        return
    numbers = [message.line.number for message in said]
    for line in source.lines_with("ccl version"):
        found = _BARE_VERSION.match(line.text)
        if found:
            at = bisect.bisect_left(numbers, line.number)
            yield said[max(0, at - 1)].host, _release(found[1]), line


def _take_bootstrap(log: NcclLog, message: Message) -> None:
    found = _BOOTSTRAP.search(message.text)
    if found:
        log.bootstraps.setdefault(message.host, (found[1], found[2], message.line))


def _take_network(log: NcclLog, message: Message) -> None:
    found = _NETWORK.search(message.text)
    if found:
        log.networks.setdefault(found[1], message.line)
        log.network_of.setdefault(message.host, (found[1], message.line))


def _take_devices(log: NcclLog, message: Message) -> None:
    found = _DEVICES.search(message.text)
    if not found:
        return
    of_host = log.devices.setdefault(message.host, {})
    for number, name, port, layer in _DEVICE.findall(found[1] or found[2]):
        of_host.setdefault(int(number), Device(int(number), name, int(port), layer))
    log.device_lines.setdefault(message.host, message.line)


def _take_shape(log: NcclLog, message: Message) -> None:
    shape = _SHAPE.search(message.text)
    if shape:
        log.ranks = max(log.ranks, int(shape[2]))
        log.nodes = max(log.nodes, int(shape[3]))
        log.local_ranks = max(log.local_ranks, int(shape[4]))
        return
    named = _COMM_OF_RANK.search(message.text)
    if named:
        key = (message.host, message.pid, named[1])
        log.communicators.setdefault(key, (named[4] or "", int(named[3]), int(named[2])))
    comm = _COMM.search(message.text)
    if comm:
        log.ranks = max(log.ranks, int(comm[2]))
        of_file = log.members.setdefault(message.line.file, {})
        of_file.setdefault((int(comm[2]), int(comm[1])), Member(message.host, message.pid))


def _take_call(log: NcclLog, message: Message) -> None:
    found = _CALL.search(message.text)
    if found:
        kind, number, elements, datatype, root, address = found.groups()
        communicator = (message.host, message.pid, address)
        call = Call(
            *(kind, int(number, 16), int(elements), int(datatype), int(root)),
            *(communicator, message.line),
        )
        log.calls.append(call)


def _take_channel(log: NcclLog, message: Message) -> None:
    found = _CHANNEL.match(message.text) or _CHANNEL.search(message.text)
    if not found:
        return
    number, source, target, direction, via = found.groups("")
    via = via.partition(_OF_RCCL)[0].rstrip()
    log.channels.append(
        Channel(
            int(number),
            int(source),
            int(target),
            direction,
            via,
            *_way(via),
            message.host,
            message.line,
        )
    )


@lru_cache(maxsize=4096)
def _way(via: str) -> tuple[str, int, bool]:
    """Return network, number of the NIC and use of GPUDirect of a way such as ``NET/IB/0/GDRDMA``."""
    net = _VIA_NET.match(via)
    if net is None:
        return "", -1, False
    return net[1], int(net[2]), bool(net[3])


def _take_gdr(log: NcclLog, message: Message) -> None:
    nic = _HCA_GDR.search(message.text)
    if nic:
        log.gdr_of_nic.append((nic[1] == "Enabled", nic[3], message.line))
    missing = _NO_MODULE.search(message.text)
    if missing:
        log.gdr_of_nic.append((False, missing[1], message.line))
    pair = _GPU_GDR.search(message.text)
    if pair:
        distance = Distance(
            enabled=pair[1] == "Enabled",
            gpu=pair[2],
            nic=pair[3],
            distance=int(pair[4]),
            limit=int(pair[6]),
            line=message.line,
        )
        log.distances.append(distance)


def _take_counts(log: NcclLog, message: Message) -> None:
    for count, kind in _CHANNELS.findall(message.text):
        log.channel_counts.setdefault((message.line.file, kind, int(count)), message.line)


def _take_affinity(log: NcclLog, message: Message) -> None:
    found = _AFFINITY.search(message.text)
    if found:
        log.affinities.append(
            Affinity(int(found[1]), found[2], found[3], found[4], message.host, message.line)
        )


def _take_planned(log: NcclLog, message: Message) -> None:
    """Take the number of channels from a line such as Channel 00/24 : 0 1 2 3."""
    found = _PLANNED.search(message.text)
    if found:
        log.channel_counts.setdefault((message.line.file, "channels", int(found[1])), message.line)


def _take_cores(log: NcclLog, message: Message) -> None:
    found = _CORES.search(message.text)
    if found:
        number = _number_of_cores(found[2])
        log.cores.append(Cores(int(found[1]), number, found[2], message.host, message.line))


def _number_of_cores(which: str) -> int:
    """Return how many cores a mask or a list of ranges names."""
    groups = which.split(",")
    if "-" not in which and all(len(group) == _GROUP for group in groups[1:]):
        return sum(int(group, 16).bit_count() for group in groups)
    number = 0
    for part in groups:
        first, _, last = part.partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            number += max(0, int(last or first) - int(first) + 1)
    return number


def _take_plugin_nics(log: NcclLog, message: Message) -> None:
    found = _PLUGIN_NICS.search(message.text)
    if found:
        log.plugin_nics.setdefault(message.host, (int(found[2]), message.line))


_GROUP = 8  # digits of a group of a mask, after the first
# A message is looked at closely only if it has the words.
_READERS: tuple[tuple[str, Callable[[NcclLog, Message], None]], ...] = (
    ("CCL_", _take_setting),
    ("CCL version", _take_version),
    ("Bootstrap", _take_bootstrap),
    ("NET : Using interface", _take_bootstrap),
    ("Using network", _take_network),
    ("NET/IB", _take_devices),
    ("anks", _take_shape),
    ("GPU Direct RDMA", _take_gdr),
    ("coll channels", _take_counts),
    ("Channel 00/", _take_planned),
    ("Affinity for GPU", _take_affinity),
    ("Setting affinity", _take_cores),
    ("rovider is", _take_plugin_nics),
)
