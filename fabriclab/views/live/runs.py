"""Live views of values: a fabric, a run to scrub through, several that race, times against size, traffic, a ruler.

Traffic is a map of what each rank sends to each, with what each takes in above and sends beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Fabric, Flows, Result, Timeline
from fabriclab.texts import text
from fabriclab.views import rulers, sweeps
from fabriclab.views.fabrics import scene_of
from fabriclab.views.layout import SAYS
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.maps import scale
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    lines,
    log_axis,
    shade,
    texts,
    texts_at,
    tick_layers,
)
from fabriclab.views.timelines import timeline_scene

_LEFT, _TOP, _SIDE, _BAR, _MOST = 130.0, 110.0, 320.0, 80.0, 128  # [px], and ranks


def fabric(
    fabric: Fabric,
    load: Callable[..., Any] | Any = None,
    *,
    colour: str | None = None,
    layout: str = "tiers",
    open: int | None = None,
    said: str = "",
    controls: dict[str, Control] | None = None,
    **values: Any,
) -> Live:
    """Show a fabric that follows controls: hover or walk with the arrow keys to read links and nodes.

    Above 200 nodes each tier is drawn as blocks; Enter or a click opens a block, and closes it again.

    Parameters
    ----------
    fabric : Fabric
        What to show.
    load : callable, Timeline, simulation or array_like, optional
        Mean load of each link as a part of its capacity (L,), or a run from which it follows. A callable takes the
        values of ``controls`` and returns one of these, or a pair (fabric of the same cables, load); a third value is
        the sentence.
    colour : str, optional
        What the colour of a link says: load, tier, rail or failure, as far as there is any. Where it is not the load,
        links with little load are pale.
    layout : str
        "tiers": rows from the endpoints upwards. "floor": every endpoint one cell, a column for each server.
    open : int, optional
        Lowest node of the block that is open.
    said : str
        The sentence; unless given it names the fullest link.
    controls : dict of str to Slider or Choice
        Controls of ``load``.
    **values
        Where they stand.
    """
    here = {
        "load": load is not None,
        "rail": np.any(fabric.rail > 0),
        "failure": np.any(fabric.capacity == 0),
    }
    modes = tuple(mode for mode in SAYS if here.get(mode, True))
    colour = colour or modes[0]

    def scene(colour: str, layout: str, open: int | None, **values: Any) -> Scene:
        return scene_of(
            fabric, load(**values) if callable(load) else load, colour, open, said, layout
        )

    own = {"colour": Choice(modes), "layout": Choice(("tiers", "floor"))}
    return live_view("fabric", locals(), scene, own, hidden=("open",), held=("load",))


def timeline(
    timeline: Timeline, flows: Flows, fabric: Fabric | None = None, *, at: float = 0.0
) -> Live:
    """Show flows as bars, one lane per sender, and scrub through the time.

    Parameters
    ----------
    timeline, flows, fabric
        As in `views.timeline`.
    at : float
        Time of the line that the slider moves, in per cent of the time of the run.
    """

    def scene(at: float) -> Scene:
        return timeline_scene(timeline, flows, None if fabric is None else fabric.name, at)

    held = ("timeline", "flows", "fabric")
    return live_view(
        "timeline", locals(), scene, {"at": Slider(0, 100, unit="%", play=True)}, held=held
    )


def race(runs: Mapping[str, Any], *, seconds: float | None = None) -> Live:
    """Let simulations race: show how far each is after the time that a logarithmic slider sets.

    Parameters
    ----------
    runs : mapping of label to simulation
        As `fabriclab.simulate` returns them.
    seconds : float, optional
        Time to show; 1% of that of the fastest unless given. [s]
    """
    if not runs or min(run.time for run in runs.values()) <= 0:
        raise ValueError(
            f"runs must be simulations that take time, by name, got {dict(runs)!r:.80}"
        )
    times = [float(run.time) for run in runs.values()]
    first = float(f"{min(times) / 100:.2g}")
    seconds = first if seconds is None else seconds
    control = Slider(first, max(times), unit="s", log=True, play=True)

    def scene(seconds: float) -> Scene:
        parts, steps, state = [], [], []
        for run in runs.values():
            t = run.timeline
            done = np.clip(
                (seconds - t.group_start) / np.where(t.period > 0, t.period, np.inf), 0, t.repeat
            )
            over, total = seconds >= t.end, int(t.repeat.sum())
            parts.append(1.0 if over else float(done.sum()) / total)
            steps.append(f"{total if over else int(done.sum() + 1e-9):,} / {total:,}")
            state.append(text("live.race.done", time=t.end) if over else f"{parts[-1]:.1%}")
        n, x0, wide, row = len(parts), 150.0, 420.0, 34.0
        y = 8 + row * np.arange(n)
        middle, notes = (
            y + (row - 10) / 2,
            [", ".join(words) for words in zip(state, steps, strict=True)],
        )
        layers = {
            "way": boxes(x0, y, wide, row - 10, colour=COLOUR["none"], edge=COLOUR["grey"]),
            "bars": boxes(
                x0,
                y,
                np.maximum(wide * np.array(parts), 1.0),
                row - 10,
                colour=COLOUR["predicted"],
                names=list(runs),
                notes=notes,
            ),
            "names": texts(
                x0 - 8, middle, [rulers.fitted(name, x0 - 8) for name in runs], align=2.0
            ),
            "state": texts(x0 + wide + 8, middle, state),
        }
        table = Table(
            {
                "run": list(runs),
                "part [%]": 100 * np.array(parts),
                "steps ended": steps,
                "end [s]": times,
            }
        )
        words = ", ".join(f"{name} {how}" for name, how in zip(runs, state, strict=True))
        said = text("live.race.said", time=seconds, list=words)
        return Scene(said, table, layers, float(y[-1]) + row, said)

    return live_view("race", locals(), scene, {"seconds": control}, held=("runs",))


def sweep(
    results: Callable[..., Any] | sweeps.Results,
    *,
    y: str = "time",
    x: str = "size",
    controls: Mapping[str, Control] | None = None,
    bounds: sweeps.Bounds | None = None,
    said: str = "",
    **values: Any,
) -> Live:
    """Show sweeps that follow controls: time or busbw against size or ranks; hover or arrow keys read the points.

    Parameters
    ----------
    results : callable, Result, sequence of Result or mapping of label to these
        What to draw, as in `views.sweep`; a callable takes the values of ``controls`` and returns it, or a pair
        (results, sentence). The first two predicted series get a mark where they change places.
    y, x : str
        "time" or "busbw" against "size" or "ranks".
    controls : mapping of str to Slider or Choice
        Controls of ``results``.
    bounds, said
        As in `views.sweep`; the sentence, unless given, names the ends of the first series.
    **values
        Where the controls stand.
    """

    def scene(**values: Any) -> Scene:
        made = results(**values) if callable(results) else results
        made, words = (
            made if isinstance(made, tuple) and isinstance(made[-1], str) else (made, said)
        )
        return sweeps.sweep_scene(made, y, x, bounds, words, cross=True)

    return live_view("sweep", locals(), scene, {}, held=("results",))


def traffic(
    table: Callable[..., Any] | ArrayLike,
    *,
    controls: Mapping[str, Control] | None = None,
    said: str = "",
    **values: Any,
) -> Live:
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
        return _map(*made) if isinstance(made, tuple) else _map(made, said)

    return live_view("traffic", locals(), scene, {}, held=("table",))


def _map(table: ArrayLike, said: str = "") -> Scene:
    t = np.asarray(table, dtype=np.float64)
    n = len(t) if t.ndim == 2 else 0
    if (
        t.shape != (n, n)
        or not 1 < n <= _MOST
        or not np.all(np.isfinite(t) & (t >= 0))
        or not t.any()
    ):
        msg = f"table must be (n, n) of what each of 2..{_MOST} ranks has for each, >= 0, got shape {t.shape}"
        raise ValueError(msg)
    taken, sent, cell = t.sum(axis=0), t.sum(axis=1), _SIDE / n
    most, mean, top = max(taken.max(), sent.max()), taken.mean(), int(taken.argmax())
    places, right, foot, base = cell * np.arange(n), _LEFT + _SIDE, _TOP + _SIDE, _TOP - 8
    row, column = np.indices((n, n)).reshape(2, -1)
    ends = np.stack(
        [
            _LEFT + cell * np.array([column, column + 1]),
            _TOP + cell * np.array([row, row]) + cell / 2,
        ]
    )
    times = [text("live.traffic.note", times=x) for x in (np.concatenate([taken, sent]) / mean)]
    names = [text("live.traffic.rank", rank=r) for r in range(n)]
    rule, look = (
        base - _BAR * mean / most,
        {"round": 0.0, "colour": COLOUR["predicted"], "names": names},
    )
    layers = {  # the map is of lines as thick as a cell is high: thousands of boxes take seconds to print
        "map": lines([*ends.transpose(2, 1, 0)], width=cell, colour=shade(t.ravel() / t.max())),
        "taken": boxes(
            _LEFT + places,
            base - _BAR * taken / most,
            max(cell - 1, 1.0),
            _BAR * taken / most,
            notes=times[:n],
            **look,
        ),
        "sent": boxes(
            right + 8,
            _TOP + places,
            _BAR * sent / most,
            max(cell - 1, 1.0),
            notes=times[n:],
            **look,
        ),
        "mean": lines(
            [np.array([[_LEFT - 6, rule], [right + 6, rule]])],
            width=1.5,
            colour=COLOUR["ink"],
            dash=2.0,
        ),
        "words": texts_at(
            (_LEFT - 12, rule, text("live.traffic.mean"), 2),
            (right + 12, base - 8, text("live.traffic.in"), 0),
            (_LEFT - 8, _TOP + 8, text("live.traffic.from"), 2),
            (_LEFT - 8, foot - 8, str(n - 1), 2),
            (_LEFT, foot + 12, text("live.traffic.to"), 0),
            (right, foot + 12, str(n - 1), 2),
            (right + 8, foot + 12, text("live.traffic.out"), 0),
            (510.0, foot + 36, text("live.traffic.scale"), 0),
        ),
        **scale(foot + 30),
    }
    words = text("live.traffic.said", rank=top, times=taken[top] / mean)
    columns = {"rank": np.arange(n), "takes in": taken, "sends": sent}
    return Scene(said or words, Table(columns), layers, foot + 56, f"{words} {said}".strip())


def ruler(
    measured: Mapping[str, Result | units.Quantity],
    links: Mapping[str, units.Quantity],
    *,
    rate: float | None = None,
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
    if (
        not held
    ):  # rounded to what is shown, so that the line of code stays short and gives the same picture
        shown = [(mark[1], units.format_rate(mark[0])) for mark in rulers.marks_of(measured, links)]
        measured, links = dict(shown[: len(measured)]), dict(shown[len(measured) :])
    marks = rulers.marks_of(measured, links)
    # illustrative: from a slow disk to more than a server's NVLinks together
    control = Slider(0.01, 1e4, unit="GB/s", log=True)
    rate = control.samples()[1] if rate is None else rate

    def scene(rate: float) -> Scene:
        return rulers.ruler_scene(marks, units.rate(f"{rate} {control.unit}"))

    return live_view("ruler", locals(), scene, {"rate": control}, held=held)


def range_scene(
    ends: tuple[float, float], marks: tuple[float, float, float], unit: str, said: str
) -> Scene:
    """Return a logarithmic ruler with a range and a best value, in ``unit``."""
    low, best, high = marks
    to_x = log_axis(*ends, 40.0, 660.0)
    places = 10.0 ** np.arange(np.ceil(np.log10(ends[0])), np.log10(ends[1]) + 0.01)
    layers = tick_layers(
        places, to_x, lambda v: f"{v:,g}" if v < 1e6 else f"{v:g}", (6.0, 46.0), True
    )
    a, b = sorted((float(to_x(low)), float(to_x(high))))
    layers["range"] = boxes(a, 14.0, max(b - a, 2.0), 24.0, colour=COLOUR["guess"], alpha=0.35)
    layers["best"] = Layer(
        "dots",
        {
            "x": to_x(np.array([best])),
            "y": np.array([26.0]),
            "size": 7.0,
            "colour": COLOUR["guess"],
            "drag": ["value"],
            "drag_ends": np.array([40.0, 660.0]),
        },
    )
    layers["unit"] = texts_at((680.0, 74.0, f"[{unit}]", 2))
    table = Table(
        {"what": [text(f"form.{k}") for k in ("low", "value", "high")], unit: np.array(marks)}
    )
    return Scene(said, table, layers, 84.0, said)
