"""The picture and what belongs to it: the finding above it, alternative text, table twin, colours of the theme.

A table shows numbers right-aligned with three significant digits, and units in the head; it has at most seven columns.

matplotlib draws in the colours of the light theme; an SVG on a page writes each of them as a variable that the page
sets to the colour of its theme, and text as ``currentColor``.
"""

import html
import io
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import Floats, Result
from fabriclab.look import PALETTE, ROLES, both_themes, halves, variables
from fabriclab.texts import switched_on, text, unbroken, wrapped

__all__ = [
    "HERE",
    "INK",
    "ROLES",
    "STYLE",
    "Axes",
    "Picture",
    "Table",
    "both_themes",
    "halves",
    "plain",
    "printed_hex",
    "spread",
    "styled",
    "table",
    "three",
    "times",
]

_FAR = 1e3  # if medians of columns differ by this factor, each column has its own prefix
# Units that stay as they are: those with a prefix in their column's name, and degrees, which take none.
_AS_NAMED = ("kB", "MB", "GB", "TB", "PB", "deg C", "us", "µs")
_WITHOUT_PREFIX = 0.1  # [s] so "0.700 s" stands beside "2.10 s"; shorter times get a prefix
_MOST_COLUMNS = 7
_ON_A_LINE = 60  # letters of the caption of a table that is not broken
_MOST_ROWS = 128
_NUMBER = re.compile(r"[-\N{MINUS SIGN}+]?\d[\d,_]*(\.\d+)?(e[-+]?\d+)?")
_RESULT_UNITS = {"size": "B", "time": "s", "low": "s", "high": "s", "algbw": "B/s", "busbw": "B/s"}
_NAME = re.compile(r"(.*?)\s*(?:\[(.+)\])?\Z")


def three(value: float) -> str:
    """Format a number with three significant digits and grouped thousands, such as "40,900"; NaN becomes a dash."""
    if math.isnan(value):
        return "–"
    if not 1e-9 <= abs(value) < 1e15:
        return f"{value:.3g}"
    rounded = float(f"{value:.2e}")
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}"


class TableText(NamedTuple):
    """The visible text of a table."""

    rows: list[tuple[str, ...]]  # the heads, then the first rows
    numeric: list[bool]  # whether a column holds numbers
    left_out: str  # how many rows are not shown, in words; empty if none


class Heading(NamedTuple):
    """The name of a column, split into its word and the unit of its numbers, if it has one."""

    word: str
    unit: str | None


def _heading(name: str) -> Heading:
    """Split a name such as "time [s]" into word and unit."""
    match = _NAME.fullmatch(name)
    assert match is not None  # the pattern fits every text
    return Heading(match[1], match[2])


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, with the important rows in bold and a caption; made by `table`.

    A column name such as ``"time [s]"`` gives the SI unit of its numbers. Sizes in bytes are shown as "8 B" or "1 MiB".
    A column in "MB", "GB" or the like, or in "deg C", keeps that unit. One in another unit gets one prefix for all its
    numbers, except that each time in a column named in ``apart`` has its own. ``table["time [s]"]`` is the column with
    its full precision. A column without any value is left out.
    """

    columns: Mapping[str, Any]
    bold: tuple[int, ...] = ()
    caption: str = ""
    apart: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Convert the columns to arrays, leave out those without any value, and check their number and length."""
        columns = {}
        for name, values in self.columns.items():
            column = np.asarray(values)
            if column.dtype.kind != "f" or not np.isnan(column).all():
                columns[name] = column
        object.__setattr__(self, "columns", columns)

        lengths = sorted({column.size for column in columns.values()})
        if not any(lengths):
            raise ValueError("table has nothing to show: it needs at least one column and one row")
        if len(lengths) > 1:
            raise ValueError(f"table needs columns of one length, got {lengths}")
        units.count(len(columns), f"number of columns ({', '.join(columns)})", 1, _MOST_COLUMNS)
        object.__setattr__(self, "bold", tuple(b % self.n_rows for b in self.bold))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(next(iter(self.columns.values())).size)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return one column, in SI units and with its full precision."""
        return np.asarray(self.columns[name])

    def _shown(self) -> TableText:
        """Return the cells of the first 128 rows as texts, and how many rows are not shown."""
        typical = _typical(self.columns)
        columns = []
        for name, values in self.columns.items():
            first = values[:_MOST_ROWS]
            if name in self.apart:
                columns.append(_times_column(name, first))
            else:
                columns.append(_column(name, first, typical.get(name, 0.0)))

        left_out = ""
        if self.n_rows > _MOST_ROWS:
            example = repr(next(iter(self.columns)))
            left_out = text("table.more", n=self.n_rows - _MOST_ROWS, name=example)
        return TableText(
            rows=list(zip(*columns, strict=True)),
            numeric=[_are_numbers(values) for values in self.columns.values()],
            left_out=left_out,
        )

    def __str__(self) -> str:
        """Return the table as text; an important row begins with ``>``."""
        rows, numeric, left_out = self._shown()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for i, row in enumerate(rows):
            cells = []
            for cell, width, is_number in zip(row, widths, numeric, strict=True):
                cells.append(cell.rjust(width) if is_number else cell.ljust(width))
            mark = ""
            if self.bold:
                mark = "> " if i - 1 in self.bold else "  "
            lines.append(mark + "  ".join(cells).rstrip())
        return "\n".join(filter(None, [self.caption, *lines, left_out]))

    def __repr__(self) -> str:
        """Show columns and number of rows in one line."""
        return f"<Table of {self.n_rows} rows: {', '.join(self.columns)}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the table as text for a terminal and as HTML for a notebook."""
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        """Return the table as HTML, with the important rows in bold."""
        rows, numeric, left_out = self._shown()
        sides = ["right" if is_number else "left" for is_number in numeric]
        head, *body = rows
        lines = [_html_row(row, sides, bold=i in self.bold) for i, row in enumerate(body)]
        caption = _html_caption(self.caption) if self.caption else ""
        below = f"<p>{_as_html(left_out)}</p>" if left_out else ""
        return (
            f"<table>{caption}"
            f"<thead>{_html_row(head, sides, head=True)}</thead>"
            f"<tbody>{''.join(lines)}</tbody></table>{below}"
        )


