"""Small fabrics and scenarios for tests of the packet engine."""

from typing import Any, NamedTuple

import numpy as np

from fabriclab import compiled, registry
from fabriclab.core import PATH, Fabric, FabricBuilder, Flows, Routes
from fabriclab.engines.packet import Settings, Trace, play, setup, state
from fabriclab.engines.packet import _as_lists as as_lists
from fabriclab.engines.packet import _run_plain as run_plain
from fabriclab.engines.packet.loop import loop
from fabriclab.engines.packet.lossless import headroom_needed

FRAME = 9216  # with headers [B]
HEADER = 62
GAP = 20
RATE = 50e9  # 400 Gb/s [B/s]
LENGTH = 100.0  # [m]
DELAY = LENGTH * 5e-9  # [s]
RESPONSE = 60 * 64 / RATE  # 60 quanta of 512 bits [s]
PLAIN = not compiled.ready()  # both forms give the same bits, which is a law of its own


def network(cables, n_hosts, n_switches, *, rate=RATE, delay=DELAY):
    """Return a fabric of hosts 0..n_hosts - 1 and switches after them; cable c is the links 2c and 2c + 1.

    ``rate`` and ``delay`` are numbers or one for each cable.
    """
    builder = FabricBuilder(("host", "switch"), ("index",))
    hosts = builder.add_nodes("host", n_hosts, tier=0, transit=False, index=np.arange(n_hosts))
    builder.add_nodes("switch", n_switches, tier=1, transit=True, index=np.arange(n_switches))
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
    fabric, paths, size, *, plain=PLAIN, changes=None, rng=None, columns=None, **config
) -> Trace:
    """Play flows along paths, in plain Python where the kernels are not compiled."""
    routes = along(*paths)
    flows = between(fabric, routes, size, **(columns or {}))
    return play(fabric, routes, flows, changes, config, rng, plain=plain)


class Alignment(NamedTuple):
    """What came of one alignment of data and pause."""

    lost: int
    stored: int  # bytes of the switch, of the paused link, at most


