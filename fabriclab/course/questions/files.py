"""Read the files of questions: one for each lesson and exercise, such as ``31.toml`` and ``exercise4.toml``.

A file contains all that belongs to its questions: the prompt, the formula of the right answer, known wrong answers
with the misconception behind each, hints and the explanation. In the file of an exercise, an entry with a ``kind`` is a
question that is asked on the way and not graded. ``misconceptions.toml`` contains the misconceptions
that several questions share. The file of an instructor's own exercise comes with `add` (see `own`); texts that it lacks
have defaults.

A table of another language (see `fabriclab.texts`) may translate any sentence. It uses the key that `translated`
gets, such as ``31-ring-time.hint1``.
"""

import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any, TypeVar

from fabriclab import units
from fabriclab.formulas import evaluate
from fabriclab.texts import fill, table, text

_Read = TypeVar("_Read")

FOLDER = Path(__file__).parent
SHARED = "misconceptions"
HINTS = (1, 2, 3)
# Keys of entries. For each kind of question: the keys that an entry needs, then those that it may have.
WORDS = ("title", "prompt", "explanation")
KINDS = {
    "choice": (("right", *WORDS), ()),
    "number": (("formula", "unit", *WORDS), ("tolerance", "drill")),
    "pick": (("formula", "unit", *WORDS), ("tolerance",)),
    "function": (WORDS, ()),
}
OF_LESSON = ("kind", "hints", "quantities", "wrong", "misconceptions", "row", "erratum")
OF_EXERCISE = ("hints", "hints_of", "parts", "misconceptions")
LESSON_HEAD = ("lesson", "further", "predictions")
EXERCISE_HEAD = ("exercise", "title", "messages")
OWN_HEAD = ("exercise", "title")  # of an instructor's own exercise
OF_PREDICTION = ("title", "unit", "lowest", "highest")
WORDS_OF_PREDICTION = ("question", "claim", "explanation")


@dataclass(frozen=True)
class Words:
    """The words of a question.

    Sentences may name quantities in braces, such as ``{n}``.
    """

    id: str
    title: str
    prompt: str
    explanation: str
    hints: tuple[str, ...] = ()
    hints_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # hints by function

    @classmethod
    def of(cls, id: str, entry: Mapping[str, Any]) -> "Words":
        """Build the words of a question from its entry in a file."""
        return cls(
            id=id,
            title=entry["title"],
            prompt=entry["prompt"],
            explanation=entry["explanation"],
            hints=tuple(entry.get("hints", ())),
            hints_of={name: tuple(hints) for name, hints in entry.get("hints_of", {}).items()},
        )

    def name(self) -> str:
        """Return the name of the question in lists."""
        return translated(f"title.{self.id}", self.title)

    def asked(self, quantities: Mapping[str, str]) -> str:
        """Return the prompt, with the quantities filled in."""
        written = {name: _grouped(quantity) for name, quantity in quantities.items()}
        return fill(translated(f"q.{self.id}", self.prompt), **written)

    def explained(self, quantities: Mapping[str, str]) -> str:
        """Return the explanation of the right answer, with the quantities filled in."""
        return fill(translated(f"{self.id}.why", self.explanation), **quantities)

    def hint(self, level: int, quantities: Mapping[str, str], function: str = "") -> str:
        """Return hint 1, 2 or 3, or an empty text if there is none; a function's own hints come first."""
        own = self.hints_of.get(function, ())
        if level <= len(own):
            key, hint = f"{self.id}.{function}", own[level - 1]
        elif level <= len(self.hints):
            key, hint = self.id, self.hints[level - 1]
        else:
            return ""
        return fill(translated(f"{key}.hint{level}", hint), **quantities)


def _grouped(quantity: str) -> str:
    """Write a whole number with its thousands apart, as tables do: 1024 becomes 1,024; all else stays."""
    return f"{int(quantity):,}" if quantity.isdecimal() else quantity


def translated(key: str, sentence: str) -> str:
    """Return a sentence in the language in use: its translation under ``key`` or, if there is none, the sentence."""
    return table().get(key, sentence)


# Files -----------------------------------------------------------------------------------------------------------

_added: dict[str, Path] = {}  # own exercises of an instructor: name -> file of questions
_told: dict[
    tuple[str, str], str
] = {}  # sentences about mistakes that stand in judges of own exercises
_caches: list[Callable[[], None]] = []  # forget what was read from the files


def cached(read: Callable[..., _Read]) -> "functools._lru_cache_wrapper[_Read]":
    """Keep what a function reads from the files, until an exercise is added or removed."""
    kept = functools.cache(read)
    _caches.append(kept.cache_clear)
    return kept


