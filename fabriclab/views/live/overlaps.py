"""Live views of waiting: what of a gradient sum a step waits for, and how one slow rank makes all others late."""

from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fabriclab import collectives, engines, topologies, units, workload
from fabriclab.catalog import case
from fabriclab.core import Fabric, Flows, Timeline
from fabriclab.routing import route
from fabriclab.simulation import Simulation, simulate
from fabriclab.texts import text
from fabriclab.views.live.controls import Choice, Slider
from fabriclab.views.live.widget import Live, live_view
from fabriclab.views.scene import Scene, shade
from fabriclab.views.tables import Table
from fabriclab.views.timelines import idle_of, timeline_scene

_SUMS = ("ring", "halving_doubling", "binomial_tree")
_RACED = ("ring", "binomial_tree")
_MOST = 16  # ranks whose lanes all fit into the picture


def overlap(
    *, bucket: float | None = None, start: float | None = None, way: str = "ring", priority: bool = False
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
    whole, forward = job.dp_gradients / 1e6, (job.t_compute + job.t_tp) / job.microbatches - job.window
    bucket = whole if bucket is None else bucket
    start = job.ring_step_latency * 1e6 if start is None else start

    def scene(bucket: float, start: float, way: str) -> Scene:
        n, form = max(1, round(whole / bucket)), collectives.closed_form("all_reduce", way)
        flows = workload.build(
            "data_parallel", np.full(n, forward / n), np.full(n, job.window / n), np.full(n, job.dp_gradients / n),
            lambda b: form(b, int(job.dp), start * 1e-6, job.nic_rate), priority=priority,
        )  # fmt: skip
        lanes = workload.streams(flows)
        t = workload.spans(engines.run(lanes, route(lanes, flows), flows, "ideal"), flows)
        sums = workload.labelled(flows, "all-reduce")
        waits = workload.exposed(t, flows, ~sums, sums)
        made, took = timeline_scene(t, flows, lanes), flows.lag[sums].sum()
        bars = made.layers["bars"]
        said = text("live.overlap.said", n=n, size=units.format_size(job.dp_gradients / n), way=way,
                    took=f"{took:.3f}", hidden=f"{took - waits:.3f}", waits=f"{waits:.3f}")  # fmt: skip
        return replace(made, said=said, alt=said, layers={"idle": idle_of(bars, bars.fields["y"][0]), **made.layers})

    # illustrative: from a quick switch to a slow software stack
    sizes, starts = Slider(25, whole, unit="MB", log=True), Slider(1, 20, 0.1, unit="us")
    return live_view("overlap", locals(), scene, {"bucket": sizes, "start": starts, "way": Choice(_SUMS)})


def straggler(
    size: units.Quantity = "1 MB", ranks: int = 16, *,  # illustrative: a small array, whose starts count
    what: str = "card", rank: int = 3, slow: float = 4, way: str = "ring",
) -> Live:  # fmt: skip
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
    star = replace(star, kinds=("rank", *star.kinds[1:]))  # the names of lanes

    @cache
    def healthy(way: str) -> Simulation:
        return simulate("all_reduce", way, star, size, lag=job.ring_step_latency, expand=True)

    def ill(way: str, rank: int, slow: float) -> tuple[Flows, Timeline]:
        run, node = healthy(way), star.endpoint[rank]
        if what == "card":
            flows = workload.slowed(run.flows, [node], factor=slow)
            return flows, engines.run(star, run.routes, flows)
        narrow: Fabric = star.with_capacity(np.flatnonzero(star.source == node), job.nic_rate / slow)
        return run.flows, engines.run(narrow, run.routes, run.flows)

    def scene(rank: int, slow: float, way: str) -> Scene:
        words = [text("live.straggler.one", way=each, end=units.format_time(healthy(each).time),
                      now=units.format_time(ill(each, rank, slow)[1].end)) for each in _RACED]  # fmt: skip
        flows, t = ill(way, rank, slow)
        late: NDArray[np.float64] = np.maximum(t.finish - healthy(way).timeline.finish, 0.0)
        hit = np.unique(flows.source[late > 1e-9]).size
        said = text("live.straggler.said", rank=rank, what=text(f"live.straggler.{what}", slow=f"{slow:g}"),
                    list="; ".join(words), way=way, hit=hit, all=ranks)  # fmt: skip
        made = timeline_scene(replace(t, start=t.start - flows.lag), flows, star)  # a bar holds its start-up too
        bars = made.layers["bars"]
        fields = {**bars.fields, "colour": shade(late / max(late.max(), 1e-9)), "hatch": None}
        table = Table({**(made.table.columns if made.table else {}), "late [s]": late})
        layers = {**made.layers, "bars": replace(bars, fields=fields)}
        return replace(made, said=said, alt=said, table=table, layers=layers)

    return live_view("straggler", locals(), scene, {"rank": Slider(0, ranks - 1), "slow": Slider(1, 16, 0.5),
                                                    "way": Choice(_RACED)})  # fmt: skip
