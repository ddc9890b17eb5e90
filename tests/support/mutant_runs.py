"""Mutants of the solutions under the judges that students meet, each in a process of its own with a limit of time."""

import multiprocessing
import resource
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

import numpy as np

from fabriclab.course.judges import Unanswered, draw, find
from fabriclab.course.judges.shared.calls import asker
from support.solutions import solved

LONGEST = 30  # illustrative: processor time of one mutant with all keys, several times what a solution takes [s]
MEMORY = 2 << 30  # illustrative: address space that a mutant may add [B]
# Cells that stand above a question and that it uses.
ABOVE = {"ex2-c": ("ex2-b",), "ex2-d": ("ex2-b",)}


def verdict_part(id: str, code: str, key: str) -> float:
    """Return the part of the points that a cell gets with a key, 0 if it cannot be judged at all."""
    number = int(id[2])
    cells = solved(number)
    names: dict[str, object] = {}
    try:
        for other in (f"ex{number}-setup", *ABOVE.get(id, ())):
            exec(cells[other], names)
        exec(code, names)
    except Exception:
        return 0.0  # a cell that stops defines nothing

    question = find(id)
    functions = [names[name] for name in question.functions if name in names]
    try:
        return question.judge(asker(question.functions, functions), draw(key, id)).part
    except Unanswered:
        return 0.0


def parts_of(
    id: str, codes: Sequence[str], keys: Sequence[str]
) -> Iterator[tuple[float, ...] | None]:
    """Yield for each cell the part of the points with each key; None if it took too long or its process died."""
    verdict_part(id, solved(int(id[2]))[id], keys[0])  # loads what all processes share then
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
        line.send(tuple(verdict_part(id, code, key) for key in keys))
