"""The ideal engine: each flow as if it were alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import collectives, engines, routing, topologies
from fabriclab.core import PATH, SPRAY, Flows, Routes
from fabriclab.errors import Deadlock, Unreachable
from fabriclab.lower import lower
from support.flow_programs import line, made, programs, run_line, run_program, turns


def test_others_do_not_slow_a_flow():
    timeline = run_line(
        [10.0, 4.0], [[0], [0, 1], [0]], [100.0, 40.0, 20.0], engine="ideal", delay=0.5
    )
    assert timeline.finish.tolist() == [10.5, 10.5, 2.5]


def test_the_longest_path_through_the_dependencies():
    timeline = run_line(
        [10.0],
        [[0], [], [0]],
        [20.0, 0.0, 10.0],
        lag=[0.0, 3.0, 0.5],
        start=[0, 0, 3.25],
        after=[[], [], [0, 1]],
        engine="ideal",
    )
    assert timeline.start.tolist() == [0.0, 3.0, 3.5]
    assert timeline.finish.tolist() == [2.0, 3.0, 4.5]


def test_the_rows_of_a_flow_share_its_links_and_its_limit():
    fabric = line(10.0, 2.0)
    rows = Routes(
        [0, 1, 3], [0, 0, 2], [1, 1, 1], [0, 0], [0.75, 0.25], [0, 0], [PATH, SPRAY], [False, False]
    )
    ends = [
        engines.run(fabric, rows, made(0, 1, 40.0, limit=x), "ideal").end
        for x in (np.inf, 5.0, 4.0)
    ]
    assert ends == [5.0, 8.0, 10.0]  # 10 MiB at 2 MiB/s, 40 at 5, 40 at 4


def test_groups_and_repeats():
    timeline = run_line(
        [10.0], [[0], [0]], [10.0, 30.0], group=[0, 1], repeat=[4, 2], engine="ideal"
    )
    assert (timeline.end, timeline.engine) == (10.0, "ideal")


@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=6), st.floats(1.0, 1e6), st.floats(0, 1.0)
)
def test_without_contention_both_engines_agree(sizes, rate, delay):
    n = len(sizes)
    columns = {
        "after": [[], *([i] for i in range(n - 1))],
        "lag": 1e-3,
        "limit": [1e5, *[np.inf] * (n - 1)],
    }
    arguments = ([rate] * 3, [[0, 1, 2][i % 3 :] for i in range(n)], sizes)
    flow, ideal = (
        run_line(*arguments, delay=delay, engine=e, **columns) for e in ("flow", "ideal")
    )
    assert flow.start == pytest.approx(ideal.start, rel=1e-12)
    assert flow.finish == pytest.approx(ideal.finish, rel=1e-12)


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling"])
def test_a_collective_on_a_crossbar_has_no_contention(algorithm):
    fabric = topologies.build("crossbar", hosts=8)
    flows = lower(collectives.build("all_reduce", algorithm, 8), fabric, "8 MiB", lag=1e-6)
    routes = routing.route(fabric, flows)
    a, b = (engines.run(fabric, routes, flows, e) for e in ("flow", "ideal"))
    assert a.finish == pytest.approx(b.finish, rel=1e-12)


@given(programs())
def test_no_flow_ends_sooner_than_alone(program):
    capacity, rows, flows, _ = program
    contended, routes, flows = run_program(capacity, rows, flows, [])
    alone = engines.run(line(*capacity), routes, flows, "ideal")
    assert np.all(contended.start >= alone.start * (1 - 1e-12))
    assert np.all(contended.finish >= alone.finish * (1 - 1e-12))


def test_what_it_cannot_do_is_refused():
    with pytest.raises(ValueError, match="engine 'ideal' takes no changes; use 'flow'"):
        run_line([10.0], [[0]], 100.0, changes=turns(5.0, 0, 5.0), engine="ideal")
    with pytest.raises(
        Unreachable, match=r"flow 1 can never end: it crosses host 1 -> host 2 \(link 2\)"
    ):
        run_line([10.0, 0.0], [[0], [0, 1]], 10.0, engine="ideal")
    with pytest.raises(Deadlock, match="0 after 1 after 0"):
        run_line([10.0], [[0]] * 2, 5.0, after=[[1], [0]], engine="ideal")


def test_what_stays_on_its_node_takes_no_time_in_any_engine():
    fabric = topologies.build("crossbar", hosts=2)
    flows = Flows.make(0, 0, "1 GB", limit="1 GB/s", lag=2.0)
    routes = routing.route(fabric, flows)
    assert {name: engines.run(fabric, routes, flows, name).end for name in engines.names()} == {
        "packet": 2.0,
        "flow": 2.0,
        "ideal": 2.0,
    }
