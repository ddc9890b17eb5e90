"""Lowering: from a schedule to flows on a fabric; timed by the engines it meets closed forms and bounds."""

import functools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabriclab import collectives, engines, registry, routing, topologies
from fabriclab import lower as lowering
from fabriclab.collectives import bounds, build, closed_form
from fabriclab.core import FabricBuilder, Schedule, StepGroup
from fabriclab.errors import TooLarge
from fabriclab.lower import lower
from support.sampling import few

NAMES = registry.names("collective")
BETA = 1e9


@functools.cache
def crossbar(n):
    return topologies.build("crossbar", hosts=n, rate=BETA)


def end(fabric, flows, engine="flow"):
    """Return when the last byte has arrived."""
    return engines.run(fabric, routing.route(fabric, flows), flows, engine=engine).end


def inner(schedule, fabric):
    """Return the switch of a crossbar for every switch of a schedule."""
    return [fabric.n_nodes - 1] * schedule.n_switches


def alone(schedule, size, alpha, gamma):
    """Return the time of a schedule in which each transfer has its ports to itself, step by step."""
    total, n = 0.0, schedule.n_ranks
    for step in schedule.steps():
        moved = size * schedule.moved(step)
        added = np.bincount(step.target, moved * step.reduce, schedule.n_participants)[:n].max()
        total += alpha + moved.max() / BETA + gamma * added
    return total


def waits(flows):
    """Return for each flow the flows that it waits for, as sets."""
    return [
        set(flows.after[flows.after_ptr[f] : flows.after_ptr[f + 1]].tolist())
        for f in range(flows.n_flows)
    ]


def by_definition(schedule):
    """Return what each transfer waits for, straight from the rule: last sends, and all received since."""
    flat = [
        (t, s, d)
        for t, g in enumerate(schedule.steps())
        for s, d in zip(g.source.tolist(), g.target.tolist(), strict=True)
    ]
    out = []
    for t, source, _ in flat:
        last = max((u for u, s, _ in flat if s == source and u < t), default=-1)
        sent = {i for i, (u, s, _) in enumerate(flat) if s == source and u == last}
        out.append(sent | {i for i, (u, _, d) in enumerate(flat) if d == source and last <= u < t})
    return out


def two_leaves():
    """Return four hosts, two on each of two leaves that one cable joins."""
    b = FabricBuilder(("host", "leaf"), ("server",))
    host = b.add_nodes("host", 4, tier=0, transit=False, server=np.arange(4))
    leaf = b.add_nodes("leaf", 2, tier=1, transit=True)
    b.add_cables(host, leaf[[0, 0, 1, 1]], capacity=BETA)
    b.add_cables(leaf[0], leaf[1], capacity=BETA / 4)
    return b.build("two leaves", {}, endpoint=host, rail=np.zeros(4), server=np.arange(4))


# ------------------------------------------------------------------ by hand


def test_a_ring_of_four_by_hand():
    fabric = crossbar(6)
    flows = lower(
        build("all_reduce", "ring", 4), fabric, "4 kB", placement=[5, 0, 3, 1], lag="2 us", weight=3
    )
    assert flows.is_sequence
    assert flows.repeat.tolist() == [3, 3]
    assert flows.source.tolist() == fabric.endpoint[[5, 0, 3, 1] * 2].tolist()
    assert flows.target.tolist() == fabric.endpoint[[0, 3, 1, 5] * 2].tolist()
    assert flows.group.tolist() == [0] * 4 + [1] * 4
    assert set(flows.size) == {1000.0}
    assert set(flows.lag) == {2e-6}
    assert set(flows.weight) == {3.0}
    assert set(flows.limit) == {np.inf}
    assert end(fabric, flows) == pytest.approx(6 * (2e-6 + 1e-6), rel=1e-12)


def test_a_limit_holds_a_source_back():
    flows = lower(build("broadcast", "one_root", 2), crossbar(2), 1e6, limit="1 Gb/s")
    assert set(flows.limit) == {1.25e8}
    assert end(crossbar(2), flows) == pytest.approx(1e6 / 1.25e8)


