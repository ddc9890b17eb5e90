"""Traffic matrices to try circuits on."""

from __future__ import annotations

import numpy as np

from fabriclab import units
from fabriclab.core import Floats

_TAIL = 1.2  # illustrative: exponent of the sizes, a few large ones and many small ones


def skewed(hosts: int, size: units.Quantity, *, seed: int = 0) -> Floats:
    """Return traffic with a few large entries and many small ones, (N, N). [B].

    Entries are drawn from a Pareto distribution and rounded up to multiples of a small amount, so that the matrix is
    one of whole bytes. A real matrix may look otherwise.

    Parameters
    ----------
    hosts : int
        Number of hosts. >= 2
    size : float or str
        What the busiest host sends or receives, at most; rounding takes a little off. > 0 [B]
    seed : int
        Seed of the draw. >= 0

    Examples
    --------
    >>> from fabriclab import circuits
    >>> matrix = circuits.skewed(8, "1 GB")
    >>> int(max(matrix.sum(axis=0).max(), matrix.sum(axis=1).max()) / 1e6)
    999
    """
    n = units.count(hosts, "hosts", 2)
    busiest = units.size(size, "size", may_be_zero=False)
    rng = np.random.default_rng(units.count(seed, "seed", 0))
    drawn = np.ceil(rng.pareto(_TAIL, (n, n)))
    np.fill_diagonal(drawn, 0.0)
    most = max(drawn.sum(axis=0).max(), drawn.sum(axis=1).max())
    unit = np.floor(busiest / most)
    if unit < 1:
        raise ValueError(
            f"size must be at least {most:.0f} B here, so that each entry has a whole byte, got {size!r}"
        )
    return np.asarray(drawn * unit)
