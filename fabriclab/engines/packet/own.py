"""Control loops and marking rules that somebody writes as plain Python functions, for a run in plain Python.

A control loop of the library is three kernels over arrays. A learner's is one function with one decision: the rate
for the next round trip. A marking rule is a function from the length of a queue to a chance. Both are called in place
of the library's own, by the same loop of events, which then runs as plain Python.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from fabriclab import units
from fabriclab.engines.packet import loop as _loop
from fabriclab.engines.packet.chance import ONE, draw
from fabriclab.engines.packet.control import Control, do_nothing
from fabriclab.engines.packet.state import LINE, OWN, RATE, ROUND_TRIP, WINDOW

__all__ = ["SIGNALS", "control_of", "loop_of"]

SIGNALS = ("rate", "line", "marked", "delay")  # what a control function may ask for
SLOWEST = 1e-3  # share of the line rate below which no rate falls

# What is kept of a connection, from OWN on.
SEEN = OWN  # packets acknowledged since the last decision
MARKED = OWN + 1  # those of them that came with a mark
TURN = OWN + 2  # when the next decision is due [ps]

Function = Callable[..., Any]


def control_of(function: Function) -> Control:
    """Return a control loop that asks a function for the rate, once in each round trip.

    Parameters
    ----------
    function : callable
        Its arguments are any of ``rate``, the present rate [B/s]; ``line``, the rate of the port [B/s]; ``marked``, the
        share of the packets acknowledged since the last decision that came with a mark, 0..1; and ``delay``, the
        round trip of the last of them beyond that of an empty path [s]. It returns the next rate [B/s], which is kept
        between a thousandth of the line rate and the line rate. The first round trip runs at line rate.

    Raises
    ------
    ValueError
        If it has another argument, or (in the run) returns no number.
    """
    names = tuple(inspect.signature(function).parameters)
    unknown = [name for name in names if name not in SIGNALS]
    if unknown or not names:
        given = ", ".join(names) or "none"
        raise ValueError(
            f"a control function has the arguments {', '.join(SIGNALS)}, or some of them; got {given}"
        )

    def start(parameters: Any, own: Any, i: int, now: int) -> None:
        own[i + WINDOW] = 1e18
        own[i + RATE] = own[i + LINE]
        own[i + SEEN] = 0.0
        own[i + MARKED] = 0.0
        own[i + TURN] = now + own[i + ROUND_TRIP]

    def feed_back(
        parameters: Any,
        own: Any,
        i: int,
        now: int,
        trip: int,
        acked: int,
        marked: int,
        lost: int,
        load: float,
    ) -> None:
        if trip == 0:  # a timer ran out, and no packet came back
            return
        own[i + SEEN] += 1.0
        own[i + MARKED] += marked
        if now < own[i + TURN]:
            return
        signals = {
            "rate": own[i + RATE],
            "line": own[i + LINE],
            "marked": own[i + MARKED] / own[i + SEEN],
            "delay": max(0.0, trip - own[i + ROUND_TRIP]) / 1e12,
        }
        rate = _number(function, [signals[name] for name in names])
        line = own[i + LINE]
        own[i + RATE] = min(max(rate, SLOWEST * line), line)
        own[i + SEEN] = 0.0
        own[i + MARKED] = 0.0
        own[i + TURN] = now + max(trip, own[i + ROUND_TRIP])

    return Control((), start, feed_back, do_nothing)


def loop_of(marking: Any) -> Function:
    """Return the plain loop of events, with a function ``marking(queue)`` as its marking rule if it is one.

    The function gets the length of a queue [B] and returns the chance that the packet which leaves it is marked, 0..1.
    """
    if not callable(marking):
        return _loop.loop

    def is_marked(queues: Any, whole: Any, real: Any, queue: int, waiting: int) -> bool:
        chance = _number(marking, [waiting])
        if not 0.0 <= chance <= 1.0:
            raise ValueError(
                f"a marking rule returns a chance within 0..1, got {chance:g} for a queue of {waiting} B"
            )
        if chance in (0.0, 1.0):  # as the library's own rule, which draws only in between
            return chance == 1.0
        return draw(whole) < chance * ONE

    return _swapped(_loop.loop, {_loop.is_marked: is_marked})


def _number(function: Function, arguments: list[Any]) -> float:
    """Return the number that a learner's function gives."""
    got = function(*arguments)
    if not units.is_number(got):
        name = getattr(function, "__name__", "the function")
        raise ValueError(f"{name} returned {got!r}; it must return a number")
    return float(got)


def _swapped(function: Any, swaps: dict[Any, Any]) -> Any:
    """Return a copy of a plain kernel in which it and the kernels that it calls call others; fills ``swaps``."""
    names = {**function.__globals__}
    copy = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    swaps[function] = copy
    for name in function.__code__.co_names:
        called = names.get(name)
        if not isinstance(called, FunctionType) or called.__module__ != function.__module__:
            continue
        names[name] = swaps[called] if called in swaps else _swapped(called, swaps)
    return copy
