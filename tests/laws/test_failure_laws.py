"""Laws of checkpoints, played runs and maxima, and Monte Carlo against the exact formulas."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabriclab import operations as ops

PART = st.floats(1e-5, 20.0)  # of the mean time between failures
MTBF = st.floats(1.0, 1e7)


@given(mtbf=MTBF, part=PART)
def test_no_interval_is_better_than_the_best(mtbf, part):
    from scipy.optimize import minimize_scalar
    from scipy.special import lambertw

    plan = ops.Checkpoints(part * mtbf, 0.0, mtbf)
    best = plan.best
    assert 0 < best <= mtbf
    # closed form: t = M (1 + W(-exp(-1 - C / M)))
    closed = mtbf * (1 + lambertw(-math.exp(-1 - part)).real)
    assert best == pytest.approx(closed, rel=1e-5)
    found = minimize_scalar(
        lambda t: -float(np.log(plan.goodput(t))), bounds=(1e-9 * mtbf, 2 * mtbf), method="bounded"
    )
    assert plan.goodput(best) >= np.exp(-found.fun) * (1 - 1e-9)
    around = best * np.linspace(0.5, 2, 41)
    assert np.all(plan.goodput(around) <= plan.goodput(best) * (1 + 1e-12))


@given(mtbf=MTBF, part=st.floats(1e-5, 0.7))
def test_daly_is_within_one_percent_while_a_checkpoint_is_short(mtbf, part):
    """The must: within 1 % of the numeric optimum, up to C = 0.7 M."""
    cost = part * mtbf
    assert ops.daly_interval(cost, mtbf) == pytest.approx(ops.best_interval(cost, mtbf), rel=0.01)


@given(part=st.floats(0.72, 3.5))
def test_daly_is_not_within_one_percent_beyond(part):
    error = ops.daly_interval(part, 1.0) / ops.best_interval(part, 1.0) - 1
    assert 0.01 < abs(error) < 0.062
    plan = ops.Checkpoints(part, 0.0, 1.0)
    assert plan.goodput(plan.best) - plan.goodput(plan.daly) < 2e-4


@given(mtbf=MTBF, write=st.floats(0, 2), restart=st.floats(0, 3), interval=st.floats(1e-3, 5))
def test_time_divides_without_a_rest(mtbf, write, restart, interval):
    plan = ops.Checkpoints(write * mtbf, restart * mtbf, mtbf)
    spent = plan.spent(interval * mtbf)
    assert sum(spent) == pytest.approx(1, rel=1e-9)
    assert all(part >= -1e-12 for part in spent)
    assert spent.work == pytest.approx(plan.goodput(interval * mtbf))
    # a restart is a factor for every interval alike
    assert plan.best == plan.replace(restart=0.0).best


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    write=st.floats(0, 0.3),
    restart=st.floats(0, 1),
    interval=st.floats(0.02, 1.5),
)
def test_played_runs_have_the_exact_mean(seed, write, restart, interval):
    """A wide band for draws that hypothesis chooses; three standard errors are held in the oracles, with seeds."""
    plan = ops.Checkpoints(write, restart, 1.0)
    runs = ops.play_runs(plan, interval, work=20 * interval, draws=400, seed=seed)
    exact = float(plan.wall_time(20 * interval, interval))
    assert abs(runs.wall.mean() - exact) < 5 * runs.error() + 1e-9
    assert np.all(runs.wall >= 20 * (interval + write) * (1 - 1e-9))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), spares=st.integers(0, 6))
def test_more_spares_never_lose_on_average(seed, spares):
    plan = ops.Checkpoints(0.01, 0.05, 1.0)
    repair = ops.Repair(4.0, 4.0)
    few, more = (
        ops.play_runs(plan, wall=100.0, spares=n, repair=repair, draws=200, seed=seed)
        for n in (spares, spares + 2)
    )
    slack = 5 * (few.error("goodput") + more.error("goodput"))
    assert more.goodput.mean() >= few.goodput.mean() - slack


LATENCIES = st.one_of(
    st.builds(ops.Exponential, st.floats(0, 1), st.floats(1e-3, 1)),
    st.builds(ops.Normal, st.floats(0, 1), st.floats(1e-3, 1)),
    st.builds(ops.LogNormal, st.floats(1e-3, 1), st.floats(0.05, 1)),
    st.builds(ops.Spikes, st.floats(0, 1), st.floats(1e-3, 1), st.floats(0, 1)),
    st.builds(ops.Observed, st.lists(st.floats(0, 1), min_size=1, max_size=30)),
)


@given(latency=LATENCIES, n=st.integers(1, 10**5))
def test_more_ranks_wait_longer(latency, n):
    assert latency.mean_of_max(2 * n) >= latency.mean_of_max(n) - 1e-9
    for q in (1.0, 50.0, 99.0):
        assert latency.percentile_of_max(q, 2 * n) >= latency.percentile_of_max(q, n) - 1e-12
    assert latency.percentile_of_max(1, n) <= latency.percentile_of_max(99, n)


@settings(max_examples=15, deadline=None)
@given(latency=LATENCIES, n=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_the_largest_of_n_is_drawn_as_the_largest_of_n_drawn(latency, n, seed):
    quick = latency.draw_max(n, 4000, seed=seed)
    chance = 1 - np.random.default_rng(seed + 1).random((4000, n))
    slow = latency.exceeded(chance).max(axis=1)
    spread = math.sqrt((quick.var() + slow.var()) / 4000)
    assert abs(quick.mean() - slow.mean()) <= 5 * spread + 1e-12
    # A value that is drawn once in 4,000 times may be missing, and then the draws say nothing of their spread.
    least = latency.percentile_of_max(0.001, 1)
    rare = 10 / 4000 * (latency.percentile_of_max(99.999, n) - least)
    # What comes once in 100,000 times lies above that percentile, and is hardly ever drawn at all.
    rare += 1e-5 * (latency.percentile_of_max(99.9999999, n) - least)
    error = 5 * quick.std() / math.sqrt(4000)
    assert abs(quick.mean() - latency.mean_of_max(n)) <= error + rare + 1e-9


@given(a=st.floats(0, 1e4), b=st.floats(0, 1e4), path=st.sampled_from(ops.PATHS))
def test_a_longer_flap_costs_no_less(a, b, path):
    plan = ops.Checkpoints(60, 600, 178161)
    short, long = ops.flap([min(a, b), max(a, b)], plan, path=path).lost
    assert short <= long
    if path != "one":
        assert long <= ops.flap(max(a, b), plan).lost + 1e-300  # without the smallest numbers


@given(patience=st.floats(1, 1e5), cost=st.floats(1, 1e5), down=st.floats(0, 1e6))
def test_nobody_loses_more_than_the_worst_ratio(patience, cost, down):
    lost = down if down <= patience else patience + cost
    assert lost <= ops.worst_ratio(patience, cost) * min(down, cost) * (1 + 1e-12) + 1e-9
