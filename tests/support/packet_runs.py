"""Small fabrics and scenarios for tests of the packet engine."""

from typing import NamedTuple

import numpy as np

from fabriclab.core import PATH, FabricBuilder, Flows, Routes
from fabriclab.engines.packet import Trace, play

FRAME = 9216  # with headers [B]
HEADER = 62
GAP = 20
RATE = 50e9  # 400 Gb/s [B/s]
LENGTH = 100.0  # [m]
DELAY = LENGTH * 5e-9  # [s]
RESPONSE = 60 * 64 / RATE  # 60 quanta of 512 bits [s]
PICO = 1e12


def network(cables, n_hosts, n_switches, *, rate=RATE, delay=DELAY):
    """Return a fabric of hosts 0..n_hosts - 1 and switches after them; cable c is the links 2c and 2c + 1.

    ``rate`` and ``delay`` are numbers or one for each cable.
    """
    builder = FabricBuilder(("host", "switch"), ("index",))
    hosts = builder.add_nodes(
        "host", n_hosts, tier=0, transit=False, index=np.arange(n_hosts), radix=8
    )
    builder.add_nodes(
        "switch", n_switches, tier=1, transit=True, index=np.arange(n_switches), radix=64
    )
    one, other = np.array(cables).T
    n = len(cables)
    builder.add_cables(
        one,
        other,
        capacity=np.broadcast_to(rate, n).astype(float),
        delay=np.broadcast_to(delay, n).astype(float),
        medium="fibre",
    )
    return builder.build(
        "test", {}, endpoint=hosts, rail=np.zeros(n_hosts), server=np.arange(n_hosts)
    )


def star(n_hosts, *, rate=RATE, delay=DELAY):
    """Return hosts around one switch: link 2h leads from host h to the switch, link 2h + 1 back."""
    cables = [(host, n_hosts) for host in range(n_hosts)]
    return network(cables, n_hosts, 1, rate=rate, delay=delay)


def along(*paths, share=None):
    """Return routes with one row for each list of links; row f belongs to flow f unless ``paths`` are pairs."""
    rows = [path if isinstance(path, tuple) else (f, path) for f, path in enumerate(paths)]
    links = [link for _, path in rows for link in path]
    n = len(rows)
    counts = np.bincount([flow for flow, _ in rows])
    return Routes(
        ptr=np.cumsum([0, *(len(path) for _, path in rows)]),
        link=np.array(links),
        use=np.ones(len(links)),
        flow=np.array([flow for flow, _ in rows]),
        share=np.array([1.0 / counts[flow] for flow, _ in rows]),
        delay=np.zeros(n),
        kind=np.full(n, PATH),
        adaptive=np.zeros(n, dtype=bool),
    )


def between(fabric, routes, size, **columns):
    """Return one flow for each flow of the routes, from the source of its first link to the target of its last."""
    n = int(routes.flow.max()) + 1
    row = [int(np.flatnonzero(routes.flow == f)[0]) for f in range(n)]
    source = [fabric.source[routes.row(r)[0]] for r in row]
    target = [fabric.target[routes.row(r)[-1]] for r in row]
    return Flows.make(source, target, size, **columns)


def run(
    fabric, paths, size, *, plain=True, changes=None, rng=None, columns=None, **config
) -> Trace:
    """Play flows along paths, in plain Python unless told otherwise."""
    routes = along(*paths)
    flows = between(fabric, routes, size, **(columns or {}))
    return play(fabric, routes, flows, changes, config, rng, plain=plain)


class Alignment(NamedTuple):
    """What came of one alignment of data and pause."""

    lost: int
    stored: int  # bytes of the switch, of the paused link, at most


def align(offset, memory, *, rate=RATE, delay=DELAY, frame=FRAME, response=RESPONSE, plain=True):
    """Fill a switch whose output stands still; the pause waits for a frame that began when it was due.

    Host 0 sends frames back to back to host 1, whose port is paused by a storm. The threshold lies ``offset`` bytes
    before the end of a frame, and host 2 sends a frame to host 0 that begins just before the byte at the threshold
    comes.

    Parameters
    ----------
    offset : int
        Bytes of the frame that reaches the threshold which lie beyond it. 0..frame - 1
    memory : float
        Headroom. [B]
    """
    fabric = star(3, rate=rate, delay=[delay, 0.0, 0.0])
    payload = frame - HEADER
    before = 3  # frames that come before the one that reaches the threshold
    xoff = (before + 1) * frame - offset
    per_frame = (frame + GAP) / rate
    due = (before + 1) * per_frame + delay - (offset + GAP) / rate
    # The frame from host 2 takes its own time to the switch, and begins when the pause is due.
    start = due - per_frame
    paths = [[0, 3], [4, 1]]
    columns = {"start": [0.0, max(0.0, start)]}
    many = 6 + int(np.ceil(memory / frame)) + before
    trace = run(
        fabric,
        paths,
        [many * payload, payload],
        columns=columns,
        plain=plain,
        payload=payload,
        header=HEADER,
        gap=GAP,
        xoff=xoff,
        reserve=0,
        headroom=memory,
        response=response,
        storms=((3, 0.0, 1e-3),),
        control_options={"window": "100 MB"},
        timeout="10 ms",
        sample="200 us",
        watch_links=(3,),
    )
    return Alignment(int(trace.drops.sum()), int(trace.queue[1, 0]) - xoff)


def worst_offset(*, rate=RATE, delay=DELAY, frame=FRAME, response=RESPONSE):
    """Return the offset of `align` that fills the headroom most, and the bytes that it fills.

    Whole frames follow the one that reaches the threshold, as long as they begin before the sender stops. The later the
    threshold is reached in a frame, the fewer follow; so the worst case is the last byte that leaves one more.
    """
    window = rate * (2 * delay + response) + (frame + GAP) + (64 + GAP)
    most = (0, 0)
    for offset in range(frame):
        following = int(np.ceil((window - offset - GAP) / (frame + GAP) - 1e-9))
        most = max(most, (offset + following * frame, offset))
    return most[1], most[0]
