"""Routing: by hand, shape, laws against networkx and between the two forms, refusals."""

import gc
import re
import weakref

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import registry, routing, topologies
from fabriclab.core import PATH, SPRAY, FabricBuilder, Flows
from fabriclab.errors import NoPath, TooLarge
from fabriclab.routing._clos import Clos, shortest_paths
from fabriclab.routing.shortest import Tables
from support.oracles.routes import check_routes

SMALL = {name: registry.info("topology", name)["small"] for name in topologies.names()}
# Methods that route any fabric on shortest ways; tests/test_routing_methods.py has the others.
MINIMAL = [name for name in routing.names() if registry.info("routing", name).get("minimal")]


def all_pairs(fabric):
    s, t = np.meshgrid(fabric.endpoint, fabric.endpoint)
    keep = s != t
    return Flows.make(s[keep], t[keep], 1.0)


def ring(fabric, size=1.0):
    return Flows.make(fabric.endpoint, np.roll(fabric.endpoint, -1), size)


def doubled(fabric):
    """Return an oracle that sees each endpoint twice, as sender and as receiver, so that no path can cross one."""
    graph = nx.DiGraph()
    for a, b in zip(fabric.source.tolist(), fabric.target.tolist(), strict=True):
        graph.add_edge(
            a if fabric.transit[a] else ("out", a), b if fabric.transit[b] else ("in", b)
        )
    return graph


def circle(n=3, closed=()):
    """Return n switches in a ring with one host each; the closed ones let no others pass."""
    b = FabricBuilder(("host", "switch"), ("i",))
    host = b.add_nodes("host", n, tier=0, transit=False, i=range(n))
    switch = [b.add_nodes("switch", 1, tier=1, transit=i not in closed, i=i)[0] for i in range(n)]
    b.add_cables(host, switch, capacity=1e9, delay=1e-6)
    b.add_cables(switch, np.roll(switch, -1), capacity=1e9, delay=1e-6)
    return b.build("circle", {}, endpoint=host, rail=[0] * n, server=range(n))


# by hand ------------------------------------------------------------------------------------------
def test_one_switch_between_two_hosts():
    fabric = topologies.build("leaf_spine", hosts=4, radix=8)
    routes = routing.route(fabric, ring(fabric))
    assert np.diff(routes.ptr).tolist() == [2, 2, 2, 2]
    assert set(routes.kind) == {PATH}


def test_neighbours_in_a_server_use_nvlink_and_other_servers_the_nic():
    fabric = topologies.build("rail_optimised", servers=2, gpus=4, rails=4, radix=8)
    gpu = fabric.endpoint
    routes = routing.route(fabric, Flows.make([gpu[0], gpu[0]], [gpu[1], gpu[4]], 1.0))
    kinds = [[fabric.kinds[fabric.kind[fabric.target[x]]] for x in routes.row(r)] for r in range(2)]
    assert kinds == [["nvlink", "gpu"], ["pcie", "nic", "leaf", "nic", "pcie", "gpu"]]


def test_spray_splits_over_all_spines_in_equal_parts():
    fabric = topologies.build("leaf_spine", hosts=32, radix=8)
    a, b = fabric.endpoint[[0, 31]]
    routes = routing.route(fabric, Flows.make(a, b, 1.0), "spray")
    up = fabric.tier[fabric.target[routes.link]] == fabric.tier.max()
    assert routes.kind.tolist() == [SPRAY]
    assert np.allclose(routes.use[up], 1 / up.sum())
    assert up.sum() == 4  # radix 8: four links up


def test_delay_of_a_route_is_the_sum_over_its_links():
    fabric = circle()
    routes = routing.route(fabric, Flows.make(0, 1, 1.0))
    assert routes.delay[0] == pytest.approx(3e-6)


def test_flow_to_itself_gets_no_route():
    fabric = circle()
    routes = routing.route(fabric, Flows.make([0, 0], [0, 1], [0.0, 1.0]))
    assert routes.flow.tolist() == [1]


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("method", MINIMAL)
def test_closed_node_is_walked_around(n, method):
    """Host 1 hangs on a switch closed to others: 0 -> 2 must not pass it, even where that is as short."""
    fabric = circle(n, closed=[1])
    for seed in range(20):
        flows = Flows.make(0, 2, 1.0)
        routes = routing.route(fabric, flows, method, seed=seed)
        check_routes(routes, fabric, flows)
        assert np.isin(fabric.target[routes.row(0)], [fabric.nodes("switch")[1]]).sum() == 0
    with pytest.raises(NoPath, match=r"host 0 to host 1.*forbids transit"):
        routing.route(fabric, Flows.make(0, 1, 1.0))


