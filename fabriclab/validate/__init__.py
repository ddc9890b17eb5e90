"""Comparison of models with published measurements: our model and the textbook ring, and rings on PCIe wirings."""

from fabriclab.validate.crossed import Report, excluded, nearest, report
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
    "Report",
    "ReportTable",
    "excluded",
    "gigaio",
    "median_errors",
    "nearest",
    "predict",
    "regimes",
    "report",
    "table",
    "textbook",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
