"""The error of our model on systems that it was not fitted to, compared with two baselines, and its excluded points."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.catalog import published
from fabriclab.catalog.tables import data_rows
from fabriclab.core import Flags, Floats, bus_factor
from fabriclab.tuner import CONSTANTS, HOST, classify, estimate
from fabriclab.tuner.system import System, read
from fabriclab.validate.tables import (
    Model,
    ReportTable,
    errors,
    predict,
    regimes,
    score,
    table,
    textbook,
)

_NATIVE = ("nvlink", "xgmi", "ib", "roce")
_catalog_only = partial(predict, calibrated=False)
_HEAD = """\
Errors of predicted times. bw: sizes with at least half of the sweep's highest bandwidth; lat: those that take less than
twice its shortest time, if it begins at 64 KiB or less; mid: all others. Each is a median of sweep medians; _p90: 90th
percentile of points."""


def excluded(sweep_id: str, size: Floats) -> Flags:
    """Return which sizes [B] of a sweep are excluded because public facts do not explain them, (K,).

    ``exclusions.csv`` gives the reasons.
    """
    out = np.zeros(size.shape, bool)
    for row in data_rows("exclusions"):
        if row["sweep_id"] == sweep_id:
            out |= (size >= float(row["from_bytes"])) & (size <= float(row["to_bytes"]))
    return out


def nearest(about: dict[str, Any], size_bytes: units.Quantity) -> float | None:
    """Return the time [us] that the nearest other system measured, scaled by the rates of their ports, else None.

    Candidates are the sweeps of other systems that begin at this size or below. The nearest one matches in whether it
    has several servers, then in the collective, then in the transport, and then has the closest number of ranks.
    Between its sizes the time is interpolated; above them it is the time of its largest size times the ratio of sizes.
    """
    n = units.size(size_bytes, "size_bytes")
    for other in _others(about["sweep_id"]):
        if other.size[0] <= n:
            # A straight line between two sizes in double logarithmic scale; np.interp is constant beyond the last one.
            logarithm = np.interp(np.log(n), np.log(other.size), np.log(other.time))
            beyond = max(1, n / other.size[-1])
            return float(1e6 * other.scale * np.exp(logarithm) * beyond)
    return None


class _Other(NamedTuple):
    """A sweep of another system, with the factor that scales its times."""

    time: Floats  # (K,) [s]
    size: Floats  # (K,) [B]
    scale: (
        float  # by which its times are multiplied: ratio of bus factors and of the rates of ports
    )


@cache
def _others(sweep_id: str) -> list[_Other]:
    """Return the sweeps of other systems, the nearest first."""
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
    others = [row for row in published.systems() if row["system"] != about["system"]]
    for row in sorted(others, key=distance):
        its = read(row)
        result = published.load(row["sweep_id"])
        rates = _port_rate(its) / _port_rate(mine)
        scale = rates * bus_factor(mine.what, mine.ranks) / bus_factor(its.what, its.ranks)
        found.append(_Other(result.time, result.size, scale))
    return found


def _port_rate(system: System) -> float:
    """Return the rate of a system's ports [B/s]: all NICs of a server, or inside one server the links of a GPU."""
    return system.node if system.servers > 1 else system.own


@dataclass(frozen=True)
class Report:
    """The tables that `report` returns.

    Parameters
    ----------
    parts : mapping
        Tables by heading: errors on data that no fit has seen, compared with baselines; errors of the catalog alone and
        of the fit to all data; errors on each sweep; points that public facts do not explain; how many measured times
        lie within the band.
    counts : str
        One line with the number of constants, families, systems and points.
    """

    parts: Mapping[str, ReportTable]
    counts: str

    def __str__(self) -> str:
        """Return the tables as text, beginning with the errors on data that no fit has seen."""
        tables = "\n\n".join(f"{head}\n{part}" for head, part in self.parts.items())
        return f"{_HEAD}\n\n{tables}\n\n{self.counts}"


