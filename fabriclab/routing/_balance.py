"""What a fair hash does to equal cables, in closed form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fabriclab import units

__all__ = ["expected_fullest"]


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
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(number[1:]))])

    def poisson(mean: float) -> NDArray[np.float64]:
        return np.asarray(np.exp(number * np.log(mean) - mean - log_factorial))

    one, all_flows = poisson(n / m), poisson(n)[n]
    mean = 0.0
    for k in range(n):
        below = 1.0 - _power(one[: k + 1], m, n) / all_flows  # P(some cable holds more than k)
        if below < 1e-12:
            break
        mean += below
    return float(mean)


def _power(series: NDArray[np.float64], times: int, last: int) -> float:
    """Return the coefficient ``last`` of a power of a polynomial, by squaring."""
    out, square = np.ones(1), series
    while times:
        if times & 1:
            out = np.convolve(out, square)[: last + 1]
        square, times = np.convolve(square, square)[: last + 1], times >> 1
    return float(out[last]) if out.size > last else 0.0
