"""In-network reduction by switches: aggregation trees (SHARP), and the switches between GPUs (NVLS).

Switches are the participants after the ranks; `lower` places them on a fabric. In an aggregation tree the sum stays in
the switches and is sent down. With NVLS a GPU reads the sum of all copies (multimem.ld_reduce [3]_) or writes to all
copies (multimem.st). The sum passes through a GPU between the two, so a port carries S (1 + 1/n) in each direction.

References
----------
.. [1] R. L. Graham et al., Scalable Hierarchical Aggregation Protocol (SHArP), COMHPC 2016, pp. 1-10.
.. [2] B. Klenk, N. Jiang, G. Thorson, L. Dennison, An In-Network Architecture for Accelerating Shared-Memory
   Multiprocessor Collectives, ISCA 2020, pp. 996-1009.
.. [3] NVIDIA, Parallel Thread Execution ISA, multimem instructions.
"""

from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.collectives.algorithm import Costs, Steps, algorithm, each, server_size
from fabriclab.collectives.trees import double_tree_costs, rail_levels
from fabriclab.core import Ints, StepGroup

Hops = list[tuple[Ints, Ints]]


def _tree(n: int, radix: int | None) -> Hops:
    """Return the levels of a tree over the ranks, lowest first: children and their switches, ``radix`` per switch."""
    most = max(n, 2) if radix is None else units.count(radix, "radix", 2)
    levels = []
    child = np.arange(n)
    begin = n  # the next switch
    while child.size > 1:
        parent = begin + np.arange(child.size) // most
        levels.append((child, parent))
        child = np.arange(begin, parent[-1] + 1)
        begin += child.size
    return levels


def _depth(n: int, radix: int | None) -> tuple[int, int, int]:
    """Return the costs of sending an array up a tree and down again."""
    steps = 2 * len(_tree(n, radix))
    return steps, steps, 0


@algorithm("all_reduce.aggregation_tree", each(_depth), machine="aggregation")
def aggregation_tree(n: int, root: int, *, radix: int | None = None) -> tuple[int, Steps]:
    """Reduce the array up a tree of switches and multicast the sum down; if pipelined, S per port and direction.

    A switch has ``radix`` ranks or switches below it; a single switch has all ranks unless given.
    """
    levels = _tree(n, radix)
    up = []
    down = []
    for child, parent in levels:
        up.append(StepGroup.make(child, parent, reduce=True))
        down.append(StepGroup.make(parent, child, reduce=False))
    return 1, (*up, *reversed(down))


@algorithm("broadcast.multicast", each(_depth), machine="aggregation")
def multicast(n: int, root: int, *, radix: int | None = None) -> tuple[int, Steps]:
    """Send the array up a tree of switches, which copy it to all other ranks on its way down.

    ``radix`` has the same meaning as for `aggregation_tree`.
    """
    holder = root  # who has the array, on its way up
    up = []
    down = []
    for child, parent in _tree(n, radix):
        above = parent[child == holder]
        others = child != holder
        up.append(StepGroup.make(holder, above, reduce=False))
        down.append(StepGroup.make(parent[others], child[others], reduce=False))
        holder = int(above[0])
    return 1, (*up, *reversed(down))


def _one_shot(n: Any) -> Costs:
    """Return the costs of one-shot NVLS: each port carries the array n times, and once more for the sum."""
    several = n > 1
    return 2 * several, (n + 1) * several, 0


@algorithm("all_reduce.nvls_one_shot", _one_shot, machine="nvls", per_pair=52)
def one_shot(n: int, root: int) -> tuple[int, Steps]:
    """Let every GPU read the sum of the whole array (one-shot NVLS): fewest steps, but each port sends it n times.

    Participant n + r is the switch while it works for GPU r.
    """
    rank = np.arange(n)
    source, reader = (x.ravel() for x in np.indices((n, n)))
    return 1, (
        StepGroup.make(source, n + reader, reduce=True),
        StepGroup.make(n + rank, rank, reduce=False),
    )


def _read_by_switch(rank: Ints, g: int, server: Ints) -> Steps:
    """Let each rank read the sum of its block from the switch of its server, which reads the block from all ranks."""
    return (
        StepGroup.make(rank, server, 0, g, reduce=True),
        StepGroup.make(server, rank, rank % g, reduce=False),
    )


def _write_by_switch(rank: Ints, g: int, server: Ints) -> Steps:
    """Let each rank write its block to the switch of its server, which copies it to all ranks."""
    return (
        StepGroup.make(rank, server, rank % g, reduce=False),
        StepGroup.make(server, rank, 0, g, reduce=False),
    )


def _along_rails(rank: Ints, g: int, rail: Ints) -> Steps:
    """Let the switch of each rail add the blocks of its ranks and send the sum back."""
    return (
        StepGroup.make(rank, rail, rank % g, reduce=True),
        StepGroup.make(rail, rank, rank % g, reduce=False),
    )


def _pairs_in_servers(rank: Ints, g: int) -> tuple[Ints, Ints]:
    """Return each rank g - 1 times, paired with the other ranks of its server."""
    source = np.repeat(rank, g - 1)
    offset = np.tile(np.arange(1, g), rank.size)
    target = source // g * g + (source + offset) % g
    return source, target


