"""Bars: named numbers as lengths on one axis from zero, so that 128 times as long looks like 128 times as long."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import Flags, Floats
from fabriclab.look import COLOUR, algorithm
from fabriclab.texts import text
from fabriclab.views.page import Picture, Table, three
from fabriclab.views.scene import Layer, Scene, boxes, printed, texts
from fabriclab.views.sweeps import readable, short_source

_ROW, _BAR = 26.0, 16.0  # distance between two bars, and their height [px]
_LEAST_ROW = 17.5  # distance between many bars, at which their names still stand apart [px]
_HEAD = 24.0  # room for the name of a group [px]
_APART = 6.0  # between two groups [px]
_TOP = 14.0  # above the first line of text [px]
_HIGHEST = 412.0  # of a picture; so its card fits into a window of 1366 x 768 [px]
_WIDTH = 880.0
_LEAST = 2.0  # length of the shortest bar above 0, so that it is seen [px]
_LETTER = 6.9  # width of a letter [px]
_BOLD = 1.12  # how much wider bold letters are
_VALUE_ROOM = 110.0  # for the number beside the longest bar [px]
_MOST_NAME = 300.0  # [px]
_CLOSE = 1.1  # ratio up to which a difference is told in per cent
_ALIKE = 1.005  # ratio up to which three digits do not show a difference
_PREFIXED = ("s", "B/s", "B")  # units with prefixes
_SHARES = ("%", "times")  # of which 100 or 2 is no count
_WITHOUT_PREFIX = 0.1  # [s] so "0.700 s" stands beside "2.10 s"; shorter times get a prefix
_SMALL = 0.1  # part of a unit below which the next smaller one is taken: 3,350 and 50.0 GB/s
_TOO_SMALL = 0.01  # part of a unit that is no longer written in it: 4.54 ms beside 2,480 ms
_EQUAL = 1e-6  # relative difference up to which two bars are equally long
# Letters of the sentence above the picture on one line; if there are more, its bars are not named.
_MOST_SAID = 78
_MOST_BESIDE = 36  # the same for the name of a group that says something itself, beside the sentence in small letters
_ALMOST = 0.99  # of the longest bar: one that is as good as equal
_COLUMN = re.compile(r"(.*?) \[(.+)\]")  # word and unit of a column of a table
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
    published: str | Iterable[str] = (),
    source: str = "",
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
        Names of the bars that matter most, or of whole groups, as in ``named``; unless given, the shortest of a time
        and the longest of all else, with the computed sentence among the bars that it is about.
    best_of_each : bool
        Whether that is the shortest or longest of each group, not of all bars. ``bold`` goes before it.
    published : str or iterable of str, optional
        Names of the bars, or of whole groups, whose values others have published. They are outlined.
    source : str, optional
        Who published them, for the line below the picture, such as ``sweep.source``.
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
    outlined = _places(rows, published, "published")
    marked = _places(rows, bold, "bold")
    if marked:
        pass  # the caller has chosen
    elif best_of_each:
        for places in _groups(rows).values():
            marked |= _best(rows, places, unit)
    else:
        # A sentence of its own may be about any bar; the computed one is about one group.
        among = range(len(rows)) if finding else _groups(rows)[_widest(rows).group]
        marked = _best(rows, among, unit)
    scene = bars_scene(rows, unit, marked, caption, outlined, source)
    return printed(scene, finding=finding)


def scene_of_columns(table: Table, columns: Sequence[str]) -> Scene:
    """Return bars for the numbers in columns of one unit, a group for each; those of rows in bold are in ink.

    Without such rows, the longest of each group are. The first column of the table names the bars. A value that is not
    there (NaN) has none.
    """
    names = [str(name) for name in next(iter(table.columns.values()))]
    rows: list[Bar] = []
    marked = set()
    unit = ""
    for column in columns:
        found = _COLUMN.fullmatch(column)
        word, unit = found.groups() if found else (column, "")
        values = table[column].astype(np.float64)
        longest = np.nanmax(values)
        for i, value in enumerate(values.tolist()):
            if value != value:
                continue
            if i in table.bold or (not table.bold and value > _ALMOST * longest):
                marked.add(len(rows))
            rows.append(Bar(word if len(columns) > 1 else "", readable(names[i]), value))
    return bars_scene(rows, unit, marked)


class Shown(NamedTuple):
    """How the numbers of one picture are written, all alike."""

    factor: float  # from SI to the shown unit
    unit: str  # with its prefix
    whole: bool = False  # without decimals

    def __call__(self, value: float) -> str:
        """Return a number with its unit."""
        number = f"{value / self.factor:,.0f}" if self.whole else three(value / self.factor)
        return f"{number} {self.unit}".rstrip()


def _places(rows: list[Bar], names: str | Iterable[str], argument: str) -> set[int]:
    """Return the places of the bars that have one of some names themselves or by their group; raise if none has it."""
    asked = {readable(name) for name in ([names] if isinstance(names, str) else names)}
    unknown = sorted(asked - {row.name for row in rows} - {row.group for row in rows})
    if unknown:
        raise ValueError(f"{argument} names no bar: {', '.join(unknown)}")
    return {i for i, row in enumerate(rows) if asked & {row.name, row.group}}


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


def shown_values(values: Iterable[float], unit: str) -> list[str]:
    """Write the values of one picture with their unit, all with the same prefix unless they are too far apart.

    Times are in seconds if the longest is 0.1 s or more, or in ms if the shortest would then be below 0.01 s; shorter
    ones are in the unit in which the shortest is not below 0.1, such as 1,780 µs and 98.0 µs. Sizes
    have a binary prefix if that makes all of them whole. A whole count has no decimals.
    """
    numbers = list(values)
    longest = max(numbers)
    above_0 = [value for value in numbers if value]
    if unit not in _PREFIXED or not above_0:
        return [_plain(value, unit)(value) for value in numbers]

    shown = _prefixed(longest, unit)
    # In the next smaller unit a number may have four digits. 2,480 ms are still 2.48 s, but not beside 4.54 ms.
    is_far_below = min(above_0) < _TOO_SMALL * shown.factor
    most = 10 if unit != "s" or shown.factor < 1 or is_far_below else 1
    if min(above_0) < _SMALL * shown.factor and longest < most * shown.factor:
        shown = _next_smaller(shown, unit)
    if unit == "B":
        shown = _binary(above_0) or shown
    if min(above_0) < _TOO_SMALL * shown.factor:
        return [_alone(value, unit)(value) for value in numbers]
    return [shown(value) for value in numbers]


def _plain(value: float, unit: str) -> Shown:
    """Return how a number without prefixes is written: what can be counted is whole if it is."""
    whole = isinstance(value, int) or (unit not in _SHARES and _is_whole(value))
    is_one = whole and value == 1 and unit not in _SHARES
    return Shown(1.0, _singular(unit) if is_one else units.printed(unit), whole)


def _singular(unit: str) -> str:
    """Return the word for one of what a unit counts: "array" for "arrays", "switch" for "switches"."""
    return re.sub("(?<=ch)es$|(?<=[^s])s$", "", unit)


def _is_whole(value: float) -> bool:
    """Return whether a number is whole and below those that a float no longer holds to the last digit."""
    return value == math.floor(value) and value < 1e15


def _alone(value: float, unit: str) -> Shown:
    """Return the unit of a value beside which no other one has to be written."""
    binary = _binary([value]) if unit == "B" and value else None
    return binary or _prefixed(value, unit)


def _prefixed(value: float, unit: str) -> Shown:
    """Return the unit in which a single value is written."""
    if unit == "s" and (value >= _WITHOUT_PREFIX or value == 0):
        return Shown(1.0, "s")
    rounded = float(f"{value:.2e}")  # so that 999.6 MB/s is 1.00 GB/s
    number, prefix = units.scale(rounded) if rounded else (1.0, "")
    factor = rounded / number if rounded else 1.0
    return Shown(factor, prefix + unit, whole=unit == "B" and factor == 1 and _is_whole(value))


def _next_smaller(shown: Shown, unit: str) -> Shown:
    """Return the unit that is a thousand times smaller."""
    if shown.unit == "B":
        return shown
    factor = shown.factor / 1000
    _, prefix = units.scale(factor)
    return Shown(factor, prefix + unit)


def _binary(sizes: list[float]) -> Shown | None:
    """Return the largest binary unit in which all sizes are whole, if people write each of them with such a unit."""
    if not all("iB" in units.format_size(size) for size in sizes):
        return None
    for unit in ("GiB", "MiB", "KiB"):
        _, factor = units.UNITS[unit]
        if all(_is_whole(size / factor) for size in sizes) and max(sizes) < 1e4 * factor:
            return Shown(factor, unit, whole=True)
    return None


def bars_scene(
    rows: list[Bar],
    unit: str,
    marked: set[int],
    caption: str = "",
    published: Iterable[int] = (),
    source: str = "",
) -> Scene:
    """Return the picture of bars; those in places that are ``marked`` are in ink, unless algorithms tell them apart.

    Those in ``published`` places are outlined, and a line below names the ``source`` of their values.
    """
    most = max(row.value for row in rows) or 1.0
    names = [row.name for row in rows]
    widths = [_LETTER * len(name) * (_BOLD if i in marked else 1) for i, name in enumerate(names)]
    left = min(16 + max(widths), _MOST_NAME)
    room = _WIDTH - left - 10 - _VALUE_ROOM

    shown = shown_values([row.value for row in rows], unit)
    begins = [bool(row.group) for row in rows[:1]]  # whether a group begins with this bar
    begins += [bool(row.group) and row.group != before.group for before, row in pairwise(rows)]
    # Many bars are closer together, so that the picture is not too high.
    groups = sum(begins)
    heads_and_gaps = groups * _HEAD + max(0, groups - 1) * _APART
    distance = min(_ROW, max(_LEAST_ROW, (_HIGHEST - _TOP - heads_and_gaps) / len(rows)))
    bar = _BAR / _ROW * distance

    y = []
    heads: list[tuple[float, str]] = []
    at = _TOP
    for i, row in enumerate(rows):
        if begins[i]:
            at += _APART if i else 0.0
            heads.append((at, row.group))
            at += _HEAD
        y.append(at)
        at += distance
    middles = np.array(y)
    values = np.array([row.value for row in rows])
    lengths = np.where(values > 0, np.maximum(room * values / most, _LEAST), 0.0)
    bold = np.array([float(i in marked) for i in range(len(rows))])
    words = np.where(bold > 0, COLOUR["ink"], COLOUR["soft"])
    is_open = np.isin(np.arange(len(rows)), list(published))
    fills, edges = _looks(rows, bold, is_open)
    layers: dict[str, Layer] = {
        "names": texts(left, middles, names, align=2.0, bold=bold, colour=words),
        "bars": boxes(
            left + 10,
            middles - bar / 2,
            lengths,
            bar,
            colour=fills,
            edge=edges,
            round=2.0,
            names=names,
            notes=_notes(shown, is_open),
        ),
        "values": texts(left + 10 + lengths + 8, middles, shown, bold=bold),
        "groups": texts(
            16.0,
            np.array([place for place, _ in heads]),
            [head for _, head in heads],
            bold=1.0,
            size=13.0,
        ),
    }
    said = _said(rows, unit)
    return Scene(
        said,
        _table(rows, unit, marked, is_open),
        layers,
        at,
        said,
        caption=caption,
        hint=_outlines_in_words(short_source(source)) if is_open.any() else "",
        width=_WIDTH,
    )


def _outlines_in_words(source: str) -> str:
    """Return what the outlines mean, with the source of the published values if it is told."""
    return text("bars.published_by", source=source) if source else text("bars.published")


class Widest(NamedTuple):
    """The group whose bars differ most."""

    group: str
    ratio: float  # longest to shortest bar


def _widest(rows: list[Bar]) -> Widest:
    """Return the group in which the bars differ most, and by which factor."""
    widest = Widest("", 0.0)
    for group, places in _groups(rows).items():
        values = [rows[i].value for i in places]
        ratio = max(values) / min(values) if min(values) else math.inf
        if ratio > widest.ratio:
            widest = Widest(group, ratio)
    return widest


def _said(rows: list[Bar], unit: str) -> str:
    """Return the sentence above the picture, about the group in which the bars differ most."""
    widest, ratio = _widest(rows)
    places = _groups(rows)[widest]
    shown = shown_values([row.value for row in rows], unit)
    low_at = min(places, key=lambda i: rows[i].value)
    high_at = max(places, key=lambda i: rows[i].value)
    least, longest = rows[low_at], rows[high_at]
    low, high = shown[low_at], shown[high_at]
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


class Looks(NamedTuple):
    """How bars are drawn, as colours in `PALETTE`."""

    fills: Floats  # (B,) -1: none
    edges: Floats  # (B,) 0: none; below: ink


def _looks(rows: list[Bar], bold: Floats, is_open: Flags) -> Looks:
    """Return the hue of each bar's algorithm if hues tell all of them apart; else ink for the bold ones, and grey.

    Open bars have their hue as an outline, and a darker grey, since a thin line of the light one would not be seen.
    """
    hues = np.array([algorithm(row.name).colour for row in rows])
    if np.all(hues != COLOUR["direct"]) and np.ptp(hues) > 0:
        fills = outlines = hues
    else:
        fills = np.where(bold > 0, COLOUR["ink"], COLOUR["hair"])
        outlines = np.where(bold > 0, COLOUR["ink"], COLOUR["edge"])
    return Looks(
        np.where(is_open, COLOUR["none"], fills), np.where(is_open, outlines, COLOUR["none"])
    )


def _notes(shown: list[str], is_open: Flags) -> list[str]:
    """Return the note of each bar: its value, and whether it is published."""
    published = text("how.published")
    return [
        f"{value}, {published}" if open_ else value
        for value, open_ in zip(shown, is_open, strict=True)
    ]


def _table(rows: list[Bar], unit: str, marked: set[int], is_open: Flags) -> Table:
    """Return the table twin."""
    columns: dict[str, Any] = {}
    if any(row.group for row in rows):
        columns["group"] = [row.group for row in rows]
    columns["what"] = [row.name for row in rows]
    kind = {"s": "time", "B/s": "rate", "B": "size"}.get(unit, "number")
    values = np.array([row.value for row in rows])
    head = f"{kind} [{unit}]" if unit else kind
    columns[head] = values
    if is_open.any():
        columns["how"] = np.where(is_open, text("how.published"), "")
    return Table(columns, tuple(sorted(marked)), apart=(head,) if unit == "s" else ())
