"""Read the progress files of a class from a folder, and give each student a number."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabriclab.course.progress import store
from fabriclab.course.shown import NewerFile, refuse_if
from fabriclab.texts import text

Kept = Mapping[str, Any]  # what a progress file contains, as `store.held` returns it


@dataclass(frozen=True)
class Student:
    """A student of the class, with everything in the progress files that were handed in."""

    number: int
    name: str
    kept: Kept

    @property
    def numbered(self) -> str:
        """The student without a name."""
        return text("class.student", number=self.number)


@dataclass(frozen=True)
class Class:
    """All students of a class, and a sentence on each file that could not be read."""

    students: tuple[Student, ...]
    unread: tuple[str, ...]


def collect(folder: str | os.PathLike[str]) -> Class:
    """Return the students whose progress files are in a folder.

    A file at the top belongs to the student after whom it is named, one inside a folder to the student after whom that
    is named. Of several files of a student the newest entries count. Students are numbered in the order of their names.

    Parameters
    ----------
    folder : str or path
        Where the files are. JSON files that are not progress files are passed over.

    Raises
    ------
    InputRefused
        A ValueError: it is no folder, or no progress file is in it.
    """
    place = Path(folder)
    refuse_if(not place.is_dir(), "class.no_folder", folder=folder)
    files_of: dict[str, list[Kept]] = {}
    unread = []
    for path in sorted(place.rglob("*.json")):
        inner = path.relative_to(place)
        name = inner.parts[0] if len(inner.parts) > 1 else inner.stem
        try:
            content = store.parsed(path)
        except (NewerFile, OSError) as error:
            unread.append(text("class.unread", file=inner.as_posix(), error=error))
            continue
        if content is not None:
            files_of.setdefault(name, []).append(content)
        elif _claims_to_be_progress(path):
            unread.append(text("class.broken", file=inner.as_posix()))
    refuse_if(not files_of, "class.empty", folder=folder)
    students = []
    for number, (name, files) in enumerate(sorted(files_of.items()), 1):
        students.append(Student(number, name, _newest(files)))
    return Class(tuple(students), tuple(unread))


def _claims_to_be_progress(path: Path) -> bool:
    """Return whether a file that is no sound progress file was meant as one, by its name or its first words."""
    try:
        return "progress" in path.stem or store.FORMAT.encode() in path.read_bytes()[:200]
    except OSError:
        return False


def _newest(files: list[Kept]) -> Kept:
    """Return the newest of all entries of a student's files."""
    newest: dict[str, dict[str, Any]] = {}
    for section in store.SECTIONS:
        entries: dict[str, Any] = {}
        for content in files:
            for key, entry in content.get(section, {}).items():
                if key not in entries or entry.get("when", "") > entries[key].get("when", ""):
                    entries[key] = entry
        newest[section] = entries
    return newest
