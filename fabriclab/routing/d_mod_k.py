"""D-mod-k: the digits of the target's place in the tree choose the links, so that equal shifts never meet."""

import numpy as np

from fabriclab.core import Fabric, Ints
from fabriclab.registry import register
from fabriclab.routing.shortest import Links, Pick, Rows, Seed, Ways, follow, kept


@register("routing", "d_mod_k", minimal=True)
def d_mod_k(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> Rows:
    """Return for each pair the path that the place of its target chooses; ``seed`` has no effect.

    Targets are counted leaf by leaf. Where c links lead on, the one to take is floor(D / W) modulo c, with D the
    place of the target and W the links up of one node per tier, multiplied over the tiers below. In a full fat tree
    each link down then leads to one target only, and every cyclic shift of the hosts is free of contention.
    On other fabrics it is a shortest way whose choice depends on the target alone.

    References
    ----------
    .. [1] E. Zahavi, Fat-tree routing and node ordering providing contention free traffic for MPI global
       collectives, Journal of Parallel and Distributed Computing 72(11), 2012.
    """
    return follow(fabric, ways, source, target, subflows, by_digit(fabric, target, subflows))


def by_digit(fabric: Fabric, target: Ints, subflows: int) -> Pick:
    """Return the choice by the digits of the target's place, for any ways."""
    place, width = kept(fabric, "_places", _places)
    goal = np.repeat(place[target], subflows)

    def pick(row: Ints, node: Ints, links: Links) -> Ints:
        ahead = fabric.target[links.table[links.start] % fabric.n_links]
        return goal[row] // width[np.minimum(fabric.tier[node], fabric.tier[ahead])] % links.count

    return pick


def _places(fabric: Fabric) -> tuple[Ints, Ints]:
    """Return the place of each node (N,), endpoints first and leaf by leaf; and W of each tier.

    Only links that climb to the highest tier within reach count: a GPU has one such, to its NIC, and its NVLink
    leads to no further switch. Failed links count too, so that no target changes its place.
    """
    n, tier = fabric.n_nodes, fabric.tier
    up = np.flatnonzero(tier[fabric.source] < tier[fabric.target])
    up = up[np.argsort(fabric.source[up], kind="stable")]
    low, high = fabric.source[up], fabric.target[up]
    reach, above, path = tier.copy(), np.arange(n), [fabric.endpoint.astype(np.int64)]
    width = np.ones(int(tier.max()) + 1, dtype=np.int64)
    for h in range(width.size - 2, -1, -1):
        here = tier[low] == h
        np.maximum.at(reach, low[here], reach[high[here]])
        best = np.flatnonzero(here & (reach[high] == reach[low]))
        above[low[best]] = high[best]  # one of them; those of a leaf have the same
        width[h] = np.bincount(low[best], minlength=1).max()
    for _ in range(width.size - 1):
        path.append(above[path[-1]])
    place = np.arange(n)
    place[fabric.endpoint[np.lexsort(path)]] = np.arange(fabric.n_ranks)
    # a tier that all cables skip has no links
    return place, np.append(1, np.cumprod(np.maximum(width, 1))[:-1])
