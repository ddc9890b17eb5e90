"""Traffic engineering, updates, tenants, controller and policies on cases that were counted by hand."""

import itertools
import sys
import tomllib

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import sdn
from fabriclab.core import Changes, FabricBuilder, Flows
from fabriclab.errors import FileFormat, NoPath, TooLarge
from fabriclab.sdn import trials
from fabriclab.sdn._toml_lines import lines_of
from fabriclab.sdn.neighbours import time_of_small
from fabriclab.sdn.oblivious import _by_program, _clos, _closed_form, _hose, _worst


def diamond(rate=50e9):
    """Return s - a - d and s - b - d, in which s has two cables."""
    b = FabricBuilder(("s", "a", "b", "d"), ())
    for name, tier in (("s", 0), ("a", 1), ("b", 1), ("d", 0)):
        b.add_nodes(name, 1, tier=tier, transit=tier > 0)
    b.add_cables([0, 0, 1, 2], [1, 2, 3, 3], capacity=rate)
    return b.build("custom", {}, endpoint=[0, 3], rail=[0, 0], server=[0, 1])


def clos():
    return fl.topologies.build("leaf_spine", hosts=16, radix=8)  # 4 leaves, 2 spines, 2 cables each


def mesh():
    return fl.topologies.build("full_mesh", switches=4, hosts=2)


# Traffic engineering


def test_a_mesh_whose_neighbours_talk_uses_detours_and_the_dual_proves_it():
    # 4 switches with 2 hosts; all of switch i sends to switch i + 1: 100 GB/s, of which any cut round a switch passes
    # 3 cables of 50 GB/s, so no routes are below 2/3; one third goes straight and the rest over the two others.
    fabric = mesh()
    best = sdn.engineer(fabric, fl.metrics.shift(fabric, 2))
    assert best.is_proven
    assert best.utilisation == pytest.approx(1.0)  # the cables of the hosts are full
    equal = sdn.utilisation(fabric, sdn.loads(fabric, sdn.shortest(fabric), best.flows))
    assert equal == pytest.approx(2.0)


def test_the_bound_is_found_without_the_solver():
    import networkx as nx

    fabric = fl.topologies.build("full_mesh", switches=6, hosts=4)
    best = sdn.engineer(fabric, fl.metrics.shift(fabric, 4))
    assert best.utilisation == pytest.approx(
        4 / 3
    )  # 200 GB/s leave a switch by 3 of 5 cables' worth: 20 / 15
    graph = nx.DiGraph()
    for link in range(fabric.n_links):
        a, b = int(fabric.source[link]), int(fabric.target[link])
        graph.add_edge(a, b, price=float(best.price[link]))
    paid = 0.0
    for s, t, rate in zip(best.flows.source, best.flows.target, best.flows.size, strict=True):
        paid += rate * nx.dijkstra_path_length(graph, int(s), int(t), "price")
    bound = paid / float(best.price @ fabric.capacity)
    assert bound == pytest.approx(best.utilisation, rel=1e-6)
    assert best.bound == pytest.approx(bound, rel=1e-12)
    assert best.bottlenecks()


def test_prices_that_are_not_optimal_give_a_lower_bound():
    fabric = mesh()
    flows = fl.metrics.shift(fabric, 2)
    best = sdn.engineer(fabric, flows)
    rng = np.random.default_rng(3)
    for _ in range(5):
        assert sdn.lower_bound(fabric, flows, rng.random(fabric.n_links)) <= best.utilisation * (
            1 + 1e-9
        )


def test_the_flow_engine_needs_as_long_as_the_optimum_says():
    fabric = fl.topologies.build("dragonfly", p=1, a=3, h=1)
    best = sdn.engineer(fabric, fl.metrics.shift(fabric, 3))
    timeline = fl.run(fabric, best.routes, best.flows)
    assert timeline.end == pytest.approx(max(1.0, best.utilisation), rel=1e-4)
    assert np.allclose(best.routes.link_bytes(best.flows, fabric.n_links), best.load())


def test_a_healthy_clos_has_nothing_to_gain_and_throughput_says_the_same():
    fabric = fl.topologies.build("leaf_spine", hosts=24, radix=8, oversubscription=3)
    flows = fl.metrics.shift(fabric, 6)
    best = sdn.engineer(fabric, flows)
    assert best.part == pytest.approx(fl.metrics.throughput(fabric, flows).part)
    table = sdn.compare(fabric, flows, seeds=3)
    assert table["optimum"] == pytest.approx(table["equal split"])
    assert table["any traffic"] == pytest.approx(3.0)
    assert table["optimum"] <= table["hash, best"] <= table["hash, worst"]
    assert "linear program" in repr(table)


def test_a_drained_spine_is_avoided_and_parallel_cables_share_by_capacity():
    fabric = clos().without("spine 0")
    best = sdn.engineer(fabric, fl.metrics.shift(fabric, 4))
    assert best.is_proven
    spine = fabric.node("spine 0")
    carried = best.load()
    assert not carried[(fabric.source == spine) | (fabric.target == spine)].any()


def test_what_cannot_be_engineered_is_refused():
    fabric = clos()
    with pytest.raises(ValueError, match="must have a rate"):
        sdn.engineer(fabric, Flows.make(0, 0, 1e9))
    with pytest.raises(NoPath):
        sdn.engineer(fabric.without("leaf 0"), fl.metrics.shift(fabric, 4))
    with pytest.raises(ValueError, match="no rank"):
        sdn.engineer(fabric, Flows.make(int(fabric.nodes("spine")[0]), 0, 1e9))


# Any traffic


def test_the_closed_form_of_a_clos_is_what_the_program_finds():
    # 6 hosts share 2 cables to one spine; 4 hosts share 4 cables to two spines, of which one is then slower.
    one_spine = fl.topologies.build("leaf_spine", hosts=24, radix=8, oversubscription=3)
    spine = clos().node("spine 1")
    at_spine = np.flatnonzero((clos().source == spine) | (clos().target == spine))
    uneven = clos().with_capacity(at_spine, 25e9)
    for fabric, ratio in ((one_spine, 3.0), (clos(), 1.0), (uneven, 4 / 3)):
        hose = _hose(fabric)
        assert _closed_form(hose).ratio == pytest.approx(ratio)
        assert _by_program(fabric, hose).ratio == pytest.approx(ratio, rel=1e-6)
    assert _closed_form(_hose(clos().without("leaf 0 - spine 1"))) is None


def test_a_mesh_of_four_switches_carries_any_traffic_of_two_hosts_each():
    # Valiant: each cable carries at most 2 r n / N = 2 x 100 / 4 = 50 GB/s.
    found = sdn.oblivious(mesh())
    assert found.method == "linear program"
    assert found.ratio == pytest.approx(1.0, rel=1e-6)
    load = found.load(mesh(), fl.metrics.shift(mesh(), 2))
    assert load.max() <= 50e9 * (1 + 1e-6)


