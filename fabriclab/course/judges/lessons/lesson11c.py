"""Lesson 11c: the chance that a code word has more wrong symbols than its code repairs."""

from collections.abc import Callable, Iterable, Sequence
from math import comb
from typing import Any

from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    Verdict,
    first_wrong,
    is_same,
    mistake_of,
    name_of,
    number_of,
    wrong,
)
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


# What somebody with a mistake returns, by its name.
LOST_MISTAKES: dict[str, Callable[[float, int, int], float]] = {
    "as many as repaired counted": lambda p, n, t: chance_of(p, n, range(t, n + 1)),
    "words that survive": lambda p, n, t: chance_of(p, n, range(t + 1)),
    "exactly one too many": lambda p, n, t: exactly(p, n, t + 1),
    "ways to choose forgotten": lambda p, n, t: sum(
        p**k * (1 - p) ** (n - k) for k in range(t + 1, n + 1)
    ),
    "right symbols forgotten": lambda p, n, t: sum(comb(n, k) * p**k for k in range(t + 1, n + 1)),
    "last one left out": lambda p, n, t: chance_of(p, n, range(t + 1, n)),
}


@register("check", "11c-write-lost")
def lost_words(answer: Lost) -> Verdict:
    """Run ``answer(wrong, symbols, repaired)``, the chance that a word is lost, on words of several codes."""
    returned = [number_of(answer, *word) for word in WORDS]
    tried = []
    for word, got in zip(WORDS, returned, strict=True):
        right = lost(*word)
        name = text("trace.word", wrong=word[0], symbols=word[1], repaired=word[2])
        tried.append(TriedCase(name, is_same(got, right), "", f"{got:.4g}", f"{right:.4g}"))
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    case = tried[place]
    line = text(
        "function.carried", call=name_of(answer), name=case.name, got=case.got, wanted=case.wanted
    )
    mistake = mistake_of(returned, LOST_MISTAKES, WORDS)
    return wrong("11c-write-lost", line, mistake, Trace(tuple(tried)))
