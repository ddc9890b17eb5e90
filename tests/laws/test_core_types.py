"""Routes, Flows, Changes, Timeline and files: by hand, shape, laws, refusals, display."""

import dataclasses
import io
import itertools
import json
import os
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fabriclab import core
from fabriclab.core import (
    PATH,
    SPRAY,
    TREE,
    Changes,
    Flows,
    Result,
    Routes,
    Schedule,
    StepGroup,
    Timeline,
    load,
    save,
)
from fabriclab.core._arrays import expand, pointer, rows_of
from fabriclab.core.save import write_atomic
from fabriclab.errors import Deadlock, FileFormat, TooLarge
from support.oracles.routes import check_routes, from_paths


def diamond():
    """Return host 0 - switch 2 - (switches 3, 4) - switch 5 - host 1; cable numbers 0 to 5."""
    b = core.FabricBuilder(("host", "switch"), ("index",))
    host = b.add_nodes("host", 2, tier=0, transit=False, index=[0, 1])
    b.add_nodes("switch", 4, tier=1, transit=True, index=np.arange(4))
    b.add_cables([0, 2, 2, 3, 4, 5], [2, 3, 4, 5, 5, 1], capacity=1e9, delay=1e-6)
    return b.build("diamond", {}, endpoint=host, rail=[0, 0], server=[0, 1])


UPPER, LOWER = (0, 2, 6, 10), (0, 4, 8, 10)


def spray(use, links=(0, 2, 4, 6, 8, 10), flow=0):
    return Routes(
        ptr=[0, len(links)],
        link=links,
        use=use,
        flow=[flow],
        share=[1.0],
        delay=[4e-6],
        kind=[SPRAY],
        adaptive=[False],
    )


def timeline(**new):
    columns = {
        "start": [0.0, 1.0],
        "finish": [2.0, 3.0],
        "link_bytes": [5.0, 10.0],
        "group_start": [0.0],
        "period": [3.0],
        "repeat": [1],
        "engine": "ideal",
    }
    return Timeline(**{**columns, **new})


@st.composite
def graphs_of_flows(draw, max_size=12):
    """Draw flows whose dependencies have no cycle, under a random numbering."""
    n = draw(st.integers(1, max_size))
    rank = draw(st.permutations(range(n)))
    after = [[] for _ in range(n)]
    for i in range(1, n):
        after[rank[i]] = [rank[j] for j in draw(st.lists(st.integers(0, i - 1), max_size=3))]
    return Flows.make(np.zeros(n), np.ones(n), np.ones(n), after=after)


