"""Checks of lessons that run a learner's function; any function that works is right.

Each check returns whether the function is right, the sentences to show, and the name of the mistake.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import metrics, topologies, units
from fabriclab.catalog import case, published
from fabriclab.collectives import closed_form, execute
from fabriclab.core import Schedule, StepGroup
from fabriclab.course.judges import Unanswered
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.course.questions import misconception
from fabriclab.registry import register
from fabriclab.texts import text

Rule = Callable[[int, int, int], Any]
Verdict = tuple[bool, list[str], str]
Sent = dict[tuple[int, int, int], int]  # rank, step and number of ranks -> block
RING_MISTAKES: dict[str, Rule] = {
    "own block every time": lambda rank, step, n: rank,
    "against the ring": lambda rank, step, n: (rank + step) % n,
    "same block for all": lambda rank, step, n: step % n,
}

Rate = Callable[[int, NDArray[np.float64]], Any]  # size and the time of each round -> rate
# Size [B] and time of each round [s]. The first four were measured on two processors in the cloud: two copies of
# memory and two transfers over a socket. One round of the last was interrupted.
ROUNDS: Sequence[tuple[int, Sequence[float]]] = (
    (64 * 2**20, (8.79e-3, 8.67e-3, 8.69e-3, 8.62e-3, 8.48e-3)),
    (16 * 2**20, (1.733e-3, 1.202e-3, 1.142e-3, 1.145e-3, 1.188e-3, 1.197e-3)),
    (64 * 2**20, (21.6e-3, 21.2e-3, 21.4e-3, 22.5e-3, 22.9e-3)),
    (64 * 2**20, (24.6e-3, 25.3e-3, 24.3e-3, 24.4e-3, 22.4e-3)),
    (10**9, (0.1, 0.11, 0.9, 0.12, 0.13)),
)
RATE_MISTAKES: dict[str, Callable[[int, NDArray[np.float64]], float]] = {
    "mean": lambda size, times: size / times.mean(),
    "mean of rates": lambda size, times: float(np.mean(size / times)),
    "fastest": lambda size, times: size / times.min(),
    "slowest": lambda size, times: size / times.max(),
    "last": lambda size, times: size / times[-1],
    "first": lambda size, times: size / times[0],
    "not sorted": lambda size, times: size / times[len(times) // 2],
    "time": lambda size, times: float(np.median(times)),
    "upside down": lambda size, times: float(np.median(times)) / size,
    "all rounds": lambda size, times: size / times.sum(),
    "bits": lambda size, times: 8 * size / float(np.median(times)),
    "gigabytes": lambda size, times: size / float(np.median(times)) / 1e9,
}
_SAME_RATE = 1e-6  # illustrative: relative rounding, far below what any mistake changes

Count = Callable[[int, int], Any]  # GPUs and ports of a switch -> number of switches
# GPUs and ports of a switch. Networks of two and three tiers in which every port is in use.
NETWORKS: Sequence[tuple[int, int]] = (
    (1024, 64),
    (2048, 64),
    (8192, 64),
    (4096, 64),
    (128, 16),
    (1024, 16),
    (8192, 128),
)
_GPUS_OF_SERVER = 8
COUNT_MISTAKES: dict[str, Callable[[int, int], float]] = {
    "NIC ports only": lambda gpus, radix: gpus / radix,
    "leaves only": lambda gpus, radix: 2 * gpus / radix,
    "two tiers always": lambda gpus, radix: 3 * gpus / radix,
    "three tiers always": lambda gpus, radix: 5 * gpus / radix,
    "ports up from the top": lambda gpus, radix: (_ports_of(gpus, radix) + 1) * gpus / radix,
    "two tiers of whole leaves": lambda gpus, radix: _ports_of(gpus / 2, radix) * gpus / radix,
    "full is too many": lambda gpus, radix: _ports_of(gpus + 1, radix) * gpus / radix,
    "ports for switches": lambda gpus, radix: _ports_of(gpus, radix) * gpus,
}


def _ports_of(gpus: float, radix: int) -> int:
    """Return the switch ports of each GPU in two tiers, or in three if so many GPUs do not fit on two."""
    return 3 if gpus <= radix * radix / 2 else 5


# Size [B], ranks, rate [B/s] and latency of a step [s] -> time [s]
Time = Callable[[float, int, float, float], Any]
TEN_SERVERS = "xx_10n_g1_all_reduce"  # a published sweep, one GPU and one NIC in each server
TIME_MISTAKES: dict[str, Callable[[float, int, float, float], float]] = {
    "latency forgotten": lambda size, n, rate, latency: 2 * (n - 1) / n * size / rate,
    "one latency": lambda size, n, rate, latency: 2 * (n - 1) / n * size / rate + latency,
    "one phase only": lambda size, n, rate, latency: (n - 1) * (size / n / rate + latency),
    "not cut into blocks": lambda size, n, rate, latency: 2 * (n - 1) * (size / rate + latency),
    "a step too many": lambda size, n, rate, latency: 2 * n * (size / n / rate + latency),
    "factor taken as 2": lambda size, n, rate, latency: 2 * size / rate + 2 * (n - 1) * latency,
    "array sent once": lambda size, n, rate, latency: size / rate + 2 * (n - 1) * latency,
    "bytes taken for bits": lambda size, n, rate, latency: (
        2 * (n - 1) * (size / 8 / n / rate + latency)
    ),
    "bits for bytes": lambda size, n, rate, latency: 2 * (n - 1) * (8 * size / n / rate + latency),
}


@register("check", "00-write-rate")
def typical_rate(answer: Rate) -> Verdict:
    """Run ``answer(size, times)`` on rounds that were measured; right is the rate of the median round [B/s]."""
    returned = []
    for size, rounds in ROUNDS:
        times = np.array(rounds)
        returned.append(_rate(answer, size, times.copy()))

    for (size, rounds), rate in zip(ROUNDS, returned, strict=True):
        times = np.sort(rounds)
        # With an even number of rounds either of the two in the middle will do, and so will what lies between.
        low = size / times[len(times) // 2] * (1 - _SAME_RATE)
        high = size / times[(len(times) - 1) // 2] * (1 + _SAME_RATE)
        if not low <= rate <= high:
            line = text(
                "function.rate",
                size=units.format_size(size),
                times=", ".join(units.format_time(each) for each in rounds),
                got=f"{rate:.4g}",
                right=f"{size / float(np.median(times)):.4g}",
            )
            name = _mistake_of_rate(returned)
            because = [misconception("00-write-rate", name)] if name else []
            return False, [line, *because], name
    return True, [], ""


def _rate(answer: Rate, size: int, times: NDArray[np.float64]) -> float:
    """Return the rate that the learner's function returns; raise Unanswered if it does anything else."""
    return _number(answer, size, times)


