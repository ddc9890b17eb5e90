"""A grid of three axes as a solid, which a reader can turn: chips are dots, and cables around the edge bow out of it.

Coordinates of a solid count from its middle [px]: x to the right, y downwards, z towards the reader.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Flags, Floats, Ints
from fabriclab.views.scene import COLOUR, Layer, turned

_CURVE = 25  # points of a curve
_BOW = 1.9  # how far a closing cable bows out of the solid, in distances between chips
_AHEAD = 0.9  # how far along its axis it leaves and arrives, in steps of the axis
_BESIDE_AHEAD, _LESS_BOW = (
    2.3,
    0.35,
)  # the same, and a part of the bow, of one that ends beside its own line
_STUB = 0.42  # length of the stub of a cable around the edge, in such distances
_LARGEST = 120.0  # distance between chips [px]
_BESIDE = 12.0  # from the end of an axis to its letter [px]
_MARGINS = (_STUB, _STUB, _STUB, _STUB)  # left, above, right, below, in such distances


class Solid(NamedTuple):
    """The places of chips in a solid."""

    place: Floats  # (P, 3) from the middle of the solid [px]
    middle: tuple[float, float]  # where that is drawn [px]
    unit: float  # distance between neighbours [px]
    axis: tuple[
        int, ...
    ]  # the axis of the grid that runs across, down and towards the reader; -1 for none
    step: Floats  # (axes, 3) from a chip to its neighbour along each axis of the grid [px]


def solid_of(
    grid: Sequence[Ints],
    middle: tuple[float, float],
    room: tuple[float, float],
    down: int = -1,
    margins: tuple[float, float, float, float] = _MARGINS,
) -> Solid:
    """Return the places of the chips of a grid with two or three axes, so that it fills a room around ``middle`` [px].

    The longest axis runs across. ``down`` is the axis that runs down; by default the first of the others. ``margins``
    are what cables need beside the chips: left, above, right and below, in distances between chips.
    """
    size = [int(values.max()) + 1 for values in grid]
    others = list(range(len(grid)))
    if down < 0:
        across = int(np.argmax(size))
        others.remove(across)
        down = others[0]
    else:
        others.remove(down)
        across = max(others, key=lambda i: size[i])
        others.append(down)
        others.remove(across)
    others.remove(down)
    axis = (across, down, others[0] if others else -1)

    place = np.zeros((grid[0].size, 3))
    step = np.zeros((len(grid), 3))
    for column, i in enumerate(axis):
        if i >= 0:
            place[:, column] = grid[i] - (size[i] - 1) / 2
            step[i, column] = 1.0
    x, y, _ = turned(*place.T)
    left, above, right, below = margins
    wide, high = np.ptp(x) + left + right, np.ptp(y) + above + below
    unit = float(min(room[0] / wide, room[1] / high, _LARGEST))
    seen = middle[0] + unit * (left - right) / 2, middle[1] + unit * (above - below) / 2
    return Solid(place * unit, seen, unit, axis, step * unit)


def solid_lines(paths: Sequence[Floats], solid: Solid, **fields: Any) -> Layer:
    """Return a layer of lines of a solid; each line is given by an array of its points (P, 3)."""
    points = np.concatenate([np.empty((0, 3)), *paths])
    ptr = np.concatenate([[0], np.cumsum([len(path) for path in paths])])
    x, y, z = points.T
    where = {"ptr": ptr, "x": x, "y": y, "z": z, "middle": list(solid.middle)}
    return Layer("lines", {**where, **fields})


def solid_dots(points: Floats, solid: Solid, **fields: Any) -> Layer:
    """Return a layer of dots of a solid, at points (P, 3)."""
    x, y, z = points.T
    where = {"x": x, "y": y, "z": z, "middle": list(solid.middle), "lift": 0.75 * solid.unit}
    return Layer("dots", {**where, **fields})


def closing(solid: Solid, one: Ints, other: Ints, axis: int, bow: float = _BOW) -> list[Floats]:
    """Return the cables (25, 3) that close rings along an axis, from the last chip ``one`` to the first, ``other``.

    A cable is a cubic Bezier curve that leaves the solid beyond its last chip, passes outside, and arrives before the
    first. Cables of the axis that runs down pass before the reader's side, all others above or to the left. ``bow`` is
    how far they bow out of the solid, in distances between chips.
    """
    ahead = solid.step[axis]
    # Away from the solid: towards the reader for the axis that runs down, else up or to the left.
    away = np.zeros(3)
    if axis == solid.axis[1]:
        away[2] = 1.0
    elif axis == solid.axis[0]:
        away[1] = -1.0
    else:
        away[0] = -1.0
    swing = bow * solid.unit * away
    start, end = solid.place[one], solid.place[other]
    # One that ends beside its line would turn back in a point; it leaves further ahead, and bows out less.
    along = ahead / np.linalg.norm(ahead)
    beside = (end - start) - ((end - start) @ along)[:, None] * along
    is_beside = (np.linalg.norm(beside, axis=1) > 0.5 * solid.unit)[:, None]
    swing = np.where(is_beside, _LESS_BOW, 1.0) * swing
    leaves = np.where(is_beside, _BESIDE_AHEAD, _AHEAD) * ahead
    points = np.stack([start, start + leaves + swing, end - _AHEAD * ahead + swing, end], axis=-1)
    t = np.linspace(0, 1, _CURVE)
    weights = np.stack([(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3])
    return list(np.swapaxes(points @ weights, 1, 2))  # (cables, 25, 3)


def stubs(solid: Solid, one: Ints, other: Ints, axis: Ints) -> tuple[list[Floats], list[Floats]]:
    """Return the two stubs (2, 3) of each cable that closes a ring along an axis, at its last and at its first chip."""
    out = _STUB * solid.step[axis]
    last = [
        np.array([place, place + far]) for place, far in zip(solid.place[one], out, strict=True)
    ]
    first = [
        np.array([place, place - far]) for place, far in zip(solid.place[other], out, strict=True)
    ]
    return last, first


def closes(grid: Sequence[Ints], one: Ints, other: Ints) -> tuple[Flags, Ints, NDArray[np.bool_]]:
    """Return which cables lead around the edge, along which axis, and which of them run from first to last chip."""
    coordinates = np.array(grid)  # (axes, P)
    step = coordinates[:, other] - coordinates[:, one]
    last = coordinates.max(axis=1)[:, None]
    around = (np.abs(step) == last) & (last > 1)
    axis = np.argmax(np.where(around, 2, step != 0), axis=0)
    here = np.arange(one.size)
    return np.asarray(around.any(axis=0)), axis, np.asarray(step[axis, here] > 0)


def solid_axes(solid: Solid, names: Sequence[str]) -> Layer:
    """Return the name of each axis of the grid, beyond an edge of the solid."""
    low, high = solid.place.min(axis=0), solid.place.max(axis=0)
    beyond = min(0.6 * solid.unit, _STUB * solid.unit + _BESIDE)
    is_flat = low[2] == high[2]  # then nothing ends above the solid
    above = _BESIDE if is_flat else beyond
    ends = (
        np.array([high[0] + beyond, high[1], high[2]]),  # across, along the front
        np.array([high[0], low[1] - above, low[2]]),  # down, at the back
        np.array([high[0], high[1], low[2] - beyond]),  # towards the reader
    )
    x, y, z = np.array([ends[solid.axis.index(i)] for i in range(len(names))]).T
    where = {"x": x, "y": y, "z": z, "middle": list(solid.middle), "texts": list(names)}
    return Layer("texts", {**where, "align": 1.0, "colour": COLOUR["soft"]})
