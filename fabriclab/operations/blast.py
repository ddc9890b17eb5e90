"""Blast radius: what one failed leaf, spine, plane, cable or rack takes with it, in one wiring and in another.

Of each kind of part the worst one fails: that with most of the rate of servers behind it. Leaves out the time until the
failure is routed around, and whether the job's software goes on with fewer NICs; most jobs stop when a rank has no path
of its own.

Examples
--------
32 servers lose a leaf, first with a NIC on one leaf each, then with the two ports of a NIC on two leaves:

>>> import fabriclab as fl
>>> from fabriclab.units import format_share
>>> single = fl.topologies.build("rail_optimised", servers=32, radix=16)
>>> dual = fl.topologies.build("dual_tor", servers=32, radix=16)
>>> for hall in (single, dual):
...     leaf = fl.operations.blast_radius(hall, "leaf")
...     print(leaf.alone, leaf.servers, format_share(leaf.server_rate, 2), f"{leaf.bandwidth:.2f}")
8 8 87.50 % 0.97
0 16 93.75 % 0.50

With two ports nobody is alone any more; but those with one port left send at half of their rate, and a job that waits
for its slowest NIC has no more than that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Flags, Floats, Ints
from fabriclab.metrics.hops import outside
from fabriclab.operations.faults import Grouping, fail, parts, report
from fabriclab.operations.rates import figure

__all__ = ["Blast", "blast_radius", "blast_table", "events_per_year", "racks"]

_YEAR_MONTHS = 12.0
_SWITCHES = ("leaf", "spine", "core", "switch")
# Figures of Alibaba HPN, in % a month: links from NICs to switches, and switches that the NICs are attached to.
_CABLE_ROW = "FA0080"
_SWITCH_ROW = "FA0081"


class Blast(NamedTuple):
    """What the worst part of a kind takes with it when it fails.

    Parameters
    ----------
    kind : str
        Kind of part, such as ``"leaf"``; ``"domain"`` for power domains.
    part : int or str
        The part that failed: its number among its kind, or its name.
    n_parts : int
        How many such parts there are.
    servers : int
        Servers with less than all of their rate to the network.
    server_rate : float
        Rate to the network that is left to the server with the least. 0..1
    alone : int
        Ranks without a path of their own to another server.
    cut_off : int
        Ranks that nothing reaches, not even over the GPUs of their server; a fabric without the inside of its servers
        (``expand=False``) has no such help.
    bandwidth : float
        Uniform traffic of all ranks that still have a path, as a part of that of the healthy fabric. Every pair sends
        the same amount, so the slowest NIC decides, as in a synchronous job. 0..1
    per_year : float or None
        Failures of any such part to expect in a year, where a rate is published.
    """

    kind: str
    part: Any
    n_parts: int
    servers: int
    server_rate: float
    alone: int
    cut_off: int
    bandwidth: float
    per_year: float | None


def blast_radius(fabric: Fabric, what: Grouping) -> Blast:
    """Return what is left when the worst part of a kind has failed.

    Parameters
    ----------
    fabric : Fabric
        The healthy network. Without the inside of its servers (``expand=False``) it is measured many times faster.
    what : str or mapping
        Kind of parts, as in `fabriclab.operations.parts`; see `racks` for power domains.
    """
    known = parts(fabric, what)
    if not known:
        raise ValueError(
            f"what must be parts of the fabric, got {what!r:.60}, of which it has none"
        )
    names = list(known)
    is_cable = isinstance(what, str) and what == "cable"
    links = _ServerLinks.of(fabric)
    lost = [
        links.lost(fabric, known[name], is_cable) for name in names
    ]  # (P,) of the rate of all servers
    worst = names[int(np.argmax([mask @ links.rate for mask in lost]))]
    rate_left = links.left(lost[names.index(worst)])

    hurt = report(fabric, fail(fabric, what, [worst]))
    return Blast(
        kind=what if isinstance(what, str) else "domain",
        part=worst,
        n_parts=len(names),
        servers=int(np.count_nonzero(rate_left < 1 - 1e-12)),
        server_rate=float(rate_left.min(initial=1.0)),
        alone=hurt.alone.size,
        cut_off=hurt.cut_off.size,
        bandwidth=hurt.bandwidth,
        per_year=events_per_year(what, len(names)) if isinstance(what, str) else None,
    )


def blast_table(fabric: Fabric, kinds: Sequence[Grouping]) -> tuple[Blast, ...]:
    """Return the `blast_radius` of several kinds of parts, in their order."""
    if isinstance(kinds, str | Mapping):
        raise TypeError(f"kinds must list kinds of parts, got {kinds!r:.60}; write [{kinds!r:.30}]")
    return tuple(blast_radius(fabric, what) for what in kinds)


def racks(fabric: Fabric, servers: int = 4, *, leaves: bool = False) -> dict[str, Ints]:
    """Return the nodes of each rack as a power domain, by name: some servers, in their order.

    Parameters
    ----------
    fabric : Fabric
        The network.
    servers : int
        Servers of a rack; those of the running case draw 10.2 kW each, and four fit. >= 1
    leaves : bool
        Whether leaves hang on the feeds of the racks, too: in their order, as many on each as on every other.
    """
    each = units.count(servers, "servers")
    number = fabric.coordinate("server")
    if not np.any(number >= 0):
        raise ValueError(f"fabric must have servers, got {fabric!r:.80}; build it with gpus=8")
    rack = np.where(number >= 0, number // each, -1)
    if units.flag(leaves, "leaves"):
        is_leaf = fabric.kind == fabric.kinds.index("leaf")
        place = np.cumsum(is_leaf) - 1
        spread = place * (rack.max() + 1) // max(int(is_leaf.sum()), 1)
        rack = np.where(is_leaf, spread, rack)
    return {f"rack {i}": np.flatnonzero(rack == i) for i in range(int(rack.max()) + 1)}


def events_per_year(kind: str, count: int) -> float | None:
    """Return how many of ``count`` parts fail in a year at the published rates of Alibaba HPN; None if there is none.

    Published are 0.057 % of the links between NICs and switches a month, and 0.051 % of the switches there. Other
    cables and switches are taken to be alike.

    Examples
    --------
    >>> from fabriclab import operations
    >>> round(operations.events_per_year("cable", 1024), 1), round(operations.events_per_year("leaf", 32), 2)
    (7.0, 0.2)
    """
    n = units.count(count, "count", 0)
    if kind == "cable":
        row = _CABLE_ROW
    elif kind in _SWITCHES:
        row = _SWITCH_ROW
    else:
        return None
    return n * float(figure(row)["value"]) / 100 * _YEAR_MONTHS


class _ServerLinks(NamedTuple):
    """Links by which servers send to the network, (K,): their numbers, their servers and their rates [B/s]."""

    link: Ints
    server: Ints
    rate: Floats

    @classmethod
    def of(cls, fabric: Fabric) -> _ServerLinks:
        """Return the links that lead out of servers."""
        server = fabric.coordinate("server")
        leads_out = outside(fabric) & (server[fabric.source] >= 0)
        link = np.flatnonzero(leads_out)
        _, number = np.unique(server[fabric.source[link]], return_inverse=True)
        return cls(
            link=link, server=number, rate=np.asarray(fabric.capacity[link], dtype=np.float64)
        )

    def lost(self, fabric: Fabric, members: Ints, is_cable: bool) -> Flags:
        """Return which of the links die with a part, given by its nodes or cables, (K,)."""
        if is_cable:
            return np.isin(self.link // 2, members)
        at_source = np.isin(fabric.source[self.link], members)
        return np.asarray(at_source | np.isin(fabric.target[self.link], members))

    def left(self, lost: Flags) -> Floats:
        """Return which part of its rate each server has left, (S,). 0..1."""
        whole = np.bincount(self.server, self.rate)
        alive = np.bincount(self.server, self.rate * ~lost)
        return np.asarray(alive / np.maximum(whole, 1.0))