def test_large_and_unfit_fabrics_have_no_fixed_split():
    with pytest.raises(TooLarge, match="take a smaller fabric"):
        sdn.oblivious(fl.topologies.build("torus", shape=(4, 4), hosts=1))
    with pytest.raises(ValueError, match="one cable"):
        sdn.oblivious(diamond())


def test_a_cluster_that_lost_a_cable_has_a_fixed_split_that_a_cut_proves():
    # Leaf 0 has 31 of 32 cables to its spines, and 32 hosts as fast as a cable: no split is below 32/31.
    cluster = fl.topologies.build("rail_optimised", expand=False)
    leaf, spine = cluster.nodes("leaf")[0], cluster.nodes("spine")[3]
    cable = cluster.links_between(int(leaf), int(spine))[0] // 2
    found = sdn.oblivious(cluster.without(cables=[cable]))
    assert found.ratio == pytest.approx(32 / 31)
    assert "proven by a cut" in found.method


def test_the_dragonfly_of_twelve_ranks_has_a_fixed_split():
    # A group of 3 ranks has 3 global cables, one of which leads to the group that all of them send to.
    fabric = fl.topologies.build("dragonfly", p=1, a=3, h=1)
    flows = fl.metrics.shift(fabric, 3)
    table = sdn.compare(fabric, flows, seeds=2)
    fixed = table["any traffic"]
    assert table["optimum"] <= fixed == pytest.approx(1.5)
    load = sdn.oblivious(fabric).load(fabric, flows)
    assert load.max() <= 1.5 * 50e9 * (1 + 1e-6)


def uneven(seed):
    """Return a Clos of 3 leaves and 3 spines, some of whose cables are slow in one direction."""
    rng = np.random.default_rng(seed)
    fabric = fl.topologies.build("leaf_spine", hosts=9, radix=6)
    inner = np.flatnonzero(fabric.transit[fabric.source] & fabric.transit[fabric.target])
    return fabric.with_capacity(rng.choice(inner, 5, replace=False), rng.choice([10e9, 20e9, 30e9]))


def worst_by_program(hose, found):
    """Return the load of the fullest arc over all traffic within the rates of hosts, by a program for each arc."""
    from scipy.optimize import linprog

    pairs = found.start.size
    rows = np.concatenate(
        [found.start[None, :] == hose.node[:, None], found.goal[None, :] == hose.node[:, None]]
    )
    most = np.concatenate([hose.sends, hose.gets]) * 1e-9
    fullest = 0.0
    for arc in range(found.source.size):
        answer = linprog(-found.part[:, arc], rows.astype(float), most, bounds=(0, None))
        assert answer.status == 0 and answer.x.size == pairs
        fullest = max(fullest, -answer.fun / (hose.capacity[arc] * 1e-9))
    return fullest


@pytest.mark.parametrize("seed", [5, 7, 9, 11])
def test_splits_over_one_spine_say_their_worst_case_and_what_is_proven(seed, monkeypatch):
    fabric = uneven(seed)
    hose = _hose(fabric)
    best = sdn.oblivious(fabric)
    exact = _by_program(fabric, hose).ratio
    assert best.ratio == pytest.approx(exact, rel=1e-6)
    monkeypatch.setattr(sys.modules["fabriclab.sdn.oblivious"], "_MOST_ENTRIES", 0)
    found = sdn.oblivious(fabric)
    assert found.ratio == pytest.approx(worst_by_program(hose, found), rel=1e-6)
    is_proven = "proven" in found.method
    assert is_proven == (seed == 7) and (is_proven or "one spine" in found.method)
    assert found.ratio >= exact * (1 - 1e-6)
    assert is_proven == (found.ratio == pytest.approx(exact, rel=1e-6))


def test_no_split_over_one_spine_is_better_than_the_one_of_the_program(monkeypatch):
    fabric = uneven(5)
    monkeypatch.setattr(sys.modules["fabriclab.sdn.oblivious"], "_MOST_ENTRIES", 0)
    found = sdn.oblivious(fabric)
    hose = _hose(fabric)
    clos = _clos(hose)
    one, _ = np.nonzero(~np.eye(3, dtype=bool))
    rng = np.random.default_rng(0)
    for _ in range(200):
        split = rng.dirichlet(np.ones(3), one.size)
        assert _worst(hose, clos, split) >= found.ratio * (1 - 1e-9)


def test_a_comparison_says_what_it_has_not_computed():
    fabric = fl.topologies.build("torus", shape=(4, 4), hosts=1)
    table = sdn.compare(fabric, fl.metrics.shift(fabric, 3), seeds=1)
    assert np.isnan(table["any traffic"])
    last = table.rows()[-1]
    assert last[:3] == ["any traffic", "-", "-"]
    assert "not computed: 240 pairs of switches times 64 links" in last[3]
    several = diamond()
    table = sdn.compare(several, Flows.make(0, 3, 1e9), seeds=1)
    assert "not computed: rank 0 must hang on a switch by one cable" in table.rows()[-1][3]


# Updates


def test_eighteen_of_twenty_four_orders_make_a_loop_that_packets_meet():
    found = sdn.all_orders(sdn.rules("s-a-b-c-d"), sdn.rules("s-c-b-a-d"))
    assert found.total == 24
    assert found.loop_met == 18
    assert found.loop_anywhere == 20
    assert found.black_hole == 0
    assert len(found.safe) == 6
    for order in found.safe:
        assert sdn.is_safe(order, sdn.rules("s-a-b-c-d"), sdn.rules("s-c-b-a-d"))


def test_the_destination_comes_first():
    old, new = sdn.rules("s-a-b-c-d"), sdn.rules("s-c-b-a-d")
    assert sdn.safe_order(old, new) == ("a", "b", "c", "s")
    moments = sdn.play(("s", "c", "b", "a"), old, new)
    assert [m.node for m in moments] == [None, "s", "c", "b", "a"]
    assert moments[2].faults == (sdn.Fault("loop", ("c", "b"), True),)  # s -> c -> b -> c
    assert not any(f.is_met for m in sdn.play(("a", "b", "c", "s"), old, new) for f in m.faults)


def test_a_new_node_without_its_rule_is_a_black_hole():
    old, new = sdn.rules("s-a-d"), sdn.rules("s-b-d")
    table = sdn.mixed(old, new, ["s"])
    assert sdn.trace(table, "s", "d") == [sdn.Packet(("s", "b"), "black hole")]
    counted = sdn.all_orders(old, new)
    assert counted.black_hole > 0
    assert sdn.safe_order(old, new) == ("b", "s", "a")  # a drops its rule when nobody uses it


