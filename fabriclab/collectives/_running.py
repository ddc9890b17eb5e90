"""Run a Schedule on real buffers, and say by definition what must come out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Schedule, StepGroup
from fabriclab.core._arrays import expand, pointer

__all__ = ["block_slices", "execute", "expected"]

Array = NDArray[Any]
_KNOWN = ("all_reduce", "reduce_scatter", "all_gather", "broadcast")


def block_slices(count: int, schedule: Schedule) -> list[slice]:
    """Return the elements of each block of an array of ``count`` elements.

    Blocks are cut as by `numpy.array_split`: lengths differ by at most one, the longer ones first.
    """
    edges = _edges(units.count(count, "count", 0), schedule.n_blocks)
    return [slice(a, b) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]


def _edges(count: Any, parts: int) -> NDArray[np.int64]:
    """Return where each of ``parts`` nearly equal parts of ``count`` elements begins, and the end, (..., parts + 1)."""
    size, longer = np.divmod(np.asarray(count, dtype=np.int64)[..., None], parts)
    k = np.arange(parts + 1)
    out: NDArray[np.int64] = k * size + np.minimum(k, longer)
    return out


def _layout(count: int, schedule: Schedule) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the elements in the order segment, block (count,), and where each such piece begins in that order.

    In this order the blocks first, first + 1, ... of one segment follow each other.
    """
    block = _edges(count, schedule.n_blocks)
    inner = block[:-1, None] + _edges(np.diff(block), schedule.segments)
    start, length = inner[:, :-1].T.ravel(), np.diff(inner).T.ravel()
    return expand(start, length), pointer(length)


