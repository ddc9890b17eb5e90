"""Small networks and traffic on which the packet engine is compared with laws and with other programs."""

import numpy as np
import pytest

from fabriclab import compiled, routing
from fabriclab.core import Flows
from support import packet_runs

GBIT = 1e9 / 8  # bytes per second in a gigabit per second

needs_compiled = pytest.mark.skipif(
    not compiled.installed(),
    reason="numba is not installed, and as plain Python this run takes minutes",
)


def star(hosts, rate=100 * GBIT, delay=1e-6):
    """Return hosts around one switch; ``rate`` is a number, or one for each host. [B/s]."""
    return packet_runs.star(hosts, rate=rate, delay=delay)


def two_tier(leaves, per_leaf, spines, rate=100 * GBIT, up_rate=100 * GBIT, delay=1e-6):
    """Return hosts on leaf switches, each of which has a cable to every spine."""
    down = [rate] * (leaves * per_leaf)
    up = [up_rate] * (leaves * spines)
    return packet_runs.leaf_spine(leaves, per_leaf, spines, rate=down + up, delay=delay)


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
