"""The learner's own progress: one JSON file beside the notebooks, which only the learner owns."""

import contextlib
import itertools
import json
import logging
import math
import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fabriclab.checks.shown import NewerFile
from fabriclab.core.save import write_atomic
from fabriclab.texts import text

FORMAT: Final = "fabriclab-progress"
VERSION: Final = 1
_NUMBER: Final = int | float
_TRIED: Final = {"tries": _NUMBER, "right": bool, "named": list}
# The sections, with the fields of an entry that other code relies on: a hand may have changed the file.
SECTIONS: Final[dict[str, dict[str, Any]]] = {
    "predictions": {"value": _NUMBER | None, "unit": str | None, "low": _NUMBER | None, "high": _NUMBER | None},
    "measurements": {"time": _NUMBER, "busbw": _NUMBER},
    "checks": _TRIED,
    "drills": _TRIED,
    "ledger": {"step": _NUMBER, "lesson": str},
    "chosen": {},
}
_REVEALED: Final = {"truth": _NUMBER, "model": _NUMBER | None, "how": str}
_log = logging.getLogger("fabriclab")
# Where the file cannot be read or written, entries live here until the kernel ends, so that a lesson goes on.
_memory: dict[Path, dict[str, Any]] = {}


def path() -> Path:
    """Return where progress is kept: ``FABRICLAB_PROGRESS``, or a file in the current folder."""
    return Path(os.environ.get("FABRICLAB_PROGRESS") or "fabriclab-progress.json").absolute()


def progress() -> dict[str, Any]:
    """Return everything in the progress file: a dict for each section, and whatever else the file holds.

    A broken file is moved aside and never overwritten.

    Raises
    ------
    NewerFile
        If a newer fabriclab wrote the file; it is left as it is.
    """
    place = path()
    if place in _memory:
        return _memory[place]
    whole: dict[str, Any] = {"format": FORMAT, "version": VERSION} | {name: {} for name in SECTIONS}
    try:
        return whole | _loaded(place)
    except FileNotFoundError:
        return whole
    except OSError as error:
        return _keep_in_memory(place, whole, error)


def _loaded(place: Path) -> dict[str, Any]:
    """Return what the file holds, or nothing after moving a broken one aside."""
    data = place.read_bytes()
    # What is nested in another way fails at the first step into it.
    with contextlib.suppress(AttributeError, LookupError, TypeError, ValueError):
        found = dict(json.loads(data))
        if found["version"] > VERSION:
            raise NewerFile(text("progress.newer", path=place, found=found["version"], known=VERSION))
        if found["format"] == FORMAT and _sound(found):
            return found
    names = (place.with_name(f"{place.stem}.broken-{n}{place.suffix}") for n in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    place.rename(aside)
    _log.warning(text("progress.broken", path=place, aside=aside))
    return {}


def _sound(found: dict[str, Any]) -> bool:
    """Return whether the fields of all entries are of their type, and their numbers finite and above 0."""
    entries = [(fields, e) for name, fields in SECTIONS.items() for e in found.get(name, {}).values()]
    wanted = [(e, fields | (_REVEALED if "truth" in e else {})) for fields, e in entries]
    values = [(e[field], kind) for e, fields in wanted for field, kind in fields.items()]
    return all(isinstance(x, kind) and (type(x) not in (int, float) or 0 < x < math.inf) for x, kind in values)


def _keep_in_memory(place: Path, whole: dict[str, Any], error: OSError) -> dict[str, Any]:
    _log.warning(text("progress.unwritable", path=place, error=error.strerror))
    _memory[place] = whole
    return whole


def put(section: str, key: str, entry: Mapping[str, Any]) -> None:
    """Store ``entry`` as ``key`` of a section; the file is read again first, so entries of other kernels stay."""
    place, when = path(), datetime.now(UTC).isoformat(timespec="seconds")
    with _locked(place):
        whole = progress()
        whole[section] = whole[section] | {key: {"when": when, **entry}}
        try:
            if place not in _memory:
                write_atomic(place, json.dumps(whole, indent=1).encode())
        except OSError as error:
            _keep_in_memory(place, whole, error)


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Keep other kernels out between a read and a write, by a file that only one of them can make."""
    lock = place.with_name(f"{place.stem}.lock{place.suffix}")
    for _ in range(600):  # 3 s; whoever holds it for longer has died
        try:
            lock.touch(exist_ok=False)
            break
        except FileExistsError:
            time.sleep(0.005)
        except OSError:
            break  # nothing can be written there: `put` says so
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()
