"""Run every bench_*.py of this folder and print what it prints; `make bench` calls this."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

HERE = Path(__file__).resolve().parent
# the 1-minute load at which a benchmark begins, and how long to wait for it [s]
CALM, PATIENCE = (0.8, 180)


def settle() -> None:
    """Wait until the load of the benchmark before is gone: it would leave the next without a verdict."""
    end = monotonic() + PATIENCE
    while os.getloadavg()[0] > CALM and monotonic() < end:
        sleep(5)


def main() -> int:
    """Run the benchmarks one after another and return 1 if one of them broke."""
    files = sorted(HERE.glob("bench_*.py"))
    load, cores = os.getloadavg()[0], os.cpu_count()
    print(f"{len(files)} benchmarks, {cores} cores, 1-minute load {load:.2f}", flush=True)
    broken = []
    for file in files:
        settle()
        print(f"\n== {file.stem.removeprefix('bench_')}", flush=True)
        if subprocess.run([sys.executable, str(file)], cwd=HERE.parents[1]).returncode:
            broken.append(file.name)
    if broken:
        print(f"\nbroken: {', '.join(broken)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
