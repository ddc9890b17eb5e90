"""Bars: named numbers as lengths on one axis from zero, so that 128 times as long looks like 128 times as long."""

import math
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.look import COLOUR, algorithm
from fabriclab.texts import text
from fabriclab.views.page import Picture, Table, three
from fabriclab.views.scene import Layer, Scene, boxes, printed, texts
from fabriclab.views.sweeps import readable

_ROW, _BAR = 26.0, 16.0  # distance between two bars, and their height [px]
_HEAD = 30.0  # room for the name of a group [px]
_WIDTH = 860.0
_LEAST = 1.0  # length of the shortest bar, so that it is seen [px]
_LETTER = 6.9  # width of a letter [px]
_VALUE_ROOM = 110.0  # for the number beside the longest bar [px]
_MOST_NAME = 300.0  # [px]
_CLOSE = 1.1  # ratio up to which a difference is told in per cent
_ALIKE = 1.005  # ratio up to which three digits do not show a difference
_EQUAL = 1e-6  # relative difference up to which two bars are equally long
# Letters of the sentence above the picture on one line; if there are more, its bars are not named.
_MOST_SAID = 78
_MOST_BESIDE = 36  # the same for the name of a group that says something itself, beside the sentence in small letters
MOST = 16  # bars that fit into a picture


class Bar(NamedTuple):
    """One bar: the group it belongs to, its name and its value in SI."""

    group: str
    name: str
    value: float


def bars(
    named: Mapping[str, Any],
    unit: str = "s",
    *,
    bold: str | Iterable[str] = (),
    best_of_each: bool = False,
    finding: str | None = None,
    caption: str = "",
) -> Picture:
    """Draw named numbers as bars from zero on one linear axis, each with its value beside it.

    Parameters
    ----------
    named : mapping of str to number or str, or of str to such a mapping
        What is compared, such as ``{"one root": 89.6, "ring": 0.7}``; a mapping of mappings gives groups with a heading
        each, all on the same axis. A name that the library gives, such as ``"ugal_g"``, is shown as engineers write it.
        At most 16 bars, each >= 0 and finite, in ``unit`` or as a string with its unit.
    unit : str
        SI unit of plain numbers: ``"s"``, ``"B/s"``, ``"B"``, or any other word for a plain number, such as
        ``"times"`` or ``"%"``.
    bold : str or iterable of str, optional
        Names of the bars that matter most, as in ``named``; unless given, the shortest of a time and the longest of all
        else.
    best_of_each : bool
        Whether that is the shortest or longest of each group, not of all bars. ``bold`` goes before it.
    finding, caption : str, optional
        The sentence above the picture, and a line below it.

    Raises
    ------
    ValueError
        If there is nothing to draw, too much of it, or a value below 0 or not finite.

    Examples
    --------
    >>> print(bars({"one root": 89.6, "ring": 0.7003}).table)
      what         time
      one root   89.6 s
    > ring      0.700 s
    """
    rows = _rows(named, unit)
    asked = {readable(name) for name in ([bold] if isinstance(bold, str) else bold)}
    unknown = sorted(asked - {row.name for row in rows})
    if unknown:
        raise ValueError(f"bold names no bar: {', '.join(unknown)}")
    if asked:
        marked = {i for i, row in enumerate(rows) if row.name in asked}
    elif best_of_each:
        marked = set()
        for places in _groups(rows).values():
            marked |= _best(rows, places, unit)
    else:
        marked = _best(rows, range(len(rows)), unit)
    scene = bars_scene(rows, unit, marked, caption)
    return printed(scene, finding=finding)


def _groups(rows: list[Bar]) -> dict[str, list[int]]:
    """Return the places of the bars of each group."""
    places: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        places.setdefault(row.group, []).append(i)
    return places


def _best(rows: list[Bar], among: Iterable[int], unit: str) -> set[int]:
    """Return those of the places ``among`` with the shortest bar if it is a time, and with the longest if not."""
    values = {i: rows[i].value for i in among}
    best = min(values.values()) if unit == "s" else max(values.values())
    return {i for i, value in values.items() if math.isclose(value, best, rel_tol=_EQUAL)}


def _rows(named: Mapping[str, Any], unit: str) -> list[Bar]:
    """Return the bars from top to bottom, with their values in SI."""
    if not isinstance(named, Mapping) or not named:
        raise ValueError(
            f'bars needs names with numbers, such as {{"ring": 0.7, "tree": 1.9}}, got {named!r:.60}'
        )
    rows = []
    for name, value in named.items():
        inner = value if isinstance(value, Mapping) else {name: value}
        group = readable(str(name)) if isinstance(value, Mapping) else ""
        for key, given in inner.items():
            rows.append(Bar(group, readable(str(key)), _number(given, unit, str(key))))
    units.count(len(rows), "number of bars", 1, MOST)
    return rows


def _number(given: Any, unit: str, name: str) -> float:
    """Return a value in SI; raise if it is below 0 or not finite."""
    quantity = {"s": units.time, "B/s": units.rate, "B": units.size}.get(unit)
    if quantity:
        value = float(quantity(given, f"value of {name!r}"))
    elif isinstance(given, Integral):
        value = int(given)  # a count, which is shown with all its digits
    else:
        value = float(given)
    if not 0 <= value < math.inf:
        raise ValueError(f"value of {name!r} must be finite and >= 0, got {value:g}")
    return value


