"""Judge what functions return in exercise 1, case by case, and name the mistake that explains all wrong cases."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from fabriclab import units
from fabriclab.catalog.tables import rows_of
from fabriclab.course.judges import Ask, Proxy, Unanswered, Verdict
from fabriclab.course.judges.shared.numbers import UNIT, Misread, near, number
from fabriclab.formulas import evaluate
from fabriclab.texts import text

_SHOW = {"time": units.format_time, "size": units.format_size, "rate": units.format_rate}
Case = TypeVar("Case")
_SAME = 2e-3  # relative distance within which a number is that of a known mistake


class Shown(float):
    """A number that a sentence shows by its kind: ``"{whole:time}"`` is 36.1 us."""

    def __format__(self, kind: str) -> str:
        """Return the number as people write it."""
        return shown(float(self), kind)


@dataclass(frozen=True)
class Part:
    """What a function returns, or one of two values that it returns, in several cases.

    The right answer and known wrong ones are the formulas of the table for a part of this name, over the numbers of
    each case; a part whose answers are more than a number says itself what is true, right and wrong.
    """

    name: str  # ex1.<name>.step is its worked step, ex1.<name>.off says what is off where no two numbers do
    share: float  # of the question, for all cases right
    calls: Sequence[tuple[Any, ...]]  # a function and its arguments
    # of a case and its answer, for formulas and sentences
    facts: Callable[[int, Any], Mapping[str, Any]]
    within: float  # relative
    kind: str = ""  # time, size, rate, or "" for a plain number
    place: int | None = None  # in the pair that the function returns
    sets: int = 1  # case i is in set i % sets; a set counts when all in it is right, so no constant answer earns
    after: bool = False  # a set counts only if it was right in the part before, too
    truth: Sequence[Any] = ()
    # Names of mistakes that fit an answer, the likeliest first; "one rank only/0" is a variant.
    tags: Callable[[int, Any], Sequence[str]] | None = None
    read: Callable[[Any], Any] | None = None
    right: Callable[[int, Any], bool] | None = None
    remark: Callable[[int, Any], str] | None = None  # on a right answer
    step: Callable[[int, Any, str], str] | None = (
        None  # the worked step where no sentence of the table does
    )

    def true(self, i: int) -> Any:
        """Return what is right in a case."""
        return (
            self.truth[i]
            if self.truth
            else evaluate(_formulas()[self.name, ""][0], self.facts(i, None))
        )

    def holds(self, i: int, got: Any) -> bool:
        """Return whether an answer that could be read is right."""
        true = self.true(i)
        return (
            self.right(i, got) if self.right else bool(got == true or near(got, true, self.within))
        )

    def mistakes(self, i: int, got: Any) -> list[str]:
        """Return the mistakes that fit an answer."""
        if self.tags:
            return [*self.tags(i, got)]
        names = {**self.facts(i, got), "truth": self.true(i)}
        known = [
            (slip, formulas)
            for (part, slip), formulas in _formulas().items()
            if part == self.name and slip
        ]
        # an answer that is noisy is as noisy when it is wrong
        near_by = self.within if self.within > 0.05 else _SAME
        return [
            slip
            for slip, formulas in known
            if any(near(got, evaluate(f, names), near_by) for f in formulas)
        ]


@functools.cache
def _formulas() -> Mapping[tuple[str, str], list[str]]:
    """Return the formulas of the table by part and mistake; without a mistake it is the right one."""
    out: dict[tuple[str, str], list[str]] = {}
    for row in rows_of("slips.csv", __file__):
        out.setdefault((row["part"], row["mistake"]), []).append(row["formula"])
    return out


def judge(ask: Ask, *parts: Part) -> Verdict:
    """Return what the parts are worth together; what cannot be read or answered costs its own share only.

    Raises
    ------
    Unanswered
        If no call was answered.
    """
    earned, said, mistakes, answers = 0.0, list[str](), list[str](), dict[int, Any]()
    failed, good = dict[tuple[str, int], None](), set[int]()
    for call in {
        id(call): call for part in parts for call in part.calls
    }.values():  # some stand in two parts
        try:
            answers[id(call)] = ask(*call)
        except Unanswered as error:
            answers[id(call)] = error
    for part in parts:
        got, unread = dict[int, Any](), list[str]()
        for i, call in enumerate(part.calls):
            try:
                got[i] = _read(part, answers[id(call)])
            except Unanswered as error:
                unread.append(error.said)
            except Misread as error:
                unread.append(f"{_written(part, i)}: {error}")
        wrong = {i: answer for i, answer in got.items() if not part.holds(i, answer)}
        off = [i for i in range(len(part.calls)) if i in wrong or i not in got]
        good = ({*range(part.sets)} - {i % part.sets for i in off}) & (
            good if part.after else {*range(part.sets)}
        )
        earned += part.share * len(good) / part.sets
        if wrong:
            name = _named(part, wrong)
            mistakes += [name.partition("/")[0]] if name else []
            said += _told(part, *next(iter(wrong.items())), name)
        elif part.remark and got:
            said.append(part.remark(*next(iter(got.items()))))
        said += unread[:1]
        failed |= {(part.calls[0][0], i): None for i in off[:1]}
    if all(isinstance(answer, Unanswered) for answer in answers.values()):
        raise next(iter(answers.values()))
    sentences = tuple(filter(None, dict.fromkeys(said)))
    return Verdict(min(1.0, round(earned, 9)), sentences, (mistakes or [""])[0], tuple(failed))


def _read(part: Part, value: Any) -> Any:
    if isinstance(value, Unanswered):
        raise value
    if part.place is not None:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise Misread(text("ex.pair", got=f"{value!r:.60}"))
        value = value[part.place]
    return part.read(value) if part.read else number(value, part.kind)


def apart(
    draw: Callable[[], Case], numbers: Callable[[Case], Sequence[float]], factor: float
) -> list[Case]:
    """Draw two cases whose right numbers are all further apart than a factor: no constant is right in both."""
    while True:
        pair = [draw(), draw()]
        one, other = (np.log(numbers(case)) for case in pair)
        if np.abs(one - other).min() > math.log(factor):
            return pair


def shown(value: Any, kind: str = "") -> str:
    """Return an answer as people write it: numbers with their unit, intervals, figures by name."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(figure)}" for key, figure in value.items())
    if isinstance(value, tuple):
        return " to ".join(shown(end, kind) for end in value)
    if not isinstance(value, float):
        return str(value)
    if kind and (value == 0 or (1e-13 if kind == "time" else 1e-3) <= abs(value) < 1e21):
        return _SHOW[kind](value)
    return f"{value:.3g} {UNIT[kind]}".strip()


