"""Queue pairs. The poster's processor does what a NIC would: it checks every key and moves the bytes itself.

An operation is done while it is posted, unless the receiver is not ready or does not answer; then it waits, and all
that is posted after it, and a thread of this process tries again. At its worst (`Context.adversary`) every operation
waits. The times of a real NIC are no part of this.
"""

import errno
import itertools
import platform
import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from fabriclab.rdma import _arena, records
from fabriclab.rdma import _wire as w
from fabriclab.rdma import enums as e
from fabriclab.rdma._arena import CHANGES, HEAD, STATE, TAIL
from fabriclab.rdma._wire import ERR, INIT, RESET, RTR, RTS, SQE
from fabriclab.rdma.device import PD, Closes
from fabriclab.rdma.queues import ring
from fabriclab.rdma.records import WC, PyverbsRDMAError, PyverbsUserError, QPAttr, RecvWR, SendWR

_OPS: dict[int, Sequence[int]] = {w.RC: range(7), w.UC: range(4), w.UD: (w.SEND, w.SEND_IMM)}
_UNUSUAL = w.FENCE | w.SOLICITED | w.INLINE
_REORDERS = platform.machine() not in ("x86_64", "AMD64")  # the processor reorders stores
_new = WC.__new__  # quicker than WC itself
_REFUSED = (
    "QP {qp.qp_num} is in {qp.qp_state!r}; it sends in IBV_QPS_RTS",
    "a QP of type {qp.qp_type!r} has no operation {wr.opcode!r}",
    "{wr.num_sge} SGEs, and max_send_sge is {cap.max_send_sge}",
    "{total} B inline with opcode {wr.opcode}: a SEND or WRITE takes max_inline_data={cap.max_inline_data}",
    "the send queue is full (max_send_wr={cap.max_send_wr}); a polled completion gives back its place and those before",
)


