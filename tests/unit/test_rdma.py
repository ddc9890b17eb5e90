"""The verbs within one process: what moves, what is refused, and how it is told."""

import errno
import json
import os
import random
import select
import sys
import threading
import time

import numpy as np
import pytest

from fabriclab import rdma
from fabriclab.errors import TooLarge
from fabriclab.rdma import enums as e
from fabriclab.rdma import qp
from support.rdma_pairs import (
    ALL,
    CAS,
    FAA,
    OK,
    RC,
    READ,
    SEND,
    SEND_IMM,
    UC,
    UD,
    WRITE,
    WRITE_IMM,
    attributes,
    completions,
    outcome,
    pair,
    receive,
    request,
    side,
)

# What pyverbs has and this device has not.
NOT_DONE = {
    "Context": "cmd_fd context get_async_event num_comp_vectors query_device_ex query_gid_ex query_gid_table "
    "query_gid_type query_rt_values_ex",
    "PD": "advise_mr handle pd unimport",
    "MR": "handle rereg unimport",
    "CQ": "resize",
    "QP": "bind_mw query_data_in_order query_ece set_ece",
    "SRQ": "get_srq_num modify post_srq_ops query",
    "QPAttr": "alt_ah_attr alt_pkey_index alt_port_num alt_timeout cap en_sqd_async_notify path_mig_state rate_limit "
    "sq_draining",
    "QPInitAttr": "max_inline_data max_recv_sge max_recv_wr max_send_sge max_send_wr",
    "AHAttr": "dgid flow_label hop_limit sgid_index traffic_class",
    "WC": "dlid_path_bits pkey_index sl slid",
    "SendWR": "close set_bind_wr set_qp_type_xrc sg_list",
    "RecvWR": "close",
    "SGE": "close read",
    "SrqInitAttr": "max_sge max_wr srq_limit",
}

# ------------------------------------------------------------------ by hand


def test_a_write_and_a_read_move_bytes():
    a, b = pair()
    a.mr.write(b"hello, b", 8)
    assert outcome(a, request(a, b, WRITE, to=100)) == OK
    assert b.mr.read(8, 100) == b"hello, b"
    assert outcome(a, request(a, b, READ, at=64, to=100)) == OK
    assert a.mr.read(8, 64) == b"hello, b"


@pytest.mark.parametrize("n", [8, 13])
@pytest.mark.parametrize(
    ("opcode", "told"), [(WRITE, e.IBV_WC_RDMA_WRITE), (READ, e.IBV_WC_RDMA_READ)]
)
def test_what_was_done_before_moves_and_tells_the_same_again(opcode, told, n):
    a, b = pair()
    source, target = (a, b) if opcode == WRITE else (b, a)
    for turn in range(3):
        source.mr.write(bytes([turn + 1] * n), n)
        a.qp.post_send(request(a, b, opcode, n=n, wr_id=turn))
        (one,) = completions(a.scq)
        assert (one.wr_id, one.status, one.opcode, one.byte_len) == (turn, OK, told, n)
        assert source.mr.read(n, 0) == target.mr.read(n, 0) == bytes([turn + 1] * n)
    assert (a.ctx.counters.transfers, a.ctx.counters.bytes) == (3, 3 * n)


def test_counters_tell_what_moved_and_nothing_of_the_target():
    a, b = pair()
    outcome(a, request(a, b, n=1000))
    counters = a.ctx.counters
    assert (
        repr(counters)
        == "Counters(bytes=1000, copies=0, doorbells=1, polled=1, posted=1, transfers=1)"
    )
    assert outcome(a, request(a, b, n=10, send_flags=e.IBV_SEND_INLINE | e.IBV_SEND_SIGNALED)) == OK
    a.mr.write("four", 4)
    assert (counters.copies, counters.transfers, counters.bytes) == (2, 2, 1010)
    assert (
        repr(b.ctx.counters)
        == "Counters(bytes=0, copies=0, doorbells=0, polled=0, posted=0, transfers=0)"
    )


