"""Jellyfish: switches joined at random, all with equally many cables."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.topologies._clos import family
from fabriclab.topologies._direct import Ints, assemble, check

_ROUNDS: Final = 20  # each offers every cable a swap; after two or three the triangles of the ordered start are gone


@family("jellyfish", small={"switches": 8, "degree": 3})
def jellyfish(switches: int, degree: int, hosts: int = 1, seed: int = 0, **parts: Any) -> Fabric:
    """Return a random regular graph of switches that is connected, the same for the same seed [1]_.

    floor(switches x degree / 2) cables between switches; if that product is odd, one switch has a cable less.
    Diameter, mean and bisection are those of a draw. Of large ones nearly all have at least
    n/2 (r/2 - sqrt(r ln 2)) links each way in their bisection, with n switches of degree r [2]_.

    Parameters
    ----------
    switches : int
        Number of switches. >= 4
    degree : int
        Cables of a switch to others. 3..switches - 1
    hosts : int
        Hosts on each switch; 0: chips. >= 0
    seed : int
        Number of the draw. >= 0
    radix, rate, switch_delay, host_length, switch_length : int, float or str, optional
        As in ``leaf_spine``. [ports], [B/s], [s], [m], [m]

    References
    ----------
    .. [1] A. Singla, C.-Y. Hong, L. Popa, P. B. Godfrey, Jellyfish: networking data centers randomly, NSDI 2012.
    .. [2] B. Bollobas, The isoperimetric number of random graphs, European Journal of Combinatorics 9, 1988.
    """
    n, each = units.count(switches, "switches", 4), units.count(degree, "degree", 3, switches - 1)
    rng = np.random.default_rng(units.count(seed, "seed", 0))
    check(n, n * each // 2, hosts)
    a, b = _ordered(n, each)
    rounds = 0
    while rounds < _ROUNDS or not _connected(n, a, b):
        a, b = _swapped(n, a, b, rng)
        rounds += 1
    return assemble(parts, hosts, [(a, b)], {"index": np.arange(n)})


def _ordered(n: int, degree: int) -> tuple[Ints, Ints]:
    """Return a regular graph to start from: each switch and those next to it on a circle."""
    number, step = np.arange(n), np.arange(1, degree // 2 + 1)[:, None]
    a, b = np.broadcast_arrays(number, (number + step) % n)
    # An odd degree adds a pairing of the first half with the second; with n odd, the last switch is left out.
    pair = np.arange(n // 2 * (degree % 2))
    return np.append(a, pair), np.append(b, pair + n // 2)


def _swapped(n: int, a: Ints, b: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the cables after pairs of them, a-b and c-d, became a-d and c-b where that gives two new ones."""
    ends = rng.permuted(np.array([a, b])[:, rng.permutation(a.size)], axis=0)
    (a, b), half = ends, a.size // 2
    new = np.concatenate([b[half : 2 * half], b[:half], b[2 * half :]])
    key = [np.minimum(a, end) * n + np.maximum(a, end) for end in (b, new)]
    _, which, count = np.unique(np.concatenate(key), return_inverse=True, return_counts=True)
    fits = (a != new) & (count[which[a.size :]] == 1)
    fits[: 2 * half] = np.tile(fits[:half] & fits[half : 2 * half], 2)
    return a, np.where(fits, new, b)


def _connected(n: int, a: Ints, b: Ints) -> bool:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    return bool(connected_components(coo_array((np.ones(a.size), (a, b)), shape=(n, n)), directed=False)[0] == 1)
