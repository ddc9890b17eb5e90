"""Grids of chips or switches: products of dimensions, along which places are joined as ring or path, or each with each.

Cable c of a ring or path leads from a place to the next, so its link 2c goes up and 2c + 1 down.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Ints
from fabriclab.registry import register
from fabriclab.topologies._switches import HOST_LENGTH, SWITCH_LENGTH, Parts, assemble, check

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
    return Axis(kind="path", k=k, cables=k - 1, load=k * k // 4, cut=1)


def ring(k: int) -> Axis:
    """Return ``k`` places in a circle; two have one cable, not two."""
    if k <= 2:
        return path(k)
    return Axis(kind="ring", k=k, cables=k, load=k * k // 4 / 2, cut=2)


def complete(k: int) -> Axis:
    """Return ``k`` places, each joined with each."""
    if k <= 2:
        return path(k)
    return Axis(kind="complete", k=k, cables=k * (k - 1) // 2, load=1, cut=k * k / 4)


def _sizes(shape: Sequence[int]) -> list[int]:
    """Return the sizes of all dimensions, or refuse them by name."""
    is_text = isinstance(shape, (str, bytes, bytearray))
    is_row = isinstance(shape, (Sequence, np.ndarray)) and not is_text
    if not is_row or not 1 <= len(shape) <= _DIMENSIONS:
        raise ValueError(
            f"shape must be 1 to {_DIMENSIONS} whole numbers such as (8, 8, 16), got {shape!r:.80}"
        )
    return [units.count(k, f"shape[{i}]") for i, k in enumerate(shape)]


@dataclass(frozen=True)
class Grid:
    """A product of dimensions: nodes differ in one coordinate and are joined along it."""

    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, shape: Sequence[int], kind: Callable[[int], Axis], hosts: int) -> Self:
        """Return a grid whose dimensions are of one kind, unless memory does not hold it with its hosts."""
        grid = cls(tuple(kind(k) for k in _sizes(shape)))
        n = math.prod(grid.shape)
        check(n, sum(axis.cables * n // axis.k for axis in grid.axes), hosts)
        return grid

    @property
    def shape(self) -> tuple[int, ...]:
        """Places along each dimension."""
        return tuple(axis.k for axis in self.axes)

    def cables(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield the nodes at both ends of all cables of a dimension, one dimension after another."""
        number = np.arange(math.prod(self.shape)).reshape(self.shape)
        for i, axis in enumerate(self.axes):
            rows = np.moveaxis(number, i, 0)  # rows[j]: all nodes with coordinate j along this axis
            one, other = axis.ends()
            yield rows[one].ravel(), rows[other].ravel()

    def coordinates(self) -> dict[str, Ints]:
        """Return the coordinates of all nodes by name."""
        return _coordinates(self.shape)


def _coordinates(shape: Sequence[int]) -> dict[str, Ints]:
    """Return the coordinates of all nodes of a grid by name: x, y, z, d4, d5, ..."""
    names = ["x", "y", "z"]
    for i in range(4, len(shape) + 1):
        names.append(f"d{i}")
    values = np.unravel_index(np.arange(math.prod(shape)), shape)
    return dict(zip(names[: len(shape)], values, strict=True))


def bisection(kind: Callable[[int], Axis], default: int) -> Callable[..., float | None]:
    """Return the closed form of a family of grids: the fewest links, one way, between two halves of the ends.

    In an exchange of all with all, dimension by dimension, the fullest link carries load x n / k pairs of nodes,
    and n^2 / 4 pairs cross any cut into halves. So no cut has fewer links than the even cut of the dimension with
    the largest load / k has; if that k is odd, no form is known (None). Hosts, ``default`` on each switch, are cut
    off one by one where that takes fewer.
    """

    def form(shape: Sequence[int], hosts: int = default, **_: object) -> float | None:
        """Return the cables of the narrowest cut into halves, or None where no form is known."""
        axes = [kind(k) for k in shape]
        n = math.prod(axis.k for axis in axes)
        worst = max(axes, key=lambda axis: axis.load / axis.k)
        if worst.k % 2:
            return None
        even_cut = worst.cut * n / worst.k
        if not hosts:
            return even_cut
        return min(even_cut, n * hosts / 2)

    return form


