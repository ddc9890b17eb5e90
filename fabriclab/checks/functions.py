"""Judge a function that a learner wrote, by running it on small cases; any way that works is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fabriclab.checks.shown import text

__all__ = ["JUDGES", "judge"]

Judgement = tuple[bool, tuple[str, ...], str]
Rule = Callable[[int, int, int], Any]
_RANKS: Final = range(1, 10)
_RING_MISTAKES: Final[dict[str, Rule]] = {
    "own block every time": lambda rank, step, n: rank,
    "against the ring": lambda rank, step, n: (rank + step) % n,
    "same block for all": lambda rank, step, n: step % n,
}


def judge(id: str, answer: Any) -> Judgement:
    """Return whether a learner's function is right, what to say, and the mistake by name.

    An exception of the function is an answer too: it is told with the call that caused it.
    """
    if not callable(answer):
        return False, (text("function.kind", got=f"{answer!r:.60}"),), ""
    return JUDGES[id](answer)


def _block(answer: Rule, rank: int, step: int, n: int) -> tuple[int, str]:
    """Return the block that the learner's function names, or -1 with a sentence."""
    call = f"{getattr(answer, '__name__', 'f')}({rank}, {step}, {n})"
    try:
        found = answer(rank, step, n)
    except (Exception, SystemExit) as error:
        return -1, text("function.raised", call=call, error=type(error).__name__, words=str(error))
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        return -1, text("function.whole", call=call, got=f"{found!r:.60}")
    if not 0 <= found.__index__() < n:
        return -1, text("function.range", call=call, got=found, last=n - 1)
    return found.__index__(), ""


def _ring(answer: Rule) -> Judgement:
    """Run ``answer(rank, step, n)``, the block to send to the next rank, as a ring on real buffers."""
    choices: dict[tuple[int, int, int], int] = {}
    for n in _RANKS:
        # Hexadecimal digit r of a value counts how often the gradient of rank r is in it.
        buffers = np.repeat(16 ** np.arange(n, dtype=np.int64)[:, None], n, axis=1)
        for step in range(2 * (n - 1)):
            before = buffers.copy()
            for rank in range(n):
                block, problem = _block(answer, rank, step, n)
                if problem:
                    return False, (problem,), ""
                choices[rank, step, n] = block
                target = (rank + 1) % n
                kept = buffers[target, block] if step < n - 1 else 0
                buffers[target, block] = before[rank, block] + kept
        wrong = np.argwhere(buffers != (16**n - 1) // 15)
        if wrong.size:
            rank, block = (int(i) for i in wrong[0])
            return _ring_fault(choices, n, rank, block, int(buffers[rank, block]))
    usual = all(block == (rank - step) % n for (rank, step, n), block in choices.items())
    return True, () if usual else (text("check.another"),), ""


def _ring_fault(choices: dict[tuple[int, int, int], int], n: int, rank: int, block: int, value: int) -> Judgement:
    fits = [name for name, rule in _RING_MISTAKES.items() if all(rule(*at) == b for at, b in choices.items())]
    times = [value >> 4 * r & 15 for r in range(n)]
    lacks = ", ".join(str(r) for r in range(n) if times[r] == 0) or "-"
    twice = ", ".join(str(r) for r in range(n) if times[r] > 1) or "-"
    line = text("function.ring", n=n, rank=rank, block=block, lacks=lacks, twice=twice)
    # With few ranks several mistakes look alike: name one only where it alone fits.
    return (False, (line, text(f"mis.{fits[0]}")), fits[0]) if len(fits) == 1 else (False, (line,), "")


JUDGES: Final[dict[str, Callable[[Rule], Judgement]]] = {"31-write-ring": _ring}
