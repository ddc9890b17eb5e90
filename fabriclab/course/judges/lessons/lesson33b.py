"""Lesson 33b: how long a step takes that reads its input while it computes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.units import format_time

Step = Callable[[float, float, int], Any]  # time to read [s], time to compute [s], buffers -> s

# illustrative: reading slower, faster and as fast as computing, with one buffer and with more
STEPS: Sequence[tuple[float, float, int]] = (
    (0.25, 0.1, 1),
    (0.25, 0.1, 2),
    (0.04, 0.1, 1),
    (0.04, 0.1, 2),
    (0.25, 0.1, 4),
    (0.1, 0.1, 2),
)


def step_time(reading: float, computing: float, buffers: int) -> float:
    """Return how far apart the steps of a worker are, long after the first [s]."""
    return reading + computing if buffers == 1 else max(reading, computing)


def _always_in_turn(reading: float, computing: float, buffers: int) -> float:
    return reading + computing


def _never_in_turn(reading: float, computing: float, buffers: int) -> float:
    return max(reading, computing)


def _shorter(reading: float, computing: float, buffers: int) -> float:
    return reading + computing if buffers == 1 else min(reading, computing)


def _divided(reading: float, computing: float, buffers: int) -> float:
    return reading / buffers + computing


def _divided_and_hidden(reading: float, computing: float, buffers: int) -> float:
    return reading + computing if buffers == 1 else max(reading / buffers, computing)


def _reading_vanishes(reading: float, computing: float, buffers: int) -> float:
    return reading + computing if buffers == 1 else computing


# What somebody with a mistake returns, by its name.
STEP_MISTAKES: Mapping[str, Callable[[float, float, int], float]] = {
    "buffers ignored": _always_in_turn,
    "one buffer taken for two": _never_in_turn,
    "the shorter one decides": _shorter,
    "each buffer divides the reading": _divided,
    "buffers add rate": _divided_and_hidden,
    "reading always hides": _reading_vanishes,
}


@register("check", "33b-write-step")
def time_of_a_step(answer: Step) -> Verdict:
    """Run ``answer(reading, computing, buffers)``, the time from one step to the next [s]."""
    cases = {
        text("trace.buffers", reading=reading, computing=computing, n=buffers): (
            reading,
            computing,
            buffers,
        )
        for reading, computing, buffers in STEPS
    }
    return compared("33b-write-step", answer, cases, step_time, STEP_MISTAKES, format_time)
