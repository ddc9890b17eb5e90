"""Plans of circuits: which of them are lit when, as changes of capacity that the flow engine plays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import engines, routing, units
from fabriclab.circuits.switches import links, network, square
from fabriclab.core import (
    PATH,
    Changes,
    Fabric,
    Floats,
    Flows,
    Ints,
    Routes,
    Timeline,
    Value,
    freeze,
    pointer,
    rows_of,
)


class Lit(NamedTuple):
    """When circuits carry light, one entry for each circuit of each configuration: bars of a picture."""

    source: Ints  # (C,) rank that sends
    target: Ints  # (C,) rank that receives
    begin: Floats  # (C,) [s]
    end: Floats  # (C,) [s]


@dataclass(frozen=True, eq=False)
class CircuitPlan(Value):
    """A sequence of configurations of the optical switches: set up, held, set up again.

    The plan begins at time 0 with all circuits dark. Each configuration takes its set-up time, in which no circuit
    carries a byte, and is then held. `plan` makes one of matchings.

    Parameters
    ----------
    hosts : int
        Number of ranks, N.
    hold : (M,) float64
        How long each configuration is lit. [s], > 0
    ptr : (M + 1,) int64
        Configuration m lights the circuits ``ptr[m]:ptr[m + 1]``.
    source, target : (C,) int64
        Ranks of each circuit, from sender to receiver; several equal entries are parallel circuits.
    rate : float
        Rate of one circuit. [B/s]
    setup : float
        Set-up time of each configuration. [s], >= 0
    """

    hosts: int
    hold: Floats
    ptr: Ints
    source: Ints
    target: Ints
    rate: float
    setup: float

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        freeze(self, {"hold": np.float64})
        freeze(self, dict.fromkeys(("ptr", "source", "target"), np.int64))

    @property
    def n_configurations(self) -> int:
        """Number of configurations, M."""
        return int(self.hold.size)

    @property
    def begin(self) -> Floats:
        """Times at which the configurations begin to carry light, (M,). [s]."""
        gaps = self.setup * np.arange(1, self.hold.size + 1)
        return np.asarray(gaps + np.cumsum(self.hold) - self.hold)

    @property
    def end(self) -> float:
        """Time at which the last configuration ends: all holds and all set-ups. [s]."""
        return float(self.hold.sum() + self.setup * self.hold.size)

    @property
    def duty(self) -> float:
        """Share of the time in which circuits are lit; `fabriclab.physics.switching.duty` for equal holds."""
        if self.end == 0:
            return 0.0
        return float(self.hold.sum() / self.end)

    def lit(self) -> Lit:
        """Return when each circuit of each configuration carries light."""
        configuration = rows_of(self.ptr)
        begin = self.begin[configuration]
        return Lit(self.source, self.target, begin, begin + self.hold[configuration])

    def lit_seconds(self) -> Floats:
        """Return how long each pair of ranks is joined in all, parallel circuits added, (N, N). [s]."""
        place = self.source * self.hosts + self.target
        seconds = np.bincount(place, self.hold[rows_of(self.ptr)], self.hosts**2)
        return np.asarray(seconds.reshape(self.hosts, self.hosts))

    def receivers(self) -> Ints:
        """Return to whom each rank is joined in each configuration, (M, N); -1 where it is dark.

        Raises
        ------
        ValueError
            If a rank has several circuits at a time.
        """
        table = np.full((self.n_configurations, self.hosts), -1, dtype=np.int64)
        configuration = rows_of(self.ptr)
        table[configuration, self.source] = self.target
        if np.count_nonzero(table >= 0) != self.source.size:
            raise ValueError(
                "receivers needs a plan with one circuit for each rank, and this one has more; use lit()"
            )
        return table

    def receivers_at(self, times: ArrayLike) -> Ints:
        """Return to whom each rank is joined at each time, (T, N); -1 where it is dark, as in a set-up."""
        moment = np.asarray(times, dtype=np.float64)  # (T,) [s]
        begun = np.searchsorted(self.begin, moment, side="right")  # how many have begun
        number = begun - 1
        shown = np.maximum(number, 0)
        is_lit = (number >= 0) & (moment < (self.begin + self.hold)[shown])
        return np.where(is_lit[:, None], self.receivers()[shown], -1)

    def carried(self, times: ArrayLike) -> Floats:
        """Return what each pair of ranks could have sent until each time, (T, N, N): rate x lit time. [B]."""
        moment = np.asarray(times, dtype=np.float64)  # (T,) [s]
        bars = self.lit()
        until = np.clip(moment[:, None], bars.begin, bars.end) - bars.begin  # (T, C) [s]
        pairs = self.hosts**2
        place = np.arange(moment.size)[:, None] * pairs + bars.source * self.hosts + bars.target
        sent = np.bincount(place.ravel(), self.rate * until.ravel(), moment.size * pairs)
        return np.asarray(sent.reshape(moment.size, self.hosts, self.hosts))

    def bytes_left(self, matrix: ArrayLike, times: ArrayLike) -> Floats:
        """Return what is left of direct traffic at each time, (T, N, N). [B].

        Parameters
        ----------
        matrix : (N, N) float
            Bytes from each rank to each other, all there at time 0. [B]
        times : (T,) float
            Moments. [s]
        """
        traffic = square(matrix, "matrix", self.hosts)
        return np.maximum(traffic - self.carried(times), 0.0)

    def changes(self, fabric: Fabric) -> Changes:
        """Return the changes of link capacities that play this plan on a fabric of `network`.

        A link is lit when its configuration begins and dark when it ends. Where one configuration begins as another
        ends, a link of both stays lit.
        """
        pair = rows_of(self.ptr) * self.hosts**2 + self.source * self.hosts + self.target
        distinct, first, parallel = np.unique(pair, return_index=True, return_counts=True)
        configuration = distinct // self.hosts**2
        link = links(fabric, self.source[first], self.target[first])
        begin = self.begin[configuration]
        end = begin + self.hold[configuration]
        if self.setup == 0:  # an end is exactly the beginning after it, whatever was rounded
            following = np.append(self.begin[1:], self.end)
            end = following[configuration]
        # of two changes at the same time the later entry holds, so what begins is listed after what ends
        return Changes(
            np.concatenate([end, begin]),
            np.concatenate([link, link]),
            np.concatenate([np.zeros(link.size), self.rate * parallel]),
        )

    def __repr__(self) -> str:
        """Show the number of configurations, the length and the duty."""
        return (
            f"<CircuitPlan: {self.n_configurations} configurations of {self.hosts} hosts, "
            f"{units.format_time(self.end)}, lit {units.format_share(self.duty, 1)} of it>"
        )


def plan(
    matchings: ArrayLike,
    hold: ArrayLike,
    *,
    rate: units.Quantity,
    setup: units.Quantity,
    cycles: int = 1,
) -> CircuitPlan:
    """Return a plan that holds matchings one after another, with the set-up time before each.

    Parameters
    ----------
    matchings : (M, N) or (M, N, N) int
        To whom each rank sends in each configuration, -1 or the rank itself for nobody; or the number of circuits
        from each rank to each other.
    hold : float, str or (M,) float
        How long each is held; one time for all, or one for each. [s], > 0
    rate : float or str
        Rate of a circuit. [B/s]
    setup : float or str
        Set-up time, such as ``circuits.switch("palomar").setup``. [s]
    cycles : int
        How often the whole sequence is played. >= 1

    Raises
    ------
    ValueError
        If a rank would receive from two senders at once, or a number is out of its range.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> circuits.plan([[1, 0], [-1, 0]], "1 ms", rate="400 Gb/s", setup="1 ms")
    <CircuitPlan: 2 configurations of 2 hosts, 4.00 ms, lit 50.0 % of it>
    """
    table = np.asarray(matchings)
    if table.dtype.kind not in "iu" or table.ndim not in (2, 3):
        raise ValueError(
            "matchings must be whole numbers, a row of receivers for each configuration, "
            f"got {table.dtype} of shape {table.shape}"
        )
    m, n = table.shape[:2]
    if table.ndim == 2:
        entries = _of_receivers(table)
    else:
        entries = _of_counts(table)

    seconds = np.array(hold, dtype=np.float64) if not isinstance(hold, str) else units.time(hold)
    held = np.broadcast_to(seconds, (m,)) if np.ndim(seconds) == 0 else np.asarray(seconds)
    if held.shape != (m,) or not np.all((held > 0) & np.isfinite(held)):
        raise ValueError(f"hold must be one time > 0 s for each of {m} matchings, got {hold!r:.80}")

    often = units.count(cycles, "cycles")
    per_configuration = np.bincount(entries.configuration, minlength=m)
    return CircuitPlan(
        hosts=n,
        hold=np.tile(held, often),
        ptr=pointer(np.tile(per_configuration, often)),
        source=np.tile(entries.source, often),
        target=np.tile(entries.target, often),
        rate=units.rate(rate),
        setup=units.time(setup, "setup"),
    )


class _Entries(NamedTuple):
    """Circuits of all configurations, in order, (C,) each."""

    configuration: Ints
    source: Ints
    target: Ints


def _of_receivers(receivers: Ints) -> _Entries:
    """Return the circuits of matchings (M, N), or refuse what is no matching."""
    n = receivers.shape[1]
    if np.any((receivers < -1) | (receivers >= n)):
        wrong = int(receivers[(receivers < -1) | (receivers >= n)][0])
        raise ValueError(f"a receiver must be within -1..{n - 1}, got {wrong}; -1 is nobody")
    configuration, source = np.nonzero((receivers >= 0) & (receivers != np.arange(n)))
    target = receivers[configuration, source]

    place, senders = np.unique(configuration * n + target, return_counts=True)
    crowded = np.flatnonzero(senders > 1)
    if crowded.size:
        number, rank = divmod(int(place[crowded[0]]), n)
        raise ValueError(
            f"matching {number} sends to rank {rank} from {senders[crowded[0]]} ranks; "
            "a receiver has one circuit at a time, or give numbers of circuits, (M, N, N)"
        )
    return _Entries(configuration, source, target)


def _of_counts(counts: Ints) -> _Entries:
    """Return the circuits of configurations given as numbers of circuits, (M, N, N)."""
    for each in counts:
        square(each, "a configuration")
    configuration, source, target = np.nonzero(counts)
    parallel = counts[configuration, source, target]
    return _Entries(
        np.repeat(configuration, parallel),
        np.repeat(source, parallel),
        np.repeat(target, parallel),
    )


@dataclass(frozen=True, eq=False)
class Played:
    """A plan that was played on the flow engine, with the traffic that it carried."""

    plan: CircuitPlan
    fabric: Fabric
    flows: Flows
    routes: Routes
    timeline: Timeline
    payload: float  # bytes of the traffic matrix, each counted once

    @property
    def time(self) -> float:
        """Time at which the last byte was sent; the flight through the fibre is left out. [s]."""
        delay = np.zeros(self.flows.n_flows)
        np.maximum.at(delay, self.routes.flow, self.routes.delay)
        return float(np.max(self.timeline.finish - delay, initial=0.0))

    @property
    def throughput(self) -> float:
        """Bytes of the traffic over what all ranks send on circuits that are lit all the time."""
        return self.payload / (self.plan.hosts * self.plan.rate * self.time)

    def __repr__(self) -> str:
        """Show the time and the share of the rate."""
        return f"<Played: {units.format_time(self.time)}, {units.format_share(self.throughput, 1)} of the rate>"


def direct(fabric: Fabric, matrix: ArrayLike) -> tuple[Flows, Routes]:
    """Return a flow for each pair of ranks with traffic, and its route over the circuit that joins them.

    Parameters
    ----------
    fabric : Fabric
        One of `network`.
    matrix : (N, N) float
        Bytes from each rank to each other. [B]
    """
    traffic = square(matrix, "matrix", fabric.n_ranks)
    source, target = np.nonzero(traffic)
    flows = Flows.make(fabric.endpoint[source], fabric.endpoint[target], traffic[source, target])
    return flows, over(fabric, links(fabric, source, target))


def over(fabric: Fabric, link: Ints) -> Routes:
    """Return routes of one link each, in the order of the flows."""
    n = link.size
    return Routes(
        ptr=np.arange(n + 1),
        link=link.astype(np.int32),
        use=np.ones(n),
        flow=np.arange(n, dtype=np.int32),
        share=np.ones(n),
        delay=fabric.delay[link],
        kind=np.full(n, PATH),
        adaptive=np.zeros(n, dtype=bool),
    )


def play(
    circuit_plan: CircuitPlan,
    matrix: ArrayLike,
    *,
    packets: ArrayLike | None = None,
    packet_rate: units.Quantity | None = None,
) -> Played:
    """Play a plan on the flow engine, which sends a traffic matrix over its circuits.

    All bytes are there at time 0 and wait at their sender until their circuit is lit. A matrix of further bytes may
    take a packet switch at the same time; flows there share their ports in proportion to their sizes, so that they end
    together.

    Parameters
    ----------
    circuit_plan : CircuitPlan
        What is lit when.
    matrix : (N, N) float
        Bytes from each rank to each other over circuits. [B]
    packets : (N, N) float, optional
        Bytes over the packet switch. [B]
    packet_rate : float or str, optional
        Rate of a host's port on the packet switch; needed for ``packets``. [B/s]

    Raises
    ------
    ValueError
        If the plan is too short for the traffic, naming a pair of ranks and what would be left of its bytes.
    """
    traffic = square(matrix, "matrix", circuit_plan.hosts)
    room = circuit_plan.lit_seconds() * circuit_plan.rate
    short = np.argwhere(traffic > room * (1 + 1e-9))
    if short.size:
        i, j = short[0].tolist()
        raise ValueError(
            f"the plan carries {units.format_size(room[i, j])} from rank {i} to rank {j}, and the matrix has "
            f"{units.format_size(traffic[i, j])}; hold its circuits longer, or take more cycles"
        )
    fabric = network(circuit_plan.hosts, packets=packet_rate)
    flows, routes = direct(fabric, traffic)
    if packets is not None:
        flows, routes = _with_packets(fabric, traffic, square(packets, "packets", len(traffic)))
    timeline = engines.run(fabric, routes, flows, changes=circuit_plan.changes(fabric))
    return Played(circuit_plan, fabric, flows, routes, timeline, float(flows.size.sum()))


def _with_packets(fabric: Fabric, traffic: Floats, packets: Floats) -> tuple[Flows, Routes]:
    """Return the flows over circuits, then those over the packet switch, with the routes of both."""
    if "switch" not in fabric.kinds or not fabric.nodes("switch").size:
        raise ValueError(
            "packets needs packet_rate, the rate of a host's port on the packet switch"
        )
    over_circuits = np.nonzero(traffic)
    over_packets = np.nonzero(packets)
    source = np.concatenate([over_circuits[0], over_packets[0]])
    target = np.concatenate([over_circuits[1], over_packets[1]])
    size = np.concatenate([traffic[over_circuits], packets[over_packets]])
    flows = Flows.make(
        fabric.endpoint[source],
        fabric.endpoint[target],
        size,
        weight=size,
        label=np.repeat([0, 1], [over_circuits[0].size, over_packets[0].size]),
        labels=("circuit", "packet"),
    )

    n = over_circuits[0].size
    first = over(fabric, links(fabric, *over_circuits))
    packet_flows = flows.cut(
        **{
            name: getattr(flows, name)[n:]
            for name in (
                "source",
                "target",
                "size",
                "start",
                "lag",
                "weight",
                "limit",
                "label",
                "group",
            )
        },
        after_ptr=flows.after_ptr[n:],
    )
    second = routing.route(fabric, packet_flows)
    return flows, Routes(
        ptr=np.concatenate([first.ptr, first.ptr[-1] + second.ptr[1:]]),
        link=np.concatenate([first.link, second.link]),
        use=np.concatenate([first.use, second.use]),
        flow=np.concatenate([first.flow, second.flow + np.int32(n)]),
        share=np.concatenate([first.share, second.share]),
        delay=np.concatenate([first.delay, second.delay]),
        kind=np.concatenate([first.kind, second.kind]),
        adaptive=np.concatenate([first.adaptive, second.adaptive]),
    )
