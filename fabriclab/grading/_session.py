"""One learner's code in one child process: questions go out, and nothing that comes back is believed."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from fabriclab.errors import FabricError
from fabriclab.exercises import Proxy
from fabriclab.grading._lines import packed, read, shown, written
from fabriclab.texts import text

if TYPE_CHECKING:
    from fabriclab.grading.sandbox import Sandbox

PATIENCE: Final = 20.0  # s for what costs milliseconds on a quiet machine: a start, an end
LONGEST: Final = 500  # characters of a message
_REPORTED: Final = ("exited", "memory", "missing", "raised", "syntax", "value")  # what a child may say of itself
_FLOOD: Final = 1000  # times the output that is kept: who prints more is stopped


class SandboxError(FabricError):
    """Learners' code cannot be run here, or not now."""


class _Over(Exception):
    """A session is over: the key of the problem, and what there is to say."""

    def __init__(self, *, problem: str, said: object = "") -> None:
        super().__init__(problem, said)
        self.problem, self.said = problem, str(said)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call: a value of JSON's types, or a problem by its key; what was printed; the time [s]."""

    value: Any = None
    problem: str = ""
    said: str = ""
    printed: str = ""
    seconds: float = 0.0
    name: str = ""  # of the function; without one it was in the cells

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return not self.problem

    @property
    def sentence(self) -> str:
        """What the problem means, for a reader; empty if there is none."""
        name = self.name or text("grade.cells")
        return text(f"sandbox.{self.problem}", said=self.said, name=name) if self.problem else ""


