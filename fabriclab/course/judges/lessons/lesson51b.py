"""Lesson 51b: headroom, limits that mark before they pause, and cycles of waiting buffers."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.core import Floats
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


def _cable_once(rate: float, length: float, frame: float, response: float) -> float:
    """Return the headroom of somebody who counts the cable in one direction only. [B]."""
    one_way = rate * length * DELAY_PER_METRE
    return headroom(rate, length, frame, response) - one_way


def _in_bits(rate: float, length: float, frame: float, response: float) -> float:
    """Return the headroom of somebody who counts what is on the cable in bits."""
    return headroom(8 * rate, length, frame, response)


def _slow_cable(rate: float, length: float, frame: float, response: float) -> float:
    """Return the headroom of somebody who takes 5 us for a metre. [B]."""
    return headroom(rate, 1000 * length, frame, response)


def _one_frame(rate: float, length: float, frame: float, response: float) -> float:
    """Return the headroom of somebody who counts one of the two frames. [B]."""
    return headroom(rate, length, frame, response) - frame


def _no_frames(rate: float, length: float, frame: float, response: float) -> float:
    """Return the headroom of somebody who leaves out both frames. [B]."""
    return headroom(rate, length, frame, response) - 2 * frame


def _no_reaction(rate: float, length: float, frame: float, response: float) -> float:
    """Return the headroom of somebody who leaves out the reaction of the sender. [B]."""
    return headroom(rate, length, frame, response) - response


# What somebody with a mistake returns, by its name.
HEADROOM_MISTAKES: dict[str, Callable[[float, float, float, float], float]] = {
    "cable counted once": _cable_once,
    "bits for bytes": _in_bits,
    "cable a thousand times too slow": _slow_cable,
    "one frame": _one_frame,
    "no frames": _no_frames,
    "reaction forgotten": _no_reaction,
}


@register("check", "51b-write-headroom")
def headroom_of_link(answer: Headroom) -> Verdict:
    """Run ``answer(rate, length, frame, response)``, the headroom [B], on cables of several lengths and rates."""
    returned = []
    tried = []
    for case in _CABLES:
        got = number_of(answer, *case)
        wanted = headroom(*case)
        is_right = bool(np.isclose(got, wanted, rtol=ROUNDING, atol=1.0))
        returned.append(got)
        tried.append(TriedCase(_cable(case), is_right, "", f"{got:,.0f} B", f"{wanted:,.0f} B"))
    wrong = [done for done in tried if not done.right]
    if not wrong:
        return True, [], ""
    mistake = mistake_of(returned, HEADROOM_MISTAKES, _CABLES)
    said = [_line(wrong[0]), *explained("51b-write-headroom", mistake)]
    return False, said, mistake, Trace(tuple(tried))


def _line(done: TriedCase) -> str:
    """Return in words what a case gave, and what it should have given."""
    return text("function.loop", name=done.name, got=done.got, wanted=done.wanted)


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
        mark, pause = _first(n, xoff, low, high)
        least = _LEAST * xoff / n  # of Kmax [B]
        mistake = _limit_mistake(mark, pause, high, least)
        got = text(
            "trace.tuned",
            low=units.format_size(round(low)),
            high=units.format_size(round(high)),
            mark=_when(mark),
            pause=_when(pause),
        )
        wanted = text("trace.tuned_wanted", least=units.format_size(round(least)))
        name = text("trace.tuned_case", n=n, xoff=units.format_size(round(xoff)))
        tried.append(TriedCase(name, not mistake, "", got, wanted))
        mistakes.append(mistake)
    if not any(mistakes):
        return True, [], ""
    wrong = next(i for i, mistake in enumerate(mistakes) if mistake)
    mistake = mistakes[wrong]
    if mistake == "pause first" and limits[0] == limits[1]:
        mistake = "limits for one queue"
    said = [_line(tried[wrong]), *explained("51b-tune", mistake)]
    return False, said, mistake, Trace(tuple(tried))


def _limit_mistake(mark: float, pause: float, high: float, least: float) -> str:
    """Return the mistake in limits, by the first mark and pause [s] and by Kmax and its least value [B]."""
    if high < least:
        return "marks too early"
    if mark >= pause:
        return "pause first"
    return ""


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
    # illustrative: enough bytes for the time that is looked at
    scenario = fan_out(n, "1 MB", xoff=xoff, marking=(low, high, 1.0), sample="0.1 us", until=_RUN)
    ports = [
        link
        for link in range(scenario.fabric.n_links)
        if scenario.fabric.transit[scenario.fabric.source[link]]
    ]
    run = scenario.play(watch_links=(*ports, scenario.links["ingress"]))
    is_marked = run.queue_marks.sum(axis=1) > 0  # (T,) at each sample
    is_paused = run.queue_paused.any(axis=1)  # (T,)
    return _first_time(run.times, is_marked), _first_time(run.times, is_paused)


def _first_time(times: Floats, happens: Any) -> float:
    """Return the first of the times at which something happens; inf for never. [s]."""
    found = np.flatnonzero(happens)
    return float(times[found[0]]) if found.size else np.inf


def _when(time: float) -> str:
    """Return a time in words, or that it never came."""
    return units.format_time(time) if np.isfinite(time) else text("trace.tuned_never")


# Cycles ---------------------------------------------------------------------------------------------------------------

Waits = Mapping[str, str]  # a paused buffer -> the buffer for which it waits


def cycle(waits: Waits) -> list[str]:
    """Return the buffers of a cycle in the order in which they wait, or an empty list."""
    for start in waits:
        path = [start]
        while path[-1] in waits:
            following = waits[path[-1]]
            if following in path:
                return path[path.index(following) :]
            path.append(following)
    return []


def drawn_waits(rng: np.random.Generator) -> tuple[dict[str, str], ...]:
    """Return waiting buffers: a cycle with a tail, a chain, a cycle beside a chain, and nothing."""
    names = [f"buffer {i}" for i in rng.permutation(12)]
    n = int(rng.integers(3, 6))
    ring = {names[i]: names[(i + 1) % n] for i in range(n)}
    tail = {names[n]: names[n + 1], names[n + 1]: names[0]}
    chain = {names[i]: names[i + 1] for i in range(7, 11)}
    return {**tail, **ring}, chain, {**chain, **ring}, {}


@register("check", "51b-write-cycle")
def find_cycle(answer: Callable[[Waits], Any]) -> Verdict:
    """Run ``answer(waits)``, the buffers of a cycle, on drawn buffers with and without one."""
    cases = drawn_waits(np.random.default_rng())
    tried = []
    mistake = ""
    for waits in cases:
        found = called(answer, dict(waits))
        if not isinstance(found, list | tuple):
            raise Unanswered("kind", text("function.cycle", got=brief(found)))
        got = [str(name) for name in found]
        right = cycle(waits)
        is_right = _same_cycle(got, right)
        words = ", ".join(f"{a} -> {b}" for a, b in waits.items()) or text("trace.no_waits")
        tried.append(TriedCase(words, is_right, "", brief(got), brief(right)))
        if not is_right and not mistake:
            mistake = _cycle_mistake(got, right)
    wrong = [done for done in tried if not done.right]
    if not wrong:
        return True, [], ""
    said = [_line(wrong[0]), *explained("51b-write-cycle", mistake)]
    return False, said, mistake, Trace(tuple(tried))


def _same_cycle(got: list[str], right: list[str]) -> bool:
    """Return whether two lists name the same cycle, from whatever buffer on."""
    if len(got) != len(right) or not right:
        return got == right
    if right[0] not in got:
        return False
    start = got.index(right[0])
    return got[start:] + got[:start] == right


def _cycle_mistake(got: list[str], right: list[str]) -> str:
    """Return the mistake behind a wrong list."""
    if not right:
        return "cycle seen in a chain"
    if not got:
        return "cycle missed"
    return "tail kept" if set(right) < set(got) else ""
