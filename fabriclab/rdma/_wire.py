"""What a NIC does with a request: find every piece by its key, check, move, and tell the receiver.

With a seed (`Context.adversary`) it does its worst within the rules: it waits, lands the bytes of a message in any
order, loses what may be lost, and lets a request overtake another one where no rule forbids it.

References
----------
.. [1] InfiniBand Architecture Specification 1.4, vol. 1: 9.5 transaction ordering, 10.8.3.3 send queue ordering rules.
"""

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from fabriclab.rdma import _arena
from fabriclab.rdma import enums as e
from fabriclab.rdma._arena import CHANGES, HEAD, TAIL, Arena, Spans
from fabriclab.rdma.records import SendWR

# Plain numbers: members of an enumeration would cost as much as the work itself.
WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CAS, FAA = range(7)
TOLD = (1, 1, 0, 0, 2, 3, 4)  # the opcode of its completion
RIGHTS = (2, 2, 0, 0, 4, 8, 8)  # what it needs of the remote region and queue pair
FENCE, SIGNALED, SOLICITED, INLINE = 1, 2, 4, 8
OK, LOC_LEN, LOC_QP_OP, LOC_PROT, FLUSH = 0, 1, 2, 4, 5
REM_INV_REQ, REM_ACCESS, REM_OP, RETRY_EXC, RNR_EXC = 9, 10, 11, 12, 13
RNR, LOST = -1, -2  # not ends: the receiver has no buffer, or does not answer
# [B] header before a datagram, its longest payload, and the longest message
GRH, MTU, LONGEST = (40, 4096, 2**31)
KNOWN = 1024  # pairs of keys of which the outcome of the checks is kept
LOSS, PAUSE = 0.2, 3e-4  # of a NIC at its worst: share of messages that it loses, longest pause [s]
RESET, INIT, RTR, RTS, SQD, SQE, ERR = range(7)
RC, UC, UD = 2, 3, 4


