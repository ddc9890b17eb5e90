"""The calendar of the packet engine gives events out by time and code, whatever comes when."""

import heapq

import numpy as np
import pytest

from fabriclab import scenarios
from fabriclab.engines.packet import _Needed as Needed
from fabriclab.engines.packet import events as calendar
from fabriclab.engines.packet import setup, state

ROOM = 5_000


class Agenda:
    """A calendar beside a heap of Python's, which must give the same events in the same order."""

    def __init__(self, first):
        self.whole = np.zeros(state.N_WHOLE, dtype=np.int64)
        array = setup.calendar(self.whole, ROOM, first)
        self.array = array
        self.rows = Needed(state.Event, array)
        self.whole = self.whole.tolist()
        self.heap = sorted(first)
        self.now = 0
        self.n = 0

    def push(self, time, code):
        heapq.heappush(self.heap, (time, code))
        calendar.push(self.rows, self.whole, time, code)

    def pop(self):
        place = calendar.next_place(self.rows, self.whole)
        found = (self.rows[place].time, self.rows[place].code)
        assert found == heapq.heappop(self.heap)
        calendar.remove_first(self.rows, self.whole, place)
        assert self.whole[state.EVENTS] == len(self.heap)
        self.now = found[0]
        self.n += 1
        self.whole[state.HANDLED] = self.n
        if self.n >= self.whole[state.TUNE_AT]:
            calendar.tune(self.rows, self.whole, self.now)


def first_events(rng, n, longest):
    return [(int(rng.integers(0, longest)), code) for code in range(n)]


@pytest.mark.parametrize("seed", range(6))
def test_events_come_by_time_and_code(seed):
    """Leads of 0 ps to seconds, clumps at one time, and a pace that changes by factors of thousands."""
    rng = np.random.default_rng(seed)
    agenda = Agenda(first_events(rng, 300, 10**6))
    scale = 10**6
    for code in range(300, 9_000):
        if code % 1_500 == 0:
            scale = 10 ** int(rng.integers(2, 10))
        kind = rng.random()
        lead = int(rng.integers(0, scale))
        if kind < 0.2:
            lead = 0
        elif kind < 0.4:
            lead = scale - agenda.now % scale  # many at one time
        elif kind < 0.45:
            lead = 10**12
        agenda.pop()
        if rng.random() < 0.99 or len(agenda.heap) < 10:
            agenda.push(agenda.now + lead, code)
        if len(agenda.heap) < 200:
            agenda.push(agenda.now + lead, code + 10**6)
    while agenda.heap:
        agenda.pop()


def test_days_are_as_long_as_two_events_need():
    """A thousand events, each followed by another one after a mean of 1 us: one comes each nanosecond."""
    rng = np.random.default_rng(0)
    agenda = Agenda(first_events(rng, 1_000, 10**6))
    for code in range(1_000, 6_000):
        agenda.pop()
        agenda.push(agenda.now + int(rng.exponential(10**6)), code)
    assert 10 <= agenda.whole[state.DAY_BITS] <= 12
    assert agenda.whole[state.DAYS] == 2048
    assert agenda.whole[state.IN_DAYS] > 700


def test_hosts_in_step_do_not_make_days_too_short():
    """A thousand events at one time, again after 10 us: between two of them lie 10 ns in the mean, and never 0."""
    agenda = Agenda(first_events(np.random.default_rng(2), 1_000, 1))
    far = []
    for _ in range(8_000):
        _, code = agenda.heap[0]
        agenda.pop()
        agenda.push(agenda.now + 10_000_000, code)
        far.append(agenda.whole[state.FAR_EVENTS])
    assert 13 <= agenda.whole[state.DAY_BITS] <= 15
    assert far[-1] == 0  # all wait on days of the ring


@pytest.mark.parametrize("n", [1, 2, 3, 100, 1_000])
@pytest.mark.parametrize("order", ["rising", "falling", "random", "runs"])
def test_events_of_one_day_are_sorted(n, order):
    rng = np.random.default_rng(n)
    code = np.arange(n)
    if order == "falling":
        code = code[::-1]
    elif order == "random":
        code = rng.permutation(n)
    elif order == "runs":
        code = np.concatenate([code[start::7] for start in range(7)])
    agenda = Agenda([])
    agenda.whole[state.DAYS] = 16
    agenda.whole[state.FIRST_DAY : state.FIRST_DAY + 16] = [-1] * 16
    for each in code.tolist():
        agenda.push(5, each)
    while agenda.heap:
        agenda.pop()
    assert agenda.whole[state.IN_DAYS] == 0


def test_events_survive_when_there_must_be_more_room():
    rng = np.random.default_rng(1)
    agenda = Agenda(first_events(rng, 500, 10**6))
    for code in range(500, 4_000):
        agenda.pop()
        agenda.push(agenda.now + int(rng.exponential(10**6)), code)
    for number, row in agenda.rows.items():
        agenda.array[number] = (row.time, row.code, row.next)
    left = setup.pending(agenda.array, np.array(agenda.whole))
    assert sorted(left) == sorted(agenda.heap)


@pytest.mark.parametrize("plain", [True, False])
def test_a_run_that_needs_more_slots_gives_the_same(plain, monkeypatch):
    """Up to 200 packets are under way; with 70 slots at the beginning the run must get more of them."""
    scenario = scenarios.build("incast", senders=8, size="100 kB", lossless="none")
    enough = scenario.play(plain=True, seed=1)
    monkeypatch.setattr(setup, "MOST_SLOTS", 70)
    more = scenario.play(plain=plain, seed=1)
    assert more.events == enough.events
    assert more.finish.tolist() == enough.finish.tolist()
    assert more.peak.tolist() == enough.peak.tolist()
