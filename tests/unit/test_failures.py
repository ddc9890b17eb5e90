"""Rates of fleets, checkpoints, played runs, the slowest of many, flaps and blast radii: by hand, and refusals."""

import math

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import operations as ops
from fabriclab.catalog.tables import data_rows

HOUR = 3600.0
DAY = 86400.0


def job(**changes):
    """Return the checkpoints of the running case: 60 s to write, 600 s to restart, 49.5 h between failures."""
    return ops.Checkpoints.of_case(fl.case()).replace(**changes)


# rates --------------------------------------------------------------------------------------------
def test_a_rate_of_nodes_becomes_a_mean_time():
    trace = ops.fleet("infinitehbd")  # 4.184 faults in 1,000 node-days on 400 servers
    assert trace.gpus == 3200
    assert trace.published == pytest.approx(1000 * DAY / (4.184 * 400))
    assert trace.per_1000_node_days == pytest.approx(4.184)
    assert trace.mean_time(6400) == pytest.approx(trace.published / 2)
    assert trace.expected(3200, "348.98 d") == pytest.approx(584, rel=1e-3)
    opt = ops.fleet("opt")  # on 992 to 1,024 GPUs
    assert opt.gpus == 1008 and opt.published == 7.5 * HOUR
    assert ops.fleet("rsc1-8").published == pytest.approx(47.7 * DAY)


def test_counts_by_part_add_up_to_the_published_sums():
    for study, events in (("llama3", 419), ("infinitehbd", 584)):
        parts = ops.components(study)
        assert sum(one.events for one in parts.values()) == events
        assert sum(one.share for one in parts.values()) == pytest.approx(1)
        whole = ops.fleet(study).rate
        assert sum(one.rate for one in parts.values()) == pytest.approx(whole, rel=1e-3)
        assert set(parts) <= set(ops.PARTS)
        counts = [one.events for one in parts.values()]
        assert counts == sorted(counts, reverse=True)
    gpu = ops.components("llama3")["gpu"]
    assert gpu.events == 148 + 72 + 19 + 17 + 6 + 6


def test_an_interval_of_a_count_by_hand():
    # no event: exp(-high) = 2.5 %
    assert ops.poisson_interval(0) == (0.0, pytest.approx(-math.log(0.025)))
    low, high = ops.poisson_interval(1)
    assert low == pytest.approx(-math.log(0.975))
    assert math.exp(-high) * (1 + high) == pytest.approx(0.025)


def test_every_row_of_failures_has_its_evidence():
    rows = data_rows("failures")
    assert len(rows) == 120 and len({row["row_id"] for row in rows}) == 120
    for row in rows:
        assert row["source"] and row["url"] and row["date"] and row["confidence"] in ("A", "B")
        assert row["part"] in ("", *ops.PARTS)
        counted = row["metric"] in ("fault_count", "interruption_count")
        assert bool(row["part"]) == counted
    known = {row["row_id"] for row in rows}
    assert all(row["row_id"] in known for row in data_rows("fleets"))


# predictions --------------------------------------------------------------------------------------
def test_a_fit_is_a_geometric_mean_with_a_vote_for_each_fleet():
    names = {one.fleet for one in ops.fleets()}
    fit = ops.fit_fleets(without=sorted(names - {"Llama 3", "OPT"}))
    one, other = ops.fleet("llama3").rate, ops.fleet("opt").rate
    assert fit.rate == pytest.approx(math.sqrt(one * other))
    assert fit.spread == pytest.approx(abs(math.log(one / other)) / math.sqrt(2))
    low, high = fit.band(100)
    assert low * high == pytest.approx(float(fit.mean_time(100)) ** 2)
    # t with one degree of freedom is Cauchy: its 90 % point is tan(0.4 pi)
    assert high / fit.mean_time(100) == pytest.approx(
        math.exp(math.tan(0.4 * math.pi) * fit.spread * math.sqrt(1.5))
    )
    rsc = [row for row in ops.fleets() if row.fleet == "RSC-1"]
    assert len(rsc) == 3
    pair = ops.fit_fleets(without=sorted(names - {"Llama 3", "RSC-1"}))
    mean = np.mean([math.log(row.rate) for row in rsc])
    assert pair.rate == pytest.approx(math.exp((mean + math.log(one)) / 2))


