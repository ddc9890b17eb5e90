"""What the answers and guesses of a class say: weak topics, frequent mistakes, guesses, minutes, equal values."""

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

from fabriclab.course import judges
from fabriclab.course.assessment import ladder
from fabriclab.course.checks.courses import numbered
from fabriclab.course.classroom.collected import Student
from fabriclab.course.questions import asides, predictions, questions
from fabriclab.course.questions.files import heading, sentence_of

Entry = dict[str, Any]  # of a progress file

# Ends of the bars of a histogram, as guess divided by truth: a guess within a quarter is as good as the picture shows.
EDGES = (0.1, 1 / 3, 0.8, 1.25, 3.0, 10.0)
# A longer pause between two entries is a break, in which nobody worked.
_BREAK = timedelta(minutes=15)
_FEWEST_STAMPS = 3  # with fewer a time says nothing about a lesson
_FEWEST_STUDENTS = 3  # whose answers make a topic weak
_MOST_MISTAKES = 3  # of a question


class Mistake(NamedTuple):
    """A mistake that students made in a question."""

    sentence: str  # what is wrong with it, or its name
    n: int  # students who made it
    where: str  # names of the questions in which they did, that of most students first


@dataclass(frozen=True)
class Answered:
    """How a class answered a question."""

    id: str
    name: str
    entries: tuple[Entry, ...]  # one for each student who tried it
    students: tuple[int, ...]  # their numbers

    @property
    def n_first(self) -> int:
        """Number of students whose first answer was right."""
        return sum(entry["right"] and entry["tries"] == 1 for entry in self.entries)

    @property
    def n_right(self) -> int:
        """Number of students who were right in the end."""
        return sum(entry["right"] for entry in self.entries)

    @property
    def tries(self) -> float:
        """Median number of tries."""
        return float(statistics.median(entry["tries"] for entry in self.entries))

    @cached_property
    def mistakes(self) -> list[Mistake]:
        """The three most frequent mistakes; one that a student made twice counts once."""
        count = Counter(mistake for entry in self.entries for mistake in {*entry["named"]})
        named = []
        for mistake, n in count.most_common(_MOST_MISTAKES):
            named.append(Mistake(sentence_of(self.id, mistake) or mistake, n, self.name))
        return named

    @cached_property
    def made_by(self) -> dict[str, set[int]]:
        """Name of a mistake -> numbers of the students who made it."""
        found = defaultdict(set)
        for number, entry in zip(self.students, self.entries, strict=True):
            for mistake in entry["named"]:
                found[mistake].add(number)
        return found


@dataclass(frozen=True)
class Guessed:
    """How a class guessed a prediction whose truth it knows by now."""

    name: str
    entries: tuple[Entry, ...]  # one for each student who opened it

    @cached_property
    def factors(self) -> list[float]:
        """Guess divided by truth of all who guessed a number."""
        return [e["value"] / e["truth"] for e in self.entries if e["value"] is not None]

    @property
    def n_without(self) -> int:
        """Number of students who had no idea, or went on without a guess."""
        return len(self.entries) - len(self.factors)

    @property
    def bars(self) -> list[int]:
        """Number of guesses below the first of `EDGES`, between it and the next one, ..., from the last one on."""
        bars = [0] * (len(EDGES) + 1)
        for factor in self.factors:
            bars[sum(factor >= edge for edge in EDGES)] += 1
        return bars

    @property
    def ranges(self) -> tuple[int, int]:
        """Number of ranges that held the truth, and number of ranges."""
        given = [e for e in self.entries if e["low"] is not None and e["high"] is not None]
        return sum(e["low"] <= e["truth"] <= e["high"] for e in given), len(given)


@dataclass(frozen=True)
class Topic:
    """A lesson or an exercise, with the answers and guesses of a class in it."""

    key: str  # file name of a lesson, or ex1
    title: str
    answered: tuple[Answered, ...]
    guessed: tuple[Guessed, ...]
    minutes: tuple[float, ...]  # of each student whose time can be told
    n_students: int  # who answered or guessed something
    n_tried: int  # who answered a question

    @property
    def n_answers(self) -> int:
        """Number of pairs of a student and a question that were tried."""
        return sum(len(question.entries) for question in self.answered)

    @property
    def first(self) -> float:
        """Share of these in which the first answer was right; NaN if there are none."""
        if not self.n_answers:
            return math.nan
        return self.n_first / self.n_answers

    @property
    def n_first(self) -> int:
        """Number of these in which the first answer was right."""
        return sum(question.n_first for question in self.answered)

    @cached_property
    def mistake(self) -> Mistake | None:
        """The mistake that most students made in the topic, each counted once however often the mistake came."""
        made_by: dict[str, set[int]] = defaultdict(set)
        for question in self.answered:
            for mistake, who in question.made_by.items():
                made_by[mistake] |= who
        if not made_by:
            return None
        most = max(made_by, key=lambda mistake: len(made_by[mistake]))
        places = [question for question in self.answered if most in question.made_by]
        places.sort(key=lambda question: len(question.made_by[most]), reverse=True)
        sentences = [sentence_of(question.id, most) for question in places]
        sentence = next(filter(None, sentences), most)
        where = ", ".join(question.name for question in places)
        return Mistake(sentence, len(made_by[most]), where)


