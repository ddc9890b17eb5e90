"""What the questions of lessons 31, 31b and 31c call right and wrong is so in the library."""

import numpy as np
import pytest

from fabriclab import case, catalog, collectives, core, estimate, simulate, topologies, validate
from fabriclab.catalog import published
from fabriclab.course.checks import check
from fabriclab.course.judges.answers import JUDGES
from fabriclab.course.judges.lessons import lesson31
from fabriclab.course.questions import find
from fabriclab.formulas import evaluate
from fabriclab.texts import text
from fabriclab.tuner import read
from fabriclab.tuner.plans import plans, post

ROWS = {row["sweep_id"]: row for row in published.systems()}


@pytest.mark.parametrize("n", [4, 8, 16])
def test_a_port_sends_in_two_shots_what_the_answer_says(n):
    sent = {
        way: collectives.build("all_reduce", way, n).sent()[:n].max()
        for way in ("nvls_two_shot", "nvls_one_shot", "aggregation_tree", "ring")
    }
    question, given = find("31b-two-shot"), {"s": "400 MB", "n": str(n)}
    assert question.key(given) == pytest.approx(4e8 * sent["nvls_two_shot"])
    wrong = [evaluate(formula, question.fill(given)[0]) for _, formula, _ in question.wrong]
    assert wrong == pytest.approx(
        [4e8 * sent[way] for way in ("ring", "aggregation_tree", "nvls_one_shot")]
    )


@pytest.mark.parametrize(("n", "r"), [(4, 150e9), (8, 450e9), (16, 900e9)])
def test_no_busbw_passes_the_answer_and_pieces_come_near_it(n, r):
    key = find("31b-busbw-most").key({"n": str(n), "r": f"{r / 1e9:g} GB/s"})
    star = topologies.build("crossbar", hosts=n, rate=r, delay=0)
    run = simulate(
        "all_reduce", "nvls_two_shot", star, 1e9, switches=[n], segments=256, pipelined=True
    )
    (bound,) = run.bounds(port_rate=r)
    assert key == pytest.approx(core.bus_factor("all_reduce", n) * 1e9 / bound.seconds)
    assert 0.98 * key < run.result.busbw[0] < key


def test_the_published_switch_passes_its_port_and_stays_below_the_answer():
    seen, one = max(published.load("xx_1n_all_reduce").busbw), case().nvlink_per_gpu
    assert one < seen < find("31b-busbw-most").key({"n": "8", "r": f"{one / 1e9:g} GB/s"})
    assert max(published.load("h100x8_ring").busbw) < one


@pytest.mark.parametrize("what", ["all_gather", "reduce_scatter"])
def test_half_of_the_bytes_go_farthest_with_bruck_and_nearest_with_pat(what):
    n, by_hop, sent = 16, {}, {}
    for way in ("bruck", "pat"):
        plan = collectives.build(what, way, n)
        sent[way], by_hop[way] = plan.sent(), np.zeros(n)
        for step in plan.steps():
            hop = np.minimum((step.target - step.source) % n, (step.source - step.target) % n)
            np.add.at(by_hop[way], hop, plan.moved(step))
        assert plan.n_steps == 4
    assert sent["bruck"] == pytest.approx(sent["pat"])
    total = by_hop["bruck"].sum()
    assert by_hop["bruck"][8] == pytest.approx(8 / 15 * total) == pytest.approx(by_hop["pat"][1])
    assert by_hop["pat"][8] == pytest.approx(total / 15)  # the longest hop carries one block of 15
    most = {
        way: max(np.bincount(s.source).max() for s in collectives.build(what, way, n).steps())
        for way in sent
    }
    assert most == {"bruck": 1, "pat": 8}  # messages of a rank in a step


def test_a_hash_slows_bruck_more_than_pat_and_spraying_neither():
    hall = topologies.build("rail_optimised")
    rail, times = collectives.rail_groups(hall)[0], {}
    for way in ("ring", "bruck", "pat"):
        for how in ("spray", "ecmp"):
            times[way, how] = simulate(
                "all_gather", way, hall, 1e9, placement=rail, method=how
            ).time
    assert times["bruck", "spray"] == pytest.approx(times["pat", "spray"], rel=1e-3)
    assert times["bruck", "ecmp"] > 2 * times["pat", "ecmp"] > 2.5 * times["ring", "ecmp"]
    assert times["ring", "ecmp"] == pytest.approx(times["ring", "spray"])


