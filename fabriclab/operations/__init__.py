"""Operating a fabric: faults and maintenance, how often they come, and what is left of a fabric and of a job meanwhile.

Examples
--------
>>> from fabriclab import operations, topologies
>>> hall = topologies.build("leaf_spine", hosts=16, radix=8)
>>> operations.report(hall, operations.fail(hall, "spine", [1])).bandwidth
0.625
"""

from fabriclab.operations.blast import Blast, blast_radius, blast_table, events_per_year, racks
from fabriclab.operations.checkpoints import (
    Checkpoints,
    TimeSpent,
    best_interval,
    daly_interval,
    young_interval,
)
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
from fabriclab.operations.flaps import PATHS, FlapCost, Retries, flap, restart_cost, worst_ratio
from fabriclab.operations.maxima import Exponential, Latency, LogNormal, Normal, Observed, Spikes
from fabriclab.operations.predictions import (
    ComponentTransfer,
    FleetFit,
    HeldOut,
    Transfer,
    fit_fleets,
    held_out,
    transfer,
    transfer_components,
)
from fabriclab.operations.rates import (
    PARTS,
    Component,
    Fleet,
    components,
    fleet,
    fleets,
    poisson_interval,
)
from fabriclab.operations.runs import Repair, Runs, play_runs, spares_for

__all__ = [
    "PARTS",
    "PATHS",
    "Blast",
    "Checkpoints",
    "Component",
    "ComponentTransfer",
    "Exponential",
    "FaultReport",
    "FlapCost",
    "Fleet",
    "FleetFit",
    "HeldOut",
    "Latency",
    "LogNormal",
    "MonteCarlo",
    "Normal",
    "Observed",
    "Repair",
    "Retries",
    "Runs",
    "Separated",
    "Spikes",
    "TimeSpent",
    "Transfer",
    "best_interval",
    "blast_radius",
    "blast_table",
    "components",
    "daly_interval",
    "events_per_year",
    "fail",
    "fit_fleets",
    "flap",
    "fleet",
    "fleets",
    "held_out",
    "monte_carlo",
    "parts",
    "play_runs",
    "poisson_interval",
    "racks",
    "report",
    "restart_cost",
    "separated",
    "spares_for",
    "transfer",
    "transfer_components",
    "worst_ratio",
    "young_interval",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
