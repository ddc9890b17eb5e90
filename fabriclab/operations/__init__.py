"""Operating a fabric: faults and maintenance, counters and timings, drift, drains, and what runs beside the jobs.

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
from fabriclab.operations.causes import COUNTERS, Cause
from fabriclab.operations.detectors import (
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
from fabriclab.operations.readings import (
    CounterLog,
    CounterValue,
    Series,
    Skipped,
    read_counters,
    read_telemetry,
)
from fabriclab.operations.sequential import Cusum, RunLengths, Threshold, limit_for
from fabriclab.operations.services import Outcome, Service, fails_with, inventory, needed
from fabriclab.operations.subnet import Sweep, SwitchTables, forwarding_tables, sweep
from fabriclab.operations.subnet_files import Subnet, read_forwarding_tables, read_ibnetdiscover
from fabriclab.operations.subnet_text import (
    write_forwarding_tables,
    write_ibnetdiscover,
    write_subnet_list,
)
from fabriclab.operations.telemetry import Telemetry, cause_kinds, observe
from fabriclab.operations.watching import Watch, shift_of, watch

__all__ = [
    "COUNTERS",
    "Alert",
    "AlertRule",
    "Alerts",
    "Attachment",
    "Cause",
    "CounterLog",
    "CounterValue",
    "Cusum",
    "Deviation",
    "Drift",
    "FaultReport",
    "Finding",
    "Found",
    "Maintenance",
    "ManifestReport",
    "MonteCarlo",
    "NotFound",
    "Outcome",
    "Reranked",
    "Round",
    "RunLengths",
    "Score",
    "Separated",
    "Series",
    "Service",
    "Settings",
    "Skipped",
    "Stage",
    "Subnet",
    "Sweep",
    "SwitchTables",
    "Telemetry",
    "Threshold",
    "TimedServers",
    "Tradeoff",
    "Watch",
    "alerts",
    "best_limit",
    "cause_kinds",
    "changed",
    "check_manifests",
    "example_manifest",
    "fail",
    "fails_with",
    "find_drift",
    "find_slow_nic",
    "first_alarm",
    "forwarding_tables",
    "inventory",
    "limit_for",
    "mismatched_ends",
    "monte_carlo",
    "needed",
    "observe",
    "over_baseline",
    "parts",
    "put_back",
    "read_counters",
    "read_forwarding_tables",
    "read_ibnetdiscover",
    "read_settings",
    "read_telemetry",
    "repeats_needed",
    "report",
    "rerank",
    "rounds_needed",
    "score",
    "separated",
    "shift_of",
    "sweep",
    "switch_crossings",
    "take_out",
    "tradeoff",
    "watch",
    "write_forwarding_tables",
    "write_ibnetdiscover",
    "write_subnet_list",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
