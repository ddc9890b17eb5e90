"""What the questions of lessons 23, 23b and 23c call right is right on the fabrics, and what they call wrong is not."""

import csv
from math import prod

import numpy as np
import pytest

from fabriclab import catalog, live, metrics, operations, routing, simulate, simulation, topologies
from fabriclab.core import Flows
from fabriclab.course.checks import check
from fabriclab.course.judges.lessons import lesson23, lesson23b
from fabriclab.course.questions import find
from fabriclab.topologies import tpu_slice as pod
from fabriclab.topologies.grids import ring_of
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
    scenes = [live.twist((4, 4, 8), shift).scene for shift in range(8)]
    assert set(live.twist((4, 4, 8)).scene.table["together [B/s]"]) == {RATE}
    rows = [sentence("live.twist.more").search(scene.alt) for scene in scenes]
    mean = [float(row["mean"]) for row in rows]
    rate = [float(sentence("live.twist.said").search(scene.said)["part"]) for scene in scenes]
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


# The functions that learners write --------------------------------------------------------------------------------


def in_a_loop(here, goal, sides):
    """Try both neighbours along the first axis that is left, and take the nearer one."""
    place = list(here)
    for axis, side in enumerate(sides):
        if here[axis] == goal[axis]:
            continue
        far = {}
        for step in (1, side - 1):
            there = (here[axis] + step) % side
            along = abs(there - goal[axis])
            far[there] = min(along, side - along)
        place[axis] = min(far, key=far.get)
        return place  # a list will do
    raise AssertionError


def down_at_half(here, goal, sides):
    here, goal, sides = np.array(here), np.array(goal), np.array(sides)
    axis = np.flatnonzero(here != goal)[0]
    up = (goal[axis] - here[axis]) % sides[axis]
    here[axis] += 1 if 2 * up < sides[axis] else -1
    return here % sides  # an array will do


@pytest.mark.parametrize("rule", [lesson23.next_chip, in_a_loop, down_at_half])
def test_a_right_next_chip_is_right(rule):
    assert check("23-write-next", rule).data["right"]


@pytest.mark.parametrize(
    "rule",
    [
        lambda here, goal, sides: None,
        lambda here, goal, sides: goal[0],
        lambda here, goal, sides: (*goal, 0),
        lambda here, goal, sides: [0.5 for _ in goal],
        lambda here, goal, sides: "123"[: len(sides)],
        lambda here, goal: goal,
    ],
)
def test_what_is_no_chip_is_not_counted(rule):
    assert not check("23-write-next", rule).data["counted"]


@pytest.mark.parametrize("sides", [(4, 4, 8), (5, 3), (2, 6)])
def test_the_route_hop_by_hop_is_that_of_the_library(sides):
    f = topologies.build("torus", shape=sides)
    n = f.n_ranks
    source, target = np.divmod(np.arange(n * n), n)
    source, target = source[source != target], target[source != target]
    flows = Flows.make(source, target, 1)
    routes = routing.route(f, flows, "dimension_order")
    assert routes.flow.size == flows.size.size  # one route for each flow
    for i in range(0, source.size, 7):
        walk = [int(source[i])]
        for link in routes.link[routes.ptr[i] : routes.ptr[i + 1]]:
            here, goal = (tuple(int(k) for k in f.coord[chip]) for chip in (walk[-1], target[i]))
            walk.append(int(f.target[link]))
            there = tuple(int(k) for k in f.coord[walk[-1]])
            assert there in lesson23.right_next(here, goal, sides)
            assert lesson23.next_chip(here, goal, sides) in lesson23.right_next(here, goal, sides)
        assert walk[-1] == target[i]


def from_the_sides(sides):
    k = max(sides)
    return prod(sides) / k * (2 if k > 2 else 1)


def from_the_fabric(sides):
    """Cut the longest side in the middle, and count the cables."""
    f = topologies.build("torus", shape=sides)
    axis = int(np.argmax(sides))
    upper = f.coord[:, axis] >= sides[axis] // 2
    return np.sum(upper[f.source] & ~upper[f.target])


@pytest.mark.parametrize("rule", [from_the_sides, from_the_fabric])
def test_a_right_cut_is_right(rule):
    assert check("23-write-cut", rule).data["right"]


