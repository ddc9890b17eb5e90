"""A switch program: fields of a header, registers that a packet may access once, and what happens to the packet."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabriclab import units
from fabriclab.catalog.tables import read_rows
from fabriclab.innetwork.expressions import ProgramRefused, ProgramValue, value_of

DROP, REPLY, MULTICAST, UP = range(4)
# Most operations in one update of a register, beside as many conditions; approximate, see devices.csv.
_OPERATIONS = 4


@dataclass(frozen=True)
class SwitchChip:
    """What a switch offers a program; figures without a public source are marked approximate."""

    name: str
    approximate: bool
    source: str
    stages: int
    arrays: int  # of registers that a packet can access in one stage
    memory: int  # of the registers of one stage [B]
    header: int  # that the parser can read besides the payload [bit]
    lanes: int  # 32-bit values of the payload that a packet may carry in one pass


@functools.cache
def devices() -> Mapping[str, SwitchChip]:
    """Return the device profiles by name."""
    rows = read_rows(Path(__file__).with_name("data") / "devices.csv")
    profiles = {}
    for row in rows:
        profiles[row["device"]] = SwitchChip(
            name=row["device"],
            approximate=row["approximate"] == "yes",
            source=row["source"],
            stages=int(row["stages"]),
            arrays=int(row["arrays"]),
            memory=int(row["memory"]),
            header=int(row["header"]),
            lanes=int(row["lanes"]),
        )
    return profiles


class Register:
    """Cells of 32 bits, or of 64 bits as pairs, in one stage; with lanes, one array of cells for each value."""

    def __init__(self, name: str, size: int, *, pair: bool = False, lanes: int = 0) -> None:
        """Keep the name, how many cells, whether they are pairs, and how many arrays of them."""
        self.name = name
        self.size = units.count(size, "size")
        self.pair = pair
        self.lanes = lanes
        self.stage = -1  # of the first array; -1 before the access
        self.arrays = 1
        if lanes:
            # A stateful unit has 64 bits: one pair, or two cells.
            self.arrays = lanes if pair else -(-lanes // 2)
        # A switch puts its own function here: it gives each array a stage with room, and returns the last stage.
        self.place: Callable[[Register], int] = lambda register: register.stage

    def access(self, index: Any, update: Callable[..., tuple[Any, Any]]) -> ProgramValue:
        """Read, change and write one cell in one step; return what the packet takes along to later stages.

        Parameters
        ----------
        index : ProgramValue or int
            Which cell.
        update : callable
            From the content (two values for a pair) to the new content (a tuple for a pair) and what the packet
            takes along.
        """
        if self.stage >= 0:
            raise ProgramRefused(
                f"stage {self.stage}, register {self.name!r}: one access per array and packet; a second one needs "
                "another array, or a second pass"
            )
        self.index = value_of(index)
        wide = bool(self.lanes)
        self.memory = tuple(ProgramValue(name, wide=wide) for name in self.cell_names)
        returned = update(*self.memory)
        if not _is_pair(returned) or (self.pair and not _is_pair(returned[0])):
            content = "a tuple of two new contents" if self.pair else "the new content"
            raise ProgramRefused(
                f"register {self.name!r}: update must return two values, {content} and what the packet takes "
                "along; write `return n + 1, n` to count and take the old count along"
            )
        new = returned[0] if self.pair else returned[:1]
        self.new = tuple(map(value_of, new))
        self.out = value_of(returned[1])

        # What depends on the cell is computed in the step of the access. Everything else has to be there before, so the
        # latest of it decides in which stage the register can be.
        results = (*self.new, self.out)
        of_cell = _computed_from(self.memory, results)
        inputs = [self.index]
        for value in of_cell:
            inputs += _without(value.args, of_cell)
        inputs += _without(results, (*of_cell, *self.memory))
        self.stage = max(value.ready for value in inputs)
        self._check_update(of_cell)
        return ProgramValue(f"{self.name}_out", (), self.place(self) + 1, wide=wide)

    @property
    def cell_names(self) -> list[str]:
        """Return the names of a cell's numbers: two for a pair."""
        if self.pair:
            return [f"{self.name}_a", f"{self.name}_b"]
        return [f"{self.name}_a"]

    def _check_update(self, of_cell: Sequence[ProgramValue]) -> None:
        """Refuse an update that computes more from a cell than a stateful unit can."""
        if any(value.op == "look" for value in of_cell):
            raise ProgramRefused(
                f"stage {self.stage}, register {self.name!r}: an update has no table: look up outside it"
            )
        conditions = [value for value in of_cell if value.gate]
        operations = [value for value in of_cell if not value.gate and value.op != "where"]
        if max(len(operations), len(conditions)) > _OPERATIONS:
            raise ProgramRefused(
                f"stage {self.stage}, register {self.name!r}: an update has at most {_OPERATIONS} operations and "
                f"conditions each, not {len(operations)} and {len(conditions)}; compute before it what needs no content"
            )


