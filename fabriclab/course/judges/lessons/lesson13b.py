"""Lesson 13b: what a row of antennas hears of a sender beside its beam."""

import cmath
import math
from collections.abc import Callable, Sequence
from typing import Any

from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.texts import text

Heard = Callable[[int, float], Any]  # antennas in a row, angle [rad] -> share of the power, 0..1

# Antennas in a row and degrees off: the pointing errors of the lesson, and the neighbour 0.2 m beside a beam of 2 m.
# illustrative: none of them near a direction in which the antennas hear nothing
ROWS: Sequence[tuple[int, float]] = ((2, 30), (4, 10), (8, 5.71), (19, 3), (32, 1), (32, 5.71))


def rows() -> dict[str, tuple[int, float]]:
    """Return the arguments of each case by its name in words: antennas, and the angle [rad]."""
    return {
        text("trace.array_off", side=side, degrees=degrees): (side, math.radians(degrees))
        for side, degrees in ROWS
    }


def field(side: int, turn: float) -> float:
    """Return the size of the sum of ``side`` waves, each ``turn`` [rad] behind the one before."""
    return abs(sum(cmath.exp(1j * turn * n) for n in range(side)))


def heard(side: int, angle: float) -> float:
    """Return the share of the power that a row of antennas, half a wavelength apart, hears at an angle [rad]."""
    return (field(side, math.pi * math.sin(angle)) / side) ** 2


def _field_for_power(side: int, angle: float) -> float:
    return field(side, math.pi * math.sin(angle)) / side


def _not_shared_out(side: int, angle: float) -> float:
    return field(side, math.pi * math.sin(angle)) ** 2


def _shared_out_once(side: int, angle: float) -> float:
    return field(side, math.pi * math.sin(angle)) ** 2 / side


def _degrees(side: int, angle: float) -> float:
    return heard(side, math.radians(angle))


def _a_wavelength_apart(side: int, angle: float) -> float:
    return (field(side, 2 * math.pi * math.sin(angle)) / side) ** 2


def _angle_for_its_sine(side: int, angle: float) -> float:
    return (field(side, math.pi * angle) / side) ** 2


def _cosine_for_sine(side: int, angle: float) -> float:
    return (field(side, math.pi * math.cos(angle)) / side) ** 2


def _phases_forgotten(side: int, angle: float) -> float:
    return 1.0


def _all_turned_alike(side: int, angle: float) -> float:
    return (abs(1 + (side - 1) * cmath.exp(1j * math.pi * math.sin(angle))) / side) ** 2


def _powers_added(side: int, angle: float) -> float:
    return 1 / side


# What somebody with a mistake returns, by its name.
HEARD_MISTAKES: dict[str, Callable[[int, float], float]] = {
    "field for power": _field_for_power,
    "not shared out": _not_shared_out,
    "shared out once": _shared_out_once,
    "degrees for radians": _degrees,
    "a wavelength apart": _a_wavelength_apart,
    "angle for its sine": _angle_for_its_sine,
    "cosine for sine": _cosine_for_sine,
    "phases forgotten": _phases_forgotten,
    "all turned alike": _all_turned_alike,
    "powers added": _powers_added,
}


@register("check", "13b-write-heard")
def heard_by_row(answer: Heard) -> Verdict:
    """Run ``answer(side, angle)``, a share of the power, for rows of antennas and senders beside their beam."""
    return compared("13b-write-heard", answer, rows(), heard, HEARD_MISTAKES, _written)


def _written(value: float) -> str:
    """Write a share with four digits."""
    return f"{value:.4g}"
