"""`check` and `drill`: feedback on an answer, which names the mistake and gives one more hint each time."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fabriclab.course import cards, judges
from fabriclab.course.judges.answers import JUDGES
from fabriclab.course.judges.shared.calls import asker
from fabriclab.course.progress import store
from fabriclab.course.questions import (
    Question,
    Words,
    asides,
    find,
    misconception,
    own,
    questions,
    unknown,
)
from fabriclab.course.shown import Shown, quantity, refuse_if, unit_in
from fabriclab.look import halves
from fabriclab.texts import localised, text

_HINTS = 3


def check(id: str, answer: Any = None, *more: Any, **given: Any) -> Shown:
    """Judge an answer: say whether it is right and, if it is not, what went wrong, with one more hint each time.

    Parameters
    ----------
    id : str
        Name of the question, which the lesson gives.
    answer : number, str, function or list of functions, optional
        The answer, such as ``"0.7 s"``, ``"b"``, or your function. Without one, the question is shown.
    *more : function, optional
        Further functions, if the question asks for several.
    **given
        Other values for the quantities of the question, such as ``n=32`` or ``s="4.4 GB"``.

    Raises
    ------
    InputRefused
        A ValueError: there is no such question, or it has no such quantity.
    """
    if more:
        answer = [answer, *more]
    name = str(id).partition("-")[0]
    if not own.load_near(id) and own.is_name(name) and "-" in str(id):
        return Shown([text("own.not_here", id=id, name=name)], "wait", data={"right": False})
    if id in judges.questions():
        return _graded(judges.find(id), answer)
    if str(id).startswith("ex") and id not in asides():
        raise unknown(id, [*judges.questions(), *asides()])
    question = find(id)
    return _turn(question, "choice" if question.kind == "pick" else question.kind, answer, given)


def drill(number: int, answer: str | None = None) -> Shown:
    """Ask question ``number`` of the drill on units, which has four choices, or answer it with a letter."""
    rows = {q.drill: q for q in questions().values() if q.drill}
    refuse_if(f"units/{number}" not in rows, "drill.unknown", number=number, n=len(rows))
    return _turn(rows[f"units/{number}"], "choice", answer, {})


def _turn(question: Question, kind: str, answer: Any, given: Mapping[str, Any]) -> Shown:
    """Ask a question, or judge and store an answer to it and show the verdict with a hint or an explanation."""
    form = _QuestionForm(question, kind, given)
    if answer is None:
        return form.shown()
    form.answer(answer)
    return form.shown()


@dataclass(frozen=True)
class _Judged:
    """What is said about an answer: as sentences, and on a card."""

    data: Mapping[str, Any]
    lines: Sequence[str]  # as text shows them, the verdict first
    verdict: cards.Verdict
    parts: Sequence[Shown] = ()  # tables of what a function did, as text shows them


def _judged(question: Question, kind: str, answer: Any, given: Mapping[str, Any]) -> _Judged:
    """Judge and store an answer to a question of a lesson."""
    right, sentences, mistake, trace = JUDGES[kind](question, answer, given)
    if right is None:
        return _uncounted(sentences)
    data = _kept("drills" if question.drill else "checks", question.id, right, mistake)
    _, quantities = question.fill(given)
    if right:
        sentences = [*sentences, question.words.explained(quantities)]
        if question.formula:
            exact = question.shown(question.key(given))
            sentences.append(text("check.key", key=exact))
    because = sentences[-1] if mistake and sentences else ""
    hints = _hints(question.words, data["tries"], quantities)
    if trace is None:
        return _with_verdict(data, sentences, hints, because)
    cases = [cards.Case(*case[:2], "", *case[2:]) for case in trace.cases]
    told = [sentence for sentence in sentences if sentence != because]  # the trace says it
    judged = _with_verdict(data, sentences, hints, because, cases, told)
    verdict = judged.verdict._replace(trace=trace)
    return replace(judged, verdict=verdict, parts=_traced(trace))


def _traced(trace: judges.Trace) -> list[Shown]:
    """Return the cases of a trace and what happened in the one that failed, as two tables."""
    rows = []
    for case in trace.cases:
        sign = text("word.right" if case.right else "word.wrong")
        name = f"{case.name}, {case.call}" if case.call else case.name
        rows.append((sign, name, case.got, case.wanted))
    marked = []
    for place, row in enumerate(trace.rows):
        cells = [
            f"{cell} ({text('word.wrong')})" if (place, column) in trace.wrong else cell
            for column, cell in enumerate(row)
        ]
        marked.append(tuple(cells))
    return [
        Shown((), head=("", *text("card.tried").split("|")), rows=rows),
        Shown((), head=trace.head, rows=marked, after=[trace.look]),  # the sentences have the rest
    ]


def _with_verdict(
    data: Mapping[str, Any],
    sentences: Sequence[str],
    hints: Sequence[str],
    because: str = "",
    cases: Sequence[cards.Case] = (),
    elsewhere: Sequence[str] = (),
) -> _Judged:
    """Return the verdict on an answer; a wrong one gets hints if it counts as a try.

    ``because`` is the one of the sentences that names the misconception, which the card says first; ``elsewhere`` are
    those that the card says in its table.
    """
    sentences = [sentence for sentence in sentences if sentence]
    if data["right"]:
        tries = text("check.first" if data["tries"] == 1 else "check.tries", n=data["tries"])
        bold = text("check.right", tries=tries)
        return _Judged(data, [bold, *sentences], cards.Verdict("right", bold, sentences, cases))

    below = [s for s in sentences if s != because and s not in elsewhere]
    first, more = halves(because)
    if data["counted"]:
        opening = text("check.wrong")
        below += hints
    else:
        opening, hints = text("check.solved"), []
    shown = list(filter(None, [more, *below]))
    verdict = cards.Verdict("wrong", f"{opening} {first}".strip(), shown, cases)
    return _Judged(data, [opening, *sentences, *hints], verdict)


def _uncounted(sentences: Sequence[str], **more: Any) -> _Judged:
    """Return the reason why an answer cannot be judged; it does not count as a try."""
    lines = [*filter(None, sentences), text("check.uncounted")]
    data = {"right": False, "counted": False, **more}
    first, rest = halves(lines[0])
    below = " ".join(filter(None, [rest, *lines[1:]]))
    return _Judged(data, lines, cards.Verdict("other", first, [below]))


class _QuestionForm:
    """A question of a lesson as a card: it asks, judges, and remembers what was tried on this card.

    Parameters
    ----------
    question : Question
        The question.
    kind : str
        How it is answered: with a choice, a number or a function.
    given : mapping
        Other values for its quantities.
    """

    def __init__(self, question: Question, kind: str, given: Mapping[str, Any]) -> None:
        self.question = question
        self.kind = kind
        self.given = given
        self.plain = _ask(question, kind, given)
        self.options = dict(self.plain.rows)
        self.marks: dict[str, bool] = {}  # letters that were chosen, and whether they are right
        self.typed = ""
        self.passed = False  # whether the last answer was a function
        self.judged: _Judged | None = None

    def answer(self, answer: Any) -> None:
        """Judge an answer."""
        self.judged = _judged(self.question, self.kind, answer, self.given)
        self.passed = callable(answer)
        self.typed = str(answer)
        letter = str(answer).strip().lower().rstrip(".)")
        if letter in self.options:
            self.marks[letter] = self.judged.data["right"]

    def shown(self) -> Shown:
        """Return the question as a notebook shows it, with the verdict on the last answer."""
        live = None if self.kind == "function" else self.live
        if self.judged is None:
            return replace(self.plain, card=self.still, live=live)
        data = self.judged.data
        if data["right"]:
            return Shown(
                self.plain.lines, "good", after=self.judged.lines, data=data, card=self.still
            )
        after = [*self.judged.lines, *([] if self.passed else self.plain.after)]
        return replace(
            self.plain,
            parts=self.judged.parts,
            after=after,
            state="wait",
            data=data,
            card=self.still,
            live=live,
        )

    def still(self) -> str:
        """Return the card for pages without a kernel."""
        return cards.card(self._body(still=True), title=self.question.words.name())

    def live(self) -> Any:
        """Return the form that a learner fills in."""
        from fabriclab.views.live.form import Form

        title = self.question.words.name()
        return Form(title, self._body(still=False), repr(self.plain), self.press)

    def press(self, name: str, fields: Mapping[str, str]) -> Any:
        """Judge what was pressed or typed on the card."""
        from fabriclab.views.live.form import Turn

        answer = name
        if self.kind == "number":
            answer = fields["answer"]
            refuse_if(not answer.strip(), "card.empty")
            is_number = any(letter.isdigit() for letter in answer)  # others are quoted as typed
            if is_number and quantity(self.question.unit)[0] and not unit_in(answer):
                answer = f"{answer} {self.question.unit}"  # the unit stands beside the field
        self.answer(answer)
        if self.kind == "number":
            self.typed = fields["answer"]
        assert self.judged is not None
        return Turn(self._body(still=False), self.judged.verdict.said())

    def _body(self, *, still: bool) -> str:
        """Return the body of the card."""
        question = self.question
        note = ""
        answer = ""
        type_in = ""
        verdict = self.judged.verdict if self.judged else None
        is_right = self.judged is not None and self.judged.data["right"]
        if self.kind == "choice":
            note = text("card.keys", first=min(self.options), last=max(self.options))
            answer = cards.choices(self.options, self.marks, still=still)
        elif self.kind == "number":
            note = _within(question)
            unit = "" if question.unit == "1" else question.unit
            answer = cards.number(unit, self.typed, still=still)
        # The cell above has the line to type, once a function has been passed.
        if not is_right and not self.passed and (still or self.kind == "function"):
            type_in = self.plain.after[-1]
        return cards.question(
            _named(question.words, self.judged),
            note,
            self.plain.lines[0],
            answer,
            verdict=verdict,
            type_in=type_in,
        )


def _named(words: Words, judged: _Judged | None) -> str:
    """Return the name of a question for its card, with the number of tries if there were several."""
    tries = judged.data.get("tries", 0) if judged else 0
    if tries < 2:
        return words.name()
    return text("card.tries", name=words.name(), n=tries)


def _within(question: Question) -> str:
    """Return in words how exact the answer to a question must be."""
    key = "check.within" if question.tolerance else "check.exact"
    return text(key, percent=100 * question.tolerance)


def _kept(section: str, id: str, right: bool, mistake: str) -> dict[str, Any]:
    """Count and store a try, unless the question was solved before; return what the learner gets as ``data``."""
    entry = store.held()[section].get(id, {"tries": 0, "right": False, "named": []})
    solved = bool(entry["right"])
    if not solved:
        named = [*entry["named"], mistake] if mistake else entry["named"]
        entry = {"tries": entry["tries"] + 1, "right": right, "named": named}
    if right or not solved:
        # If a solved question is answered right again, the day is noted, which completes a review.
        store.put(section, id, entry)
    return {"right": right, "counted": not solved, "tries": entry["tries"], "named": mistake}


def _hints(
    words: Words, tries: int, quantities: Mapping[str, str], function: str = ""
) -> list[str]:
    """Return the hint for a number of tries, in a list that is empty if there is none."""
    level = min(tries, _HINTS)
    hint = words.hint(level, quantities, function)
    return [text("check.hint", level=level, hint=hint)] if hint else []


def _graded(question: judges.JudgedQuestion, answer: Any) -> Shown:
    """Judge the functions of an exercise in this process, on the practice cases, which everybody may see."""
    names = ", ".join(question.functions)
    if len(question.functions) > 1:
        names = f"[{names}]"
    call = f'fl.check("{question.id}", {names})'
    asked = Shown([question.words.asked({})], after=[text("check.function", call=call)])
    if answer is None:
        return replace(asked, card=functools.partial(_graded_card, question, asked, None))
    judged = _judged_code(question, answer)
    shown_again = asked if not _are_functions(answer) else replace(asked, after=[""])
    card = functools.partial(_graded_card, question, shown_again, judged)
    if judged.data["right"]:
        return Shown(asked.lines, "good", after=judged.lines, data=judged.data, card=card)
    after = [*judged.lines, *([] if _are_functions(answer) else asked.after)]
    return replace(asked, after=after, state="wait", data=judged.data, card=card)


def _are_functions(answer: Any) -> bool:
    """Return whether an answer is a function or consists of functions."""
    given = answer if isinstance(answer, list | tuple) else [answer]
    return all(callable(each) for each in given)


def _judged_code(question: judges.JudgedQuestion, answer: Any) -> _Judged:
    """Judge and store the functions of an exercise."""
    functions = list(answer) if isinstance(answer, list | tuple) else [answer]
    try:
        ask = asker(question.functions, functions)
        verdict = question.judge(ask, judges.draw(judges.PRACTICE, question.id))
    except judges.Unanswered as error:
        return _uncounted([error.said], part=0.0)
    data = _kept("checks", question.id, verdict.part == 1, verdict.mistake) | {"part": verdict.part}
    first = bool(verdict.seen) and data["tries"] == 1 and not data["right"]
    cases = [_case(question, part, truth=not first) for part in verdict.parts]
    if data["right"]:
        return _with_verdict(data, [*verdict.said, question.words.explained({})], [], cases=cases)

    worth = text("ex.worth", points=verdict.part * question.points, of=question.points)
    function = next((name for name, _ in verdict.failed), "")
    hints = _hints(question.words, data["tries"], {}, function)
    if data["tries"] >= _HINTS and not own.is_name(question.id.partition("-")[0]):
        hints.append(text("ex.solution", file=f"solutions/exercise{question.id[2]}.ipynb"))
    sentences = [worth, *_staged(verdict, data["tries"])]
    if verdict.failed:
        calls = [_practice_call(question.id, name, place) for name, place in verdict.failed]
        sentences.append(text("ex.practice", calls=", ".join(calls)))
    because = misconception(question.id, verdict.mistake) if verdict.mistake else ""
    if because not in sentences:
        because = ""
    elsewhere = [worth]
    for part in verdict.parts:
        told = (part.call, part.got, part.wanted)
        if all(told):
            elsewhere += [s for s in sentences if all(words in s for words in told)]
    return _with_verdict(data, sentences, hints, because, cases, elsewhere)


def _staged(verdict: judges.Verdict, tries: int) -> Sequence[str]:
    """Return what is said of a wrong answer: what is off, then the right value beside it, then worked steps."""
    if not verdict.seen or tries >= _HINTS:
        return verdict.said
    if tries == 1:
        return verdict.seen
    return [sentence for sentence in verdict.said if sentence not in verdict.steps]


def _case(
    question: judges.JudgedQuestion, part: judges.JudgedPart, *, truth: bool = True
) -> cards.Case:
    """Return a part of an exercise as a row of its card, with the right value if ``truth``."""
    points = text(
        "card.points", points=part.worth * question.points, of=part.share * question.points
    )
    wanted = part.wanted if truth else ""
    return cards.Case(part.name, not part.call, points, part.call, part.got, wanted)


def _graded_card(question: judges.JudgedQuestion, asked: Shown, judged: _Judged | None) -> str:
    """Return the card of a question of an exercise: its parts with their points, and the verdict."""
    earned = judged.data.get("part", 0.0) if judged else 0.0
    note = text("card.points", points=earned * question.points, of=question.points)
    is_right = judged is not None and judged.data["right"]
    body = cards.question(
        _named(question.words, judged),
        note,
        asked.lines[0],
        "",
        verdict=judged.verdict if judged else None,
        type_in="" if is_right else asked.after[-1],
    )
    return cards.card(body, title=question.words.name())


def _practice_call(id: str, function: str, place: int) -> str:
    """Return the line that runs a learner's function on a practice case, for the learner to type."""
    return f'`{function}(*fl.exercises.practice("{id}")["{function}"][{place}])`'


