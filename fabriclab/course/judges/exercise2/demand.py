"""Exercise 2 (a), the judge of what a GPU asks of each tier: bytes of a parallelism, and where they go.

Formulas for the right numbers and the known mistakes are in ``questions/exercise2.toml``; the cases are drawn here.
"""

from collections.abc import Sequence
from typing import Any

from fabriclab.course.judges import Ask, Rng, Verdict
from fabriclab.course.judges.shared.parts import JudgedCase, NumberPart, apart, judge
from fabriclab.course.questions.files import message
from fabriclab.registry import register

KINDS = ("dp", "fsdp", "tp", "pp", "ep")
PATTERNS = ("ring", "all_to_all")
_SETS = 2  # a set of cases counts only if all of it is right
_FACTOR = (
    1.5  # by which the right numbers of two cases differ, so that no constant is right in both
)


def _draw_need(rng: Rng, kind: str) -> JudgedCase:
    """Draw what a GPU sends in a step for one parallelism, and the time for it."""
    size = int(rng.integers(10, 400)) * 10**6  # [B]
    n = int(2 ** rng.integers(2, 8))  # members of a group
    count = int(rng.integers(2, 100))  # uses in a step
    time = float(rng.integers(5, 60)) / 10  # [s]
    arguments = (kind, size, n, count, time)
    return JudgedCase(arguments, {"size": size, "n": n, "count": count, "time": time})


def _needs(rng: Rng, kind: str) -> NumberPart:
    """Return the part about one parallelism, with two cases whose right numbers differ."""

    def rates(case: JudgedCase) -> list[float]:
        return NumberPart("ex2-a", kind, [case]).true(0)

    cases = apart(lambda: _draw_need(rng, kind), rates, _FACTOR)
    return NumberPart("ex2-a", kind, cases)


def _draw_above(rng: Rng, pattern: str) -> JudgedCase:
    """Draw a group, and how many of its members share a unit such as a leaf."""
    inside = int(2 ** rng.integers(2, 6))
    n = inside * int(rng.integers(2, 9))
    return _membership(pattern, n, inside)


def _membership(pattern: str, n: int, inside: int) -> JudgedCase:
    """Return a case; a ring leaves a unit once, unless the unit holds all of it."""
    leaves = float(inside < n)
    return JudgedCase((pattern, n, inside), {"n": n, "inside": inside, "leaves": leaves})


class _Tiers(NumberPart):
    """What each tier carries; all three rates are shown, so that a learner sees which of them is wrong."""

    def compared(self, case: int, answer: Sequence[float]) -> tuple[str, str]:
        """Return the three rates as answered and as they are."""
        return self._words(answer), self._words(self.true(case))

    def _words(self, rates: Sequence[float]) -> str:
        shown = [one.shown(rate) for one, rate in zip(self.returns, rates, strict=True)]
        return message(2, "tiers", **dict(zip(("server", "pod", "cluster"), shown, strict=True)))


def _shares(rng: Rng, pattern: str) -> NumberPart:
    """Return the part about one pattern: two cases whose right numbers differ, and a unit that holds all members."""

    def shares(case: JudgedCase) -> list[float]:
        return NumberPart("ex2-a", pattern, [case]).true(0)

    # The shares of all-to-all lie close together.
    factor = _FACTOR if pattern == "ring" else 1.05
    cases = apart(lambda: _draw_above(rng, pattern), shares, factor)
    n = int(2 ** rng.integers(2, 6))
    return NumberPart("ex2-a", pattern, [*cases, _membership(pattern, n, n)])


def _draw_tiers(rng: Rng) -> JudgedCase:
    """Draw a job of three parallelisms: one that stays in a server, a ring, and an exchange of all pairs."""
    rates = [float(rng.integers(5, 400)) * 1e9 for _ in range(3)]  # [B/s]
    gpus = int(2 ** rng.integers(2, 4))  # of a server
    pod = gpus * int(2 ** rng.integers(1, 4))  # members of the exchange in a pod
    experts = pod * int(rng.integers(2, 5))
    replicas_in_pod = int(2 ** rng.integers(3, 6))
    replicas = replicas_in_pod * int(rng.integers(2, 9))
    rows = [
        ["ring", rates[0], gpus, gpus, gpus],
        ["ring", rates[1], replicas, 1, replicas_in_pod],
        ["all_to_all", rates[2], experts, gpus, pod],
    ]
    quantities = {
        "tensor": rates[0],
        "ring": rates[1],
        "ring_pod": replicas_in_pod,
        "exchange": rates[2],
        "n": experts,
        "server": gpus,
        "pod": pod,
    }
    return JudgedCase((rows,), quantities)


def _example(rng: Rng) -> Any:
    """Return a job of three parallelisms: rows of pattern, rate [B/s], members, members in a server and in a pod."""
    return _draw_tiers(rng).arguments[0]


@register("question", "ex2-a", example=_example)
def demand(ask: Ask, rng: Rng) -> Verdict:
    """Judge the rate that each parallelism needs of a GPU, and the share of it that each tier carries."""
    generators = rng.spawn(len(KINDS) + len(PATTERNS) + 1)
    parts = [_needs(own, kind) for kind, own in zip(KINDS, generators, strict=False)]
    parts += [
        _shares(own, pattern)
        for pattern, own in zip(PATTERNS, generators[len(KINDS) :], strict=False)
    ]
    cases = [_draw_tiers(generators[-1]) for _ in range(2 * _SETS)]
    parts.append(_Tiers("ex2-a", "tiers", cases, sets=_SETS))
    return judge(ask, *parts)
