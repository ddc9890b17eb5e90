"""Demand: each workload gets the bandwidth that it needs on each of its axes."""

import numpy as np

from fabriclab import catalog
from fabriclab.designs.exam import Exam, Verdict, verdict
from fabriclab.designs.needs import NETWORK, Demand, demand
from fabriclab.designs.sheets import Design
from fabriclab.registry import register
from fabriclab.texts import text


@register("requirement", "demand", place=5, needs=("size", "routes"))
def bandwidth(exam: Exam) -> Verdict:
    """Compare what a GPU gets on each axis with what it needs; the one with the least room decides.

    Beside what the key draws it is asked for the most that any key may draw, so the verdict is that of every key.
    """
    design = exam.design
    inside = float(catalog.case().nvlink_per_gpu)
    worst = None
    for workload, on_links in [*exam.known, *exam.drawn, *exam.drawable]:
        for need in demand(workload, design.gpus, design.servers):
            link = -1
            reached = inside
            if need.tier == NETWORK:
                reached = need.bytes / on_links.by_axis[need.axis]
                link = on_links.fullest[need.axis]
            room = reached / need.rate - 1
            if worst is None or room < worst[0]:
                worst = (room, workload, need, reached, link)
    assert worst is not None
    room, workload, need, reached, link = worst
    fields = {
        "workload": workload.name,
        "axis": need.axis,
        "asked": need.rate,
        "reached": reached,
        "link": _place(design, need, link),
    }
    key = "designs.demand.short"
    if room >= -1e-9:
        key = "designs.demand.met"
    elif link < 0:
        key = "designs.demand.server" if need.tier != NETWORK else "designs.demand.cpus"
    elif np.isin(
        design.fabric.endpoint, [design.fabric.source[link], design.fabric.target[link]]
    ).any():
        key = "designs.demand.nic"
    return verdict(
        "demand",
        asked=need.rate,
        reached=reached,
        unit="B/s",
        words=text(key, **fields),
        links=[link] if link >= 0 else (),
    )


def _place(design: Design, need: Demand, link: int) -> str:
    """Return the name of what limits a kind of traffic: a link, or what is inside of the servers."""
    if link >= 0:
        return design.link_title(link)
    return text("designs.demand.inside" if need.tier != NETWORK else "designs.demand.sockets")
