"""Faults: by hand, laws against networkx and explicit flows, exact probabilities, refusals."""

import itertools
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import operations, routing, topologies
from fabriclab.core import Flows
from support.random_fabrics import hops_between, tangled


def hall(**asked):
    """Return four servers of two GPUs on two rails, each with its NVLink, PCIe switches and NICs."""
    return topologies.build("rail_optimised", servers=4, gpus=2, rails=2, radix=4, **asked)


# by hand ------------------------------------------------------------------------------------------
def test_parts_by_hand():
    fabric = hall()
    assert [fabric.name(n) for n in operations.parts(fabric, "leaf")[1]] == ["leaf 0.1"]
    assert {k: v.size for k, v in operations.parts(fabric, "rail").items()} == {0: 2, 1: 2}
    assert [v.size for v in operations.parts(fabric, "server").values()] == [2 + 1 + 2 + 2] * 4
    cables = operations.parts(fabric, "cable")
    assert len(cables) == 8 + 8 and all(c.tolist() == [k] for k, c in cables.items())
    assert {fabric.link_name(2 * k).split()[0] for k in cables} == {"nic", "leaf"}
    assert operations.parts(fabric, {"row A": [3, 1, 3]})["row A"].tolist() == [1, 3]
    assert (
        len(operations.parts(topologies.build("dgx1v"), "cable"))
        == topologies.build("dgx1v").n_cables
    )


def test_what_fails_loses_all_its_links():
    fabric = hall()
    for what, which in (
        ("spine", [0]),
        ("rail", [1]),
        ("server", [0, 2]),
        ({"x": [5], "y": [6, 7]}, ["y"]),
    ):
        gone = np.concatenate([operations.parts(fabric, what)[k] for k in which])
        dead = np.isin(fabric.source, gone) | np.isin(fabric.target, gone)
        hurt = operations.fail(fabric, what, which)
        assert np.array_equal(hurt.capacity == 0, dead)
        assert np.array_equal(hurt.capacity[~dead], fabric.capacity[~dead])
    cable = [*operations.parts(fabric, "cable")][3]
    assert np.flatnonzero(operations.fail(fabric, "cable", [cable]).capacity == 0).tolist() == [
        2 * cable,
        2 * cable + 1,
    ]
    assert np.array_equal(operations.fail(fabric, "leaf", []).capacity, fabric.capacity)


def test_bandwidth_by_hand():
    """Hosts set 7 f before; with one spine of two the uplinks of a leaf carry 2 x 6 f over one cable."""
    fabric = topologies.build("leaf_spine", hosts=8, radix=4)
    left = operations.report(fabric, operations.fail(fabric, "spine", [1]))
    assert left.bandwidth == pytest.approx(7 / 12)
    assert left.cut_off.size == left.alone.size == 0
    assert {
        fabric.kinds[fabric.kind[n]] for n in (fabric.source[left.link], fabric.target[left.link])
    } == {
        "leaf",
        "spine",
    }
    same = operations.report(fabric, fabric)
    assert same.bandwidth == 1 and repr(same).startswith(
        "<FaultReport: 100% of the bandwidth, 0 ranks cut off, 0 alone"
    )


def test_a_lost_leaf_takes_its_pairs_with_it():
    """Six of eight hosts are left: their uplinks carry 2 x 4 f over two cables, the host cables 5 f."""
    fabric = topologies.build("leaf_spine", hosts=8, radix=4)
    left = operations.report(fabric, operations.fail(fabric, "leaf", [0]))
    assert left.cut_off.tolist() == left.alone.tolist() == [0, 1]
    assert left.bandwidth == pytest.approx((6 * 5 / 5) / (8 * 7 / 7))


def test_a_gpu_without_its_nic_is_not_cut_off():
    fabric = hall()
    left = operations.report(fabric, operations.fail(fabric, "nic", [0]))
    assert (left.cut_off.tolist(), left.alone.tolist()) == ([], [0])
    both = operations.report(fabric, operations.fail(fabric, "nic", [0, 1]))
    assert (both.cut_off.tolist(), both.alone.tolist()) == ([0, 1], [0, 1])
    nvlink = operations.fail(operations.fail(fabric, "nic", [0]), "nvlink", [0])
    assert operations.report(fabric, nvlink).cut_off.tolist() == [0]
    rail = operations.report(fabric, operations.fail(fabric, "rail", [1]))
    assert (rail.cut_off.tolist(), rail.alone.tolist()) == ([], [1, 3, 5, 7])
    server = operations.report(fabric, operations.fail(fabric, "server", [2]))
    assert server.cut_off.tolist() == server.alone.tolist() == [4, 5]