def test_pairs_turned_round_keep_a_hash_from_slowing_halving_doubling():
    """Ranks in bit-reversed order: the half goes to the neighbour, as in many MPI libraries."""
    hall = topologies.build("rail_optimised")
    groups = np.array(collectives.rail_groups(hall))
    turned = groups[:, [int(f"{rank:07b}"[::-1], 2) for rank in range(128)]]

    def time(what, size, placement, method="ecmp", lag=0.0):
        run = simulate(
            what, "halving_doubling", hall, size, placement=placement, method=method, lag=lag
        )
        return run.time

    lag = case().ring_step_latency
    assert time("all_reduce", "16 GiB", turned, lag=lag) == pytest.approx(0.763, abs=0.0005)
    assert time("all_reduce", "16 GiB", groups, lag=lag) == pytest.approx(3.26, abs=0.005)
    for method in ("spray", "d_mod_k"):
        sprayed = time("all_reduce", "16 GiB", groups, method, lag)
        assert sprayed == pytest.approx(0.682, abs=0.0005)
    for half in ("all_gather", "reduce_scatter"):
        assert time(half, 1e9, turned[0]) == pytest.approx(21.7e-3, abs=0.05e-3)
        assert time(half, 1e9, groups[0]) == pytest.approx(79.8e-3, abs=0.05e-3)


def test_a_hash_slows_halving_doubling_three_to_four_times():
    hall = topologies.build("rail_optimised")
    settings = {"placement": collectives.rail_groups(hall)[0]}
    sprayed = simulate("all_gather", "halving_doubling", hall, 1e9, method="spray", **settings)
    for seed in range(6):
        hashed = simulate("all_gather", "halving_doubling", hall, 1e9, seed=seed, **settings)
        assert 3 < hashed.time / sprayed.time < 4.1


def test_a_tree_of_whole_arrays_leads_to_15_mib_and_one_in_pieces_to_700_mib():
    hall = topologies.build("rail_optimised")
    settings = {
        "placement": collectives.rail_groups(hall),
        "method": "spray",
        "lag": case().ring_step_latency,
    }
    pieces = {"segments": 64, "pipelined": True}

    def lead(name, size, **options):
        ring = simulate("all_reduce", "ring", hall, size, **settings)
        return ring.time - simulate("all_reduce", name, hall, size, **settings, **options).time

    assert lead("binomial_tree", "14.5 MiB") > 0 > lead("binomial_tree", "15 MiB")
    assert lead("double_tree", "690 MiB", **pieces) > 0 > lead("double_tree", "704 MiB", **pieces)


def test_only_the_torus_fills_four_ports():
    grid, time = topologies.build("torus", shape=(4, 4)), {}
    for way in ("torus", "bucket", "ring", "halving_doubling"):
        time[way] = simulate("all_reduce", way, grid, 1e9, segments=16, pipelined=True).time
    least = collectives.bounds("all_reduce", 16, 1e9, port_rate=4 * case().nic_rate)[0].seconds
    assert (
        least <= time["torus"] < 1.01 * least < min(time[way] for way in time if way != "torus") / 3
    )


def test_each_shuffle_slows_a_hashed_ring_three_times_and_a_sprayed_one_not():
    hall = topologies.build("rail_optimised")
    rails = collectives.rail_groups(hall)
    usual = simulate("all_reduce", "ring", hall, 1e9, placement=rails).time
    for seed in range(1, 21):
        order, slow = collectives.shuffled(rails, seed), {}
        for how in ("ecmp", "spray")[: 1 + (seed < 4)]:
            slow[how] = (
                simulate("all_reduce", "ring", hall, 1e9, placement=order, method=how).time / usual
            )
        assert slow["ecmp"] >= 3 and slow.get("spray", 1) == pytest.approx(1, rel=1e-3)


def flat_rings_by_events(servers, layer, net_lag, nvlink_lag):
    """Return the time [s] of eight flat rings in which each hop has its own latency, block by block."""
    ranks, job = 8 * servers, case()
    block = layer / ranks  # of one ring [B]
    leaves = np.arange(ranks) % 8 == 7  # hops to another server
    lag = np.where(leaves, net_lag, nvlink_lag)
    sending = np.where(leaves, block / job.nic_rate, 8 * block / job.nvlink_per_gpu)
    arrived, free = np.zeros(ranks), np.zeros(ranks)
    for _ in range(2 * (ranks - 1)):
        free = np.maximum(arrived, free) + sending
        arrived = np.roll(free + lag, 1)
    return arrived.max()


