"""Recursive doubling and halving: partners at distance 1, 2, 4, ... exchange at once.

Ranks beyond a power of two p are guests: each gives its data to the rank before it, its host, and gets
the result from it at the end. Host v is rank v + min(v, n - p), so the ranks of hosts v, v + 1, ... with
their guests follow each other, and so do their blocks.

References
----------
.. [1] R. Thakur, R. Rabenseifner, W. Gropp, Int. J. High Performance Computing Applications 19(1),
   2005, pp. 49-66.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.collectives.algorithm import Steps, algorithm, ceil_log2, floor_log2
from fabriclab.collectives.trees import tree
from fabriclab.core import Ints, StepGroup


def _hosts(n: int) -> tuple[Ints, Ints]:
    """Return the rank of each host with n after them (p + 1,), and the ranks of the guests (n - p,)."""
    v = np.arange((1 << n.bit_length() - 1) + 1)
    return v + np.minimum(v, n - v[-1]), 2 * np.arange(n - v[-1]) + 1


def _visit(n: int, way: str, first: ArrayLike, count: int, *, reduce: bool = False) -> Steps:
    """Return the step between guests and hosts, ``way`` in or out, if there are guests."""
    guest = _hosts(n)[1]
    ends = (guest, guest - 1) if way == "in" else (guest - 1, guest)
    return (StepGroup.make(ends[0], ends[1], first, count, reduce=reduce),) if guest.size else ()


def _exchange(n: int, way: str, edges: Ints | None = None) -> Steps:
    """Return log2 p steps in which the hosts exchange; host v answers for the blocks edges[v]..edges[v + 1] - 1.

    ``way`` is ``double`` (each sends all blocks it has, the nearest partner first), ``halve`` (each sends what
    the partner will keep, which adds it, the farthest first), or ``whole`` (each sends and adds block 0).
    """
    ends, steps = _hosts(n)[0], []
    v, rank = np.arange(ends.size - 1), ends[:-1]
    for k in range((ends.size - 1).bit_length() - 1):
        partner = v ^ (1 << k)
        low = (partner if way == "halve" else v) >> k << k
        first, count = (0, 1) if edges is None else (edges[low], edges[low + (1 << k)] - edges[low])
        steps.append(StepGroup.make(rank, rank[partner], first, count, reduce=way != "double"))
    return tuple(steps[::-1] if way == "halve" else steps)


def _doubling(n: int) -> Steps:
    """Return the steps of an all-gather: guests give their block and get all others."""
    edges, guest = _hosts(n)
    return (
        _visit(n, "in", guest, 1)
        + _exchange(n, "double", edges)
        + _visit(n, "out", (guest + 1) % n, n - 1)
    )


def _guests(n: Any) -> Any:
    """Return 1 where there are guests."""
    return n > 2 ** floor_log2(n)


def _rounds(n: Any) -> Any:
    """Return the steps of an exchange with a visit before and after it."""
    return floor_log2(n) + 2 * _guests(n)


def _most(n: Any) -> Any:
    """Return the part of the array that host 0, which has guests first, moves in a visit and an exchange."""
    p, k = 2 ** floor_log2(n), 2 ** np.arange(31.0).reshape(-1, *[1] * np.ndim(n))
    return _guests(n) + np.where(k < p, k + np.minimum(k, n - p), 0).sum(axis=0) / n


def _even(n: Any) -> Any:
    """Return the same for an array in p equal blocks: (p - 1) / p, and the visit."""
    return _guests(n) + 1 - 2 ** -floor_log2(n)


@algorithm("all_reduce.recursive_doubling", lambda n: (_rounds(n), _rounds(n), ceil_log2(n)))
def all_reduce_whole(n: int, root: int) -> tuple[int, Steps]:
    """Exchange and add the whole array with partners at distance 1, 2, 4, ...: few steps, many bytes."""
    return 1, _visit(n, "in", 0, 1, reduce=True) + _exchange(n, "whole") + _visit(n, "out", 0, 1)


@algorithm(
    "all_reduce.halving_doubling",
    lambda n: (2 * (floor_log2(n) + _guests(n)), 2 * _even(n), _even(n)),
)
def all_reduce(n: int, root: int) -> tuple[int, Steps]:
    """Reduce-scatter by halving, then all-gather by doubling: few steps and, at powers of two, fewest bytes."""
    p = _hosts(n)[0].size - 1
    inner = _exchange(n, "halve", np.arange(p + 1)) + _exchange(n, "double", np.arange(p + 1))
    return p, _visit(n, "in", 0, p, reduce=True) + inner + _visit(n, "out", 0, p)


@algorithm(
    "reduce_scatter.halving_doubling", lambda n: (_rounds(n), _most(n) + _guests(n) / n, _most(n))
)
def reduce_scatter(n: int, root: int) -> tuple[int, Steps]:
    """Exchange and add halves with the farthest partner first, then halves of the half."""
    edges, guest = _hosts(n)
    return n, _visit(n, "in", 0, n, reduce=True) + _exchange(n, "halve", edges) + _visit(
        n, "out", guest, 1
    )


@algorithm("all_gather.halving_doubling", lambda n: (_rounds(n), _most(n), 0))
@algorithm("all_gather.recursive_doubling", lambda n: (_rounds(n), _most(n), 0))
def all_gather(n: int, root: int) -> tuple[int, Steps]:
    """Exchange all blocks so far with partners at distance 1, 2, 4, ...; both names mean this."""
    return n, _doubling(n)


@algorithm(
    "broadcast.halving_doubling", lambda n: (ceil_log2(n) + _rounds(n), (n - 1) / n + _most(n), 0)
)
def broadcast(n: int, root: int) -> tuple[int, Steps]:
    """Send each subtree its blocks, then exchange them by doubling."""
    return n, tree(n, root, "down", 0) + _doubling(n)
