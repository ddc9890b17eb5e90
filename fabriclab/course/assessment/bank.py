"""The question bank of the assessment: one file for each topic, with a level for each question.

A question about a number has a formula of the right answer, formulas of known wrong ones, and several values of each
quantity. A setting picks one value of each. Settings in which two of these answers could be taken for each other are
left out, so that a mistake can always be named.
"""

import functools
import itertools
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fabriclab.core import ReadOnly
from fabriclab.course.questions import Question, Words, Wrong, misconception, questions
from fabriclab.course.questions.files import sentence_of, translated
from fabriclab.course.shown import refuse_if
from fabriclab.formulas import evaluate
from fabriclab.texts import text

__all__ = ["LEVELS", "TOPICS", "Item", "chosen", "items", "topic_name"]

FOLDER = Path(__file__).parent / "bank"
_MISTAKES = FOLDER.with_name("mistakes.toml")
# What a question asks for, the least demanding first: to know, to compute, to explain, to decide.
LEVELS = ("recall", "apply", "analyse", "judge")
# Names of the files, in the order of the course.
TOPICS = (
    "start",
    "links",
    "topology",
    "collectives",
    "rdma",
    "innetwork",
    "circuits",
    "congestion",
    "operations",
    "workloads",
    "emerging",
)
_APART = 0.01  # relative distance from which on two answers cannot be taken for each other


@dataclass(frozen=True)
class Item:
    """A question of the bank: its topic, its level, and the question itself."""

    topic: str
    level: str
    question: Question
    not_with: tuple[str, ...] = ()  # numbers of questions that would give this one's answer away
    own: Mapping[str, str] = field(default_factory=dict)  # mistake -> sentence for this question

    @property
    def id(self) -> str:
        """Number of the question in the bank, such as Q27."""
        return self.question.id

    def settings(self) -> tuple[Mapping[str, str], ...]:
        """Return all ways to fill in its quantities in which no two answers can be taken for each other."""
        return _settings(self.id)

    def answers(self, given: Mapping[str, str]) -> list[float]:
        """Return the right number and the known wrong ones in SI; empty for a choice."""
        if not self.question.formula:
            return []
        numbers, _ = self.question.fill(given)
        formulas = [self.question.formula, *(wrong.formula for wrong in self.question.wrong)]
        return [float(evaluate(formula, numbers)) for formula in formulas]

    def because(self, mistake: str) -> str:
        """Return what is behind a wrong answer: the sentence of the question, a lesson or the bank, or just its name.

        A lesson's sentence may speak of a picture or of a run beside it, or of other numbers; then the question has its
        own.
        """
        if mistake in self.own:
            return translated(f"bank.{self.id}.mis.{mistake}", self.own[mistake])
        for question in _asked_in_lessons().get(self.id, ()):
            known = sentence_of(question.id, mistake)
            if known:
                return known
        known = misconception(self.id, mistake)
        if not known and mistake in mistakes():
            known = translated(f"bank.mis.{mistake}", mistakes()[mistake])
        return known or text("exam.mistake", mistake=mistake)


def items() -> Mapping[str, Item]:
    """Return all questions of the bank by their number, in the order of topics."""
    return _items()


@functools.cache
def mistakes() -> Mapping[str, str]:
    """Return the sentences about mistakes of the bank for which no lesson has one, by the name of the mistake."""
    content: dict[str, dict[str, str]] = tomllib.loads(_MISTAKES.read_text(encoding="utf-8"))
    return content["mistakes"]


def topic_name(topic: str) -> str:
    """Return the name of a topic in words."""
    return text(f"topic.{topic}")


def chosen(topics: Iterable[str] | None = None, levels: Iterable[str] | None = None) -> list[Item]:
    """Return the questions of some topics and levels, or of all.

    Raises
    ------
    InputRefused
        A ValueError: there is no such topic or level.
    """
    wanted_topics = _known(topics, TOPICS, "exam.topic")
    wanted_levels = _known(levels, LEVELS, "exam.level")
    found = []
    for item in items().values():
        if item.topic in wanted_topics and item.level in wanted_levels:
            found.append(item)
    return found


def _known(names: Iterable[str] | None, known: tuple[str, ...], key: str) -> tuple[str, ...]:
    """Return names after checking that all of them are known; None stands for all."""
    if names is None:
        return known
    asked = (names,) if isinstance(names, str) else tuple(names)
    for name in asked:
        refuse_if(name not in known, key, got=name, known=", ".join(known))
    return asked


@functools.cache
def _items() -> Mapping[str, Item]:
    """Read all files of the bank."""
    found = {}
    for topic in TOPICS:
        content = tomllib.loads((FOLDER / f"{topic}.toml").read_text(encoding="utf-8"))
        for id, entry in content.items():
            found[id] = Item(
                topic,
                entry["level"],
                _question(id, entry),
                not_with=tuple(entry.get("not_with", ())),
                own=ReadOnly(
                    {
                        w["mistake"]: w["misconception"]
                        for w in entry["wrong"]
                        if "misconception" in w
                    }
                ),
            )
    return found


def _question(id: str, entry: Mapping[str, Any]) -> Question:
    """Build a question from its entry in a file."""
    wrong = []
    for answer in entry["wrong"]:
        wrong.append(
            Wrong(
                answer["mistake"],
                formula=answer.get("formula", ""),
                option=answer.get("option", ""),
            )
        )
    quantities = {}
    for name, values in entry.get("quantities", {}).items():
        quantities[name] = tuple(f"{value}" for value in values)
    return Question(
        id=id,
        lesson=entry["lesson"],
        kind=entry["kind"],
        words=Words(id=id, title=id, prompt=entry["prompt"], explanation=""),
        params=quantities,
        wrong=tuple(wrong),
        formula=entry.get("formula", ""),
        right=entry.get("right", ""),
        unit=entry.get("unit", ""),
        tolerance=entry.get("tolerance", 0),
        row=id,
        erratum=entry.get("erratum", ""),
    )


@functools.cache
def _settings(id: str) -> tuple[Mapping[str, str], ...]:
    """Return the settings of a question in which its answers are apart."""
    item = items()[id]
    names = list(item.question.params)
    found = []
    for values in itertools.product(*item.question.params.values()):
        given = dict(zip(names, values, strict=True))
        if _are_apart(item.answers(given), item.question.tolerance):
            found.append(given)
    return tuple(found)


def _are_apart(answers: list[float], tolerance: float) -> bool:
    """Return whether the right number is finite and above 0, and no two numbers are within each other's tolerance."""
    if not answers:
        return True
    if not all(map(math.isfinite, answers)) or answers[0] <= 0:
        return False
    distance = max(2 * tolerance, _APART)
    for one, other in itertools.combinations(answers, 2):
        if math.isclose(one, other, rel_tol=distance):
            return False
    return True


@functools.cache
def _asked_in_lessons() -> Mapping[str, tuple[Question, ...]]:
    """Return number in the bank -> the questions of lessons that ask for the same."""
    found: dict[str, tuple[Question, ...]] = {}
    for question in questions().values():
        if question.row:
            found[question.row] = (*found.get(question.row, ()), question)
    return found
