"""Find the efficiency of computation that each published group of training steps needs.

    python tools/fit_training.py

writes ``fabriclab/catalog/data/training_fit.csv``: for each software stack, generation, precision and model the median
of its rows. `fabriclab.training.efficiency` pools them. No cell of that file is typed.
"""

from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor

from fitted import write

from fabriclab.catalog.tables import data_rows
from fabriclab.training import published
from fabriclab.training.efficiency import TRAINING

TOLERANCE = 1e-3
LEAST = 0.1  # part of a step that computes at least, so that no row asks for infinite speed


def needed(row):
    """Return kind, model and the efficiency that brings the model of a step to the time of a row, or None."""
    asked = published.read_row(row)
    if asked is None:
        return None
    want = float(row["step_time_s"])
    value = 0.8
    for _ in range(8):
        step = published.step_of_row(row, value=value)
        computed = step.parts["compute"] + step.parts["bubble"]
        left = max(want - (step.time - computed), LEAST * want)
        better = value * computed / left
        done = abs(better / value - 1) < TOLERANCE
        value = better
        if done:
            break
    return asked.kind, asked.model.name, value


def main():
    """Fit, and write the file."""
    rows = [dict(row) for row in data_rows("training_steps") if row["step_time_s"]]
    groups = defaultdict(list)
    with ProcessPoolExecutor(2) as pool:
        for found in pool.map(needed, rows, chunksize=8):
            if found:
                kind, model, value = found
                groups[*kind, model].append(value)
    write(TRAINING, groups)


if __name__ == "__main__":
    main()
