"""Judges of answers to the questions of lessons: a letter, a number, or a function that is run.

Any function that works is right.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from fabriclab.course.judges import Trace, Unanswered, check_of
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.course.questions import Question, misconception
from fabriclab.course.shown import Answer, is_rounded, named_factor, parse_answer, quantity, unit_in
from fabriclab.formulas import evaluate
from fabriclab.texts import fill, text

_EXACT = 1e-9
_NAMED = 5e-3  # relative distance at which a known wrong answer is recognised, even if the answer must be exact


class Verdict(NamedTuple):
    """What a judge says about an answer."""

    right: bool | None  # None: it could not be read, so it is not counted
    said: list[str]  # the sentences to show
    mistake: str = ""  # its name
    trace: Trace | None = None  # of a function that is wrong


def _chosen(question: Question, answer: Any, given: Mapping[str, Any]) -> Verdict:
    options = question.options(given)
    letter = str(answer).strip().lower().rstrip(".)")
    if letter not in options:
        return Verdict(None, [text("check.choices", got=repr(answer))])
    mistake = options[letter][1]
    if mistake:
        return Verdict(False, [misconception(question.id, mistake)], mistake)
    return Verdict(True, [])


def _measured(question: Question, answer: Any, given: Mapping[str, Any]) -> Verdict:
    readings = _readings(question, answer, given)
    first = readings[0]
    if first.problem:
        return Verdict(None, [first.problem])
    truth = question.key(given)
    for read in readings:
        if math.isclose(read.value, truth, rel_tol=question.tolerance or _EXACT):
            return Verdict(True, [read.note])
    names, words = question.fill(given)
    near = max(question.tolerance, _NAMED)
    for read in readings:
        for wrong in question.wrong:
            if math.isclose(read.value, evaluate(wrong.formula, names), rel_tol=near):
                because = fill(misconception(question.id, wrong.mistake), **words)
                return Verdict(False, [read.note, because], wrong.mistake)
    factor = _factor(question, first.value, truth)
    if factor:
        return Verdict(False, [first.note, text(f"factor.{factor}")], f"factor {factor}")
    return Verdict(False, [first.note])


def _readings(question: Question, answer: Any, given: Mapping[str, Any]) -> list[Answer]:
    """Return an answer in SI; where per cent are asked for, a number alone may be a part of 1 or per cent."""
    bare = _without_noun(question, answer, given)
    read = parse_answer(bare, question.unit)
    if question.unit != "%" or read.problem or unit_in(str(answer)):
        return [read]
    return [read, parse_answer(bare, question.unit, bare="%")]


def _without_noun(question: Question, answer: Any, given: Mapping[str, Any]) -> Any:
    """Return an answer without the noun that the question counts, such as ports."""
    if question.unit != "1":
        return answer
    noun = unit_in(answer)
    if len(noun) > 2 and noun in question.words.asked(question.fill(given)[1]).split():
        return answer.strip().removesuffix(noun)
    return answer


def _factor(question: Question, value: float, truth: float) -> str | None:
    """Return the name of the factor by which a value is wrong, or that it was rounded too far; or None."""
    kind, si = quantity(question.unit)
    factor = named_factor(value, truth, kind)
    if factor is None and question.tolerance and is_rounded(value / si, truth / si):
        return "rounded"
    return factor


def _tried(question: Question, answer: Any, given: Mapping[str, Any]) -> Verdict:
    """Judge a learner's function; if a call of it cannot be judged, say why without counting a try."""
    if not callable(answer):
        return Verdict(None, [text("function.kind", got=brief(answer))])
    try:
        return Verdict(*check_of(question.id)(answer))
    except Unanswered as error:
        return Verdict(None, [error.said])


JUDGES = {"choice": _chosen, "number": _measured, "function": _tried}
