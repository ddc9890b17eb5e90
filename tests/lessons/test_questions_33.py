"""What the questions of lesson 33 call right and wrong is so in the library and in published sweeps."""

import itertools

import numpy as np
import pytest

from fabriclab import (
    catalog,
    collectives,
    engines,
    live,
    routing,
    simulate,
    topologies,
    units,
    workload,
)
from fabriclab.catalog import published
from fabriclab.course.judges.answers import JUDGES
from fabriclab.course.questions import find
from support.prose import sentence

CASE = catalog.case()
MODEL, N, RATE = 2 * CASE.parameters, CASE.servers, CASE.nic_rate
HOPS = collectives.closed_form("broadcast", "ring")


def run(pattern, fabric, size, **options):
    flows = workload.build(pattern, fabric, size, **options)
    return engines.run(fabric, routing.route(fabric, flows), flows)


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


@pytest.mark.parametrize(
    ("n", "s", "b", "a"),
    [*itertools.product((102, 27), (100e9, 400e9), (50e9, 25e9), (20e-6, 5e-6))],
)
def test_no_other_number_of_pieces_is_quicker_and_the_best_is_as_flat_as_the_question_says(
    n, s, b, a
):
    key = find("33-pieces").key(
        {"n": n, "s": f"{s / 1e9} GB", "b": f"{b / 1e9} GB/s", "a": f"{a * 1e6} us"}
    )
    ends = key * np.array(
        [1, 0.95, 1.05, 1 - find("33-pieces").tolerance, 1 + find("33-pieces").tolerance]
    )
    at, fewer, more, least, most = (float(HOPS(s / c, n + c - 1, a, b)) for c in map(round, ends))
    assert at < min(fewer, more) and max(least, most) < 1.01 * at


def test_a_small_file_wants_few_starts_and_a_large_one_all_cards():
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


def test_a_slow_card_holds_up_those_behind_it_only():
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
    key = find("33-stream").key({"g": g, "r": r, "s": f"{s / 1e3} kB"})
    # one storage server for eight of the GPUs
    fabric = topologies.build("crossbar", hosts=9, rate=key * 8 / g)
    t = run(
        "streaming", fabric, s, sources=[8], workers=range(8), compute=1 / r, steps=200, buffers=4
    )
    assert t.end / 200 == pytest.approx(1 / r, rel=0.01)  # exactly as fast as they compute


def test_one_neighbour_gets_half_of_a_card_where_other_patterns_get_nearly_all():
    kinds = ("sendrecv", "alltoall", "all_gather", "all_reduce")
    pair, all_to_all, gather, add = (
        max(published.load(f"xx_10n_g1_{what}").busbw) / RATE for what in kinds
    )
    assert 0.45 < pair < 0.52 and 0.88 < all_to_all < 0.9 and min(gather, add) > 0.95
