"""Live views of training: pipeline bubbles, parameter servers, and the wait for gradients.

Gradients are reduced in buckets that overlap with the backward pass, or in one all-reduce that a slow rank delays.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import collectives, engines, topologies, units, workload
from fabriclab.catalog import Case, case
from fabriclab.core import Fabric, Flags, Floats, Flows, Ints, Timeline
from fabriclab.routing import route
from fabriclab.simulation import Simulation, simulate
from fabriclab.texts import text
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.scene import COLOUR, Layer, Scene, ink_on, shade
from fabriclab.views.timelines import idle_of, timeline_scene

_FORWARD = 1.0  # illustrative: time of a forward pass [s]
_BACKWARD = 2.0  # illustrative: a backward pass is twice the work [s]
_RATE = 1e9  # illustrative: slow enough for messages to be seen [B/s]
_SIZE = 1e8  # illustrative: of a model, large enough for messages to be seen [B]
_WORKERS = 4
_STEPS = 12
_DELAYED = ("nobody", "one worker", "by chance")
_BUCKET_ALGORITHMS = ("ring", "halving_doubling", "binomial_tree")
_STRAGGLER_ALGORITHMS = ("ring", "binomial_tree")
_MOST = 16  # so many lanes fit into the picture
_ROUNDING = 1e-9  # a message that is late by less counts as on time [s]


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


def run_pattern(pattern: str, ranks: int, size: float, **options: Any) -> PatternRun:
    """Build a pattern of `fabriclab.workload`, and run it on a crossbar with ``ranks`` hosts."""
    star = topologies.build("crossbar", hosts=ranks, rate=_RATE)
    flows = workload.build(pattern, star, size, **options)
    timeline = engines.run(star, route(star, flows), flows)
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

    drawn = timeline_scene(timeline, flows, f"{lane} {{}}".format)
    layers = {
        "idle": idle_of(drawn.layers["bars"], np.unique(drawn.layers["bars"].fields["y"])),
        **drawn.layers,
        "kinds": Layer("boxes", {**drawn.layers["kinds"].fields, "hatch": None}),
        "bars": numbered_bars(drawn.layers["bars"], numbers),
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


def numbered_bars(bars: Layer, numbers: Ints) -> Layer:
    """Return bars with numbers in them, and with white edges instead of hatches."""
    fields = bars.fields
    names = [f"{name} {number}" for name, number in zip(fields["names"], numbers, strict=True)]
    more = {
        "hatch": None,
        "edge": COLOUR["white"],
        "ink": ink_on(fields["colour"]),
        "texts": [f"{number}" for number in numbers],
        "names": names,
    }
    return Layer("boxes", {**fields, **more})


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
        "microbatches": Slider(1, 32),
        "schedule": Choice(("GPipe", "1F1B", "interleaved")),
    }
    return live_view("bubble", arguments, bubble_scene, controls)


def bubble_scene(stages: int, microbatches: int, schedule: str) -> Scene:
    """Return a picture of the passes of all stages as bars, with bubble and stored activations in words."""
    parts = 1  # parts of the model at each stage
    order = schedule.lower()
    shown = microbatches
    if schedule == "interleaved":
        parts = 2
        order = "1f1b"
        shown = -(-microbatches // stages) * stages  # the next multiple of the stages

    run = run_pattern(
        "pipeline",
        stages,
        0.0,
        stages=range(stages),
        microbatches=shown,
        order=order,
        chunks=parts,
        forward=_FORWARD,
        backward=_BACKWARD,
    )
    caption = text(
        "live.bubble.said",
        stages=stages,
        m=shown,
        schedule=schedule,
        share=100 * idle_share(run, stages),
        form=100 * (stages - 1) / (parts * shown + stages - 1),
        held=most_activations(run, stages) / parts,
        sent=np.count_nonzero(run.flows.source != run.flows.target),
    )
    if shown > microbatches:
        caption += " " + text("live.bubble.more", m=shown, stages=stages)
    scene = computations_scene(run, "stage", group=stages * parts)
    return replace(scene, said=caption, alt=caption)


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
        "staleness": Slider(0, 3),
        "late": Choice(_DELAYED),
        "servers": Slider(1, 4),
    }
    return live_view("staleness", arguments, staleness_scene, controls)


def staleness_scene(staleness: int, late: str, servers: int) -> Scene:
    """Return a picture of the steps of all workers as bars, with the time of a step and the waiting in words."""
    compute = compute_times(late)
    run = run_pattern(
        "parameter_server",
        _WORKERS + servers,
        _SIZE,
        compute=compute,
        steps=_STEPS,
        staleness=staleness,
        workers=range(_WORKERS),
        servers=_WORKERS + np.arange(servers),
    )
    end = run.timeline.end
    caption = text(
        "live.staleness.said",
        staleness=staleness,
        late=late,
        servers=servers,
        steps=_STEPS,
        time=end / _STEPS,
        wait=100 * (1 - compute.sum() / (_WORKERS * end)),
    )
    scene = computations_scene(run, "worker", group=_WORKERS)
    return replace(scene, said=caption, alt=caption)


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
    priority: bool = False,
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
    priority : bool
        Whether the next forward pass waits only for the buckets that it needs, instead of all buckets; as in the
        pattern ``data_parallel``.
    """
    job = case()
    gradients = job.dp_gradients / 1e6  # [MB]
    arguments = {
        "bucket": gradients if bucket is None else bucket,
        "start": job.ring_step_latency * 1e6 if start is None else start,
        "way": way,
        "priority": priority,
    }
    controls: dict[str, Control] = {
        "bucket": Slider(25, gradients, unit="MB", log=True),
        # illustrative: from a fast switch to a slow software stack
        "start": Slider(1, 20, 0.1, unit="us"),
        "way": Choice(_BUCKET_ALGORITHMS),
    }
    scene = partial(overlap_scene, job, priority)
    return live_view("overlap", arguments, scene, controls)


