"""Reach: every cable is of a medium that reaches, and every rack has room for what stands in it."""

import numpy as np

from fabriclab import catalog
from fabriclab.designs.exam import Exam, Verdict, others, verdict
from fabriclab.economics.floor import reach as reach_of
from fabriclab.registry import register
from fabriclab.texts import text

# illustrative: a rack has 42 units; a server of the running case takes 8 of them, and a switch 1
_UNITS = 42
_SERVER_UNITS = 8
_SWITCH_UNITS = 1


@register("requirement", "reach", place=3)
def reach(exam: Exam) -> Verdict:
    """Compare the length of each cable with the reach of its medium."""
    full = _full_rack(exam)
    if full is not None:
        return full

    fabric = exam.design.fabric
    limit = np.array([reach_of(medium) for medium in fabric.media])[fabric.medium]  # (L,) [m]
    over = fabric.length / limit
    over[fabric.capacity <= 0] = 0.0
    link = int(np.argmax(over))
    fields = {
        "name": exam.design.link_title(link),
        "length": float(fabric.length[link]),
        "medium": fabric.media[fabric.medium[link]],
        "limit": float(limit[link]),
        "others": others(int(np.sum(over > 1)) // 2 - 1),
    }
    key = "designs.reach.met" if over[link] <= 1 else "designs.reach.far"
    links = np.flatnonzero(over > 1) if over[link] > 1 else [link, link ^ 1]
    return verdict(
        "reach",
        asked=fields["limit"],
        reached=fields["length"],
        unit="m",
        most=True,
        words=text(key, **fields),
        links=links,
    )


def _full_rack(exam: Exam) -> Verdict | None:
    """Return a verdict if a rack has more servers than it can feed, or more boxes than it has units."""
    design = exam.design
    first = design.fabric.endpoint[:: design.gpus] if design.gpus else design.fabric.endpoint
    server_rack = np.full(design.servers, -1)
    server_rack[design.fabric.server] = design.racks[design.fabric.endpoint]
    switch_rack = design.racks[design.switches]
    racks = int(max(server_rack.max(), switch_rack.max())) + 1
    servers = np.bincount(server_rack, minlength=racks)
    boxes = np.bincount(switch_rack, minlength=racks)
    most = int(catalog.case().servers_per_rack)
    if servers.max() > most:
        rack = int(np.argmax(servers))
        here = first[design.racks[first] == rack]
        return verdict(
            "reach",
            asked=most,
            reached=int(servers[rack]),
            unit="servers",
            most=True,
            words=text("designs.reach.servers", rack=rack, n=int(servers[rack]), most=most),
            nodes=here,
        )
    height = servers * _SERVER_UNITS + boxes * _SWITCH_UNITS
    if height.max() > _UNITS:
        rack = int(np.argmax(height))
        words = text(
            "designs.reach.units",
            rack=rack,
            servers=int(servers[rack]),
            switches=int(boxes[rack]),
            units=int(height[rack]),
            most=_UNITS,
        )
        return verdict(
            "reach",
            asked=_UNITS,
            reached=int(height[rack]),
            unit="rack units",
            most=True,
            words=words,
            nodes=design.switches[switch_rack == rack],
        )
    return None
