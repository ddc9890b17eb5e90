"""Live views of a training step: its timeline on all stages, and the communication roofline of tensor parallelism."""

from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from fabriclab import units
from fabriclab.catalog import case
from fabriclab.core import Floats, Flows, Ints
from fabriclab.texts import text
from fabriclab.training import DOUBLED, Step, StepTimeline, scaling, step_timeline
from fabriclab.views.asides import WIDTH, Curve, Spot, curve_panel
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, heading, lines, texts
from fabriclab.views.timelines import hues_of, legend_end, named_samples, timeline_scene
from fabriclab.workload import layouts, models

_NOTHING = "nothing"
_PICTURE = 560.0  # width of a picture with a panel beside it [px]
_PANEL = 246.0  # least height of the panel [px]
_ROW = 34.0  # height of a row of the panel [px]
_TOP = 44.0  # of the first row [px]
_NAME = 112.0  # room for the name of a row [px]
_NUMBER = 62.0  # room for its number [px]
_BAR = 16.0  # height of a bar [px]
_LEGEND = 560.0  # room for the legend [px]
_LEAST_SHARE = 0.05  # of a step, in percent: a smaller one would read 0.0 %

# Columns of the table of a step: the kinds of bars, as `fabriclab.training.timeline.NAMES` has them, that each adds up.
_COLUMNS = {
    "computes": ("forward", "backward", "optimiser"),
    "sums": ("tensor",),
    "sends": ("context", "experts", "pipeline"),
    "gradients": ("gradients", "parameters"),
    "waits": ("wait",),
}
_LINKS = ("scale-up", "network")
_LEAST_HIDDEN = 2048
_MOST_HIDDEN = 24_576
_HIDDEN_STEP = 1024  # the eight heads of keys and values of the case, of 128 numbers each
# Ends of the axis of the roofline: a decade around the models of the slider. [FLOP/B]
_LEAST_INTENSITY = 300.0
_MOST_INTENSITY = 30_000.0
_TERA = 1e12
_ROOFLINE_HEIGHT, _ROOFLINE_WIDTH = 340.0, 880.0  # [px]
_BESIDE = 10.0  # from a roof to its name [px]
_AXIS = 56.0  # right end of the ticks of the y axis [px]


def step(step: Step, *, twice: str = _NOTHING) -> Live:
    """Show when each stage of a training step computes, sums and waits, and the step with one thing twice as fast.

    The panel compares the times of the step for all things that could be twice as fast.

    Parameters
    ----------
    step : Step
        A step of `fabriclab.training`.
    twice : str
        "nothing", "compute", "memory", "scale-up" or "network".
    """
    options = (_NOTHING, *DOUBLED)
    controls: dict[str, Control] = {"twice": Choice(options, names=tuple(map(_spoken, options)))}
    for what in options:  # once, so that no later move of the control waits for it
        _changed(step, what)
    arguments = {"step": step, "twice": twice}
    return live_view("step", arguments, partial(step_scene, step), controls, held=("step",))


def step_scene(step: Step, twice: str) -> Scene:
    """Return the timeline of a step with one thing twice as fast, and its time among the others."""
    changed = _changed(step, twice)
    shown = step_timeline(changed)
    timeline, flows = shown.graph()
    scene = timeline_scene(
        timeline, flows, partial(_lane_name, shown.stages), width=_PICTURE, height=_PANEL - 20
    )
    layers = {**scene.layers, **_legend(flows)}
    said = _sentence(step, changed, twice)
    side = _panel(step, twice, max(_PANEL, scene.height))
    return Scene(
        said,
        _lanes(shown),
        layers,
        scene.height,
        alt=said,
        caption=scene.caption,
        width=_PICTURE,
        side=side,
    )


def _lanes(shown: StepTimeline) -> Table:
    """Return for each lane of the picture how long it does what, in place of a row for each of its many bars."""
    columns: dict[str, list[float]] = {}
    for column, names in _COLUMNS.items():
        times = [
            sum(shown.total(name, stage) for name in names) for stage in range(shown.stages)
        ]  # [s]
        columns[column] = times

    lanes = [_lane_name(shown.stages, lane) for lane in range(shown.stages)]
    if shown.overlapped:
        # The NIC of the first stage sends gradients and parameters while stages compute.
        sent = sum(bar.time for bar in shown.overlapped)  # [s]
        for column, times in columns.items():
            times.append(sent if column == "gradients" else 0.0)
        lanes.append(_lane_name(shown.stages, shown.stages))
    table: dict[str, list[str] | list[float]] = {text("live.step.lane"): lanes}
    for column, times in columns.items():
        if any(times):
            table[text(f"live.step.{column}_seconds")] = times
    return Table(table)