# laws ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", MINIMAL)
@pytest.mark.parametrize("family", SMALL)
def test_routes_obey_the_law_and_are_as_short_as_networkx_says(family, method):
    fabric = topologies.build(family, **SMALL[family])
    flows, graph = all_pairs(fabric), doubled(fabric)
    out, into = (
        {a: a if fabric.transit[a] else (side, a) for a in fabric.endpoint.tolist()}
        for side in ("out", "in")
    )
    lengths = {a: nx.single_source_shortest_path_length(graph, out[a]) for a in out}
    ends = zip(flows.source.tolist(), flows.target.tolist(), strict=True)
    expected = np.array([lengths[s].get(into[t], 0) for s, t in ends])
    if np.any(expected == 0):  # rails that never meet
        with pytest.raises(NoPath):
            routing.route(fabric, flows, method)
    flows = Flows.make(flows.source[expected > 0], flows.target[expected > 0], 1.0)
    routes = routing.route(fabric, flows, method)
    check_routes(routes, fabric, flows)
    assert routes.hops() == pytest.approx(expected[expected > 0])


def broken(fabric, data):
    """Return the fabric without a few random cables between nodes that let others pass."""
    inner = np.flatnonzero(fabric.transit[fabric.source[::2]] & fabric.transit[fabric.target[::2]])
    dead = (
        data.draw(st.lists(st.sampled_from(inner.tolist()), max_size=3, unique=True))
        if inner.size
        else []
    )
    return fabric.without(cables=dead)


@given(st.data())
def test_both_forms_of_shortest_ways_agree(data):
    family = data.draw(st.sampled_from(sorted(SMALL)))
    fabric = broken(topologies.build(family, **SMALL[family]), data)
    clos = Clos.of(fabric)
    if clos is None:
        return
    flows = all_pairs(fabric)
    s, t = flows.source.astype(np.int64), flows.target.astype(np.int64)
    pair, node = np.arange(s.size), s
    try:
        one = clos.walk(s, t)
    except NoPath as error:
        with pytest.raises(NoPath, match=re.escape(str(error))):
            Tables(fabric).walk(s, t)
        return
    two = Tables(fabric).walk(s, t)
    while pair.size:
        (n1, x1), (n2, x2) = (
            (found.count, found.all()) for found in (w(pair, node) for w in (one, two))
        )
        assert n1.tolist() == n2.tolist()
        owner = np.repeat(np.arange(pair.size), n1)
        assert [set(x1[owner == i]) for i in range(0, pair.size, 7)] == [
            set(x2[owner == i]) for i in range(0, pair.size, 7)
        ]
        link = x1[np.append(0, np.cumsum(n1)[:-1])]
        node = fabric.target[link].astype(np.int64)
        on = node != t[pair]
        pair, node = pair[on], node[on]


def test_spraying_splits_in_proportion_to_capacity():
    fabric = topologies.build("leaf_spine", hosts=8, radix=4, rate="10 GB/s")
    up = next(
        x
        for x in fabric.out[1]
        if fabric.source[x] == fabric.nodes("leaf")[0] and fabric.tier[fabric.target[x]] == 2
    )
    slow = fabric.with_capacity([up], 5e9)
    routes = routing.route(slow, Flows.make(slow.endpoint[0], slow.endpoint[7], 1.0), "spray")
    here = np.isin(routes.link, np.flatnonzero(slow.source == slow.nodes("leaf")[0]))
    assert sorted(routes.use[here].tolist()) == pytest.approx([1 / 3, 2 / 3])


