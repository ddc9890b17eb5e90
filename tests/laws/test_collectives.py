"""Collectives: executed on real buffers they equal numpy, timed they meet closed forms and bounds."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabriclab import collectives, registry, routing, topologies, units
from fabriclab.collectives import bounds, build, execute, expected
from fabriclab.collectives._running import _OPS
from fabriclab.collectives.algorithm import at_root, cuts, define, own
from fabriclab.core import Flows, Schedule, StepGroup
from fabriclab.errors import TooLarge
from support.sampling import few, sampled

NAMES = registry.names("collective")
# Factor of (n - 1) / n; None stands for the whole array once.
HOST_ONLY = {
    "all_reduce": 2.0,
    "reduce_scatter": 1.0,
    "all_gather": 1.0,
    "gather": 1.0,
    "scatter": 1.0,
    "all_to_all": 1.0,
    "broadcast": None,
    "reduce": None,
    "send_recv": None,
    "barrier": 0.0,
}
AT_ROOT = ("broadcast", "scatter")
# Buffers of one rank that the blocks of a schedule make up together.
ARRAYS = {"all_to_all": lambda n: n, "send_recv": lambda n: n, "barrier": lambda n: 0}


def machine(name):
    """Return the machine that an algorithm needs."""
    return registry.info("collective", name)["machine"]


def least_part(name, n):
    """Return the least part of the size that the busiest rank sends or takes in on the algorithm's own machine."""
    what = name.split(".")[0]
    if what == "all_reduce" and machine(name) != "hosts":
        return (n > 1) * {"aggregation": 1, "nvls": 1 + 1 / n}[machine(name)]
    return float(n > 1) if HOST_ONLY[what] is None else HOST_ONLY[what] * (n - 1) / n


def inputs(collective, n, count, rng, dtype=np.int64, cut=None):
    """Return random buffers in the form that `execute` takes; ``cut`` has the block lengths of an all-to-all."""
    draw = lambda k: rng.integers(-1000, 1000, k).astype(dtype)  # noqa: E731
    if collective in AT_ROOT:
        return draw(count)
    if collective == "all_to_all":
        cut = [a.size for a in np.array_split(np.arange(count), n * n)] if cut is None else cut
        return [draw(sum(cut[r * n : r * n + n])) for r in range(n)]
    if collective in ("all_gather", "gather", "send_recv", "barrier"):
        return np.array_split(draw(count), n)
    return [draw(count) for _ in range(n)]


def at_once(schedule):
    """Return the most messages that one rank sends, or takes in, in one step."""
    ends = [end for step in schedule.steps() for end in (step.source, step.target)]
    return max((np.bincount(end)[: schedule.n_ranks].max() for end in ends), default=0)


def block_slices(count, schedule):
    """Return the elements of each block of ``count`` elements."""
    edges = cuts(count, schedule.n_blocks, schedule.parts)
    return [slice(a, b) for a, b in pairwise(edges.tolist())]


def crossbar(schedule, size, alpha, beta, gamma):
    """Time a schedule on a crossbar step by step: the busiest port passes its bytes, and the busiest rank adds.

    A block has the same part of every array; a switch has a port for each of its neighbours.
    """
    total, n, people = 0.0, schedule.n_ranks, schedule.n_participants
    part = ARRAYS.get(schedule.collective, lambda n: 1)(n) / (schedule.n_blocks * schedule.segments)
    # then a transfer moves one block
    skewed = schedule.parts is not None and schedule.parts.size > 1
    for step in schedule.steps():
        moved = size * (schedule.parts[step.first] if skewed else step.count * part)
        ports = [
            np.where(one < n, one, one * people + other)
            for one, other in ((step.source, step.target), (step.target, step.source))
        ]
        busiest = max(np.bincount(port, weights=moved).max() for port in ports)
        added = np.bincount(step.target, weights=moved * step.reduce, minlength=n)[:n].max()
        total += alpha + busiest / beta + gamma * added
    return total


# ------------------------------------------------------------------ by hand


def test_three_ranks_by_hand():
    a, b, c = np.array([1, 2, 3, 4]), np.array([10, 20, 30, 40]), np.array([100, 200, 300, 400])
    assert [x.tolist() for x in execute(build("all_reduce", "ring", 3), [a, b, c])] == [
        [111, 222, 333, 444]
    ] * 3
    # Four elements on three ranks: the first block is longer.
    scattered = execute(build("reduce_scatter", "ring", 3), [a, b, c])
    assert [x.tolist() for x in scattered] == [[111, 222], [333], [444]]
    gathered = execute(build("all_gather", "ring", 3), [a[:2], b[:1], c[:1]])
    assert [x.tolist() for x in gathered] == [[1, 2, 10, 100]] * 3
    assert [x.tolist() for x in execute(build("broadcast", "ring", 3, root=1), a)] == [
        [1, 2, 3, 4]
    ] * 3


def test_a_step_reads_what_was_there_before_it():
    swap = Schedule("all_reduce", "by hand", 2, 1, (StepGroup.make([0, 1], [1, 0], reduce=False),))
    assert [x.tolist() for x in execute(swap, [np.array([7]), np.array([9])])] == [[9], [7]]


def test_a_switch_that_adds_starts_empty():
    up, down = StepGroup.make([0, 1], 2, reduce=True), StepGroup.make(2, [0, 1], reduce=False)
    tree = Schedule("all_reduce", "by hand", 2, 1, (up, down), n_switches=1)
    assert [x.tolist() for x in execute(tree, [np.array([3]), np.array([5])], np.maximum)] == [
        [5],
        [5],
    ]
    assert [x.tolist() for x in execute(tree, [np.array([-3]), np.array([-5])], np.maximum)] == [
        [-3],
        [-3],
    ]