def test_an_adder_adds_one_buffer_after_another():
    flows = lower(build("all_reduce", "one_root", 4), crossbar(4), 1e3, lag=1e-6, gamma=1e-9)
    assert flows.lag.tolist() == pytest.approx([1e-6 + 3e-6] * 3 + [1e-6] * 3)
    ring = lower(build("all_reduce", "ring", 4), crossbar(4), 4e3, gamma=1e-9)
    assert ring.lag.tolist() == pytest.approx([1e-6] * 4 + [0.0] * 4)
    # In the middle step each rank takes a copy and adds: only what is added costs.
    both = lower(
        build("all_reduce", "ring", 2, segments=2, pipelined=True), crossbar(2), 4e3, gamma=1e-9
    )
    assert both.lag.tolist() == pytest.approx([1e-6] * 2 + [0.0] * 2 + [1e-6] * 2 + [0.0] * 2)


def test_a_rank_waits_for_all_that_it_received_since_it_last_sent():
    # Rank 0 of a tree receives from 4, 2 and 1 in three steps before it sends: waiting for the last one only
    # would let it send a sum with parts missing.
    flows = lower(build("all_reduce", "binomial_tree", 5), crossbar(5), 1e3, expand=True)
    rank = {node: r for r, node in enumerate(crossbar(5).endpoint.tolist())}
    moves = [
        (rank[s], rank[t])
        for s, t in zip(flows.source.tolist(), flows.target.tolist(), strict=True)
    ]
    assert moves == [(1, 0), (3, 2), (2, 0), (4, 0), (0, 4), (0, 2), (0, 1), (2, 3)]
    assert waits(flows) == [set(), set(), {1}, set(), {0, 2, 3}, {4}, {5}, {2, 5}]


def test_rows_of_a_placement_run_side_by_side():
    fabric = crossbar(8)
    plan, rows = build("all_reduce", "ring", 4), [[0, 1, 2, 3], [7, 6, 5, 4]]
    both = lower(plan, fabric, 4e6, placement=rows)
    assert both.labels == ("all_reduce ring 0", "all_reduce ring 1")
    assert both.label.tolist() == [0] * 4 + [1] * 4 + [0] * 4 + [1] * 4
    for row in (0, 1):
        alone = lower(plan, fabric, 4e6, placement=rows[row])
        for name in ("source", "target", "size", "group"):
            assert np.array_equal(getattr(both, name)[both.label == row], getattr(alone, name))
    graph, single = (lower(plan, fabric, 4e6, placement=p, expand=True) for p in (rows, rows[1]))
    assert waits(graph)[single.n_flows :] == [
        {x + single.n_flows for x in w} for w in waits(single)
    ]
    assert end(fabric, graph) == pytest.approx(end(fabric, both), rel=1e-12)


def test_leaves_rails_and_crossings_by_hand():
    fabric = two_leaves()
    assert collectives.leaf_of(fabric).tolist() == [4, 4, 5, 5]
    assert collectives.spine_crossings(fabric, [0, 1, 2, 3]) == 2
    assert collectives.spine_crossings(fabric, [0, 2, 1, 3]) == 4
    assert collectives.spine_crossings(fabric, [[0, 1], [2, 3]]) == 0
    assert [g.tolist() for g in collectives.rail_groups(fabric)] == [[0, 1, 2, 3]]


def test_the_leaf_above_is_the_nearest_and_of_several_the_one_on_the_rail():
    b = FabricBuilder(("gpu", "pcie", "nic", "leaf"), ("rail",))
    gpu = b.add_nodes("gpu", 5, tier=0, transit=False)
    pcie = b.add_nodes("pcie", 2, tier=1, transit=True)
    nic = b.add_nodes("nic", 3, tier=2, transit=True)
    leaf = b.add_nodes("leaf", 4, tier=3, transit=True, rail=[1, 0, 2, 3])
    # GPUs 0 to 2 share a PCIe switch with the NICs of leaves 0 and 1; the NIC of leaf 2 is one switch further.
    b.add_cables(gpu[:3], pcie[0], capacity=BETA)
    b.add_cables(
        [pcie[0], pcie[0], pcie[0], pcie[1]], [nic[0], nic[1], pcie[1], nic[2]], capacity=BETA
    )
    b.add_cables(nic, leaf[:3], capacity=BETA)
    # GPU 3 is itself on leaf 3, and GPU 2 beside it: near, but GPU 3 lets nothing pass. GPU 4 has no way out.
    b.add_cables([gpu[3], gpu[2], gpu[4]], [leaf[3], gpu[3], gpu[3]], capacity=BETA)
    fabric = b.build("shared", {}, endpoint=gpu, rail=[0, 1, 2, 3, 4], server=np.zeros(5))
    # Rank 2 finds no leaf of its rail among the nearest: the lowest number.
    assert collectives.leaf_of(fabric).tolist() == [*leaf[[1, 0, 0, 3]], -1]


