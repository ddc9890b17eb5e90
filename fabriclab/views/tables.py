"""Tables: numbers right-aligned with three significant digits, units in the head, at most seven columns."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Result

__all__ = ["Table", "table", "three"]

_MOST_COLUMNS: Final = 7
_MOST_ROWS: Final = 64
_RESULT_UNITS: Final = {"size": "B", "time": "s", "low": "s", "high": "s", "algbw": "B/s", "busbw": "B/s"}
_NAME: Final = re.compile(r"(.*?)\s*(?:\[(.+)\])?\Z")


def three(value: float) -> str:
    """Return a number with three significant digits and grouped thousands; missing is a dash.

    Examples
    --------
    >>> three(0.00012345), three(40890.0), three(7)
    ('0.000123', '40,900', '7.00')
    """
    if math.isnan(value):
        return "–"
    if value == 0 or math.isinf(value) or not 1e-9 <= abs(value) < 1e15:
        return f"{value:.3g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name; a name such as ``"time [s]"`` carries the SI unit of its numbers.

    Sizes in bytes are shown as "8 B" or "1 MiB", other units get one prefix for the whole column. ``table["time [s]"]``
    is the column with its full precision. Beyond 64 rows the display says how many more there are.

    Parameters
    ----------
    columns : mapping of str to array or list of str
        The columns, equally long.
    bold : tuple of int
        Rows that matter.
    caption : str
        What the table says.

    Raises
    ------
    ValueError
        If the table is empty, ragged or wider than seven columns.
    """

    columns: Mapping[str, Any]
    bold: tuple[int, ...] = ()
    caption: str = ""

    def __post_init__(self) -> None:
        """Make arrays of the columns and check their number and length."""
        object.__setattr__(self, "columns", {k: np.asarray(v) for k, v in self.columns.items()})
        lengths = {v.size for v in self.columns.values()}
        if not lengths or lengths == {0}:
            msg = "table has nothing to show: it needs at least one column and one row"
            raise ValueError(msg)
        if len(lengths) > 1:
            msg = f"table needs columns of one length, got {sorted(lengths)}"
            raise ValueError(msg)
        if len(self.columns) > _MOST_COLUMNS:
            few = tuple(self.columns)[:3]
            msg = f"table must have at most {_MOST_COLUMNS} columns, got {len(self.columns)}; name some: columns={few}"
            raise ValueError(msg)
        object.__setattr__(self, "bold", tuple(b % self.n_rows for b in self.bold))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(next(iter(self.columns.values())).size)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return one column in SI units."""
        column: NDArray[Any] = self.columns[name]
        return column

    def _cells(self) -> tuple[list[str], list[list[str]], list[bool]]:
        """Return heads, cells by column and whether each column holds numbers."""
        shown = [_column(name, values[:_MOST_ROWS]) for name, values in self.columns.items()]
        return [s[0] for s in shown], [s[1] for s in shown], [v.dtype.kind not in "OU" for v in self.columns.values()]

    def _rest(self) -> str:
        left = self.n_rows - _MOST_ROWS
        return f"and {left:,} rows more; table[{next(iter(self.columns))!r}] holds all" if left > 0 else ""

    def __str__(self) -> str:
        """Return the table as text; a row that matters begins with ``>``."""
        heads, columns, numeric = self._cells()
        widths = [max(len(h), *map(len, c)) for h, c in zip(heads, columns, strict=True)]
        mark = [("> " if i in self.bold else "  ") if self.bold else "" for i in range(len(columns[0]))]
        rows = [("  " if self.bold else "", heads), *zip(mark, zip(*columns, strict=True), strict=True)]
        lines = [
            m + "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in zip(r, widths, numeric, strict=True)).rstrip()
            for m, r in rows
        ]
        return "\n".join(x for x in (self.caption, *lines, self._rest()) if x)

    def __repr__(self) -> str:
        """Show columns and number of rows in one line."""
        return f"<Table of {self.n_rows} rows: {', '.join(self.columns)}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return what a notebook or a terminal shows."""
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        heads, columns, numeric = self._cells()
        side = [f" style='text-align:{('left', 'right')[n]}'" for n in numeric]
        head = "".join(f'<th scope="col"{s}>{html.escape(h)}</th>' for h, s in zip(heads, side, strict=True))
        body = "".join(
            ("<tr style='font-weight:bold'>" if i in self.bold else "<tr>")
            + "".join(f"<td{s}>{html.escape(c)}</td>" for c, s in zip(row, side, strict=True)) + "</tr>"
            for i, row in enumerate(zip(*columns, strict=True))
        )  # fmt: skip
        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        rest = f"<p>{html.escape(self._rest())}</p>" if self._rest() else ""
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _column(name: str, values: NDArray[Any]) -> tuple[str, list[str]]:
    """Return the head with the shown unit, and the cells."""
    word, unit = _NAME.fullmatch(name).groups()  # type: ignore[union-attr]
    if values.dtype.kind in "OU":
        return name, [str(v) for v in values]
    if unit == "B":
        return word, [units.format_size(float(v)) for v in values]
    if values.dtype.kind in "iub":
        return name, [f"{int(v):,}" for v in values]
    if unit is None:
        return name, [three(float(v)) for v in values]
    size = np.abs(values[np.isfinite(values) & (values != 0)])
    number, prefix = units.scale(float(np.median(size))) if size.size else (1.0, "")
    factor = float(np.median(size)) / number if size.size else 1.0
    return f"{word} [{prefix}{unit}]", [three(float(v) / factor) for v in values]


def table(
    value: Any, *, columns: Sequence[str] | None = None, bold: int | Iterable[int] = (), caption: str = ""
) -> Table:
    """Show a value or rows as a table.

    Parameters
    ----------
    value : Result, Fabric, mapping, or sequence of mappings
        A mapping gives columns by name; a sequence gives rows. A name such as ``"time [s]"`` carries the SI unit.
    columns : sequence of str, optional
        Columns to show, in this order; all where left out.
    bold : int or iterable of int
        Rows that matter.
    caption : str
        What the table says.

    Returns
    -------
    Table
        With a text form, an HTML form, and the columns in SI units.

    Raises
    ------
    ValueError
        If a column is unknown, or there is nothing to show.

    Examples
    --------
    >>> print(table([{"link": "NIC", "rate [B/s]": 50e9}, {"link": "NVLink 4", "rate [B/s]": 450e9}], bold=1))
      link      rate [GB/s]
      NIC              50.0
    > NVLink 4          450
    """
    if isinstance(value, Result):
        value = [{f"{k} [{_RESULT_UNITS[k]}]": v for k, v in row.items()} for row in value.rows()]
    elif hasattr(value, "summary"):
        counts = value.summary()
        value = {"what": list(counts), "number": list(counts.values())}
    if not isinstance(value, Mapping):
        rows = list(value)
        value = {k: [r.get(k, math.nan) for r in rows] for k in dict.fromkeys(k for r in rows for k in r)}
    for name in columns or ():
        if name not in value:
            msg = f"columns must be among {', '.join(map(repr, value))}, got {name!r}"
            raise ValueError(msg)
    marked = (bold,) if isinstance(bold, int) else tuple(bold)
    return Table({k: value[k] for k in columns or value}, bold=marked, caption=caption)
