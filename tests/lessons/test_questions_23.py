"""What the questions of lesson 23 call right is right on the fabrics, and what they call wrong is wrong."""

import csv

import numpy as np
import pytest

from fabriclab import catalog, live, metrics, routing, topologies
from fabriclab.course.questions import find
from support import DATA
from support.prose import figures, sentence

RATE = catalog.value("links", "ici-tpu4", "bandwidth_per_link")
ROWS = csv.DictReader((DATA / "topology_reference.csv").read_text("utf-8").splitlines())
GAIN = {
    row["id"]: float(row["value"])
    for row in ROWS
    if row["attribute"] == "alltoall_gain_upper_bound"
}


def built(name, shape, **more):
    return topologies.build(name, shape=shape, rate=RATE, **more)


def each_sends(fabric):
    """Return what every chip can send if all send to all."""
    return metrics.throughput(fabric).part * fabric.ports_used[0] * RATE


@pytest.mark.parametrize("side", [4, 8, 16])
def test_the_diameter_is_that_of_the_graph(side):
    f = built("torus", (side, 8, 4))
    assert metrics.hops(f).diameter == find("23-diameter").key({"x": side, "y": 8, "z": 4})


@pytest.mark.parametrize("k", [4, 8])
def test_bisection_and_all_to_all_are_those_of_the_graph(k):
    f, given = built("torus", (k, k, k)), {"k": k, "b": "45 GB/s"}
    assert metrics.bisection(f).upper == pytest.approx(find("23-bisection").key(given))
    # the question leaves the chip itself among its targets
    exact = each_sends(f) * f.n_ranks / (f.n_ranks - 1)
    assert exact == pytest.approx(find("23-all-to-all").key(given))


def test_what_the_view_says_of_all_shifts():
    said = [live.twist((4, 4, 8), shift).scene.said for shift in range(8)]
    assert set(live.twist((4, 4, 8)).scene.table["together [B/s]"]) == {RATE}
    rows = [sentence("live.twist.said").search(words) for words in said]
    mean, rate = ([float(row[k]) for row in rows] for k in ("mean", "part"))
    # right, and wrong1 and wrong3 are not
    assert mean[3] == min(mean) < mean[4] and rate[3] < rate[4]
    assert int(np.argmax(rate)) == 4 and rate[7] < rate[6] < rate[5]  # wrong2 is not
    full = [figures(row["along"]) for row in rows]
    assert full[0] == ["50", "50", "100"] and full[4] == ["100", "100", "100"]
    exact = [
        100 * each_sends(built("twisted_torus", (4, 4, 8), shift=s)) / (6 * RATE) for s in range(8)
    ]
    assert rate == [float(f"{part:.3g}") for part in exact]
    assert exact[4] / exact[0] == pytest.approx(GAIN["twisted_4x4x8"], abs=5e-6)


def test_only_a_torus_freezes_on_one_lane_and_the_circle_is_a_ring():
    for name in ("mesh", "torus"):
        f = built(name, (4, 4, 8))
        flows = metrics.uniform(f)
        routes = routing.route(f, flows, "dimension_order")
        circle = routing.deadlock(f, routes)
        assert bool(circle) == (name == "torus")
        lanes = routing.lanes(f, flows, routes, "dimension_order")
        assert routing.deadlock(f, routes, lanes) == () and lanes.max() == (name == "torus")
        axes = {
            int(np.flatnonzero(f.coord[f.source[x]] != f.coord[f.target[x]])[0]) for x in circle
        }
        assert len(axes) == len(circle[:1]) and len(circle) == (4 if circle else 0)
    assert metrics.hops(f).mean < metrics.hops(built("mesh", (4, 4, 8))).mean  # wrong2 is wrong


def test_a_twist_shortens_ways_and_adds_no_cable():
    plain, twisted = (built("twisted_torus", (8, 8, 16), shift=shift) for shift in (0, 8))
    assert plain.n_cables == twisted.n_cables and np.array_equal(
        plain.ports_used, twisted.ports_used
    )
    assert metrics.hops(twisted).mean < metrics.hops(plain).mean
    assert each_sends(twisted) / each_sends(plain) == pytest.approx(
        GAIN["twisted_8x8x16"], abs=5e-6
    )


def test_the_right_slice_gets_most():
    others = [("torus", (4, 4, 8)), ("mesh", (4, 4, 8)), ("torus", (2, 2, 32))]
    # A mesh has no two chips alike; what passes its cut in the middle bounds it.
    slow = [4 * metrics.bisection(f).upper / f.n_ranks for f in (built(*other) for other in others)]
    assert each_sends(built("twisted_torus", (4, 4, 8))) > max(slow)
