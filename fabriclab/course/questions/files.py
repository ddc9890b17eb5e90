"""Reads the questions: one file for each lesson and exercise, such as ``31.toml`` and ``exercise4.toml``.

All that belongs to a question stands in its file: what is asked, the formula of the right answer, known wrong
answers with the misconception behind each, hints and the explanation. ``misconceptions.toml`` holds the
misconceptions that several questions know.

A table of another language (see `fabriclab.texts`) may translate any sentence under the key that `translated` gets,
such as ``31-ring-time.hint1``.
"""

import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any

from fabriclab import units
from fabriclab.formulas import evaluate
from fabriclab.texts import fill, table

FOLDER = Path(__file__).parent
SHARED = "misconceptions"
HINTS = (1, 2, 3)
# The keys of an entry: those that it must have, then those that it may have.
WORDS = ("title", "prompt", "explanation")
KINDS = {
    "choice": (("right", *WORDS), ()),
    "number": (("formula", "unit", *WORDS), ("tolerance", "drill")),
    "pick": (("formula", "unit", *WORDS), ("tolerance",)),
    "function": (WORDS, ()),
}
OF_LESSON = ("kind", "hints", "quantities", "wrong", "misconceptions", "row", "erratum")
OF_EXERCISE = ("hints", "hints_of", "parts", "misconceptions")
LESSON_HEAD = ("lesson", "predictions")
EXERCISE_HEAD = ("exercise", "title", "messages")
OF_PREDICTION = ("title", "unit", "lowest", "highest")


@dataclass(frozen=True)
class Words:
    """What people read of a question.

    Sentences may name quantities in braces, such as ``{n}``.
    """

    id: str
    title: str
    prompt: str
    explanation: str
    hints: tuple[str, ...] = ()
    hints_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # a function -> its own

    @classmethod
    def of(cls, id: str, entry: Mapping[str, Any]) -> "Words":
        """Return the words of an entry of a file."""
        return cls(
            id=id,
            title=entry["title"],
            prompt=entry["prompt"],
            explanation=entry["explanation"],
            hints=tuple(entry.get("hints", ())),
            hints_of={name: tuple(hints) for name, hints in entry.get("hints_of", {}).items()},
        )

    def name(self) -> str:
        """Return what lists call the question."""
        return translated(f"title.{self.id}", self.title)

    def asked(self, quantities: Mapping[str, str]) -> str:
        """Return what is asked."""
        return fill(translated(f"q.{self.id}", self.prompt), **quantities)

    def explained(self, quantities: Mapping[str, str]) -> str:
        """Return why the right answer is right."""
        return fill(translated(f"{self.id}.why", self.explanation), **quantities)

    def hint(self, level: int, quantities: Mapping[str, str], function: str = "") -> str:
        """Return hint 1, 2 or 3, of one function if it has hints of its own; empty if there is none."""
        own = self.hints_of.get(function, ())
        if level <= len(own):
            key, hint = f"{self.id}.{function}", own[level - 1]
        elif level <= len(self.hints):
            key, hint = self.id, self.hints[level - 1]
        else:
            return ""
        return fill(translated(f"{key}.hint{level}", hint), **quantities)


def translated(key: str, sentence: str) -> str:
    """Return a sentence in the language in use: what its table holds under ``key``, else the sentence itself."""
    return table().get(key, sentence)


# Files -----------------------------------------------------------------------------------------------------------


def names() -> list[str]:
    """Return the names of the files, in the order of lessons, then of exercises."""
    return sorted(file.stem for file in FOLDER.glob("*.toml") if file.stem != SHARED)


def name_of(id: str) -> str:
    """Return the name of the file that holds a question: ``31`` of 31-ring-time, ``exercise4`` of ex4-a."""
    start = str(id).partition("-")[0]
    return start.replace("ex", "exercise", 1) if start.startswith("ex") else start


@functools.cache
def load(name: str) -> Mapping[str, Any]:
    """Return a file as it stands, with each entry checked; an empty one if there is no such file.

    Raises
    ------
    ValueError
        The file is no TOML, or an entry lacks a key or has one that nothing reads; the sentence names it.
    """
    if name != SHARED and name not in names():
        return {}
    path = FOLDER / f"{name}.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name} is no TOML: {error}") from None
    if name != SHARED:
        _check_file(path.name, content)
    return content


def entries(name: str) -> dict[str, Mapping[str, Any]]:
    """Return the questions of a file by id, in its order."""
    return {id: entry for id, entry in load(name).items() if "-" in id}


def _check_file(file: str, content: Mapping[str, Any]) -> None:
    """Refuse a file with an entry that lacks a key or has one that nothing reads."""
    of_exercise = "exercise" in content
    for id, entry in content.items():
        if "-" not in id:
            continue
        if of_exercise:
            _check_exercise_entry(file, id, entry)
        else:
            _check_lesson_entry(f"{file}, [{id}]", entry)
    for id, entry in content.get("predictions", {}).items():
        _check(f"{file}, [predictions.{id}]", entry, OF_PREDICTION, ())
    head = {key for key in content if "-" not in key}
    allowed = EXERCISE_HEAD if of_exercise else LESSON_HEAD
    _check(f"{file}, the head", dict.fromkeys(head), (), allowed)


def _check_exercise_entry(file: str, id: str, entry: Mapping[str, Any]) -> None:
    """Refuse a question of an exercise that lacks a key or has one that nothing reads."""
    where = f"{file}, [{id}]"
    _check(where, entry, ("functions", "points", *WORDS), OF_EXERCISE)
    _check_numbers(where, entry, ("points",))
    for name, part in entry.get("parts", {}).items():
        _check_part(f"{file}, [{id}.parts.{name}]", part)


