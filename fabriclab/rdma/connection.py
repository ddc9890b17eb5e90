"""A queue pair connected with that of another process: what both tell each other, over a pipe."""

from typing import Any

from fabriclab.rdma.device import MR
from fabriclab.rdma.qp import QP
from fabriclab.rdma.records import GID, AHAttr, GlobalRoute, QPAttr


def connect(qp: QP, mr: MR, pipe: Any = None) -> tuple[int, int]:
    """Connect a reliable pair with that of the process at the other end of a pipe, which does the same.

    Both exchange what a peer must know, and wait for each other; without a pipe the pair is connected with itself.

    Returns
    -------
    tuple of int
        Key (rkey) and address of the peer's region.
    """
    peer = qp.pd.context.query_gid(1, 0).gid, qp.qp_num, mr.rkey, mr.buf
    if pipe is not None:
        pipe.send(peer)
        peer = pipe.recv()
    attr = QPAttr()
    attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=GID(peer[0])), is_global=1)
    attr.dest_qp_num, attr.qp_access_flags = peer[1], 15  # every right: those of the region decide
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    # illustrative: patient enough for a busy machine, 4.096 us x 2^10 three times
    attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 10, 3, 3, 1
    qp.to_rts(attr)
    if pipe is not None:
        pipe.send("ready")
        pipe.recv()
    return peer[2:]
