"""Dragonfly routings and choices by load: numbers by hand, linear programs as oracle, laws, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from fabriclab import engines, metrics, routing, topologies
from fabriclab.core import Flows
from fabriclab.core._arrays import rows_of
from fabriclab.errors import NoPath

CASE = topologies.build("dragonfly", p=4, a=8, h=4)  # 1,056 hosts in 33 groups of 32
SMALL = topologies.build("dragonfly", p=2, a=4, h=2)  # 72 hosts in 9 groups of 8
MODES = ("minimal", "valiant", "ugal_l", "ugal_g")


def shift(fabric, by):
    """Return flows of one byte from each rank to the one ``by`` further on."""
    ends = fabric.endpoint
    return Flows.make(ends, np.roll(ends, -by), 1.0)


def permutation(fabric, seed):
    ends = fabric.endpoint
    return Flows.make(ends, ends[np.random.default_rng(seed).permutation(ends.size)], 1.0)


def load(fabric, flows, routes):
    return routes.link_bytes(flows, fabric.n_links)


def fullest(fabric, flows, method):
    return load(fabric, flows, routing.route(fabric, flows, method)).max()


def best_possible(fabric, flows):
    """Return the least load of the fullest link for any shares of the direct way and the detour, by linear program."""
    direct, detour = (routing.route(fabric, flows, m) for m in ("minimal", "valiant"))
    n = flows.n_flows
    table = np.zeros((fabric.n_links, 2 * n))
    for k, routes in enumerate((direct, detour)):
        np.add.at(table, (routes.link, k * n + routes.flow[rows_of(routes.ptr)]), routes.use)
    rows = np.hstack([table, -np.ones((fabric.n_links, 1))])
    whole = np.hstack([np.eye(n), np.eye(n), np.zeros((n, 1))])
    cost = np.append(np.zeros(2 * n), 1)
    return linprog(cost, A_ub=rows, b_ub=np.zeros(fabric.n_links), A_eq=whole, b_eq=np.ones(n)).fun


# by hand ------------------------------------------------------------------------------------------
def test_each_group_to_the_next_by_hand():
    flows = shift(CASE, 32)
    assert fullest(CASE, flows, "minimal") == pytest.approx(32)  # 32 hosts over one cable
    # Each of 31 other groups gets 1/31 of the traffic of 32 hosts over each cable, twice: to it and on from it.
    assert fullest(CASE, flows, "valiant") == pytest.approx(2 * 32 / 31)


def test_a_pair_by_hand():
    """From switch 0 of group 0, whose cables lead to groups 1 and 2, to switch 1 of group 8."""
    one, other = (int(SMALL.endpoint[r]) for r in (0, 8 * 8 + 2))
    routes = routing.route(SMALL, Flows.make([one], [other], 1.0), "minimal")
    gate = [x for x in np.flatnonzero(SMALL.transit[SMALL.source] & SMALL.transit[SMALL.target])
            if SMALL.name(int(SMALL.source[x])).startswith("switch 0.")
            and SMALL.name(int(SMALL.target[x])).startswith("switch 8.")]  # fmt: skip
    assert len(gate) == 1
    assert gate[0] in routes.link
    assert routes.use == pytest.approx(np.ones(routes.link.size))
    assert 3 <= routes.link.size <= 5


def test_a_detour_leaves_both_groups_out():
    flows = Flows.make(SMALL.endpoint[[0]], SMALL.endpoint[[8 * 4]], 1.0)
    routes = routing.route(SMALL, flows, "valiant")
    group = SMALL.coord[:, SMALL.coord_names.index("group")]
    across = group[SMALL.source[routes.link]] != group[SMALL.target[routes.link]]
    pairs = {(int(group[SMALL.source[x]]), int(group[SMALL.target[x]])) for x in routes.link[across]}
    assert pairs == {(0, g) for g in range(9) if g not in (0, 4)} | {(g, 4) for g in range(9) if g not in (0, 4)}
    assert routes.use[across] == pytest.approx(np.full(14, 1 / 7))


def test_a_local_choice_is_worse_than_a_global_one():
    """The first link of the direct way says little of the cable behind it (Kim et al. 2008)."""
    flows = shift(CASE, 32)
    direct, detour, local, whole = (fullest(CASE, flows, m) for m in MODES)
    assert whole < local < direct
    assert whole < 1.1 * detour


def test_with_little_to_gain_the_way_is_direct():
    for method in ("ugal_l", "ugal_g"):
        flows = shift(SMALL, 1)
        one = Flows.make(flows.source[:1], flows.target[30:31], 1.0)
        routes = routing.route(SMALL, one, method)
        assert routes.n_rows == 1
        assert routes.link.size <= 5


# laws ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", MODES)
@given(seed=st.integers(0, 10**6), groups=st.integers(2, 9), p=st.integers(0, 2))
def test_routes_obey_the_law_and_lanes_break_all_circles(method, seed, groups, p):
    fabric = topologies.build("dragonfly", p=p, a=4, h=2, groups=groups)
    flows = permutation(fabric, seed)
    routes = routing.route(fabric, flows, method)
    routes.check(fabric, flows)
    assert routing.deadlock(fabric, routes, routing.lanes(fabric, flows, routes, method)) == ()


def test_one_lane_has_a_circle():
    flows = shift(SMALL, 8)
    for method in ("minimal", "valiant"):
        circle = routing.deadlock(SMALL, routing.route(SMALL, flows, method))
        assert len(circle) > 1
        for link, following in zip(circle, np.roll(circle, -1), strict=True):
            assert SMALL.target[link] == SMALL.source[following]


@given(seed=st.integers(0, 10**6))
def test_the_global_choice_is_near_the_best_shares(seed):
    for flows in (permutation(SMALL, seed), shift(SMALL, 8 * (seed % 8 + 1))):
        assert best_possible(SMALL, flows) <= fullest(SMALL, flows, "ugal_g") * (1 + 1e-9)
        assert fullest(SMALL, flows, "ugal_g") <= 1.15 * best_possible(SMALL, flows)


def test_settled_shares_have_nothing_left_to_gain():
    flows = shift(CASE, 32)
    for method in ("ugal_l", "ugal_g", "adaptive"):
        found = routing.settled(CASE, flows, method)
        assert 1 < found.iterations < 1000
        assert 0 <= found.change < 2e-3
        assert np.bincount(found.routes.flow, found.routes.share) == pytest.approx(np.ones(flows.n_flows))
    plain = routing.settled(CASE, flows, "ecmp")
    assert (plain.iterations, plain.change) == (0, 0.0)


def test_flowlets_spread_almost_as_well_as_packets():
    fabric = topologies.build("leaf_spine", hosts=1024, radix=64)
    flows = permutation(fabric, 0)
    assert fullest(fabric, flows, "ecmp") > 3
    assert fullest(fabric, flows, "spray") == pytest.approx(1)
    assert fullest(fabric, flows, "adaptive") < 1.15


def test_the_engine_takes_settled_routes():
    flows = Flows.make(SMALL.endpoint, np.roll(SMALL.endpoint, -8), "1 GB")
    times = {m: engines.run(SMALL, routing.route(SMALL, flows, m), flows).end for m in MODES}
    assert times["ugal_g"] < times["minimal"] / 2


def test_the_same_flows_give_the_same_routes_in_any_order():
    flows = permutation(SMALL, 3)
    back = Flows.make(flows.source[::-1], flows.target[::-1], 1.0)
    for method in MODES:
        there, here = (load(SMALL, f, routing.route(SMALL, f, method)) for f in (flows, back))
        assert there == pytest.approx(here, rel=0.02, abs=0.02)


# refusals -----------------------------------------------------------------------------------------
def test_groups_are_needed():
    tree = topologies.build("fat_tree", k=4)
    with pytest.raises(ValueError, match=r"needs groups of routers, as the family dragonfly has; got 'fat_tree'"):
        routing.route(tree, shift(tree, 1), "minimal")


def groups_of(fabric):
    return fabric.coord[:, fabric.coord_names.index("group")]


def inner_links(fabric, within):
    """Return the links between switches of one group, or of two."""
    inner = np.flatnonzero(fabric.transit[fabric.source] & fabric.transit[fabric.target])
    group = groups_of(fabric)
    return inner[(group[fabric.source[inner]] == group[fabric.target[inner]]) == within]


@pytest.mark.parametrize("method", MODES)
@given(seed=st.integers(0, 10**6))
def test_failed_cables_are_left_out(method, seed):
    rng = np.random.default_rng(seed)
    dead = [rng.choice(inner_links(SMALL, within)) // 2 for within in (True, False)]
    hurt, flows = SMALL.without(cables=dead), permutation(SMALL, seed)
    routes = routing.route(hurt, flows, method)
    routes.check(hurt, flows)
    assert np.all(hurt.capacity[routes.link] > 0)


def test_a_failed_cable_by_hand():
    local = next(x for x in inner_links(SMALL, True) if SMALL.link_name(int(x)) == "switch 0.0 -> switch 0.1")
    one = Flows.make(SMALL.endpoint[[0]], SMALL.endpoint[[2]], 1.0)
    routes = routing.route(SMALL.without(cables=[local // 2]), one, "minimal")
    names = {SMALL.link_name(int(x)): u for x, u in zip(routes.link, routes.use, strict=True)}
    assert names == {"host 0.0.0 -> switch 0.0": 1, "switch 0.1 -> host 0.1.0": 1} | {
        f"switch 0.{a} -> switch 0.{b}": 0.5 for a, b in ((0, 2), (2, 1), (0, 3), (3, 1))}  # fmt: skip
    across = next(x for x in inner_links(SMALL, False) if SMALL.link_name(int(x)).endswith("switch 1.3"))
    hurt = SMALL.without(cables=[across // 2])
    flows = Flows.make(SMALL.endpoint[[0]], SMALL.endpoint[[8]], 1.0)
    ways = [routing.route(hurt, flows, m) for m in ("minimal", "valiant")]
    assert np.array_equal(ways[0].link, ways[1].link)
    group = groups_of(SMALL)
    assert not np.any((group[SMALL.source[ways[0].link]] == 0) & (group[SMALL.target[ways[0].link]] == 1))


@pytest.mark.parametrize("method", MODES)
def test_a_dragonfly_plus_is_served_too(method):
    fabric = topologies.build("dragonfly_plus", hosts=2, leaves=3, spines=2, h=2)
    flows = permutation(fabric, 1)
    routes = routing.route(fabric, flows, method)
    routes.check(fabric, flows)
    assert routing.deadlock(fabric, routes, routing.lanes(fabric, flows, routes, method)) == ()
    if method == "minimal":
        assert routes.hops().max() == 5


def test_all_pairs_of_the_case_fit():
    """Ways are found once for each pair of switches; 16 pairs of hosts share them."""
    fabric = topologies.build("dragonfly", p=4, a=4, h=2)
    flows = metrics.uniform(fabric)
    load = routing.route(fabric, flows, "valiant").link_bytes(flows, fabric.n_links)
    some = np.flatnonzero(np.isin(flows.source, fabric.endpoint[:1]))
    few = Flows.make(flows.source[some], flows.target[some], flows.size[some])
    alone = routing.route(fabric, few, "valiant").link_bytes(few, fabric.n_links)
    assert np.all(alone <= load * (1 + 1e-9))
    assert load.sum() == pytest.approx(fabric.n_ranks * alone.sum())


def test_an_end_that_is_cut_off_is_named():
    flows = shift(SMALL, 8)
    with pytest.raises(NoPath, match=r"no path from host 0\.0\.0 to host 1\.0\.0"):
        routing.route(SMALL.without(cables=[0]), flows, "valiant")
    alone = SMALL.without(links=[x for x in inner_links(SMALL, False) if groups_of(SMALL)[SMALL.target[x]] == 1])
    with pytest.raises(NoPath, match=r"no path from switch 0\.0 to switch 1\.0"):
        routing.route(alone, flows, "minimal")


def test_a_node_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"target of a flow must be within 0\.\.107, got 999"):
        routing.route(SMALL, Flows.make([0], [999], 1.0))


def test_a_strange_cost_is_refused():
    flows = shift(SMALL, 1)
    with pytest.raises(ValueError, match=r'cost must be "global".*got "far"|got \'far\''):
        routing.settle(SMALL, flows, routing.route(SMALL, flows), "far")
