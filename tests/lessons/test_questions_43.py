"""What the questions of lessons 43 to 43c call right is right by the library, and by what the lessons show."""

import json
import re

import numpy as np
import pytest

from fabriclab import catalog, simulate, topologies
from fabriclab.course.checks import check
from fabriclab.course.judges.lessons import lesson43, lesson43b
from fabriclab.course.questions import find
from fabriclab.innetwork import Switch, compare, nvls, quantisation, trees
from fabriclab.innetwork.aggregation import Aggregator, Worker
from fabriclab.innetwork.network import aggregate
from support.lesson_runs import FILES
from support.prose import states

LESSONS = ("43_in_network_computing", "43b_slots_numbers_and_tenants", "43c_check_a_claim")
CELLS = {
    cell["id"]: "".join(cell["source"])
    for name in LESSONS
    for cell in json.loads(FILES[name].read_text("utf-8"))["cells"]
}


def passed(way, n):
    """Return the bytes that pass the fullest port each way, as a part of the array."""
    star = topologies.build("crossbar", hosts=n)
    run = simulate(
        "all_reduce", way, star, float(n), switches=star.nodes("switch") if way != "ring" else None
    )
    return run.timeline.link_bytes.max() / n


@pytest.mark.parametrize("n", [4, 5, 8, 16])
def test_gains_by_bytes_are_those_of_schedules_and_of_both_bounds(n):
    ring = passed("ring", n)
    tree, server = find("43-tree").key({"n": n}), find("43-server").key({"n": n})
    assert (
        ring / passed("aggregation_tree", n)
        == pytest.approx(tree)
        == pytest.approx(compare.bound(n))
    )
    assert (
        ring / passed("nvls_two_shot", n) == pytest.approx(server) == pytest.approx(nvls.bound(n))
    )


def test_eight_gpus_gain_129_of_156_and_four_gain_nothing_of_120():
    assert [round(nvls.bound(n), 2) for n in (8, 4, 2)] == [1.56, 1.2, 0.67]
    assert [round(nvls.measured(n, "Hopper"), 2) for n in (8, 4)] == [1.29, 1.0]
    states(find("43-gap").words.prompt, f"{nvls.measured(8, 'Hopper'):.2f}", f"{nvls.bound(8):.2f}")
    ring, free = (
        catalog.value("measured", "h200-n", f"busbw{way}", name="8x H200 all-reduce 8 GiB")
        for way in ("_ring", "")
    )
    port = catalog.case().nvlink_per_gpu  # of H100 and H200
    # bus bandwidth counts 2 (n - 1) / n of the array, NVLS passes (n + 1) / n
    own = free / 1.75 * 9 / 8
    assert (round(ring / port, 2), round(own / port, 2)) == (0.81, 0.68)


def test_the_lesson_says_how_near_a_tie_four_gpus_are():
    four = nvls.around("Hopper")[1]
    states(CELLS["43-gain-why"], f"{four['NVLS']:.3f}", f"{four['other rate']:.3f}")
    assert "tie" in find("43-four").words.prompt
    states(
        find("43-four").words.hints[2], f"{nvls.efficiency('Hopper'):.2f}", f"{nvls.bound(4):.2f}"
    )
    states(find("43-four").words.explanation, "4", "3")
    errors = [
        abs(nvls.default_gain(n, g) / nvls.measured(n, g) - 1)
        for g in ("Hopper", "Blackwell")
        for n in range(4, 8)
    ]
    assert max(errors) < 0.0255  # "within 2.5 %"


def test_gains_above_their_bound_are_published():
    above = [r for r in compare.gains() if r["above"]]
    assert (
        (5.5, 2.0) in [(r["low"], r["bound"]) for r in above]
        and len(above) == 3
        and "5.5" in find("43c-above").words.prompt
    )


@pytest.mark.parametrize(("n", "p"), [(4, 0.05), (2, 0.01)])
def test_first_tries_fail_as_often_as_the_answer_says(n, p):
    rng = np.random.default_rng(1)
    up, down = rng.random((200_000, n)) < p, rng.random(200_000) < p
    key = find("43-lost").key({"n": n, "p": f"{100 * p:g} %"})
    assert np.mean(up.any(axis=1) | down) == pytest.approx(key, abs=4e-3)
    values = rng.integers(-9, 9, (n, 2000, 4))
    team = [Worker(i, v, 64) for i, v in enumerate(values)]
    sim = aggregate(team, Switch(Aggregator(n, 64, lanes=4)), loss=p)
    # Of second tries some fail again, since workers try at different times.
    assert key < sim.packets["again"] / values[..., 0].size < 1.8 * key


