"""Up*/down*: no way climbs again after it has come down, so no circle of waits can close, on any fabric."""

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric, Ints
from fabriclab.registry import register
from fabriclab.routing.d_mod_k import by_digit
from fabriclab.routing.shortest import Copies, Rows, Search, Seed, Tables, Ways, follow


@register("routing", "updown")
def updown(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> Rows:
    """Return for each pair a shortest way that climbs first and then comes down; ``seed`` has no effect.

    Up is nearer to the roots, and of two nodes as near, the one with the lower number. Roots are the top tier of a
    tree; the one with the lowest number, if some of them are joined or damage leaves two ranks without one in common.
    So all ranks that cables working both ways connect have a way. Of equal ways the place of the target chooses, as in
    ``d_mod_k``; in a whole tree both are the same. Elsewhere ways can be longer than the shortest, and most traffic
    meets near the root.

    References
    ----------
    .. [1] M. D. Schroeder et al., Autonet: a high-speed, self-configuring local area network using point-to-point
       links, IEEE Journal on Selected Areas in Communications 9(8), 1991.
    """
    climbs, n = _climbs(fabric), fabric.n_nodes
    # The first copy is for those who may still climb; links down lead to the second, and there is no way back.
    start, end = (
        np.append(fabric.source, fabric.source + n),
        np.append(fabric.target + n * ~climbs, fabric.target + n),
    )
    capacity = np.append(fabric.capacity, np.where(climbs, 0.0, fabric.capacity))
    copies = Copies(2 * n, start, end, capacity, np.tile(fabric.transit, 2))
    return follow(
        fabric, Tables(fabric, copies), source, target, subflows, by_digit(fabric, target, subflows)
    )


def _climbs(fabric: Fabric) -> NDArray[np.bool_]:
    """Return whether each link (L,) leads up."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, dijkstra

    n, transit, live = fabric.n_nodes, fabric.transit, fabric.capacity > 0
    both = live & live[np.arange(fabric.n_links) ^ 1]  # a root must be reached, and reach
    inner = np.flatnonzero(both & transit[fabric.source] & transit[fabric.target])
    source, target = fabric.source[inner], fabric.target[inner]
    joined = coo_array((np.ones(inner.size, np.int8), (source, target)), shape=(n, n)).tocsr()
    parts, part = connected_components(joined, directed=False)
    top = np.full(parts, -1)
    np.maximum.at(top, part[transit], fabric.tier[transit])
    roots = np.flatnonzero(transit & (fabric.tier == top[part]))
    flat = part[source[np.isin(source, roots) & np.isin(target, roots)]]
    alone = np.isin(np.arange(roots.size), np.unique(part[roots], return_index=True)[1])

    def climbs(single: NDArray[np.integer]) -> tuple[NDArray[np.bool_], Ints]:
        """Return the links up, and the roots, if the parts ``single`` have one root each."""
        kept = roots[alone | ~np.isin(part[roots], single)]
        far = dijkstra(joined, directed=False, indices=kept, unweighted=True, min_only=True)
        # infinite for ends that let nothing pass
        ahead, here = (far[fabric.target], far[fabric.source])
        return (ahead < here) | ((ahead == here) & (fabric.target < fabric.source)), kept

    up, kept = climbs(flat)
    torn = _torn(fabric, up & both, kept, part)
    return climbs(np.append(flat, torn))[0] if torn.size else up


def _torn(
    fabric: Fabric, up: NDArray[np.bool_], roots: Ints, part: NDArray[np.integer]
) -> NDArray[np.integer]:
    """Return the parts with several roots in which two ranks climb to none in common, as damage can do."""
    roots = roots[np.bincount(part[roots])[part[roots]] > 1]
    ladder = Copies(
        fabric.n_nodes,
        fabric.source,
        fabric.target,
        np.where(up, fabric.capacity, 0.0),
        fabric.transit,
    )
    search = Search(ladder)
    seen = search.hops(roots).seen
    kinds = np.unique(seen[search.row[fabric.endpoint]], axis=0)  # one, in a whole tree
    bits = np.unpackbits(
        kinds.astype("<u8").view(np.uint8), axis=1, count=roots.size, bitorder="little"
    )
    # (K, roots)
    reach, (names, place) = (bits.astype(np.float32), np.unique(part[roots], return_inverse=True))
    # (K, parts)
    within = (reach @ np.eye(names.size, dtype=np.float32)[place] > 0).astype(np.float32)
    lost = (within @ within.T > 0) & (reach @ reach.T == 0)
    return np.asarray(names[((lost @ within > 0) & (within > 0)).any(axis=0)])
