"""The types of fabriclab: frozen dataclasses of arrays, SI inside."""

from fabriclab.core.builder import FabricBuilder
from fabriclab.core.changes import Changes
from fabriclab.core.fabric import Fabric
from fabriclab.core.flows import Flows
from fabriclab.core.result import Result, bus_factor
from fabriclab.core.routes import PATH, SPRAY, TREE, Routes
from fabriclab.core.save import load, save
from fabriclab.core.schedule import Schedule, StepGroup
from fabriclab.core.timeline import Timeline

__all__ = [
    "PATH", "SPRAY", "TREE", "Changes", "Fabric", "FabricBuilder", "Flows", "Result", "Routes", "Schedule",
    "StepGroup", "Timeline", "bus_factor", "load", "save",
]  # fmt: skip
