"""Designs of a cluster: closed forms, what sheets may say, each requirement, and right and flawed designs."""

import json
from functools import cache

import numpy as np
import pytest

from fabriclab import catalog, designs, economics, topologies, units
from fabriclab.designs.approaches import APPROACHES
from fabriclab.designs.needs import step
from fabriclab.designs.network import Network, spray
from fabriclab.designs.traffic import Messages, carried, messages, times
from support.exercise2_designs import flawed, more_right, rails, right
from support.sampling import sampled

MORE = more_right()
RIGHT = (*APPROACHES, *MORE)
FLAWED = flawed()


@cache
def right_sheet(name):
    """Return a right design by its name."""
    return right(MORE[name]) if name in MORE else designs.examples()[name]


# Right and flawed designs


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, "a class") for name in RIGHT] + sampled([(name, 7) for name in RIGHT], 6),
)
def test_a_right_design_meets_every_requirement(name, key):
    report = designs.grade(right_sheet(name), key)
    assert report.passed, str(report)
    assert tuple(v.requirement for v in report.verdicts) == designs.requirements()
    assert report.seconds < 5


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_no_key_refuses_a_right_design(name):
    for key in range(40):
        report = designs.grade(right_sheet(name), key)
        assert report.passed, f"{key}: {report}"


@pytest.mark.parametrize("name", FLAWED)
def test_a_flawed_design_is_refused_for_its_flaw(name):
    requirement, sheet = FLAWED[name]
    report = designs.grade(sheet, "a class")
    assert not report.passed
    first = report.failed[0]
    assert first.requirement == requirement, str(report)
    assert first.margin <= 0 and first.words
    fabric = designs.read(sheet).fabric
    assert all(0 <= node < fabric.n_nodes for node in first.nodes)
    assert all(0 <= link < fabric.n_links for link in first.links)
    if requirement not in ("size", "drains", "choice"):
        assert first.nodes or first.links  # where to look


def test_enough_designs_are_tried():
    assert len(RIGHT) >= 16 and len(FLAWED) >= 25
    wanted = {requirement for requirement, _ in FLAWED.values()}
    assert wanted == set(designs.requirements())


def test_a_report_is_plain_data():
    for sheet in (right_sheet("rails at 2:1"), FLAWED["four leaves for a server"][1]):
        report = designs.grade(sheet, "a class")
        again = designs.Report.from_dict(json.loads(json.dumps(report.as_dict())))
        assert again == report
        assert json.loads(json.dumps(dict(sheet))) is not None


def test_a_requirement_is_open_until_another_is_met():
    report = designs.grade(FLAWED["two halves"][1])
    assert report["routes"].passed is False
    assert report["demand"].passed is None and "routes" in report["demand"].words
    assert report.figures == {}


def test_the_twelve_designs_are_a_trade():
    """At list prices no design is the best: money buys time, over a range that is worth a thought."""
    dots = designs.gallery(designs.examples().values())
    assert len(dots) == 12 and all(dot.passed for dot in dots)
    kept = designs.front([(dot.cost, dot.time) for dot in dots])
    front = [dot for dot, is_kept in zip(dots, kept, strict=True) if is_kept]
    assert len(front) >= 4
    assert front[0].time / front[-1].time >= 1.03 and front[-1].cost / front[0].cost >= 1.5
    # Two dots that hide each other would tell nothing of one of them.
    for i, one in enumerate(dots):
        for other in dots[:i]:
            assert abs(one.cost - other.cost) > 10e3 or abs(one.time - other.time) > 1e-3


def test_the_page_on_designs_has_the_numbers_of_the_twelve(root):
    page = (root / "docs" / "design_checks.md").read_text()
    for name, sheet in designs.examples().items():
        figures = designs.figures(designs.read(sheet))
        assert f"| {name} | {figures['cost'] / 1e6:.2f} | {figures['time']:.3f} |" in page


