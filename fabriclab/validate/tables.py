"""Errors of a model on published sweeps, by regime."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fabriclab.catalog import published
from fabriclab.core.result import Result
from fabriclab.validate.model import predict

__all__ = ["CAP", "REGIMES", "ErrorTable", "Model", "Rows", "errors", "regimes", "table"]

Model = Callable[[dict[str, Any], float], float | None]
REGIMES: Final = ("lat", "mid", "bw")
CAP: Final = 1e9  # stands for the infinite error of a missing prediction, so that quantiles stay defined


def regimes(result: Result) -> NDArray[np.str_]:
    """Return the regime of each size: ``bw``, ``lat`` or ``mid``, shape (K,).

    ``bw`` has at least half of the sweep's highest bandwidth; ``lat`` takes less than twice the
    shortest time of a sweep that begins at 64 KiB or less; the rest is ``mid``.
    """
    fast = result.algbw >= 0.5 * result.algbw.max()
    short = (result.time < 2 * result.time.min()) & (result.size.min() <= 2**16)
    return np.where(fast, "bw", np.where(short, "lat", "mid"))


@dataclass(frozen=True)
class Rows:
    """Rows that show themselves as text and as HTML."""

    rows: tuple[dict[str, Any], ...]

    def _cells(self) -> list[list[str]]:
        return [list(self.rows[0]), *([_show(cell) for cell in row.values()] for row in self.rows)]

    def __str__(self) -> str:
        """Return the table as text."""
        width = [max(map(len, column)) for column in zip(*self._cells(), strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, width)).rstrip() for row in self._cells())

    def _repr_html_(self) -> str:
        rows = ("".join(f"<td>{html.escape(cell)}" for cell in row) for row in self._cells())
        return f"<table><tr>{'<tr>'.join(rows)}</table>"


@dataclass(frozen=True)
class ErrorTable(Rows):
    """Error of a model on published sweeps: median and 90th percentile of |predicted / measured - 1|.

    Parameters
    ----------
    rows : tuple of dict
        One per sweep: sweep, collective, ranks, cover (share of sizes with a prediction) and, for each
        regime, ``lat``, ``lat_p90`` and so on; NaN where a sweep has no size in it.
    """

    def median(self, regime: str) -> float:
        """Return the median over sweeps of their median error in a regime."""
        return float(np.nanmedian([r[regime] for r in self.rows]))

    def _cells(self) -> list[list[str]]:
        last = {"sweep": "median of sweeps"} | {g: self.median(g) for g in REGIMES}
        return [*super()._cells(), [_show(last.get(key, "")) for key in self.rows[0]]]

    def __repr__(self) -> str:
        """Show the medians."""
        return f"<ErrorTable of {len(self.rows)} sweeps: {', '.join(f'{g} {self.median(g):.0%}' for g in REGIMES)}>"


def _show(cell: Any) -> str:
    if not isinstance(cell, float):
        return str(cell)
    return "" if np.isnan(cell) else "none" if cell >= CAP else f"{cell:.0%}"


def table(model: Model = predict) -> ErrorTable:
    """Return the error of a model on every published sweep.

    Parameters
    ----------
    model : callable
        Takes a row of `catalog.published.systems` and a size [B], returns microseconds or None.

    Raises
    ------
    TypeError
        If ``model`` is no function.
    """
    if not callable(model):
        msg = f"model must be a function of a sweep and a size, such as validate.predict, got {model!r}"
        raise TypeError(msg)
    return ErrorTable(tuple(_of_sweep(model, about) for about in published.systems()))


def errors(model: Model, about: dict[str, Any]) -> tuple[Result, NDArray[np.float64]]:
    """Return a published sweep and |predicted / measured - 1| of each size, 1e9 where there is no prediction, (K,)."""
    result = published.load(about["sweep_id"])
    guess = np.array([model(about, size) for size in result.size], dtype=float)  # None becomes NaN
    usable = np.isfinite(guess) & (guess > 0)
    return result, np.where(usable, np.abs(guess * 1e-6 / result.time - 1), CAP)


def _of_sweep(model: Model, about: dict[str, Any]) -> dict[str, Any]:
    result, error = errors(model, about)
    row = {"sweep": about["sweep_id"], "collective": result.what, "ranks": result.n_ranks}
    row["cover"] = float(np.mean(error < CAP))
    for g in REGIMES:
        mine = error[regimes(result) == g]
        row[g], row[f"{g}_p90"] = np.quantile(mine, (0.5, 0.9)).tolist() if mine.size else (np.nan, np.nan)
    return row
