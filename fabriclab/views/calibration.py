"""Calibration: each guess divided by what came out, so that all units share one picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.texts import text
from fabriclab.views.page import Picture, canvas, finish, styled, ticks
from fabriclab.views.palette import GREY, INK, ROLES
from fabriclab.views.tables import Table, three


@styled
def calibration(
    names: Sequence[str], ratio: ArrayLike, low: ArrayLike, high: ArrayLike, *, finding: str | None = None
) -> Picture:
    """Draw a row per guess, the first on top: a dot for the guess, a bar for its range, a line where the truth is.

    Parameters
    ----------
    names : sequence of str
        What was guessed. (N,)
    ratio, low, high : array_like
        Best guess and ends of its range, divided by what came out; NaN for an end that was not given. (N,) [> 0]
    finding : str, optional
        The sentence above the picture.

    Raises
    ------
    ValueError
        If there is nothing to draw, or a number is not finite and above 0.
    """
    values = np.array([ratio, low, high], dtype=np.float64)  # (3, N)
    given = values[np.isfinite(values)]
    if values.shape != (3, len(names)) or not np.isfinite(values[0]).all() or not given.size or given.min() <= 0:
        msg = f"ratio, low and high must hold one number above 0 for each of {list(names)}, got {values.tolist()}"
        raise ValueError(msg)
    ax = canvas(None, 1.35 + 0.27 * len(names))
    ax.axvspan(0.5, 2.0, color=GREY, alpha=0.15, lw=0)
    ax.axvline(1.0, color=INK, lw=1.5)
    ax.annotate(text("progress.band"), (1, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom")
    ax.set(xscale="log", xlim=(min(0.2, given.min()) / 2, max(5.0, given.max()) * 3), ylim=(len(names) - 0.4, -0.6))
    ax.set_yticks(range(len(names)), names, fontsize=9, parse_math=False)
    ax.tick_params(axis="y", length=0)
    span = np.log10(max(5.0, given.max()) / min(0.2, given.min())) + 1
    ticks(ax.xaxis, 10.0 ** np.arange(-12, 13, 1 + int(span / 8)), lambda t: f"{t:g}")
    ax.set_xlabel(text("progress.guesses"), loc="right")
    ax.grid(axis="x")
    for row, (best, start, end) in enumerate(values.T):
        ax.hlines(row, start, end, color=ROLES["guess"].colour, lw=7.0, alpha=0.4)
        ax.plot(best, row, "o", ms=7, color=ROLES["guess"].colour, mec=INK, mew=0.7, zorder=3)
        place = (np.nanmax([best, end]), row)
        ax.annotate(three(best), place, (9, 0), textcoords="offset points", va="center", fontsize=9)
    near = int(np.sum((values[0] >= 0.5) & (values[0] <= 2.0)))
    table = Table({"what": names, **dict(zip(("guess / truth", "low / truth", "high / truth"), values, strict=True))})
    return finish(ax, True, finding, [text("progress.near", near=near, n=len(names))], table)
