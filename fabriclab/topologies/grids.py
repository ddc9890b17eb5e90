"""Grids of chips or switches: along each dimension the nodes form a ring, a path or a complete graph.

Cable c of a ring or path leads from a node to the next one, so its link 2c goes up and its link 2c + 1 down.
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

_DIMENSIONS = 30  # at most: node numbers are int32, too small for 2^31 nodes


class Axis(NamedTuple):
    """One dimension of a grid; the closed form of the bisection needs ``load`` and ``cut``."""

    kind: str
    k: int  # places along the dimension
    cables: int
    load: float  # ordered pairs of places that use the fullest link; equally short paths share
    cut: float  # cables between two halves

    def ends(self) -> tuple[Ints, Ints]:
        """Return the places at both ends of each cable, (cables,) each."""
        if self.kind == "complete":
            return np.triu_indices(self.k, 1)
        place = np.arange(self.cables)
        return place, (place + 1) % self.k


def path(k: int) -> Axis:
    """Return a dimension of ``k`` places in a row."""
    return Axis(kind="path", k=k, cables=k - 1, load=k * k // 4, cut=1)


def ring(k: int) -> Axis:
    """Return a dimension of ``k`` places in a circle; two places are joined by one cable, not two."""
    if k <= 2:
        return path(k)
    return Axis(kind="ring", k=k, cables=k, load=k * k // 4 / 2, cut=2)


def complete(k: int) -> Axis:
    """Return a dimension of ``k`` places, each joined to every other."""
    if k <= 2:
        return path(k)
    return Axis(kind="complete", k=k, cables=k * (k - 1) // 2, load=1, cut=k * k / 4)


def _sizes(shape: Sequence[int]) -> list[int]:
    """Return the sizes of all dimensions as a list, or refuse them by name."""
    is_text = isinstance(shape, (str, bytes, bytearray))
    is_row = isinstance(shape, (Sequence, np.ndarray)) and not is_text
    if not is_row or not 1 <= len(shape) <= _DIMENSIONS:
        raise ValueError(
            f"shape must be 1 to {_DIMENSIONS} whole numbers such as (8, 8, 16), got {shape!r:.80}"
        )
    return [units.count(k, f"shape[{i}]") for i, k in enumerate(shape)]


@dataclass(frozen=True)
class Grid:
    """A product of dimensions: two nodes can be joined only if they differ in exactly one coordinate."""

    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, shape: Sequence[int], kind: Callable[[int], Axis], hosts: int) -> Self:
        """Return a grid with dimensions of one kind; refuse it if memory does not suffice for it and its hosts."""
        grid = cls(tuple(kind(k) for k in _sizes(shape)))
        n = math.prod(grid.shape)
        check(n, sum(axis.cables * n // axis.k for axis in grid.axes), hosts)
        return grid

    @property
    def shape(self) -> tuple[int, ...]:
        """Places along each dimension."""
        return tuple(axis.k for axis in self.axes)

    def cables(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield for each dimension the nodes at both ends of all its cables."""
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
    """Return the closed form of the bisection for one kind of grid: the links in one direction between two halves.

    If all nodes send to all others, dimension by dimension, the fullest link carries load x n / k pairs of nodes,
    and n^2 / 4 pairs cross any cut into halves in each direction. So no cut has fewer links than the even cut of the
    dimension with the largest load / k. If the k of that dimension is odd, no closed form is known (None). Where it
    takes fewer links, the cut separates single hosts from their switches; there are ``default`` hosts on each switch
    unless given.
    """

    def form(
        shape: Sequence[int], hosts: int = default, gpus: int | None = None, **_: object
    ) -> float | None:
        """Return the number of cables in the narrowest cut into halves, or None if no closed form is known."""
        if gpus is not None:  # a server ties its hosts together
            return None
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


def _hypercube_bisection(
    dimensions: int, hosts: int = 1, gpus: int | None = None, **_: object
) -> float | None:
    """Return the number of cables in the narrowest cut, by the form of a grid with two places per dimension."""
    return _rows((2,) * dimensions, hosts=hosts, gpus=gpus)


def _full_mesh_bisection(
    switches: int, hosts: int = 1, gpus: int | None = None, **_: object
) -> float | None:
    """Return the number of cables in the narrowest cut, by the form of a grid with one dimension."""
    return _rows((switches,), hosts=hosts, gpus=gpus)


