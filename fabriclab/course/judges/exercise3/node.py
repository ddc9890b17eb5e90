"""Exercise 3 between real processes: the node that a program sees, on top of `fabriclab.rdma`.

Every word of the parameters shows which updates it contains, as in grading.
"""

import importlib.util
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping
from multiprocessing.connection import Connection
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import rdma
from fabriclab.course.questions.files import message
from fabriclab.rdma import enums as e

from .training import SERVER

Words = NDArray[np.uint64]
ALL = 15  # access flags of a region or queue pair: the owner may write, and peers may do everything
_ONE = np.uint64(1)
_MOST_UPDATES = 61  # one bit of a 64-bit word for each, and some bits that must stay 0
_COUNTED = ("transfers", "copies", "bytes", "posted", "polled", "doorbells")


class Bits:
    """The bit of each update in each word; when all bits are set, every update is in the parameters once."""

    def __init__(self, workers: int, steps: int, length: int) -> None:
        n = workers * steps
        least = 8 * n  # [B] so that each update has every bit in some word
        if not 0 < n <= _MOST_UPDATES or length < least or length % 8:
            got = f"{workers}, {steps}, {length}"
            raise ValueError(message(3, "group", most=_MOST_UPDATES, least=least, got=got))
        self.steps = steps
        self.n = n
        self._place = np.arange(length // 8, dtype=np.uint64)  # (words,)

    def update(self, worker: int, step: int) -> Words:
        """Return a gradient: one bit in each word, which moves on by one from word to word, (words,)."""
        number = np.uint64(worker * self.steps + step)
        bit = (self._place + number) % np.uint64(self.n)  # (words,)
        return _ONE << bit

    def within(self, parameters: Words) -> dict[tuple[int, int], tuple[bool, bool]] | None:
        """Return for each update whether it is in all words, and whether in any; None if there is anything else."""
        beyond = parameters >> np.uint64(self.n)
        if beyond.any():
            return None

        found = {}
        for number in range(self.n):
            worker, step = divmod(number, self.steps)
            is_there = parameters & self.update(worker, step) != 0  # (words,)
            found[worker, step] = bool(is_there.all()), bool(is_there.any())
        return found


def pair(pd: rdma.PD, cq: rdma.CQ) -> rdma.QP:
    """Return a queue pair with the same capacity as in grading."""
    capacity = rdma.QPCap(
        max_send_wr=16, max_recv_wr=16, max_send_sge=4, max_recv_sge=4, max_inline_data=64
    )
    attr = rdma.QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, sq_sig_all=0, cap=capacity)
    return rdma.QP(pd, attr)


def connect(qp: rdma.QP, gid: str, number: int) -> None:
    """Connect a queue pair with a peer's."""
    route = rdma.GlobalRoute(dgid=rdma.GID(gid))
    attr = rdma.QPAttr()
    attr.ah_attr = rdma.AHAttr(gr=route, is_global=1)
    attr.dest_qp_num = number
    attr.qp_access_flags = ALL
    attr.max_rd_atomic = 1
    attr.max_dest_rd_atomic = 1
    # illustrative: 4.096 us x 2^10, three times
    attr.timeout = 10
    attr.retry_cnt = 3
    attr.rnr_retry = 7
    # illustrative: code 1, the shortest time
    attr.min_rnr_timer = 1
    qp.to_rts(attr)