def test_rails_without_spines_are_joined_by_the_servers():
    fabric = topologies.build("rail_only", servers=3, gpus=2, rails=2, radix=4)
    whole = operations.report(fabric, fabric)
    assert whole.bandwidth == 1 and whole.cut_off.size == whole.alone.size == 0
    left = operations.report(fabric, operations.fail(fabric, "rail", [0]))
    assert (left.cut_off.tolist(), left.alone.tolist()) == ([], [0, 2, 4])


def test_an_island_is_cut_off_though_its_ranks_reach_each_other():
    fabric = topologies.build("leaf_spine", hosts=12, radix=8, oversubscription=1)
    spines = fabric.nodes("spine")
    up = [
        int(x) // 2
        for n in spines
        for x in fabric.links_between(int(fabric.nodes("leaf")[0]), int(n))
    ]
    left = operations.report(fabric, fabric.without(cables=up))
    assert left.cut_off.tolist() == left.alone.tolist() == [0, 1, 2, 3]
    assert 0 < left.bandwidth < 1


def test_a_plane_halves_the_rate_and_cuts_nobody_off():
    fabric = topologies.build(
        "multi_plane", servers=4, gpus=1, rails=1, planes=2, radix=4, expand=False
    )
    left = operations.report(fabric, operations.fail(fabric, "plane", [0]))
    assert left.bandwidth == pytest.approx(0.5) and left.cut_off.size == 0


# laws ---------------------------------------------------------------------------------------------
def carried(fabric):
    """Return the uniform traffic of all pairs with a path, from their flows one by one. [B/s]."""
    source, target = np.nonzero(hops_between(fabric) > 0)
    if not source.size:
        return 0.0
    flows = Flows.make(fabric.endpoint[source], fabric.endpoint[target], 1.0)
    load = routing.route(fabric, flows, "spray").link_bytes(flows, fabric.n_links)
    return source.size / np.max(load[load > 0] / fabric.capacity[load > 0])


@given(st.integers(0, 2**32), st.data())
def test_bandwidth_is_that_of_all_flows_with_a_path(seed, data):
    fabric = tangled(seed)
    dead = data.draw(st.lists(st.integers(0, fabric.n_cables - 1), max_size=4, unique=True))
    hurt, whole = fabric.without(cables=dead), carried(fabric)
    if not whole:
        with pytest.raises(ValueError, match=r"healthy .*two ranks"):
            operations.report(fabric, hurt)
        return
    left = operations.report(fabric, hurt)
    assert left.bandwidth == pytest.approx(carried(hurt) / whole)
    assert bool(left.worst) == (left.bandwidth > 0)
    if left.worst:
        a, b = (fabric.endpoint[r] for r in left.worst)
        assert left.link in routing.route(hurt, Flows.make(a, b, 1.0), "spray").link


def lost(fabric):
    """Return the ranks that are cut off, and those without a way of their own; for each largest part, if several."""
    both = np.repeat(fabric.capacity.reshape(-1, 2).min(axis=1) > 0, 2)
    gpu, ends = fabric.kind == fabric.kinds.index("gpu"), fabric.endpoint.tolist()
    pairs = list(zip(fabric.source[both].tolist(), fabric.target[both].tolist(), strict=True))
    relayed, bare = nx.Graph(), nx.Graph()
    for graph, passes in ((relayed, fabric.transit | gpu), (bare, fabric.transit)):
        graph.add_nodes_from(range(fabric.n_nodes))
        graph.add_edges_from((a, b) for a, b in pairs if passes[a] and passes[b])
    hangs = [
        {e} if fabric.transit[e] else {b for a, b in pairs if a == e and fabric.transit[b]}
        for e in ends
    ]
    there = [set().union(*(nx.node_connected_component(bare, n) for n in mine)) for mine in hangs]
    parts = [
        {r for r, e in enumerate(ends) if e in part} for part in nx.connected_components(relayed)
    ]
    every, out = set(range(len(ends))), []
    for main in (p for p in parts if len(p) == max(map(len, parts))):
        alone = [
            r
            for r in every
            if not any(
                r in main and fabric.server[s] != fabric.server[r] and there[r] & there[s]
                for s in main
            )
        ]
        out.append((sorted(every - main), alone))
    return out


