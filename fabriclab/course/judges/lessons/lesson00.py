"""Lesson 00: the rate that stands for several rounds of a measurement."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    ROUNDING,
    Verdict,
    explained,
    mistake_of,
    number_of,
)
from fabriclab.registry import register
from fabriclab.texts import text

Rate = Callable[[int, NDArray[np.float64]], Any]  # size and the time of each round -> rate
# Size [B] and time of each round [s]. The first four were measured on two processors in the cloud: two copies of
# memory and two transfers over a socket. One round of the last was interrupted.
ROUNDS: Sequence[tuple[int, Sequence[float]]] = (
    (64 * 2**20, (8.79e-3, 8.67e-3, 8.69e-3, 8.62e-3, 8.48e-3)),
    (16 * 2**20, (1.733e-3, 1.202e-3, 1.142e-3, 1.145e-3, 1.188e-3, 1.197e-3)),
    (64 * 2**20, (21.6e-3, 21.2e-3, 21.4e-3, 22.5e-3, 22.9e-3)),
    (64 * 2**20, (24.6e-3, 25.3e-3, 24.3e-3, 24.4e-3, 22.4e-3)),
    (10**9, (0.1, 0.11, 0.9, 0.12, 0.13)),
)
RATE_MISTAKES: dict[str, Callable[[int, NDArray[np.float64]], float]] = {
    "mean": lambda size, times: size / times.mean(),
    "mean of rates": lambda size, times: float(np.mean(size / times)),
    "fastest": lambda size, times: size / times.min(),
    "slowest": lambda size, times: size / times.max(),
    "last": lambda size, times: size / times[-1],
    "first": lambda size, times: size / times[0],
    "not sorted": lambda size, times: size / times[len(times) // 2],
    "time": lambda size, times: float(np.median(times)),
    "upside down": lambda size, times: float(np.median(times)) / size,
    "all rounds": lambda size, times: size / times.sum(),
    "bits": lambda size, times: 8 * size / float(np.median(times)),
    "gigabytes": lambda size, times: size / float(np.median(times)) / 1e9,
}


@register("check", "00-write-rate")
def typical_rate(answer: Rate) -> Verdict:
    """Run ``answer(size, times)`` on rounds that were measured; right is the rate of the median round [B/s]."""
    returned = []
    for size, rounds in ROUNDS:
        times = np.array(rounds)
        returned.append(number_of(answer, size, times.copy()))

    cases = tuple(_rate_case(*each, rate) for each, rate in zip(ROUNDS, returned, strict=True))
    for (size, rounds), rate, tried in zip(ROUNDS, returned, cases, strict=True):
        if not tried.right:
            line = text(
                "function.rate",
                size=units.format_size(size),
                times=", ".join(units.format_time(each) for each in rounds),
                got=f"{rate:.4g}",
                right=f"{size / float(np.median(rounds)):.4g}",
            )
            measured = [(size, np.array(rounds)) for size, rounds in ROUNDS]
            name = mistake_of(returned, RATE_MISTAKES, measured)
            lines = [line, *explained("00-write-rate", name)]
            return False, lines, name, _rate_trace(cases, size, rounds, rate)
    return True, [], ""


def _rate_case(size: int, rounds: Sequence[float], rate: float) -> TriedCase:
    """Return the case of some rounds, and whether a rate is that of the median round."""
    times = np.sort(rounds)
    # With an even number of rounds either of the two in the middle will do, and so will what lies between.
    low = size / times[len(times) // 2] * (1 - ROUNDING)
    high = size / times[(len(times) - 1) // 2] * (1 + ROUNDING)
    is_right = bool(low <= rate <= high)
    right = rate if is_right else size / float(np.median(times))
    name = text("trace.rounds", size=units.format_size(size), n=len(rounds))
    return TriedCase(name, is_right, "", f"{rate:.3e} B/s", f"{right:.3e} B/s")


def _rate_trace(
    cases: tuple[TriedCase, ...], size: int, rounds: Sequence[float], rate: float
) -> Trace:
    """Return the trace of a rate that is wrong: the times that went in, and the time that the rate stands for."""
    head = (text("trace.round"), *(str(place) for place in range(1, 1 + len(rounds))))
    row = (text("trace.time"), *(units.format_time(each) for each in rounds))
    look = ""
    if rate > 0:
        words = {"size": units.format_size(size), "time": units.format_time(size / rate)}
        look = text("trace.look_rate", **words)
    return Trace(cases, head, (row,), look=look)
