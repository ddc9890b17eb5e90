"""The drawn test: one question after another, until the reader's level is clear.

Each question is asked once and has one try. The answer is told at once, with the mistake behind a wrong one. What was
answered stands in the progress file, so a test can be left and taken up again.
"""

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fabriclab.course import cards
from fabriclab.course.assessment import ladder
from fabriclab.course.assessment.bank import LEVELS, Item, items, topic_name
from fabriclab.course.assessment.drawing import Drawn, draw, given_away, letter_of
from fabriclab.course.assessment.links import lesson_name
from fabriclab.course.judges.answers import Verdict
from fabriclab.course.progress import store
from fabriclab.course.shown import Shown, quantity, refuse_if, unit_in
from fabriclab.look import halves
from fabriclab.texts import text

__all__ = ["Answered", "answered", "answers_of", "exam", "sheet", "tests"]

_SECTION = "tests"


class Answered(NamedTuple):
    """An answer of a test."""

    item: Item
    right: bool
    mistake: str  # its name; empty if it is not known


def tests() -> dict[str, list[Answered]]:
    """Return the answers of all tests by their number, in the order in which they were given.

    Questions that are no longer in the bank are left out.
    """
    found = {}
    for number, entry in store.held()[_SECTION].items():
        found[number] = answers_of(entry)
    return found


def answered() -> list[Answered]:
    """Return the answers of all tests."""
    return [answer for answers in tests().values() for answer in answers]


def answers_of(entry: Mapping[str, Any]) -> list[Answered]:
    """Return the answers of a stored test; what somebody has edited beyond reading is left out."""
    found = []
    for answer in entry["answers"]:
        if isinstance(answer, dict) and str(answer.get("id")) in items():
            mistake = str(answer.get("mistake", ""))
            item = items()[str(answer["id"])]
            found.append(Answered(item, answer.get("right") is True, mistake))
    return found


class _Test:
    """A test with a number: its questions, what was answered, and what comes next."""

    def __init__(self, number: str) -> None:
        self.number = number
        entry = store.held()[_SECTION].get(number, {"answers": [], "seen": None})
        self.answers = [*entry["answers"]]
        self.seen = entry.get("seen")
        is_list = isinstance(self.seen, list) and all(isinstance(id, str) for id in self.seen)
        if not is_list:
            self.seen = _seen_in_others(number)

    @property
    def standing(self) -> ladder.Standing:
        """How the reader stands after the answers so far."""
        given = answers_of({"answers": self.answers})
        return ladder.standing((answer.item.level, answer.right) for answer in given)

    def next(self) -> Drawn | None:
        """Return the question that comes next, or None if the test is over."""
        level = self.standing.next
        if not level:
            return None
        asked = {str(answer.get("id")) for answer in self.answers if isinstance(answer, dict)}
        left_out = asked | given_away(asked)
        for drawn in _drawn(self.number, level, tuple(self.seen)):
            if drawn.item.id not in left_out:
                return drawn
        return None

    def place(self) -> int:
        """Return the number of the question that comes next."""
        return len(self.answers) + 1

    def keep(self, drawn: Drawn, verdict: Verdict) -> None:
        """Store an answer."""
        entry = {"id": drawn.item.id, "right": bool(verdict.right), "mistake": verdict.mistake}
        self.answers.append(entry)
        store.put(_SECTION, self.number, {"answers": self.answers, "seen": self.seen})


@functools.cache
def _drawn(number: str, level: str, seen: tuple[str, ...]) -> list[Drawn]:
    """Return the questions of a level in a test, in their order, and one more should one of them be left out."""
    return draw(number, levels=[level], n=ladder.MOST + 1, seen=seen)


def _seen_in_others(number: str) -> list[str]:
    """Return the questions of all other tests."""
    found = []
    for other, answers in tests().items():
        if other != number:
            found += [answer.item.id for answer in answers]
    return found


def exam(number: int | str = 1, answer: object = None) -> Shown:
    """Take a test: show its next question, or answer that one and go on.

    A test is as long as it takes to tell your level: 8 questions at least, 80 at most; most people need 20 to 45. You
    may stop at any time, and go on another day.

    Parameters
    ----------
    number : int or str
        Number of the test. Another number gives other questions, and other numbers in them.
    answer : number or str, optional
        The answer to the question that was shown: a letter, or a number with its unit such as ``"0.7 s"``.

    Returns
    -------
    Shown
        The question; at the end, your level. ``data`` has the level and how sure it is.

    Raises
    ------
    InputRefused
        A ValueError: the number of the test is empty.
    """
    refuse_if(not str(number).strip(), "exam.number")
    form = _ExamForm(_Test(str(number).strip()))
    if answer is not None:
        form.answer(answer)
    return form.shown()


