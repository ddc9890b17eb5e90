"""Deadlock: whether packets that hold one buffer and wait for the next can wait for each other in a circle."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import registry
from fabriclab.core import Fabric, Flows, Ints, Routes, check_within, expand, rows_of, whole


def lanes(fabric: Fabric, flows: Flows, routes: Routes, method: str) -> Ints:
    """Return the virtual lane that ``method`` uses on each entry of its ``routes``, (E,); 0 where it names none."""
    rule = registry.info("routing", method).get("lanes")
    return np.zeros(routes.link.size, dtype=np.int64) if rule is None else np.asarray(rule(fabric, flows, routes))


def deadlock(fabric: Fabric, routes: Routes, lanes: ArrayLike | None = None) -> tuple[int, ...]:
    """Return links of which each may wait for the next and the last for the first; () if there is no such circle.

    A buffer stands at the end of each link, one for each virtual lane; a packet in it waits for the buffer of the
    next link on its route. Without a circle of such waits no packet waits for ever [1]_. A node that forbids transit
    takes what arrives out of the network (a relay too), so no wait passes it. Leaves out whether traffic fills the
    buffers of a circle at one time: routes with a circle can deadlock, and need not.

    Parameters
    ----------
    fabric : Fabric
        Where.
    routes : Routes
        All that may be on the way at one time.
    lanes : (E,) int, optional
        Virtual lane of each entry of the routes, as `fabriclab.routing.lanes` returns it; one lane unless given.

    Returns
    -------
    tuple of int
        Link numbers in the order of waiting; ``fabric.link_name`` has their names.

    Raises
    ------
    ValueError
        If there is not one lane per entry.

    References
    ----------
    .. [1] W. J. Dally, C. L. Seitz, Deadlock-free message routing in multiprocessor interconnection networks,
       IEEE Transactions on Computers C-36(5), 1987.
    """
    from networkx import DiGraph, find_cycle, from_scipy_sparse_array
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    what, none = "those of routing.lanes(fabric, flows, routes, method)", np.zeros(routes.link.size, int)
    lane = whole(none if lanes is None else lanes, "lanes", none.shape, what)
    check_within(lane, "lanes", 0)
    buffers, at = np.unique(lane * fabric.n_links + routes.link, return_inverse=True)
    before, after = _waits(fabric, routes)
    n = buffers.size
    waits = coo_array((np.ones(before.size, np.int8), (at[before], at[after])), shape=(n, n)).tocsr()
    part = connected_components(waits, connection="strong")[1]
    sizes = np.bincount(part, minlength=1)
    if sizes.max() < 2:
        return ()
    inside = np.flatnonzero(part == np.argmin(np.where(sizes > 1, sizes, n + 1)))
    circle = find_cycle(from_scipy_sparse_array(waits[inside][:, inside], create_using=DiGraph))
    return tuple((buffers[inside[[buffer for buffer, _ in circle]]] % fabric.n_links).tolist())


def _waits(fabric: Fabric, routes: Routes) -> tuple[Ints, Ints]:
    """Return pairs of entries of one row: the first ends where the second begins, and traffic may pass there."""
    row = rows_of(routes.ptr) * fabric.n_nodes
    starts = row + fabric.source[routes.link]
    order = np.argsort(starts, kind="stable")
    ends = row + fabric.target[routes.link]
    low, high = (np.searchsorted(starts[order], ends, side) for side in ("left", "right"))
    count = np.where(fabric.transit[fabric.target[routes.link]], high - low, 0)
    return np.repeat(np.arange(ends.size), count), order[expand(low, count)]
