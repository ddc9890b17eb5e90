"""Which ranks form a ring on rails, and how often it leaves its leaf switch."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Fabric, Ints, column, expand, whole


def rail_groups(fabric: Fabric) -> list[Ints]:
    """Return the endpoints of each rail in the order of their servers: the data-parallel groups of a rail fabric.

    ``rng.permutation(group)`` shuffles one.
    """
    order = np.lexsort((fabric.server, fabric.rail))
    return np.split(order, np.flatnonzero(np.diff(fabric.rail[order])) + 1)


def leaf_of(fabric: Fabric) -> Ints:
    """Return the leaf switch above each endpoint, (R,), -1 where there is none.

    It is the nearest node of kind ``leaf`` on the way out of the server; where several are as near, the
    one on the endpoint's rail, and then the one with the lowest number.

    Raises
    ------
    ValueError
        If the fabric has no nodes of kind ``leaf``.
    """
    is_leaf = np.isin(np.arange(fabric.n_nodes), fabric.nodes("leaf"))
    has_rail = "rail" in fabric.coord_names
    leaf_rail = fabric.coord[:, fabric.coord_names.index("rail")] if has_rail else np.full(fabric.n_nodes, -1)
    ptr, links = fabric.out
    found = np.full(fabric.n_ranks, -1, dtype=np.int64)
    rank, node = np.arange(fabric.n_ranks), fabric.endpoint.astype(np.int64)
    seen = rank * fabric.n_nodes + node
    while rank.size:
        degree = ptr[node + 1] - ptr[node]
        rank, node = np.repeat(rank, degree), fabric.target[links[expand(ptr[node], degree)]].astype(np.int64)
        hit = np.flatnonzero(is_leaf[node])
        # Written from the worst choice to the best, so that the best stays.
        order = np.lexsort((-node[hit], leaf_rail[node[hit]] == fabric.rail[rank[hit]]))
        found[rank[hit][order]] = node[hit][order]
        inner = fabric.transit[node] & ~is_leaf[node] & (found[rank] < 0)
        key = np.setdiff1d(rank[inner] * fabric.n_nodes + node[inner], seen)
        seen = np.concatenate([seen, key])
        rank, node = key // fabric.n_nodes, key % fabric.n_nodes
    return found


def channel_rings(n_ranks: int, per_server: int, *, alternate: bool = False) -> Ints:
    """Return a ring for each GPU of a server, (per_server, n_ranks): ring c comes into every server at its GPU c.

    The ring goes through the server and leaves it at the GPU before c, so it changes rails between servers, as
    NCCL_CROSS_NIC=1 allows [1]_. With ``alternate`` every second server is passed the other way round, so that rails
    are kept but for the last cable of an odd number of servers, as with NCCL_CROSS_NIC=2. With =0 a ring leaves every
    server by the NIC by which it came in: that is no other order but another way, routing "pxn" on the first order,
    where the GPU before c hands over to GPU c.

    References
    ----------
    .. [1] NVIDIA, NCCL user guide, environment variables; rings alternate in NVIDIA/nccl, src/graph/connect.cc.

    Examples
    --------
    >>> channel_rings(8, 4, alternate=True)[1].tolist()
    [1, 2, 3, 0, 4, 7, 6, 5]
    """
    n, g = units.count(n_ranks, "n_ranks"), units.count(per_server, "per_server")
    if n % g:
        raise ValueError(f"n_ranks must be a multiple of per_server, got {n} and {g}")
    ring, server, place = np.indices((g, n // g, g))
    place = np.where(units.flag(alternate, "alternate") & (server % 2 == 1), g - 1 - place, place)
    return np.reshape(server * g + (ring + place) % g, (g, n))


def spine_crossings(fabric: Fabric, order: ArrayLike) -> int:
    """Return how many hops of a ring over the endpoints ``order`` leave their server and their leaf switch.

    Parameters
    ----------
    order : array_like, shape (n,) or (G, n)
        Endpoints in ring order, the last beside the first; several rows are several rings.
    """
    given = np.atleast_2d(column(order, "order"))
    rings = whole(given, "order", (-1, -1), "endpoints, each ring a row", fabric.n_ranks)
    leaf, server = leaf_of(fabric)[rings], fabric.server[rings]
    return int(np.sum((leaf != np.roll(leaf, -1, axis=1)) & (server != np.roll(server, -1, axis=1))))
