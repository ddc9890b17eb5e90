"""Calibration: each guess divided by what came out, so that all units share one picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.texts import text
from fabriclab.views.page import Picture
from fabriclab.views.rulers import fitted
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, lines, log_axis, printed, texts, texts_at, tick_layers
from fabriclab.views.tables import Table, three

_LEFT, _RIGHT, _TOP, _ROW = 260.0, 620.0, 22.0, 27.0  # [px]


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
    return printed(calibration_scene(names, ratio, low, high), finding=finding)


def calibration_scene(names: Sequence[str], ratio: ArrayLike, low: ArrayLike, high: ArrayLike) -> Scene:
    """Return the picture; see `calibration`."""
    values = np.array([ratio, low, high], dtype=np.float64)  # (3, N)
    given = values[np.isfinite(values)]
    if values.shape != (3, len(names)) or not np.isfinite(values[0]).all() or not given.size or given.min() <= 0:
        msg = f"ratio, low and high must hold one number above 0 for each of {list(names)}, got {values.tolist()}"
        raise ValueError(msg)
    least, most = min(0.2, given.min()), max(5.0, given.max())
    to_x = log_axis(least / 2, 2 * most, _LEFT, _RIGHT)
    y, bottom = _TOP + _ROW * (np.arange(len(names)) + 0.5), _TOP + _ROW * len(names)
    tens = 10.0 ** np.arange(-12, 13, 1 + int((np.log10(most / least) + 1) / 8))
    shown = tens[(tens > least / 2) & (tens < 2 * most)]
    near, truth, far = (float(to_x(v)) for v in (0.5, 1.0, 2.0))
    ends = [(row, path) for row, path in zip(y, to_x(values[1:].T), strict=True) if np.isfinite(path).all()]
    layers = {
        "near": boxes(near, _TOP, far - near, bottom - _TOP, colour=COLOUR["grey"], alpha=0.15, round=0.0),
        **tick_layers(shown, to_x, lambda v: f"{v:g}", (_TOP, bottom), True),
        "truth": lines([np.array([[truth, _TOP], [truth, bottom]])]),
        "ranges": lines([np.stack([x, [row, row]], axis=1) for row, x in ends], width=7.0, alpha=0.4,
                        colour=COLOUR["guess"]),
        "dots": Layer("dots", {"x": to_x(values[0]), "y": y, "size": 5.0, "colour": COLOUR["guess"]}),
        "names": texts(_LEFT - 8, y, [fitted(name, _LEFT - 8) for name in names], align=2.0),
        "ratios": texts(_RIGHT + 8, y, [three(best) for best in values[0]]),
        "words": texts_at((truth, 12.0, text("progress.band"), 1), (_RIGHT, bottom + 29, text("progress.guesses"), 2)),
    }  # fmt: skip
    close = int(np.sum((values[0] >= 0.5) & (values[0] <= 2.0)))
    table = Table({"what": names, **dict(zip(("guess / truth", "low / truth", "high / truth"), values, strict=True))})
    return Scene(text("progress.near", near=close, n=len(names)), table, layers, bottom + 40)
