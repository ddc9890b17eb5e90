"""Mutants of the solutions under the judges that students meet, each in a process of its own with a limit of time."""

import contextlib
import multiprocessing
import resource
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from fabriclab.course.judges import Unanswered, draw, find
from fabriclab.course.judges.shared.calls import asker
from support.solutions import solved

LONGEST = 30  # illustrative: processor time of one mutant with all keys, several times what a solution takes [s]
# Cells that stand above a question and that it uses.
ABOVE = {"ex2-c": ("ex2-b",), "ex2-d": ("ex2-b",)}


def _functions_of(id: str, code: str) -> list[Callable[..., Any]]:
    """Run a cell with the cells above it, and return the functions of the question that it defines."""
    number = int(id[2])
    cells = solved(number)
    names: dict[str, Any] = {}
    for other in (f"ex{number}-setup", *ABOVE.get(id, ())):
        exec(cells[other], names)
    exec(code, names)
    return [names[name] for name in find(id).functions if name in names]


def _part(id: str, code: str, key: str) -> float:
    """Return the part of the points that a cell gets with a key, 0 if it cannot be judged at all."""
    question = find(id)
    try:
        functions = _functions_of(id, code)
    except Exception:
        return 0.0  # a cell that stops defines nothing
    try:
        return question.judge(asker(question.functions, functions), draw(key, id)).part
    except Unanswered:
        return 0.0


def parts_of(
    id: str, codes: Sequence[str], keys: Sequence[str]
) -> Iterator[tuple[float, ...] | None]:
    """Yield for each cell the part of the points with each key; None if it took too long or its process died."""
    _part(id, solved(int(id[2]))[id], keys[0])  # loads what all processes share then
    context = multiprocessing.get_context("fork")
    for code in codes:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_judge, args=(theirs, id, code, keys))
        process.start()
        theirs.close()
        try:
            yield ours.recv()
        except EOFError:
            yield None
        finally:
            process.kill()
            process.join()
            ours.close()


def _judge(line: Connection, id: str, code: str, keys: Sequence[str]) -> None:
    """Judge a cell with all keys, and send what it gets; the kernel ends this process when its time is used up."""
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used + LONGEST, used + LONGEST))
    with np.errstate(all="ignore"):
        line.send(tuple(_part(id, code, key) for key in keys))


def outputs(id: str, code: str, key: str) -> list[str]:
    """Return what the functions of a cell return to their judge, call by call, with ten digits of each number.

    It says nothing about a program that a judge lets go on turn by turn, since that acts on a device.
    """
    question = find(id)
    ask = asker(question.functions, _functions_of(id, code))
    returned = []

    def noted(name: str, *arguments: Any) -> Any:
        try:
            value = ask(name, *arguments)
        except Unanswered as error:
            returned.append(f"{name}: {error.problem}")
            raise
        returned.append(f"{name}: {_shortened(value)}")
        return value

    with contextlib.suppress(Unanswered), np.errstate(all="ignore"):
        question.judge(noted, draw(key, id))
    return returned


def _shortened(value: Any) -> Any:
    """Return a value with ten digits of each number in it."""
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list | tuple):
        return [_shortened(item) for item in value]
    if isinstance(value, dict):
        return {name: _shortened(item) for name, item in value.items()}
    return value
