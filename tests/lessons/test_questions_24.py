"""What the questions of lesson 24 call right is right on the graphs of the servers."""

import numpy as np
import pytest

from fabriclab import catalog, live, metrics, topologies
from fabriclab.course.questions import find
from fabriclab.simulation import best_rings, ring_busbw
from fabriclab.topologies.servers import links_between_gpus

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
    assert both == pytest.approx(find("24-bisection").key({}))
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
    most = int(find("24-domain").key({}))
    tiers = [
        np.unique((f := topologies.build("nvl72", gpus=n)).tier[f.nodes("nvswitch")]).size
        for n in (most, most + 4)
    ]
    assert most == catalog.value("switches", "nvswitch4", "ports") and tiers == [1, 2]


def test_the_capacity_is_what_the_catalog_says():
    chip = catalog.switches["nvswitch3"]
    ports, rate = chip["ports"].value, catalog.value("links", "nvlink4", "bandwidth_per_link")
    key = find("24-capacity").key({"p": int(ports), "r": f"{rate} B/s"})
    assert key == pytest.approx(chip["capacity"].value * 1e12) == find("24-capacity").key({})
    assert 8 * key == pytest.approx(25.6e12)
