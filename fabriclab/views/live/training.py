"""Live views of training: pipeline bubbles, parameter servers, and the wait for gradients.

Gradients are reduced in buckets that overlap with the backward pass, or in one all-reduce that a slow rank delays.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fabriclab import collectives, engines, topologies, units, workload
from fabriclab.catalog import Case, case
from fabriclab.core import Fabric, Flags, Floats, Flows, Ints, Timeline
from fabriclab.look import algorithm
from fabriclab.routing import route
from fabriclab.simulation import Simulation, simulate
from fabriclab.texts import text
from fabriclab.views import timelines
from fabriclab.views.asides import Curve, Spot, curve_panel
from fabriclab.views.common import common_ends
from fabriclab.views.layout import counted
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    lines,
    scale,
    shade,
    texts,
    texts_at,
    tick_layers,
)
from fabriclab.views.sweeps import readable
from fabriclab.views.timelines import idle_of, timeline_scene

_FORWARD = 1.0  # illustrative: time of a forward pass [s]
_BACKWARD = 2.0  # illustrative: a backward pass is twice the work [s]
_RATE = 1e9  # illustrative: slow enough for messages to be seen [B/s]
_SIZE = 1e8  # illustrative: of a model, large enough for messages to be seen [B]
_WORKERS = 4
_MOST_BATCHES = 32
_PANEL = 246.0  # least height of a panel with a curve [px]
_LEAST_BUCKET = 25  # [MB]
_HIDDEN = 5e-4  # less overlap than this shows as 0.000 s [s]
_MOST_STALE = 3
_MOST_SERVERS = 4
_STEPS = 12
_DELAYED = ("nobody", "one worker", "by chance")
_LATE_SHAPES = {"nobody": 3.0, "one worker": 4.0, "by chance": 5.0}  # of the dots of each curve
_BUCKET_ALGORITHMS = ("ring", "halving_doubling", "binomial_tree")
_STRAGGLER_ALGORITHMS = ("ring", "binomial_tree")
_MOST = 16  # so many lanes fit into the picture
_ROUNDING = 1e-9  # a message that is late by less counts as on time [s]
_END_CENTRED = (
    440.0  # the name of an end is centred on its line up to here; further right it ends there [px]
)
_MOST_SLOW = 16  # greatest factor of a slow rank
_FACTORS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, float(_MOST_SLOW))  # of the curve of times
_PICTURE = 560.0  # width of a picture with a panel beside it [px]

# Overlap: a strip for each way to schedule, with two lanes; and the same again, magnified. [px]
_STRIP_LEFT = 112.0
_STRIP_RIGHT = _PICTURE - 30
_LANES = {1: 32.0, 2: 20.0}  # height of a lane by the number of strips
_STRIP_TOP = 46.0
_STRIP_GAP = 24.0
_AXIS = 34.0  # room for ticks below strips
_MAGNIFIED = 10  # times
_BEFORE = 1 / 3  # part of what is magnified that lies before the end of the backward pass
_THIN = 2.5  # a bar without an edge of its own, beside another of its kind
_TICK = 0.5  # a time axis ends at a multiple of this [s]


# Computations as bars ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PatternRun:
    """A pattern of computations and messages, with the times that an engine computed for it."""

    flows: Flows
    timeline: Timeline

    @property
    def computes(self) -> Flags:
        """Which flows are computations, (F,)."""
        return np.asarray(self.flows.lag > 0)


def run_pattern(
    pattern: str, ranks: int, size: float, engine: str = "flow", **options: Any
) -> PatternRun:
    """Build a pattern of `fabriclab.workload`, and run it on a crossbar with ``ranks`` hosts."""
    star = topologies.build("crossbar", hosts=ranks, rate=_RATE)
    flows = workload.build(pattern, star, size, **options)
    timeline = engines.run(star, route(star, flows), flows, engine)
    return PatternRun(flows, workload.spans(timeline, flows))


def computations_scene(run: PatternRun, lane: str, group: int) -> Scene:
    """Return a picture of the computations of a run as numbered bars, with a lane for each rank.

    Parameters
    ----------
    run : PatternRun
        What to draw.
    lane : str
        What a lane is called, such as "stage"; also the name of its column in the table.
    group : int
        How many computations of one kind share a number, because they belong to one micro-batch or one step.
    """
    which = np.flatnonzero(run.computes)  # (C,) flows that are computations
    flows = Flows.make(
        run.flows.source[which],
        run.flows.target[which],
        0.0,
        label=run.flows.label[which],
        labels=run.flows.labels,
    )
    timeline = replace(
        run.timeline, start=run.timeline.start[which], finish=run.timeline.finish[which]
    )
    numbers = numbers_in_kind(flows.label, group)
    drawn_kinds = {flows.labels[label] for label in flows.label}

    drawn = timeline_scene(timeline, flows, f"{lane} {{}}".format, width=_PICTURE)
    kinds = [label for label in flows.labels if label in timelines.HUES and label in drawn_kinds]
    words = [*kinds, text("timeline.waits")]
    colours = [timelines.hue(kind) for kind in kinds] + [COLOUR["sunk"]]
    layers = {
        "idle": idle_of(drawn.layers["bars"], np.unique(drawn.layers["bars"].fields["y"])),
        **drawn.layers,
        **timelines.named_samples(words, np.array(colours)),
        "bars": timelines.with_numbers(
            drawn.layers["bars"], [f"{number}" for number in numbers.tolist()]
        ),
    }
    columns = {
        lane: flows.source,
        "what": [flows.labels[label] for label in flows.label],
        "number": numbers,
        "start [s]": timeline.start,
        "finish [s]": timeline.finish,
    }
    return replace(drawn, table=Table(columns), layers=layers)


def numbers_in_kind(labels: NDArray[np.int32], group: int) -> Ints:
    """Return the number of each computation within its kind, counted from 1; ``group`` computations share a number.

    ``labels`` (C,) are the kinds; they must be sorted, so that computations of one kind follow each other.
    """
    first = np.searchsorted(labels, labels)  # (C,) index of the first of its kind
    numbers: Ints = (np.arange(labels.size) - first) // group + 1
    return numbers


# Pipeline ---------------------------------------------------------------------------------------


def bubble(stages: int = 4, microbatches: int = 8, schedule: str = "GPipe") -> Live:
    """Show when each stage of a pipeline computes, and the bubble: the fraction of the time in which stages idle.

    A backward pass takes twice as long as a forward pass, and sending takes no time. With the interleaved schedule
    each stage has two parts of the model, and the number of micro-batches must be a multiple of ``stages``; it is
    rounded up to the next multiple.

    Parameters
    ----------
    stages, microbatches : int
        Number of stages, 2..8, and of micro-batches, 1..32.
    schedule : str
        GPipe, 1F1B or interleaved.
    """
    arguments = {"stages": stages, "microbatches": microbatches, "schedule": schedule}
    controls: dict[str, Control] = {
        "stages": Slider(2, 8),
        "microbatches": Slider(1, _MOST_BATCHES),
        "schedule": Choice(("GPipe", "1F1B", "interleaved")),
    }
    return live_view("bubble", arguments, bubble_scene, controls)


def bubble_scene(stages: int, microbatches: int, schedule: str) -> Scene:
    """Return a picture of the passes of all stages as bars, with bubble and stored activations in words."""
    parts = 2 if schedule == "interleaved" else 1  # of the model at each stage
    shown = whole_batches(stages, microbatches, schedule)
    run = pipeline_run(stages, shown, schedule)
    share = idle_share(run, stages)
    caption = text(
        "live.bubble.said",
        stages=stages,
        m=shown,
        schedule=schedule,
        share=100 * share,
    )
    more = text(
        "live.bubble.form",
        form=100 * bubble_form(stages, shown, parts),
        held=most_activations(run, stages) / parts,
        sent=np.count_nonzero(run.flows.source != run.flows.target),
    )
    if shown > microbatches:
        caption += " " + text("live.bubble.more", m=shown, stages=stages)
    scene = computations_scene(run, "stage", group=stages * parts)
    side = bubble_panel(stages, shown, schedule, share, scene.height)
    return replace(scene, said=caption, alt=f"{caption} {more}", hint=more, side=side)


def whole_batches(stages: int, microbatches: int, schedule: str) -> int:
    """Return the number of micro-batches that a schedule runs: interleaved ones are a multiple of the stages."""
    if schedule != "interleaved":
        return microbatches
    return -(-microbatches // stages) * stages


@lru_cache(maxsize=512)
def pipeline_run(stages: int, microbatches: int, schedule: str) -> PatternRun:
    """Run the passes of a pipeline; its messages take no time, so none waits for another."""
    is_interleaved = schedule == "interleaved"
    return run_pattern(
        "pipeline",
        stages,
        0.0,
        "ideal",
        stages=range(stages),
        microbatches=microbatches,
        order="1f1b" if is_interleaved else schedule.lower(),
        chunks=2 if is_interleaved else 1,
        forward=_FORWARD,
        backward=_BACKWARD,
    )


def bubble_form(stages: int, microbatches: Any, parts: int) -> Any:
    """Return the closed form of the bubble, as a fraction of the time."""
    return (stages - 1) / (parts * microbatches + stages - 1)


def bubble_panel(stages: int, shown: int, schedule: str, share: float, height: float) -> Scene:
    """Return the bubble over the number of micro-batches, with the current state."""
    each = np.arange(1.0, _MOST_BATCHES + 1)
    interleaved = each[each % stages == 0]
    curves = [
        Curve(
            "GPipe, 1F1B",
            each,
            100 * bubble_form(stages, each, 1),
            COLOUR["ink" if schedule != "interleaved" else "edge"],
        ),
        Curve(
            "interleaved",
            interleaved,
            100 * bubble_form(stages, interleaved, 2),
            COLOUR["ink" if schedule == "interleaved" else "edge"],
            shape=3.0,
        ),
    ]
    return curve_panel(
        text("live.bubble.share"),
        text("live.bubble.microbatches"),
        curves,
        [Spot(shown, 100 * share, f"{100 * share:.1f} %")],
        show_x=lambda value: f"{value:g}",
        show_y=lambda value: f"{value:g} %",
        height=max(height, _PANEL),
    )


def idle_share(run: PatternRun, ranks: int) -> float:
    """Return the fraction of the time, over all ``ranks`` ranks, in which they do not compute, 0..1."""
    timeline = run.timeline
    busy = np.sum(timeline.finish - timeline.start, where=run.computes)  # [s], sum over all ranks
    return float(1 - busy / (ranks * timeline.end))


def most_activations(run: PatternRun, stages: int) -> int:
    """Return the largest number of forward passes whose activations a stage stores at the same time.

    A stage stores activations from the start of a forward pass to the end of the backward pass that belongs to it.
    """
    begun = np.sort(by_stage(run, run.timeline.start, "forward", stages))  # (S, M) [s]
    ended = np.sort(by_stage(run, run.timeline.finish, "backward", stages))  # (S, M) [s]

    # At each start of a forward pass: how many backward passes of the stage have ended, up to rounding.
    over = np.count_nonzero(ended[:, None] <= begun[..., None] + 1e-6, axis=2)  # (S, M)
    forward_passes = np.arange(1, begun.shape[1] + 1)  # (M,) number begun by then
    return int(np.max(forward_passes - over))


def by_stage(run: PatternRun, times: Floats, kind: str, stages: int) -> Floats:
    """Return the times of one kind of computation, with a row for each stage, (S, M)."""
    labels = np.array(run.flows.labels)[run.flows.label]
    which = np.flatnonzero(run.computes & (labels == kind))
    order = np.argsort(run.flows.source[which], kind="stable")
    return times[which][order].reshape(stages, -1)


# Parameter server -------------------------------------------------------------------------------


def staleness(staleness: int = 0, late: str = "by chance", servers: int = 1) -> Live:
    """Show the steps of four workers that train with parameter servers, under a bound on staleness.

    Each step of a worker computes for 1 s unless the worker is late. Its messages take 0.1 s at the rate of one link.

    Parameters
    ----------
    staleness : int
        Number of steps that a worker may be ahead of the slowest worker. 0..3
    late : str
        Who is late: "nobody"; "one worker", by 1 s in every step; or workers "by chance", who then need 0.4 to 1.6 s
        for each step.
    servers : int
        Number of parameter servers, which have equal parts of the model. 1..4
    """
    arguments = {"staleness": staleness, "late": late, "servers": servers}
    controls: dict[str, Control] = {
        "staleness": Slider(0, _MOST_STALE),
        "late": Choice(_DELAYED),
        "servers": Slider(1, _MOST_SERVERS),
    }
    for who in _DELAYED:  # once, so that no later move of a control waits for it
        for number in range(1, _MOST_SERVERS + 1):
            step_times(who, number)
    return live_view("staleness", arguments, staleness_scene, controls)


def staleness_scene(staleness: int, late: str, servers: int) -> Scene:
    """Return a picture of the steps of all workers as bars, with the time of a step and the waiting in words."""
    run = workers_run(staleness, late, servers)
    end = run.timeline.end
    caption = text(
        "live.staleness.said",
        staleness=staleness,
        late=late,
        servers=servers,
        steps=_STEPS,
        time=end / _STEPS,
        wait=100 * (1 - compute_times(late).sum() / (_WORKERS * end)),
    )
    scene = computations_scene(run, "worker", group=_WORKERS)
    each = np.arange(_MOST_STALE + 1.0)
    curves = []
    for who, shape in _LATE_SHAPES.items():
        colour = COLOUR["ink" if who == late else "edge"]
        curves.append(Curve(who, each, step_times(who, servers), colour, shape))
    side = curve_panel(
        text("live.staleness.panel"),
        text("live.staleness.staleness"),
        curves,
        [Spot(staleness, end / _STEPS, units.format_time(end / _STEPS))],
        show_x=lambda value: f"{value:g}",
        show_y=lambda value: f"{value:g} s",
        height=max(scene.height, _PANEL),
    )
    return replace(scene, said=caption, alt=caption, side=side)


@lru_cache(maxsize=64)
def workers_run(staleness: int, late: str, servers: int) -> PatternRun:
    """Run the steps of all workers with their messages."""
    return run_pattern(
        "parameter_server",
        _WORKERS + servers,
        _SIZE,
        compute=compute_times(late),
        steps=_STEPS,
        staleness=staleness,
        workers=range(_WORKERS),
        servers=_WORKERS + np.arange(servers),
    )


def step_times(late: str, servers: int) -> Floats:
    """Return the mean time of a step for each bound on staleness [s]."""
    ends = [workers_run(bound, late, servers).timeline.end for bound in range(_MOST_STALE + 1)]
    return np.array(ends) / _STEPS


def compute_times(late: str) -> Floats:
    """Return the computing time of each step of each worker, (steps, workers). [s]."""
    times = np.ones((_STEPS, _WORKERS))
    if late == "by chance":
        times = np.random.default_rng(0).uniform(0.4, 1.6, times.shape)
    if late == "one worker":
        times[:, 0] += 1.0
    return times


# Buckets of gradients ---------------------------------------------------------------------------


def overlap(
    *,
    bucket: float | None = None,
    start: float | None = None,
    way: str = "ring",
    priority: bool | str = False,
) -> Live:
    """Show how the gradient all-reduces of the running case overlap with its last backward and its next forward pass.

    The gradients are reduced in buckets of equal size.

    Parameters
    ----------
    bucket : float, optional
        Size of a bucket; by default one bucket for all gradients. [MB]
    start : float, optional
        Latency of each step of an all-reduce, before its first byte; by default that of the case. [us]
    way : str
        Algorithm that reduces a bucket: ring, halving_doubling or binomial_tree.
    priority : bool or str
        Whether the next forward pass waits only for the buckets that it needs, instead of all buckets; as in the
        pattern ``data_parallel``. "both" shows the two schedules on one time axis.
    """
    if not isinstance(priority, bool):
        units.choice(priority, "priority", ("both",))
    job = case()
    gradients = float(f"{job.dp_gradients / 1e6:.3g}")  # as the sentence has it [MB]
    arguments = {
        "bucket": gradients if bucket is None else bucket,
        "start": job.ring_step_latency * 1e6 if start is None else start,
        "way": way,
        "priority": priority,
    }
    controls: dict[str, Control] = {
        "bucket": Slider(_LEAST_BUCKET, gradients, unit="MB", log=True),
        # illustrative: from a fast switch to a slow software stack
        "start": Slider(1, 20, 0.1, unit="us"),
        "way": Choice(_BUCKET_ALGORITHMS, names=tuple(map(spoken, _BUCKET_ALGORITHMS))),
    }
    scene = partial(overlap_scene, job, priority)
    return live_view("overlap", arguments, scene, controls)


@dataclass(frozen=True, slots=True)
class Strip:
    """A step with its gradient all-reduces, as it is drawn: a lane of computations above one of communication."""

    name: str
    flows: Flows
    timeline: Timeline
    exposed: float  # [s]

    @property
    def reduces(self) -> Flags:
        """Which flows are all-reduces, (F,)."""
        return workload.labelled(self.flows, "all-reduce")

    @property
    def ready(self) -> float:
        """When the backward pass has ended [s]."""
        return float(self.timeline.finish[workload.labelled(self.flows, "backward")].max())

    def waits(self) -> Floats:
        """Return the begin and the end of each time in which nothing is computed, (W, 2) [s]."""
        which = np.flatnonzero(~self.reduces)
        order = which[np.argsort(self.timeline.start[which], kind="stable")]
        until = np.maximum.accumulate(self.timeline.finish[order])[:-1]
        following = self.timeline.start[order][1:]
        gaps = np.stack([until, following], axis=1)
        return gaps[following - until > _ROUNDING]


@lru_cache(maxsize=64)
def strip_of(job: Case, buckets: int, latency: float, way: str, priority: bool) -> Strip:
    """Run the end of a job's step and return it as a strip."""
    flows = gradient_step(job, buckets, latency, way, priority)
    streams = workload.streams(flows)
    timeline = engines.run(streams, route(streams, flows), flows, "ideal")
    timeline = workload.spans(timeline, flows)
    reduces = workload.labelled(flows, "all-reduce")
    exposed = workload.exposed(timeline, flows, ~reduces, reduces)
    name = text(f"live.overlap.{'priority' if priority else 'barrier'}")
    return Strip(name, flows, timeline, exposed)


