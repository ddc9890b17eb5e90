"""Dimension order: along x until it agrees with that of the target, then along y, and so on."""

from typing import NamedTuple

import numpy as np

from fabriclab.core import Fabric, Flags, Flows, Ints, Routes, pointer, rows_of
from fabriclab.registry import register
from fabriclab.routing.shortest import Links, PairRoutes, Paths, Seed, follow


class RankGrid(NamedTuple):
    """Links of a grid: arrays with an entry for each link of the fabric, (L,)."""

    dimension: Ints  # along which the link leads; -1 for links of hosts
    down: Flags  # whether it counts the coordinate down
    wraps: Flags  # whether it closes a ring


def _datelines(fabric: Fabric, flows: Flows, routes: Routes) -> Ints:
    """Return the virtual lane of each entry (E,): 1 from the link that closes a ring on, to the end of its dimension.

    So no ring is whole on lane 0, and no path goes all the way round on lane 1.
    """
    grid = _grid(fabric)
    dimension = grid.dimension[routes.link]  # (E,)
    wraps = grid.wraps[routes.link]  # (E,)
    row = rows_of(routes.ptr)  # (E,)

    # A stretch is what a row crosses in one dimension. Lane = ring closures since the stretch began.
    new_row = np.diff(row, prepend=-1) != 0
    new_dimension = np.diff(dimension, prepend=-2) != 0
    begins = np.flatnonzero(new_row | new_dimension)
    length = np.diff(np.append(begins, row.size))
    closures = np.cumsum(wraps)
    closures_before: Ints = (closures - wraps)[begins]  # of each stretch
    return closures - np.repeat(closures_before, length)


@register("routing", "dimension_order", lanes=_datelines)
def by_dimension(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Return for each pair the shortest path that takes the lowest dimension first; ``seed`` has no effect.

    For torus, mesh, hypercube and HyperX. Half way round a ring both directions are equally short, and the one that
    counts up is taken, as by the engine ``dor`` of OpenSM where each switch has its ports in that order. A mesh needs
    one virtual lane, a torus a second one behind a dateline in each ring [1]_. Where links have failed, the order
    holds among the shortest paths that are left, and `fabriclab.routing.deadlock` says whether the lanes still do.

    References
    ----------
    .. [1] W. J. Dally, C. L. Seitz, Deadlock-free message routing in multiprocessor interconnection networks,
       IEEE Transactions on Computers C-36(5), 1987.
    """
    grid = _grid(fabric)
    # Lowest dimension first, then up before down, then the lowest link number.
    key = (2 * grid.dimension + grid.down) * fabric.n_links + np.arange(fabric.n_links)  # (L,)

    def pick(row: Ints, node: Ints, links: Links) -> Ints:
        """Return the index of the link with the least key among the links of each row."""
        begins = pointer(links.count)[:-1]
        keys = key[links.all()]
        least = np.repeat(np.minimum.reduceat(keys, begins), links.count)
        return np.flatnonzero(keys == least) - begins

    return follow(fabric, paths, source, target, subflows, pick)


def _grid(fabric: Fabric) -> RankGrid:
    """Return the dimension and direction of each link, read off the coordinates; refuse a fabric that is no grid."""
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

    # A dimension is meshed if each node has a link to all others along it (HyperX). Parallel links count once.
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
    grid.down[inner] = (by < 0) != closes_ring  # a link that closes a ring counts on the other way
    grid.wraps[inner] = closes_ring
    return grid
