"""Limits on what a learner's code may use while it is graded."""

from dataclasses import dataclass, replace
from typing import Self

from fabriclab.course.shown import refuse_if

_MOST_PARTS = 16  # parts of a question: its functions and its cells
_MOST_WAITS = 3  # so many parts of a question may use all of a part's waiting time


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for each part of a question, for a session, and for judging one question.

    A part is a function that is called, or one run of all cells.
    """

    # illustrative: waiting for a part's answers, for code that sleeps or waits [s]
    wall_s: float = 60.0
    cpu_s: float = 5.0  # illustrative: processor time of a part [s]
    # illustrative: processor time of judging, and of answering the code about its arguments [s]
    judge_s: float = 5.0
    memory: int = 1 << 30  # in addition to Python and numpy [B]
    files: int = 32
    # one file; all files together may have four times as much if a child has its own root [B]
    file_size: int = 16 << 20
    processes: int = 16  # processes and threads
    reply: int = 1 << 20  # size of one answer [B]
    requests: int = 50_000  # calls of methods of proxies, all together

    @property
    def process_s(self) -> float:
        """Return the processor time [s] of a process for all parts together; the kernel enforces this limit."""
        return _MOST_PARTS * self.cpu_s

    @property
    def question_s(self) -> float:
        """Return the longest time [s] to wait for a question, over all its parts and sessions."""
        return _MOST_WAITS * self.wall_s

    def scaled(self, factor: float) -> Self:
        """Return limits with all times multiplied by ``factor``, for a slower machine."""
        refuse_if(not 0 < factor <= 100, "grade.factor", factor=factor)
        times = {name: getattr(self, name) * factor for name in ("wall_s", "cpu_s", "judge_s")}
        return replace(self, **times)
