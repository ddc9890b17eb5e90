"""Exercise 3 between real processes: a group that trains, and a link to another process for measurements.

The processes of a group serve many runs. A killed process is replaced, and its memory is freed.
"""

import contextlib
import inspect
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple, Self

from fabriclab import rdma, units
from fabriclab.course.judges import is_stub
from fabriclab.course.questions.files import message
from fabriclab.texts import text

from .node import ALL, pair, serve
from .training import SERVER

_PATIENCE = 60.0  # [s]
_CQ_ENTRIES = 64  # of each end of a link
_LOCALHOST = "127.0.0.1"


class Group:
    """The processes of a server and some workers; leaving ``with`` ends them.

    Parameters
    ----------
    server, worker : function
        The programs, as in grading, or their names in the file ``path``.
    workers : int
        Number of workers. 1 to 8
    """

    def __init__(
        self,
        server: Callable[..., Any],
        worker: Callable[..., Any],
        workers: int = 3,
        path: str = "",
    ) -> None:
        for program in (server, worker):
            if is_stub(program):
                raise NotImplementedError(text("ex.stub", name=program.__name__))
        self.workers = workers
        self._server = getattr(server, "__name__", server)
        self._worker = getattr(worker, "__name__", worker)

        self._folder = tempfile.TemporaryDirectory(prefix="fabriclab-")
        self._path = path or str(Path(self._folder.name, "programs.py"))
        if not path:
            Path(self._path).write_text(source_of(server, worker), encoding="utf-8")
        # An error of syntax is raised here, and not only in the processes.
        compile(Path(self._path).read_text(encoding="utf-8"), self._path, "exec")
        self._processes = [self._start() for _ in range(workers + 1)]

    def _start(self) -> rdma.Process:
        """Start a process that waits for programs to run."""
        return rdma.Process(serve, self._path)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        for process in self._processes:
            process.kill()
            process.connection.close()
        self._folder.cleanup()

    @property
    def pids(self) -> list[int]:
        """The numbers of all running processes."""
        return [process.pid for process in self._processes]

    def run(
        self,
        steps: int = 12,
        bound: int = 1,
        length: Any = "64 KiB",
        *,
        kill: int = -1,
        after: float = 0.0,
        delays: Mapping[int, Any] | None = None,
        adversary: int | None = None,
    ) -> dict[str, Any]:
        """Train once, and return the time, the counters of each node, and what was wrong.

        Parameters
        ----------
        steps, bound : int
            Number of steps of each worker, and of how many of them updates of other workers may be missing.
            workers x steps < 62
        length : float or str
            Size of the parameters. [B]
        kill : int
            The worker to kill, if any; ``after`` is a time [s] or, as an int, a number of function calls.
        delays : dict of rank to time, optional
            Time of a step of each worker. [s]
        adversary : int, optional
            Seed of the device's adversarial mode.
        """
        names = [SERVER, *range(self.workers)]
        needed = len(names)
        if kill >= 0:
            needed += 1  # one to take the place of the killed worker in the next run
        while len(self._processes) < needed:
            self._processes.append(self._start())
        crew = dict(zip(names, self._processes, strict=False))

        pauses = {rank: units.time(delay) for rank, delay in (delays or {}).items()}  # [s]
        options = {} if adversary is None else {"adversary": adversary}
        about = {
            "workers": self.workers,
            "steps": steps,
            "bound": bound,
            "length": int(units.size(length)),
            "delays": pauses,
            "kills": {kill: after},
            "options": options,
        }
        for name, process in crew.items():
            function = self._server if name == SERVER else self._worker
            process.send(["run", name, function, about])

        launcher = _Launcher(crew, bound, kill, self._discard)
        launcher.run()
        return launcher.results()

    def _discard(self, process: rdma.Process) -> None:
        """End a process that is dead or hangs; the next run starts another one."""
        self._processes.remove(process)
        process.kill()


class _Late(NamedTuple):
    """A step whose parameters lacked an update that they had to contain."""

    worker: int
    step: int
    of: int  # the worker whose update was missing
    missing: int  # its step