def shown_value(value: float, unit: str) -> str:
    """Write a value with its unit, each with its own prefix."""
    if unit == "s":
        return f"{three(value)} s" if value >= 0.1 or value == 0 else units.format_time(value)
    if unit == "B/s":
        return units.format_rate(value)
    if unit == "B":
        return units.format_size(value)
    number = f"{value:,}" if isinstance(value, int) else three(value)
    return f"{number} {unit}".rstrip()


def bars_scene(rows: list[Bar], unit: str, marked: set[int], caption: str = "") -> Scene:
    """Return the picture of bars; those in places that are ``marked`` are in ink, unless algorithms have their hues."""
    most = max(row.value for row in rows) or 1.0
    names = [row.name for row in rows]
    letters = max(map(len, names))
    left = min(16 + _LETTER * letters, _MOST_NAME)
    room = _WIDTH - left - 10 - _VALUE_ROOM

    y = []
    heads: list[tuple[float, str]] = []
    at = 14.0
    for i, row in enumerate(rows):
        if row.group and (i == 0 or rows[i - 1].group != row.group):
            at += 6.0 if i else 0.0
            heads.append((at, row.group))
            at += _HEAD - 6
        y.append(at)
        at += _ROW
    middles = np.array(y)
    lengths = np.maximum(room * np.array([row.value for row in rows]) / most, _LEAST)
    bold = np.array([float(i in marked) for i in range(len(rows))])
    words = np.where(bold > 0, COLOUR["ink"], COLOUR["soft"])
    layers: dict[str, Layer] = {
        "names": texts(left, middles, names, align=2.0, bold=bold, colour=words),
        "bars": boxes(
            left + 10,
            middles - _BAR / 2,
            lengths,
            _BAR,
            colour=_colours(rows, bold),
            round=2.0,
            names=names,
            notes=[shown_value(row.value, unit) for row in rows],
        ),
        "values": texts(
            left + 10 + lengths + 8,
            middles,
            [shown_value(row.value, unit) for row in rows],
            bold=bold,
        ),
        "groups": texts(
            16.0,
            np.array([place for place, _ in heads]),
            [head for _, head in heads],
            bold=1.0,
            size=13.0,
        ),
    }
    said = _said(rows, unit)
    return Scene(said, _table(rows, unit, marked), layers, at, said, caption=caption, width=_WIDTH)


def _said(rows: list[Bar], unit: str) -> str:
    """Return the sentence above the picture, about the group in which the bars differ most."""
    widest, ratio = "", 0.0
    for group, places in _groups(rows).items():
        values = [rows[i].value for i in places]
        apart = max(values) / min(values) if min(values) else math.inf
        if apart > ratio:
            widest, ratio = group, apart

    shown = [row for row in rows if row.group == widest]
    least = min(shown, key=lambda row: row.value)
    longest = max(shown, key=lambda row: row.value)
    low, high = shown_value(least.value, unit), shown_value(longest.value, unit)
    if low == high:
        return text("bars.equal", value=high)
    percent = f"{100 * (ratio - 1):.2g}"
    if ratio < _ALIKE:
        alike = text("bars.alike", value=low, percent=percent)
        return text("bars.group", group=widest, said=alike.lower()) if widest else alike
    said = text("bars.said", least=least.name, low=low, most=longest.name, high=high)
    says_itself = ":" in widest
    room = _MOST_BESIDE if says_itself else _MOST_SAID - len(said)
    if len(widest) > room:
        said = text("bars.said_short", low=low, high=high)
    if says_itself:
        said = text("bars.group_says", group=widest, said=said)
    elif widest:
        said = text("bars.group", group=widest, said=said[:1].lower() + said[1:])
    if ratio < _CLOSE:
        said += " " + text("bars.close", percent=percent)
    elif least.value and unit != "times":  # where a factor is what is shown, another one confuses
        said += " " + text("bars.ratio", ratio=three(ratio))
    return said


def _colours(rows: list[Bar], bold: Any) -> Any:
    """Return the hue of each bar's algorithm if all have one of their own; else ink for the bold ones, and grey."""
    hues = np.array([algorithm(row.name).colour for row in rows])
    if np.all(hues != COLOUR["direct"]):
        return hues
    return np.where(bold > 0, COLOUR["ink"], COLOUR["hair"])


def _table(rows: list[Bar], unit: str, marked: set[int]) -> Table:
    """Return the table twin."""
    columns: dict[str, Any] = {}
    if any(row.group for row in rows):
        columns["group"] = [row.group for row in rows]
    columns["what"] = [row.name for row in rows]
    kind = {"s": "time", "B/s": "rate", "B": "size"}.get(unit, "number")
    values = np.array([row.value for row in rows])
    head = f"{kind} [{unit}]" if unit else kind
    columns[head] = values
    return Table(columns, tuple(sorted(marked)), apart=(head,) if unit == "s" else ())
