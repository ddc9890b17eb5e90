"""Lesson 81d: the time of an all-reduce over two levels, inside servers and between them."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fabriclab.catalog import value
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.units import format_time

# Array [B], GPUs of a server, servers, rates inside and between [B/s] -> time [s]
Levels = Callable[[float, int, int, float, float], Any]
Build = tuple[float, int, int, float, float]

# Array [B], GPUs of a server, servers, link inside, NIC.
# illustrative: the first two stand in the lesson, the others set each mistake apart
_BUILDS = (
    (2**30, 8, 16, "nvlink4", "cx7"),
    (2**30, 8, 16, "pcie5", "cx7"),
    (2**30, 4, 32, "pcie4", "cx8"),
    (2**24, 2, 3, "pcie6", "cx7"),
)
_ROUNDED = 1e-3  # illustrative: a few digits on paper are near enough


@cache
def builds() -> tuple[Build, ...]:
    """Return the builds on which a function is tried: links and NICs of the catalog."""
    tried = list[Build]()
    for size, gpus, servers, link, nic in _BUILDS:
        rate = "bandwidth_per_gpu" if link.startswith("nvlink") else "bandwidth_after_encoding"
        inside, between = value("links", link, rate), value("nics", nic, "throughput")
        tried.append((float(size), gpus, servers, float(inside), float(between)))
    return tuple(tried)


def two_levels(size: float, gpus: int, servers: int, inside: float, between: float) -> float:
    """Return the time of a sum inside servers, between them, and handed out inside [s]; start-ups are left out."""
    return _around(size, gpus, inside) + _around(size / gpus, servers, between)


def _around(size: float, members: int, rate: float) -> float:
    """Return the time of a ring all-reduce by bytes alone [s]."""
    return 2 * (members - 1) / members * size / rate


def _whole(size: float, gpus: int, servers: int, inside: float, between: float) -> float:
    return _around(size, gpus, inside) + _around(size, servers, between)


def _half(size: float, gpus: int, servers: int, inside: float, between: float) -> float:
    return two_levels(size, gpus, servers, inside, between) / 2


def _at_once(size: float, gpus: int, servers: int, inside: float, between: float) -> float:
    return max(_around(size, gpus, inside), _around(size / gpus, servers, between))


def _share_inside(size: float, gpus: int, servers: int, inside: float, between: float) -> float:
    return _around(size / gpus, gpus, inside) + _around(size / gpus, servers, between)


def _own_share(size: float, gpus: int, servers: int, inside: float, between: float) -> float:
    """Return the time of somebody who lets each member send its own share as well."""
    return 2 * size / inside + 2 * size / gpus / between


def _one_ring(size: float, gpus: int, servers: int, inside: float, between: float) -> float:
    return _around(size, gpus * servers, between)


# What somebody with a mistake returns, by its name.
LEVELS_MISTAKES: Mapping[str, Callable[[float, int, int, float, float], float]] = {
    "whole array between servers": _whole,
    "one half of the sum": _half,
    "levels at once": _at_once,
    "share inside as well": _share_inside,
    "last share counted": _own_share,
    "one ring over all GPUs": _one_ring,
}


@register("check", "81d-write-levels")
def time_of_both(answer: Levels) -> Verdict:
    """Run ``answer(size, gpus, servers, inside, between)``, the time of an all-reduce over two levels."""
    cases = {
        text(
            "trace.levels", size=size, gpus=gpus, servers=servers, inside=inside, between=between
        ): (size, gpus, servers, inside, between)
        for size, gpus, servers, inside, between in builds()
    }
    return compared(
        "81d-write-levels", answer, cases, two_levels, LEVELS_MISTAKES, format_time, _ROUNDED
    )
