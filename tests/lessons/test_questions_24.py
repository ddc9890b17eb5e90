"""What the questions of lessons 24, 24b and 24c call right is right on the graphs of the servers and by the catalog."""

import json

import numpy as np
import pytest

import fabriclab
from fabriclab import catalog, check, gpudirect, live, metrics, operations, topologies
from fabriclab.core import Flows
from fabriclab.course.judges.lessons import lesson24, lesson24b, lesson24c
from fabriclab.course.questions import find
from fabriclab.physics import optical
from fabriclab.simulation import best_rings, ring_busbw
from fabriclab.topologies.servers import links_between_gpus
from support.lesson_runs import FILES
from support.prose import figures, states

CELLS = {}  # of all three, by id
for name, file in FILES.items():
    if name.startswith("24"):
        for cell in json.loads(file.read_text("utf-8"))["cells"]:
            CELLS[cell["id"]] = "".join(cell["source"])

MESH, CUBE, SWITCHED = (topologies.build(name) for name in ("mi300x", "dgx1v", "dgx_h100"))
# Found by trying: rings over eight GPUs that use each of the 56 links once.
SEVEN = "05721643 04562731 01465237 07153426 06324175 03547612 02513674"


def test_idle_cables_are_those_of_the_view():
    table = live.server("mi300x", 5).scene.table
    between = [a[:3] == b[:3] == "GPU" for a, b in zip(table["from"], table["to"], strict=True)]
    assert np.sum(between) == 28 and np.sum((table["load"] == 0) & between) == find("24-idle").key(
        {}
    )


@pytest.mark.parametrize("n", [5, 7, 8])
def test_as_many_rings_share_no_link_as_the_answer_says(n):
    orders = [[k * i % n for i in range(n)] for k in range(1, n)]
    if n == 8:
        orders = [[int(gpu) for gpu in ring] for ring in SEVEN.split()]
    hops = {
        (a, b) for order in orders for a, b in zip(order, np.roll(order, -1).tolist(), strict=True)
    }
    assert len(hops) == n * (n - 1) and len(orders) == find("24-rings").key({"n": n})
    assert ring_busbw("all_reduce", MESH, orders) == pytest.approx((n - 1) * 64e9)


def test_a_pair_has_its_share_on_a_mesh_and_all_behind_chips():
    own = catalog.value("links", "xgmi-mi300x", "bandwidth_per_gpu_all_links")
    pairs = [best_rings(MESH, [a, b]).rate for a in range(8) for b in range(a)]
    assert pairs == pytest.approx([own * find("24-share").key({})] * 28)
    assert [best_rings(SWITCHED, [0, b]).rate for b in range(1, 8)] == pytest.approx([450e9] * 7)


def test_the_fifth_v100_has_one_neighbour():
    table = links_between_gpus("dgx1v")
    assert np.flatnonzero(table[4, :4]).tolist() == [0] and np.flatnonzero(table[4]).tolist() == [
        0,
        5,
        6,
        7,
    ]
    rings = {n: best_rings(CUBE, range(n)) for n in range(2, 9)}
    # so PCIe was not in use before
    assert [n for n, found in rings.items() if found.outside] == [5]
    assert (
        rings[3].rate > rings[2].rate
        and rings[7].rate > rings[6].rate
        and rings[8].rate > rings[4].rate
    )


def test_the_bisection_is_that_of_the_graph_and_of_the_data_sheet():
    # the link between processors adds 22 GB/s
    joined = SWITCHED.without(nodes=SWITCHED.nodes("cpu"))
    both = 2 * metrics.bisection(joined).upper
    assert both == pytest.approx(find("24-bisection").key({"n": 8, "l": 18}))
    assert both == pytest.approx(catalog.systems["dgxh100"]["bisection"].value * 1e12)


def test_a_gpu_reaches_all_chips_and_every_chip_serves_all():
    links = [
        SWITCHED.ports[SWITCHED.links_between(SWITCHED.endpoint[0], chip)].sum()
        for chip in SWITCHED.nodes("nvswitch")
    ]
    assert links == [5, 4, 4, 5]
    hurt = SWITCHED.without(nodes=SWITCHED.nodes("nvswitch")[:1])
    assert [best_rings(hurt, pair).rate for pair in ([0, 1], [3, 6])] == pytest.approx([325e9] * 2)


def test_one_layer_holds_as_many_gpus_as_a_chip_has_ports():
    most = int(find("24-domain").key({"p": 72}))
    tiers = [
        np.unique((f := topologies.build("nvl72", gpus=n)).tier[f.nodes("nvswitch")]).size
        for n in (most, most + 4)
    ]
    assert most == catalog.value("switches", "nvswitch4", "ports") and tiers == [1, 2]


