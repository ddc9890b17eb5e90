"""What the questions of lesson 00 and of the lesson on traffic call right and wrong is so in the library."""

import statistics

import numpy as np
import pytest

from fabriclab import case, collectives, estimate, simulate, system, topologies
from fabriclab.course.checks import check
from fabriclab.course.judges.lessons import lesson00
from fabriclab.course.questions import find
from fabriclab.formulas import evaluate
from fabriclab.texts import text

RIGHT = {
    "NumPy's median": lambda size, times: size / np.median(times),
    "statistics": lambda size, times: size / statistics.median(times.tolist()),
    "sorted": lambda size, times: size / sorted(times)[len(times) // 2],
    "the lower of two": lambda size, times: size / sorted(times)[(len(times) - 1) // 2],
    "median of rates": lambda size, times: np.median(size / times),
    "sorts in place": lambda size, times: (times.sort(), size / times[len(times) // 2])[1],
}


@pytest.mark.parametrize("rule", RIGHT.values(), ids=RIGHT)
def test_every_median_is_right(rule):
    assert check("00-write-rate", rule).data["right"]


@pytest.mark.parametrize("name", lesson00.RATE_MISTAKES)
def test_a_known_mistake_is_shown_with_both_rates(name):
    rule = lesson00.RATE_MISTAKES[name]
    shown = check("00-write-rate", rule)
    wrong = [
        (rule(size, np.array(rounds)), size / np.median(rounds)) for size, rounds in lesson00.ROUNDS
    ]
    assert any(
        f"{got:.4g} B/s" in str(shown) and f"{right:.4g} is right" in str(shown)
        for got, right in wrong
    )


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda size, times: None, "got None"),
        (lambda size, times: True, "got True"),
        (lambda size, times: size / times, "must return one number"),
        (lambda size, times: float("nan"), "got nan"),
        (lambda size, times: "9 GB/s", "must return one number"),
        (lambda size: 1.0, "TypeError"),
        (lambda size, times: size / 0, "ZeroDivisionError"),
    ],
)
def test_what_is_no_rate_is_not_counted(rule, words):
    shown = check("00-write-rate", rule)
    assert not shown.data["counted"] and words in str(shown)
    assert text("check.uncounted") in str(shown)


@pytest.mark.parametrize("n", [4, 8, 16, 128])
def test_a_ring_has_the_steps_that_the_question_says(n):
    question = find("00-ring-steps")
    steps = collectives.build("all_reduce", "ring", n).n_steps
    given = {"n": str(n)}
    assert question.key(given) == steps
    assert all(
        evaluate(wrong.formula, question.fill(given)[0]) != steps or n == 4
        for wrong in question.wrong
    )


def test_the_race_is_won_by_the_number_of_ranks():
    """One port carries 254 lists where each port of the ring carries 254/128."""
    job = case()
    cluster = topologies.build("rail_optimised")
    groups = collectives.rail_groups(cluster)
    root, ring = (
        simulate("all_reduce", name, cluster, job.dp_gradients, placement=groups).time
        for name in ("one_root", "ring")
    )
    one_list = job.dp_gradients / job.nic_rate
    assert root == pytest.approx(254 * one_list, rel=1e-3)
    assert ring == pytest.approx(254 / 128 * one_list, rel=1e-3)
    assert root / ring == pytest.approx(128, rel=1e-3)


def test_the_cluster_has_the_switches_that_the_lesson_counts():
    cluster = topologies.build("rail_optimised")
    counts = {kind: cluster.nodes(kind).size for kind in ("gpu", "nic", "leaf", "spine")}
    assert counts == {"gpu": 1024, "nic": 1024, "leaf": 32, "spine": 16}
    uplinks = np.isin(cluster.source, cluster.nodes("leaf")) & np.isin(
        cluster.target, cluster.nodes("spine")
    )
    assert uplinks.sum() == 32 * 32 == 64 * 16


@pytest.mark.parametrize("rate", ["50 Gb/s", "40 Gb/s"])
def test_gpus_wait_for_what_is_not_overlapped(rate):
    job = case().replace(nic_rate=rate)
    assert find("00b-waiting").key({"r": rate}) == pytest.approx(job.t_dp - job.window, rel=1e-6)


@pytest.mark.parametrize(
    ("servers", "way", "ms", "its_ring", "plain"),
    [(128, "Ring/LL128", 12.1, 14.1, 12.3), (512, "Tree/LL128", 13.2, 29.2, 23.1)],
)
def test_nccl_gains_by_its_own_table_what_the_lesson_on_traffic_says(
    servers, way, ms, its_ring, plain
):
    job = case()
    layer = job.dp_gradients / job.layers
    told = estimate(system(gpu="H100", servers=servers, gpus=1, nics=1), "all_reduce", layer)
    assert min(told.expected, key=told.expected.get) == way
    assert 1e3 * told.expected[way] == pytest.approx(ms, abs=0.05)
    assert 1e3 * told.expected["Ring/Simple"] == pytest.approx(its_ring, abs=0.05)
    ring = collectives.closed_form("all_reduce", "ring")
    by_ring = float(ring(layer, servers, job.ring_step_latency, job.nic_rate))
    assert 1e3 * by_ring == pytest.approx(plain, abs=0.05)
