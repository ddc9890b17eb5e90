"""The table of questions of lessons, with formulas for right and known wrong answers, never typed numbers."""

import functools
import random
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fabriclab.catalog import case
from fabriclab.catalog.tables import rows_of
from fabriclab.course.shown import Refused, digits, quantity, shown
from fabriclab.formulas import evaluate
from fabriclab.texts import text


@dataclass(frozen=True)
class Question:
    """One row of the table; the words stand in the language table under ``q.<id>``."""

    id: str
    lesson: str  # its file name
    kind: str  # number, pick (a number by a button), choice or function
    drill: str  # units/ and its number in the drill on units, or empty
    # name -> ways to fill it: 17.6 GB, 128, case.dp or case.nic_rate in Gb/s
    params: Mapping[str, tuple[str, ...]]
    formula: str  # the right answer in SI
    unit: str  # in which it is asked
    tolerance: float  # relative; 0 asks for the exact number
    # formula of a known wrong answer (empty for a choice), name of the mistake
    wrong: tuple[tuple[str, str], ...]

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
        raise unknown(id, questions())
    return questions()[id]


def unknown(id: str, known: Iterable[str]) -> Refused:
    """Return the refusal of an id that is not among the ``known``: it names those of the same lesson or exercise."""
    near = [k for k in known if k.split("-")[0] == str(id).split("-")[0]] or list(known)
    return Refused(text("check.unknown", id=id, known=", ".join(near)))
