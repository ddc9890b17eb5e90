"""From answers to verdicts: processes side by side run cells and judge what their functions return.

Cells run behind protections, except for one's own work. Whatever an answer does to its judge, it costs no other
answer time.
"""

import builtins
import contextlib
import ctypes
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Self, TypeAlias

from fabriclab.course import judges
from fabriclab.course.judges import JudgedQuestion, Unanswered
from fabriclab.course.judges.shared.calls import called, handed, kept
from fabriclab.texts import text

from ._clock import Spent
from ._session import QUESTION, shown
from .limits import Limits
from .notebooks import STUB
from .results import RECORD, Entry, Record
from .sandbox import PATIENCE, CallOutcome, Sandbox, SandboxError
from .works import Work

Line: TypeAlias = "Connection[Any, Any]"
Box: TypeAlias = "Sandbox | Own"
# Errors that Python itself defines; a learner may give errors any other names.
_ERRORS = {name for name, kind in vars(builtins).items() if isinstance(kind, type)}
# a question, the variants of its cells to try, and the token of the student
Job = tuple[str, list[list[str]], str]


class Own:
    """A substitute for `Sandbox` and its session that runs code in this process, for grading one's own work.

    It works on systems without protections. ``cells`` has the first problem of the cells.
    """

    ended_by = ""
    tried: frozenset[str] = frozenset()

    def session(
        self, cells: Sequence[str], prelude: str = "", spent: dict[str, Spent] | None = None
    ) -> Self:
        """Run the cells in a new namespace, without limits; the prelude is not needed, because the library is here."""
        self._names: dict[str, Any] = {"__name__": "__main__"}
        found = [self._attempt(exec, code, self._names) for code in cells]
        self.cells = next((outcome for outcome in found if not outcome.ok), CallOutcome())
        return self

    def close(self) -> None:
        """Do nothing, because the next session replaces the namespace."""

    def call(self, name: str, /, *args: Any) -> CallOutcome:
        """Call a function by its name, and return the outcome."""
        function = self._names.get(name)
        if not callable(function):
            return CallOutcome(None, "missing", name, name=name) if self.cells.ok else self.cells
        return replace(self._attempt(function, *map(handed, args)), name=name)

    def _attempt(self, function: Callable[..., Any], *args: Any) -> CallOutcome:
        """Make a call, and return its value or its problem, with its processor time."""
        begin = time.process_time()
        try:
            found = CallOutcome(kept(called(function, *args), self._names))
        except (Exception, SystemExit) as error:
            problem = "syntax" if isinstance(error, SyntaxError) else "raised"
            found = CallOutcome(None, problem, shown(f"{type(error).__name__}: {error}"))
        return replace(found, seconds=time.process_time() - begin)


def grade_question(box: Box, key: str, id: str, ways: Sequence[list[str]], student: str) -> Record:
    """Grade a question with each variant of its cells, as long as a name is missing; return the best record."""
    found = list[Record]()
    waited = Spent()
    for cells in ways:
        one, again = grade_cells(box, key, judges.find(id), cells, student, waited)
        found.append(one)
        if not again:
            break
    best = max(found, key=lambda one: float(one["points"]))  # of equal records the first
    tried = {kind for one in found for kind in one["tried"]}
    return {**best, "tried": sorted(tried)}


