"""Lesson 11c: the chance that a code word has more wrong symbols than its code repairs."""

from collections.abc import Callable, Iterable, Sequence
from math import comb
from typing import Any

from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.texts import text

Lost = Callable[[float, int, int], Any]  # chance of a wrong symbol, symbols, repaired -> chance

# Chances that are large enough for one less the chance to survive, which loses digits where few words are lost.
# illustrative: the word of the lesson's example, a short one, and those of Ethernet's codes on very bad links
WORDS: Sequence[tuple[float, int, int]] = (
    (0.1, 4, 1),
    (0.3, 10, 3),
    (0.01, 544, 15),
    (0.02, 544, 15),
    (0.01, 528, 7),
)


def exactly(wrong: float, symbols: int, k: int) -> float:
    """Return the chance that exactly ``k`` of ``symbols`` symbols are wrong."""
    return comb(symbols, k) * wrong**k * (1 - wrong) ** (symbols - k)


def chance_of(wrong: float, symbols: int, numbers: Iterable[int]) -> float:
    """Return the chance that the number of wrong symbols is one of ``numbers``."""
    return sum(exactly(wrong, symbols, k) for k in numbers)


def lost(wrong: float, symbols: int, repaired: int) -> float:
    """Return the chance that more than ``repaired`` symbols are wrong."""
    return chance_of(wrong, symbols, range(repaired + 1, symbols + 1))


def _as_many_as_repaired(wrong: float, symbols: int, repaired: int) -> float:
    return chance_of(wrong, symbols, range(repaired, symbols + 1))


def _survives(wrong: float, symbols: int, repaired: int) -> float:
    return chance_of(wrong, symbols, range(repaired + 1))


def _one_too_many(wrong: float, symbols: int, repaired: int) -> float:
    return exactly(wrong, symbols, repaired + 1)


def _without_the_ways(wrong: float, symbols: int, repaired: int) -> float:
    return sum(wrong**k * (1 - wrong) ** (symbols - k) for k in range(repaired + 1, symbols + 1))


def _without_right_symbols(wrong: float, symbols: int, repaired: int) -> float:
    return sum(comb(symbols, k) * wrong**k for k in range(repaired + 1, symbols + 1))


def _without_the_last(wrong: float, symbols: int, repaired: int) -> float:
    return chance_of(wrong, symbols, range(repaired + 1, symbols))


# What somebody with a mistake returns, by its name.
LOST_MISTAKES: dict[str, Callable[[float, int, int], float]] = {
    "as many as repaired counted": _as_many_as_repaired,
    "words that survive": _survives,
    "exactly one too many": _one_too_many,
    "ways to choose forgotten": _without_the_ways,
    "right symbols forgotten": _without_right_symbols,
    "last one left out": _without_the_last,
}


@register("check", "11c-write-lost")
def lost_words(answer: Lost) -> Verdict:
    """Run ``answer(wrong, symbols, repaired)``, the chance that a word is lost, on words of several codes."""
    cases = {
        text("trace.word", wrong=wrong, symbols=symbols, repaired=repaired): (
            wrong,
            symbols,
            repaired,
        )
        for wrong, symbols, repaired in WORDS
    }
    return compared("11c-write-lost", answer, cases, lost, LOST_MISTAKES, _chance)


def _chance(value: float) -> str:
    """Write a chance with four digits."""
    return f"{value:.4g}"