def test_one_doorbell_posts_a_chain():
    a, b = pair()
    last = request(a, b, to=16, wr_id=2)
    a.qp.post_send(request(a, b, next_wr=request(a, b, to=8, wr_id=1, next_wr=last)))
    assert [wc.wr_id for wc in completions(a.scq, 3)] == [0, 1, 2]
    assert (a.ctx.counters.doorbells, a.ctx.counters.posted) == (1, 3)


@pytest.mark.parametrize("kind", [RC, UC])
def test_a_message_lands_in_the_oldest_buffer(kind):
    a, b = pair(kind)
    b.qp.post_recv(receive(b, 0, 16, wr_id=7))
    b.qp.post_recv(receive(b, 16, 16, wr_id=8))
    a.mr.write(b"12345678", 8)
    a.qp.post_send(request(a, opcode=SEND))
    a.qp.post_send(request(a, opcode=SEND_IMM, n=4, imm_data=99))
    one, two = completions(b.rcq, 2)
    assert (one.wr_id, one.byte_len, one.wc_flags, one.opcode) == (7, 8, 0, e.IBV_WC_RECV)
    assert (two.wr_id, two.byte_len, two.wc_flags, two.imm_data) == (8, 4, e.IBV_WC_WITH_IMM, 99)
    assert (one.qp_num, one.src_qp) == (b.qp.qp_num, a.qp.qp_num)
    assert b.mr.read(20, 0) == b"12345678" + bytes(8) + b"1234"


def test_a_write_with_immediate_takes_a_buffer_and_leaves_it_alone():
    a, b = pair()
    b.qp.post_recv(receive(b, 0, 16, wr_id=5))
    a.mr.write(b"payload.", 8)
    assert outcome(a, request(a, b, WRITE_IMM, to=200, imm_data=17)) == OK
    [wc] = completions(b.rcq)
    assert (wc.wr_id, wc.opcode, wc.imm_data, wc.byte_len) == (
        5,
        e.IBV_WC_RECV_RDMA_WITH_IMM,
        17,
        8,
    )
    assert b.mr.read(8, 200) == b"payload."
    assert b.mr.read(16, 0) == bytes(16)


def test_pieces_are_gathered_and_scattered():
    a, b = pair()
    a.mr.write(bytes(range(30)), 30)
    pieces = [rdma.SGE(a.mr.buf + at, n, a.mr.lkey) for at, n in ((20, 3), (0, 5), (10, 8))]
    rooms = [rdma.SGE(b.mr.buf + at, n, b.mr.lkey) for at, n in ((0, 4), (100, 1), (200, 50))]
    b.qp.post_recv(rdma.RecvWR(0, 3, rooms))
    a.qp.post_send(rdma.SendWR(num_sge=3, sg=pieces))
    assert completions(b.rcq)[0].byte_len == 16
    flat = [20, 21, 22, 0, 1, 2, 3, 4, *range(10, 18)]
    assert list(b.mr.read(4, 0) + b.mr.read(1, 100) + b.mr.read(11, 200)) == flat


def test_atomics_answer_with_the_old_value():
    a, b = pair()
    number = np.frombuffer(b.mr.memory, np.uint64)
    number[3] = 2**64 - 1
    add, swap = request(a, opcode=FAA), request(a, opcode=CAS)
    add.set_wr_atomic(b.mr.rkey, b.mr.buf + 24, 3, 0)
    assert outcome(a, add) == OK
    assert (number[3], np.frombuffer(a.mr.memory, np.uint64)[0]) == (2, 2**64 - 1)
    for compare, after in ((5, 2), (2, 70)):
        swap.set_wr_atomic(b.mr.rkey, b.mr.buf + 24, compare, 70)
        assert outcome(a, swap) == OK
        assert (number[3], np.frombuffer(a.mr.memory, np.uint64)[0]) == (after, 2)