class QP(Closes):
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

    def __init__(self, creator: PD, init_attr: Any, qp_attr: Any = None) -> None:
        scq, rcq, srq, cap, ctx = (
            init_attr.scq,
            init_attr.rcq,
            init_attr.srq,
            init_attr.cap,
            creator.context,
        )
        if scq is None or rcq is None or {ctx} != {scq.context, rcq.context, (srq or scq).context}:
            raise PyverbsUserError(
                "a queue pair needs scq and rcq, and all its queues in the context of its PD"
            )
        if init_attr.qp_type not in _OPS or cap.max_send_wr < 1 or not 1 <= cap.max_send_sge <= 32:
            msg = f"qp_type must be RC, UC or UD, max_send_wr >= 1, max_send_sge 1 to 32; got {init_attr.qp_type}, "
            raise PyverbsRDMAError(f"{msg}{cap.max_send_wr}, {cap.max_send_sge}", errno.EINVAL)
        super().__init__(creator, scq, rcq, *([srq] if srq else []))
        self.qp_num, self.qp_type, self.pd, self._init = (
            ctx.number(),
            init_attr.qp_type,
            creator,
            init_attr,
        )
        self.own, self._words, self.counters = ctx.arena, ctx.arena.words, ctx.counters
        self._all, self.cap, self.scq = init_attr.sq_sig_all, cap, scq
        # Send requests so far, how many of them have ended, and how many gave their place back.
        self.posted = self.done = self.retired = 0
        self._waiting: deque[w.Posted] = deque()
        self._draws = (
            random.Random(f"{ctx.adversary}/{self.qp_num}") if ctx.adversary != "0" else None
        )
        # by operation and keys, see `_wire`
        self.known: dict[tuple[int, int, int], tuple[Any, ...]] = {}
        self.peer, self._peer_words, self.attr = self.own, self._words, QPAttr()
        # the latter while a thread does what waits
        self._lock, self._acts = (threading.Lock(), threading.Lock())
        self._tries, self._row = 0, _arena.qp_row(self.qp_num)
        self._rq = srq.row if srq else self.own.queue(cap.max_recv_wr, cap.max_recv_sge)
        fields = 0, creator.number, 0, self._rq, rcq.row, int(srq is not None), 0, 0, 0, 0
        _arena.QP_ROW.pack_into(self.own.map, 8 * self._row, *fields)
        self.header = self.own.alloc(w.GRH) if self.qp_type == w.UD else 0
        if qp_attr is not None:
            (self.to_rts if self.qp_type == w.UD else self.to_init)(qp_attr)

    @property
    def qp_state(self) -> Any:
        """Where the pair stands; a peer's request that failed here may have put it into ERR."""
        return e.ibv_qp_state(self._words[self._row + STATE])

    def to_init(self, qp_attr: Any) -> None:
        """Go from RESET to INIT."""
        self._step(qp_attr, INIT)

    def to_rtr(self, qp_attr: Any) -> None:
        """Go to RTR, by way of INIT if need be."""
        self._step(qp_attr, RTR)

    def to_rts(self, qp_attr: Any) -> None:
        """Go to RTS, by way of INIT and RTR if need be."""
        self._step(qp_attr, RTS)

    def _step(self, qp_attr: Any, state: int) -> None:
        if state > INIT and self.qp_state != state - 1:
            self._step(qp_attr, state - 1)
        qp_attr.qp_state = state
        self.modify(qp_attr, records.needs(state, self.qp_type) | e.IBV_QP_STATE)

    def modify(self, qp_attr: Any, mask: int) -> None:
        """Set what ``mask`` names; `PyverbsRDMAError` tells what a step lacks, or that there is no such step."""
        with self._acts, self._lock:
            new = records.check_step(self.qp_type, self.qp_state, qp_attr, mask)
            peer = _arena.attach(qp_attr.ah_attr.gr.dgid.gid) if mask & e.IBV_QP_AV else self.peer
            records.take(self.attr, qp_attr, mask)
            attr, words = self.attr, self._words
            self.peer, self._peer_words, self.peer_row = (
                peer,
                peer.words,
                _arena.qp_row(attr.dest_qp_num),
            )
            # What the peer's row must say: type, number, token and packet number of mine.
            self.expected = self.qp_type, self.qp_num, self.own.token, attr.sq_psn
            row = {
                _arena.ACCESS: attr.qp_access_flags,
                _arena.DEST: attr.dest_qp_num,
                _arena.DEST_TOKEN: peer.token,
                _arena.PSN: attr.rq_psn,
                _arena.QKEY: attr.qkey,
                _arena.RNR_TIMER: attr.min_rnr_timer,
                _arena.READS: attr.max_dest_rd_atomic,
                _arena.TYPE: self.qp_type,
                STATE: new,
            }
            for field, value in row.items():
                words[self._row + field] = value
            self.own.changed()
            if new == ERR:
                self._fail()
            elif new == RESET:
                self._waiting = deque()
                self.scq.forget(self)
                self.done = self.retired = self.posted
                self.attr = QPAttr()
                if not self._init.srq:
                    words[self._rq + HEAD] = words[self._rq + TAIL]

    def query(self, mask: int) -> tuple[Any, Any]:
        """Return the attributes that ``mask`` names, the state, and what the pair was made from."""
        found = QPAttr(self.qp_state, self.qp_state)
        records.take(found, self.attr, mask & ~(0 if self.attr.dest_qp_num else e.IBV_QP_DEST_QPN))
        return found, self._init

    def post_recv(self, wr: RecvWR, bad_wr: RecvWR | None = None) -> None:
        """Add buffers for messages to come; `PyverbsRDMAError` if there is no room or the state is RESET."""
        ring(self._lock, self.counters, wr, bad_wr, self._post_recv)

    def _post_recv(self, wr: RecvWR) -> None:
        if self.qp_state == RESET or self._init.srq:
            where = "its SRQ" if self._init.srq else "state INIT or later"
            raise PyverbsRDMAError(f"QP {self.qp_num} receives in {where} only", errno.EINVAL)
        self.own.post(self._rq, wr)
        if self.qp_state == ERR:
            self.own.fail(self.qp_num)

    def post_send(self, wr: SendWR, bad_wr: SendWR | None = None) -> None:
        """Do what the requests of a chain say, with one doorbell.

        Raises
        ------
        PyverbsRDMAError
            For a request that cannot be posted: wrong state or opcode, too many pieces, too much inline data, or a full
            send queue. What stands before it in the chain is posted. All other errors are completions.
        """
        piece = wr.sg[0]
        known = self.known.get((op := wr.opcode, piece.lkey, wr.rkey))
        if known is None or wr.send_flags & _UNUSUAL or wr.next_wr is not None or len(wr.sg) != 1:
            return ring(self._lock, self.counters, wr, bad_wr, self._post_send)
        # A WRITE or READ between regions that one before has used. As in the translation cache of a NIC, what was found
        # then stands as long as nobody changes a table that was read; bounds and queues are checked each time.
        mine, theirs, words, peer, start, end, first, last, near, far, scq, room, counters = known
        at, to, n, told = piece.addr, wr.remote_addr, piece.length, None
        if wr.send_flags or self._all:
            told = _new(WC)
            told.wr_id, told.opcode = wr.wr_id, w.TOLD[op]
            told.byte_len, told.qp_num, told.qp = n, self.qp_num, self
        changed = words[CHANGES] != mine or peer[CHANGES] != theirs
        outside = at < start or at + n > end or to < first or to + n > last
        full = len(scq.local) >= scq.cqe or words[scq.row + TAIL] != scq.calm
        if (
            changed
            or outside
            or full
            or self.posted != self.done
            or self.posted - self.retired >= room
        ):
            return ring(self._lock, self.counters, wr, bad_wr, self._post_send)
        at, to = at - near, to - far  # to `append`, Python lets no other thread have a turn
        source, target = self.own, self.peer
        if op:  # a READ goes the other way
            source, target, at, to = target, source, to, at
        if n == 8 and not (at | to) & 7:
            target.words[to >> 3] = source.words[at >> 3]
        else:
            target.bytes[to : to + n] = source.bytes[at : at + n]
        self.posted = self.done = self.posted + 1
        if told is not None:
            told.index = self.posted
            scq.local.append(told)
        if _REORDERS:
            with self._lock:  # a memory fence: a later WRITE is seen later
                pass
        counters.quick += 1
        counters.bytes += n

    def _post_send(self, wr: SendWR) -> None:
        state, op, cap, total = (
            self._words[self._row],
            wr.opcode,
            self.cap,
            sum([p.length for p in wr.sg]),
        )
        too_long = wr.send_flags & w.INLINE and (total > cap.max_inline_data or op >= w.READ)
        self.posted += 1  # which keeps other threads off the quick way
        full = self.posted - self.retired > cap.max_send_wr
        wrong = (
            state < RTS,
            op not in _OPS[self.qp_type],
            len(wr.sg) > cap.max_send_sge,
            too_long,
            full,
        )
        for msg in itertools.compress(_REFUSED, wrong):
            self.posted -= 1
            msg = msg.format(qp=self, wr=wr, cap=cap, total=total)
            raise PyverbsRDMAError(msg, errno.ENOMEM if full else errno.EINVAL)
        one = w.Posted(wr, total, self.posted)
        if not self._waiting and (state != RTS or not self._draws):
            status = w.FLUSH if state != RTS else w.execute(self, one)
            if status >= 0:
                return self._finish(one, status)
        if wr.send_flags & w.INLINE and (
            spans := w.local(self, wr, 0)
        ):  # its buffer may be used again at once
            one.kept = [(self.own.alloc(total), total)]
            one.land(self.own, spans, self.own, one.kept)
        one.wr = wr.as_posted()
        if self._draws:
            one.draws, one.eager = (
                random.Random(self._draws.getrandbits(64)),
                self._draws.random() < 0.5,
            )
        self._waiting.append(one)
        if len(self._waiting) == 1:
            threading.Thread(target=self._work, args=(self._waiting,), daemon=True).start()

    def _finish(self, one: w.Posted, status: int) -> None:
        """Tell the completion queue, where it is to be told, and stop the pair after an error."""
        wr, fits = one.wr, True
        if one.kept:
            self.own.free(*one.kept[0])
        if status or self._all or wr.send_flags & w.SIGNALED:
            told = WC(
                wr_id=wr.wr_id,
                status=status,
                opcode=w.TOLD[wr.opcode],
                byte_len=one.total,
                qp_num=self.qp_num,
            )
            told.qp, told.index = self, one.index
            fits = self.scq.add(told, bool(wr.send_flags & w.SOLICITED))
        self.done += 1
        if (status and status != w.FLUSH) or (not fits and self._words[self._row] != ERR):
            self._words[self._row + STATE] = ERR if self.qp_type == w.RC or not fits else SQE
            self.own.changed()
            self._fail()

    def _fail(self) -> None:
        """Flush what waits here, in the state of error; in SQE receives go on."""
        if self._words[self._row] == ERR:
            self.own.fail(self.qp_num)
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            self._finish(one, w.FLUSH)

    def _work(self, waiting: deque[w.Posted]) -> None:
        """Do what waits, as a NIC does, until nothing does, or all of it has been flushed."""
        delay = 0.0
        while delay >= 0:
            time.sleep(delay)
            with self._acts:
                waiting[0].pause()
                with self._lock:
                    if self._waiting is not waiting:
                        return
                    one = waiting[
                        len(waiting) > 1 and waiting[1].overtakes(waiting[0], self.qp_type)
                    ]
                    one.early, active = one is not waiting[0], self._words[self._row] == RTS
                if (status := one.status) is None:
                    status = w.execute(self, one) if active else w.FLUSH
                with self._lock:
                    if self._waiting is not waiting:
                        return
                    delay = self._outcome(one, status)

    def _outcome(self, one: w.Posted, status: int) -> float:
        """Finish a request that has waited, if it is its turn; return the time to the next try [s], -1 for none."""
        if one.early:
            one.status, one.eager = None if status < 0 else status, False
            return 0
        if status < 0:
            delay, limit = self._patience(status)
            self._tries += 1
            if self._tries <= limit:
                return delay
            status = w.RNR_EXC if status == w.RNR else w.RETRY_EXC
        self._tries = 0
        self._waiting.popleft()
        self._finish(one, status)
        return 0 if self._waiting else -1

    def _patience(self, status: int) -> tuple[float, float]:
        """Return how long to wait before the next try [s], and how many tries there are after the first one.

        References
        ----------
        .. [1] Linux, drivers/infiniband/sw/rxe: rnrnak_usec (RNR timers); ibv_modify_qp(3): 4.096 us * 2**timeout.
        """
        attr = self.attr
        if status == w.LOST:
            return (
                (4.096e-6 * 2**attr.timeout, attr.retry_cnt)
                if attr.timeout
                else (1e-3, float("inf"))
            )
        code = self._peer_words[self.peer_row + _arena.RNR_TIMER] or 32
        steps = 1 if code == 1 else 2 ** (code // 2) * (1.5 if code % 2 else 1)
        return 1e-5 * steps, float("inf") if attr.rnr_retry == 7 else attr.rnr_retry

    def _close(self) -> None:
        with self._acts:
            self._waiting = deque()
        self._words[self._row + STATE] = self._words[self._row + _arena.DEST] = 0
        self.own.changed()

    def __repr__(self) -> str:
        """Return it as a person would type it."""
        return f"QP(qp_num={self.qp_num}, {e.ibv_qp_type(self.qp_type).name}, {e.ibv_qp_state(self.qp_state).name})"
