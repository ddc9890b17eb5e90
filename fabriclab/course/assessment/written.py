"""Answers in the reader's own words: the interview questions, and pages of reasons with their rubric.

No program judges the words. The reader, or a peer, compares them with the points of a good answer, and the
marks are kept.
"""

import functools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabriclab.course.assessment.links import address, lesson_name
from fabriclab.course.progress import store
from fabriclab.course.questions.files import translated
from fabriclab.course.shown import Shown, refuse_if
from fabriclab.texts import text

__all__ = [
    "Answer",
    "Criterion",
    "Interview",
    "examples",
    "interview",
    "interviews",
    "rate",
    "rubric",
]

_FOLDER = Path(__file__).parent
_FEWEST_WORDS = 12  # of an answer before the points are shown; a sentence has about as many
MOST_MARK = 2  # of a criterion


@dataclass(frozen=True)
class Interview:
    """An interview question: points of a good answer, and statements that are wrong."""

    name: str
    row: str  # the question of the bank with the same key
    asked: str
    lesson: str
    points: tuple[str, ...]
    traps: tuple[str, ...]


@dataclass(frozen=True)
class Criterion:
    """A line of the rubric: what it asks, and what earns 0, 1 and 2."""

    name: str
    asks: str
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """An example of a page of reasons, with its mark for each criterion and the reason for it."""

    name: str
    text: str
    marks: tuple[int, ...]
    why: tuple[str, ...]


def interviews() -> Mapping[str, Interview]:
    """Return the interview questions by name, in the language in use."""
    found = {}
    for name, entry in _read("interview").items():
        found[name] = Interview(
            name=name,
            row=entry["row"],
            asked=translated(f"interview.{name}.asked", entry["asked"]),
            lesson=entry["lesson"],
            points=_translated_list(f"interview.{name}.point", entry["points"]),
            traps=_translated_list(f"interview.{name}.trap", entry["traps"]),
        )
    return found


def criteria() -> tuple[Criterion, ...]:
    """Return the lines of the rubric, in the language in use."""
    found = []
    for line in _read("rubric")["criteria"]:
        name = line["name"]
        asks = translated(f"rubric.{name}.asks", line["asks"])
        found.append(Criterion(name, asks, _translated_list(f"rubric.{name}.mark", line["marks"])))
    return tuple(found)


def _translated_list(key: str, sentences: Sequence[str]) -> tuple[str, ...]:
    """Return sentences in the language in use; their translations stand under the key and their place, from 1 on."""
    return tuple(translated(f"{key}{place}", s) for place, s in enumerate(sentences, 1))


@functools.cache
def examples() -> tuple[Answer, ...]:
    """Return the two example answers, with their marks."""
    return tuple(
        Answer(entry["name"], entry["text"], tuple(entry["marks"]), tuple(entry["why"]))
        for entry in _read("rubric")["answers"]
    )


