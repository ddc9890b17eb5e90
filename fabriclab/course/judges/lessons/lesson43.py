"""Lesson 43: what passes the port of a rank when a switch adds, and when a slot of the switch is free."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.texts import text

Arrays = Callable[[str, int], Any]  # algorithm, ranks -> arrays that pass a port in one direction
Newest = Callable[[Sequence[int]], Any]  # newest chunk of each worker -> a chunk

RING, TREE, NVLS = "ring", "tree", "NVLS"

# illustrative: pairs and servers of today, and as many hosts as the job of the course has servers
PORTS: tuple[tuple[str, int], ...] = (
    (RING, 8),
    (TREE, 8),
    (NVLS, 8),
    (RING, 2),
    (NVLS, 4),
    (TREE, 128),
    (RING, 128),
    (NVLS, 2),
)

# illustrative: newest chunks of the workers of one slot, level, apart by one, and with more workers
SLOTS: tuple[tuple[int, ...], ...] = (
    (1, 1),
    (1, 0),
    (0, 1),
    (2, 1),
    (6, 6, 5, 6),
    (9, 9, 9),
    (4, 5, 5, 4),
)

_NEAR = 1e-3  # illustrative: a number of arrays that is rounded to three digits after the point is as right


# Arrays at a port -----------------------------------------------------------------------------------------------------


def arrays_per_port(algorithm: str, n: int) -> float:
    """Return how many arrays pass a rank's port in one direction."""
    if algorithm == RING:
        return 2 * (n - 1) / n
    if algorithm == TREE:
        return 1.0
    return 1 + 1 / n


def _except(algorithm: str, arrays: Callable[[int], float]) -> Callable[[str, int], float]:
    """Return the right function but for one algorithm."""

    def rule(name: str, n: int) -> float:
        return arrays(n) if name == algorithm else arrays_per_port(name, n)

    return rule


def _both_directions(algorithm: str, n: int) -> float:
    return 2 * arrays_per_port(algorithm, n)


def _one_array(n: int) -> float:
    return 1.0


def _two_arrays(n: int) -> float:
    return 2.0


def _blocks_of_a_ring(n: int) -> float:
    return 2.0 * (n - 1)


def _first_half(n: int) -> float:
    return (n - 1) / n


def _all_arrays(n: int) -> float:
    return float(n)


# What somebody with a mistake returns, by its name.
ARRAYS_MISTAKES: Mapping[str, Callable[[str, int], float]] = {
    "both directions in one": _both_directions,
    "write of the sum left out": _except(NVLS, _one_array),
    "whole sum written by each": _except(NVLS, _two_arrays),
    "whole array read for each GPU": _except(NVLS, _all_arrays),
    "sum on its way down sent again": _except(TREE, _two_arrays),
    "ring of very many ranks": _except(RING, _two_arrays),
    "blocks counted as arrays": _except(RING, _blocks_of_a_ring),
    "second half of the ring left out": _except(RING, _first_half),
}


@register("check", "43-write-arrays")
def arrays_of_a_port(answer: Arrays) -> Verdict:
    """Run ``answer(algorithm, n)``, the arrays that pass a port in one direction."""
    cases = {
        text("trace.port_of", algorithm=algorithm, n=n): (algorithm, n) for algorithm, n in PORTS
    }
    return compared(
        "43-write-arrays",
        answer,
        cases,
        arrays_per_port,
        ARRAYS_MISTAKES,
        _arrays_in_words,
        rounding=_NEAR,
    )


def _arrays_in_words(number: float) -> str:
    """Write a number of arrays."""
    return text("trace.arrays", number=f"{number:.4g}")


# When a slot is free --------------------------------------------------------------------------------------------------


def free_for(newest: Sequence[int]) -> int:
    """Return the newest chunk that may be written into a slot with two versions, by what its workers have sent."""
    return min(newest) + 1


def _complete_is_enough(newest: Sequence[int]) -> int:
    return min(newest) + 2


def _fastest_decides(newest: Sequence[int]) -> int:
    return max(newest) + 1


def _one_version(newest: Sequence[int]) -> int:
    return min(newest)


def _newest_of_all(newest: Sequence[int]) -> int:
    return max(newest)


# What somebody with a mistake returns, by its name.
FREE_MISTAKES: Mapping[str, Callable[[Sequence[int]], int]] = {
    "complete sum taken for a received one": _complete_is_enough,
    "fastest worker speaks for all": _fastest_decides,
    "second version of the slot forgotten": _one_version,
    "newest packet only": _newest_of_all,
}


@register("check", "43-write-free")
def chunk_that_a_slot_is_free_for(answer: Newest) -> Verdict:
    """Run ``answer(newest)``, the newest chunk for which the slot is free."""
    cases = {}
    for newest in SLOTS:
        words = ", ".join(map(str, newest))
        cases[text("trace.newest", newest=words)] = (list(newest),)
    return compared("43-write-free", answer, cases, free_for, FREE_MISTAKES, _chunk)


def _chunk(number: float) -> str:
    """Write the number of a chunk."""
    return text("trace.chunk", number=f"{number:g}")
