"""What the questions of lesson 33 call right and wrong is so in the library and in published sweeps."""

import numpy as np
import pytest

from fabriclab import catalog, collectives, engines, live, routing, simulate, topologies, workload
from fabriclab.catalog import published
from fabriclab.checks.questions import find

CASE = catalog.case()
MODEL, N, RATE = 2 * CASE.parameters, CASE.servers, CASE.nic_rate
HOPS = collectives.closed_form("broadcast", "ring")


def run(pattern, fabric, size, **options):
    flows = workload.build(pattern, fabric, size, **options)
    return engines.run(fabric, routing.route(fabric, flows), flows)


def star(hosts):
    return topologies.build("crossbar", hosts=hosts, rate=RATE)


@pytest.mark.parametrize(("n", "c"), [(127, 256), (31, 256), (63, 64)])
def test_a_chain_takes_as_many_copies_as_the_answer_says(n, c):
    key = find("33-chain").key({"n": n, "c": c})
    simulated = run("broadcast", star(n + 1), MODEL, ranks=range(n + 1), way="chain", segments=c).end
    assert simulated * RATE / MODEL == pytest.approx(key, rel=1e-4)
    assert float(HOPS(MODEL / c, n + c, 0.0, RATE)) * RATE / MODEL == pytest.approx(key)


def test_a_chain_in_pieces_beats_the_other_schedules_of_the_choice():
    ways = {"chain": 256, "tree": 1, "one_root": 1}
    chain, tree, one = (run("broadcast", star(N), MODEL, ranks=range(N), way=w, segments=s).end
                        for w, s in ways.items())  # fmt: skip
    at_once = simulate("broadcast", "one_root", star(N), MODEL).time
    assert 4 * chain < tree < one / 10 and at_once == pytest.approx(one, rel=1e-3)
    assert float(HOPS(MODEL / 8192, N + 8191, 0.0, RATE)) == pytest.approx(2.87, abs=5e-3)
    assert at_once == pytest.approx(358, abs=0.5)


@pytest.mark.parametrize(("n", "s", "b", "a"), [(101, 100e9, 50e9, 20e-6), (26, 16e9, 25e9, 5e-6)])
def test_no_other_number_of_pieces_is_quicker(n, s, b, a):
    key = find("33-pieces").key({"n": n, "s": f"{s / 1e9} GB", "b": f"{b / 1e9} GB/s", "a": f"{a * 1e6} us"})
    at, fewer, more = (float(HOPS(s / c, n + c, a, b)) for c in map(round, (key, key * 0.95, key * 1.05)))
    assert at < min(fewer, more)


def test_a_small_file_wants_few_starts_and_a_large_one_all_cards():
    m, a = 1024, CASE.ring_step_latency
    tree = collectives.closed_form("broadcast", "binomial_tree")
    assert float(tree(1e3, m, a, RATE)) < 0.011 * float(HOPS(1e3, m, a, RATE))  # chain, or one by one
    c = round(((m - 2) * 10e9 / (a * RATE)) ** 0.5)
    assert float(HOPS(10e9 / c, m + c - 1, a, RATE)) < 0.2 * float(tree(10e9, m, a, RATE))


def test_a_slow_card_holds_up_those_behind_it_only():
    half, last = {}, {}
    for place in (1, 32, 63):
        fabric = star(64)
        bad = fabric.endpoint[place]
        fabric = fabric.with_capacity(np.flatnonzero((fabric.source == bad) | (fabric.target == bad)), RATE / 4)
        got = run("broadcast", fabric, MODEL, ranks=range(64), way="chain", segments=64).finish[-63:]
        half[place], last[place] = np.sort(got)[25], got.max()
    assert half[63] == half[32] < half[1] / 2
    assert last[63] == pytest.approx(last[1], rel=0.02)


