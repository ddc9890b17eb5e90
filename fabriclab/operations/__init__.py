"""Operating a fabric: faults and maintenance, and what is left of a fabric meanwhile.

Examples
--------
>>> from fabriclab import operations, topologies
>>> hall = topologies.build("leaf_spine", hosts=16, radix=8)
>>> operations.report(hall, operations.fail(hall, "spine", [1])).bandwidth
0.625
"""

from fabriclab.operations.faults import (
    FaultReport,
    MonteCarlo,
    Separated,
    fail,
    monte_carlo,
    parts,
    report,
    separated,
)

__all__ = [
    "FaultReport",
    "MonteCarlo",
    "Separated",
    "fail",
    "monte_carlo",
    "parts",
    "report",
    "separated",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
