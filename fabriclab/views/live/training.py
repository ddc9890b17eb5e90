"""Live views of training patterns: the bubble of a pipeline, and workers that wait for a parameter server."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import engines, topologies, units, workload
from fabriclab.core import Flows, Timeline
from fabriclab.routing import route
from fabriclab.texts import text
from fabriclab.views.live.controls import Choice, Slider
from fabriclab.views.live.widget import Live, live_view
from fabriclab.views.scene import COLOUR, Layer, Scene, ink_on
from fabriclab.views.tables import Table
from fabriclab.views.timelines import idle_of, timeline_scene

_PASSES = {"forward": 1.0, "backward": 2.0}  # illustrative: a backward pass is twice the work [s]
_RATE, _SIZE, _WORKERS, _STEPS = 1e9, 1e8, 4, 12  # illustrative: what is sent can be seen [B/s], [B]
_LATE = ("nobody", "one worker", "by chance")


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
        made, flows, t = _computing("pipeline", stages, 0.0, "stage", stages * parts, stages=range(stages),
                                    microbatches=m, order=order, chunks=parts, **_PASSES)  # fmt: skip
        stage, what = np.array(made.table["stage"]), made.table["what"] == "forward"  # type: ignore[index]
        share = 1 - np.sum(t.finish - t.start, where=flows.lag > 0) / (stages * t.end)
        held = 0
        for s in range(stages):
            begun, done = (made.table[k][(stage == s) & (what == ahead)]  # type: ignore[index]
                           for k, ahead in (("start [s]", True), ("finish [s]", False)))  # fmt: skip
            gone = np.searchsorted(np.sort(done), np.sort(begun) + 1e-6, "right")
            held = max(held, int(np.max(np.arange(1, begun.size + 1) - gone)))
        said = text("live.bubble.said", stages=stages, m=m, schedule=schedule, share=f"{100 * share:.1f}",
                    form=f"{100 * (stages - 1) / (parts * m + stages - 1):.1f}", held=f"{held / parts:g}",
                    sent=np.count_nonzero(flows.source != flows.target))  # fmt: skip
        said += " " + text("live.bubble.more", m=m, stages=stages) if m > microbatches else ""
        return replace(made, said=said, alt=said)

    return live_view("bubble", locals(), scene, {"stages": Slider(2, 8), "microbatches": Slider(1, 32),
                                                 "schedule": Choice(("GPipe", "1F1B", "interleaved"))})  # fmt: skip


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
        made, _, t = _computing("parameter_server", _WORKERS + servers, _SIZE, "worker", _WORKERS, compute=takes,
                                servers=_WORKERS + np.arange(servers), workers=range(_WORKERS), steps=_STEPS,
                                staleness=staleness)  # fmt: skip
        said = text("live.staleness.said", staleness=staleness, late=late, servers=servers, steps=_STEPS,
                    time=units.format_time(t.end / _STEPS),
                    wait=f"{100 * (1 - takes.sum() / (_WORKERS * t.end)):.0f}")  # fmt: skip
        return replace(made, said=said, alt=said)

    return live_view("staleness", locals(), scene, {"staleness": Slider(0, 3), "late": Choice(_LATE),
                                                    "servers": Slider(1, 4)})  # fmt: skip


def _computing(
    pattern: str, ranks: int, size: float, lane: str, each: int, **options: Any
) -> tuple[Scene, Flows, Timeline]:
    """Return the computations of a pattern as bars whose number rises after ``each``, and flows and times of all."""
    star = topologies.build("crossbar", hosts=ranks, rate=_RATE)
    flows = workload.build(pattern, star, size, **options)
    t = workload.spans(engines.run(star, route(star, flows), flows), flows)
    at = np.flatnonzero(flows.lag > 0)
    own = Flows.make(flows.source[at], flows.target[at], 0.0, label=flows.label[at], labels=flows.labels)
    time = replace(t, start=t.start[at], finish=t.finish[at])
    scene = timeline_scene(time, own, star)
    row: NDArray[np.int64] = np.unique(own.source, return_inverse=True)[1]
    number = (np.arange(at.size) - np.searchsorted(own.label, own.label)) // each + 1  # kinds follow each other
    what = [own.labels[i] for i in own.label]
    bars, kinds, lanes = scene.layers["bars"].fields, scene.layers["kinds"], scene.layers["lanes"]
    names = [f"{lane} {i}" for i in range(ranks)]
    layers = {
        "idle": idle_of(scene.layers["bars"], np.unique(bars["y"])),
        **scene.layers, "kinds": replace(kinds, fields={**kinds.fields, "hatch": None}),
        "bars": Layer("boxes", {
            **bars, "hatch": None, "edge": COLOUR["white"], "ink": ink_on(bars["colour"]),
            "texts": [f"{n}" for n in number],
            "names": [f"{names[i]}, {w} {n}" for i, w, n in zip(row, what, number, strict=True)],
        }),
        "lanes": replace(lanes, fields={**lanes.fields, "texts": names[: row.max() + 1]}),
    }  # fmt: skip
    table = Table({lane: row, "what": what, "number": number, "start [s]": time.start, "finish [s]": time.finish})
    return replace(scene, table=table, layers=layers), flows, t