def test_the_capacity_is_what_the_catalog_says():
    for chip, link in (("nvswitch3", "nvlink4"), ("nvswitch4", "nvlink5")):
        part, rate = catalog.switches[chip], catalog.value("links", link, "bandwidth_per_link")
        key = find("24b-capacity").key({"p": int(part["ports"].value), "r": f"{rate} B/s"})
        assert key == pytest.approx(part["capacity"].value * 1e12)


def test_one_dead_link_costs_more_gpus_than_a_server_has():
    case = catalog.case()
    slow = case.replace(tp_busbw=17 / 18 * case.tp_busbw)
    longer = slow.t_step - case.t_step
    lost = find("24-lost").key({"n": 1024, "s": "4.60 s", "t": "0.822 s"})
    assert case.gpus * longer / case.t_step == pytest.approx(lost, rel=0.01)
    assert case.gpus_per_server < case.gpus * longer / slow.t_step < 11
    states(CELLS["24-domain-ask"], "0.048 s", "0.822 s", "11 GPUs")


def test_a_restart_of_half_an_hour_pays_after_as_many_hours_as_the_fold_says():
    case = catalog.case()
    longer = case.replace(tp_busbw=17 / 18 * case.tp_busbw).t_step - case.t_step
    hours = 0.5 * case.t_step / longer
    assert round(hours) == 48
    states(CELLS["24-domain-ask"], "48 hours")


def test_an_even_all_to_all_needs_what_the_cut_of_the_mesh_has():
    own = catalog.value("links", "xgmi-mi300x", "bandwidth_per_gpu_all_links")
    halves = fabriclab.simulation.wiring_rates(MESH).halves
    assert 8 * own * 4 / 7 == pytest.approx(halves) == 2.048e12
    worst = fabriclab.simulation.wiring_rates(CUBE).pairings
    assert worst == pytest.approx(6e9 / 4)
    states(CELLS["24-broken-ask"], "2,048 GB/s", "1.5 GB/s")


def test_a_domain_sends_what_the_answer_says():
    rack = topologies.build("nvl72")
    each = catalog.value("accelerators", "gb200", "scaleup_bandwidth")
    # all at once, and none gets less
    sent = Flows.make(rack.endpoint, np.roll(rack.endpoint, 1), each)
    assert metrics.throughput(rack, sent).part == pytest.approx(1.0)
    assert sent.size.sum() == find("24-total").key({"n": 72, "r": "900 GB/s"})


def test_the_drawn_grid_stops_at_675_gb_s():
    names = {"fl": fabriclab, "case": catalog.case()}
    drawing = CELLS["24-wirings"].split("h100 =")[0]
    exec(drawing, names)
    rates = fabriclab.simulation.wiring_rates(names["drawn"])
    assert rates.halves == pytest.approx(675e9)
    halves = {0, 3, 6, 7}
    crossed = [line for line in names["lines"] if len(halves & set(line)) == 1]
    assert len(crossed) == 3
    ours = {0, 1, 3, 4}
    assert len([line for line in names["lines"] if len(ours & set(line)) == 1]) == 4


# Functions that learners write ---------------------------------------------------------------------------------------


def by_share(k, n, rate, chips):
    if chips:
        return rate
    one_link = rate / (n - 1)
    return (k - 1) * one_link


def by_links(k, n, rate, chips):
    links = n - 1
    used = links if chips else k - 1
    return rate * used / links


@pytest.mark.parametrize("rule", [by_share, by_links])
def test_a_right_rate_of_some_gpus_is_right(rule):
    assert check("24-write-reached", rule).data["right"]


@pytest.mark.parametrize(
    ("server", "n", "chips"),
    [("mi300x", 8, False), ("gh200", 4, False), ("dgx_h100", 8, True), ("dgx_a100", 8, True)],
)
def test_the_judge_says_what_the_best_rings_reach(server, n, chips):
    fabric = topologies.build(server)
    own = metrics.domain(fabric).gpu_rate
    for k in range(2, n + 1):
        assert best_rings(fabric, range(k)).rate == pytest.approx(
            lesson24.reached(k, n, own, chips)
        )


def in_steps(label, bits, directions, ports):
    in_bytes = label / 8 if bits else label
    return in_bytes / (directions * ports)


def test_a_right_port_of_a_label_is_right():
    assert check("24b-write-port", in_steps).data["right"]


