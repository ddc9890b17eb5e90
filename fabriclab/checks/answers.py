"""Read what a learner typed, kindly: comma decimals, units in any prefix, and factors that have a name."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fabriclab import units
from fabriclab.checks.shown import Refused, text

__all__ = ["PLAIN", "Answer", "digits", "named_factor", "parse_answer", "quantity", "shown", "unit_in"]

# Ways to write a number without a dimension, and what they multiply by.
PLAIN: Final = {"1": 1.0, "times": 1.0, "x": 1.0, "%": 0.01}
_FORM: Final = re.compile(r"\s*([-+]?[\d.,_]*\d\.?(?:[eE][-+]?\d+)?)\s*(\S.*?)?\s*\Z")
_GROUPED: Final = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?\Z")
# Ratios that people are off by, either way, each within half a percent.
_FACTORS: Final = {
    2.0: "direction", 8.0: "bits", 1.024: "binary", 1.024**2: "binary", 1.024**3: "binary", 1.024**4: "binary",
    1e3: "prefix", 1024.0: "prefix", 1e6: "prefix", 1e9: "prefix",
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """A learner's number in SI; ``note`` says how it was read, ``problem`` what is missing (not counted)."""

    value: float = math.nan
    note: str = ""
    problem: str = ""


def quantity(unit: str) -> tuple[str, float]:
    """Return the quantity of a unit ("" for a plain number) and its factor to SI; Refused if nobody knows it."""
    if unit in PLAIN:
        return "", PLAIN[unit]
    if unit in units.UNITS:
        return units.UNITS[unit]
    try:
        units.parse(f"1 {unit}", "rate", "unit")
    except ValueError as error:
        raise Refused(str(error)) from None
    raise Refused(text("answer.unit"))


def parse_answer(answer: Any, unit: str) -> Answer:
    """Return what a learner typed as a number in SI.

    Parameters
    ----------
    answer : number, numpy scalar, str, or a list or array of one
        Such as ``"0.7 s"``, ``"700 ms"``, ``"0,7 s"``, or 1.6 where the question has no unit.
    unit : str
        The unit in which the question asks; "1" and "times" take a plain number or a percentage.

    Examples
    --------
    >>> parse_answer("0,7 s", "s").value, parse_answer(0.7, "s").problem
    (0.7, 'Which unit? Write it in quotes with the number, such as "0.7 s".')
    """
    if isinstance(answer, (list, tuple, np.ndarray)) and np.size(answer) == 1:
        answer = np.asarray(answer, dtype=object).ravel()[0]
    odd = isinstance(answer, (bool, np.bool_)) or (not isinstance(answer, str) and not hasattr(answer, "__float__"))
    match = None if odd else _FORM.match(answer if isinstance(answer, str) else str(answer))
    if match is None or np.size(answer) != 1:
        return Answer(problem=text("answer.kind", got=f"{answer!r:.60}", example=_example("0.7", unit)))
    number, note = _number(match[1])
    written = match[2] or ("1" if unit in PLAIN else "")
    if not written:
        return Answer(problem=text("answer.which", example=_example(match[1], unit)))
    try:
        kind, factor = quantity(written)
    except Refused as error:
        return Answer(problem=str(error))
    if kind != quantity(unit)[0]:
        return Answer(problem=text("answer.other", got=written, unit=unit))
    return Answer(number * factor, note) if math.isfinite(number) else Answer(problem=text("answer.finite"))


def unit_in(written: str) -> str:
    """Return the unit that stands after the number, or an empty text."""
    match = _FORM.match(written)
    return (match[2] or "") if match else ""


def _number(written: str) -> tuple[float, str]:
    """Return the number and, where a comma had two readings, a note on the one taken."""
    cleaned, note = written, ""
    if _GROUPED.match(written):
        cleaned, note = written.replace(",", ""), "answer.thousands"
    elif "," in written:
        cleaned, note = written.replace(",", "."), "answer.comma"
    try:
        number = float(cleaned)
    except ValueError:
        return math.nan, ""
    return number, text(note, number=f"{number:g}") if note else ""


def _example(number: str, unit: str) -> str:
    return number if unit in PLAIN else f'"{number} {unit}"'


def named_factor(value: float, truth: float) -> str | None:
    """Return the name of the slip if ``value`` is off by a factor that people are off by, else None."""
    if not value * truth > 0:
        return None
    ratio = max(value / truth, truth / value)
    return next((name for factor, name in _FACTORS.items() if math.isclose(ratio, factor, rel_tol=5e-3)), None)


def digits(number: float) -> str:
    """Return a number with three significant digits, as people write it.

    Examples
    --------
    >>> digits(0.69986), digits(128), digits(12345), digits(0)
    ('0.700', '128', '12,345', '0')
    """
    if number == 0 or not 1e-3 <= abs(number) < 1e9:
        return f"{number:.3g}"
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:#.3g}".rstrip(".")


def shown(number: float, unit: str | None) -> str:
    """Return a number that is in ``unit`` with three significant digits and the unit."""
    return digits(number) if unit in (None, "1") else f"{digits(number)} {unit}"
