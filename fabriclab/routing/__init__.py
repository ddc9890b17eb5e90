"""Routing: from flows to Routes on a Fabric.

Every method is a file that registers itself. A method sees *pairs* of nodes, each once, and the shortest
ways between them; two flows with the same ends take the same routes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fabriclab import registry, units
from fabriclab.core import Fabric, Flows, Routes
from fabriclab.core._arrays import expand, pointer, rows_of
from fabriclab.routing._shortest import ways
from fabriclab.routing._ways import Rows

__all__ = ["names", "route"]


def names() -> tuple[str, ...]:
    """Return the registered routings."""
    return registry.names("routing")


def route(fabric: Fabric, flows: Flows, method: str = "ecmp", *, subflows: int = 1, seed: int = 0) -> Routes:
    """Return routes for all flows along shortest paths; nodes that forbid transit are never crossed.

    Leaves out load: no method of this module looks at what other flows do.

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
    """
    choose: Callable[..., Rows] = registry.get("routing", method)
    n_sub, seed = units.count(subflows, "subflows"), units.count(seed, "seed", 0)
    moving = np.flatnonzero(flows.source != flows.target)
    key = flows.source[moving].astype(np.int64) * fabric.n_nodes + flows.target[moving]
    pairs, inverse = np.unique(key, return_inverse=True)
    rows = choose(fabric, ways(fabric), pairs // fabric.n_nodes, pairs % fabric.n_nodes, subflows=n_sub, seed=seed)
    return _for_flows(fabric, rows, moving, inverse, n_sub)


def _for_flows(fabric: Fabric, rows: Rows, moving: NDArray[np.int64], inverse: NDArray[np.int64], n_sub: int) -> Routes:
    """Give each flow the rows of its pair."""
    delay = np.bincount(rows_of(rows.ptr), weights=fabric.delay[rows.link] * rows.use, minlength=rows.ptr.size - 1)
    wanted = (inverse[:, None] * n_sub + np.arange(n_sub)).ravel()
    lengths = np.diff(rows.ptr)[wanted]
    entries = expand(rows.ptr[wanted], lengths)
    n = wanted.size
    return Routes(
        ptr=pointer(lengths),
        link=rows.link[entries].astype(np.int32),
        use=rows.use[entries],
        flow=np.repeat(moving, n_sub).astype(np.int32),
        share=np.full(n, 1.0 / n_sub),
        delay=delay[wanted],
        kind=np.full(n, rows.kind, dtype=np.int8),
        adaptive=np.zeros(n, dtype=np.bool_),
    )