@pytest.mark.parametrize("hosts", [63, 64, 65, 130])
def test_the_search_is_right_for_any_number_of_targets(hosts):
    """It packs 64 targets into a word, and far nodes need several bits for their hops."""
    fabric = circle(hosts)
    table = Tables(fabric)
    s, t = np.meshgrid(fabric.endpoint, fabric.endpoint[:: hosts // 9])
    keep = s != t
    s, t = s[keep].astype(np.int64), t[keep].astype(np.int64)
    rows = registry.get("routing", "ecmp")(fabric, table, s, t)
    away = np.abs(s - t)  # hosts stand in ring order
    assert np.diff(rows.ptr).tolist() == (np.minimum(away, hosts - away) + 2).tolist()


def test_healthy_fabrics_are_read_off_their_tiers_and_hurt_ones_are_searched():
    for family in ("crossbar", "fat_tree", "leaf_spine", "rail_optimised"):
        assert isinstance(shortest_paths(topologies.build(family, **SMALL[family])), Clos), family
    assert isinstance(shortest_paths(circle()), Tables)
    fabric = topologies.build("fat_tree", k=4)
    up = np.flatnonzero(fabric.tier[fabric.target] == fabric.tier.max())
    assert isinstance(shortest_paths(fabric.without(cables=[int(up[0]) // 2])), Tables)


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_ecmp_is_a_function_of_its_seed(seed, subflows):
    fabric = topologies.build("fat_tree", k=4)
    flows = ring(fabric)
    a, b = (routing.route(fabric, flows, subflows=subflows, seed=seed) for _ in range(2))
    assert a.link.tolist() == b.link.tolist()
    assert np.bincount(a.flow).tolist() == [subflows] * flows.n_flows
    assert np.bincount(a.flow, weights=a.share) == pytest.approx(1.0)


def test_hash_spreads_as_balls_into_bins():
    """32 flows on 32 uplinks: the fullest holds 3.533 in the mean (exact multinomial maximum)."""
    fabric = topologies.build("leaf_spine", hosts=2048, radix=64)
    flows = Flows.make(fabric.endpoint[:32], fabric.endpoint[32:64], 1.0)
    up = fabric.tier[fabric.target] == fabric.tier.max()
    assert np.count_nonzero(up[fabric.source == fabric.source[np.flatnonzero(up)[0]]]) == 32
    fullest = []
    for seed in range(200):
        routes = routing.route(fabric, flows, seed=seed)
        fullest.append(np.bincount(routes.link[up[routes.link]]).max())
    assert np.mean(fullest) == pytest.approx(3.533, abs=0.18)  # 3.5 standard errors of 200 draws


def test_bytes_that_leave_a_node_are_those_that_came_in():
    fabric = topologies.build("fat_tree", k=4)
    flows = all_pairs(fabric)
    for method in MINIMAL:
        carried = routing.route(fabric, flows, method).link_bytes(flows, fabric.n_links)
        net = np.bincount(fabric.source, weights=carried) - np.bincount(
            fabric.target, weights=carried
        )
        assert np.abs(net).max() < 1e-9  # every rank sends as much as it receives


# refusals -----------------------------------------------------------------------------------------
def test_cut_off_rank_is_named():
    fabric = topologies.build("leaf_spine", hosts=4, radix=8)
    cable = int(np.flatnonzero(fabric.source == fabric.endpoint[2])[0]) // 2
    with pytest.raises(NoPath, match=r"no path from .* to .*capacity 0.*restore a link"):
        routing.route(fabric.without(cables=[cable]), ring(fabric))


def test_a_spray_has_a_row_for_each_subflow():
    fabric = topologies.build("leaf_spine", hosts=8, radix=4)
    flows = Flows.make([0, 1, 2], [5, 6, 7], 1.0)
    one, two = (routing.route(fabric, flows, "spray", subflows=n) for n in (1, 2))
    check_routes(two, fabric, flows)
    assert two.flow.tolist() == [0, 0, 1, 1, 2, 2] and set(two.share) == {0.5}
    assert np.array_equal(np.diff(two.ptr), np.repeat(np.diff(one.ptr), 2))


def test_unknown_method_and_subflows_are_refused():
    fabric = circle()
    with pytest.raises(ValueError, match=r"unknown routing 'magic'; choose one of .*ecmp"):
        routing.route(fabric, ring(fabric), "magic")
    with pytest.raises(ValueError, match=r"subflows must be >= 1, got 0"):
        routing.route(fabric, ring(fabric), subflows=0)


def test_spray_that_does_not_fit_is_refused_before_it_is_built(monkeypatch):
    fabric = topologies.build("fat_tree", k=4)
    monkeypatch.setenv("FABRICLAB_MEMORY", "1 kB")
    with pytest.raises(TooLarge, match=r"spraying .*ecmp"):
        routing.route(fabric, all_pairs(fabric), "spray")


# what the tiers do not settle ---------------------------------------------------------------------
@pytest.mark.parametrize("family", SMALL)
def test_ends_inside_the_network_are_routed_too(family):
    fabric = topologies.build(family, **SMALL[family])
    rng = np.random.default_rng(0)
    ends = rng.integers(0, fabric.n_nodes, (60, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    oracle = doubled(fabric)
    reached = []  # indices of ends between which there is a path
    hops = []
    for i, (a, b) in enumerate(ends.tolist()):
        here, there = (x if fabric.transit[x] else (side, x) for side, x in (("out", a), ("in", b)))
        if nx.has_path(oracle, here, there):
            reached.append(i)
            hops.append(nx.shortest_path_length(oracle, here, there))
            continue
        for method in MINIMAL:
            with pytest.raises(NoPath):
                routing.route(fabric, Flows.make(a, b, 1.0), method)
    flows = Flows.make(*ends[reached].T, 1.0)
    for method in MINIMAL:
        routes = routing.route(fabric, flows, method)
        check_routes(routes, fabric, flows)
        assert np.unique(routes.flow).tolist() == list(range(len(reached)))
        assert routes.hops() == pytest.approx(np.array(hops)[routes.flow])
        # Alone, a flow is routed as among others.
        for flow in range(3):
            alone = routing.route(fabric, Flows.make(*ends[reached[flow]], 1.0), method)
            assert alone.hops() == pytest.approx(hops[flow])


def test_two_planes_share_the_traffic():
    b = FabricBuilder(("host", "leaf"), ("i",))
    host = b.add_nodes("host", 4, tier=0, transit=False, i=range(4))
    leaves = b.add_nodes("leaf", 2, tier=1, transit=True, i=range(2))
    for leaf in leaves:
        b.add_cables(host, leaf, capacity=1e9)
    fabric = b.build("planes", {}, endpoint=host, rail=[0] * 4, server=range(4))
    routes = routing.route(fabric, Flows.make(0, 3, 1.0), "spray")
    assert sorted(routes.use) == [0.5] * 4
    paths = routing.route(fabric, Flows.make(0, 3, 1.0), subflows=64)
    assert set(fabric.target[paths.link[paths.ptr[:-1]]]) == set(leaves)


def valley(hosts, lower, upper, seed):
    """Return hosts on switches of tier 1 that meet over switches below them and, perhaps, above."""
    b, rng = (
        FabricBuilder(("host", "lower", "middle", "upper"), ("index",)),
        np.random.default_rng(seed),
    )
    ends = b.add_nodes("host", hosts, tier=0, transit=False, index=np.arange(hosts))
    below = b.add_nodes("lower", lower, tier=0, transit=True, index=np.arange(lower))
    middle = b.add_nodes("middle", hosts, tier=1, transit=True, index=np.arange(hosts))
    above = b.add_nodes("upper", upper, tier=2, transit=True, index=np.arange(upper))
    b.add_cables(ends, middle[rng.integers(0, hosts, hosts)], capacity=1e9)
    for others in (below, above):
        b.add_cables(np.repeat(others, hosts), np.tile(middle, others.size), capacity=1e9)
    return b.build("valley", {}, endpoint=ends, rail=np.zeros(hosts), server=np.arange(hosts))


@pytest.mark.parametrize("method", ["spray", "ecmp", "d_mod_k"])
@given(st.integers(2, 5), st.integers(1, 2), st.integers(0, 2), st.integers(0, 99))
def test_switches_that_meet_below_their_hosts_are_searched(method, hosts, lower, upper, seed):
    """Going down and up again is no way of a Clos: read off the tiers such a way has no end."""
    fabric = valley(hosts, lower, upper, seed)
    source, target = (~np.eye(hosts, dtype=bool)).nonzero()
    routes = routing.route(
        fabric, Flows.make(fabric.endpoint[source], fabric.endpoint[target], 1.0), method
    )
    graph = fabric.to_networkx()
    wanted = [
        nx.shortest_path_length(graph, a, b)
        for a, b in fabric.endpoint[np.stack([source, target], 1)].tolist()
    ]
    assert np.add.reduceat(routes.use, routes.ptr[:-1]) == pytest.approx(wanted)


def test_ways_are_freed_with_their_fabric():
    fabric = topologies.build("crossbar", hosts=4)
    routing.route(fabric, ring(fabric))
    watch = weakref.ref(fabric)
    del fabric
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize("method", ["spray", "ecmp"])
def test_no_path_climbs_to_a_nic_whose_cable_has_failed(method):
    """Two servers, each with a PCIe switch and two NICs at one leaf. The first NIC of the first server is dead."""
    b = FabricBuilder(("host", "pcie", "nic", "leaf"), ("server",))
    server = np.arange(2)
    host = b.add_nodes("host", 2, tier=0, transit=False, server=server)
    pcie = b.add_nodes("pcie", 2, tier=1, transit=True, server=server)
    nic = b.add_nodes("nic", 4, tier=2, transit=True, server=np.repeat(server, 2))
    leaf = b.add_nodes("leaf", 1, tier=3, transit=True)
    b.add_cables(host, pcie, capacity=1e9)
    b.add_cables(np.repeat(pcie, 2), nic, capacity=1e9)
    b.add_cables(nic, np.repeat(leaf, 4), capacity=1e9)
    whole = b.build("pair", {}, endpoint=host, rail=np.zeros(2), server=server)
    cable = [*whole.links_between(nic[0], leaf[0]), *whole.links_between(leaf[0], nic[0])]
    for seed in range(8):
        routes = routing.route(
            whole.without(links=cable), Flows.make(host[0], host[1], 1.0), method, seed=seed
        )
        arrives = whole.target[routes.link] == host[1]
        assert routes.use[arrives].sum() == pytest.approx(1.0)
        assert not np.any(whole.target[routes.link] == nic[0])
