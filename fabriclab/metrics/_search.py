"""Where ranks enter the network: what all measures share, beside the search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric
from fabriclab.routing._search import FAR, Search
from fabriclab.routing._ways import Ints

__all__ = ["FAR", "Ints", "Search", "check_ranks", "doors", "outside"]


def check_ranks(fabric: Fabric) -> int:
    """Return the number of ranks, or refuse fewer than two."""
    if fabric.n_ranks < 2:
        msg = f"fabric must have at least 2 ranks, got {fabric.n_ranks}; take a larger one"
        raise ValueError(msg)
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


def outside(fabric: Fabric) -> NDArray[np.bool_]:
    """Return which links lead from one server to another, or to what is in no server, (L,); if none does, all."""
    names = fabric.coord_names
    server = fabric.coord[:, names.index("server")] if "server" in names else np.full(fabric.n_nodes, -1)
    out: NDArray[np.bool_] = (server[fabric.source] != server[fabric.target]) | (server[fabric.source] < 0)
    return out if out.any() else ~out
