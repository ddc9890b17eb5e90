"""What each collective does, in the sense of MPI: who has which blocks before and after, and the result by numpy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import registry, units
from fabriclab.core import Flags, Ints

Array = NDArray[Any]
Holders = Callable[[int, int, int], Flags]


class Definition(NamedTuple):
    """A collective: one place that execution and its oracle read; bounds and results ask for its factor besides.

    So its name stands in `fabriclab.core.result.BUS_FACTORS`, which lists what nccl-tests knows.

    Parameters
    ----------
    before, after : callable (n_ranks, n_blocks, root) -> (n_ranks, n_blocks) bool
        Which blocks each rank has at the start, and must have at the end.
    arrays : callable (n_ranks) -> number
        Arrays of the size that nccl-tests counts, which the blocks of a Schedule make up together.
    result : callable (buffers, op, n_ranks, root) -> list of arrays
        What each rank must have at the end, with no part in how `execute` gets there. One whose blocks may differ
        takes the parts of a Schedule as well.
    """

    before: Holders
    after: Holders
    arrays: Callable[[int], int]
    result: Callable[..., list[Array]]


def define(
    name: str, before: Holders, after: Holders, arrays: Callable[[int], int] = lambda n: 1
) -> Callable[[Callable[..., list[Array]]], Any]:
    """Register the result of a collective together with who has what."""
    return registry.register("definition", name, before=before, after=after, arrays=arrays)


def definition(collective: str) -> Definition:
    """Return what a collective does; a wrong name is answered with the list."""
    units.choice(collective, "collective", registry.names("definition"))
    return Definition(**registry.info("definition", collective), result=registry.get("definition", collective))


def everywhere(n: int, blocks: int, root: int) -> Flags:
    """Every rank has the whole array."""
    return np.ones((n, blocks), dtype=np.bool_)


def own(n: int, blocks: int, root: int) -> Flags:
    """Rank r has block r."""
    if blocks != n:
        raise ValueError(f"this collective must have one block per rank ({n}), got {blocks} blocks")
    return np.eye(n, dtype=np.bool_)


def _next(n: int, blocks: int, root: int) -> Flags:
    """Rank r has the block of the rank before it."""
    return np.roll(own(n, blocks, root), -1, axis=1)


def _pairs(n: int, blocks: int, root: int) -> Flags:
    """Block s n + t goes from rank s to rank t: rank r has row r."""
    if blocks != n * n:
        raise ValueError(f"this collective must have one block per pair of ranks ({n * n}), got {blocks} blocks")
    return np.repeat(np.eye(n, dtype=np.bool_), n, axis=1)


def _columns(n: int, blocks: int, root: int) -> Flags:
    """Rank r has column r of the blocks of `_pairs`."""
    return np.tile(np.eye(n, dtype=np.bool_), n)


def cuts(count: Any, blocks: int, parts: Any = None) -> Ints:
    """Return where each block of ``count`` elements begins, and the end, (..., blocks + 1): in proportion to ``parts``.

    Without, or where all are equal, as `numpy.array_split` cuts: lengths differ by one, the longer ones first.
    """
    if parts is not None and np.size(parts) > 1:
        return np.asarray(np.rint(np.append(0.0, np.cumsum(parts)) * (count / np.sum(parts))), dtype=np.int64)
    size, longer = np.divmod(np.asarray(count, dtype=np.int64)[..., None], blocks)
    k = np.arange(blocks + 1)
    return np.asarray(k * size + np.minimum(k, longer))


def at_root(n: int, blocks: int, root: int) -> Flags:
    """Only the root has anything: the whole array."""
    return np.repeat(np.arange(n) == root, blocks).reshape(n, blocks)


def _total(buffers: list[Array], op: np.ufunc) -> Array:
    return np.asarray(op.reduce(np.stack(buffers), axis=0), dtype=buffers[0].dtype)


def _keep(whole: Array, n: int, root: int) -> list[Array]:
    return [whole if r == root else whole[:0] for r in range(n)]


def _exchanged(buffers: list[Array], op: np.ufunc, n: int, root: int, parts: Any = None) -> list[Array]:
    whole = np.concatenate(buffers)
    blocks = np.split(whole, cuts(whole.size, n * n, parts)[1:-1])
    return [np.concatenate(blocks[r::n]) for r in range(n)]


define("all_reduce", everywhere, everywhere)(lambda given, op, n, root: [_total(given, op)] * n)
define("reduce_scatter", everywhere, own)(lambda given, op, n, root: np.array_split(_total(given, op), n))
define("all_gather", own, everywhere)(lambda given, op, n, root: [np.concatenate(given)] * n)
define("broadcast", at_root, everywhere)(lambda given, op, n, root: given * n)
define("reduce", everywhere, at_root)(lambda given, op, n, root: _keep(_total(given, op), n, root))
define("gather", own, at_root)(lambda given, op, n, root: _keep(np.concatenate(given), n, root))
define("scatter", at_root, own)(lambda given, op, n, root: np.array_split(given[0], n))
define("all_to_all", _pairs, _columns, arrays=lambda n: n)(_exchanged)
define("send_recv", own, _next, arrays=lambda n: n)(lambda given, op, n, root: given[-1:] + given[:-1])
# Every rank must have heard of every other; nothing has a size.
define("barrier", own, everywhere, arrays=lambda n: 0)(lambda given, op, n, root: [np.concatenate(given)] * n)
