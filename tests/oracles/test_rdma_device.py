"""The same verbs on every device that is here: the one in software always, one of pyverbs where there is one.

CONTRIBUTING.md says how to run this on a device and where to send what it prints. FABRICLAB_GID is the index of the
address to use, 0 by default; RoCE v2 often has 3.
"""

import os
import sys
import time
from types import SimpleNamespace

import pytest

from fabriclab import rdma

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the device in software needs memfd and /proc"
)
DEVICES = list(dict.fromkeys([rdma.DEVICE, rdma.use().DEVICE]))


@pytest.fixture(params=DEVICES)
def pair(request):
    """Connect two queue pairs of one device, each with a region of 4 KiB, by what both kinds of device have."""
    verbs = rdma.use(request.param)
    print(f"\n{verbs!r}, {sys.version.split()[0]}, {' '.join(os.uname()[2:5:2])}")
    e, gid = (
        verbs.enums,
        int(os.environ.get("FABRICLAB_GID", "0")) if request.param != rdma.DEVICE else 0,
    )
    ctx = verbs.Context(name=verbs.DEVICE)
    port, sides = ctx.query_port(1), []
    for _ in range(2):
        pd, cq = verbs.PD(ctx), verbs.CQ(ctx, 16)
        cap = verbs.QPCap(max_send_wr=8, max_recv_wr=8, max_inline_data=32)
        qp = verbs.QP(
            pd, verbs.QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap, sq_sig_all=1)
        )
        sides.append(SimpleNamespace(cq=cq, qp=qp, mr=verbs.MR(pd, 4096, 15), verbs=verbs, pd=pd))
    for mine, peer in (sides, sides[::-1]):
        attr, route = verbs.QPAttr(), verbs.GlobalRoute(dgid=ctx.query_gid(1, gid), sgid_index=gid)
        attr.ah_attr = verbs.AHAttr(gr=route, is_global=1, dlid=port.lid, port_num=1)
        attr.port_num, attr.dest_qp_num, attr.qp_access_flags = 1, peer.qp.qp_num, 15
        attr.path_mtu, attr.max_rd_atomic, attr.max_dest_rd_atomic = e.IBV_MTU_1024, 1, 1
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 14, 2, 2, 12
        mine.qp.to_rts(attr)
    yield sides
    ctx.close()


def told(side):
    """Return the next completion."""
    end = time.monotonic() + 10
    while not (found := side.cq.poll()[1]):
        assert time.monotonic() < end, "no completion came"
    return found[0]


def done(a, b, opcode, n=8, flags=2, rkey=None, atomic=()):
    """Post a request between the first bytes of two regions, and return the status and opcode of its completion."""
    wr = a.verbs.SendWR(
        wr_id=7,
        opcode=opcode,
        num_sge=1,
        sg=[a.verbs.SGE(a.mr.buf, n, a.mr.lkey)],
        send_flags=flags,
    )
    if atomic:
        wr.set_wr_atomic(b.mr.rkey, b.mr.buf, *atomic)
    else:
        wr.set_wr_rdma(b.mr.rkey if rkey is None else rkey, b.mr.buf)
    a.qp.post_send(wr)
    return (one := told(a)).status, one.opcode


def test_write_and_read(pair):
    (a, b), e = pair, pair[0].verbs.enums
    a.mr.write(b"12345678", 8)
    assert done(a, b, e.IBV_WR_RDMA_WRITE) == (e.IBV_WC_SUCCESS, e.IBV_WC_RDMA_WRITE)
    assert b.mr.read(8, 0) == b"12345678"
    a.mr.write(b"abcdefgh", 8)
    assert (
        done(a, b, e.IBV_WR_RDMA_WRITE, flags=e.IBV_SEND_SIGNALED | e.IBV_SEND_INLINE)[0]
        == e.IBV_WC_SUCCESS
    )
    b.mr.write(b"ABCD", 4)
    assert done(a, b, e.IBV_WR_RDMA_READ) == (e.IBV_WC_SUCCESS, e.IBV_WC_RDMA_READ)
    assert a.mr.read(8, 0) == b"ABCDefgh"


def test_atomics(pair):
    (a, b), e = pair, pair[0].verbs.enums
    b.mr.write((5).to_bytes(8, sys.byteorder), 8)
    assert done(a, b, e.IBV_WR_ATOMIC_FETCH_AND_ADD, atomic=(3, 0)) == (
        e.IBV_WC_SUCCESS,
        e.IBV_WC_FETCH_ADD,
    )
    assert done(a, b, e.IBV_WR_ATOMIC_CMP_AND_SWP, atomic=(8, 1)) == (
        e.IBV_WC_SUCCESS,
        e.IBV_WC_COMP_SWAP,
    )
    assert [int.from_bytes(s.mr.read(8, 0), sys.byteorder) for s in pair] == [8, 1]


def test_send_and_receive(pair):
    (a, b), e = pair, pair[0].verbs.enums
    b.qp.post_recv(b.verbs.RecvWR(9, 1, [b.verbs.SGE(b.mr.buf + 64, 64, b.mr.lkey)]))
    a.mr.write(b"a message", 9)
    assert done(a, b, e.IBV_WR_SEND, n=9) == (e.IBV_WC_SUCCESS, e.IBV_WC_SEND)
    got = told(b)
    assert (got.wr_id, got.status, got.opcode, got.byte_len) == (
        9,
        e.IBV_WC_SUCCESS,
        e.IBV_WC_RECV,
        9,
    )
    assert b.mr.read(9, 64) == b"a message"


def test_a_wrong_key_stops_the_pair_and_the_rest_is_flushed(pair):
    (a, b), e = pair, pair[0].verbs.enums
    assert done(a, b, e.IBV_WR_RDMA_WRITE, rkey=b.mr.rkey ^ 0xFF)[0] == e.IBV_WC_REM_ACCESS_ERR
    assert done(a, b, e.IBV_WR_RDMA_WRITE)[0] == e.IBV_WC_WR_FLUSH_ERR
    assert a.qp.qp_state == e.IBV_QPS_ERR
