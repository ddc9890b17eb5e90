"""What the questions of lessons 21, 21b and 21c call right and wrong is so on the fabrics of the library."""

import numpy as np
import pytest

from fabriclab import catalog, collectives, economics, live, metrics, simulate, topologies
from fabriclab.core import Flows
from fabriclab.course.checks import check
from fabriclab.course.judges.lessons import lesson21
from fabriclab.course.questions import find
from fabriclab.errors import NoPath
from fabriclab.routing import route
from fabriclab.routing.ecmp import expected_fullest
from fabriclab.views.live.networks import exit_name
from support.prose import sentence

TABLE = {"servers": 8, "gpus": 4, "radix": 16}
RAIL, RACK = (topologies.build("rail_optimised", rails=n, expand=False) for n in (8, 1))
GROUPS = np.array(collectives.rail_groups(RAIL))


def test_both_wirings_have_the_same_parts():
    assert RAIL.summary() == RACK.summary() and metrics.switches(RAIL) == catalog.case().switches
    meet = [np.unique(collectives.leaf_of(f)[GROUPS[0]]).size for f in (RAIL, RACK)]
    assert meet == [4, 32]  # a rail has four leaves, a rack one


def test_a_leaf_sends_up_what_the_answer_says():
    leaf, spines = RAIL.nodes("leaf")[0], RAIL.nodes("spine")
    up = sum(RAIL.capacity[RAIL.links_between(leaf, spine)].sum() for spine in spines)
    assert up == pytest.approx(find("21-uplinks").key({}))


def test_the_spine_stays_dark_by_rail_in_any_order_and_never_by_rack():
    small = {
        name: topologies.build("rail_optimised", rails=n, expand=False, **TABLE)
        for name, n in (("by rail", 4), ("by rack", 1))
    }
    view = live.wirings(small)
    for ring in range(4):
        for seed in range(21):
            scene = view.set(ring=ring, seed=seed).scene
            for wiring, dark in (("by rail", True), ("by rack", False)):
                rows = [i for i, name in enumerate(scene.table["wired"]) if name == wiring]
                up = [i for i in rows if "leaf" in scene.table["from"][i]]
                assert up
                assert (np.max(scene.table["carries"][up]) == 0) == dark
                told = sentence("live.wirings.hops", wiring=wiring, all=32)
                said = scene.said[:1].lower() + scene.said[1:]
                assert (told.search(said)["hops"] == "0") == dark


def test_what_is_said_of_hashes_is_true():
    fullest = {n: expected_fullest(n, 32) for n in (32, 64, 256)}
    assert fullest[256] / 8 < fullest[64] / 2 < fullest[32] and fullest[64] < 1.6 * fullest[32]
    view, seen = live.roulette(flows=32), []
    for seed in range(100):
        seen.append(view.set(seed=seed).scene.table["flows"])
    assert min(np.sum(held == 0) for held in seen) > 0
    assert (
        max(live.roulette(flows=8, seed=seed).scene.table["flows"].max() for seed in range(5)) > 1
    )


def test_an_all_to_all_crosses_the_spine_unless_relays_change_the_rail():
    view = live.mix(topologies.build("rail_optimised", rails=4, **TABLE), 100)
    for routing, part in (("spray", 75), ("pxn", 0)):
        said = view.set(routing=routing).scene.said
        assert sentence("live.mix.said", routing=exit_name(routing), spine=part).search(said)
    assert sentence("live.mix.said", share=0, leaf=100).search(view.set(share=0).scene.said)


def test_the_view_says_own_nic_and_its_line_of_code_keeps_the_name_of_the_routing():
    view = live.mix(topologies.build("rail_optimised", rails=4, **TABLE), 100)
    assert [exit_name(routing) for routing in ("spray", "pxn")] == ["own NIC", "PXN"]
    assert "own NIC" in view.scene.said and "spray" not in view.scene.said
    assert "routing='pxn'" in view.set(routing="pxn").code
    assert "routing='spray'" in view.set(routing="spray").code