@pytest.mark.parametrize("w", [32, 64])
def test_servers_tie_with_a_ring_in_bytes_where_the_answer_says_and_in_time_at_twice_as_many(w):
    job, key = 1e9, find("33-tie").key({"w": w})
    ring = simulate("all_reduce", "ring", star(w), job)

    def served(s):
        t = run("parameter_server", star(2 * w), job, servers=w + np.arange(s), workers=range(w))
        return t.link_bytes.max(), t.end

    load = ring.timeline.link_bytes.max()
    assert served(int(key))[0] == pytest.approx(w / int(key) * job) and w / key * job == pytest.approx(load)
    assert served(int(key))[0] > load > served(int(key) + 1)[0]
    assert served(w // 2)[1] > 1.9 * ring.time and served(w)[1] == pytest.approx(ring.time, rel=0.05)


def test_one_root_is_held_up_by_its_link_though_adding_takes_no_time():
    full = run("parameter_server", star(N + 1), 1e9, servers=[N], workers=range(N)).link_bytes
    assert full.max() == pytest.approx(N * 1e9) and np.sort(full)[-3] == pytest.approx(1e9)
    assert CASE.ledger_one_root / CASE.t_step == pytest.approx(20, abs=0.5)


@pytest.mark.parametrize(("p", "m"), [(8, 16), (4, 32), (4, 8)])
def test_every_schedule_has_the_bubble_of_its_closed_form(p, m):
    key = find("33-bubble").key({"p": p, "m": m})
    said = {s: live.bubble(p, m, s).scene.said for s in ("GPipe", "1F1B", "interleaved")}
    assert f"{100 * key:.1f} % of the time is bubble, the closed form says {100 * key:.1f} %" in said["GPipe"]
    assert said["1F1B"].split("%")[0].removeprefix("1F1B") == said["GPipe"].split("%")[0].removeprefix("GPipe")
    assert f"{100 * (p - 1) / (2 * m + p - 1):.1f} % of the time is bubble" in said["interleaved"]


def test_schedules_change_what_the_answer_says():
    gpipe, f1b, inter = (live.bubble(4, 8, s).scene.said for s in ("GPipe", "1F1B", "interleaved"))
    for said, parts in ((gpipe, ("27.3 %", "most 8", "48 m")), (f1b, ("27.3 %", "most 4", "48 m")),
                        (inter, ("15.8 %", "most 5.5", "112 m"))):  # fmt: skip
        assert all(part in said for part in parts), said


@pytest.mark.parametrize(("m", "a"), [(16, 16e6), (8, 128e6)])
def test_gradients_of_activations_come_back(m, a):
    t = run("pipeline", star(2), a, stages=range(2), microbatches=m, forward=1.0, backward=2.0)
    key = find("33-both-ways").key({"m": m, "a": f"{a / 1e6} MB"})
    assert t.link_bytes.sum() / 2 == pytest.approx(key)  # each message passes two links


def test_staleness_helps_who_is_late_by_chance():
    def step(staleness, late):
        return float(live.staleness(staleness, late, 4).scene.said.split("takes ")[1].split(" s")[0])

    assert step(3, "by chance") < 0.9 * step(0, "by chance")
    assert step(3, "nobody") == step(0, "nobody")
    assert step(3, "one worker") > 0.97 * step(0, "one worker")


@pytest.mark.parametrize(("g", "r", "s"), [(1024, 2500, 110e3), (256, 1000, 600e3)])
def test_storage_must_give_what_the_answer_says(g, r, s):
    key = find("33-stream").key({"g": g, "r": r, "s": f"{s / 1e3} kB"})
    fabric = topologies.build("crossbar", hosts=9, rate=key * 8 / g)  # one storage server for eight of the GPUs
    t = run("streaming", fabric, s, sources=[8], workers=range(8), compute=1 / r, steps=200, buffers=4)
    assert t.end / 200 == pytest.approx(1 / r, rel=0.01)  # exactly as fast as they compute


def test_point_to_point_gets_half_of_a_card_where_a_ring_gets_nearly_all():
    pair, ring = (published.load(f"xx_10n_g1_{what}") for what in ("sendrecv", "all_reduce"))
    assert 0.45 < max(pair.busbw) / RATE < 0.52 and max(ring.busbw) / RATE > 0.97
