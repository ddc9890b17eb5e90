"""Schedule: the transfers of a collective, without a network, in groups of transfers that may run at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.core._arrays import Ids
from fabriclab.core._frozen import Value, check_finite, check_shape, check_within, freeze, spread
from fabriclab.core._memory import check_memory


@dataclass(frozen=True, eq=False)
class StepGroup(Value):
    """T transfers that may run at once, repeated ``repeat`` times in order.

    Transfer i moves the blocks ``first[i]``, ..., ``first[i] + count[i] - 1`` (modulo the number of
    blocks) of segment ``segment[i]`` from ``source[i]`` to ``target[i]``. It adds them to the target's blocks where
    ``reduce[i]`` is True and replaces those blocks otherwise.

    In repetition k every block number is increased by ``k * shift``, so one group describes a whole ring. With
    ``window`` the numbers wrap around within the ``window`` blocks in which they started, so one group also describes
    rings that each work on a part of the array.

    Parameters
    ----------
    source, target, first, count, segment : (T,) int32
        Participants, first block, number of blocks and segment of each transfer.
    reduce : (T,) bool
        Whether the target adds the blocks (True) or replaces its own (False).
    repeat : int
        Repetitions. >= 1
    shift : int
        Number of blocks by which every transfer advances per repetition.
    window : int
        Number of blocks within which block numbers wrap around, 0 for all; it divides the number of blocks. >= 0
    """

    source: Ids
    target: Ids
    first: Ids
    count: Ids
    segment: Ids
    reduce: NDArray[np.bool_]
    repeat: int = 1
    shift: int = 0
    window: int = 0

    @classmethod
    def make(
        cls,
        source: ArrayLike,
        target: ArrayLike,
        first: ArrayLike = 0,
        count: ArrayLike = 1,
        *,
        reduce: ArrayLike,
        segment: ArrayLike = 0,
        repeat: int = 1,
        shift: int = 0,
        window: int = 0,
    ) -> Self:
        """Return a group from columns that are broadcast together."""
        given = {
            "source": source,
            "target": target,
            "first": first,
            "count": count,
            "segment": segment,
        }
        return cls(**spread({**given, "reduce": reduce}), repeat=repeat, shift=shift, window=window)

    @classmethod
    def together(cls, groups: Sequence[Self], segments: ArrayLike = 0) -> Self:
        """Merge several groups into one step; ``segments`` gives the segment of each group's transfers."""
        columns: dict[str, Any] = {}
        for name in ("source", "target", "first", "count", "reduce"):
            columns[name] = np.concatenate([getattr(group, name) for group in groups])
        transfers = [group.n_transfers for group in groups]
        segment = np.repeat(np.broadcast_to(segments, len(groups)), transfers)
        return cls(segment=segment.astype(np.int32), **columns)

    def __post_init__(self) -> None:
        """Freeze the arrays and check shapes and repeat."""
        kinds: dict[str, Any] = dict.fromkeys(
            ("source", "target", "first", "count", "segment"), np.int32
        )
        freeze(self, kinds | {"reduce": np.bool_})
        check_shape(self, (*kinds, "reduce"), (self.source.size,))
        units.count(self.repeat, "repeat")
        units.count(self.window, "window", 0)

    @property
    def n_transfers(self) -> int:
        """Number of transfers in one repetition."""
        return int(self.source.size)

    def steps(self, n_blocks: int) -> Iterator[Self]:
        """Yield the repetitions one by one, each as a group that runs once."""
        window = self.window or n_blocks
        start = self.first // window * window
        for k in range(self.repeat):
            moved = (self.first - start + k * self.shift) % window
            yield replace(self, first=start + moved, repeat=1, shift=0, window=0)


