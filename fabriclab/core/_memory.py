"""Refuse a computation that does not fit into memory before anything is allocated."""

import os
from pathlib import Path

from fabriclab import units
from fabriclab.errors import TooLarge

LIMIT = "FABRICLAB_MEMORY"
_CGROUP = Path("/sys/fs/cgroup")


def check_memory(
    bytes_needed: float, what: str, advice: str, *, available: float | None = None
) -> None:
    """Raise an error if ``what`` needs more memory than is available.

    Parameters
    ----------
    bytes_needed : float
        Estimated peak. [B]
    what, advice : str
        What would be made, and what to do instead; both appear in the error.
    available : float, optional
        Memory that can be used, by default `available_memory`. [B]

    Raises
    ------
    TooLarge
        With the memory needed, the memory available, and the advice.
    """
    there = available_memory() if available is None else available
    if bytes_needed > there:
        needed, had = units.format_size(bytes_needed), units.format_size(there)
        raise TooLarge(f"{what} needs about {needed} of memory and {had} can be had; {advice}")


def available_memory() -> float:
    """Return the memory available now in the machine or the container, whichever is less [B]; inf if unknown.

    The environment variable FABRICLAB_MEMORY (such as ``512 MiB``) sets a lower limit.
    """
    limits = [_machine(), _container()]
    if os.environ.get(LIMIT):
        limits.append(units.size(os.environ[LIMIT], LIMIT))
    return min(limits)


def _machine() -> float:
    """Return the memory that the machine has free, or, if unknown, all that it has; inf if neither is known [B]."""
    try:
        rows = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return float(next(r.split()[1] for r in rows if r.startswith("MemAvailable:"))) * 1024
    except (OSError, StopIteration, ValueError):
        pass
    try:  # not Linux: take the installed memory, since the free memory is unknown
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def _container(root: Path = _CGROUP) -> float:
    """Return the container's limit minus the memory of its processes [B]; inf without a container or a limit.

    Files that the kernel caches do not count, because it gives them back when memory is needed.
    """
    try:
        held = dict(
            r.split() for r in (root / "memory.stat").read_text(encoding="ascii").splitlines()
        )
        return float((root / "memory.max").read_text(encoding="ascii")) - float(held["anon"])
    except (OSError, KeyError, ValueError):  # no container, or no limit: the file says "max"
        return float("inf")
