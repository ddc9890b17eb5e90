"""What this machine is, and how busy it was while something was measured."""

import importlib.util
import math
import os
import shutil
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MPIEXEC = "FABRICLAB_MPIEXEC"
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def has(module: str) -> bool:
    """Return whether a module is installed, without importing it."""
    return module in sys.modules or importlib.util.find_spec(module) is not None


def has_mpi() -> bool:
    """Return whether ranks can talk over MPI: mpi4py is installed, and an mpiexec to start them."""
    return has("mpi4py") and mpiexec() is not None


def mpiexec() -> str | None:
    """Return the path of mpiexec: named by FABRICLAB_MPIEXEC, beside this Python, or on the search path."""
    beside = os.path.dirname(sys.executable or "")
    return os.environ.get(MPIEXEC) or shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")


def cores(quota_file: Path = _QUOTA) -> int:
    """Return the number of cores that this process may use; a container's quota is rounded up."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = quota_file.read_text(encoding="ascii").split()
        return max(1, min(usable, math.ceil(float(quota) / float(period))))
    except (OSError, ValueError):  # no container, or no quota: the file says "max"
        return usable


def load_average() -> float:
    """Return the load average of the last minute, NaN if unknown."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else math.nan


class Load:
    """How busy the machine is from here on, by load average and by processor time."""

    def __init__(self) -> None:
        self._load, self._then = load_average(), _ticks()

    def figures(self) -> NDArray[np.float64]:
        """Return load average at the start, share of processor time that others took, -cores; NaN if unknown."""
        taken, total, own = (now - then for now, then in zip(_ticks(), self._then, strict=True))
        # A tick lasts 10 ms: a few of them say nothing.
        return np.array([self._load, max(0.0, taken - own) / total if total >= 50 else math.nan, -cores()])


def load_note(figures: NDArray[np.float64]) -> str:
    """Return the sentence on the load of a measurement, from `Load.figures`."""
    load, others, n = float(figures[0]), float(figures[1]), -int(figures[2])
    took = "" if math.isnan(others) else f", other programs took {others:.0%} of the processor time"
    shared = load > 0.5 * n if math.isnan(others) else others > 0.1
    verdict = ": the machine is shared, times are upper bounds and rates lower bounds" if shared else ""
    return f"load {load:.1f} on {n} core{'s' * (n > 1)}{took}{verdict}"


def _ticks() -> tuple[float, float, float]:
    """Return processor ticks of all cores: taken (by other guests of the host too), in all, and by this process."""
    try:
        field = [float(f) for f in Path("/proc/stat").read_text(encoding="ascii").split("\n")[0].split()[1:9]]
    except OSError:
        return 0.0, 0.0, 0.0
    own = os.times()  # of its ended children too
    mine = (own.user + own.system + own.children_user + own.children_system) * os.sysconf("SC_CLK_TCK")
    return sum(field) - field[3] - field[4], sum(field), mine  # taken is all without idle and waiting for disks
