"""Algorithms through a root: a star, a binomial tree, and a double binary tree, which has two roots.

The star (``one_root``) is the naive algorithm, included for comparison: every rank sends to the root, which adds and
sends back. All transfers of a phase form one step; the network decides whether the root's port takes them one after
another or all at once. In the closed form they share the port, which is what textbooks mean. In a binomial tree the
number of ranks that have the data doubles in every step.

References
----------
.. [1] R. Thakur, R. Rabenseifner, W. Gropp, Int. J. High Performance Computing Applications 19(1),
   2005, pp. 49-66; scatter and all-gather as a broadcast stand there under van de Geijn's name.
.. [2] P. Sanders, J. Speck, J. L. Traeff, Parallel Computing 35(12), 2009, pp. 581-594.
.. [3] S. Jeaugey, Massively scale your deep learning training with NCCL 2.4, NVIDIA, 2019; its trees stand in
   NVIDIA/nccl, src/graph/trees.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fabriclab.collectives.algorithm import (
    Costs,
    Steps,
    algorithm,
    ceil_log2,
    each,
    server_size,
)
from fabriclab.collectives.ring import phase
from fabriclab.core import Ints, StepGroup

# What is sent up to the root, and then down: the whole array (added on its way up), or each rank's own blocks.
_PHASES = {
    "all_reduce": ("whole", "whole"),
    "reduce_scatter": ("whole", "own"),
    "all_gather": ("own", "whole"),
    "barrier": ("own", "whole"),
    "broadcast": ("", "whole"),
    "reduce": ("whole", ""),
    "gather": ("own", ""),
    "scatter": ("", "own"),
}


def star(n: int, root: int, way: str, whole: int) -> Steps:
    """Return one step between the root and all other ranks.

    ``way`` is up or down. Each transfer has ``whole`` blocks, or if that is 0, the other rank's own block.
    """
    others: Any = np.delete(np.arange(n), root)
    if way == "up":
        source, target = others, root
    else:
        source, target = root, others
    first = 0 if whole else others
    adds = way == "up" and whole > 0
    return (StepGroup.make(source, target, first, whole or 1, reduce=adds),)


def tree(n: int, root: int, way: str, whole: int) -> Steps:
    """Return the steps of a binomial tree.

    ``way`` is up or down. Each transfer has ``whole`` blocks, or if that is 0, the blocks of the subtree below it. If
    ranks are counted from the root, the subtree of a child at distance 2^k has the 2^k ranks from the child on, so its
    blocks are consecutive (modulo n).
    """
    steps = []
    for k in reversed(range((n - 1).bit_length())):
        parent = np.arange(0, n - (1 << k), 2 << k)
        child = parent + (1 << k)
        below = np.minimum(1 << k, n - child)
        parent = (parent + root) % n
        child = (child + root) % n
        if way == "down":
            source, target = parent, child
        else:
            source, target = child, parent
        first = 0 if whole else child
        adds = way == "up" and whole > 0
        steps.append(StepGroup.make(source, target, first, whole or below, reduce=adds))
    if way == "up":
        steps.reverse()
    return tuple(steps)


def _through(collective: str, up: str, down: str) -> None:
    """Register a collective for both shapes, star and tree."""
    phases = [(direction, blocks) for direction, blocks in (("up", up), ("down", down)) if blocks]
    has_own = "own" in (up, down)
    # How often the root moves whole arrays, and the own blocks of all ranks; in a barrier nothing has a size.
    wholes = 0
    owns = 0
    if collective != "barrier":
        wholes = [up, down].count("whole")
        owns = [up, down].count("own")

    def both(shape: Callable[..., Steps], n: int, root: int) -> tuple[int, Steps]:
        """Return the steps of both phases, up and down, for one shape."""
        n_blocks = n if has_own else 1
        steps: Steps = ()
        for direction, blocks in phases:
            steps += shape(n, root, direction, n_blocks if blocks == "whole" else 0)
        return n_blocks, steps

    def star_costs(n: Any) -> Costs:
        """Return the costs of `one_root` at the root's port."""
        added = n - 1 if up == "whole" else 0
        return len(phases) * (n > 1), (wholes + owns / n) * (n - 1), added

    def tree_costs(n: Any) -> Costs:
        """Return the costs of `binomial_tree` at the root's port."""
        levels = ceil_log2(n)
        added = levels if up == "whole" else 0
        return len(phases) * levels, wholes * levels + owns * (n - 1) / n, added

    @algorithm(f"{collective}.one_root", star_costs)
    def one_root(n: int, root: int) -> tuple[int, Steps]:
        """Send everything to the root in one step, then everything from the root to the others in one step."""
        return both(star, n, root)

    @algorithm(f"{collective}.binomial_tree", tree_costs)
    def binomial_tree(n: int, root: int) -> tuple[int, Steps]:
        """Send up a binomial tree to the root, level by level, then down from the root."""
        return both(tree, n, root)


for _name, (_up, _down) in _PHASES.items():
    _through(_name, _up, _down)