def _number(answer: Callable[..., Any], *arguments: Any) -> float:
    """Return the number that the learner's function returns; raise Unanswered if it does anything else."""
    shown = ", ".join(_as_typed(argument) for argument in arguments)
    call = f"{getattr(answer, '__name__', 'f')}({shown})"
    try:
        found: ArrayLike = answer(*arguments)
    except (Exception, SystemExit) as error:
        said = text("function.raised", call=call, error=type(error).__name__, words=str(error))
        raise Unanswered("raised", said) from None
    is_number = isinstance(found, int | float | np.integer | np.floating)
    if isinstance(found, bool) or not is_number or not np.isfinite(found):
        raise Unanswered("kind", text("function.number", call=call, got=brief(found)))
    return float(found)  # type: ignore[arg-type]


def _mistake_of_rate(returned: Sequence[float]) -> str:
    """Return the mistake that explains all rates that the learner's function returned, or nothing."""
    for name, rule in RATE_MISTAKES.items():
        expected = [rule(size, np.array(rounds)) for size, rounds in ROUNDS]
        if np.allclose(returned, expected, rtol=1e-9, atol=0):
            return name
    return ""


@cache
def built_switches(gpus: int, radix: int) -> int:
    """Build one network of servers on rails, with as many ports up as down, and count its switches."""
    servers = gpus // _GPUS_OF_SERVER
    return metrics.switches(
        topologies.build("rail_optimised", servers=servers, radix=radix, expand=False)
    )


