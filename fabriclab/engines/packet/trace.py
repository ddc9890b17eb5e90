"""What a run of the packet engine leaves: times, counters of links and queues, series of what was watched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import compiled, units
from fabriclab.core import Fabric, Floats, Flows, Ints, as_html
from fabriclab.engines.packet import state
from fabriclab.engines.packet.setup import PICO, TRIM_SIZE, Layout, cost_of

__all__ = ["LOG_KINDS", "Trace", "jain", "time_alone", "trace_of"]

_LONG = 100_000  # events of a run that takes seconds in plain Python

LOG_KINDS = ("sent", "queued", "came", "dropped", "trimmed", "pause", "resume")


@dataclass(frozen=True, eq=False)
class Trace:
    """What a run leaves. F flows, L links, V classes, C connections, K samples.

    Parameters
    ----------
    start, finish : (F,) float64
        When each flow began and ended; inf for one that did not end before the time limit. [s]
    end : float
        Time of the last event [s].
    sent : (L,) float64
        Bytes that each link sent, headers and repeated packets included. [B]
    peak : (L, V) float64
        Longest queue of each link. [B]
    marks, drops, pauses : (L, V) int64
        Packets marked, packets refused, pauses obeyed.
    paused : (L, V) float64
        Time that each queue was paused. [s]
    lost : (L,) int64
        Packets lost on the link.
    flow, packets, resent, dropped, marked : (C,) int64
        Flow of each connection; its packets, those sent again, those lost on the way, those that came marked.
    failed : (C,) bool
        Whether the connection gave up.
    hops : int
        Packets that were sent on a link, counted on each link.
    events : int
        Events that the engine handled.
    sample : float
        Distance of the samples. [s]
    queue, queue_paused, queue_sent : (K, W V)
        Bytes, pauses and bytes sent so far of the watched links' queues.
    queue_marks, queue_drops, queue_paused_time : (K, W V)
        Packets that they marked and refused, and how long they were paused [s], all so far.
    rate, window, received : (K, C')
        Rate [B/s], window [B] and packets received so far of the watched connections.
    log : (M, 6) int64
        Time [ps], kind (of `LOG_KINDS`), slot, connection, packet and link of each line.
    compiled : bool
        Whether compiled kernels ran.
    size, alone : (F,) float64
        Bytes of each flow, and the time that it takes with nothing else on the network; see `time_alone`. [B], [s]
    label, labels : (F,) int, tuple of str
        What each flow is for, as an index into ``labels``.
    watched_links : (W,) int64
        Links whose queues were watched; column w V + v of a series is class v of link w.
    watched_flows : (C',) int64
        Flow of each watched connection.
    """

    start: Floats
    finish: Floats
    end: float
    sent: Floats
    peak: Floats
    marks: Ints
    drops: Ints
    pauses: Ints
    paused: Floats
    lost: Ints
    flow: Ints
    packets: Ints
    resent: Ints
    dropped: Ints
    marked: Ints
    failed: NDArray[np.bool_]
    hops: int
    events: int
    sample: float
    queue: Floats
    queue_paused: NDArray[np.bool_]
    queue_sent: Floats
    queue_marks: Ints
    queue_drops: Ints
    queue_paused_time: Floats
    rate: Floats
    window: Floats
    received: Ints
    log: Ints
    compiled: bool
    size: Floats
    alone: Floats
    label: Ints
    labels: tuple[str, ...]
    watched_links: Ints
    watched_flows: Ints

    @property
    def times(self) -> Floats:
        """Times of the samples [s], (K,)."""
        count = len(self.queue) or len(self.rate)
        return np.arange(count, dtype=np.float64) * self.sample

    @property
    def duration(self) -> Floats:
        """Time that each flow took [s], (F,)."""
        ended = np.isfinite(self.finish)
        begin = np.where(ended, self.start, 0.0)
        return self.finish - begin

    @property
    def last_finish(self) -> float:
        """Time at which the last flow ended, inf if one did not [s]."""
        return float(self.finish.max(initial=0.0))

    @property
    def goodput(self) -> Floats:
        """Payload of each flow over the time that it took, (F,); 0 for one that did not end. [B/s]."""
        took = self.duration
        return np.divide(self.size, took, out=np.zeros(self.size.size), where=took > 0)

    @property
    def slowdown(self) -> Floats:
        """Time of each flow over its time alone, (F,); 1 is the best, nan for a flow without bytes."""
        none = np.full(self.size.size, np.nan)
        return np.divide(self.duration, self.alone, out=none, where=self.alone > 0)

    @property
    def fairness(self) -> float:
        """Jain's index of the goodput of all flows that move bytes.

        It is (sum x)^2 / (n sum x^2): 1 if all are equal, 1/n if one has everything; nan without flows.

        References
        ----------
        .. [1] R. Jain, D. Chiu, W. Hawe, A Quantitative Measure of Fairness and Discrimination, DEC-TR-301, 1984.
        """
        return jain(self.goodput[self.size > 0])

    @property
    def sent_again(self) -> float:
        """Share of the packets that senders sent which were sent before, 0..1."""
        again = float(self.resent.sum())
        return again / max(1.0, float(self.packets.sum()) + again)

    @property
    def dropped_share(self) -> float:
        """Share of the packets that senders sent which were dropped, or lost on a link, 0..1."""
        all_sent = float(self.packets.sum() + self.resent.sum())
        return float(self.dropped.sum()) / max(1.0, all_sent)

    def flows_of(self, label: str) -> Ints:
        """Return the numbers of the flows with a label."""
        label = units.choice(label, "label", self.labels)
        return np.flatnonzero(self.label == self.labels.index(label))

    def time_of(self, *labels: str) -> float:
        """Return the time of a collective: first start to last finish of all flows with these labels. [s]."""
        flows = np.concatenate([self.flows_of(label) for label in labels])
        return float(self.finish[flows].max() - self.start[flows].min())

    def queue_of(self, link: int, cls: int | None = None) -> Floats:
        """Return the queue of a watched link at each sample, of one class or of all together, (K,). [B]."""
        return np.asarray(self.queue[:, self._columns(link, cls)].sum(axis=1))

    def paused_of(self, link: int, cls: int | None = None) -> NDArray[np.bool_]:
        """Return whether a watched link, in one class or in any, was paused at each sample, (K,)."""
        return np.asarray(self.queue_paused[:, self._columns(link, cls)].any(axis=1))

    def rate_of(self, flow: int) -> Floats:
        """Return the rate that the control loop allowed a watched flow at each sample, (K,). [B/s].

        A rate that is not below that of the port means that the window alone decides.
        """
        return np.asarray(self.rate[:, self._connections(flow)].sum(axis=1))

    def received_of(self, flow: int) -> Floats:
        """Return the packets that a watched flow had received at each sample, (K,)."""
        columns = self._connections(flow)
        return np.asarray(self.received[:, columns].sum(axis=1), dtype=np.float64)

    def _columns(self, link: int, cls: int | None) -> Ints:
        """Return the columns of a watched link in the series of queues."""
        place = np.flatnonzero(self.watched_links == link)
        if not place.size:
            known = ", ".join(str(number) for number in self.watched_links[:8]) or "none"
            raise ValueError(
                f"link {link} was not watched ({known} were); give watch_links=[{link}]"
            )
        n_classes = self.peak.shape[1]
        first = int(place[0]) * n_classes
        if cls is None:
            return np.arange(first, first + n_classes)
        return np.array([first + units.count(cls, "cls", 0, n_classes - 1)])

    def _connections(self, flow: int) -> Ints:
        """Return the columns of a watched flow in the series of connections."""
        columns = np.flatnonzero(self.watched_flows == flow)
        if not columns.size:
            known = ", ".join(str(number) for number in self.watched_flows[:8]) or "none"
            raise ValueError(
                f"flow {flow} was not watched ({known} were); give watch_flows=[{flow}]"
            )
        return columns

    def rows(self) -> list[list[str]]:
        """Return the results as a table of texts: for each label its flows, and then what happened to packets."""
        head = [
            "flows",
            "number",
            "bytes",
            "last finish",
            "median goodput",
            "median slowdown",
            "p99",
        ]
        table = [head]
        for name in self.labels:
            flows = self.flows_of(name)
            flows = flows[self.size[flows] > 0]
            if flows.size:
                table.append([name, *self._row(flows)])
        return table

    def _row(self, flows: Ints) -> list[str]:
        slow = self.slowdown[flows]
        return [
            f"{flows.size:,}",
            units.format_size(float(self.size[flows].sum())),
            units.format_time(float(self.finish[flows].max())),
            units.format_rate(float(np.median(self.goodput[flows]))),
            f"{np.median(slow):.2f}",
            f"{np.quantile(slow, 0.99, method='inverted_cdf'):.2f}",
        ]

    def _repr_html_(self) -> str:
        return as_html(self.rows(), repr(self)[1:-1])

    @property
    def note(self) -> str:
        """Say why a long run was slow, if it ran as plain Python; else an empty text."""
        if self.compiled or self.events < _LONG:
            return ""
        return compiled.note()

    def __repr__(self) -> str:
        """Show how many flows ended, when, and what happened to packets."""
        ended = int(np.isfinite(self.finish).sum())
        counts = {
            "dropped": int(self.dropped.sum()),
            "sent again": int(self.resent.sum()),
            "marked": int(self.marked.sum()),
            "pauses": int(self.pauses.sum()),
        }
        told = ", ".join(f"{n:,} {name}" for name, n in counts.items() if n)
        return (
            f"<Trace: {ended} of {self.finish.size} flows ended, {units.format_time(self.end)}; "
            f"{int(self.packets.sum()):,} packets{'; ' if told else ''}{told}>"
        )


def jain(values: ArrayLike) -> float:
    """Return Jain's index of fairness: (sum x)^2 / (n sum x^2), nan for no values.

    Examples
    --------
    >>> jain([1.0, 1.0, 1.0]), jain([1.0, 0.0])
    (1.0, 0.5)
    """
    x = np.asarray(values, dtype=np.float64)
    squares = x.size * float((x**2).sum())
    if not squares:
        return float("nan")
    return float(x.sum()) ** 2 / squares


def time_alone(layout: Layout, fabric: Fabric) -> Floats:
    """Return how long each flow would take with nothing else on the network, (F,). [s].

    The bytes of a flow, headers and gaps included, pass the link that has most of them at its full rate; one packet
    more has to pass each other link, and all delays count. For a flow on one path this is exact, as long as no window
    and no limit holds it up; where packets have a choice of paths, they are counted as spread evenly.
    """
    at_start = layout.state
    settings = layout.settings
    conns, rows, entries, links = at_start.conns, at_start.rows, at_start.entries, at_start.links
    extra = settings.header + settings.gap
    full = settings.payload + extra
    header = TRIM_SIZE + settings.gap
    alone = np.zeros(at_start.flows.size)
    if not conns.size:
        return alone

    # Each row (path): its connection, and what it carries.
    n_paths = conns["row_to"] - conns["row_from"]  # (C,)
    conn = np.repeat(np.arange(conns.size), n_paths)  # (R,)
    packets = conns["packets"][conn].astype(np.int64)
    last = conns["last_size"][conn].astype(np.int64) + extra  # (R,) [B]
    part = ((packets - 1) * full + last) / n_paths[conn]  # (R,) [B]

    # Each entry (link of a path): bytes of the flow on the link, and those that a packet waits for there.
    row = np.repeat(np.arange(conn.size), rows["end"] - rows["first"])  # (E,)
    link = entries["link"]
    cost = cost_of(fabric.capacity)[link] / 65536.0  # (E,) [ps/B]
    flow_and_link = conns["flow"][conn[row]].astype(np.int64) * links.size + link
    pairs, pair = np.unique(flow_and_link, return_inverse=True)
    load = np.bincount(pair, part[row], pairs.size)[pair]  # (E,) [B]
    size = np.where(packets > 1, full, last)[row]
    size = np.where(entries["through"] == 1, np.minimum(size, header), size)

    first = rows["first"]
    time = np.add.reduceat(links["delay"][link] + size * cost, first)  # (R,) [ps]
    longest = np.maximum.reduceat((load - full - last[row]) * cost, first)
    behind = np.maximum(longest, 0.0) + last * cost[rows["end"] - 1]
    time = np.where(packets > 1, time + behind, time)
    np.maximum.at(alone, conns["flow"][conn], time)
    return alone / PICO


def trace_of(layout: Layout, is_compiled: bool, fabric: Fabric, flows: Flows) -> Trace:
    """Return what the engine's state says at the end of a run."""
    end = layout.state
    whole = end.whole
    queues, links, conns = end.queues, end.links, end.conns
    n_classes = int(whole[state.CLASSES])
    now = int(whole[state.NOW])

    def seconds(picoseconds: Any) -> Floats:
        return np.asarray(picoseconds, dtype=np.float64) / PICO

    def by_link(column: Any) -> Any:
        return column.reshape(-1, n_classes).copy()

    def samples(rows: Any, watched: Any, column: str) -> Any:
        return rows[column][: k * watched.size].reshape(k, watched.size).copy()

    k = int(whole[state.SAMPLES])
    still = np.where(queues["paused"] == 1, now - queues["paused_since"], 0)
    finish = end.flows["finish"]
    began = end.flows["began"]
    lines = end.log[: int(whole[state.LOGGED])]
    return Trace(
        start=np.where(began >= 0, seconds(began), np.inf),
        finish=np.where(finish >= 0, seconds(finish), np.inf),
        end=now / PICO,
        sent=links["sent"].astype(np.float64),
        peak=by_link(queues["peak"]).astype(np.float64),
        marks=by_link(queues["marks"]),
        drops=by_link(queues["drops"]),
        pauses=by_link(queues["pauses"]),
        paused=by_link(seconds(queues["paused_time"] + still)),
        lost=by_link(queues["lost"]).sum(axis=1, dtype=np.int32),
        flow=conns["flow"].copy(),
        packets=conns["packets"].copy(),
        resent=conns["resent"].copy(),
        dropped=conns["dropped"].copy(),
        marked=conns["marked"].copy(),
        failed=conns["state"].copy() == state.FAILED,
        hops=int(whole[state.HOPS]),
        events=int(whole[state.HANDLED]),
        sample=float(whole[state.SAMPLE_GAP]) / PICO,
        queue=samples(end.queue_samples, end.watched_queues, "bytes").astype(np.float64),
        queue_paused=samples(end.queue_samples, end.watched_queues, "paused") == 1,
        queue_sent=samples(end.queue_samples, end.watched_queues, "sent").astype(np.float64),
        queue_marks=samples(end.queue_samples, end.watched_queues, "marks"),
        queue_drops=samples(end.queue_samples, end.watched_queues, "drops"),
        queue_paused_time=seconds(samples(end.queue_samples, end.watched_queues, "paused_time")),
        rate=samples(end.conn_samples, end.watched_conns, "rate"),
        window=samples(end.conn_samples, end.watched_conns, "window"),
        received=samples(end.conn_samples, end.watched_conns, "received"),
        log=np.stack([lines[name] for name in lines.dtype.names], axis=1),
        compiled=is_compiled,
        size=flows.size.copy(),
        alone=time_alone(layout, fabric),
        label=flows.label.astype(np.int64),
        labels=flows.labels,
        watched_links=np.array(layout.settings.watch_links, dtype=np.int64),
        watched_flows=conns["flow"][end.watched_conns].copy(),
    )