class Session:
    """One child with a learner's cells; made by `Sandbox.session`, left by ``with`` or `close`.

    Its attribute ``cells`` is what came of the cells: the first problem, if there was one.
    """

    def __init__(self, box: Sandbox, cells: Sequence[str]) -> None:
        """Have a child forked, and run the cells in it."""
        self._box, self._limits, self._over = box, box.limits, Outcome()
        self._rest, self._printed, self._flood = b"", b"", 0
        self._proxies: list[Proxy] = []
        self._requests, self._left, self._deadline = 0, box.limits.wall_s, time.monotonic() + PATIENCE
        self._control: socket.socket | None = box.control()
        self._line, theirs = socket.socketpair()
        self._out, out = os.pipe()
        self._poll = select.poll()
        for file in (self._line.fileno(), self._out, self._control.fileno()):
            self._poll.register(file, select.POLLIN)
        self._line.setblocking(False)
        os.set_blocking(self._out, False)
        try:
            with theirs, open(out, "wb"):
                socket.send_fds(self._control, [b"run"], [theirs.fileno(), out])
            self.active = tuple(self._heard().get("active", ()))
            if box.active not in ((), self.active):
                raise _Over(problem="start", said=f"{box.active} {self.active}")
            self.cells = self._ask({"cells": list(cells)})
        except (_Over, OSError) as error:
            self.close()
            raise SandboxError(text("sandbox.start", said=box.last_words or str(error))) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Session:
        """Return the session."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the child and all that it started."""
        self.close()

    def call(self, name: str, /, *args: Any) -> Outcome:
        """Call a function of the learner's by its name and return what came of it; nothing that it does raises here.

        Arguments are numbers, strings, lists, dictionaries, arrays, and proxies.
        """
        if self._over.problem:
            return replace(self._over, printed="", seconds=0.0)
        found = replace(self._ask({"call": name, "args": packed(args, self._proxies)}), name=name)
        self._over = replace(self._over, name=name if self._over.problem else "")
        if found.problem == "missing" and not self.cells.ok:  # a cell that failed is the reason
            return replace(self.cells, printed="", seconds=found.seconds)
        return found

    @property
    def ended_by(self) -> str:
        """Name of the function that has ended the session; empty while it goes on, or if the cells have ended it."""
        return self._over.name

    def close(self) -> None:
        """End the child and all that it started; may be called twice."""
        self._end()

    def _end(self) -> tuple[int, float]:
        """Have the child and all that it started killed; return its wait status and CPU time [s]."""
        control, self._control = self._control, None
        status, cpu = int(signal.SIGKILL), 0.0
        if not control:
            return status, cpu
        try:
            control.send(b"end")
            control.settimeout(PATIENCE)
            status, cpu = json.loads(control.recv(100))
            control.settimeout(None)
        except (OSError, ValueError):  # its parent is dead or stuck
            self._box.close()
        self._line.close()
        os.close(self._out)
        return status, cpu

    def _ask(self, ask: dict[str, Any]) -> Outcome:
        """Send one question; return its answer, or the problem that ended the session."""
        self._deadline, self._printed = time.monotonic() + self._left, b""
        try:
            found = self._answer(ask)
            self._drain()
        except _Over as error:
            found = self._over = Outcome(None, error.problem, error.said)
            with contextlib.suppress(_Over):
                self._drain()
            self.close()
        left, self._left = self._left, self._deadline - time.monotonic()
        return replace(found, printed=shown(self._printed, self._limits.output), seconds=left - self._left)

    def _answer(self, ask: dict[str, Any]) -> Outcome:
        token = secrets.token_hex(8)
        reply = self._exchange({"id": token, **ask})
        while "proxy" in reply:
            reply = self._exchange(self._served(reply))
        if reply.get("id") != token:  # forged, or a second answer to the question before
            raise _Over(problem="protocol")
        if "problem" not in reply:
            return Outcome(reply.get("value"))
        problem, said, place = (reply.get(key) for key in ("problem", "said", "place"))
        if problem not in _REPORTED or not isinstance(said, str):
            raise _Over(problem="protocol")
        said = " ".join(shown(said, LONGEST).split())
        if isinstance(place, list) and [type(n) for n in place] == [int, int]:
            said = text("sandbox.at", said=said, cell=place[0], line=place[1])
        return Outcome(None, problem, said)

    def _served(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call the method of a proxy's target that the child asks for."""
        self._requests += 1
        if self._requests > self._limits.requests:
            raise _Over(problem="requests", said=self._limits.requests)
        number, method, args, options = (request.get(key) for key in ("proxy", "method", "args", "options"))
        proxy = self._proxies[number] if isinstance(number, int) and 0 <= number < len(self._proxies) else None
        if not proxy or method not in proxy.methods or not isinstance(args, list) or not isinstance(options, dict):
            raise _Over(problem="protocol")
        begin = time.monotonic()
        try:
            return {"value": packed(getattr(proxy.target, str(method))(*args, **options), self._proxies)}
        except Exception as error:
            return {"error": str(error)[:LONGEST]}
        finally:
            self._deadline += time.monotonic() - begin  # this was not the learner's time

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a line, and return the next one that comes."""
        data = written(message)
        try:
            while data:
                try:
                    data = data[self._line.send(data) :]
                except BlockingIOError:
                    if not select.select([], [self._line], [], self._remaining())[1]:
                        raise self._late() from None
        except OSError:
            raise self._ended() from None
        return self._heard()

    def _heard(self) -> dict[str, Any]:
        """Wait for a line while there is time, and take what is printed meanwhile."""
        try:
            while b"\n" not in self._rest:
                if not self._wait():
                    continue
                piece = self._line.recv(1 << 16)
                self._rest += piece
                if not piece:
                    raise self._ended()
                if len(self._rest) > self._limits.reply:
                    raise _Over(problem="long", said=self._limits.reply)
        except OSError:
            raise self._ended() from None
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return read(line)
        except ValueError:
            raise _Over(problem="protocol") from None

    def _wait(self) -> bool:
        """Wait, and take what is printed; say whether there is something on the line."""
        ready = dict(self._poll.poll(1000 * self._remaining()))
        if not ready:
            raise self._late()
        if self._out in ready:
            self._drain()
        if self._control and self._control.fileno() in ready and self._line.fileno() not in ready:
            raise self._ended()
        return self._line.fileno() in ready

    def _remaining(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._late()
        return left

    def _late(self) -> _Over:
        return _Over(problem="time", said=f"{self._limits.wall_s:g} s")

    def _drain(self) -> None:
        """Take what has been printed, and keep the beginning of it."""
        while self._control:
            try:
                piece = os.read(self._out, 1 << 16)
            except BlockingIOError:
                return
            if not piece:  # all have closed it, which poll would report forever
                with contextlib.suppress(KeyError):
                    self._poll.unregister(self._out)
                return
            self._flood += len(piece)
            self._printed += piece[: self._limits.output + 1 - len(self._printed)]
            if self._flood > _FLOOD * self._limits.output:
                raise _Over(problem="output", said=_FLOOD * self._limits.output)

    def _ended(self) -> _Over:
        """Return how the child ended; what it had printed is read before."""
        self._drain()
        status, cpu = self._end()
        if os.WIFEXITED(status):
            return _Over(problem="exited", said=os.WEXITSTATUS(status))
        if os.WTERMSIG(status) == signal.SIGXCPU or cpu >= self._limits.cpu_s:
            return _Over(problem="cpu", said=f"{self._limits.cpu_s:g} s")
        return _Over(problem="killed", said=signal.Signals(os.WTERMSIG(status)).name)
