"""Lesson 25b: rings that share a link of PCIe."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from fabriclab import catalog, topologies, units
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.registry import register
from fabriclab.simulation import links_of_rings
from fabriclab.texts import text
from fabriclab.topologies.gigaio import WIRINGS, in_words, rings

Routes = Sequence[Sequence[str]]  # names of the links that each ring crosses
Together = Callable[[Routes, float], Any]  # and the rate of a link [B/s] -> of all rings [B/s]

# illustrative: three rings by hand, of which two meet on one link
_BY_HAND: Routes = (("a -> b", "b -> a"), ("a -> b", "b -> c", "c -> a"), ("d -> e", "e -> d"))


@cache
def routes_of(wiring: str) -> tuple[tuple[str, ...], ...]:
    """Return the links that each ring of a wiring crosses."""
    fabric = topologies.build("gigaio", wiring=wiring)
    return links_of_rings(fabric, rings(fabric))


def ring_cases() -> dict[str, tuple[Routes, float]]:
    """Return the rings of each published wiring and the rate of a link, by the wiring in words."""
    rate = catalog.value("links", "pcie4", "bandwidth_after_encoding")
    cases: dict[str, tuple[Routes, float]] = {text("trace.rings_by_hand"): (_BY_HAND, 1e9)}
    for wiring in WIRINGS:
        cases[in_words(wiring)] = (routes_of(wiring), rate)
    return cases


def _counts(routes: Routes) -> list[int]:
    """Return how many rings cross each link."""
    return list(Counter(link for ring in routes for link in ring).values())


def together(routes: Routes, rate: float) -> float:
    """Return the bus bandwidth of rings that carry equal parts of an array."""
    return len(routes) * rate / max(_counts(routes))


def _nothing_shared(routes: Routes, rate: float) -> float:
    return len(routes) * rate


def _one_ring(routes: Routes, rate: float) -> float:
    return rate / max(_counts(routes))


def _mean_link(routes: Routes, rate: float) -> float:
    counts = _counts(routes)
    return len(routes) * rate * len(counts) / sum(counts)


def _one_link(routes: Routes, rate: float) -> float:
    return rate


def _busiest_alone(routes: Routes, rate: float) -> float:
    return max(_counts(routes)) * rate


def _both_directions(routes: Routes, rate: float) -> float:
    cables = []
    for ring in routes:
        for link in ring:
            cables.append(frozenset(link.split(" -> ")))
    return len(routes) * rate / max(Counter(cables).values())


def _each_ring_alone(routes: Routes, rate: float) -> float:
    """Add up rings each at the rate that its own fullest link leaves it."""
    counts = Counter(link for ring in routes for link in ring)
    return sum(rate / max(counts[link] for link in ring) for ring in routes)


# What somebody with a mistake returns, by its name.
RING_MISTAKES: dict[str, Callable[[Routes, float], float]] = {
    "a link for each ring": _nothing_shared,
    "rate of one ring": _one_ring,
    "mean link": _mean_link,
    "rate of a single link": _one_link,
    "sharers for rings": _busiest_alone,
    "up and down as one link": _both_directions,
    "each ring by itself": _each_ring_alone,
}


@register("check", "25b-write-shared")
def shared(answer: Together) -> Verdict:
    """Run ``answer(routes, rate)`` on the rings of the five published wirings."""
    return compared(
        "25b-write-shared", answer, ring_cases(), together, RING_MISTAKES, units.format_rate
    )