@pytest.mark.parametrize(
    ("group", "rail", "rack"),
    [(32, 21 / 24, 0), (128, 105 / 120, 96 / 120), (1024, 985 / 1016, 992 / 1016)],
)
def test_the_size_of_a_group_decides_which_wiring_keeps_its_all_to_all_off_the_spines(
    group, rail, rack
):
    members = np.arange(group)
    sender, target = (pair.ravel() for pair in np.meshgrid(members, members, indexing="ij"))
    outside = RAIL.server[sender] != RAIL.server[target]
    for fabric, part in ((RAIL, rail), (RACK, rack)):
        whole = collectives.levels(fabric, sender[outside], target[outside])
        first = collectives.levels(fabric, [0] * (group - 8), range(8, group))
        assert whole["over a spine"] == pytest.approx(part) == pytest.approx(first["over a spine"])


@pytest.mark.parametrize(
    ("group", "rail", "rack"),
    [(32, 0, 0), (128, 0, 96 / 120), (256, 0, 224 / 248), (1024, 96 / 127, 992 / 1016)],
)
def test_with_pxn_a_rail_keeps_256_gpus_off_the_spines_and_a_rack_32(group, rail, rack):
    target = np.arange(8, group)
    relay = target % 8  # the GPU of server 0 on the rail of the target
    by_relay = collectives.levels(RAIL, relay, target)
    assert by_relay["over a spine"] == pytest.approx(rail)
    by_rack = collectives.levels(RACK, np.zeros_like(target), target)
    assert by_rack["over a spine"] == pytest.approx(rack)

    whole = topologies.build("rail_optimised")  # with NVLink, which the relay needs
    flows = Flows.make(whole.endpoint[np.zeros_like(target)], whole.endpoint[target], 1.0)
    routes = route(whole, flows, "pxn")
    of_link = np.repeat(routes.flow, np.diff(routes.ptr))
    crossing = np.unique(of_link[np.isin(whole.target[routes.link], whole.nodes("spine"))])
    assert crossing.size / target.size == pytest.approx(rail)  # the routing agrees


def test_a_ring_in_several_flows_suffers_less_from_hashes():
    size = catalog.case().dp_gradients

    def worst(flows):
        runs = (
            simulate("all_reduce", "ring", RACK, size, placement=GROUPS, seed=n, subflows=flows)
            for n in range(1, 21)
        )
        return max(run.time for run in runs)

    assert [round(worst(flows), 2) for flows in (1, 2, 8)] == [2.80, 1.75, 0.79]


@pytest.mark.parametrize("down", [32, 40, 48, 56])
def test_traffic_between_leaves_pays_the_blocking_factor(down):
    factor = down / (64 - down)
    f = topologies.build("leaf_spine", hosts=down * 4, oversubscription=factor)
    slow = 1 / metrics.throughput(f, metrics.shift(f, down)).part
    assert slow == pytest.approx(factor) == pytest.approx(find("21-blocking").key({"d": down}))


def test_rails_spare_the_spine_to_rings_and_need_it():
    assert [collectives.spine_crossings(f, GROUPS) for f in (RAIL, RACK)] == [32, 256]
    # of a NIC
    assert len({float(f.capacity[f.out[1][f.out[0][f.endpoint]]].max()) for f in (RAIL, RACK)}) == 1
    servers = topologies.build("rail_optimised")
    assert economics.legality(servers) == ()
    (apart,) = economics.legality(servers.without(nodes=servers.nodes("spine")))
    assert (apart.rule, apart.figure) == ("connectivity", 768)


def test_three_flows_meet_by_rack_and_none_by_rail():
    runs = [simulate("all_reduce", "ring", f, "100 GB", placement=GROUPS) for f in (RAIL, RACK)]
    assert [run.sharers().max() for run in runs] == [1, 3]
    assert runs[1].time / runs[0].time == pytest.approx(3, rel=1e-3)
    sprayed = [
        simulate("all_reduce", "ring", f, "100 GB", placement=GROUPS, method="spray")
        for f in (RAIL, RACK)
    ]
    assert sprayed[1].time == pytest.approx(sprayed[0].time, rel=1e-3)


