"""Refuse transfers of a schedule that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fabriclab.core._frozen import check_within

if TYPE_CHECKING:
    from fabriclab.core.schedule import StepGroup


def check_group(g: int, group: StepGroup, people: int, blocks: int, segments: int) -> None:
    """Refuse a transfer of group ``g`` between participants or of blocks that do not exist, or one that clashes."""
    for name, n in (("source", people), ("target", people), ("first", blocks), ("segment", segments)):
        check_within(getattr(group, name), f"group {g}: {name}", 0, n - 1)
    check_within(group.count, f"group {g}: count", 1, blocks)
    if group.window and blocks % group.window:
        raise ValueError(f"group {g}: window must divide the {blocks} blocks, got {group.window}")
    if np.any(group.source == group.target):
        raise ValueError(f"group {g}: a transfer must not go from a participant to itself")
    _check_writes(g, group, blocks, segments)


def _check_writes(g: int, group: StepGroup, blocks: int, segments: int) -> None:
    """Refuse a copy into a block to which another transfer of the step writes.

    A transfer is one interval of blocks, two where it passes the last block; in order of their starts, an
    interval meets an earlier one that ends after its start.
    """
    place = group.target.astype(np.int64) * segments + group.segment
    if np.all(group.reduce) or np.all(np.diff(np.sort(place))):
        return
    end = group.first + group.count.astype(np.int64)
    over = end > blocks
    base = np.append(place, place[over]) * (blocks + 1)
    start = base + np.append(group.first, np.zeros(int(over.sum()), np.int64))
    stop = base + np.append(np.minimum(end, blocks), end[over] - blocks)
    copy = ~np.append(group.reduce, group.reduce[over])
    order = np.argsort(start, kind="stable")
    start, stop, copy = start[order], stop[order], copy[order]
    latest, copied = (np.maximum.accumulate(np.append(-1, x[:-1])) for x in (stop, np.where(copy, stop, -1)))
    hit = np.flatnonzero((start < copied) | (copy & (start < latest)))
    if hit.size:
        at, block = divmod(int(start[hit[0]]), blocks + 1)
        where = f"block {block} of participant {at // segments}"
        msg = f"group {g}: two transfers of one step write to {where}; put them into two steps, or let both reduce"
        raise ValueError(msg)


def check_shifts(groups: Sequence[StepGroup], parts: NDArray[np.floating]) -> None:
    """Refuse repetitions that differ, since they move blocks of several sizes."""
    if parts.size > 1 and any(g.repeat > 1 and g.shift for g in groups):
        raise ValueError("blocks of several sizes cannot be shifted, since each repetition would differ; write it out")
