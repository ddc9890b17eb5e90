"""Shortest paths one after another: what a balancer of packets chooses among."""

import numpy as np

from fabriclab.core import Fabric, Ints
from fabriclab.registry import register
from fabriclab.routing.shortest import Links, PairRoutes, Paths, Seed, follow


@register("routing", "paths", minimal=True)
def paths_in_order(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Return ``subflows`` shortest paths of each pair, all different as long as there are so many.

    Path number s takes link s modulo the number of links at the first node with a choice, s divided by that number
    at the second one, and so on, as the digits of a number. With more subflows than paths they begin again. ``seed``
    has no effect.
    """
    left = np.tile(np.arange(subflows), source.size)  # what is left of the number of each row

    def pick(row: Ints, node: Ints, links: Links) -> Ints:
        """Return the next digit of each row's number."""
        choice = left[row] % links.count
        left[row] //= links.count
        return choice.astype(np.int64)

    return follow(fabric, paths, source, target, subflows, pick)
