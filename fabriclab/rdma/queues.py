"""Queues of completions and of buffers for messages, and the channel through which one sleeps until one completes."""

import collections
import errno
import functools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from fabriclab.rdma import _arena
from fabriclab.rdma.device import PD, Closes, Context
from fabriclab.rdma.records import WC, Counters, PyverbsRDMAError, RecvWR


class CompChannel(Closes):
    """Where armed completion queues put their events."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._read, self.write = os.pipe()

    def get_cq_event(self, expected_cq: "CQ") -> None:
        """Sleep until a completion queue of this channel has an event; another queue's is an error."""
        number = int.from_bytes(os.read(self._read, 8), "little")
        if number != expected_cq.number:
            raise PyverbsRDMAError(
                f"Received event on an unexpected CQ: number {number}, not {expected_cq.number}"
            )

    def _close(self) -> None:
        os.close(self._read)
        os.close(self.write)


class CQ(Closes):
    """A completion queue with room for ``cqe`` completions.

    What this process completes waits in a list of its own; what peers complete here, in shared memory.

    Raises
    ------
    PyverbsRDMAError
        If ``cqe`` is less than 1.
    """

    def __init__(
        self,
        context: Context,
        cqe: int,
        cq_context: Any = None,
        channel: CompChannel | None = None,
        comp_vector: int = 0,
    ) -> None:
        super().__init__(context, *([channel] if channel else []))
        self.context, self.cqe, self.comp_channel, self.number = (
            context,
            cqe,
            channel,
            context.number(),
        )
        self.local, self._polls = collections.deque[WC](), threading.Lock()
        self._arena, self._words = arena, words = context.arena, context.arena.words
        self.row = row = arena.queue(cqe)
        self.state = functools.partial(_arena.QUEUE.unpack_from, arena.map, 8 * row)
        # What peers have completed when nothing of it waits; -1 where a completion may do more than to take a place.
        self.calm = 0 if channel is None else -1
        words[row + _arena.NUMBER], words[row + _arena.PIPE] = (
            self.number,
            channel.write if channel else 0,
        )

    def add(self, wc: WC, solicited: bool) -> bool:
        """Take a completion of this process; False if the queue is broken, or breaks now because it is full."""
        head, tail, armed, broken = self.state()
        if broken or len(self.local) + tail - head >= self.cqe:
            self._words[self.row + _arena.OVERRUN], self.calm = 1, -1
            return False
        self.local.append(wc)
        if armed:
            self._arena.notify(self.row, solicited or wc.status != 0)
        return True

    def forget(self, qp: Any) -> None:
        """Drop what a queue pair completed here: it begins anew."""
        self.local = collections.deque(wc for wc in self.local if wc.qp is not qp)

    def poll(self, num_entries: int = 1) -> tuple[int, list[WC]]:
        """Return how many completions there were, ``num_entries`` at most, and these.

        Raises
        ------
        PyverbsRDMAError
            If completions were lost because the queue was full; the queue is of no use any more.
        """
        found: list[WC] = []
        try:
            while len(found) < num_entries:
                found.append(wc := self.local.popleft())
                wc.qp.retired = wc.index
        except IndexError:  # no more of this process
            self._poll_shared(found, num_entries)
        self.context.counters.polled += (count := len(found))
        return count, found

    def _poll_shared(self, found: list[WC], num_entries: int) -> None:
        """Add what peers completed."""
        with self._polls:
            head, tail, _, broken = self.state()
            tail = min(tail, head + num_entries - len(found))
            for n in range(head, tail):
                place = 8 * self.row + _arena.QUEUE_ROOM + n % self.cqe * _arena.CQE_ROOM
                fields = _arena.CQE.unpack_from(self._arena.map, place)
                found.append(WC(**dict(zip(_arena.CQE_FIELDS, fields, strict=True))))
            self._words[self.row + _arena.HEAD] = tail
            self.calm = -1 if broken or self.comp_channel else tail
        if not found and broken:
            raise PyverbsRDMAError(
                f"the completion queue was full ({self.cqe}) when more completed: poll more often, "
                "or make it larger",
                errno.EOVERFLOW,
            )
        if not found and self.context.adversary != "0":
            time.sleep(1e-5)  # threads that play a NIC get their turn

    def req_notify(self, solicited_only: bool = False) -> None:
        """Arm the queue: its next completion (solicited or failed, if so asked) puts one event into the channel."""
        if not self.comp_channel:
            raise PyverbsRDMAError("this completion queue was made without a channel", errno.EINVAL)
        self._words[self.row + _arena.ARMED] = 2 if solicited_only else 1

    def ack_events(self, num_events: int) -> None:
        """Do nothing: a closed queue of this device waits for nobody."""


def ring(lock: Any, counters: Counters, wr: Any, bad_wr: Any, post: Callable[[Any], None]) -> None:
    """Post a chain with one doorbell; of a request that is refused, ``bad_wr`` becomes a copy."""
    with lock:
        counters.doorbells += 1
        while wr is not None:
            try:
                post(wr)
            except PyverbsRDMAError:
                for name in () if bad_wr is None else (*RecvWR.__slots__, *type(wr).__slots__):
                    setattr(bad_wr, name, getattr(wr, name))
                raise
            counters.posted += 1
            wr = wr.next_wr


class SRQ(Closes):
    """A receive queue that many queue pairs share, made from an SrqInitAttr."""

    def __init__(self, creator: PD, attr: Any) -> None:
        super().__init__(creator)
        self.context, self._lock = creator.context, threading.Lock()
        self.row = self.context.arena.queue(attr.attr.max_wr, attr.attr.max_sge)

    def post_recv(self, wr: RecvWR, bad_wr: RecvWR | None = None) -> None:
        """Add buffers; see `QP.post_recv`."""
        post = functools.partial(self.context.arena.post, self.row)
        ring(self._lock, self.context.counters, wr, bad_wr, post)