def _as_html(words: str) -> str:
    """Return a sentence as HTML, in which no line breaks between a number and its unit."""
    return html.escape(unbroken(words))


def _html_caption(caption: str) -> str:
    """Return the caption of a table as HTML; a short one is on one line, even if the table is narrow."""
    short = ";white-space:nowrap" if len(caption) <= _ON_A_LINE else ""
    return f"<caption style='text-align:left{short}'>{_as_html(caption)}</caption>"


def _html_row(
    row: Iterable[str], sides: Iterable[str], *, bold: bool = False, head: bool = False
) -> str:
    """Return a row of a table as HTML, each cell aligned to the side given for its column."""
    tag, scope = ("th", ' scope="col"') if head else ("td", "")
    cells = []
    for cell, side in zip(row, sides, strict=True):
        cells.append(f"<{tag}{scope} style='text-align:{side}'>{html.escape(cell)}</{tag}>")
    look = " style='font-weight:bold'" if bold else ""
    return f"<tr{look}>{''.join(cells)}</tr>"


def _are_numbers(values: NDArray[Any]) -> bool:
    """Return whether a column is one of numbers, which stand on the right, also if they are written as text."""
    if values.dtype.kind not in "OU":
        return True
    return values.size > 0 and all(_NUMBER.fullmatch(str(value)) for value in values)


