"""Queues of completions and of receive buffers, and the channel on which a process sleeps until a completion comes."""

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
    """The channel into which armed completion queues put their events."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._read, self.write = os.pipe()

    def get_cq_event(self, expected_cq: "CQ") -> None:
        """Sleep until a completion queue of this channel has an event; an event of another queue raises an error."""
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

    Completions made by this process wait in a list, those made by peers in shared memory.

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
        makers: list[Closes] = [context]
        if channel:
            makers.append(channel)
        super().__init__(*makers)
        self.context = context
        self.cqe = cqe
        self.comp_channel = channel
        self.number = context.number()
        self.local = collections.deque[WC]()  # completions of this process
        self._polls = threading.Lock()
        self._arena = context.arena
        self._words = context.arena.words
        self.row = self._arena.queue(cqe)
        # Returns HEAD, TAIL, ARMED and OVERRUN.
        self.state = functools.partial(_arena.QUEUE.unpack_from, self._arena.map, 8 * self.row)
        # TAIL, if no completion of a peer is waiting; -1 if a completion may have to do more than take a place.
        self.calm = 0 if channel is None else -1
        self._words[self.row + _arena.NUMBER] = self.number
        self._words[self.row + _arena.PIPE] = channel.write if channel else 0

    def add(self, wc: WC, solicited: bool) -> bool:
        """Add a completion of this process; return False if the queue is broken, or breaks now because it is full."""
        head, tail, armed, broken = self.state()
        if broken or len(self.local) + tail - head >= self.cqe:
            self._words[self.row + _arena.OVERRUN] = 1
            self.calm = -1
            return False
        self.local.append(wc)
        if armed:
            self._arena.notify(self.row, solicited or wc.status != 0)
        return True

    def forget(self, qp: Any) -> None:
        """Drop the completions of a queue pair that starts anew."""
        self.local = collections.deque(wc for wc in self.local if wc.qp is not qp)

    def poll(self, num_entries: int = 1) -> tuple[int, list[WC]]:
        """Return the number of completions found, at most ``num_entries``, and the completions.

        Raises
        ------
        PyverbsRDMAError
            If completions were lost because the queue was full; the queue cannot be used any more.
        """
        found: list[WC] = []
        try:
            while len(found) < num_entries:
                wc = self.local.popleft()
                found.append(wc)
                if (
                    wc.index > wc.qp.retired
                ):  # another thread may have polled a later one in the meantime
                    wc.qp.retired = wc.index
        except IndexError:  # no more completions of this process
            self._poll_shared(found, num_entries)
        count = len(found)
        self.context.counters.polled += count
        return count, found

    def _poll_shared(self, found: list[WC], num_entries: int) -> None:
        """Add the completions made by peers to ``found``."""
        with self._polls:
            head, tail, _, broken = self.state()
            tail = min(tail, head + num_entries - len(found))
            entries = 8 * self.row + _arena.QUEUE_ROOM
            for number in range(head, tail):
                place = entries + number % self.cqe * _arena.CQE_ROOM
                values = _arena.CQE.unpack_from(self._arena.map, place)
                fields = dict(zip(_arena.CQE_FIELDS, values, strict=True))
                found.append(WC(**fields))
            self._words[self.row + _arena.HEAD] = tail
            self.calm = -1 if broken or self.comp_channel else tail
        if not found and broken:
            raise PyverbsRDMAError(
                f"the completion queue was full ({self.cqe}) when more completed: poll more often, "
                "or make it larger",
                errno.EOVERFLOW,
            )
        if not found and self.context.adversary != "0":
            time.sleep(1e-5)  # lets the threads run that play a NIC

    def req_notify(self, solicited_only: bool = False) -> None:
        """Arm the queue, so that its next completion puts one event into the channel.

        With ``solicited_only`` the next solicited or failed one does.
        """
        if not self.comp_channel:
            raise PyverbsRDMAError("this completion queue was made without a channel", errno.EINVAL)
        self._words[self.row + _arena.ARMED] = 2 if solicited_only else 1

    def ack_events(self, num_events: int) -> None:
        """Do nothing: this device does not wait for acknowledgements when a queue is closed."""


def ring(lock: Any, counters: Counters, wr: Any, bad_wr: Any, post: Callable[[Any], None]) -> None:
    """Post a chain of requests with one doorbell; if one is refused, ``bad_wr`` becomes a copy of it."""
    with lock:
        counters.slow_doorbells += 1
        while wr is not None:
            try:
                post(wr)
            except PyverbsRDMAError:
                if bad_wr is not None:
                    for name in (*RecvWR.__slots__, *type(wr).__slots__):
                        setattr(bad_wr, name, getattr(wr, name))
                raise
            counters.slow_posted += 1
            wr = wr.next_wr


class SRQ(Closes):
    """A receive queue shared by many queue pairs, made from an SrqInitAttr."""

    def __init__(self, creator: PD, attr: Any) -> None:
        super().__init__(creator)
        self.context = creator.context
        self._lock = threading.Lock()
        self.row = self.context.arena.queue(attr.attr.max_wr, attr.attr.max_sge)

    def post_recv(self, wr: RecvWR, bad_wr: RecvWR | None = None) -> None:
        """Add buffers for future messages; see `QP.post_recv`."""
        post = functools.partial(self.context.arena.post, self.row)
        ring(self._lock, self.context.counters, wr, bad_wr, post)
