"""Parse and format units: a string such as "400 Gb/s" becomes an SI float once, and output gets prefixes.

Inside the library every quantity is a float in bytes, seconds, bytes per second (one direction),
metres, watts or US dollars. Only public functions call the parsers of this module.
"""

import itertools
import json
import math
import numbers
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from fabriclab import spelling

__all__ = [
    "UNITS",
    "Quantity",
    "choice",
    "count",
    "flag",
    "format_rate",
    "format_share",
    "format_size",
    "format_time",
    "is_number",
    "latency",
    "length",
    "parse",
    "printed",
    "rate",
    "scale",
    "size",
    "time",
]

Quantity = float | int | str

# Units with their quantity, factor to SI and prefixes; examples for error messages; words that people write for a unit;
# the units that a prefix alone may mean; the least and the largest plausible number (null: no bound) and their unit.
_TABLE = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
_DECIMAL: dict[str, float] = _TABLE["prefixes"]["decimal"]
_BINARY: dict[str, float] = _TABLE["prefixes"]["binary"]
_SMALL: dict[str, float] = _TABLE["prefixes"]["small"]


def _spellings() -> dict[str, tuple[str, float]]:
    """Return quantity and factor to SI of every unit with each of its prefixes, by spelling."""
    found = {}
    for unit, (quantity, base, *kinds) in _TABLE["units"].items():
        for kind in kinds:
            for prefix, factor in _TABLE["prefixes"][kind].items():
                found[prefix + unit] = (quantity, base * factor)
    return found


# Quantity and factor to SI of every spelling that the parser accepts.
UNITS: MappingProxyType[str, tuple[str, float]] = MappingProxyType(_spellings())
_NUMBER = r"[-+]?(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_FORM = re.compile(rf"\s*({_NUMBER})\s*(\S.*?)?\s*\Z")
_LOOSE = re.compile(r"\s*([-+]?[\d.,][\d.,_'\s]*?(?:[eE][-+]?\d+)?)\s*([^\d\s.,_'].*?)?\s*\Z")
GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")  # digits in groups of three
_LONG_TEXT = 100  # characters
# A calculation, such as "2*(8-1)/8*100 MB"; the sign of an exponent follows a letter, so it is none.
_EXPRESSION = re.compile(r"[*^()]|\d\s*[-+/]\s*\d")
_LAST_FACTOR = re.compile(
    rf"(?P<before>.*\S)\s*\*\s*(?P<digits>{_NUMBER})\s*(?P<unit>[^\d\s*^()][^*^()]*)\Z"
)
# A plain float cannot say whether it is Gb/s or GB/s, so a value that no real part has is refused as implausible.
_EXAMPLE = _TABLE["examples"]
_WORDS = _TABLE["words"]
_BARE = _TABLE["bare"]
_PLAUSIBLE = _TABLE["plausible"]


def parse(value: Quantity, quantity: str, name: str = "value") -> float:
    """Return ``value`` as a float in SI units.

    Parameters
    ----------
    value : float, int or str
        An SI number, or a number with its unit such as ``"1 MiB"``.
    quantity : str
        One of size, rate, time, length, power, price, frequency, work, speed.
    name : str
        Name of the argument, for the error.

    Returns
    -------
    float
        The value in SI units (bytes, bytes per second, seconds, metres, ...).

    Raises
    ------
    ValueError
        If the unit is unknown, ambiguous or of another quantity, or the number is not finite.
    TypeError
        If ``value`` is neither a number nor a string.

    Examples
    --------
    >>> parse("400 Gb/s", "rate")
    50000000000.0
    >>> parse("1 MiB", "size")
    1048576.0
    """
    example = _EXAMPLE.get(quantity, "an SI number or a number with its unit")
    if isinstance(value, str):
        number = _parse_text(value, quantity, name, example)
    elif not is_number(value):
        raise TypeError(
            f"{name} must be a number or a string with a unit, got {value!r:.80}; write {example}"
        )
    elif isinstance(value, numbers.Rational) and abs(value) > 1e300:  # float would overflow
        number = math.inf
    else:
        number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {value!r:.80}; write {example}")
    return number


