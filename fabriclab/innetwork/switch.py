"""A programmable switch: a program is placed on stages, then runs packet by packet, accesses checked, or in batches.

Both ways are Python code that is generated from the one recording of the program; neither interprets it. So that they
agree shows that batches keep the order of packets, not that an operation does what it says: for that, the tests compute
the same programs by an evaluator of their own.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core import Ints
from fabriclab.innetwork.expressions import Refused, Value
from fabriclab.innetwork.pipeline import DROP, Device, Packet, Program, Register, devices

_WRAPPED = f"(({{}}) + {2**31} & {2**32 - 1}) - {2**31}"  # a whole number as it looks in 32 bits with a sign
Words = NDArray[np.int32]
# The name of a function for numbers, and for arrays.
_CALLS = {
    "least": ("min", "np.minimum"),
    "most": ("max", "np.maximum"),
    "where": ("choose", "np.where"),
    "saturating": ("saturate", "saturate_all"),
    "look": ("look", "look_all"),
}


def _check_one(index: int, name: str, stage: int, size: int) -> None:
    if not 0 <= index < size:
        raise Refused(f"stage {stage}, register {name!r}: cell {index} of {size}")


def _check_all(index: Words, name: str, stage: int, size: int) -> None:
    if np.size(index) and not (0 <= np.min(index) and np.max(index) < size):
        raise Refused(
            f"stage {stage}, register {name!r}: cells {np.min(index)} to {np.max(index)} of {size}"
        )


def _saturate_all(a: Words, b: Words) -> Words:
    return np.clip(np.add(a, b, dtype=np.int64), -(2**31), 2**31 - 1).astype(np.int32)


def _look_all(rows: tuple[int, ...], key: Words) -> Words:
    inside = (key >= 0) & (key < len(rows))
    return np.where(inside, np.array(rows, np.int32)[np.where(inside, key, 0)], np.int32(0))


class Outcome(NamedTuple):
    """What becomes of packets (``DROP``, ``REPLY``, ``MULTICAST``, ``UP``), the header that leaves, and the payload."""

    action: Any  # int, or (P,)
    fields: dict[str, Any]  # of int, or (P,)
    payload: Words  # (lanes,), or (P, lanes)


_TOOLS = {
    "np": np,
    "Outcome": Outcome,
    "saturate_all": _saturate_all,
    "look_all": _look_all,
    "choose": lambda c, a, b: a if c else b,
    "saturate": lambda a, b: min(max(a + b, -(2**31)), 2**31 - 1),
    "look": lambda rows, key: rows[key] if 0 <= key < len(rows) else 0,
}


class Switch:
    """A program on a device: refused if it breaks a rule, with its use of stages and memory otherwise.

    Leaves out the traffic manager, the time of a pass, tables that change while packets come, and what conditions and
    small tables take of a stage.

    Parameters
    ----------
    program : Program
        A fresh one; it is recorded here.
    device : str or Device
        A profile of `devices`.

    Raises
    ------
    Refused
        If the program does not fit, with the stage and the rule.
    """

    def __init__(self, program: Program, device: str | Device = "tofino1") -> None:
        """Record the program, place it and set all registers to 0."""
        profiles = devices()
        self.device = (
            device
            if isinstance(device, Device)
            else profiles[units.choice(device, "device", profiles)]
        )
        self.program, self.packet = program, Packet(program.fields)
        bits = sum(program.fields.values())
        if bits > self.device.header or program.lanes > self.device.lanes:
            raise Refused(
                f"parser: {self.device.name} reads a header of at most {self.device.header} bits and "
                f"{self.device.lanes} values, not {bits} and {program.lanes}"
            )
        # of each stage: used, and [B]
        self.arrays, self.memory = ([0] * self.device.stages for _ in range(2))
        self.accessed: list[Register] = []
        for register in program.registers:
            register.place = self._place
        program.apply(self.packet)
        results = [self.packet.payload, *self.packet.fields.values()]
        results += [when for _, when in self.packet.actions]
        self.stages = max(
            [v.ready for v in results] + [r.stage + 1 for r in self.accessed], default=0
        )
        if self.stages > self.device.stages:
            raise Refused(
                f"stage {self.stages}: {self.device.name} has {self.device.stages} stages; shorten the chain"
            )
        self._one, self._many = self._compile(many=False), self._compile(many=True)
        self._where = self._cells_of()
        self.clear()

    def clear(self) -> None:
        """Set all registers to 0."""
        self.state: dict[str, Words] = {
            f"{r.name}_{half}": np.zeros((r.size, r.lanes) if r.lanes else r.size, np.int32)
            for r in self.accessed
            for half in "ab"[: 1 + r.pair]
        }
        # A memory view hands out Python's numbers, three times faster than an array does.
        self._cells = {
            name: memoryview(a.data) if a.ndim == 1 else a for name, a in self.state.items()
        }

    def _place(self, register: Register) -> int:
        """Give each array of a register a stage with room, from the first that it may have; return the last."""
        self.accessed.append(register)
        stage, need = register.stage, register.size * (8 if register.pair or register.lanes else 4)
        if need > self.device.memory:
            raise Refused(
                f"register {register.name!r}: {need} B; a stage has {self.device.memory} B"
            )
        for _ in range(register.arrays):
            while stage < self.device.stages and (
                self.arrays[stage] == self.device.arrays
                or self.memory[stage] + need > self.device.memory
            ):
                stage += 1
            if stage >= self.device.stages:
                raise Refused(
                    f"stage {stage}, register {register.name!r}: {self.device.name} has {self.device.stages} stages of "
                    f"{self.device.arrays} arrays and {self.device.memory} B; use fewer values, smaller registers, or "
                    "fewer steps before this access"
                )
            self.arrays[stage] += 1
            self.memory[stage] += need
        return stage

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
        Refused
            If an access falls outside a register; with the stage.
        ValueError
            If the packet is not one that the parser reads.
        """
        bits = self.program.fields
        if fields.keys() != bits.keys() or any(
            not 0 <= fields[f] < 1 << b for f, b in bits.items()
        ):
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
        columns = {f: np.asarray(fields[f], np.int64) for f in self.program.fields}
        for f, b in self.program.fields.items():
            if columns[f].shape != words.shape[:1] or np.any(
                (columns[f] < 0) | (columns[f] >= 1 << b)
            ):
                raise ValueError(f"field {f!r}: give {len(words)} numbers of {b} bits, unsigned")
        if words.shape[1:] != (self.program.lanes,):
            raise ValueError(
                f"packets carry {self.program.lanes} values each, not an array of shape {words.shape}"
            )
        narrow = {f: c.astype(np.int32) for f, c in columns.items()}  # which wraps
        turn = _turns(self._where and self._where(None, narrow, None, None), len(words))
        parts = []
        order, drop = np.argsort(turn, kind="stable"), np.full(len(words), DROP)
        for at in np.split(order, np.flatnonzero(np.diff(turn[order])) + 1):
            parts.append(
                self._many(self.state, {f: c[at] for f, c in narrow.items()}, words[at], drop[at])
            )
        back = np.argsort(order, kind="stable")

        def whole(values: list[Any]) -> Any:
            full = [
                np.broadcast_to(v, (len(p.payload), *np.shape(v)[1:]))
                for v, p in zip(values, parts, strict=True)
            ]
            return np.concatenate(full)[back]

        out = {
            f: whole([p.fields[f] for p in parts]) & np.int64((1 << b) - 1)
            for f, b in self.program.fields.items()
        }
        return Outcome(whole([p.action for p in parts]), out, whole([p.payload for p in parts]))

    def _compile(self, *, many: bool) -> Callable[..., Outcome]:
        """Return a function of (state, fields, payload, drop) for one packet, or for many that share no cell."""
        code = _Code(many)
        for r in self.accessed:
            index = code.name(r.index)
            code.lines.append(f"check({index}, {r.name!r}, {r.stage}, {r.size})")
            cells = {
                f"{r.name}_{half}": f"state['{r.name}_{half}'][{index}]"
                for half in "ab"[: 1 + r.pair]
            }
            copy = ".copy()" if r.lanes and not many else ""
            code.lines += [f"{variable} = {cell}{copy}" for variable, cell in cells.items()]
            new = [code.name(v, wide=bool(r.lanes)) for v in r.new]
            code.lines.append(f"{r.name}_out = {code.name(r.out, wide=bool(r.lanes))}")
            code.lines += [f"{cell} = {n}" for cell, n in zip(cells.values(), new, strict=True)]
        for action, when in self.packet.actions:
            code.lines.append(
                f"drop = {'np.where' if many else 'choose'}({code.name(when)}, {action}, drop)"
            )
        # A field that leaves has its bits and no more, unsigned; `many` sees to that itself, in 64 bits.
        cut = {
            f: "" if many else f" & {(1 << bits) - 1}" for f, bits in self.program.fields.items()
        }
        fields = ", ".join(
            f"{f!r}: {code.name(self.packet.fields[f])}{mask}" for f, mask in cut.items()
        )
        for v in code.kept:
            if 4 * len(v.entries) > self.device.memory:
                need = f"a table of {len(v.entries)} entries needs {4 * len(v.entries)} B"
                raise Refused(f"stage {v.ready - 1}: {need}; a stage has {self.device.memory} B")
        result = f"Outcome(drop, {{{fields}}}, {code.name(self.packet.payload, wide=True)})"
        return code.function(self.program.fields, result)

    def _cells_of(self) -> Callable[..., list[Words]] | None:
        """Return a function that tells the cells that packets access; None if that depends on what registers hold."""
        if any(_depends(r.index) for r in self.accessed):
            return None
        code = _Code(many=True)
        result = f"[{', '.join(dict.fromkeys(code.name(r.index) for r in self.accessed))}]"
        return code.function(self.program.fields, result)


