"""What the questions of lessons 33 to 33c call right and wrong is so in the library and in published sweeps."""

import math

import numpy as np
import pytest

from fabriclab import (
    catalog,
    collectives,
    engines,
    live,
    simulate,
    topologies,
    units,
)
from fabriclab.catalog import published
from fabriclab.course.checks import check
from fabriclab.course.judges.answers import JUDGES
from fabriclab.course.judges.lessons import lesson33, lesson33b
from fabriclab.course.questions import find, misconception
from support.prose import sentence

CASE = catalog.case()
MODEL, N, RATE = 2 * CASE.parameters, CASE.servers, CASE.nic_rate
HOPS = collectives.closed_form("broadcast", "ring")


def run(pattern, fabric, size, **options):
    return engines.run_pattern(fabric, pattern, size, **options)


def star(hosts):
    return topologies.build("crossbar", hosts=hosts, rate=RATE)


@pytest.mark.parametrize(("n", "c"), [(128, 512), (32, 256), (64, 64)])
def test_a_chain_takes_as_many_copies_as_the_answer_says(n, c):
    key = find("33-chain").key({"n": n, "c": c})
    simulated = run("broadcast", star(n), MODEL, ranks=range(n), way="chain", segments=c).end
    assert simulated * RATE / MODEL == pytest.approx(key, rel=1e-4)
    assert float(HOPS(MODEL / c, n + c - 1, 0.0, RATE)) * RATE / MODEL == pytest.approx(key)


def test_a_tree_beats_the_other_schedules_of_whole_files_and_a_chain_in_pieces_beats_it():
    ways = {"chain": 256, "tree": 1, "one_root": 1}
    pieces, tree, one = (
        run("broadcast", star(N), MODEL, ranks=range(N), way=w, segments=s).end
        for w, s in ways.items()
    )
    whole = run("broadcast", star(N), MODEL, ranks=range(N), way="chain").end
    at_once = simulate("broadcast", "one_root", star(N), MODEL).time
    assert 4 * pieces < tree < one / 10 and tree * RATE / MODEL == pytest.approx(7, rel=1e-3)
    assert at_once == pytest.approx(one, rel=1e-3) == pytest.approx(whole, rel=1e-3)
    assert float(HOPS(MODEL / 8192, N + 8191, 0.0, RATE)) == pytest.approx(2.87, abs=5e-3)
    assert at_once == pytest.approx(358, abs=0.5)


# Functions -----------------------------------------------------------------------------------------------------------


def by_root(servers, size, rate, latency):
    return max(1, (servers - 2) * size / (latency * rate)) ** 0.5


def rounded_down(servers, size, rate, latency):
    return max(1, math.floor(by_root(servers, size, rate, latency)))


def by_trying(servers, size, rate, latency):
    pieces = np.arange(1, 30_000)
    seconds = (servers - 2 + pieces) * (latency + size / (pieces * rate))
    return pieces[np.argmin(seconds)]  # a whole number of numpy


@pytest.mark.parametrize("rule", [by_root, rounded_down, by_trying])
def test_a_right_number_of_pieces_is_right(rule):
    assert check("33-write-pieces", rule).data["right"]


@pytest.mark.parametrize(("name", "rule"), lesson33.PIECES_MISTAKES)
def test_a_known_mistake_of_the_pieces_is_named_in_whole_numbers_too(name, rule):
    shown = check("33-write-pieces", lambda *chain: round(rule(*chain)))
    assert not shown.data["right"] and shown.data["named"] == name
    assert misconception("33-write-pieces", name) in str(shown)


@pytest.mark.parametrize("answer", [0, 0.09])
def test_less_than_one_piece_is_named(answer):
    def rule(servers, size, rate, latency):
        return by_root(servers, size, rate, latency) if size > 1e6 and servers > 2 else answer

    assert check("33-write-pieces", rule).data["named"] == lesson33.LESS_THAN_ONE


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_number_near_the_best_is_wrong_and_told_what_it_costs(factor):
    shown = check("33-write-pieces", lambda *chain: max(1, factor * by_root(*chain)))
    assert not shown.data["right"] and shown.data["named"] == ""


def test_the_time_of_a_chain_is_that_of_the_library_and_no_whole_number_is_faster():
    for chain in (*lesson33.chains(), *lesson33.short_chains()):
        servers, size, rate, latency = chain
        best = lesson33.fewest_seconds(*chain)
        times = [float(lesson33.chain_time(*chain, pieces)) for pieces in (best, best + 1)]
        assert times[0] < times[1]
        if best > 1:
            assert times[0] < lesson33.chain_time(*chain, best - 1)
        of_library = HOPS(size / best, servers - 1 + best, latency, rate)
        assert times[0] == pytest.approx(float(of_library))
        half, double = (float(lesson33.chain_time(*chain, best * k)) for k in (0.5, 2))
        assert best == 1 or max(half, double) < 1.07 * times[0]  # the best is flat