@lru_cache(maxsize=64)
def _changed(step: Step, twice: str) -> Step:
    """Return the step with one thing twice as fast; equal questions are asked once."""
    return step if twice == _NOTHING else step.faster(twice)


def _spoken(what: str, view: str = "step") -> str:
    """Return what can be twice as fast, as a reader sees it."""
    return text(f"live.{view}.{what}")


def _lane_name(stages: int, lane: int) -> str:
    """Return the name of a lane: of a stage, or of the NIC below all stages."""
    if lane == stages:
        # It is that of the first stage: the other stages compute at other times.
        first = text("live.step.stage", n=0)
        return text("live.step.nic") if stages == 1 else text("live.step.nic_of", stage=first)
    if stages == 1:
        return text("live.step.gpu")
    return text("live.step.stage", n=lane)


def _legend(flows: Flows) -> dict[str, Layer]:
    """Return a sample for each kind of bar; where room is short, those that take least time are left out."""
    time = np.bincount(flows.label, flows.lag, len(flows.labels))  # (K,) [s]
    order = np.argsort(-time, kind="stable").tolist()
    hues = hues_of(flows.labels)
    for n in range(len(order), 0, -1):
        kept = sorted(order[:n])
        drawn = named_samples([flows.labels[kind] for kind in kept], hues[kept])
        if legend_end(drawn) <= _LEGEND:
            break
    return drawn


def _sentence(step: Step, changed: Step, twice: str) -> str:
    """Return the finding: what a step consists of, or what the faster part changes."""
    if twice == _NOTHING:
        who = text("live.step.each_gpu" if len(step.stages) == 1 else "live.step.slowest")
        return text("live.step.as_it_is", time=step.time, who=who, parts=_shares(step))
    return text(
        "live.step.said",
        what=_spoken(twice),
        time=changed.time,
        before=step.time,
        less=100 * (1 - changed.time / step.time),
    )


def _shares(step: Step) -> str:
    """Return what the slowest stage does with the step, without the parts that round to nothing."""
    shares = {}
    for name in ("compute", "tensor", "gradients", "bubble"):
        shares[name] = 100 * step.parts[name] / step.time
    shares["others"] = 100 - sum(shares.values())
    clauses = [
        text(f"live.step.part.{name}", share=share)
        for name, share in shares.items()
        if share >= _LEAST_SHARE
    ]
    *before, last = clauses
    if not before:
        return last
    if len(before) == 1:
        return text("live.step.part_two", first=before[0], last=last)
    return text("live.step.part_last", parts=", ".join(before), last=last)


def _panel(step: Step, twice: str, height: float) -> Scene:
    """Return a bar for the time of the step with each thing twice as fast; the shown one is in ink."""
    options = (_NOTHING, *DOUBLED)
    times = np.array([_changed(step, what).time for what in options])  # (5,) [s]
    top = _TOP + _ROW * np.arange(len(options))
    room = WIDTH - _NAME - _NUMBER
    colour = np.where(np.array(options) == twice, COLOUR["ink"], COLOUR["edge"])
    names = [_spoken(what) for what in options]
    numbers = [units.format_time(float(time)) for time in times]
    bold = (np.array(options) == twice).astype(np.float64)
    layers: dict[str, Layer] = {
        "title": heading(20.0, text("live.step.panel"), 12.0),
        "bars": boxes(
            _NAME,
            top,
            room * times / times.max(),
            _BAR,
            round=2.0,
            colour=colour,
            names=names,
            notes=numbers,
        ),
        "names": texts(_NAME - 8, top + _BAR / 2, names, align=2.0, bold=bold),
        "numbers": texts(
            _NAME + room * times / times.max() + 6, top + _BAR / 2, numbers, bold=bold
        ),
    }
    return Scene("", layers=layers, height=height, width=WIDTH)


# Communication roofline -------------------------------------------------------------------------


def roofline(hidden: int = 8192, *, over: str = "network") -> Live:
    """Show how fast the GPUs of the running case can compute, given what they send for tensor parallelism.

    The model has the shape of that of the case and another hidden size. The rate is the lower of two: what the GPU
    sustains, and the operations for each byte times the rate of the link. Leaves out latency, and that sums and
    computation could overlap in part.

    Parameters
    ----------
    hidden : int
        Hidden size of the model, a multiple of 1,024. 2,048..24,576
    over : str
        What carries the tensor sums: "scale-up", the links inside a server, or "network", the NIC of each GPU.
    """
    arguments = {"hidden": hidden, "over": over}
    controls: dict[str, Control] = {
        "hidden": Slider(_LEAST_HIDDEN, _MOST_HIDDEN, _HIDDEN_STEP),
        "over": Choice(_LINKS, names=tuple(_spoken(link, "roofline") for link in _LINKS)),
    }
    return live_view("roofline", arguments, roofline_scene, controls)


