"""Up*/down*: no way climbs again after it has come down, so no circle of waits can close, on any fabric."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric
from fabriclab.registry import register
from fabriclab.routing._tables import Tables
from fabriclab.routing._ways import Copies, Ints, Rows, Seed, Ways, follow
from fabriclab.routing.d_mod_k import by_digit


@register("routing", "updown")
def updown(fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0) -> Rows:
    """Return for each pair a shortest way that climbs first and then comes down; ``seed`` has no effect.

    Up is nearer to the roots, and of two nodes as near, the one with the lower number. Roots are the top tier of a
    tree; where nodes of the top tier are joined with each other, the one with the lowest number. Of equal ways the
    place of the target chooses, as in ``d_mod_k``; in a whole tree both are the same. Elsewhere ways can be longer
    than the shortest, and most traffic meets near the root.

    References
    ----------
    .. [1] M. D. Schroeder et al., Autonet: a high-speed, self-configuring local area network using point-to-point
       links, IEEE Journal on Selected Areas in Communications 9(8), 1991.
    """
    climbs, n = _climbs(fabric), fabric.n_nodes
    # The first copy is for those who may still climb; links down lead to the second, and there is no way back.
    copies = Copies(
        2 * n,
        np.append(fabric.source, fabric.source + n),
        np.append(fabric.target + n * ~climbs, fabric.target + n),
        np.append(fabric.capacity, np.where(climbs, 0.0, fabric.capacity)),
        np.tile(fabric.transit, 2),
    )
    return follow(fabric, Tables(fabric, copies), source, target, subflows, by_digit(fabric, target, subflows))


def _climbs(fabric: Fabric) -> NDArray[np.bool_]:
    """Return whether each link (L,) leads up."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, dijkstra

    n, transit = fabric.n_nodes, fabric.transit
    inner = np.flatnonzero((fabric.capacity > 0) & transit[fabric.source] & transit[fabric.target])
    source, target = fabric.source[inner], fabric.target[inner]
    joined = coo_array((np.ones(inner.size, np.int8), (source, target)), shape=(n, n)).tocsr()
    parts, part = connected_components(joined, directed=False)
    top = np.full(parts, -1)
    np.maximum.at(top, part[transit], fabric.tier[transit])
    roots = np.flatnonzero(transit & (fabric.tier == top[part]))
    flat = part[source[np.isin(source, roots) & np.isin(target, roots)]]
    alone = np.unique(part[roots], return_index=True)[1]
    roots = roots[~np.isin(part[roots], flat) | np.isin(np.arange(roots.size), alone)]
    far = dijkstra(joined, directed=False, indices=roots, unweighted=True, min_only=True)
    ahead, here = far[fabric.target], far[fabric.source]  # infinite for ends that let nothing pass
    return np.asarray((ahead < here) | ((ahead == here) & (fabric.target < fabric.source)))
