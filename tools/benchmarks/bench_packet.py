"""The packet engine: packet-hops a second, an incast, memory, and the same packets in simpy and ns.py.

A packet-hop is a packet sent on one link; laying out the run counts, loading compiled kernels does not. Times are those
of the processor, for both sides run in one thread of this process. Peers move packets only, while our side acknowledges
each of them. Both must deliver the last packet at the same time to 1e-3.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

import packet_peers as peers
from fabriclab import compiled, topologies
from fabriclab.core import FabricBuilder, Flows
from fabriclab.engines import packet
from fabriclab.routing import route
from pairs import interleaved

RUNS = 5
FULL = 4096  # payload of a full packet [B]
HOPS = 2_000_000  # of a run on a leaf-spine network; each packet makes four
RADIX = {16: 8, 64: 16, 256: 32, 1024: 64}  # switches that connect so many hosts in two tiers
SPREAD = 20e-6  # in which flows begin that do not keep in step afterwards [s]
ECN = {"control": "dcqcn", "lossless": "none"}
PFC = {"control": "hpcc", "lossless": "pause", "classes": {"first": 0, "second": 1}}
PEER_PACKETS = 5000  # of each sender, beside a peer
TIMES_FASTER = 40


def crossing(n_hosts: int, config: dict[str, Any], n_hops: int = HOPS) -> Callable[[], Any]:
    """Return what plays pairs of hosts that send to one each, over a spine; half of the pairs in each class.

    The two flows of a pair meet at their leaf and on no other link: a queue for every two hosts, whatever their number.
    """
    fabric = topologies.build("leaf_spine", hosts=n_hosts, radix=RADIX[n_hosts], rate="100 Gb/s")
    pair = np.arange(n_hosts) // 2
    target = 2 * ((pair + n_hosts // 4) % (n_hosts // 2))
    size = np.full(n_hosts, float(n_hops // 4 // n_hosts * FULL))
    flows = Flows.make(
        fabric.endpoint,
        fabric.endpoint[target],
        size,
        labels=("first", "second"),
        label=pair % 2,
    )
    routes = route(fabric, flows, "d_mod_k")
    return lambda: packet.play(fabric, routes, flows, config=config)


def incast() -> Callable[[], Any]:
    """Return what plays 10 ms in which 32 hosts send to one."""
    fabric = topologies.build("leaf_spine", hosts=33, radix=64, rate="100 Gb/s")
    end = 10e-3  # [s]
    size = 1.2 * end * fabric.capacity[0] / 32  # more than passes in this time
    flows = Flows.make(fabric.endpoint[1:], fabric.endpoint[:1], np.full(32, size))
    routes = route(fabric, flows, "ecmp")
    config = {"control": "dcqcn", "lossless": "pause", "until": end}
    return lambda: packet.play(fabric, routes, flows, config=config)


def beside_peers() -> Callable[[], Any]:
    """Return what plays the packets of the peers."""
    n = peers.SENDERS + peers.RECEIVERS
    builder = FabricBuilder(("host", "switch"), ("cable",))
    switch = builder.add_nodes("switch", 1, tier=1, transit=True)
    hosts = builder.add_nodes("host", n, tier=0, transit=False)
    builder.add_cables(hosts, np.repeat(switch, n), capacity=peers.RATE, delay=peers.DELAY, ports=1)
    fabric = builder.build(
        "one_switch", {}, endpoint=hosts, rail=np.zeros(n, int), server=np.arange(n)
    )
    source = np.arange(peers.SENDERS)
    target = peers.SENDERS + source % peers.RECEIVERS
    size = np.full(peers.SENDERS, float(PEER_PACKETS * FULL))
    flows = Flows.make(fabric.endpoint[source], fabric.endpoint[target], size)
    routes = route(fabric, flows, "ecmp")
    config = {
        "control_options": {"window": 1e12},
        "lossless": "none",
        "buffer": 1e9,
        "timeout": 1.0,
    }
    return lambda: packet.play(fabric, routes, flows, config=config)


def seconds_of(play: Callable[[], Any]) -> tuple[float, Any]:
    """Return the median time of some runs [s], and what one of them left."""
    times = []
    for _ in range(RUNS):
        begin = process_time()
        trace = play()
        times.append(process_time() - begin)
    return statistics.median(times), trace


def timed(function: Callable[[], Any]) -> float:
    """Return the time of one call [s]."""
    begin = process_time()
    function()
    return process_time() - begin


def line(what: str, value: float, bound: float, unit: str, reached: bool) -> str:
    """Return one printable line with a verdict."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    verdict = "reached" if reached else "missed"
    if load > cores / 2:
        verdict = f"not conclusive (load {load:.1f} on {cores} cores)"
    return f"{what}: {value:.4g} {unit} ({RUNS} runs), wanted {bound:g}: {verdict}"


