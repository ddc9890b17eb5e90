"""Where ranks enter the network: what all measures share, beside the search."""

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric, parts_of
from fabriclab.routing._search import FAR, Search
from fabriclab.routing._ways import Ints

__all__ = ["FAR", "Ints", "Search", "check_ranks", "doors", "joined", "outside"]


def check_ranks(fabric: Fabric) -> int:
    """Return the number of ranks, or refuse fewer than two, and what has no cable."""
    if fabric.n_ranks < 2 or not fabric.n_cables:
        msg = f"fabric must have at least 2 ranks, got {fabric.n_ranks}, and a cable, got {fabric.n_cables}; "
        raise ValueError(msg + "take a larger one")
    return fabric.n_ranks


def doors(fabric: Fabric) -> tuple[Ints, Ints]:
    """Return the switch on which each rank hangs by a single cable, and that link to the rank, (R,) each.

    A rank that lets traffic pass, or with another number of links, is its own door, by no link (-1).
    """
    ends, live, n = fabric.endpoint.astype(np.int64), np.flatnonzero(fabric.capacity > 0), fabric.n_nodes
    last = np.zeros(n, dtype=np.int64)
    last[fabric.target[live]] = live
    link, door = last[ends], fabric.source[last[ends]]
    one = ~fabric.transit[ends] & fabric.transit[door] & (fabric.capacity[link ^ 1] > 0)
    for end in (fabric.source, fabric.target):
        one &= np.bincount(end[live], minlength=n)[ends] == 1
    return np.where(one, door, ends), np.where(one, link, -1)


def joined(fabric: Fabric, *, relay: bool) -> tuple[Ints, Ints, Ints]:
    """Return the part of every node (N,), cables within parts (K,), and on what ranks hang: rank, node, cable (3, M).

    Parts are what nodes that pass traffic on fall into, with cables that work both ways; with ``relay`` GPUs pass on
    what the others of their server have for its NICs. A rank that passes nothing on hangs by each of its cables on a
    node that does; one that does, on itself (cable -1).
    """
    ends = fabric.endpoint
    gpus = [code for code, kind in enumerate(fabric.kinds) if relay and kind == "gpu"]
    passes, rank = fabric.transit | np.isin(fabric.kind, gpus), np.full(fabric.n_nodes, -1)
    rank[ends] = np.arange(ends.size)
    link = np.flatnonzero(np.repeat(fabric.capacity.reshape(-1, 2).min(axis=1) > 0, 2))
    a, b = fabric.source[link], fabric.target[link]
    inner, hangs = passes[a] & passes[b], (rank[a] >= 0) & ~passes[a] & passes[b]
    own, by_cable = ends[passes[ends]], (rank[a[hangs]], b[hangs], link[hangs] // 2)
    on = np.concatenate([by_cable, [rank[own], own, np.full(own.size, -1)]], axis=1)
    return parts_of(fabric.n_nodes, a[inner], b[inner]), link[inner][::2] // 2, on


def outside(fabric: Fabric) -> NDArray[np.bool_]:
    """Return which links lead from one server to another, or to what is in no server, (L,); if none does, all."""
    names = fabric.coord_names
    server = fabric.coord[:, names.index("server")] if "server" in names else np.full(fabric.n_nodes, -1)
    out: NDArray[np.bool_] = (server[fabric.source] != server[fabric.target]) | (server[fabric.source] < 0)
    return out if out.any() else ~out
