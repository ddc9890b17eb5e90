"""Workload: patterns and steps by hand, laws, traces, refusals."""

import json
import tracemalloc
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabriclab import collectives, engines, registry, routing, topologies, workload
from fabriclab.errors import FileFormat, TooLarge
from fabriclab.lower import lower
from fabriclab.workload import _work

GB = 1e9
STAR = topologies.build("crossbar", hosts=9, rate=GB)
few = st.integers(1, 5)
time = st.floats(0.0, 4.0)
light = settings(max_examples=40, deadline=None)


def run(flows, fabric=None, engine="flow"):
    """Return the timeline of flows; steps run on their streams."""
    place = fabric or workload.streams(flows)
    return engines.run(place, routing.route(place, flows), flows, engine)


def end(pattern, *arguments, engine="flow", **options):
    """Return the end of a pattern on the star."""
    return run(workload.build(pattern, STAR, *arguments, **options), STAR, engine).end


def linear(b):
    """Return the time of a collective at 1 MB/s, 0.5 s for each call."""
    return 0.5 + b / 1e6


def step(pattern, *arguments, **options):
    """Return the end of a step and its exposed communication."""
    flows = workload.build(pattern, *arguments, **options)
    timeline, compute = run(flows), workload.labelled(flows, "ward|compute")
    return timeline.end, workload.exposed(timeline, flows, compute, ~compute)


# by hand: parameter server ------------------------------------------------------------------------
@pytest.mark.parametrize("shards", [1, 2, 4])
def test_the_incast_at_the_servers(shards):
    # 4 workers push 1 GB each into the ports of the servers and pull it again: 4 s / shards, but no less than 1 s.
    options = {"servers": range(shards), "workers": range(4, 8), "compute": 0.5, "steps": 3}
    assert end("parameter_server", GB, **options) == pytest.approx(3 * (0.5 + 2 * 4 / shards))
    assert end("parameter_server", GB, engine="ideal", **options) == pytest.approx(
        3 * (0.5 + 2 / shards)
    )


def test_a_worker_that_is_a_server_too_sends_the_rest_only():
    ranks = range(4)  # each port carries 3 parts of 1/4 in each direction, push and pull
    assert end("parameter_server", GB, servers=ranks, workers=ranks) == pytest.approx(2 * 3 / 4)


@pytest.mark.parametrize("staleness", [0, 1, 3, None])
def test_bounded_staleness_hides_no_slow_worker(staleness):
    compute = np.ones((30, 3)) * [1.0, 1.0, 3.0]
    flows = workload.build(
        "parameter_server",
        STAR,
        0,
        servers=[0],
        workers=[1, 2, 3],
        compute=compute,
        steps=30,
        staleness=staleness,
    )
    timeline = run(flows, STAR, "ideal")
    done = timeline.finish[workload.labelled(flows, "compute")].reshape(30, 3)
    # the fast one ends step t when the slow one has ended t - 1 - ahead
    ahead = 29 if staleness is None else staleness
    fast = [t + 1.0 if t <= ahead else max(t + 1.0, 3.0 * (t - ahead) + 1) for t in range(30)]
    assert done[:, 0].tolist() == fast
    assert done[:, 2].tolist() == [3.0 * (t + 1) for t in range(30)]


def test_a_synchronous_step_waits_for_the_slowest_of_random_workers():
    # The largest of n exponential delays of mean 1 is 1 + 1/2 + ... + 1/n in the mean.
    compute = np.random.default_rng(0).exponential(1.0, (400, 8))
    ends = [
        end(
            "parameter_server",
            0,
            servers=[0],
            workers=range(1, 9),
            compute=compute,
            steps=400,
            staleness=s,
            engine="ideal",
        )
        for s in (0, 4, 16)
    ]
    assert ends[0] == pytest.approx(compute.max(axis=1).sum())
    assert ends[0] / 400 == pytest.approx(sum(1 / k for k in range(1, 9)), rel=0.05)
    assert ends[0] > ends[1] > ends[2] > compute.sum(axis=0).max()


