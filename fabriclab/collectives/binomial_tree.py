"""Binomial tree: the number of ranks that have the data doubles in every step.

References
----------
.. [1] R. Thakur, R. Rabenseifner, W. Gropp, Int. J. High Performance Computing Applications 19(1),
   2005, pp. 49-66; scatter and all-gather as a broadcast stand there under van de Geijn's name.
"""

import numpy as np

from fabriclab.collectives._algorithm import Steps, algorithm, ceil_log2
from fabriclab.collectives.ring import phase
from fabriclab.core import StepGroup


def tree(n: int, root: int, way: str, *, whole: int = 0, reduce: bool = False) -> Steps:
    """Return the steps of a tree, ``way`` up or down: ``whole`` blocks each, or the blocks of the subtree below.

    With ranks counted from the root, the subtree of a child at distance 2^k holds the 2^k ranks from it
    on, so its blocks follow each other (modulo n).
    """
    steps = []
    for k in reversed(range((n - 1).bit_length())):
        parent = np.arange(0, n - (1 << k), 2 << k)
        child = parent + (1 << k)
        below = np.minimum(1 << k, n - child)
        parent, child = (parent + root) % n, (child + root) % n
        source, target = (parent, child) if way == "down" else (child, parent)
        steps.append(StepGroup.make(source, target, 0 if whole else child, whole or below, reduce=reduce))
    return tuple(steps if way == "down" else steps[::-1])


@algorithm("all_reduce.binomial_tree", lambda n: (2 * ceil_log2(n), 2 * ceil_log2(n), ceil_log2(n)))
def all_reduce(n: int, root: int) -> tuple[int, Steps]:
    """Reduce the whole array up a tree, then broadcast it down."""
    return 1, tree(n, root, "up", whole=1, reduce=True) + tree(n, root, "down", whole=1)


@algorithm("reduce_scatter.binomial_tree", lambda n: (2 * ceil_log2(n), ceil_log2(n) + (n - 1) / n, ceil_log2(n)))
def reduce_scatter(n: int, root: int) -> tuple[int, Steps]:
    """Reduce the whole array up a tree, then send each subtree its blocks."""
    return n, tree(n, root, "up", whole=n, reduce=True) + tree(n, root, "down")


@algorithm("barrier.binomial_tree", lambda n: (2 * ceil_log2(n), 0, 0))
@algorithm("all_gather.binomial_tree", lambda n: (2 * ceil_log2(n), (n - 1) / n + ceil_log2(n), 0))
def all_gather(n: int, root: int) -> tuple[int, Steps]:
    """Gather the blocks up a tree, then broadcast the whole array down."""
    return n, tree(n, root, "up") + tree(n, root, "down", whole=n)


@algorithm("broadcast.binomial_tree", lambda n: (ceil_log2(n), ceil_log2(n), 0))
def broadcast(n: int, root: int) -> tuple[int, Steps]:
    """Send the whole array down a tree."""
    return 1, tree(n, root, "down", whole=1)


@algorithm("broadcast.scatter_all_gather", lambda n: (ceil_log2(n) + n - 1, 2 * (n - 1) / n, 0))
def scatter_all_gather(n: int, root: int) -> tuple[int, Steps]:
    """Send each subtree its blocks, then pass every block once round the ring."""
    return n, tree(n, root, "down") + phase(n, reduce=False)


@algorithm("reduce.binomial_tree", lambda n: (ceil_log2(n), ceil_log2(n), ceil_log2(n)))
def reduce(n: int, root: int) -> tuple[int, Steps]:
    """Add the whole array up a tree."""
    return 1, tree(n, root, "up", whole=1, reduce=True)


@algorithm("gather.binomial_tree", lambda n: (ceil_log2(n), (n - 1) / n, 0))
def gather(n: int, root: int) -> tuple[int, Steps]:
    """Send the blocks of each subtree up a tree."""
    return n, tree(n, root, "up")


@algorithm("scatter.binomial_tree", lambda n: (ceil_log2(n), (n - 1) / n, 0))
def scatter(n: int, root: int) -> tuple[int, Steps]:
    """Send each subtree its blocks down a tree."""
    return n, tree(n, root, "down")
