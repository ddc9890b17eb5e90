"""The part of a learner's process that is not the learner's code: it receives questions and answers them."""

import builtins
import decimal
import fractions
import json
import os
import resource
import socket
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

# a learner may patch builtins; the functions below keep the original ones
globals()["__builtins__"] = dict(vars(builtins))
BITS, DEPTH, MOST = 4096, 50, 1000  # bits of an int; nesting of lists; characters of a message


class Answers:
    """Answer lines of JSON with lines of JSON, without using anything that a learner can patch.

    Therefore everything that is needed later is stored here before the first line of a learner's code runs.
    """

    def __init__(self, refused: str) -> None:
        """Store functions of other modules as attributes of this object."""
        numpy = sys.modules["numpy"]
        self.refused, self.rest, self.array, self.socket = (
            refused,
            bytearray(),
            numpy.array,
            socket.socket,
        )
        self.generator, self.clients = types.GeneratorType, {"": lambda thing: thing}
        self.leave, self.limit = os._exit, resource.setrlimit
        coder, text = json.encoder.c_make_encoder, json.encoder.encode_basestring_ascii  # type: ignore[attr-defined]
        self.code = coder(None, None, text, None, ":", ",", False, False, True)
        self.scan = json.JSONDecoder(object_hook=self.loaded).scan_once  # type: ignore[attr-defined]
        # The two numbers of a fraction as they are stored, for its own methods could be patched.
        upper, lower = (
            vars(fractions.Fraction)[slot].__get__ for slot in ("_numerator", "_denominator")
        )
        divided = int.__truediv__
        self.bare: dict[type, Callable[[Any], Any]] = {
            numpy.floating: float,
            numpy.integer: int,
            numpy.bool_: bool,
            numpy.ndarray: numpy.ndarray.tolist,
            fractions.Fraction: lambda value: divided(upper(value), lower(value)),
            decimal.Decimal: decimal.Decimal.__float__,
            int: int.__pos__,
            float: float.__pos__,
            str: str.__str__,
        }
        self.space = types.ModuleType("__main__")
        self.names = vars(self.space)
        self.names["__builtins__"] = builtins  # not the copy made above

    def serve(self, active: list[str], watch: Callable[[Callable[[str], None]], None]) -> None:
        """Report which protections hold, then run cells and call functions as the parent asks, until it hangs up.

        ``watch`` begins to watch what the learner's code tries, and gets a function that tells the parent of it.
        """
        line, most = self.socket(fileno=3), resource.getrlimit(resource.RLIMIT_AS)[1]
        self.send, self.receive, self.headroom = (
            line.sendall,
            line.recv,
            (resource.RLIMIT_AS, (most, most)),
        )
        sys.modules["__main__"] = self.space
        self.say({"active": active})
        watch(lambda kind: self.say({"tried": kind}))
        while True:
            ask = self.hear()
            found = [
                self.attempt(self.run, code, f"cell {n}")
                for n, code in enumerate(ask.get("cells", []))
            ]
            if "call" in ask:
                deed, missing = (
                    self.names.get(ask["call"]),
                    {"problem": "missing", "said": ask["call"]},
                )
                found.append(self.attempt(deed, *ask["args"]) if callable(deed) else missing)
            first = next(
                (answer for answer in found if "problem" in answer), found[-1] if found else {}
            )
            self.say({"id": ask["id"], **first})

    def run(self, code: str, name: str) -> None:
        """Run one cell in the learner's namespace."""
        exec(compile(code, name, "exec", dont_inherit=True), self.names)

    def attempt(self, deed: Callable[..., Any], *args: Any) -> dict[str, Any]:
        """Make a call, and return its value or a description of the problem."""
        try:
            value = getattr([*args, 0][0], "alone", lambda deed: deed)(deed)(*args)
            if type(value) is self.generator:  # the parent continues it by a new name
                name = f"{value.__name__}/{len(self.names)}"
                self.names[f"{name}?"] = lambda program=value: self.place_of(program)
                self.names[name], value = (
                    lambda program=value: next((False for _ in program), True),
                    name,
                )
        except BaseException as error:
            return self.described(error)
        try:
            return {"value": self.plain(value)}
        except TypeError as error:
            return {"problem": "value", "said": str(error)}
        except BaseException as error:
            return self.described(error)

    def place_of(self, program: Any) -> list[list[Any]]:
        """Return the function and the line where a program waits, and the same of each that it waits for."""
        place = []
        while type(program) is self.generator and program.gi_frame is not None:
            place.append([program.__name__, program.gi_frame.f_lineno])
            program = program.gi_yieldfrom
        return place

    def described(self, error: BaseException) -> dict[str, Any]:
        """Describe an error, with the last line of the learner's code that was involved."""
        if isinstance(error, MemoryError):
            self.limit(*self.headroom)
        place, step = None, error.__traceback__
        while step:
            if step.tb_frame.f_code.co_filename.startswith("cell "):
                place = (int(step.tb_frame.f_code.co_filename[5:]), step.tb_lineno)
            step = step.tb_next
        kinds = {MemoryError: "memory", SystemExit: "exited"}
        problem = next(
            (problem for kind, problem in kinds.items() if isinstance(error, kind)), "raised"
        )
        if isinstance(error, SyntaxError) and not place:
            problem, place = "syntax", (int((error.filename or "cell 0")[5:]), error.lineno or 0)
        try:
            words = error.msg if isinstance(error, SyntaxError) else str(error)
        except BaseException:
            words = "..."
        said = f"{type(error).__name__}: {words[:MOST]}".removesuffix(": ")
        return {"problem": problem, "said": said, "place": place}

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a message as one line."""
        self.send(("".join(self.code(message, 0)) + "\n").encode())

    def hear(self) -> Any:
        """Wait for one line and return its message; end this process if the parent is gone."""
        while (end := self.rest.find(b"\n")) < 0:
            piece = self.receive(1 << 16)
            self.rest += piece
            if not piece:
                self.leave(0)
        line = self.rest[:end].decode()
        del self.rest[: end + 1]
        return self.scan(line, 0)[0]

    def loaded(self, item: dict[str, Any]) -> Any:
        """Restore what JSON has no form for: arrays, dictionaries with numbers as keys, and stand-ins for proxies."""
        if "__array__" in item:
            return self.array(item["__array__"], dtype=item.get("dtype"))
        if "__pairs__" in item:
            return dict(item["__pairs__"])
        return self.stand_in(**item["__proxy__"]) if "__proxy__" in item else item

    def stand_in(
        self, number: int, name: str, methods: list[str], fields: dict[str, Any], client: str
    ) -> Any:
        """Return an object whose methods are run by the parent."""

        def method(called: str) -> Callable[..., Any]:
            def ask(*args: Any, **options: Any) -> Any:
                self.say(
                    {
                        "proxy": number,
                        "method": called,
                        "args": self.plain(args),
                        "options": self.plain(options),
                    }
                )
                answer = self.hear()
                if "error" in answer:
                    raise ValueError(answer["error"])
                return answer["value"]

            return ask

        thing = type(
            name, (), {**fields, **{called: staticmethod(method(called)) for called in methods}}
        )()
        if client and client not in self.clients:
            exec(client, names := dict[str, Any]())
            self.clients[client] = names["client"]
        return self.clients[client](thing)

    def refuse(self, what: str) -> NoReturn:
        """Raise an error that names what cannot be sent."""
        raise TypeError(self.refused.replace("{said}", what))

    def plain(self, value: Any, depth: int = 0) -> Any:
        """Convert a value to types that JSON has; numbers and arrays of numpy and subclasses become plain types."""
        kind = type(value)
        if kind is str:
            value.encode()  # raises here if the text cannot be sent
        if kind is int and value.bit_length() > BITS:
            self.refuse("int")
        if kind is float and value != value:
            return {"__nan__": 0}
        if kind is float and value - value != 0:
            self.refuse(repr(value))
        if value is None or kind is bool or kind is str or kind is int or kind is float:
            return value
        if depth <= DEPTH and isinstance(value, list | tuple):
            return [self.plain(item, depth + 1) for item in value]
        if depth <= DEPTH and isinstance(value, dict):
            each = dict.items(value)
            return {
                "__pairs__": [
                    [self.plain(key, DEPTH + 1), self.plain(item, depth + 1)] for key, item in each
                ]
            }
        for base, bare in self.bare.items():
            if isinstance(value, base):
                return self.plain(bare(value), depth + 1)
        self.refuse(kind.__name__)
