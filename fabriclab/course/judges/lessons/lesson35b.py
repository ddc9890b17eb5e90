"""Lesson 35b: how many tokens hide the weights of a layer that is gathered."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fabriclab import catalog
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.texts import text

Tokens = Callable[[float, float, float], Any]  # operations [1/s], rate [B/s], bytes of a weight

_OPERATIONS = 2  # of a token for each weight of a product, forward: multiply and add
_BITS = 8  # of a byte
# illustrative: how quick a GPU is, as a multiple of that of our job; its port; bytes of a weight in bf16, FP8, fp32
_CASES = ((1.0, "NDR", 2.0), (2.0, "NDR", 1.0), (1.0, "XDR", 2.0), (0.5, "HDR", 4.0))


@cache
def cases() -> Mapping[str, tuple[float, float, float]]:
    """Return what a function is tried on, by its name: GPUs as quick as that of our job and others, and ports."""
    reached = float(catalog.case().sustained_bf16)
    found = {}
    for speed, port, width in _CASES:
        rate = float(catalog.links[port]["quoted"].si)
        name = text("trace.weights", flops=speed * reached / 1e12, rate=rate, width=width)
        found[name] = (speed * reached, rate, width)
    return found


def tokens(flops: float, rate: float, width: float) -> float:
    """Return how many tokens compute as long as their weights take on the wire."""
    return width / rate * flops / _OPERATIONS


def _one_operation(flops: float, rate: float, width: float) -> float:
    return _OPERATIONS * tokens(flops, rate, width)


def _backward(flops: float, rate: float, width: float) -> float:
    return tokens(flops, rate, width) / 2


def _in_bits(flops: float, rate: float, width: float) -> float:
    return _BITS * tokens(flops, rate, width)


def _without_width(flops: float, rate: float, width: float) -> float:
    return tokens(flops, rate, 1.0)


# What somebody with a mistake returns, by its name.
TOKENS_MISTAKES: Mapping[str, Tokens] = {
    "one operation for a weight": _one_operation,
    "backward work for a forward gather": _backward,
    "rate in bits": _in_bits,
    "bytes of a weight forgotten": _without_width,
}


@register("check", "35b-write-tokens")
def tokens_to_hide(answer: Tokens) -> Verdict:
    """Run ``answer(flops, rate, bytes_per_weight)``, which returns a number of tokens."""
    return compared("35b-write-tokens", answer, cases(), tokens, TOKENS_MISTAKES, _counted)


def _counted(number: float) -> str:
    """Write a number of tokens."""
    return text("trace.tokens", number=number)
