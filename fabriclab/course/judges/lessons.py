"""Checks of lessons that run a learner's function; any function that works is right.

Each check returns whether the function is right, the sentences to show, the name of the mistake, and where the function
is wrong a trace of what happened.
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
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.course.questions import misconception
from fabriclab.course.shown import digits
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.training import Pieces, of_case
from fabriclab.validate import PaperStep, paper_steps

Rule = Callable[[int, int, int], Any]
StepTime = Callable[[Pieces], Any]  # pieces of a step -> time [s]
Verdict = tuple[bool, list[str], str] | tuple[bool, list[str], str, Trace]
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

    cases = tuple(_rate_case(*each, rate) for each, rate in zip(ROUNDS, returned, strict=True))
    for (size, rounds), rate, tried in zip(ROUNDS, returned, cases, strict=True):
        if not tried.right:
            line = text(
                "function.rate",
                size=units.format_size(size),
                times=", ".join(units.format_time(each) for each in rounds),
                got=f"{rate:.4g}",
                right=f"{size / float(np.median(rounds)):.4g}",
            )
            name = _mistake_of_rate(returned)
            because = [misconception("00-write-rate", name)] if name else []
            return False, [line, *because], name, _rate_trace(cases, size, rounds, rate)
    return True, [], ""


def _rate_case(size: int, rounds: Sequence[float], rate: float) -> TriedCase:
    """Return the case of some rounds, and whether a rate is that of the median round."""
    times = np.sort(rounds)
    # With an even number of rounds either of the two in the middle will do, and so will what lies between.
    low = size / times[len(times) // 2] * (1 - _SAME_RATE)
    high = size / times[(len(times) - 1) // 2] * (1 + _SAME_RATE)
    is_right = bool(low <= rate <= high)
    right = rate if is_right else size / float(np.median(times))
    name = text("trace.rounds", size=units.format_size(size), n=len(rounds))
    return TriedCase(name, is_right, "", f"{rate:.3e} B/s", f"{right:.3e} B/s")


def _rate_trace(
    cases: tuple[TriedCase, ...], size: int, rounds: Sequence[float], rate: float
) -> Trace:
    """Return the trace of a rate that is wrong: the times that went in, and the time that the rate stands for."""
    head = (text("trace.round"), *(str(place) for place in range(1, 1 + len(rounds))))
    row = (text("trace.time"), *(units.format_time(each) for each in rounds))
    look = ""
    if rate > 0:
        words = {"size": units.format_size(size), "time": units.format_time(size / rate)}
        look = text("trace.look_rate", **words)
    return Trace(cases, head, (row,), look=look)


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

    cases = tuple(
        _count_case(_name(answer), *each, found)
        for each, found in zip(NETWORKS, returned, strict=True)
    )
    for (gpus, radix), found, tried in zip(NETWORKS, returned, cases, strict=True):
        if not tried.right:
            right = built_switches(gpus, radix)
            line = text(
                "function.switches", gpus=gpus, radix=radix, got=f"{found:.6g}", right=right
            )
            name = _mistake_of_count(returned)
            because = [misconception("21-write-switches", name)] if name else []
            trace = Trace(cases, look=text("trace.look_switches", gpus=gpus))
            return False, [line, *because], name, trace
    return True, [], ""


def _count_case(name: str, gpus: int, radix: int, found: float) -> TriedCase:
    """Return the case of a network, and whether a number of switches is that of the network that the library builds."""
    right = built_switches(gpus, radix)
    is_right = bool(np.isclose(found, right, rtol=_SAME_RATE))
    went_in = text("trace.network", gpus=gpus, radix=radix)
    call = f"{name}({gpus}, {radix})"
    return TriedCase(went_in, is_right, call, f"{found:,.6g}", f"{right:,}")


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
            return *_ring_fault(sent, counts), _ring_trace(_name(answer), sent, counts)

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
    tried = tuple(map(_time_case, cases, returned, right))
    for i, (size, n, rate, latency) in enumerate(cases):
        if not tried[i].right:
            line = text(
                "function.time",
                size=units.format_size(size),
                n=n,
                rate=units.format_rate(rate),
                latency=units.format_time(latency),
                got=f"{returned[i]:.4g}",
                right=f"{right[i]:.4g}",
            )
            said = ""
            if i < len(measured):
                said = text("function.measured", time=f"{measured[i]:.4g}")
                line += " " + said
            mistake = _mistake_of_time(returned, cases)
            because = [misconception("31-write-time", mistake)] if mistake else []
            look = text("trace.look_time", ratio=digits(returned[i] / right[i]))
            return False, [line, *because], mistake, Trace(tried, said=said, look=look)
    return True, [], ""


def _time_case(each: tuple[float, int, float, float], found: float, right: float) -> TriedCase:
    """Return the case of a ring, and whether a time of it is right."""
    size, n, rate, latency = each
    went_in = text(
        "trace.ring_time",
        size=units.format_size(size),
        n=n,
        rate=units.format_rate(rate),
        latency=units.format_time(latency),
    )
    is_right = bool(np.isclose(found, right, rtol=_SAME_RATE, atol=0))
    return TriedCase(went_in, is_right, "", f"{found:#.4g} s", f"{right:#.4g} s")


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
        steps = [
            [_block(answer, rank, step, n, "function.rank") for rank in range(n)]
            for step in range(n)
        ]
        to = np.array(steps)  # (step, rank)
        for key, rows in (("function.meet", to), ("function.pair", to.T)):
            # How often each rank is served: in each step, or by each rank.
            counts = np.array([np.bincount(row, minlength=n) for row in rows])
            if (counts > 1).any():
                of, at = np.argwhere(counts > 1)[0]
                name = _mistake_of_order(to)
                line = text(key, n=n, of=of, at=at, count=counts[of, at])
                because = misconception("34-write-order", name)
                trace = _order_trace(_name(answer), key, rows[of], of, at)
                return False, [line, because], name, trace
    return True, [], ""


def _order_trace(name: str, key: str, row: NDArray[np.int64], of: int, at: int) -> Trace:
    """Return the trace of an order in which a rank is served twice, in one step or by one rank.

    Parameters
    ----------
    name : str
        Name of the learner's function.
    key : {"function.meet", "function.pair"}
        Whether ``row`` has whom each rank serves in step ``of``, or whom rank ``of`` serves in each step.
    row : array of int
        The ranks that are served.
    of : int
        The step, or the rank that serves.
    at : int
        The rank that is served more than once.
    """
    n = len(row)
    in_step = key == "function.meet"
    places = np.flatnonzero(row == at)
    calls = [
        f"{name}({place}, {of}, {n})" if in_step else f"{name}({of}, {place}, {n})"
        for place in places[:2]
    ]
    passed = [text("trace.ranks", n=fewer) for fewer in (4, 8) if fewer < n]
    failed = text("trace.in_step" if in_step else "trace.of_rank", n=n, of=of)
    got = text("trace.times", rank=at, count=len(places))
    cases = [TriedCase(each, True) for each in passed]
    cases.append(TriedCase(failed, False, "", got, text("trace.once")))
    head = (text("trace.rank" if in_step else "trace.step"), *map(str, range(n)))
    serves = text("trace.serves_in" if in_step else "trace.serves", of=of)
    return Trace(
        tuple(cases),
        head,
        ((serves, *map(str, row)),),
        frozenset((0, 1 + int(place)) for place in places),
        look=text("trace.look_order", one=calls[0], other=calls[1], rank=at),
    )


def _name(answer: Callable[..., Any]) -> str:
    """Return the name of the learner's function, as it stands in a line of code."""
    name = str(getattr(answer, "__name__", ""))
    return name if name.isidentifier() else "your_function"


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


