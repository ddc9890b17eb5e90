"""Lesson 31: which block a ring sends, and how long it takes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.catalog import case, published
from fabriclab.collectives import closed_form, execute
from fabriclab.core import Schedule, StepGroup
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    Verdict,
    first_wrong,
    is_same,
    mistake_of,
    name_of,
    number_of,
    rank_of,
    wrong,
)
from fabriclab.course.questions import misconception
from fabriclab.course.shown import digits
from fabriclab.registry import register
from fabriclab.texts import text

Rule = Callable[[int, int, int], Any]
Sent = dict[tuple[int, int, int], int]  # rank, step and number of ranks -> block
RING_MISTAKES: dict[str, Rule] = {
    "own block every time": lambda rank, step, n: rank,
    "against the ring": lambda rank, step, n: (rank + step) % n,
    "same block for all": lambda rank, step, n: step % n,
}
# Size [B], ranks, rate [B/s] and latency of a step [s] -> time [s]
Time = Callable[[float, int, float, float], Any]
TEN_SERVERS = "xx_10n_g1_all_reduce"  # a published sweep, one GPU and one NIC in each server


def _ring_time(size: float, n: int, rate: float, latency: float) -> float:
    """Return the time of a ring: 2 (n - 1) steps, in each of which a block of 1/n is sent. [s]."""
    return 2 * (n - 1) * (size / n / rate + latency)


def _latency_forgotten(size: float, n: int, rate: float, latency: float) -> float:
    return _ring_time(size, n, rate, 0.0)


def _one_latency(size: float, n: int, rate: float, latency: float) -> float:
    return _ring_time(size, n, rate, 0.0) + latency


def _one_phase_only(size: float, n: int, rate: float, latency: float) -> float:
    return _ring_time(size, n, rate, latency) / 2


def _not_cut_into_blocks(size: float, n: int, rate: float, latency: float) -> float:
    return _ring_time(n * size, n, rate, latency)


def _a_step_too_many(size: float, n: int, rate: float, latency: float) -> float:
    """Return the time of somebody who counts n steps in each phase."""
    return 2 * n * (size / n / rate + latency)


def _factor_taken_as_2(size: float, n: int, rate: float, latency: float) -> float:
    return 2 * size / rate + 2 * (n - 1) * latency


def _array_sent_once(size: float, n: int, rate: float, latency: float) -> float:
    return size / rate + 2 * (n - 1) * latency


def _bytes_taken_for_bits(size: float, n: int, rate: float, latency: float) -> float:
    return _ring_time(size / 8, n, rate, latency)


def _bits_for_bytes(size: float, n: int, rate: float, latency: float) -> float:
    return _ring_time(8 * size, n, rate, latency)


# What somebody with a mistake returns, by its name.
TIME_MISTAKES: dict[str, Callable[[float, int, float, float], float]] = {
    "latency forgotten": _latency_forgotten,
    "one latency": _one_latency,
    "one phase only": _one_phase_only,
    "not cut into blocks": _not_cut_into_blocks,
    "a step too many": _a_step_too_many,
    "factor taken as 2": _factor_taken_as_2,
    "array sent once": _array_sent_once,
    "bytes taken for bits": _bytes_taken_for_bits,
    "bits for bytes": _bits_for_bytes,
}


@register("check", "31-write-ring")
def ring(answer: Rule) -> Verdict:
    """Run ``answer(rank, step, n)``, the block to send to the next rank, as a ring on real buffers."""
    sent: Sent = {}
    for n in range(1, 10):
        ranks = np.arange(n)
        groups = []
        for step in range(2 * (n - 1)):
            blocks = [rank_of(answer, rank, step, n, "function.block") for rank in range(n)]
            for rank, block in enumerate(blocks):
                sent[rank, step, n] = block
            groups.append(StepGroup.make(ranks, (ranks + 1) % n, blocks, reduce=step < n - 1))

        # Each rank has a one of its own in every block, so the sums count how often each gradient is in a block.
        schedule = Schedule("all_reduce", "of a learner", n, n, tuple(groups))
        sums = execute(schedule, np.tile(np.eye(n), n))
        counts = np.reshape(sums, (n, n, n))  # (rank, block, rank whose gradient it is)
        if (counts != 1).any():
            return *_ring_fault(sent, counts), _ring_trace(name_of(answer), sent, counts)

    # Usually a rank starts with its own block; the library starts with the block on the left of it, so that rank r
    # ends with block r.
    if _starts_with(sent, offset=0) or _starts_with(sent, offset=-1):
        return True, [], ""
    return True, [text("check.another")], ""


def _starts_with(sent: Sent, offset: int) -> bool:
    """Return whether each rank starts with the block at an offset of its own, and goes on to the left."""
    return all((rank - step + offset) % n == block for (rank, step, n), block in sent.items())


def _ring_fault(sent: Sent, counts: NDArray[np.float64]) -> tuple[bool, list[str], str]:
    """Return the verdict on a ring whose blocks do not hold each gradient once, as the counts of `ring` show."""
    line = _ring_line(counts)
    fits = [name for name, rule in RING_MISTAKES.items() if _follows(sent, rule)]
    if len(fits) != 1:  # with few ranks several mistakes look alike
        return False, [line], ""
    return False, [line, misconception("31-write-ring", fits[0])], fits[0]


def _ring_line(counts: NDArray[np.float64]) -> str:
    """Return in words which block of which rank is wrong at the end, and whose gradients are amiss in it."""
    rank, block = np.argwhere((counts != 1).any(axis=2))[0]
    line = text("function.ring", n=len(counts), rank=rank, block=block)
    lacking = np.flatnonzero(counts[rank, block] == 0)
    repeated = np.flatnonzero(counts[rank, block] > 1)
    if lacking.size:
        line += " " + text("function.lacks", ranks=", ".join(map(str, lacking)))
    if repeated.size:
        line += " " + text("function.twice", ranks=", ".join(map(str, repeated)))
    return line


def _ring_trace(name: str, sent: Sent, counts: NDArray[np.float64]) -> Trace:
    """Return the trace of a ring that is wrong, up to the first step in which a rank sends another block than it must.

    In 2(n-1) steps no message is to spare. So in step 0 all blocks must leave, each from one rank, and from then on
    each rank must send what arrived in the step before.
    """
    n = len(counts)
    steps = [[sent[rank, step, n] for rank in range(n)] for step in range(2 * (n - 1))]
    arrives = [[step[rank - 1] for rank in range(n)] for step in steps]  # from the rank before
    again = [rank for rank, block in enumerate(steps[0]) if block in steps[0][:rank]]
    if again:
        at, misled = 0, again
    else:
        at, misled = next(
            (place, misfits)
            for place in range(1, len(steps))
            if (misfits := [r for r in range(n) if steps[place][r] != arrives[place - 1][r]])
        )
    rank = misled[0]
    rows = [(text("trace.sends", step=at), *map(str, steps[at]))]
    if at:
        before = at - 1
        rows.insert(0, (text("trace.sends", step=before), *map(str, steps[before])))
        rows.insert(1, (text("trace.arrives", step=before), *map(str, arrives[before])))
        wanted = str(arrives[before][rank])
        look = text("trace.look_ring", rank=rank, step=at, before=before)
    else:
        wanted = text("trace.other")
        look = text("trace.look_first")

    cases = []
    if n > 2:
        passed = text("trace.to_ranks" if n > 3 else "trace.ranks", n=2, last=n - 1)
        cases.append(TriedCase(passed, True))
    failed = text("trace.ring", n=n, rank=rank, step=at)
    call = f"{name}({rank}, {at}, {n})"
    cases.append(TriedCase(failed, False, call, str(steps[at][rank]), wanted))
    return Trace(
        tuple(cases),
        ("", *(text("trace.of", rank=rank) for rank in range(n))),
        tuple(rows),
        frozenset((len(rows) - 1, 1 + each) for each in misled),
        said=_ring_line(counts),
        look=look,
    )


def _follows(sent: Sent, rule: Rule) -> bool:
    """Return whether a rule names each block that was sent."""
    return all(rule(rank, step, n) == block for (rank, step, n), block in sent.items())


@register("check", "31-write-time")
def ring_time(answer: Time) -> Verdict:
    """Run ``answer(size, n, rate, latency)``, the time of a ring [s], on ten published servers and on the case."""
    job = case()
    servers = published.load(TEN_SERVERS)
    formula = closed_form("all_reduce", "ring")
    cases: list[tuple[float, int, float, float]] = [
        (float(servers.size[i]), int(servers.n_ranks), job.nic_rate, job.ring_step_latency)
        for i in (0, len(servers.size) - 1)
    ]
    measured = [float(servers.time[0]), float(servers.time[-1])]
    cases += [
        (job.dp_gradients, int(job.dp), job.nic_rate, job.ring_step_latency),
        (4096.0, int(job.dp), job.nic_rate, job.ring_step_latency),
        (1e9, 2, job.nvlink_per_gpu, 0.0),
    ]
    returned = [number_of(answer, size, n, rate, latency) for size, n, rate, latency in cases]
    right = [float(formula(*each[:2], each[3], each[2])) for each in cases]
    tried = tuple(map(_time_case, cases, returned, right))
    i = first_wrong(tried)
    if i is None:
        return True, [], ""

    numbers = {"got": f"{returned[i]:.4g}", "right": f"{right[i]:.4g}"}
    line = text("function.time", **_in_words(cases[i]), **numbers)
    said = ""
    if i < len(measured):
        said = text("function.measured", time=f"{measured[i]:.4g}")
        line += " " + said
    look = text("trace.look_time", ratio=digits(returned[i] / right[i]))
    mistake = mistake_of(returned, TIME_MISTAKES, cases)
    return wrong("31-write-time", line, mistake, Trace(tried, said=said, look=look))


def _in_words(of: tuple[float, int, float, float]) -> dict[str, Any]:
    """Return size, ranks, rate and latency of a ring, as a person writes them."""
    size, n, rate, latency = of
    return {
        "size": units.format_size(size),
        "n": n,
        "rate": units.format_rate(rate),
        "latency": units.format_time(latency),
    }


def _time_case(each: tuple[float, int, float, float], found: float, right: float) -> TriedCase:
    """Return the case of a ring, and whether a time of it is right."""
    went_in = text("trace.ring_time", **_in_words(each))
    return TriedCase(went_in, is_same(found, right), "", f"{found:#.4g} s", f"{right:#.4g} s")
