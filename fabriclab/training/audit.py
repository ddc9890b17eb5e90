"""A published table of training rates, recomputed: changes on both bases, and the entry that contradicts the others.

The table (`ring_table`) compares two versions of one library of collectives on the same PCIe fabric, for
two models and two ways to share their state. Its numbers are those of the slides, slips included.

Examples
--------
>>> from fabriclab.training import audit
>>> rows = audit.ring_table()
>>> first = rows[0]
>>> first.name, round(first.gain, 1), round(first.part_of_new, 1), first.printed
('1.3B, ZeRO-1', 12.2, 10.8, 10.81)
>>> slip = audit.misprint(rows)
>>> slip.name, slip.column, slip.printed, round(slip.expected, 2)
('1.3B, ZeRO-3', 'default', 85.52, 85.79)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from fabriclab import catalog
from fabriclab.catalog.tables import data_rows

__all__ = ["Misprint", "TrainingRate", "misprint", "ring_table"]

_NAMES = {
    "1p3b": "1.3B",  # source: catalog, measured neox-1p3b-zero1 (a model of 1.3 billion parameters)
    "13b": "13B",  # source: catalog, measured neox-13b-zero1 (a model of 13 billion parameters)
    "zero1": "ZeRO-1",
    "zero3": "ZeRO-3",
}
_COLUMNS = {"default": "rccl_6_1", "own rings": "rccl_own"}
_TERA = 1e12
# Ratios of the printed digits scatter by half a unit of the last place of the shortest, 12.61 or 120.0: 0.04 %.
_ROUNDING = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRate:
    """One line of the table: a rate with the default rings, and with rings made for the wiring.

    Parameters
    ----------
    name : str
        Model and stage of ZeRO.
    unit : str
        ``"samples/s"`` of all GPUs, or ``"TFLOP/s"`` of each GPU.
    default, own : float
        The rates, in that unit.
    printed : float
        The relative change that the slide prints. [%]
    source : str
        Key of the catalog's source.
    """

    name: str
    unit: str
    default: float
    own: float
    printed: float
    source: str

    @property
    def gain(self) -> float:
        """How much more there is than with the default rings. [%]."""
        return 100 * (self.own / self.default - 1)

    @property
    def part_of_new(self) -> float:
        """The difference as a part of the new rate. [%]."""
        return 100 * (1 - self.default / self.own)


class Misprint(NamedTuple):
    """An entry that contradicts its neighbours, and the value that would agree with them, in the unit of the table."""

    name: str
    column: str
    printed: float
    expected: float


@cache
def ring_table() -> tuple[TrainingRate, ...]:
    """Return the eight lines of the table: four set-ups in samples per second, then in TFLOP/s per GPU.

    Left out by the source: number of GPUs, batch and length of a sequence.
    """
    rows = []
    for row in data_rows("printed_changes"):
        part = f"neox-{row['model']}-{row['sharding']}"
        quantity = row["quantity"]
        scale = _TERA if quantity == "flops" else 1.0
        rates = []
        for column in _COLUMNS.values():
            rates.append(catalog.value("measured", part, f"{quantity}_{column}") / scale)
        rows.append(
            TrainingRate(
                name=f"{_NAMES[row['model']]}, {_NAMES[row['sharding']]}",
                unit="TFLOP/s" if quantity == "flops" else "samples/s",
                default=rates[0],
                own=rates[1],
                printed=float(row["printed_pct"]),
                source=row["source"],
            )
        )
    return tuple(rows)


def misprint(rows: Iterable[TrainingRate]) -> Misprint | None:
    """Return the rate in samples/s that contradicts the TFLOP/s of its set-up most, or None if all agree.

    A sample of one model costs the same operations in every run. So TFLOP/s per sample/s is one number for each model,
    and the entry whose ratio lies far from the median of its model is a slip of the pen.

    Parameters
    ----------
    rows : iterable of TrainingRate
        Lines of both units, such as `ring_table` returns.
    """
    by_unit: dict[str, dict[str, TrainingRate]] = {"samples/s": {}, "TFLOP/s": {}}
    for row in rows:
        by_unit[row.unit][row.name] = row
    found: Misprint | None = None
    worst = _ROUNDING
    models = {name.split(",")[0] for name in by_unit["samples/s"]}
    for model in sorted(models):
        names = [name for name in by_unit["samples/s"] if name.split(",")[0] == model]
        ratios = {}
        for name in names:
            samples, flops = by_unit["samples/s"][name], by_unit["TFLOP/s"][name]
            ratios[name, "default"] = flops.default / samples.default
            ratios[name, "own rings"] = flops.own / samples.own
        middle = float(np.median(list(ratios.values())))
        for (name, column), ratio in ratios.items():
            apart = abs(ratio / middle - 1)
            if apart > worst:
                worst = apart
                row = by_unit["samples/s"][name]
                printed = row.default if column == "default" else row.own
                found = Misprint(name, column, printed, printed * ratio / middle)
    return found


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
