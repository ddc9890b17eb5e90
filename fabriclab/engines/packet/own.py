"""Control loops, balancers and marking rules that somebody writes as Python functions, for a run in plain Python.

A control loop of the library is three kernels over arrays. A learner's is one function with one decision: the rate
for the next round trip. A balancer is a function from the queues in front of the ports of a switch to one of them, and
a marking rule one from the length of a queue to a chance. They are called in place of the library's own, by the same
loop of events, which then runs as plain Python.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from fabriclab import units
from fabriclab.engines.packet import loop as _loop
from fabriclab.engines.packet.balance import Balance
from fabriclab.engines.packet.chance import ONE, draw
from fabriclab.engines.packet.control import Control, do_nothing
from fabriclab.engines.packet.state import CLASSES, LINE, OWN, RATE, ROUND_TRIP, WINDOW

__all__ = ["SIGHTS", "SIGNALS", "balance_of", "control_of", "loop_of"]

SIGNALS = ("rate", "line", "marked", "delay")  # what a control function may ask for
SIGHTS = ("queues", "turn")  # what a balancing function may ask for
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


def balance_of(function: Function) -> Balance:
    """Return a balancer that asks a function for the port of each packet, in every switch that has a choice.

    Parameters
    ----------
    function : callable
        Its arguments are any of ``queues``, a list of the bytes that wait in front of each port that leads to the
        target; and ``turn``, the place in that list of the port whose turn it is, as senders deal their packets out in
        order. It returns a place in the list.

    Raises
    ------
    ValueError
        If it has another argument, or (in the run) returns no place of the list.
    """
    names = tuple(inspect.signature(function).parameters)
    unknown = [name for name in names if name not in SIGHTS]
    if unknown or not names:
        given = ", ".join(names) or "none"
        raise ValueError(
            f"a balancing function has the arguments {', '.join(SIGHTS)}, or one of them; got {given}"
        )

    def choose(
        now: int,
        last: int,
        row: int,
        first: int,
        end: int,
        hop: int,
        rows: Any,
        entries: Any,
        links: Any,
        queues: Any,
        whole: Any,
        parameters: Any,
    ) -> int:
        following = row + 1 if row + 1 < end else first
        rows_of_port: dict[int, list[int]] = {}
        for candidate in range(first, end):
            port = entries[rows[candidate].first + hop].link
            if links[port].cost > 0:
                rows_of_port.setdefault(port, []).append(candidate)
        ports = list(rows_of_port)
        if len(ports) < 2:  # at a sender, which has one port, or where all others failed
            return following
        own_port = entries[rows[row].first + hop].link
        n_classes = whole[CLASSES]
        signals = {
            "queues": [
                sum(queues[port * n_classes + cls].bytes for cls in range(n_classes))
                for port in ports
            ],
            "turn": ports.index(own_port) if own_port in ports else 0,
        }
        place = _place(function, [signals[name] for name in names], len(ports))
        chosen = rows_of_port[ports[place]]
        return row if row in chosen else chosen[following % len(chosen)]

    return Balance(choose, in_switch=True)


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


def _place(function: Function, arguments: list[Any], n: int) -> int:
    """Return the place in a list of ``n`` ports that a learner's function gives."""
    got = function(*arguments)
    name = getattr(function, "__name__", "the function")
    if not units.is_number(got) or int(got) != got:
        raise ValueError(f"{name} returned {got!r}; it must return the place of a port, 0..{n - 1}")
    if not 0 <= got < n:
        raise ValueError(
            f"{name} returned {got}, and there are {n} ports; it must return a place, 0..{n - 1}"
        )
    return int(got)


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
