"""The framework of judges: a question consists of parts, and a part knows what is right in each of its cases.

The judge of a question draws its cases, makes a `QuestionPart` for each thing that is asked, and calls `judge`. That
asks all cases, counts right answers, says what is wrong, and names the mistake that explains it. A kind of part is a
class with the methods below. The most common is `NumberPart`, whose right answers and known mistakes are formulas in
the file of the question; `function_parts` has one whose truth and mistakes are Python functions. To add a question, see
CONTRIBUTING.md.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fabriclab import units
from fabriclab.course.judges import Ask, JudgedPart, Proxy, Unanswered, Verdict
from fabriclab.course.judges.shared.numbers import KIND_OF, UNIT, Misread, brief, near, number
from fabriclab.course.questions import misconception
from fabriclab.course.questions.files import entries, load, message, name_of, translated
from fabriclab.formulas import evaluate, evaluate_all
from fabriclab.texts import fill, text

_SHOW = {"time": units.format_time, "size": units.format_size, "rate": units.format_rate}
RECOGNISED = 2e-3  # relative distance at which a known mistake is recognised
_Drawn = TypeVar("_Drawn")


class Call(NamedTuple):
    """A call of a learner's function; calls in several parts with the same tuple of arguments are made only once."""

    function: str
    arguments: tuple[Any, ...]


class QuestionPart:
    """What a function must return in several cases, and its share of the points.

    A subclass decides what is right. Its methods get the number of a case and the answer to it.

    Parameters
    ----------
    question, name : str
        The id of the question, and the name of the part in it.
    share : float
        Fraction of the question's points that the part earns if all cases are right. [0..1]
    calls : sequence of Call
        A call for each case.
    sets : int
        Number of sets; case i is in set i % sets. A set counts only if all its cases are right, so that no constant
        answer earns points.
    after : bool
        Whether a set counts only if the same set was right in the part before, too.
    """

    def __init__(
        self,
        question: str,
        name: str,
        share: float,
        calls: Sequence[Call],
        *,
        sets: int = 1,
        after: bool = False,
    ) -> None:
        self.question = question
        self.name = name
        self.share = share
        self.calls = calls
        self.sets = sets
        self.after = after

    def set_of(self, case: int) -> int:
        """Return the number of the set that a case is in."""
        return case % self.sets

    def read(self, case: int, value: Any) -> Any:
        """Return the answer contained in what the function returned; raise Misread if there is none."""
        raise NotImplementedError

    def is_right(self, case: int, answer: Any) -> bool:
        """Return whether an answer is right."""
        raise NotImplementedError

    def mistakes(self, case: int, answer: Any) -> Sequence[str]:
        """Return the names of mistakes that fit a wrong answer, the likeliest first; name/x is a variant of name."""
        return ()

    def off(self, case: int, answer: Any) -> str:
        """Return a sentence that says what is wrong."""
        raise NotImplementedError

    def seen(self, case: int, answer: Any) -> str:
        """Return a sentence that says what is wrong without giving the right answer, for the first try."""
        return text("ex.seen", call=self.written(case, answer), got=brief(answer))

    def compared(self, case: int, answer: Any) -> tuple[str, str]:
        """Return what was answered in a wrong case and what is right, in words; empty where `off` says it all."""
        return "", ""

    def step(self, case: int, answer: Any, mistake: str) -> str:
        """Return a worked step towards the right answer, or an empty text."""
        return ""

    def remark(self, case: int, answer: Any) -> str:
        """Return a remark on a right answer, or an empty text."""
        return ""

    def written(self, case: int, answer: Any = None) -> str:
        """Write a call as a learner would type it, with dots for long arguments.

        If the call returns several values and an answer is given, the first one that is wrong is meant.
        """
        plain: dict[type, Callable[[Any], str]] = {
            Proxy: lambda a: "comm",
            str: repr,
            int: str,
            float: "{:g}".format,
        }
        call = self.calls[case]
        words = [plain.get(type(a), lambda a: "...")(a) for a in call.arguments]
        return f"{call.function}({', '.join(words)})"


# Numbers ---------------------------------------------------------------------------------------------------------


