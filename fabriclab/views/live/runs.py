"""Live views of runs: scrub through one, let several race, or see their times against size or ranks."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Flows, Timeline
from fabriclab.texts import text
from fabriclab.views import sweeps
from fabriclab.views.live.controls import Control, Slider
from fabriclab.views.live.widget import Live, live_view
from fabriclab.views.rulers import fitted
from fabriclab.views.scene import COLOUR, Scene, boxes, texts
from fabriclab.views.tables import Table
from fabriclab.views.timelines import timeline_scene


def timeline(timeline: Timeline, flows: Flows, fabric: Fabric | None = None, *, at: float = 0.0) -> Live:
    """Show flows as bars, one lane per sender, and scrub through the time.

    Parameters
    ----------
    timeline, flows, fabric
        As in `views.timeline`.
    at : float
        Time of the line that the slider moves, in per cent of the time of the run.
    """

    def scene(at: float) -> Scene:
        return timeline_scene(timeline, flows, fabric, at)

    held = ("timeline", "flows", "fabric")
    return live_view("timeline", locals(), scene, {"at": Slider(0, 100, unit="%", play=True)}, held=held)


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
        raise ValueError(f"runs must be simulations that take time, by name, got {dict(runs)!r:.80}")
    times = [float(run.time) for run in runs.values()]
    first = float(f"{min(times) / 100:.2g}")
    seconds = first if seconds is None else seconds
    control = Slider(first, max(times), unit="s", log=True, play=True)

    def scene(seconds: float) -> Scene:
        parts, steps, state = [], [], []
        for run in runs.values():
            t = run.timeline
            done = np.clip((seconds - t.group_start) / np.where(t.period > 0, t.period, np.inf), 0, t.repeat)
            over, total = seconds >= t.end, int(t.repeat.sum())
            parts.append(1.0 if over else float(done.sum()) / total)
            steps.append(f"{total if over else int(done.sum() + 1e-9):,} / {total:,}")
            state.append(text("live.race.done", time=units.format_time(t.end)) if over else f"{parts[-1]:.1%}")
        n, x0, wide, row = len(parts), 150.0, 420.0, 34.0
        y = 8 + row * np.arange(n)
        middle, notes = y + (row - 10) / 2, [", ".join(words) for words in zip(state, steps, strict=True)]
        layers = {
            "way": boxes(x0, y, wide, row - 10, colour=COLOUR["none"], edge=COLOUR["grey"]),
            "bars": boxes(x0, y, np.maximum(wide * np.array(parts), 1.0), row - 10, colour=COLOUR["predicted"],
                          names=list(runs), notes=notes),
            "names": texts(x0 - 8, middle, [fitted(name, x0 - 8) for name in runs], align=2.0),
            "state": texts(x0 + wide + 8, middle, state),
        }  # fmt: skip
        table = Table({"run": list(runs), "part [%]": 100 * np.array(parts), "steps ended": steps, "end [s]": times})
        words = ", ".join(f"{name} {how}" for name, how in zip(runs, state, strict=True))
        said = text("live.race.said", time=units.format_time(seconds), list=words)
        return Scene(said, table, layers, float(y[-1]) + row, said)

    return live_view("race", locals(), scene, {"seconds": control}, held=("runs",))


def sweep(
    results: Callable[..., Any] | sweeps.Results, *, y: str = "time", x: str = "size",
    controls: Mapping[str, Control] | None = None, bounds: sweeps.Bounds | None = None, said: str = "", **values: Any,
) -> Live:  # fmt: skip
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
        made, words = made if isinstance(made, tuple) and isinstance(made[-1], str) else (made, said)
        return sweeps.sweep_scene(made, y, x, bounds, words, cross=True)

    return live_view("sweep", locals(), scene, {}, held=("results",))
