"""The types that all packages share: frozen dataclasses of NumPy arrays, with SI units inside."""

from fabriclab.core._arrays import (
    Flags,
    Floats,
    Ints,
    distinct,
    distinct_pairs,
    expand,
    parts_of,
    pointer,
    rows_of,
)
from fabriclab.core._frozen import (
    ReadOnly,
    Value,
    check_pointer,
    check_within,
    column,
    freeze,
    frozen,
    si,
    texts,
    whole,
)
from fabriclab.core._memory import available_memory, check_memory
from fabriclab.core.builder import FabricBuilder, check_size
from fabriclab.core.fabric import Fabric
from fabriclab.core.flows import Flows
from fabriclab.core.result import BUS_FACTORS, MACHINE_SHARED, Result, bus_factor
from fabriclab.core.routes import PATH, SPRAY, TREE, Changes, Routes, Timeline
from fabriclab.core.save import load, save, write_atomic
from fabriclab.core.schedule import Schedule, StepGroup
from fabriclab.core.spec import Spec, as_html, as_text, html_table, si_factor

__all__ = [
    "BUS_FACTORS",
    "MACHINE_SHARED",
    "PATH",
    "SPRAY",
    "TREE",
    "Changes",
    "Fabric",
    "FabricBuilder",
    "Flags",
    "Floats",
    "Flows",
    "Ints",
    "ReadOnly",
    "Result",
    "Routes",
    "Schedule",
    "Spec",
    "StepGroup",
    "Timeline",
    "Value",
    "as_html",
    "as_text",
    "available_memory",
    "bus_factor",
    "check_memory",
    "check_pointer",
    "check_size",
    "check_within",
    "column",
    "distinct",
    "distinct_pairs",
    "expand",
    "freeze",
    "frozen",
    "html_table",
    "load",
    "parts_of",
    "pointer",
    "rows_of",
    "save",
    "si",
    "si_factor",
    "texts",
    "whole",
    "write_atomic",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
