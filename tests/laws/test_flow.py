"""The flow engine: max-min rates against exact oracles, then runs against a replay in fractions."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabriclab import collectives, engines, registry, routing, topologies
from fabriclab.core import PATH, SPRAY, Changes, Flows, Routes
from fabriclab.engines import flow as fluids
from fabriclab.engines.flow import max_min_rates
from fabriclab.errors import Deadlock, NoPath, Unreachable
from fabriclab.lower import lower
from support.flow_programs import MiB, inf, line, made, pack, programs, run_line, run_program, turns
from support.oracles.fluid import replay
from support.oracles.max_min import by_fractions, by_linear_programming, certificate
from support.oracles.routes import from_paths


def merged(rows):
    out = []
    for row in rows:
        out.append({})
        for k, u in row:
            out[-1][k] = out[-1].get(k, 0) + u
    return out


# ---- rates, by hand


def test_two_rows_share_a_link_and_one_is_held_back_elsewhere():
    assert max_min_rates([0, 1, 3], [0, 0, 1], [10.0, 2.0]).tolist() == [8.0, 2.0]


def test_a_chain_of_links_is_the_textbook_case():
    # One long row over three links, one short row on each: the long one gets the least of the halves.
    rate = max_min_rates([0, 3, 4, 5, 6], [0, 1, 2, 0, 1, 2], [6.0, 4.0, 10.0])
    assert rate.tolist() == [2.0, 4.0, 2.0, 8.0]


def test_weights_three_to_one_at_one_bottleneck():
    assert max_min_rates([0, 1, 2], [0, 0], [8.0], weight=[3, 1]).tolist() == [6.0, 2.0]


def test_what_a_limit_leaves_goes_to_the_others():
    assert max_min_rates([0, 1, 2, 3], [0, 0, 0], [9.0], limit=[1.0, inf, 20.0]).tolist() == [
        1.0,
        4.0,
        4.0,
    ]


def test_use_is_the_part_of_the_rate_that_a_link_carries():
    # A spray puts half its rate on each of two links of 4; alone it reaches 8, beside a plain row 16/3.
    assert max_min_rates([0, 2], [0, 1], [4.0, 4.0], use=[0.5, 0.5]).tolist() == [8.0]
    rate = max_min_rates([0, 2, 3], [0, 1, 0], [4.0, 4.0], use=[0.5, 0.5, 1.0])
    assert rate == pytest.approx([8 / 3, 8 / 3], rel=1e-15)


def test_zero_capacity_zero_use_repeats_and_rows_without_links():
    ptr, link, capacity = [0, 2, 3, 5, 5, 6], [0, 1, 1, 2, 2, 3], [0.0, 6.0, 10.0, inf]
    assert max_min_rates(ptr, link, capacity).tolist() == [0.0, 6.0, 5.0, inf, inf]
    use = [0.0, 1, 1, 1, 1, 1]
    assert max_min_rates(ptr, link, capacity, use=use).tolist() == [3.0, 3.0, 5.0, inf, inf]
    assert max_min_rates(ptr, link, capacity, limit=[9, 9, 0, 7, 8.0]).tolist() == [
        0.0,
        6.0,
        0.0,
        7.0,
        8.0,
    ]


def test_no_rows_and_no_links():
    assert max_min_rates([0], [], []).shape == (0,)
    assert max_min_rates([0, 0], [], [5.0]).tolist() == [inf]


def test_a_tree_of_many_links_has_one_rate():
    capacity = np.full(40, 100.0)
    capacity[37] = 3.0
    ptr, link = [0, 40, 41, 42], [*range(40), 37, 5]
    assert max_min_rates(ptr, link, capacity).tolist() == [1.5, 1.5, 98.5]


# ---- rates, laws

few = st.sampled_from([1.0, 2.0, 3.0, 5.0, 8.0, 0.7])
uses = st.sampled_from([0.0, 0.25, 0.5, 0.125, 1.0, 1.0, 1.0, 1 / 3])


@st.composite
def cases(draw, top_rows=7, top_links=5, values=few):
    n_links = draw(st.integers(1, top_links))
    entry = st.tuples(st.integers(0, n_links - 1), uses)
    rows = draw(st.lists(st.lists(entry, max_size=5), min_size=1, max_size=top_rows))
    column = lambda value: draw(st.lists(value, min_size=len(rows), max_size=len(rows)))  # noqa: E731
    capacity = draw(st.lists(st.one_of(values, st.just(0.0)), min_size=n_links, max_size=n_links))
    return (
        rows,
        capacity,
        column(st.sampled_from([1.0, 1.0, 2.0, 3.0, 0.1])),
        column(st.one_of(st.just(inf), values)),
    )


def solve(rows, capacity, weight, limit):
    ptr, link, use = pack(rows)
    return max_min_rates(ptr, link, capacity, use=use, weight=weight, limit=limit)


@given(cases())
def test_rates_equal_exact_fractions(case):
    rows, *columns = case
    exact = by_fractions(merged(rows), *columns)
    assert solve(*case) == pytest.approx(
        [inf if x is None else float(x) for x in exact], rel=1e-12, abs=0
    )


@given(cases(values=st.one_of(st.floats(1e-6, 1e15), st.integers(1, 9).map(lambda e: 10.0**e))))
def test_rates_equal_exact_fractions_over_21_powers_of_ten(case):
    rows, *columns = case
    exact = by_fractions(merged(rows), *columns)
    assert solve(*case) == pytest.approx(
        [inf if x is None else float(x) for x in exact], rel=1e-9, abs=0
    )


@given(cases(top_rows=5, top_links=4))
def test_rates_equal_linear_programming(case):
    rows, capacity, weight, limit = case
    bounded = [i for i, row in enumerate(rows) if limit[i] < inf or any(u > 0 for _, u in row)]
    if bounded:
        part = (
            [rows[i] for i in bounded],
            capacity,
            [weight[i] for i in bounded],
            [limit[i] for i in bounded],
        )
        program = by_linear_programming(merged(part[0]), *part[1:])
        assert solve(*part) == pytest.approx(program, rel=1e-9, abs=1e-9)


def large(seed, n_rows, n_links, longest=6, mixed=True):
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(rng.integers(1, longest + 1, n_rows))])
    link = rng.integers(0, n_links, ptr[-1])
    capacity = rng.choice([25e9, 50e9, 100e9], n_links)
    if not mixed:
        return ptr, link, capacity, {}
    use, weight = rng.choice([0.25, 0.5, 1.0], ptr[-1]), rng.choice([1.0, 2.0, 4.0], n_rows)
    return (
        ptr,
        link,
        capacity,
        {"use": use, "weight": weight, "limit": rng.choice([inf, 1e9, 20e9], n_rows)},
    )


def flaw(ptr, link, capacity, options):
    n = len(ptr) - 1
    use = options.get("use", np.ones(len(link)))
    rows = merged([list(zip(link[a:b], use[a:b], strict=True)) for a, b in pairwise(ptr)])
    rate = max_min_rates(ptr, link, capacity, **options)
    return certificate(
        rows,
        capacity,
        options.get("weight", np.ones(n)),
        options.get("limit", np.full(n, inf)),
        rate,
    )


@given(
    st.integers(0, 2**32),
    st.integers(1, 400),
    st.integers(1, 200),
    st.sampled_from([1, 6, 30]),
    st.booleans(),
)
def test_every_row_has_a_full_link_on_which_none_is_higher(seed, n_rows, n_links, longest, mixed):
    assert flaw(*large(seed, n_rows, n_links, longest, mixed)) < 1e-9


@pytest.mark.parametrize("mixed", [False, True])
def test_ten_thousand_rows_have_their_certificate(mixed):
    assert flaw(*large(1, 10_000, 2_000, mixed=mixed)) < 1e-9


@given(cases(), st.randoms(use_true_random=False))
def test_order_of_rows_and_scale_do_not_matter(case, random):
    rows, capacity, weight, limit = case
    order = random.sample(range(len(rows)), len(rows))
    mixed = solve(
        [rows[i] for i in order], capacity, [weight[i] for i in order], [limit[i] for i in order]
    )
    plain = solve(*case)
    assert mixed == pytest.approx(plain[order], rel=1e-12, abs=0)
    twice = solve(rows, np.multiply(capacity, 2), weight, np.multiply(limit, 2))
    assert twice == pytest.approx(2 * plain, rel=1e-12, abs=0)


# ---- rates, refusals


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (([0, 2], [0], [1.0]), {}, "ptr must rise from 0 to 1"),
        (([0, 2, 1], [0], [1.0]), {}, "ptr must rise"),
        (([0.0, 1.5], [0], [1.0]), {}, "ptr must be whole numbers"),
        (([0, 1], [1], [1.0]), {}, r"link must be within 0\.\.0, got 1"),
        (([0, 1], [-1], [1.0]), {}, r"link must be within 0\.\.0, got -1"),
        (([0, 1], [0], [-1.0]), {}, "capacity must be 1 numbers, each >= 0, got"),
        (([0, 1], [0], [inf, float("nan")]), {}, "capacity must be 2 numbers, each >= 0, got"),
        (([0, 1], [0], [[1.0]]), {}, "capacity must be 1 numbers"),
        (
            ([0, 1], [0], [1.0]),
            {"weight": [0.0]},
            r"weight must be .* each finite and > 0, got \[0.0\]",
        ),
        (([0, 1], [0], [1.0]), {"weight": [inf]}, "weight must be .* finite"),
        (([0, 1], [[0]], [1.0]), {}, r"link must be one row of whole numbers, got shape \(1, 1\)"),
        (([0, 1], [0], [1.0]), {"limit": [-2.0]}, "limit must be 1 numbers, each >= 0"),
        (([0, 1], [0], [1.0]), {"limit": [1.0, 1.0]}, "limit must be 1 numbers"),
        (([0, 1], [0], [1.0]), {"use": [-0.5]}, r"use must be .* got \[-0.5\]"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        max_min_rates(*arguments, **options)


# ---- runs, by hand


def test_a_capacity_that_halves_on_the_way():
    # 100 MiB at 10 MiB/s; from 5 s on 5 MiB/s: 50 MiB in 5 s and 50 MiB in 10 s.
    timeline = run_line([10.0], [[0]], 100.0, changes=turns(5.0, 0, 5.0))
    assert timeline.finish.tolist() == [15.0]


def test_a_link_that_fails_and_comes_back():
    changes = turns([2.0, 7.0], 0, [0.0, 20.0])
    assert run_line([10.0], [[0]], 100.0, changes=changes).finish.tolist() == [11.0]


def test_a_faster_link_helps_only_from_then_on():
    # Two flows share 10 MiB/s; at 4 s the link doubles: 20 MiB each are gone, 30 MiB each at 10 MiB/s remain.
    assert run_line([10.0], [[0], [0]], 50.0, changes=turns(4.0, 0, 20.0)).finish.tolist() == [
        7.0,
        7.0,
    ]


def test_the_short_flow_ends_first_and_leaves_its_rate():
    # 10 MiB/s shared: 20 MiB and 60 MiB. At 4 s the short one ends, 40 MiB remain at 10 MiB/s.
    assert run_line([10.0], [[0], [0]], [20.0, 60.0]).finish.tolist() == [4.0, 8.0]


def test_two_that_end_together_make_room_at_both_their_levels():
    # At 10 s a flow of 2 MiB/s and one of 8 MiB/s end; the one that shared with the slow one goes on at 4 MiB/s.
    assert run_line([4.0, 8.0], [[0], [0], [1]], [20.0, 40.0, 80.0]).finish.tolist() == [
        10.0,
        15.0,
        10.0,
    ]


def test_two_that_end_almost_together_are_two_events():
    assert run_line([10.0], [[0], [0]], [1000.0, 1001.0]).finish.tolist() == [200.0, 200.1]


def test_weights_and_limits_of_flows():
    assert run_line([8.0], [[0], [0]], [60.0, 60.0], weight=[3, 1]).finish.tolist() == [10.0, 15.0]
    assert run_line([8.0], [[0], [0]], [62.0, 10.0], limit=[inf, 2.0]).finish.tolist() == [9.0, 5.0]


def test_starts_dependencies_lag_and_delay():
    timeline = run_line(
        [10.0],
        [[0], [0], [0]],
        [10.0, 20.0, 30.0],
        start=[3.0, 0.0, 0.0],
        lag=[0.0, 0.5, 2.0],
        after=[[], [0], [0, 1]],
        delay=[0.25, 0.125, 0.0],
    )
    assert timeline.start.tolist() == [3.0, 4.75, 8.875]
    assert timeline.finish.tolist() == [4.25, 6.875, 11.875]
    assert timeline.end == 11.875


def test_a_late_flow_takes_its_share_from_then_on():
    # 10 MiB/s; the first moves 20 MiB alone, then both have 5 MiB/s until the second ends at 6 s.
    assert run_line([10.0], [[0], [0]], [60.0, 20.0], start=[0.0, 2.0]).finish.tolist() == [
        8.0,
        6.0,
    ]


def test_a_late_flow_that_makes_all_flows_active_gets_its_own_rate():
    # The order in which flows become active is not the order of their numbers: 0, 2, then 1.
    timeline = run_line([1.0, 1.0], [[0], [0], [1]], 6.0, lag=[0.0, 0.5, 0.0])
    assert timeline.finish.tolist() == [11.5, 12.0, 6.0]


def test_flows_of_size_zero_take_their_lag_and_their_delay():
    timeline = run_line(
        [10.0], [[], [0], []], [0.0, 0.0, 5.0], lag=[2.0, 1.0, 0.0], after=[[], [0], [1]], delay=0.5
    )
    assert timeline.start.tolist() == [2.0, 3.0, 3.5]
    assert timeline.finish.tolist() == [2.0, 3.5, 3.5]  # bytes that stay on their node take no time


def test_subflows_go_each_at_its_own_rate_and_the_flow_ends_with_the_last():
    # 30 MiB and 10 MiB of one flow on links of 10 and 2 MiB/s: 3 s and 5 s; the second row has 1 s of delay.
    fabric = line(10.0, 2.0)
    routes = Routes(
        [0, 1, 2], [0, 2], [1, 1], [0, 0], [0.75, 0.25], [0.0, 1.0], [PATH, SPRAY], [False, False]
    )
    flows = made(0, 1, 40.0)
    timeline = engines.run(fabric, routes, flows)
    assert timeline.finish.tolist() == [6.0]
    assert (timeline.link_bytes / MiB).tolist() == [30.0, 0.0, 10.0, 0.0]
    # The limit holds for both rows together: 8 MiB/s, of which the second can take 2.
    assert engines.run(fabric, routes, made(0, 1, 40.0, limit=8.0)).finish.tolist() == [6.0]
    # 5 MiB/s: the second takes 2 for 5 s, the first 3; 15 MiB are left and go at 5 MiB/s.
    assert engines.run(fabric, routes, made(0, 1, 40.0, limit=5.0)).finish.tolist() == [8.0]


def test_routes_of_another_placement_are_refused():
    fabric = line(10.0, 10.0)
    with pytest.raises(ValueError, match=r"flow 0: .*from host 0 to host 1.*route"):
        engines.run(fabric, from_paths([[0, 2]]), made(0, 1, 1.0))


def test_a_spray_puts_a_part_of_its_rate_on_each_link():
    fabric = line(4.0, 4.0)
    routes = Routes(
        [0, 2, 3], [0, 2, 0], [0.5, 0.5, 1.0], [0, 1], [1, 1], [0, 0], [SPRAY, PATH], [False, False]
    )
    timeline = engines.run(fabric, routes, made(0, [2, 1], [16.0, 8.0]))
    # Both at 8/3 MiB/s until the path ends at 3 s; then the spray has 8 MiB/s for its last 8 MiB.
    assert timeline.finish == pytest.approx([4.0, 3.0], rel=1e-14)
    assert (timeline.link_bytes / MiB).tolist() == [16.0, 0.0, 8.0, 0.0]


# ---- runs of sequences, by hand


def test_groups_run_one_after_another_and_repeat():
    timeline = run_line(
        [10.0],
        [[0], [0], [0]],
        [10.0, 30.0, 20.0],
        lag=[1.0, 0, 0.5],
        group=[0, 0, 1],
        repeat=[2, 3],
    )
    # Flow 1 moves 10 MiB alone, then both share until flow 0 ends at 3 s; 10 MiB are left: 4 s. Then 2.5 s three times.
    assert timeline.start.tolist() == [1.0, 0.0, 8.5]
    assert timeline.finish.tolist() == [3.0, 4.0, 10.5]
    assert (timeline.group_start.tolist(), timeline.period.tolist()) == ([0.0, 8.0], [4.0, 2.5])
    assert timeline.end == 15.5
    assert timeline.link_bytes[0] / MiB == 2 * 40 + 3 * 20


def test_equal_groups_are_solved_once(monkeypatch):
    solved = []
    flow = registry.get("engine", "flow")
    monkeypatch.setitem(
        registry._found["engine"],
        "flow",
        lambda *a, **b: solved.append(a[2].n_flows) or flow(*a, **b),
    )
    same = run_line([10.0], [[0]] * 4, [10.0, 20.0, 10.0, 20.0], group=[0, 0, 1, 1], repeat=[1, 5])
    assert solved == [2]
    assert same.finish.tolist() == [2.0, 3.0, 5.0, 6.0]
    run_line([10.0], [[0]] * 4, [10.0, 20.0, 20.0, 10.0], group=[0, 0, 1, 1], repeat=[1, 5])
    assert solved == [2, 2, 2]


def test_changes_hold_in_later_groups_and_may_fall_into_a_group_that_runs_once():
    def ends(time, repeat):
        return run_line(
            [10.0], [[0], [0]], 10.0, group=[0, 1], repeat=repeat, changes=turns(time, 0, 5.0)
        ).end

    assert ends(0.0, [1, 3]) == 2 + 6
    assert ends(1.0, [1, 3]) == 1 + 6
    assert ends(0.5, [1, 3]) == 1.5 + 6
    assert ends(9.0, [1, 3]) == 4
    with pytest.raises(
        ValueError, match=r"a change falls into group 1, .* 3 repetitions .* flows.expanded\(\)"
    ):
        ends(2.5, [1, 3])


def test_rows_in_any_order_give_the_same_sequence():
    fabric = line(10.0, 5.0)
    flows = made([0, 1], [1, 2], 20.0, group=[0, 1], repeat=[1, 2])
    ordered, turned = from_paths([[0], [2]]), from_paths([[2], [0]], flow=[1, 0])
    assert engines.run(fabric, turned, flows).finish.tolist() == [2.0, 6.0]
    assert engines.run(fabric, ordered, flows).finish.tolist() == [2.0, 6.0]


# ---- runs, laws


@settings(max_examples=4 * settings().max_examples)
@given(programs())
def test_a_run_equals_its_replay_in_fractions(program):
    start, finish = replay(*program)
    timeline, _, _ = run_program(*program)
    assert timeline.start == pytest.approx([float(x) for x in start], rel=1e-11)
    assert timeline.finish == pytest.approx([float(x) for x in finish], rel=1e-11)


@given(programs())
def test_twice_the_capacity_takes_half_the_time(program):
    capacity, rows, flows, _ = program
    plain = [{**f, "start": 0.0, "lag": 0.0} for f in flows]
    still = [{**r, "delay": 0.0} for r in rows]
    slow, _, _ = run_program(capacity, still, plain, [])
    fast, _, _ = run_program(
        [2 * c for c in capacity], still, [{**f, "limit": 2 * f["limit"]} for f in plain], []
    )
    assert 2 * fast.finish == pytest.approx(slow.finish, rel=1e-12)


@given(st.integers(0, 10**6), st.sampled_from(["ecmp", "spray"]), st.booleans())
def test_fabric_runs_keep_bytes_bounds_and_bits(seed, method, chained):
    rng = np.random.default_rng(seed)
    fabric = topologies.build("leaf_spine", hosts=8, radix=4, rate=10e9)
    n = 12
    ends = fabric.endpoint[np.stack([rng.permutation(8)[:2] for _ in range(n)], axis=1)]
    after = [
        [int(rng.integers(f))] if chained and f and rng.random() < 0.7 else [] for f in range(n)
    ]
    flows = Flows.make(
        *ends, rng.uniform(0, 1e9, n), start=rng.uniform(0, 0.1, n), after=after, lag=1e-6
    )
    routes = routing.route(fabric, flows, method, seed=seed)
    timeline, alone = (
        engines.run(fabric, routes, flows),
        engines.run(fabric, routes, flows, "ideal"),
    )
    into = np.bincount(flows.target, flows.size, fabric.n_nodes)
    out = np.bincount(flows.source, flows.size, fabric.n_nodes)
    kept = np.bincount(fabric.target, timeline.link_bytes, fabric.n_nodes)
    kept -= np.bincount(fabric.source, timeline.link_bytes, fabric.n_nodes)
    assert kept == pytest.approx(into - out, abs=1e-3)
    assert np.all(timeline.link_bytes <= fabric.capacity * timeline.end * (1 + 1e-12))
    assert np.all(timeline.finish >= alone.finish * (1 - 1e-12))
    again = engines.run(fabric, routes, flows)
    assert timeline.finish.tobytes() == again.finish.tobytes()


@given(st.integers(0, 2**32 - 1))
def test_few_flows_on_a_large_fabric_run_as_if_all_links_were_kept(seed):
    """Only the links in use are kept then; changes name links of the fabric, among them some that nobody uses."""
    rng = np.random.default_rng(seed)
    fabric = topologies.build("rail_optimised", servers=16)
    ends = rng.permutation(fabric.n_ranks)[:8].reshape(2, 4)
    flows = Flows.make(
        *fabric.endpoint[ends], rng.integers(1, 9, 4) * 1e9, limit=rng.choice([2e9, inf], 4)
    )
    routes = routing.route(fabric, flows, "ecmp", subflows=2, seed=seed % 99)
    link = np.append(rng.choice(routes.link, 3), rng.integers(0, fabric.n_links, 2))
    changes = Changes(rng.uniform(0, 0.3, link.size), link, rng.choice([1e9, 5e9], link.size))
    few = engines.run(fabric, routes, flows, changes=changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fluids, "_FEW", 10**9)
        every = engines.run(fabric, routes, flows, changes=changes)
    assert few.finish == pytest.approx(every.finish, rel=1e-12)


def test_every_event_leaves_rates_with_a_certificate(monkeypatch):
    # Rows below the level of an ended one are not solved again: after each event all rates must still be fair.
    rng, flaws = np.random.default_rng(5), []
    fabric = topologies.build("leaf_spine", hosts=16, radix=8, rate=10e9)
    ends = fabric.endpoint[np.stack([rng.permutation(16)[:2] for _ in range(60)], axis=1)]
    flows = Flows.make(*ends, rng.uniform(1e8, 1e9, 60), start=rng.choice([0.0, 0.3], 60))
    routes = routing.route(fabric, flows, seed=3)
    share = fluids.Events._share

    def checked(self, now, floor):
        share(self, now, floor)
        rows = [{int(k): 1.0 for k in routes.row(r)} for r in self.active]
        if rows:
            one, free = np.ones(len(rows)), np.full(len(rows), inf)
            flaws.append(certificate(rows, fabric.capacity, one, free, self.rate[self.active]))

    monkeypatch.setattr(fluids.Events, "_share", checked)
    engines.run(fabric, routes, flows)
    assert len(flaws) > 50
    assert max(flaws) < 1e-9


@pytest.mark.parametrize("slow", [1.0, 0.1])
def test_repeat_equals_the_expanded_run_of_64_ranks_with_one_slow_link(slow):
    fabric = topologies.build("leaf_spine", hosts=64, radix=16, rate=50e9)
    fabric = fabric.with_capacity([2 * 40], 50e9 * slow)
    flows = lower(collectives.build("all_reduce", "ring", 64), fabric, 64e6, lag=2e-6)
    assert flows.is_sequence
    written = flows.expanded()
    a = engines.run(fabric, routing.route(fabric, flows, seed=1), flows)
    b = engines.run(fabric, routing.route(fabric, written, seed=1), written)
    assert a.end == pytest.approx(b.end, rel=1e-11)
    assert a.link_bytes == pytest.approx(b.link_bytes, rel=1e-11)
    if slow < 1:
        assert (
            a.end
            > 5
            * engines.run(
                fabric.with_capacity([2 * 40], 50e9), routing.route(fabric, flows, seed=1), flows
            ).end
        )


# ---- runs, refusals


def test_a_flow_that_can_never_end_names_itself_and_the_link():
    with pytest.raises(
        Unreachable, match=r"flow 1 can never end: it crosses host 1 -> host 2 \(link 2\)"
    ):
        run_line([10.0, 0.0], [[0], [0, 1]], 10.0)
    with pytest.raises(Unreachable, match="flow 0 can never end"):
        run_line([10.0], [[0]], 100.0, changes=turns(1.0, 0, 0.0))


def test_a_flow_without_route_names_its_ends():
    fabric = line(10.0, 10.0)
    routes = from_paths([[0]])
    with pytest.raises(NoPath, match=r"flow 1 from host 0 to host 2 .*5 B.* 0 of them"):
        engines.run(fabric, routes, Flows.make(0, [1, 2], 5.0))
    part = Routes([0, 1], [0], [1], [0], [0.5], [0], [PATH], [False])
    with pytest.raises(ValueError, match=r"flow 0 .* routes for 0\.5 of them"):
        engines.run(fabric, part, Flows.make(0, 1, 5.0))


def test_a_cycle_is_named():
    with pytest.raises(Deadlock, match="1 after 2 after 1"):
        run_line([10.0], [[0]] * 3, 5.0, after=[[], [2, 0], [1]])


def test_parts_that_do_not_fit_are_refused():
    fabric, flows, routes = line(10.0), Flows.make(0, 1, 5.0), from_paths([[0]])
    cases = [
        ("routes.link must be within 0..1, got 7", (fabric, from_paths([[7]]), flows)),
        ("routes.flow must be within 0..0, got 3", (fabric, from_paths([[0]], flow=[3]), flows)),
        ("flows.target must be within 0..1, got 9", (fabric, routes, Flows.make(0, 9, 5.0))),
    ]
    for words, parts in cases:
        with pytest.raises(ValueError, match=words):
            engines.run(*parts)
    with pytest.raises(ValueError, match=r"changes\.link must be within 0\.\.1, got 5"):
        engines.run(fabric, routes, flows, changes=turns(0.0, 5, 1.0))
    with pytest.raises(ValueError, match="unknown engine 'fluid'; choose one of flow, ideal"):
        engines.run(fabric, routes, flows, "fluid")
    with pytest.raises(
        ValueError,
        match=r"config has 'mtu', .*'flow'",
    ):
        engines.run(fabric, routes, flows, config={"mtu": 4096})
    choice = Routes([0, 1], [0], [1], [0], [1], [0], [PATH], [True])
    with pytest.raises(ValueError, match="adaptive rows"):
        engines.run(fabric, choice, flows)


# ---- display


def test_a_dead_link_of_a_large_fabric_is_named():
    fabric = topologies.build("rail_optimised", servers=16)
    flows = Flows.make(fabric.endpoint[0], fabric.endpoint[8], 1e9)
    routes = routing.route(fabric, flows)
    dead = int(routes.row(0)[2])
    with pytest.raises(Unreachable, match=rf"crosses {fabric.link_name(dead)} \(link {dead}\)"):
        engines.run(fabric.with_capacity([dead], 0.0), routes, flows)


def test_changes_of_another_type_are_refused():
    with pytest.raises(TypeError, match=r"changes must be a fabriclab.core.Changes .*, got \[1\]"):
        run_line([1.0], [[0]], 1.0, changes=[1])


def test_the_timeline_tells_engine_and_end():
    assert repr(run_line([10.0], [[0]], 100.0)) == "<Timeline flow: 1 flows end at 10.0 s>"
    assert set(engines.names()) >= {"flow", "ideal"}
