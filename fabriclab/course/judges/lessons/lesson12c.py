"""Lesson 12c: the share of a link's rate that a sender reaches whose bytes on the way are limited."""

from collections.abc import Callable, Mapping
from typing import Any

from fabriclab import units
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.physics._facts import LIGHT
from fabriclab.registry import register
from fabriclab.texts import text

Share = Callable[[float, float, float], Any]  # window [B], rate [B/s], one way [m] -> share, 0..1
PER_METRE = 4.9e-9  # s/m; source: catalog media, fibre
ROUNDED = 5e-9  # s/m; source: catalog media, fibre, as many round it
# illustrative: relative; the library's 4.897 ns a metre is right, the rounded 5 ns is not
EXACT = 2e-3

# illustrative: a window, the rate of a link, its length; in two of them the window is large enough
LINKS = (
    ("4 MB", "400 Gb/s", "20 km"),  # illustrative: the example of the lesson
    ("4 MiB", "400 Gb/s", "50 km"),  # illustrative: one channel of NCCL
    ("16 MB", "400 Gb/s", "100 km"),  # illustrative: two sites
    ("256 MB", "800 Gb/s", "1000 km"),  # illustrative: two countries
    ("8 MB", "400 Gb/s", "100 m"),  # illustrative: a hall
    ("20 MB", "400 Gb/s", "30 km"),  # illustrative: a town
)


def share(window: float, rate: float, metres: float) -> float:
    """Return the share of the rate that a sender reaches, 0..1."""
    return min(1.0, _filled(window, rate, 2 * metres * PER_METRE))


def _rounded_light(window: float, rate: float, metres: float) -> float:
    return min(1.0, _filled(window, rate, 2 * metres * ROUNDED))


def _per_cent(window: float, rate: float, metres: float) -> float:
    return 100 * share(window, rate, metres)


def _kilometres(window: float, rate: float, metres: float) -> float:
    return share(window, rate, 1000 * metres)


def _bytes_that_fit(_: float, rate: float, metres: float) -> float:
    return rate * 2 * metres * PER_METRE


def _filled(window: float, rate: float, seconds: float) -> float:
    return window / (rate * seconds)


def _one_way(window: float, rate: float, metres: float) -> float:
    return min(1.0, _filled(window, rate, metres * PER_METRE))


def _not_limited(window: float, rate: float, metres: float) -> float:
    return _filled(window, rate, 2 * metres * PER_METRE)


def _upside_down(window: float, rate: float, metres: float) -> float:
    return min(1.0, 1 / _filled(window, rate, 2 * metres * PER_METRE))


def _vacuum(window: float, rate: float, metres: float) -> float:
    return min(1.0, _filled(window, rate, 2 * metres / LIGHT))


def _bits(window: float, rate: float, metres: float) -> float:
    return share(window, 8 * rate, metres)


def _rate_itself(window: float, rate: float, metres: float) -> float:
    return rate * share(window, rate, metres)


# What somebody with a mistake returns, by its name.
SHARE_MISTAKES: Mapping[str, Callable[[float, float, float], float]] = {
    "way back of the answer": _one_way,
    "not limited": _not_limited,
    "window as the whole": _upside_down,
    "a share in vacuum": _vacuum,
    "rate times eight": _bits,
    "rate for its share": _rate_itself,
    "light rounded": _rounded_light,
    "share in per cent": _per_cent,
    "metres taken for km": _kilometres,
    "bytes that fit for the share": _bytes_that_fit,
}


@register("check", "12c-write-share")
def share_of_a_link(answer: Share) -> Verdict:
    """Run ``answer(window, rate, metres)``, the share of the rate that a sender reaches, on links of many lengths."""
    cases = dict[str, tuple[float, float, float]]()
    for window, rate, far in LINKS:
        name = text("trace.long_link", window=window, rate=rate, far=far)
        cases[name] = (units.size(window), units.rate(rate), units.length(far))
    return compared("12c-write-share", answer, cases, share, SHARE_MISTAKES, _part, EXACT)


def _part(value: float) -> str:
    """Write a share with four digits."""
    return f"{value:.4g}"
