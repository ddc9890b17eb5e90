"""The learner's progress: one JSON file beside the notebooks, which belongs to the learner."""

import contextlib
import functools
import itertools
import json
import logging
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from fabriclab.core import write_atomic
from fabriclab.course.shown import InputRefused, NewerFile, Shown
from fabriclab.texts import text

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = "fabriclab-progress"
VERSION = 2
_NUMBER = int | float
# Fields of a check or drill that was tried; ``days`` are the days of right answers, ``named`` the mistakes.
_TRIED = {"tries": _NUMBER, "right": bool, "named": list, "days": list}
# The sections, with the fields that other code relies on, since somebody may have edited the file.
SECTIONS: dict[str, dict[str, Any]] = {
    "predictions": {
        "value": _NUMBER | None,
        "unit": str | None,
        "low": _NUMBER | None,
        "high": _NUMBER | None,
    },
    "measurements": {"time": _NUMBER, "busbw": _NUMBER},
    "checks": _TRIED,
    "drills": _TRIED,
    "ledger": {"step": _NUMBER, "lesson": str},
    "chosen": {},
    "tests": {
        "answers": list
    },  # of the assessment: each with its question, whether it is right, and the mistake
    "ratings": {"marks": list},  # of texts, by the learner or a peer: a mark for each criterion
}
_REVEALED = {"truth": _NUMBER, "model": _NUMBER | None, "how": str}
_REVIEWS = (1, 7, 30)  # days from one right answer to the next review
_log = logging.getLogger("fabriclab")
# If the file cannot be read or written, entries are kept here until the kernel ends, so that a lesson can go on.
_memory: dict[Path, dict[str, Any]] = {}


def path() -> Path:
    """Return the path of the progress file: ``FABRICLAB_PROGRESS``, or a file in the current folder."""
    return Path(os.environ.get("FABRICLAB_PROGRESS") or "fabriclab-progress.json").absolute()


def now() -> datetime:
    """Return the local time; a test replaces this function."""
    return datetime.now().astimezone()


def held() -> dict[str, Any]:
    """Return everything in the progress file: a dict for each section, and whatever else it contains.

    A broken file is moved aside and never overwritten.

    Raises
    ------
    NewerFile
        If a newer fabriclab wrote the file; it is left as it is.
    """
    with _locked(path()):
        return _read(path())


def _read(place: Path) -> dict[str, Any]:
    """Return everything stored for a file; a broken file is moved aside, and a missing one counts as empty."""
    if place in _memory:
        return _memory[place]
    empty: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    empty |= {name: {} for name in SECTIONS}
    try:
        found = parsed(place)
        if found is None:
            _move_aside(place)
    except FileNotFoundError:
        return empty
    except OSError as error:
        return _keep_in_memory(place, empty, error)
    return empty | (found or {})


def _move_aside(place: Path) -> None:
    """Rename a broken file, so that nothing in it is overwritten."""
    for n in itertools.count(1):
        aside = place.with_name(f"{place.stem}.broken-{n}{place.suffix}")
        if not aside.exists():
            break
    place.rename(aside)
    _log.warning(text("progress.broken", path=place, aside=aside))


def parsed(place: Path) -> dict[str, Any] | None:
    """Return the content of somebody's progress file in today's format, or None if it is broken or no such file.

    Raises
    ------
    NewerFile
        If a newer fabriclab wrote it.
    """
    data = place.read_bytes()
    # A file that is nested differently fails when it is first indexed.
    with contextlib.suppress(AttributeError, LookupError, TypeError, ValueError):
        found = dict(json.loads(data))
        if found["version"] > VERSION:
            raise NewerFile(
                text("progress.newer", path=place, found=found["version"], known=VERSION)
            )
        if found["format"] == FORMAT:
            found = _migrated(found)
            if _is_sound(found):
                return found
    return None


def _migrated(found: dict[str, Any]) -> dict[str, Any]:
    """Convert an older file to today's format: version 1 stored only the time of the last try."""
    if found["version"] < 2:
        tried = [*found.get("checks", {}).values(), *found.get("drills", {}).values()]
        for entry in tried:
            when = datetime.fromisoformat(entry["when"]).astimezone() if "when" in entry else now()
            entry["days"] = [str(when.date())] if entry["right"] else []
    return found | {"version": VERSION}


def _is_sound(found: dict[str, Any]) -> bool:
    """Return whether all fields of all entries have their type, and all numbers are finite and above 0.

    The guess of a share may be 0 %, and so may the ends of its range.

    Raises
    ------
    LookupError, TypeError, ValueError, AttributeError
        If an entry lacks a field or is nested differently, or a time or the last day of a right answer is no date.
    """
    sound = True
    for name, fields in SECTIONS.items():
        for entry in found.get(name, {}).values():
            wanted = fields | _REVEALED if "truth" in entry else fields
            for field, kind in wanted.items():
                can_be_0 = field in ("value", "low", "high") and entry["unit"] == "%"
                sound = _is_value(entry[field], kind, can_be_0=can_be_0) and sound
            if fields is _TRIED:
                sound = all(isinstance(mistake, str) for mistake in entry["named"]) and sound
                if entry["right"]:
                    date.fromisoformat(entry["days"][-1])
            for field in ("begun", "when"):
                if field in entry:
                    sound = datetime.fromisoformat(entry[field]).tzinfo is not None and sound
    return sound


def _is_value(value: Any, kind: Any, *, can_be_0: bool) -> bool:
    """Return whether a value has a type and, if it is a number, is finite and above 0, or 0 where that is allowed."""
    if type(value) in (int, float) and not 0 <= value < math.inf:
        return False
    if type(value) in (int, float) and value == 0 and not can_be_0:
        return False
    return isinstance(value, kind)


