"""Live plots: sweeps, timelines and rulers on a canvas, from the same numbers as their printed twins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Fabric, Flows, Result, Routes, Timeline
from fabriclab.texts import text
from fabriclab.views import rulers, sweeps, timelines
from fabriclab.views.live.scene import COLOUR, Layer, Scene, lines
from fabriclab.views.live.widget import Control, Live, Slider, rate_slider
from fabriclab.views.page import plain, spread
from fabriclab.views.palette import GREY, INK
from fabriclab.views.tables import Table

Floats = NDArray[np.float64]
_FILL: Final = ("predicted", "tint", "other2", "other3", "grey")


def _log(low: float, high: float, start: float, end: float) -> Callable[[Any], Floats]:
    """Return where a value stands on a logarithmic axis from ``start`` to ``end`` [px]."""
    span = np.log(high / low)
    return lambda v: np.asarray(start + (end - start) * np.log(np.asarray(v, dtype=np.float64) / low) / span)


def _ticks(places: Floats, at: Callable[[Any], Floats], show: Callable[[float], str], ends: tuple[float, float],
           across: bool) -> dict[str, Layer]:  # fmt: skip
    """Return grid lines and texts of an axis: across the picture, or upwards."""
    here, texts = at(places), [plain(show(float(v))) for v in places]
    low, high = ends
    points = [np.array([[p, low], [p, high]] if across else [[low, p], [high, p]]) for p in here]
    place = {"x": here, "y": np.full(here.size, high + 12.0), "align": 1.0}
    if not across:
        place = {"x": np.full(here.size, low - 6.0), "y": here, "align": 2.0}
    side = "x" if across else "y"
    return {f"{side} grid": lines(points, width=1.0, colour=COLOUR["grey"], alpha=0.3),
            f"{side} ticks": Layer("texts", {**place, "texts": texts})}  # fmt: skip


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

    name = getattr(results, "__name__", "results")
    return Live(f"fl.live.sweep({name}, y={y!r}, x={x!r}, controls={known!r}", scene, known, start, "sweep")


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
    to_x, to_y = _log(*xs, x0, x1), _log(*ys, y0, y1)
    show = sweeps.Y[y][2]
    layers = _ticks(np.array(x_ticks), to_x, lambda v: sweeps.X[x][2](v).removesuffix(" ranks"), (y1, y0), True)
    layers |= _ticks(np.array(y_ticks), to_y, show, (x0, x1), False)
    layers["axes"] = Layer("texts", {"x": np.array([x1, x0]), "y": np.array([y0 + 30, 8.0]), "align": np.array([2, 0]),
                                     "texts": [sweeps.X[x][0], sweeps.Y[y][0]]})  # fmt: skip
    paths, dots, names, ends = [], [], [], []
    look: dict[str, list[float]] = {"colour": [], "dash": [], "width": []}
    mark: dict[str, list[float]] = {"colour": [], "shape": []}
    for s in series:
        px, py = to_x(s.points[0]), np.clip(to_y(s.points[1]), y1, y0)
        key = _key(s.look["color"])
        ends.append((s.label, float(py[-1]), key))
        nth = sum(one.role == s.role for one in series[: series.index(s)])
        if "marker" in s.look:
            dots += list(zip(px, py, strict=True))
            mark["colour"] += [key] * px.size
            mark["shape"] += [0.0 if s.role == "measured" else 1.0] * px.size
            names += [f"{s.label}, {sweeps.X[x][2](a)}: {show(b)}" for a, b in s.points[:2].T]
        else:
            paths.append(np.stack([px, py], axis=1))
            for k, v in zip(look, (key, 2.0 if s.role == "bound" else float(nth % 5), 2.0), strict=True):
                look[k].append(v)
    layers["lines"] = lines(paths, **{k: np.array(v) for k, v in look.items()}, names=[e[0] for e, s in
                            zip(ends, series, strict=True) if "marker" not in s.look])  # fmt: skip
    place = np.array(dots).reshape(-1, 2)
    layers["dots"] = Layer("dots", {"x": place[:, 0], "y": place[:, 1], "names": names,
                                    **{k: np.array(v) for k, v in mark.items()}})  # fmt: skip
    height = spread([e[1] for e in ends], 17.0, y1, y0)
    layers["labels"] = Layer("texts", {"x": np.full(len(ends), x1 + 10), "y": height, "texts": [e[0] for e in ends],
                                       "colour": np.array([e[2] for e in ends])})  # fmt: skip
    layers |= _crossing(series, to_x, (y1, y0), x)
    words = [f"{s.label} {sweeps.Y[y][4]} " + " and ".join(f"{show(v)} at {sweeps.X[x][2](a)}" for a, v in
             s.points[:2, :: max(1, s.points.shape[1] - 1)].T) for s in series if s.role != "bound"][:5]  # fmt: skip
    words += [t for t in layers["crossing"].fields.get("texts", [])]
    return Scene(said or f"{words[0]}.", sweeps.table_of(series, x, y), layers, y0 + 42, "; ".join(words))


def _key(colour: str) -> float:
    from fabriclab.views.live.scene import PALETTE

    return 0.0 if colour == INK else COLOUR["grey"] if colour == GREY else float(PALETTE.index(colour))


def _crossing(
    series: Sequence[Any], to_x: Callable[[Any], Floats], ends: tuple[float, float], x: str
) -> dict[str, Layer]:
    """Return a mark where the first two lines change places."""
    first = [s for s in series if "marker" not in s.look and s.role != "bound"][:2]
    at = sweeps.crossover(*(s.points[:2] for s in first)) if len(first) == 2 else None
    if at is None:
        return {"crossing": Layer("texts", {"x": np.zeros(0), "y": np.zeros(0), "texts": []})}
    place, words = float(to_x(at)), text("live.sweep.cross", at=sweeps.X[x][2](float(f"{at:.2g}")))
    return {
        "cross line": lines(
            [np.array([[place, ends[0]], [place, ends[1]]])], width=1.5, dash=1.0, colour=COLOUR["grey"]
        ),
        "crossing": Layer(
            "texts", {"x": np.array([place]), "y": np.array([ends[0] - 8]), "texts": [words], "align": 1.0}
        ),
    }


def timeline(
    timeline: Timeline, flows: Flows, fabric: Fabric | None = None, *, routes: Routes | None = None, at: float = 0.0
) -> Live:
    """Show flows as bars, one lane per sender, or per link where routes are given, and scrub through the time.

    Parameters
    ----------
    timeline, flows, fabric, routes
        As in `views.timeline`.
    at : float
        Time of the line that the slider moves, in per cent of the run.
    """

    def scene(at: float) -> Scene:
        return timeline_scene(timeline, flows, fabric, routes, at)

    control = Slider(0, 100, 1, label="time", unit="% of the run", play=True)
    return Live("fl.live.timeline(run.timeline, run.flows, run.fabric", scene, {"at": control}, {"at": at}, "timeline")


def timeline_scene(
    t: Timeline, flows: Flows, fabric: Fabric | None = None, routes: Routes | None = None, at: float = 0.0
) -> Scene:
    """Return one picture of a timeline; see `timeline`."""
    if not flows.n_flows or t.end <= 0:
        return Scene(text("live.time.empty", n=flows.n_flows, end=units.format_time(t.end)), wrong=True)
    flow, lane, names, total = timelines.shown_lanes(t, flows, fabric, routes)
    places, times = timelines.axis_of(t)
    x0, x1, row = 140.0, 690.0, 22.0
    begin, end = (np.interp(v[flow], times, places) / places[-1] for v in (t.start, t.finish))
    left, right = x0 + (x1 - x0) * begin, x0 + (x1 - x0) * end
    slot, slots = timelines.slots_of(lane, left, right)
    high = 0.78 * row / slots[lane]
    y = 8 + row * lane + 0.11 * row + slot * high
    label = np.minimum(flows.label[flow], len(_FILL) - 1)
    busy = (begin <= at / 100) & (at / 100 < end)
    bottom = 8 + row * len(names)
    what = [f"{names[k]}, {flows.labels[flows.label[i]]}" for k, i in zip(lane, flow, strict=True)]
    spans = [[units.format_time(float(v[i])) for v in (t.start, t.finish)] for i in flow]
    sizes = [units.format_size(float(size)) for size in flows.size[flow]]
    notes = [text("live.time.bar", size=s, start=a, end=b) for s, (a, b) in zip(sizes, spans, strict=True)]
    line = x0 + (x1 - x0) * at / 100
    time = float(np.interp(at / 100 * places[-1], places, times))
    texts = {"x": np.array([x0, line, x1]), "y": np.full(3, bottom + 14.0), "align": np.array([0, 1, 2])}
    ends = ["0 s", units.format_time(time) if 12 < at < 85 else "", units.format_time(t.end)]
    layers = {
        "bars": Layer("boxes", {"x": left, "y": y, "w": np.maximum(right - left, 1.0), "h": high, "round": 1.0,
                                "colour": np.array([COLOUR[_FILL[i]] for i in label]), "hatch": np.minimum(label, 3),
                                "edge": np.where(busy, -1.0, 0.0), "alpha": np.where(busy, 1.0, 0.55),
                                "names": what, "notes": notes}),
        "lanes": Layer("texts", {"x": np.full(len(names), x0 - 8), "y": 8 + row * (np.arange(len(names)) + 0.5),
                                 "texts": list(names), "align": 2.0}),
        "now": lines([np.array([[line, 4.0], [line, bottom + 4]])], width=2.0),
        "ends": Layer("texts", {**texts, "texts": ends}),
    }  # fmt: skip
    kinds = [
        f"{n} {flows.labels[i]}" for i, n in zip(*np.unique(flows.label[flow[busy]], return_counts=True), strict=True)
    ]
    clock = {"now": units.format_time(time), "end": units.format_time(t.end)}
    said = text("live.time.said", **clock, busy=int(busy.sum()), n=flow.size) + f" {', '.join(kinds)}".rstrip()
    table = timelines.table_of(t, flows, flow, lane, names)
    alt = f"{flows.n_flows:,} flows of {total:,} lanes; {said}"
    return Scene(said, table, layers, bottom + 26, alt)


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
    marks = rulers.marks_of(measured, links)
    # illustrative: from a slow disk to more than a server's NVLinks together
    control = rate_slider("a link of", "10 MB/s", "10 TB/s")
    start = control.samples()[1] if rate is None else rate

    def scene(rate: float) -> Scene:
        return ruler_scene(marks, units.rate(f"{rate} {control.unit}"))

    mine = {k: float(v.busbw.max()) if isinstance(v, Result) else v for k, v in measured.items()}
    call = f"fl.live.ruler({mine!r}, {dict(links)!r}"
    return Live(call, scene, {"rate": control}, {"rate": start}, "ruler")


def ruler_scene(marks: Sequence[rulers.Mark], rate: float) -> Scene:
    """Return one picture of a ruler with a link of ``rate`` [B/s]; see `ruler`."""
    rows = sorted([*marks, (rate, text("live.ruler.yours"), "chosen", ())], key=lambda m: -m[0])
    rates = np.array([m[0] for m in rows])
    low, high = min(rates.min(), 1e7) / 1.5, max(rates.max(), 1e13) * 1.5
    x0, x1, row = 190.0, 610.0, 24.0
    to_x = _log(low, high, x0, x1)
    y = 10 + row * (np.arange(rates.size) + 0.5)
    bottom = 10 + row * rates.size
    here = {"measured here": "measured", "chosen": "predicted"}
    key = np.array([COLOUR[here.get(m[2], "ink")] for m in rows])
    decades = 10.0 ** np.arange(np.ceil(np.log10(low)), np.log10(high))
    layers = _ticks(decades, to_x, units.format_rate, (6.0, bottom), True)
    layers["bars"] = lines([np.array([[x0, b], [a, b]]) for a, b in zip(to_x(rates), y, strict=True)],
                           width=np.where(key != COLOUR["ink"], 5.0, 1.5),
                           colour=np.where(key == COLOUR["ink"], COLOUR["grey"], key))  # fmt: skip
    compared = [f", {_factor(m[0], rate)} {text('live.ruler.yours')}" if m[2] != "chosen" else "" for m in rows]
    times = [units.format_rate(m[0]) + words for m, words in zip(rows, compared, strict=True)]
    shape = np.where(key == COLOUR["ink"], 1, np.where(key == COLOUR["measured"], 0, 3))
    names, bold = [m[1] for m in rows], np.array([float(m[2] == "chosen") for m in rows])
    layers["dots"] = Layer("dots", {"x": to_x(rates), "y": y, "size": 5.0, "colour": key, "shape": shape,
                                    "names": names, "notes": times})  # fmt: skip
    layers["names"] = Layer("texts", {"x": np.full(rates.size, x0 - 8), "y": y, "texts": names, "align": 2.0,
                                      "bold": bold})  # fmt: skip
    layers["rates"] = Layer("texts", {"x": to_x(rates) + 10, "y": y, "texts": [units.format_rate(r) for r in rates]})
    mine = [m for m in marks if m[2] == "measured here"] or list(marks)
    factor = _factor(rate, mine[0][0])
    said = text("live.ruler.said", rate=units.format_rate(rate), factor=factor, other=mine[0][1])
    table = Table({"what": [m[1] for m in rows], "rate [B/s]": rates, "your link / this": rate / rates})
    words = [f"{m[1]}: {note}" for m, note in zip(rows, times, strict=True) if m[2] != "chosen"]
    return Scene(said, table, layers, bottom + 26, f"{said} " + "; ".join(words))


def range_scene(ends: tuple[float, float], marks: tuple[float, float, float], unit: str, said: str) -> Scene:
    """Return a logarithmic ruler with a range and a best value, in ``unit``."""
    low, best, high = marks
    to_x = _log(*ends, 20.0, 680.0)
    places = 10.0 ** np.arange(np.ceil(np.log10(ends[0])), np.log10(ends[1]) + 0.01)
    layers = _ticks(places, to_x, lambda v: f"{v:g}", (6.0, 46.0), True)
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


def race(runs: Mapping[str, Any], *, seconds: float | None = None) -> Live:
    """Let simulations race: show how far each is after the time that a logarithmic slider sets.

    Parameters
    ----------
    runs : mapping of label to simulation
        As `fabriclab.simulate` returns them.
    seconds : float, optional
        Time to show; that of the fastest unless given. [s]
    """
    times = [float(run.time) for run in runs.values()]
    control = Slider(min(times) / 100, max(times), label=text("live.race.time"), unit="s", log=True, play=True)

    def scene(seconds: float) -> Scene:
        return race_scene(runs, seconds)

    start = min(times) if seconds is None else seconds
    call = f"fl.live.race({{{', '.join(f'{k!r}: {k}' for k in runs)}}}"
    return Live(call, scene, {"seconds": control}, {"seconds": start}, text("live.race.title"))


def race_scene(runs: Mapping[str, Any], seconds: float) -> Scene:
    """Return how far each run is after some time, by the steps that it has ended [s]; see `race`."""
    parts, steps, state, ends = [], [], [], []
    for run in runs.values():
        t = run.timeline
        done = np.clip((seconds - t.group_start) / np.where(t.period > 0, t.period, np.inf), 0, t.repeat)
        over, total = seconds >= t.end, int(t.repeat.sum())
        parts.append(1.0 if over else seconds / t.end)
        steps.append(f"{total if over else int(done.sum() + 1e-9):,} / {total:,}")
        state.append(text("live.race.done", time=units.format_time(t.end)) if over else f"{parts[-1]:.1%}")
        ends.append(t.end)
    n, x0, wide, row = len(parts), 150.0, 440.0, 34.0
    y = 8 + row * np.arange(n)
    box = {"x": np.full(n, x0), "y": y, "h": np.full(n, row - 10)}
    middle, notes = y + (row - 10) / 2, [", ".join(words) for words in zip(state, steps, strict=True)]
    layers = {
        "way": Layer("boxes", {**box, "w": np.full(n, wide), "colour": COLOUR["none"], "edge": COLOUR["grey"]}),
        "bars": Layer("boxes", {**box, "w": np.maximum(wide * np.array(parts), 1.0), "colour": COLOUR["predicted"],
                                "names": list(runs), "notes": notes}),
        "names": Layer("texts", {"x": np.full(n, x0 - 8), "y": middle, "texts": list(runs), "align": 2.0}),
        "state": Layer("texts", {"x": np.full(n, x0 + wide + 8), "y": middle, "texts": state}),
    }  # fmt: skip
    table = Table({"run": list(runs), "part [%]": 100 * np.array(parts), "steps ended": steps, "end [s]": ends})
    words = ", ".join(f"{name} {how}" for name, how in zip(runs, state, strict=True))
    said = text("live.race.said", time=units.format_time(seconds), list=words)
    return Scene(said, table, layers, float(y[-1]) + row, said)


def table(function: Callable[..., Table], controls: Mapping[str, Control], said: str = "", **values: Any) -> Live:
    """Show a table that follows controls.

    Parameters
    ----------
    function : callable
        From the values of the controls to a `views.Table`.
    controls : mapping of str to Slider or Choice
        Its controls.
    said : str
        The sentence, where the table has no caption.
    **values
        Where the controls stand.
    """

    def scene(**values: Any) -> Scene:
        made = function(**values)
        return Scene(made.caption or said, made, {}, 0.0, str(made))

    start = {name: c.samples()[0] for name, c in controls.items()} | values
    call = f"fl.live.table({getattr(function, '__name__', 'function')}, {dict(controls)!r}, {said!r}"
    return Live(call, scene, controls, start, text("live.table.title"))


def _factor(a: float, b: float) -> str:
    """Return how many times as fast ``a`` is as ``b``."""
    if max(a / b, b / a) < 1.05:
        return text("live.ruler.equal")
    return text("live.ruler.faster" if a > b else "live.ruler.slower", factor=f"{max(a / b, b / a):.3g}")
