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
    Register,
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
_LEAST_LANES = 16  # values of a packet
_MOST_LANES = 64
_JOB_BITS = 2  # of the field that the network writes
_WORD = 32  # bits of the largest field
_MOST_STEPS = 5000
_OPERATIONS = ARITHMETIC | CONDITIONS
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


def desk(task: str, **values: Any) -> Proxy:
    """Return what a learner's class is called with, so that it is described or plays a part that is known before."""
    return Proxy(None, (), {"way": task, **values}, CLIENT)


class Recorded(Program):
    """A program that a learner's process has recorded.

    Parameters
    ----------
    description : object
        What `described` of the client returns, or anything else.
    """

    def __init__(self, description: Any) -> None:
        """Check the form and make the registers; the rules of the pipeline are checked where the program is placed."""
        if not _is_well_formed(description):
            raise Misread(message(4, "program"))
        self.description = description
        self.fields = dict(description["fields"])
        self.lanes = description["lanes"]
        for name, size, pair, lanes in description["registers"]:
            self.register(name, size, pair=pair, lanes=lanes)

    def apply(self, packet: Packet) -> None:
        """Do the steps again."""
        self._values = list[Any]()  # of each step, in their order
        self._leaves: dict[str, Any] = {f"p_{field}": v for field, v in packet.fields.items()}
        self._leaves["payload"] = packet.payload
        self._follow(iter(self.description["steps"]), ())

        # The description ends with the values of the fields, that of the payload, and when each action is taken.
        ends = [self._values[step] for step in self.description["ends"]]
        n = len(packet.fields)
        packet.fields = dict(zip(packet.fields, map(value_of, ends[:n]), strict=True))
        packet.payload = value_of(ends[n])
        packet.actions = list(zip(self.description["actions"], ends[n + 1 :], strict=True))

    def _follow(self, steps: Iterator[Sequence[Any]], memory: Sequence[ProgramValue]) -> list[Any]:
        """Do steps up to the end of an access, and return what it writes and gives."""
        for op, args, entries in steps:
            given = [self._values[i] for i in args]
            if op == "end":
                return given
            if op == "begin":
                self._values.append(None)
                self._values.append(self._access(self.registers[entries[0]], given[0], steps))
            elif op == "memory":
                self._values.append(memory[entries[0]])
            elif op == "look":
                self._values.append(look_up(given[0], entries))
            elif given:
                self._values.append(combine(op, *given))
            elif op in self._leaves:
                self._values.append(self._leaves[op])
            else:
                self._values.append(int(op))
        return []

    def _access(
        self, register: Register, index: ProgramValue, steps: Iterator[Sequence[Any]]
    ) -> ProgramValue:
        """Access a register with the steps up to the end of the access, and return what it gives."""

        def update(*memory: ProgramValue) -> tuple[Any, Any]:
            *new, out = self._follow(steps, memory)
            return (tuple(new) if register.pair else new[0]), out

        value = register.access(index, update)
        self._leaves[f"{register.name}_out"] = value
        return value


def placed(description: Any, cells: int, device: str = "tofino1") -> Switch:
    """Return a switch with the program that a learner's process has recorded.

    Raises
    ------
    ProgramRefused
        If the program breaks a rule, of the pipeline or of the exercise.
    Misread
        If it is no program.
    """
    try:
        program = Recorded(description)
    except ValueError as error:  # the size of a register
        raise ProgramRefused(str(error)) from error
    _check_layout(program)
    _check_cells(program, _CELLS * cells)
    try:
        return Switch(program, device)
    except ProgramRefused:
        raise
    except Exception as error:  # steps that no client writes
        raise Misread(message(4, "program")) from error


def _check_layout(program: Program) -> None:
    """Raise ProgramRefused if the exercise does not allow the fields or the lanes of a program."""
    sizes_fit = all(0 <= bits <= _WORD for bits in program.fields.values())
    lanes_fit = _LEAST_LANES <= program.lanes <= _MOST_LANES
    if sizes_fit and lanes_fit and program.fields.get("job") == _JOB_BITS:
        return
    given = f"{dict(program.fields)}, {program.lanes}"
    raise ProgramRefused(
        message(4, "layout", bits=_JOB_BITS, least=_LEAST_LANES, most=_MOST_LANES, given=given)
    )


def _check_cells(program: Program, most: int) -> None:
    """Raise ProgramRefused if registers for payloads have too many cells, or cells of another size."""
    wide = [register for register in program.registers if register.lanes]
    cells = sum(2 * register.size if register.pair else register.size for register in wide)
    if cells <= most and all(register.lanes == program.lanes for register in wide):
        return
    given = ", ".join(f"{register.name}: {register.size} x {register.lanes}" for register in wide)
    raise ProgramRefused(message(4, "cells", most=most, got=given))


def _is_well_formed(description: Any) -> bool:
    """Return whether a description has the form that the client gives it, and names nothing that is not there."""
    try:
        fields = description["fields"]
        registers = description["registers"]
        ends = description["ends"]
        actions = description["actions"]
        return (
            all(map(_is_name, fields))
            and all(map(_is_number, fields.values()))
            and _is_number(description["lanes"])
            and all(map(_is_register, registers))
            and all(map(_is_number, ends))
            and len(ends) == len(fields) + 1 + len(actions)
            and set(actions) <= {REPLY, MULTICAST}
            and _are_steps(description["steps"])
        )
    except (TypeError, LookupError, ValueError, AttributeError):
        return False


def _are_steps(steps: Any) -> bool:
    """Return whether each step is an operation that there is, with the values of earlier steps."""
    if len(steps) > _MOST_STEPS:
        return False
    for place, (op, args, entries) in enumerate(steps):
        if not all(map(_is_number, [*args, *entries])):
            return False
        if not all(0 <= i < place for i in args):
            return False
        if not _is_operation(op, args):
            return False
    return True


def _is_operation(op: Any, args: Any) -> bool:
    """Return whether there is such a step: part of an access, a table, arithmetic on values, or a leaf."""
    if op in ("begin", "memory", "end", "look"):
        return True
    if args:
        return op in _OPERATIONS
    return _is_leaf(op)


def _is_register(row: Any) -> bool:
    """Return whether this is the name of a register, its size, whether it is a pair, and its lanes."""
    name, size, pair, lanes = row
    return _is_name(name) and _is_number(size) and type(pair) is bool and _is_number(lanes)


def _is_name(value: Any) -> bool:
    return type(value) is str and _NAME.fullmatch(value) is not None


def _is_number(value: Any) -> bool:
    return type(value) is int


def _is_leaf(op: Any) -> bool:
    """Return whether an operation without values is a whole number, or the name of something."""
    return _is_name(op) or (type(op) is str and re.fullmatch(r"-?\d{1,10}", op) is not None)
