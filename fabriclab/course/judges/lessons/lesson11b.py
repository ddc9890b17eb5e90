"""Lesson 11b: the bytes that cross a link by cache lines."""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from fabriclab import units
from fabriclab.course.judges.shared.functions import Verdict, compared
from fabriclab.physics import memory
from fabriclab.registry import register
from fabriclab.texts import text

Moved = Callable[[float, float, int], Any]  # size [B], share, record [B] -> bytes

# illustrative: short records and long ones, few and so many that their lines are more than the table
TABLES: Sequence[tuple[float, float, int]] = (
    (1e9, 0.01, 16),
    (1e9, 0.01, 64),
    (6.4e9, 0.02, 100),
    (1e9, 0.5, 16),
    (64e9, 0.001, 512),  # illustrative: a large table
)


def _moved(size: float, share: float, record: int) -> float:
    """Return the bytes of the lines in which the records lie, at most those of the table."""
    moved, _ = memory.moved(size, share, record)
    return float(moved)


def _one_line_each(size: float, share: float, record: int) -> float:
    return min(size, size * share / record * memory.LINE)


def _parts_of_lines(size: float, share: float, record: int) -> float:
    return min(size, size * share / record * max(record, memory.LINE))


def _more_than_the_table(size: float, share: float, record: int) -> float:
    lines_of_a_record = ceil(record / memory.LINE)
    return size * share / record * lines_of_a_record * memory.LINE


# What somebody with a mistake returns, by its name.
MOVED_MISTAKES: dict[str, Callable[[float, float, int], float]] = {
    "record for a line": lambda size, share, record: size * share,
    "one line for each record": _one_line_each,
    "parts of lines": _parts_of_lines,
    "more than the table": _more_than_the_table,
    "bulk copy taken": lambda size, share, record: size,
}


@register("check", "11b-write-moved")
def moved_by_lines(answer: Moved) -> Verdict:
    """Run ``answer(size, share, record)``, the bytes on the link by cache lines, on five tables."""
    cases = {
        text(
            "trace.table_touched",
            size=units.format_size(size),
            percent=f"{100 * share:g}",
            record=record,
        ): (size, share, record)
        for size, share, record in TABLES
    }
    return compared("11b-write-moved", answer, cases, _moved, MOVED_MISTAKES, units.format_size)
