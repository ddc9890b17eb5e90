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
RING_MISTAKES: dict[str, Rule] = {
    "own block every time": lambda rank, step, n: rank,
    "against the ring": lambda rank, step, n: (rank + step) % n,
    "same block for all": lambda rank, step, n: step % n,
}


@register("check", "31-write-ring")
def ring(answer: Rule) -> Verdict:
    """Judge ``answer(rank, step, n)``, the block to send to the next rank, by running it as a ring on real buffers."""
    sent: dict[tuple[int, int, int], int] = {}
    for n in range(1, 10):
        ranks, groups = np.arange(n), []
        for step in range(2 * (n - 1)):
            blocks = [_block(answer, rank, step, n) for rank in range(n)]
            sent |= {(rank, step, n): block for rank, block in enumerate(blocks)}
            groups.append(StepGroup.make(ranks, (ranks + 1) % n, blocks, reduce=step < n - 1))
        # In every block each rank has a 1 at its own place, so the sums count how often each gradient is in a block.
        sums = execute(
            Schedule("all_reduce", "of a learner", n, n, tuple(groups)), np.tile(np.eye(n), n)
        )
        counts = np.reshape(sums, (n, n, n))  # (rank, block, rank whose gradient it is)
        if (counts != 1).any():
            return _ring_fault(sent, counts)
    # The library's ring starts with the block to the left of its own, so that rank r ends with block r.
    usual = any(
        all((r - step + k) % n == block for (r, step, n), block in sent.items()) for k in (0, -1)
    )
    return True, [] if usual else [text("check.another")], ""


@register("check", "34-write-order")
def order(answer: Rule) -> Verdict:
    """Judge ``answer(rank, step, n)``, the rank that a rank serves in a step.

    No two ranks may serve the same one in a step, and each rank has to serve every rank once.
    """
    for n in (4, 8, 16):  # powers of two, because pairing by rank ^ step is also a valid order
        # (step, rank)
        to = np.array([[_block(answer, rank, step, n) for rank in range(n)] for step in range(n)])
        for key, rows in (("function.meet", to), ("function.pair", to.T)):
            held = np.array([np.bincount(row, minlength=n) for row in rows])
            if (held > 1).any():
                of, at = np.argwhere(held > 1)[0]
                fits = {
                    "all to one": to == to[:, :1],
                    "always the same": to == to[0],
                    "wraps too early": to != n - 1,
                }
                name = next((mistake for mistake, seen in fits.items() if seen.all()), "")
                line = text(key, n=n, of=of, at=at, count=held[of, at])
                return False, [line, misconception("34-write-order", name)], name
    return True, [], ""


def _block(answer: Rule, rank: int, step: int, n: int) -> int:
    """Return the block that the learner's function returns; raise Unanswered if it does anything else."""
    call = f"{getattr(answer, '__name__', 'f')}({rank}, {step}, {n})"
    try:
        found = answer(rank, step, n)
    except (Exception, SystemExit) as error:
        raise Unanswered(
            "raised",
            text("function.raised", call=call, error=type(error).__name__, words=str(error)),
        ) from None
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        raise Unanswered("kind", text("function.whole", call=call, got=brief(found)))
    if not 0 <= found.__index__() < n:
        raise Unanswered("range", text("function.range", call=call, got=found, last=n - 1))
    return int(found)


def _ring_fault(sent: dict[tuple[int, int, int], int], counts: NDArray[np.float64]) -> Verdict:
    rank, block = np.argwhere((counts != 1).any(axis=2))[0]
    wrong = counts[rank, block]
    odd = {
        "function.lacks": np.flatnonzero(wrong == 0),
        "function.twice": np.flatnonzero(wrong > 1),
    }
    faults = [
        text(key, ranks=", ".join(map(str, ranks))) for key, ranks in odd.items() if ranks.size
    ]
    line = " ".join([text("function.ring", n=len(counts), rank=rank, block=block), *faults])
    fits = [
        name
        for name, rule in RING_MISTAKES.items()
        if all(rule(*at) == block for at, block in sent.items())
    ]
    if len(fits) != 1:  # no known mistake, or several that look alike with few ranks
        return False, [line], ""
    return False, [line, misconception("31-write-ring", fits[0])], fits[0]
