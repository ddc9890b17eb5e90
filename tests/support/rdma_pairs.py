"""Connected queue pairs for tests of the verbs, in one process or in two."""

import time
from types import SimpleNamespace

from fabriclab import rdma
from fabriclab.rdma import enums as e

ALL = 15  # every access flag
OK, RC, UC, UD = e.IBV_WC_SUCCESS, e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD
WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CAS, FAA = e.ibv_wr_opcode


def attributes(gid="0000:0000:0000:0000:0000:0000:0000:0000", qpn=1, **changes):
    """Return what all steps of a queue pair need; a receiver that is not ready is asked for about a millisecond."""
    attr = rdma.QPAttr()
    attr.ah_attr = rdma.AHAttr(gr=rdma.GlobalRoute(dgid=rdma.GID(gid)), is_global=1)
    values = {
        "qp_access_flags": ALL,
        "dest_qp_num": qpn,
        "max_rd_atomic": 1,
        "max_dest_rd_atomic": 1,
        "timeout": 4,
    }
    for name, value in {
        **values,
        "retry_cnt": 2,
        "rnr_retry": 2,
        "min_rnr_timer": 10,
        **changes,
    }.items():
        setattr(attr, name, value)
    return attr


def side(kind=RC, size=4096, cqe=64, access=ALL, srq=0, adversary=None, **caps):
    """Make one side with all that belongs to it: context, domain, queues, a region, and a pair in RESET."""
    ctx = rdma.Context(adversary=adversary)
    pd = rdma.PD(ctx)
    scq, rcq, mr = rdma.CQ(ctx, cqe), rdma.CQ(ctx, cqe), rdma.MR(pd, size, access)
    shared = rdma.SRQ(pd, rdma.SrqInitAttr(rdma.SrqAttr(max_wr=srq))) if srq else None
    cap = rdma.QPCap(
        **{"max_send_wr": 16, "max_send_sge": 4, "max_recv_sge": 4, "max_inline_data": 64, **caps}
    )
    qp = rdma.QP(
        pd, rdma.QPInitAttr(qp_type=kind, scq=scq, rcq=rcq, cap=cap, srq=shared, sq_sig_all=0)
    )
    gid = ctx.query_gid(1, 0).gid
    return SimpleNamespace(ctx=ctx, pd=pd, scq=scq, rcq=rcq, mr=mr, qp=qp, gid=gid, srq=shared)


def address(one):
    """Return what a peer needs to know, as plain numbers and text."""
    return one.gid, one.qp.qp_num, one.mr.rkey, one.mr.buf


def pair(kind=RC, changes=None, **options):
    """Make two connected sides in this process."""
    a, b = side(kind, **options), side(kind, **options)
    for mine, peer in ((a, b), (b, a)):
        mine.qp.to_rts(attributes(peer.gid, peer.qp.qp_num, **(changes or {})))
    return a, b


def request(mine, peer=None, opcode=WRITE, at=0, to=0, n=8, **fields):
    """Return a request for ``n`` bytes between ``at`` in my region and ``to`` in the peer's."""
    fields = {"send_flags": e.IBV_SEND_SIGNALED, **fields}
    wr = rdma.SendWR(
        opcode=opcode, num_sge=1, sg=[rdma.SGE(mine.mr.buf + at, n, mine.mr.lkey)], **fields
    )
    if peer is not None:
        wr.set_wr_rdma(peer[2], peer[3] + to) if isinstance(peer, tuple) else wr.set_wr_rdma(
            peer.mr.rkey, peer.mr.buf + to
        )
    return wr


def receive(mine, at=0, n=8, wr_id=0):
    """Return a buffer of ``n`` bytes."""
    return rdma.RecvWR(wr_id, 1, [rdma.SGE(mine.mr.buf + at, n, mine.mr.lkey)])


def completions(cq, count=1, seconds=10.0):
    """Wait for ``count`` completions."""
    found, end = [], time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} completions came"
        found += cq.poll(count - len(found))[1]
    return found


def outcome(mine, wr):
    """Post and return the status."""
    mine.qp.post_send(wr)
    return completions(mine.scq)[0].status


def target(connection, size=4096):
    """Be the other process: connect, then answer what is asked, until told to end."""
    mine = side(size=size)
    connection.send(address(mine))
    mine.qp.to_rts(attributes(*connection.recv()))
    connection.send("ready")
    names = {"mine": mine, "receive": receive, "request": request, "completions": completions}
    while (asked := connection.recv()) is not None:
        if asked == "busy":
            while True:
                pass
        connection.send(eval(asked, names))


def add_forever(connection, peer, count):
    """Be a worker that adds 1 to a number of a peer, again and again."""
    mine = side()
    connection.send(address(mine))
    mine.qp.to_rts(attributes(peer[0], connection.recv()))
    wr = request(mine, opcode=FAA, send_flags=e.IBV_SEND_SIGNALED)
    wr.set_wr_atomic(peer[2], peer[3], 1, 0)
    send = request(mine, opcode=SEND)
    connection.recv()
    for _ in range(count):
        assert outcome(mine, wr) == OK
        mine.qp.post_send(send)
        mine.scq.poll()
    connection.send("done")


def connected(process, mine):
    """Connect ``mine`` with `target` and return the address of its region."""
    peer = process.recv()
    mine.qp.to_rts(attributes(*peer[:2]))
    process.send(address(mine)[:2])
    assert process.recv() == "ready"
    return peer
