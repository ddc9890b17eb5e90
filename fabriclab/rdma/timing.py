"""The time of RDMA operations on ConnectX-like hardware, term by term along the path, and the limits of their rate.

This is LogGP with its terms named: the overhead of the initiator, the latency of PCIe, NICs and switches, and gaps
between messages and bytes. Links are idle. Constants are rows of ``catalog.rdma``, or of other tables that have them.
"""

import math
from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.catalog import value
from fabriclab.catalog.tables import read_rows
from fabriclab.core import Result
from fabriclab.gpudirect.copies import fact, pcie_part


class _Link(NamedTuple):
    """Facts that belong to a link."""

    switch: str  # row of the table of switches
    source: str  # source of the switch's latency
    corrects: bool  # whether it uses forward error correction; lanes of 25 Gb/s can do without
    pcie: str  # PCIe generation of the same years, a row of the table of links


_LINKS = {
    "ib-edr": _Link("quantum1", "memory", corrects=False, pcie="pcie3"),
    "ib-hdr": _Link("quantum1", "memory", corrects=True, pcie="pcie4"),
    "ib-ndr": _Link("quantum2", "Q2-yobi", corrects=True, pcie="pcie5"),
}
_BY = {
    "host": "post by a thread",
    "proxy": "post by way of a proxy thread",
    "gpu": "post by a kernel",
}
OPERATIONS = ("WRITE", "SEND", "READ", "ATOMIC")
POSTERS = tuple(_BY)


def _of(part: str, attribute: str, **where: str) -> float:
    """Return a fact of the table ``rdma``."""
    return fact(part, attribute, "rdma", **where)


@dataclass(frozen=True)
class LatencyBudget:
    """The time of an operation, split into its parts in order.

    Parameters
    ----------
    op, size : str, float
        Operation, and size in bytes.
    terms : tuple of (str, float)
        Name and time [s] of each part.
    arrived : int
        Number of terms until the data have arrived; the terms after it notify the initiator.
    """

    op: str
    size: float
    terms: tuple[tuple[str, float], ...]
    arrived: int

    @property
    def time(self) -> float:
        """Time from the post to the poll that finds the completion, in seconds."""
        return sum(seconds for _, seconds in self.terms)

    @property
    def one_way(self) -> float:
        """Time until the data have arrived [s]: at the peer for a WRITE or SEND, at the initiator for a READ."""
        return sum(seconds for _, seconds in self.terms[: self.arrived])

    def __repr__(self) -> str:
        """Show operation, size and both times in one line."""
        size = units.format_size(self.size)
        time = units.format_time(self.time)
        one_way = units.format_time(self.one_way)
        return f"<LatencyBudget: {self.op} of {size} in {time}, data there after {one_way}>"

    def _repr_html_(self) -> str:
        html = f"<table><caption>{self.op} of {units.format_size(self.size)}</caption>"
        for name, seconds in (*self.terms, ("sum", self.time)):
            html += f"<tr><td>{name}<td>{units.format_time(seconds)}"
        return html + "</table>"