class JudgedCase(NamedTuple):
    """A case of a `NumberPart`: the arguments of the call, and the quantities that its formulas use."""

    arguments: tuple[Any, ...]
    quantities: Mapping[str, float]


class Returned(NamedTuple):
    """A number that a function must return, as described in the file of the question."""

    formula: str  # formula of the right number, in SI
    unit: str  # "s", "B", "B/s", or "1" for a plain number
    within: float  # relative error that counts as right
    apart: float = 0.0  # absolute error that counts as right
    also: str = ""  # formula of a usual approximation: it is right, too, and so is everything between the two
    mistakes_within: float = RECOGNISED
    whole: bool = False  # whether a size is shown in whole bytes
    digits: int = 3  # significant digits of a plain number, when shown
    step: str = ""  # a worked step, with quantities in braces
    wrong: Sequence[Mapping[str, Any]] = ()  # mistakes, each with the formulas of its results

    def is_near(self, got: float, quantities: Mapping[str, float]) -> bool:
        """Return whether a number is right."""
        true = evaluate(self.formula, quantities)
        other = evaluate(self.also, quantities) if self.also else true
        between = min(
            max(got, min(true, other)), max(true, other)
        )  # nearest number that is surely right
        return got == between or near(got, between, self.within) or abs(got - between) <= self.apart

    def shown(self, value: float) -> str:
        """Write a number as people do."""
        if self.whole:
            return f"{value:,.0f} {self.unit}"
        return shown(value, KIND_OF[self.unit], self.digits)


class NumberPart(QuestionPart):
    """A part whose right numbers and known mistakes are formulas in the file of the question.

    In the file, ``[<question>.parts.<name>]`` has the share; the name of the function if it differs from the name of
    the part; ``place`` if one of two returned values is judged; derived quantities; and a table ``returns`` for each
    number, with its known mistakes.

    Parameters
    ----------
    question, name : str
        The id of the question, and the name of the part in its file.
    cases : sequence of JudgedCase
        The cases to ask.
    sets, after
        As for `QuestionPart`.
    """

    def __init__(
        self,
        question: str,
        name: str,
        cases: Sequence[JudgedCase],
        *,
        sets: int = 1,
        after: bool = False,
    ) -> None:
        about = entries(name_of(question))[question]["parts"][name]
        function = about.get("function", name)
        calls = [Call(function, case.arguments) for case in cases]
        super().__init__(question, name, about["share"], calls, sets=sets, after=after)
        self.place: int | None = about.get("place")  # index in the pair that the function returns
        self.returns = [Returned(**returned) for returned in about["returns"]]
        derived = about.get("quantities", {})
        self.quantities = [evaluate_all(derived, case.quantities) for case in cases]

    def true(self, case: int) -> list[float]:
        """Return the right numbers of a case."""
        return [evaluate(one.formula, self.quantities[case]) for one in self.returns]

    def read(self, case: int, value: Any) -> list[float]:
        """Return the numbers that a function returned, in SI; raise Misread if they cannot be read."""
        values = [value]
        if self.place is not None:
            values = [one_of_pair(value, self.place)]
        elif len(self.returns) > 1:
            values = value if isinstance(value, list) else [value]
        if len(values) != len(self.returns):
            raise Misread(text("ex.numbers", n=len(self.returns), got=brief(value)))
        return [
            number(one, KIND_OF[returned.unit])
            for one, returned in zip(values, self.returns, strict=True)
        ]

    def _first_off(self, case: int, answer: Sequence[float]) -> int | None:
        """Return the index of the first number that is wrong, or None."""
        for place, (got, returned) in enumerate(zip(answer, self.returns, strict=True)):
            if not returned.is_near(got, self.quantities[case]):
                return place
        return None

    def is_right(self, case: int, answer: Sequence[float]) -> bool:
        """Return whether all numbers are right."""
        return self._first_off(case, answer) is None

    def mistakes(self, case: int, answer: Sequence[float]) -> list[str]:
        """Return the known mistakes that explain the first number that is wrong."""
        place = self._first_off(case, answer)
        if place is None:
            return []
        returned = self.returns[place]
        names = {**self.quantities[case], "truth": self.true(case)[place]}
        return [
            wrong["mistake"]
            for wrong in returned.wrong
            if any(
                near(answer[place], evaluate(formula, names), returned.mistakes_within)
                for formula in wrong["formulas"]
            )
        ]

    def compared(self, case: int, answer: Sequence[float]) -> tuple[str, str]:
        """Return the first number that is wrong, and the right number."""
        place = self._first_off(case, answer) or 0
        returned = self.returns[place]
        return returned.shown(answer[place]), returned.shown(self.true(case)[place])

    def seen(self, case: int, answer: Sequence[float]) -> str:
        """Return a sentence with the call, the first number that is wrong, and on which side of the right one it is."""
        place = self._first_off(case, answer) or 0
        got, _ = self.compared(case, answer)
        side = "ex.high" if answer[place] > self.true(case)[place] else "ex.low"
        return text(side, call=self.written(case, answer), got=got)

    def off(self, case: int, answer: Sequence[float]) -> str:
        """Return a sentence with the call, the first number that is wrong, and the right number."""
        place = self._first_off(case, answer) or 0
        returned = self.returns[place]
        got, truth = self.compared(case, answer)
        words = {
            "call": self.written(case, answer),
            "got": got,
            "truth": truth,
            "percent": f"{100 * returned.within:g}",
        }
        file = name_of(self.question)
        if "number" not in load(file).get("messages", {}):
            return text("ex.off", **words)
        sentence = "number" if returned.within else "exact"
        return message(int(file.removeprefix("exercise")), sentence, **words)

    def step(self, case: int, answer: Sequence[float], mistake: str) -> str:
        """Return the worked step from the file, with the quantities of the case."""
        place = self._first_off(case, answer) or 0
        key = f"{self.question}.{self.name}.step"
        return fill(translated(key, self.returns[place].step), **self.quantities[case])

    def written(self, case: int, answer: Any = None) -> str:
        """Write a call as a learner would type it, with the index of the value if it returns several."""
        place = self.place
        if place is None and answer is not None and len(self.returns) > 1:
            place = self._first_off(case, answer)
        return super().written(case) + ("" if place is None else f"[{place}]")


