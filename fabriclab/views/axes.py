"""Axes of a plot: the quantity that each shows, where a value is in the picture, its ticks and its title."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Floats
from fabriclab.texts import text
from fabriclab.views.page import plain
from fabriclab.views.scene import COLOUR, Layer, heading, lines, texts, texts_at, tick_texts

Ends = tuple[float, float]
Formatter = Callable[[float], str]

_FEWEST_DECADES = 0.7  # an axis with fewer decades gets evenly spaced ticks
_DENSE_DECADES = 2.7  # an axis with fewer decades gets ticks at 1, 2 and 5 of each
_LEAST_DECIMAL = 1e4  # a size of fewer bytes tells nothing about its prefix [B]
_MOST_DECADES = 8  # with a tick each
_MOST_TICKS = 10  # on an x axis
_TICK_ROOM = 56.0  # width of a tick's label on an x axis, with the room beside it [px]
_MARK = 5.0  # length of the stroke at a tick [px]
_SMALL = 1e-4  # a number below it is written with a power of ten
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class XAxis(NamedTuple):
    """A quantity for the x axis: its column in the table, and the function that writes its values."""

    column: str  # name of its column in the table
    format: Formatter
    doubling: bool = True  # whether its ticks are powers of two; else they are in decades


class YAxis(NamedTuple):
    """A quantity for the y axis: its unit, and the function that writes its values."""

    unit: str  # unit in the table; "" if it has none
    format: Formatter
    quantity: str = ""  # the kind of quantity that `units.parse` expects of a bound


class Scales(NamedTuple):
    """The scales of both axes: their ends, and the ticks between them."""

    x: Ends
    y: Ends
    x_ticks: list[float]
    y_ticks: list[float]


@dataclass(frozen=True, slots=True)
class PlotArea:
    """The drawing area: its edges, where a value on each axis is in the picture, and how it is written."""

    x: str  # a key of `X`
    y: str  # a key of `Y`
    to_x: Callable[[Any], Floats]  # value -> [px]
    to_y: Callable[[Any], Floats]  # value -> [px]
    left: float  # [px]
    right: float  # [px]
    top: float  # [px]
    bottom: float  # [px]

    def format_x(self, value: float) -> str:
        """Write a value of x with its unit."""
        return X[self.x].format(value)

    def format_y(self, value: float) -> str:
        """Write a value of y with its unit."""
        return Y[self.y].format(value)

    def path(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """Return the points of a line in the picture, (K, 2) [px], from their values of x and y, (K,) each."""
        return np.stack([self.to_x(x), self.to_y(y)], axis=1)


# How values are written -----------------------------------------------------------------------------


def scientific(value: float) -> str:
    """Write a number with two significant digits; far from 1 as a multiple of a power of ten, such as "2·10⁻⁵"."""
    if value == 0 or _SMALL <= abs(value) < 10:
        return f"{value:.2g}"
    digits, exponent = f"{value:.1e}".split("e")
    if 10 <= abs(value) < 1e4:
        return f"{float(digits) * 10 ** int(exponent):,.0f}"
    return _product(digits, int(exponent))


def power_of_ten(value: float) -> str:
    """Write a number with two significant digits as a multiple of a power of ten, such as "10⁻²"; 1 stays 1."""
    if value == 0:
        return "0"
    digits, exponent = f"{value:.1e}".split("e")
    return _product(digits, int(exponent)) if int(exponent) else f"{value:.2g}"


def _product(digits: str, exponent: int) -> str:
    """Return "2·10⁻⁵" of the digits "2.0" and the exponent -5, and "10⁻⁵" of the digits "1.0"."""
    power = "10" + str(exponent).translate(_RAISED)
    digits = digits.removesuffix(".0")
    return power if digits == "1" else f"{digits}·{power}"


def power_of_two(value: float) -> str:
    """Write a number as a power of two, such as "2⁸"."""
    return "2" + f"{np.log2(value):.0f}".translate(_RAISED)


def signed(value: float) -> str:
    """Write a number of per cent with its sign."""
    if abs(value) >= 100:
        return f"{value:+,.0f} %".replace("-", "\N{MINUS SIGN}")
    return f"{value:+.2g} %".replace("-", "\N{MINUS SIGN}") if value else "0 %"


X = {
    "size": XAxis("size [B]", units.format_size),
    "ranks": XAxis("ranks", "{:,.0f} ranks".format),
    "tokens": XAxis("tokens", "{:,.0f} tokens".format),
    "slots": XAxis("slots", "{:,.0f}".format),
    "scale": XAxis("scale", power_of_two),
    "kelvin": XAxis("change [K]", "{:.0f} K".format, doubling=False),
    "distance": XAxis("distance [m]", "{:.3g} m".format, doubling=False),
    "elements": XAxis("elements", "{:,.0f}".format),
    "servers": XAxis("servers per rack", "{:.0f}".format),
    "noise": XAxis("noise [mrad]", "{:.3g} mrad".format, doubling=False),
}
FRACTIONAL = ("size", "tokens", "distance", "noise")  # x quantities that need not be whole numbers
Y = {
    "time": YAxis("s", units.format_time, "time"),
    "busbw": YAxis("B/s", units.format_rate, "rate"),
    "rate": YAxis("B/s", units.format_rate, "rate"),
    "carried": YAxis("Gb/s", "{:.3g} Gb/s".format),
    "power": YAxis("kW", "{:.3g} kW".format),
    "error": YAxis("", scientific),
    "drift": YAxis("", scientific),
    "off": YAxis("", scientific),
    "miss": YAxis("%", signed),
}


# Ends and ticks -------------------------------------------------------------------------------------


def padded(values: Floats) -> Ends:
    """Return the ends of an axis, with some room beyond the smallest and the largest value above 0."""
    values = values[np.isfinite(values) & (values > 0)]
    low, high = float(values.min()), float(values.max())
    pad = (high / low) ** 0.04 if high > low else 1.6
    return low / pad, high * pad


def doubling_ticks(ends: Ends, most: int = _MOST_TICKS) -> Floats:
    """Return powers of two between the ends of an axis, at most so many."""
    low, high = np.log2(ends)
    for step in (1, 2, 4, 10, 20, 40, 80):
        exponents = np.arange(np.ceil(low / step) * step, high, step)
        if exponents.size <= most:
            break
    return np.asarray(2.0**exponents)


def decade_ticks(ends: Ends) -> Floats:
    """Return ticks at 1, 2 and 5 of each decade, or at 1 only where there are many decades.

    An axis from 0, or with less than 0.7 decades, has evenly spaced ticks.
    """
    decades = np.ptp(np.log10(ends)) if ends[0] > 0 else 0.0
    digits = [1, 2, 5] if decades < _DENSE_DECADES else [1]
    step = 1 + int(decades / _MOST_DECADES)
    ticks = np.outer(10.0 ** np.arange(-12, 18, step), digits).ravel()
    if decades < _FEWEST_DECADES:
        ticks = np.array(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(*ends))
    return ticks[(ticks >= ends[0]) & (ticks <= ends[1])]


def even_ticks(ends: Ends) -> list[float]:
    """Return about six evenly spaced ticks between the ends of an axis, which may lie below 0."""
    ticks = MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(*ends)
    return [float(tick) for tick in ticks if ends[0] <= tick <= ends[1]]


def x_ticks(x: str, across: Floats, ends: Ends, width: float) -> Floats:
    """Return the ticks of an x axis of a width [px] on which ``across`` are the values that are drawn."""
    most = min(_MOST_TICKS, int(width / _TICK_ROOM))
    if x == "ranks" and across.size <= most:
        return across
    in_decades = x == "size" and not _is_binary(across)
    return decade_ticks(ends) if in_decades or not X[x].doubling else doubling_ticks(ends, most)


def _is_binary(sizes: Floats) -> bool:
    """Return whether sizes have binary prefixes, as those of sweeps do: both ends are whole KiB, or small."""
    ends = np.array([sizes.min(), sizes.max()])
    return bool(np.all((ends < _LEAST_DECIMAL) | (ends % 1024 == 0)))


# Drawing --------------------------------------------------------------------------------------------


def axes_layers(
    area: PlotArea, scales: Scales, x_name: str = "", y_name: str = ""
) -> dict[str, Layer]:
    """Return grid lines, ticks and titles of both axes; ``x_name`` and ``y_name`` replace their usual names.

    If all ticks of an axis have one unit, it stands in brackets behind the title; else each tick has its own.
    """
    x_unit, x_words = tick_words(scales.x_ticks, area.format_x)
    if area.x == "size":  # each size has its prefix
        x_unit, x_words = "", [plain(area.format_x(tick)) for tick in scales.x_ticks]
    y_unit, y_words = tick_words(scales.y_ticks, area.format_y)
    x_title = titled(x_name or text(f"sweep.axis_{area.x}"), x_unit)
    y_title = titled(y_name or text(f"sweep.axis_{area.y}"), y_unit)
    across = area.to_x(np.array(scales.x_ticks))
    up = area.to_y(np.array(scales.y_ticks))
    rules = [np.array([[area.left, y], [area.right, y]]) for y in up]
    axis = [np.array([[area.left, area.bottom], [area.right, area.bottom]])]
    for x in across:
        axis.append(np.array([[x, area.bottom], [x, area.bottom + _MARK]]))
    soft = COLOUR["soft"]
    return {
        "y grid": lines(rules, width=1.0, colour=COLOUR["line"]),
        "axis": lines(axis, width=1.0, colour=COLOUR["edge"]),
        "x ticks": texts(across, area.bottom + 15, x_words, align=1.0, colour=soft),
        "y ticks": texts(area.left - 8, up, y_words, align=2.0, colour=soft),
        "quantity": heading(12.0, y_title),
        "across": Layer(
            "texts",
            {**texts_at((area.right, area.bottom + 33, x_title, 2)).fields, "colour": soft},
        ),
    }


def tick_words(values: Sequence[float], show: Formatter) -> tuple[str, list[str]]:
    """Return the unit that all values share, or "", and what is written at each value."""
    if show is scientific and 0 < min((abs(v) for v in values if v), default=0.0) < _SMALL:
        show = power_of_ten  # all ticks alike
    words = [_short(word) for word in tick_texts(values, show)]
    shared = {word.partition(" ")[2] for value, word in zip(values, words, strict=True) if value}
    if len(shared) > 1:
        return "", words
    return "".join(shared), [word.partition(" ")[0] for word in words]


def _short(words: str) -> str:
    """Drop zeros at the end of a fraction: "2.50 GB/s" becomes "2.5 GB/s"."""
    return re.sub(r"(\.\d*[1-9])0+(?= |$)", r"\1", words)


def titled(name: str, unit: str) -> str:
    """Return the title of an axis: its name with the unit in brackets, unless the name says it."""
    return name if not unit or unit in name.split() else f"{name} [{unit}]"
