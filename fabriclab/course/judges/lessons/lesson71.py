"""Lesson 71: what tensor parallelism sends, and a layout that fits."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fabriclab.catalog import case
from fabriclab.course.judges import Trace, TriedCase, Unanswered
from fabriclab.course.judges.shared.functions import (
    Verdict,
    called,
    first_wrong,
    is_same,
    mistake_of,
    name_of,
    number_of,
    wrong,
)
from fabriclab.course.judges.shared.numbers import brief
from fabriclab.course.questions import misconception
from fabriclab.course.shown import digits
from fabriclab.registry import register
from fabriclab.texts import text
from fabriclab.training import Step, of_case
from fabriclab.workload import layouts, models
from fabriclab.workload.layouts import Layout
from fabriclab.workload.memory import memory
from fabriclab.workload.volumes import volumes


class PublishedLayout(NamedTuple):
    """A stage of a published job: GPUs that share a layer, layers of the stage, micro-batches, tokens, hidden size."""

    name: str
    model: str  # as `models.preset` knows it
    tp: int
    pp: int
    dp: int
    microbatches: int

    @property
    def layout(self) -> Layout:
        """The layout of the job; a micro-batch is one sequence."""
        return Layout(tp=self.tp, pp=self.pp, dp=self.dp, microbatches=self.microbatches)

    @property
    def arguments(self) -> tuple[int, int, int, int, int]:
        """What the learner's function is called with."""
        model = models.preset(self.model)
        layers = model.layers // self.pp
        return self.tp, layers, self.microbatches, model.sequence, model.hidden

    @property
    def sent(self) -> float:
        """What a GPU of the job sends in a step inside its layers, by the ledger of the library [B]."""
        return volumes(models.preset(self.model), self.layout).sent("tensor")


Sent71 = Callable[[int, int, int, int, int], Any]
# source: the case; rows of table 1 of D. Narayanan et al., SC 2021 (arXiv:2104.04473): GPUs that share a layer, stages,
# replicas, and the batch, of which each replica has so many sequences.
LAYOUTS_71: Sequence[PublishedLayout] = (
    PublishedLayout("the case", "the running case", 8, 1, 128, 4),
    PublishedLayout("Megatron 7.5B", "Megatron 7.5B", 4, 1, 32, 16),
    PublishedLayout("Megatron 76.1B", "Megatron 76.1B", 8, 4, 32, 56),
    PublishedLayout("Megatron 1008B", "Megatron 1008B", 8, 64, 6, 512),
)


def _tensor(tp: int, layers: int, microbatches: int, tokens: int, hidden: int) -> float:
    """Return what a GPU sends in a step for the sums of its layers [B]."""
    message = 2 * tokens * hidden
    return 4 * layers * microbatches * 2 * (tp - 1) / tp * message


def _half_of_the_sums(tp: int, layers: int, microbatches: int, tokens: int, hidden: int) -> float:
    return _tensor(tp, layers, microbatches, tokens, hidden) / 2


def _one_sum_of_four(tp: int, layers: int, microbatches: int, tokens: int, hidden: int) -> float:
    return _tensor(tp, layers, microbatches, tokens, hidden) / 4


def _ring_forgotten(tp: int, layers: int, microbatches: int, tokens: int, hidden: int) -> float:
    """Return the bytes of somebody who counts each message once."""
    return _tensor(tp, layers, microbatches, tokens, hidden) / (2 * (tp - 1) / tp)


def _factor_taken_as_2(tp: int, layers: int, microbatches: int, tokens: int, hidden: int) -> float:
    return _ring_forgotten(tp, layers, microbatches, tokens, hidden) * 2


def _one_micro_batch(tp: int, layers: int, microbatches: int, tokens: int, hidden: int) -> float:
    return _tensor(tp, layers, 1, tokens, hidden)


def _one_layer(tp: int, layers: int, microbatches: int, tokens: int, hidden: int) -> float:
    return _tensor(tp, 1, microbatches, tokens, hidden)


def _a_part_of_the_message(
    tp: int, layers: int, microbatches: int, tokens: int, hidden: int
) -> float:
    """Return the bytes of somebody who takes a message for the part of one GPU."""
    return _tensor(tp, layers, microbatches, tokens, hidden) / tp


def _all_gpus(tp: int, layers: int, microbatches: int, tokens: int, hidden: int) -> float:
    return _tensor(tp, layers, microbatches, tokens, hidden) * tp


# What somebody with a mistake returns, by its name.
TENSOR_MISTAKES: dict[str, Callable[[int, int, int, int, int], float]] = {
    "half of the sums": _half_of_the_sums,
    "one sum of four": _one_sum_of_four,
    "ring forgotten": _ring_forgotten,
    "factor taken as 2": _factor_taken_as_2,
    "one micro-batch": _one_micro_batch,
    "one layer": _one_layer,
    "a part of the message": _a_part_of_the_message,
    "all GPUs": _all_gpus,
}


