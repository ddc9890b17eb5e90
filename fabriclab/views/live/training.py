"""Live views of training: the bubble of a pipeline, workers that wait for a parameter server, and waiting for sums.

What of a gradient sum a step waits for, and how one slow rank makes all others late.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from fabriclab import collectives, engines, topologies, units, workload
from fabriclab.catalog import case
from fabriclab.core import Fabric, Floats, Flows, Timeline
from fabriclab.routing import route
from fabriclab.simulation import Simulation, simulate
from fabriclab.texts import text
from fabriclab.views.live.widget import Choice, Live, Slider, Table, live_view
from fabriclab.views.scene import COLOUR, Layer, Scene, ink_on, shade
from fabriclab.views.timelines import idle_of, timeline_scene

_PASSES = {"forward": 1.0, "backward": 2.0}  # illustrative: a backward pass is twice the work [s]
_RATE, _SIZE = 1e9, 1e8  # illustrative: what is sent can be seen [B/s], [B]
_WORKERS, _STEPS = 4, 12
_LATE = ("nobody", "one worker", "by chance")
_SUMS = ("ring", "halving_doubling", "binomial_tree")
_RACED = ("ring", "binomial_tree")
_MOST = 16  # ranks whose lanes all fit into the picture


def bubble(stages: int = 4, microbatches: int = 8, schedule: str = "GPipe") -> Live:
    """Show when each stage of a pipeline computes, and which part of the time none does: the bubble.

    A backward pass takes twice a forward pass, and what is sent takes no time. Interleaved stages have two parts of
    the model each, and a multiple of ``stages`` micro-batches: so many are shown.

    Parameters
    ----------
    stages, microbatches : int
        How many. 2..8, 1..32
    schedule : str
        GPipe, 1F1B or interleaved.
    """

    def scene(stages: int, microbatches: int, schedule: str) -> Scene:
        parts = 1 + (schedule == "interleaved")
        m = -(-microbatches // stages) * stages if parts > 1 else microbatches
        order = "1f1b" if parts > 1 else schedule.lower()
        made, flows, t = _computing(
            "pipeline",
            stages,
            0.0,
            "stage",
            stages * parts,
            stages=range(stages),
            microbatches=m,
            order=order,
            chunks=parts,
            **_PASSES,
        )
        stage, what = np.array(made.table["stage"]), made.table["what"] == "forward"  # type: ignore[index]
        share = 1 - np.sum(t.finish - t.start, where=flows.lag > 0) / (stages * t.end)
        rows = np.argsort(stage, kind="stable")
        begun, done = (
            np.sort(made.table[k][rows][(what == ahead)[rows]].reshape(stages, -1))  # type: ignore[index]
            for k, ahead in (("start [s]", True), ("finish [s]", False))
        )
        gone = np.count_nonzero(done[:, None] <= begun[..., None] + 1e-6, axis=2)
        held = int(np.max(np.arange(1, begun.shape[1] + 1) - gone))
        said = text(
            "live.bubble.said",
            stages=stages,
            m=m,
            schedule=schedule,
            share=100 * share,
            form=100 * (stages - 1) / (parts * m + stages - 1),
            held=held / parts,
            sent=np.count_nonzero(flows.source != flows.target),
        )
        said += " " + text("live.bubble.more", m=m, stages=stages) if m > microbatches else ""
        return replace(made, said=said, alt=said)

    return live_view(
        "bubble",
        locals(),
        scene,
        {
            "stages": Slider(2, 8),
            "microbatches": Slider(1, 32),
            "schedule": Choice(("GPipe", "1F1B", "interleaved")),
        },
    )


def staleness(staleness: int = 0, late: str = "by chance", servers: int = 1) -> Live:
    """Show four workers of a parameter server that compute for a second on average, and send a tenth of a second.

    Parameters
    ----------
    staleness : int
        Steps that a worker may be ahead of the slowest. 0..3
    late : str
        Who is late: nobody; one worker, always by a second; or by chance any worker, up to 1.6 seconds.
    servers : int
        Each has an equal part of the model. 1..4
    """

    def scene(staleness: int, late: str, servers: int) -> Scene:
        takes = np.ones((_STEPS, _WORKERS))
        if late == "by chance":
            takes = np.random.default_rng(0).uniform(0.4, 1.6, takes.shape)
        takes[:, 0] += late == "one worker"
        who = {"workers": range(_WORKERS), "servers": _WORKERS + np.arange(servers)}
        made, _, t = _computing(
            "parameter_server",
            _WORKERS + servers,
            _SIZE,
            "worker",
            _WORKERS,
            compute=takes,
            steps=_STEPS,
            staleness=staleness,
            **who,
        )
        said = text(
            "live.staleness.said",
            staleness=staleness,
            late=late,
            servers=servers,
            steps=_STEPS,
            time=t.end / _STEPS,
            wait=100 * (1 - takes.sum() / (_WORKERS * t.end)),
        )
        return replace(made, said=said, alt=said)

    return live_view(
        "staleness",
        locals(),
        scene,
        {"staleness": Slider(0, 3), "late": Choice(_LATE), "servers": Slider(1, 4)},
    )


def _computing(
    pattern: str, ranks: int, size: float, lane: str, each: int, **options: Any
) -> tuple[Scene, Flows, Timeline]:
    """Return the computations of a pattern as bars whose number rises after ``each``, and flows and times of all."""
    star = topologies.build("crossbar", hosts=ranks, rate=_RATE)
    flows = workload.build(pattern, star, size, **options)
    t = workload.spans(engines.run(star, route(star, flows), flows), flows)
    at = np.flatnonzero(flows.lag > 0)
    own = Flows.make(
        flows.source[at], flows.target[at], 0.0, label=flows.label[at], labels=flows.labels
    )
    time = replace(t, start=t.start[at], finish=t.finish[at])
    scene = timeline_scene(time, own, f"{lane} {{}}".format)
    # kinds follow each other
    number = (np.arange(at.size) - np.searchsorted(own.label, own.label)) // each + 1
    bars, kinds = (scene.layers[k].fields for k in ("bars", "kinds"))
    names = [f"{who} {n}" for who, n in zip(bars["names"], number, strict=True)]
    layers = {
        "idle": idle_of(scene.layers["bars"], np.unique(bars["y"])),
        **scene.layers,
        "kinds": Layer("boxes", {**kinds, "hatch": None}),
        "bars": Layer(
            "boxes",
            {
                **bars,
                "hatch": None,
                "edge": COLOUR["white"],
                "ink": ink_on(bars["colour"]),
                "texts": [f"{n}" for n in number],
                "names": names,
            },
        ),
    }
    table = Table(
        {
            lane: own.source,
            "what": [own.labels[i] for i in own.label],
            "number": number,
            "start [s]": time.start,
            "finish [s]": time.finish,
        }
    )
    return replace(scene, table=table, layers=layers), flows, t


def overlap(
    *,
    bucket: float | None = None,
    start: float | None = None,
    way: str = "ring",
    priority: bool = False,
) -> Live:
    """Show the last backward pass of the running case, the sum of its gradients in equal buckets, and the next forward.

    Parameters
    ----------
    bucket : float, optional
        Size of a bucket; all gradients in one unless given. [MB]
    start : float, optional
        Time that each step of a sum takes before its first byte; that of the case unless given. [us]
    way : str
        How a bucket is summed: ring, halving_doubling or binomial_tree.
    priority : bool
        As in the pattern ``data_parallel``: the next forward waits for the buckets that it needs, not for all.
    """
    job = case()
    whole, forward = (
        job.dp_gradients / 1e6,
        (job.t_compute + job.t_tp) / job.microbatches - job.window,
    )
    bucket = whole if bucket is None else bucket
    start = job.ring_step_latency * 1e6 if start is None else start

    def scene(bucket: float, start: float, way: str) -> Scene:
        n, form = max(1, round(whole / bucket)), collectives.closed_form("all_reduce", way)
        parts = (np.full(n, of_step / n) for of_step in (forward, job.window, job.dp_gradients))
        flows = workload.build(
            "data_parallel",
            *parts,
            lambda b: form(b, int(job.dp), start * 1e-6, job.nic_rate),
            priority=priority,
        )
        lanes = workload.streams(flows)
        t = workload.spans(engines.run(lanes, route(lanes, flows), flows, "ideal"), flows)
        sums = workload.labelled(flows, "all-reduce")
        waits = workload.exposed(t, flows, ~sums, sums)
        made, took = timeline_scene(t, flows, lanes.name), flows.lag[sums].sum()
        bars = made.layers["bars"]
        said = text(
            "live.overlap.said",
            n=n,
            size=job.dp_gradients / n,
            way=way,
            took=took,
            hidden=took - waits,
            waits=waits,
        )
        return replace(
            made,
            said=said,
            alt=said,
            layers={"idle": idle_of(bars, bars.fields["y"][0]), **made.layers},
        )

    # illustrative: from a quick switch to a slow software stack
    sizes, starts = Slider(25, whole, unit="MB", log=True), Slider(1, 20, 0.1, unit="us")
    return live_view(
        "overlap", locals(), scene, {"bucket": sizes, "start": starts, "way": Choice(_SUMS)}
    )


def straggler(
    size: units.Quantity = "1 MB",  # illustrative: a small array, whose starts count
    ranks: int = 16,
    *,
    what: str = "card",
    rank: int = 3,
    slow: float = 4,
    way: str = "ring",
) -> Live:
    """Show the messages of an all-reduce in which one rank is slow, coloured by how late each of them ends.

    Starts and rates are those of the running case; a message waits for those that it needs, without barriers.

    Parameters
    ----------
    size : float or str
        Of the array. [B]
    ranks : int
        How many. 2..16
    what : str
        What is slow: ``"card"`` makes each start of the rank longer, ``"link"`` its cable out less wide.
    rank, slow : int, float
        Which rank, and how many times as slow. 1..16
    way : str
        The algorithm in the picture: ring or binomial_tree.
    """
    units.choice(what, "what", ("card", "link"))
    units.count(ranks, "ranks", 2, _MOST)
    job = case()
    star = topologies.build("crossbar", hosts=ranks, rate=job.nic_rate)

    @cache
    def healthy(way: str) -> Simulation:
        return simulate("all_reduce", way, star, size, lag=job.ring_step_latency, expand=True)

    def ill(way: str, rank: int, slow: float) -> tuple[Flows, Timeline]:
        run, node = healthy(way), star.endpoint[rank]
        if what == "card":
            flows = workload.slowed(run.flows, [node], factor=slow)
            return flows, engines.run(star, run.routes, flows)
        narrow: Fabric = star.with_capacity(
            np.flatnonzero(star.source == node), job.nic_rate / slow
        )
        return run.flows, engines.run(narrow, run.routes, run.flows)

    def scene(rank: int, slow: float, way: str) -> Scene:
        words = [
            text(
                "live.straggler.one",
                way=each,
                end=healthy(each).time,
                now=ill(each, rank, slow)[1].end,
            )
            for each in _RACED
        ]
        flows, t = ill(way, rank, slow)
        late: Floats = np.maximum(t.finish - healthy(way).timeline.finish, 0.0)
        hit = np.unique(flows.source[late > 1e-9]).size
        said = text(
            "live.straggler.said",
            rank=rank,
            what=text(f"live.straggler.{what}", slow=float(slow)),
            list="; ".join(words),
            way=way,
            hit=hit,
            all=ranks,
        )
        whole = replace(t, start=t.start - flows.lag)  # a bar holds its start-up too
        made = timeline_scene(whole, flows, "rank {}".format)
        bars = made.layers["bars"]
        fields = {**bars.fields, "colour": shade(late / max(late.max(), 1e-9)), "hatch": None}
        table = Table({**(made.table.columns if made.table else {}), "late [s]": late})
        layers = {**made.layers, "bars": replace(bars, fields=fields)}
        return replace(made, said=said, alt=said, table=table, layers=layers)

    return live_view(
        "straggler",
        locals(),
        scene,
        {"rank": Slider(0, ranks - 1), "slow": Slider(1, 16, 0.5), "way": Choice(_RACED)},
    )