def _check_lesson_entry(where: str, entry: Mapping[str, Any]) -> None:
    """Refuse a question of a lesson with a wrong key, sentence or formula."""
    _check(where, entry, ("kind",), None)
    needed, allowed = KINDS[units.choice(entry["kind"], f"{where}: kind", KINDS)]
    _check(where, entry, needed, (*OF_LESSON, *allowed))
    of_wrong = {"choice": ("option",), "function": ()}.get(entry["kind"], ("formula",))
    for wrong in entry.get("wrong", ()):
        _check(f"{where}, wrong", wrong, ("mistake", *of_wrong), ("misconception",))

    quantities = entry.get("quantities", {})
    for sentence in (entry["prompt"], entry["explanation"], *entry.get("hints", ())):
        _check_fields(where, sentence, quantities)
    names = dict.fromkeys(quantities, 1.5)  # any number will do
    for answer in (entry, *entry.get("wrong", ())):
        _check_formula(where, answer.get("formula", "1"), names)
    _check_numbers(where, entry, ("tolerance",))


def _check_part(where: str, part: Mapping[str, Any]) -> None:
    """Refuse a part of a question of an exercise that `judges.shared.parts.NumberPart` cannot use."""
    _check(where, part, ("share", "returns"), ("function", "place", "quantities"))
    _check_numbers(where, part, ("share", "place"))
    optional = ("apart", "mistakes_within", "whole", "digits", "step", "wrong")
    for returned in part["returns"]:
        _check(f"{where}, returns", returned, ("unit", "formula", "within"), optional)
        _check_numbers(
            f"{where}, returns", returned, ("within", "apart", "mistakes_within", "digits")
        )
        units.choice(returned["unit"], f"{where}, returns: unit", ("s", "B", "B/s", "1"))
        for wrong in returned.get("wrong", ()):
            _check(f"{where}, wrong", wrong, ("mistake", "formulas"), ("misconception",))
            if not isinstance(wrong["formulas"], list):
                raise ValueError(
                    f"{where}, wrong: formulas must be a list, got {wrong['formulas']!r:.40}"
                )


def _check_numbers(where: str, entry: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Refuse a text where a number belongs."""
    for key in keys:
        value = entry.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{where}: {key} must be a number without quotes, got {value!r:.40}")


def _check_fields(where: str, sentence: str, quantities: Mapping[str, Any]) -> None:
    """Refuse a sentence with a name in braces that is no quantity of the question."""
    for _, name, _, _ in Formatter().parse(sentence):
        if name is not None and name not in quantities:
            known = ", ".join(quantities) or "none"
            raise ValueError(
                f"{where}: no quantity is called {name!r}, quantities are {known}; in {sentence!r:.60}"
            )


def _check_formula(where: str, formula: str, names: Mapping[str, float]) -> None:
    """Refuse a formula that is none, or that names what is no quantity of the question."""
    try:
        evaluate(formula, names)
    except (ValueError, SyntaxError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None
    except ArithmeticError:  # the numbers here stand for all
        pass


def _check(
    where: str, entry: Mapping[str, Any], needed: Iterable[str], allowed: Iterable[str] | None
) -> None:
    """Refuse an entry that lacks a needed key, or has one that is neither needed nor allowed (None: any is)."""
    if lacking := [key for key in needed if key not in entry]:
        raise ValueError(f"{where} lacks {', '.join(lacking)}")
    if allowed is not None:
        for key in entry:
            units.choice(key, f"{where}: each key", (*needed, *allowed))


# Misconceptions --------------------------------------------------------------------------------------------------


@functools.cache
def _misconceptions(name: str) -> Mapping[tuple[str, str], str]:
    """Return the misconceptions of a file, by question and name of the mistake."""
    found: dict[tuple[str, str], str] = {}
    for id, entry in entries(name).items():
        wrong_answers = [*entry.get("wrong", ())]
        for part in entry.get("parts", {}).values():
            for returned in part["returns"]:
                wrong_answers += returned.get("wrong", ())
        for wrong in wrong_answers:
            if "misconception" in wrong:
                found[id, wrong["mistake"]] = wrong["misconception"]
        for mistake, sentence in entry.get("misconceptions", {}).items():
            found[id, mistake] = sentence
    return found


def misconception(id: str, mistake: str) -> str:
    """Return the sentence about a mistake in a question; empty if nobody has written one."""
    own = _misconceptions(name_of(id)).get((id, mistake), "")
    sentence = own or load(SHARED)["misconceptions"].get(mistake, "")
    return translated(f"{id}.mis.{mistake}", translated(f"mis.{mistake}", sentence))


def mistakes() -> set[tuple[str, str]]:
    """Return all misconceptions that are written, as (question, mistake); those of several have no question."""
    own = {pair for name in names() for pair in _misconceptions(name)}
    return own | {("", mistake) for mistake in load(SHARED)["misconceptions"]}


# Exercises -------------------------------------------------------------------------------------------------------


def message(exercise: int, key: str, /, **fields: object) -> str:
    """Return a sentence of the judges of an exercise, from ``[messages]`` of its file, with its fields filled in."""
    sentence = load(f"exercise{exercise}")["messages"][key]
    return fill(translated(f"ex{exercise}.{key}", sentence), **fields)


def heading(id: str) -> str:
    """Return what a question of an exercise, or an exercise such as ``ex1``, is headed by."""
    if "-" in id:
        entry = entries(name_of(id)).get(id)
        title = f"{id} {entry['title']}" if entry else id
    else:
        title = load(name_of(id)).get("title", id)
    return translated(f"grade.title.{id}", title)