def by_walking(chip, n):
    racks = [*range(0, n, 2), *reversed(range(1, n, 2))]
    return racks[chip]


def backwards(chip, n):
    return n - 1 - lesson23b.folded(chip, n)


def from_another_chip(chip, n):
    return float(lesson23b.folded((chip + 3) % n, n))


@pytest.mark.parametrize("rule", [lesson23b.folded, by_walking, backwards, from_another_chip])
def test_a_ring_that_is_folded_in_any_way_is_right(rule):
    assert check("23b-write-rack", rule).data["right"]


@pytest.mark.parametrize(
    "rule", [lambda chip, n: None, lambda chip, n: n, lambda chip, n: -1, lambda chip: chip]
)
def test_what_is_no_rack_is_not_counted(rule):
    assert not check("23b-write-rack", rule).data["counted"]


def test_no_ring_of_four_or_more_can_do_with_cables_of_one_rack():
    # With spans of one rack each chip has both ring neighbours beside it, and the chips at the ends have only one.
    for n in lesson23b.RINGS:
        racks = [lesson23b.folded(chip, n) for chip in range(n)]
        assert sorted(racks) == list(range(n)) and lesson23b.longest(racks)[0] == 2


def test_folding_shortens_the_longest_cable_and_no_sum():
    row = list(range(16))
    folded = [lesson23b.folded(chip, 16) for chip in row]
    spans = {
        name: np.abs(np.diff([*racks, racks[0]]))
        for name, racks in (("row", row), ("fold", folded))
    }
    assert spans["row"].sum() == spans["fold"].sum() == 30
    assert (spans["row"].max(), spans["fold"].max()) == (15, 2)
    assert np.sum(spans["fold"] == 2) == 14


# What the lessons say ---------------------------------------------------------------------------------------------


def test_a_walk_along_an_axis_is_a_row_or_two_of_them():
    plain, twisted = (built("twisted_torus", (8, 8, 16), shift=shift) for shift in (0, 8))
    assert ring_of(plain).size == 8 and ring_of(twisted).size == 16
    assert ring_of(plain, "z", 3).size == ring_of(twisted, "z").size == 16
    for walk, fabric in ((ring_of(plain), plain), (ring_of(twisted), twisted)):
        pairs = {tuple(pair) for pair in np.stack([fabric.source, fabric.target], axis=1).tolist()}
        assert all(
            pair in pairs for pair in zip(walk.tolist(), np.roll(walk, -1).tolist(), strict=True)
        )
    with pytest.raises(ValueError, match="axis must be one of"):
        ring_of(plain, "w")
    with pytest.raises(ValueError, match="axis must be one of"):
        ring_of(built("mesh", (4, 4)))


def test_a_twist_is_worth_an_even_load_and_shorter_routes():
    plain, twisted = (built("twisted_torus", (8, 8, 16), shift=shift) for shift in (0, 8))
    mean = {f: metrics.hops(f).mean for f in (plain, twisted)}
    even = 6 * RATE / mean[plain]
    assert even / each_sends(plain) == pytest.approx(1.50, abs=0.002)
    assert mean[plain] / mean[twisted] == pytest.approx(1.148, abs=0.0005)
    assert each_sends(twisted) == pytest.approx(6 * RATE / mean[twisted], rel=1e-6)
    seventh = built("twisted_torus", (8, 8, 16), shift=7)
    assert metrics.hops(seventh).mean < mean[twisted] and each_sends(seventh) < each_sends(twisted)


def test_the_torus_algorithm_reaches_six_ports_on_a_cube_and_less_on_unequal_sides():
    def busbw(f, sides, groups=None):
        n, size = prod(sides), 2**30
        placed = {} if groups is None else {"placement": groups}
        run = simulate(
            "all_reduce", "torus", f, size, options={"shape": sides}, method="spray", **placed
        )
        return 2 * (n - 1) / n * size / run.time

    assert busbw(built("torus", (4, 4, 4)), (4, 4, 4)) == pytest.approx(269.7e9, rel=1e-4)
    f = built("torus", (8, 8, 16))
    chips = np.arange(1024).reshape(8, 8, 16)
    row = chips[:, 0, 0]
    two = simulation.ring_busbw("all_reduce", f, [row, row[::-1]])
    assert two == pytest.approx(2 * RATE, rel=1e-3)
    assert busbw(f, (2, 2, 2), [chips[:2, :2, :2].ravel()]) == pytest.approx(3 * RATE, rel=1e-3)
    one, all_planes = (
        busbw(f, (8, 16), planes) for planes in ([chips[0].ravel()], chips.reshape(8, 128))
    )
    assert one == pytest.approx(all_planes) and one < 0.7 * 4 * RATE  # planes share no cable


