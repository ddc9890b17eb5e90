"""Graphs in which all switches are near each other: Slim Fly, by algebra, and Jellyfish, at random."""

import math

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Ints, parts_of
from fabriclab.registry import register
from fabriclab.topologies._switches import HOST_LENGTH, SWITCH_LENGTH, Parts, assemble, check

_ROUNDS = 20  # each offers every cable a swap; after two or three the triangles of the ordered start are gone


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
    if not _is_prime(q):
        raise ValueError(f"q must be an odd prime such as 5, 7, 11, 13, 17 or 19, got {q}")

    number = np.arange(2 * q * q)
    half, x, y = np.unravel_index(number, (2, q, q))

    # Switches of a column are joined where y differs by an even power of the root (in half 1: times the root), up to
    # sign; only one sign is listed, so that each cable is there once.
    root = _primitive_root(q)
    even_powers = np.array([pow(root, 2 * i, q) for i in range((q + 1) // 4)])[:, None]
    steps = even_powers * np.where(half, root, 1)  # (powers, 2 q^2)
    neighbour = (half * q + x) * q + (y + steps) % q  # (powers, 2 q^2)
    within = (np.broadcast_to(number, neighbour.shape).ravel(), neighbour.ravel())

    # Switch (0, x, y) is joined with (1, m, c) where y = m x + c.
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
    """Return whether a number from 3 on is prime."""
    return all(q % divisor for divisor in range(2, math.isqrt(q) + 1))


def _primitive_root(q: int) -> int:
    """Return the smallest number whose powers are all of 1..q - 1 modulo the prime q."""
    for root in range(2, q):
        powers = {pow(root, i, q) for i in range(1, q)}
        if len(powers) == q - 1:
            return root
    raise ValueError(f"q must be an odd prime, got {q}")  # a prime has such a root


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
    """Return a regular graph to start from: each switch and those next to it on a circle."""
    number = np.arange(n)
    step = np.arange(1, degree // 2 + 1)[:, None]
    one, other = np.broadcast_arrays(number, (number + step) % n)
    if degree % 2 == 0:
        return one.ravel(), other.ravel()

    # An odd degree adds a pairing of the first half with the second; with n odd, the last switch is left out.
    pair = np.arange(n // 2)
    return np.append(one, pair), np.append(other, pair + n // 2)


def _swapped(n: int, one: Ints, other: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the cables after pairs of them, a-b and c-d, became a-d and c-b where that gives two new ones."""
    shuffled = np.array([one, other])[:, rng.permutation(one.size)]
    one, other = rng.permuted(shuffled, axis=0)  # which end of a cable comes first is drawn, too

    # Cable i of the first half and cable i of the second are a pair; with an odd number, the last one stays.
    half = one.size // 2
    offered = np.concatenate([other[half : 2 * half], other[:half], other[2 * half :]])
    both_ends = [np.minimum(one, end) * n + np.maximum(one, end) for end in (other, offered)]
    _, which, count = np.unique(np.concatenate(both_ends), return_inverse=True, return_counts=True)
    is_new = (one != offered) & (count[which[one.size :]] == 1)

    swap = is_new.copy()
    swap[: 2 * half] = np.tile(is_new[:half] & is_new[half : 2 * half], 2)
    return one, np.where(swap, offered, other)