@dataclass(slots=True, eq=False)
class Posted:
    """A request with its bytes, its number, where its inline data is kept, and its outcome.

    What a NIC at its worst does to it comes from ``draws``, made when it is posted: the clock changes nothing of it.
    """

    wr: SendWR
    total: int
    index: int
    draws: random.Random | None = None
    kept: Spans | None = None
    status: int | None = None
    eager: bool = False  # overtakes another one where it may
    early: bool = False  # is done before its turn

    def overtakes(self, first: Self, kind: int) -> bool:
        """Return whether it is done before the one that was posted before it."""
        free = (
            first.wr.opcode >= READ and self.wr.opcode == WRITE and not self.wr.send_flags & FENCE
        )
        return self.eager and (free or kind == UD)

    def pause(self) -> None:
        """Wait, at worst."""
        if self.draws:
            time.sleep(self.draws.uniform(PAUSE / 10, PAUSE))

    def land(self, src: Arena, spans: Spans, dst: Arena, targets: Spans) -> None:
        """Copy the bytes of ``spans`` in ``src`` to ``targets`` in ``dst``; a single aligned word is a single store."""
        for at, to, n in self.pieces(spans, targets):
            if n == 8 and not (at | to) & 7:
                dst.words[to >> 3] = src.words[at >> 3]
            else:
                dst.bytes[to : to + n] = src.bytes[at : at + n]
            self.pause()

    def pieces(self, spans: Spans, targets: Spans) -> Iterable[tuple[int, int, int]]:
        """Return what to copy; at worst small pieces in any order, none of which ends within a word of the target."""
        if not self.draws:
            return _arena.pieces(spans, targets)
        found = list(
            _arena.pieces(spans, targets, 8 * max(1, self.total // (8 * self.draws.randint(4, 8))))
        )
        self.draws.shuffle(found)
        return found


def local(qp: Any, wr: SendWR, access: int) -> Spans | None:
    """Return where the pieces of a request lie, or None if a key forbids it; inline data needs no key."""
    own, pd, inline = qp.own, qp.pd.number, wr.send_flags & INLINE
    find = own.inside if inline else lambda addr, n, key: own.find(key, addr, n, access, pd)
    spans = [(find(p.addr, p.length, p.lkey), p.length) for p in wr.sg]
    return None if min(spans)[0] < 0 else spans


def execute(qp: Any, one: Posted) -> int:
    """Do an operation; return its status, or `RNR` or `LOST`, after which it may be tried again."""
    wr, total = one.wr, one.total
    spans = one.kept or local(qp, wr, e.IBV_ACCESS_LOCAL_WRITE if wr.opcode >= READ else 0)
    if spans is None:
        return LOC_PROT
    if total > LONGEST or (wr.opcode >= CAS and total != 8):
        return LOC_LEN
    if one.draws and qp.qp_type != RC and one.draws.random() < LOSS:
        return OK
    status = (_datagram if qp.qp_type == UD else _connected)(qp, one, spans)
    if status == OK:
        qp.counters.transfers += 1
        qp.counters.bytes += total
        qp.counters.copies += bool(wr.send_flags & INLINE)
    dropped = qp.qp_type != RC and status not in (LOC_LEN, LOC_QP_OP)  # and nobody is told
    return OK if dropped else status


def _connected(qp: Any, one: Posted, spans: Spans) -> int:
    wr, total, own, peer = one.wr, one.total, qp.own, qp.peer
    op, need = wr.opcode, RIGHTS[wr.opcode]
    seen = own.words[CHANGES], peer.words[CHANGES]
    state, domain, access, _, _, _, *who = _arena.QP_ROW.unpack_from(peer.map, 8 * qp.peer_row)
    if not RTR <= state <= RTS or tuple(who) != qp.expected or not peer.alive:
        return LOST
    if op >= READ and not qp.attr.max_rd_atomic:
        return LOC_QP_OP
    to = 0
    if need and total:
        to = (
            peer.find(wr.rkey, wr.remote_addr, total, need, domain) if access & need == need else -1
        )
    no_reads = op >= READ and not peer.words[qp.peer_row + _arena.READS]
    if to < 0 or no_reads or (op >= CAS and to & 7):
        if one.early:
            return LOST  # it fails in its turn
        if qp.qp_type == RC:
            peer.fail(qp.attr.dest_qp_num)
        return REM_ACCESS if to < 0 else REM_INV_REQ
    if WRITE < op < READ:
        return _deliver(qp, one, spans, peer, qp.attr.dest_qp_num, to)
    if op >= CAS:
        with peer.lock(to):
            old = peer.words[to >> 3]
            if op == FAA or old == wr.compare_add:
                peer.words[to >> 3] = (old + wr.compare_add) % 2**64 if op == FAA else wr.swap
        result = old.to_bytes(8, "little")
        for at, n in spans:
            own.bytes[at : at + n], result = result[:n], result[n:]
    elif op == READ:
        one.land(peer, [(to, total)], own, spans)
    else:
        one.land(own, spans, peer, [(to, total)])
    plain = (
        op in (WRITE, READ)
        and len(wr.sg) == 1
        and total
        and not (one.draws or wr.send_flags & INLINE)
    )
    if plain:  # what the next one needs
        if len(qp.known) > KNOWN:
            qp.known.clear()
        bounds = (
            *own.region(key := wr.sg[0].lkey)[2:4],
            *peer.region(wr.rkey)[2:4],
            own.base,
            peer.base,
        )
        qp.known[op, key, wr.rkey] = (
            *seen,
            own.words,
            peer.words,
            *bounds,
            qp.scq,
            qp.cap.max_send_wr,
            qp.counters,
        )
    return OK


def _datagram(qp: Any, one: Posted, spans: Spans) -> int:
    wr, own = one.wr, qp.own
    if wr.ah is None or one.total > MTU:
        return LOC_QP_OP if wr.ah is None else LOC_LEN
    peer, its = wr.ah.peer, _arena.qp_row(wr.qpn)
    kind, qkey = peer.words[its + _arena.TYPE], peer.words[its + _arena.QKEY]
    if (kind, qkey) != (UD, wr.qkey) or not RTR <= peer.words[its] < ERR or not peer.alive:
        return LOST
    header = bytes.fromhex("0" * 16 + own.gid.replace(":", "") + peer.gid.replace(":", ""))
    own.bytes[qp.header : qp.header + GRH] = header
    return _deliver(qp, one, [(qp.header, GRH), *spans], peer, wr.qpn)


def _deliver(qp: Any, one: Posted, spans: Spans, peer: Arena, qpn: int, to: int = 0) -> int:
    """Put a message into the receiver's oldest buffer (WRITE with immediate: to ``to``), and tell the receiver."""
    wr, total = one.wr, sum([n for _, n in spans])
    domain, rq, rcq = (
        peer.words[_arena.qp_row(qpn) + field] for field in (_arena.PD, _arena.RQ, _arena.RCQ)
    )
    status, with_imm, opcode = OK, wr.opcode != SEND, e.IBV_WC_RECV + (wr.opcode == WRITE_IMM)
    flags = (qp.qp_type == UD) | with_imm << 1
    with peer.lock():
        if peer.words[rq + HEAD] == peer.words[rq + TAIL]:
            return RNR
        wr_id, buffers = peer.receive(rq)
        targets = [(peer.find(key, addr, n, 1, domain), n) for addr, n, key in buffers]
        if wr.opcode == WRITE_IMM:
            targets = [(to, total)]
        if min(targets)[0] < 0 or sum([n for _, n in targets]) < total:
            status = LOC_PROT if min(targets)[0] < 0 else LOC_LEN
        else:
            one.land(qp.own, spans, peer, targets)
        entry = (wr_id, status, opcode, total, qpn, qp.qp_num, wr.imm_data * with_imm, flags)
        told = peer.complete(rcq, rq, entry, bool(wr.send_flags & SOLICITED))
    if status or not told:
        peer.fail(qpn)
    return REM_INV_REQ if status == LOC_LEN else REM_OP if status or not told else OK
