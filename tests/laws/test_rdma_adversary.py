"""The device at its worst: what it may do, it does, the same for the same seed; what no rule allows, it never does."""

import itertools
import time

import numpy as np
import pytest

from fabriclab import rdma
from fabriclab.rdma import _wire
from fabriclab.rdma import enums as e
from support.rdma_pairs import (
    FAA,
    OK,
    READ,
    SEND,
    UC,
    UD,
    WRITE,
    WRITE_IMM,
    add_forever,
    address,
    attributes,
    completions,
    connected,
    outcome,
    pair,
    receive,
    request,
    side,
    target,
)

SEEDS = range(1, 9)


@pytest.fixture
def landed(monkeypatch):
    """Return where pieces go, in the order in which they land."""
    found, pieces = [], _wire.Posted.pieces

    def seen(*args):
        found.append(pieces(*args))
        return found[-1]

    monkeypatch.setattr(_wire.Posted, "pieces", seen)
    return found


def chain(mine, requests):
    """Post all with one doorbell."""
    for wr, following in itertools.pairwise(requests):
        wr.next_wr = following
    mine.qp.post_send(requests[0])


def watched(memory, done, seconds=10.0):
    """Return all states of ``memory`` in the order in which they were seen, until one is ``done``."""
    states, end = [bytes(memory)], time.monotonic() + seconds
    while not done(states[-1]):
        assert time.monotonic() < end, "it did not come"
        if (now := bytes(memory)) != states[-1]:
            states.append(now)
    return states


# ------------------------------------------------------------------ what it may do


@pytest.fixture
def paused(monkeypatch):
    """Return a list of what is called whenever a NIC pauses: a reader that is always there in time."""
    readers, pause = [], _wire.Posted.pause

    def seen(posted):
        for reader in readers:
            reader()
        pause(posted)

    monkeypatch.setattr(_wire.Posted, "pause", seen)
    return readers


def test_who_polls_the_last_byte_reads_too_early(landed, paused):
    early, whole = [], bytes([1]) * 64
    for seed in SEEDS:
        a, b = pair(adversary=seed)
        states, memory = [], b.mr.memory[:64]
        paused[:] = [lambda states=states, memory=memory: states.append(bytes(memory))]
        a.mr.write(whole, 64)
        assert outcome(a, request(a, b, n=64)) == OK
        assert bytes(memory) == whole
        assert all(to % 8 == 0 and n % 8 == 0 for _, to, n in landed[-1])
        first_seen = next(state for state in states if state[63])
        last = landed[-1][-1]
        assert (first_seen == whole) == (last[1] + last[2] == b.mr.at + 64)
        early.append(first_seen != whole)
    assert sum(early) >= len(SEEDS) / 2


def poll_the_last_byte(connection, rounds):
    """Be a reader that trusts the last byte: answer how often the rest was not there yet."""
    mine, wrong = side(), 0
    connection.send(address(mine))
    mine.qp.to_rts(attributes(*connection.recv()))
    memory = np.frombuffer(mine.mr.memory, np.uint8)[:512]
    for n in range(1, rounds + 1):
        connection.send("go")
        while memory[511] != n:
            pass
        wrong += bool((memory != n).any())
        connection.recv()
    connection.send(wrong)


def test_a_reader_in_another_process_fails_too():
    mine = side(adversary=1)
    with rdma.Process(poll_the_last_byte, 40) as process:
        peer = process.recv()
        mine.qp.to_rts(attributes(*peer[:2]))
        process.send(address(mine)[:2])
        for n in range(1, 41):
            process.recv()
            mine.mr.write(bytes([n]) * 512, 512)
            assert outcome(mine, request(mine, peer, n=512)) == OK
            process.send("told")
        assert process.recv() > 4


@pytest.mark.parametrize("opcode", [WRITE, READ])
def test_a_large_transfer_is_torn(opcode, landed, paused):
    a, b = pair(adversary=3, size=2**20)
    source, there = (a, b) if opcode == WRITE else (b, a)
    source.mr.write(b"n" * 2**20, 2**20)
    there.mr.write(b"o" * 2**20, 2**20)
    states = []
    paused.append(lambda: states.append(bytes(there.mr.memory[:: 2**12])))
    assert outcome(a, request(a, b, opcode, n=2**20)) == OK
    assert any(b"n" in state and b"o" in state for state in states)
    assert bytes(there.mr.memory) == b"n" * 2**20
    assert sorted(to for _, to, _ in landed[0]) != [to for _, to, _ in landed[0]]


