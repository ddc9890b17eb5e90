"""What the questions and sentences of lessons 34 and 34b call right and wrong is so in the library."""

import json
import math
import re

import numpy as np
import pytest

import fabriclab as fl
from fabriclab import catalog, check, collectives, live, topologies, units
from fabriclab.catalog import published
from fabriclab.course.judges.lessons import lesson34, lesson34b
from fabriclab.course.questions import find
from fabriclab.engines import run
from fabriclab.routing import route
from support import ROOT

CASE = catalog.case()
TOKEN = 2 * CASE.hidden
LINKS = {"nic": CASE.nic_rate, "nvlink": CASE.nvlink_per_gpu}
CELLS = {
    cell["id"]: "".join(cell["source"])
    for name in ("34_all_to_all_and_skew", "34b_fewer_messages")
    for cell in json.loads((ROOT / f"notebooks/{name}.ipynb").read_text("utf-8"))["cells"]
}


def told(cell, function, **values):
    """Return what the function of a cell of the lesson draws, and its sentence."""
    names = {"np": np, "fl": fl, "coll": collectives, "case": CASE, "token": TOKEN, "rate": 50e9}
    exec(CELLS[cell].split("\nhands")[0].split("\nfl.live")[0], names)
    return names[function](**values)


@pytest.fixture(scope="module")
def rails():
    return topologies.build("rail_optimised", servers=8)


def timed(rails, tables, way="spray"):
    flows = collectives.expert_flows(rails, tables, TOKEN)
    return run(rails, route(rails, flows, way), flows).end


def dispatch(rails, popular, way="spray", copies=1):
    table = collectives.expected_tokens(64, 4096, popular=popular, copies=copies)
    return timed(rails, [table], way)


def test_steps_do_not_help_and_each_pays_its_latency(rails):
    even, block = collectives.expected_tokens(64, 4096), 64 * TOKEN / CASE.nic_rate
    for order, blocks in (("shifted", 63), ("swapped", 56)):
        end = timed(rails, collectives.in_steps(even, order))
        # Beyond the blocks: latency of each step, and the steps inside a server over NVLink.
        assert blocks * block < end < 1.08 * blocks * block and end > 1.05 * dispatch(rails, 1)
    assert dispatch(rails, 1) == pytest.approx(56 * block, rel=2e-3)
    worst = timed(rails, collectives.in_steps(even, "one target"))
    assert worst == pytest.approx(64 * 56 * block, rel=3e-3)


def test_two_copies_move_the_late_gpu_and_more_help(rails):
    fair = dispatch(rails, 1)
    found = [dispatch(rails, 2, copies=c) / fair for c in (1, 2, 4, 8)]
    shares = [64 / 65 * max(2 / c, 1 + 2 / c if c > 1 else 0) for c in (1, 2, 4, 8)]
    assert found == pytest.approx(shares, rel=1e-3)


def test_a_relay_at_the_target_takes_the_favourite_in_over_other_cards(rails):
    fair = dispatch(rails, 1)
    found = {way: dispatch(rails, 2, way) / fair for way in ("spray", "pxn", "rail_aligned")}
    assert found == pytest.approx({"spray": 1.968, "pxn": 1.968, "rail_aligned": 1.107}, abs=2e-3)
    assert found["spray"] == pytest.approx(find("34-skew").key({"e": 64}), rel=1e-3)


