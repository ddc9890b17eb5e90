"""Attributes of queue pairs: what one is made with, and what each step of its life needs."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Final

from fabriclab.rdma import enums as e
from fabriclab.rdma.addr import AHAttr
from fabriclab.rdma.errors import PyverbsRDMAError

if TYPE_CHECKING:
    from fabriclab.rdma.cq import CQ
    from fabriclab.rdma.srq import SRQ

RESET, INIT, RTR, RTS, SQD, SQE, ERR = e.ibv_qp_state
RC, UC, UD = e.ibv_qp_type
_M = e.ibv_qp_attr_mask
_FIRST = _M.IBV_QP_PKEY_INDEX | _M.IBV_QP_PORT
_PATH = _M.IBV_QP_AV | _M.IBV_QP_PATH_MTU | _M.IBV_QP_DEST_QPN | _M.IBV_QP_RQ_PSN
_RETRIES = _M.IBV_QP_TIMEOUT | _M.IBV_QP_RETRY_CNT | _M.IBV_QP_RNR_RETRY
# Which attributes a step needs and may have: qp_state_table in Linux, drivers/infiniband/core/verbs.c.
NEEDS: Final[dict[tuple[int, int], int]] = {
    (INIT, RC): _FIRST | _M.IBV_QP_ACCESS_FLAGS,
    (INIT, UC): _FIRST | _M.IBV_QP_ACCESS_FLAGS,
    (INIT, UD): _FIRST | _M.IBV_QP_QKEY,
    (RTR, RC): _PATH | _M.IBV_QP_MAX_DEST_RD_ATOMIC | _M.IBV_QP_MIN_RNR_TIMER,
    (RTR, UC): _PATH,
    (RTR, UD): 0,
    (RTS, RC): _RETRIES | _M.IBV_QP_SQ_PSN | _M.IBV_QP_MAX_QP_RD_ATOMIC,
    (RTS, UC): _M.IBV_QP_SQ_PSN,
    (RTS, UD): _M.IBV_QP_SQ_PSN,
}
_MAY: Final[dict[int, int]] = {
    RC: _M.IBV_QP_ACCESS_FLAGS | _M.IBV_QP_MIN_RNR_TIMER,
    UC: _M.IBV_QP_ACCESS_FLAGS,
    UD: _M.IBV_QP_QKEY,
}
_STEPS = {(RESET, INIT), (INIT, RTR), (RTR, RTS)}
_STAYS = {(INIT, INIT), (RTS, RTS), (SQE, RTS)}
# Attribute and bounds behind each bit of a mask.
_BOUNDS: Final = {
    _M.IBV_QP_ACCESS_FLAGS: ("qp_access_flags", 0, 15), _M.IBV_QP_PKEY_INDEX: ("pkey_index", 0, 0),
    _M.IBV_QP_PORT: ("port_num", 1, 1), _M.IBV_QP_QKEY: ("qkey", 0, 2**32 - 1), _M.IBV_QP_PATH_MTU: ("path_mtu", 1, 5),
    _M.IBV_QP_TIMEOUT: ("timeout", 0, 31), _M.IBV_QP_RETRY_CNT: ("retry_cnt", 0, 7),
    _M.IBV_QP_RNR_RETRY: ("rnr_retry", 0, 7), _M.IBV_QP_RQ_PSN: ("rq_psn", 0, 2**24 - 1),
    _M.IBV_QP_MAX_QP_RD_ATOMIC: ("max_rd_atomic", 0, 16), _M.IBV_QP_MIN_RNR_TIMER: ("min_rnr_timer", 0, 31),
    _M.IBV_QP_SQ_PSN: ("sq_psn", 0, 2**24 - 1), _M.IBV_QP_MAX_DEST_RD_ATOMIC: ("max_dest_rd_atomic", 0, 16),
    _M.IBV_QP_DEST_QPN: ("dest_qp_num", 1, 2**24 - 1),
}  # fmt: skip


class QPCap:
    """Room of the queues of a queue pair."""

    __slots__ = ("max_inline_data", "max_recv_sge", "max_recv_wr", "max_send_sge", "max_send_wr")

    def __init__(
        self,
        max_send_wr: int = 1,
        max_recv_wr: int = 10,
        max_send_sge: int = 1,
        max_recv_sge: int = 1,
        max_inline_data: int = 0,
    ) -> None:
        self.max_send_wr, self.max_recv_wr, self.max_send_sge = max_send_wr, max_recv_wr, max_send_sge
        self.max_recv_sge, self.max_inline_data = max_recv_sge, max_inline_data


class QPInitAttr:
    """What a queue pair is made from: its type, queues and room; with ``sq_sig_all`` every send completes visibly."""

    __slots__ = ("cap", "qp_context", "qp_type", "recv_cq", "send_cq", "sq_sig_all", "srq")

    def __init__(
        self,
        qp_type: int = UD,
        qp_context: Any = None,
        scq: CQ | None = None,
        rcq: CQ | None = None,
        srq: SRQ | None = None,
        cap: QPCap | None = None,
        sq_sig_all: int = 1,
    ) -> None:
        self.qp_type, self.qp_context, self.send_cq, self.recv_cq = qp_type, qp_context, scq, rcq
        self.srq, self.cap, self.sq_sig_all = srq, cap or QPCap(), sq_sig_all


class QPAttr:
    """What a step of a queue pair sets."""

    __slots__ = ("ah_attr", "cur_qp_state", "qp_state", *(name for name, *_ in _BOUNDS.values()))

    def __init__(self, qp_state: int = INIT, cur_qp_state: int = RESET) -> None:
        for name, *_ in _BOUNDS.values():
            setattr(self, name, 0)
        self.qp_state, self.cur_qp_state, self.ah_attr = qp_state, cur_qp_state, AHAttr()
        self.port_num, self.path_mtu = 1, int(e.IBV_MTU_1024)

    def __getattr__(self, name: str) -> Any:
        """Say what there is; what is set never comes here."""
        raise AttributeError(f"QPAttr has no {name!r}; it has {', '.join(self.__slots__)}")

    def take(self, other: QPAttr, mask: int) -> None:
        """Take over what ``mask`` names, if its values are within their bounds."""
        for bit, (name, low, high) in _BOUNDS.items():
            if mask & bit:
                if not low <= getattr(other, name) <= high:
                    msg = f"{name} must be from {low} to {high}, got {getattr(other, name)}"
                    raise PyverbsRDMAError(msg, errno.EINVAL)
                setattr(self, name, getattr(other, name))
        if mask & _M.IBV_QP_AV:
            self.ah_attr = other.ah_attr


def check_step(kind: int, now: int, attr: QPAttr, mask: int) -> int:
    """Return the state that a change leads to.

    Raises
    ------
    PyverbsRDMAError
        If there is no such step, or the mask lacks an attribute that it needs, or has one that it forbids.
    """
    names = {int(state): state.name.removeprefix("IBV_QPS_") for state in e.ibv_qp_state}
    new = attr.qp_state if mask & _M.IBV_QP_STATE else now
    if mask & _M.IBV_QP_CUR_STATE and attr.cur_qp_state != now:
        raise PyverbsRDMAError(f"cur_qp_state says {attr.cur_qp_state}, and the QP is in {names[now]}", errno.EINVAL)
    needs, may = 0, 0
    if (now, new) in _STEPS:
        needs, may = NEEDS[new, kind], 0 if new == INIT else _MAY[kind]
    elif (now, new) in _STAYS:
        may = _MAY[kind] | (_FIRST if new == INIT else 0)
    elif new not in (RESET, ERR):
        msg = f"no step leads from {names[now]} to {names.get(new, new)}; the way is RESET, INIT, RTR, RTS"
        raise PyverbsRDMAError(msg, errno.EINVAL)
    lacks, odd = needs & ~mask, mask & ~(needs | may | _M.IBV_QP_STATE | _M.IBV_QP_CUR_STATE)
    if lacks or odd:
        told = [f"{what} {', '.join(m.name for m in _M if m & bits)}" for what, bits in
                (("lacks", lacks), ("must not have", odd)) if bits]  # fmt: skip
        msg = f"the step from {names[now]} to {names[new]}: the mask {' and '.join(told)}"
        raise PyverbsRDMAError(msg, errno.EINVAL)
    return int(new)
