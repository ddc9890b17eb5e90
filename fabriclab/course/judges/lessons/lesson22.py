"""Lesson 22: detours in a dragonfly."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from fabriclab import metrics, routing, topologies
from fabriclab.course.judges import Trace, TriedCase
from fabriclab.course.judges.shared.functions import (
    ROUNDING,
    Verdict,
    explained,
    mistake_of,
    name_of,
    number_of,
)
from fabriclab.registry import register
from fabriclab.texts import text

Share = Callable[[int, int], Any]  # groups, GPUs of a group -> share of the rate that each GPU gets
# GPUs and global cables of a switch, switches of a group: dragonflies in which two groups share one cable. The last has
# twice as many GPUs in a group as cables leave it.
SHAPES: Sequence[tuple[int, int, int]] = ((4, 4, 8), (2, 2, 4), (2, 2, 8), (3, 3, 6), (8, 4, 8))
SHARE_MISTAKES: dict[str, Callable[[int, int], float]] = {
    "direct route": lambda groups, size: 1 / size,
    "one cable for each detour": lambda groups, size: (groups - 2) / size,
    "all groups drawn": lambda groups, size: groups / (2 * size),
    "direct cable used": lambda groups, size: (groups - 1) / (2 * size),
    "one GPU": lambda groups, size: (groups - 2) / 2,
    "load for share": lambda groups, size: 2 * size / (groups - 2),
}


@cache
def built_network(gpus: int, cables: int, switches: int) -> tuple[int, int, float]:
    """Build a dragonfly and send from every group to the next over detours.

    Returns the number of groups, the GPUs of each, and the share of its rate for which the fullest global cable has
    room.
    """
    fabric = topologies.build("dragonfly", p=gpus, a=switches, h=cables)
    size = gpus * switches
    flows = metrics.shift(fabric, size)
    carried = routing.route(fabric, flows, "valiant").link_bytes(flows, fabric.n_links)
    group = fabric.coordinate("group")
    between = fabric.transit[fabric.source] & fabric.transit[fabric.target]
    is_global = between & (group[fabric.source] != group[fabric.target])
    seconds = carried[is_global] / fabric.capacity[is_global]  # for one second at full rate
    return fabric.n_ranks // size, size, float(1 / np.max(seconds))


@register("check", "22-write-detours")
def detour_share(answer: Share) -> Verdict:
    """Run ``answer(groups, size)``; right is the share that the library finds on the dragonfly of that size."""
    networks = [built_network(*shape) for shape in SHAPES]
    sizes = [(groups, size) for groups, size, _ in networks]
    returned = [number_of(answer, groups, size) for groups, size in sizes]
    cases = tuple(
        _share_case(name_of(answer), *network, found)
        for network, found in zip(networks, returned, strict=True)
    )
    for (groups, size, right), found, tried in zip(networks, returned, cases, strict=True):
        if not tried.right:
            given = {"groups": groups, "size": size}
            line = text("function.detours", **given, got=f"{found:.6g}", right=f"{right:.4g}")
            name = mistake_of(returned, SHARE_MISTAKES, sizes)
            trace = Trace(cases, look=text("trace.look_detours"))
            return False, [line, *explained("22-write-detours", name)], name, trace
    return True, [], ""


def _share_case(name: str, groups: int, size: int, right: float, found: float) -> TriedCase:
    """Return the case of a dragonfly, and whether the share is that of its fullest global cable."""
    is_right = bool(np.isclose(found, right, rtol=ROUNDING))
    went_in = text("trace.groups", groups=groups, size=size)
    return TriedCase(went_in, is_right, f"{name}({groups}, {size})", f"{found:.4g}", f"{right:.4g}")
