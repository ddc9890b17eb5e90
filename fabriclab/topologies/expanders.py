"""Graphs in which all switches are close to each other: Slim Fly, built by algebra, and Jellyfish, a random graph."""

import math

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Ints, parts_of
from fabriclab.registry import register
from fabriclab.topologies._switches import HOST_LENGTH, SWITCH_LENGTH, Parts, assemble, check

_ROUNDS = 20  # each tries to swap every cable; after two or three the initial triangles are gone


@register("topology", "slim_fly", small={"q": 3, "hosts": 1})
def slim_fly(
    q: int,
    hosts: int | None = None,
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
    """Build a Slim Fly, in which any two switches are at most 2 links apart.

    Its switches form a McKay-Miller-Siran graph [1]_ [2]_ for an odd prime q = 4w + d with d = 1 or -1: 2 q^2 switches
    of degree k' = (3q - d) / 2, joined by q^2 k' cables. The diameter is 2 links between switches, and the mean between
    distinct switches 2 - k' / (2 q^2 - 1). With q = 5 it is the Hoffman-Singleton graph. Leaves out prime powers, and
    with them d = 0 (q = 4, 8, 16), which no odd prime has. No closed form of the bisection is used here.

    Parameters
    ----------
    q : int
        An odd prime. >= 3
    hosts : int, optional
        Hosts on each switch; half of the degree, rounded up, unless given. With 0 the switches are chips, which are
        endpoints themselves. >= 0
    radix, rate, switch_delay, host_length, switch_length : int, float or str, optional
        As in ``leaf_spine``. [ports], [B/s], [s], [m], [m]

    Raises
    ------
    ValueError
        If q is not an odd prime.

    References
    ----------
    .. [1] M. Besta, T. Hoefler, Slim Fly: a cost effective low-diameter network topology, SC 2014.
    .. [2] B. D. McKay, M. Miller, J. Siran, A note on large graphs of diameter two and given maximum degree,
       Journal of Combinatorial Theory B 74, 1998.
    """
    degree = units.count(q, "q", 3) + 2 * ((q + 1) // 4)
    each = -(-degree // 2) if hosts is None else hosts
    check(2 * q * q, q * q * degree, each)
    if not _is_prime(q):
        raise ValueError(f"q must be an odd prime such as 5, 7, 11, 13, 17 or 19, got {q}")

    number = np.arange(2 * q * q)
    half, x, y = np.unravel_index(number, (2, q, q))

    # Two switches of a column are joined if their y differ by an even power of the primitive root
    # (in half 1 by an odd power), up to sign; only one sign is listed, so that each cable is there once.
    root = _primitive_root(q)
    even_powers = np.array([pow(root, 2 * i, q) for i in range((q + 1) // 4)])[:, None]
    steps = even_powers * np.where(half, root, 1)  # (powers, 2 q^2)
    neighbour = (half * q + x) * q + (y + steps) % q  # (powers, 2 q^2)
    within = (np.broadcast_to(number, neighbour.shape).ravel(), neighbour.ravel())

    # Switch (0, x, y) is joined to (1, m, c) if y = m x + c modulo q.
    x_below, m, c = np.unravel_index(np.arange(q**3), (q, q, q))
    across = (x_below * q + (m * x_below + c) % q, (q + m) * q + c)

    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    return assemble(parts, each, (within, across), {"half": half, "x": x, "y": y})


def _is_prime(q: int) -> bool:
    """Return whether a number of at least 3 is prime."""
    return all(q % divisor for divisor in range(2, math.isqrt(q) + 1))


def _primitive_root(q: int) -> int:
    """Return the smallest primitive root of the prime q: its powers are all of 1..q - 1 modulo q."""
    for root in range(2, q):
        powers = {pow(root, i, q) for i in range(1, q)}
        if len(powers) == q - 1:
            return root
    raise ValueError(f"q must be an odd prime, got {q}")  # every prime has such a root


@register("topology", "jellyfish", small={"switches": 8, "degree": 3})
def jellyfish(
    switches: int,
    degree: int,
    hosts: int = 1,
    seed: int = 0,
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
    """Build a Jellyfish: a connected random regular graph of switches, always the same for the same seed [1]_.

    It has floor(switches x degree / 2) cables between switches; if that product is odd, one switch has one cable fewer.
    Diameter, mean distance and bisection vary from seed to seed. Nearly all large graphs with n switches of degree r
    have a bisection of at least n/2 (r/2 - sqrt(r ln 2)) links in each direction [2]_.

    Parameters
    ----------
    switches : int
        Number of switches. >= 4
    degree : int
        Cables of a switch to other switches. 3..switches - 1
    hosts : int
        Hosts on each switch; with 0 the switches are chips, which are endpoints themselves. >= 0
    seed : int
        Seed of the random graph. >= 0
    radix, rate, switch_delay, host_length, switch_length : int, float or str, optional
        As in ``leaf_spine``. [ports], [B/s], [s], [m], [m]

    References
    ----------
    .. [1] A. Singla, C.-Y. Hong, L. Popa, P. B. Godfrey, Jellyfish: networking data centers randomly, NSDI 2012.
    .. [2] B. Bollobas, The isoperimetric number of random graphs, European Journal of Combinatorics 9, 1988.
    """
    n = units.count(switches, "switches", 4)
    each = units.count(degree, "degree", 3, switches - 1)
    rng = np.random.default_rng(units.count(seed, "seed", 0))
    check(n, n * each // 2, hosts)

    one, other = _ordered(n, each)
    rounds = 0
    while rounds < _ROUNDS or parts_of(n, one, other).any():
        one, other = _swapped(n, one, other, rng)
        rounds += 1

    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    return assemble(parts, hosts, [(one, other)], {"index": np.arange(n)})


def _ordered(n: int, degree: int) -> tuple[Ints, Ints]:
    """Return a regular graph to start from, in which each switch is joined to its nearest neighbours on a circle."""
    number = np.arange(n)
    step = np.arange(1, degree // 2 + 1)[:, None]
    one, other = np.broadcast_arrays(number, (number + step) % n)
    if degree % 2 == 0:
        return one.ravel(), other.ravel()

    # An odd degree adds a pairing of the first half with the second; with n odd, the last switch is left out.
    pair = np.arange(n // 2)
    return np.append(one, pair), np.append(other, pair + n // 2)


def _swapped(n: int, one: Ints, other: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Shuffle the cables: replace pairs a-b and c-d by a-d and c-b wherever neither of these exists already."""
    shuffled = np.array([one, other])[:, rng.permutation(one.size)]
    one, other = rng.permuted(shuffled, axis=0)  # which end comes first is random, too

    # Cable i of the first half is paired with cable i of the second; if their number is odd, the last one stays.
    half = one.size // 2
    offered = np.concatenate([other[half : 2 * half], other[:half], other[2 * half :]])
    both_ends = [np.minimum(one, end) * n + np.maximum(one, end) for end in (other, offered)]
    _, which, count = np.unique(np.concatenate(both_ends), return_inverse=True, return_counts=True)
    is_new = (one != offered) & (count[which[one.size :]] == 1)

    swap = is_new.copy()
    swap[: 2 * half] = np.tile(is_new[:half] & is_new[half : 2 * half], 2)
    return one, np.where(swap, offered, other)
