"""Traffic that changes while a controller follows it: what new rules gain, and what it costs to change them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fabriclab import units
from fabriclab.core import Fabric, Floats, Flows, as_html, as_text
from fabriclab.sdn.forwarding import loads, shortest, utilisation
from fabriclab.sdn.traffic import engineer

__all__ = ["Adapting", "adapt", "changing_traffic"]


def changing_traffic(
    fabric: Fabric, steps: int, *, lasts: int = 10, seed: int = 0
) -> tuple[Flows, ...]:
    """Return traffic matrices in which each rank sends all it can to one other, and partners change after a while.

    Parameters
    ----------
    fabric : Fabric
        The network.
    steps : int
        Number of matrices. >= 1
    lasts : int
        How many steps a partner is kept. At each step about 1 in ``lasts`` of the ranks pass on their partners among
        each other. >= 1
    seed : int
        Seed of the partners.
    """
    n = fabric.n_ranks
    if n < 3:
        raise ValueError(f"partners can change among at least 3 ranks, got {n}")
    rng = np.random.default_rng(units.count(seed, "seed", 0))
    often = units.count(lasts, "lasts")
    out = np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)[fabric.endpoint]
    partner = np.roll(np.arange(n), int(rng.integers(1, n)))
    found = []
    for _ in range(units.count(steps, "steps")):
        found.append(Flows.make(fabric.endpoint, fabric.endpoint[partner], out))
        moves = np.flatnonzero(rng.random(n) < 1.0 / often)
        swapped = partner.copy()
        swapped[moves] = np.roll(partner[moves], 1)
        # Nobody sends to itself: whoever would keeps its partner, if that is still possible.
        if not np.any(swapped == np.arange(n)):
            partner = swapped
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Adapting:
    """Gain and cost of new rules at several rates of change.

    Parameters
    ----------
    every : (K,) int64
        Steps between two computations of rules.
    served : (K,) float64
        Mean part of the traffic that fits by the rules, before the cost of changes. 0..1
    net : (K,) float64
        The same less what is lost while rules change. 0..1
    never : float
        Part that fits with equal splits over all shortest paths, which need no change.
    at_once : float
        Part that fits if each step had its own optimum at no cost.
    """

    every: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    served: Floats
    net: Floats
    never: float
    at_once: float

    @property
    def best(self) -> int:
        """Steps between two computations at which most traffic is served, cost included."""
        return int(self.every[int(np.argmax(self.net))])

    def rows(self) -> list[list[str]]:
        """Return a table of texts."""
        table = [["new rules every ... steps", "served [%]", "cost [%]", "left [%]"]]
        for every, served, net in zip(self.every, self.served, self.net, strict=True):
            cost = 100 * (served - net)
            table.append([str(every), f"{100 * served:.1f}", f"{cost:.1f}", f"{100 * net:.1f}"])
        table.append(
            ["never (equal split)", f"{100 * self.never:.1f}", "0.0", f"{100 * self.never:.1f}"]
        )
        return table

    def __repr__(self) -> str:
        """Show the table as lines of text."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), "gain and cost of new rules")


def adapt(
    fabric: Fabric,
    matrices: Sequence[Flows],
    *,
    every: Sequence[int] = (1, 2, 5, 10, 20),
    cost: float = 0.1,  # illustrative: a tenth of a step
) -> Adapting:
    """Let a controller compute rules from the last traffic it has seen, every so many steps; return what that gains.

    Rules of a step were computed at the end of an earlier one, so they are never for the traffic of their own step
    (except in ``at_once``). What fits of a step's traffic is 1 over the load of the fullest link, at most 1. A change
    of rules loses a part of the step in which it happens. On a healthy Clos nothing can be gained: equal splits are
    the optimum for any traffic.

    Parameters
    ----------
    fabric : Fabric
        The network.
    matrices : sequence of Flows
        The traffic of each step: sizes are rates [B/s].
    every : sequence of int
        Steps between two computations to try. >= 1
    cost : float
        Part of a step's traffic that is lost by a change of rules: the time it takes over the time of a step. 0..1
    """
    if not (units.is_number(cost) and 0 <= cost <= 1):
        raise ValueError(f"cost must be within 0..1 of a step, got {cost!r}")
    steps = len(matrices)
    if steps < 2:
        raise ValueError(
            f"matrices must be two or more, got {steps}; make them by changing_traffic(fabric, 50)"
        )
    usual = shortest(fabric, equal=True)
    optima = [engineer(fabric, flows) for flows in matrices]

    def fits(number: int, forwarding: object) -> float:
        """Return the part of a step's traffic that fits by some rules."""
        load = loads(fabric, forwarding, matrices[number])  # type: ignore[arg-type]
        return min(1.0, 1.0 / utilisation(fabric, load))

    tried = np.array([units.count(int(k), "every") for k in every])
    served = np.zeros(tried.size)
    net = np.zeros(tried.size)
    for i, k in enumerate(tried.tolist()):
        rules = usual
        for step in range(1, steps):
            changed = (step - 1) % k == 0
            if changed:
                rules = optima[step - 1].forwarding
            part = fits(step, rules)
            served[i] += part
            net[i] += part * (1.0 - cost * changed)
    counted = steps - 1
    never = sum(fits(step, usual) for step in range(1, steps)) / counted
    at_once = sum(min(1.0, best.part) for best in optima[1:]) / counted
    return Adapting(tried, served / counted, net / counted, never, at_once)