def budget(
    op: str = "WRITE",
    size: units.Quantity = 8,
    *,
    inline: bool = False,
    poster: str = "host",
    doorbell: bool = False,
    link: str = "ib-ndr",
    switches: int = 1,
    cable: units.Quantity = 2.0,
) -> LatencyBudget:
    """Return the latency of an operation, term by term.

    The payload crosses PCIe, the wire and PCIe again in pieces: the first piece one part after another, the rest as a
    pipeline. An acknowledgement is assumed to leave when the payload is in memory. Leaves out misses of the NIC's
    caches, congestion, loss, and the time to wake a receiver that sleeps.

    Parameters
    ----------
    op : str
        One of `OPERATIONS`; an ATOMIC has 8 B.
    size : float or str
        [B], >= 0
    inline : bool
        Whether the request itself contains the payload (WRITE or SEND of few bytes).
    poster : str
        The initiator. ``"host"``: a thread of the host, which writes the request into the NIC; ``"proxy"``: a thread
        that a GPU asks; ``"gpu"``: the GPU itself. With the last two the data are in GPU memory at both ends.
    doorbell : bool
        Whether only a doorbell goes to the NIC, which then reads the request. That is so for all but the last request
        of a batch, and for a GPU.
    link, switches, cable
        ``"ib-edr"``, ``"ib-hdr"`` or ``"ib-ndr"``; number of switches on the path; length of each cable [m].

    Examples
    --------
    >>> budget("WRITE", 8, inline=True), budget("READ", "1 MiB").op
    (<LatencyBudget: WRITE of 8 B in 2.56 µs, data there after 1.46 µs>, 'READ')
    """
    n = units.size(size)
    poster = units.choice(poster, "poster", POSTERS)
    gpu = poster != "host"
    op = units.choice(op, "op", OPERATIONS)
    asks = op in ("READ", "ATOMIC")
    if units.flag(inline, "inline") and (asks or gpu or n > _of("host-post", "max_inline")):
        most = f"at most {_of('host-post', 'max_inline'):g} B"
        raise ValueError(
            f"inline is for a WRITE or SEND by the host of {most}, got {op} of {n:g} B by {poster}"
        )
    if op == "ATOMIC" and n != 8:
        raise ValueError(f"size must be 8 B for an ATOMIC, got {n:g}")
    link = units.choice(link, "link", _LINKS)
    kind = _LINKS[link]

    # Times of single parts [s]
    hop = _of("pcie-hop", "latency")
    nic = _of("nic", "latency")
    poll = _of("poll", "latency")
    if gpu:
        read = fact("gpu-bar", "round_trip")
        write = read / 2
    else:
        read = 2 * hop + fact("ddr", "latency")
        write = hop + _of("memory-write", "latency")
    net = _net_latency(kind, switches, cable)

    # Time per byte on PCIe and on the wire [s/B], and of the first piece into the NIC and out of it [s]
    first = min(n, _of("nic", "chunk"))
    bus = 1 / (value("links", kind.pcie, "bandwidth_after_encoding") * pcie_part("read"))
    wire = 1 / value("links", link, "4x_data_rate")
    into = read + first * bus
    out = write + first * bus

    parts = [(_BY[poster], _of(f"{poster}-post", "latency")), ("doorbell", hop)]
    if units.flag(doorbell, "doorbell") or poster == "gpu":
        parts.append(("request fetched", read))
    if asks:
        parts.append(("NIC, wire, switches: question", nic + net))
        parts.append(("the other NIC", nic))
    if not inline:
        parts.append(("remote memory read" if asks else "payload fetched", into))
    if op == "ATOMIC":
        parts.append(("and written", write))
    parts.append(("NIC, wire, switches", nic + net + first * wire))
    if n > first:
        parts.append(("rest, as a pipeline", (n - first) * max(bus, wire)))
    parts.append(("the other NIC", nic))
    parts.append(("written to memory", out))
    if op == "SEND":
        parts.append(("receiver's poll", poll))
    arrived = len(parts)

    if not asks:
        parts.append(("acknowledgement", net + nic))
        parts.append(("completion written", write))
    parts.append(("poll", poll))
    return LatencyBudget(op, n, tuple(parts), arrived)


def _net_latency(link: _Link, switches: int, cable: units.Quantity) -> float:
    """Return the latency of all switches and cables between two NICs [s]."""
    switch = fact(link.switch, "latency_port_to_port", "switches", source=link.source)
    passed = units.count(switches, "switches", 0) * switch
    each = units.length(cable, "cable") * value("media", "acc800", "propagation")
    correction = value("links", "eth-fec", "latency_typical") if link.corrects else 0.0
    return passed + (switches + 1) * (each + correction)