# by hand: pipeline --------------------------------------------------------------------------------
@light
@given(st.integers(1, 6), st.integers(1, 8), few, time, time, st.booleans())
def test_the_bubble_of_a_pipeline(p, m, chunks, f, b, gpipe):
    m, options = (
        (m, {"order": "gpipe"}) if gpipe else (m * p if chunks > 1 else m, {"chunks": chunks})
    )
    v = options.get("chunks", 1)
    flows = workload.build(
        "pipeline", STAR, 0, stages=range(p), microbatches=m, forward=f, backward=b, **options
    )
    timeline = run(flows, STAR)
    assert timeline.end == pytest.approx((m * v + p - 1) * (f + b) / v)
    for node in STAR.endpoint[:p] if timeline.end > 1e-6 else ():
        busy = workload.busy(timeline, flows, flows.source == node)
        assert 1 - busy / timeline.end == pytest.approx((p - 1) / (v * m + p - 1), abs=1e-9)


@pytest.mark.parametrize(
    ("order", "chunks", "most"),
    [
        ("gpipe", 1, [8, 8, 8, 8]),
        ("1f1b", 1, [4, 3, 2, 1]),
        # The first stage has v p + p - 1 chunks (Korthikanti et al. 2022, 1 + (p - 1) / (v p) of those of v = 1), and
        # each stage two less than the one before it.
        ("1f1b", 2, [11, 9, 7, 5]),
    ],
)
def test_how_many_activations_a_stage_holds(order, chunks, most):
    flows = workload.build(
        "pipeline",
        STAR,
        0,
        stages=range(4),
        microbatches=8,
        forward=1.0,
        backward=2.0,
        order=order,
        chunks=chunks,
    )
    seen = workload.spans(run(flows, STAR), flows)
    for node, expected in zip(STAR.endpoint, most, strict=False):
        here, back = flows.source == node, workload.labelled(flows, "backward")
        begin, over = (
            np.sort(seen.start[here & workload.labelled(flows, "forward")]),
            np.sort(seen.finish[here & back]),
        )
        held = [(begin <= t).sum() - (over <= t).sum() for t in begin]
        assert max(held) == expected


def test_sending_between_two_stages():
    # Two micro-batches, 1 s each way, 0.25 s on the wire; micro-batch 0: F 0-1 at stage 0, F 1.25-2.25, B 2.25-3.25 at
    # stage 1, B 3.5-4.5 at stage 0; micro-batch 1: F 3.25-4.25, B 4.25-5.25 at stage 1, B 5.5-6.5.
    options = {"stages": [0, 1], "microbatches": 2, "forward": 1.0, "backward": 1.0}
    assert end("pipeline", GB / 4, **options) == pytest.approx(6.5)


# by hand: broadcast and streaming -----------------------------------------------------------------
@light
@given(st.integers(2, 9), st.integers(1, 6))
def test_the_three_ways_of_a_broadcast(n, s):
    model = {"ranks": range(n), "segments": s}
    assert end("broadcast", GB, way="one_root", **model) == pytest.approx(n - 1)
    assert end("broadcast", GB, way="chain", **model) == pytest.approx((n - 2 + s) / s)
    assert end("broadcast", GB, way="tree", ranks=range(n)) == pytest.approx(ceil(log2(n)))


def test_a_chain_of_segments_as_the_collective_does_it():
    whole = collectives.build("broadcast", "ring", 9, segments=16, pipelined=True)
    flows = lower(whole, STAR, GB)
    assert end("broadcast", GB, ranks=range(9), segments=16) == pytest.approx(run(flows, STAR).end)


@light
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 4), time, st.integers(1, 2))
def test_streaming_input(workers, steps, buffers, c, sources):
    options = {"sources": range(sources), "workers": range(4, 4 + workers), "compute": c}
    took = end("streaming", GB, steps=steps, buffers=buffers, **options)
    load = ceil(workers / sources)  # of the source with most workers, whose port they share
    if buffers == 1 or workers % sources == 0:
        expected = steps * (load + c) if buffers == 1 else load + (steps - 1) * max(load, c) + c
        assert took == pytest.approx(expected) or buffers > 2
    assert took >= max(steps * load + c, load + steps * c) - 1e-9


