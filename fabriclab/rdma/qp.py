"""Queue pairs. The initiator's CPU plays the NIC: it checks every key and moves the bytes itself.

An operation is done while it is posted, unless the receiver is not ready or does not answer. Then it waits, together
with everything posted after it, and a thread of this process tries again. On a device at its worst
(`Context.adversary`) every operation waits. The times of a real NIC are not modelled here.
"""

import errno
import math
import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from fabriclab.rdma import _arena, records
from fabriclab.rdma import _wire as w
from fabriclab.rdma import enums as e
from fabriclab.rdma._arena import CHANGES, HEAD, STATE, TAIL
from fabriclab.rdma._wire import ERR, INIT, RESET, RTR, RTS, SQE
from fabriclab.rdma.device import PD, Closes
from fabriclab.rdma.queues import ring
from fabriclab.rdma.records import WC, PyverbsRDMAError, PyverbsUserError, QPAttr, RecvWR, SendWR

_OPS: dict[int, Sequence[int]] = {
    w.RC: (w.WRITE, w.WRITE_IMM, w.SEND, w.SEND_IMM, w.READ, w.CAS, w.FAA),
    w.UC: (w.WRITE, w.WRITE_IMM, w.SEND, w.SEND_IMM),
    w.UD: (w.SEND, w.SEND_IMM),
}
_UNUSUAL = w.FENCE | w.SOLICITED | w.INLINE  # flags of requests that the quick path does not take
_new = WC.__new__  # faster than WC itself

_RNR_UNIT = 1e-5  # [s] unit of the RNR timer
_RNR_OF_ZERO = 32  # code 0 of the RNR timer continues the table after code 31
_RNR_FOR_EVER = 7  # value of rnr_retry that means: retry without end
_TIMEOUT_UNIT = 4.096e-6  # [s] unit of the time-out
# illustrative: between tries where the timeout is 0, which is without end
_WITHOUT_TIMEOUT = 1e-3  # [s]