def add(name: str, path: Path) -> None:
    """Add the file of an instructor's own exercise; its questions have ids such as ``<name>-a``."""
    _added[name] = path
    for forget in _caches:
        forget()


def remove(name: str) -> None:
    """Remove the file of an own exercise, and what was told of its mistakes."""
    _added.pop(name, None)
    for id, mistake in [*_told]:
        if name_of(id) == name:
            del _told[id, mistake]
    for forget in _caches:
        forget()


def tell(id: str, mistake: str, sentence: str) -> None:
    """Note the sentence about a mistake that stands beside the judge of a question of an own exercise."""
    _told[id, mistake] = sentence


def is_own(name: str) -> bool:
    """Return whether an exercise is an instructor's own, and was added."""
    return name in _added


def names() -> list[str]:
    """Return the names of the files: lessons in their order, then exercises, then own exercises."""
    return [*_names_of_the_course(), *sorted(_added)]


@functools.cache
def _names_of_the_course() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in FOLDER.glob("*.toml") if file.stem != SHARED))


def name_of(id: str) -> str:
    """Return the name of the file of a question: ``31`` for 31-ring-time, ``exercise4`` for ex4-a."""
    start = str(id).partition("-")[0]
    return re.sub(r"^ex(?=\d+$)", "exercise", start)


@cached
def load(name: str) -> Mapping[str, Any]:
    """Return the content of a file after checking each entry, or nothing if there is no such file.

    Raises
    ------
    ValueError
        If the file is no TOML, or an entry lacks a key or has an unknown one; the error names it.
    """
    if name not in _added:
        return _of_the_course(name)
    path = _added[name]
    content = _with_defaults(name, _read(path))
    _check(f"{path.name}, the head", {k: 0 for k in content if "-" not in k}, (), OWN_HEAD)
    _check_file(path.name, content)
    return content


@functools.cache  # whatever own exercises are added or removed
def _of_the_course(name: str) -> Mapping[str, Any]:
    """Return the content of a file of the course, or nothing if there is no such file."""
    if name != SHARED and name not in _names_of_the_course():
        return {}
    path = FOLDER / f"{name}.toml"
    content = _read(path)
    if name != SHARED:
        _check_file(path.name, content)
    return content


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a file; raise ValueError if it is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # editors on Windows add a mark
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name} is no TOML: {error}") from None


def entries(name: str) -> dict[str, Mapping[str, Any]]:
    """Return the questions of a file by id, in its order."""
    return {id: entry for id, entry in load(name).items() if "-" in id}


