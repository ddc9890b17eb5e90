"""One fixed shortest path per pair: the plainest table that a subnet manager may write."""

from __future__ import annotations

from fabriclab.core import Fabric
from fabriclab.registry import register
from fabriclab.routing._ways import Ints, Rows, Seed, Ways, first, follow


@register("routing", "shortest", minimal=True)
def shortest(fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0) -> Rows:
    """Return for each pair the shortest path that takes the lowest link number at every node.

    So all targets of a tree climb to the same switch; ``seed`` has no effect.
    """
    return follow(fabric, ways, source, target, subflows, first)
