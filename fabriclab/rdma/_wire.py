"""What a NIC does with a request: look up every piece by its key, check it, move the bytes, and notify the receiver.

With a seed (`Context.adversary`) the NIC behaves as badly as the rules allow: it waits, writes the bytes of a message
in any order, loses what may be lost, and lets a request overtake another where no rule forbids it.

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

# Values of `enums` as plain numbers: completions show status and opcode as numbers, as those of pyverbs do, and a name
# of this module is found faster than a member of an enumeration.
WRITE = int(e.IBV_WR_RDMA_WRITE)
WRITE_IMM = int(e.IBV_WR_RDMA_WRITE_WITH_IMM)
SEND = int(e.IBV_WR_SEND)
SEND_IMM = int(e.IBV_WR_SEND_WITH_IMM)
READ = int(e.IBV_WR_RDMA_READ)
CAS = int(e.IBV_WR_ATOMIC_CMP_AND_SWP)
FAA = int(e.IBV_WR_ATOMIC_FETCH_AND_ADD)

# For each opcode: the opcode of its completion, and the access right that the remote region and queue pair must grant
# (0: none).
COMPLETED_AS = (
    int(e.IBV_WC_RDMA_WRITE),
    int(e.IBV_WC_RDMA_WRITE),
    int(e.IBV_WC_SEND),
    int(e.IBV_WC_SEND),
    int(e.IBV_WC_RDMA_READ),
    int(e.IBV_WC_COMP_SWAP),
    int(e.IBV_WC_FETCH_ADD),
)
RIGHTS = (
    int(e.IBV_ACCESS_REMOTE_WRITE),
    int(e.IBV_ACCESS_REMOTE_WRITE),
    0,
    0,
    int(e.IBV_ACCESS_REMOTE_READ),
    int(e.IBV_ACCESS_REMOTE_ATOMIC),
    int(e.IBV_ACCESS_REMOTE_ATOMIC),
)

FENCE = int(e.IBV_SEND_FENCE)
SIGNALED = int(e.IBV_SEND_SIGNALED)
SOLICITED = int(e.IBV_SEND_SOLICITED)
INLINE = int(e.IBV_SEND_INLINE)

OK = int(e.IBV_WC_SUCCESS)
LOC_LEN = int(e.IBV_WC_LOC_LEN_ERR)
LOC_QP_OP = int(e.IBV_WC_LOC_QP_OP_ERR)
LOC_PROT = int(e.IBV_WC_LOC_PROT_ERR)
FLUSH = int(e.IBV_WC_WR_FLUSH_ERR)
REM_INV_REQ = int(e.IBV_WC_REM_INV_REQ_ERR)
REM_ACCESS = int(e.IBV_WC_REM_ACCESS_ERR)
REM_OP = int(e.IBV_WC_REM_OP_ERR)
RETRY_EXC = int(e.IBV_WC_RETRY_EXC_ERR)
RNR_EXC = int(e.IBV_WC_RNR_RETRY_EXC_ERR)
# Outcomes that are not the status of a completion: the request may be tried again.
RNR = -1  # the receiver has no buffer
LOST = -2  # the receiver does not answer

RESET = int(e.IBV_QPS_RESET)
INIT = int(e.IBV_QPS_INIT)
RTR = int(e.IBV_QPS_RTR)
RTS = int(e.IBV_QPS_RTS)
SQE = int(e.IBV_QPS_SQE)
ERR = int(e.IBV_QPS_ERR)

RC = int(e.IBV_QPT_RC)
UC = int(e.IBV_QPT_UC)
UD = int(e.IBV_QPT_UD)

GRH = 40  # [B] header in front of a datagram
MTU = 4096  # [B] longest payload of a datagram
LONGEST = 2**31  # [B] longest message
KNOWN = 1024  # number of pairs of keys for which the outcome of the checks is kept
# For a NIC at its worst:
LOSS = 0.2  # share of messages that it loses, where it may
PAUSE = 3e-4  # [s] its longest pause


@dataclass(slots=True)
class Checked:
    """The outcome of the checks of a WRITE or READ, which the next one with the same opcode and keys need not repeat.

    It is valid while CHANGES of both segments keep their values. It is not frozen, because that would take twice as
    long to make, and one is made for each request off the quick path.
    """

    own_changes: int
    peer_changes: int
    own_words: memoryview
    peer_words: memoryview
    # first address, and address after the last, of this side's region and of the peer's
    own_start: int
    own_end: int
    peer_start: int
    peer_end: int
    # address of each segment in the process that owns it
    own_base: int
    peer_base: int


@dataclass(slots=True, eq=False)
class Posted:
    """A request that was posted, with its outcome so far.

    ``draws`` decides what a NIC at its worst does to it. They are made when the request is posted, so that they do not
    depend on timing.
    """

    wr: SendWR
    total: int  # [B] in all its pieces
    index: int  # its number among the requests of the queue pair, from 1
    draws: random.Random | None = None
    kept: Spans | None = None  # where its inline data is kept
    status: int | None = None  # its outcome, if it was done before its turn
    eager: bool = False  # whether it overtakes another request where it may
    early: bool = False  # whether it is being done before its turn

    def overtakes(self, first: Self, kind: int) -> bool:
        """Return whether this request is done before ``first``, which was posted before it."""
        if kind == UD:
            return self.eager
        answered = first.wr.opcode >= READ  # a READ or atomic: its answer may come late
        fenced = bool(self.wr.send_flags & FENCE)
        return self.eager and answered and self.wr.opcode == WRITE and not fenced

    def pause(self) -> None:
        """Wait for a random time, on a NIC at its worst only."""
        if self.draws:
            time.sleep(self.draws.uniform(PAUSE / 10, PAUSE))

    def land(self, src: Arena, spans: Spans, dst: Arena, targets: Spans) -> None:
        """Copy the bytes of ``spans`` in ``src`` to ``targets`` in ``dst``; an aligned word takes a single store."""
        for at, to, n in self.pieces(spans, targets):
            if n == 8 and not (at | to) & 7:
                dst.words[to >> 3] = src.words[at >> 3]
            else:
                dst.bytes[to : to + n] = src.bytes[at : at + n]
            self.pause()

    def pieces(self, spans: Spans, targets: Spans) -> Iterable[tuple[int, int, int]]:
        """Return the parts of a copy; at worst small ones in any order, none of which splits a word of the target."""
        if not self.draws:
            return _arena.pieces(spans, targets)
        words = self.total // (8 * self.draws.randint(4, 8))  # 4 to 8 pieces, of whole words
        found = list(_arena.pieces(spans, targets, 8 * max(1, words)))
        self.draws.shuffle(found)
        return found


def local(qp: Any, wr: SendWR, access: int) -> Spans | None:
    """Return where the pieces of a request lie in memory, or None if a key forbids it; inline data needs no key."""
    own = qp.own
    pd = qp.pd.number
    spans = []
    for piece in wr.sg:
        if wr.send_flags & INLINE:
            at = own.inside(piece.addr, piece.length)
        else:
            at = own.find(piece.lkey, piece.addr, piece.length, access, pd)
        spans.append((at, piece.length))
    if _forbidden(spans):
        return None
    return spans


def _forbidden(spans: Spans) -> bool:
    """Return whether a key forbids access to one of the pieces."""
    lowest, _ = min(spans)
    return lowest < 0


def _bytes(spans: Spans) -> int:
    """Return the total length of the pieces [B]."""
    return sum([size for _, size in spans])


def execute(qp: Any, one: Posted) -> int:
    """Perform an operation and return its status, or `RNR` or `LOST`, after which it may be tried again."""
    wr = one.wr
    total = one.total
    spans = one.kept
    if not spans:
        access = e.IBV_ACCESS_LOCAL_WRITE if wr.opcode >= READ else 0
        spans = local(qp, wr, access)
    if spans is None:
        return LOC_PROT
    if total > LONGEST or (wr.opcode >= CAS and total != 8):
        return LOC_LEN
    if one.draws and qp.qp_type != RC and one.draws.random() < LOSS:
        return OK

    if qp.qp_type == UD:
        status = _datagram(qp, one, spans)
    else:
        status = _connected(qp, one, spans)

    if status == OK:
        qp.counters.slow_transfers += 1
        qp.counters.bytes += total
        if wr.send_flags & INLINE:
            qp.counters.copies += 1
    if qp.qp_type != RC and status not in (LOC_LEN, LOC_QP_OP):
        return OK  # an unreliable service does not report what it lost
    return status


def _connected(qp: Any, one: Posted, spans: Spans) -> int:
    """Perform an operation of a connected pair: check peer, access right and remote memory, then move the bytes."""
    wr = one.wr
    total = one.total
    own = qp.own
    peer = qp.peer
    op = wr.opcode
    right = RIGHTS[op]
    own_changes = own.words[CHANGES]
    peer_changes = peer.words[CHANGES]

    row = _arena.QP_ROW.unpack_from(peer.map, 8 * qp.peer_row)
    state, domain, access = row[:3]
    if not RTR <= state <= RTS or row[_arena.TYPE :] != qp.expected or not peer.alive:
        return LOST
    if op >= READ and not qp.attr.max_rd_atomic:
        return LOC_QP_OP

    to = 0  # offset of the remote memory, -1 where it is forbidden
    if right and total:
        to = -1
        if access & right == right:
            to = peer.find(wr.rkey, wr.remote_addr, total, right, domain)
    no_reads = op >= READ and not peer.words[qp.peer_row + _arena.READS]
    misaligned = op >= CAS and to & 7
    if to < 0 or no_reads or misaligned:
        if one.early:
            return LOST  # it will fail when its turn comes
        if qp.qp_type == RC:
            peer.fail(qp.attr.dest_qp_num)
        return REM_ACCESS if to < 0 else REM_INV_REQ

    if op in (WRITE_IMM, SEND, SEND_IMM):
        return _deliver(qp, one, spans, peer, qp.attr.dest_qp_num, to)
    if op >= CAS:
        _atomic(wr, own, spans, peer, to)
        return OK

    if op == READ:
        one.land(peer, [(to, total)], own, spans)
    else:
        one.land(own, spans, peer, [(to, total)])
    if total and len(wr.sg) == 1 and not one.draws and not wr.send_flags & INLINE:
        _remember(qp, wr, own_changes, peer_changes)
    return OK


def _atomic(wr: SendWR, own: Arena, spans: Spans, peer: Arena, to: int) -> None:
    """Add to the peer's word at ``to``, or compare and swap it, and put its old value into the pieces."""
    word = to >> 3
    with peer.lock(to):
        old = peer.words[word]
        if wr.opcode == FAA:
            peer.words[word] = (old + wr.compare_add) % 2**64
        elif old == wr.compare_add:
            peer.words[word] = wr.swap

    result = old.to_bytes(8, "little")
    for at, size in spans:
        own.bytes[at : at + size] = result[:size]
        result = result[size:]


