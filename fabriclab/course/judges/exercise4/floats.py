"""Exercise 4 (d), the judge of sums of floats in a switch that adds integers: scale, overflow, error bound."""

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

_LANES = 64  # values of a block
_TURNS = 4  # sums of a block after which every worker must have the result
_USEFUL = 1e-6  # of n * limit: a larger bound is of no use
_ROUNDED = 1e-14  # of n * limit: what the last division of a worker may lose in 64 bits
_SAME = 1e-9  # relative, with room: what the order of products may change in a bound
_NARROW = 1e-5  # relative: a sum that goes so little beyond a limit has gone there by rounding
_GAPS = 2**25  # beyond it floats of 32 bits are multiples of 4
_LEAST = -(2**31)  # whole numbers of 32 bits
_MOST = 2**31 - 1
FUNCTIONS = ("tell", "quantise", "dequantise", "bound")


class Block(NamedTuple):
    """The values of all workers for one block."""

    kind: str
    x: NDArray[np.float32]  # (n, lanes)
    limit: float

    def about(self) -> dict[str, Any]:
        """Return what all workers know about the block at first."""
        return {"n": len(self.x), "limit": self.limit, "top": 0, "turn": 0, "hit": False}


class Sum(NamedTuple):
    """The sum of a block, with the integers of the last turn, and whether an addition reached a limit."""

    whole: list[list[int]]
    hit: bool
    got: Floats  # (lanes,)
    bound: float


class Slip(Misread):
    """An answer that no switch can use, with the name of the mistake behind it."""

    def __init__(self, words: str, mistake: str) -> None:
        super().__init__(words)
        self.mistake = mistake


# Four plain and four hard; of each the first two are set 0, the others set 1.
_KINDS = ("plain", "plain", "plain", "plain", "largest", "zero", "mixed", "tiny")
# illustrative: powers of ten between which a limit is drawn. Each set has one of both, so no scale fits all its blocks.
_SMALL_LIMITS = (-3, -2)
# illustrative: as above
_LARGE_LIMITS = (2, 3)
_LIMITS = 2 * (_SMALL_LIMITS, _LARGE_LIMITS) + 2 * (_LARGE_LIMITS, _SMALL_LIMITS)


def _block(rng: Rng, kind: str, limits: tuple[float, float]) -> Block:
    """Draw a block of a kind, with a limit between two powers of ten."""
    n = int(rng.integers(3, 17))
    limit = float(np.float32(10 ** rng.uniform(*limits)))
    x = rng.normal(0, 0.1, (n, _LANES)).clip(-0.9, 0.9)  # in parts of the limit
    if kind == "largest":
        x = np.full((n, _LANES), 1.0) * rng.choice([-1, 1], _LANES)
    elif kind == "mixed":
        # Positive values come first, so the total is small and partial sums are large.
        sign = np.where(np.arange(n)[:, None] < n // 2, 1.0, -1.0)
        x = sign * rng.uniform(0.9, 1, (n, _LANES))
    elif kind == "zero":
        x = x * 0.0
    elif kind == "tiny":
        x = x * 1e-7
    return Block(kind, (x * limit).astype(np.float32), limit)


def summed(ask: Ask, block: Block, spare: int = 0) -> Sum:
    """Sum a block as the learner's functions do; raise Misread if they do something that no switch can do.

    One more worker, whose values never reach the switch, is placed before worker ``spare``, so that functions that add
    without the switch are found out.
    """
    about = block.about()
    tops = [_whole([ask("tell", x, _known(about))], "tell")[0] for x in block.x]
    about["top"] = max(tops)
    workers = np.insert(block.x, spare, np.roll(block.x[spare], 1), 0)  # (n + 1, lanes)
    for turn in range(_TURNS):
        about["turn"] = turn
        about["hit"] = False
        whole = [_whole(ask("quantise", x, _known(about)), "quantise", _LANES) for x in workers]
        whole.pop(spare)
        total, about["hit"] = _added(whole)

        got = ask("dequantise", total, _known(about))
        if got is None:
            continue
        if not _are_floats(got):
            raise Misread(message(4, "floats", lanes=_LANES, got=brief(got)))
        bound = number(ask("bound", _known(about)), "")
        return Sum(whole, about["hit"], np.array(got, float), bound)
    raise Slip(message(4, "turns", most=_TURNS), "asks again for the same")


def _added(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int32], bool]:
    """Return the sum of the rows as a switch adds them, and whether an addition reached a limit of 32 bits."""
    total = np.zeros(_LANES, np.int64)
    hit = False
    for row in rows:
        total += row
        if (total > _MOST).any() or (total < _LEAST).any():
            hit = True
        total = total.clip(_LEAST, _MOST)
    return total.astype(np.int32), hit


