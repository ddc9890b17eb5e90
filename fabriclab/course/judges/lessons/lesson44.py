"""Lesson 44: the next matching of a traffic matrix."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fabriclab import circuits
from fabriclab.core import Floats
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import Verdict, explained, name_of, stopped
from fabriclab.registry import register
from fabriclab.texts import text

Step = Callable[[Floats], Any]

_NO_ANSWER = ("nothing returned", "no row of receivers")
_PATIENCE = (
    1.25  # illustrative: matchings that count as few, in times of those that `decompose` needs
)

# illustrative: traffic in GB, the first as in the lesson
_LESSON = ((0, 0, 8, 6), (8, 0, 0, 6), (4, 8, 0, 2), (2, 6, 6, 0))
_RING = ((0, 0, 5, 0), (0, 0, 0, 5), (0, 5, 0, 0), (5, 0, 0, 0))
_ALL_TO_ALL = ((0, 2, 2, 2), (2, 0, 2, 2), (2, 2, 0, 2), (2, 2, 2, 0))
_IDLE_HOST = ((0, 3, 0, 1), (0, 0, 4, 0), (4, 0, 0, 0), (0, 0, 0, 0))
_SEEDS = (1, 2, 5)  # of the mixed traffic
_MIXED = 6  # hosts of it
_SUMMED = 9  # matchings that are added up in it


class Case(NamedTuple):
    """A traffic matrix with its name."""

    name: str
    matrix: Floats  # (N, N) [GB]


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
        found.append(Case(text(f"trace.matching_{name}"), np.array(rows, dtype=np.float64)))
    for seed in _SEEDS:
        found.append(Case(text("trace.matching_mixed", n=_MIXED, seed=seed), mixed(seed)))
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


@register("check", "44-write-step")
def next_matching(answer: Step) -> Verdict:
    """Decompose several matrices with ``answer(left)``: each step must be a matching, and there must be few of them."""
    tried: list[TriedCase] = []
    taken = 0
    fewest = 0
    for case in cases():
        needed = circuits.decompose(case.matrix).n_matchings
        try:
            found = circuits.decompose(case.matrix, answer).n_matchings
        except circuits.WrongMatching as error:
            if error.mistake in _NO_ANSWER:
                raise Unanswered("kind", text("function.matching", n=len(case.matrix))) from None
            return _wrong(tried, case, error)
        except (Exception, SystemExit) as error:
            raise stopped(f"{name_of(answer)}(left)", error) from None
        taken += found
        fewest += needed
        tried.append(TriedCase(case.name, True, "", _count(found), _count(needed)))

    most = int(_PATIENCE * fewest)
    wanted = text("trace.at_most", most=_count(most))
    tried.append(TriedCase(text("trace.matching_all"), taken <= most, "", _count(taken), wanted))
    if taken <= most:
        return True, [], ""
    mistake = "held too briefly"
    line = text("function.loop", name=text("trace.matching_all"), got=_count(taken), wanted=wanted)
    return False, [line, *explained("44-write-step", mistake)], mistake, Trace(tuple(tried))


def _wrong(tried: list[TriedCase], case: Case, error: circuits.WrongMatching) -> Verdict:
    """Return the verdict on a step that is no matching of the entries that have bytes left."""
    shown = TriedCase(case.name, False, "", text("trace.no_matching"), text("trace.a_matching"))
    line = text("function.no_matching", case=case.name, words=str(error))
    return (
        False,
        [line, *explained("44-write-step", error.mistake)],
        error.mistake,
        Trace((*tried, shown)),
    )


def _count(n: int) -> str:
    """Return a number of matchings in words."""
    return text("trace.one_matching" if n == 1 else "trace.matchings", n=n)
