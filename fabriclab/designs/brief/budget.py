"""Budget: the bill stays within it, at list prices and at those that the key draws."""

import numpy as np

from fabriclab.designs.exam import Exam, Verdict, verdict
from fabriclab.designs.prices import BUDGET, at_prices, drawn_prices, list_prices
from fabriclab.registry import register
from fabriclab.texts import text


@register("requirement", "budget", place=6)
def budget(exam: Exam) -> Verdict:
    """Compare the dearer of both bills with the budget, and point at what costs most."""
    bills = {
        "designs.budget.list": at_prices(exam.bill, list_prices()),
        "designs.budget.drawn": at_prices(exam.bill, drawn_prices(exam.key)),
    }
    which = max(bills, key=lambda name: bills[name].capital)
    dear = bills[which]
    sums: dict[str, float] = {}
    for name, item in dear.items.items():
        short = name.split(",")[0]
        sums[short] = sums.get(short, 0.0) + item.total("price")
    largest = max(sums, key=lambda name: sums[name])
    fabric = exam.design.fabric
    nodes, links = exam.design.switches, np.zeros(0, dtype=np.int64)
    if not largest.startswith("switch"):
        medium = largest.rsplit(" ", 2)[0]
        nodes = np.zeros(0, dtype=np.int64)
        links = np.flatnonzero(fabric.medium == fabric.media.index(medium))
    missing = BUDGET - dear.capital
    words = text(
        "designs.budget.met" if missing >= 0 else "designs.budget.over",
        cost=dear.capital / 1e6,
        budget=BUDGET / 1e6,
        gap=abs(missing) / 1e6,
        prices=text(which),
        largest=largest,
        part=sums[largest] / dear.capital,
    )
    return verdict(
        "budget",
        asked=BUDGET,
        reached=dear.capital,
        unit="USD",
        most=True,
        words=words,
        nodes=nodes,
        links=links,
    )
