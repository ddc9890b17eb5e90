"""The same protocol for real: processes of this machine, workers and a switch, and UDP between them that loses packets.

References
----------
.. [1] V. Paxson et al., Computing TCP's Retransmission Timer, RFC 6298, 2011.
.. [2] Y. Cheng et al., The RACK-TLP Loss Detection Algorithm for TCP, RFC 8985, 2021: what is lost is told by time.
"""

import select
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.errors import FabricError
from fabriclab.innetwork.aggregation import Aggregator, Words
from fabriclab.innetwork.pipeline import MULTICAST, REPLY
from fabriclab.innetwork.switch import Switch
from fabriclab.processes import Process

_DEVICE = "tofino1_recirculating"
# Whole words, so that the payload is aligned.
_HEADER = {"chunk": "<u4", "slot": "<u2", "job": "u1", "version": "u1", "worker": "<u4"}
_NOW = socket.MSG_DONTWAIT | socket.MSG_TRUNC
_BATCH = 256  # packets taken from a socket at once
_BUFFER = 2**22  # of a socket; the kernel gives what it allows [B]
_ROOM = 2560  # that a packet takes there; 2315 B for the largest, counted on Linux 6.18 [B]
_WINDOW = 32  # that silence leaves of a window, at least
_SHORTEST, _LONGEST = 0.01, 0.2  # of a timer [s]


class Exchanged(NamedTuple):
    """What each worker holds after an all-reduce over UDP, and what it cost."""

    totals: list[Words]  # (chunks, lanes) for each worker
    time: float  # from the first packet to the last sum of the last worker [s]
    sent: int  # packets of all workers
    again: int  # of them sent again
    strays: int  # datagrams of others, which were dropped

    @property
    def goodput(self) -> float:
        """Return the sums that a worker gets in a second [B/s]."""
        return self.totals[0].nbytes / self.time


def exchange(
    values: Sequence[ArrayLike],
    *,
    slots: int = 512,
    loss: float = 0.0,
    seed: int = 0,
    patience: float | str = "60 s",  # illustrative: far more than any run takes
) -> Exchanged:
    """Add up the workers' values in a switch that is a process of its own.

    Each process drops what it receives with probability ``loss``; the kernel drops what its buffers cannot hold. A
    worker sends a packet again as soon as one that left well after it is answered. If nothing at all is answered for
    longer than trips usually take, it sends again all that is on its way, with half the window and twice the timer.
    A datagram that is no packet of this run is dropped and counted; one that looks like a packet is believed.

    Parameters
    ----------
    values : sequence of arrays of int32, (chunks, lanes)
        One for each worker; a packet, which is a datagram, carries a row.
    slots : int
        Of the switch; no more chunks of a worker are on their way. >= 1
    loss : float
        Probability. 0..0.2
    seed : int
        Of the losses. >= 0
    patience : float or str
        After which a run is given up. [s]

    Raises
    ------
    FabricError
        If a worker or the switch ends before all workers have their sums.
    TimeoutError
        If a worker has not finished then.
    """
    rows = [np.asarray(v).astype(np.int32, copy=False) for v in values]
    same = all(r.ndim == 2 and r.size and r.shape == rows[0].shape for r in rows)
    if not same or not all(map(np.array_equal, rows, values)):
        msg = "values must be whole numbers of 32 bits with a sign, in arrays (chunks, lanes) of one shape"
        raise ValueError(f"{msg}; got {[f'{np.asarray(v).dtype} {np.shape(v)}' for v in values]}")
    if not 0 <= loss <= 0.2:
        raise ValueError(f"loss must be a probability within 0..0.2, got {loss!r}")
    n, end = len(rows), time.monotonic() + units.time(patience, "patience")
    lanes, seed = rows[0].shape[1] if rows else 1, units.count(seed, "seed", low=0)
    # refuses what does not fit before a process starts
    Switch(Aggregator(n, slots, lanes=lanes), _DEVICE)
    ports = [
        _Port(lanes, loss, (seed, number), (n, slots, len(rows[0]))) for number in range(n + 1)
    ]
    # Arrays go there and back in common memory, messages are short: who stops while it sends holds up nobody.
    shared = [RawArray("i", row.size) for row in rows]
    totals = [np.frombuffer(memory, np.int32).reshape(-1, lanes) for memory in shared]
    homes, members = [port.address for port in ports], dict[str, Process]()
    try:
        for w, row in enumerate(rows):
            totals[w][...] = row
            members[f"worker {w}"] = Process(
                _work, ports[w], homes[n], w, ports[n].room // n, slots, shared[w]
            )
        members["the switch"] = Process(_switch, ports[n], homes[:n], slots, lanes)
        _hear(members, n + 1, end)
        for member in [*members.values()][:n]:
            with suppress(OSError):  # who is dead is named below
                member.send("go")
        found = _hear(members, n, end)
    finally:
        for member in members.values():
            member.kill()
            member.connection.close()
        for port in ports:
            port.socket.close()
    starts, ends, sent = zip(*(found[f"worker {w}"] for w in range(n)), strict=True)
    strays = sum(port.strays.value for port in ports)
    return Exchanged(
        totals, max(ends) - min(starts), sum(sent), sum(sent) - n * len(rows[0]), strays
    )


