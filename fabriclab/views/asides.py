"""Panels beside a picture: curves that put its current state, in ink, among all others."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from fabriclab.core import Floats
from fabriclab.views.common import common_ends
from fabriclab.views.page import spread
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    heading,
    lines,
    log_axis,
    texts,
    tick_layers,
)
from fabriclab.views.sweeps import crowding, densely

WIDTH = 320.0  # of a panel beside a picture of 560 [px]
_LEFT = 62.0
_INSIDE = 6.0  # from the left edge to the lowest x: a dot there keeps clear of the ticks [px]
_MARGIN = 28.0  # on the right
_TOP = 58.0
_FOOT = 46.0  # for the ticks and the title of the axis
_OUTSIDE = 10_000  # points that a value may meet rather than stand outside the curves' area
_APART = 15.0  # least distance between two texts [px]
_HALF_LETTER = 3.7  # in bold [px]
_SPOT, _SMALLEST_SPOT = (
    5.5,
    3.2,
)  # radius of the current state, and where two are close to each other [px]
_OPEN = 1.0  # the shape of an open circle, as `Layer` counts shapes
_SAMPLE = 40.0  # room for a sample of the legend, without its name [px]
_LETTER = 6.6  # width of a letter of the legend [px]


class Curve(NamedTuple):
    """A value over all states of a control; the name stands in the legend, unless it is empty."""

    name: str
    x: Floats
    y: Floats
    colour: float = COLOUR["edge"]
    shape: float = -1.0  # of the dots on the curve, as `Layer` counts them; below 0 there are none
    joined: bool = True  # whether a line joins its values


class Spot(NamedTuple):
    """The current state as a dot in ink, or a state to compare it with, and its value in words."""

    x: float
    y: float
    words: str
    shape: float = 0.0
    colour: float = COLOUR["ink"]


def curve_panel(
    title: str,
    axis: str,
    curves: Sequence[Curve],
    spots: Sequence[Spot],
    *,
    show_x: Callable[[float], str],
    show_y: Callable[[float], str],
    ticks_x: Floats | None = None,
    log_x: bool = False,
    log_y: bool = False,
    zero_y: bool = True,
    height: float = 260.0,
    width: float = WIDTH,
) -> Scene:
    """Return a panel with curves and the current state on them.

    Parameters
    ----------
    title, axis : str
        What the curves show, and what the x axis shows.
    curves, spots : sequence of Curve and of Spot
        What to draw.
    show_x, show_y : callable
        Functions from a value at a tick to its text.
    ticks_x : ndarray, shape (T,), optional
        Ticks of the x axis; by default powers of ten or round numbers.
    log_x, log_y : bool
        Whether an axis is logarithmic. Other axes of y begin at 0 unless told otherwise.
    zero_y : bool
        Whether a linear axis of y begins at 0.
    height, width : float
        Of the panel [px].
    """
    curves = [as_its_name(curve) for curve in curves]
    every_x = np.concatenate([curve.x for curve in curves])
    every_y = np.concatenate([*(curve.y for curve in curves), [spot.y for spot in spots]])
    right, bottom = width - _MARGIN, height - _FOOT
    x_ends, x_ticks = _ends(f"{title}, x", every_x, log_x, from_zero=False)
    if ticks_x is not None:
        x_ticks = ticks_x
    y_ends, y_ticks = _ends(f"{title}, y", every_y, log_y, from_zero=zero_y or log_y)
    if not (zero_y or log_y):  # whole steps between ticks, so that no curve runs along an edge
        y_ticks = np.asarray(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(*y_ends))
        y_ends = (float(y_ticks[0]), float(y_ticks[-1]))
    to_x = _axis(x_ends, log_x, _LEFT + _INSIDE, right)
    to_y = _axis(y_ends, log_y, bottom, _TOP)

    paths = [np.stack([to_x(curve.x), to_y(curve.y)], axis=1) for curve in curves]
    marked = [i for i, curve in enumerate(curves) if curve.shape >= 0]
    dots = np.concatenate([np.empty((0, 2)), *(paths[i] for i in marked)])
    of_dot = np.repeat(marked, [len(paths[i]) for i in marked]).astype(int)
    colours = np.array([curve.colour for curve in curves])
    shapes = np.array([curve.shape for curve in curves])
    drawn = np.concatenate([densely(path) for path in paths]).T  # (2, K)
    joined = [i for i, curve in enumerate(curves) if curve.joined]
    grid_x = tick_layers(x_ticks, to_x, show_x, (_TOP, bottom + 4), True)
    grid_y = tick_layers(y_ticks, to_y, show_y, (_LEFT, right), False)
    return Scene(
        "",
        layers={
            "title": heading(16.0, title, 14.0),
            **_legend(curves),
            "y grid": grid_y["y grid"],
            "y ticks": grid_y["y ticks"],
            "x ticks": grid_x["x ticks"],
            "axis": texts(right, height - 14.0, [axis], align=2.0, colour=COLOUR["soft"]),
            "curves": lines([paths[i] for i in joined], width=1.8, colour=colours[joined]),
            "dots": Layer(
                "dots",
                {
                    "x": dots[:, 0],
                    "y": dots[:, 1],
                    "size": 3.0,
                    "colour": colours[of_dot],
                    "shape": shapes[of_dot],
                    **_readings(title, [curves[i] for i in marked], show_x, show_y),
                },
            ),
            **_spot_layers(spots, to_x, to_y, (_LEFT, right), bottom, drawn),
        },
        height=height,
        width=width,
    )


def _readings(
    title: str,
    curves: Sequence[Curve],
    show_x: Callable[[float], str],
    show_y: Callable[[float], str],
) -> dict[str, list[str]]:
    """Return what is read at each dot of these curves: whose it is, where it stands, and its value."""
    names, notes = [], []
    for curve in curves:
        for x, y in zip(curve.x.tolist(), curve.y.tolist(), strict=True):
            names.append(f"{curve.name or title}, {show_x(x)}")
            notes.append(show_y(y))
    return {"names": names, "notes": notes} if names else {}


def _ends(
    axis: str, values: Floats, log: bool, from_zero: bool
) -> tuple[tuple[float, float], Floats]:
    """Return the ends of an axis, and its ticks: powers of ten or round numbers."""
    low, high = common_ends(axis, float(values.min()), float(values.max()))
    if log:
        first, last = np.log10(low), np.log10(high)
        if from_zero:  # an axis of y begins and ends at a power
            first, last = np.floor(first + 1e-9), np.ceil(last - 1e-9)
        powers = np.arange(np.ceil(first - 1e-9), last + 1e-9)
        step = max(1, int(np.ceil(len(powers) / 5)))
        return (10.0**first, 10.0**last), 10.0 ** powers[::step]
    if from_zero:
        low, high = 0.0, max(high, 1e-12)
        ticks = np.asarray(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
        return (low, float(ticks[-1])), ticks[ticks >= 0]
    ticks = np.asarray(MaxNLocator(5, integer=True, steps=[1, 2, 4, 5, 10]).tick_values(low, high))
    return (low, high), ticks[(ticks >= low) & (ticks <= high)]


def _axis(ends: tuple[float, float], log: bool, start: float, end: float) -> Callable[..., Floats]:
    """Return a function from values to places [px]."""
    low, high = ends
    if log:
        return log_axis(low, high, start, end)
    along = log_axis(0.0, high - low or 1.0, start, end)

    def linear(value: float | Floats) -> Floats:
        return along(np.asarray(value) - low)

    return linear


def as_its_name(curve: Curve) -> Curve:
    """Return a curve as dark as its name, which is secondary text where the curve is grey."""
    is_grey = curve.name and curve.colour == COLOUR["edge"]
    return curve._replace(colour=COLOUR["soft"]) if is_grey else curve


def _legend(curves: Sequence[Curve]) -> dict[str, Layer]:
    """Return the names of the curves in their colours below the title, each behind a sample."""
    named = [curve for curve in curves if curve.name]
    widths = [_SAMPLE + _LETTER * len(curve.name) for curve in named]
    left = 14 + np.cumsum([0.0, *widths])[: len(named)]
    paths = [
        np.array([[x, 36.0], [x + 16, 36.0]])
        for x, curve in zip(left, named, strict=True)
        if curve.joined
    ]
    colours = np.array([curve.colour for curve in named])
    shown = np.array([curve.shape >= 0 for curve in named], dtype=bool)
    marks = {
        "x": left[shown] + 8,
        "y": np.full(np.count_nonzero(shown), 36.0),
        "size": 3.5,
        "colour": colours[shown],
        "shape": np.array([curve.shape for curve in named])[shown],
    }
    return {
        "samples": lines(paths, width=1.8, colour=colours[[curve.joined for curve in named]]),
        "sample dots": Layer("dots", marks),
        "sample names": texts(left + 21, 36.0, [curve.name for curve in named], colour=colours),
    }


def _spot_layers(
    spots: Sequence[Spot],
    to_x: Callable[..., Floats],
    to_y: Callable[..., Floats],
    ends: tuple[float, float],
    bottom: float,
    drawn: Floats,
) -> dict[str, Layer]:
    """Return the dots of the current state with their values, which keep clear of the curves ``drawn`` (2, K)."""
    x = np.array([float(to_x(spot.x)) for spot in spots])
    y = np.array([float(to_y(spot.y)) for spot in spots])
    width = 2 * _HALF_LETTER * max(len(spot.words) for spot in spots)
    at, level, align = _free_place(x, y, width, ends, bottom, drawn)
    ghosts = {"ghost": True, "glide": True}
    return {
        "current": Layer(
            "dots",
            {
                "x": x,
                "y": y,
                "size": _spot_sizes(x, y, np.array([spot.shape for spot in spots])),
                "shape": np.array([spot.shape for spot in spots]),
                "colour": np.array([spot.colour for spot in spots]),
                **ghosts,
            },
        ),
        "values": texts(
            at,
            level,
            [spot.words for spot in spots],
            align=align,
            bold=1.0,
            halo=1.0,
            colour=np.array([spot.colour for spot in spots]),
        ),
    }


def _spot_sizes(x: Floats, y: Floats, shape: Floats) -> Floats:
    """Return the radius of each dot (S,) [px], so that dots close to each other do not hide one another.

    Where two are in one place, an open one is around the other.
    """
    sizes = np.full(x.size, _SPOT)
    for i in range(x.size):
        apart = np.delete(np.hypot(x - x[i], y - y[i]), i)
        nearest = float(apart.min(initial=np.inf))
        if nearest < _SMALLEST_SPOT:
            sizes[i] = _SPOT if shape[i] == _OPEN else _SMALLEST_SPOT - 0.5
        elif nearest < 2 * _SPOT:
            sizes[i] = max(_SMALLEST_SPOT, nearest / 2)
    return sizes


def _free_place(
    x: Floats, y: Floats, width: float, ends: tuple[float, float], bottom: float, drawn: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return x, y and alignment of the values of dots where they meet the fewest points of curves. [px].

    A value stands above or below its dot, or to its right or left. Where the values of several dots would not be
    clear there, they stand one above the other on one side, next to the dots or higher.
    """
    clear = np.concatenate([drawn, [x, y]], axis=1)
    half = width / 2
    low, high = ends
    middle = np.clip(x, low + half + 4, max(high - half, low + half + 4))

    def met(at: Floats, level: Floats, align: float, points: Floats) -> int:
        left = at - align * half
        outside = np.any(left < low) or np.any(left + width > high + _MARGIN - 4)
        outside = outside or level.min() < _TOP - 8 or level.max() > bottom - 6
        crowd = sum(crowding(a, b, width, points) for a, b in zip(left, level, strict=True))
        return crowd + _OUTSIDE * bool(outside)

    chosen = []
    worst = 0
    taken = clear
    for i in range(len(x)):
        here, mid = slice(i, i + 1), middle[i : i + 1]
        beside = [(mid, y[here] + down, 1.0) for down in (-15.0, 16.0, -25.0, 26.0)]
        for down in (-15.0, 15.0):
            beside += [(x[here] + 8, y[here] + down, 0.0), (x[here] - 8, y[here] + down, 2.0)]
        beside += [(x[here] + 4, y[here] - 22, 2.0), (x[here] - 4, y[here] + 22, 0.0)]
        beside += [(x[here] - 12, y[here] - 6, 2.0), (x[here] + 12, y[here] - 6, 0.0)]
        beside += [(x[here] + 8, y[here] - 25, 0.0), (x[here] - 8, y[here] - 25, 2.0)]
        # Somewhat further away where a curve would pass through it everywhere else.
        for down in (-36.0, -48.0):
            beside += [(x[here] + 8, y[here] + down, 0.0), (mid, y[here] + down, 1.0)]
        crowds = [met(*place, taken) for place in beside]
        best = int(np.argmin(crowds))
        worst = max(worst, crowds[best])
        chosen.append(beside[best])
        at, level, align = beside[best]
        across = float(at[0]) - align * half + np.linspace(0, width, 9)
        taken = np.concatenate([taken, [across, np.full(9, level[0])]], axis=1)
    if len(x) == 1 or not worst:
        at, level = (np.concatenate([place[k] for place in chosen]) for k in (0, 1))
        return at, level, np.array([place[2] for place in chosen])

    stacks = []  # x, y, align
    for up in (13.0, 40.0, 67.0, 94.0):
        level = spread(y - up, _APART, _TOP, bottom - 8)
        stacks += [(x + 10, level, 0.0), (x - 10, level, 2.0), (middle, level, 1.0)]
    at, level, align = min(stacks, key=lambda place: met(place[0], place[1], place[2], clear))
    return at, level, np.full(len(x), align)