def test_the_log_says_what_the_answers_say():
    log = re.findall(r"nranks (\d+)|AllReduce: 536870912 Bytes -> Algo (\w+)", CELLS["43c-log"])
    assert [ranks or way for ranks, way in log] == ["8", "NVLS", "4", "RING"]
    ran = re.findall(r"nvls|ring|\d+", find("43c-ran").right.lower())
    assert ran == ["nvls", "8", "ring", "4"]
    assert (
        "NCCL_ALGO set by environment" in CELLS["43c-log"]
        and "multicast support is available" in CELLS["43c-log"]
    )
    # by the library's own rule
    assert nvls.chosen(8, "Blackwell") and not nvls.chosen(4, "Blackwell")


def test_a_host_of_a_ring_adds_what_the_answer_says_and_in_the_network_nothing():
    found = compare.compare(topologies.build("fat_tree", k=4), "16 MB")
    assert found["ring"].added == find("43-work").key({"n": 16, "s": "16 MB"})
    assert {found[way].added for way in ("low_latency", "streaming", "program")} == {0.0}


def test_low_latency_trees_take_their_time_for_each_operation():
    mode = trees.Mode.sharp(False)
    assert (mode.payload, f"{mode.seconds * 1e6:.2f}") == (1024, "0.78")
    found = compare.compare(topologies.build("fat_tree", k=4), "16 MiB")
    assert found["low_latency"].messages == 16384
    assert found["low_latency"].time == pytest.approx(16384 * mode.seconds, rel=0.01)


def test_so_many_slots_fill_a_link_as_the_answer_says():
    mode = compare.program(4, 4)
    assert mode.payload + mode.header == 332
    key = find("43b-slots").key({"r": "100 Gb/s", "t": "2 us", "p": "332 B"})
    star = topologies.build("crossbar", hosts=4, rate="100 Gb/s", delay="0.4 us")
    for slots in (0.9 * key, 1.1 * key):
        tree = trees.grow(star, range(4), compare.program(4, 4, slots=round(slots)))
        trip = tree.round_trip(332)
        full = tree.limit() == 12.5e9
        assert full == (
            round(slots)
            >= find("43b-slots").key({"r": "100 Gb/s", "t": f"{trip * 1e6!r} us", "p": "332 B"})
        )


@pytest.mark.parametrize(("n", "b"), [(8, 20), (16, 24)])
def test_sums_of_integers_are_off_by_what_the_answer_says_at_most(n, b):
    key = find("43b-scale").key({"n": n, "b": b})
    assert quantisation.error_bound(n, 2.0**b) == pytest.approx(key, rel=1e-5)
    half = np.full((n, 1, 4), 0.5 / 2**b, np.float32)  # each is rounded by half a step, to 0
    total = quantisation.quantise(half, [2.0**b]).sum(axis=0)
    assert np.abs(
        quantisation.dequantise(total, [2.0**b]) - half.sum(axis=0)
    ).max() == pytest.approx(key)


def test_four_roots_hold_a_tree_each_and_the_fifth_job_gets_none():
    manager = trees.Manager(topologies.build("fat_tree", k=4), trees=1)
    for first in range(4):
        manager.start("ABCD"[first], range(first, 16, 5), streaming=True)
    roots = {int(t.switches[-1]) for t in manager.jobs.values()}
    assert roots == set(manager.fabric.nodes("core").tolist())
    with pytest.raises(
        trees.OutOfSlots, match="core 0 by A; core 2 by B; core 1 by C; core 3 by D"
    ):
        manager.start("E", range(4, 16, 5), streaming=True)


@pytest.mark.parametrize(("jobs", "moves"), [("ABCD", False), ("ABC", False), ("ACD", True)])
def test_a_free_root_helps_only_if_its_links_are_free(jobs, moves):
    manager = trees.Manager(topologies.build("fat_tree", k=4), trees=1)
    for job in jobs:
        manager.start(job, range("ABCD".index(job), 16, 4), streaming=True)
    found = manager.fail(int(manager.jobs["A"].switches[-1]))
    assert {job: tree is not None for job, tree in found.items()} == {"A": moves}