def _hear(members: dict[str, Process], wanted: int, end: float) -> dict[str, Any]:
    """Return what so many processes send, the last one after all others; name who has ended, or is late."""
    found: dict[str, Any] = {}
    while len(found) < wanted:
        left = {name: member for name, member in members.items() if name not in found}
        ready = wait([member.connection for member in left.values()], end - time.monotonic())
        if not ready:
            late = ", ".join([*left][: wanted - len(found)])
            raise TimeoutError(f"not finished in time: {late}; give it more patience")
        for name in [name for name, member in left.items() if member.connection in ready]:
            try:
                found[name] = members[name].recv()
            except (EOFError, OSError):
                raise FabricError(
                    f"{name} (process {members[name].pid}) ended before all had their sums"
                ) from None
    return found


class _Port:
    """A socket that loses some of the packets that come, and all that are none of a run's workers, slots and chunks."""

    def __init__(
        self, lanes: int, loss: float, seed: Sequence[int], run: tuple[int, int, int]
    ) -> None:
        # common memory: the process that counts is killed
        self.run, self.strays = (run, RawValue("q"))
        self.layout, self.loss = np.dtype([*_HEADER.items(), ("payload", "<i4", lanes)]), loss
        self.rng, self.buffer = (
            np.random.default_rng(seed),
            bytearray(_BATCH * self.layout.itemsize),
        )
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        # [packets]
        self.room = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // _ROOM
        self.socket.bind(("127.0.0.1", 0))
        self.address = self.socket.getsockname()

    def take(self, wait: float | None) -> NDArray[Any]:
        """Return the packets that are there, after at most ``wait`` seconds."""
        select.select([self.socket], [], [], wait)
        filled, came, size, view = 0, 0, self.layout.itemsize, memoryview(self.buffer)
        with suppress(BlockingIOError):
            while filled < len(view):  # the whole length is told of one that is too long
                filled += size * (self.socket.recv_into(view[filled:], size, _NOW) == size)
                came += 1
        found, (workers, slots, chunks) = np.frombuffer(view[:filled], self.layout), self.run
        chunk, mine = found["chunk"], (found["worker"] < workers) & (found["job"] == 0)
        mine &= (
            (chunk < chunks)
            & (found["slot"] == chunk % slots)
            & (found["version"] == chunk // slots % 2)
        )
        self.strays.value += came - np.count_nonzero(mine)
        return found[np.flatnonzero(mine & (self.rng.random(len(found)) >= self.loss))]

    def send(self, packets: NDArray[Any], to: Any) -> None:
        """Send each packet as a datagram."""
        for packet in packets:
            self.socket.sendto(packet, to)


def _switch(connection: Connection, port: _Port, homes: list[Any], slots: int, lanes: int) -> None:
    switch = Switch(Aggregator(len(homes), slots, lanes=lanes), _DEVICE)
    connection.send("ready")
    while True:  # until it is killed
        packets = port.take(None)
        if packets.size:
            out = switch.many({name: packets[name] for name in _HEADER}, packets["payload"])
            packets["payload"] = out.payload
            for worker, home in enumerate(homes):
                asked = (out.action == REPLY) & (packets["worker"] == worker)
                port.send(packets[(out.action == MULTICAST) | asked], home)


def _work(
    connection: Connection,
    port: _Port,
    server: Any,
    number: int,
    room: int,
    slots: int,
    memory: Any,
) -> None:
    """Send the chunks in ``memory`` and put sums there; ``room`` of these packets fit into the buffer of the switch."""
    total = np.frombuffer(memory, np.int32).reshape(-1, *port.layout["payload"].shape)
    left = chunks = len(total)
    packets, every = np.zeros(chunks, port.layout), np.arange(chunks)
    packets["payload"], packets["worker"], packets["chunk"] = total, number, every
    packets["slot"], packets["version"] = every % slots, every // slots % 2
    # Of each slot: the chunk that it waits for, since when a packet of it is on its way [s], and if that repeats one.
    chunk, since, again = np.arange(slots), np.full(slots, np.inf), np.zeros(slots, bool)
    window = most = float(max(min(slots, room), 1))
    smooth, spread, limit, sent = 1e-3, 5e-4, _SHORTEST, 0
    connection.send("ready")
    connection.recv()
    start = now = heard = time.perf_counter()
    while left:
        idle, away = (
            np.flatnonzero(np.isinf(since) & (chunk < chunks)),
            np.count_nonzero(np.isfinite(since)),
        )
        going = idle[np.argsort(chunk[idle])][: max(int(window) - away, 0)]
        port.send(packets[chunk[going]], server)
        since[going], sent = now, sent + going.size
        answers = port.take(max(heard + limit - now, 0))
        now, newest = time.perf_counter(), -np.inf
        answers = answers[chunk[answers["slot"]] == answers["chunk"]]
        total[answers["chunk"]] = answers["payload"]
        told = np.unique(answers["slot"])
        known = told[~again[told]]  # of the others it is not known which packet was answered
        if known.size:
            newest = since[known].max()
            spread += (abs(now - newest - smooth) - spread) / 4
            smooth += (now - newest - smooth) / 8
            limit = min(max(smooth + 4 * spread, _SHORTEST), _LONGEST)
        if told.size:
            left, heard, window = left - told.size, now, min(window + told.size / window, most)
            chunk[told], since[told], again[told] = chunk[told] + slots, np.inf, False
        elif now > heard + limit:  # silence: all is lost, and the next one may last twice as long
            newest, heard, window, limit = (
                now,
                now,
                max(window / 2, min(_WINDOW, most)),
                min(2 * limit, _LONGEST),
            )
        lost = since < newest - smooth / 2  # sent well before a packet whose answer is here
        since[lost], again[lost] = np.inf, True
    connection.send((start, time.perf_counter(), sent))
