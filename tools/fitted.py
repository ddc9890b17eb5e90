"""Write a table of fitted efficiencies: for each kind and model the median of its rows."""

import csv
import sys
from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[1] / "fabriclab" / "catalog" / "data"
COLUMNS = ("stack", "generation", "precision", "model", "rows", "efficiency")


def write(name, groups):
    """Write ``groups``, lists of efficiencies by (stack, generation, precision, model), as a table of the catalog."""
    out = DATA / f"{name}.csv"
    with out.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for key, values in sorted(groups.items()):
            table.writerow((*key, len(values), f"{np.median(values):.4f}"))
    sys.stdout.write(f"{len(groups)} groups of {sum(map(len, groups.values()))} rows in {out}\n")
