"""The quick path of a WRITE or READ does what the slow one does, and the RNR timer has the codes of the specification.

The quick path is taken by a request between two regions that one before has used. A chain of two, of which the second
is the request in question, is never quick, so the same request can be posted both ways.
"""

import sys
import threading
import time

import pytest

from fabriclab.rdma import SGE
from fabriclab.rdma import enums as e
from support.rdma_pairs import (
    OK,
    READ,
    SEND,
    WRITE,
    completions,
    pair,
    request,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="this device needs memfd and /proc")

SIZE = 64  # [B] of each region, a whole number of words
NEVER = {"rnr_retry": 0, "retry_cnt": 0}
LENGTHS = (0, 1, 7, 8, 9, SIZE)
# one byte before each end, at it, and after it, with the length 8 within, across and beyond the end
PLACES = (-9, -8, -7, -1, 0, 1, 7, 8, SIZE // 2)
PLACES_FROM_END = (-SIZE - 1, -SIZE, -SIZE + 1, -9, -8, -7, -1, 0, 1)


def offsets(n):
    """Return offsets for ``n`` bytes around both ends of a region, at which they fit, just fit, and just do not."""
    return sorted(
        {*PLACES, *(SIZE + at for at in PLACES_FROM_END), SIZE - n - 1, SIZE - n, SIZE - n + 1}
    )


def filled():
    """Return two connected sides whose regions are full of different bytes, and lie within memory that stays zero."""
    a, b = pair(size=SIZE, changes=NEVER)
    a.mr.write(bytes(range(1, SIZE + 1)), SIZE)
    b.mr.write(bytes(range(101, SIZE + 101)), SIZE)
    return a, b


def whole_page(side):
    """Return all bytes of the page in which a region begins, and of the page before, which peers must not reach."""
    return bytes(side.ctx.arena.bytes[side.mr.at - 4096 : side.mr.at + 4096])


def state(a, b, opcode):
    """Return everything by which the two paths could differ, once requests of both sides have ended."""
    found = a.scq.poll(9)[1]
    counters = a.ctx.counters
    return {
        "completions": [
            (wc.wr_id, wc.status, wc.byte_len, wc.qp_num, wc.index, wc.opcode) for wc in found
        ],
        "memory": (whole_page(a), whole_page(b)),
        "counters": (counters.transfers, counters.bytes, counters.copies, counters.posted),
        "peer's counters": repr(b.ctx.counters),
        "states": (a.qp.qp_state, b.qp.qp_state),
        "places": (a.qp.posted, a.qp.done, a.qp.retired),
    }


def after(quick, opcode, at, to, n, flags):
    """Return the state after a request that may take the quick path, or after the same one that must not."""
    a, b = filled()
    first = request(a, b, opcode, n=8, at=16, to=24, wr_id=1)
    assert [a.qp.post_send(first), completions(a.scq)[0].status] == [None, OK]
    asked = request(a, b, opcode, n=8, wr_id=2, send_flags=flags)
    asked.sg = [SGE(a.mr.buf + at, n, a.mr.lkey)]
    asked.set_wr_rdma(b.mr.rkey, b.mr.buf + to)
    if quick:
        a.qp.post_send(first)
        a.qp.post_send(asked)
    else:
        a.qp.known.clear()
        first.next_wr = asked
        a.qp.post_send(first)
    end = time.monotonic() + 10
    while a.qp.posted != a.qp.done:
        assert time.monotonic() < end, "a request did not end"
    done = a.ctx.counters.quick
    found = state(a, b, opcode)
    a.ctx.close()
    b.ctx.close()
    return done, found


def inside(at, n):
    return 0 <= at and at + n <= SIZE


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("opcode", [WRITE, READ])
@pytest.mark.parametrize("end", ["remote", "local"])
def test_the_quick_path_equals_the_slow_one_around_both_ends_of_a_region(opcode, n, end):
    for offset in offsets(n):
        fixed = 0 if n == SIZE else 8
        at, to = (fixed, offset) if end == "remote" else (offset, fixed)
        for flags in (e.IBV_SEND_SIGNALED, 0):
            quick, found = after(True, opcode, at, to, n, flags)
            slow, expected = after(False, opcode, at, to, n, flags)
            case = f"{n} B, at {at}, to {to}, flags {flags}"
            assert found == expected, case
            assert slow == 0, case
            assert quick == 1 + (inside(at, n) and inside(to, n)), case


@pytest.mark.parametrize("opcode", [WRITE, READ])
@pytest.mark.parametrize(
    ("at", "to", "n", "status"),
    [
        (0, 0, SIZE, OK),
        (0, SIZE - 8, 8, OK),
        (SIZE - 8, 0, 8, OK),
        (0, SIZE - 1, 1, OK),
        (0, 0, 9, OK),
        (0, -1, 8, e.IBV_WC_REM_ACCESS_ERR),
        (0, -8, 8, e.IBV_WC_REM_ACCESS_ERR),
        (0, SIZE - 7, 8, e.IBV_WC_REM_ACCESS_ERR),
        (0, SIZE, 8, e.IBV_WC_REM_ACCESS_ERR),
        (0, SIZE, 1, e.IBV_WC_REM_ACCESS_ERR),
        (0, 1, SIZE, e.IBV_WC_REM_ACCESS_ERR),
        (-1, 0, 8, e.IBV_WC_LOC_PROT_ERR),
        (-8, 0, 8, e.IBV_WC_LOC_PROT_ERR),
        (SIZE - 7, 0, 8, e.IBV_WC_LOC_PROT_ERR),
        (SIZE, 0, 8, e.IBV_WC_LOC_PROT_ERR),
        (1, 0, SIZE, e.IBV_WC_LOC_PROT_ERR),
    ],
)
def test_a_request_that_was_quick_moves_what_it_may_and_nothing_else(opcode, at, to, n, status):
    a, b = filled()
    mine, theirs = bytearray(whole_page(a)), bytearray(whole_page(b))
    warm = request(a, b, opcode, n=8, at=16, to=16)
    for _ in range(2):  # the second one is quick
        a.qp.post_send(warm)
        assert completions(a.scq)[0].status == OK
    assert a.ctx.counters.quick == 1
    source, target, copied, into = (
        (mine, theirs, at, to) if opcode == WRITE else (theirs, mine, to, at)
    )
    target[4096 + 16 : 4096 + 24] = source[4096 + 16 : 4096 + 24]
    if status == OK:
        target[4096 + into : 4096 + into + n] = source[4096 + copied : 4096 + copied + n]

    asked = request(a, b, opcode)
    asked.sg = [SGE(a.mr.buf + at, n, a.mr.lkey)]
    asked.set_wr_rdma(b.mr.rkey, b.mr.buf + to)
    a.qp.post_send(asked)
    assert completions(a.scq)[0].status == status
    assert whole_page(a) == bytes(mine)
    assert whole_page(b) == bytes(theirs)
    assert a.ctx.counters.transfers == 2 + (status == OK)
    assert a.ctx.counters.bytes == 16 + n * (status == OK)


# ------------------------------------------------------------------ a receiver without a buffer

# source: InfiniBand Architecture Specification, vol. 1, table of the encodings of the RNR NAK timer field; the same
# values are ib_rvt_rnr_table of the Linux kernel (drivers/infiniband/sw/rdmavt/qp.c, in us) and rnrnak_usec of rxe.
RNR_TIMER_MS = (
    655.36,  # code 0
    0.01,
    0.02,
    0.03,
    0.04,
    0.06,
    0.08,
    0.12,
    0.16,  # code 8
    0.24,
    0.32,
    0.48,
    0.64,
    0.96,
    1.28,
    1.92,
    2.56,  # code 16
    3.84,
    5.12,
    7.68,
    10.24,
    15.36,
    20.48,
    30.72,
    40.96,  # code 24
    61.44,
    81.92,
    122.88,
    163.84,
    245.76,
    327.68,
    491.52,  # code 31
)


@pytest.mark.parametrize("code", range(32))
def test_a_sender_waits_as_long_as_the_receivers_rnr_timer_says(monkeypatch, code):
    waits = []

    def sleep(seconds):
        if threading.current_thread() is not threading.main_thread():
            waits.append(seconds)

    a, b = pair(changes={"min_rnr_timer": 1, "rnr_retry": 3})
    attr = b.qp.attr
    attr.min_rnr_timer = code
    b.qp.modify(attr, e.IBV_QP_MIN_RNR_TIMER)
    monkeypatch.setattr(time, "sleep", sleep)
    a.qp.post_send(request(a, opcode=SEND))
    assert completions(a.scq)[0].status == e.IBV_WC_RNR_RETRY_EXC_ERR
    first, *between = waits
    assert first == 0  # the thread that tries again begins at once
    assert between == pytest.approx([RNR_TIMER_MS[code] * 1e-3] * 3, rel=1e-12)