def test_datagrams_carry_the_way_back_and_are_dropped_without_a_word():
    a, b = side(UD), side(UD)
    for one in (a, b):
        one.qp.to_rts(attributes(qkey=11))
    ah = rdma.AH(a.pd, attr=attributes(b.gid).ah_attr)
    a.mr.write(b"datagram", 8)
    for buffers, qkey, qpn, arrives in (
        (0, 11, b.qp.qp_num, 0),
        (1, 12, b.qp.qp_num, 0),
        (1, 11, 9999, 0),
        (1, 11, b.qp.qp_num, 1),
    ):
        if buffers and not arrives:
            b.qp.post_recv(receive(b, 0, 100))
        wr = request(a, opcode=SEND)
        wr.set_wr_ud(ah, qpn, qkey)
        assert outcome(a, wr) == OK
        assert b.rcq.poll()[0] == arrives or completions(b.rcq)
    assert b.mr.read(8, 40) == b"datagram"
    groups = b.mr.read(16, 8).hex()
    assert ":".join(groups[i : i + 4] for i in range(0, 32, 4)) == a.gid
    large = rdma.MR(a.pd, 4097, 0)
    wr.sg = [rdma.SGE(large.buf, 4097, large.lkey)]  # more than a packet
    assert outcome(a, wr) == e.IBV_WC_LOC_LEN_ERR


def test_a_shared_receive_queue_serves_many():
    a, b = pair(srq=4)
    c = side()
    d = rdma.QP(b.pd, rdma.QPInitAttr(qp_type=RC, scq=b.scq, rcq=b.rcq, srq=b.srq))
    c.qp.to_rts(attributes(b.gid, d.qp_num))
    d.to_rts(attributes(c.gid, c.qp.qp_num))
    b.srq.post_recv(receive(b, 0, 8, wr_id=1))
    b.srq.post_recv(receive(b, 8, 8, wr_id=2))
    assert outcome(c, request(c, opcode=SEND)) == OK
    assert outcome(a, request(a, opcode=SEND)) == OK
    assert [(wc.wr_id, wc.qp_num) for wc in completions(b.rcq, 2)] == [
        (1, d.qp_num),
        (2, b.qp.qp_num),
    ]
    with pytest.raises(rdma.PyverbsRDMAError, match="in its SRQ only"):
        b.qp.post_recv(receive(b))


def test_a_channel_wakes_once_for_each_time_it_is_armed():
    a = side()
    channel = rdma.CompChannel(a.ctx)
    cq, other = rdma.CQ(a.ctx, 8, None, channel), rdma.CQ(a.ctx, 8, None, channel)
    qp = rdma.QP(
        a.pd, rdma.QPInitAttr(qp_type=RC, scq=cq, rcq=other, cap=rdma.QPCap(max_send_wr=8))
    )
    qp.to_rts(attributes(a.gid, qp.qp_num))
    a.qp = qp
    cq.req_notify()
    for _ in range(2):
        qp.post_send(request(a, a))
    channel.get_cq_event(cq)
    cq.ack_events(1)
    assert cq.poll(9)[0] == 2
    cq.req_notify()
    qp.post_send(request(a, a))  # its checks have passed before
    assert select.select([channel._read], [], [], 0)[0], "no event came"
    channel.get_cq_event(cq)
    cq.poll()
    cq.req_notify(solicited_only=True)
    other.req_notify(solicited_only=True)
    qp.post_recv(receive(a, 100))
    qp.post_send(request(a, opcode=SEND, send_flags=e.IBV_SEND_SOLICITED))
    with pytest.raises(rdma.PyverbsRDMAError, match="unexpected CQ"):
        channel.get_cq_event(cq)
    with pytest.raises(rdma.PyverbsRDMAError, match="without a channel"):
        a.scq.req_notify()


def test_a_receiver_that_becomes_ready_gets_the_message_in_order():
    a, b = pair(changes={"rnr_retry": 7, "min_rnr_timer": 1})
    a.mr.write(b"AAAAAAAA", 8)
    inline = request(a, opcode=SEND, send_flags=e.IBV_SEND_INLINE | e.IBV_SEND_SIGNALED)
    a.qp.post_send(inline)
    a.qp.post_send(request(a, b, WRITE, at=8, to=64, wr_id=1))
    a.mr.write(b"BBBBBBBB", 8)  # inline data has been taken; the buffer is free again
    a.mr.write(b"CCCCCCCC", 8, 8)  # the other one is not
    assert a.scq.poll()[0] == 0
    b.qp.post_recv(receive(b))
    assert [wc.wr_id for wc in completions(a.scq, 2)] == [0, 1]
    assert (b.mr.read(8, 0), b.mr.read(8, 64)) == (b"AAAAAAAA", b"CCCCCCCC")


