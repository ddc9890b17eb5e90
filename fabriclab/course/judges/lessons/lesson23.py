"""Lesson 23: the next chip on the way through a torus, and the cables of its narrowest cut."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from fabriclab import metrics, topologies
from fabriclab.core import Fabric
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import (
    Verdict,
    called,
    compared,
    first_wrong,
    name_of,
    told,
    wrong,
)
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.registry import register
from fabriclab.texts import text

Chip = tuple[int, ...]  # coordinates
NextChip = Callable[[Chip, Chip, Chip], Any]  # here, goal, sides -> a neighbour of here
Cut = Callable[[Chip], Any]  # sides -> cables in the narrowest cut

# Sides, here and goal. A packet goes up, down, over the closing cable both ways, along one axis after the other, half
# round a ring, and along sides of five, three and two. illustrative: few enough to read, and each mistake fails one
TRIPS: Sequence[tuple[Chip, Chip, Chip]] = (
    ((8, 8, 16), (0, 0, 0), (2, 0, 0)),
    ((8, 8, 16), (5, 1, 4), (3, 1, 4)),
    ((8, 8, 16), (7, 2, 3), (1, 2, 3)),
    ((8, 8, 16), (0, 6, 9), (0, 6, 2)),
    ((8, 8, 16), (0, 6, 1), (0, 6, 14)),
    ((8, 8, 16), (3, 0, 12), (3, 7, 1)),
    ((8, 8, 16), (1, 1, 0), (5, 1, 0)),
    ((4, 4, 8), (2, 3, 7), (1, 0, 0)),
    ((4, 4, 8), (0, 3, 6), (0, 0, 1)),
    ((5, 3), (4, 1), (1, 2)),
    ((2, 6), (1, 0), (0, 5)),
)


def _axis(here: Chip, goal: Chip) -> int:
    """Return the first axis along which a packet still has to go."""
    return next(i for i, (a, b) in enumerate(zip(here, goal, strict=True)) if a != b)


def _moved(here: Chip, axis: int, place: int) -> Chip:
    """Return a chip with another coordinate along one axis."""
    return (*here[:axis], place, *here[axis + 1 :])


@cache
def _torus(sides: Chip) -> Fabric:
    """Return a torus; it is built once for all trips on it."""
    return topologies.build("torus", shape=sides)


@cache
def right_next(here: Chip, goal: Chip, sides: Chip) -> tuple[Chip, ...]:
    """Return the neighbours, one or two, to which dimension order may send a packet: those nearer to its goal.

    They are found on the torus itself: neighbours that differ from ``here`` along the first axis that is left, and from
    which fewer hops lead to ``goal``. Half-way round a ring both directions are right.
    """
    fabric = _torus(sides)
    at = np.ravel_multi_index(here, sides)
    axis = _axis(here, goal)
    found = set[Chip]()
    for node in fabric.target[fabric.source == at]:
        chip = tuple(int(k) for k in fabric.coord[node])
        along = abs(chip[axis] - goal[axis])
        before = abs(here[axis] - goal[axis])
        nearer = min(along, sides[axis] - along) < min(before, sides[axis] - before)
        if chip == _moved(here, axis, chip[axis]) and nearer:
            found.add(chip)
    return tuple(sorted(found))


def next_chip(here: Chip, goal: Chip, sides: Chip) -> Chip:
    """Return the next chip by dimension order; half-way round a ring the packet goes up."""
    axis = _axis(here, goal)
    side = sides[axis]
    up = (goal[axis] - here[axis]) % side
    step = 1 if 2 * up <= side else -1
    return _moved(here, axis, (here[axis] + step) % side)


def _always_up(here: Chip, goal: Chip, sides: Chip) -> Chip:
    axis = _axis(here, goal)
    return _moved(here, axis, (here[axis] + 1) % sides[axis])


def _never_round(here: Chip, goal: Chip, sides: Chip) -> Chip:
    axis = _axis(here, goal)
    return _moved(here, axis, here[axis] + (1 if goal[axis] > here[axis] else -1))


def _last_axis_first(here: Chip, goal: Chip, sides: Chip) -> Chip:
    return next_chip(here[::-1], goal[::-1], sides[::-1])[::-1]


def _all_axes(here: Chip, goal: Chip, sides: Chip) -> Chip:
    place = list(here)
    for axis in range(len(sides)):
        only = _moved(here, axis, goal[axis])
        if only != here:
            place[axis] = next_chip(here, only, sides)[axis]
    return tuple(place)


def _whole_axis(here: Chip, goal: Chip, sides: Chip) -> Chip:
    axis = _axis(here, goal)
    return _moved(here, axis, goal[axis])


def _at_once(here: Chip, goal: Chip, sides: Chip) -> Chip:
    return goal


def _longer_way(here: Chip, goal: Chip, sides: Chip) -> Chip:
    axis = _axis(here, goal)
    step = here[axis] - next_chip(here, goal, sides)[axis]
    return _moved(here, axis, (here[axis] + step) % sides[axis])


def _step(here: Chip, goal: Chip, sides: Chip) -> Chip:
    axis = _axis(here, goal)
    up = (goal[axis] - here[axis]) % sides[axis]
    return _moved((0,) * len(here), axis, 1 if 2 * up <= sides[axis] else -1)


def _off_the_grid(here: Chip, goal: Chip, sides: Chip) -> Chip:
    axis = _axis(here, goal)
    up = (goal[axis] - here[axis]) % sides[axis]
    return _moved(here, axis, here[axis] + (1 if 2 * up <= sides[axis] else -1))


# What somebody with a mistake returns, by its name.
NEXT_MISTAKES: dict[str, Callable[[Chip, Chip, Chip], Chip]] = {
    "always up": _always_up,
    "closing cable never used": _never_round,
    "last axis first": _last_axis_first,
    "all axes at once": _all_axes,
    "whole axis in one hop": _whole_axis,
    "goal returned": _at_once,
    "step returned": _step,
    "longer way round": _longer_way,
    "number runs off the grid": _off_the_grid,
}


def _chip_of(answer: NextChip, here: Chip, goal: Chip, sides: Chip) -> Chip:
    """Return the chip that the learner's function returns; raise Unanswered if it is no chip."""
    found = called(answer, here, goal, sides)
    is_row = isinstance(found, tuple | list | np.ndarray) and np.ndim(found) == 1
    places = list(found) if is_row else []
    whole = [k for k in places if _is_whole(k)]
    if len(places) != len(sides) or len(whole) != len(sides):
        call = f"{name_of(answer)}({here}, {goal}, {sides})"
        lines = text("function.next_kind", call=call, n=len(sides), got=brief(found))
        raise Unanswered("kind", lines)
    return tuple(int(k) for k in places)


