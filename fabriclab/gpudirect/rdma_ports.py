"""Ports of RDMA devices, as ``ibv_devinfo`` and ``rdma link`` print them."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from fabriclab import units
from fabriclab.importers import Line, Scan, Source, Unread, open_whole

__all__ = ["RdmaPort", "read_ibv_devinfo", "read_rdma_link", "scan_ibv_devinfo", "scan_rdma_link"]

_FIELD = re.compile(r"\s*(\w+):\s+(\S.*?)\s*$")
_LINK = re.compile(r"(?:\d+: )*\s*(?:link |\d+/\d+: )(\S+)/(\d+):?\s+(.*)")
_STATE = re.compile(r"(?:PORT_)?(NOP|DOWN|INIT|ARMED|ACTIVE|ACTIVE_DEFER)(?: \(\d\))?")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?:X| Gbps) \(")
_LAYERS = ("", "InfiniBand", "Ethernet", "Unknown", "Unspecified")  # the last one for EFA


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
        ``"InfiniBand"`` or ``"Ethernet"``; empty if the text does not say. The transport is InfiniBand for both.
    netdev : str
        Network interface of the port; empty if the text does not say.
    rate : float or None
        Number of lanes times the printed speed of a lane, if the text has both (``-v``); up to QDR it is the rate
        before coding. [B/s]
    facts : mapping of str to str
        Everything printed about device and port, unchanged.
    lines : mapping of str to Line
        Line in which each of the facts is printed.
    """

    device: str
    port: int
    state: str
    link_layer: str
    netdev: str
    rate: float | None
    facts: Mapping[str, str]
    lines: Mapping[str, Line] = field(default_factory=dict, repr=False, compare=False)

    @property
    def active(self) -> bool:
        """Whether the port can carry data."""
        return self.state.startswith("ACTIVE")


@dataclass
class _Block:
    """What is printed about a device, or about it and one of its ports; the first value of a name counts."""

    facts: dict[str, str] = field(default_factory=dict)
    lines: dict[str, Line] = field(default_factory=dict)

    def add(self, name: str, value: str, line: Line) -> None:
        """Take a fact, unless the block has it already: then another tool's output has begun."""
        if name not in self.facts:
            self.facts[name] = value
            self.lines[name] = line

    def port(self) -> RdmaPort | None:
        """Return the port that is described, or None if something of it is missing or unknown."""
        device = self.facts.get("hca_id", "")
        number = self.facts.get("port", "")
        state = _STATE.fullmatch(self.facts.get("state", ""))
        layer = self.facts.get("link_layer", "")
        if not (state and device and number.isdecimal() and layer in _LAYERS):
            return None
        lanes = _NUMBER.match(self.facts.get("active_width", ""))
        speed = _NUMBER.match(self.facts.get("active_speed", ""))
        rate = None
        if lanes and speed and lanes[1].isdecimal():
            rate = int(lanes[1]) * units.parse(f"{speed[1]} Gb/s", "rate")
        netdev = self.facts.get("netdev", "")
        return RdmaPort(device, int(number), state[1], layer, netdev, rate, self.facts, self.lines)

    def unread(self, line: Line) -> Unread:
        """Return that this is no port, and what it is."""
        device = self.facts.get("hca_id", "") or "a device"
        got = f"a port of {device} must have a number and a state, and a known link layer"
        return Unread(line, f"{got}, got {self.facts}; was it cut?")


def scan_ibv_devinfo(source: Source) -> Scan[RdmaPort]:
    """Return the ports that ``ibv_devinfo`` printed into a text, and those that cannot be read.

    Parameters
    ----------
    source : Source
        A text, which may hold other things as well.
    """
    device = _Block()
    current = device  # what the next lines describe: the device, or its last port
    blocks: list[tuple[Line, _Block]] = []  # of the ports
    for line in source.lines:
        match = _FIELD.match(line.text)
        if match is None:
            continue
        name, value = match.groups()
        if name == "hca_id":
            device = _Block()
            current = device
        elif name == "port":
            current = _Block(dict(device.facts), dict(device.lines))
            blocks.append((line, current))
        current.add(name, value, line)

    ports = []
    unread = []
    for line, block in blocks:
        port = block.port()
        if port is None:
            unread.append(block.unread(line))
        else:
            ports.append(port)
    return Scan(tuple(ports), tuple(unread))


def read_ibv_devinfo(source: str | os.PathLike[str]) -> tuple[RdmaPort, ...]:
    """Return the ports that ``ibv_devinfo`` printed, with or without ``-v``, indented or not.

    Parameters
    ----------
    source : path or str
        A file, or its text.

    Raises
    ------
    FileFormat
        If there is no such file, no port, or if a port is cut; the message names the line.
    """
    return scan_ibv_devinfo(open_whole(source)).whole(
        "the text must hold what ibv_devinfo prints, with a line hca_id and a port; it holds no port"
    )


def scan_rdma_link(source: Source) -> Scan[RdmaPort]:
    """Return the ports that ``rdma link`` printed into a text, and those that cannot be read.

    Parameters
    ----------
    source : Source
        A text, which may hold other things as well.
    """
    ports = []
    unread = []
    for line in source.lines:
        match = _LINK.match(line.text)
        if match is None:
            continue
        block = _Block()
        block.add("hca_id", match[1], line)
        block.add("port", match[2], line)
        words = match[3].split()
        for name, value in zip(words[::2], words[1::2], strict=False):
            block.add(name, value, line)
        port = block.port()
        if port is not None:
            ports.append(port)
        if port is None or len(words) % 2:  # odd: it was cut
            unread.append(block.unread(line))
    return Scan(tuple(ports), tuple(unread))


def read_rdma_link(source: str | os.PathLike[str]) -> tuple[RdmaPort, ...]:
    """Return the ports that ``rdma link`` of iproute2 printed.

    Both forms of a line are read, ``link mlx5_0/1 ...`` and the older ``1/1: mlx5_0/1: ...``.

    Parameters
    ----------
    source : path or str
        A file, or its text.

    Raises
    ------
    FileFormat
        If there is no such file or line, or if a line is cut; the message names the line.
    """
    return scan_rdma_link(open_whole(source)).whole(
        "the text must hold lines of rdma link, such as link mlx5_0/1 state ACTIVE; it holds none"
    )