def overlap_scene(job: Case, priority: bool | str, bucket: float, start: float, way: str) -> Scene:
    """Return a picture of passes and buckets as bars, with the exposed part of the all-reduces in words."""
    buckets = max(1, round(job.dp_gradients / 1e6 / bucket))
    schedules = (False, True) if priority == "both" else (bool(priority),)
    strips = [strip_of(job, buckets, start * 1e-6, way, each) for each in schedules]

    total = strips[0].flows.lag[strips[0].reduces].sum()
    exposed = strips[0].exposed
    hidden = total - exposed
    said = text(
        "live.overlap.said" if hidden >= _HIDDEN else "live.overlap.said_none",
        n=counted(buckets, "bucket"),
        size=job.dp_gradients / buckets,
        way=spoken(way),
        took=seconds_words(total),
        hidden=hidden / total,
        over=text("live.overlap.under_both" if schedules[0] else "live.overlap.under_backward"),
        waits=seconds_words(exposed),
    )
    if priority == "both":
        less = seconds_words(strips[1].exposed)
        both = text("live.overlap.both", waits=seconds_words(exposed), less=less)
        said = f"{both} {said}"
    steps = text("live.overlap.steps", start=start * 1e-6)
    layers, height = strip_layers(strips)
    side = overlap_panel(job, strips, buckets, start * 1e-6, way, height)
    return Scene(
        said,
        strip_table(strips),
        layers,
        height,
        alt=f"{said} {steps}",
        width=_PICTURE,
        side=side,
        hint=text("live.overlap.hint"),
    )


