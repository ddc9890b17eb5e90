"""Renew the stored measurements: ``python tools/record_measurements.py FILE "2-core cloud machine (...)"``."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from fabriclab import measure
from fabriclab.core.result import Result
from fabriclab.core.save import write_atomic
from fabriclab.measure._launch import Load
from fabriclab.measure._rounds import YIELDS

_COPIES = [4**k for k in range(5, 14)]  # 1 KiB to 64 MiB
_SWEEP = [2**k for k in range(3, 27)]  # 8 B to 64 MiB
_ONE_SIDED = [2**k for k in range(3, 25)]  # 8 B to 16 MiB
_RUNS: dict[str, Callable[[], Result | dict[str, Result]]] = {
    "copy": lambda: measure.copy(_COPIES, repeats=20),
    "sockets": lambda: measure.sockets(_COPIES, repeats=20),
    "all_reduce": lambda: measure.all_reduce(_SWEEP, 2, "mpi"),
    "reduce_scatter": lambda: measure.reduce_scatter(_SWEEP, 2, "mpi"),
    "all_gather": lambda: measure.all_gather(_SWEEP, 2, "mpi"),
    "broadcast": lambda: measure.broadcast(_SWEEP, 2, "mpi"),
    "one_sided": lambda: measure.one_sided(_ONE_SIDED, repeats=20),
}


def quiet(what: str) -> dict[str, dict[str, Any]]:
    """Return the results of the first run that other programs left alone; keep trying until there is one."""
    while True:
        load = Load()
        time.sleep(1)
        if load.figures()[1] < 0.05:
            found = _RUNS[what]()
            results = found if isinstance(found, dict) else {what: found}
            if all("shared" not in result.notes[-1] for result in results.values()):
                return {name: fields(result) for name, result in results.items()}


def fields(result: Result) -> dict[str, Any]:
    """Return the fields of a result that are kept."""
    columns = {
        k: [float(f"{v:.4g}") for v in getattr(result, k)] for k in ("size", "time", "low", "high")
    }
    columns["size"] = result.size.tolist()  # not rounded
    return {
        **columns,
        "n_ranks": result.n_ranks,
        "asked": result.asked,
        "how": result.how,
        "notes": result.notes,
    }


if __name__ == "__main__":
    os.environ[YIELDS] = "0"  # the load average still counts programs that have ended
    head = {"date": time.strftime("%Y-%m-%d"), "machine": sys.argv[2]}
    rows = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(kept)}"
        for what in _RUNS
        for name, kept in quiet(what).items()
    )
    write_atomic(sys.argv[1], f'{json.dumps(head)[:-1]},\n"results": {{\n{rows}}}}}\n'.encode())