def test_a_held_out_row_was_not_seen():
    for row in ops.held_out():
        fit = ops.fit_fleets(without=[row.fleet.fleet])
        assert row.fleet.fleet not in fit.fleets
        assert row.model == pytest.approx(float(fit.mean_time(row.fleet.gpus)))
        assert row.inside == (row.low <= row.fleet.published <= row.high)


def test_a_fleet_predicts_itself():
    rows = ops.transfer_components("llama3", "llama3")
    assert all(row.predicted == pytest.approx(row.published) for row in rows)
    assert all(row.low < row.published < row.high for row in rows)
    assert [row.part for row in rows] == [p for p in ops.PARTS if p in ops.components("llama3")]


# checkpoints --------------------------------------------------------------------------------------
def test_goodput_by_hand():
    plan = ops.Checkpoints(write=1.0, restart=2.0, mtbf=10.0)
    whole = 10 * math.exp(0.2) * (math.exp(0.4) - 1)
    assert plan.goodput(3.0) == pytest.approx(3 / whole)
    assert plan.wall_time(30.0, 3.0) == pytest.approx(10 * whole)
    assert plan.failures(30.0, 3.0) == pytest.approx(whole)
    spent = plan.spent(3.0)
    assert spent.checkpoint == pytest.approx(1 / whole)
    # exp(0.4) - 1 failures, each followed by a restart of mean length 10 (exp(0.2) - 1)
    assert spent.restart * whole == pytest.approx(10 * math.expm1(0.4) * math.expm1(0.2))
    assert sum(spent) == pytest.approx(1)


def test_the_formulas_of_young_and_daly_by_hand():
    assert ops.young_interval(60, 49.5 * HOUR) == pytest.approx(math.sqrt(2 * 60 * 49.5 * 3600))
    assert ops.daly_interval(10, 6000, 600, order="first") == pytest.approx(
        math.sqrt(20 * 6600) - 10
    )
    assert ops.daly_interval(2, 1) == 1 and ops.daly_interval(2, 4) == pytest.approx(
        4 * (1 + 0.5 / 3 + 0.25 / 9) - 2
    )
    assert ops.best_interval(0, 10) == 0


def test_texts_with_units_are_read():
    plan = ops.Checkpoints("1 min", "10 min", "3.09 h")
    assert (plan.write, plan.restart, plan.mtbf) == (60, 600, pytest.approx(3.09 * HOUR))
    assert plan.goodput("20 min") == plan.goodput(1200.0)
    assert plan.goodput([600.0, 1200.0]).shape == (2,)
    assert plan.scaled(2).mtbf == plan.mtbf / 2


def test_within_points_of_the_best():
    short, long = job().within(0.01)
    best = float(job().goodput(job().best))
    assert short < job().best < long
    assert job().goodput([short, long]) == pytest.approx([best - 0.01] * 2)
    low, high = job().within(best - 0.001)  # so much that nearly every interval does
    assert low < 1 and high > 10 * job().mtbf / 2


# runs ---------------------------------------------------------------------------------------------
def test_the_parts_of_a_run_add_up():
    plan = job(mtbf="3.09 h")
    for options in ({}, {"spares": 0}, {"spares": 5}, {"spares": 5, "repaired": 0.5}):
        runs = ops.play_runs(plan, wall="20 d", draws=50, seed=2, **options)
        parts = runs.work + runs.checkpoint + runs.lost + runs.restart + runs.waiting + runs.open
        assert np.allclose(parts, runs.wall, rtol=1e-9)
        assert np.allclose(runs.wall, 20 * DAY)
        assert np.all(runs.work % plan.best < 1e-3) or np.allclose(
            runs.work / plan.best, np.round(runs.work / plan.best)
        )


def test_a_run_that_never_fails():
    runs = ops.play_runs(job(mtbf=1e12), "1 h", work="10 h", draws=3)
    assert runs.failures.tolist() == [0, 0, 0]
    assert runs.wall == pytest.approx(10 * (HOUR + 60))
    half = ops.play_runs(job(mtbf=1e12), "1 h", wall="2 h", draws=1)
    assert half.work.tolist() == [HOUR] and half.open == pytest.approx(HOUR - 60)