def seconds_words(time: float) -> str:
    """Return a time in seconds with at most three decimals, so that all of a picture have one unit."""
    digits = 3 if time < 1 else 2 if time < 10 else 1
    return f"{time:.{digits}f} s"


def strip_table(strips: list[Strip]) -> Table:
    """Return a table of all bars of some strips."""
    columns: dict[str, Any] = {}
    if len(strips) > 1:
        names = [strip.name for strip in strips]
        columns["schedule"] = np.repeat(names, [strip.flows.n_flows for strip in strips]).tolist()
    kinds = [np.array(strip.flows.labels)[strip.flows.label] for strip in strips]
    columns["what"] = np.concatenate(kinds).tolist()
    columns["start [s]"] = np.concatenate([strip.timeline.start for strip in strips])
    columns["finish [s]"] = np.concatenate([strip.timeline.finish for strip in strips])
    return Table(columns)


def strip_layers(strips: list[Strip]) -> tuple[dict[str, Layer], float]:
    """Return the layers of some strips on one time axis and magnified below it, and the height of the picture [px]."""
    _, end = common_ends("time", 0.0, max(strip.timeline.end for strip in strips))
    whole = (0.0, _TICK * np.ceil(end / _TICK))
    length = whole[1] / _MAGNIFIED
    ready = strips[0].ready
    part = (ready - _BEFORE * length, ready + (1 - _BEFORE) * length)

    kinds = ("backward", "all-reduce", "forward")
    colours = np.array([timelines.hue(kind) for kind in kinds] + [COLOUR["none"]])
    hatches = np.array([0.0] * len(kinds) + [1.0])
    words = [*kinds, text("live.overlap.exposed")]
    layers = timelines.named_samples(words, colours, top=6.0, hatches=hatches)
    lane = _LANES[len(strips)]
    apart = 2 * lane + _STRIP_GAP  # from one strip to the next
    below = _STRIP_TOP + apart * len(strips) - _STRIP_GAP
    again = below + _AXIS + 40
    end_of_part = again + apart * len(strips) - _STRIP_GAP
    layers |= time_layers(whole, _STRIP_TOP - 4, below + 6, "")
    layers |= time_layers(part, again - 4, end_of_part + 6, "part ")
    layers |= lens_layers(whole, part, below + 6, again - 4)
    for number, strip in enumerate(strips):
        named = len(strips) > 1
        down = apart * number
        layers |= one_strip(strip, whole, _STRIP_TOP + down, lane, named, f"{number} ")
        layers |= one_strip(strip, part, again + down, lane, named, f"part {number} ")
        layers |= length_layer(strip, whole, part, _STRIP_TOP + down, f"{number} ")
    return layers, end_of_part + _AXIS - 4


