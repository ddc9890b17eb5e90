"""Flows alone: the longest path through the dependencies, each flow as if no other were there."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fabriclab.core import Changes, Fabric, Floats, Flows, Routes, rows_of
from fabriclab.engines._rows import never_ends
from fabriclab.registry import register


@register("engine", "ideal", changes=False)
def ideal(
    fabric: Fabric,
    routes: Routes,
    flows: Flows,
    changes: Changes | None,
    config: Mapping[str, Any],
    rng: np.random.Generator | None,
) -> tuple[Floats, Floats]:
    """Return start and finish of each flow of a graph [s], (F,); see `fabriclab.engines.run`.

    No engine ends a flow sooner on these routes: contention only adds.
    """
    takes = _alone(fabric, routes, flows)
    start = np.maximum(flows.start, flows.lag)
    finish = start + takes
    order = flows.order()
    for f in order[np.diff(flows.after_ptr)[order] > 0].tolist():
        ready = finish[flows.after[flows.after_ptr[f] : flows.after_ptr[f + 1]]].max()
        start[f] = max(flows.start[f], ready + flows.lag[f])
        finish[f] = start[f] + takes[f]
    return start, finish


def _alone(fabric: Fabric, routes: Routes, flows: Flows) -> Floats:
    """Return the time of each flow (F,): all its bytes at its narrowest link, and the least delay of its rows.

    Rows of one flow share their links with each other, so the bytes are added over the rows first.
    """
    row = rows_of(routes.ptr)
    key, same = np.unique(
        routes.flow.astype(np.int64)[row] * fabric.n_links + routes.link, return_inverse=True
    )
    flow, link = np.divmod(key, fabric.n_links)
    size = flows.size[flow] * np.bincount(same, routes.share[row] * routes.use, key.size)
    with np.errstate(divide="ignore"):
        each = np.divide(size, fabric.capacity[link], out=np.zeros(key.size), where=size > 0)
    if not np.isfinite(each).all():
        worst = int(np.argmax(each))
        raise never_ends(fabric, int(flow[worst]), int(link[worst]))
    routed = np.bincount(routes.flow, np.diff(routes.ptr) > 0, flows.n_flows) > 0
    takes = np.where(routed, flows.size / flows.limit, 0.0)  # what stays on its node takes no time
    np.maximum.at(takes, flow, each)
    delay = np.full(flows.n_flows, np.inf)
    np.minimum.at(delay, routes.flow[routes.share > 0], routes.delay[routes.share > 0])
    return takes + np.where(np.isfinite(delay), delay, 0.0)
