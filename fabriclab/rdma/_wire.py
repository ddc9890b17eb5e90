"""What a NIC does with a request: find every piece by its key, check, move, and tell the receiver."""

from typing import Any

from fabriclab.rdma import _arena
from fabriclab.rdma import enums as e
from fabriclab.rdma._arena import CHANGES, HEAD, TAIL, Arena, Spans, move
from fabriclab.rdma.cq import CQ, WC
from fabriclab.rdma.device import PD, Closes, Counters
from fabriclab.rdma.qp_attr import QPAttr
from fabriclab.rdma.wr import SendWR

# Plain numbers: members of an enumeration would cost as much as the work itself.
WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CAS, FAA = range(7)
TOLD = (1, 1, 0, 0, 2, 3, 4)  # the opcode of its completion
RIGHTS = (2, 2, 0, 0, 4, 8, 8)  # what it needs of the remote region and queue pair
SIGNALED, SOLICITED, INLINE = 2, 4, 8
OK, LOC_LEN, LOC_QP_OP, LOC_PROT, FLUSH = 0, 1, 2, 4, 5
REM_INV_REQ, REM_ACCESS, REM_OP, RETRY_EXC, RNR_EXC = 9, 10, 11, 12, 13
RNR, LOST = -1, -2  # not ends: the receiver has no buffer, or does not answer
GRH, MTU, LONGEST = 40, 4096, 2**31  # [B] header before a datagram, its longest payload, and the longest message
KNOWN = 1024  # requests of which the outcome of the checks is kept
RTR, RTS, ERR, RC, UD = 2, 3, 6, 2, 4


