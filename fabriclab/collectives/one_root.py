"""One root: every rank sends to one, which adds and sends back. The naive way, kept as the yardstick.

All transfers of a phase form one step: whether the root's port takes them one after another or at
once is decided by the network. The closed form lets them share the port, which is what textbooks
mean; ``alone`` does not.
"""

from typing import Any

import numpy as np

from fabriclab.collectives._algorithm import Steps, algorithm
from fabriclab.core import StepGroup


def _star(n: int, root: int, way: str, *, whole: int = 0, reduce: bool = False) -> Steps:
    """Return one step between the root and all others, ``way`` in or out: ``whole`` blocks, or the other's own."""
    others: Any = np.delete(np.arange(n), root)
    source, target = (others, root) if way == "in" else (root, others)
    return (StepGroup.make(source, target, 0 if whole else others, whole or 1, reduce=reduce),)


@algorithm(
    "all_reduce.one_root",
    lambda n: (2 * (n > 1), 2 * (n - 1), n - 1),
    alone=lambda n: (2 * (n > 1), 2 * (n > 1), n - 1),
)
def all_reduce(n: int, root: int) -> tuple[int, Steps]:
    """Send all arrays to the root, which adds them and sends the sum to everyone."""
    return 1, _star(n, root, "in", whole=1, reduce=True) + _star(n, root, "out", whole=1)


@algorithm(
    "reduce_scatter.one_root",
    lambda n: (2 * (n > 1), (n + 1) * (n - 1) / n, n - 1),
    alone=lambda n: (2 * (n > 1), (1 + 1 / n) * (n > 1), n - 1),
)
def reduce_scatter(n: int, root: int) -> tuple[int, Steps]:
    """Send all arrays to the root, which adds them and sends each rank its block."""
    return n, _star(n, root, "in", whole=n, reduce=True) + _star(n, root, "out")


@algorithm("barrier.one_root", lambda n: (2 * (n > 1), 0, 0))
@algorithm(
    "all_gather.one_root",
    lambda n: (2 * (n > 1), (n + 1) * (n - 1) / n, 0),
    alone=lambda n: (2 * (n > 1), (1 + 1 / n) * (n > 1), 0),
)
def all_gather(n: int, root: int) -> tuple[int, Steps]:
    """Send all blocks to the root, which sends the whole array to everyone."""
    return n, _star(n, root, "in") + _star(n, root, "out", whole=n)


@algorithm("broadcast.one_root", lambda n: (n > 1, n - 1, 0), alone=lambda n: (n > 1, n > 1, 0))
def broadcast(n: int, root: int) -> tuple[int, Steps]:
    """Send the root's array to every rank."""
    return 1, _star(n, root, "out", whole=1)


@algorithm("reduce.one_root", lambda n: (n > 1, n - 1, n - 1), alone=lambda n: (n > 1, n > 1, n - 1))
def reduce(n: int, root: int) -> tuple[int, Steps]:
    """Send all arrays to the root, which adds them."""
    return 1, _star(n, root, "in", whole=1, reduce=True)


@algorithm("gather.one_root", lambda n: (n > 1, (n - 1) / n, 0), alone=lambda n: (n > 1, (n > 1) / n, 0))
def gather(n: int, root: int) -> tuple[int, Steps]:
    """Send all blocks to the root."""
    return n, _star(n, root, "in")


@algorithm("scatter.one_root", lambda n: (n > 1, (n - 1) / n, 0), alone=lambda n: (n > 1, (n > 1) / n, 0))
def scatter(n: int, root: int) -> tuple[int, Steps]:
    """Send each rank its block from the root."""
    return n, _star(n, root, "out")
