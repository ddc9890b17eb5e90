"""Sweeps: time or bus bandwidth over size or ranks, for predicted, measured and published results."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Floats, Result
from fabriclab.texts import text
from fabriclab.views.look import KEYS, algorithm
from fabriclab.views.page import HERE, ROLES, Axes, Picture, Table, spread
from fabriclab.views.rulers import fitted
from fabriclab.views.scene import (
    COLOUR,
    WIDTH,
    Layer,
    Scene,
    lines,
    log_axis,
    printed,
    texts,
    texts_at,
    tick_layers,
)

Results = Result | Sequence[Result] | Mapping[str, Result | Sequence[Result]]
Bounds = Mapping[str, units.Quantity]
Ends = tuple[float, float]
Formatter = Callable[[float], str]

_MOST = 5  # series with a look of their own, and with a clause in the alternative text
_LEFT, _RIGHT, _TOP = 70.0, 500.0, 24.0  # edges of the drawing area [px]
_LEAST_BOTTOM = 250.0  # [px]
_ROW = 17.0  # height of a row of labels [px]
_LABEL_LEFT = _RIGHT + 32  # [px]
_LETTER = 6.72  # width of a letter in a label [px]
_FEWEST_DECADES = 0.7  # an axis with fewer decades gets evenly spaced ticks
_DENSE_DECADES = 2.2  # an axis with fewer decades gets ticks at 1, 2 and 5 of each


class XAxis(NamedTuple):
    """A quantity for the x axis: its column in the table, and the function that writes its values."""

    column: str  # name of its column in the table
    format: Formatter


class YAxis(NamedTuple):
    """A quantity for the y axis: its unit, and the function that writes its values."""

    unit: str  # unit in the table; "" if it has none
    format: Formatter
    quantity: str = ""  # the kind of quantity that `units.parse` expects of a bound


def _power_of_two(value: float) -> str:
    """Write a number as a power of two, such as "2^8"."""
    return f"2^{np.log2(value):.0f}"


X = {
    "size": XAxis("size [B]", units.format_size),
    "ranks": XAxis("ranks", "{:,.0f} ranks".format),
    "slots": XAxis("slots", "{:,.0f}".format),
    "scale": XAxis("scale", _power_of_two),
    "kelvin": XAxis("change [K]", "{:.0f} K".format),
    "distance": XAxis("distance [m]", "{:.3g} m".format),
    "elements": XAxis("elements", "{:,.0f}".format),
    "servers": XAxis("servers per rack", "{:.0f}".format),
    "noise": XAxis("noise [mrad]", "{:.2g}".format),
}
_FRACTIONAL = ("size", "distance", "noise")  # x quantities that need not be whole numbers
Y = {
    "time": YAxis("s", units.format_time, "time"),
    "busbw": YAxis("B/s", units.format_rate, "rate"),
    "rate": YAxis("B/s", units.format_rate, "rate"),
    "carried": YAxis("Gb/s", "{:.3g} Gb/s".format),
    "power": YAxis("kW", "{:.3g} kW".format),
    "error": YAxis("", "{:.2g}".format),
    "drift": YAxis("", "{:.2g}".format),
    "off": YAxis("", "{:.2g}".format),
}

# Looks of the first, second, third ... series of a kind.
_LINE_DASHES = (0.0, 1.0, 3.0, 4.0, 5.0)
_FILLED_SHAPES = (0.0, 3.0, 4.0, 5.0, 6.0)
_OPEN_SHAPES = (1.0, 7.0, 8.0, 9.0, 10.0)
_OTHER_LOOK = {"colour": COLOUR["grey"], "width": 1.0, "alpha": 0.6}
_BOUND_LOOK = {"colour": COLOUR["grey"], "dash": 2.0}
_NAMING = ("label", "algorithm", "algo", "system")  # a result is named after the first it has


class Series(NamedTuple):
    """One line or one set of dots, with its label and its look."""

    label: str
    role: str  # a key of `ROLES`, or "other" for a series in grey
    points: Floats  # (4, K): x, y, low, high; low and high are NaN where there is no spread
    look: Mapping[str, float]  # fields of the layer
    dots: bool = False  # whether it is dots; else it is a line


class Scales(NamedTuple):
    """The scales of both axes: their ends, and the ticks between them."""

    x: Ends
    y: Ends
    x_ticks: list[float]
    y_ticks: list[float]


@dataclass(frozen=True, slots=True)
class PlotArea:
    """The drawing area: where a value on each axis is in the picture, and how it is written."""

    x: str  # a key of `X`
    y: str  # a key of `Y`
    to_x: Callable[[Any], Floats]  # value -> [px]
    to_y: Callable[[Any], Floats]  # value -> [px]
    bottom: float  # lower edge [px]

    def format_x(self, value: float) -> str:
        """Write a value of x with its unit."""
        return X[self.x].format(value)

    def format_y(self, value: float) -> str:
        """Write a value of y with its unit."""
        return Y[self.y].format(value)

    def path(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """Return the points of a line in the picture, (K, 2) [px], from their values of x and y, (K,) each."""
        return np.stack([self.to_x(x), self.to_y(y)], axis=1)


class LabelRow(NamedTuple):
    """One row of text of a label beside the drawing area."""

    words: str
    series: Series | None  # None for the second row of a label, which has no sample
    y: float  # y value of the last point of the series, which the label should be close to


def sweep(
    results: Results,
    *,
    y: str = "time",
    x: str = "size",
    bounds: Bounds | None = None,
    ax: Axes | None = None,
    finding: str | None = None,
) -> Picture:
    """Draw results as curves and dots on logarithmic axes, with a look for each kind of evidence.

    Predictions are lines; measured and published results are dots.

    Parameters
    ----------
    results : Result, sequence of Result, or mapping of label to these
        Several results with one label form one series. The first five series have the look of their kind, and all
        further ones are grey. From the second line of a kind on, each has a colour and a dash of its own.
    y, x : str
        Quantities on the axes: "time" [s] or "busbw" [B/s] over "size" [B] or "ranks" [1].
    bounds : mapping of label to quantity, optional
        Rates or times at which to draw grey dotted lines. [s or B/s]
    ax, finding : optional
        Axes to draw on, and the sentence above the picture.

    Raises
    ------
    ValueError
        If there is nothing to draw, or ``x`` or ``y`` is unknown.
    """
    y = units.choice(y, "y", ("time", "busbw"))
    x = units.choice(x, "x", ("size", "ranks"))
    groups = by_label(results, x)
    scene = sweep_scene(groups, y, x, bounds)
    return printed(replace(scene, caption=_caption(groups)), ax=ax, finding=finding)


def sweep_scene(
    results: Results,
    y: str = "time",
    x: str = "size",
    bounds: Bounds | None = None,
    said: str = "",
    cross: bool = False,
) -> Scene:
    """Return a picture of sweeps, or a scene with an error message if they cannot be drawn.

    ``said`` replaces the sentence above the picture; ``cross`` marks where the first two predicted lines cross.
    """
    try:
        series = collect(by_label(results, x), bounds or {}, x, y)
    except ValueError as error:
        return Scene(str(error), wrong=True)
    return series_scene(series, x, y, said, cross=cross)


def curve(
    words: str,
    x: str,
    y: str,
    at: Floats,
    values: Sequence[ArrayLike],
    said: str,
    ends: Ends | None = None,
) -> Scene:
    """Return a picture of a predicted curve with one marked point, and of a bound.

    Parameters
    ----------
    words : str
        Beginning of the keys of the labels: ``<words>.line``, ``<words>.here`` and ``<words>.bound``.
    x, y : str
        Quantities on the axes: keys of `X` and `Y`.
    at : ndarray, shape (K,)
        Values of x. The last one belongs to the marked point; curve and bound do not include it.
    values : two array_like, shape (K,)
        Values of the curve and of the bound at these x.
    said : str
        The sentence above the picture.
    ends : pair of float, optional
        Fixed ends of the y axis, so that it does not change when a control moves. An axis from 0 is linear.
    """
    nothing = np.full(at.size, np.nan)
    line, bound = (np.array([at, value, nothing, nothing]) for value in values)

    look = _look("predicted", "", [])
    dot_look = look | {"shape": 0.0}
    bound_look = _look("bound", "", []) | {"dash": 2.0}
    series = [
        Series(text(f"{words}.line"), "predicted", line[:, :-1], look),
        Series(text(f"{words}.here"), "predicted", line[:, -1:], dot_look, dots=True),
        Series(text(f"{words}.bound"), "bound", bound[:, :-1], bound_look),
    ]
    return series_scene(series, x, y, said, ends=ends)


# The picture --------------------------------------------------------------------------------------


def series_scene(
    series: Sequence[Series],
    x: str,
    y: str,
    said: str,
    *,
    cross: bool = False,
    ends: Ends | None = None,
) -> Scene:
    """Return a picture of series: axes, lines, dots and labels; ``cross`` marks where two predicted lines cross."""
    scales = axes_of(series, x, ends)
    rows = label_rows(series)
    area = plot_area(scales, x, y, n_rows=len(rows))
    crossing = first_crossing(series) if cross else None

    layers = {
        **axes_layers(area, scales),
        **series_layers(series, area),
        **label_layers(rows, area),
    }
    clauses = told(series, x, y)
    if crossing is not None:
        layers |= crossing_layers(crossing, area)
        clauses.append(text("sweep.crossed", at=area.format_x(crossing)))

    sentence = said or f"{clauses[0]}."
    return Scene(
        sentence,
        as_table(series, x, y),
        layers,
        height=area.bottom + 42,
        alt="; ".join([capitalised(clauses[0]), *clauses[1:]]),
    )


def capitalised(words: str) -> str:
    """Return words with a capital letter at their beginning; all other letters stay as they are."""
    return words[:1].upper() + words[1:]


def plot_area(scales: Scales, x: str, y: str, n_rows: int) -> PlotArea:
    """Return a drawing area that is high enough for ``n_rows`` rows of labels beside it."""
    bottom = max(_LEAST_BOTTOM, _TOP + 6 + _ROW * n_rows)
    return PlotArea(
        x=x,
        y=y,
        to_x=log_axis(*scales.x, _LEFT, _RIGHT),
        to_y=log_axis(*scales.y, bottom, _TOP),
        bottom=bottom,
    )


def axes_layers(area: PlotArea, scales: Scales) -> dict[str, Layer]:
    """Return grid lines, ticks and titles of both axes."""

    def short(value: float) -> str:
        return area.format_x(value).removesuffix(" ranks")

    titles = texts_at(
        (_RIGHT, area.bottom + 30, text(f"sweep.axis_{area.x}"), 2),
        (_LEFT, 8, text(f"sweep.axis_{area.y}"), 0),
    )
    return {
        **tick_layers(np.array(scales.x_ticks), area.to_x, short, (_TOP, area.bottom), True),
        **tick_layers(np.array(scales.y_ticks), area.to_y, area.format_y, (_LEFT, _RIGHT), False),
        "axes": titles,
    }


def series_layers(series: Sequence[Series], area: PlotArea) -> dict[str, Layer]:
    """Return the lines, the spreads of points as vertical strokes, and the dots."""
    return {
        "lines": line_layer(series, area),
        "spread": spread_layer(series, area),
        "dots": dot_layer(series, area),
    }


def line_layer(series: Sequence[Series], area: PlotArea) -> Layer:
    """Return a line for each series drawn as a line; when pointed at, it shows its values at both ends."""
    strokes = []
    names = []
    for one in series:
        if one.dots or one.points.shape[1] < 2:
            continue
        strokes.append((one, area.path(one.points[0], one.points[1])))
        clauses = told([one], area.x, area.y)
        names.append(clauses[0] if clauses else one.label)
    return _lines(strokes, names=names)


def spread_layer(series: Sequence[Series], area: PlotArea) -> Layer:
    """Return a thin vertical stroke from low to high at each point with a spread."""
    strokes = []
    for one in series:
        for x, _, low, high in one.points.T:
            if low < high:
                strokes.append((one, area.path([x, x], [low, high])))
    return _lines(strokes, dash=0.0, width=1.0)


def dot_layer(series: Sequence[Series], area: PlotArea) -> Layer:
    """Return the dots of all series drawn as dots; when pointed at, each shows its values."""
    dots = []
    names = []
    for one in series:
        if not one.dots:
            continue
        for x, y in one.points[:2].T:
            dots.append((one, np.array([area.to_x(x), area.to_y(y)])))
            names.append(f"{one.label}, {area.format_x(x)}: {area.format_y(y)}")
    return _dots(dots, names=names)


def label_rows(series: Sequence[Series]) -> list[LabelRow]:
    """Return the rows of all labels; a long label takes two rows, with its sample beside the first."""
    letters = int((WIDTH - _LABEL_LEFT) / _LETTER)
    rows = []
    for label, one in labelled(series):
        y = one.points[1, -1]
        first, *more = textwrap.wrap(label, letters) or [label]
        rows.append(LabelRow(first, one, y))
        if more:
            rows.append(LabelRow(" ".join(more), None, y))
    return rows


def label_layers(rows: Sequence[LabelRow], area: PlotArea) -> dict[str, Layer]:
    """Return the labels, as close to the ends of their lines as there is room, each with a sample.

    The text is in ink, which is readable on every page; the sample has the colour of the series.
    """
    wanted = np.clip(area.to_y([row.y for row in rows]), _TOP, area.bottom)
    height = spread(wanted, _ROW, _TOP, area.bottom)  # (rows,) [px]

    sample_lines = []
    sample_dots = []
    for row, h in zip(rows, height, strict=True):
        if row.series is None:
            continue
        if row.series.dots:
            sample_dots.append((row.series, np.array([_LABEL_LEFT - 18, h])))
        else:
            path = np.array([[_LABEL_LEFT - 30, h], [_LABEL_LEFT - 6, h]])
            sample_lines.append((row.series, path))

    words = [fitted(row.words, WIDTH - _LABEL_LEFT) for row in rows]
    return {
        "samples": _lines(sample_lines),
        "sample dots": _dots(sample_dots),
        "labels": texts(_LABEL_LEFT, height, words),
    }


def first_crossing(series: Sequence[Series]) -> float | None:
    """Return the value of x at which the first two predicted series cross, or None if they never do."""
    predicted = [one.points[:2] for one in series if one.role == "predicted"]
    if len(predicted) < 2:
        return None
    return crossover(predicted[0], predicted[1])


def crossing_layers(x: float, area: PlotArea) -> dict[str, Layer]:
    """Return a vertical line where two lines cross, and the value of x there.

    As the lines rise to the right, the value has room below them if it is right of the mark, or above them if left.
    """
    place = float(area.to_x(x))
    words = text("sweep.change", at=area.format_x(x))
    if place > (_LEFT + _RIGHT) / 2:
        mark = (place - 5, _TOP + 9, words, 2)
    else:
        mark = (place + 5, area.bottom - 9, words, 0)
    path = np.array([[place, _TOP], [place, area.bottom]])
    return {
        "cross line": lines([path], width=1.5, dash=1.0, colour=COLOUR["grey"]),
        "crossing": texts_at(mark),
    }


def as_table(series: Sequence[Series], x: str, y: str) -> Table:
    """Return a table of all points of all series: label, x, y, and the ends of the spread."""
    points = np.concatenate([one.points for one in series], axis=1)  # (4, K)
    labels = np.repeat([one.label for one in series], [one.points.shape[1] for one in series])
    across = points[0] if x in _FRACTIONAL else points[0].astype(np.int64)
    columns = {"series": labels, X[x].column: across}
    for name, values in zip((y, "low", "high"), points[1:], strict=True):
        unit = f" [{Y[y].unit}]" if Y[y].unit else ""
        columns[name + unit] = values
    return Table(columns)


def told(series: Sequence[Series], x: str, y: str) -> list[str]:
    """Return a clause for each of the first five series, bounds excepted: its values at both ends."""
    shown = [one for one in series if one.role != "bound"]
    clauses = []
    for one in shown[:_MOST]:
        last = one.points.shape[1] - 1
        ends = one.points[:2, :: max(1, last)].T  # a series with a single point has one end
        values = [
            text("sweep.at", value=Y[y].format(value), x=X[x].format(place))
            for place, value in ends
        ]
        clauses.append(text(f"sweep.{y}", label=one.label, list=text("word.and").join(values)))
    return clauses


# The series ---------------------------------------------------------------------------------------


def by_label(results: Results, x: str) -> dict[str, list[Result]]:
    """Return label -> results.

    A result without a label is named after its algorithm or system, and how it was obtained.
    """
    if isinstance(results, Mapping):
        return {str(k): [v] if isinstance(v, Result) else list(v) for k, v in results.items()}

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


def _label_candidates(result: Result, number: int) -> list[str]:
    """Return possible labels for a result; the first is the shortest, and each of the others adds a detail to it."""
    asked = result.asked
    names = [str(asked[key]) for key in _NAMING if asked.get(key)]
    name = names[0] if names else result.what.replace("_", "-")
    label = f"{name} ({HERE.get(result.obtained, result.obtained)})"
    extras = [*names[1:], f"{result.n_ranks} ranks", number]
    return [label, *(f"{label}, {extra}" for extra in extras)]


def collect(groups: Mapping[str, list[Result]], bounds: Bounds, x: str, y: str) -> list[Series]:
    """Return the series to draw, with all points above 0 in order of x, followed by the bounds.

    Raises
    ------
    ValueError
        If no point can be shown, or a bound is no rate or time.
    """
    out: list[Series] = []
    for label, members in groups.items():
        points = _points_of(members, x, y)
        if not points.size:
            continue
        if len(out) < _MOST:
            obtained = members[0].obtained
            role = obtained if obtained in ROLES else "published"
            look = _look(role, label, [one.look for one in out if one.role == role])
            out.append(Series(label, role, points, look, dots="shape" in look))
        else:
            points[2:] = np.nan
            out.append(Series(label, "other", points, _OTHER_LOOK))
    if not out:
        raise ValueError(
            f"nothing to draw: results has no point with {x} > 0 and {y} > 0;"
            " one rank has busbw 0, draw its time"
        )

    across = np.concatenate([one.points[0] for one in out])
    ends = [across.min(), across.max()]
    nothing = [np.nan, np.nan]
    for label, value in bounds.items():
        at = units.parse(value, Y[y].quantity, f"bounds[{label!r}]")
        points = np.array([ends, [at, at], nothing, nothing])
        out.append(Series(label, "bound", points, _BOUND_LOOK))
    return out


def _points_of(members: Sequence[Result], x: str, y: str) -> Floats:
    """Return the points (4, K) of results that logarithmic axes can show, those above 0, in order of x."""
    points = np.concatenate([np.empty((4, 0)), *(_points(r, x, y) for r in members)], axis=1)
    points = points[:, np.all(points[:2] > 0, axis=0)]
    return points[:, np.argsort(points[0], kind="stable")]


def _points(r: Result, x: str, y: str) -> Floats:
    """Return x, y, low and high of a result, (4, K); low and high are NaN if it has no spread."""
    n = r.size.size
    across = r.size if x == "size" else np.full(n, float(r.n_ranks))
    low = np.full(n, np.nan) if r.low is None else r.low
    high = np.full(n, np.nan) if r.high is None else r.high
    if y == "time":
        return np.stack([across, r.time, low, high])
    moved = r.busbw * r.time  # [B]; the longest time then gives the lowest bandwidth
    return np.stack([across, r.busbw, moved / high, moved / low])


def _look(kind: str, label: str, before: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the look of a series of a kind after those that were drawn ``before``.

    An algorithm that is compared in the whole course has its hue and its mark. Of several series with one hue, lines
    differ in dash and dots in shape; series without a hue of their own get colours in turn.
    """
    hue, mark = algorithm(label)
    if hue == COLOUR["direct"]:
        hue = (COLOUR[kind], *KEYS)[len(before) % (len(KEYS) + 1)]
        mark = 0.0
    nth = sum(look["colour"] == hue for look in before)
    if not ROLES[kind].marker:
        return {"colour": hue, "dash": _LINE_DASHES[nth % len(_LINE_DASHES)]}
    shapes = _FILLED_SHAPES if ROLES[kind].filled else _OPEN_SHAPES
    first = _FILLED_SHAPES.index(mark)
    if hue in (COLOUR[kind], *KEYS):
        nth = len(before)
    return {"colour": hue, "shape": shapes[(first + nth) % len(shapes)]}


