"""The questions that are graded, each with its judge; there is no user interface and no process here.

A judge gets ``ask``, a function that runs one call of the learner's code wherever that is safe, and a generator from
which it draws its cases. Nothing that a learner returns makes it raise.
"""

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from fabriclab import registry
from fabriclab.course.questions import files, own
from fabriclab.texts import text

__all__ = [
    "PRACTICE",
    "Ask",
    "JudgedPart",
    "JudgedQuestion",
    "Proxy",
    "Rng",
    "Trace",
    "TriedCase",
    "Unanswered",
    "Verdict",
    "check_of",
    "draw",
    "example",
    "exercise",
    "find",
    "practice",
    "questions",
    "written",
]

registry.add_kind("question", __name__)
registry.add_kind("check", __name__)  # a question of a lesson that is judged by running a function

Floats = NDArray[np.float64]
Rng = np.random.Generator
# ask("latency", Proxy(...), 4096) returns a plain value (None, bool, int, float, str, list, dict) or raises Unanswered.
Ask = Callable[..., Any]
PRACTICE = "practice"  # key of the practice cases, which everybody may see


class JudgedPart(NamedTuple):
    """A part of a question as it was judged, with the first of its calls that is wrong."""

    name: str
    worth: float  # fraction of the question's points that was earned
    share: float  # fraction of the question's points that can be earned
    call: str = ""  # as a learner would type it; empty if all are right
    got: str = ""
    wanted: str = ""


class TriedCase(NamedTuple):
    """A case on which a function was tried."""

    name: str  # what went in, in words
    right: bool
    call: str = ""  # as a learner would type it; empty if it would be long
    got: str = ""
    wanted: str = ""


class Trace(NamedTuple):
    """The cases on which a function was tried, and what happened in the first of them that is wrong."""

    cases: tuple[TriedCase, ...]
    head: tuple[str, ...] = ()  # of a table of what happened, which may be missing
    rows: tuple[tuple[str, ...], ...] = ()
    wrong: frozenset[tuple[int, int]] = frozenset()  # row and column of the cells that are wrong
    said: str = ""  # what came of it, in a sentence
    look: str = ""  # where to look, in a sentence


@dataclass(frozen=True)
class Verdict:
    """The worth of an answer, and the feedback for the learner."""

    part: float  # fraction of the question's points, 0..1
    said: tuple[str, ...] = ()  # sentences: what is wrong, the misconception, a worked step
    mistake: str = ""  # name of the misconception, as in mis.<name> of the texts
    # for each part that is not all right, its first wrong case: function and number
    failed: tuple[tuple[str, int], ...] = ()
    parts: tuple[JudgedPart, ...] = ()
    # For feedback in stages, where a judge tells them apart: what is wrong without the right values, for the first try,
    # and which of the sentences are worked steps, for the third try and later ones.
    seen: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


class Unanswered(Exception):
    """The learner's function is missing, raised an error, ran too long, or returned something that cannot be sent."""

    def __init__(self, problem: str, said: str) -> None:
        """Store the kind of problem (such as missing, raised or slow) and the sentence for the learner."""
        super().__init__(problem, said)
        self.problem, self.said = problem, said


@dataclass(frozen=True)
class Proxy:
    """An object for the learner's code whose methods run in the grader's process, so that its secrets stay there."""

    target: Any
    methods: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)  # attributes that are plain values
    client: str = (
        ""  # code that defines client(object), which wraps the object for the learner's code
    )

    def here(self) -> Any:
        """Return the object for the learner's code if that runs in this process."""
        methods = {method: getattr(self.target, method) for method in self.methods}
        thing = SimpleNamespace(**self.values, **methods)
        return _client(self.client)(thing) if self.client else thing


@functools.cache
def _client(code: str) -> Callable[[Any], Any]:
    names: dict[str, Any] = {}
    exec(code, names)
    return cast(Callable[[Any], Any], names["client"])


_NO_WORDS = files.Words("", "", "", "")


@dataclass(frozen=True)
class JudgedQuestion:
    """A question of an exercise: the functions that a learner writes, and the judge of their answers."""

    id: str
    functions: tuple[str, ...]
    points: int
    judge: Callable[[Ask, Rng], Verdict]
    example: Callable[[Rng], Any]  # returns something to try a function on
    prelude: str = ""  # code that runs before a learner's cells if the library is hidden
    words: files.Words = _NO_WORDS