@register("check", "21-write-switches")
def switches(answer: Count) -> Verdict:
    """Run ``answer(gpus, radix)``; right is the number of switches of the network that the library builds."""
    returned = []
    for gpus, radix in NETWORKS:
        returned.append(_number(answer, gpus, radix))

    for (gpus, radix), found in zip(NETWORKS, returned, strict=True):
        right = built_switches(gpus, radix)
        if not np.isclose(found, right, rtol=_SAME_RATE):
            line = text(
                "function.switches", gpus=gpus, radix=radix, got=f"{found:.6g}", right=right
            )
            name = _mistake_of_count(returned)
            because = [misconception("21-write-switches", name)] if name else []
            return False, [line, *because], name
    return True, [], ""


def _mistake_of_count(returned: Sequence[float]) -> str:
    """Return the mistake that explains all numbers of switches that the learner's function returned, or nothing."""
    for name, rule in COUNT_MISTAKES.items():
        expected = [rule(gpus, radix) for gpus, radix in NETWORKS]
        if np.allclose(returned, expected, rtol=_SAME_RATE, atol=0):
            return name
    return ""


@register("check", "31-write-ring")
def ring(answer: Rule) -> Verdict:
    """Run ``answer(rank, step, n)``, the block to send to the next rank, as a ring on real buffers."""
    sent: Sent = {}
    for n in range(1, 10):
        ranks = np.arange(n)
        groups = []
        for step in range(2 * (n - 1)):
            blocks = [_block(answer, rank, step, n, "function.block") for rank in range(n)]
            for rank, block in enumerate(blocks):
                sent[rank, step, n] = block
            groups.append(StepGroup.make(ranks, (ranks + 1) % n, blocks, reduce=step < n - 1))

        # Each rank has a one of its own in every block, so the sums count how often each gradient is in a block.
        schedule = Schedule("all_reduce", "of a learner", n, n, tuple(groups))
        sums = execute(schedule, np.tile(np.eye(n), n))
        counts = np.reshape(sums, (n, n, n))  # (rank, block, rank whose gradient it is)
        if (counts != 1).any():
            return _ring_fault(sent, counts)

    # Usually a rank starts with its own block; the library starts with the block on the left of it, so that rank r
    # ends with block r.
    if _starts_with(sent, offset=0) or _starts_with(sent, offset=-1):
        return True, [], ""
    return True, [text("check.another")], ""


def _starts_with(sent: Sent, offset: int) -> bool:
    """Return whether each rank starts with the block at an offset of its own, and goes on to the left."""
    return all((rank - step + offset) % n == block for (rank, step, n), block in sent.items())


def _as_typed(argument: Any) -> str:
    """Write an argument of a call as a person would type it: a list, a whole number, or a few digits."""
    if isinstance(argument, np.ndarray):
        return str(argument.tolist())
    if isinstance(argument, float):
        return f"{argument:.10g}"
    return str(argument)


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
    returned = [_number(answer, size, n, rate, latency) for size, n, rate, latency in cases]
    right = [float(formula(*each[:2], each[3], each[2])) for each in cases]
    for i, (size, n, rate, latency) in enumerate(cases):
        if not np.isclose(returned[i], right[i], rtol=_SAME_RATE, atol=0):
            line = text(
                "function.time",
                size=units.format_size(size),
                n=n,
                rate=units.format_rate(rate),
                latency=units.format_time(latency),
                got=f"{returned[i]:.4g}",
                right=f"{right[i]:.4g}",
            )
            if i < len(measured):
                line += " " + text("function.measured", time=f"{measured[i]:.4g}")
            mistake = _mistake_of_time(returned, cases)
            because = [misconception("31-write-time", mistake)] if mistake else []
            return False, [line, *because], mistake
    return True, [], ""