class _Launcher:
    """A run of a group: passes messages on between the nodes, and notes who has ended or died.

    Parameters
    ----------
    crew : dict
        The process of each node, by rank or `SERVER`.
    bound : int
        Of how many steps updates may be missing.
    kill : int
        The worker that is meant to die, if any.
    discard : function
        Ends a process that cannot be used again.
    """

    def __init__(
        self,
        crew: Mapping[Any, rdma.Process],
        bound: int,
        kill: int,
        discard: Callable[[rdma.Process], None],
    ) -> None:
        self._crew = crew
        self._bound = bound
        self._kill = kill
        self._discard = discard

        self._names: dict[Any, Any] = {}  # connection -> node, of all processes that live
        for name, process in crew.items():
            self._names[process.connection] = name
        self._waiting = set(crew)  # nodes that have neither ended nor died
        self._cards = dict[Any, Any]()  # node -> peer -> address and number of the queue pair to it
        self._connected = 0  # nodes
        self._begun = 0.0  # [s] when all were connected
        self._seconds = 0.0

        self._problems = list[str]()
        self._counters = dict[Any, Any]()  # of each node that has ended
        self._dead = list[Any]()  # nodes
        self._late = list[_Late]()
        self._has_result = False
        self._result: dict[tuple[int, int], tuple[bool, bool]] | None = None  # as `Bits.within`

    def run(self) -> None:
        """Carry messages until all nodes have ended or died, or for 60 s at most."""
        deadline = time.monotonic() + _PATIENCE
        while self._waiting:
            if time.monotonic() > deadline:
                self._give_up()
                break
            for connection in wait([*self._names], 0.5):
                self._receive(connection)

        ended = [name for name in self._names.values() if name in self._counters]
        self._tell(ended, ["over"])
        self._seconds = time.monotonic() - self._begun

    def results(self) -> dict[str, Any]:
        """Return the time, the counters of each node, and what was wrong."""
        return {
            "problems": [*self._problems, *self._stale(), *self._wrong_result()],
            "counters": self._counters,
            "dead": self._dead,
            "bound": self._bound,
            "seconds": self._seconds,
        }

    def _give_up(self) -> None:
        """End the nodes that hang."""
        who = ", ".join(map(str, self._waiting))
        why = self._dead or "-"
        self._problems.append(message(3, "fault.hangs", who=who, why=why))
        for name in self._waiting:
            self._discard(self._crew[name])

    def _receive(self, connection: Any) -> None:
        """Take the next message of a node; a connection at its end means that the node is dead."""
        name = self._names[connection]
        try:
            kind, *content = self._crew[name].connection.recv()
        except (EOFError, OSError):
            self._bury(connection)
            return

        if kind == "cards":
            self._cards[name] = content[0]
            if len(self._cards) == len(self._crew):
                self._deal_cards()
        elif kind == "connected":
            self._connected += 1
            if self._connected == len(self._crew):
                self._begin()
        elif kind == "letter":
            receiver, sender, letter = content
            self._tell([receiver], ["letter", sender, letter])
        elif kind == "stale":
            self._late.append(_Late(*content))
        elif kind == "result":
            self._has_result = True
            self._result = content[0]
        elif kind == "ended":
            self._counters[name] = content[0]
            self._waiting.discard(name)

    def _bury(self, connection: Any) -> None:
        """Note that a node has died, and let the others know."""
        name = self._names.pop(connection)
        self._waiting.discard(name)
        self._discard(self._crew[name])
        self._crew[name].connection.close()
        self._dead.append(name)
        if name != self._kill:
            self._problems.append(message(3, "died", who=name))
        self._tell(self._names.values(), ["gone", name])

    def _deal_cards(self) -> None:
        """Send each node what its peers have told about their queue pairs to it."""
        for name, process in self._crew.items():
            cards = {peer: self._cards[peer][name] for peer in self._cards[name]}
            process.send(["cards", cards])

    def _begin(self) -> None:
        """Let all nodes begin at the same time."""
        self._begun = time.monotonic()
        self._tell(self._names.values(), ["go"])

    def _tell(self, names: Iterable[Any], words: list[Any]) -> None:
        """Send a message to nodes; one that has just died does not get it."""
        for name in names:
            with contextlib.suppress(OSError):
                self._crew[name].send(words)

    def _stale(self) -> list[str]:
        """Return a sentence on the first step that lacked an update of a live worker, in a list that may be empty."""
        for late in self._late:
            if late.of not in self._dead:
                return [message(3, "fault.stale", bound=self._bound, **late._asdict())]
        return []

    def _wrong_result(self) -> list[str]:
        """Return a sentence on what is wrong with the final parameters, in a list that may be empty."""
        if not self._has_result:
            return [message(3, "fault.nothing")]
        if self._result is None:
            return [message(3, "fault.wrong")]
        if any(in_all != in_any for in_all, in_any in self._result.values()):
            return [message(3, "fault.wrong")]

        lost = list[tuple[int, int]]()  # updates
        for (worker, step), (in_all, _) in self._result.items():
            if not in_all and worker not in self._dead:
                lost.append((worker, step))
        if not lost:
            return []
        worker, step = lost[0]
        return [message(3, "fault.lost", worker=worker, step=step, n=len(lost))]


