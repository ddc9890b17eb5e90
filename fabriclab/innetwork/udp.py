"""Run the protocol for real: workers and a switch as processes of this machine, with lossy UDP between them.

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
    """Run an all-reduce over UDP between processes: the workers, and a switch that adds their values.

    Each process drops a received packet with probability ``loss``; the kernel drops what its buffers cannot hold. A
    worker sends a packet again as soon as one that left well after it has been answered. If nothing at all is answered
    for longer than round trips usually take, it sends everything in transit again, with half the window and twice the
    timer. A datagram that is not a packet of this run is dropped and counted; one that looks like a packet is accepted.

    Parameters
    ----------
    values : sequence of arrays of int32, (chunks, lanes)
        Values of each worker; a packet, which is one datagram, carries one row.
    slots : int
        Slots of the switch, and the most chunks that a worker has in transit. >= 1
    loss : float
        Probability that a packet is dropped. 0..0.2
    seed : int
        Seed of the losses. >= 0
    patience : float or str
        Time after which a run is given up. [s]

    Raises
    ------
    FabricError
        If a worker or the switch ends before all workers have their sums.
    TimeoutError
        If a worker has not finished then.
    """
    rows = _rows(values)
    if not 0 <= loss <= 0.2:
        raise ValueError(f"loss must be a probability within 0..0.2, got {loss!r}")
    n = len(rows)
    end = time.monotonic() + units.time(patience, "patience")
    chunks, lanes = rows[0].shape if rows else (0, 1)
    seed = units.count(seed, "seed", low=0)
    Switch(
        Aggregator(n, slots, lanes=lanes), _DEVICE
    )  # refuses what does not fit before a process starts

    run = (n, slots, chunks)
    ports = [_Port(lanes, loss, (seed, number), run) for number in range(n + 1)]
    server = ports[n]
    homes = [port.address for port in ports[:n]]
    # Arrays go there and back in common memory, messages are short: who stops while it sends holds up nobody.
    shared = [RawArray("i", row.size) for row in rows]
    totals = [np.frombuffer(memory, np.int32).reshape(-1, lanes) for memory in shared]
    members: dict[str, Process] = {}
    try:
        for w, row in enumerate(rows):
            totals[w][...] = row
            members[f"worker {w}"] = Process(
                _work, ports[w], server.address, w, server.room // n, slots, shared[w]
            )
        workers = list(members.values())
        members["the switch"] = Process(_switch, server, homes, slots, lanes)
        _hear(members, n + 1, end)  # all are ready
        for worker in workers:
            with suppress(OSError):  # who is dead is named below
                worker.send("go")
        found = _hear(members, n, end)
    finally:
        for member in members.values():
            member.kill()
            member.connection.close()
        for port in ports:
            port.socket.close()

    starts = [found[f"worker {w}"][0] for w in range(n)]
    ends = [found[f"worker {w}"][1] for w in range(n)]
    sent = sum(found[f"worker {w}"][2] for w in range(n))
    return Exchanged(
        totals=totals,
        time=max(ends) - min(starts),
        sent=sent,
        again=sent - n * chunks,
        strays=sum(port.strays.value for port in ports),
    )


def _rows(values: Sequence[ArrayLike]) -> list[Words]:
    """Return the workers' values as arrays (chunks, lanes) of one shape, or refuse them."""
    rows = [np.asarray(given).astype(np.int32, copy=False) for given in values]
    same = all(row.ndim == 2 and row.size and row.shape == rows[0].shape for row in rows)
    if same and all(map(np.array_equal, rows, values)):
        return rows
    got = [f"{np.asarray(given).dtype} {np.shape(given)}" for given in values]
    raise ValueError(
        "values must be whole numbers of 32 bits with a sign, in arrays (chunks, lanes) of one shape; "
        f"got {got}"
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
        for name, member in left.items():
            if member.connection not in ready:
                continue
            try:
                found[name] = member.recv()
            except (EOFError, OSError):
                raise FabricError(
                    f"{name} (process {member.pid}) ended before all had their sums"
                ) from None
    return found


class _Port:
    """A socket that loses some of the packets that come, and all that are none of a run's workers, slots and chunks."""

    def __init__(
        self, lanes: int, loss: float, seed: Sequence[int], run: tuple[int, int, int]
    ) -> None:
        self.run = run
        self.strays = RawValue("q")  # common memory: the process that counts is killed
        self.layout = np.dtype([*_HEADER.items(), ("payload", "<i4", lanes)])
        self.loss = loss
        self.rng = np.random.default_rng(seed)
        self.buffer = bytearray(_BATCH * self.layout.itemsize)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        # [packets]
        self.room = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // _ROOM
        self.socket.bind(("127.0.0.1", 0))
        self.address = self.socket.getsockname()

    def take(self, wait: float | None) -> NDArray[Any]:
        """Return the packets that are there, after at most ``wait`` seconds."""
        select.select([self.socket], [], [], wait)
        size = self.layout.itemsize
        view = memoryview(self.buffer)
        filled = 0  # [B]
        came = 0  # datagrams
        with suppress(BlockingIOError):
            while filled < len(view):
                length = self.socket.recv_into(view[filled:], size, _NOW)
                if length == size:  # the whole length is told of one that is too long
                    filled += size
                came += 1

        found = np.frombuffer(view[:filled], self.layout)
        mine = self._of_this_run(found)
        self.strays.value += came - np.count_nonzero(mine)
        kept = self.rng.random(len(found)) >= self.loss
        return found[np.flatnonzero(mine & kept)]

    def _of_this_run(self, packets: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which packets have a worker, slot and chunk of this run."""
        workers, slots, chunks = self.run
        chunk = packets["chunk"]
        mine = (packets["worker"] < workers) & (packets["job"] == 0) & (chunk < chunks)
        mine &= packets["slot"] == chunk % slots
        mine &= packets["version"] == chunk // slots % 2
        return np.asarray(mine)

    def send(self, packets: NDArray[Any], to: Any) -> None:
        """Send each packet as a datagram."""
        for packet in packets:
            self.socket.sendto(packet, to)


def _switch(connection: Connection, port: _Port, homes: list[Any], slots: int, lanes: int) -> None:
    """Add the packets that come, and answer them, until the process is killed."""
    switch = Switch(Aggregator(len(homes), slots, lanes=lanes), _DEVICE)
    connection.send("ready")
    while True:
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
    chunks = len(total)
    packets = _packets(total, number, slots, port.layout)

    # Of each slot: the chunk that it waits for, since when a packet of it is on its way [s], and if that repeats one.
    chunk = np.arange(slots)
    since = np.full(slots, np.inf)
    again = np.zeros(slots, bool)
    left = chunks
    sent = 0
    most = float(max(min(slots, room), 1))
    window = most
    trip = _RoundTrip()

    connection.send("ready")
    connection.recv()
    start = time.perf_counter()
    now = start
    heard = start
    while left:
        idle = np.flatnonzero(np.isinf(since) & (chunk < chunks))
        away = np.count_nonzero(np.isfinite(since))
        going = idle[np.argsort(chunk[idle])][: max(int(window) - away, 0)]
        port.send(packets[chunk[going]], server)
        since[going] = now
        sent += going.size

        answers = port.take(max(heard + trip.limit - now, 0))
        now = time.perf_counter()
        answers = answers[chunk[answers["slot"]] == answers["chunk"]]
        total[answers["chunk"]] = answers["payload"]
        answered = np.unique(answers["slot"])

        newest = (
            -np.inf
        )  # when the newest packet left of which it is known that it was answered [s]
        known = answered[
            ~again[answered]
        ]  # of the others it is not known which packet was answered
        if known.size:
            newest = since[known].max()
            trip.measure(now - newest)
        if answered.size:
            left -= answered.size
            heard = now
            window = min(window + answered.size / window, most)
            chunk[answered] += slots
            since[answered] = np.inf
            again[answered] = False
        elif (
            now > heard + trip.limit
        ):  # silence: all is lost, and the next one may last twice as long
            newest = now
            heard = now
            window = max(window / 2, min(_WINDOW, most))
            trip.back_off()

        lost = since < newest - trip.mean / 2  # sent well before a packet whose answer is here
        since[lost] = np.inf
        again[lost] = True
    connection.send((start, time.perf_counter(), sent))


def _packets(values: Words, number: int, slots: int, layout: np.dtype[Any]) -> NDArray[Any]:
    """Return the packets of a worker for all its chunks."""
    every = np.arange(len(values))
    packets = np.zeros(len(values), layout)
    packets["payload"] = values
    packets["worker"] = number
    packets["chunk"] = every
    packets["slot"] = every % slots
    packets["version"] = every // slots % 2
    return packets


class _RoundTrip:
    """Time from a packet to its answer, and how long to wait for one, as TCP does [1]_."""

    def __init__(self) -> None:
        """Start with a guess that the first measurements correct."""
        self.mean = 1e-3  # smoothed [s]
        self.spread = 5e-4  # smoothed deviation from the mean [s]
        self.limit = _SHORTEST  # [s]

    def measure(self, seconds: float) -> None:
        """Take another time into account."""
        self.spread += (abs(seconds - self.mean) - self.spread) / 4
        self.mean += (seconds - self.mean) / 8
        self.limit = min(max(self.mean + 4 * self.spread, _SHORTEST), _LONGEST)

    def back_off(self) -> None:
        """Wait twice as long for the next answer."""
        self.limit = min(2 * self.limit, _LONGEST)
