"""Attributes of queue pairs: what one is made with, and what each step of its life needs."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fabriclab.rdma import enums as e
from fabriclab.rdma.addr import AHAttr
from fabriclab.rdma.errors import PyverbsRDMAError

if TYPE_CHECKING:
    from fabriclab.rdma.cq import CQ
    from fabriclab.rdma.srq import SRQ

RESET, INIT, RTR, RTS, SQD, SQE, ERR = e.ibv_qp_state
RC, UC, UD = e.ibv_qp_type
# The bits of a mask that name one number each, that number's name, and its bounds on this device.
_BOUNDS: dict[str, tuple[str, int, int]] = {
    "ACCESS_FLAGS": ("qp_access_flags", 0, 15), "PKEY_INDEX": ("pkey_index", 0, 0), "PORT": ("port_num", 1, 1),
    "QKEY": ("qkey", 0, 2**32 - 1), "PATH_MTU": ("path_mtu", 1, 5), "DEST_QPN": ("dest_qp_num", 1, 2**24 - 1),
    "RQ_PSN": ("rq_psn", 0, 2**24 - 1), "SQ_PSN": ("sq_psn", 0, 2**24 - 1), "TIMEOUT": ("timeout", 0, 31),
    "RETRY_CNT": ("retry_cnt", 0, 7), "RNR_RETRY": ("rnr_retry", 0, 7), "MIN_RNR_TIMER": ("min_rnr_timer", 0, 31),
    "MAX_QP_RD_ATOMIC": ("max_rd_atomic", 0, 16), "MAX_DEST_RD_ATOMIC": ("max_dest_rd_atomic", 0, 16),
}  # fmt: skip
# What a step needs, by the state it leads to, and may have, by type: qp_state_table in Linux,
# drivers/infiniband/core/verbs.c.
_NEEDS: dict[tuple[int, int], str] = {
    (INIT, RC): "PKEY_INDEX PORT ACCESS_FLAGS", (INIT, UC): "PKEY_INDEX PORT ACCESS_FLAGS",
    (INIT, UD): "PKEY_INDEX PORT QKEY", (RTR, UC): "AV PATH_MTU DEST_QPN RQ_PSN",
    (RTR, RC): "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER", (RTS, UC): "SQ_PSN",
    (RTS, RC): "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC", (RTS, UD): "SQ_PSN",
}  # fmt: skip
_MAY: dict[int, str] = {RC: "ACCESS_FLAGS MIN_RNR_TIMER", UC: "ACCESS_FLAGS", UD: "QKEY"}
_STEPS = {(RESET, INIT), (INIT, RTR), (RTR, RTS), (INIT, INIT), (RTS, RTS), (SQE, RTS)}


@dataclass(slots=True)
class QPCap:
    """Room of the queues of a queue pair."""

    max_send_wr: int = 1
    max_recv_wr: int = 10
    max_send_sge: int = 1
    max_recv_sge: int = 1
    max_inline_data: int = 0


class QPInitAttr:
    """What a queue pair is made from: its type, queues and room; with ``sq_sig_all`` every send completes visibly."""

    __slots__ = ("cap", "qp_context", "qp_type", "recv_cq", "send_cq", "sq_sig_all", "srq")

    def __init__(self, qp_type: int = UD, qp_context: Any = None, scq: CQ | None = None, rcq: CQ | None = None,
                 srq: SRQ | None = None, cap: QPCap | None = None, sq_sig_all: int = 1) -> None:  # fmt: skip
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
            if mask & _bits(bit):
                if not low <= (value := getattr(other, name)) <= high:
                    raise PyverbsRDMAError(f"{name} must be from {low} to {high}, got {value}", errno.EINVAL)
                setattr(self, name, value)
        self.ah_attr = other.ah_attr if mask & _bits("AV") else self.ah_attr


def _bits(names: str) -> int:
    return sum(e.ibv_qp_attr_mask[f"IBV_QP_{name}"] for name in names.split())


def needs(state: int, kind: int) -> int:
    """Return the mask of the attributes that the step to a state needs, besides the state."""
    return _bits(_NEEDS.get((state, kind), ""))


def check_step(kind: int, now: int, attr: QPAttr, mask: int) -> int:
    """Return the state that a change leads to.

    Raises
    ------
    PyverbsRDMAError
        If there is no such step, or the mask lacks an attribute that it needs, or has one that it forbids.
    """
    name = {int(state): state.name.removeprefix("IBV_QPS_") for state in e.ibv_qp_state}.get
    new = attr.qp_state if mask & _bits("STATE") else now
    if mask & _bits("CUR_STATE") and attr.cur_qp_state != now:
        raise PyverbsRDMAError(f"cur_qp_state says {attr.cur_qp_state}, and the QP is in {name(now)}", errno.EINVAL)
    if (now, new) not in _STEPS and new != RESET and (new != ERR or now == RESET):
        msg = f"no step leads from {name(now)} to {name(new, new)}; the way is RESET, INIT, RTR, RTS"
        raise PyverbsRDMAError(msg, errno.EINVAL)
    forward = (now, new) in _STEPS and new == now + 1
    must = needs(new, kind) if forward else 0
    may = _bits(_MAY[kind]) if (now, new) in _STEPS and now != RESET else 0
    may |= needs(new, kind) if now == new == INIT else 0
    for bits, what in ((must & ~mask, "lacks"), (mask & ~(must | may | _bits("STATE CUR_STATE")), "must not have")):
        if bits:
            told = ", ".join(m.name for m in e.ibv_qp_attr_mask if m & bits)
            raise PyverbsRDMAError(f"the step from {name(now)} to {name(new)}: the mask {what} {told}", errno.EINVAL)
    return int(new)
