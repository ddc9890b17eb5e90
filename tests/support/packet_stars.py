"""Small networks and traffic on which the packet engine is compared with laws and with other programs."""

import numpy as np
import pytest

from fabriclab import compiled, routing
from fabriclab.core import FabricBuilder, Flows

GBIT = 1e9 / 8  # bytes per second in a gigabit per second

needs_compiled = pytest.mark.skipif(
    not compiled.installed(),
    reason="numba is not installed, and as plain Python this run takes minutes",
)


def star(hosts, rate=100 * GBIT, delay=1e-6, rates=None):
    """Return hosts around one switch; ``rates`` are those of single hosts' ports [B/s]."""
    b = FabricBuilder(("host", "switch"), ("index",))
    host = b.add_nodes("host", hosts, tier=0, transit=False, index=np.arange(hosts))
    switch = b.add_nodes("switch", 1, tier=1, transit=True, index=np.zeros(1))
    capacity = np.full(hosts, float(rate)) if rates is None else np.asarray(rates, dtype=float)
    b.add_cables(host, np.repeat(switch, hosts), capacity=capacity, delay=delay, medium="fibre")
    return b.build("star", {}, endpoint=host, rail=np.zeros(hosts), server=np.arange(hosts))


def two_tier(leaves, per_leaf, spines, rate=100 * GBIT, delay=1e-6, up_rate=None):
    """Return hosts on leaf switches, each of which has a cable to every spine."""
    b = FabricBuilder(("host", "leaf", "spine"), ("index",))
    hosts = leaves * per_leaf
    host = b.add_nodes("host", hosts, tier=0, transit=False, index=np.arange(hosts))
    leaf = b.add_nodes("leaf", leaves, tier=1, transit=True, index=np.arange(leaves))
    spine = b.add_nodes("spine", spines, tier=2, transit=True, index=np.arange(spines))
    b.add_cables(host, np.repeat(leaf, per_leaf), capacity=float(rate), delay=delay, medium="fibre")
    up = float(rate if up_rate is None else up_rate)
    ends = (np.repeat(leaf, spines), np.tile(spine, leaves))
    b.add_cables(*ends, capacity=up, delay=delay, medium="fibre")
    return b.build("two_tier", {}, endpoint=host, rail=np.zeros(hosts), server=np.arange(hosts))


def many_to_one(fabric, senders, size, start=0.0):
    """Return flows from the first hosts to the last one, and their routes."""
    flows = Flows.make(np.arange(senders), fabric.endpoint[-1], size, start=start)
    return routing.route(fabric, flows), flows


def last_link(fabric):
    """Return the link into the last host."""
    return int(np.flatnonzero(fabric.target == fabric.endpoint[-1])[0])


def goodput(trace, first, last, payload):
    """Return the payload that each watched connection receives between two shares of the time. [B/s]."""
    k = len(trace.received)
    a, b = int(first * k), int(last * k) - 1
    seconds = (b - a) * trace.sample
    return (trace.received[b] - trace.received[a]) * payload / seconds


@pytest.fixture(scope="module")
def kernels():
    """Compile the kernels, if that can be done and has not been done, so that long runs are quick."""
    if compiled.installed() and not compiled.ready():
        compiled.compile_all()