def roofline_scene(hidden: int, over: str) -> Scene:
    """Return both roofs, the model on one of them, and the sizes around it as small dots."""
    job = case()
    rate = job.sustained_bf16  # [FLOP/s]
    links = dict(zip(_LINKS, (job.tp_busbw, job.nic_rate), strict=True))  # [B/s]
    sizes, intensities = _intensities()
    here = float(intensities[sizes == hidden][0])
    reached = min(rate, here * links[over])
    said = text(
        f"live.roofline.{'fabric' if reached < rate else 'gpus'}",
        hidden=hidden,
        intensity=here,
        link=_spoken(over, "roofline"),
        reached=reached / _TERA,
        rate=rate / _TERA,
    )
    x = np.geomspace(_LEAST_INTENSITY, _MOST_INTENSITY, 200)
    curves = []
    for name, bandwidth in links.items():
        colour = COLOUR["ink" if name == over else "edge"]
        curves.append(Curve("", x, np.minimum(rate, x * bandwidth) / _TERA, colour))
    others = np.minimum(rate, intensities * links[over]) / _TERA
    dots = Curve("", intensities, others, COLOUR["edge"], shape=0.0, joined=False)
    picture = curve_panel(
        text("live.roofline.rate"),
        text("live.roofline.intensity"),
        [*curves, dots],
        [Spot(here, reached / _TERA, text("live.roofline.here", hidden=hidden))],
        show_x=lambda value: f"{value:,.0f}",
        show_y=lambda value: f"{value:,g}",
        log_x=True,
        log_y=True,
        height=_ROOFLINE_HEIGHT,
        width=_ROOFLINE_WIDTH,
    )
    layers = {**picture.layers, **_roof_names(picture, over, rate), **_reading(picture, reached)}
    rows = {
        "hidden size": sizes,
        "FLOP for each byte": np.round(intensities),
        "reached [TFLOP/s]": np.round(others),
    }
    more = text("live.roofline.more")
    return replace(picture, said=said, alt=said, table=Table(rows), layers=layers, hint=more)


def _roof_names(picture: Scene, over: str, rate: float) -> dict[str, Layer]:
    """Return the name of each link beside its roof, and of what a GPU sustains below their level part."""
    fields = picture.layers["curves"].fields
    ends = fields["ptr"].astype(int)
    x, y = ([np.split(fields[axis], ends[1:-1])[i] for i in (0, 1)] for axis in "xy")
    corner = np.argmin(y[0])  # of the upper roof, where it becomes level
    middle = np.argmin(np.abs(y[1] - (y[1].min() + y[1].max()) / 2))  # of the lower one's slope
    level = y[0][corner] - _BESIDE - 2
    places = [
        (x[0][corner] + _BESIDE, level),
        (x[1][middle] + _BESIDE, y[1][middle] + _BESIDE),
        (x[0][-1], level + 2 * _BESIDE + 6),  # below, as the present state is named above it
    ]
    across, up = np.array(places).T
    is_chosen = np.array([*(link == over for link in _LINKS), False])
    names = [_spoken(link, "roofline") for link in _LINKS]
    return {
        "roofs": texts(
            across,
            up,
            [*names, text("live.roofline.sustained", rate=rate / _TERA)],
            align=np.array([0.0, 0.0, 2.0]),
            bold=is_chosen.astype(float),
            colour=np.where(is_chosen, COLOUR["ink"], COLOUR["soft"]),
            halo=1.0,
        )
    }


def _reading(picture: Scene, reached: float) -> dict[str, Layer]:
    """Return a line from the present state to the y axis, with its value there."""
    spot = picture.layers["current"].fields
    x, y = float(spot["x"][0]), float(spot["y"][0])
    return {
        "reading": lines([np.array([[_AXIS + 6, y], [x, y]])], width=1.0, colour=COLOUR["edge"]),
        "read": texts(_AXIS, y, [f"{reached / _TERA:.0f}"], align=2.0, bold=1.0, halo=1.0),
    }


@lru_cache(maxsize=1)
def _intensities() -> tuple[Ints, Floats]:
    """Return hidden sizes (N,), and the operations for each byte of tensor sums that models of them need (N,)."""
    job = case()
    shape = models.of_case(job)
    layout = layouts.of_case(job)
    sizes = np.arange(_LEAST_HIDDEN, _MOST_HIDDEN + 1, _HIDDEN_STEP)
    found = []
    for size in sizes:
        found.append(scaling.intensity(scaling.sized(shape, int(size)), layout, "tensor"))
    return sizes, np.array(found)
