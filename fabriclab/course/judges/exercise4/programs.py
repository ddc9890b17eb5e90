"""Exercise 4: a learner's switch program comes as plain steps, and becomes a program of the library again.

So each rule of the pipeline is checked here, whatever the process of the learner has done to its own copy.
"""

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fabriclab import errors, units
from fabriclab.course.judges import Proxy
from fabriclab.course.judges.shared.numbers import Misread
from fabriclab.course.questions.files import message
from fabriclab.innetwork import (
    MULTICAST,
    REPLY,
    Packet,
    Program,
    Switch,
    expressions,
    look_up,
    pipeline,
)
from fabriclab.innetwork.expressions import (
    ARITHMETIC,
    CONDITIONS,
    ProgramRefused,
    ProgramValue,
    combine,
    value_of,
)

CLIENT = Path(__file__).with_name("data").joinpath("crew.py").read_text(encoding="utf-8")
_LEAST, _MOST = 16, 64  # values of a packet
_JOB_BITS, _WORD = 2, 32  # of the field that the network writes, and of the largest
_STEPS = 5000
_CELLS = 4  # of each slot, so that no design has a place of its own for every chunk
_NAME = re.compile("[A-Za-z][A-Za-z0-9_]{0,30}")
# What a switch program is made of, for the process of a learner, where the library is hidden.
_OFFERED = {
    "fabriclab.errors": inspect.getsource(errors),
    "fabriclab.units": "import numbers\n"
    + inspect.getsource(units.count)
    + inspect.getsource(units._is_flag),
    "fabriclab": "import sys\nunits = sys.modules['fabriclab.units']",
    "fabriclab.catalog.tables": "read_rows = None",
    "fabriclab.innetwork.expressions": inspect.getsource(expressions),
    "fabriclab.innetwork.pipeline": inspect.getsource(pipeline),
    "fabriclab.innetwork": "from fabriclab.innetwork.expressions import (\n"
    "    ProgramRefused, look_up, saturating_add, where)\n"
    "from fabriclab.innetwork.pipeline import DROP, MULTICAST, REPLY, Packet, Program, Register",
}
PRELUDE = f"""
def _offer(sources):
    import sys, types
    for name, source in sources.items():
        module = sys.modules[name] = types.ModuleType(name)
        exec(compile(source, name, "exec"), vars(module))
_offer({_OFFERED!r})
del _offer
"""


def desk(way: str, **values: Any) -> Proxy:
    """Return what a learner's class is called with, so that it is described or plays a part that is known before."""
    return Proxy(None, (), {"way": way, **values}, CLIENT)


class Recorded(Program):
    """A program that a learner's process has recorded.

    Parameters
    ----------
    said : object
        What `described` of the client returns, or anything else.
    """

    def __init__(self, said: Any) -> None:
        """Check the form and make the registers; the rules of the pipeline are checked where the program is placed."""
        if not _well_formed(said):
            raise Misread(message(4, "program"))
        self.said, self.fields, self.lanes = said, dict(said["fields"]), said["lanes"]
        for name, size, pair, lanes in said["registers"]:
            self.register(name, size, pair=pair, lanes=lanes)

    def apply(self, packet: Packet) -> None:
        """Do the steps again."""
        self._values = list[Any]()
        self._leaves = {f"p_{f}": v for f, v in packet.fields.items()} | {"payload": packet.payload}
        steps = iter(self.said["steps"])
        self._follow(steps, ())
        *fields, payload = (self._values[i] for i in self.said["ends"][: len(packet.fields) + 1])
        whens = (self._values[i] for i in self.said["ends"][len(packet.fields) + 1 :])
        packet.fields = dict(zip(packet.fields, map(value_of, fields), strict=True))
        packet.payload = value_of(payload)
        packet.actions = [*zip(self.said["actions"], whens, strict=True)]

    def _follow(self, steps: Iterator[Sequence[Any]], memory: Sequence[ProgramValue]) -> list[Any]:
        """Do steps up to the end of an access, and return what it writes and gives."""
        for op, args, entries in steps:
            given = [self._values[i] for i in args]
            if op == "end":
                return given
            if op == "begin":
                register = self.registers[entries[0]]
                self._values.append(None)

                def update(*held: ProgramValue, pair: bool = register.pair) -> tuple[Any, Any]:
                    *new, out = self._follow(steps, held)
                    return (tuple(new) if pair else new[0]), out

                self._values.append(self._given(register.name, register.access(given[0], update)))
            elif op == "memory":
                self._values.append(memory[entries[0]])
            elif op == "look":
                self._values.append(look_up(given[0], entries))
            elif given:
                self._values.append(combine(op, *given))
            else:
                self._values.append(self._leaves[op] if op in self._leaves else int(op))
        return []

    def _given(self, name: str, value: ProgramValue) -> ProgramValue:
        self._leaves[f"{name}_out"] = value
        return value