class _Questions(Mapping[str, JudgedQuestion]):
    """All questions by id, of which the files tell; the judges of an exercise are loaded with its first question."""

    def __init__(self) -> None:
        """Read the ids."""
        names = [
            name for name in files.names() if name.startswith("exercise") or files.is_own(name)
        ]
        self._ids = tuple(sorted(id for name in names for id in _graded(name)))

    def __contains__(self, id: object) -> bool:
        return id in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, id: str) -> JudgedQuestion:
        if id not in self._ids:
            raise KeyError(id)
        return _of_file(files.name_of(id))[id]


def _graded(name: str) -> list[str]:
    """Return the ids of the questions of an exercise that are graded, not those that are asked on the way."""
    return [id for id, entry in files.entries(name).items() if "kind" not in entry]


@files.cached
def questions() -> Mapping[str, JudgedQuestion]:
    """Return all questions by id; words, functions and points come from their file, the judge from the registry."""
    return _Questions()


@files.cached
def _of_file(name: str) -> Mapping[str, JudgedQuestion]:
    """Return the questions of one exercise by id; judges of other exercises, and what they import, are not loaded."""
    if not files.is_own(name):
        registry.load(f"{__name__}.{name}")
    judged = [id for id in registry.known("question") if files.name_of(id) == name]
    found = {}
    for id in dict.fromkeys([*judged, *_graded(name)]):
        entry = files.entries(name).get(id)
        if entry is None:
            raise ValueError(text("check.no_entry", id=id, file=f"{name}.toml"))
        found[id] = JudgedQuestion(
            id=id,
            functions=tuple(entry["functions"]),
            points=entry["points"],
            words=files.Words.of(id, entry),
            judge=registry.get("question", id),
            **registry.info("question", id),
        )
    return found


def exercise(name: int | str) -> tuple[JudgedQuestion, ...]:
    """Return the questions of an exercise in their order, by its number or the name of an own exercise."""
    start = f"ex{name}-" if isinstance(name, int) else f"{name}-"
    return tuple(questions()[id] for id in questions() if id.startswith(start))


def find(id: str) -> JudgedQuestion:
    """Return the question ``id``; the error for an unknown id lists all ids."""
    if id not in questions():
        own.load_near(id)
    if id not in questions():
        raise ValueError(text("check.unknown", id=id, known=", ".join(questions())))
    return questions()[id]


def check_of(id: str) -> Callable[[Any], Any]:
    """Return the judge of a question of a lesson that asks for a function; only that lesson's judges are loaded."""
    registry.load(f"{__name__}.lessons.lesson{files.name_of(id)}")
    return registry.get("check", id)


def draw(key: str, id: str) -> Rng:
    """Return the generator for the cases of a question; the same key and question always give the same cases."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(f"{key}\n{id}".encode()).digest()))


def example(id: str) -> Any:
    """Return something to try your function on, which is never used for grading."""
    return find(id).example(draw("example", id))


def practice(id: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the cases that `check` judges: name of a function -> the arguments of each call of it."""
    cases: dict[str, list[tuple[Any, ...]]] = {}

    def ask(name: str, *arguments: Any) -> Any:
        cases.setdefault(name, []).append(
            tuple(a.target if isinstance(a, Proxy) else a for a in arguments)
        )
        raise Unanswered(*["asked"] * 2)

    with contextlib.suppress(Unanswered):
        find(id).judge(ask, draw(PRACTICE, id))
    return cases


def is_stub(answer: Any) -> bool:
    """Return whether a function or class is still as it was handed out; of one given by its name, nobody knows."""
    parts = vars(answer).values() if isinstance(answer, type) else [answer]
    for part in parts:
        code = getattr(part, "__code__", None)
        if "NotImplementedError" in getattr(code, "co_names", ()):
            return True
    return False


def written(*answers: Any) -> bool:
    """Return whether all functions or classes are written; if one is not, print which one has to be written first.

    For cells that use an answer, so that a notebook with open questions runs from top to bottom.

    Parameters
    ----------
    *answers : function or class
        What the cell uses.

    Examples
    --------
    >>> def ring(n):
    ...     raise NotImplementedError()
    >>> written(ring)
    Write ring first, then run this cell again.
    False
    """
    for answer in answers:
        if is_stub(answer):
            print(text("ex.first", name=answer.__name__))
            return False
    return True


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
