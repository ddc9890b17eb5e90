"""Queue pairs. The poster's processor does what a NIC would: it checks every key and moves the bytes itself.

An operation is done while it is posted, unless the receiver is not ready or does not answer; then it waits, and all
that is posted after it, and a thread of this process tries again. The times of a real NIC are no part of this.
"""

import errno
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from fabriclab.rdma import _arena
from fabriclab.rdma import enums as e
from fabriclab.rdma._arena import CHANGES, HEAD, STATE, TAIL, Spans, move
from fabriclab.rdma._wire import (
    FLUSH,
    GRH,
    INLINE,
    LOST,
    READ,
    RETRY_EXC,
    RNR,
    RNR_EXC,
    SEND,
    SEND_IMM,
    SIGNALED,
    SOLICITED,
    TOLD,
    Wire,
)
from fabriclab.rdma.cq import WC
from fabriclab.rdma.device import PD
from fabriclab.rdma.errors import PyverbsRDMAError, PyverbsUserError
from fabriclab.rdma.qp_attr import ERR, INIT, RC, RESET, RTR, RTS, SQE, UC, UD, QPAttr, QPInitAttr, check_step, needs
from fabriclab.rdma.srq import ReceiveQueue, ring
from fabriclab.rdma.wr import RecvWR, SendWR

_OPS: dict[int, Sequence[int]] = {RC: range(7), UC: range(4), UD: (SEND, SEND_IMM)}
_REFUSED = (
    "QP {qp.qp_num} is in {qp.qp_state!r}; it sends in IBV_QPS_RTS",
    "a QP of type {qp.qp_type!r} has no operation {wr.opcode!r}",
    "{wr.num_sge} SGEs, and max_send_sge is {cap.max_send_sge}",
    "{total} B inline with opcode {wr.opcode}: a SEND or WRITE takes max_inline_data={cap.max_inline_data}",
    "the send queue is full (max_send_wr={cap.max_send_wr}): poll a completion; unsignaled requests give their places "
    "back with the next signaled one",
)


