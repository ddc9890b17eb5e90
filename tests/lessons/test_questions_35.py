"""What the questions and views of lessons 35 to 35c call right and wrong is so in the library and in sweeps."""

import json
import re

import numpy as np
import pytest

from fabriclab import (
    catalog,
    collectives,
    engines,
    estimate,
    live,
    routing,
    simulate,
    system,
    topologies,
    workload,
)
from fabriclab.catalog import published
from fabriclab.course.checks import check
from fabriclab.course.judges.lessons import lesson35, lesson35b
from fabriclab.course.questions import find
from support.prose import sentence

CASE = catalog.case()
START = CASE.ring_step_latency
RAIL = system(gpu="H100", servers=128, gpus=1, nics=1)
NUMBERS = range(1, 100)


def by(way, start=START, ranks=128):
    form = collectives.closed_form("all_reduce", way)
    return lambda b: form(b, ranks, start, CASE.nic_rate)


def waits(n, cost, **more):
    """Return how long the next forward pass waits for n equal buckets of the case."""
    forward, one = (CASE.t_compute + CASE.t_tp) / CASE.microbatches - CASE.window, np.full(n, 1 / n)
    step = workload.build(
        "data_parallel", forward * one, CASE.window * one, CASE.dp_gradients * one, cost, **more
    )
    lanes, sums = workload.streams(step), workload.labelled(step, "all-reduce")
    timeline = engines.run(lanes, routing.route(lanes, step), step, "ideal")
    return workload.exposed(timeline, step, ~sums, sums)


def told(view, **values):
    """Return the number of buckets and the waiting that an overlap view tells."""
    said = view.set(**values).scene.said
    return int(re.search(r"for ([\d,]+) bucket", said)[1].replace(",", "")), float(
        re.search(r"waits ([\d.]+) s", said)[1]
    )


@pytest.mark.parametrize("n", [1, 14, 80, 706])
@pytest.mark.parametrize("start", [0.0, 2.7e-6, 14e-6])
def test_the_waiting_is_that_of_the_case(n, start):
    assert waits(n, by("ring", start)) == pytest.approx(
        CASE.exposed(buckets=n, step_latency=start), rel=1e-9
    )


def test_the_numbers_of_the_experiment():
    found = [waits(n, by("ring")) for n in (1, 14, 706)]
    assert found == pytest.approx([0.70, 0.07, 2.48], abs=0.005)
    assert waits(706, by("halving_doubling")) == pytest.approx(0.11, abs=0.005)
    # idle though the sum is the shorter one
    assert waits(80, by("ring", 0.0)) > 0 < CASE.window - CASE.t_dp


def test_starts_of_all_buckets():
    key = find("35-startup").key({})
    one, more = (706 * by("ring", start)(25e6) for start in (0.0, 14e-6))
    assert more - one == pytest.approx(key)
    assert waits(706, by("ring")) - waits(706, by("ring", 0.0)) == pytest.approx(key, rel=0.02)


def test_small_buckets_wait_for_their_starts_and_for_nothing_else():
    assert 706 * by("ring", 0.0)(CASE.dp_gradients / 706) == pytest.approx(
        by("ring", 0.0)(CASE.dp_gradients)
    )
    # without starts all but the last is hidden
    assert waits(706, by("ring", 0.0)) == pytest.approx(CASE.t_dp / 706)


@pytest.mark.parametrize("start", ["14 us", "10 us", "20 us"])
def test_the_best_number_of_buckets(start):
    question = find("35-best")
    key, cost = question.key({"l": start}), by("ring", float(start.split()[0]) * 1e-6)
    best = min(NUMBERS, key=lambda n: waits(n, cost))
    assert abs(best / key - 1) < question.tolerance
    # what the wrong answers name
    assert waits(best, cost) < min(waits(n, cost) for n in (1, 80, 205)) / 2


