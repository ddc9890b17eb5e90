"""Lesson 44: how often enough cubes of a pod are whole, whichever they are."""

from collections.abc import Callable
from math import comb
from typing import Any

from fabriclab.circuits import cube_availability
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    Verdict,
    first_wrong,
    is_same,
    mistake_of,
    number_of,
    wrong,
)
from fabriclab.registry import register
from fabriclab.texts import text

# Cubes that are needed, cubes of the pod, and the share of the time in which one is whole -> a share of the time.
AnyWhole = Callable[[int, int, float], Any]

# illustrative: the lesson's example, one of two, all of three, a pod with one spare cube; the last is the lesson's pod
CASES: tuple[tuple[int, int, float], ...] = (
    (2, 3, 0.9),
    (1, 2, 0.5),
    (3, 3, 0.9),
    (7, 8, 0.8),
    (48, 64, cube_availability(0.99)),
)


def exactly(k: int, cubes: int, whole: float) -> float:
    """Return the share of the time in which exactly ``k`` cubes are whole."""
    choices = comb(cubes, k)
    return float(choices * whole**k * (1 - whole) ** (cubes - k))


def any_whole(needed: int, cubes: int, whole: float) -> float:
    """Return the share of the time in which at least ``needed`` cubes are whole."""
    return sum(exactly(k, cubes, whole) for k in range(needed, cubes + 1))


# What somebody with a mistake returns, all called as ``rule(needed, cubes, whole)``.


def _fixed(needed: int, cubes: int, whole: float) -> float:
    """Return the share of cubes that cannot be chosen."""
    return whole**needed


def _all_cubes(needed: int, cubes: int, whole: float) -> float:
    """Return the share in which no cube of the pod is broken."""
    return whole**cubes


def _exactly_needed(needed: int, cubes: int, whole: float) -> float:
    """Return one case of the sum."""
    return exactly(needed, cubes, whole)


def _choices_forgotten(needed: int, cubes: int, whole: float) -> float:
    """Take one choice of the whole cubes in each case."""
    return sum(exactly(k, cubes, whole) / comb(cubes, k) for k in range(needed, cubes + 1))


def _broken_forgotten(needed: int, cubes: int, whole: float) -> float:
    """Leave out that the other cubes are broken."""
    return sum(comb(cubes, k) * whole**k for k in range(needed, cubes + 1))


def _last_forgotten(needed: int, cubes: int, whole: float) -> float:
    """Stop before the case in which all cubes are whole."""
    return sum(exactly(k, cubes, whole) for k in range(needed, cubes))


def _first_forgotten(needed: int, cubes: int, whole: float) -> float:
    """Begin with one cube more than needed."""
    return sum(exactly(k, cubes, whole) for k in range(needed + 1, cubes + 1))


def _too_few(needed: int, cubes: int, whole: float) -> float:
    """Return the share in which the slice cannot run."""
    return 1 - any_whole(needed, cubes, whole)


def _exchanged(needed: int, cubes: int, whole: float) -> float:
    """Take the share of a broken cube for that of a whole one."""
    return any_whole(needed, cubes, 1 - whole)


def _percent(needed: int, cubes: int, whole: float) -> float:
    """Return percent."""
    return 100 * any_whole(needed, cubes, whole)


ANY_MISTAKES: dict[str, Callable[[int, int, float], float]] = {
    "cubes that cannot be chosen": _fixed,
    "no cube broken": _all_cubes,
    "exactly as many as needed": _exactly_needed,
    "choices forgotten": _choices_forgotten,
    "broken cubes forgotten": _broken_forgotten,
    "last case forgotten": _last_forgotten,
    "first case forgotten": _first_forgotten,
    "too few whole cubes": _too_few,
    "whole and broken exchanged": _exchanged,
    "percent for a part": _percent,
}


@register("check", "44-write-any")
def time_of_any(answer: AnyWhole) -> Verdict:
    """Run ``answer(needed, cubes, whole)``, the share of the time with enough whole cubes, on several pods."""
    returned = [number_of(answer, *case) for case in CASES]
    right = [any_whole(*case) for case in CASES]
    tried = []
    for case, found, wanted in zip(CASES, returned, right, strict=True):
        is_right = is_same(found, wanted)
        got, expected = f"{found:.4g}", f"{wanted:.4g}"
        if got == expected and not is_right:  # a rounded share, which differs only further back
            got, expected = f"{found:.10g}", f"{wanted:.10g}"
        tried.append(TriedCase(_words(case), is_right, "", got, expected))
    i = first_wrong(tried)
    if i is None:
        return True, [], ""
    shown = {"got": tried[i].got, "right": tried[i].wanted}
    line = text("function.chance", case=tried[i].name, **shown)
    mistake = mistake_of(returned, ANY_MISTAKES, CASES)
    return wrong("44-write-any", line, mistake, Trace(tuple(tried)))


def _words(case: tuple[int, int, float]) -> str:
    """Return a case in words."""
    needed, cubes, whole = case
    return text("trace.any_whole", needed=needed, cubes=cubes, whole=f"{100 * whole:.3g}")
