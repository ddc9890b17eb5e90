"""The life of a queue pair: what each step of it needs, and may have."""

import errno
from typing import Any

from fabriclab.rdma import enums as e
from fabriclab.rdma.records import PyverbsRDMAError

STATES = {int(state): state.name.removeprefix("IBV_QPS_") for state in e.ibv_qp_state}
TYPES = {int(kind): kind.name.removeprefix("IBV_QPT_") for kind in e.ibv_qp_type}


def _bits(names: str) -> int:
    return sum(e.ibv_qp_attr_mask[f"IBV_QP_{name}"] for name in names.split())


def take(mine: Any, other: Any, mask: int) -> None:
    """Take over the attributes that ``mask`` names, if their values are within their bounds on this device."""
    for bit, (name, low, high) in e.TABLE["bounds"].items():
        if mask & _bits(bit):
            if not low <= (value := getattr(other, name)) <= high:
                raise PyverbsRDMAError(f"{name} must be from {low} to {high}, got {value}", errno.EINVAL)
            setattr(mine, name, value)
    mine.ah_attr = other.ah_attr if mask & e.IBV_QP_AV else mine.ah_attr


def needs(state: int, kind: int) -> int:
    """Return the mask of the attributes that the step to a state needs, besides the state."""
    return _bits(e.TABLE["needs"].get(f"{STATES[state]} {TYPES[kind]}", ""))


def check(kind: int, now: int, attr: Any, mask: int) -> int:
    """Return the state that a change leads to.

    Raises
    ------
    PyverbsRDMAError
        If there is no such step, or the mask lacks an attribute that it needs, or has one that it forbids.
    """
    new = int(attr.qp_state) if mask & e.IBV_QP_STATE else now
    here, there = STATES[now], STATES.get(new, str(new))
    if mask & e.IBV_QP_CUR_STATE and attr.cur_qp_state != now:
        raise PyverbsRDMAError(f"cur_qp_state says {attr.cur_qp_state}, and the QP is in {here}", errno.EINVAL)
    step = f"{here} {there}" in e.TABLE["steps"]
    if not (step or there == "RESET" or (there == "ERR" and here != "RESET")):
        msg = f"no step leads from {here} to {there}; the way is RESET, INIT, RTR, RTS"
        raise PyverbsRDMAError(msg, errno.EINVAL)
    must = needs(new, kind) if step and new == now + 1 else 0
    may = _bits(e.TABLE["may"][TYPES[kind]]) if step and now else 0
    may |= needs(new, kind) if here == there == "INIT" else 0
    for bits, what in ((must & ~mask, "lacks"), (mask & ~(must | may | _bits("STATE CUR_STATE")), "must not have")):
        if bits:
            told = ", ".join(m.name for m in e.ibv_qp_attr_mask if m & bits)
            raise PyverbsRDMAError(f"the step from {here} to {there}: the mask {what} {told}", errno.EINVAL)
    return new
