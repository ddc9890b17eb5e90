"""Operating a fabric: faults, counters and timings, drift and drains, and what is left of a job meanwhile.

Examples
--------
>>> from fabriclab import operations, topologies
>>> hall = topologies.build("leaf_spine", hosts=16, radix=8)
>>> operations.report(hall, operations.fail(hall, "spine", [1])).bandwidth
0.625
"""

from fabriclab.operations.attachments import Attachment, Finding
from fabriclab.operations.bisection import (
    Found,
    NotFound,
    Round,
    TimedServers,
    find_slow_nic,
    repeats_needed,
    rounds_needed,
)
from fabriclab.operations.blast import Blast, blast_radius, blast_table, events_per_year, racks
from fabriclab.operations.causes import COUNTERS, Cause, incident
from fabriclab.operations.checkpoints import (
    Checkpoints,
    TimeSpent,
    best_interval,
    daly_interval,
    young_interval,
)
from fabriclab.operations.detectors import (
    RULES,
    Alert,
    AlertRule,
    Alerts,
    Score,
    Tradeoff,
    alerts,
    best_limit,
    first_alarm,
    over_baseline,
    score,
    tradeoff,
)
from fabriclab.operations.drift import (
    Deviation,
    Drift,
    Settings,
    changed,
    find_drift,
    mismatched_ends,
    read_settings,
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
from fabriclab.operations.maintenance import (
    Maintenance,
    Reranked,
    Stage,
    put_back,
    rerank,
    switch_crossings,
    take_out,
)
from fabriclab.operations.manifests import ManifestReport, check_manifests, example_manifest
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
from fabriclab.operations.readings import (
    CounterLog,
    CounterValue,
    Series,
    Skipped,
    read_counters,
    read_telemetry,
)
from fabriclab.operations.runs import Repair, Runs, play_runs, spares_for
from fabriclab.operations.sequential import Cusum, RunLengths, Threshold, heavy_tailed, limit_for
from fabriclab.operations.services import Outcome, Service, fails_with, inventory, needed
from fabriclab.operations.subnet import Sweep, SwitchTables, forwarding_tables, sweep
from fabriclab.operations.subnet_files import Subnet, read_forwarding_tables, read_ibnetdiscover
from fabriclab.operations.subnet_text import (
    write_forwarding_tables,
    write_ibnetdiscover,
    write_subnet_list,
)
from fabriclab.operations.telemetry import Telemetry, cause_kinds, observe
from fabriclab.operations.watching import Watch, calibration_factor, shift_of, watch

__all__ = [
    "COUNTERS",
    "PARTS",
    "PATHS",
    "RULES",
    "Alert",
    "AlertRule",
    "Alerts",
    "Attachment",
    "Blast",
    "Cause",
    "Checkpoints",
    "Component",
    "ComponentTransfer",
    "CounterLog",
    "CounterValue",
    "Cusum",
    "Deviation",
    "Drift",
    "Exponential",
    "FaultReport",
    "Finding",
    "FlapCost",
    "Fleet",
    "FleetFit",
    "Found",
    "HeldOut",
    "Latency",
    "LogNormal",
    "Maintenance",
    "ManifestReport",
    "MonteCarlo",
    "Normal",
    "NotFound",
    "Observed",
    "Outcome",
    "Repair",
    "Reranked",
    "Retries",
    "Round",
    "RunLengths",
    "Runs",
    "Score",
    "Separated",
    "Series",
    "Service",
    "Settings",
    "Skipped",
    "Spikes",
    "Stage",
    "Subnet",
    "Sweep",
    "SwitchTables",
    "Telemetry",
    "Threshold",
    "TimeSpent",
    "TimedServers",
    "Tradeoff",
    "Transfer",
    "Watch",
    "alerts",
    "best_interval",
    "best_limit",
    "blast_radius",
    "blast_table",
    "calibration_factor",
    "cause_kinds",
    "changed",
    "check_manifests",
    "components",
    "daly_interval",
    "events_per_year",
    "example_manifest",
    "fail",
    "fails_with",
    "find_drift",
    "find_slow_nic",
    "first_alarm",
    "fit_fleets",
    "flap",
    "fleet",
    "fleets",
    "forwarding_tables",
    "heavy_tailed",
    "held_out",
    "incident",
    "inventory",
    "limit_for",
    "mismatched_ends",
    "monte_carlo",
    "needed",
    "observe",
    "over_baseline",
    "parts",
    "play_runs",
    "poisson_interval",
    "put_back",
    "racks",
    "read_counters",
    "read_forwarding_tables",
    "read_ibnetdiscover",
    "read_settings",
    "read_telemetry",
    "repeats_needed",
    "report",
    "rerank",
    "restart_cost",
    "rounds_needed",
    "score",
    "separated",
    "shift_of",
    "spares_for",
    "sweep",
    "switch_crossings",
    "take_out",
    "tradeoff",
    "transfer",
    "transfer_components",
    "watch",
    "worst_ratio",
    "write_forwarding_tables",
    "write_ibnetdiscover",
    "write_subnet_list",
    "young_interval",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
