"""Lesson 72: the time of a training step from its pieces."""

from collections.abc import Callable
from functools import cache
from typing import Any

from fabriclab.catalog import case
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    Verdict,
    first_wrong,
    is_same,
    mistake_of,
    number_of,
    wrong,
)
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.training import Pieces, of_case
from fabriclab.validate import PaperStep, paper_steps

StepTime = Callable[[Pieces], Any]  # pieces of a step -> time [s]


def step_time(s: Pieces) -> float:
    """Return the time of a step that is put together from its pieces. [s]."""
    return _passes(s) + _exposed(s)


def _passes(s: Pieces) -> float:
    """Return how long all micro-batches need through all stages. [s]."""
    return _in_turns(s, s.stages - 1, s.chunks) * (s.compute + s.sums)


def _in_turns(s: Pieces, others: int, chunks: int) -> float:
    """Return how many times as long as one micro-batch on one stage all of them take, with so many other stages."""
    return s.microbatches + others / chunks


def _exposed(s: Pieces) -> float:
    """Return what of the gradients no pass hides. [s]."""
    return max(s.last, _beyond(s))


def _beyond(s: Pieces) -> float:
    """Return by how much the gradients take longer than what can hide them; below 0 if they do not. [s]."""
    return s.gradients - s.overlap


def _without_sums(s: Pieces) -> float:
    return _in_turns(s, s.stages - 1, s.chunks) * s.compute + _exposed(s)


def _without_bubble(s: Pieces) -> float:
    return s.microbatches * (s.compute + s.sums) + _exposed(s)


def _without_chunks(s: Pieces) -> float:
    return _in_turns(s, s.stages - 1, 1) * (s.compute + s.sums) + _exposed(s)


def _every_stage_waits(s: Pieces) -> float:
    return _in_turns(s, s.stages, s.chunks) * (s.compute + s.sums) + _exposed(s)


# What somebody with a mistake returns, by its name.
STEP_MISTAKES: dict[str, Callable[[Pieces], float]] = {
    "computing only": lambda s: s.microbatches * s.compute,
    "sums forgotten": _without_sums,
    "bubble forgotten": _without_bubble,
    "chunks forgotten": _without_chunks,
    "a wait for every stage": _every_stage_waits,
    "nothing hidden": lambda s: _passes(s) + s.gradients,
    "gradients forgotten": _passes,
    "time given back": lambda s: _passes(s) + _beyond(s),
    "last bucket forgotten": lambda s: _passes(s) + max(0.0, _beyond(s)),
    "last bucket twice": lambda s: _passes(s) + s.last + max(0.0, _beyond(s)),
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
        is_right = is_same(found, wanted, _STEP_ROUNDING)
        tried.append(TriedCase(name, is_right, "", f"{found:#.4g} s", f"{wanted:#.4g} s"))
    i = first_wrong(tried)
    if i is None:
        return True, [], ""

    name, _, published_time = cases[i]
    line = text("function.step", name=name, got=f"{returned[i]:#.4g}", right=f"{right[i]:#.4g}")
    said = ""
    if published_time:
        said = text("function.step_published", time=f"{published_time:g}")
        line += " " + said
    look = text("trace.look_step", seconds=f"{returned[i] - right[i]:+.3g}")
    arguments = [(pieces,) for _, pieces, _ in cases]
    mistake = mistake_of(returned, STEP_MISTAKES, arguments, _STEP_ROUNDING)
    return wrong("72-write-step", line, mistake, Trace(tuple(tried), said=said, look=look))
