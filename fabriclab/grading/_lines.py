"""Lines of JSON to and from a process that is not trusted, and what it says made fit to be printed."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import numpy as np

from fabriclab.exercises import Proxy

__all__ = ["packed", "read", "shown", "written"]
_DIGITS: Final = 1300  # of an integer: more than a child sends
_HIDDEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode


def packed(value: Any, proxies: list[Proxy]) -> Any:
    """Return a value as what JSON can carry; a proxy is added to the list, and goes as its place there."""
    if isinstance(value, np.ndarray):
        return {"__array__": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Proxy):
        proxies.append(value)
        about = {"number": len(proxies) - 1, "name": type(value.target).__name__, "methods": value.methods}
        return {"__proxy__": {**about, "fields": {key: packed(field, proxies) for key, field in value.values.items()}}}
    if isinstance(value, list | tuple):
        return [packed(item, proxies) for item in value]
    if isinstance(value, dict) and not all(type(key) is str for key in value):
        return {"__pairs__": [[packed(key, proxies), packed(item, proxies)] for key, item in value.items()]}
    return {key: packed(item, proxies) for key, item in value.items()} if isinstance(value, dict) else value


def written(message: dict[str, Any]) -> bytes:
    """Return the line of a message."""
    return _ENCODE(message).encode() + b"\n"


def read(line: bytes) -> dict[str, Any]:
    """Return the message of a line: numbers are finite, integers not too long, strings can be written to a file.

    Raises
    ------
    ValueError
        If the line holds anything else.
    """
    try:
        message = _DECODE(line.decode())
        _check(message)
    except (TypeError, RecursionError) as error:
        raise ValueError from error
    if not isinstance(message, dict):
        raise ValueError
    return message


def _integer(digits: str) -> int:
    """Return the integer that JSON has written; NaN and infinities come here too, and are refused like long ones."""
    return int(digits if len(digits) <= _DIGITS else "")


def _unpaired(item: dict[str, Any]) -> Any:
    """Return the dictionary that was sent as pairs, so that its keys may be numbers; or NaN, which JSON lacks."""
    if "__pairs__" not in item:
        return math.nan if "__nan__" in item else item
    if len(item["__pairs__"]) > _MOST_PAIRS:  # many keys could be chosen so that each takes the time of all others
        raise ValueError
    return dict(item["__pairs__"])


_MOST_PAIRS: Final = 1000
_DECODE: Final = json.JSONDecoder(object_hook=_unpaired, parse_int=_integer, parse_constant=_integer).decode


def _check(value: Any) -> None:
    if isinstance(value, float) and math.isinf(value):  # 1e999
        raise ValueError
    if isinstance(value, str) and not value.isascii():
        value.encode()  # half of a sign is a UnicodeEncodeError, which is a ValueError
    for item in value if isinstance(value, list) else [*value, *value.values()] if isinstance(value, dict) else ():
        _check(item)


def shown(words: bytes | str, most: int) -> str:
    """Return the beginning of what a learner's code has written; what would act on a terminal is spelled out."""
    if isinstance(words, bytes):
        words = words.decode(errors="backslashreplace")
    cut = words if len(words) <= most else words[:most] + " ..."
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), cut)