# by hand: steps -----------------------------------------------------------------------------------
LAYERS = ([1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [4e6, 1e6, 1e6])


def test_buckets_of_gradients():
    # Wait-free: ready at 2, 4, 6; sums of 1.5, 1.5 and 4.5 s end at 3.5, 5.5 and 10.5; then 3 s of forward.
    assert step("data_parallel", *LAYERS, linear) == pytest.approx((13.5, 4.5))
    # Two buckets of 2 MB and 4 MB: ready at 4 and 6, 2.5 and 4.5 s: 6.5 and 11. One bucket: 6 + 6.5.
    assert step("data_parallel", *LAYERS, linear, bucket=2e6) == pytest.approx((14.0, 5.0))
    assert step("data_parallel", *LAYERS, linear, bucket=np.inf) == pytest.approx((15.5, 6.5))


def test_what_the_next_forward_needs_first_goes_first():
    # Each sum takes 3 s from 1, 2 and 3 on: in order 1-4, 4-7, 7-10, then 3 s. First needed first: 1-4, 4-7 (layer 0,
    # ready at 3), 7-10; forward 0 at 7-8 and forward 1 at 10-11, forward 2 at 11-12.
    layers, cost = (1.0, 1.0, np.full(3, 1e6)), lambda b: 3 * b / 1e6
    assert step("data_parallel", *layers, cost)[0] == pytest.approx(13.0)
    assert step("data_parallel", *layers, cost, priority=True) == pytest.approx((12.0, 6.0))
    # A rank that is ready at once changes nothing: the sums wait for the other one.
    uneven = (1.0, [[0.0] * 3, [1.0] * 3], layers[2])
    assert step("data_parallel", *uneven, cost, priority=True)[0] == pytest.approx(12.0)


def test_bucket_size_as_the_course_plans_it():
    # The case of lesson 35: 17.6 GB over 128 ranks at 50 GB/s, 14 us a ring step, a backward of 0.73 s.
    cost = collectives.closed_form("all_reduce", "ring")
    left = {}
    for n in (1, 14, 706):
        sizes = np.full(n, 17.6e9 / n)
        left[n] = step("data_parallel", 0.0, 0.73 / n, sizes, lambda b: cost(b, 128, 14e-6, 50e9))[
            1
        ]
        each = 254 * 14e-6 + 17.6e9 / n / 50e9 * 254 / 128
        assert left[n] == pytest.approx(max(0.73 / n + n * each, 0.73 + each) - 0.73)
    assert [round(x, 2) for x in left.values()] == [0.70, 0.07, 2.48]


def test_a_slow_rank_delays_the_sums_of_all():
    forward, backward, sizes = LAYERS
    slow = np.array([backward, np.multiply(backward, 1.5), backward])
    assert step("data_parallel", forward, slow, sizes, linear)[0] == pytest.approx(3 * 3 + 4.5 + 3)


def test_gathers_ahead_of_their_layers():
    # Gathers and scatters of 1 s, forward 2 s, backward 3 s, three layers. Nothing ahead: 3 (1 + 2) + 3 (1 + 3), with
    # two reduce-scatters that follow their gathers while the backward waits for none of them, and one after the end.
    layers, cost = (2.0, 3.0, np.full(3, 1e6)), lambda b: b / 1e6
    assert step("sharded", *layers, cost, prefetch=0) == pytest.approx((3 * 3 + 3 * 4 + 1, 7))
    assert step("sharded", *layers, cost, prefetch=1) == pytest.approx((1 + 6 + 9 + 1, 2))
    # A second layer of twice the size: gathered till 1 and 3, forward 1-3 and 3-5, gathered again 3-5 and 5-6; backward
    # of layer 1 5-8, its scatter 8-10; of layer 0 8-11 and 11-12.
    assert step("sharded", 2.0, 3.0, [1e6, 2e6], cost) == pytest.approx((12, 2))


def test_chunks_of_a_tensor_parallel_layer():
    # 4 s of computation and 2 s of sum per layer; in two chunks only the last sum of 1 s is seen, four end 0.5 s after.
    layers, cost = ([4.0, 4.0], [2e6, 2e6]), lambda b: b / 1e6
    assert [step("tensor_parallel", *layers, cost, chunks=c) for c in (1, 2, 4)] == [
        (12, 4),
        (9, 1),
        (8.5, 0.5),
    ]


# by hand: stragglers ------------------------------------------------------------------------------
def test_a_late_rank_reaches_all_of_a_ring():
    flows = lower(collectives.build("all_reduce", "ring", 8), STAR, 8 * GB, lag=0.125, expand=True)
    late = workload.slowed(flows, STAR.endpoint[[3]], factor=3.0)
    # In each of 14 steps a block of 1 GB takes 1 s after 0.125 s, and what rank 3 sends 0.25 s more.
    ends = [run(f, STAR).end for f in (flows, late)]
    assert ends[0] == pytest.approx(14 * 1.125)
    assert ends[1] == pytest.approx(14 * 1.375)


def test_who_sends_is_late_and_not_who_receives():
    flows = workload.build("broadcast", STAR, GB, ranks=[0, 1], lag=0.5)
    ends = [run(workload.slowed(flows, STAR.endpoint[[k]], factor=2.0), STAR).end for k in (0, 1)]
    assert ends == pytest.approx([2.0, 1.5])


def test_a_slow_link_slows_all_of_a_ring():
    flows = lower(collectives.build("all_reduce", "ring", 8), STAR, 8 * GB, expand=True)
    slow = STAR.with_capacity(
        STAR.links_between(int(STAR.endpoint[3]), int(STAR.nodes("switch")[0])), GB / 4
    )
    assert run(flows, slow).end == pytest.approx(14 * 4)


def test_noise_of_256_ranks_and_its_bounds():
    star = topologies.build("crossbar", hosts=256, rate=GB)
    flows = lower(
        collectives.build("all_reduce", "halving_doubling", 256), star, GB, lag="1 ms", expand=True
    )
    noisy = workload.slowed(flows, star.endpoint, jitter="1 ms", seed=1)
    quiet, loud = (run(f, star, "ideal").end for f in (flows, noisy))
    noise = (noisy.lag - flows.lag).reshape(16, 256)  # by step and rank
    assert noise.mean() == pytest.approx(1e-3, rel=0.05)
    # No rank ends before its own delays, and none later than if all waited for the latest of each step.
    assert quiet + noise.sum(axis=0).max() < loud < quiet + noise.max(axis=1).sum()
    assert (
        run(workload.slowed(flows, star.endpoint, jitter="1 ms", seed=1), star, "ideal").end == loud
    )


# laws ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", registry.names("workload"))
def test_every_pattern_builds_runs_and_conserves_bytes(name):
    options = registry.info("workload", name)["small"]
    on_fabric = "cost" not in options
    flows = workload.build(name, *([STAR] if on_fabric else []), **options)
    place = STAR if on_fabric else workload.streams(flows)
    routes = routing.route(place, flows)
    timeline, alone = (engines.run(place, routes, flows, engine) for engine in ("flow", "ideal"))
    assert timeline.end >= alone.end * (1 - 1e-12) > 0
    assert timeline.link_bytes.sum() == pytest.approx(
        2 * flows.size[flows.source != flows.target].sum()
    )
    assert (flows.size.sum() > 0) == on_fabric
    assert np.all(workload.spans(timeline, flows).start >= -1e-12)
    assert "Parameters" in registry.get("workload", name).__doc__


layers = st.integers(1, 6).flatmap(
    lambda n: st.tuples(*(st.lists(time, min_size=n, max_size=n) for _ in range(3)))
)


def streams_do_one_thing_at_a_time(flows, timeline):
    seen = workload.spans(timeline, flows)
    for node in np.unique(flows.source):
        here = np.flatnonzero((flows.source == node) & (flows.lag > 0))
        here = here[np.argsort(seen.finish[here], kind="stable")]
        assert np.all(seen.start[here[1:]] >= seen.finish[here[:-1]] - 1e-9)


@light
@given(layers, st.floats(0, 10), st.booleans(), few)
def test_bounds_of_a_data_parallel_step(times, bucket, priority, ranks):
    forward, backward, moved = map(np.array, times)
    slow = 1.0 + 0.1 * np.arange(ranks)[:, None]
    flows = workload.build(
        "data_parallel",
        slow * forward,
        slow * backward,
        moved * 1e6,
        linear,
        bucket=bucket * 1e6,
        priority=priority,
    )
    timeline, sums = run(flows, engine="ideal"), workload.labelled(flows, "reduce")
    streams_do_one_thing_at_a_time(flows, timeline)
    shown = [
        workload.exposed(timeline, flows, ~sums & (flows.source == r), sums) for r in range(ranks)
    ]
    compute = slow[-1] * (forward.sum() + backward.sum())
    # The first bucket is not ready before the last layer, and the last layer computes after its sum.
    bound = max(compute + 0.5, slow[-1] * (backward[-1] + forward[-1]) + flows.lag[sums].sum())
    assert 0.5 - 1e-9 <= min(shown)
    assert timeline.end >= bound - 1e-9
    assert timeline.end == pytest.approx(compute + shown[-1])


@light
@given(layers, st.integers(0, 4))
def test_bounds_of_a_sharded_step(times, prefetch):
    forward, backward, moved = map(np.array, times)
    flows, more = (
        workload.build("sharded", forward, backward, moved * 1e6, linear, prefetch=d)
        for d in (prefetch, prefetch + 1)
    )
    timeline, compute = run(flows, engine="ideal"), workload.labelled(flows, "ward")
    streams_do_one_thing_at_a_time(flows, timeline)
    takes = linear(moved * 1e6)
    assert timeline.end == pytest.approx(
        forward.sum() + backward.sum() + workload.exposed(timeline, flows, compute, ~compute)
    )
    assert (
        timeline.end
        >= max(3 * takes.sum(), takes[0] + forward.sum() + backward.sum() + takes[0]) - 1e-9
    )
    if prefetch == 0:
        held = workload.spans(timeline, flows)
        gathers = np.flatnonzero(workload.labelled(flows, "all-gather"))
        first = np.append(0.0, timeline.finish[compute][:-1])
        assert np.all(held.start[gathers] >= first - 1e-9)
    assert run(more, engine="ideal").end <= timeline.end + 1e-9


@light
@given(st.lists(time, min_size=1, max_size=4), few, st.floats(0.0, 3.0))
def test_bounds_of_a_tensor_parallel_step(compute, chunks, moved):
    flows = workload.build(
        "tensor_parallel", compute, np.full(len(compute), moved * 1e6), linear, chunks=chunks
    )
    timeline = run(flows, engine="ideal")
    streams_do_one_thing_at_a_time(flows, timeline)
    each = 0.5 + moved / chunks
    bound = max(sum(compute) + each, compute[0] / chunks + len(compute) * chunks * each)
    assert timeline.end >= bound - 1e-9
    if len(compute) == 1:
        assert timeline.end == pytest.approx(bound)


# traces -------------------------------------------------------------------------------------------
def test_a_trace_comes_back_as_it_went(tmp_path):
    flows = workload.build("data_parallel", *LAYERS, linear)
    timeline, file = run(flows), tmp_path / "step.json"
    workload.write_trace(file, timeline, flows, workload.streams(flows))
    events = [e for e in json.loads(file.read_text())["traceEvents"] if e["ph"] == "X"]
    assert {"name": "all-reduce", "pid": 0, "tid": 1, "ts": 2e6, "dur": 1.5e6}.items() <= events[
        3
    ].items()
    fabric, again, seen = workload.read_trace(file)
    assert [fabric.name(n) for n in range(2)] == ["compute", "communication"]
    assert engines.run(fabric, routing.route(fabric, again), again).finish == pytest.approx(
        seen.finish
    )
    waits = workload.labelled(again, "reduce")
    assert workload.exposed(seen, again, ~waits, waits) == pytest.approx(4.5)
    assert seen.end == pytest.approx(timeline.end)


def test_a_trace_of_a_profiler(tmp_path):
    base = 1.7e15  # microseconds since 1970
    events = [
        {"ph": "M", "name": "thread_name", "pid": 3, "tid": 7, "args": {"name": "stream 7"}},
        {"ph": "X", "name": "gemm", "pid": 3, "tid": 7, "ts": base, "dur": 10},
        {"ph": "i", "name": "mark", "pid": 3, "tid": 7, "ts": base},
        {"ph": "X", "name": "ncclAllReduce", "pid": 3, "tid": "20", "ts": base + 6.0, "dur": 8.0},
        {"ph": "X", "name": "gemm", "pid": 3, "tid": 7, "ts": base + 11, "dur": 1},
    ]
    # the last bracket may be missing
    (tmp_path / "t.json").write_text(json.dumps(events)[:-1] + ",\n")
    fabric, flows, seen = workload.read_trace(tmp_path / "t.json")
    assert [fabric.name(n) for n in range(fabric.n_nodes)] == ["stream 7", "lane 3 20"]
    nccl = workload.labelled(flows, "nccl")
    assert workload.busy(seen, flows, nccl) == pytest.approx(8e-6)
    # 10 to 11 and 12 to 14 us
    assert workload.exposed(seen, flows, ~nccl, nccl) == pytest.approx(3e-6)
    assert seen.end == pytest.approx(14e-6)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no json", "t.json is no trace, expected JSON with events"),
        ('{"a": 1}', "is no trace.*traceEvents"),
        ("[1, 2]", "is no trace"),
        ("[]", "complete events .* must have ts and dur .* got none"),
        ('[{"ph": "X", "name": "a", "ts": 1}]', "in microseconds; got .*'name': 'a'"),
        ('[{"ph": "X", "ts": 1, "dur": -1}]', "dur >= 0"),
        ('[{"ph": "X", "ts": "x", "dur": 1}]', "is no trace.*'x'"),
        (
            json.dumps([{"ph": "X", "tid": i, "ts": 1, "dur": 1} for i in range(128)]),
            "128 lanes, expected at most 127",
        ),
    ],
)
def test_files_that_are_no_trace(tmp_path, text, says):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(FileFormat, match=says):
        workload.read_trace(tmp_path / "t.json")