# Functions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("algorithm", "n"), lesson43.PORTS[:5])
def test_arrays_of_a_port_are_those_that_the_library_sends(algorithm, n):
    way = {"ring": "ring", "tree": "aggregation_tree", "NVLS": "nvls_two_shot"}[algorithm]
    assert passed(way, n) == pytest.approx(lesson43.arrays_per_port(algorithm, n))


def by_blocks(algorithm, n):
    blocks = {"ring": 2 * (n - 1), "tree": n, "NVLS": n + 1}[algorithm]
    return np.float32(blocks) / np.float32(n)


def in_fractions(algorithm, n):
    if algorithm == "ring":
        return 2 - 2 / n
    return 1 + (algorithm == "NVLS") / n


@pytest.mark.parametrize("rule", [by_blocks, in_fractions])
def test_a_right_number_of_arrays_is_right(rule):
    assert check("43-write-arrays", rule).data["right"]


def of_numpy(newest):
    return np.min(newest) + 1


def first_that_somebody_needs(newest):
    """Look for the first chunk that is written over a sum that is not proved to have arrived."""
    chunk = 0
    while all(sent - 1 >= chunk - 2 for sent in newest):
        chunk += 1
    return chunk - 1


def sorted_first(newest):
    newest.sort()
    return newest[0] + 1


@pytest.mark.parametrize("rule", [of_numpy, first_that_somebody_needs, sorted_first])
def test_a_right_rule_for_a_free_slot_is_right(rule):
    assert check("43-write-free", rule).data["right"]


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_the_protocol_never_overwrites_a_sum_that_somebody_needs(loss, monkeypatch):
    """Each packet that the switch adds belongs to a chunk for which the slot is free, by the rule of the lesson."""
    workers, chunks = 3, 40
    newest = [-1] * workers
    switch = Switch(Aggregator(workers, 1, lanes=2))
    one = switch.one

    def watched(header, payload):
        worker, chunk = header["worker"], header["chunk"]
        newest[worker] = max(newest[worker], chunk)
        if chunk >= 2:
            others = [sent for place, sent in enumerate(newest) if place != worker]
            assert chunk <= lesson43.free_for(others)
        return one(header, payload)

    monkeypatch.setattr(switch, "one", watched)
    values = np.arange(workers * chunks * 2).reshape(workers, chunks, 2)
    team = [Worker(place, rows, 1) for place, rows in enumerate(values)]
    ran = aggregate(team, switch, loss=loss)
    assert all(np.array_equal(total, values.sum(axis=0)) for total in ran.totals)


def in_whole_numbers(largest, workers):
    return (2**31 - 1) // int(workers * largest) if largest >= 1 else 2**31 / workers / largest


def with_room_for_rounding(largest, workers):
    return (2**31 - 1 - workers / 2) / (workers * largest)


@pytest.mark.parametrize("rule", [in_whole_numbers, with_room_for_rounding])
def test_a_right_scale_is_right(rule):
    assert check("43b-write-scale", rule).data["right"]


@pytest.mark.parametrize(("largest", "workers"), lesson43b.BLOCKS)
def test_beyond_the_largest_scale_sums_overflow_and_below_it_they_do_not(largest, workers):
    scale = lesson43b.largest_scale(largest, workers)
    assert not quantisation.overflows(largest, workers, 0.999999 * scale)
    assert quantisation.overflows(largest, workers, 1.00001 * scale)


# What the lessons say ---------------------------------------------------------------------------


def test_low_latency_is_near_a_run_that_had_no_part_in_the_model():
    """Of eight hosts, published in 2023; the time of an operation is of 2016."""
    star = topologies.build("crossbar", hosts=8)
    tree = trees.grow(star, range(8), trees.Mode.sharp(False))
    ratios = []
    for size in ("8 KiB", "128 KiB", "2 MiB"):
        name = f"8 hosts, SHARP low latency, array of {size}"
        published = catalog.value("measured", "sharp-llt-8", "time", name=name)
        ratios.append(trees.run([tree], size, lag="1 us").end / published)
    assert 0.86 < min(ratios) and max(ratios) < 0.925


def test_numbers_of_trees_are_those_of_the_release_notes():
    most = [catalog.value("switches", part, "trees_in_subnet") for part in ("sharp2", "sharp3")]
    assert most == [126, 1023]
    assert "SHARP 3.13" in catalog.cite("SHARP-3130")
