"""Models of failures and goodput beside published and independent figures; docs/failure_checks.md has the tables."""

import re
import time

import pytest

import fabriclab as fl
from fabriclab import operations as ops
from fabriclab.operations.rates import figure
from support import ROOT
from support.budgets import budget

PAGE = ROOT / "docs" / "failure_checks.md"
HOUR = 3600.0
SEVENTY = ops.Checkpoints.of_case(fl.case())
CAMPUS = ops.Checkpoints(60, 600, ops.fleet("llama3").published)
LARGE = SEVENTY.scaled(128)  # 131,072 GPUs

INTERVALS = {"best": 200, "twice": 200, "hour": 40}  # of a played run

# computed beside this project: C [s], M [h], Young, Daly and the best interval [s], goodput at the best and at Young's
GOODPUT = [
    (10, 1, 268.3, 261.7, 262, 0.7849, 0.7849),
    (10, 3.09, 471.7, 465.0, 465, 0.9079, 0.9079),
    (10, 24, 1314.5, 1307.9, 1308, 0.9780, 0.9780),
    (60, 1, 657.3, 617.9, 618, 0.7012, 0.7010),
    (60, 3.09, 1155.4, 1115.7, 1116, 0.8525, 0.8524),
    (60, 24, 3219.9, 3180.1, 3180, 0.9565, 0.9565),
    (300, 1, 1469.7, 1276.5, 1277, 0.5462, 0.5443),
    (300, 3.09, 2583.5, 2387.4, 2387, 0.7441, 0.7436),
    (300, 24, 7200.0, 7001.4, 7001, 0.9126, 0.9126),
]


# goodput ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", GOODPUT, ids=lambda row: f"C{row[0]}-M{row[1]}")
def test_nine_intervals_that_others_computed(row):
    write, hours, young, daly, best, at_best, at_young = row
    plan = ops.Checkpoints(write, 600, hours * HOUR)
    assert plan.young == pytest.approx(young, abs=0.06)
    assert plan.daly == pytest.approx(daly, abs=0.06)
    assert plan.best == pytest.approx(best, abs=0.75)
    assert plan.goodput(plan.best) == pytest.approx(at_best, abs=6e-5)
    assert plan.goodput(plan.young) == pytest.approx(at_young, abs=6e-5)
    assert plan.daly == pytest.approx(plan.best, rel=0.01)


def test_the_running_case_and_the_same_job_on_131072_gpus():
    assert SEVENTY.best / 60 == pytest.approx(76.4, abs=0.05)
    assert SEVENTY.young / 60 == pytest.approx(77.06, abs=0.01)
    assert 100 * SEVENTY.goodput(SEVENTY.best) == pytest.approx(97.1, abs=0.05)
    assert 100 * SEVENTY.goodput(2 * SEVENTY.best) == pytest.approx(96.5, abs=0.05)
    lost = SEVENTY.goodput(SEVENTY.best) - SEVENTY.goodput(2 * SEVENTY.best)
    assert 100 * lost == pytest.approx(0.6, abs=0.05)
    assert 100 * LARGE.goodput(LARGE.best) == pytest.approx(48, abs=0.5)
    assert LARGE.best / 60 == pytest.approx(6.2, abs=0.05)
    assert 100 * LARGE.replace(restart=60).goodput(LARGE.best) == pytest.approx(70, abs=0.5)


@pytest.mark.parametrize(
    "plan",
    [
        SEVENTY,
        CAMPUS,
        LARGE,
        LARGE.replace(restart=60),
        ops.Checkpoints(300, 600, HOUR),
    ],
    ids=["Seventy", "16384", "131072", "131072-quick", "C300-M1h"],
)
@pytest.mark.parametrize("interval", INTERVALS)
def test_the_exact_formula_is_within_three_standard_errors_of_played_runs(plan, interval):
    spacing = {"best": plan.best, "twice": 2 * plan.best, "hour": HOUR}[interval]
    work = INTERVALS[interval] * spacing
    runs = ops.play_runs(plan, spacing, work=work, draws=2000, seed=0)
    assert abs(runs.wall.mean() - plan.wall_time(work, spacing)) < 3 * runs.error()
    assert abs(runs.failures.mean() - plan.failures(work, spacing)) < 3 * runs.error("failures")
    spent = plan.spent(spacing)
    for column in ("lost", "restart"):
        share = getattr(runs, column).mean() / runs.wall.mean()
        assert share == pytest.approx(float(getattr(spent, column)), rel=0.08)


def test_a_published_worked_example():
    seconds = ops.daly_interval(10, 6000, 600, order="first") + 10  # sqrt(2 C (M + R))
    assert seconds / 15 == pytest.approx(24.2, abs=0.05)


