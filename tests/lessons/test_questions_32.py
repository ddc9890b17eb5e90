"""What the questions of lessons 32 to 32c call right and wrong is so in the library and in published sweeps."""

import ast

import numpy as np
import pytest

import fabriclab
from fabriclab import catalog, check, collectives, core, estimate, live, simulate, system, validate
from fabriclab.catalog import published
from fabriclab.course.judges.lessons import lesson32, lesson32b
from fabriclab.course.questions import find
from fabriclab.views.sweeps import crossover
from support.lesson_runs import load
from support.prose import states

RING, SWITCH = published.load("h100x8_ring"), published.load("h100x8_nvls")
RAIL = system(gpu="H100", servers=128, gpus=1, nics=1)
SERVER = system(gpu="H100", servers=1)


def names_of(id):
    """Return the names that a code cell of the lesson makes before its last statement."""
    cell = next(c for c in load("32_choosing_an_algorithm").cells if c.id == id)
    made = {
        "np": np,
        "fl": fabriclab,
        "Result": core.Result,
        "published": published,
        "case": fabriclab.case(),
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
    view = live.sweep(cell["lines"], controls=cell["controls"], latency=2.7, rate=50.0)

    def crossing(**values):
        table = view.set(**{"ranks": 8, "latency": 2.7, "rate": 50.0} | values).scene.table
        curves = [
            np.stack([table["size [B]"], table["time [s]"]])[:, np.array(table["series"]) == how]
            for how in ("ring", "binomial tree")
        ]
        return crossover(*curves)

    at = crossing()
    assert 9.5 < crossing(ranks=128) / at < 11.5  # about ten times
    rule = lesson32.crossover
    assert rule(128, 2.7e-6, 50e9) / rule(8, 2.7e-6, 50e9) == pytest.approx(10.6, abs=0.05)
    assert crossing(latency=20.0) > 5 * at and crossing(rate=100.0) > 1.8 * at
    # what the learner writes is near the mark, which lies between two points of the curves
    assert at == pytest.approx(lesson32.crossover(8, 2.7e-6, 50e9), rel=0.05)
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
    told = [estimate(RAIL, "all_reduce", size) for size in 2.0 ** np.arange(10, 34)]
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
    assert result.busbw[0] == pytest.approx(find("32c-busbw").key({"n": n, "a": f"{a / 1e9} GB/s"}))


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
    job = estimate(RAIL, "all_reduce", case.dp_gradients)
    assert job.low < case.window < job.high and job.time == pytest.approx(0.733, abs=5e-4)


# Functions that learners write ---------------------------------------------------------------------------------------


def by_formula(n, alpha, beta):
    levels = (n - 1).bit_length()
    steps = 2 * (n - 1) - 2 * levels
    arrays = 2 * levels - 2 * (n - 1) / n
    return steps * alpha / (arrays / beta)


def without_the_two(n, alpha, beta):
    levels = np.ceil(np.log2(n))
    return alpha * beta * (n - 1 - levels) / (levels - (n - 1) / n)  # both halves have the same


def by_halving(n, alpha, beta):
    ring = collectives.closed_form("all_reduce", "ring")
    tree = collectives.closed_form("all_reduce", "binomial_tree")
    low, high = 1.0, 1e15
    for _ in range(200):
        middle = (low + high) / 2
        if tree(middle, n, alpha, beta) < ring(middle, n, alpha, beta):
            low = middle
        else:
            high = middle
    return np.float64(low)


def in_whole_bytes(n, alpha, beta):
    return int(by_formula(n, alpha, beta))


@pytest.mark.parametrize("rule", [by_formula, without_the_two, by_halving, in_whole_bytes])
def test_any_right_crossover_is_right(rule):
    assert check("32-write-crossover", rule).data["right"]


def _crossovers():
    return [(*numbers, lesson32.crossover(*numbers)) for numbers in lesson32.systems().values()]


@pytest.mark.parametrize("numbers", _crossovers())
def test_at_the_crossover_both_algorithms_take_equally_long(numbers):
    n, alpha, beta, size = numbers
    times = [
        float(collectives.closed_form("all_reduce", how)(size, n, alpha, beta))
        for how in ("ring", "binomial_tree")
    ]
    assert times[0] == pytest.approx(times[1], rel=1e-9)


def test_the_cases_are_read_from_published_sweeps():
    assert {n for n, *_ in lesson32.systems().values()} == {4, 8, 10, 16, 32, 128}
    ranks, latency, rate = validate.per_step("h100x8_ring")
    assert (ranks, rate) == (8, max(RING.busbw))
    assert latency == pytest.approx(np.median(RING.time[:3]) / 14, rel=1e-3)
    # the tree that has fewer steps needs longer ones to explain the same time
    assert validate.per_step("h100x8_ring", "binomial_tree").latency == pytest.approx(
        14 / 6 * latency, rel=1e-3
    )
    with pytest.raises(KeyError):
        validate.per_step("no such sweep")


def in_lines(data, line, flags):
    return -(-data // (line - flags)) * line


def line_by_line(data, line, flags):
    sent = 0
    while data > 0:
        data -= line - flags
        sent += line
    return np.int64(sent)


@pytest.mark.parametrize("rule", [in_lines, line_by_line])
def test_any_right_count_of_bytes_is_right(rule):
    assert check("32b-write-wire", rule).data["right"]


def test_the_examples_on_paper_agree_with_the_judge():
    assert lesson32.crossover(8, 2.7e-6, 50e9) == pytest.approx(254e3, rel=1e-3)
    assert lesson32.crossover(128, 1.0, 1.0) == pytest.approx(20.0, abs=0.05)
    assert lesson32.crossover(128, 5e-6, 48e9) == pytest.approx(4.8e6, rel=2e-3)
    assert [lesson32b.on_wire(100, *line) for line in ((8, 4), (128, 8))] == [200, 128]
    flags = catalog.nccl_model["ll128"].spec("factor", name="LL128 line efficiency")
    assert (flags.value, 120 / lesson32b.on_wire(120, 128, 8)) == (0.92, 0.9375)


# Inside NCCL ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alternate", [False, True])
def test_eight_rings_carry_nearly_eight_times_as_much(alternate):
    cluster = fabriclab.topologies.build("rail_optimised", servers=8)
    rings = collectives.channel_rings(64, 8, alternate=alternate)
    rates = [
        simulate(
            "all_reduce", "ring", cluster, "1 GiB", method="spray", options={"orders": rings[:k]}
        ).result.busbw[0]
        for k in (1, 8)
    ]
    assert 7.5 < rates[1] / rates[0] <= 8
    assert collectives.spine_crossings(cluster, rings) == (0 if alternate else 64)
    assert sorted(rings[:, 7]) == list(range(8))  # each ring leaves by a NIC of its own


def test_the_plan_of_nccl_is_no_measurement():
    plan = {size: estimate(SERVER, "all_reduce", size).expected for size in ("8 B", "8 GiB")}
    assert plan["8 B"]["Ring/LL"] == pytest.approx(6.6e-6 + 14 * 0.6e-6, rel=1e-3)
    assert RING.at(8) / plan["8 B"]["Ring/LL"] == pytest.approx(2.5, abs=0.05)
    assert RING.at("8 GiB") == pytest.approx(plan["8 GiB"]["Ring/Simple"], rel=0.01)


def test_nvls_leads_at_large_sizes_and_not_in_the_middle():
    part = {int(n): SWITCH.at(n) / RING.at(n) for n in RING.size}
    assert part[2**33] == pytest.approx(0.77, abs=0.005)
    assert part[2**23] == pytest.approx(1.04, abs=0.005)
    ahead = [n for n in part if part[n] > 1 and 2**20 <= n]
    assert ahead == [2**22, 2**23, 2**24]


def test_a_line_of_the_log_counts_channels_from_zero():
    assert "{Lo..Hi}={0..15}" in str(check("32b-log"))
    states(find("32b-log").right, "16", f"{100 * (lesson32b.on_wire(120, 128, 8) / 120 - 1):.0f} %")


# A measured rate -----------------------------------------------------------------------------------------------------


def test_each_factor_from_the_label_has_a_name():
    part = catalog.links["nvlink4"]
    planned = part["links_per_gpu"].si * part["nccl_effective_per_link"].si
    assert planned / part["bandwidth_per_gpu"].si == pytest.approx(0.82, abs=0.005)
    assert max(RING.busbw) / planned == pytest.approx(0.99, abs=0.005)
    assert 1.75 * 2**20 / RING.at(2**20) == pytest.approx(41.3e9, rel=2e-3)


def test_the_order_of_a_ring_is_worth_what_the_lesson_says():
    box = catalog.systems["gigaio-2s-2rp-split-flat"]
    gains = [
        100 * (box[f"busbw_{what}_own_rings"].si / box[f"busbw_{what}_default_rings"].si - 1)
        for what in ("all_reduce", "reduce_scatter", "all_gather")
    ]
    assert [round(gain) for gain in gains] == [17, 30, 50]