def test_completions_come_late_and_buffers_are_read_late(monkeypatch):
    # Long enough that a busy machine does not take longer over the two lines after a request than the NIC waits.
    monkeypatch.setattr(_wire, "PAUSE", 0.05)
    late = read_late = 0
    for seed in SEEDS:
        a, b = pair(adversary=seed)
        a.mr.write(b"in time.", 8)
        a.qp.post_send(request(a, b))
        a.qp.post_send(request(a, b, to=8, send_flags=e.IBV_SEND_INLINE | e.IBV_SEND_SIGNALED))
        a.mr.write(b"too soon", 8)
        late += not a.scq.poll()[0]
        completions(a.scq, 2 - a.ctx.counters.polled)
        read_late += b.mr.read(8, 0) == b"too soon"
        assert b.mr.read(8, 8) == b"in time."  # inline data is taken at once
    assert late > len(SEEDS) / 2
    assert read_late > len(SEEDS) / 2


@pytest.mark.parametrize("first", [READ, FAA])
def test_a_write_overtakes_a_read_or_atomic_unless_it_is_fenced(first):
    def old(seed, flags):
        a, b = pair(adversary=seed)
        a.mr.write(b"new word", 8, 8)
        wr = request(a, b, first, wr_id=1)
        chain(a, [wr, request(a, b, WRITE, at=8, wr_id=2, send_flags=e.IBV_SEND_SIGNALED | flags)])
        assert [(wc.wr_id, wc.status) for wc in completions(a.scq, 2)] == [(1, OK), (2, OK)]
        return a.mr.read(8, 0) == bytes(8)

    assert {old(seed, 0) for seed in SEEDS} == {True, False}
    assert [old(seed, 0) for seed in SEEDS] == [old(seed, 0) for seed in SEEDS]
    assert all(old(seed, e.IBV_SEND_FENCE) for seed in SEEDS)


def arrivals(kind, seed, opcode, count=40):
    """Send ``count`` numbers with one doorbell; return those that came, in their order."""
    a, b = (
        side(kind, adversary=seed, cqe=count, max_send_wr=count, max_recv_wr=count)
        for _ in range(2)
    )
    for one, peer in ((a, b), (b, a)):
        one.qp.to_rts(attributes(peer.gid, peer.qp.qp_num, qkey=5))
    ah, wrs = rdma.AH(a.pd, attr=attributes(b.gid).ah_attr), []
    np.frombuffer(a.mr.memory, np.uint64)[:count] = range(1, count + 1)
    for i in range(count):
        b.qp.post_recv(receive(b, 64 * i, 64, wr_id=i))
        wrs.append(request(a, b, opcode, at=8 * i, to=8 * i, wr_id=i))
        if kind == UD:
            wrs[-1].set_wr_ud(ah, b.qp.qp_num, 5)
    chain(a, wrs)
    assert [(wc.wr_id, wc.status) for wc in completions(a.scq, count)] == [
        (i, OK) for i in range(count)
    ]
    if opcode == WRITE:
        return [n for n in np.frombuffer(b.mr.memory, np.uint64)[:count] if n]
    header = 40 if kind == UD else 0
    return [
        int(np.frombuffer(b.mr.read(8, 64 * wc.wr_id + header), np.uint64)[0])
        for wc in b.rcq.poll(count)[1]
    ]


@pytest.mark.parametrize(("kind", "opcode"), [(UC, SEND), (UC, WRITE), (UD, SEND)])
def test_messages_without_reliability_get_lost_and_datagrams_overtake(kind, opcode):
    first = arrivals(kind, 4, opcode)
    assert 20 <= len(first) < 40
    assert len(set(first)) == len(first)
    assert (sorted(first) == first) == (kind == UC)
    assert arrivals(kind, 4, opcode) == first
    assert arrivals(kind, 5, opcode) != first


def test_the_order_in_which_bytes_land_depends_on_the_seed_only(landed):
    for seed in (6, 6, 7):
        a, b = pair(adversary=seed)
        for n in (64, 1000, 24):
            assert outcome(a, request(a, b, n=n)) == OK
    starts = [[(at - order[0][0], n) for at, _, n in order] for order in landed]
    assert starts[:3] == starts[3:6] != starts[6:]


