"""A live view of circuits that turn: who is lit when, and the bytes that are left for each pair of hosts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from fabriclab import circuits, units
from fabriclab.core import Floats, Ints
from fabriclab.texts import text
from fabriclab.views.common import common_ends
from fabriclab.views.live.pause_maps import to_ticks
from fabriclab.views.live.queues import view_of
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table
from fabriclab.views.page import plain, spread
from fabriclab.views.scene import (
    COLOUR,
    EDGE,
    Layer,
    Scene,
    boxes,
    heading,
    lines,
    log_axis,
    texts,
    tick_layers,
)

_TRAFFICS = ("ring", "all_to_all", "skewed")
_HOSTS = 8
_RATE = "400 Gb/s"  # illustrative: a port of the running case
_SEED = 0  # of the skewed traffic
_QUICKEST, _SLOWEST = 10, 20_000  # illustrative: from small mirrors to slow ones [us]
_CURVE = 25  # points of each curve over the set-up time
_MICRO = 1e6  # microseconds in a second
_FULL = 100  # percent
_BEAT = 250.0  # illustrative: slow enough to see who is lit [ms]

# The picture in px.
_WIDTH = 560.0
_SIDE = 320.0
_HEIGHT = 384.0
_TOP = 62.0  # of the first host
_PITCH = 28.0  # from one host to the next
_BOX = 22.0  # height of a host, and side of a cell of the matrix
_SENDERS = (40.0, 80.0)  # left and right end of the boxes
_RECEIVERS = (218.0, 258.0)
_MATRIX = 322.0  # left end
_STRIP = (318.0, 336.0)  # top and foot of the bar of times
_SPAN = (40.0, 540.0)  # left and right end of the bar of times
_TICK_ROOM = 12.0  # half of the name of a tick [px]
_SIDES = (56.0, 250.0)  # of the curves, whose names are to the right of them
_NAME_ROW = 15.0  # least distance between two names of curves
_CURVES = (62.0, 330.0)


@dataclass(frozen=True, eq=False)
class Turning:
    """Traffic on circuits that turn, at one moment.

    Parameters
    ----------
    matrix : (N, N) float64
        Bytes from each host to each other [B].
    plan : CircuitPlan
        What is lit when.
    now : float
        Moment of the picture [s].
    receivers : (N,) int64
        To whom each host has a circuit now; -1 where it is dark.
    left : (N, N) float64
        Bytes that are left now [B].
    packets : float
        Time of the same bytes on a packet switch with the same ports [s].
    """

    matrix: Floats
    plan: circuits.CircuitPlan
    now: float
    receivers: Ints
    left: Floats
    packets: float

    @property
    def dark(self) -> float:
        """Time of all set-ups [s]."""
        return self.plan.setup * self.plan.n_configurations

    @property
    def sends(self) -> Any:
        """Whether each host has a circuit and something left to send on it, (N,)."""
        host = np.arange(self.receivers.size)
        to = np.maximum(self.receivers, 0)
        return (self.receivers >= 0) & (self.left[host, to] > 0)

    @property
    def share_left(self) -> float:
        """Share of all bytes that is left now."""
        return float(self.left.sum() / self.matrix.sum())


def matchings(
    *,
    traffic: str = "skewed",
    setup: float = 1000.0,
    moment: int = 30,
    size: units.Quantity = "1 GB",  # illustrative: 20 ms on a port of the running case
    shown: Sequence[str] = ("traffic", "setup", "moment"),
) -> Live:
    """Show eight hosts on an optical switch that carries their traffic matrix, one matching after another.

    `fabriclab.circuits.decompose` chooses the matchings, each of which is held until the smallest of its entries is
    empty. All circuits are dark during a set-up.

    Parameters
    ----------
    traffic : str
        "ring": each host sends to the next one; "all_to_all": the same to all others; "skewed": much to a few, and
        little to many.
    setup : float
        Set-up time of a matching, 10..20,000 [us].
    moment : int
        Moment of the picture, 0..100 [% of the time of all matchings].
    size : float or str
        What the busiest host sends or receives; others have less in skewed traffic. > 0 [B]
    shown : sequence of str
        Which of the first three arguments a reader can set.
    """
    arguments = {
        "traffic": traffic,
        "setup": setup,
        "moment": moment,
        "size": size,
        "shown": tuple(shown),
    }
    scene = partial(matching_scene, size=units.size(size, "size", may_be_zero=False))
    return view_of("matchings", arguments, scene, _controls(), shown)


def _controls() -> dict[str, Control]:
    """Return everything that a reader may set."""
    names = tuple(text(f"live.matchings.{traffic}") for traffic in _TRAFFICS)
    return {
        "traffic": Choice(_TRAFFICS, names=names),
        "setup": Slider(_QUICKEST, _SLOWEST, unit="us", log=True),
        "moment": Slider(0, _FULL, unit="%", play=True, beat=_BEAT),
    }


# The schedule -----------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def decomposed(traffic: str, size: float) -> circuits.Decomposition:
    """Return the matchings of a kind of traffic, whose busiest host sends or receives ``size`` [B]."""
    if traffic == "skewed":
        return circuits.decompose(circuits.skewed(_HOSTS, size, seed=_SEED))
    if traffic == "ring":
        shape = np.roll(np.eye(_HOSTS), 1, axis=1)
    else:
        shape = 1.0 - np.eye(_HOSTS)
    # whole bytes, so that no matching is left for what rounding leaves
    return circuits.decompose(shape * np.floor(size / shape[0].sum()))


def turning(traffic: str, setup: float, moment: float, size: float) -> Turning:
    """Return what is lit and what is left at a moment [% of all], with a set-up time [us]."""
    found = decomposed(traffic, size)
    schedule = found.plan(_RATE, setup / _MICRO)
    now = schedule.end * moment / _FULL
    busiest = max(found.matrix.sum(axis=0).max(), found.matrix.sum(axis=1).max())
    return Turning(
        matrix=found.matrix,
        plan=schedule,
        now=now,
        receivers=schedule.receivers_at([now])[0],
        left=schedule.bytes_left(found.matrix, [now])[0],
        packets=float(busiest) / units.rate(_RATE),
    )


# The picture ------------------------------------------------------------------------------------


def matching_scene(traffic: str, setup: float, moment: int, size: float) -> Scene:
    """Return hosts with their circuits, the matrix of bytes left and the bar of times; beside it time over set-up."""
    here = turning(traffic, setup, moment, size)
    said = matching_words(here)
    return Scene(
        said,
        matching_table(here),
        {**host_layers(here), **matrix_layers(here), **strip_layers(here)},
        _HEIGHT,
        alt=f"{said} {setting_words(here, traffic)}",
        hint=text("live.matchings.hint"),
        width=_WIDTH,
        side=Scene(
            "", layers=curve_layers(here, traffic, setup, size), height=_HEIGHT, width=_SIDE
        ),
    )


def matching_words(here: Turning) -> str:
    """Return the finding: how long all matchings take, and how much of it is dark; then what is left now."""
    n = here.plan.n_configurations
    first = text(
        "live.matchings.said_one" if n == 1 else "live.matchings.said",
        n=n,
        end=here.plan.end,
        dark=here.dark,
    )
    lit = int(np.count_nonzero(here.receivers >= 0))
    rest = text(
        "live.matchings.now_lit" if lit else "live.matchings.now_dark",
        time=here.now,
        sending=int(np.count_nonzero(here.sends)),
        hosts=_HOSTS,
        left=here.share_left,
    )
    return f"{first} {rest}"


def setting_words(here: Turning, traffic: str) -> str:
    """Return what the controls say, for those who do not see them."""
    return text(
        "live.matchings.setting",
        traffic=text(f"live.matchings.{traffic}"),
        setup=here.plan.setup,
        hosts=_HOSTS,
        packets=here.packets,
    )


def matching_table(here: Turning) -> Table:
    """Return a row for each matching: since when it is lit, how long it is held, how many circuits, and its state."""
    begin = here.plan.begin
    states = []
    for start, held in zip(begin.tolist(), here.plan.hold.tolist(), strict=True):
        if here.now < start:
            states.append(text("live.matchings.to_come"))
        elif here.now < start + held:
            states.append(text("live.matchings.is_lit"))
        else:
            states.append(text("live.matchings.over"))
    return Table(
        {
            "matching": np.arange(1, begin.size + 1),
            "lit from [s]": begin,
            "held [s]": here.plan.hold,
            "circuits": np.diff(here.plan.ptr),
            "state": states,
        },
        apart=("lit from [s]", "held [s]"),
    )


# Layers -----------------------------------------------------------------------------------------


def letter(host: int) -> str:
    """Return the name of a host."""
    return chr(ord("A") + host)


def host_layers(here: Turning) -> dict[str, Layer]:
    """Return senders on the left, receivers on the right, and the circuits that are lit between them."""
    y = _TOP + _PITCH * np.arange(_HOSTS)
    letters = [letter(host) for host in range(_HOSTS)]
    lit = np.flatnonzero(here.receivers >= 0)
    middle = y + _BOX / 2
    paths = []
    names = []
    notes = []
    for host in lit.tolist():
        to = int(here.receivers[host])
        paths.append(eased((_SENDERS[1], middle[host]), (_RECEIVERS[0], middle[to])))
        names.append(text("live.matchings.circuit", one=letter(host), other=letter(to)))
        notes.append(text("live.matchings.left", size=float(here.left[host, to])))
    sends = here.sends[lit]
    turns = [] if lit.size else [text("live.matchings.mirrors_turn")]
    layers = {
        "title": heading(16.0, text("live.matchings.title_now", time=here.now)),
        "ends": texts(
            np.array([sum(_SENDERS) / 2, sum(_RECEIVERS) / 2]),
            44.0,
            [text("live.matchings.senders"), text("live.matchings.receivers")],
            align=1.0,
            colour=COLOUR["soft"],
        ),
        "circuits": lines(
            paths,
            width=np.where(sends, 2.6, 1.0),
            colour=np.where(sends, COLOUR["queue"], COLOUR["edge"]),
            dash=np.where(sends, 0.0, 2.0),
            flow=np.where(sends, 1.0, 0.0),
            names=names,
            notes=notes,
        ),
        "turns": texts((_SENDERS[1] + _RECEIVERS[0]) / 2, 160.0, turns, align=1.0, bold=1.0),
    }
    for side, (left, right) in (("senders", _SENDERS), ("receivers", _RECEIVERS)):
        layers[side] = boxes(
            left,
            y,
            right - left,
            _BOX,
            colour=COLOUR["gpu"],
            texts=letters,
            ink=COLOUR["node_ink"],
        )
    return layers


def eased(start: tuple[float, float], end: tuple[float, float]) -> Floats:
    """Return a curve between two points that leaves and arrives level, (P, 2) [px]."""
    along = np.linspace(0, 1, 17)
    slow = along * along * (3 - 2 * along)
    x = start[0] + (end[0] - start[0]) * along
    y = start[1] + (end[1] - start[1]) * slow
    return np.stack([x, y], axis=1)


def matrix_layers(here: Turning) -> dict[str, Layer]:
    """Return the matrix of bytes: each cell is filled as far as bytes are left, and those that are lit have an edge."""
    row, column = np.divmod(np.arange(_HOSTS**2), _HOSTS)
    x = _MATRIX + _PITCH * column
    y = _TOP + _PITCH * row
    share = (here.left / here.matrix.max()).ravel()
    high = np.where(share > 0, np.maximum(_BOX * share, 1.0), 0.0)
    is_lit = here.receivers[row] == column
    filled = np.flatnonzero(share > 0)
    notes = [text("live.matchings.left", size=float(left)) for left in here.left.ravel()[filled]]
    lit = np.flatnonzero(is_lit)
    letters = [letter(host) for host in range(_HOSTS)]
    place = _PITCH * np.arange(_HOSTS) + _BOX / 2
    return {
        "matrix title": heading(16.0, text("live.matchings.matrix"), _MATRIX),
        "cells": boxes(x, y, _BOX, _BOX, colour=COLOUR["sunk"], round=2.0),
        "lit cells": boxes(
            x[lit], y[lit], _BOX, _BOX, colour=COLOUR["none"], edge=COLOUR["ink"], round=2.0
        ),
        "bytes": boxes(
            x[filled],
            (y + _BOX - high)[filled],
            _BOX,
            high[filled],
            colour=np.where(is_lit, COLOUR["queue"], COLOUR["edge"])[filled],
            round=1.0,
            names=[
                text("live.matchings.pair", one=letter(int(row[k])), other=letter(int(column[k])))
                for k in filled
            ],
            notes=notes,
        ),
        "columns": texts(_MATRIX + place, 44.0, letters, align=1.0, colour=COLOUR["soft"]),
        "rows": texts(_MATRIX - 10, _TOP + place, letters, align=1.0, colour=COLOUR["soft"]),
    }


def strip_layers(here: Turning) -> dict[str, Layer]:
    """Return the bar of times: each matching as long as it is lit, gaps where mirrors turn, and the moment."""
    longest = max(here.plan.end, here.packets)
    _, last = common_ends("schedule", 0.0, longest)
    to_x = log_axis(0, last, *_SPAN)
    begin = here.plan.begin
    end = begin + here.plan.hold
    top, foot = _STRIP
    is_now = (begin <= here.now) & (here.now < end)
    now = float(to_x(here.now))
    packets = float(to_x(here.packets))
    names = [text("live.matchings.matching", n=k + 1) for k in range(begin.size)]
    notes = [text("live.matchings.held", time=float(held)) for held in here.plan.hold]
    times = to_ticks(last, 5)
    return {
        "strip title": texts(EDGE, top - 12, [text("live.matchings.strip")], colour=COLOUR["soft"]),
        "strip": boxes(
            _SPAN[0],
            top,
            to_x(here.plan.end) - _SPAN[0],
            foot - top,
            colour=COLOUR["sunk"],
            round=0.0,
        ),
        "lit": boxes(
            to_x(begin),
            top,
            np.maximum(to_x(end) - to_x(begin), 0.5),
            foot - top,
            colour=np.where(is_now, COLOUR["queue"], COLOUR["edge"]),
            round=0.0,
            names=names,
            notes=notes,
        ),
        "packets": lines(
            [np.array([[packets, top - 5], [packets, foot + 5]])],
            width=1.6,
            dash=2.0,
            colour=COLOUR["ink"],
        ),
        "packets name": texts(
            _SPAN[1],
            top - 12,
            [text("live.matchings.packets", time=here.packets)],
            align=2.0,
            size=11.0,
            colour=COLOUR["soft"],
        ),
        "moment": lines([np.array([[now, top - 5], [now, foot + 5]])], width=1.6),
        "strip ticks": texts(
            to_x(times),
            foot + 15,
            [plain(units.format_time(float(time))) for time in times],
            align=np.where(to_x(times) > _SPAN[1] - _TICK_ROOM, 2.0, 1.0),  # within the strip
            colour=COLOUR["soft"],
        ),
    }


@lru_cache(maxsize=16)
def stretch(traffic: str, size: float) -> Floats:
    """Return set-up times [us], and how many times as long as by packet the matchings take, (2, S)."""
    setups = np.geomspace(_QUICKEST, _SLOWEST, _CURVE)
    slower = []
    for setup in setups:
        here = turning(traffic, float(setup), 0, size)
        slower.append(here.plan.end / here.packets)
    return np.array([setups, slower])


def curve_layers(here: Turning, traffic: str, setup: float, size: float) -> dict[str, Layer]:
    """Return the time of all matchings over the set-up time for each kind of traffic, and the present state."""
    every = {name: stretch(name, size) for name in _TRAFFICS}
    highest = max(float(curve[1].max()) for curve in every.values())
    _, top = common_ends("slower", 1.0, 1.15 * highest)
    to_x = log_axis(_QUICKEST, _SLOWEST, *_SIDES)
    to_y = log_axis(1.0, top, _CURVES[1], _CURVES[0])
    ticks = np.array([1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0])
    grid = tick_layers(
        ticks[ticks <= top], to_y, lambda n: text("live.matchings.times", n=n), _SIDES, False
    )
    below = tick_layers(
        np.array([10.0, 100.0, 1000.0, 10_000.0]),
        to_x,
        lambda n: units.format_time(n / _MICRO),
        (_CURVES[0], _CURVES[1] + 2),
        True,
    )
    current = {"x": to_x(np.array([setup])), "y": to_y(np.array([here.plan.end / here.packets]))}
    return {
        "title": heading(16.0, text("live.matchings.curve_title")),
        "axis": texts(EDGE, 34.0, [text("live.matchings.curve_axis")], colour=COLOUR["soft"]),
        **grid,
        "x ticks": below["x ticks"],
        **named_curves(every, traffic, to_x, to_y),
        "current": Layer("dots", {**current, "size": 5.0, "colour": COLOUR["ink"]}),
        "x name": texts(
            _SIDES[1],
            _CURVES[1] + 32,
            [text("live.matchings.setup_axis")],
            align=2.0,
            colour=COLOUR["soft"],
        ),
    }


def named_curves(
    every: Mapping[str, Floats],
    traffic: str,
    to_x: Callable[..., Floats],
    to_y: Callable[..., Floats],
) -> dict[str, Layer]:
    """Return a curve for each traffic, the present one in ink, and its name to the right of its end."""
    names = [text(f"live.matchings.{name}") for name in every]
    is_here = np.array([name == traffic for name in every])
    paths = [np.stack([to_x(setups), to_y(times)], axis=1) for setups, times in every.values()]
    ends = np.array([path[-1, 1] for path in paths])  # [px]
    level = spread(ends, _NAME_ROW, _CURVES[0], _CURVES[1])
    return {
        "curves": lines(
            paths,
            width=np.where(is_here, 2.2, 1.3),
            colour=np.where(is_here, COLOUR["ink"], COLOUR["edge"]),
            names=names,
        ),
        "curve names": texts(
            _SIDES[1] + 8,
            level,
            names,
            size=11.0,
            halo=1.0,
            colour=np.where(is_here, COLOUR["ink"], COLOUR["soft"]),
        ),
    }
