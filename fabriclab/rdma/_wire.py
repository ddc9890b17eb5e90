"""What a NIC does with a request: find every piece by its key, check, move, and tell the receiver.

With a seed (`Context.adversary`) it does its worst within the rules: it waits, lands the bytes of a message in any
order, loses what may be lost, and lets a request overtake another one where no rule forbids it.

References
----------
.. [1] InfiniBand Architecture Specification 1.4, vol. 1: 9.5 transaction ordering, 10.8.3.3 send queue ordering rules.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabriclab.rdma import _arena
from fabriclab.rdma import enums as e
from fabriclab.rdma._arena import CHANGES, HEAD, TAIL, Arena, Spans
from fabriclab.rdma.records import SendWR

if TYPE_CHECKING:
    from fabriclab.rdma.qp import QP

# Plain numbers: members of an enumeration would cost as much as the work itself.
WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CAS, FAA = range(7)
TOLD = (1, 1, 0, 0, 2, 3, 4)  # the opcode of its completion
RIGHTS = (2, 2, 0, 0, 4, 8, 8)  # what it needs of the remote region and queue pair
FENCE, SIGNALED, SOLICITED, INLINE = 1, 2, 4, 8
OK, LOC_LEN, LOC_QP_OP, LOC_PROT, FLUSH = 0, 1, 2, 4, 5
REM_INV_REQ, REM_ACCESS, REM_OP, RETRY_EXC, RNR_EXC = 9, 10, 11, 12, 13
RNR, LOST = -1, -2  # not ends: the receiver has no buffer, or does not answer
GRH, MTU, LONGEST = 40, 4096, 2**31  # [B] header before a datagram, its longest payload, and the longest message
KNOWN = 1024  # pairs of keys of which the outcome of the checks is kept
LOSS, PAUSE = 0.2, 3e-4  # of a NIC at its worst: share of messages that it loses, longest pause [s]
RTR, RTS, ERR, RC, UD = 2, 3, 6, 2, 4


class Worst:
    """What a NIC at its worst does to one request, drawn when it is posted: the clock changes nothing of it."""

    def __init__(self, draws: random.Random) -> None:
        self.draws = random.Random(draws.getrandbits(64))
        self.lost = self.draws.random() < LOSS

    def pause(self) -> None:
        """Wait."""
        time.sleep(self.draws.uniform(PAUSE / 10, PAUSE))

    def cut(self, pieces: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """Return pieces in smaller ones, in any order; a target's aligned word stays whole."""
        found = []
        for at, to, n in pieces:
            step = 8 * max(1, n // 32)
            k = 8 * self.draws.randint(1, step // 8) - to % 8
            while n:
                k = min(k, n)
                found.append((at, to, k))
                at, to, n, k = at + k, to + k, n - k, step
        self.draws.shuffle(found)
        return found


@dataclass(slots=True, eq=False)
class Posted:
    """A request with its bytes, its number, where its inline data is kept, and its outcome."""

    wr: SendWR
    total: int
    index: int
    kept: Spans | None = None
    worst: Worst | None = None
    status: int | None = None
    eager: bool = False  # overtakes another one where it may
    early: bool = False  # is done before its turn

    def overtakes(self, first: Posted, kind: int) -> bool:
        """Return whether it is done before the one that was posted before it."""
        free = first.wr.opcode >= READ and self.wr.opcode == WRITE and not self.wr.send_flags & FENCE
        return self.eager and (free or kind == UD)


def land(src: Arena, spans: Spans, dst: Arena, targets: Spans, worst: Worst | None = None) -> None:
    """Copy the bytes of ``spans`` in ``src`` to ``targets`` in ``dst``; a single aligned word is a single store."""
    pieces = _arena.pieces(spans, targets)
    for at, to, n in worst.cut(pieces) if worst else pieces:
        if n == 8 and not (at | to) & 7:
            dst.words[to >> 3] = src.words[at >> 3]
        else:
            dst.bytes[to : to + n] = src.bytes[at : at + n]
        if worst:
            worst.pause()


def local(qp: QP, wr: SendWR, access: int) -> Spans | None:
    """Return where the pieces of a request lie, or None if a key forbids it; inline data needs no key."""
    own = qp.own
    if wr.send_flags & INLINE:
        spans = [(own.inside(p.addr, p.length), p.length) for p in wr.sg]
    else:
        spans = [(own.find(p.lkey, p.addr, p.length, access, qp.pd.number), p.length) for p in wr.sg]
    return None if min(spans)[0] < 0 else spans


def execute(qp: QP, one: Posted) -> int:
    """Do an operation; return its status, or `RNR` or `LOST`, after which it may be tried again."""
    wr, total, worst = one.wr, one.total, one.worst
    spans = one.kept or local(qp, wr, e.IBV_ACCESS_LOCAL_WRITE if wr.opcode >= READ else 0)
    if spans is None:
        return LOC_PROT
    if total > LONGEST or (wr.opcode >= CAS and total != 8):
        return LOC_LEN
    if worst and worst.lost and qp.qp_type != RC:
        return OK
    status = (_datagram if qp.qp_type == UD else _connected)(qp, one, spans)
    if status == OK:
        qp.counters.transfers += 1
        qp.counters.bytes += total
        qp.counters.copies += bool(wr.send_flags & INLINE)
    dropped = qp.qp_type != RC and status not in (LOC_LEN, LOC_QP_OP)  # and nobody is told
    return OK if dropped else status


def _connected(qp: QP, one: Posted, spans: Spans) -> int:
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
        to = peer.find(wr.rkey, wr.remote_addr, total, need, domain) if access & need == need else -1
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
        land(peer, [(to, total)], own, spans, one.worst)
    else:
        land(own, spans, peer, [(to, total)], one.worst)
        if not (wr.send_flags & INLINE or one.worst or len(wr.sg) > 1) and total:
            qp.remember(wr.sg[0].lkey, wr.rkey, *seen)
    return OK


def _datagram(qp: QP, one: Posted, spans: Spans) -> int:
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


def _deliver(qp: QP, one: Posted, spans: Spans, peer: Arena, qpn: int, to: int = 0) -> int:
    """Put a message into the receiver's oldest buffer (WRITE with immediate: to ``to``), and tell the receiver."""
    wr, total = one.wr, sum([n for _, n in spans])
    domain, rq, rcq = (peer.words[_arena.qp_row(qpn) + field] for field in (_arena.PD, _arena.RQ, _arena.RCQ))
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
            land(qp.own, spans, peer, targets, one.worst)
        entry = (wr_id, status, opcode, total, qpn, qp.qp_num, wr.imm_data * with_imm, flags)
        told = peer.complete(rcq, rq, entry, bool(wr.send_flags & SOLICITED))
    if status or not told:
        peer.fail(qpn)
    return REM_INV_REQ if status == LOC_LEN else REM_OP if status or not told else OK
