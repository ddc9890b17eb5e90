"""Queue pairs. The poster's processor does what a NIC would: it checks every key and moves the bytes itself.

An operation is done while it is posted, unless the receiver is not ready or does not answer; then it waits, and all
that is posted after it, and a thread of this process tries again. The times of a real NIC are no part of this.
"""

import errno
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from fabriclab.rdma import _arena
from fabriclab.rdma import enums as e
from fabriclab.rdma._arena import CHANGES, HEAD, STATE, TAIL, Arena, Spans, move
from fabriclab.rdma.cq import WC
from fabriclab.rdma.device import PD, Closes
from fabriclab.rdma.errors import PyverbsRDMAError, PyverbsUserError
from fabriclab.rdma.qp_attr import ERR, INIT, RC, RESET, RTR, RTS, SQE, UC, UD, QPAttr, QPInitAttr, check_step, needs
from fabriclab.rdma.srq import ReceiveQueue, ring
from fabriclab.rdma.wr import RecvWR, SendWR

# Plain numbers: members of an enumeration would cost as much as the work itself.
_WRITE, _WRITE_IMM, _SEND, _SEND_IMM, _READ, _CAS, _FAA = range(7)
_OPS: Final[dict[int, Sequence[int]]] = {RC: range(7), UC: range(4), UD: (_SEND, _SEND_IMM)}
_TOLD: Final = (1, 1, 0, 0, 2, 3, 4)  # the opcode of its completion
_RIGHTS: Final = (2, 2, 0, 0, 4, 8, 8)  # what it needs of the remote region and queue pair
_SIGNALED, _SOLICITED, _INLINE = 2, 4, 8
_OK, _LOC_LEN, _LOC_QP_OP, _LOC_PROT, _FLUSH = 0, 1, 2, 4, 5
_REM_INV_REQ, _REM_ACCESS, _REM_OP, _RETRY_EXC, _RNR_EXC = 9, 10, 11, 12, 13
_RNR, _LOST = -1, -2  # not ends: the receiver has no buffer, or does not answer
_RTR, _RTS, _ERR, _RC, _UD = int(RTR), int(RTS), int(ERR), int(RC), int(UD)
_GRH, _MTU, _LONGEST = 40, 4096, 2**31  # [B] header before a datagram, its longest payload, and the longest message
_KNOWN = 1024  # requests of which the outcome of the checks is kept
_REFUSED: Final = (
    "QP {qp.qp_num} is in {qp.qp_state!r}; it sends in IBV_QPS_RTS",
    "a QP of type {qp.qp_type!r} has no operation {wr.opcode!r}",
    "{wr.num_sge} SGEs, and max_send_sge is {cap.max_send_sge}",
    "{total} B inline with opcode {wr.opcode}: a SEND or WRITE takes max_inline_data={cap.max_inline_data}",
    "the send queue is full (max_send_wr={cap.max_send_wr}): poll a completion; unsignaled requests give their places "
    "back with the next signaled one",
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

    def __init__(self, creator: PD, init_attr: QPInitAttr, qp_attr: QPAttr | None = None) -> None:
        scq, rcq, srq, cap, ctx = init_attr.send_cq, init_attr.recv_cq, init_attr.srq, init_attr.cap, creator.context
        if scq is None or rcq is None or {ctx} != {scq.context, rcq.context, (srq or scq).context}:
            raise PyverbsUserError("a queue pair needs scq and rcq, and all its queues in the context of its PD")
        if init_attr.qp_type not in _OPS or cap.max_send_wr < 1 or not 1 <= cap.max_send_sge <= 32:
            msg = f"qp_type must be RC, UC or UD, max_send_wr >= 1, max_send_sge 1 to 32; got {init_attr.qp_type}, "
            raise PyverbsRDMAError(f"{msg}{cap.max_send_wr}, {cap.max_send_sge}", errno.EINVAL)
        super().__init__(creator, scq, rcq, *([srq] if srq else []))
        self.qp_num, self.qp_type, self.pd, self._init = ctx.number(), init_attr.qp_type, creator, init_attr
        self._own, self._words, self._counters, self._scq, self._cap = (
            ctx.arena,
            ctx.arena.words,
            ctx.counters,
            scq,
            cap,
        )
        self._all, self._ops, self._scq_state = bool(init_attr.sq_sig_all), _OPS[self.qp_type], scq.state
        self.posted = self.retired = 0  # send requests so far, and how many of them gave their place back
        # Request, bytes, its number, where its inline data is kept; and the requests that `_again` knows.
        self._waiting: deque[tuple[SendWR, int, int, Spans | None]] = deque()
        self._known: dict[tuple[int, ...], tuple[Any, ...]] = {}
        self._lock, self._tries, self._attr, self._peer, self._peer_words = (
            threading.Lock(),
            0,
            QPAttr(),
            self._own,
            self._words,
        )
        self._recv = srq.queue if srq else ReceiveQueue(self._own, cap.max_recv_wr, cap.max_recv_sge)
        self._row = _arena.qp_row(self.qp_num)
        shared = int(srq is not None)
        _arena.QP_ROW.pack_into(
            self._own.map, 8 * self._row, 0, creator.number, 0, self._recv.row, rcq.row, shared, *[0] * 4
        )
        self._header = self._own.alloc(_GRH) if self.qp_type == UD else 0
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
            for field, value in zip(_arena.QP_FIELDS, (new, attr.qp_access_flags, self.qp_type, attr.dest_qp_num, peer.token,
                    attr.rq_psn, attr.qkey, attr.min_rnr_timer, attr.max_dest_rd_atomic), strict=True):  # fmt: skip
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

    def _remember(self, wr: SendWR, seen: tuple[int, int], src: Arena, at: int, dst: Arena, to: int, n: int) -> None:
        """Keep what `_again` needs: the state of both tables, what to copy, and what to tell."""
        copy: tuple[Any, ...] = dst.bytes, slice(to, to + n), src.bytes, slice(at, at + n)
        if n == 8 and not (at | to) & 7:
            copy = dst.words, to >> 3, src.words, at >> 3
        if len(self._known) > _KNOWN:
            self._known.clear()
        told = WC(wr.wr_id, _OK, _TOLD[wr.opcode], n, self.qp_num) if self._all or wr.send_flags & _SIGNALED else None
        [piece] = wr.sg
        key = wr.opcode, wr.wr_id, wr.send_flags, wr.rkey, wr.remote_addr, piece.addr, piece.length, piece.lkey
        self._known[key] = *seen, *copy, told

    def _post_send(self, wr: SendWR) -> None:
        with self._lock:
            state, op, cap, total = self._words[self._row], wr.opcode, self._cap, sum([p.length for p in wr.sg])
            too_long = wr.send_flags & _INLINE and (total > cap.max_inline_data or op >= _READ)
            full = self.posted - self.retired >= cap.max_send_wr
            wrong = state < _RTS, op not in self._ops, len(wr.sg) > cap.max_send_sge, too_long, full
            if any(wrong):
                msg = _REFUSED[[bool(w) for w in wrong].index(True)].format(qp=self, wr=wr, cap=cap, total=total)
                raise PyverbsRDMAError(msg, errno.ENOMEM if full else errno.EINVAL)
            self.posted = index = self.posted + 1
            if not self._waiting:
                status = _FLUSH if state != _RTS else self._execute(wr, total)
                if status >= 0:
                    return self._finish(wr, total, index, status)
                threading.Thread(target=self._retry, daemon=True).start()
            kept = None
            if wr.send_flags & _INLINE and (spans := self._spans(wr, 0)):  # its buffer may be used again at once
                kept = [(self._own.alloc(total), total)]
                move(self._own, spans, self._own, kept)
            self._waiting.append((wr.as_posted(), total, index, kept))

    def _finish(self, wr: SendWR, total: int, index: int, status: int) -> None:
        """Tell the completion queue, where it is to be told, and stop the pair after an error."""
        fits = True
        if status or self._all or wr.send_flags & _SIGNALED:
            told = WC(wr.wr_id, status, _TOLD[wr.opcode], total, self.qp_num)
            fits = self._scq.add(told, self, index, bool(wr.send_flags & _SOLICITED))
        if (status and status != _FLUSH) or (not fits and self._words[self._row] != ERR):
            self._words[self._row + STATE] = ERR if self.qp_type == RC or not fits else SQE
            self._own.changed()
            self._fail()

    def _fail(self) -> None:
        """Flush what waits here, in the state of error; in SQE receives go on."""
        if self._words[self._row] == ERR:
            self._own.fail(self.qp_num)
        while self._waiting:
            wr, total, index, _ = self._waiting.popleft()
            self._finish(wr, total, index, _FLUSH)

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
            status = _FLUSH if self._words[self._row] != _RTS else self._execute(wr, total, kept)
            if status < 0:
                delay, limit = self._patience(status)
                self._tries += 1
                if self._tries <= limit:
                    return delay
                status = _RNR_EXC if status == _RNR else _RETRY_EXC
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
        if status == _LOST:
            return (4.096e-6 * 2**attr.timeout, attr.retry_cnt) if attr.timeout else (1e-3, float("inf"))
        code = self._peer_words[self._peer_row + _arena.RNR_TIMER] or 32
        steps = 1 if code == 1 else 2 ** (code // 2) * (1.5 if code % 2 else 1)
        return 1e-5 * steps, float("inf") if attr.rnr_retry == 7 else attr.rnr_retry

    def _spans(self, wr: SendWR, access: int) -> Spans | None:
        """Return where the pieces of a request lie, or None if a key forbids it; inline data needs no key."""
        own, inline, spans = self._own, wr.send_flags & _INLINE, []
        for p in wr.sg:
            at = (
                own.find(p.lkey, p.addr, p.length, access, self.pd.number)
                if not inline
                else own.inside(p.addr, p.length)
            )
            if at < 0:
                return None
            spans.append((at, p.length))
        return spans

    def _execute(self, wr: SendWR, total: int, spans: Spans | None = None) -> int:
        """Do an operation; return its status, or `_RNR` or `_LOST`, after which it may be tried again."""
        spans = spans or self._spans(wr, e.ibv_access_flags.IBV_ACCESS_LOCAL_WRITE if wr.opcode >= _READ else 0)
        if spans is None:
            return _LOC_PROT
        if total > _LONGEST or (wr.opcode >= _CAS and total != 8):
            return _LOC_LEN
        status = (self._datagram if self.qp_type == _UD else self._connected)(wr, total, spans)
        if status == _OK:
            self._counters.transfers += 1
            self._counters.bytes += total
            self._counters.copies += bool(wr.send_flags & _INLINE)
        dropped = self.qp_type != _RC and status not in (_LOC_LEN, _LOC_QP_OP)  # and nobody is told
        return _OK if dropped else status

    def _connected(self, wr: SendWR, total: int, spans: Spans) -> int:
        op, own, peer, need = wr.opcode, self._own, self._peer, _RIGHTS[wr.opcode]
        seen = self._words[CHANGES], self._peer_words[CHANGES]
        state, domain, access, _, _, _, *who = _arena.QP_ROW.unpack_from(peer.map, 8 * self._peer_row)
        if not _RTR <= state <= _RTS or tuple(who) != self._expected or not peer.alive:
            return _LOST
        if op >= _READ and not self._attr.max_rd_atomic:
            return _LOC_QP_OP
        to = 0
        if need and total:
            to = peer.find(wr.rkey, wr.remote_addr, total, need, domain) if access & need == need else -1
        no_reads = op >= _READ and not self._peer_words[self._peer_row + _arena.READS]
        if to < 0 or no_reads or (op >= _CAS and to & 7):
            if self.qp_type == _RC:
                peer.fail(self._attr.dest_qp_num)
            return _REM_ACCESS if to < 0 else _REM_INV_REQ
        if _WRITE < op < _READ:
            return self._deliver(wr, total, spans, peer, self._attr.dest_qp_num, to)
        if op >= _CAS:
            with peer.lock(to):
                old = peer.words[to >> 3]
                if op == _FAA or old == wr.compare_add:
                    peer.words[to >> 3] = (old + wr.compare_add) % 2**64 if op == _FAA else wr.swap
            result = old.to_bytes(8, "little")
            for at, n in spans:
                own.bytes[at : at + n], result = result[:n], result[n:]
            return _OK
        src, its, dst, theirs = (
            (own, spans, peer, ((to, total),)) if op == _WRITE else (peer, ((to, total),), own, spans)
        )
        move(src, its, dst, theirs)
        if len(wr.sg) == 1 and total and not wr.send_flags & _INLINE:
            self._remember(wr, seen, src, its[0][0], dst, theirs[0][0], total)
        return _OK

    def _datagram(self, wr: SendWR, total: int, spans: Spans) -> int:
        if wr.ah is None or total > _MTU:
            return _LOC_QP_OP if wr.ah is None else _LOC_LEN
        peer, its = wr.ah.peer, _arena.qp_row(wr.qpn)
        kind, qkey = peer.words[its + _arena.TYPE], peer.words[its + _arena.QKEY]
        if (kind, qkey) != (_UD, wr.qkey) or not _RTR <= peer.words[its] < _ERR or not peer.alive:
            return _LOST
        header = bytes.fromhex("0" * 16 + self._own.gid.replace(":", "") + peer.gid.replace(":", ""))
        self._own.bytes[self._header : self._header + _GRH] = header
        return self._deliver(wr, total + _GRH, [(self._header, _GRH), *spans], peer, wr.qpn)

    def _deliver(self, wr: SendWR, total: int, spans: Spans, peer: Arena, qpn: int, to: int = 0) -> int:
        """Put a message into the receiver's oldest buffer (WRITE with immediate: to ``to``), and tell the receiver."""
        domain, rq, rcq = (peer.words[_arena.qp_row(qpn) + field] for field in (_arena.PD, _arena.RQ, _arena.RCQ))
        status, with_imm, opcode = _OK, wr.opcode != _SEND, e.ibv_wc_opcode.IBV_WC_RECV + (wr.opcode == _WRITE_IMM)
        flags = (self.qp_type == _UD) | with_imm << 1
        with peer.lock():
            if peer.words[rq + HEAD] == peer.words[rq + TAIL]:
                return _RNR
            wr_id, pieces = peer.receive(rq)
            targets = [(peer.find(key, addr, n, 1, domain), n) for addr, n, key in pieces]
            if wr.opcode == _WRITE_IMM:
                targets = [(to, total)]
            if min(targets)[0] < 0 or sum([n for _, n in targets]) < total:
                status = _LOC_PROT if min(targets)[0] < 0 else _LOC_LEN
            else:
                move(self._own, spans, peer, targets)
            entry = (wr_id, status, opcode, total, qpn, self.qp_num, wr.imm_data * with_imm, flags, 0)
            told = peer.complete(rcq, rq, entry, bool(wr.send_flags & _SOLICITED))
        if status or not told:
            peer.fail(qpn)
        return _REM_INV_REQ if status == _LOC_LEN else _REM_OP if status or not told else _OK

    def _close(self) -> None:
        self._waiting.clear()
        self._words[self._row + STATE] = self._words[self._row + _arena.DEST] = 0
        self._own.changed()

    def __repr__(self) -> str:
        """Return it as a person would type it."""
        return f"QP(qp_num={self.qp_num}, {e.ibv_qp_type(self.qp_type).name}, {e.ibv_qp_state(self.qp_state).name})"
