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
from fabriclab.course.questions import own
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
    """Return what each student has: a notebook in the folder, or a folder in it with all that lies in that."""
    hand_ins = HandIns(folder)
    for path in _notebooks(folder, skip, hand_ins.note_folder_error):
        notebooks = hand_ins.notebooks_of(path)
        if not path.suffix:  # stands for a folder, which may have no notebook
            continue
        try:
            notebooks[hand_ins.name_of(path)] = read(path)
        except OSError as error:
            hand_ins.note_error(error, path)
    return dict(sorted(hand_ins.found.items()))


class HandIns:
    """The notebooks of all students, while a folder is read.

    Parameters
    ----------
    folder : Path
        Where the notebooks are, or the only one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found = dict[str, Held]()  # student -> notebooks

    def _inner(self, path: Path) -> Path:
        """Return a path inside the folder."""
        return path.relative_to(self.folder if self.folder.is_dir() else self.folder.parent)

    def name_of(self, path: Path) -> str:
        """Return the name of a file inside the folder, as it can be printed."""
        return _printable(self._inner(path).as_posix())

    def notebooks_of(self, path: Path) -> Held:
        """Return the notebooks of the student whose file, or folder, this is."""
        inner = self._inner(path)
        student = inner.parts[0] if len(inner.parts) > 1 else inner.stem
        return self.found.setdefault(_printable(student), {})

    def note_error(self, error: OSError, path: Path) -> None:
        """Note that a file cannot be read, or a folder, for which ``_`` in it stands."""
        name = self.name_of(path)
        said = text("grade.file.unread", file=name.removesuffix("/_"), error=error.strerror)
        self.notebooks_of(path)[name] = Submission(unread=said)

    def note_folder_error(self, error: OSError) -> None:
        """Note that a folder cannot be listed; without the outer one there is nothing to grade."""
        if Path(error.filename) == self.folder:
            raise error
        self.note_error(error, Path(error.filename, "_"))


def left_out(folder: Path, room: Mapping[str, Held], known: Collection[str] = ()) -> list[str]:
    """Return the names in ``room`` that are no students: folders without notebooks, if notebooks are beside folders.

    An empty folder is a student who has handed in nothing, and a folder with a ``known`` name is always a student.
    """
    beside = any("/" not in file for held in room.values() for file in held)
    without = [name for name, held in room.items() if not held and name not in known]
    return [name for name in without if beside and any(Path(folder, name).glob("[!.]*"))]


def reference(folder: Path) -> tuple[Held, dict[str, str]]:
    """Return all solutions together, and the source of each exercise's setup cell.

    Solutions are the notebooks of a folder, and the notebooks of own exercises.
    """
    books: Held = {}
    for held in collect(folder).values():
        books.update(held)
    for exercise_folder in own.folders():
        path = own.notebook(exercise_folder)
        if path.is_file():
            books[path.as_posix()] = read(path)
    unread = " ".join(book.unread for book in books.values() if book.unread)
    if unread:
        raise InputRefused(unread)

    setups = dict[str, str]()
    for book in books.values():
        for cell in book.cells:
            if cell.kind == "code" and cell.id.endswith("-setup"):
                setups[exercise(cell.id)] = cell.source
    return books, setups


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
            for name in folders:
                yield folder / name / "_"
        for name in sorted(files):
            if name[0] != "." and name.lower().endswith(".ipynb"):
                yield Path(place, name)


def _printable(name: str) -> str:
    """Return a name in which each unprintable sign is replaced by its number, so that names stay different."""
    return "".join(sign if sign.isprintable() else f"%{ord(sign):02x}" for sign in name)


def due(room: Mapping[str, Held], asked: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """Return the exercises that are due, and those that are not, with the number of students who have cells of them.

    Due are the exercises that were asked for. If none were, these are due of which more than half of the students with
    any known cell have one; else all exercises that occur; else all that there are.
    """
    known = dict.fromkeys(map(exercise, judges.questions()))
    for name in asked:
        if name not in known:
            raise InputRefused(text("grade.exercise", name=name, known=", ".join(known)))

    count = Counter[str]()  # of the students who hold a cell of an exercise
    holders = 0  # students who hold a cell of any
    for held in room.values():
        names = _exercises_in(held) & known.keys()
        count.update(names)
        if names:
            holders += 1
    of_most = [name for name in known if 2 * count[name] > holders]
    of_some = [name for name in known if count[name]]
    found = list(asked) or of_most or of_some or list(known)
    return found, {name: n for name, n in sorted(count.items()) if name not in found}


def _exercises_in(held: Held) -> set[str]:
    """Return the exercises that cells of a student's notebooks belong to."""
    return {exercise(cell.id) for book in held.values() for cell in book.cells}


def chosen(student: str, held: Held, due: Sequence[str], setups: Mapping[str, str]) -> Work:
    """Return a student's work, with the best notebook for each exercise.

    The best has the most answers, then the most cells; without any, it is the first broken notebook. A missing setup
    cell is replaced by that of ``setups``, by exercise.
    """
    books = dict[str, Submission]()
    notes = list[str]()
    known = judges.questions()
    asked = [known[id] for id in known if exercise(id) in due]
    for name in due:
        ids = {question.id for question in asked if exercise(question.id) == name}
        having = {file: book for file, book in held.items() if _has_any(ids, book)}
        if len(having) > 1:
            notes.append(text("grade.several", exercise=name, files=", ".join(having)))
        if having:
            best = max(having.values(), key=partial(_filled, ids))
        else:
            best = _without_answers(name, held)
        if having and name in setups and not best.places(f"{name}-setup"):
            notes.append(text("grade.setup", exercise=name))
            setup = Cell(f"{name}-setup", "code", setups[name], False)
            best = replace(best, cells=(setup, *best.cells))
        books[name] = best
    due_with_books = tuple((question, books[exercise(question.id)]) for question in asked)
    unread = " ".join(book.unread for book in held.values() if book.unread)
    return Work(student, due_with_books, tuple(notes), unread)


def _without_answers(name: str, held: Held) -> Submission:
    """Return what stands for an exercise of which a student has no cell: the first file that is broken, or nothing."""
    for book in held.values():
        if book.problem:
            return book
    if held:
        return Submission(problem=text("grade.no_cells", exercise=name), trouble="other")
    return Submission(problem=text("grade.nothing", exercise=name), trouble="none")


def _has_any(ids: set[str], book: Submission) -> bool:
    """Return whether a notebook has a cell with one of some ids."""
    return any(cell.id in ids for cell in book.cells)


def _filled(ids: set[str], book: Submission) -> tuple[int, int]:
    """Return how many of the cells ``ids`` are answered, and how many exist."""
    answered = {cell.id for cell in book.cells if STUB not in cell.source}
    return len(ids & answered), len(ids & {cell.id for cell in book.cells})