@given(st.integers(0, 2**32))
def test_ranks_cut_off_are_those_of_networkx(seed):
    fabric = tangled(seed, most_ranks=10)
    if not carried(fabric) or np.unique(fabric.server).size < 2:
        return
    left = operations.report(fabric, fabric)
    assert (left.cut_off.tolist(), left.alone.tolist()) in lost(fabric)


# Monte-Carlo --------------------------------------------------------------------------------------
def test_draws_follow_the_exact_probabilities():
    """Two of the cables of eight hosts fail: how often each number of ranks is cut off is counted out."""
    fabric = topologies.build("leaf_spine", hosts=8, radix=4)
    cables, draws = [*operations.parts(fabric, "cable")], 4000
    exact, bandwidth = Counter(), 0.0
    for pair in itertools.combinations(cables, 2):
        left = operations.report(fabric, operations.fail(fabric, "cable", pair))
        exact[left.cut_off.size] += 1
        bandwidth += left.bandwidth
    pairs = sum(exact.values())
    drawn = operations.monte_carlo(fabric, "cable", 2, draws, seed=1)
    assert set(drawn.cut_off) == set(exact)
    for size, n in exact.items():
        p = n / pairs
        assert np.mean(drawn.cut_off == size) == pytest.approx(
            p, abs=4 * np.sqrt(p * (1 - p) / draws)
        )
    assert drawn.bandwidth.mean() == pytest.approx(
        bandwidth / pairs, abs=4 * drawn.bandwidth.std() / np.sqrt(draws)
    )


def test_a_draw_is_what_the_report_says_and_repeats_with_its_seed():
    fabric = hall()
    one, again = (operations.monte_carlo(fabric, "nic", 2, 30, seed=5) for _ in range(2))
    for a, b in zip(one, again, strict=True):
        assert np.array_equal(a, b)
    reports = [
        operations.report(fabric, operations.fail(fabric, "nic", p))
        for p in itertools.combinations(range(8), 2)
    ]
    seen = {(round(r.bandwidth, 12), r.cut_off.size, r.alone.size) for r in reports}
    assert {(round(b, 12), c, a) for b, c, a in zip(*one, strict=True)} == seen
    assert set(one.alone) == {2} and set(one.cut_off) == {0, 2}


def test_no_failure_leaves_everything():
    drawn = operations.monte_carlo(hall(), {"A": [0], "B": [1]}, 0, 3)
    assert drawn.bandwidth.tolist() == [1, 1, 1] and not drawn.cut_off.any()
    assert repr(drawn) == "<MonteCarlo: 3 draws, medians bandwidth 1, cut_off 0, alone 0>"


# refusals -----------------------------------------------------------------------------------------
def test_unknown_parts_are_refused():
    fabric = hall()
    with pytest.raises(ValueError, match=r"what must be one of cable, gpu, .*rail.*, got 'row'"):
        operations.parts(fabric, "row")
    with pytest.raises(
        ValueError, match=r"which must list some of 2 parts, such as \[0, 1\], got 2"
    ):
        operations.fail(fabric, "rail", [2])
    with pytest.raises(ValueError, match=r"such as \['A'\], got 'B'"):
        operations.fail(fabric, {"A": [0]}, ["B"])
    with pytest.raises(ValueError, match="nodes must be within"):
        operations.fail(fabric, {"A": [10_000]}, ["A"])
    assert operations.fail(fabric, {("row", 1): [0]}, [("row", 1)]).capacity.min() == 0
    for alone, shown in (
        (1, "1"),
        ("leaf", "'leaf'"),
        ([[0]], r"\[0\]"),
        (np.array([[0, 1]]), r"array\(\[0, 1\]\)"),
    ):
        with pytest.raises(
            ValueError, match=rf"which must list some of 2 parts, such as \[0, 1\], got {shown}"
        ):
            operations.fail(fabric, "rail", alone)
    with pytest.raises(ValueError, match=r"k must be within 0..2, got 3"):
        operations.monte_carlo(fabric, "rail", 3)
    with pytest.raises(ValueError, match="draws must be >= 1, got 0"):
        operations.monte_carlo(fabric, "rail", 1, 0)


def test_two_different_fabrics_are_refused():
    with pytest.raises(ValueError, match=r"hurt must have .*healthy"):
        operations.report(hall(), topologies.build("fat_tree", k=4))
    with pytest.raises(ValueError, match=r"healthy .*two ranks.*restore links"):
        operations.monte_carlo(hall().without(cables=range(hall().n_cables)), "rail", 1)
    with pytest.raises(ValueError, match="at least 2 ranks"):
        operations.report(*[topologies.build("crossbar", hosts=1)] * 2)