def test_a_file_that_is_no_text_is_no_trace(tmp_path):
    (tmp_path / "t.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(FileFormat, match=r"t.json is no trace.*JSONDecodeError"):
        workload.read_trace(tmp_path / "t.json")


# refusals -----------------------------------------------------------------------------------------
def test_stragglers_that_are_nobody_or_by_no_number_are_refused():
    flows = workload.build("tensor_parallel", [1.0], [1.0], linear)
    with pytest.raises(ValueError, match=r"nodes must be within 0\.\.1, got 999"):
        workload.slowed(flows, [999])
    with pytest.raises(TypeError, match="factor must be plain numbers"):
        workload.slowed(flows, [0], factor="2")


@pytest.mark.parametrize(
    ("pattern", "times"), [("data_parallel", 2), ("sharded", 2), ("tensor_parallel", 1)]
)
def test_steps_without_layers_are_refused(pattern, times):
    with pytest.raises(ValueError, match="layers in sizes must be >= 1, got 0"):
        workload.build(pattern, *[[]] * (times + 1), linear)


@pytest.mark.parametrize(
    ("pattern", "options", "says"),
    [
        ("pipelin", {}, "unknown workload 'pipelin'; choose one of broadcast, "),
        (
            "broadcast",
            {"ranks": range(3), "way": "trees"},
            "one of one_root, chain, tree, got 'trees'; did you mean",
        ),
        ("broadcast", {"ranks": [0]}, "ranks must be 2 or more different ranks"),
        ("broadcast", {"ranks": [0, 9]}, "ranks must be within 0..8, got 9"),
        ("streaming", {"sources": [], "workers": [1]}, "sources must be 1 or more different ranks"),
        ("streaming", {"sources": [0], "workers": [1], "buffers": 0}, "buffers must be >= 1"),
        (
            "parameter_server",
            {"servers": [0], "workers": [1, 1]},
            "workers must be 1 or more different",
        ),
        (
            "parameter_server",
            {"servers": [0], "workers": [1], "staleness": -1},
            "staleness must be >= 0",
        ),
        (
            "parameter_server",
            {"servers": [0], "workers": [1, 2], "compute": [1, 2, 3]},
            r"shape \(1, 2\), got shape \(3",
        ),
        (
            "pipeline",
            {"stages": [0, 1], "microbatches": 3, "forward": 1, "backward": 1, "chunks": 2},
            "multiple of 2",
        ),
        (
            "pipeline",
            {"stages": [0], "microbatches": 3, "forward": 1, "backward": 1, "order": "x"},
            "gpipe.*got 'x'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(pattern, options, says):
    with pytest.raises(ValueError, match=says):
        workload.build(pattern, STAR, GB, **options)


def test_steps_refuse_layers_that_do_not_match():
    with pytest.raises(
        ValueError, match=r"forward must be one time or times of shape \(1, 3\), got shape \(2,\)"
    ):
        workload.build("data_parallel", [1, 2], 1.0, [1, 2, 3], linear)
    with pytest.raises(ValueError, match="lag must be finite and >= 0 s"):
        workload.build("tensor_parallel", [1.0], [1.0], lambda b: -b)
    with pytest.raises(ValueError, match="prefetch must be >= 0"):
        workload.build("sharded", [1.0], [1.0], [1.0], linear, prefetch=-1)

    with pytest.raises(
        ValueError, match=r"cost must be one time or times of shape \(1,\), got shape \(2,\)"
    ):
        workload.build("sharded", [1.0], [1.0], [1.0], lambda b: [1.0, 2.0])


def test_what_memory_does_not_hold_is_refused(monkeypatch):
    tracemalloc.start()
    flows = workload.build("broadcast", STAR, GB, ranks=range(9), segments=4000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    estimate = _work._BYTES * 1.1 * 3 * flows.n_flows
    assert 0.5 * estimate < peak < estimate
    monkeypatch.setenv("FABRICLAB_MEMORY", "4 MiB")
    for pattern, options in (
        ("broadcast", {"ranks": range(9), "segments": 4000}),
        ("parameter_server", {"servers": [0], "workers": range(1, 9), "steps": 2000}),
    ):
        with pytest.raises(
            TooLarge, match=r"flows and dependencies needs about .* take fewer ranks, steps"
        ):
            workload.build(pattern, STAR, GB, **options)


def test_a_sequence_of_groups_has_no_spans():
    flows = lower(collectives.build("all_reduce", "ring", 4), STAR, GB)
    with pytest.raises(ValueError, match=r"write it out with flows.expanded\(\)"):
        workload.spans(run(flows, STAR), flows)


# Buckets that wait for the network -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_the_wait_for_buckets_is_that_of_a_step_that_is_run(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    backward, takes = rng.uniform(0.1, 2.0, n), rng.uniform(0.0, 2.0, n)
    ready = np.cumsum(backward)
    # Layers are given from the first to the last, and their gradients are ready the other way round.
    step = engines.run_step(
        "data_parallel", np.zeros(n), backward[::-1], np.ones(n), lambda size: takes
    )
    assert workload.bucket_wait(ready, takes) == pytest.approx(step.exposed)
    assert step.end == pytest.approx(ready[-1] + step.exposed)


def test_buckets_that_do_not_fit_together_are_refused():
    assert workload.bucket_wait([1, 2], 1.5) == 2.0
    for ready, send, words in [
        ([], [], "buckets in ready"),
        ([1, 2], [1, 1, 1], "send must be one time or times of shape"),
        ([-1, 2], [1, 1], "ready"),
        ([2, 1], [1, 1], "ready must ascend"),
        ([1, 2], [1, -1], "send"),
    ]:
        with pytest.raises(ValueError, match=words):
            workload.bucket_wait(ready, send)


def test_a_step_that_is_run_has_its_streams_and_what_it_waits_for():
    step = engines.run_step(
        "sharded", [1, 1], [2, 2], [1e6, 1e6], lambda size: size / 1e6, prefetch=0
    )
    assert step.streams.n_nodes == 2
    # each of four computations waits for its gather, and the last reduce-scatter comes after all
    assert step.exposed == pytest.approx(5.0) and step.end == pytest.approx(11.0)
    talk = workload.labelled(step.flows, "gather|scatter")
    assert workload.busy(step.timeline, step.flows, ~talk) == pytest.approx(6.0)


def test_the_longest_wait_of_a_step_lies_between_its_passes():
    step = engines.run_step("data_parallel", [1, 1], [1, 2], [1e6, 1e6], lambda size: 1.5e-6 * size)
    computes = workload.labelled(step.flows, "backward|forward")
    assert workload.longest_wait(step.timeline, step.flows, computes) == (3.0, 5.0)
    assert step.exposed == 2.0
    backward = workload.labelled(step.flows, "backward")
    assert workload.longest_wait(step.timeline, step.flows, backward) == (3.0, 3.0)
    nothing = np.zeros(step.flows.n_flows, dtype=bool)
    assert workload.longest_wait(step.timeline, step.flows, nothing) == (0.0, 0.0)
