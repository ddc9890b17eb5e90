"""Dimension-order routing: along x until the x of the target is reached, then along y, and so on."""

from typing import NamedTuple

import numpy as np

from fabriclab.core import Fabric, Flags, Flows, Ints, Routes, pointer, rows_of
from fabriclab.registry import register
from fabriclab.routing.shortest import Links, PairRoutes, Paths, Seed, follow


class RankGrid(NamedTuple):
    """Dimension and direction of the links of a grid: arrays with one entry per link of the fabric, (L,)."""

    dimension: Ints  # dimension along which the link leads; -1 for links of hosts
    down: Flags  # whether the link leads towards lower coordinates
    wraps: Flags  # whether the link closes a ring


def _datelines(fabric: Fabric, flows: Flows, routes: Routes) -> Ints:
    """Return the virtual lane of each entry, (E,): 1 from the link that closes a ring to the end of that dimension.

    So no ring is complete on lane 0, and on lane 1 no path goes all around a ring.
    """
    grid = _grid(fabric)
    dimension = grid.dimension[routes.link]  # (E,)
    wraps = grid.wraps[routes.link]  # (E,)
    row = rows_of(routes.ptr)  # (E,)

    # A stretch is the part of a row in one dimension. Lane = number of closing links since the stretch began.
    new_row = np.diff(row, prepend=-1) != 0
    new_dimension = np.diff(dimension, prepend=-2) != 0
    begins = np.flatnonzero(new_row | new_dimension)
    length = np.diff(np.append(begins, row.size))
    closures = np.cumsum(wraps)
    closures_before: Ints = (closures - wraps)[begins]  # before each stretch
    return closures - np.repeat(closures_before, length)


@register("routing", "dimension_order", lanes=_datelines)
def by_dimension(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Take for each pair the shortest path that finishes one dimension before the next, lowest dimension first.

    For torus, mesh, hypercube and HyperX. If the target is half a ring away, both directions are equally short, and the
    path takes the direction of rising coordinates, as OpenSM's engine ``dor`` does if every switch has its ports in
    that order. A mesh needs one virtual lane; a torus needs a second one behind a dateline in each ring [1]_. Where
    links have failed, the order applies to the shortest paths that are left, and `fabriclab.routing.deadlock` tells
    whether the lanes still suffice. ``seed`` has no effect.

    References
    ----------
    .. [1] W. J. Dally, C. L. Seitz, Deadlock-free message routing in multiprocessor interconnection networks,
       IEEE Transactions on Computers C-36(5), 1987.
    """
    grid = _grid(fabric)
    # Lowest dimension first, then up before down, then the lowest link number.
    key = (2 * grid.dimension + grid.down) * fabric.n_links + np.arange(fabric.n_links)  # (L,)

    def pick(row: Ints, node: Ints, links: Links) -> Ints:
        """Return the index of the link with the smallest key among the links of each row."""
        begins = pointer(links.count)[:-1]
        keys = key[links.all()]
        least = np.repeat(np.minimum.reduceat(keys, begins), links.count)
        return np.flatnonzero(keys == least) - begins

    return follow(fabric, paths, source, target, subflows, pick)


def _grid(fabric: Fabric) -> RankGrid:
    """Return the dimension and direction of each link from the coordinates; refuse a fabric that is not a grid."""
    transit = fabric.transit
    inner = np.flatnonzero(transit[fabric.source] & transit[fabric.target])  # (I,) links
    start = fabric.source[inner].astype(np.int64)
    end = fabric.target[inner]
    step = fabric.coord[end] - fabric.coord[start]  # (I, dimensions)
    if step.size:
        dimension = np.argmax(step != 0, axis=1)
    else:
        dimension = np.zeros(inner.size, dtype=np.int64)
    by = step[np.arange(inner.size), dimension]  # (I,) by how much the coordinate changes
    size = fabric.coord[transit].max(axis=0, initial=0) + 1  # (dimensions,)

    # A dimension is fully meshed if each node has a link to all others along it (HyperX). Parallel links count once.
    pairs = np.unique(start * fabric.n_nodes + end, return_index=True)[1]
    links_along = np.bincount(dimension[pairs], minlength=size.size)
    meshed = links_along == np.count_nonzero(transit) * (size - 1)

    # Else a link leads to a neighbour, or closes a ring: its coordinate changes by 1, or by size - 1.
    near = (np.abs(by) == 1) | (np.abs(by) == size[dimension] - 1)
    one_coordinate = np.count_nonzero(step, axis=1) == 1
    wrong = np.flatnonzero(~one_coordinate | ~(near | meshed[dimension]))
    if wrong.size:
        msg = "dimension_order needs a grid (torus, mesh, hypercube, hyperx): each link changes one coordinate; "
        name = fabric.link_name(int(inner[wrong[0]]))
        raise ValueError(msg + f"{name} does not fit; take updown, or shortest")

    closes_ring = (np.abs(by) > 1) & ~meshed[dimension]
    grid = RankGrid(
        dimension=np.full(fabric.n_links, -1),
        down=np.zeros(fabric.n_links, np.bool_),
        wraps=np.zeros(fabric.n_links, np.bool_),
    )
    grid.dimension[inner] = dimension
    grid.down[inner] = (by < 0) != closes_ring  # closing links: the reverse
    grid.wraps[inner] = closes_ring
    return grid
