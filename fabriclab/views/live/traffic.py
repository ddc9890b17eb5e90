"""Live view of traffic: what each rank sends to each, as a map, with what each takes in above and sends beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.texts import text
from fabriclab.views.live.controls import Control
from fabriclab.views.live.widget import Live, live_view
from fabriclab.views.maps import scale
from fabriclab.views.scene import COLOUR, Scene, boxes, lines, shade, texts_at
from fabriclab.views.tables import Table

_LEFT, _TOP, _SIDE, _BAR, _MOST = 130.0, 110.0, 320.0, 80.0, 128  # [px], and ranks


def traffic(
    table: Callable[..., Any] | ArrayLike, *, controls: Mapping[str, Control] | None = None, said: str = "",
    **values: Any,
) -> Live:  # fmt: skip
    """Show a table of what each rank has for each, such as one of `collectives.expert_tables`, that follows controls.

    Parameters
    ----------
    table : callable or array_like, shape (n, n)
        Row: who sends; column: who takes in. In any unit, >= 0. A callable takes the values of ``controls`` and
        returns the table, or a pair (table, sentence).
    controls : mapping of str to Slider or Choice
        Controls of ``table``.
    said : str
        The sentence; unless given it names the rank that takes in most.
    **values
        Where the controls stand.
    """

    def scene(**values: Any) -> Scene:
        made = table(**values) if callable(table) else table
        return _scene(*made) if isinstance(made, tuple) else _scene(made, said)

    return live_view("traffic", locals(), scene, {}, held=("table",))


def _scene(table: ArrayLike, said: str = "") -> Scene:
    t = np.asarray(table, dtype=np.float64)
    n = len(t) if t.ndim == 2 else 0
    if t.shape != (n, n) or not 1 < n <= _MOST or not np.all(np.isfinite(t) & (t >= 0)) or not t.any():
        msg = f"table must be (n, n) of what each of 2..{_MOST} ranks has for each, >= 0, got shape {t.shape}"
        raise ValueError(msg)
    taken, sent, cell = t.sum(axis=0), t.sum(axis=1), _SIDE / n
    most, mean, top = max(taken.max(), sent.max()), taken.mean(), int(taken.argmax())
    places, right, foot, base = cell * np.arange(n), _LEFT + _SIDE, _TOP + _SIDE, _TOP - 8
    row, column = np.indices((n, n)).reshape(2, -1)
    ends = np.stack([_LEFT + cell * np.array([column, column + 1]), _TOP + cell * np.array([row, row]) + cell / 2])
    times = [text("live.traffic.note", times=f"{x:.3g}") for x in (np.concatenate([taken, sent]) / mean)]
    names = [text("live.traffic.rank", rank=r) for r in range(n)]
    rule, look = base - _BAR * mean / most, {"round": 0.0, "colour": COLOUR["predicted"], "names": names}
    layers = {
        # Lines as thick as a cell is high: thousands of boxes take seconds to print.
        "map": lines([*ends.transpose(2, 1, 0)], width=cell, colour=shade(t.ravel() / t.max())),
        "taken": boxes(_LEFT + places, base - _BAR * taken / most, max(cell - 1, 1.0), _BAR * taken / most,
                       notes=times[:n], **look),
        "sent": boxes(right + 8, _TOP + places, _BAR * sent / most, max(cell - 1, 1.0), notes=times[n:], **look),
        "mean": lines([np.array([[_LEFT - 6, rule], [right + 6, rule]])], width=1.5, colour=COLOUR["ink"], dash=2.0),
        "words": texts_at(
            (_LEFT - 12, rule, text("live.traffic.mean"), 2), (right + 12, base - 8, text("live.traffic.in"), 0),
            (_LEFT - 8, _TOP + 8, text("live.traffic.from"), 2), (_LEFT - 8, foot - 8, str(n - 1), 2),
            (_LEFT, foot + 12, text("live.traffic.to"), 0), (right, foot + 12, str(n - 1), 2),
            (right + 8, foot + 12, text("live.traffic.out"), 0), (510.0, foot + 36, text("live.traffic.scale"), 0),
        ),
    }  # fmt: skip
    words = text("live.traffic.said", rank=top, times=f"{taken[top] / mean:.3g}")
    columns = {"rank": np.arange(n), "takes in": taken, "sends": sent}
    return Scene(said or words, Table(columns), {**layers, **scale(foot + 30)}, foot + 56, f"{words} {said}".strip())
