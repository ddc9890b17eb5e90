"""Twisted torus: the cables that close the short rings end further on along the long dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.topologies._clos import Parts
from fabriclab.topologies._direct import assemble, check, coordinates, family, sizes

__all__ = ["twisted_torus"]


@family("twisted_torus", small={"shape": (2, 4)})
def twisted_torus(shape: Sequence[int], hosts: int = 0, shift: int | None = None, *, parts: Parts) -> Fabric:
    """Return a torus with sides k and 2k in which each wrap of a short side shifts every long side, by k.

    With n nodes: one cable per dimension and node, degree 2 per dimension, as in the torus, and all nodes alike;
    but diameter 12 instead of 16 links for 8 x 8 x 16, and mean 6.98 instead of 8.01 between distinct nodes.
    No closed form of its bisection is used here.

    Parameters
    ----------
    shape : sequence of int
        Nodes along each dimension: k or 2k, with k >= 2, and each of them at least once.
    hosts : int
        As in ``torus``.
    shift : int, optional
        Places along the long sides, k unless given; 0 is the torus (of k > 2). 0..2k - 1
    radix, rate, switch_delay, host_length, switch_length
        As in ``torus``.

    Raises
    ------
    ValueError
        If the sides are not k and 2k, or there is no such shift.

    References
    ----------
    .. [1] J. M. Camara et al., Twisted torus topologies for enhanced interconnection networks, IEEE Transactions
       on Parallel and Distributed Systems 21(12), 2010.
    .. [2] N. P. Jouppi et al., TPU v4, ISCA 2023 (k x k x 2k and k x 2k x 2k).
    """
    side = np.array(sizes(shape), dtype=object)
    k, n = min(side), math.prod(side)
    if k < 2 or set(side) != {k, 2 * k}:
        msg = f"shape must have the sides k and 2k (k >= 2) and no other, such as (8, 8, 16), got {shape!r:.80}"
        raise ValueError(msg)
    by = k if shift is None else units.count(shift, "shift", 0, 2 * k - 1)
    check(n, n * side.size, hosts)
    side = side.astype(np.int64)
    where = coordinates(side.tolist())
    at, number, long = np.array(list(where.values())), np.arange(n), (side > k)[:, None]
    cables = []
    for i in range(side.size):
        to = at.copy()
        to[i] = (to[i] + 1) % side[i]
        if side[i] == k:
            to += by * long * (to[i] == 0)
        cables.append((number, np.ravel_multi_index(tuple(to % side[:, None]), side.tolist())))
    return assemble(parts, hosts, cables, where)