def test_packets_that_are_divided_take_all_ways():
    table = sdn.rules({"s": ("a", "b"), "a": "d", "b": "s"})
    ends = {packet.end for packet in sdn.trace(table, "s", "d")}
    assert ends == {"arrives", "loop"}


def test_two_destinations_may_leave_no_order_and_then_packets_carry_a_version():
    # For x node a has to follow ... b; for y it is the other way round.
    old = {"x": sdn.rules({"a": "b", "b": "x"}), "y": sdn.rules({"b": "a", "a": "y"})}
    new = {"x": sdn.rules({"a": "x", "b": "a"}), "y": sdn.rules({"b": "y", "a": "b"})}
    found = sdn.plan_update(old, new)
    assert found.method == "two-phase"
    with pytest.raises(sdn.NoSafeOrder, match="two_phase"):
        sdn.safe_order(old, new)
    for goal in ("x", "y"):
        steps = sdn.two_phase(old[goal], new[goal], destination=goal, sources=("a", "b"))
        assert not any(step.faults for step in steps)
        assert steps[-1].rules == {2: new[goal]}


def test_rules_that_are_wrong_are_refused():
    with pytest.raises(ValueError, match="passes 'a' twice"):
        sdn.rules("s-a-b-a-d")
    with pytest.raises(ValueError, match="two nodes or more"):
        sdn.rules("s")
    with pytest.raises(ValueError, match="before anything changes"):
        sdn.all_orders(
            sdn.rules({"s": "a", "a": "s"}), sdn.rules("s-d"), sources="s", destination="d"
        )
    with pytest.raises(ValueError, match="must name each of"):
        sdn.is_safe(["a"], sdn.rules("s-a-b-d"), sdn.rules("s-b-a-d"))
    long = "-".join(map(str, range(12)))
    back = "-".join(["0", *map(str, range(10, 0, -1)), "11"])
    with pytest.raises(ValueError, match="orders; count those of at most 8"):
        sdn.all_orders(sdn.rules(long), sdn.rules(back))
    assert sdn.safe_order(sdn.rules(long), sdn.rules(back))[0] == "1"


def ends_after_each_update(order, old, new):
    """Return where a packet from s ends after each update: it arrives, or is in a loop or a hole."""
    ends = []
    table = dict(old)
    for node in order:
        table.pop(node, None)
        if node in new:
            table[node] = new[node]
        ends.append(end_of_packet(table))
    return ends


def end_of_packet(table):
    here = "s"
    seen = set()
    while here != "d":
        if here in seen:
            return "loop"
        if here not in table:
            return "hole"
        seen.add(here)
        here = table[here]
    return "arrives"


def learner(order, old, new):
    return all(end == "arrives" for end in ends_after_each_update(order, old, new))


def no_holes(order, old, new):
    return "loop" not in ends_after_each_update(order, old, new)


def test_functions_of_learners_are_judged_and_mistakes_have_names():
    assert sdn.check_is_safe(learner).is_right
    assert sdn.check_is_safe(no_holes).mistake == "black holes forgotten"
    assert sdn.check_is_safe(lambda order, old, new: True).mistake == "two right routes mix well"
    assert sdn.check_is_safe(lambda order, old, new: False).mistake == "nothing is safe"
    assert sdn.check_is_safe(lambda order, old, new: None).mistake == "no answer"
    odd = sdn.check_is_safe(lambda order, old, new: learner(order, old, new) and order[0] != "b")
    assert not odd.is_right and "must be" in odd.case


