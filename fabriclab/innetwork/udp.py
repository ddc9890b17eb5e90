"""Run the protocol for real: workers and a switch as processes of this machine, with lossy UDP between them.

References
----------
.. [1] V. Paxson et al., Computing TCP's Retransmission Timer, RFC 6298, 2011.
.. [2] Y. Cheng et al., The RACK-TLP Loss Detection Algorithm for TCP, RFC 8985, 2021: packets count as lost by time.
"""

import select
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.sharedctypes import RawArray, RawValue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.errors import FabricError
from fabriclab.innetwork.aggregation import Aggregator, Words, Worker
from fabriclab.innetwork.network import aggregate
from fabriclab.innetwork.pipeline import MULTICAST, REPLY
from fabriclab.innetwork.switch import Switch
from fabriclab.processes import Process
from fabriclab.texts import text

_DEVICE = "tofino1_recirculating"
# Whole words, so that the payload is aligned.
_HEADER = {"chunk": "<u4", "slot": "<u2", "job": "u1", "version": "u1", "worker": "<u4"}
# Do not wait for a datagram, and return its whole length even if it is longer than the space for it.
_RECEIVE_FLAGS = socket.MSG_DONTWAIT | socket.MSG_TRUNC
_BATCH = 256  # packets taken from a socket at once
_BUFFER = 2**22  # of a socket; the kernel gives what it allows [B]
# Space that a packet takes in the buffer; 2315 B for the largest, counted on Linux 6.18 [B].
_PACKET_IN_BUFFER = 2560
_LEAST_WINDOW = 32  # time-outs do not halve the window any further
_SHORTEST_TIMER = 0.01  # illustrative: for processes of one machine [s]
_LONGEST_TIMER = 0.2  # illustrative: for processes of one machine [s]


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
    # A program that does not fit is refused here, before a process starts.
    Switch(Aggregator(n, slots, lanes=lanes), _DEVICE)

    run = (n, slots, chunks)
    ports = [_Port(lanes, loss, (seed, number), run) for number in range(n + 1)]
    switch_port = ports[n]
    worker_addresses = [port.address for port in ports[:n]]
    # Arrays travel in shared memory and messages through pipes are short, so that a process that is stopped while it
    # sends does not block the others.
    shared = [RawArray("i", row.size) for row in rows]
    totals = [np.frombuffer(memory, np.int32).reshape(-1, lanes) for memory in shared]
    members: dict[str, Process] = {}
    try:
        for w, row in enumerate(rows):
            totals[w][...] = row
            members[f"worker {w}"] = Process(
                _work, ports[w], switch_port.address, w, switch_port.room // n, slots, shared[w]
            )
        workers = list(members.values())
        members["the switch"] = Process(_switch, switch_port, worker_addresses, slots, lanes)
        _messages_of(members, n + 1, end)  # all are ready
        for worker in workers:
            with suppress(OSError):  # a process that has ended is named below
                worker.send("go")
        reports = _messages_of(members, n, end)
    finally:
        for member in members.values():
            member.kill()
            member.connection.close()
        for port in ports:
            port.socket.close()

    starts = [reports[f"worker {w}"][0] for w in range(n)]
    ends = [reports[f"worker {w}"][1] for w in range(n)]
    sent = sum(reports[f"worker {w}"][2] for w in range(n))
    return Exchanged(
        totals=totals,
        time=max(ends) - min(starts),
        sent=sent,
        again=sent - n * chunks,
        strays=sum(port.strays.value for port in ports),
    )


class Delivered(NamedTuple):
    """What each worker holds after an all-reduce that lost packets, and how many packets that took."""

    totals: list[Words]  # (chunks, lanes) for each worker
    sent: int  # packets of all workers
    again: int  # of them sent again
    how: str  # over UDP, or simulated and why

    @property
    def part_again(self) -> float:
        """Return the part of all packets of workers that were sent again, 0..1."""
        return self.again / self.sent

    @property
    def obtained(self) -> str:
        """Return how the numbers were obtained: measured over UDP, or computed by a simulation."""
        return "measured" if self.how == text("udp.real") else "computed"


