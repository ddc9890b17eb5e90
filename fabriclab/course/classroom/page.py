"""The page of a class: weakest topics, shares right at first try, frequent mistakes, guesses, minutes, equal values."""

import html
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from fabriclab import units
from fabriclab.core import as_html
from fabriclab.course.assessment import ladder
from fabriclab.course.assessment.bank import topic_name
from fabriclab.course.assessment.classes import compare, count_levels, latest_answers
from fabriclab.course.assessment.links import lesson_name
from fabriclab.course.checks.courses import minutes_of
from fabriclab.course.checks.predictions import label
from fabriclab.course.classroom.collected import Class, Student
from fabriclab.course.classroom.findings import (
    Answered,
    Equal,
    Guessed,
    Topic,
    equal_values,
    mean_first,
    topics,
    weakest,
)
from fabriclab.course.classroom.oral import oral_questions
from fabriclab.course.grading import pages
from fabriclab.course.grading.class_page import shade
from fabriclab.course.grading.pages import link, tag
from fabriclab.texts import text


def write(students: Class, path: Path, *, names: bool = False) -> None:
    """Write the page of a class.

    Parameters
    ----------
    students : Class
        Who is in it.
    path : Path
        The page, and beside it one with the questions for talks (``-talks`` in its name).
    names : bool
        Show the names of the students in place of their numbers.
    """
    talks = path.with_name(f"{path.stem}-talks{path.suffix}")
    found = topics(students.students)
    body = [*_summary(students, found), *_weakest(found), *_topics(found)]
    body += _final_test(students.students)
    for topic in found:
        body += _topic(topic)
    body += _equal(equal_values(students.students), names=names)
    to_talks = link(text("class.talks"), talks.name)
    body.append(f"<p>{to_talks}</p>")
    body += [tag("h2", text("class.how")), tag("p", text("class.how.text"))]
    pages.write(path, text("class.title"), body)
    _write_talks(talks, students.students, names=names)


def _called(student: Student, *, names: bool) -> str:
    return student.name if names else student.numbered


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.0f} %"


# The whole class -------------------------------------------------------------------------------------------------


def _summary(students: Class, found: Sequence[Topic]) -> list[str]:
    """Return how much the page is made from, and what could not be read."""
    guesses = [guess for topic in found for guess in topic.guessed]
    held = sum(guess.ranges[0] for guess in guesses)
    n_ranges = sum(guess.ranges[1] for guess in guesses)
    n_answers = sum(topic.n_answers for topic in found)
    sentences = [
        text("class.count", n=len(students.students), answers=n_answers, topics=len(found))
    ]
    if n_ranges:
        sentences.append(text("class.ranges", held=held, n=n_ranges, share=held / n_ranges))
    body = [tag("p", " ".join(sentences))]
    if students.unread:  # the command names the files, whose names may be those of students
        body.append(tag("p", text("class.unread.count", n=len(students.unread))))
    return body


def _weakest(found: Sequence[Topic]) -> list[str]:
    """Return the weakest topics in a sentence each, with what went wrong most often."""
    rows = []
    for topic in weakest(found):
        line = text("class.weak", title=topic.title, share=topic.first, n=topic.n_answers)
        if topic.mistake is not None:
            line += " " + text(
                "class.weak.mistake",
                n=topic.mistake.n,
                where=topic.mistake.where,
                mistake=topic.mistake.sentence,
            )
        rows.append(f"<li>{_to_topic(topic, line)}</li>")
    mean = mean_first(found)
    if math.isnan(mean):
        return [tag("p", text("class.no_answers"))]
    if not rows:
        return [tag("p", text("class.no_weak", mean=mean))]
    return [tag("h2", text("class.weakest")), f"<ol>{''.join(rows)}</ol>"]


def _to_topic(topic: Topic, words: str) -> str:
    """Return words as a link to a topic on the page."""
    return f'<a href="#{html.escape(topic.key)}">{html.escape(words)}</a>'


def _topics(found: Sequence[Topic]) -> list[str]:
    """Return a table with a row for each topic: students, share right at first try, minutes."""
    head = "".join(
        f"<th scope=col>{html.escape(cell)}" for cell in text("class.topics.head").split("|")
    )
    rows = []
    for topic in found:
        minutes = f"{statistics.median(topic.minutes):.0f}" if topic.minutes else "-"
        cells = [
            f"<th scope=row>{_to_topic(topic, topic.title)}</th>",
            f"<td>{topic.n_students}",
            f"<td>{topic.n_answers}",
            _share_cell(topic.first),
            f"<td>{minutes}",
            f"<td>{html.escape(minutes_of(topic.key))}",
        ]
        rows.append(f"<tr>{''.join(cells)}")
    caption = tag("caption", text("class.topics.caption"))
    return [
        tag("h2", text("class.topics")),
        f"<table class=hist>{caption}<tr>{head}{''.join(rows)}</table>",
    ]