def axes_of(series: Sequence[Series], x: str, up: Ends | None = None) -> Scales:
    """Return the ends and ticks of both axes; ``up`` gives the ends of the y axis, which else enclose all points."""
    points = np.concatenate([one.points for one in series], axis=1)
    across = np.unique(points[0])
    x_ends = _padded(across)
    y_ends = up or _padded(points[1:].ravel())
    few_ranks = x == "ranks" and across.size <= 8
    x_ticks = across if few_ranks else _doubling_ticks(x_ends)
    return Scales(x_ends, y_ends, x_ticks.tolist(), _decade_ticks(y_ends).tolist())


def _doubling_ticks(ends: Ends) -> Floats:
    """Return at most eight powers of two between the ends of an axis."""
    low, high = np.log2(ends)
    step = next(step for step in (1, 2, 5, 10, 20, 40) if (high - low) / step < 8)
    exponents = np.arange(np.ceil(low / step) * step, high, step)
    return np.asarray(2.0**exponents)


def _decade_ticks(ends: Ends) -> Floats:
    """Return the ticks of a y axis: at 1, 2 and 5 of each decade, or at 1 only where there are many decades.

    An axis from 0, or with less than 0.7 decades, has evenly spaced ticks.
    """
    decades = np.ptp(np.log10(ends)) if ends[0] else 0.0
    digits = [1, 2, 5] if decades < _DENSE_DECADES else [1]
    ticks = np.outer(10.0 ** np.arange(-12, 18), digits).ravel()
    if decades < _FEWEST_DECADES:
        ticks = np.array(MaxNLocator(5).tick_values(*ends))
    return ticks[(ticks >= ends[0]) & (ticks <= ends[1])]