def rnr_delay(code: int) -> float:
    """Return how long a sender waits for a receiver that has no buffer, from its `min_rnr_timer` code [s].

    The codes 1 to 31 mean 10 us times 1, 2, 3, 4, 6, 8, 12, 16 and so on: powers of two, with 1.5 times the lower one
    between two of them. Code 0 means the longest time, 655.36 ms.

    References
    ----------
    .. [1] InfiniBand Architecture Specification, encoding of the RNR NAK timer; Linux, rdmavt: ib_rvt_rnr_table.
    """
    if code == 0:
        code = _RNR_OF_ZERO
    if code == 1:
        return _RNR_UNIT
    steps: float = 2 ** (code // 2)
    if code % 2:
        steps *= 1.5
    return _RNR_UNIT * steps


class Patience(NamedTuple):
    """How long to wait before the next try, and how many more tries follow the first one."""

    delay: float  # [s]
    tries: float  # may be infinite


class QP(Closes):
    """A queue pair.

    Parameters
    ----------
    creator : PD
        Protection domain of the pair.
    init_attr : QPInitAttr
        Type, completion queues and capacities.
    qp_attr : QPAttr, optional
        If given, the pair goes as far as it can: RC and UC to INIT, UD to RTS.

    Raises
    ------
    PyverbsUserError
        If a completion queue is missing or belongs to another context.
    PyverbsRDMAError
        If the device refuses the attributes.
    """

    def __init__(self, creator: PD, init_attr: Any, qp_attr: Any = None) -> None:
        scq = init_attr.scq
        rcq = init_attr.rcq
        srq = init_attr.srq
        cap = init_attr.cap
        ctx = creator.context
        if scq is None or rcq is None or {ctx} != {scq.context, rcq.context, (srq or scq).context}:
            raise PyverbsUserError(
                "a queue pair needs scq and rcq, and all its queues in the context of its PD"
            )
        if init_attr.qp_type not in _OPS or cap.max_send_wr < 1 or not 1 <= cap.max_send_sge <= 32:
            msg = f"qp_type must be RC, UC or UD, max_send_wr >= 1, max_send_sge 1 to 32; got {init_attr.qp_type}, "
            raise PyverbsRDMAError(f"{msg}{cap.max_send_wr}, {cap.max_send_sge}", errno.EINVAL)
        makers = [creator, scq, rcq]
        if srq:
            makers.append(srq)
        super().__init__(*makers)

        self.qp_num = ctx.number()
        self.qp_type = init_attr.qp_type
        self.pd = creator
        self.cap = cap
        self.scq = scq
        self.counters = ctx.counters
        self.own = ctx.arena
        self.attr = QPAttr()
        self._words = ctx.arena.words
        self._init = init_attr
        self._signal_all = init_attr.sq_sig_all

        # Send requests posted so far, how many of them have ended, and how many have given back their place in the
        # send queue.
        self.posted = 0
        self.done = 0
        self.retired = 0
        # Outcomes of checks for the quick path of `post_send`, by opcode, lkey and rkey.
        self.known: dict[tuple[int, int, int], w.Checked] = {}
        # Requests that are being retried, or wait for those before them.
        self._waiting: deque[w.Posted] = deque()
        self._tries = 0  # retries of the first waiting request
        self._draws: random.Random | None = None  # decisions of a device at its worst
        if ctx.adversary != "0":
            self._draws = random.Random(f"{ctx.adversary}/{self.qp_num}")
        self._lock = threading.Lock()
        self._acts = threading.Lock()  # taken while a thread performs waiting requests

        # The segment of its peer; its own until it is connected.
        self.peer = self.own
        self._peer_words = self._words

        self._row = _arena.qp_row(self.qp_num)
        self._rq = srq.row if srq else self.own.queue(cap.max_recv_wr, cap.max_recv_sge)
        row: dict[int, int] = {
            _arena.PD: creator.number,
            _arena.RQ: self._rq,
            _arena.RCQ: rcq.row,
            _arena.SHARED: int(srq is not None),
        }
        fields = [row.get(word, 0) for word in range(_arena.PSN + 1)]
        _arena.QP_ROW.pack_into(self.own.map, 8 * self._row, *fields)

        self.header = self.own.alloc(w.GRH) if self.qp_type == w.UD else 0
        if qp_attr is not None:
            if self.qp_type == w.UD:
                self.to_rts(qp_attr)
            else:
                self.to_init(qp_attr)

    @property
    def qp_state(self) -> Any:
        """State of the pair; a peer's request that failed here may have put it into ERR."""
        return e.ibv_qp_state(self._words[self._row + STATE])

    def to_init(self, qp_attr: Any) -> None:
        """Go from RESET to INIT."""
        self._step(qp_attr, INIT)

    def to_rtr(self, qp_attr: Any) -> None:
        """Go to RTR, through INIT if necessary."""
        self._step(qp_attr, RTR)

    def to_rts(self, qp_attr: Any) -> None:
        """Go to RTS, through INIT and RTR if necessary."""
        self._step(qp_attr, RTS)

    def _step(self, qp_attr: Any, state: int) -> None:
        if state > INIT and self.qp_state != state - 1:
            self._step(qp_attr, state - 1)
        qp_attr.qp_state = state
        self.modify(qp_attr, records.needs(state, self.qp_type) | e.IBV_QP_STATE)

    def modify(self, qp_attr: Any, mask: int) -> None:
        """Set the attributes that ``mask`` names.

        Raises
        ------
        PyverbsRDMAError
            If a step between two states lacks an attribute, or if there is no such step.
        """
        with self._acts, self._lock:
            new = records.check_step(self.qp_type, self.qp_state, qp_attr, mask)
            peer = self.peer
            if mask & e.IBV_QP_AV:
                peer = _arena.attach(qp_attr.ah_attr.gr.dgid.gid)
            records.take(self.attr, qp_attr, mask)
            attr = self.attr
            words = self._words

            self.peer = peer
            self._peer_words = peer.words
            self.peer_row = _arena.qp_row(attr.dest_qp_num)
            # TYPE, DEST, DEST_TOKEN and PSN, as the peer's row must have them.
            self.expected = (self.qp_type, self.qp_num, self.own.token, attr.sq_psn)

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
                self.done = self.posted
                self.retired = self.posted
                self.attr = QPAttr()
                if not self._init.srq:
                    words[self._rq + HEAD] = words[self._rq + TAIL]

    def query(self, mask: int) -> tuple[Any, Any]:
        """Return the attributes that ``mask`` names, with the state, and the QPInitAttr that the pair was made from."""
        found = QPAttr(self.qp_state, self.qp_state)
        if not self.attr.dest_qp_num:
            mask &= ~e.IBV_QP_DEST_QPN
        records.take(found, self.attr, mask)
        return found, self._init

    def post_recv(self, wr: RecvWR, bad_wr: RecvWR | None = None) -> None:
        """Add buffers for future messages; `PyverbsRDMAError` if there is no room or the state is RESET."""
        ring(self._lock, self.counters, wr, bad_wr, self._post_recv)

    def _post_recv(self, wr: RecvWR) -> None:
        if self.qp_state == RESET or self._init.srq:
            where = "its SRQ" if self._init.srq else "state INIT or later"
            raise PyverbsRDMAError(f"QP {self.qp_num} receives in {where} only", errno.EINVAL)
        self.own.post(self._rq, wr)
        if self.qp_state == ERR:
            self.own.fail(self.qp_num)

    def post_send(self, wr: SendWR, bad_wr: SendWR | None = None) -> None:
        """Perform the requests of a chain, with one doorbell.

        Raises
        ------
        PyverbsRDMAError
            If a request cannot be posted: wrong state or opcode, too many pieces, too much inline data, or a full
            send queue. Requests before it in the chain are posted. All other errors are reported as completions.

        Notes
        -----
        Any thread may post, but a signal handler must not: it would wait for a lock that its own thread has.
        """
        piece = wr.sg[0]
        opcode = wr.opcode
        checked = self.known.get((opcode, piece.lkey, wr.rkey))
        flags = wr.send_flags
        if checked is None or flags & _UNUSUAL or wr.next_wr is not None or len(wr.sg) != 1:
            ring(self._lock, self.counters, wr, bad_wr, self._post_send)
            return

        # The quick path: a WRITE or READ between regions that an earlier one has used. As in the translation cache of
        # a NIC, the outcome of its checks stays valid until somebody changes a table that they read; bounds and queues
        # are checked each time.
        at = piece.addr
        to = wr.remote_addr
        size = piece.length
        completion = None
        if flags or self._signal_all:
            completion = _new(WC)
            completion.wr_id = wr.wr_id
            completion.opcode = w.COMPLETED_AS[opcode]
            completion.byte_len = size
            completion.qp_num = self.qp_num
            completion.qp = self

        # Under the lock, because completions must come in the order of their numbers: a polled completion gives back
        # all places up to its own. The lock is also a memory fence: no peer sees a later WRITE before this one.
        scq = self.scq
        with self._lock:
            if (
                # no table has changed
                checked.own_words[CHANGES] == checked.own_changes
                and checked.peer_words[CHANGES] == checked.peer_changes
                # the access is inside both regions
                and checked.own_start <= at
                and at + size <= checked.own_end
                and checked.peer_start <= to
                and to + size <= checked.peer_end
                # the completion queue has room; if another pair takes its last place at this moment, one more waits
                and len(scq.local) < scq.cqe
                and checked.own_words[scq.row + TAIL] == scq.calm
                # no request is waiting, and the send queue has room
                and self.posted == self.done
                and self.posted - self.retired < self.cap.max_send_wr
            ):
                at -= checked.own_base
                to -= checked.peer_base
                source = self.own
                target = self.peer
                if opcode:  # a READ, which copies in the other direction; a WRITE is 0
                    source, target, at, to = target, source, to, at
                if size == 8 and not (at | to) & 7:
                    target.words[to >> 3] = source.words[at >> 3]
                else:
                    target.bytes[to : to + size] = source.bytes[at : at + size]
                self.posted += 1
                self.done = self.posted
                if completion is not None:
                    completion.index = self.posted
                    scq.local.append(completion)
                self.counters.quick += 1
                self.counters.bytes += size
                return
        ring(self._lock, self.counters, wr, bad_wr, self._post_send)

    def _post_send(self, wr: SendWR) -> None:
        """Perform a request with all its checks, or let it wait."""
        state = self._words[self._row + STATE]
        total = sum([piece.length for piece in wr.sg])  # [B]
        self.posted += 1
        refused = self._refused(wr, state, total)
        if refused is not None:
            self.posted -= 1
            raise refused

        posted = w.Posted(wr, total, self.posted)
        if not self._waiting and (state != RTS or not self._draws):
            status = w.FLUSH if state != RTS else w.execute(self, posted)
            if status >= 0:
                self._finish(posted, status)
                return

        if wr.send_flags & w.INLINE:  # the caller may reuse its buffer at once
            spans = w.local(self, wr, 0)
            if spans:
                posted.kept = [(self.own.alloc(total), total)]
                posted.land(self.own, spans, self.own, posted.kept)
        posted.wr = wr.as_posted()
        if self._draws:
            posted.draws = random.Random(self._draws.getrandbits(64))
            posted.eager = self._draws.random() < 0.5
        self._waiting.append(posted)
        if len(self._waiting) == 1:
            threading.Thread(target=self._work, args=(self._waiting,), daemon=True).start()

    def _refused(self, wr: SendWR, state: int, total: int) -> PyverbsRDMAError | None:
        """Return the error if a request cannot be posted, else None; ``posted`` counts the request already."""
        cap = self.cap
        inline = wr.send_flags & w.INLINE
        full = self.posted - self.retired > cap.max_send_wr
        if state < RTS:
            msg = f"QP {self.qp_num} is in {self.qp_state!r}; it sends in IBV_QPS_RTS"
        elif wr.opcode not in _OPS[self.qp_type]:
            msg = f"a QP of type {self.qp_type!r} has no operation {wr.opcode!r}"
        elif len(wr.sg) > cap.max_send_sge:
            msg = f"{wr.num_sge} SGEs, and max_send_sge is {cap.max_send_sge}"
        elif inline and (total > cap.max_inline_data or wr.opcode >= w.READ):
            msg = (
                f"{total} B inline with opcode {wr.opcode}: a SEND or WRITE takes "
                f"max_inline_data={cap.max_inline_data}"
            )
        elif full:
            msg = (
                f"the send queue is full (max_send_wr={cap.max_send_wr}); "
                "a polled completion gives back its place and those before"
            )
        else:
            return None
        return PyverbsRDMAError(msg, errno.ENOMEM if full else errno.EINVAL)

    def _finish(self, posted: w.Posted, status: int) -> None:
        """Add a completion if one is wanted, and stop the pair after an error."""
        wr = posted.wr
        if posted.kept:
            self.own.free(*posted.kept[0])

        fits = True
        if status or self._signal_all or wr.send_flags & w.SIGNALED:
            completion = WC(
                wr_id=wr.wr_id,
                status=status,
                opcode=w.COMPLETED_AS[wr.opcode],
                byte_len=posted.total,
                qp_num=self.qp_num,
            )
            completion.qp = self
            completion.index = posted.index
            fits = self.scq.add(completion, bool(wr.send_flags & w.SOLICITED))
        self.done += 1

        failed = status not in (w.OK, w.FLUSH)
        lost = not fits and self._words[self._row + STATE] != ERR
        if failed or lost:
            only_sends = fits and self.qp_type != w.RC
            self._words[self._row + STATE] = SQE if only_sends else ERR
            self.own.changed()
            self._fail()

    def _fail(self) -> None:
        """Flush the waiting requests; in ERR receives are flushed as well, in SQE they continue."""
        if self._words[self._row + STATE] == ERR:
            self.own.fail(self.qp_num)
        waiting = self._waiting
        self._waiting = deque()
        for posted in waiting:
            self._finish(posted, w.FLUSH)

    def _work(self, waiting: deque[w.Posted]) -> None:
        """Perform the waiting requests, as a NIC does, until none waits or all have been flushed."""
        delay = 0.0
        while delay >= 0:
            time.sleep(delay)
            with self._acts:
                waiting[0].pause()
                with self._lock:
                    if self._waiting is not waiting:
                        return
                    posted = waiting[0]
                    if len(waiting) > 1 and waiting[1].overtakes(waiting[0], self.qp_type):
                        posted = waiting[1]
                    posted.early = posted is not waiting[0]
                    sends = self._words[self._row + STATE] == RTS

                status = posted.status
                if status is None:
                    status = w.execute(self, posted) if sends else w.FLUSH
                with self._lock:
                    if self._waiting is not waiting:
                        return
                    delay = self._outcome(posted, status)

    def _outcome(self, posted: w.Posted, status: int) -> float:
        """Finish a waiting request if it is its turn; return the time to the next try [s], -1 if none is needed."""
        if posted.early:
            posted.status = None if status < 0 else status
            posted.eager = False
            return 0

        if status < 0:
            patience = self._patience(status)
            self._tries += 1
            if self._tries <= patience.tries:
                return patience.delay
            status = w.RNR_EXC if status == w.RNR else w.RETRY_EXC
        self._tries = 0
        self._waiting.popleft()
        self._finish(posted, status)
        return 0 if self._waiting else -1

    def _patience(self, status: int) -> Patience:
        """Return how long to wait, and how many retries there are, after `RNR` or `LOST`.

        References
        ----------
        .. [1] ibv_modify_qp(3): a time-out of 4.096 us * 2**timeout, 0 for none; rnr_retry of 7 is without end.
        """
        attr = self.attr
        if status == w.LOST:
            if attr.timeout:
                return Patience(_TIMEOUT_UNIT * 2**attr.timeout, attr.retry_cnt)
            return Patience(_WITHOUT_TIMEOUT, math.inf)
        code = self._peer_words[self.peer_row + _arena.RNR_TIMER]
        tries = math.inf if attr.rnr_retry == _RNR_FOR_EVER else attr.rnr_retry
        return Patience(rnr_delay(code), tries)

    def _close(self) -> None:
        with self._acts:
            self._waiting = deque()
        self._words[self._row + STATE] = RESET
        self._words[self._row + _arena.DEST] = 0
        self.own.changed()

    def __repr__(self) -> str:
        """Show number, type and state."""
        return f"QP(qp_num={self.qp_num}, {e.ibv_qp_type(self.qp_type).name}, {e.ibv_qp_state(self.qp_state).name})"