def _parse_text(text: str, quantity: str, name: str, example: str) -> float:
    """Return the SI value of a text, or raise an error that says how to write it."""
    if len(text) > _LONG_TEXT:  # the time to parse grows with the square of the length
        msg = f"{name} must be a number with its unit, got a text of {len(text):,} characters; write {example}"
        raise ValueError(msg)
    match = _FORM.match(text)
    digits, unit = match.groups() if match else ("", "")
    if match and not unit:
        raise ValueError(f"{name} needs its unit, got {text!r}; write {example}")
    if unit not in UNITS and _EXPRESSION.search(text):
        raise ValueError(_uncalculated(text, quantity, name, example))
    if unit not in UNITS:
        raise ValueError(_unread(text, quantity, name, example))
    kind, factor = UNITS[unit]
    if kind != quantity:
        per_second = UNITS.get(f"{unit}/s", ("", 0.0))[0] == quantity
        right = f'"{digits} {unit}/s"' if per_second else example
        raise ValueError(f"{name} must be a {quantity}, got the {kind} {text!r}; write {right}")
    return float(digits) * factor


def _uncalculated(text: str, quantity: str, name: str, example: str) -> str:
    """Return what is wrong with a text that contains a calculation, and how Python can do it."""
    start = f"{name} must be one number with its unit, got the calculation {text!r}; "
    factor = _LAST_FACTOR.fullmatch(text.strip())
    if factor is None or UNITS.get(factor["unit"], ("",))[0] != quantity:
        return f"{start}calculate the number first and write {example}"
    parsed = f'units.parse("{factor["digits"]} {factor["unit"]}", "{quantity}")'
    return f"{start}let Python calculate: {factor['before']} * {parsed}"


def _unread(text: str, quantity: str, name: str, example: str) -> str:
    """Return what is wrong with a text, with the correct spellings if they can be guessed."""
    match = _LOOSE.match(text)
    read: list[str] = []
    unit = ""
    if match:
        read = _numbers(match[1])
        unit = match[2] or ""
    if not unit or unit in UNITS:
        forms = [f'"{n} {unit}"' for n in read if unit]
        return f"{name} must be a number with a unit, got {text!r}; write {' or '.join(forms) or example}"
    start = f"{name} has the unknown unit {unit!r} in {text!r}; "
    short = re.fullmatch(r"(?i:([kmgtp]i?)?(b(?:ps|/sec|it/sec))?)", unit)
    prefix = ""
    if short:
        prefix = (short[1] or "").capitalize().replace("K", "k").replace("ki", "Ki")
    if read and short and short[2] and quantity in _BARE:
        bits = f'"{read[0]} {prefix}b/s"'
        octets = f'"{read[0]} {prefix}B/s"'
        return f'{start}"{unit}" is read in two ways: write {bits} for bits per second or {octets} for bytes per second'
    if read and short and not short[2] and quantity == "size":
        return f"{start}did you mean {_meant_sizes(read, prefix)}?"
    near: list[str] = []
    if short:  # a prefix alone
        near = [f"{prefix}{u}" for u in _BARE.get(quantity, ())]
    if not near:  # the same letters in upper or lower case
        near = [u for u in UNITS if u.lower() == unit.lower()]
    if not near:  # the unit as a word
        near = [u for word, u in _WORDS.items() if re.fullmatch(f"{word}s?", unit.lower())]
    forms = [f'"{n} {u}"' for n, u in itertools.product(read, near)]
    if forms:
        return f"{start}did you mean {' or '.join(forms)}?"
    return f"{start}write {example}"