class QP(Wire):
    """A queue pair.

    Parameters
    ----------
    creator : PD
    init_attr : QPInitAttr
    qp_attr : QPAttr, optional
        With it the pair goes on as far as it can: RC and UC to INIT, UD to RTS.

    Raises
    ------
    PyverbsUserError
        If a completion queue is missing or of another context.
    PyverbsRDMAError
        If the device refuses the attributes.
    """

    def __init__(self, creator: PD, init_attr: QPInitAttr, qp_attr: QPAttr | None = None) -> None:
        scq, rcq, srq, cap, ctx = init_attr.send_cq, init_attr.recv_cq, init_attr.srq, init_attr.cap, creator.context
        if scq is None or rcq is None or {ctx} != {scq.context, rcq.context, (srq or scq).context}:
            raise PyverbsUserError("a queue pair needs scq and rcq, and all its queues in the context of its PD")
        if init_attr.qp_type not in _OPS or cap.max_send_wr < 1 or not 1 <= cap.max_send_sge <= 32:
            msg = f"qp_type must be RC, UC or UD, max_send_wr >= 1, max_send_sge 1 to 32; got {init_attr.qp_type}, "
            raise PyverbsRDMAError(f"{msg}{cap.max_send_wr}, {cap.max_send_sge}", errno.EINVAL)
        super().__init__(creator, scq, rcq, *([srq] if srq else []))
        self.qp_num, self.qp_type, self.pd, self._init = ctx.number(), init_attr.qp_type, creator, init_attr
        self._own, self._words, self._counters, self._cap = ctx.arena, ctx.arena.words, ctx.counters, cap
        self._all, self._ops, self._scq, self._scq_state = init_attr.sq_sig_all, _OPS[self.qp_type], scq, scq.state
        self.posted = self.retired = 0  # send requests so far, and how many of them gave their place back
        # Request, bytes, its number, where its inline data is kept; and the requests that `_again` knows.
        self._waiting: deque[tuple[SendWR, int, int, Spans | None]] = deque()
        self._known: dict[tuple[int, ...], tuple[Any, ...]] = {}
        self._peer, self._peer_words, self._attr = self._own, self._words, QPAttr()
        self._lock, self._tries, self._row = threading.Lock(), 0, _arena.qp_row(self.qp_num)
        self._recv = srq.queue if srq else ReceiveQueue(self._own, cap.max_recv_wr, cap.max_recv_sge)
        fields = 0, creator.number, 0, self._recv.row, rcq.row, int(srq is not None), 0, 0, 0, 0
        _arena.QP_ROW.pack_into(self._own.map, 8 * self._row, *fields)
        self._header = self._own.alloc(GRH) if self.qp_type == UD else 0
        if qp_attr is not None:
            (self.to_rts if self.qp_type == UD else self.to_init)(qp_attr)

    @property
    def qp_state(self) -> int:
        """Where the pair stands; a peer's request that failed here may have put it into ERR."""
        return e.ibv_qp_state(self._words[self._row + STATE])

    def to_init(self, qp_attr: QPAttr) -> None:
        """Go from RESET to INIT."""
        self._step(qp_attr, INIT)

    def to_rtr(self, qp_attr: QPAttr) -> None:
        """Go to RTR, by way of INIT if need be."""
        if self.qp_state != INIT:
            self.to_init(qp_attr)
        self._step(qp_attr, RTR)

    def to_rts(self, qp_attr: QPAttr) -> None:
        """Go to RTS, by way of INIT and RTR if need be."""
        if self.qp_state != RTR:
            self.to_rtr(qp_attr)
        self._step(qp_attr, RTS)

    def _step(self, qp_attr: QPAttr, state: int) -> None:
        qp_attr.qp_state = state
        self.modify(qp_attr, needs(state, self.qp_type) | e.IBV_QP_STATE)

    def modify(self, qp_attr: QPAttr, mask: int) -> None:
        """Set what ``mask`` names; `PyverbsRDMAError` tells what a step lacks, or that there is no such step."""
        with self._lock:
            new = check_step(self.qp_type, self.qp_state, qp_attr, mask)
            peer = _arena.attach(qp_attr.ah_attr.gr.dgid.gid) if mask & e.IBV_QP_AV else self._peer
            self._attr.take(qp_attr, mask)
            attr, words, mine = self._attr, self._words, self._row
            self._peer, self._peer_words, self._peer_row = peer, peer.words, _arena.qp_row(attr.dest_qp_num)
            self._expected = self.qp_type, self.qp_num, self._own.token, attr.sq_psn
            values: tuple[int, ...]
            values = attr.qp_access_flags, attr.dest_qp_num, peer.token, attr.rq_psn, attr.qkey, attr.min_rnr_timer
            values = (*values, attr.max_dest_rd_atomic, self.qp_type, new)
            for field, value in zip(_arena.QP_FIELDS, values, strict=True):
                words[mine + field] = value
            self._own.changed()
            if new == ERR:
                self._fail()
            elif new == RESET:
                self._waiting.clear()
                self._scq.forget(self)
                self.retired, self._attr = self.posted, QPAttr()
                if not self._init.srq:
                    words[self._recv.row + HEAD] = words[self._recv.row + TAIL]

    def query(self, mask: int) -> tuple[QPAttr, QPInitAttr]:
        """Return the attributes that ``mask`` names, the state, and what the pair was made from."""
        found = QPAttr(self.qp_state, self.qp_state)
        found.take(self._attr, mask & ~(0 if self._attr.dest_qp_num else e.IBV_QP_DEST_QPN))
        return found, self._init

    def post_recv(self, wr: RecvWR, bad_wr: RecvWR | None = None) -> None:
        """Add buffers for messages to come; `PyverbsRDMAError` if there is no room or the state is RESET."""
        ring(self._counters, wr, bad_wr, self._post_recv)

    def _post_recv(self, wr: RecvWR) -> None:
        with self._lock:
            if self.qp_state == RESET or self._init.srq:
                where = "its SRQ" if self._init.srq else "state INIT or later"
                raise PyverbsRDMAError(f"QP {self.qp_num} receives in {where} only", errno.EINVAL)
            self._recv.post(wr)
            if self.qp_state == ERR:
                self._own.fail(self.qp_num)

    def post_send(self, wr: SendWR, bad_wr: SendWR | None = None) -> None:
        """Do what the requests of a chain say, with one doorbell.

        Raises
        ------
        PyverbsRDMAError
            For a request that cannot be posted: wrong state or opcode, too many pieces, too much inline data, or a full
            send queue. What stands before it in the chain is posted. All other errors are completions.
        """
        if wr.next_wr is not None or len(wr.sg) > 1 or not self._again(wr):
            ring(self._counters, wr, bad_wr, self._post_send)

    def _again(self, wr: SendWR) -> bool:
        """Do a WRITE or READ whose checks have passed before; False if anything has changed or is unusual.

        As in the translation cache of a NIC: what was found stands as long as nobody changes a table that was read.
        """
        piece, local = wr.sg[0], self._scq.local
        key = wr.opcode, wr.wr_id, wr.send_flags, wr.rkey, wr.remote_addr, piece.addr, piece.length, piece.lkey
        if (known := self._known.get(key)) is None:
            return False
        mine, theirs, target, to, source, at, told = known
        head, tail, armed, broken = self._scq_state()
        if self._words[CHANGES] != mine or self._peer_words[CHANGES] != theirs or armed or broken or self._waiting:
            return False
        if self.posted - self.retired >= self._cap.max_send_wr or len(local) + tail - head >= self._scq.cqe:
            return False
        with self._lock:  # also a memory fence: a later WRITE is seen later
            target[to] = source[at]
            self.posted = index = self.posted + 1
        if told:
            local.append((told, self, index))
        c = self._counters
        c.doorbells, c.posted, c.transfers, c.bytes = (
            c.doorbells + 1,
            c.posted + 1,
            c.transfers + 1,
            c.bytes + piece.length,
        )
        return True

    def _post_send(self, wr: SendWR) -> None:
        with self._lock:
            state, op, cap, total = self._words[self._row], wr.opcode, self._cap, sum([p.length for p in wr.sg])
            too_long = wr.send_flags & INLINE and (total > cap.max_inline_data or op >= READ)
            full = self.posted - self.retired >= cap.max_send_wr
            wrong = state < RTS, op not in self._ops, len(wr.sg) > cap.max_send_sge, too_long, full
            if any(wrong):
                msg = _REFUSED[[bool(w) for w in wrong].index(True)].format(qp=self, wr=wr, cap=cap, total=total)
                raise PyverbsRDMAError(msg, errno.ENOMEM if full else errno.EINVAL)
            self.posted = index = self.posted + 1
            if not self._waiting:
                status = FLUSH if state != RTS else self._execute(wr, total)
                if status >= 0:
                    return self._finish(wr, total, index, status)
                threading.Thread(target=self._retry, daemon=True).start()
            kept = None
            if wr.send_flags & INLINE and (spans := self._spans(wr, 0)):  # its buffer may be used again at once
                kept = [(self._own.alloc(total), total)]
                move(self._own, spans, self._own, kept)
            self._waiting.append((wr.as_posted(), total, index, kept))

    def _finish(self, wr: SendWR, total: int, index: int, status: int) -> None:
        """Tell the completion queue, where it is to be told, and stop the pair after an error."""
        fits = True
        if status or self._all or wr.send_flags & SIGNALED:
            told = WC(wr.wr_id, status, TOLD[wr.opcode], total, self.qp_num)
            fits = self._scq.add(told, self, index, bool(wr.send_flags & SOLICITED))
        if (status and status != FLUSH) or (not fits and self._words[self._row] != ERR):
            self._words[self._row + STATE] = ERR if self.qp_type == RC or not fits else SQE
            self._own.changed()
            self._fail()

    def _fail(self) -> None:
        """Flush what waits here, in the state of error; in SQE receives go on."""
        if self._words[self._row] == ERR:
            self._own.fail(self.qp_num)
        while self._waiting:
            wr, total, index, _ = self._waiting.popleft()
            self._finish(wr, total, index, FLUSH)

    def _retry(self) -> None:
        """Try what waits again and again, as a NIC does, until nothing waits."""
        delay = 0.0
        while delay >= 0:
            time.sleep(delay)
            with self._lock:
                delay = self._progress()

    def _progress(self) -> float:
        """Do what waits, in order; return the time to the next try [s], or -1 if nothing waits."""
        while self._waiting:
            wr, total, index, kept = self._waiting[0]
            status = FLUSH if self._words[self._row] != RTS else self._execute(wr, total, kept)
            if status < 0:
                delay, limit = self._patience(status)
                self._tries += 1
                if self._tries <= limit:
                    return delay
                status = RNR_EXC if status == RNR else RETRY_EXC
            self._tries = 0
            self._waiting.popleft()
            self._finish(wr, total, index, status)
        return -1

    def _patience(self, status: int) -> tuple[float, float]:
        """Return how long to wait before the next try [s], and how many tries there are after the first one.

        References
        ----------
        .. [1] Linux, drivers/infiniband/sw/rxe: rnrnak_usec (RNR timers); ibv_modify_qp(3): 4.096 us * 2**timeout.
        """
        attr = self._attr
        if status == LOST:
            return (4.096e-6 * 2**attr.timeout, attr.retry_cnt) if attr.timeout else (1e-3, float("inf"))
        code = self._peer_words[self._peer_row + _arena.RNR_TIMER] or 32
        steps = 1 if code == 1 else 2 ** (code // 2) * (1.5 if code % 2 else 1)
        return 1e-5 * steps, float("inf") if attr.rnr_retry == 7 else attr.rnr_retry

    def _close(self) -> None:
        self._waiting.clear()
        self._words[self._row + STATE] = self._words[self._row + _arena.DEST] = 0
        self._own.changed()

    def __repr__(self) -> str:
        """Return it as a person would type it."""
        return f"QP(qp_num={self.qp_num}, {e.ibv_qp_type(self.qp_type).name}, {e.ibv_qp_state(self.qp_state).name})"
