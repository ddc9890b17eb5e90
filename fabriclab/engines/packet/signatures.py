"""Types of the engine's functions, as numba must know them to compile each of them once."""

from typing import Any, NamedTuple

from fabriclab.engines.packet import state


class State(NamedTuple):
    """All of the engine's state: tables of `fabriclab.engines.packet.state`, and arrays of numbers."""

    links: Any
    queues: Any
    nodes: Any
    rows: Any
    entries: Any
    flows: Any
    users: Any  # flows that wait for others
    conns: Any
    packets: Any
    slots: Any
    reports: Any  # (slots x hops)
    known: Any  # (connections x hops)
    events: Any
    changes: Any
    watched_queues: Any
    watched_conns: Any
    queue_samples: Any
    conn_samples: Any
    log: Any
    whole: Any
    real: Any
    control: Any  # parameters of the control loop
    own: Any  # what it keeps of each connection, (C x WIDTH)
    balance: Any  # parameters of the balancer


TABLES = {
    "links": state.Link,
    "queues": state.Queue,
    "nodes": state.Node,
    "rows": state.Row,
    "entries": state.Entry,
    "flows": state.Flow,
    "conns": state.Connection,
    "packets": state.Packet,
    "slots": state.Slot,
    "reports": state.Report,
    "known": state.Heard,
    "events": state.Event,
    "changes": state.Change,
    "queue_samples": state.QueueSample,
    "conn_samples": state.ConnectionSample,
    "log": state.Line,
}
REAL = ("real", "control", "own")  # arrays of floats; all others hold whole numbers


class Functions(NamedTuple):
    """Functions of the control loop and of the load balancer."""

    on_start: Any
    on_send: Any
    on_feedback: Any
    choose: Any


def on_start(numba: Any) -> Any:
    """Return the type of ``on_start(parameters, own, i, now)``."""
    t = numba.types
    return t.void(t.float64[::1], t.float64[::1], t.int64, t.int64)


def on_send(numba: Any) -> Any:
    """Return the type of ``on_send(parameters, own, i, now, size)``."""
    t = numba.types
    return t.void(t.float64[::1], t.float64[::1], t.int64, t.int64, t.int64)


def on_feedback(numba: Any) -> Any:
    """Return the type of ``on_feedback(parameters, own, i, now, trip, acked, marked, lost, load)``."""
    t = numba.types
    numbers = [t.int64] * 6
    return t.void(t.float64[::1], t.float64[::1], *numbers, t.float64)


def choose(numba: Any) -> Any:
    """Return the type of ``choose``; see `fabriclab.engines.packet.balance.Balance`."""
    t = numba.types
    tables = [_array(numba, name) for name in ("rows", "entries", "links", "queues")]
    return t.int64(*[t.int64] * 6, *tables, t.int64[::1], t.int64[::1])


def loop(numba: Any) -> Any:
    """Return the type of the loop of events."""
    t = numba.types
    everything = t.NamedTuple([_array(numba, name) for name in State._fields], State)
    functions = [
        t.FunctionType(signature(numba)) for signature in (on_start, on_send, on_feedback, choose)
    ]
    return t.int64(everything, *functions, t.int64)


def _array(numba: Any, name: str) -> Any:
    """Return the type of one part of the state."""
    if name in TABLES:
        return numba.from_dtype(state.dtype_of(TABLES[name]))[::1]
    if name in REAL:
        return numba.types.float64[::1]
    return numba.types.int64[::1]
