"""What a cut costs until the controller has new rules everywhere: bytes lost, and the delay of each flow."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fabriclab import units
from fabriclab.core import Changes, Fabric, Flags, Floats, Flows, Routes, as_html, as_text, rows_of
from fabriclab.engines import run
from fabriclab.engines.flow import moved
from fabriclab.errors import NoPath

__all__ = ["Outage", "outage"]


@dataclass(frozen=True, eq=False)
class Outage:
    """Flows that meet a cut, by the flow engine.

    Parameters
    ----------
    lost : (F,) float64
        Bytes of each flow that went into dead links and were sent again. [B]
    finish, undisturbed : (F,) float64
        When each flow ends, with the cut and without it. [s]
    cut, rerouted : float
        When links died, and when the new routes took over. [s]
    """

    lost: Floats
    finish: Floats
    undisturbed: Floats
    cut: float
    rerouted: float

    @property
    def total(self) -> float:
        """Bytes lost in all [B]."""
        return float(self.lost.sum())

    def rows(self) -> list[list[str]]:
        """Return a table of texts."""
        return [
            ["", "value"],
            ["links die", units.format_time(self.cut)],
            ["new rules hold", units.format_time(self.rerouted)],
            ["bytes lost", units.format_size(round(self.total))],
            ["flows that lost some", str(np.count_nonzero(self.lost))],
            [
                "last flow ends, without the cut",
                units.format_time(float(self.undisturbed.max(initial=0.0))),
            ],
            ["last flow ends", units.format_time(float(self.finish.max(initial=0.0)))],
        ]

    def __repr__(self) -> str:
        """Show the table as lines of text."""
        return as_text(self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.rows(), "a cut")


def outage(
    fabric: Fabric,
    flows: Flows,
    before: Routes,
    after: Routes,
    changes: Changes,
    rerouted: units.Quantity,
) -> Outage:
    """Return what flows lose between a change of capacities that kills links and the moment new routes hold.

    Until the new rules hold, nodes go on sending into the dead links at the rate that the flow had: these bytes are
    lost, and the source sends them again by the new routes. What was sent before the cut has arrived. Leaves out
    packets and retransmission timers; go-back-N also sends again what followed a lost packet. A drain is the case in
    which the links go last: ``rerouted`` is not after the change, and nothing is lost.

    Parameters
    ----------
    fabric : Fabric
        The network before the changes.
    flows : Flows
        Flows without dependencies, in one group.
    before, after : Routes
        Routes by old rules and by new ones.
    changes : Changes
        Links that get capacity 0, all at one time.
    rerouted : float or str
        When new routes take over. [s]

    Raises
    ------
    ValueError
        If flows wait for each other, or the changes are not one cut.
    NoPath
        If the new routes use a dead link.
    """
    if flows.is_sequence or flows.after.size:
        raise ValueError(
            "flows must be independent, in one group, because they change their routes under way"
        )
    times = np.unique(changes.time)
    if times.size != 1 or np.any(changes.capacity != 0):
        raise ValueError(f"changes must take the capacity of links at one time, got {changes!r}")
    cut = float(times[0])
    switch = units.time(rerouted, "rerouted")
    dead = np.zeros(fabric.n_links, dtype=np.bool_)
    dead[changes.link] = True
    if np.any(dead[after.link]):
        link = int(after.link[dead[after.link]][0])
        raise NoPath(
            f"new routes use {fabric.link_name(link)}, which is dead; compute rules without it"
        )
    undisturbed = run(fabric, before, flows).finish

    # Bytes that old routes moved before the cut, and until the new routes hold; of the latter, what dead links took.
    until_cut = moved(fabric, before, flows, min(cut, switch))
    until_switch = moved(fabric, before, flows, switch)
    into_dead = _into_dead(fabric, before, dead)  # (R,) part of the row
    gone = (until_switch - until_cut) * np.minimum(into_dead, 1.0)
    lost = np.bincount(before.flow, gone, flows.n_flows).astype(np.float64)
    arrived = np.bincount(before.flow, until_switch, flows.n_flows) - lost

    # The rest goes by the new routes, on the network without the dead links.
    rest = np.maximum(flows.size - arrived, 0.0)
    is_over = rest <= 1e-9 * np.maximum(flows.size, 1.0)
    left = replace(
        flows,
        size=np.where(is_over, 0.0, rest),
        start=np.maximum(np.maximum(flows.start, flows.lag) - switch, 0.0),
        lag=np.zeros(flows.n_flows),
    )
    healed = fabric.without(links=changes.link)
    later = run(healed, after, left).finish + switch
    return Outage(lost, np.where(is_over, undisturbed, later), undisturbed, cut, switch)


def _into_dead(fabric: Fabric, routes: Routes, dead: Flags) -> Floats:
    """Return which part of each row goes into dead links, (R,).

    What was lost on the way to a node is not lost again behind it: of a dead switch only the links towards it count.
    """
    row = rows_of(routes.ptr)
    begins = row * fabric.n_nodes + fabric.source[routes.link]
    ends = row * fabric.n_nodes + fabric.target[routes.link]
    places, number = np.unique(np.concatenate([begins, ends]), return_inverse=True)
    source, target = np.split(number, 2)
    alive = ~dead[routes.link]
    wanted = np.bincount(target, routes.use, places.size)  # what each node of a row would get
    reached = np.ones(places.size)  # part of it that comes
    for _ in range(fabric.n_nodes):
        comes = np.bincount(target, routes.use * reached[source] * alive, places.size)
        now = np.divide(comes, wanted, out=np.ones(places.size), where=wanted > 0)
        if np.allclose(now, reached, rtol=0, atol=1e-12):
            break
        reached = now
    gone = routes.use * reached[source] * ~alive
    return np.asarray(np.bincount(row, gone, routes.n_rows))