def _meant_sizes(read: list[str], prefix: str) -> str:
    """Return the sizes that numbers with a prefix alone may mean, first that of nccl-tests: 64K is 64 KiB."""
    binary = prefix if prefix.endswith("i") else f"{prefix.capitalize()}i"
    forms = []
    for number in read:
        form = f'"{number} {binary}B"'
        if prefix != binary:
            form += f' (as nccl-tests means it) or "{number} {prefix}B"'
        forms.append(form)
    return " or ".join(forms)


def _numbers(digits: str) -> list[str]:
    """Return the possible readings of a number with gaps and commas: "1,000" may be a thousand or one."""
    bare = re.sub(r"[\s_']", "", digits)
    readings = []
    if "," not in bare or GROUPED.fullmatch(bare):  # commas between groups of digits
        readings.append(bare.replace(",", ""))
    if bare.count(",") == 1 and "." not in bare.partition(",")[2]:  # a comma as decimal point
        readings.append(bare.replace(".", "").replace(",", "."))
    return [reading for reading in readings if re.fullmatch(_NUMBER, reading)]


def _checked(value: Quantity, quantity: str, name: str, longest: float = math.inf) -> float:
    """Return a value in SI; one outside the plausible range of its quantity is refused."""
    number = parse(value, quantity, name)
    low, most, unit = _PLAUSIBLE[quantity]
    high = min(most or math.inf, longest)
    if not low <= number <= high:
        raise ValueError(
            f"{name} must be within {low:g}..{high:g} {unit}, got {value!r}; write {_EXAMPLE[quantity]}"
        )
    return number


def size(value: Quantity, name: str = "size", *, may_be_zero: bool = True) -> float:
    """Return a size in bytes; see `parse`."""
    number = _checked(value, "size", name)
    if not number and not may_be_zero:
        raise ValueError(f"{name} must be > 0 B, got {value!r}; write {_EXAMPLE['size']}")
    return number


def rate(value: Quantity, name: str = "rate", *, may_be_zero: bool = False) -> float:
    """Return a rate in one direction in bytes per second; values outside 1e6..1e14 are refused."""
    if may_be_zero and parse(value, "rate", name) == 0:
        return 0.0
    return _checked(value, "rate", name)


def time(value: Quantity, name: str = "time") -> float:
    """Return a time in seconds; see `parse`."""
    return _checked(value, "time", name)


def latency(value: Quantity, name: str = "latency") -> float:
    """Return the time of one message or hop in seconds; more than 10 s is refused, because it must be a wrong unit."""
    return _checked(value, "time", name, longest=10.0)


def length(value: Quantity, name: str = "length") -> float:
    """Return a length in metres; see `parse`."""
    return _checked(value, "length", name)


def count(value: int, name: str, low: int = 1, high: int | None = None) -> int:
    """Return ``value`` as an int within ``low..high``; an error names the argument and its bounds."""
    if _is_flag(value) or not isinstance(value, numbers.Integral):
        raise TypeError(
            f"{name} must be a whole number, got {value!r:.80}; write an int such as {max(low, 1)}"
        )
    number = int(value)
    most = 2**63 - 1 if high is None else high
    if not low <= number <= most:
        bound = f">= {low}" if high is None and number < low else f"within {low}..{most}"
        raise ValueError(
            f"{name} must be {bound}, got {number!r:.80}; give a whole number within that"
        )
    return number


def is_number(value: object) -> bool:
    """Return whether ``value`` is a single real number, not text and not True or False."""
    other = isinstance(value, bool) or getattr(value, "ndim", False)
    # NumPy's texts, dates and complex numbers have a __float__, too
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    return hasattr(value, "__float__") and kind in "iuf" and not other


def _is_flag(value: object) -> bool:
    """Return whether a value is True or False, also as a NumPy value."""
    return isinstance(value, bool) or getattr(value, "dtype", None) == "bool"


def flag(value: object, name: str) -> bool:
    """Return ``value`` as a bool; text, numbers and None, which Python would accept as one, are refused."""
    if not _is_flag(value) or hasattr(value, "__len__"):
        raise TypeError(f"{name} must be True or False, got {value!r:.80}")
    return bool(value)


