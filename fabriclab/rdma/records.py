"""Data exchanged with the device: attributes and their state steps, work requests, completions, counters and errors."""

import copy
import errno
import functools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import field, make_dataclass
from typing import Any, Self

from fabriclab.errors import FabricError
from fabriclab.rdma import enums as e


class PyverbsError(FabricError):
    """Any error of the verbs."""

    def __init__(self, msg: str, error_code: int = -1) -> None:
        self.error_code = error_code
        super().__init__(
            f"{msg}. Errno: {error_code}, {os.strerror(error_code)}" if error_code != -1 else msg
        )


class PyverbsRDMAError(PyverbsError):
    """A call that the device refused; ``error_code`` is its errno."""


class PyverbsUserError(PyverbsError):
    """A wrong argument, found before the device was asked."""


class GID:
    """The 128-bit address of a port, as eight groups of four hexadecimal digits, which can be sent as text."""

    def __init__(self, val: str = "0000:0000:0000:0000:0000:0000:0000:0000") -> None:
        if not re.fullmatch(r"[0-9a-fA-F]{4}(:[0-9a-fA-F]{4}){7}", val):
            raise PyverbsUserError(
                f"a GID is eight groups of four hexadecimal digits with colons, got {val!r}"
            )
        self.gid = val.lower()


def _record(name: str, **more: Any) -> Any:
    """Make a class from its row of the table: number of constructor arguments, docstring, fields with defaults."""
    arguments, doc, defaults = e.TABLE["records"][name]
    made: Any = []
    for i, (attribute, default) in enumerate(defaults.items()):
        if isinstance(default, str):  # the name of a record above
            make = globals()[default]
        else:
            make = functools.partial(_itself, default)
        made.append((attribute, Any, field(init=i < arguments, default_factory=make)))
    namespace = {"__doc__": doc, "__module__": __name__, **more}
    return make_dataclass(name, made, slots=True, namespace=namespace)


def _itself(value: Any) -> Any:
    return value


QPCap = _record("QPCap")
GlobalRoute = _record("GlobalRoute")
SrqAttr = _record("SrqAttr")
AHAttr = _record("AHAttr")
SrqInitAttr = _record("SrqInitAttr")
QPAttr = _record("QPAttr")
QPInitAttr = _record(
    "QPInitAttr", send_cq=property(lambda self: self.scq), recv_cq=property(lambda self: self.rcq)
)


def shown(*names: str) -> Callable[[Any], str]:
    """Make a ``__repr__`` that shows the named attributes as a person would type them."""

    def as_typed(self: Any) -> str:
        values = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"{type(self).__name__}({values})"

    return as_typed


class SGE:
    """A piece of registered memory: its address, its length [B], and the key of its region."""

    __slots__ = ("addr", "length", "lkey")

    def __init__(self, addr: int, length: int, lkey: int) -> None:
        if not (0 <= addr < 2**64 and 0 <= length < 2**32 and 0 <= lkey < 2**32):
            raise PyverbsUserError(
                f"an SGE has 64 bits of addr, 32 of length and lkey; got {addr}, {length}, {lkey}"
            )
        self.addr = addr
        self.length = length
        self.lkey = lkey

    __repr__ = shown("addr", "length", "lkey")


class RecvWR:
    """A buffer for one future message; further ones can be chained with ``next_wr``."""

    __slots__ = ("next_wr", "sg", "wr_id")

    def __init__(
        self, wr_id: int = 0, num_sge: int = 0, sg: Sequence[SGE] | None = None, next_wr: Any = None
    ) -> None:
        if not 0 <= wr_id < 2**64:
            raise PyverbsUserError(f"wr_id has 64 bits, got {wr_id}")
        if not sg or not 0 < num_sge <= len(sg):
            raise PyverbsUserError(
                f"A WR needs at least one SGE, num_sge of sg; got num_sge={num_sge}, sg={sg!r}"
            )
        self.wr_id = wr_id
        self.sg = sg[:num_sge]
        self.next_wr = next_wr

    @property
    def num_sge(self) -> int:
        """Number of pieces."""
        return len(self.sg)


class SendWR(RecvWR):
    """One operation of the sender; further ones, chained with ``next_wr``, are posted with the same doorbell."""

    __slots__ = (
        "ah",
        "compare_add",
        "imm_data",
        "opcode",
        "qkey",
        "qpn",
        "remote_addr",
        "rkey",
        "send_flags",
        "swap",
    )

    def __init__(
        self,
        wr_id: int = 0,
        opcode: int = e.IBV_WR_SEND,
        num_sge: int = 0,
        imm_data: int = 0,
        sg: Sequence[SGE] | None = None,
        send_flags: int = e.IBV_SEND_SIGNALED,
        next_wr: Any = None,
    ) -> None:
        RecvWR.__init__(self, wr_id, num_sge, sg, next_wr)
        if not 0 <= imm_data < 2**32:
            raise PyverbsUserError(f"imm_data has 32 bits, got {imm_data}")
        self.opcode = opcode
        self.imm_data = imm_data
        self.send_flags = send_flags
        # Fields of a WRITE, READ or atomic
        self.rkey = 0
        self.remote_addr = 0
        self.compare_add = 0
        self.swap = 0
        # Fields of a datagram
        self.ah: Any = None
        self.qpn = 0
        self.qkey = 0

    def set_wr_rdma(self, rkey: int, addr: int) -> None:
        """Set the remote memory of a WRITE or READ."""
        self.rkey = rkey
        self.remote_addr = addr

    def set_wr_atomic(self, rkey: int, addr: int, compare_add: int, swap: int) -> None:
        """Set the remote 8 bytes of an atomic, the value to compare with or to add, and the value to swap in."""
        self.rkey = rkey
        self.remote_addr = addr
        self.compare_add = compare_add % 2**64
        self.swap = swap % 2**64

    def set_wr_ud(self, ah: Any, rqpn: int, rqkey: int) -> None:
        """Set the receiver of a datagram."""
        self.ah = ah
        self.qpn = rqpn
        self.qkey = rqkey

    def as_posted(self) -> Self:
        """Return a copy that later changes of this object or of its pieces do not affect."""
        mine = copy.copy(self)
        mine.sg = [copy.copy(piece) for piece in self.sg]
        mine.next_wr = None
        return mine


