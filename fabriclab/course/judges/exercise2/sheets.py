"""Exercise 2: the sheet of a design as a learner's function returns it, and what a report says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from fabriclab import designs
from fabriclab.course.judges import Ask, JudgedPart, Rng, Verdict
from fabriclab.course.judges.shared.numbers import Misread, brief
from fabriclab.course.questions import misconception
from fabriclab.course.questions.files import message

_CALL = "design()"
# So many switches cost more than the budget, whichever are sold, and take long to break one by one.
MOST_SWITCHES = 160


class Unfit(Misread):
    """An answer that can be read and not be judged; it has the name of a mistake."""

    def __init__(self, words: str, mistake: str) -> None:
        super().__init__(words)
        self.mistake = mistake


def drawn_key(rng: Rng) -> str:
    """Return the key from which workloads and prices are drawn."""
    return f"{int(rng.integers(2**62)):x}"


def as_sheet(value: Any, name: str) -> dict[str, Any]:
    """Return the sheet that a function returned; raise Misread if it is no dict with names as keys."""
    if not isinstance(value, dict) or not all(type(key) is str for key in value):
        raise Misread(message(2, "sheet", name=name, got=brief(value)))
    return value


def asked_sheet(ask: Ask) -> dict[str, Any]:
    """Return the sheet of the learner's design."""
    return as_sheet(ask("design"), "design()")


def design_of(sheet: Mapping[str, Any], name: str) -> designs.Design:
    """Return the design of a sheet; raise Misread with the reason if it is none."""
    try:
        design = designs.read(dict(sheet))
    except (ValueError, TypeError) as error:
        raise Misread(message(2, "unread", name=name, error=error)) from None
    if design.servers < 2:
        raise Misread(message(2, "alone", name=name, n=design.servers))
    return design


def graded(sheet: Mapping[str, Any], name: str, key: str) -> tuple[designs.Design, designs.Report]:
    """Return the design of a sheet and what all requirements say of it; raise Misread if it cannot be graded."""
    design = design_of(sheet, name)
    if design.network.n > MOST_SWITCHES:
        words = message(2, "switches", name=name, n=design.network.n, most=MOST_SWITCHES)
        raise Misread(words)
    return design, designs.grade(design, key)


def verdict_of(
    question: str,
    design: designs.Design,
    report: designs.Report,
    shares: Mapping[str, float],
    after: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Verdict:
    """Return the verdict on a question whose parts are requirements.

    Parameters
    ----------
    question : str
        Id of the question.
    design : Design
        The design.
    report : Report
        What the library says of it.
    shares : mapping
        Share of the points by requirement.
    after : mapping
        For some requirements, those without which they do not count.
    """
    parts = list[JudgedPart]()
    said = list[str]()
    mistakes = list[str]()
    looked_at = ""  # the first requirement that fails
    for requirement, share in shares.items():
        found = report[requirement]
        name = message(2, f"part.{requirement}")
        lacking = [other for other in after.get(requirement, ()) if not report[other].passed]
        if found.passed and not lacking:
            parts.append(JudgedPart(name, share, share))
            continue
        if found.passed:
            words = message(2, "after", other=message(2, f"part.{lacking[0]}"))
            if lacking[0] not in shares:  # nobody is told elsewhere
                said.append(f"{words} {report[lacking[0]].words}")
            parts.append(JudgedPart(name, 0.0, share, _CALL, words))
            continue
        parts.append(JudgedPart(name, 0.0, share, _CALL, found.words))
        if found.passed is None and said:  # the requirement that failed before it is told
            continue
        mistake = _mistake(found, design)
        said += [found.words, misconception(question, mistake) if mistake else ""]
        mistakes += [mistake] if mistake else []
        looked_at = looked_at or requirement
    if looked_at:
        said.append(_picture(looked_at))
    worth = sum(part.worth for part in parts)
    return Verdict(
        part=round(worth, 9),
        said=tuple(dict.fromkeys(filter(None, said))),
        mistake=mistakes[0] if mistakes else "",
        parts=tuple(parts),
    )


def with_part(
    question: str, found: Verdict, part: JudgedPart, call: str, error: Misread | None
) -> Verdict:
    """Return a verdict with another part, which is worth nothing if there is an error in its call."""
    if error is None:
        return replace(found, part=round(found.part + part.worth, 9), parts=(*found.parts, part))
    mistake = error.mistake if isinstance(error, Unfit) else ""
    because = misconception(question, mistake) if mistake else ""
    said = tuple(dict.fromkeys(filter(None, (*found.said, str(error), because))))
    lost = JudgedPart(part.name, 0.0, part.share, call, str(error))
    return replace(found, said=said, mistake=found.mistake or mistake, parts=(*found.parts, lost))


def _picture(requirement: str) -> str:
    """Return the sentence that says how to draw the part that fails."""
    if requirement == "drains":
        return message(2, "see.drains")
    return message(2, "see", requirement=requirement)


def _mistake(found: designs.Verdict, design: designs.Design) -> str:
    """Return the name of the mistake behind a failed requirement, or nothing."""
    if found.passed is None:
        return ""
    if found.requirement == "size":
        few = design.gpus in (4, 8)
        return "too few GPUs" if few else "servers of another size"
    if found.requirement == "ports":
        if found.unit == "B/s":
            return "a cable faster than its port"
        return "a switch that nobody sells" if found.unit == "1" else "uplinks cost no ports"
    if found.requirement == "reach":
        return "copper reaches everywhere" if found.unit == "m" else "a rack without a limit"
    if found.requirement == "routes":
        return "routes in a circle" if found.unit == "circles" else "networks that do not meet"
    if found.requirement == "demand":
        return "bought for another workload"
    if found.requirement == "budget":
        fits = designs.bill_of(design).capital <= designs.BUDGET
        return "prices taken as fixed" if fits else "the same rate everywhere"
    if found.requirement == "attached":
        return "redundancy is a second spine"
    if found.requirement == "all_reduce":
        cut = any(fault.cut_off for fault in designs.faults(design))
        return "redundancy is a second spine" if cut else "one switch carries too much"
    return _slip_of_nights(found, design)


def _slip_of_nights(found: designs.Verdict, design: designs.Design) -> str:
    """Return the name of the mistake in a plan of drains."""
    if found.unit == "nights":
        return "one switch a night"
    names = [name for night in design.sheet["drains"] for name in night]
    if found.unit == "switches":
        if len(set(names)) < len(names):
            return "a switch drained twice"
        known = set(design.names)
        return "a switch left out" if set(names) <= known else "a switch that is not there"
    return "too many at once" if found.reached > 0 else "both sides drained at once"


def nothing(question: str, error: Misread) -> Verdict:
    """Return the verdict on an answer that cannot be judged further."""
    mistake = error.mistake if isinstance(error, Unfit) else ""
    because = misconception(question, mistake) if mistake else ""
    return Verdict(0.0, tuple(filter(None, (str(error), because))), mistake)
