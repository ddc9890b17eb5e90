"""Training and inference: the time of a step, or of a token, what it consists of, and the search for a layout.

Examples
--------
>>> import fabriclab as fl
>>> from fabriclab.workload import layouts, models
>>> system = fl.system(gpu="H100", servers=128)
>>> layout = layouts.Layout(tp=8, dp=128, microbatches=4, sequence_parallel=True, sharding="zero1")
>>> step = fl.training.train_step(models.preset("Llama 3 70B"), layout, system)
>>> step.binds, 3 < step.time < 5
('compute', True)
"""

from fabriclab.training import audit, scaling
from fabriclab.training.contention import slowdowns
from fabriclab.training.far_memory import (
    ParameterPool,
    demand_traces,
    lookups_per_second,
    parameter_pool,
    with_far_weights,
)
from fabriclab.training.inference import (
    HALVED,
    TOKEN_PARTS,
    Handover,
    Room,
    Serving,
    exchange,
    handover,
    largest_batch,
    room_for_cache,
    serve,
    tolerable_latency,
)
from fabriclab.training.kernels import Flat, Machine, Roofline, machine
from fabriclab.training.layout_search import Search, Trial, candidates, search
from fabriclab.training.places import Costs, LatencyCosts, Place, RateCosts, SweepCosts
from fabriclab.training.served import TwoBoxes, published_runs, two_boxes
from fabriclab.training.step import (
    DOUBLED,
    PARTS,
    Phase,
    Pieces,
    Schedule,
    StageTimes,
    Step,
    ask,
    of_case,
    train_step,
)
from fabriclab.training.timeline import Bar, StepTimeline, step_timeline

__all__ = [
    "DOUBLED",
    "HALVED",
    "PARTS",
    "TOKEN_PARTS",
    "Bar",
    "Costs",
    "Flat",
    "Handover",
    "LatencyCosts",
    "Machine",
    "ParameterPool",
    "Phase",
    "Pieces",
    "Place",
    "RateCosts",
    "Roofline",
    "Room",
    "Schedule",
    "Search",
    "Serving",
    "StageTimes",
    "Step",
    "StepTimeline",
    "SweepCosts",
    "Trial",
    "TwoBoxes",
    "ask",
    "audit",
    "candidates",
    "demand_traces",
    "exchange",
    "handover",
    "largest_batch",
    "lookups_per_second",
    "machine",
    "of_case",
    "parameter_pool",
    "published_runs",
    "room_for_cache",
    "scaling",
    "search",
    "serve",
    "slowdowns",
    "step_timeline",
    "tolerable_latency",
    "train_step",
    "two_boxes",
    "with_far_weights",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
