"""Live sweeps: time or bus bandwidth against size or ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from fabriclab.core import Result
from fabriclab.texts import text
from fabriclab.views import sweeps
from fabriclab.views.live.controls import Control, name_of
from fabriclab.views.live.widget import Live
from fabriclab.views.page import Floats, spread
from fabriclab.views.palette import DASHES, GREY, INK
from fabriclab.views.rulers import fitted
from fabriclab.views.scene import COLOUR, PALETTE, WIDTH, Layer, Scene, lines, log_axis, shape_of, texts_at, tick_layers

# Dash of a line in matplotlib's words -> its place among those of scenes; dots belong to the bound.
_DASH: Final[dict[Any, float]] = dict(zip((*DASHES, ":"), (0.0, 1.0, 3.0, 4.0, 5.0, 2.0), strict=True))


def sweep(
    results: Callable[..., Any] | sweeps.Results, *, y: str = "time", x: str = "size",
    controls: Mapping[str, Control] | None = None, bounds: sweeps.Bounds | None = None, said: str = "", **values: Any,
) -> Live:  # fmt: skip
    """Show sweeps that follow controls: time or busbw against size or ranks; hover or arrow keys read the points.

    Parameters
    ----------
    results : callable, Result, sequence of Result or mapping of label to these
        What to draw, as in `views.sweep`; a callable takes the values of ``controls`` and returns it. The first two
        predicted series get a mark where they change places.
    y, x : str
        "time" or "busbw" against "size" or "ranks".
    controls : mapping of str to Slider or Choice
        Controls of ``results``.
    bounds, said
        As in `views.sweep`; the sentence, unless given, names the ends of the first series.
    **values
        Where the controls stand.
    """
    known = dict(controls or {})
    start = {name: c.samples()[0] for name, c in known.items()} | values

    def scene(**values: Any) -> Scene:
        return sweep_scene(results(**values) if callable(results) else results, y, x, bounds, said)

    name = name_of(results, "results")
    call = f"fl.live.sweep({name}, y={y!r}, x={x!r}, controls={known!r}"
    if bounds:
        typed = not any(isinstance(value, Result) for value in bounds.values())
        call += f", bounds={dict(bounds) if typed else 'bounds'}"
    call += f", said={said!r}" if said else ""
    return Live(call, scene, known, start, text("live.sweep.title"))


def sweep_scene(
    results: sweeps.Results, y: str = "time", x: str = "size", bounds: sweeps.Bounds | None = None, said: str = ""
) -> Scene:
    """Return one picture of sweeps; see `sweep`."""
    try:
        series = sweeps.collect(sweeps.by_label(results, x), bounds or {}, x, y)
    except ValueError as error:
        return Scene(str(error), wrong=True)
    xs, ys, x_ticks, y_ticks = sweeps.axes_of(series, (), x, y)
    # Words, the series whose sample stands before them, and the value beside which they are wanted.
    rows: list[tuple[str, sweeps.Series | None, float]] = []
    for label, s in sweeps.labelled(series):
        off = "below" if s.points[1].max() < ys[0] else "above" if s.points[1].min() > ys[1] else ""
        rows.append((label, s, s.points[1, -1]))
        rows += [(text(f"live.sweep.{off}"), None, s.points[1, -1])] if off else []
    (x0, x1), (y0, y1) = (70.0, 500.0), (max(250.0, 30 + 17.0 * len(rows)), 24.0)
    to_x, to_y = log_axis(*xs, x0, x1), log_axis(*ys, y0, y1)
    show = sweeps.Y[y][1]
    layers = tick_layers(np.array(x_ticks), to_x, lambda v: sweeps.X[x][1](v).removesuffix(" ranks"), (y1, y0), True)
    layers |= tick_layers(np.array(y_ticks), to_y, show, (x0, x1), False)
    layers["axes"] = texts_at((x1, y0 + 30, text(f"sweep.axis_{x}"), 2), (x0, 8.0, text(f"sweep.axis_{y}"), 0))
    strokes = [(s, path) for s in series if "marker" not in s.look
               for path in _inside(to_x(s.points[0]), to_y(s.points[1]), y1, y0)]  # fmt: skip
    layers["lines"] = _lines(strokes, names=[s.label for s, _ in strokes])
    spreads = [(s, np.stack([to_x(p[[0, 0]]), to_y(p[2:])], 1)) for s in series for p in s.points.T if p[2] < p[3]]
    layers["spread"] = _lines(spreads, dash=0.0, width=1.0)
    dots = [(s, *p) for s in series if "marker" in s.look for p in s.points[:2].T]
    layers["dots"] = _dots([(s, np.array([to_x(a), to_y(b)])) for s, a, b in dots],
                           names=[f"{s.label}, {sweeps.X[x][1](a)}: {show(b)}" for s, a, b in dots])  # fmt: skip
    # Labels are in ink, which is read on every page; a sample beside each has its colour.
    height = spread(np.clip(to_y([wish for *_, wish in rows]), y1, y0), 17.0, y1, y0)
    left, at = x1 + 32, [(s, h) for (_, s, _), h in zip(rows, height, strict=True) if s]
    layers["samples"] = _lines([(s, np.array([[x1 + 8, h], [x1 + 26, h]])) for s, h in at if "marker" not in s.look])
    layers["sample dots"] = _dots([(s, np.array([x1 + 17, h])) for s, h in at if "marker" in s.look])
    layers["labels"] = Layer("texts", {"x": np.full(len(rows), left), "y": height,
                                       "texts": [fitted(words, WIDTH - left) for words, *_ in rows]})  # fmt: skip
    layers |= _crossing(series, to_x, (y1, y0), x)
    words = sweeps.told(series, x, y)
    words += [f"{rows[i - 1][0]} {row[0]}" for i, row in enumerate(rows) if row[1] is None]
    words += [t for t in layers["crossing"].fields.get("texts", [])]
    return Scene(said or f"{words[0]}.", sweeps.table_of(series, x, y), layers, y0 + 42, "; ".join(words))


def _key(colour: str) -> float:
    return 0.0 if colour == INK else COLOUR["grey"] if colour == GREY else float(PALETTE.index(colour))


def _lines(paths: Sequence[tuple[sweeps.Series, Floats]], **fields: Any) -> Layer:
    """Return lines in the looks of their series."""
    looks = [(_key(look["color"]), _DASH.get(look.get("ls"), 0.0), look.get("lw", 2.0), look.get("alpha", 1.0))
             for look in (s.look for s, _ in paths)]  # fmt: skip
    columns = zip(("colour", "dash", "width", "alpha"), np.array(looks).reshape(-1, 4).T, strict=True)
    return lines([path for _, path in paths], **{**dict(columns), **fields})


def _dots(places: Sequence[tuple[sweeps.Series, Floats]], **fields: Any) -> Layer:
    """Return dots in the looks of their series."""
    x, y = np.array([place for _, place in places]).reshape(-1, 2).T
    look = {"colour": np.array([_key(s.look["color"]) for s, _ in places]),
            "shape": np.array([shape_of(s.look["marker"], s.look["mfc"] != "none") for s, _ in places])}  # fmt: skip
    return Layer("dots", {"x": x, "y": y, **look, **fields})


def _inside(x: Floats, y: Floats, top: float, foot: float) -> list[Floats]:
    """Return the pieces of a line that lie between ``top`` and ``foot``."""
    for edge in (top, foot):
        i = np.flatnonzero((y[:-1] - edge) * (y[1:] - edge) < 0)
        cut = x[i] + (edge - y[i]) / (y[i + 1] - y[i]) * (x[i + 1] - x[i])
        x, y = np.insert(x, i + 1, cut), np.insert(y, i + 1, edge)
    seen = (y >= top) & (y <= foot)
    cuts = np.flatnonzero(~seen)
    pieces = zip(np.split(np.stack([x, y], axis=1), cuts), np.split(seen, cuts), strict=True)
    return [path[here] for path, here in pieces if here.sum() > 1]


def _crossing(
    series: Sequence[Any], to_x: Callable[[Any], Floats], ends: tuple[float, float], x: str
) -> dict[str, Layer]:
    """Return a mark where the first two lines change places."""
    first = [s for s in series if s.role == "predicted"][:2]
    at = sweeps.crossover(*(s.points[:2] for s in first)) if len(first) == 2 else None
    if at is None:
        return {"crossing": texts_at()}
    place, words = float(to_x(at)), text("live.sweep.cross", at=sweeps.X[x][1](float(f"{at:.2g}")))
    line = np.array([[place, ends[0]], [place, ends[1]]])
    return {
        "cross line": lines([line], width=1.5, dash=1.0, colour=COLOUR["grey"]),
        "crossing": texts_at((place, ends[0] - 8, words, 1)),
    }