def test_the_gallery_has_no_names():
    names = ("rails at 2:1", "rail-only", "direct groups")
    dots = designs.gallery([right_sheet(name) for name in names])
    assert [dot.label for dot in dots] == ["A", "B", "C"]
    assert [dot.cost for dot in dots] == sorted(dot.cost for dot in dots)
    assert all(dot.passed for dot in dots)
    assert not any(name in repr(dots) for name in names)


# Demand, in closed form


def test_dense_is_the_running_case():
    job = catalog.case()
    needs = {need.axis: need for need in designs.demand(designs.workloads()[0])}
    assert needs["DP"].bytes == pytest.approx(job.dp_bytes)
    assert needs["DP"].rate == pytest.approx(job.nic_break_even)
    assert needs["TP"].bytes == pytest.approx(job.tp_bytes)
    time = {"DP": job.t_dp}
    assert step(designs.workloads()[0], time).total == pytest.approx(job.t_step)


def test_the_other_axes_by_hand():
    size = catalog.case().parameters
    sharded, pipeline, experts, tenants = designs.workloads()[1:]
    fsdp = designs.demand(sharded)[0]
    assert fsdp.bytes == pytest.approx(3 * 2 * size / 8 * 127 / 128)
    message = 8192 * 8192 * 2  # [B]
    by_axis = {need.axis: need for need in designs.demand(pipeline)}
    assert by_axis["DP"].bytes == pytest.approx(2 * 31 / 32 * 2 * size / 32)
    assert by_axis["PP"].bytes == pytest.approx(2 * 16 * message / 8)
    exchange = next(need for need in designs.demand(experts) if need.axis == "EP")
    assert exchange.bytes == pytest.approx(4 * 40 * 4 * message / 8 * 4 * 63 / 64)
    (scattered,) = designs.demand(tenants)
    assert scattered.bytes == pytest.approx(4 * 12 * 4 * message / 2 * 2 * 31 / 32)
    assert scattered.window == pytest.approx(catalog.case().t_compute)


@pytest.mark.parametrize("key", [*range(20), "a class"])
def test_nothing_that_is_drawn_needs_more_than_what_is_known(key):
    assert designs.drawn_workloads(key) == designs.drawn_workloads(key)
    for known, drawn in zip(designs.workloads(), designs.drawn_workloads(key), strict=True):
        limit = {(n.axis, n.tier): n.rate for n in designs.demand(known)}
        for need in designs.demand(drawn):
            assert need.rate <= limit[need.axis, need.tier] * (1 + 1e-9) or need.axis == "PP"
    prices = designs.drawn_prices(key)
    assert all(1 - designs.SPREAD <= factor <= 1 + designs.SPREAD for factor in prices)


# Loads and faults, in closed form


def crossings(design):
    """Return how many hops of the ring of all ranks cross a spine."""
    ring = messages(design, designs.workloads()[0])["DP"]
    load = carried(design.network, ring)
    leaf = design.fabric.tier[design.network.switch] == 1
    return load.bundle[leaf].sum() / (ring.size[0] / design.gpus)


def test_a_ring_on_rails_crosses_the_spine_32_times():
    hall = designs.read({"family": "rail_optimised"})
    assert crossings(hall) == pytest.approx(32)
    by_rack = designs.read({"family": "rail_optimised", "arguments": {"rails": 1}})
    assert crossings(by_rack) == pytest.approx(8 * 32)


def test_one_leaf_in_two_wirings():
    rack = designs.read({"family": "rail_optimised", "arguments": {"rails": 1}})
    lost = designs.fault(rack, [rack.node("leaf 0.3")])
    assert lost.cut_off == 32 and lost.left == 0 and lost.servers == (12, 13, 14, 15)
    rail = designs.read({"family": "rail_optimised"})
    kept = designs.fault(rail, [rail.node("leaf 3.1")])
    assert kept.cut_off == 0 and kept.left == pytest.approx(7 / 8)
    dual = designs.read({"family": "dual_tor"})
    assert min(f.left for f in designs.faults(dual)) == pytest.approx(15 / 16)