class _ExamForm:
    """A test as a card: it asks, judges, shows the verdict, and goes on."""

    def __init__(self, test: _Test) -> None:
        self.test = test
        self.drawn = test.next()
        self.verdict: Verdict | None = None  # on the question that is shown
        self.chosen = ""
        self.problem = ""

    def answer(self, answer: object) -> None:
        """Judge and store an answer; one that cannot be read is not counted."""
        if self.drawn is None or self.verdict is not None:
            return
        verdict = self.drawn.judge(answer)
        if verdict.right is None:
            self.problem = " ".join(verdict.said)
            return
        self.problem = ""
        typed = str(answer).strip()
        self.chosen = letter_of(typed) if self.drawn.options else typed
        self.verdict = verdict
        self.test.keep(self.drawn, verdict)

    def go_on(self) -> None:
        """Go to the next question."""
        self.drawn = self.test.next()
        self.verdict = None
        self.chosen = ""

    def shown(self) -> Shown:
        """Return the card, or in text mode the verdict on the last answer and the next question."""
        before = []
        if self.verdict is not None and self.drawn is not None:
            before = [*_said(self.drawn, self.verdict), ""]
        elif self.problem:
            before = [f"{self.problem} {text('check.uncounted')}"]
        following = self.test.next()
        data = {"test": self.test.number, "asked": len(self.test.answers)}
        if following is None:
            return _result(self.test, before)
        lines = [*before, self._heading(following), following.asked]
        options = [(letter, option) for letter, (option, _) in following.options.items()]
        if not options:
            lines.append(text("exam.within", within=_within(following)))
        typed = text("exam.type", call=f"fl.exam({self.test.number!r}, {_placeholder(following)})")
        return Shown(
            lines, "wait", rows=options, after=[typed], data=data, card=self.still, live=self.live
        )

    def _heading(self, drawn: Drawn) -> str:
        """Return the line above a question, which does not tell its level."""
        topic = topic_name(drawn.item.topic)
        return text("exam.heading", number=self.test.number, place=self.test.place(), topic=topic)

    def still(self) -> str:
        """Return the card for pages without a kernel."""
        return cards.card(self._body(still=True), title=text("exam.title", number=self.test.number))

    def live(self) -> Any:
        """Return the form that a reader fills in."""
        from fabriclab.views.live.form import Form

        title = text("exam.title", number=self.test.number)
        words = repr(replace(self.shown(), live=None))
        return Form(title, self._body(still=False), words, self.press)

    def press(self, name: str, fields: Mapping[str, str]) -> Any:
        """Judge what was pressed or typed, or go on."""
        from fabriclab.views.live.form import Turn

        said = ""
        if name == "next":
            self.go_on()
            said = self._told()
        else:
            typed: object = name
            if name == "check" and self.drawn is not None:
                typed = _with_unit(fields["answer"], self.drawn)
            self.answer(typed)
            refuse_if(self.problem, "exam.problem", problem=self.problem)
            if self.drawn is not None and self.verdict is not None:
                said = " ".join(_said(self.drawn, self.verdict))
        return Turn(self._body(still=False), said)

    def _told(self) -> str:
        """Return what a screen reader reads where the next question, or the end, has come onto the card."""
        if self.drawn is None:
            return " ".join(_result_in_words(self.test))
        return f"{self._heading(self.drawn)}. {self.drawn.asked}"

    def _body(self, *, still: bool) -> str:
        """Return the body of the card."""
        if self.drawn is None:
            return cards.ending(*_result_in_words(self.test))
        drawn = self.drawn
        place = len(self.test.answers) + (self.verdict is None)
        topic = topic_name(drawn.item.topic)
        name = text("exam.heading", number=self.test.number, place=place, topic=topic)
        options = {letter: option for letter, (option, _) in drawn.options.items()}
        marks = {}
        if self.verdict is not None and options:
            marks = {self.chosen: bool(self.verdict.right), str(drawn.truth): True}
        if options:
            note = text("card.keys", first=min(options), last=max(options))
            answer = cards.choices(options, marks, still=still)
        else:
            note = _within(drawn)
            unit = "" if drawn.item.question.unit == "1" else drawn.item.question.unit
            answer = cards.number(unit, self.chosen, still=still or self.verdict is not None)
        verdict = None
        onward = ""
        if self.problem:
            verdict = cards.Verdict("other", self.problem, [text("check.uncounted")])
        if self.verdict is not None:
            bold, *below = _said(drawn, self.verdict)
            first, more = halves(bold)
            kind = "right" if self.verdict.right else "wrong"
            verdict = cards.Verdict(kind, first, [line for line in (more, *below) if line])
            if not still:
                button = cards.press_button("next", text("exam.next"), "fl-main")
                onward = f'<div class="fl-row fl-on">{button}</div>'
        typed = ""
        if still and self.verdict is None:
            call = f"fl.exam({self.test.number!r}, {_placeholder(drawn)})"
            typed = text("exam.type", call=call)
        return cards.question(
            name, note, drawn.asked, answer, verdict=verdict, type_in=typed, below=onward
        )


def _within(drawn: Drawn) -> str:
    """Return in words how exact an answer has to be."""
    tolerance = drawn.item.question.tolerance
    return text("check.within" if tolerance else "check.exact", percent=100 * tolerance)


