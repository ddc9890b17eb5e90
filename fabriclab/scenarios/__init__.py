"""Scenarios for the packet engine: a fabric, traffic and settings as a value that can be played, changed and compared.

Each scenario is a function that registers itself; `names` lists them.

Examples
--------
>>> from fabriclab import scenarios
>>> trace = scenarios.incast(senders=4, size="40 kB").play()
>>> bool(trace.last_finish > 0)
True
"""

from __future__ import annotations

from typing import Any

from fabriclab import registry
from fabriclab.scenarios.compare import Comparison, Matrix, compare, matrix
from fabriclab.scenarios.incasts import fan_out, incast, time_to_fill
from fabriclab.scenarios.lossless import credit_loop, cyclic_dependency, pause_storm, victim
from fabriclab.scenarios.neighbour import neighbour
from fabriclab.scenarios.order import reorder_depth
from fabriclab.scenarios.pacing import paced
from fabriclab.scenarios.patterns import (
    all_to_all,
    ecmp_collision,
    mixed_tenants,
    permutation,
    ring_all_reduce,
)
from fabriclab.scenarios.scenario import LINE_RATE, Scenario

__all__ = [
    "LINE_RATE",
    "Comparison",
    "Matrix",
    "Scenario",
    "all_to_all",
    "build",
    "compare",
    "credit_loop",
    "cyclic_dependency",
    "ecmp_collision",
    "fan_out",
    "incast",
    "matrix",
    "mixed_tenants",
    "names",
    "neighbour",
    "paced",
    "pause_storm",
    "permutation",
    "reorder_depth",
    "ring_all_reduce",
    "time_to_fill",
    "victim",
]


def names() -> tuple[str, ...]:
    """Return the names of all scenarios that `build` knows."""
    return registry.names("scenario")


def build(name: str, /, **arguments: Any) -> Scenario:
    """Build a scenario by its name, with the arguments of its function."""
    scenario: Scenario = registry.get("scenario", name)(**arguments)
    return scenario


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
