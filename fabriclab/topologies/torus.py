"""Torus and mesh: grids of chips or switches, with rings along each dimension or without."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.topologies._clos import Parts
from fabriclab.topologies._direct import Axis, bisection, family, grid, path, ring, sizes

__all__ = ["axes", "mesh", "torus"]


def axes(shape: Sequence[int], wrap: bool | Sequence[bool] = True, **_: object) -> list[Axis]:
    """Return the dimensions, each a ring where it wraps."""
    each, closed = sizes(shape), [wrap] * len(shape) if isinstance(wrap, bool) else wrap
    if not hasattr(closed, "__len__") or len(closed) != len(each):
        msg = f"wrap must be True, False or one of them for each of the {len(each)} dimensions, got {wrap!r:.80}"
        raise ValueError(msg)
    pairs = zip(each, closed, strict=True)
    return [ring(k) if units.flag(w, f"wrap[{i}]") else path(k) for i, (k, w) in enumerate(pairs)]


@family("torus", small={"shape": (3, 4)}, bisection=bisection(axes, 0))
def torus(shape: Sequence[int], wrap: bool | Sequence[bool] = True, hosts: int = 0, *, parts: Parts) -> Fabric:
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
def mesh(shape: Sequence[int], hosts: int = 0, *, parts: Parts) -> Fabric:
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