def _mistake_of_time(
    returned: Sequence[float], cases: Sequence[tuple[float, int, float, float]]
) -> str:
    """Return the mistake that explains all times that the learner's function returned, or nothing."""
    for name, rule in TIME_MISTAKES.items():
        expected = [rule(*each) for each in cases]
        if np.allclose(returned, expected, rtol=_SAME_RATE, atol=0):
            return name
    return ""


@register("check", "34-write-order")
def order(answer: Rule) -> Verdict:
    """Judge ``answer(rank, step, n)``, whom a rank serves in a step: no two the same one, and each one once."""
    for n in (4, 8, 16):  # powers of two, since swapping with rank ^ step is an order, too
        steps = [[_block(answer, rank, step, n) for rank in range(n)] for step in range(n)]
        to = np.array(steps)  # (step, rank)
        for key, rows in (("function.meet", to), ("function.pair", to.T)):
            # How often each rank is served: in each step, or by each rank.
            counts = np.array([np.bincount(row, minlength=n) for row in rows])
            if (counts > 1).any():
                of, at = np.argwhere(counts > 1)[0]
                name = _mistake_of_order(to)
                line = text(key, n=n, of=of, at=at, count=counts[of, at])
                return False, [line, misconception("34-write-order", name)], name
    return True, [], ""


def _mistake_of_order(to: NDArray[np.int64]) -> str:
    """Return the mistake behind whom each rank serves in each step (step, rank), or nothing."""
    last = len(to) - 1
    if (to == to[:, :1]).all():
        return "all to one"
    if (to == to[0]).all():
        return "always the same"
    if (to != last).all():
        return "wraps too early"
    return ""


def _block(answer: Rule, rank: int, step: int, n: int, asked: str = "function.whole") -> int:
    """Return the number that the learner's function returns; raise Unanswered if it does anything else.

    ``asked`` is the text that says which number was asked for.
    """
    call = f"{getattr(answer, '__name__', 'f')}({rank}, {step}, {n})"
    try:
        found = answer(rank, step, n)
    except (Exception, SystemExit) as error:
        kind = type(error).__name__
        said = text("function.raised", call=call, error=kind, words=str(error))
        raise Unanswered("raised", said) from None
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        numbers = text("function.two" if n == 2 else "function.numbers", last=n - 1)
        given = {"call": call, "got": brief(found), "rank": rank, "step": step, "n": n}
        raise Unanswered("kind", text(asked, **given, numbers=numbers))
    if not 0 <= found.__index__() < n:
        raise Unanswered("range", text("function.range", call=call, got=found, last=n - 1))
    return int(found)


def _ring_fault(sent: Sent, counts: NDArray[np.float64]) -> Verdict:
    """Return the verdict on a ring whose blocks do not hold each gradient once, as the counts of `ring` show."""
    rank, block = np.argwhere((counts != 1).any(axis=2))[0]
    line = text("function.ring", n=len(counts), rank=rank, block=block)
    lacking = np.flatnonzero(counts[rank, block] == 0)
    repeated = np.flatnonzero(counts[rank, block] > 1)
    if lacking.size:
        line += " " + text("function.lacks", ranks=", ".join(map(str, lacking)))
    if repeated.size:
        line += " " + text("function.twice", ranks=", ".join(map(str, repeated)))

    fits = [name for name, rule in RING_MISTAKES.items() if _follows(sent, rule)]
    if len(fits) != 1:  # with few ranks several mistakes look alike
        return False, [line], ""
    return False, [line, misconception("31-write-ring", fits[0])], fits[0]


def _follows(sent: Sent, rule: Rule) -> bool:
    """Return whether a rule names each block that was sent."""
    return all(rule(rank, step, n) == block for (rank, step, n), block in sent.items())