def test_the_hall_by_hand():
    # 8 rails of 128 servers, 4 leaves a rail: a ring in server order leaves a leaf 4 times. The mean of shuffled
    # orders is 1,024 x 96/127 = 774.05.
    fabric = topologies.build("rail_optimised")
    groups = collectives.rail_groups(fabric)
    assert [g.size for g in groups] == [128] * 8
    for rail, group in enumerate(groups):
        assert set(fabric.rail[group]) == {rail}
        assert fabric.server[group].tolist() == list(range(128))
    assert collectives.spine_crossings(fabric, groups) == 32
    leaves = collectives.leaf_of(fabric)
    assert np.unique(leaves).size == 32
    assert set(fabric.kind[leaves]) == {fabric.kinds.index("leaf")}
    rail = fabric.coord[:, fabric.coord_names.index("rail")]
    assert np.array_equal(rail[leaves], fabric.rail)
    rng = np.random.default_rng(0)
    shuffled = [
        collectives.spine_crossings(fabric, [rng.permutation(g) for g in groups]) for _ in range(20)
    ]
    assert np.mean(shuffled) == pytest.approx(1024 * 96 / 127, rel=0.02)


# ------------------------------------------------------------------ shape


def test_one_rank_needs_no_flow():
    for expand in (False, True):
        flows = lower(build("all_reduce", "ring", 1), crossbar(2), "1 GB", expand=expand)
        assert flows.n_flows == 0
        assert end(crossbar(2), flows) == 0


def test_a_ring_of_65536_stays_two_groups():
    fabric = crossbar(65_536)
    flows = lower(build("all_reduce", "ring", 65_536), fabric, "1 GiB")
    assert flows.n_flows == 2 * 65_536
    assert flows.repeat.tolist() == [65_535, 65_535]
    with pytest.raises(
        TooLarge, match=r"graph of 8589803520 flows needs about .* let expand be False"
    ):
        lower(build("all_reduce", "ring", 65_536), fabric, "1 GiB", expand=True)
    with pytest.raises(TooLarge, match=r"graph with 4294836225 dependencies needs about"):
        lower(build("all_reduce", "one_root", 65_536), fabric, "1 GiB", expand=True)


@pytest.mark.parametrize(
    ("algorithm", "expand"), [("ring", False), ("ring", True), ("one_root", True)]
)
def test_the_memory_estimate_is_above_the_peak(algorithm, expand):
    n = {("ring", False): 20_000, ("ring", True): 200, ("one_root", True): 500}[algorithm, expand]
    fabric, plan = crossbar(n), build("all_reduce", algorithm, n)
    tracemalloc.start()
    flows = lower(plan, fabric, 1e9, gamma=1e-12, expand=expand)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    estimate = max(flows.n_flows * lowering._FLOW_BYTES, flows.after.size * lowering._ENTRY_BYTES)
    assert 0.5 * estimate < peak < 1.05 * estimate


# ------------------------------------------------------------------ laws