def test_the_smaller_part_is_cut_off_wherever_it_stands():
    for few in (2, 6):
        cables = []
        for server in range(8):
            cables.append([f"server {server} nic 0", f"leaf {int(server >= few)}"])
        cables += [["leaf 0", "spine 0"], ["leaf 1", "spine 0"]]
        switches = [{"name": name} for name in ("leaf 0", "leaf 1", "spine 0")]
        sheet = {"servers": 8, "gpus": 1, "switches": switches, "cables": cables}
        design = designs.read(sheet)
        assert designs.fault(design, [design.node("spine 0")]).cut_off == 2
        assert designs.fault(design, [design.node("leaf 0")]).cut_off == few


def test_what_arrives_counts_as_what_leaves():
    design = designs.read({"family": "rail_optimised"})
    servers = np.arange(1, 5)
    one = np.zeros(4, np.int64)
    rate = 8 * catalog.case().nic_rate
    for sent in (
        Messages(servers, one, np.full(4, rate)),
        Messages(one, servers, np.full(4, rate)),
    ):
        assert times(design.network, carried(design.network, sent)).seconds == pytest.approx(4)


def test_a_fast_port_sends_to_two_slow_ones():
    cables = [["server 0 nic 0", "leaf 0"], ["server 1 nic 0", "leaf 0", 2]]
    sheet = {"servers": 2, "gpus": 1, "switches": [{"name": "leaf 0"}], "cables": cables}
    net = designs.read(sheet).network
    assert net.port_rate.tolist() == [50e9, 25e9, 25e9]
    for one, other in ((0, 1), (1, 0)):
        sent = Messages(np.array([one]), np.array([other]), np.array([50e9]))
        assert times(net, carried(net, sent)).seconds == pytest.approx(1)


def test_a_taper_is_felt_by_experts_alone():
    wide = designs.read({"family": "rail_optimised"})
    narrow = designs.read(rails(spines=8, each=1))  # 8 cables up for 32 down
    dense, _, _, experts, _ = designs.workloads()
    for hall in (wide, narrow):
        assert designs.loads(hall, dense).by_axis["DP"] == pytest.approx(catalog.case().t_dp)
    bytes_ = next(n.bytes for n in designs.demand(experts) if n.axis == "EP")
    expected = 32 * bytes_ * 32 / 63 / (8 * catalog.case().nic_rate)
    assert designs.loads(narrow, experts).by_axis["EP"] == pytest.approx(expected)


def test_bytes_are_kept():
    design = designs.read(right_sheet("torus of leaves"))
    for workload in designs.workloads():
        sent = sum(m.size.sum() for m in messages(design, workload).values())
        if workload.scattered:
            sent = design.servers * design.gpus * designs.demand(workload)[0].bytes
        load = designs.loads(design, workload).link
        out = np.isin(design.fabric.source, design.fabric.endpoint)
        into = np.isin(design.fabric.target, design.fabric.endpoint)
        assert load[out].sum() == pytest.approx(sent)
        assert load[into].sum() == pytest.approx(sent)


def test_spray_divides_by_rates():
    capacity = np.zeros((4, 4))
    capacity[0, 1], capacity[0, 2], capacity[1, 3], capacity[2, 3] = 3.0, 1.0, 3.0, 1.0
    capacity += capacity.T
    hops = Network(np.arange(4), capacity, *[np.zeros(0, int)] * 3, np.zeros(0), 0).hops
    sent = np.zeros((4, 4))
    sent[0, 3] = 8.0
    load = spray(capacity, hops, sent)
    assert load[0, 1] == load[1, 3] == 6.0
    assert load[0, 2] == load[2, 3] == 2.0


