"""Cost of a GPU-hour, ranges and draws, break-even and tiers: by hand, against the case and the plan, refusals."""

import numpy as np
import pytest

from fabriclab import catalog, economics, training
from fabriclab.economics import Range, breakeven, ranges, tiers

CASE = catalog.case()


# ------------------------------------------------------------------ an hour


def test_an_hour_by_hand():
    hours = 4 * 8766
    hour = economics.gpu_hour(CASE)
    assert hour.parts["servers"] == pytest.approx(310_000 / 8 / hours)
    assert hour.parts["fabric"] == pytest.approx((48 * 36_000 + 128 * 20_480) / 1024 / hours)
    assert hour.parts["facility"] == pytest.approx(50_000 / 8 / hours)
    assert hour.owned == pytest.approx(CASE.price_gpu_hour)
    watts = 10_200 / 8 + 48 * 747 / 1024 + (1024 * 9 + 1536 * 17) / 1024
    assert sum(hour.watts.values()) == pytest.approx(watts)
    assert hour.parts["electricity"] == pytest.approx(watts / 1000 * 1.3 * 0.08)
    assert hour.training == pytest.approx(hour.owned + hour.parts["electricity"])
    flop = CASE.mfu * 989e12 * 3600
    assert hour.eflop == pytest.approx(hour.training / (flop / 1e18))
    assert hour.tflops == pytest.approx(hour.training / (CASE.mfu * 989))
    assert hour.watts_per_tflops == pytest.approx(watts / (CASE.mfu * 989))
    assert hour.fabric_share == pytest.approx(CASE.fabric_share)


def test_watts_of_the_fabric_for_each_gpu():
    """Switches 35 W and modules 34.5 W: 5 % of what a GPU with its server draws."""
    hour = economics.gpu_hour(CASE)
    assert hour.watts["modules"] * 1024 == pytest.approx(CASE.optics_power)
    assert hour.fabric_watts == pytest.approx(69.5, abs=0.05)
    assert hour.fabric_watts / sum(hour.watts.values()) == pytest.approx(0.0517, abs=0.0005)


def test_hours_that_are_not_used_are_paid_by_those_that_are():
    whole = economics.gpu_hour(CASE, electricity=0)
    assert economics.gpu_hour(CASE, electricity=0, used=0.8).training == pytest.approx(
        1.76, abs=0.005
    )
    both = economics.gpu_hour(CASE, electricity=0, used=0.8, goodput=0.5)
    assert both.training == pytest.approx(whole.training / 0.4)
    assert both.owned == whole.owned


def test_old_servers_that_are_sold_make_the_life_matter_less():
    year = 8766 * 3600
    short = economics.gpu_hour(CASE, lifetime=3 * year, resale=0.3).training
    long = economics.gpu_hour(CASE, lifetime=6 * year, resale=0.125).training
    assert short - long == pytest.approx(0.59, abs=0.005)
    kept = economics.gpu_hour(CASE, lifetime=3 * year).training
    assert kept - short == pytest.approx(0.3 * 310_000 / 8 / (3 * 8766))


def test_a_third_tier_has_more_cables():
    large = CASE.replace(servers=2048, dp=2048)
    hour = economics.gpu_hour(large)
    assert hour.owned == pytest.approx(large.price_gpu_hour)


def test_inputs_with_units_and_arrays():
    text = economics.gpu_hour(server="310 kUSD", lifetime="1461 d", switch_power="747 W")
    assert text.training == pytest.approx(economics.gpu_hour().training)
    many = economics.gpu_hour(server=[300e3, 310e3, 320e3])
    assert many.training.shape == (3,)
    assert many.training[1] == pytest.approx(economics.gpu_hour().training)
    assert "GPU-training-hour" in many.draw()


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"used": 0}, "used must be a share within 0..1, 0 excluded, got 0"),
        ({"mfu": 41}, "mfu must be a share within 0..1"),
        ({"goodput": [0.5, 1.5]}, "goodput must be a share"),
        ({"resale": 1.2}, "resale must be a part within 0..1, got 1.2"),
        ({"pue": 0.9}, "pue must be >= 1"),
        ({"server": -1}, "server must be >= 0"),
        ({"lifetime": 4}, "lifetime must be at least an hour, in seconds, got 4"),
        ({"server": float("nan")}, "server must be >= 0"),
        ({"sever": 1}, "did you mean 'server'"),
        ({"server": "310 k"}, "unknown unit"),
    ],
)
def test_refused_inputs(inputs, said):
    with pytest.raises(ValueError, match=said):
        economics.gpu_hour(**inputs)


