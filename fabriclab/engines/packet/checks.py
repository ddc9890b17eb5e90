"""What the packet engine refuses before it runs: settings, routes and flows that do not fit together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fabriclab import registry, spelling, units
from fabriclab.core import PATH, Changes, Fabric, Flows, Routes
from fabriclab.engines.packet import state
from fabriclab.engines.packet.settings import Settings
from fabriclab.errors import NoPath, Unreachable

__all__ = ["check_memory_of_switches", "check_run", "variant"]

_MOST_CLASSES = 16  # virtual lanes of InfiniBand; Ethernet has 8 priorities


def variant(kind: str, name: str, before: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Return a registered control loop or balancer, made with its options.

    Raises
    ------
    TypeError
        If it does not know an option; the message lists those that it knows.
    """
    function: Callable[..., Any] = registry.get(kind, name)
    known = list(inspect.signature(function).parameters)[len(before) :]
    for option in options:
        if option not in known:
            listed = ", ".join(known) or "none"
            raise TypeError(
                f"{kind}_options has {option!r}, which {kind} {name!r} does not know; its options are {listed}"
                f"{spelling.near(str(option), known)}"
            )
    return function(*before, **options)


def check_run(
    fabric: Fabric, routes: Routes, flows: Flows, changes: Changes | None, settings: Settings
) -> None:
    """Refuse a run that packets cannot follow.

    Raises
    ------
    NoPath
        If a flow between two nodes has bytes and no route.
    Unreachable
        If a route crosses a link without capacity.
    ValueError
        If a number of a link, a rank or a flow does not exist, a row is no path, or a scenario cannot end.
    """
    if flows.is_sequence:
        raise ValueError(
            f"play takes one graph of flows, got {flows.repeat.size} groups in order; "
            "call flows.expanded() and route the result, or fabriclab.engines.run(..., engine='packet')"
        )
    _check_paths(fabric, routes)
    _check_every_flow_has_one(fabric, routes, flows)
    if changes is not None:
        _check_numbers("changes.link", changes.link, fabric.n_links, "link")
    _check_numbers("watch_links", settings.watch_links, fabric.n_links, "link")
    _check_numbers("watch_flows", settings.watch_flows, flows.n_flows, "flow")
    _check_numbers("receivers", settings.receivers, fabric.n_ranks, "rank")
    if isinstance(settings.loss, Mapping):
        _check_numbers("loss", settings.loss, fabric.n_links, "link")
    _check_storms(fabric, settings)
    for label, number in settings.classes.items():
        if label not in flows.labels:
            raise ValueError(
                f"classes names {label!r}, and the flows have the labels {', '.join(flows.labels)}"
            )
        units.count(number, f"classes[{label!r}]", 0, _MOST_CLASSES - 1)


def _check_paths(fabric: Fabric, routes: Routes) -> None:
    """Refuse rows that packets cannot follow."""
    wrong = np.flatnonzero(routes.kind != PATH)
    if wrong.size:
        flow = int(routes.flow[wrong[0]])
        raise ValueError(
            f"flow {flow} has a row that is no path: packets follow paths. For spraying, route by method='paths' and "
            "give balance='spray' in config; trees of reducing switches run on engine 'flow', or in fabriclab.innetwork"
        )
    _check_numbers("routes.link", routes.link, fabric.n_links, "link")
    dead = fabric.capacity[routes.link] <= 0
    if dead.any():
        entry = int(np.flatnonzero(dead)[0])
        link = int(routes.link[entry])
        raise Unreachable(
            f"flow {_flow_of(routes, entry)} crosses {fabric.link_name(link)} (link {link}), which has no capacity; "
            "route around it, or let it fail during the run with changes="
        )
    is_inner = np.ones(
        max(0, routes.link.size - 1), dtype=bool
    )  # this entry and the next are of one row
    ends = routes.ptr[1:-1]
    is_inner[ends[(ends > 0) & (ends < routes.link.size)] - 1] = False
    arrives = fabric.target[routes.link[:-1]]
    leaves = fabric.source[routes.link[1:]]
    apart = np.flatnonzero(is_inner & (arrives != leaves))
    if apart.size:
        entry = int(apart[0])
        raise ValueError(
            f"flow {_flow_of(routes, entry)} has a row that is no path: {fabric.link_name(int(routes.link[entry]))} is "
            f"followed by {fabric.link_name(int(routes.link[entry + 1]))}; route these flows on this fabric"
        )