def exchange_or_simulate(
    values: Sequence[ArrayLike],
    *,
    slots: int = 512,
    loss: float = 0.0,
    seed: int = 0,
    patience: float | str = "60 s",  # illustrative: far more than any run takes
) -> Delivered:
    """Run an all-reduce over UDP as `exchange` does; where no process or socket can be had, simulate the network.

    The simulated workers and the switch run the same protocol, one after the other, so the sums and the number of
    packets mean the same; times do not, and are left out.

    Parameters
    ----------
    values, slots, loss, seed, patience
        As in `exchange`.
    """
    try:
        ran = exchange(values, slots=slots, loss=loss, seed=seed, patience=patience)
    except (OSError, EOFError, FabricError) as error:  # TimeoutError is an OSError
        why = str(error)
    else:
        return Delivered(ran.totals, ran.sent, ran.again, text("udp.real"))

    rows = _rows(values)
    workers = [Worker(number, row, slots) for number, row in enumerate(rows)]
    switch = Switch(Aggregator(len(rows), slots, lanes=rows[0].shape[1]), _DEVICE)
    run = aggregate(workers, switch, loss=loss, rng=np.random.default_rng(seed))
    again = run.packets["again"]
    sent = len(rows) * len(rows[0]) + again
    return Delivered(run.totals, sent, again, text("udp.simulated", why=why))


def _rows(values: Sequence[ArrayLike]) -> list[Words]:
    """Return the workers' values as arrays (chunks, lanes) of one shape, or refuse them."""
    rows = [np.asarray(given).astype(np.int32, copy=False) for given in values]
    one_shape = all(row.ndim == 2 and row.size and row.shape == rows[0].shape for row in rows)
    if one_shape and all(map(np.array_equal, rows, values)):  # the conversion changed no value
        return rows
    got = [f"{np.asarray(given).dtype} {np.shape(given)}" for given in values]
    raise ValueError(
        "values must be whole numbers of 32 bits with a sign, in arrays (chunks, lanes) of one shape; "
        f"got {got}"
    )


def _messages_of(members: Mapping[str, Process], wanted: int, end: float) -> dict[str, Any]:
    """Wait until ``wanted`` of the processes have sent a message; return the messages by the name of the process.

    If a process has ended, or some have sent nothing at the time ``end``, the error names them.
    """
    messages: dict[str, Any] = {}
    while len(messages) < wanted:
        silent = {name: member for name, member in members.items() if name not in messages}
        connections = [member.connection for member in silent.values()]
        ready = wait(connections, end - time.monotonic())
        if not ready:
            late = ", ".join([*silent][: wanted - len(messages)])
            raise TimeoutError(f"not finished in time: {late}; give it more patience")
        for name, member in silent.items():
            if member.connection not in ready:
                continue
            try:
                messages[name] = member.recv()
            except (EOFError, OSError):
                raise FabricError(
                    f"{name} (process {member.pid}) ended before all had their sums"
                ) from None
    return messages