def check_same(name: str, peer: Callable[[int], tuple[float, int]], trace: Any) -> None:
    """Break the benchmark if a peer has simulated something else."""
    end, came = peer(PEER_PACKETS)
    ours = float(trace.finish.max())
    if came != trace.packets.sum() or abs(end / ours - 1) > 1e-3:
        raise SystemExit(
            f"{name} delivers {came} packets by {end:g} s, ours {trace.packets.sum()} by {ours:g} s"
        )


def rates() -> None:
    """Print packet-hops a second, and how their cost grows with the network."""
    cases = (("ECN and DCQCN", ECN, 4e6), ("PFC, two priorities, INT and HPCC", PFC, 2e6))
    for what, config, wanted in cases:
        spent, trace = seconds_of(crossing(256, config))
        speed = trace.hops / spent
        told = f"256 hosts, {what}"
        print(line(told, speed, wanted, "packet-hops/s", speed >= wanted), flush=True)
        for begin, jitter in (("at once", 0.0), (f"within {1e6 * SPREAD:g} us", SPREAD)):
            cost = {}
            for n_hosts in RADIX:
                spent, trace = seconds_of(crossing(n_hosts, config | {"jitter": jitter}))
                cost[n_hosts] = spent / trace.hops
            listed = ", ".join(f"{n:,} hosts {1e9 * each:.0f} ns" for n, each in cost.items())
            growth = max(cost.values()) / min(cost.values())
            told = (
                f"a packet-hop costs ({what}; flows begin {begin}) {listed}; largest over smallest"
            )
            print(line(told, growth, 1.3, "", growth <= 1.3), flush=True)


def memory() -> float:
    """Return the memory of a process that plays 1,024 hosts [GiB]."""
    for config in (ECN, PFC):
        crossing(1024, config)()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    trace = crossing(16, ECN, 64)()
    if not trace.compiled:
        print(f"skipped: {compiled.note()}")
        return
    rates()
    spent, trace = seconds_of(incast())
    what = f"32 to 1 for 10 ms, {trace.hops:,} packet-hops"
    print(line(what, spent, 0.3, "s", spent <= 0.3), flush=True)
    told = subprocess.run(
        [sys.executable, __file__, "memory"], capture_output=True, check=True, text=True
    )
    used = float(json.loads(told.stdout))
    print(line("1,024 hosts, memory of the process", used, 1, "GiB", used <= 1), flush=True)

    play = beside_peers()
    trace = play()
    for module, name, peer in (
        ("simpy", "simpy", peers.with_simpy),
        ("ns", "ns.py", peers.with_ns),
    ):
        if importlib.util.find_spec(module) is None:
            print(f"skipped: {name} is not installed; pip install 'fabriclab[bench]'")
            continue
        check_same(name, peer, trace)
        pairs = interleaved(
            lambda: timed(play),
            lambda peer=peer: timed(lambda: peer(PEER_PACKETS)),
            RUNS,
        )
        print(pairs.line(f"{trace.hops:,} packet-hops beside {name}", TIMES_FASTER), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(memory()))
    else:
        main()
