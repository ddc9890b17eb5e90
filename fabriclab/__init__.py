"""fabriclab: build, time and measure the networks that connect accelerators.

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

__version__ = "0.1.0"

_SUBMODULES = (
    "catalog checks collectives core economics engines errors exercises gpudirect importers innetwork lower measure "
    "metrics operations physics rdma registry routing simulation topologies tuner units validate views workload"
).split()
_NAMES = {
    "catalog": "case",
    "engines": "run",
    "simulation": "simulate sweep",
    "tuner": "estimate",
    "views": "draw",
    "checks": "check choose_path drill errata export_progress forget hello import_progress ledger lessons paths "
    "predict progress remember report reveal ruler",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", "live", *_HOME, *_SUBMODULES]


def __getattr__(name: str) -> Any:
    """Import a public name on first use and keep it."""
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "live":
        return importlib.import_module(f"{__name__}.views.live")
    if name not in _HOME:
        raise AttributeError(
            f"fabriclab has no {name!r}; its names are {', '.join(sorted(__all__))}"
        )
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, so that completion shows what is there."""
    return sorted(__all__)


if "IPython" in sys.modules:  # in a notebook; elsewhere Python's own traceback stays
    from fabriclab import tracebacks

    tracebacks.install()