_rows = bisection(complete, 1)


def _hypercube_bisection(dimensions: int, hosts: int = 1, **_: object) -> float | None:
    """Return the cables of the narrowest cut: those of a grid with two places along each dimension."""
    return _rows((2,) * dimensions, hosts=hosts)


def _full_mesh_bisection(switches: int, hosts: int = 1, **_: object) -> float | None:
    """Return the cables of the narrowest cut: those of a grid of one dimension."""
    return _rows((switches,), hosts=hosts)


@register("topology", "torus", small={"shape": (3, 4)}, bisection=bisection(ring, 0))
def torus(
    shape: Sequence[int],
    hosts: int = 0,
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
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
    grid = Grid.of(shape, ring, hosts)
    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    return assemble(parts, hosts, grid.cables(), grid.coordinates())


@register("topology", "mesh", small={"shape": (3, 4)}, bisection=bisection(path, 0))
def mesh(
    shape: Sequence[int],
    hosts: int = 0,
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
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
    grid = Grid.of(shape, path, hosts)
    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    return assemble(parts, hosts, grid.cables(), grid.coordinates())


@register("topology", "twisted_torus", small={"shape": (2, 4)})
def twisted_torus(
    shape: Sequence[int],
    hosts: int = 0,
    shift: int | None = None,
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
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
    sizes = _sizes(shape)
    k = min(sizes)
    if k < 2 or set(sizes) != {k, 2 * k}:
        raise ValueError(
            f"shape must have sides k and 2k (k >= 2) and no other, such as (8, 8, 16), got {shape!r:.80}"
        )
    places = k if shift is None else units.count(shift, "shift", 0, 2 * k - 1)
    n = math.prod(sizes)
    check(n, n * len(sizes), hosts)
    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )

    coordinates = _coordinates(sizes)
    at = np.array(list(coordinates.values()))  # (dimensions, n)
    number = np.arange(n)
    side = np.array(sizes)[:, None]  # (dimensions, 1)
    shifted = places * (side > k)  # (dimensions, 1) what the wrap of a short side adds
    cables = []
    for i, size in enumerate(sizes):
        to = at.copy()
        to[i] = (to[i] + 1) % size
        if size == k:
            wraps = to[i] == 0  # (n,)
            to += shifted * wraps
        neighbour = np.ravel_multi_index(tuple(to % side), sizes)
        cables.append((number, neighbour))
    return assemble(parts, hosts, cables, coordinates)


@register(
    "topology",
    "hypercube",
    small={"dimensions": 3},
    bisection=_hypercube_bisection,
)
def hypercube(
    dimensions: int,
    hosts: int = 1,
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
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
    d = units.count(dimensions, "dimensions", 1, _DIMENSIONS)
    return hyperx(
        (2,) * d,
        hosts,
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )


@register("topology", "hyperx", small={"shape": (3, 4)}, bisection=_rows)
def hyperx(
    shape: Sequence[int],
    hosts: int = 1,
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
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
    grid = Grid.of(shape, complete, hosts)
    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    return assemble(parts, hosts, grid.cables(), grid.coordinates())


@register(
    "topology",
    "full_mesh",
    small={"switches": 5},
    bisection=_full_mesh_bisection,
)
def full_mesh(
    switches: int,
    hosts: int = 1,
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
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
    n = units.count(switches, "switches")
    grid = Grid.of((n,), complete, hosts)
    parts = Parts.parse(
        radix=radix,
        rate=rate,
        switch_delay=switch_delay,
        host_length=host_length,
        switch_length=switch_length,
    )
    return assemble(parts, hosts, grid.cables(), {"index": np.arange(n)})
