"""What a learner's code may use while it is graded."""

from dataclasses import dataclass, replace
from typing import Self

from fabriclab.course.shown import refuse_if

_MOST_PARTS = 16  # of a question: its functions and its cells
_MOST_WAITS = 3  # parts of a question that may be waited for as long as a part may


@dataclass(frozen=True, slots=True)
class Limits:
    """What a part of a question may use, what a session may, and what judging one question may.

    A part is a function that is asked, or the cells, each time that they run.
    """

    # illustrative: waiting for a part's answers, for code that sleeps or waits [s]
    wall_s: float = 60.0
    cpu_s: float = 5.0  # illustrative: processor time of a part [s]
    # illustrative: processor time of judging, and of answering the code about its arguments [s]
    judge_s: float = 5.0
    memory: int = 1 << 30  # on top of Python and numpy [B]
    files: int = 32
    # all files together may have four times as much, where a child has its own root [B]
    file_size: int = 16 << 20
    processes: int = 16  # and threads
    reply: int = 1 << 20  # one answer [B]
    requests: int = 50_000  # calls of methods of all arguments together

    @property
    def process_s(self) -> float:
        """Return the processor time [s] of one process that serves all parts, which the kernel limits."""
        return _MOST_PARTS * self.cpu_s

    @property
    def question_s(self) -> float:
        """Return how long a question may be waited for [s], in all its parts and sessions together."""
        return _MOST_WAITS * self.wall_s

    def scaled(self, factor: float) -> Self:
        """Return the same with ``factor`` times the time, for a slower machine."""
        refuse_if(not 0 < factor <= 100, "grade.factor", factor=factor)
        times = {name: getattr(self, name) * factor for name in ("wall_s", "cpu_s", "judge_s")}
        return replace(self, **times)
