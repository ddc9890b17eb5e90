"""All-reduce in a programmable switch: slots of two versions, and workers that send again what was lost.

A slot of the pool adds one chunk. Each slot has two versions that take turns: a worker asks for the second only when it
holds the result of the first, so whoever asks for the first again proves that nobody needs its old content.

References
----------
.. [1] A. Sapio et al., Scaling Distributed Machine Learning with In-Network Aggregation, NSDI 2021; P4 program and
   workers at github.com/p4lang/p4app-switchML.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.innetwork.expressions import look_up, where
from fabriclab.innetwork.pipeline import Packet, Program

Words = NDArray[np.int32]
LARGEST = 2**31 - 1
MOST_WORKERS = 32  # source: p4app-SwitchML, the bits of the bitmap


class Aggregator(Program):
    """Adds what workers send: who has sent, how many are left, and the sums, for both versions of each slot.

    The published program keeps a bitmap of workers for each version. It takes a packet that comes later than a newer
    one of its worker for a new one; so it relies on a network that keeps the order. Here each worker's last chunk is
    kept instead, which tells old packets from new ones. Left out: chunks beyond 2^31, and a second all-reduce in the
    same registers, whose chunks would have to go on in number. The header is believed: against a hostile tenant the
    network has to write ``job``, and workers of one job trust each other.

    Parameters
    ----------
    workers : int
        Of each job. 1..32
    slots : int
        Of the pool, all jobs together. >= 1
    lanes : int
        32-bit values of a packet.
    jobs : int
        The pool is divided into equal parts for so many jobs. >= 1
    rack : int, optional
        The number of this switch among those below another one, to which it is a worker: it sends there what others
        answer. What comes down from there is only passed on to its workers.
    published : bool
        Keep the bitmap of the published program.
    """

    def __init__(
        self,
        workers: int,
        slots: int = 512,
        *,
        lanes: int = 32,
        jobs: int = 1,
        rack: int | None = None,
        published: bool = False,
    ) -> None:
        """Make the registers; a chunk's version is the lowest bit of its cell."""
        self.workers = units.count(workers, "workers", high=MOST_WORKERS)
        self.quota = units.count(slots, "slots") // units.count(jobs, "jobs", high=slots)
        self.jobs, self.lanes, self.published = jobs, lanes, published
        self.rack = None if rack is None else units.count(rack, "rack", 0, MOST_WORKERS - 1)
        self.fields = {"job": 8, "slot": 16, "version": 1, "worker": 5, "chunk": 31}
        self.slots = slots  # the cells behind them are those of packets that are refused
        cells = slots + 1
        self.seen = self.register("seen", cells if published else cells * MOST_WORKERS, pair=published)
        self.left = self.register("left", 2 * cells)
        self.sums = self.register("sums", 2 * cells, lanes=lanes)

    def apply(self, packet: Packet) -> None:
        """Add a first packet of a worker; answer all with the last, and whoever repeats one that is complete."""
        mine = (packet.job < self.jobs) & (packet.slot < self.quota) & (packet.worker < self.workers)
        first = look_up(packet.job, [job * self.quota for job in range(self.jobs)])
        slot = where(mine, packet.slot + first, self.slots)
        again, stale = self.recognise(packet, slot)
        passed = again | stale | ~mine
        cell = (slot << 1) | packet.version
        count = self.left.access(
            cell, lambda left: (where(passed, left, where(left == 0, self.workers - 1, left - 1)), left)
        )

        def add(total: Any) -> tuple[Any, Any]:
            new = where(passed, total, where(count == 0, packet.payload, total + packet.payload))
            return new, new

        packet.payload = self.sums.access(cell, add)
        full, repeated = (count == (1 if self.workers > 1 else 0)) & ~passed, (count == 0) & again & mine
        if self.rack is None:
            packet.multicast(full)
            packet.reply(repeated)
        else:
            packet.set("worker", self.rack)
            packet.up(full | repeated)

    def recognise(self, packet: Packet, slot: Any) -> tuple[Any, Any]:
        """Return whether a packet repeats the newest one of its worker in its slot, and whether it is older."""
        if self.published:
            bit, second = look_up(packet.worker, [1 << w for w in range(MOST_WORKERS)]), packet.version == 1
            others = ~bit
            # In one access: note the worker in its version and take it out of the other one.
            before = self.seen.access(
                slot, lambda a, b: (where(second, (a & others, b | bit), (a | bit, b & others)), where(second, b, a))
            )
            return (before & bit) != 0, packet.chunk < 0
        new = packet.chunk + 1
        newest = self.seen.access((slot << 5) | packet.worker, lambda last: (where(last < new, new, last), last))
        return newest == new, newest > new


class Chunk(NamedTuple):
    """What a worker sends and a switch answers."""

    header: dict[str, int]
    payload: Words


class Worker:
    """One worker of a job: a window of one chunk for each slot, moved on by each answer, repaired by timers.

    Parameters
    ----------
    number : int
        Of this worker. 0..31
    values : array of int32, (chunks, lanes)
        What it adds to the sum.
    slots : int
        Of its job; so many chunks are on their way at most. 1..quota of the program
    job : int
        Of the worker.

    Attributes
    ----------
    total : array of int32, (chunks, lanes)
        The sum, chunk by chunk as it arrives.
    """

    def __init__(self, number: int, values: ArrayLike, slots: int, job: int = 0) -> None:
        """Start with nothing sent."""
        self.number, self.job, self.slots = number, job, slots
        given = np.asarray(values)
        with np.errstate(invalid="ignore"):
            self.values = given.astype(np.int32)
        if self.values.ndim != 2 or not np.array_equal(self.values, given):
            msg = "values must be whole numbers of 32 bits with a sign, in an array (chunks, lanes)"
            raise ValueError(f"{msg}; got {given.dtype} {given.shape}; quantise floats first")
        self.total, self.done = np.zeros_like(self.values), np.zeros(len(self.values), bool)

    def packet(self, chunk: int) -> Chunk:
        """Return the packet of a chunk; its slot and version follow from its number."""
        turn, slot = divmod(chunk, self.slots)
        header = {"job": self.job, "slot": slot, "version": turn % 2, "worker": self.number, "chunk": chunk}
        return Chunk(header, self.values[chunk])

    def start(self) -> Iterator[Chunk]:
        """Send the first window."""
        return map(self.packet, range(min(self.slots, len(self.values))))

    def take(self, answer: Chunk) -> Chunk | None:
        """Keep a sum that it waits for; return the next packet of its slot, which that allows it to send."""
        chunk = answer.header["chunk"]
        if chunk >= len(self.done) or self.done[chunk]:
            return None
        self.total[chunk], self.done[chunk] = answer.payload, True
        following = chunk + self.slots
        return self.packet(following) if following < len(self.done) else None
