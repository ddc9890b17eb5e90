"""What the questions of lesson 32 call right and wrong is so in the library and in published sweeps."""

import ast

import numpy as np
import pytest

from fabriclab import catalog, collectives, core, estimate, live, simulate, validate
from fabriclab.catalog import published
from fabriclab.course.questions import find
from fabriclab.views.sweeps import crossover
from support.lesson_runs import load

RING, SWITCH = published.load("h100x8_ring"), published.load("h100x8_nvls")
KNOWN = {row["sweep_id"]: row for row in published.systems()}
RAIL = {**KNOWN["xx_10n_g1_all_reduce"], "ranks": 128, "nodes": 128}


def names_of(id):
    """Return the names that a code cell of the lesson makes before its last statement."""
    cell = next(c for c in load("32_choosing_an_algorithm").cells if c.id == id)
    import fabriclab

    made = {
        "np": np,
        "fl": fabriclab,
        "Result": core.Result,
        "ten": published.load("xx_10n_g1_all_reduce"),
    }
    exec(compile(ast.Module(ast.parse(cell.source).body[:-1], []), id, "exec"), made)
    return made


@pytest.mark.parametrize(("n", "t"), [(32, 10e-6), (128, 14e-6), (8, 2.7e-6)])
def test_a_ring_has_as_many_starts_as_the_answer_says(n, t):
    form = collectives.closed_form("all_reduce", "ring")
    key = find("32-steps").key({"n": n, "t": f"{t * 1e6} us"})
    assert (
        float(form(1e-9, n, t, 1e9))
        == pytest.approx(key)
        == pytest.approx(collectives.build("all_reduce", "ring", n).n_steps * t)
    )


def test_where_only_bytes_count_a_tree_takes_longest():
    times = {
        how: float(collectives.closed_form("all_reduce", how)(1e9, 128, 0.0, 1e9))
        for how in ("binomial_tree", "ring", "halving_doubling")
    }
    assert (
        times["ring"] == pytest.approx(times["halving_doubling"])
        and times["binomial_tree"] > 7 * times["ring"]
    )


def test_the_sweep_says_what_the_lesson_says_of_it():
    small, mid, half = (RING.at(size) for size in (8, "1 MiB", "8 MiB"))
    assert (small, mid / small) == (pytest.approx(37.33e-6), pytest.approx(1.19, abs=0.005))
    assert (
        RING.busbw[RING.size == 2**23] < max(RING.busbw) / 2 < RING.busbw[RING.size == 2**24]
        and half > mid
    )


