"""Routes: each server has a path to each other one, and no rule sends traffic in a circle."""

import numpy as np

from fabriclab.designs.exam import Exam, Verdict, others, verdict
from fabriclab.registry import register
from fabriclab.texts import text


@register("requirement", "routes", place=4)
def routes(exam: Exam) -> Verdict:
    """Look for circles in the rules, then for pairs of servers without a path."""
    design = exam.design
    net = design.network
    if net.rules is not None and net.rules.loops:
        goal, here = net.rules.loops[0]
        words = text(
            "designs.routes.loop",
            here=design.title(here),
            goal=design.title(goal),
            others=others(len(net.rules.loops) - 1),
        )
        return verdict(
            "routes",
            asked=0,
            reached=len(net.rules.loops),
            unit="circles",
            most=True,
            words=words,
            nodes=net.switch[[here, goal]],
        )

    members = np.bincount(net.classes.of_server, minlength=len(net.classes.ports))
    apart = ~exam.reaches
    pairs = int(members @ apart @ members)
    # Two servers of a class without ports, or without any, are found as such.
    if not pairs:
        words = text("designs.routes.met", pairs=design.servers * (design.servers - 1))
        return verdict("routes", asked=0, reached=0, unit="pairs", most=True, words=words)
    one, other = np.argwhere(apart)[0].tolist()
    of = net.classes.of_server
    first = int(np.flatnonzero(of == one)[0])
    second = int(np.flatnonzero(of == other)[-1])
    words = text("designs.routes.none", one=first, other=second, pairs=pairs)
    nodes = design.fabric.endpoint[np.isin(design.fabric.server, [first, second])]
    return verdict(
        "routes", asked=0, reached=pairs, unit="pairs", most=True, words=words, nodes=nodes
    )
