"""Maintenance: which switches are drained in which night, so that every one is drained once and the job keeps its floor.

The switches of a night are out of service together and come back before the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fabriclab import units
from fabriclab.designs.faults import FLOOR, Fault, fault, healthy
from fabriclab.designs.sheets import Design

__all__ = ["NIGHTS", "drains", "plan_drains", "read_order"]

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
            f"drains must list the switches of each night, such as [['leaf 0.0', 'leaf 1.1'], ['spine 0']], got {order!r:.60}"
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


def plan_drains(design: Design, nights: int = NIGHTS, floor: float = FLOOR) -> list[list[str]]:
    """Return an order of drains that keeps the floor, found switch by switch: each in the first night that bears it.

    Parameters
    ----------
    design : Design
        The design.
    nights : int
        Most nights. >= 1
    floor : float
        Rate of the all-reduce over that of the healthy design that has to be left. 0..1

    Raises
    ------
    ValueError
        If this way finds none; another order may exist.
    """
    most = units.count(nights, "nights")
    whole = healthy(design)
    net = design.network
    room = -(-net.n // most)  # switches of a night, if all nights are used alike
    plan: list[list[int]] = [[] for _ in range(most)]
    for number, node in enumerate(design.switches.tolist()):
        # Switches that are far apart in the list are seldom in the way of each other.
        for i in range(most):
            night = plan[(number + i) % most]
            if len(night) >= room + (i >= most // 2):
                continue
            left = fault(design, [*night, node], whole)
            if left.left >= floor and not left.cut_off:
                night.append(node)
                break
        else:
            raise ValueError(
                f"no night of {most} bears {design.title(number)} beside what it drains already; allow more nights, or "
                "a lower floor"
            )
    number_of = {node: i for i, node in enumerate(design.switches.tolist())}
    return [[design.title(number_of[node]) for node in night] for night in plan if night]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
