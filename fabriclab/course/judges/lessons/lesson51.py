"""Lesson 51: the chance of a mark, and a control loop that tames an incast."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import (
    ROUNDING,
    Verdict,
    explained,
    mistake_of,
    name_of,
    number_of,
)
from fabriclab.registry import register
from fabriclab.scenarios import incast
from fabriclab.texts import text

# Length of a queue, Kmin, Kmax [B] and Pmax -> chance.
Chance = Callable[[float, float, float, float], Any]
ChanceCase = tuple[float, float, float, float]

# illustrative: queues in each of the three parts of the rule, and at both limits
_CASES: tuple[ChanceCase, ...] = (
    (50e3, 100e3, 400e3, 0.2),
    (250e3, 100e3, 400e3, 0.2),
    (500e3, 100e3, 400e3, 0.2),
    (100e3, 100e3, 400e3, 0.2),
    (30e3, 5e3, 200e3, 0.01),
    (900e3, 150e3, 1500e3, 1.0),
)


def chance(queue: float, kmin: float, kmax: float, pmax: float) -> float:
    """Return the chance with which a packet is marked that leaves a queue (random early detection)."""
    if queue <= kmin:
        return 0.0
    if queue > kmax:
        return 1.0
    return _line(queue, kmin, kmax, pmax)


def _line(queue: float, kmin: float, kmax: float, pmax: float) -> float:
    return pmax * (queue - kmin) / (kmax - kmin)


# What somebody with a mistake returns, by its name.
MARK_MISTAKES: dict[str, Callable[[float, float, float, float], float]] = {
    "no jump at Kmax": lambda q, low, high, most: min(max(_line(q, low, high, most), 0.0), most),
    "line goes on": lambda q, low, high, most: max(_line(q, low, high, most), 0.0),
    "line up to one": lambda q, low, high, most: min(max(_line(q, low, high, 1.0), 0.0), 1.0),
    "all from Kmin on": lambda q, low, high, most: float(q > low),
    "line from zero": lambda q, low, high, most: 1.0 if q > high else most * q / high,
}


@register("check", "51-write-mark")
def chance_of_mark(answer: Chance) -> Verdict:
    """Run ``answer(queue, kmin, kmax, pmax)``, the chance of a mark, on queues in all parts of the rule."""
    returned = [number_of(answer, *each) for each in _CASES]
    right = [chance(*each) for each in _CASES]
    tried = tuple(
        TriedCase(
            _words(each),
            bool(np.isclose(got, want, rtol=ROUNDING, atol=1e-12)),
            "",
            f"{got:.4g}",
            f"{want:.4g}",
        )
        for each, got, want in zip(_CASES, returned, right, strict=True)
    )
    for each, got, want, done in zip(_CASES, returned, right, tried, strict=True):
        if not done.right:
            line = text("function.chance", case=_words(each), got=f"{got:.4g}", right=f"{want:.4g}")
            mistake = mistake_of(returned, MARK_MISTAKES, _CASES)
            return False, [line, *explained("51-write-mark", mistake)], mistake, Trace(tried)
    return True, [], ""


def _words(each: ChanceCase) -> str:
    """Return a case of a mark in words."""
    queue, low, high, most = each
    sizes = {"queue": queue, "low": low, "high": high}
    shown = {name: units.format_size(round(size)) for name, size in sizes.items()}
    return text("trace.chance", **shown, most=f"{most:g}")


# A control loop -------------------------------------------------------------------------------------------------------

# The incast of the lesson, and what a loop must reach in it. The library's rule with a cut by half of the marked share
# and a step of a hundredth leaves a mean queue of 138 kB, ends after 387 us and shares with an index of 0.996; without
# a loop it is 4.07 MB, 327 us and 1.
_SENDERS, _SIZE = 8, "2 MB"
_MARKING = (100e3, 400e3, 0.2)  # illustrative: the limits of the lesson's example
_LONGEST = 500e3  # illustrative: mean queue of the second half that counts as short [B]
_LATEST = 600e-6  # illustrative: end of the last sender that counts as busy [s]
_FAIREST = 0.9  # illustrative: Jain's index that counts as equal


@register("check", "51-write-loop")
def control_loop(answer: Callable[..., Any]) -> Verdict:
    """Play an incast with ``answer(rate, marked, line)`` in all senders: queue, end and shares."""
    scenario = incast(_SENDERS, _SIZE, buffer="64 MB", lossless="none", sample="2 us", until="2 ms")
    try:
        run = scenario.play(control=answer, marking=_MARKING)
    except Exception as error:
        said = text(
            "function.raised",
            call=f"{name_of(answer)}(...)",
            error=type(error).__name__,
            words=str(error),
        )
        raise Unanswered("raised", said) from None
    ended = bool(np.isfinite(run.last_finish))
    queue = run.queue_of(scenario.links["port"])
    second = float(queue[len(queue) // 2 :].mean())
    got = run.received.sum(axis=0) if not ended else run.goodput
    worst = float(got.sum() ** 2 / (len(got) * (got**2).sum()))
    end = units.format_time(run.last_finish) if ended else text("trace.loop_unended")
    tried = (
        TriedCase(
            text("trace.loop_queue"),
            second <= _LONGEST,
            "",
            units.format_size(round(second)),
            text("trace.at_most", most=units.format_size(round(_LONGEST))),
        ),
        TriedCase(
            text("trace.loop_end"),
            run.last_finish <= _LATEST,
            "",
            end,
            text("trace.at_most", most=units.format_time(_LATEST)),
        ),
        TriedCase(
            text("trace.loop_fair"),
            worst >= _FAIREST,
            "",
            f"{worst:.3f}",
            text("trace.at_least", least=f"{_FAIREST:g}"),
        ),
    )
    mistakes = ("deaf to marks", "never faster again", "shares not equal")
    for mistake, each in zip(mistakes, tried, strict=True):
        if not each.right:
            line = text("function.loop", name=each.name, got=each.got, wanted=each.wanted)
            return False, [line, *explained("51-write-loop", mistake)], mistake, Trace(tried)
    return True, [], ""
