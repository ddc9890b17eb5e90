"""Lesson 51b: headroom, limits that mark before they pause, and circles of waiting buffers."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import (
    ROUNDING,
    Verdict,
    called,
    explained,
    mistake_of,
    number_of,
)
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.engines.packet.lossless import DELAY_PER_METRE, GAP, PAUSE_FRAME
from fabriclab.registry import register
from fabriclab.scenarios import fan_out
from fabriclab.texts import text

# Rate [B/s], length [m], longest frame on the wire [B], bytes that are sent while the sender reacts [B] -> bytes.
Headroom = Callable[[float, float, float, float], Any]
HeadroomCase = tuple[float, float, float, float]
PAUSE = PAUSE_FRAME + GAP
_GBIT = 1e9 / 8  # bytes per second in a gigabit per second
# illustrative: cables between racks, in a rack and between halls; 3,840 B are 60 quanta, a vendor's rule of thumb, and
# 25,216 B and 57,920 B what IEEE 802.3 allows at 100 and 400 Gb/s (targets of the headroom article)
_CABLES: tuple[HeadroomCase, ...] = (
    (400 * _GBIT, 100.0, 9236.0, 3840.0),
    (400 * _GBIT, 3.0, 9236.0, 57920.0),
    (100 * _GBIT, 30.0, 4178.0, 3840.0),
    (100 * _GBIT, 2000.0, 9236.0, 25216.0),
)


def headroom(rate: float, length: float, frame: float, response: float) -> float:
    """Return what can still come after a switch has decided to pause a sender. [B]."""
    return 2 * rate * length * DELAY_PER_METRE + response + PAUSE + 2 * frame


# What somebody with a mistake returns, by its name.
HEADROOM_MISTAKES: dict[str, Callable[[float, float, float, float], float]] = {
    "one way only": lambda rate, length, frame, response: (
        rate * length * DELAY_PER_METRE + response + PAUSE + 2 * frame
    ),
    "bits for bytes": lambda rate, length, frame, response: (
        16 * rate * length * DELAY_PER_METRE + response + PAUSE + 2 * frame
    ),
    "microseconds for nanoseconds": lambda rate, length, frame, response: (
        2000 * rate * length * DELAY_PER_METRE + response + PAUSE + 2 * frame
    ),
    "one frame": lambda rate, length, frame, response: (
        2 * rate * length * DELAY_PER_METRE + response + PAUSE + frame
    ),
    "no frames": lambda rate, length, frame, response: (
        2 * rate * length * DELAY_PER_METRE + response + PAUSE
    ),
    "reaction forgotten": lambda rate, length, frame, response: (
        2 * rate * length * DELAY_PER_METRE + PAUSE + 2 * frame
    ),
}


@register("check", "51b-write-headroom")
def headroom_of_link(answer: Headroom) -> Verdict:
    """Run ``answer(rate, length, frame, response)``, the headroom [B], on cables of several lengths and rates."""
    returned = [number_of(answer, *each) for each in _CABLES]
    right = [headroom(*each) for each in _CABLES]
    tried = tuple(
        TriedCase(
            _cable(each),
            bool(np.isclose(got, want, rtol=ROUNDING, atol=1.0)),
            "",
            f"{got:,.0f} B",
            f"{want:,.0f} B",
        )
        for each, got, want in zip(_CABLES, returned, right, strict=True)
    )
    for done in tried:
        if not done.right:
            line = text("function.loop", name=done.name, got=done.got, wanted=done.wanted)
            mistake = mistake_of(returned, HEADROOM_MISTAKES, _CABLES)
            return False, [line, *explained("51b-write-headroom", mistake)], mistake, Trace(tried)
    return True, [], ""


def _cable(each: HeadroomCase) -> str:
    """Return a case of a cable in words."""
    rate, length, frame, response = each
    return text(
        "trace.cable",
        rate=units.format_rate(rate),
        length=f"{length:g}",
        frame=f"{frame:,.0f}",
        response=f"{response:,.0f}",
    )


# Limits that mark first -----------------------------------------------------------------------------------------------

Limits = Callable[[int, float], Any]  # queues that one ingress feeds, XOFF [B] -> (Kmin, Kmax) [B]
_LEAST = 1 / 3  # illustrative: share of XOFF / n below which Kmax is too low; the question says it
_RUN = 40e-6  # illustrative: the first pause is due after 5 to 10 us in these runs [s]


def drawn_ports(rng: np.random.Generator) -> tuple[tuple[int, float], ...]:
    """Return numbers of queues and XOFF of a few drawn scenarios; the first has many queues. [B]."""
    many = (int(rng.integers(8, 13)), 1e3 * float(rng.integers(100, 151)))
    few = (int(rng.integers(2, 4)), 1e3 * float(rng.integers(300, 401)))
    return many, few


@register("check", "51b-tune")
def marks_first(answer: Limits) -> Verdict:
    """Play drawn scenarios with the limits ``answer(n, xoff)``, and look which comes first, a mark or a pause."""
    cases = drawn_ports(np.random.default_rng())
    limits = [_limits(answer, n, xoff) for n, xoff in cases]
    tried = []
    mistakes = []
    for (n, xoff), (low, high) in zip(cases, limits, strict=True):
        each = xoff / n
        mark, pause = _first(n, xoff, low, high)
        is_first = mark < pause
        is_low = high < _LEAST * each
        got = text(
            "trace.tuned",
            low=units.format_size(round(low)),
            high=units.format_size(round(high)),
            mark=_when(mark),
            pause=_when(pause),
        )
        wanted = text("trace.tuned_wanted", least=units.format_size(round(_LEAST * each)))
        name = text("trace.tuned_case", n=n, xoff=units.format_size(round(xoff)))
        tried.append(TriedCase(name, is_first and not is_low, "", got, wanted))
        mistakes.append(
            "" if is_first and not is_low else "marks too early" if is_low else "pause first"
        )
    if any(mistakes):
        wrong = next(i for i, mistake in enumerate(mistakes) if mistake)
        mistake = mistakes[wrong]
        if mistake == "pause first" and limits[0] == limits[1]:
            mistake = "limits for one queue"
        done = tried[wrong]
        line = text("function.loop", name=done.name, got=done.got, wanted=done.wanted)
        return False, [line, *explained("51b-tune", mistake)], mistake, Trace(tuple(tried))
    return True, [], ""


def _limits(answer: Limits, n: int, xoff: float) -> tuple[float, float]:
    """Return the two limits of a learner's function; raise Unanswered if they are none."""
    found = called(answer, n, xoff)
    try:
        low, high = (float(value) for value in found)
    except (TypeError, ValueError):
        raise Unanswered("kind", text("function.limits", got=brief(found))) from None
    if not 0 <= low < high < np.inf:
        raise Unanswered("range", text("function.limits", got=brief(found)))
    return low, high


