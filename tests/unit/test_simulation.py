"""One call from a collective to its time: by hand, laws, refusals, display."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabriclab import case, catalog, collectives, routing, simulate, sweep, topologies
from fabriclab.core import Flows
from fabriclab.core._arrays import rows_of
from fabriclab.errors import NoPath
from fabriclab.simulation import best_rings, growth, ring_busbw, wiring_rates

HALL = topologies.build("rail_optimised")
RAILS = np.array(collectives.rail_groups(HALL))


# by hand ------------------------------------------------------------------------------------------
def test_gradients_of_the_case_over_one_root_and_over_a_ring():
    c = case()
    root = simulate("all_reduce", "one_root", HALL, c.dp_gradients, placement=RAILS)
    ring = simulate("all_reduce", "ring", HALL, c.dp_gradients, placement=RAILS)
    assert root.time == pytest.approx(c.t_one_root, rel=1e-3)
    # 254 steps of cable and switch delay on top
    assert ring.time == pytest.approx(c.t_dp, rel=2e-3)
    assert ring.time > c.t_dp
    assert root.time / ring.time == pytest.approx(128, rel=2e-3)


def test_the_root_is_the_busiest_port():
    run = simulate("all_reduce", "one_root", HALL, "1 GB", placement=RAILS[0], root=5)
    assert run.sharers().max() == 127
    busy = run.timeline.link_bytes[HALL.source == HALL.endpoint[RAILS[0][5]]].max()
    assert busy == pytest.approx(127e9)


def test_options_and_switches_reach_the_schedule():
    star = topologies.build("crossbar", hosts=8, rate=1e9, delay=0)
    two = simulate("all_reduce", "hierarchical", star, "8 GB", options={"per_server": 4})
    assert (two.flows.repeat.tolist(), two.time) == ([3, 1, 1, 3], pytest.approx(14))
    assert two.result.asked["options"] == {"per_server": 4}
    shot = simulate(
        "all_reduce", "nvls_two_shot", star, "8 GB", switches=[8], segments=256, pipelined=True
    )
    assert 9 < shot.time < 9.2  # S (1 + 1/n), and three steps of 259 to fill the pipeline
    times = sweep(
        "all_to_all",
        "direct",
        star,
        ["1 GB", "8 GB"],
        options={"traffic": np.roll(np.eye(8), 1, axis=1)},
    )
    assert times.time.tolist() == pytest.approx([1, 8])
    assert times.busbw.tolist() == pytest.approx([7e9 / 8] * 2)
    with pytest.raises(TypeError, match="all_reduce ring has no option 'radix'"):
        simulate("all_reduce", "ring", star, "1 GB", options={"radix": 2})


@pytest.mark.parametrize("way", collectives.algorithms("all_reduce"))
def test_no_run_is_faster_than_the_bound_of_its_own_machine(way):
    star = topologies.build("crossbar", hosts=8, rate="400 Gb/s")
    at = [8] * collectives.build("all_reduce", way, 8).n_switches
    run = simulate("all_reduce", way, star, 1e9, segments=8, pipelined=True, switches=at)
    part = {"hosts": 2 * 7 / 8, "aggregation": 1, "nvls": 1 + 1 / 8}
    with_nvls = way.endswith("shot") or way == "nvls_tree"
    own = "nvls" if with_nvls else "aggregation" if at or way == "collnet" else "hosts"
    (port,) = run.bounds(port_rate="400 Gb/s")
    assert port.seconds == pytest.approx(part[own] * 1e9 / 50e9) and run.time >= port.seconds * (
        1 - 1e-9
    )


def test_order_of_the_ring_decides_with_hashing_and_not_with_spraying():
    rng = np.random.default_rng(0)
    shuffled = [rng.permutation(g) for g in RAILS]
    assert collectives.spine_crossings(HALL, RAILS) == 32
    assert abs(collectives.spine_crossings(HALL, shuffled) - 1024 * 96 / 127) < 40
    time = {
        m: simulate("all_reduce", "ring", HALL, "1 GB", placement=shuffled, method=m).time
        for m in ("ecmp", "spray")
    }
    in_order = simulate("all_reduce", "ring", HALL, "1 GB", placement=RAILS).time
    assert time["spray"] == pytest.approx(in_order, rel=0.05)
    assert time["ecmp"] > 2.5 * in_order


MESH, CUBE = topologies.build("mi300x"), topologies.build("dgx1v")


def best(fabric, *counts):
    return [round(best_rings(fabric, range(n)).rate / 1e9, 6) for n in counts]


def test_rings_that_reach_most_by_hand():
    # all links between those that take part
    assert best(MESH, *range(2, 9)) == [64, 128, 192, 256, 320, 384, 448]
    # Of five GPUs, number 4 has links to number 0 only; of six, number 5 must stand beside it, over one link.
    assert best(CUBE, *range(2, 9)) == [25, 50, 100, 12, 50, 100, 150]
    assert best(topologies.build("dgx_h100"), 2, 5, 8) == [450] * 3
    # over all chips
    assert ring_busbw("all_reduce", topologies.build("dgx_h100"), range(8)) == pytest.approx(450e9)
    assert best(topologies.build("pcie_8gpu"), 4, 5) == [63.015, 22]
    assert best(topologies.build("gh200"), 4) == [450]
    assert best_rings(CUBE, [0, 1, 2, 3, 4]).outside and not best_rings(CUBE, [3, 0, 4, 7]).outside


def test_a_broken_cable_takes_a_link_of_two_gpus_and_a_broken_chip_its_share_of_all():
    hurt = MESH.without(cables=MESH.links_between(0, 1)[:1] // 2)
    assert best(hurt, 8) == [384] and best(hurt, 2) == [63.015]  # the pair falls back to PCIe
    server = topologies.build("dgx_h100")
    chips = server.nodes("nvswitch")
    assert [best(server.without(nodes=[c]), 8) for c in chips] == [[325], [350], [350], [325]]


def test_the_rings_of_a_real_library_reach_the_best_on_the_mesh():
    rings = [list(map(int, ring)) for ring in catalog.systems["mi300x8"]["rings"].value.split()]
    rings += [ring[::-1] for ring in rings]
    assert ring_busbw("all_reduce", MESH, rings) == pytest.approx(best_rings(MESH).rate)
    assert ring_busbw("all_reduce", MESH, rings[:7]) < 0.8 * best_rings(MESH).rate


# laws ---------------------------------------------------------------------------------------------
@given(
    st.integers(2, 8), st.sampled_from(["ring", "halving_doubling", "binomial_tree", "one_root"])
)
def test_no_run_beats_the_bound_of_its_machine(n, algorithm):
    star = topologies.build("crossbar", hosts=n)
    run = simulate("all_reduce", algorithm, star, "1 GB")
    rate = star.capacity.max()
    for bound in collectives.bounds("all_reduce", n, "1 GB", port_rate=rate):
        assert run.time >= bound.seconds * (1 - 1e-12)


def test_a_sweep_is_its_single_runs():
    sizes = ["1 KiB", 2**20, "1 GiB"]
    star = topologies.build("crossbar", hosts=5)
    whole = sweep("all_gather", "ring", star, sizes, lag="14 us")
    single = [simulate("all_gather", "ring", star, s, lag="14 us").time for s in sizes]
    assert whole.time.tolist() == single
    assert whole.size.tolist() == [2**10, 2**20, 2**30]


def test_more_subflows_share_the_load_better():
    rng = np.random.default_rng(0)
    order = rng.permutation(RAILS[0])
    one, many = (
        simulate("all_reduce", "ring", HALL, "1 GB", placement=order, subflows=k).time
        for k in (1, 16)
    )
    assert many < one


def test_one_rank_takes_no_time():
    run = simulate(
        "all_reduce", "ring", topologies.build("crossbar", hosts=2), "1 GB", placement=[1]
    )
    assert run.time == 0
    assert run.result.algbw[0] == np.inf


@pytest.mark.parametrize("name", ["mi300x", "dgx1v", "gh200", "dgx_a100", "pcie_8gpu"])
@settings(max_examples=15)
@given(st.data())
def test_the_best_rings_fit_on_their_links(name, data):
    fabric = topologies.build(name)
    n = data.draw(st.integers(2, min(6, fabric.n_ranks)))
    ranks = data.draw(st.permutations(range(fabric.n_ranks)))[:n]
    found = best_rings(fabric, ranks)
    assert found.orders.shape == (found.rates.size, n) and np.all(
        np.sort(found.orders) == np.sort(ranks)
    )
    source, target = (
        fabric.endpoint[x.ravel()] for x in (found.orders, np.roll(found.orders, -1, axis=1))
    )
    routes = routing.route(fabric, Flows.make(source, target, np.repeat(found.rates, n)), "spray")
    flow = routes.flow[rows_of(routes.ptr)]
    carried = np.bincount(routes.link, routes.use * np.repeat(found.rates, n)[flow], fabric.n_links)
    assert found.load == pytest.approx(
        carried / fabric.capacity
    ) and found.load.max() == pytest.approx(1)
    assert found.rate == pytest.approx(found.rates.sum())
    alone = max(ring_busbw("all_reduce", fabric, order) for order in found.orders)
    leaves = np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)[
        fabric.endpoint[ranks]
    ].min()
    assert alone * (1 - 1e-6) <= found.rate <= leaves * (1 + 1e-9)


def test_a_sweep_finds_its_routes_once(monkeypatch):
    star, found = topologies.build("crossbar", hosts=4), []
    one = routing.route
    monkeypatch.setattr(routing, "route", lambda *a, **k: found.append(one(*a, **k)) or found[-1])
    times = sweep("all_reduce", "ring", star, ["1 MB", "2 MB", "4 MB"]).time
    assert len(found) == 1
    assert times.tolist() == [
        simulate("all_reduce", "ring", star, size).time for size in ("1 MB", "2 MB", "4 MB")
    ]


def test_each_size_of_a_sweep_is_a_run_with_all_its_options():
    more = {
        "lag": "3 us",
        "gamma": 1e-11,
        "placement": [[3, 1], [0, 2]],
        "method": "spray",
        "engine": "ideal",
    }
    fabric = topologies.build("leaf_spine", hosts=4, radix=4)
    runs = [simulate("all_reduce", "ring", fabric, size, **more).time for size in ("1 MB", "2 MB")]
    assert sweep("all_reduce", "ring", fabric, ["1 MB", "2 MB"], **more).time.tolist() == runs
    with pytest.raises(TypeError, match="unexpected keyword argument 'like'"):
        sweep("all_reduce", "ring", fabric, ["1 MB"], like=None)


# refusals -----------------------------------------------------------------------------------------
def test_a_dead_card_is_named():
    node = int(HALL.endpoint[RAILS[0][3]])
    hurt = HALL.without(nodes=[node])
    with pytest.raises(NoPath, match=r"gpu 3\.0"):
        simulate("all_reduce", "ring", hurt, "1 GB", placement=RAILS)


@pytest.mark.parametrize(
    ("size", "said"),
    [("1 Gbps", "size"), (-1.0, r"size must be within"), ("1 s", "must be a size")],
)
def test_wrong_sizes_are_refused(size, said):
    with pytest.raises(ValueError, match=said):
        simulate("all_reduce", "ring", topologies.build("crossbar", hosts=2), size)


def test_an_empty_sweep_is_refused():
    with pytest.raises(ValueError, match="at least one size"):
        sweep("all_reduce", "ring", topologies.build("crossbar", hosts=2), [])


def test_sharers_of_an_expanded_run_are_refused():
    run = simulate("all_reduce", "ring", topologies.build("crossbar", hosts=3), "1 GB", expand=True)
    with pytest.raises(ValueError, match="expand=False"):
        run.sharers()


def test_one_root_meets_the_latency_bound_of_many_messages_at_once():
    run = simulate("all_reduce", "one_root", topologies.build("crossbar", hosts=128), 0, lag="1 us")
    bounds = collectives.bounds("all_reduce", 128, 0, alpha="1 us")
    assert run.time >= max(b.seconds for b in bounds) * (1 - 1e-12)


# display ------------------------------------------------------------------------------------------
def test_display():
    run = simulate(
        "all_reduce", "ring", topologies.build("crossbar", hosts=4, rate="400 Gb/s"), "1 GB"
    )
    assert "all_reduce ring, 4 ranks: 30" in repr(run)


@pytest.mark.parametrize("order", [[-1, 0], [0, 8], [0.5, 1.0], [[[0]]], [[0, 1], [2]]])
def test_rings_over_endpoints_that_do_not_exist_are_refused(order):
    fabric = topologies.build("rail_optimised", servers=4, gpus=2, rails=2, radix=4)
    with pytest.raises(
        ValueError, match=r"order must be (whole numbers of shape|within 0\.\.7|one row of numbers)"
    ):
        collectives.spine_crossings(fabric, order)


def test_odd_arguments_of_simulate_and_sweep_are_named():
    fabric = topologies.build("crossbar", hosts=4)
    for place in (3, [], [[[0, 1]]], [[0, 1], [2]]):
        with pytest.raises(
            ValueError, match=r"placement must be (a row of endpoints|one row of numbers)"
        ):
            simulate("all_reduce", "ring", fabric, "1 GB", placement=place)
    for sizes in ("1 GB", [], 8):
        with pytest.raises(ValueError, match=r"sizes must .*at least one"):
            sweep("all_reduce", "ring", fabric, sizes)
    for name, value in (("seed", "a"), ("seed", 0.5), ("expand", "no")):
        with pytest.raises(TypeError, match=f"{name} must be"):
            simulate("all_reduce", "ring", fabric, "1 GB", **{name: value})
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        sweep("all_reduce", "ring", fabric, ["1 GB"], nonsense=1)


def test_a_result_says_with_which_costs_it_was_computed():
    run = simulate(
        "all_reduce", "ring", topologies.build("crossbar", hosts=4), "1 GB", lag="2 us", gamma=1e-12
    )
    assert {k: run.result.asked[k] for k in ("lag", "gamma")} == {"lag": "2 us", "gamma": 1e-12}


@pytest.mark.parametrize("ranks", [[0], range(9), [0, 0], [0, 8], [-1, 0], [[0, 1]], [0.5, 1], []])
def test_rings_over_wrong_ranks_are_refused(ranks):
    with pytest.raises(ValueError, match=r"ranks must be 2 to 8 different ones in 0\.\.7, got "):
        best_rings(MESH, ranks)


def test_rings_show_themselves():
    assert repr(best_rings(CUBE, range(5))) == "<Rings: 2 over 5 ranks, 12.0 GB/s together>"


def test_growth_has_the_best_rings_of_the_first_ranks():
    runs = growth(MESH, 5)
    assert [run.n_ranks for run in runs] == [2, 3, 4, 5]
    assert [round(float(run.busbw[0]) / 1e9) for run in runs] == [64, 128, 192, 256]
    assert {run.obtained for run in runs} == {"predicted"}
    for most in (1, 9):
        with pytest.raises(ValueError, match="most"):
            growth(MESH, most)


def test_wiring_rates_tell_a_mesh_from_a_crossbar_by_its_pair():
    rates = wiring_rates(MESH)
    found = [rates.pair, rates.pairings, rates.rings, rates.halves]
    assert [round(rate / 1e9) for rate in found] == [64, 64, 448, 2048]
    assert rates.worst.rate == rates.pair and len(rates.worst.orders[0]) == 2
    with pytest.raises(ValueError, match="pairings"):
        wiring_rates(MESH, pairings=0)


def test_wiring_rates_are_those_of_the_worst_pair():
    pairs = [best_rings(CUBE, [0, other]).rate for other in range(1, 8)]
    assert wiring_rates(CUBE, pairings=1).pair == min(pairs) < max(pairs)
