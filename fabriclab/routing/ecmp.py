"""Shortest paths selected by a hash of the flow (ECMP), by link number, or by load; and the odds of hash collisions."""

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Floats, Ints
from fabriclab.registry import register
from fabriclab.routing.shortest import Links, PairRoutes, Paths, Seed, first, follow, hashed

_PATHS = 8  # illustrative: paths that a switch compares for one target
_SUMS = 4096  # flows on all cables together; Poisson probabilities of more are negligible


@register("routing", "ecmp", minimal=True)
def ecmp(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Select ``subflows`` shortest paths per pair, link by link, by a hash (equal-cost multi-path).

    The hash covers both ends, the number of the subflow and the node that selects, as a switch hashes the header with
    a seed of its own. Links of equal cost are equally likely, whatever their capacity.

    References
    ----------
    .. [1] C. Hopps, Analysis of an Equal-Cost Multi-Path Algorithm, RFC 2992, 2000.
    """

    def pick(row: Ints, node: Ints, links: Links) -> Ints:
        """Return the hash of each row at its node modulo the number of links."""
        pair = row // subflows
        subflow = row % subflows
        own_seed = seed if isinstance(seed, int) else seed[pair]
        hashes = hashed(own_seed, source[pair], target[pair], subflow, node)
        return (hashes % links.count.astype(np.uint64)).astype(np.int64)

    return follow(fabric, paths, source, target, subflows, pick)


@register("routing", "shortest", minimal=True)
def shortest(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Take for each pair the shortest path with the lowest link number at every node.

    So in a tree all paths climb to the same top switch; ``seed`` has no effect.
    """
    return follow(fabric, paths, source, target, subflows, first)


@register("routing", "adaptive", cost="global")
def adaptive(
    fabric: Fabric, paths: Paths, source: Ints, target: Ints, *, subflows: int = 1, seed: Seed = 0
) -> PairRoutes:
    """Divide each flow by load among 8 shortest paths, or ``subflows`` if more, which a hash selects.

    A flow consists of flowlets: bursts so far apart that none overtakes another. Each flowlet takes the least loaded
    path [1]_, so in the long run the flow is divided among its paths. Leaves out how long a switch needs to learn of a
    load.

    References
    ----------
    .. [1] M. Alizadeh et al., CONGA: distributed congestion-aware load balancing for datacenters, SIGCOMM 2014.
    """
    n_paths = max(subflows, _PATHS)
    rows: PairRoutes = ecmp(fabric, paths, source, target, subflows=n_paths, seed=seed)
    return rows


def expected_fullest(flows: int, cables: int) -> float:
    """Return the expected number of flows on the fullest of several equal cables, if each flow is hashed independently.

    For n flows and m cables, P(no cable carries more than k) = n! / m^n times the coefficient of x^n in
    (sum of x^i / i! for i <= k)^m. It counts all ways to distribute n labelled flows with at most k on each cable. Both
    factors are scaled as Poisson probabilities, so that nothing overflows. The mean is the sum over k of
    P(some cable carries more than k).

    Parameters
    ----------
    flows, cables : int
        Number of flows and of cables. 1..1,024 each

    Returns
    -------
    float
        Mean number of flows, >= flows / cables.

    Examples
    --------
    >>> round(expected_fullest(32, 32), 2)
    3.53
    """
    n = units.count(flows, "flows", 1, 1024)
    m = units.count(cables, "cables", 1, 1024)
    number = np.arange(n + 1)
    log_factorial = np.append(0.0, np.cumsum(np.log(number[1:])))

    def poisson(mean: float) -> Floats:
        """Return the Poisson probabilities of 0..n flows, e^-mean mean^i / i!, (n + 1,)."""
        return np.asarray(np.exp(number * np.log(mean) - mean - log_factorial))

    one_cable = poisson(n / m)
    all_cables = poisson(float(n))
    mean = 0.0
    for k in range(n):
        # Flows of m independent cables add up, so their probabilities are convolved: powers in the Fourier domain.
        at_most_k = np.fft.irfft(np.fft.rfft(one_cable[: k + 1], _SUMS) ** m, _SUMS)
        more_than_k = 1.0 - at_most_k[n] / all_cables[n]  # P(some cable carries more than k)
        if more_than_k < 1e-9:  # or less than the rounding of the power
            break
        mean += more_than_k
    return float(mean)