# ------------------------------------------------------------------ laws


def test_unsignaled_requests_give_their_places_back_with_a_signaled_one():
    a, b = pair(max_send_wr=3)
    for _ in range(3):
        a.qp.post_send(request(a, b, send_flags=0))
    with pytest.raises(rdma.PyverbsRDMAError, match="the send queue is full") as caught:
        a.qp.post_send(request(a, b))
    assert caught.value.error_code == errno.ENOMEM
    a, b = pair(max_send_wr=3)
    for _ in range(4):
        a.qp.post_send(request(a, b, send_flags=0))
        a.qp.post_send(request(a, b, send_flags=0))
        assert outcome(a, request(a, b)) == OK


def share_a_pair(each):
    """Post ``each`` WRITEs from each of three threads through one pair, and check that every one is completed once."""
    a, b = pair(max_send_wr=100, cqe=100)
    interval = sys.getswitchinterval()
    found, errors, given_up = [], [], threading.Event()
    # One thread begins after the other: two that install a tracer at once break in Python 3.11.
    begun = [threading.Event() for _ in range(3)]

    def post(k):
        begun[k].set()
        wr, posted = request(a, b, at=8 * k, to=8 * k, wr_id=k), 0
        while posted < each and not errors and not given_up.is_set():
            try:
                a.qp.post_send(wr)
                posted += 1
            except rdma.PyverbsRDMAError as error:
                if "the send queue is full" not in str(error):
                    errors.append(error)

    threads = [threading.Thread(target=post, args=(k,)) for k in range(3)]
    try:
        sys.setswitchinterval(1e-6)
        for k, thread in enumerate(threads):
            thread.start()
            assert begun[k].wait(60)
        found = completions(a.scq, 3 * each, seconds=60)
    finally:
        sys.setswitchinterval(interval)
        given_up.set()  # a thread that went on would slow down every test after this one
        for thread in threads:
            thread.join()
    assert not errors
    assert [sum(wc.wr_id == k for wc in found) for k in range(3)] == [each] * 3
    assert [wc.index for wc in found] == list(range(1, 3 * each + 1)), "completions overtook others"
    counters = a.ctx.counters
    assert counters.transfers == counters.posted == a.qp.posted == 3 * each
    assert a.scq.poll()[0] == 0


def test_threads_that_share_a_pair_lose_nothing():
    share_a_pair(each=3000)


def test_threads_that_share_a_pair_lose_nothing_wherever_python_switches():
    # Between which steps another thread gets its turn differs between versions of Python, and with tracers and
    # finalizers. Here one may get it at every line of the queue pair.
    draws = random.Random(7)

    def switch(frame, event, _):
        if frame.f_code.co_filename != qp.__file__:
            return None
        if event == "line" and draws.random() < 0.1:
            time.sleep(1e-5)
        return switch

    before = threading.gettrace()
    threading.settrace(switch)
    try:
        share_a_pair(each=300)
    finally:
        threading.settrace(before)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("opcode", [WRITE, READ])
def test_what_was_allowed_before_is_checked_again_after_every_change(opcode, again):
    def after(change, **options):
        a, b = pair(**options)
        wr = request(a, b, opcode)
        for _ in range(2 * again):
            assert outcome(a, wr) == OK
        change(a, b)
        return outcome(a, wr)

    def to_error(qp):
        qp.modify(rdma.QPAttr(e.IBV_QPS_ERR), e.IBV_QP_STATE)

    assert after(lambda a, b: b.mr.close()) == e.IBV_WC_REM_ACCESS_ERR
    assert after(lambda a, b: a.mr.close()) == e.IBV_WC_LOC_PROT_ERR
    assert after(lambda a, b: to_error(a.qp)) == e.IBV_WC_WR_FLUSH_ERR
    assert after(lambda a, b: to_error(b.qp)) == e.IBV_WC_RETRY_EXC_ERR
    assert after(lambda a, b: b.qp.close()) == e.IBV_WC_RETRY_EXC_ERR
    assert after(lambda a, b: b.ctx.close()) == e.IBV_WC_RETRY_EXC_ERR
    no_rights = attributes(qp_access_flags=0)
    change = after(lambda a, b: b.qp.modify(no_rights, e.IBV_QP_ACCESS_FLAGS))
    assert change == e.IBV_WC_REM_ACCESS_ERR