def _are_floats(values: Any) -> bool:
    """Return whether values are a list with one number for each lane."""
    if not isinstance(values, list) or len(values) != _LANES:
        return False
    return all(isinstance(value, int | float) for value in values)


def _known(about: dict[str, Any]) -> Proxy:
    """Return the facts about a block that a function gets, as an object."""
    return Proxy(SimpleNamespace(), (), dict(about))


def _whole(values: Any, name: str, n: int = 0) -> list[int]:
    """Return integers of 32 bits, ``n`` of them if it is given; raise Misread if they are anything else."""
    fits = isinstance(values, list) and (not n or len(values) == n)
    if not fits or not all(map(_is_word, values)):
        got = brief(values if n else values[0])
        said = message(4, "whole", name=name, n=n or 1, got=got)
        if fits and all(isinstance(value, int | float) and abs(value) <= _MOST for value in values):
            raise Slip(said, "not rounded")
        raise Misread(said)
    return list(map(int, values))


def _is_word(value: Any) -> bool:
    """Return whether a value is an integer of 32 bits."""
    if not isinstance(value, int | float):
        return False
    return _LEAST <= value <= _MOST and float(value).is_integer()


def _slip(block: Block, found: Sum, off: float) -> str:
    """Return the name of the mistake in a sum whose error exceeds the bound, if it is known."""
    whole = np.array(found.whole)  # (n, lanes)
    exact = block.x.astype(float)  # (n, lanes)
    peaks = np.abs(block.x).max(1)  # (n,)
    tops = np.abs(whole).max(1)  # (n,)
    telling = (peaks > 0) & (tops > 1000)  # workers whose numbers show their scale
    scales = tops[telling] / peaks[telling]
    if found.hit:
        narrow = np.abs(whole.cumsum(0)).max() <= _MOST * (1 + _NARROW)
        return "no room for rounding" if narrow else "no room for the sum"
    if tops.max() <= block.limit + 1:
        return "no scale"
    if np.allclose(found.got, whole.sum(0)):
        return "not scaled back"
    if scales.size and np.ptp(scales) > 0.001 * scales.max():
        return "a scale for each worker"

    rounding = whole - exact * scales.max(initial=0)  # 2 at most, if rounded once
    # Times a power of two, the values stay floats of 32 bits.
    power_of_two = scales.size > 0 and math.frexp(scales.max())[0] == 0.5
    in_32_bits = _are_of_32_bits(whole) and not power_of_two
    if in_32_bits or (scales.size and np.abs(rounding).max() > 2.5):
        return "computed in 32 bits"
    mean_is_right = np.allclose(
        found.got * len(block.x), exact.sum(0), rtol=1e-3, atol=1e-6 * block.limit
    )
    if mean_is_right:
        return "mean for the sum"
    if _has_wrapped(found.got - exact.sum(0)):
        return "overflow in 32 bits"
    if found.bound == 0:
        return "no error declared"
    # A sum of few digits fits into 32 bits by chance; 64 of them do not.
    if np.array_equal(found.got, found.got.astype(np.float32)):
        return "result in 32 bits"
    return "one rounding counted" if off <= len(block.x) * found.bound else ""


def _are_of_32_bits(whole: NDArray[np.int64]) -> bool:
    """Return whether numbers are so large that floats of 32 bits leave gaps there, and none lies in a gap."""
    large = np.abs(whole).max() > _GAPS
    return bool(large and np.array_equal(whole, whole.astype(np.float32)))


