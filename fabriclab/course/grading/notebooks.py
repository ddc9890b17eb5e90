"""Notebooks for grading: cells are found by their nbgrader ids, never by their positions.

Reading a submission does not raise, whatever the file contains. A class gets files whose numbers and hidden cases are
drawn from a key.
"""

import copy
import hashlib
import hmac
import importlib
import json
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabriclab.core import write_atomic
from fabriclab.course import judges
from fabriclab.course.questions import own
from fabriclab.course.shown import InputRefused, refuse_if
from fabriclab.texts import text

Book = dict[str, Any]
MOST = 16 << 20  # largest file with its pictures [B]
MOST_CELLS = 5_000
MOST_CODE = 1 << 20  # most characters of all code together
CODE_STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")  # as nbgrader writes them
STUB = "NotImplementedError"
TEXT_STUB = "YOUR ANSWER HERE"
_MAGIC = re.compile(r"^([ \t]*)[%!].*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a submission: nbgrader id or ``""``, ``code`` or ``markdown``, source, and mark as a solution."""

    id: str
    kind: str
    source: str
    solution: bool


@dataclass(frozen=True, slots=True)
class Submission:
    """The cells of a student's notebook. A file that cannot be read has no cells, and ``problem`` says why."""

    cells: tuple[Cell, ...] = ()
    problem: str = ""
    trouble: str = "file"  # why there are no cells, by its name in the texts grade.trouble.<name>
    unread: str = ""  # why this machine cannot read the file, which is not the student's fault
    digest: str = ""  # of the file
    student: str = ""  # token from `release`, which selects the student's hidden cases

    def places(self, id: str) -> list[int]:
        """Return the positions of the code cells with an id: none if deleted, several if it was copied or split."""
        return [n for n, cell in enumerate(self.cells) if cell.id == id and cell.kind == "code"]

    def place(self, id: str, functions: Sequence[str] = ()) -> int | None:
        """Return the position of the code cell with an id, or None.

        Of several cells, the first one that is not the stub and defines one of the functions counts. If there is none,
        it is the first that is not the stub, or else the first.
        """
        any_of = "|".join(functions) or "(?!)"
        named = re.compile(rf"^(?:(?:def|class)\s+(?:{any_of})\b|(?:{any_of})\s*=)", re.MULTILINE)

        def rank(n: int) -> tuple[bool, bool, int]:
            source = self.cells[n].source
            stub = not source.strip() or f"raise {STUB}" in source
            return stub, not named.search(source), n

        return min(self.places(id), key=rank, default=None)

    def variants(self, id: str, functions: Sequence[str] = ()) -> Iterator[list[str]]:
        """Yield variants of the cells to run for a question, to try in turn while a name is missing or code unreadable.

        The first variant has the setup and the question's own cell. The second has both without notebook commands such
        as ``%time``. The last has all code before the cell, in the order of the file.
        """
        at = self.place(id, functions)
        if at is None:
            return
        first = [
            self.cells[n].source
            for part in ("setup", "data")
            for n in self.places(f"{exercise(id)}-{part}")[:1]
        ]
        own = [*first, self.cells[at].source]
        yield own
        bare = [_MAGIC.sub(r"\1pass", source) for source in own]
        if bare != own:
            yield bare
        before = [
            _MAGIC.sub(r"\1pass", cell.source) for cell in self.cells[:at] if cell.kind == "code"
        ]
        if before != bare[:-1]:
            yield [*before, bare[-1]]

    def written(self) -> dict[str, str]:
        """Return id -> free text, which is empty if the student did not change it."""
        texts = {
            cell.id: cell.source
            for cell in self.cells
            if cell.kind == "markdown" and cell.solution and cell.id
        }
        return {
            id: "" if source.strip() in ("", TEXT_STUB) else source for id, source in texts.items()
        }


def exercise(id: str) -> str:
    """Return the exercise in the id of a question or cell: ``ex1`` for ``ex1-a``."""
    return id.partition("-")[0]


def submission(book: Book) -> Submission:
    """Return a notebook of one's own as if somebody had handed it in."""
    return Submission(tuple(_cell(cell) for cell in book["cells"]))


def number_or_name(exercise: str) -> str:
    """Return how commands ask for an exercise: by its number, as in 1 for ``ex1``, or an own one by its name."""
    return re.sub(r"^ex(?=\d+$)", "", exercise)


def read(path: Path) -> Submission:
    """Read a notebook of format 4; broken content becomes a ``problem``, and only OSError is raised."""
    status = path.lstat()
    digest = ""
    try:
        # A link could lead to the solution, or to somebody else's file.
        refuse_if(stat.S_ISLNK(status.st_mode), "grade.file.link")
        # Reading a pipe would never end.
        refuse_if(not stat.S_ISREG(status.st_mode), "grade.file.format")
        digest = f"{status.st_size}"  # of a file too large to read, its size must do
        refuse_if(status.st_size > MOST, "grade.file.huge", most=MOST >> 20)
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        book = json.loads(data)
        is_notebook = (
            isinstance(book, dict)
            and isinstance(book.get("cells"), list)
            and book.get("nbformat", 4) == 4
        )
        refuse_if(not is_notebook, "grade.file.format")
        refuse_if(len(book["cells"]) > MOST_CELLS, "grade.file.cells", most=f"{MOST_CELLS:,}")
        cells = tuple(_cell(cell) for cell in book["cells"] if isinstance(cell, dict))
        characters = sum(len(cell.source) for cell in cells)
        refuse_if(characters > MOST_CODE, "grade.file.long", most=MOST_CODE)
    except InputRefused as error:
        return Submission(problem=str(error), digest=digest)
    except UnicodeDecodeError:
        return Submission(problem=text("grade.file.encoding"), digest=digest)
    except (ValueError, RecursionError, MemoryError):
        return Submission(problem=text("grade.file.broken"), digest=digest)

    student = str(_nested(_nested(book, "metadata"), "fabriclab").get("student"))
    if not re.fullmatch("[0-9a-f]{16}", student):
        student = ""
    return Submission(cells, digest=digest, student=student)


def _nested(outer: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the dict under a key, or an empty one if there is anything else."""
    inner = outer.get(key)
    return inner if isinstance(inner, dict) else {}


def _cell(cell: Mapping[str, Any]) -> Cell:
    """Return a cell of a file; whatever is not as it should be counts as missing."""
    marks = _nested(_nested(cell, "metadata"), "nbgrader")
    id = marks.get("grade_id")
    if not isinstance(id, str):
        id = ""
    lines = cell.get("source")
    if not isinstance(lines, list):
        lines = [lines]
    source = "".join(line for line in lines if isinstance(line, str))
    # A lone surrogate could not be written to a file.
    source = source.encode(errors="replace").decode()
    is_solution = marks.get("solution") is True
    return Cell(id, str(cell.get("cell_type")), source, is_solution)


def as_bytes(book: Book) -> bytes:
    """Write a notebook as nbformat does, with the same bytes for the same content."""
    return (json.dumps(book, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()


def student_version(source: Book) -> Book:
    """Return a source notebook without solutions, hidden tests and outputs.

    Raises
    ------
    ValueError
        If a mark is not closed, or the metadata of its cell does not know of it.
    """
    book = copy.deepcopy(source)
    for cell in book["cells"]:
        cell["source"] = _without_solution(cell).splitlines(keepends=True)
        marks = cell["metadata"].get("nbgrader", {})
        if marks.get("grade") or marks.get("solution") or marks.get("locked"):
            # JupyterLab then keeps the cell, and what is not to be answered.
            cell["metadata"]["deletable"] = False
            if not marks.get("solution"):
                cell["metadata"]["editable"] = False
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return book


def _without_solution(cell: Mapping[str, Any]) -> str:
    """Return the source of a cell in which stubs replace the solution, and hidden tests are left out."""
    marks = cell["metadata"].get("nbgrader", {})
    stub = CODE_STUB if cell["cell_type"] == "code" else (TEXT_STUB,)
    before = "".join(cell["source"]).split("\n")
    where = f"cell {cell.get('id')!r}"
    try:
        lines = _replaced(before, "SOLUTION", stub)
        if marks.get("solution") and lines == before:
            lines = [*stub]
        after = _replaced(lines, "HIDDEN TESTS", ())
    except LookupError as error:
        msg = f"{where}: {error}; each BEGIN needs its END, and one may not be within another"
        raise ValueError(msg) from None
    solution_unknown = lines != before and not marks.get("solution")
    tests_unknown = after != lines and not marks.get("grade")
    if solution_unknown or tests_unknown:
        msg = f"{where} holds a solution or hidden tests, but its metadata does not say so"
        raise ValueError(msg)
    return "\n".join(after)


def _replaced(lines: Sequence[str], mark: str, stub: Sequence[str]) -> list[str]:
    """Return the lines with each marked part replaced by the stub, at the indentation of its first mark."""
    kept = list[str]()
    inside = False
    for line in lines:
        if f"BEGIN {mark}" in line or f"END {mark}" in line:
            if inside == (f"BEGIN {mark}" in line):
                raise LookupError(line.strip())
            indent = line[: len(line) - len(line.lstrip())]
            if not inside:
                kept += [indent + part for part in stub]
            inside = not inside
        elif not inside:
            kept.append(line)
    if inside:
        raise LookupError(mark)
    return kept


def new_key(path: Path) -> None:
    """Write a new key of 32 random bytes, which only the owner may read; an existing file is not changed."""
    try:
        with open(
            path, "x", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)
        ) as key:
            key.write(secrets.token_hex(32) + "\n")
    except FileExistsError:
        raise InputRefused(text("grade.key.exists", path=path)) from None


def read_key(path: str | Path | None, say: Callable[[str], object] = str) -> str:
    """Read the key from a file that nobody else may write; without a file, return the practice key, which is public."""
    if path is None:
        return judges.PRACTICE
    rights = Path(path).stat().st_mode if os.name == "posix" else 0
    refuse_if(rights & 0o022, "grade.key.open", path=path)
    if rights & 0o044:
        say(text("grade.key.told", path=path))
    key = Path(path).read_text(encoding="ascii", errors="replace").strip()
    refuse_if(not re.fullmatch("[0-9a-f]{64}", key), "grade.key.broken", path=path, n=len(key))
    return key


def fingerprint(key: str) -> str:
    """Return a name for a key that does not reveal it."""
    if key == judges.PRACTICE:
        return key
    return hashlib.sha256(f"fabriclab key {key}".encode()).hexdigest()[:12]


def token(key: str, student: str) -> str:
    """Return the token for a student in a notebook, which does not reveal the student without the key."""
    # Some systems decompose accented letters in the names of folders, and a student has one token on all of them.
    name = unicodedata.normalize("NFC", student)
    return hmac.new(key.encode(), name.encode(errors="replace"), "sha256").hexdigest()[:16]


def read_names(path: str | Path | None) -> list[str]:
    """Read the list of a class, with one name in each line; all must be usable as folders, and # begins a comment."""
    lines = Path(path).read_text(encoding="utf-8-sig", errors="replace").split("\n") if path else []
    names = [name for line in lines if (name := line.strip()) and name[0] != "#"]
    wrong = [name for name in names if not _is_folder_name(name)]
    # Some file systems do not distinguish capital letters.
    distinct = {name.casefold() for name in names}
    if wrong or len(distinct) < len(names):
        listed = ", ".join(map(repr, wrong or names))
        raise InputRefused(text("grade.release.names", names=listed))
    return names


def _is_folder_name(name: str) -> bool:
    """Return whether a name can be that of a folder on every system; U+FFFD tells of an unreadable file."""
    unusable = set("/\\\N{REPLACEMENT CHARACTER}")
    if name.startswith(".") or not name.isprintable() or unusable & set(name):
        return False
    return len(name.encode()) < 200


def release(
    sources: Sequence[Path], key: str, out: Path, students: Sequence[str] = ()
) -> list[Path]:
    """Write the files of exercises for a class, or a folder with the files for each student.

    An own exercise is given by its notebook with the solution, which is left out; its judge and its questions go into a
    folder beside the students' notebook, for `fl.check`. Nothing is written if a source holds solutions or a file is
    there already.
    """
    books = {}
    beside = dict[Path, bytes]()  # path inside of the folder -> content
    for source in sources:
        if own.is_exercise(source.parent):
            books[source] = student_version(json.loads(source.read_bytes()))
            for name in (own.JUDGE, own.QUESTIONS):
                beside[Path(source.stem, name)] = (source.parent / name).read_bytes()
            continue
        for cell in read(source).cells:
            solved = cell.solution and STUB not in cell.source and TEXT_STUB not in cell.source
            refuse_if(
                solved or "BEGIN HIDDEN TESTS" in cell.source, "grade.release.solved", source=source
            )
        books[source] = json.loads(source.read_bytes())

    made = dict[Path, bytes]()
    for name in students or ("",):
        student = token(key, name) if name else ""
        for source, book in books.items():
            made[out / name / source.name] = as_bytes(_with_data(book, key, student))
        for path, content in beside.items():
            made[out / name / path] = content
    for path in made:
        refuse_if(path.exists(), "grade.release.exists", path=path)
    for path, content in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
    return [*made]


def _with_data(book: Book, key: str, student: str) -> Book:
    """Return a student's file, with the student's token and the data that ``release`` of the exercise draws."""
    book = copy.deepcopy(book)
    if student:
        book["metadata"].setdefault("fabriclab", {})["student"] = student
    ids = {
        cell["metadata"].get("nbgrader", {}).get("grade_id", ""): n
        for n, cell in enumerate(book["cells"])
    }
    for name in sorted({exercise(id) for id in judges.questions() if id in ids}):
        asked = [judges.find(id) for id in judges.questions() if exercise(id) == name]
        modules = sorted({question.judge.__module__ for question in asked})
        hooks = (getattr(importlib.import_module(module), "release", None) for module in modules)
        numbers = {
            word: value for hook in hooks if hook for word, value in hook(key, student).items()
        }
        lines = [
            text("grade.release.data"),
            *(f"{word} = {value!r}" for word, value in numbers.items()),
        ]
        marks = {
            "grade": False,
            "grade_id": f"{name}-data",
            "locked": True,
            "schema_version": 3,
            "solution": False,
        }
        cell = {
            "cell_type": "code",
            "execution_count": None,
            "id": f"{name}-data",
            "outputs": [],
            "metadata": {"deletable": False, "editable": False, "nbgrader": marks},
            "source": "\n".join(lines).splitlines(keepends=True),
        }
        if numbers:
            at = ids.get(f"{name}-data", ids.get(f"{name}-setup", -1) + 1)
            book["cells"][at : at + (f"{name}-data" in ids)] = [cell]
    return book
