"""All sentences that people read, from one table per language.

The environment variable ``FABRICLAB_LANGUAGE`` names the file of another table. A sentence says how its numbers are
written: ``{n:,}``, or ``{end:time}``, ``{r:rate}`` and ``{s:size}`` for a float in SI units.
"""

import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path

from fabriclab import units

_WITH_UNIT = {"time": units.format_time, "rate": units.format_rate, "size": units.format_size}
_ENGLISH = str(Path(__file__).with_name("texts_en.json"))


class _Number(float):
    """A number that formats itself with a unit: as a time, a rate, a size or in percent."""

    def __format__(self, spec: str) -> str:
        if spec in _WITH_UNIT:
            return _WITH_UNIT[spec](self)
        if spec.endswith("%"):
            return super().__format__(spec)[:-1] + " %"
        return super().__format__(spec)


@functools.cache
def _loaded(file: str) -> Mapping[str, str]:
    try:
        found: dict[str, str] = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"FABRICLAB_LANGUAGE must name a file of sentences, got {file!r}: {error.strerror}"
        ) from None
    return found


def switched_on(name: str) -> bool:
    """Return whether a switch in the environment is on, such as ``FABRICLAB_TEXT=1``."""
    return os.environ.get(name, "") not in ("", "0")


def table() -> Mapping[str, str]:
    """Return all sentences of the current language, by key."""
    return _loaded(os.environ.get("FABRICLAB_LANGUAGE") or _ENGLISH)


def text(key: str, /, **fields: object) -> str:
    """Return the sentence ``key`` with its fields filled in."""
    return fill(table()[key], **fields)


def fill(sentence: str, /, **fields: object) -> str:
    """Return a sentence with its fields filled in."""
    written: dict[str, object] = {}
    for name, value in fields.items():
        written[name] = _Number(value) if isinstance(value, float) else value
    return sentence.format(**written)


def keys(start: str) -> list[str]:
    """Return the keys that begin with ``start``, in the order of the table."""
    return [key for key in table() if key.startswith(start)]
