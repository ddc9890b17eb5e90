"""Collectives: executed on real buffers they equal numpy, timed they meet closed forms and bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import collectives, registry, units
from fabriclab.collectives import bounds, build, execute, expected
from fabriclab.collectives._definition import at_root, define, own
from fabriclab.collectives._running import _OPS
from fabriclab.core import Schedule, StepGroup

NAMES = registry.names("collective")
HOST_ONLY = {"all_reduce": 2.0, "reduce_scatter": 1.0, "all_gather": 1.0, "broadcast": None}


def host_only(collective, n):
    """Return the least part of the array that the busiest rank sends where only hosts add and copy."""
    factor = HOST_ONLY[collective]
    return float(n > 1) if factor is None else factor * (n - 1) / n


def inputs(collective, n, count, rng, dtype=np.int64):
    """Return random buffers in the form that `execute` takes."""
    if collective == "broadcast":
        return rng.integers(-1000, 1000, count).astype(dtype)
    if collective == "all_gather":
        return np.array_split(rng.integers(-1000, 1000, count).astype(dtype), n)
    return [rng.integers(-1000, 1000, count).astype(dtype) for _ in range(n)]


def at_once(schedule):
    """Return the most messages that one rank sends, or takes in, in one step."""
    most = 0
    for step in schedule.steps():
        most = max(most, np.bincount(step.source).max(), np.bincount(step.target).max())
    return most


def crossbar(schedule, size, alpha, beta, gamma, *, contention):
    """Time a schedule on a crossbar step by step: the busiest port, or the longest transfer, and the busiest adder."""
    total = 0.0
    for step in schedule.steps():
        moved = step.count * size / (schedule.n_blocks * schedule.segments)
        ports = [np.bincount(end, weights=moved).max() for end in (step.source, step.target)]
        added = np.bincount(step.target, weights=moved * step.reduce).max()
        total += alpha + (max(ports) if contention else moved.max()) / beta + gamma * added
    return total


# ------------------------------------------------------------------ by hand


def test_three_ranks_by_hand():
    a, b, c = np.array([1, 2, 3, 4]), np.array([10, 20, 30, 40]), np.array([100, 200, 300, 400])
    assert [x.tolist() for x in execute(build("all_reduce", "ring", 3), [a, b, c])] == [[111, 222, 333, 444]] * 3
    # Four elements on three ranks: the first block is longer.
    scattered = execute(build("reduce_scatter", "ring", 3), [a, b, c])
    assert [x.tolist() for x in scattered] == [[111, 222], [333], [444]]
    gathered = execute(build("all_gather", "ring", 3), [a[:2], b[:1], c[:1]])
    assert [x.tolist() for x in gathered] == [[1, 2, 10, 100]] * 3
    assert [x.tolist() for x in execute(build("broadcast", "ring", 3, root=1), a)] == [[1, 2, 3, 4]] * 3


def test_a_step_reads_what_was_there_before_it():
    swap = Schedule("all_reduce", "by hand", 2, 1, (StepGroup.make([0, 1], [1, 0], reduce=False),))
    assert [x.tolist() for x in execute(swap, [np.array([7]), np.array([9])])] == [[9], [7]]


def test_a_switch_that_adds_starts_empty():
    up, down = StepGroup.make([0, 1], 2, reduce=True), StepGroup.make(2, [0, 1], reduce=False)
    tree = Schedule("all_reduce", "by hand", 2, 1, (up, down), n_switches=1)
    assert [x.tolist() for x in execute(tree, [np.array([3]), np.array([5])], np.maximum)] == [[5], [5]]
    assert [x.tolist() for x in execute(tree, [np.array([-3]), np.array([-5])], np.maximum)] == [[-3], [-3]]


def test_the_naive_root_against_the_ring_by_hand():
    naive, ring = build("all_reduce", "one_root", 128), build("all_reduce", "ring", 128)
    assert [g.n_transfers for g in naive.groups] == [127, 127]
    assert naive.received()[0] == 127
    assert naive.sent()[0] == 127
    assert ring.sent().max() == pytest.approx(2 * 127 / 128)
    # Bytes at the busiest port differ by n / 2, times by n: the root sends only after the sum is complete.
    assert naive.sent().max() / ring.sent().max() == pytest.approx(64)
    forms = [collectives.closed_form("all_reduce", a)(17.6e9, 128, 0, 50e9) for a in ("one_root", "ring")]
    assert forms == pytest.approx([89.408, 0.6985], rel=1e-9)


def test_the_two_butterflies_by_hand():
    doubling, halving = build("all_reduce", "recursive_doubling", 8), build("all_reduce", "halving_doubling", 8)
    assert (doubling.n_steps, halving.n_steps) == (3, 6)
    assert doubling.sent().tolist() == [3] * 8
    assert halving.sent().tolist() == [2 * 7 / 8] * 8


def test_bounds_by_hand():
    port, cut, latency = bounds(
        "all_reduce", 8, "8 GB", port_rate="1 GB/s", alpha="1 us", messages=1, cuts=[(2, "2 GB/s")]
    )
    assert (port.name, port.seconds) == ("port", 14.0)
    assert (cut.name, cut.seconds) == ("cut of 2 groups", 4.0)
    assert (latency.name, latency.seconds) == ("latency", pytest.approx(3e-6))
    assert collectives.binding((port, cut, latency)) is port
    # One root sends to all seven at once: without a limit on messages there is one round.
    (free,) = bounds("all_reduce", 8, "8 GB", alpha="1 us")
    assert (free.seconds, free.formula) == (pytest.approx(1e-6), "alpha")
    assert "any number" in free.model
    assert bounds("all_reduce", 1, 8, alpha="1 us")[0].seconds == 0
    narrow = bounds("all_reduce", 8, "8 GB", port_rate="1 GB/s", cuts=[(2, "0.25 GB/s")])
    assert collectives.binding(narrow).seconds == 32.0
    assert [bounds(c, 4, 4e9, port_rate=1e9)[0].seconds for c in HOST_ONLY] == [6.0, 3.0, 3.0, 4.0]
    assert bounds("broadcast", 9, 1, alpha=1.0, messages=2)[0].seconds == 2.0
    assert bounds("broadcast", 10, 1, alpha=1.0, messages=2)[0].seconds == 3.0


# ------------------------------------------------------------------ shape


def test_every_collective_has_the_promised_algorithms():
    common = {"one_root", "ring", "binomial_tree", "halving_doubling"}
    for collective in HOST_ONLY:
        assert common <= set(collectives.algorithms(collective))
    for collective in ("all_reduce", "all_gather"):
        assert "recursive_doubling" in collectives.algorithms(collective)
    assert "scatter_all_gather" in collectives.algorithms("broadcast")


@pytest.mark.parametrize("name", NAMES)
def test_one_rank_is_identity_in_zero_steps(name):
    what, algorithm = name.split(".")
    schedule = build(what, algorithm, 1, segments=3)
    assert schedule.n_steps == 0
    buffer = np.arange(5)
    (out,) = execute(schedule, buffer if what == "broadcast" else [buffer])
    assert out.tolist() == buffer.tolist()
    assert not np.shares_memory(out, buffer)
    assert collectives.closed_form(what, algorithm)(1e6, 1, 1.0, 1e9, 1e-9) == 0
    assert collectives.closed_form(what, algorithm, contention=False)(1e6, 1, 1.0, 1e9, 1e-9) == 0


@pytest.mark.parametrize("name", NAMES)
def test_schedules_carry_their_names_root_and_block_count(name):
    what, algorithm = name.split(".")
    schedule = build(what, algorithm, 6, root=4)
    assert (schedule.collective, schedule.algorithm, schedule.n_ranks, schedule.root) == (what, algorithm, 6, 4)
    if what in ("reduce_scatter", "all_gather"):
        assert schedule.n_blocks == 6


def test_closed_forms_accept_arrays():
    form = collectives.closed_form("all_reduce", "halving_doubling")
    sizes, ranks = np.array([1e3, 1e6, 1e9]), np.array([[2], [7], [8]])
    table = form(sizes, ranks, 1e-6, 1e9, 1e-12)
    assert table.shape == (3, 3)
    for i, n in enumerate((2, 7, 8)):
        for k, size in enumerate(sizes):
            assert table[i, k] == form(size, n, 1e-6, 1e9, 1e-12)
    assert np.ndim(form(1e6, 8, 0, 1e9)) == 0
    assert form("1 MiB", 8, "1 us", "400 Gb/s") == form(2**20, 8, 1e-6, 50e9)


def test_blocks_are_cut_as_numpy_cuts():
    for n in range(1, 9):
        for count in range(20):
            slices = collectives.block_slices(count, build("all_gather", "ring", n))
            parts = np.array_split(np.arange(count), n)
            assert [np.arange(count)[s].tolist() for s in slices] == [p.tolist() for p in parts]


# ------------------------------------------------------------------ laws


@pytest.mark.parametrize("name", NAMES)
@given(n=st.integers(1, 17), segments=st.integers(1, 5), pipelined=st.booleans(), data=st.data())
def test_executing_it_is_the_definition(name, n, segments, pipelined, data):
    what, algorithm = name.split(".")
    count, root = data.draw(st.integers(0, 3 * n + 5), "count"), data.draw(st.integers(0, n - 1), "root")
    schedule = build(what, algorithm, n, root=root, segments=segments, pipelined=pipelined)
    buffers = inputs(what, n, count, np.random.default_rng(count))
    before = [b.copy() for b in buffers]
    got, wanted = execute(schedule, buffers), expected(what, buffers, n_ranks=n)
    assert len(got) == len(wanted) == n
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert all(np.array_equal(a, b) for a, b in zip(buffers, before, strict=True))


@given(st.sampled_from(NAMES), st.integers(2, 17), st.sampled_from([np.float32, np.float64]), st.integers(0, 60))
def test_floats_are_close(name, n, dtype, count):
    what, algorithm = name.split(".")
    buffers = inputs(what, n, count, np.random.default_rng(n), dtype)
    buffers = [b / 7 for b in buffers] if what != "broadcast" else buffers / 7
    tolerance = n * np.finfo(dtype).eps * 1000 * n
    got = execute(build(what, algorithm, n), buffers)
    for a, b in zip(got, expected(what, buffers, n_ranks=n), strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.bool_, np.complex128])
@pytest.mark.parametrize("op", [np.add, np.maximum])
def test_other_types_and_operations(dtype, op):
    for name in NAMES:
        what, algorithm = name.split(".")
        buffers = inputs(what, 5, 13, np.random.default_rng(1), dtype)
        got = execute(build(what, algorithm, 5, root=2), buffers, op)
        for a, b in zip(got, expected(what, buffers, n_ranks=5, op=op), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_the_closed_form_is_the_time_on_a_crossbar(name):
    what, algorithm = name.split(".")
    rng = np.random.default_rng(0)
    for n in (*range(1, 34), 63, 65):
        schedule = build(what, algorithm, n, root=int(rng.integers(n)))
        size, alpha, beta, gamma = 10 ** rng.uniform([3, -6, 8, -12], [9, -3, 11, -8])
        for contention in (True, False):
            form = collectives.closed_form(what, algorithm, contention=contention)
            timed = crossbar(schedule, size, alpha, beta, gamma, contention=contention)
            assert form(size, n, alpha, beta, gamma) == pytest.approx(timed, rel=1e-12)


def test_only_one_root_shares_a_port():
    for name in NAMES:
        forms = [collectives.closed_form(*name.split("."), contention=c)(1e9, 9, 0, 1e9) for c in (True, False)]
        assert (forms[0] > forms[1]) == name.endswith("one_root")
        assert at_once(build(*name.split("."), 9)) == (8 if name.endswith("one_root") else 1)


@given(st.sampled_from(NAMES), st.integers(1, 40), st.integers(1, 4), st.booleans())
def test_no_algorithm_beats_the_bounds_of_its_machine(name, n, segments, pipelined):
    what, algorithm = name.split(".")
    schedule = build(what, algorithm, n, segments=segments, pipelined=pipelined)
    least = host_only(what, n)
    assert max(schedule.sent().max(), schedule.received().max()) >= least * (1 - 1e-12)
    size, alpha, beta = 1e8, 1e-5, 1e9
    time = crossbar(schedule, size, alpha, beta, 0.0, contention=True)
    known = bounds(what, n, size, port_rate=beta, alpha=alpha, messages=max(at_once(schedule), 1))
    assert known[0].seconds == pytest.approx(least * size / beta)
    assert time >= collectives.binding(known).seconds * (1 - 1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 12, 16, 64])
def test_ring_and_halving_doubling_meet_the_port_bound(n):
    for what in ("all_reduce", "reduce_scatter", "all_gather"):
        for algorithm in ("ring", "halving_doubling"):
            if algorithm == "halving_doubling" and n & (n - 1):
                continue  # ranks beyond a power of two cost extra
            sent = build(what, algorithm, n).sent()
            np.testing.assert_allclose(sent, host_only(what, n), rtol=1e-12)
            time = collectives.closed_form(what, algorithm)(1e9, n, 0, 1e9)
            assert time == pytest.approx(bounds(what, n, 1e9, port_rate=1e9)[0].seconds, rel=1e-12)


@given(st.sampled_from(NAMES), st.integers(2, 24), st.data())
def test_what_crosses_a_cut_is_at_least_the_cut_bound(name, n, data):
    what, algorithm = name.split(".")
    groups = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n), "group of each rank"))
    groups = np.unique(groups, return_inverse=True)[1]
    k = int(groups.max()) + 1
    schedule = build(what, algorithm, n)
    out, into = np.zeros(k), np.zeros(k)
    for step in schedule.steps():
        leaves = groups[step.source] != groups[step.target]
        part = step.count[leaves] / schedule.n_blocks
        np.add.at(out, groups[step.source[leaves]], part)
        np.add.at(into, groups[step.target[leaves]], part)
    (bound,) = bounds(what, n, 1e9, cuts=[(k, 1e9)])
    assert max(out.max(), into.max()) >= bound.seconds * (1 - 1e-12)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize("name", NAMES)
def test_no_ranks_and_wrong_roots_are_refused(name):
    what, algorithm = name.split(".")
    with pytest.raises(ValueError, match="n_ranks must be >= 1, got 0"):
        build(what, algorithm, 0)
    with pytest.raises(ValueError, match="n_ranks must be >= 1, got 0"):
        registry.get("collective", name)(0)
    with pytest.raises(ValueError, match=r"root must be within 0\.\.2, got 3"):
        build(what, algorithm, 3, root=3)


def test_unknown_names_are_answered_with_the_list():
    with pytest.raises(ValueError, match=r"collective must be one of all_gather, .*, got 'allreduce'"):
        build("allreduce", "ring", 4)
    with pytest.raises(ValueError, match=r"algorithm of reduce_scatter must be one of binomial_tree, .*, got 'rings'"):
        build("reduce_scatter", "rings", 4)
    with pytest.raises(ValueError, match="collective must be one of"):
        bounds("all_to_all", 4, 1)
    with pytest.raises(ValueError, match="collective must be one of"):
        expected("all_to_all", [np.zeros(1)])


@pytest.mark.parametrize(
    ("what", "buffers", "message"),
    [
        ("all_reduce", [np.zeros(2)], r"must be 2 array\(s\).*got 1"),
        ("all_reduce", [np.zeros(2), np.zeros(3)], r"buffers\[1\] of all_reduce must have 2 elements.*got 3"),
        ("all_reduce", [np.zeros(2), np.zeros(2, int)], "one dtype"),
        ("all_reduce", [np.zeros((2, 2))] * 2, "one dimension"),
        ("reduce_scatter", [np.zeros(2), np.zeros(1)], r"buffers\[1\] of reduce_scatter must have 2"),
        ("all_gather", [np.zeros(1), np.zeros(2)], r"buffers\[0\] of all_gather must have 2 elements.*got 1"),
        ("broadcast", 3.0, "one dimension"),
    ],
)
def test_buffers_that_do_not_fit_are_refused(what, buffers, message):
    with pytest.raises(ValueError, match=message):
        execute(build(what, "ring", 2), buffers)


def test_wrong_schedules_are_refused():
    early = Schedule("broadcast", "by hand", 3, 1, (StepGroup.make(1, 2, reduce=False),))
    with pytest.raises(ValueError, match=r"step 0: 1 sends blocks 0\.\.0 to 2, but lacks some"):
        execute(early, np.zeros(1))
    other = Schedule("all_gather", "by hand", 2, 2, (StepGroup.make(0, 1, 1, reduce=False),))
    with pytest.raises(ValueError, match=r"step 0: 0 sends blocks 1\.\.1 to 1, but lacks some"):
        execute(other, [np.zeros(1)] * 2)
    half = StepGroup.make(0, 2, 0, 1, reduce=True), StepGroup.make(1, 2, 0, 2, reduce=True)
    with pytest.raises(ValueError, match="step 1: 2 has only a part of the blocks"):
        execute(Schedule("all_reduce", "by hand", 2, 2, half, n_switches=1), [np.zeros(2)] * 2)
    with pytest.raises(ValueError, match=r"one block per rank \(2\), got 4"):
        execute(Schedule("all_gather", "by hand", 2, 4, ()), [np.zeros(2)] * 2)
    with pytest.raises(ValueError, match="collective must be one of all_gather, all_reduce"):
        execute(Schedule("all_to_all", "by hand", 2, 2, ()), [np.zeros(2)] * 2)
    with pytest.raises(ValueError, match="n_ranks must be >= 1"):
        expected("broadcast", np.zeros(1))
    with pytest.raises(ValueError, match=r"ends, and rank 0 has not got block 1; all_gather must"):
        execute(Schedule("all_gather", "by hand", 2, 2, ()), [np.zeros(2)] * 2)


@pytest.mark.parametrize("op", [np.subtract, np.divide, np.power, np.arctan2, np.copysign, np.greater, sum])
def test_operations_whose_order_matters_are_refused(op):
    with pytest.raises(ValueError, match=r"op must be commutative and associative: one of np\.add"):
        execute(build("all_reduce", "ring", 2), [np.ones(2)] * 2, op)
    with pytest.raises(ValueError, match=r"op must be commutative and associative"):
        expected("all_reduce", [np.ones(2)] * 2, op=op)


@pytest.mark.parametrize("name", _OPS)
def test_every_operation_that_is_listed_gives_its_definition(name):
    buffers = [np.array([6, 0, 9, 4, 1]), np.array([4, 3, 0, 7, 1]), np.array([2, 5, 3, 0, 1])]
    got, wanted = (
        execute(build("all_reduce", "ring", 3), buffers, getattr(np, name)),
        expected("all_reduce", buffers, op=getattr(np, name)),
    )
    assert [a.tolist() for a in got] == [b.tolist() for b in wanted]
    assert got[0].dtype == wanted[0].dtype == buffers[0].dtype


def test_an_operation_that_does_not_know_the_type_is_refused():
    with pytest.raises(ValueError, match="op gcd does not work on float64"):
        execute(build("all_reduce", "ring", 2), [np.ones(2)] * 2, np.gcd)
    with pytest.raises(ValueError, match=r"must be 2 array\(s\)"):
        execute(build("all_reduce", "ring", 2), None)
    with pytest.raises(ValueError, match="buffers of reduce_scatter must be 2, one per rank, got 3"):
        expected("reduce_scatter", [np.arange(4)] * 3, n_ranks=2)


def test_a_collective_of_ones_own_needs_one_place(monkeypatch):
    """A definition is all that execution, its oracle and the bounds ask for."""
    monkeypatch.setattr(registry, "_found", {k: dict(v) for k, v in registry._found.items()})
    monkeypatch.setattr(registry, "_about", dict(registry._about))

    @define("gather", own, at_root)
    def gather(buffers, op, n, root):
        return [np.concatenate(buffers) if r == root else np.zeros(0, buffers[0].dtype) for r in range(n)]

    star = Schedule("gather", "by hand", 3, 3, (StepGroup.make([0, 2], 1, [0, 2], reduce=False),), root=1)
    buffers = inputs("all_gather", 3, 7, np.random.default_rng(0))
    got, wanted = execute(star, buffers), expected("gather", buffers, root=1)
    assert [a.tolist() for a in got] == [a.tolist() for a in wanted]
    assert got[1].size == 7
    assert bounds("gather", 3, 9e9, port_rate=1e9)[0].seconds == 6.0


def test_closed_forms_and_bounds_refuse_impossible_numbers():
    form = collectives.closed_form("all_reduce", "ring")
    right = {"n_bytes": 1, "n_ranks": 2, "alpha": 0, "beta": 1e9, "gamma": 0}
    wrong = {"n_bytes": np.nan, "n_ranks": 0, "alpha": -1, "beta": 400, "gamma": "1 ns"}
    assert form(**right) == 1e-9
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=f"{name} must be within"):
            form(**(right | {name: value}))
    with pytest.raises(ValueError, match="read in two ways"):
        form(1, 2, 0, "400 Gbps")
    with pytest.raises(ValueError, match=r"n_ranks must be whole numbers, got 2\.5"):
        form(1, 2.5, 0, 1e9)
    for wrong_cut in ([4], ["ab"], [(1, 2, 3)]):
        with pytest.raises(TypeError, match="cuts must be pairs"):
            bounds("all_reduce", 4, 1, cuts=wrong_cut)
    with pytest.raises(ValueError, match="port must be within"):
        bounds("all_reduce", 2, 1, port_rate=400)
    with pytest.raises(ValueError, match=r"cuts: groups must be within 1\.\.2, got 3"):
        bounds("all_reduce", 2, 1, cuts=[(3, 1e9)])
    with pytest.raises(ValueError, match="at least one"):
        collectives.binding(bounds("all_reduce", 2, 1))


def test_an_algorithm_without_a_closed_form_says_so(monkeypatch):
    monkeypatch.setitem(registry._about, ("collective", "all_reduce.ring"), {})
    with pytest.raises(ValueError, match="all_reduce ring registers no closed form"):
        collectives.closed_form("all_reduce", "ring")


# ------------------------------------------------------------------ display


def test_bounds_show_themselves():
    (port,) = bounds("all_gather", 4, "3 GB", port_rate="400 Gb/s")
    assert repr(port) == "<Bound port: 45.0 ms = (n-1)/n S / rate>"
    assert "only hosts add" in port.model
    assert port.seconds == 3 / 4 * 3e9 / units.rate("400 Gb/s")
