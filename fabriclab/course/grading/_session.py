"""One learner's code in one child process: lines of JSON go out, and whatever comes back is checked."""

import json
import math
import os
import re
import secrets
import select
import signal
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from fabriclab.course.judges import Proxy
from fabriclab.errors import FabricError
from fabriclab.texts import text

from ._attempts import FORGED, KINDS
from ._clock import ProcessorClock, Spent, starved
from .limits import Limits

PATIENCE = 60.0  # wall-clock limit for a start or an end, which usually take milliseconds [s]
# Time is charged to a function by its name, to the cells, and to the whole question.
CELLS, QUESTION = "", "/"
_WORTH = 0.1  # waiting after which it is looked up whether the processes could run meanwhile [s]
_SHORTEST = 0.005  # shortest time between two looks at the clock while waiting for an answer [s]
_CREDENTIALS = struct.Struct("3i")  # what the kernel reports about a sender: process, user, group
LONGEST = 500  # most characters of a message
_DIGITS = 1300  # most digits of an integer, more than a child sends
_MOST_PAIRS = 1000
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
# problems that a child may report itself
_REPORTED = ("exited", "memory", "missing", "raised", "syntax", "value")


class SandboxError(FabricError):
    """Learners' code cannot be run on this machine, or not now."""


class _Over(Exception):
    """A session has ended, with the `CallOutcome` that this error carries."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of a call: a value of JSON's types or the key of a problem, and the processor time [s]."""

    value: Any = None
    problem: str = ""
    said: str = ""
    seconds: float = 0.0
    name: str = ""  # of the function; empty for the cells

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return not self.problem

    @property
    def sentence(self) -> str:
        """A sentence on the problem for a reader; empty if there is no problem."""
        name = self.name or text("grade.cells")
        return text(f"sandbox.{self.problem}", said=self.said, name=name) if self.problem else ""


class Forks(Protocol):
    """What a session needs of the sandbox that made it."""

    limits: Limits
    active: tuple[str, ...]
    last_words: str

    def control(self) -> socket.socket:
        """Return the socket to the process that forks children."""

    def close(self) -> None:
        """End all processes."""


