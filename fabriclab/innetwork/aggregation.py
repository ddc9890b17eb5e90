"""All-reduce in a programmable switch: slots with two versions, and workers that send lost packets again.

A slot of the pool adds one chunk. Its two versions take turns: a worker uses the second version only when it has the
result of the first, so a worker that uses the first again proves that nobody needs its old content.

References
----------
.. [1] A. Sapio et al., Scaling Distributed Machine Learning with In-Network Aggregation, NSDI 2021; P4 program and
   workers at github.com/p4lang/p4app-switchML.
.. [2] R. Elz, R. Bush, Serial Number Arithmetic, RFC 1982, 1996.
"""

from collections.abc import Iterator, Mapping
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
    """Switch program that adds what workers send: for both versions of each slot, who has sent, who is left, the sums.

    The published program keeps a bitmap of workers for each version. It takes a packet that comes later than a newer
    one of its worker for a new one; so it relies on a network that keeps the order. Here each worker's last chunk is
    kept instead, which tells old packets from new ones by serial numbers [2]_: they go round at 2^32, and a packet that
    is 2^31 chunks late would look new. A job's next all-reduce must go on in number, by ``first`` of `Worker`: counted
    from 0 again, a chunk is as old as one that the registers hold, and its packet is dropped or answered with an old
    sum. It is then as safe as if it were part of the first one, since whoever begins it holds all sums of before. The
    header is believed: against a hostile tenant the network has to write ``job``, and workers of one job trust each
    other.

    Parameters
    ----------
    workers : int
        Number of workers of each job. 1..32
    slots : int
        Number of slots in the pool, for all jobs together. >= 1
    lanes : int
        Number of 32-bit values in a packet.
    jobs : int
        Number of jobs, each of which gets an equal part of the pool. >= 1
    rack : int, optional
        Number of this switch among the switches below another one. To that one it is a worker: it sends its sums there
        instead of answering, and only passes on to its own workers what comes down.
    published : bool
        Whether to use the bitmap of the published program.

    Examples
    --------
    A packet of 64 values, as the published program has, fits into one pass; for several jobs, where adding the first
    slot of the job takes one more stage, fewer fit unless the program keeps bitmaps.

    >>> from fabriclab.innetwork import Switch
    >>> [Switch(Aggregator(8, lanes=64, jobs=jobs, published=True)).stages for jobs in (1, 4)]
    [12, 12]
    >>> [Switch(Aggregator(8, lanes=lanes, jobs=jobs)).stages for lanes, jobs in ((64, 1), (56, 4))]
    [12, 12]
    >>> Switch(Aggregator(8, lanes=57, jobs=4))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    fabriclab.innetwork.expressions.ProgramRefused: stage 12, register 'sums': ...
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
        """Make the registers; the cells of the second version follow those of the first."""
        self.workers = units.count(workers, "workers", high=MOST_WORKERS)
        self.quota = units.count(slots, "slots") // units.count(jobs, "jobs", high=slots)
        self.jobs = jobs
        self.lanes = units.count(lanes, "lanes")
        self.published = published
        self.rack = None if rack is None else units.count(rack, "rack", 0, MOST_WORKERS - 1)
        self.fields = {"job": 8, "slot": 16, "version": 1, "worker": 5, "chunk": 32}

        # No packet can skip an access, so a refused one needs a cell, too: for job j it is slots + j * quota.
        self.slots = slots
        self.cells = slots + self.quota * (jobs - 1) + 1
        seen = self.cells if published else self.cells * MOST_WORKERS
        self.seen = self.register("seen", seen, pair=published)
        self.left = self.register("left", 2 * self.cells)
        self.sums = self.register("sums", 2 * self.cells, lanes=lanes)

    def apply(self, packet: Packet) -> None:
        """Add a first packet of a worker; answer all with the last, and whoever repeats one that is complete."""
        known_worker = (packet.job < self.jobs) & (packet.worker < self.workers)
        accepted = known_worker & (packet.slot < self.quota)
        slot = where(accepted, packet.slot, self.slots)
        if self.jobs > 1:
            first_slots = [job * self.quota for job in range(self.jobs)]
            slot = slot + look_up(packet.job, first_slots)
        duplicate, stale = self.recognise(packet, slot)
        adds_nothing = duplicate | stale | ~accepted
        cell = slot + where(packet.version == 1, self.cells, 0)

        def count_down(left: Any) -> tuple[Any, Any]:
            # After 0 the slot begins its next chunk, of which this packet is the first.
            following = where(left == 0, self.workers - 1, left - 1)
            return where(adds_nothing, left, following), left

        left = self.left.access(cell, count_down)  # workers that had not sent before this packet

        def add(total: Any) -> tuple[Any, Any]:
            added = where(left == 0, packet.payload, total + packet.payload)
            new = where(adds_nothing, total, added)
            return new, new

        packet.payload = self.sums.access(cell, add)

        last = 1 if self.workers > 1 else 0
        complete = (left == last) & ~adds_nothing
        lost_answer = (left == 0) & duplicate & accepted  # its worker has not received the sum
        if self.rack is None:
            packet.multicast(complete)
            packet.reply(lost_answer)
        else:
            packet.set("worker", self.rack)
            packet.up(complete | lost_answer)

    def recognise(self, packet: Packet, slot: Any) -> tuple[Any, Any]:
        """Return whether a packet repeats the newest one of its worker in its slot, and whether it is older."""
        if self.published:
            return self._recognise_by_bitmap(packet, slot)

        own = look_up(packet.worker, [worker * self.cells for worker in range(MOST_WORKERS)])
        new = packet.chunk + 1

        def keep_newest(last: Any) -> tuple[Any, Any]:
            return where(last - new < 0, new, last), last - new

        late = self.seen.access(slot + own, keep_newest)
        return late == 0, late > 0

    def _recognise_by_bitmap(self, packet: Packet, slot: Any) -> tuple[Any, Any]:
        """Recognise a packet as the published program does, by bitmaps, which cannot tell that it is older."""
        bit = look_up(packet.worker, [1 << worker for worker in range(MOST_WORKERS)])
        second = packet.version == 1

        def mark_worker(first_map: Any, second_map: Any) -> tuple[Any, Any]:
            # Who sends in one version has the result of the other, where its bit is cleared for its next chunk.
            own = where(second, second_map, first_map)
            other = where(second, first_map, second_map) & ~bit
            return where(second, (other, own | bit), (own | bit, other)), own & bit

        duplicate = self.seen.access(slot, mark_worker) != 0
        stale = packet.version > 1  # never, as a version has one bit
        return duplicate, stale

    def admit(self, worker: "Worker", state: Mapping[str, Words]) -> None:
        """Refuse a worker whose packets a switch with these registers would drop, or take for old ones."""
        name = f"worker {worker.number} of job {worker.job}"
        quota = self.quota if worker.job < self.jobs else 0
        if worker.slots > quota:
            raise ValueError(
                f"slots must be at most the {quota} of its job in the switch, got {worker.slots} of {name}; give it "
                f"fewer, or the Aggregator {worker.slots * self.jobs}, or more jobs"
            )

        if self.published:
            # Bitmaps do not tell how many chunks were added, only that there were some.
            old = 1 if any(cells.any() for cells in state.values()) else 0
        else:
            newest = state["seen_a"].reshape(MOST_WORKERS, -1)  # (workers, cells), 0: none yet
            first_slot = worker.job * self.quota
            of_job = newest[: self.workers, first_slot : first_slot + worker.slots]
            # The difference wraps at 32 bits, as the switch does.
            old = (of_job - np.int64(worker.first).astype(np.int32)).max()
        if old > 0:
            raise ValueError(
                f"first must be beyond what the switch has seen, got {worker.first} of {name}, {old} or more too low; "
                "give the number of chunks that its job has added there, or clear() all switches"
            )


class Chunk(NamedTuple):
    """A packet that a worker sends, or with which a switch answers."""

    header: dict[str, int]
    payload: Words


class Worker:
    """One worker of a job, with a window of one chunk per slot: each answer moves it on, and timers repair losses.

    Parameters
    ----------
    number : int
        Number of this worker. 0..31
    values : array of int32, (chunks, lanes)
        Values that it adds to the sum.
    slots : int
        Number of slots of its job, which is the most chunks in transit. 1..quota of the program
    job : int
        Number of its job.
    first : int
        Number of chunks that its job has added on this switch before, with as many slots; it continues to count from
        there. >= 0

    Attributes
    ----------
    total : array of int32, (chunks, lanes)
        The sum, chunk by chunk as it arrives.
    """

    def __init__(
        self, number: int, values: ArrayLike, slots: int, job: int = 0, first: int = 0
    ) -> None:
        """Start with nothing sent."""
        self.number = units.count(number, "number", 0)
        self.job = units.count(job, "job", 0)
        self.slots = units.count(slots, "slots")
        self.first = units.count(first, "first", 0)

        given = np.asarray(values)
        with np.errstate(invalid="ignore"):
            self.values = given.astype(np.int32)
        if self.values.ndim != 2 or not np.array_equal(self.values, given):
            msg = "values must be whole numbers of 32 bits with a sign, in an array (chunks, lanes)"
            raise ValueError(f"{msg}; got {given.dtype} {given.shape}; quantise floats first")

        self.total = np.zeros_like(self.values)
        self.done = np.zeros(len(self.values), bool)

    def packet(self, chunk: int) -> Chunk:
        """Return the packet of a chunk of ``values``; its slot and version follow from its number on the switch."""
        number = self.first + chunk
        turn, slot = divmod(number, self.slots)
        header = {
            "job": self.job,
            "slot": slot,
            "version": turn % 2,
            "worker": self.number,
            "chunk": number % 2**32,
        }
        return Chunk(header, self.values[chunk])

    def place(self, packet: Chunk) -> int:
        """Return which of ``values`` a packet or an answer is about; beyond all of them, it is one of before."""
        return (packet.header["chunk"] - self.first) % 2**32

    def start(self) -> Iterator[Chunk]:
        """Send the first window."""
        return map(self.packet, range(min(self.slots, len(self.values))))

    def take(self, answer: Chunk) -> Chunk | None:
        """Keep a sum that it waits for; return the next packet of its slot, which that allows it to send."""
        chunk = self.place(answer)
        if chunk >= len(self.done) or self.done[chunk]:
            return None
        self.total[chunk] = answer.payload
        self.done[chunk] = True
        following = chunk + self.slots
        return self.packet(following) if following < len(self.done) else None
