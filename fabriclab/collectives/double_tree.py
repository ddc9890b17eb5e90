"""Double binary tree: two trees with half of the array each; a rank that adds in one only sends in the other.

Pipelined in many segments each rank sends and takes in about 2 S, as little as round a ring, in 2 log2 n hops.

References
----------
.. [1] P. Sanders, J. Speck, J. L. Traeff, Parallel Computing 35(12), 2009, pp. 581-594.
.. [2] S. Jeaugey, Massively scale your deep learning training with NCCL 2.4, NVIDIA, 2019; its trees stand in
   NVIDIA/nccl, src/graph/trees.cc.
"""

from typing import Any

import numpy as np

from fabriclab.collectives._algorithm import Steps, algorithm, ceil_log2
from fabriclab.core import StepGroup


def _cost(n: Any) -> tuple[Any, Any, Any]:
    """Per level and way half of the array passes a port, or twice that where a parent has two children."""
    levels, moved = ceil_log2(n), (ceil_log2(n) + ceil_log2(np.ceil(n / 3))) / 2
    return 2 * levels, 2 * moved, moved


@algorithm("all_reduce.double_tree", _cost, alone=lambda n: (2 * ceil_log2(n), ceil_log2(n), _cost(n)[2]))
def all_reduce(n: int, root: int) -> tuple[int, Steps]:
    """Reduce up both trees, level by level, then broadcast down."""
    place = np.arange(1, n)
    bit = place & -place
    parent = (place ^ bit) | (bit << 1)
    parent = np.where(parent < n, parent, place ^ bit)
    # The second tree is the first one seen from the last rank, or shifted by one rank.
    other = np.arange(n)[::-1] if n % 2 == 0 else (np.arange(n) + 1) % n
    up, down = [], []
    for k in range((n - 1).bit_length()):
        level = bit == 1 << k
        child, above = (np.append(x[level], other[x[level]]) for x in (place, parent))
        tree = np.repeat([0, 1], np.count_nonzero(level))
        up.append(StepGroup.make(child, above, tree, reduce=True))
        down.append(StepGroup.make(above, child, tree, reduce=False))
    return 2, (*up, *reversed(down))
