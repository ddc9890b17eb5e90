"""Receive queues: buffers that wait for messages, of one queue pair or shared by many."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar

from fabriclab.rdma import _arena
from fabriclab.rdma.device import PD, Closes, Counters
from fabriclab.rdma.errors import PyverbsRDMAError
from fabriclab.rdma.wr import RecvWR, SendWR

Request = TypeVar("Request", SendWR, RecvWR)


class ReceiveQueue:
    """A ring in the segment of its owner: he adds buffers, and whoever sends uses them up."""

    def __init__(self, arena: _arena.Arena, max_wr: int, max_sge: int) -> None:
        if max_wr < 1 or max_sge < 1:
            raise PyverbsRDMAError(
                f"a queue has room for 1 at least, got max_wr={max_wr}, max_sge={max_sge}", errno.EINVAL
            )
        self._words, self._size, self._sges = arena.words, max_wr, max_sge
        self.row = arena.alloc(_arena.QUEUE_ROOM + max_wr * 8 * (2 + 3 * max_sge)) // 8
        self._words[self.row + _arena.SIZE], self._words[self.row + _arena.SGES] = max_wr, max_sge

    def post(self, wr: RecvWR) -> None:
        """Add a buffer; the device looks at its keys when a message comes."""
        words, row, tail = self._words, self.row, self._words[self.row + _arena.TAIL]
        if len(wr.sg) > self._sges:
            raise PyverbsRDMAError(f"the receive queue takes {self._sges} SGEs, got {len(wr.sg)}", errno.EINVAL)
        if tail - words[row + _arena.HEAD] >= self._size:
            raise PyverbsRDMAError(f"the receive queue has its {self._size} buffers (max_recv_wr)", errno.ENOMEM)
        at = row + _arena.QUEUE_ROOM // 8 + tail % self._size * (2 + 3 * self._sges)
        words[at], words[at + 1] = wr.wr_id, len(wr.sg)
        for i, piece in enumerate(wr.sg):
            words[at + 2 + 3 * i], words[at + 3 + 3 * i], words[at + 4 + 3 * i] = piece.addr, piece.length, piece.lkey
        words[row + _arena.TAIL] = tail + 1

    def clear(self) -> None:
        """Forget all buffers."""
        self._words[self.row + _arena.HEAD] = self._words[self.row + _arena.TAIL]


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


class SrqAttr:
    """Room of a shared receive queue."""

    __slots__ = ("max_sge", "max_wr", "srq_limit")

    def __init__(self, max_wr: int = 100, max_sge: int = 1, srq_limit: int = 0) -> None:
        self.max_wr, self.max_sge, self.srq_limit = max_wr, max_sge, srq_limit


class SrqInitAttr:
    """What a shared receive queue is made from."""

    __slots__ = ("attr", "srq_context")

    def __init__(self, attr: SrqAttr | None = None, srq_context: object = None) -> None:
        self.attr, self.srq_context = attr or SrqAttr(), srq_context


class SRQ(Closes):
    """A receive queue that many queue pairs share."""

    def __init__(self, creator: PD, attr: SrqInitAttr) -> None:
        super().__init__(creator)
        self.context = creator.context
        self.queue = ReceiveQueue(self.context.arena, attr.attr.max_wr, attr.attr.max_sge)

    def post_recv(self, wr: RecvWR, bad_wr: RecvWR | None = None) -> None:
        """Add buffers; see `QP.post_recv`."""
        ring(self.context.counters, wr, bad_wr, self.queue.post)