def align(offset, memory, *, rate=RATE, delay=DELAY, frame=FRAME, response=RESPONSE, waits=True):
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
    waits : bool
        Whether there is a frame for which the pause must wait.
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
    if not waits:
        paths = paths[:1]
        columns = {}
    many = 6 + int(np.ceil(memory / frame)) + before
    trace = run(
        fabric,
        paths,
        [many * payload, payload] if waits else many * payload,
        columns=columns,
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


def worst_offset(*, rate=RATE, delay=DELAY, frame=FRAME, response=RESPONSE, waits=True):
    """Return the offset of `align` that fills the headroom most, and the bytes that it fills.

    Whole frames follow the one that reaches the threshold, as long as they begin before the sender stops. The later the
    threshold is reached in a frame, the fewer follow; so the worst case is the last byte that leaves one more.
    """
    window = rate * (2 * delay + response) + (64 + GAP)
    if waits:
        window += frame + GAP
    most = (0, 0)
    for offset in range(frame):
        following = int(np.ceil((window - offset - GAP) / (frame + GAP) - 1e-9))
        most = max(most, (offset + following * frame, offset))
    return most[1], most[0]


class Scenario(NamedTuple):
    """A random scenario: what `play` takes."""

    fabric: Fabric
    routes: Routes
    flows: Flows
    config: dict[str, Any]


def pausing_scenario(seed):
    """Return senders on a line of switches that meet in ports which stand still now and then; headroom by formula.

    Rates, lengths, sizes of frames, reaction times, thresholds (fixed and dynamic) and gaps are random, down to the
    least that is allowed; nothing but pauses keeps packets from being lost.
    """
    rng = np.random.default_rng(seed)
    n_hosts = int(rng.integers(3, 7))
    n_switches = int(rng.integers(1, 4))
    home = rng.integers(0, n_switches, n_hosts)
    cables = [(host, n_hosts + int(home[host])) for host in range(n_hosts)]
    cables += [(n_hosts + i, n_hosts + i + 1) for i in range(n_switches - 1)]
    n = len(cables)
    rate = rng.choice([12.5e9, 25e9, 50e9, 100e9], n)
    delay = rng.choice([0.0, 5e-9, 50e-9, 500e-9, 5e-6], n) * rng.uniform(0.5, 1.5, n)
    fabric = network(cables, n_hosts, n_switches, rate=rate, delay=delay)

    target = int(rng.integers(n_hosts))
    paths = []
    for _ in range(int(rng.integers(3, 9))):
        end = target if rng.random() < 0.6 else int(rng.integers(n_hosts))
        begin = int(rng.choice([host for host in range(n_hosts) if host != end]))
        paths.append(line_path(n_hosts, home, begin, end))
    payload = int(rng.choice([256, 1024, 4096, 9154]))
    frame = payload + HEADER
    size = rng.integers(1, 40, len(paths)) * payload - rng.integers(0, payload, len(paths))
    begins = np.cumsum(rng.uniform(5e-6, 20e-6, 3))
    lasts = rng.uniform(0.1e-6, 5e-6, 3)
    storms = [(2 * target + 1, float(t), float(t + d)) for t, d in zip(begins, lasts, strict=True)]
    config = {
        "payload": payload,
        "response": float(rng.choice([0.0, 50e-9, 307e-9, 1.2e-6])),
        "reserve": int(rng.choice([0, 4096])),
        "xon_gap": int(rng.choice([0, 3072])),
        "cut_through": bool(rng.random() < 0.3),
        "fair": bool(rng.random() < 0.3),
        "control_options": {"window": "100 MB"},
        "storms": tuple(storms),
        "timeout": 1.0,
        "buffer": 64e6,
    }
    if rng.random() < 0.6:
        config["xoff"] = int(rng.integers(1, 4 * frame))
    else:
        config["pause_share"] = float(rng.choice([0.01, 0.125, 1.0, 8.0]))
        needed = headroom_needed(
            fabric.capacity,
            fabric.capacity,
            fabric.delay,
            fabric.delay,
            Settings.of(config),
        )
        kept = np.bincount(fabric.target, needed + config["reserve"], fabric.n_nodes)
        config["buffer"] = float(kept.max() + rng.integers(10_000, 300_000))
    routes = along(*paths)
    flows = between(fabric, routes, size, start=rng.uniform(0, 3e-6, len(paths)))
    return Scenario(fabric, routes, flows, config)


def line_path(n_hosts, home, begin, end):
    """Return the links from one host to another on a line of switches, of which ``home`` names each host's."""
    path = [2 * begin]
    here, there = int(home[begin]), int(home[end])
    while here < there:
        path.append(2 * (n_hosts + here))
        here += 1
    while here > there:
        path.append(2 * (n_hosts + here - 1) + 1)
        here -= 1
    return [*path, 2 * end + 1]


def leaf_spine(n_leaves=2, per_leaf=2, n_spines=2, *, rate=RATE, delay=50e-9):
    """Return hosts on leaves that are joined by spines: host h is on cable h, leaf l and spine s on the others."""
    n_hosts = n_leaves * per_leaf
    cables = [(host, n_hosts + host // per_leaf) for host in range(n_hosts)]
    for leaf in range(n_leaves):
        cables += [(n_hosts + leaf, n_hosts + n_leaves + spine) for spine in range(n_spines)]
    return network(cables, n_hosts, n_leaves + n_spines, rate=rate, delay=delay)


def leaf_spine_paths(begin, end, *, n_leaves=2, per_leaf=2, n_spines=2):
    """Return all shortest paths between two hosts of `leaf_spine`."""
    n_hosts = n_leaves * per_leaf
    here, there = begin // per_leaf, end // per_leaf
    if here == there:
        return [[2 * begin, 2 * end + 1]]
    paths = []
    for spine in range(n_spines):
        up = n_hosts + here * n_spines + spine
        down = n_hosts + there * n_spines + spine
        paths.append([2 * begin, 2 * up, 2 * down + 1, 2 * end + 1])
    return paths


def random_scenario(seed, **fixed):
    """Return a random scenario on `leaf_spine`: any control loop, balancer and regime; ``fixed`` settings hold."""
    rng = np.random.default_rng(seed)
    fabric = leaf_spine(rate=rng.choice([12.5e9, 50e9], 8), delay=rng.uniform(1e-9, 1e-6, 8))
    config = {
        "control": str(rng.choice(registry.names("control"))),
        "balance": str(rng.choice(registry.names("balance"))),
        "recovery": str(rng.choice(["go_back_n", "selective"])),
        "lossless": str(rng.choice(["pause", "credits", "none"])),
        "payload": int(rng.choice([256, 1500, 4096])),
        "cut_through": bool(rng.random() < 0.5),
        "fair": bool(rng.random() < 0.3),
        "buffer": float(rng.choice([2e6, 32e6])),
        "loss": float(rng.choice([0.0, 0.0, 0.01])),
        "jitter": float(rng.choice([0.0, 1e-6])),
        "timeout": "200 us",
        "retries": 30,
        "marking": (5e3, 20e3, 0.5) if rng.random() < 0.5 else None,
        "grants": bool(rng.random() < 0.2),
        "ack_every": int(rng.choice([1, 4])),
    }
    if rng.random() < 0.3:
        config["receivers"] = {int(rng.integers(4)): 5e9}
    config |= fixed
    if config["recovery"] == "selective":
        config["reorder"] = [None, 2e-6][int(rng.integers(2))]
        config["trim"] = config["lossless"] == "none" and rng.random() < 0.5
    paths = []
    n = int(rng.integers(1, 5))
    for flow in range(n):
        begin, end = (int(host) for host in rng.choice(4, 2, replace=False))
        paths += [(flow, path) for path in leaf_spine_paths(begin, end)]
    size = rng.integers(1, 12, n) * config["payload"] - rng.integers(0, config["payload"] - 1, n)
    config.setdefault("classes", {"other": int(rng.integers(2))})
    routes = along(*paths)
    flows = between(
        fabric,
        routes,
        size,
        start=rng.uniform(0, 2e-6, n),
        label=np.arange(n) % 2,
        labels=("flow", "other"),
    )
    return Scenario(fabric, routes, flows, config)


def walk(scenario, look, seed=1, every=1):
    """Run a scenario in plain Python, call ``look(state, settings)`` after every few events, and return the state."""
    settings = Settings.of(scenario.config)
    rng = np.random.default_rng(seed)
    layout = setup.lay_out(scenario.fabric, scenario.routes, scenario.flows, None, settings, rng)
    lists = as_lists(layout.state)
    why = state.PAUSED
    while why == state.PAUSED:
        why = loop(lists, *layout.functions, every)
        look(lists, settings)
    assert why == state.IDLE
    return lists


def under_way(scenario, seed=1):
    """Run a scenario, and return how many packets are on links and in queues when the last flow has ended."""
    settings = Settings.of(scenario.config)
    rng = np.random.default_rng(seed)
    layout = setup.lay_out(scenario.fabric, scenario.routes, scenario.flows, None, settings, rng)
    why, layout = run_plain(layout)
    assert why == state.IDLE
    end = layout.state
    firsts = [*end.links["first"], *end.queues["first"], *end.entries["fair_first"]]
    return sum(chain_length(end.slots["next"], int(first)) for first in firsts)


def chain_length(following, first):
    """Return how many slots follow one another from a first one on."""
    n = 0
    while first >= 0:
        n += 1
        first = int(following[first])
    return n
