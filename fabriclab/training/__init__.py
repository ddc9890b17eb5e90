"""Training: the time of a step, its parts, and the search for a layout."""

from fabriclab.training.kernels import Flat, Machine, Roofline, machine
from fabriclab.training.places import Costs, RateCosts
from fabriclab.training.step import DOUBLED, PARTS, Phase, Schedule, Step, of_case, train_step

__all__ = [
    "DOUBLED",
    "PARTS",
    "Costs",
    "Flat",
    "Machine",
    "Phase",
    "RateCosts",
    "Roofline",
    "Schedule",
    "Step",
    "machine",
    "of_case",
    "train_step",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