def crossover(one: Floats, other: Floats) -> float | None:
    """Return the first x at which two curves of x and y, (2, K), cross, or None; rounded to two significant digits.

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
    return float(f"{np.exp(crossing):.2g}")


def _padded(values: Floats) -> Ends:
    """Return the ends of an axis, with some room beyond the smallest and the largest value above 0."""
    values = values[np.isfinite(values) & (values > 0)]
    low, high = float(values.min()), float(values.max())
    pad = (high / low) ** 0.04 if high > low else 1.6
    return low / pad, high * pad


def labelled(series: Sequence[Series]) -> list[tuple[str, Series]]:
    """Return each label with its series; all grey series share one label, which is drawn beside the last of them."""
    out = [(one.label, one) for one in series if one.role != "other"]
    others = [one for one in series if one.role == "other"]
    if others:
        out.append((text("sweep.others", n=len(others)), others[-1]))
    return out


def _lines(paths: Sequence[tuple[Series, Floats]], **fields: Any) -> Layer:
    """Return a layer of lines, each in the look of its series; ``fields`` replace parts of the look."""
    looks = {}
    for key, default in (("colour", 0.0), ("dash", 0.0), ("width", 2.0), ("alpha", 1.0)):
        looks[key] = np.array([one.look.get(key, default) for one, _ in paths])
    return lines([path for _, path in paths], **{**looks, **fields})


def _dots(places: Sequence[tuple[Series, Floats]], **fields: Any) -> Layer:
    """Return a layer of dots, each in the look of its series."""
    x, y = np.array([place for _, place in places]).reshape(-1, 2).T
    looks = {key: np.array([one.look[key] for one, _ in places]) for key in ("colour", "shape")}
    return Layer("dots", {"x": x, "y": y, **looks, **fields})


def _caption(groups: Mapping[str, list[Result]]) -> str:
    """Return the sources and the notes of all results as a text, each of them once."""
    sources = []
    notes = []
    for label, group in groups.items():
        for result in group:
            if result.source:
                obtained = HERE.get(result.obtained, result.obtained)
                sources.append(f"{obtained}: {result.source}")
            notes += [f"{label}: {note.rstrip('.')}" for note in result.notes]
    return " ".join(f"{capitalised(words)}." for words in dict.fromkeys([*sources, *notes]))