def test_own_rules_carry_what_they_say():
    sheet = rails(spines=2, each=12)
    sheet["routing"] = {"leaf 0.0": {"leaf 0.1": ["spine 1"]}}
    design = designs.read(sheet)
    net = design.network
    number = {design.title(i): i for i in range(net.n)}
    sent = np.zeros((net.n, net.n))
    sent[number["leaf 0.0"], number["leaf 0.1"]] = 1.0
    sent[number["leaf 0.0"], number["leaf 0.2"]] = 1.0
    load = net.carried(sent)
    assert load[number["leaf 0.0"], number["spine 1"]] == pytest.approx(1.5)
    assert load[number["leaf 0.0"], number["spine 0"]] == pytest.approx(0.5)
    # If its only next switch has failed, a controller finds the shortest paths that are left.
    left = net.without(np.array([number["spine 1"]]))
    load = left.carried(sent)
    assert load[number["leaf 0.0"], number["spine 0"]] == pytest.approx(2)
    assert (left.hops[:, number["spine 1"]] > net.n).sum() == net.n - 1


def test_rules_with_one_path_each_survive_a_spine():
    sheet = rails(spines=12)
    goals = [f"leaf {rail}.{b}" for rail in range(8) for b in range(4)]
    # As many spines for each block as its traffic needs; towards a single leaf there is no other.
    sheet["routing"] = {
        here: {
            goal: [f"spine {(3 * int(goal[-1]) + i) % 12}" for i in range(6)]
            for goal in goals
            if goal != here
        }
        for here in goals
    }
    sheet["routing"]["leaf 0.3"]["leaf 0.0"] = "spine 5"  # of the ring of rail 0
    design = designs.read(sheet)
    assert min(fault.left for fault in designs.faults(design)) >= designs.FLOOR


# Prices


def test_the_bill_at_list_prices_is_that_of_economics():
    design = designs.read({"family": "rail_optimised"})
    planned = economics.floor_plan(topologies.build("rail_optimised", expand=False))
    assert designs.bill_of(design).capital == economics.bill(planned).capital
    assert designs.bill_of(design).missing == ()
    half = designs.bill_of(design, designs.Prices(switches=0.5))
    assert designs.bill_of(design).capital - half.capital == 48 * catalog.case().price_switch / 2


def test_the_dearer_bill_counts():
    sheet = right_sheet("rails at 2:1")
    listed = designs.figures(designs.read(sheet))["cost"]
    seen = set()
    for key in range(12):
        reached = designs.check(sheet, "budget", key).reached
        drawn = designs.bill_of(designs.read(sheet), designs.drawn_prices(key)).capital
        assert reached == pytest.approx(max(listed, drawn))
        seen.add(drawn > listed)
    assert seen == {True, False}


def test_a_switch_is_paid_for_with_all_its_ports():
    sheet = rails()
    before = designs.bill_of(designs.read(sheet)).capital
    sheet["switches"][-1].update(ports=128)  # most of them idle
    after = designs.bill_of(designs.read(sheet)).capital
    fast = sum(catalog.media["sw64x800"]["price"].ends) / 2
    assert after - before == pytest.approx(fast - catalog.case().price_switch)


def test_split_ports_cost_what_the_box_costs():
    design = designs.read({"family": "dual_tor"})
    assert designs.bill_of(design).items["switch 128 x 200 Gb/s"].price.value == 36_000
    cable = next(i for n, i in designs.bill_of(design).items.items() if n.startswith("fibre"))
    assert cable.price.value == pytest.approx(640)


def test_as_many_ports_up_as_down_everywhere_is_above_the_budget():
    """The bill for what nobody needs: list prices alone refuse it, for every key."""
    for key in range(12):
        found = designs.grade({"family": "rail_optimised"}, key)
        assert found.failed[0].requirement == "budget"
    tapered = designs.read({"family": "rail_optimised", "arguments": {"oversubscription": 2}})
    highest = designs.bill_of(tapered, designs.Prices(*[1 + designs.SPREAD] * 3)).capital
    assert highest < designs.BUDGET


