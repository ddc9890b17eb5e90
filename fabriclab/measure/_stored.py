"""Measurements of another machine, kept for machines that cannot measure."""

import json
from collections.abc import Iterable
from dataclasses import replace
from importlib.resources import files
from typing import Any, Final

import numpy as np

from fabriclab import units
from fabriclab.core.result import Result
from fabriclab.errors import FileFormat

FORMAT: Final = "fabriclab measured"
VERSION: Final = 1


def stored(what: str) -> Result:
    """Return the stored measurement of ``copy``, ``sockets`` or a collective on two ranks, over all its sizes.

    Raises
    ------
    ValueError
        If nothing is stored under that name.
    """
    file: dict[str, Any] = json.loads((files(__package__) / "stored.json").read_text(encoding="utf-8"))
    if (file["format"], file["version"]) != (FORMAT, VERSION):
        msg = f"stored.json must be {FORMAT!r}, version {VERSION}; got {file['format']!r}, version {file['version']}"
        raise FileFormat(msg)
    if not isinstance(what, str) or what not in file["results"]:
        raise ValueError(f"nothing is stored for {what!r}; choose one of {', '.join(file['results'])}")
    return Result(what, "stored", **file["results"][what], source=f"{file['machine']}, {file['date']}")


def nearest(what: str, sizes: Iterable[float], why: str) -> Result:
    """Return the stored sizes nearest to ``sizes`` [B]; the first note says that, and why nothing was measured."""
    full = stored(what)
    near = [int(np.argmin(np.abs(np.log2(full.size + 1) - np.log2(size + 1)))) for size in sizes]
    shown = ", ".join(units.format_size(full.size[i]) for i in near)
    note = f"not measured here: {why}; shown is what a {full.source} took for {shown}"
    columns: dict[str, Any] = {name: getattr(full, name)[near] for name in ("size", "time", "low", "high")}
    return replace(full, **columns, notes=(note, *full.notes))
