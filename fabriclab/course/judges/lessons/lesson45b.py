"""Lesson 45b: weights of flows, so that tenants share a link as they pay."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fabriclab.core import Floats
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import Verdict, called, explained, name_of
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.engines.flow import max_min_rates
from fabriclab.registry import register
from fabriclab.texts import text

# What each tenant pays, and its number of flows -> the weight of one flow of each.
Weights = Callable[[list[float], list[int]], Any]
# illustrative: two and three tenants, equal and unequal
_CASES: tuple[tuple[tuple[float, ...], tuple[int, ...]], ...] = (
    ((1.0, 1.0), (8, 1)),
    ((1.0, 3.0), (8, 1)),
    ((2.0, 1.0, 1.0), (1, 4, 16)),
    ((5.0, 2.0), (0, 3)),
)
_CLOSE = 1e-6  # illustrative: rounding, far below what any mistake changes


def weights(paid: Sequence[float], flows: Sequence[int]) -> list[float]:
    """Return the weight of one flow of each tenant."""
    return [each / max(n, 1) for each, n in zip(paid, flows, strict=True)]


# What somebody with a mistake returns, all called as ``rule(paid, flows)``.


def _flows_forgotten(paid: Sequence[float], flows: Sequence[int]) -> list[float]:
    """Give each flow all that its tenant pays."""
    return [float(each) for each in paid]


def _times_flows(paid: Sequence[float], flows: Sequence[int]) -> list[float]:
    """Multiply by the flows where one divides."""
    return [each * n for each, n in zip(paid, flows, strict=True)]


def _payment_forgotten(paid: Sequence[float], flows: Sequence[int]) -> list[float]:
    """Share the link among tenants, whatever they pay."""
    return [1.0 / max(n, 1) for n in flows]


def _upside_down(paid: Sequence[float], flows: Sequence[int]) -> list[float]:
    """Divide the flows by what is paid for them."""
    return [max(n, 1) / each for each, n in zip(paid, flows, strict=True)]


WEIGHT_MISTAKES: dict[str, Callable[[Sequence[float], Sequence[int]], list[float]]] = {
    "number of flows forgotten": _flows_forgotten,
    "multiplied by flows": _times_flows,
    "payment forgotten": _payment_forgotten,
    "flows divided by payment": _upside_down,
}


def shares(weight: Sequence[float], flows: Sequence[int]) -> Floats:
    """Return the part of one link that each tenant gets with these weights of its flows, max-min fair."""
    each = np.repeat(np.asarray(weight, dtype=np.float64), flows)
    owner = np.repeat(np.arange(len(flows)), flows)
    ptr = np.arange(each.size + 1)
    rate = max_min_rates(ptr, np.zeros(each.size, dtype=np.int64), [1.0], weight=each)
    return np.bincount(owner, rate, len(flows)).astype(np.float64)


@register("check", "45b-write-weights")
def weights_of_tenants(answer: Weights) -> Verdict:
    """Run ``answer(paid, flows)``, the weight of one flow of each tenant, and let the flows share a link."""
    got = []
    tried = []
    for paid, flows in _CASES:
        found = shares(_weights_of(answer, paid, flows), flows)
        right = shares(weights(paid, flows), flows)
        got.append(found)
        call = f"{name_of(answer)}({list(paid)}, {list(flows)})"
        is_right = bool(np.allclose(found, right, rtol=0, atol=_CLOSE))
        tried.append(TriedCase(call, is_right, "", _percent(found), _percent(right)))
    for each in tried:
        if not each.right:
            line = text("function.weights", case=each.name, got=each.got, right=each.wanted)
            mistake = _mistake(got)
            said = explained("45b-write-weights", mistake)
            return False, [line, *said], mistake, Trace(tuple(tried))
    return True, [], ""


def _weights_of(answer: Weights, paid: Sequence[float], flows: Sequence[int]) -> list[float]:
    """Return the weights that the learner's function returns; raise Unanswered if they are none."""
    found = called(answer, list(paid), list(flows))
    kind = text("function.weights_kind", name=name_of(answer), n=len(paid), got=brief(found))
    try:
        each = [float(weight) for weight in found]
    except (TypeError, ValueError):
        raise Unanswered("kind", kind) from None
    if len(each) != len(paid):
        raise Unanswered("kind", kind)
    for weight, n in zip(each, flows, strict=True):
        if n and not 0 < weight < np.inf:
            raise Unanswered("range", text("function.weights_range", got=brief(found)))
    return each


def _mistake(got: Sequence[Floats]) -> str:
    """Return the mistake that explains the shares of all cases, or nothing."""
    for name, rule in WEIGHT_MISTAKES.items():
        expected = [shares(rule(paid, flows), flows) for paid, flows in _CASES]
        if all(np.allclose(a, b, rtol=0, atol=_CLOSE) for a, b in zip(got, expected, strict=True)):
            return name
    return ""


def _percent(part: Floats) -> str:
    """Return shares of a link as text."""
    return " : ".join(f"{100 * each:.3g} %" for each in part)
