"""Lesson 44c: the next matching of a traffic matrix."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fabriclab import circuits
from fabriclab.core import Floats
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import Verdict, explained, name_of, stopped
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.registry import register
from fabriclab.texts import text

Step = Callable[[Floats], Any]

_NO_ANSWER = ("nothing returned", "no row of receivers")
# illustrative: matchings that count as few, in times of those that `decompose` needs; twelve draws of a step that takes
# any matching need 1.4 to 1.6 times as many, steps that look at what is left at most 1.27 times
_PATIENCE = 1.33

# illustrative: traffic in GB, the first as in the lesson
_LESSON = ((0, 0, 8, 6), (8, 0, 0, 6), (4, 8, 0, 2), (2, 6, 6, 0))
_RING = ((0, 0, 5, 0), (0, 0, 0, 5), (0, 5, 0, 0), (5, 0, 0, 0))
_ALL_TO_ALL = ((0, 2, 2, 2), (2, 0, 2, 2), (2, 2, 0, 2), (2, 2, 2, 0))
_IDLE_HOST = ((0, 3, 0, 1), (0, 0, 4, 0), (4, 0, 0, 0), (0, 0, 0, 0))
_SEEDS = tuple(range(1, 13))  # of the mixed traffic
_MIXED = 6  # hosts of it
_SUMMED = 9  # matchings that are added up in it


class Case(NamedTuple):
    """A traffic matrix with its name."""

    name: str
    matrix: Floats  # (N, N) [GB]
    is_mixed: bool  # one of those on which the number of matchings is compared


class _Watched:
    """The learner's step, which remembers what it got and what it returned the last time."""

    def __init__(self, answer: Step) -> None:
        self.answer = answer
        self.left: Floats = np.zeros((0, 0))
        self.returned: Any = None

    def __call__(self, left: Floats) -> Any:
        """Return what the learner's step returns."""
        self.left = left.copy()
        self.returned = self.answer(left)
        return self.returned

    def has_dark(self) -> bool:
        """Return whether filled-up bytes stood on the diagonal the last time."""
        return bool(np.any(np.diag(self.left) > 0))


def cases() -> tuple[Case, ...]:
    """Return the traffic on which a step is tried."""
    named = {
        "lesson": _LESSON,
        "ring": _RING,
        "all_to_all": _ALL_TO_ALL,
        "idle_host": _IDLE_HOST,
    }
    found = []
    for name, rows in named.items():
        matrix = np.array(rows, dtype=np.float64)
        found.append(Case(text(f"trace.matching_{name}"), matrix, is_mixed=False))
    for seed in _SEEDS:
        name = text("trace.matching_mixed", n=_MIXED, seed=seed)
        found.append(Case(name, mixed(seed), is_mixed=True))
    return tuple(found)


def mixed(seed: int) -> Floats:
    """Return traffic whose rows and columns have the same sum, of random matchings with random weights [GB]."""
    rng = np.random.default_rng(seed)
    sender = np.arange(_MIXED)
    matrix = np.zeros((_MIXED, _MIXED))
    for weight in rng.integers(1, 9, _SUMMED).tolist():
        receiver = rng.permutation(_MIXED)
        while np.any(receiver == sender):
            receiver = rng.permutation(_MIXED)
        matrix[sender, receiver] += weight
    return matrix


@register("check", "44c-write-step")
def next_matching(answer: Step) -> Verdict:
    """Decompose several matrices with ``answer(left)``: matchings at each step, and few of them for mixed traffic."""
    tried: list[TriedCase] = []
    taken = 0
    fewest = 0
    for case in cases():
        needed = circuits.decompose(case.matrix).n_matchings
        watched = _Watched(answer)
        try:
            found = circuits.decompose(case.matrix, watched).n_matchings
        except circuits.WrongMatching as error:
            if error.mistake in _NO_ANSWER:
                raise _unanswered(case, watched) from None
            mistake = error.mistake
            if mistake == "an entry without traffic" and returns_senders(answer):
                mistake = "senders of the receivers"
            if mistake == "a receiver that does not exist" and -1 in np.asarray(watched.returned):
                mistake = "a dark sender without a number"
            words = str(error)
            if watched.has_dark():
                words = f"{words} {text('function.matching_dark')}"
            return _wrong(tried, case, mistake, words)
        except (Exception, SystemExit) as error:
            raise stopped(f"{name_of(answer)}(left)", error) from None
        if case.is_mixed:
            taken += found
            fewest += needed
        else:
            tried.append(TriedCase(case.name, True, "", _count(found), _count(needed)))

    most = int(_PATIENCE * fewest)
    wanted = text("trace.at_most", most=_count(most))
    name = text("trace.matching_all", n=len(_SEEDS))
    tried.append(TriedCase(name, taken <= most, "", _count(taken), wanted))
    if taken <= most:
        return True, [], ""
    mistake = "held too briefly"
    line = text("function.loop", name=name, got=_count(taken), wanted=wanted)
    return False, [line, *explained("44c-write-step", mistake)], mistake, Trace(tuple(tried))


def returns_senders(answer: Step) -> bool:
    """Return whether all answers of a step are right as the sender of each receiver."""

    def turned_round(left: Floats) -> Any:
        """Return the receiver of each sender."""
        return np.argsort(np.asarray(answer(left), dtype=np.int64))

    try:
        for case in cases():
            circuits.decompose(case.matrix, turned_round)
    except (circuits.WrongMatching, ValueError, TypeError):
        return False
    return True


def _unanswered(case: Case, watched: _Watched) -> Unanswered:
    """Return what to raise when the learner's step returned no list of receivers."""
    n = len(case.matrix)
    asked = text("function.matching", n=n, case=case.name, got=brief(watched.returned))
    if watched.has_dark():
        dark = text("function.matching_dark")
        asked = f"{asked} {dark}"
    return Unanswered("kind", asked)


def _wrong(tried: list[TriedCase], case: Case, mistake: str, words: str) -> Verdict:
    """Return the verdict on a step that is no matching of the entries that have bytes left."""
    shown = TriedCase(case.name, False, "", text("trace.no_matching"), text("trace.a_matching"))
    line = text("function.no_matching", case=case.name, words=words)
    return (
        False,
        [line, *explained("44c-write-step", mistake)],
        mistake,
        Trace((*tried, shown)),
    )


def _count(n: int) -> str:
    """Return a number of matchings in words."""
    return text("trace.one_matching" if n == 1 else "trace.matchings", n=n)