def test_tables_by_target_spare_a_ring_by_rack_in_order_only():
    meet = []
    for seed in range(6):
        order = collectives.shuffled(GROUPS, seed)
        run = simulate("all_reduce", "ring", RACK, "100 GB", placement=order, method="d_mod_k")
        meet.append(run.sharers().max())
    assert meet[0] == 1 and min(meet[1:]) > 1


def test_static_tables_let_three_flows_meet_by_rail_and_four_by_rack():
    def ring(fabric, shuffle, size="100 GB"):
        order = collectives.shuffled(GROUPS, shuffle)
        return simulate("all_reduce", "ring", fabric, size, placement=order, method="d_mod_k")

    meet = np.array([[ring(f, n).sharers().max() for f in (RAIL, RACK)] for n in range(1, 41)])
    assert meet.max(axis=0).tolist() == [3, 4]
    assert np.count_nonzero(meet[:, 1] == 4) == 11 and meet[12, 1] == 4
    gradients = catalog.case().dp_gradients
    assert ring(RACK, 13, gradients).time == pytest.approx(2.80, abs=0.005)
    assert ring(RAIL, 1, gradients).time == pytest.approx(2.10, abs=0.005)
    assert ring(RACK, 1, gradients).time == pytest.approx(2.10, abs=0.005)


def test_a_cable_of_a_rack_leads_to_nics_of_one_number_of_which_a_leaf_has_four():
    rail = np.empty(GROUPS.size, dtype=int)
    for number, group in enumerate(GROUPS):
        rail[group] = number
    ends = RACK.endpoint
    flows = Flows.make(np.repeat(ends[0], ends.size - 1), ends[1:], 1.0)
    routes = route(RACK, flows, "d_mod_k")
    up = np.isin(RACK.target[routes.link], RACK.nodes("spine"))
    of_link = np.repeat(routes.flow, np.diff(routes.ptr))
    numbers = {}
    for flow, link in zip(of_link[up], routes.link[up], strict=True):
        numbers.setdefault(int(link), set()).add(int(rail[flow + 1]))
    assert len(numbers) == 32
    assert all(len(each) == 1 for each in numbers.values())
    assert len(ends) / len(RACK.nodes("leaf")) / len(GROUPS) == 4  # NICs of a number on a leaf


def test_a_shuffled_rail_that_is_hashed_loses_to_a_rack_in_order():
    def fullest(fabric, shuffle, seed=0):
        order = collectives.shuffled(GROUPS, shuffle)
        run = simulate("all_reduce", "ring", fabric, "100 GB", placement=order, seed=seed)
        return run.sharers().max()

    assert [fullest(f, shuffle) for shuffle in (0, 1) for f in (RAIL, RACK)] == [1, 3, 5, 6]
    assert min(fullest(RAIL, 1, seed) for seed in range(8)) > fullest(RACK, 0)


def test_three_of_eight_flows_meet_on_a_leaf_in_one_of_twenty_cases():
    draws = np.random.default_rng(0).integers(0, 32, size=(100_000, 8))
    most = np.array([np.bincount(row).max() for row in draws])
    assert np.mean(most >= 3) == pytest.approx(0.0484, abs=0.003)
    assert np.mean(most == 1) == pytest.approx(0.386, abs=0.006)


@pytest.mark.parametrize(("down", "spines"), [(44, 10), (48, 8), (52, 6)])
def test_spines_are_as_many_as_share_the_uplinks_of_a_leaf_evenly(down, spines):
    f = topologies.build("rail_optimised", oversubscription=down / (64 - down), expand=False)
    leaf, top = f.nodes("leaf"), f.nodes("spine")
    assert (leaf.size, top.size) == (24, spines)
    assert {f.links_between(a, b).size for a in leaf for b in top} == {2}


def test_two_rings_on_one_nic_make_a_step_a_seventh_longer():
    case = catalog.case()
    halved = case.replace(nic_rate=case.nic_rate / 2)
    assert halved.t_step / case.t_step == pytest.approx(1.15, abs=0.005)


