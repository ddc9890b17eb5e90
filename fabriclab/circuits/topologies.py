"""Circuits for a job, or for each of its phases: what a set-up costs, and what a topology of its own saves.

A phase is a step of a collective: all of its transfers may run at once. Circuits that are chosen for one phase carry it
at the full rate of all ports, but have to be set up before it. Circuits that stay for the whole job cost no set-up in a
step, and divide the ports among all that the job ever sends; what has no circuit of its own is passed on by hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import collectives, routing, units
from fabriclab.circuits.hybrids import line_sum
from fabriclab.circuits.plans import CircuitPlan, direct, plan
from fabriclab.circuits.switches import lit, network, square
from fabriclab.core import Floats, Ints, Value, freeze
from fabriclab.lower import lower
from fabriclab.physics import switching

_USEFUL = 0.9  # share of the time in which circuits should carry bytes, unless asked otherwise


class Phases(NamedTuple):
    """The phases of a collective in order: traffic of each, (G, N, N) [B], and how often it is repeated, (G,)."""

    matrix: Floats
    repeat: Ints


def phases(collective: str, algorithm: str, hosts: int, size: units.Quantity) -> Phases:
    """Return the traffic of each phase of a collective between hosts.

    Parameters
    ----------
    collective, algorithm : str
        As in `fabriclab.collectives.build`, such as ``"all_reduce"`` and ``"halving_doubling"``.
    hosts : int
        Number of hosts, one rank each. >= 2
    size : float or str
        Size of the whole array, as nccl-tests counts it. [B]

    Examples
    --------
    >>> from fabriclab import circuits
    >>> circuits.phases("all_reduce", "ring", 8, "8 MiB").repeat
    array([7, 7])
    """
    n = units.count(hosts, "hosts", 2)
    schedule = collectives.build(collective, algorithm, n)
    fabric = network(n)
    flows = lower(schedule, fabric, size)
    rank = fabric.rank_of
    groups = flows.repeat.size
    place = (flows.group * n + rank[flows.source]) * n + rank[flows.target]
    matrix = np.bincount(place, flows.size, groups * n * n).reshape(groups, n, n)
    return Phases(np.asarray(matrix), flows.repeat)


def serve(matrix: ArrayLike, circuits: int) -> Ints:
    """Choose circuits for a traffic matrix, (N, N): how many from each host to each other.

    If no host has more partners than circuits, every pair with traffic gets one, and those with the most bytes for
    each circuit get the ports that are left. Otherwise one circuit of each host makes a ring, so that every host can
    be reached, and the others go to the matchings with the most bytes.

    Parameters
    ----------
    matrix : (N, N) float
        Bytes from each host to each other. [B]
    circuits : int
        Circuits that a host can send on, and receive on, at a time. >= 1

    Examples
    --------
    >>> from fabriclab import circuits
    >>> circuits.serve([[0, 9, 0], [0, 0, 9], [9, 0, 0]], circuits=2).tolist()
    [[0, 2, 0], [0, 0, 2], [2, 0, 0]]
    """
    from scipy.optimize import linear_sum_assignment

    traffic = square(matrix, "matrix")
    each = units.count(circuits, "circuits")
    n = len(traffic)
    needed = traffic > 0
    if max(needed.sum(axis=0).max(), needed.sum(axis=1).max()) <= each:
        return _shared_out(traffic, needed.astype(np.int64), each)

    host = np.arange(n)
    counts = np.zeros((n, n), dtype=np.int64)
    counts[host, (host + 1) % n] = 1
    itself = -line_sum(traffic) * n - 1
    for _ in range(each - 1):
        value = np.where(counts > 0, 0.0, traffic)
        np.fill_diagonal(value, itself)
        receiver = linear_sum_assignment(value, maximize=True)[1]
        counts[host, receiver] += 1
    return counts


def _shared_out(traffic: Floats, counts: Ints, each: int) -> Ints:
    """Give the ports that are left, one circuit at a time, to the pair with the most bytes for each circuit."""
    counts = counts.copy()
    while True:
        free_out = counts.sum(axis=1) < each
        free_in = counts.sum(axis=0) < each
        possible = (traffic > 0) & free_out[:, None] & free_in
        if not possible.any():
            return counts
        load = np.where(possible, traffic / np.maximum(counts, 1), 0.0)
        i, j = np.unravel_index(int(load.argmax()), load.shape)
        counts[i, j] += 1


def seconds_on(matrix: ArrayLike, circuits: ArrayLike, rate: units.Quantity) -> float:
    """Return how long circuits need for a traffic matrix: the bytes of the fullest pair over its rate. [s].

    What has no circuit of its own is divided among all shortest paths over other hosts.

    Parameters
    ----------
    matrix : (N, N) float
        Bytes from each host to each other. [B]
    circuits : (N, N) int
        Circuits from each host to each other.
    rate : float or str
        Rate of a circuit. [B/s]

    Raises
    ------
    NoPath
        If a pair with traffic has neither a circuit nor a path.
    """
    traffic = square(matrix, "matrix")
    counts = square(circuits, "circuits", len(traffic))
    one = units.rate(rate)
    if np.all(counts[traffic > 0] > 0):
        load = np.divide(traffic, counts, out=np.zeros_like(traffic), where=counts > 0)
        return float(load.max() / one)

    fabric = lit(network(len(traffic), relay=True), counts, one)
    flows = direct(fabric, traffic)[0]
    routes = routing.route(fabric, flows, "spray")
    load = routes.link_bytes(flows, fabric.n_links)
    return float(np.max(load[fabric.capacity > 0] / fabric.capacity[fabric.capacity > 0]))


@dataclass(frozen=True, eq=False)
class TopologyChoice(Value):
    """A collective on circuits that turn before each phase, and on circuits that stay.

    Parameters
    ----------
    matrix, repeat : (G, N, N) float64, (G,) int64
        Traffic of each phase, and how often it is repeated. [B]
    for_phase, for_job : (G, N, N) int64, (N, N) int64
        Circuits that are set up for each phase, and circuits for the sum of all phases.
    phase_busy, job_busy : (G,) float64
        How long each phase takes on either, repetitions included and set-ups left out. [s]
    size, rate, setup : float
        Size of the array, rate of a circuit, set-up time. [B], [B/s], [s]
    circuits : int
        Circuits of a host.
    """

    matrix: Floats
    repeat: Ints
    for_phase: Ints
    for_job: Ints
    phase_busy: Floats
    job_busy: Floats
    size: float
    rate: float
    setup: float
    circuits: int

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        freeze(self, dict.fromkeys(("matrix", "phase_busy", "job_busy"), np.float64))
        freeze(self, dict.fromkeys(("repeat", "for_phase", "for_job"), np.int64))

    @property
    def set_ups(self) -> int:
        """Number of set-ups in each collective if circuits follow its phases; 0 if all phases want the same ones."""
        before = np.roll(self.for_phase, 1, axis=0)
        return int(np.count_nonzero(np.any(self.for_phase != before, axis=(1, 2))))

    @property
    def per_phase(self) -> float:
        """Time of a collective if circuits turn whenever a phase wants others. [s]."""
        return float(self.phase_busy.sum() + self.set_ups * self.setup)

    @property
    def per_job(self) -> float:
        """Time of a collective if the circuits stay as they were set up for the job. [s]."""
        return float(self.job_busy.sum())

    @property
    def by_packets(self) -> float:
        """Time on a non-blocking packet switch with all ports of the hosts, phase after phase. [s]."""
        total = 0.0
        for matrix, repeat in zip(self.matrix, self.repeat.tolist(), strict=True):
            total += line_sum(matrix) * repeat / (self.circuits * self.rate)
        return total

    @property
    def saved(self) -> float:
        """What circuits for each phase save if a set-up took no time. [s]."""
        return float(self.job_busy.sum() - self.phase_busy.sum())

    @property
    def longest_setup(self) -> float:
        """Set-up time up to which turning before each phase pays; 0 if no phase wants other circuits. [s]."""
        if self.set_ups == 0:
            return 0.0
        return self.saved / self.set_ups

    @property
    def crossing(self) -> float:
        """Size of the array from which turning before each phase pays, at this set-up time; inf if never. [B]."""
        if self.set_ups == 0 or self.saved <= 0:
            return np.inf
        return self.size * self.set_ups * self.setup / self.saved

    @property
    def best(self) -> str:
        """Return ``"phase"`` or ``"job"``, whichever is faster; at equal times, the one that needs no turn."""
        if self.per_phase < self.per_job:
            return "phase"
        return "job"

    def plan(self) -> CircuitPlan:
        """Return the plan of one collective whose circuits turn before each phase, the first included.

        Phases that follow each other with the same circuits are held as one.
        """
        first = np.append(True, np.any(self.for_phase[1:] != self.for_phase[:-1], axis=(1, 2)))
        number = np.cumsum(first) - 1
        hold = np.bincount(number, self.phase_busy)
        return plan(self.for_phase[first], hold, rate=self.rate, setup=self.setup)

    def __repr__(self) -> str:
        """Show both times."""
        return (
            f"<TopologyChoice: {units.format_time(self.per_phase)} with {self.set_ups} set-ups, "
            f"{units.format_time(self.per_job)} with circuits that stay>"
        )


def choose_topology(
    collective: str,
    algorithm: str,
    hosts: int,
    size: units.Quantity,
    *,
    circuits: int,
    rate: units.Quantity,
    setup: units.Quantity,
) -> TopologyChoice:
    """Compare circuits that are set up before each phase of a collective with circuits for the whole job.

    Leaves out the time of messages before their first byte, which is the same for both.

    Parameters
    ----------
    collective, algorithm, hosts, size
        As in `phases`.
    circuits : int
        Circuits that a host has at a time. >= 1
    rate : float or str
        Rate of a circuit. [B/s]
    setup : float or str
        Set-up time. [s]

    Examples
    --------
    Three partners share three circuits in the job, and have all three in turn in the phases:

    >>> from fabriclab import circuits
    >>> circuits.choose_topology("all_reduce", "halving_doubling", 8, "1 GiB",
    ...                          circuits=3, rate="400 Gb/s", setup="10 ms")
    <TopologyChoice: 52.5 ms with 4 set-ups, 37.6 ms with circuits that stay>
    """
    steps = phases(collective, algorithm, hosts, size)
    one = units.rate(rate)
    for_phase = np.array([serve(matrix, circuits) for matrix in steps.matrix])
    whole = np.tensordot(steps.repeat, steps.matrix, axes=1)
    for_job = serve(whole, circuits)
    phase_busy = np.zeros(len(for_phase))
    job_busy = np.zeros(len(for_phase))
    for g, matrix in enumerate(steps.matrix):
        phase_busy[g] = steps.repeat[g] * seconds_on(matrix, for_phase[g], one)
        job_busy[g] = steps.repeat[g] * seconds_on(matrix, for_job, one)
    return TopologyChoice(
        matrix=steps.matrix,
        repeat=steps.repeat,
        for_phase=for_phase,
        for_job=for_job,
        phase_busy=phase_busy,
        job_busy=job_busy,
        size=units.size(size),
        rate=one,
        setup=units.time(setup, "setup"),
        circuits=units.count(circuits, "circuits"),
    )


class Occasion(NamedTuple):
    """One occasion at which circuits could change: how long they are then held, and the share that carries bytes."""

    name: str
    hold: float  # [s]
    duty: float
    pays: bool


def when_to_change(
    setup: units.Quantity, holds: Mapping[str, units.Quantity], share: float = _USEFUL
) -> tuple[Occasion, ...]:
    """Return for each occasion to change circuits which share of the time they would carry bytes.

    Parameters
    ----------
    setup : float or str
        Set-up time. [s]
    holds : mapping of str to float or str
        How long circuits are held if they change at each occasion, such as the time of a packet, a phase, a step or
        a job. [s]
    share : float
        Share of the time that is asked for. 0..1

    Examples
    --------
    >>> from fabriclab import circuits
    >>> holds = {"packet": "82 ns", "phase": "5 ms", "step": "4.6 s", "job": "18 h"}  # illustrative: a large job
    >>> for row in circuits.when_to_change("10 ms", holds):
    ...     print(f"{row.name:6} {row.duty:.4f} {row.pays}")
    packet 0.0000 False
    phase  0.3333 False
    step   0.9978 True
    job    1.0000 True
    """
    gap = units.time(setup, "setup")
    wanted = units.parse(share, "count", "share")
    rows = []
    for name, hold in holds.items():
        seconds = units.time(hold, f"holds[{name!r}]")
        part = switching.duty(seconds, gap)
        rows.append(Occasion(name, seconds, part, part >= wanted))
    return tuple(rows)