def test_models_have_the_prices_of_the_bill():
    for name, model in designs.models().items():
        assert name == f"{model.ports} x {model.rate * 8e-9:g} Gb/s" and model.source
        assert model.price > 0 and model.power > 0
    for sheet in (right_sheet("planes without spines"), right_sheet("rail-only")):
        items = designs.bill_of(designs.read(sheet)).items
        name = next(name for name in items if name.startswith("switch"))
        model = designs.models()[name.removeprefix("switch ")]
        assert model.price == items[name].price.value


# Relays


def test_relays_take_little_of_the_scale_up_domain():
    """If every byte of a full NIC crossed it, beside all that TP needs, there would be room."""
    job = catalog.case()
    tensor = max(
        need.rate
        for key in ("", 1, 2)
        for workload in (*designs.workloads(), *designs.drawn_workloads(key))
        for need in designs.demand(workload)
        if need.tier == "server"
    )
    assert tensor == pytest.approx(199.4e9, rel=1e-3)
    assert tensor + float(job.nic_rate) < 0.6 * float(job.nvlink_per_gpu)
    assert job.nvlink_per_gpu / job.nic_rate == pytest.approx(9)


def test_groups_of_experts_cross_no_border_that_no_known_one_does():
    """Thin links in the middle of a cluster do experts no harm, whatever key draws their groups."""
    sheet = rails(spines=0)
    for rail in range(8):
        for block, number in enumerate((20, 2, 20, 2)):
            sheet["cables"].append(
                [f"leaf {rail}.{block}", f"leaf {rail}.{(block + 1) % 4}", number]
            )
    design = designs.read(sheet)
    for key in range(20):
        job = next(w for w in designs.drawn_workloads(key) if w.name == "drawn experts")
        need = next(n for n in designs.demand(job) if n.axis == "EP")
        assert need.bytes / designs.loads(design, job).by_axis["EP"] >= need.rate


def small_groups():
    """Return rails of leaves that are joined directly, and an order in which a group of 64 has 16 on each leaf."""
    sheet = rails(spines=0)
    for rail in range(8):
        for one in range(4):
            for other in range(one + 1, 4):
                sheet["cables"].append([f"leaf {rail}.{one}", f"leaf {rail}.{other}", 7])
    halves = [
        range(32 * block + 16 * half, 32 * block + 16 * half + 16)
        for half in (0, 1)
        for block in range(4)
    ]
    return sheet | {"order": [server for half in halves for server in half]}


def test_smaller_groups_of_experts_are_asked_for_under_any_key():
    """Groups of 32 send twice as much between two leaves as the known one of 64, and no key decides about that."""
    found = {designs.check(small_groups(), "demand", key).words for key in ("", *range(8))}
    (words,) = found
    assert "experts in groups of 32" in words
    known = {w.name: {n[:2]: n.rate for n in designs.demand(w)} for w in designs.workloads()}
    for job in designs.drawable_workloads():
        limit = known[job.name.split()[0]]
        for need in designs.demand(job):
            assert need.rate <= limit[need.axis, need.tier] * (1 + 1e-9)


# Sheets


def test_names_in_messages_are_those_of_a_sheet():
    sheet = rails()
    del sheet["cables"][43]
    found = designs.check(sheet, "size")
    assert not found.passed and "server 5 nic 3 has no cable" in found.words
    sheet = rails()
    sheet["cables"] = [
        row for row in sheet["cables"] if row[0] not in ("server 5 nic 3", "server 9 nic 0")
    ]
    assert "(and another one alike)" in designs.check(sheet, "size").words
    slow = FLAWED["one NIC at half rate"][1]
    assert "leaf 0.0 -> server 0 nic 0" in designs.check(slow, "demand").words
    assert "more cables elsewhere do not help" in designs.check(slow, "demand").words


