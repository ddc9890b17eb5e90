"""How wrong our model is on what it has not seen, beside two baselines, and what no public fact can tell."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.catalog import published
from fabriclab.catalog.tables import data_rows
from fabriclab.core import Flags, Floats, bus_factor
from fabriclab.tuner import CONSTANTS
from fabriclab.tuner.system import read
from fabriclab.validate.tables import Model, Rows, errors, predict, regimes, score, table, textbook

_NATIVE = ("nvlink", "xgmi", "ib", "roce")
_HEAD = """\
Errors of predicted times. bw: sizes with at least half of the sweep's highest bandwidth; lat: those that take less than
twice its shortest time, if it begins at 64 KiB or less; mid: all others. Each is a median of sweep medians; _p90: 90th
percentile of points."""


def excluded(sweep_id: str, size: Floats) -> Flags:
    """Return which sizes [B] of a sweep public facts cannot carry, shape (K,); ``exclusions.csv`` says why."""
    out = np.zeros(size.shape, bool)
    for row in data_rows("exclusions"):
        if row["sweep_id"] == sweep_id:
            out |= (size >= float(row["from_bytes"])) & (size <= float(row["to_bytes"]))
    return out


def nearest(about: dict[str, Any], size_bytes: units.Quantity) -> float | None:
    """Return the time [us] that the nearest other system measured, scaled by the rates of their ports.

    Nearest is, of the sweeps of other systems that begin at this size or below, the one with servers or without as
    asked, then of the same collective, the same transport and the nearest count of ranks; None where there is none.
    Between its sizes the time is interpolated, above them it is that of the last, times the ratio of sizes.
    """
    n = units.size(size_bytes, "size_bytes")
    for time, size, scale in _others(about["sweep_id"]):
        if size[0] <= n:
            return float(
                1e6
                * scale
                * np.exp(np.interp(np.log(n), np.log(size), np.log(time)))
                * max(1, n / size[-1])
            )
    return None


@cache
def _others(sweep_id: str) -> list[tuple[Floats, Floats, float]]:
    """Return times, sizes and scale of the sweeps of other systems, the nearest first."""
    about = published.system(sweep_id)
    mine = read(about)

    def distance(row: dict[str, Any]) -> tuple[bool, bool, bool, float]:
        its = read(row)
        return (
            (its.servers > 1) != (mine.servers > 1),
            its.what != mine.what,
            its.family != mine.family,
            abs(float(np.log(its.ranks / mine.ranks))),
        )

    found = []
    for row in sorted(
        (r for r in published.systems() if r["system"] != about["system"]), key=distance
    ):
        its, result = read(row), published.load(row["sweep_id"])
        port, own = (system.node if system.servers > 1 else system.own for system in (its, mine))
        scale = port / own * bus_factor(mine.what, mine.ranks) / bus_factor(its.what, its.ranks)
        found.append((result.time, result.size, scale))
    return found


@dataclass(frozen=True)
class Report:
    """What `report` found.

    Parameters
    ----------
    parts : mapping
        Heading -> table: errors on what no fit has seen, beside baselines; errors of the catalog alone and of the fit
        to all; errors of each sweep; points that public facts cannot carry.
    counts : str
        How many constants, families, systems and points there are.
    """

    parts: Mapping[str, Rows]
    counts: str

    def __str__(self) -> str:
        """Return the tables, what was not seen first."""
        told = "\n\n".join(f"{head}\n{part}" for head, part in self.parts.items())
        return f"{_HEAD}\n\n{told}\n\n{self.counts}"


def report() -> Report:
    """Return the errors of our model: cross-validated first, beside the textbook ring and the nearest other system."""
    main = [r for r in data_rows("calibration") if r["family"] and not r["without"]]
    systems = {r["family"]: r["systems"].split("; ") for r in main}
    most = {
        r["family"]: int(r["ranks"]) for r in data_rows("calibration") if r["without"] == "largest"
    }
    rows = [(r, read(r).family) for r in published.systems()]
    crossed = [r for r, family in rows if len(systems[family]) > 1]
    single = [r for r, family in rows if len(systems[family]) == 1]
    largest = [r for r, family in rows if r["ranks"] == most.get(family)]
    native = [r for r, family in rows if family in _NATIVE]
    every = [r for r, _ in rows]
    catalog_only = partial(predict, calibrated=False)
    held = [
        *_beside("each system", lambda r, n: predict(r, n, without=r["system"]), crossed),
        *_beside("largest rank count", partial(predict, without="largest"), largest),
        *_beside("only system of its family: catalog", catalog_only, single),
    ]
    seen = [
        _score("catalog alone, vendor-native paths", catalog_only, native),
        _score("catalog alone", catalog_only, every),
        _score("calibrated", predict, every),
        _score("textbook ring", textbook, every),
    ]
    sizes = {r["sweep_id"]: published.load(r["sweep_id"]).size for r in every}
    gone: list[dict[str, Any]] = [dict(r) for r in data_rows("exclusions")]
    points, out = (
        sum(map(len, sizes.values())),
        int(sum(excluded(k, n).sum() for k, n in sizes.items())),
    )
    fitted, known = (
        sum(bool(r[k]) for r in main for k in CONSTANTS),
        {s for names in systems.values() for s in names},
    )
    counts = (
        f"{fitted} constants in {len(main)} families of transport, fitted on {len(known)} systems; "
    )
    counts += f"{out} of {points} points ({out / points:.1%}) excluded"
    cells = ("lat", "lat_p90", "bw", "bw_p90")
    both = [
        {
            **{k: ours[k] for k in ("sweep", "collective", "ranks", *cells)},
            **{f"ring {k}": ring[k] for k in cells},
        }
        for ours, ring in zip(table().rows, table(textbook).rows, strict=True)
    ]
    heads = (
        "predicted from fits that have not seen it, beside baselines",
        "catalog alone, and one calibration for each family",
        "each sweep: our model, and the textbook ring",
        "points that public facts cannot carry",
    )
    return Report(
        {head: Rows(tuple(p)) for head, p in zip(heads, (held, seen, both, gone), strict=True)},
        counts,
    )


def _beside(name: str, model: Model, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the scores of a model and of both baselines."""
    return [
        _score(name, model, rows),
        _score("  textbook ring", textbook, rows),
        _score("  nearest", nearest, rows),
    ]


def _score(name: str, model: Model, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scores of a model, excluded points left out."""
    held = [(about["sweep_id"], *errors(model, about)) for about in rows]
    sweeps = [
        (np.where(excluded(id, seen.size), "", regimes(seen)), error) for id, seen, error in held
    ]
    points = sum(np.count_nonzero(kind != "") for kind, _ in sweeps)
    return {"model": name, "sweeps": len(rows), "points": points, **score(sweeps)}