def _in_servers_by_nvls(n: int, g: int) -> Steps:
    """Return an all-reduce within servers of g ranks by their switches, and between servers by a switch per rail.

    Participants after the ranks: the switches of the servers, which a server with one rank does not have, then those
    of the rails.
    """
    servers = n // g
    rank = np.arange(n)
    server = n + rank // g
    in_servers = servers if g > 1 else 0
    rail = n + in_servers + rank % g

    steps: Steps = ()
    if g > 1:
        steps += _read_by_switch(rank, g, server)
    if servers > 1:
        steps += _along_rails(rank, g, rail)
    if g > 1:
        steps += _write_by_switch(rank, g, server)
    return steps


def _in_servers_by_ranks(n: int, g: int) -> Steps:
    """Return an all-reduce within servers of g ranks by direct messages, and between servers by a switch per rail.

    Participants after the ranks: the switches of the rails.
    """
    rank = np.arange(n)
    rail = n + rank % g
    source, target = _pairs_in_servers(rank, g)

    steps: Steps = ()
    if g > 1:
        steps += (StepGroup.make(source, target, target % g, reduce=True),)
    if n > g:
        steps += _along_rails(rank, g, rail)
    if g > 1:
        steps += (StepGroup.make(source, target, source % g, reduce=False),)
    return steps


def _two_shot(n: Any) -> Costs:
    """Return the costs of two-shot NVLS: in each shot a port carries the array and one block of it."""
    several = n > 1
    return 4 * several, (2 + 2 / n) * several, 0


@algorithm("all_reduce.nvls_two_shot", _two_shot, machine="nvls")
def two_shot(n: int, root: int) -> tuple[int, Steps]:
    """Let every GPU read the sum of its block, then write it to all GPUs (two-shot NVLS)."""
    return n, _in_servers_by_nvls(n, n)


def _nvls_sharp(n: int, per_server: int | None) -> Costs:
    """Return the costs of NVLS within servers and an aggregating switch per rail."""
    g = server_size(n, per_server, "all_reduce aggregation_tree")
    steps = 0
    moved = 0.0
    if g > 1:
        steps += 4
        moved += 2 + 2 / g
    if n > g:
        steps += 2
        moved += 2 / g
    return steps, moved, 0


@algorithm("all_reduce.nvls_sharp", each(_nvls_sharp), machine="aggregation")
def nvls_sharp(n: int, root: int, *, per_server: int | None = None) -> tuple[int, Steps]:
    """Reduce within each server by NVLS, then along each rail by an aggregating switch, and write the result to all.

    A server has ``per_server`` consecutive ranks; the largest divisor of n up to 8 unless given. Participants after the
    ranks: the switches of the servers, then those of the rails.
    """
    g = server_size(n, per_server, "all_reduce aggregation_tree")
    return g, _in_servers_by_nvls(n, g)


def _nvls_tree(n: int, per_server: int | None) -> Costs:
    """Return the costs of NVLS within servers and two trees of the servers on each rail."""
    g = server_size(n, per_server, "all_reduce double_tree")
    steps = 0
    moved = 0.0
    added = 0.0
    if g > 1:
        steps += 4
        moved += 2 + 2 / g
    if n > g:
        tree_steps, tree_moved, tree_added = double_tree_costs(n // g)
        steps += tree_steps
        moved += tree_moved / g
        added += tree_added / g
    return steps, moved, added


@algorithm("all_reduce.nvls_tree", each(_nvls_tree), machine="nvls")
def nvls_tree(n: int, root: int, *, per_server: int | None = None) -> tuple[int, Steps]:
    """Reduce within each server by NVLS, then along two trees of the servers on each rail, as NCCL's NVLSTree.

    GPU i of a server has block i of the array for its server; the trees of rail i add these blocks, each tree one half
    of them. ``per_server`` has the same meaning as for `nvls_sharp`. Participants after the ranks: the switches of the
    servers.
    """
    g = server_size(n, per_server, "all_reduce double_tree")
    rank = np.arange(n)
    server = n + rank // g
    halves = 2  # of a block, one for each tree
    own = halves * (rank % g)

    read: Steps = ()
    write: Steps = ()
    if g > 1:
        read = (
            StepGroup.make(rank, server, 0, halves * g, reduce=True),
            StepGroup.make(server, rank, own, halves, reduce=False),
        )
        write = (
            StepGroup.make(rank, server, own, halves, reduce=False),
            StepGroup.make(server, rank, 0, halves * g, reduce=False),
        )

    up = []
    down = []
    for level in rail_levels(n // g, g):
        up.append(StepGroup.make(level.child, level.parent, level.tree, reduce=True))
        down.append(StepGroup.make(level.parent, level.child, level.tree, reduce=False))
    return halves * g, (*read, *up, *reversed(down), *write)


def _collnet(n: int, per_server: int | None) -> Costs:
    """Return the costs of direct messages within servers and an aggregating switch per rail."""
    g = server_size(n, per_server, "all_reduce aggregation_tree")
    steps = 0
    moved = 2 * (g - 1) / g
    if g > 1:
        steps += 2
    if n > g:
        steps += 2
        moved += 2 / g
    return steps, moved, (g - 1) / g


@algorithm("all_reduce.collnet", each(_collnet), machine="aggregation")
def collnet(n: int, root: int, *, per_server: int | None = None) -> tuple[int, Steps]:
    """Reduce within each server by direct messages, then along each rail by an aggregating switch, as NCCL's CollNet.

    Every GPU of a server adds one block for all others, and sends them the result at the end; no switch inside a server
    adds. ``per_server`` has the same meaning as for `nvls_sharp`. Participants after the ranks: the switches of the
    rails.
    """
    g = server_size(n, per_server, "all_reduce aggregation_tree")
    return g, _in_servers_by_ranks(n, g)
