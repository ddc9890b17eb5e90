"""Measure a fabric: hops, number of paths, bisection, throughput of traffic patterns, and the cables and ports in it.

Links of capacity 0 count as absent, and only nodes that allow transit pass on traffic of others.

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

from fabriclab.metrics.cuts import Bisection, bisection, cut
from fabriclab.metrics.domains import Domain, domain
from fabriclab.metrics.hops import (
    Diversity,
    Hops,
    Ports,
    cables,
    diversity,
    hops,
    long_cables,
    ports,
    switches,
    switches_passed,
)
from fabriclab.metrics.traffic import (
    Throughput,
    all_to_all,
    longest_matching,
    neighbours,
    permutation,
    shift,
    throughput,
    to_other_servers,
    transpose,
    uniform,
)

__all__ = [
    "Bisection",
    "Diversity",
    "Domain",
    "Hops",
    "Ports",
    "Throughput",
    "all_to_all",
    "bisection",
    "cables",
    "cut",
    "diversity",
    "domain",
    "hops",
    "long_cables",
    "longest_matching",
    "neighbours",
    "permutation",
    "ports",
    "shift",
    "switches",
    "switches_passed",
    "throughput",
    "to_other_servers",
    "transpose",
    "uniform",
]


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
