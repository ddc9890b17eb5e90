"""Queue pairs. The poster's processor does what a NIC would: it checks every key and moves the bytes itself.

An operation is done while it is posted, unless the receiver is not ready or does not answer; then it waits, and all
that is posted after it, and a thread of this process tries again. The times of a real NIC are no part of this.
"""

from __future__ import annotations

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
from fabriclab.rdma.qp_attr import ERR, INIT, NEEDS, RC, RESET, RTR, RTS, SQE, UC, UD, QPAttr, QPInitAttr, check_step
from fabriclab.rdma.srq import ReceiveQueue, ring
from fabriclab.rdma.wr import RecvWR, SendWR

# Plain numbers: members of an enumeration would cost as much as the work itself.
_WRITE, _WRITE_IMM, _SEND, _SEND_IMM, _READ, _CAS, _FAA = range(7)
_OPS: Final[dict[int, Sequence[int]]] = {RC: range(7), UC: range(4), UD: (_SEND, _SEND_IMM)}
_TOLD: Final = (1, 1, 0, 0, 2, 3, 4)  # the opcode of its completion
_SIGNALED, _SOLICITED, _INLINE = 2, 4, 8
_LOCAL_WRITE, _REMOTE_WRITE, _REMOTE_READ, _REMOTE_ATOMIC = 1, 2, 4, 8
_OK, _LOC_LEN, _LOC_QP_OP, _LOC_PROT, _FLUSH = 0, 1, 2, 4, 5
_REM_INV_REQ, _REM_ACCESS, _REM_OP, _RETRY_EXC, _RNR_EXC = 9, 10, 11, 12, 13
_RNR, _LOST = -1, -2  # not ends: the receiver has no buffer, or does not answer
_RTR, _RTS, _RC, _UD = int(RTR), int(RTS), int(RC), int(UD)
_GRH = 40  # bytes before a datagram
_LONGEST = 2**31
_KNOWN = 1024  # requests of which the outcome of the checks is kept
_Job = tuple[SendWR, int, int, "Spans | None"]  # request, bytes, its number in the queue, where inline data is kept


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
        scq, rcq, srq, cap = init_attr.send_cq, init_attr.recv_cq, init_attr.srq, init_attr.cap
        if scq is None or rcq is None or {creator.context} != {scq.context, rcq.context, (srq or scq).context}:
            raise PyverbsUserError("a queue pair needs scq and rcq, and all its queues in the context of its PD")
        if init_attr.qp_type not in _OPS or cap.max_send_wr < 1 or not 1 <= cap.max_send_sge <= 32:
            msg = f"qp_type must be RC, UC or UD, max_send_wr >= 1, max_send_sge 1 to 32; got {init_attr.qp_type}, "
            raise PyverbsRDMAError(f"{msg}{cap.max_send_wr}, {cap.max_send_sge}", errno.EINVAL)
        super().__init__(creator, scq, rcq, *([srq] if srq else []))
        self.pd, self.qp_num, self.qp_type, self._init = creator, creator.context.number(), init_attr.qp_type, init_attr
        self._own, self._counters, self._scq, self._cap = creator.context.arena, creator.context.counters, scq, cap
        self._all, self._ops, self._domain = bool(init_attr.sq_sig_all), _OPS[self.qp_type], creator.number
        self.posted = self.retired = 0  # send requests so far, and how many of them gave their place back
        self._waiting: deque[_Job] = deque()
        self._tries, self._lock, self._attr, self._peer = 0, threading.Lock(), QPAttr(), self._own
        self._peer_place = self._psn = 0
        self._peer_words, self._room, self._scq_state = self._own.words, cap.max_send_wr, scq.state
        self._known: dict[tuple[int, ...], tuple[Any, ...]] = {}  # see `_again`
        self._recv = srq.queue if srq else ReceiveQueue(self._own, cap.max_recv_wr, cap.max_recv_sge)
        self._row, self._words = row(self.qp_num), self._own.words
        fields = (0, self.qp_type, self._domain, 0, 0, 0, self._recv.row, rcq.row, int(srq is not None), 0)
        _arena.QP_ROW.pack_into(self._own.map, 8 * self._row, *fields)
        if self.qp_type == UD:
            self._header = self._own.alloc(_GRH)
            self._own.bytes[self._header + 8 : self._header + 24] = bytes.fromhex(self._own.gid.replace(":", ""))
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
        self.modify(qp_attr, NEEDS[state, self.qp_type] | e.IBV_QP_STATE)

    def modify(self, qp_attr: QPAttr, mask: int) -> None:
        """Set what ``mask`` names; `PyverbsRDMAError` tells what a step lacks, or that there is no such step."""
        with self._lock:
            new = check_step(self.qp_type, self.qp_state, qp_attr, mask)
            peer = _arena.attach(qp_attr.ah_attr.gr.dgid.gid) if mask & e.IBV_QP_AV else self._peer
            self._attr.take(qp_attr, mask)
            attr, words, mine = self._attr, self._words, self._row
            self._peer, self._peer_place, self._psn = peer, 8 * row(attr.dest_qp_num), attr.sq_psn
            words[mine + _arena.ACCESS], words[mine + _arena.QKEY] = attr.qp_access_flags, attr.qkey
            words[mine + _arena.DEST], words[mine + _arena.DEST_TOKEN] = attr.dest_qp_num, peer.token
            words[mine + _arena.PSN], words[mine + _arena.READS] = attr.rq_psn, attr.max_dest_rd_atomic
            words[mine + _arena.RNR_TIMER] = attr.min_rnr_timer
            words[mine + STATE], self._peer_words = new, peer.words
            self._own.changed()
            if new == ERR:
                self._fail()
            elif new == RESET:
                self._waiting.clear()
                self.retired, self._attr = self.posted, QPAttr()
                if not self._init.srq:
                    self._recv.clear()

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
                self._own.fail(self._row, self.qp_num)

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
        if (
            self._words[CHANGES] != mine
            or self._peer_words[CHANGES] != theirs
            or self.posted - self.retired >= self._room
            or len(local) + tail - head >= self._scq.cqe
            or armed
            or broken
            or self._waiting
        ):
            return False
        with self._lock:  # also a memory fence: a later WRITE is seen later
            target[to] = source[at]
            self.posted = index = self.posted + 1
        if told:
            local.append((told, self, index))
        counters = self._counters
        counters.doorbells += 1
        counters.posted += 1
        counters.transfers += 1
        counters.bytes += piece.length
        return True

    def _post_send(self, wr: SendWR) -> None:
        with self._lock:
            state, op, total = self._words[self._row], wr.opcode, 0
            for piece in wr.sg:
                total += piece.length
            if (
                state < _RTS
                or self.posted - self.retired >= self._cap.max_send_wr
                or op not in self._ops
                or len(wr.sg) > self._cap.max_send_sge
                or (wr.send_flags & _INLINE and (total > self._cap.max_inline_data or op >= _READ))
            ):
                raise self._refusal(wr, total)
            self.posted = index = self.posted + 1
            if not self._waiting:
                status = _FLUSH if state != _RTS else self._execute(wr, total)
                if status >= 0:
                    return self._finish(wr, total, index, status)
                threading.Thread(target=self._retry, daemon=True).start()
            self._waiting.append((wr.as_posted(), total, index, self._keep(wr, total)))

    def _refusal(self, wr: SendWR, total: int) -> PyverbsRDMAError:
        """Return why a request cannot be posted."""
        cap, number = self._cap, errno.EINVAL
        if self.qp_state < RTS:
            msg = f"QP {self.qp_num} is in {e.ibv_qp_state(self.qp_state).name}; it sends in IBV_QPS_RTS"
        elif wr.opcode not in self._ops:
            msg = f"a QP of type {e.ibv_qp_type(self.qp_type).name} has no operation {wr.opcode!r}"
        elif len(wr.sg) > cap.max_send_sge:
            msg = f"{len(wr.sg)} SGEs, and max_send_sge is {cap.max_send_sge}"
        elif self.posted - self.retired >= cap.max_send_wr:
            number, msg = errno.ENOMEM, f"the send queue is full (max_send_wr={cap.max_send_wr}): poll a completion; "
            msg += "unsignaled requests give their places back with the next signaled one"
        else:
            msg = (
                f"{total} B inline with opcode {wr.opcode}: a SEND or WRITE takes max_inline_data={cap.max_inline_data}"
            )
        return PyverbsRDMAError(msg, number)

    def _keep(self, wr: SendWR, total: int) -> Spans | None:
        """Copy the inline data of a request that has to wait: its buffer may be used again."""
        if not wr.send_flags & _INLINE or (spans := self._spans(wr, 0)) is None:
            return None
        at = self._own.alloc(total)
        move(self._own, spans, self._own, [(at, total)])
        return [(at, total)]

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
            self._own.fail(self._row, self.qp_num)
        while self._waiting:
            wr, total, index, _ = self._waiting.popleft()
            self._finish(wr, total, index, _FLUSH)

    def _retry(self) -> None:
        """Try what waits again and again, as a NIC does, until nothing waits."""
        delay = 0.0
        while True:
            time.sleep(delay)
            with self._lock:
                if (delay := self._progress()) < 0:
                    return

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
        if status == _RNR:
            code = self._peer.words[self._peer_place // 8 + _arena.RNR_TIMER] or 32
            steps = 1 if code == 1 else 2 ** (code // 2) * (1.5 if code % 2 else 1)
            return 1e-5 * steps, float("inf") if attr.rnr_retry == 7 else attr.rnr_retry
        return (4.096e-6 * 2**attr.timeout, attr.retry_cnt) if attr.timeout else (1e-3, float("inf"))

    def _spans(self, wr: SendWR, access: int) -> Spans | None:
        """Return where the pieces of a request lie, or None if a key forbids it; inline data needs no key."""
        own, spans = self._own, []
        for piece in wr.sg:
            if wr.send_flags & _INLINE:
                at = piece.addr - own.base if own.owns(piece.addr, piece.length) else -1
            else:
                at = own.find(piece.lkey, piece.addr, piece.length, access, self._domain)
            if at < 0:
                return None
            spans.append((at, piece.length))
        return spans

    def _execute(self, wr: SendWR, total: int, spans: Spans | None = None) -> int:
        """Do an operation; return its status, or `_RNR` or `_LOST`, after which it may be tried again."""
        op = wr.opcode
        spans = spans or self._spans(wr, _LOCAL_WRITE if op >= _READ else 0)
        if spans is None:
            return _LOC_PROT
        if total > _LONGEST or (op >= _CAS and total != 8):
            return _LOC_LEN
        if self.qp_type == _UD:
            status = self._datagram(wr, total, spans)
        else:
            status = self._connected(wr, op, total, spans)
        if status == _OK:
            self._counters.transfers += 1
            self._counters.bytes += total
            if wr.send_flags & _INLINE:
                self._counters.copies += 1
        elif self.qp_type != _RC and status not in (_LOC_LEN, _LOC_QP_OP):
            return _OK  # unreliable: it is dropped, and nobody is told
        return status

    def _connected(self, wr: SendWR, op: int, total: int, spans: Spans) -> int:
        peer, seen = self._peer, (self._words[CHANGES], self._peer_words[CHANGES])
        fields = _arena.QP_ROW.unpack_from(peer.map, self._peer_place)
        state, kind, domain, access, dest, token, _, _, _, psn = fields
        if (
            not (state == _RTS or state == _RTR)
            or dest != self.qp_num
            or token != self._own.token
            or kind != self.qp_type
            or psn != self._psn
            or not peer.alive
        ):
            return _LOST
        if op == _SEND or op == _SEND_IMM:
            return self._deliver(wr, total, spans, peer, self._peer_place)
        need = _REMOTE_WRITE if op <= _WRITE_IMM else _REMOTE_READ if op == _READ else _REMOTE_ATOMIC
        to = peer.find(wr.rkey, wr.remote_addr, total, need, domain) if total and access & need else -1 if total else 0
        if op >= _READ and not self._attr.max_rd_atomic:
            return _LOC_QP_OP
        wrong = op >= _READ and not peer.words[self._peer_place // 8 + _arena.READS]
        if wrong or to < 0 or (op >= _CAS and wr.remote_addr & 7):
            if self.qp_type == _RC:
                peer.fail(self._peer_place // 8, self._attr.dest_qp_num)
            return _REM_ACCESS if to < 0 else _REM_INV_REQ
        if op == _WRITE:
            move(self._own, spans, peer, ((to, total),))
            self._remember(wr, seen, self._own, spans, peer, ((to, total),))
        elif op == _WRITE_IMM:
            return self._deliver(wr, total, spans, peer, self._peer_place, (to, total))
        elif op == _READ:
            move(peer, ((to, total),), self._own, spans)
            self._remember(wr, seen, peer, ((to, total),), self._own, spans)
        else:
            self._atomic(wr, peer, to, spans)
        return _OK

    def _remember(
        self, wr: SendWR, seen: tuple[int, int], src: Arena, spans: Spans, dst: Arena, targets: Spans
    ) -> None:
        """Keep what `_again` needs: the state of both tables, what to copy, and what to tell."""
        if len(spans) == len(targets) == 1 and not wr.send_flags & _INLINE and (n := spans[0][1]):
            piece, at, to = wr.sg[0], spans[0][0], targets[0][0]
            key = wr.opcode, wr.wr_id, wr.send_flags, wr.rkey, wr.remote_addr, piece.addr, piece.length, piece.lkey
            told = self._all or wr.send_flags & _SIGNALED
            if n == 8 and not (at | to) & 7:
                copy: tuple[Any, ...] = dst.words, to >> 3, src.words, at >> 3
            else:
                copy = dst.bytes, slice(to, to + n), src.bytes, slice(at, at + n)
            if len(self._known) > _KNOWN:
                self._known.clear()
            self._known[key] = *seen, *copy, told and WC(wr.wr_id, _OK, _TOLD[wr.opcode], n, self.qp_num)

    def _atomic(self, wr: SendWR, peer: Arena, to: int, spans: Spans) -> None:
        with peer.lock(to):
            old = peer.words[to >> 3]
            if wr.opcode == _FAA:
                peer.words[to >> 3] = (old + wr.compare_add) % 2**64
            elif old == wr.compare_add:
                peer.words[to >> 3] = wr.swap
        result = old.to_bytes(8, "little")
        for at, n in spans:
            self._own.bytes[at : at + n], result = result[:n], result[n:]

    def _datagram(self, wr: SendWR, total: int, spans: Spans) -> int:
        if wr.ah is None:
            return _LOC_QP_OP
        if total > 4096:  # the active MTU of the port
            return _LOC_LEN
        peer, place = wr.ah.peer, 8 * row(wr.qpn)
        state, kind = _arena.QP_ROW.unpack_from(peer.map, place)[:2]
        if kind != _UD or not _RTR <= state < ERR or not peer.alive:
            return _LOST
        if peer.words[place // 8 + _arena.QKEY] != wr.qkey:
            return _LOST
        self._own.bytes[self._header + 24 : self._header + _GRH] = bytes.fromhex(peer.gid.replace(":", ""))
        return self._deliver(wr, total + _GRH, [(self._header, _GRH), *spans], peer, place)

    def _deliver(
        self, wr: SendWR, total: int, spans: Spans, peer: Arena, place: int, to: tuple[int, int] | None = None
    ) -> int:
        """Put a message into the receiver's oldest buffer (WRITE with immediate: to ``to``), and tell the receiver."""
        _, _, domain, _, _, _, rq, rcq, _, _ = _arena.QP_ROW.unpack_from(peer.map, place)
        number, status, opcode = place_number(place), _OK, e.ibv_wc_opcode.IBV_WC_RECV
        flags = (e.ibv_wc_flags.IBV_WC_WITH_IMM if wr.opcode in (_WRITE_IMM, _SEND_IMM) else 0) | (self.qp_type == UD)
        with peer.lock():
            if peer.words[rq + HEAD] == peer.words[rq + TAIL]:
                return _RNR
            wr_id, pieces = peer.receive(rq)
            if to:
                targets, opcode = [to], e.ibv_wc_opcode.IBV_WC_RECV_RDMA_WITH_IMM
            else:
                targets = [(peer.find(key, addr, n, _LOCAL_WRITE, domain), n) for addr, n, key in pieces]
            if any(at < 0 for at, _ in targets):
                status = _LOC_PROT
            elif sum(n for _, n in targets) < total:
                status = _LOC_LEN
            else:
                move(self._own, spans, peer, targets)
            imm = wr.imm_data if flags & e.ibv_wc_flags.IBV_WC_WITH_IMM else 0
            entry = (wr_id, status, opcode, total, number, self.qp_num, imm, flags, 0)
            told = peer.complete(rcq, rq, entry, bool(wr.send_flags & _SOLICITED))
        if status or not told:
            peer.fail(place // 8, number)
        return _REM_INV_REQ if status == _LOC_LEN else _REM_OP if status or not told else _OK

    def _close(self) -> None:
        self._waiting.clear()
        self._words[self._row + STATE] = RESET
        self._words[self._row + _arena.DEST] = 0
        self._own.changed()

    def __repr__(self) -> str:
        """Return it as a person would type it."""
        return f"QP(qp_num={self.qp_num}, {e.ibv_qp_type(self.qp_type).name}, {e.ibv_qp_state(self.qp_state).name})"


def row(qp_num: int) -> int:
    """Return where the row of a queue pair begins, in words."""
    return _arena.QP_TABLE // 8 + qp_num % _arena.ROWS * _arena.QP_WORDS


def place_number(place: int) -> int:
    """Return the number of the queue pair whose row begins at a byte."""
    return (place - _arena.QP_TABLE) // (8 * _arena.QP_WORDS)