@algorithm("broadcast.scatter_all_gather", lambda n: (ceil_log2(n) + n - 1, 2 * (n - 1) / n, 0))
def scatter_all_gather(n: int, root: int) -> tuple[int, Steps]:
    """Scatter the blocks down a binomial tree, then pass every block once around the ring."""
    return n, tree(n, root, "down", 0) + phase(n, reduce=False)


def double_tree_costs(n: Any) -> Costs:
    """Return the costs of two complementary trees, each of which carries half of the array.

    On each level, up and down, half of the array passes a port; twice that if the parent has two children.
    """
    levels = ceil_log2(n)
    with_two_children = ceil_log2(np.ceil(n / 3))  # levels
    moved = (levels + with_two_children) / 2
    return 2 * levels, 2 * moved, moved


@algorithm("all_reduce.double_tree", double_tree_costs)
def double_tree(n: int, root: int) -> tuple[int, Steps]:
    """Reduce half of the array up each of two trees, level by level, then broadcast down.

    A rank that adds in one tree only sends in the other. If pipelined in many segments, each rank sends and receives
    about 2 S, as little as in a ring, and data takes only 2 log2 n hops.
    """
    up = []
    down = []
    for level in double_tree_levels(n):
        up.append(StepGroup.make(level.child, level.parent, level.tree, reduce=True))
        down.append(StepGroup.make(level.parent, level.child, level.tree, reduce=False))
    return 2, (*up, *reversed(down))


def _chain_tree(n: int, per_server: int | None) -> Costs:
    """Return the costs of chains in servers and two trees between them, for each GPU of a server."""
    g = server_size(n, per_server, "all_reduce double_tree")
    steps = 2 * (g - 1)
    # In a step of the chains every GPU but one of a channel sends its part; all channels together are even.
    moved = 2 * (g - 1) / g
    added = (g - 1) / g
    if n > g:
        tree_steps, tree_moved, tree_added = double_tree_costs(n // g)
        steps += tree_steps
        moved += tree_moved / g
        added += tree_added / g
    return steps, moved, added


@algorithm("all_reduce.chain_tree", each(_chain_tree))
def chain_tree(n: int, root: int, *, per_server: int | None = None) -> tuple[int, Steps]:
    """Add along a chain in each server, then up two trees of the servers, and return the sum, as NCCL's Tree.

    Channel c has block c of the array. Its chain ends at GPU c of every server, which belongs to the trees of rail c;
    each of these carries one half of the block. ``per_server`` has the same meaning as for `nvls_tree`.
    """
    g = server_size(n, per_server, "all_reduce double_tree")
    servers = n // g
    halves = 2  # of a block, one for each tree
    channel, server = np.indices((g, servers)).reshape(2, -1)

    up = []
    down = []
    for place in range(g - 1, 0, -1):  # places from the end of the chain
        far = server * g + (channel + place) % g
        near = server * g + (channel + place - 1) % g
        up.append(StepGroup.make(far, near, halves * channel, halves, reduce=True))
        down.append(StepGroup.make(near, far, halves * channel, halves, reduce=False))
    for level in rail_levels(servers, g):
        up.append(StepGroup.make(level.child, level.parent, level.tree, reduce=True))
        down.append(StepGroup.make(level.parent, level.child, level.tree, reduce=False))
    return halves * g, (*up, *reversed(down))


def rail_levels(servers: int, rails: int) -> list[TreeLevel]:
    """Return the levels of two trees of the servers on each rail, leaves first.

    Ranks are those of ``rails`` GPUs in each server. The trees of rail r have the numbers 2 r and 2 r + 1.
    """
    rail = np.arange(rails)
    levels = []
    for level in double_tree_levels(servers):
        child = np.add.outer(rail, rails * level.child).ravel()
        parent = np.add.outer(rail, rails * level.parent).ravel()
        tree = np.add.outer(2 * rail, level.tree).ravel()
        levels.append(TreeLevel(child, parent, tree))
    return levels


class TreeLevel(NamedTuple):
    """All edges of one level of both trees, (E,) each."""

    child: Ints
    parent: Ints
    tree: Ints  # 0 or 1


def double_tree_levels(n: int) -> list[TreeLevel]:
    """Return the levels of two complementary binary trees over n ranks, leaves first."""
    place = np.arange(1, n)
    bit = place & -place
    parent = (place ^ bit) | (bit << 1)
    parent = np.where(parent < n, parent, place ^ bit)
    # The second tree is the first one seen from the last rank, or shifted by one rank.
    other = np.arange(n)[::-1] if n % 2 == 0 else (np.arange(n) + 1) % n
    levels = []
    for k in range((n - 1).bit_length()):
        here = bit == 1 << k
        child = np.append(place[here], other[place[here]])
        above = np.append(parent[here], other[parent[here]])
        tree = np.repeat([0, 1], np.count_nonzero(here))
        levels.append(TreeLevel(child, above, tree))
    return levels