class Node:
    """What a program sees: its queue pairs, and the training around it."""

    def __init__(self, connection: Connection, rank: Any, about: Mapping[str, Any]) -> None:
        self.rank = rank
        self.workers = about["workers"]
        self.steps = about["steps"]
        self.bound = about["bound"]
        self.length = about["length"]  # [B] of the parameters
        self.counter = 0

        self._line = connection  # to the launcher
        self._letters = deque[list[Any]]()  # sender and content of messages not yet heard
        self._gone = list[Any]()  # nodes that the launcher has seen die
        self._bits = Bits(self.workers, self.steps, self.length)
        self._computed = 0  # steps
        self._delay = about["delays"].get(rank, 0.0)  # [s] of each step
        self._regions = list[rdma.MR]()

        self._ctx = rdma.Context(name=rdma.DEVICE, **about["options"])
        # The program registers memory as usual, and load, store and compute find its regions.
        self.rdma = SimpleNamespace(**{**vars(rdma), "MR": self._register})
        self.pd = rdma.PD(self._ctx)
        self._channel = rdma.CompChannel(self._ctx)
        self.cq = rdma.CQ(self._ctx, 64 * self.workers, None, self._channel)
        peers = range(self.workers) if rank == SERVER else [SERVER]
        self.qps = {peer: pair(self.pd, self.cq) for peer in peers}
        self._meet_peers()

        self._calls = 0  # of functions, since the program may begin
        if rank in about["kills"]:
            self._die(about["kills"][rank])

    def _meet_peers(self) -> None:
        """Connect all queue pairs with those of the peers, through the launcher, and wait until all nodes have."""
        gid = self._ctx.query_gid(1, 0).gid
        own_cards = {peer: (gid, qp.qp_num) for peer, qp in self.qps.items()}
        self._line.send(["cards", own_cards])
        self._cards = self._expect("cards")

        for peer, qp in self.qps.items():
            gid, number = self._cards[peer]
            connect(qp, gid, number)
        self._line.send(["connected"])
        self._expect("go")

    def _die(self, after: float) -> None:
        """Arrange that this process is killed after a time [s] or a number of function calls, wherever it is then."""
        if not isinstance(after, int):
            signal.setitimer(signal.ITIMER_REAL, max(after, 1e-6))  # its signal ends the process
            return

        def count(frame: Any, event: str, argument: Any) -> None:
            self._calls += 1
            if self._calls > after:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)

    # The launcher ----------------------------------------------------------------------------------------------------

    def _expect(self, expected: str) -> Any:
        """Return the content of the next message of a kind; messages of other kinds are kept."""
        while True:
            kind, *rest = self._line.recv()
            if kind == expected:
                return rest[0] if rest else None
            self._take(kind, rest)

    def _take(self, kind: str, rest: list[Any]) -> None:
        """Keep a message from the launcher until the program asks for it."""
        if kind == "letter":
            self._letters.append(rest)
        elif kind == "gone":
            self._gone.append(rest[0])

    def _listen(self) -> None:
        """Take all messages that have come."""
        while self._line.poll():
            kind, *rest = self._line.recv()
            self._take(kind, rest)

    # Memory ----------------------------------------------------------------------------------------------------------

    def _register(
        self, creator: rdma.PD, length: int = 0, access: int = 0, address: int | None = None
    ) -> rdma.MR:
        """Register memory as the library does, and keep the region."""
        region = rdma.MR(creator, length, access, address)
        self._regions.append(region)
        return region

    def _words(self, at: int, n: int) -> Words:
        """Return ``n`` bytes at an address as words that can be changed, (n / 8,)."""
        for mr in self._regions:
            is_inside = mr.buf <= at and at + n <= mr.buf + mr.length
            is_aligned = at % 8 == 0
            if is_inside and is_aligned:
                return np.frombuffer(mr.memory, np.uint64, n // 8, at - mr.buf)
        raise ValueError(
            f"{n} B at address {at:#x} are not in a registered region of this node, or begin within a word"
        )

    # What programs call ----------------------------------------------------------------------------------------------

    def tell(self, who: Any, thing: Any) -> None:
        """Send something plain to another node."""
        self._line.send(["letter", who, self.rank, thing])

    def hear(self) -> Any:
        """Return the sender and the content of the next message from the launcher, or None."""
        self._listen()
        if not self._letters:
            return None
        return self._letters.popleft()

    def gone(self) -> list[Any]:
        """Return which nodes the launcher has seen die."""
        self._listen()
        return [*self._gone]

    def load(self, at: int) -> int:
        """Return a word."""
        return int(self._words(at, 8)[0])

    def store(self, at: int, value: int) -> None:
        """Change a word."""
        self._words(at, 8)[0] = value % 2**64

    def event(self) -> bool:
        """Return whether an armed completion queue has had a completion."""
        ready, _, _ = select.select([self._channel._read], [], [], 0)
        if not ready:
            return False
        self._channel.get_cq_event(self.cq)
        return True

    def reconnect(self, peer: Any) -> None:
        """Bring a queue pair from the error state back to RTS."""
        qp = self.qps[peer]
        if qp.qp_state != e.IBV_QPS_RTS:
            qp.modify(rdma.QPAttr(e.IBV_QPS_RESET), e.IBV_QP_STATE)
            gid, number = self._cards[peer]
            connect(qp, gid, number)

    def start(self, at: int) -> None:
        """Put the initial parameters, which contain no update, at an address."""
        self._words(at, self.length)[:] = 0

    def compute(self, parameters: int, gradient: int) -> None:
        """Do a step of training: read the parameters at one address, and put the gradient at another."""
        words = self._words(parameters, self.length)
        for worker in range(self.workers):
            for step in range(self._computed - self.bound):
                is_missing = words & self._bits.update(worker, step) == 0  # (words,)
                if is_missing.any():
                    self._line.send(["stale", self.rank, self._computed, worker, step])

        time.sleep(self._delay)
        self._words(gradient, self.length)[:] = self._bits.update(self.rank, self._computed)
        self._computed += 1

    def add(self, to: int, source: int) -> None:
        """Add the gradient at one address to the parameters at another one."""
        words = self._words(to, self.length)
        words += self._words(source, self.length)

    def result(self, at: int) -> None:
        """Hand over the final parameters."""
        words = self._words(at, self.length)
        self._line.send(["result", self._bits.within(words)])

    def close(self) -> None:
        """Report what was done, and free all memory when all processes have ended."""
        counters = {name: getattr(self._ctx.counters, name) for name in _COUNTED}
        # A node that has ended is not killed any more.
        sys.setprofile(None)
        signal.setitimer(signal.ITIMER_REAL, 0)
        counters["calls"] = self._calls
        self._line.send(["ended", counters])

        self._expect("over")  # since others may still read or write this node's memory
        self._regions.clear()
        self._ctx.close()


def serve(connection: Connection, path: str) -> None:
    """Be one process of a group: run the programs that come, until the launcher is gone."""
    spec = importlib.util.spec_from_file_location("programs", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    connection.send(["ready"])

    while True:
        kind, *rest = connection.recv()
        if kind == "run":
            rank, function, about = rest
            node = Node(connection, rank, about)
            program = getattr(module, function)
            turns = program(node) or ()  # a program without any yield returns None
            for _ in turns:
                os.sched_yield()  # at each yield another process may have this core
            node.close()
            del node