@pytest.mark.parametrize(
    ("name", "rule"),
    [(mistake.name, rule) for mistake in trials._MISTAKES for rule in mistake.rules],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_a_function_that_makes_a_mistake_gets_its_name(name, rule):
    def wrong(order, old, new):
        return rule(order, sdn.rules(old), sdn.rules(new))

    found = sdn.check_is_safe(wrong)
    assert (found.is_right, found.mistake) == (False, name)


# The same mistakes as a learner writes them, without the library.


def walks(order, old, new, *, starts=lambda rules, node: ["s"], hops=lambda rules, old: 20):
    """Follow a packet from each start after each update."""
    table = dict(old)
    for node in order:
        table.pop(node, None)
        if node in new:
            table[node] = new[node]
        for at in starts(table, node):
            for _ in range(hops(table, old)):
                at = table.get(at, at)
            if at != "d":
                return False
    return True


def route_of(new):
    route = []
    at = "s"
    while at != "d":
        route.append(at)
        at = new[at]
    return route


@pytest.mark.parametrize(
    ("mistake", "wrong"),
    [
        ("answers turned round", lambda order, old, new: not walks(order, old, new)),
        (
            "source first",
            lambda order, old, new: order == [x for x in route_of(new) if x in order],
        ),
        (
            "destination first only",
            lambda order, old, new: order == [x for x in route_of(new)[::-1] if x in order],
        ),
        ("source last only", lambda order, old, new: order[-1] == "s"),
        ("too few hops", lambda *case: walks(*case, hops=lambda rules, old: len(old))),
        ("loops off the way", lambda *case: walks(*case, starts=lambda rules, node: list(rules))),
        (
            "loops off the way",
            lambda *case: walks(*case, starts=lambda rules, x: [x if x in rules else "s"]),
        ),
    ],
)
def test_mistakes_as_learners_write_them_get_their_name(mistake, wrong):
    assert sdn.check_is_safe(wrong).mistake == mistake
    assert sdn.check_is_safe(walks).is_right
    assert sdn.check_is_safe(lambda *case: np.bool_(walks(*case))).is_right


def never_ends(order, old, new):
    table = {**old, **{node: new[node] for node in order[:1] if node in new}}
    at = "s"
    while at != "d":
        at = table.get(at)
    return True


def spoils(order, old, new):
    for node in order:
        old[node] = new.get(node)
    return True


def stumbles(order, old, new):
    table = dict(old)
    for node in order:
        table[node] = new[node]
    return learner(order, old, new)


@pytest.mark.parametrize(
    ("function", "mistake", "said"),
    [
        (never_ends, "never ends", "round a loop"),
        (spoils, "changes its arguments", "argument old"),
        (lambda order, *rules: order.reverse() or True, "changes its arguments", "argument order"),
        (stumbles, "looks up a missing rule", "a rule of 'a'"),
    ],
)
def test_functions_that_cannot_be_judged_are_told_why(function, mistake, said):
    found = sdn.check_is_safe(function)
    assert (found.is_right, found.mistake) == (False, mistake)
    assert said in found.message and found.case.startswith("is_safe(")


def test_a_function_that_names_the_next_switch_is_stopped_and_may_change_nothing():
    def endless(updated, old, new):
        while True:
            pass

    assert sdn.check_next_switch(endless).mistake == "never ends"
    spoilt = sdn.check_next_switch(lambda updated, old, new: updated.add("s") or "s")
    assert spoilt.mistake == "changes its arguments" and "argument updated" in spoilt.message


def test_other_errors_of_a_function_go_through_and_tracing_is_as_before():
    before = sys.gettrace()
    with pytest.raises(ZeroDivisionError):
        sdn.check_is_safe(lambda order, old, new: 1 / 0)
    with pytest.raises(KeyError, match="no node"):
        sdn.check_is_safe(lambda order, old, new: {}["no node"])
    assert sys.gettrace() is before


def test_the_next_switch_of_a_learner_is_judged():
    def destination_first(updated, old, new):
        here = {node: ahead for node, ahead in new.items() if old.get(node) != ahead}
        node = "d"
        before = {ahead: node for node, ahead in new.items()}
        while node in before:
            node = before[node]
            if node in here and node not in updated:
                return node
        return next(n for n in old if n not in new and n not in updated)

    def source_first(updated, old, new):
        nodes = [n for n in [*new, *old] if old.get(n) != new.get(n)]
        return next(n for n in nodes if n not in updated)

    assert sdn.check_next_switch(destination_first).is_right
    assert sdn.check_next_switch(source_first).mistake == "source first"
    assert sdn.check_next_switch(lambda updated, old, new: "z").mistake == "no such node"
    assert not sdn.check_next_switch(lambda updated, old, new: "s").is_right


# Tenants


def test_keys_of_partitions_have_fifteen_bits_and_one_for_the_member():
    assert sdn.partition_key(1) == 0x8001
    assert sdn.partition_key(0x7FFF, full=False) == 0x7FFF
    keys = [0x8001, 0x0001, 0x8002, 0x8000]
    table = [[bool(sdn.keys_match(a, b)) for b in keys] for a in keys]
    assert table == [
        [True, True, False, False],
        [True, False, False, False],
        [False, False, True, False],
        [False, False, False, False],
    ]
    for wrong in (0, 0x8000):
        with pytest.raises(ValueError, match="partition must be within"):
            sdn.partition_key(wrong)
    with pytest.raises(ValueError, match="16 bits"):
        sdn.keys_match(0x10000, 1)


def test_who_reaches_whom():
    one = sdn.Tenant("one", (0, 1), keys=(sdn.partition_key(1),))
    other = sdn.Tenant("other", (2, 3), keys=(sdn.partition_key(2),))
    assert not sdn.Tenants((one, other)).leaks()
    guest = sdn.Tenant("guest", (4,), keys=(sdn.partition_key(1, full=False),))
    leaks = sdn.Tenants((one, other, guest)).leaks()
    assert {leak.ranks for leak in leaks} == {(0, 4), (4, 0)}
    assert not sdn.Tenants((one, other, guest), friends=(("one", "guest"),)).leaks()
    red = sdn.Tenant("red", (5,), vrf=sdn.Vrf("red"))
    blue = sdn.Tenant("blue", (6,), vrf=sdn.Vrf("blue", imports=("red",)))
    reach = sdn.Tenants((red, blue)).reach()
    assert reach.tolist() == [[True, False], [True, True]]
    with pytest.raises(ValueError, match="belongs to one and to twice"):
        sdn.Tenants((one, sdn.Tenant("twice", (1,))))


def test_keys_stop_flows_between_tenants_and_no_flow_within_one():
    fabric = fl.topologies.build("crossbar", hosts=5)
    key = sdn.partition_key
    storage = key(3, full=False)
    tenants = sdn.Tenants(
        (
            sdn.Tenant("A", (0, 1), keys=(key(1), storage)),
            sdn.Tenant("B", (2, 3), keys=(key(2), storage)),
            sdn.Tenant("storage", (4,), keys=(key(3),)),
        )
    )
    flows = Flows.make(fabric.endpoint[[0, 0, 2, 3, 4]], fabric.endpoint[[1, 2, 0, 4, 1]], 1e9)
    assert tenants.passes(fabric, flows).tolist() == [True, False, False, True, True]
    limited = tenants.with_("A", keys=(storage,))
    assert limited.passes(fabric, flows).tolist() == [False, False, False, True, True]
    few = sdn.Tenants(tenants.members[:2])
    with pytest.raises(ValueError, match=r"flow 4 comes from .* belongs to no tenant"):
        few.passes(fabric, flows)


def test_eight_flows_against_one_get_eight_ninths_unless_tenants_have_weights():
    fabric = fl.topologies.build("crossbar", hosts=3)
    flows = Flows.make([0] * 8 + [1], 2, 1e9, label=[0] * 8 + [1], labels=("A", "B"))
    routes = fl.routing.route(fabric, flows)
    got = sdn.rates(fabric, routes, flows)
    assert got["A"] / (got["A"] + got["B"]) == pytest.approx(8 / 9)
    tenants = sdn.Tenants((sdn.Tenant("A", (0,)), sdn.Tenant("B", (1,))))
    fair = sdn.weighted(fabric, flows, tenants)
    got = sdn.rates(fabric, routes, fair)
    assert got["A"] == pytest.approx(got["B"])
    first = sdn.weighted(fabric, flows, tenants.with_("A", priority=1), by_class=True)
    got = sdn.rates(fabric, routes, first)
    assert got["B"] / (got["A"] + got["B"]) > 0.9999
    limited = sdn.weighted(fabric, flows, tenants.with_("B", limit="1 GB/s"))
    assert sdn.rates(fabric, routes, limited)["B"] == pytest.approx(1e9)
    with pytest.raises(ValueError, match="belongs to no tenant"):
        sdn.weighted(fabric, flows, sdn.Tenants((sdn.Tenant("A", (0,)),)))


# A controller


def test_a_drain_has_a_check_around_each_step_and_can_be_taken_back():
    controller = sdn.Controller(clos())
    at_first = controller.forwarding
    controller.drain("spine 1")
    plan = controller.plan()
    assert [step.words for step in plan.steps] == [
        "leaf 0 stops using spine 1 for 3 destinations",
        "leaf 1 stops using spine 1 for 3 destinations",
        "leaf 2 stops using spine 1 for 3 destinations",
        "leaf 3 stops using spine 1 for 3 destinations",
        "spine 1 drops its rules for 4 destinations; nobody sends there any more",
    ]
    records = controller.apply(plan)
    assert all(record.before.ok and record.after.ok for record in records)
    flows = fl.metrics.shift(controller.fabric, 4)
    assert controller.utilisation(flows) == pytest.approx(2.0)
    spine = controller.fabric.node("spine 1")
    assert not np.isin(spine, controller.fabric.target[controller.routes(flows).link]).any()

    back = controller.rollback()
    assert len(back) == 5 and all(record.after.ok for record in back)
    assert np.array_equal(controller.forwarding.part, at_first.part)
    assert not controller.drained and not controller.intents
    with pytest.raises(ValueError, match="nothing to take back"):
        controller.rollback()


def test_deadlock_is_found_as_routing_finds_it():
    for family, arguments in (
        ("torus", {"shape": (5,), "hosts": 1}),
        ("leaf_spine", {"hosts": 8, "radix": 4}),
    ):
        fabric = fl.topologies.build(family, **arguments)
        rules = sdn.shortest(fabric)
        routes = sdn.routes(fabric, rules, fl.metrics.uniform(fabric))
        circle = fl.routing.deadlock(fabric, routes)
        found = [v for v in sdn.check(fabric, rules).violations if v.kind == "deadlock"]
        assert bool(circle) == bool(found) == (family == "torus")


def test_rules_round_a_loop_are_found_and_named():
    fabric = fl.topologies.build("torus", shape=(4,), hosts=1)
    rules = sdn.shortest(fabric)
    goal = 0
    home = int(rules.goal[goal])
    near, far, other = (int(node) for node in np.flatnonzero(fabric.transit) if node != home)
    part = rules.part.copy()
    part[goal, fabric.transit[fabric.source]] = 0.0
    for one, two in ((near, far), (far, near), (other, far)):
        part[goal, fabric.links_between(one, two)] = 1.0
    found = sdn.check(fabric, rules.cut(part=part))
    loops = [v for v in found.violations if v.kind == "loop"]
    assert len(loops) == 1 and loops[0].nodes == (near, far, home)
    with pytest.raises(NoPath, match="round a loop"):
        sdn.routes(fabric, rules.cut(part=part), fl.metrics.shift(fabric, 3))


def test_an_undrain_begins_at_the_spine():
    controller = sdn.Controller(clos())
    controller.drain("spine 1")
    controller.apply(controller.plan())
    controller.undrain("spine 1")
    plan = controller.plan()
    assert plan.steps[0].words == "spine 1 gets rules for 4 destinations; nobody sends there yet"
    assert all(record.after.ok for record in controller.apply(plan))
    with pytest.raises(ValueError, match="not drained"):
        controller.undrain("spine 1")


def test_a_wrong_order_is_stopped_before_the_black_hole():
    controller = sdn.Controller(clos())
    controller.drain("spine 1")
    plan = controller.plan()
    wrong = plan.in_order([4, 3, 2, 1, 0])
    before = controller.forwarding
    with pytest.raises(sdn.InvariantBroken, match="spine 1 has no rule"):
        controller.apply(wrong)
    assert controller.forwarding is before
    assert controller.check().ok
    records = controller.apply(wrong, careful=False)
    assert [record.after.ok for record in records] == [False, False, False, False, True]
    assert "spine 1 has no rule for leaf" in records[0].after.violations[0].message
    with pytest.raises(ValueError, match="each of 5 steps once"):
        plan.in_order([0, 1])


def lost_part(controller, leaf):
    """Return which part of a leaf's packets for another leaf goes into dead links."""
    fabric, rules = controller.fabric, controller.forwarding
    goal = next(d for d, node in enumerate(rules.goal.tolist()) if node != leaf)
    mine = (fabric.source == leaf) & (fabric.capacity == 0)
    return rules.part[goal, mine].sum()


def without_basis(plan):
    """Return a plan that does not know what it was made for, as one made by hand."""
    return sdn.Plan(plan.steps, plan.target, plan.tenants, plan.why, plan.method)


def test_the_last_live_spine_is_not_drained():
    fabric = clos()
    leaf = fabric.node("leaf 0")
    controller = sdn.Controller(fabric)
    controller.drain("spine 0")
    plan = controller.plan()
    controller.observe(fabric.without("spine 1"))
    assert (
        lost_part(controller, leaf) == 0.5
    )  # half of the packets are lost, and the other half arrives
    for stale in (plan, without_basis(plan)):
        with pytest.raises(sdn.InvariantBroken):
            controller.apply(stale)
        assert lost_part(controller, leaf) == 0.5 and not controller.history
    with pytest.raises(sdn.StalePlan, match="16 links have gone"):
        controller.apply(plan)
    with pytest.raises(sdn.InvariantBroken, match="no packet from leaf 0 comes to leaf 1 any more"):
        controller.apply(without_basis(plan))
    with pytest.raises(NoPath, match="drain spine 0"):
        controller.plan()
    # A script that does not look takes the cluster dark.
    controller.apply(plan, careful=False)
    assert lost_part(controller, leaf) == 1.0


def test_the_last_path_is_kept_where_another_switch_loses_packets():
    # Leaf 0 sends over both spines, and spine 1 has lost its cables to leaf 2. Without spine 0 all is lost, although
    # no node has a black hole that was not there before.
    fabric = clos()
    controller = sdn.Controller(fabric)
    controller.observe(fabric.without("leaf 2 - spine 1"))
    before = controller.check()
    assert before.violations and not before.lost
    controller.drain("spine 0")
    with pytest.raises(NoPath, match="drain spine 0"):
        controller.plan()
    controller.rollback()
    assert all(record.after.lost == frozenset() for record in controller.apply(controller.plan()))


def test_a_stale_plan_is_refused():
    controller = sdn.Controller(clos())
    controller.drain("spine 0")
    plan = controller.plan()
    controller.apply(plan)
    with pytest.raises(sdn.StalePlan, match="applied already"):
        controller.apply(plan)
    controller.undrain("spine 0")
    rules = controller.forwarding
    with pytest.raises(
        sdn.StalePlan, match=r"drain spine 0; now asked for is: .* use spine 0 again"
    ):
        controller.apply(plan)
    assert controller.forwarding is rules
    back = controller.plan()
    assert all(record.after.ok for record in controller.apply(back))
    controller.rollback()
    with pytest.raises(sdn.StalePlan, match="made for"):
        controller.apply(back)


def test_a_plan_goes_on_from_where_it_stopped():
    controller = sdn.Controller(clos())
    controller.drain("spine 1")
    plan = controller.plan()
    with pytest.raises(sdn.InvariantBroken, match="spine 1 has no rule"):
        controller.apply(plan.in_order([0, 4, 1, 2, 3]))
    assert len(controller.history) == 1
    assert all(record.after.ok for record in controller.apply(plan))


def test_links_that_die_between_two_steps_stop_a_plan():
    fabric = clos()
    controller = sdn.Controller(fabric)
    controller.drain("spine 0")
    steps = controller.steps(controller.plan())
    next(steps)
    controller.observe(fabric.without("spine 1"))
    with pytest.raises(sdn.StalePlan, match="links have gone"):
        next(steps)
    assert len(controller.history) == 1


def test_every_order_of_a_drain_that_the_controller_may_choose_is_safe():
    controller = sdn.Controller(fl.topologies.build("leaf_spine", hosts=6, radix=4))
    controller.drain("spine 1")
    plan = controller.plan()
    *leaves, last = plan.steps
    for order in itertools.permutations(leaves):
        copy = sdn.Controller(controller.fabric)
        copy.drain("spine 1")
        again = sdn.Plan((*order, last), plan.target, None, plan.why, plan.method)
        assert all(record.after.ok for record in copy.apply(again))


def test_what_would_cut_off_ranks_is_not_planned():
    controller = sdn.Controller(clos())
    controller.drain("leaf 0")
    with pytest.raises(NoPath, match="drain leaf 0"):
        controller.plan()
    controller.rollback()
    assert not controller.drained


def test_after_a_cut_rules_change_and_the_graph_does_not():
    fabric = clos()
    controller = sdn.Controller(fabric)
    cut = controller.observe(fabric.without("leaf 0 - spine 1"))
    assert cut.gone.size == 4 and not cut.new.size
    found = controller.check()
    assert {v.kind for v in found.violations} == {"black hole"}
    records = controller.apply(controller.plan())
    assert not records[0].before.ok and controller.check().ok
    change = sdn.graph_change(fabric.without("leaf 0 - spine 1"), controller.fabric)
    assert not change.gone.size and not change.new.size


def test_only_light_that_was_dark_adds_to_the_graph():
    whole = diamond()
    dark = whole.without(cables=[0, 1])
    controller = sdn.Controller(dark.without(cables=[2]))
    flows = Flows.make(0, 3, 1e9)
    with pytest.raises(NoPath):
        controller.routes(flows)
    lit = controller.observe(whole.without(cables=[0, 2]))  # a circuit from s to b
    assert lit.new.tolist() == [2, 3]
    controller.apply(controller.plan())
    assert controller.routes(flows).link.tolist() == [2, 6]


def test_contradicting_orders_make_an_update_in_two_phases(monkeypatch):
    # Switches a and b, joined to each other and to the hosts x and y. Packets for x go a-b-x, then b-a-x; those for y
    # go b-a-y, then a-b-y. So for x node a has to change before b, and for y after it.
    b = FabricBuilder(("ha", "hb", "x", "y", "a", "b"), ())
    for name in ("ha", "hb", "x", "y", "a", "b"):
        b.add_nodes(name, 1, tier=int(len(name) == 1), transit=name in "ab")
    ends = [(0, 4), (1, 5), (4, 5), (4, 2), (5, 2), (4, 3), (5, 3)]
    b.add_cables(*np.array(ends).T, capacity=50e9)
    n = 4
    fabric = b.build("custom", {}, endpoint=np.arange(n), rail=np.zeros(n), server=np.arange(n))
    usual = sdn.shortest(fabric)

    def by(x, y):
        """Return rules in which a and b send what is for x and y by given links."""
        part = usual.part.copy()
        for host, ways in ((2, x), (3, y)):
            goal = usual.goal.tolist().index(host)
            part[goal] = 0.0
            for one, other in ((0, 4), (1, 5), *ways):
                part[goal, fabric.links_between(one, other)] = 1.0
            other_host = 5 - host
            part[goal, fabric.links_between(other_host, 4)] = 1.0
        return usual.cut(part=part)

    old = by(x=((4, 5), (5, 2)), y=((5, 4), (4, 3)))
    new = by(x=((5, 4), (4, 2)), y=((4, 5), (5, 3)))
    controller = sdn.Controller(fabric)
    controller.forwarding = old
    monkeypatch.setattr(controller, "_wanted", lambda: new)
    plan = controller.plan()
    assert plan.method == "two-phase" and len(plan.steps) == 3
    assert all(record.after.ok for record in controller.apply(plan))
    assert np.array_equal(controller.forwarding.part, new.part)

    one_by_one = sdn.Step("a changes alone", (4,)), sdn.Step("b changes alone", (5,))
    for steps in (one_by_one, one_by_one[::-1]):
        copy = sdn.Controller(fabric)
        copy.forwarding = old
        with pytest.raises(sdn.InvariantBroken, match="go round"):
            copy.apply(sdn.Plan(steps, new, None, "one by one", "wrong"))


def test_tenants_are_changed_in_words_and_kept_apart():
    keys = (sdn.partition_key(1),), (sdn.partition_key(2),)
    tenants = sdn.Tenants(
        (sdn.Tenant("A", range(8), keys=keys[0]), sdn.Tenant("B", range(8, 16), keys=keys[1]))
    )
    controller = sdn.Controller(clos(), tenants)
    controller.weigh("A", 3)
    controller.limit("B", "10 Gb/s")
    controller.prioritise("B", 1)
    plan = controller.plan()
    assert plan.steps[0].words == "A has weight 3; B has priority 1; B has limit 1250000000.0"
    controller.apply(plan)
    assert controller.classes() == {"A": 0, "B": 1}
    flows = controller.flows(Flows.make([0, 8], [9, 1], 1e9))
    assert flows.weight.tolist() == [3.0, 1.0] and flows.limit.tolist() == [np.inf, 1.25e9]
    controller.set_tenants(tenants.with_("B", keys=keys[0]))
    with pytest.raises(sdn.InvariantBroken, match=r"tenant A .* reaches tenant B"):
        controller.apply(controller.plan())
    assert not controller.tenants.leaks()


# A cut


def test_bytes_lost_between_a_cut_and_new_rules():
    # 50 GB at 50 GB/s; the path dies after 0.2 s and the other one takes over after 0.25 s: 2.5 GB are sent twice.
    fabric = diamond()
    flows = Flows.make(0, 3, 50e9)
    one = fl.routing.route(fabric.without(nodes=[2]), flows)
    other = fl.routing.route(fabric.without(nodes=[1]), flows)
    cut = sdn.outage(fabric, flows, one, other, Changes(0.2, [4, 5], 0.0), "250 ms")
    assert cut.total == pytest.approx(2.5e9)
    assert cut.finish[0] == pytest.approx(1.05)
    assert cut.undisturbed[0] == pytest.approx(1.0)
    drained = sdn.outage(fabric, flows, one, other, Changes(0.3, [4, 5], 0.0), 0.25)
    assert drained.total == 0 and drained.finish[0] == pytest.approx(1.0)
    late = sdn.outage(fabric, flows, one, other, Changes(2.0, [4, 5], 0.0), 3.0)
    assert late.total == 0 and late.finish[0] == pytest.approx(1.0)
    with pytest.raises(NoPath, match="dead"):
        sdn.outage(fabric, flows, one, one, Changes(0.2, [4, 5], 0.0), 0.25)
    with pytest.raises(ValueError, match="at one time"):
        sdn.outage(fabric, flows, one, other, Changes([0.2, 0.3], 4, 0.0), 0.25)


def test_what_a_dead_switch_takes_is_lost_once():
    """Half of a flow goes through switch 1; both its links die, and its bytes are lost on the way to it."""
    fabric = diamond()
    flows = Flows.make(0, 3, 50e9)
    both = sdn.routes(fabric, sdn.shortest(fabric), flows)
    alone = fl.routing.route(fabric.without(nodes=[1]), flows)
    dead = np.flatnonzero((fabric.source == 1) | (fabric.target == 1))
    cut = sdn.outage(fabric, flows, both, alone, Changes(0.1, dead, 0.0), 0.15)
    rate = 50e9 / cut.undisturbed[0]
    assert cut.total == pytest.approx(0.5 * rate * 0.05)


def test_bytes_moved_by_a_time():
    from fabriclab.engines.flow import moved

    fabric = diamond()
    flows = Flows.make(0, 3, [50e9, 25e9], start=[0.0, 0.5])
    routes = fl.routing.route(fabric.without(nodes=[2]), flows)
    # Alone until 0.5 s, then half of the rate each.
    assert moved(fabric, routes, flows, 0.25).tolist() == pytest.approx([12.5e9, 0.0])
    assert moved(fabric, routes, flows, 0.9).tolist() == pytest.approx([35e9, 10e9])
    assert moved(fabric, routes, flows, 9.0).tolist() == pytest.approx([50e9, 25e9])


# Changing traffic


def test_new_rules_gain_less_the_older_they_are_and_cost_more_the_more_often():
    fabric = fl.topologies.build("full_mesh", switches=4, hosts=2)
    matrices = sdn.changing_traffic(fabric, 12, lasts=4, seed=1)
    found = sdn.adapt(fabric, matrices, every=(1, 5), cost=0.2)
    assert found.served[0] >= found.served[1]
    assert found.at_once >= found.served[0]
    assert found.served[0] - found.net[0] == pytest.approx(0.2 * found.served[0])
    free = sdn.adapt(fabric, matrices, every=(1, 5), cost=0)
    assert np.array_equal(free.net, free.served) and free.best == 1
    healthy = clos()
    nothing = sdn.adapt(healthy, sdn.changing_traffic(healthy, 3), every=(1,), cost=0)
    assert nothing.never == pytest.approx(nothing.served[0]) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="two or more"):
        sdn.adapt(fabric, matrices[:1])


