"""`check` and `drill`: feedback on an answer, with the mistake by name and one more hint each time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fabriclab.checks import functions, store
from fabriclab.checks.answers import named_factor, parse_answer
from fabriclab.checks.questions import Question, evaluate, find, questions
from fabriclab.checks.shown import Refused, Shown, keys, text

__all__ = ["check", "drill"]

_HINTS: Final = 3
_EXACT: Final = 1e-9
_NAMED: Final = 5e-3  # a known wrong answer is recognised within this, even where the answer must be exact


@dataclass(frozen=True)
class Verdict:
    """What an answer is worth: right or not, what to say, the mistake by name; not counted if not readable."""

    right: bool
    lines: tuple[str, ...] = ()
    named: str = ""
    counted: bool = True


def check(id: str, answer: Any = None, **given: Any) -> Shown:
    """Say whether an answer is right, and if not, what happened, with one more hint each time.

    Parameters
    ----------
    id : str
        Name of the question; the lesson gives it.
    answer : number, str or function, optional
        Such as ``"0.7 s"``, ``"b"``, or your function; without one, the question is asked.
    **given
        Other numbers for the question, such as ``n=32`` or ``s="4.4 GB"``.

    Raises
    ------
    Refused
        A ValueError: there is no such question or parameter.
    """
    question = find(id)
    if answer is None:
        return _ask(question, given, question.kind == "choice")
    if question.kind == "function":
        verdict = Verdict(*functions.judge(id, answer))
    else:
        verdict = (_chosen if question.kind == "choice" else _measured)(question, answer, given)
    return _feedback(question, verdict, given)


def drill(number: int | None = None, answer: str | None = None, *, name: str = "units") -> Shown:
    """Ask question ``number`` of a drill with four choices, or answer it with a letter; without one, list it."""
    rows = {q.drill: q for q in questions().values() if q.drill.startswith(f"{name}/")}
    if number is None:
        done = store.read()["drills"]
        state = {d: "right" if done.get(q.id, {}).get("right") else "open" for d, q in rows.items()}
        asked = (_ask(q, {}, True, text(f"drill.{state[d]}", number=d.rpartition("/")[2])) for d, q in rows.items())
        return Shown((text("drill.list", name=name, n=len(rows)),), parts=tuple(asked), data=state)
    if f"{name}/{number}" not in rows:
        raise Refused(text("drill.unknown", number=number, n=len(rows), name=name))
    question = rows[f"{name}/{number}"]
    return _ask(question, {}, True) if answer is None else _feedback(question, _chosen(question, answer, {}), {})


def _ask(question: Question, given: Mapping[str, Any], choices: bool, start: str = "") -> Shown:
    asked = start + text(f"q.{question.id}", **question.fill(given)[1])
    if choices:
        rows = tuple((letter, option) for letter, (option, _) in question.options(given).items())
        return Shown((asked,), rows=rows, after=() if start else (text("check.letter"),))
    if question.kind == "function":
        return Shown((asked,))
    tolerance = "check.tolerance" if question.tolerance else "check.exact"
    return Shown((asked, text(tolerance, unit=question.unit, percent=f"{100 * question.tolerance:g}")))


def _chosen(question: Question, answer: Any, given: Mapping[str, Any]) -> Verdict:
    options = question.options(given)
    letter = str(answer).strip().lower().rstrip(".)")
    if letter not in options:
        return Verdict(False, (text("check.choices", got=repr(answer)),), counted=False)
    name = options[letter][1]
    return Verdict(not name, (text(f"mis.{name}"),) if name else (), name)


def _measured(question: Question, answer: Any, given: Mapping[str, Any]) -> Verdict:
    read = parse_answer(answer, question.unit)
    if read.problem:
        return Verdict(False, (read.problem,), counted=False)
    note = (read.note,) if read.note else ()
    truth, names = question.key(given), question.fill(given)[0]
    if math.isclose(read.value, truth, rel_tol=question.tolerance or _EXACT):
        return Verdict(True, note)
    near = max(question.tolerance, _NAMED)
    for formula, name in question.wrong:
        if math.isclose(read.value, evaluate(formula, names), rel_tol=near):
            return Verdict(False, (*note, text(f"mis.{name}")), name)
    factor = named_factor(read.value, truth)
    return Verdict(False, (*note, text(f"factor.{factor}")), f"factor {factor}") if factor else Verdict(False, note)


def _feedback(question: Question, verdict: Verdict, given: Mapping[str, Any]) -> Shown:
    """Count the try, store it, and say the verdict with the next hint, or with the model's answer."""
    if not verdict.counted:
        return Shown((*verdict.lines, text("check.uncounted")), "wait", data={"right": False, "counted": False})
    section = "drills" if question.drill else "checks"
    held = store.read()[section].get(question.id, {"tries": 0, "right": False, "named": []})
    if not held["right"]:
        named = [*held["named"], verdict.named] if verdict.named else held["named"]
        held = held | {"tries": held["tries"] + 1, "right": verdict.right, "named": named, "when": store.now()}
        store.put(section, question.id, held)
    data = {"right": verdict.right, "counted": True, "tries": held["tries"], "named": verdict.named}
    if verdict.right:
        tries = text("check.first" if held["tries"] == 1 else "check.tries", n=held["tries"])
        key = question.shown(question.key(given)) if question.kind == "number" else ""
        model = [text("check.key", key=key)] if key else []
        return Shown((text("check.right", tries=tries), *verdict.lines, *model), "good", data=data)
    level = min(held["tries"], _HINTS)
    hint = [text(key, **question.fill(given)[1]) for key in keys(f"{question.id}.hint{level}")]
    hints = [text("check.hint", level=level, hint=words) for words in hint]
    return Shown((text("check.wrong"), *verdict.lines, *hints), "wait", data=data)
