"""RDMA devices of a host, as ``ibv_devinfo`` and ``rdma link`` print them."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fabriclab import units
from fabriclab.errors import FileFormat
from fabriclab.importers.opensm import _lines

_FIELD: Final = re.compile(r"\s*(\w+):\s+(\S.*?)\s*$")
_LINK: Final = re.compile(r"(?:\d+: )*\s*(?:link |\d+/\d+: )(\S+)/(\d+):?\s+(.*)")
_BONDED: Final = re.compile(r"(\d+)X")


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
        ``"InfiniBand"`` or ``"Ethernet"``; empty where the text does not tell. The transport is InfiniBand for both.
    netdev : str
        Network interface of the port, where the text tells it.
    rate : float or None
        Lanes times the speed of one as printed, before coding, where the text tells it (``-v``). [B/s]
    facts : mapping of str to str
        All that is printed of device and port, as it stands.
    """

    device: str
    port: int
    state: str
    link_layer: str
    netdev: str
    rate: float | None
    facts: Mapping[str, str]


def _port(device: str, port: str, facts: Mapping[str, str], line: int) -> RdmaPort:
    state = facts.get("state", "").removeprefix("PORT_").split(" ")[0]
    if not state or not port.isdecimal():
        raise FileFormat.at(line, f"a port of {device} must have a number and a state, got {dict(facts)}; was it cut?")
    lanes, speed = _BONDED.match(facts.get("active_width", "")), facts.get("active_speed", "").split(" ")[0]
    rate = int(lanes[1]) * units.parse(f"{speed} Gb/s", "rate") if lanes and speed else None
    return RdmaPort(device, int(port), state, facts.get("link_layer", ""), facts.get("netdev", ""), rate, facts)


def read_ibv_devinfo(source: str | os.PathLike[str]) -> tuple[RdmaPort, ...]:
    """Return the ports that ``ibv_devinfo`` printed, with or without ``-v``, indented or not.

    Raises
    ------
    FileFormat
        If there is no port, or one is cut, naming the line.
    """
    device: dict[str, str] = {}
    found: list[tuple[dict[str, str], dict[str, str], int]] = []
    for number, line in enumerate(_lines(source), 1):
        if not (match := _FIELD.match(line)):
            continue
        key, value = match.groups()
        if key == "hca_id":
            device, inside = {key: value}, False
        elif key == "port" and device:
            found.append((device, {key: value}, number))
            inside = True
        elif device:
            (found[-1][1] if inside else device)[key] = value
    if not found:
        raise FileFormat("the text must hold what ibv_devinfo prints, with a line hca_id and a port; it holds no port")
    return tuple(_port(d["hca_id"], p["port"], {**d, **p}, number) for d, p, number in found)


def read_rdma_link(source: str | os.PathLike[str]) -> tuple[RdmaPort, ...]:
    """Return the ports that ``rdma link`` of iproute2 printed: ``link mlx5_0/1 ...``, or once ``1/1: mlx5_0/1: ...``.

    Raises
    ------
    FileFormat
        If there is no such line, or one is cut, naming it.
    """
    found = [(n, m) for n, line in enumerate(_lines(source), 1) if (m := _LINK.match(line))]
    if not found:
        raise FileFormat("the text must hold lines of rdma link, such as link mlx5_0/1 state ACTIVE; it holds none")
    words = [(number, match[1], match[2], match[3].split()) for number, match in found]
    return tuple(_port(d, p, dict(zip(w[::2], w[1::2], strict=False)), number) for number, d, p, w in words)