class Link:
    """Another process, connected by a queue pair and by a TCP socket; leaving ``with`` ends it.

    Parameters
    ----------
    size : float or str
        Size of both regions. [B]
    """

    def __init__(self, size: Any) -> None:
        length = int(units.size(size))  # [B]
        self.rdma = rdma
        self._context = rdma.Context(name=rdma.DEVICE)
        pd = rdma.PD(self._context)
        self.cq = rdma.CQ(self._context, _CQ_ENTRIES)
        self.mr = rdma.MR(pd, length, ALL)
        self.qp = pair(pd, self.cq)

        self._process = rdma.Process(_answer, length)
        rkey, addr = rdma.connect(self.qp, self.mr, self._process.connection)
        self.target = {"addr": addr, "rkey": rkey}
        port = self._process.recv(_PATIENCE)
        self.socket = socket.create_connection((_LOCALHOST, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the other process and free the memory."""
        self.socket.close()
        self._process.kill()
        self._process.connection.close()
        self._context.close()


def _answer(connection: Connection, length: int) -> None:
    """Be the other process of a link: its region is open to the queue pair, and each TCP message is acknowledged.

    A message on the TCP socket is its length in 8 bytes, and its content; the answer is one byte.
    """
    context = rdma.Context(name=rdma.DEVICE)
    pd = rdma.PD(context)
    cq = rdma.CQ(context, _CQ_ENTRIES)
    mr = rdma.MR(pd, length, ALL)
    qp = pair(pd, cq)
    rdma.connect(qp, mr, connection)

    with socket.create_server((_LOCALHOST, 0)) as listener:
        _, port = listener.getsockname()
        connection.send(port)
        stream, _ = listener.accept()
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    buffer = memoryview(bytearray(length))
    while head := stream.recv(8, socket.MSG_WAITALL):
        left = min(int.from_bytes(head, "little"), length)  # [B]
        while left:
            received = stream.recv_into(buffer[:left])
            if received == 0:  # the other end has closed
                break
            left -= received
        stream.sendall(b"1")


def source_of(*functions: Callable[..., Any]) -> str:
    """Return the code of functions, and of everything in the notebook that they use, as the text of a module."""
    parts = list[str]()  # what is used stands above what uses it
    left = list(functions)
    seen = set[str]()  # names
    while left:
        function = left.pop()
        if function.__name__ in seen or not isinstance(function, FunctionType):
            continue
        seen.add(function.__name__)
        parts.insert(0, inspect.getsource(function))

        for name in _names_in(function.__code__):
            value = function.__globals__.get(name)
            if isinstance(value, FunctionType) and value.__module__ == function.__module__:
                left.append(value)
            elif isinstance(value, int | float | str | tuple) and name not in seen:
                seen.add(name)
                parts.insert(0, f"{name} = {value!r}")
    return "\n\n\n".join(["import numpy as np", *parts]) + "\n"


def _names_in(code: CodeType) -> list[str]:
    """Return the global names and attributes that code uses, and those of functions defined in it."""
    names = [*code.co_names]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names += _names_in(constant)
    return names
