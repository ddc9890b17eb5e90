"""Up*/down* routing: no path climbs again after it has come down, so no deadlock is possible on any fabric."""

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric, Flags, Ints
from fabriclab.registry import register
from fabriclab.routing.d_mod_k import by_digit
from fabriclab.routing.shortest import (
    Copies,
    PairRoutes,
    Paths,
    Seed,
    ShortestPathSearch,
    Tables,
    follow,
)


@register("routing", "updown")
def updown(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Take for each pair the shortest path that first goes up and then comes down, which rules out deadlock.

    Every link gets a direction: up leads towards the roots. If both ends are equally far from a root, up leads to the
    node with the lower number. Roots are the switches of the top tier. If some of these are joined to each other, or if
    failures leave two ranks without a common root, only the switch with the lowest number is a root. So any two ranks
    have a path if they are connected by cables that work in both directions. Among equally short paths the target's
    place in the tree decides, as in ``d_mod_k``; in an undamaged tree both methods give the same paths. On other
    fabrics a path can be longer than the shortest path, and most traffic meets near the root. ``seed`` has no effect.

    References
    ----------
    .. [1] M. D. Schroeder et al., Autonet: a high-speed, self-configuring local area network using point-to-point
       links, IEEE Journal on Selected Areas in Communications 9(8), 1991.
    """
    copies = _up_then_down(fabric)
    paths = Tables(fabric, copies)
    pick = by_digit(fabric, target, subflows)
    return follow(fabric, paths, source, target, subflows, pick)


def _up_then_down(fabric: Fabric) -> Copies:
    """Return two copies of a fabric: a path in the first copy may still climb, a path in the second may not.

    A link up stays in the first copy and does not work in the second. A link down leads from either copy into the
    second, and no link leads back.
    """
    n = fabric.n_nodes
    leads_up = climbs(fabric)
    first_target = np.where(leads_up, fabric.target, fabric.target + n)
    return Copies(
        n_nodes=2 * n,
        source=np.append(fabric.source, fabric.source + n),
        target=np.append(first_target, fabric.target + n),
        capacity=np.append(fabric.capacity, np.where(leads_up, 0.0, fabric.capacity)),
        transit=np.tile(fabric.transit, 2),
    )


def climbs(fabric: Fabric) -> Flags:
    """Return whether each link leads up, (L,)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, dijkstra

    n = fabric.n_nodes
    transit = fabric.transit
    live = fabric.capacity > 0
    works_both_ways = (
        live & live[np.arange(fabric.n_links) ^ 1]
    )  # traffic must get to a root and back

    # Parts of the fabric: switches that are connected by cables that work in both directions.
    inner = np.flatnonzero(works_both_ways & transit[fabric.source] & transit[fabric.target])
    source = fabric.source[inner]
    target = fabric.target[inner]
    joined = coo_array((np.ones(inner.size, np.int8), (source, target)), shape=(n, n)).tocsr()
    n_parts, part = connected_components(joined, directed=False)  # part: (N,)

    # The roots of a part are the switches of its highest tier.
    top = np.full(n_parts, -1)
    np.maximum.at(top, part[transit], fabric.tier[transit])
    roots = np.flatnonzero(transit & (fabric.tier == top[part]))  # (roots,)
    is_first = np.isin(np.arange(roots.size), np.unique(part[roots], return_index=True)[1])

    def roots_left(single: NDArray[np.integer]) -> Ints:
        """Return the roots, but only the first one in each part that ``single`` lists."""
        return roots[is_first | ~np.isin(part[roots], single)]

    def towards(roots: Ints) -> Flags:
        """Return whether each link leads up to these roots, (L,); ends that forbid transit are infinitely far away."""
        distance = dijkstra(joined, directed=False, indices=roots, unweighted=True, min_only=True)
        ahead = distance[fabric.target]
        here = distance[fabric.source]
        nearer: Flags = ahead < here
        lower_of_two: Flags = (ahead == here) & (fabric.target < fabric.source)
        return nearer | lower_of_two

    # A part has only one root if two of its roots are joined, ...
    flat = part[source[np.isin(source, roots) & np.isin(target, roots)]]
    several = roots_left(flat)
    up = towards(several)
    # ... or if failures leave two of its ranks without a common root.
    torn = _torn(fabric, up & works_both_ways, several, part)
    if torn.size:
        return towards(roots_left(np.append(flat, torn)))
    return up


def _torn(fabric: Fabric, up: Flags, roots: Ints, part: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the parts with several roots in which two ranks reach no common root, as failures can cause."""
    roots = roots[np.bincount(part[roots])[part[roots]] > 1]  # in parts with several
    links_up = Copies(
        n_nodes=fabric.n_nodes,
        source=fabric.source,
        target=fabric.target,
        capacity=np.where(up, fabric.capacity, 0.0),
        transit=fabric.transit,
    )
    search = ShortestPathSearch(links_up)
    seen = search.hops(roots).seen
    # Ranks that climb to the same roots are alike, so compare the K sets of roots (one in an undamaged tree).
    sets = np.unique(seen[search.row[fabric.endpoint]], axis=0)  # (K, words)
    bits = np.unpackbits(
        sets.astype("<u8").view(np.uint8), axis=1, count=roots.size, bitorder="little"
    )
    reach = bits.astype(np.float32)  # (K, roots) 1 where the set has the root
    parts, place = np.unique(part[roots], return_inverse=True)
    part_of_root = np.eye(parts.size, dtype=np.float32)[place]  # (roots, parts)
    within = (reach @ part_of_root > 0).astype(
        np.float32
    )  # (K, parts) 1 where the set has a root of the part

    # Two sets with roots in the same part but no common root tear each part that they share.
    same_part = within @ within.T > 0  # (K, K)
    no_common_root = reach @ reach.T == 0
    lost = same_part & no_common_root
    torn = ((lost @ within > 0) & (within > 0)).any(axis=0)  # (parts,)
    return np.asarray(parts[torn])
