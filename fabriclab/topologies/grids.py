"""Grids of chips or switches: a row of each dimension is a ring or a path, or all of it is joined with each other."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.topologies._clos import family
from fabriclab.topologies._direct import Axis, assemble, bisection, check, complete, coordinates, grid, path, ring

_DIMENSIONS = 30  # 2^31 nodes have no numbers in int32


def _sizes(shape: Sequence[int]) -> list[int]:
    """Return the sizes of all dimensions, or refuse them by name."""
    row = isinstance(shape, (Sequence, np.ndarray)) and not isinstance(shape, (str, bytes, bytearray))
    if not row or not 1 <= len(shape) <= _DIMENSIONS:
        raise ValueError(f"shape must be 1 to {_DIMENSIONS} whole numbers such as (8, 8, 16), got {shape!r:.80}")
    return [units.count(k, f"shape[{i}]") for i, k in enumerate(shape)]


def axes(shape: Sequence[int], wrap: bool | Sequence[bool] = True, **_: Any) -> list[Axis]:
    """Return the dimensions, each a ring where it wraps."""
    each, closed = _sizes(shape), [wrap] * len(shape) if isinstance(wrap, bool) else wrap
    if not hasattr(closed, "__len__") or len(closed) != len(each):
        raise ValueError(f"wrap must be True, False or one for each of the {len(each)} dimensions, got {wrap!r:.80}")
    pairs = zip(each, closed, strict=True)
    return [ring(k) if units.flag(w, f"wrap[{i}]") else path(k) for i, (k, w) in enumerate(pairs)]


@family("torus", small={"shape": (3, 4)}, bisection=bisection(axes, 0))
def torus(shape: Sequence[int], wrap: bool | Sequence[bool] = True, hosts: int = 0, **parts: Any) -> Fabric:
    """Return a torus of chips, or of switches with hosts.

    With n nodes and sizes k_i: n cables along each dimension, degree 2 per dimension; diameter sum of
    floor(k_i / 2) links; mean over distinct nodes n / (n - 1) times the sum of floor(k_i^2 / 4) / k_i, which is
    k_i / 4 if even; bisection 2n / k links each way for the largest k, if that is even. A dimension that is open,
    or has two nodes only, counts as in ``mesh``. Hosts add 2 links to diameter and mean, and the bisection is then
    at most half of their number.

    Parameters
    ----------
    shape : sequence of int
        Nodes along each dimension. >= 1 each
    wrap : bool or sequence of bool
        Whether each dimension closes to rings; one value holds for all.
    hosts : int
        Hosts on each switch; 0: the nodes are chips, which are endpoints and let traffic pass. >= 0
    radix, rate, switch_delay, host_length, switch_length : int, float or str, optional
        As in ``leaf_spine``; chips have as many ports as they use. [ports], [B/s], [s], [m], [m]

    Raises
    ------
    ValueError
        If there is no dimension, a size is below 1, or ``wrap`` does not fit the dimensions.

    References
    ----------
    .. [1] W. J. Dally, B. Towles, Principles and practices of interconnection networks, 2004, chapter 5.
    """
    return grid(axes(shape, wrap), hosts, parts)


@family("mesh", small={"shape": (3, 4)}, bisection=bisection(partial(axes, wrap=False), 0))
def mesh(shape: Sequence[int], hosts: int = 0, **parts: Any) -> Fabric:
    """Return a torus without the cables that close its rings.

    With n nodes and sizes k_i: sum of n - n / k_i cables, degree up to 2 per dimension; diameter sum of k_i - 1
    links; mean over distinct nodes n / (n - 1) times the sum of (k_i^2 - 1) / 3k_i; bisection n / k links each way
    for the largest k, if that is even.

    Parameters
    ----------
    shape, hosts, radix, rate, switch_delay, host_length, switch_length
        As in ``torus``.

    Raises
    ------
    ValueError
        If there is no dimension, or a size is below 1.
    """
    return grid(axes(shape, wrap=False), hosts, parts)


@family("twisted_torus", small={"shape": (2, 4)})
def twisted_torus(shape: Sequence[int], hosts: int = 0, shift: int | None = None, **parts: Any) -> Fabric:
    """Return a torus with sides k and 2k in which each wrap of a short side shifts every long side, by k.

    With n nodes: one cable per dimension and node, degree 2 per dimension, as in the torus, and all nodes alike;
    but diameter 12 instead of 16 links for 8 x 8 x 16, and mean 6.98 instead of 8.01 between distinct nodes.
    No closed form of its bisection is used here.

    Parameters
    ----------
    shape : sequence of int
        Nodes along each dimension: k or 2k, with k >= 2, and each of them at least once.
    hosts : int
        As in ``torus``.
    shift : int, optional
        Places along the long sides, k unless given; 0 is the torus (of k > 2). 0..2k - 1
    radix, rate, switch_delay, host_length, switch_length
        As in ``torus``.

    Raises
    ------
    ValueError
        If the sides are not k and 2k, or there is no such shift.

    References
    ----------
    .. [1] J. M. Camara et al., Twisted torus topologies for enhanced interconnection networks, IEEE Transactions
       on Parallel and Distributed Systems 21(12), 2010.
    .. [2] N. P. Jouppi et al., TPU v4, ISCA 2023 (k x k x 2k and k x 2k x 2k).
    """
    side = np.array(_sizes(shape), dtype=object)
    k, n = min(side), math.prod(side)
    if k < 2 or set(side) != {k, 2 * k}:
        raise ValueError(f"shape must have sides k and 2k (k >= 2) and no other, such as (8, 8, 16), got {shape!r:.80}")
    by = k if shift is None else units.count(shift, "shift", 0, 2 * k - 1)
    check(n, n * side.size, hosts)
    side = side.astype(np.int64)
    where = coordinates(side.tolist())
    at, number, long = np.array(list(where.values())), np.arange(n), (side > k)[:, None]
    cables = []
    for i in range(side.size):
        to = at.copy()
        to[i] = (to[i] + 1) % side[i]
        if side[i] == k:
            to += by * long * (to[i] == 0)
        cables.append((number, np.ravel_multi_index(tuple(to % side[:, None]), side.tolist())))
    return assemble(parts, hosts, cables, where)


def _cube_axes(dimensions: int, **_: Any) -> list[Axis]:
    return [path(2)] * units.count(dimensions, "dimensions", 1, 30)


@family("hypercube", small={"dimensions": 3}, bisection=bisection(_cube_axes, 1))
def hypercube(dimensions: int, hosts: int = 1, **parts: Any) -> Fabric:
    """Return a hypercube; its coordinates are the binary digits of a switch, the highest first.

    With d dimensions: n = 2^d switches of degree d, d n / 2 cables between them; diameter d links between
    switches, mean over distinct ones (d / 2) n / (n - 1); bisection n / 2 links each way.

    Parameters
    ----------
    dimensions : int
        1..30
    hosts, radix, rate, switch_delay, host_length, switch_length
        As in ``torus``.
    """
    return grid(_cube_axes(dimensions), hosts, parts)


def _row_axes(shape: Sequence[int], **_: Any) -> list[Axis]:
    return [complete(k) for k in _sizes(shape)]


@family("hyperx", small={"shape": (3, 4)}, bisection=bisection(_row_axes, 1))
def hyperx(shape: Sequence[int], hosts: int = 1, **parts: Any) -> Fabric:
    """Return a regular HyperX with one cable between two switches of a row [1]_.

    With n switches and sizes S_i: degree sum of S_i - 1, half of n times that in cables; diameter one link per
    dimension; mean over distinct switches n / (n - 1) times the sum of (S_i - 1) / S_i; bisection n S / 4 links
    each way for the smallest S, if that is even, and never more than half of the hosts. The flattened butterfly
    of k-port stages [2]_ has all S_i = k and k hosts on a switch.

    Parameters
    ----------
    shape : sequence of int
        Switches along each dimension. >= 1 each
    hosts, radix, rate, switch_delay, host_length, switch_length
        As in ``torus``.

    References
    ----------
    .. [1] J. H. Ahn et al., HyperX: topology, routing, and packaging of efficient large-scale networks, SC 2009.
    .. [2] J. Kim, W. J. Dally, D. Abts, Flattened butterfly: a cost-efficient topology for high-radix networks,
       ISCA 2007.
    """
    return grid(_row_axes(shape), hosts, parts)


def _mesh_axes(switches: int, **_: Any) -> list[Axis]:
    return [complete(units.count(switches, "switches"))]


@family("full_mesh", small={"switches": 5}, bisection=bisection(_mesh_axes, 1))
def full_mesh(switches: int, hosts: int = 1, **parts: Any) -> Fabric:
    """Return n switches, each joined with each.

    n (n - 1) / 2 cables between switches, degree n - 1, one link between two; bisection n^2 / 4 links each way for
    even n, and never more than half of the hosts.

    Parameters
    ----------
    switches : int
        Number of switches, or of chips with ``hosts=0``. >= 1
    hosts, radix, rate, switch_delay, host_length, switch_length
        As in ``torus``.
    """
    return grid(_mesh_axes(switches), hosts, parts, ["index"])