def _with_unit(typed: str, drawn: Drawn) -> str:
    """Return what was typed in the field, with the unit that stands beside it if it has none."""
    refuse_if(not typed.strip(), "card.empty")
    unit = drawn.item.question.unit
    if any(letter.isdigit() for letter in typed) and quantity(unit)[0] and not unit_in(typed):
        return f"{typed} {unit}"
    return typed


def _placeholder(drawn: Drawn) -> str:
    """Return the placeholder for the answer in the line to type."""
    if drawn.options:
        return '"?"'
    return f'"? {drawn.item.question.unit}"'.replace(' 1"', '"')


def _said(drawn: Drawn, verdict: Verdict) -> list[str]:
    """Return what is said about an answer: whether it is right, what went wrong, the key, and where it is taught."""
    if verdict.right:
        return [text("exam.right", key=drawn.key)]
    lesson = lesson_name(drawn.item.question.lesson)
    return [text("exam.wrong", key=drawn.key), *verdict.said, text("exam.read", lesson=lesson)]


def _result_in_words(test: _Test) -> tuple[str, str, str]:
    """Return the end of a test: small line, finding, and how sure it is, with what to look at next."""
    found = test.standing
    level = text(f"level.{found.level}") if found.level else text("level.none")
    small = text("exam.over", number=test.number, n=len(test.answers))
    told = [text("exam.same", same=float(found.same))]
    if found.between:
        low, high = (text(f"level.short.{level or 'none'}") for level in found.between)
        told.append(text("exam.between", low=low, high=high))
    weak = _weak_topics(answers_of({"answers": test.answers}))
    told.append(text("exam.gaps", topics=", ".join(weak)) if weak else text("exam.no_gaps"))
    return small, level, " ".join(told)


def _weak_topics(answers: Sequence[Answered]) -> list[str]:
    """Return the topics in which at most half of the answers are right, the weakest first, each with its count."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for answer in answers:
        hits[answer.item.topic].append(answer.right)
    shares = {topic: sum(right) / len(right) for topic, right in hits.items()}
    weak = sorted((topic for topic in hits if shares[topic] <= 1 / 2), key=shares.__getitem__)
    found = []
    for topic in weak:
        right = sum(hits[topic])
        found.append(text("exam.gap", topic=topic_name(topic), right=right, n=len(hits[topic])))
    return found


def _result(test: _Test, before: list[str]) -> Shown:
    """Return the end of a test: the level, the rungs, and how sure it is."""
    found = test.standing
    rows = []
    for rung in found.rungs:
        share = text("exam.interval", low=float(rung.low), high=float(rung.high))
        state = text("word.yes" if rung.holds else "word.no")
        rows.append((rung.level, f"{rung.right} / {rung.asked}", share, state))
    data = {
        "test": test.number,
        "asked": len(test.answers),
        "level": found.level,
        "same": found.same,
        "between": list(found.between),
    }
    lines = [*before, *_result_in_words(test)]
    head = text("exam.rungs").split("|")
    return Shown(lines, "good", head=head, rows=rows, after=[text("exam.rule")], data=data)


def sheet(number: int | str, n: int = 40, *, key: bool = False) -> Shown:
    """Return a test for paper: questions of all topics and levels, and on request the key.

    Parameters
    ----------
    number : int or str
        Number of the sheet; the same number gives the same questions.
    n : int
        How many questions, as many of each level as there is room for.
    key : bool
        Add a table of the right answers, for the examiner.

    Returns
    -------
    Shown
        The questions; ``data`` has their numbers in the bank and, on request, the key.

    Raises
    ------
    InputRefused
        A ValueError: ``n`` is below 1.
    """
    drawn: list[Drawn] = []
    for place, level in enumerate(LEVELS):
        share = n // len(LEVELS) + (place < n % len(LEVELS))
        if share:
            beside = [question.item.id for question in drawn]
            drawn += draw(f"sheet {number}", levels=[level], n=share, beside=beside)
    refuse_if(not drawn, "exam.n", got=n)
    parts = []
    for place, question in enumerate(drawn, 1):
        options = [(f"{letter})", option) for letter, (option, _) in question.options.items()]
        unit = question.item.question.unit
        blank = text("exam.blank", unit="" if unit == "1" else unit)
        after = [] if options else [f"{blank.strip()} ({_within(question)})"]
        parts.append(Shown([f"{place}. {question.asked}"], rows=options, after=after))
    data: dict[str, Any] = {"questions": [question.item.id for question in drawn]}
    if key:
        rows = []
        for place, question in enumerate(drawn, 1):
            item = question.item
            rows.append((place, question.key, item.level, topic_name(item.topic), item.id))
        parts.append(Shown([text("exam.key")], head=text("exam.key_head").split("|"), rows=rows))
        data["key"] = [question.key for question in drawn]
    return Shown([text("exam.sheet", number=number, n=len(drawn))], parts=parts, data=data)