def test_the_naive_root_against_the_ring_by_hand():
    naive, ring = build("all_reduce", "one_root", 128), build("all_reduce", "ring", 128)
    assert [g.n_transfers for g in naive.groups] == [127, 127]
    assert naive.received()[0] == 127
    assert naive.sent()[0] == 127
    assert ring.sent().max() == pytest.approx(2 * 127 / 128)
    # Bytes at the busiest port differ by n / 2, times by n: the root sends only after the sum is complete.
    assert naive.sent().max() / ring.sent().max() == pytest.approx(64)
    forms = [
        collectives.closed_form("all_reduce", a)(17.6e9, 128, 0, 50e9) for a in ("one_root", "ring")
    ]
    assert forms == pytest.approx([89.408, 0.6985], rel=1e-9)


def test_the_two_butterflies_by_hand():
    doubling, halving = (
        build("all_reduce", "recursive_doubling", 8),
        build("all_reduce", "halving_doubling", 8),
    )
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
    # One root sends to all seven at once: without a limit on messages there is one round.
    (free,) = bounds("all_reduce", 8, "8 GB", alpha="1 us")
    assert (free.seconds, free.formula) == (pytest.approx(1e-6), "alpha")
    assert "any number" in free.model
    assert bounds("all_reduce", 1, 8, alpha="1 us")[0].seconds == 0
    narrow = bounds("all_reduce", 8, "8 GB", port_rate="1 GB/s", cuts=[(2, "0.25 GB/s")])
    assert max(b.seconds for b in narrow) == 32.0
    assert [bounds(c, 4, 4e9, port_rate=1e9)[0].seconds for c in HOST_ONLY] == [
        6,
        3,
        3,
        3,
        3,
        3,
        4,
        4,
        4,
        0,
    ]
    # Of 8 ranks in 2 groups each sends half of its 8 GB to the other group.
    assert bounds("all_to_all", 8, 8e9, cuts=[(2, 1e9)])[0].seconds == 16.0
    assert bounds("broadcast", 9, 1, alpha=1.0, messages=2)[0].seconds == 2.0
    assert bounds("broadcast", 10, 1, alpha=1.0, messages=2)[0].seconds == 3.0
    # each hands on once
    assert bounds("send_recv", 8, 0, alpha="1 us", messages=1)[0].seconds == 1e-6


def test_bounds_where_switches_add_by_hand():
    for n in (2, 3, 8, 64):
        hosts, tree, nvls = (
            bounds(
                "all_reduce",
                n,
                1e9,
                port_rate=1e9,
                cuts=[(2, 1e9)],
                machine=m,
                alpha=1.0,
                messages=1,
            )
            for m in ("hosts", "aggregation", "nvls")
        )
        assert [b.seconds for b in tree] == [1, 1, 1]  # one round: switches multicast
        assert nvls[0].seconds == pytest.approx(1 + 1 / n)
        assert hosts[0].seconds / nvls[0].seconds == pytest.approx(2 * (n - 1) / (n + 1))
        assert "multicast" in tree[1].model
        assert repr(nvls[0]).endswith("= S (1 + 1/n) / rate>")
    with pytest.raises(
        ValueError, match="machine must be one of hosts, aggregation, nvls, got 'sharp'"
    ):
        bounds("all_reduce", 8, 1, machine="sharp")


def test_nvls_moves_what_its_bound_says_and_pipelines_towards_it():
    shot = build("all_reduce", "nvls_two_shot", 8)
    assert shot.sent()[:8].tolist() == shot.received()[:8].tolist() == [1 + 1 / 8] * 8
    assert build("all_reduce", "nvls_one_shot", 8).sent()[:8].tolist() == [8] * 8
    assert build("all_reduce", "aggregation_tree", 8, radix=2).sent().tolist() == [1] * 8 + [
        3
    ] * 6 + [2]
    times = [
        crossbar(
            build("all_reduce", "nvls_two_shot", 8, segments=k, pipelined=True), 1e9, 0, 1e9, 0
        )
        for k in (1, 4, 256)
    ]
    assert times[0] == pytest.approx(2 + 2 / 8)
    assert 1 + 1 / 8 < times[2] < 1.02 * (1 + 1 / 8) < times[1]


def test_a_multicast_reaches_everyone_once():
    plan = build("broadcast", "multicast", 9, root=4, radix=3)
    assert plan.received().tolist() == [1] * 4 + [0] + [1] * 8
    assert plan.n_steps == 4


def test_the_double_tree_pipelines_towards_twice_the_array():
    tree = build("all_reduce", "double_tree", 16)
    assert tree.sent().max() == tree.received().max() == 2
    assert tree.n_steps == 8
    full = build("all_reduce", "double_tree", 16, segments=256, pipelined=True)
    assert 2 < crossbar(full, 1e9, 0, 1e9, 0) < 2.06
    binomial = build("all_reduce", "binomial_tree", 16, segments=256, pipelined=True)
    assert crossbar(binomial, 1e9, 0, 1e9, 0) > 4


def test_a_hierarchical_all_reduce_leaves_servers_along_rails_only():
    plan = build("all_reduce", "hierarchical", 12, per_server=4)
    out = np.zeros(12)
    for step in plan.steps():
        crosses = step.source // 4 != step.target // 4
        assert np.all((step.source % 4 == step.target % 4)[crosses])
        np.add.at(out, step.source[crosses], plan.moved(step)[crosses])
    # of three servers, a fourth of the array on each rail
    assert out == pytest.approx(2 * 2 / 3 / 4)
    assert len(build("all_reduce", "hierarchical", 16_384).groups) == 4


