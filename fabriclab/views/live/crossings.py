"""Single packets through one switch: a run of the packet engine, and what its log tells of every packet."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fabriclab import catalog, routing, topologies
from fabriclab.core import Fabric, Floats, Flows, Ints, Routes
from fabriclab.engines.packet import LOG_KINDS, Settings, Trace, play
from fabriclab.engines.packet.setup import TRIM_SIZE
from fabriclab.scenarios import LINE_RATE

# The network: three senders, and two receivers behind ports X and Y.
_LENGTH = "30 m"  # illustrative: a cable in a row of racks
_FORWARDING = "80 ns"  # illustrative: shorter than that of real switches, so that packets are seen
PACKETS = 20  # of each flow
_PAYLOAD = Settings().payload  # of a packet [B]
STORED = _PAYLOAD + Settings().header  # what a queue holds of it [B]
_ON_WIRE = STORED + Settings().gap  # what a cable carries of it [B]
LETTERS = ("A", "B", "C", "D")  # of the flows
SENDERS = (0, 1, 2, 2)  # of the flows
PORTS = (0, 0, 0, 1)  # of the flows: X, X, X, Y
VICTIM = 3  # flow D, whose port nobody else uses
N_SENDERS = 3
PORT_NAMES = ("X", "Y")

# What the switch does when a queue grows. Small memories, so that it happens within microseconds.
_ROOM = 15 * STORED  # one queue may hold up to so much [B]
_MARK_FROM = 5 * STORED  # [B]
_SHARED = {"buffer": 5 / 4 * _ROOM, "drop_share": 4.0}  # the rest is left for the other port
LIMITS: Mapping[str, int] = {"mark": _MARK_FROM, "drop": _ROOM, "trim": _ROOM}  # queues [B]
_CREDIT = 7 * STORED  # room behind each cable [B]
ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "mark": {
        "control": "dctcp",
        "marking": (float(_MARK_FROM), _MARK_FROM + 1.0, 1.0),
        "lossless": "none",
        "buffer": "1 MB",  # illustrative: more than is ever needed here
    },
    "pause": {
        **LINE_RATE,
        "lossless": "pause",
        "buffer": "1 MB",  # illustrative: more than is ever needed here
        "xoff": float(3 * STORED),
        "reserve": 0,
        # source: 60 quanta of 512 bits at 400 Gb/s, IEEE 802.3 annex 31B
        "response": "76.8 ns",
    },
    "credit": {**LINE_RATE, "lossless": "credits", "credit": float(_CREDIT)},
    "drop": {**LINE_RATE, "lossless": "none", **_SHARED},
    "trim": {
        **LINE_RATE,
        "lossless": "none",
        **_SHARED,
        "trim": True,
        "recovery": "selective",
    },
}
_TIMEOUT = "4 us"  # illustrative: short, as the whole run is
_TRIES = 50  # illustrative: no connection gives up within a run
LINES = 20_000  # of the log: more than any run here has
_INSTANT = 1e-12  # illustrative: two times that are nearer are one [s]


@dataclass(frozen=True, eq=False)
class Journeys:
    """What happened to every packet that was sent, each time that it was. J journeys; nan for what never happened.

    Parameters
    ----------
    flow, number, sender, port : (J,) int64
        Flow, number of the packet in it, its sender, and the port of the switch to which it goes.
    sent, queued, left, came, lost : (J,) float64
        When its sender began to send it, when it was put into a queue, when the switch began to send it, when it had
        come in full, and when it was lost [s].
    is_cut, is_again, is_marked : (J,) bool
        Whether the switch cut it to its header, whether it had been sent before, and whether it was marked.
    size : (J,) int64
        What the queue held of it [B].
    """

    flow: Ints
    number: Ints
    sender: Ints
    port: Ints
    sent: Floats
    queued: Floats
    left: Floats
    came: Floats
    lost: Floats
    is_cut: Any
    is_again: Any
    is_marked: Any
    size: Ints


@dataclass(frozen=True, eq=False)
class Crossing:
    """A run through one switch, packet by packet. K steps of the queues.

    Parameters
    ----------
    journeys : Journeys
        Every packet, each time that it was sent.
    times : (K,) float64
        When the number of waiting packets of a port changed [s].
    waiting : (K, 2) int64
        Packets in the queues of ports X and Y from these times on.
    stops : sequence of (S, 2) float64
        For each sender, when a pause or the lack of credit stopped it, and when it went on [s].
    finish, alone : (4,) float64
        When each flow ended, and when it would have ended with the network to itself [s].
    end : float
        When the last flow ended [s].
    cable, forwarding, packet : float
        Times of a bit on a cable and through the switch, and of a whole packet on the wire [s].
    """

    journeys: Journeys
    times: Floats
    waiting: Ints
    stops: tuple[Floats, ...]
    finish: Floats
    alone: Floats
    end: float
    cable: float
    forwarding: float
    packet: float

    def waiting_at(self, moment: float) -> Ints:
        """Return how many packets wait for port X and for port Y at a time [s], (2,)."""
        step = int(np.searchsorted(self.times, moment, side="right")) - 1
        return np.asarray(self.waiting[step])

    def stopped_at(self, moment: float) -> list[int]:
        """Return the senders that a pause or the lack of credit stops at a time [s]."""
        found = []
        for sender, stops in enumerate(self.stops):
            if np.any((stops[:, 0] <= moment) & (moment < stops[:, 1])):
                found.append(sender)
        return found


# The run ----------------------------------------------------------------------------------------


class Network(NamedTuple):
    """Three senders, two receivers and a switch, and what is sent."""

    fabric: Fabric
    flows: Flows
    routes: Routes
    inputs: tuple[int, ...]  # links of the senders
    outputs: tuple[int, ...]  # links to the receivers


@lru_cache(maxsize=1)
def network() -> Network:
    """Return hosts 1 to 3, which send, and the receivers behind ports X and Y."""
    hosts = N_SENDERS + len(PORT_NAMES)
    fabric = topologies.build(
        "leaf_spine",
        hosts=hosts,
        radix=64,
        rate=catalog.case().nic_rate,
        host_length=_LENGTH,
        switch_delay=_FORWARDING,
    )
    nodes = fabric.endpoint
    source = nodes[list(SENDERS)]
    target = nodes[N_SENDERS + np.array(PORTS)]
    flows = Flows.make(source, target, float(PACKETS * _PAYLOAD))
    inputs = [int(np.flatnonzero(fabric.source == node)[0]) for node in nodes[:N_SENDERS]]
    outputs = [int(np.flatnonzero(fabric.target == node)[0]) for node in nodes[N_SENDERS:]]
    routes = routing.route(fabric, flows, "paths")
    return Network(fabric, flows, routes, tuple(inputs), tuple(outputs))


@lru_cache(maxsize=16)
def traced(answer: str, forwarding: str) -> Trace:
    """Return the run of the packet engine, with a log of every packet."""
    place = network()
    settings = Settings.of(
        {
            **ANSWERS[answer],
            "cut_through": forwarding == "cut",
            "timeout": _TIMEOUT,
            "retries": _TRIES,
            "log": LINES,
        }
    )
    return play(place.fabric, place.routes, place.flows, None, settings)


@lru_cache(maxsize=16)
def crossed(answer: str, forwarding: str) -> Crossing:
    """Return what the log of a run tells, packet by packet."""
    place = network()
    trace = traced(answer, forwarding)
    journeys = journeys_of(trace, place, answer)
    times, waiting = waiting_of(journeys)
    fabric = place.fabric
    into, out = place.inputs[0], place.outputs[0]
    cable = float(fabric.delay[out])
    packet = _ON_WIRE / float(fabric.capacity[into])
    stops = pauses_of(trace, place)
    if answer == "credit":
        stops = credit_stops(journeys, cable, packet)
    return Crossing(
        journeys=journeys,
        times=times,
        waiting=waiting,
        stops=stops,
        finish=trace.finish,
        alone=trace.alone,
        end=float(trace.finish.max()),
        cable=cable,
        forwarding=float(fabric.delay[into]) - cable,
        packet=packet,
    )


def journeys_of(trace: Trace, place: Network, answer: str) -> Journeys:
    """Return every packet, each time that it was sent, from the lines of a log.

    A packet keeps its slot of the engine from its sender to its receiver.
    """
    sent, queued, came, dropped, trimmed = (
        LOG_KINDS.index(kind) for kind in ("sent", "queued", "came", "dropped", "trimmed")
    )
    rows: list[dict[str, Any]] = []
    journey_in: dict[int, dict[str, Any]] = {}
    known: set[tuple[int, int]] = set()
    for picoseconds, kind, slot, conn, number, link in trace.log.tolist():
        time = picoseconds * 1e-12
        if kind == sent and link in place.inputs:
            flow = int(trace.flow[conn])
            journey = {
                "flow": flow,
                "number": number,
                "sender": place.inputs.index(link),
                "port": PORTS[flow],
                "sent": time,
                "is_again": (conn, number) in known,
            }
            known.add((conn, number))
            rows.append(journey)
            journey_in[slot] = journey
        elif kind == sent:
            journey_in[slot]["left"] = time
        elif kind == queued:
            journey_in[slot]["queued"] = time
        elif kind == trimmed:
            journey_in[slot]["is_cut"] = True
        elif kind == came:
            journey_in[slot]["came"] = time
        elif kind == dropped:
            journey_in[slot]["lost"] = time

    def column(name: str, otherwise: Any) -> Any:
        return np.array([row.get(name, otherwise) for row in rows])

    is_cut = column("is_cut", False)
    found = Journeys(
        flow=column("flow", -1),
        number=column("number", -1),
        sender=column("sender", -1),
        port=column("port", -1),
        sent=column("sent", np.nan),
        queued=column("queued", np.nan),
        left=column("left", np.nan),
        came=column("came", np.nan),
        lost=column("lost", np.nan),
        is_cut=is_cut,
        is_again=column("is_again", False),
        is_marked=np.zeros(len(rows), dtype=bool),
        size=np.where(is_cut, TRIM_SIZE, STORED),
    )
    if answer == "mark":
        found.is_marked[:] = marked_of(found)
    return found


def marked_of(journeys: Journeys) -> Any:
    """Return which packets are marked, (J,): those that leave a queue which holds more than the threshold with them."""
    marked = np.zeros(journeys.flow.size, dtype=bool)
    for j in np.flatnonzero(np.isfinite(journeys.left)).tolist():
        leaves = journeys.left[j]
        is_there = (
            (journeys.port == journeys.port[j])
            & (journeys.queued <= leaves)
            & (journeys.left >= leaves)
        )
        marked[j] = journeys.size[is_there].sum() > _MARK_FROM
    return marked


def waiting_of(journeys: Journeys) -> tuple[Floats, Ints]:
    """Return when the number of waiting packets changes (K,) [s], and from then on how many wait for X and Y (K, 2)."""
    was_queued = np.isfinite(journeys.queued)
    has_left = np.isfinite(journeys.left)
    changes = np.unique(
        np.concatenate([[0.0], journeys.queued[was_queued], journeys.left[has_left]])
    )
    waiting = np.zeros((changes.size, len(PORT_NAMES)), dtype=np.int64)
    for port in range(len(PORT_NAMES)):
        is_here = journeys.port == port
        came = np.sort(journeys.queued[was_queued & is_here])
        went = np.sort(journeys.left[has_left & is_here])
        waiting[:, port] = np.searchsorted(came, changes, side="right")
        waiting[:, port] -= np.searchsorted(went, changes, side="right")
    return changes, waiting


def pauses_of(trace: Trace, place: Network) -> tuple[Floats, ...]:
    """Return for each sender when a pause began and ended, (S, 2) [s]."""
    pause, resume = LOG_KINDS.index("pause"), LOG_KINDS.index("resume")
    stops = []
    for link in place.inputs:
        mine = trace.log[:, 5] == link
        began = trace.log[mine & (trace.log[:, 1] == pause), 0] * 1e-12
        ended = trace.log[mine & (trace.log[:, 1] == resume), 0] * 1e-12
        ended = np.append(ended, np.full(began.size - ended.size, trace.end))
        stops.append(np.stack([began, ended], axis=1))
    return tuple(stops)


def credit_stops(journeys: Journeys, cable: float, packet: float) -> tuple[Floats, ...]:
    """Return for each sender when it had something to send and no credit for a whole packet, (S, 2) [s].

    A packet takes credit when it is sent; it is given back when the packet leaves the switch, and travels back over the
    ``cable`` [s]. While a ``packet`` is being sent [s], the next one need not wait.
    """
    stops = []
    for sender in range(N_SENDERS):
        is_mine = journeys.sender == sender
        sent = np.sort(journeys.sent[is_mine])
        back = np.sort(journeys.left[is_mine & np.isfinite(journeys.left)]) + cable
        found = []
        for n_sent, time in enumerate(sent[:-1].tolist(), start=1):
            n_back = int(np.searchsorted(back, time, side="right"))
            if (n_sent - n_back + 1) * STORED <= _CREDIT:
                continue
            begins, ends = time + packet, float(back[n_back])
            if ends > begins + _INSTANT:
                found.append((begins, ends))
        stops.append(np.array(found).reshape(-1, 2))
    return tuple(stops)