def test_every_range_holds_the_case_and_has_a_source():
    for name, reach in economics.price_ranges().items():
        assert reach.low <= reach.middle <= reach.high, name
        assert reach.sources, name
        assert reach.low < reach.high, name
    assert economics.price_ranges()["lifetime"].ends == (3 * 8766 * 3600, 6 * 8766 * 3600)
    assert economics.price_ranges()["server"].ends == (270_000, 400_000)
    assert economics.price_ranges()["used"].ends == (
        0.75,
        1,
    )  # the source has 0.75 to 0.85, the case 1
    assert economics.price_ranges()["switch"].ends == pytest.approx((550_000 / 48, 50_000))
    cables = 8 * (800 + 700) + 8 * 1400
    assert economics.price_ranges()["cables"].ends == (1.2e6 / 128, cables)


def test_the_middle_of_all_is_the_case():
    ends = economics.price_ranges()
    middles = {name: reach.middle for name, reach in ends.items()}
    assert economics.gpu_hour(**middles).training == economics.gpu_hour().training


# ------------------------------------------------------------------ one at a time, and all at once


def test_swings_by_hand():
    swings = {swing.name: swing for swing in economics.hour_swings()}
    middle = economics.gpu_hour().training
    assert swings["used"].low == pytest.approx(middle / 0.75)
    assert swings["goodput"].low == pytest.approx(middle / 0.9)
    assert all(swing.middle == pytest.approx(middle) for swing in swings.values())
    assert swings["server"].low < middle < swings["server"].high
    hours = 4 * 8766
    assert swings["server"].width == pytest.approx((400_000 - 270_000) / 8 / hours)
    assert swings["switch"].width == pytest.approx((50_000 - 550_000 / 48) * 48 / 1024 / hours)
    assert swings["resale"].high == pytest.approx(middle - 0.2 * 310_000 / 8 / hours)
    widths = [swing.width for swing in economics.hour_swings()]
    assert widths == sorted(widths, reverse=True)
    assert "mfu" not in swings
    assert "mfu" in {swing.name for swing in economics.hour_swings(what="eflop")}


def test_draws_of_the_page():
    drawn = economics.hour_draws(rng=np.random.default_rng(0))
    assert drawn.quantile([0.1, 0.5, 0.9]) == pytest.approx([1.38, 1.71, 2.13], abs=0.006)
    shares = drawn.importance
    assert shares["lifetime"] == pytest.approx(0.62, abs=0.006)
    assert shares["server"] == pytest.approx(0.10, abs=0.006)
    assert shares["used"] == pytest.approx(0.14, abs=0.006)
    assert shares["switch"] + shares["cables"] < 0.01
    assert sum(shares.values()) == pytest.approx(1)
    again = economics.hour_draws(rng=np.random.default_rng(0))
    assert again.value.tolist() == drawn.value.tolist()


def test_draws_stay_inside_and_peak_at_the_middle():
    reach = {"x": Range(0, 1, 4), "still": Range(2, 2, 2)}
    drawn = economics.draw(lambda x, still: x + still, reach, 200_000, rng=np.random.default_rng(1))
    x = drawn.inputs["x"]
    assert 0 <= x.min() and x.max() <= 4
    assert x.mean() == pytest.approx((0 + 1 + 4) / 3, abs=0.01)  # of a triangle
    assert np.all(drawn.inputs["still"] == 2)
    assert drawn.importance == {"x": 1.0, "still": 0.0}


def test_ranks_of_equal_values():
    assert ranges._ranks(np.array([5.0, 1.0, 5.0, 9.0])).tolist() == [2.5, 1.0, 2.5, 4.0]


@pytest.mark.parametrize(
    ("low", "middle", "high"), [(2, 1, 3), (1, 4, 3), (1, float("nan"), 3), (1, 2, float("inf"))]
)
def test_a_range_out_of_order_is_refused(low, middle, high):
    with pytest.raises(ValueError, match="low <= middle <= high, got"):
        Range(low, middle, high)