def test_the_example_of_the_lesson_is_right():
    each = [float(lesson33.chain_time(6, 1e6, 50e9, 14e-6, c)) * 1e6 for c in (1, 2, 4)]
    assert each == pytest.approx([170, 144, 152])
    assert lesson33.fewest_seconds(6, 1e6, 50e9, 14e-6) == 2
    # 5,040 pieces, 2.97 s; half as many and twice as many take 1 % longer
    ours = lesson33.chains()[0]
    best = lesson33.fewest_seconds(*ours)
    seconds = [float(lesson33.chain_time(*ours, best * k)) for k in (1, 0.5, 2)]
    assert best == 5040 and [round(t, 2) for t in seconds] == [2.97, 3.0, 3.0]


@pytest.mark.parametrize(("p", "m"), lesson33.PIPELINES)
def test_the_bubble_is_that_of_a_run(p, m):
    t = run("pipeline", star(p), 0, stages=range(p), microbatches=m, forward=1.0, backward=2.0)
    assert lesson33.bubble(p, m) == pytest.approx(1 - 3 * m / t.end, abs=1e-9)


def bubble_by_units(stages, microbatches):
    return np.float64(1 - microbatches / (microbatches + stages - 1))


def test_a_right_bubble_is_right():
    assert check("33-write-bubble", bubble_by_units).data["right"]


def step_by_cases(reading, computing, buffers):
    if buffers > 1:
        return np.maximum(reading, computing)
    return reading + computing


def test_a_right_step_is_right():
    assert check("33b-write-step", step_by_cases).data["right"]


@pytest.mark.parametrize(("reading", "computing", "buffers"), lesson33b.STEPS)
def test_a_step_that_reads_ahead_is_as_long_as_in_a_run(reading, computing, buffers):
    size = reading * RATE

    def end(steps):
        options = {"sources": [1], "workers": [0], "compute": computing, "buffers": buffers}
        return run("streaming", star(2), size, steps=steps, **options).end

    steady = (end(40) - end(20)) / 20
    assert lesson33b.step_time(reading, computing, buffers) == pytest.approx(steady)


# Broadcast -----------------------------------------------------------------------------------------------------------


def test_a_small_file_wants_few_messages_and_a_large_one_all_nics():
    m, a = 1024, CASE.ring_step_latency
    tree = collectives.closed_form("broadcast", "binomial_tree")
    # chain, or one by one
    assert float(tree(1e3, m, a, RATE)) < 0.011 * float(HOPS(1e3, m, a, RATE))
    c = round(((m - 2) * 10e9 / (a * RATE)) ** 0.5)
    chain, dealt = (
        float(HOPS(10e9 / c, m + c - 1, a, RATE)),
        collectives.closed_form("broadcast", "scatter_all_gather"),
    )
    assert chain < 0.2 * float(tree(10e9, m, a, RATE)) and chain < float(dealt(10e9, m, a, RATE))


def test_a_slow_nic_holds_up_those_behind_it_only():
    half, last = {}, {}
    for place in (1, 32, 63):
        fabric = star(64)
        bad = fabric.endpoint[place]
        fabric = fabric.with_capacity(
            np.flatnonzero((fabric.source == bad) | (fabric.target == bad)), RATE / 4
        )
        got = run("broadcast", fabric, MODEL, ranks=range(64), way="chain", segments=64).finish[
            -63:
        ]
        half[place], last[place] = np.sort(got)[25], got.max()
    assert half[63] == half[32] < half[1] / 2
    assert last[63] == pytest.approx(last[1], rel=0.02)


@pytest.mark.parametrize("w", [64, 96])
def test_servers_tie_with_a_ring_in_bytes_where_the_answer_says_and_in_time_at_twice_as_many(w):
    job, key = 1e9, find("33-tie").key({"w": w})
    ring = simulate("all_reduce", "ring", star(w), job)

    def served(s):
        t = run("parameter_server", star(2 * w), job, servers=w + np.arange(s), workers=range(w))
        return t.link_bytes.max(), t.end

    load = ring.timeline.link_bytes.max()
    assert served(int(key))[0] == pytest.approx(
        w / int(key) * job
    ) and w / key * job == pytest.approx(load)
    assert served(int(key))[0] > load > served(int(key) + 1)[0]
    assert served(w // 2)[1] > 1.9 * ring.time and served(w)[1] == pytest.approx(
        ring.time, rel=0.05
    )
    # no server more
    shared = run("parameter_server", star(w), job, servers=range(w), workers=range(w))
    assert shared.end == pytest.approx(ring.time) and shared.link_bytes.max() == pytest.approx(load)


