"""Full mesh: every switch (or chip) joined with every other."""

from __future__ import annotations

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.topologies._clos import Parts
from fabriclab.topologies._direct import Axis, bisection, complete, family, grid

__all__ = ["full_mesh"]


def _axes(switches: int, **_: object) -> list[Axis]:
    return [complete(units.count(switches, "switches"))]


@family("full_mesh", small={"switches": 5}, bisection=bisection(_axes, 1))
def full_mesh(switches: int, hosts: int = 1, *, parts: Parts) -> Fabric:
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
    return grid(_axes(switches), hosts, parts, ["index"])