def report() -> Report:
    """Return the errors of our model, cross-validated first, beside the textbook ring and the nearest other system."""
    every_main = [row for row in data_rows("calibration") if row["family"] and not row["without"]]
    main = [row for row in every_main if row["family"] != HOST]
    systems = {row["family"]: row["systems"].split("; ") for row in main}
    every = published.systems()
    parts = {
        "predicted from fits that have not seen it, beside baselines": _unseen(every, systems),
        "catalog alone, and one calibration for each family": _seen(every),
        "each sweep: our model, and the textbook ring": _each_sweep(),
        "points that public facts cannot carry": [dict(row) for row in data_rows("exclusions")],
        "measured times within the band of fits that have not seen the system": coverage(),
    }

    fitted = sum(bool(row[name]) for row in every_main for name in CONSTANTS)
    known = set(itertools.chain.from_iterable(systems.values()))
    points = 0
    out = 0
    for row in every:
        size = published.load(row["sweep_id"]).size
        points += size.size
        out += int(excluded(row["sweep_id"], size).sum())
    counts = (
        f"{fitted} constants in {len(main)} families of transport, fitted on {len(known)} systems; "
        f"{out} of {points} points ({units.format_share(out / points, 1)}) excluded"
    )
    return Report({head: ReportTable(tuple(rows)) for head, rows in parts.items()}, counts)


def _unseen(every: list[dict[str, Any]], systems: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Return the scores on data that no fit has seen; ``systems`` lists the systems of each family of transport."""
    most = {
        row["family"]: int(row["ranks"])
        for row in data_rows("calibration")
        if row["without"] == "largest"
    }
    crossed = []
    single = []
    largest = []
    for row in every:
        family = read(row).family
        if len(systems[family]) > 1:
            crossed.append(row)
        if len(systems[family]) == 1:
            single.append(row)
        if row["ranks"] == most.get(family):
            largest.append(row)

    def without_its_system(row: dict[str, Any], size: float) -> float | None:
        return predict(row, size, without=row["system"])

    return [
        *_beside("each system", without_its_system, crossed),
        *_beside("largest rank count", partial(predict, without="largest"), largest),
        *_beside("only system of its family: catalog", _catalog_only, single),
    ]


def coverage() -> list[dict[str, Any]]:
    """Return the part of the measured times that lie within the band, by family of transport and class of size.

    Each time is predicted by a fit that has not seen its system. A band is made to hold four in five. That of a family
    known from one system comes from other families, so there the part is a true test.
    """
    inside: dict[tuple[str, str], list[bool]] = {}
    for row in published.systems():
        result = published.load(row["sweep_id"])
        left_out = excluded(row["sweep_id"], result.size)
        family = read(row).family
        for size, time in zip(result.size[~left_out], result.time[~left_out], strict=True):
            found = estimate(row, size=float(size), without=row["system"])
            kind = classify(found.terms)
            hit = bool(found.low <= time <= found.high)
            for name in (family, "all"):
                inside.setdefault((name, kind), []).append(hit)

    systems = {
        row["family"]: row["systems"].count("; ") + 1
        for row in data_rows("calibration")
        if row["family"] != HOST and row["systems"]
    }
    rows = []
    for family in (*systems, "all"):
        known = systems.get(family, len({row["system"] for row in published.systems()}))
        cells: dict[str, Any] = {"family": family, "systems": known}
        for kind in ("latency", "middle", "bandwidth"):
            hits = inside.get((family, kind), [])
            cells[f"{kind}, points"] = len(hits)
            cells[f"{kind}, inside"] = units.format_share(float(np.mean(hits))) if hits else "-"
        rows.append(cells)
    return rows


def _seen(every: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the scores of the catalog alone, of the fit to all data, and of the textbook ring."""
    native = [row for row in every if read(row).family in _NATIVE]
    return [
        _score("catalog alone, vendor-native paths", _catalog_only, native),
        _score("catalog alone", _catalog_only, every),
        _score("calibrated", predict, every),
        _score("textbook ring", textbook, every),
    ]


def _each_sweep() -> list[dict[str, Any]]:
    """Return the errors of our model and of the textbook ring on each sweep."""
    errors_shown = ("lat", "lat_p90", "bw", "bw_p90")
    rows = []
    for ours, ring in zip(table().rows, table(textbook).rows, strict=True):
        row = {name: ours[name] for name in ("sweep", "collective", "ranks", *errors_shown)}
        for name in errors_shown:
            row[f"ring {name}"] = ring[name]
        rows.append(row)
    return rows


def _beside(name: str, model: Model, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the scores of a model and of both baselines on the same rows."""
    return [
        _score(name, model, rows),
        _score("  textbook ring", textbook, rows),
        _score("  nearest", nearest, rows),
    ]


def _score(name: str, model: Model, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scores of a model without the excluded points."""
    sweeps = []
    points = 0
    for row in rows:
        result, error = errors(model, row)
        regime = np.where(excluded(row["sweep_id"], result.size), "", regimes(result))
        sweeps.append((regime, error))
        points += int(np.count_nonzero(regime != ""))
    return {"model": name, "sweeps": len(rows), "points": points, **score(sweeps)}