def _is_pair(given: Any) -> bool:
    """Return whether this is a tuple or list of two."""
    return isinstance(given, tuple | list) and len(given) == 2


def _is_among(value: ProgramValue, others: Iterable[ProgramValue]) -> bool:
    """Return whether a value is one of others; == would record a comparison."""
    return any(value is other for other in others)


def _without(values: Iterable[ProgramValue], others: Sequence[ProgramValue]) -> list[ProgramValue]:
    """Return the values that are none of the others."""
    return [value for value in values if not _is_among(value, others)]


def _computed_from(
    start: Sequence[ProgramValue], ends: Iterable[ProgramValue]
) -> list[ProgramValue]:
    """Return the values between ``start`` and ``ends`` that depend on ``start``."""
    found: dict[int, ProgramValue] = {}  # by identity
    for end in ends:
        _add_dependents(end, start, found)
    return list(found.values())


def _add_dependents(
    value: ProgramValue, start: Sequence[ProgramValue], found: dict[int, ProgramValue]
) -> bool:
    """Return whether a value is in ``start`` or depends on it; if it depends on it, add it to ``found``."""
    if _is_among(value, start):
        return True
    depends = False
    for arg in value.args:
        if _add_dependents(arg, start, found):
            depends = True
    if depends:
        found[id(value)] = value
    return depends


class Packet:
    """What a program sees of a packet: its fields by name, its payload, and what is to become of it."""

    def __init__(self, fields: Mapping[str, int]) -> None:
        """Name the fields with their bits."""
        self.fields = {name: ProgramValue(f"p_{name}") for name in fields}
        self.payload = ProgramValue("payload", wide=True)
        self.actions: list[tuple[int, ProgramValue]] = []

    def __getattr__(self, field: str) -> ProgramValue:
        """Return a field of the header."""
        if field not in self.fields:
            raise ProgramRefused(
                f"no field {field!r} in the header; it has {', '.join(self.fields)}"
            )
        return self.fields[field]

    def set(self, field: str, value: Any) -> None:
        """Write a field of the packet that leaves."""
        getattr(self, field)
        self.fields[field] = value_of(value)

    def reply(self, when: ProgramValue) -> None:
        """Send the packet back to where it came from, where a condition holds; else it is dropped."""
        self.actions.append((REPLY, when))

    def multicast(self, when: ProgramValue) -> None:
        """Send the packet to all workers of its job, where a condition holds; else it is dropped."""
        self.actions.append((MULTICAST, when))

    def up(self, when: ProgramValue) -> None:
        """Send the packet to the switch above, where a condition holds; else it is dropped."""
        self.actions.append((UP, when))


class Program:
    """A switch program: the fields of its header, its registers, and what happens to a packet.

    A subclass has ``fields`` (bits by name) and ``lanes``, makes its registers in ``__init__`` by `register`, and
    writes `apply`, which is called once, with a packet whose fields are recorded and hold no numbers yet.
    """

    fields: Mapping[str, int] = {}
    lanes = 32
    registers: tuple[Register, ...] = ()

    def register(self, name: str, size: int, *, pair: bool = False, lanes: int = 0) -> Register:
        """Make an array of cells; with ``lanes``, one for each value of the payload."""
        if not name.isidentifier() or name in (r.name for r in self.registers):
            raise ProgramRefused(f"a register needs a name of its own, in letters, not {name!r}")
        self.registers = (*self.registers, Register(name, size, pair=pair, lanes=lanes))
        return self.registers[-1]

    def apply(self, packet: Packet) -> None:
        """Say what happens to a packet."""
        raise NotImplementedError