def _is_whole(found: Any) -> bool:
    """Return whether an item of a row is a whole number, as a float too."""
    is_number = isinstance(found, int | float | np.integer | np.floating)
    return is_number and not isinstance(found, bool) and bool(found == found // 1)


@register("check", "23-write-next")
def next_of_route(answer: NextChip) -> Verdict:
    """Run ``answer(here, goal, sides)``; right is a neighbour that is nearer along the first axis that is left."""
    returned = [_chip_of(answer, here, goal, sides) for sides, here, goal in TRIPS]
    tried = list[TriedCase]()
    for (sides, here, goal), got in zip(TRIPS, returned, strict=True):
        wanted = right_next(here, goal, sides)
        words = text("trace.next", sides=by(sides), here=here, goal=goal)
        either = text("trace.or").join(str(chip) for chip in wanted)
        tried.append(TriedCase(words, got in wanted, "", str(got), either))
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    mistake = _mistake_of_route(returned)
    return wrong("23-write-next", told(answer, tried[place]), mistake, Trace(tuple(tried)))


def _mistake_of_route(returned: Sequence[Chip]) -> str:
    """Return the mistake that explains all chips that the learner's function returned, or nothing."""
    for name, rule in NEXT_MISTAKES.items():
        if all(
            got == rule(here, goal, sides)
            for (sides, here, goal), got in zip(TRIPS, returned, strict=True)
        ):
            return name
    return ""


def by(sides: Chip) -> str:
    """Write sides as a person does: 8 x 8 x 16."""
    return " x ".join(str(k) for k in sides)


# The longest side first, last, in the middle; two axes and three; a ring; sides of two, which one cable joins.
# illustrative: small tori beside that of the lesson
SHAPES: Sequence[Chip] = (
    (8, 8, 16),
    (16, 4),
    (4, 8, 4),
    (6, 6, 6),
    (2, 4, 12),
    (10,),
    (2, 2, 2),
)


@cache
def cut_of_torus(sides: Chip) -> float:
    """Return the cables in the narrowest cut of a torus into halves, as the library finds it."""
    fabric = _torus(sides)
    return float(metrics.bisection(fabric).lower / fabric.capacity[0])


def _without_closing(sides: Chip) -> float:
    return prod(sides) / max(sides)


def _both_directions(sides: Chip) -> float:
    return 2 * cut_of_torus(sides)


def _shortest_side(sides: Chip) -> float:
    rows = prod(sides) / min(sides)
    return rows if min(sides) == 2 else 2 * rows


def _last_side(sides: Chip) -> float:
    rows = prod(sides) / sides[-1]
    return rows if sides[-1] == 2 else 2 * rows


def _first_side(sides: Chip) -> float:
    rows = prod(sides) / sides[0]
    return rows if sides[0] == 2 else 2 * rows


def _two_for_two(sides: Chip) -> float:
    return 2 * prod(sides) / max(sides)


def _one_layer(sides: Chip) -> float:
    return 2.0


def _chips(sides: Chip) -> float:
    return float(prod(sides) / 2)


CUT_MISTAKES: Mapping[str, Callable[[Chip], float]] = {
    "closing cables forgotten": _without_closing,
    "both directions counted": _both_directions,
    "cut across the shortest side": _shortest_side,
    "last side taken": _last_side,
    "first side taken": _first_side,
    "two cables between two chips": _two_for_two,
    "one row only": _one_layer,
    "chips of a half counted": _chips,
}


@register("check", "23-write-cut")
def narrowest_cut(answer: Cut) -> Verdict:
    """Run ``answer(sides)``, the cables in the narrowest cut, on tori of several shapes."""
    cases = {text("trace.torus", sides=by(sides)): (sides,) for sides in SHAPES}
    return compared("23-write-cut", answer, cases, cut_of_torus, CUT_MISTAKES, _cables)


def _cables(value: float) -> str:
    """Write a number of cables, which is whole unless it is wrong."""
    return f"{value:.10g}"