def test_each_link_of_a_cube_carries_one_part_at_a_time():
    cube, place = (
        build("all_reduce", "torus", 27, shape=(3, 3, 3)),
        np.indices((3, 3, 3)).reshape(3, -1),
    )
    assert cube.n_blocks == 6 * 27
    for step in cube.steps():
        assert (
            len(set(zip(step.source.tolist(), step.target.tolist(), strict=True)))
            == step.n_transfers
            == 6 * 27
        )
        assert np.all((place[:, step.source] != place[:, step.target]).sum(axis=0) == 1)


def test_rails_carry_fewer_messages():
    n, g = 32, 8
    plans = [build("all_to_all", *a) for a in (("direct", n), ("hierarchical", n))]
    found = []
    for plan in plans:
        pairs = {
            (int(s), int(t))
            for step in plan.steps()
            for s, t in zip(step.source, step.target, strict=True)
        }
        found.append({(s, t) for s, t in pairs if s // g != t // g})
    assert [len(p) // n for p in found] == [24, 3]  # messages of a NIC
    assert all(s % g == t % g for s, t in found[1])


def test_rings_of_channels_go_over_rails_by_hand():
    crossing, alternate = (collectives.channel_rings(8, 4, alternate=a) for a in (False, True))
    assert crossing.tolist() == [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [1, 2, 3, 0, 5, 6, 7, 4],
        [2, 3, 0, 1, 6, 7, 4, 5],
        [3, 0, 1, 2, 7, 4, 5, 6],
    ]
    assert alternate[0].tolist() == [0, 1, 2, 3, 7, 6, 5, 4]
    for rings, same in ((crossing, False), (alternate, True)):
        hops = rings.ravel(), np.roll(rings, -1, axis=1).ravel()
        away = hops[0] // 4 != hops[1] // 4
        assert np.count_nonzero(away) == 8
        assert np.all((hops[0] % 4 == hops[1] % 4)[away] == same)
    plan = build("all_reduce", "ring", 8, orders=crossing)
    assert (len(plan.groups), plan.n_blocks, plan.groups[0].n_transfers) == (2, 32, 32)


@pytest.mark.parametrize(
    ("alternate", "method", "kept"),
    [(False, "pxn", True), (False, "ecmp", False), (True, "ecmp", True)],
)
def test_rings_enter_and_leave_by_the_nics_that_nccl_cross_nic_allows(alternate, method, kept):
    """0: the NIC of the ring in every server; 1: two rails meet in every server; 2: a rail on each cable."""
    hall = topologies.build("rail_optimised", servers=4)
    for ring in collectives.channel_rings(hall.n_ranks, 8, alternate=alternate):
        hop = np.flatnonzero(hall.server[ring] != hall.server[np.roll(ring, -1)])
        flows = Flows.make(hall.endpoint[ring[hop]], hall.endpoint[np.roll(ring, -1)[hop]], 1.0)
        routes = routing.route(hall, flows, method)
        passed = hall.source[routes.link]
        on_nic = hall.kind[passed] == hall.kinds.index("nic")
        nics = np.searchsorted(hall.nodes("nic"), passed[on_nic]).reshape(-1, 2) % 8  # out, in
        assert np.all((nics[:, 0] == nics[:, 1]) == kept)
        assert np.all((nics[:, 1] == np.roll(nics[:, 0], -1)) == (method == "pxn"))


def test_skew_by_hand():
    plan = build("all_to_all", "pairwise", 3, traffic=[[0, 6, 0], [1, 0, 0], [2, 3, 0]])
    assert plan.parts.max() == 6 / 9  # rank 1 takes in 9
    cut = [np.arange(12)[s] for s in block_slices(12, plan)]
    assert [c.size for c in cut] == [0, 6, 0, 1, 0, 0, 2, 3, 0]
    out = execute(plan, [np.arange(6), np.array([6]), np.arange(7, 12)])
    assert [o.tolist() for o in out] == [[6, 7, 8], [0, 1, 2, 3, 4, 5, 9, 10, 11], []]
    # Distance 1 waits for 6, distance 2 for 3; all at once rank 1 takes in 9.
    forms = [
        collectives.closed_form("all_to_all", a, traffic=plan.parts.reshape(3, 3))(9e9, 3, 0, 1e9)
        for a in ("pairwise", "direct")
    ]
    assert forms == pytest.approx([9.0, 9.0])


# ------------------------------------------------------------------ shape


def test_every_collective_has_the_promised_algorithms():
    promised = {
        "all_reduce": "one_root ring binomial_tree double_tree recursive_doubling halving_doubling bucket torus "
        "hierarchical aggregation_tree nvls_one_shot nvls_two_shot nvls_sharp collnet",
        "all_gather": "one_root ring binomial_tree recursive_doubling halving_doubling bruck pat",
        "reduce_scatter": "one_root ring binomial_tree halving_doubling bruck pat",
        "broadcast": "one_root ring binomial_tree halving_doubling scatter_all_gather multicast",
        "reduce": "one_root binomial_tree",
        "gather": "one_root binomial_tree",
        "scatter": "one_root binomial_tree",
        "all_to_all": "direct pairwise bruck hierarchical",
        "send_recv": "direct",
        "barrier": "one_root binomial_tree dissemination",
    }
    for collective, names in promised.items():
        assert set(names.split()) <= set(collectives.algorithms(collective))


@pytest.mark.parametrize("name", NAMES)
def test_one_rank_is_identity_in_zero_steps(name):
    what, algorithm = name.split(".")
    schedule = build(what, algorithm, 1, segments=3)
    assert schedule.n_steps == 0
    buffer = np.arange(5)
    (out,) = execute(schedule, buffer if what in AT_ROOT else [buffer])
    assert out.tolist() == buffer.tolist()
    assert not np.shares_memory(out, buffer)
    assert collectives.closed_form(what, algorithm)(1e6, 1, 1.0, 1e9, 1e-9) == 0


@pytest.mark.parametrize("name", NAMES)
def test_schedules_carry_their_names_root_and_block_count(name):
    what, algorithm = name.split(".")
    schedule = build(what, algorithm, 6, root=4)
    assert (schedule.collective, schedule.algorithm, schedule.n_ranks, schedule.root) == (
        what,
        algorithm,
        6,
        4,
    )
    if what in ("reduce_scatter", "all_gather", "gather", "scatter"):
        assert schedule.n_blocks == 6
    if what == "all_to_all":
        assert schedule.n_blocks == 36


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
            slices = block_slices(count, build("all_gather", "ring", n))
            parts = np.array_split(np.arange(count), n)
            assert [np.arange(count)[s].tolist() for s in slices] == [p.tolist() for p in parts]


# ------------------------------------------------------------------ laws


@pytest.mark.parametrize("name", NAMES)
@few(10)
@given(n=st.integers(1, 33), segments=st.integers(1, 3), pipelined=st.booleans(), data=st.data())
def test_executing_it_is_the_definition(name, n, segments, pipelined, data):
    what, algorithm = name.split(".")
    most = n * n + 5 if what == "all_to_all" else 3 * n + 5
    count, root = data.draw(st.integers(0, most), "count"), data.draw(st.integers(0, n - 1), "root")
    schedule = build(what, algorithm, n, root=root, segments=segments, pipelined=pipelined)
    buffers = inputs(what, n, count, np.random.default_rng(count))
    before = [b.copy() for b in buffers]
    got, wanted = execute(schedule, buffers), expected(what, buffers, n_ranks=n, root=root)
    assert len(got) == len(wanted) == n
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert all(np.array_equal(a, b) for a, b in zip(buffers, before, strict=True))


@pytest.mark.parametrize("name", sampled(NAMES, 8))
@settings(max_examples=2)
@given(n=st.integers(34, 257), data=st.data())
def test_many_ranks_too(name, n, data):
    what, root = name.split(".")[0], data.draw(st.integers(0, n - 1), "root")
    schedule = build(*name.split("."), n, root=root)
    buffers = inputs(
        what, n, n * n if what == "all_to_all" else n + 7, np.random.default_rng(n), np.int16
    )
    for a, b in zip(
        execute(schedule, buffers), expected(what, buffers, n_ranks=n, root=root), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    form, timed = (
        collectives.closed_form(*name.split(".")),
        crossbar(schedule, 1e9, 1e-6, 1e9, 1e-10),
    )
    assert form(1e9, n, 1e-6, 1e9, 1e-10) == pytest.approx(timed, rel=1e-11)


def options(draw):
    """Return an algorithm with options, and a number of ranks that fits them."""
    sides = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    servers, g, radix = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(2, 5))
    n, seed = servers * g, draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    traffic = {"traffic": rng.random((n, n)) * rng.integers(0, 2, (n, n)) + np.eye(n)}
    rings = np.array([rng.permutation(n) for _ in range(radix)])
    return draw(
        st.sampled_from(
            [
                ("all_reduce.bucket", int(np.prod(sides)), {"shape": sides}),
                ("all_reduce.torus", int(np.prod(sides)), {"shape": sides}),
                ("all_reduce.hierarchical", n, {"per_server": g}),
                ("all_reduce.nvls_sharp", n, {"per_server": g}),
                ("all_reduce.collnet", n, {"per_server": g}),
                ("all_reduce.aggregation_tree", n, {"radix": radix}),
                ("broadcast.multicast", n, {"radix": radix}),
                ("all_reduce.ring", n, {"orders": rings}),
                ("all_to_all.direct", n, traffic),
                ("all_to_all.pairwise", n, traffic),
                ("all_to_all.hierarchical", n, traffic | {"per_server": g}),
            ]
        )
    )


@settings(max_examples=100)
@given(st.data())
def test_options_keep_definition_closed_form_and_bound(data):
    name, n, more = options(data.draw)
    what, root = name.split(".")[0], data.draw(st.integers(0, n - 1))
    schedule = build(*name.split("."), n, root=root, **more)
    count = 2 * n * n
    cut = [len(range(*s.indices(count))) for s in block_slices(count, schedule)]
    buffers = inputs(what, n, count, np.random.default_rng(n), cut=cut)
    parts = schedule.parts if "traffic" in more else None
    for a, b in zip(
        execute(schedule, buffers),
        expected(what, buffers, n_ranks=n, root=root, parts=parts),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)
    if parts is not None:
        volume = parts.reshape(n, n) * ~np.eye(n, dtype=bool)
        assert (
            max(schedule.sent().max(), schedule.received().max())
            >= max(volume.sum(0).max(), volume.sum(1).max()) - 1e-9
        )
    else:
        assert max(schedule.sent()[:n].max(), schedule.received()[:n].max()) >= least_part(
            name, n
        ) * (1 - 1e-12)
    form, timed = (
        collectives.closed_form(*name.split("."), **more),
        crossbar(schedule, 1e9, 1e-6, 1e9, 1e-10),
    )
    assert form(1e9, n, 1e-6, 1e9, 1e-10) == pytest.approx(timed, rel=1e-11)


@given(
    st.sampled_from(NAMES),
    st.integers(2, 17),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 60),
)
def test_floats_are_close(name, n, dtype, count):
    what, algorithm = name.split(".")
    buffers = inputs(what, n, count, np.random.default_rng(n), dtype)
    buffers = [b / 7 for b in buffers] if what not in AT_ROOT else buffers / 7
    # Two orders of n additions: each rounds by half an eps of at most the sum of all magnitudes, n * 1000 / 7.
    tolerance = (n - 1) * np.finfo(dtype).eps * n * 1000 / 7
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
        for a, b in zip(got, expected(what, buffers, n_ranks=5, op=op, root=2), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


# Half of the ranks, with all powers of two and their neighbours; the others are the same law.
TELLING = (*range(1, 14), 15, 16, 17, 24, 31, 32, 33)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param(TELLING, id="telling"),
        pytest.param(
            (*sorted({*range(1, 34)} - {*TELLING}), 63, 65), id="others", marks=pytest.mark.slow
        ),
    ],
)
def test_the_closed_form_is_the_time_on_a_crossbar(name, ranks):
    what, algorithm = name.split(".")
    rng = np.random.default_rng(0)
    for n in ranks:
        schedule = build(what, algorithm, n, root=int(rng.integers(n)))
        size, alpha, beta, gamma = 10 ** rng.uniform([3, -6, 8, -12], [9, -3, 11, -8])
        timed = crossbar(schedule, size, alpha, beta, gamma)
        assert collectives.closed_form(what, algorithm)(
            size, n, alpha, beta, gamma
        ) == pytest.approx(timed, rel=1e-12)


def _hops(n):
    """Return the hops of all distances below n, one for each bit."""
    return sum(d.bit_count() for d in range(n))


def _low(n):
    """Return the largest power of two up to n."""
    return 1 << n.bit_length() - 1


def _rails(n):
    """Return servers and ranks of a server, the most up to 8 that divide n."""
    g = max(g for g in range(1, 9) if n % g == 0)
    return n // g, g


# All bytes on the wire, as a part of the size, for n > 1 ranks.
WIRE = {
    **{
        f"all_reduce.{a}": lambda n: 2 * (n - 1)
        for a in (
            "one_root",
            "ring",
            "binomial_tree",
            "double_tree",
            "bucket",
            "torus",
            "hierarchical",
        )
    },
    "all_reduce.recursive_doubling": lambda n: (
        _low(n) * (_low(n).bit_length() - 1) + 2 * (n - _low(n))
    ),
    "all_reduce.halving_doubling": lambda n: 2 * (n - 1),
    "all_reduce.aggregation_tree": lambda n: 2 * n,
    "all_reduce.nvls_one_shot": lambda n: n * n + n,
    "all_reduce.nvls_two_shot": lambda n: 2 * n + 2,
    "all_reduce.nvls_sharp": lambda n: sum(
        (2 * (n + m)) * (g > 1) + 2 * m * (m > 1) for m, g in [_rails(n)]
    ),
    "all_reduce.collnet": lambda n: sum(2 * m * (g - 1) + 2 * m * (m > 1) for m, g in [_rails(n)]),
    **dict.fromkeys(
        [f"{c}.{a}" for c in ("all_gather", "reduce_scatter") for a in ("ring", "bruck", "pat")],
        lambda n: n - 1,
    ),
    **dict.fromkeys(
        ["all_gather.one_root", "reduce_scatter.one_root"], lambda n: (n - 1) * (1 + 1 / n)
    ),
    **dict.fromkeys(
        [
            "all_gather.binomial_tree",
            "reduce_scatter.binomial_tree",
            "broadcast.scatter_all_gather",
            "broadcast.halving_doubling",
        ],
        lambda n: n - 1 + _hops(n) / n,
    ),
    **dict.fromkeys(
        ["all_gather.recursive_doubling", "all_gather.halving_doubling"], lambda n: n - 1
    ),
    "reduce_scatter.halving_doubling": lambda n: n - 1 + (n - _low(n)) / n,
    **dict.fromkeys(
        [
            "broadcast.one_root",
            "broadcast.ring",
            "broadcast.binomial_tree",
            "reduce.one_root",
            "reduce.binomial_tree",
        ],
        lambda n: n - 1,
    ),
    "broadcast.multicast": lambda n: n,
    "send_recv.direct": lambda n: n,
    **dict.fromkeys(["gather.one_root", "scatter.one_root"], lambda n: (n - 1) / n),
    **dict.fromkeys(["gather.binomial_tree", "scatter.binomial_tree"], lambda n: _hops(n) / n),
    **dict.fromkeys(["all_to_all.direct", "all_to_all.pairwise"], lambda n: n - 1),
    "all_to_all.bruck": _hops,
    "all_to_all.hierarchical": lambda n: sum(n - n / side for side in _rails(n)),
    **dict.fromkeys(
        ["barrier.one_root", "barrier.binomial_tree", "barrier.dissemination"], lambda n: 0
    ),
}


@pytest.mark.parametrize("name", WIRE)
def test_all_bytes_on_the_wire_are_those_of_the_formula(name):
    for n in (*range(2, 34), 48, 64, 65):
        assert build(*name.split("."), n, root=n // 2).sent().sum() == pytest.approx(
            WIRE[name](n), rel=1e-12
        )


@given(st.sampled_from(NAMES), st.integers(1, 40), st.integers(1, 4), st.booleans())
def test_no_algorithm_beats_the_bounds_of_its_machine(name, n, segments, pipelined):
    what, algorithm = name.split(".")
    schedule = build(what, algorithm, n, segments=segments, pipelined=pipelined)
    least = least_part(name, n)
    assert max(schedule.sent()[:n].max(), schedule.received()[:n].max()) >= least * (1 - 1e-12)
    size, alpha, beta = 1e8, 1e-5, 1e9
    time = crossbar(schedule, size, alpha, beta, 0.0)
    known = bounds(
        what,
        n,
        size,
        port_rate=beta,
        alpha=alpha,
        messages=max(at_once(schedule), 1),
        machine=machine(name),
    )
    assert known[0].seconds == pytest.approx(least * size / beta)
    assert time >= max(b.seconds for b in known) * (1 - 1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 12, 16, 64])
