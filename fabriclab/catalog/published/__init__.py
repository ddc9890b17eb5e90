"""Published nccl-tests and rccl-tests sweeps of real systems, with the people who measured and published them.

Examples
--------
>>> from fabriclab.catalog import published
>>> round(published.load("h100x8_ring").at("8 GiB"), 5)
0.04085
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fabriclab.catalog.tables import near, read_rows
from fabriclab.core import BUS_FACTORS, Result

__all__ = ["identifier", "load", "sources", "system", "systems"]

_HERE = Path(__file__).parent
_KEYS = (
    "sweep_id",
    "system",
    "collective",
    "algo",
    "nodes",
    "gpus_per_node",
    "ranks",
    "dtype",
    "source",
)
_INTEGERS = ("nodes", "gpus_per_node", "ranks", "scale_up_domain_gpus", "nics_per_node", "nic_gbps")
_SPELLINGS = {key.replace("_", ""): key for key in BUS_FACTORS}


def identifier(collective: str) -> str:
    """Return the library's name of a collective that a tool may spell ``alltoall`` or ``SendRecv``.

    Raises
    ------
    ValueError
        If no collective has this name.
    """
    name = _SPELLINGS.get(str(collective).lower().replace("_", "").replace("-", ""))
    if name is None:
        raise ValueError(near(collective, BUS_FACTORS, "the list of collectives"))
    return name


@cache
def _rows() -> dict[str, list[dict[str, str]]]:
    """Return the rows of each sweep, by its id, in the order of the files."""
    out: dict[str, list[dict[str, str]]] = {}
    for path in sorted(_HERE.glob("nccl_*.csv")):
        for row in read_rows(path):
            out.setdefault(row["sweep_id"], []).append({**row, "file": path.name})
    return out


@cache
def _systems() -> dict[str, dict[str, Any]]:
    """Return the description of each sweep, by its id."""
    known = {row["sweep_id"]: row for row in read_rows(_HERE / "systems.csv")}
    out: dict[str, dict[str, Any]] = {}
    for name, rows in _rows().items():
        merged: dict[str, Any] = {key: rows[0][key] for key in _KEYS}
        merged |= known[name]
        for key in _INTEGERS:
            if merged.get(key):
                merged[key] = int(merged[key])
        out[name] = merged
    return out


def systems() -> list[dict[str, Any]]:
    """Return one dict per sweep: what ran, on which system, over which transport; without measured values."""
    return [dict(row) for row in _systems().values()]


def system(sweep_id: str) -> dict[str, Any]:
    """Return the description of one sweep, as in `systems`.

    Raises
    ------
    KeyError
        If there is no such sweep.
    """
    if not isinstance(sweep_id, str) or sweep_id not in _systems():
        unknown = near(sweep_id, _systems(), "the table of published sweeps")
        gap = " " if unknown.endswith("?") else "; "
        raise KeyError(
            f"{unknown}{gap}all of them: [row['sweep_id'] for row in fabriclab.catalog.published.systems()]"
        )
    return dict(_systems()[sweep_id])


def sources() -> list[dict[str, str]]:
    """Return one dict per file: who measured, where it is published, date, licence, and what was taken from it."""
    return read_rows(_HERE / "SOURCES.csv")


def load(sweep_id: str) -> Result:
    """Return a published sweep as a Result: out-of-place times of nccl-tests or rccl-tests.

    Raises
    ------
    KeyError
        If there is no such sweep.
    """
    about = system(sweep_id)
    rows = _rows()[sweep_id]
    size = np.array([float(row["size_bytes"]) for row in rows])  # (K,) [B]
    time = np.array([float(row["time_us"]) for row in rows]) * 1e-6  # (K,) [s]
    by = next(s["measured_by"] for s in sources() if s["file"] == rows[0]["file"])
    return Result(
        identifier(about["collective"]),
        "published",
        size,
        time,
        about["ranks"],
        asked=about,
        how="nccl-tests or rccl-tests, out of place, mean of its rounds",
        source=f"{by}: {rows[0]['source']}",
        notes=(about["note"],) if about["note"] else (),
    )
