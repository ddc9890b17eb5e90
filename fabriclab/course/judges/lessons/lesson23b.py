"""Lesson 23b: the racks of a folded ring."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fabriclab import topologies
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import (
    Verdict,
    called,
    explained,
    first_wrong,
    name_of,
)
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.registry import register
from fabriclab.texts import text

Rack = Callable[[int, int], Any]  # number in the ring, chips of the ring -> rack
RINGS = (4, 8, 16, 9)  # illustrative: rings of the lesson and an odd one
_SPAN = 2  # racks: no ring of more than three can do with less


def folded(chip: int, n: int) -> int:
    """Return the rack of a chip in a folded ring: the first half takes the even racks, the rest comes back."""
    return 2 * chip if 2 * chip < n else 2 * (n - chip) - 1


def _as_it_is(chip: int, n: int) -> int:
    return chip


def _shared(chip: int, n: int) -> int:
    return min(chip, n - 1 - chip)


def _not_turned(chip: int, n: int) -> int:
    return 2 * chip if 2 * chip < n else 2 * chip - n + 1 - n % 2


def _halves_in_a_row(chip: int, n: int) -> int:
    half = (n + 1) // 2
    return chip if chip < half else n - 1 - (chip - half)


def _pairs(chip: int, n: int) -> int:
    return chip // 2


# What somebody with a mistake returns, by its name.
RACK_MISTAKES: Mapping[str, Callable[[int, int], int]] = {
    "row as it is": _as_it_is,
    "two chips in a rack": _shared,
    "neighbours in a rack": _pairs,
    "second half not turned round": _not_turned,
    "one half behind the other": _halves_in_a_row,
}


def longest(places: Sequence[int]) -> tuple[int, int, int]:
    """Return the racks that the longest cable of a ring spans, and the chips at its ends.

    ``places`` has the rack of each chip, in the order of the ring.
    """
    ring = topologies.build("torus", shape=(len(places),))
    one = ring.source[::2]
    other = ring.target[::2]
    at = np.asarray(places)
    span = np.abs(at[one] - at[other])
    worst = int(np.argmax(span))
    return int(span[worst]), int(one[worst]), int(other[worst])


def _rack_of(answer: Rack, chip: int, n: int) -> int:
    """Return the rack that the learner's function returns; raise Unanswered if it is none."""
    found = called(answer, chip, n)
    is_number = isinstance(found, int | float | np.integer | np.floating)
    if isinstance(found, bool) or not is_number or found not in range(n):
        call = f"{name_of(answer)}({chip}, {n})"
        line = text("function.rack_kind", call=call, last=n - 1, got=brief(found))
        raise Unanswered("kind", line)
    return int(found)


@register("check", "23b-write-rack")
def rack_of_chip(answer: Rack) -> Verdict:
    """Run ``answer(chip, n)``; right is any order of the racks in which no cable of the ring spans more than two."""
    returned = {n: [_rack_of(answer, chip, n) for chip in range(n)] for n in RINGS}
    tried = [_tried(n, places) for n, places in returned.items()]
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    first = tried[place]
    words = {"name": first.name, "call": name_of(answer), "got": first.got, "wanted": first.wanted}
    mistake = _mistake_of_racks(returned)
    lines = [text("function.racks", **words), *explained("23b-write-rack", mistake)]
    return False, lines, mistake, Trace(tuple(tried))


def _tried(n: int, places: Sequence[int]) -> TriedCase:
    """Return the case of a ring: whether each rack has one chip, and how far the longest cable goes."""
    name = text("trace.racks", n=n)
    wanted = text("trace.racks_wanted", span=_SPAN)
    taken = np.bincount(places, minlength=n)
    if taken.max() > 1:
        rack = int(np.argmax(taken > 1))
        one, other = [chip for chip, place in enumerate(places) if place == rack][:2]
        got = text("trace.racks_twice", rack=rack, one=one, other=other)
        return TriedCase(name, False, "", got, wanted)
    span, one, other = longest(places)
    got = text("trace.racks_span", span=span, one=one, other=other)
    return TriedCase(name, span <= _SPAN, "", got, wanted)


def _mistake_of_racks(returned: Mapping[int, Sequence[int]]) -> str:
    """Return the mistake that explains all racks that the learner's function returned, or nothing."""
    for name, rule in RACK_MISTAKES.items():
        if all(
            list(places) == [rule(chip, n) for chip in range(n)] for n, places in returned.items()
        ):
            return name
    return ""