def _ask(question: Question, kind: str, given: Mapping[str, Any]) -> Shown:
    """Return the question with its options and the line to type as an answer."""
    asked = question.words.asked(question.fill(given)[1])
    if question.drill:
        n = sum(bool(q.drill) for q in questions().values())
        asked = text("drill.ask", number=question.drill.removeprefix("units/"), n=n, asked=asked)
    call = question.call(
        _placeholder(question, kind), *(f"{name}={value!r}" for name, value in given.items())
    )
    if kind == "choice":
        options = [
            (letter, localised(option)) for letter, (option, _) in question.options(given).items()
        ]
        return Shown([asked], rows=options, after=[text("check.choice", call=call)])
    if kind != "number":
        return Shown([asked], after=[text(f"check.{kind}", call=call)])

    form_key = {"times": "check.factor", "1": "check.plain"}.get(question.unit, "check.unit")
    form = text(form_key, unit=question.unit)
    within = _within(question)
    return Shown([asked], after=[text("check.number", form=form, within=within, call=call)])


def _placeholder(question: Question, kind: str) -> str:
    """Return the placeholder for the answer in the line to type."""
    if kind == "choice":
        return '"?"'
    if kind == "function":
        return "your_function"
    return f'"? {question.unit}"'.replace(' 1"', '"')
