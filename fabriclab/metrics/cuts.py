"""The least that parts some ranks from all others."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fabriclab.core import Fabric
from fabriclab.core._frozen import check_within, frozen
from fabriclab.metrics._search import Ints

__all__ = ["cut"]

_FINE = 1000  # capacities are counted in thousandths of the smallest, as far as 32 bits reach
_MOST = 2.0**30


def cut(fabric: Fabric, ranks: ArrayLike) -> Ints:
    """Return the links of the least capacity whose loss leaves no way from some ranks to the others.

    Switches stand on the side where the cut is least: by max-flow and min-cut, on capacities rounded to a thousandth
    of the smallest, or to a part in 2^30 of all together if that is more.

    Parameters
    ----------
    fabric : Fabric
        Where.
    ranks : array_like of int
        One side; neither none nor all.

    Returns
    -------
    (K,) int64
        Link numbers; ``fabric.capacity[links].sum()`` is what all of that side can send to the other at once.

    Raises
    ------
    ValueError
        If a rank does not exist, or one side is empty.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> cut(topologies.build("fat_tree", k=4), range(8)).size
    8
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    side = np.unique(frozen(list(ranks) if isinstance(ranks, range) else ranks, np.int64, "ranks"))
    check_within(side, "ranks", 0, fabric.n_ranks - 1)
    if not 0 < side.size < fabric.n_ranks:
        msg = f"ranks must be some of {fabric.n_ranks}, not none and not all, got {side.size}"
        raise ValueError(msg)
    n, live = fabric.n_nodes, np.flatnonzero(fabric.capacity > 0)
    rates = fabric.capacity[live]
    units = np.rint(rates * min(_FINE / rates.min(initial=np.inf), _MOST / max(rates.sum(), 1.0)))
    # A rank forbids transit: it stands twice, as a sender and as a receiver.
    ends = fabric.endpoint.astype(np.int64)
    inner = np.isin(np.arange(n), ends) & ~fabric.transit
    target = np.where(inner[fabric.target[live]], fabric.target[live] + n, fabric.target[live]).astype(np.int64)
    other = np.delete(ends, side)
    last = np.where(inner[other], other + n, other)
    much = np.full(fabric.n_ranks, units.sum() + 1)
    rows = np.concatenate([fabric.source[live], np.full(side.size, 2 * n), last])
    columns = np.concatenate([target, ends[side], np.full(other.size, 2 * n + 1)])
    graph = csr_array((np.concatenate([units, much]), (rows, columns)), shape=(2 * n + 2, 2 * n + 2)).astype(np.int32)
    left = graph - maximum_flow(graph, 2 * n, 2 * n + 1).flow
    left.data[left.data < 0] = 0
    left.eliminate_zeros()
    near = np.isin(np.arange(2 * n + 2), breadth_first_order(left, 2 * n, return_predecessors=False))
    out: Ints = live[near[fabric.source[live]] & ~near[target]]
    return out