def test_the_same_seed_gives_the_same_runs():
    plan = job(mtbf="3.09 h")
    one = ops.play_runs(plan, wall="10 d", spares=3, draws=20, seed=7)
    two = ops.play_runs(plan, wall="10 d", spares=3, draws=20, seed=7)
    other = ops.play_runs(plan, wall="10 d", spares=3, draws=20, seed=8)
    assert one.work.tolist() == two.work.tolist() and one.wall.tolist() == two.wall.tolist()
    assert one.work.tolist() != other.work.tolist()


def test_without_spares_a_job_waits_for_every_repair():
    repair = ops.Repair(HOUR, HOUR)  # always one hour
    runs = ops.play_runs(job(mtbf="10 h"), work="30 d", spares=0, repair=repair, draws=30, seed=1)
    assert runs.waiting == pytest.approx(runs.failures * HOUR)
    none = ops.play_runs(
        job(mtbf="10 h"), work="30 d", spares=0, repair=repair, repaired=0.0, draws=30, seed=1
    )
    assert none.waiting.max() == 0


def test_more_spares_than_failures_never_wait():
    plan = job(mtbf="3.09 h")
    many = ops.play_runs(plan, wall="10 d", spares=200, draws=20, seed=4)
    assert many.failures.max() < 200 and many.waiting.max() == 0
    few = ops.play_runs(plan, wall="10 d", spares=2, draws=20, seed=4)
    assert few.waiting.min() > 0


def test_one_spare_by_hand():
    """A repair of 1,000 h and one spare: the first failure takes it, the second waits for the first to come back."""
    plan = ops.Checkpoints(write=0.0, restart=0.0, mtbf=1 * HOUR)
    repair = ops.Repair(1000 * HOUR, 1000 * HOUR)
    runs = ops.play_runs(plan, "1 s", wall="900 h", spares=1, repair=repair, draws=200, seed=3)
    assert set(runs.failures.tolist()) == {2}
    # it worked for two times of mean 1 h, and then stood still
    assert (runs.wall - runs.waiting).mean() == pytest.approx(2 * HOUR, rel=0.2)


def test_spares_by_a_poisson_distribution():
    plan = ops.Checkpoints(60, 600, 10 * HOUR)
    repair = ops.Repair(20 * HOUR, 20 * HOUR)  # two servers away, on average
    # Poisson(2): 0.1353, 0.2707, 0.2707, 0.1804, 0.0902: at most 4 in 94.7 %, at most 5 in 98.3 %
    assert ops.spares_for(plan, repair, share=0.94) == 5
    assert ops.spares_for(plan, repair, share=0.95) == 6


def test_repairs_have_the_published_mean_and_median():
    repair = ops.Repair.published()
    drawn = repair.draw(np.random.default_rng(0), 400_000)
    assert np.median(drawn) == pytest.approx(0.8496 * DAY, rel=0.02)
    assert drawn.mean() == pytest.approx(5.535 * DAY, rel=0.05)


# maxima -------------------------------------------------------------------------------------------
def test_maxima_by_hand():
    wait = ops.Exponential("1 ms", "2 ms")
    assert wait.mean_of_max(1) == pytest.approx(3e-3)
    assert wait.mean_of_max(2) == pytest.approx(1e-3 + 2e-3 * 1.5)
    assert wait.percentile_of_max(50, 1) == pytest.approx(1e-3 + 2e-3 * math.log(2))
    assert ops.Normal(0.0, 1.0).mean_of_max(2) == pytest.approx(1 / math.sqrt(math.pi), abs=1e-9)
    assert ops.Normal(3.0, 1.0).mean_of_max(1) == pytest.approx(3.0, abs=1e-9)
    assert ops.Normal(5.0, 0.0).mean_of_max(100) == pytest.approx(5.0)
    spike = ops.Spikes(1.0, 4.0, 0.25)
    assert spike.mean_of_max(2) == pytest.approx(1 + 4 * (1 - 0.75**2))
    assert spike.percentile_of_max(50, 1) == 1.0 and spike.percentile_of_max(50, 4) == 5.0
    assert ops.Observed([1.0, 2.0]).mean_of_max(2) == pytest.approx(1 * 0.25 + 2 * 0.75)
    assert ops.Observed([3.0, 1.0, 2.0]).percentile_of_max(99, 1) == 3.0
    assert ops.LogNormal(2.0, 0.0).percentile_of_max(99, 1000) == pytest.approx(2.0)


