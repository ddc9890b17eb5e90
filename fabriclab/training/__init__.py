"""Training: the time of a step and what it consists of, published steps as questions, and the search for a layout.

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
from fabriclab.training.kernels import Flat, Machine, Roofline, machine
from fabriclab.training.layout_search import Search, Trial, candidates, search
from fabriclab.training.places import Costs, RateCosts
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
    "PARTS",
    "Bar",
    "Costs",
    "Flat",
    "Machine",
    "Phase",
    "Pieces",
    "RateCosts",
    "Roofline",
    "Schedule",
    "Search",
    "StageTimes",
    "Step",
    "StepTimeline",
    "Trial",
    "ask",
    "audit",
    "candidates",
    "machine",
    "of_case",
    "scaling",
    "search",
    "slowdowns",
    "step_timeline",
    "train_step",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