def _keep_in_memory(place: Path, whole: dict[str, Any], error: OSError) -> dict[str, Any]:
    """Keep everything in memory from now on, because the file cannot be used; warn, and return it."""
    _log.warning(text("progress.unwritable", path=place, error=error.strerror))
    _memory[place] = whole
    return whole


@contextlib.contextmanager
def _changed() -> Iterator[dict[str, Any]]:
    """Yield the stored content for changes, and write it afterwards.

    It is read anew, so that entries that other kernels have stored stay.
    """
    place = path()
    with _locked(place):
        whole = _read(place)
        yield whole
        try:
            if place not in _memory:
                write_atomic(place, json.dumps(whole, indent=1).encode())
        except OSError as error:
            _keep_in_memory(place, whole, error)


def put(section: str, key: str, entry: Mapping[str, Any]) -> None:
    """Store ``entry`` under ``key`` in a section.

    It gets the time (``when``) and the time at which it was stored first (``begun``). An entry of a check also gets the
    days on which it was first right, and right when it was due for review.
    """
    when = now().astimezone(UTC).isoformat(timespec="milliseconds")
    new = {**entry, "when": when}
    with _changed() as whole:
        new["begun"] = whole[section].get(key, {}).get("begun", when)
        if SECTIONS[section] is _TRIED:
            old = whole[section].get(key, {"right": False, "days": []})
            new["days"] = [*old["days"]]
            if entry["right"] and (not old["right"] or due(old)):
                new["days"].append(str(now().date()))
        whole[section] = whole[section] | {key: new}
    if path() not in _memory and not _in_ipython():
        _tell_place()


def _in_ipython() -> bool:
    """Return whether IPython runs this code, as in a notebook, where `hello` and `report` show the path of the file."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None


@functools.cache  # so that it is said once in a process
def _tell_place() -> None:
    """Say on the standard error stream where progress is stored, which keeps it out of the output of a script."""
    if sys.stderr is not None:
        sys.stderr.write(text("progress.place", path=path()) + "\n")


def due(entry: Mapping[str, Any]) -> bool:
    """Return whether a check is due for review: 1 day after it was first right, 7 days after that, then 30 days."""
    days = entry["days"]
    if not entry["right"] or len(days) > len(_REVIEWS):
        return False
    return now().date() >= date.fromisoformat(days[-1]) + timedelta(_REVIEWS[len(days) - 1])


def export_progress(path: str | os.PathLike[str]) -> Shown:
    """Write everything that is stored to a new file; an existing file raises FileExistsError."""
    data = json.dumps(held(), indent=1).encode()
    with Path(path).open("xb") as file:
        file.write(data)
    return Shown((text("progress.exported", path=path),), "good")


def import_progress(path: str | os.PathLike[str]) -> Shown:
    """Merge a file that `export_progress` wrote; of two entries with the same name the newer one is kept.

    Raises
    ------
    InputRefused, NewerFile
        If it is no progress file, or was written by a newer fabriclab. Neither that file nor your own is changed.
    """
    found = parsed(Path(path))
    if found is None:
        raise InputRefused(text("progress.foreign", path=path))
    n_new = 0
    with _changed() as whole:
        for name in SECTIONS:
            own = whole[name]
            newer = {}
            for key, entry in found.get(name, {}).items():
                if key not in own or entry.get("when", "") > own[key].get("when", ""):
                    newer[key] = entry
            whole[name] = own | newer
            n_new += len(newer)
    return Shown((text("progress.imported", path=path, n=n_new),), "good")


def forget(what: str | None = None) -> Shown:
    """Delete ``"everything"``, a section such as ``"ledger"``, or an entry such as ``"00-copy"``.

    Write an entry that has the name of a section as ``"ledger: predictions"``, because its name alone could mean
    either.

    Raises
    ------
    InputRefused
        A ValueError: nothing has that name, or both a section and an entry have it.
    """
    known = {name: list(held()[name]) for name in SECTIONS}
    entries = set()
    for name, names in known.items():
        for key in names:
            entries |= {key, f"{name}: {key}"}
    is_section = what in ("everything", *known)
    is_entry = what in entries
    if is_section == is_entry:  # neither of them, or both
        listed = [f"{name}: {', '.join(names)}" for name, names in known.items() if names]
        raise InputRefused(text("progress.forget", known="; ".join(listed) or "-"))

    with _changed() as whole:
        for name in SECTIONS:
            left = {}
            for key, entry in whole[name].items():
                if what not in ("everything", name, key, f"{name}: {key}"):
                    left[key] = entry
            whole[name] = left
    return Shown((text("progress.forgotten", what=what),), "good")


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Keep other kernels from the file meanwhile; if a kernel dies, the operating system frees its lock."""
    lock = place.with_name(f"{place.stem}.lock{place.suffix}")
    file = None
    with contextlib.suppress(OSError):  # no lock can be made there; the code that writes reports it
        file = _taken(lock)
    try:
        yield
    finally:
        if file:
            with contextlib.suppress(OSError):  # Windows does not delete an open file
                lock.unlink()
            file.close()


def _taken(lock: Path) -> BinaryIO:
    """Return the lock file once no other process has it; raise TimeoutError after 10 s, as its holder seems stopped."""
    for _ in range(2000):
        file = lock.open("ab")
        try:
            if sys.platform == "win32":
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                return file
        except (BlockingIOError, PermissionError, FileNotFoundError):
            time.sleep(0.005)  # another process has it, or has just removed it
        file.close()
    raise TimeoutError(lock)
