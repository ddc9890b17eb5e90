"""The same protocol for real: workers and a switch are processes of this machine and talk over UDP that loses packets."""

import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.innetwork.aggregation import Aggregator, Words
from fabriclab.innetwork.pipeline import DROP, REPLY
from fabriclab.innetwork.switch import Switch
from fabriclab.processes import Process

_HERE = "127.0.0.1"
_HEADER = (("job", "u1"), ("slot", "<u2"), ("version", "u1"), ("worker", "u1"), ("chunk", "<u4"))
_BATCH = 128  # packets taken from a socket at once
_BUFFER = 2**22  # asked of the kernel, which gives what it allows [B]


class Exchanged(NamedTuple):
    """What each worker holds after an all-reduce over UDP, and what it cost."""

    totals: list[Words]  # (chunks, lanes) for each worker
    time: float  # from the first packet to the last sum of the last worker [s]
    sent: int  # packets of all workers
    again: int  # of them sent again


def exchange(
    values: Sequence[ArrayLike], *, slots: int = 64, loss: float = 0.0, seed: int = 0, patience: float | str = "60 s"
) -> Exchanged:
    """Add up the workers' values in a switch that is a process of its own.

    Each process drops what it receives with probability ``loss``; the kernel drops what its buffers cannot hold.

    Parameters
    ----------
    values : sequence of arrays of int32, (chunks, lanes)
        One for each worker; a packet carries a row.
    slots : int
        Of the switch; no more chunks of a worker are on their way. >= 1
    loss : float
        Probability. 0..0.5
    seed : int
        Of the losses.
    patience : float or str
        After which a run is given up. [s]

    Raises
    ------
    TimeoutError
        If a worker has not finished then.
    """
    rows = [np.ascontiguousarray(v, np.int32) for v in values]
    chunks, lanes = rows[0].shape
    if not 0 <= loss <= 0.5 or any(r.shape != rows[0].shape for r in rows):
        raise ValueError(f"loss must be within 0..0.5 and the shapes equal, got {loss} and {[r.shape for r in rows]}")
    wait = units.time(patience, "patience")
    with Process(_switch, len(rows), units.count(slots, "slots"), lanes, loss, seed) as switch:
        port = switch.recv(wait)
        workers = [Process(_work, w, port, slots, loss, seed, row) for w, row in enumerate(rows)]
        try:
            for worker in workers:
                worker.recv(wait)  # ready
            for worker in workers:
                worker.send("go")
            found = [worker.recv(wait) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
    start, end = min(f[1] for f in found), max(f[2] for f in found)
    return Exchanged([f[0] for f in found], end - start, sum(f[3] for f in found), sum(f[4] for f in found))


def _layout(lanes: int) -> np.dtype[Any]:
    return np.dtype([*_HEADER, ("payload", "<i4", lanes)])


def _socket() -> socket.socket:
    there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        there.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
    there.bind((_HERE, 0))
    there.setblocking(False)
    return there


class _Receiver:
    """Takes packets from a socket in batches, and loses some."""

    def __init__(self, there: socket.socket, lanes: int, loss: float, seed: Sequence[int]) -> None:
        self.socket, self.layout, self.loss = there, _layout(lanes), loss
        self.rng = np.random.default_rng(seed)

    def take(self, wait: float) -> tuple[Any, list[Any]]:
        """Return the packets that are there, after at most ``wait`` seconds, and from where they came."""
        found: list[bytes] = []
        origins: list[Any] = []
        try:
            while len(found) < _BATCH:
                data, origin = self.socket.recvfrom(self.layout.itemsize)
                if len(data) == self.layout.itemsize and self.rng.random() >= self.loss:
                    found.append(data)
                    origins.append(origin)
        except BlockingIOError:
            if not found:
                select.select([self.socket], [], [], wait)
        return np.frombuffer(b"".join(found), self.layout), origins


def _switch(connection: Connection, n: int, slots: int, lanes: int, loss: float, seed: int) -> None:
    there = _socket()
    switch = Switch(Aggregator(n, slots, lanes=lanes), "tofino1_recirculating")
    receiver = _Receiver(there, lanes, loss, (seed, n))
    connection.send(there.getsockname()[1])
    home: dict[int, Any] = {}
    while not connection.poll():
        packets, origins = receiver.take(0.5)
        if not len(packets):
            continue
        home.update(zip(packets["worker"].tolist(), origins, strict=True))
        out = switch.many({name: packets[name] for name, _ in _HEADER}, packets["payload"])
        answers = packets.copy()
        answers["payload"] = out.payload
        for i in np.flatnonzero(out.action != DROP).tolist():
            for to in [origins[i]] if out.action[i] == REPLY else home.values():
                _put(there, answers[i], to)


def _put(there: socket.socket, packet: Any, to: Any) -> None:
    try:
        there.sendto(packet.tobytes(), to)
    except BlockingIOError:  # no room in the buffer: lost, like on any network
        pass


def _work(connection: Connection, number: int, port: int, slots: int, loss: float, seed: int, values: Words) -> None:
    chunks, lanes = values.shape
    there, server = _socket(), (_HERE, port)
    receiver = _Receiver(there, lanes, loss, (seed, number))
    packets = np.zeros(chunks, _layout(lanes))
    packets["payload"], packets["worker"], packets["chunk"] = values, number, np.arange(chunks)
    packets["slot"], packets["version"] = np.arange(chunks) % slots, np.arange(chunks) // slots % 2
    total, done = np.zeros_like(values), np.zeros(chunks, bool)
    may, out = deque(range(min(slots, chunks))), dict[int, float]()  # allowed to go; on their way since [s]
    repeated: set[int] = set()
    window, smooth, spread, limit, sent = 8.0, 1e-3, 5e-4, 4e-3, 0
    connection.send("ready")
    connection.recv()
    start = cut = time.perf_counter()
    while not done.all():
        now = time.perf_counter()
        while may and len(out) < window:
            chunk = may.popleft()
            _put(there, packets[chunk], server)
            out[chunk] = now
            sent += 1
        oldest = next(iter(out.values()))
        if now - oldest > limit:
            # As TCP does: who waits too long halves its window, once for each round trip, and doubles its patience.
            if now - cut > smooth:
                window, limit, cut = max(window / 2, 1.0), min(2 * limit, 0.2), now
            for chunk in [c for c, since in out.items() if now - since > limit / 2][: int(window) or 1]:
                del out[chunk]
                may.appendleft(chunk)
                repeated.add(chunk)
            continue
        answers, _ = receiver.take(max(oldest + limit - now, 1e-4))
        now = time.perf_counter()
        for chunk, payload in zip(answers["chunk"].tolist(), answers["payload"], strict=True):
            if done[chunk]:
                continue
            total[chunk], done[chunk] = payload, True
            window = min(window + 1 / window, slots)
            since = out.pop(chunk, None)
            if since is None:
                may.remove(chunk)
            elif chunk not in repeated:  # which of its packets was answered is not known otherwise
                spread += (abs(now - since - smooth) - spread) / 4
                smooth += (now - since - smooth) / 8
                limit = max(smooth + 4 * spread, 1e-3)
            if chunk + slots < chunks:
                may.append(chunk + slots)
    connection.send((total, start, time.perf_counter(), sent, sent - chunks))
