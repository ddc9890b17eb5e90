"""When each stage of a training step computes, sums and waits, micro-batch by micro-batch.

`step_timeline` spreads the parts of a `Step` over its stages in the order of a 1F1B pipeline. Each stage is busy or
waits from the beginning of the step to its end, so the bars of any stage add up to the time of the step.

Examples
--------
The running case has one stage and four micro-batches:

>>> import fabriclab as fl
>>> step = fl.training.of_case(fl.case())
>>> shown = fl.training.step_timeline(step)
>>> shown.stages, round(shown.end, 2)
(1, 4.6)
>>> round(shown.total("tensor", stage=0), 2)
0.82
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fabriclab import engines, topologies, workload
from fabriclab.core import Floats, Flows, Timeline
from fabriclab.routing import route
from fabriclab.training.step import StageTimes, Step

__all__ = ["NAMES", "Bar", "StepTimeline", "step_timeline"]

#: Kinds of bars, with the words of a legend: computation, exposed communication, and waiting for other stages.
NAMES = {
    "forward": "forward",
    "backward": "backward",
    "tensor": "tensor sums",
    "context": "keys, values",
    "experts": "experts",
    "pipeline": "sends",
    "parameters": "parameters",
    "gradients": "gradients",
    "optimiser": "optimiser",
    "wait": "waits",
}
_HALVES = "tensor"  # as many sums in the forward pass as in the backward pass
_ROUNDING = 1e-9  # of a step: shorter gaps are no waits


class Bar(NamedTuple):
    """A time in which a stage does one thing: ``microbatch`` is counted from 0, and -1 outside of them. [s]."""

    stage: int
    name: str
    microbatch: int
    start: float
    finish: float

    @property
    def time(self) -> float:
        """How long it lasts. [s]."""
        return self.finish - self.start


@dataclass(frozen=True, eq=False)
class StepTimeline:
    """What each stage of a step does from its beginning to its end.

    Parameters
    ----------
    step : Step
        The step that is shown.
    bars : tuple of Bar
        Stage by stage in the order of time, without a gap.
    overlapped : tuple of Bar
        Sums of gradients of the first stage while its NIC sends them, hidden or not.
    """

    step: Step
    bars: tuple[Bar, ...]
    overlapped: tuple[Bar, ...]

    @property
    def stages(self) -> int:
        """Number of stages."""
        return self.step.layout.pp

    @property
    def end(self) -> float:
        """Time of the step. [s]."""
        return self.bars[-1].finish

    def of(self, stage: int) -> tuple[Bar, ...]:
        """Return the bars of one stage."""
        return tuple(bar for bar in self.bars if bar.stage == stage)

    def total(self, name: str, stage: int) -> float:
        """Return how long a stage spends on one thing of `NAMES`. [s]."""
        return sum(bar.time for bar in self.of(stage) if bar.name == name)

    def graph(self) -> tuple[Timeline, Flows]:
        """Return the bars as computations on nodes 0, 1, ..., one a stage, and what the NIC sends on the node behind.

        ``fl.views.timeline(*shown.graph())`` draws them.
        """
        shown = [*self.bars, *self.overlapped]
        lane = [bar.stage for bar in self.bars] + [self.stages] * len(self.overlapped)
        used = [name for name in NAMES if any(bar.name == name for bar in shown)]
        start = np.array([bar.start for bar in shown])
        finish = np.array([bar.finish for bar in shown])
        flows = Flows.make(
            lane,
            lane,
            0.0,
            start=finish,
            lag=finish - start,
            label=[used.index(bar.name) for bar in shown],
            labels=tuple(NAMES[name] for name in used),
        )
        end = np.array([self.end])
        timeline = Timeline(
            start, finish, np.zeros(0), np.zeros(1), end, np.ones(1, np.int64), "ideal"
        )
        return timeline, flows


def step_timeline(step: Step) -> StepTimeline:
    """Return what each stage of a step does, micro-batch by micro-batch.

    Passes follow the order 1F1B, with as many chunks as the layout has. Where all stages take equally long, or the last
    one takes longest, this order needs exactly the time of the step. Elsewhere it may need a little less, because a
    slow stage has passes in stock while the others are busy; `Step` counts the whole wait, so the rest is shown as a
    wait at the end. Waits for sums follow the computation of their pass in one piece; in truth each layer has its own.

    Parameters
    ----------
    step : Step
        Such as `fabriclab.training.train_step` returns.

    Raises
    ------
    ValueError
        If the order needs longer than the step, which happens where one stage is slowest forward and another backward.
    """
    first = step.parts["parameters"]
    passes = _passes(step)
    ends = [float(passes.finish[stage].max()) for stage in range(step.layout.pp)]
    last = step.time - step.parts["optimiser"]
    sums = step.parts["gradients"]
    if first + max(ends) + sums > last * (1 + _ROUNDING):
        raise ValueError(
            f"a 1F1B pipeline needs {first + max(ends) + sums:.4g} s for these stages, longer than the {last:.4g} s of "
            "the step, because one stage is slowest forward and another backward; divide the layers more evenly"
        )
    bars: list[Bar] = []
    for stage in range(step.layout.pp):
        begin = len(bars)
        if first:
            bars.append(Bar(stage, "parameters", -1, 0.0, first))
        _add_passes(bars, step.stages[stage], stage, passes, first)
        now = first + ends[stage]
        if sums:
            bars.append(Bar(stage, "gradients", -1, now, now + sums))
        if step.parts["optimiser"]:
            bars.append(Bar(stage, "optimiser", -1, last, step.time))
        bars[begin:] = _with_waits(bars[begin:], step.time)
    return StepTimeline(step, tuple(bars), _sent(step, first + ends[0]))


class _Passes(NamedTuple):
    """All passes of a pipeline, (pp, N): when each begins and ends [s], its micro-batch, and whether it is backward."""

    start: Floats
    finish: Floats
    microbatch: list[list[int]]
    backward: list[list[bool]]


def _shares(stage: StageTimes) -> tuple[dict[str, float], dict[str, float]]:
    """Return the exposed communication of a forward and of a backward pass, by part. [s]."""
    share = stage.forward / stage.compute if stage.compute else 0.5
    forward = {}
    backward = {}
    for name, time in stage.exposed.items():
        before = time * (0.5 if name == _HALVES else share)
        forward[name] = before
        backward[name] = time - before
    return forward, backward


def _passes(step: Step) -> _Passes:
    """Run the passes of all stages in the order 1F1B; messages take no time, since what they cost is in the passes."""
    layout = step.layout
    p = layout.pp
    forward = []
    backward = []
    for stage in step.stages:
        before, after = _shares(stage)
        forward.append(stage.forward + sum(before.values()))
        backward.append(stage.backward + sum(after.values()))
    star = topologies.build("crossbar", hosts=max(2, p))
    flows = workload.build(
        "pipeline",
        star,
        0.0,
        stages=range(p),
        microbatches=layout.microbatches,
        forward=forward,
        backward=backward,
        order="1f1b",
        chunks=layout.chunks,
    )
    timeline = workload.spans(engines.run(star, route(star, flows), flows, "ideal"), flows)
    computes = flows.lag > 0
    nodes = star.endpoint[:p]
    kind = np.array(flows.labels)[flows.label]
    start, finish, microbatch, is_backward = [], [], [], []
    for node in nodes:
        here = np.flatnonzero(computes & (flows.source == node))
        here = here[np.argsort(timeline.start[here], kind="stable")]
        start.append(timeline.start[here])
        finish.append(timeline.finish[here])
        after = kind[here] == "backward"
        is_backward.append(after.tolist())
        # Passes are numbered micro-batch by micro-batch, with a place for each stage and chunk.
        places = p * layout.chunks
        first = np.where(after, places * layout.microbatches, 0)
        microbatch.append(((here - first) // places).tolist())
    return _Passes(np.array(start), np.array(finish), microbatch, is_backward)


def _add_passes(
    bars: list[Bar], stage: StageTimes, number: int, passes: _Passes, begin: float
) -> None:
    """Add the bars of all passes of a stage: computation, then what it waits for."""
    before, after = _shares(stage)
    for start, finish, microbatch, is_backward in zip(
        passes.start[number],
        passes.finish[number],
        passes.microbatch[number],
        passes.backward[number],
        strict=True,
    ):
        name = "backward" if is_backward else "forward"
        waits = after if is_backward else before
        computed = stage.backward if is_backward else stage.forward
        total = computed + sum(waits.values())
        scale = float(finish - start) / total  # a pass of one of several chunks is shorter
        now = begin + float(start)
        for part, time in ((name, computed), *waits.items()):
            if time:
                bars.append(Bar(number, part, microbatch, now, now + scale * time))
                now += scale * time


def _with_waits(bars: list[Bar], end: float) -> list[Bar]:
    """Return the bars of one stage with a wait in each gap, up to the end of the step."""
    filled = []
    now = 0.0
    stage = bars[0].stage
    for bar in bars:
        if bar.start - now > _ROUNDING * end:
            filled.append(Bar(stage, "wait", -1, now, bar.start))
        filled.append(bar)
        now = bar.finish
    if end - now > _ROUNDING * end:
        filled.append(Bar(stage, "wait", -1, now, end))
    return filled


def _sent(step: Step, ended: float) -> tuple[Bar, ...]:
    """Return when the NIC of the first stage sums gradients: up to what is exposed after its last backward pass."""
    total = step.sent.get("gradients", 0.0)
    if not total:
        return ()
    finish = ended + step.parts["gradients"]
    return (Bar(0, "gradients", -1, max(0.0, finish - total), finish),)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
