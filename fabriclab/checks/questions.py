"""The table of questions, with formulas for right and known wrong answers, never typed numbers; and their judges.

An answer is a letter, a number, or a function, which is run: any way that works is right.
"""

import functools
import math
import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fabriclab import exercises
from fabriclab.catalog import case
from fabriclab.catalog.tables import rows_of
from fabriclab.checks.shown import (
    Refused,
    digits,
    is_rounded,
    named_factor,
    parse_answer,
    quantity,
    shown,
    unit_in,
)
from fabriclab.formulas import evaluate
from fabriclab.registry import get
from fabriclab.texts import table, text

# Right or not (None: could not be read, so not counted), what to say, and the mistake by name.
Verdict = tuple[bool | None, list[str], str]
_EXACT = 1e-9
_NAMED = 5e-3  # a known wrong answer is recognised within this, even where the answer must be exact


@dataclass(frozen=True)
class Question:
    """One row of the table; the words stand in the language table under ``q.<id>``."""

    id: str
    lesson: str  # its file name
    kind: str  # number, pick (a number by a button), choice or function
    drill: str  # units/ and its number in the drill on units, or empty
    params: Mapping[
        str, tuple[str, ...]
    ]  # name -> ways to fill it: 17.6 GB, 128, case.dp or case.nic_rate in Gb/s
    formula: str  # the right answer in SI
    unit: str  # in which it is asked
    tolerance: float  # relative; 0 asks for the exact number
    wrong: tuple[
        tuple[str, str], ...
    ]  # formula of a known wrong answer (empty for a choice), name of the mistake

    def call(self, *arguments: str) -> str:
        """Return the line to type that asks this question, or answers it with ``arguments``."""
        name, number = (
            ("drill", self.drill.removeprefix("units/"))
            if self.drill
            else ("check", f'"{self.id}"')
        )
        return f"fl.{name}({', '.join([number, *arguments])})"

    def fill(self, given: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
        """Return the parameters as SI numbers and as words: ``given`` ones, else the first way of each."""
        if strange := given.keys() - self.params:
            raise Refused(
                text("check.param", name=strange.pop(), known=", ".join(self.params) or "-")
            )
        pairs = {name: _read(str(given.get(name, ways[0]))) for name, ways in self.params.items()}
        return {n: p[0] for n, p in pairs.items()}, {n: p[1] for n, p in pairs.items()}

    def key(self, given: Mapping[str, Any]) -> float:
        """Return the right answer in SI, computed now."""
        return evaluate(self.formula, self.fill(given)[0])

    def shown(self, value: float) -> str:
        """Return an SI value in the unit of the question; where the answer is exact, with all its digits."""
        number = value / quantity(self.unit)[1]
        return (
            shown(number, self.unit)
            if self.tolerance
            else f"{number:g} {self.unit}".removesuffix(" 1")
        )

    def options(self, given: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
        """Return letter -> (option, name of the mistake or ""): numbers by size, sentences mixed."""
        if self.kind == "choice":
            pairs = [(text(f"{self.id}.right"), "")]
            pairs += [
                (text(f"{self.id}.wrong{i}"), name) for i, (_, name) in enumerate(self.wrong, 1)
            ]
            random.Random(zlib.crc32(self.id.encode())).shuffle(pairs)
        else:
            names, _ = self.fill(given)
            numbers = sorted(
                (evaluate(f, names), name) for f, name in ((self.formula, ""), *self.wrong)
            )
            pairs = [(self.shown(value), name) for value, name in numbers]
        return dict(zip("abcd", pairs, strict=True))


def _read(way: str) -> tuple[float, str]:
    """Return one way to fill a parameter, as an SI number and in words."""
    name, _, unit = way.partition(" in ")
    if name.startswith("case."):
        value = case()[name.removeprefix("case.")]
        return value, shown(value / quantity(unit)[1], unit) if unit else digits(value)
    number, _, unit = way.partition(" ")
    return float(number) * quantity(unit or "1")[1], way


@functools.cache
def questions() -> Mapping[str, Question]:
    """Return all questions by id, in the order of the table."""
    found = {}
    for row in rows_of("questions.csv", __file__):
        ways = (part.partition("=") for part in row["params"].split(";") if part)
        slips = (part.partition("#") for part in row["misformulas"].split(";"))
        found[row["id"]] = Question(
            **{key: row[key] for key in ("id", "lesson", "kind", "drill", "formula", "unit")},
            params={name: tuple(values.split("|")) for name, _, values in ways},
            tolerance=float(row["tolerance"] or 0),
            wrong=tuple((formula.strip(), mistake.strip()) for formula, _, mistake in slips),
        )
    return found


def find(id: str) -> Question:
    """Return the question ``id``; a wrong id is answered with those of its lesson."""
    if id not in questions():
        known = exercises.questions() if str(id).startswith("ex") else questions()
        near = [k for k in known if k.split("-")[0] == str(id).split("-")[0]] or list(known)
        raise Refused(text("check.unknown", id=id, known=", ".join(near)))
    return questions()[id]


def _chosen(question: Question, answer: Any, given: Mapping[str, Any]) -> Verdict:
    options = question.options(given)
    letter = str(answer).strip().lower().rstrip(".)")
    if letter not in options:
        return None, [text("check.choices", got=repr(answer))], ""
    mistake = options[letter][1]
    return not mistake, [text(f"mis.{mistake}")] if mistake else [], mistake


def _measured(question: Question, answer: Any, given: Mapping[str, Any]) -> Verdict:
    if (
        question.unit == "1"
        and len(noun := unit_in(answer)) > 2
        and noun in table()[f"q.{question.id}"].split()
    ):
        answer = answer.strip().removesuffix(noun)  # what the question counts, such as ports
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
    return (
        False,
        [read.note, text(f"factor.{factor}") if factor else ""],
        f"factor {factor}" if factor else "",
    )


def _tried(question: Question, answer: Any, given: Mapping[str, Any]) -> Verdict:
    """Judge a learner's function; an exception of it is an answer too, told with the call that caused it."""
    if not callable(answer):
        return False, [text("function.kind", got=f"{answer!r:.60}")], ""
    try:
        judged: Verdict = get("check", question.id)(answer)
    except exercises.Unanswered as error:
        return None, [error.said], ""
    return judged


JUDGES = {"choice": _chosen, "number": _measured, "function": _tried}
