"""Lesson 72: the time of a training step from its pieces."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from fabriclab.catalog import case
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    Verdict,
    explained,
    mistake_of,
    number_of,
)
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.training import Pieces, of_case
from fabriclab.validate import PaperStep, paper_steps

StepTime = Callable[[Pieces], Any]  # pieces of a step -> time [s]


def step_time(s: Pieces) -> float:
    """Return the time of a step that is put together from its pieces. [s]."""
    return _pipeline(s, s.compute + s.sums) + max(s.last, s.gradients - s.window)


def _pipeline(
    s: Pieces, each: float, stages: int | None = None, chunks: int | None = None
) -> float:
    """Return how long all micro-batches need through all stages, if one takes ``each`` on a stage. [s]."""
    others = (s.stages if stages is None else stages) - 1
    return (s.microbatches + others / (s.chunks if chunks is None else chunks)) * each


STEP_MISTAKES: dict[str, Callable[[Pieces], float]] = {
    "computing only": lambda s: s.microbatches * s.compute,
    "sums forgotten": lambda s: _pipeline(s, s.compute) + max(s.last, s.gradients - s.window),
    "bubble forgotten": lambda s: (
        _pipeline(s, s.compute + s.sums, stages=1) + max(s.last, s.gradients - s.window)
    ),
    "chunks forgotten": lambda s: (
        _pipeline(s, s.compute + s.sums, chunks=1) + max(s.last, s.gradients - s.window)
    ),
    "a wait for every stage": lambda s: (
        _pipeline(s, s.compute + s.sums, stages=s.stages + 1) + max(s.last, s.gradients - s.window)
    ),
    "nothing hidden": lambda s: _pipeline(s, s.compute + s.sums) + s.gradients,
    "gradients forgotten": lambda s: _pipeline(s, s.compute + s.sums),
    "time given back": lambda s: _pipeline(s, s.compute + s.sums) + s.gradients - s.window,
    "last bucket forgotten": lambda s: (
        _pipeline(s, s.compute + s.sums) + max(0.0, s.gradients - s.window)
    ),
    "last bucket twice": lambda s: (
        _pipeline(s, s.compute + s.sums) + s.last + max(0.0, s.gradients - s.window)
    ),
}
_FULL_MODELS = ("Megatron 7.5B", "Megatron 1008B")  # without a pipeline, and with 64 stages
_STEP_ROUNDING = 1e-5  # relative: below it no mistake changes a time of these steps


@cache
def step_cases() -> tuple[tuple[str, Pieces, float], ...]:
    """Return name, pieces and published time of the steps of `step`; 0 where nobody has published one. [s]."""
    job = case()
    found: list[tuple[str, Pieces, float]] = [
        (text("trace.step_case"), of_case(job).pieces, 0.0),
        (text("trace.step_slow"), of_case(job.replace(nic_rate=job.nic_rate / 4)).pieces, 0.0),
    ]
    for run in paper_steps():
        if run.model in _FULL_MODELS or _is_long_run(run):
            name = text("trace.step_run", model=run.model, gpus=run.gpus)
            found.append((name, run.step.pieces, run.seconds))
    return tuple(found)


def _is_long_run(run: PaperStep) -> bool:
    """Tell whether a published step is one of the two on which the lesson rests."""
    return run.model == "Llama 3 405B" and run.step.layout.cp == 1


@register("check", "72-write-step")
def step(answer: StepTime) -> Verdict:
    """Run ``answer(pieces)``, the time of a step [s], on the case, on a slow NIC and on published runs."""
    cases = step_cases()
    returned = [number_of(answer, pieces) for _, pieces, _ in cases]
    right = [step_time(pieces) for _, pieces, _ in cases]
    tried = []
    for (name, _, _), found, wanted in zip(cases, returned, right, strict=True):
        is_right = bool(np.isclose(found, wanted, rtol=_STEP_ROUNDING, atol=0))
        tried.append(TriedCase(name, is_right, "", f"{found:#.4g} s", f"{wanted:#.4g} s"))
    for i, (name, _, published_time) in enumerate(cases):
        if not tried[i].right:
            line = text(
                "function.step", name=name, got=f"{returned[i]:#.4g}", right=f"{right[i]:#.4g}"
            )
            said = ""
            if published_time:
                said = text("function.step_published", time=f"{published_time:g}")
                line += " " + said
            asked = [(pieces,) for _, pieces, _ in cases]
            mistake = mistake_of(returned, STEP_MISTAKES, asked, _STEP_ROUNDING)
            lines = [line, *explained("72-write-step", mistake)]
            look = text("trace.look_step", seconds=f"{returned[i] - right[i]:+.3g}")
            return False, lines, mistake, Trace(tuple(tried), said=said, look=look)
    return True, [], ""