@register(
    "topology",
    "torus",
    small={"shape": (3, 4)},
    with_servers={"shape": (3, 4), "hosts": 2, "gpus": 2},
    bisection=bisection(ring, 0),
)
def torus(
    shape: Sequence[int],
    hosts: int = 0,
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
    gpus: int | None = None,
) -> Fabric:
    """Build a torus of chips, or of switches with hosts: along each dimension the nodes form rings.

    With n nodes and sizes k_i there are n cables along each dimension, and a node has 2 cables per dimension. The
    diameter is the sum of floor(k_i / 2) links. The mean distance between distinct nodes is n / (n - 1) times the sum
    of floor(k_i^2 / 4) / k_i, which is k_i / 4 for even k_i. The bisection is 2n / k links in each direction, with k
    the largest size, if that is even. A dimension of two nodes is wired, and counts, as in ``mesh``. Hosts add 2 links
    to the diameter and to the mean, and the bisection is then at most half of their number.

    Parameters
    ----------
    shape : sequence of int
        Nodes along each dimension. >= 1 each
    hosts : int
        Hosts on each switch; with 0 the nodes are chips, which are endpoints themselves and let traffic pass. >= 0
    radix, rate, switch_delay, host_length, switch_length : int, float or str, optional
        As in ``leaf_spine``; chips have as many ports as they use. [ports], [B/s], [s], [m], [m]
    gpus : int, optional
        GPUs of a server: the hosts, in their order, become the NICs of servers, as in ``leaf_spine``. >= 1

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
    return assemble(parts, hosts, grid.cables(), grid.coordinates(), gpus=gpus)


@register(
    "topology",
    "mesh",
    small={"shape": (3, 4)},
    with_servers={"shape": (3, 4), "hosts": 2, "gpus": 2},
    bisection=bisection(path, 0),
)
def mesh(
    shape: Sequence[int],
    hosts: int = 0,
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
    gpus: int | None = None,
) -> Fabric:
    """Build a mesh: a torus without the cables that close its rings.

    With n nodes and sizes k_i the number of cables is the sum of n - n / k_i, and a node has up to 2 cables per
    dimension. The diameter is the sum of k_i - 1 links. The mean distance between distinct nodes is n / (n - 1) times
    the sum of (k_i^2 - 1) / 3k_i. The bisection is n / k links in each direction, with k the largest size, if that is
    even.

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
    return assemble(parts, hosts, grid.cables(), grid.coordinates(), gpus=gpus)


@register(
    "topology",
    "twisted_torus",
    small={"shape": (2, 4)},
    with_servers={"shape": (2, 4), "hosts": 1, "gpus": 2},
)
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
    gpus: int | None = None,
) -> Fabric:
    """Build a twisted torus, whose closing cables are shifted, which shortens the longest paths without adding a cable.

    Its sides are k or 2k long. A cable that closes a ring along a short side leads to a node that is shifted by k along
    every long side. As in the torus there is one cable per dimension and node, a node has 2 cables per dimension, and
    all nodes are alike. But for 8 x 8 x 16 the diameter is 12 links instead of 16, and the mean distance between
    distinct nodes 6.98 links instead of 8.01. No closed form of the bisection is used here.

    Parameters
    ----------
    shape : sequence of int
        Nodes along each dimension: k or 2k with k >= 2, and each of the two at least once.
    hosts : int
        As in ``torus``.
    shift : int, optional
        Shift along the long sides in nodes; k unless given; 0 gives the torus (if k > 2). 0..2k - 1
    radix, rate, switch_delay, host_length, switch_length
        As in ``torus``.

    Raises
    ------
    ValueError
        If the sides are not k and 2k, or the shift is out of range.

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
    shifted = places * (side > k)  # (dimensions, 1) shift by the closing cable of a short side
    cables = []
    for i, size in enumerate(sizes):
        to = at.copy()
        to[i] = (to[i] + 1) % size
        if size == k:
            wraps = to[i] == 0  # (n,)
            to += shifted * wraps
        neighbour = np.ravel_multi_index(tuple(to % side), sizes)
        cables.append((number, neighbour))
    return assemble(parts, hosts, cables, coordinates, gpus=gpus)


@register(
    "topology",
    "hypercube",
    small={"dimensions": 3},
    with_servers={"dimensions": 3, "hosts": 2, "gpus": 2},
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
    gpus: int | None = None,
) -> Fabric:
    """Build a hypercube: two switches are joined if their binary numbers differ in one digit.

    The coordinates of a switch are its binary digits, highest first. With d dimensions there are n = 2^d switches of
    degree d and d n / 2 cables between them. The diameter is d links between switches, the mean between distinct
    switches (d / 2) n / (n - 1) links, and the bisection n / 2 links in each direction.

    Parameters
    ----------
    dimensions : int
        Number of dimensions, d. 1..30
    hosts, radix, rate, switch_delay, host_length, switch_length, gpus
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
        gpus=gpus,
    )