def test_refused_draws():
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match="x must be a Range, got 3; write Range"):
        economics.draw(lambda x: x, {"x": 3}, rng=rng)
    with pytest.raises(TypeError, match="inputs must be a dict of ranges"):
        economics.one_at_a_time(lambda: 1, {})
    with pytest.raises(ValueError, match=r"one value for each of 5 draws, got the shape \(\)"):
        economics.draw(lambda x: 1.0, {"x": Range(0, 1, 2)}, 5, rng=rng)
    with pytest.raises(TypeError, match=r"write np.random.default_rng\(0\)"):
        economics.draw(lambda x: x, {"x": Range(0, 1, 2)}, rng=0)


# ------------------------------------------------------------------ break-even


def test_half_of_the_network_for_nothing():
    """The teaching plan: step 4.60 to 5.27 s, fabric 8.6 % of the bill, even at +9.4 %: free is too dear."""
    offer = economics.half_for_nothing(CASE)
    assert (round(offer.before, 2), round(offer.after, 2)) == (4.60, 5.27)
    assert CASE.fabric_share == pytest.approx(0.086, abs=0.0005)
    assert offer.breaks_even == pytest.approx(0.094, abs=0.0005)
    assert offer.breaks_even == pytest.approx(economics.worth_growth(CASE.fabric_share))
    assert offer.growth == pytest.approx(0.146, abs=0.0005)
    assert offer.cost_after / offer.cost_before == pytest.approx(
        (1 - CASE.fabric_share) * 1.1455, abs=1e-4
    )
    assert not offer.pays
    whole = offer.cost_before * CASE.steps
    assert whole == pytest.approx(CASE.price_run)


def test_the_offer_turns_where_it_says():
    turn = economics.half_for_nothing(CASE).turns_at
    for factor, pays in ((0.999, False), (1.001, True)):
        assert economics.offer(CASE, turn * factor).pays is pays


def test_the_model_of_training_says_the_same():
    step = {"step": lambda job: training.of_case(job).time}
    mine = economics.half_for_nothing(CASE)
    theirs = economics.half_for_nothing(CASE, **step)
    assert tuple(theirs) == pytest.approx(tuple(mine), rel=1e-6)


def test_a_claim_of_40_to_90_percent():
    tested = economics.claim(CASE)
    assert tested.gain == 2.25
    rest = CASE.price_total - CASE.price_fabric
    assert tested.worth_factor == pytest.approx(
        (2.25 * CASE.price_total - rest) / CASE.price_fabric
    )
    assert tested.premium == 48 * 14_000
    assert tested.needs_premium == pytest.approx(tested.premium / CASE.price_total)
    assert tested.best == pytest.approx(CASE.t_step / (CASE.t_compute + CASE.t_tp), rel=1e-4)
    slow = CASE.replace(nic_rate=tested.slow_rate)
    assert slow.t_step == pytest.approx(2.25 * CASE.t_step)
    assert tested.mfu_slow == pytest.approx(slow.mfu)
    assert tested.mfu_fast == pytest.approx(CASE.mfu)
    assert tested.computing_slow == pytest.approx(CASE.t_compute / slow.t_step)


def test_question_of_the_lesson_on_break_even():
    """A fabric that adds 8 % to the cost of a cluster, at an MFU of 40 %, has to lift it to 43.2 %."""
    gain = 43.2 / 40
    assert economics.worth(CASE, gain) == pytest.approx(CASE.price_fabric + 0.08 * CASE.price_total)


def test_refused_offers():
    with pytest.raises(ValueError, match=r"share must be within 0\.\.1, 1 excluded, got 8\.6"):
        economics.worth_growth(8.6)
    with pytest.raises(ValueError, match="price must be >= 0 USD"):
        economics.offer(CASE, "200 Gb/s", -1)
    with pytest.raises(ValueError, match=r"0 < low < high <= 1, got 0\.9 and 0\.4"):
        economics.claim(CASE, 0.9, 0.4)
    with pytest.raises(ValueError, match="gain must be > 0, got 0"):
        economics.worth(CASE, 0)


def test_crossing():
    assert breakeven.crossing(lambda x: 7 - x, 1, 100) == pytest.approx(7)
    assert breakeven.crossing(lambda x: x, 1, 100) == 0
    assert breakeven.crossing(lambda x: -1.0, 1, 100) == 0


# ------------------------------------------------------------------ tiers


