"""Lesson 12c: the share of a link's rate that a sender reaches whose bytes on the way are limited."""

from collections.abc import Callable, Mapping
from typing import Any

from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.physics._facts import LIGHT
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.units import format_rate

Share = Callable[[float, float, float], Any]  # window [B], rate [B/s], one way [m] -> share, 0..1
PER_METRE = 4.9e-9  # s/m; source: catalog media, fibre

# illustrative: a window [B], the rate of a link [B/s], its length [m]; two of them have a window that is large enough
LINKS = (
    (4e6, 50e9, 20e3),
    (4 * 2**20, 50e9, 50e3),
    (16e6, 50e9, 100e3),
    (256e6, 100e9, 1000e3),
    (8e6, 50e9, 100.0),
    (20e6, 50e9, 30e3),
)


def share(window: float, rate: float, metres: float) -> float:
    """Return the share of the rate that a sender reaches, 0..1."""
    return min(1.0, _filled(window, rate, 2 * metres * PER_METRE))


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
    "one way only": _one_way,
    "not limited": _not_limited,
    "upside down": _upside_down,
    "speed in vacuum": _vacuum,
    "bits for bytes": _bits,
    "rate for its share": _rate_itself,
}


@register("check", "12c-write-share")
def share_of_a_link(answer: Share) -> Verdict:
    """Run ``answer(window, rate, metres)``, the share of the rate that a sender reaches, on links of many lengths."""
    cases = {
        text(
            "trace.long_link",
            window=f"{window / 1e6:.4g} MB",
            rate=format_rate(rate),
            km=f"{metres / 1e3:g}",
        ): (window, rate, metres)
        for window, rate, metres in LINKS
    }
    return compared("12c-write-share", answer, cases, share, SHARE_MISTAKES, _part)


def _part(value: float) -> str:
    """Write a share with four digits."""
    return f"{value:.4g}"