def _share_cell(share: float) -> str:
    """Return a cell with a share in words, shaded like the points of a question."""
    if math.isnan(share):
        return "<td>-"
    return f"<td class={shade(share, 1)}>{_percent(share)}"


def _final_test(students: Sequence[Student]) -> list[str]:
    """Return the topics of the final test, the weakest first, and the levels; nothing if nobody took it."""
    answers = [own for student in students if (own := latest_answers(student.kept))]
    if not answers:
        return []
    found = compare(answers)
    weak = ", ".join(topic_name(one.topic) for one in found[:3])
    levels = []
    for level, n in count_levels(answers).items():
        levels.append(f"{text(f'level.short.{level}')}: {n}")
    rows = []
    for one in found:
        topic = topic_name(one.topic)
        share = _percent(one.right / one.asked)
        low, high = ladder.interval(one.right, one.asked)
        interval = text("exam.interval", low=low, high=high)
        from_mean = round(-100 * one.behind) or 0  # never -0
        mistakes = "; ".join(f"{mistake} ({n})" for mistake, n in one.mistakes) or "-"
        lesson = lesson_name(one.lesson) if one.lesson else "-"
        rows.append((topic, share, interval, str(one.asked), f"{from_mean:+d}", mistakes, lesson))
    said = " ".join(
        (text("class.exam.weak", topics=weak), text("class.levels", levels=", ".join(levels)))
    )
    table = as_html([text("class.head").split("|"), *rows], text("class.exam.how"))
    return [tag("h2", text("class.exam")), tag("p", said), table]


# One topic -------------------------------------------------------------------------------------------------------


def _topic(topic: Topic) -> list[str]:
    """Return the questions and the guesses of a topic."""
    body = [f'<h2 id="{html.escape(topic.key)}">{html.escape(topic.title)}</h2>']
    if topic.answered:
        hardest_first = sorted(topic.answered, key=lambda one: one.n_first / len(one.entries))
        rows = [_question_row(question) for question in hardest_first]
        head = text("class.questions.head").split("|")
        body.append(as_html([head, *rows], text("class.questions.caption")))
    tables = "".join(_guesses(guess) for guess in topic.guessed)
    return [*body, f"<div class=beside>{tables}</div>"]


def _question_row(question: Answered) -> tuple[str, ...]:
    """Return a question as a row: who tried it, who was right at first and in the end, tries, mistakes."""
    n = len(question.entries)
    mistakes = "; ".join(f"{mistake.sentence} ({mistake.n})" for mistake in question.mistakes)
    return (
        question.name,
        str(n),
        _percent(question.n_first / n),
        _percent(question.n_right / n),
        f"{question.tries:g}",
        mistakes or "-",
    )


def _guesses(guess: Guessed) -> str:
    """Return the guesses at a number as a histogram of guess divided by truth."""
    held, n_ranges = guess.ranges
    caption = text("class.guesses", name=guess.name, n=len(guess.factors))
    if guess.factors:
        off = statistics.median(max(f, 1 / f) if f else math.inf for f in guess.factors)
        caption += " " + text("class.guesses.off", factor=off)
    if n_ranges:
        caption += " " + text("class.guesses.ranges", held=held, n=n_ranges)
    if guess.n_without:
        caption += " " + text("class.guesses.none", n=guess.n_without)
    labels = text("class.guesses.bars").split("|")
    most = max([*guess.bars, 1])
    rows = []
    for words, n in zip(labels, guess.bars, strict=True):
        drawn = f'<span class=bar style="width:{100 * n / most:.0f}%"></span>' if n else ""
        rows.append(f"<tr><th scope=row>{html.escape(words)}</th><td>{n}<td>{drawn}")
    head = "".join(
        f"<th scope=col>{html.escape(cell)}" for cell in text("class.guesses.head").split("|")
    )
    return f"<table class=hist>{tag('caption', caption)}<tr>{head}{''.join(rows)}</table>"


# Equal values, and talks -----------------------------------------------------------------------------------------


def _equal(found: Sequence[Equal], *, names: bool) -> list[str]:
    """Return measured values that several students have to the last digit, without a verdict."""
    if not found:
        return []
    rows = []
    for equal in found:
        line = text(
            "class.equal.row",
            name=label(equal.name),
            rate=units.format_rate(equal.value["busbw"]),
            time=units.format_time(equal.value["time"]),
            students=", ".join(_called(student, names=names) for student in equal.students),
        )
        rows.append(tag("li", line))
    about = tag("p", text("class.equal.about"))
    return [tag("h2", text("class.equal")), about, f"<ul>{''.join(rows)}</ul>"]


def _write_talks(path: Path, students: Sequence[Student], *, names: bool) -> None:
    """Write the page with questions for talks, a part for each student."""
    body = [tag("p", text("class.oral.about"))]
    for student in students:
        asked = oral_questions(student) or [text("class.oral.none")]
        body.append(tag("h2", _called(student, names=names)))
        body.append(f"<ol>{''.join(tag('li', question) for question in asked)}</ol>")
    pages.write(path, text("class.oral.title"), body)