def test_what_has_been_flushed_is_told_on_both_sides():
    a, b = pair()
    a.qp.post_recv(receive(a, wr_id=1))
    b.qp.post_recv(receive(b, wr_id=2))
    a.qp.post_send(request(a, b, to=4090))
    a.qp.post_send(request(a, b, wr_id=4, send_flags=0))
    first, second = completions(a.scq, 2)
    assert (first.status, second.wr_id) == (e.IBV_WC_REM_ACCESS_ERR, 4)
    for wc in (second, *completions(a.rcq), *completions(b.rcq)):
        assert wc.status == e.IBV_WC_WR_FLUSH_ERR
    assert a.qp.qp_state == b.qp.qp_state == e.IBV_QPS_ERR
    b.qp.post_recv(receive(b, wr_id=9))
    assert [(wc.wr_id, wc.status) for wc in completions(b.rcq)] == [(9, e.IBV_WC_WR_FLUSH_ERR)]
    for one, peer in ((a, b), (b, a)):  # and back to work
        one.qp.modify(rdma.QPAttr(e.IBV_QPS_RESET), e.IBV_QP_STATE)
        one.qp.to_rts(attributes(peer.gid, peer.qp.qp_num))
    assert outcome(a, request(a, b)) == OK


def test_names_and_values_are_those_of_pyverbs(root):
    known = json.loads((root / "tests/data/pyverbs.json").read_text())
    for name, members in known["enums"].items():
        ours = {m.name: m.value for m in getattr(e, name)}
        assert ours.items() <= members.items(), name
        assert all(getattr(e, member) == value for member, value in ours.items())
    one = side(UD, srq=1)
    made = [
        one.ctx,
        one.pd,
        one.mr,
        one.scq,
        one.qp,
        one.srq,
        rdma.CompChannel(one.ctx),
        one.qp.query(0)[1].cap,
    ]
    made += [
        attributes(),
        *one.qp.query(0),
        attributes().ah_attr,
        attributes().ah_attr.gr,
        rdma.GID(),
        rdma.WC(),
    ]
    made += [request(one), receive(one), rdma.SGE(0, 0, 0), rdma.SrqAttr(), rdma.SrqInitAttr()]
    made += [rdma.AH(one.pd, attr=attributes(one.gid).ah_attr)]
    lacks = {
        type(m).__name__: " ".join(
            n for n in known["classes"][type(m).__name__] if not hasattr(m, n)
        )
        for m in made
    }
    assert {name: names for name, names in lacks.items() if names} == NOT_DONE


# ------------------------------------------------------------------ refusals


def with_(wr, **fields):
    for name, value in fields.items():
        setattr(wr, name, value)
    return wr


def with_lkey(wr, key):
    wr.sg[0].lkey = key
    return wr


def misaligned(a, b):
    wr = request(a, opcode=FAA)
    wr.set_wr_atomic(b.mr.rkey, b.mr.buf + 4, 1, 0)
    return wr


def not_mine(a, b):
    other = rdma.MR(rdma.PD(a.ctx), 64, ALL)
    return rdma.SendWR(opcode=SEND, num_sge=1, sg=[rdma.SGE(other.buf, 8, other.lkey)])


