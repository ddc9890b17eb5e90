"""Alarms on counters, sequential tests and bisection by timings: values by hand, and refusals."""

import math

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import operations, topologies
from fabriclab.operations import AlertRule, Cause, Cusum, Threshold, TimedServers


# alarms -------------------------------------------------------------------------------------------
def test_first_alarm_waits_for_samples_in_a_row():
    values = np.array([[5, 0], [5, 5], [0, 5], [5, 5], [5, 5], [5, 0]])
    assert operations.first_alarm(values, 4).tolist() == [0, 1]
    assert operations.first_alarm(values, 4, hold=3).tolist() == [5, 3]
    assert operations.first_alarm(values, 4, hold=4).tolist() == [-1, 4]
    assert operations.first_alarm(values, 5).tolist() == [-1, -1]  # has to be exceeded
    assert operations.first_alarm(values, 4, hold=7).tolist() == [-1, -1]


def test_a_missing_sample_raises_no_alarm():
    values = np.array([[9.0], [np.nan], [9.0], [9.0]])
    assert operations.first_alarm(values, 4, hold=2).tolist() == [3]


def test_score_counts_early_alarms_as_false():
    # found after 2 samples; alarm before the onset; missed; healthy with an alarm; healthy without
    found = operations.score([7, 2, -1, 4, -1], [5, 5, 5, -1, -1], interval=30.0, samples=2880)
    assert (found.found, found.missed, found.false) == (1, 2, 2)
    assert found.delay == 60.0
    assert found.false_per_day == 2.0
    with pytest.raises(ValueError, match="same links"):
        operations.score([1], [1, 2], 30.0, 10)


def test_a_lower_limit_is_sooner_and_more_often_false():
    hall = topologies.build("leaf_spine", hosts=16, radix=8)
    seen = operations.observe(hall, [Cause("slow NIC", "host 5", 7200)], samples=480)
    found = operations.tradeoff(seen, AlertRule("pauses", 0, 3), [60, 100, 200, 400])
    assert np.all(np.diff(found.false) <= 0) and found.false[0] > 0
    assert np.all(np.diff(found.delay) >= 0)
    best = operations.best_limit(found, false_per_day=0)
    assert found.false[found.limits.tolist().index(best)] == 0
    with pytest.raises(ValueError, match=r"no limit finds every bad link"):
        operations.best_limit(operations.tradeoff(seen, AlertRule("pauses", 0, 3), [1e6]), 0)


# sequential tests ---------------------------------------------------------------------------------
def test_cusum_by_hand():
    test = Cusum(shift=2, limit=2.5)  # subtracts 1 from each sample
    z = np.array([2.0, 0.0, 3.0, -9.0, 2.0, 3.0, 1.5])
    assert test.sums(z).tolist() == [1.0, 0.0, 2.0, 0.0, 1.0, 3.0, 3.5]
    assert int(test.alarms(z)) == 6
    assert int(test.alarms(z[:5])) == 0
    assert test.alarms(np.column_stack([z, 0 * z])).tolist() == [6, 0]


def test_sums_go_on_where_they_stopped():
    z = np.random.default_rng(1).normal(size=(50, 3))
    test = Cusum(1, 5)
    half = test.sums(z[:20])
    assert np.allclose(test._continued(z[20:], half[-1]), test.sums(z)[20:])


def test_exact_run_length_is_that_of_a_simulation():
    test = Cusum(1, 3)
    for mean in (0.0, 0.5, 1.0):
        drawn = test.simulate(mean, draws=1500, seed=3)
        assert abs(drawn.mean - test.run_length(mean)) < 4 * drawn.error


def test_a_threshold_in_a_row_by_hand():
    assert Threshold(0.0).run_length() == pytest.approx(2)  # a fair coin
    assert Threshold(0.0, hold=3).run_length() == pytest.approx(14)  # 2^4 - 2
    assert Threshold(3.0).run_length() == pytest.approx(740.8, abs=0.1)  # one-sided three sigma
    assert Threshold(60.0).run_length() == math.inf


