"""The questions of lessons: their words, and formulas for right and known wrong answers instead of typed numbers.

`files` reads the files that contain them.
"""

import functools
import random
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fabriclab import units
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
    "asides",
    "find",
    "misconception",
    "predictions",
    "questions",
    "unknown",
]


class Wrong(NamedTuple):
    """A known wrong answer: the name of the mistake, with the formula of the answer or its sentence as an option."""

    mistake: str
    formula: str = ""
    option: str = ""


@dataclass(frozen=True)
class Question:
    """A question of a lesson."""

    id: str
    lesson: str  # file name of the lesson, or of the exercise that asks it on the way
    kind: str  # number, pick (a number by a button), choice or function
    words: Words
    # name -> possible values, the usual one first: 17.6 GB, 128, case.dp or case.nic_rate in Gb/s
    params: Mapping[str, tuple[str, ...]]
    wrong: tuple[Wrong, ...]
    formula: str = ""  # the right answer in SI
    right: str = ""  # the right option of a choice
    unit: str = ""  # unit in which the answer is asked for
    tolerance: float = 0  # relative tolerance; 0 asks for the exact number
    drill: str = ""  # "units/" and its number, if it is in the drill on units
    row: str = ""  # row in the list of questions that the course must ask, such as Q27
    erratum: str = ""  # the claim on the errata page that it tests, such as E06
    core: bool = True  # whether it belongs to the core of its lesson, and not to "go further"

    def call(self, *arguments: str) -> str:
        """Return the line to type that asks this question, or answers it with ``arguments``."""
        if self.drill:
            name, first = "drill", self.drill.removeprefix("units/")
        else:
            name, first = "check", f'"{self.id}"'
        return f"fl.{name}({', '.join([first, *arguments])})"

    def fill(self, given: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
        """Return the quantities of the question as SI numbers and as words: as ``given``, else their usual values."""
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
        """Compute the right answer in SI."""
        return evaluate(self.formula, self.fill(given)[0])

    def shown(self, value: float) -> str:
        """Write an SI value in the unit of the question; an exact answer has up to six digits instead of three."""
        number = value / quantity(self.unit)[1]
        if self.tolerance:
            return shown(number, self.unit)
        return f"{number:g} {units.printed(self.unit)}".removesuffix(" 1")

    def choices(self) -> list[tuple[str, str]]:
        """Return (option, name of the mistake or "") of a choice in the language in use, the right one first."""
        pairs = [(translated(f"{self.id}.right", self.right), "")]
        for place, wrong in enumerate(self.wrong, 1):
            option = translated(f"{self.id}.wrong{place}", wrong.option)
            pairs.append((option, wrong.mistake))
        return pairs

    def options(self, given: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
        """Return letter -> (option, name of the mistake or ""), with numbers by size and sentences shuffled."""
        if self.kind == "choice":
            pairs = self.choices()
            random.Random(zlib.crc32(self.id.encode())).shuffle(pairs)
        else:
            names, _ = self.fill(given)
            numbers = [(evaluate(self.formula, names), "")]
            numbers += [(evaluate(wrong.formula, names), wrong.mistake) for wrong in self.wrong]
            pairs = [(self.shown(value), mistake) for value, mistake in sorted(numbers)]
        return dict(zip("abcd", pairs, strict=True))


def _read(written: str) -> tuple[float, str]:
    """Return the value of a quantity, as a file writes it, as an SI number and in words."""
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
    found: dict[str, Question] = {}
    for name in files.names():
        if "lesson" in files.load(name):
            found |= _of_file(name)
    return found


@files.cached
def asides() -> Mapping[str, Question]:
    """Return the questions that exercises ask on the way and that are not graded, by id."""
    found: dict[str, Question] = {}
    for name in files.names():
        if "exercise" in files.load(name):
            found |= _of_file(name)
    return found


@files.cached
def _of_file(name: str) -> Mapping[str, Question]:
    """Return the questions of a lesson, or those that an exercise asks on the way, by id; no other file is read."""
    head = files.load(name)
    found = {}
    for id, entry in files.entries(name).items():
        if "lesson" in head:
            core = id not in head.get("further", ())
            found[id] = _question(id, head["lesson"], entry, core=core)
        elif "kind" in entry:
            found[id] = _question(id, name, entry, core=True)
    return found


def _question(id: str, lesson: str, entry: Mapping[str, Any], *, core: bool) -> Question:
    """Build a question from its entry in a file."""
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
        core=core,
        **{key: entry[key] for key in optional if key in entry},
    )


def find(id: str) -> Question:
    """Return the question ``id``, of a lesson or an aside; the error for an unknown id lists the ids of its lesson."""
    near = _of_file(files.name_of(id))
    if id not in near:
        raise unknown(id, questions())
    return near[id]


def unknown(id: str, known: Iterable[str]) -> InputRefused:
    """Return the error for an id that is not ``known``, which lists the ids of the same lesson or exercise."""
    known = list(known)
    start, *_ = str(id).split("-")
    near = [other for other in known if other.split("-")[0] == start] or known
    return InputRefused(text("check.unknown", id=id, known=", ".join(near)))


class Prediction(NamedTuple):
    """A prediction that a lesson asks for, with the ends of its ruler."""

    id: str
    lesson: str
    unit: str
    lowest: float
    highest: float
    title: str
    question: str = ""
    claim: str = (
        ""  # what follows the number where the truth is told: "15.5 times" "as much gets through"
    )
    explanation: str = ""  # why the truth is what it is

    def name(self) -> str:
        """Return the name of the prediction in lists."""
        return translated(f"guess.{self.id}", self.title)

    def asked(self) -> str:
        """Return the question of its card, which is its name if it has no words of its own."""
        name = self.name()
        return translated(f"guess.{self.id}.question", self.question) or name[:1].upper() + name[1:]

    def claimed(self) -> str:
        """Return what follows the number where the truth is told; empty if the file does not say."""
        return translated(f"guess.{self.id}.claim", self.claim)

    def explained(self) -> str:
        """Return why the truth is what it is; empty if the file does not say."""
        return translated(f"guess.{self.id}.why", self.explanation)


@functools.cache
def predictions() -> Mapping[str, Prediction]:
    """Return all predictions that lessons ask for, by id, in the order of lessons."""
    found = {}
    for name in files.names():
        head = files.load(name)
        for id, entry in head.get("predictions", {}).items():
            found[id] = Prediction(id=id, lesson=head["lesson"], **entry)
    return found
