"""Lesson 11b: the bytes that cross a link by cache lines."""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

from fabriclab import units
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    Verdict,
    first_wrong,
    is_same,
    mistake_of,
    name_of,
    number_of,
    wrong,
)
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
MOVED_MISTAKES: dict[str, Callable[[float, float, int], float]] = {
    "record for a line": lambda size, share, record: size * share,
    "one line for each record": lambda size, share, record: min(
        size, size * share / record * memory.LINE
    ),
    "parts of lines": lambda size, share, record: min(
        size, size * share / record * max(record, memory.LINE)
    ),
    "more than the table": lambda size, share, record: (
        size * share / record * ceil(record / memory.LINE) * memory.LINE
    ),
    "bulk copy taken": lambda size, share, record: size,
}


@register("check", "11b-write-moved")
def moved_by_lines(answer: Moved) -> Verdict:
    """Run ``answer(size, share, record)``, the bytes on the link by cache lines, on five tables."""
    returned = [number_of(answer, *table) for table in TABLES]
    tried = []
    for (size, share, record), got in zip(TABLES, returned, strict=True):
        right, _ = memory.moved(size, share, record)
        name = text(
            "trace.table_touched",
            size=units.format_size(size),
            percent=f"{100 * share:g}",
            record=record,
        )
        shown = (units.format_size(bytes_) for bytes_ in (got, right))
        tried.append(TriedCase(name, is_same(got, right), "", *shown))
    place = first_wrong(tried)
    if place is None:
        return True, [], ""
    case = tried[place]
    line = text(
        "function.carried", call=name_of(answer), name=case.name, got=case.got, wanted=case.wanted
    )
    mistake = mistake_of(returned, MOVED_MISTAKES, TABLES)
    return wrong("11b-write-moved", line, mistake, Trace(tuple(tried)))