def _flow_of(routes: Routes, entry: int) -> int:
    row = int(np.searchsorted(routes.ptr, entry, side="right") - 1)
    return int(routes.flow[row])


def _check_every_flow_has_one(fabric: Fabric, routes: Routes, flows: Flows) -> None:
    """Refuse flows that have bytes but no route."""
    _check_numbers("routes.flow", routes.flow, flows.n_flows, "flow")
    has_links = np.diff(routes.ptr) > 0
    routed = np.zeros(flows.n_flows, dtype=bool)
    routed[routes.flow[has_links & (routes.share > 0)]] = True
    lost = np.flatnonzero((flows.size > 0) & (flows.source != flows.target) & ~routed)
    if lost.size:
        f = int(lost[0])
        source = fabric.name(int(flows.source[f]))
        target = fabric.name(int(flows.target[f]))
        raise NoPath(
            f"flow {f} from {source} to {target} has {flows.size[f]:g} B and no route; route these flows on this "
            "fabric. If it has no path between the two, nothing can carry them"
        )


def _check_numbers(name: str, numbers: Any, n: int, what: str) -> None:
    """Refuse numbers of links, flows or ranks that do not exist."""
    given = np.array([int(number) for number in numbers], dtype=np.int64)
    wrong = given[(given < 0) | (given >= n)]
    if wrong.size:
        raise ValueError(f"{name} names {what} {wrong[0]}, and there are {n}, numbered from 0")


def _check_storms(fabric: Fabric, settings: Settings) -> None:
    """Refuse storms that no network card could make."""
    for storm in settings.storms:
        if len(storm) != 3:
            raise ValueError(f"storms needs (link, begin, end) for each storm, got {storm!r}")
        link, begin, end = storm
        _check_numbers("storms", (link,), fabric.n_links, "link")
        name = fabric.link_name(int(link))
        if not units.time(begin, "storms") < units.time(end, "storms"):
            raise ValueError(f"a storm must begin before it ends, got {storm!r} for {name}")
        target = int(fabric.target[int(link)])
        if fabric.transit[target] and fabric.tier[target] > 0 and _leads_to_switch(fabric, target):
            raise ValueError(
                f"storms names link {int(link)} ({name}), which leads to a switch: a storm comes from a network card, "
                "so take a link from a switch to a card"
            )
        slow = [int(fabric.endpoint[int(rank)]) for rank in settings.receivers]
        if target in slow:
            raise ValueError(
                f"storms names link {int(link)} ({name}), whose target is a slow receiver as well; take one of both"
            )


def _leads_to_switch(fabric: Fabric, node: int) -> bool:
    """Return whether a node has more than two neighbours, as no network card has."""
    return len(np.unique(fabric.target[fabric.source == node])) > 2


def check_memory_of_switches(
    fabric: Fabric, queues: Any, shared: Any, settings: Settings, n_classes: int
) -> None:
    """Refuse buffers in which no packet would ever find room: such a scenario cannot end."""
    packet = settings.frame
    link = np.repeat(np.arange(fabric.n_links), n_classes)
    node = fabric.target[link]
    if settings.lossless == "pause":
        most = shared[node] if settings.xoff is None else np.minimum(shared[node], settings.xoff)
        room = float(settings.reserve) + most + queues["headroom"]
        too_small = (queues["mode"] == state.PAUSING) & (room < packet)
        told = "reserve, xoff and headroom"
        advice = "give more of one, or smaller packets"
    else:
        room = float(settings.drop_share) * shared[node]
        is_stored = fabric.transit[node] & (queues["mode"] == state.LOSSY)
        too_small = is_stored & (room < packet)
        told = "drop_share of the buffer"
        advice = "give a larger share or buffer, or smaller packets"
    if too_small.any():
        first = int(np.flatnonzero(too_small)[0])
        raise ValueError(
            f"a packet of {packet} B never finds room behind {fabric.link_name(int(link[first]))}: {told} leave "
            f"{room[first]:g} B, so this scenario cannot end; {advice}"
        )