@pytest.mark.parametrize(("s", "g"), [(16, 4), (8, 8)])
def test_a_relay_divides_the_messages_as_the_answer_says(s, g):
    by_card = []
    for way in ("direct", "hierarchical"):
        plan = collectives.build(
            "all_to_all", way, s * g, **{"per_server": g} if way == "hierarchical" else {}
        )
        pairs = [set(zip(p.source.tolist(), p.target.tolist(), strict=True)) for p in plan.steps()]
        by_card.append(sum(a // g != b // g for step in pairs for a, b in step))
    assert by_card[0] / by_card[1] == find("34b-messages").key({"s": s, "g": g})


@pytest.mark.parametrize("latency", [1.0, 10.0, 50.0])
def test_the_sentence_names_the_tokens_from_which_one_copy_pays(latency):
    for choices in (8, 4):
        drawn, said = told("34-crossover", "forms", choices=choices, latency=latency)
        n = int(re.search(r"faster from (\d+) tokens", said)[1])
        low, high = drawn.values()
        gap = np.interp([(n - 1) * TOKEN, (n + 1) * TOKEN], low.size, low.time - high.time)
        assert gap[0] < 0 < gap[1]
    drawn, said = told("34-crossover", "forms", choices=2, latency=latency)
    low, high = drawn.values()
    assert "never" in said and np.all(high.time > low.time)


@pytest.mark.parametrize("ranks", [8, 64, 512])
def test_the_sentence_names_where_pairwise_overtakes_bruck(ranks):
    view = live.sweep(
        lambda ranks: told("34b-bruck", "times", ranks=ranks, latency=14.0),
        controls={"ranks": live.Choice((8, 64, 512))},
        ranks=ranks,
    )
    size = units.size(re.search(r"up to (\S+ [KMG]iB)\.", view.scene.said)[1])
    bruck, pairwise = (
        collectives.closed_form("all_to_all", way)(size, ranks, 14e-6, CASE.nic_rate)
        for way in ("bruck", "pairwise")
    )
    assert bruck == pytest.approx(pairwise, rel=0.01)
    mark = view.scene.layers["crossing"].fields["texts"][0]
    assert units.size(mark.split("near ")[1]) == pytest.approx(
        size, rel=0.05
    ) and view.scene.said in str(view)


def test_nvlink_makes_the_forecast_later_than_the_check():
    question, chosen = find("34-crossover"), collectives.choose_experts(64, 128, 8)
    pays, free = (
        collectives.expert_crossover(chosen, 7168, alpha=45e-6, **LINKS | more)
        for more in ({}, {"nvlink": 1e14})
    )
    assert 1.3 < pays / free < 1.6
    inside = collectives.expert_tables(chosen)[1].sum() / (64 * 128)
    # copies of a token that NVLink passes on, as the question says
    assert inside == pytest.approx(7, rel=0.01)
    slow = {"a": 45e-6, "b": 50e9, "c": 2, "s": 8e3, "v": LINKS["nvlink"]}
    counted = next(formula for name, formula, _ in question.wrong if name == "NVLink counted")
    assert fl.formulas.evaluate(counted, slow) > 1.3 * question.key({})


# Functions -----------------------------------------------------------------------------------------------------------


def fullest_by_loop(loads):
    most = total = 0
    for load in loads:
        most = max(most, load)
        total += load
    return most * len(loads) / total


def fullest_by_share(loads):
    shares = np.asarray(loads) / np.sum(loads)
    return shares.max() * len(shares)  # a number of numpy


@pytest.mark.parametrize("rule", [fullest_by_loop, fullest_by_share])
def test_a_right_ratio_is_right(rule):
    assert check("34-write-fullest", rule).data["right"]


def dropped_by_loop(loads, factor):
    capacity = math.ceil(factor * sum(loads) / len(loads))
    total = 0
    for load in loads:
        if load > capacity:
            total += load - capacity
    return int(total)


def dropped_by_kept(loads, factor):
    capacity = int(factor * np.mean(loads))
    return np.int64(np.sum(loads) - np.sum(np.minimum(loads, capacity)))


def dropped_in_place(loads, factor):
    loads -= factor * loads.mean()  # changes the learner's copy alone
    loads[loads < 0] = 0
    return loads.sum()


@pytest.mark.parametrize("rule", [dropped_by_loop, dropped_by_kept, dropped_in_place])
def test_a_right_number_of_dropped_tokens_is_right_however_the_capacity_is_rounded(rule):
    assert check("34-write-dropped", rule).data["right"]


def test_the_examples_on_capacity_come_out_as_the_lesson_says():
    hot = np.array([160.0, 80.0, 80.0, 80.0])
    assert lesson34.capacity(hot, 1.25) == 125 and lesson34.dropped(hot, 1.25) == 35
    assert lesson34.fullest(hot) == 1.6
    loads = np.array(lesson34.drawn(128, 8, 2.0))
    lost = lesson34.dropped(loads, 1.25)
    assert 100 * lost / loads.sum() == pytest.approx(0.934, abs=5e-4)
    # all of them wanted the hot expert
    assert 100 * lost / loads[0] == pytest.approx(32.3, abs=0.05)
    # a limit on each GPU by itself drops more, as the last column of the table says
    chosen = collectives.choose_experts(64, 128, 8, popular=2)
    by_gpu = [np.bincount(own.ravel(), minlength=64).astype(float) for own in chosen]
    alone = sum(lesson34.dropped(of, 1.25) for of in by_gpu)
    assert 100 * alone / loads.sum() == pytest.approx(2.48, abs=5e-3)
    assert lesson34.dropped(loads, 2.0) == 0 and lesson34.fullest(loads) == pytest.approx(
        1.85, abs=5e-3
    )


def test_a_fair_gate_is_more_skewed_with_few_tokens():
    found = [lesson34.fullest(np.array(lesson34.drawn(held, 8, 1.0))) for held in (8, 32, 128, 512)]
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(1.36, abs=5e-3) and found[-1] == pytest.approx(1.05, abs=5e-3)


def sending_by_slower_rate(messages, size, rate, posts):
    return np.float64(messages) / min(rate / size, posts)


def sending_one_by_one(messages, size, rate, posts):
    return messages * max(size / rate, 1 / posts)


@pytest.mark.parametrize("rule", [sending_by_slower_rate, sending_one_by_one])
def test_a_right_time_of_many_messages_is_right(rule):
    assert check("34b-write-sending", rule).data["right"]


def test_one_thread_feeds_a_nic_at_a_quarter_of_its_rate():
    count, size, rate, posts = next(iter(lesson34b.batches().values()))
    assert size == lesson34b.TOKEN == 7408
    ratio = lesson34b.seconds(count, size, rate, posts) / (count * size / rate)
    assert ratio == pytest.approx(3.97, abs=5e-3)
    key = find("34b-size").key({"b": rate, "p": posts / 1e6})
    # at that size both take equally long
    assert count * key / rate == pytest.approx(count / posts)


# Sentences -----------------------------------------------------------------------------------------------------------


def test_what_is_left_of_a_dispatch_of_deepep_is_between_the_ends_of_the_lesson():
    left, above = [], []
    for n in (16, 32, 64, 128, 256):
        took = catalog.value("measured", f"deepep-ll-{n}", "dispatch_latency")
        spread = collectives.bounds(
            "all_to_all", n, 128 * 8 * 7408, cuts=[(n // 8, 8 * CASE.nic_rate)]
        )[0].seconds
        chosen = collectives.choose_experts(n, 128, 8)
        tables = collectives.expert_tables(chosen, "low_latency")
        drawn = collectives.expert_time(tables, 7408, alpha=0.0, **LINKS)
        left.append(1e6 * (took - drawn))
        above.append(1e6 * (took - spread))
    assert 28 <= min(left) and max(left) <= 40 and max(above) == pytest.approx(50, abs=0.5)
    chosen = collectives.choose_experts(64, 128, 8)
    ends = [
        collectives.expert_crossover(chosen, 7408, alpha=a, nic=CASE.nic_rate, nvlink=nvlink)
        for a, nvlink in ((28e-6, 1e14), (50e-6, CASE.nvlink_per_gpu))
    ]
    assert ends == pytest.approx([71.5, 186.3], abs=0.1)


def test_published_all_to_alls_lie_in_or_near_the_bands_of_a_fit_that_has_not_seen_them():
    inside = []
    for name in ("xx_10n_g1_alltoall", "xx_10n_g2_alltoall", "sophia_n2_2.22.3_alltoall_env6"):
        sweep, about = published.load(name), published.system(name)
        near = np.argmin(abs(sweep.size - 4096 * TOKEN))
        told = fl.estimate(name, size=float(sweep.size[near]), without=about["system"])
        inside.append(told.low <= sweep.time[near] <= told.high)
        assert 0.98 * told.low < sweep.time[near] < told.high
        rate = about["nics_per_node"] * about["nic_gbps"] / 8 * 1e9
        ideal = collectives.bounds(
            "all_to_all", about["ranks"], told.size, cuts=[(about["nodes"], rate)]
        )[0].seconds
        assert 1.185 < sweep.time[near] / ideal < 1.265  # 19 to 26 % longer
    assert inside == [True, False, True]


def test_bruck_and_pairwise_tie_where_the_lesson_says():
    buffer = 57 * 14e-6 * CASE.nic_rate / 2.015625  # saved steps, over the buffers more
    times = [
        collectives.closed_form("all_to_all", name)(buffer, 64, 14e-6, CASE.nic_rate)
        for name in ("bruck", "pairwise")
    ]
    assert times[0] == pytest.approx(times[1], rel=1e-3)
    assert buffer == pytest.approx(19.8e6, rel=2e-3) and buffer / 2**20 == pytest.approx(
        19, abs=0.2
    )
