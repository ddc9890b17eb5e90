"""Laws of costs, draws and decisions, on random inputs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabriclab import catalog, economics
from fabriclab.economics import Range, decision, needs

CASE = catalog.case()
VALUES = economics.decide(CASE).values
share = st.floats(0.05, 1.0)
factor = st.floats(0.2, 5.0)


@given(used=share, goodput=share, mfu=share)
def test_a_useful_hour_costs_no_less_than_one_that_is_owned(used, goodput, mfu):
    hour = economics.gpu_hour(CASE, used=used, goodput=goodput, mfu=mfu)
    assert hour.training >= hour.owned
    assert hour.eflop * mfu == pytest.approx(
        economics.gpu_hour(CASE, used=used, goodput=goodput, mfu=1.0).eflop
    )


@given(scale=factor)
def test_twice_all_prices_is_twice_the_cost(scale):
    prices = {
        name: scale * economics.price_ranges()[name].middle
        for name in ("server", "switch", "cables", "facility", "electricity")
    }
    assert economics.gpu_hour(CASE, **prices).training == pytest.approx(
        scale * economics.gpu_hour(CASE).training
    )


@given(part=st.floats(0.0, 0.9), growth=st.floats(0.0, 5.0))
def test_free_is_worth_it_below_the_break_even_alone(part, growth):
    limit = float(economics.worth_growth(part))
    cost = (1 - part) * (1 + growth)
    if abs(growth - limit) > 1e-9:
        assert (cost < 1) == (growth < limit)


@given(gain=st.floats(0.5, 3.0))
def test_worth_leaves_the_cost_of_work_as_it_is(gain):
    rest = CASE.price_total - CASE.price_fabric
    assert (rest + economics.worth(CASE, gain)) / gain == pytest.approx(CASE.price_total)


@given(total=st.floats(0.0, 100.0), window=st.floats(1e-3, 10.0), buckets=st.integers(1, 500))
def test_exposed_is_that_of_the_case(total, window, buckets):
    mine = needs.exposed(total, window, buckets)
    assert mine == pytest.approx(CASE.exposed(t_dp=total, window=window, buckets=buckets), abs=1e-9)
    assert max(total - window, 0) - 1e-9 <= mine <= total + 1e-9


@given(loss=st.floats(0.0, 0.5), in_flight=st.floats(1.0, 1e4))
def test_go_back_n_keeps_less_than_selective_repeat(loss, in_flight):
    kept = needs.go_back_n(loss, in_flight)
    assert 0 < kept <= 1
    assert kept <= 1 - loss + 1e-12  # equal with one packet on its way


def changes(seed):
    """Return inputs of a decision, drawn at random."""
    rng = np.random.default_rng(seed)
    found = {
        "sent": float(rng.choice([0.0, 1e8, 1e10, 3.5e10, 1e11])),
        "gpus": float(rng.choice([8, 16, 64, 1024])),
        "nic_rate": float(rng.uniform(1e10, 2e11)),
        "loss": float(rng.uniform(1e-6, 0.1)),
        "hours_per_level": float(rng.uniform(0.1, 100)),
        "tolerance": float(rng.uniform(0, 0.05)),
    }
    for key in ("infiniband", "lossless", "multipath", "go_back_n", "tcp", "pcie"):
        found[f"price_{key}"] = float(rng.uniform(0.2, 5))
    for key in ("infiniband", "multipath", "tcp"):
        found[f"efficiency_{key}"] = float(rng.uniform(0.05, 1))
    return found


@given(seed=st.integers(0, 10**6), team=st.sampled_from(["all", "Ethernet", "InfiniBand", "new"]))
@settings(max_examples=100)
def test_the_tree_and_the_costs_give_one_answer(seed, team):
    changed = changes(seed)
    found = economics.decide(CASE, economics.team(team), **changed)
    costs = found.costs
    least = min(costs.values())
    assert found.tree.answer == found.answer
    assert costs[found.answer] <= least * (1 + changed["tolerance"]) * (1 + 1e-12)
    if changed["sent"] > 0:
        assert found.answer != "none"
    if changed["gpus"] > 16:
        assert found.answer != "pcie"


@given(seed=st.integers(0, 10**6))
def test_arrays_decide_as_single_numbers_do(seed):
    many = {**VALUES, **changes(seed)}
    prices = many["price_infiniband"] * np.array([0.5, 0.9, 1.0, 1.1, 2.0])
    together = decision._chosen_at({**many, "price_infiniband": prices})
    for place, price in zip(together, prices, strict=True):
        assert place == decision._chosen_at({**many, "price_infiniband": float(price)})


@given(price=factor, dearer=st.floats(1.0, 3.0))
def test_a_dearer_fabric_is_not_chosen_for_it(price, dearer):
    cheap = economics.decide(CASE, price_infiniband=price)
    dear = economics.decide(CASE, price_infiniband=price * dearer)
    if cheap.answer != "infiniband":
        assert dear.answer != "infiniband"


@given(
    low=st.floats(-10, 0), middle=st.floats(0, 1), high=st.floats(1, 10), seed=st.integers(0, 99)
)
@settings(max_examples=25)
def test_draws_stay_between_the_ends(low, middle, high, seed):
    reach = {"x": Range(low, middle, high)}
    drawn = economics.draw(lambda x: 2 * x, reach, 500, rng=np.random.default_rng(seed))
    assert np.all((drawn.value >= 2 * low) & (drawn.value <= 2 * high))
    assert drawn.quantile(0) <= drawn.quantile(0.5) <= drawn.quantile(1)