@pytest.mark.parametrize("w", [96, 64, 256])
def test_both_whole_numbers_beside_the_tie_are_right(w):
    question = find("33-tie")
    below = int(question.key({"w": w}))
    right = [JUDGES["number"](question, str(below + more), {"w": w})[0] for more in (0, 1, -4, 5)]
    assert right == [True, True, False, False]


def test_one_root_is_held_up_by_its_link_though_adding_takes_no_time():
    full = run("parameter_server", star(N + 1), 1e9, servers=[N], workers=range(N)).link_bytes
    assert full.max() == pytest.approx(N * 1e9) and np.sort(full)[-3] == pytest.approx(1e9)


@pytest.mark.parametrize(("p", "m"), [(8, 16), (4, 32), (4, 8)])
def test_every_schedule_has_the_bubble_of_its_closed_form(p, m):
    key = find("33-bubble").key({"p": p, "m": m})
    scenes = {s: live.bubble(p, m, s).scene for s in ("GPipe", "1F1B", "interleaved")}
    for schedule in ("GPipe", "1F1B"):
        whole = {"schedule": schedule, "stages": p, "m": m, "share": 100 * key}
        assert sentence("live.bubble.said", **whole).search(scenes[schedule].said)
        assert sentence("live.bubble.form", form=100 * key).search(scenes[schedule].hint)
    less = 100 * (p - 1) / (2 * m + p - 1)
    assert sentence("live.bubble.said", share=less).search(scenes["interleaved"].said)


def test_schedules_change_what_the_answer_says():
    for schedule, share, held, sent in (
        ("GPipe", 27.3, 8, 48),
        ("1F1B", 27.3, 4, 48),
        ("interleaved", 15.8, 5.5, 112),
    ):
        scene = live.bubble(4, 8, schedule).scene
        assert sentence("live.bubble.said", share=share).search(scene.said)
        assert sentence("live.bubble.form", held=held, sent=sent).search(scene.hint)


@pytest.mark.parametrize(("m", "a"), [(16, 16e6), (8, 128e6)])
def test_gradients_of_activations_come_back(m, a):
    t = run("pipeline", star(2), a, stages=range(2), microbatches=m, forward=1.0, backward=2.0)
    key = find("33-both-ways").key({"m": m, "a": f"{a / 1e6} MB"})
    assert t.link_bytes.sum() / 2 == pytest.approx(key)  # each message passes two links
    four = run(
        "pipeline", star(4), a, stages=range(4), microbatches=m, forward=1.0, backward=2.0
    ).link_bytes
    # both ends, then the middle
    assert np.sort(four) == pytest.approx(np.repeat([key / 2, key], 4))


def test_staleness_helps_who_is_late_by_chance():
    def step(staleness, late):
        said = live.staleness(staleness, late, 4).scene.said
        return units.time(sentence("live.staleness.said").search(said)["time"])

    assert step(3, "by chance") < 0.9 * step(0, "by chance")
    assert step(3, "nobody") == step(0, "nobody")
    assert step(3, "one worker") > 0.97 * step(0, "one worker")


@pytest.mark.parametrize(("g", "r", "s"), [(1024, 2500, 110e3), (256, 1000, 600e3)])
def test_storage_must_give_what_the_answer_says(g, r, s):
    key = find("33b-stream").key({"g": g, "r": r, "s": f"{s / 1e3} kB"})
    # one storage server for eight of the GPUs
    fabric = topologies.build("crossbar", hosts=9, rate=key * 8 / g)
    t = run(
        "streaming", fabric, s, sources=[8], workers=range(8), compute=1 / r, steps=200, buffers=4
    )
    assert t.end / 200 == pytest.approx(1 / r, rel=0.01)  # exactly as fast as they compute


def test_one_neighbour_gets_half_of_a_nic_where_other_patterns_get_nearly_all():
    kinds = ("sendrecv", "alltoall", "all_gather", "all_reduce")
    pair, all_to_all, gather, add = (
        max(published.load(f"xx_10n_g1_{what}").busbw) / RATE for what in kinds
    )
    assert 0.45 < pair < 0.52 and 0.88 < all_to_all < 0.9 and min(gather, add) > 0.95
