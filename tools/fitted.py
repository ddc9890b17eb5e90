"""Write tables of what is fitted to published runs."""

import csv
import sys
from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[1] / "fabriclab" / "catalog" / "data"
COLUMNS = ("stack", "generation", "precision", "model", "rows", "efficiency")


def write(name, columns, rows):
    """Write a table of the catalog."""
    out = DATA / f"{name}.csv"
    with out.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(columns)
        table.writerows(rows)
    sys.stdout.write(f"{len(rows)} rows in {out}\n")


def medians(groups):
    """Return rows of `COLUMNS`: of each (stack, generation, precision, model) the median of its efficiencies."""
    rows = []
    for key, values in sorted(groups.items()):
        rows.append((*key, len(values), f"{np.median(values):.4f}"))
    return rows
