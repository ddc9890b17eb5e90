"""Packets that wait in queues: the engine that shows congestion, loss, pauses and what senders do about them.

Every packet is sent, stored and forwarded by itself. Links have queues at their source, one for each class; switches
share a buffer among them, mark, pause, trim or drop; senders have windows and rates that a control loop sets. Times are
whole picoseconds, so a run gives the same numbers on every machine.

Left out: acknowledgements, notices, grants and credits travel back with the delays of the path and never wait in a
queue (they are a few percent of the bytes, in a class of their own); a switch has one queue for each output and class,
so a packet never waits behind one for another output, except through the buffer that both share; NICs and hosts take
no time of their own beyond the delays of the fabric.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fabriclab import compiled, registry
from fabriclab.core import Changes, Fabric, Floats, Flows, Routes
from fabriclab.engines.packet import loop as _loop
from fabriclab.engines.packet import setup, signatures, state
from fabriclab.engines.packet.lossless import headroom
from fabriclab.engines.packet.own import loop_of
from fabriclab.engines.packet.settings import Settings
from fabriclab.engines.packet.trace import LOG_KINDS, Trace, trace_of
from fabriclab.errors import Deadlock, Unreachable
from fabriclab.registry import register

__all__ = ["LOG_KINDS", "Settings", "Trace", "headroom", "packet", "play", "transport"]

_CHUNK = 2_000_000  # events between two looks whether somebody wants to stop the run
_MOSTLY_IDLE = (
    "events",
    "queue_samples",
    "conn_samples",
    "log",
)  # tables of which a run needs few rows
_PLAIN_CHUNK = 20_000  # the same in plain Python


def play(
    fabric: Fabric,
    routes: Routes,
    flows: Flows,
    changes: Changes | None = None,
    config: Mapping[str, Any] | Settings | None = None,
    rng: np.random.Generator | None = None,
    *,
    plain: bool = False,
) -> Trace:
    """Run flows packet by packet and return all that the engine knows of the run.

    Parameters
    ----------
    fabric, routes, flows, changes, rng
        As in `fabriclab.engines.run`; the flows are one graph.
    config : mapping or Settings, optional
        Fields of `Settings`.
    plain : bool
        Run plain Python even if compiled kernels are at hand; the results are the same.

    Returns
    -------
    Trace
        Times, counters and series. A flow that did not end before ``until`` ends at inf.

    Raises
    ------
    Deadlock
        If buffers wait for each other in a circle.
    Unreachable
        If a connection gave up, or a flow waits for a link that has no capacity.
    """
    settings = config if isinstance(config, Settings) else Settings.of(config or {})
    layout = setup.lay_out(fabric, routes, flows, changes, settings, rng)
    functions = (_loop.loop, *layout.functions)
    by_hand = any(map(callable, (settings.control, settings.marking, settings.balance)))
    kernels = functions if plain or by_hand else compiled.fast_all(functions)
    is_compiled = kernels is not functions
    why, layout = _run_compiled(layout, kernels) if is_compiled else _run_plain(layout)
    trace = trace_of(layout, is_compiled, fabric, flows)
    if why != state.LATER:
        _check_end(fabric, layout, trace)
    return trace


@register("engine", "packet", settings=tuple(Settings.__dataclass_fields__))
def packet(
    fabric: Fabric,
    routes: Routes,
    flows: Flows,
    changes: Changes | None,
    config: Mapping[str, Any],
    rng: np.random.Generator | None,
) -> tuple[Floats, Floats]:
    """Return start and finish of each flow of a graph [s], (F,); see `fabriclab.engines.run`."""
    trace = play(fabric, routes, flows, changes, config, rng)
    unfinished = np.flatnonzero(~np.isfinite(trace.finish))
    if unfinished.size:
        raise Unreachable(
            f"{unfinished.size} flows did not end before until={config.get('until')}, flow {unfinished[0]} among them; "
            "a timeline has all flows ended: give more time, or call fabriclab.engines.packet.play"
        )
    return trace.start, trace.finish


def transport(name: str, **changes: Any) -> dict[str, Any]:
    """Return the settings of a transport by its name, such as ``"roce"``, for `play` or the engine's ``config``.

    Parameters
    ----------
    name : str
        One of ``registry.names("transport")``.
    **changes
        What the transport itself can be told (``help(registry.get("transport", name))``), and fields of `Settings`,
        which replace those of the transport.

    Raises
    ------
    ValueError
        If there is no such transport, or a setting is unknown or out of range.

    Examples
    --------
    >>> transport("roce", buffer="16 MB")["recovery"]
    'go_back_n'
    """
    preset = registry.get("transport", name)
    own = set(inspect.signature(preset).parameters)
    settings: dict[str, Any] = preset(**{key: changes[key] for key in changes if key in own})
    settings |= {key: value for key, value in changes.items() if key not in own}
    Settings.of(settings)  # refuses what is unknown or out of range
    return settings


def _run_compiled(layout: setup.Layout, kernels: Sequence[Any]) -> tuple[int, setup.Layout]:
    """Run compiled kernels on arrays; return why they stopped, and the state they left."""
    run, *functions = kernels
    while True:
        why = int(run(layout.state, *functions, _CHUNK))
        if why == state.ROOM:
            layout = layout._replace(state=_grown(layout.state))
        elif why != state.PAUSED:
            return why, layout


def _run_plain(layout: setup.Layout) -> tuple[int, setup.Layout]:
    """Run the same functions as plain Python on lists of objects; return why they stopped, and the state they left."""
    run = loop_of(layout.settings.marking)
    while True:
        lists = _as_lists(layout.state)
        why = state.PAUSED
        while why == state.PAUSED:
            why = run(lists, *layout.functions, _PLAIN_CHUNK)
        _take_back(layout.state, lists)
        if why != state.ROOM:
            return why, layout
        layout = layout._replace(state=_grown(layout.state))


class _Needed(dict[int, Any]):
    """Rows of a table, each of which becomes an object when it is needed, since most never are."""

    def __init__(self, kind: Any, array: Any) -> None:
        super().__init__()
        self.kind = kind
        self.array = array

    def __missing__(self, number: int) -> Any:
        row = self[number] = self.kind(*self.array[number].tolist())
        return row


def _as_lists(arrays: signatures.State) -> signatures.State:
    """Return the state with objects by their number for each table, and a list of numbers for each array."""
    lists: dict[str, Any] = {}
    for name, array in arrays._asdict().items():
        kind = signatures.TABLES.get(name)
        if kind is None:
            lists[name] = array.tolist()
        elif name in _MOSTLY_IDLE:
            lists[name] = _Needed(kind, array)
        else:
            lists[name] = [kind(*row) for row in array.tolist()]
    return signatures.State(**lists)


def _take_back(arrays: signatures.State, lists: signatures.State) -> None:
    """Write lists back into the arrays."""
    for name, array in arrays._asdict().items():
        values = getattr(lists, name)
        kind = signatures.TABLES.get(name)
        if kind is None:
            array[:] = values
        elif name in _MOSTLY_IDLE:
            for number, row in values.items():
                array[number] = tuple(getattr(row, column) for column in array.dtype.names)
        else:
            columns = array.dtype.names
            array[:] = [tuple(getattr(row, column) for column in columns) for row in values]


def _grown(before: signatures.State) -> signatures.State:
    """Return the state with twice as many slots, and room for their events."""
    n = before.slots.size
    before.whole[state.FREE_SLOTS] += n
    room = int(before.whole[state.EVENT_ROOM]) + 3 * n
    events = setup.pending(before.events, before.whole)
    hops = int(before.whole[state.TELEMETRY])
    return before._replace(
        slots=state.joined(before.slots, state.table(state.Slot, n)),
        reports=state.joined(before.reports, state.table(state.Report, n * hops)),
        events=setup.calendar(before.whole, room, events),
    )


def _check_end(fabric: Fabric, layout: setup.Layout, trace: Trace) -> None:
    """Raise the error that says why a run stopped before all flows had ended."""
    unfinished = np.flatnonzero(~np.isfinite(trace.finish))
    if not unfinished.size:
        return
    settings = layout.settings
    circle = _circle(layout)
    if circle:
        names = [fabric.name(int(fabric.source[link])) for link in circle]
        raise Deadlock(
            f"buffers wait for each other in a circle: {' -> '.join([*names, names[0]])}, so "
            f"{unfinished.size} of {trace.finish.size} flows never end; route without circles "
            "(fabriclab.routing.deadlock finds them), or give a watchdog, such as watchdog='1 ms'"
        )
    if trace.failed.any():
        c = int(np.flatnonzero(trace.failed)[0])
        acked = int(layout.state.conns[c]["acked"])
        raise Unreachable(
            f"flow {trace.flow[c]} gave up: {settings.retries + 1} times no acknowledgement came for "
            f"{settings.timeout:g} s (timeout), after {acked} of {trace.packets[c]} packets; a real "
            "queue pair is in the error state now. Raise timeout or retries, or mend what loses its packets"
        )
    no_timer = "" if float(settings.timeout) > 0 else "a packet was lost and timeout is 0 s, "
    raise Unreachable(
        f"flow {unfinished[0]} can never end: nothing happens any more at {trace.end:g} s; {no_timer}a link on its "
        "path has no capacity, or a queue is paused for ever (storms without an end?)"
    )


def _circle(layout: setup.Layout) -> list[int]:
    """Return links whose queues wait for each other in a circle, or an empty list.

    A queue that is paused, or has no credit, waits until packets that came from it leave the next switch: it waits for
    each queue that holds one of them.
    """
    import networkx as nx

    queues = layout.state.queues
    slots = layout.state.slots
    least = layout.settings.frame
    no_credit = (queues["mode"] == state.CREDITS) & (queues["credit"] < least)
    is_stuck = ((queues["paused"] == 1) | no_credit) & (queues["bytes"] > 0)
    graph = nx.DiGraph()
    for queue in np.flatnonzero(is_stuck).tolist():
        for slot in _waiting(layout, queue):
            before = int(slots[slot]["ingress"])
            if before >= 0 and is_stuck[before]:
                graph.add_edge(before, queue)
    n_classes = int(layout.state.whole[state.CLASSES])
    try:
        return [edge[0] // n_classes for edge in nx.find_cycle(graph)]
    except nx.NetworkXNoCycle:
        return []


def _waiting(layout: setup.Layout, queue: int) -> list[int]:
    """Return the slots of the packets that wait in a queue."""
    entries = layout.state.entries
    firsts = [int(layout.state.queues[queue]["first"])]
    if layout.settings.fair:
        firsts = []
        entry = int(layout.state.queues[queue]["fair_first"])
        while entry >= 0:
            firsts.append(int(entries[entry]["fair_first"]))
            entry = int(entries[entry]["fair_next"])
    found = []
    for first in firsts:
        slot = first
        while slot >= 0:
            found.append(slot)
            slot = int(layout.state.slots[slot]["next"])
    return found


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
