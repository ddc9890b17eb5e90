"""Answers -> verdicts: a question's cells are run, behind walls but for one's own, and judged here."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

from fabriclab import exercises
from fabriclab.checks.exercises import handed, plain
from fabriclab.exercises import Question, Unanswered
from fabriclab.grading._session import shown
from fabriclab.grading.notebooks import STUB
from fabriclab.grading.release import drawn
from fabriclab.grading.results import RECORD, Record
from fabriclab.grading.sandbox import Outcome, Sandbox, SandboxError
from fabriclab.texts import text


class Own:
    """What grading asks of a `Sandbox` and its session, in this process: for one's own work, on systems without walls.

    ``cells`` is the first problem that the cells had.
    """

    ended_by = ""

    def session(self, cells: Sequence[str]) -> Self:
        """Run the cells in a new namespace."""
        self._names: dict[str, Any] = {"__name__": "__main__"}
        found = [self._attempt(exec, code, self._names) for code in cells]
        self.cells = next((outcome for outcome in found if not outcome.ok), Outcome())
        return self

    def close(self) -> None:
        """Do nothing: the namespace goes with the next session."""

    def call(self, name: str, /, *args: Any) -> Outcome:
        """Call a function by its name."""
        deed = self._names.get(name)
        if not callable(deed):
            return Outcome(None, "missing", name, name=name) if self.cells.ok else self.cells
        return replace(self._attempt(deed, *map(handed, args)), name=name)

    def _attempt(self, deed: Callable[..., Any], *args: Any) -> Outcome:
        begin = time.perf_counter()
        try:
            found = Outcome(plain(deed(*args)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            problem = "syntax" if isinstance(error, SyntaxError) else "raised"
            found = Outcome(None, problem, shown(f"{type(error).__name__}: {error}"))
        return replace(found, seconds=time.perf_counter() - begin)


def grade_question(box: Sandbox | Own, key: str, id: str, ways: Sequence[list[str]], student: str) -> Record:
    """Try the ways to run a question's cell while a name is missing, and keep the best verdict."""
    found = list[Record]()
    for cells in ways:
        one, again = grade_cells(box, key, exercises.find(id), cells, student)
        found.append(one)
        if not again:
            break
    return max(found, key=lambda one: float(one["points"]))  # of equal ones the first


def grade_cells(
    box: Sandbox | Own, key: str, question: Question, cells: list[str], student: str
) -> tuple[Record, bool]:
    """Run cells and judge what their functions return; say whether a name or the code itself could not be read.

    The record holds all that a replay needs besides the key and the limits.
    """
    session = box.session(cells)
    outcomes, ended = [session.cells], dict[str, Outcome]()

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

    part, said, mistake, trouble = 0.0, list[str](), "", ""
    try:
        verdict = question.judge(ask, exercises.draw(drawn(key, student), question.id))
        part, said, mistake = min(max(float(verdict.part), 0.0), 1.0), [*verdict.said], verdict.mistake
    except Unanswered as error:
        said = [text("grade.open") if STUB in error.said else error.said]
    except SandboxError:
        raise
    except Exception as error:  # a judge that an answer has surprised
        trouble, said = "judge", [text("grade.judge", error=f"{type(error).__name__}: {shown(str(error), 200)}")]
    finally:
        session.close()
    again = any(one.problem in ("syntax", "missing") or one.said.startswith("NameError") for one in outcomes)
    if part < 1:
        trouble = trouble or _trouble(outcomes)
        lacks = any(one.said.startswith("ModuleNotFoundError") for one in outcomes)
        said += [text("grade.module")] if lacks else []
    points, seconds = round(part * question.points, 2), round(sum(one.seconds for one in outcomes), 4)
    about = {"points": points, "seconds": seconds, "mistake": mistake, "trouble": trouble, "token": student}
    return record(question, said, cells, **about), again


def _trouble(outcomes: Sequence[Outcome]) -> str:
    """Return what kept the code from answering, as in the texts ``grade.trouble.<name>``."""
    if any(one.problem in ("time", "cpu") for one in outcomes):
        return "time"
    return "open" if any(STUB in one.said for one in outcomes) else "code" * any(one.problem for one in outcomes)


def record(question: Question, said: list[str], cells: Sequence[str] = (), **more: Any) -> Record:
    """Return what the file of results keeps of a question; what is not given is 0 or empty."""
    return {**RECORD, "question": question.id, "of": question.points, "said": said, "cells": [*cells], **more}