def _block(answer: Rule, rank: int, step: int, n: int, asked: str) -> int:
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
        at, wrong = 0, again
    else:
        at, wrong = next(
            (place, misfits)
            for place in range(1, len(steps))
            if (misfits := [r for r in range(n) if steps[place][r] != arrives[place - 1][r]])
        )
    rank = wrong[0]
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
        frozenset((len(rows) - 1, 1 + each) for each in wrong),
        said=_ring_line(counts),
        look=look,
    )


def _follows(sent: Sent, rule: Rule) -> bool:
    """Return whether a rule names each block that was sent."""
    return all(rule(rank, step, n) == block for (rank, step, n), block in sent.items())


# A training step ------------------------------------------------------------------------------------------------------


def step_time(s: Pieces) -> float:
    """Return the time of a step that is put together from its pieces. [s]."""
    return _pipeline(s, s.compute + s.sums) + max(s.last, s.gradients - s.window)


def _pipeline(
    s: Pieces, each: float, stages: int | None = None, chunks: int | None = None
) -> float:
    """Return how long all micro-batches need through all stages, if one takes ``each`` on a stage. [s]."""
    others = (s.stages if stages is None else stages) - 1
    return (s.microbatches + others / (s.chunks if chunks is None else chunks)) * each


STEP_MISTAKES: dict[str, Callable[[Pieces], float]] = {
    "computing only": lambda s: s.microbatches * s.compute,
    "sums forgotten": lambda s: _pipeline(s, s.compute) + max(s.last, s.gradients - s.window),
    "bubble forgotten": lambda s: (
        _pipeline(s, s.compute + s.sums, stages=1) + max(s.last, s.gradients - s.window)
    ),
    "chunks forgotten": lambda s: (
        _pipeline(s, s.compute + s.sums, chunks=1) + max(s.last, s.gradients - s.window)
    ),
    "a stage too many": lambda s: (
        _pipeline(s, s.compute + s.sums, stages=s.stages + 1) + max(s.last, s.gradients - s.window)
    ),
    "nothing hidden": lambda s: _pipeline(s, s.compute + s.sums) + s.gradients,
    "gradients forgotten": lambda s: _pipeline(s, s.compute + s.sums),
    "time given back": lambda s: _pipeline(s, s.compute + s.sums) + s.gradients - s.window,
    "last bucket forgotten": lambda s: (
        _pipeline(s, s.compute + s.sums) + max(0.0, s.gradients - s.window)
    ),
    "last bucket twice": lambda s: (
        _pipeline(s, s.compute + s.sums) + s.last + max(0.0, s.gradients - s.window)
    ),
}
_FULL_MODELS = ("Megatron 7.5B", "Megatron 1008B")  # without a pipeline, and with 64 stages
_STEP_ROUNDING = 1e-5  # relative: below it no mistake changes a time of these steps


