"""The grader's RDMA device: memory, keys and queue pairs of a few nodes in one process, in a seeded random order.

It does what `fabriclab.rdma` does between processes, for queue pairs of type RC and with the same statuses (a test
compares them). Whatever reliable connections leave open, it does in the worst way that they allow: pieces of a WRITE
land in any order, a buffer is read late, results and completions come late, and a killed node stops halfway.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fabriclab.rdma import enums as e

WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CAS, FAA = range(7)
_TOLD = (1, 1, 0, 0, 2, 3, 4)  # opcode of the completion of each request
_RIGHTS = (2, 2, 0, 0, 4, 8, 8)  # access flag that each request needs at the other end
# Flags of a request.
FENCE = 1
SIGNALED = 2
SOLICITED = 4
INLINE = 8
# Statuses of a completion.
OK = 0
LOC_LEN = 1
LOC_PROT = 4
FLUSH = 5
REM_INV_REQ = 9
REM_ACCESS = 10
REM_OP = 11
RETRY_EXC = 12
# States of a queue pair.
RESET = 0
INIT = 1
RTR = 2
RTS = 3
ERR = 6
# Access flags of a region.
_LOCAL_WRITE = 1
_WRITTEN_BY_PEERS = 2 | 8  # by a WRITE, or by an atomic
_ACCESS_FLAGS = 15 | 2**20  # local and remote ones, and relaxed ordering
_TRIES = 8  # turns of a queue pair, until it gives up on a dead peer
_PATIENCE = 400  # turns of a queue pair, until it gives up on a peer that is not connected yet


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
    """A posted request, and how far it has got."""

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
        """Whether the request brings data back."""
        return bool(self.wr["opcode"] >= READ)


class Pair:
    """A queue pair of type RC."""

    def __init__(
        self, node: Machine, number: int, pd: int, queues: list[Queue], room: list[int], every: int
    ) -> None:
        self.node = node
        self.number = number
        self.pd = pd
        self.scq, self.rcq = queues
        self.every = every  # whether each request is signalled
        self.max_send, self.max_recv, self.max_sge, self.max_inline = room
        self.state = RESET
        self.access = 0
        self.dest = (0, 0)  # number of the node and of the pair at the other end
        self.tries = 0  # in a row, in which the peer was not there
        self.todo = deque[Op]()
        self.done = deque[Op]()  # done, and not yet reported
        self.recv = deque[dict[str, Any]]()
        self.used_early = False  # whether a request was refused because of the state
        self.posted = 0  # requests
        self.retired = 0  # requests whose places in the send queue are free again
        self.changes = 0  # requests done that change remote memory
        # Of which requests that change remote memory the answer is lost, and whether they are done all the same.
        self.losses = dict[int, bool]()

    @property
    def peer(self) -> Pair | None:
        """The pair at the other end, if it exists and is connected to this one."""
        machine, number = self.dest
        found = self.node.device.machines[machine].pairs.get(number)
        if found is None or found.node.dead or found.state not in (RTR, RTS):
            return None
        return found if found.dest == (self.node.number, self.number) else None

    @property
    def gone(self) -> bool:
        """Whether the node at the other end is dead."""
        return self.node.device.machines[self.dest[0]].dead

    def complete(self, queue: Queue, entry: list[int], index: int = 0) -> None:
        """Put a completion into a queue; a full queue breaks, and the pair with it."""
        if queue.broken or len(queue.entries) >= queue.room:
            queue.broken = True
            self.state = ERR
            return
        queue.entries.append((entry, self, index))
        self.node.device.completions += 1
        self.node.events += queue.armed
        queue.armed = False

    def finish(self, op: Op, status: int) -> None:
        """Complete a request: deliver what it fetched, and report its status if a completion is due."""
        wr = op.wr
        if status == OK and op.fetches:
            self.node.scatter(wr["sg"], op.result)
        if status or self.every or wr["send_flags"] & SIGNALED:
            entry = [wr["wr_id"], status, _TOLD[wr["opcode"]], op.total, self.number, 0, 0, 0, 0]
            self.complete(self.scq, entry, op.index)

    def fail(self, status: int) -> None:
        """End the first unfinished request with a status, and flush the rest."""
        while self.done:
            self.finish(self.done.popleft(), OK)
        self.node.device.failed(self, self.todo[0], status)
        self.finish(self.todo.popleft(), status)
        self.error()

    def error(self) -> None:
        """Enter the error state, which ends all posted requests."""
        self.state = ERR
        while self.done:
            self.finish(self.done.popleft(), OK)
        while self.todo:
            self.finish(self.todo.popleft(), FLUSH)
        while self.recv:
            wr_id = self.recv.popleft()["wr_id"]
            self.complete(self.rcq, [wr_id, FLUSH, 128, 0, self.number, 0, 0, 0, 0])

    def clear(self) -> None:
        """Forget all that was posted."""
        self.todo.clear()
        self.done.clear()
        self.recv.clear()

    def advance(self) -> None:
        """Do one thing that is possible now, chosen at random if there are several."""
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
        """Continue with a request, if the peer exists and is ready for it."""
        peer = self.peer
        kind = op.wr["opcode"]
        number = self.changes
        status = OK
        if op.pieces is None:
            status = self._local(op)
        if status != OK:
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
        """Return the status of a request that fails before anything is sent, or 0."""
        need = 1 if op.fetches else 0
        if op.inline is None and not all(
            self.node.find(key, at, n, need, self.pd) for at, n, key in op.wr["sg"]
        ):
            return LOC_PROT
        return LOC_LEN if op.wr["opcode"] >= CAS and op.total != 8 else OK

    def _move(self, op: Op, peer: Pair, rng: random.Random) -> None:
        """Move a piece of a request, or say why not; after its last piece it is done."""
        if op.pieces is None and not self._begin(op, peer, rng):
            return
        if op.wr["opcode"] >= CAS:
            self._change_word(op, peer.node)
        elif op.pieces:
            self._move_piece(op, op.pieces.pop(), peer.node)
        if not op.pieces:
            self._end(op, peer)

    def _begin(self, op: Op, peer: Pair, rng: random.Random) -> bool:
        """Cut a request into pieces and return True, or end it with an error if the peer does not allow it."""
        wr = op.wr
        kind = wr["opcode"]
        total = op.total
        need = _RIGHTS[kind]
        known = peer.node.find(wr["rkey"], wr["remote_addr"], total, need, peer.pd, remote=True)
        denied = need and total and not (known and peer.access & need)
        misaligned = kind >= CAS and wr["remote_addr"] % 8
        if denied or misaligned:
            peer.error()
            self.fail(REM_ACCESS if denied else REM_INV_REQ)
            return False
        op.pieces = _cut(total, rng)
        op.result = bytearray(total)
        return True

    def _change_word(self, op: Op, far: Machine) -> None:
        """Do an atomic: change a word of the peer, and keep the old one as the result."""
        wr = op.wr
        at = wr["remote_addr"]
        old = far.load(at)
        if wr["opcode"] == FAA:
            far.store(at, (old + wr["compare_add"]) % 2**64)
        elif old == wr["compare_add"]:
            far.store(at, wr["swap"])
        op.result[:] = old.to_bytes(8, "little")
        op.pieces = []

    def _move_piece(self, op: Op, piece: tuple[int, int], far: Machine) -> None:
        """Move a piece of a READ, WRITE or SEND; a buffer is read when its bytes leave."""
        wr = op.wr
        kind = wr["opcode"]
        at, n = piece
        if kind == READ:
            op.result[at : at + n] = far.peek(wr["remote_addr"] + at, n)
            return
        source = self.node.gather(wr["sg"]) if op.inline is None else op.inline
        data = source[at : at + n]
        if kind in (WRITE, WRITE_IMM):
            far.put(wr["remote_addr"] + at, data)
        else:
            op.result[at : at + n] = data

    def _end(self, op: Op, peer: Pair) -> None:
        """End a request whose bytes have all moved: tell the receiver if it is to be told, and count it as done."""
        kind = op.wr["opcode"]
        if kind in (WRITE_IMM, SEND, SEND_IMM):
            status = self._tell(op, peer)
            if status != OK:
                peer.error()
                self.fail(REM_INV_REQ if status == LOC_LEN else REM_OP)
                return
        self.node.moved += op.total
        if kind != READ:
            self.changes += 1
        self.done.append(self.todo.popleft())

    def _tell(self, op: Op, peer: Pair) -> int:
        """Complete a receive request of the peer, and return its status."""
        kind = op.wr["opcode"]
        waiting = peer.recv.popleft()
        status = OK
        opcode = 129  # a receive with immediate data of a WRITE
        if kind != WRITE_IMM:
            opcode = 128
            status = peer.node.room_for(op.total, waiting["sg"], peer.pd)
            if status == OK:
                peer.node.scatter(waiting["sg"], op.result)

        imm_data = 0
        flags = 0
        if kind != SEND:
            imm_data = op.wr["imm_data"]
            flags = 2  # with immediate data
        head = [waiting["wr_id"], status, opcode, op.total]
        peer.complete(peer.rcq, [*head, peer.number, self.number, imm_data, flags, 0])
        return status


def _cut(total: int, rng: random.Random) -> list[tuple[int, int]]:
    """Return pieces of whole words in a drawn order."""
    cuts = {0, total}
    if total > 8:
        cuts.update(8 * rng.randrange(total // 8) for _ in range(3))
    pieces = [(start, end - start) for start, end in itertools.pairwise(sorted(cuts))]
    rng.shuffle(pieces)
    return pieces


_STEPS = {(RESET, INIT), (INIT, INIT), (INIT, RTR), (RTR, RTS), (RTS, RTS)}
ROOM = 1 << 20  # B of memory that a node may register


class RequestRefused(ValueError):
    """A call that the device refuses, in words for the learner."""


class Machine:
    """A node: memory, and the calls of its process to the device."""

    def __init__(self, device: Device, number: int) -> None:
        self.device = device
        self.number = number
        self.base = (0x7000 + number) << 32  # address of the first byte
        self.memory = bytearray()
        self.regions = list[Region]()
        self.queues = dict[int, Queue]()
        self.pairs = dict[int, Pair]()
        self.domains = set[int]()
        self.dead = False
        self.calls = 0
        self.dies_at = -1  # number of the call in which the node dies; -1 for never
        # Number of requests of at least so many bytes, and of calls after them, until the node dies.
        self.dies_after = [0, 0, 0]
        self.events = self.moved = self.doorbells = self.posted = self.inlined = 0
        self.touched: list[tuple[int, int]] = []  # what the processor copied: address and length
        # What was posted: number of the node at the other end, opcode, address there, bytes.
        self.requests = list[tuple[int, int, int, int]]()

    # Memory ----------------------------------------------------------------------------------------------------------

    def peek(self, at: int, n: int) -> bytes:
        """Return bytes of registered memory."""
        return bytes(self.memory[at - self.base : at - self.base + n])

    def put(self, at: int, data: bytes) -> None:
        """Change bytes of registered memory."""
        self.memory[at - self.base : at - self.base + len(data)] = data

    def load(self, at: int) -> int:
        """Return a word."""
        return int.from_bytes(self.peek(at, 8), "little")

    def store(self, at: int, value: int) -> None:
        """Change a word."""
        self.put(at, (value % 2**64).to_bytes(8, "little"))

    def gather(self, sg: list[list[int]]) -> bytes:
        """Return the bytes of several pieces of memory."""
        return b"".join(self.peek(at, n) for at, n, _ in sg)

    def scatter(self, sg: list[list[int]], data: bytes | bytearray) -> None:
        """Distribute bytes over several pieces of memory."""
        for at, n, _ in sg:
            self.put(at, bytes(data[:n]))
            data = data[n:]

    def find(self, key: int, at: int, n: int, need: int, pd: int, *, remote: bool = False) -> bool:
        """Return whether a key allows an access."""
        for region in self.regions:
            its_key = region.rkey if remote else region.lkey
            inside = region.at <= at and at + n <= region.at + region.length
            allowed = region.access & need == need and region.pd == pd
            if its_key == key and inside and allowed:
                return True
        return False

    def room_for(self, total: int, sg: list[list[int]], pd: int) -> int:
        """Return the status with which a message of so many bytes comes into pieces of memory."""
        if not all(self.find(key, at, n, _LOCAL_WRITE, pd) for at, n, key in sg):
            return LOC_PROT
        if sum(n for _, n, _ in sg) < total:
            return LOC_LEN
        return OK

    def own(self, at: int, n: int) -> None:
        """Raise if an address range is not registered memory of this node."""
        if n < 0 or not any(r.at <= at and at + n <= r.at + r.length for r in self.regions):
            raise RequestRefused(
                f"{n} B at address {at:#x} are not in a registered region of this node"
            )

    def waiting(self, *, received: bool) -> int:
        """Return the number of completions that nobody has polled, for received messages or for own requests."""
        entries = [entry for queue in self.queues.values() for entry, *_ in queue.entries]
        return sum((entry[2] >= 128) == received for entry in entries)

    # Calls -----------------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Let the device continue, as it does between any two calls of a process; raise if the process is dead."""
        if self.dead:
            raise RequestRefused("killed")
        if self.device.caller not in (None, self):
            raise RequestRefused(
                "this is the node of another program, and programs are processes of their own"
            )
        self.calls += 1
        self.device.tick()
        if self.calls == self.dies_at:
            self.device.cut(self)
            raise RequestRefused("killed")

    def register(self, pd: int, length: int, access: int, address: int | None) -> list[int]:
        """Register newly allocated memory, or a part of registered memory again."""
        self.turn()
        unwritten = access & _WRITTEN_BY_PEERS and not access & _LOCAL_WRITE
        fits = pd in self.domains and 0 < length <= ROOM
        if not fits or access & ~_ACCESS_FLAGS or unwritten:
            raise RequestRefused(
                "a region needs a PD, a length > 0, and LOCAL_WRITE if peers may write to it: got length "
                f"{length}, access {access:#x}"
            )
        if address is not None:
            self.own(address, length)
        elif len(self.memory) + length > ROOM:
            raise RequestRefused(f"a node here has {ROOM} B of memory")
        else:
            address = self.base + len(self.memory)
            self.memory += bytes(-(-length // 64) * 64)
        number = len(self.regions) + 1
        lkey = self.device.keys.randrange(1, 2**32)
        rkey = self.device.keys.randrange(1, 2**32)
        self.regions.append(Region(number, address, length, access, pd, lkey, rkey))
        return [number, address, lkey, rkey]

    def forget(self, number: int) -> None:
        """Forget the keys of a region."""
        self.turn()
        region = self.regions[number - 1]
        region.access = -1
        region.lkey = -1
        region.rkey = -1

    def domain(self) -> int:
        """Make a protection domain."""
        self.turn()
        number = len(self.domains) + 1
        self.domains.add(number)
        return number

    def queue(self, room: int) -> int:
        """Make a completion queue."""
        if not 1 <= room <= 4096:
            raise RequestRefused(f"a completion queue here has room for 1 to 4096, got {room}")
        self.turn()
        number = len(self.queues) + 1
        self.queues[number] = Queue(room)
        return number

    def pair(self, pd: int, kind: int, queues: list[int], room: list[int], every: int) -> int:
        """Make a queue pair."""
        self.turn()
        if kind != e.IBV_QPT_RC:
            raise RequestRefused(
                f"the device of the grader makes queue pairs of type IBV_QPT_RC only, got {kind}"
            )
        number = 100 * (self.number + 1) + len(self.pairs) + self.device.keys.randrange(7)
        while number in self.pairs:
            number += 1
        self.pairs[number] = Pair(self, number, pd, [self.queues[q] for q in queues], room, every)
        return number

    def state(self, number: int) -> int:
        """Return the state of a pair."""
        self.turn()
        return self.pairs[number].state

    def gid(self) -> str:
        """Return the address of this node."""
        return f"fe80:0000:0000:0000:0000:0000:0000:{self.number + 1:04x}"

    def modify(self, number: int, state: int, attr: dict[str, Any]) -> None:
        """Change the state of a pair."""
        self.turn()
        pair = self.pairs[number]
        if (pair.state, state) not in _STEPS and state not in (RESET, ERR):
            raise RequestRefused(
                f"no step leads from state {pair.state} to {state}; the order is RESET, INIT, RTR, RTS"
            )
        if state == INIT:
            pair.access = attr["qp_access_flags"]
        elif state == RTR:
            machine = int(attr["gid"][-4:], 16) - 1
            peer = attr["dest_qp_num"]
            pair.dest = (machine, peer)
            if not 0 <= machine < len(self.device.machines) or not peer:
                raise RequestRefused(f"no context answers to GID {attr['gid']} with QP {peer}")
        elif state == RESET:
            pair.clear()
            pair.retired = pair.posted
        pair.state = state
        if state == ERR:
            pair.error()

    def post_send(self, number: int, wrs: list[dict[str, Any]]) -> None:
        """Post a chain of requests."""
        self.turn()
        pair = self.pairs[number]
        self.doorbells += 1
        for wr in wrs:
            op = Op(wr, pair.posted + 1)
            inline = wr["send_flags"] & INLINE
            self._check_request(pair, op, inline=inline)
            if inline:
                for at, n, _ in wr["sg"]:
                    self.own(at, n)
                op.inline = self.gather(wr["sg"])
                self.inlined += 1
            pair.posted += 1
            self.posted += 1
            pair.todo.append(op)
            self._count_towards_death(op)
            self.device.opcodes.add(wr["opcode"])
            self.requests.append((pair.dest[0], wr["opcode"], wr["remote_addr"], op.total))

    def _check_request(self, pair: Pair, op: Op, *, inline: int) -> None:
        """Raise RequestRefused if a queue pair does not take a request."""
        kind = op.wr["opcode"]
        pieces = len(op.wr["sg"])
        if pair.state not in (RTS, ERR):
            pair.used_early = True
            raise RequestRefused(
                f"QP {pair.number} is in state {pair.state}; it sends in IBV_QPS_RTS"
            )
        if not WRITE <= kind <= FAA or pieces > pair.max_sge:
            raise RequestRefused(
                f"opcode {kind} with {pieces} SGEs, and max_send_sge is {pair.max_sge}"
            )
        if inline and (op.total > pair.max_inline or op.fetches):
            raise RequestRefused(
                f"{op.total} B inline: a SEND or WRITE takes max_inline_data={pair.max_inline}"
            )
        if pair.posted - pair.retired >= pair.max_send:
            raise RequestRefused(
                f"the send queue is full (max_send_wr={pair.max_send}): poll a completion; unsignaled "
                "requests give their places back with the next signaled one"
            )

    def _count_towards_death(self, op: Op) -> None:
        """Count a request that brings as many bytes as the node is to bring, and set the call in which it dies."""
        count, size, calls = self.dies_after
        if not count or op.total < size or op.fetches:
            return
        self.dies_after = [count - 1, size, calls]
        if count <= 1:
            self.dies_at = self.calls + calls

    def post_recv(self, number: int, wrs: list[dict[str, Any]]) -> None:
        """Add buffers for messages to come."""
        self.turn()
        pair = self.pairs[number]
        for wr in wrs:
            if pair.state == RESET or len(pair.recv) >= pair.max_recv:
                raise RequestRefused(
                    f"QP {number} in state {pair.state} has {len(pair.recv)} buffers of {pair.max_recv}"
                )
            pair.recv.append(wr)
            if pair.state == ERR:
                pair.error()

    def poll(self, number: int, most: int) -> list[list[int]]:
        """Take completions off a queue."""
        self.turn()
        queue = self.queues[number]
        found = list[list[int]]()
        while queue.entries and len(found) < most:
            entry, pair, index = queue.entries.popleft()
            pair.retired = max(pair.retired, index)
            found.append(entry)
        if not found and queue.broken:
            raise RequestRefused(
                f"the completion queue was full ({queue.room}) when more completed: poll more often"
            )
        return found

    def arm(self, number: int) -> None:
        """Make the next completion an event."""
        self.turn()
        self.queues[number].armed = True

    def read(self, number: int, n: int, offset: int) -> list[int]:
        """Copy bytes out of a region."""
        self.turn()
        at = self.regions[number - 1].at + offset
        self.own(at, n)
        self.touched.append((at, n))
        return list(self.peek(at, n))

    def write(self, number: int, data: list[int], offset: int) -> None:
        """Copy bytes into a region."""
        self.turn()
        at = self.regions[number - 1].at + offset
        self.own(at, len(data))
        self.touched.append((at, len(data)))
        self.put(at, bytes(data))


VERBS = (
    "register",
    "forget",
    "domain",
    "queue",
    "pair",
    "state",
    "gid",
    "modify",
    "post_send",
    "post_recv",
    "poll",
    "arm",
    "read",
    "write",
)


class Device:
    """The device: all nodes, and the order of everything that happens."""

    def __init__(self, seed: int, pace: float = 0.5) -> None:
        self.rng = random.Random(seed)
        self.keys = random.Random(seed + 1)
        self.pace = pace  # probability that a queue pair with work goes on in a tick
        self.machines = list[Machine]()
        self.completions = 0
        self.now = 0  # ticks
        self.opcodes = set[int]()  # that were posted
        # Requests that have failed, without those that were only flushed.
        self.statuses = list[tuple[Pair, Op, int]]()
        self.watch: Callable[[], None] = lambda: None
        self.caller: Machine | None = None  # whose program has its turn

    def failed(self, pair: Pair, op: Op, status: int) -> None:
        """Note a request that has failed."""
        if status != FLUSH:
            self.statuses.append((pair, op, status))

    def tick(self) -> None:
        """Let some queue pairs do something."""
        self.now += 1
        for machine in self.machines:
            for pair in machine.pairs.values():
                if (pair.todo or pair.done) and self.rng.random() < self.pace:
                    pair.advance()
        self.watch()

    def cut(self, machine: Machine) -> None:
        """Kill a process: its queue pairs stop wherever they are, but some pieces on their way still land."""
        for pair in machine.pairs.values():
            for _ in range(self.rng.randrange(4)):
                if pair.todo and pair.peer:
                    pair.advance()
            pair.clear()
            pair.state = RESET
        machine.dead = True

    def connect(self, one: Machine, other: Machine) -> tuple[Pair, Pair]:
        """Make a connected pair of queue pairs, as a launcher does."""
        made = []
        for machine in (one, other):
            if not machine.queues:
                machine.domains.add(1)
                machine.queues[1] = Queue(64)
            number = 100 * (machine.number + 1) + len(machine.pairs)
            machine.pairs[number] = Pair(
                machine, number, 1, [machine.queues[1]] * 2, [16, 16, 4, 64], 0
            )
            made.append(machine.pairs[number])
        first, second = made
        for mine, peer in ((first, second), (second, first)):
            mine.access = 15
            mine.state = RTS
            mine.dest = (peer.node.number, peer.number)
        return first, second
