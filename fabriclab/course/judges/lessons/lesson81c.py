"""Lesson 81c: how many bits of a product by light can be trusted."""

from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.course.shown import digits
from fabriclab.physics import photonic
from fabriclab.registry import register
from fabriclab.texts import text

Numbers = NDArray[np.float64]
Bits = Callable[[Numbers, Numbers], Any]  # exact numbers, and what light made of them -> bits

# illustrative: what light made of some numbers; the first is worked out in the lesson, the others set mistakes apart
_ON_PAPER = (
    ((40.0, 30.0), (43.0, 34.0)),
    ((8.0, -8.0, 8.0, -7.0), (8.25, -8.25, 8.5, -6.0)),
    ((6.0, 2.0, -3.0), (5.5, 2.25, -3.5)),
)
_SIZE = 16  # illustrative: rows and columns of an array that nobody does on paper
_ERROR = 0.01  # illustrative: typical size of its errors
_ROUNDED = 1e-3  # illustrative: a few digits on paper are near enough


@cache
def products() -> tuple[tuple[Numbers, Numbers], ...]:
    """Return exact numbers and what light made of them: a few on paper, and an array with errors by chance."""
    rng = np.random.default_rng(0)
    many, errors = rng.standard_normal((2, _SIZE, _SIZE))
    on_paper = [(np.array(exact), np.array(made)) for exact, made in _ON_PAPER]
    # No product of the mesh: its bits would answer the guess that comes next.
    return (*on_paper, (many, many + _ERROR * errors))


def bits_to_trust(exact: Numbers, made: Numbers) -> float:
    """Return the bits of a product that can be trusted."""
    return photonic.effective_bits(exact, made)


def _typical(numbers: Numbers) -> float:
    return float(np.sqrt(np.mean(numbers**2)))


def _ratio(exact: Numbers, made: Numbers) -> float:
    return _typical(exact) / _typical(made - exact)


def _natural(exact: Numbers, made: Numbers) -> float:
    return float(np.log(_ratio(exact, made)))


def _turned(exact: Numbers, made: Numbers) -> float:
    return -bits_to_trust(exact, made)


def _squares(exact: Numbers, made: Numbers) -> float:
    return 2 * bits_to_trust(exact, made)


def _largest(exact: Numbers, made: Numbers) -> float:
    return float(np.log2(np.max(np.abs(exact)) / np.max(np.abs(made - exact))))


def _mean_size(exact: Numbers, made: Numbers) -> float:
    return float(np.log2(np.mean(np.abs(exact)) / np.mean(np.abs(made - exact))))


def _by_made(exact: Numbers, made: Numbers) -> float:
    return float(np.log2(_typical(made) / _typical(made - exact)))


def _spread(exact: Numbers, made: Numbers) -> float:
    return float(np.log2(np.std(exact) / np.std(made - exact)))


# What somebody with a mistake returns, by its name.
BITS_MISTAKES: Mapping[str, Callable[[Numbers, Numbers], float]] = {
    "ratio for bits": _ratio,
    "logarithm to the base e": _natural,
    "ratio turned round": _turned,
    "squares without the root": _squares,
    "largest for typical": _largest,
    "mean of sizes": _mean_size,
    "made for exact": _by_made,
    "spread for typical": _spread,
}


@register("check", "81c-write-bits")
def trusted(answer: Bits) -> Verdict:
    """Run ``answer(exact, made)``, the bits of a product by light that can be trusted."""
    cases = dict[str, tuple[Numbers, Numbers]]()
    *on_paper, by_chance = products()
    for exact, made in on_paper:
        cases[text("trace.product", exact=exact.tolist(), made=made.tolist())] = (exact, made)
    cases[text("trace.chances", size=_SIZE)] = by_chance

    @wraps(answer)
    def on_copies(exact: Numbers, made: Numbers) -> Any:
        return answer(exact.copy(), made.copy())  # a learner may take one from the other in place

    return compared(
        "81c-write-bits", on_copies, cases, bits_to_trust, BITS_MISTAKES, digits, _ROUNDED
    )