def test_the_view_of_an_overlap_shows_the_best_bucket():
    view = live.overlap()
    assert told(view) == (1, pytest.approx(0.704)) and told(view, bucket=25) == (
        706,
        pytest.approx(2.48),
    )
    # One bucket is the view as it opens: its slider ends at 17.6 GB.
    sizes = [CASE.dp_gradients / 1e6 / n for n in range(2, 40)]
    seen = [told(view), *(told(view, bucket=size) for size in sizes)]
    lowest = [n for n, waiting in seen if waiting == min(w for _, w in seen)]  # to a millisecond
    assert min(NUMBERS, key=lambda n: waits(n, by("ring"))) in lowest
    assert all(abs(n / find("35-best").key({}) - 1) < find("35-best").tolerance for n in lowest)


def test_what_waits_in_an_overlap_is_drawn_as_long_as_the_waiting():
    for bucket, priority, expected in (
        (1260, False, waits(14, by("ring"))),
        (220, True, waits(80, by("ring"), priority=True)),
    ):
        scene = live.overlap(bucket=bucket, priority=priority).scene
        bars, table = scene.layers["0 bars"].fields, scene.table
        kind, ends = np.array(table["what"]), bars["x"] + bars["w"]
        scale = (ends.max() - bars["x"].min()) / table["finish [s]"].max()
        drawn = scene.layers["0 waits"].fields
        assert drawn["w"].sum() == pytest.approx(expected * scale, abs=1.5)
        backward = table["finish [s]"][kind == "backward"].max()
        assert drawn["x"][0] == pytest.approx(bars["x"].min() + backward * scale, abs=0.05)
        assert f"{expected:.3f}" in scene.layers["0 length"].fields["texts"][0]
        again = scene.layers["part 0 waits"].fields
        seen = min(expected * scale * 10, (536 - 112) * 2 / 3)
        assert again["w"].sum() == pytest.approx(seen, abs=1.5)


def test_no_more_than_the_window_is_hidden():
    for given in ({}, {"t": "1100 ms", "w": "600 ms"}):
        t, w = (
            float(given.get(k, d).split()[0]) / 1e3
            for k, d in (("t", "900 ms"), ("w", f"{CASE.window * 1e3} ms"))
        )
        key = find("35-exposed").key(given)
        assert key == pytest.approx(t - w)
        for n in (1, 14, 706):  # the bound of the answer, and how near many buckets come
            assert CASE.exposed(buckets=n, t_dp=t, window=w) >= key
        assert CASE.exposed(buckets=10_000, t_dp=t, window=w) == pytest.approx(key, rel=2e-3)


def test_a_sum_overlaps_with_all_but_its_own_next_forward():
    n, one = 4, np.ones(4)
    step = workload.build("data_parallel", one, one, one * 1e6, lambda b: b / 1e6, priority=True)
    lanes = workload.streams(step)
    t = workload.spans(engines.run(lanes, routing.route(lanes, step), step), step)
    back, sums, ahead = (
        np.flatnonzero(workload.labelled(step, k)) for k in ("backward", "all-reduce", "forward")
    )

    def overlaps(a, b):
        return t.start[a] < t.finish[b] - 1e-9 and t.start[b] < t.finish[a] - 1e-9

    # Sums and backward passes stand from the last layer to the first, forward passes the other way round.
    assert not any(overlaps(sums[n - 1 - i], ahead[i]) for i in range(n))
    assert any(overlaps(s, b) for s in sums for b in back)
    late = waits(80, by("ring")), waits(80, by("ring"), priority=True)
    # the rest goes on under other forward passes
    assert late == pytest.approx((0.263, 0.018), abs=5e-4)
    # the sum of layer 1, and the rest of the one that runs
    assert 1 < late[1] / by("ring")(CASE.dp_gradients / 80) < 2
    # no queue, no order to choose
    assert waits(14, by("ring"), priority=True) == pytest.approx(waits(14, by("ring")))
    sums = 160 * by("ring")(CASE.dp_gradients / 160)
    assert sums > (CASE.t_compute + CASE.t_tp) / CASE.microbatches  # both passes together
    assert waits(160, by("ring"), priority=True) > 5 * late[1]


