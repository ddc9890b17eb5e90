"""Graphs in which all switches are close to each other: Slim Fly, built by algebra, and Jellyfish, a random graph."""

import math
from typing import NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Ints, parts_of
from fabriclab.registry import register
from fabriclab.topologies._switches import HOST_LENGTH, SWITCH_LENGTH, Parts, assemble, check

_ROUNDS = 20  # each tries to swap every cable; after two or three the initial triangles are gone


@register(
    "topology", "slim_fly", small={"q": 3, "hosts": 1}, with_servers={"q": 3, "hosts": 2, "gpus": 2}
)
def slim_fly(
    q: int,
    hosts: int | None = None,
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
    gpus: int | None = None,
) -> Fabric:
    """Build a Slim Fly, in which any two switches are at most 2 links apart.

    Its switches form a McKay-Miller-Siran graph [1]_ [2]_ for a prime power q = 4w + d with d = 1, 0 or -1: 2 q^2
    switches of degree k' = (3q - d) / 2, joined by q^2 k' cables. The diameter is 2 links between switches, and the
    mean between distinct switches 2 - k' / (2 q^2 - 1). With q = 5 it is the Hoffman-Singleton graph. No closed form of
    the bisection is used here.

    Parameters
    ----------
    q : int
        A prime power such as 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25 or 27. >= 3
    hosts : int, optional
        Hosts on each switch; half of the degree, rounded up, unless given. With 0 the switches are chips, which are
        endpoints themselves. >= 0
    radix, rate, switch_delay, host_length, switch_length : int, float or str, optional
        As in ``leaf_spine``. [ports], [B/s], [s], [m], [m]
    gpus : int, optional
        GPUs of a server: the hosts, in their order, become the NICs of servers, as in ``leaf_spine``. >= 1

    Raises
    ------
    ValueError
        If q is not a prime power.

    References
    ----------
    .. [1] M. Besta, T. Hoefler, Slim Fly: a cost effective low-diameter network topology, SC 2014.
    .. [2] B. D. McKay, M. Miller, J. Siran, A note on large graphs of diameter two and given maximum degree,
       Journal of Combinatorial Theory B 74, 1998.
    """
    degree = units.count(q, "q", 3) + 2 * ((q + 1) // 4)
    each = -(-degree // 2) if hosts is None else hosts
    check(2 * q * q, q * q * degree, each)
    field = _galois_field(q)

    number = np.arange(2 * q * q)
    half, x, y = np.unravel_index(number, (2, q, q))

    # Two switches of a column are joined if their y differ by an even power of the primitive element (in half 1 by an
    # odd power), up to sign. Of two steps that differ in sign only one is listed, so that each cable is there once.
    is_even = q % 2 == 0
    n_steps = q // 2 if is_even else (q + 1) // 4
    exponent = 2 * np.arange(n_steps)[:, None] + half  # (steps, 2 q^2)
    steps = field.power[exponent % (q - 1)]
    neighbour = (half * q + x) * q + field.sums[y, steps]  # (steps, 2 q^2)
    one = np.broadcast_to(number, neighbour.shape).ravel()
    other = neighbour.ravel()
    if is_even:  # a step leads back where it came from, as every element is its own negative
        once = one < other
        one = one[once]
        other = other[once]

    # Switch (0, x, y) is joined to (1, m, c) if y = m x + c.
    x_below, m, c = np.unravel_index(np.arange(q**3), (q, q, q))
    y_below = field.sums[field.products[m, x_below], c]
    across = (x_below * q + y_below, (q + m) * q + c)

    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    coordinates = {"half": half, "x": x, "y": y}
    return assemble(parts, each, ((one, other), across), coordinates, gpus=gpus)


class _Field(NamedTuple):
    """Arithmetic of the finite field with q elements, which are numbered from 0 (zero); 1 is one.

    The digits of a number to the base p are the coefficients of a polynomial over the integers modulo the prime p.
    """

    sums: Ints  # (q, q)
    products: Ints  # (q, q)
    power: (
        Ints  # (q - 1,) powers 0, 1, 2, ... of a primitive element, which are all elements but zero
    )


def _galois_field(q: int) -> _Field:
    """Return the field with q elements, for a prime power q."""
    factors = _prime_factors(q)
    if len(factors) > 1:
        raise ValueError(
            f"q must be a prime power such as 4, 5, 7, 8, 9, 11 or 13, got {q}; "
            f"take {_prime_power_near(q, -1)} or {_prime_power_near(q, 1)}"
        )
    (p,) = factors
    digits = round(math.log(q, p))
    place = p ** np.arange(digits)  # value of each digit
    element = np.arange(q)[:, None] // place % p  # (q, digits)
    sums = (element[:, None] + element) % p @ place

    # The rest of x^digits after division by a polynomial can be any element. One of them makes x primitive.
    for rest in range(1, q):
        power = _powers_of_x(element, place, p, rest)
        if power.size == q - 1:
            break
    log = np.zeros(q, dtype=np.int64)
    log[power] = np.arange(q - 1)
    products = power[(log[:, None] + log) % (q - 1)]
    products[0] = 0
    products[:, 0] = 0
    return _Field(sums, products, power)


def _powers_of_x(element: Ints, place: Ints, p: int, rest: int) -> Ints:
    """Return the powers of x until they repeat, if x^digits leaves the element numbered ``rest``."""
    value = 1
    found: dict[int, None] = {}
    while value not in found:
        found[value] = None
        digits = element[value]
        shifted = np.append(0, digits[:-1])  # x times the element, without its highest digit
        value = int((shifted + digits[-1] * element[rest]) % p @ place)
    return np.array(list(found))


def _prime_factors(q: int) -> set[int]:
    """Return the different prime factors of a number of at least 2; a prime power has one."""
    factors = set()
    divisor = 2
    while divisor * divisor <= q:
        while q % divisor == 0:
            factors.add(divisor)
            q //= divisor
        divisor += 1
    if q > 1:
        factors.add(q)
    return factors


def _prime_power_near(q: int, step: int) -> int:
    """Return the nearest prime power above (step 1) or below (step -1) a number of at least 6."""
    number = q + step
    while len(_prime_factors(number)) > 1:
        number += step
    return number


@register(
    "topology",
    "jellyfish",
    small={"switches": 8, "degree": 3},
    with_servers={"switches": 8, "degree": 3, "hosts": 2, "gpus": 2},
)
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
    gpus: int | None = None,
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
    gpus : int, optional
        GPUs of a server: the hosts, in their order, become the NICs of servers, as in ``leaf_spine``. >= 1

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
    return assemble(parts, hosts, [(one, other)], {"index": np.arange(n)}, gpus=gpus)


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