def test_the_price_list_fits_eight_networks_and_in_two_rows_one_as_well():
    listed = {int(s.name.split()[0]): s.value for s in catalog.systems["h100-sheet"].specs}
    apart, one = (
        {n: metrics.switches(topologies.build(name, servers=n // 8, expand=False)) for n in listed}
        for name in ("rail_only", "rail_optimised")
    )
    assert listed == apart and [n for n in listed if listed[n] == one[n]] == [1024, 32768]


@pytest.mark.parametrize("ports", [32, 64, 128])
def test_two_tiers_end_where_the_answer_says(ports):
    most = int(find("21-two-tiers").key({"p": ports}))
    assert topologies.build("leaf_spine", hosts=most, radix=ports).n_ranks == most
    with pytest.raises(ValueError, match="two tiers"):
        topologies.build("leaf_spine", hosts=most + 1, radix=ports)
    assert topologies.build("leaf_spine", hosts=most + 1, radix=2 * ports).n_ranks == most + 1
    assert (
        topologies.build("leaf_spine", hosts=most + 1, radix=ports, oversubscription=3).n_ranks
        == most + 1
    )


@pytest.mark.parametrize("k", [8, 16, 24])
def test_a_fat_tree_has_as_many_switches_as_the_answer_says(k):
    assert metrics.switches(topologies.build("fat_tree", k=k)) == find("21b-k-ary").key({"k": k})


@pytest.mark.parametrize(("servers", "ports"), [(128, 64), (512, 64), (1024, 64)])
def test_leaves_are_as_many_as_the_answer_says(servers, ports):
    f = topologies.build("rail_optimised", servers=servers, radix=ports, expand=False)
    assert f.nodes("leaf").size == find("21c-leaves").key({"s": servers, "p": ports})


def test_after_a_restart_only_the_order_explains_the_hops():
    draws = [collectives.shuffled(GROUPS, seed) for seed in range(1, 401)]
    crossed = [collectives.spine_crossings(RAIL, order) for order in draws]
    assert not np.any(np.mod(crossed, 8)) and 776 in crossed
    assert "776" in find("21c-restart").words.prompt
    assert np.mean(crossed) == pytest.approx(1024 * 96 / 127, rel=0.01)
    tapered = topologies.build("rail_optimised", oversubscription=3, expand=False)
    assert collectives.spine_crossings(tapered, GROUPS) < 32
    hurt, ends = RAIL.without(nodes=RAIL.nodes("leaf")[:1]), RAIL.endpoint[GROUPS[0]]
    with pytest.raises(NoPath):
        route(hurt, Flows.make(ends, np.roll(ends, -1), 1.0))


def by_formula(gpus, radix):
    ports = 3 if gpus <= radix * radix / 2 else 5
    return ports * gpus / radix


def by_tiers(gpus, radix):
    tiers, reach = 1, radix
    while reach < gpus:
        tiers, reach = tiers + 1, reach * radix // 2
    return (2 * tiers - 1) * gpus // radix


@pytest.mark.parametrize("rule", [by_formula, by_tiers])
def test_a_right_count_of_switches_is_right(rule):
    assert check("21-write-switches", rule).data["right"]


@pytest.mark.parametrize("name", lesson21.COUNT_MISTAKES)
def test_a_known_mistake_of_counting_is_shown_with_the_number_of_a_network(name):
    shown = check("21-write-switches", lesson21.COUNT_MISTAKES[name])
    counted = {str(lesson21.built_switches(*network)) for network in lesson21.NETWORKS}
    assert any(f"{number} switches" in str(shown) for number in counted)


@pytest.mark.parametrize(
    "rule",
    [
        lambda gpus, radix: None,
        lambda gpus, radix: "48",
        lambda gpus, radix: [48],
        lambda gpus: 48,
        lambda gpus, radix: gpus / 0,
    ],
)
def test_what_is_no_count_of_switches_is_not_counted(rule):
    assert not check("21-write-switches", rule).data["counted"]