def grade_cells(
    box: Box,
    key: str,
    question: JudgedQuestion,
    cells: list[str],
    student: str,
    waited: Spent | None = None,
) -> tuple[Record, bool]:
    """Run cells and judge what their functions return; also return whether another variant may help.

    Another variant may help if a name was missing or the code could not be read. The record contains all that a replay
    needs, except the key and the limits. ``waited`` adds up the time of waiting for the question over all its runs.
    """
    spent = {QUESTION: waited or Spent()}
    session = box.session(cells, question.prelude, spent)
    outcomes = [session.cells]
    tried = set[str]()  # kinds of attempts at the walls
    ended = dict[str, CallOutcome]()  # function -> outcome that ended its session

    def ask(name: str, /, *args: Any) -> Any:
        nonlocal session
        if name not in ended:
            if session.ended_by:  # a new session, so that other functions are not affected
                tried.update(session.tried)
                session = box.session(cells, question.prelude, spent)
                outcomes.append(session.cells)
            outcomes.append(session.call(name, *args))
            if session.ended_by:
                ended[name] = outcomes[-1]
        found = ended.get(name, outcomes[-1])
        if found.problem:
            raise Unanswered(found.problem, found.sentence)
        return found.value

    part, said, mistake, trouble = 0.0, list[str](), "", ""
    try:
        verdict = question.judge(
            ask, judges.draw(f"{key}/{student}" if student else key, question.id)
        )
        part, said, mistake = (
            min(max(float(verdict.part), 0.0), 1.0),
            [*verdict.said],
            verdict.mistake,
        )
    except Unanswered as error:
        said = [text("grade.open") if STUB in error.said else error.said]
    except SandboxError:
        raise
    except Exception as error:  # an answer that the judge did not expect
        trouble, said = (
            "judge",
            [text("grade.judge", error=f"{type(error).__name__}: {shown(str(error), 200)}")],
        )
    finally:
        tried.update(session.tried)
        session.close()
    again = any(
        one.problem in ("syntax", "missing") or one.said.startswith("NameError") for one in outcomes
    )
    if part < 1:  # what kept the code from answering, by its name in the texts grade.trouble.<name>
        trouble = trouble or _trouble(outcomes)
        said += [text("grade.module")] * any(
            one.said.startswith("ModuleNotFoundError") for one in outcomes
        )
    about = {
        "points": round(part * question.points, 2),
        "mistake": mistake,
        "trouble": trouble,
        "token": student,
        "tried": sorted(tried),
    }
    return record(
        question, said, cells, seconds=round(sum(one.seconds for one in outcomes), 4), **about
    ), again


def _trouble(outcomes: Sequence[CallOutcome]) -> str:
    """Return what kept code from answering: a name in the texts ``grade.trouble.<name>``, or that of Python's error.

    The time limit comes first, then a question that is not written yet, then whatever happened first.
    """
    problems = [one for one in outcomes if one.problem]
    if any(one.problem in ("time", "cpu") for one in problems):
        return "time"
    if any(STUB in one.said for one in problems):
        return "open"
    if not problems:
        return ""
    first = problems[0]
    if first.problem not in ("raised", "syntax"):
        return first.problem
    error = first.said.partition(":")[0].split()[:1]
    return error[0] if error and error[0] in _ERRORS else "code"


def record(
    question: JudgedQuestion, said: list[str], cells: Sequence[str] = (), **more: Any
) -> Record:
    """Return the record of a question for the file of results; fields that are not given are 0 or empty."""
    return {
        **RECORD,
        "question": question.id,
        "of": question.points,
        "said": said,
        "cells": [*cells],
        "tried": [],
        **more,
    }


class Graders:
    """Processes that grade one answer at a time, each with a sandbox and a core of its own.

    These processes also judge. If judging takes too much processor time, the kernel ends the process, and a new one
    continues with the next answer. One's ``own`` work is graded in this process, without protections; anything else
    needs Linux.
    """

    def __init__(self, key: str, limits: Limits, most: int = 1, *, own: bool = False) -> None:
        """Store the arguments; at most ``most`` processes are useful, and they start with ``with``."""
        self._key, self._limits, self._most, self._own = key, limits, most, own
        self._workers: dict[Line, tuple[BaseProcess, int]] = {}
        self.active: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        """Start the processes, and find out which protections hold."""
        if self._own:
            return self
        if not sys.platform.startswith("linux"):
            raise SandboxError(text("sandbox.linux"))
        # PR_SET_DUMPABLE: no process of the same user can inspect these
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        cores = sorted(os.sched_getaffinity(0))
        try:
            lines = [
                self._start(core) for core in random.sample(cores, min(self._most, len(cores), 8))
            ]
            first, *others = [self._greeted(line) for line in lines]
            self.active = tuple(name for name in first if all(name in other for other in others))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """End all processes, and wait until they have cleaned up."""
        for process, _ in self._workers.values():
            process.terminate()
        for process, _ in self._workers.values():
            process.join(PATIENCE)

    def _start(self, core: int) -> Line:
        """Start a process on a core, and return the connection to it."""
        context = multiprocessing.get_context("fork")
        line, theirs = context.Pipe()
        process = context.Process(
            target=_serve, args=(theirs, core, self._key, self._limits), daemon=True
        )
        process.start()
        theirs.close()
        self._workers[line] = process, core
        return line

    def _greeted(self, line: Line) -> tuple[str, ...]:
        """Return which protections hold in a new process."""
        try:
            said = line.recv()
        except EOFError:
            said = text("grade.died", code="-")
        if isinstance(said, str):
            raise SandboxError(said)
        return tuple(said)

    def grade(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Record | str]]:
        """Yield the number of each job with its record, or a sentence on why there is none, as soon as it is done."""
        if self._own:
            yield from ((n, grade_question(Own(), self._key, *job)) for n, job in enumerate(jobs))
        idle, left, busy = [*self._workers], deque(enumerate(jobs)), dict[Line, int]()
        while busy or (left and idle):
            while left and idle:
                line = idle.pop()
                busy[line], job = left.popleft()
                with contextlib.suppress(OSError):  # it is dead, which is noticed below
                    line.send(job)
            ready = wait([*busy])
            for line in [line for line in busy if line in ready]:
                n = busy.pop(line)
                try:
                    found = line.recv()
                except (EOFError, OSError):
                    line, found = self._died(line, jobs[n])
                idle.append(line)
                yield n, found

    def _died(self, line: Line, job: Job) -> tuple[Line, Record | str]:
        """Replace a dead process; return the connection to the new one, and what the death means for the job."""
        process, core = self._workers.pop(line)
        process.join()
        line.close()
        line, (id, (cells, *_), student) = self._start(core), job
        if not {*self.active} <= {*self._greeted(line)}:
            raise SandboxError(text("grade.fewer"))
        if process.exitcode != -signal.SIGPROF:
            return line, text("grade.died", code=process.exitcode)
        said = [text("grade.judge.long", seconds=f"{self._limits.judge_s:g}")]
        return line, record(judges.find(id), said, cells, token=student, trouble="judge")