def test_effective_time_of_rsc_and_of_llama():
    nodes = ops.fleet("rsc1-nodes")
    assert figure("FA0069")["value"] == "0.9"
    for gpus, low, high in ((2048, 0.94, 0.96), (4096, 0.89, 0.92)):
        mtbf = float(nodes.mean_time(gpus))
        slow, quick = (
            float(ops.Checkpoints(0, minutes * 60, mtbf).goodput(HOUR)) for minutes in (20, 5)
        )
        assert (round(slow, 2), round(quick, 2)) == (low, high)
    for write, restart, share in ((10, 600, 90.8), (60, 600, 85.3), (10, 120, 94.8)):
        plan = CAMPUS.replace(write=write, restart=restart)
        assert 100 * plan.goodput(plan.best) == pytest.approx(share, abs=0.05)


def test_spares_of_a_90_day_run():
    found = []
    for spares in (0, 20, 30, 40, 50, 60):
        runs = ops.play_runs(CAMPUS, wall="90 d", spares=spares, draws=200, seed=0)
        found.append(100 * runs.goodput.mean())
    assert found == pytest.approx([2.8, 55, 74, 84, 85.2, 85.2], abs=0.5)
    assert 100 * CAMPUS.goodput(CAMPUS.best) == pytest.approx(85.3, abs=0.05)
    assert ops.spares_for(CAMPUS) == 55 and 55 / 2048 < 0.05


@pytest.mark.alone
def test_a_run_of_90_days_is_played_in_two_seconds():
    """The must, for 16,384 GPUs: here with 60 spares and 1,000 draws at once."""
    start = time.process_time()
    runs = ops.play_runs(CAMPUS, wall="90 d", spares=60, draws=1000, seed=0)
    assert time.process_time() - start < budget(2)
    assert runs.failures.mean() == pytest.approx(90 * 24 / 3.093, rel=0.01)


# fleets -------------------------------------------------------------------------------------------
def test_within_one_fleet_the_size_explains_the_time():
    few, many, nodes = (ops.fleet(key) for key in ("rsc1-8", "rsc1-1024", "rsc1-nodes"))
    assert few.mean_time(1024) / many.published - 1 == pytest.approx(0.13, abs=0.005)
    for row_id in ("FA0066", "FA0067"):  # what the study projects from its rate of nodes
        row = figure(row_id)
        hours = float(nodes.mean_time(float(row["gpus"]))) / HOUR
        assert hours == pytest.approx(float(row["value"]), rel=0.025)
    assert nodes.mean_time(1024) / many.published == pytest.approx(3.65, abs=0.01)


def test_published_figures_agree_with_their_own_counts():
    llama = ops.fleet("llama3")
    assert llama.published == pytest.approx(54 * 24 * HOUR / 419, rel=1e-3)
    assert ops.fleet("lablup").per_1000_node_days == pytest.approx(1e3 * 10 / 63 / 55, rel=2e-3)
    # of two that do not, the page tells
    assert 54 * 24 / 466 == pytest.approx(2.78, abs=0.005)
    assert figure("FA0093")["value"] == "2.5"
    assert 148 / 419 == pytest.approx(0.353, abs=5e-4) and figure("FA0043")["share_pct"] == "30.1"


def test_llama_predicted_from_others():
    errors = {row.source.key: round(100 * row.error) for row in ops.transfer("llama3")}
    assert errors == {
        "rsc1-8": 453,
        "rsc1-1024": 526,
        "rsc1-nodes": 72,
        "opt": 570,
        "infinitehbd": 10,
        "infinitehbd-hardware": -44,
        "lablup": -24,
    }
    # the sum is right and its parts are not: six of seven lie outside of what counting allows
    outside = [r for r in ops.transfer_components() if not r.low <= r.published <= r.high]
    assert [row.part for row in outside] == [
        "gpu",
        "nic",
        "host",
        "software",
        "maintenance",
        "other",
    ]
    fit = ops.fit_fleets(without=["Llama 3"])
    assert float(fit.mean_time(16384)) / HOUR == pytest.approx(1.55, abs=0.005)


def test_seven_of_eight_rows_lie_within_the_band():
    rows = ops.held_out()
    assert [row.fleet.key for row in rows if not row.inside] == ["opt"]
    for row in rows:
        assert 4 < row.high / row.model < 8