class WC:
    """A work completion. After an error only ``wr_id``, ``status``, ``qp_num`` and ``vendor_err`` are valid."""

    wr_id = 0
    status = 0
    opcode = 0
    byte_len = 0
    qp_num = 0
    src_qp = 0
    imm_data = 0
    wc_flags = 0
    vendor_err = 0
    # For a send request: polling its completion frees the places of all requests up to this number in the send queue
    # of ``qp``.
    index = 0
    qp: Any = None

    def __init__(self, **fields: int) -> None:
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        """Show the completion as a person would type it, with the names of status and opcode."""
        status = e.ibv_wc_status(self.status).name
        opcode = e.ibv_wc_opcode(self.opcode).name
        return f"WC(wr_id={self.wr_id}, {status}, {opcode}, byte_len={self.byte_len}, qp_num={self.qp_num})"


class Counters:
    """Counters of what a context has done so far; what peers did to its memory is not included.

    ``transfers`` and ``bytes`` count messages that moved and their bytes; ``copies`` counts how often a CPU copied a
    payload in addition (inline data, `MR.read`, `MR.write`); ``posted`` and ``polled`` count work requests and
    completions; ``doorbells`` counts the calls that posted.
    """

    __slots__ = (
        "bytes",
        "copies",
        "polled",
        "quick",
        "slow_doorbells",
        "slow_posted",
        "slow_transfers",
    )

    def __init__(self) -> None:
        self.bytes = 0
        self.copies = 0
        self.polled = 0
        self.quick = (
            0  # requests on the quick path of `QP.post_send`: each one doorbell and one transfer
        )
        # Requests that did not take the quick path. They have fields of their own, because `+=` on a property is two
        # calls, and between these another thread may count, too.
        self.slow_doorbells = 0
        self.slow_posted = 0
        self.slow_transfers = 0

    @property
    def doorbells(self) -> int:
        """Number of calls that posted."""
        return self.slow_doorbells + self.quick

    @property
    def posted(self) -> int:
        """Number of work requests."""
        return self.slow_posted + self.quick

    @property
    def transfers(self) -> int:
        """Number of messages that moved."""
        return self.slow_transfers + self.quick

    __repr__ = shown("bytes", "copies", "doorbells", "polled", "posted", "transfers")


_STATES = {int(state): state.name.removeprefix("IBV_QPS_") for state in e.ibv_qp_state}
_TYPES = {int(kind): kind.name.removeprefix("IBV_QPT_") for kind in e.ibv_qp_type}


@functools.cache
def _bits(names: str) -> int:
    """Return the mask of the attributes in ``names``, which are separated by spaces."""
    return sum(e.ibv_qp_attr_mask[f"IBV_QP_{name}"] for name in names.split())


def take(mine: Any, other: Any, mask: int) -> None:
    """Copy the attributes that ``mask`` names from ``other`` to ``mine``, if this device allows their values."""
    for bit, (name, low, high) in e.TABLE["bounds"].items():
        if not mask & _bits(bit):
            continue
        value = getattr(other, name)
        if not low <= value <= high:
            raise PyverbsRDMAError(
                f"{name} must be from {low} to {high}, got {value}", errno.EINVAL
            )
        setattr(mine, name, value)
    if mask & e.IBV_QP_AV:
        mine.ah_attr = other.ah_attr


def needs(state: int, kind: int) -> int:
    """Return the mask of the attributes that the step to a state needs, in addition to the state."""
    return _bits(e.TABLE["needs"].get(f"{_STATES[state]} {_TYPES[kind]}", ""))


def check_step(kind: int, now: int, attr: Any, mask: int) -> int:
    """Return the state that a change of attributes leads to.

    Raises
    ------
    PyverbsRDMAError
        If there is no such step, or if the mask lacks an attribute that it needs or contains one that it forbids.
    """
    new = int(attr.qp_state) if mask & e.IBV_QP_STATE else now
    here = _STATES[now]
    there = _STATES.get(new, str(new))
    if mask & e.IBV_QP_CUR_STATE and attr.cur_qp_state != now:
        raise PyverbsRDMAError(
            f"cur_qp_state says {attr.cur_qp_state}, and the QP is in {here}", errno.EINVAL
        )
    step = f"{here} {there}" in e.TABLE["steps"]
    if not (step or there == "RESET" or (there == "ERR" and here != "RESET")):
        msg = f"no step leads from {here} to {there}; the order is RESET, INIT, RTR, RTS"
        raise PyverbsRDMAError(msg, errno.EINVAL)

    must = 0
    if step and new == now + 1:
        must = needs(new, kind)
    may = _bits("STATE CUR_STATE")
    if step and here != "RESET":
        may |= _bits(e.TABLE["may"][_TYPES[kind]])
    if here == there == "INIT":
        may |= needs(new, kind)

    missing = must & ~mask
    forbidden = mask & ~(must | may)
    if missing or forbidden:
        problem = "lacks" if missing else "must not have"
        names = ", ".join(bit.name for bit in e.ibv_qp_attr_mask if bit & (missing or forbidden))
        raise PyverbsRDMAError(
            f"the step from {here} to {there}: the mask {problem} {names}", errno.EINVAL
        )
    return new
