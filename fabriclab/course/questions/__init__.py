"""The questions of lessons: formulas for right and known wrong answers, never typed numbers, and their words.

`files` says where they stand.
"""

import functools
import random
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fabriclab.catalog import case
from fabriclab.course.questions import files
from fabriclab.course.questions.files import Words, misconception, translated
from fabriclab.course.shown import InputRefused, digits, quantity, shown
from fabriclab.formulas import evaluate
from fabriclab.texts import text

__all__ = [
    "Prediction",
    "Question",
    "Words",
    "Wrong",
    "find",
    "misconception",
    "predictions",
    "questions",
    "unknown",
]


class Wrong(NamedTuple):
    """A known wrong answer: its formula, or its sentence among the options, and the name of the mistake."""

    mistake: str
    formula: str = ""
    option: str = ""


@dataclass(frozen=True)
class Question:
    """A question of a lesson."""

    id: str
    lesson: str  # its file name
    kind: str  # number, pick (a number by a button), choice or function
    words: Words
    # name -> values that it can have, the usual one first: 17.6 GB, 128, case.dp or case.nic_rate in Gb/s
    params: Mapping[str, tuple[str, ...]]
    wrong: tuple[Wrong, ...]
    formula: str = ""  # the right answer in SI
    right: str = ""  # the right option of a choice
    unit: str = ""  # in which it is asked
    tolerance: float = 0  # relative; 0 asks for the exact number
    drill: str = ""  # units/ and its number in the drill on units, or empty
    row: str = ""  # of the list of questions that the course must ask, such as Q27
    erratum: str = ""  # the statement that it tests, such as E06

    def call(self, *arguments: str) -> str:
        """Return the line to type that asks this question, or answers it with ``arguments``."""
        if self.drill:
            name, first = "drill", self.drill.removeprefix("units/")
        else:
            name, first = "check", f'"{self.id}"'
        return f"fl.{name}({', '.join([first, *arguments])})"

    def fill(self, given: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
        """Return the parameters as SI numbers and as words: ``given`` ones, else the usual value of each."""
        unknown_names = given.keys() - self.params
        if unknown_names:
            known = ", ".join(self.params) or "-"
            raise InputRefused(text("check.param", name=unknown_names.pop(), known=known))
        numbers = {}
        words = {}
        for name, choices in self.params.items():
            numbers[name], words[name] = _read(str(given.get(name, choices[0])))
        return numbers, words

    def key(self, given: Mapping[str, Any]) -> float:
        """Return the right answer in SI, computed now."""
        return evaluate(self.formula, self.fill(given)[0])

    def shown(self, value: float) -> str:
        """Return an SI value in the unit of the question; where the answer is exact, with all its digits."""
        number = value / quantity(self.unit)[1]
        if self.tolerance:
            return shown(number, self.unit)
        return f"{number:g} {self.unit}".removesuffix(" 1")

    def options(self, given: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
        """Return letter -> (option, name of the mistake or ""): numbers by size, sentences mixed."""
        if self.kind == "choice":
            pairs = [(translated(f"{self.id}.right", self.right), "")]
            for place, wrong in enumerate(self.wrong, 1):
                option = translated(f"{self.id}.wrong{place}", wrong.option)
                pairs.append((option, wrong.mistake))
            random.Random(zlib.crc32(self.id.encode())).shuffle(pairs)
        else:
            names, _ = self.fill(given)
            numbers = [(evaluate(self.formula, names), "")]
            numbers += [(evaluate(wrong.formula, names), wrong.mistake) for wrong in self.wrong]
            pairs = [(self.shown(value), mistake) for value, mistake in sorted(numbers)]
        return dict(zip("abcd", pairs, strict=True))


def _read(written: str) -> tuple[float, str]:
    """Return the value of a parameter as an SI number and in words."""
    name, _, unit = written.partition(" in ")
    if name.startswith("case."):
        value = case()[name.removeprefix("case.")]
        if not unit:
            return value, digits(value)
        return value, shown(value / quantity(unit)[1], unit)
    number, _, unit = written.partition(" ")
    return float(number) * quantity(unit or "1")[1], written


@functools.cache
def questions() -> Mapping[str, Question]:
    """Return all questions of lessons by id, in the order of lessons."""
    found = {}
    for name in files.names():
        head = files.load(name)
        if "lesson" in head:
            for id, entry in files.entries(name).items():
                found[id] = _question(id, head["lesson"], entry)
    return found


def _question(id: str, lesson: str, entry: Mapping[str, Any]) -> Question:
    """Return a question from its entry in a file."""
    wrong = []
    for answer in entry.get("wrong", ()):
        wrong.append(Wrong(**{key: answer[key] for key in Wrong._fields if key in answer}))
    optional = ("formula", "right", "unit", "tolerance", "drill", "row", "erratum")
    return Question(
        id=id,
        lesson=lesson,
        kind=entry["kind"],
        words=Words.of(id, entry),
        params={name: tuple(values) for name, values in entry.get("quantities", {}).items()},
        wrong=tuple(wrong),
        **{key: entry[key] for key in optional if key in entry},
    )


def find(id: str) -> Question:
    """Return the question ``id``; a wrong id is answered with those of its lesson."""
    if id not in questions():
        raise unknown(id, questions())
    return questions()[id]


def unknown(id: str, known: Iterable[str]) -> InputRefused:
    """Return the refusal of an id that is not among the ``known``: it names those of the same lesson or exercise."""
    known = list(known)
    start, *_ = str(id).split("-")
    near = [other for other in known if other.split("-")[0] == start] or known
    return InputRefused(text("check.unknown", id=id, known=", ".join(near)))


class Prediction(NamedTuple):
    """What a lesson asks to predict, and from where to where its sliders reach."""

    id: str
    lesson: str
    unit: str
    lowest: float
    highest: float
    title: str

    def name(self) -> str:
        """Return what lists call it."""
        return translated(f"guess.{self.id}", self.title)


@functools.cache
def predictions() -> Mapping[str, Prediction]:
    """Return what the lessons ask to predict, by id, in the order of lessons."""
    found = {}
    for name in files.names():
        head = files.load(name)
        for id, entry in head.get("predictions", {}).items():
            found[id] = Prediction(id=id, lesson=head["lesson"], **entry)
    return found