def test_a_sixth_fleet_that_no_fit_has_seen():
    row = figure("FA0120")
    assert row["system"] == "RSC-2" and "RSC-2" not in {one.fleet for one in ops.fleets()}
    published = 1000 * 24 / float(row["value"])  # of a node of 8 GPUs [h]
    fit = ops.fit_fleets()
    model = float(fit.mean_time(8)) / HOUR
    low, high = (float(end) / HOUR for end in fit.band(8))
    assert len(fit.fleets) == 5 and low < published < high
    sister = float(ops.fleet("rsc1-nodes").mean_time(8)) / HOUR
    assert 100 * (sister / published - 1) == pytest.approx(-64, abs=0.5)
    line = next(line for line in cells("RSC-2, nodes of 8 A100") if len(line) == 9)
    assert numbers(line[3]) == [pytest.approx(published, rel=5e-5)]
    assert numbers(line[4]) == [pytest.approx(model, rel=5e-4)]
    assert numbers(line[5]) == [pytest.approx(100 * (model / published - 1), abs=0.51)]
    assert numbers(line[6]) == pytest.approx([low, high], rel=2e-3)
    assert line[7:] == ["yes", row["confidence"]]

    run = ops.fleet("llama3")
    rate = 1 / (published * HOUR * 8)  # of a GPU [1/s]
    predicted = 419 * rate / run.rate
    assert predicted == pytest.approx(259, abs=0.5)
    assert 100 * (predicted / 419 - 1) == pytest.approx(-38, abs=0.5)
    assert 100 * (predicted / 324 - 1) == pytest.approx(-20, abs=0.5)

    need = figure("FA0078")  # at a failure rate like that of RSC-2
    assert (need["gpus"], need["value"], need["unit"]) == ("100000", "2", "min")
    mtbf = 1 / (1e5 * rate)
    assert float(ops.Checkpoints(0, 120, mtbf).goodput(120)) == pytest.approx(0.94, abs=0.005)
    assert float(ops.Checkpoints(0, 3.4 * 60, mtbf).goodput(3.4 * 60)) == pytest.approx(
        0.9, abs=0.005
    )


def test_links_of_a_third_fleet():
    months = 54 / (365.25 / 12)
    in_a_month = ops.events_per_year("cable", 16384) / 12
    assert in_a_month * months == pytest.approx(17, abs=0.5)
    links = [crashes / (ops.events_per_year("cable", 10**6) / 12 / 1e6) for crashes in (1, 2)]
    assert links == pytest.approx([1754, 3509], abs=1)


# flaps: the table of the NCCL guide ----------------------------------------------------------------
@pytest.mark.parametrize(
    ("exponent", "seconds"),
    [
        (17, 3.8),
        (18, 7.5),
        (19, 15),
        (20, 30),
        (21, 60),
        (22, 120),
        (23, 240),
        (24, 480),
        (25, 960),
    ],
)
def test_time_before_an_error_as_the_guide_has_it(exponent, seconds):
    assert ops.Retries(exponent, 7).total == pytest.approx(seconds, rel=0.012)  # two digits
    before, after = ops.flap(
        [0.98 * seconds, 1.02 * seconds], SEVENTY, retries=ops.Retries(exponent, 7)
    ).crashes
    assert not before and after


# the page -----------------------------------------------------------------------------------------
def cells(first):
    """Return the cells of the rows of the page that begin with a cell, as numbers where they are some."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        row = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and row[0] == first:
            found.append(row)
    return found


def numbers(cell):
    """Return the numbers of a cell."""
    return [float(text) for text in re.findall(r"[-+]?\d+\.?\d*", cell.replace(",", ""))]


def test_the_page_has_every_fleet_with_its_numbers():
    for row in ops.held_out():
        held = next(line for line in cells(row.fleet.name) if len(line) == 9)
        assert held[1] == row.fleet.counts
        assert numbers(held[2]) == [round(row.fleet.gpus)]
        assert numbers(held[3]) == [pytest.approx(row.fleet.published / HOUR, rel=5e-3)]
        assert numbers(held[4]) == [pytest.approx(row.model / HOUR, rel=5e-3)]
        assert numbers(held[5]) == [pytest.approx(100 * row.error, abs=0.51)]
        ends = [row.low / HOUR, row.high / HOUR]
        assert numbers(held[6]) == pytest.approx(ends, rel=6e-3)
        assert held[7] == ("yes" if row.inside else "no")
        assert held[8] == row.fleet.confidence
    for row in ops.transfer("llama3"):
        line = next(line for line in cells(row.source.name) if len(line) == 7)
        assert line[1] == row.source.counts
        assert numbers(line[2]) == [round(row.predicted)]
        assert numbers(line[3]) == [pytest.approx(row.mean_time / HOUR, abs=0.0051)]
        assert numbers(line[4]) == [pytest.approx(100 * row.error, abs=0.51)]
        assert numbers(line[5]) == [row.like]
        assert numbers(line[6]) == [pytest.approx(100 * row.like_error, abs=0.51)]
    for row in ops.transfer_components():
        line = cells(row.part)[0]
        assert numbers(line[1]) == [round(row.predicted)]
        assert numbers(line[2]) == [row.low, row.high]
        assert numbers(line[3]) == [row.published]
        assert numbers(line[4]) == [pytest.approx(100 * row.error, abs=0.51)]