def time_layers(
    span: tuple[float, float], top: float, bottom: float, prefix: str
) -> dict[str, Layer]:
    """Return the ticks of a time axis of one or more strips, all in seconds."""
    if prefix:
        ticks = np.asarray(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(*span))
        ticks = ticks[(ticks >= span[0]) & (ticks <= span[1])]
    else:
        ticks = np.arange(span[0], span[1] + 1e-9, _TICK / 2)
    if len(ticks) > 8:
        ticks = ticks[::2]
    if len(ticks) > 8:
        ticks = ticks[::3]
    drawn = tick_layers(ticks, partial(strip_x, span), in_seconds, (top, bottom), True)
    return {f"{prefix}{name}": layer for name, layer in drawn.items()}


def in_seconds(time: float) -> str:
    """Return a tick of a time axis in seconds, the unit of all other times of the picture."""
    return f"{time:.3g} s"


def strip_x(span: tuple[float, float], time: Any) -> Floats:
    """Return the places of times [s] on the axis of strips that show a span of time [px]."""
    share = (np.asarray(time) - span[0]) / (span[1] - span[0])
    return np.asarray(_STRIP_LEFT + (_STRIP_RIGHT - _STRIP_LEFT) * share)


def lens_layers(
    whole: tuple[float, float], part: tuple[float, float], top: float, bottom: float
) -> dict[str, Layer]:
    """Return what tells that the lower strips are a part of the upper ones: a frame, and two lines that spread."""
    left, right = strip_x(whole, part)
    above = _STRIP_TOP - 6
    path = np.array([[left, above], [right, above], [right, top], [left, top], [left, above]])
    start = top + 22  # below the ticks
    spread = [
        np.array([[left, start], [_STRIP_LEFT, bottom]]),
        np.array([[right, start], [_STRIP_RIGHT, bottom]]),
    ]
    words = text("live.overlap.lens", n=_MAGNIFIED)
    middle = (left + right + _STRIP_LEFT + _STRIP_RIGHT) / 4
    return {
        "lens": lines([path, *spread], width=1.0, dash=1.0, colour=COLOUR["edge"]),
        "lens name": texts(
            middle, (start + bottom) / 2, [words], align=1.0, colour=COLOUR["soft"], halo=1.0
        ),
    }


