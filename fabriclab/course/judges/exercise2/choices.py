"""Exercise 2 (c), the judge of a choice: candidates, two figures and a comparison, all of them computed anew.

Which candidate is chosen is free. It must be the design of (b), no other candidate may be better in cost and in time,
and what is said of it must be true.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fabriclab import designs, units
from fabriclab.course.judges import Ask, JudgedPart, Rng, Verdict
from fabriclab.course.judges.shared.numbers import Misread, brief, number
from fabriclab.course.questions import misconception
from fabriclab.course.questions.files import message
from fabriclab.designs.exam import Exam
from fabriclab.errors import FabricError
from fabriclab.registry import register

from .sheets import (
    MOST_SWITCHES,
    Unfit,
    as_sheet,
    asked_sheet,
    design_of,
    nothing,
)

_FEWEST = 3  # candidates
_MOST = 6  # candidates, so that judging them stays below the limit of time
_WITHIN = 0.02  # of a figure
_WHOLE = 1000  # from which a figure is shown in whole units
_OF_FIGURE = (
    0.001  # of the figures that are compared: what rounding them may change in their difference
)
# What figures measure, for texts with a unit.
_KINDS = {"cost": "price", "cost_per_gpu": "price", "time": "time", "power": "power"}
# What each part is worth, as the notebook says.
SHARES = {"candidates": 0.3, "front": 0.3, "reasons": 0.2, "comparison": 0.2}


class Candidate:
    """A design to choose from, with the figures that the library computes of it.

    Parameters
    ----------
    design : Design
        The design.
    """

    def __init__(self, design: designs.Design) -> None:
        self.design = design
        self._exam = Exam(design)

    @cached_property
    def figures(self) -> Mapping[str, float]:
        """All figures; what is left after a failure takes long to compute."""
        return self._exam.figures()

    @cached_property
    def point(self) -> tuple[float, float]:
        """Cost [USD] and mean time of a step [s]."""
        return float(self._exam.bill.capital), self._exam.time


class Fault(NamedTuple):
    """What is wrong in one part of a choice."""

    words: str
    mistake: str = ""


def _example(rng: Rng) -> Any:
    """Return the points of three designs of two racks, in USD and s."""
    return [[30e3, 5.2], [41e3, 5.0], [44e3, 5.1]]


def _candidates(value: Any) -> dict[str, Candidate]:
    """Return the candidates by name, with their figures; raise Misread if they cannot be compared."""
    if not isinstance(value, list) or not _FEWEST <= len(value) <= _MOST:
        got = len(value) if isinstance(value, list) else brief(value)
        words = message(2, "candidates", fewest=_FEWEST, most=_MOST, got=got)
        raise Unfit(words, "too few to choose from") if type(got) is int else Misread(words)
    found = dict[str, Candidate]()
    for place, one in enumerate(value):
        where = f"candidates()[{place}]"
        sheet = as_sheet(one, where)
        name = sheet.get("name")
        if type(name) is not str or not name or name in found:
            raise Misread(message(2, "name", where=where, got=brief(name)))
        candidate = _candidate(sheet, where)
        if any(candidate.design.same_network(other.design) for other in found.values()):
            raise Unfit(message(2, "same", where=where), "one design under two names")
        found[name] = candidate
    return found


def _candidate(sheet: Mapping[str, Any], where: str) -> Candidate:
    """Return a candidate; raise Misread if it is too small, too large, or has no figures."""
    design = design_of(sheet, where)
    if design.network.n > MOST_SWITCHES:
        words = message(2, "switches", name=where, n=design.network.n, most=MOST_SWITCHES)
        raise Misread(words)
    size = designs.check(design, "size")
    if not size.passed:
        words = message(2, "figures", where=where, error=size.words)
        raise Unfit(words, "a candidate that is too small")
    found = Candidate(design)
    try:
        np.array(found.point)
    except (FabricError, ValueError) as error:
        raise Misread(message(2, "figures", where=where, error=error)) from None
    return found


def _choice(value: Any) -> dict[str, Any]:
    """Return the choice; raise Misread if it has not the four entries."""
    sheet = as_sheet(value, "choice()")
    for key, kind in (("name", str), ("reasons", dict), ("next", str), ("difference", dict)):
        if not isinstance(sheet.get(key), kind):
            raise Misread(message(2, "choice", key=key, got=brief(sheet.get(key))))
    return sheet


def _off_front(
    held: Mapping[str, Candidate], choice: Mapping[str, Any], design: designs.Design
) -> Fault | None:
    """Return what is wrong with the place of the chosen one among the candidates, or None."""
    name = choice["name"]
    known = ", ".join(held)
    if name not in held:
        return Fault(
            message(2, "unknown", key="name", got=brief(name), known=known), "chosen from outside"
        )
    mine = held[name]
    if not mine.design.same_network(design):
        return Fault(message(2, "another", name=name), "another design than the one built")
    for other_name, other in held.items():
        if _dominates(other, mine):
            words = {
                "name": name,
                "other": other_name,
                "cost": f"{other.point[0]:,.0f}",
                "time": f"{other.point[1]:.5g}",
                "own_cost": f"{mine.point[0]:,.0f}",
                "own_time": f"{mine.point[1]:.5g}",
            }
            return Fault(message(2, "dominated", **words), "a dominated choice")
    return None


def _dominates(one: Candidate, other: Candidate) -> bool:
    """Return whether one candidate is at least as good in both, and better in one."""
    keeps = designs.front(np.array([other.point, one.point]))
    return not keeps[0]


def _figure(name: str, given: Any) -> float:
    """Return a stated figure, or a difference of two, as a number in USD, s or W; raise Misread if it is none."""
    has_unit = isinstance(given, str) and any(sign.isalpha() and sign not in "eE" for sign in given)
    if not has_unit or name not in _KINDS:
        return number(given, "")
    words = given.strip()
    sign = -1.0 if words[:1] in ("-", "\N{MINUS SIGN}") else 1.0
    try:
        return sign * units.parse(words[sign < 0 :].strip(), _KINDS[name], name)
    except (ValueError, OverflowError) as error:
        raise Misread(str(error)) from None


def _untrue(held: Mapping[str, Candidate], choice: Mapping[str, Any]) -> Fault | None:
    """Return the first figure that is not that of the chosen design, or None."""
    mine = held.get(choice["name"])
    reasons = choice["reasons"]
    if mine is None or len(reasons) != 2 or not set(reasons) <= set(designs.FIGURES):
        return Fault(
            message(2, "reasons", known=", ".join(designs.FIGURES), got=brief(reasons, 100)),
            "other than two figures",
        )
    for name, given in reasons.items():
        true = float(mine.figures[name])
        try:
            got = _figure(name, given)
        except Misread as error:
            return Fault(f"{name}: {error}")
        if abs(got - true) <= _WITHIN * abs(true):
            continue
        others = [one.figures[name] for one in held.values() if one is not mine]
        words = message(2, "untrue", name=name, got=_plain(got), true=_plain(true))
        return Fault(words, _slip(got, true, others))
    return None


def _plain(value: float) -> str:
    """Write a figure without an exponent, with digits enough to type it in."""
    return f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.4g}"


def _slip(got: float, true: float, others: Sequence[float]) -> str:
    """Return the name of the mistake in a figure, if it is known."""
    if any(abs(got - other) <= _WITHIN * abs(other) for other in others):
        return "figure of another candidate"
    for factor in (1e3, 1e6, 1e-3, 1e-6, 100, 0.01):
        if abs(got * factor - true) <= _WITHIN * abs(true):
            return "figure in another unit"
    return "a figure that is not true"


def _unequal(held: Mapping[str, Candidate], choice: Mapping[str, Any]) -> Fault | None:
    """Return what is wrong with the comparison, or None."""
    mine = held.get(choice["name"])
    name = choice["next"]
    if mine is None or name not in held or name == choice["name"]:
        others = ", ".join(other for other in held if other != choice["name"])
        return Fault(
            message(2, "unknown", key="next", got=brief(name), known=others),
            "compared with nothing",
        )
    rest = {other: one for other, one in held.items() if one is not mine}
    if any(_dominates(one, held[name]) for one in rest.values()):
        better = next(other for other, one in rest.items() if _dominates(one, held[name]))
        return Fault(message(2, "next", name=name, other=better), "not the next best")
    difference = choice["difference"]
    if not difference or not set(difference) <= set(designs.FIGURES):
        return Fault(
            message(2, "difference", known=", ".join(designs.FIGURES), got=brief(difference, 100)),
            "compared with nothing",
        )
    for figure, given in difference.items():
        here, there = float(mine.figures[figure]), float(held[name].figures[figure])
        try:
            got = _figure(figure, given)
        except Misread as error:
            return Fault(f"{figure}: {error}")
        room = _WITHIN * abs(here - there) + _OF_FIGURE * max(abs(here), abs(there))
        if abs(got - (here - there)) <= room:
            continue
        mistake = "a figure that is not true"
        if abs(got + (here - there)) <= room:
            mistake = "comparison the wrong way round"
        elif abs(got - there) <= _WITHIN * abs(there):
            mistake = "figure for a difference"
        words = {
            "figure": figure,
            "got": _plain(got),
            "here": _plain(here),
            "there": _plain(there),
            "next": name,
        }
        return Fault(message(2, "unequal", **words), mistake)
    return None


@register("question", "ex2-c", example=_example)
def chosen(ask: Ask, rng: Rng) -> Verdict:
    """Judge candidates, whether the chosen one is on their front, and what is said of it."""
    try:
        held = _candidates(ask("candidates"))
    except Misread as error:
        return nothing("ex2-c", error)
    faults: dict[str, Fault | None] = {"candidates": None}
    try:
        choice = _choice(ask("choice"))
        design = design_of(asked_sheet(ask), "design()")
    except Misread as error:
        unread = Fault(str(error))
        faults |= dict.fromkeys(("front", "reasons", "comparison"), unread)
    else:
        faults["front"] = _off_front(held, choice, design)
        faults["reasons"] = _untrue(held, choice)
        faults["comparison"] = _unequal(held, choice)
    return _verdict(faults)


def _verdict(faults: Mapping[str, Fault | None]) -> Verdict:
    """Return the verdict on the parts, each with its fault or None."""
    parts = list[JudgedPart]()
    said = list[str]()
    named = list[str]()
    for name, share in SHARES.items():
        fault = faults[name]
        words = message(2, f"part.{name}")
        if fault is None:
            parts.append(JudgedPart(words, share, share))
            continue
        parts.append(JudgedPart(words, 0.0, share, "choice()"))
        said.append(fault.words)
        if fault.mistake:
            named.append(fault.mistake)
            said.append(misconception("ex2-c", fault.mistake))
    worth = sum(part.worth for part in parts)
    return Verdict(
        part=round(worth, 9),
        said=tuple(dict.fromkeys(filter(None, said))),
        mistake=named[0] if named else "",
        parts=tuple(parts),
    )
