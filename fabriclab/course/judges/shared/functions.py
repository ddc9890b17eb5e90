"""Functions that learners write in lessons: what they return, and the mistake that explains it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.course.questions import misconception
from fabriclab.texts import text

# Whether the function is right, the sentences to show, the name of the mistake, and where the function is wrong a trace
# of what happened.
Verdict = tuple[bool, list[str], str] | tuple[bool, list[str], str, Trace]
_MOST_TYPED = 40  # illustrative: numbers of an array that a person would type
ROUNDING = 1e-6  # illustrative: relative rounding, far below what any mistake changes


def number_of(answer: Callable[..., Any], *arguments: Any) -> float:
    """Return the number that the learner's function returns; raise Unanswered if it does anything else."""
    found: ArrayLike = called(answer, *arguments)
    if isinstance(found, np.ndarray) and found.ndim == 0:
        found = found.item()
    is_number = isinstance(found, int | float | np.integer | np.floating)
    if isinstance(found, bool) or not is_number or not np.isfinite(found):
        call = _call(answer, *arguments)
        raise Unanswered("kind", text("function.number", call=call, got=brief(found)))
    return float(found)  # type: ignore[arg-type]


def truth_of(answer: Callable[..., Any], *arguments: Any) -> bool:
    """Return the True or False that the learner's function returns, of Python or NumPy; 0 and 1 stand for them."""
    found: ArrayLike = called(answer, *arguments)
    if isinstance(found, np.ndarray) and found.ndim == 0:
        found = found.item()
    is_whole = isinstance(found, bool | np.bool_ | int | np.integer)
    if not is_whole or found not in (0, 1):
        call = _call(answer, *arguments)
        raise Unanswered("kind", text("function.truth", call=call, got=brief(found)))
    return bool(found)


def rank_of(answer: Callable[..., Any], rank: int, step: int, n: int, asked: str) -> int:
    """Return the number in 0..n-1 that the learner's function returns; raise Unanswered if it does anything else.

    ``asked`` is the text that says which number was asked for.
    """
    found = called(answer, rank, step, n)
    call = _call(answer, rank, step, n)
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        numbers = text("function.two" if n == 2 else "function.numbers", last=n - 1)
        given = {"call": call, "got": brief(found), "rank": rank, "step": step, "n": n}
        raise Unanswered("kind", text(asked, **given, numbers=numbers))
    if not 0 <= found.__index__() < n:
        raise Unanswered("range", text("function.range", call=call, got=found, last=n - 1))
    return int(found)


def called(answer: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the learner's function returns; raise Unanswered if it raises."""
    try:
        return answer(*arguments)
    except (Exception, SystemExit) as error:
        raise stopped(_call(answer, *arguments), error) from None


def played(answer: Callable[..., Any], play: Callable[[], Any]) -> Any:
    """Return the run of an engine that calls the learner's function; raise Unanswered if the function raises."""
    try:
        return play()
    except (Exception, SystemExit) as error:
        raise stopped(f"{name_of(answer)}(...)", error) from None


def stopped(call: str, error: BaseException) -> Unanswered:
    """Return what to raise when a call of the learner's function has raised an error."""
    said = text("function.raised", call=call, error=type(error).__name__, words=str(error))
    return Unanswered("raised", said)


def name_of(answer: Callable[..., Any]) -> str:
    """Return the name of the learner's function, as it stands in a line of code."""
    name = str(getattr(answer, "__name__", ""))
    return name if name.isidentifier() else "your_function"


def is_same(found: float, right: float, rounding: float = ROUNDING) -> bool:
    """Return whether a number is the right one but for a relative rounding."""
    return bool(np.isclose(found, right, rtol=rounding, atol=0))


def first_wrong(cases: Sequence[TriedCase]) -> int | None:
    """Return the number of the first case in which the learner's function was wrong, None if it was right in all."""
    for i, tried in enumerate(cases):
        if not tried.right:
            return i
    return None


def mistake_of(
    returned: Sequence[float],
    rules: Mapping[str, Callable[..., Any]],
    cases: Iterable[Sequence[Any]],
    rounding: float = ROUNDING,
) -> str:
    """Return the mistake that explains all numbers that the learner's function returned, or nothing.

    Parameters
    ----------
    returned : sequence of float
        What the function returned for each case.
    rules : mapping
        What somebody with a mistake would return, by the name of the mistake.
    cases : iterable
        Arguments of each case.
    rounding : float
        Relative difference up to which two numbers are the same.
    """
    tried = list(cases)
    for name, rule in rules.items():
        expected = [rule(*arguments) for arguments in tried]
        if np.allclose(returned, expected, rtol=rounding, atol=0):
            return name
    return ""


def compared(
    question: str,
    answer: Callable[..., Any],
    cases: Mapping[str, Sequence[Any]],
    right: Callable[..., float],
    mistakes: Mapping[str, Callable[..., float]],
    written: Callable[[float], str],
    rounding: float = ROUNDING,
) -> Verdict:
    """Return the verdict on a function that returns a number, held against the right one in each case.

    Parameters
    ----------
    question : str
        Name of the question.
    answer : callable
        The learner's function.
    cases : mapping
        Arguments of each case, by its name in words.
    right : callable
        The right function, of the same arguments.
    mistakes : mapping
        What somebody with a mistake would return, by the name of the mistake.
    written : callable
        Writes a number with its unit.
    rounding : float
        Relative difference up to which two numbers are the same.
    """
    returned = [number_of(answer, *_copies(case)) for case in cases.values()]
    tried = list[TriedCase]()
    for (name, case), got in zip(cases.items(), returned, strict=True):
        wanted = right(*case)
        same = is_same(got, wanted, rounding)
        tried.append(TriedCase(name, same, "", written(got), written(wanted)))
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    line = told(answer, tried[place])
    name = mistake_of(returned, mistakes, cases.values(), rounding)
    return wrong(question, line, name, Trace(tuple(tried)))


def told(answer: Callable[..., Any], case: TriedCase) -> str:
    """Return the sentence on a case in which the learner's function is wrong: what it returned, and what is right."""
    call = name_of(answer)
    return text("function.carried", call=call, name=case.name, got=case.got, wanted=case.wanted)


def wrong(question: str, line: str, mistake: str, trace: Trace) -> Verdict:
    """Return the verdict on a function that is wrong.

    Parameters
    ----------
    question : str
        Name of the question, whose misconception about ``mistake`` follows the line.
    line : str
        What the function returned and what is right, in words.
    mistake : str
        As `mistake_of` returns it.
    trace : Trace
        What happened, case by case.
    """
    return False, [line, *explained(question, mistake)], mistake, trace


def explained(question: str, mistake: str) -> list[str]:
    """Return the misconception behind a mistake as a list of sentences, empty if no mistake is known."""
    return [misconception(question, mistake)] if mistake else []


def _copies(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments of a case with copies of its arrays, which a learner's function may change in place."""
    return [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]


def _call(answer: Callable[..., Any], *arguments: Any) -> str:
    """Write a call of the learner's function as a person would type it."""
    shown = ", ".join(_as_typed(argument) for argument in arguments)
    return f"{getattr(answer, '__name__', 'f')}({shown})"


def _as_typed(argument: Any) -> str:
    """Write an argument of a call as a person would type it: a list, a whole number, or a few digits."""
    if isinstance(argument, np.ndarray):
        if argument.size > _MOST_TYPED:
            return text("function.array", shape=" x ".join(map(str, argument.shape)))
        return str(argument.tolist())
    if isinstance(argument, float):
        return f"{argument:.10g}"
    return str(argument)