def overlap_scene(job: Case, priority: bool, bucket: float, start: float, way: str) -> Scene:
    """Return a picture of passes and buckets as bars, with the exposed part of the all-reduces in words."""
    buckets = max(1, round(job.dp_gradients / 1e6 / bucket))
    flows = gradient_step(job, buckets, start * 1e-6, way, priority)
    streams = workload.streams(flows)
    timeline = engines.run(streams, route(streams, flows), flows, "ideal")
    timeline = workload.spans(timeline, flows)

    reduces = workload.labelled(flows, "all-reduce")  # (F,)
    total = flows.lag[reduces].sum()
    exposed = workload.exposed(timeline, flows, ~reduces, reduces)
    caption = text(
        "live.overlap.said",
        n=buckets,
        size=job.dp_gradients / buckets,
        way=way,
        took=total,
        hidden=total - exposed,
        waits=exposed,
    )
    drawn = timeline_scene(timeline, flows, streams.name)
    bars = drawn.layers["bars"]
    layers = {"idle": idle_of(bars, bars.fields["y"][0]), **drawn.layers}
    return replace(drawn, said=caption, alt=caption, layers=layers)


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
    what: str = "card",
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
        What is slow: with ``"card"`` the NIC, so that each message of the rank begins later; with ``"link"`` the rate
        of the rank's outgoing cable.
    rank, slow : int, float
        The slow rank, and how many times slower it is, 1..16.
    way : str
        Algorithm that the picture shows: ring or binomial_tree. The sentence gives the time of both.
    """
    what = units.choice(what, "what", ("card", "link"))
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
        "slow": Slider(1, 16, 0.5),
        "way": Choice(_STRAGGLER_ALGORITHMS),
    }
    job = case()
    star = topologies.build("crossbar", hosts=ranks, rate=job.nic_rate)
    healthy = cache(partial(healthy_run, star, size, job.ring_step_latency))
    scene = partial(straggler_scene, healthy, what)
    return live_view("straggler", arguments, scene, controls)


def healthy_run(star: Fabric, size: units.Quantity, latency: float, algorithm: str) -> Simulation:
    """Run an all-reduce in which no rank is slow, with one flow for every message."""
    return simulate("all_reduce", algorithm, star, size, lag=latency, expand=True)


def slowed_run(healthy: Simulation, what: str, rank: int, slow: float) -> PatternRun:
    """Run an all-reduce again with one slow rank.

    ``what`` is "card", so that each message of the rank begins later, or "link", which slows its outgoing cable.
    """
    star = healthy.fabric
    flows = healthy.flows
    node = star.endpoint[rank]
    if what == "card":
        flows = workload.slowed(flows, [node], factor=slow)
    else:
        out = np.flatnonzero(star.source == node)
        star = star.with_capacity(out, case().nic_rate / slow)
    return PatternRun(flows, engines.run(star, healthy.routes, flows))


def straggler_scene(
    healthy: Callable[[str], Simulation], what: str, rank: int, slow: float, way: str
) -> Scene:
    """Return a picture of the messages as bars coloured by their delay, with the time of each algorithm in words.

    ``healthy`` is a function from the name of an algorithm to its run without a slow rank.
    """
    runs = {}
    ends = []
    for algorithm in _STRAGGLER_ALGORITHMS:
        before = healthy(algorithm)
        runs[algorithm] = slowed_run(before, what, rank, slow)
        now = runs[algorithm].timeline.end
        ends.append(text("live.straggler.one", way=algorithm, end=before.time, now=now))

    flows = runs[way].flows
    timeline = runs[way].timeline
    delay = np.maximum(timeline.finish - healthy(way).timeline.finish, 0.0)  # (F,) [s]
    delayed_ranks = np.unique(flows.source[delay > _ROUNDING])
    caption = text(
        "live.straggler.said",
        rank=rank,
        what=text(f"live.straggler.{what}", slow=float(slow)),
        list="; ".join(ends),
        way=way,
        hit=delayed_ranks.size,
        all=healthy(way).schedule.n_ranks,
    )

    from_post = replace(timeline, start=timeline.start - flows.lag)  # a bar includes its latency
    drawn = timeline_scene(from_post, flows, "rank {}".format)
    bars = drawn.layers["bars"]
    colour = shade(delay / max(delay.max(), _ROUNDING))
    fields = {**bars.fields, "colour": colour, "hatch": None}
    layers = {**drawn.layers, "bars": replace(bars, fields=fields)}

    columns = dict(drawn.table.columns) if drawn.table else {}
    columns["late [s]"] = delay
    return replace(drawn, said=caption, alt=caption, table=Table(columns), layers=layers)
