"""A folder of notebooks -> verdicts: each question in a process of its own, judged here.

Nothing that one answer does costs another question or another student anything.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from fabriclab import exercises
from fabriclab.checks import Refused
from fabriclab.exercises import Question, Unanswered
from fabriclab.grading.notebooks import CODE_STUB, Submission, exercise, read
from fabriclab.grading.release import drawn
from fabriclab.grading.results import Entry
from fabriclab.grading.sandbox import Outcome, Sandbox, SandboxError
from fabriclab.texts import text

__all__ = ["Work", "answers", "check_reference", "collect", "grade_all", "grade_cells", "grade_one", "reference"]
_STUB: Final = CODE_STUB[1].removeprefix("raise ").removesuffix("()")


@dataclass(frozen=True)
class Work:
    """What one student has handed in: the questions that are due, each with the notebook that is to answer it."""

    student: str
    due: tuple[tuple[Question, Submission], ...]
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """A name for exactly this work: another one is graded anew."""
        parts = [f"{question.id} {question.points} {book.digest}" for question, book in self.due]
        return sha256("\n".join(parts).encode()).hexdigest()


def collect(folder: Path, questions: Sequence[Question], skip: Path | None = None) -> list[Work]:
    """Return the work of every student: a notebook in the folder, or a folder in it with all that lies in that.

    Due are the questions of every exercise that occurs in the class, or of all exercises where no cell of any is known.

    Raises
    ------
    Refused
        If there is no notebook.
    """
    found: dict[str, list[tuple[str, Submission]]] = {}
    for path in _notebooks(folder, skip):
        inner = path.relative_to(folder if folder.is_dir() else folder.parent)
        held = found.setdefault(_printable(inner.parts[0] if len(inner.parts) > 1 else inner.stem), [])
        if path.suffix:
            held.append((_printable(inner.as_posix()), read(path)))
    if not any(found.values()):
        raise Refused(text("grade.no_notebook", folder=folder))
    books = [book for held in found.values() for _, book in held]
    seen = {exercise(cell.id) for book in books for cell in book.cells} & {exercise(q.id) for q in questions}
    due = [q for q in questions if exercise(q.id) in seen or not seen]
    return [_work(student, held, due) for student, held in sorted(found.items())]


def _notebooks(folder: Path, skip: Path | None) -> Iterator[Path]:
    """Yield the notebooks, and the folders right below that may have none; nothing hidden, and no link to a folder."""
    if not folder.is_dir():
        yield folder
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and Path(place, name).resolve() != skip)
        if Path(place) == folder:
            yield from (folder / name / "_" for name in folders)
        yield from (Path(place, n) for n in sorted(files) if n[0] != "." and n.lower().endswith(".ipynb"))


def _printable(name: str) -> str:
    """Return a name that can be printed; what cannot stands as its number, so that names stay apart."""
    return "".join(sign if sign.isprintable() else f"%{ord(sign):02x}" for sign in name)


def _work(student: str, held: Sequence[tuple[str, Submission]], due: Sequence[Question]) -> Work:
    """Return for each exercise the notebook with most answers, then most cells; else the first that cannot be read."""
    chosen, notes = {}, []
    for name in dict.fromkeys(exercise(q.id) for q in due):
        ids = {q.id for q in due if exercise(q.id) == name}
        having = [(file, book) for file, book in held if any(cell.id in ids for cell in book.cells)]
        if len(having) > 1:
            notes.append(text("grade.several", exercise=name, files=", ".join(file for file, _ in having)))
        broken = [book for _, book in held if book.problem]
        nothing = Submission(problem=text("grade.nothing" if not held else "grade.no_cells", exercise=name))
        best = max((book for _, book in having), key=partial(_filled, ids), default=None)
        chosen[name] = best or (broken or [nothing])[0]
    return Work(student, tuple((q, chosen[exercise(q.id)]) for q in due), tuple(notes))


def _filled(ids: set[str], book: Submission) -> tuple[int, int]:
    """Return how many of the cells are more than the stub, and how many are there."""
    answered = {cell.id for cell in book.cells if _STUB not in cell.source}
    return len(ids & answered), len(ids & {cell.id for cell in book.cells})


def grade_one(box: Sandbox, key: str, work: Work, stopped: Callable[[], bool] = bool) -> Entry | None:
    """Return the entry of a student for the file of results, or None if grading was stopped meanwhile."""
    asked = []
    for question, book in work.due:
        if stopped():
            return None
        asked.append(_grade_question(box, key, question, book))
    books = {id(book): book for _, book in work.due}.values()
    written = {name: words for book in books for name, words in book.written().items()}
    about = {"student": work.student, "digest": work.digest, "active": list(box.active), "notes": list(work.notes)}
    return {**about, "texts": written, "questions": asked}


def _grade_question(box: Sandbox, key: str, question: Question, book: Submission) -> dict[str, Any]:
    """Try the ways to run a question's cell while a name is missing, and keep the best verdict."""
    found: list[dict[str, Any]] = []
    for cells in book.variants(question.id, question.functions):
        record, again = grade_cells(box, key, question, cells, book.student)
        found.append(record)
        if not again:
            break
    if not found:
        said = book.problem or text("grade.deleted", id=question.id)
        return _record(question, [said], student=book.student, trouble="cell" if book.cells else "file")
    best = max(found, key=lambda record: float(record["points"]))  # of equal ones the first
    if len(book.places(question.id)) > 1:
        best["said"].append(text("grade.twice", id=question.id))
    return best


