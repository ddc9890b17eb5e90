"""Lesson 51c: max-min fair shares of a port."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import ROUNDING, Verdict, called, explained
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.registry import register
from fabriclab.texts import text

Rates = list[float]
Shares = Callable[[Rates, float], Any]  # limits and capacity [B/s] -> rates [B/s]
GB = 1e9  # bytes in a GB

# illustrative: limits and capacity in GB/s; the first is the lesson's example, and in each something else is special
_PORTS: tuple[tuple[tuple[float, ...], float], ...] = (
    ((10.0, 50.0, 50.0), 50.0),
    ((50.0, 50.0, 50.0, 50.0), 50.0),
    ((50.0, 12.5, 25.0, 5.0), 50.0),
    ((30.0, 5.0, 11.0, 30.0), 40.0),
    ((5.0, 10.0), 50.0),
)


def fair_shares(limits: Sequence[float], capacity: float) -> Rates:
    """Return the max-min fair rates of senders that share a port. [B/s]."""
    shares = [0.0] * len(limits)
    left = capacity
    waiting = len(limits)
    for i in np.argsort(limits, kind="stable"):
        shares[i] = min(limits[i], left / waiting)
        left -= shares[i]
        waiting -= 1
    return shares


def _once(limits: Sequence[float], capacity: float) -> Rates:
    """Return shares where what slow senders leave is divided once, without a look at the others' limits."""
    part = capacity / len(limits)
    slow = [limit for limit in limits if limit <= part]
    n_fast = len(limits) - len(slow)
    rest = (capacity - sum(slow)) / n_fast if n_fast else 0.0
    return [limit if limit <= part else rest for limit in limits]


def _limits(limits: Sequence[float], capacity: float) -> Rates:
    """Return the limits themselves."""
    return list(limits)


def _equal(limits: Sequence[float], capacity: float) -> Rates:
    """Return equal parts of the port, and no more than each sender can use."""
    part = capacity / len(limits)
    return [min(limit, part) for limit in limits]


def _in_proportion(limits: Sequence[float], capacity: float) -> Rates:
    """Return shares in proportion to the limits."""
    part = min(1.0, capacity / sum(limits))
    return [part * limit for limit in limits]


def _sorted(limits: Sequence[float], capacity: float) -> Rates:
    """Return the right shares, from the smallest to the largest."""
    return sorted(fair_shares(limits, capacity))


# What somebody with a mistake returns, by its name.
SHARE_MISTAKES: dict[str, Callable[[Sequence[float], float], Rates]] = {
    "limits returned": _limits,
    "equal parts": _equal,
    "in proportion": _in_proportion,
    "left once only": _once,
    "order lost": _sorted,
}


@register("check", "51c-write-shares")
def shares_of_port(answer: Shares) -> Verdict:
    """Run ``answer(limits, capacity)``, max-min fair rates [B/s], on several ports."""
    returned = []
    tried = []
    for limits, capacity in _PORTS:
        got = _rates(answer, limits, capacity)
        wanted = fair_shares(limits, capacity)
        name = text("trace.port", limits=_words(limits), capacity=f"{capacity:g}")
        returned.append(got)
        tried.append(TriedCase(name, _same(got, wanted), "", _words(got), _words(wanted)))
    wrong = [done for done in tried if not done.right]
    if not wrong:
        return True, [], ""
    first = wrong[0]
    line = text("function.loop", name=first.name, got=first.got, wanted=first.wanted)
    mistake = _mistake(returned)
    said = [line, *explained("51c-write-shares", mistake)]
    return False, said, mistake, Trace(tuple(tried))


def _rates(answer: Shares, limits: Sequence[float], capacity: float) -> Rates:
    """Return the rates of a learner's function in GB/s; raise Unanswered if they are none."""
    found = called(answer, [GB * limit for limit in limits], GB * capacity)
    try:
        rates = [float(rate) / GB for rate in found]
    except (TypeError, ValueError):
        raise Unanswered("kind", text("function.shares", got=brief(found), n=len(limits))) from None
    if len(rates) != len(limits):
        raise Unanswered("kind", text("function.shares", got=brief(found), n=len(limits)))
    return rates


def _same(a: Sequence[float], b: Sequence[float]) -> bool:
    return bool(np.allclose(a, b, rtol=ROUNDING, atol=0))


def _words(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:.4g}" for rate in rates) + " GB/s"


def _mistake(returned: Sequence[Rates]) -> str:
    """Return the mistake that explains all that was returned, or nothing."""
    for name, rule in SHARE_MISTAKES.items():
        expected = [rule(limits, capacity) for limits, capacity in _PORTS]
        if all(_same(got, want) for got, want in zip(returned, expected, strict=True)):
            return name
    return ""