def one_strip(
    strip: Strip, span: tuple[float, float], top: float, lane: float, named: bool, prefix: str
) -> dict[str, Layer]:
    """Return the bars of a strip within a span of time, what waits for communication, and the names of its lanes."""
    middle = top + lane * np.array([0.5, 1.5])
    lanes = [text("live.overlap.computes"), text("live.overlap.sends")]
    layers = {f"{prefix}lanes": texts(_STRIP_LEFT - 8, middle, lanes, align=2.0)}
    if named:
        layers[f"{prefix}name"] = texts(12.0, top - 8.0, [strip.name], bold=1.0, halo=1.0)

    layers[f"{prefix}bars"] = strip_bars(strip, span, top, lane, f"{strip.name}, " if named else "")
    waits = np.clip(strip.waits(), *span)
    waits = waits[waits[:, 1] > waits[:, 0]]
    left, right = strip_x(span, waits.T)
    layers[f"{prefix}waits"] = boxes(
        left,
        top + 2,
        np.maximum(right - left, 1.0),
        lane - 4,
        round=2.0,
        colour=COLOUR["none"],
        edge=COLOUR["edge"],
        hatch=1.0,
        names=[text("live.overlap.exposed")] * len(waits),
        notes=[text("timeline.bar", size="", start=a, end=b).strip() for a, b in waits],
    )
    return layers


