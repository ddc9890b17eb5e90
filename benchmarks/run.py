"""Run every benchmarks/bench_*.py and print what it prints; `make bench` calls this."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Run the benchmarks one after another and return 1 if one of them broke."""
    files = sorted(HERE.glob("bench_*.py"))
    load, cores = os.getloadavg()[0], os.cpu_count()
    print(f"{len(files)} benchmarks, {cores} cores, 1-minute load {load:.2f}", flush=True)
    broken = []
    for file in files:
        print(f"\n== {file.stem.removeprefix('bench_')}", flush=True)
        if subprocess.run([sys.executable, str(file)], cwd=HERE.parent).returncode:
            broken.append(file.name)
    if broken:
        print(f"\nbroken: {', '.join(broken)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