def placed(said: Any, cells: int, device: str = "tofino1") -> Switch:
    """Return a switch with the program that a learner's process has recorded.

    Raises
    ------
    ProgramRefused
        If the program breaks a rule, of the pipeline or of the exercise.
    Misread
        If it is no program.
    """
    try:
        program = Recorded(said)
    except ValueError as error:  # the size of a register
        raise ProgramRefused(str(error)) from error
    sound = (
        all(0 <= bits <= _WORD for bits in program.fields.values())
        and _LEAST <= program.lanes <= _MOST
    )
    if program.fields.get("job") != _JOB_BITS or not sound:
        given = f"{dict(program.fields)}, {program.lanes}"
        raise ProgramRefused(
            message(4, "layout", bits=_JOB_BITS, least=_LEAST, most=_MOST, given=given)
        )
    wide = [r for r in program.registers if r.lanes]
    if sum(r.size * (1 + r.pair) for r in wide) > _CELLS * cells or any(
        r.lanes != program.lanes for r in wide
    ):
        given = ", ".join(f"{r.name}: {r.size} x {r.lanes}" for r in wide)
        raise ProgramRefused(message(4, "cells", most=_CELLS * cells, got=given))
    try:
        return Switch(program, device)
    except ProgramRefused:
        raise
    except Exception as error:  # steps that no client writes
        raise Misread(message(4, "program")) from error


def _well_formed(said: Any) -> bool:
    """Return whether a description has the form that the client gives it, and names nothing that is not there."""
    try:
        fields, registers, steps, ends = (
            said[key] for key in ("fields", "registers", "steps", "ends")
        )
        names = [*fields, *(row[0] for row in registers)]
        kinds = [type(name) is str and _NAME.fullmatch(name) for name in names]
        numbers = [
            *fields.values(),
            said["lanes"],
            *ends,
            *(n for row in registers for n in (row[1], row[3])),
        ]
        numbers += [n for _, args, entries in steps for n in (*args, *entries)]
        sound = all(
            op in ("begin", "memory", "end", "look")
            or (op in ARITHMETIC | CONDITIONS if args else _leaf(op))
            for op, args, _ in steps
        )
        sound = (
            sound
            and all(kinds)
            and all(type(row[2]) is bool for row in registers)
            and len(steps) <= _STEPS
        )
        sound = (
            sound
            and all(type(n) is int for n in numbers)
            and len(ends) == len(fields) + 1 + len(said["actions"])
        )
        sound = sound and set(said["actions"]) <= {REPLY, MULTICAST}
        return sound and all(0 <= i < n for n, (_, args, _) in enumerate(steps) for i in args)
    except (TypeError, KeyError, ValueError, AttributeError):
        return False


def _leaf(op: Any) -> bool:
    return type(op) is str and bool(re.fullmatch(r"-?\d{1,10}", op) or _NAME.fullmatch(op))