@functools.cache
def _read(name: str) -> dict[str, Any]:
    """Return the content of a file beside this module."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def interview(name: str, answer: str = "", has: str | None = None) -> Shown:
    """Ask an interview question; with your answer, show the points of a good one; with ``has``, keep which it has.

    Parameters
    ----------
    name : str
        The question: nvswitch, gpudirect, rails, srd, placement or hpcc.
    answer : str
        Your answer, a few sentences. Nothing judges it, and it is not stored.
    has : str, optional
        Letters of the points that your answer has, such as ``"abd"``, or ``""`` for none.

    Raises
    ------
    InputRefused
        A ValueError: there is no such question, or no such point.

    Examples
    --------
    >>> interview("hpcc").lines[0]
    'How does HPCC avoid large queues?'
    """
    refuse_if(name not in interviews(), "interview.name", got=name, known=", ".join(interviews()))
    asked = interviews()[name]
    data: dict[str, Any] = {"question": name}
    if len(answer.split()) < _FEWEST_WORDS:
        call = f'fl.interview("{name}", answer)'
        return Shown([asked.asked, text("interview.write", call=call)], "wait", data=data)

    letters = "abcdefgh"[: len(asked.points)]
    rows = [(f"{letter})", point) for letter, point in zip(letters, asked.points, strict=True)]
    wrong = [text("interview.trap", trap=trap) for trap in asked.traps]
    place = address(asked.lesson)
    lesson = (lesson_name(asked.lesson), place) if place else lesson_name(asked.lesson)
    more = Shown((), head=(text("interview.read"),), rows=[(lesson,)])
    if has is None:
        call = f'fl.interview("{name}", answer, has="ab")'
        after = [*wrong, text("interview.count", call=call)]
        lines = [asked.asked, text("interview.points")]
        return Shown(lines, "wait", rows=rows, parts=[more], after=after, data=data)

    chosen = set(has.lower()) - {" ", ","}
    unknown = "".join(sorted(chosen - set(letters)))
    refuse_if(unknown, "interview.letters", got=unknown, known=letters)
    marks = [int(letter in chosen) for letter in letters]
    store.put("ratings", f"interview {name}", {"marks": marks})
    data["marks"] = marks
    count = text("interview.has", n=sum(marks), of=len(marks))
    missing = [row for row, mark in zip(rows, marks, strict=True) if not mark]
    lines = [asked.asked, count]
    return Shown(lines, "good", rows=missing, parts=[more], after=wrong, data=data)


def rubric() -> Shown:
    """Show the rubric, and two example answers with their marks and the reason for each."""
    lines = criteria()
    head = text("rubric.head").split("|")
    rows = [(line.asks, *line.marks) for line in lines]
    parts = []
    for example in examples():
        title = text("rubric.example", name=example.name, n=sum(example.marks))
        table = []
        for line, mark, why in zip(lines, example.marks, example.why, strict=True):
            table.append((line.asks, mark, why))
        words = " ".join(example.text.split())
        why_head = text("rubric.why").split("|")
        parts.append(Shown([title, words], head=why_head, rows=table))
    question = _read("rubric")["question"]["asked"]
    most = MOST_MARK * len(lines)
    data = {"marks": {example.name: list(example.marks) for example in examples()}}
    title = text("rubric.title", of=most)
    asked = text("rubric.question", question=question)
    return Shown([title], head=head, rows=rows, parts=[Shown([asked]), *parts], data=data)


def rate(what: str, page: str, marks: Sequence[int] | None = None, *, by: str = "") -> Shown:
    """Rate a page of reasons by the rubric, your own or a peer's, and keep the marks.

    Parameters
    ----------
    what : str
        What the page is about, such as the name of the case.
    page : str
        The page. Nothing judges it, and it is not stored.
    marks : sequence of int, optional
        A mark of 0, 1 or 2 for each line of `rubric`. Without them the lines are shown.
    by : str
        Who rates, if not the writer. The two ratings of a page stand side by side.

    Raises
    ------
    InputRefused
        A ValueError: the page is shorter than a sentence, or the marks do not fit the rubric.
    """
    refuse_if(not what.strip(), "rubric.what")
    lines = criteria()
    if len(page.split()) < _FEWEST_WORDS:
        return Shown([text("rubric.write", what=what)], "wait", data={"case": what})
    if marks is None:
        call = f'fl.rate("{what}", page, [2, 1, 0, 1, 2])'
        rows = [(line.asks, *line.marks) for line in lines]
        head = text("rubric.head").split("|")
        after = [text("rubric.count", call=call)]
        return Shown([text("rubric.mark", what=what)], "wait", head=head, rows=rows, after=after)

    given = [*marks]
    fits = len(given) == len(lines) and all(mark in range(MOST_MARK + 1) for mark in given)
    refuse_if(not fits, "rubric.marks", n=len(lines), got=repr(given))
    key = f"page {what}"
    store.put("ratings", f"{key}, {by}" if by else key, {"marks": [int(mark) for mark in given]})
    return _rated(what, lines)


def _rated(what: str, lines: Sequence[Criterion]) -> Shown:
    """Return all ratings of a page side by side, with where they differ most."""
    ratings: dict[str, list[int]] = {}
    for name, marks in _ratings_of(f"page {what}"):
        if len(marks) == len(lines):
            ratings[name or text("rubric.self")] = marks
    rows: list[tuple[str | int, ...]] = []
    for place, line in enumerate(lines):
        rows.append((line.asks, *(marks[place] for marks in ratings.values())))
    rows.append((text("rubric.sum"), *(sum(marks) for marks in ratings.values())))
    after = []
    if len(ratings) > 1:
        given = [[marks[place] for marks in ratings.values()] for place in range(len(lines))]
        spread = [max(marks) - min(marks) for marks in given]
        widest = max(range(len(lines)), key=spread.__getitem__)
        if spread[widest]:
            after.append(text("rubric.talk", asks=lines[widest].asks))
        else:
            after.append(text("rubric.agree"))
    title = text("rubric.rated", what=what, of=MOST_MARK * len(lines))
    head = ("", *ratings)
    return Shown([title], "good", head=head, rows=rows, after=after, data={"ratings": ratings})


def _ratings_of(key: str) -> Iterable[tuple[str, list[int]]]:
    """Yield who rated, and the marks, of all ratings under a key; the writer's own has no name."""
    for name, entry in store.held()["ratings"].items():
        is_marks = all(isinstance(mark, int) for mark in entry["marks"])
        if is_marks and (name == key or name.startswith(f"{key}, ")):
            yield name[len(key) + 2 :], entry["marks"]
