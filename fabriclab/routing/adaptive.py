"""Adaptive: flowlets move to the path that is least loaded."""

from __future__ import annotations

from fabriclab.core import Fabric
from fabriclab.registry import register
from fabriclab.routing._ways import Ints, Rows, Seed, Ways
from fabriclab.routing.ecmp import ecmp

_PATHS = 8  # illustrative: that a switch compares for one target


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