def test_only_sizes_far_above_half_of_the_peak_show_the_bandwidth():
    peak, alone = max(RING.algbw), RING.algbw
    far = RING.size > 16 * RING.size[RING.busbw > max(RING.busbw) / 2][0]
    assert min(alone[far]) > 0.9 * peak
    assert (
        alone.mean() < 0.4 * peak and alone[0] < 1e-3 * peak and alone[len(alone) // 2] < 0.1 * peak
    )


@pytest.mark.parametrize(("a", "b", "s"), [(10, 50, 2000), (15, 25, 4000), (10, 25, 2000)])
def test_a_message_takes_its_start_and_its_bytes(a, b, s):
    time = collectives.closed_form("send_recv", "direct")(s * 1e3, 2, a * 1e-6, b * 1e9)
    key = find("32-alpha-beta").key({"a": f"{a} us", "b": f"{b} GB/s", "s": f"{s} kB"})
    assert float(time) == pytest.approx(key)


def test_each_control_moves_the_crossing_as_the_answer_says():
    cell = names_of("32-race")
    view = live.sweep(cell["lines"], controls=cell["hands"], start=2.7, rate=50.0)

    def crossing(**values):
        table = view.set(**{"ranks": 8, "start": 2.7, "rate": 50.0} | values).scene.table
        curves = [
            np.stack([table["size [B]"], table["time [s]"]])[:, np.array(table["series"]) == how]
            for how in ("ring", "binomial tree")
        ]
        return crossover(*curves)

    at = crossing()
    assert crossing(ranks=128) > 5 * at
    assert crossing(start=20.0) > 5 * at and crossing(rate=100.0) > 1.8 * at
    wide = {how: made.time for how, made in cell["lines"](128, 2.7, 50.0).items()}
    # as the prose says
    assert all(np.all(wide["halving_doubling"] < wide[how]) for how in ("ring", "binomial_tree"))


@pytest.mark.parametrize(("b", "d"), [(50e9, 10e-6), (25e9, 5e-6), (400e9, 20e-6)])
def test_the_quick_protocol_wins_below_the_answer(b, d):
    key = find("32-crossover").key({"b": f"{b / 1e9} GB/s", "d": f"{d * 1e6} us"})
    form = collectives.closed_form("send_recv", "direct")
    for part, wins in ((0.99, True), (1.01, False)):
        slow_start, half_rate = (
            float(form(part * key, 2, 50e-6, b)),
            float(form(part * key, 2, 50e-6 - d, b / 2)),
        )
        assert (half_rate < slow_start) is wins


def test_nccl_takes_what_the_answer_says_in_this_order():
    told = [estimate(RAIL, size=size) for size in 2.0 ** np.arange(10, 34)]
    took = [f"{t.algorithm}/{t.protocol}" for t in told]
    assert list(dict.fromkeys(took)) == ["Tree/LL", "Tree/LL128", "Ring/LL128", "Ring/Simple"]
    assert took == sorted(took, key=list(dict.fromkeys(took)).index)  # none comes back
    first = told[3].expected
    assert first["Ring/Simple"] / min(first.values()) == pytest.approx(45, abs=0.5)


def test_a_fit_looks_better_than_what_it_has_not_seen():
    unseen, fitted, *_ = (part.rows for part in validate.report().parts.values())
    ours, book, other = unseen[:3]
    best = next(row for row in fitted if row["model"] == "calibrated")
    for regime in ("lat", "bw"):
        assert (
            best[regime] < ours[regime] < book[regime] < other[regime]
            and ours[f"{regime}_p90"] > 2 * ours[regime]
        )
    alone = next(row for row in unseen if row["model"].startswith("only system"))
    assert alone["bw"] > 5 * ours["bw"]  # rates of data sheets are no answer either
    beside = unseen[unseen.index(alone) + 2]
    told = [round(100 * x) for x in (other["bw"], other["lat"], beside["lat"], alone["lat"])]
    assert told == [20, 75, 46, 64]  # as the lesson and the teacher's sheet say


@pytest.mark.parametrize(("s", "c", "b"), [(1e9, 12e9, 50e9), (2e9, 20e9, 25e9)])
def test_in_small_pieces_the_slowest_part_sets_the_time(s, c, b):
    make = core.FabricBuilder(("gpu",), ())
    ends = make.add_nodes("gpu", 3, tier=0, transit=False)
    make.add_cables(ends[:2], ends[1:], capacity=[c, b])
    chain = make.build("chain", {}, endpoint=ends, rail=[-1] * 3, server=ends)
    key = find("32-pipeline").key(
        {"s": f"{s / 1e9} GB", "c": f"{c / 1e9} GB/s", "b": f"{b / 1e9} GB/s"}
    )
    run = {
        k: simulate("broadcast", "ring", chain, s, segments=k, pipelined=True).time
        for k in (1, 1000)
    }
    assert run[1000] == pytest.approx(key, rel=5e-3)
    assert run[1] == pytest.approx(s / c + s / b)


@pytest.mark.parametrize(("n", "a"), [(8, 200e9), (4, 120e9), (16, 47e9)])
def test_busbw_is_what_a_result_says(n, a):
    result = core.Result("all_reduce", "predicted", [1e9], [1e9 / a], n)
    assert result.busbw[0] == pytest.approx(find("32-busbw").key({"n": n, "a": f"{a / 1e9} GB/s"}))


def test_busbw_of_a_ring_is_held_against_one_direction():
    one, label = (
        catalog.links["nvlink4"].spec("bandwidth_per_gpu", direction=way).value * 1e9
        for way in ("per_direction", "bidirectional_sum")
    )
    # the wrong answer sees a quarter
    assert 0.8 < max(RING.busbw) / one < 1 and max(RING.algbw) / label < 0.25
    assert catalog.value("nccl_model", "ll128", "factor") == pytest.approx(0.92)
    assert RING.time[0] == pytest.approx(SWITCH.time[0], rel=0.5) and max(
        SWITCH.busbw
    ) > 1.25 * max(RING.busbw)


def test_the_band_of_our_gradients_holds_their_window():
    case = catalog.case()
    job = estimate(RAIL, size=case.dp_gradients)
    assert job.low < case.window < job.high and job.time == pytest.approx(0.733, abs=5e-4)
