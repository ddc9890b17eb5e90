"""The level of a reader: which rungs of a ladder of four levels hold, and how sure that is.

The rule, for the levels recall, apply, analyse and judge, in this order: eight questions of a level are asked. With
seven or eight right the level holds, with three or fewer it does not. In between twelve more are asked, and it holds
with 13 of 20. The first level that does not hold ends the test. The reader's level is the last one that holds.

Eight questions end a test early, 80 is the most; a reader who is right in nine of ten questions of the levels that
hold, and in three or four of ten above, is asked 10 to 44. Two such tests give the same level in at least 94 of 100
cases. A reader who is near a border, such as one who is right in 65 of 100 questions of a level, can get either result:
`Standing.same` says how often another test would give the same level, and `Standing.between` which two levels the
reader is between. Both hold for a reader who is about as good in one topic as in another. With gaps in some topics
they are rough: simulated readers agreed up to a tenth less or more often, since a test draws topics in turn, and others
of their questions each time.
"""

import functools
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from fabriclab.course.assessment.bank import LEVELS

__all__ = ["Rung", "Standing", "hold_chance", "interval", "standing"]

FIRST = 8  # questions of a level before it is judged
_HOLDS_EARLY = 7  # right ones of the first, from which on the level holds
_FAILS_EARLY = 3  # right ones of the first, up to which it does not
MOST = 20  # questions of a level
_HOLDS_LATE = 13  # right ones of all, from which on it holds
_Z = 1.6448536269514722  # source: the normal distribution has 90 % within so many standard deviations
_DOUBT = 0.25  # chance that another test judges a level otherwise, from which on the reader is at its border; by choice
_POSTERIOR_POINTS = 400  # of the share of right answers, for averages over what it may be


class Rung(NamedTuple):
    """How a level stands."""

    level: str
    right: int
    asked: int
    holds: bool | None  # None: more questions have to say
    low: float  # ends of the 90 % interval of the share of right answers
    high: float


class Standing(NamedTuple):
    """How a reader stands on the ladder."""

    rungs: tuple[Rung, ...]  # those of which a question was answered
    level: str  # the last one that holds; empty if none does
    done: bool  # whether the test is over
    same: float  # chance that another test gives the same level; NaN while the test goes on
    between: tuple[
        str, ...
    ] = ()  # two levels with a border near the reader, "" for none; empty if no border is near

    @property
    def next(self) -> str:
        """The level of which a question comes next; empty if the test is over."""
        if self.done:
            return ""
        for rung in self.rungs:
            if rung.holds is None:
                return rung.level
        return LEVELS[len(self.rungs)]


def interval(right: int, asked: int) -> tuple[float, float]:
    """Return the ends of the 90 % interval of a share by Wilson's formula; (0, 1) if nothing was asked.

    References
    ----------
    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.

    Examples
    --------
    >>> tuple(round(end, 2) for end in interval(7, 8))
    (0.59, 0.97)
    """
    if not asked:
        return 0.0, 1.0
    share = right / asked
    middle = share + _Z**2 / (2 * asked)
    half = _Z * math.sqrt(share * (1 - share) / asked + _Z**2 / (4 * asked**2))
    below = 1 + _Z**2 / asked
    return max((middle - half) / below, 0.0), min((middle + half) / below, 1.0)


def judged(right: int, asked: int) -> bool | None:
    """Return whether a level holds; None as long as more questions have to say."""
    if asked < FIRST:
        return None
    if asked < MOST:
        # The answers after the first eight are counted together with them.
        if asked == FIRST and right >= _HOLDS_EARLY:
            return True
        if asked == FIRST and right <= _FAILS_EARLY:
            return False
        return None
    return right >= _HOLDS_LATE


def standing(answers: Iterable[tuple[str, bool]]) -> Standing:
    """Return how a reader stands after some answers, each with its level and whether it is right.

    Answers beyond what the rule asks for do not count.

    Examples
    --------
    >>> found = standing([("recall", True)] * 8 + [("apply", False)] * 8)
    >>> found.level, found.done
    ('recall', True)
    """
    by_level: Mapping[str, list[bool]] = {level: [] for level in LEVELS}
    for level, right in answers:
        by_level[level].append(right)

    rungs = []
    level = ""
    for name in LEVELS:
        rung = _rung(name, by_level[name])
        if rung.asked == 0 and rung.holds is None:
            break
        rungs.append(rung)
        if not rung.holds:
            break
        level = name
    done = bool(rungs) and (rungs[-1].holds is False or level == LEVELS[-1])
    if not done:
        return Standing(tuple(rungs), level, done, math.nan)
    again = [_judged_alike(rung) for rung in rungs]
    return Standing(tuple(rungs), level, done, math.prod(again), _between(again))


def _between(again: list[float]) -> tuple[str, ...]:
    """Return the levels on both sides of the rung that is most doubtful, if another test may well judge it otherwise.

    ``again`` is the chance for each rung that another test judges it in the same way.
    """
    place = min(range(len(again)), key=again.__getitem__)
    if again[place] > 1 - _DOUBT:
        return ()
    return ("", *LEVELS)[place], LEVELS[place]


def _rung(level: str, answers: list[bool]) -> Rung:
    """Return how a level stands after its answers, of which the rule may leave out the last."""
    counted = 0
    right = 0
    holds: bool | None = None
    for answer in answers[:MOST]:
        counted += 1
        right += int(answer)
        holds = judged(right, counted)
        if holds is not None:
            break
    return Rung(level, right, counted, holds, *interval(right, counted))


def hold_chance(share: float) -> float:
    """Return the chance that a level holds for a reader who is right in a share of its questions.

    Examples
    --------
    >>> round(hold_chance(0.9), 3), round(hold_chance(0.3), 3)
    (0.999, 0.002)
    """
    later = MOST - FIRST
    chance = 0.0
    for first in range(FIRST + 1):
        of_first = _binomial(first, FIRST, share)
        if first >= _HOLDS_EARLY:
            chance += of_first
        elif first > _FAILS_EARLY:
            needed = _HOLDS_LATE - first
            more = sum(_binomial(count, later, share) for count in range(needed, later + 1))
            chance += of_first * more
    return chance


@functools.cache
def _hold_chances(*shares: float) -> tuple[float, ...]:
    """Return the chance that a level holds, for each share; computed once, as the shares are always the same."""
    return tuple(hold_chance(share) for share in shares)


def _binomial(right: int, asked: int, share: float) -> float:
    """Return the chance of so many right answers."""
    return math.comb(asked, right) * share**right * (1 - share) ** (asked - right)


def _judged_alike(rung: Rung) -> float:
    """Return the chance that another test gives the same result for a level.

    The share of right answers may be any that the answers allow, equally likely before the test.
    """
    shares = (np.arange(_POSTERIOR_POINTS) + 0.5) / _POSTERIOR_POINTS
    holds = _hold_chances(*shares.tolist())
    weight = shares**rung.right * (1 - shares) ** (rung.asked - rung.right)
    mean = float(np.average(holds, weights=weight))
    return mean if rung.holds else 1 - mean
