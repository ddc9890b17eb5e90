"""Tables: numbers right-aligned with three significant digits, units in the head, at most seven columns."""

import html
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Result
from fabriclab.texts import text

_FAR = 1e3  # medians of columns further apart have a prefix each
_MOST_COLUMNS = 7
_MOST_ROWS = 64
_RESULT_UNITS = {"size": "B", "time": "s", "low": "s", "high": "s", "algbw": "B/s", "busbw": "B/s"}
_NAME = re.compile(r"(.*?)\s*(?:\[(.+)\])?\Z")


def three(value: float) -> str:
    """Return three significant digits and grouped thousands, such as "40,900"; missing is a dash."""
    if math.isnan(value):
        return "–"
    if not 1e-9 <= abs(value) < 1e15:
        return f"{value:.3g}"
    rounded = float(f"{value:.2e}")
    return f"{rounded:,.{max(0, 2 - math.floor(math.log10(abs(rounded))))}f}"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, rows that matter in bold, and a caption; `table` makes it.

    A name such as ``"time [s]"`` carries the SI unit of its numbers. Sizes in bytes are shown as "8 B" or "1 MiB",
    other units get one prefix for the whole column. ``table["time [s]"]`` is the column with its full precision.
    A column without any value is left out.
    """

    columns: Mapping[str, Any]
    bold: tuple[int, ...] = ()
    caption: str = ""

    def __post_init__(self) -> None:
        """Make arrays of the columns, check their number and length, and leave out those without any value."""
        columns = {k: np.asarray(v) for k, v in self.columns.items()}
        columns = {k: v for k, v in columns.items() if v.dtype.kind != "f" or not np.isnan(v).all()}
        object.__setattr__(self, "columns", columns)
        lengths = sorted({v.size for v in columns.values()})
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
        """Return one column in SI units."""
        return np.asarray(self.columns[name])

    def _shown(self) -> tuple[list[tuple[str, ...]], list[bool], str]:
        """Return the rows of cells, the heads first, whether a column holds numbers, and what is left out."""
        typical = _typical(self.columns)
        shown = [_column(name, values[:_MOST_ROWS], typical.get(name, 0.0)) for name, values in self.columns.items()]
        left = self.n_rows - _MOST_ROWS
        rest = text("table.more", n=f"{left:,}", name=repr(next(iter(self.columns)))) if left > 0 else ""
        return list(zip(*shown, strict=True)), [v.dtype.kind not in "OU" for v in self.columns.values()], rest

    def __str__(self) -> str:
        """Return the table as text; a row that matters begins with ``>``."""
        rows, numeric, rest = self._shown()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for i, row in enumerate(rows):
            cells = [c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True)]
            mark = ("> " if i - 1 in self.bold else "  ") if self.bold else ""
            lines.append(mark + "  ".join(cells).rstrip())
        return "\n".join(x for x in (self.caption, *lines, rest) if x)

    def __repr__(self) -> str:
        """Show columns and number of rows in one line."""
        return f"<Table of {self.n_rows} rows: {', '.join(self.columns)}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return what a notebook or a terminal shows."""
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        rows, numeric, rest = self._shown()
        lines = []
        for i, row in enumerate(rows):
            tag, look = "td" if i else 'th scope="col"', " style='font-weight:bold'" if i - 1 in self.bold else ""
            sides = zip(row, np.where(numeric, "right", "left"), strict=True)
            cells = [f"<{tag} style='text-align:{side}'>{html.escape(cell)}</{tag[:2]}>" for cell, side in sides]
            lines.append(f"<tr{look}>{''.join(cells)}</tr>")
        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        below = f"<p>{html.escape(rest)}</p>" if rest else ""
        return f"<table>{caption}<thead>{lines[0]}</thead><tbody>{''.join(lines[1:])}</tbody></table>{below}"


def _typical(columns: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Return the number that sets the prefix of each column: one for all of a unit, unless they are far apart."""
    own: dict[str, dict[str, float]] = {}
    for name, values in columns.items():
        size = np.abs(values[np.isfinite(values) & (values != 0)]) if values.dtype.kind == "f" else np.zeros(0)
        if (unit := _NAME.fullmatch(name).groups()[1]) and size.size:  # type: ignore[union-attr]
            own.setdefault(unit, {})[name] = float(np.median(size))
    shared = {unit: max(m.values()) / min(m.values()) < _FAR for unit, m in own.items()}
    return {n: float(np.median([*m.values()])) if shared[unit] else v for unit, m in own.items() for n, v in m.items()}


def _column(name: str, values: NDArray[Any], typical: float) -> list[str]:
    """Return the head with the shown unit, then the cells."""
    word, unit = _NAME.fullmatch(name).groups()  # type: ignore[union-attr]
    if values.dtype.kind in "OU":
        return [name, *map(str, values)]
    if unit == "B":
        return [word, *(units.format_size(float(v)) for v in values)]
    if values.dtype.kind in "iub":
        return [name, *(f"{int(v):,}" for v in values)]
    factor = 1.0
    if unit is not None and typical:
        number, prefix = units.scale(typical)
        name, factor = f"{word} [{prefix}{unit}]", typical / number
    return [name, *(three(float(v) / factor) for v in values)]


def table(value: Any, *, bold: int | Iterable[int] = (), caption: str = "") -> Table:
    """Show a value or rows as a table; beyond 64 rows it says how many more there are.

    Parameters
    ----------
    value : Result, Fabric, mapping, or sequence of mappings
        A mapping gives columns by name; a sequence gives rows. A name such as ``"time [s]"`` carries the SI unit.
    bold, caption : optional
        Row or rows that matter; what the table says.

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
    if isinstance(value, Result):
        given = ((f"{name} [{unit}]", getattr(value, name)) for name, unit in _RESULT_UNITS.items())
        value = {name: column for name, column in given if column is not None}
    elif hasattr(value, "summary"):
        value = {"what": [*value.summary()], "number": [*value.summary().values()]}
    if not isinstance(value, Mapping):
        rows = list(value)
        value = {k: [r.get(k, math.nan) for r in rows] for k in dict.fromkeys(k for r in rows for k in r)}
    return Table(value, bold=(bold,) if isinstance(bold, int) else tuple(bold), caption=caption)
