"""Ring: each rank talks to its two neighbours only, one block at a time.

A phase of n - 1 steps is one step group: every repetition moves all block numbers on by one.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.collectives._algorithm import Costs, Steps, algorithm
from fabriclab.core import Ints, StepGroup, frozen


def phase(n: int, *, reduce: bool) -> Steps:
    """Return n - 1 steps: blocks gather their sums and end at their rank (reduce), or start there and go round."""
    rank = np.arange(n)
    first = (rank - 1) % n if reduce else rank
    return (StepGroup.make(rank, (rank + 1) % n, first, reduce=reduce, repeat=n - 1, shift=-1),) if n > 1 else ()


def _orders(n: int, orders: ArrayLike | None) -> Ints:
    """Return the ranks in the order of each ring, (channels, n)."""
    table = np.atleast_2d(np.arange(n) if orders is None else frozen(orders, np.int64, "orders"))
    if table.ndim != 2 or table.shape[1] != n or np.any(np.sort(table, axis=1) != np.arange(n)):
        raise ValueError(f"orders must have each of {n} ranks once per row, as channel_rings gives, got {orders!r}")
    return table


def _cost(n: Any, orders: ArrayLike | None, *, alone: bool = False) -> Costs:
    channels = len(np.atleast_2d(frozen(orders, np.int64, "orders"))) if alone and orders is not None else 1
    return 2 * (n - 1), 2 * (n - 1) / n / channels, (n - 1) / n


@algorithm("all_reduce.ring", _cost, alone=partial(_cost, alone=True))
def all_reduce(n: int, root: int, *, orders: ArrayLike | None = None) -> tuple[int, Steps]:
    """Reduce-scatter round the ring, then all-gather; no rank is special.

    ``orders`` (channels, n) gives each channel a ring of its own, for an equal part of the array.

    References
    ----------
    .. [1] P. Patarasuk, X. Yuan, J. Parallel and Distributed Computing 69(2), 2009, pp. 117-124.
    """
    table = _orders(n, orders)
    rings, place = np.indices(table.shape)
    ends, steps = (table.ravel(), np.roll(table, -1, axis=1).ravel()), []
    # Block k of ring c is number k * channels + c: all rings move on by as many blocks as there are channels.
    for reduce in (True, False) if n > 1 else ():
        first = (place - reduce) % n * len(table) + rings
        steps.append(StepGroup.make(*ends, first.ravel(), reduce=reduce, repeat=n - 1, shift=-len(table)))
    return n * len(table), tuple(steps)


@algorithm("reduce_scatter.ring", lambda n: (n - 1, (n - 1) / n, (n - 1) / n))
def reduce_scatter(n: int, root: int) -> tuple[int, Steps]:
    """Pass partial sums round the ring, until each block ends at its rank."""
    return n, phase(n, reduce=True)


@algorithm("all_gather.ring", lambda n: (n - 1, (n - 1) / n, 0))
def all_gather(n: int, root: int) -> tuple[int, Steps]:
    """Pass every block once round the ring."""
    return n, phase(n, reduce=False)


@algorithm("broadcast.ring", lambda n: (n - 1, n - 1, 0))
def broadcast(n: int, root: int) -> tuple[int, Steps]:
    """Hand the array from rank to rank along a chain; many pipelined segments make it fast."""
    return 1, tuple(StepGroup.make((root + k) % n, (root + k + 1) % n, reduce=False) for k in range(n - 1))


@algorithm("send_recv.direct", lambda n: (n > 1, n > 1, 0))
def send_recv(n: int, root: int) -> tuple[int, Steps]:
    """Send the whole array to the next rank and receive from the one before, all at once, as nccl-tests does."""
    rank = np.arange(n)
    return n, (StepGroup.make(rank, (rank + 1) % n, rank, reduce=False),)