def execute(schedule: Schedule, buffers: Any, op: np.ufunc = np.add) -> list[Array]:
    """Run a schedule on real buffers and return what each rank holds at the end.

    All transfers of a step read what was there before the step. Leaves out time: nothing is sent
    anywhere, and one process does all the work.

    Parameters
    ----------
    schedule : Schedule
        What to run.
    buffers : sequence of arrays, or one array
        One array per rank, all of one length and dtype (all_reduce, reduce_scatter); the block of each
        rank, cut as `block_slices` says (all_gather); the array of the root (broadcast). Not changed.
    op : numpy.ufunc
        How two buffers become one: associative and commutative, such as ``np.add`` or ``np.maximum``.

    Returns
    -------
    list of arrays
        Per rank: the whole array, or its block (reduce_scatter). None shares memory with an input.

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
    arrays = _inputs(schedule, buffers)
    count = sum(a.size for a in arrays) if schedule.collective == "all_gather" else arrays[0].size
    order, edge = _layout(count, schedule)
    data, held = _load(schedule, arrays, count, edge.size - 1)
    data = data[:, order]
    for number, step in enumerate(schedule.steps()):
        _apply(step, number, data, held, edge, schedule.n_blocks, op)
    whole = np.empty_like(data)
    whole[:, order] = data
    if schedule.collective == "reduce_scatter":
        return [whole[r, part].copy() for r, part in enumerate(block_slices(count, schedule))]
    return list(whole[: schedule.n_ranks])


def _inputs(schedule: Schedule, buffers: Any) -> list[Array]:
    """Return the buffers as a list of flat arrays of one dtype, or refuse them by name."""
    what, n = schedule.collective, 1 if schedule.collective == "broadcast" else schedule.n_ranks
    if what not in _KNOWN:
        msg = f"schedule must be one of {', '.join(_KNOWN)}, got one of {what!r}"
        raise ValueError(msg)
    if what in ("reduce_scatter", "all_gather") and schedule.n_blocks != n:
        msg = f"a schedule of {what} must have one block per rank ({n}), got {schedule.n_blocks} blocks"
        raise ValueError(msg)
    arrays = [np.asarray(b) for b in ([buffers] if what == "broadcast" else buffers)]
    if len(arrays) != n or any(a.ndim != 1 or a.dtype != arrays[0].dtype for a in arrays):
        got = ", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays[:4])
        msg = f"buffers of {what} must be {n} array(s) of one dimension and one dtype, got {len(arrays)}: {got}"
        raise ValueError(msg)
    total = sum(a.size for a in arrays)
    right = np.diff(_edges(total, n)) if what == "all_gather" else np.full(n, arrays[0].size)
    wrong = np.flatnonzero(right != [a.size for a in arrays])
    if wrong.size:
        r = wrong[0]
        msg = f"buffers[{r}] of {what} must have {right[r]} elements to go with the others, got {arrays[r].size}"
        raise ValueError(msg)
    return arrays


def _load(schedule: Schedule, arrays: list[Array], count: int, pieces: int) -> tuple[Array, NDArray[np.bool_]]:
    """Return the first state: data (participants, count), and which pieces each participant has."""
    data = np.zeros((schedule.n_participants, count), dtype=arrays[0].dtype)
    held = np.zeros((schedule.n_participants, pieces), dtype=bool)
    if schedule.collective == "broadcast":
        data[schedule.root], held[schedule.root] = arrays[0], True
    elif schedule.collective == "all_gather":
        for r, part in enumerate(block_slices(count, schedule)):
            data[r, part], held[r, r :: schedule.n_blocks] = arrays[r], True
    else:
        data[: schedule.n_ranks], held[: schedule.n_ranks] = arrays, True
    return data, held


def _apply(
    step: StepGroup, number: int, data: Array, held: NDArray[np.bool_], edge: NDArray[np.int64], n_blocks: int,
    op: np.ufunc,
) -> None:  # fmt: skip
    """Do one step in place: first read everything that is sent, then write."""
    sent: list[tuple[int, slice, slice, bool, Array]] = []
    columns = (step.source, step.target, step.first, step.count, step.segment, step.reduce)
    for source, target, first, size, segment, reduce in zip(*(c.tolist() for c in columns), strict=True):
        base = segment * n_blocks
        # A range that passes the last block goes on at block 0: two spans.
        for low, high in ((first, min(first + size, n_blocks)), (0, first + size - n_blocks)):
            if low < high:
                span, part = slice(base + low, base + high), slice(edge[base + low], edge[base + high])
                if not held[source, span].all():
                    msg = f"step {number}: {source} sends blocks {low}..{high - 1} to {target}, but lacks some"
                    raise ValueError(msg)
                sent.append((target, span, part, reduce, data[source, part].copy()))
    for target, span, part, reduce, moved in sent:
        if reduce and held[target, span].all():
            op(data[target, part], moved, out=data[target, part])
        elif reduce and held[target, span].any():
            msg = f"step {number}: {target} has only a part of the blocks to which it adds"
            raise ValueError(msg)
        else:  # the first contribution to a switch that adds, or a copy
            data[target, part] = moved
        held[target, span] = True


def expected(collective: str, buffers: Any, *, n_ranks: int | None = None, op: np.ufunc = np.add) -> list[Array]:
    """Return what a collective must give, straight from its definition; `execute` has no part in it.

    Parameters
    ----------
    collective : str
        all_reduce, reduce_scatter, all_gather or broadcast.
    buffers : sequence of arrays, or one array
        As for `execute`.
    n_ranks : int, optional
        Needed for broadcast, which has one buffer for all ranks.
    op : numpy.ufunc
        How buffers become one.
    """
    if collective == "broadcast":
        return [np.array(buffers) for _ in range(units.count(0 if n_ranks is None else n_ranks, "n_ranks"))]
    n = len(buffers)
    if collective == "all_gather":
        return [np.concatenate(buffers) for _ in range(n)]
    total = op.reduce(np.stack(buffers), axis=0, dtype=np.asarray(buffers[0]).dtype)
    if collective == "all_reduce":
        return [total.copy() for _ in range(n)]
    if collective == "reduce_scatter":
        return [part.copy() for part in np.array_split(total, n)]
    msg = f"collective must be one of {', '.join(_KNOWN)}, got {collective!r}"
    raise ValueError(msg)
