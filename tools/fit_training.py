"""Find what each published group of training steps needs: an efficiency of computation, and time for growing.

    python tools/fit_training.py

writes two tables of ``fabriclab/catalog/data``. `fabriclab.training.efficiency` pools them, and no cell of them is
typed.

``training_fit.csv``: for each software stack, generation, precision and model the median efficiency of its rows, and
the median of their accelerators.

``training_growth.csv``: for each job that a source ran on few and on many accelerators with the same work for each,
which part longer a step took on twice the accelerators than the model says, at the efficiency that the smaller job
needs.
"""

import math
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from fitted import COLUMNS, medians, write

from fabriclab.catalog.tables import data_rows
from fabriclab.training import published
from fabriclab.training.efficiency import GROWTH, TRAINING
from fabriclab.validate.steps import grown_jobs, held_steps

TOLERANCE = 1e-3
LEAST = 0.1  # part of a step that computes at least, so that no row asks for infinite speed
GROWTH_COLUMNS = ("stack", "generation", "precision", "model", "few", "many", "per_doubling")


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


def with_sizes(rows, sizes):
    """Return rows of a table, each with the median of its accelerators behind it."""
    found = []
    for row in rows:
        found.append((*row, f"{np.median(sizes[row[:4]]):g}"))
    return found


def grown(few, many):
    """Return a row of ``training_growth.csv`` for a job on few and on many accelerators."""
    _, _, value = needed(few.row)
    explained = published.step_of_row(many.row, value=value).time
    explained /= published.step_of_row(few.row, value=value).time
    took = many.seconds / few.seconds
    doublings = math.log2(many.step.ranks / few.step.ranks)
    per_doubling = (took / explained) ** (1 / doublings) - 1
    return (*few.kind, few.model, few.step.ranks, many.step.ranks, f"{per_doubling:.5f}")


def main():
    """Fit, and write the files."""
    rows = [dict(row) for row in data_rows("training_steps") if row["step_time_s"]]
    groups = defaultdict(list)
    sizes = defaultdict(list)
    with ProcessPoolExecutor(2) as pool:
        for row, found in zip(rows, pool.map(needed, rows, chunksize=8), strict=True):
            if found:
                kind, model, value = found
                groups[*kind, model].append(value)
                sizes[*kind, model].append(float(row["gpus"]))
    write(TRAINING, (*COLUMNS, "accelerators"), with_sizes(medians(groups), sizes))
    jobs = [grown(few, many) for few, many in grown_jobs(held_steps())]
    write(GROWTH, GROWTH_COLUMNS, sorted(jobs))


if __name__ == "__main__":
    main()
