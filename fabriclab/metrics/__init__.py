"""Measures of a fabric: hops, ways, bisection, the rate of traffic patterns, and what it is made of.

What has capacity 0 is not there, and only nodes that allow transit pass on what is not theirs.

Examples
--------
>>> from fabriclab import metrics, topologies
>>> fabric = topologies.build("leaf_spine", hosts=72, radix=16, oversubscription=3, rate="400 Gb/s")
>>> metrics.hops(fabric)
hops: diameter 4, mean way 3.69
>>> metrics.bisection(fabric)
<Bisection: 600 GB/s, by the closed form of the family>
>>> metrics.cables(fabric)
{'fibre': (96, 1440.0)}
"""

from typing import NamedTuple

import numpy as np

from fabriclab.core import Fabric
from fabriclab.metrics.cuts import Bisection, bisection, cut
from fabriclab.metrics.hops import Diversity, Hops, diversity, hops
from fabriclab.metrics.traffic import Throughput, all_to_all, longest_matching, permutation, shift, throughput, uniform

__all__ = [
    "Bisection", "Diversity", "Hops", "Ports", "Throughput", "all_to_all", "bisection", "cables", "cut", "diversity",
    "hops", "longest_matching", "permutation", "ports", "shift", "throughput", "uniform",
]  # fmt: skip


def cables(fabric: Fabric) -> dict[str, tuple[int, float]]:
    """Return the number of cables and their length together [m] by medium, failed ones too."""
    medium, length = fabric.medium[::2], fabric.length[::2]
    return {m: (int(np.sum(medium == i)), float(length[medium == i].sum())) for i, m in enumerate(fabric.media)}


class Ports(NamedTuple):
    """Nodes of one kind, and the ports of all of them together."""

    nodes: int
    used: int
    left: int


def ports(fabric: Fabric) -> dict[str, Ports]:
    """Return nodes and ports by kind, where the number of ports is known; a fabric never uses more than there are."""
    mine = {k: (fabric.kind == i) & (fabric.radix > 0) for i, k in enumerate(fabric.kinds)}
    used, left = fabric.ports_used, fabric.radix - fabric.ports_used
    return {k: Ports(int(m.sum()), int(used[m].sum()), int(left[m].sum())) for k, m in mine.items() if m.any()}
