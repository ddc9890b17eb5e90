"""Steps of a collective as a table: which block each rank sends to whom, and whether it is added there."""

from __future__ import annotations

from typing import Any, Final

from fabriclab.core import Schedule, StepGroup
from fabriclab.views.tables import Table

__all__ = ["buffers"]

_MOST: Final = 6


def buffers(schedule: Schedule, *, caption: str = "") -> Table:
    """Show what each rank sends in each step: ``2 -> 1 +`` is block 2, sent to rank 1 and added there.

    Parameters
    ----------
    schedule : Schedule
        Of at most six participants, so that the table keeps to seven columns.
    caption : str
        What the table says; computed where left out.

    Returns
    -------
    Table
        A row per step, a column per participant.

    Raises
    ------
    ValueError
        If there are more than six participants, or nothing is sent.
    """
    n = schedule.n_participants
    if n > _MOST or not schedule.n_steps:
        msg = (
            f"schedule must have 1 to {_MOST} participants that send something, got {n} with {schedule.n_steps} steps; "
            "build it for fewer ranks, or read schedule.draw()"
        )
        raise ValueError(msg)
    steps = list(schedule.steps())
    added = sum(int(s.count[s.reduce].sum()) for s in steps)
    moved = sum(int(s.count[~s.reduce].sum()) for s in steps)
    said = f"{len(steps)} steps: {added} blocks are added where they arrive (+), {moved} replace what was there (=)"
    columns: dict[str, Any] = {"step": range(1, len(steps) + 1)}
    for p in range(n):
        who = "rank" if p < schedule.n_ranks else "switch"
        columns[f"{who} {p} sends"] = [_sent(s, p, schedule) for s in steps]
    return Table(columns, caption=caption or said)


def _sent(step: StepGroup, rank: int, schedule: Schedule) -> str:
    cells = []
    for i in (step.source == rank).nonzero()[0]:
        first, count = int(step.first[i]), int(step.count[i])
        blocks = f"{first}" if count == 1 else f"{first}..{(first + count - 1) % schedule.n_blocks}"
        part = f" part {step.segment[i]}" if schedule.segments > 1 else ""
        cells.append(f"{blocks}{part} -> {step.target[i]} {'+' if step.reduce[i] else '='}")
    return ", ".join(cells) or "–"
