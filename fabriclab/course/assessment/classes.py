"""What a class knows by the final test: its topics, the weakest first, and how many have which level."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fabriclab.course.assessment import ladder
from fabriclab.course.assessment.bank import LEVELS, TOPICS
from fabriclab.course.assessment.sitting import Answered, answers_of

__all__ = ["ClassTopic", "compare", "count_levels", "latest_answers"]

_MOST_MISTAKES = 3  # of a topic


class ClassTopic(NamedTuple):
    """How a class does in a topic."""

    topic: str
    right: int
    asked: int
    behind: float  # right answers below what the class reaches in questions of these levels, as a share of the answers
    mistakes: tuple[tuple[str, int], ...]  # the most frequent ones, with how often
    lesson: str  # behind most of the wrong answers


def compare(students: Sequence[Sequence[Answered]]) -> list[ClassTopic]:
    """Return the topics of a class, the weakest first.

    Somebody who is further gets harder questions, so plain shares of different topics do not compare. Each answer
    counts as its difference from what the class reaches on that level; the topic furthest behind is the weakest.
    """
    everything = [answer for answers in students for answer in answers]
    reached = {}
    for level in LEVELS:
        of_level = [answer.right for answer in everything if answer.item.level == level]
        reached[level] = statistics.mean(of_level) if of_level else 0.0
    found = []
    for topic in TOPICS:
        answers = [answer for answer in everything if answer.item.topic == topic]
        if not answers:
            continue
        behind = statistics.mean(reached[a.item.level] - a.right for a in answers)
        wrong = [answer for answer in answers if not answer.right]
        mistakes = Counter(answer.mistake for answer in wrong if answer.mistake)
        lessons = Counter(answer.item.question.lesson for answer in wrong)
        found.append(
            ClassTopic(
                topic=topic,
                right=len(answers) - len(wrong),
                asked=len(answers),
                behind=behind,
                mistakes=tuple(mistakes.most_common(_MOST_MISTAKES)),
                lesson=lessons.most_common(1)[0][0] if lessons else "",
            )
        )
    return sorted(found, key=lambda one: one.behind, reverse=True)


def latest_answers(kept: Mapping[str, Any]) -> list[Answered]:
    """Return the answers of the test that a learner finished last, else of the one touched last; empty without one.

    Parameters
    ----------
    kept : mapping
        What the learner's progress file contains.
    """
    tests = kept.get("tests", {})
    by_time = sorted(tests.values(), key=lambda entry: str(entry.get("when", "")), reverse=True)
    touched = [answers_of(entry) for entry in by_time]
    for answers in touched:
        if _standing(answers).done:
            return answers
    return touched[0] if touched else []


def _standing(answers: Sequence[Answered]) -> ladder.Standing:
    """Return how a learner stands after the answers of a test."""
    return ladder.standing((answer.item.level, answer.right) for answer in answers)


def count_levels(students: Sequence[Sequence[Answered]]) -> dict[str, int]:
    """Return how many learners have which level: open (not finished), none, or a level, in this order."""
    count = Counter[str]()
    for answers in students:
        standing = _standing(answers)
        count[(standing.level or "none") if standing.done else "open"] += 1
    return {level: count[level] for level in ("open", "none", *LEVELS) if count[level]}