def test_one_network_may_be_written_in_many_ways():
    plain = {"family": "rail_optimised", "arguments": {}}
    ways = [
        {"family": "rail_optimised"},
        {**plain, "servers": 128, "name": "another name"},
        {**plain, "arguments": {"servers": 128.0, "gpus": 8, "rails": 8}},
        {**plain, "floor": {}, "without": [], "routing": {}},
    ]
    one = designs.read(plain)
    assert all(one.same_network(designs.read(way)) for way in ways)
    others_ = [
        {**plain, "arguments": {"oversubscription": 2}},
        {**plain, "order": list(reversed(range(128)))},
        {**plain, "without": ["spine 3"]},
        {**plain, "floor": {"slack": 5}},
        {**plain, "routing": {"leaf 0.0": {"leaf 0.1": ["spine 0"]}}},
    ]
    assert not any(one.same_network(designs.read(other)) for other in others_)


def test_switches_that_are_left_out_are_not_there():
    sheet = {**rails(), "without": ["spine 3"]}
    design = designs.read(sheet)
    assert len(design.switches) == 41 and designs.figures(design)["switches"] == 41
    drains = designs.plan_drains(design)
    assert not any("spine 3" in night for night in drains)
    assert designs.check({**sheet, "drains": drains}, "drains").passed
    before = designs.bill_of(designs.read(rails())).capital
    assert before - designs.bill_of(design).capital > catalog.case().price_switch


def test_switches_with_names_of_ones_own_may_be_left_out():
    sheet = rails()
    for box in sheet["switches"]:
        box["name"] = box["name"].replace("spine ", "S")
    for row in sheet["cables"]:
        row[1] = row[1].replace("spine ", "S")
    design = designs.read({**sheet, "without": ["S3", "S4"]})
    assert len(design.switches) == 40 and not {"S3", "S4"} & {design.title(i) for i in range(40)}


