"""Grids of chips or switches: products of dimensions, along which places are joined as ring or path, or each with each.

Cable c of a ring or path leads from a place to the next, so its link 2c goes up and 2c + 1 down.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Ints
from fabriclab.topologies._switches import assemble, check, family

_DIMENSIONS = 30  # 2^31 nodes have no numbers in int32


class Axis(NamedTuple):
    """One dimension of a grid; ``load`` and ``cut`` lead to the closed form of the bisection."""

    kind: str
    k: int  # places
    cables: int
    load: float  # ordered pairs of places that use the fullest link, if equally short ways share
    cut: float  # cables between two halves

    def ends(self) -> tuple[Ints, Ints]:
        """Return both ends of each cable."""
        if self.kind == "complete":
            return np.triu_indices(self.k, 1)
        place = np.arange(self.cables)
        return place, (place + 1) % self.k


def path(k: int) -> Axis:
    """Return ``k`` places in a row."""
    return Axis("path", k, k - 1, k * k // 4, 1)


def ring(k: int) -> Axis:
    """Return ``k`` places in a circle; two have one cable, not two."""
    return Axis("ring", k, k, k * k // 4 / 2, 2) if k > 2 else path(k)


def complete(k: int) -> Axis:
    """Return ``k`` places, each joined with each."""
    return Axis("complete", k, k * (k - 1) // 2, 1, k * k / 4) if k > 2 else path(k)


def _sizes(shape: Sequence[int]) -> list[int]:
    """Return the sizes of all dimensions, or refuse them by name."""
    row = isinstance(shape, (Sequence, np.ndarray)) and not isinstance(
        shape, (str, bytes, bytearray)
    )
    if not row or not 1 <= len(shape) <= _DIMENSIONS:
        raise ValueError(
            f"shape must be 1 to {_DIMENSIONS} whole numbers such as (8, 8, 16), got {shape!r:.80}"
        )
    return [units.count(k, f"shape[{i}]") for i, k in enumerate(shape)]


def _grid(
    shape: Sequence[int],
    kind: Callable[[int], Axis],
    hosts: int,
    asked: dict[str, Any],
    names: Sequence[str] = (),
) -> Fabric:
    """Return the product of dimensions of one kind: nodes differ in one coordinate and are joined along it."""
    axes = [kind(k) for k in _sizes(shape)]
    n = math.prod(shape)
    check(n, sum(axis.cables * n // axis.k for axis in axes), hosts)
    number = np.arange(n).reshape(shape)
    rows = ((np.moveaxis(number, i, 0), axis.ends()) for i, axis in enumerate(axes))
    cables = ((row[one].ravel(), row[other].ravel()) for row, (one, other) in rows)
    return assemble(asked, hosts, cables, _coordinates(shape, names))


def _coordinates(shape: Sequence[int], names: Sequence[str] = ()) -> dict[str, Ints]:
    """Return the coordinates of all nodes of a grid by name."""
    known = names or ["xyz"[i] if i < 3 else f"d{i + 1}" for i in range(len(shape))]
    return dict(zip(known, np.unravel_index(np.arange(math.prod(shape)), shape), strict=True))


def bisection(kind: Callable[[int], Axis], default: int) -> Callable[..., float | None]:
    """Return the closed form of a family of grids: the fewest links, one way, between two halves of the ends.

    In an exchange of all with all, dimension by dimension, the fullest link carries load x n / k pairs of nodes,
    and n^2 / 4 pairs cross any cut into halves. So no cut has fewer links than the even cut of the dimension with
    the largest load / k has; if that k is odd, no form is known (None). Hosts, ``default`` on each switch, are cut
    off one by one where that takes fewer.
    """

    def form(shape: Sequence[int], hosts: int = default, **_: Any) -> float | None:
        dimensions = [kind(k) for k in shape]
        n = math.prod(axis.k for axis in dimensions)
        worst = max(dimensions, key=lambda axis: axis.load / axis.k)
        if worst.k % 2:
            return None
        return min(worst.cut * n / worst.k, n * hosts / 2 if hosts else math.inf)

    return form


_rows = bisection(complete, 1)


@family("torus", small={"shape": (3, 4)}, bisection=bisection(ring, 0))
def torus(shape: Sequence[int], hosts: int = 0, **parts: Any) -> Fabric:
    """Return a torus of chips, or of switches with hosts.

    With n nodes and sizes k_i: n cables along each dimension, degree 2 per dimension; diameter sum of
    floor(k_i / 2) links; mean over distinct nodes n / (n - 1) times the sum of floor(k_i^2 / 4) / k_i, which is
    k_i / 4 if even; bisection 2n / k links each way for the largest k, if that is even. A dimension of
    two nodes counts as in ``mesh``. Hosts add 2 links to diameter and mean, and the bisection is then
    at most half of their number.

    Parameters
    ----------
    shape : sequence of int
        Nodes along each dimension. >= 1 each
    hosts : int
        Hosts on each switch; 0: the nodes are chips, which are endpoints and let traffic pass. >= 0
    radix, rate, switch_delay, host_length, switch_length : int, float or str, optional
        As in ``leaf_spine``; chips have as many ports as they use. [ports], [B/s], [s], [m], [m]

    Raises
    ------
    ValueError
        If there is no dimension, or a size is below 1.

    References
    ----------
    .. [1] W. J. Dally, B. Towles, Principles and practices of interconnection networks, 2004, chapter 5.
    """
    return _grid(shape, ring, hosts, parts)


@family("mesh", small={"shape": (3, 4)}, bisection=bisection(path, 0))
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
    return _grid(shape, path, hosts, parts)


@family("twisted_torus", small={"shape": (2, 4)})
def twisted_torus(
    shape: Sequence[int], hosts: int = 0, shift: int | None = None, **parts: Any
) -> Fabric:
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
        raise ValueError(
            f"shape must have sides k and 2k (k >= 2) and no other, such as (8, 8, 16), got {shape!r:.80}"
        )
    by = k if shift is None else units.count(shift, "shift", 0, 2 * k - 1)
    check(n, n * side.size, hosts)
    side = side.astype(np.int64)
    where = _coordinates(side.tolist())
    at, number, long = np.array(list(where.values())), np.arange(n), (side > k)[:, None]
    cables = []
    for i in range(side.size):
        to = at.copy()
        to[i] = (to[i] + 1) % side[i]
        if side[i] == k:
            to += by * long * (to[i] == 0)
        cables.append((number, np.ravel_multi_index(tuple(to % side[:, None]), side.tolist())))
    return assemble(parts, hosts, cables, where)


@family(
    "hypercube",
    small={"dimensions": 3},
    bisection=lambda dimensions, **asked: _rows((2,) * dimensions, **asked),
)
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
    return hyperx((2,) * units.count(dimensions, "dimensions", 1, _DIMENSIONS), hosts, **parts)


@family("hyperx", small={"shape": (3, 4)}, bisection=_rows)
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
    return _grid(shape, complete, hosts, parts)


@family(
    "full_mesh",
    small={"switches": 5},
    bisection=lambda switches, **asked: _rows((switches,), **asked),
)
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
    return _grid((units.count(switches, "switches"),), complete, hosts, parts, ["index"])
