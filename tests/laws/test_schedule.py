"""Schedules: the type that says what a collective does, without a network."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabriclab import collectives, registry
from fabriclab.core import Schedule, StepGroup
from fabriclab.errors import TooLarge
from support.sampling import sampled

NAMES = registry.names("collective")


def pair(*groups, n_ranks=2, n_blocks=2, **more):
    """Return a schedule of hand-made groups."""
    return Schedule("all_gather", "by hand", n_ranks, n_blocks, groups, **more)


def moves(schedule):
    """Return every transfer of every step as a sorted list of tuples (step left out)."""
    rows = []
    for step in schedule.steps():
        columns = (step.source, step.target, step.first, step.count, step.segment, step.reduce)
        rows += zip(*(c.tolist() for c in columns), strict=True)
    return sorted(rows)


# ------------------------------------------------------------------ by hand


def test_a_ring_of_three_by_hand():
    ring = collectives.build("reduce_scatter", "ring", 3)
    assert len(ring.groups) == 1
    assert ring.n_steps == 2
    first, second = ring.steps()
    # Block 2 leaves rank 0 and ends, two hops on, at rank 2.
    assert list(zip(first.source, first.target, first.first, strict=True)) == [
        (0, 1, 2),
        (1, 2, 0),
        (2, 0, 1),
    ]
    assert list(zip(second.source, second.target, second.first, strict=True)) == [
        (0, 1, 1),
        (1, 2, 2),
        (2, 0, 0),
    ]
    assert first.reduce.all()
    assert second.reduce.all()


def test_repetitions_count_in_what_is_sent_and_received():
    group = StepGroup.make([0, 0], [1, 2], [0, 3], [1, 2], reduce=False, repeat=3, shift=1)
    schedule = pair(group, n_ranks=3, n_blocks=4)
    assert schedule.sent().tolist() == [3 * 3 / 4, 0, 0]
    assert schedule.received().tolist() == [0, 3 / 4, 6 / 4]
    assert [s.first.tolist() for s in schedule.steps()] == [[0, 3], [1, 0], [2, 1]]


def test_a_switch_takes_part_after_the_ranks():
    schedule = pair(
        StepGroup.make([0, 1], 2, reduce=True),
        StepGroup.make(2, [0, 1], reduce=False),
        n_blocks=1,
        n_switches=1,
    )
    assert schedule.n_participants == 3
    assert schedule.sent().tolist() == [1, 1, 2]
    assert schedule.received().tolist() == [1, 1, 2]


def test_pipelined_segments_start_one_step_apart():
    chain = collectives.build("broadcast", "ring", 3, segments=2, pipelined=True)
    assert [list(zip(s.source, s.segment, strict=True)) for s in chain.steps()] == [
        [(0, 0)],
        [(1, 0), (0, 1)],
        [(1, 1)],
    ]
    serial = collectives.build("broadcast", "ring", 3, segments=2)
    assert [list(zip(s.source, s.segment, strict=True)) for s in serial.steps()] == [
        [(0, 0)],
        [(1, 0)],
        [(0, 1)],
        [(1, 1)],
    ]


def test_a_window_keeps_blocks_where_they_began():
    group = StepGroup.make([0, 1], [1, 0], [0, 5], reduce=False, repeat=3, shift=-2, window=4)
    assert [s.first.tolist() for s in pair(group, n_blocks=8).steps()] == [[0, 5], [2, 7], [0, 5]]
    with pytest.raises(ValueError, match="group 0: window must divide the 6 blocks, got 4"):
        pair(group, n_blocks=6)


def test_blocks_may_have_sizes_of_their_own():
    group = StepGroup.make([0, 1], [1, 0], [0, 2], [1, 2], reduce=False)
    uneven = pair(group, n_blocks=3, parts=[0.5, 0.2, 0.3], segments=2)
    assert uneven.sent().tolist() == pytest.approx([0.25, 0.4])
    assert uneven.moved(group).tolist() == pytest.approx([0.25, 0.4])
    assert pair(group, n_blocks=3, parts=1.0).sent().tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"parts must have shape \(3,\), got \(2,\)"):
        pair(group, n_blocks=3, parts=[1, 2])
    with pytest.raises(ValueError, match="several sizes"):
        pair(dataclasses.replace(group, repeat=2, shift=1), n_blocks=3, parts=[0.5, 0.2, 0.3])


# ------------------------------------------------------------------ shape


def test_columns_broadcast_and_are_frozen():
    group = StepGroup.make([0, 1, 2], 3, reduce=True)
    assert group.n_transfers == 3
    assert group.target.tolist() == [3, 3, 3]
    assert group.count.dtype == np.int32
    for name in ("source", "target", "first", "count", "segment", "reduce"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(group, name)[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        group.repeat = 2


def test_a_large_ring_is_one_group_per_phase():
    ring = collectives.build("all_reduce", "ring", 65_536)
    assert [g.repeat for g in ring.groups] == [65_535, 65_535]
    assert np.all(ring.sent() == 2 * 65_535 / 65_536)


# ------------------------------------------------------------------ laws


@given(st.sampled_from(NAMES), st.integers(1, 17), st.integers(1, 5), st.booleans())
def test_segments_change_the_steps_and_nothing_else(name, n, segments, pipelined):
    whole = collectives.build(*name.split("."), n)
    cut = whole.segmented(segments, pipelined=pipelined)
    assert np.allclose(cut.sent(), whole.sent(), rtol=1e-12)
    assert np.allclose(cut.received(), whole.received(), rtol=1e-12)
    if whole.n_steps:
        assert cut.n_steps == (
            whole.n_steps + segments - 1 if pipelined else whole.n_steps * segments
        )
    wanted = [(*row[:4], s, row[5]) for row in moves(whole) for s in range(segments)]
    assert moves(cut) == sorted(wanted)


@given(st.sampled_from(NAMES), st.integers(1, 33), st.data())
def test_what_is_sent_is_received(name, n, data):
    schedule = collectives.build(*name.split("."), n, root=data.draw(st.integers(0, n - 1)))
    assert schedule.sent().sum() == pytest.approx(schedule.received().sum(), rel=1e-12)
    blocks = sum(int(s.count.sum()) for s in schedule.steps())
    arrays = {"all_to_all": n, "send_recv": n, "barrier": 0}.get(schedule.collective, 1)
    assert schedule.sent().sum() == pytest.approx(blocks * arrays / schedule.n_blocks, rel=1e-12)
    assert sum(1 for _ in schedule.steps()) == schedule.n_steps


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"target": 2}, r"group 0: target must be within 0\.\.1, got 2"),
        ({"source": -1}, r"group 0: source must be within 0\.\.1, got -1"),
        ({"first": 2}, r"group 0: first must be within 0\.\.1, got 2"),
        ({"count": 3}, r"group 0: count must be within 1\.\.2, got 3"),
        ({"count": 0}, r"group 0: count must be within 1\.\.2, got 0"),
        ({"segment": 1}, r"group 0: segment must be within 0\.\.0, got 1"),
        ({"target": 0}, "from a participant to itself"),
        ({"repeat": 0}, "repeat must be >= 1, got 0"),
    ],
)
def test_transfers_that_cannot_be_are_refused(wrong, message):
    right = {"source": 0, "target": 1, "reduce": False}
    with pytest.raises(ValueError, match=message):
        pair(StepGroup.make(**(right | wrong)))


def test_ranks_blocks_and_root_are_checked():
    for name in ("n_ranks", "n_blocks"):
        with pytest.raises(ValueError, match=f"{name} must be >= 1, got 0"):
            pair(**{name: 0})
    with pytest.raises(ValueError, match=r"root must be within 0\.\.1, got 2"):
        pair(root=2)
    for wrong in (0, 65_537):
        with pytest.raises(ValueError, match=rf"segments must be within 1\.\.65536, got {wrong}"):
            pair().segmented(wrong)
    with pytest.raises(TypeError, match="pipelined must be True or False, got 'no'"):
        pair().segmented(2, pipelined="no")
    with pytest.raises(ValueError, match="n_switches must be >= 0, got -1"):
        pair(n_switches=-1)
    with pytest.raises(ValueError, match="this schedule has 3 already"):
        pair().segmented(3).segmented(2)


@pytest.mark.parametrize(
    ("first", "count", "reduce"),
    [
        ([0, 0], 1, False),
        ([0, 0], 1, [True, False]),
        ([3, 0], [2, 1], False),
        ([0, 2], [4, 1], [False, True]),
        ([0, 1], [3, 1], [True, False]),
    ],
)
def test_two_that_write_to_one_block_in_one_step_are_refused_unless_both_add(first, count, reduce):
    both = StepGroup.make([0, 1], 2, first, count, reduce=True)
    assert pair(both, n_ranks=3, n_blocks=4).n_steps == 1
    message = "group 0: two transfers .*write to block [0-3] of participant 2; take two"
    with pytest.raises(ValueError, match=message):
        pair(dataclasses.replace(both, reduce=np.broadcast_to(reduce, 2)), n_ranks=3, n_blocks=4)
    apart = dataclasses.replace(both, segment=[0, 1], reduce=np.broadcast_to(reduce, 2))
    assert pair(apart, n_ranks=3, n_blocks=4, segments=2).n_steps == 1


@given(st.data())
def test_writing_twice_is_found_as_counting_finds_it(data):
    n, blocks = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    draw = lambda low, high: data.draw(st.lists(st.integers(low, high), min_size=n, max_size=n))  # noqa: E731
    group = StepGroup.make(
        9,
        draw(0, 1),
        draw(0, blocks - 1),
        draw(1, blocks),
        segment=draw(0, 1),
        reduce=[bool(x) for x in draw(0, 1)],
    )
    writes = {}
    for i in range(n):
        for b in range(group.count[i]):
            place = (group.target[i], group.segment[i], (group.first[i] + b) % blocks)
            writes.setdefault(place, []).append(group.reduce[i])
    if any(len(w) > 1 and not all(w) for w in writes.values()):
        with pytest.raises(ValueError, match=r"two transfers .*write to block"):
            pair(group, n_ranks=10, n_blocks=blocks, segments=2)
    else:
        assert pair(group, n_ranks=10, n_blocks=blocks, segments=2).n_steps == 1


def test_steps_that_do_not_fit_into_memory_are_refused_before_they_are_made():
    ring = collectives.build("all_reduce", "ring", 65_536)
    with pytest.raises(
        TooLarge, match=r"65536 ranks, 131070 steps> in 4 segments needs .*; take fewer segments"
    ):
        ring.segmented(4, pipelined=True)


@pytest.mark.parametrize("pipelined", [True, False])
@pytest.mark.parametrize(("n", "segments"), sampled([(4, 2000), (16, 400), (128, 40)], 3))
def test_the_memory_of_segments_is_foreseen(n, segments, pipelined, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "fabriclab.core.schedule.check_memory", lambda needed, *_: seen.append(needed)
    )
    ring = collectives.build("all_reduce", "ring", n)
    tracemalloc.start()
    try:
        ring.segmented(segments, pipelined=pipelined)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= seen[0] <= 2 * peak


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"source": "a"}, TypeError, "source must be whole numbers .* got 'a'"),
        ({"reduce": "no"}, TypeError, "reduce must be True or False, got 'no'"),
        ({"count": 0.5}, ValueError, r"count must be whole numbers .* got 0\.5"),
    ],
)
def test_columns_that_are_no_numbers_are_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        StepGroup.make(**({"source": 0, "target": 1, "reduce": False} | wrong))
    with pytest.raises(ValueError, match=r"target must have shape \(2,\), got \(1,\)"):
        StepGroup([0, 1], [1], [0, 0], [1, 1], [0, 0], [False, False])


# ------------------------------------------------------------------ display


def test_display():
    tree = collectives.build("broadcast", "halving_doubling", 4)
    assert repr(tree) == "<Schedule broadcast halving_doubling: 4 ranks, 4 steps>"
    lines = tree.draw().splitlines()
    assert lines[1] == "step 0: 0->2 =2..3"
    assert lines[2] == "step 1: 0->1 =1  2->3 =3"
    assert (
        tree.segmented(2, pipelined=True).draw().splitlines()[2]
        == "step 1: 0->1 =1.0  2->3 =3.0  0->2 =2.1..3.1"
    )
    reduce = collectives.build("reduce_scatter", "ring", 66).draw().splitlines()
    assert reduce[1].startswith("step 0: 0->1 +65  1->2 +0")
    assert reduce[1].endswith("... 54 more")
    assert reduce[-1] == "... and 1 steps more"
    # Blocks that one rank sends to another in a step are one message, so each step of PAT is read as a whole.
    last = collectives.build("all_gather", "pat", 8).draw(1).splitlines()[-1]
    assert last.startswith("step 3: 0->1 =0,") and "more" not in last
    assert [len(message.split(",")) for message in last.split("  ")] == [4] * 8
