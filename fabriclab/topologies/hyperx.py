"""HyperX: a grid in which all switches of a row are joined with each other; also the flattened butterfly."""

from __future__ import annotations

from collections.abc import Sequence

from fabriclab.core import Fabric
from fabriclab.topologies._clos import Parts
from fabriclab.topologies._direct import Axis, bisection, complete, family, grid, sizes

__all__ = ["hyperx"]


def _axes(shape: Sequence[int], **_: object) -> list[Axis]:
    return [complete(k) for k in sizes(shape)]


@family("hyperx", small={"shape": (3, 4)}, bisection=bisection(_axes, 1))
def hyperx(shape: Sequence[int], hosts: int = 1, *, parts: Parts) -> Fabric:
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
    return grid(_axes(shape), hosts, parts)