def _typical(columns: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Return for each column the number that sets its prefix.

    It is the same for all columns with the same unit, unless their medians differ by a factor of 1,000 or more.
    """
    medians: dict[str, dict[str, float]] = {}  # unit -> column -> its median
    for name, values in columns.items():
        unit = _heading(name).unit
        if not unit or values.dtype.kind != "f":
            continue
        sizes = np.abs(values[np.isfinite(values) & (values != 0)])
        if sizes.size:
            medians.setdefault(unit, {})[name] = float(np.median(sizes))

    out: dict[str, float] = {}
    for of_column in medians.values():
        out |= of_column
        if max(of_column.values()) / min(of_column.values()) < _FAR:
            out |= dict.fromkeys(of_column, float(np.median([*of_column.values()])))
    return out


def _column(name: str, values: NDArray[Any], typical: float) -> list[str]:
    """Return the head of a column with its unit as shown, then the cells."""
    word, unit = _heading(name)
    if unit is not None:
        name = name.replace(f"[{unit}]", f"[{units.printed(unit)}]")
    if values.dtype.kind in "OU":
        return [name, *map(str, values)]
    if unit == "B":
        return [word, *(units.format_size(float(v)) for v in values)]
    if values.dtype.kind in "iub":
        return [name, *(f"{int(v):,}" for v in values)]
    factor = 1.0  # from SI to the shown unit
    if unit is not None and typical and unit not in _AS_NAMED:
        number, prefix = units.scale(typical)
        name = f"{word} [{prefix}{unit}]"
        factor = typical / number
    return [name, *(three(float(v) / factor) for v in values)]


def _times_column(name: str, values: NDArray[Any]) -> list[str]:
    """Return the head of a column of times without a unit, then each time with its own."""
    return [_heading(name).word, *map(_own_unit, values.tolist())]


def _own_unit(seconds: float) -> str:
    """Format a time with three significant digits: in seconds from 0.1 s on, and with a prefix below."""
    if math.isnan(seconds):
        return "–"
    return f"{three(seconds)} s" if seconds >= _WITHOUT_PREFIX else units.format_time(seconds)


def table(value: Any, *, bold: int | Iterable[int] = (), caption: str = "") -> Table:
    """Show a value or rows as a table; beyond 128 rows, it only says how many more there are.

    Parameters
    ----------
    value : Result, Fabric, mapping, or sequence of mappings
        A mapping gives columns by name; a sequence gives rows. A name such as ``"time [s]"`` gives the SI unit.
    bold, caption : optional
        Number of the row or rows to show in bold; a sentence on what the table says.

    Raises
    ------
    ValueError
        If the table is empty, ragged or wider than seven columns.

    Examples
    --------
    >>> print(table([{"link": "NIC", "rate [B/s]": 50e9}, {"link": "NVLink 4", "rate [B/s]": 450e9}], bold=1))
      link      rate [GB/s]
      NIC              50.0
    > NVLink 4          450
    """
    return Table(_columns_of(value), bold=_row_numbers(bold), caption=caption)


def _columns_of(value: Any) -> Mapping[str, Any]:
    """Return the columns of a result, of an object with a summary, of a mapping of columns, or of rows."""
    if isinstance(value, Result):
        columns = {}
        for name, unit in _RESULT_UNITS.items():
            column = getattr(value, name)
            if column is not None:
                columns[f"{name} [{unit}]"] = column
        return columns
    if hasattr(value, "summary"):
        summary = value.summary()
        return {"what": [*summary], "number": [*summary.values()]}
    if isinstance(value, Mapping):
        return value
    rows = list(value)
    names = dict.fromkeys(name for row in rows for name in row)  # each once, in order
    return {name: [row.get(name, math.nan) for row in rows] for name in names}


def _row_numbers(bold: int | Iterable[int]) -> tuple[int, ...]:
    """Return the numbers of the rows in bold as a tuple."""
    return (bold,) if isinstance(bold, int) else tuple(bold)


def times(
    named: Mapping[str, units.Quantity],
    *,
    ratio: bool = False,
    bold: int | Iterable[int] = (),
    caption: str = "",
) -> Table:
    """Show named times as a table, each with its own unit, such as 89.6 s beside 351 µs.

    Parameters
    ----------
    named : mapping of str to float or str
        What took the time -> how long it took: seconds as a number, or a string such as ``"5.83 ms"``. At least one
        entry, each >= 0.
    ratio : bool
        Whether to add a column that gives each time as a multiple of the shortest.
    bold, caption : optional
        As in `table`.

    Returns
    -------
    Table
        ``times(...)["time [s]"]`` is the column in seconds, in the given order.

    Raises
    ------
    TypeError
        If ``named`` is not a mapping, or one of its values is no time.
    ValueError
        If ``named`` is empty, a time is below 0 or not finite, or ``ratio`` is asked for and the shortest time is 0 s.

    Examples
    --------
    >>> print(times({"one root": 89.6, "ring": 0.7003, "waiting": "351 us"}))
    what         time
    one root   89.6 s
    ring      0.700 s
    waiting    351 µs
    """
    if not isinstance(named, Mapping):
        raise TypeError(
            f'times needs names with times, such as {{"ring": 0.7, "tree": "9.4 ms"}}, got {named!r:.60}'
        )
    if not named:
        raise ValueError(
            'times needs at least one name with its time, such as {"ring": 0.7}, got none'
        )
    seconds = np.array([units.time(value, f"time of {name!r}") for name, value in named.items()])
    columns: dict[str, Any] = {"what": [str(name) for name in named], "time [s]": seconds}
    if ratio:
        if not seconds.min():
            shortest = columns["what"][int(seconds.argmin())]
            raise ValueError(
                f"ratio needs times above 0 s, got {shortest!r} with 0 s; leave that one out, or write ratio=False"
            )
        columns["times the shortest"] = seconds / seconds.min()
    return Table(columns, _row_numbers(bold), caption, apart=("time [s]",))


# Pictures -----------------------------------------------------------------------------------------


def _printed_hexes() -> tuple[str, ...]:
    """Return a different colour for each place of the palette: its light one, moved by a hair where two are equal.

    So each colour of a drawing says which place it came from, and a page can give it the colour of its theme.
    """
    hexes: dict[str, None] = {}
    for hues in PALETTE:
        number = int(hues.light[1:], 16)
        while f"#{number:06x}" in hexes:
            number += 1 if number & 0xFF < 0x80 else -1
        hexes[f"#{number:06x}"] = None
    return tuple(hexes)


_PRINTED = _printed_hexes()
_PLACE = {hexadecimal: place for place, hexadecimal in enumerate(_PRINTED)}
INK = _PRINTED[0]  # text, which takes the colour of the page around it
HERE = {"measured": "measured here", "stored": "measured elsewhere"}


def printed_hex(place: int) -> str:
    """Return the colour of a place in the palette as drawings have it, which a page replaces by that of its theme."""
    return _PRINTED[place]


# Sizes in points: a figure is 7 inches = 504 pt and is shown 700 px wide, so 8.5 pt are 11.8 px.
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": 8.5,
    "text.color": INK,
    "figure.facecolor": "none",
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "fabriclab",
}
# a decorator: all drawing within the function has the look of the course
styled = matplotlib.rc_context(STYLE)
_FONTS = "'DejaVu Sans', 'Verdana', sans-serif"  # as an SVG writes them
_PAGE_FONTS = "system-ui, -apple-system, 'Segoe UI', sans-serif"
_CARD = (Path(__file__).parent / "picture.css").read_text(encoding="utf-8")
_TITLE: dict[str, Any] = {"x": 0.01, "ha": "left", "color": INK, "parse_math": False}


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawing with its words and numbers: a finding above it, alternative text, a table twin, a caption with sources.

    A notebook shows it as SVG in the colours of the theme, with the alternative text for screen readers and the table
    twin to unfold. With ``FABRICLAB_TEXT=1`` a notebook shows finding, table and caption instead.
    """

    axes: Axes
    finding: str
    alt: str
    table: Table
    caption: str = ""

    @property
    def figure(self) -> Figure:
        """The matplotlib figure; it belongs to no window and is freed with this picture."""
        return self.axes.figure.canvas.figure

    @styled
    def svg(self) -> str:
        """Return the drawing as an SVG element in the colours of the theme of the page around it."""
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        self.figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
        svg = buffer.getvalue()
        svg = svg[svg.index("<svg") :]
        # matplotlib's style block would apply to the whole page; as an attribute it applies to this picture only.
        svg = re.sub(r"<style.*?</style>", "", svg, count=1, flags=re.DOTALL)
        # The description says what the picture shows; its labels and ticks, one by one, would only be read after it.
        svg = svg.replace('<g id="figure_1"', '<g aria-hidden="true" id="figure_1"', 1)
        # Ids of groups would occur twice on a page with two pictures, and nothing refers to them.
        svg = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", svg)
        width = self.figure.get_figwidth() * 100  # [px]
        # The style sheet of the card makes a picture larger in a large window, and its texts by so much smaller in it.
        style = f"--fl-wide:{width:.0f}px;max-width:100%;height:auto;stroke-linejoin:round;stroke-linecap:butt"
        size = f'width="{width:.0f}" style="{style}"'
        svg = re.sub(r'width="[^"]*" height="[^"]*"', size, svg, count=1)
        label = f'<svg role="img" aria-label="{html.escape(self.alt)}" '
        svg = svg.replace("<svg ", label, 1).replace(_FONTS, _PAGE_FONTS)
        svg = re.sub(r"font-size: ([\d.]+px)", r"font-size: calc(\1*var(--fl-letters,1))", svg)
        return re.sub(r"#[0-9a-f]{6}\b", _themed, svg)

    @styled
    def save(self, path: str | Path) -> Path:
        """Write the picture as .svg, .pdf or .png (white background, 200 dots per inch) and return the path.

        The finding stands above the drawing, and the caption below it.
        """
        figure = self.figure
        width, height = figure.get_size_inches()
        above = "\n".join(wrapped(self.finding, round(11 * width)))
        below = "\n".join(wrapped(self.caption, round(15 * width)))
        # A long finding or caption makes the figure higher, not the drawing smaller. In inches of 100 px.
        extra = 0.35 + 0.18 * above.count("\n")
        if below:
            extra += 0.15 + 0.15 * (below.count("\n") + 1)
        owned = not self.axes.get_title(loc="left")  # else the figure belongs to somebody else
        if owned:
            figure.set_size_inches(width, height + extra)
            figure.suptitle(above, fontsize=10.0, fontweight="bold", **_TITLE)
            figure.supxlabel(below, fontsize=8.5, fontweight="normal", **_TITLE)
        try:
            figure.savefig(path, dpi=200, facecolor="white", metadata={"Title": self.alt})
        finally:
            if owned:
                figure.suptitle("")
                figure.supxlabel("")
                figure.set_size_inches(width, height)
        return Path(path)

    def __str__(self) -> str:
        """Return the finding, the table and the caption as text."""
        return "\n".join(x for x in (self.finding, str(self.table), self.caption) if x)

    def __repr__(self) -> str:
        """Show the finding in one line."""
        return f"<Picture: {self.finding}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return what a notebook shows: the drawing with its table or, in text mode, the words with the table."""
        table = self.table._repr_html_()
        if switched_on("FABRICLAB_TEXT"):
            shown = f"<p>{_as_html(self.finding)}</p>{table}<p>{_as_html(self.caption)}</p>"
        else:
            shown = self._card(table)
        return {"text/plain": str(self), "text/html": shown}

    def _card(self, table: str) -> str:
        """Return the card that a notebook shows: finding, drawing, caption, and the numbers to unfold."""
        svg = self.svg()
        true, contrast = (_as_html(part) for part in halves(self.finding))
        caption = f"<figcaption>{_as_html(self.caption)}</figcaption>" if self.caption else ""
        return (
            f'<figure class="fl-picture"><style>{_style(svg)}</style>'
            f'<p class="fl-finding">{true} <em>{contrast}</em></p>'
            f'<div class="fl-drawing">{svg}</div>{caption}'
            f"<details><summary>{text('live.word.numbers')}</summary>{table}</details></figure>"
        )

    def standing_alone(self) -> str:
        """Return the drawing as an SVG file of its own, on a card in the colours of the reader's system."""
        svg = self.svg()
        themes = [_colours(svg, theme) for theme in ("light", "dark")]
        style = f"svg{{{themes[0]}}}@media (prefers-color-scheme:dark){{svg{{{themes[1]}}}}}"
        style += "svg{background:var(--fl-paper);color:var(--fl-ink);border-radius:10px}"
        start = svg.index(">") + 1
        head = svg[:start]
        if "xmlns=" not in head:
            head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        return f"{head}<style>{style}</style>{svg[start:]}"


def _themed(match: re.Match[str]) -> str:
    """Return a colour of a drawing as a custom property of CSS, which a page sets to the colour of its theme."""
    place = _PLACE.get(match[0])
    if place is None:
        return match[0]
    return "currentColor" if place == 0 else f"var(--fl{place},{PALETTE[place].light})"


def _colours(svg: str, theme: str) -> str:
    """Return the custom properties that a drawing and its card need in one theme."""
    places = sorted({int(number) for number in re.findall(r"var\(--fl(\d+),", svg)})
    used = "".join(f"--fl{place}:{getattr(PALETTE[place], theme)};" for place in places)
    return variables(theme) + used


def _style(svg: str) -> str:
    """Return the style sheet of a picture: that of the card, and both themes of the colours that the drawing uses."""
    return both_themes(".fl-picture", _colours(svg, "light"), _colours(svg, "dark")) + _CARD


def spread(wanted: ArrayLike, gap: float, low: float = 0.0, high: float = 1.0) -> Floats:
    """Return the positions closest to ``wanted`` (least squares) with at least ``gap`` between neighbours.

    They lie between ``low`` and ``high``; where there is too little room, the last ones go beyond ``high``.
    """
    from scipy.optimize import isotonic_regression

    wish = np.asarray(wanted, dtype=np.float64)
    order = np.argsort(wish, kind="stable")
    offset = gap * np.arange(
        wish.size
    )  # of each position from the first, if all are as close as allowed
    # Neighbours keep their gap exactly if positions minus offsets never decrease.
    level = isotonic_regression(wish[order] - offset).x
    # Labels that need more room than there is go beyond the upper end.
    highest = max(low, high - offset[-1])
    out = np.empty_like(wish)
    out[order] = np.clip(level, low, highest) + offset
    return out


def plain(words: str) -> str:
    """Drop zeros at the end of decimals: "50.0 GB/s" becomes "50 GB/s", and "1.50 ms" becomes "1.5 ms"."""
    return re.sub(r"\.(?:0+|(\d*[1-9])0+)(?= )", lambda m: f".{m[1]}" if m[1] else "", words)
