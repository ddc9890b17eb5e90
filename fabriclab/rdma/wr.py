"""Work requests: what is to be moved, from where, to where."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fabriclab.rdma import enums as e
from fabriclab.rdma.errors import PyverbsUserError

if TYPE_CHECKING:
    from fabriclab.rdma.device import AH


class SGE:
    """A piece of registered memory: address, length [B], and the key of its region."""

    __slots__ = ("addr", "length", "lkey")

    def __init__(self, addr: int, length: int, lkey: int) -> None:
        if not (addr >= 0 and 0 <= length < 2**32):
            raise PyverbsUserError(f"an SGE has an address and 0 to 2**32 - 1 bytes, got addr={addr}, length={length}")
        self.addr, self.length, self.lkey = addr, length, lkey

    def __repr__(self) -> str:
        """Return it as a person would type it."""
        return f"SGE(addr={self.addr:#x}, length={self.length}, lkey={self.lkey:#x})"


class RecvWR:
    """A buffer for one message to come; more of them can hang on ``next_wr``."""

    __slots__ = ("next_wr", "sg", "wr_id")

    def __init__(self, wr_id: int = 0, num_sge: int = 0, sg: Sequence[SGE] | None = None,
                 next_wr: RecvWR | None = None) -> None:  # fmt: skip
        if not 0 <= wr_id < 2**64:
            raise PyverbsUserError(f"wr_id has 64 bits, got {wr_id}")
        self.wr_id, self.sg, self.next_wr = wr_id, _pieces(sg, num_sge), next_wr

    @property
    def num_sge(self) -> int:
        """Number of pieces."""
        return len(self.sg)


class SendWR:
    """One operation of the sender's side; more of them on ``next_wr`` go with the same doorbell."""

    __slots__ = (
        "ah", "compare_add", "imm_data", "next_wr", "opcode", "qkey", "qpn", "remote_addr", "rkey", "send_flags", "sg",
        "swap", "wr_id",
    )  # fmt: skip

    def __init__(self, wr_id: int = 0, opcode: int = e.ibv_wr_opcode.IBV_WR_SEND, num_sge: int = 0, imm_data: int = 0,
                 sg: Sequence[SGE] | None = None, send_flags: int = e.ibv_send_flags.IBV_SEND_SIGNALED,
                 next_wr: SendWR | None = None) -> None:  # fmt: skip
        if not (0 <= wr_id < 2**64 and 0 <= imm_data < 2**32):
            raise PyverbsUserError(f"wr_id has 64 bits and imm_data 32, got {wr_id} and {imm_data}")
        self.wr_id, self.opcode, self.imm_data, self.sg = wr_id, opcode, imm_data, _pieces(sg, num_sge)
        self.send_flags, self.next_wr = send_flags, next_wr
        self.ah: AH | None = None
        self.rkey = self.remote_addr = self.compare_add = self.swap = self.qpn = self.qkey = 0

    @property
    def num_sge(self) -> int:
        """Number of pieces."""
        return len(self.sg)

    def set_wr_rdma(self, rkey: int, addr: int) -> None:
        """Name the remote memory of a WRITE or READ."""
        self.rkey, self.remote_addr = rkey, addr

    def set_wr_atomic(self, rkey: int, addr: int, compare_add: int, swap: int) -> None:
        """Name the remote 8 bytes of an atomic, what to compare with or to add, and what to put there."""
        self.rkey, self.remote_addr, self.compare_add, self.swap = rkey, addr, compare_add % 2**64, swap % 2**64

    def set_wr_ud(self, ah: AH, rqpn: int, rqkey: int) -> None:
        """Name the receiver of a datagram."""
        self.ah, self.qpn, self.qkey = ah, rqpn, rqkey

    def as_posted(self) -> SendWR:
        """Return a copy that later changes of this object or its pieces do not reach."""
        mine = copy.copy(self)
        mine.sg, mine.next_wr = [copy.copy(piece) for piece in self.sg], None
        return mine


def _pieces(sg: Sequence[SGE] | None, num_sge: int) -> Sequence[SGE]:
    if not sg or not num_sge:
        raise PyverbsUserError(f"A WR needs at least one SGE, got sg={sg!r}, num_sge={num_sge}")
    if num_sge > len(sg):
        raise PyverbsUserError(f"num_sge says {num_sge}, and sg has {len(sg)}")
    return sg[:num_sge]
