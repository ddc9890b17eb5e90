"""Exercise 2: the sheet of a design as a learner's function returns it, and what a report says of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from fabriclab import designs
from fabriclab.course.judges import Ask, JudgedPart, Rng, Verdict
from fabriclab.course.judges.shared.numbers import Misread, brief
from fabriclab.course.questions import misconception
from fabriclab.course.questions.files import message

# Keys of a sheet that say nothing of the network.
_BESIDE = ("name", "front", "choice", "drains")
# The name of the mistake behind a failed requirement, by the reason that the library gives.
_MISTAKES = {
    ("size", "too few"): "too few GPUs",
    ("size", "servers"): "servers of another size",
    ("size", "parts"): "networks that do not meet",
    ("ports", "too many cables"): "uplinks cost no ports",
    ("ports", "no such switch"): "a switch that nobody sells",
    ("reach", "too long"): "copper reaches everywhere",
    ("reach", "too many servers"): "a rack without a limit",
    ("routes", "no path"): "a destination without a route",
    ("routes", "loop"): "routes in a circle",
    ("routes", "no such rule"): "a route over a cable that is not there",
    ("demand", "server"): "server links too slow",
    ("demand", "network"): "bought for another workload",
    ("budget", "list"): "the same rate everywhere",
    ("budget", "drawn"): "prices taken as fixed",
    ("attached", "cut off"): "redundancy is a second spine",
    ("all_reduce", "too slow"): "one switch carries too much",
    ("drains", "missing"): "a switch left out",
    ("drains", "twice"): "a switch drained twice",
    ("drains", "too many nights"): "one switch a night",
    ("drains", "cut off"): "both sides drained at once",
    ("drains", "too slow"): "too many at once",
    ("drains", "no such switch"): "a switch that is not there",
}


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


def network_of(sheet: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a sheet that says what is built."""
    return {key: value for key, value in sheet.items() if key not in _BESIDE}


def design_of(sheet: Mapping[str, Any], name: str) -> designs.Design:
    """Return the design of a sheet; raise Misread with the reason if it is none."""
    try:
        return designs.read(dict(sheet))
    except (ValueError, TypeError) as error:
        raise Misread(message(2, "unread", name=name, error=error)) from None


def verdict_of(
    question: str, report: designs.Report, shares: Mapping[str, float], call: str
) -> Verdict:
    """Return the verdict on a question whose parts are requirements.

    Parameters
    ----------
    question : str
        Id of the question.
    report : Report
        What the library says of the design.
    shares : mapping
        Share of the points by requirement.
    call : str
        What the learner has written, as a row of the card shows it.
    """
    parts = list[JudgedPart]()
    said = list[str]()
    mistakes = list[str]()
    for found in report.verdicts:
        if found.requirement not in shares:
            continue
        share = shares[found.requirement]
        name = message(2, f"part.{found.requirement}")
        if found.passed:
            parts.append(JudgedPart(name, share, share))
            continue
        parts.append(JudgedPart(name, 0.0, share, call, _measured(found), _wanted(found)))
        if found.passed is None:  # an earlier requirement failed, which is told
            continue
        said.append(found.words)
        mistake = _MISTAKES.get((found.requirement, found.reason), "")
        if mistake:
            mistakes.append(mistake)
            said.append(misconception(question, mistake))
    if said:
        said.append(message(2, "see"))
    worth = sum(part.worth for part in parts)
    return Verdict(
        part=round(worth, 9),
        said=tuple(dict.fromkeys(filter(None, said))),
        mistake=mistakes[0] if mistakes else "",
        parts=tuple(parts),
    )


def _measured(found: designs.Verdict) -> str:
    """Return what a design reaches, in words."""
    return "" if found.passed is None else f"{found.reached:,.4g} {found.unit}".strip()


def _wanted(found: designs.Verdict) -> str:
    """Return what is asked of a design, in words."""
    return "" if found.passed is None else f"{found.asked:,.4g} {found.unit}".strip()


def nothing(words: Sequence[str], mistake: str = "") -> Verdict:
    """Return the verdict on an answer that cannot be judged further."""
    return Verdict(0.0, tuple(filter(None, words)), mistake)