ENDS = {
    "bad rkey": (lambda a, b: with_(request(a, b), rkey=b.mr.rkey ^ 1), e.IBV_WC_REM_ACCESS_ERR),
    "no rkey": (lambda a, b: with_(request(a, b), rkey=0), e.IBV_WC_REM_ACCESS_ERR),
    "beyond the end": (lambda a, b: request(a, b, to=4089), e.IBV_WC_REM_ACCESS_ERR),
    "before the start": (lambda a, b: request(a, b, READ, to=-1), e.IBV_WC_REM_ACCESS_ERR),
    "bad lkey": (lambda a, b: with_lkey(request(a, b), a.mr.lkey + 1), e.IBV_WC_LOC_PROT_ERR),
    "of another domain": (not_mine, e.IBV_WC_LOC_PROT_ERR),
    "local end": (lambda a, b: request(a, b, at=4089), e.IBV_WC_LOC_PROT_ERR),
    "misaligned": (misaligned, e.IBV_WC_REM_INV_REQ_ERR),
    "atomic of 4 B": (
        lambda a, b: with_(misaligned(a, b), sg=[rdma.SGE(a.mr.buf, 4, a.mr.lkey)]),
        e.IBV_WC_LOC_LEN_ERR,
    ),
    "nobody receives": (lambda a, b: request(a, opcode=SEND), e.IBV_WC_RNR_RETRY_EXC_ERR),
    "nobody receives the immediate": (
        lambda a, b: request(a, b, WRITE_IMM),
        e.IBV_WC_RNR_RETRY_EXC_ERR,
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_what_is_wrong_ends_in_its_status_and_in_the_error_state(case):
    make, status = ENDS[case]
    a, b = pair()
    b.mr.write(b"untouched" * 100, 900)
    a.qp.post_send(make(a, b))
    a.qp.post_send(request(a, b, wr_id=4, send_flags=0))
    one, two = completions(a.scq, 2)
    assert (one.status, two.status, a.qp.qp_state) == (status, e.IBV_WC_WR_FLUSH_ERR, e.IBV_QPS_ERR)
    assert b.mr.read(900, 0) == b"untouched" * 100
    faulty = status in (e.IBV_WC_REM_ACCESS_ERR, e.IBV_WC_REM_INV_REQ_ERR)
    assert b.qp.qp_state == (e.IBV_QPS_ERR if faulty else e.IBV_QPS_RTS)


@pytest.mark.parametrize(
    ("opcode", "lacks", "status"),
    [
        (WRITE, 2, e.IBV_WC_REM_ACCESS_ERR),
        (READ, 4, e.IBV_WC_REM_ACCESS_ERR),
        (FAA, 8, e.IBV_WC_REM_ACCESS_ERR),
        (CAS, 8, e.IBV_WC_REM_ACCESS_ERR),
    ],
)
def test_every_operation_needs_its_right_of_the_region_and_of_the_pair(opcode, lacks, status):
    a, b = pair()
    less = rdma.MR(b.pd, 64, ALL & ~lacks)
    wr = request(a, opcode=opcode)
    wr.set_wr_rdma(less.rkey, less.buf)
    assert outcome(a, wr) == status
    a, b = pair(changes={"qp_access_flags": ALL & ~lacks})
    assert outcome(a, request(a, b, opcode)) == status


def test_reads_and_atomics_need_local_write_and_a_place():
    for opcode in (READ, FAA):
        a, b = pair()
        wr = request(a, b, opcode)
        mute = rdma.MR(a.pd, 64, 0)
        wr.sg = [rdma.SGE(mute.buf, 8, mute.lkey)]
        assert outcome(a, wr) == e.IBV_WC_LOC_PROT_ERR
    a, b = pair(changes={"max_dest_rd_atomic": 0})
    assert outcome(a, request(a, b, READ)) == e.IBV_WC_REM_INV_REQ_ERR
    a, b = pair(changes={"max_rd_atomic": 0})
    assert outcome(a, request(a, b, READ)) == e.IBV_WC_LOC_QP_OP_ERR


def test_a_buffer_too_short_or_not_writable_fails_both_sides():
    for access, n, mine, theirs in (
        (ALL, 4, e.IBV_WC_REM_INV_REQ_ERR, e.IBV_WC_LOC_LEN_ERR),
        (0, 8, e.IBV_WC_REM_OP_ERR, e.IBV_WC_LOC_PROT_ERR),
    ):
        a, b = pair()
        region = rdma.MR(b.pd, 64, access)
        b.qp.post_recv(rdma.RecvWR(1, 1, [rdma.SGE(region.buf, n, region.lkey)]))
        b.qp.post_recv(receive(b, wr_id=2))
        assert outcome(a, request(a, opcode=SEND)) == mine
        assert [wc.status for wc in completions(b.rcq, 2)] == [theirs, e.IBV_WC_WR_FLUSH_ERR]
        assert b.qp.qp_state == e.IBV_QPS_ERR


def test_an_unreliable_connection_drops_in_silence_and_knows_no_read():
    a, b = pair(UC)
    assert outcome(a, with_(request(a, b), rkey=0)) == OK
    assert outcome(a, request(a, opcode=SEND)) == OK
    assert b.qp.qp_state == e.IBV_QPS_RTS
    with pytest.raises(rdma.PyverbsRDMAError, match="IBV_QPT_UC: 3> has no operation"):
        a.qp.post_send(request(a, b, READ))
    assert outcome(a, with_lkey(request(a, b), 1)) == e.IBV_WC_LOC_PROT_ERR
    assert a.qp.qp_state == e.IBV_QPS_SQE
    a.qp.modify(rdma.QPAttr(e.IBV_QPS_RTS, e.IBV_QPS_SQE), e.IBV_QP_STATE | e.IBV_QP_CUR_STATE)
    assert outcome(a, request(a, b)) == OK


@pytest.mark.parametrize("side_", ["sender", "receiver"])
def test_a_completion_queue_that_overruns_stops_the_pair(side_):
    a, b = pair(cqe=2)
    for i in range(3):
        b.qp.post_recv(receive(b, wr_id=i))
    for _ in range(3):
        a.qp.post_send(request(a, opcode=SEND, send_flags=2 if side_ == "sender" else 0))
    cq = a.scq if side_ == "sender" else b.rcq
    assert cq.poll(9)[0] == 2
    with pytest.raises(rdma.PyverbsRDMAError, match=r"the completion queue was full \(2\)"):
        cq.poll()
    assert (a if side_ == "sender" else b).qp.qp_state == e.IBV_QPS_ERR
    if side_ == "receiver":
        assert completions(a.scq)[0].status == e.IBV_WC_REM_OP_ERR


def test_packet_numbers_must_meet():
    a, b = side(), side()
    a.qp.to_rts(attributes(b.gid, b.qp.qp_num, sq_psn=5))
    b.qp.to_rts(attributes(a.gid, a.qp.qp_num, rq_psn=6))
    assert outcome(a, request(a, b)) == e.IBV_WC_RETRY_EXC_ERR


def test_requests_that_cannot_be_posted_are_refused_at_once():
    a, b = pair(max_send_sge=2)
    copy, wr = request(a, b), request(a, b, n=65, send_flags=e.IBV_SEND_INLINE, wr_id=77)
    with pytest.raises(rdma.PyverbsRDMAError, match=r"65 B inline.*max_inline_data=64"):
        a.qp.post_send(request(a, b, next_wr=wr), copy)
    assert copy.wr_id == 77
    assert completions(a.scq)[0].status == OK  # what stood before it
    piece = wr.sg[0]
    with pytest.raises(rdma.PyverbsRDMAError, match="3 SGEs, and max_send_sge is 2"):
        a.qp.post_send(rdma.SendWR(num_sge=3, sg=[piece] * 3))
    with pytest.raises(rdma.PyverbsUserError, match="at least one SGE"):
        rdma.SendWR()
    fresh = side(max_recv_wr=1)
    with pytest.raises(
        rdma.PyverbsRDMAError, match=r"is in .*IBV_QPS_RESET: 0>; it sends in IBV_QPS_RTS"
    ):
        fresh.qp.post_send(request(fresh))
    with pytest.raises(rdma.PyverbsRDMAError, match="state INIT or later"):
        fresh.qp.post_recv(receive(fresh))
    fresh.qp.to_init(attributes())
    fresh.qp.post_recv(receive(fresh))
    with pytest.raises(rdma.PyverbsRDMAError, match=r"its 1 buffers \(max_recv_wr\)"):
        fresh.qp.post_recv(receive(fresh))


def test_a_step_says_what_it_lacks():
    a, b = side(), side()
    state = e.IBV_QP_STATE
    with pytest.raises(
        rdma.PyverbsRDMAError,
        match="RESET to INIT: the mask lacks IBV_QP_ACCESS_FLAGS, IBV_QP_PORT",
    ):
        a.qp.modify(attributes(), state | e.IBV_QP_PKEY_INDEX)
    with pytest.raises(rdma.PyverbsRDMAError, match="must not have IBV_QP_TIMEOUT"):
        full = e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS
        a.qp.modify(attributes(), state | full | e.IBV_QP_TIMEOUT)
    with pytest.raises(rdma.PyverbsRDMAError, match="no step leads from RESET to RTS"):
        a.qp.modify(rdma.QPAttr(e.IBV_QPS_RTS), state)
    with pytest.raises(rdma.PyverbsRDMAError, match="path_mtu must be from 1 to 5, got 9"):
        a.qp.to_rts(attributes(b.gid, 5, path_mtu=9))
    assert a.qp.qp_state == e.IBV_QPS_INIT
    with pytest.raises(rdma.PyverbsRDMAError, match="no context answers to GID 0000"):
        a.qp.to_rtr(attributes())
    with pytest.raises(AttributeError, match="path_mtus"):
        attributes(path_mtus=3)


def test_regions_refuse_what_makes_no_sense():
    a = side()
    with pytest.raises(rdma.PyverbsRDMAError, match="LOCAL_WRITE if peers may write"):
        rdma.MR(a.pd, 64, e.IBV_ACCESS_REMOTE_WRITE)
    with pytest.raises(rdma.PyverbsRDMAError, match="not in a region"):
        rdma.MR(a.pd, 64, 0, address=4096)
    with pytest.raises(TooLarge):
        rdma.MR(a.pd, 2**37, 0)
    with pytest.raises(rdma.PyverbsUserError, match="not in a region of 4096 B"):
        a.mr.read(8, 4090)
    part = rdma.MR(a.pd, 8, ALL, address=a.mr.buf + 8)
    a.mr.write(b"thispart", 8, 8)
    assert part.read(8, 0) == b"thispart"
    part.close()
    assert a.mr.read(8, 8) == b"thispart"
    a.ctx.close()
    with pytest.raises(rdma.PyverbsUserError, match="in a closed region"):
        a.mr.read(1, 0)
    with pytest.raises(rdma.PyverbsUserError, match=r"Context .*PD .*closed"):
        rdma.PD(a.ctx)


def test_closed_regions_give_their_memory_back():
    a = side()
    empty = os.fstat(a.ctx.arena.fd).st_blocks
    mr = rdma.MR(a.pd, 2**23, 0)
    mr.write(b"x" * 2**23, 2**23)
    assert os.fstat(a.ctx.arena.fd).st_blocks - empty == 2**23 // 512
    mr.close()
    assert os.fstat(a.ctx.arena.fd).st_blocks == empty


def test_a_key_is_not_used_again_at_once():
    a = side()
    keys = set()
    for _ in range(200):
        mr = rdma.MR(a.pd, 8, 0)
        keys.add(mr.rkey)
        mr.close()
    assert len(keys) == 200


def test_wait_returns_the_next_completion_failed_or_not_and_gives_up_on_an_empty_queue():
    a, b = pair(adversary=3)
    for number, key in enumerate((b.mr.rkey, b.mr.rkey, b.mr.rkey + 1)):
        a.qp.post_send(request(a, (0, 0, key, b.mr.buf), wr_id=number))
    found = [rdma.wait(a.scq) for _ in range(3)]
    assert [wc.wr_id for wc in found] == [0, 1, 2]
    assert [wc.status for wc in found] == [OK, OK, e.IBV_WC_REM_ACCESS_ERR]
    with pytest.raises(TimeoutError, match=r"nothing completed within 0\.01 s"):
        rdma.wait(a.scq, seconds=0.01)
