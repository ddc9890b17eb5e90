"""Ring: each rank talks to its two neighbours only, one block at a time.

A phase of n - 1 steps is one step group: every repetition moves all block numbers on by one.
"""

from __future__ import annotations

import numpy as np

from fabriclab.collectives._algorithm import Steps, algorithm
from fabriclab.core import StepGroup


def phase(n: int, *, reduce: bool) -> Steps:
    """Return n - 1 steps: blocks gather their sums and end at their rank (reduce), or start there and go round."""
    rank = np.arange(n)
    first = (rank - 1) % n if reduce else rank
    return (StepGroup.make(rank, (rank + 1) % n, first, reduce=reduce, repeat=n - 1, shift=-1),) if n > 1 else ()


@algorithm("all_reduce.ring", lambda n: (2 * (n - 1), 2 * (n - 1) / n, (n - 1) / n))
def all_reduce(n: int, root: int) -> tuple[int, Steps]:
    """Reduce-scatter round the ring, then all-gather; no rank is special.

    References
    ----------
    .. [1] P. Patarasuk, X. Yuan, J. Parallel and Distributed Computing 69(2), 2009, pp. 117-124.
    """
    return n, phase(n, reduce=True) + phase(n, reduce=False)


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