def test_eight_rings_win_up_to_128_servers_and_two_levels_on_256():
    ring, job = collectives.closed_form("all_reduce", "ring"), case()
    layer, net_lag, rate = job.dp_gradients / job.layers, job.ring_step_latency, job.nic_rate
    lag = catalog.value("nccl_model", "hw", "latency_Simple", name="hwLat NVLINK Ring")
    inside = ring(8 * layer, 8, lag, job.nvlink_per_gpu)
    ahead = []
    for n in (8, 32, 128, 256):
        flat = 2 * (n - 1) * net_lag + 14 * n * lag + ring(layer, 8 * n, 0, rate)
        assert flat == pytest.approx(flat_rings_by_events(n, layer, net_lag, lag), rel=0.1)
        ahead.append(flat < inside + ring(layer, n, net_lag, rate))
    assert ahead == [True, True, True, False]


def test_a_double_tree_in_pieces_is_ahead_of_a_ring_up_to_256_mib():
    hall, times = topologies.build("rail_optimised"), {}
    rail, lag = collectives.rail_groups(hall)[0], case().ring_step_latency
    for size in ("256 MiB", "1 GiB"):
        ways = {"ring": {}, "double_tree": {"segments": 64, "pipelined": True}}
        for way, options in ways.items():
            times[way, size] = simulate(
                "all_reduce", way, hall, size, placement=rail, method="spray", lag=lag, **options
            ).time
    assert times["double_tree", "256 MiB"] < times["ring", "256 MiB"]
    assert times["ring", "1 GiB"] < times["double_tree", "1 GiB"]


def test_the_ratio_of_two_roots_is_told_apart_from_the_ratio_of_the_ranks():
    question = find("31-ring-growth")
    named = [JUDGES[question.kind](question, f"{answer} times", {})[2] for answer in (4, 31 / 7)]
    assert named == ["time grows with ranks", "one root adds everything"]


def right_time(size, n, rate, latency):
    return 2 * (n - 1) * (latency + size / n / rate)


def test_the_time_of_a_ring_is_right_in_any_form():
    assert check("31-write-time", right_time).data["right"]
    whole = check(
        "31-write-time",
        lambda size, n, rate, latency: (2 * n - 2) * latency + 2 * (n - 1) / n * size / rate,
    )
    assert whole.data["right"]


def test_a_wrong_time_is_shown_beside_the_right_and_the_measured_one():
    ten = published.load(lesson31.TEN_SERVERS)
    job = case()
    right = right_time(ten.size[0], 10, job.nic_rate, job.ring_step_latency)
    shown = check("31-write-time", lambda *given: 2 * right_time(*given))
    assert shown.data["named"] == ""
    assert f"{right:.4g} s is right" in str(shown)
    assert text("function.measured", time=f"{ten.time[0]:.4g}") in str(shown)


