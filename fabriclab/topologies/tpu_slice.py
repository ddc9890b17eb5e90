"""TPU slice: cubes of 4 x 4 x 4 chips that optical circuit switches (OCS) connect to a torus."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import catalog, units
from fabriclab.core import Fabric, FabricBuilder, Flags, Ints, Value, freeze, whole
from fabriclab.errors import FabricError
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


@dataclass(frozen=True, eq=False)
class PortMap(Value):
    """The circuits of one slice in the optical switches of a pod, which `slice_of` makes.

    A circuit joins the upper face of one cube to the lower face of another, at one position of a face, in one switch.

    Parameters
    ----------
    shape : tuple of int
        Chips along x, y and z.
    twisted : bool
        Whether the closing circuits are shifted.
    cubes : (K,) int64
        Number in the pod of the cube at each place of the slice; places are ordered by x, then y, then z.
    ocs : (C,) int64
        Switch of each circuit: 16 x dimension + position on the face.
    upper, lower : (C,) int64
        The cube whose upper face, and the cube whose lower face, the circuit joins.
    """

    shape: tuple[int, ...]
    twisted: bool
    cubes: Ints
    ocs: Ints
    upper: Ints
    lower: Ints

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        freeze(self, dict.fromkeys(("cubes", "ocs", "upper", "lower"), np.int64))

    @property
    def n_circuits(self) -> int:
        """Number of circuits: 48 for each cube."""
        return int(self.ocs.size)

    def rows(self) -> set[tuple[int, int, int]]:
        """Return the circuits as a set of switch, cube of the upper face and cube of the lower face."""
        return set(zip(self.ocs.tolist(), self.upper.tolist(), self.lower.tolist(), strict=True))

    def __repr__(self) -> str:
        """Show the shape, the cubes and the circuits."""
        sides = " x ".join(str(k) for k in self.shape)
        twist = "twisted " if self.twisted else ""
        return f"<PortMap: {twist}{sides} on {self.cubes.size} cubes, {self.n_circuits} circuits>"


def slice_of(
    shape: Sequence[int], cubes: ArrayLike | None = None, twisted: bool = False
) -> PortMap:
    """Return the circuits that make a slice of any cubes of a pod.

    Which cubes they are makes no difference to the torus, because every switch reaches every cube: this is what the
    optical switches are for.

    Parameters
    ----------
    shape : sequence of int
        Chips along x, y and z, as in `tpu_slice`.
    cubes : (K,) int, optional
        Numbers of the cubes in the pod, 0..63, one for each place; the first K unless given.
    twisted : bool
        As in `tpu_slice`.

    Raises
    ------
    ValueError
        If the cubes are too few or too many, or one has two places.

    Examples
    --------
    >>> slice_of((16, 16, 16))
    <PortMap: 16 x 16 x 16 on 64 cubes, 3072 circuits>
    >>> slice_of((4, 4, 8), [7, 31])
    <PortMap: 4 x 4 x 8 on 2 cubes, 96 circuits>
    """
    torus_of_chips = tpu_slice(shape, twisted)
    places = torus_of_chips.n_ranks // _SIDE**3
    given = np.arange(places) if cubes is None else cubes
    number = whole(given, "cubes", (-1,), "cubes of the pod", _cubes_of_a_pod())
    if number.size != places or np.unique(number).size != places:
        raise ValueError(
            f"cubes must name {places} different cubes for the shape {tuple(shape)}, got {number.size} "
            f"({np.unique(number).size} different)"
        )

    ocs = ocs_of_cables(torus_of_chips)
    optical = np.flatnonzero(ocs >= 0)
    upper = torus_of_chips.server[torus_of_chips.source[2 * optical]]
    lower = torus_of_chips.server[torus_of_chips.target[2 * optical]]
    return PortMap(
        shape=tuple(int(k) for k in shape),
        twisted=twisted,
        cubes=number,
        ocs=ocs[optical],
        upper=number[upper],
        lower=number[lower],
    )


def _cubes_of_a_pod() -> int:
    """Return how many cubes a pod has."""
    chips = catalog.value("systems", "tpu4pod", "chips")
    return int(chips / catalog.value("systems", "tpu4pod", "cube"))


class Swap(NamedTuple):
    """A slice in which one cube was swapped for a spare one, and what it took."""

    before: PortMap
    after: PortMap
    moved: int  # circuits that were taken down, and as many that were set up
    kept: int  # circuits that nothing happened to


def swap(ports: PortMap, failed: int, spare: int) -> Swap:
    """Swap a failed cube for a spare one by moving circuits only; no fibre is touched.

    Parameters
    ----------
    ports : PortMap
        The slice.
    failed : int
        Number of a cube of the slice.
    spare : int
        Number of a cube of the pod that the slice does not have.

    Returns
    -------
    Swap
        Moved are the circuits of the failed cube: 96, two in each of the 48 switches, or one where the cube closes its
        own ring.

    Examples
    --------
    >>> exchange = swap(slice_of((8, 8, 8)), failed=3, spare=20)
    >>> exchange.moved, exchange.kept
    (96, 288)
    """
    pod = _cubes_of_a_pod()
    gone = units.count(failed, "failed", 0, pod - 1)
    new = units.count(spare, "spare", 0, pod - 1)
    if gone not in ports.cubes:
        raise ValueError(f"failed must be a cube of the slice, {ports.cubes.tolist()}, got {gone}")
    if new in ports.cubes:
        free = np.setdiff1d(np.arange(pod), ports.cubes)
        hint = f"; free are {free[:8].tolist()}" if free.size else "; the slice takes the whole pod"
        raise ValueError(f"spare must be a cube that the slice does not have, got {new}{hint}")

    cubes = np.where(ports.cubes == gone, new, ports.cubes)
    after = slice_of(ports.shape, cubes, ports.twisted)
    kept = len(ports.rows() & after.rows())
    return Swap(ports, after, moved=ports.n_circuits - kept, kept=kept)


def wired(ports: PortMap) -> Fabric:
    """Build the chips of a slice as its circuits really join them, cube by cube, in the order of the pod.

    Nothing is taken from the shape: each fibre is followed from the upper face of a cube through its switch to the
    lower face of the cube that the circuit names. Nodes have the coordinates cube, x, y and z, the last three within
    the cube. `places` tells whether the result is the torus that was asked for.

    Raises
    ------
    ValueError
        If two circuits take one port of a switch, or a port has none.
    """
    member = np.unique(ports.cubes)
    n = member.size * _SIDE**3
    at = np.array(np.unravel_index(np.arange(n), (member.size, _SIDE, _SIDE, _SIDE)))  # (4, n)
    here = np.searchsorted(member, ports.upper)
    there = np.searchsorted(member, ports.lower)
    for name, face in (("upper", here), ("lower", there)):
        taken = np.bincount(ports.ocs * member.size + face, minlength=3 * _FACE * member.size)
        if np.any(taken != 1):
            ocs, cube = divmod(int(np.argmax(taken != 1)), member.size)
            raise ValueError(
                f"the {name} face of cube {member[cube]} must have one circuit in switch {ocs}, "
                f"got {taken[ocs * member.size + cube]}"
            )
    through = np.zeros((3 * _FACE, member.size), dtype=np.int64)  # cube behind each port
    through[ports.ocs, here] = there

    builder = FabricBuilder(("chip",), ("cube", "x", "y", "z"))
    chip = builder.add_nodes(
        "chip", n, tier=0, transit=True, cube=member[at[0]], x=at[1], y=at[2], z=at[3]
    )
    rate = catalog.value("links", "ici-tpu4", "bandwidth_per_link")
    for dimension in range(3):
        above = at.copy()
        above[1 + dimension] = (at[1 + dimension] + 1) % _SIDE
        leaves: Flags = at[1 + dimension] == _SIDE - 1
        one = at[1 + (dimension + 1) % 3]
        other = at[1 + (dimension + 2) % 3]
        ocs = _FACE * dimension + _SIDE * one + other
        above[0] = np.where(leaves, through[ocs, at[0]], at[0])
        up = np.ravel_multi_index(tuple(above), (member.size, _SIDE, _SIDE, _SIDE))
        builder.add_cables(chip, chip[up], capacity=rate)
    return builder.build(
        "tpu_slice",
        {},
        endpoint=chip,
        rail=np.zeros(n),
        server=np.searchsorted(member, member[at[0]]),
    )


def places(ports: PortMap) -> Ints:
    """Return which chip of `wired` stands at each place of the torus that a slice was asked for, (n,).

    The chips are found by walking up along x, y and z from the first cube; then every cable of the torus is compared
    with the cable that is really there. So a result proves that the two are the same graph.

    Raises
    ------
    FabricError
        If the circuits make another graph, naming the first cable that differs.
    """
    real = wired(ports)
    n = real.n_ranks
    up = _above(real)
    shape = ports.shape
    place = np.zeros(shape, dtype=np.int64)
    place[0, 0, 0] = np.searchsorted(np.unique(ports.cubes), ports.cubes[0]) * _SIDE**3
    for i in range(1, shape[0]):
        place[i, 0, 0] = up[0, place[i - 1, 0, 0]]
    for j in range(1, shape[1]):
        place[:, j, 0] = up[1, place[:, j - 1, 0]]
    for k in range(1, shape[2]):
        place[:, :, k] = up[2, place[:, :, k - 1]]

    wanted = tpu_slice(shape, ports.twisted)
    found = place.ravel()
    differs = np.argwhere(up[:, found] != found[_above(wanted)])
    if np.unique(found).size != n or differs.size:
        if differs.size:
            dimension, chip = differs[0].tolist()
            where = f"the cable up along {'xyz'[dimension]} from {wanted.name(chip)}"
        else:
            where = "a ring, which comes back to its beginning too soon"
        raise FabricError(f"the circuits of {ports!r} make no torus of this shape: {where} differs")
    return found


def _above(fabric: Fabric) -> Ints:
    """Return the chip to which the cable up along each dimension leads from each chip, (3, n)."""
    n = fabric.n_ranks
    dimension = np.arange(3 * n) // n  # of each cable
    up = np.zeros((3, n), dtype=np.int64)
    up[dimension, fabric.source[::2]] = fabric.target[::2]
    return up
