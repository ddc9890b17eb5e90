"""Exercise 4, the judge of floats in a switch that adds whole numbers (d): scale, overflow, bound on the error."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Floats
from fabriclab.course.judges import Ask, Proxy, Rng, Unanswered, Verdict
from fabriclab.course.judges.shared.numbers import Misread, brief, number
from fabriclab.course.questions.files import message, misconception
from fabriclab.registry import register

from .programs import PRELUDE

_LANES, _TURNS = 64, 4
_USEFUL = 1e-6  # of n * limit: a bound above that says nothing
_ROUNDED = 1e-14  # of n * limit: what the last division of a worker may lose in 64 bits
_LEAST, _MOST = -(2**31), 2**31 - 1
FUNCTIONS = ("tell", "quantise", "dequantise", "bound")


class Block(NamedTuple):
    """What the workers hold."""

    kind: str
    x: NDArray[np.float32]  # (n, lanes)
    limit: float

    def about(self) -> dict[str, Any]:
        """Return what all workers know of it at first."""
        return {"n": len(self.x), "limit": self.limit, "top": 0, "turn": 0, "hit": False}


class Sum(NamedTuple):
    """What came of a block: the last turn's whole numbers, and whether an addition met a limit."""

    whole: list[list[int]]
    hit: bool
    got: Floats  # (lanes,)
    bound: float


def _blocks(rng: Rng) -> list[tuple[str, Block]]:
    """Return blocks by share: ordinary ones, and those that are hard."""
    out = list[tuple[str, Block]]()
    for kind in ("plain",) * 4 + ("largest", "zero", "mixed", "tiny"):
        n, limit = int(rng.integers(3, 17)), float(np.float32(rng.uniform(0.1, 50)))
        x = rng.normal(0, 0.1, (n, _LANES)).clip(-0.9, 0.9)
        if kind == "largest":
            x = np.full((n, _LANES), 1.0) * rng.choice([-1, 1], _LANES)
        elif kind == "mixed":  # on the way to a small sum, all that is positive comes first
            x = np.where(np.arange(n)[:, None] < n // 2, 1.0, -1.0) * rng.uniform(
                0.9, 1, (n, _LANES)
            )
        elif kind in ("zero", "tiny"):
            x = x * (1e-7 if kind == "tiny" else 0.0)
        out.append(
            (
                "plain" if kind == "plain" else "hard",
                Block(kind, (x * limit).astype(np.float32), limit),
            )
        )
    return out


def summed(ask: Ask, block: Block, spare: int = 0) -> Sum:
    """Sum a block as the learner's functions say; Misread says what they did that no switch can do.

    Before worker ``spare`` comes one more, of whom the switch hears nothing: so nobody can add beside the switch.
    """
    about = block.about()
    about["top"] = max(_whole([ask("tell", x, _known(about)) for x in block.x], "tell"))
    for about["turn"] in range(_TURNS):
        about["hit"] = False
        held = np.insert(block.x, spare, np.roll(block.x[spare], 1), 0)
        whole = [_whole(ask("quantise", x, _known(about)), "quantise", _LANES) for x in held]
        whole.pop(spare)
        total = np.zeros(_LANES, np.int64)
        for row in whole:
            total += row
            about["hit"] |= bool((total > _MOST).any() or (total < _LEAST).any())
            total = total.clip(_LEAST, _MOST)
        got = ask("dequantise", total.astype(np.int32), _known(about))
        if got is None:
            continue
        if (
            not isinstance(got, list)
            or len(got) != _LANES
            or not all(isinstance(v, int | float) for v in got)
        ):
            raise Misread(message(4, "floats", lanes=_LANES, got=brief(got)))
        return Sum(
            whole, about["hit"], np.array(got, float), number(ask("bound", _known(about)), "")
        )
    raise Misread(message(4, "turns", most=_TURNS))


def _known(about: dict[str, Any]) -> Proxy:
    """Return what a function is told of a block, as an object."""
    return Proxy(SimpleNamespace(), (), dict(about))