@given(
    st.sampled_from(NAMES),
    st.integers(1, 17),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_each_rank_sends_what_the_schedule_says(name, n, segments, pipelined, expand, data):
    schedule = build(
        *name.split("."),
        n,
        root=data.draw(st.integers(0, n - 1)),
        segments=segments,
        pipelined=pipelined,
    )
    place = data.draw(st.permutations(range(n + 3)))[:n]
    fabric = crossbar(n + 3)
    flows = lower(
        schedule, fabric, 1e6, placement=place, expand=expand, switches=inner(schedule, fabric)
    )
    moved = flows.size * flows.repeat[flows.group]
    for end_of, volume in ((flows.source, schedule.sent()), (flows.target, schedule.received())):
        per_node = np.bincount(end_of, weights=moved, minlength=fabric.n_nodes)
        np.testing.assert_allclose(per_node[fabric.endpoint[place]], volume[:n] * 1e6, rtol=1e-12)
        assert per_node.sum() == pytest.approx(volume.sum() * 1e6, rel=1e-12)


@given(st.sampled_from(NAMES), st.integers(1, 9), st.integers(1, 3), st.booleans(), st.data())
def test_dependencies_are_those_of_the_rule(name, n, segments, pipelined, data):
    schedule = build(
        *name.split("."),
        n,
        root=data.draw(st.integers(0, n - 1)),
        segments=segments,
        pipelined=pipelined,
    )
    flows = lower(schedule, crossbar(n), 1e6, expand=True, switches=inner(schedule, crossbar(n)))
    assert not flows.is_sequence
    assert waits(flows) == by_definition(schedule)
    assert flows.order().size == flows.n_flows


@given(st.sampled_from(NAMES), st.integers(1, 9), st.integers(1, 3), st.booleans())
def test_data_arrive_before_they_are_sent_on(name, n, segments, pipelined):
    schedule = build(*name.split("."), n, segments=segments, pipelined=pipelined)
    fabric = crossbar(schedule.n_participants)  # a node of its own for each switch
    flows = lower(schedule, fabric, 1e6, expand=True, switches=fabric.endpoint[n:])
    reach = np.zeros((flows.n_flows, flows.n_flows), dtype=bool)
    for f in flows.order().tolist():
        for before in flows.after[flows.after_ptr[f] : flows.after_ptr[f + 1]]:
            reach[f] |= reach[before]
            reach[f, before] = True
    step = np.concatenate(
        [np.full(g.n_transfers, t) for t, g in enumerate(schedule.steps())] or [np.zeros(0)]
    )
    needed = (flows.target[None, :] == flows.source[:, None]) & (step[None, :] < step[:, None])
    assert np.all(reach | ~needed)


@pytest.mark.parametrize("name", NAMES)
@few(8)
@given(
    n=st.integers(1, 17),
    size=st.floats(0, 1e9),
    alpha=st.floats(0, 1e-3),
    gamma=st.floats(0, 1e-8),
    engine=st.sampled_from(["ideal", "flow"]),
    data=st.data(),
)
def test_engines_give_the_closed_form_on_a_crossbar(name, n, size, alpha, gamma, engine, data):
    what, algorithm = name.split(".")
    schedule = build(what, algorithm, n, root=data.draw(st.integers(0, n - 1)))
    flows = lower(
        schedule, crossbar(n), size, lag=alpha, gamma=gamma, switches=inner(schedule, crossbar(n))
    )
    # The engine flow shares ports; the engine ideal gives every transfer the whole port.
    by_form = closed_form(what, algorithm)(size, n, alpha, BETA, gamma)
    wanted = by_form if engine == "flow" else alone(schedule, size, alpha, gamma)
    assert end(crossbar(n), flows, engine) == pytest.approx(wanted, rel=1e-9, abs=1e-15)
    assert wanted <= by_form * (1 + 1e-9) + 1e-15


def test_one_root_differs_between_the_engines_by_the_root_port():
    flows = lower(build("all_reduce", "one_root", 9), crossbar(9), 1e9)
    assert end(crossbar(9), flows, "flow") == pytest.approx(2 * 8 * 1e9 / BETA, rel=1e-12)
    assert end(crossbar(9), flows, "ideal") == pytest.approx(2 * 1e9 / BETA, rel=1e-12)


@settings(max_examples=30)
@given(
    st.sampled_from(NAMES), st.integers(2, 12), st.floats(1e3, 1e9), st.booleans(), st.booleans()
)
def test_no_run_beats_the_bounds_of_its_machine(name, n, size, expand, cut):
    what, algorithm = name.split(".")
    machine = registry.info("collective", name)["machine"]
    cut &= machine == "hosts"  # a switch would be on one side
    schedule = build(what, algorithm, min(n, 4) if cut else n)
    fabric = two_leaves() if cut else crossbar(n)
    alpha = 1e-6
    ends = [e for g in schedule.steps() for e in (g.source, g.target)]
    most = max([np.bincount(e)[: schedule.n_ranks].max() for e in ends], default=1)
    known = bounds(
        what,
        schedule.n_ranks,
        size,
        port_rate=BETA,
        alpha=alpha,
        messages=int(most),
        machine=machine,
        cuts=[(2, BETA / 4)] if cut and schedule.n_ranks == 4 else [],
    )
    time = end(
        fabric,
        lower(schedule, fabric, size, lag=alpha, expand=expand, switches=inner(schedule, fabric)),
    )
    assert time >= max(b.seconds for b in known) * (1 - 1e-9)


@pytest.mark.parametrize("engine", ["ideal", "flow"])
@pytest.mark.parametrize("factor", [1.0, 0.25])
def test_repeat_equals_the_expanded_run_with_one_slow_link(engine, factor):
    fabric = crossbar(64)
    slow = np.flatnonzero(fabric.source == fabric.endpoint[17])
    fabric = fabric.with_capacity(slow, BETA * factor)
    plan = build("all_reduce", "ring", 64)
    barrier, graph = (lower(plan, fabric, 64e6, lag=1e-6, expand=e) for e in (False, True))
    assert graph.n_flows == 2 * 63 * 64
    wanted = 2 * 63 * (1e-6 + 1e6 / (BETA * factor))
    assert end(fabric, barrier, engine) == pytest.approx(wanted, rel=1e-9)
    assert end(fabric, graph, engine) == pytest.approx(wanted, rel=1e-9)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ([0, 1, 2, 4], r"placement must be within 0\.\.3, got 4"),
        ([0, -1, 2, 3], r"placement must be within 0\.\.3, got -1"),
        ([0, 3, 2, 3], "puts ranks 1 and 3 on endpoint 3"),
        ([0, 1, 2], r"of shape \(any, 4\) \(endpoints, a row for each group\), got int64 \(1, 3\)"),
        ([0.0, 1.0, 2.0, 3.0], "must be whole numbers"),
        ([[[0, 1, 2, 3]]], r"got int64 \(1, 1, 4\)"),
        ([[0, 1, 2, 3], [0, 1, 2, 3]], "on endpoint 0; each holds one rank"),
    ],
)
def test_placements_that_do_not_fit_are_refused(placement, message):
    with pytest.raises(ValueError, match=message):
        lower(build("all_reduce", "ring", 4), crossbar(4), 1.0, placement=placement)


