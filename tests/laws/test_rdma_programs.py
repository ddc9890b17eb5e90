"""Random programs of verbs against a model of memory, and random lives of a queue pair against its state machine."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fabriclab import rdma
from fabriclab.rdma import enums as e
from fabriclab.rdma.records import needs
from support.rdma_pairs import (
    ALL,
    CAS,
    FAA,
    OK,
    RC,
    READ,
    SEND,
    WRITE,
    attributes,
    completions,
    pair,
    receive,
    request,
    side,
)

SIZE = 256
LENGTHS = st.integers(0, 40) | st.just(8)
PLACES = st.integers(-8, SIZE) | st.integers(0, SIZE // 8).map(lambda n: 8 * n)
STEPS = st.tuples(
    st.sampled_from([WRITE, READ, FAA, CAS, SEND]),
    st.booleans(),
    PLACES,
    PLACES,
    LENGTHS,
    st.integers(0, 3),
    st.booleans(),
    st.integers(1, 3),
)


class Model:
    """Two arrays of bytes and what each operation does to them; written from the specification, not from the device."""

    def __init__(self):
        self.memory = [bytearray(range(SIZE)), bytearray(SIZE)]

    def run(self, opcode, swapped, at, to, n, number, key_ok):
        """Return the status, and change the memory if it is a success."""
        mine, theirs = self.memory[::-1] if swapped else self.memory
        n = 8 if opcode in (FAA, CAS) else n
        if not (0 <= at and at + n <= SIZE):
            return e.IBV_WC_LOC_PROT_ERR
        if opcode == SEND:
            theirs[:n] = mine[at : at + n]
            return OK
        if n and not (key_ok and 0 <= to and to + n <= SIZE):
            return e.IBV_WC_REM_ACCESS_ERR
        if opcode == WRITE:
            theirs[to : to + n] = mine[at : at + n]
        elif opcode == READ:
            mine[at : at + n] = theirs[to : to + n]
        elif to % 8:
            return e.IBV_WC_REM_INV_REQ_ERR
        else:
            old = int.from_bytes(theirs[to : to + 8], "little")
            new = (old + number) % 2**64 if opcode == FAA else number if old == number + 1 else old
            theirs[to : to + 8] = new.to_bytes(8, "little")
            mine[at : at + 8] = old.to_bytes(8, "little")
        return OK


def made(mine, peer, opcode, at, to, n, number, key_ok, wr_id):
    """Return the request for what `Model.run` does."""
    wr = request(mine, opcode=opcode, at=at, n=8 if opcode in (FAA, CAS) else n, wr_id=wr_id)
    key, addr = peer.mr.rkey ^ (not key_ok), peer.mr.buf + to
    if opcode in (FAA, CAS):
        wr.set_wr_atomic(key, addr, number + (opcode == CAS), number)
    else:
        wr.set_wr_rdma(key, addr)
    return wr


@settings(max_examples=1000)
@given(st.lists(STEPS, max_size=8))
def test_random_programs_change_memory_as_the_model_does(steps):
    check(steps)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=4), st.integers(1, 9))
def test_random_programs_do_so_on_a_device_at_its_worst(steps, seed):
    check(steps, adversary=seed)


def check(steps, **options):
    sides, model = pair(size=SIZE, **options), Model()
    sides[0].mr.write(bytes(range(SIZE)), SIZE)
    for wr_id, (opcode, swapped, at, to, n, number, key_ok, times) in enumerate(steps):
        mine, peer = sides[::-1] if swapped else sides
        wr = made(mine, peer, opcode, at, to, n, number, key_ok, wr_id)
        for _ in range(times):
            expected = model.run(opcode, swapped, at, to, n, number, key_ok)
            if opcode == SEND:
                peer.qp.post_recv(receive(peer, 0, SIZE, wr_id))
            mine.qp.post_send(wr)
            [wc] = completions(mine.scq)
            assert (wc.wr_id, wc.status) == (wr_id, expected)
            assert [bytes(one.mr.memory) for one in sides] == [bytes(one) for one in model.memory]
            if expected != OK:
                assert mine.qp.qp_state == e.IBV_QPS_ERR
                return
            if opcode == SEND:
                assert completions(peer.rcq)[0].byte_len == n


STATES = [e.IBV_QPS_RESET, e.IBV_QPS_INIT, e.IBV_QPS_RTR, e.IBV_QPS_RTS, e.IBV_QPS_ERR]
GROWS = {(0, 1), (1, 2), (2, 3), (1, 1), (3, 3)}  # besides any to RESET and to ERR


class LifeOfAQueuePair(RuleBasedStateMachine):
    """Steps in any order, right or wrong, with sends and receives in between; the model is a few lines."""

    @initialize()
    def make(self):
        self.a, self.b = side(max_send_wr=4, max_recv_wr=3), side(max_recv_wr=50)
        self.b.qp.to_rts(attributes(self.a.gid, self.a.qp.qp_num))
        self.state, self.sent, self.buffers, self.id = 0, deque(), deque(), 0
        self.got, self.posted, self.retired = deque(), 0, 0

    @rule(state=st.sampled_from(STATES))
    def step(self, state):
        qp, attr = self.a.qp, attributes(self.b.gid, self.b.qp.qp_num)
        attr.qp_state = state
        mask = needs(state, RC) if state != self.state else 0
        if state == 0 or (state == 6 and self.state) or (self.state, state) in GROWS:
            qp.modify(attr, mask | e.IBV_QP_STATE)
            self.state = int(state)
            if state == e.IBV_QPS_ERR:
                self.got += [(wr_id, e.IBV_WC_WR_FLUSH_ERR) for wr_id in self.buffers]
            if state in (0, 6):
                self.buffers.clear()
            if state == 0:
                self.sent.clear()
                self.retired = self.posted
        else:
            with pytest.raises(rdma.PyverbsRDMAError, match="no step leads"):
                qp.modify(attr, mask | e.IBV_QP_STATE)

    @precondition(lambda self: self.state == 0)
    @rule()
    def begin_anew(self):
        if self.b.qp.qp_state != e.IBV_QPS_RTS:
            self.b.qp.modify(rdma.QPAttr(e.IBV_QPS_RESET), e.IBV_QP_STATE)
            self.b.qp.to_rts(attributes(self.a.gid, self.a.qp.qp_num))
        self.a.qp.to_rts(attributes(self.b.gid, self.b.qp.qp_num))
        self.state = 3

    @rule(signaled=st.booleans(), right=st.integers(0, 7))
    def send(self, signaled, right):
        self.id += 1
        wr = request(
            self.a, self.b, wr_id=self.id, send_flags=2 * signaled, to=0 if right else SIZE**2
        )
        if self.state not in (3, 6) or self.posted - self.retired == 4:
            with pytest.raises(rdma.PyverbsRDMAError):
                self.a.qp.post_send(wr)
            return
        self.posted += 1
        peer_is_ready = self.b.qp.qp_state == e.IBV_QPS_RTS
        self.a.qp.post_send(wr)
        if self.state == 6:
            status = e.IBV_WC_WR_FLUSH_ERR
        elif not peer_is_ready:
            status = e.IBV_WC_RETRY_EXC_ERR
        else:
            status = OK if right else e.IBV_WC_REM_ACCESS_ERR
        if status != OK and self.state == 3:
            self.sent.append((self.id, status, self.posted))
            self.settle()
            self.got += [(wr_id, e.IBV_WC_WR_FLUSH_ERR) for wr_id in self.buffers]
            self.buffers.clear()
            self.state = 6
        elif signaled or status != OK:
            self.sent.append((self.id, status, self.posted))

    def settle(self):
        """Wait for the last completion, which may take its time."""
        self.poll_sent(completions(self.a.scq, len(self.sent)))

    def poll_sent(self, wcs):
        for wc in wcs:
            wr_id, status, self.retired = self.sent.popleft()
            assert (wc.wr_id, wc.status) == (wr_id, status)

    @rule(n=st.integers(1, 3))
    def poll(self, n):
        found, wcs = self.a.scq.poll(n)
        assert found == len(wcs) == min(n, len(self.sent))
        self.poll_sent(wcs)

    @rule()
    def post_receive(self):
        self.id += 1
        if self.state == 0 or len(self.buffers) == 3:
            with pytest.raises(rdma.PyverbsRDMAError):
                self.a.qp.post_recv(receive(self.a, wr_id=self.id))
            return
        self.a.qp.post_recv(receive(self.a, wr_id=self.id))
        if self.state == 6:
            self.got.append((self.id, e.IBV_WC_WR_FLUSH_ERR))
        else:
            self.buffers.append(self.id)

    @precondition(
        lambda self: self.state in (2, 3) and self.buffers and self.b.qp.qp_state == e.IBV_QPS_RTS
    )
    @rule()
    def peer_sends(self):
        self.b.qp.post_send(request(self.b, opcode=SEND))
        assert completions(self.b.scq)[0].status == OK
        self.got.append((self.buffers.popleft(), OK))

    @rule()
    def poll_received(self):
        wcs = self.a.rcq.poll(100)[1]
        assert [(wc.wr_id, wc.status) for wc in wcs] == list(self.got)
        self.got.clear()

    @invariant()
    def state_is_known(self):
        assert self.a.qp.qp_state == self.state
        assert self.a.qp.query(e.IBV_QP_ACCESS_FLAGS)[0].qp_access_flags == (
            ALL if self.state else 0
        )


TestLifeOfAQueuePair = LifeOfAQueuePair.TestCase
TestLifeOfAQueuePair.settings = settings(max_examples=500, stateful_step_count=20)