def grade_cells(
    box: Sandbox, key: str, question: Question, cells: list[str], student: str
) -> tuple[dict[str, Any], bool]:
    """Run cells and judge what their functions return; say whether a name or the code itself could not be read.

    The record holds all that a replay needs besides the key and the limits.
    """
    outcomes, ended = list[Outcome](), dict[str, Outcome]()
    part, said, mistake, trouble = 0.0, list[str](), "", ""
    session = box.session(cells)
    outcomes.append(session.cells)

    def ask(name: str, /, *args: Any) -> Any:
        nonlocal session
        if name not in ended:
            if session.ended_by:  # a function that ended its session costs the others nothing
                session = box.session(cells)
                outcomes.append(session.cells)
            outcomes.append(session.call(name, *args))
            if session.ended_by:
                ended[name] = outcomes[-1]
        found = ended.get(name, outcomes[-1])
        if found.problem:
            raise Unanswered(found.problem, found.sentence)
        return found.value

    try:
        verdict = question.judge(ask, exercises.draw(drawn(key, student), question.id))
        part, said, mistake = min(max(float(verdict.part), 0.0), 1.0), [*verdict.said], verdict.mistake
    except Unanswered as error:
        said = [text("grade.open") if _STUB in error.said else error.said]
    except SandboxError:
        raise
    except Exception as error:  # a judge that an answer has surprised
        trouble, said = "judge", [text("grade.judge", error=f"{type(error).__name__}: {_printable(str(error)[:200])}")]
    finally:
        session.close()
    again = any(one.problem in ("syntax", "missing") or one.said.startswith("NameError") for one in outcomes)
    if part < 1:
        trouble = trouble or _trouble(outcomes)
        lacks = any(one.said.startswith("ModuleNotFoundError") for one in outcomes)
        said += [text("grade.module")] if lacks else []
    seconds = sum(one.seconds for one in outcomes)
    return _record(question, said, part, mistake, cells, seconds, student, trouble), again


def _trouble(outcomes: Sequence[Outcome]) -> str:
    """Return what kept the code from answering, as in the texts ``grade.trouble.<name>``."""
    if any(one.problem in ("time", "cpu") for one in outcomes):
        return "time"
    return "open" if any(_STUB in one.said for one in outcomes) else "code" * any(one.problem for one in outcomes)


def _record(
    question: Question, said: list[str], part: float = 0.0, mistake: str = "", cells: Sequence[str] = (),
    seconds: float = 0.0, student: str = "", trouble: str = "",
) -> dict[str, Any]:  # fmt: skip
    points = {"points": round(part * question.points, 2), "of": question.points}
    about = {"question": question.id, **points, "mistake": mistake, "said": said, "seconds": round(seconds, 3)}
    return {**about, "trouble": trouble, "cells": list(cells), "token": student}


def grade_all(
    works: Sequence[Work], key: str, boxes: Sequence[Sandbox], done: Callable[[Work, Entry | SandboxError], None]
) -> None:
    """Grade every work, as many at once as there are boxes; ``done`` gets each result as it comes, in this thread."""
    if len(boxes) == 1:
        for work in works:
            if found := _answered(boxes[0], key, work):
                done(work, found)
        return
    stop = threading.Event()
    free: SimpleQueue[Sandbox] = SimpleQueue()
    for box in boxes:
        free.put(box)

    def grade(work: Work) -> Entry | SandboxError | None:
        box = free.get()
        try:
            return _answered(box, key, work, stop.is_set)
        finally:
            free.put(box)

    with ThreadPoolExecutor(len(boxes)) as pool, ExitStack() as last:
        last.callback(pool.shutdown, wait=False, cancel_futures=True)
        last.callback(stop.set)
        jobs = {pool.submit(grade, work): work for work in works}
        for job in as_completed(jobs):
            if found := job.result():
                done(jobs[job], found)


def _answered(box: Sandbox, key: str, work: Work, stopped: Callable[[], bool] = bool) -> Entry | SandboxError | None:
    """Grade one work; if its process cannot be had, try once more with a new one, and then say why not."""
    try:
        return grade_one(box, key, work, stopped)
    except SandboxError:
        box.close()
    try:
        return grade_one(box, key, work, stopped)
    except SandboxError as error:
        return error


def reference(folder: Path, due: Sequence[Question]) -> Work:
    """Return the notebooks of a folder as one work."""
    return _work("", [(path.name, read(path)) for path in _notebooks(folder, None) if path.suffix], due)


def answers(work: Work) -> dict[str, str]:
    """Return the cell that answers each question, by question."""
    return {q.id: next(book.variants(q.id, q.functions), [""])[-1] for q, book in work.due}


def check_reference(box: Sandbox, key: str, folder: Path, work: Work) -> None:
    """Refuse to go on unless the reference gets full marks for each question that is due."""
    for q in (grade_one(box, key, work) or {})["questions"]:
        if q["points"] < q["of"]:
            words = {name: q[name] for name in ("question", "points", "of")}
            raise Refused(text("grade.reference", folder=folder, **words, said=" ".join(q["said"])))
