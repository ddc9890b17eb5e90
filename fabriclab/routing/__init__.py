"""Routing: from flows to Routes on a Fabric.

Every method is a file that registers itself. A method sees *pairs* of nodes, each once, and the shortest
ways between them; two flows with the same ends take the same routes, unless their entropy differs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from numpy.typing import ArrayLike

from fabriclab import registry, units
from fabriclab.core import Fabric, Flows, Routes
from fabriclab.routing._clos import ways
from fabriclab.routing._deadlock import deadlock, lanes
from fabriclab.routing._settle import Settled, settle
from fabriclab.routing._static import from_tables, tables
from fabriclab.routing._ways import Rows, by_pair

__all__ = ["Settled", "deadlock", "from_tables", "lanes", "names", "route", "settle", "settled", "tables"]


def names() -> tuple[str, ...]:
    """Return the registered routings."""
    return registry.names("routing")


def route(
    fabric: Fabric, flows: Flows, method: str = "ecmp", *, subflows: int = 1, seed: int = 0,
    entropy: ArrayLike | None = None,
) -> Routes:  # fmt: skip
    """Return routes for all flows; nodes that forbid transit are never crossed, but by a relay that takes a copy.

    Leaves out load, but for methods that choose by it ("adaptive", "ugal_l", "ugal_g"): they see all flows sent at
    once, and `settled` tells how well their choice has settled.

    Parameters
    ----------
    fabric : Fabric
        Links of capacity 0 are avoided.
    flows : Flows
        Their sources and targets. A flow from a node to itself gets no route.
    method : str
        ``"ecmp"`` (each subflow takes one path, by hash) or ``"spray"`` (every shortest path carries its
        part, in proportion to capacity), or another name of `names`.
    subflows : int
        Rows per flow with a hash of their own, such as the queue pairs of a connection. >= 1
    seed : int
        Seed of the hash. The same seed gives the same routes on every machine.
    entropy : (F,) int, optional
        What the header of each flow has besides its ends, such as the number of its queue pair or its UDP source
        port: it enters the hash, so that flows with the same ends may part.

    Returns
    -------
    Routes
        ``subflows`` rows per flow, in the order of the flows.

    Raises
    ------
    NoPath
        If a flow has no path, naming its ends.
    TooLarge
        If the routes would need more memory than the machine has.
    ValueError
        If the method does not fit the fabric, or ``entropy`` the flows.
    """
    return settled(fabric, flows, method, subflows=subflows, seed=seed, entropy=entropy).routes


def settled(fabric: Fabric, flows: Flows, method: str, *, subflows: int = 1, seed: int = 0,
            entropy: ArrayLike | None = None) -> Settled:  # fmt: skip
    """Return routes as `route` does, with the iterations and the rest of a choice by load (0 for other methods)."""
    choose: Callable[..., Rows] = registry.get("routing", method)
    n_sub, number = units.count(subflows, "subflows"), units.count(seed, "seed", 0)
    chosen = partial(choose, fabric, ways(fabric), subflows=n_sub)
    routes = by_pair(fabric, flows, lambda s, t, own: chosen(s, t, seed=own), number, entropy)
    cost = registry.info("routing", method).get("cost")
    return settle(fabric, flows, routes, cost) if cost else Settled(routes, 0, 0.0)