@register(
    "topology",
    "hyperx",
    small={"shape": (3, 4)},
    with_servers={"shape": (3, 4), "gpus": 4},
    bisection=_rows,
)
def hyperx(
    shape: Sequence[int],
    hosts: int = 1,
    *,
    radix: int | None = None,
    rate: units.Quantity | None = None,
    switch_delay: units.Quantity | None = None,
    host_length: units.Quantity = HOST_LENGTH,
    switch_length: units.Quantity = SWITCH_LENGTH,
    gpus: int | None = None,
) -> Fabric:
    """Build a regular HyperX: along each dimension every switch is joined to every other by one cable [1]_.

    With n switches and sizes S_i a switch has a degree of the sum of S_i - 1, and there are n / 2 times as many cables.
    The diameter is one link per dimension, counted between switches; the mean between distinct switches is n / (n - 1)
    times the sum of (S_i - 1) / S_i. The bisection is n S / 4 links in each direction, with S the smallest size, if
    that is even, and never more than half of the hosts. The flattened butterfly of k-port stages [2]_ has all S_i = k
    and k hosts on a switch.

    Parameters
    ----------
    shape : sequence of int
        Switches along each dimension. >= 1 each
    hosts, radix, rate, switch_delay, host_length, switch_length, gpus
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
    return assemble(parts, hosts, grid.cables(), grid.coordinates(), gpus=gpus)


@register(
    "topology",
    "full_mesh",
    small={"switches": 5},
    with_servers={"switches": 5, "hosts": 2, "gpus": 2},
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
    gpus: int | None = None,
) -> Fabric:
    """Build a full mesh: n switches, each joined to every other.

    There are n (n - 1) / 2 cables between switches, each switch has degree n - 1, and any two switches are one link
    apart. The bisection is n^2 / 4 links in each direction for even n, and never more than half of the hosts.

    Parameters
    ----------
    switches : int
        Number of switches, or of chips with ``hosts=0``. >= 1
    hosts, radix, rate, switch_delay, host_length, switch_length, gpus
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
    return assemble(parts, hosts, grid.cables(), {"index": np.arange(n)}, gpus=gpus)


def ring_of(fabric: Fabric, axis: str = "x", first: int = 0) -> Ints:
    """Return the chips that a walk up along one axis of a torus passes until it is back at its first chip.

    In a torus these are the chips of a row. In a ``twisted_torus`` the closing cable of a short side leads to another
    row, so the walk passes more of them before it comes back.

    Parameters
    ----------
    fabric : Fabric
        A ``torus``, ``twisted_torus`` or ``tpu_slice`` of chips, without hosts, with sides of three or more.
    axis : str
        Name of the axis: x, y, z, d4, ...
    first : int
        Number of the chip at which the walk begins. 0..chips - 1

    Returns
    -------
    (k,) int64
        Numbers of the chips in the order of the walk.

    Raises
    ------
    ValueError
        If the axis or the chip does not exist, or a chip has no cable up along the axis.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> ring_of(topologies.build("torus", shape=(4, 4, 8))).size
    4
    >>> ring_of(topologies.build("twisted_torus", shape=(4, 4, 8))).size
    8
    """
    n = fabric.n_ranks
    names = list(fabric.coord_names)
    if axis not in names or fabric.n_cables != n * len(names):
        raise ValueError(
            f"axis must be one of {names} of a torus with a ring along each, got {axis!r} and {fabric!r:.80}"
        )
    # Cables are numbered axis by axis, and every second link leads up.
    up = fabric.target[::2].reshape(len(names), n)[names.index(axis)]
    walk = [units.count(first, "first", 0, n - 1)]
    while (chip := int(up[walk[-1]])) != walk[0]:
        walk.append(chip)
    return np.array(walk)