class _Port:
    """A UDP socket that drops some of the packets that arrive, and all that no worker of this run can have sent.

    ``run`` has the number of workers, slots and chunks, by which a packet of this run is recognised.
    """

    def __init__(
        self, lanes: int, loss: float, seed: Sequence[int], run: tuple[int, int, int]
    ) -> None:
        self.run = run
        self.strays = RawValue("q")  # in shared memory, which outlives the process that counts
        self.layout = np.dtype([*_HEADER.items(), ("payload", "<i4", lanes)])
        self.loss = loss
        self.rng = np.random.default_rng(seed)
        self.buffer = bytearray(_BATCH * self.layout.itemsize)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        buffer = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)  # [B]
        self.room = buffer // _PACKET_IN_BUFFER  # [packets]
        self.socket.bind(("127.0.0.1", 0))
        self.address = self.socket.getsockname()

    def take(self, wait: float | None) -> NDArray[Any]:
        """Return the packets that have arrived; if none has, wait for one, at most ``wait`` seconds."""
        select.select([self.socket], [], [], wait)
        size = self.layout.itemsize
        view = memoryview(self.buffer)
        filled = 0  # [B]
        arrived = 0  # datagrams of any length
        with suppress(BlockingIOError):  # no other datagram is there
            while filled < len(view):
                length = self.socket.recv_into(view[filled:], size, _RECEIVE_FLAGS)
                if length == size:  # one of another length is overwritten by the next
                    filled += size
                arrived += 1

        packets = np.frombuffer(view[:filled], self.layout)
        of_run = self._of_this_run(packets)
        self.strays.value += arrived - np.count_nonzero(of_run)
        kept = self.rng.random(len(packets)) >= self.loss
        return packets[np.flatnonzero(of_run & kept)]

    def _of_this_run(self, packets: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which packets have a worker, slot and chunk of this run."""
        workers, slots, chunks = self.run
        chunk = packets["chunk"]
        possible = (packets["worker"] < workers) & (packets["job"] == 0) & (chunk < chunks)
        possible &= packets["slot"] == chunk % slots
        possible &= packets["version"] == chunk // slots % 2
        return np.asarray(possible)

    def send(self, packets: NDArray[Any], to: Any) -> None:
        """Send each packet as a datagram."""
        for packet in packets:
            self.socket.sendto(packet, to)


def _switch(
    connection: Connection, port: _Port, worker_addresses: list[Any], slots: int, lanes: int
) -> None:
    """Add the values of packets that arrive, and answer, until the process is killed."""
    switch = Switch(Aggregator(len(worker_addresses), slots, lanes=lanes), _DEVICE)
    connection.send("ready")
    while True:
        packets = port.take(None)
        if packets.size:
            headers = {name: packets[name] for name in _HEADER}
            outcome = switch.many(headers, packets["payload"])
            packets["payload"] = outcome.payload
            for worker, address in enumerate(worker_addresses):
                to_all = outcome.action == MULTICAST
                to_worker = (outcome.action == REPLY) & (packets["worker"] == worker)
                port.send(packets[to_all | to_worker], address)


def _work(
    connection: Connection,
    port: _Port,
    switch_address: Any,
    number: int,
    room: int,
    slots: int,
    memory: Any,
) -> None:
    """Send the chunks in ``memory`` and put the sums there.

    The worker has at most ``room`` packets in transit, its part of the buffer of the switch.
    """
    total = np.frombuffer(memory, np.int32).reshape(-1, *port.layout["payload"].shape)
    chunks = len(total)
    packets = _packets(total, number, slots, port.layout)

    chunk = np.arange(slots)  # chunk that each slot waits for
    sent_at = np.full(slots, np.inf)  # when its packet in transit left, inf if there is none [s]
    resent = np.zeros(slots, bool)  # whether the packet of each slot repeats a lost one
    remaining = chunks
    sent = 0
    largest_window = float(max(min(slots, room), 1))
    window = largest_window
    trip = _RoundTrip()

    connection.send("ready")
    connection.recv()
    start = time.perf_counter()
    now = start
    last_answer = start
    while remaining:
        idle = np.flatnonzero(np.isinf(sent_at) & (chunk < chunks))
        in_transit = np.count_nonzero(np.isfinite(sent_at))
        oldest_first = idle[np.argsort(chunk[idle])]
        to_send = oldest_first[: max(int(window) - in_transit, 0)]
        port.send(packets[chunk[to_send]], switch_address)
        sent_at[to_send] = now
        sent += to_send.size

        answers = port.take(max(last_answer + trip.timeout - now, 0))
        now = time.perf_counter()
        answers = answers[chunk[answers["slot"]] == answers["chunk"]]
        total[answers["chunk"]] = answers["payload"]
        answered = np.unique(answers["slot"])

        # Of a chunk that was sent again nobody knows which of its packets was answered: it measures no round trip.
        newest = -np.inf  # when the newest packet left that is known to be answered [s]
        sent_once = answered[~resent[answered]]
        if sent_once.size:
            newest = sent_at[sent_once].max()
            trip.measure(now - newest)
        if answered.size:
            remaining -= answered.size
            last_answer = now
            window = min(window + answered.size / window, largest_window)
            chunk[answered] += slots
            sent_at[answered] = np.inf
            resent[answered] = False
        elif now > last_answer + trip.timeout:  # everything in transit counts as lost
            newest = now
            last_answer = now
            window = max(window / 2, min(_LEAST_WINDOW, largest_window))
            trip.back_off()

        # A packet that left well before an answered one, by half a round trip, is not only late.
        lost = sent_at < newest - trip.mean / 2
        sent_at[lost] = np.inf
        resent[lost] = True
    connection.send((start, time.perf_counter(), sent))


def _packets(values: Words, number: int, slots: int, layout: np.dtype[Any]) -> NDArray[Any]:
    """Return the packets of a worker for all its chunks."""
    chunk = np.arange(len(values))
    packets = np.zeros(len(values), layout)
    packets["payload"] = values
    packets["worker"] = number
    packets["chunk"] = chunk
    packets["slot"] = chunk % slots
    packets["version"] = chunk // slots % 2
    return packets


class _RoundTrip:
    """Smoothed time from a packet to its answer, and the time-out that follows from it, as in TCP [1]_."""

    def __init__(self) -> None:
        """Start with a guess that the first measurements correct."""
        self.mean = 1e-3  # smoothed [s]
        self.deviation = 5e-4  # smoothed distance from the mean [s]
        self.timeout = _SHORTEST_TIMER  # [s]

    def measure(self, seconds: float) -> None:
        """Take another round trip into account."""
        self.deviation += (abs(seconds - self.mean) - self.deviation) / 4
        self.mean += (seconds - self.mean) / 8
        timeout = self.mean + 4 * self.deviation
        self.timeout = min(max(timeout, _SHORTEST_TIMER), _LONGEST_TIMER)

    def back_off(self) -> None:
        """Double the time-out, up to the longest."""
        self.timeout = min(2 * self.timeout, _LONGEST_TIMER)