def test_ring_and_halving_doubling_meet_the_port_bound(n):
    for what in ("all_reduce", "reduce_scatter", "all_gather"):
        for algorithm in ("ring", "halving_doubling"):
            if algorithm == "halving_doubling" and n & (n - 1):
                continue  # ranks beyond a power of two cost extra
            sent = build(what, algorithm, n).sent()
            np.testing.assert_allclose(sent, least_part(f"{what}.{algorithm}", n), rtol=1e-12)
            time = collectives.closed_form(what, algorithm)(1e9, n, 0, 1e9)
            assert time == pytest.approx(bounds(what, n, 1e9, port_rate=1e9)[0].seconds, rel=1e-12)


@given(st.sampled_from(NAMES), st.integers(2, 24), st.data())
def test_what_crosses_a_cut_is_at_least_the_cut_bound(name, n, data):
    what, algorithm = name.split(".")
    if what in ("gather", "scatter", "all_to_all"):  # equal groups
        k = data.draw(st.sampled_from([k for k in range(1, n + 1) if n % k == 0]), "groups")
        groups = np.array(data.draw(st.permutations(range(n)), "ranks")) % k
    else:
        groups = np.array(
            data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n), "group of each rank")
        )
        groups = np.unique(groups, return_inverse=True)[1]
        k = int(groups.max()) + 1
    schedule = build(what, algorithm, n)
    groups = np.append(groups, np.full(schedule.n_switches, k))  # switches stand outside
    out, into = np.zeros(k + 1), np.zeros(k + 1)
    for step in schedule.steps():
        leaves = groups[step.source] != groups[step.target]
        part = schedule.moved(step)[leaves]
        np.add.at(out, groups[step.source[leaves]], part)
        np.add.at(into, groups[step.target[leaves]], part)
    (bound,) = bounds(what, n, 1e9, cuts=[(k, 1e9)], machine=machine(name))
    assert max(out[:k].max(), into[:k].max()) >= bound.seconds * (1 - 1e-12)


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
    with pytest.raises(
        ValueError,
        match=r"collective must be one of all_gather, .* 'allreduce'; did you mean 'all_reduce'",
    ):
        build("allreduce", "ring", 4)
    with pytest.raises(
        ValueError,
        match=r"algorithm of reduce_scatter must be one of binomial_tree, .*, got 'rings'",
    ):
        build("reduce_scatter", "rings", 4)
    with pytest.raises(ValueError, match="collective must be one of"):
        bounds("copy", 4, 1)
    with pytest.raises(ValueError, match="collective must be one of"):
        expected("copy", [np.zeros(1)])