def length_layer(
    strip: Strip,
    whole: tuple[float, float],
    part: tuple[float, float],
    top: float,
    prefix: str,
) -> dict[str, Layer]:
    """Return how long a strip waits in all, above its longest wait and beside the frame of the magnified part."""
    waits = strip.waits()
    if not len(waits):
        return {}
    words = text("live.overlap.waits", time=seconds_words(strip.exposed))
    half = 3.6 * len(words)
    x = float(strip_x(whole, waits[np.argmax(np.ptp(waits, axis=1))]).mean())
    sides = strip_x(whole, part)
    is_first = top == _STRIP_TOP  # the frame begins below the words of the first strip
    if not is_first and np.any(np.abs(sides - x) < half + 4):
        x = float(sides[1]) + half + 8
        if x + half > _STRIP_RIGHT:
            x = float(sides[0]) - half - 8
    x = min(x, _STRIP_RIGHT - half)
    up = 15.0 if is_first else 13.0
    return {
        f"{prefix}length": texts(
            x, top - up, [words], align=1.0, bold=1.0, halo=1.0, colour=COLOUR["ink"]
        )
    }


def strip_bars(
    strip: Strip, span: tuple[float, float], top: float, lane: float, name: str
) -> Layer:
    """Return the bars of a strip that lie in a span of time, cut at its ends."""
    begin = np.clip(strip.timeline.start, *span)
    end = np.clip(strip.timeline.finish, *span)
    shown = np.flatnonzero(end > begin) if span[0] else np.arange(strip.flows.n_flows)
    left = strip_x(span, begin[shown])
    wide = strip_x(span, end[shown]) - left
    first, after = joined_bars(strip.flows.label[shown], left, left + wide)
    end[shown[first]] = end[shown[after - 1]]
    wide = (left + wide)[after - 1] - left[first]
    left = left[first]
    shown = shown[first]
    below = lane * strip.reduces[shown]
    kinds = [strip.flows.labels[kind] for kind in strip.flows.label[shown]]
    colours = np.array([timelines.hue(kind) for kind in strip.flows.labels])
    fields = {
        "round": 2.0,
        "colour": colours[strip.flows.label[shown]],
        "edge": np.where(wide > 4, COLOUR["paper"], COLOUR["none"]),
    }
    if not span[0]:
        fields["names"] = [f"{name}{kind}" for kind in kinds]
        fields["notes"] = [
            text("timeline.bar", size="", start=a, end=b).strip()
            for a, b in zip(begin[shown].tolist(), end[shown].tolist(), strict=True)
        ]
    return boxes(left, top + 2 + below, np.maximum(wide, 0.5), lane - 4, **fields)


def joined_bars(label: NDArray[np.int32], left: Floats, right: Floats) -> tuple[Ints, Ints]:
    """Return the first bar of each one that is drawn, and the bar after its last.

    Bars [px] that follow each other and are too thin for an edge are drawn as one: their edges would make stripes that
    say nothing.
    """
    thin = right - left < _THIN
    follows = (label[1:] == label[:-1]) & thin[1:] & thin[:-1] & (np.abs(left[1:] - right[:-1]) < 1)
    first = np.flatnonzero(np.concatenate([[True], ~follows]))
    return first, np.append(first[1:], label.size)


def overlap_panel(
    job: Case, strips: list[Strip], buckets: int, latency: float, way: str, height: float
) -> Scene:
    """Return the exposed time over the size of a bucket, with the current state of each strip."""
    numbers = bucket_numbers(job)
    curves = [
        Curve(
            text("live.overlap.barrier"),
            job.dp_gradients / numbers,
            exposed_times(job, latency, way),
        )
    ]
    if len(strips) == 1 and strips[0].name == text("live.overlap.priority"):
        # Its dot lies beside the curve, which is that of a barrier.
        here = np.array([job.dp_gradients / buckets]), np.array([strips[0].exposed])
        curves.append(Curve(strips[0].name, *here, COLOUR["ink"], shape=0.0, joined=False))
    spots = [
        Spot(job.dp_gradients / buckets, strip.exposed, words, shape=shape)
        for strip, words, shape in zip(strips, spot_words(strips), (0.0, 1.0), strict=False)
    ]
    return curve_panel(
        text("live.overlap.panel"),
        text("live.overlap.bucket"),
        curves,
        spots,
        show_x=units.format_size,
        show_y=in_seconds,
        log_x=True,
        height=height,
    )


def spot_words(strips: list[Strip]) -> list[str]:
    """Return what is written beside the present state of each strip: its mark, if there are two, time and name."""
    times = [seconds_words(strip.exposed) for strip in strips]
    if len(strips) == 1:
        return times
    names = [text("live.overlap.short_barrier"), text("live.overlap.short_priority")]
    return [f"{mark} {time} {name}" for mark, time, name in zip("●○", times, names, strict=True)]


def bucket_numbers(job: Case) -> Ints:
    """Return numbers of buckets over the range of the slider, from many small ones to a single one."""
    most = job.dp_gradients / (1e6 * _LEAST_BUCKET)
    return np.unique(np.rint(np.geomspace(1, most, 48)).astype(np.int64))


def exposed_times(job: Case, latency: float, way: str) -> Floats:
    """Return the exposed time for each of `bucket_numbers`, as `Case.exposed` computes it [s]."""
    closed_form = collectives.closed_form("all_reduce", way)
    found = []
    for n in bucket_numbers(job).tolist():
        # A bucket costs the same whether its latency is counted apart or as part of the whole all-reduce.
        total = n * float(closed_form(job.dp_gradients / n, int(job.dp), latency, job.nic_rate))
        found.append(job.exposed(buckets=n, t_dp=total))
    return np.array(found)


