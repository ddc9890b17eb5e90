"""TPU slice: cubes of 4 x 4 x 4 chips that optical circuit switches (OCS) connect to a torus."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fabriclab import catalog, units
from fabriclab.core import Fabric, Ints
from fabriclab.registry import register
from fabriclab.topologies._switches import SWITCH_LENGTH
from fabriclab.topologies.grids import bisection, ring, torus, twisted_torus

_SIDE = 4  # source: catalog systems tpu4pod
_FACE = _SIDE**2  # fibres on a face of a cube
_CUBE_LENGTH = 1.0  # illustrative: cables inside the rack of a cube


_torus_bisection = bisection(ring, 0)


def _bisection(shape: Sequence[int], twisted: bool = False, **_: object) -> float | None:
    """Return the number of cables in the narrowest cut of a torus; no closed form is known for a twisted one."""
    return None if twisted else _torus_bisection(shape)


@register("topology", "tpu_slice", small={"shape": (4, 4, 4)}, bisection=_bisection)
def tpu_slice(
    shape: Sequence[int],
    twisted: bool = False,
    *,
    rate: units.Quantity | None = None,
    switch_length: units.Quantity = SWITCH_LENGTH,
) -> Fabric:
    """Build a slice of a TPU v4 pod: a torus of chips, regular or twisted, whose cubes optical switches connect.

    Counts and distances are the same as for ``torus`` and ``twisted_torus``. Of the 3n cables of n chips, 9n/4 are
    copper inside a cube and 3n/4 are fibre that leaves it. Each fibre cable is one circuit through an optical circuit
    switch (OCS), even where a single cube closes its own ring. Every cube has 16 fibres on each of its 6 faces, and
    position p on the two faces of one dimension belongs to one OCS. So there are 3 x 16 = 48 of them, and each cube
    takes two ports of each. A circuit carries no other traffic, so an OCS is not a node of the fabric; see
    `ocs_of_cables`. Leaves out the time that an OCS takes to reconfigure.

    Parameters
    ----------
    shape : sequence of int
        Chips along x, y and z, each a multiple of 4; at most 64 cubes.
    twisted : bool
        True: the sides are k and 2k, and the cables that close a ring along a short side shift the long sides by k.
    rate : float or str, optional
        Rate of a cable; the rate of a TPU v4 link unless given. [B/s]
    switch_length : float or str
        Length of the fibre of a circuit from cube to cube; illustrative. [m]

    Raises
    ------
    ValueError
        If the shape is not made of cubes, has too many of them, or does not have the sides of a twisted torus.

    References
    ----------
    .. [1] N. P. Jouppi et al., TPU v4: an optically reconfigurable supercomputer for machine learning with
       hardware support for embeddings, ISCA 2023.
    """
    chips = int(catalog.value("systems", "tpu4pod", "chips"))
    if not _is_of_cubes(shape) or np.prod(shape, dtype=float) > chips:
        raise ValueError(
            f"shape must be 3 multiples of {_SIDE}, up to {chips} chips, as (4, 4, 8), got {shape!r:.80}"
        )
    if rate is None:
        capacity = catalog.value("links", "ici-tpu4", "bandwidth_per_link")
    else:
        capacity = units.rate(rate)

    build = twisted_torus if units.flag(twisted, "twisted") else torus
    grid = build(shape, rate=capacity, switch_delay=0.0, switch_length=switch_length)
    outside = np.repeat(ocs_of_cables(grid) >= 0, 2)  # (L,) links that leave a cube
    cube = np.unique(grid.coord // _SIDE, axis=0, return_inverse=True)[1]
    inside_delay = _CUBE_LENGTH * catalog.value("media", "acc800", "propagation")
    return replace(
        grid,
        media=("copper", "fibre"),
        medium=outside.astype(np.int8),
        server=cube.ravel().astype(np.int32),
        length=np.where(outside, grid.length, _CUBE_LENGTH),
        delay=np.where(outside, grid.delay, inside_delay),
    )


def _is_of_cubes(shape: Sequence[int]) -> bool:
    """Return whether a shape has three sides, each a multiple of the side of a cube."""
    if np.ndim(shape) != 1 or len(shape) != 3:
        return False
    return all(units.count(k, "shape") % _SIDE == 0 for k in shape)


def ocs_of_cables(fabric: Fabric) -> Ints:
    """Return the number of the OCS that each cable of a slice passes through, (cables,); -1 inside a cube.

    The number is 16 x dimension + position on the face.

    Examples
    --------
    >>> np.unique(ocs_of_cables(tpu_slice((4, 4, 8)))).size - 1
    48
    """
    cable = np.arange(fabric.n_cables)
    at = fabric.coord[fabric.source[::2]]  # (cables, 3) the chip from which each cable leads up
    # the cables of a torus are sorted by dimension; each leads from a chip to the next one up
    dimension = cable // fabric.n_ranks
    leaves_cube = at[cable, dimension] % _SIDE == _SIDE - 1

    # the position on the face follows from the two other dimensions
    one = at[cable, (dimension + 1) % 3] % _SIDE
    other = at[cable, (dimension + 2) % 3] % _SIDE
    ocs = _FACE * dimension + _SIDE * one + other
    return np.where(leaves_cube, ocs, -1)
