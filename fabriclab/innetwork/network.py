"""Simulate a network between workers and a switch that loses, duplicates, delays and reorders packets, reproducibly."""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from fabriclab import units
from fabriclab.core import Floats
from fabriclab.errors import FabricError
from fabriclab.innetwork.aggregation import Aggregator, Chunk, Words, Worker
from fabriclab.innetwork.pipeline import DROP, REPLY, UP
from fabriclab.innetwork.switch import Switch

Event = Callable[..., None]

ROOT = -1  # the node above the racks; node i is worker i, and the racks follow the workers


class Aggregated(NamedTuple):
    """The sums that each worker received, when it had them all, and the packets on the links."""

    totals: list[Words]  # for each worker (chunks, lanes)
    finish: Floats  # [s], for each worker
    packets: Counter[str]  # sent, lost, doubled, reordered, again


class Faults(NamedTuple):
    """Probability (0..1) of each fault, for each packet on each link."""

    loss: float
    double: float
    reorder: float


class Timing(NamedTuple):
    """Times [s] that all links and workers have in common."""

    gap: float  # between two packets on one link
    delay: float  # of a link
    timer: float  # until a worker sends a chunk again


class LossyNetwork:
    """Workers, racks and a root switch on faulty links, as a discrete-event simulation.

    An event is a method of this class with its arguments, kept on a heap by time. `step` calls the
    earliest one, `run` repeats that until every worker has its sums.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        root: Switch,
        racks: Sequence[Switch],
        faults: Faults,
        timing: Timing,
        rng: np.random.Generator,
    ) -> None:
        """Join node i to its parent by link i, and let every worker send its first window."""
        n = len(workers)
        n_racks = len(racks)
        self.workers = workers
        self.switches = {ROOT: root} | {n + i: rack for i, rack in enumerate(racks)}
        self.parents = [ROOT] * (n + n_racks)
        if racks:
            self.parents[:n] = [n + i * n_racks // n for i in range(n)]
        self.faults = faults
        self.timing = timing
        self.rng = rng

        self.now = 0.0  # [s]
        self.finish = np.full(n, np.nan)  # (n,) [s]
        self.packets = Counter[str]()
        self._uplink_free = [0.0] * (n + n_racks)  # when each link can take its next packet [s]
        self._downlink_free = [0.0] * (n + n_racks)
        self._events: list[tuple[float, int, Event, tuple[Any, ...]]] = []
        self._serial = itertools.count()  # at equal times the older event comes first

        for node, worker in enumerate(workers):
            for packet in worker.start():
                self.send_chunk(node, packet, timing.timer)

    def run(self, limit: float) -> None:
        """Step until every worker has all its sums, at most until ``limit`` [s]."""
        while np.isnan(self.finish).any():
            self.step(limit)

    def step(self, limit: float) -> None:
        """Go to the time of the earliest event and let it happen."""
        self.now, _, event, arguments = heapq.heappop(self._events)
        if self.now > limit:
            raise FabricError(
                f"not finished after {units.format_time(limit)}; "
                f"chunks that are waited for: {self.missing_chunks()}"
            )
        event(*arguments)

    def schedule(self, time: float, event: Event, *arguments: Any) -> None:
        """Call ``event`` with its arguments at ``time`` [s]."""
        heapq.heappush(self._events, (time, next(self._serial), event, arguments))

    # Sending

    def send_chunk(self, node: int, packet: Chunk, timer: float) -> None:
        """Send a packet from a worker and start the timer after which it is sent again."""
        self.send_up(node, packet)
        self.schedule(self.now + timer, self.timer_expires, node, packet, timer)

    def send_up(self, node: int, packet: Chunk) -> None:
        """Send a packet from a worker or rack to the switch above it."""
        self._send(self._uplink_free, self.reach_switch, node, packet)

    def send_down(self, node: int, packet: Chunk) -> None:
        """Send a packet from the switch above to a worker or rack."""
        event = self.reach_worker if node < len(self.workers) else self.reach_rack
        self._send(self._downlink_free, event, node, packet)

    def _send(self, free: list[float], event: Event, node: int, packet: Chunk) -> None:
        """Put a packet on link ``node`` once the link is free, and draw which faults it meets."""
        free[node] = max(self.now, free[node]) + self.timing.gap
        arrival = free[node] + self.timing.delay

        lost = self.rng.random() < self.faults.loss
        doubled = self.rng.random() < self.faults.double
        reordered = self.rng.random() < self.faults.reorder
        self.packets["sent"] += 1
        if lost:
            self.packets["lost"] += 1
        if doubled:
            self.packets["doubled"] += 1
        if reordered:
            self.packets["reordered"] += 1
        if lost:
            return

        extra_delay = self._extra_delay() if reordered else 0.0
        self.schedule(arrival + extra_delay, event, node, packet)
        if doubled:
            self.schedule(arrival + self._extra_delay(), event, node, packet)

    def _extra_delay(self) -> float:
        """Draw how much later [s] a packet arrives that others overtake."""
        return self.rng.exponential(4 * (self.timing.delay + self.timing.gap))

    # Events

    def timer_expires(self, node: int, packet: Chunk, timer: float) -> None:
        """Send a chunk again, with twice the time to wait, unless its sum has arrived."""
        worker = self.workers[node]
        if not worker.done[worker.place(packet)]:
            self.packets["again"] += 1
            self.send_chunk(node, packet, 2 * timer)

    def reach_switch(self, node: int, packet: Chunk) -> None:
        """Let the switch above ``node`` add a packet, and send what it answers."""
        parent = self.parents[node]
        outcome = self.switches[parent].one(packet.header, packet.payload)
        answer = Chunk(packet.header | outcome.fields, outcome.payload)
        if outcome.action == DROP:
            return
        if outcome.action == UP:
            self.send_up(parent, answer)
        elif outcome.action == REPLY:
            self.send_down(node, answer)
        else:
            self.multicast(parent, packet.header["job"], answer)

    def reach_rack(self, node: int, packet: Chunk) -> None:
        """Pass a sum from the root on to the workers of a rack."""
        self.multicast(node, packet.header["job"], packet)

    def reach_worker(self, node: int, packet: Chunk) -> None:
        """Let a worker keep a sum; send the next chunk of that slot, if there is one."""
        worker = self.workers[node]
        following = worker.take(packet)
        if following:
            self.send_chunk(node, following, self.timing.timer)
        if worker.done.all() and np.isnan(self.finish[node]):
            self.finish[node] = self.now

    def multicast(self, parent: int, job: int, packet: Chunk) -> None:
        """Send a packet to all racks below the root, or to the workers of a job below a switch."""
        for node, above in enumerate(self.parents):
            is_rack = node >= len(self.workers)
            if above == parent and (is_rack or self.workers[node].job == job):
                self.send_down(node, packet)

    def missing_chunks(self) -> dict[int, list[int]]:
        """Return the first few chunks that each worker still waits for, by its number."""
        waiting = [worker for worker in self.workers if not worker.done.all()]
        return {worker.number: np.flatnonzero(~worker.done)[:5].tolist() for worker in waiting}


def aggregate(
    workers: Sequence[Worker],
    switch: Switch,
    racks: Sequence[Switch] = (),
    *,
    loss: float = 0.0,
    double: float = 0.0,
    reorder: float = 0.0,
    rate: float | str = "100 Gb/s",  # illustrative: a link of a host
    delay: float | str = "2 us",  # illustrative: a link of a host
    timer: float | str = "50 us",  # illustrative: some round trips
    limit: float | str = "10 s",  # illustrative: far more than some round trips
    rng: np.random.Generator | None = None,
) -> Aggregated:
    """Run an all-reduce through a switch over a network with faults.

    Leaves out headers, queues of the switch, and the time that workers need to compute.

    Parameters
    ----------
    workers : sequence of Worker
        Workers of one or several jobs that have sent nothing yet.
    switch : Switch
        A switch with an `Aggregator`. Several all-reduces may follow each other on it if the workers continue to count
        their chunks: give ``Worker(first=...)`` the number of chunks that their job has added there before.
    racks : sequence of Switch, optional
        Switches below it, each with an equal part of the workers in their order; rack i is worker i of ``switch``, for
        each job.
    loss, double, reorder : float
        Probability of each fault, for each packet on each link. 0..1
    rate, delay : float or str
        Rate of a worker's link in one direction [B/s], > 0, and its delay [s], >= 0.
    timer : float or str
        Time after which a worker sends a chunk again; it doubles each time. [s], > 0
    limit : float or str
        Longest simulated time. [s]
    rng : Generator, optional
        Generator that draws the faults; with seed 0 unless given.

    Raises
    ------
    FabricError
        If a worker has not finished at the limit: the protocol hangs.
    ValueError
        If a worker has more slots than its job, or chunks that look old to the switch.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    link_rate = units.rate(rate, "rate")
    link_delay = units.latency(delay, "delay")
    first_timer = units.time(timer, "timer")
    time_limit = units.time(limit, "limit")
    if racks and len(workers) % len(racks):
        raise ValueError(
            f"racks: {len(workers)} workers cannot be dealt to {len(racks)} racks in equal parts"
        )
    for worker in workers:
        for device in (switch, *racks):
            program = cast(Aggregator, device.program)
            program.admit(worker, device.state)

    gap = 4 * switch.program.lanes / link_rate  # a lane has 4 B
    timing = Timing(gap=gap, delay=link_delay, timer=first_timer)
    faults = Faults(loss=loss, double=double, reorder=reorder)
    network = LossyNetwork(workers, switch, racks, faults, timing, rng)
    network.run(time_limit)
    totals = [worker.total for worker in workers]
    return Aggregated(totals=totals, finish=network.finish, packets=network.packets)
