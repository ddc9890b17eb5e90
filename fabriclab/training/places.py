"""Where the groups of a layout sit in a cluster, and what a collective of such a group costs there.

A group inside a scale-up domain talks over its links. A group that reaches over several domains has its members' share
of the NICs; the other groups of the same kind have the rest, so all of them run at once without sharing.

Rank k of a layout sits on GPU k unless a placement says otherwise: an array with the GPU of each rank, (ranks,).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.catalog.running_case import Case
from fabriclab.core import Ints, ReadOnly, Result, bus_factor
from fabriclab.systems import System
from fabriclab.tuner import Estimate, estimate
from fabriclab.workload.layouts import Layout
from fabriclab.workload.volumes import Collective

__all__ = ["Costs", "LatencyCosts", "Place", "RateCosts", "SweepCosts", "costs_of_case", "place_of"]

SCALE_UP = "scale-up"
NETWORK = "network"


def twice(faster: Mapping[str, float], tier: str) -> ReadOnly[str, float]:
    """Return by how much rates of tiers are multiplied, with one of them doubled."""
    return ReadOnly({**faster, tier: 2 * faster.get(tier, 1.0)})


class Place(NamedTuple):
    """How the members of a group are spread: ``domains`` scale-up domains with at most ``inside`` of them in each.

    ``slowdown`` is the factor by which other groups of the kind slow it down, since they share cables with it.
    """

    domains: int
    inside: int
    slowdown: float = 1.0

    @property
    def tier(self) -> str:
        """What carries the group: the links of one scale-up domain, or the network."""
        return SCALE_UP if self.domains == 1 else NETWORK


def place_of(layout: Layout, group: str, domain: int, placement: ArrayLike | None = None) -> Place:
    """Return how the groups of a kind are spread over scale-up domains of so many GPUs, the widest of them.

    GPUs fill one domain after another.

    Parameters
    ----------
    layout : Layout
        Whose groups are asked about.
    group : str
        Kind of group; see `Layout.groups`.
    domain : int
        GPUs of a scale-up domain. >= 1
    placement : array_like of int, shape (ranks,), optional
        GPU of each rank, each of them once; by default rank k sits on GPU k.

    Examples
    --------
    Two servers of four GPUs. Dealt out like cards, ranks 0, 2, 4 and 6 share the first server:

    >>> pair = Layout(tp=4, dp=2)
    >>> place_of(pair, "tp", 4)[:2]
    (1, 4)
    >>> place_of(pair, "tp", 4, placement=[0, 4, 1, 5, 2, 6, 3, 7])[:2]
    (2, 2)
    """
    members = layout.groups(group)
    if placement is not None:
        members = _placed(layout, placement)[members]
    homes = members // units.count(domain, "domain")  # (groups, size)
    widest = Place(1, members.shape[1])
    for row in np.unique(homes - homes[:, :1], axis=0):
        _, counts = np.unique(row, return_counts=True)
        widest = max(widest, Place(counts.size, int(counts.max())))
    return widest


def _placed(layout: Layout, placement: ArrayLike) -> Ints:
    """Return the GPU of each rank, (ranks,); refuse a placement that lacks one or has one twice."""
    where: Ints = np.asarray(placement)
    if where.shape != (layout.ranks,) or np.unique(where).size != where.size:
        raise ValueError(
            f"placement must name a different GPU for each of {layout.ranks} ranks, got shape {where.shape} "
            f"with {np.unique(where).size} different GPUs"
        )
    return where


@dataclass(frozen=True, eq=False)
class Costs:
    """Times of collectives on a cluster, as `fabriclab.estimate` finds them: with the algorithm that NCCL would choose.

    Parameters
    ----------
    system : System
        The cluster.
    faster : mapping of str to float
        By how much the rate of a tier is multiplied, ``"scale-up"`` or ``"network"``, to ask what if. > 0
    slowdowns : mapping of str to float
        By what factor groups of a kind slow each other down in the network, as `contention.slowdowns` finds it; kinds
        that it does not name do not. >= 1
    """

    system: System
    faster: Mapping[str, float] = field(default_factory=ReadOnly)
    slowdowns: Mapping[str, float] = field(default_factory=ReadOnly)
    _known: dict[tuple[str, float, Place], Estimate | None] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def domain(self) -> int:
        """Number of GPUs that reach each other without NICs."""
        return self.system.joined

    def doubled(self, tier: str) -> Self:
        """Return the same with twice the rate of a tier."""
        return replace(self, faster=twice(self.faster, tier))

    def place(self, layout: Layout, line: Collective) -> Place:
        """Return where a line of a ledger runs."""
        found = _place(layout, line, self.domain)
        if found.tier == NETWORK:
            found = found._replace(slowdown=self.slowdowns.get(line.group, 1.0))
        return found

    def time(self, operation: str, size: float, place: Place) -> float:
        """Return the time of one collective of a group. [s].

        Parameters
        ----------
        operation : str
            As in `fabriclab.workload.volumes.Collective`.
        size : float
            Bytes as nccl-tests counts them. [B]
        place : Place
            Where the members are.
        """
        startup, data = self.split(operation, size, place)
        return startup + data

    def split(self, operation: str, size: float, place: Place) -> tuple[float, float]:
        """Return the start-up of a collective and the time of its data; arguments as in `time`. [s], [s]."""
        found = self.estimate(operation, size, place)
        # Links that are faster by a factor move the data, the last term of an estimate, in as much less time.
        data = list(found.terms.values())[-1]
        return found.startup, data * place.slowdown / self.faster.get(place.tier, 1.0)

    def band(self, operation: str, size: float, place: Place) -> tuple[float, float]:
        """Return the factors between the time and the ends of its band."""
        found = self.estimate(operation, size, place)
        return found.low / found.time, found.high / found.time

    def estimate(self, operation: str, size: float, place: Place) -> Estimate:
        """Return the estimate of one collective; equal questions are asked once."""
        key = (operation, size, place._replace(slowdown=1.0))
        if key not in self._known:
            what = "send_recv" if operation == "send" else operation
            self._known[key] = estimate(self._row(place), what, size)
        found = self._known[key]
        assert found is not None
        return found

    def _row(self, place: Place) -> Mapping[str, Any]:
        """Return the members of a group as a system of their own, in the columns that `estimate` reads."""
        system = self.system
        share = max(1, place.inside * system.nics // system.gpus) if system.nics else 0
        return {
            **system.row,
            "sweep_id": "",
            "nodes": place.domains,
            "gpus_per_node": place.inside,
            "nics_per_node": share,
            "scale_up_domain_gpus": place.inside,
            "ranks": place.domains * place.inside,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class RateCosts:
    """Times of collectives as bytes over a rate, without any start-up: of the running case, and of tori of TPUs.

    A group with several members in a domain runs a ring for each of their network ports, as NCCL does. Each ring passes
    all members and carries an equal part of the bytes, so the ports add up, until the links inside are the limit.

    Parameters
    ----------
    scale_up, network : float
        Bus bandwidth inside a domain, and rate of the network port that each accelerator has. [B/s], > 0
    domain : int
        Accelerators of a domain. >= 1
    faster : mapping of str to float
        As in `Costs`.
    placement : ndarray of int, shape (ranks,), optional
        Accelerator of each rank; by default rank k sits on accelerator k.
    """

    scale_up: float
    network: float
    domain: int
    faster: Mapping[str, float] = field(default_factory=ReadOnly)
    placement: Ints | None = None

    def doubled(self, tier: str) -> Self:
        """Return the same with twice the rate of a tier."""
        return replace(self, faster=twice(self.faster, tier))

    def place(self, layout: Layout, line: Collective) -> Place:
        """Return where a line of a ledger runs."""
        return _place(layout, line, self.domain, self.placement)

    def time(self, operation: str, size: float, place: Place) -> float:
        """Return the time of one collective of a group. [s]."""
        ranks = place.domains * place.inside
        factor = 1.0 if operation == "send" else bus_factor(operation, ranks)
        return float(factor * size / self.rate(operation, place))

    def rate(self, operation: str, place: Place) -> float:
        """Return the bus bandwidth of a group. [B/s].

        Messages and exchanges of all pairs leave through the sender's own port, so there the ports do not add up.
        """
        inside = self.scale_up * self.faster.get(SCALE_UP, 1.0)
        if place.tier == SCALE_UP:
            return inside
        port = self.network * self.faster.get(NETWORK, 1.0)
        if operation in ("send", "all_to_all"):
            return port
        return min(inside, place.inside * port)

    def split(self, operation: str, size: float, place: Place) -> tuple[float, float]:
        """Return 0, the start-up that is left out, and the time of the data. [s], [s]."""
        return 0.0, self.time(operation, size, place)

    def band(self, operation: str, size: float, place: Place) -> tuple[float, float]:
        """Return the factors of an exact time: it has no band."""
        return 1.0, 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class LatencyCosts:
    """Times of collectives as a latency and bytes over a rate, both measured or assumed for a group of its size.

    Parameters
    ----------
    latency : mapping of str to float
        Time of one collective of no bytes on each tier, ``"scale-up"`` and ``"network"``. [s], >= 0
    rate : mapping of str to float
        Bus bandwidth on each tier. [B/s], > 0
    domain : int
        Accelerators of a domain. >= 1
    faster : mapping of str to float
        As in `Costs`.
    """

    latency: Mapping[str, float]
    rate: Mapping[str, float]
    domain: int
    faster: Mapping[str, float] = field(default_factory=ReadOnly)

    def doubled(self, tier: str) -> Self:
        """Return the same with twice the rate of a tier."""
        return replace(self, faster=twice(self.faster, tier))

    def place(self, layout: Layout, line: Collective) -> Place:
        """Return where a line of a ledger runs."""
        return _place(layout, line, self.domain)

    def time(self, operation: str, size: float, place: Place) -> float:
        """Return the time of one collective of a group. [s]."""
        startup, data = self.split(operation, size, place)
        return startup + data

    def split(self, operation: str, size: float, place: Place) -> tuple[float, float]:
        """Return the start-up of a collective and the time of its data. [s], [s]."""
        ranks = place.domains * place.inside
        factor = 1.0 if operation == "send" else bus_factor(operation, ranks)
        rate = self.rate[place.tier] * self.faster.get(place.tier, 1.0)
        return self.latency[place.tier], float(factor * size / rate)


@dataclass(frozen=True, eq=False, kw_only=True)
class SweepCosts:
    """Times of all-reduces in a domain as a sweep measured them, and of everything else from other costs.

    Between two sizes of the sweep, time is a power of the size. Above the largest one its bandwidth is kept, below the
    smallest one its time. The shortest time of the sweep counts as the start-up.

    Parameters
    ----------
    sweep : Result
        All-reduces over all GPUs of a domain, such as ``fl.catalog.published.load("mi300x_1n")``.
    other : Costs, RateCosts or LatencyCosts
        Times of other collectives and of other groups.
    """

    sweep: Result
    other: Costs | RateCosts | LatencyCosts

    @property
    def domain(self) -> int:
        """Number of accelerators of a scale-up domain."""
        return self.other.domain

    @property
    def faster(self) -> Mapping[str, float]:
        """By how much the rate of a tier is multiplied."""
        return self.other.faster

    def doubled(self, tier: str) -> Self:
        """Return the same with twice the rate of a tier; that of the sweep is the domain's."""
        return replace(self, other=self.other.doubled(tier))

    def place(self, layout: Layout, line: Collective) -> Place:
        """Return where a line of a ledger runs."""
        return self.other.place(layout, line)

    def split(self, operation: str, size: float, place: Place) -> tuple[float, float]:
        """Return the start-up of a collective and the time of its data. [s], [s]."""
        whole = place == Place(1, int(self.sweep.n_ranks))
        if operation != "all_reduce" or not whole:
            return self.other.split(operation, size, place)
        startup = float(self.sweep.time.min())
        largest = float(self.sweep.size[-1])
        within = min(size, largest)
        logs = np.interp(np.log(within), np.log(self.sweep.size), np.log(self.sweep.time))
        time = float(np.exp(logs)) * size / within
        return startup, (time - startup) / self.faster.get(SCALE_UP, 1.0)


def costs_of_case(job: Case, placement: ArrayLike | None = None) -> RateCosts:
    """Return the rates of a running case: the measured bus bandwidth in a server, and a NIC for each GPU between them.

    ``placement`` is the GPU of each rank, (ranks,); by default rank k sits on GPU k.
    """
    return RateCosts(
        scale_up=float(job.tp_busbw),
        network=float(job.nic_rate),
        domain=int(job.gpus_per_server),
        placement=None if placement is None else np.asarray(placement),
    )


def _place(layout: Layout, line: Collective, domain: int, placement: Ints | None = None) -> Place:
    """Return where a line of a ledger runs, on domains of so many GPUs."""
    if line.operation != "send":
        return place_of(layout, line.group, domain, placement)
    # Stages follow each other at the distance of a stage's ranks. A message between domains decides.
    return Place(1, 2) if layout.ranks <= domain else Place(2, 1)
