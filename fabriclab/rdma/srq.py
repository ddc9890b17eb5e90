"""Receive queues: buffers that wait for messages, of one queue pair or shared by many."""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fabriclab.rdma import _arena
from fabriclab.rdma.device import PD, Closes, Counters
from fabriclab.rdma.errors import PyverbsRDMAError
from fabriclab.rdma.wr import RecvWR, SendWR

Request = TypeVar("Request", SendWR, RecvWR)


class ReceiveQueue:
    """A ring in the segment of its owner, who adds buffers; whoever sends uses them up."""

    def __init__(self, arena: _arena.Arena, max_wr: int, max_sge: int) -> None:
        if max_wr < 1 or max_sge < 1:
            msg = f"a receive queue has room for 1 at least, got max_wr={max_wr}, max_sge={max_sge}"
            raise PyverbsRDMAError(msg, errno.EINVAL)
        self.row = arena.queue(max_wr, 8 * (2 + 3 * max_sge), max_sge)
        self._words, self._size, self._sges = arena.words, max_wr, max_sge

    def post(self, wr: RecvWR) -> None:
        """Add a buffer; the device looks at its keys when a message comes."""
        words, row, tail = self._words, self.row, self._words[self.row + _arena.TAIL]
        if len(wr.sg) > self._sges:
            raise PyverbsRDMAError(f"the receive queue takes {self._sges} SGEs, got {len(wr.sg)}", errno.EINVAL)
        if tail - words[row + _arena.HEAD] >= self._size:
            raise PyverbsRDMAError(f"the receive queue has its {self._size} buffers (max_recv_wr)", errno.ENOMEM)
        at = row + _arena.QUEUE_ROOM // 8 + tail % self._size * (2 + 3 * self._sges)
        fields = (wr.wr_id, len(wr.sg), *(n for piece in wr.sg for n in (piece.addr, piece.length, piece.lkey)))
        for i, value in enumerate(fields, at):
            words[i] = value
        words[row + _arena.TAIL] = tail + 1


def ring(counters: Counters, wr: Request | None, bad_wr: Request | None, post: Callable[[Request], None]) -> None:
    """Post a chain with one doorbell; of a request that is refused, ``bad_wr`` becomes a copy."""
    counters.doorbells += 1
    while wr is not None:
        try:
            post(wr)
        except PyverbsRDMAError:
            for name in type(wr).__slots__ if bad_wr is not None else ():
                setattr(bad_wr, name, getattr(wr, name))
            raise
        counters.posted += 1
        wr = wr.next_wr


@dataclass(slots=True)
class SrqAttr:
    """Room of a shared receive queue."""

    max_wr: int = 100
    max_sge: int = 1
    srq_limit: int = 0


@dataclass(slots=True)
class SrqInitAttr:
    """What a shared receive queue is made from."""

    attr: SrqAttr = field(default_factory=SrqAttr)
    srq_context: Any = None


class SRQ(Closes):
    """A receive queue that many queue pairs share."""

    def __init__(self, creator: PD, attr: SrqInitAttr) -> None:
        super().__init__(creator)
        self.context = creator.context
        self.queue = ReceiveQueue(self.context.arena, attr.attr.max_wr, attr.attr.max_sge)

    def post_recv(self, wr: RecvWR, bad_wr: RecvWR | None = None) -> None:
        """Add buffers; see `QP.post_recv`."""
        ring(self.context.counters, wr, bad_wr, self.queue.post)
