"""How predictable a small collective is beside another tenant's traffic, on the flow engine and on the packet engine.

Both engines play the same runs of `fabriclab.scenarios.neighbour`. They agree where a message waits for no queue of the
neighbour: alone, on cables of its own, with a class that goes first, and where queues serve connections in turn. Where
all packets are equal they do not: the flow engine shares rates and has no queues, while a message of packets waits
behind all that the neighbour has in the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.core import Floats, Ints, ReadOnly, as_html, as_text
from fabriclab.engines import run
from fabriclab.scenarios import Scenario, neighbour
from fabriclab.scenarios.neighbour import SHARING

__all__ = ["REASONS", "Predictability", "predictability"]

# Why the engines agree, or do not, for each way of sharing.
REASONS: Mapping[str, str] = ReadOnly(
    {
        "alone": "no message waits for another one; headers and the last packet of each hop are left",
        "sharing": "a message waits for all that is queued before it, and the flow engine has no queues",
        "weights": "connections take turns, so a message waits for a packet of each other one",
        "priority": "a message waits for the packet that is being sent, and for no other",
        "own cables": "nobody else is on the cables of the collective",
    }
)

# Weight of a class that goes first, in an engine without classes: the others share a millionth.
_FIRST = 1e6
# illustrative: two engines agree if their times differ by less; headers and last packets alone make about 10 %
_AGREE = 0.25
# illustrative: a small collective that waits for no queue ends within that time after its beginning [s]
_SOON = 2e-5


@dataclass(frozen=True, eq=False)
class Predictability:
    """Times of a small collective in many runs, for each way of sharing, on each engine.

    Parameters
    ----------
    sharing : tuple of str
        Ways of sharing.
    engines : tuple of str
        Engines.
    times : (S, E, K) float64
        Time of the collective in each of K runs. [s]
    """

    sharing: tuple[str, ...]
    engines: tuple[str, ...]
    times: Floats

    def quantile(self, share: float) -> Floats:
        """Return the time that a share of the runs does not exceed, (S, E). [s]."""
        return np.asarray(np.quantile(self.times, share, axis=2, method="inverted_cdf"))

    @property
    def p50(self) -> Floats:
        """Median time, (S, E). [s]."""
        return self.quantile(0.5)

    @property
    def p99(self) -> Floats:
        """Time that 99 of 100 runs do not exceed, (S, E). [s]."""
        return self.quantile(0.99)

    def time(self, sharing: str, engine: str, share: float) -> float:
        """Return one quantile [s]."""
        i = self.sharing.index(units.choice(sharing, "sharing", self.sharing))
        j = self.engines.index(units.choice(engine, "engine", self.engines))
        return float(self.quantile(share)[i, j])

    def rows(self) -> list[list[str]]:
        """Return a table of texts, in µs, with the packet engine's time over that of the flow engine."""
        head = ["sharing"]
        for engine in self.engines:
            head += [f"{engine} p50 [µs]", f"{engine} p99 [µs]"]
        both = {"flow", "packet"} <= set(self.engines)
        if both:
            head += ["p50 ratio", "p99 ratio", "agree", "because"]
        table = [head]
        for i, name in enumerate(self.sharing):
            row = [name]
            for j in range(len(self.engines)):
                row += [f"{1e6 * self.p50[i, j]:.1f}", f"{1e6 * self.p99[i, j]:.1f}"]
            if both:
                ratio = [self.ratio(name, share) for share in (0.5, 0.99)]
                agree = all(abs(r - 1) <= _AGREE for r in ratio)
                row += [
                    f"{ratio[0]:.2f}",
                    f"{ratio[1]:.2f}",
                    "yes" if agree else "no",
                    REASONS[name],
                ]
            table.append(row)
        return table

    def ratio(self, sharing: str, share: float) -> float:
        """Return the time on the packet engine over the time on the flow engine."""
        return self.time(sharing, "packet", share) / self.time(sharing, "flow", share)

    def __repr__(self) -> str:
        """Show the table as lines of text."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), f"time of the collective over {self.times.shape[2]} runs")


def predictability(
    sharing: Sequence[str] = SHARING,
    *,
    runs: int = 200,
    engines: Sequence[str] = ("flow", "packet"),
    seed: int = 0,
    **scenario: object,
) -> Predictability:
    """Time a small all-reduce beside a neighbour in many runs that differ in hash, partners and beginning.

    Parameters
    ----------
    sharing : sequence of str
        Ways of sharing, of ``fabriclab.scenarios.neighbour``.
    runs : int
        Number of runs; run k has the seed ``seed + k`` under each way of sharing and on each engine. >= 1
    engines : sequence of str
        ``"flow"``, ``"packet"``, or both.
    seed : int
        Seed of the first run.
    **scenario
        Further arguments of the scenario.
    """
    n_runs = units.count(runs, "runs")
    modes = tuple(units.choice(mode, "sharing", SHARING) for mode in sharing)
    known = tuple(units.choice(engine, "engine", ("flow", "packet")) for engine in engines)
    times = np.zeros((len(modes), len(known), n_runs))
    for i, mode in enumerate(modes):
        for k in range(n_runs):
            played = neighbour(mode, seed=seed + k, **scenario)  # type: ignore[arg-type]
            for j, engine in enumerate(known):
                times[i, j, k] = time_of_small(played, engine, mode)
    return Predictability(modes, known, times)


def time_of_small(scenario: Scenario, engine: str, sharing: str) -> float:
    """Return the time of the collective of a scenario on an engine, from its beginning to its last byte [s]."""
    small = np.array(scenario.groups["small"])
    begin = float(scenario.flows.start[small].min())
    if engine == "packet":
        return end_of_packets(scenario, small, begin, sharing) - begin
    flows = scenario.flows
    if sharing == "priority":
        weight = flows.weight.copy()
        weight[small] = _FIRST
        flows = replace(flows, weight=weight)
    timeline = run(scenario.fabric, scenario.routes, flows)
    return float(timeline.finish[small].max()) - begin


def end_of_packets(scenario: Scenario, small: Ints, begin: float, sharing: str) -> float:
    """Return when the collective ends on the packet engine [s].

    Where its messages wait for hardly anything it ends early, so the run stops soon and the neighbour is not played to
    its end. Nothing of what came before depends on that.
    """
    quiet: dict[str, Any] = {"watch_links": (), "watch_flows": (), "sample": None}
    if sharing != "sharing":
        stopped = scenario.play(until=begin + _SOON, **quiet)
        end = float(stopped.finish[small].max())
        if np.isfinite(end):
            return end
    whole = scenario.play(**quiet)
    return float(whole.finish[small].max())
