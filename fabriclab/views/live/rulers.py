"""Live rulers: rates on a logarithmic scale, and a range to bet on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fabriclab import units
from fabriclab.core import Result
from fabriclab.texts import text
from fabriclab.views import rulers
from fabriclab.views.live.controls import rate_slider
from fabriclab.views.live.scene import COLOUR, Layer, Scene, lines, log_axis, tick_layers
from fabriclab.views.live.widget import Live
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
    # Rounded to what is shown, so that the line of code stays short and gives the same picture.
    given = rulers.marks_of(measured, links)
    shown = [(units.format_rate(mark[0]), mark[1]) for mark in given]
    marks = [(units.rate(rate), *mark[1:]) for (rate, _), mark in zip(shown, given, strict=True)]
    # illustrative: from a slow disk to more than a server's NVLinks together
    control = rate_slider(text("live.ruler.link"), "10 MB/s", "10 TB/s")
    start = control.samples()[1] if rate is None else rate

    def scene(rate: float) -> Scene:
        return ruler_scene(marks, units.rate(f"{rate} {control.unit}"))

    call = f"fl.live.ruler({ {name: rate for rate, name in shown[: len(measured)]}!r}, "
    call += f"{ {name: rate for rate, name in shown[len(measured) :]}!r}"
    return Live(call, scene, {"rate": control}, {"rate": start}, text("live.ruler.title"))


def ruler_scene(marks: Sequence[rulers.Mark], rate: float) -> Scene:
    """Return one picture of a ruler with a link of ``rate`` [B/s]; see `ruler`."""
    rows = sorted([*marks, (rate, text("live.ruler.yours"), "chosen", ())], key=lambda m: -m[0])
    rates = np.array([m[0] for m in rows])
    low, high = min(rates.min(), 1e7) / 1.5, max(rates.max(), 1e13) * 1.5
    x0, x1, row = 190.0, 610.0, 24.0
    to_x = log_axis(low, high, x0, x1)
    y = 10 + row * (np.arange(rates.size) + 0.5)
    bottom = 10 + row * rates.size
    here = {"measured here": "measured", "chosen": "predicted"}
    key = np.array([COLOUR[here.get(m[2], "ink")] for m in rows])
    decades = 10.0 ** np.arange(np.ceil(np.log10(low)), np.log10(high))
    layers = tick_layers(decades, to_x, units.format_rate, (6.0, bottom), True)
    layers["bars"] = lines([np.array([[x0, b], [a, b]]) for a, b in zip(to_x(rates), y, strict=True)],
                           width=np.where(key != COLOUR["ink"], 5.0, 1.5),
                           colour=np.where(key == COLOUR["ink"], COLOUR["grey"], key))  # fmt: skip
    compared = [f", {_factor(m[0], rate)} {text('live.ruler.yours')}" if m[2] != "chosen" else "" for m in rows]
    times = [units.format_rate(m[0]) + words for m, words in zip(rows, compared, strict=True)]
    shape = np.where(key == COLOUR["ink"], 1, np.where(key == COLOUR["measured"], 0, 3))
    names, bold = [m[1] for m in rows], np.array([float(m[2] == "chosen") for m in rows])
    layers["dots"] = Layer("dots", {"x": to_x(rates), "y": y, "size": 5.0, "colour": key, "shape": shape,
                                    "names": names, "notes": times})  # fmt: skip
    layers["names"] = Layer("texts", {"x": np.full(rates.size, x0 - 8), "y": y, "align": 2.0, "bold": bold,
                                      "texts": [fitted(name, x0 - 8) for name in names]})  # fmt: skip
    layers["rates"] = Layer("texts", {"x": to_x(rates) + 10, "y": y, "texts": [units.format_rate(r) for r in rates]})
    mine = [m for m in marks if m[2] == "measured here"] or list(marks)
    factor = _factor(rate, mine[0][0])
    said = text("live.ruler.said", rate=units.format_rate(rate), factor=factor, other=mine[0][1])
    table = Table({"what": [m[1] for m in rows], "rate [B/s]": rates, "your link / this": rate / rates})
    words = [f"{m[1]}: {note}" for m, note in zip(rows, times, strict=True) if m[2] != "chosen"]
    return Scene(said, table, layers, bottom + 26, f"{said} " + "; ".join(words))


def fitted(name: str, room: float) -> str:
    """Return a name that fits into ``room`` [px] in letters of 12 px, which are a quarter larger on a narrow page."""
    most = int(room / 7.5)
    return name if len(name) <= most else f"{name[: most - 1].rstrip()}…"


def range_scene(ends: tuple[float, float], marks: tuple[float, float, float], unit: str, said: str) -> Scene:
    """Return a logarithmic ruler with a range and a best value, in ``unit``."""
    low, best, high = marks
    to_x = log_axis(*ends, 40.0, 660.0)
    places = 10.0 ** np.arange(np.ceil(np.log10(ends[0])), np.log10(ends[1]) + 0.01)
    layers = tick_layers(places, to_x, lambda v: f"{v:,g}" if v < 1e6 else f"{v:g}", (6.0, 46.0), True)
    a, b = sorted((float(to_x(low)), float(to_x(high))))
    layers["range"] = Layer("boxes", {"x": np.array([a]), "y": np.array([14.0]), "w": np.array([max(b - a, 2.0)]),
                                      "h": np.array([24.0]), "colour": COLOUR["guess"], "alpha": 0.35})  # fmt: skip
    layers["best"] = Layer("dots", {"x": to_x(np.array([best])), "y": np.array([26.0]), "size": 7.0,
                                    "colour": COLOUR["guess"]})  # fmt: skip
    layers["unit"] = Layer(
        "texts", {"x": np.array([680.0]), "y": np.array([74.0]), "texts": [f"[{unit}]"], "align": 2.0}
    )
    table = Table({"what": [text(f"form.{k}") for k in ("low", "value", "high")], unit: np.array(marks)})
    return Scene(said, table, layers, 84.0, said)


def _factor(a: float, b: float) -> str:
    """Return how many times as fast ``a`` is as ``b``."""
    if max(a / b, b / a) < 1.05:
        return text("live.ruler.equal")
    return text("live.ruler.faster" if a > b else "live.ruler.slower", factor=f"{max(a / b, b / a):.3g}")
