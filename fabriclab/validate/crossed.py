"""How wrong our model is on what it has not seen, beside two baselines, and what no public fact can tell."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.catalog import published
from fabriclab.catalog.tables import data_rows
from fabriclab.core.result import bus_factor
from fabriclab.tuner import CONSTANTS, calibration
from fabriclab.tuner.system import System, read
from fabriclab.validate.model import predict
from fabriclab.validate.ring import textbook
from fabriclab.validate.tables import CAP, REGIMES, Model, Rows, errors, regimes, table

__all__ = ["Report", "excluded", "nearest", "report"]

_NATIVE: Final = ("nvlink", "xgmi", "ib", "roce")


def excluded(sweep_id: str, size: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which sizes [B] of a sweep public facts cannot carry, shape (K,); ``exclusions.csv`` says why."""
    mine = [r for r in data_rows("exclusions") if r["sweep_id"] == sweep_id]
    return np.any([(size >= float(r["from_bytes"])) & (size <= float(r["to_bytes"])) for r in mine], 0, where=True) & (
        np.ones(size.shape, bool)
    )


def nearest(about: dict[str, Any], size_bytes: units.Quantity) -> float:
    """Return the time [us] that the nearest other system measured, scaled by the rates of their ports.

    Nearest is the sweep of another system with servers or without as asked, then of the same collective, the same
    transport and the nearest count of ranks. Between its sizes the time is interpolated, beyond them it is that of
    the last size, times the ratio of sizes where larger.
    """
    time, size, scale = _other(about["sweep_id"])
    n = units.size(size_bytes, "size_bytes")
    return float(1e6 * scale * np.exp(np.interp(np.log(n), np.log(size), np.log(time))) * max(n / size[-1], 1.0))


@cache
def _other(sweep_id: str) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    rows = published.systems()
    about = next(r for r in rows if r["sweep_id"] == sweep_id)
    mine = read(about)

    def distance(row: dict[str, Any]) -> tuple[bool, bool, bool, float]:
        its = read(row)
        return (
            (its.servers > 1) != (mine.servers > 1), its.what != mine.what, its.family != mine.family,
            abs(float(np.log(its.ranks / mine.ranks))),
        )  # fmt: skip

    other = min((r for r in rows if r["system"] != about["system"]), key=distance)
    its, result = read(other), published.load(other["sweep_id"])
    scale = _port(its) / _port(mine) * bus_factor(mine.what, mine.ranks) / bus_factor(its.what, its.ranks)
    return result.time, result.size, scale


def _port(system: System) -> float:
    return system.node if system.servers > 1 else system.own


@dataclass(frozen=True)
class Report:
    """What `report` found.

    Parameters
    ----------
    held_out, seen, sweeps, exclusions : Rows
        Errors on what no fit has seen, beside baselines; errors of the catalog alone and of the fit to all; errors of
        each sweep; points that public facts cannot carry.
    counts : str
        How many constants, families, systems and points there are.
    """

    held_out: Rows
    seen: Rows
    sweeps: Rows
    exclusions: Rows
    counts: str

    def __str__(self) -> str:
        """Return the tables, what was not seen first."""
        heads = ("predicted from fits that have not seen it, beside baselines",
                 "catalog alone, and one calibration for each family", "each sweep: our model, and the textbook ring",
                 "points that public facts cannot carry")  # fmt: skip
        parts = (self.held_out, self.seen, self.sweeps, self.exclusions)
        note = "lat, mid, bw: median of sweep medians; _p90: 90th percentile of points"
        told = "\n\n".join(f"{head}\n{part}" for head, part in zip(heads, parts, strict=True))
        return f"{note}\n{told}\n\n{self.counts}"


def report() -> Report:
    """Return the errors of our model: cross-validated first, beside the textbook ring and the nearest other system."""
    rows = published.systems()
    family = {r["sweep_id"]: read(r).family for r in rows}
    folds = {(r["family"], r["without"]): r for r in data_rows("calibration")}
    largest = {f: max(read(r).ranks for r in rows if family[r["sweep_id"]] == f and not _gone(r)) for f in {*family.values()}}
    main = [r for r in data_rows("calibration") if r["family"] and not r["without"]]
    alone = {r["family"] for r in main if "; " not in r["systems"]}
    crossed = [r for r in rows if family[r["sweep_id"]] not in alone]
    single = [r for r in rows if family[r["sweep_id"]] in alone]
    most = [r for r in rows if (family[r["sweep_id"]], "largest") in folds and r["ranks"] == largest[family[r["sweep_id"]]]]
    native = [r for r in rows if family[r["sweep_id"]] in _NATIVE]

    def blind(about: dict[str, Any], size: float) -> float | None:
        return predict(about, size, without=about["system"])

    catalog_only = partial(predict, calibrated=False)
    held = [("each system", blind, crossed), ("  textbook ring", textbook, crossed), ("  nearest system", nearest, crossed),
            ("largest rank count", partial(predict, without="largest"), most), ("  textbook ring", textbook, most),
            ("  nearest system", nearest, most), ("only system of its family: catalog", catalog_only, single),
            ("  textbook ring", textbook, single), ("  nearest system", nearest, single)]  # fmt: skip
    seen = [("catalog alone, vendor-native paths", catalog_only, native), ("catalog alone", catalog_only, rows),
            ("calibrated", predict, rows), ("textbook ring", textbook, rows)]  # fmt: skip
    gone = [{**r, "points": int(excluded(r["sweep_id"], published.load(r["sweep_id"]).size).sum())}
            for r in data_rows("exclusions")]  # fmt: skip
    points, out = sum(len(published.load(r["sweep_id"]).size) for r in rows), sum(r["points"] for r in gone)
    n = sum(bool(r[k]) for r in main for k in CONSTANTS)
    systems = {s for r in main for s in r["systems"].split("; ")}
    counts = (
        f"{n} constants in {len(main)} families of transport, fitted on {len(systems)} systems; {out} of {points} points "
        f"({out / points:.1%}) excluded"
    )
    ours, ring = table().rows, table(textbook).rows
    both = tuple({**a, **{f"ring {g}": b[g] for g in REGIMES}, **{f"ring {g}_p90": b[f"{g}_p90"] for g in REGIMES}}
                 for a, b in zip(ours, ring, strict=True))  # fmt: skip
    return Report(Rows(tuple(_score(*h) for h in held)), Rows(tuple(_score(*s) for s in seen)), Rows(both), Rows(tuple(gone)), counts)


def _gone(row: dict[str, Any]) -> bool:
    return bool(excluded(row["sweep_id"], published.load(row["sweep_id"]).size).all())


def _score(name: str, model: Model, rows: Collection[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of sweep medians and the 90th percentile of points in each regime, excluded points left out."""
    medians: dict[str, list[float]] = {g: [] for g in REGIMES}
    points: dict[str, list[float]] = {g: [] for g in REGIMES}
    for about in rows:
        result, error = errors(model, about)
        kind = np.where(excluded(about["sweep_id"], result.size), "", regimes(result))
        for g in REGIMES:
            if (kind == g).any():
                medians[g].append(float(np.median(error[kind == g])))
                points[g] += error[kind == g].tolist()
    out: dict[str, Any] = {"model": name, "sweeps": len(rows), "points": sum(map(len, points.values()))}
    for g in REGIMES:
        out |= {g: float(np.median(medians[g])), f"{g}_p90": float(np.quantile(points[g], 0.9))} if points[g] else {
            g: float("nan"), f"{g}_p90": float("nan")
        }
    return out
