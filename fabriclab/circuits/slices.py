"""How often a slice of a pod is whole: fixed cubes, or any cubes that optical switches can join.

A cube works if all of its hosts do. Hosts fail independently, each for the same share of the time; the optical switches
and their fibres are taken as perfect. A job needs all of its cubes.

Examples
--------
>>> from fabriclab import circuits
>>> circuits.fixed_availability(0.99, cubes=48) < 0.001 < circuits.any_availability(0.99, needed=48)
True
"""

from __future__ import annotations

from math import lgamma, log, log1p
from typing import NamedTuple

import numpy as np

from fabriclab import catalog, units
from fabriclab.core import Floats, Ints

_BLOCK = 4096  # draws that are made together


def hosts_of_a_cube() -> int:
    """Return the number of hosts of a cube: its 64 chips over the four chips of a host."""
    chips = catalog.value("systems", "tpu4pod", "cube")
    return int(chips / catalog.value("systems", "tpu4pod", "chips_per_host"))


def cube_availability(host: float) -> float:
    """Return the share of the time in which all hosts of a cube work.

    Parameters
    ----------
    host : float
        Share of the time in which a host works. 0..1
    """
    return float(_share(host) ** hosts_of_a_cube())


def fixed_availability(host: float, cubes: int) -> float:
    """Return the share of the time in which all of some fixed cubes work, as without optical switches.

    Parameters
    ----------
    host : float
        Share of the time in which a host works. 0..1
    cubes : int
        Number of cubes. >= 1
    """
    return float(_share(host) ** (hosts_of_a_cube() * units.count(cubes, "cubes")))


def any_availability(host: float, needed: int, cubes: int = 64) -> float:
    """Return the share of the time in which at least ``needed`` of ``cubes`` cubes work, whichever they are.

    Parameters
    ----------
    host : float
        Share of the time in which a host works. 0..1
    needed : int
        Cubes of the slice. 1..cubes
    cubes : int
        Cubes of the pod. >= 1
    """
    pod = units.count(cubes, "cubes")
    least = units.count(needed, "needed", 1, pod)
    return float(_working(host, pod)[least:].sum())


def goodput(host: float, needed: int, cubes: int = 64, *, fixed: bool = False) -> float:
    """Return the mean share of a pod that works in slices of one size, as many of them as there can be.

    Parameters
    ----------
    host : float
        Share of the time in which a host works. 0..1
    needed : int
        Cubes of a slice. 1..cubes
    cubes : int
        Cubes of the pod. >= 1
    fixed : bool
        True: each slice has cubes of its own for good, and stands still as soon as one fails. False: optical switches
        join whichever cubes work.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> round(circuits.goodput(0.99, needed=48), 3)
    0.742
    """
    pod = units.count(cubes, "cubes")
    size = units.count(needed, "needed", 1, pod)
    if fixed:
        slices = pod // size
        return slices * size / pod * fixed_availability(host, size)
    slices_of = np.arange(pod + 1) // size  # (pod + 1,) slices, by the number of cubes that work
    return float(_working(host, pod) @ (slices_of * size / pod))


class DrawnPod(NamedTuple):
    """What a simulation of a pod found: shares of the draws, and the number of working cubes in each, (draws,)."""

    any_cubes: float
    fixed_cubes: float
    working: Ints


def draw_pods(
    host: float, needed: int, cubes: int = 64, *, draws: int = 10_000, seed: int = 0
) -> DrawnPod:
    """Draw which hosts of a pod work, many times, and count how often a slice is whole.

    Parameters
    ----------
    host : float
        Share of the time in which a host works. 0..1
    needed : int
        Cubes of the slice; without optical switches its cubes are the first ones. 1..cubes
    cubes : int
        Cubes of the pod. >= 1
    draws : int
        Number of draws. >= 1
    seed : int
        Seed of the draws.
    """
    share = _share(host)
    pod = units.count(cubes, "cubes")
    size = units.count(needed, "needed", 1, pod)
    n = units.count(draws, "draws")
    rng = np.random.default_rng(units.count(seed, "seed", 0))
    working = np.zeros(n, dtype=np.int64)
    fixed = np.zeros(n, dtype=bool)
    for first in range(0, n, _BLOCK):
        block = slice(first, min(first + _BLOCK, n))
        drawn = rng.random((block.stop - first, pod, hosts_of_a_cube())) < share
        cube = np.asarray(drawn.all(axis=2))
        working[block] = cube.sum(axis=1)
        fixed[block] = cube[:, :size].all(axis=1)
    return DrawnPod(float(np.mean(working >= size)), float(fixed.mean()), working)


def _share(host: float) -> float:
    """Return the availability of a host, or refuse what is no share."""
    share = units.parse(host, "count", "host")
    if not 0 <= share <= 1:
        raise ValueError(f"host must be within 0..1, such as 0.99, got {host!r}; 99 % is 0.99")
    return share


def _working(host: float, cubes: int) -> Floats:
    """Return the chance of each number of working cubes, (cubes + 1,), by the binomial distribution."""
    works = cube_availability(host)
    n = np.arange(cubes + 1)
    if works in (0.0, 1.0):
        return np.where(n == works * cubes, 1.0, 0.0)
    ways = [lgamma(cubes + 1) - lgamma(k + 1) - lgamma(cubes - k + 1) for k in n.tolist()]
    chance = np.exp(ways + n * log(works) + (cubes - n) * log1p(-works))
    return np.asarray(chance / chance.sum())