@cache
def step_cases() -> tuple[tuple[str, Pieces, float], ...]:
    """Return name, pieces and published time of the steps of `step`; 0 where nobody has published one. [s]."""
    job = case()
    found: list[tuple[str, Pieces, float]] = [
        (text("trace.step_case"), of_case(job).pieces, 0.0),
        (text("trace.step_slow"), of_case(job.replace(nic_rate=job.nic_rate / 4)).pieces, 0.0),
    ]
    for run in paper_steps():
        if run.model in _FULL_MODELS or _is_long_run(run):
            name = text("trace.step_run", model=run.model, gpus=run.gpus)
            found.append((name, run.step.pieces, run.seconds))
    return tuple(found)


def _is_long_run(run: PaperStep) -> bool:
    """Tell whether a published step is one of the two on which the lesson rests."""
    return run.model == "Llama 3 405B" and run.step.layout.cp == 1


@register("check", "72-write-step")
def step(answer: StepTime) -> Verdict:
    """Run ``answer(pieces)``, the time of a step [s], on the case, on a slow NIC and on published runs."""
    cases = step_cases()
    returned = [_number(answer, pieces) for _, pieces, _ in cases]
    right = [step_time(pieces) for _, pieces, _ in cases]
    tried = []
    for (name, _, _), found, wanted in zip(cases, returned, right, strict=True):
        is_right = bool(np.isclose(found, wanted, rtol=_STEP_ROUNDING, atol=0))
        tried.append(TriedCase(name, is_right, "", f"{found:#.4g} s", f"{wanted:#.4g} s"))
    for i, (name, _, published_time) in enumerate(cases):
        if not tried[i].right:
            line = text(
                "function.step", name=name, got=f"{returned[i]:#.4g}", right=f"{right[i]:#.4g}"
            )
            said = ""
            if published_time:
                said = text("function.step_published", time=f"{published_time:g}")
                line += " " + said
            mistake = _mistake_of_step(returned)
            because = [misconception("72-write-step", mistake)] if mistake else []
            look = text("trace.look_step", seconds=f"{returned[i] - right[i]:+.3g}")
            return False, [line, *because], mistake, Trace(tuple(tried), said=said, look=look)
    return True, [], ""


def _mistake_of_step(returned: Sequence[float]) -> str:
    """Return the mistake that explains all times that the learner's function returned, or nothing."""
    for name, rule in STEP_MISTAKES.items():
        expected = [rule(pieces) for _, pieces, _ in step_cases()]
        if np.allclose(returned, expected, rtol=_STEP_ROUNDING, atol=0):
            return name
    return ""
