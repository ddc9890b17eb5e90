"""The two trees of a double tree, drawn one beside the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fabriclab import units
from fabriclab.collectives.trees import TreeLevel, double_tree_levels
from fabriclab.core import Ints
from fabriclab.texts import text
from fabriclab.views.page import Picture, Table
from fabriclab.views.scene import (
    COLOUR,
    EDGE,
    Layer,
    Scene,
    boxes,
    heading,
    ink_on,
    lines,
    printed,
)

MOST = 16  # ranks, so that each has a box in which its number can be read
_TREE_WIDTH = 384.0  # [px]
_APART = 80.0  # between the two trees, more than between two ranks of one [px]
_LEFT = EDGE  # of the first tree; as much is free on the right of the second [px]
_TITLE = 18.0  # y of the title of a tree [px]
_TOP = 48.0  # y of the highest rank [px]
_LEVEL = 62.0  # from one level to the next [px]
_BOX = 26.0  # width and height of a rank [px]


@dataclass(frozen=True, slots=True)
class BinaryTree:
    """One of the two trees: the edges, and the level of each rank, counted from the bottom."""

    child: Ints  # (n - 1,) ranks
    parent: Ints  # (n - 1,) ranks
    level: Ints  # (n,)

    @property
    def passes_on(self) -> Ints:
        """The ranks that have a child, in rising order."""
        return np.unique(self.parent)


def double_tree(ranks: int = 8, *, finding: str | None = None) -> Picture:
    """Draw the two trees of a double tree, in which each half of an array travels through one tree.

    Ranks stand in the order of their numbers in both trees, so that one finds a rank of the first tree in the second.
    Filled ranks have others below them and pass data on; empty ones are at the bottom.

    Parameters
    ----------
    ranks : int
        Number of ranks. 2..16
    finding : optional
        The sentence above the picture.

    Raises
    ------
    ValueError
        If ``ranks`` is out of its range.

    References
    ----------
    .. [1] P. Sanders, J. Speck, J. L. Traeff, Parallel Computing 35(12), 2009, pp. 581-594.
    """
    n = units.count(ranks, "ranks", 2, MOST)
    return printed(double_tree_scene(n), finding=finding)


def two_trees(n: int) -> tuple[BinaryTree, BinaryTree]:
    """Return both trees over ``n`` ranks."""
    levels = double_tree_levels(n)
    return _tree(levels, 0, n), _tree(levels, 1, n)


def _tree(levels: list[TreeLevel], which: int, n: int) -> BinaryTree:
    """Return the first tree (0) or the second one (1) of a double tree."""
    child = []
    parent = []
    height = np.full(n, len(levels))  # the rank that is nobody's child is the highest
    for number, level in enumerate(levels):
        own = level.tree == which
        child.append(level.child[own])
        parent.append(level.parent[own])
        height[level.child[own]] = number
    return BinaryTree(np.concatenate(child), np.concatenate(parent), height)


def double_tree_scene(n: int) -> Scene:
    """Return both trees side by side, and a table of what each rank is in them."""
    trees = two_trees(n)
    highest = len(double_tree_levels(n))
    layers: dict[str, Layer] = {}
    roles: dict[str, list[str]] = {}
    titles = [text("double_tree.first"), text("double_tree.second")]
    for place, (title, tree) in enumerate(zip(titles, trees, strict=True)):
        left = _LEFT + (_TREE_WIDTH + _APART) * place
        for part, layer in _tree_layers(tree, title, left, highest).items():
            layers[f"{part} {place}"] = layer
        roles[title] = _roles(tree, n)

    bottoms = [np.setdiff1d(np.arange(n), tree.passes_on) for tree in trees]
    said = text(
        "double_tree.said",
        first=", ".join(map(str, bottoms[0])),
        second=", ".join(map(str, bottoms[1])),
    )
    height = _TOP + _LEVEL * highest + _BOX + 8
    table = Table({"rank": np.arange(n), **roles})
    width = 2 * (_LEFT + _TREE_WIDTH) + _APART
    hint = text("double_tree.hint")
    return Scene(said, table, layers, height, alt=said, hint=hint, width=width)


def _roles(tree: BinaryTree, n: int) -> list[str]:
    """Return for each rank where it stands, and who is below it."""
    roles = []
    for rank in range(n):
        below = np.sort(tree.child[tree.parent == rank])
        above = tree.parent[tree.child == rank]
        if below.size == 0:
            roles.append(text("double_tree.bottom", above=above[0]))
            continue
        names = text("double_tree.and").join(map(str, below))
        if above.size == 0:
            roles.append(text("double_tree.top", below=names))
        else:
            roles.append(text("double_tree.middle", above=above[0], below=names))
    return roles


def _tree_layers(tree: BinaryTree, title: str, left: float, highest: int) -> dict[str, Layer]:
    """Return the layers of one tree: title, edges and ranks."""
    n = tree.level.size
    pitch = (_TREE_WIDTH - _BOX) / max(n - 1, 1)
    x = left + _BOX / 2 + pitch * np.arange(n)
    y = _TOP + _BOX / 2 + _LEVEL * (highest - tree.level)
    edges = [
        np.array([[x[child], y[child]], [x[parent], y[parent]]])
        for child, parent in zip(tree.child, tree.parent, strict=True)
    ]
    passes_on = np.isin(np.arange(n), tree.passes_on)
    fill = np.where(passes_on, COLOUR["tree"], COLOUR["paper"])
    return {
        "title": heading(_TITLE, title, left),
        "edges": lines(edges, width=1.2, colour=COLOUR["edge"]),
        "ranks": boxes(
            x - _BOX / 2,
            y - _BOX / 2,
            _BOX,
            _BOX,
            colour=fill,
            edge=np.full(n, COLOUR["tree"]),
            round=4.0,
            texts=[str(rank) for rank in range(n)],
            ink=ink_on(fill),
            names=[text("double_tree.rank", rank=rank) for rank in range(n)],
            notes=_roles(tree, n),
        ),
    }
