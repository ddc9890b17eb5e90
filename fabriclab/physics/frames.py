"""Frames of RoCE v1, RoCE v2 and InfiniBand, byte by byte: build one, take one apart, and count what is not payload.

The module stands on the floor of physics, below the engines: a frame is bytes on a cable, and the sizes that an engine
sends and stores can be checked against it. It knows one kind of message, a SEND or a WRITE packet without further
headers (the middle packets of a long message are of this kind). The check that covers an InfiniBand link (VCRC) is
present as a field and left 0; all other checks are computed.

References
----------
.. [1] InfiniBand Architecture Specification 1.4, vol. 1: chapter 7.7 (local header), 8.3 (global header), 9.2 (base
   transport header), 7.8 (checks); annex A16 (RoCE) and A17 (RoCE v2).
.. [2] IEEE 802.3-2018, clause 3 (frame, preamble) and 4.4.2 (gap between frames); RFC 791 (IPv4); RFC 768 (UDP).

Examples
--------
>>> from fabriclab.physics import frames
>>> frame = frames.roce_v2(bytes(4096))
>>> frame.overhead, round(frame.goodput, 4)
(82, 0.9804)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fabriclab import units
from fabriclab.core import ReadOnly, as_html

__all__ = [
    "ROCE_PORT",
    "ROCE_V1_TYPE",
    "Field",
    "Frame",
    "Header",
    "dissect",
    "infiniband",
    "is_intact",
    "roce_v1",
    "roce_v2",
]

# source: IBTA annex A16
ROCE_V1_TYPE = 0x8915
# source: IBTA annex A17, assigned by IANA
ROCE_PORT = 4791
# source: IEEE 802, types of IPv4
IPV4_TYPE = 0x0800
# source: RFC 768, protocol number
UDP_PROTOCOL = 17
# source: IBTA vol. 1, 8.3: a transport header follows the global header
BTH_FOLLOWS = 0x1B
# source: IEEE 802.3-2018, 3.1.1 and 4.4.2: 7 B of preamble and the start delimiter; 96 bit times
PREAMBLE = 8
# source: IEEE 802.3-2018, 4.4.2
GAP = 12
_LNH_LOCAL = 2  # source: IBTA vol. 1, 7.7.5: the transport header follows the local header
_LNH_GLOBAL = 3  # source: IBTA vol. 1, 7.7.5: the global header follows

# Fields of each header with their bits, in the order in which they are sent.
LAYOUTS: Mapping[str, Sequence[tuple[str, int]]] = ReadOnly(
    {
        "Ethernet": (("destination", 48), ("source", 48), ("type", 16)),
        "IPv4": (
            ("version", 4),
            ("header length", 4),
            ("DSCP", 6),
            ("ECN", 2),
            ("total length", 16),
            ("identification", 16),
            ("flags", 3),
            ("fragment", 13),
            ("time to live", 8),
            ("protocol", 8),
            ("checksum", 16),
            ("source", 32),
            ("destination", 32),
        ),
        "UDP": (("source port", 16), ("destination port", 16), ("length", 16), ("checksum", 16)),
        "LRH": (
            ("virtual lane", 4),
            ("version", 4),
            ("service level", 4),
            ("reserved", 2),
            ("next header", 2),
            ("destination LID", 16),
            ("reserved 2", 5),
            ("length in words", 11),
            ("source LID", 16),
        ),
        "GRH": (
            ("version", 4),
            ("traffic class", 8),
            ("flow label", 20),
            ("payload length", 16),
            ("next header", 8),
            ("hop limit", 8),
            ("source GID", 128),
            ("destination GID", 128),
        ),
        "BTH": (
            ("opcode", 8),
            ("solicited", 1),
            ("migration", 1),
            ("pad", 2),
            ("version", 4),
            ("partition key", 16),
            ("FECN", 1),
            ("BECN", 1),
            ("reserved", 6),
            ("destination QP", 24),
            ("acknowledge", 1),
            ("reserved 2", 7),
            ("packet number", 24),
        ),
        "ICRC": (("check", 32),),
        "VCRC": (("check", 16),),
        "FCS": (("check", 32),),
    }
)
# Fields that may change on the way and count as ones in the ICRC (IBTA vol. 1, 7.8.1, and annex A17).
_VARIANT: Mapping[str, Sequence[str]] = ReadOnly(
    {
        "LRH": ("virtual lane",),
        "GRH": ("traffic class", "flow label", "hop limit"),
        "IPv4": ("DSCP", "ECN", "time to live", "checksum"),
        "UDP": ("checksum",),
        "BTH": ("FECN", "BECN", "reserved"),
    }
)


class Field(NamedTuple):
    """A field of a header."""

    name: str
    bits: int
    value: int


@dataclass(frozen=True, slots=True)
class Header:
    """A header, or a check at the end: its fields in the order in which they are sent."""

    name: str
    fields: tuple[Field, ...]

    @property
    def size(self) -> int:
        """Size [B]."""
        return sum(field.bits for field in self.fields) // 8

    def __getitem__(self, name: str) -> int:
        """Return the value of a field by its name."""
        for field in self.fields:
            if field.name == name:
                return field.value
        known = ", ".join(field.name for field in self.fields)
        raise KeyError(f"{self.name} has no field {name!r}; it has {known}")

    def pack(self) -> bytes:
        """Return the bytes as they are sent."""
        number = 0
        for field in self.fields:
            number = (number << field.bits) | field.value
        return number.to_bytes(self.size, "big")

    def with_(self, **values: int) -> Header:
        """Return the header with some values replaced; a space in a name is written ``_``."""
        new = {name.replace("_", " "): value for name, value in values.items()}
        return _header(self.name, **{f.name: new.get(f.name, f.value) for f in self.fields})


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: headers, payload (with what pads it to whole words), and checks.

    Parameters
    ----------
    kind : str
        ``"RoCE v1"``, ``"RoCE v2"`` or ``"InfiniBand"``.
    headers, trailers : tuple of Header
        What stands before and behind the payload.
    payload : bytes
        The data, and up to 3 B of padding.
    """

    kind: str
    headers: tuple[Header, ...]
    payload: bytes
    trailers: tuple[Header, ...]

    def __getitem__(self, name: str) -> Header:
        """Return a header or a check by its name."""
        for header in (*self.headers, *self.trailers):
            if header.name == name:
                return header
        known = ", ".join(header.name for header in (*self.headers, *self.trailers))
        raise KeyError(f"a frame of {self.kind} has no {name!r}; it has {known}")

    def __bytes__(self) -> bytes:
        """Return the frame as bytes, without preamble and gap."""
        before = b"".join(header.pack() for header in self.headers)
        behind = b"".join(header.pack() for header in self.trailers)
        return before + self.payload + behind

    @property
    def data(self) -> int:
        """Bytes of the payload that carry data, without padding [B]."""
        return len(self.payload) - self["BTH"]["pad"]

    @property
    def on_wire(self) -> int:
        """Bytes that the frame takes on the cable, on Ethernet with preamble and gap [B]."""
        around = 0 if self.kind == "InfiniBand" else PREAMBLE + GAP
        return len(bytes(self)) + around

    @property
    def overhead(self) -> int:
        """Bytes on the cable that carry no data [B]."""
        return self.on_wire - self.data

    @property
    def goodput(self) -> float:
        """Share of the bytes on the cable that carry data, 0..1."""
        return self.data / self.on_wire

    def rows(self) -> list[list[str]]:
        """Return all fields as a table of texts: where each begins, header, field, size and value."""
        table = [["byte", "header", "field", "bits", "value"]]
        if self.kind != "InfiniBand":
            table.append(["", "on the cable", "preamble and start", str(8 * PREAMBLE), ""])
        at = 0  # [bit]
        for header in self.headers:
            at = _list_fields(table, header, at)
        table.append([str(at // 8), "payload", "data and padding", str(8 * len(self.payload)), ""])
        at += 8 * len(self.payload)
        for header in self.trailers:
            at = _list_fields(table, header, at)
        if self.kind != "InfiniBand":
            table.append(["", "on the cable", "gap", str(8 * GAP), ""])
        return table

    def __repr__(self) -> str:
        """Show the headers with their sizes, and what is left for data."""
        parts = [f"{header.name} {header.size}" for header in self.headers]
        parts.append(f"data {self.data}")
        parts += [f"{header.name} {header.size}" for header in self.trailers]
        return (
            f"<{self.kind}: {', '.join(parts)} B; {self.on_wire} B on the cable, "
            f"{self.overhead} B overhead, goodput {units.format_share(self.goodput, 1)}>"
        )

    def _repr_html_(self) -> str:
        return as_html(self.rows(), repr(self)[1:-1])


def _list_fields(table: list[list[str]], header: Header, at: int) -> int:
    """Add the fields of a header that begins at bit ``at``; return the bit behind it."""
    for field in header.fields:
        value = f"{field.value:#x}" if field.bits > 8 else str(field.value)
        table.append([str(at // 8), header.name, field.name, str(field.bits), value])
        at += field.bits
    return at


def _header(kind: str, /, **values: int) -> Header:
    """Return a header with some values given, and 0 for the others."""
    fields = []
    for name, bits in LAYOUTS[kind]:
        value = values.pop(name, values.pop(name.replace(" ", "_"), 0))
        units.count(value, f"{kind}: {name}", 0, (1 << bits) - 1)
        fields.append(Field(name, bits, value))
    if values:
        raise ValueError(f"{kind} has no field {', '.join(values)}")
    return Header(kind, tuple(fields))


def _unpacked(kind: str, data: bytes) -> tuple[Header, bytes]:
    """Return the header at the beginning of some bytes, and the bytes behind it."""
    size = sum(bits for _, bits in LAYOUTS[kind]) // 8
    if len(data) < size:
        raise ValueError(f"{kind} takes {size} B, and only {len(data)} B are left of the frame")
    number = int.from_bytes(data[:size], "big")
    left = 8 * size
    values = {}
    for name, bits in LAYOUTS[kind]:
        left -= bits
        values[name] = (number >> left) & ((1 << bits) - 1)
    return _header(kind, **values), data[size:]


def _checksum(data: bytes) -> int:
    """Return the ones' complement of the ones' complement sum of 16-bit words (RFC 791, RFC 1071)."""
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def _crc32(data: bytes) -> int:
    """Return the CRC of Ethernet as it is sent, lowest byte first."""
    return int.from_bytes(zlib.crc32(data).to_bytes(4, "little"), "big")


def _icrc(headers: Sequence[Header], payload: bytes) -> Header:
    """Return the check over all that no switch or router may change; what may change counts as ones.

    A frame on Ethernet has no local header; 8 B of ones stand for it.
    """
    covered = b"" if headers[0].name == "LRH" else b"\xff" * 8
    for header in headers:
        if header.name == "Ethernet":
            continue
        ones = {f.name: (1 << f.bits) - 1 for f in header.fields if f.name in _VARIANT[header.name]}
        covered += _header(
            header.name, **{f.name: ones.get(f.name, f.value) for f in header.fields}
        ).pack()
    return _header("ICRC", check=_crc32(covered + payload))


def _as_bytes(data: object) -> bytes:
    """Return data as bytes, or refuse anything else."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes, such as b'gradient' or bytes(4096), got {data!r:.80}")
    return bytes(data)


def _bth(data: bytes, opcode: int, qp: int, psn: int) -> tuple[Header, bytes]:
    """Return a transport header, and the payload padded to whole words."""
    data = _as_bytes(data)
    pad = -len(data) % 4
    header = _header(
        "BTH", opcode=opcode, pad=pad, partition_key=0xFFFF, destination_QP=qp, packet_number=psn
    )
    return header, data + bytes(pad)


def _on_ethernet(kind: str, ethernet: Header, inner: Sequence[Header], payload: bytes) -> Frame:
    """Return a frame on Ethernet with both checks."""
    headers = (ethernet, *inner)
    icrc = _icrc(headers, payload)
    all_but_fcs = b"".join(header.pack() for header in headers) + payload + icrc.pack()
    fcs = _header("FCS", check=_crc32(all_but_fcs))
    return Frame(kind, headers, payload, (icrc, fcs))


def roce_v2(
    data: bytes,
    *,
    opcode: int = 0x07,
    qp: int = 1,
    psn: int = 0,
    source_port: int = 0xC000,
    ecn: int = 2,
    dscp: int = 26,
    ttl: int = 64,
    source: int = 0x0A000001,
    target: int = 0x0A000002,
) -> Frame:
    """Return a frame of RoCE v2: the transport of InfiniBand in UDP and IPv4, which routers can forward.

    Parameters
    ----------
    data : bytes
        Payload, at most 4,096 B on InfiniBand and RoCE.
    opcode : int
        What the packet is; 0x07 is the middle of an RDMA WRITE on a reliable connection. 0..255
    qp, psn : int
        Queue pair at the target, and number of the packet. 24 bits each
    source_port : int
        UDP port of the sender: the part of the header that gives ECMP something to hash. 16 bits
    ecn : int
        0: not capable of ECN; 1 or 2: capable; 3: marked. 0..3
    dscp : int
        Class of service; 26 is a common choice for RoCE, set by configuration. 0..63
    ttl : int
        Routers that the frame may still pass. 0..255
    source, target : int
        IPv4 addresses. 32 bits
    """
    bth, payload = _bth(data, opcode, qp, psn)
    udp_size = 8 + bth.size + len(payload) + 4
    udp = _header("UDP", source_port=source_port, destination_port=ROCE_PORT, length=udp_size)
    ip = _header(
        "IPv4",
        version=4,
        header_length=5,  # source: RFC 791, in words of 4 B, without options
        DSCP=dscp,
        ECN=ecn,
        total_length=20 + udp_size,
        flags=2,
        time_to_live=ttl,
        protocol=UDP_PROTOCOL,
        source=source,
        destination=target,
    )
    ip = ip.with_(checksum=_checksum(ip.pack()))
    ethernet = _header("Ethernet", destination=2, source=1, type=IPV4_TYPE)
    return _on_ethernet("RoCE v2", ethernet, (ip, udp, bth), payload)


def _grh(inner_size: int) -> Header:
    """Return a global header for so many bytes behind it, up to the ICRC."""
    return _header(
        "GRH",
        version=6,
        payload_length=inner_size,
        next_header=BTH_FOLLOWS,
        hop_limit=1,
        source_GID=1,
        destination_GID=2,
    )


def roce_v1(data: bytes, *, opcode: int = 0x07, qp: int = 1, psn: int = 0) -> Frame:
    """Return a frame of RoCE v1: InfiniBand's network header directly in an Ethernet frame of a type of its own.

    It has no IP header, so a router has nothing to look up and drops it: RoCE v1 stays within one Ethernet segment.
    Parameters are those of `roce_v2`.
    """
    bth, payload = _bth(data, opcode, qp, psn)
    grh = _grh(bth.size + len(payload) + 4)
    ethernet = _header("Ethernet", destination=2, source=1, type=ROCE_V1_TYPE)
    return _on_ethernet("RoCE v1", ethernet, (grh, bth), payload)


def infiniband(
    data: bytes,
    *,
    opcode: int = 0x07,
    qp: int = 1,
    psn: int = 0,
    routed: bool = False,
    lane: int = 0,
    source: int = 1,
    target: int = 2,
) -> Frame:
    """Return a packet of InfiniBand, with a global header only if it is ``routed`` between subnets.

    Parameters
    ----------
    data, opcode, qp, psn : bytes, int
        As in `roce_v2`.
    routed : bool
        Whether it has a global header.
    lane : int
        Virtual lane. 0..15
    source, target : int
        Local identifiers (LIDs), which the subnet manager gives out. 16 bits
    """
    bth, payload = _bth(data, opcode, qp, psn)
    inner: tuple[Header, ...] = (bth,)
    if units.flag(routed, "routed"):
        inner = (_grh(bth.size + len(payload) + 4), bth)
    lrh_size = 8
    icrc_size = 4
    covered = lrh_size + sum(header.size for header in inner) + len(payload) + icrc_size
    lrh = _header(
        "LRH",
        virtual_lane=lane,
        next_header=_LNH_GLOBAL if routed else _LNH_LOCAL,
        destination_LID=target,
        length_in_words=covered // 4,
        source_LID=source,
    )
    headers = (lrh, *inner)
    icrc = _icrc(headers, payload)
    return Frame("InfiniBand", headers, payload, (icrc, _header("VCRC")))


def dissect(data: bytes, link: str = "ethernet", *, fcs: bool = True) -> Frame:
    """Take a frame apart.

    Parameters
    ----------
    data : bytes
        The frame, without preamble and gap.
    link : str
        ``"ethernet"`` or ``"infiniband"``: nothing in a frame says on which link it was.
    fcs : bool
        Whether the check of Ethernet is there; captures usually leave it out.

    Raises
    ------
    ValueError
        If the bytes are no such frame, or end too early.
    """
    link = units.choice(link, "link", ("ethernet", "infiniband"))
    headers: list[Header] = []
    rest = _as_bytes(data)

    def read(kind: str) -> Header:
        nonlocal rest
        header, rest = _unpacked(kind, rest)
        headers.append(header)
        return header

    if link == "infiniband":
        kind = "InfiniBand"
        if read("LRH")["next header"] == _LNH_GLOBAL:
            read("GRH")
        ends = ["ICRC", "VCRC"]
    else:
        kind = _read_ethernet(read)
        ends = ["ICRC", "FCS"] if fcs else ["ICRC"]
    read("BTH")
    behind = sum(sum(bits for _, bits in LAYOUTS[name]) for name in ends) // 8
    if len(rest) < behind:
        raise ValueError(f"{', '.join(ends)} take {behind} B, and only {len(rest)} B are left")
    payload, rest = rest[: len(rest) - behind], rest[len(rest) - behind :]
    trailers = []
    for name in ends:
        header, rest = _unpacked(name, rest)
        trailers.append(header)
    return Frame(kind, tuple(headers), payload, tuple(trailers))


def _read_ethernet(read: Callable[[str], Header]) -> str:
    """Read the headers of Ethernet up to the transport header; return the kind of the frame."""
    kind = read("Ethernet")["type"]
    if kind == ROCE_V1_TYPE:
        read("GRH")
        return "RoCE v1"
    if kind != IPV4_TYPE:
        raise ValueError(
            f"Ethernet type {kind:#06x} is neither RoCE v1 ({ROCE_V1_TYPE:#x}) nor IPv4 ({IPV4_TYPE:#06x})"
        )
    if read("IPv4")["protocol"] != UDP_PROTOCOL:
        raise ValueError("the IPv4 packet is no UDP, so no RoCE v2")
    port = read("UDP")["destination port"]
    if port != ROCE_PORT:
        raise ValueError(f"UDP port {port} is not that of RoCE v2, {ROCE_PORT}")
    return "RoCE v2"


def is_intact(frame: Frame) -> bool:
    """Return whether the ICRC of a frame fits its bytes."""
    if not isinstance(frame, Frame):
        raise TypeError(
            f"frame must be a Frame, as roce_v2 or dissect return it, got {frame!r:.80}; "
            "take bytes apart with dissect first"
        )
    return _icrc(frame.headers, frame.payload) == frame["ICRC"]
