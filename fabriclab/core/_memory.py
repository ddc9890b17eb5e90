"""Refuse what does not fit into memory before it is allocated."""

import os
from pathlib import Path

from fabriclab import units
from fabriclab.errors import TooLarge

LIMIT = "FABRICLAB_MEMORY"
_CGROUP = Path("/sys/fs/cgroup")


def check_memory(
    bytes_needed: float, what: str, advice: str, *, available: float | None = None
) -> None:
    """Refuse ``what`` if it needs more memory than there is.

    Parameters
    ----------
    bytes_needed : float
        Estimate of the peak. [B]
    what, advice : str
        What would be made, and what to do instead; both end up in the error.
    available : float, optional
        Memory to count on, `available_memory` unless given. [B]

    Raises
    ------
    TooLarge
        With what is needed, what there is, and the advice.
    """
    there = available_memory() if available is None else available
    if bytes_needed > there:
        needed, had = units.format_size(bytes_needed), units.format_size(there)
        raise TooLarge(f"{what} needs about {needed} of memory and {had} can be had; {advice}")


def available_memory() -> float:
    """Return the memory that can be had now [B]: of the machine and of the container; inf where nothing tells.

    The variable FABRICLAB_MEMORY (such as ``512 MiB``) sets a lower limit.
    """
    limits = [_machine(), _container()]
    if os.environ.get(LIMIT):
        limits.append(units.size(os.environ[LIMIT], LIMIT))
    return min(limits)


def _machine() -> float:
    try:
        rows = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return float(next(r.split()[1] for r in rows if r.startswith("MemAvailable:"))) * 1024
    except (OSError, StopIteration, ValueError):
        pass
    try:  # no Linux: the memory built in stands for what is free
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def _container(root: Path = _CGROUP) -> float:
    """Return limit minus what processes hold; files that the kernel caches are given back when needed."""
    try:
        held = dict(
            r.split() for r in (root / "memory.stat").read_text(encoding="ascii").splitlines()
        )
        return float((root / "memory.max").read_text(encoding="ascii")) - float(held["anon"])
    except (OSError, KeyError, ValueError):  # no container, or no limit: the file says "max"
        return float("inf")
