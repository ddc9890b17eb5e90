"""What limits a job that grows: operations for each byte sent, rounds of latency, and steps on more accelerators.

Examples
--------
A GPU of the running case computes at 495 TFLOP/s, and its NIC sends 50 GB/s. It needs 9,900 operations for each byte,
and has them:

>>> import fabriclab as fl
>>> from fabriclab.training import scaling
>>> from fabriclab.workload import layouts, models
>>> case = fl.case()
>>> model, layout = models.of_case(case), layouts.of_case(case)
>>> round(scaling.ridge(case.sustained_bf16, case.nic_rate))
9900
>>> round(scaling.intensity(model, layout, "gradients", "parameters"), -3)
53000.0

On twice the GPUs with twice the batch nearly nothing is lost:

>>> step = fl.training.of_case(case)
>>> round(scaling.efficiency(step, 2), 3), round(scaling.efficiency(step, 2, batch="same"), 3)
(1.0, 0.998)
"""

from __future__ import annotations

import math

from fabriclab import units
from fabriclab.training.step import Step
from fabriclab.workload.layouts import Layout
from fabriclab.workload.models import Model
from fabriclab.workload.volumes import volumes

__all__ = ["BATCH", "efficiency", "grown", "intensity", "ridge", "rounds", "sized"]

#: What becomes of the batch when a job gets more GPUs: it grows with them (weak scaling), or stays (strong scaling).
BATCH = ("grows", "same")
# Rounds of messages of a collective over n ranks in a ring, or of an exchange of all pairs, in multiples of n - 1.
_ROUNDS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}


def intensity(model: Model, layout: Layout, *purposes: str) -> float:
    """Return how many operations a GPU computes in a step for each byte that it sends. [FLOP/B].

    This is the x axis of a communication roofline. Operations are those of the model, recomputation not counted.

    Parameters
    ----------
    model, layout : Model, Layout
        What is trained, and how it is divided.
    *purposes : str
        Which traffic counts; see `fabriclab.workload.volumes.PURPOSES`. By default all of it.

    Returns
    -------
    float
        Infinite if nothing is sent.
    """
    tokens = layout.batch * layout.length(model)
    operations = model.flops(layout.length(model)).model * tokens / layout.ranks
    sent = volumes(model, layout).sent(*purposes)
    return operations / sent if sent else math.inf


def ridge(rate: float, bandwidth: units.Quantity) -> float:
    """Return the intensity at which computing and sending take equally long. [FLOP/B].

    Parameters
    ----------
    rate : float
        Operations that a GPU computes in a second. [FLOP/s], > 0
    bandwidth : float or str
        Rate at which it sends. [B/s], > 0
    """
    if not rate > 0:
        raise ValueError(f"rate must be > 0 FLOP/s, got {rate!r}; 495e12 are 495 TFLOP/s")
    return rate / units.rate(bandwidth, "bandwidth")


def sized(model: Model, hidden: int) -> Model:
    """Return a model of the same shape with another hidden size.

    Heads keep their size, so there are as many more of them; the inner size of feed-forward parts and the number of
    layers grow in proportion.

    Parameters
    ----------
    model : Model
        A dense model.
    hidden : int
        Hidden size; a multiple of the size of a head. >= 1

    Raises
    ------
    ValueError
        If heads of the size do not divide it, or the model has experts or layers of several kinds.
    """
    size = units.count(hidden, "hidden")
    if model.is_moe or model.pattern or model.kv_rank:
        raise ValueError(f"model must be dense with ordinary attention, got {model.name}")
    if size % (model.head_size * model.kv_heads):
        step = model.head_size * model.kv_heads
        raise ValueError(
            f"hidden must be a multiple of {step}, so that {model.kv_heads} heads of keys divide its heads of "
            f"{model.head_size}, got {size}; the nearest is {max(1, round(size / step)) * step}"
        )
    share = size / model.hidden
    return model.replace(
        name=f"{model.name}, hidden size {size:,}",
        hidden=size,
        heads=size // model.head_size,
        feed_forward=round(share * model.feed_forward),
        layers=max(1, round(share * model.layers)),
    )


def rounds(model: Model, layout: Layout, *purposes: str) -> float:
    """Return how often in a step a rank passes a message on and has to wait for the next one.

    Each collective over n ranks counts as a ring: 2 (n - 1) rounds for an all-reduce, n - 1 for its halves; a message
    to another stage counts once. Multiply by the latency of a round for what latency costs if nothing is hidden.

    Parameters
    ----------
    model, layout, *purposes
        As in `intensity`; the stage with most rounds counts.
    """
    by_stage = [0.0] * layout.pp
    for line in volumes(model, layout).only(*purposes):
        each = _ROUNDS[line.operation] * (line.ranks - 1) if line.operation in _ROUNDS else 1
        by_stage[line.stage] += line.count * each
    return max(by_stage)


def grown(step: Step, factor: int, *, batch: str = "grows") -> Step:
    """Return the step on so many times the accelerators: with more replicas of the same layout.

    Parameters
    ----------
    step : Step
        The step to start from.
    factor : int
        By how much the number of replicas grows. >= 1
    batch : str
        ``"grows"``: each replica keeps its micro-batches (weak scaling). ``"same"``: they are divided among the
        replicas (strong scaling).

    Raises
    ------
    ValueError
        If the micro-batches of a replica cannot be divided so.
    """
    times = units.count(factor, "factor")
    how = units.choice(batch, "batch", BATCH)
    layout = step.layout
    microbatches = layout.microbatches
    if how == "same":
        if microbatches % times:
            raise ValueError(
                f"factor must divide the {microbatches} micro-batches of a replica if the batch stays the same, got "
                f"{times}"
            )
        microbatches //= times
    more = layout.replace(
        dp=layout.dp * times, shard=layout.shard * times, microbatches=microbatches
    )
    return step.again(more)


def efficiency(step: Step, factor: int, *, batch: str = "grows") -> float:
    """Return tokens per second and accelerator of the grown job, as a part of those of the step.

    Parameters
    ----------
    step, factor, batch
        As in `grown`.
    """
    more = grown(step, factor, batch=batch)
    return (more.tokens_per_second / more.ranks) / (step.tokens_per_second / step.ranks)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