def _has_wrapped(errors: Floats) -> bool:
    """Return whether errors are whole multiples of one, as when 2**32 is lost now and then."""
    sizes = abs(errors)
    large = sizes[sizes > 1e-3 * sizes.max()]
    turns = large / large.min() if large.size else large
    some_are_right = large.size < errors.size
    return bool(large.size and some_are_right and np.allclose(turns, turns.round(), rtol=1e-3))


def _width(block: Block, found: Sum) -> str:
    """Return the name of the mistake behind a bound that is too wide to be of use."""
    whole = np.array(found.whole)  # (n, lanes)
    largest = np.abs(whole).max()
    if largest <= block.limit + 1:
        return "no scale"
    peak = np.abs(block.x).max()
    # What rounding can do at the scale that the largest value shows, twice over: such a bound is honest.
    honest = 2 * 0.5 * len(block.x) * peak / largest if largest else np.inf
    return "a scale that wastes bits" if found.bound <= honest else "a bound that says nothing"


class Fault(NamedTuple):
    """A fault in a block."""

    said: list[str]
    mistake: str  # its name, or nothing


def _fault(ask: Ask, block: Block, spare: int) -> Fault | None:
    """Return the fault in a block, or None."""
    n = len(block.x)
    kind = message(4, f"block.{block.kind}")
    said = message(4, "block", kind=kind, n=n, limit=f"{block.limit:.4g}")
    unread = "nothing to scale" if block.kind == "zero" else ""
    try:
        found = summed(ask, block, spare)
    except Misread as error:
        return Fault([said, str(error)], getattr(error, "mistake", "") or unread)
    except Unanswered as error:
        return Fault([said, error.said], unread)

    exact = np.array([math.fsum(column) for column in block.x.astype(float).T])
    off = float(np.abs(found.got - exact).max())
    most = n * block.limit
    if not off <= found.bound + _ROUNDED * most:
        words = message(4, "off", off=f"{off:.3g}", bound=f"{found.bound:.3g}")
        return Fault([said, words], _slip(block, found, off))
    if found.bound > _USEFUL * most * (1 + _SAME):
        words = message(4, "wide", bound=f"{found.bound:.3g}", most=f"{_USEFUL * most:.3g}")
        return Fault([said, words], _width(block, found))
    return None


# What the two sets of plain blocks and the two sets of hard ones are worth together.
_SHARES = {"plain": 8 / 15, "hard": 7 / 15}


def _example(rng: Rng) -> Any:
    """Return the values of a worker, and the facts about a block that functions get."""
    block = _block(rng, _KINDS[0], _LIMITS[0])
    return block.x[0], SimpleNamespace(**block.about())


@register("question", "ex4-d", example=_example, prelude=PRELUDE)
def floats(ask: Ask, rng: Rng) -> Verdict:
    """Judge whether sums of floats stay within the declared bound, and the bound is small enough to be useful."""
    blocks = [_block(rng, *each) for each in zip(_KINDS, _LIMITS, strict=True)]
    problem = _stopped(ask, blocks[0])
    spoiled: dict[str, set[int]] = {"plain": set(), "hard": set()}  # sets (0, 1) with a fault
    faults = list[Fault]()
    for i, block in enumerate(blocks):
        fault = _fault(ask, block, int(rng.integers(1, len(block.x))))
        if fault:
            share = "plain" if block.kind == "plain" else "hard"
            set_of_share = i // 2 % 2
            spoiled[share].add(set_of_share)
            faults.append(fault)

    part = sum(points * (1 - len(spoiled[share]) / 2) for share, points in _SHARES.items())
    # Where nothing counts, a function that does not answer is told as such, and not as a fault of a block.
    if problem and not part:
        raise problem
    if not faults:
        return Verdict(round(part, 9))
    said = list(faults[0].said)
    mistake = faults[0].mistake
    if mistake:
        said.append(misconception("ex4-d", mistake))
    return Verdict(round(part, 9), tuple(said), mistake)


def _stopped(ask: Ask, block: Block) -> Unanswered | None:
    """Return the problem if a function is missing or stops everything."""
    try:
        ask("tell", block.x[0], _known(block.about()))
    except Unanswered as error:
        return error
    return None
