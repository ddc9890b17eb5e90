"""What scenarios are built from: small fabrics, all paths of a flow, and flows that are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import catalog, routing, topologies, units
from fabriclab.core import (
    Fabric,
    FabricBuilder,
    Flows,
    Ints,
    Routes,
    pointer,
)

__all__ = [
    "all_paths",
    "all_to_all_ranks",
    "fullest_link",
    "joined",
    "link_between",
    "one_switch",
    "pairs",
    "sample_of",
    "two_tiers",
]

# illustrative: most paths of a flow that a balancer chooses among
MOST_PATHS = 64
# source: RoCE v2, as in `fabriclab.engines.packet.Settings`: 4096 B of payload are 4178 B on the wire
ON_WIRE = 4178 / 4096
_SAMPLES = 500  # of each series, if a run takes as long as it should


def one_switch(hosts: int, rate: units.Quantity, length: units.Quantity) -> Fabric:
    """Return hosts around one switch."""
    n = units.count(hosts, "hosts", 2)
    return topologies.build("leaf_spine", hosts=n, radix=max(64, n), rate=rate, host_length=length)


def two_tiers(leaves: int, hosts: int, spines: int, rate: units.Quantity) -> Fabric:
    """Return leaves with as many hosts each, and a cable from each leaf to each spine."""
    radix = max(64, hosts + spines, leaves)
    return topologies.build("xgft", m=(hosts, leaves), w=(1, spines), rate=rate, radix=radix)


def mixed_rates(rates: Sequence[float], length: units.Quantity) -> Fabric:
    """Return one switch with a host at each of the given rates [B/s]; delays are those of `one_switch`."""
    n = len(rates)
    metres = units.length(length)
    delay = metres * catalog.value("media", "fibre", "propagation")
    forwarding = catalog.value("switches", "quantum2", "latency_port_to_port", source="Q2-yobi")

    b = FabricBuilder(("host", "switch"), ("index",))
    host = b.add_nodes("host", n, tier=0, transit=False, index=np.arange(n))
    switch = b.add_nodes(
        "switch", 1, tier=1, transit=True, radix=max(64, n), forwarding=forwarding, index=0
    )
    b.add_cables(
        host, switch, capacity=np.asarray(rates), delay=delay, medium="fibre", length=metres
    )
    return b.build("custom", {}, endpoint=host, rail=np.zeros(n), server=np.arange(n))


def link_between(fabric: Fabric, a: int, b: int) -> int:
    """Return the first link from node ``a`` to node ``b``."""
    found = np.flatnonzero((fabric.source == a) & (fabric.target == b))
    if not found.size:
        raise ValueError(f"no link leads from {fabric.name(a)} to {fabric.name(b)}")
    return int(found[0])


def port_to(fabric: Fabric, host: int) -> int:
    """Return the link that leads to a host, the first if there are several."""
    return int(np.flatnonzero(fabric.target == host)[0])


def pairs(
    fabric: Fabric, source: Ints, target: Ints
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the nodes of ranks."""
    return fabric.endpoint[source], fabric.endpoint[target]


def all_paths(fabric: Fabric, flows: Flows, most: int = MOST_PATHS) -> Routes:
    """Return each shortest path of each flow once, at most ``most``; a balancer chooses among them."""
    every = routing.route(fabric, flows, "paths", subflows=most)
    table = np.column_stack([every.flow, every.padded()])
    _, first = np.unique(table, axis=0, return_index=True)
    kept = np.sort(first)
    count = np.bincount(every.flow[kept], minlength=flows.n_flows)
    return every.of_rows(kept, share=1.0 / count[every.flow[kept]])


def joined(*parts: Flows) -> Flows:
    """Return several graphs of flows as one; flows of a part wait for flows of their part only."""
    first = 0
    after: list[list[int]] = []
    for flows in parts:
        for f in range(flows.n_flows):
            row = flows.after[flows.after_ptr[f] : flows.after_ptr[f + 1]]
            after.append((row + first).tolist())
        first += flows.n_flows
    labels = tuple(dict.fromkeys(name for flows in parts for name in flows.labels))
    label = [labels.index(flows.labels[i]) for flows in parts for i in flows.label.tolist()]
    columns: dict[str, Any] = {}
    for name in ("source", "target", "size", "start", "lag", "weight", "limit"):
        columns[name] = np.concatenate([getattr(flows, name) for flows in parts])
    return Flows.make(**columns, after=after, label=label, labels=labels)


def labelled(flows: Flows, name: str) -> Flows:
    """Return flows that all have one label."""
    return replace(flows, label=np.zeros(flows.n_flows, dtype=np.int32), labels=(name,))


def sample_of(size: float, rate: units.Quantity, after: float = 0.0) -> float:
    """Return a distance of samples for a run in which ``size`` bytes pass a port, ``after`` some seconds. [s]."""
    passing = size * ON_WIRE / units.rate(rate)
    return max((after + passing) / _SAMPLES, 1e-7)


def all_to_all_ranks(n: int) -> tuple[Ints, Ints]:
    """Return sender and receiver of each pair of ranks that are not the same, sorted by sender."""
    sender, receiver = np.nonzero(~np.eye(n, dtype=bool))
    return sender, receiver


def fullest_link(fabric: Fabric, routes: Routes, counts: NDArray[np.bool_]) -> int:
    """Return the link that most paths cross, among those of the links of ``routes`` that count."""
    crossed = np.bincount(routes.link[counts], minlength=fabric.n_links)
    return int(np.argmax(crossed))


def hashed(fabric: Fabric, flows: Flows, seed: int = 0) -> Routes:
    """Return one path of each flow, chosen by a hash."""
    return routing.route(fabric, flows, "ecmp", seed=seed, entropy=np.arange(flows.n_flows))


def custom_paths(flows: Flows, paths: Sequence[Sequence[int]]) -> Routes:
    """Return routes from one list of links per flow."""
    lengths = np.array([len(path) for path in paths])
    n = len(paths)
    return Routes(
        ptr=pointer(lengths),
        link=np.concatenate([np.asarray(path) for path in paths]),
        use=np.ones(int(lengths.sum())),
        flow=np.arange(n, dtype=np.int32),
        share=np.ones(n),
        delay=np.zeros(n),
        kind=np.zeros(n, dtype=np.int8),
        adaptive=np.zeros(n, dtype=bool),
    )
