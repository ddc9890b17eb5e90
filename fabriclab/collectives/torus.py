"""Rings along the dimensions of a grid of ranks: bucket, torus, and the hierarchical all-reduce with two levels.

References
----------
.. [1] E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn, Concurrency and Computation 19(13), 2007, pp. 1749-1783.
.. [2] M. Barnett et al., Proc. Scalable High Performance Computing Conference, 1994, pp. 357-364 (bucket).
"""

from collections.abc import Sequence
from functools import partial
from math import isqrt, prod

import numpy as np

from fabriclab import units
from fabriclab.collectives.algorithm import Costs, Steps, algorithm, each, server_size
from fabriclab.core import StepGroup, check_memory

Shape = Sequence[int] | None
_BYTES = 32  # peak per transfer of a torus, measured and rounded up; a test checks it


def _shape(n: int, shape: Shape) -> tuple[int, ...]:
    """Return the shape of the grid, unless given the most square one in two dimensions; refuse one of other size."""
    if shape is None:
        rows = max(a for a in range(1, isqrt(n) + 1) if n % a == 0)
        return rows, n // rows
    sides = tuple(units.count(side, "shape") for side in np.atleast_1d(shape))
    if prod(sides) != n:
        raise ValueError(
            f"shape must have {n} ranks, one each, got {sides} with {prod(sides)}; a ring needs no shape"
        )
    return sides


def _grid(shape: tuple[int, ...], dims: Sequence[int], part: int = 0, direction: int = 1) -> Steps:
    """Return reduce-scatters along the dimensions in order, then all-gathers back in reverse order.

    Each reduce-scatter works on the blocks that the one before has left. Rank numbers run over the last dimension
    first. The steps move blocks n * part to n * part + n - 1.
    """
    n = prod(shape)
    rank = np.arange(n)
    place = np.unravel_index(rank, shape)
    base = np.full(n, n * part)  # first block that a rank still reduces
    left = n  # number of these blocks
    there: list[StepGroup] = []
    back: list[StepGroup] = []
    for dim in dims:
        side = shape[dim]
        at = place[dim]
        neighbour = list(place)
        neighbour[dim] = (at + direction) % side
        window = left
        left //= side
        if side > 1:
            ring = partial(
                StepGroup.make,
                rank,
                np.ravel_multi_index(neighbour, shape),
                count=left,
                repeat=side - 1,
                shift=-direction * left,
                window=window,
            )
            there.append(ring(first=base + (at - direction) % side * left, reduce=True))
            back.append(ring(first=base + at * left, reduce=False))
        base = base + at * left
    return (*there, *reversed(back))


def _cost(n: int, shape: Shape) -> tuple[float, float, float]:
    """Return the costs of a reduce-scatter along each dimension and the all-gathers back."""
    steps = 2 * sum(side - 1 for side in _shape(n, shape))
    return steps, 2 * (n - 1) / n, (n - 1) / n


@algorithm("all_reduce.bucket", each(_cost))
def bucket(n: int, root: int, *, shape: Shape = None) -> tuple[int, Steps]:
    """Reduce-scatter along the rings of one dimension after another, last dimension first, then all-gather back."""
    grid = _shape(n, shape)
    return n, _grid(grid, range(len(grid))[::-1])


def _servers(n: int, per_server: int | None) -> tuple[int, int]:
    """Return the shape of the grid: number of servers, and ranks per server."""
    g = server_size(n, per_server, "all_reduce ring")
    return n // g, g


def _hierarchical(n: int, per_server: int | None) -> Costs:
    """Return the costs of rings within servers and along rails."""
    return _cost(n, _servers(n, per_server))


@algorithm("all_reduce.hierarchical", each(_hierarchical))
def hierarchical(n: int, root: int, *, per_server: int | None = None) -> tuple[int, Steps]:
    """Reduce-scatter within each server, all-reduce along each rail, all-gather within each server, all by rings.

    A server has ``per_server`` consecutive ranks; the largest divisor of n up to 8 unless given. With m servers a NIC
    sends 2 (m - 1) / m times its part S / per_server, so the bus bandwidth can exceed the rate of a NIC.
    """
    return n, _grid(_servers(n, per_server), (1, 0))


@algorithm("all_reduce.torus", each(_cost))
def torus(n: int, root: int, *, shape: Shape = None) -> tuple[int, Steps]:
    """Run one bucket all-reduce per link of a rank at the same time, so that all links of the torus are busy.

    Each bucket reduces its own part of the array and begins along its own link. On a torus with equal sides each link
    carries one part at any time; with unequal sides parts meet on the longer ones.
    """
    grid = _shape(n, shape)
    dims = list(range(len(grid)))
    turns = []  # order of the dimensions, and direction around the rings
    for dim in dims:
        order = dims[dim:] + dims[:dim]
        turns += [(order, 1), (order, -1)]

    n_blocks = n * len(turns)
    steps = int(_cost(n, shape)[0])
    size = n_blocks * steps * _BYTES
    check_memory(size, f"a torus {grid}, step by step", "take fewer ranks, or all_reduce bucket")

    parts = []  # the steps of each part; all parts run at the same time
    for part, (order, direction) in enumerate(turns):
        flat: list[StepGroup] = []
        for group in _grid(grid, order, part, direction):
            flat += group.steps(n_blocks)
        parts.append(flat)
    return n_blocks, tuple(StepGroup.together(step) for step in zip(*parts, strict=True))