def limits(
    size: units.Quantity = 8,
    *,
    poster: str = "host",
    threads: int = 1,
    batch: int = 1,
    link: str = "ib-ndr",
) -> dict[str, float]:
    """Return how many WRITEs per second each part allows; the smallest number decides.

    That number times ``size`` is the bandwidth. A thread of the host posts ``batch`` requests with one doorbell. The
    message rate of the NIC is that of ConnectX-6.

    Examples
    --------
    >>> alone, batched = limits(8), limits(8, batch=16)
    >>> min(alone, key=alone.get), batched["poster"] / alone["poster"] > 2
    ('poster', True)
    """
    n = units.size(size)
    many = units.count(threads, "threads")
    saved = _of("host-post", "mmio") * (1 - 1 / units.count(batch, "batch"))  # [s] by batching
    poster = units.choice(poster, "poster", POSTERS)
    link = units.choice(link, "link", _LINKS)
    if poster == "host":
        posts = 1 / (_of("host-post", "latency") - saved)
    else:
        posts = _of(f"{poster}-post", "message_rate")
    if poster != "gpu":
        posts *= many

    packets = max(1, math.ceil(n / _of("nic", "chunk")))
    pcie = value("links", _LINKS[link].pcie, "bandwidth_after_encoding")
    on_wire = n + packets * _of("ib-packet", "overhead")  # [B]
    rates = {
        "poster": posts,
        "NIC": _of("nic", "message_rate"),
        "wire": value("links", link, "4x_data_rate") / on_wire,
    }
    if n:
        rates["PCIe"] = pcie * pcie_part("read", size=n) / n
    return rates


def posters(size: units.Quantity = 8, link: str = "ib-ndr") -> dict[str, dict[str, float]]:
    """Return, for each of `POSTERS`, the time of a WRITE [s], messages per second, and the cores and SMs occupied."""
    rates = {poster: min(limits(size, poster=poster, link=link).values()) for poster in POSTERS}
    found = {}
    for poster in POSTERS:
        found[poster] = {
            "time": budget("WRITE", size, poster=poster, link=link).time,
            "rate": rates[poster],
            "cores": 0.0 if poster == "gpu" else 1.0,
            "SMs": _of("gpu-post", "sms") if poster == "gpu" else 0.0,
        }
    return found


def protocols(
    size: units.Quantity, *, link: str = "ib-ndr", register: bool = False
) -> dict[str, float]:
    """Return the time of a message [s] by each protocol, until it is in the buffer that the receiver chose.

    Eager is a SEND between buffers that are registered already, and a copy by a core at each end. Rendezvous is a SEND
    that announces the message, and a READ; with ``register`` both ends first register their buffers, one after the
    other.
    """
    n = units.size(size)
    ready = budget("SEND", 64, inline=True, link=link).one_way
    if units.flag(register, "register"):
        ready += 2 * registration(size)
    eager = budget("SEND", n, link=link).one_way + 2 * n / fact("cpu-copy", "bandwidth")
    return {"eager": eager, "rendezvous": ready + budget("READ", n, link=link).time}


def protocol_sweep(
    sizes: Iterable[units.Quantity], *, link: str = "ib-ndr", register: bool = False
) -> dict[str, Result]:
    """Return the times of both protocols over the size of the message, as results that can be drawn.

    Parameters
    ----------
    sizes : iterable of float or str
        [B]
    link, register
        As in `protocols`.

    Returns
    -------
    dict of str to Result
        ``"eager"`` and ``"rendezvous"``.

    Examples
    --------
    >>> found = protocol_sweep([64, "1 MiB"])
    >>> bool(found["eager"].time[0] < found["rendezvous"].time[0])
    True
    """
    asked = np.array([units.size(size) for size in sizes])
    times = [protocols(size, link=link, register=register) for size in asked]
    found = {}
    for name in ("eager", "rendezvous"):
        of_it = np.array([each[name] for each in times])
        found[name] = Result("send_recv", "predicted", asked, of_it, 2)
    return found


def crossover(*, link: str = "ib-ndr", register: bool = False) -> int:
    """Return the smallest size [B] for which rendezvous is faster; 2**30 if there is none below that."""

    def rendezvous_is_faster(n: int) -> bool:
        times = protocols(n, link=link, register=register)
        return times["eager"] > times["rendezvous"]

    return bisect(range(2**30), False, key=rendezvous_is_faster)


def registration(size: units.Quantity, page: units.Quantity = "4 KiB") -> float:
    """Return the time to register memory that has been touched [s]: a fixed time, plus one per page of any size."""
    pages = math.ceil(units.size(size) / units.size(page, "page", may_be_zero=False))
    return _of("registration", "latency") + pages * _of("registration", "latency_per_page")


