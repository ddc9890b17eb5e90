"""Values as JSON: arrays by hash, all else in full, nothing that differs from run to run."""

import contextlib
import dataclasses
import enum
import hashlib
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_DIGEST = 24  # hexadecimal digits of a hash; two arrays that differ never share so many by chance
_DEPTH = 12  # values nested deeper than this are cut, since something refers to itself
# Where a type of the library lives is no matter of its users.
_PLACE = re.compile(r"\bfabriclab(?:\.\w+)*\.(\w+)")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def hashed(data: bytes) -> str:
    """Return the beginning of a SHA-256 hash."""
    return hashlib.sha256(data).hexdigest()[:_DIGEST]


def array_line(array: np.ndarray) -> str:
    """Return type, shape and hash of an array as one line."""
    if array.dtype.kind == "O":
        data = repr([plain(item) for item in array.ravel().tolist()]).encode()
    else:
        data = np.ascontiguousarray(array).tobytes()
    return f"{array.dtype} {array.shape} sha256 {hashed(data)}"


def scrubbed(words: str) -> str:
    """Return a text without addresses in memory and without paths of this machine."""
    words = _ADDRESS.sub(" at …", words)
    for folder in (os.getcwd(), os.environ.get("FABRICLAB_PROGRESS", ""), str(_library())):
        if folder and folder != "/":
            words = words.replace(folder, "<folder>")
    return words


def _library() -> Path:
    """Return the folder that holds the library."""
    import fabriclab

    return Path(fabriclab.__file__).parents[1]


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON can hold it: dataclasses by field, arrays by hash."""
    if depth > _DEPTH:
        return "…"
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum):
        return repr(value)
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        number = float(value)
        return number if math.isfinite(number) else repr(number)
    if isinstance(value, np.ndarray):
        return array_line(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(repr(plain(item, depth + 1)) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name), depth + 1)
            for field in dataclasses.fields(value)
        }
    if callable(value):
        return "<callable>"
    return scrubbed(unplaced(repr(value)))


def unplaced(words: str) -> str:
    """Return a text with the types of this library by name alone, wherever they live."""
    return _PLACE.sub(r"\1", words)


def error_line(error: BaseException) -> dict[str, str]:
    """Return type and text of an error."""
    return {"error": type(error).__name__, "text": scrubbed(str(error))}


def attempt(make: Callable[[], Any]) -> Any:
    """Return what a call gives as JSON, or the error that it raises."""
    try:
        return plain(make())
    except (Exception, SystemExit) as error:
        return error_line(error)


def fresh_progress() -> None:
    """Forget what a learner would have answered so far, so that the next try is the first."""
    file = os.environ["FABRICLAB_PROGRESS"]
    with contextlib.suppress(FileNotFoundError):
        os.unlink(file)
