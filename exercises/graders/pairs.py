"""Queue pairs of the grader's device: what a request does, piece by piece, and how it ends."""

from __future__ import annotations

import itertools
import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .verbs import Machine

WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CAS, FAA = range(7)
_TOLD = (1, 1, 0, 0, 2, 3, 4)  # the opcode of its completion
_RIGHTS = (2, 2, 0, 0, 4, 8, 8)  # what it needs of the remote region and queue pair
FENCE, SIGNALED, SOLICITED, INLINE = 1, 2, 4, 8
OK, LOC_LEN, LOC_PROT, FLUSH, REM_INV_REQ, REM_ACCESS, RETRY_EXC = 0, 1, 4, 5, 9, 10, 12
RESET, INIT, RTR, RTS, ERR = 0, 1, 2, 3, 6
_TRIES, _PATIENCE = (
    8,
    400,
)  # turns of a queue pair until it gives up on a peer that is dead, or not connected yet


@dataclass
class Region:
    """Registered memory of a node."""

    number: int
    at: int
    length: int
    access: int
    pd: int
    lkey: int
    rkey: int


@dataclass
class Queue:
    """A completion queue."""

    room: int
    entries: deque[tuple[list[int], Any, int]] = field(default_factory=deque)
    broken: bool = False
    armed: bool = False


@dataclass
class Op:
    """A posted request, and how far it is."""

    wr: dict[str, Any]
    index: int
    inline: bytes | None = None
    pieces: list[tuple[int, int]] | None = None  # that have not moved yet: offset and length
    result: bytearray = field(default_factory=bytearray)  # of a READ or atomic, until it is done

    @property
    def total(self) -> int:
        """Bytes of the request."""
        return sum(length for _, length, _ in self.wr["sg"])

    @property
    def fetches(self) -> bool:
        """Whether something comes back."""
        return bool(self.wr["opcode"] >= READ)