def test_the_mean_of_many_has_no_step_where_the_sum_ends():
    wait = ops.Exponential(0.0, 1.0)
    below, above = wait.mean_of_max(999_999), wait.mean_of_max(1_000_000)
    assert above - below == pytest.approx(1e-6, rel=1e-3)


# flaps --------------------------------------------------------------------------------------------
def test_flaps_by_hand():
    tries = ops.Retries(18, 7)  # 1.07 s, 7 times
    timeout = 4.096e-6 * 2**18
    cost = ops.flap([0.0, 0.5, timeout, 1.5 * timeout, 7.1 * timeout], job(), "1 h", retries=tries)
    assert cost.stall == pytest.approx([0, timeout, timeout, 2 * timeout, 7 * timeout])
    assert cost.crashes.tolist() == [False] * 4 + [True]
    crash = 600 + (3600 + 60) / 2
    assert cost.lost[-1] == pytest.approx(7 * timeout + crash)
    assert ops.restart_cost(job(), "1 h") == crash


def test_other_paths_end_the_wait():
    down = [0.2, 40.0]
    one = ops.flap(down, job())
    ecmp = ops.flap(down, job(), path="ecmp", paths=4, detect="1 s")
    spray = ops.flap(down, job(), path="spray", paths=4, detect="1 s")
    assert one.crashes.tolist() == [False, True]
    assert not ecmp.crashes.any() and not spray.crashes.any()
    timeout = ops.Retries.nccl().timeout
    assert ecmp.stall == pytest.approx([timeout, timeout])
    assert spray.stall == pytest.approx([0.2, 1.0])
    assert ecmp.slower == pytest.approx([1.0, 4 / 3])
    assert one.slower.tolist() == [1.0, 1.0]


def test_the_worst_ratio_is_least_where_patience_is_the_cost():
    ratios = [ops.worst_ratio(p, 600.0) for p in (30.0, 599.0, 600.0, 601.0, 6000.0)]
    assert min(ratios) == ratios[2] == 2.0
    assert ratios[0] == pytest.approx(21)


# blast --------------------------------------------------------------------------------------------
def hall(kind="rail_optimised", **more):
    return fl.topologies.build(kind, servers=8, gpus=2, rails=2, radix=8, **more)


def test_a_leaf_of_a_rail_takes_a_nic_of_each_of_its_servers():
    leaf = ops.blast_radius(hall(), "leaf")
    assert (leaf.n_parts, leaf.servers, leaf.alone, leaf.cut_off) == (4, 4, 4, 0)
    assert leaf.server_rate == 0.5
    spine = ops.blast_radius(hall(), "spine")
    assert (spine.servers, spine.alone, spine.server_rate) == (0, 0, 1.0)
    assert spine.bandwidth < 1


def test_two_ports_leave_nobody_alone():
    dual = ops.blast_radius(hall("dual_tor"), "leaf")
    assert dual.alone == 0 and dual.server_rate == 0.75
    assert dual.bandwidth == pytest.approx(0.5)  # the slowest NIC has one port of two
    plane = ops.blast_radius(hall("multi_plane", planes=4), "plane")
    assert (plane.n_parts, plane.alone, plane.servers) == (4, 0, 8)
    assert plane.server_rate == pytest.approx(0.75)


def test_a_rack_takes_its_servers():
    fabric = hall(expand=False)
    domains = ops.racks(fabric, 2)
    assert [nodes.size for nodes in domains.values()] == [4] * 4
    rack = ops.blast_radius(fabric, domains)
    assert (rack.kind, rack.servers, rack.alone, rack.server_rate) == ("domain", 2, 4, 0.0)
    with_leaves = ops.racks(fabric, 2, leaves=True)
    assert [nodes.size for nodes in with_leaves.values()] == [5] * 4
    assert ops.blast_radius(fabric, with_leaves).servers > 2


def test_a_cable_is_the_one_of_a_server():
    cable = ops.blast_radius(hall(), "cable")
    assert (cable.servers, cable.alone, cable.server_rate) == (1, 1, 0.5)
    table = ops.blast_table(hall(), ["leaf", "cable"])
    assert [row.kind for row in table] == ["leaf", "cable"]


