"""StepGroup: transfers that may run at once, and what refuses those that cannot be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core._frozen import Value, check_shape, check_within, freeze, spread

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class StepGroup(Value):
    """T transfers that may run at once, ``repeat`` times in order.

    Transfer i moves the blocks ``first[i]``, ..., ``first[i] + count[i] - 1`` (modulo the number of
    blocks) of segment ``segment[i]`` from ``source[i]`` to ``target[i]``, and adds them there where
    ``reduce[i]``. In repetition k every block number is moved on by ``k * shift``, so a ring is one group;
    with ``window`` it stays among the ``window`` blocks where it began, so rings over parts of the array are too.

    Parameters
    ----------
    source, target, first, count, segment : (T,) int32
        Participants and blocks.
    reduce : (T,) bool
        Add at the target (True) or replace (False).
    repeat : int
        Repetitions. >= 1
    shift : int
        Blocks by which all transfers move on per repetition.
    window : int
        Blocks among which they go round, 0 for all; it divides their number. >= 0
    """

    source: Ints
    target: Ints
    first: Ints
    count: Ints
    segment: Ints
    reduce: NDArray[np.bool_]
    repeat: int = 1
    shift: int = 0
    window: int = 0

    @classmethod
    def make(
        cls, source: ArrayLike, target: ArrayLike, first: ArrayLike = 0, count: ArrayLike = 1, *,
        reduce: ArrayLike, segment: ArrayLike = 0, repeat: int = 1, shift: int = 0, window: int = 0,
    ) -> Self:  # fmt: skip
        """Return a group from columns that broadcast together."""
        given = {"source": source, "target": target, "first": first, "count": count, "segment": segment}
        return cls(**spread({**given, "reduce": reduce}), repeat=repeat, shift=shift, window=window)

    @classmethod
    def together(cls, groups: Sequence[Self], segments: ArrayLike = 0) -> Self:
        """Return the transfers of several groups as one step, each group for its own segment."""
        names = ("source", "target", "first", "count", "reduce")
        column: Any = {n: np.concatenate([getattr(g, n) for g in groups]) for n in names}
        segment = np.repeat(np.broadcast_to(segments, len(groups)), [g.n_transfers for g in groups])
        return cls(segment=segment.astype(np.int32), **column)

    def __post_init__(self) -> None:
        """Freeze the arrays and check shapes and repeat."""
        kinds: dict[str, Any] = dict.fromkeys(("source", "target", "first", "count", "segment"), np.int32)
        freeze(self, kinds | {"reduce": np.bool_})
        check_shape(self, (*kinds, "reduce"), (self.source.size,))
        units.count(self.repeat, "repeat")
        units.count(self.window, "window", 0)

    @property
    def n_transfers(self) -> int:
        """Transfers of one repetition."""
        return int(self.source.size)

    def steps(self, n_blocks: int) -> Iterator[Self]:
        """Yield the repetitions one by one, each as a group without repeat."""
        window = self.window or n_blocks
        start = self.first // window * window
        for k in range(self.repeat):
            moved = (self.first - start + k * self.shift) % window
            yield replace(self, first=start + moved, repeat=1, shift=0, window=0)


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
        raise ValueError(f"group {g}: two transfers of one step write to {where}; take two steps, or let both reduce")