class Wire(Closes):
    """The half of a queue pair that does what is posted."""

    qp_num: int
    qp_type: int
    pd: PD
    _own: Arena
    _peer: Arena
    _peer_row: int
    _expected: tuple[int, int, int, int]  # what the peer's row must say: type, number, token and packet number of mine
    _attr: QPAttr
    _scq: CQ
    _counters: Counters
    _all: int
    _header: int
    _known: dict[tuple[int, ...], tuple[Any, ...]]

    def _remember(self, wr: SendWR, seen: tuple[int, int], src: Arena, at: int, dst: Arena, to: int, n: int) -> None:
        """Keep what `_again` needs: the state of both tables, what to copy, and what to tell."""
        copy: tuple[Any, ...] = dst.bytes, slice(to, to + n), src.bytes, slice(at, at + n)
        if n == 8 and not (at | to) & 7:
            copy = dst.words, to >> 3, src.words, at >> 3
        if len(self._known) > KNOWN:
            self._known.clear()
        told = WC(wr.wr_id, OK, TOLD[wr.opcode], n, self.qp_num) if self._all or wr.send_flags & SIGNALED else None
        [piece] = wr.sg
        key = wr.opcode, wr.wr_id, wr.send_flags, wr.rkey, wr.remote_addr, piece.addr, piece.length, piece.lkey
        self._known[key] = *seen, *copy, told

    def _spans(self, wr: SendWR, access: int) -> Spans | None:
        """Return where the pieces of a request lie, or None if a key forbids it; inline data needs no key."""
        find, domain = self._own.find, self.pd.number
        if wr.send_flags & INLINE:
            spans = [(self._own.inside(p.addr, p.length), p.length) for p in wr.sg]
        else:
            spans = [(find(p.lkey, p.addr, p.length, access, domain), p.length) for p in wr.sg]
        return None if min(spans)[0] < 0 else spans

    def _execute(self, wr: SendWR, total: int, spans: Spans | None = None) -> int:
        """Do an operation; return its status, or `RNR` or `LOST`, after which it may be tried again."""
        spans = spans or self._spans(wr, e.ibv_access_flags.IBV_ACCESS_LOCAL_WRITE if wr.opcode >= READ else 0)
        if spans is None:
            return LOC_PROT
        if total > LONGEST or (wr.opcode >= CAS and total != 8):
            return LOC_LEN
        status = (self._datagram if self.qp_type == UD else self._connected)(wr, total, spans)
        if status == OK:
            self._counters.transfers += 1
            self._counters.bytes += total
            self._counters.copies += bool(wr.send_flags & INLINE)
        dropped = self.qp_type != RC and status not in (LOC_LEN, LOC_QP_OP)  # and nobody is told
        return OK if dropped else status

    def _connected(self, wr: SendWR, total: int, spans: Spans) -> int:
        op, own, peer, need = wr.opcode, self._own, self._peer, RIGHTS[wr.opcode]
        seen = own.words[CHANGES], peer.words[CHANGES]
        state, domain, access, _, _, _, *who = _arena.QP_ROW.unpack_from(peer.map, 8 * self._peer_row)
        if not RTR <= state <= RTS or tuple(who) != self._expected or not peer.alive:
            return LOST
        if op >= READ and not self._attr.max_rd_atomic:
            return LOC_QP_OP
        to = 0
        if need and total:
            to = peer.find(wr.rkey, wr.remote_addr, total, need, domain) if access & need == need else -1
        no_reads = op >= READ and not peer.words[self._peer_row + _arena.READS]
        if to < 0 or no_reads or (op >= CAS and to & 7):
            if self.qp_type == RC:
                peer.fail(self._attr.dest_qp_num)
            return REM_ACCESS if to < 0 else REM_INV_REQ
        if WRITE < op < READ:
            return self._deliver(wr, total, spans, peer, self._attr.dest_qp_num, to)
        if op >= CAS:
            with peer.lock(to):
                old = peer.words[to >> 3]
                if op == FAA or old == wr.compare_add:
                    peer.words[to >> 3] = (old + wr.compare_add) % 2**64 if op == FAA else wr.swap
            result = old.to_bytes(8, "little")
            for at, n in spans:
                own.bytes[at : at + n], result = result[:n], result[n:]
            return OK
        far = [(to, total)]
        src, its, dst, theirs = (peer, far, own, spans) if op == READ else (own, spans, peer, far)
        move(src, its, dst, theirs)
        if len(wr.sg) == 1 and total and not wr.send_flags & INLINE:
            self._remember(wr, seen, src, its[0][0], dst, theirs[0][0], total)
        return OK

    def _datagram(self, wr: SendWR, total: int, spans: Spans) -> int:
        if wr.ah is None or total > MTU:
            return LOC_QP_OP if wr.ah is None else LOC_LEN
        peer, its = wr.ah.peer, _arena.qp_row(wr.qpn)
        kind, qkey = peer.words[its + _arena.TYPE], peer.words[its + _arena.QKEY]
        if (kind, qkey) != (UD, wr.qkey) or not RTR <= peer.words[its] < ERR or not peer.alive:
            return LOST
        header = bytes.fromhex("0" * 16 + self._own.gid.replace(":", "") + peer.gid.replace(":", ""))
        self._own.bytes[self._header : self._header + GRH] = header
        return self._deliver(wr, total + GRH, [(self._header, GRH), *spans], peer, wr.qpn)

    def _deliver(self, wr: SendWR, total: int, spans: Spans, peer: Arena, qpn: int, to: int = 0) -> int:
        """Put a message into the receiver's oldest buffer (WRITE with immediate: to ``to``), and tell the receiver."""
        domain, rq, rcq = (peer.words[_arena.qp_row(qpn) + field] for field in (_arena.PD, _arena.RQ, _arena.RCQ))
        status, with_imm, opcode = OK, wr.opcode != SEND, e.ibv_wc_opcode.IBV_WC_RECV + (wr.opcode == WRITE_IMM)
        flags = (self.qp_type == UD) | with_imm << 1
        with peer.lock():
            if peer.words[rq + HEAD] == peer.words[rq + TAIL]:
                return RNR
            wr_id, pieces = peer.receive(rq)
            targets = [(peer.find(key, addr, n, 1, domain), n) for addr, n, key in pieces]
            if wr.opcode == WRITE_IMM:
                targets = [(to, total)]
            if min(targets)[0] < 0 or sum([n for _, n in targets]) < total:
                status = LOC_PROT if min(targets)[0] < 0 else LOC_LEN
            else:
                move(self._own, spans, peer, targets)
            entry = (wr_id, status, opcode, total, qpn, self.qp_num, wr.imm_data * with_imm, flags, 0)
            told = peer.complete(rcq, rq, entry, bool(wr.send_flags & SOLICITED))
        if status or not told:
            peer.fail(qpn)
        return REM_INV_REQ if status == LOC_LEN else REM_OP if status or not told else OK
