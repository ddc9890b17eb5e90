"""Checks of lessons that run a learner's function; any function that works is right.

Each check returns whether the function is right, the sentences to show, and the name of the mistake.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab.collectives import execute
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


@register("check", "31-write-ring")
def ring(answer: Rule) -> Verdict:
    """Run ``answer(rank, step, n)``, the block to send to the next rank, as a ring on real buffers."""
    sent: Sent = {}
    for n in range(1, 10):
        ranks = np.arange(n)
        groups = []
        for step in range(2 * (n - 1)):
            blocks = [_block(answer, rank, step, n) for rank in range(n)]
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


def _block(answer: Rule, rank: int, step: int, n: int) -> int:
    """Return the block that the learner's function returns; raise Unanswered if it does anything else."""
    call = f"{getattr(answer, '__name__', 'f')}({rank}, {step}, {n})"
    try:
        found = answer(rank, step, n)
    except (Exception, SystemExit) as error:
        kind = type(error).__name__
        said = text("function.raised", call=call, error=kind, words=str(error))
        raise Unanswered("raised", said) from None
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        raise Unanswered("kind", text("function.whole", call=call, got=brief(found)))
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
