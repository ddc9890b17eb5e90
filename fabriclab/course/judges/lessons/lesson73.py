"""Lesson 73: the time of a token."""

from collections.abc import Callable
from functools import cache
from typing import Any

from fabriclab import units
from fabriclab.catalog import value
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    Verdict,
    first_wrong,
    is_same,
    mistake_of,
    number_of,
    wrong,
)
from fabriclab.course.shown import digits
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.workload import models

# Weights of a GPU [B], its memory [B/s], cache of a GPU [B], layers and start-up of an all-reduce [s] -> time [s]
TokenTime = Callable[[float, float, float, int, float], Any]
TokenCase = tuple[float, float, float, int, float]


def token_time(weights: float, memory: float, cache: float, layers: int, latency: float) -> float:
    """Return the time of a token: weights and cache are read once, and each layer waits for two sums [s]."""
    return (weights + cache) / memory + 2 * layers * latency


def _no_waiting(weights: float, memory: float, cache: float, layers: int, latency: float) -> float:
    return token_time(weights, memory, cache, layers, 0.0)


def _one_wait_a_layer(
    weights: float, memory: float, cache: float, layers: int, latency: float
) -> float:
    return token_time(weights, memory, cache, layers, latency / 2)


def _one_sum(weights: float, memory: float, cache: float, layers: int, latency: float) -> float:
    """Return the time of somebody who waits once for all layers."""
    return (weights + cache) / memory + latency


def _sums_of_a_training_step(
    weights: float, memory: float, cache: float, layers: int, latency: float
) -> float:
    """Return the time of somebody who counts the sums of the backward pass, too."""
    return token_time(weights, memory, cache, layers, 2 * latency)


def _cache_forgotten(
    weights: float, memory: float, cache: float, layers: int, latency: float
) -> float:
    return token_time(weights, memory, 0.0, layers, latency)


def _weights_for_each_layer(
    weights: float, memory: float, cache: float, layers: int, latency: float
) -> float:
    return layers * token_time(weights, memory, cache, 1, latency)


def _waiting_overlapped(
    weights: float, memory: float, cache: float, layers: int, latency: float
) -> float:
    return max((weights + cache) / memory, 2 * layers * latency)


def _rate_for_time(
    weights: float, memory: float, cache: float, layers: int, latency: float
) -> float:
    return 1 / token_time(weights, memory, cache, layers, latency)


# What somebody with a mistake returns, by its name.
TOKEN_MISTAKES: dict[str, Callable[[float, float, float, int, float], float]] = {
    "no waiting": _no_waiting,
    "one wait a layer": _one_wait_a_layer,
    "one sum": _one_sum,
    "sums of a training step": _sums_of_a_training_step,
    "cache forgotten": _cache_forgotten,
    "weights for each layer": _weights_for_each_layer,
    "waiting overlapped": _waiting_overlapped,
    "rate for time": _rate_for_time,
}


@cache
def token_cases() -> tuple[TokenCase, ...]:
    """Return two published models on one box and on two, a server of long requests, and one without waiting."""
    boxes = (("Llama 3.1 405B", 8, 1, 14e-6), ("Llama 3.1 405B", 16, 1, 150e-6))
    others = (("Llama 3 70B", 8, 64, 16e-6), ("Llama 3 70B", 1, 1, 0.0))
    memory = float(value("accelerators", "mi300x", "hbm_bandwidth"))
    cases = []
    for name, gpus, requests, latency in (*boxes, *others):
        model = models.preset(name)
        kept = requests * model.cache_bytes(1024) / min(gpus, model.kv_heads)
        cases.append((model.weight_bytes() / gpus, memory, kept, model.layers, latency))
    return tuple(cases)


@register("check", "73-write-token")
def time_of_token(answer: TokenTime) -> Verdict:
    """Run ``answer(weights, memory, cache, layers, latency)``, the time of a token [s], on published models."""
    cases = token_cases()
    returned = [number_of(answer, *each) for each in cases]
    right = [token_time(*each) for each in cases]
    tried = tuple(map(_token_case, cases, returned, right))
    i = first_wrong(tried)
    if i is None:
        return True, [], ""

    numbers = {"got": f"{returned[i]:.4g}", "right": f"{right[i]:.4g}"}
    line = text("function.token", case=_token_words(cases[i]), **numbers)
    look = text("trace.look_time", ratio=digits(returned[i] / right[i]))
    mistake = mistake_of(returned, TOKEN_MISTAKES, cases)
    return wrong("73-write-token", line, mistake, Trace(tried, look=look))


def _token_words(each: TokenCase) -> str:
    """Return a case of a token in words."""
    weights, memory, kept, layers, latency = each
    return text(
        "trace.token",
        weights=units.format_size(weights),
        memory=units.format_rate(memory),
        cache=units.format_size(kept),
        layers=layers,
        latency=units.format_time(latency),
    )


def _token_case(each: TokenCase, found: float, right: float) -> TriedCase:
    """Return the case of a token, and whether its time is right."""
    return TriedCase(
        _token_words(each), is_same(found, right), "", f"{found:#.4g} s", f"{right:#.4g} s"
    )