@register("check", "71-write-bytes")
def tensor_bytes(answer: Sent71) -> Verdict:
    """Run ``answer(tp, layers, microbatches, tokens, hidden)``, the bytes that a GPU sends, on published layouts."""
    returned = [number_of(answer, *job.arguments) for job in LAYOUTS_71]
    right = [job.sent for job in LAYOUTS_71]
    tried = []
    for job, found, sent in zip(LAYOUTS_71, returned, right, strict=True):
        call = f"{name_of(answer)}{job.arguments}"
        shown = f"{found / 1e9:,.4g} GB"
        wanted = f"{sent / 1e9:,.4g} GB"
        tried.append(TriedCase(job.name, is_same(found, sent), call, shown, wanted))
    i = first_wrong(tried)
    if i is None:
        return True, [], ""

    numbers = {"got": returned[i] / 1e9, "right": right[i] / 1e9}
    line = text("function.tensor_bytes", name=LAYOUTS_71[i].name, **numbers)
    look = text("trace.look_tensor", ratio=digits(returned[i] / right[i]))
    arguments = [job.arguments for job in LAYOUTS_71]
    mistake = mistake_of(returned, TENSOR_MISTAKES, arguments)
    return wrong("71-write-bytes", line, mistake, Trace(tuple(tried), look=look))


# illustrative: what the question asks for, a tenth of a second below the step of the case
LONGEST_STEP = 4.5


@register("check", "71-layout")
def layout(answer: Callable[[], Any]) -> Verdict:
    """Run ``answer()``, a layout of the running case; any that fits into memory and is fast enough is right."""
    found = _layout(answer)
    job = case()
    room = float(job.hbm_capacity)
    kept = memory(models.of_case(job), found, activations="rule").most
    step = of_case(job, layout=found)
    words = {
        "layout": str(found).replace("zero3", "FSDP (zero3)"),
        "memory": kept / 1e9,
        "room": room / 1e9,
        "step": step.time,
        "longest": LONGEST_STEP,
        "dp": found.dp,
        "tensor": step.parts["tensor"],
        "usual": of_case(job).parts["tensor"],
        "bubble": step.parts["bubble"] + step.parts["pipeline"],
        "state": step.parts["gradients"] + step.parts["parameters"],
    }
    cases = (
        TriedCase(
            text("trace.memory"), kept <= room, "", f"{kept / 1e9:.1f} GB", f"{room / 1e9:.0f} GB"
        ),
        TriedCase(
            text("trace.step_at_most"),
            step.time <= LONGEST_STEP,
            "",
            f"{step.time:.2f} s",
            f"{LONGEST_STEP:.2f} s",
        ),
    )
    if all(tried.right for tried in cases):
        return True, [text("function.layout_right", **words)], ""
    mistake = "does not fit" if kept > room else _slow_because(step)
    because = misconception("71-layout", mistake)
    trace = Trace(cases, look=text("trace.look_layout"))
    return False, [text("function.layout", **words), because], mistake, trace


def _slow_because(step: Step) -> str:
    """Return the mistake behind a step that is too slow: what it waits for longest."""
    waits = {name: step.parts[name] for name in ("bubble", "tensor", "gradients", "parameters")}
    longest = max(waits, key=waits.__getitem__)
    if step.layout.recompute != "none":
        return "computed again"
    if longest == "bubble":
        return "a long bubble"
    if longest == "tensor":
        return "sums cost most"
    return "state cost most"


def _layout(answer: Callable[[], Any]) -> Layout:
    """Return the layout that the learner's function returns; raise Unanswered if it is none of the case's job."""
    found = called(answer)
    call = f"{name_of(answer)}()"
    if not isinstance(found, Layout):
        raise Unanswered("kind", text("function.no_layout", call=call, got=brief(found)))
    job = case()
    usual = layouts.of_case(job)
    wanted = {
        "ranks": int(job.gpus),
        "batch": usual.batch,
        "weight_bytes": usual.weight_bytes,
        "gradient_bytes": usual.gradient_bytes,
        "activation_bytes": usual.activation_bytes,
        "optimiser_bytes": usual.optimiser_bytes,
    }
    for name, right in wanted.items():
        if getattr(found, name) != right:
            said = text(
                "function.other_job", call=call, name=name, got=getattr(found, name), right=right
            )
            raise Unanswered("range", said)
    try:
        layouts.check(found, models.of_case(job))
    except ValueError as error:
        said = text("function.raised", call=call, error="ValueError", words=str(error))
        raise Unanswered("range", said) from None
    if found.length(models.of_case(job)) != int(job.sequence):
        said = text(
            "function.other_job",
            call=call,
            name="sequence",
            got=found.sequence,
            right=int(job.sequence),
        )
        raise Unanswered("range", said)
    return found
