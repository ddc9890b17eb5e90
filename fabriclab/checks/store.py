"""The learner's own progress: one JSON file beside the notebooks, which only the learner owns."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fabriclab.checks.shown import NewerFile, text
from fabriclab.core.save import write_atomic

__all__ = ["FORMAT", "SECTIONS", "VERSION", "now", "path", "put", "read"]

FORMAT: Final = "fabriclab-progress"
VERSION: Final = 1
SECTIONS: Final = ("predictions", "measurements", "checks", "drills", "ledger", "chosen")
_log = logging.getLogger("fabriclab")
# Where the file cannot be read or written, entries live here until the kernel ends, so that a lesson goes on.
_memory: dict[Path, dict[str, Any]] = {}


def path() -> Path:
    """Return where progress is kept: ``FABRICLAB_PROGRESS``, or a file in the current folder."""
    return Path(os.environ.get("FABRICLAB_PROGRESS") or "fabriclab-progress.json").absolute()


def now() -> str:
    """Return the time in UTC to the second, as text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read() -> dict[str, Any]:
    """Return all that is stored: a dict for each of `SECTIONS`, and whatever else the file holds.

    A broken file is moved aside and never overwritten.

    Raises
    ------
    NewerFile
        If a newer fabriclab wrote the file; it is left as it is.
    """
    place = path()
    empty: dict[str, Any] = {"format": FORMAT, "version": VERSION} | {name: {} for name in SECTIONS}
    if place in _memory:
        return _memory[place]
    try:
        found = json.loads(place.read_bytes())
    except FileNotFoundError:
        return empty
    except OSError as error:
        return _keep_in_memory(place, empty, error)
    except ValueError:
        found = None
    if isinstance(found, dict) and isinstance(found.get("version"), int) and found["version"] > VERSION:
        raise NewerFile(text("progress.newer", path=place, found=found["version"], known=VERSION))
    return empty | found if _sound(found) else _start_anew(place, empty)


def _sound(found: Any) -> bool:
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("version"), int):
        return False
    sections = [found.get(name, {}) for name in SECTIONS]
    return all(isinstance(s, dict) and all(isinstance(e, dict) for e in s.values()) for s in sections)


def _start_anew(place: Path, empty: dict[str, Any]) -> dict[str, Any]:
    number = 1
    while (aside := place.with_name(f"{place.stem}.broken-{number}{place.suffix}")).exists():
        number += 1
    try:
        place.rename(aside)
    except OSError as error:
        return _keep_in_memory(place, empty, error)
    _log.warning(text("progress.broken", path=place, aside=aside))
    return empty


def _keep_in_memory(place: Path, whole: dict[str, Any], error: OSError) -> dict[str, Any]:
    _log.warning(text("progress.unwritable", path=place, error=error.strerror))
    _memory[place] = whole
    return whole


def put(section: str, key: str, entry: Mapping[str, Any]) -> None:
    """Store ``entry`` as ``key`` of a section; the file is read again first, so entries of other cells stay."""
    whole, place = read(), path()
    whole[section] = whole[section] | {key: dict(entry)}
    if place not in _memory:
        try:
            write_atomic(place, json.dumps(whole, indent=1).encode())
        except OSError as error:
            _keep_in_memory(place, whole, error)