def test_wrong_numbers_are_refused():
    plan, fabric = build("all_reduce", "ring", 4), crossbar(4)
    with pytest.raises(ValueError, match=r"5 ranks.*4 endpoints"):
        lower(build("all_reduce", "ring", 5), fabric, 1.0)
    for arguments, message in (
        ({"size": -1}, "size must be within 0"),
        ({"size": "1 GB/s"}, "size must be a size, got the rate"),
        ({"lag": -1e-9}, "lag must be within 0"),
        ({"gamma": -1e-9}, r"gamma must be within 0\.\.1e-06 s/B .*, got -1e-09"),
        ({"gamma": np.nan}, "gamma must be within"),
        ({"gamma": "1 ns"}, "gamma must be within"),
        ({"weight": 0}, "weight must be > 0"),
        ({"limit": 0}, "limit must be within 1e"),
        ({"limit": "400 Gbps"}, "read in two ways"),
    ):
        with pytest.raises(ValueError, match=message):
            lower(plan, fabric, **({"size": 1.0} | arguments))


def test_switches_need_a_node_each():
    up, down = StepGroup.make([0, 1], 2, reduce=True), StepGroup.make(2, [0, 1], reduce=False)
    tree = Schedule("all_reduce", "by hand", 2, 1, (up, down), n_switches=1)
    for wrong in (None, [4, 4], [0.0]):
        with pytest.raises(ValueError, match=r"a node .*for each switch"):
            lower(tree, crossbar(4), 1.0, switches=wrong)
    with pytest.raises(ValueError, match=r"switches must be within 0\.\.4, got 5"):
        lower(tree, crossbar(4), 1.0, switches=[5])
    both = lower(tree, crossbar(4), 1e9, placement=[[0, 1], [2, 3]], gamma=1e-9, switches=[4])
    assert both.source.tolist() == [0, 1, 2, 3, 4, 4, 4, 4]
    assert both.target.tolist() == [4, 4, 4, 4, 0, 1, 2, 3]
    assert not both.lag.any()  # a switch adds at the rate of its ports
    assert end(crossbar(4), both) == 2.0


def test_blocks_of_several_sizes_take_their_own_bytes():
    moves = StepGroup.make([0, 1, 0], [1, 2, 2], [0, 2, 1], [2, 2, 1], reduce=False)
    plan = Schedule("all_gather", "by hand", 3, 3, (moves,), parts=[0.5, 0.1, 0.4])
    assert lower(plan, crossbar(3), 1e3).size.tolist() == pytest.approx([600.0, 900.0, 100.0])


def test_a_fabric_without_leaves_says_which_kinds_it_has():
    with pytest.raises(ValueError, match="kind must be one of host, switch, got 'leaf'"):
        collectives.leaf_of(crossbar(2))


# ------------------------------------------------------------------ display


def test_display():
    flows = lower(build("all_reduce", "ring", 8), crossbar(8), "8 MiB")
    assert repr(flows) == "<Flows: 16 flows, 2 groups in order, 14 steps, 112 MiB in all>"
    graph = lower(build("all_reduce", "ring", 8), crossbar(8), "8 MiB", expand=True)
    assert repr(graph) == "<Flows: 112 flows, a graph, 112 MiB in all>"
