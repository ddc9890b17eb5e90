"""Completion queues, and the channel through which one sleeps until something completes."""

from __future__ import annotations

import collections
import errno
import functools
import os
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from fabriclab.rdma import _arena
from fabriclab.rdma import enums as e
from fabriclab.rdma.device import Closes, Context
from fabriclab.rdma.errors import PyverbsRDMAError

if TYPE_CHECKING:
    from fabriclab.rdma.qp import QP


class WC(NamedTuple):
    """A work completion. After an error only ``wr_id``, ``status``, ``qp_num`` and ``vendor_err`` mean something."""

    wr_id: int = 0
    status: int = 0
    opcode: int = 0
    byte_len: int = 0
    qp_num: int = 0
    src_qp: int = 0
    imm_data: int = 0
    wc_flags: int = 0
    vendor_err: int = 0

    def __repr__(self) -> str:
        """Return it as a person would type it, with the names of status and opcode."""
        status, opcode = e.ibv_wc_status(self.status).name, e.ibv_wc_opcode(self.opcode).name
        return f"WC(wr_id={self.wr_id}, {status}, {opcode}, byte_len={self.byte_len}, qp_num={self.qp_num})"


class CompChannel(Closes):
    """Where armed completion queues put their events."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._read, self.write = os.pipe()

    def get_cq_event(self, expected_cq: CQ) -> None:
        """Sleep until a completion queue of this channel has an event; another queue's is an error."""
        number = int.from_bytes(os.read(self._read, 8), "little")
        if number != expected_cq.number:
            raise PyverbsRDMAError(f"Received event on an unexpected CQ: number {number}, not {expected_cq.number}")

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

    def __init__(self, context: Context, cqe: int, cq_context: Any = None, channel: CompChannel | None = None,
                 comp_vector: int = 0) -> None:  # fmt: skip
        super().__init__(context, *([channel] if channel else []))
        if cqe < 1:
            raise PyverbsRDMAError(f"a completion queue has room for 1 at least, got {cqe}", errno.EINVAL)
        self.context, self.cqe, self.comp_channel, self.number = context, cqe, channel, context.number()
        self.local, self._polls = collections.deque[tuple[WC, "QP", int]](), threading.Lock()
        self._arena, self._words = arena, words = context.arena, context.arena.words
        self.row = row = arena.queue(cqe, _arena.CQE_ROOM)
        self.state = functools.partial(_arena.QUEUE.unpack_from, arena.map, 8 * row)
        words[row + _arena.NUMBER], words[row + _arena.PIPE] = self.number, channel.write if channel else 0

    def add(self, wc: WC, qp: QP, index: int, solicited: bool) -> bool:
        """Take a completion of this process; False if the queue is broken, or breaks now because it is full."""
        head, tail, armed, broken = self.state()
        if broken or len(self.local) + tail - head >= self.cqe:
            self._words[self.row + _arena.OVERRUN] = 1
            return False
        self.local.append((wc, qp, index))
        if armed:
            self._arena.notify(self.row, solicited or wc.status != 0)
        return True

    def forget(self, qp: QP) -> None:
        """Drop what a queue pair completed here: it begins anew."""
        kept = [told for told in self.local if told[1] is not qp]
        self.local.clear()
        self.local.extend(kept)

    def poll(self, num_entries: int = 1) -> tuple[int, list[WC]]:
        """Return how many completions there were, ``num_entries`` at most, and these.

        Raises
        ------
        PyverbsRDMAError
            If completions were lost because the queue was full; the queue is of no use any more.
        """
        found: list[WC] = []
        while len(found) < num_entries and self.local:
            try:
                wc, qp, index = self.local.popleft()
            except IndexError:  # another thread was quicker
                break
            qp.retired = index
            found.append(wc)
        if len(found) < num_entries:
            self._poll_shared(found, num_entries)
        self.context.counters.polled += len(found)
        return len(found), found

    def _poll_shared(self, found: list[WC], num_entries: int) -> None:
        """Add what peers completed."""
        with self._polls:
            head, tail, _, broken = self.state()
            for n in range(head, min(tail, head + num_entries - len(found))):
                place = 8 * self.row + _arena.QUEUE_ROOM + n % self.cqe * _arena.CQE_ROOM
                found.append(WC(*_arena.CQE.unpack_from(self._arena.map, place)))
                self._words[self.row + _arena.HEAD] = n + 1
        if not found and broken:
            raise PyverbsRDMAError(f"the completion queue was full ({self.cqe}) when more completed: poll more often, "
                                   "or make it larger", errno.EOVERFLOW)  # fmt: skip

    def req_notify(self, solicited_only: bool = False) -> None:
        """Arm the queue: its next completion (solicited or failed, if so asked) puts one event into the channel."""
        if not self.comp_channel:
            raise PyverbsRDMAError("this completion queue was made without a channel", errno.EINVAL)
        self._words[self.row + _arena.ARMED] = 2 if solicited_only else 1

    def ack_events(self, num_events: int) -> None:
        """Do nothing: a closed queue of this device waits for nobody."""
