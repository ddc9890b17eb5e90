"""What a reader can do: strengths by topic with links back, a page to print, a card to show, and calibration."""

import base64
import functools
import html
import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import fabriclab
from fabriclab.course.assessment import ladder
from fabriclab.course.assessment.bank import TOPICS, topic_name
from fabriclab.course.assessment.links import address, lesson_name
from fabriclab.course.assessment.page import write_page
from fabriclab.course.assessment.sitting import Answered, answered, tests
from fabriclab.course.progress import store
from fabriclab.course.shown import Shown, refuse_if
from fabriclab.texts import text

__all__ = ["Strength", "calibration", "strengths", "topics_of"]

_MOST_LESSONS = 8  # to read again
_SURE = 0.8  # how sure a range is asked for: four of five should hold the truth


class Strength(NamedTuple):
    """How a reader does in a topic."""

    topic: str
    right: int
    asked: int

    @property
    def share(self) -> float:
        """Share of right answers."""
        return self.right / self.asked


def topics_of(answers: Sequence[Answered]) -> list[Strength]:
    """Return the topics of some answers, the strongest first, by the middle of the 90 % interval of their share.

    The middle of the interval puts a topic with many right answers before one with a single right one.
    """
    hits: dict[str, list[bool]] = {topic: [] for topic in TOPICS}
    for answer in answers:
        hits[answer.item.topic].append(answer.right)
    found = [Strength(topic, sum(right), len(right)) for topic, right in hits.items() if right]
    return sorted(found, key=_middle, reverse=True)


def _middle(strength: Strength) -> float:
    """Return the middle of the interval of a share."""
    return statistics.mean(ladder.interval(strength.right, strength.asked))


def strengths(
    name: str | None = None,
    *,
    file: str | os.PathLike[str] | None = None,
    share: bool | str = False,
) -> Shown:
    """Show your strengths by topic, your level, and which lessons to read again.

    Parameters
    ----------
    name : str, optional
        Name to write at the top; by default there is none.
    file : path, optional
        Write the report as an HTML page, too, which prints well and loads nothing from elsewhere.
    share : bool or str
        Write a picture to show to others instead, in the current folder; "dark" draws it on a dark background.

    Raises
    ------
    InputRefused
        A ValueError: no question of a test was answered yet.
    """
    answers = answered()
    refuse_if(not answers, "strengths.nothing")
    found = topics_of(answers)
    level, same = _level()
    if share:
        return _shared(found, level, len(answers), "dark" if share == "dark" else "light")

    rows = []
    for strength in found:
        low, high = ladder.interval(strength.right, strength.asked)
        band = text("exam.interval", low=low, high=high)
        count = f"{strength.right} / {strength.asked}"
        share_shown = text("exam.share", share=strength.share)
        rows.append((topic_name(strength.topic), count, share_shown, band))
    missed = [strength for strength in found if strength.right < strength.asked]
    weakest = ", ".join(topic_name(strength.topic) for strength in missed[-3:][::-1])
    lines = [text("strengths.title", name=f", {name}" if name else "", day=store.now().date())]
    lines.append(_level_line(level, same))
    key = "strengths.weakest" if missed else "strengths.all_right"
    lines.append(text(key, topics=weakest, n=len(answers)))
    parts = [*_to_read(answers), *_ratings()]
    data = {
        "level": level,
        "topics": {s.topic: {"right": s.right, "asked": s.asked} for s in found},
    }
    report = Shown(
        lines,
        "good",
        head=text("strengths.head").split("|"),
        rows=rows,
        parts=parts,
        after=[text("strengths.how")],
        data=data,
    )
    if file is not None:
        place = write_page(Path(file), report, lines[0])
        written = text("strengths.written", file=place.name)
        return replace(report, lines=[*lines, written])
    return report


def _level() -> tuple[str, float]:
    """Return the level of the test that was finished last, and the chance of the same in another; empty without one."""
    entries = store.held()["tests"]
    all_tests = tests()
    latest = sorted(all_tests, key=lambda number: entries[number].get("when", ""), reverse=True)
    for number in latest:
        pairs = [(answer.item.level, answer.right) for answer in all_tests[number]]
        found = ladder.standing(pairs)
        if found.done:
            return found.level or "none", found.same
    return "", 0.0


def _level_line(level: str, same: float) -> str:
    """Return the sentence about the level."""
    if not level:
        return text("strengths.no_level")
    return text(f"level.{level}") + " " + text("exam.same", same=same)


