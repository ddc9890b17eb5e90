"""Sweeps: time or bus bandwidth over size or ranks, for predicted, measured and published results."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import catalog, units
from fabriclab.core import MACHINE_SHARED, Floats, Result
from fabriclab.look import algorithm
from fabriclab.texts import table, text, wrapped
from fabriclab.views.axes import (
    FRACTIONAL,
    Ends,
    PlotArea,
    Scales,
    X,
    Y,
    axes_layers,
    decade_ticks,
    even_ticks,
    padded,
    scientific,
    tick_words,
    x_ticks,
)
from fabriclab.views.common import common_ends
from fabriclab.views.page import HERE, ROLES, Axes, Picture, Table, plain, spread
from fabriclab.views.rulers import fitted
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    lines,
    log_axis,
    printed,
    texts,
    texts_at,
    with_times_sign,
)

Results = Result | Sequence[Result] | Mapping[str, Result | Sequence[Result]]
Bounds = Mapping[str, units.Quantity]
Points = Mapping[str, tuple[units.Quantity, units.Quantity]]

_MOST = 5  # series with a look of their own, and with a clause in the alternative text

# The picture, in px.
_WIDTH = 880.0  # with the labels
_MAIN, _SIDE = 540.0, 340.0  # widths of both panels, if there are two
_LEFT, _TOP = 66.0, 34.0  # edges of the drawing area
_LEAST_BOTTOM = 294.0
_TITLE_BELOW = 27.0  # middle of the highest text below the title
_BELOW = 46.0  # for ticks and title of the x axis
_ROW = 17.0  # height of a row of labels
_LETTER = 7.0  # width of a letter in a label
_MARK_AT, _LABEL_AT = (
    17.0,
    28.0,
)  # from the right edge of the drawing area to a label's mark and text
_WIDEST, _WIDEST_OF_TWO = 190.0, 150.0  # the most that the text of a label takes
_SIDE_RIGHT = 24.0  # of the panel of errors, right of its axis [px]
_PANEL_TITLE = 14.0  # from the edge of the panel of errors to its title
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_EDGE = 12.0  # from the longest label to the edge of the picture, since bold letters are wider than `_LETTER`
_NEAR = (-18.0, -26.0, 18.0, 26.0)  # from a marked point to the middle of its name [px]
# Where another model is so many times farther off than the first, the panel of errors ends at so many times the largest
# error of the first.
_MUCH_FARTHER, _FAR_OFF = 4.0, 2.0
# From a marked point to the middle of its value [px], the best first; and half the height of the value.
_VALUE_AT: tuple[float, ...] = (-15.0, 15.0, -12.0, 12.0, -9.0, 9.0, -20.0, 20.0, -25.0, 25.0, 0.0)
_VALUE_AT += (-35.0, 35.0, -45.0, 45.0, -55.0, 55.0)
_VALUE_HALF = 8.0
_VALUE_BESIDE = 26.0  # a value farther from its point has a line to it [px]
_START_STEP = 16.0  # from place to place for a name at the start of a line [px]
_START_ASIDE = 11.0  # of such a name from its line [px]
_AWAY = 12.0  # farther from its point than a name beside it, where names moved apart [px]
_BEFORE = 9.0  # more, for the line from a point to a name that moved [px]
_LEADER_GAP = 3.0  # from such a line to the name [px]
_OFF_LINE = 11.0  # from a line to the middle of its value at the cursor [px]
_BESIDE_MARK = 6.0  # from the middle of a mark to the line that leads to a name [px]
_FAR = 140.0  # and one that ends even farther is named on any side of its end that is free [px]
# From its last mark down and up to such a name [px]: on its own height, below and above, and then a row farther.
_ASIDE = (17.0, -17.0, 31.0, -31.0)
_LOW = 8.5  # half the height of such a name [px]
_SHORT = 60.0  # a series that ends so far from the right edge is named where it ends
_HATCH_STEP, _HATCH_HEIGHT = 7.0, 9.0  # of the strokes on the side that cannot be reached
_FAR = 1.2  # the y axis of rates ends so far above the highest point at most, for a bound

_LINE, _THIN, _BOUND = 2.2, 1.4, 1.2  # widths of lines
_SPREAD, _THIN_SPREAD = 1.4, 0.9  # widths of the strokes from low to high
# Shapes of the first, second, third ... series of one kind; the two lists have the same outlines.
_FILLED_SHAPES = (0.0, 3.0, 4.0, 5.0, 6.0)
_OPEN_SHAPES = (1.0, 7.0, 8.0, 9.0, 10.0)
# Of lines without a hue of their own: the triangle of the double tree comes last; beside algorithms the circle does.
_NTH, _NTH_FILLED = (0, 1, 4, 3, 2), (4, 1, 3, 2, 0)
# Colours in turn of series without a hue of their own, and of such beside algorithms with one. The hues of traffic and
# of tenants are not among them, since each stands for its own thing in the whole course.
_TURN = ("ink", "soft", "direct")
_BESIDE = ("direct",)
_MARK, _CORE = 4.0, 2.0  # radius of a mark on a line, and of the dot inside a cored one [px]
_AROUND = (-15.0, 15.0, 0.0, -28.0, 28.0)  # from a point to the middle of its words, downwards [px]
_LINE_BETWEEN = 12  # points that a line between a point and its words counts as
_LEADER_APART = 8.0  # from the end of a line to such words, to their middle [px]
_AMONG_NAMES = 8  # points that a place beyond the axis counts as, where names of series stand
_WORDS_AS_POINTS = 24  # points that words count as, for those that are placed after them
_AROUND_DOT = 7.0  # radius of the ring around a named dot [px]
_DOT, _POINT = 3.8, 5.5  # radius of a dot, and of a marked point of a line [px]
_BESIDE_ROOM = 20.0  # least distance between values of x where dots may stand beside their own [px]
_MARKS_APART = 80.0  # about, on a line with many points [px]
_OTHER_LOOK = {"colour": COLOUR["edge"], "width": 1.2, "alpha": 1.0}
_LIKE_LOOK = {
    "colour": COLOUR["edge"],
    "width": 1.2,
}  # of curves of other states, to be told from a grid line
_BOUND_LOOK = {"colour": COLOUR["edge"], "dash": 2.0, "width": _BOUND}
_NAMING = ("label", "algorithm", "algo", "system")  # a result is named after the first it has
_NO_NAMES = ("", "default")
# Names that people write with hyphens, and x for the sign of a product, as in "GPUs x 2" and "8 x MI300X".
_HYPHENED = ("halving_doubling", "all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_HYPHENED_ID = r"[a-z]+(-[a-z0-9]+)+"
# A repository on GitHub, the commit, the date, and where in it the numbers stand.
_IN_REPOSITORY = re.compile(
    r"([\w.-]+/[\w.-]+)(?: ?@[0-9a-f]{7,40})?(?:(?P<date> \(\d{4}-\d\d-\d\d\)), .*|:\S+)?"
)
_CAPITALS = "dgx hgx nvls nccl rccl mpi tcp sharp ll ll128 pxn ecmp pat".split()


class Series(NamedTuple):
    """One line or one set of dots, with its label and its look."""

    label: str
    role: str  # a key of `ROLES`, or "other" for a series in grey
    points: Floats  # (4, K): x, y, low, high; low and high are NaN where there is no spread
    look: Mapping[str, float]  # fields of the layer
    dots: bool = False  # whether it is dots; else it is a line
    aside: Floats | None = (
        None  # (K,) how far each dot stands beside its x, so that it hides no other [px]
    )

    def places(self, area: PlotArea) -> Floats:
        """Return where the points are drawn, (K, 2) [px]."""
        path = area.path(self.points[0], self.points[1])
        if self.aside is not None:
            path[:, 0] += self.aside
        return path


class LabelRow(NamedTuple):
    """One row of text of a label beside the drawing area."""

    words: str
    series: Series
    first: bool  # whether it is the first row of a label, which has the mark of the series


class Miss(NamedTuple):
    """The error of a model against a published or measured result, at the sizes that both have."""

    model: Series
    at: Floats  # (K,) values of x
    off: Floats  # (K,) (model - result) / result


def sweep(
    results: Results,
    *,
    y: str = "time",
    x: str = "size",
    bounds: Bounds | None = None,
    error: bool = False,
    x_name: str = "",
    y_name: str = "",
    token: units.Quantity | None = None,
    points: Points | None = None,
    ax: Axes | None = None,
    finding: str | None = None,
) -> Picture:
    """Draw results as curves and dots, each with its name at its end, in a look that tells the kind of evidence.

    Predictions are lines; what was measured here is filled marks, and what was published open ones. Times are on a
    logarithmic axis, bus bandwidths on a linear one.

    Parameters
    ----------
    results : Result, sequence of Result, or mapping of label to these
        Several results with one label form one series. The first five series have a look of their own, and all further
        ones are grey.
    y, x : str
        Quantities on the axes: "time" [s] or "busbw" [B/s] over "size" [B], "ranks" [1] or "tokens" [1].
    bounds : mapping of label to quantity, optional
        Rates or times at which to draw dotted lines. If no point passes one, the side beyond is hatched. [s or B/s]
    error : bool
        Whether to add a panel with the error of each prediction against the first published (or else measured) result,
        at all values of ``x`` that both have. The sentence above the picture then states the median.
    x_name : str, optional
        What the x axis shows if it is not the size of messages or the number of ranks, such as "bucket size".
    y_name : str, optional
        What the y axis shows if it is not the time or bandwidth of a collective, such as "waiting of the next pass".
    token : float or str, optional
        Size of a token, which an axis of tokens needs. [B]
    points : mapping of str to pair, optional
        Points that the sentence above the picture is about: their words, and x and y of each, as the axes have them.
    ax, finding : optional
        Axes to draw on, and the sentence above the picture.

    Raises
    ------
    ValueError
        If there is nothing to draw, ``x`` or ``y`` is unknown, ``error`` has no pair to compare, the size of a token is
        missing, or one of the ``points`` does not fit its axis or lies outside.
    """
    y = units.choice(y, "y", ("time", "busbw"))
    x = units.choice(x, "x", ("size", "ranks", "tokens"))
    groups = by_label(results, x)
    scene = sweep_scene(
        groups,
        y,
        x,
        bounds,
        error=error,
        x_name=x_name,
        y_name=y_name,
        token=token,
        points=points,
    )
    return printed(replace(scene, caption=_caption(groups)), ax=ax, finding=finding)


def sweep_scene(
    results: Results,
    y: str = "time",
    x: str = "size",
    bounds: Bounds | None = None,
    said: str = "",
    cross: bool = False,
    error: bool = False,
    cursor: float | None = None,
    x_name: str = "",
    y_name: str = "",
    token: units.Quantity | None = None,
    points: Points | None = None,
) -> Scene:
    """Return a picture of sweeps, or a scene with an error message if they cannot be drawn.

    ``said`` replaces the sentence above the picture; ``cross`` marks where the first two predicted lines cross;
    ``error``, ``x_name``, ``y_name``, ``token`` and ``points`` are as in `sweep`; ``cursor`` is the value of x at which
    to read all lines.
    """
    try:
        series = collect(by_label(results, x), bounds or {}, x, y, token)
        missed = misses(series) if error else []
    except ValueError as wrong:
        return Scene(str(wrong), wrong=True)
    return series_scene(
        series,
        x,
        y,
        said,
        cross=cross,
        missed=missed,
        cursor=cursor,
        x_name=x_name,
        y_name=y_name,
        points=points or {},
    )


# The picture --------------------------------------------------------------------------------------


def series_scene(
    series: Sequence[Series],
    x: str,
    y: str,
    said: str,
    *,
    cross: bool = False,
    missed: Sequence[Miss] = (),
    cursor: float | None = None,
    x_name: str = "",
    y_name: str = "",
    at_start: Sequence[str] = (),
    points: Points | None = None,
) -> Scene:
    """Return a picture of series; see `sweep_scene`. A panel at the side shows the errors in ``missed``.

    Series in ``at_start`` are named at their left end, because they meet others at the right.
    """
    area, scales = plot_of(series, x, y, two_panels=bool(missed))
    series = set_apart(series, area)
    drawn = drawn_points(series, area)
    crossing = first_crossing(series) if cross and cursor is None else None

    wide = _MAIN if missed else _WIDTH
    beside = [one for one in series if one.label not in at_start]
    labels = label_layers(beside, area, drawn, wide)
    named = point_layers(points_of(points or {}, x, y), series, area, drawn, labels["labels"], wide)
    layers = {
        **axes_layers(area, scales, x_name, y_name),
        **bound_layers(series, area, drawn),
        "leaders": labels.pop("leaders"),  # below all marks
        **named.below,
        **series_layers(series, area),
        **named.above,
        **labels,
        "start labels": start_labels([one for one in series if one.label in at_start], area, drawn),
    }
    clauses = told(series, x, y)
    sentence = ""
    if crossing is not None:
        layers |= crossing_layers(crossing, area, drawn)
        clauses.append(text("sweep.crossed", at=crossing_words(crossing, area)))
        sentence = turning(series, y, crossing, area)
    if cursor is not None:
        layers |= cursor_layers(series, area, scales, cursor, drawn)
        sentence = read_at(series, area, cursor)
        clauses = [sentence.rstrip("."), *clauses]
    if missed:
        sentence = how_far_off(missed, area)
        clauses = [sentence.rstrip("."), *clauses]

    return Scene(
        said or sentence or f"{capitalised(clauses[0])}.",
        as_table(series, x, y, missed),
        layers,
        height=area.bottom + _BELOW,
        alt="; ".join([capitalised(clauses[0]), *clauses[1:]]),
        width=_MAIN if missed else _WIDTH,
        side=error_panel(missed, x, area.bottom) if missed else None,
    )


def quoted(label: str) -> str:
    """Return the name of a series for a sentence: in quotation marks if it has a comma of its own."""
    return f"“{label}”" if "," in label else label


def capitalised(words: str) -> str:
    """Return words with a capital letter at their beginning; all other letters stay as they are.

    Examples
    --------
    >>> capitalised("ring, ideal"), capitalised("“ring, ideal”")
    ('Ring, ideal', '“Ring, ideal”')
    """
    quote = "“" * words.startswith("“")
    rest = words.removeprefix(quote)
    return quote + rest[:1].upper() + rest[1:]


def plot_of(
    series: Sequence[Series], x: str, y: str, *, two_panels: bool = False
) -> tuple[PlotArea, Scales]:
    """Return the drawing area and the scales of a sweep, with room for the labels at the right."""
    most = _WIDEST_OF_TWO if two_panels else _WIDEST
    right = (_MAIN if two_panels else _WIDTH) - label_room(series, most)
    # Two panels over one quantity have the same ticks, and the panel of errors has less room for them.
    scales = axes_of(series, x, y, _SIDE - _SIDE_RIGHT - _LEFT if two_panels else right - _LEFT)
    n_rows = max(len(label_rows(series)), sum(one.role == "bound" for one in series))
    return plot_area(scales, x, y, right, n_rows), scales


def plot_area(scales: Scales, x: str, y: str, right: float, n_rows: int) -> PlotArea:
    """Return a drawing area that ends at ``right`` [px] and is high enough for ``n_rows`` rows of labels beside it."""
    bottom = max(_LEAST_BOTTOM, _TOP + 6 + _ROW * n_rows)
    return PlotArea(
        x=x,
        y=y,
        to_x=log_axis(*scales.x, _LEFT, right),
        to_y=log_axis(*scales.y, bottom, _TOP),
        left=_LEFT,
        right=right,
        top=_TOP,
        bottom=bottom,
    )


def drawn_points(series: Sequence[Series], area: PlotArea) -> Floats:
    """Return points all along the lines and dots in the picture, (2, P) [px], which labels should leave free."""
    parts = [np.empty((2, 0))]
    for one in series:
        if one.role == "bound":
            continue
        path = one.places(area)
        if not one.dots:
            path = densely(path)
        parts.append(path.T)
    return np.concatenate(parts, axis=1)


def set_apart(series: Sequence[Series], area: PlotArea) -> list[Series]:
    """Return the series with those dots side by side that would hide each other: of one x, and nearly one y.

    Where values of x are so close that a dot beside its own would look like one of the next, dots stay where they are.
    """
    shown = [i for i, one in enumerate(series) if one.dots and one.role != "predicted"]
    if len(shown) < 2:
        return list(series)
    places = {i: series[i].places(area) for i in shown}
    columns = np.unique(np.concatenate([path[:, 0] for path in places.values()]).round())
    if np.diff(columns).min(initial=np.inf) < _BESIDE_ROOM:
        return list(series)

    aside = {i: np.zeros(len(path)) for i, path in places.items()}
    for column in columns:
        here: list[tuple[float, float, int, int]] = []  # top and foot of its spread, series, point
        for i, path in places.items():
            spread_at = area.to_y(series[i].points[2:])  # NaN where there is none
            for k in np.flatnonzero(path[:, 0].round() == column).tolist():
                reach = [float(path[k, 1]), *spread_at[:, k].tolist()]
                here.append((float(np.nanmin(reach)), float(np.nanmax(reach)), i, k))
        together: list[list[tuple[int, int]]] = []
        foot = -np.inf  # of the dots and spreads so far
        for top, end, i, k in sorted(here):
            if top - foot >= 2 * _DOT:
                together.append([])
            together[-1].append((i, k))
            foot = max(foot, end)
        for dots in together:
            for number, (i, k) in enumerate(sorted(dots)):
                aside[i][k] = 2 * _DOT * (number - (len(dots) - 1) / 2)
    return [one._replace(aside=aside[i]) if i in aside else one for i, one in enumerate(series)]


def densely(path: Floats, step: float = 4.0) -> Floats:
    """Return a path (K, 2) with further points between its own, so that neighbours are at most ``step`` apart [px]."""
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(path, axis=0).T))])
    places = np.linspace(0.0, along[-1], 2 + int(along[-1] / step))
    return np.stack([np.interp(places, along, path[:, 0]), np.interp(places, along, path[:, 1])], 1)


def crowding(left: float, middle: float, width: float, drawn: Floats, half: float = 10.0) -> int:
    """Return how many drawn points lie in the box of a label, by its left end, its middle and half its height [px]."""
    across, up = drawn
    inside = (across > left - 6) & (across < left + width + 6) & (np.abs(up - middle) < half)
    return int(np.count_nonzero(inside))


# Lines, dots and bounds -----------------------------------------------------------------------------


def series_layers(series: Sequence[Series], area: PlotArea) -> dict[str, Layer]:
    """Return the lines, the spreads of points as vertical strokes, and on top of them the marks and dots."""
    return {
        "lines": line_layer(series, area),
        "spread": spread_layer(series, area),
        "line marks": line_marks(series, area),
        "dots": dot_layer(series, area),
    }


def line_layer(series: Sequence[Series], area: PlotArea) -> Layer:
    """Return a line for each series drawn as a line; when pointed at, it shows its values at both ends."""
    strokes = []
    names = []
    for one in series:
        if one.dots or one.role == "bound" or one.points.shape[1] < 2:
            continue
        strokes.append((one, area.path(one.points[0], one.points[1])))
        names.append(told([one], area.x, area.y)[0])
    return _lines(strokes, names=names)


def line_marks(series: Sequence[Series], area: PlotArea) -> Layer:
    """Return the marks of lines on some of their points, so that a line can be told without its hue.

    Where points lie close together, one line has its marks on other points than the next, which may run beside it.
    """
    marked = [one for one in series if "mark" in one.look]
    if not marked:
        return _marks([], _MARK)
    every = np.unique(np.concatenate([one.points[0] for one in marked]))
    apart = np.ptp(area.to_x(every)) / max(every.size - 1, 1)  # [px]
    step = max(1, round(_MARKS_APART / max(apart, 1.0)))
    places = []
    for nth, one in enumerate(marked):
        shown = (np.searchsorted(every, one.points[0]) - nth) % step == 0
        shown[-1] |= not shown.any()
        path = area.path(one.points[0], one.points[1])
        places += [(mark_of(one), place) for place in path[shown]]
    return _marks(places, _MARK)


def _marks(places: Sequence[tuple[Mapping[str, float], Floats]], size: float) -> Layer:
    """Return the marks of series at some places of the picture; a cored mark is an open one with a dot inside."""
    dots = []  # x, y, colour, shape, size
    for look, (x, y) in places:
        dots.append((x, y, look["colour"], look["shape"], size))
        if look.get("core"):
            dots.append((x, y, look["colour"], 0.0, _CORE))
    across, up, colour, shape, sizes = np.array(dots).reshape(-1, 5).T
    return Layer("dots", {"x": across, "y": up, "colour": colour, "shape": shape, "size": sizes})


def spread_layer(series: Sequence[Series], area: PlotArea) -> Layer:
    """Return a vertical stroke from low to high at each point with a spread; it is pale where the series is a line.

    Where marks of other series lie between, the strokes are thinner.
    """
    strokes = []
    for one in series:
        for (x, _, low, high), (at, _) in zip(one.points.T, one.places(area), strict=True):
            if low < high:
                path = area.path([x, x], [low, high])
                path[:, 0] = at
                strokes.append((one, path))
    pale = np.array([1.0 if one.dots else 0.45 for one, _ in strokes])
    several = sum(one.dots for one in series) > 1
    return _lines(strokes, dash=0.0, width=_THIN_SPREAD if several else _SPREAD, alpha=pale)


def dot_layer(series: Sequence[Series], area: PlotArea) -> Layer:
    """Return the dots of all series drawn as dots; when pointed at, each shows its values."""
    dots = []
    names = []
    for one in series:
        if not one.dots:
            continue
        for (x, y), place in zip(one.points[:2].T, one.places(area), strict=True):
            dots.append((one, place))
            names.append(f"{one.label}, {area.format_x(x)}: {area.format_y(y)}")
    size = np.array([_POINT if one.role == "predicted" else _DOT for one, _ in dots])
    return _dots(dots, names=names, size=size)


def bound_layers(series: Sequence[Series], area: PlotArea, drawn: Floats) -> dict[str, Layer]:
    """Return bounds as dotted lines with words; the side that no point of the picture reaches is hatched.

    A rate is bounded from above and a time from below. A bound that some point passes is only a mark.
    """
    bounds = [one for one in series if one.role == "bound"]
    if not bounds:
        return {}
    upward = 1 if area.y == "time" else -1  # towards the side that cannot be reached [px]
    strokes = []
    hatches = []
    words = []
    wanted = []
    for one in bounds:
        value = one.points[1, 0]
        height = float(area.to_y(value))
        strokes.append((one, np.array([[area.left, height], [area.right, height]])))
        key = "sweep.bound"
        if is_bound(one, series, area.y):
            key = "sweep.least" if area.y == "time" else "sweep.most"
            hatches += _hatching(area, height, upward)
        words.append(text(key, label=one.label, value=plain(area.format_y(value))))
        wanted.append(height - 10 * upward)
    heights = spread(np.clip(wanted, area.top, area.bottom - 6), 15.0, area.top, area.bottom - 6)
    places = [
        _bound_place(area, len(each) * _LETTER * 0.9, float(middle), upward, drawn)
        for each, middle in zip(words, heights, strict=True)
    ]
    left, heights = np.array(places).T
    return {
        "hatching": lines(hatches, width=0.8, colour=COLOUR["edge"]),
        "bounds": _lines(strokes, names=words),
        "bound words": texts(left, heights, words, colour=COLOUR["soft"], halo=1.0),
    }


def _bound_place(
    area: PlotArea, width: float, middle: float, upward: int, drawn: Floats
) -> tuple[float, float]:
    """Return left end and height of the words of a bound: where lines would meet them, beyond its hatching. [px]."""
    left = _freest(area, width, middle, drawn)
    beyond = middle + upward * (_HATCH_HEIGHT + 18)
    there = _freest(area, width, beyond, drawn)
    taken = crowding(left, middle, width, drawn), crowding(there, beyond, width, drawn)
    if upward < 0 and taken[1] < taken[0] and beyond > _TITLE_BELOW:
        return there, beyond
    return left, middle


def is_bound(bound: Series, series: Sequence[Series], y: str) -> bool:
    """Return whether no point of the picture lies beyond a bound: below it for a time, above it for a rate."""
    limit = bound.points[1, 0]
    values = np.concatenate([one.points[1] for one in series if one.role != "bound"])
    if y == "time":
        return bool(values.min() >= limit)
    return bool(values.max() <= limit)


def _hatching(area: PlotArea, height: float, upward: int) -> list[Floats]:
    """Return short slanted strokes along a line at a height [px], on one side of it."""
    depth = upward * _HATCH_HEIGHT
    starts = np.arange(area.left, area.right - _HATCH_STEP, _HATCH_STEP)
    return [
        np.array([[start, height + depth], [start + _HATCH_STEP, height]])
        for start in starts.tolist()
    ]


def _freest(area: PlotArea, width: float, middle: float, drawn: Floats) -> float:
    """Return the left end of a text of a width [px] inside the drawing area where it meets the fewest points."""
    places = np.linspace(area.left + 8, max(area.left + 9, area.right - width - 8), 9)
    return float(min(places, key=lambda left: crowding(left, middle, width, drawn)))


# Labels -------------------------------------------------------------------------------------------


def labelled(series: Sequence[Series]) -> list[tuple[str, Series]]:
    """Return each label with its series, bounds excepted; several grey series share one, beside the last of them."""
    out = [(one.label, one) for one in series if one.role not in ("other", "bound")]
    others = [one for one in series if one.role == "other"]
    if len(others) == 1:
        out.append((others[0].label, others[0]))
    elif others:
        out.append((text("sweep.others", n=len(others)), others[-1]))
    return out


def label_rows(series: Sequence[Series], room: float = _WIDEST) -> list[LabelRow]:
    """Return the rows of all labels; a label that is longer than the ``room`` [px] takes two rows."""
    rows = []
    for label, one in labelled(series):
        first, *more = wrapped(label, int(room / _LETTER)) or [label]
        rows.append(LabelRow(first, one, first=True))
        if more:
            rows.append(LabelRow(fitted(" ".join(more), room), one, first=False))
    return rows


def label_room(series: Sequence[Series], most: float) -> float:
    """Return the room that the labels need at the right of the drawing area [px]."""
    rows = label_rows(series, most)
    widest = max([len(row.words) for row in rows], default=0) * _LETTER
    return _LABEL_AT + max(34.0, min(most, widest)) + _EDGE


def label_layers(
    series: Sequence[Series], area: PlotArea, drawn: Floats, width: float
) -> dict[str, Layer]:
    """Return the name of each series, with its mark, as close to its end as a picture of a width [px] has room.

    Names stand in a column at the right, with a thin line from the end of each series. A series that ends early is
    named where it ends, if nothing is drawn there.
    """
    rows = label_rows(series, width - area.right - _LABEL_AT - _EDGE)
    inside = []  # rows with left end or middle, height and align
    for row in rows:
        place = _place_inside(row, area, drawn) if row.first else None
        if place is not None:
            inside.append((row, place))
    inside, moved = _moved_apart(inside, area)
    column = [row for row in rows if all(row.series is not other.series for other, _ in inside)]

    ends = [row.series.places(area)[-1] for row in column]
    wanted = np.clip([end[1] for end in ends], area.top, area.bottom)
    height = spread(wanted, _ROW, area.top, area.bottom) if column else np.empty(0)

    leaders = []
    marks = []
    for row, end, middle in zip(column, ends, height, strict=True):
        if not row.first:
            continue
        has_mark = "shape" in mark_of(row.series)
        to = area.right + (_MARK_AT - 6 if has_mark else _LABEL_AT - 4)
        begin = end[0] + (_BESIDE_MARK if has_mark else 0.0)
        path = [[begin, end[1]], [max(begin, area.right), end[1]], [to, middle]]
        leaders.append((row.series, np.array(path)))
        marks.append((row.series, np.array([area.right + _MARK_AT, middle])))
    for row, (x, y, _) in moved:
        # A mark beside such a name would look like one more point of the series.
        end = row.series.places(area)[-1]
        path = [[end[0] + _BESIDE_MARK, end[1]], [x - _LEADER_GAP, y]]
        leaders.append((row.series, np.array(path)))
    left = [area.right + _LABEL_AT] * len(column) + [place[0] for _, place in inside]
    height = np.append(height, [place[1] for _, place in inside])
    align = [0.0] * len(column) + [place[2] for _, place in inside]

    shown = [*column, *(row for row, _ in inside)]
    marked = [(mark_of(one), place) for one, place in marks if "shape" in mark_of(one)]
    colour = np.array([_ink(row.series) for row in shown])
    return {
        "leaders": _lines(leaders, dash=0.0, width=1.0, colour=COLOUR["hair"]),
        "marks": _marks(marked, 4.5),
        "labels": texts(
            np.array(left),
            height,
            [row.words for row in shown],
            align=np.array(align),
            bold=np.where(colour == COLOUR["soft"], 0.0, 1.0),
            colour=colour,
            halo=1.0,
        ),
    }


def start_labels(series: Sequence[Series], area: PlotArea, drawn: Floats) -> Layer:
    """Return the names of lines, each beside its line as far left as nothing else is drawn there."""
    left = []
    height = []
    for one in series:
        path = densely(area.path(one.points[0], one.points[1]), _START_STEP)
        width = len(one.label) * _LETTER
        places = []
        for x, y in path.tolist():
            for across, up in ((2.0, -_START_ASIDE), (2.0, _START_ASIDE), (14.0, 6.0)):
                if area.top < y + up < area.bottom - 8:
                    places.append((x + across, y + up))
        best = min(places, key=lambda place: crowding(place[0], place[1], width, drawn))
        left.append(best[0])
        height.append(best[1])
    words = [one.label for one in series]
    return texts(np.array(left), np.array(height), words, colour=COLOUR["soft"], halo=1.0)


def _place_inside(
    row: LabelRow, area: PlotArea, drawn: Floats
) -> tuple[float, float, float] | None:
    """Return place and align of a name in one row inside the drawing area, or None if it belongs in the column.

    A series that ends far from the right edge has its name beside its end, if there is room. A marked point of a line
    has it where the fewest lines are.
    """
    one = row.series
    x, y = one.places(area)[-1].tolist()
    width = len(row.words) * _LETTER
    if row.words != one.label:
        return None
    if one.role == "predicted" and one.dots:
        half = width / 2
        middle = float(np.clip(x, area.left + half, area.right - half))
        heights = [y + dy for dy in _NEAR if area.top < y + dy < area.bottom - 10]
        best = min(heights, key=lambda each: crowding(middle - half, each, width, drawn))
        return middle, best, 1.0
    if x > area.right - _SHORT - width:
        return None
    y = min(y, area.bottom - 10)  # above the axis
    if not crowding(x + 14, y, width, drawn):
        return x + 10, y, 0.0
    if x > area.right - _FAR:  # a line to the column is short
        return None
    beside = [(x - 14 - width, y, x - 10, 2.0)]
    for aside in _ASIDE:
        beside.append((x - width / 2, y + aside, x, 1.0))
        beside.append((x + 6, y + aside, x + 6, 0.0))
        beside.append((x - 6 - width, y + aside, x - 6, 2.0))
    for left, middle, at, align in beside:
        fits = left > area.left and area.top < middle < area.bottom - 10
        if fits and not crowding(left, middle, width, drawn, _LOW):
            return at, middle, align
    return None


def _moved_apart(
    inside: Sequence[tuple[LabelRow, tuple[float, float, float]]], area: PlotArea
) -> tuple[list[tuple[LabelRow, tuple[float, float, float]]], list[Any]]:
    """Return names in the drawing area so that none lies on another, and those that moved, which need a line.

    Two series may end in the same place, for example if each has one point.
    """
    placed = list(inside)
    ends = []  # left and right end of each name
    for row, (x, _, align) in placed:
        width = len(row.words) * _LETTER
        ends.append((x - align / 2 * width, x + (1 - align / 2) * width))
    close = []
    for i, (_, (_, y, _)) in enumerate(placed):
        for k, (_, (_, other, _)) in enumerate(placed):
            beside = ends[i][1] < ends[k][0] or ends[k][1] < ends[i][0]
            if i != k and not beside and abs(y - other) < _ROW:
                close.append(i)
                break
    if not close:
        return placed, []
    heights = spread([placed[i][1][1] for i in close], _ROW, area.top, area.bottom - 10)
    for i, height in zip(close, heights.tolist(), strict=True):
        row, (x, _, align) = placed[i]
        placed[i] = row, (x if align else x + _AWAY + _BEFORE, height, align)
    return placed, [placed[i] for i in close if not placed[i][1][2]]


def mark_of(one: Series) -> dict[str, float]:
    """Return colour and shape of the mark beside the name of a series; a line without a mark of its own has none."""
    look = dict(one.look)
    if "mark" in look:
        look["shape"] = look.pop("mark")
    return look


def _ink(one: Series) -> float:
    """Return the colour of the name of a series: its own, or that of secondary text where it is grey."""
    return COLOUR["soft"] if one.look["colour"] == COLOUR["edge"] else one.look["colour"]


# Named points ---------------------------------------------------------------------------------------


class Named(NamedTuple):
    """A point of the picture that has words of its own."""

    words: str
    x: float
    y: float


def points_of(points: Points, x: str, y: str) -> list[Named]:
    """Return named points in the units of the axes.

    Raises
    ------
    ValueError
        If a value has no meaning on its axis.
    """
    found = []
    for words, (across, up) in points.items():
        what = f"points[{words!r}]"
        at = units.size(across, what) if x == "size" else float(across)
        found.append(Named(readable(words), at, units.parse(up, Y[y].quantity, what)))
    return found


class PointLayers(NamedTuple):
    """Layers of named points: what lies below the marks of series, and what lies above them."""

    below: dict[str, Layer]
    above: dict[str, Layer]


def point_layers(
    points: Sequence[Named],
    series: Sequence[Series],
    area: PlotArea,
    drawn: Floats,
    labels: Layer,
    width: float,
) -> PointLayers:
    """Return named points of a picture of a ``width`` [px], with words where they meet the fewest lines and words.

    A point is a dot in ink or, where a series has a dot, a ring in ink around that.
    """
    if not points:
        return PointLayers({}, {})
    places = area.path(np.array([one.x for one in points]), np.array([one.y for one in points]))
    dots = [one.places(area) for one in series if one.dots] or [np.empty((0, 2))]
    away = np.hypot(*(places[:, None] - np.concatenate(dots)).transpose(2, 0, 1))
    has_dot = away.min(axis=1, initial=np.inf) < 2 * _DOT
    taken = drawn
    for x, y, words in zip(*(labels.fields[key] for key in ("x", "y", "texts")), strict=True):
        row = np.linspace(x, x + _LETTER * len(words), _WORDS_AS_POINTS)
        taken = np.concatenate([taken, [row, np.full(row.size, y)]], axis=1)
    best = []
    leaders: list[Floats] = []  # where another line runs between a point and its words
    for one, (x, y) in zip(points, places.tolist(), strict=True):
        wide = len(one.words) * _LETTER
        ways = []
        for dy in _AROUND:
            if not area.top - 8 < y + dy < area.bottom - 8:
                continue
            for dx, align in ((_POINT + 6, 0.0), (0.0, 1.0), (-_POINT - 6, 2.0)):
                left = x + dx - align / 2 * wide
                if (dy or dx) and left > area.left + 2 and left + wide < width - _EDGE:
                    ways.append((x + dx, y + dy, align))
        if not ways:
            raise ValueError(
                f"the point {one.words!r} lies outside of the axes, or its words are too long for the picture"
            )
        costs = [
            crowding(way[0] - way[2] / 2 * wide, way[1], wide, taken)
            + _LINE_BETWEEN * lines_between(x, y, way[1], series, area)
            + _AMONG_NAMES * (way[0] + (1 - way[2] / 2) * wide > area.right)
            for way in ways
        ]
        place = ways[int(np.argmin(costs))]
        best.append(place)
        begin = place[0] - place[2] / 2 * wide
        if lines_between(x, y, place[1], series, area):
            end = float(np.clip(x, begin + _LETTER, begin + wide - _LETTER))
            up = math.copysign(_LEADER_APART, y - place[1])
            leaders.append(np.array([[x, y], [end, place[1] + up]]))
        row = np.linspace(begin, begin + wide, _WORDS_AS_POINTS)
        taken = np.concatenate([taken, [row, np.full(row.size, place[1])]], axis=1)
    left, height, align = np.array(best).T
    words = [one.words for one in points]
    x, y = places.T
    look = {"shape": 0.0, "colour": COLOUR["ink"]}
    above = {
        "named": Layer(
            "dots",
            {
                **look,
                "x": x[~has_dot],
                "y": y[~has_dot],
                "size": _POINT,
                "names": [word for word, has in zip(words, has_dot, strict=True) if not has],
            },
        ),
        "named words": texts(left, height, words, align=align, bold=1.0, halo=1.0),
    }
    below = {
        "named leaders": lines(leaders, width=1.0, colour=COLOUR["ink"]),
        "named below": Layer(
            "dots", {**look, "x": x[has_dot], "y": y[has_dot], "size": _AROUND_DOT}
        ),
    }
    return PointLayers(below, above)


def lines_between(
    x: float, y: float, height: float, series: Sequence[Series], area: PlotArea
) -> int:
    """Return how many lines run between a point and its words at a ``height`` [px], which would name them instead."""
    low, high = sorted((y, height))
    count = 0
    for one in series:
        if one.dots or one.role == "bound" or one.points.shape[1] < 2:
            continue
        path = one.places(area)
        at = float(np.interp(x, path[:, 0], path[:, 1], np.nan, np.nan))
        count += low < at < high and abs(at - y) > _LINE
    return count


# Crossings and the cursor -----------------------------------------------------------------------------


def first_crossing(series: Sequence[Series]) -> float | None:
    """Return the value of x at which the first two predicted series cross, or None if they never do."""
    predicted = [one.points[:2] for one in series if one.role == "predicted"]
    if len(predicted) < 2:
        return None
    return crossover(predicted[0], predicted[1])


def crossing_words(x: float, area: PlotArea) -> str:
    """Return the value of x where two lines cross with two significant digits, in a unit of the axis."""
    return binary_size(x) if area.x == "size" else area.format_x(float(f"{x:.2g}"))


def binary_size(size: float) -> str:
    """Write a size with two significant digits and a binary prefix, as the ticks of an axis of sizes have one.

    Examples
    --------
    >>> binary_size(190_000), binary_size(3.6 * 2**20)
    ('190 KiB', '3.6 MiB')
    """
    power = min(max(int(np.log2(size) // 10), 0), len(_BINARY) - 1)
    number = float(f"{size / 1024**power:.2g}")
    return f"{number:,.4g} {_BINARY[power]}"


def crossing_layers(x: float, area: PlotArea, drawn: Floats) -> dict[str, Layer]:
    """Return a vertical line where two lines cross, and the value of x there, where it meets the fewest lines."""
    place = float(area.to_x(x))
    words = text("sweep.change", at=crossing_words(x, area))
    width = len(words) * _LETTER * 0.9
    # Left or right of the line, at the top or at the bottom: (x, y, align).
    places = []
    for y in (area.top + 9, area.bottom - 11):
        if place + 6 + width < area.right:
            places.append((place + 6, y, 0.0))
        if place - 6 - width > area.left:
            places.append((place - 6, y, 2.0))
    best = min(places, key=lambda p: crowding(p[0] - p[2] / 2 * width, p[1], width, drawn))
    path = np.array([[place, area.top], [place, area.bottom]])
    return {
        "cross line": lines([path], width=1.0, dash=1.0, colour=COLOUR["edge"]),
        "crossing": texts(
            [best[0]], best[1], [words], align=best[2], colour=COLOUR["soft"], halo=1.0
        ),
    }


def turning(series: Sequence[Series], y: str, crossing: float, area: PlotArea) -> str:
    """Return a sentence on which of the first two predicted series is ahead before and after they cross."""
    one, other, *more = [each for each in series if each.role == "predicted"]
    at = crossing_words(crossing, area)
    if more:
        return text(
            "sweep.swap", one=capitalised(quoted(one.label)), other=quoted(other.label), at=at
        )
    before = max(one.points[0, 0], other.points[0, 0])
    is_lower = _on_line(one, before, area) > _on_line(other, before, area)  # [px], downwards
    first, then = (one, other) if is_lower == (y == "time") else (other, one)
    return text(
        "sweep.turns", first=capitalised(quoted(first.label)), then=quoted(then.label), at=at
    )


def _on_line(one: Series, x: float, area: PlotArea) -> float:
    """Return the height of a line at a value of x as it is drawn, straight between its points [px]; NaN beyond."""
    path = area.path(one.points[0], one.points[1])
    return float(np.interp(area.to_x(x), path[:, 0], path[:, 1], np.nan, np.nan))


def values_at(series: Sequence[Series], area: PlotArea, x: float) -> list[tuple[Series, float]]:
    """Return each predicted series that reaches as far as x with its value there, the best first.

    Between its points a series has the values of the straight line that is drawn.
    """
    found = []
    for one in series:
        if one.role != "predicted" or not one.points[0, 0] <= x <= one.points[0, -1]:
            continue
        at = np.log(one.points[0])
        if area.y == "time":
            value = np.exp(np.interp(np.log(x), at, np.log(one.points[1])))
        else:
            value = np.interp(np.log(x), at, one.points[1])
        found.append((one, float(value)))
    return sorted(found, key=lambda pair: pair[1] if area.y == "time" else -pair[1])


def cursor_layers(
    series: Sequence[Series], area: PlotArea, scales: Scales, x: float, drawn: Floats
) -> dict[str, Layer]:
    """Return a vertical line at a value of x, with a hollow dot and a value at each line that it meets.

    The handle on top of the line can be dragged; it moves the slider "cursor".
    """
    place = float(area.to_x(x))
    found = values_at(series, area, x)
    height = area.to_y(np.array([value for _, value in found]))
    colour = np.array([one.look["colour"] for one, _ in found])
    ink = np.array([_ink(one) for one, _ in found])
    words = [without_unit(area.format_y(value), scales, area) for _, value in found]
    above = height - _OFF_LINE  # so that its line does not pass through a value
    beside = spread(above, 15.0, area.top, area.bottom - 8) if found else height
    plates = _LETTER * np.array([len(each) for each in words], dtype=float)
    width = float(plates.max(initial=0.0))
    ways = {0.0: place + 11, 2.0: place - 11}  # align -> x
    if place + 11 + width > area.right:
        del ways[0.0]
    elif place - 11 - width < area.left:
        del ways[2.0]

    def met(align: float) -> int:
        left = ways[align] - align / 2 * width
        return sum(crowding(left, float(y), width, drawn) for y in beside)

    align = min(ways, key=met)
    ends = [float(area.to_x(one)) for one in reach(series)]
    path = np.array([[place, area.top], [place, area.bottom]])
    names = [f"{one.label}, {area.format_x(x)}: {area.format_y(value)}" for one, value in found]
    handle = {
        "x": [place],
        "y": np.array([area.top]),
        "size": 6.0,
        "colour": COLOUR["ink"],
        "names": [area.format_x(x)],
        "drag": ["cursor"],
        "drag_ends": np.array(ends),
    }
    return {
        "cursor": lines([path], width=1.0),
        "read": Layer(
            "dots",
            {
                "x": np.full(len(found), place),
                "y": height,
                "size": 4.5,
                "shape": 1.0,
                "colour": colour,
                "names": names,
            },
        ),
        # The lines that the values name pass below them, and would read as a colon or a stroke.
        "plates": boxes(
            ways[align] - align / 2 * plates - 2,
            beside - 7.0,
            plates + 4,
            14.0,
            colour=COLOUR["paper"],
            round=3.0,
        ),
        "values": texts(ways[align], beside, words, align=align, bold=1.0, colour=ink),
        "handle": Layer("dots", {**handle, "x": np.array([place])}),
    }


def without_unit(words: str, scales: Scales, area: PlotArea) -> str:
    """Return a value of y without its unit if the title of the axis gives it."""
    unit, _ = tick_words(scales.y_ticks, area.format_y)
    return words.removesuffix(f" {unit}") if unit else words


def reach(series: Sequence[Series]) -> Ends:
    """Return the lowest and the highest value of x of all predicted series."""
    across = np.concatenate([one.points[0] for one in series if one.role == "predicted"])
    return float(across.min()), float(across.max())


def read_at(series: Sequence[Series], area: PlotArea, x: float) -> str:
    """Return a sentence on the best of all predicted series at a value of x, beside the next best."""
    found = values_at(series, area, x)
    if not found:
        return ""
    (best, value), *rest = found
    measured = any(one.role != "predicted" for one in series)
    sentence = text(
        "sweep.best_model" if measured else "sweep.best",
        at=area.format_x(x),
        label=quoted(best.label),
        value=area.format_y(value),
    )
    if rest:
        other, second = rest[0]
        factor = max(value / second, second / value)
        sentence += " " + text("sweep.next", label=capitalised(quoted(other.label)), factor=factor)
    return sentence


# The error of a model -------------------------------------------------------------------------------


def misses(series: Sequence[Series]) -> list[Miss]:
    """Return the error of each prediction against the first published result, or else the first measured one.

    Raises
    ------
    ValueError
        If no prediction shares a value of x with it.
    """
    kinds = ("published", "stored", "measured")
    seen = [one for kind in kinds for one in series if one.role == kind]
    found = []
    for model in series:
        if model.role != "predicted" or not seen:
            continue
        at, mine, theirs = np.intersect1d(model.points[0], seen[0].points[0], return_indices=True)
        if at.size:
            off = model.points[1, mine] / seen[0].points[1, theirs] - 1
            found.append(Miss(model, at, off))
    if not found:
        raise ValueError(
            "error must have a predicted and a published or measured result that share values of x"
        )
    return found


def how_far_off(missed: Sequence[Miss], area: PlotArea) -> str:
    """Return a sentence with the median error of the first model and its largest, and the medians of all others."""
    first, *others = missed
    size = np.abs(first.off)
    sentence = text(
        "sweep.missed",
        label=first.model.label,
        median=scientific(100 * np.median(size)),
        most=scientific(100 * size.max()),
        at=area.format_x(first.at[size.argmax()]),
    )
    for other in others:
        median = scientific(100 * np.median(np.abs(other.off)))
        sentence += " " + text("sweep.missed_too", label=other.model.label, median=median)
    return sentence


def error_panel(missed: Sequence[Miss], x: str, bottom: float) -> Scene:
    """Return the panel of errors in per cent, over x, on a linear axis with a line at 0.

    Each model has the mark that it has in the picture beside it, or one of its own. The sentence above the picture is
    about the first, so its largest error has its value beside it, and the curves of models that are much farther off
    are cut.
    """
    series = []
    taken = {one.model.look.get("mark") for one in missed}
    free = (shape for shape in _FILLED_SHAPES if shape not in taken)
    for one in missed:
        points = np.full((4, one.at.size), np.nan)
        points[0] = one.at
        points[1] = 100 * one.off
        look = dict(one.model.look)
        if "mark" not in look:
            look["mark"] = next(free, _FILLED_SHAPES[0])
        series.append(Series(one.model.label, "predicted", points, look))
    first = series[0]
    largest = float(np.abs(first.points[1]).max())
    values = np.concatenate([[0.0], *(one.points[1] for one in series)])
    cut = bool(values.max() > _MUCH_FARTHER * largest > 0)
    # A curve of which nothing would be left is not cut.
    cut &= all(one.points[1].min() < _FAR_OFF * largest for one in series)
    if cut:
        values = np.minimum(values, _FAR_OFF * largest)
    room = max(1.0, 0.12 * np.ptp(values))
    highest = _FAR_OFF * largest if cut else float(values.max() + room)
    ends = common_ends("error", float(values.min() - room), highest)
    across = np.unique(np.concatenate([one.at for one in missed]))
    several = len(series) > 1
    right = _SIDE - (label_room(series, _WIDEST_OF_TWO) if several else _SIDE_RIGHT)
    x_ends = common_ends("x of error", *padded(across))
    ticks = x_ticks(x, across, x_ends, right - _LEFT)

    def to_y(value: Any) -> Floats:
        share = (np.asarray(value) - ends[0]) / (ends[1] - ends[0])
        return np.asarray(bottom + (_TOP - bottom) * share)

    area = PlotArea(x, "miss", log_axis(*x_ends, _LEFT, right), to_y, _LEFT, right, _TOP, bottom)
    scales = Scales(x_ends, ends, ticks.tolist(), even_ticks(ends))
    zero = np.array([[area.left, float(to_y(0.0))], [area.right, float(to_y(0.0))]])
    # Where curves meet, ink lies over grey.
    series.sort(key=lambda one: one.look["colour"] != COLOUR["soft"])
    whole = series
    if cut:
        series = [part for one in whole for part in below(one, area, ends[1])]
    dots = [
        (one, place)
        for one in series
        for place in area.path(one.points[0], one.points[1])
        if place[1] > area.top
    ]
    axes = axes_layers(area, scales)
    title = axes["quantity"]
    axes["quantity"] = Layer(title.kind, {**title.fields, "x": np.array([_PANEL_TITLE])})
    layers = {
        **axes,
        "zero": lines([zero], width=1.2),
        **sign_words(series, area),
        "lines": line_layer(series, area),
        "points": _dots(
            [(one._replace(look=mark_of(one)), place) for one, place in dots], size=3.0
        ),
    }
    drawn = drawn_points(series, area)
    # Of a curve in several parts, the last has the name.
    ended = list({one.label: one for one in series}.values())
    labels = label_layers(ended, area, drawn, _SIDE) if several else {"labels": texts_at()}
    worst = int(np.abs(first.points[1]).argmax())
    off = float(first.points[1, worst])
    words = area.format_y(off)
    if several:
        words = text("sweep.most_off", label=first.label, off=words)
    most = Named(words, float(first.points[0, worst]), off)
    named = point_layers([most], [], area, drawn, labels["labels"], _SIDE)
    if several:
        layers |= labels | {"beyond": _beyond_words(whole, area, ends[1], labels["labels"])}
    layers |= named.above
    return Scene("", layers=layers, height=bottom + _BELOW, width=_SIDE)


def below(one: Series, area: PlotArea, most: float) -> list[Series]:
    """Return the parts of a curve that lie below a value, each with its ends where the drawn curve meets the value."""
    across, up = area.to_x(one.points[0]), one.points[1]
    high = up > most
    x = [across[:1]]
    y = [np.minimum(up[:1], most)]
    for i in range(1, up.size):
        if high[i] != high[i - 1]:
            share = (most - up[i - 1]) / (up[i] - up[i - 1])
            x.append(across[i - 1 : i] + share * (across[i] - across[i - 1]))
            y.append(np.array([most]))
        x.append(across[i : i + 1])
        y.append(np.minimum(up[i : i + 1], most))
    ends = np.log([one.points[0, 0], one.points[0, -1]])
    places = np.concatenate(x)
    back = np.exp(np.interp(places, [across[0], across[-1]], ends))
    points = np.full((4, back.size), np.nan)
    points[0] = back
    points[1] = np.concatenate(y)
    is_low = points[1] < most
    starts = np.flatnonzero(is_low & ~np.insert(is_low[:-1], 0, False))
    stops = np.flatnonzero(is_low & ~np.append(is_low[1:], False))
    return [
        one._replace(points=points[:, max(0, start - 1) : stop + 2])
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    ]


def _beyond_words(whole: Sequence[Series], area: PlotArea, most: float, labels: Layer) -> Layer:
    """Return below the name of each curve that is cut how far it goes."""
    height = dict(zip(labels.fields["texts"], labels.fields["y"], strict=True))
    rows = []
    for one in whole:
        highest = float(one.points[1].max())
        if highest > most and one.label in height:
            words = text("sweep.beyond", most=area.format_y(highest))
            rows.append((area.right + _LABEL_AT, float(height[one.label]) + _ROW, words, 0))
    return Layer("texts", {**texts_at(*rows).fields, "colour": COLOUR["soft"]})


def sign_words(series: Sequence[Series], area: PlotArea) -> dict[str, Layer]:
    """Return what it means that an error lies above or below the line at 0, where no curve runs through it."""
    zero = float(area.to_y(0.0))
    drawn = drawn_points(series, area)
    labels = {one.label for one in series}
    label = labels.pop() if len(labels) == 1 else text("sweep.models")
    words = []
    for key, y in (("sweep.too_high", zero - 11), ("sweep.too_low", zero + 11)):
        name = text(key, label=label)
        width = len(name) * _LETTER
        left = _freest(area, width, y, drawn)
        if area.top + 6 < y < area.bottom - 8 and not crowding(left, y, width, drawn):
            words.append((left, y, name, 0))
    layer = texts_at(*words)
    return {"signs": Layer("texts", {**layer.fields, "colour": COLOUR["soft"], "halo": 1.0})}


# Words and numbers ----------------------------------------------------------------------------------


def as_table(series: Sequence[Series], x: str, y: str, missed: Sequence[Miss] = ()) -> Table:
    """Return a table of all points of all series: label, x, y, the ends of the spread, and the error of models."""
    points = np.concatenate([one.points for one in series], axis=1)  # (4, K)
    labels = np.repeat([one.label for one in series], [one.points.shape[1] for one in series])
    across = points[0] if x in FRACTIONAL else points[0].astype(np.int64)
    columns = {"series": labels, X[x].column: across}
    for name, values in zip((y, "low", "high"), points[1:], strict=True):
        unit = f" [{Y[y].unit}]" if Y[y].unit else ""
        columns[name + unit] = values
    if missed:
        off = np.full(labels.size, np.nan)
        for one in missed:
            for place, share in zip(one.at, one.off, strict=True):
                off[(labels == one.model.label) & (points[0] == place)] = 100 * share
        columns["error [%]"] = off
    return Table(columns)


def told(series: Sequence[Series], x: str, y: str) -> list[str]:
    """Return a clause for each of the first five series, bounds excepted: its values at both ends."""
    in_front = [one for one in series if "alpha" not in one.look]  # the others are pale
    shown = [one for one in in_front or series if one.role != "bound"]
    clauses = []
    for one in shown[:_MOST]:
        last = one.points.shape[1] - 1
        ends = one.points[:2, :: max(1, last)].T  # a series with a single point has one end
        values = [
            text("sweep.at", value=Y[y].format(value), x=X[x].format(place))
            for place, value in ends
        ]
        clauses.append(
            text(f"sweep.{y}", label=quoted(one.label), list=text("word.and").join(values))
        )
    return clauses


def readable(label: str) -> str:
    """Write an id as engineers do, and keep other labels, in which "x 2" becomes "× 2".

    So "ugal_g" is shown as "UGAL-G", "binomial_tree" as "binomial tree", "all_reduce ring" as "all-reduce ring" and
    "ib-ndr" as "InfiniBand NDR".
    """
    for kind in ("routing", "family", "server"):
        if f"{kind}.{label}" in table():
            return text(f"{kind}.{label}")
    if re.fullmatch(_HYPHENED_ID, label) and label in catalog.links:
        return str(catalog.links[label].name)
    if re.fullmatch(r"[a-z0-9_]+", label):
        return _in_words(label)
    if re.fullmatch(r"[a-z0-9_]+( [a-z0-9_]+)+", label):  # several ids
        label = " ".join(_in_words(word) if "_" in word else word for word in label.split(" "))
    return with_times_sign(label)


def _in_words(name: str) -> str:
    """Write the id of an algorithm, a collective or a part in words."""
    own = table().get(f"algorithm.{name}", "")
    if own.lower() == name:  # a name that has capitals, such as Bruck
        return own
    words = []
    hyphened = name
    for whole in _HYPHENED:
        hyphened = hyphened.replace(whole, whole.replace("_", "-"))
    for word in hyphened.split("_"):
        is_name = word in _CAPITALS or re.fullmatch(r"([abhv]|g[bh]|mi)\d{3}x?", word)
        words.append(word.upper() if is_name else word)
    return " ".join(words)


# The series ---------------------------------------------------------------------------------------


def by_label(results: Results, x: str) -> dict[str, list[Result]]:
    """Return label -> results.

    A result without a label is named after its algorithm or system, and how it was obtained. A label that is the id of
    a published sweep becomes the name of its system.
    """
    if isinstance(results, Mapping):
        groups = {str(k): [v] if isinstance(v, Result) else list(v) for k, v in results.items()}
        names = {label: _name_of(label, members) for label, members in groups.items()}
        if len(set(names.values())) < len(names):
            names = {label: label for label in groups}
        return {names[label]: members for label, members in groups.items()}

    out: dict[str, list[Result]] = {}
    for result in [results] if isinstance(results, Result) else results:
        candidates = _label_candidates(result, len(out) + 1)
        # Over ranks, all results with one label are one series; over sizes, each result is a series of its own.
        if x == "ranks":
            label = candidates[0]
        else:
            label = next(candidate for candidate in candidates if candidate not in out)
        out.setdefault(label, []).append(result)
    return out


def _name_of(label: str, members: Sequence[Result]) -> str:
    """Return what to write for a label that was given: the name of a system for the id of its sweep."""
    if members and members[0].asked.get("sweep_id") == label:
        ranks = text("sweep.ranks", n=members[0].n_ranks)
        system, *_ = str(members[0].asked["system"]).split(" (")  # without the name of its place
        return f"{system}, {ranks}"
    return readable(label)


def _label_candidates(result: Result, number: int) -> list[str]:
    """Return possible labels for a result; the first is the shortest, and each of the others adds a detail to it."""
    asked = result.asked
    given = [str(asked.get(key) or "") for key in _NAMING]
    names = [readable(name) for name in given if name not in _NO_NAMES]
    name = names[0] if names else result.what.replace("_", "-")
    label = f"{name} ({HERE.get(result.obtained, result.obtained)})"
    extras = [*names[1:], f"{result.n_ranks} ranks", number]
    return [label, *(f"{label}, {extra}" for extra in extras)]


def collect(
    groups: Mapping[str, list[Result]],
    bounds: Bounds,
    x: str,
    y: str,
    token: units.Quantity | None = None,
) -> list[Series]:
    """Return the series to draw, with all points above 0 in order of x, followed by the bounds.

    Raises
    ------
    ValueError
        If no point can be shown, a bound is no rate or time, or tokens have no size.
    """
    each = 1.0  # [B]
    if x == "tokens":
        if token is None:
            raise ValueError('token must be the size of a token if x is "tokens", got None')
        each = units.size(token, "token", may_be_zero=False)
    found = []  # label, role, points
    for label, members in groups.items():
        points = _points_of(members, x, y, each)
        if points.size:
            obtained = members[0].obtained
            found.append((label, obtained if obtained in ROLES else "published", points))
    if not found:
        raise ValueError(
            f"nothing to draw: results has no point with {x} > 0 and {y} > 0;"
            " one rank has busbw 0, draw its time"
        )

    out: list[Series] = []
    looks = looks_of([(label, role) for label, role, _ in found[:_MOST]])
    n_predicted = [points.shape[1] for _, role, points in found if role == "predicted"]
    for (label, role, points), look in zip(found[:_MOST], looks, strict=True):
        if role == "predicted" and points.shape[1] == 1 < max(n_predicted):
            look = {"colour": COLOUR["ink"], "shape": 0.0}  # a marked point of a line
        out.append(Series(label, role, points, look, dots="shape" in look))
    for label, _, points in found[_MOST:]:
        points[2:] = np.nan
        out.append(Series(label, "other", points, _OTHER_LOOK))

    across = np.concatenate([one.points[0] for one in out])
    ends = [across.min(), across.max()]
    nothing = [np.nan, np.nan]
    for label, value in bounds.items():
        at = units.parse(value, Y[y].quantity, f"bounds[{label!r}]")
        points = np.array([ends, [at, at], nothing, nothing])
        out.append(Series(label, "bound", points, _BOUND_LOOK))
    return out


def _points_of(members: Sequence[Result], x: str, y: str, each: float) -> Floats:
    """Return the points (4, K) of results that logarithmic axes can show, those above 0, in order of x.

    ``each`` is what a size is counted in [B].
    """
    points = np.concatenate([np.empty((4, 0)), *(_points(r, x, y, each) for r in members)], axis=1)
    points = points[:, np.all(points[:2] > 0, axis=0)]
    return points[:, np.argsort(points[0], kind="stable")]


def _points(r: Result, x: str, y: str, each: float) -> Floats:
    """Return x, y, low and high of a result, (4, K); low and high are NaN if it has no spread."""
    n = r.size.size
    across = np.full(n, float(r.n_ranks)) if x == "ranks" else r.size / each
    low = np.full(n, np.nan) if r.low is None else r.low
    high = np.full(n, np.nan) if r.high is None else r.high
    if y == "time":
        return np.stack([across, r.time, low, high])
    moved = r.busbw * r.time  # [B]; the longest time then gives the lowest bandwidth
    return np.stack([across, r.busbw, moved / high, moved / low])


def looks_of(kinds: Sequence[tuple[str, str]]) -> list[dict[str, float]]:
    """Return the look of each series, given its label and role.

    An algorithm that is compared in the whole course has its hue and its mark. Of the others, the only one of its kind
    is in ink, because its form tells it apart; several of a kind, and lines beside those of algorithms, are in ink and
    greys in turn, with a shape for each. What is measured and what is predicted of one thing, such as "mesh" and "mesh,
    measured", share a colour, and then the line has no mark on it beside the dots.
    """
    own = [algorithm(label).colour != COLOUR["direct"] for label, _ in kinds]
    nameless = [role for (_, role), is_own in zip(kinds, own, strict=True) if not is_own]
    # Beside published results, whose marks are open, lines have filled ones; a filled circle is that of the ring.
    of_line, order = _OPEN_SHAPES, _NTH
    if any(role == "published" for _, role in kinds):
        of_line = _FILLED_SHAPES
        order = _NTH_FILLED if any(own) else _NTH
    beside = any(
        is_own and role == "predicted" for (_, role), is_own in zip(kinds, own, strict=True)
    )
    turn = [COLOUR[name] for name in (_BESIDE if beside else _TURN)]

    looks: list[dict[str, float]] = []
    seen: list[tuple[float, str]] = []  # hue and role of the series before
    turned: dict[str, float] = {}  # colour of each thing, by the words before the first comma
    n_nameless = dict.fromkeys(nameless, 0)  # of each role, so far
    for (label, role), is_own in zip(kinds, own, strict=True):
        hue, mark = algorithm(label)
        nth = seen.count((hue, role))
        if not is_own:
            hue, mark = COLOUR["ink"], 0.0
            if nameless.count(role) > 1 or (beside and role == "predicted"):
                thing = label.split(",")[0]
                turned.setdefault(thing, turn[len(turned) % len(turn)])
                hue = turned[thing]
            nth = n_nameless[role]
            n_nameless[role] += 1
        seen.append((hue, role))
        if ROLES[role].marker:
            shapes = _FILLED_SHAPES if ROLES[role].filled else _OPEN_SHAPES
            shape = shapes[(_FILLED_SHAPES.index(mark) + nth) % len(shapes)]
            looks.append({"colour": hue, "shape": shape})
        elif is_own:
            looks.append({"colour": hue, **_line_of(mark, nth)})
        else:
            shape = of_line[order[nth % len(order)]]
            looks.append({"colour": hue, "width": _LINE, "mark": shape})
    of_dots = {look["colour"] for look in looks if "shape" in look}
    beside_dots = [look["colour"] in of_dots for look in looks]
    # Of the lines of algorithms, which are compared by their hues, all have marks or none.
    none = any(is_own and is_beside for is_own, is_beside in zip(own, beside_dots, strict=True))
    for look, is_own, is_beside in zip(looks, own, beside_dots, strict=True):
        if is_beside or (none and is_own):
            look.pop("mark", None)
            look.pop("core", None)
    return looks


def _line_of(mark: float, nth: int) -> dict[str, float]:
    """Return width and mark of the ``nth`` line of an algorithm: filled; then thin and open; then dashed and cored."""
    if not nth:
        return {"width": _LINE, "mark": mark}
    outline = _OPEN_SHAPES[_FILLED_SHAPES.index(mark)]
    return {"width": _THIN, "mark": outline, "core": float(nth > 1), "dash": float(nth > 1)}


def axes_of(
    series: Sequence[Series], x: str, y: str, width: float, up: Ends | None = None
) -> Scales:
    """Return the ends and ticks of both axes, for an x axis of a width [px].

    ``up`` gives the ends of the y axis, which else enclose all points. An axis of bus bandwidth begins at 0.
    """
    points = np.concatenate([one.points for one in series], axis=1)
    across = np.unique(points[0])
    x_ends = padded(across)
    y_ends = up or padded(points[1:].ravel())
    if y == "busbw" and up is None:
        drawn = [one.points[1:] for one in series if one.role != "bound"]
        highest = float(np.nanmax(np.concatenate(drawn, axis=1)))
        bounds = [one.points[1, 0] for one in series if one.role == "bound"]
        near = [bound for bound in bounds if bound < _FAR * highest]
        y_ends = (0.0, 1.06 * max([highest, *near, *bounds]))
    x_ends = common_ends("x", *x_ends)
    y_ends = common_ends("y", *y_ends)
    ticks = x_ticks(x, across, x_ends, width)
    return Scales(x_ends, y_ends, ticks.tolist(), decade_ticks(y_ends).tolist())


def crossover(one: Floats, other: Floats) -> float | None:
    """Return the first x at which two curves of x and y, (2, K), cross, or None.

    Between its points a curve is taken to be straight on logarithmic axes.
    """
    at = np.log(np.unique(np.concatenate([one[0], other[0]])))  # (M,) log x of all points
    here = np.interp(at, np.log(one[0]), np.log(one[1]), np.nan, np.nan)  # NaN beyond its ends
    there = np.interp(at, np.log(other[0]), np.log(other[1]), np.nan, np.nan)
    ahead = here - there  # (M,) log of how many times the first is above the other
    turns = np.flatnonzero(ahead[:-1] * ahead[1:] < 0)
    if not turns.size:
        return None
    i = turns[0]
    # Where the straight line between the two points crosses 0.
    crossing = at[i] + (at[i + 1] - at[i]) * ahead[i] / (ahead[i] - ahead[i + 1])
    return float(np.exp(crossing))


def _lines(paths: Sequence[tuple[Series, Floats]], **fields: Any) -> Layer:
    """Return a layer of lines, each in the look of its series; ``fields`` replace parts of the look."""
    looks = {}
    for key, default in (("colour", 0.0), ("dash", 0.0), ("width", _LINE), ("alpha", 1.0)):
        looks[key] = np.array([one.look.get(key, default) for one, _ in paths])
    return lines([path for _, path in paths], **{**looks, **fields})


def _dots(places: Sequence[tuple[Series, Floats]], **fields: Any) -> Layer:
    """Return a layer of dots, each in the look of its series."""
    x, y = np.array([place for _, place in places]).reshape(-1, 2).T
    looks = {key: np.array([one.look[key] for one, _ in places]) for key in ("colour", "shape")}
    return Layer("dots", {"x": x, "y": y, "size": _DOT, **looks, **fields})


def _caption(groups: Mapping[str, list[Result]]) -> str:
    """Return the sources and the notes of all results as a text, each of them once."""
    sources = [source_in_words(each) for group in groups.values() for each in group if each.source]
    about: dict[str, list[str]] = {}  # note -> labels of the results that have it
    each_note = [
        (note.rstrip("."), label)
        for label, group in groups.items()
        for result in group
        for note in result.notes
    ]
    # How busy a machine was is told once for all that was measured on it; a note has it for each.
    of_shared = {note for note, _ in each_note if f": {MACHINE_SHARED}" in note}
    for note, label in each_note:
        if len(of_shared) > 1 and note in of_shared:
            note = MACHINE_SHARED + note.partition(MACHINE_SHARED)[2]
        labels = about.setdefault(note, [])
        if label not in labels:
            labels.append(label)
    notes = []
    if any(
        result.obtained == "predicted" and result.low is not None
        for group in groups.values()
        for result in group
    ):
        notes.append(text("sweep.bands").rstrip("."))
    for note, labels in about.items():
        # What holds for all that is shown needs no names.
        notes.append(
            note if len(labels) == len(groups) else f"{text('word.and').join(labels)}: {note}"
        )
    return " ".join(f"{capitalised(words)}." for words in dict.fromkeys([*sources, *notes]))


def source_in_words(result: Result) -> str:
    """Return where a result comes from, in words that begin with how it was obtained."""
    source = short_source(result.source)
    if result.obtained == "published" and source != result.source:  # a repository
        return text("sweep.published_by", source=source)
    return f"{HERE.get(result.obtained, result.obtained)}: {source}"


def published_sources(results: Results, x: str) -> str:
    """Return sentences on who published those of some results that are published, each of them once."""
    sources = [
        source_in_words(each)
        for group in by_label(results, x).values()
        for each in group
        if each.source and each.obtained == "published"
    ]
    return " ".join(f"{capitalised(words)}." for words in dict.fromkeys(sources))


def short_source(source: str) -> str:
    """Return a source without the commit and the file in a repository, which `Result.source` has.

    Examples
    --------
    >>> short_source("Together AI: togethercomputer/together-nccl-tests:benchmarks/ring.out")
    'Together AI: togethercomputer/together-nccl-tests'
    """
    return _IN_REPOSITORY.sub(lambda found: found[1] + (found["date"] or ""), source)


# A curve with one marked point ----------------------------------------------------------------------


def curve(
    words: str,
    x: str,
    y: str,
    at: Floats,
    values: Sequence[ArrayLike],
    said: str,
    ends: Ends | None = None,
    others: Mapping[str, ArrayLike] | None = None,
    chosen: str = "",
    drag: tuple[str, Ends] | None = None,
    knee: tuple[float, float, str] | None = None,
) -> Scene:
    """Return a picture of a predicted curve with one marked point, of a mark to compare it with, and of its like.

    The curve of the present state and its point are in ink; all others are grey.

    Parameters
    ----------
    words : str
        Beginning of the keys of the labels: ``<words>.line``, ``<words>.here`` and ``<words>.bound``.
    x, y : str
        Quantities on the axes: keys of `X` and `Y`.
    at : ndarray, shape (K,)
        Values of x. The last one belongs to the marked point; only the line through it has it, too.
    values : two array_like, shape (K,)
        Values of the curve and of what it is compared with at these x.
    said : str
        The sentence above the picture.
    ends : pair of float, optional
        Fixed ends of the y axis, so that it does not change when a control moves. An axis from 0 is linear.
    others : mapping of label to array_like, shape (K,), optional
        Curves of other states, which put the present one among them.
    chosen : str, optional
        What the curve of the present state is called in the picture; by default ``<words>.line``.
    drag : pair, optional
        Name and ends of the slider that the marked point moves when it is dragged.
    knee : tuple, optional
        The point where the curve bends: x, y, and its name, which stands at the foot of a line down to the x axis.
    """
    nothing = np.full(at.size, np.nan)
    line, bound = (np.array([at, value, nothing, nothing]) for value in values)
    ink = {"colour": COLOUR["ink"], "dash": 0.0, "width": _LINE}
    mine = Series(text(f"{words}.line"), "predicted", line[:, :-1], ink)
    here = Series(
        text(f"{words}.here"), "predicted", line[:, -1:], {**ink, "shape": 0.0}, dots=True
    )
    # The line passes through the marked point, which may lie between two others.
    whole = mine._replace(points=line[:, np.argsort(at, kind="stable")])
    named_bound = text(f"{words}.bound", most=float(bound[1, -1]))
    mark = Series(named_bound, "bound", bound[:, :-1], _BOUND_LOOK)
    like = []
    for label, value in (others or {}).items():
        points = np.array([at, np.asarray(value), nothing, nothing])[:, :-1]
        like.append(Series(label, "predicted", points, _LIKE_LOOK))

    series = [mine, here, mark, *like]
    own_name = mine._replace(label=chosen or mine.label)
    named = [*like, own_name]
    room = label_room(named, _WIDEST)
    right = _WIDTH - room
    scales = axes_of(series, x, y, right - _LEFT, ends)
    area = plot_area(scales, x, y, right, len(label_rows(named)))
    if len(like) > _MOST:
        named = [*_worth_a_name(like, mine, area), own_name]
    drawn = drawn_points(series, area)
    # A value beside the marked point may rather hide a grey line than the one in ink.
    own = densely(area.path(whole.points[0], whole.points[1])).T
    clauses = told([mine, here, mark], x, y)
    return Scene(
        said,
        as_table(series, x, y),
        {
            **axes_layers(area, scales),
            **_compared(mark, area, drawn),
            "others": line_layer(like, area),
            **({} if knee is None else _knee_layers(knee, area, drawn)),
            "lines": Layer("lines", {**line_layer([whole], area).fields, "ghost": True}),
            **label_layers(named, area, drawn, _WIDTH),
            **_here_layers(here, area, np.concatenate([drawn, own, own], axis=1), drag),
        },
        height=area.bottom + _BELOW,
        alt="; ".join([capitalised(clauses[0]), *clauses[1:]]),
        width=_WIDTH,
    )


def _worth_a_name(like: Sequence[Series], mine: Series, area: PlotArea) -> list[Series]:
    """Return the lowest and the highest of many curves, and those between that end apart from all that have a name.

    The names of the others would stand far from their ends; the pointer reads them.
    """
    ends = {one.label: float(one.places(area)[-1, 1]) for one in like}
    order = sorted(like, key=lambda one: ends[one.label])
    taken = [float(mine.places(area)[-1, 1])]
    kept = []
    for one in (order[0], order[-1], *order[1:-1]):
        is_outer = one is order[0] or one is order[-1]
        if is_outer or all(abs(ends[one.label] - other) >= _ROW for other in taken):
            kept.append(one.label)
            taken.append(ends[one.label])
    return [one for one in like if one.label in kept]


def _compared(mark: Series, area: PlotArea, drawn: Floats) -> dict[str, Layer]:
    """Return what a curve is compared with: a dotted line, and its name where it meets the fewest lines."""
    path = area.path(mark.points[0], mark.points[1])
    width = len(mark.label) * _LETTER * 0.95
    around = np.concatenate([drawn, densely(path).T], axis=1)
    places = []
    for left in np.linspace(area.left + 8, max(area.left + 9, area.right - width - 8), 9):
        on_line = np.interp([left, left + width], path[:, 0], path[:, 1])
        for y in (on_line.min() - 11, on_line.max() + 11):
            if area.top < y < area.bottom - 8:
                places.append((float(left), float(y)))
    if not places:
        places.append((area.left + 8, area.top + 9))
    left, y = min(places, key=lambda place: crowding(place[0], place[1], width, around))
    return {
        "bounds": _lines([(mark, path)], names=[mark.label]),
        "bound words": texts([left], y, [mark.label], colour=COLOUR["soft"], halo=1.0),
    }


def _knee_layers(knee: tuple[float, float, str], area: PlotArea, drawn: Floats) -> dict[str, Layer]:
    """Return a dotted line from the bend of a curve down to the x axis, an open circle, and what is there.

    The words stand at the foot of the line, or higher where they would meet other lines there.
    """
    x, y = area.path(knee[:1], knee[1:2])[0].tolist()
    width = len(knee[2]) * _LETTER
    at_left = x + 8 + width > area.right
    left = x - 8 - width if at_left else x + 8
    heights = np.arange(area.bottom - 10, y + 20, -_ROW).tolist() or [area.bottom - 10]
    foot = min(heights, key=lambda height: crowding(left, height, width, drawn))
    return {
        "knee line": lines(
            [np.array([[x, area.bottom], [x, y]])], width=_BOUND, dash=2.0, colour=COLOUR["edge"]
        ),
        "knee": Layer(
            "dots",
            {
                "x": np.array([x]),
                "y": np.array([y]),
                "size": 5.0,
                "shape": 1.0,
                "colour": COLOUR["ink"],
            },
        ),
        "knee name": texts(
            [x - 8 if at_left else x + 8], foot, [knee[2]], align=2.0 * at_left, halo=1.0
        ),
    }


def _here_layers(
    here: Series, area: PlotArea, drawn: Floats, drag: tuple[str, Ends] | None
) -> dict[str, Layer]:
    """Return the present state as a dot in ink, with its value beside it where it meets the fewest lines.

    Where lines are all around it, the value stands beyond them, with a line from the dot.
    """
    x, y = area.path(here.points[0], here.points[1])[0].tolist()
    words = area.format_y(here.points[1, 0])
    width = len(words) * _LETTER * 1.2
    places = []
    for dy in _VALUE_AT:
        if area.top - 16 < y + dy < area.bottom - 6:
            if x + 9 + width < area.right:
                places.append((x + 9, y + dy, 0.0))
            if x - 9 - width > area.left:
                places.append((x - 9, y + dy, 2.0))
    best = min(
        places, key=lambda p: crowding(p[0] - p[2] / 2 * width, p[1], width, drawn, _VALUE_HALF)
    )
    off = best[1] - y
    leaders = []
    if abs(off) > _VALUE_BESIDE:
        start, end = np.sign(off) * _VALUE_HALF, off - np.sign(off) * _VALUE_HALF
        leaders.append(np.array([[x, y + start], [best[0], y + end]]))
    name = f"{here.label}, {area.format_x(here.points[0, 0])}: {words}"
    dot: dict[str, Any] = {
        "x": np.array([x]),
        "y": np.array([y]),
        "size": 6.0,
        "colour": COLOUR["ink"],
        "shape": 0.0,
        "names": [name],
        "ghost": True,
        "glide": True,
    }
    if drag is not None:
        dot["drag"] = [drag[0]]
        dot["drag_ends"] = area.to_x(np.array(drag[1]))
    return {
        "value line": lines(leaders, width=1.0, colour=COLOUR["edge"]),
        "dots": Layer("dots", dot),
        "value": texts([best[0]], best[1], [words], align=best[2], bold=1.0, size=15.0, halo=1.0),
    }
