"""Judge the network of a cluster that somebody has designed: demand, cost, faults and maintenance, in a second.

Everything of exercise 2 that is no question stands here. A design comes as a sheet of plain data (`read`, `sheet_of`);
`grade` checks every requirement, each of which is a file of ``brief`` that registers itself.

Examples
--------
>>> from fabriclab import designs
>>> rails = designs.read({"family": "rail_optimised"})
>>> designs.check(rails, "demand").passed
True
"""

from fabriclab.designs.approaches import examples, plan_drains
from fabriclab.designs.exam import FIGURES, Verdict, figures
from fabriclab.designs.failures import FLOOR, Fault, fault, faults
from fabriclab.designs.fronts import beaten_by, front
from fabriclab.designs.grading import Dot, Report, check, gallery, grade, requirements
from fabriclab.designs.needs import (
    AXES,
    Demand,
    Step,
    Workload,
    demand,
    drawable_workloads,
    drawn_workloads,
    workloads,
)
from fabriclab.designs.nights import NIGHTS, drains
from fabriclab.designs.prices import (
    BUDGET,
    SPREAD,
    Model,
    Prices,
    bill_of,
    drawn_prices,
    list_prices,
    models,
)
from fabriclab.designs.sheets import Design, plug, read, sheet_of
from fabriclab.designs.traffic import Loads, loads, step_time

#: GPUs that a design has to connect (source: the brief of exercise 2).
GPUS = 1000

__all__ = [
    "AXES",
    "BUDGET",
    "FIGURES",
    "FLOOR",
    "GPUS",
    "NIGHTS",
    "SPREAD",
    "Demand",
    "Design",
    "Dot",
    "Fault",
    "Loads",
    "Model",
    "Prices",
    "Report",
    "Step",
    "Verdict",
    "Workload",
    "beaten_by",
    "bill_of",
    "check",
    "demand",
    "drains",
    "drawable_workloads",
    "drawn_prices",
    "drawn_workloads",
    "examples",
    "fault",
    "faults",
    "figures",
    "front",
    "gallery",
    "grade",
    "list_prices",
    "loads",
    "models",
    "plan_drains",
    "plug",
    "read",
    "requirements",
    "sheet_of",
    "step_time",
    "workloads",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
