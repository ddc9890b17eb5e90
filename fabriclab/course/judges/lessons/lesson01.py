"""Lesson 01: the node that all slow pairs have in common, and no fast pair."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import (
    Verdict,
    called,
    first_wrong,
    name_of,
    told,
    wrong,
)
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.diagnosis import practice
from fabriclab.diagnosis.tables import read_pairs
from fabriclab.importers import open_source
from fabriclab.registry import register
from fabriclab.texts import text

Pairs = Sequence[tuple[str, str, float]]  # two nodes, and the rate between them [GB/s]
SlowNode = Callable[[Any, float], Any]

_LIMIT = 70.0  # between the 49 and the 88 GB/s of case c49
_FAST, _SLOW = 88.0, 49.0  # illustrative: about the two rates of case c49


class Case(NamedTuple):
    """Pairs with a name, and the rate below which a pair is slow."""

    name: str
    pairs: tuple[tuple[str, str, float], ...]
    limit: float


def slow_node(pairs: Pairs, limit: float) -> str:
    """Return the node that is in all pairs below a limit and in no other; no name if none is, or several are."""
    return _common(_slow(pairs, limit), _fast(pairs, limit))


def _slow(pairs: Pairs, limit: float) -> list[set[str]]:
    """Return the pairs below the limit."""
    return [{a, b} for a, b, rate in pairs if rate < limit]


def _fast(pairs: Pairs, limit: float) -> list[set[str]]:
    """Return the other pairs."""
    return [{a, b} for a, b, rate in pairs if rate >= limit]


def _common(inside: list[set[str]], outside: list[set[str]]) -> str:
    """Return the one name that is in all of some sets and in none of others, if there is one."""
    if not inside:
        return ""
    names = set.intersection(*inside).difference(*outside)
    return names.pop() if len(names) == 1 else ""


def _made(nodes: int, is_slow: Callable[[str, str], bool], turned: bool = False) -> Any:
    """Return all pairs of nodes n1, n2, ...; every second one is named the other way round if ``turned``."""
    names = [f"n{number}" for number in range(1, nodes + 1)]
    pairs = []
    for place, (a, b) in enumerate(combinations(names, 2)):
        rate = _SLOW if is_slow(a, b) else _FAST
        pairs.append((b, a, rate) if turned and place % 2 else (a, b, rate))
    return tuple(pairs)


@cache
def cases() -> tuple[Case, ...]:
    """Return the pairs on which a function is tried: those of case c49, then some that were made."""
    (file,) = practice("c49").files
    real = tuple((pair.a, pair.b, pair.rate) for pair in read_pairs(open_source(file)))
    healthy = tuple(pair for pair in real if "pod2-n06" not in pair[:2])
    two = _made(6, lambda a, b: bool({a, b} & {"n2", "n5"}))
    some = _made(6, lambda a, b: {a, b} in ({"n1", "n3"}, {"n2", "n3"}))
    path = _made(3, lambda a, b: {a, b} == {"n2", "n3"})
    other = _made(4, lambda a, b: "n3" in (a, b), turned=True)
    limit = (
        *(("n1", "n2", _LIMIT), ("n1", "n3", _FAST), ("n2", "n3", _FAST)),
        *(("n1", "n4", _SLOW), ("n2", "n4", _SLOW), ("n3", "n4", _SLOW)),
    )
    tried = {
        "trace.pairs_real": real,
        "trace.pairs_healthy": healthy,
        "trace.pairs_other": other,
        "trace.pairs_two": two,
        "trace.pairs_some": some,
        "trace.pairs_path": path,
        "trace.pairs_limit": limit,
        "trace.pairs_none": (),
    }
    return tuple(Case(text(key), pairs, _LIMIT) for key, pairs in tried.items())


def most_slow_pairs(pairs: Pairs, limit: float) -> str:
    """Return the node with the most slow pairs, the first one of several."""
    counted = Counter(name for a, b, rate in pairs if rate < limit for name in (a, b))
    return counted.most_common(1)[0][0] if counted else ""


def fast_pairs_forgotten(pairs: Pairs, limit: float) -> str:
    """Return the node that all slow pairs have in common, and no name for several."""
    return _common(_slow(pairs, limit), [])


def first_in_common(pairs: Pairs, limit: float) -> str:
    """Return the first node that all slow pairs have in common."""
    slow = _slow(pairs, limit)
    return min(set.intersection(*slow), default="") if slow else ""


def slowest_pair(pairs: Pairs, limit: float) -> str:
    """Return the first node of the slowest pair, if that is slow."""
    slow = [pair for pair in pairs if pair[2] < limit]
    return min(slow, key=lambda pair: pair[2])[0] if slow else ""


def lowest_mean(pairs: Pairs, limit: float) -> str:
    """Return the node whose pairs have the lowest mean, slow or not."""
    rates: dict[str, list[float]] = {}
    for a, b, rate in pairs:
        rates.setdefault(a, []).append(rate)
        rates.setdefault(b, []).append(rate)
    return min(rates, key=lambda name: sum(rates[name]) / len(rates[name]), default="")


def turned_round(pairs: Pairs, limit: float) -> str:
    """Return the node that is in all fast pairs and in no slow one."""
    return _common(_fast(pairs, limit), _slow(pairs, limit))


def limit_counted(pairs: Pairs, limit: float) -> str:
    """Return the node in all pairs at or below the limit, and in no other."""
    slow = [{a, b} for a, b, rate in pairs if rate <= limit]
    fast = [{a, b} for a, b, rate in pairs if rate > limit]
    return _common(slow, fast)


def first_names(pairs: Pairs, limit: float) -> str:
    """Return the node that is named first in all slow pairs."""
    return _common([{a} for a, _, rate in pairs if rate < limit], [])


def never(pairs: Pairs, limit: float) -> str:
    """Return no name for all pairs."""
    return ""


# A mistake may look like several functions.
SLOW_MISTAKES: tuple[tuple[str, Callable[[Pairs, float], str]], ...] = (
    ("fast pairs forgotten", fast_pairs_forgotten),
    ("fast pairs forgotten", first_in_common),
    ("most slow pairs", most_slow_pairs),
    ("slowest pair", slowest_pair),
    ("always somebody", lowest_mean),
    ("fast pairs for slow ones", turned_round),
    ("limit counted", limit_counted),
    ("first names only", first_names),
    ("never a name", never),
)


@register("check", "01-write-slow-node")
def named(answer: SlowNode) -> Verdict:
    """Run ``answer(pairs, limit)`` on measured and made pairs; right is the one node that explains all of them."""
    returned = [_name(answer, case) for case in cases()]
    tried = []
    for case, got in zip(cases(), returned, strict=True):
        wanted = slow_node(case.pairs, case.limit)
        tried.append(TriedCase(case.name, got == wanted, "", repr(got), repr(wanted)))
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    trace = Trace(tuple(tried), look=text("trace.look_pairs"))
    return wrong("01-write-slow-node", told(answer, tried[place]), _mistake(returned), trace)


def _name(answer: SlowNode, case: Case) -> str:
    """Return the name that the learner's function returns, which may be empty; raise Unanswered for anything else."""
    found = called(answer, list(case.pairs), case.limit)
    if not isinstance(found, str):
        given = {"name": case.name, "call": name_of(answer), "got": brief(found)}
        raise Unanswered("kind", text("function.name_kind", **given))
    return str(found)


def _mistake(returned: list[str]) -> str:
    """Return the mistake that explains all that the learner's function returned, or nothing."""
    for name, rule in SLOW_MISTAKES:
        if returned == [rule(case.pairs, case.limit) for case in cases()]:
            return name
    return ""
