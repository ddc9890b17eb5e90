"""Live rulers: rates on a logarithmic scale, and a range to bet on."""

from collections.abc import Mapping

import numpy as np

from fabriclab import units
from fabriclab.core import Result
from fabriclab.texts import text
from fabriclab.views import rulers
from fabriclab.views.live.controls import Slider
from fabriclab.views.live.widget import Live, live_view
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, log_axis, texts_at, tick_layers
from fabriclab.views.tables import Table


def ruler(
    measured: Mapping[str, Result | units.Quantity], links: Mapping[str, units.Quantity], *, rate: float | None = None
) -> Live:
    """Show rates on a logarithmic ruler, with one that a slider moves.

    Parameters
    ----------
    measured, links : mapping
        As in `views.ruler`.
    rate : float, optional
        Where the slider stands. [GB/s]
    """
    # A result is more than its rate: then the line of code names the variables.
    held = ("measured", "links") * any(isinstance(value, Result) for value in measured.values())
    if not held:  # rounded to what is shown, so that the line of code stays short and gives the same picture
        shown = [(mark[1], units.format_rate(mark[0])) for mark in rulers.marks_of(measured, links)]
        measured, links = dict(shown[: len(measured)]), dict(shown[len(measured) :])
    marks = rulers.marks_of(measured, links)
    # illustrative: from a slow disk to more than a server's NVLinks together
    control = Slider(0.01, 1e4, unit="GB/s", log=True)
    rate = control.samples()[1] if rate is None else rate

    def scene(rate: float) -> Scene:
        return rulers.ruler_scene(marks, units.rate(f"{rate} {control.unit}"))

    return live_view("ruler", locals(), scene, {"rate": control}, held=held)


def range_scene(ends: tuple[float, float], marks: tuple[float, float, float], unit: str, said: str) -> Scene:
    """Return a logarithmic ruler with a range and a best value, in ``unit``."""
    low, best, high = marks
    to_x = log_axis(*ends, 40.0, 660.0)
    places = 10.0 ** np.arange(np.ceil(np.log10(ends[0])), np.log10(ends[1]) + 0.01)
    layers = tick_layers(places, to_x, lambda v: f"{v:,g}" if v < 1e6 else f"{v:g}", (6.0, 46.0), True)
    a, b = sorted((float(to_x(low)), float(to_x(high))))
    layers["range"] = boxes(a, 14.0, max(b - a, 2.0), 24.0, colour=COLOUR["guess"], alpha=0.35)
    layers["best"] = Layer("dots", {"x": to_x(np.array([best])), "y": np.array([26.0]), "size": 7.0,
                                    "colour": COLOUR["guess"], "drag": ["value"],
                                    "drag_ends": np.array([40.0, 660.0])})  # fmt: skip
    layers["unit"] = texts_at((680.0, 74.0, f"[{unit}]", 2))
    table = Table({"what": [text(f"form.{k}") for k in ("low", "value", "high")], unit: np.array(marks)})
    return Scene(said, table, layers, 84.0, said)