def choice(
    value: str,
    name: str,
    known: Iterable[str],
    hint: str = "",
    *,
    other_words: Mapping[str, str] = MappingProxyType({}),
    exact: bool = False,
) -> str:
    """Return the one of the ``known`` words that ``value`` spells; else the error lists them and suggests similar ones.

    Capitals, dashes and American endings make no difference (see `fabriclab.spelling`), so the returned word may differ
    from ``value``; with ``exact`` they do. ``other_words`` are not accepted, but the error suggests the known word that
    each of them stands for.
    """
    words = list(known)
    spelled = spelling.find(value, words)
    if spelled is not None and (spelled == value or not exact):
        return spelled
    meant = spelling.find(value, other_words)
    if meant is None:
        question = spelling.near(value, words)
    else:
        question = f"; did you mean {other_words[meant]!r}?"
    raise ValueError(
        f"{name} must be one of {', '.join(words) or 'none'}, got {value!r:.80}{hint}{question}"
    )


def scale(value: float, prefixes: dict[str, float] | None = None) -> tuple[float, str]:
    """Return ``value`` divided by the largest prefix that fits, and that prefix."""
    table = prefixes or _SMALL | _DECIMAL
    steps = [(factor, prefix) for prefix, factor in table.items()]
    fitting = [step for step in steps if abs(value) >= step[0] * (1 - 1e-12)]
    factor, prefix = max(fitting) if fitting else min(steps)
    return value / factor, prefix


def _three(value: float, prefixes: dict[str, float] | None, unit: str) -> str:
    """Return a value with three significant digits, a prefix and its unit."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    # Round first, so that 999.6 MB/s is shown as 1.00 GB/s.
    number, prefix = scale(float(f"{value:.2e}"), prefixes)
    digits = max(0, 2 - math.floor(math.log10(abs(number)) + 1e-12))
    return f"{number:.{digits}f} {prefix}{unit}"


def printed(unit: str) -> str:
    """Return a unit as the course prints it: µs for the "us" that is easier to type; all others as they are.

    Examples
    --------
    >>> printed("us"), printed("us per step"), printed("GB/s")
    ('µs', 'µs per step', 'GB/s')
    """
    return re.sub(r"^us\b", "µs", unit)


def format_time(seconds: float) -> str:
    """Return a time with three significant digits, such as ``"700 ms"``."""
    return _three(seconds, _SMALL, "s")


def format_rate(bytes_per_second: float) -> str:
    """Return a rate with three significant digits, such as ``"50.0 GB/s"``."""
    return _three(bytes_per_second, _DECIMAL, "B/s")


def format_size(n: float) -> str:
    """Return a size as people write it: with a binary prefix if that gives a whole number, else decimal.

    Examples
    --------
    >>> format_size(4 * 2**20), format_size(17.6e9), format_size(8)
    ('4 MiB', '17.6 GB', '8 B')
    """
    for prefix, factor in reversed(_BINARY.items()):
        if n >= factor and n % factor == 0 and n / factor < 1024:
            return f"{n / factor:.0f} {prefix}B"
    return f"{n:.0f} B" if 0 <= n < 1000 and n == int(n) else _three(n, _DECIMAL, "B")


def format_share(share: float, digits: int = 0, *, signed: bool = False) -> str:
    """Return a share of 1 in percent as the course writes it: with a space, and ``digits`` after the point.

    Parameters
    ----------
    share : float
        A part of a whole, or a change if ``signed``. [1]
    digits : int
        Digits after the point.
    signed : bool
        Whether a gain has its plus sign.

    Examples
    --------
    >>> format_share(0.9712, 1), format_share(0.05, signed=True)
    ('97.1 %', '+5 %')
    """
    sign = "+" if signed else ""
    return f"{100 * share:{sign}.{digits}f} %"


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
