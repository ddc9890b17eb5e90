"""Slim Fly: nearly as many switches as can be had with two links between any two of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.topologies._clos import family
from fabriclab.topologies._direct import assemble, check


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
        msg = f"q must be an odd prime such as 5, 7, 11, 13, 17 or 19, got {q}"
        raise ValueError(msg)
    root = next(g for g in range(2, q) if len({pow(g, i, q) for i in range(1, q)}) == q - 1)
    number = np.arange(2 * q * q)
    half, x, y = np.unravel_index(number, (2, q, q))
    where = {"half": half, "x": x, "y": y}
    # Switches of a column are joined where y differs by an even power of the root (in half 1: times the root), up to
    # sign; only one sign is listed, so that each cable is there once.
    even = np.array([pow(root, 2 * i, q) for i in range((q + 1) // 4)])[:, None]
    within = np.broadcast_arrays(number, (half * q + x) * q + (y + even * np.where(half, root, 1)) % q)
    # Switch (0, x, y) is joined with (1, m, c) where y = m x + c.
    x, m, c = np.unravel_index(np.arange(q**3), (q, q, q))
    across = (x * q + (m * x + c) % q, (q + m) * q + c)
    return assemble(parts, each, ((within[0].ravel(), within[1].ravel()), across), where)
