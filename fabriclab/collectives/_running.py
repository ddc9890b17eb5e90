"""Run a schedule on real buffers, and compute from the definition of a collective what must come out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.collectives.algorithm import Array, at_root, cuts, definition
from fabriclab.core import Flags, Ints, Schedule, expand, pointer

# Operations of numpy whose result does not depend on order and grouping.
_OPS = (
    "add",
    "multiply",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "logical_and",
    "logical_or",
    "logical_xor",
    "gcd",
    "lcm",
)


def execute(schedule: Schedule, buffers: Any, op: np.ufunc = np.add) -> list[Array]:
    """Run a schedule on real buffers and return what each rank has at the end.

    All transfers of a step read what was there before the step. Leaves out time: nothing is sent over a network, and
    one process does all the work.

    Parameters
    ----------
    schedule : Schedule
        The schedule to run.
    buffers : sequence of arrays, or one array
        For all_reduce, reduce_scatter and reduce: one array per rank, all of the same length and dtype. For all_gather,
        gather, send_recv and all_to_all (where block s n + t goes from s to t): the blocks of each rank, cut as by
        `numpy.array_split` or in proportion to the parts of the schedule. For broadcast and scatter: the array of the
        root. They are not changed.
    op : numpy.ufunc
        Operation that combines two buffers: associative and commutative, such as ``np.add`` or ``np.maximum``.

    Returns
    -------
    list of arrays
        For each rank the whole array, its blocks (reduce_scatter, scatter, all_to_all), or nothing (if only the root
        has a result). No result shares memory with an input.

    Raises
    ------
    ValueError
        If the buffers do not fit, or a transfer sends a block that its source does not have.

    Examples
    --------
    >>> from fabriclab import collectives
    >>> ring = collectives.build("all_reduce", "ring", 3)
    >>> [out.tolist() for out in execute(ring, [np.array([1, 2]), np.array([10, 20]), np.array([100, 200])])]
    [[111, 222], [111, 222], [111, 222]]
    """
    about = definition(schedule.collective)
    before = about.before(schedule.n_ranks, schedule.n_blocks, schedule.root)
    after = about.after(schedule.n_ranks, schedule.n_blocks, schedule.root)
    arrays, count = _inputs(schedule, before, buffers, one=about.before is at_root)
    # Sort the elements by segment, then by block, so that blocks first, first + 1, ... of one segment are adjacent.
    block = cuts(count, schedule.n_blocks, schedule.parts)
    length = np.diff(block)  # (blocks,)
    segment = block[:-1, None] + cuts(length, schedule.segments)  # (blocks, segments + 1)
    pieces = np.diff(segment).T.ravel()  # elements of each piece
    order = expand(segment[:, :-1].T.ravel(), pieces)
    edge = pointer(pieces)

    data = np.zeros((schedule.n_participants, count), dtype=arrays[0].dtype)
    for rank, array in zip(np.flatnonzero(before.any(axis=1)).tolist(), arrays, strict=True):
        data[rank, np.repeat(before[rank], length)] = array
    data = data[:, order]
    held = _held(schedule, before, edge.size - 1)
    for _ in _steps(schedule, data, held, edge, op):
        pass

    lacks = np.argwhere(np.tile(after, schedule.segments) & ~held[: schedule.n_ranks])
    if lacks.size:
        rank, piece = lacks[0]
        raise ValueError(
            f"{schedule!r} ends, and rank {rank} has not got block {piece % schedule.n_blocks}, "
            f"as {schedule.collective} must"
        )

    whole = np.empty_like(data)
    whole[:, order] = data
    results = []
    for rank, has in enumerate(after):
        if has.all():
            results.append(whole[rank])
        else:
            results.append(whole[rank, np.repeat(has, length)])
    return results


def trace(schedule: Schedule, numbers: Any, op: np.ufunc = np.add) -> tuple[Array, Flags]:
    """Run a schedule with one number per piece, and return what each participant has before and after every step.

    Pictures use it to show the data on its way.

    Parameters
    ----------
    schedule : Schedule
        The schedule to run.
    numbers : array_like, shape (n_ranks,)
        Number that each rank has in all its pieces at the start.
    op : numpy.ufunc
        As for `execute`.

    Returns
    -------
    array, shape (steps + 1, participants, segments, blocks)
        The numbers.
    array of bool, of the same shape
        Whether the participant has the piece.

    Examples
    --------
    >>> from fabriclab import collectives
    >>> numbers, has = trace(collectives.build("all_reduce", "ring", 2), [1, 2])
    >>> numbers[:, 0, 0].tolist()
    [[1, 1], [3, 1], [3, 3]]
    """
    before = definition(schedule.collective).before(
        schedule.n_ranks, schedule.n_blocks, schedule.root
    )
    pieces = schedule.segments * schedule.n_blocks
    held = _held(schedule, before, pieces)
    data = np.zeros(held.shape, dtype=np.asarray(numbers).dtype)
    of_rank = np.reshape(numbers, (schedule.n_ranks, 1))
    data[: schedule.n_ranks] = np.where(held[: schedule.n_ranks], of_rank, 0)

    all_data = [data.copy()]
    all_held = [held.copy()]
    for _ in _steps(schedule, data, held, np.arange(pieces + 1), op):
        all_data.append(data.copy())
        all_held.append(held.copy())
    shape = (len(all_data), schedule.n_participants, schedule.segments, schedule.n_blocks)
    return np.stack(all_data).reshape(shape), np.stack(all_held).reshape(shape)


def _held(schedule: Schedule, before: Flags, pieces: int) -> Flags:
    """Return which pieces each participant has at the start, (participants, pieces); switches have none."""
    held = np.zeros((schedule.n_participants, pieces), dtype=np.bool_)
    held[: schedule.n_ranks] = np.tile(before, schedule.segments)
    return held


def _steps(schedule: Schedule, data: Array, held: Flags, edge: Ints, op: np.ufunc) -> Iterator[int]:
    """Run the steps in place, yielding after each one; a step reads all that is sent before it writes."""
    check_op(op, data.dtype)
    n_blocks = schedule.n_blocks
    for number, step in enumerate(schedule.steps()):
        sent: list[tuple[int, slice, slice, bool, Array]] = []
        columns = (step.source, step.target, step.first, step.count, step.segment, step.reduce)
        for source, target, first, size, segment, reduce in zip(
            *(c.tolist() for c in columns), strict=True
        ):
            base = segment * n_blocks
            # A range that goes beyond the last block continues at block 0, so it has two spans.
            for low, high in ((first, min(first + size, n_blocks)), (0, first + size - n_blocks)):
                if low < high:
                    span, part = (
                        slice(base + low, base + high),
                        slice(edge[base + low], edge[base + high]),
                    )
                    if not held[source, span].all():
                        msg = f"step {number}: {source} sends blocks {low}..{high - 1} to {target}, but lacks some"
                        raise ValueError(msg)
                    sent.append((target, span, part, reduce, data[source, part].copy()))
        for target, span, part, reduce, moved in sent:
            if reduce and held[target, span].all():
                op(data[target, part], moved, out=data[target, part])
            elif reduce and held[target, span].any():
                raise ValueError(
                    f"step {number}: {target} has only a part of the blocks to which it adds"
                )
            else:  # the first contribution to a switch that adds, or a copy
                data[target, part] = moved
            held[target, span] = True
        yield number


def check_op(op: np.ufunc, dtype: np.dtype[Any]) -> None:
    """Refuse an operation whose result depends on the order; a ufunc that is not part of numpy is accepted as it is."""
    allowed = isinstance(op, np.ufunc)
    if allowed and getattr(np, op.__name__, None) is op:
        allowed = op.__name__ in _OPS
    if not allowed:
        raise ValueError(
            f"op must be commutative and associative: one of np.{', np.'.join(_OPS)}; got {op!r}"
        )
    try:
        op(np.zeros(1, dtype), np.zeros(1, dtype))
    except TypeError:
        raise ValueError(
            f"op {op.__name__} does not work on {dtype}; take another type, or np.add"
        ) from None


def _inputs(
    schedule: Schedule, before: Flags, buffers: Any, *, one: bool
) -> tuple[list[Array], int]:
    """Return the buffers as flat arrays of one dtype and the number of elements in all, or refuse them by name."""
    what = schedule.collective
    has_buffer = before.any(axis=1)
    n = int(has_buffer.sum())
    arrays = _arrays(buffers, one=one)
    if len(arrays) != n or any(a.ndim != 1 or a.dtype != arrays[0].dtype for a in arrays):
        got = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays[:4])
        raise ValueError(
            f"buffers of {what} must be {n} array(s) of one dimension and dtype, got {len(arrays)}: {got}"
        )

    sizes = np.array([a.size for a in arrays])
    count = int(sizes[0] if before[0].all() else sizes.sum())
    right = before[has_buffer] @ np.diff(cuts(count, schedule.n_blocks, schedule.parts))
    wrong = np.flatnonzero(right != sizes)
    if wrong.size:
        rank = wrong[0]
        raise ValueError(
            f"buffers[{rank}] of {what} must have {right[rank]} elements to go with the others, "
            f"got {sizes[rank]}"
        )
    return arrays, count


def _arrays(buffers: Any, *, one: bool) -> list[Array]:
    """Return buffers as a list of arrays, which is empty for anything but one array or several."""
    if one:
        return [np.asarray(buffers)]
    if not np.iterable(buffers):
        return []
    return [np.asarray(buffer) for buffer in buffers]


def expected(
    collective: str,
    buffers: Any,
    *,
    n_ranks: int | None = None,
    root: int = 0,
    op: np.ufunc = np.add,
    parts: ArrayLike | None = None,
) -> list[Array]:
    """Return the correct result of a collective, computed from its definition without `execute`.

    Parameters
    ----------
    collective : str
        Name of the collective, such as ``"all_reduce"``.
    buffers : sequence of arrays, or one array
        As for `execute`.
    n_ranks : int, optional
        Number of ranks; needed if only the root has a buffer, as for broadcast.
    root : int
        Rank that has the data or the result, if only one rank does.
    op : numpy.ufunc
        Operation that combines two buffers.
    parts : array_like, shape (n_ranks^2,), optional
        ``Schedule.parts`` of an all-to-all with skew, which gives the sizes of its blocks.

    Returns
    -------
    list of arrays
        Result of each rank, as for `execute`.
    """
    about = definition(collective)
    one = about.before is at_root
    arrays = [np.asarray(buffers)] if one else [np.asarray(buffer) for buffer in buffers]
    if n_ranks is None:
        n_ranks = 0 if one else len(arrays)
    n = units.count(n_ranks, "n_ranks")
    if not one and n != len(arrays):
        raise ValueError(f"buffers of {collective} must be {n}, one per rank, got {len(arrays)}")

    check_op(op, arrays[0].dtype)
    if parts is None:
        results = about.result(arrays, op, n, root)
    else:
        results = about.result(arrays, op, n, root, parts)
    return [np.array(result) for result in results]