PAIRS = [name for name in NAMES if registry.info("collective", name)["per_pair"]]


@pytest.mark.parametrize("name", [*PAIRS, "all_reduce.torus"])
def test_the_memory_of_many_transfers_is_foreseen(name, monkeypatch):
    foreseen = []
    place = "torus" if name.endswith("torus") else "algorithm"
    monkeypatch.setattr(
        f"fabriclab.collectives.{place}.check_memory", lambda needed, *_: foreseen.append(needed)
    )
    tracemalloc.start()
    try:
        build(*name.split("."), 320)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= foreseen[0] <= 1.5 * peak


def test_too_many_pairs_are_refused_before_they_are_made():
    for name in (*PAIRS, "all_reduce.torus"):
        with pytest.raises(TooLarge, match=r"needs about .* take fewer ranks"):
            build(*name.split("."), 2**22)


def test_options_are_refused_by_name():
    with pytest.raises(TypeError, match=r"all_reduce ring has no option 'rings'.*orders"):
        build("all_reduce", "ring", 4, rings=2)
    with pytest.raises(TypeError, match=r"broadcast ring has no option 'orders'.*none"):
        collectives.closed_form("broadcast", "ring", orders=[[0]])
    for name, more, message in (
        (
            "all_reduce.hierarchical",
            {"per_server": 4},
            "multiple of per_server, got 6 and 4; all_reduce ring takes",
        ),
        (
            "all_reduce.nvls_sharp",
            {"per_server": 4},
            "got 6 and 4; all_reduce aggregation_tree takes any number",
        ),
        (
            "all_to_all.hierarchical",
            {"per_server": 4},
            "got 6 and 4; all_to_all pairwise takes any number",
        ),
        (
            "all_reduce.torus",
            {"shape": (2, 2)},
            r"must have 6 .*got \(2, 2\) with 4; a ring needs no shape",
        ),
        ("all_reduce.aggregation_tree", {"radix": 1}, "radix must be >= 2, got 1"),
        ("all_reduce.ring", {"orders": [0, 1, 2, 3, 4, 4]}, "each of 6 ranks once per row"),
        (
            "all_to_all.direct",
            {"traffic": [[1, 2]]},
            r"a table \(6, 6\) of what each rank .* got shape \(1, 2\)",
        ),
        (
            "all_to_all.direct",
            {"traffic": [[1, 2], [1]]},
            "traffic must be .* rows of different lengths",
        ),
        (
            "all_to_all.pairwise",
            {"traffic": np.zeros((6, 6))},
            "must be >= 0, finite and not all 0, got 0 to 0",
        ),
        ("all_to_all.pairwise", {"traffic": -np.eye(6)}, "not all 0, got -1 to -?0"),
        ("all_to_all.pairwise", {"traffic": np.full((6, 6), np.nan)}, "got nan to nan"),
        (
            "all_reduce.ring",
            {"orders": [[0, 1, 2, 3, 4, 5], [0, 1]]},
            "orders must be .* rows of different lengths",
        ),
        ("all_reduce.torus", {"shape": 8}, r"shape must have 6 ranks, one each, got \(8,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            build(*name.split("."), 6, **more)
    with pytest.raises(ValueError, match="multiple of per_server, got 6 and 4"):
        collectives.channel_rings(6, 4)
    with pytest.raises(TypeError, match="traffic must be plain numbers"):
        build("all_to_all", "direct", 6, traffic="x")
    with pytest.raises(ValueError, match=r"traffic must be a table \(8, 8\) of"):
        collectives.closed_form("all_to_all", "direct", traffic=[[1]])(1e6, 8, 0, 1e9)
    assert build(
        "all_to_all", "direct", 2, traffic=[[0, 1e308], [1e308, 1e308]]
    ).parts.tolist() == [0, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("what", "buffers", "message"),
    [
        ("all_reduce", [np.zeros(2)], r"must be 2 array\(s\).*got 1"),
        (
            "all_reduce",
            [np.zeros(2), np.zeros(3)],
            r"buffers\[1\] of all_reduce must have 2 elements.*got 3",
        ),
        ("all_reduce", [np.zeros(2), np.zeros(2, int)], "and dtype"),
        ("all_reduce", [np.zeros((2, 2))] * 2, "one dimension"),
        (
            "reduce_scatter",
            [np.zeros(2), np.zeros(1)],
            r"buffers\[1\] of reduce_scatter must have 2",
        ),
        (
            "all_gather",
            [np.zeros(1), np.zeros(2)],
            r"buffers\[0\] of all_gather must have 2 elements.*got 1",
        ),
        ("broadcast", 3.0, "one dimension"),
    ],
)
def test_buffers_that_do_not_fit_are_refused(what, buffers, message):
    with pytest.raises(ValueError, match=message):
        execute(build(what, "ring", 2), buffers)


def test_wrong_schedules_are_refused():
    early = Schedule("broadcast", "by hand", 3, 1, (StepGroup.make(1, 2, reduce=False),))
    with pytest.raises(ValueError, match=r"step 0: 1 sends blocks 0\.\.0 to 2"):
        execute(early, np.zeros(1))
    other = Schedule("all_gather", "by hand", 2, 2, (StepGroup.make(0, 1, 1, reduce=False),))
    with pytest.raises(ValueError, match=r"step 0: 0 sends blocks 1\.\.1 to 1"):
        execute(other, [np.zeros(1)] * 2)
    half = StepGroup.make(0, 2, 0, 1, reduce=True), StepGroup.make(1, 2, 0, 2, reduce=True)
    with pytest.raises(ValueError, match="step 1: 2 has only a part"):
        execute(Schedule("all_reduce", "by hand", 2, 2, half, n_switches=1), [np.zeros(2)] * 2)
    with pytest.raises(ValueError, match=r"one block per rank \(2\), got 4"):
        execute(Schedule("all_gather", "by hand", 2, 4, ()), [np.zeros(2)] * 2)
    with pytest.raises(ValueError, match="collective must be one of all_gather, all_reduce"):
        execute(Schedule("copy", "by hand", 2, 2, ()), [np.zeros(2)] * 2)
    with pytest.raises(ValueError, match="n_ranks must be >= 1"):
        expected("broadcast", np.zeros(1))
    with pytest.raises(ValueError, match=r"rank 0 has not got block 1.*all_gather"):
        execute(Schedule("all_gather", "by hand", 2, 2, ()), [np.zeros(2)] * 2)


@pytest.mark.parametrize(
    "op", [np.subtract, np.divide, np.power, np.arctan2, np.copysign, np.greater, sum]
)
def test_operations_whose_order_matters_are_refused(op):
    with pytest.raises(ValueError, match=r"op must be .*np\.add"):
        execute(build("all_reduce", "ring", 2), [np.ones(2)] * 2, op)
    with pytest.raises(ValueError, match=r"op must be "):
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
    with pytest.raises(ValueError, match=r"op gcd .*float64"):
        execute(build("all_reduce", "ring", 2), [np.ones(2)] * 2, np.gcd)
    with pytest.raises(ValueError, match=r"must be 2 array\(s\)"):
        execute(build("all_reduce", "ring", 2), None)
    with pytest.raises(ValueError, match=r"buffers of reduce_scatter must be 2.*got 3"):
        expected("reduce_scatter", [np.arange(4)] * 3, n_ranks=2)


def test_a_collective_of_ones_own_needs_one_place(monkeypatch):
    """A definition is all that execution, its oracle and the bounds ask for."""
    monkeypatch.setattr(registry, "_found", {k: dict(v) for k, v in registry._found.items()})
    monkeypatch.setattr(registry, "_about", dict(registry._about))

    @define("copy", own, at_root)
    def copy(buffers, op, n, root):
        return [
            np.concatenate(buffers) if r == root else np.zeros(0, buffers[0].dtype)
            for r in range(n)
        ]

    star = Schedule(
        "copy", "by hand", 3, 3, (StepGroup.make([0, 2], 1, [0, 2], reduce=False),), root=1
    )
    buffers = inputs("all_gather", 3, 7, np.random.default_rng(0))
    got, wanted = execute(star, buffers), expected("copy", buffers, root=1)
    assert [a.tolist() for a in got] == [a.tolist() for a in wanted]
    assert got[1].size == 7
    assert bounds("copy", 3, 9e9, port_rate=1e9)[0].seconds == 9.0


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
    assert bounds("all_reduce", 2, 1) == ()


def test_an_algorithm_without_a_closed_form_says_so(monkeypatch):
    monkeypatch.setitem(registry._about, ("collective", "all_reduce.ring"), {})
    with pytest.raises(ValueError, match=r"all_reduce ring .*no closed form"):
        collectives.closed_form("all_reduce", "ring")


# ------------------------------------------------------------------ display


def test_bounds_show_themselves():
    (port,) = bounds("all_gather", 4, "3 GB", port_rate="400 Gb/s")
    assert repr(port) == "<Bound port: 45.0 ms = (n-1)/n S / rate>"
    assert "only hosts add" in port.model
    assert port.seconds == 3 / 4 * 3e9 / units.rate("400 Gb/s")


# Shuffled groups ----------------------------------------------------------------------------------
def test_shuffle_1_is_that_of_the_views_and_lessons():
    wired = topologies.two_wirings(servers=128, gpus=8, radix=64)
    rings = collectives.rail_groups(wired["by rail"])
    order = collectives.shuffled(rings, seed=1)
    servers = np.random.default_rng(1).permutation(128)
    assert all(np.array_equal(a, np.array(b)[servers]) for a, b in zip(order, rings, strict=True))
    crossings = {name: collectives.spine_crossings(f, order) for name, f in wired.items()}
    assert crossings == {"by rail": 712, "by rack": 992}
    in_order = [collectives.shuffled(rings, seed=0), np.array(rings)]
    for groups in in_order:
        assert collectives.spine_crossings(wired["by rail"], groups) == 32
        assert collectives.spine_crossings(wired["by rack"], groups) == 256


@given(
    st.lists(st.lists(st.integers(0, 10**6), max_size=12), min_size=1, max_size=5),
    st.integers(0, 99),
)
def test_law_a_shuffle_keeps_the_members_of_each_group(groups, seed):
    given_before = [list(group) for group in groups]
    order = collectives.shuffled(groups, seed)
    assert [sorted(group.tolist()) for group in order] == [sorted(group) for group in groups]
    assert groups == given_before
    again = collectives.shuffled(groups, seed)
    assert [group.tolist() for group in again] == [group.tolist() for group in order]
    if seed == 0:
        assert [group.tolist() for group in order] == groups


@pytest.mark.parametrize("seed", [1, 2, 9])
def test_all_rails_get_the_servers_in_the_same_order(seed):
    fabric = topologies.two_wirings(servers=128, gpus=8, radix=64)["by rail"]
    order = collectives.shuffled(collectives.rail_groups(fabric), seed)
    servers = [fabric.server[group].tolist() for group in order]
    assert servers[0] != sorted(servers[0])
    assert all(other == servers[0] for other in servers)


def test_a_shuffle_leaves_what_it_was_given():
    groups = np.arange(12).reshape(3, 4)
    order = collectives.shuffled(groups, 0)
    order[0][0] = 99
    assert groups[0, 0] == 0
    assert [group.dtype for group in order] == [np.int64] * 3


@pytest.mark.parametrize(
    ("groups", "seed", "error", "words"),
    [
        ([0, 1, 2], 1, ValueError, r"write a single group as \[group\]"),
        ([], 1, ValueError, r"one or more rows of endpoints, got \[\]; rail_groups"),
        (5, 1, ValueError, "one or more rows of endpoints, got 5"),
        ([[0.5, 1.5]], 1, TypeError, "numbers of endpoints, such as .* got"),
        ([[True, False]], 1, TypeError, "numbers of endpoints"),
        ([[0, 1]], -1, ValueError, "seed must be >= 0, got -1"),
        ([[0, 1]], 1.0, TypeError, "seed must be a whole number, got 1.0"),
    ],
)
def test_what_cannot_be_shuffled_is_refused(groups, seed, error, words):
    with pytest.raises(error, match=words):
        collectives.shuffled(groups, seed)


# Levels of a network ------------------------------------------------------------------------------
def test_levels_of_two_wirings_by_hand():
    wired = topologies.two_wirings(servers=128, gpus=8, radix=64)
    # Of the 1,016 GPUs of other servers, 31 are on the leaf by rail, and three servers of eight by rack.
    for name, on_leaf in (("by rail", 31), ("by rack", 24)):
        share = collectives.levels(wired[name])
        assert share["inside a server"] == 0
        assert share["on a leaf"] == pytest.approx(on_leaf / 1016)
        assert share["over a spine"] == pytest.approx(1 - on_leaf / 1016)
    share = collectives.levels(wired["by rail"], [0, 0, 0, 0], [1, 8, 9, 8 * 32])
    assert share == {"inside a server": 0.25, "on a leaf": 0.25, "over a spine": 0.5}


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_levels_of_rings_are_their_spine_crossings(seed):
    for fabric in topologies.two_wirings(servers=8, gpus=4, radix=16).values():
        rings = collectives.shuffled(np.arange(32).reshape(8, 4).T, seed)
        sender, receiver = collectives.ring_pairs(rings)
        share = collectives.levels(fabric, sender, receiver)
        assert share["over a spine"] * 32 == pytest.approx(
            collectives.spine_crossings(fabric, rings)
        )
        assert sum(share.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (([0, 1], None), "only one"),
        ((None, [0, 1]), "only one"),
        (([0, 1], [1]), "same length"),
        ((np.arange(0), np.arange(0)), "at least 1"),
        (([0], [99]), "0[.][.]31"),
    ],
)
def test_transfers_without_levels_are_refused(ends, words):
    fabric = topologies.two_wirings(servers=8, gpus=4, radix=16)["by rail"]
    with pytest.raises(ValueError, match=words):
        collectives.levels(fabric, *ends)


def test_levels_of_an_all_to_all_need_two_servers():
    with pytest.raises(ValueError, match="two servers"):
        collectives.levels(topologies.build("rail_optimised", servers=1))


def test_ring_pairs_join_each_member_with_the_next_of_its_row():
    sender, receiver = collectives.ring_pairs([[4, 2, 0], [1, 3, 5]])
    assert sender.tolist() == [4, 2, 0, 1, 3, 5]
    assert receiver.tolist() == [2, 0, 4, 3, 5, 1]
    assert collectives.ring_pairs([7, 8])[1].tolist() == [8, 7]
    for wrong in ([[0.5, 1]], [[[0, 1]]], [["a", "b"]]):
        with pytest.raises(ValueError, match="rows of whole numbers"):
            collectives.ring_pairs(wrong)