@st.composite
def sequences_of_flows(draw):
    """Draw groups of flows with repeats, dependencies within the group, starts and lags."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    repeat = [draw(st.integers(1, 3)) for _ in sizes]
    group = np.repeat(np.arange(len(sizes)), sizes)
    after = []
    for size, first in zip(sizes, np.cumsum(sizes) - sizes, strict=True):
        for i in range(size):
            after.append(
                [
                    int(first) + j
                    for j in draw(st.sets(st.integers(0, i - 1) if i else st.nothing()))
                ]
            )
    n = int(sum(sizes))
    times = st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=n, max_size=n)
    return Flows.make(
        np.zeros(n),
        np.ones(n),
        draw(times),
        start=draw(times),
        lag=draw(times),
        after=after,
        group=group,
        repeat=repeat,
    )


def ends_of_graph(flows):
    """Return when each flow of a graph ends, if a byte takes a second and no flow hinders another."""
    end = np.zeros(flows.n_flows)
    for f in flows.order():
        row = flows.after[flows.after_ptr[f] : flows.after_ptr[f + 1]]
        end[f] = max(flows.start[f], end[row].max(initial=0.0) + flows.lag[f]) + flows.size[f]
    return end


def ends_of_sequence(flows):
    """Return the same for a sequence, repetition by repetition, as the docstring of Flows says it."""
    out, now = [], 0.0
    for g, times in enumerate(flows.repeat):
        members = np.arange(flows.n_flows)[flows.of_group(g)]
        for _ in range(times):
            end = {}
            for f in members:
                row = flows.after[flows.after_ptr[f] : flows.after_ptr[f + 1]]
                ready = max([now, *(end[int(x)] for x in row)])
                end[int(f)] = max(now + flows.start[f], ready + flows.lag[f]) + flows.size[f]
            out += [end[int(f)] for f in members]
            now = max([now, *end.values()])
    return out


# rows: by hand and laws ---------------------------------------------------------------------------
@given(st.lists(st.integers(0, 5), max_size=8))
def test_compressed_rows_agree_with_python(counts):
    ptr = pointer(counts)
    assert ptr.tolist() == [sum(counts[:i]) for i in range(len(counts) + 1)]
    assert rows_of(ptr).tolist() == [i for i, c in enumerate(counts) for _ in range(c)]
    start = np.arange(len(counts)) * 10
    assert expand(start, np.array(counts)).tolist() == [
        10 * i + j for i, c in enumerate(counts) for j in range(c)
    ]


# routes: by hand ----------------------------------------------------------------------------------
def test_paths_by_hand():
    r = from_paths([UPPER, LOWER, ()], delay=[4e-6, 4e-6, 0.0])
    assert (r.n_rows, r.ptr.tolist(), r.flow.tolist()) == (3, [0, 4, 8, 8], [0, 1, 2])
    assert r.row(1).tolist() == list(LOWER)
    assert r.hops().tolist() == [4, 4, 0]
    assert (r.share.tolist(), set(r.use), set(r.kind)) == ([1, 1, 1], {1.0}, {PATH})


def test_two_paths_of_one_flow_share_it():
    r = from_paths([UPPER, LOWER], flow=[0, 0])
    assert r.share.tolist() == [0.5, 0.5]
    assert r.link_bytes(Flows.make(0, 1, 8.0, repeat=3), 12).tolist() == [
        24,
        0,
        12,
        0,
        12,
        0,
        12,
        0,
        12,
        0,
        24,
        0,
    ]


def test_a_spray_takes_both_ways_at_once():
    r = spray([1, 0.5, 0.5, 0.5, 0.5, 1])
    check_routes(r, diamond(), Flows.make(0, 1, 1.0))
    assert r.hops().tolist() == [4]
    assert r.link_bytes(Flows.make(0, 1, 8.0), 12)[[0, 2, 4, 10]].tolist() == [8, 4, 4, 8]


def test_a_relay_may_pass_traffic_on_where_others_may_not():
    closed = dataclasses.replace(diamond(), transit=[False, False, True, False, True, True])
    flows = Flows.make(0, 1, 1.0)
    for routes in (from_paths([UPPER]), spray([1, 0.5, 0.5, 0.5, 0.5, 1])):
        with pytest.raises(ValueError, match=r"passes switch 1.*forbids transit"):
            check_routes(routes, closed, flows, relays=[0, 2])
        check_routes(routes, closed, flows, relays=[3])


# routes: laws -------------------------------------------------------------------------------------
@given(st.lists(st.lists(st.integers(0, 11), max_size=4), min_size=1, max_size=6), st.data())
def test_chosen_rows_stay_what_they_are(paths, data):
    r = from_paths(
        paths, flow=data.draw(st.lists(st.integers(0, 3), min_size=len(paths), max_size=len(paths)))
    )
    wanted = data.draw(st.lists(st.integers(0, len(paths) - 1), max_size=6))
    taken = r.of_rows(np.array(wanted, dtype=int))
    assert [taken.row(i).tolist() for i in range(taken.n_rows)] == [list(paths[i]) for i in wanted]
    assert (
        taken.flow.tolist() == r.flow[wanted].tolist()
        and taken.share.tolist() == r.share[wanted].tolist()
    )


@given(
    st.lists(st.sampled_from([UPPER, LOWER]), min_size=1, max_size=4),
    st.floats(0, 1e9),
    st.integers(1, 5),
)
def test_bytes_are_conserved_on_every_cut(paths, size, repeat):
    flows = Flows.make(0, 1, size, repeat=repeat)
    moved = from_paths(paths, flow=[0] * len(paths)).link_bytes(flows, 12)
    for cut in ([0], [2, 4], [6, 8], [10]):
        assert moved[cut].sum() == pytest.approx(size * repeat)


# routes: refusals ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("links", "message"),
    [
        ((0, 2, 6), "flow 0: its route does not go from host 0 to host 1"),
        ((2, 6, 10), "does not go from host 0"),
        ((0, 6, 2, 10), "consecutive links of its route do not meet"),
        ((0, 2, 3, 4, 8, 10), "passes a node twice"),
        ((0, 1, 0, 2, 6, 10), "passes a node twice"),
        ((0, 99), "link must be within"),
    ],
)
def test_a_path_that_is_none_is_refused(links, message):
    with pytest.raises(ValueError, match=message):
        check_routes(from_paths([links]), diamond(), Flows.make(0, 1, 1.0))


def test_a_path_may_end_at_a_host_and_not_pass_one():
    b = core.FabricBuilder(("host",), ("index",))
    host = b.add_nodes("host", 3, tier=0, transit=False, index=np.arange(3))
    b.add_cables([0, 1], [1, 2], capacity=1e9)
    f = b.build("line", {}, endpoint=host, rail=[0] * 3, server=[0, 1, 2])
    check_routes(from_paths([(0,), (3,)]), f, Flows.make([0, 2], [1, 1], 1.0))
    with pytest.raises(ValueError, match="flow 0: its route passes host 1"):
        check_routes(from_paths([(0, 2)]), f, Flows.make(0, 2, 1.0))
    with pytest.raises(ValueError, match="flow 0: its spray passes host 1"):
        check_routes(spray([1, 1], (0, 2)), f, Flows.make(0, 2, 1.0))


@pytest.mark.parametrize(
    "use", [[1, 0.5, 0.4, 0.5, 0.5, 1], [1, 0.5, 0.5, 0.5, 0.5, 0.9], [0.9, 0.5, 0.5, 0.5, 0.5, 1]]
)
def test_a_spray_that_loses_traffic_is_refused(use):
    with pytest.raises(ValueError, match="flow 0: its spray loses or gains"):
        check_routes(spray(use), diamond(), Flows.make(0, 1, 1.0))


def test_a_tree_holds_together():
    f, flows = diamond(), Flows.make(0, 1, 1.0)
    check_routes(dataclasses.replace(spray([1.0] * 3, (0, 2, 4)), kind=[TREE]), f, flows)
    with pytest.raises(ValueError, match="flow 0: its tree falls apart"):
        check_routes(dataclasses.replace(spray([1.0] * 2, (0, 10)), kind=[TREE]), f, flows)


def test_shares_of_a_flow_make_one():
    r = from_paths([UPPER, LOWER], flow=[0, 0])
    with pytest.raises(ValueError, match=r"flow 0: .*shares.* 0\.75"):
        check_routes(dataclasses.replace(r, share=[0.5, 0.25]), diamond(), Flows.make(0, 1, 1.0))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"ptr": [0, 3]}, "ptr must rise from 0 to 4"),
        ({"ptr": [1, 4]}, "ptr must rise from 0 to 4"),
        ({"ptr": [0, 5, 4]}, "ptr must rise from 0 to 4"),
        ({"use": [1.0]}, r"use must have shape \(4,\), got \(1,\)"),
        ({"use": [1, 1, 1, 1.1]}, r"use must be within 0\.\.1, got 1\.\.1\.1"),
        ({"use": [1, 1, 1, -0.1]}, r"use must be within 0\.\.1"),
        ({"use": [1, 1, 1, np.nan]}, r"use must be within 0\.\.1"),
        ({"share": [1.5]}, r"share must be within 0\.\.1, got 1\.5"),
        ({"flow": [0, 1]}, r"flow must have shape \(1,\)"),
        ({"flow": [-1]}, "flow must be >= 0, got -1"),
        ({"link": [0, 2, 6, -1]}, "link must be >= 0, got -1"),
        ({"kind": [3]}, r"kind must be 0, 1 or 2"),
        ({"delay": [-1.0]}, "delay must be finite and >= 0 s, got -1"),
        ({"delay": [np.nan]}, "delay must be finite and >= 0 s, got nan"),
        ({"delay": [0.0, 0.0]}, r"delay must have shape \(1,\)"),
    ],
)
def test_broken_routes_are_refused(new, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(from_paths([UPPER]), **new)


# flows: by hand -----------------------------------------------------------------------------------
def test_flows_from_columns():
    f = Flows.make([0, 1], 2, [8.0, 4.0], after=[[], [0]], weight=3)
    assert (f.n_flows, f.target.tolist(), f.weight.tolist()) == (2, [2, 2], [3, 3])
    assert (f.after_ptr.tolist(), f.after.tolist(), f.is_sequence) == ([0, 0, 1], [0], False)
    assert np.all(np.isinf(f.limit))


def test_order_by_hand():
    f = Flows.make([0] * 4, 1, 1.0, after=[[2], [0, 3], [], [2]])
    assert f.order().tolist() == [2, 0, 3, 1]


def test_a_group_with_repeat_written_out():
    f = Flows.make([0, 1], [1, 0], [8.0, 4.0], after=[[], [0]], repeat=2).expanded()
    assert not f.is_sequence
    assert f.size.tolist() == [8, 4, 0, 8, 4, 0]
    rows = [f.after[f.after_ptr[i] : f.after_ptr[i + 1]].tolist() for i in range(6)]
    assert rows == [[], [0], [0, 1], [2], [2, 3], [3, 4]]
    assert f.source[[2, 5]].tolist() == f.target[[2, 5]].tolist()


def test_no_flows_are_flows():
    f = Flows.make([], [], [])
    assert (f.n_flows, f.order().size, f.expanded().n_flows) == (0, 0, 0)
    assert "0 flows" in repr(f)


# flows: laws --------------------------------------------------------------------------------------
@given(graphs_of_flows())
def test_order_puts_dependencies_first(flows):
    place = np.empty(flows.n_flows, dtype=int)
    place[flows.order()] = np.arange(flows.n_flows)
    assert sorted(place) == list(range(flows.n_flows))
    assert np.all(place[flows.after] < place[rows_of(flows.after_ptr)])


@given(graphs_of_flows(), st.data())
def test_a_cycle_is_found_and_named(flows, data):
    order = flows.order().tolist()
    i, j = sorted(
        (data.draw(st.integers(0, len(order) - 1)), data.draw(st.integers(0, len(order) - 1)))
    )
    chain = order[i : j + 1]
    rows = [
        flows.after[flows.after_ptr[f] : flows.after_ptr[f + 1]].tolist()
        for f in range(flows.n_flows)
    ]
    for first, then in zip(chain, [*chain[1:], chain[0]], strict=True):
        rows[then].append(first)
    looped = Flows.make(np.zeros(len(rows)), 1, 1.0, after=rows)
    with pytest.raises(Deadlock, match="in a cycle: ") as error:
        looped.order()
    named = [int(x) for x in str(error.value).split(": ")[1].split(" after ")]
    assert named[0] == named[-1] and len(set(named)) == len(named) - 1
    assert all(b in rows[a] for a, b in itertools.pairwise(named))


@example(Flows.make([0], [1], [0.0], start=1.0, lag=1.0))
@given(sequences_of_flows())
def test_written_out_the_traffic_ends_at_the_same_times(flows):
    graph = flows.expanded()
    real = np.flatnonzero(graph.source != graph.target)
    assert graph.size.sum() == pytest.approx((flows.size * flows.repeat[flows.group]).sum())
    assert real.size == flows.repeat[flows.group].sum()
    assert ends_of_graph(graph)[real].tolist() == pytest.approx(ends_of_sequence(flows))


# flows: refusals ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"size": [-1.0, 1.0]}, "size must be finite and >= 0 B, got -1"),
        ({"size": [np.inf, 1.0]}, "size must be finite and >= 0 B, got inf"),
        ({"start": -1.0}, "start must be finite and >= 0 s"),
        ({"lag": np.nan}, "lag must be finite and >= 0 s, got nan"),
        ({"weight": 0.0}, "weight must be > 0, got 0"),
        ({"weight": np.inf}, "weight must be > 0"),
        ({"limit": 0.0}, "limit must be > 0 B/s, got 0"),
        ({"limit": np.nan}, "limit must be > 0 B/s, got nan"),
        (
            {"limit": 400},
            r'limit must be within 1e\+06\.\.1e\+14 B/s, got 400\.0; write "400 Gb/s"',
        ),
        ({"limit": [np.inf, 400.0]}, r"limit must be within 1e\+06\.\.1e\+14 B/s, got 400"),
        ({"size": [1e22, 1.0]}, r"size must be within 0\.\.1e\+21 B, got 1e\+22"),
        (
            {"target": [1, 0, 1]},
            r"the others, got the shapes source \(2,\), target \(3,\), size \(2,\)$",
        ),
        (
            {"source": [[0], [0, 1]]},
            "source must be one row of numbers, got rows of different lengths",
        ),
        (
            {"after": [[[0], [0, 1]], []]},
            "after must be one row of numbers, got rows of different lengths",
        ),
        (
            {"repeat": [[1], [1, 2]]},
            "repeat must be one row of numbers, got rows of different lengths",
        ),
        ({"source": -1}, "source must be >= 0, got -1"),
        ({"label": 1}, r"label must be within 0\.\.0, got 1"),
        ({"after": [[], [2]]}, r"after must be within 0\.\.1, got 2"),
        ({"after": [[]]}, r"after must have one row per flow \(2\), got 1"),
        ({"repeat": 0}, "repeat must be >= 1, got 0"),
        ({"repeat": []}, "repeat have one entry per group, got 0"),
        ({"group": [0, 1]}, r"group must rise within 0\.\.0"),
        ({"group": [1, 0], "repeat": [1, 1]}, r"group must rise within 0\.\.1"),
        (
            {"group": [0, 1], "repeat": [1, 1], "after": [[], [0]]},
            "after must stay within the group",
        ),
        ({"target": 0.5}, "whole numbers"),
    ],
)
def test_broken_flows_are_refused(new, message):
    columns = {"source": [0, 1], "target": [1, 0], "size": [1.0, 1.0]}
    with pytest.raises(ValueError, match=message):
        Flows.make(**{**columns, **new})


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (
            {"size": ["1 MB", "2 MB"]},
            "size must be plain numbers in SI units, got '1 MB'; units.parse reads",
        ),
        ({"size": None}, "size must be plain numbers in SI units, got None"),
        ({"size": True}, "size must be plain numbers in SI units, got True"),
        ({"source": "a"}, r"source must be whole numbers \(int32\), got 'a'"),
        ({"weight": "2"}, "weight must be plain numbers in SI units, got '2'"),
        (
            {"after": [0, 1]},
            r"after must be one list of flows per flow, such as \[\[\], \[0\]\], got 0",
        ),
        ({"after": 0}, "after must be one list of flows per flow"),
        ({"after": ["0", ""]}, "after must be one list of flows per flow, .* got '0'"),
        ({"labels": "flow"}, "labels must be a sequence of texts"),
    ],
)
def test_columns_of_another_type_are_refused(new, message):
    with pytest.raises(TypeError, match=message):
        Flows.make(**{"source": [0, 1], "target": [1, 0], "size": [1.0, 1.0], **new})


def test_one_value_for_all_flows_may_have_its_unit():
    f = Flows.make([0, 1], 2, "1 MiB", start="1 ms", lag="2 us", limit="400 Gb/s")
    assert [c.tolist() for c in (f.size, f.start, f.limit)] == [[2**20] * 2, [1e-3] * 2, [5e10] * 2]
    assert f.lag.tolist() == pytest.approx([2e-6] * 2)
    with pytest.raises(ValueError, match="limit needs its unit, got '400'"):
        Flows.make(0, 1, 1.0, limit="400")
    with pytest.raises(ValueError, match=r"after must be whole numbers \(int32\), got 0\.5"):
        Flows.make([0, 1], 2, 1.0, after=[[], [0.5]])


def test_no_limit_and_the_ends_of_the_range_are_limits():
    assert Flows.make([0] * 3, 1, 1.0, limit=[np.inf, 1e6, 1e14]).limit.tolist() == [
        np.inf,
        1e6,
        1e14,
    ]


def test_a_graph_that_does_not_fit_into_memory_is_refused_before_it_is_made():
    ring = Flows.make(np.arange(65_536), 0, 1.0, repeat=131_070)
    with pytest.raises(
        TooLarge, match=r"a graph of 8589934590 flows needs about .* TB .*; keep the groups"
    ):
        ring.expanded()


@pytest.mark.parametrize(
    ("n", "waits", "start", "repeat"),
    [(1, 0, 0.0, 2000), (100, 1, 0.0, 30), (300, 3, 0.0, 10), (2000, 0, 0.0, 1), (300, 0, 5.0, 10)],
)
def test_the_memory_of_a_graph_is_foreseen(n, waits, start, repeat, monkeypatch):
    seen = []
    monkeypatch.setattr("fabriclab.core.flows.check_memory", lambda needed, *_: seen.append(needed))
    after = [list(range(i - waits, i)) if i >= waits else [] for i in range(n)]
    flows = Flows.make(np.zeros(n), 1, 1.0, start=start, after=after, repeat=repeat)
    flows.expanded()  # the first call of a process also pays for what numpy loads then
    tracemalloc.start()
    try:
        flows.expanded()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= seen[0] <= 2 * peak


# changes ------------------------------------------------------------------------------------------
def test_changes_are_kept_in_order_and_the_later_of_two_stays_later():
    c = Changes([2.0, 1.0, 2.0], [5, 6, 5], [0.0, 1e9, 2e9])
    assert (c.time.tolist(), c.link.tolist(), c.capacity.tolist()) == (
        [1, 2, 2],
        [6, 5, 5],
        [1e9, 0, 2e9],
    )
    assert Changes(1.0, [2, 3], 0.0).time.tolist() == [1.0, 1.0]
    many = Changes(np.arange(200) % 2, 0, np.arange(200.0) * 1e6)
    assert (many.capacity / 1e6).tolist() == [*range(0, 200, 2), *range(1, 200, 2)]
    assert Changes([], [], []).time.size == 0


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((-1.0, 0, 0.0), "time must be finite and >= 0 s, got -1"),
        ((np.nan, 0, 0.0), "time must be finite"),
        ((0.0, -1, 0.0), "link must be >= 0, got -1"),
        ((0.0, 0, -1.0), "capacity must be finite and >= 0 B/s, got -1"),
        ((0.0, 0.5, 1e9), "whole numbers"),
        (
            ([0.0, 1.0], [1, 2, 3], 1e9),
            r"one entry or as many as the others, got the shapes time \(2,\), link \(3,\)$",
        ),
        (([[0.0]], 1, 2e9), r"time must have shape \(1,\), got \(1, 1\)"),
        (
            (0.0, [[0], [0, 1]], 1e9),
            r"link must be one row of numbers, got rows of different lengths, \[\[0\], \[0, 1\]\]",
        ),
        (
            (0.0, 0, 400),
            r'capacity must be within 1e\+06\.\.1e\+14 B/s, got 400\.0; write "400 Gb/s"',
        ),
        (
            (0.0, 0, [1e9, 1.01e14]),
            r"capacity must be within 1e\+06\.\.1e\+14 B/s, got 101000000000000",
        ),
        ((0.0, 0, [0.0, 9e5, 1e9]), r"capacity must be within 1e\+06\.\.1e\+14 B/s, got 900000\.0"),
        (("1", 0, 0.0), "time needs its unit, got '1'"),
        ((1.0, 0, "400 Gbps"), "read in two ways"),
    ],
)
def test_broken_changes_are_refused(columns, message):
    with pytest.raises(ValueError, match=message):
        Changes(*columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((None, 0, 0.0), "time must be plain numbers in SI units, got None"),
        ((0.0, "a", 0.0), r"link must be whole numbers \(int32\), got 'a'"),
        ((0.0, True, 0.0), r"link must be whole numbers \(int32\), got True"),
        (
            (0.0, 0, ["1 Gb/s"]),
            "capacity must be plain numbers in SI units, got '1 Gb/s'; units.parse reads",
        ),
    ],
)
def test_changes_of_another_type_are_refused(columns, message):
    with pytest.raises(TypeError, match=message):
        Changes(*columns)


def test_changes_may_have_their_units():
    c = Changes("1 ms", [2, 3], "200 Gb/s")
    assert (c.time.tolist(), c.capacity.tolist()) == ([1e-3, 1e-3], [25e9, 25e9])
    assert Changes("0 s", 1, "0 Gb/s").capacity.tolist() == [0]


# result -------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("error")
def test_one_rank_alone_moves_nothing_over_a_bus():
    """Its factor is 0, and a predicted time of 0 s makes algbw infinite: 0 x inf is no number."""
    alone = Result("all_reduce", "predicted", [8.0, 0.0], [0.0, 1e-6])
    assert alone.algbw.tolist() == [np.inf, 0.0]
    assert alone.busbw.tolist() == [0.0, 0.0]
    assert "nan" not in alone._repr_html_() + repr(alone)
    assert Result("broadcast", "predicted", [8.0], [0.0]).busbw.tolist() == [np.inf]


@pytest.mark.parametrize("samples", [[1e-6, 2e-6], [[1e-6]]])
def test_samples_have_one_row_per_size(samples):
    with pytest.raises(ValueError, match=r"samples must .*\(2\), got \("):
        Result("all_reduce", "measured", [8.0, 16.0], [1e-6, 2e-6], samples=samples)


# timeline -----------------------------------------------------------------------------------------
def test_timeline_by_hand():
    t = timeline(group_start=[0.0, 3.0], period=[3.0, 0.5], repeat=[1, 4])
    assert t.end == 5.0
    assert t.utilisation(np.array([1.0, 4.0])).tolist() == [1.0, 0.5]
    assert t.utilisation(np.array([0.0, 4.0])).tolist() == [0.0, 0.5]
    assert timeline(group_start=[], period=[], repeat=[]).end == 0.0


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ({"finish": [2.0]}, r"finish must have shape \(2,\), got \(1,\)"),
        ({"finish": [2.0, 0.5]}, r"flow 1 ends at 0\.5 s, before its start at 1\.0 s"),
        ({"finish": [2.0, np.nan]}, "flow 1 ends at nan s"),
        ({"period": [1.0, 2.0]}, r"period must have shape \(1,\), got \(2,\)"),
    ],
)
def test_broken_timelines_are_refused(new, message):
    with pytest.raises(ValueError, match=message):
        timeline(**new)


# files --------------------------------------------------------------------------------------------
VALUES = [
    diamond().without(cables=[1]),
    spray([1, 0.5, 0.5, 0.5, 0.5, 1]),
    Flows.make([0, 1], 2, [8.0, 4.0], after=[[], [0]], labels=("a", "b"), label=[0, 1], repeat=3),
    Changes([2.0, 1.0], [5, 6], 0.0),
    timeline(),
    Result(
        "all_reduce",
        "measured",
        [8.0, 16.0],
        [1e-6, 2e-6],
        n_ranks=4,
        low=[1e-7, 1e-7],
        samples=[[1e-6], [2e-6]],
        asked={"size": np.float64(8), "on": True, "by": None},
        notes=("shared",),
    ),
    Schedule(
        "all_reduce",
        "ring",
        4,
        4,
        (StepGroup.make([0, 1], [1, 2], reduce=True, repeat=3, shift=-1),),
    ),
]


def same(a, b):
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(
            same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a)
        )
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, tuple):
        return (
            isinstance(b, tuple)
            and len(a) == len(b)
            and all(same(x, y) for x, y in zip(a, b, strict=True))
        )
    return a == b


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_every_type_comes_back_as_it_was(value, tmp_path):
    save(value, tmp_path / "value.npz")
    again = load(tmp_path / "value.npz")
    assert same(value, again)
    assert repr(again) == repr(value)
    assert os.listdir(tmp_path) == ["value.npz"]


def test_every_type_of_the_file_form_is_tried():
    from fabriclab.core.save import _TYPES

    assert set(_TYPES) == {type(v).__name__ for v in VALUES} | {"StepGroup"}


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_every_type_is_pickled_and_stays_frozen(value):
    for name in ("ports_used", "out"):
        getattr(value, name, None)  # a Fabric keeps them once they are asked for
    again = pickle.loads(pickle.dumps(value))
    assert same(value, again) and repr(again) == repr(value)
    assert set(vars(again)) == {f.name for f in dataclasses.fields(value)}
    for f in dataclasses.fields(again):
        array = getattr(again, f.name)
        if isinstance(array, np.ndarray):
            with pytest.raises(ValueError, match="cannot set WRITEABLE"):
                array.flags.writeable = True


def test_what_a_result_was_asked_is_read_only():
    result = VALUES[5]
    with pytest.raises(TypeError, match="read-only"):
        result.asked["size"] = 9
    assert json.loads(json.dumps(dataclasses.replace(result, asked={"a": [1]}).asked)) == {"a": [1]}


def test_a_key_that_is_no_text_is_not_saved_as_one(tmp_path):
    for asked in ({3: 1}, {"a": {None: 1}}):
        with pytest.raises(TypeError, match=r"key (3|None).*write '"):
            save(dataclasses.replace(VALUES[5], asked=asked), tmp_path / "value.npz")


def stored(tmp_path, **changes):
    """Save a value, change its header, and return the path."""
    path = tmp_path / "value.npz"
    save(VALUES[3], path)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays.pop("header"))) | changes
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 3}, "has version 3, this fabriclab reads up to 2; update fabriclab"),
        ({"version": "x"}, "has version 'x', this fabriclab reads up to 2"),
        ({"format": "other"}, "has the format 'other', expected 'fabriclab'"),
        ({"value": {"type": "Secret", "fields": {}}}, "broken"),
        ({"value": {"type": "Changes", "fields": {"time": {"array": "a9"}}}}, "broken"),
        (
            {
                "value": {
                    "type": "Changes",
                    "fields": {
                        "time": {"plain": -1.0},
                        "link": {"plain": 0},
                        "capacity": {"plain": 0.0},
                    },
                }
            },
            "broken.*time must be finite",
        ),
    ],
)
def test_a_file_of_another_kind_is_refused_with_a_sentence(changes, message, tmp_path):
    with pytest.raises(FileFormat, match=rf"value\.npz.*{message}"):
        load(stored(tmp_path, **changes))


def whole():
    folder = io.BytesIO()
    header = {"format": "fabriclab", "version": 1, "value": {"array": "a0"}}
    np.savez_compressed(folder, header=np.array(json.dumps(header)), a0=np.arange(100))
    return folder.getvalue()


WHOLE = whole()


@given(st.integers(0, len(WHOLE) - 1))
def test_a_file_cut_short_is_refused(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("cut") / "value.npz"
    path.write_bytes(WHOLE[:length])
    with pytest.raises(FileFormat, match=r"value\.npz"):
        load(path)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_harmless(tmp_path_factory, place, change):
    path = tmp_path_factory.mktemp("flip") / "value.npz"
    path.write_bytes(WHOLE[:place] + bytes([WHOLE[place] ^ change]) + WHOLE[place + 1 :])
    try:
        value = load(path)
    except FileFormat:
        return
    assert np.array_equal(value, np.arange(100))


@pytest.mark.parametrize("content", [b"", b"text", b"[]", np.lib.format.magic(1, 0)])
def test_something_else_is_refused(content, tmp_path):
    path = tmp_path / "value.npz"
    path.write_bytes(content)
    with pytest.raises(FileFormat, match=r"value\.npz is no complete fabriclab file"):
        load(path)


def test_a_single_array_and_a_foreign_archive_are_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.arange(3))
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    with zipfile.ZipFile(tmp_path / "list.npz", "w") as file:
        file.writestr("header.npy", b"[]")
    for name in ("one.npy", "other.npz", "list.npz"):
        with pytest.raises(FileFormat, match=name):
            load(tmp_path / name)


def test_objects_are_never_unpickled(tmp_path):
    header = {"format": "fabriclab", "version": 1, "value": {"array": "a0"}}
    path = tmp_path / "value.npz"
    np.savez(path, header=np.array(json.dumps(header)), a0=np.array([{"a": 1}], dtype=object))
    with pytest.raises(FileFormat, match=r"value\.npz"):
        load(path)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.npz")


def test_a_type_without_a_file_form_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"cannot save a set.*Fabric"):
        save({1, 2}, tmp_path / "value.npz")
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "value.npz"
    write_atomic(path, b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    for broken in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(*((os, "fsync", full) if broken == "fsync" else (Path, "replace", full)))
            with pytest.raises(OSError, match="No space left"):
                write_atomic(path, b"new")
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["value.npz"]
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"


def test_others_may_read_a_saved_file_as_any_other(tmp_path):
    write_atomic(tmp_path / "value.npz", b"x")
    (tmp_path / "plain").write_bytes(b"x")
    assert (tmp_path / "value.npz").stat().st_mode == (tmp_path / "plain").stat().st_mode


# display ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (from_paths([UPPER, LOWER]), "<Routes: 2 path; 8 links>"),
        (from_paths([]), "<Routes: no rows; 0 links>"),
        (Flows.make([0, 1], 2, 2**20), "<Flows: 2 flows, a graph, 2 MiB in all>"),
        (
            Flows.make(0, 1, 2**20, repeat=4),
            "<Flows: 1 flows, 1 groups in order, 4 steps, 4 MiB in all>",
        ),
        (Changes([2.0, 1.0], 3, 0.0), "<Changes: 2 from 1 s to 2 s>"),
        (timeline(), "<Timeline ideal: 2 flows end at 3.00 s>"),
    ],
)
def test_values_show_themselves(value, text):
    assert repr(value) == text


def test_arrays_of_all_types_are_read_only():
    for value in VALUES:
        for f in dataclasses.fields(value):
            array = getattr(value, f.name)
            assert not isinstance(array, np.ndarray) or not array.flags.writeable, (value, f.name)
    assert isinstance(VALUES[0], core.Fabric)


def test_a_result_of_a_bus_bandwidth_took_the_time_in_which_it_is_reached():
    run = Result.of_busbw(
        "all_reduce", "312.9 GB/s", 8, "4 GiB", obtained="published", source="a test"
    )
    assert run.time[0] == pytest.approx(1.75 * 2**32 / 312.9e9)
    assert run.busbw[0] == pytest.approx(312.9e9) and run.n_ranks == 8
    for busbw, n in ((0.0, 8), ("1 GB/s", 1)):
        with pytest.raises(ValueError, match="busbw"):
            Result.of_busbw("all_reduce", busbw, n, "1 GiB")
