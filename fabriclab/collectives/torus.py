"""Rings along the dimensions of a grid of ranks: bucket and torus; two levels of them are the hierarchical all-reduce.

References
----------
.. [1] E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn, Concurrency and Computation 19(13), 2007, pp. 1749-1783.
.. [2] M. Barnett et al., Proc. Scalable High Performance Computing Conference, 1994, pp. 357-364 (bucket).
"""

from collections.abc import Sequence
from math import isqrt, prod

import numpy as np

from fabriclab import units
from fabriclab.collectives.algorithm import Steps, algorithm, each, server_size
from fabriclab.core import StepGroup, check_memory

Shape = Sequence[int] | None
_BYTES = 32  # peak per transfer of a torus, measured and rounded up; a test holds it


def _shape(n: int, shape: Shape) -> tuple[int, ...]:
    """Return the shape, the most square one of two dimensions unless given; refuse one that does not fit."""
    if shape is None:
        rows = max(a for a in range(1, isqrt(n) + 1) if n % a == 0)
        return rows, n // rows
    sides = tuple(units.count(side, "shape") for side in np.atleast_1d(shape))
    if prod(sides) != n:
        raise ValueError(
            f"shape must have {n} ranks, one each, got {sides} with {prod(sides)}; a ring needs no shape"
        )
    return sides


def _grid(shape: tuple[int, ...], dims: Sequence[int], part: int = 0, way: int = 1) -> Steps:
    """Return reduce-scatters along the dimensions in order, each within what the one before has left, and back.

    Rank numbers run over the last dimension first. It is for the blocks n * part to n * part + n - 1.
    """
    n = prod(shape)
    place = np.unravel_index(np.arange(n), shape)
    base, left = np.full(n, n * part), n
    there: list[StepGroup] = []
    back: list[StepGroup] = []
    for dim in dims:
        window, side, at = left, shape[dim], place[dim]
        left //= side
        after = np.ravel_multi_index([*place[:dim], (at + way) % side, *place[dim + 1 :]], shape)
        for steps, ahead, reduce in ((there, way, True), (back, 0, False)):
            first = base + (at - ahead) % side * left
            if side > 1:
                steps.append(
                    StepGroup.make(
                        np.arange(n),
                        after,
                        first,
                        left,
                        reduce=reduce,
                        repeat=side - 1,
                        shift=-way * left,
                        window=window,
                    )
                )
        base = base + at * left
    return (*there, *reversed(back))


def _cost(n: int, shape: Shape) -> tuple[float, float, float]:
    return 2 * sum(s - 1 for s in _shape(n, shape)), 2 * (n - 1) / n, (n - 1) / n


@algorithm("all_reduce.bucket", each(_cost))
def bucket(n: int, root: int, *, shape: Shape = None) -> tuple[int, Steps]:
    """Reduce-scatter along the rings of one dimension after the other, the last first, then all-gather back."""
    grid = _shape(n, shape)
    return n, _grid(grid, range(len(grid))[::-1])


def _servers(n: int, per_server: int | None) -> tuple[int, int]:
    g = server_size(n, per_server, "all_reduce ring")
    return n // g, g


@algorithm("all_reduce.hierarchical", each(lambda n, per_server: _cost(n, _servers(n, per_server))))
def hierarchical(n: int, root: int, *, per_server: int | None = None) -> tuple[int, Steps]:
    """Reduce-scatter in each server, all-reduce along each rail, all-gather in each server: rings on both levels.

    Servers have ``per_server`` ranks that follow each other, up to 8 unless given. A NIC sends 2 (m - 1) / m of its
    part S / per_server in m servers, so the bus bandwidth may exceed the rate of a NIC.
    """
    return n, _grid(_servers(n, per_server), (1, 0))


@algorithm("all_reduce.torus", each(_cost))
def torus(n: int, root: int, *, shape: Shape = None) -> tuple[int, Steps]:
    """Run one bucket all-reduce per link of a rank, each for its part of the array and first along its own link.

    On a torus of equal sides each link carries one part at any time; with other sides parts meet on the longer ones.
    """
    grid = _shape(n, shape)
    dims, steps = list(range(len(grid))), int(_cost(n, shape)[0])
    # order of the dimensions, and way round
    turns = [(dims[d:] + dims[:d], way) for d in dims for way in (1, -1)]
    size, advice = n * len(turns) * steps * _BYTES, "take fewer ranks, or all_reduce bucket"
    check_memory(size, f"a torus {grid}, step by step", advice)
    parts = [_grid(grid, order, part, way) for part, (order, way) in enumerate(turns)]
    flat = [[s for g in groups for s in g.steps(n * len(turns))] for groups in parts]
    return n * len(turns), tuple(StepGroup.together(step) for step in zip(*flat, strict=True))