def one_of_pair(value: Any, place: int) -> Any:
    """Return one of the two values that a function returned; raise Misread if there are not two."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise Misread(text("ex.pair", got=brief(value)))
    return value[place]


def shown(value: Any, kind: str = "", digits: int = 3) -> str:
    """Write an answer as people do: numbers with their units, intervals, and figures by name."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(figure)}" for key, figure in value.items())
    if isinstance(value, tuple):
        return " to ".join(shown(end, kind) for end in value)
    if not isinstance(value, float):
        return str(value)
    if kind and (value == 0 or (1e-13 if kind == "time" else 1e-3) <= abs(value) < 1e21):
        return _SHOW[kind](value)
    return f"{value:.{digits}g} {UNIT[kind]}".strip()


# Verdicts --------------------------------------------------------------------------------------------------------


class Observer:
    """An ``ask`` that also keeps the parts and the calls of a judge, for checks of an exercise.

    Parameters
    ----------
    answer : callable
        Returns what a learner's function would return; gets its name and the arguments.
    """

    def __init__(self, answer: Ask) -> None:
        self.answer = answer
        self.parts: tuple[QuestionPart, ...] = ()
        self.asked: set[str] = set()  # names of functions

    def __call__(self, name: str, *arguments: Any) -> Any:
        """Answer a call."""
        self.asked.add(name)
        return self.answer(name, *arguments)


