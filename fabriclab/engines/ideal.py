"""Flows without contention: the longest path through the dependencies, each flow as if it were alone."""

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

    No engine ends a flow sooner on these routes, because contention only adds time.
    """
    duration = _uncontended_time(fabric, routes, flows)  # (F,)
    start = np.maximum(flows.start, flows.lag)
    finish = start + duration

    # Flows that depend on others, each after all flows that it depends on.
    order = flows.order()
    n_dependencies = np.diff(flows.after_ptr)
    for f in order[n_dependencies[order] > 0].tolist():
        dependencies = flows.after[flows.after_ptr[f] : flows.after_ptr[f + 1]]
        ready = finish[dependencies].max()
        start[f] = max(flows.start[f], ready + flows.lag[f])
        finish[f] = start[f] + duration[f]
    return start, finish


def _uncontended_time(fabric: Fabric, routes: Routes, flows: Flows) -> Floats:
    """Return the time of each flow, (F,): all its bytes at its slowest link, plus the smallest delay of its rows. [s].

    Rows of one flow share links with each other, so their bytes are added up first.
    """
    # Each pair of a flow and a link once. Bytes = size of the flow * sum over its entries of share * use.
    row = rows_of(routes.ptr)  # (E,)
    key = routes.flow.astype(np.int64)[row] * fabric.n_links + routes.link
    pairs, pair_of_entry = np.unique(key, return_inverse=True)
    flow, link = np.divmod(pairs, fabric.n_links)
    part = np.bincount(pair_of_entry, routes.share[row] * routes.use, pairs.size)
    size = flows.size[flow] * part
    with np.errstate(divide="ignore"):
        seconds = np.divide(size, fabric.capacity[link], out=np.zeros(pairs.size), where=size > 0)
    if not np.isfinite(seconds).all():
        worst = int(np.argmax(seconds))
        raise never_ends(fabric, int(flow[worst]), int(link[worst]))

    # The slowest link of a flow, or the limit of its source, sets its time; a flow within a node takes no time.
    is_routed = np.bincount(routes.flow, np.diff(routes.ptr) > 0, flows.n_flows) > 0
    duration = np.where(is_routed, flows.size / flows.limit, 0.0)
    np.maximum.at(duration, flow, seconds)

    used = routes.share > 0
    delay = np.full(flows.n_flows, np.inf)
    np.minimum.at(delay, routes.flow[used], routes.delay[used])
    return duration + np.where(np.isfinite(delay), delay, 0.0)
