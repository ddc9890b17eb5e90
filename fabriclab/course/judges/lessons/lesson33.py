"""Lesson 33: the number of pieces of a pipelined chain, and the bubble of a pipeline of layers."""

from collections.abc import Callable, Mapping
from functools import cache
from math import sqrt
from typing import Any

import numpy as np

from fabriclab import catalog
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    ROUNDING,
    Verdict,
    compared,
    first_wrong,
    mistake_of,
    number_of,
    told,
    wrong,
)
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.workload import models

Chain = tuple[int, float, float, float]  # servers, size [B], rate [B/s], latency of a message [s]
Pieces = Callable[[int, float, float, float], Any]
Bubble = Callable[[int, int], Any]  # stages, micro-batches -> share of the time

_NEAR = 0.01  # relative difference at which a chain takes less than 0.01 % longer than the best one
_CONFIGURATION = 1000.0  # illustrative: bytes of a small file

# Pipelines: stages and micro-batches. The picture of the lesson, our job in four stages, and deeper ones.
# illustrative: sizes that set each mistake apart
PIPELINES: tuple[tuple[int, int], ...] = ((4, 2), (4, 16), (8, 8), (16, 64), (1, 5))


@cache
def chains() -> tuple[Chain, ...]:
    """Return the chains on which a function is tried: our job first, then published models and rates of ports."""
    job = catalog.case()
    latency = float(job.ring_step_latency)
    weights = {
        name: 2.0 * models.preset(name).parameters for name in ("Llama 3 8B", "Llama 3 405B")
    }
    rates = {name: float(catalog.links[name]["quoted"].si) for name in ("HDR", "XDR")}
    return (
        (int(job.servers), 2.0 * float(job.parameters), float(job.nic_rate), latency),
        (6, weights["Llama 3 8B"], rates["HDR"], latency),
        (512, weights["Llama 3 405B"], rates["XDR"], latency),  # illustrative: servers
    )


@cache
def short_chains() -> tuple[Chain, ...]:
    """Return chains that are best left in one piece: a small file, and a source with one receiver."""
    job = catalog.case()
    latency, rate = float(job.ring_step_latency), float(job.nic_rate)
    return (8, _CONFIGURATION, rate, latency), (2, 2.0 * float(job.parameters), rate, latency)


def chain_time(servers: int, size: float, rate: float, latency: float, pieces: Any) -> Any:
    """Return how long a chain takes with each number of pieces [s]."""
    messages = servers - 2 + pieces  # one after the other
    return messages * (latency + size / (pieces * rate))


@cache
def fewest_seconds(servers: int, size: float, rate: float, latency: float) -> int:
    """Return the whole number of pieces with which a chain takes the shortest time, by trying all of them."""
    most = int(2 * _by_root(servers, size, rate, latency)) + 2
    pieces = np.arange(1, most + 1)
    return int(pieces[np.argmin(chain_time(servers, size, rate, latency, pieces))])


def _by_root(servers: int, size: float, rate: float, latency: float) -> float:
    return sqrt((servers - 2) * size / (latency * rate))


def _latency_of_a_piece(servers: int, size: float, rate: float, latency: float) -> float:
    return size / (latency * rate)


def _any_length(servers: int, size: float, rate: float, latency: float) -> float:
    return sqrt(size / (latency * rate))


def _for_each_server(servers: int, size: float, rate: float, latency: float) -> float:
    return float(servers)


def _for_each_hop(servers: int, size: float, rate: float, latency: float) -> float:
    return sqrt((servers - 1) * size / (latency * rate))


def _for_all_servers(servers: int, size: float, rate: float, latency: float) -> float:
    return sqrt(servers * size / (latency * rate))


def _without_root(servers: int, size: float, rate: float, latency: float) -> float:
    return (servers - 2) * size / (latency * rate)


def _in_bytes(servers: int, size: float, rate: float, latency: float) -> float:
    return size / max(1.0, _by_root(servers, size, rate, latency))


