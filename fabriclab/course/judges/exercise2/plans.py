"""Exercise 2 (b) and (d), the judges of a design: what it must carry and cost, and what it must survive."""

from typing import Any

from fabriclab import designs
from fabriclab.course.judges import Ask, JudgedPart, Rng, Unanswered, Verdict
from fabriclab.course.judges.shared.numbers import Misread, brief
from fabriclab.course.questions.files import message
from fabriclab.registry import register

from .sheets import asked_sheet, drawn_key, graded, nothing, verdict_of, with_part
from .sums import checked

# What each requirement is worth, as the notebook says.
BUILT = {
    "size": 0.1,
    "ports": 0.1,
    "reach": 0.1,  # illustrative: 4 of 40 points
    "routes": 0.1,
    "demand": 0.2,
    "budget": 0.2,
}
# What the sum behind the uplinks is worth beside them; it counts once there is a network that can be followed.
SUMS = 0.2
_SUMS_AFTER = ("size", "routes")
# What counts only if another one is met: nothing counts of a small network, and a thin one is cheap for nothing.
AFTER = {name: ("size",) for name in BUILT if name != "size"} | {"budget": ("size", "demand")}
KEPT = {"attached": 0.3, "all_reduce": 0.3, "drains": 0.4}
# A part of what a thin network carries is no merit, and one with too many cables in a switch cannot be built.
KEPT_AFTER = {name: ("size", "ports", "demand") for name in KEPT}
_MOST_SWITCHES = 5000  # that the nights may name


def _example(rng: Rng) -> Any:
    """Return the sheet of two racks, which is far too small to pass."""
    return {
        "name": "two racks",
        "family": "rail_optimised",
        "arguments": {"servers": 8, "gpus": 4, "rails": 4, "radix": 64},
    }


@register("question", "ex2-b", example=_example)
def built(ask: Ask, rng: Rng) -> Verdict:
    """Judge whether a design can be built, carries the workloads, and stays within the budget."""
    key = drawn_key(rng)
    try:
        design, report = graded(asked_sheet(ask), "design()", key)
    except Misread as error:
        return nothing("ex2-b", error)
    found = verdict_of("ex2-b", design, report, BUILT, AFTER)
    part = JudgedPart(message(2, "part.sums"), SUMS, SUMS)
    return with_part("ex2-b", found, part, "sums()", _sums(ask, design, report))


def _sums(ask: Ask, design: designs.Design, report: designs.Report) -> Misread | None:
    """Return what is wrong with the sums of a design, or None."""
    lacking = [name for name in _SUMS_AFTER if not report[name].passed]
    if lacking:
        return Misread(message(2, "after", other=message(2, f"part.{lacking[0]}")))
    try:
        checked(design, ask("sums"))
    except Misread as error:
        return error
    except Unanswered as error:
        return Misread(error.said)
    return None


def _nights(value: Any) -> list[list[str]]:
    """Return the nights of a plan; raise Misread if they are no lists of names."""
    nights = value if isinstance(value, list) else []
    names = [name for night in nights if isinstance(night, list) for name in night]
    are_lists = nights and all(isinstance(night, list) for night in nights)
    if not are_lists or not all(type(name) is str for name in names):
        raise Misread(message(2, "nights", got=brief(value)))
    if len(names) > _MOST_SWITCHES:
        raise Misread(message(2, "nights.long", n=f"{len(names):,}"))
    return nights


@register("question", "ex2-d", example=_example)
def kept(ask: Ask, rng: Rng) -> Verdict:
    """Judge what is left of a design after the failure of any switch, and in each night of maintenance."""
    key = drawn_key(rng)
    try:
        nights = _nights(ask("drains"))
        sheet = asked_sheet(ask) | {"drains": nights}
        design, report = graded(sheet, "design()", key)
    except Misread as error:
        return nothing("ex2-d", error)
    return verdict_of("ex2-d", design, report, KEPT, KEPT_AFTER)