# A neighbour


def test_a_neighbour_is_felt_on_the_packet_engine_and_a_class_of_its_own_helps():
    found = sdn.predictability(
        ("alone", "sharing", "priority"), runs=3, bulk="500 kB", small="16 KiB"
    )
    alone, sharing, first = (found.time(name, "packet", 0.99) for name in found.sharing)
    assert alone <= first < sharing
    assert found.ratio("alone", 0.99) < 1.4 < found.ratio("sharing", 0.99)
    assert found.times.shape == (3, 2, 3) and "agree" in repr(found)


@pytest.mark.parametrize(
    ("sharing", "small"), [("weights", "64 KiB"), ("own cables", "16 KiB"), ("priority", "1 MB")]
)
def test_a_run_that_stops_early_gives_the_time_of_the_whole_run(sharing, small):
    played = fl.scenarios.neighbour(sharing, hosts=4, small=small, bulk="300 kB", seed=2)
    flows = np.array(played.groups["small"])
    whole = played.play().finish[flows].max() - played.flows.start[flows].min()
    assert time_of_small(played, "packet", sharing) == whole
    assert (whole > 2e-5) == (small == "1 MB")  # one of the cases takes longer than the first look


# Policies

POLICY = """\
[topology]
family = "leaf_spine"
hosts = 16
radix = 8

[[tenant]]
name = "train"
ranks = "0-7, 12"
partition = 1
weight = 3
limit = "10 Gb/s"

[[tenant]]
name = "serve"
ranks = [8, 9]
partition = 2
class = 1

[[demand]]
from = 0
to = "host 9"
rate = "40 Gb/s"

[[drain]]
part = "spine 1"
"""


