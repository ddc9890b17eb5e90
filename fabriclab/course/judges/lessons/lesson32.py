"""Lesson 32: the size at which a ring overtakes a tree."""

from collections.abc import Callable
from functools import cache
from math import ceil, log2
from typing import Any

from fabriclab import units, validate
from fabriclab.catalog import published
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.texts import text

# ranks, latency of a step [s], rate [B/s] -> size [B]
Crossover = Callable[[int, float, float], Any]
# Published all-reduces, and what ran at their smallest sizes: one server and many, powers of two and not. A ring was
# forced on the first; in the next two NCCL's plan takes a ring (the second begins at 32 MiB, the third is one server).
# Small arrays of the others go by trees in NCCL's plan.
# source: catalog published sweeps, column algo; estimate
_SWEEPS = {
    "h100x8_ring": "ring",
    "xx_10n_g1_all_reduce": "ring",
    "alps_N001_ofi1.13.0": "ring",
    "alps_N032_ofi1.13.0": "binomial_tree",
    "polaris_n8_2.18_all_reduce_env1": "binomial_tree",
    "polaris_n8_2.18_all_reduce_env4": "binomial_tree",
    "sophia_n2_2.22.3_all_reduce_env2": "binomial_tree",
}
_WHOLE_BYTES = 1e-5  # illustrative: relative, so that a size in whole bytes is right as well


@cache
def systems() -> dict[str, tuple[int, float, float]]:
    """Return ranks, latency of a step [s] and rate [B/s] of the systems on which the function is tried, by name."""
    tried = dict[str, tuple[int, float, float]]()
    for sweep, algorithm in _SWEEPS.items():
        numbers = validate.per_step(sweep, algorithm)
        name = text(
            "trace.step_numbers",
            system=published.system(sweep)["system"],
            ranks=numbers.ranks,
            latency=units.format_time(numbers.latency),
            rate=units.format_rate(numbers.rate),
        )
        tried[name] = (numbers.ranks, numbers.latency, numbers.rate)
    return tried


def crossover(n: int, alpha: float, beta: float) -> float:
    """Return the size at which a ring and a binomial tree over n ranks take equally long [B]."""
    levels = ceil(log2(n))
    more_steps = 2 * (n - 1) - 2 * levels  # of the ring
    more_arrays = 2 * levels - 2 * (n - 1) / n  # of the tree
    return alpha * beta * more_steps / more_arrays


def _n_half(n: int, alpha: float, beta: float) -> float:
    return alpha * beta


def _half_a_tree(n: int, alpha: float, beta: float) -> float:
    levels = ceil(log2(n))
    return alpha * beta * (2 * (n - 1) - levels) / (levels - 2 * (n - 1) / n)


def _half_a_ring(n: int, alpha: float, beta: float) -> float:
    levels = ceil(log2(n))
    return alpha * beta * (n - 1 - 2 * levels) / (2 * levels - (n - 1) / n)


def _broken_levels(n: int, alpha: float, beta: float) -> float:
    return alpha * beta * (2 * (n - 1) - 2 * log2(n)) / (2 * log2(n) - 2 * (n - 1) / n)


def _upside_down(n: int, alpha: float, beta: float) -> float:
    return (alpha * beta) ** 2 / crossover(n, alpha, beta)


def _two_arrays(n: int, alpha: float, beta: float) -> float:
    return alpha * beta * (2 * (n - 1) - 2 * ceil(log2(n))) / (2 - 2 * (n - 1) / n)


def _ring_of_whole_arrays(n: int, alpha: float, beta: float) -> float:
    return -alpha * beta


def _other_sign(n: int, alpha: float, beta: float) -> float:
    return -crossover(n, alpha, beta)


def _time_there(n: int, alpha: float, beta: float) -> float:
    return 2 * (n - 1) * (alpha + crossover(n, alpha, beta) / n / beta)


def _in_bits(n: int, alpha: float, beta: float) -> float:
    return 8 * crossover(n, alpha, beta)


# What somebody with a mistake returns, by its name.
CROSSOVER_MISTAKES: dict[str, Callable[[int, float, float], float]] = {
    "n_half for the crossover": _n_half,
    "tree goes one way": _half_a_tree,
    "ring goes round once": _half_a_ring,
    "part of a level": _broken_levels,
    "quotient upside down": _upside_down,
    "tree sends two arrays": _two_arrays,
    "whole arrays round the ring": _ring_of_whole_arrays,
    "difference with the wrong sign": _other_sign,
    "time for a size": _time_there,
    "size in bits": _in_bits,
}


@register("check", "32-write-crossover")
def where_a_ring_overtakes(answer: Crossover) -> Verdict:
    """Run ``answer(n, alpha, beta)``, a size in bytes, on the numbers of published systems."""
    return compared(
        "32-write-crossover",
        answer,
        systems(),
        crossover,
        CROSSOVER_MISTAKES,
        _in_bytes,
        _WHOLE_BYTES,
    )


def _in_bytes(size: float) -> str:
    """Write a size [B] in whole bytes, or with six digits if it is a small number."""
    return f"{size:,.0f} B" if abs(size) >= 1000 else f"{size:.6g} B"