def gradient_step(job: Case, buckets: int, latency: float, algorithm: str, priority: bool) -> Flows:
    """Return the flows at the end of a job's step: a backward pass, all-reduces and the next forward pass.

    Parameters
    ----------
    job : Case
        The job whose times, sizes and rates are used.
    buckets : int
        Number of all-reduces, which have equal sizes.
    latency : float
        Latency of each step of an all-reduce, before its first byte. [s]
    algorithm : str
        Algorithm that reduces a bucket.
    priority : bool
        Whether the next forward pass waits only for the buckets that it needs.
    """
    forward = (job.t_compute + job.t_tp) / job.microbatches - job.window  # [s]
    closed_form = collectives.closed_form("all_reduce", algorithm)

    def bucket_time(size: float) -> Any:
        return closed_form(size, int(job.dp), latency, job.nic_rate)

    return workload.build(
        "data_parallel",
        np.full(buckets, forward / buckets),
        np.full(buckets, job.window / buckets),
        np.full(buckets, job.dp_gradients / buckets),
        bucket_time,
        priority=priority,
    )


# Straggler --------------------------------------------------------------------------------------


def straggler(
    size: units.Quantity = "1 MB",  # illustrative: a small array, so that latency counts
    ranks: int = 16,
    *,
    what: str = "nic",
    rank: int = 3,
    slow: float = 4,
    way: str = "ring",
) -> Live:
    """Show the messages of an all-reduce with one slow rank, each coloured by its delay.

    The delay is how much later a message ends than without the slow rank. Per-message latency and rates are those of
    the running case. There are no barriers: a message waits only for the messages that it needs.

    Parameters
    ----------
    size : float or str
        Size of the array. [B]
    ranks : int
        Number of ranks. 2..16
    what : str
        What is slow: with ``"nic"`` the NIC, so that each message of the rank begins later; with ``"link"`` the rate
        of the rank's outgoing cable.
    rank, slow : int, float
        The slow rank, and how many times slower it is, 1..16.
    way : str
        Algorithm that the picture shows: ring or binomial_tree. The sentence gives the time of both.
    """
    what = units.choice(what, "what", ("nic", "link"))
    units.count(ranks, "ranks", 2, _MOST)
    arguments = {
        "size": size,
        "ranks": ranks,
        "what": what,
        "rank": rank,
        "slow": slow,
        "way": way,
    }
    controls: dict[str, Control] = {
        "rank": Slider(0, ranks - 1),
        "slow": Slider(1, _MOST_SLOW, 0.5),
        "way": Choice(_STRAGGLER_ALGORITHMS, names=tuple(map(spoken, _STRAGGLER_ALGORITHMS))),
    }
    job = case()
    star = topologies.build("crossbar", hosts=ranks, rate=job.nic_rate)
    healthy = cache(partial(healthy_run, star, size, job.ring_step_latency))
    ends = cache(partial(slowed_ends, healthy, what))
    scene = partial(straggler_scene, healthy, ends, what)
    return live_view("straggler", arguments, scene, controls)


def healthy_run(star: Fabric, size: units.Quantity, latency: float, algorithm: str) -> Simulation:
    """Run an all-reduce in which no rank is slow, with one flow for every message."""
    return simulate("all_reduce", algorithm, star, size, lag=latency, expand=True)


def slowed_run(healthy: Simulation, what: str, rank: int, slow: float) -> PatternRun:
    """Run an all-reduce again with one slow rank.

    ``what`` is "nic", so that each message of the rank begins later, or "link", which slows its outgoing cable.
    """
    star = healthy.fabric
    flows = healthy.flows
    node = star.endpoint[rank]
    if what == "nic":
        flows = workload.slowed(flows, [node], factor=slow)
    else:
        out = np.flatnonzero(star.source == node)
        star = star.with_capacity(out, case().nic_rate / slow)
    # In a ring no two messages share a link at a time, so nothing has to be divided.
    engine = "ideal" if healthy.schedule.algorithm == "ring" else "flow"
    return PatternRun(flows, engines.run(star, healthy.routes, flows, engine))


def slowed_ends(healthy: Callable[[str], Simulation], what: str, way: str, rank: int) -> Floats:
    """Return the time of an all-reduce for each of `_FACTORS` [s]."""
    ends = [slowed_run(healthy(way), what, rank, slow).timeline.end for slow in _FACTORS]
    return np.array(ends)


def straggler_scene(
    healthy: Callable[[str], Simulation],
    ends: Callable[[str, int], Floats],
    what: str,
    rank: int,
    slow: float,
    way: str,
) -> Scene:
    """Return a picture of the messages as bars coloured by their delay, with the time of each algorithm in words.

    ``healthy`` is a function from the name of an algorithm to its run without a slow rank, and ``ends`` one from the
    name and the slow rank to the time for each of `_FACTORS`.
    """
    runs = {}
    told = []
    for name in _STRAGGLER_ALGORITHMS:
        before = healthy(name)
        runs[name] = slowed_run(before, what, rank, slow)
        now = runs[name].timeline.end
        told.append(text("live.straggler.one", way=spoken(name), end=before.time, now=now))

    flows = runs[way].flows
    timeline = runs[way].timeline
    delay = np.maximum(timeline.finish - healthy(way).timeline.finish, 0.0)  # (F,) [s]
    delayed_ranks = np.unique(flows.source[delay > _ROUNDING])
    caption = text(
        "live.straggler.said",
        rank=rank,
        what=text(f"live.straggler.{what}", slow=float(slow)),
        list="; ".join(told),
        way=spoken(way),
        hit=delayed_ranks.size,
        all=healthy(way).schedule.n_ranks,
    )

    from_post = replace(timeline, start=timeline.start - flows.lag)  # a bar includes its latency
    drawn = timeline_scene(from_post, flows, _gpu_name, width=_PICTURE)
    columns = dict(drawn.table.columns) if drawn.table else {}
    columns["late [s]"] = delay
    height = drawn.height + 6
    return replace(
        drawn,
        said=caption,
        alt=caption,
        table=Table(columns),
        layers=delay_layers(drawn, delay, healthy(way).time, timeline, rank),
        height=height,
        side=straggler_panel(runs, ends, way, rank, slow, max(height, _PANEL)),
    )


