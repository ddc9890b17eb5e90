"""Aggregation in a switch: exact under any faults, over all interleavings, and each known mistake is found."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fabriclab.errors import FabricError
from fabriclab.innetwork import DROP, MULTICAST, ProgramRefused, Switch, compare, where
from fabriclab.innetwork.aggregation import Aggregator, Worker
from fabriclab.innetwork.network import aggregate
from support.oracles.interleavings import Budget, Walk, Wrong
from support.sampling import sampled


def small(of=Aggregator, **options):
    """Return what makes a program of one value a packet."""
    return lambda workers, slots: of(workers, slots, lanes=1, **options)


def walk(made=None, of=Walk, **options):
    found = of(made or small(), **options)
    assert found.apart()
    return found.run()


# ------------------------------------------------------------------ all interleavings


def test_no_interleaving_of_two_workers_gives_a_wrong_sum_or_a_deadlock():
    # 2 slots of 2 versions, 4 chunks, all faults of the default budget
    states = [walk(slot=slot) for slot in range(2)]
    print(f"2 workers, 4 chunks: {states} states")
    assert states == [66_938] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "chunks", "budget"),
    [
        (2, 6, Budget(2, 0, 1, 1)),
        (2, 6, Budget(1, 1, 1, 1)),
        (3, 4, Budget(1, 0, 1, 1)),
        (3, 4, Budget(0, 1, 1, 1)),
        (3, 6, Budget(1, 0, 0, 1)),
        (3, 6, Budget(0, 1, 1, 0)),  # with 6 chunks a version is used again
    ],
)
def test_no_interleaving_of_more(workers, chunks, budget):
    print(
        f"{workers} workers, {chunks} chunks, {budget}: {walk(workers=workers, chunks=chunks, budget=budget)} states"
    )


IN_ORDER = Budget(losses=2, doubles=0, overtakings=0, timers=1)


def test_the_published_bitmap_relies_on_a_network_that_keeps_the_order():
    assert walk(small(published=True), budget=IN_ORDER) > 1000
    with pytest.raises(Wrong, match="overtakes"):
        walk(small(published=True), budget=Budget(0, 1, 1, 1))


# ------------------------------------------------------------------ known mistakes


class OneVersion(Aggregator):
    def apply(self, packet):
        packet.fields["version"] = packet.version & 0
        super().apply(packet)


class Recognising(Aggregator):
    """What a packet is taken for, changed."""

    change = staticmethod(lambda again, stale: (again, stale))

    def recognise(self, packet, slot):
        return self.change(*super().recognise(packet, slot))


class CountsPackets(Recognising):
    change = staticmethod(lambda again, stale: (again & ~again, stale))


class TakesStale(Recognising):
    change = staticmethod(lambda again, stale: (again, stale & ~stale))


class NeverRepeats(Aggregator):
    def apply(self, packet):
        super().apply(packet)
        packet.actions = [(action, when) for action, when in packet.actions if action == MULTICAST]


class Cells(Aggregator):
    """How many are left, or what is added, changed."""

    def apply(self, packet):
        slot = packet.slot + 0
        again, stale = self.recognise(packet, slot)
        passed = again | stale
        cell = self.cell(slot, packet)
        count = self.left.access(cell, lambda left: (where(passed, left, self.counted(left)), left))

        def add(total):
            new = where(
                passed, total, where(self.opens(count), packet.payload, total + packet.payload)
            )
            return new, new

        packet.payload = self.sums.access(cell, add)
        packet.multicast((count == self.last) & ~passed)
        packet.reply(self.full(count) & again)

    last = 1

    def cell(self, slot, packet):
        return (slot << 1) | packet.version

    def counted(self, left):
        return where(left == 0, self.workers - 1, left - 1)

    def opens(self, count):
        return count == 0

    def full(self, count):
        return count == 0


class WaitsForOneTooMany(Cells):
    def counted(self, left):
        return where(left == 0, self.workers, left - 1)


class EndsOneTooEarly(Cells):
    last = 0


class NeverClears(Cells):
    def opens(self, count):
        return count == -1


class AnswersBeforeFull(Cells):
    def full(self, count):
        return count != 5


class CellOffByOne(Cells):
    def cell(self, slot, packet):
        return slot + packet.version


class ClearsEarly(Aggregator):
    """The published bitmap, in which a worker takes out everybody of the other version."""

    def recognise(self, packet, slot):
        bit, second = 1, packet.version == 1
        bit = where(packet.worker == 0, 1, 2)
        before = self.seen.access(
            slot,
            lambda a, b: (where(second, (a & 0, b | bit), (a | bit, b & 0)), where(second, b, a)),
        )
        return (before & bit) != 0, packet.chunk < 0


class LateFlip(Worker):
    def packet(self, chunk):
        found = super().packet(chunk)
        return found._replace(header=found.header | {"version": chunk // self.slots // 2 % 2})


class TakesAnything(Worker):
    """Takes any answer of a slot for the chunk that it waits for."""

    def take(self, answer):
        slot = answer.header["chunk"] % self.slots
        waited = slot + self.slots * int(self.done[slot :: self.slots].sum())
        return super().take(answer._replace(header=answer.header | {"chunk": waited}))


class NoTimer(Walk):
    def outstanding(self, done, w):
        return []


MISTAKES = {
    "no second version": {"made": small(OneVersion)},
    "packets counted instead of workers": {"made": small(CountsPackets)},
    "a stale packet is taken": {
        "made": small(TakesStale),
        "chunks": 6,
        "budget": Budget(0, 1, 1, 1),
    },
    "what is complete is never told again": {"made": small(NeverRepeats)},
    "one worker too many": {"made": small(WaitsForOneTooMany)},
    "one worker too few": {"made": small(EndsOneTooEarly)},
    "the old sum stays": {"made": small(NeverClears), "chunks": 6, "budget": Budget(0, 0, 0, 0)},
    "told before it is full": {"made": small(AnswersBeforeFull)},
    "the bitmap is cleared early": {"made": small(ClearsEarly, published=True), "budget": IN_ORDER},
    "the version flips late": {"made": small(), "worker": LateFlip},
    "any answer is taken": {"worker": TakesAnything, "budget": Budget(1, 1, 1, 1)},
    "nobody sends again": {"of": NoTimer},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_found(mistake):
    with pytest.raises(Wrong):
        walk(**MISTAKES[mistake])


@pytest.mark.parametrize(
    "options",
    sampled(
        [
            {"made": small(), "chunks": 6, "budget": Budget(0, 0, 0, 0)},
            {"made": small(Cells)},
            {"made": small(Recognising), "chunks": 6, "budget": Budget(0, 1, 1, 1)},
            {"made": small(published=True), "budget": IN_ORDER},
        ],
        4,
    ),
)
def test_what_the_mistakes_are_made_of_is_right_without_them(options):
    walk(**options)


def test_slots_that_share_a_cell_are_found():
    assert not Walk(small(CellOffByOne)).apart()


# ------------------------------------------------------------------ seeded faults


def run(n, chunks, slots, seed, jobs=1, lanes=2, **faults):
    rng = np.random.default_rng(seed)
    values = rng.integers(-(2**20), 2**20, (jobs, n, chunks, lanes))
    workers = [Worker(w, values[j, w], slots // jobs, job=j) for j in range(jobs) for w in range(n)]
    # A timer doubles: at a loss of 0.3 one try in two fails, and after 18 in a row ten seconds have passed.
    limit = {"limit": "100000 s"} | faults
    found = aggregate(
        workers, Switch(Aggregator(n, slots, lanes=lanes, jobs=jobs)), rng=rng, **limit
    )
    for i, worker in enumerate(workers):
        assert np.array_equal(found.totals[i], values[worker.job].sum(0))
    return found


@settings(max_examples=40)
@example(5, 17, 1, 1228, 1, 0.294921875, 0.2890625, 0.2890625)
@given(
    st.integers(1, 5),
    st.integers(1, 30),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
    st.integers(1, 3),
    st.floats(0, 0.3),
    st.floats(0, 0.3),
    st.floats(0, 0.5),
)
def test_sums_are_exact_under_any_faults(n, chunks, slots, seed, jobs, loss, double, reorder):
    run(n, chunks, slots * jobs, seed, jobs, loss=loss, double=double, reorder=reorder)


@settings(max_examples=30)
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 12),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
    st.integers(1, 2),
    st.floats(0, 0.2),
    st.floats(0, 0.2),
    st.floats(0, 0.4),
)
def test_sums_over_racks_are_exact_under_any_faults(
    n_racks, each, chunks, slots, seed, jobs, loss, double, reorder
):
    rng = np.random.default_rng(seed)
    values = rng.integers(-(2**20), 2**20, (jobs, n_racks, each, chunks, 2))
    places = [(r, j, w) for r in range(n_racks) for j in range(jobs) for w in range(each)]
    workers = [Worker(w, values[j, r, w], slots, job=j) for r, j, w in places]
    racks = [
        Switch(Aggregator(each, slots * jobs, lanes=2, jobs=jobs, rack=r)) for r in range(n_racks)
    ]
    root = Switch(Aggregator(n_racks, slots * jobs, lanes=2, jobs=jobs))
    found = aggregate(workers, root, racks, rng=rng, loss=loss, double=double, reorder=reorder)
    for total, (_, j, _) in zip(found.totals, places, strict=True):
        assert np.array_equal(total, values[j].sum((0, 1)))


def test_racks_send_each_chunk_up_once_without_faults():
    racks = [Switch(Aggregator(4, 8, lanes=1, rack=r)) for r in range(2)]
    workers = [Worker(i % 4, np.full((20, 1), i), 8) for i in range(8)]
    found = aggregate(workers, Switch(Aggregator(2, 8, lanes=1)), racks)
    assert found.packets == {"sent": 20 * 2 * (8 + 2)} and found.totals[7][0, 0] == sum(range(8))


def test_workers_that_racks_cannot_share_are_refused():
    racks = [Switch(Aggregator(2, 8, lanes=1, rack=r)) for r in range(2)]
    with pytest.raises(ValueError, match=r"3 workers .*2 racks"):
        aggregate([Worker(i, [[1]], 8) for i in range(3)], Switch(Aggregator(2, 8, lanes=1)), racks)


@settings(max_examples=60)
@given(
    st.integers(0, 255),
    st.integers(0, 2**16 - 1),
    st.integers(0, 31),
    st.integers(0, 1),
    st.integers(0, 99),
)
def test_packets_of_a_foreign_job_slot_or_worker_change_nothing(job, slot, worker, version, chunk):
    switch = Switch(Aggregator(2, 8, lanes=1, jobs=2))
    switch.one({"job": 0, "slot": 1, "version": 0, "worker": 0, "chunk": 1}, [5])

    def held():
        """Return what the slots of the two jobs hold; those behind them are nobody's."""
        return {
            k: cells.reshape(-1, switch.program.cells)[:, :8].copy()
            for k, cells in switch.state.items()
        }

    before = held()
    inside = job < 2 and slot < 4 and worker < 2
    out = switch.one(
        {"job": job, "slot": slot, "version": version, "worker": worker, "chunk": chunk}, [7]
    )
    kept = held()
    if not inside:
        assert out.action == DROP
        assert all(np.array_equal(kept[name], before[name]) for name in kept)
    elif job == 1:
        assert kept["sums_a"][0, 1] == 5 and kept["left_a"][0, 1] == 1


