"""Find the efficiency that each published group of inference runs needs.

    python tools/fit_inference.py

writes ``fabriclab/catalog/data/inference_fit.csv``: for each software stack, accelerator, precision and model the
median of its rows. `fabriclab.training.served` pools them. No cell of that file is typed.
"""

from collections import defaultdict

from fitted import COLUMNS, medians, write

from fabriclab.catalog.tables import data_rows
from fabriclab.training import served
from fabriclab.training.efficiency import INFERENCE


def main():
    """Fit, and write the file."""
    groups = defaultdict(list)
    for row in data_rows("inference"):
        found = served.needed(row)
        if found:
            kind, model, value = found
            groups[*kind, model].append(value)
    write(INFERENCE, COLUMNS, medians(groups))


if __name__ == "__main__":
    main()
