"""A switch program packet by packet and in batches, beside the times asked for, and all-reduces of 64 MiB over UDP.

UDP: two workers and a switch, each a process; each of them loses what it receives with the given probability. The peer
of a run with losses is one without, so the ratio is that of the goodputs. CPU is that of all processes, their start
included.
"""

from __future__ import annotations

import resource
from statistics import median

import numpy as np

from fabriclab.innetwork import Switch, udp
from fabriclab.innetwork.aggregation import Aggregator, Worker
from fabriclab.units import format_share
from pairs import interleaved

SLOTS, LANES, BATCH, ROUNDS = 512, 32, 1024, 20
ONE, MANY = 1e5, 1e6  # packets a second that are asked for
CHUNKS, LIMIT, LOSSES = 2**16, 12.0, (0.001, 0.01, 0.05)  # 64 MiB of 256 values each; [s]


def pipeline() -> None:
    """Run the packets of two workers through the program that adds, with all checks."""
    values = np.ones((ROUNDS * BATCH // 2, LANES), np.int32)
    workers = [Worker(w, values, SLOTS) for w in range(2)]
    turns = [
        [w.packet(turn * SLOTS + slot) for w in workers for slot in range(SLOTS)]
        for turn in range(ROUNDS)
    ]
    batches = [
        (
            {name: np.array([p.header[name] for p in turn]) for name in turn[0].header},
            np.array([p.payload for p in turn]),
        )
        for turn in turns
    ]
    switch = Switch(Aggregator(2, SLOTS))

    def one() -> None:
        switch.clear()
        for packet in turns[0]:
            switch.one(packet.header, packet.payload)

    def many() -> None:
        switch.clear()
        for batch in batches:
            switch.many(*batch)

    for name, run, packets, rate in (
        ("one by one", one, BATCH, ONE),
        ("in batches", many, ROUNDS * BATCH, MANY),
    ):
        found = interleaved(run, lambda allowed=packets / rate: allowed, 15)
        print(
            f"{packets / median(found.ours):,.0f} packets/s;",
            found.line(f"{packets} {name}", 1),
            flush=True,
        )


def cpu() -> float:
    """Return what the processes that have ended used [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def over_udp() -> None:
    """Time all-reduces and check every sum."""
    values = np.random.default_rng(0).integers(-(2**31), 2**31, (2, CHUNKS, 256)).astype(np.int32)
    want = values.sum(0, dtype=np.int32)
    spent: dict[float, list[float]] = {loss: [] for loss in (0.0, *LOSSES)}

    def run(loss: float) -> float:
        before = cpu()
        found = udp.exchange(values, loss=loss)
        if not all(np.array_equal(total, want) for total in found.totals):
            raise SystemExit(f"wrong sums at {format_share(loss, 1)} loss")
        spent[loss].append(cpu() - before)
        return found.time

    for loss in LOSSES:
        found = interleaved(lambda loss=loss: run(loss), lambda: run(0.0), 3)
        for at, times in ((loss, found.ours), (0.0, found.peer)):
            rate = values[0].nbytes / median(times) / 1e6
            lost = format_share(at, 1)
            print(
                f"64 MiB, {lost} lost: {median(times):.2f} s, {rate:.0f} MB/s, CPU {median(spent[at]):.1f} s"
            )
        print(
            f"goodput {found.ratio:.2f} of that without loss; {found.doubt or 'calm'}", flush=True
        )
    slowest = max(found.ours)
    verdict = (
        "reached"
        if slowest <= LIMIT
        else f"not conclusive ({found.doubt})"
        if found.doubt
        else "missed"
    )
    print(f"{format_share(loss)} lost: at most {slowest:.2f} s, wanted {LIMIT:.0f}: {verdict}")


if __name__ == "__main__":
    pipeline()
    over_udp()
