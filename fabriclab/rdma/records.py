"""What is told to the device and what it tells: attributes, work requests, completions, counters, and errors."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import field, make_dataclass
from typing import Any

from fabriclab.errors import FabricError
from fabriclab.rdma import enums as e


class PyverbsError(FabricError):
    """Any error of the verbs."""

    def __init__(self, msg: str, error_code: int = -1) -> None:
        self.error_code = error_code
        super().__init__(f"{msg}. Errno: {error_code}, {os.strerror(error_code)}" if error_code != -1 else msg)


class PyverbsRDMAError(PyverbsError):
    """A call that the device refused; ``error_code`` is its errno."""


class PyverbsUserError(PyverbsError):
    """A wrong argument, found before the device was asked."""


class GID:
    """The 128-bit address of a port, as eight groups of four hexadecimal digits; it may be sent as text."""

    __slots__ = ("gid",)

    def __init__(self, val: str = "0000:0000:0000:0000:0000:0000:0000:0000") -> None:
        if not re.fullmatch(r"[0-9a-fA-F]{4}(:[0-9a-fA-F]{4}){7}", val):
            raise PyverbsUserError(f"a GID is eight groups of four hexadecimal digits with colons, got {val!r}")
        self.gid = val.lower()


def _record(name: str) -> Any:
    """Make a class from its row: how many of its fields its constructor takes, what it is, and all with defaults."""
    arguments, doc, fields = e.TABLE["records"][name]
    made: list[tuple[str, Any, Any]] = []
    for i, (what, default) in enumerate(fields.items()):
        kind = {"default_factory": globals()[default]} if isinstance(default, str) else {"default": default}
        made.append((what, Any, field(init=i < arguments, **kind)))
    return make_dataclass(name, made, slots=True, namespace={"__doc__": doc, "__module__": __name__})


QPCap, GlobalRoute, SrqAttr = _record("QPCap"), _record("GlobalRoute"), _record("SrqAttr")
AHAttr, SrqInitAttr = _record("AHAttr"), _record("SrqInitAttr")
QPAttr = _record("QPAttr")


class QPInitAttr:
    """What a queue pair is made from: its type, queues and room; with ``sq_sig_all`` every send completes visibly."""

    __slots__ = ("cap", "qp_context", "qp_type", "recv_cq", "send_cq", "sq_sig_all", "srq")

    def __init__(self, qp_type: int = e.IBV_QPT_UD, qp_context: Any = None, scq: Any = None, rcq: Any = None,
                 srq: Any = None, cap: Any = None, sq_sig_all: int = 1) -> None:  # fmt: skip
        self.qp_type, self.qp_context, self.send_cq, self.recv_cq = qp_type, qp_context, scq, rcq
        self.srq, self.cap, self.sq_sig_all = srq, cap or QPCap(), sq_sig_all


def _shown(*names: str) -> Callable[[Any], str]:
    """Make a ``__repr__`` as a person would type it."""
    return lambda self: f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in names)})"


class SGE:
    """A piece of registered memory: address, length [B], and the key of its region."""

    __slots__ = ("addr", "length", "lkey")

    def __init__(self, addr: int, length: int, lkey: int) -> None:
        if not (0 <= addr < 2**64 and 0 <= length < 2**32 and 0 <= lkey < 2**32):
            msg = f"an SGE has an address of 64 bits, a length and a key of 32, got {addr}, {length}, {lkey}"
            raise PyverbsUserError(msg)
        self.addr, self.length, self.lkey = addr, length, lkey

    __repr__ = _shown("addr", "length", "lkey")


class RecvWR:
    """A buffer for one message to come; more of them can hang on ``next_wr``."""

    __slots__ = ("next_wr", "sg", "wr_id")

    def __init__(self, wr_id: int = 0, num_sge: int = 0, sg: Sequence[SGE] | None = None,
                 next_wr: Any = None) -> None:  # fmt: skip
        if not 0 <= wr_id < 2**64:
            raise PyverbsUserError(f"wr_id has 64 bits, got {wr_id}")
        if not sg or not 0 < num_sge <= len(sg):
            raise PyverbsUserError(f"A WR needs at least one SGE, num_sge of sg; got num_sge={num_sge}, sg={sg!r}")
        self.wr_id, self.sg, self.next_wr = wr_id, sg[:num_sge], next_wr

    @property
    def num_sge(self) -> int:
        """Number of pieces."""
        return len(self.sg)


class SendWR(RecvWR):
    """One operation of the sender's side; more of them on ``next_wr`` go with the same doorbell."""

    __slots__ = (
        "ah", "compare_add", "imm_data", "opcode", "qkey", "qpn", "remote_addr", "rkey", "send_flags", "swap",
    )  # fmt: skip

    def __init__(self, wr_id: int = 0, opcode: int = e.IBV_WR_SEND, num_sge: int = 0, imm_data: int = 0,
                 sg: Sequence[SGE] | None = None, send_flags: int = e.IBV_SEND_SIGNALED,
                 next_wr: Any = None) -> None:  # fmt: skip
        RecvWR.__init__(self, wr_id, num_sge, sg, next_wr)
        if not 0 <= imm_data < 2**32:
            raise PyverbsUserError(f"imm_data has 32 bits, got {imm_data}")
        self.opcode, self.imm_data, self.send_flags, self.ah = opcode, imm_data, send_flags, None
        self.rkey = self.remote_addr = self.compare_add = self.swap = self.qpn = self.qkey = 0

    def set_wr_rdma(self, rkey: int, addr: int) -> None:
        """Name the remote memory of a WRITE or READ."""
        self.rkey, self.remote_addr = rkey, addr

    def set_wr_atomic(self, rkey: int, addr: int, compare_add: int, swap: int) -> None:
        """Name the remote 8 bytes of an atomic, what to compare with or to add, and what to put there."""
        self.rkey, self.remote_addr, self.compare_add, self.swap = rkey, addr, compare_add % 2**64, swap % 2**64

    def set_wr_ud(self, ah: Any, rqpn: int, rqkey: int) -> None:
        """Name the receiver of a datagram."""
        self.ah, self.qpn, self.qkey = ah, rqpn, rqkey

    def as_posted(self) -> SendWR:
        """Return a copy that later changes of this object or its pieces do not reach."""
        mine = copy.copy(self)
        mine.sg, mine.next_wr = [copy.copy(piece) for piece in self.sg], None
        return mine


