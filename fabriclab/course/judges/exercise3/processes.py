"""Exercise 3 between real processes: a group that trains, and a link to another process for measurements.

The processes of a group serve many runs. A killed process is replaced, and its memory is freed.
"""

import contextlib
import inspect
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FunctionType
from typing import Any, Self

from fabriclab import rdma, units
from fabriclab.course.questions.files import message
from fabriclab.texts import text

from .node import ALL, pair, serve
from .training import SERVER

_PATIENCE = 60.0  # s


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
        for one in (server, worker):
            if "NotImplementedError" in getattr(getattr(one, "__code__", None), "co_names", ()):
                raise NotImplementedError(text("ex.stub", name=one.__name__))
        self.workers, self._names = (
            workers,
            tuple(getattr(one, "__name__", one) for one in (server, worker)),
        )
        self._folder = tempfile.TemporaryDirectory(prefix="fabriclab-")
        self._path = path or str(Path(self._folder.name, "programs.py"))
        if not path:
            Path(self._path).write_text(source_of(server, worker), encoding="utf-8")
        compile(Path(self._path).read_text(encoding="utf-8"), self._path, "exec")
        self._spare = [self._begin() for _ in range(workers + 1)]

    def _begin(self) -> rdma.Process:
        return rdma.Process(serve, self._path)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        for process in self._spare:
            process.kill()
            process.connection.close()
        self._folder.cleanup()

    @property
    def pids(self) -> list[int]:
        """The numbers of all running processes."""
        return [process.pid for process in self._spare]

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
        while len(self._spare) < len(names) + (kill >= 0):
            self._spare.append(self._begin())
        crew = dict(zip(names, self._spare, strict=False))
        pauses = {rank: units.time(delay) for rank, delay in (delays or {}).items()}
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
            process.send(["run", name, self._names[name != SERVER], about])
        return self._led(crew, bound, kill)

    def _led(self, crew: dict[Any, rdma.Process], bound: int, kill: int) -> dict[str, Any]:
        """Carry letters until all have ended or are dead."""
        lines = {process.connection: name for name, process in crew.items()}
        cards, connected = dict[Any, Any](), 0
        out: dict[str, Any] = {"problems": [], "counters": {}, "dead": [], "bound": bound}
        final, begun, end = "none", 0.0, time.monotonic() + _PATIENCE
        waiting, late = set(crew), list[list[Any]]()
        while waiting:
            if time.monotonic() > end:
                out["problems"].append(
                    message(
                        3, "fault.hangs", who=", ".join(map(str, waiting)), why=out["dead"] or "-"
                    )
                )
                for name in waiting:
                    self._spare.remove(crew[name])
                    crew[name].kill()
                break
            for line in wait([*lines], 0.5):
                name = lines[line]  # type: ignore[index]
                try:
                    what, *rest = crew[name].connection.recv()
                except (EOFError, OSError):
                    del lines[line]  # type: ignore[arg-type]
                    waiting.discard(name)
                    self._spare.remove(crew[name])
                    crew[name].kill()
                    crew[name].connection.close()
                    out["dead"].append(name)
                    if name != kill:
                        out["problems"].append(message(3, "died", who=name))
                    self._tell(crew, lines, ["gone", name])
                    continue
                if what == "cards":
                    cards[name] = rest[0]
                    if len(cards) == len(crew):
                        for one in crew:
                            mine = {peer: cards[peer][one] for peer in cards[one]}
                            crew[one].send(["cards", mine])
                elif what == "connected":
                    connected += 1
                    if connected == len(crew):
                        begun = time.monotonic()
                        self._tell(crew, lines, ["go"])
                elif what == "letter":
                    with contextlib.suppress(OSError):
                        crew[rest[0]].send(["letter", rest[1], rest[2]])
                elif what == "stale":
                    late.append(rest)
                elif what == "result":
                    final = rest[0]
                elif what == "ended":
                    out["counters"][name] = rest[0]
                    waiting.discard(name)
        self._tell(
            crew, {line: name for line, name in lines.items() if name in out["counters"]}, ["over"]
        )
        out["seconds"] = time.monotonic() - begun
        stale = [(who, step, of, k) for who, step, of, k in late if of not in out["dead"]][:1]
        out["problems"] += [
            message(3, "fault.stale", worker=who, step=step, bound=out["bound"], of=of, missing=k)
            for who, step, of, k in stale
        ]
        out["problems"] += self._off(final, out)
        return out

    def _tell(
        self, crew: Mapping[Any, rdma.Process], lines: Mapping[Any, Any], what: list[Any]
    ) -> None:
        for name in lines.values():
            with contextlib.suppress(OSError):
                crew[name].send(what)

    def _off(self, final: Any, out: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is wrong with the result."""
        if final == "none":
            yield message(3, "fault.nothing")
        elif final is None or any(every != some for every, some in final.values()):
            yield message(3, "fault.wrong")
        else:
            lost = [
                one for one, (every, _) in final.items() if not every and one[0] not in out["dead"]
            ]
            if lost:
                yield message(3, "fault.lost", worker=lost[0][0], step=lost[0][1], n=len(lost))


class Link:
    """Another process, connected by a queue pair and by a TCP socket; leaving ``with`` ends it.

    Parameters
    ----------
    size : float or str
        Size of both regions. [B]
    """

    def __init__(self, size: Any) -> None:
        self.rdma, length = rdma, int(units.size(size))
        self._context = rdma.Context(name=rdma.DEVICE)
        pd, self.cq = rdma.PD(self._context), rdma.CQ(self._context, 64)
        self.mr, self.qp = rdma.MR(pd, length, ALL), pair(pd, self.cq)
        self._process = rdma.Process(_answer, length)
        rkey, addr = rdma.connect(self.qp, self.mr, self._process.connection)
        self.target = {"addr": addr, "rkey": rkey}
        self.socket = socket.create_connection(("127.0.0.1", self._process.recv(_PATIENCE)))
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
    """Be the other process of a link."""
    context = rdma.Context(name=rdma.DEVICE)
    pd, cq = rdma.PD(context), rdma.CQ(context, 64)
    mr, qp = rdma.MR(pd, length, ALL), pair(pd, cq)
    rdma.connect(qp, mr, connection)
    with socket.create_server(("127.0.0.1", 0)) as door:
        connection.send(door.getsockname()[1])
        line = door.accept()[0]
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    room = memoryview(bytearray(length))
    while head := line.recv(8, socket.MSG_WAITALL):
        left = min(int.from_bytes(head, "little"), length)
        while left and (got := line.recv_into(room[:left])):
            left -= got
        line.sendall(b"1")


def source_of(*functions: Callable[..., Any]) -> str:
    """Return the code of functions, and of everything in the notebook that they use, as the text of a module."""
    parts, left, seen = list[str](), list(functions), set[str]()
    while left:
        function = left.pop()
        if function.__name__ in seen or not isinstance(function, FunctionType):
            continue
        seen.add(function.__name__)
        parts.insert(0, inspect.getsource(function))
        for name in _named(function.__code__):
            thing = function.__globals__.get(name)
            if isinstance(thing, FunctionType) and thing.__module__ == function.__module__:
                left.append(thing)
            elif isinstance(thing, int | float | str | tuple) and name not in seen:
                seen.add(name)
                parts.insert(0, f"{name} = {thing!r}")
    return "\n\n\n".join(["import numpy as np", *parts]) + "\n"


def _named(code: Any) -> Sequence[str]:
    inner = [name for part in code.co_consts if hasattr(part, "co_names") for name in _named(part)]
    return [*code.co_names, *inner]