def judge(ask: Ask, *parts: QuestionPart) -> Verdict:
    """Return the verdict on all parts; an answer that is missing or unreadable costs only its own share.

    Raises
    ------
    Unanswered
        If no call was answered.
    """
    if isinstance(ask, Observer):
        ask.parts = parts
    answers = _answers(ask, parts)
    earned = 0.0
    said = list[str]()
    seen = list[str]()
    steps = list[str]()
    named = list[str]()
    failed = list[tuple[str, int]]()
    judged = list[JudgedPart]()
    good = set[int]()
    for part in parts:
        read, unread = _read(part, [answers[_key(call)] for call in part.calls])
        wrong = {case: answer for case, answer in read.items() if not part.is_right(case, answer)}
        off = [case for case in range(len(part.calls)) if case in wrong or case not in read]
        before = good if part.after else {*range(part.sets)}
        good = before - {part.set_of(case) for case in off}
        worth = part.share * len(good) / part.sets
        earned += worth
        if wrong:
            mistake = _likeliest(part, wrong)
            if mistake:
                named.append(mistake.partition("/")[0])
            case, answer = next(iter(wrong.items()))
            because = misconception(part.question, mistake.partition("/")[0]) if mistake else ""
            step = part.step(case, answer, mistake)
            said += [part.off(case, answer), because, step]
            seen += [part.seen(case, answer), because]
            steps.append(step)
        elif read:
            remark = part.remark(*next(iter(read.items())))
            said.append(remark)
            seen.append(remark)
        said += unread[:1]
        seen += unread[:1]
        judged.append(_judged(part, worth, off, wrong))
        if off:
            failed.append((part.calls[0].function, off[0]))
    if all(isinstance(answer, Unanswered) for answer in answers.values()):
        raise next(iter(answers.values()))
    return Verdict(
        part=min(1.0, round(earned, 9)),
        said=tuple(filter(None, dict.fromkeys(said))),
        mistake=named[0] if named else "",
        failed=tuple(dict.fromkeys(failed)),
        parts=tuple(judged),
        seen=tuple(filter(None, dict.fromkeys(seen))),
        steps=tuple(filter(None, steps)),
    )


def _judged(
    part: QuestionPart, worth: float, off: Sequence[int], wrong: Mapping[int, Any]
) -> JudgedPart:
    """Return a part as it was judged, with the first call whose answer is wrong or, if none is, cannot be read."""
    if not off:
        return JudgedPart(part.name, worth, part.share)
    case = next(iter(wrong), off[0])
    got, wanted = part.compared(case, wrong[case]) if case in wrong else ("", "")
    call = part.written(case, wrong.get(case))
    return JudgedPart(part.name, worth, part.share, call, got, wanted)


def _key(call: Call) -> tuple[str, int]:
    return call.function, id(call.arguments)


def _answers(ask: Ask, parts: Sequence[QuestionPart]) -> dict[tuple[str, int], Any]:
    """Make each call once, in their order, and return its answer, or the Unanswered that it raised."""
    answers = dict[tuple[str, int], Any]()
    for part in parts:
        for call in part.calls:
            if _key(call) in answers:  # another part has made this call
                continue
            try:
                answers[_key(call)] = ask(call.function, *call.arguments)
            except Unanswered as error:
                answers[_key(call)] = error
    return answers


def _read(part: QuestionPart, values: Sequence[Any]) -> tuple[dict[int, Any], list[str]]:
    """Return case -> answer for all cases that can be read, and a sentence for each of the others."""
    read, unread = dict[int, Any](), list[str]()
    for case, value in enumerate(values):
        if isinstance(value, Unanswered):
            unread.append(value.said)
            continue
        try:
            read[case] = part.read(case, value)
        except Misread as error:
            unread.append(f"{part.written(case)}: {error}")
    return read, unread


def _likeliest(part: QuestionPart, wrong: Mapping[int, Any]) -> str:
    """Return the likeliest mistake that fits all wrong cases or, if none does, the likeliest for the first."""
    each = [list(part.mistakes(case, answer)) for case, answer in wrong.items()]
    common = [name for name in each[0] if all(name in names for names in each)]
    if common:
        return min(common, key=lambda name: sum(names.index(name) for names in each))
    return each[0][0] if each[0] else ""


# Cases -----------------------------------------------------------------------------------------------------------


def apart(
    draw: Callable[[], _Drawn], numbers: Callable[[_Drawn], Sequence[float]], factor: float
) -> list[_Drawn]:
    """Draw two cases whose right numbers all differ by more than a factor, so that no constant is right in both."""
    while True:
        pair = [draw(), draw()]
        one, other = (np.log(numbers(case)) for case in pair)
        if np.abs(one - other).min() > np.log(factor):
            return pair
