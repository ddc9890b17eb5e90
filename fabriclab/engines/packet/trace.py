"""What a run of the packet engine leaves: times, counters of links and queues, series of what was watched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import compiled, units
from fabriclab.core import Floats, Ints
from fabriclab.engines.packet import state
from fabriclab.engines.packet.setup import PICO, Layout

__all__ = ["LOG_KINDS", "Trace", "trace_of"]

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
    rate, window, received : (K, C')
        Rate [B/s], window [B] and packets received so far of the watched connections.
    log : (M, 6) int64
        Time [ps], kind (of `LOG_KINDS`), slot, connection, packet and link of each line.
    compiled : bool
        Whether compiled kernels ran.
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
    rate: Floats
    window: Floats
    received: Ints
    log: Ints
    compiled: bool

    @property
    def times(self) -> Floats:
        """Times of the samples [s], (K,)."""
        count = len(self.queue) or len(self.rate)
        return np.arange(count, dtype=np.float64) * self.sample

    @property
    def duration(self) -> Floats:
        """Time that each flow took [s], (F,)."""
        return self.finish - self.start

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


def trace_of(layout: Layout, is_compiled: bool) -> Trace:
    """Return what the engine's state says at the end of a run."""
    end = layout.state
    whole = end.whole
    flows, queues, links, conns = end.flows, end.queues, end.links, end.conns
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
    finish = flows["finish"]
    began = flows["began"]
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
        lost=links["lost"].copy(),
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
        rate=samples(end.conn_samples, end.watched_conns, "rate"),
        window=samples(end.conn_samples, end.watched_conns, "window"),
        received=samples(end.conn_samples, end.watched_conns, "received"),
        log=np.stack([lines[name] for name in lines.dtype.names], axis=1),
        compiled=is_compiled,
    )