class Equal(NamedTuple):
    """A measured value that several students have to the last digit."""

    name: str
    value: Entry
    students: tuple[Student, ...]


def topics(students: Sequence[Student]) -> list[Topic]:
    """Return all topics in which somebody answered or guessed, in the order of the course."""
    asked = {question.id: question.lesson for question in questions().values()}
    lessons = {*asked.values(), *(guess.lesson for guess in predictions().values())}
    asked |= {id: id.split("-")[0] for id in (*judges.questions(), *asides())}
    tried: dict[str, dict[str, list[tuple[int, Entry]]]] = defaultdict(lambda: defaultdict(list))
    opened: dict[str, dict[str, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    stamps: dict[str, dict[int, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    who_tried: dict[str, set[int]] = defaultdict(set)
    for student in students:
        for id, entry in (student.kept["checks"] | student.kept["drills"]).items():
            if id in asked:
                tried[asked[id]][id].append((student.number, entry))
                who_tried[asked[id]].add(student.number)
                stamps[asked[id]][student.number].append(entry)
        for id, entry in student.kept["predictions"].items():
            if id in predictions():
                lesson = predictions()[id].lesson
                stamps[lesson][student.number].append(entry)
                if "truth" in entry:
                    opened[lesson][id].append(entry)
    order = [*dict.fromkeys(asked.values())]
    found = []
    for key in sorted(stamps, key=lambda key: order.index(key) if key in order else len(order)):
        times = [_minutes(entries) for entries in stamps[key].values()]
        answered = []
        for id, own in tried[key].items():
            numbers, entries = zip(*own, strict=True)
            answered.append(Answered(id, _name(id), entries, numbers))
        guessed = [Guessed(predictions()[id].name(), tuple(own)) for id, own in opened[key].items()]
        found.append(
            Topic(
                key,
                title=numbered(key) if key in lessons else heading(key),
                answered=tuple(answered),
                guessed=tuple(guessed),
                minutes=tuple(time for time in times if time is not None),
                n_students=len(stamps[key]),
                n_tried=len(who_tried[key]),
            )
        )
    return found


def _name(id: str) -> str:
    """Return the name of a question of a lesson or an exercise."""
    known = {**questions(), **asides()}
    return known[id].words.name() if id in known else heading(id)


def _minutes(entries: Iterable[Entry]) -> float | None:
    """Return the minutes between the first and the last entry of a student in a lesson, without breaks.

    None if there are too few entries to tell. What was read before the first entry is not in it.
    """
    stamps = set()
    for entry in entries:
        for field in ("begun", "when"):
            if field in entry:
                stamps.add(datetime.fromisoformat(entry[field]))
    if len(stamps) < _FEWEST_STAMPS:
        return None
    ordered = sorted(stamps)
    gaps = [later - earlier for earlier, later in itertools.pairwise(ordered)]
    worked = sum((gap for gap in gaps if gap <= _BREAK), timedelta())
    return worked / timedelta(minutes=1)


def mean_first(found: Iterable[Topic]) -> float:
    """Return the share of first answers that were right in all topics; NaN without an answer."""
    topics = list(found)
    n_answers = sum(topic.n_answers for topic in topics)
    return sum(topic.n_first for topic in topics) / n_answers if n_answers else math.nan


def weakest(found: Iterable[Topic], n: int = 3) -> list[Topic]:
    """Return at most ``n`` topics that are clearly below the class mean, the smallest share of first answers first.

    A topic is left out if its 90 % interval holds the share of the whole class, or if fewer than three students
    answered a question in it, as long as there are others.
    """
    answered = [topic for topic in found if topic.n_answers]
    mean = mean_first(answered)
    below = []
    for topic in answered:
        _, high = ladder.interval(topic.n_first, topic.n_answers)
        if topic.first < mean and high < mean:
            below.append(topic)
    tried_by_enough = [topic for topic in below if topic.n_tried >= _FEWEST_STUDENTS]
    return sorted(tried_by_enough or below, key=lambda topic: topic.first)[:n]


def equal_values(students: Sequence[Student]) -> list[Equal]:
    """Return measured values that several students have to the last digit, which a clock hardly gives twice.

    Stored runs, which stand in for a measurement where none is possible, are the same for all and left out.
    """
    found: dict[tuple[str, float, float], list[Student]] = defaultdict(list)
    for student in students:
        for name, entry in student.kept["measurements"].items():
            if entry.get("obtained") != "stored":
                found[name, entry["time"], entry["busbw"]].append(student)
    equal = []
    for (name, time, busbw), own in found.items():
        if len(own) > 1:
            equal.append(Equal(name, {"time": time, "busbw": busbw}, tuple(own)))
    return equal