def _serve(line: Line, core: int, key: str, limits: Limits) -> None:
    """Be a grading process: grade the jobs that come, and run all processes that this starts on the same core."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    # Ctrl-C also reaches the parent; ignoring the signal here would be inherited by children
    signal.signal(signal.SIGINT, lambda *_: None)
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: end with the parent
    os.sched_setaffinity(0, {core})
    try:
        with Sandbox(limits) as box:
            line.send(box.active)
            while True:
                job = line.recv()
                # ends this process, even in the middle of C code
                signal.setitimer(signal.ITIMER_PROF, limits.judge_s)
                try:
                    found: Record | str = grade_question(box, key, *job)
                except SandboxError as error:
                    found = str(error)
                signal.setitimer(signal.ITIMER_PROF, 0)
                line.send(found)
    except (SandboxError, OSError) as error:
        line.send(str(error))


def grade_all(graders: Graders, works: Sequence[Work]) -> Iterator[tuple[Work, Entry | str]]:
    """Yield every work with its entry, or with a sentence on why there is none, as soon as it is complete."""
    jobs, found = list[tuple[Work, Job]](), dict[str, dict[str, Any]]()
    for work in works:
        mine = found[work.student] = {}
        for question, book in work.due if not work.unread else ():
            ways = [*book.variants(question.id, question.functions)]
            said, trouble = (
                [book.problem or text("grade.deleted", id=question.id)],
                "cell" if book.cells else book.trouble,
            )
            mine[question.id] = (
                None if ways else record(question, said, token=book.student, trouble=trouble)
            )
            jobs += [(work, (question.id, ways, book.student))] if ways else []
        if None not in mine.values():
            yield work, work.unread or _entry(work, mine, graders.active)
    for n, one in graders.grade([job for _, job in jobs]):
        work, (id, *_) = jobs[n]
        mine = found[work.student]
        mine[id] = one
        if None not in mine.values():
            yield work, _entry(work, mine, graders.active)


def _entry(work: Work, records: dict[str, Any], active: Sequence[str]) -> Entry | str:
    """Return the entry of a student for the file of results, or the reason why a question has no record."""
    if failed := [one for one in records.values() if isinstance(one, str)]:
        return failed[0]
    texts = {name: words for _, book in work.due for name, words in book.written().items()}
    for question, book in work.due:
        if len(book.places(question.id)) > 1:
            records[question.id]["said"].append(text("grade.twice", id=question.id))
    about = {
        "student": work.student,
        "digest": work.digest,
        "active": [*active],
        "notes": [*work.notes],
    }
    return {
        **about,
        "remarks": [],
        "texts": texts,
        "questions": [*records.values()],
        "marks": {},
    }
