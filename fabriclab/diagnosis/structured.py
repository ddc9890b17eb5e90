"""Files with a structure of their own: topology XML of NCCL, Slurm's topology.conf, flight recorders.

They are read line by line or tag by tag, so a file that is cut off gives what its beginning says.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fabriclab.diagnosis.host_tools import PcieDevice, Timeout, decimal
from fabriclab.importers.lines import Line, Source

__all__ = [
    "TopologyXml",
    "XmlNet",
    "flight_entries",
    "read_slurm_switches",
    "read_topology_xml",
]

_TAG = re.compile(r"<(/?)(cpu|pci|gpu|nic|net|nvlink)\b([^>]*?)(/?)>")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_SPEED = re.compile(r"([\d.]+)")
_FULL_WIDTH = 16


class XmlNet(NamedTuple):
    """A network device of a topology: name, speed [Mb/s], whether it may use GPUDirect, its CPU, and its line."""

    name: str
    speed: int
    gdr: bool
    cpu: str
    line: Line


class TopologyXml(NamedTuple):
    """What ``NCCL_TOPO_DUMP_FILE`` wrote: PCIe links of GPUs and NICs, network devices, and the CPU of each GPU."""

    devices: tuple[PcieDevice, ...]
    nets: tuple[XmlNet, ...]
    gpus: Mapping[str, str]  # number of the GPU -> CPU


def read_topology_xml(source: Source) -> TopologyXml | None:
    """Return the topology that NCCL wrote as XML, or None if the text holds none.

    Parameters
    ----------
    source : Source
        A file or text.
    """
    devices: list[PcieDevice] = []
    nets: list[XmlNet] = []
    gpus: dict[str, str] = {}
    cpu = ""
    pci: list[tuple[Mapping[str, str], Line]] = []  # from the root down
    found = False
    for line in source.lines:
        for closing, tag, rest, empty in _TAG.findall(line.text):
            found = True
            about = dict(_ATTRIBUTE.findall(rest))
            if tag == "cpu" and not closing:
                cpu = about.get("numaid", "")
            elif tag == "pci" and closing:
                pci = pci[:-1]
            elif tag == "pci" and not empty:
                pci.append((about, line))
            elif tag == "gpu" and not closing:
                gpus[about.get("dev", "")] = cpu
                devices += _links(pci, f"GPU {about.get('dev', '')}")
            elif tag == "net" and not closing:
                speed = _whole(about.get("speed", ""))
                gdr = about.get("gdr", "1") != "0"
                nets.append(XmlNet(about.get("name", ""), speed, gdr, cpu, line))
                devices += _links(pci, about.get("name", ""))
    if not found or not (gpus or nets):
        return None
    return TopologyXml(tuple(devices), tuple(nets), gpus)


def _links(pci: list[tuple[Mapping[str, str], Line]], what: str) -> Iterator[PcieDevice]:
    """Yield the link of the last of some PCIe devices; its capability is not written, so full width is taken."""
    if not pci:
        return
    about, line = pci[-1]
    width = _whole(about.get("link_width", ""))
    speed = _SPEED.match(about.get("link_speed", ""))
    if width and speed:
        value = decimal(speed[1])
        yield PcieDevice(about.get("busid", ""), what, value, _FULL_WIDTH, value, width, line)


def _whole(text: str) -> int:
    """Return a text as a whole number, 0 if it is none."""
    return int(text) if text.isdecimal() and len(text) < 10 else 0


class SecurityGroup(NamedTuple):
    """A security group of AWS: its id, whether it lets its own members in and out, a line of its rules, and these."""

    id: str
    inward: bool
    outward: bool
    line: Line  # of the first rule of a direction that lets none, of the group if both do
    rules: str = ""  # in words, as far as they are printed


_RULE = 40  # lines of a rule, at most
_PEERS = 4  # that are named
_MOST_JSON = 5_000_000  # characters of a text that is read as JSON


def read_security_groups(source: Source) -> list[SecurityGroup]:
    """Return the groups that ``aws ec2 describe-security-groups`` printed as JSON.

    Parameters
    ----------
    source : Source
        A file or text.
    """
    text = source.json or source.text
    if not source.holds("securitygroup") or len(text) > _MOST_JSON:
        return []
    start = text.find("{")
    try:
        told, _ = json.JSONDecoder().raw_decode(text[start:])
    except (ValueError, RecursionError):
        return []
    if not isinstance(told, dict):
        return []
    if isinstance(told.get("SecurityGroupRules"), list):
        return _groups_of_rules(told["SecurityGroupRules"], source)
    groups = told.get("SecurityGroups", [told])
    found = []
    lines_in = list(source.lines_with('"ippermissions"'))
    lines_out = list(source.lines_with('"ippermissionsegress"'))
    number = -1
    for group in groups if isinstance(groups, list) else []:
        if not isinstance(group, dict):
            continue
        number += "IpPermissions" in group
        id = str(group.get("GroupId", ""))
        inward = _lets_itself(group.get("IpPermissions"), id)
        outward = _lets_itself(group.get("IpPermissionsEgress"), id)
        line = next((line for line in source.lines if id and id in line.text), source.lines[0])
        headings = lines_out if inward and not outward else lines_in
        if not (inward and outward) and 0 <= number < len(headings):
            line = _first_rule(source, headings[number])
        rules = f"in: {_in_words(group.get('IpPermissions'))}; out: {_in_words(group.get('IpPermissionsEgress'))}"
        found.append(SecurityGroup(id, inward, outward, line, rules))
    return found


def _first_rule(source: Source, heading: Line) -> Line:
    """Return the line of the protocol of the first rule below a heading; the heading if it has none."""
    at = bisect.bisect_left(source.lines, heading.number, key=lambda each: each.number)
    for line in source.lines[at + 1 : at + 1 + _RULE]:
        if "IpPermissions" in line.text:
            break
        if '"IpProtocol"' in line.text:
            return line
    return heading


def _in_words(rules: Any) -> str:
    """Return the first of some rules in words: protocol, and the addresses or groups that it names."""
    words = []
    for rule in rules if isinstance(rules, list) else []:
        if not isinstance(rule, dict):
            continue
        peers = []
        for key, name in (("IpRanges", "CidrIp"), ("UserIdGroupPairs", "GroupId")):
            of_kind = rule.get(key)
            for each in of_kind if isinstance(of_kind, list) else []:
                if isinstance(each, dict):
                    peers.append(f"{each.get(name, '')!s:.40}")
        protocol = str(rule.get("IpProtocol"))
        kind = "all protocols" if protocol == "-1" else f"{protocol:.10}"
        words.append(f"{kind} ({', '.join(peers[:_PEERS]) or 'no peer'})")
    return ", ".join(words[:_PEERS]) or "nothing"


def _groups_of_rules(rules: list[Any], source: Source) -> list[SecurityGroup]:
    """Return the groups of what ``aws ec2 describe-security-group-rules`` printed."""
    lets: dict[str, set[bool]] = {}  # group -> directions in which it lets itself: True is out
    for rule in rules:
        if not isinstance(rule, dict):
            continue
        id = str(rule.get("GroupId", ""))
        directions = lets.setdefault(id, set())
        referenced = rule.get("ReferencedGroupInfo")
        itself = isinstance(referenced, dict) and referenced.get("GroupId") == id
        if itself and str(rule.get("IpProtocol")) == "-1":
            directions.add(bool(rule.get("IsEgress")))
    found = []
    for id, directions in lets.items():
        line = next((line for line in source.lines if "0.0.0.0/0" in line.text), source.lines[0])
        found.append(SecurityGroup(id, False in directions, True in directions, line))
    return found


def _lets_itself(rules: Any, id: str) -> bool:
    """Return whether one of some rules allows every protocol to or from the group itself."""
    for rule in rules if isinstance(rules, list) else []:
        if not isinstance(rule, dict) or str(rule.get("IpProtocol")) != "-1":
            continue
        pairs = rule.get("UserIdGroupPairs")
        for pair in pairs if isinstance(pairs, list) else []:
            if isinstance(pair, dict) and pair.get("GroupId") == id:
                return True
    return False


_SWITCH = re.compile(r"^\s*SwitchName=(\S+)\s+.*?Nodes=(\S+)", re.IGNORECASE)
_RANGE = re.compile(r"^(.*?)\[([\d,\-]+)\](.*)$")
_MOST_NODES = 100_000


def read_slurm_switches(source: Source) -> dict[str, str]:
    """Return the leaf switch of each node, as Slurm's topology.conf has them.

    Parameters
    ----------
    source : Source
        A file or text.
    """
    leaves: dict[str, str] = {}
    for line in source.lines_with("switchname="):
        found = _SWITCH.match(line.text)
        if not found:
            continue
        for node in _expanded(found[2]):
            if len(leaves) < _MOST_NODES:
                leaves[node] = found[1]
    return leaves


def _expanded(nodes: str) -> Iterator[str]:
    """Yield the nodes of a list such as ``a[01-03],b7``."""
    for part in re.split(r",(?![^\[]*\])", nodes):
        found = _RANGE.match(part)
        if not found:
            yield part
            continue
        for piece in found[2].split(","):
            first, _, last = piece.partition("-")
            if not first.isdecimal() or (last and not last.isdecimal()):
                continue
            end = int(last or first)
            for number in range(int(first), min(end, int(first) + _MOST_NODES) + 1):
                yield f"{found[1]}{number:0{len(first)}d}{found[3]}"


_RANK_IN_NAME = re.compile(r"(?:rank|_)(\d+)(?:\.\w+)?$")


def flight_entries(source: Source) -> list[Timeout]:
    """Return the first collective that is not completed in a flight recorder's dump in JSON.

    A dump that torch pickled is not opened, since a pickle may run code; PyTorch's own ``torchfrtrace -j`` reads it.

    Parameters
    ----------
    source : Source
        A file or text.
    """
    text = source.json or source.text
    if not source.lines or "entries" not in text[:2_000_000]:
        return []
    try:
        dump = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(dump, dict) or not isinstance(dump.get("entries"), list):
        return []
    named = _RANK_IN_NAME.search(source.name)
    rank = int(named[1]) if named else _whole(str(dump.get("rank", "")))
    for entry in dump["entries"]:
        if isinstance(entry, dict) and entry.get("state") not in ("completed", None):
            number = entry.get("collective_seq_id", entry.get("seq_id", 0))
            kind = str(entry.get("profiling_name", "")).rpartition(":")[2].upper().replace("_", "")
            return [
                Timeout(
                    rank,
                    number if isinstance(number, int) else 0,
                    kind,
                    _elements(entry.get("input_sizes")),
                    source.lines[0],
                )
            ]
    return []


def _elements(sizes: Any) -> int:
    """Return the number of elements of the first tensor of a list of shapes."""
    shape = sizes[0] if isinstance(sizes, list) and sizes else []
    total = 1
    for length in shape if isinstance(shape, list) else []:
        total *= length if isinstance(length, int) else 1
    return total