# What somebody with a mistake returns; several rules may have one name. Tried on `chains`.
PIECES_MISTAKES: tuple[tuple[str, Callable[..., float]], ...] = (
    ("latency of a piece equals its bytes", _latency_of_a_piece),
    ("length of the chain forgotten", _any_length),
    ("one piece for each server", _for_each_server),
    ("hops counted that are not left", _for_each_hop),
    ("hops counted that are not left", _for_all_servers),
    ("square root forgotten", _without_root),
    ("bytes of a piece", _in_bytes),
)
LESS_THAN_ONE = "less than one piece"


@register("check", "33-write-pieces")
def best_pieces(answer: Pieces) -> Verdict:
    """Run ``answer(servers, size, rate, latency)``; right is a number of pieces with the shortest time.

    A number that is not whole counts as right if it is less than one piece from the best one.
    """
    asked = (*chains(), *short_chains())
    returned = [number_of(answer, *chain) for chain in asked]
    tried = tuple(map(_tried, asked, returned))
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    line = told(answer, tried[place])
    look = ""
    if returned[place] >= 1:
        took, best = (
            float(chain_time(*asked[place], pieces))
            for pieces in (returned[place], fewest_seconds(*asked[place]))
        )
        look = text("trace.look_pieces", took=took, best=best)
    return wrong("33-write-pieces", line, _mistake(returned), Trace(tried, look=look))


def _mistake(returned: list[float]) -> str:
    """Return the name of the mistake that explains the numbers, or nothing."""
    long = len(chains())
    if all(tried.right for tried in map(_tried, chains(), returned[:long])):
        return LESS_THAN_ONE if min(returned[long:]) < 1 else ""
    for name, rule in PIECES_MISTAKES:
        # whole numbers of pieces, rounded up or down, are as good
        if mistake_of(returned[:long], {name: rule}, chains(), rounding=_NEAR):
            return name
    return ""


def _tried(chain: Chain, found: float) -> TriedCase:
    """Return the case of a chain, and whether a number of pieces is near enough to the best one."""
    servers, size, rate, latency = chain
    best = fewest_seconds(*chain)
    is_near = found >= 1 - ROUNDING and (abs(found - best) < 1 or abs(found / best - 1) <= _NEAR)
    name = text("trace.chain", n=servers, size=size, rate=rate, latency=latency)
    return TriedCase(name, bool(is_near), "", _pieces(found), _pieces(best))


def _pieces(number: float) -> str:
    """Write a number of pieces."""
    return text("trace.pieces", number=f"{number:,.0f}" if number >= 10 else f"{number:.3g}")


# Bubble ---------------------------------------------------------------------------------------------------------------


def bubble(stages: int, microbatches: int) -> float:
    """Return the share of a step in which a stage of a pipeline waits, with GPipe or 1F1B."""
    return (stages - 1) / (microbatches + stages - 1)


def _of_the_work(stages: int, microbatches: int) -> float:
    return (stages - 1) / microbatches


def _one_stage(stages: int, microbatches: int) -> float:
    return 1 / stages


def _one_stage_more(stages: int, microbatches: int) -> float:
    return stages / (microbatches + stages)


def _work(stages: int, microbatches: int) -> float:
    return microbatches / (microbatches + stages - 1)


def _filled_and_drained(stages: int, microbatches: int) -> float:
    return 2 * (stages - 1) / (microbatches + 2 * (stages - 1))


# What somebody with a mistake returns, by its name.
BUBBLE_MISTAKES: Mapping[str, Callable[[int, int], float]] = {
    "ideal time as base": _of_the_work,
    "one stage is idle": _one_stage,
    "stage counted too much": _one_stage_more,
    "work for the bubble": _work,
    "filling and draining taken as whole passes": _filled_and_drained,
}


@register("check", "33-write-bubble")
def share_of_the_bubble(answer: Bubble) -> Verdict:
    """Run ``answer(stages, microbatches)``, the share of a step in which a stage waits."""
    cases = {
        text("trace.pipeline", stages=stages, m=microbatches): (stages, microbatches)
        for stages, microbatches in PIPELINES
    }
    return compared("33-write-bubble", answer, cases, bubble, BUBBLE_MISTAKES, _share)


def _share(value: float) -> str:
    """Write a share with four digits."""
    return f"{value:.4g}"
