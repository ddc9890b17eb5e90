"""Models beside published measurements: collectives, training steps and inference, each with a simpler rival."""

from fabriclab.validate.crossed import Report, excluded, nearest, report
from fabriclab.validate.inference import InferenceReport, inference_report, predict_inference
from fabriclab.validate.steps import (
    HeldStep,
    PaperStep,
    StepReport,
    grown_jobs,
    held_steps,
    paper_pairs,
    paper_steps,
    predict_step,
    step_report,
)
from fabriclab.validate.tables import (
    REGIMES,
    ReportTable,
    gigaio,
    median_errors,
    predict,
    regimes,
    table,
    textbook,
)
from fabriclab.validate.two_numbers import StepNumbers, per_step

__all__ = [
    "REGIMES",
    "HeldStep",
    "InferenceReport",
    "PaperStep",
    "Report",
    "ReportTable",
    "StepNumbers",
    "StepReport",
    "excluded",
    "gigaio",
    "grown_jobs",
    "held_steps",
    "inference_report",
    "median_errors",
    "nearest",
    "paper_pairs",
    "paper_steps",
    "per_step",
    "predict",
    "predict_inference",
    "predict_step",
    "regimes",
    "report",
    "step_report",
    "table",
    "textbook",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
