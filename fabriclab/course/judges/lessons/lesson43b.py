"""Lesson 43b: the largest scale with which sums of integers fit into 32 bits."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.innetwork.aggregation import LARGEST
from fabriclab.registry import register
from fabriclab.texts import text

Scale = Callable[[float, int], Any]  # largest of all values, number of workers -> scale

# illustrative: gradients of usual sizes, a large one, and up to as many workers as a bitmap has bits
BLOCKS: tuple[tuple[float, int], ...] = ((4.0, 8), (0.003, 16), (32768.0, 8), (1.0, 2), (0.5, 32))

_NEAR = 1e-3  # illustrative: a scale that is rounded to a whole number is as right


def largest_scale(largest: float, workers: int) -> float:
    """Return the largest scale with which the sum of all workers fits into 32 bits with a sign."""
    return LARGEST / (workers * largest)


def _one_worker(largest: float, workers: int) -> float:
    return LARGEST / largest


def _without_sign(largest: float, workers: int) -> float:
    return 2.0 * LARGEST / (workers * largest)


def _values_of_one(largest: float, workers: int) -> float:
    return LARGEST / workers


def _step(largest: float, workers: int) -> float:
    return workers * largest / LARGEST


def _power_of_two(largest: float, workers: int) -> float:
    return 2.0 ** math.floor(math.log2(largest_scale(largest, workers)))


def _half_bits(largest: float, workers: int) -> float:
    return 2.0**15 / (workers * largest)  # illustrative: 16 bits, with a sign


# What somebody with a mistake returns, by its name.
SCALE_MISTAKES: Mapping[str, Callable[[float, int], float]] = {
    "room for one worker": _one_worker,
    "sign bit used for the sum": _without_sign,
    "largest value left out": _values_of_one,
    "step given for the scale": _step,
    "power of two taken": _power_of_two,
    "integers of 16 bits": _half_bits,
}


@register("check", "43b-write-scale")
def scale_of_a_block(answer: Scale) -> Verdict:
    """Run ``answer(largest, workers)``, the largest scale with which no sum overflows."""
    cases = {
        text("trace.block", largest=f"{largest:g}", workers=workers): (largest, workers)
        for largest, workers in BLOCKS
    }
    return compared(
        "43b-write-scale", answer, cases, largest_scale, SCALE_MISTAKES, _scale, rounding=_NEAR
    )


def _scale(number: float) -> str:
    """Write a scale."""
    return text("trace.scale", number=f"{number:.5g}")
