"""Equal-cost multi-path: at every node a hash of the flow picks one of the links on a shortest path."""

from __future__ import annotations

import numpy as np

from fabriclab.core import Fabric
from fabriclab.registry import register
from fabriclab.routing._ways import Ints, Links, Rows, Seed, Ways, follow, hashed


@register("routing", "ecmp", minimal=True)
def ecmp(fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0) -> Rows:
    """Return ``subflows`` paths per pair, each chosen link by link by a hash.

    The hash takes the ends, the number of the subflow and the node where it is asked, as a switch does
    with the header and a seed of its own. Equal-cost links count alike, whatever their capacity.

    References
    ----------
    .. [1] C. Hopps, Analysis of an Equal-Cost Multi-Path Algorithm, RFC 2992, 2000.
    """

    def pick(row: Ints, node: Ints, links: Links) -> Ints:
        pair = row // subflows
        own = seed if isinstance(seed, int) else seed[pair]
        hashes = hashed(own, source[pair], target[pair], row % subflows, node)
        return (hashes % links.count.astype(np.uint64)).astype(np.int64)

    return follow(fabric, ways, source, target, subflows, pick)