def test_the_ports_tried_are_those_of_the_catalog():
    found = {name: lesson24b.one_port(*label) / 1e9 for name, label in lesson24b.labels().items()}
    assert sorted(round(rate) for rate in found.values()) == [25, 25, 25, 50, 50, 64, 100, 100]
    ports = {k[1]: n for k, n in lesson24b._LABELS.items()}
    for chip in ("nvswitch3", "quantum2", "spectrum4"):
        assert ports[chip] == catalog.switches[chip]["ports"].value
    for link in ("nvlink4", "nvlink5"):
        assert ports[link] == catalog.links[link]["links_per_gpu"].value


def as_a_chain(switches, cpus):
    if cpus:
        return "NODE" if cpus == 1 else "SYS"
    return "PIX" if switches == 1 else "PXB"


def in_small_letters(switches, cpus):
    return as_a_chain(switches, cpus).lower()


@pytest.mark.parametrize("rule", [as_a_chain, in_small_letters])
def test_a_right_class_of_a_path_is_right(rule):
    assert check("24c-write-path", rule).data["right"]


def test_the_classes_of_the_judge_are_those_of_the_map():
    pairs = zip(lesson24c._PAIRS, lesson24c.paths().values(), strict=False)
    for (server, gpu, nic), passed in pairs:
        printed = gpudirect.topo(topologies.build(server)).relation(f"GPU{gpu}", f"NIC{nic}")
        assert printed == lesson24c.path_class(*passed)


# Labels, and what is outside a server --------------------------------------------------------------------------------


def test_equal_labels_of_two_switches_count_differently():
    ports = [
        catalog.switches[name]["capacity"].si / catalog.switches[name]["ports"].value
        for name in ("quantum2", "spectrum4")
    ]
    assert ports == [50e9, 100e9]
    labels = {catalog.switches[name]["capacity"].quoted for name in ("quantum2", "spectrum4")}
    assert labels == {"51.2 Tb/s"}


def test_runs_reach_70_to_105_percent_of_the_bound():
    names = {"fl": fabriclab, "links": catalog.links}
    names["gaudi"] = catalog.accelerators["gaudi3"]["scaleup_bandwidth"]
    exec(CELLS["24b-arrives"].split("# yours")[0].split("fl.views")[0], names)
    shares = {name: round(100 * found / bound) for name, bound, found in names["rows"]}
    assert sorted(shares.values()) == [70, 75, 78, 82, 86, 98, 105]
    assert shares["8 x Gaudi 3"] == 98
    published = catalog.measured["gaudi3-8"]["busbw"]
    factor, algbw = map(float, figures(published.note)[:2])  # of a ring of eight
    assert factor == 2 * 7 / 8 and factor * algbw == pytest.approx(published.value, rel=1e-5)


def test_a_pair_of_a_mesh_is_hardly_nearer_than_the_network():
    nic = catalog.value("nics", "cx7", "throughput")
    pair = MESH.capacity[MESH.links_between(0, 1)].sum()
    key = find("24c-parity").key({"a": "64 GB/s", "b": "400 Gb/s"})
    assert pair / nic == pytest.approx(key) == 1.28


def test_platforms_have_9_to_48_times_as_much_inside():
    """The rows of errata E26: every ratio by its catalog rows, as the cell computes them."""
    names = {}
    exec(CELLS["24c-ratio"].rsplit("display", 1)[0], names)  # the lesson's own lines
    ratios = {row["with"]: round(row["ratio"], 1) for row in names["rows"]}
    assert ratios == {
        "DGX-1V": 24.0,
        "EFA v1 (P4d)": 48.0,
        "DGX A100": 12.0,
        "DGX/HGX H100": 9.0,
        "GB200 compute tray": 18.0,
        "DGX B300": 9.0,
        "MI300X OAM UBB 8-way": 9.0,
    }
    evidence = {row["with"]: row["NICs are"] for row in names["rows"]}
    assert "not confirmed" in evidence["MI300X OAM UBB 8-way"]


def test_links_that_fail_in_a_year_are_those_of_the_published_rate():
    for n in (1024, 16384):
        key = find("24c-faults").key({"n": n, "p": 0.057})
        assert operations.events_per_year("cable", n) == pytest.approx(key)


@pytest.mark.parametrize("d", ["10 km", "50 km"])
def test_light_between_halls_takes_what_the_answer_says(d):
    key = find("24c-across").key({"d": d, "s": "4.9 ns"})
    assert key == pytest.approx(2 * float(optical.delay(d)), rel=2e-3)
