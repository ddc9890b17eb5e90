"""Laws of designs: what does not matter, what never hurts, and what equals what."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabriclab import designs, topologies
from fabriclab.designs.failures import apart, healthy
from fabriclab.designs.network import FAR, Network
from fabriclab.designs.traffic import carried, messages, placed, times

SIZES = st.fixed_dictionaries(
    {
        "servers": st.integers(4, 16),
        "gpus": st.sampled_from([2, 4]),
        "radix": st.sampled_from([8, 12, 16, 32]),
        "oversubscription": st.sampled_from([1, 2, 3]),
    }
)
FAMILIES = st.sampled_from(["rail_optimised", "rail_only", "dual_tor"])
JOBS = st.sampled_from(range(5))


def built(family, arguments):
    """Return a small design, or None where the topology cannot be built in such sizes."""
    try:
        sheet = {"family": family, "arguments": {**arguments, "rails": arguments["gpus"]}}
        return designs.read(sheet)
    except ValueError:
        return None


def spread(design, rng):
    """Return a design whose servers have other numbers, and whose NICs stand in another order in each."""
    fabric = design.fabric
    order = np.arange(fabric.n_ranks).reshape(design.servers, design.gpus)
    order = rng.permuted(order[rng.permutation(design.servers)], axis=1).ravel()
    moved = replace(fabric, endpoint=fabric.endpoint[order])
    return replace(design, fabric=moved, network=Network.of(moved, design.servers))


@settings(max_examples=15)
@given(FAMILIES, SIZES, JOBS, st.integers(0, 99))
def test_numbers_of_servers_and_nics_do_not_matter(family, arguments, job, seed):
    design = built(family, arguments)
    if design is None:
        return
    other = spread(design, np.random.default_rng(seed))
    workload = designs.workloads()[job]
    assert designs.loads(design, workload).by_axis == pytest.approx(
        designs.loads(other, workload).by_axis
    )
    here = [(f.cut_off, round(f.left, 9)) for f in designs.faults(design)]
    there = [(f.cut_off, round(f.left, 9)) for f in designs.faults(other)]
    assert here == there


@settings(max_examples=15)
@given(FAMILIES, SIZES, JOBS, st.floats(1.0, 4.0))
def test_more_capacity_everywhere_between_switches_never_makes_a_step_longer(
    family, arguments, job, factor
):
    design = built(family, arguments)
    if design is None:
        return
    wider = replace(design.network, capacity=design.network.capacity * factor)
    workload = designs.workloads()[job]
    before = designs.step_time(design, workload).total
    after = designs.step_time(replace(design, network=wider), workload).total
    assert after <= before * (1 + 1e-9)


@settings(max_examples=15)
@given(FAMILIES, SIZES, st.integers(0, 10**6))
def test_a_failed_switch_is_a_switch_that_is_not_there(family, arguments, pick):
    design = built(family, arguments)
    if design is None:
        return
    number = pick % design.network.n
    node = int(design.network.switch[number])
    one = design.network.without(np.array([number]))
    other = Network.of(design.fabric.without(nodes=[node]), design.servers)
    assert np.array_equal(one.capacity, other.capacity)
    assert np.array_equal(one.port_link, other.port_link)
    assert np.array_equal(apart(one), apart(other))
    ring = healthy(design).ring
    fault = designs.fault(design, [node])
    if fault.left > 0:
        assert times(one, carried(one, ring)).seconds == pytest.approx(
            times(other, carried(other, ring)).seconds
        )


@settings(max_examples=15)
@given(FAMILIES, SIZES, st.integers(0, 10**6))
def test_gpus_are_cut_off_where_networkx_says_so(family, arguments, pick):
    design = built(family, arguments)
    if design is None:
        return
    node = int(design.switches[pick % design.network.n])
    graph = nx.Graph()
    fabric = design.fabric
    graph.add_nodes_from(("server", s) for s in range(design.servers))
    graph.add_nodes_from(design.switches.tolist())
    rank = fabric.rank_of
    for source, target in zip(fabric.source.tolist(), fabric.target.tolist(), strict=True):
        ends = [
            ("server", int(fabric.server[rank[n]])) if rank[n] >= 0 else n for n in (source, target)
        ]
        graph.add_edge(*ends)
    graph.remove_node(node)
    parts = [sum(isinstance(n, tuple) for n in part) for part in nx.connected_components(graph)]
    assert designs.fault(design, [node]).cut_off == (sum(parts) - max(parts)) * design.gpus


@given(st.integers(2, 40), st.integers(0, 10**6))
def test_hops_are_those_of_networkx(n, seed):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < 2 / n, 1)
    capacity = (upper | upper.T).astype(float)
    empty = np.zeros(0, np.int64)
    net = Network(np.arange(n), capacity, empty, empty, empty, np.zeros(0), 0)
    lengths = dict(nx.all_pairs_shortest_path_length(nx.from_numpy_array(capacity)))
    for one in range(n):
        for other in range(n):
            assert net.hops[one, other] == lengths[one].get(other, FAR)


@settings(max_examples=15)
@given(FAMILIES, SIZES, JOBS)
def test_what_is_sent_arrives_on_every_switch(family, arguments, job):
    design = built(family, arguments)
    if design is None:
        return
    for sent in messages(design, designs.workloads()[job]).values():
        load = carried(design.network, sent)
        net = design.network
        into = np.bincount(net.port_switch, load.out, net.n) + load.bundle.sum(axis=0)
        out = np.bincount(net.port_switch, load.into, net.n) + load.bundle.sum(axis=1)
        assert np.allclose(into, out)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12))
def test_a_front_is_never_empty_and_never_beaten(points):
    kept = designs.front(points)
    assert any(kept)
    for point, is_kept in zip(points, kept, strict=True):
        beaten = any(
            other[0] <= point[0] and other[1] <= point[1] and other != point for other in points
        )
        assert is_kept == (not beaten)


def test_servers_on_the_same_leaves_follow_each_other():
    network = topologies.build("leaf_spine", hosts=64, radix=16)
    rng = np.random.default_rng(1)
    plug = rng.permutation(16)[:, None] * 4 + np.arange(4)
    design = designs.read(designs.sheet_of(designs.plug(network, 16, 4, plug.ravel().tolist())))
    order = placed(design)
    leaf = design.network.classes.of_server[order]
    assert np.count_nonzero(np.diff(leaf)) == leaf.max()
