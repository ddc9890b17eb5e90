"""One learner's code in one child process: lines of JSON go out, and nothing that comes back is believed."""

import json
import math
import os
import re
import secrets
import select
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from fabriclab.course.judges import Proxy
from fabriclab.errors import FabricError
from fabriclab.texts import text

PATIENCE = 20.0  # s for what costs milliseconds on a quiet machine: a start, an end
LONGEST = 500  # characters of a message
_DIGITS = 1300  # of an integer: more than a child sends
_MOST_PAIRS = 1000
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
_REPORTED = (
    "exited",
    "memory",
    "missing",
    "raised",
    "syntax",
    "value",
)  # what a child may say of itself


class SandboxError(FabricError):
    """Learners' code cannot be run here, or not now."""


class _Over(Exception):
    """A session is over, with this `Outcome`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a call: a value of JSON's types, or a problem by its key; and the learner's time [s]."""

    value: Any = None
    problem: str = ""
    said: str = ""
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


class Forks(Protocol):
    """What a session asks of the sandbox that made it."""

    limits: Any
    active: tuple[str, ...]
    last_words: str

    def control(self) -> socket.socket:
        """Return the line to the process that forks."""

    def close(self) -> None:
        """End every process."""


class Session:
    """One child with a learner's cells; made by `Sandbox.session`, and over with `close`.

    Its attribute ``cells`` is what came of the cells: the first problem, if there was one; ``ended_by`` is the name of
    the function that has ended the session: empty while it goes on, or if the cells have ended it.
    """

    def __init__(self, box: Forks, cells: Sequence[str], prelude: str = "") -> None:
        """Have a child forked, and run the prelude and the cells in it."""
        self._box, self._limits, self._over, self.ended_by = box, box.limits, Outcome(), ""
        self._rest, self._requests, self._left = b"", 0, PATIENCE
        self._proxies: list[Proxy] = []
        self._control: socket.socket | None = box.control()
        self._line, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._control, [b"run"], [theirs.fileno()])
            self.active = tuple(self._exchange({}).get("active", ()))
            if box.active not in ((), self.active):
                raise _Over(Outcome(problem="start", said=f"{box.active} {self.active}"))
            self._left = self._limits.wall_s
            self.cells = self._ask({"cells": [prelude, *cells]})
        except BaseException as error:
            self.close()
            if not isinstance(error, _Over | OSError):
                raise
            raise SandboxError(text("sandbox.start", said=box.last_words or str(error))) from None

    def call(self, name: str, /, *args: Any) -> Outcome:
        """Call a function of the learner's by its name and return what came of it; nothing that it does raises here.

        Arguments are numbers, strings, lists, dictionaries, arrays, and proxies.
        """
        if self._over.problem:
            return replace(self._over, seconds=0.0, name=self.ended_by)
        found = replace(self._ask({"call": name, "args": _packed(args, self._proxies)}), name=name)
        self.ended_by = name if self._over.problem else ""
        if found.problem == "missing" and not self.cells.ok:  # a cell that failed is the reason
            return replace(self.cells, seconds=found.seconds)
        return found

    def close(self) -> tuple[int, float]:
        """End the child and all that it started; return its wait status and CPU time [s]. May be called twice."""
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
        return status, cpu

    def _ask(self, ask: dict[str, Any]) -> Outcome:
        """Send one question; return its answer, or the problem that ended the session."""
        before = self._left
        try:
            found = self._answer(ask)
        except _Over as error:
            found = self._over = error.args[0]
            self.close()
        return replace(found, seconds=before - self._left)

    def _answer(self, ask: dict[str, Any]) -> Outcome:
        token = secrets.token_hex(8)
        reply = self._exchange({"id": token, **ask})
        while "proxy" in reply:
            reply = self._exchange(self._served(reply))
        if reply.get("id") != token:  # forged, or a second answer to the question before
            raise _Over(Outcome(problem="protocol"))
        if "problem" not in reply:
            return Outcome(reply.get("value"))
        problem, said, place = (reply.get(key) for key in ("problem", "said", "place"))
        if problem not in _REPORTED or not isinstance(said, str):
            raise _Over(Outcome(problem="protocol"))
        said = shown(said)
        if isinstance(place, list) and [type(n) for n in place] == [int, int]:
            said = text("sandbox.at", said=said, cell=place[0], line=place[1])
        return Outcome(None, problem, said)

    def _served(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call the method of a proxy's target that the child asks for."""
        self._requests += 1
        if self._requests > self._limits.requests:
            raise _Over(Outcome(problem="requests", said=f"{self._limits.requests}"))
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
            raise _Over(Outcome(problem="protocol"))
        try:
            return {
                "value": _packed(
                    getattr(proxy.target, str(method))(*args, **options), self._proxies
                )
            }
        except Exception as error:
            return {"error": cut(str(error))}

    def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message, if any, and return the next that comes: the learner's clock runs here, and nowhere else."""
        line = _ENCODE(message).encode() + b"\n" if message else b""
        end = time.monotonic() + self._left
        try:
            self._line.settimeout(max(self._left, 1e-3))
            self._line.sendall(line)
            while b"\n" not in self._rest:
                self._rest += self._piece(end - time.monotonic())
        except TimeoutError:
            raise _Over(Outcome(problem="time", said=f"{self._limits.wall_s:g} s")) from None
        except OSError:
            raise self._ended() from None
        finally:
            self._left = end - time.monotonic()
        found, _, self._rest = self._rest.partition(b"\n")
        try:
            reply = _DECODER.decode(found.decode())
            json.dumps(
                reply, ensure_ascii=False
            ).encode()  # half of a sign, which no file can hold, is a ValueError
        except (ValueError, TypeError, RecursionError):
            reply = None
        if not isinstance(reply, dict):
            raise _Over(Outcome(problem="protocol"))
        return reply

    def _piece(self, left: float) -> bytes:
        """Return the next bytes that come while there is time."""
        ends = [self._line, *filter(None, [self._control])]
        ready = select.select(ends, [], [], left)[0] if left > 0 else []
        if not ready:
            raise TimeoutError
        piece = self._line.recv(1 << 16) if self._line in ready else b""
        if not piece:  # the child is dead, or has closed its end
            raise self._ended()
        if len(self._rest) + len(piece) > self._limits.reply:
            raise _Over(Outcome(problem="long", said=f"{self._limits.reply}"))
        return piece

    def _ended(self) -> _Over:
        """Return how the child ended."""
        status, cpu = self.close()
        if os.WIFEXITED(status):
            return _Over(Outcome(problem="exited", said=f"{os.WEXITSTATUS(status)}"))
        if os.WTERMSIG(status) == signal.SIGXCPU or cpu >= self._limits.cpu_s:
            return _Over(Outcome(problem="cpu", said=f"{self._limits.cpu_s:g} s"))
        return _Over(Outcome(problem="killed", said=signal.Signals(os.WTERMSIG(status)).name))


def _packed(value: Any, proxies: list[Proxy]) -> Any:
    """Return a value as what JSON can carry; a proxy is added to the list, and goes as its place there."""
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
    """Return the number that JSON has written, if it is not infinite as 1e999 is."""
    if math.isinf(found := float(digits)):
        raise ValueError
    return found


def _whole(digits: str) -> int:
    """Return the integer that JSON has written; NaN and Infinity come here too, and are refused like long ones."""
    return int(digits if len(digits) <= _DIGITS else "")


def _unpaired(item: dict[str, Any]) -> Any:
    """Return the dictionary that was sent as pairs, so that its keys may be numbers; or NaN, which JSON lacks."""
    if "__pairs__" not in item:
        return math.nan if "__nan__" in item else item
    if (
        len(item["__pairs__"]) > _MOST_PAIRS
    ):  # many keys could be chosen so that each takes the time of all others
        raise ValueError
    return dict(item["__pairs__"])


_DECODER = json.JSONDecoder(
    object_hook=_unpaired, parse_float=_finite, parse_int=_whole, parse_constant=_whole
)


def cut(words: str, most: int = LONGEST) -> str:
    """Return the beginning of a text, cut between two words where there is such a place, and marked."""
    if len(words) <= most:
        return words
    whole = words[: most + 1].rsplit(None, 1)[0]
    return f"{whole if most - 60 < len(whole) <= most else words[:most]} ..."


def shown(words: str, most: int = LONGEST) -> str:
    """Return a learner's words in one line and not too long; what would act on a terminal is spelled out."""
    said = _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), cut(words, most))
    return " ".join(said.split())
