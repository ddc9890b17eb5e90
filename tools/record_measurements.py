"""Renew the stored measurements: ``python tools/record_measurements.py FILE "2-core cloud machine (...)"``."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from fabriclab import measure
from fabriclab.core.result import Result
from fabriclab.core.save import write_atomic
from fabriclab.measure._launch import Load
from fabriclab.measure._rounds import YIELDS

_COPIES = [4**k for k in range(5, 14)]  # 1 KiB to 64 MiB
_SWEEP = [2**k for k in range(3, 27)]  # 8 B to 64 MiB
_ONE_SIDED = [2**k for k in range(3, 25)]  # 8 B to 16 MiB
_QUIET = 0.05  # a machine is idle if other programs take less than this share of the processor time

# Each run returns one result, or several by name.
_RUNS: dict[str, Callable[[], Result | dict[str, Result]]] = {
    "copy": partial(measure.copy, _COPIES, repeats=20),
    "sockets": partial(measure.sockets, _COPIES, repeats=20),
    "all_reduce": partial(measure.all_reduce, _SWEEP, 2, "mpi"),
    "reduce_scatter": partial(measure.reduce_scatter, _SWEEP, 2, "mpi"),
    "all_gather": partial(measure.all_gather, _SWEEP, 2, "mpi"),
    "broadcast": partial(measure.broadcast, _SWEEP, 2, "mpi"),
    "one_sided": partial(measure.one_sided, _ONE_SIDED, repeats=20),
}


def quiet(run: str) -> dict[str, dict[str, Any]]:
    """Return the results of the first run that other programs left alone; keep trying until there is one."""
    while True:
        wait_until_idle()
        found = _RUNS[run]()
        results = found if isinstance(found, dict) else {run: found}
        disturbed = any("shared" in result.notes[-1] for result in results.values())
        if not disturbed:
            return {name: fields(result) for name, result in results.items()}


def wait_until_idle() -> None:
    """Return after a second in which other programs took nearly no processor time."""
    others = 1.0
    while not others < _QUIET:  # also while it is not known (NaN)
        load = Load()
        time.sleep(1)
        others = load.figures()[1]


def fields(result: Result) -> dict[str, Any]:
    """Return the fields of a result that are kept; times have four digits."""
    return {
        "size": result.size.tolist(),
        "time": rounded(result.time),
        "low": rounded(result.low),
        "high": rounded(result.high),
        "n_ranks": result.n_ranks,
        "asked": result.asked,
        "how": result.how,
        "notes": result.notes,
    }


def rounded(values: Iterable[float]) -> list[float]:
    """Return numbers with four digits."""
    return [float(f"{value:.4g}") for value in values]


def record(path: str, machine: str) -> None:
    """Run everything and write the results to a file of JSON, one line for each."""
    head = {"date": time.strftime("%Y-%m-%d"), "machine": machine}
    lines = []
    for run in _RUNS:
        for name, kept in quiet(run).items():
            lines.append(f"{json.dumps(name)}: {json.dumps(kept)}")

    opening = json.dumps(head).removesuffix("}")
    results = ",\n".join(lines)
    write_atomic(path, f'{opening},\n"results": {{\n{results}}}}}\n'.encode())


if __name__ == "__main__":
    os.environ[YIELDS] = "0"  # the load average still counts programs that have ended
    record(sys.argv[1], sys.argv[2])
