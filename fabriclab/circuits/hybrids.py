"""Hybrids: a few circuits for the large entries of a traffic matrix, and packets for the rest, at the same time.

A circuit is fast once it is lit, and costs a set-up time each time it moves; a packet switch is slower for each host
and needs none. So large entries pay for a circuit and small ones do not. The choice of circuits is greedy: at each
step the matching and the hold that carry the most bytes in the time of hold and set-up [1]_.

References
----------
.. [1] S. B. Venkatakrishnan, M. Alizadeh, P. Viswanath, Costly circuits, submodular schedules and approximate
   Caratheodory theorems, SIGMETRICS 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.circuits.matchings import decompose, fewest_turns
from fabriclab.circuits.plans import CircuitPlan, Played, plan, play
from fabriclab.circuits.switches import square
from fabriclab.core import Floats, Ints, Value, freeze
from fabriclab.physics import switching

_HOLDS = 24  # holds that are tried at each step, among the entries that are left
_HALVINGS = 60  # of the last hold, until circuits and packets end together


@dataclass(frozen=True, eq=False)
class Hybrid(Value):
    """A traffic matrix divided between circuits and packets, beside circuits alone and packets alone.

    Parameters
    ----------
    matrix : (N, N) float64
        The traffic. [B]
    by_circuit, by_packet : (N, N) float64
        What goes over circuits, and what over the packet switch; their sum is the matrix. [B]
    matchings, hold : (M, N) int64, (M,) float64
        Receiver of each sender, -1 where it is dark, and how long each matching is held. [s]
    circuit_rate, packet_rate, setup : float
        Rate of a circuit and of a host's port on the packet switch, and the set-up time. [B/s], [B/s], [s]
    circuits_alone, packets_alone : float
        Time of the faster of two plans of circuits, that of `decompose` and `fewest_turns`, and of the packet switch,
        for all of the matrix. [s]
    """

    matrix: Floats
    by_circuit: Floats
    by_packet: Floats
    matchings: Ints
    hold: Floats
    circuit_rate: float
    packet_rate: float
    setup: float
    circuits_alone: float
    packets_alone: float

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        freeze(self, dict.fromkeys(("matrix", "by_circuit", "by_packet", "hold"), np.float64))
        freeze(self, {"matchings": np.int64})

    @property
    def circuit_seconds(self) -> float:
        """Time until the last circuit has carried its bytes. [s]."""
        return float(self.hold.sum() + self.setup * self.hold.size)

    @property
    def packet_seconds(self) -> float:
        """Time that the packet switch needs for its part: its largest row or column sum over the rate. [s]."""
        return line_sum(self.by_packet) / self.packet_rate

    @property
    def seconds(self) -> float:
        """Time of both together, which run at the same time. [s]."""
        return max(self.circuit_seconds, self.packet_seconds)

    @property
    def share_of_circuits(self) -> float:
        """Share of the bytes that circuits carry."""
        return float(self.by_circuit.sum() / self.matrix.sum())

    @property
    def break_even(self) -> float:
        """Size from which a message that is alone ends first on a circuit, `physics.switching.break_even`. [B]."""
        return switching.break_even(self.circuit_rate, self.setup, self.packet_rate, 0.0)

    @property
    def best(self) -> str:
        """Name of the fastest of the three: hybrid, circuits or packets."""
        times = {
            "packets": self.packets_alone,
            "circuits": self.circuits_alone,
            "hybrid": self.seconds,
        }
        return min(times, key=times.__getitem__)

    def plan(self) -> CircuitPlan:
        """Return the plan of the circuits.

        Raises
        ------
        ValueError
            If all of the traffic goes by packet.
        """
        if not self.hold.size:
            raise ValueError("all of the traffic goes by packet here, so there is no plan to play")
        return plan(self.matchings, self.hold, rate=self.circuit_rate, setup=self.setup)

    def play(self) -> Played:
        """Play circuits and packets on the flow engine, both at the same time."""
        return play(
            self.plan(), self.by_circuit, packets=self.by_packet, packet_rate=self.packet_rate
        )

    def __repr__(self) -> str:
        """Show the three times."""
        shown = [
            units.format_time(t) for t in (self.seconds, self.circuits_alone, self.packets_alone)
        ]
        return (
            f"<Hybrid: {shown[0]} with {self.hold.size} matchings for "
            f"{units.format_share(self.share_of_circuits)} of the bytes; "
            f"circuits alone {shown[1]}, packets alone {shown[2]}>"
        )


def line_sum(matrix: Floats) -> float:
    """Return the largest sum of a row or a column: the bytes of the busiest port. [B]."""
    return float(max(matrix.sum(axis=1).max(), matrix.sum(axis=0).max()))


class _Part(NamedTuple):
    """One matching of the greedy choice: receivers (N,), hold [s], and what it carries (N, N) [B]."""

    receivers: Ints
    hold: float
    carried: Floats


def hybrid(
    matrix: ArrayLike,
    *,
    circuit_rate: units.Quantity,
    packet_rate: units.Quantity,
    setup: units.Quantity,
    matchings: int | None = None,
) -> Hybrid:
    """Divide a traffic matrix between a few circuits and a packet switch that works at the same time.

    Matchings are added as long as both together end earlier. The last one is held as long as packets need for the
    rest. Leaves out that a byte could change its mind: what circuits carry and what packets carry is fixed in advance.

    Parameters
    ----------
    matrix : (N, N) float
        Bytes from each host to each other. [B]
    circuit_rate, packet_rate : float or str
        Rate of a circuit, and of a host's port on a non-blocking packet switch. [B/s]
    setup : float or str
        Set-up time of a matching. [s]
    matchings : int, optional
        At most so many; no limit unless given. >= 0

    Returns
    -------
    Hybrid
        Never slower than packets alone. Circuits alone may be faster, since their matchings are not chosen greedily.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> one_large = [[0, 4e9, 1e6], [1e6, 0, 1e6], [1e6, 1e6, 0]]
    >>> circuits.hybrid(one_large, circuit_rate="400 Gb/s", packet_rate="100 Gb/s", setup="10 ms")
    <Hybrid: 72.0 ms with 1 matchings for 77 % of the bytes; circuits alone 100 ms, packets alone 320 ms>
    """
    traffic = square(matrix, "matrix")
    if not traffic.any():
        raise ValueError("matrix must have traffic, got zeros only")
    fast = units.rate(circuit_rate, "circuit_rate")
    slow = units.rate(packet_rate, "packet_rate")
    gap = units.time(setup, "setup")
    most = len(traffic) ** 2 if matchings is None else units.count(matchings, "matchings", 0)

    parts = _greedy(traffic, fast, slow, gap, most)
    carried = np.zeros_like(traffic)
    for part in parts:
        carried += part.carried
    rest = traffic - carried
    receivers = np.array([part.receivers for part in parts], dtype=np.int64)
    full = decompose(traffic)
    few = fewest_turns(traffic, rate=fast, setup=gap)
    return Hybrid(
        matrix=traffic,
        by_circuit=carried,
        by_packet=rest,
        matchings=receivers.reshape(len(parts), len(traffic)),
        hold=np.array([part.hold for part in parts]),
        circuit_rate=fast,
        packet_rate=slow,
        setup=gap,
        circuits_alone=min(full.seconds(fast, gap), few.end),
        packets_alone=line_sum(traffic) / slow,
    )


def _greedy(traffic: Floats, fast: float, slow: float, gap: float, most: int) -> list[_Part]:
    """Return the matchings with which circuits and packets together end earliest, at most ``most``."""
    left = traffic.copy()
    spent = 0.0  # [s] of circuits so far
    parts: list[_Part] = []
    best_parts: list[_Part] = []
    best = line_sum(traffic) / slow
    while len(parts) < most and left.any() and spent + gap < best:
        part = _fullest(left, fast, gap)
        part = _ended_with_packets(part, left, spent, fast, slow, gap)
        if part.hold <= 0:
            break
        left = left - part.carried
        spent += part.hold + gap
        parts.append(part)
        together = max(spent, line_sum(left) / slow)
        if together < best:
            best = together
            best_parts = list(parts)
    return best_parts


def _fullest(left: Floats, fast: float, gap: float) -> _Part:
    """Return the matching and the hold that carry the most bytes per second of hold and set-up."""
    from scipy.optimize import linear_sum_assignment

    sizes = np.unique(left[left > 0])
    if sizes.size > _HOLDS:
        sizes = sizes[np.linspace(0, sizes.size - 1, _HOLDS).astype(int)]
    sender = np.arange(len(left))
    best = 0.0
    chosen = (sender, 0.0)
    for size in sizes:
        possible = np.minimum(left, size)
        receiver = linear_sum_assignment(possible, maximize=True)[1]
        speed = possible[sender, receiver].sum() / (size / fast + gap)
        if speed > best:
            best = float(speed)
            chosen = (receiver, float(size / fast))
    return _part(left, chosen[0], chosen[1], fast)


def _part(left: Floats, receiver: Ints, hold: float, fast: float) -> _Part:
    """Return a matching that is held for a time, dark where there is nothing to send."""
    sender = np.arange(len(left))
    carried = np.zeros_like(left)
    carried[sender, receiver] = np.minimum(left[sender, receiver], hold * fast)
    lit = np.where(carried[sender, receiver] > 0, receiver, -1)
    return _Part(lit, hold, carried)


def _ended_with_packets(
    part: _Part, left: Floats, spent: float, fast: float, slow: float, gap: float
) -> _Part:
    """Shorten a hold to where circuits end with packets, if with all of it packets would end first."""
    receiver = np.where(part.receivers >= 0, part.receivers, np.arange(len(left)))

    def ahead(hold: float) -> float:
        """Return by how much circuits end later than packets if the matching is held so long. [s]."""
        shorter = _part(left, receiver, hold, fast)
        return spent + gap + hold - line_sum(left - shorter.carried) / slow

    if ahead(part.hold) <= 0:
        return part
    low = 0.0
    high = part.hold
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if ahead(middle) <= 0:
            low = middle
        else:
            high = middle
    return _part(left, receiver, low, fast)
