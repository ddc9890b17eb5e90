"""What an answer is worth: a letter, a number, or a function, which is run: any way that works is right."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fabriclab.checks.answers import is_rounded, named_factor, parse_answer, quantity
from fabriclab.checks.questions import Question
from fabriclab.checks.shown import Refused
from fabriclab.collectives import execute
from fabriclab.core import Schedule, StepGroup
from fabriclab.formulas import evaluate
from fabriclab.texts import text

Rule = Callable[[int, int, int], Any]
# Right or not (None: could not be read, so not counted), what to say, and the mistake by name.
Verdict = tuple[bool | None, list[str], str]
_EXACT: Final = 1e-9
_NAMED: Final = 5e-3  # a known wrong answer is recognised within this, even where the answer must be exact
_RANKS: Final = range(1, 10)
_RING_MISTAKES: Final[dict[str, Rule]] = {
    "own block every time": lambda rank, step, n: rank,
    "against the ring": lambda rank, step, n: (rank + step) % n,
    "same block for all": lambda rank, step, n: step % n,
}


def _chosen(question: Question, answer: Any, given: Mapping[str, Any]) -> Verdict:
    options = question.options(given)
    letter = str(answer).strip().lower().rstrip(".)")
    if letter not in options:
        return None, [text("check.choices", got=repr(answer))], ""
    mistake = options[letter][1]
    return not mistake, [text(f"mis.{mistake}")] if mistake else [], mistake


def _measured(question: Question, answer: Any, given: Mapping[str, Any]) -> Verdict:
    read = parse_answer(answer, question.unit)
    if read.problem:
        return None, [read.problem], ""
    truth, names = question.key(given), question.fill(given)[0]
    if math.isclose(read.value, truth, rel_tol=question.tolerance or _EXACT):
        return True, [read.note], ""
    near = max(question.tolerance, _NAMED)
    for formula, mistake in question.wrong:
        if math.isclose(read.value, evaluate(formula, names), rel_tol=near):
            return False, [read.note, text(f"mis.{mistake}")], mistake
    kind, si = quantity(question.unit)
    factor = named_factor(read.value, truth, kind)
    if factor is None and question.tolerance and is_rounded(read.value / si, truth / si):
        factor = "rounded"
    return False, [read.note, text(f"factor.{factor}") if factor else ""], f"factor {factor}" if factor else ""


def _tried(question: Question, answer: Any, given: Mapping[str, Any]) -> Verdict:
    """Judge a learner's function; an exception of it is an answer too, told with the call that caused it."""
    if not callable(answer):
        return False, [text("function.kind", got=f"{answer!r:.60}")], ""
    try:
        return _RUNS[question.id](answer)
    except Refused as error:
        return None, [str(error)], ""


def _ring(answer: Rule) -> Verdict:
    """Run ``answer(rank, step, n)``, the block to send to the next rank, as a ring on real buffers."""
    sent: dict[tuple[int, int, int], int] = {}
    for n in _RANKS:
        ranks, groups = np.arange(n), []
        for step in range(2 * (n - 1)):
            blocks = [_block(answer, rank, step, n) for rank in range(n)]
            sent |= {(rank, step, n): block for rank, block in enumerate(blocks)}
            groups.append(StepGroup.make(ranks, (ranks + 1) % n, blocks, reduce=step < n - 1))
        # Each rank has a one of its own in every block, so the sums count how often each gradient is in a block.
        sums = execute(Schedule("all_reduce", "of a learner", n, n, tuple(groups)), np.tile(np.eye(n), n))
        counts = np.reshape(sums, (n, n, n))  # (rank, block, rank whose gradient it is)
        if (counts != 1).any():
            return _ring_fault(sent, counts)
    # The library starts with the block on the left of its own, so that rank r ends with block r.
    usual = any(all((r - step + k) % n == block for (r, step, n), block in sent.items()) for k in (0, -1))
    return True, [] if usual else [text("check.another")], ""


def _order(answer: Rule) -> Verdict:
    """Judge ``answer(rank, step, n)``, whom a rank serves in a step: no two the same one, and each one once."""
    for n in (4, 8, 16):  # powers of two, since swapping with rank ^ step is an order, too
        to = np.array([[_block(answer, rank, step, n) for rank in range(n)] for step in range(n)])  # (step, rank)
        for key, rows in (("function.meet", to), ("function.pair", to.T)):
            held = np.array([np.bincount(row, minlength=n) for row in rows])
            if (held > 1).any():
                of, at = np.argwhere(held > 1)[0]
                fits = {"all to one": to == to[:, :1], "always the same": to == to[0], "wraps too early": to != n - 1}
                name = next((mistake for mistake, seen in fits.items() if seen.all()), "")
                line = text(key, n=n, of=of, at=at, count=held[of, at])
                return False, [line, text(f"mis.{name}") if name else ""], name
    return True, [], ""


def _block(answer: Rule, rank: int, step: int, n: int) -> int:
    """Return the block that the learner's function names; Refused tells what else it did."""
    call = f"{getattr(answer, '__name__', 'f')}({rank}, {step}, {n})"
    try:
        found = answer(rank, step, n)
    except (Exception, SystemExit) as error:
        raise Refused(text("function.raised", call=call, error=type(error).__name__, words=str(error))) from None
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        raise Refused(text("function.whole", call=call, got=f"{found!r:.60}"))
    if not 0 <= found.__index__() < n:
        raise Refused(text("function.range", call=call, got=found, last=n - 1))
    return int(found)


def _ring_fault(sent: dict[tuple[int, int, int], int], counts: NDArray[np.float64]) -> Verdict:
    rank, block = np.argwhere((counts != 1).any(axis=2))[0]
    wrong = counts[rank, block]
    odd = {"function.lacks": np.flatnonzero(wrong == 0), "function.twice": np.flatnonzero(wrong > 1)}
    faults = [text(key, ranks=", ".join(map(str, ranks))) for key, ranks in odd.items() if ranks.size]
    line = " ".join([text("function.ring", n=len(counts), rank=rank, block=block), *faults])
    fits = [name for name, rule in _RING_MISTAKES.items() if _follows(sent, rule)]
    # With few ranks several mistakes look alike: name one only where it alone fits.
    return (False, [line, text(f"mis.{fits[0]}")], fits[0]) if len(fits) == 1 else (False, [line], "")


def _follows(sent: dict[tuple[int, int, int], int], rule: Rule) -> bool:
    return all(rule(*at) == block for at, block in sent.items())


_RUNS: Final[dict[str, Callable[[Rule], Verdict]]] = {"31-write-ring": _ring, "34-write-order": _order}
JUDGES: Final = {"choice": _chosen, "number": _measured, "function": _tried}
