"""What is left of a design when switches fail or are drained: GPUs without a path, and the rate of the all-reduce.

A GPU reaches the network through any NIC of its server, over the scale-up domain. The all-reduce is the ring of the
running case's gradients; after a failure the bytes of a server leave by the NICs that it has left. Left out: the time
until the failure is routed around, and whether the job's software goes on with fewer NICs.

Examples
--------
A leaf of rails fails; then one that has all NICs of four servers:

>>> from fabriclab import designs
>>> for family in ({"rails": 8}, {"rails": 1}):
...     hall = designs.read({"family": "rail_optimised", "arguments": family})
...     fault = designs.fault(hall, [hall.node("leaf 0.0")])
...     print(fault.cut_off, round(fault.left, 3))
0 0.875
32 0.0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fabriclab.core import Ints, parts_of
from fabriclab.designs.needs import Workload, workloads
from fabriclab.designs.network import FAR, Network
from fabriclab.designs.sheets import Design
from fabriclab.designs.traffic import Messages, carried, link_at, messages, times
from fabriclab.errors import NoPath

__all__ = ["FLOOR", "Fault", "Healthy", "fault", "faults", "healthy"]

# source: the brief of exercise 2
FLOOR = 0.8
_NOTHING = Messages(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


class Fault(NamedTuple):
    """What is left after some switches have failed.

    Parameters
    ----------
    nodes : tuple of int
        Nodes of the switches that failed.
    cut_off : int
        GPUs without a path to the rest through any NIC of their server.
    left : float
        Rate of the all-reduce over that of the healthy design; 0 if two servers of the ring have no path. 0..1
    servers : tuple of int
        Servers that are cut off, or have no path to the next.
    link : int
        Fullest link of the all-reduce; -1 without a path.
    """

    nodes: tuple[int, ...]
    cut_off: int
    left: float
    servers: tuple[int, ...]
    link: int


class Healthy(NamedTuple):
    """The all-reduce of a healthy design: what servers send to each other, and how long it takes [s]."""

    ring: Messages
    seconds: float


def healthy(design: Design, workload: Workload | None = None) -> Healthy:
    """Return the all-reduce of a healthy design: by default that of the running case's gradients.

    Raises
    ------
    NoPath
        If two neighbours have no path.
    """
    job = workload or workloads()[0]
    ring = messages(design, job).get("DP", _NOTHING)
    return Healthy(ring, times(design.network, carried(design.network, ring)).seconds)


def fault(design: Design, nodes: Sequence[int], whole: Healthy | None = None) -> Fault:
    """Return what is left of a design after some switches, given by their nodes, have failed together.

    Parameters
    ----------
    design : Design
        The healthy design.
    nodes : sequence of int
        Nodes of the switches.
    whole : Healthy, optional
        The all-reduce of the healthy design, if it is known.
    """
    failed = np.flatnonzero(np.isin(design.network.switch, list(nodes)))
    if failed.size != len(set(nodes)):
        raise ValueError(
            f"nodes must be switches of the design, such as {design.switches[:3].tolist()}, got {list(nodes)[:6]}"
        )
    before = whole or healthy(design)
    net = design.network.without(failed)
    gone = apart(net)
    names = tuple(int(node) for node in nodes)
    if gone.size:
        return Fault(names, gone.size * design.gpus, 0.0, tuple(gone.tolist()), -1)
    try:
        worst = times(net, carried(net, before.ring))
    except NoPath:
        return Fault(names, 0, 0.0, _parted(net, before.ring), -1)
    left = 1.0
    if worst.seconds > before.seconds:
        left = before.seconds / worst.seconds
    return Fault(names, 0, left, (), link_at(design, net, worst))


def faults(design: Design) -> tuple[Fault, ...]:
    """Return what is left after the failure of each switch alone, in the order of the switches.

    Switches that are alike in all that counts are computed once.
    """
    whole = healthy(design)
    return tuple(fault(design, [node], whole) for node in design.switches.tolist())


def apart(net: Network) -> Ints:
    """Return the servers without a path to the largest group of servers that reach each other, through any NIC."""
    n = net.n
    # Switches and servers are nodes; a server passes on traffic of its own GPUs between its NICs only, but a chain of
    # servers still counts as a path here: `carried` finds pairs that have none of their own.
    joined = net.capacity > 0
    if net.rules is not None:
        joined = (net.hops < FAR) & (net.hops.T < FAR)
    one, other = np.nonzero(joined)
    part = parts_of(
        n + net.servers,
        np.concatenate([one, net.port_switch]),
        np.concatenate([other, n + net.port_server]),
    )[n:]
    main = np.argmax(np.bincount(part))
    return np.flatnonzero(part != main)


def _parted(net: Network, ring: Messages) -> tuple[int, ...]:
    """Return the first two servers that talk and have no path."""
    classes = net.classes
    for one, other in zip(ring.source.tolist(), ring.target.tolist(), strict=True):
        kinds = classes.of_server[[one, other]].tolist()
        if not net.matching(*kinds).part.size:
            return one, other
    return ()


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
