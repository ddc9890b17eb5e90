"""A network between workers and a switch that loses, doubles, delays and reorders packets, the same on every run."""

import heapq
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from fabriclab import units
from fabriclab.core import Floats
from fabriclab.errors import FabricError
from fabriclab.innetwork.aggregation import Aggregator, Chunk, Words, Worker
from fabriclab.innetwork.pipeline import DROP, REPLY, UP
from fabriclab.innetwork.switch import Switch


class Aggregated(NamedTuple):
    """The sums that each worker holds, when it had them, and what went over the wires."""

    totals: list[Words]  # for each worker (chunks, lanes)
    finish: Floats  # [s], for each worker
    packets: Counter[str]  # sent, lost, doubled, reordered, again


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
        Fresh ones, of one or several jobs.
    switch : Switch
        With an `Aggregator`. One all-reduce may follow another on it if the workers' chunks go on in number: give
        ``Worker(first=...)`` as many as their job has added there.
    racks : sequence of Switch, optional
        Below it, with equal parts of the workers in their order; rack i is worker i of ``switch``, for each job.
    loss, double, reorder : float
        Probability of each fault for each packet on each link. 0..1
    rate, delay : float or str
        Of a worker's link in one direction [B/s], > 0, and its delay [s], >= 0.
    timer : float or str
        After which a worker sends a chunk again; doubles each time. [s], > 0
    limit : float or str
        Of the simulated time. [s]
    rng : Generator, optional
        Draws the faults; of seed 0 if not given.

    Raises
    ------
    FabricError
        If a worker has not finished at the limit: the protocol hangs.
    ValueError
        If a worker has more slots than its job, or chunks that look old to the switch.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    rate_, delay_ = units.rate(rate, "rate"), units.latency(delay, "delay")
    timer_, limit_ = units.time(timer, "timer"), units.time(limit, "limit")
    if racks and len(workers) % len(racks):
        raise ValueError(
            f"racks: {len(workers)} workers cannot be dealt to {len(racks)} racks in equal parts"
        )
    for worker, one in itertools.product(workers, (switch, *racks)):
        cast(Aggregator, one.program).admit(worker, one.state)
    chances = {"lost": loss, "doubled": double, "reordered": reorder}
    gap = 4 * switch.program.lanes / rate_
    events: list[tuple[float, int, str, int, Chunk, float]] = []
    serial, packets, finish = itertools.count(), Counter[str](), np.full(len(workers), np.nan)
    n = len(workers)  # the links of racks follow theirs
    # when each link is free again [s]
    free = {way: np.zeros(n + len(racks)) for way in ("up", "down")}
    above = [n + i * len(racks) // n for i in range(n)] if racks else [-1] * n  # -1: the switch

    def send(way: str, now: float, at: int, packet: Chunk) -> None:
        free[way][at] = leaves = max(now, free[way][at]) + gap
        happens = {fault: rng.random() < chance for fault, chance in chances.items()}
        packets.update(["sent", *(fault for fault, true in happens.items() if true)])
        for copy in range((1 + happens["doubled"]) * (not happens["lost"])):
            late = rng.exponential(4 * (delay_ + gap)) if happens["reordered"] or copy else 0.0
            heapq.heappush(events, (leaves + delay_ + late, next(serial), way, at, packet, 0.0))

    def ask(now: float, at: int, packet: Chunk, wait: float) -> None:
        send("up", now, at, packet)
        heapq.heappush(events, (now + wait, next(serial), "timer", at, packet, wait))

    def below(here: int, job: int) -> list[int]:
        if racks and here < 0:
            return list(range(n, n + len(racks)))
        return [i for i, w in enumerate(workers) if w.job == job and above[i] == here]

    for at, worker in enumerate(workers):
        for packet in worker.start():
            ask(0.0, at, packet, timer_)
    while np.isnan(finish).any():
        now, _, kind, at, packet, wait = heapq.heappop(events)
        if now > limit_:
            waiting = {
                w.number: np.flatnonzero(~w.done)[:5].tolist() for w in workers if not w.done.all()
            }
            raise FabricError(
                f"not finished after {units.format_time(limit_)}; chunks that are waited for: {waiting}"
            )
        if kind == "timer":
            if not workers[at].done[workers[at].place(packet)]:
                packets["again"] += 1
                ask(now, at, packet, 2 * wait)
        elif kind == "up":
            here = above[at] if at < n else -1
            action, header, payload = (racks[here - n] if here >= 0 else switch).one(
                packet.header, packet.payload
            )
            answer = Chunk({**packet.header, **header}, payload)
            if action == UP:
                send("up", now, here, answer)
            elif action != DROP:
                for to in [at] if action == REPLY else below(here, packet.header["job"]):
                    send("down", now, to, answer)
        elif at >= n:
            for to in below(at, packet.header["job"]):
                send("down", now, to, packet)
        else:
            following = workers[at].take(packet)
            if following:
                ask(now, at, following, timer_)
            if workers[at].done.all() and np.isnan(finish[at]):
                finish[at] = now
    return Aggregated([w.total for w in workers], finish, packets)