def _named(part: Part, wrong: Mapping[int, Any]) -> str:
    """Return the likeliest of the mistakes that fit all wrong cases, else of those that fit the first."""
    each = [part.mistakes(i, got) for i, got in wrong.items()]
    common = [tag for tag in each[0] if all(tag in tags for tags in each)]
    if common:
        return min(common, key=lambda tag: sum(tags.index(tag) for tags in each))
    return (each[0] or [""])[0]


def _told(part: Part, i: int, got: Any, name: str) -> list[str]:
    truth, facts = part.true(i), part.facts(i, got)
    words = {key: Shown(fact) if isinstance(fact, float) else fact for key, fact in facts.items()}
    words |= {
        "call": _written(part, i),
        "percent": f"{100 * part.within:g}",
        "got": shown(got, part.kind),
    }
    plain = (
        isinstance(got, float) and isinstance(truth, float) and not near(got, truth, part.within)
    )
    off = text(
        "ex.off" if plain else f"ex1.{part.name}.off", **words, truth=shown(truth, part.kind)
    )
    step = part.step(i, got, name) if part.step else text(f"ex1.{part.name}.step", **words)
    return [off, text(f"mis.{name.partition('/')[0]}") if name else "", step]


def _written(part: Part, i: int) -> str:
    """Return a call as a learner would type it, with long arguments left out, and which of two values is meant."""
    plain: dict[type, Callable[[Any], str]] = {
        Proxy: lambda a: "comm",
        str: repr,
        int: str,
        float: "{:g}".format,
    }
    name, *arguments = part.calls[i]
    place = "" if part.place is None else f"[{part.place}]"
    return f"{name}({', '.join(plain.get(type(a), lambda a: '...')(a) for a in arguments)}){place}"
