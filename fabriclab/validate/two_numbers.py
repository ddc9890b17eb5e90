"""What one step of an algorithm costs on a published system, as its sweep shows it: a latency and a rate."""

from typing import NamedTuple

import numpy as np

from fabriclab.catalog import published
from fabriclab.collectives import closed_form

_SMALLEST = (
    3  # illustrative: sizes whose median is taken, since the first one of a sweep is often high
)


class StepNumbers(NamedTuple):
    """Two numbers of a published system.

    Parameters
    ----------
    ranks : int
        Number of ranks.
    latency : float
        Time of a step beside that of its bytes. [s]
    rate : float
        Highest bus bandwidth of the sweep. [B/s]
    """

    ranks: int
    latency: float
    rate: float


def per_step(sweep: str, algorithm: str = "ring") -> StepNumbers:
    """Return the latency of a step and the rate of a port that would explain a published all-reduce.

    The rate is the highest bus bandwidth of the sweep. What the bytes leave of the three shortest times is divided
    among the steps, and the median is the latency. So the latency also holds what is paid once for a call, such as the
    launch of a kernel, and it depends on the algorithm that is assumed to have run.

    Parameters
    ----------
    sweep : str
        Name of a published sweep, as in `catalog.published.load`.
    algorithm : str
        Algorithm that ran at the smallest sizes, as in `collectives.closed_form`.

    Returns
    -------
    StepNumbers
        Ranks, latency [s] and rate [B/s].

    Raises
    ------
    KeyError
        If no sweep has this name.
    ValueError
        If the algorithm has no formula for an all-reduce.

    Examples
    --------
    >>> ranks, latency, rate = per_step("h100x8_ring")
    >>> ranks, f"{latency * 1e6:.1f} µs", f"{rate / 1e9:.0f} GB/s"
    (8, '2.6 µs', '368 GB/s')
    """
    seen = published.load(sweep)
    time = closed_form("all_reduce", algorithm)
    n = int(seen.n_ranks)
    rate = float(np.max(seen.busbw))
    few = slice(_SMALLEST)
    steps = float(time(0.0, n, 1.0, rate))
    left = seen.time[few] - time(seen.size[few], n, 0.0, rate)
    return StepNumbers(n, float(np.median(left)) / steps, rate)
