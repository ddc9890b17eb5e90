"""The times of `fabriclab.designs` against the flow engine, which shares every link and runs to the end."""

from dataclasses import replace

import numpy as np
import pytest

from fabriclab import designs, engines, routing
from fabriclab.core import Flows
from fabriclab.designs.network import FAR
from fabriclab.designs.scattered import exchange
from fabriclab.designs.traffic import Carried, carried, messages, times

SMALL = {
    "rails": {
        "family": "rail_optimised",
        "arguments": {"servers": 8, "gpus": 4, "rails": 4, "radix": 8},
    },
    "tapered": {
        "family": "rail_optimised",
        "arguments": {"servers": 12, "gpus": 4, "rails": 4, "radix": 12, "oversubscription": 2},
    },
    "apart": {
        "family": "rail_only",
        "arguments": {"servers": 12, "gpus": 2, "rails": 2, "radix": 8},
    },
    "by server": {"family": "leaf_spine", "arguments": {"hosts": 32, "radix": 8}, "gpus": 4},
    "torus": {
        "family": "torus",
        "arguments": {"shape": [3, 3], "hosts": 4},
        "gpus": 4,
        "plug": "by rail",
    },
    "dragonfly": {"family": "dragonfly", "arguments": {"p": 2, "a": 4, "h": 2}, "gpus": 8},
}


def flows_of(design, sent):
    """Return a flow for each pair of ports, with its bytes as weight, so that all end together on a full link."""
    net = design.network
    classes = net.classes
    fabric = design.fabric
    source, target, size = [], [], []
    for one, other, bytes_ in zip(*(column.tolist() for column in sent), strict=True):
        match = net.matching(*classes.of_server[[one, other]].tolist())
        here = net.port_link[net.first_port[one] + match.source]
        there = net.port_link[net.first_port[other] + match.target]
        source += fabric.source[here].tolist()
        target += fabric.source[there].tolist()
        size += (bytes_ * match.part).tolist()
    size = np.array(size)
    return Flows.make(source, target, size, weight=size / size.max())


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("name", SMALL)
def test_the_fullest_link_sets_the_time_of_the_flow_engine(name, failed):
    design = designs.read(SMALL[name])
    # Cables without delay: a message of a few milliseconds would show it.
    fabric = replace(design.fabric, delay=np.zeros(design.fabric.n_links))
    if failed and name not in ("by server", "dragonfly"):
        node = int(design.switches[1])
        fabric = fabric.without(nodes=[node])
        net = design.network.without(np.array([1]))
    else:
        net = design.network
    for workload in (designs.workloads()[0], designs.workloads()[3]):
        for sent in messages(design, workload).values():
            bound = times(net, carried(net, sent)).seconds
            flows = flows_of(replace(design, network=net), sent)
            routes = routing.route(fabric, flows, "spray")
            run = engines.run(fabric, routes, flows)
            assert run.end == pytest.approx(bound, rel=1e-6)
            load = routes.link_bytes(flows, fabric.n_links)
            busiest = np.max(
                np.divide(load, fabric.capacity, out=np.zeros_like(load), where=load > 0)
            )
            assert busiest == pytest.approx(bound)


def ways_out(design):
    """Return for each pair of GPUs of different servers the NIC by which the bytes leave, counted one by one.

    Its own, if that has a path to the NIC of the other one; else those of the fewest hops, in the same half of the
    server if there are such, in equal parts.
    """
    net, gpus = design.network, design.gpus
    switch = {}
    for server, nic, at in zip(net.port_server, net.port_nic, net.port_switch, strict=True):
        switch.setdefault((int(server), int(nic)), []).append(int(at))

    def hops(one, other):
        return min(int(net.hops[u, v]) for u in switch[one] for v in switch[other])

    for server in range(design.servers):
        for target in range(design.servers):
            for nic in range(gpus):
                for other in range(gpus):
                    if server == target:
                        continue
                    far = {k: hops((server, k), (target, other)) for k in range(gpus)}
                    takes = [nic]
                    if far[nic] >= FAR:
                        near = [k for k in far if far[k] == min(far.values())]
                        takes = [k for k in near if (2 * k >= gpus) == (2 * nic >= gpus)] or near
                    for k in takes:
                        yield (server, nic, k), (target, other), 1 / len(takes)


BOTH_WAYS = SMALL | {
    "two planes": {
        "family": "dual_tor",
        "arguments": {"servers": 12, "gpus": 4, "rails": 4, "radix": 16, "oversubscription": 2},
    },
    "halves": {
        "family": "rail_only",
        "arguments": {"servers": 6, "gpus": 4, "rails": 4, "radix": 8},
    },
}


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_scattered_jobs_take_as_long_as_in_the_flow_engine(name):
    design = designs.read(BOTH_WAYS[name])
    net, gpus = design.network, design.gpus
    fabric = replace(design.fabric, delay=np.zeros(design.fabric.n_links))
    size = 8e9
    each = size / (design.servers * gpus - gpus)
    node = fabric.endpoint.reshape(design.servers, gpus)
    total, crossing = {}, np.zeros((design.servers, 2))
    for (server, nic, k), (target, other), part in ways_out(design):
        pair = int(node[server, k]), int(node[target, other])
        total[pair] = total.get(pair, 0.0) + part * each
        if (2 * k >= gpus) != (2 * nic >= gpus):
            crossing[server, int(2 * nic >= gpus)] += part * each
    bytes_ = np.array(list(total.values()))
    source, target = map(list, zip(*total, strict=True))
    flows = Flows.make(source, target, bytes_, weight=bytes_ / bytes_.max())
    run = engines.run(fabric, routing.route(fabric, flows, "spray"), flows)
    found = exchange(net, gpus, size)
    load = Carried(net.carried(found.between), found.out, found.into)
    assert times(net, load).seconds == pytest.approx(run.end, rel=1e-6)
    assert found.cpus == pytest.approx(crossing.max(), abs=1e-3)