def test_a_policy_is_read():
    policy = sdn.read_policy(POLICY)
    assert policy.fabric.n_ranks == 16
    assert policy.tenants["train"].ranks == (*range(8), 12)
    assert policy.tenants["train"].keys == (0x8001,)
    assert policy.demands.size.tolist() == [5e9]
    assert policy.drains == ("spine 1",)
    controller = policy.controller()
    assert all(record.after.ok for record in controller.apply(controller.plan()))


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ('family = "leaf_spine"', 'family = "leaf_spin"', 2, "leaf_spine"),
        ("radix = 8", "radix = 3.5", 4, "radix"),
        ("radix = 8", "radius = 8", 4, "radius"),
        ("radix = 8", "radix =", 4, "no TOML"),
        ('ranks = "0-7, 12"', 'ranks = "0-7, 8"', 15, "belongs to tenant train already"),
        ('ranks = "0-7, 12"', 'ranks = "7-0"', 8, "a range rises"),
        ('ranks = "0-7, 12"', 'ranks = "0-99"', 8, "within 0..15"),
        ("partition = 1", "partition = 0", 9, "1..32767"),
        ("weight = 3", "weight = -3", 10, "a number > 0"),
        ("weight = 3", "wieght = 3", 10, "did you mean 'weight'"),
        ('limit = "10 Gb/s"', 'limit = "10 Gbps"', 11, "Gb/s"),
        ('name = "serve"', 'name = "train"', 14, "second time"),
        ("class = 1", "class = 9", 17, "0..7"),
        ("class = 1", 'imports = ["red"]', 17, "expected vrf in the same table"),
        ('to = "host 9"', 'to = "host 99"', 21, "did you mean"),
        ('to = "host 9"', "to = 0", 21, "another node than from"),
        ('rate = "40 Gb/s"', "", 19, "is missing; expected a rate"),
        ('part = "spine 1"', 'part = "spine 9"', 25, "spine"),
        ("[[drain]]", "[[drian]]", 24, "did you mean 'drain'"),
        ("[[drain]]", "[drain]", 24, r"expected a table \[\[drain\]\]"),
    ],
)
def test_an_error_in_a_policy_names_line_and_what_was_expected(old, new, line, expected):
    with pytest.raises(FileFormat, match=expected) as caught:
        sdn.read_policy(POLICY.replace(old, new, 1))
    assert str(caught.value).startswith(f"line {line}: ")


