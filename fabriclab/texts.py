"""All sentences that people read, from one table per language.

The environment variable ``FABRICLAB_LANGUAGE`` chooses the table: a language that the course has, such as ``fr``, or
the file of another table. What a table does not translate is said in English, so a translation may begin small.

A sentence says how its numbers are written: ``{n:,}``, or ``{end:time}``, ``{r:rate}`` and ``{s:size}`` for a float in
SI units. ``{n:/essai/essais}`` writes the word that goes with the number. A field that is a number, with its unit or
without, gets the decimal and the thousands mark of the language.
"""

import functools
import json
import os
import re
import string
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fabriclab import units

_WITH_UNIT = {"time": units.format_time, "rate": units.format_rate, "size": units.format_size}
_HERE = Path(__file__).parent
_ENGLISH = "en"
# A number as `fabriclab.units` and the lessons write it, and perhaps its unit: 0.700 s, 1,024, 16.7 GB/s, 3.5 times.
_NUMBER = re.compile(r"(?a)([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)( [^\d\s]{1,12})?")
_PREFIX = "(?:[kKMGTPE]i?|[mµμunp])?"
_SYMBOL = (
    rf"(?:{_PREFIX}(?:bit|FLOP|Hz|Wh|USD|baud|[BbWJTsmAK])(?:/s|/bit)?|min|[hd]|dBm?|°C)(?!\w)|[%×]"
)
# The spaces between a number and its unit, such as those of "50 GB/s", "3 %", "76.4 / min" and "USD 12": a regular
# expression for Python and for the browser.
UNBROKEN = rf"(?<=\d) (?=(?:/ )?(?:{_SYMBOL}))|(?<=\d /) (?=(?:s|min|h|d)(?!\w))|(?<=\bUSD) (?=\d)|(?<=\d ×) (?=\d)"


class _Number(float):
    """A number that formats itself with a unit: as a time, a rate, a size or in percent."""

    def __format__(self, spec: str) -> str:
        if spec in _WITH_UNIT:
            return _WITH_UNIT[spec](self)
        if spec.endswith(
            "%"
        ):  # such as "+.1%"; the course writes a space, see `units.format_share`
            return super().__format__(spec)[:-1] + " %"
        return super().__format__(spec)


class _Writer(string.Formatter):
    """Fills in fields with the marks and the plural of the language in use."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec.startswith("/"):
            _, one, many = format_spec.split("/")
            return one if _is_one(float(value)) else many
        return localised(format(value, format_spec))


def _is_one(number: float) -> bool:
    """Return whether a number takes the singular: 1 in English, all below 2 in French."""
    return number == 1 or (text("number.singular") == "below 2" and abs(number) < 2)


@functools.cache
def _loaded(language: str) -> Mapping[str, str]:
    """Return the sentences of a language that the course has, or of a file; what it lacks is in English."""
    ours = _HERE / f"texts_{language}.json"
    is_ours = language.isalpha() and ours.exists()
    try:
        found: dict[str, str] = json.loads((ours if is_ours else Path(language)).read_text("utf-8"))
    except OSError as error:
        raise ValueError(
            f"FABRICLAB_LANGUAGE must be one of {', '.join(languages())}, or name a file of sentences, "
            f"got {language!r}: {error.strerror}"
        ) from None
    return found if language == _ENGLISH else {**_loaded(_ENGLISH), **found}


def languages() -> list[str]:
    """Return the languages that the course has, by their codes: those that ``FABRICLAB_LANGUAGE`` takes."""
    return sorted(path.stem.removeprefix("texts_") for path in _HERE.glob("texts_*.json"))


def switched_on(name: str) -> bool:
    """Return whether a switch in the environment is on, such as ``FABRICLAB_TEXT=1``."""
    return os.environ.get(name, "") not in ("", "0")


def table() -> Mapping[str, str]:
    """Return all sentences of the current language, by key; those that have no translation are in English."""
    return _loaded(os.environ.get("FABRICLAB_LANGUAGE") or _ENGLISH)


def text(key: str, /, **fields: object) -> str:
    """Return the sentence ``key`` with its fields filled in."""
    return fill(table()[key], **fields)


def fill(sentence: str, /, **fields: object) -> str:
    """Return a sentence with its fields filled in."""
    if not fields and "{" not in sentence and "}" not in sentence:
        return sentence
    written: dict[str, object] = {}
    for name, value in fields.items():
        written[name] = _Number(value) if isinstance(value, float) else value
    if ":/" in sentence or _marks() != (".", ","):
        return _Writer().vformat(sentence, (), written)
    return sentence.format(**written)


def unbroken(words: str) -> str:
    r"""Return words for a page, on which no line breaks between a number and its unit: each such space becomes U+00A0.

    Examples
    --------
    >>> unbroken("76.4 / min of 5 µs at 50 GB/s, 4 × 8 GPUs").split(" ")
    ['76.4\xa0/\xa0min', 'of', '5\xa0µs', 'at', '50\xa0GB/s,', '4\xa0×\xa08', 'GPUs']
    """
    return re.sub(UNBROKEN, "\u00a0", words)


def wrapped(words: str, letters: int) -> list[str]:
    """Return the lines of a text that is drawn, of at most so many letters; a number and its unit stay on one line."""
    return [line.replace("\u00a0", " ") for line in textwrap.wrap(unbroken(words), letters)]


def localised(written: str) -> str:
    """Return a number with the marks of the language in use; anything but a number, with its unit or without, stays.

    Examples
    --------
    >>> localised("1,024.5 GB/s"), localised("5 us"), localised("lesson 31")
    ('1,024.5 GB/s', '5 µs', 'lesson 31')
    """
    match = _NUMBER.fullmatch(written)
    decimal, thousands = _marks()
    if match is None:
        return written
    number, unit = match.groups()
    whole, point, fraction = number.partition(".")
    written = whole.replace(",", thousands) + (decimal if point else "") + fraction
    return f"{written} {unit_words(unit.strip())}" if unit else written


def unit_words(unit: str) -> str:
    """Return a unit as people write it beside a number: µs for "us", other symbols as they are; "times" is a word."""
    return table()["unit.times"] if unit == "times" else units.printed(unit)


def _marks() -> tuple[str, str]:
    """Return the decimal and the thousands mark of the language in use."""
    words = table()
    return words["number.decimal"], words["number.thousands"]


def keys(start: str) -> list[str]:
    """Return the keys that begin with ``start``, in the order of the table."""
    return [key for key in table() if key.startswith(start)]