@pytest.mark.parametrize(("n", "d"), [(16, 42e-6), (128, 14e-6), (8, 42e-6)])
def test_every_delay_of_a_slow_card_is_paid_by_the_ring(n, d):
    star = topologies.build("crossbar", hosts=n, rate=CASE.nic_rate)
    run = simulate("all_reduce", "ring", star, "1 MB", lag=START, expand=True, engine="ideal")
    slow = workload.slowed(run.flows, [star.endpoint[n // 2]], factor=1 + d / START)
    late = engines.run(star, run.routes, slow, "ideal").end - run.time
    assert late == pytest.approx(find("35-straggler").key({"n": n, "d": f"{d * 1e6:g} us"}))


def test_one_slow_card_in_the_step():
    assert waits(14, by("ring", 4 * START)) == pytest.approx(0.22, abs=0.005)


@pytest.mark.parametrize(("rank", "tree"), [(3, 1.0), (0, 2.46), (32, 2.46)])
def test_which_slow_cable_a_tree_hides(rank, tree):
    star = topologies.build("crossbar", hosts=64, rate=CASE.nic_rate)
    narrow = star.with_capacity(
        np.flatnonzero(star.source == star.endpoint[rank]), CASE.nic_rate / 4
    )
    quiet, late = {}, {}
    for way in ("ring", "binomial_tree", "halving_doubling"):
        run = simulate("all_reduce", way, star, "24 MiB", lag=START, expand=True, engine="ideal")
        quiet[way], late[way] = run.time, engines.run(narrow, run.routes, run.flows, "ideal").end
    assert late["binomial_tree"] / quiet["binomial_tree"] == pytest.approx(tree, abs=0.005)
    assert (
        max(quiet, key=quiet.get) == "binomial_tree"
        and min(late, key=late.get) == "halving_doubling"
    )
    assert max(late, key=lambda way: late[way] / quiet[way]) == "halving_doubling"


def test_a_trace_of_a_profiler_has_lanes_that_do_not_compute(tmp_path):
    lanes = {
        "thread 9 (python)": [("ProfilerStep#3", 0, 300), ("c10d::allreduce_", 20, 5)],
        "stream 7": [("ProfilerStep#3", 10, 280), ("gemm", 10, 100), ("gemm", 150, 100)],
        "stream 20": [("ncclDevKernel_AllReduce", 60, 90)],
    }
    events = [
        {"name": "thread_name", "ph": "M", "tid": i, "args": {"name": name}}
        for i, name in enumerate(lanes)
    ]
    events += [
        {"name": name, "ph": "X", "tid": i, "ts": ts, "dur": dur}
        for i, rows in enumerate(lanes.values())
        for name, ts, dur in rows
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events), encoding="utf-8")
    fabric, flows, t = workload.read_trace(path)
    own = [i for i in range(fabric.n_nodes) if fabric.name(i).startswith("stream")]
    gpu = np.isin(flows.source, own) & ~workload.labelled(flows, "ProfilerStep|Optimizer")
    talk = workload.labelled(flows, "all-reduce|nccl")
    assert workload.exposed(t, flows, gpu & ~talk, gpu & talk) == pytest.approx(40e-6)
    assert workload.exposed(t, flows, ~talk, talk) == 0  # what the lesson warns of


def test_which_rank_hurts_a_tree_most():
    view, ends = live.straggler(way="binomial_tree"), {}
    for rank in range(16):
        ends[rank] = view.set(rank=rank, slow=4).scene.table["finish [s]"].max()
    assert ends[8] == pytest.approx(max(ends.values())) and ends[0] == pytest.approx(ends[8])
    assert (
        all(ends[rank] < ends[8] - 1e-4 for rank in (7, 15))
        and len({round(e, 9) for e in ends.values()}) > 5
    )
    healthy = view.set(rank=8, slow=1).scene.table["finish [s]"].max()
    late = {rank: ends[rank] - healthy for rank in (1, 8, 15)}  # as the lesson says
    assert late[1] == pytest.approx(0, abs=1e-9)
    assert late[15] == pytest.approx(3 * START) and late[8] == pytest.approx(4 * 3 * START)


def test_a_slow_cable_and_a_healthy_rank():
    card, link = (
        live.straggler(what=what, ranks=4, rank=1, slow=1).scene.table for what in ("nic", "link")
    )
    assert np.all(card["late [s]"] == 0) and np.all(link["late [s]"] < 1e-12)
    said = live.straggler(what="link", rank=8).scene.said
    for end, now in ((458e-6, 570e-6), (272e-6, 512e-6)):  # the tree loses more
        assert sentence("live.straggler.one", end=end, now=now).search(said)
    slow = live.straggler("8 MB", 4, what="link", rank=1, slow=4).scene.table
    # Each of the 6 steps takes its start and a chunk of 2 MB at a quarter of the rate.
    assert slow["finish [s]"].max() == pytest.approx(6 * (START + 2e6 / (CASE.nic_rate / 4)))
    refused = [({"what": "cable"}, "what must be one of nic, link, got 'cable'")]
    for wrong, words in refused + [
        ({"ranks": n}, rf"ranks must be within 2\.\.16, got {n}") for n in (1, 17)
    ]:
        with pytest.raises(ValueError, match=words):
            live.straggler(**wrong)


def test_25_mb_wait_longest_with_every_sum():
    seen = published.load("alps_N032_ofi1.13.0")
    costs = [
        by("ring"),
        by("halving_doubling"),
        lambda b: np.full(b.size, estimate(RAIL, "all_reduce", b[0]).time),
        lambda b: np.interp(b, seen.size, seen.time),
    ]
    table = np.array([[waits(n, cost) for cost in costs] for n in (706, 69, 8)])
    assert seen.n_ranks == 128 and CASE.dp_gradients / 8 < seen.size[-1]
    assert np.all(table[0] > table[1:]) and table[0] == pytest.approx(
        [2.48, 0.108, 0.58, 0.488], abs=5e-3
    )
    # the best one differs
    assert table[1].argmin() == 1 and table[1, 3] < table[2, 3] and table[1, 0] > table[2, 0]
    assert min(waits(n, costs[3]) for n in (80, 100, 160, 320)) == pytest.approx(4.5e-3, abs=5e-5)
    at = np.interp(CASE.dp_gradients / 8, seen.size, seen.time)
    # Alps wins by its rate: four cards of 200 Gb/s
    assert at < 0.55 * by("ring")(CASE.dp_gradients / 8)
    chosen = [estimate(RAIL, "all_reduce", size) for size in (25e6, 2.2e9)]
    assert [(e.algorithm, e.protocol) for e in chosen] == [("Tree", "LL128"), ("Ring", "Simple")]
    assert chosen[1].time > by("ring")(2.2e9) and "plan of the NIC binds" in repr(chosen[1])


# Functions -----------------------------------------------------------------------------------------------------------


def by_loop(ready, send):
    free = 0
    for full, takes in zip(ready, send, strict=True):
        free = max(free, full) + takes
    return free - ready[-1]


def by_arrays(ready, send):
    through = np.cumsum(send)
    return np.maximum.accumulate(ready - (through - send))[-1] + through[-1] - ready[-1]


def by_ends(ready, send):
    """Try each bucket as the first of the queue at the end."""
    return max(full + sum(send[i:]) for i, full in enumerate(ready)) - max(ready)


def rounded(ready, send):
    return round(float(by_loop(ready, send)), 9)


@pytest.mark.parametrize("answer", [by_loop, by_arrays, by_ends, rounded])
def test_a_right_wait_for_buckets_is_right(answer):
    assert check("35-write-exposed", answer).data["right"]


def test_a_function_that_changes_what_it_is_given_is_not_counted():
    def changes(ready, send):
        ready += send
        return 1.0

    assert not check("35-write-exposed", changes).data["counted"]


def test_the_small_model_of_the_lesson_waits_as_its_table_says():
    small = [lesson35.bucket_wait(*buckets) for buckets in list(lesson35.cases().values())[:4]]
    assert small == [2.5, 1.5, 1.0, 2.5]


def tokens_by_layer(flops, rate, width):
    weights = 10**9
    return (weights * width / rate) / (2 * weights / flops)


@pytest.mark.parametrize("answer", [lesson35b.tokens, tokens_by_layer])
def test_right_tokens_are_right(answer):
    assert check("35b-write-tokens", answer).data["right"]


# Lesson 35b ----------------------------------------------------------------------------------------------------------


def sharded(layers, seconds, ahead):
    part = np.full(layers, 1 / layers)
    forward = (CASE.t_compute + CASE.t_tp) / CASE.microbatches - CASE.window
    sizes = CASE.dp_gradients * part
    return engines.run_step(
        "sharded",
        forward * part,
        CASE.window * part,
        sizes,
        lambda b: np.full(b.size, seconds),
        prefetch=ahead,
    )


def test_a_second_layer_ahead_brings_next_to_nothing_where_the_wire_never_rests():
    exposed = [
        engines.run_step(
            "sharded",
            np.full(80, 3.0),
            np.full(80, 9.0),
            np.ones(80),
            lambda b: 6.0 + 0 * b,
            prefetch=n,
        ).exposed
        for n in (0, 1, 2, 5)
    ]
    assert exposed[1] < 0.6 * exposed[0]
    assert exposed[1] - exposed[3] < 0.03 * exposed[1]
    one = estimate(RAIL, "all_gather", CASE.dp_gradients / 80)
    by_model = [sharded(80, one.time, n).exposed for n in (0, 1, 2)]
    assert by_model == pytest.approx([0.935, 0.249, 0.245], abs=1e-3)
    excess = 80 * (3 * one.time - (CASE.window + sharded(80, 0.0, 1).end - CASE.window) / 80)
    assert by_model[2] == pytest.approx(excess, rel=0.01)


def test_a_unit_of_a_few_layers_leaves_least():
    exposed = {}
    for size in (1, 2, 5, 10, 20):
        each = estimate(RAIL, "all_gather", CASE.dp_gradients * size / 80)
        exposed[size] = sharded(80 // size, each.time, 1).exposed
    assert min(exposed, key=exposed.get) == 5


@pytest.mark.parametrize(("p", "s", "a"), [(2e-3, 0.7e-3, 40e-6), (1e-3, 0.3e-3, 20e-6)])
def test_more_chunks_than_the_answer_make_the_wire_the_limit(p, s, a):
    given = {"p": f"{p * 1e3:g} ms", "s": f"{s * 1e3:g} ms", "a": f"{a * 1e6:g} us"}
    key = find("35b-chunks").key(given)
    for chunks, longer in ((int(key), False), (int(key) + 2, True)):
        assert (a + (s - a) / chunks > p / chunks) == longer


def test_two_chunks_hide_the_sums_and_many_pay_latency():
    seen = published.load("h100x8_ring")
    share = (1 - CASE.backward_share) * CASE.t_compute / CASE.microbatches

    def chunks(n):
        return engines.run_step(
            "tensor_parallel",
            np.full(160, share / 160),
            np.full(160, CASE.tp_message),
            lambda b: np.interp(b, seen.size, seen.time),
            chunks=n,
        )

    found = {n: chunks(n) for n in (1, 2, 4, 128)}
    assert [found[n].end for n in (1, 2, 128)] == pytest.approx([0.426, 0.3145, 0.909], abs=1e-3)
    assert found[1].exposed == pytest.approx(0.112, abs=1e-3)
    assert found[1].exposed > 100 * found[2].exposed


@pytest.mark.parametrize("kind", ["forward", "backward"])
def test_a_pass_has_one_colour_in_the_pictures_of_lessons_33_and_35(kind):
    drawn = set()
    for scene in (live.bubble().scene, live.overlap(bucket=220).scene):
        bars = next(
            scene.layers[name] for name in ("bars", "0 bars") if name in scene.layers
        ).fields
        what = np.array([name.split()[0] for name in bars["names"]])
        drawn |= set(np.asarray(bars["colour"])[what == kind].tolist())
    assert len(drawn) == 1
