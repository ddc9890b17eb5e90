"""Find out who has handed in what: from a folder of notebooks to each student's answers to the questions due."""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

from fabriclab.course import judges
from fabriclab.course.judges import JudgedQuestion
from fabriclab.course.shown import InputRefused
from fabriclab.texts import text

from .notebooks import STUB, Cell, Submission, exercise, read


@dataclass(frozen=True)
class Work:
    """The work that a student has handed in: the questions that are due, each with the notebook that answers it."""

    student: str
    due: tuple[tuple[JudgedQuestion, Submission], ...] = ()
    notes: tuple[str, ...] = ()
    unread: str = ""  # why a file cannot be read, which is not the student's fault

    @property
    def digest(self) -> str:
        """A fingerprint of exactly this work; changed work is graded anew."""
        parts = [f"{question.id} {question.points} {book.digest}" for question, book in self.due]
        return sha256("\n".join(parts).encode()).hexdigest()


Held = dict[str, Submission]  # file -> notebook, for one student


def collect(folder: Path, skip: Path | None = None) -> dict[str, Held]:
    """Return student -> notebooks: either a notebook in the folder, or all notebooks in a folder inside it."""
    found: dict[str, Held] = {}

    def held(path: Path) -> tuple[str, Held]:
        inner = path.relative_to(folder if folder.is_dir() else folder.parent)
        student = inner.parts[0] if len(inner.parts) > 1 else inner.stem
        return _printable(inner.as_posix()), found.setdefault(_printable(student), {})

    def failed(error: OSError, path: Path | None = None) -> None:
        if not path and Path(error.filename) == folder:
            raise error
        name, of = held(path or Path(error.filename, "_"))
        of[name] = Submission(
            unread=text("grade.file.unread", file=name.removesuffix("/_"), error=error.strerror)
        )

    for path in _notebooks(folder, skip, failed):
        name, of = held(path)
        try:
            of.update({name: read(path)} if path.suffix else {})
        except OSError as error:
            failed(error, path)
    return dict(sorted(found.items()))


def left_out(folder: Path, room: Mapping[str, Held], known: Collection[str] = ()) -> list[str]:
    """Return the names in ``room`` that are no students: folders without notebooks, if notebooks are beside folders.

    An empty folder is a student who has handed in nothing, and a folder with a ``known`` name is always a student.
    """
    beside = any("/" not in file for held in room.values() for file in held)
    without = [name for name, held in room.items() if not held and name not in known]
    return [name for name in without if beside and any(Path(folder, name).glob("[!.]*"))]


def reference(folder: Path) -> tuple[Held, dict[str, str]]:
    """Return all notebooks of a folder of solutions, and the source of each exercise's setup cell."""
    books = {file: book for held in collect(folder).values() for file, book in held.items()}
    if unread := " ".join(book.unread for book in books.values() if book.unread):
        raise InputRefused(unread)
    cells = [cell for book in books.values() for cell in book.cells if cell.kind == "code"]
    return books, {exercise(cell.id): cell.source for cell in cells if cell.id.endswith("-setup")}


def _notebooks(
    folder: Path, skip: Path | None, failed: Callable[[OSError], None]
) -> Iterator[Path]:
    """Yield all notebooks in a folder, and a placeholder for each of its folders, which may have none.

    Hidden files and folders, and links to folders, are left out.
    """
    if not folder.is_dir():
        yield folder
        return
    for place, folders, files in os.walk(folder, onerror=failed):
        folders[:] = sorted(
            name for name in folders if name[0] != "." and Path(place, name).resolve() != skip
        )
        if Path(place) == folder:
            yield from (folder / name / "_" for name in folders)
        yield from (
            Path(place, n) for n in sorted(files) if n[0] != "." and n.lower().endswith(".ipynb")
        )


def _printable(name: str) -> str:
    """Return a name in which each unprintable sign is replaced by its number, so that names stay different."""
    return "".join(sign if sign.isprintable() else f"%{ord(sign):02x}" for sign in name)


def due(room: Mapping[str, Held], asked: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """Return the exercises that are due, and those that are not, with the number of students who have cells of them.

    Due are the exercises that were asked for. If none were, these are due of which more than half of the students with
    any known cell have one; else all exercises that occur; else all that there are.
    """
    known = dict.fromkeys(map(exercise, judges.questions()))
    if unknown := [name for name in asked if name not in known]:
        raise InputRefused(text("grade.exercise", name=unknown[0], known=", ".join(known)))
    cells = [[cell for book in held.values() for cell in book.cells] for held in room.values()]
    holding = [{exercise(cell.id) for cell in some} & known.keys() for some in cells]
    count = Counter(name for names in holding for name in names)
    most = [name for name in known if 2 * count[name] > sum(map(bool, holding))]
    found = [*asked] or most or [name for name in known if count[name]] or [*known]
    return found, {name: n for name, n in sorted(count.items()) if name not in found}


def chosen(student: str, held: Held, due: Sequence[str], setups: Mapping[str, str]) -> Work:
    """Return a student's work, with the best notebook for each exercise.

    The best has the most answers, then the most cells; without any, it is the first broken notebook. A missing setup
    cell is replaced by that of ``setups``, by exercise.
    """
    books, notes = dict[str, Submission](), list[str]()
    asked = [question for question in judges.questions().values() if exercise(question.id) in due]
    for name in due:
        ids = {question.id for question in asked if exercise(question.id) == name}
        having = {
            file: book for file, book in held.items() if any(cell.id in ids for cell in book.cells)
        }
        if len(having) > 1:
            notes.append(text("grade.several", exercise=name, files=", ".join(having)))
        broken = [book for book in held.values() if book.problem]
        nothing = Submission(
            problem=text("grade.no_cells" if held else "grade.nothing", exercise=name)
        )
        best = max(having.values(), key=partial(_filled, ids), default=(broken or [nothing])[0])
        if having and name in setups and not best.places(f"{name}-setup"):
            notes.append(text("grade.setup", exercise=name))
            best = replace(
                best, cells=(Cell(f"{name}-setup", "code", setups[name], False), *best.cells)
            )
        books[name] = best
    both = tuple((question, books[exercise(question.id)]) for question in asked)
    return Work(
        student, both, tuple(notes), " ".join(book.unread for book in held.values() if book.unread)
    )


def _filled(ids: set[str], book: Submission) -> tuple[int, int]:
    """Return how many of the cells ``ids`` are answered, and how many exist."""
    answered = {cell.id for cell in book.cells if STUB not in cell.source}
    return len(ids & answered), len(ids & {cell.id for cell in book.cells})
