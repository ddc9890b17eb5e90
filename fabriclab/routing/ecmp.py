"""Paths on the shortest ways: by a hash of the flow (equal-cost multi-path), the first of all, and by load."""

from __future__ import annotations

from typing import Final

import numpy as np

from fabriclab.core import Fabric
from fabriclab.registry import register
from fabriclab.routing._ways import Ints, Links, Rows, Seed, Ways, first, follow, hashed

_PATHS: Final = 8  # illustrative: that a switch compares for one target


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


@register("routing", "shortest", minimal=True)
def shortest(fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0) -> Rows:
    """Return for each pair the shortest path that takes the lowest link number at every node.

    So all targets of a tree climb to the same switch; ``seed`` has no effect.
    """
    return follow(fabric, ways, source, target, subflows, first)


@register("routing", "adaptive", cost="global")
def adaptive(fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0) -> Rows:
    """Return 8 shortest paths of each pair, or ``subflows`` if more, drawn by a hash, as candidates for its flowlets.

    Bursts of a flow, so far apart that none overtakes another, each take the path that is least loaded [1]_; in the
    long run the flow shares itself out among them. Leaves out how long a switch needs to learn of a load.

    References
    ----------
    .. [1] M. Alizadeh et al., CONGA: distributed congestion-aware load balancing for datacenters, SIGCOMM 2014.
    """
    rows: Rows = ecmp(fabric, ways, source, target, subflows=max(subflows, _PATHS), seed=seed)
    return rows