def _to_read(answers: Sequence[Answered]) -> list[Shown]:
    """Return the lessons behind the wrong answers, those with most of them first, with the mistakes."""
    mistakes = defaultdict[str, Counter[str]](Counter)
    misses = Counter[str]()
    for answer in answers:
        if not answer.right:
            lesson = answer.item.question.lesson
            misses[lesson] += 1
            if answer.mistake:
                mistakes[lesson][answer.mistake] += 1
    rows = []
    for lesson, count in misses.most_common(_MOST_LESSONS):
        place = address(lesson)
        cell: Any = (lesson_name(lesson), place) if place else lesson_name(lesson)
        rows.append((cell, count, ", ".join(mistakes[lesson])))
    if not rows:
        return []
    head = text("strengths.lessons_head").split("|")
    return [Shown([text("strengths.lessons")], head=head, rows=rows)]


def _ratings() -> list[Shown]:
    """Return the marks of interview answers and pages of reasons."""
    rows = []
    for name, entry in store.held()["ratings"].items():
        marks = [mark for mark in entry["marks"] if isinstance(mark, int)]
        most = len(marks) if name.startswith("interview ") else 2 * len(marks)
        rows.append((name, f"{sum(marks)} / {most}"))
    if not rows:
        return []
    head = text("strengths.ratings_head").split("|")
    return [Shown([text("strengths.ratings")], head=head, rows=rows)]


def _shared(found: Sequence[Strength], level: str, n: int, theme: str) -> Shown:
    """Write the card to show to others, and show it; it has no name of a person and no path."""
    from fabriclab.views.share import strengths_picture  # matplotlib, which only a picture needs

    file = Path("fabriclab-strengths.png")
    shares = {topic_name(strength.topic): strength.share for strength in found}
    said = text("strengths.claim", n=n, best=topic_name(found[0].topic))
    claim = text(f"level.short.{level}") if level else text("level.short.open")
    alt = strengths_picture(file, theme=theme, level=claim, said=said, shares=shares)
    drawn = base64.b64encode(file.read_bytes()).decode()
    image = f'<img alt="{html.escape(alt)}" width="600" src="data:image/png;base64,{drawn}">'
    line = text("report.shared", file=file.name)
    return Shown([line], "good", data={"file": file.name}, extra=lambda: image)


# Guesses -----------------------------------------------------------------------------------------


def calibration() -> Shown:
    """Show how often the ranges of your guesses held the truth, in the first and the second half of the course.

    A range that you would bet on with four to one should hold the truth four times in five. Guesses without a range and
    those whose truth was not revealed do not count.
    """
    opened = _opened()
    half = len(opened) // 2
    groups = {"all": opened}
    if half >= 2:
        groups = {"first": opened[:half], "second": opened[half:], "all": opened}
    rows = []
    shares = {}
    for name, entries in groups.items():
        if not entries:
            continue
        held = sum(entry["low"] <= entry["truth"] <= entry["high"] for entry in entries)
        low, high = ladder.interval(held, len(entries))
        factors = [_factor(entry) for entry in entries if entry["value"]]
        median = f"{statistics.median(factors):.2g}" if factors else ""
        band = text("exam.interval", low=low, high=high)
        label = text(f"calibration.{name}")
        share = text("exam.share", share=held / len(entries))
        rows.append((label, len(entries), held, share, band, median))
        shares[label] = 100 * held / len(entries)
    if not rows:
        return Shown([text("calibration.nothing")], "wait")
    finding = text("calibration.finding", held=rows[-1][2], n=rows[-1][1], sure=_SURE)
    shares[text("calibration.sure")] = 100 * _SURE
    return Shown(
        [finding],
        head=text("calibration.head").split("|"),
        rows=rows,
        data={"ranges": len(opened), "held": rows[-1][2]},
        picture=functools.partial(_drawn, shares, finding),
    )


def _drawn(shares: Mapping[str, float], finding: str) -> Any:
    """Return the shares as bars."""
    return fabriclab.views.bars(shares, "%", bold=text("calibration.all"), finding=finding)


def _opened() -> list[Mapping[str, Any]]:
    """Return the guesses that had a range and whose truth was revealed, in the order of time."""
    found = []
    for entry in store.held()["predictions"].values():
        has_range = entry["low"] is not None and entry["high"] is not None
        if has_range and entry["value"] is not None and "truth" in entry:
            found.append(entry)
    return sorted(found, key=lambda entry: str(entry.get("when", "")))


def _factor(entry: Mapping[str, Any]) -> float:
    """Return how far a guess was off: the larger of guess and truth divided by the smaller."""
    return float(max(entry["value"] / entry["truth"], entry["truth"] / entry["value"]))
