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
ALL = 15  # rights of a queue pair
_ONE = np.uint64(1)
_COUNTED = ("transfers", "copies", "bytes", "posted", "polled", "doorbells")


class Bits:
    """The bit of each update in each word; when all bits are set, every update is in the parameters once."""

    def __init__(self, workers: int, steps: int, length: int) -> None:
        self.steps, self.n = steps, workers * steps
        if not 0 < self.n < 62 or length < 8 * self.n or length % 8:
            raise ValueError(
                message(3, "group", most=61, least=8 * self.n, got=f"{workers}, {steps}, {length}")
            )
        self._place = np.arange(length // 8, dtype=np.uint64)

    def update(self, worker: int, step: int) -> Words:
        """Return a gradient."""
        return _ONE << ((self._place + np.uint64(worker * self.steps + step)) % np.uint64(self.n))

    def within(self, parameters: Words) -> dict[tuple[int, int], tuple[bool, bool]] | None:
        """Return for each update whether it is in all words, and whether in any; None if there is anything else."""
        if (parameters >> np.uint64(self.n)).any():
            return None
        found = {}
        for j in range(self.n):
            there = parameters & self.update(*divmod(j, self.steps)) != 0
            found[divmod(j, self.steps)] = bool(there.all()), bool(there.any())
        return found


def pair(pd: rdma.PD, cq: rdma.CQ) -> rdma.QP:
    """Return a queue pair with the same capacity as in grading."""
    room = rdma.QPCap(
        max_send_wr=16, max_recv_wr=16, max_send_sge=4, max_recv_sge=4, max_inline_data=64
    )
    return rdma.QP(
        pd, rdma.QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, sq_sig_all=0, cap=room)
    )


def connect(qp: rdma.QP, gid: str, number: int) -> None:
    """Connect a queue pair with a peer's."""
    attr = rdma.QPAttr()
    attr.ah_attr = rdma.AHAttr(gr=rdma.GlobalRoute(dgid=rdma.GID(gid)), is_global=1)
    attr.dest_qp_num, attr.qp_access_flags, attr.max_rd_atomic, attr.max_dest_rd_atomic = (
        number,
        ALL,
        1,
        1,
    )
    # illustrative: 4.096 us x 2^10, three times
    attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 10, 3, 7, 1
    qp.to_rts(attr)


class Node:
    """What a program sees: its queue pairs, and the training around it."""

    def __init__(self, connection: Connection, rank: Any, about: Mapping[str, Any]) -> None:
        self._line, self._letters, self._gone = connection, deque[list[Any]](), list[Any]()
        self.rank, self.workers, self.steps = rank, about["workers"], about["steps"]
        self.bound, self.length, self.counter = about["bound"], about["length"], 0
        self._bits, self._computed = Bits(self.workers, self.steps, self.length), 0
        self._regions, self._delay = list[rdma.MR](), about["delays"].get(rank, 0.0)
        self._ctx = rdma.Context(name=rdma.DEVICE, **about["options"])
        self.rdma = SimpleNamespace(**{**vars(rdma), "MR": self._register})
        self.pd, self._channel = rdma.PD(self._ctx), rdma.CompChannel(self._ctx)
        self.cq = rdma.CQ(self._ctx, 64 * self.workers, None, self._channel)
        peers = range(self.workers) if rank == SERVER else [SERVER]
        self.qps = {peer: pair(self.pd, self.cq) for peer in peers}
        gid = self._ctx.query_gid(1, 0).gid
        connection.send(["cards", {peer: (gid, qp.qp_num) for peer, qp in self.qps.items()}])
        self._cards = self._expect("cards")
        for peer in self.qps:
            connect(self.qps[peer], *self._cards[peer])
        connection.send(["connected"])
        self._expect("go")
        self._calls = 0
        if rank in about["kills"]:
            self._die(about["kills"][rank])

    def _die(self, after: float) -> None:
        """Arrange that this process is killed after a time [s] or a number of function calls, wherever it is then."""
        if not isinstance(after, int):
            signal.setitimer(signal.ITIMER_REAL, max(after, 1e-6))  # nobody handles the signal
            return

        def count(frame: Any, event: str, argument: Any) -> None:
            self._calls += 1
            if self._calls > after:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)

    def _expect(self, what: str) -> Any:
        while True:
            kind, *rest = self._line.recv()
            if kind == what:
                return rest[0] if rest else None
            self._take(kind, rest)

    def _take(self, kind: str, rest: list[Any]) -> None:
        if kind == "letter":
            self._letters.append(rest)
        elif kind == "gone":
            self._gone.append(rest[0])

    def _listen(self) -> None:
        while self._line.poll():
            kind, *rest = self._line.recv()
            self._take(kind, rest)

    def _register(
        self, creator: rdma.PD, length: int = 0, access: int = 0, address: int | None = None
    ) -> rdma.MR:
        self._regions.append(rdma.MR(creator, length, access, address))
        return self._regions[-1]

    def _words(self, at: int, n: int) -> Words:
        for mr in self._regions:
            if mr.buf <= at and at + n <= mr.buf + mr.length and not at % 8:
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
        return self._letters.popleft() if self._letters else None

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
        if not select.select([self._channel._read], [], [], 0)[0]:
            return False
        self._channel.get_cq_event(self.cq)
        return True

    def reconnect(self, peer: Any) -> None:
        """Bring a queue pair from the error state back to RTS."""
        if self.qps[peer].qp_state != e.IBV_QPS_RTS:
            self.qps[peer].modify(rdma.QPAttr(e.IBV_QPS_RESET), e.IBV_QP_STATE)
            connect(self.qps[peer], *self._cards[peer])

    def start(self, at: int) -> None:
        """Put the initial parameters, which contain no update, at an address."""
        self._words(at, self.length)[:] = 0

    def compute(self, parameters: int, gradient: int) -> None:
        """Do a step of training: read the parameters at one address, and put the gradient at another."""
        words = self._words(parameters, self.length)
        for worker in range(self.workers):
            for step in range(self._computed - self.bound):
                if (words & self._bits.update(worker, step) == 0).any():
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
        self._line.send(["result", self._bits.within(self._words(at, self.length))])

    def close(self) -> None:
        """Report what was done, and free all memory when all processes have ended."""
        counters = {name: getattr(self._ctx.counters, name) for name in _COUNTED}
        sys.setprofile(None)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._line.send(["ended", {**counters, "calls": self._calls}])
        self._expect("over")
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
            for _ in getattr(module, function)(node) or ():
                os.sched_yield()  # who waits lets others go on
            node.close()
            del node
