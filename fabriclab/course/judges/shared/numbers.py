"""Numbers in answers, for the judges of several exercises."""

from typing import Any

from fabriclab import units
from fabriclab.texts import text

UNIT = {"time": "s", "size": "B", "rate": "B/s", "": ""}
KIND_OF = {unit: kind for kind, unit in UNIT.items() if kind} | {"1": ""}


def brief(value: Any, most: int = 60) -> str:
    """Write the beginning of a value as Python does, or its type if that fails."""
    try:
        return repr(value)[:most]
    except Exception:  # whole numbers of more than 4,300 digits, or a class of the learner's own
        return f"<{type(value).__name__}>"


class Misread(Exception):
    """A value cannot be judged as right or wrong; the message says what was expected."""


def number(value: Any, kind: str) -> float:
    """Convert a plain value, or a string with its unit, to a finite number in SI; raise Misread if that fails."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        try:
            value = units.parse(value, kind, "the answer") if kind else float(value)
        except (ValueError, OverflowError) as error:
            raise Misread(str(error) if kind else text("ex.plain", got=brief(value))) from None
    if value is None:
        raise Misread(text("ex.none"))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Misread(text("ex.number", unit=UNIT[kind] or "1", got=brief(value)))
    if not abs(value) < 1e300:  # NaN, infinity and whole numbers that no float can hold
        # Python refuses to write very long whole numbers.
        got = (
            f"{value:g}"
            if isinstance(value, float)
            else text("ex.long", bits=f"{value.bit_length():,}")
        )
        raise Misread(text("ex.finite", got=got))
    return float(value)


def near(got: Any, wanted: float, within: float) -> bool:
    """Return whether ``got`` is a number within the relative distance ``within`` of the number that is wanted."""
    return isinstance(got, int | float) and abs(got - wanted) <= within * abs(wanted)
