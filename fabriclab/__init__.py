"""fabriclab: build, simulate and measure the networks that connect accelerators.

Nothing heavy is loaded here: a name below is imported when it is first used.

Examples
--------
>>> import fabriclab as fl
>>> fl.units.parse("400 Gb/s", "rate")
50000000000.0
"""

import importlib
import sys
from typing import Any

from fabriclab import moved

__version__ = "1.0.0"

# The module that defines each public name.
_HOME = {
    "case": "catalog",
    "run": "engines",
    "simulate": "simulation",
    "system": "systems",
    "sweep": "simulation",
    "estimate": "tuner",
    "doctor": "diagnosis",
    "system_from_logs": "diagnosis",
    "what_if": "diagnosis",
    "draw": "views",
    "audit": "course.assessment",
    "calibration": "course.assessment",
    "exam": "course.assessment",
    "interview": "course.assessment",
    "rate": "course.assessment",
    "rubric": "course.assessment",
    "strengths": "course.assessment",
    "after_guess": "course.checks",
    "check": "course.checks",
    "choose_path": "course.checks",
    "drill": "course.checks",
    "errata": "course.checks",
    "export_progress": "course.checks",
    "forget": "course.checks",
    "hello": "course.checks",
    "import_progress": "course.checks",
    "ledger": "course.checks",
    "lessons": "course.checks",
    "paths": "course.checks",
    "predict": "course.checks",
    "progress": "course.checks",
    "remember": "course.checks",
    "report": "course.checks",
    "reveal": "course.checks",
    "ruler": "course.checks",
}
# The module that each public name stands for.
_MODULES = {
    "assessment": "course.assessment",
    "catalog": "catalog",
    "checks": "course.checks",
    "circuits": "circuits",
    "collectives": "collectives",
    "core": "core",
    "designs": "designs",
    "diagnosis": "diagnosis",
    "economics": "economics",
    "engines": "engines",
    "errors": "errors",
    "exercises": "course.judges",
    "gpudirect": "gpudirect",
    "importers": "importers",
    "innetwork": "innetwork",
    "live": "views.live",
    "lower": "lower",
    "measure": "measure",
    "metrics": "metrics",
    "operations": "operations",
    "physics": "physics",
    "rdma": "rdma",
    "registry": "registry",
    "routing": "routing",
    "scenarios": "scenarios",
    "sdn": "sdn",
    "simulation": "simulation",
    "topologies": "topologies",
    "training": "training",
    "tuner": "tuner",
    "units": "units",
    "validate": "validate",
    "views": "views",
    "workload": "workload",
}

__all__ = ["__version__", *_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, and keep it."""
    if name in _MODULES:
        value: Any = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    elif name in _HOME:
        module = importlib.import_module(f"{__name__}.{_HOME[name]}")
        value = getattr(module, name)
    else:
        known = ", ".join(sorted(__all__))
        raise AttributeError(f"fabriclab has no {name!r}; its names are {known}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, so that tab completion shows them."""
    return sorted(__all__)


# First, because an empty folder left over from an earlier version is a package, too.
if moved not in sys.meta_path:
    sys.meta_path.insert(0, moved)

if "IPython" in sys.modules:  # in a notebook; elsewhere Python's own tracebacks stay
    from fabriclab import tracebacks

    tracebacks.install()
