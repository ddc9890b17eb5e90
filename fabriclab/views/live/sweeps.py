"""Live sweeps: time or bus bandwidth against size or ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fabriclab.texts import text
from fabriclab.views import sweeps
from fabriclab.views.live.controls import Control, name_of
from fabriclab.views.live.widget import Live
from fabriclab.views.page import Floats, spread
from fabriclab.views.palette import GREY, INK
from fabriclab.views.rulers import fitted
from fabriclab.views.scene import COLOUR, PALETTE, WIDTH, Layer, Scene, lines, log_axis, tick_layers


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
    call = f"fl.live.sweep({name}, y={y!r}, x={x!r}, controls={known!r}" + (f", said={said!r}" if said else "")
    return Live(call, scene, known, start, text("live.sweep.title"))


def sweep_scene(
    results: sweeps.Results, y: str = "time", x: str = "size", bounds: sweeps.Bounds | None = None, said: str = ""
) -> Scene:
    """Return one picture of sweeps; see `sweep`."""
    try:
        series = sweeps.collect(sweeps.by_label(results, x), bounds or {}, x, y)
    except ValueError as error:
        return Scene(str(error), wrong=True)
    (x0, x1), (y0, y1) = (70.0, 500.0), (250.0, 24.0)
    xs, ys, x_ticks, y_ticks = sweeps.axes_of(series, (), x, y)
    to_x, to_y = log_axis(*xs, x0, x1), log_axis(*ys, y0, y1)
    show = sweeps.Y[y][1]
    layers = tick_layers(np.array(x_ticks), to_x, lambda v: sweeps.X[x][1](v).removesuffix(" ranks"), (y1, y0), True)
    layers |= tick_layers(np.array(y_ticks), to_y, show, (x0, x1), False)
    layers["axes"] = Layer("texts", {"x": np.array([x1, x0]), "y": np.array([y0 + 30, 8.0]), "align": np.array([2, 0]),
                                     "texts": [text(f"sweep.axis_{x}"), text(f"sweep.axis_{y}")]})  # fmt: skip
    paths, dots, names, ends = [], [], [], []
    look: dict[str, list[float]] = {"colour": [], "dash": []}
    mark: dict[str, list[float]] = {"colour": [], "shape": []}
    dotted = np.array(["marker" in s.look for s in series])
    for s in series:
        px, py = to_x(s.points[0]), np.clip(to_y(s.points[1]), y1, y0)
        key = _key(s.look["color"])
        ends.append(float(py[-1]))
        nth = sum(one.role == s.role for one in series[: series.index(s)])
        if "marker" in s.look:
            dots += list(zip(px, py, strict=True))
            mark["colour"].append(key)
            mark["shape"].append(0.0 if s.role == "measured" else 1.0)
            names += [f"{s.label}, {sweeps.X[x][1](a)}: {show(b)}" for a, b in s.points[:2].T]
        else:
            paths.append(np.stack([px, py], axis=1))
            look["colour"].append(key)
            look["dash"].append(2.0 if s.role == "bound" else float(nth % 5))
    drawn = {k: np.array(v) for k, v in look.items()}
    layers["lines"] = lines(paths, **drawn, width=2.0, names=[s.label for s in series if "marker" not in s.look])
    place = np.array(dots).reshape(-1, 2)
    each = [s.points.shape[1] for s in series if "marker" in s.look]
    layers["dots"] = Layer("dots", {"x": place[:, 0], "y": place[:, 1], "names": names,
                                    **{k: np.repeat(v, each) for k, v in mark.items()}})  # fmt: skip
    # Labels are in ink, which is read on every page; a sample beside each has its colour.
    height = spread(ends, 17.0, y1, y0)
    left = x1 + 32
    layers["samples"] = lines([np.array([[x1 + 8, h], [x1 + 26, h]]) for h in height[~dotted]], **drawn, width=2.0)
    layers["sample dots"] = Layer("dots", {"x": np.full(dotted.sum(), x1 + 17), "y": height[dotted],
                                           **{k: np.array(v) for k, v in mark.items()}})  # fmt: skip
    layers["labels"] = Layer("texts", {"x": np.full(len(ends), left), "y": height,
                                       "texts": [fitted(s.label, WIDTH - left) for s in series]})  # fmt: skip
    layers |= _crossing(series, to_x, (y1, y0), x)
    words = sweeps.told(series, x, y)
    words += [t for t in layers["crossing"].fields.get("texts", [])]
    return Scene(said or f"{words[0]}.", sweeps.table_of(series, x, y), layers, y0 + 42, "; ".join(words))


def _key(colour: str) -> float:
    return 0.0 if colour == INK else COLOUR["grey"] if colour == GREY else float(PALETTE.index(colour))


def _crossing(
    series: Sequence[Any], to_x: Callable[[Any], Floats], ends: tuple[float, float], x: str
) -> dict[str, Layer]:
    """Return a mark where the first two lines change places."""
    first = [s for s in series if "marker" not in s.look and s.role != "bound"][:2]
    at = sweeps.crossover(*(s.points[:2] for s in first)) if len(first) == 2 else None
    if at is None:
        return {"crossing": Layer("texts", {"x": np.zeros(0), "y": np.zeros(0), "texts": []})}
    place, words = float(to_x(at)), text("live.sweep.cross", at=sweeps.X[x][1](float(f"{at:.2g}")))
    return {
        "cross line": lines(
            [np.array([[place, ends[0]], [place, ends[1]]])], width=1.5, dash=1.0, colour=COLOUR["grey"]
        ),
        "crossing": Layer(
            "texts", {"x": np.array([place]), "y": np.array([ends[0] - 8]), "texts": [words], "align": 1.0}
        ),
    }
