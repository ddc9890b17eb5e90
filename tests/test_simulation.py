"""One call from a collective to its time: by hand, laws, refusals, display."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import case, collectives, simulate, sweep, topologies
from fabriclab.errors import NoPath

HALL = topologies.build("rail_optimised")
RAILS = np.array(collectives.rail_groups(HALL))


# by hand ------------------------------------------------------------------------------------------
def test_gradients_of_the_case_over_one_root_and_over_a_ring():
    c = case()
    root = simulate("all_reduce", "one_root", HALL, c.dp_gradients, placement=RAILS)
    ring = simulate("all_reduce", "ring", HALL, c.dp_gradients, placement=RAILS)
    assert root.time == pytest.approx(c.t_one_root, rel=1e-3)
    assert ring.time == pytest.approx(c.t_dp, rel=2e-3)  # 254 steps of cable and switch delay on top
    assert ring.time > c.t_dp
    assert root.time / ring.time == pytest.approx(128, rel=2e-3)


def test_the_root_is_the_busiest_port():
    run = simulate("all_reduce", "one_root", HALL, "1 GB", placement=RAILS[0], root=5)
    assert run.sharers().max() == 127
    busy = run.timeline.link_bytes[HALL.source == HALL.endpoint[RAILS[0][5]]].max()
    assert busy == pytest.approx(127e9)


def test_order_of_the_ring_decides_with_hashing_and_not_with_spraying():
    rng = np.random.default_rng(0)
    shuffled = [rng.permutation(g) for g in RAILS]
    assert collectives.spine_crossings(HALL, RAILS) == 32
    assert abs(collectives.spine_crossings(HALL, shuffled) - 1024 * 96 / 127) < 40
    time = {
        m: simulate("all_reduce", "ring", HALL, "1 GB", placement=shuffled, method=m).time for m in ("ecmp", "spray")
    }
    in_order = simulate("all_reduce", "ring", HALL, "1 GB", placement=RAILS).time
    assert time["spray"] == pytest.approx(in_order, rel=0.05)
    assert time["ecmp"] > 2.5 * in_order


# laws ---------------------------------------------------------------------------------------------
@given(st.integers(2, 8), st.sampled_from(["ring", "halving_doubling", "binomial_tree", "one_root"]))
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
    one, many = (simulate("all_reduce", "ring", HALL, "1 GB", placement=order, subflows=k).time for k in (1, 16))
    assert many < one


def test_one_rank_takes_no_time():
    run = simulate("all_reduce", "ring", topologies.build("crossbar", hosts=2), "1 GB", placement=[1])
    assert run.time == 0
    assert run.result.algbw[0] == np.inf


# refusals -----------------------------------------------------------------------------------------
def test_a_dead_card_is_named():
    node = int(HALL.endpoint[RAILS[0][3]])
    hurt = HALL.without(nodes=[node])
    with pytest.raises(NoPath, match=r"gpu 3\.0"):
        simulate("all_reduce", "ring", hurt, "1 GB", placement=RAILS)


@pytest.mark.parametrize(
    ("size", "said"), [("1 Gbps", "size"), (-1.0, r"size must be within"), ("1 s", "must be a size")]
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
    run = simulate("all_reduce", "ring", topologies.build("crossbar", hosts=4, rate="400 Gb/s"), "1 GB")
    assert "all_reduce ring, 4 ranks: 30" in repr(run)
    assert "->" in run.busiest


@pytest.mark.parametrize("order", [[-1, 0], [0, 8], [0.5, 1.0], [[[0]]], [[0, 1], [2]]])
def test_rings_over_endpoints_that_do_not_exist_are_refused(order):
    fabric = topologies.build("rail_optimised", servers=4, gpus=2, rails=2, radix=4)
    with pytest.raises(ValueError, match=r"order must be endpoints within 0\.\.7"):
        collectives.spine_crossings(fabric, order)


def test_odd_arguments_of_simulate_and_sweep_are_named():
    fabric = topologies.build("crossbar", hosts=4)
    for place in (3, [], [[[0, 1]]], [[0, 1], [2]]):
        with pytest.raises(ValueError, match="placement must be a row of endpoints"):
            simulate("all_reduce", "ring", fabric, "1 GB", placement=place)
    for sizes in ("1 GB", [], 8):
        with pytest.raises(ValueError, match="sizes must be a list of at least one size"):
            sweep("all_reduce", "ring", fabric, sizes)
    for name, value in (("seed", "a"), ("seed", 0.5), ("expand", "no")):
        with pytest.raises(TypeError, match=f"{name} must be"):
            simulate("all_reduce", "ring", fabric, "1 GB", **{name: value})
    with pytest.raises(TypeError, match="sweep has no option 'nonsense'; it takes placement, root"):
        sweep("all_reduce", "ring", fabric, ["1 GB"], nonsense=1)


def test_a_result_says_with_which_costs_it_was_computed():
    run = simulate("all_reduce", "ring", topologies.build("crossbar", hosts=4), "1 GB", lag="2 us", gamma=1e-12)
    assert {k: run.result.asked[k] for k in ("lag", "gamma")} == {"lag": "2 us", "gamma": 1e-12}
