"""What the questions of lesson 25 call right is right on the fabrics."""

import itertools

import networkx as nx
import numpy as np
import pytest

from fabriclab import catalog, live, metrics, routing, topologies
from fabriclab.core import Flows
from fabriclab.course.questions import find
from fabriclab.errors import NoPath
from fabriclab.simulation import ring_busbw
from fabriclab.topologies.gigaio import WIRINGS, rings
from support.prose import sentence

FABRICS = {wiring: topologies.build("gigaio", wiring=wiring) for wiring in WIRINGS}
RATES = {wiring: ring_busbw("all_reduce", f, rings(f)) for wiring, f in FABRICS.items()}
PORT = catalog.value("links", "pcie4", "bandwidth_after_encoding")


@pytest.mark.parametrize(("wiring", "k"), [("1s-2rp-std-cascade", 2), ("2s-2rp-std-flat", 4)])
def test_rings_that_share_a_link_have_its_rate(wiring, k):
    assert RATES[wiring] == pytest.approx(find("25-shared").key({"k": k, "r": f"{PORT} B/s"}))
    assert sentence("live.gigaio.said", most=k).search(live.gigaio(wiring).scene.said)


def test_the_view_counts_the_rings_of_each_link():
    for wiring, f in FABRICS.items():
        table = live.gigaio(wiring).scene.table
        up = [
            n
            for a, b, n in zip(table["from"], table["to"], table["load"], strict=True)
            if "draco" in a and "root" in b
        ]
        shared = RATES[wiring] < PORT * len(rings(f)) * 0.99
        assert (max(up) == pytest.approx(1)) == shared and (max(up) == 0) != shared
    table = live.gigaio("2s-2rp-std-flat").scene.table
    xgmi = [
        n
        for a, b, n in zip(table["from"], table["to"], table["load"], strict=True)
        if a[:3] == b[:3] == "GPU"
    ]
    own = catalog.value("links", "xgmi-mi300x", "bandwidth_per_link")
    # one ring here, four on the fullest link
    assert len(xgmi) == 56 and max(xgmi) == pytest.approx(PORT / (4 * own))


def test_the_order_is_that_of_the_model_and_of_the_publication():
    groups = [
        ["2s-2rp-split-flat"],
        ["1s-2rp-split-cascade", "1s-1rp-std-cascade"],
        ["1s-2rp-std-cascade", "2s-2rp-std-flat"],
    ]
    told = {w: catalog.value("systems", f"gigaio-{w}", "busbw_all_reduce") for w in WIRINGS}
    for rates in (RATES, told):
        for fast, slow in itertools.pairwise(groups):
            assert min(rates[w] for w in fast) > 1.5 * max(rates[w] for w in slow)
        assert rates[groups[1][0]] == pytest.approx(rates[groups[1][1]])


def test_no_cheaper_wiring_reaches_80_gb_per_s():
    """A ring for each card, all on one link where they cross the processor; eight of twelve forms find their ports."""
    copied, link = catalog.value("memory_path", "p2p-pcie", "bandwidth"), catalog.links["pcie5"]
    part, room = (
        copied / link["bandwidth_after_encoding"].si,
        catalog.value("switches", "draco", "connections"),
    )
    built = []
    for form in itertools.product(
        ("1s-1rp", "1s-2rp", "2s-2rp"), ("std", "split"), ("cascade", "flat")
    ):
        wiring, switches, cards = "-".join(form), int(form[0][0]), 4 if form[2] == "flat" else 2
        ports = find("25-ports").key({"b": 2, "c": cards, "p": int(wiring[3])})
        if ports / switches > room:
            with pytest.raises(ValueError, match=f"needs {ports:g} ports on a switch"):
                topologies.build("gigaio", wiring=wiring)
            continue
        f = topologies.build("gigaio", wiring=wiring)
        assert f.ports_used[f.nodes("draco")].sum() == ports
        rate = ring_busbw("all_reduce", f, rings(f))
        assert rate == pytest.approx(PORT * (1 if "2rp-std" in wiring else cards))
        assert (part * rate >= 80e9) == (wiring == "2s-2rp-split-flat")
        built.append(wiring)
    assert len(built) == 8 and {*WIRINGS} < {*built}


