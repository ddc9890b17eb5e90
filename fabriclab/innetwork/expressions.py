"""What a switch program can say about a packet: 32-bit expressions, recorded once and checked as they grow."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from fabriclab.errors import FabricError

ARITHMETIC = frozenset(
    ("+", "-", "<<", ">>", "&", "|", "^", "~", "saturating", "least", "most", "where", "look")
)
CONDITIONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
LOGIC = frozenset("&|^~")  # of numbers bit by bit, of conditions as a condition


class ProgramRefused(FabricError):
    """A switch program breaks a rule of the pipeline; the message names the stage and the rule."""


def _operator(name: str) -> Callable[..., "ProgramValue"]:
    """Return a method that records an operation on its operands."""

    def record(*operands: Any) -> "ProgramValue":
        return combine(name, *operands)

    return record


def _swapped(name: str) -> Callable[..., "ProgramValue"]:
    """Return a method that records an operation whose left operand is a plain number, as in 1 + x."""

    def record(second: "ProgramValue", first: Any) -> "ProgramValue":
        return combine(name, first, second)

    return record


def _refusal(rule: str) -> Callable[..., NoReturn]:
    """Return a method that raises `ProgramRefused` with the rule which its operation breaks."""

    def refuse(*_: Any) -> NoReturn:
        raise ProgramRefused(rule)

    return refuse


class ProgramValue:
    """A value on its way through the pipeline: what computes it, and the first stage that can use it.

    Parameters
    ----------
    op : str
        An operation of `ARITHMETIC` or `CONDITIONS`, or the name under which the pipeline holds it.
    args : tuple of ProgramValue
        What it is made from; a constant and a field of the packet have none.
    ready : int
        The first stage in which it can be used. >= 0
    gate : bool
        Whether it is a condition, which costs no stage of its own.
    wide : bool
        Whether it holds one number for each value of the payload.
    entries : tuple of int
        Of the table of constants that is looked up.
    """

    def __init__(
        self,
        op: str,
        args: tuple["ProgramValue", ...] = (),
        ready: int = 0,
        *,
        gate: bool = False,
        wide: bool = False,
        entries: tuple[int, ...] = (),
    ) -> None:
        """Keep what the class describes."""
        self.op = op
        self.args = args
        self.ready = ready
        self.gate = gate
        self.wide: bool = wide or any(a.wide for a in args)
        self.entries = entries

    __add__ = _operator("+")
    __radd__ = _swapped("+")
    __sub__ = _operator("-")
    __rsub__ = _swapped("-")
    __and__ = _operator("&")
    __rand__ = _swapped("&")
    __or__ = _operator("|")
    __ror__ = _swapped("|")
    __xor__ = _operator("^")
    __rxor__ = _swapped("^")
    __invert__ = _operator("~")

    __lshift__ = _operator("<<")
    __rshift__ = _operator(">>")
    __rlshift__ = __rrshift__ = _refusal(
        "a switch shifts by a constant: look 1 << worker up in a table"
    )

    __lt__ = _operator("<")
    __le__ = _operator("<=")
    __gt__ = _operator(">")
    __ge__ = _operator(">=")
    __eq__ = _operator("==")  # type: ignore[assignment]
    __ne__ = _operator("!=")  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]
    __bool__ = _refusal(
        "a stage cannot branch on what a packet carries: write where(condition, this, that), "
        "and & | ~ for and, or, not"
    )
    __mul__ = __rmul__ = _refusal(
        "a switch has no product of two values: shift by a constant, or use a table"
    )
    __truediv__ = __rtruediv__ = _refusal(
        "a switch cannot divide and knows no fractions: let the workers divide"
    )
    __floordiv__ = __rfloordiv__ = _refusal("a switch cannot divide: shift right by a constant")
    __mod__ = __rmod__ = _refusal(
        "a switch has no remainder: mask with & where the divisor is a power of two"
    )
    __float__ = _refusal(
        "a switch has no floating point: let the workers send integers with a common scale"
    )
    __index__ = __iter__ = _refusal(
        "a program cannot loop or index by what a packet carries: use a register or a table"
    )


def value_of(given: Any) -> ProgramValue:
    """Return a constant as a value, and a value as it is."""
    if isinstance(given, ProgramValue):
        return given
    if isinstance(given, bool) or not isinstance(given, int):
        raise ProgramRefused(
            f"{given!r} is no whole number: a switch computes with 32-bit integers only"
        )
    if not -(2**31) <= given < 2**32:
        raise ProgramRefused(f"{given} does not fit into 32 bits")
    signed = (given + 2**31) % 2**32 - 2**31  # the same 32 bits, read as a number with a sign
    return ProgramValue(repr(signed))


def combine(name: str, *operands: Any) -> ProgramValue:
    """Return the value of an operation; arithmetic takes a stage, a condition is evaluated where it is used."""
    args = tuple(map(value_of, operands))
    if name in ("<<", ">>") and (not isinstance(operands[1], int) or not 0 <= operands[1] < 32):
        raise ProgramRefused(
            f"a switch shifts by a constant from 0 to 31, not by {operands[1]!r}: use a table"
        )

    gate = name in CONDITIONS or (name in LOGIC and all(arg.gate for arg in args))
    numbers = args[1:] if name == "where" else args
    if not gate and any(arg.gate for arg in numbers):
        raise ProgramRefused(
            f"{name} computes with numbers: turn a condition into one by where(condition, 1, 0)"
        )

    ready = max(arg.ready for arg in args)
    if not gate:
        ready += 1
    return ProgramValue(name, args, ready, gate=gate)


def where(condition: Any, this: Any, that: Any) -> Any:
    """Return ``this`` where the condition holds and ``that`` elsewhere; pairs are chosen half by half."""
    if isinstance(this, tuple):
        return tuple(where(condition, a, b) for a, b in zip(this, that, strict=True))
    if not isinstance(condition, ProgramValue) or not condition.gate:
        raise ProgramRefused(
            f"where needs a condition such as packet.version == 1, not {condition!r}"
        )
    return combine("where", condition, this, that)


def saturating_add(first: Any, second: Any) -> ProgramValue:
    """Return a sum that stays at the largest or smallest 32-bit number instead of wrapping."""
    return combine("saturating", first, second)


def look_up(key: Any, rows: Sequence[int]) -> ProgramValue:
    """Return the entry of a table of constants under a key; a key that it does not have gives 0."""
    entries = tuple(int(value_of(row).op) for row in rows)
    key = value_of(key)
    return ProgramValue("look", (key,), key.ready + 1, entries=entries)
