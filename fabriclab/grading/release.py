"""Keys, and what a class gets: students' files whose numbers and hidden cases are drawn from a key."""

import copy
import hashlib
import hmac
import importlib
import json
import os
import re
import secrets
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

from fabriclab import exercises
from fabriclab.checks.shown import Refused, refuse_if
from fabriclab.core import write_atomic
from fabriclab.grading.notebooks import STUB, TEXT_STUB, Book, as_bytes, exercise, read
from fabriclab.texts import text


def new_key(path: Path) -> None:
    """Write a new key of 32 random bytes, which only the owner may read; a file that exists is left as it is."""
    try:
        with open(path, "x", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as key:
            key.write(secrets.token_hex(32) + "\n")
    except FileExistsError:
        raise Refused(text("grade.key.exists", path=path)) from None


def read_key(path: str | Path | None, say: Callable[[str], object] = str) -> str:
    """Return the key in a file that nobody else may write; without one the practice key, which everybody knows."""
    if path is None:
        return exercises.PRACTICE
    rights = Path(path).stat().st_mode if os.name == "posix" else 0
    refuse_if(rights & 0o022, "grade.key.open", path=path)
    if rights & 0o044:
        say(text("grade.key.told", path=path))
    key = Path(path).read_text(encoding="ascii", errors="replace").strip()
    refuse_if(not re.fullmatch("[0-9a-f]{64}", key), "grade.key.broken", path=path, n=len(key))
    return key


def fingerprint(key: str) -> str:
    """Return a name for a key, from which it cannot be found."""
    return key if key == exercises.PRACTICE else hashlib.sha256(f"fabriclab key {key}".encode()).hexdigest()[:12]


def token(key: str, student: str) -> str:
    """Return what stands for a student in a notebook: nobody without the key can tell whom."""
    name = unicodedata.normalize("NFC", student)  # some systems take the accents of a folder's name apart
    return hmac.new(key.encode(), name.encode(errors="replace"), "sha256").hexdigest()[:16]


def read_names(path: str | Path | None) -> list[str]:
    """Return the names in a list of a class, one a line, if all can be folders; lines with # are left out."""
    lines = Path(path).read_text(encoding="utf-8-sig", errors="replace").split("\n") if path else []
    names = [name for line in lines if (name := line.strip()) and name[0] != "#"]
    strange = {*"/\\\N{REPLACEMENT CHARACTER}"}
    wrong = [n for n in names if n[0] == "." or not n.isprintable() or strange & {*n} or len(n.encode()) >= 200]
    if wrong or len({name.casefold() for name in names}) < len(names):
        raise Refused(text("grade.release.names", names=", ".join(map(repr, wrong or names))))
    return names


def release(source: Path, key: str, out: Path, students: Sequence[str] = ()) -> list[Path]:
    """Write the class's file of an exercise, or one folder with a file for each student, where nothing is yet."""
    for cell in read(source).cells:
        solved = cell.solution and STUB not in cell.source and TEXT_STUB not in cell.source
        refuse_if(solved or "BEGIN HIDDEN TESTS" in cell.source, "grade.release.solved", source=source)
    book = json.loads(source.read_bytes())
    made = {out / name / source.name: token(key, name) if name else "" for name in students or ("",)}
    for path in made:
        refuse_if(path.exists(), "grade.release.exists", path=path)
    for path, student in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, as_bytes(_with_data(book, key, student)))
    return [*made]


def _with_data(book: Book, key: str, student: str) -> Book:
    """Return a student's file with the student's token, and what the function ``release`` of the graders draws."""
    book = copy.deepcopy(book)
    if student:
        book["metadata"].setdefault("fabriclab", {})["student"] = student
    ids = {cell["metadata"].get("nbgrader", {}).get("grade_id", ""): n for n, cell in enumerate(book["cells"])}
    for name in sorted({exercise(id) for id in exercises.questions() if id in ids}):
        modules = sorted({q.judge.__module__ for id, q in exercises.questions().items() if exercise(id) == name})
        hooks = (getattr(importlib.import_module(module), "release", None) for module in modules)
        numbers = {word: value for hook in hooks if hook for word, value in hook(key, student).items()}
        lines = [text("grade.release.data"), *(f"{word} = {value!r}" for word, value in numbers.items())]
        marks = {"grade": False, "grade_id": f"{name}-data", "locked": True, "schema_version": 3, "solution": False}
        cell = {
            "cell_type": "code", "execution_count": None, "id": f"{name}-data", "outputs": [],
            "metadata": {"deletable": False, "editable": False, "nbgrader": marks},
            "source": "\n".join(lines).splitlines(keepends=True),
        }  # fmt: skip
        if numbers:
            at = ids.get(f"{name}-data", ids.get(f"{name}-setup", -1) + 1)
            book["cells"][at : at + (f"{name}-data" in ids)] = [cell]
    return book