def spoken(way: str) -> str:
    """Return the name of an algorithm as a sentence has it."""
    return readable(way)


def _gpu_name(rank: int) -> str:
    return text("timeline.gpu", n=rank)


def delay_layers(
    drawn: Scene, delay: Floats, before: float, timeline: Timeline, rank: int
) -> dict[str, Layer]:
    """Return the layers of a timeline with its bars coloured by their delay, and the end without a slow rank."""
    lane_names = list(drawn.layers["lanes"].fields["texts"])
    room = timelines.room_for(lane_names, drawn.width)
    firsts = np.ones(timeline.repeat.size, dtype=np.int64)
    end = float(timelines.across(timeline, before, room, firsts))  # [px]
    row = drawn.height - 11  # of the scale below the bars [px]
    layers = {}
    for name, layer in drawn.layers.items():
        if not name.startswith("kind"):  # the scale of delays takes the place of samples of kinds
            layers[name] = layer
    layers["bars"] = delayed_bars(drawn.layers["bars"], delay)
    layers["lanes"] = marked_lane(drawn.layers["lanes"], rank)
    layers["end"] = end_line(drawn.layers["bars"], end)
    layers["end name"] = end_name(before, end)
    return layers | delay_scale(row, float(delay.max()))


def delayed_bars(bars: Layer, delay: Floats) -> Layer:
    """Return the bars of messages in the colour of their delays; those on time are grey."""
    longest = max(delay.max(), _ROUNDING)
    is_late = delay > _ROUNDING
    colour = np.where(is_late, shade(delay / longest), COLOUR["hair"])
    return replace(bars, fields={**bars.fields, "colour": colour, "glide": True})


def marked_lane(lanes: Layer, rank: int) -> Layer:
    """Return the names of the lanes, that of the slow rank in bold."""
    is_slow = [name == _gpu_name(rank) for name in lanes.fields["texts"]]
    return replace(lanes, fields={**lanes.fields, "bold": np.array(is_slow) * 1.0})


def end_line(bars: Layer, end: float) -> Layer:
    """Return a dashed line at ``end`` [px], down to the foot of the bars; it cuts a gap into those behind it."""
    foot = float(np.max(bars.fields["y"] + bars.fields["h"]))
    path = np.array([[end, 22.0], [end, foot + 4]])
    return lines(
        [path, path],
        width=np.array([4.5, 1.5]),
        dash=np.array([0.0, 1.0]),
        colour=np.array([COLOUR["paper"], COLOUR["ink"]]),
    )


def end_name(before: float, end: float) -> Layer:
    """Return the time without a slow rank, ``before`` [s], over its line at ``end`` [px]."""
    words = text("live.straggler.without", end=before)
    has_room = end < _END_CENTRED  # for words on both sides of the line
    return texts(end, 13.0, [words], align=1.0 if has_room else 2.0, halo=1.0)


def delay_scale(row: float, latest: float) -> dict[str, Layer]:
    """Return a scale of delays up to the ``latest`` [s], at a height of ``row`` [px], with grey for on time."""
    on_time = text("live.straggler.on_time")
    late = text("live.straggler.late")
    longest = text("live.straggler.latest", time=latest)
    return {
        "scale": scale(row, left=114.0, named=False)["scale"],
        "idle": boxes(74.0, row, 26.0, 12.0, round=2.0, colour=COLOUR["hair"]),
        "ends": texts_at(
            (68.0, row + 6, on_time, 2),
            (178.0, row + 6, late, 2),
            (390.0, row + 6, longest, 0),
        ),
    }


def straggler_panel(
    runs: dict[str, PatternRun],
    ends: Callable[[str, int], Floats],
    chosen: str,
    rank: int,
    slow: float,
    height: float,
) -> Scene:
    """Return the time over the factor of the slow rank for each algorithm, the chosen one in ink.

    The bars beside it have the colours of loads, so here marks tell the algorithms, and not their hues.
    """
    factors = np.array(_FACTORS)
    curves = []
    spots = []
    for way, run in runs.items():
        # Each rank of a ring has the same part in it, so the time does not depend on which of them is slow.
        where = 0 if way == "ring" else rank
        shape = algorithm(way).shape
        curve_hue, spot_hue = COLOUR["edge"], COLOUR["soft"]
        if way == chosen:
            curve_hue = spot_hue = COLOUR["ink"]
        curves.append(Curve(spoken(way), factors, ends(way, where), curve_hue, shape))
        end = run.timeline.end
        spots.append(Spot(slow, end, units.format_time(end), shape, spot_hue))
    return curve_panel(
        text("live.straggler.panel"),
        text("live.straggler.slow"),
        curves,
        spots,
        show_x=lambda value: f"{value:g}",
        show_y=units.format_time,
        height=height,
    )
