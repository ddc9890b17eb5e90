"""Switches that add and multicast: aggregation trees (SHARP), and the switches between GPUs (NVLS).

Switches are the participants after the ranks; `lower` places them. An aggregation tree keeps the sum and sends it
down. With NVLS a GPU reads the sum of all copies (multimem.ld_reduce [3]_), or writes to all copies (multimem.st): the
sum passes a GPU between the two, and a port passes S (1 + 1/n) each way.

References
----------
.. [1] R. L. Graham et al., Scalable Hierarchical Aggregation Protocol (SHArP), COMHPC 2016, pp. 1-10.
.. [2] B. Klenk, N. Jiang, G. Thorson, L. Dennison, An In-Network Architecture for Accelerating Shared-Memory
   Multiprocessor Collectives, ISCA 2020, pp. 996-1009.
.. [3] NVIDIA, Parallel Thread Execution ISA, multimem instructions.
"""

import numpy as np

from fabriclab import units
from fabriclab.collectives.algorithm import Costs, Steps, algorithm, each, server_size
from fabriclab.core import Ints, StepGroup

Hops = list[tuple[Ints, Ints]]


def _tree(n: int, radix: int | None) -> Hops:
    """Return the levels of a tree over the ranks, from below: children and their switches, ``radix`` below each."""
    most = max(n, 2) if radix is None else units.count(radix, "radix", 2)
    levels, child, begin = [], np.arange(n), n
    while child.size > 1:
        parent = begin + np.arange(child.size) // most
        levels.append((child, parent))
        child = np.arange(begin, parent[-1] + 1)
        begin += child.size
    return levels


def _depth(n: int, radix: int | None) -> tuple[int, int, int]:
    return 2 * len(_tree(n, radix)), 2 * len(_tree(n, radix)), 0


@algorithm("all_reduce.aggregation_tree", each(_depth), machine="aggregation")
def aggregation_tree(n: int, root: int, *, radix: int | None = None) -> tuple[int, Steps]:
    """Add up a tree of switches and multicast the sum down it: S each way at every port, if pipelined.

    A switch has ``radix`` ranks or switches below it, and one switch all ranks unless given.
    """
    levels = _tree(n, radix)
    up = [StepGroup.make(child, parent, reduce=True) for child, parent in levels]
    return 1, (
        *up,
        *(StepGroup.make(parent, child, reduce=False) for child, parent in reversed(levels)),
    )


@algorithm("broadcast.multicast", each(_depth), machine="aggregation")
def multicast(n: int, root: int, *, radix: int | None = None) -> tuple[int, Steps]:
    """Send the array once up a tree of switches, which copy it to all others on its way down; ``radix`` as above."""
    levels, holder, up, down = _tree(n, radix), root, [], []
    for child, parent in levels:
        above, others = parent[child == holder], child != holder
        up.append(StepGroup.make(holder, above, reduce=False))
        down.append(StepGroup.make(parent[others], child[others], reduce=False))
        holder = int(above[0])
    return 1, (*up, *reversed(down))


@algorithm(
    "all_reduce.nvls_one_shot",
    lambda n: (2 * (n > 1), (n + 1) * (n > 1), 0),
    machine="nvls",
    per_pair=52,
)
def one_shot(n: int, root: int) -> tuple[int, Steps]:
    """Let every GPU read the sum of the whole array: fewest steps, but each port sends the array n times.

    Participant n + r is the switch in its work for the GPU r.
    """
    rank = np.arange(n)
    source, reader = (x.ravel() for x in np.indices((n, n)))
    return 1, (
        StepGroup.make(source, n + reader, reduce=True),
        StepGroup.make(n + rank, rank, reduce=False),
    )


def _between(n: int, g: int, *, nvls: bool = True) -> Steps:
    """Return an all-reduce in servers of g ranks, by NVLS or directly, and by a switch per rail between servers."""
    m, rank = n // g, np.arange(n)
    server, rail = n + rank // g, n + m * nvls + rank % g
    own = rank % g
    read: Steps = (
        StepGroup.make(rank, server, 0, g, reduce=True),
        StepGroup.make(server, rank, own, reduce=False),
    )
    meet = (
        StepGroup.make(rank, rail, own, reduce=True),
        StepGroup.make(rail, rank, own, reduce=False),
    )
    write: Steps = (
        StepGroup.make(rank, server, own, reduce=False),
        StepGroup.make(server, rank, 0, g, reduce=False),
    )
    if not nvls:
        one = np.repeat(rank, g - 1)
        other = one // g * g + (one + np.tile(np.arange(1, g), n)) % g
        read = (StepGroup.make(one, other, other % g, reduce=True),)
        write = (StepGroup.make(one, other, one % g, reduce=False),)
    return (*(read if g > 1 else ()), *(meet if m > 1 else ()), *(write if g > 1 else ()))


@algorithm(
    "all_reduce.nvls_two_shot", lambda n: (4 * (n > 1), (2 + 2 / n) * (n > 1), 0), machine="nvls"
)
def two_shot(n: int, root: int) -> tuple[int, Steps]:
    """Let every GPU read the sum of its block, then write it to all."""
    return n, _between(n, n)


def _nvls_sharp(n: int, per_server: int | None) -> Costs:
    g = server_size(n, per_server, "all_reduce aggregation_tree")
    inside, meet = g > 1, n > g
    return 4 * inside + 2 * meet, (2 + 2 / g) * inside + 2 / g * meet, 0


@algorithm("all_reduce.nvls_sharp", each(_nvls_sharp), machine="aggregation")
def nvls_sharp(n: int, root: int, *, per_server: int | None = None) -> tuple[int, Steps]:
    """Add in each server by NVLS, block by block along the rails by an aggregating switch, and write to all.

    Servers have ``per_server`` ranks that follow each other, up to 8 unless given. Participants after the ranks: the
    switches of the servers, then those of the rails.
    """
    g = server_size(n, per_server, "all_reduce aggregation_tree")
    return g, _between(n, g)


def _collnet(n: int, per_server: int | None) -> Costs:
    g = server_size(n, per_server, "all_reduce aggregation_tree")
    return 2 * (g > 1) + 2 * (n > g), 2 * (g - 1) / g + 2 / g * (n > g), (g - 1) / g


@algorithm("all_reduce.collnet", each(_collnet), machine="aggregation")
def collnet(n: int, root: int, *, per_server: int | None = None) -> tuple[int, Steps]:
    """Let each GPU of a server add its block for the others, add along the rails by an aggregating switch, hand out.

    Without switches that add inside, as NCCL's CollNet. Servers as above; after the ranks, the switches of the rails.
    """
    g = server_size(n, per_server, "all_reduce aggregation_tree")
    return g, _between(n, g, nvls=False)
