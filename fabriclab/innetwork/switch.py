"""A programmable switch: a program is placed on stages, then runs packet by packet, accesses checked, or in batches.

Both ways are Python code that is generated from the one recording of the program; neither interprets it. So that they
agree shows that batches keep the order of packets, not that an operation does what it says: for that, the tests compute
the same programs by an evaluator of their own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import Ints
from fabriclab.innetwork.expressions import ProgramRefused, ProgramValue
from fabriclab.innetwork.pipeline import DROP, Packet, Program, Register, SwitchChip, devices

_INT32_MIN = -(2**31)
_INT32_MAX = 2**31 - 1
# Python code that wraps a whole number to 32 bits with a sign; the number stands in the inner braces.
_WRAPPED = f"(({{}}) + {2**31} & {2**32 - 1}) - {2**31}"
Words = NDArray[np.int32]
# For each operation that is no operator of Python, the name of a function for numbers, and of one for arrays.
_CALLS = {
    "least": ("min", "np.minimum"),
    "most": ("max", "np.maximum"),
    "where": ("choose", "np.where"),
    "saturating": ("saturate", "saturate_all"),
    "look": ("look", "look_all"),
}


# Functions that compiled programs call: for one packet, and for many.


def _check_one(index: int, name: str, stage: int, size: int) -> None:
    """Refuse a cell outside a register."""
    if not 0 <= index < size:
        raise ProgramRefused(f"stage {stage}, register {name!r}: cell {index} of {size}")


def _check_all(index: Words, name: str, stage: int, size: int) -> None:
    """Refuse cells if one of them is outside a register."""
    if np.size(index) and not (0 <= np.min(index) and np.max(index) < size):
        raise ProgramRefused(
            f"stage {stage}, register {name!r}: cells {np.min(index)} to {np.max(index)} of {size}"
        )


def _choose_one(condition: bool, this: Any, that: Any) -> Any:
    """Return what `where` chooses for one packet."""
    return this if condition else that


def _saturate_one(first: int, second: int) -> int:
    """Return a sum that stays within 32 bits."""
    return min(max(first + second, _INT32_MIN), _INT32_MAX)


def _saturate_all(first: Words, second: Words) -> Words:
    """Return sums that stay within 32 bits."""
    exact = np.add(first, second, dtype=np.int64)
    return np.clip(exact, _INT32_MIN, _INT32_MAX).astype(np.int32)


def _look_up_one(rows: tuple[int, ...], key: int) -> int:
    """Return the entry of a table under a key, or 0 if it has none."""
    return rows[key] if 0 <= key < len(rows) else 0


def _look_up_all(rows: tuple[int, ...], key: Words) -> Words:
    """Return the entry of a table under each key, or 0 if it has none."""
    inside = (key >= 0) & (key < len(rows))
    entries = np.array(rows, np.int32)[np.where(inside, key, 0)]
    return np.where(inside, entries, np.int32(0))


class Outcome(NamedTuple):
    """What becomes of packets (``DROP``, ``REPLY``, ``MULTICAST``, ``UP``), the header that leaves, and the payload."""

    action: Any  # int, or (P,)
    fields: dict[str, Any]  # of int, or (P,)
    payload: Words  # (lanes,), or (P, lanes)


# Names that compiled programs use.
_RUNTIME = {
    "np": np,
    "Outcome": Outcome,
    "choose": _choose_one,
    "saturate": _saturate_one,
    "saturate_all": _saturate_all,
    "look": _look_up_one,
    "look_all": _look_up_all,
}


class Switch:
    """A program on a device: refused if it breaks a rule, with its use of stages and memory otherwise.

    Leaves out the traffic manager, the time of a pass, tables that change while packets come, and what conditions and
    small tables take of a stage.

    Parameters
    ----------
    program : Program
        A fresh one; it is recorded here.
    device : str or SwitchChip
        A profile of `devices`.

    Raises
    ------
    ProgramRefused
        If the program does not fit, with the stage and the rule.
    """

    def __init__(self, program: Program, device: str | SwitchChip = "tofino1") -> None:
        """Record the program, place it and set all registers to 0."""
        profiles = devices()
        if isinstance(device, SwitchChip):
            self.device = device
        else:
            self.device = profiles[units.choice(device, "device", profiles)]
        self.program = program
        self.packet = Packet(program.fields)
        bits = sum(program.fields.values())
        if bits > self.device.header or program.lanes > self.device.lanes:
            raise ProgramRefused(
                f"parser: {self.device.name} reads a header of at most {self.device.header} bits and "
                f"{self.device.lanes} values, not {bits} and {program.lanes}"
            )

        self.arrays = [0] * self.device.stages  # used in each stage
        self.memory = [0] * self.device.stages  # used in each stage [B]
        self.accessed: list[Register] = []
        for register in program.registers:
            register.place = self._place
        program.apply(self.packet)

        results = [self.packet.payload, *self.packet.fields.values()]
        results += [when for _, when in self.packet.actions]
        ready = [value.ready for value in results]
        ready += [register.stage + 1 for register in self.accessed]
        self.stages = max(ready, default=0)
        if self.stages > self.device.stages:
            raise ProgramRefused(
                f"stage {self.stages}: {self.device.name} has {self.device.stages} stages; shorten the chain"
            )

        self._one = self._compile(many=False)
        self._many = self._compile(many=True)
        self._accessed_cells = self._compile_cells()
        self.clear()

    def __repr__(self) -> str:
        """Show the program, the device profile and the stages in use in one line."""
        program = type(self.program).__name__
        return f"<Switch: {program} on {self.device.name}, {self.stages} of {self.device.stages} stages>"

    def clear(self) -> None:
        """Set all registers to 0."""
        self.state: dict[str, Words] = {}
        for register in self.accessed:
            shape = (register.size, register.lanes) if register.lanes else register.size
            for name in register.cell_names:
                self.state[name] = np.zeros(shape, np.int32)

        # Reading a cell through a memory view gives a Python number, three times faster than through an array.
        self._cells: dict[str, Any] = {}
        for name, cells in self.state.items():
            self._cells[name] = memoryview(cells.data) if cells.ndim == 1 else cells

    def _place(self, register: Register) -> int:
        """Give each array of a register the first stage that has room, from its ``stage`` on; return the last one."""
        self.accessed.append(register)
        stage = register.stage
        width = 8 if register.pair or register.lanes else 4  # of a cell [B]
        need = register.size * width
        if need > self.device.memory:
            raise ProgramRefused(
                f"register {register.name!r}: {need} B; a stage has {self.device.memory} B"
            )
        for _ in range(register.arrays):
            while stage < self.device.stages and not self._has_room(stage, need):
                stage += 1
            if stage >= self.device.stages:
                raise ProgramRefused(
                    f"stage {stage}, register {register.name!r}: {self.device.name} has {self.device.stages} stages of "
                    f"{self.device.arrays} arrays and {self.device.memory} B; use fewer values, smaller registers, or "
                    "fewer steps before this access"
                )
            self.arrays[stage] += 1
            self.memory[stage] += need
        return stage

    def _has_room(self, stage: int, need: int) -> bool:
        """Return whether a stage takes another array of so many bytes."""
        free_memory = self.device.memory - self.memory[stage]
        return self.arrays[stage] < self.device.arrays and need <= free_memory

    def one(self, fields: Mapping[str, int], payload: ArrayLike) -> Outcome:
        """Run one packet through the pipeline with every access checked.

        Parameters
        ----------
        fields : dict of int
            The header, a number within its bits for each field.
        payload : array of int32, (lanes,)
            The values that the packet carries.

        Raises
        ------
        ProgramRefused
            If an access falls outside a register; with the stage.
        ValueError
            If the packet is not one that the parser reads.
        """
        bits = self.program.fields
        fits = fields.keys() == bits.keys() and all(
            0 <= fields[name] < 1 << width for name, width in bits.items()
        )
        if not fits:
            raise ValueError(
                f"a header has {dict(bits)} bits, unsigned; this one is {dict(fields)}"
            )
        words = np.asarray(payload, np.int32)
        if words.shape != (self.program.lanes,):
            raise ValueError(
                f"a packet carries {self.program.lanes} values, not an array of shape {words.shape}"
            )
        return self._one(self._cells, fields, words, DROP)

    def many(self, fields: Mapping[str, ArrayLike], payload: ArrayLike) -> Outcome:
        """Run packets in their order, those at once that share no cell; the result is that of `one`, one after another.

        Parameters
        ----------
        fields : dict of arrays (P,)
            The headers.
        payload : array of int32, (P, lanes)
            The values.
        """
        words = np.asarray(payload, np.int32)
        columns = {name: np.asarray(fields[name], np.int64) for name in self.program.fields}
        for name, bits in self.program.fields.items():
            column = columns[name]
            if column.shape != words.shape[:1] or np.any((column < 0) | (column >= 1 << bits)):
                raise ValueError(
                    f"field {name!r}: give {len(words)} numbers of {bits} bits, unsigned"
                )
        if words.shape[1:] != (self.program.lanes,):
            raise ValueError(
                f"packets carry {self.program.lanes} values each, not an array of shape {words.shape}"
            )

        wrapped = {name: column.astype(np.int32) for name, column in columns.items()}
        cells = self._accessed_cells(None, wrapped, None, None) if self._accessed_cells else None
        batch_number = _batch_numbers(cells, len(words))  # (P,)
        order = np.argsort(batch_number, kind="stable")
        batches = np.split(order, np.flatnonzero(np.diff(batch_number[order])) + 1)

        drop = np.full(len(words), DROP)
        outcomes = []
        for batch in batches:
            header = {name: column[batch] for name, column in wrapped.items()}
            outcomes.append(self._many(self.state, header, words[batch], drop[batch]))

        in_order = np.argsort(order, kind="stable")  # place of each packet in the joined batches
        sizes = [len(outcome.payload) for outcome in outcomes]
        actions = _joined([outcome.action for outcome in outcomes], sizes)
        payloads = _joined([outcome.payload for outcome in outcomes], sizes)
        sent = {}
        for name, bits in self.program.fields.items():
            column = _joined([outcome.fields[name] for outcome in outcomes], sizes)
            sent[name] = column[in_order] & np.int64((1 << bits) - 1)
        return Outcome(action=actions[in_order], fields=sent, payload=payloads[in_order])

    def _compile(self, *, many: bool) -> Callable[..., Outcome]:
        """Return a function of (state, fields, payload, drop) for one packet, or for many that share no cell."""
        code = _Code(many)
        for register in self.accessed:
            code.access(register)
        choose = "np.where" if many else "choose"
        for action, when in self.packet.actions:
            code.lines.append(f"drop = {choose}({code.name(when)}, {action}, drop)")

        items = []
        for name, bits in self.program.fields.items():
            item = f"{name!r}: {code.name(self.packet.fields[name])}"
            if not many:  # cut the field to its bits, unsigned; the method `many` does that itself, in 64 bits
                item += f" & {(1 << bits) - 1}"
            items.append(item)
        fields = ", ".join(items)
        payload = code.name(self.packet.payload, wide=True)
        self._check_tables(code.named)  # only now all values have names, also those of the payload
        return code.function(self.program.fields, f"Outcome(drop, {{{fields}}}, {payload})")

    def _check_tables(self, values: Iterable[ProgramValue]) -> None:
        """Refuse tables that are larger than the memory of a stage."""
        for value in values:
            need = 4 * len(value.entries)  # [B]
            if need > self.device.memory:
                raise ProgramRefused(
                    f"stage {value.ready - 1}: a table of {len(value.entries)} entries needs {need} B; "
                    f"a stage has {self.device.memory} B"
                )

    def _compile_cells(self) -> Callable[..., list[Words]] | None:
        """Return a function from headers to the cells that packets access; None if that takes more than headers."""
        if any(_depends_on_data(register.index) for register in self.accessed):
            return None
        code = _Code(many=True)
        names = [code.name(register.index) for register in self.accessed]
        indices = ", ".join(dict.fromkeys(names))  # each once
        return code.function(self.program.fields, f"[{indices}]")


class _Code:
    """Python of a straight line of expressions, for numbers or for arrays."""

    def __init__(self, many: bool) -> None:
        """Start without a line."""
        self.many = many
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        # Values that have names. They are kept, because Python could give the id of a deleted one to another value.
        self.named: list[ProgramValue] = []

    def name(self, v: ProgramValue, *, wide: bool = False) -> str:
        """Return the name of the variable that holds a value, after the lines that compute it."""
        if not v.args:
            name = v.op
        elif id(v) in self.names:
            name = self.names[id(v)]
        else:
            name = self._emit(v)
            self.names[id(v)] = name
            self.named.append(v)

        if self.many and wide and not v.wide and name.isidentifier():
            return f"{name}[:, None]"  # one number of each packet, for all its lanes
        return name

    def access(self, register: Register) -> None:
        """Add the lines of an access: check the cell, read, compute and write."""
        index = self.name(register.index)
        self.lines.append(f"check({index}, {register.name!r}, {register.stage}, {register.size})")
        cells = {name: f"state['{name}'][{index}]" for name in register.cell_names}
        wide = bool(register.lanes)
        # The row of one packet is a view of the register, which the access overwrites.
        copy = ".copy()" if wide and not self.many else ""
        for name, cell in cells.items():
            self.lines.append(f"{name} = {cell}{copy}")

        new = [self.name(value, wide=wide) for value in register.new]
        self.lines.append(f"{register.name}_out = {self.name(register.out, wide=wide)}")
        for cell, name in zip(cells.values(), new, strict=True):
            self.lines.append(f"{cell} = {name}")

    def _emit(self, v: ProgramValue) -> str:
        """Add the line that computes a value, and return the name of its variable."""
        args = [self.name(a, wide=v.wide) for a in v.args]
        if v.op == "look":
            args.insert(0, repr(v.entries))
        array = self._uses_arrays(v)
        if v.op in _CALLS:
            for_one, for_all = _CALLS[v.op]
            function = for_all if array else for_one
            text = f"{function}({', '.join(args)})"
        elif v.op == "~" and v.gate:
            text = f"{args[0]} ^ True"
        elif v.op == "~":
            text = f"~{args[0]}"
        else:
            text = f"{args[0]} {v.op} {args[1]}"
        if v.op in ("+", "-", "<<") and not array:  # arrays of 32 bits wrap by themselves
            text = _WRAPPED.format(text)
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def _uses_arrays(self, v: ProgramValue) -> bool:
        """Return whether a value is computed by functions for arrays; of one packet, only the payload is an array."""
        if self.many:
            return True
        if v.op == "where":  # a single condition chooses a whole payload
            return v.args[0].wide
        return v.wide

    def function(self, fields: Iterable[str], result: str) -> Callable[..., Any]:
        """Return the lines, compiled, as a function that reads ``fields`` first and returns ``result``."""
        field = "fields[{0!r}]"
        if not self.many:
            field = _WRAPPED.format("int(fields[{0!r}])")
        lines = [f"p_{name} = {field.format(name)}" for name in fields]
        lines += self.lines
        lines.append(f"return {result}")

        scope: dict[str, Any] = dict(_RUNTIME)
        scope["check"] = _check_all if self.many else _check_one
        exec("def run(state, fields, payload, drop):\n    " + "\n    ".join(lines), scope)
        run: Callable[..., Any] = scope["run"]
        return run


def _depends_on_data(v: ProgramValue) -> bool:
    """Return whether a value depends on the payload or on what registers hold."""
    is_data = v.op == "payload" or v.op.endswith("_out")
    return is_data or any(map(_depends_on_data, v.args))


def _joined(values: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Return the values of batches as one array; a value that all packets of a batch have in common is repeated."""
    columns = []
    for value, size in zip(values, sizes, strict=True):
        columns.append(np.broadcast_to(value, (size, *np.shape(value)[1:])))
    return np.concatenate(columns)


def _batch_numbers(cells: list[Words] | None, n: int) -> Ints:
    """Return the number of the batch of each packet: after those of all earlier packets with which it shares a cell.

    ``cells`` has the cell of each packet, register by register; if it is None, every packet is a batch of its own.
    """
    if cells is None:
        return np.arange(n)
    registers = []
    for cell in cells:
        cell = np.broadcast_to(cell, n)
        order = np.argsort(cell, kind="stable")  # packets of one cell follow each other
        first = np.flatnonzero(np.append(True, np.diff(cell[order])))  # where each cell begins
        of_cell = np.repeat(np.arange(first.size), np.diff(np.append(first, n)))
        # Place of a packet among those of its cell, less 2 n for each cell: there the running maximum begins anew.
        place = np.arange(n) - first[of_cell] - 2 * n * of_cell
        registers.append((order, place))

    # Along the packets of one cell, numbers grow by at least 1, and those of one register can raise those of another.
    number = np.zeros(n, np.int64)
    before = np.full(n, -1)
    while np.any(number != before):
        before = number.copy()
        for order, place in registers:
            number[order] = np.maximum.accumulate(number[order] - place) + place
    return number