def test_the_two_tables_disagree_on_one_wiring():
    def told(what):
        return catalog.value("systems", "gigaio-2s-2rp-split-flat", what)

    gains = {
        what: told(f"busbw_{what}_own_rings") / told(f"busbw_{what}_default_rings") - 1
        for what in ("all_reduce", "reduce_scatter", "all_gather")
    }
    assert {k: round(100 * v) for k, v in gains.items()} == {
        "all_reduce": 17,
        "reduce_scatter": 30,
        "all_gather": 50,
    }
    assert told("busbw_all_reduce") > told("busbw_all_reduce_own_rings")
    assert (
        told("busbw_all_gather_default_rings")
        < told("busbw_all_gather")
        < told("busbw_all_gather_own_rings")
    )


def test_rail_only_has_no_way_from_rail_to_rail_of_another_server():
    f = topologies.build("rail_only", servers=4, radix=4)
    for a, b, there in ((0, 9, False), (0, 8, True), (0, 1, True)):
        flow = Flows.make(f.endpoint[[a]], f.endpoint[[b]], 1.0)
        if there:
            assert routing.route(f, flow).link.size
        else:
            with pytest.raises(NoPath):
                routing.route(f, flow)
            assert routing.route(f, flow, "pxn").link.size


def mean_hops(circuits, share):
    graph = nx.empty_graph(len(share))
    graph.add_edges_from(circuits)
    for mark, what in (("endpoint", 1), ("transit", True), ("radix", 3)):
        nx.set_node_attributes(graph, what, mark)
    f = topologies.from_networkx(graph, "50 GB/s")
    s, t = np.nonzero(share)
    flows = Flows.make(f.endpoint[s], f.endpoint[t], share[s, t] * 1e9)
    return routing.route(f, flows, "spray").link_bytes(flows, f.n_links).sum() / flows.size.sum(), f


def matrix(job):
    share = np.full((8, 8), 5)
    for step, percent in ((0, 0), (1, 30), (-1, 30), (4, 20)):
        share[job, np.roll(job, step)] = percent
    return share


def cubic_graphs(edges=(), free=(3,) * 8):
    """Yield all graphs with three links at each of 8 nodes: the first that lacks some takes them to later ones."""
    one = next((node for node, left in enumerate(free) if left), 8)
    if one == 8:
        yield edges
        return
    for others in itertools.combinations([n for n in range(one + 1, 8) if free[n]], free[one]):
        rest = [0 if n == one else left - (n in others) for n, left in enumerate(free)]
        yield from cubic_graphs((*edges, *((one, n) for n in others)), rest)


def test_circuits_along_the_job_meet_the_bound_and_no_others_do():
    """All 19,355 ways to place 12 circuits at 8 servers are tried, with hops counted by powers of their matrices."""
    job = np.random.default_rng(0).permutation(8)
    share = matrix(job)
    assert (share.sum(axis=1) == 100).all() and (share == share.T).all()
    mine = [
        *((job[i], job[(i + 1) % 8]) for i in range(8)),
        *((job[i], job[i + 4]) for i in range(4)),
    ]
    graphs = np.array([*cubic_graphs()])
    joined = np.zeros((len(graphs), 8, 8), dtype=int)
    for one, other in (graphs.T, graphs.T[::-1]):
        joined[np.arange(len(graphs)), one, other] = 1
    assert len(graphs) == 19355 and (joined.sum(axis=2) == 3).all()  # OEIS A002829
    hops, reach = np.full(joined.shape, np.inf), np.broadcast_to(np.eye(8, dtype=int), joined.shape)
    for n in range(8):
        hops[(hops == np.inf) & (reach > 0)] = n
        reach = reach @ joined
    mean = (hops * share).sum(axis=(1, 2)) / share.sum()
    key = find("25-circuits").key({})
    best = np.flatnonzero(mean < key + 1e-9)
    assert [{*map(frozenset, graphs[k].tolist())} for k in best] == [{*map(frozenset, mine)}]
    assert mean[best] == pytest.approx(key)
    assert metrics.hops(mean_hops(mine, share)[1]).diameter == 2
    for k in (*best, *np.flatnonzero(mean < np.inf)[::4000]):
        assert mean_hops(graphs[k], share)[0] == pytest.approx(mean[k])


def test_a_fourth_circuit_at_a_server_is_refused():
    ring = [(i, (i + 1) % 8) for i in range(8)]
    with pytest.raises(ValueError, match="needs 4 ports and has 3"):
        mean_hops([*ring, (0, 4), (0, 3)], matrix(np.arange(8)))
