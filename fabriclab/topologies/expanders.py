"""Graphs in which all switches are near each other: Slim Fly, by algebra, and Jellyfish, at random."""

import math
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Ints, parts_of
from fabriclab.topologies._switches import assemble, check, family

_ROUNDS = 20  # each offers every cable a swap; after two or three the triangles of the ordered start are gone


@family("slim_fly", small={"q": 3, "hosts": 1})
def slim_fly(q: int, hosts: int | None = None, **parts: Any) -> Fabric:
    """Return a Slim Fly on a McKay-Miller-Siran graph [1]_ [2]_ for an odd prime q = 4w + d, d = 1 or -1.

    2 q^2 switches of degree k' = (3q - d) / 2, q^2 k' cables between them; diameter 2 links between switches, mean
    over distinct ones 2 - k' / (2 q^2 - 1). q = 5 is the Hoffman-Singleton graph. Prime powers are left out, and
    with them d = 0 (q = 4, 8, 16), which no prime has. No closed form of the bisection is used here.

    Parameters
    ----------
    q : int
        An odd prime. >= 3
    hosts : int, optional
        Hosts on each switch; half of the degree, rounded up, unless given; 0: chips. >= 0
    radix, rate, switch_delay, host_length, switch_length : int, float or str, optional
        As in ``leaf_spine``. [ports], [B/s], [s], [m], [m]

    Raises
    ------
    ValueError
        If q is no odd prime.

    References
    ----------
    .. [1] M. Besta, T. Hoefler, Slim Fly: a cost effective low-diameter network topology, SC 2014.
    .. [2] B. D. McKay, M. Miller, J. Siran, A note on large graphs of diameter two and given maximum degree,
       Journal of Combinatorial Theory B 74, 1998.
    """
    degree = units.count(q, "q", 3) + 2 * ((q + 1) // 4)
    each = -(-degree // 2) if hosts is None else hosts
    check(2 * q * q, q * q * degree, each)
    if any(q % d == 0 for d in range(2, math.isqrt(q) + 1)):
        raise ValueError(f"q must be an odd prime such as 5, 7, 11, 13, 17 or 19, got {q}")
    root = next(g for g in range(2, q) if len({pow(g, i, q) for i in range(1, q)}) == q - 1)
    number = np.arange(2 * q * q)
    half, x, y = np.unravel_index(number, (2, q, q))
    where = {"half": half, "x": x, "y": y}
    # Switches of a column are joined where y differs by an even power of the root (in half 1: times the root), up to
    # sign; only one sign is listed, so that each cable is there once.
    even = np.array([pow(root, 2 * i, q) for i in range((q + 1) // 4)])[:, None]
    within = np.broadcast_arrays(
        number, (half * q + x) * q + (y + even * np.where(half, root, 1)) % q
    )
    # Switch (0, x, y) is joined with (1, m, c) where y = m x + c.
    x, m, c = np.unravel_index(np.arange(q**3), (q, q, q))
    across = (x * q + (m * x + c) % q, (q + m) * q + c)
    return assemble(parts, each, ((within[0].ravel(), within[1].ravel()), across), where)


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
    while rounds < _ROUNDS or parts_of(n, a, b).any():
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
