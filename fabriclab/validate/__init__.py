"""Models beside published measurements: collectives, training steps and inference, each with a simpler rival."""

from fabriclab.validate.crossed import Report, excluded, nearest, report
from fabriclab.validate.inference import InferenceReport, inference_report, predict_inference
from fabriclab.validate.steps import StepReport, predict_step, step_report
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

__all__ = [
    "REGIMES",
    "InferenceReport",
    "Report",
    "ReportTable",
    "StepReport",
    "excluded",
    "gigaio",
    "inference_report",
    "median_errors",
    "nearest",
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
