"""Least cuts between ranks: by hand, against networkx, laws, refusals."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import metrics, topologies

FABRICS = {
    "fat_tree": {"k": 4},
    "dragonfly": {"p": 2, "a": 4, "h": 2},
    "torus": {"shape": (4, 6)},
    "jellyfish": {"switches": 12, "degree": 4, "hosts": 2, "seed": 1},
    "rail_optimised": {"servers": 4, "gpus": 2, "rails": 2, "radix": 4},
    "dgx1v": {},
}


def by_networkx(fabric, side):
    """Return the greatest flow from some ranks to the others; a rank that forbids transit is two nodes."""
    graph, twice = nx.DiGraph(), {int(e) for e in fabric.endpoint if not fabric.transit[e]}

    def into(node):
        return (node, "in") if node in twice else node

    for a, b, c in zip(
        fabric.source.tolist(), fabric.target.tolist(), fabric.capacity.tolist(), strict=True
    ):
        more = graph.edges[a, into(b)]["capacity"] if graph.has_edge(a, into(b)) else 0.0
        graph.add_edge(a, into(b), capacity=c + more)
    for rank, node in enumerate(fabric.endpoint.tolist()):
        graph.add_edge(*(("from", node) if rank in side else (into(node), "to")))
    return nx.maximum_flow_value(graph, "from", "to")


def test_halves_by_hand():
    assert metrics.cut(topologies.build("fat_tree", k=4), range(8)).size == 8
    ring = topologies.build("torus", shape=(8,), rate="50 GB/s")
    links = metrics.cut(ring, [1, 2, 3])
    assert {ring.link_name(int(x)) for x in links} == {"chip 1 -> chip 0", "chip 3 -> chip 4"}


@pytest.mark.parametrize("family", FABRICS)
@given(data=st.data())
def test_the_cut_is_the_greatest_flow_and_parts_the_ranks(family, data):
    fabric = topologies.build(family, **FABRICS[family])
    side = data.draw(
        st.sets(st.integers(0, fabric.n_ranks - 1), min_size=1, max_size=fabric.n_ranks - 1)
    )
    links = metrics.cut(fabric, sorted(side))
    assert fabric.capacity[links].sum() == pytest.approx(by_networkx(fabric, side), rel=2e-3)
    assert metrics.cut(fabric.without(links=links), sorted(side)).size == 0


@given(st.permutations(range(16)))
def test_no_halves_are_parted_by_less_than_the_bisection(order):
    fabric = topologies.build("fat_tree", k=4)
    rate = fabric.capacity[metrics.cut(fabric, order[:8])].sum()
    assert rate >= metrics.bisection(fabric).lower * (1 - 1e-9)


@pytest.mark.parametrize("ranks", [[], range(16), [3, 99], [0.9, 1.7]])
def test_a_side_must_be_some_ranks(ranks):
    with pytest.raises((ValueError, TypeError), match=r"ranks must"):
        metrics.cut(topologies.build("fat_tree", k=4), ranks)


def test_one_way_failures_count_one_way():
    ring = topologies.build("torus", shape=(4,))
    ahead = int(ring.links_between(0, 1)[0])
    hurt = ring.without(links=[ahead])
    assert metrics.cut(hurt, [0]).size == 1
    assert metrics.cut(hurt, np.array([1, 2, 3])).size == 2


def test_a_very_slow_link_is_taken_first():
    tree = topologies.build("fat_tree", k=4)
    slow = tree.with_capacity([0, 1], 1e6)
    links = metrics.cut(slow, range(8))
    assert slow.capacity[links].sum() <= 7 * 50e9 + 1e6
    assert {0, 1} & set(links.tolist())