def connections(ranks: int, depth: int = 128, initiators: int = 1) -> dict[str, dict[str, float]]:
    """Return the queue pairs of a full mesh and their memory, for reliable and for dynamically connected transport.

    ``depth`` is the number of entries of each send and receive queue. ``initiators`` is the number of dynamic
    initiators per rank, which also needs one target. Bytes are per rank. A dynamic initiator is assumed to need as much
    memory as a reliable connection.
    """
    n = units.count(ranks, "ranks", 2)
    entries = units.count(depth, "depth") * (_of("qp", "send_entry") + _of("qp", "receive_entry"))
    of_a_rank = {"reliable": n - 1, "dynamic": units.count(initiators, "initiators") + 1}
    context = _of("qp", "context")  # [B] of each queue pair
    found = {}
    for kind, pairs in of_a_rank.items():
        found[kind] = {
            "queue pairs": pairs * n,
            "bytes in the NIC": pairs * context,
            "bytes of queues": pairs * entries,
        }
    return found


def offload(
    size: units.Quantity = "1 MiB",
    rate: units.Quantity = "400 Gb/s",  # source: nics, cx7
    packet: units.Quantity = 9000,
) -> dict[str, dict[str, float]]:
    """Return the costs of a message with the kernel's TCP and with a NIC that does the work, for both ends together.

    Only cores are per end, at ``rate``: for the kernel they are cycles per packet, for a NIC the time to post. Memory
    bytes count reads and writes, so a copy counts twice. A receiver that sleeps costs two context switches, to it and
    away from it.
    """
    n = units.size(size)
    load = units.rate(rate)
    packets = load / units.size(packet, "packet", may_be_zero=False)
    cores = packets * _of("kernel-tcp", "cycles_per_packet") / _of("kernel-tcp", "clock")
    stack = _of("kernel-tcp", "latency") + 2 * n / fact("cpu-copy", "bandwidth")
    kernel = {
        "copies": 2,
        "system calls": 2,
        "context switches": 2,
        "memory bytes": 6 * n,  # at each end a copy, and the NIC
        "cores": cores,
        "time": stack,
        "of it switches": 2 * _of("kernel-tcp", "context_switch"),
    }
    nic = {
        "copies": 0,
        "system calls": 0,
        "context switches": 0,
        "memory bytes": 2 * n,
        "cores": load / max(n, 1.0) * _of("host-post", "latency"),
        "time": budget("WRITE", n).one_way,
        "of it switches": 0.0,
    }
    return {"kernel": kernel, "RDMA": nic}


def published() -> tuple[tuple[dict[str, str], float, float], ...]:
    """Return the row of each published time, that time and the model's [s]; ``role`` says if a row is for validation.

    Among the rows for validation the model misses one by more than 15 %: 32 B over EDR (+20 %), whose source names
    neither CPU nor NIC.
    """
    found = []
    for row in read_rows(Path(__file__).with_name("published.csv")):
        model = budget(
            row["op"],
            float(row["size"]),
            inline=row["inline"] == "1",
            poster=row["poster"],
            link=row["link"],
            switches=int(row["switches"]),
        )
        found.append((row, float(row["time_us"]) * 1e-6, model.one_way))
    return tuple(found)


class SmallMessage(NamedTuple):
    """A published time of a small message, from one host's memory to another's."""

    name: str  # operation and size, such as "WRITE of 2 B"
    switches: int  # on the path
    time: float  # one way [s]
    role: (
        str  # "sets" if it chose a constant of `budget`, "counts" if it was kept to test the model
    )


def small_messages(most: units.Quantity = "1 KiB") -> list[SmallMessage]:
    """Return the published times of small messages that a host posts, from one host's memory to another's.

    Each is a WRITE or a SEND of `published`, one way. A READ is left out, because it travels there and back.

    Parameters
    ----------
    most : int or str, optional
        Largest size of a message. [B], > 0

    Examples
    --------
    >>> message = small_messages()[0]
    >>> message.name, message.switches, units.format_time(message.time)
    ('WRITE of 2 B', 1, '1.26 µs')
    """
    largest = units.size(most, "most", may_be_zero=False)
    found = []
    for row, seen, _ in published():
        by_host = row["poster"] == "host" and row["op"] in ("WRITE", "SEND")
        if by_host and int(row["size"]) <= largest:
            name = f"{row['op']} of {units.format_size(int(row['size']))}"
            found.append(SmallMessage(name, int(row["switches"]), seen, row["role"]))
    return found
