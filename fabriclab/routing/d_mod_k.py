"""D-mod-k routing: the target's place in the tree selects the links, so that cyclic shifts never collide."""

import numpy as np

from fabriclab.core import Fabric, Ints
from fabriclab.registry import register
from fabriclab.routing.shortest import Links, PairRoutes, Paths, Pick, Seed, cached, follow


@register("routing", "d_mod_k", minimal=True)
def d_mod_k(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Return for each pair, once per subflow, the path that the place of its target chooses.

    ``seed`` has no effect.

    Targets are counted leaf by leaf. Where c links lead on, link floor(D / W) modulo c is taken. D is the place of the
    target, and W the product over the tiers below of the number of links up of a node. In a full fat tree each link
    down then leads to one target only, and every cyclic shift of the hosts is free of contention. On other fabrics the
    path is a shortest path that depends on the target alone. ``seed`` has no effect.

    References
    ----------
    .. [1] E. Zahavi, Fat-tree routing and node ordering providing contention free traffic for MPI global
       collectives, Journal of Parallel and Distributed Computing 72(11), 2012.
    """
    return follow(fabric, paths, source, target, subflows, by_digit(fabric, target, subflows))


def by_digit(fabric: Fabric, target: Ints, subflows: int) -> Pick:
    """Return the function that chooses links by the digits of the target's place, for any shortest paths."""
    place, width = cached(fabric, "_places", _places)
    goal = np.repeat(place[target], subflows)  # D of each row

    def pick(row: Ints, node: Ints, links: Links) -> Ints:
        """Return floor(D / W) modulo the number of links, with the W of the links' lower end."""
        ahead = fabric.target[links.table[links.start] % fabric.n_links]
        lower_tier = np.minimum(fabric.tier[node], fabric.tier[ahead])
        return goal[row] // width[lower_tier] % links.count

    return pick


def _places(fabric: Fabric) -> tuple[Ints, Ints]:
    """Return the place of each node (N,), endpoints first and leaf by leaf, and the W of each tier (tiers,).

    Only links that lead towards the highest tier within reach count: a GPU has one such link, to its NIC, while its
    NVLink leads to no further switch. Failed links count too, so that a failure changes no target's place.
    """
    tier = fabric.tier
    up = np.flatnonzero(tier[fabric.source] < tier[fabric.target])
    up = up[np.argsort(fabric.source[up], kind="stable")]
    low = fabric.source[up]
    high = fabric.target[up]

    reach = tier.copy()  # (N,) highest tier that each node can climb to
    parent = np.arange(fabric.n_nodes)  # (N,) a node above it on the path to that tier, or itself
    n_tiers = int(tier.max()) + 1
    links_up = np.ones(n_tiers, dtype=np.int64)  # (tiers,) most links up of a node of each tier
    for h in range(n_tiers - 2, -1, -1):
        here = tier[low] == h
        np.maximum.at(reach, low[here], reach[high[here]])
        best = np.flatnonzero(here & (reach[high] == reach[low]))
        parent[low[best]] = high[best]  # any of them; nodes of one leaf get the same
        links_up[h] = np.bincount(low[best], minlength=1).max()

    # Endpoints are sorted by their ancestors, from the top of the tree down to the endpoints themselves.
    ancestors = [fabric.endpoint.astype(np.int64)]
    for _ in range(n_tiers - 1):
        ancestors.append(parent[ancestors[-1]])
    place = np.arange(fabric.n_nodes)
    place[fabric.endpoint[np.lexsort(ancestors)]] = np.arange(fabric.n_ranks)

    # W of a tier: the product of links_up over the tiers below. A tier that all cables skip has no links.
    width = np.cumprod(np.maximum(links_up, 1))
    return place, np.append(1, width[:-1])
