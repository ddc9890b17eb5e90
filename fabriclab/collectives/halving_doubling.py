"""Recursive doubling and halving: in each step partners at distance 1, 2, 4, ... exchange data.

If n is not a power of two, p is the largest power of two below it, and n - p ranks are guests: each gives its data to
the rank before it, its host, and gets the result from it at the end. Host v is rank v + min(v, n - p), so hosts v,
v + 1, ... and their guests have consecutive ranks and consecutive blocks.

References
----------
.. [1] R. Thakur, R. Rabenseifner, W. Gropp, Int. J. High Performance Computing Applications 19(1),
   2005, pp. 49-66.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.collectives.algorithm import Steps, algorithm, ceil_log2, floor_log2
from fabriclab.collectives.trees import tree
from fabriclab.core import Ints, StepGroup


class Hosts(NamedTuple):
    """Ranks of the p hosts, a power of two, and of their guests."""

    edges: Ints  # (p + 1,) rank of each host, and n after them
    guests: Ints  # (n - p,) rank of each guest


def _hosts(n: int) -> Hosts:
    """Return which of n ranks are hosts and which are guests."""
    p = 1 << n.bit_length() - 1
    host = np.arange(p + 1)
    return Hosts(edges=host + np.minimum(host, n - p), guests=2 * np.arange(n - p) + 1)


def _visit(n: int, direction: str, first: ArrayLike, count: int, *, reduce: bool = False) -> Steps:
    """Return the step between guests and hosts, with ``direction`` in or out; no step if there are no guests."""
    guest = _hosts(n).guests
    if not guest.size:
        return ()
    host = guest - 1
    if direction == "in":
        return (StepGroup.make(guest, host, first, count, reduce=reduce),)
    return (StepGroup.make(host, guest, first, count, reduce=reduce),)


def _exchange(n: int, kind: str, edges: Ints | None = None) -> Steps:
    """Return log2 p steps in which hosts exchange data; host v is responsible for blocks edges[v]..edges[v + 1] - 1.

    ``kind`` is ``double`` (each host sends all blocks that it has, to the closest partner first), ``halve`` (each sends
    the blocks that the partner keeps and adds, to the farthest partner first), or ``whole`` (each sends and adds
    block 0).
    """
    rank = _hosts(n).edges[:-1]
    host = np.arange(rank.size)
    steps = []
    for k in range(rank.size.bit_length() - 1):
        partner = host ^ (1 << k)
        first: ArrayLike = 0
        count: ArrayLike = 1
        if edges is not None:
            holder = (
                partner if kind == "halve" else host
            )  # who has the blocks afterwards, or before
            low = holder >> k << k  # the first of 2^k hosts
            first = edges[low]
            count = edges[low + (1 << k)] - first
        steps.append(StepGroup.make(rank, rank[partner], first, count, reduce=kind != "double"))
    if kind == "halve":
        steps.reverse()
    return tuple(steps)


def _doubling(n: int) -> Steps:
    """Return the steps of an all-gather, in which guests give their block and get all others."""
    hosts = _hosts(n)
    steps = _visit(n, "in", hosts.guests, 1)
    steps += _exchange(n, "double", hosts.edges)
    steps += _visit(n, "out", (hosts.guests + 1) % n, n - 1)
    return steps


def _guests(n: Any) -> Any:
    """Return 1 if there are guests, else 0, for each number of ranks."""
    return n > 2 ** floor_log2(n)


def _rounds(n: Any) -> Any:
    """Return the number of steps of an exchange, with steps between guests and hosts before and after it."""
    return floor_log2(n) + 2 * _guests(n)


def _most(n: Any) -> Any:
    """Return the part of the array that host 0, the first to have a guest, moves with its guest and in an exchange."""
    p = 2 ** floor_log2(n)
    hosts = 2 ** np.arange(31.0)  # hosts whose blocks move in each exchange
    hosts = hosts.reshape(-1, *[1] * np.ndim(n))
    blocks = np.where(hosts < p, hosts + np.minimum(hosts, n - p), 0)  # with those of guests
    return _guests(n) + blocks.sum(axis=0) / n


def _even(n: Any) -> Any:
    """Return the same for an array of p equal blocks: (p - 1) / p, and the whole array if there are guests."""
    return _guests(n) + 1 - 2 ** -floor_log2(n)


@algorithm("all_reduce.recursive_doubling", lambda n: (_rounds(n), _rounds(n), ceil_log2(n)))
def all_reduce_whole(n: int, root: int) -> tuple[int, Steps]:
    """Exchange and add the whole array with partners at distance 1, 2, 4, ..., in few steps with many bytes."""
    steps = _visit(n, "in", 0, 1, reduce=True)
    steps += _exchange(n, "whole")
    steps += _visit(n, "out", 0, 1)
    return 1, steps


@algorithm(
    "all_reduce.halving_doubling",
    lambda n: (2 * (floor_log2(n) + _guests(n)), 2 * _even(n), _even(n)),
)
def all_reduce(n: int, root: int) -> tuple[int, Steps]:
    """Reduce-scatter by halving, then all-gather by doubling: few steps and, for powers of two, the fewest bytes."""
    p = _hosts(n).edges.size - 1
    edges = np.arange(p + 1)  # a block for each host
    steps = _visit(n, "in", 0, p, reduce=True)
    steps += _exchange(n, "halve", edges)
    steps += _exchange(n, "double", edges)
    steps += _visit(n, "out", 0, p)
    return p, steps


@algorithm(
    "reduce_scatter.halving_doubling", lambda n: (_rounds(n), _most(n) + _guests(n) / n, _most(n))
)
def reduce_scatter(n: int, root: int) -> tuple[int, Steps]:
    """Exchange and add one half with the farthest partner, then half of what is left with the next one, and so on."""
    hosts = _hosts(n)
    steps = _visit(n, "in", 0, n, reduce=True)
    steps += _exchange(n, "halve", hosts.edges)
    steps += _visit(n, "out", hosts.guests, 1)
    return n, steps


@algorithm("all_gather.halving_doubling", lambda n: (_rounds(n), _most(n), 0))
@algorithm("all_gather.recursive_doubling", lambda n: (_rounds(n), _most(n), 0))
def all_gather(n: int, root: int) -> tuple[int, Steps]:
    """Exchange all blocks received so far with partners at distance 1, 2, 4, ...; registered under two names."""
    return n, _doubling(n)


@algorithm(
    "broadcast.halving_doubling", lambda n: (ceil_log2(n) + _rounds(n), (n - 1) / n + _most(n), 0)
)
def broadcast(n: int, root: int) -> tuple[int, Steps]:
    """Scatter the blocks down a binomial tree, then all-gather them by doubling."""
    return n, tree(n, root, "down", 0) + _doubling(n)
