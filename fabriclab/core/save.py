"""Save and load the types of `fabriclab.core` as npz files without pickles, with format and version, atomically."""

import dataclasses
import io
import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from fabriclab import core
from fabriclab.errors import FileFormat

FORMAT = "fabriclab"
VERSION = 2
_TYPES = ("Fabric", "Routes", "Flows", "Changes", "Timeline", "Result", "Schedule", "StepGroup")


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` atomically: a reader sees the old file or the new one, never a part of it."""
    goal = Path(path)
    part = goal.with_name(f".{goal.name}.{secrets.token_hex(8)}")
    try:
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(goal)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def save(value: Any, path: str | os.PathLike[str]) -> None:
    """Write a value of `fabriclab.core` to the file ``path``.

    Raises
    ------
    TypeError
        If the value has another type, or a mapping in it has a key that is not text.
    """
    arrays: dict[str, Any] = {}
    header = json.dumps({"format": FORMAT, "version": VERSION, "value": _pack(value, arrays)})
    buffer = io.BytesIO()
    np.savez_compressed(buffer, header=np.array(header), **arrays)
    write_atomic(path, buffer.getvalue())


def _pack(value: Any, arrays: dict[str, Any]) -> Any:
    """Return a value as nested JSON; its arrays go into ``arrays`` and are replaced by their keys."""
    name = type(value).__name__
    if isinstance(value, np.ndarray):
        key = f"a{len(arrays)}"
        arrays[key] = value
        return {"array": key}
    if name in _TYPES and dataclasses.is_dataclass(value):
        fields = {f.name: _pack(getattr(value, f.name), arrays) for f in dataclasses.fields(value)}
        return {"type": name, "fields": fields}
    if isinstance(value, (list, tuple)):
        return {"items": [_pack(v, arrays) for v in value]}
    if isinstance(value, dict):
        if other := [k for k in value if not isinstance(k, str)]:
            raise TypeError(
                f"cannot save a mapping with the key {other[0]!r}; keys are text: write {str(other[0])!r}"
            )
        return {"table": {k: _pack(v, arrays) for k, v in value.items()}}
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or isinstance(plain, (str, int, float, bool)):
        return {"plain": plain}
    raise TypeError(f"cannot save a {name}; this file form holds {', '.join(_TYPES)}")


def load(path: str | os.PathLike[str]) -> Any:
    """Read a value that `save` wrote and return it.

    Raises
    ------
    FileFormat
        If the file is damaged, of another format, or newer than this version of the library.
    """
    name, data = os.fspath(path), Path(path).read_bytes()
    # A damaged archive fails in many ways (zip, zlib, npy header, json), and all mean the same to the caller.
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            header = dict(json.loads(str(file["header"])))
            arrays = {k: file[k] for k in file.files if k != "header"}
    except Exception as error:
        raise FileFormat(f"{name} is no complete {FORMAT} file ({error}); save it again") from error
    if header.get("format") != FORMAT:
        raise FileFormat(f"{name} has the format {header.get('format')!r}, expected {FORMAT!r}")
    if not isinstance(version := header.get("version"), int) or version > VERSION:
        raise FileFormat(
            f"{name} has version {version!r}, this fabriclab reads up to {VERSION}; update fabriclab"
        )
    try:
        return _unpack(header["value"], arrays)
    except Exception as error:
        raise FileFormat(f"{name} is broken inside ({error}); save it again") from error


def _unpack(tree: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """Return the value that `_pack` described."""
    if "array" in tree:
        return arrays[tree["array"]]
    if "items" in tree:
        return tuple(_unpack(v, arrays) for v in tree["items"])
    if "table" in tree:
        return {k: _unpack(v, arrays) for k, v in tree["table"].items()}
    if "type" in tree:
        kinds = {name: getattr(core, name) for name in _TYPES}
        fields = {k: _unpack(v, arrays) for k, v in tree["fields"].items()}
        call = fields.pop("call", "")
        value = kinds[tree["type"]](**fields)
        return value.shown_as(call) if call else value
    return tree["plain"]