def _whole(values: Any, name: str, n: int = 0) -> list[int]:
    """Return whole numbers of 32 bits."""
    fits = isinstance(values, list) and (not n or len(values) == n)
    for v in values if fits else ():
        fits = (
            fits
            and isinstance(v, int | float)
            and v == v
            and float(v).is_integer()
            and _LEAST <= v <= _MOST
        )
    if not fits:
        raise Misread(message(4, "whole", name=name, n=n or 1, got=brief(values)))
    return [*map(int, values)]


def _slip(block: Block, found: Sum, off: float) -> str:
    """Return the name of the mistake in a sum whose error is beyond the bound, if it is known."""
    peaks, tops = np.abs(block.x).max(1), np.abs(np.array(found.whole)).max(1)
    known = (peaks > 0) & (tops > 1000)
    scales = tops[known] / peaks[known]
    exact = block.x.astype(float).sum(0)
    if found.hit:
        return "no room for the sum"
    if tops.max() <= block.limit + 1:
        return "no scale"
    if scales.size and np.ptp(scales) > 0.001 * scales.max():
        return "a scale for each worker"
    # 2 at most, if rounded once
    coarse = np.array(found.whole) - block.x.astype(float) * scales.max(initial=0)
    if scales.size and np.abs(coarse).max() > 2.5:
        return "computed in 32 bits"
    if np.allclose(found.got * len(block.x), exact, rtol=1e-3, atol=1e-6 * block.limit):
        return "mean for the sum"
    return "one rounding counted" if off <= len(block.x) * found.bound else ""


def _fault(ask: Ask, block: Block, spare: int) -> tuple[list[str], str] | None:
    """Return what is wrong with a block and the name of the mistake, or None."""
    said = [
        message(
            4,
            "block",
            kind=message(4, f"block.{block.kind}"),
            n=len(block.x),
            limit=f"{block.limit:.4g}",
        )
    ]
    try:
        found = summed(ask, block, spare)
    except (Misread, Unanswered) as error:
        words = error.said if isinstance(error, Unanswered) else str(error)
        return [*said, words], "nothing to scale" if block.kind == "zero" else ""
    exact = np.array([math.fsum(column) for column in block.x.astype(float).T])
    off, most = float(np.abs(found.got - exact).max()), len(block.x) * block.limit
    if not off <= found.bound + _ROUNDED * most:
        return [*said, message(4, "off", off=f"{off:.3g}", bound=f"{found.bound:.3g}")], _slip(
            block, found, off
        )
    if found.bound > _USEFUL * most:
        slip = (
            "no scale"
            if np.abs(found.whole).max() <= block.limit + 1
            else "a bound that says nothing"
        )
        return [
            *said,
            message(4, "wide", bound=f"{found.bound:.3g}", most=f"{_USEFUL * most:.3g}"),
        ], slip
    return None


@register(
    "question",
    "ex4-d",
    example=lambda rng: (
        _blocks(rng)[0][1].x[0],
        SimpleNamespace(n=4, limit=1.0, top=0, turn=0, hit=False),
    ),
    prelude=PRELUDE,
)
def floats(ask: Ask, rng: Rng) -> Verdict:
    """Judge whether sums of floats keep to the bound that is declared, and the bound says something."""
    bad: dict[str, set[int]] = {"plain": set(), "hard": set()}
    first: tuple[Sequence[str], str] | None = None
    problem: Unanswered | None = None
    for i, (share, block) in enumerate(_blocks(rng)):
        if not i:  # what is missing altogether, or stops everything
            try:
                ask("tell", block.x[0], _known(block.about()))
            except Unanswered as error:
                problem = error
        if found := _fault(ask, block, int(rng.integers(1, len(block.x)))):
            bad[share].add(i // 2 % 2)
            first = first or found
    part = sum(
        points * (1 - len(bad[share]) / 2)
        for share, points in (("plain", 8 / 15), ("hard", 7 / 15))
    )
    if problem and not part:
        raise problem
    said, mistake = first or ((), "")
    because = (misconception("ex4-d", mistake),) if mistake else ()
    return Verdict(round(part, 9), (*said, *because), mistake)
