"""Maintenance: which switches are drained in which night, and what the job keeps in each of them.

The switches of a night are out of service together and come back before the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fabriclab.designs.failures import Fault, fault, healthy
from fabriclab.designs.sheets import Design

__all__ = ["NIGHTS", "drains", "missing", "read_order"]

# illustrative: nights of a month that are left for maintenance
NIGHTS = 24


def read_order(design: Design, order: Any) -> list[list[int]]:
    """Return the nodes of the switches of each night.

    Parameters
    ----------
    design : Design
        The design.
    order : list of lists of str
        Names of the switches of each night; a name alone is a night with one switch.

    Raises
    ------
    ValueError, TypeError
        If a name is not that of a switch, or the order is not a list.
    """
    if isinstance(order, str) or not hasattr(order, "__iter__"):
        raise TypeError(
            f"drains must list the switches of each night, such as [['leaf 0.0', 'leaf 1.1'], ['spine 0']], "
            f"got {order!r:.60}"
        )
    nights = []
    for night in order:
        names = [night] if isinstance(night, str) else list(night)
        nights.append([int(design.network.switch[design.switch(name)]) for name in names])
    return nights


def drains(design: Design, order: Sequence[Sequence[str]]) -> tuple[Fault, ...]:
    """Return what is left in each night.

    Parameters
    ----------
    design : Design
        The design.
    order : list of lists of str
        Names of the switches of each night.
    """
    whole = healthy(design)
    return tuple(fault(design, night, whole) for night in read_order(design, order))


def missing(design: Design, nights: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return the switches that no night drains, and those that several do."""
    times = Counter(node for night in nights for node in night)
    every = design.switches.tolist()
    return [n for n in every if not times[n]], [n for n in every if times[n] > 1]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