def _first(n: int, xoff: float, low: float, high: float) -> tuple[float, float]:
    """Return when the first packet is marked and when the first pause is obeyed; inf for never. [s]."""
    scenario = fan_out(n, "1 MB", xoff=xoff, marking=(low, high, 1.0), sample="0.1 us", until=_RUN)
    ports = [
        link
        for link in range(scenario.fabric.n_links)
        if scenario.fabric.transit[scenario.fabric.source[link]]
    ]
    run = scenario.play(watch_links=(*ports, scenario.links["ingress"]))
    marked = np.flatnonzero(run.queue_marks.sum(axis=1) > 0)
    paused = np.flatnonzero(run.queue_paused.any(axis=1))
    return tuple(float(run.times[when[0]]) if when.size else np.inf for when in (marked, paused))  # type: ignore[return-value]


def _when(time: float) -> str:
    """Return a time in words, or that it never came."""
    return units.format_time(time) if np.isfinite(time) else text("trace.tuned_never")


# Circles --------------------------------------------------------------------------------------------------------------

Waits = Mapping[str, str]  # a paused buffer -> the buffer for which it waits


def circle(waits: Waits) -> list[str]:
    """Return the buffers of a circle in the order in which they wait, or an empty list."""
    for start in waits:
        path = [start]
        while path[-1] in waits:
            following = waits[path[-1]]
            if following in path:
                return path[path.index(following) :]
            path.append(following)
    return []


def drawn_waits(rng: np.random.Generator) -> tuple[dict[str, str], ...]:
    """Return waiting buffers: a circle with a tail, a chain, a circle beside a chain, and nothing."""
    names = [f"buffer {i}" for i in rng.permutation(12)]
    n = int(rng.integers(3, 6))
    ring = {names[i]: names[(i + 1) % n] for i in range(n)}
    tail = {names[n]: names[n + 1], names[n + 1]: names[0]}
    chain = {names[i]: names[i + 1] for i in range(7, 11)}
    return {**tail, **ring}, chain, {**chain, **ring}, {}


@register("check", "51b-write-cycle")
def find_circle(answer: Callable[[Waits], Any]) -> Verdict:
    """Run ``answer(waits)``, the buffers of a circle, on drawn buffers with and without one."""
    cases = drawn_waits(np.random.default_rng())
    tried = []
    mistake = ""
    for waits in cases:
        found = called(answer, dict(waits))
        if not isinstance(found, list | tuple):
            raise Unanswered("kind", text("function.circle", got=brief(found)))
        got = [str(name) for name in found]
        right = circle(waits)
        is_right = _same_circle(got, right)
        words = ", ".join(f"{a} -> {b}" for a, b in waits.items()) or text("trace.no_waits")
        tried.append(TriedCase(words, is_right, "", brief(got), brief(right)))
        if not is_right and not mistake:
            mistake = _circle_mistake(got, right)
    if all(each.right for each in tried):
        return True, [], ""
    done = next(each for each in tried if not each.right)
    line = text("function.loop", name=done.name, got=done.got, wanted=done.wanted)
    return False, [line, *explained("51b-write-cycle", mistake)], mistake, Trace(tuple(tried))


def _same_circle(got: list[str], right: list[str]) -> bool:
    """Return whether two lists name the same circle, from whatever buffer on."""
    if len(got) != len(right) or not right:
        return got == right
    if right[0] not in got:
        return False
    start = got.index(right[0])
    return got[start:] + got[:start] == right


def _circle_mistake(got: list[str], right: list[str]) -> str:
    """Return the mistake behind a wrong list."""
    if not right:
        return "circle seen in a chain"
    if not got:
        return "circle missed"
    return "tail kept" if set(right) < set(got) else ""