class Pair:
    """A queue pair of type RC."""

    def __init__(
        self, node: Machine, number: int, pd: int, queues: list[Queue], room: list[int], every: int
    ) -> None:
        self.node, self.number, self.pd, (self.scq, self.rcq), self.every = (
            node,
            number,
            pd,
            queues,
            every,
        )
        self.max_send, self.max_recv, self.max_sge, self.max_inline = room
        self.state, self.access, self.dest, self.tries = RESET, 0, (0, 0), 0
        self.todo, self.done, self.recv = deque[Op](), deque[Op](), deque[dict[str, Any]]()
        self.posted = self.retired = self.changes = 0
        # Of which requests that change remote memory the answer is lost, and whether they are done all the same.
        self.losses = dict[int, bool]()

    @property
    def peer(self) -> Pair | None:
        """The other end, if it is there and connected to this one."""
        machine, number = self.dest
        found = self.node.device.machines[machine].pairs.get(number)
        there = found and not found.node.dead and found.state in (RTR, RTS)
        return found if there and found and found.dest == (self.node.number, self.number) else None

    @property
    def gone(self) -> bool:
        """Whether the node at the other end is dead."""
        return self.node.device.machines[self.dest[0]].dead

    def complete(self, queue: Queue, entry: list[int], index: int = 0) -> None:
        """Put a completion into a queue; one that is full breaks, and with it the pair."""
        if queue.broken or len(queue.entries) >= queue.room:
            queue.broken = True
            self.state = ERR
            return
        queue.entries.append((entry, self, index))
        self.node.device.completions += 1
        self.node.events += queue.armed
        queue.armed = False

    def finish(self, op: Op, status: int) -> None:
        """Say how a request ended, where that is to be said; what it fetched is in its place now."""
        wr = op.wr
        if status == OK and op.fetches:
            self.node.scatter(wr["sg"], op.result)
        if status or self.every or wr["send_flags"] & SIGNALED:
            entry = [wr["wr_id"], status, _TOLD[wr["opcode"]], op.total, self.number, 0, 0, 0, 0]
            self.complete(self.scq, entry, op.index)

    def fail(self, status: int) -> None:
        """End the first request that has not been done with a status, and flush the rest."""
        while self.done:
            self.finish(self.done.popleft(), OK)
        self.node.device.failed(self, self.todo[0], status)
        self.finish(self.todo.popleft(), status)
        self.error()

    def error(self) -> None:
        """Go into the state of error: all that was posted ends there."""
        self.state = ERR
        while self.done:
            self.finish(self.done.popleft(), OK)
        while self.todo:
            self.finish(self.todo.popleft(), FLUSH)
        while self.recv:
            self.complete(
                self.rcq, [self.recv.popleft()["wr_id"], FLUSH, 128, 0, self.number, 0, 0, 0, 0]
            )

    def clear(self) -> None:
        """Forget all that was posted."""
        self.todo.clear()
        self.done.clear()
        self.recv.clear()

    def advance(self) -> None:
        """Do one thing that may be done now, drawn where there is a choice."""
        rng = self.node.device.rng
        waits = (
            self.todo
            and self.todo[0].wr["send_flags"] & FENCE
            and any(op.fetches for op in self.done)
        )
        if self.done and (waits or not self.todo or rng.random() < 0.4):
            self.finish(self.done.popleft(), OK)
        elif self.todo and self.state != RTS:
            self.fail(FLUSH)
        elif self.todo and not waits:
            self._advance(self.todo[0], rng)

    def _advance(self, op: Op, rng: random.Random) -> None:
        peer, kind, number = self.peer, op.wr["opcode"], self.changes
        if op.pieces is None and (status := self._local(op)):
            self.fail(status)
            return
        if peer is None:
            self.tries += 1
            if self.tries > (_TRIES if self.gone else _PATIENCE):
                self.fail(RETRY_EXC)
            return
        self.tries = 0
        if kind in (WRITE_IMM, SEND, SEND_IMM) and not peer.recv:
            return  # the receiver is not ready, and is asked again
        if kind == READ or number not in self.losses:
            self._move(op, peer, rng)
            return
        done = self.losses.pop(number)
        while self.state == RTS and self.changes == number and (done or rng.random() < 0.5):
            self._move(op, peer, rng)
        if self.state == RTS:
            if self.changes > number:
                self.todo.appendleft(self.done.pop())
            self.changes = number + 1
            self.fail(RETRY_EXC)

    def _local(self, op: Op) -> int:
        """Return the status of a request that fails before anything is sent, else 0."""
        need = 1 if op.fetches else 0
        if op.inline is None and not all(
            self.node.find(key, at, n, need, self.pd) for at, n, key in op.wr["sg"]
        ):
            return LOC_PROT
        return LOC_LEN if op.wr["opcode"] >= CAS and op.total != 8 else OK

    def _move(self, op: Op, peer: Pair, rng: random.Random) -> None:
        """Move a piece of a request, or say why not; after its last piece it is done."""
        wr, kind, total, far = op.wr, op.wr["opcode"], op.total, peer.node
        if op.pieces is None:
            needs = _RIGHTS[kind]
            known = far.find(wr["rkey"], wr["remote_addr"], total, needs, peer.pd, remote=True)
            denied = needs and total and not (known and peer.access & needs)
            if denied or (kind >= CAS and wr["remote_addr"] % 8):
                peer.error()
                return self.fail(REM_ACCESS if denied else REM_INV_REQ)
            op.pieces, op.result = _cut(total, rng), bytearray(total)
        if kind >= CAS:
            old = far.load(wr["remote_addr"])
            if kind == FAA or old == wr["compare_add"]:
                far.store(
                    wr["remote_addr"],
                    (old + wr["compare_add"]) % 2**64 if kind == FAA else wr["swap"],
                )
            op.result[:], op.pieces = old.to_bytes(8, "little"), []
        elif op.pieces:
            at, n = op.pieces.pop()
            if kind == READ:
                op.result[at : at + n] = far.peek(wr["remote_addr"] + at, n)
            else:  # a buffer is read when its bytes leave
                data = (
                    self.node.gather(wr["sg"])[at : at + n]
                    if op.inline is None
                    else op.inline[at : at + n]
                )
                if kind in (WRITE, WRITE_IMM):
                    far.put(wr["remote_addr"] + at, data)
                else:
                    op.result[at : at + n] = data
        if not op.pieces:
            self._told(op, peer)

    def _told(self, op: Op, peer: Pair) -> None:
        """Tell the receiver, if the request does; it is done then."""
        kind, total = op.wr["opcode"], op.total
        if kind in (WRITE_IMM, SEND, SEND_IMM):
            waiting = peer.recv.popleft()
            status = OK
            if kind != WRITE_IMM:
                sound = all(peer.node.find(key, at, n, 1, peer.pd) for at, n, key in waiting["sg"])
                status = (
                    OK
                    if sound and sum(n for _, n, _ in waiting["sg"]) >= total
                    else LOC_LEN
                    if sound
                    else LOC_PROT
                )
                if status == OK:
                    peer.node.scatter(waiting["sg"], op.result)
            imm = op.wr["imm_data"] if kind != SEND else 0
            entry = [
                waiting["wr_id"],
                status,
                128 + (kind == WRITE_IMM),
                total,
                peer.number,
                self.number,
                imm,
            ]
            peer.complete(peer.rcq, [*entry, 2 * (kind != SEND), 0])
            if status:
                peer.error()
                return self.fail(REM_INV_REQ if status == LOC_LEN else 11)
        self.node.moved += total
        self.changes += kind != READ
        self.done.append(self.todo.popleft())
        return None


def _cut(total: int, rng: random.Random) -> list[tuple[int, int]]:
    """Return pieces of whole words in a drawn order."""
    cuts = sorted({0, total, *(8 * rng.randrange(total // 8) for _ in range(3 * (total > 8)))})
    found = [(a, b - a) for a, b in itertools.pairwise(cuts)]
    rng.shuffle(found)
    return found
