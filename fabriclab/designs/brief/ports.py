"""Ports: every switch is a model that is sold, and has the ports and rates that its cables need; so has every NIC."""

from functools import partial

import numpy as np

from fabriclab import catalog
from fabriclab.designs.exam import Exam, Verdict, others, verdict
from fabriclab.designs.prices import models, sold
from fabriclab.registry import register
from fabriclab.texts import text

_JUST = 1 + 1e-9


@register("requirement", "ports", place=2)
def ports(exam: Exam) -> Verdict:
    """Compare used ports with those that each switch has."""
    design = exam.design
    fabric = design.fabric
    used = fabric.ports_used
    switch = design.switches
    room = design.ports[switch] - used[switch]
    worst = int(switch[np.argmin(room)])
    name = design.title(int(np.argmin(room)))
    most = int(design.ports[worst])
    say = partial(verdict, "ports", asked=most, reached=int(used[worst]), unit="ports", most=True)
    if room.min() < 0 and most > 0:
        words = text(
            "designs.ports.over",
            name=name,
            used=int(used[worst]),
            ports=most,
            others=others(int(np.sum(room < 0)) - 1),
        )
        return say(words=words, nodes=switch[room < 0])

    for number, node in enumerate(switch.tolist()):
        rate = float(design.port_rate[node])
        has = int(design.ports[node]) or int(used[node])  # a family may leave the ports open
        if not sold(has, rate):
            words = text(
                "designs.ports.model",
                name=design.title(number),
                ports=has,
                gbps=8e-9 * rate,
                models=", ".join(models()),
            )
            return verdict("ports", asked=1, reached=0, unit="1", words=words, nodes=[node])
    words = text("designs.ports.met", name=name, used=int(used[worst]), ports=most)
    return _rates(exam) or say(words=words, nodes=[worst])


def _rates(exam: Exam) -> Verdict | None:
    """Return a verdict if a cable is faster than a port, or a NIC is faster than those of the servers."""
    design = exam.design
    fabric = design.fabric
    of_port = design.port_rate.copy()
    nic = float(catalog.case().nic_rate)
    of_port[fabric.endpoint] = nic
    limit = np.minimum(of_port[fabric.source], of_port[fabric.target])
    over = fabric.capacity / np.maximum(fabric.ports, 1) / limit
    if over.max(initial=0.0) > _JUST:
        link = int(np.argmax(over))
        rate = float(fabric.capacity[link])
        words = text(
            "designs.ports.cable",
            name=design.link_title(link),
            rate=rate,
            limit=float(limit[link]),
        )
        return verdict(
            "ports",
            asked=float(limit[link]),
            reached=rate,
            unit="B/s",
            most=True,
            words=words,
            links=[link, link ^ 1],
        )
    out = np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)[fabric.endpoint]
    if out.max(initial=0.0) > nic * _JUST:
        node = int(fabric.endpoint[np.argmax(out)])
        words = text("designs.ports.nic", name=design.label(node), rate=float(out.max()), limit=nic)
        return verdict(
            "ports",
            asked=nic,
            reached=float(out.max()),
            unit="B/s",
            most=True,
            words=words,
            nodes=[node],
        )
    return None