class Session:
    """One child with a learner's cells; `Sandbox.session` makes it, and `close` ends it.

    Its attribute ``cells`` is the outcome of the cells, with their first problem if there was one. ``ended_by`` is the
    name of the function that has ended the session; it is empty while the session goes on, and if the cells have ended
    it. ``spent`` adds up the time that each part has used; sessions of one question share it. ``tried`` has the kinds
    of attempts at the walls that were noticed, by their names in `_attempts`.
    """

    def __init__(
        self,
        box: Forks,
        cells: Sequence[str],
        prelude: str = "",
        spent: dict[str, Spent] | None = None,
    ) -> None:
        """Ask for a child, and run the prelude and the cells in it."""
        self._box, self._limits, self._over, self.ended_by = box, box.limits, CallOutcome(), ""
        self._rest, self._requests, self._final = b"", 0, 0.0
        self._since = 0.0  # when waiting for an answer was last charged [s]
        self._proxies: list[Proxy] = []
        self._spent = {} if spent is None else spent
        self._question = self._spent.setdefault(QUESTION, Spent())
        self._begun = dict[str, str]()
        self.tried = set[str]()
        # So many of the child's threads can run at the same time.
        self._cores = min(os.cpu_count() or 1, self._limits.processes)
        self._control: socket.socket | None = box.control()
        self._line, theirs = socket.socketpair()
        self._line.setblocking(False)
        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            with theirs:
                socket.send_fds(self._control, [b"run"], [theirs.fileno()])
            self.active, pid = self._greeting()
            if box.active not in ((), self.active):
                raise _Over(CallOutcome(problem="start", said=f"{box.active} {self.active}"))
            self._pid = pid
            self._starved = starved(pid) + starved("thread-self")
            self._clock = ProcessorClock(pid, family="seccomp" not in self.active)
            self._charged = self._told = self._clock.read()
            self._part = self._spent[CELLS] = Spent()  # cells start from 0 each time they run
            self.cells = self._ask({"cells": [prelude, *cells]}, CELLS)
        except BaseException as error:
            self.close()
            if not isinstance(error, _Over | OSError):
                raise
            raise SandboxError(text("sandbox.start", said=box.last_words or str(error))) from None

    def call(self, name: str, /, *args: Any) -> CallOutcome:
        """Call a learner's function by its name and return the outcome; nothing that the function does raises here.

        Arguments are numbers, strings, lists, dictionaries, arrays, and proxies.
        """
        if self._over.problem:
            return replace(self._over, seconds=0.0, name=self.ended_by)
        question = {"call": name, "args": _packed(args, self._proxies)}
        part = self._begun.get(name, name)
        found = replace(self._ask(question, part), name=name)
        if isinstance(found.value, str) and "/" in found.value:
            # This is the name of a program that the function has begun, and whose turns are charged to the function.
            self._begun[found.value] = part
        self.ended_by = name if self._over.problem else ""
        if found.problem == "missing" and not self.cells.ok:  # because a cell failed
            return replace(self.cells, seconds=found.seconds)
        return found

    def close(self) -> tuple[int, float]:
        """End the child and its descendants; return its wait status and CPU time [s]. May be called twice."""
        control, self._control = self._control, None
        status, cpu = int(signal.SIGKILL), 0.0
        if not control:
            return status, cpu
        try:
            control.send(b"end")
            control.settimeout(PATIENCE)
            status, cpu = json.loads(control.recv(100))
            control.settimeout(None)
            self._final = cpu
        except (OSError, ValueError):  # its parent is dead or stuck
            self._box.close()
        self._line.close()
        return status, cpu

    def _greeting(self) -> tuple[tuple[str, ...], int]:
        """Return which protections hold, and the number of the child's process in this process's namespace.

        The kernel adds that number to the message, which the child sends before any of the learner's code runs.
        """
        end = time.monotonic() + PATIENCE
        found, pid = b"", 0
        while b"\n" not in found:
            if not self._wait(end - time.monotonic()):
                raise TimeoutError(f"{PATIENCE:g} s")
            piece, about, _, _ = self._line.recvmsg(
                self._limits.reply, socket.CMSG_SPACE(_CREDENTIALS.size)
            )
            if not piece:
                raise self._ended()
            found += piece
            pid, _, _ = _CREDENTIALS.unpack(about[0][2])
            if pid <= 0:  # not visible from here; 0 would mean this process
                raise OSError(f"process {pid}")
        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
        return tuple(json.loads(found)["active"]), pid

    def _ask(self, ask: dict[str, Any], part: str) -> CallOutcome:
        """Send a question to a part; return its answer, or the problem that ended the session."""
        self._charge()  # time since the last answer is charged to the part that gave it
        self._part = self._spent.setdefault(part, Spent())
        waited = self._part.wall
        try:
            found = self._answer(ask)
        except _Over as error:
            found = self._over = error.args[0]
            if found.problem == "protocol":
                self.tried.add(FORGED)
            self.close()
        self._charge()
        if self._part.wall - waited > _WORTH:
            self._forgive()
        before, self._told = self._told, self._charged
        return replace(found, seconds=self._told - before)

    def _charge(self) -> None:
        """Charge the time that the child has used since the last call to the present part."""
        used = self._clock.read() if self._control else self._final
        new = max(used - self._charged, 0.0)
        self._part.processor += new
        self._charged += new

    def _charge_wall(self) -> None:
        """Charge the wall-clock time since the last call to the present part and to the question."""
        now = time.monotonic()
        waited, self._since = now - self._since, now
        self._part.wall += waited
        self._question.wall += waited

    def _forgive(self) -> None:
        """Take off the wall-clock time what child and parent could not use because other programs had the cores."""
        now = starved(self._pid) + starved("thread-self")
        kept_waiting = min(max(now - self._starved, 0.0), self._part.wall)
        self._starved = now
        self._part.wall -= kept_waiting
        self._question.wall -= min(kept_waiting, self._question.wall)

    def _answer(self, ask: dict[str, Any]) -> CallOutcome:
        token = secrets.token_hex(8)
        reply = self._exchange({"id": token, **ask})
        while "proxy" in reply or "tried" in reply:
            if "tried" in reply:
                self._note(reply["tried"])
                reply = self._exchange()
            else:
                reply = self._exchange(self._served(reply))
        if reply.get("id") != token:  # forged, or a second answer to the previous question
            raise _Over(CallOutcome(problem="protocol"))
        if "problem" not in reply:
            return CallOutcome(reply.get("value"))
        problem, said, place = (reply.get(key) for key in ("problem", "said", "place"))
        if problem not in _REPORTED or not isinstance(said, str):
            raise _Over(CallOutcome(problem="protocol"))
        said = shown(said)
        if isinstance(place, list) and [type(n) for n in place] == [int, int]:
            said = text("sandbox.at", said=said, cell=place[0], line=place[1])
        return CallOutcome(None, problem, said)

    def _count(self) -> None:
        """Count a message that asks for something or tells of an attempt; raise if there are too many."""
        self._requests += 1
        if self._requests > self._limits.requests:
            raise _Over(CallOutcome(problem="requests", said=f"{self._limits.requests}"))

    def _note(self, kind: Any) -> None:
        """Note an attempt at the walls, which the child tells of as soon as it is made."""
        self._count()
        if kind not in KINDS:
            raise _Over(CallOutcome(problem="protocol"))
        self.tried.add(kind)

    def _served(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call the method of a proxy that the child asks for, and return its value or error as a message."""
        self._count()
        number, method, args, options = (
            request.get(key) for key in ("proxy", "method", "args", "options")
        )
        proxy = (
            self._proxies[number]
            if isinstance(number, int) and 0 <= number < len(self._proxies)
            else None
        )
        if (
            not proxy
            or method not in proxy.methods
            or not isinstance(args, list)
            or not isinstance(options, dict)
        ):
            raise _Over(CallOutcome(problem="protocol"))
        try:
            return {
                "value": _packed(
                    getattr(proxy.target, str(method))(*args, **options), self._proxies
                )
            }
        except Exception as error:
            return {"error": cut(str(error))}

    def _exchange(self, message: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a message, if there is one, and return the next that comes; only here is wall-clock time counted."""
        self._since = time.monotonic()
        unsent = b"" if message is None else _ENCODE(message).encode() + b"\n"
        try:
            while unsent:
                longest = self._longest_wait()
                try:
                    unsent = unsent[self._line.send(unsent) :]
                except BlockingIOError:
                    self._wait(longest, sending=True)
            while b"\n" not in self._rest:
                if self._wait(self._longest_wait()):
                    self._rest += self._piece()
        except OSError:
            raise self._ended() from None
        finally:
            self._charge_wall()
        found, _, self._rest = self._rest.partition(b"\n")
        try:
            reply = _DECODER.decode(found.decode())
            # a lone surrogate, which cannot be written to a file, raises ValueError
            json.dumps(reply, ensure_ascii=False).encode()
        except (ValueError, TypeError, RecursionError):
            reply = None
        if not isinstance(reply, dict):
            raise _Over(CallOutcome(problem="protocol"))
        return reply

    def _longest_wait(self) -> float:
        """Return how long to wait for the child before the next look at its clock; raise if its part has no time left.

        After this wait the part could have used up its processor time, if it ran on all cores that it may have.
        """
        self._charge()
        processor_left = self._limits.cpu_s - self._part.processor
        if processor_left <= 0:
            raise _Over(CallOutcome(problem="cpu", said=f"{self._limits.cpu_s:g} s"))

        self._charge_wall()
        if min(self._wall_left()) <= 0:
            self._forgive()
        part_left, question_left = self._wall_left()
        if part_left <= 0:
            raise _Over(CallOutcome(problem="time", said=f"{self._limits.wall_s:g} s"))
        if question_left <= 0:
            raise _Over(CallOutcome(problem="time", said=f"{self._limits.question_s:g} s"))
        return min(max(processor_left / self._cores, _SHORTEST), part_left, question_left)

    def _wall_left(self) -> tuple[float, float]:
        """Return how long the part, and the question, may still be waited for [s]."""
        part = self._limits.wall_s - self._part.wall
        return part, self._limits.question_s - self._question.wall

    def _wait(self, seconds: float, *, sending: bool = False) -> bool:
        """Wait until the socket can be read, or written to, and return whether it can."""
        if self._control is None:  # another session has been opened since
            raise self._ended()
        reading, writing = ([], [self._line]) if sending else ([self._line], [])
        found = select.select([*reading, self._control], writing, [], max(seconds, 0.0))
        ready = [*found[0], *found[1]]
        if ready and self._line not in ready:  # the child's parent reports its death
            raise self._ended()
        return bool(ready)

    def _piece(self) -> bytes:
        """Return the next bytes, which have already arrived."""
        piece = self._line.recv(1 << 16)
        if not piece:  # the child is dead, or has closed its end
            raise self._ended()
        if len(self._rest) + len(piece) > self._limits.reply:
            raise _Over(CallOutcome(problem="long", said=f"{self._limits.reply}"))
        return piece

    def _ended(self) -> _Over:
        """End the session, and return how the child ended."""
        status, cpu = self.close()
        if os.WIFEXITED(status):
            return _Over(CallOutcome(problem="exited", said=f"{os.WEXITSTATUS(status)}"))
        if os.WTERMSIG(status) == signal.SIGXCPU or cpu >= self._limits.process_s:
            return _Over(CallOutcome(problem="cpu", said=f"{self._limits.cpu_s:g} s"))
        return _Over(CallOutcome(problem="killed", said=signal.Signals(os.WTERMSIG(status)).name))


def _packed(value: Any, proxies: list[Proxy]) -> Any:
    """Convert a value to JSON's types; a proxy is added to ``proxies``, and sent as its place in that list."""
    if isinstance(value, np.ndarray):
        return {"__array__": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Proxy):
        proxies.append(value)
        about = {
            "number": len(proxies) - 1,
            "name": type(value.target).__name__,
            "methods": value.methods,
        }
        about["client"] = value.client
        return {
            "__proxy__": {
                **about,
                "fields": {key: _packed(field, proxies) for key, field in value.values.items()},
            }
        }
    if isinstance(value, list | tuple):
        return [_packed(item, proxies) for item in value]
    if isinstance(value, dict) and not all(type(key) is str for key in value):
        return {
            "__pairs__": [
                [_packed(key, proxies), _packed(item, proxies)] for key, item in value.items()
            ]
        }
    return (
        {key: _packed(item, proxies) for key, item in value.items()}
        if isinstance(value, dict)
        else value
    )


def _finite(digits: str) -> float:
    """Read a number of JSON; raise ValueError if it is infinite, as 1e999 is."""
    if math.isinf(found := float(digits)):
        raise ValueError
    return found


def _whole(digits: str) -> int:
    """Read an integer of JSON; raise ValueError for a long one, and for NaN and Infinity, which come here, too."""
    return int(digits if len(digits) <= _DIGITS else "")


def _unpaired(item: dict[str, Any]) -> Any:
    """Restore a dictionary that was sent as pairs because keys may be numbers, or NaN, which JSON lacks."""
    if "__pairs__" not in item:
        return math.nan if "__nan__" in item else item
    if (
        len(item["__pairs__"]) > _MOST_PAIRS
    ):  # many keys could be chosen to collide, so that each costs the time of all others
        raise ValueError
    return dict(item["__pairs__"])


_DECODER = json.JSONDecoder(
    object_hook=_unpaired, parse_float=_finite, parse_int=_whole, parse_constant=_whole
)


def cut(words: str, most: int = LONGEST) -> str:
    """Return a text, shortened if it is too long; the cut is between two words if possible, and marked with dots."""
    if len(words) <= most:
        return words
    whole = words[: most + 1].rsplit(None, 1)[0]
    return f"{whole if most - 60 < len(whole) <= most else words[:most]} ..."


def shown(words: str, most: int = LONGEST) -> str:
    """Return a learner's words in one line, shortened, and with control characters spelled out."""
    said = _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), cut(words, most))
    return " ".join(said.split())
