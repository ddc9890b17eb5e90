"""Find the efficiency that each published group of inference runs needs.

    python tools/fit_inference.py

writes ``fabriclab/catalog/data/inference_fit.csv``: for each software stack, accelerator, precision and model the
median of its rows. `fabriclab.training.served` pools them. No cell of that file is typed.
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from fabriclab.catalog.tables import data_rows
from fabriclab.training import served

OUT = Path(__file__).parents[1] / "fabriclab" / "catalog" / "data" / "inference_fit.csv"
COLUMNS = ("stack", "accelerator", "precision", "model", "rows", "efficiency")


def main():
    """Fit, and write the file."""
    groups = defaultdict(list)
    for row in data_rows("inference"):
        found = served.needed(row)
        if found:
            kind, model, value = found
            groups[*kind, model].append(value)
    with OUT.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for key, values in sorted(groups.items()):
            table.writerow((*key, len(values), f"{np.median(values):.4f}"))
    sys.stdout.write(f"{len(groups)} groups of {sum(map(len, groups.values()))} rows in {OUT}\n")


if __name__ == "__main__":
    main()