def test_leaves_stand_beside_their_servers_wherever_these_are():
    by_rack = rails(spines=16)
    for row in by_rack["cables"][:1024]:
        leaf = int(row[0].split()[1]) // 4
        row[1] = f"leaf {leaf // 4}.{leaf % 4}"
    own = {**by_rack, "server_racks": [server // 4 for server in range(128)]}
    here, there = (designs.bill_of(designs.read(sheet)).items for sheet in (by_rack, own))
    copper = [
        {name: item.quantity for name, item in items.items() if name.startswith("copper")}
        for items in (here, there)
    ]
    assert all(sum(lengths.values()) >= 1024 for lengths in copper)  # all NICs


def test_rules_that_say_what_shortest_paths_do_are_none():
    spines = [f"spine {i}" for i in range(10)]
    goals = [f"leaf {rail}.{b}" for rail in range(8) for b in range(4)]
    rules = {here: {goal: spines for goal in goals if goal != here} for here in goals}
    assert designs.read({**rails(), "routing": rules}).network.rules is None
    assert designs.read({**rails(), "routing": {}}).network.rules is None
    # No traffic ends at a spine, so a circle there carries nothing.
    circle = {"leaf 0.0": {"spine 0": ["spine 1"]}}
    assert designs.check({**rails(), "routing": circle}, "routes").passed


def test_a_crossbar_is_refused_as_a_switch_that_nobody_sells():
    sheet = {"family": "crossbar", "arguments": {"hosts": 1024}, "servers": 128}
    found = designs.check(sheet, "ports")
    assert not found.passed and "no such switch is sold" in found.words


def test_a_difference_of_the_other_sign_is_false():
    sheet = dict(right_sheet("few spines"))
    cost = sheet["front"][0]["cost"]
    sheet["front"] = [
        sheet["front"][0],
        {"name": "near", "cost": 0.99 * cost, "time": 9.0},
        sheet["front"][2],
    ]
    sheet["choice"] = {**sheet["choice"], "next": "near", "difference": {"cost": -0.005 * cost}}
    assert not designs.check(sheet, "choice").passed


def test_a_fabric_and_its_sheet_are_the_same_design():
    for name, arguments in (("rail_optimised", {"servers": 128}), ("dual_tor", {"servers": 128})):
        one = designs.read({"family": name, "arguments": arguments})
        other = designs.read(designs.sheet_of(topologies.build(name, **arguments)))
        for workload in designs.workloads():
            assert designs.loads(one, workload).by_axis == pytest.approx(
                designs.loads(other, workload).by_axis
            )
        # Leaves of equal racks may stand in another order, so cables differ by a metre.
        assert designs.figures(one)["cost"] == pytest.approx(
            designs.figures(other)["cost"], rel=0.02
        )
        assert len(one.switches) == len(other.switches)


def test_plug_by_rail_and_by_server():
    network = topologies.build("leaf_spine", hosts=32, radix=16)
    by_rail = designs.plug(network, 4, 8)
    by_server = designs.plug(network, 4, 8, "by server")
    assert designs.read(designs.sheet_of(by_rail)).network.classes.ports[0][0].tolist() == [
        0, 0, 1, 1, 2, 2, 3, 3,
    ]  # fmt: skip
    assert designs.read(designs.sheet_of(by_server)).network.classes.ports[0][0].tolist() == [0] * 8
    again = designs.plug(network, 4, 8, np.arange(32).tolist())
    assert again.target.tolist() == by_server.target.tolist()


WRONG = [
    (3, "must be a dict"),
    ({}, "'family' with 'arguments'"),
    ({"famly": "torus"}, "did you mean 'family'"),
    ({"family": "torrus"}, "did you mean"),
    ({"family": "rail_optimised", "arguments": 3}, "arguments must be a dict"),
    ({"family": "rail_optimised", "arguments": {"servers": 10**9}}, "at most 4,096"),
    ({"family": "rail_optimised", "arguments": {"servers": np.int64(10**9)}}, "at most 4,096"),
    ({"family": "torus", "arguments": {"shape": [4096, 4096], "hosts": 1}}, "in all"),
    ({"family": "fat_tree", "arguments": {"k": 4096}}, ""),
    ({"family": "hypercube", "arguments": {"dimensions": 30}}, ""),
    ({"family": "leaf_spine", "arguments": {"hosts": 1024}, "servers": 1}, "at least 2 servers"),
    (
        {"family": "rail_optimised", "servers": 128, "arguments": {"servers": 64}},
        "servers must be said once",
    ),
    (
        {
            "family": "rail_only",
            "arguments": {"servers": 2},
            "without": [f"switch {i}" for i in range(8)],
        },
        "",
    ),
    ({"family": "rail_optimised", "arguments": {"servrs": 128}}, "servrs"),
    ({"family": "rail_optimised", "plug": "by rail"}, "plug must be left out"),
    ({"family": "leaf_spine", "arguments": {"hosts": 64}, "servers": 9}, "a host for each"),
    ({"family": "leaf_spine", "arguments": {"hosts": 64}, "plug": "by foot"}, "plug must be"),
    ({"family": "leaf_spine", "arguments": {"hosts": 64}, "plug": [0] * 64}, "different host"),
    ({"family": "torus", "arguments": {"shape": [4, 4], "hosts": 0}}, "must have hosts"),
    ({"family": "rail_optimised", "routing": "fastest"}, "routing must be 'spray'"),
    ({"family": "rail_optimised", "routing": {"leaf 99.9": {}}}, "is no switch"),
    (
        {"family": "rail_optimised", "routing": {"leaf 0.0": {"leaf 0.1": ["leaf 0.2"]}}},
        "no cable joins them",
    ),
    ({"family": "rail_optimised", "routing": {"leaf 0.0": {"leaf 0.1": []}}}, "a next switch"),
    ({"family": "rail_optimised", "order": [0, 1]}, "each of 128 servers once"),
    ({"family": "rail_optimised", "order": [0] * 128}, "each of 128 servers once"),
    ({"family": "rail_optimised", "server_racks": [0]}, "a rack for each"),
    ({"family": "rail_optimised", "floor": {"media": ["string"]}}, "media must be"),
    ({"family": "rail_optimised", "floor": {"slack": "1 mm"}}, "at least 2 m"),
    ({"family": "rail_optimised", "floor": {"slak": 1}}, "did you mean 'slack'"),
    ({"family": "rail_optimised", "without": ["spine 99"]}, "spine 99"),
    ({"switches": [], "cables": []}, "must have 'servers'"),
    ({"servers": 1, "switches": [], "cables": []}, "switches must list"),
    ({"servers": 1, "switches": [{"nam": "a"}], "cables": []}, "did you mean 'name'"),
    ({"servers": 1, "switches": [{"name": "a"}, {"name": "a"}], "cables": []}, "name of its own"),
    ({"servers": 1, "switches": [{"name": "a"}], "cables": []}, "at least one cable"),
    ({"servers": 1, "switches": [{"name": "a"}], "cables": [["a", "a"]]}, "two different ends"),
    ({"servers": 1, "switches": [{"name": "a"}], "cables": [["a", "b"]]}, "got 'b'"),
    ({"servers": 1, "switches": [{"name": "a"}], "cables": [["a"]]}, "how many"),
    (
        {
            "servers": 2,
            "switches": [{"name": "a"}],
            "cables": [["server 0 nic 0", "server 1 nic 0"]],
        },
        "a switch at one end",
    ),
    (
        {"servers": 1, "switches": [{"name": "a"}], "cables": [["server 1 nic 0", "a"]]},
        "server of a cable must be",
    ),
]


@pytest.mark.parametrize("sheet, words", WRONG, ids=range(len(WRONG)))
def test_a_sheet_that_cannot_be_read_says_why(sheet, words):
    with pytest.raises((TypeError, ValueError)) as refused:
        designs.read(sheet)
    assert words in str(refused.value)
    report = designs.grade(sheet)
    assert not report.passed and words in report.error and report.verdicts == ()
    assert designs.Report.from_dict(report.as_dict()) == report


def test_names_of_switches_are_those_of_the_sheet():
    sheet = rails()
    renamed = {box["name"]: f"Box-{i} of hall" for i, box in enumerate(sheet["switches"])}
    for box in sheet["switches"]:
        box["name"] = renamed[box["name"]]
    for row in sheet["cables"]:
        row[0], row[1] = renamed.get(row[0], row[0]), renamed.get(row[1], row[1])
    report = designs.grade(right(sheet))
    assert report.passed, str(report)
    assert "Box-" in report["all_reduce"].words


def test_front_needs_numbers():
    assert designs.front([(1, 2), (2, 1), (2, 2), (1, 2)]) == (True, True, False, True)
    assert designs.beaten_by([(1, 2), (2, 3)]) == [None, 0]
    assert designs.front([]) == ()
    with pytest.raises(ValueError, match="finite"):
        designs.front([(1, float("nan"))])


def test_figures_are_those_of_a_report():
    design = designs.read(right_sheet("rail-only"))
    figures = designs.figures(design)
    assert set(figures) == set(designs.FIGURES)
    assert figures == dict(designs.grade(design).figures)
    assert figures["switches"] == 8 and figures["cables"] == 1024
    assert figures["cost_per_gpu"] == figures["cost"] / 1024
    assert units.is_number(figures["time"])


def test_a_choice_may_have_units_and_either_axis():
    sheet = dict(right_sheet("rails at 2:1"))
    figures = designs.figures(designs.read(sheet))
    sheet["choice"] = {
        **sheet["choice"],
        "reasons": {
            "power": f"{figures['power'] / 1e3:.1f} kW",
            "time": f"{figures['time']:.2f} s",
        },
    }
    assert designs.check(sheet, "choice").passed