# ------------------------------------------------------------------ what it never does


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_announced_is_there(seed):
    a, b = pair(adversary=seed)
    for n in range(1, 4):
        payload = bytes([n]) * 256
        a.mr.write(payload + bytes(248) + n.to_bytes(8, "little"), 512)
        a.qp.post_send(request(a, b, n=256, send_flags=0))
        a.qp.post_send(request(a, b, at=504, to=504, n=8))  # a flag
        watched(b.mr.memory[504:512], lambda state, n=n: state[0] == n)
        assert b.mr.read(256, 0) == payload
        assert completions(a.scq)[0].status == OK
        b.qp.post_recv(receive(b, 600, 256))
        a.qp.post_send(request(a, b, WRITE_IMM, n=256, to=1000, imm_data=n))
        [wc] = completions(b.rcq)
        assert (wc.imm_data, b.mr.read(256, 1000)) == (n, payload)
        b.qp.post_recv(receive(b, 600, 256))
        a.qp.post_send(request(a, opcode=SEND, n=256))
        assert completions(b.rcq)[0].byte_len == 256
        assert b.mr.read(256, 600) == payload
        assert [wc.status for wc in completions(a.scq, 2)] == [OK, OK]


def test_faults_are_told_in_order_and_the_rest_is_flushed():
    for seed in SEEDS:
        a, b = pair(adversary=seed)
        wrs = [
            request(a, b, READ, wr_id=0),
            request(a, b, to=4090, wr_id=1),
            request(a, b, wr_id=2, send_flags=0),
        ]
        chain(a, wrs)
        told = [(wc.wr_id, wc.status) for wc in completions(a.scq, 3)]
        assert told == [(0, OK), (1, e.IBV_WC_REM_ACCESS_ERR), (2, e.IBV_WC_WR_FLUSH_ERR)]
        for one, peer in ((a, b), (b, a)):
            one.qp.modify(rdma.QPAttr(e.IBV_QPS_RESET), e.IBV_QP_STATE)
            one.qp.to_rts(attributes(peer.gid, peer.qp.qp_num))
        assert outcome(a, request(a, b)) == OK


@pytest.mark.parametrize("seed", [0, 2])
def test_what_waited_before_a_reset_is_not_done_after_it(seed):
    patience = {"rnr_retry": 7, "min_rnr_timer": 10}
    a, b = pair(adversary=seed, changes=patience)
    add = request(a, opcode=FAA)
    add.set_wr_atomic(b.mr.rkey, b.mr.buf, 1, 0)
    for n in range(3):
        a.qp.post_send(request(a, opcode=SEND))  # nobody receives
        time.sleep(0.005)
        a.qp.modify(rdma.QPAttr(e.IBV_QPS_RESET), e.IBV_QP_STATE)
        a.qp.to_rts(attributes(b.gid, b.qp.qp_num, **patience))
        if not n:
            b.qp.post_recv(receive(b, 64))
        for _ in range(5):
            assert outcome(a, add) == OK
        assert a.scq.poll()[0] == b.rcq.poll()[0] == 0
        if not n:
            assert outcome(a, request(a, opcode=SEND)) == OK
            assert completions(b.rcq)[0].status == OK
    assert b.mr.memory[0] == 15


def test_the_environment_reaches_other_processes_and_a_death_is_told(monkeypatch):
    monkeypatch.setenv("FABRICLAB_ADVERSARY", "3")
    mine = side()
    with rdma.Process(target) as process:
        peer = connected(process, mine)
        process.send("mine.ctx.adversary")
        assert process.recv() == mine.ctx.adversary == "3"
        process.kill()
        for wr_id in range(3):
            mine.qp.post_send(request(mine, peer, wr_id=wr_id, n=512))
        told = [wc.status for wc in completions(mine.scq, 3)]
    assert told[-1] in (OK, e.IBV_WC_WR_FLUSH_ERR, e.IBV_WC_RETRY_EXC_ERR)
    assert outcome(mine, request(mine, peer)) in (e.IBV_WC_RETRY_EXC_ERR, e.IBV_WC_WR_FLUSH_ERR)


def test_adds_of_a_worker_that_dies_are_neither_lost_nor_doubled(monkeypatch):
    monkeypatch.setenv("FABRICLAB_ADVERSARY", "9")
    mine = side(cqe=1024, max_recv_wr=900)
    for i in range(900):
        mine.qp.to_init(attributes()) if not i else None
        mine.qp.post_recv(receive(mine, 64, wr_id=i))
    with rdma.Process(add_forever, address(mine), 300) as worker:
        peer = worker.recv()
        mine.qp.to_rtr(attributes(*peer[:2]))
        worker.send(mine.qp.qp_num)
        worker.send("go")
        time.sleep(0.1)
        worker.kill()
    told = mine.rcq.poll(900)[1]
    assert [wc.wr_id for wc in told] == list(range(len(told)))
    assert np.frombuffer(mine.mr.memory, np.uint64)[0] - len(told) in (0, 1, 2)
    assert told, "it died before it began"