def test_a_network_cable_by_cable():
    text = '[topology]\nhosts = ["s", "d"]\n'
    for ends in ("s - a", "a - d", "s - b", "b - d"):
        text += f'[[cable]]\nends = "{ends}"\nrate = "400 Gb/s"\n'
    policy = sdn.read_policy(text)
    assert policy.fabric.n_cables == 4 and policy.fabric.n_ranks == 2
    assert policy.fabric.node("a") == 2
    for old, new, line, expected in (
        ('"b - d"', '"b d"', 13, "two nodes such as"),
        ('"b - d"', '"b - b"', 13, "joins two nodes"),
        ('["s", "d"]', '["s", "x"]', 2, "no cable leads to 'x'"),
        ('["s", "d"]', '["s", "s"]', 2, "each name once"),
    ):
        with pytest.raises(FileFormat, match=expected) as caught:
            sdn.read_policy(text.replace(old, new))
        assert str(caught.value).startswith(f"line {line}: ")
    with pytest.raises(FileFormat, match="cannot read"):
        sdn.read_policy("nowhere.toml")
    with pytest.raises(FileFormat, match="topology: is missing"):
        sdn.read_policy("\n[[drain]]\npart = 'spine 1'\n")


def test_what_contradicts_itself_in_a_policy_is_refused():
    cables = '[topology]\nhosts = ["s", "d"]\n'
    for ends in ("s - a", "b - d"):
        cables += f'[[cable]]\nends = "{ends}"\nrate = "400 Gb/s"\n'
    demand = '[[demand]]\nfrom = "s"\nrate = "1 Gb/s"\nto = "d"\n'
    tenant = '\n[[tenant]]\nname = "A"\nranks = [15]\nvrf = "red"\nimports = ["blue"]\n'
    for text, line, expected in (
        (cables.replace('["s", "d"]', "2"), 2, r'expected names of nodes such as \["s", "d"\]'),
        (cables.replace('hosts = ["s", "d"]\n', ""), 1, "expected names of nodes"),
        (cables.replace("[topology]", '[topology]\nfamily = "torus"'), 2, "either a family or"),
        (cables + demand, 12, "got d, and none leads there from s"),
        (POLICY + tenant, 31, "VRF must be one of red, got 'blue'"),
        (POLICY.replace('"40 Gb/s"', "40"), 22, "a number counts bytes per second, got 40"),
    ):
        with pytest.raises(FileFormat, match=expected) as caught:
            sdn.read_policy(text)
        assert str(caught.value).startswith(f"line {line}: ")
    with pytest.raises(ValueError, match="VRF that A imports must be one of red, got 'blue'"):
        sdn.Tenants((sdn.Tenant("A", (0,), vrf=sdn.Vrf("red", imports=("blue",))),))


