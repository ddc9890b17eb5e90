"""Dragonfly routings and choices by load: numbers by hand, best and least-cost shares as oracles, laws, refusals."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import engines, metrics, routing, topologies
from fabriclab.core import Flows, Routes
from fabriclab.errors import NoPath
from fabriclab.routing.ecmp import expected_fullest
from support.oracles.routes import check_routes
from support.oracles.shares import best_possible, least_cost, left_to_gain, load, potential

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


def fullest(fabric, flows, method):
    return load(fabric, flows, routing.route(fabric, flows, method)).max()


# by hand ------------------------------------------------------------------------------------------
def test_each_group_to_the_next_by_hand():
    flows = shift(CASE, 32)
    assert fullest(CASE, flows, "minimal") == pytest.approx(32)  # 32 hosts over one cable
    # Each of 31 other groups gets 1/31 of the traffic of 32 hosts over each cable, twice: to it and on from it.
    assert fullest(CASE, flows, "valiant") == pytest.approx(2 * 32 / 31)


def names_of(fabric, routes):
    return [fabric.link_name(int(x)) for x in routes.link]


def test_a_pair_by_hand():
    """Port j of a group leads to group g + j + 1: of group 0 the last, on switch 3, to 8; of group 8 the first to 0."""
    one, other = (int(SMALL.endpoint[r]) for r in (0, 8 * 8 + 2))
    routes = routing.route(SMALL, Flows.make([one], [other], 1.0), "minimal")
    way = ["host 0.0.0", "switch 0.0", "switch 0.3", "switch 8.0", "switch 8.1", "host 8.1.0"]
    assert sorted(names_of(SMALL, routes)) == sorted(
        f"{a} -> {b}" for a, b in itertools.pairwise(way)
    )
    assert routes.use.tolist() == [1] * 5


def test_a_switch_takes_its_own_cable_by_hand():
    """In 3 groups each switch has a cable to the one of its number in both others."""
    fabric = topologies.build("dragonfly", p=1, a=4, h=2, groups=3)
    routes = routing.route(
        fabric, Flows.make(fabric.endpoint[[0]], fabric.endpoint[[6]], 1.0), "minimal"
    )
    way = ["host 0.0.0", "switch 0.0", "switch 1.0", "switch 1.2", "host 1.2.0"]
    assert sorted(names_of(fabric, routes)) == sorted(
        f"{a} -> {b}" for a, b in itertools.pairwise(way)
    )
    assert routes.use.tolist() == [1] * 4


def test_a_detour_leaves_both_groups_out():
    flows = Flows.make(SMALL.endpoint[[0]], SMALL.endpoint[[8 * 4]], 1.0)
    routes = routing.route(SMALL, flows, "valiant")
    group = SMALL.coord[:, SMALL.coord_names.index("group")]
    across = group[SMALL.source[routes.link]] != group[SMALL.target[routes.link]]
    pairs = {
        (int(group[SMALL.source[x]]), int(group[SMALL.target[x]])) for x in routes.link[across]
    }
    assert pairs == {(0, g) for g in range(9) if g not in (0, 4)} | {
        (g, 4) for g in range(9) if g not in (0, 4)
    }
    assert routes.use[across] == pytest.approx(np.full(14, 1 / 7))


def test_a_local_choice_is_worse_than_a_global_one():
    """The first link of the direct way says little of the cable behind it (Kim et al. 2008)."""
    flows = shift(CASE, 32)
    direct, detour, local, whole = (load(CASE, flows, routing.route(CASE, flows, m)) for m in MODES)
    # Of 32 flows s go by the one direct cable, and each of 31 others has 2 / 31 of the rest: alike at s = 64 / 33.
    assert 64 / 33 <= whole.max() < local.max() < direct.max()
    assert potential(whole) < min(map(potential, (direct, detour, local)))


@pytest.mark.parametrize("method", ["ugal_l", "ugal_g"])
def test_with_little_to_gain_the_way_is_direct(method):
    """To switch 3 of group 3: port 2 of group 0 is on switch 1 and meets port 9 - 3 - 1 = 5 of group 3, on switch 2."""
    one = Flows.make(SMALL.endpoint[:1], SMALL.endpoint[31:32], 1.0)
    routes = routing.route(SMALL, one, method)
    way = ["host 0.0.0", "switch 0.0", "switch 0.1", "switch 3.2", "switch 3.3", "host 3.3.1"]
    assert sorted(names_of(SMALL, routes)) == sorted(
        f"{a} -> {b}" for a, b in itertools.pairwise(way)
    )
    assert (routes.n_rows, routes.share.tolist(), routes.use.tolist()) == (1, [1], [1] * 5)


def test_a_lane_is_the_number_of_global_links_before_it():
    """Of the pair above: none before it in group 0, two in group 3 after a detour over any other group."""
    flows = Flows.make(SMALL.endpoint[:1], SMALL.endpoint[31:32], 1.0)
    lane = {}
    for method in ("minimal", "valiant"):
        routes = routing.route(SMALL, flows, method)
        lanes = routing.lanes(SMALL, flows, routes, method).tolist()
        lane[method] = dict(zip(names_of(SMALL, routes), lanes, strict=True))
    assert lane["minimal"] == {
        "host 0.0.0 -> switch 0.0": 0,
        "switch 0.0 -> switch 0.1": 0,
        "switch 0.1 -> switch 3.2": 0,
        "switch 3.2 -> switch 3.3": 1,
        "switch 3.3 -> host 3.3.1": 1,
    }
    assert lane["valiant"]["host 0.0.0 -> switch 0.0"] == 0
    assert lane["valiant"]["switch 3.3 -> host 3.3.1"] == 2
    for name, number in lane["valiant"].items():
        groups = [int(end.split()[1].split(".")[0]) for end in name.split(" -> ")]
        assert number == {0: 0, 3: 2}.get(groups[0], 1)


@pytest.mark.parametrize(("method", "most"), [("minimal", 2), ("valiant", 3)])
def test_direct_paths_need_two_lanes_and_detours_three(method, most):
    """So do the virtual channels of Kim et al. 2008."""
    flows = permutation(SMALL, 0)
    routes = routing.route(SMALL, flows, method)
    assert set(routing.lanes(SMALL, flows, routes, method).tolist()) == set(range(most))


# laws ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", MODES)
@given(seed=st.integers(0, 10**6), groups=st.integers(2, 9), p=st.integers(0, 2))
def test_routes_obey_the_law_and_lanes_break_all_circles(method, seed, groups, p):
    fabric = topologies.build("dragonfly", p=p, a=4, h=2, groups=groups)
    flows = permutation(fabric, seed)
    routes = routing.route(fabric, flows, method)
    check_routes(routes, fabric, flows)
    assert routing.deadlock(fabric, routes, routing.lanes(fabric, flows, routes, method)) == ()


def test_one_lane_has_a_circle():
    flows = shift(SMALL, 8)
    for method in ("minimal", "valiant"):
        circle = routing.deadlock(SMALL, routing.route(SMALL, flows, method))
        assert len(circle) > 1
        for link, following in zip(circle, np.roll(circle, -1), strict=True):
            assert SMALL.target[link] == SMALL.source[following]


@given(seed=st.integers(0, 10**6))
def test_the_global_choice_lies_between_the_best_shares_and_each_way_alone(seed):
    for flows in (permutation(SMALL, seed), shift(SMALL, 8 * (seed % 8 + 1))):
        direct, detour, _, whole = (
            load(SMALL, flows, routing.route(SMALL, flows, m)) for m in MODES
        )
        assert best_possible(SMALL, flows) * (1 - 1e-9) <= whole.max()
        assert potential(whole) < min(potential(direct), potential(detour))


@pytest.mark.parametrize("by", [None, 8, 16, 32])
def test_the_global_choice_is_that_of_the_least_potential(by, monkeypatch):
    """Its rounds come as near as they are told to: here 0.001% is left to gain."""
    flows = permutation(SMALL, 0) if by is None else shift(SMALL, by)
    rows = [routing.route(SMALL, flows, m) for m in ("minimal", "valiant")]
    ways = Routes(
        ptr=np.append(rows[0].ptr, rows[0].ptr[-1] + rows[1].ptr[1:]),
        **{
            k: np.concatenate([getattr(r, k) for r in rows])
            for k in ("link", "use", "flow", "share", "delay", "kind", "adaptive")
        },
    )
    monkeypatch.setattr(routing, "_REST", 1e-5)
    monkeypatch.setattr(routing, "_ROUNDS", 20_000)
    found = load(SMALL, flows, routing.settle(SMALL, flows, ways).routes)
    least = least_cost(SMALL, flows)
    assert potential(least) <= potential(found) * (1 + 1e-9)
    assert potential(found) == pytest.approx(potential(least), rel=1e-4)
    assert found.max() == pytest.approx(least.max(), rel=1e-3)


@pytest.mark.parametrize("method", ["ugal_l", "ugal_g", "adaptive"])
def test_settled_shares_have_nothing_left_to_gain(method):
    """What is left is reckoned again, row by row, from the loads of the settled routes."""
    for fabric, flows in ((CASE, shift(CASE, 32)), (SMALL, permutation(SMALL, 0))):
        found = routing.settled(fabric, flows, method)
        # so that no share is below 1 / 1000, where a row is left out
        assert 1 < found.iterations < 999
        assert np.bincount(found.routes.flow, found.routes.share, flows.n_flows) == pytest.approx(
            (flows.source != flows.target).astype(float)
        )
        ways = (
            [routing.route(fabric, flows, "ecmp", subflows=8)]
            if method == "adaptive"
            else [routing.route(fabric, flows, m) for m in ("minimal", "valiant")]
        )
        left = left_to_gain(fabric, flows, found.routes, ways, method == "ugal_l")
        assert 0 <= left < 0.002
        assert left == pytest.approx(found.change, rel=1e-6)


def test_a_choice_without_load_needs_no_rounds():
    plain = routing.settled(CASE, shift(CASE, 32), "ecmp")
    assert (plain.iterations, plain.change) == (0, 0.0)


def test_flowlets_spread_almost_as_well_as_packets():
    fabric = topologies.build("leaf_spine", hosts=1024, radix=64)
    flows = permutation(fabric, 0)
    assert fullest(fabric, flows, "spray") == pytest.approx(1)
    # the same 8 paths, unchosen
    alike = load(fabric, flows, routing.route(fabric, flows, "ecmp", subflows=8)).max()
    assert 1 <= fullest(fabric, flows, "adaptive") < alike < fullest(fabric, flows, "ecmp")
    # A leaf draws a spine for each of its 32 flows, and 32 leaves do.
    assert fullest(fabric, flows, "ecmp") > expected_fullest(32, 32)


def test_the_engine_takes_settled_routes():
    """The fullest link works from beginning to end; a flow is there after the latency of its way."""
    flows = Flows.make(SMALL.endpoint, np.roll(SMALL.endpoint, -8), "1 GB")
    for method in MODES:
        routes = routing.route(SMALL, flows, method)
        busy = np.max(load(SMALL, flows, routes) / SMALL.capacity)
        assert busy <= engines.run(SMALL, routes, flows).end <= busy + routes.delay.max()


def test_the_same_flows_give_the_same_routes_in_any_order():
    flows = permutation(SMALL, 3)
    back = Flows.make(flows.source[::-1], flows.target[::-1], 1.0)
    for method in MODES:
        there, here = (load(SMALL, f, routing.route(SMALL, f, method)) for f in (flows, back))
        assert there == pytest.approx(here, rel=1e-9, abs=1e-9)


# refusals -----------------------------------------------------------------------------------------
def test_groups_are_needed():
    tree = topologies.build("fat_tree", k=4)
    with pytest.raises(ValueError, match=r"needs groups of routers \(dragonfly\), got 'fat_tree'"):
        routing.route(tree, shift(tree, 1), "minimal")


def groups_of(fabric):
    return fabric.coord[:, fabric.coord_names.index("group")]


def inner_links(fabric, within):
    """Return the links between switches of one group, or of two."""
    inner = np.flatnonzero(fabric.transit[fabric.source] & fabric.transit[fabric.target])
    group = groups_of(fabric)
    return inner[(group[fabric.source[inner]] == group[fabric.target[inner]]) == within]


HURT = {
    "a=4": SMALL,
    "a=2": topologies.build("dragonfly", p=1, a=2, h=2),
    "dragonfly_plus": topologies.build("dragonfly_plus", hosts=2, leaves=3, spines=2, h=2),
}


@pytest.mark.parametrize("method", MODES)
@given(seed=st.integers(0, 10**6), which=st.sampled_from([*HURT]), n=st.integers(1, 3))
def test_failed_cables_are_left_out(method, seed, which, n):
    """Where a way is left, it is found, or the refusal says which routing finds it."""
    fabric, rng = HURT[which], np.random.default_rng(seed)
    inner = np.concatenate([inner_links(fabric, within) for within in (True, False)])
    hurt = fabric.without(cables=rng.choice(np.unique(inner // 2), n, replace=False))
    left, live = nx.Graph(), hurt.capacity > 0
    left.add_edges_from(zip(hurt.source[live].tolist(), hurt.target[live].tolist(), strict=True))
    for source, target in rng.choice(hurt.endpoint, (4, 2)).tolist():
        one = Flows.make([source], [target], 1.0)
        try:
            routes = routing.route(hurt, one, method)
        except NoPath as error:
            assert not nx.has_path(left, source, target) or "by ecmp" in str(error)
            # Fewer leave two links between all switches of 4, and one leaf of a dragonfly+ half of the other groups.
            assert n >= {"a=4": 3, "a=2": 1, "dragonfly_plus": 2}[which]
        else:
            check_routes(routes, hurt, one)
            assert np.all(hurt.capacity[routes.link] > 0)


@pytest.mark.parametrize("method", MODES)
def test_a_group_out_of_reach_of_a_gate_is_passed_by(method):
    """One cable of a leaf to a spine is dead: both spines of another leaf lead on, and all groups are reached."""
    fabric = HURT["dragonfly_plus"]
    leaf, spine = fabric.nodes("leaf")[0], fabric.nodes("spine")[0]
    dead = np.flatnonzero((fabric.source == leaf) & (fabric.target == spine)) // 2
    hurt, ends = fabric.without(cables=dead), fabric.endpoint
    flows = Flows.make(
        np.append(np.full(29, ends[0]), ends[1:]), np.append(ends[1:], np.full(29, ends[0])), 1.0
    )
    routes = routing.route(hurt, flows, method)
    check_routes(routes, hurt, flows)
    assert np.all(hurt.capacity[routes.link] > 0)
    with pytest.raises(NoPath, match=r"from switch 0\.0 to switch 0\.1: .*route by ecmp"):
        apart = HURT["a=2"].without(cables=inner_links(HURT["a=2"], True)[:1] // 2)
        routing.route(apart, Flows.make(apart.endpoint[:1], apart.endpoint[1:2], 1.0), method)


def test_a_failed_cable_by_hand():
    local = next(
        x for x in inner_links(SMALL, True) if SMALL.link_name(int(x)) == "switch 0.0 -> switch 0.1"
    )
    one = Flows.make(SMALL.endpoint[[0]], SMALL.endpoint[[2]], 1.0)
    routes = routing.route(SMALL.without(cables=[local // 2]), one, "minimal")
    names = {SMALL.link_name(int(x)): u for x, u in zip(routes.link, routes.use, strict=True)}
    assert names == {"host 0.0.0 -> switch 0.0": 1, "switch 0.1 -> host 0.1.0": 1} | {
        f"switch 0.{a} -> switch 0.{b}": 0.5 for a, b in ((0, 2), (2, 1), (0, 3), (3, 1))
    }
    across = next(
        x for x in inner_links(SMALL, False) if SMALL.link_name(int(x)).endswith("switch 1.3")
    )
    hurt = SMALL.without(cables=[across // 2])
    flows = Flows.make(SMALL.endpoint[[0]], SMALL.endpoint[[8]], 1.0)
    ways = [routing.route(hurt, flows, m) for m in ("minimal", "valiant")]
    assert np.array_equal(ways[0].link, ways[1].link)
    group = groups_of(SMALL)
    assert not np.any(
        (group[SMALL.source[ways[0].link]] == 0) & (group[SMALL.target[ways[0].link]] == 1)
    )


@pytest.mark.parametrize("method", MODES)
def test_a_dragonfly_plus_is_served_too(method):
    fabric = topologies.build("dragonfly_plus", hosts=2, leaves=3, spines=2, h=2)
    flows = permutation(fabric, 1)
    routes = routing.route(fabric, flows, method)
    check_routes(routes, fabric, flows)
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
    alone = SMALL.without(
        links=[x for x in inner_links(SMALL, False) if groups_of(SMALL)[SMALL.target[x]] == 1]
    )
    with pytest.raises(NoPath, match=r"no path from switch 0\.0 to switch 1\.0"):
        routing.route(alone, flows, "minimal")


def test_a_node_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"target of a flow must be within 0\.\.107, got 999"):
        routing.route(SMALL, Flows.make([0], [999], 1.0))


def test_a_strange_cost_is_refused():
    flows = shift(SMALL, 1)
    with pytest.raises(ValueError, match="cost must be one of global, local, got 'far'"):
        routing.settle(SMALL, flows, routing.route(SMALL, flows), "far")