def test_one_percent_of_a_rate():
    assert operations.shift_of(0.5, 1.0) == pytest.approx(1.0)  # twice the time
    week = operations.watch(0.01, 0.02, links=64, step=4.6, false_alarm_every=86_400)
    assert week.false_alarm_every == pytest.approx(86_400)
    assert week.cusum.run_length() == pytest.approx(week.run_length, rel=1e-6)
    assert week.delay < 100 < week.threshold_delay


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Cusum(0, 5), r"shift must be a number > 0, got 0"),
        (lambda: Cusum(1, -1), r"limit must be a number > 0, got -1"),
        (lambda: Cusum(1, 500).run_length(), r"limit must be at most 400"),
        (lambda: Cusum(4, 30).run_length(), r"below 1e\+12 samples"),
        (lambda: operations.shift_of(1.5, 0.1), r"loss must be a part of the rate within 0\.\.1"),
        (lambda: operations.shift_of(0.1, 0), r"noise must be a number > 0"),
        (lambda: operations.limit_for(1, 1), r"run_length must be within 2\.\."),
        (lambda: operations.limit_for(3, 3), r"one sample tells such a shift"),
        (lambda: operations.watch(step=0), r"step must be a number > 0"),
    ],
)
def test_sequential_refusals(call, said):
    with pytest.raises(ValueError, match=said):
        call()


# bisection ----------------------------------------------------------------------------------------
def test_a_group_waits_for_its_slowest_nic():
    cluster = TimedServers(8, 2, slow={(3, 1): 0.25}, rate=1e9, size=4e9)
    seconds = cluster.time([[0, 1], [2, 3, 4, 5]])
    assert seconds.tolist() == [[4.0, 4.0], [6.0, 24.0]]
    assert (cluster.rounds, cluster.timings) == (1, 2)


def test_the_timings_are_those_of_the_flow_engine():
    """The closed form of a group is what the library simulates on a fabric with rails and one slow NIC."""
    hall = topologies.build("rail_optimised", servers=8, gpus=2, rails=2, radix=16, expand=False)
    slow = int(hall.endpoint[2 * 3 + 1])
    links = np.flatnonzero((hall.source == slow) | (hall.target == slow))
    rate = float(hall.capacity[links[0]])
    hurt = hall.with_capacity(links, rate / 4)
    cluster = TimedServers(8, 2, slow={(3, 1): 0.25}, rate=rate, size=2**30)
    members = [2, 3, 4, 5]
    ours = cluster.time([members])[0]
    for rail in (0, 1):
        ranks = [2 * server + rail for server in members]
        run = fl.simulate("all_reduce", "ring", hurt, 2**30, placement=ranks)
        assert run.time == pytest.approx(ours[rail], rel=1e-3)


def test_every_nic_of_1024_is_found_in_seven_rounds():
    for server in range(128):
        cluster = TimedServers(128, 8, slow={(server, server % 8): 0.25})
        found = operations.find_slow_nic(cluster)
        assert (found.server, found.rail) == (server, server % 8)
        assert len(found.rounds) == cluster.rounds == operations.rounds_needed(128) == 7


def test_a_loss_of_one_percent_needs_more_timings():
    repeats = operations.repeats_needed(0.01, 0.02, 128, 8, wrong=0.01)
    right = 0
    for seed in range(60):
        cluster = TimedServers(
            128, 8, slow={(seed, 5): 0.99}, noise=0.02, repeats=repeats, seed=seed
        )
        try:
            found = operations.find_slow_nic(cluster, loss=0.01)
        except operations.NotFound:
            continue
        right += (found.server, found.rail) == (seed, 5)
    assert right >= 58
    once = TimedServers(128, 8, slow={(77, 5): 0.99}, noise=0.02, seed=1)
    with pytest.raises(operations.NotFound, match="repeats_needed"):
        operations.find_slow_nic(once, loss=0.01)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: TimedServers(2), ValueError, r"servers must be >= 3"),
        (lambda: TimedServers(slow={3: 0.5}), TypeError, r"NICs as \(server, rail\), got 3"),
        (lambda: TimedServers(slow={(3, 9): 0.5}), ValueError, r"rail must be within 0\.\.7"),
        (lambda: TimedServers(slow={(3, 1): 4}), ValueError, r"fraction > 0 and at most 1, got 4"),
        (lambda: TimedServers().time([[5]]), ValueError, r"at least 2 servers"),
        (lambda: TimedServers().time([[5, 6], [6, 7]]), ValueError, r"two groups of one round"),
        (lambda: TimedServers().time([[5, 200]]), ValueError, r"numbered 0\.\.127"),
        (
            lambda: operations.find_slow_nic(TimedServers()),
            operations.NotFound,
            r"both as fast as the others",
        ),
        (
            lambda: operations.find_slow_nic(TimedServers(), loss=2),
            ValueError,
            r"a NIC at a quarter has lost 0\.75",
        ),
    ],
)
def test_bisection_refusals(call, error, said):
    with pytest.raises(error, match=said):
        call()
