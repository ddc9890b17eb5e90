"""Lesson 34: whom a rank serves in which step of an all-to-all."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    Verdict,
    name_of,
    rank_of,
)
from fabriclab.course.questions import misconception
from fabriclab.registry import register
from fabriclab.texts import text

Rule = Callable[[int, int, int], Any]


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
