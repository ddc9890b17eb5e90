"""Shortest paths by a hash of the flow (equal-cost multi-path), the first of all, or by load; what a fair hash does."""

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Ints
from fabriclab.registry import register
from fabriclab.routing.shortest import Links, Rows, Seed, Ways, first, follow, hashed

_PATHS = 8  # illustrative: that a switch compares for one target
_SUMS = 4096  # flows on all cables together, above which none of the Poisson probabilities counts


@register("routing", "ecmp", minimal=True)
def ecmp(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> Rows:
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
def shortest(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> Rows:
    """Return for each pair the shortest path that takes the lowest link number at every node.

    So all targets of a tree climb to the same switch; ``seed`` has no effect.
    """
    return follow(fabric, ways, source, target, subflows, first)


@register("routing", "adaptive", cost="global")
def adaptive(
    fabric: Fabric, ways: Ways, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> Rows:
    """Return 8 shortest paths of each pair, or ``subflows`` if more, drawn by a hash, as candidates for its flowlets.

    Bursts of a flow, so far apart that none overtakes another, each take the path that is least loaded [1]_; in the
    long run the flow shares itself out among them. Leaves out how long a switch needs to learn of a load.

    References
    ----------
    .. [1] M. Alizadeh et al., CONGA: distributed congestion-aware load balancing for datacenters, SIGCOMM 2014.
    """
    rows: Rows = ecmp(fabric, ways, source, target, subflows=max(subflows, _PATHS), seed=seed)
    return rows


def expected_fullest(flows: int, cables: int) -> float:
    """Return the flows that the fullest of equal cables holds on average, if each flow draws its cable alone.

    P(no cable holds more than k) = n! / m^n times the coefficient of x^n in (sum of x^i / i! for i <= k)^m, for n
    flows and m cables: all ways to deal out n labelled flows, k at most to each. Both factors are scaled as Poisson
    probabilities, so that nothing overflows.

    Parameters
    ----------
    flows, cables : int
        1..1,024 and 1..1,024.

    Returns
    -------
    float
        Flows, >= flows / cables.

    Examples
    --------
    >>> round(expected_fullest(32, 32), 2)
    3.53
    """
    n, m = units.count(flows, "flows", 1, 1024), units.count(cables, "cables", 1, 1024)
    number = np.arange(n + 1)
    log_factorial = np.append(0.0, np.cumsum(np.log(number[1:])))
    one, all_flows = (np.exp(number * np.log(x) - x - log_factorial) for x in (n / m, float(n)))
    mean = 0.0
    for k in range(n):
        power = np.fft.irfft(np.fft.rfft(one[: k + 1], _SUMS) ** m, _SUMS)
        below = 1.0 - power[n] / all_flows[n]  # P(some cable holds more than k)
        if below < 1e-9:  # or less than the rounding of the power
            break
        mean += below
    return float(mean)
