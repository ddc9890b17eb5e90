"""Live sweeps: time or bus bandwidth against size or ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabriclab.core import Result
from fabriclab.texts import text
from fabriclab.views import sweeps
from fabriclab.views.live.controls import Control, name_of
from fabriclab.views.live.widget import Live
from fabriclab.views.scene import Scene


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
        made = results(**values) if callable(results) else results
        return sweeps.sweep_scene(made, y, x, bounds, said, cross=True)

    name = name_of(results, "results")
    call = f"fl.live.sweep({name}, y={y!r}, x={x!r}, controls={known!r}"
    if bounds:
        typed = not any(isinstance(value, Result) for value in bounds.values())
        call += f", bounds={dict(bounds) if typed else 'bounds'}"
    call += f", said={said!r}" if said else ""
    return Live(call, scene, known, start, text("live.sweep.title"))
