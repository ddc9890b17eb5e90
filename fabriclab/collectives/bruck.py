"""Bruck's algorithm: in ceil(log2 n) steps every rank sends over distances 1, 2, 4, ..., for any number of ranks.

The block of a rank goes down a binomial tree: it reaches distance d in hops that are the bits of d.

References
----------
.. [1] J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, IEEE Transactions on Parallel and Distributed
   Systems 8(11), 1997, pp. 1143-1156.
.. [2] S. Jeaugey, PAT: a new algorithm for all-gather and reduce-scatter operations at scale, arXiv:2506.20252, 2025.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fabriclab.collectives.algorithm import Costs, Steps, algorithm, ceil_log2, each
from fabriclab.core import Ints, StepGroup


def _far_first(n: int) -> Iterator[tuple[int, Ints, Ints, Ints]]:
    """Yield the steps of a tree below each rank, longest hop first: hop, rank, the rank that it reaches, distance."""
    for k in reversed(range((n - 1).bit_length())):
        rank, far = np.meshgrid(np.arange(n), np.arange(1 << k, n, 2 << k), indexing="ij")
        yield 1 << k, rank.ravel(), (rank + far).ravel() % n, far.ravel()


def _cost(n: Any, adds: int = 0) -> Costs:
    """Return the costs of an all-gather, or with ``adds=1`` of a reduce-scatter, where a rank adds what it receives."""
    return ceil_log2(n), (n - 1) / n, adds * (n - 1) / n


def _bits(n: int) -> Costs:
    """Return the costs of an all-to-all, in which a block passes a port once for each bit of its distance."""
    passes = sum(distance.bit_count() for distance in range(n))
    return (n - 1).bit_length(), passes / n, 0


def _backwards(steps: Steps) -> Steps:
    """Turn the steps of an all-gather into a reduce-scatter: reverse their order and directions, and add."""
    backwards = []
    for step in reversed(steps):
        backwards.append(replace(step, source=step.target, target=step.source, reduce=~step.reduce))
    return tuple(backwards)


@algorithm("barrier.dissemination", lambda n: (ceil_log2(n), 0, 0))
@algorithm("all_gather.bruck", _cost)
def all_gather(n: int, root: int) -> tuple[int, Steps]:
    """Send all blocks received so far to the rank at distance 1, 2, 4, ... before; in a barrier blocks are empty."""
    rank = np.arange(n)
    steps = []
    for k in range((n - 1).bit_length()):
        distance = 1 << k
        count = min(distance, n - distance)  # number of blocks that the target lacks
        steps.append(StepGroup.make(rank, (rank - distance) % n, rank, count, reduce=False))
    return n, tuple(steps)


@algorithm("reduce_scatter.bruck", partial(_cost, adds=1))
def reduce_scatter(n: int, root: int) -> tuple[int, Steps]:
    """Run the all-gather backwards and add; half of the array is sent over the longest distance first."""
    return n, _backwards(all_gather(n, root)[1])


@algorithm("all_gather.pat", _cost, per_pair=66)
def pat_all_gather(n: int, root: int) -> tuple[int, Steps]:
    """Send over the longest distance first, so that most bytes go to close ranks; each transfer carries one block.

    NCCL's PAT also limits the number of blocks in a message, which takes more steps.
    """
    steps = []
    for hop, rank, target, _ in _far_first(n):
        steps.append(StepGroup.make((target - hop) % n, target, rank, reduce=False))
    return n, tuple(steps)


@algorithm("reduce_scatter.pat", partial(_cost, adds=1), per_pair=42)
def pat_reduce_scatter(n: int, root: int) -> tuple[int, Steps]:
    """Run PAT's all-gather backwards and add; most bytes are sent first, to close ranks."""
    return n, _backwards(pat_all_gather(n, root)[1])


@algorithm("all_to_all.bruck", each(_bits), per_pair=66)
def all_to_all(n: int, root: int) -> tuple[int, Steps]:
    """Pass blocks on along the bits of their distance: few steps, but a block is sent up to log2 n times."""
    steps = []
    for hop, rank, start, far in _far_first(n):
        count = np.minimum(hop, n - far)
        # Consecutive targets are a range of blocks, or two ranges if they go beyond the last rank.
        over = start + count > n
        low = np.minimum(count, n - start)  # blocks in the first range
        source = (start - hop) % n
        steps.append(
            StepGroup.make(
                np.append(source, source[over]),
                np.append(start, start[over]),
                np.append(rank * n + start, rank[over] * n),
                np.append(low, (count - low)[over]),
                reduce=False,
            )
        )
    return n * n, tuple(steps)