def check_group(g: int, group: StepGroup, people: int, blocks: int, segments: int) -> None:
    """Raise an error if a transfer of group ``g`` names something that does not exist, or if two transfers clash.

    Checked are participants, blocks, segments and the window; a clash is described in `_check_writes`.
    """
    for name, n in (
        ("source", people),
        ("target", people),
        ("first", blocks),
        ("segment", segments),
    ):
        check_within(getattr(group, name), f"group {g}: {name}", 0, n - 1)
    check_within(group.count, f"group {g}: count", 1, blocks)
    if group.window and blocks % group.window:
        raise ValueError(f"group {g}: window must divide the {blocks} blocks, got {group.window}")
    if np.any(group.source == group.target):
        raise ValueError(f"group {g}: a transfer must not go from a participant to itself")
    _check_writes(g, group, blocks, segments)


def _check_writes(g: int, group: StepGroup, blocks: int, segments: int) -> None:
    """Raise an error if a transfer copies into a block that another transfer of the same step writes to.

    A transfer writes one interval of blocks, or two where it wraps around after the last block. With the intervals
    sorted by their starts, one overlaps an earlier one exactly if some earlier interval ends after it starts.
    """
    place = group.target.astype(np.int64) * segments + group.segment
    if np.all(group.reduce) or np.all(np.diff(np.sort(place))):
        return

    # A place is one segment of one participant. Block b of place p gets the number p * (blocks + 1) + b, so that
    # intervals of different places never meet. An interval that passes the last block continues at block 0.
    end = group.first + group.count.astype(np.int64)
    over = end > blocks
    base = np.append(place, place[over]) * (blocks + 1)
    start = base + np.append(group.first, np.zeros(int(over.sum()), np.int64))
    stop = base + np.append(np.minimum(end, blocks), end[over] - blocks)
    copy = ~np.append(group.reduce, group.reduce[over])
    order = np.argsort(start, kind="stable")
    start = start[order]
    stop = stop[order]
    copy = copy[order]

    # For each interval: the latest end of all earlier intervals, and of the earlier ones that copy.
    latest = np.maximum.accumulate(np.append(-1, stop[:-1]))
    copied = np.maximum.accumulate(np.append(-1, np.where(copy, stop, -1)[:-1]))
    hit = np.flatnonzero((start < copied) | (copy & (start < latest)))
    if hit.size:
        at, block = divmod(int(start[hit[0]]), blocks + 1)
        where = f"block {block} of participant {at // segments}"
        raise ValueError(
            f"group {g}: two transfers of one step write to {where}; take two steps, or let both reduce"
        )


_MOST_SEGMENTS = 2**16
# Peak memory of `segmented` per step group and per transfer, pipelined or not; measured and rounded up, checked by
# a test. [B]
_BYTES = {False: (400, 6), True: (1300, 25)}