def _remember(qp: Any, wr: SendWR, own_changes: int, peer_changes: int) -> None:
    """Keep the outcome of the checks of a WRITE or READ for `QP.post_send`.

    ``own_changes`` and ``peer_changes`` were read before the checks, so a change in between makes the outcome invalid.
    """
    own = qp.own
    peer = qp.peer
    lkey = wr.sg[0].lkey
    _, _, own_start, own_end, _ = own.region(lkey)
    _, _, peer_start, peer_end, _ = peer.region(wr.rkey)
    if len(qp.known) > KNOWN:
        qp.known.clear()
    qp.known[wr.opcode, lkey, wr.rkey] = Checked(
        own_changes=own_changes,
        peer_changes=peer_changes,
        own_words=own.words,
        peer_words=peer.words,
        own_start=own_start,
        own_end=own_end,
        peer_start=peer_start,
        peer_end=peer_end,
        own_base=own.base,
        peer_base=peer.base,
    )


def _datagram(qp: Any, one: Posted, spans: Spans) -> int:
    """Send a datagram, with a header that contains the addresses of both ends."""
    wr = one.wr
    if wr.ah is None:
        return LOC_QP_OP
    if one.total > MTU:
        return LOC_LEN

    own = qp.own
    peer = wr.ah.peer
    row = _arena.qp_row(wr.qpn)
    kind = peer.words[row + _arena.TYPE]
    qkey = peer.words[row + _arena.QKEY]
    state = peer.words[row + _arena.STATE]
    if kind != UD or qkey != wr.qkey or not RTR <= state < ERR or not peer.alive:
        return LOST

    header = bytes.fromhex("0" * 16 + own.gid.replace(":", "") + peer.gid.replace(":", ""))
    own.bytes[qp.header : qp.header + GRH] = header
    return _deliver(qp, one, [(qp.header, GRH), *spans], peer, wr.qpn)


