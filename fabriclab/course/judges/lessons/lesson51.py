"""Lesson 51: the chance of a mark, and a control loop that tames an incast."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    ROUNDING,
    Verdict,
    explained,
    mistake_of,
    number_of,
    played,
)
from fabriclab.engines import packet
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


def _no_jump(queue: float, kmin: float, kmax: float, pmax: float) -> float:
    """Return the chance of somebody who stays at Pmax above Kmax."""
    return chance(min(queue, kmax), kmin, kmax, pmax)


def _line_goes_on(queue: float, kmin: float, kmax: float, pmax: float) -> float:
    """Return the chance of somebody whose line rises above Kmax, too."""
    return max(_line(queue, kmin, kmax, pmax), 0.0)


def _line_to_one(queue: float, kmin: float, kmax: float, pmax: float) -> float:
    """Return the chance of somebody whose line reaches 1 at Kmax, whatever Pmax."""
    return chance(queue, kmin, kmax, 1.0)


def _all_from_kmin(queue: float, kmin: float, kmax: float, pmax: float) -> float:
    """Return the chance of somebody who marks every packet above Kmin."""
    return 1.0 if queue > kmin else 0.0


def _line_from_zero(queue: float, kmin: float, kmax: float, pmax: float) -> float:
    """Return the chance of somebody whose line begins at an empty queue."""
    return chance(queue, 0.0, kmax, pmax)


# What somebody with a mistake returns, by its name.
MARK_MISTAKES: dict[str, Callable[[float, float, float, float], float]] = {
    "no jump at Kmax": _no_jump,
    "line goes on": _line_goes_on,
    "line up to one": _line_to_one,
    "all from Kmin on": _all_from_kmin,
    "line from zero": _line_from_zero,
}


@register("check", "51-write-mark")
def chance_of_mark(answer: Chance) -> Verdict:
    """Run ``answer(queue, kmin, kmax, pmax)``, the chance of a mark, on queues in all parts of the rule."""
    returned = []
    tried = []
    for case in _CASES:
        got = number_of(answer, *case)
        wanted = chance(*case)
        is_right = bool(np.isclose(got, wanted, rtol=ROUNDING, atol=1e-12))
        returned.append(got)
        tried.append(TriedCase(_words(case), is_right, "", f"{got:.4g}", f"{wanted:.4g}"))
    wrong = [done for done in tried if not done.right]
    if not wrong:
        return True, [], ""
    first = wrong[0]
    line = text("function.chance", case=first.name, got=first.got, right=first.wanted)
    mistake = mistake_of(returned, MARK_MISTAKES, _CASES)
    said = [line, *explained("51-write-mark", mistake)]
    return False, said, mistake, Trace(tuple(tried))


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
_SENDERS = 8  # illustrative: the incast of the lesson
_FEW = 2  # illustrative: far fewer, so that a rate that suits 8 senders leaves the port idle
_SIZE = "2 MB"  # illustrative: the incast of the lesson
_MARKING = (100e3, 400e3, 0.2)  # illustrative: the limits of the lesson's example
_UNTIL = 2e-3  # illustrative: six times as long as the incast takes without a loop [s]
_LONGEST = 500e3  # illustrative: mean queue of the second half that counts as short [B]
_LATEST = 600e-6  # illustrative: end of the last sender that counts as busy [s]
# illustrative: end of the last of few senders that counts as busy; the rule above ends after 102 us, one that falls to
# a hundredth of the line rate at each mark after 183 us, and a fixed eighth of the line rate after 319 us [s]
_LATEST_OF_FEW = 250e-6
_FAIREST = 0.9  # illustrative: Jain's index that counts as equal


@register("check", "51-write-loop")
def control_loop(answer: Callable[..., Any]) -> Verdict:
    """Play two incasts with ``answer(rate, marked, line)`` in all senders: queue, end and shares."""
    many = _played(answer, _SENDERS)
    few = _played(answer, _FEW)
    queue = many.queue_of(many.watched_links[0])
    second_half = float(queue[len(queue) // 2 :].mean())
    fairness = _fairness(many)
    tried = (
        TriedCase(
            text("trace.loop_queue"),
            second_half <= _LONGEST,
            "",
            units.format_size(round(second_half)),
            text("trace.at_most", most=units.format_size(round(_LONGEST))),
        ),
        TriedCase(
            text("trace.loop_end"),
            many.last_finish <= _LATEST,
            "",
            _end(many.last_finish),
            text("trace.at_most", most=units.format_time(_LATEST)),
        ),
        TriedCase(
            text("trace.loop_fair"),
            fairness >= _FAIREST,
            "",
            f"{fairness:.3f}",
            text("trace.at_least", least=f"{_FAIREST:g}"),
        ),
        TriedCase(
            text("trace.loop_few", n=_FEW),
            few.last_finish <= _LATEST_OF_FEW,
            "",
            _end(few.last_finish),
            text("trace.at_most", most=units.format_time(_LATEST_OF_FEW)),
        ),
    )
    mistakes = ("deaf to marks", "never faster again", "shares not equal", "never faster again")
    for mistake, done in zip(mistakes, tried, strict=True):
        if not done.right:
            line = text("function.loop", name=done.name, got=done.got, wanted=done.wanted)
            return False, [line, *explained("51-write-loop", mistake)], mistake, Trace(tried)
    return True, [], ""


def _played(answer: Callable[..., Any], senders: int) -> packet.Trace:
    """Return an incast with a learner's loop in all senders; raise Unanswered if the loop raises."""
    # illustrative: the incast of the lesson
    scenario = incast(senders, _SIZE, buffer="64 MB", lossless="none", sample="2 us", until=_UNTIL)
    run: packet.Trace = played(answer, lambda: scenario.play(control=answer, marking=_MARKING))
    return run


def _fairness(run: packet.Trace) -> float:
    """Return Jain's index of the senders' rates, or of the bytes that came while some have not ended."""
    ended = bool(np.isfinite(run.last_finish))
    got = run.goodput if ended else run.received.sum(axis=0)
    return float(got.sum() ** 2 / (len(got) * (got**2).sum()))


def _end(seconds: float) -> str:
    """Return the end of the last sender in words."""
    if np.isfinite(seconds):
        return units.format_time(seconds)
    return text("trace.loop_unended")