def test_the_sums_inside_a_copy_decide_the_step():
    case = catalog.case()
    slow = case.replace(tp_busbw=2 * RATE)
    assert slow.t_step == pytest.approx(7.11, abs=0.01)
    assert case.replace(nic_rate=4 * RATE).t_step == pytest.approx(case.t_step, rel=0.005)


def test_a_broken_cable_costs_the_rings_a_fifth_and_a_lone_ring_nothing():
    for sides, left in (((8, 4, 4), 0.8), ((4, 4, 8), 1 / 1.2)):
        f = built("torus", sides)
        hurt = operations.fail(f, "cable", [0])  # along x
        assert metrics.throughput(f, metrics.neighbours(f)).part == pytest.approx(1)
        assert metrics.throughput(hurt, metrics.neighbours(f)).part == pytest.approx(left)
    f = built("torus", (8, 4, 4))
    row = ring_of(f)
    healthy, hurt = (
        simulation.ring_busbw("all_reduce", g, [row, row[::-1]])
        for g in (f, operations.fail(f, "cable", [0]))
    )
    assert hurt == pytest.approx(healthy, rel=1e-3)


def test_a_broken_cable_costs_most_where_all_are_full():
    left = {}
    for kind in ("torus", "twisted_torus"):
        f = built(kind, (4, 4, 8))
        for axis in range(3):
            found = operations.report(f, operations.fail(f, "cable", [axis * 128]))
            left[kind, axis] = found.bandwidth
            assert found.cut_off.size == 0  # wrong2 of 23b-axis is wrong
    assert left["torus", 0] == pytest.approx(left["torus", 1]) == pytest.approx(0.998, abs=5e-4)
    assert left["torus", 2] == pytest.approx(0.831, abs=5e-4)
    for axis in range(3):
        assert left["twisted_torus", axis] == pytest.approx(0.846, abs=5e-4)


def test_a_twist_turns_mirrors_of_two_axes_and_moves_no_fibre():
    plain, twisted = (pod.slice_of((8, 8, 16), twisted=turned) for turned in (False, True))
    turned = twisted.rows() - plain.rows()
    assert (plain.n_circuits, len(turned)) == (768, 256)
    assert {ocs // 16 for ocs, *_ in turned} == {0, 1}
    for end in ("upper", "lower"):
        ports = [sorted(zip(p.ocs, getattr(p, end), strict=True)) for p in (plain, twisted)]
        assert ports[0] == ports[1]


@pytest.mark.parametrize("k", [4, 6])
def test_a_mesh_gets_half_of_the_torus_by_its_cut(k):
    f = built("mesh", (k, k, k))
    bound = 4 * metrics.bisection(f).upper / f.n_ranks
    assert bound == pytest.approx(find("23c-mesh").key({"k": k, "b": "45 GB/s"}))
    assert metrics.throughput(f, metrics.neighbours(f)).part == pytest.approx(0.5)


def test_a_hypercube_is_the_torus_of_fours_and_a_hyperx_gains_its_hops():
    grids = [
        built("torus", (4, 4, 4)),
        topologies.build("hypercube", dimensions=6, hosts=0, rate=RATE),
        built("hyperx", (8, 8), hosts=0),
    ]
    hops = [metrics.hops(f) for f in grids]
    assert np.array_equal(hops[0].pairs, hops[1].pairs)
    ring = (0b00, 0b01, 0b11, 0b10)
    assert all((a ^ b).bit_count() == 1 for a, b in zip(ring, ring[1:] + ring[:1], strict=True))
    torus, _, wide = (metrics.throughput(f).part for f in grids)  # of all ports of a chip
    assert wide / torus == pytest.approx(hops[0].mean / hops[2].mean)
    assert wide * grids[2].ports_used[0] / (torus * 6) == pytest.approx(4, rel=1e-3)
