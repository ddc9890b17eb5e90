"""What lessons 73 and 73b call right and wrong is so in the library and in published runs."""

import pytest

from fabriclab import catalog, live, training
from fabriclab.course.checks import check
from fabriclab.course.judges.lessons import lesson73
from fabriclab.course.questions import find
from fabriclab.physics import memory
from fabriclab.systems import system
from fabriclab.workload import models
from fabriclab.workload.layouts import Layout

LARGE = models.preset("Llama 3.1 405B")
INSIDE = training.SweepCosts(
    sweep=catalog.published.load("mi300x_1n"),
    other=training.Costs(system(gpu="MI300X", servers=2)),
)
ONE = training.serve(LARGE, Layout(tp=8), system(gpu="MI300X", servers=1), costs=INSIDE)
ONE = ONE.calibrated(training.two_boxes()[0].one)


def two(startup, busbw, **load):
    both = {"scale-up": busbw, "network": busbw}
    costs = training.LatencyCosts(
        latency={"scale-up": 0.0, "network": startup}, rate=both, domain=8
    )
    boxes = system(gpu="MI300X", servers=2)
    return training.serve(
        LARGE, Layout(tp=16), boxes, costs=costs, efficiency=ONE.efficiency, **load
    )


def test_any_right_form_of_the_time_of_a_token_is_right():
    assert check("73-write-token", lesson73.token_time).data["right"]
    other = check(
        "73-write-token",
        lambda weights, memory, kept, layers, latency: (
            weights / memory + kept / memory + layers * (latency + latency)
        ),
    )
    assert other.data["right"]


def test_the_formula_of_the_learner_is_the_model_without_its_details():
    costs = training.LatencyCosts(
        latency={"scale-up": 14e-6, "network": 14e-6},
        rate={"scale-up": 1e30, "network": 1e30},
        domain=8,
    )
    found = training.serve(
        LARGE, Layout(tp=8), system(gpu="MI300X", servers=1), costs=costs, efficiency=1 / 0.8
    )
    memory_rate = catalog.value("accelerators", "mi300x", "hbm_bandwidth")
    kept = LARGE.cache_bytes(1088) / 8
    plain = lesson73.token_time(LARGE.weight_bytes() / 8, memory_rate, kept, 126, 14e-6)
    assert found.token == pytest.approx(plain, rel=0.01)  # one table of tokens is not read


def test_waiting_and_cache_are_those_of_the_library():
    key = find("73-waiting").key({"l": 126, "t": "40 us"})
    costs = training.LatencyCosts(
        latency={"scale-up": 40e-6, "network": 0}, rate={"scale-up": 1e30, "network": 1}, domain=8
    )
    found = training.serve(LARGE, Layout(tp=8), system(gpu="MI300X", servers=1), costs=costs)
    assert found.parts["latency"] == pytest.approx(key) == pytest.approx(10.08e-3)
    cache_key = find("73-cache").key({"l": 80, "k": 8})
    assert models.preset("Llama 3 70B").cache_bytes(1) == cache_key


def test_efficiency_of_the_published_wirings():
    standard, _, best = training.two_boxes()
    ask = find("73-efficiency").key
    assert ask({"a": standard.one, "b": standard.two}) == pytest.approx(0.32, abs=0.005)
    assert ask({"a": best.one, "b": best.two}) == pytest.approx(0.58, abs=0.005)
    assert best.two / best.one > 1 > standard.two / standard.one


def test_the_client_reports_what_the_answer_says():
    found = two(155e-6, 25e9)
    key = find("73-completion").key({"f": f"{found.first} s", "t": f"{found.token} s", "n": 128})
    assert found.throughput == pytest.approx(key)


def test_the_first_test_is_the_one_that_explains_the_wirings():
    standard, _, best = training.two_boxes()
    # the bytes of 252 all-reduces explain next to nothing of the difference between the wirings
    by_bytes = two(60e-6, standard.busbw).token - two(60e-6, best.busbw).token
    by_startup = two(155e-6, best.busbw).token - two(60e-6, best.busbw).token
    assert by_bytes < 1e-3 < 20e-3 < by_startup
    # but the published times contain the prompt, of which the rate explains more
    by_prompt = two(0.0, standard.busbw).completion - two(0.0, best.busbw).completion
    assert by_prompt / 128 == pytest.approx(4.2e-3, rel=0.01)
    limit = training.tolerable_latency(two(0.0, best.busbw), ONE.each)
    assert two(0.99 * limit, best.busbw).each > ONE.each > two(1.01 * limit, best.busbw).each


def test_the_view_shows_the_numbers_of_the_model():
    pair = two(60e-6, 100e9)
    view = live.tokens({"one box": ONE, "two boxes": pair}, latency=155.0, batch=64)
    table = view.scene.table
    at = list(table["requests"]).index(64)
    assert table["one box [1/s]"][at] == pytest.approx(ONE.replace(batch=64).tokens_per_second)
    slow = two(155e-6, 100e9, batch=64)
    assert table["two boxes [1/s]"][at] == pytest.approx(slow.tokens_per_second)
    each = view.set(readers="each").scene.table
    assert each["two boxes [1/s]"][at] == pytest.approx(slow.each)
    with pytest.raises(ValueError, match="two servers"):
        live.tokens({"one box": ONE})


def test_questions_of_73b_are_those_of_the_library():
    model = models.preset("Llama 3 70B")
    sent = training.handover(model, 8192, "50 GB/s")
    key = find("73b-handover").key({"n": 8192, "b": "327.68 kB", "r": "50 GB/s"})
    assert sent.time == pytest.approx(key)
    far = find("73b-far").key({"w": "17.64 GB", "s": 0.1, "r": "64 GB/s", "m": "3.35 TB/s"})
    assert far == pytest.approx(max(0.1 * 17.64e9 / 64e9, 0.9 * 17.64e9 / 3.35e12))
    looked = find("73b-lookups").key({"n": 64, "t": "270 ns"})
    assert training.lookups_per_second(270e-9, 64, 64, 1e14) == pytest.approx(looked)


def test_a_pool_saves_less_if_hosts_peak_together():
    import numpy as np

    saved = []
    for together in (0.0, 0.3):
        rng = np.random.default_rng(73)
        wanted = training.demand_traces(rng, 16, 4000, requests=20, size=1e9, together=together)
        saved.append(1 - memory.bought(wanted, 16) / memory.bought(wanted, 1))
    assert saved[0] > saved[1] > 0