def _with_defaults(name: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of an own exercise's file, with defaults in place of texts that it lacks."""
    filled: dict[str, Any] = {"exercise": name, "title": name, **content}
    for id, entry in content.items():
        if "-" in id and isinstance(entry, Mapping):
            filled[id] = {**default_texts(id, entry), **entry}
    return filled


def default_texts(id: str, entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts that a question of an own exercise has where its file says nothing."""
    functions = ", ".join(map(str, entry.get("functions", ())))
    prompt = text("own.prompt", functions=functions) if functions else id
    return {"title": id, "prompt": prompt, "explanation": ""}


def _check_file(file: str, content: Mapping[str, Any]) -> None:
    """Raise if an entry of a file lacks a key or has an unknown one."""
    of_exercise = "exercise" in content
    for id, entry in content.items():
        if "-" not in id:
            continue
        if of_exercise and "kind" not in entry:
            _check_exercise_entry(file, id, entry)
        else:
            _check_lesson_entry(f"{file}, [{id}]", entry)
    for id, entry in content.get("predictions", {}).items():
        _check(f"{file}, [predictions.{id}]", entry, OF_PREDICTION, WORDS_OF_PREDICTION)
    for id in content.get("further", ()):
        units.choice(
            id, f"{file}, further: each id", [key for key in content if "-" in key], exact=True
        )
    head = {key for key in content if "-" not in key}
    allowed = EXERCISE_HEAD if of_exercise else LESSON_HEAD
    _check(f"{file}, the head", dict.fromkeys(head), (), allowed)


def _check_exercise_entry(file: str, id: str, entry: Mapping[str, Any]) -> None:
    """Raise if a question of an exercise lacks a key or has an unknown one."""
    where = f"{file}, [{id}]"
    _check(where, entry, ("functions", "points", *WORDS), OF_EXERCISE)
    _check_numbers(where, entry, ("points",))
    for sentence in (entry["prompt"], entry["explanation"], *entry.get("hints", ())):
        _check_fields(where, sentence, {})
    for name, part in entry.get("parts", {}).items():
        _check_part(f"{file}, [{id}.parts.{name}]", part)


def _check_lesson_entry(where: str, entry: Mapping[str, Any]) -> None:
    """Raise if a question of a lesson has a wrong key, sentence or formula."""
    _check(where, entry, ("kind",), None)
    needed, allowed = KINDS[units.choice(entry["kind"], f"{where}: kind", KINDS, exact=True)]
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
    """Raise if `judges.shared.parts.NumberPart` cannot use a part of a question of an exercise."""
    _check(where, part, ("share", "returns"), ("function", "place", "quantities"))
    _check_numbers(where, part, ("share", "place"))
    optional = ("also", "apart", "mistakes_within", "whole", "digits", "step", "wrong")
    for returned in part["returns"]:
        _check(f"{where}, returns", returned, ("unit", "formula", "within"), optional)
        _check_numbers(
            f"{where}, returns", returned, ("within", "apart", "mistakes_within", "digits")
        )
        units.choice(
            returned["unit"], f"{where}, returns: unit", ("s", "B", "B/s", "1"), exact=True
        )
        for wrong in returned.get("wrong", ()):
            _check(f"{where}, wrong", wrong, ("mistake", "formulas"), ("misconception",))
            if not isinstance(wrong["formulas"], list):
                raise ValueError(
                    f"{where}, wrong: formulas must be a list, got {wrong['formulas']!r:.40}"
                )


def _check_numbers(where: str, entry: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Raise if a value that must be a number is anything else, such as a text."""
    for key in keys:
        value = entry.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{where}: {key} must be a number without quotes, got {value!r:.40}")


def _check_fields(where: str, sentence: str, quantities: Mapping[str, Any]) -> None:
    """Raise if a sentence has a name in braces that is no quantity of the question."""
    for _, name, _, _ in Formatter().parse(sentence):
        if name is not None and name not in quantities:
            known = ", ".join(quantities) or "none"
            raise ValueError(
                f"{where}: no quantity is called {name!r}, quantities are {known}; in {sentence!r:.60}"
            )


def _check_formula(where: str, formula: str, names: Mapping[str, float]) -> None:
    """Raise if a formula cannot be read, or uses a name that is no quantity of the question."""
    try:
        evaluate(formula, names)
    except SyntaxError as error:
        raise ValueError(f"{where}: formula {formula!r} cannot be read: {error.msg}") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None
    except ArithmeticError:  # such as a division by zero for these sample values
        pass


def _check(
    where: str, entry: Mapping[str, Any], needed: Iterable[str], allowed: Iterable[str] | None
) -> None:
    """Raise if an entry lacks a needed key, or has one that is neither needed nor ``allowed`` (None allows all)."""
    if lacking := [key for key in needed if key not in entry]:
        raise ValueError(f"{where} lacks {', '.join(lacking)}")
    if allowed is not None:
        for key in entry:
            units.choice(key, f"{where}: each key", (*needed, *allowed), exact=True)


# Misconceptions --------------------------------------------------------------------------------------------------


@cached
def _misconceptions(name: str) -> Mapping[tuple[str, str], str]:
    """Return (question, name of the mistake) -> sentence for all misconceptions in a file."""
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
    """Return the sentence about a mistake in a question, or an empty text if there is none."""
    own = _misconceptions(name_of(id)).get((id, mistake), "") or _told.get((id, mistake), "")
    sentence = own or load(SHARED)["misconceptions"].get(mistake, "")
    return translated(f"{id}.mis.{mistake}", translated(f"mis.{mistake}", sentence))


def sentence_of(id: str, mistake: str) -> str:
    """Return the sentence about a mistake where no answer fills in its fields; empty if it has fields, or none is."""
    sentence = misconception(id, mistake)
    return "" if "{" in sentence else sentence


def mistakes() -> set[tuple[str, str]]:
    """Return all misconceptions in the files as (question, mistake); shared ones have an empty question."""
    own = {pair for name in names() for pair in _misconceptions(name)}
    return own | {("", mistake) for mistake in load(SHARED)["misconceptions"]}


# Exercises -------------------------------------------------------------------------------------------------------


def message(exercise: int, key: str, /, **fields: object) -> str:
    """Return a sentence from ``[messages]`` in the file of an exercise, with its fields filled in."""
    sentence = load(f"exercise{exercise}")["messages"][key]
    return fill(translated(f"ex{exercise}.{key}", sentence), **fields)


def heading(id: str) -> str:
    """Return the heading of an exercise, such as ``ex1``, or of one of its questions."""
    if "-" in id:
        entry = entries(name_of(id)).get(id)
        title = f"{id} {entry['title']}" if entry else id
    else:
        title = load(name_of(id)).get("title", id)
    return translated(f"grade.title.{id}", title)