def test_without_faults_each_chunk_goes_once_each_way():
    found = run(4, 50, 8, 0, rate="100 Gb/s", delay="2 us")
    assert found.packets == {"sent": 2 * 4 * 50}
    turns = -(-50 // 8)  # a slot's chunks follow each other, one round trip each
    assert found.finish.max() == pytest.approx(turns * (2 * 2e-6 + 2 * 8 / 12.5e9), rel=0.05)


def test_what_would_never_end_or_be_wrong_is_refused():
    switch = Switch(Aggregator(2, 8, lanes=1))
    for _ in range(2):
        aggregate([Worker(w, [[w]] * 20, 8) for w in range(2)], switch)
        for first in (0, 19):
            told = rf"got {first} of worker 0 of job 0, {20 - first} or more too low; .* or clear\(\) all switches"
            with pytest.raises(ValueError, match=f"first must be beyond .*{told}"):
                aggregate([Worker(w, [[w]] * 20, 8, first=first) for w in range(2)], switch)
        switch.clear()
    for options, told in (
        ({"slots": 5}, "the 4 of .* got 5 of worker 1 of job 1; .* Aggregator 10, or more"),
        ({"slots": 1, "job": 2}, "the 0 of .* got 1 of worker 1 of job 2"),
    ):
        with pytest.raises(ValueError, match=f"slots must be at most {told}"):
            aggregate(
                [Worker(1, [[1]] * 20, **{"job": 1, **options})],
                Switch(Aggregator(2, 8, lanes=1, jobs=2)),
            )
    for wrong in ({"slots": 0}, {"slots": 8, "first": -1}, {"slots": 8, "job": -1}):
        with pytest.raises(ValueError, match=r"(slots must be >= 1|(first|job) must be >= 0), got"):
            Worker(0, [[1]], **wrong)
    with pytest.raises(ValueError, match="lanes must be >= 1, got 0"):
        Aggregator(2, lanes=0)
    for wrong in ([[0.7]], [[2**31]], [[np.nan]], [1, 2]):
        with pytest.raises(ValueError, match=r"values must .*32 bits.*quantise"):
            Worker(0, wrong, 8)
    with pytest.raises(ValueError, match=r"jobs must be within 1..2, got 4"):
        Aggregator(2, 2, jobs=4)
    with pytest.raises(ValueError, match=r"rack must be within 0..31, got 32"):
        Aggregator(2, 2, rack=32)


def test_a_worker_that_never_comes_is_told():
    switch = Switch(Aggregator(2, 2, lanes=1))
    with pytest.raises(
        FabricError, match=r"not finished after 1.00 ms; .* waited for: \{0: \[0, 1, 2, 3\]\}"
    ):
        aggregate([Worker(0, np.ones((4, 1)), 2)], switch, limit="1 ms")


# ------------------------------------------------------------------ one all-reduce after another


@settings(max_examples=40)
@given(
    st.sampled_from([0, 2**31 - 9, 2**32 - 9, 2**40 - 1]),
    st.lists(st.integers(1, 12), min_size=2, max_size=4),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.floats(0, 0.15),
    st.floats(0, 0.2),
    st.floats(0, 0.4),
)
def test_one_all_reduce_follows_another_on_one_switch(
    first, runs, slots, seed, racks, loss, double, reorder
):
    """Numbers of chunks go round on the way; job 0 ends before job 1 begins, on slots of its own."""
    n, rng = 4, np.random.default_rng(seed)
    below = [Switch(Aggregator(2, 2 * slots, lanes=1, jobs=2, rack=r)) for r in range(2 * racks)]
    root = Switch(Aggregator(2 if racks else n, 2 * slots, lanes=1, jobs=2))
    for switch in (*below, root):  # as if so many chunks had been added
        switch.state["seen_a"].reshape(32, -1)[: switch.program.workers] = np.int64(first).astype(
            np.int32
        )
    for job in range(2):
        at = first
        for chunks in runs:
            values = rng.integers(-99, 99, (n, chunks, 1))
            team = [Worker(w % 2 if racks else w, x, slots, job, at) for w, x in enumerate(values)]
            found = aggregate(team, root, below, rng=rng, loss=loss, double=double, reorder=reorder)
            assert all(np.array_equal(total, values.sum(0)) for total in found.totals)
            at += chunks


def test_an_answer_of_the_all_reduce_before_is_no_answer():
    switch, before = Switch(Aggregator(1, 4, lanes=1)), Worker(0, [[1], [2]], 4)
    old = before.packet(1)
    after = Worker(0, [[5], [6]], 4, first=2)
    assert after.take(old) is None and not after.done.any()
    aggregate([before], switch)
    assert aggregate([after], switch).totals[0].tolist() == [[5], [6]]


# ------------------------------------------------------------------ room on the published device


def fits(lanes, device="tofino1", **options):
    try:
        return bool(Switch(Aggregator(8, lanes=lanes, **options), device))
    except ProgramRefused:
        return False


def test_one_pipe_adds_what_the_model_of_times_takes_for_a_pass():
    assert fits(compare._ONE_PIPE) and fits(compare._ONE_PIPE, jobs=8, published=True)
    assert fits(56, jobs=8) and not fits(57, jobs=8)  # as the docstrings say
    everything = compare.PIPES * compare._ONE_PIPE
    assert fits(everything, "tofino1_recirculating") and not fits(
        everything + 1, "tofino1_recirculating"
    )
    with pytest.raises(
        ValueError, match=f"lanes must be within 1..{everything}, got {everything + 1}"
    ):
        compare.program(8, 8, lanes=everything + 1)