def test_published_rates_of_parts():
    assert ops.events_per_year("cable", 1000) == pytest.approx(1000 * 0.00057 * 12)
    assert ops.events_per_year("leaf", 1000) == pytest.approx(1000 * 0.00051 * 12)
    assert ops.events_per_year("server", 5) is None


# refusals -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ops.fleet("lama3"), KeyError, "llama3"),
        (lambda: ops.components("rsc1"), KeyError, "counts by component"),
        (lambda: ops.fleet("llama3").mean_time(0), ValueError, "gpus must be >= 1"),
        (lambda: ops.poisson_interval(3, 95), ValueError, "such as 0.95"),
        (lambda: ops.fit_fleets(without="OPT"), TypeError, r"write \['OPT'\]"),
        (lambda: ops.fit_fleets(without=["opt"]), KeyError, "OPT"),
        (lambda: ops.fit_fleets(counts="failures of GPUs"), ValueError, "two fleets"),
        (lambda: job(mtbf=0), ValueError, "mtbf must be > 0 s"),
        (lambda: job(write="1 GB"), ValueError, "must be a time"),
        (lambda: job().goodput(0), ValueError, "interval must be finite and > 0 s"),
        (lambda: job().goodput(1e12), ValueError, "shorten the interval"),
        (lambda: job().within(1.0), ValueError, "a point of goodput is 0.01"),
        (lambda: job().scaled(0), ValueError, "factor must be > 0"),
        (lambda: ops.best_interval(36, 1), ValueError, "no checkpoint would ever be written"),
        (lambda: ops.young_interval(1, 0), ValueError, "mtbf must be > 0 s"),
        (lambda: ops.daly_interval(1, 10, order="second"), ValueError, "first, higher"),
        (lambda: ops.play_runs(job()), ValueError, "one of wall and work"),
        (lambda: ops.play_runs(job(), wall="1 d", work="1 d"), ValueError, "one of wall and work"),
        (lambda: ops.play_runs(job(), wall=0), ValueError, "wall must be > 0 s"),
        (lambda: ops.play_runs(job(), work=0), ValueError, "work must be > 0 s"),
        (
            lambda: ops.play_runs(ops.Checkpoints(0, 0, 0.05), 1, wall="1 d"),
            ValueError,
            "at most 1e",
        ),
        (lambda: ops.play_runs(job(mtbf="1 min"), "20 min", work="1 d"), ValueError, "shorter"),
        (lambda: ops.play_runs(job(), wall="1 d", repaired=2), ValueError, "within 0..1"),
        (lambda: ops.play_runs(job(), wall="1 d", spares=-1), ValueError, "spares must be >= 0"),
        (lambda: ops.play_runs(job(), wall="1 d", repair=ops.Repair(1, 2)), ValueError, "median"),
        (lambda: ops.play_runs(job(), wall="1 d", draws=1).error(), ValueError, "two draws"),
        (lambda: ops.spares_for(job(), share=95), ValueError, "such as 0.95"),
        (lambda: ops.Spikes(1, 1, 5), ValueError, "0.1 % is 0.001"),
        (lambda: ops.LogNormal(1, -1), ValueError, "sigma"),
        (lambda: ops.Observed([]), ValueError, "at least one"),
        (lambda: ops.Normal(0, 1).percentile_of_max(0.0, 3), ValueError, "p99 is 99"),
        (lambda: ops.Exponential(0, 1).exceeded(2), ValueError, "chance must be within 0..1"),
        (lambda: ops.Retries(0, 7), ValueError, "exponent must be within 1..31"),
        (lambda: ops.Retries(20, 8), ValueError, "count must be within 1..7"),
        (lambda: ops.flap(-1, job()), ValueError, "duration must be finite and >= 0 s"),
        (lambda: ops.flap(1, job(), path="ring"), ValueError, "one, ecmp, spray"),
        (lambda: ops.flap(1, job(), path="ecmp", paths=1), ValueError, "paths must be >= 2"),
        (lambda: ops.worst_ratio(0, 1), ValueError, "patience must be > 0 s"),
        (lambda: ops.blast_radius(hall(), "plane"), ValueError, "of which it has none"),
        (lambda: ops.blast_table(hall(), "leaf"), TypeError, "must list kinds"),
        (lambda: ops.events_per_year("leaf", -1), ValueError, "count must be >= 0"),
    ],
)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()