def test_a_time_that_fails_only_for_small_arrays_is_wrong():
    shown = check(
        "31-write-time",
        lambda size, n, rate, latency: (
            right_time(size, n, rate, latency) if size > 1e6 else size / rate
        ),
    )
    assert not shown.data["right"] and "4 KiB" in str(shown)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda size, n, rate, latency: None, "got None"),
        (lambda size, n: 1.0, "TypeError"),
        (lambda size, n, rate, latency: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_what_is_no_time_is_not_counted(rule, words):
    shown = check("31-write-time", rule)
    assert not shown.data["counted"] and words in str(shown)
    assert text("check.uncounted") in str(shown)


def test_a_block_that_is_no_number_is_told_with_its_rank_and_step():
    shown = str(check("31-write-ring", lambda rank, step, n: None))
    assert "returned None for rank 0 in step 0 of 2 ranks" in shown and "here 0 or 1" in shown
    late = str(check("31-write-ring", lambda r, s, n: (r - s) % n if n < 4 or s < 3 else None))
    assert "for rank 0 in step 3 of 4 ranks" in late and "here 0 to 3" in late


def test_the_ring_of_the_case_is_351_us_above_its_bound():
    hall = topologies.build("rail_optimised")
    job = case()
    ring = simulate(
        "all_reduce", "ring", hall, job.dp_gradients, placement=collectives.rail_groups(hall)
    )
    above = ring.time - ring.bounds(port_rate=job.nic_rate)[0].seconds
    assert above == pytest.approx(351e-6, rel=1e-3)


def test_every_algorithm_has_a_title_without_underscores_and_no_two_share_one():
    names = {
        name
        for what in ("all_reduce", "all_gather", "reduce_scatter")
        for name in collectives.algorithms(what)
    }
    titles = [collectives.title(name) for name in names]
    assert len(set(titles)) == len(titles) and not any("_" in title for title in titles)
    assert collectives.title("nvls_two_shot") == "NVLS, two shots"


def test_nccl_counts_less_for_pat_than_for_a_ring_through_servers_of_one_gpu():
    rail = {**ROWS["xx_10n_g1_all_gather"], "ranks": 128, "nodes": 128}
    expected = estimate(rail, size=1e3).expected
    rings = [time for plan, time in expected.items() if plan.startswith("Ring")]
    assert min(rings) == expected["Ring/LL"] == pytest.approx(640e-6, abs=5e-6)
    assert expected["PAT/Simple"] == pytest.approx(394e-6, abs=1e-6)
    assert min(rings) / expected["PAT/Simple"] == pytest.approx(1.6, abs=0.05)


def test_at_5_us_a_step_ring_and_tree_cross_near_6_mib():
    hall = topologies.build("rail_optimised")
    settings = {"placement": collectives.rail_groups(hall), "method": "spray", "lag": 5.0e-6}
    for size, tree_wins in (("6 MiB", True), ("6.5 MiB", False)):
        ring = simulate("all_reduce", "ring", hall, size, **settings)
        tree = simulate("all_reduce", "binomial_tree", hall, size, **settings)
        assert (tree.time < ring.time) is tree_wins


def test_the_formula_is_off_as_the_lesson_says():
    short = validate.median_errors(validate.textbook, "all_reduce")
    slow = validate.median_errors(validate.textbook, "all_reduce", protocol="Simple")
    found = [100 * errors[sizes] for errors in (short, slow) for sizes in ("small", "large")]
    assert found == pytest.approx([80, 23, 690, 23], abs=0.5)


@pytest.mark.parametrize(
    ("protocol", "split", "error", "too_long"),
    [
        ("LL", False, 80, 15),
        ("Simple", False, 690, 22),
        ("LL", True, 52, 6),
        ("Simple", True, 192, 21),
    ],
)
def test_steps_counted_apart_miss_small_messages_by_less(protocol, split, error, too_long):
    """Of 23 sweeps with small sizes; 17 of these ran on several servers with several GPUs each."""
    options = {"protocol": protocol, "split": split}
    errors = validate.median_errors(validate.textbook, "all_reduce", **options)
    assert 100 * errors["small"] == pytest.approx(error, abs=0.5)
    ratios = []
    several = []  # sweeps on several servers with several GPUs each
    for about in published.systems():
        run = published.load(about["sweep_id"])
        small = validate.regimes(run) == "lat"
        if about["collective"] != "all_reduce" or not small.any():
            continue
        time = [1e-6 * validate.textbook(about, size, **options) for size in run.size[small]]
        ratios.append(np.median(time / run.time[small]))
        told = read(about)
        if told.servers > 1 and told.local > 1:
            several.append(about["sweep_id"])
    assert (len(ratios), len(several)) == (23, 17)
    assert sum(ratio > 1 for ratio in ratios) == too_long


def test_gpus_of_twice_the_speed_expose_028_s_of_the_gradients():
    job = case()
    fast = job.t_compute / 2
    backward = (2 / 3 * fast + job.t_tp / 2) / job.microbatches
    exposed = job.t_dp - backward
    assert exposed == pytest.approx(0.28, abs=0.005)
    saved = 1 - (fast + job.t_tp + exposed) / job.t_step
    assert saved == pytest.approx(0.35, abs=0.005)


@pytest.mark.parametrize(("blocks", "right"), [((2, 0, 3, 1), True), ((0, 0, 0, 0), False)])
def test_a_ring_may_start_with_any_blocks_that_differ(blocks, right):
    shown = check("31-write-ring", lambda rank, step, n: _started(blocks, rank, step, n))
    assert shown.data["right"] is right


def _started(blocks, rank, step, n):
    """Start with ``blocks`` on four ranks, and with the own block on others."""
    before = (rank - step) % n
    return blocks[before] if n == len(blocks) else before


@pytest.mark.parametrize(
    ("sweep", "small", "large"),
    [("xx_10n_g2_all_reduce", 1e-6, 3.4e-6), ("sophia_n2_2.22.3_all_reduce_env6", 2e-6, 6e-6)],
)
def test_a_step_over_nvlink_waits_at_least_for_the_posts_to_a_nic(sweep, small, large):
    """The second has CPUs of AMD."""
    facts = read(ROWS[sweep])
    for plan in plans(facts):
        if plan.algorithm == "Ring" and plan.protocol in ("LL", "Simple"):
            step = max(plan.hop, plan.posts * post(facts))
            assert step == pytest.approx(small if plan.protocol == "LL" else large)
