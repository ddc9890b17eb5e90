"""A folder of notebooks -> who has handed in what: for each student the questions that are due."""

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
    """What one student has handed in: the questions that are due, each with the notebook that is to answer it."""

    student: str
    due: tuple[tuple[JudgedQuestion, Submission], ...] = ()
    notes: tuple[str, ...] = ()
    unread: str = ""  # why a file cannot be read, which is not the student's doing

    @property
    def digest(self) -> str:
        """A name for exactly this work: another one is graded anew."""
        parts = [f"{question.id} {question.points} {book.digest}" for question, book in self.due]
        return sha256("\n".join(parts).encode()).hexdigest()


Held = dict[str, Submission]  # the notebooks of one student by file


def collect(folder: Path, skip: Path | None = None) -> dict[str, Held]:
    """Return what each student has: a notebook in the folder, or a folder in it with all that lies in that."""
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
    """Return who of ``room`` is no student: folders with other files only, where notebooks are handed in beside them.

    An empty folder stands for a student who has handed in nothing, and one with a ``known`` name is a student's.
    """
    beside = any("/" not in file for held in room.values() for file in held)
    without = [name for name, held in room.items() if not held and name not in known]
    return [name for name in without if beside and any(Path(folder, name).glob("[!.]*"))]


def reference(folder: Path) -> tuple[Held, dict[str, str]]:
    """Return all notebooks of a folder together, and the source of each exercise's setup cell."""
    books = {file: book for held in collect(folder).values() for file, book in held.items()}
    if unread := " ".join(book.unread for book in books.values() if book.unread):
        raise InputRefused(unread)
    cells = [cell for book in books.values() for cell in book.cells if cell.kind == "code"]
    return books, {exercise(cell.id): cell.source for cell in cells if cell.id.endswith("-setup")}


def _notebooks(
    folder: Path, skip: Path | None, failed: Callable[[OSError], None]
) -> Iterator[Path]:
    """Yield the notebooks, and the folders right below that may have none; nothing hidden, and no link to a folder."""
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
    """Return a name that can be printed; what cannot stands as its number, so that names stay apart."""
    return "".join(sign if sign.isprintable() else f"%{ord(sign):02x}" for sign in name)


def due(room: Mapping[str, Held], asked: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """Return the exercises that are due, and those that are not, with how many students hold a cell of them.

    Due are those that were asked for, else those of which more than half of the students hold a cell, of all who hold
    one of any; without such an exercise all that occur, and where no cell is known all that there are.
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
    """Return for each exercise the notebook with most answers, then most cells; else the first that is broken.

    In place of a setup cell that is lost there is the one of ``setups``, by exercise.
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
    """Return how many of the cells are more than the stub, and how many are there."""
    answered = {cell.id for cell in book.cells if STUB not in cell.source}
    return len(ids & answered), len(ids & {cell.id for cell in book.cells})