class WC:
    """A work completion. After an error only ``wr_id``, ``status``, ``qp_num`` and ``vendor_err`` mean something."""

    wr_id = status = opcode = byte_len = qp_num = src_qp = imm_data = wc_flags = vendor_err = index = 0
    qp: Any = None  # whose send queue gets places back, up to number ``index``, when this is polled

    def __init__(self, **fields: int) -> None:
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        """Return it as a person would type it, with the names of status and opcode."""
        status, opcode = e.ibv_wc_status(self.status).name, e.ibv_wc_opcode(self.opcode).name
        return f"WC(wr_id={self.wr_id}, {status}, {opcode}, byte_len={self.byte_len}, qp_num={self.qp_num})"


def _counter(name: str) -> Any:
    """Make a counter that the quick way of `QP.post_send` counts, too."""
    return property(lambda self: getattr(self, name) + self.quick, lambda self, n: setattr(self, name, n - self.quick))


class Counters:
    """What a context has done so far; nothing that others did to its memory is in it.

    ``transfers`` and ``bytes``: messages that moved, and what they moved; ``copies``: times a processor copied a
    payload besides (inline data, `MR.read`, `MR.write`); ``posted`` and ``polled``: work requests and completions;
    ``doorbells``: calls that posted.
    """

    __slots__ = ("_doorbells", "_posted", "_transfers", "bytes", "copies", "polled", "quick")
    doorbells, posted, transfers = _counter("_doorbells"), _counter("_posted"), _counter("_transfers")

    def __init__(self) -> None:
        self._transfers = self.copies = self.bytes = self._posted = self.polled = self._doorbells = self.quick = 0

    __repr__ = _shown("bytes", "copies", "doorbells", "polled", "posted", "transfers")
