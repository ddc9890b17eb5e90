"""A class in one page: its topics, the weakest first, from the progress files that learners hand in."""

import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fabriclab.course.assessment import ladder
from fabriclab.course.assessment.bank import LEVELS, TOPICS, topic_name
from fabriclab.course.assessment.links import lesson_name
from fabriclab.course.assessment.page import write_page
from fabriclab.course.assessment.sitting import Answered, answers_of
from fabriclab.course.progress import store
from fabriclab.course.shown import NewerFile, Shown, refuse_if
from fabriclab.texts import text

__all__ = ["ClassTopic", "class_topics", "compare"]

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


def class_topics(
    folder: str | os.PathLike[str], *, file: str | os.PathLike[str] | None = None
) -> Shown:
    """Show the topics of a class, the weakest first, from a folder with the progress files of its learners.

    Parameters
    ----------
    folder : path
        Folder with a JSON file for each learner, as `export_progress` writes it; subfolders are read, too.
    file : path, optional
        Write the table as an HTML page as well.

    Returns
    -------
    Shown
        The three weakest topics in a sentence, and a table of all. Nobody is named. ``data`` has the topics in order.

    Raises
    ------
    InputRefused
        A ValueError: no file has an answer of a test.
    """
    students, unread = _read(Path(folder))
    refuse_if(not students, "class.nothing", folder=folder)
    found = compare(students)
    rows = []
    for one in found:
        low, high = ladder.interval(one.right, one.asked)
        rows.append(
            (
                topic_name(one.topic),
                f"{one.right / one.asked:.0%}",
                text("exam.interval", low=low, high=high),
                one.asked,
                f"{-100 * one.behind:+.0f}",
                "; ".join(f"{mistake} ({n})" for mistake, n in one.mistakes),
                lesson_name(one.lesson) if one.lesson else "",
            )
        )
    weakest = ", ".join(topic_name(one.topic) for one in found[:3])
    lines = [text("class.weakest", topics=weakest), _levels(students)]
    if unread:
        lines.append(text("class.unread", n=len(unread), names=", ".join(unread)))
    head = text("class.head").split("|")
    data: Mapping[str, list[str]] = {"topics": [one.topic for one in found]}
    shown = Shown(lines, head=head, rows=rows, after=[text("class.how")], data=data)
    if file is not None:
        write_page(Path(file), shown, lines[0])
    return shown


def _levels(students: Sequence[Sequence[Answered]]) -> str:
    """Return in a sentence how many learners have which level."""
    count = defaultdict[str, int](int)
    for answers in students:
        standing = ladder.standing((answer.item.level, answer.right) for answer in answers)
        count[(standing.level or "none") if standing.done else "open"] += 1
    named = []
    for level in ("open", "none", *LEVELS):
        if count[level]:
            named.append(f"{text(f'level.short.{level}')}: {count[level]}")
    return text("class.levels", n=len(students), levels=", ".join(named))


def _read(folder: Path) -> tuple[list[list[Answered]], list[str]]:
    """Return the answers of each learner in a folder, and the names of files that could not be read."""
    students = []
    unread = []
    for path in sorted(folder.rglob("*.json")):
        try:
            held = store.read_file(path)
        except (NewerFile, OSError):
            held = None
        if held is None:
            unread.append(path.name)
            continue
        # Several tests of one learner: the last one that was touched counts.
        entries = held.get("tests", {})
        latest = max(entries, key=lambda number: str(entries[number].get("when", "")), default="")
        if latest and (answers := answers_of(entries[latest])):
            students.append(answers)
    return students, unread