def test_six_workloads_by_hand():
    rows = {row.workload.name.split(",")[0]: row for row in tiers.assign(tiers.workloads(CASE))}
    assert len(tiers.workloads(CASE)) == 6
    assert rows["pre-training"].need == pytest.approx(CASE.nic_break_even)
    whole = 2 * 7 / 8 * CASE.dp_gradients / CASE.window
    assert rows["fine-tuning of all weights"].need == pytest.approx(whole)
    low_rank = 16 * 80 * (2 * (8192 + 8192) + 2 * (8192 + 1024) + 3 * (8192 + 28672))
    assert tiers.adapters(training.of_case(CASE).model, 16) == low_rank
    assert rows["fine-tuning of adapters"].need == pytest.approx(
        1.75 * low_rank * 2 / 8 / CASE.window
    )
    assert rows["serving on one server"].tier == "none"
    reading = 495e12 / (2 * CASE.parameters)  # tokens in a second
    cache = 80 * 2 * 8 * 128 * 2
    two_pools = tiers.workloads(CASE)[4]
    assert two_pools.need == pytest.approx(reading * cache)
    experts = tiers.workloads(CASE)[5]
    assert experts.need == pytest.approx(200538 / 72 * 58 * 8 * 64 / 72 * 7168 * 3)


def test_the_servers_of_fine_tuning_are_the_fewest_that_hold_the_model():
    """Weights and gradients of a GPU's part in bf16, and 12 bytes of optimizer shared among the replicas."""

    def fits(servers):
        state = (4 + 12 / servers) * CASE.parameters / CASE.tp
        return (
            state + 22.8e9 < 80e9
        )  # activations as lesson 35 counts them, and the memory of an H100

    assert fits(tiers._TUNING_SERVERS)
    assert not fits(tiers._TUNING_SERVERS / 2)


def test_the_rule_by_name_is_wrong_both_ways():
    """Some fine-tuning needs as much as pre-training, and some serving needs more than other training."""
    need = [workload.need for workload in tiers.workloads(CASE)]
    pre, tuning, adapters, serving, pools, experts = need
    assert tuning > 0.7 * pre
    assert experts > 190 * adapters
    assert serving == 0 < adapters < pools


def test_the_smallest_nic_and_what_a_margin_does():
    rows = tiers.assign(tiers.workloads(CASE))
    assert [row.tier for row in rows] == [
        "400 Gb/s",
        "400 Gb/s",
        "100 Gb/s",
        "none",
        "100 Gb/s",
        "200 Gb/s",
    ]
    # Experts need 24.7 of 25 GB/s: with what a sum reaches of line rate it is the next one.
    reached = tiers.assign(tiers.workloads(CASE), efficiency=0.978)
    assert [row.tier for row in reached][-1] == "400 Gb/s"
    fast = tiers.Workload("layers over servers", CASE.tp_bytes, CASE.t_tp, "")
    (row,) = tiers.assign([fast])
    assert row.tier == "scale-up"
    assert row.rate == np.inf


def test_the_smallest_rate_on_the_step_of_training():
    def waits(rate):
        return economics.network_waits(training.of_case(CASE.replace(nic_rate=rate)))

    size = economics.smallest_rate(waits, "50 ms")
    assert size.rate == 50e9
    assert size.exposed == pytest.approx(
        [CASE.replace(nic_rate=rate).t_dp_exposed for rate in size.rates], abs=1e-6
    )
    assert waits(size.turns_at) == pytest.approx(0.050, rel=1e-6)
    assert economics.smallest_rate(waits, "0.7 s").rate == 25e9
    assert economics.smallest_rate(waits, "1 ms").rate == np.inf
    assert "no NIC leaves" in repr(economics.smallest_rate(waits, "1 ms"))


def test_waits_for_links_inside_a_server_do_not_count():
    step = training.of_case(CASE)
    assert step.tiers["tensor"] == "scale-up"
    assert economics.network_waits(step) == pytest.approx(CASE.t_dp_exposed)


def test_refused_rates():
    with pytest.raises(ValueError, match="400 Gb/s are 50e9"):
        economics.assign([], rates=[400])
    with pytest.raises(ValueError, match="efficiency must be within"):
        economics.assign([], efficiency=0)
    assert economics.nic_rates().tolist() == [12.5e9, 25e9, 50e9, 100e9]