BEFORE = '[topology]\nfamily = "leaf_spine"\nhosts = 16\nradix = 8\n'
AFTER = '[[demand]]\nfrom = 0\nto = 99\nrate = "1 Gb/s"\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (BEFORE + '[[demand]]\nfrom = 0\nrate = "1 Gb/s"\n"to" = 99\n', 8),
        (BEFORE + "[[demand]]\nfrom = 0\nrate = '1 Gb/s'\n'to'=99\n", 8),
        (
            'demand = [{from = 0, to = 1, rate = "1 Gb/s"},\n'
            ' # a comment with to = 3 and ]\n {from = 0, rate = "1 Gb/s", to = 99}]\n' + BEFORE,
            3,
        ),
        (BEFORE + '[[tenant]]\nname = """a\n[[demand]]\nto = 5\n"""\nranks = "0"\n' + AFTER, 13),
        (BEFORE + "[[tenant]]\nname = '''a\n[[demand]]\n'''\nranks = '0'\n" + AFTER, 12),
        (BEFORE + '[[tenant]]\nranks = [ # [[demand]]\n0,\n1]\nname = "]"\n' + AFTER, 12),
        (BEFORE.replace("\n", "\r\n") + AFTER, 7),
        ('demand = [\n{from = 0, rate = "1 Gb/s"}]\n' + BEFORE, 2),
    ],
)
def test_lines_are_right_however_a_table_is_written(text, line):
    with pytest.raises(FileFormat, match=r"demand\.to") as caught:
        sdn.read_policy(text)
    assert str(caught.value).startswith(f"line {line}: ")


def paths_of(value, path=()):
    """Return the paths of all that a value of TOML holds."""
    items = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        items = enumerate(value)
    found = {path} if path else set()
    for key, item in items:
        found |= paths_of(item, (*path, key))
    return found


def test_each_key_of_a_text_has_a_line():
    text = """
    title = "a # no comment" # [not a table]
    a.b . "c.d" = 1979-05-27 07:32:00
    [x."y z"]
    empty = ""
    list = [ [1, 2], ["]", '}'], {k = 'v', "q]" = [3,],}
    , ]
    [[many]]
    one = 1.5e3
      [[many.inner]]
      deep = true
      [[many.inner]]
    [many.sub]
    text = '''it is
    [[many]]
    over''''
    [[many]]
    quotes = \"\"\"two ""quotes\\\" and three \\\"\"\"\"\"
    """.replace("\n    ", "\n").replace(",}", "}")
    lines = lines_of(text)
    assert set(lines) == paths_of(tomllib.loads(text))
    rows = text.split("\n")
    for path, line in lines.items():
        name = str(next(key for key in reversed(path) if isinstance(key, str)))
        assert name in rows[line - 1] or isinstance(path[-1], int)
    assert rows[lines["many", 1, "quotes"] - 1].startswith("quotes")


def test_a_file_that_is_no_text_names_its_line(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_bytes(b'[topology]\nfamily = "torus"\nname = "K\xf6ln"\n')
    with pytest.raises(FileFormat, match="line 3: expected text in UTF-8, got the byte 0xf6"):
        sdn.read_policy(file)


def test_rules_and_prices_of_a_wrong_form_are_refused():
    with pytest.raises(TypeError, match="a list of nodes, or a mapping, got None"):
        sdn.rules(None)
    with pytest.raises(TypeError, match="got 5"):
        sdn.rules(5)
    with pytest.raises(ValueError, match="a next node for 's', got None"):
        sdn.rules({"s": None})
    with pytest.raises(ValueError, match=r"a next node for 's', got \[\]"):
        sdn.rules({"s": []})
    with pytest.raises(ValueError, match="must have a node"):
        sdn.rules({})
    plain = {"s": "leaf1", "leaf1": "d"}
    with pytest.raises(TypeError, match="got 's': 'leaf1'; make them by rules"):
        sdn.all_orders(plain, plain)
    fabric = mesh()
    with pytest.raises(ValueError, match="one number for each of"):
        sdn.lower_bound(fabric, fl.metrics.shift(fabric, 2), np.ones(3))
