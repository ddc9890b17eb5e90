"""Dimension order: along x until it agrees, then along y, and so on."""

import numpy as np

from fabriclab.core import Fabric, Flags, Flows, Ints, Routes, pointer, rows_of
from fabriclab.registry import register
from fabriclab.routing.shortest import Links, Rows, Seed, Ways, follow


def _datelines(fabric: Fabric, flows: Flows, routes: Routes) -> Ints:
    """Return the virtual lane of each entry (E,): 1 from the link that closes a ring on, to the end of its dimension.

    So on lane 0 no ring is whole, and on lane 1 no way goes as far as round.
    """
    dimension, _, wraps = _grid(fabric)
    along, row, wrapped = dimension[routes.link], rows_of(routes.ptr), wraps[routes.link]
    crossed = np.cumsum(wrapped)
    begins = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(along, prepend=-2) != 0))
    before: Ints = (crossed - wrapped)[begins]
    return crossed - np.repeat(before, np.diff(np.append(begins, row.size)))


@register("routing", "dimension_order", lanes=_datelines)
def by_dimension(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> Rows:
    """Return for each pair the shortest path that takes the lowest dimension first; ``seed`` has no effect.

    For torus, mesh, hypercube and HyperX. Half way round a ring both directions are as short, and the one that
    counts up is taken, as by the engine ``dor`` of OpenSM where each switch has its ports in that order. A mesh needs
    one virtual lane, a torus a second one behind a dateline in each ring [1]_. Where links have failed, the order
    holds among the shortest ways that are left, and `fabriclab.routing.deadlock` says whether the lanes still do.

    References
    ----------
    .. [1] W. J. Dally, C. L. Seitz, Deadlock-free message routing in multiprocessor interconnection networks,
       IEEE Transactions on Computers C-36(5), 1987.
    """
    dimension, down, _ = _grid(fabric)
    key = (2 * dimension + down) * fabric.n_links + np.arange(fabric.n_links)

    def pick(row: Ints, node: Ints, links: Links) -> Ints:
        first, keys = pointer(links.count)[:-1], key[links.all()]
        least = np.repeat(np.minimum.reduceat(keys, first), links.count)
        return np.flatnonzero(keys == least) - first

    return follow(fabric, ways, source, target, subflows, pick)


def _grid(fabric: Fabric) -> tuple[Ints, Flags, Flags]:
    """Return the dimension of each link (L,), -1 to hosts, whether it counts down, and whether it closes a ring.

    They are read off the coordinates; a fabric that is no grid is refused.
    """
    inner = np.flatnonzero(fabric.transit[fabric.source] & fabric.transit[fabric.target])
    a, b = fabric.source[inner].astype(np.int64), fabric.target[inner]
    step = fabric.coord[b] - fabric.coord[a]
    along = np.argmax(step != 0, axis=1) if step.size else np.zeros(inner.size, dtype=np.int64)
    by, size = (
        step[np.arange(inner.size), along],
        fabric.coord[fabric.transit].max(axis=0, initial=0) + 1,
    )
    pairs = np.unique(a * fabric.n_nodes + b, return_index=True)[1]
    meshed = np.bincount(along[pairs], minlength=size.size) == np.count_nonzero(fabric.transit) * (
        size - 1
    )
    near = (np.abs(by) == 1) | (np.abs(by) == size[along] - 1)
    wrong = np.flatnonzero((np.count_nonzero(step, axis=1) != 1) | ~(near | meshed[along]))
    if wrong.size:
        msg = "dimension_order needs a grid (torus, mesh, hypercube, hyperx): each link changes one coordinate; "
        raise ValueError(
            msg + f"{fabric.link_name(int(inner[wrong[0]]))} does not fit; take updown, or shortest"
        )
    wraps = (np.abs(by) > 1) & ~meshed[along]
    every = (
        np.full(fabric.n_links, -1),
        np.zeros(fabric.n_links, np.bool_),
        np.zeros(fabric.n_links, np.bool_),
    )
    for out, value in zip(every, (along, (by < 0) != wraps, wraps), strict=True):
        out[inner] = value
    return every