class _Code:
    """Python of a straight line of expressions, for numbers or for arrays."""

    def __init__(self, many: bool) -> None:
        """Start without a line."""
        self.many = many
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.kept: list[Value] = []  # so that no other value gets the identity of one of these

    def name(self, v: Value, *, wide: bool = False) -> str:
        """Return the name of the variable that holds a value, after the lines that compute it."""
        if not v.args:
            name = v.op
        elif id(v) in self.names:
            name = self.names[id(v)]
        else:
            name = self.names[id(v)] = self._emit(v)
            self.kept.append(v)
        return (
            f"{name}[:, None]"
            if self.many and wide and not v.wide and name.isidentifier()
            else name
        )

    def _emit(self, v: Value) -> str:
        args = [self.name(a, wide=v.wide) for a in v.args]
        if v.op == "look":
            args.insert(0, repr(v.entries))
        array = self.many or (v.args[0].wide if v.op == "where" else v.wide)
        if v.op in _CALLS:
            text = f"{_CALLS[v.op][array]}({', '.join(args)})"
        elif v.op == "~":
            text = f"{args[0]} ^ True" if v.gate else f"~{args[0]}"
        else:
            text = f"{args[0]} {v.op} {args[1]}"
        wraps = v.op in ("+", "-", "<<") and not array  # arrays of 32 bits wrap by themselves
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {_WRAPPED.format(text) if wraps else text}")
        return name

    def function(self, fields: Iterable[str], result: str) -> Callable[..., Any]:
        """Return the lines as a function that ends with a result."""
        take = "fields[{0!r}]" if self.many else _WRAPPED.format("int(fields[{0!r}])")
        lines = [*(f"p_{f} = {take.format(f)}" for f in fields), *self.lines, f"return {result}"]
        scope: dict[str, Any] = dict(_TOOLS) | {"check": _check_all if self.many else _check_one}
        exec("def run(state, fields, payload, drop):\n    " + "\n    ".join(lines), scope)
        run: Callable[..., Any] = scope["run"]
        return run


def _depends(v: Value) -> bool:
    return v.op.endswith("_out") or v.op == "payload" or any(map(_depends, v.args))


def _turns(keys: list[Words] | None, n: int) -> Ints:
    """Return for each packet in which turn it may run: after all earlier ones with which it shares a cell."""
    if keys is None:
        return np.arange(n)
    groups = []
    for key in keys:
        key = np.broadcast_to(key, n)
        order = np.argsort(key, kind="stable")
        first = np.flatnonzero(np.append(True, np.diff(key[order])))
        of_cell = np.repeat(np.arange(first.size), np.diff(np.append(first, n)))
        groups.append((order, np.arange(n) - first[of_cell] - 2 * n * of_cell))
    turn, before = np.zeros(n, np.int64), np.full(n, -1)
    while np.any(turn != before):
        before = turn.copy()
        for order, place in groups:  # along the packets of one cell, turns grow
            turn[order] = np.maximum.accumulate(turn[order] - place) + place
    return turn
