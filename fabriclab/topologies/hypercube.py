"""Hypercube: switches whose binary numbers differ in one digit are joined."""

from __future__ import annotations

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.topologies._clos import Parts
from fabriclab.topologies._direct import Axis, bisection, family, grid, path

__all__ = ["hypercube"]


def _axes(dimensions: int, **_: object) -> list[Axis]:
    return [path(2)] * units.count(dimensions, "dimensions", 1, 30)


@family("hypercube", small={"dimensions": 3}, bisection=bisection(_axes, 1))
def hypercube(dimensions: int, hosts: int = 1, *, parts: Parts) -> Fabric:
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
    return grid(_axes(dimensions), hosts, parts)