@dataclass(frozen=True, eq=False)
class Schedule(Value):
    """A collective as groups of transfers between participants, run in order.

    The array of a collective has ``n_blocks`` blocks of (nearly) equal length, each cut into
    ``segments``. For collectives with a block per rank, block r belongs to rank r.

    Parameters
    ----------
    collective, algorithm : str
        Names of the collective and of its algorithm.
    n_ranks : int
        Number of ranks; they are the first participants. >= 1
    n_blocks : int
        Number of blocks of the array. >= 1
    groups : tuple of StepGroup
        Groups, run in order.
    segments : int
        Number of parts into which each block is cut and which are sent one after another. >= 1
    n_switches : int
        Number of participants that come after the ranks and add, but keep no result. >= 0
    root : int
        Root rank, where the collective has one.
    parts : (n_blocks,) or (1,) float64, optional
        Size of each block, or one size for all, as a fraction of the size that nccl-tests counts; 1 / n_blocks
        by default. In an all-to-all every rank has an array of that size; if it is skewed, its blocks differ in size.

    Raises
    ------
    ValueError
        If a transfer names a participant, block or segment that does not exist, if a participant sends to itself,
        if a step copies into a block that another of its transfers writes to, or if a repeated group shifts
        blocks of different sizes.
    """

    collective: str
    algorithm: str
    n_ranks: int
    n_blocks: int
    groups: tuple[StepGroup, ...]
    segments: int = 1
    n_switches: int = 0
    root: int = 0
    parts: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        """Check every group."""
        for name, least in (("n_ranks", 1), ("n_blocks", 1), ("segments", 1), ("n_switches", 0)):
            units.count(getattr(self, name), name, least)
        units.count(self.root, "root", 0, self.n_ranks - 1)
        object.__setattr__(self, "groups", tuple(self.groups))
        people = self.n_ranks + self.n_switches
        for g, group in enumerate(self.groups):
            check_group(g, group, people, self.n_blocks, self.segments)
        if self.parts is not None:
            freeze(self, {"parts": np.float64})
            check_finite(self, {"parts": ""})
            check_shape(self, ["parts"], (1 if self.parts.size == 1 else self.n_blocks,))
            if self.parts.size > 1 and any(g.repeat > 1 and g.shift for g in self.groups):
                raise ValueError(
                    "blocks of several sizes cannot be shifted: repetitions would differ; write it out"
                )

    @property
    def n_participants(self) -> int:
        """Number of ranks and switches together."""
        return self.n_ranks + self.n_switches

    @property
    def n_steps(self) -> int:
        """Number of steps, each repetition counted."""
        return sum(g.repeat for g in self.groups)

    def steps(self) -> Iterator[StepGroup]:
        """Yield every step as a group that runs once."""
        for group in self.groups:
            yield from group.steps(self.n_blocks)

    def block_name(self, block: int, segment: int = 0, count: int = 1) -> str:
        """Return how a block, or ``count`` consecutive blocks (modulo the number of blocks), are written in texts.

        Examples
        --------
        >>> whole = Schedule("all_reduce", "mine", n_ranks=4, n_blocks=4, groups=())
        >>> whole.block_name(2), whole.block_name(2, count=2), whole.segmented(3).block_name(2, segment=1, count=2)
        ('2', '2..3', '2.1..3.1')
        """
        part = f".{segment}" if self.segments > 1 else ""
        last = f"..{(block + count - 1) % self.n_blocks}{part}" if count > 1 else ""
        return f"{block}{part}{last}"

    def sent(self) -> NDArray[np.float64]:
        """Return the bytes that each participant sends in all steps, as a fraction of the size, (participants,)."""
        return self._volume("source")

    def received(self) -> NDArray[np.float64]:
        """Return the bytes that each participant receives in all steps, as a fraction of the size, (participants,)."""
        return self._volume("target")

    def _volume(self, end: str) -> NDArray[np.float64]:
        """Return the sum over all steps of what each participant moves as ``end`` (source or target)."""
        total = np.zeros(self.n_participants)
        for g in self.groups:
            np.add.at(total, getattr(g, end), self.moved(g) * g.repeat)
        return total

    def moved(self, group: StepGroup) -> NDArray[np.float64]:
        """Return the bytes that each transfer of a group moves in one repetition, as a fraction of the size, (T,)."""
        if self.parts is not None and self.parts.size > 1:
            # Transfer i moves the blocks first[i] .. end[i] - 1; `_edge` has their sizes summed up.
            end = group.first + group.count.astype(np.int64)
            return np.subtract(self._edge[end], self._edge[group.first]) / self.segments
        part = 1 / self.n_blocks if self.parts is None else self.parts[0]
        return np.multiply(group.count, part) / self.segments

    @cached_property
    def _edge(self) -> NDArray[np.float64]:
        """Start of each block if the array is written twice in a row, for intervals that wrap around."""
        return np.append(0.0, np.cumsum(np.tile(self.parts if self.parts is not None else 0.0, 2)))

    def segmented(self, segments: int, *, pipelined: bool = False) -> Self:
        """Return this schedule with every block cut into segments.

        Parameters
        ----------
        segments : int
            Parts per block. 1 to 65,536
        pipelined : bool
            False: each segment goes through all steps before the next begins, as in a library with
            small staging buffers. True: segment s starts s steps later, so that steps overlap; every
            step is then written out.

        Raises
        ------
        ValueError
            If the schedule has segments already.
        TooLarge
            If memory does not suffice for all steps.
        """
        n = units.count(segments, "segments", 1, _MOST_SEGMENTS)
        pipelined = units.flag(pipelined, "pipelined")
        if self.segments != 1:
            raise ValueError(
                f"segments must be set once, this schedule has {self.segments} already"
            )
        if n == 1:
            return self

        check_memory(
            self._bytes_of_segments(n, pipelined),
            f"{self!r} in {n} segments",
            "take fewer segments, fewer ranks, or pipelined=False",
        )
        groups = self._pipelined(n) if pipelined else self._one_by_one(n)
        return replace(self, groups=tuple(groups), segments=n)

    def _bytes_of_segments(self, n: int, pipelined: bool) -> int:
        """Return the memory that `segmented` needs for ``n`` segments. [B]."""
        if pipelined:
            n_groups = self.n_steps + n
            n_transfers = sum(group.n_transfers * group.repeat for group in self.groups)
        else:
            n_groups = n * len(self.groups)
            n_transfers = sum(group.n_transfers for group in self.groups)
        per_group, per_transfer = _BYTES[pipelined]
        return n_groups * per_group + (n + 1) * n_transfers * per_transfer

    def _one_by_one(self, n: int) -> list[StepGroup]:
        """Return the groups of ``n`` segments, each of which goes through all groups before the next begins."""
        groups = []
        for segment in range(n):
            for group in self.groups:
                column = np.full(group.n_transfers, segment)
                groups.append(replace(group, segment=column))
        return groups

    def _pipelined(self, n: int) -> list[StepGroup]:
        """Return the steps of a pipeline of ``n`` segments: at time t segment s does its step t - s."""
        steps = list(self.steps())
        if not steps:
            return []
        groups = []
        for t in range(len(steps) + n - 1):
            segments = range(max(0, t - len(steps) + 1), min(n, t + 1))  # under way at time t
            parts = [steps[t - segment] for segment in segments]
            groups.append(StepGroup.together(parts, segments))
        return groups

    def __repr__(self) -> str:
        """Show collective, algorithm, ranks and steps."""
        return f"<Schedule {self.collective} {self.algorithm}: {self.n_ranks} ranks, {self.n_steps} steps>"

    def draw(self, first: int = 0) -> str:
        """Return the steps as text, numbered from ``first``; long ones are cut, with the number of what is left out."""
        lines = [repr(self)]
        for number, step in enumerate(self.steps()):
            if number == 64:
                lines.append(f"... and {self.n_steps - 64} steps more")
                break
            shown, left_out = self._messages(step, 12)
            more = f" ... {left_out} more" if left_out else ""
            lines.append(f"step {first + number}: " + "  ".join(shown) + more)
        return "\n".join(lines)

    def _messages(self, step: StepGroup, most: int) -> tuple[list[str], int]:
        """Return the first messages of a step as texts such as ``0->1 +2``, and how many are left out.

        This one says that rank 1 adds block 2 of rank 0. Transfers between the same two ranks are one message.
        """
        pair = np.stack([step.source, step.target, step.reduce])  # (3, T)
        _, begins, message = np.unique(pair, axis=1, return_index=True, return_inverse=True)
        order = np.argsort(begins, kind="stable")  # as they come in the step
        shown = []
        for own in order[:most]:
            blocks = [
                self.block_name(step.first[i], step.segment[i], step.count[i])
                for i in np.flatnonzero(message.ravel() == own)
            ]
            i = begins[own]
            sign = "+" if step.reduce[i] else "="
            shown.append(f"{step.source[i]}->{step.target[i]} {sign}{','.join(blocks)}")
        return shown, max(0, order.size - most)
