"""Diameter and mean links between distinct ends of every family that has a formula for them."""

from functools import partial
from math import prod

import numpy as np

from fabriclab.topologies._switches import networks


def climb(*levels):
    """Return diameter and mean hops from (hops, ordered pairs at most so far apart), nearest first."""
    links, within = np.array(levels).T
    pairs = np.diff(within, prepend=0)
    return (int(links[pairs > 0].max()), float(links @ pairs / within[-1])) if within[-1] else None


def xgft(m, **_):
    below = np.cumprod(m)
    return climb(*((2 * i, int(below[-1]) * (int(x) - 1)) for i, x in enumerate(below, 1)))


def fat_tree(k, tiers=3, **_):
    return xgft((k // 2, k) if tiers == 2 else (k // 2, k // 2, k))


def within(n, size):
    """Return the ordered pairs that share a group, n in groups of ``size`` filled in order."""
    full, rest = divmod(n, size)
    return full * size * (size - 1) + rest * (rest - 1)


def rails(*, expand=True, **asked):
    """Return both for servers on one network, or on equal planes."""
    a = networks(**asked)
    n, nics = a.servers * a.gpus, a.gpus // a.rails
    leaf = a.rails * within(a.servers * nics, a.servers_per_leaf * nics)
    pod = within(n, a.servers_per_pod * a.gpus)
    if not expand:
        return climb((2, leaf), (4, pod), (6, n * (n - 1)))
    # on one server, and one leaf too
    server, both = (within(n, a.gpus), a.servers * a.rails * nics * (nics - 1))
    return climb((2, server), (6, leaf + server - both), (8, pod), (10, n * (n - 1)))


def leaf_spine(hosts, **asked):
    return rails(servers=hosts, gpus=1, rails=1, expand=False, apart=True, **asked)


def of_hosts(switches, diameter, mean, hosts):
    """Return both for hosts (or chips), if two switches drawn at random, which may be the same, are ``mean`` apart."""
    n, ends = switches * (hosts or 1), 2 if hosts else 0
    return (diameter + ends, ends + mean * n / (n - 1)) if n > 1 else (0, 0.0)


def path(k):
    return k - 1, (k * k - 1) / (3 * k)


def ring(k):
    return (k // 2, k * k // 4 / k) if k > 2 else path(k)


def complete(k):
    return min(k - 1, 1), (k - 1) / k


def grid(shape, axes, hosts):
    diameter, mean = np.sum([axis(k) for k, axis in zip(shape, axes, strict=True)], axis=0)
    return of_hosts(prod(shape), int(diameter), float(mean), hosts)


def torus(shape, hosts=0, axis=ring, **_):
    return grid(shape, [axis] * len(shape), hosts)


def hyperx(shape, hosts=1, **_):
    return grid(shape, [complete] * len(shape), hosts)


def dragonfly_plus(hosts, leaves, spines, h, groups=None, **_):
    n = leaves * (spines * h + 1 if groups is None else groups)
    return of_hosts(n, 3, (2 * (leaves - 1) + 3 * (n - leaves)) / n, hosts)


def slim_fly(q, hosts=None, **_):
    n, degree = 2 * q * q, q + 2 * ((q + 1) // 4)
    return of_hosts(n, 2, (2 * (n - 1) - degree) / n, -(-degree // 2) if hosts is None else hosts)


HOPS = {
    "xgft": xgft,
    "fat_tree": fat_tree,
    "leaf_spine": leaf_spine,
    "rail_optimised": rails,
    "multi_plane": partial(rails, planes=4),
    "dual_tor": partial(rails, planes=2),
    "torus": torus,
    "mesh": partial(torus, axis=path),
    "hypercube": lambda dimensions, **asked: hyperx((2,) * dimensions, **asked),
    "hyperx": hyperx,
    "full_mesh": lambda switches, **asked: hyperx((switches,), **asked),
    "dragonfly_plus": dragonfly_plus,
    "slim_fly": slim_fly,
    "tpu_slice": torus,
}