def _deliver(qp: Any, one: Posted, spans: Spans, peer: Arena, qpn: int, to: int = 0) -> int:
    """Deliver a message to the receiver's oldest buffer and complete it there.

    The data of a WRITE with immediate go to the offset ``to`` instead, but they use up a buffer as well.
    """
    wr = one.wr
    total = _bytes(spans)
    row = _arena.qp_row(qpn)
    domain = peer.words[row + _arena.PD]
    rq = peer.words[row + _arena.RQ]
    rcq = peer.words[row + _arena.RCQ]

    opcode = e.IBV_WC_RECV_RDMA_WITH_IMM if wr.opcode == WRITE_IMM else e.IBV_WC_RECV
    flags = 0
    if qp.qp_type == UD:
        flags |= e.IBV_WC_GRH
    immediate = 0
    if wr.opcode != SEND:
        flags |= e.IBV_WC_WITH_IMM
        immediate = wr.imm_data

    with peer.lock():
        if peer.words[rq + HEAD] == peer.words[rq + TAIL]:
            return RNR
        wr_id, buffers = peer.receive(rq)
        if wr.opcode == WRITE_IMM:
            targets = [(to, total)]
        else:
            access = e.IBV_ACCESS_LOCAL_WRITE
            targets = [(peer.find(key, addr, n, access, domain), n) for addr, n, key in buffers]

        if _forbidden(targets):
            status = LOC_PROT
        elif _bytes(targets) < total:
            status = LOC_LEN
        else:
            status = OK
            one.land(qp.own, spans, peer, targets)
        entry = (wr_id, status, opcode, total, qpn, qp.qp_num, immediate, flags)
        fits = peer.complete(rcq, rq, entry, bool(wr.send_flags & SOLICITED))

    if status or not fits:
        peer.fail(qpn)
    if status == LOC_LEN:
        return REM_INV_REQ
    if status or not fits:
        return REM_OP
    return OK
