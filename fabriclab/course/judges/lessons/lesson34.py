"""Lesson 34: the fullest expert, what a capacity drops, and whom a rank serves in which step of an all-to-all."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab.collectives import choose_experts
from fabriclab.core import Floats
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    Verdict,
    compared,
    name_of,
    rank_of,
)
from fabriclab.course.questions import misconception
from fabriclab.registry import register
from fabriclab.texts import text

Rule = Callable[[int, int, int], Any]
Fullest = Callable[[Floats], Any]  # tokens of each expert -> times as many as on average
Dropped = Callable[[Floats, float], Any]  # tokens of each expert, capacity factor -> tokens

# Loads that come out on paper. illustrative: sizes that set each mistake apart
_HOT = np.array([160.0, 80.0, 80.0, 80.0])
_TWO_HOT = np.array([340.0, 300.0, 100.0, 60.0])
_EVEN = np.array([50.0, 50.0, 50.0])


@cache
def drawn(tokens: int, choices: int, popular: float) -> tuple[float, ...]:
    """Return how many tokens each of 64 experts gets, as a gate draws them for 64 GPUs with ``tokens`` each."""
    chosen = choose_experts(64, tokens, choices, popular=popular)
    return tuple(np.bincount(chosen.ravel(), minlength=64).astype(float))


# Fullest --------------------------------------------------------------------------------------------------------------


def fullest(loads: Floats) -> float:
    """Return how many times as many tokens the fullest expert has as an expert has on average."""
    return float(np.max(loads) / np.mean(loads))


def _tokens_of_the_fullest(loads: Floats) -> float:
    return float(np.max(loads))


def _over_the_emptiest(loads: Floats) -> float:
    return float(np.max(loads) / np.min(loads))


def _over_the_others(loads: Floats) -> float:
    fullest_load = np.max(loads)
    others = (np.sum(loads) - fullest_load) / (len(loads) - 1)
    return float(fullest_load / others)


def _upside_down(loads: Floats) -> float:
    return float(np.mean(loads) / np.max(loads))


def _share_of_all(loads: Floats) -> float:
    return float(np.max(loads) / np.sum(loads))


def _excess(loads: Floats) -> float:
    return float(np.max(loads) / np.mean(loads) - 1)


# What somebody with a mistake returns, by its name.
FULLEST_MISTAKES: Mapping[str, Callable[[Floats], float]] = {
    "tokens of the fullest expert": _tokens_of_the_fullest,
    "compared with the emptiest expert": _over_the_emptiest,
    "hot expert left out of the mean": _over_the_others,
    "mean divided by the fullest": _upside_down,
    "share of all tokens": _share_of_all,
    "excess over the mean": _excess,
}


@register("check", "34-write-fullest")
def times_the_mean(answer: Fullest) -> Verdict:
    """Run ``answer(loads)``: how many times as many tokens as on average the fullest expert has."""
    cases = {
        text("trace.loads", loads="160, 80, 80, 80"): (_HOT.copy(),),
        text("trace.gate", tokens=8, choices=8): (np.array(drawn(8, 8, 1.0)),),
        text("trace.gate", tokens=512, choices=8): (np.array(drawn(512, 8, 1.0)),),
        text("trace.loads", loads="50, 50, 50"): (_EVEN.copy(),),
    }
    return compared("34-write-fullest", answer, cases, fullest, FULLEST_MISTAKES, _times)


def _times(number: float) -> str:
    """Write a ratio."""
    return text("trace.ratio", number=f"{number:.4g}")


# Dropped --------------------------------------------------------------------------------------------------------------


def capacity(loads: Floats, factor: float) -> float:
    """Return how many tokens an expert takes at most."""
    return factor * float(np.mean(loads))


def dropped(loads: Floats, factor: float) -> float:
    """Return how many tokens find their expert full."""
    return float(np.maximum(loads - capacity(loads, factor), 0).sum())


def _without_factor(loads: Floats, factor: float) -> float:
    return dropped(loads, 1.0)


def _kept(loads: Floats, factor: float) -> float:
    return float(np.minimum(loads, capacity(loads, factor)).sum())


def _share(loads: Floats, factor: float) -> float:
    return dropped(loads, factor) / float(np.sum(loads))


def _all_tokens_of_a_full_expert(loads: Floats, factor: float) -> float:
    return float(loads[loads > capacity(loads, factor)].sum())


def _room_of_others(loads: Floats, factor: float) -> float:
    return max(0.0, float(np.sum(loads)) - len(loads) * capacity(loads, factor))


def _differences(loads: Floats, factor: float) -> float:
    return float((loads - capacity(loads, factor)).sum())


def _one_expert(loads: Floats, factor: float) -> float:
    return max(0.0, float(np.max(loads)) - capacity(loads, factor))


def _experts(loads: Floats, factor: float) -> float:
    return float((loads > capacity(loads, factor)).sum())


# What somebody with a mistake returns, by its name.
DROPPED_MISTAKES: Mapping[str, Callable[[Floats, float], float]] = {
    "capacity factor forgotten": _without_factor,
    "kept for dropped": _kept,
    "share of tokens for their number": _share,
    "all tokens of a full expert": _all_tokens_of_a_full_expert,
    "room of other experts counted": _room_of_others,
    "empty places taken off": _differences,
    "one full expert counted": _one_expert,
    "experts counted for tokens": _experts,
}


@register("check", "34-write-dropped")
def beyond_the_capacity(answer: Dropped) -> Verdict:
    """Run ``answer(loads, factor)``: how many tokens find their expert full."""
    cases = {
        text("trace.capacity", loads="160, 80, 80, 80", factor=1.25): (_HOT.copy(), 1.25),
        text("trace.capacity", loads="340, 300, 100, 60", factor=1.2): (_TWO_HOT.copy(), 1.2),
        # 1,024 tokens on average, so that 1.25 times as many is a whole number
        text("trace.gate_full", popular=2, factor=1.25): (np.array(drawn(128, 8, 2.0)), 1.25),
        text("trace.capacity", loads="50, 50, 50", factor=2): (_EVEN.copy(), 2.0),
    }
    return compared("34-write-dropped", answer, cases, dropped, DROPPED_MISTAKES, _tokens)


def _tokens(number: float) -> str:
    """Write a number of tokens."""
    return text(
        "trace.counted_tokens", number=f"{number:,.4g}" if number < 10_000 else f"{number:,.0f}"
    )


# Order ----------------------------------------------------------------------------------------------------------------


@register("check", "34-write-order")
def order(answer: Rule) -> Verdict:
    """Judge ``answer(rank, step, n)``, whom a rank serves in a step: no two the same one, and each one once."""
    for n in (4, 8, 16):  # powers of two, since swapping with rank ^ step is an order, too
        steps = [
            [rank_of(answer, rank, step, n, "function.rank") for rank in range(n)]
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
                trace = _order_trace(name_of(answer), key, rows[of], of, at)
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
