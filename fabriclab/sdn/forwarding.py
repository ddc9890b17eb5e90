"""Forwarding rules of all nodes: by which links, and in which parts, traffic for a goal goes on.

A goal is a switch with all ranks that hang on it by one cable, or a rank that has several cables. So the rules of the
cluster with 1,024 GPUs have 32 goals, one for each leaf.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import (
    SPRAY,
    Fabric,
    Flags,
    Floats,
    Flows,
    Ints,
    Routes,
    Value,
    expand,
    frozen,
    pointer,
    rows_of,
)
from fabriclab.errors import NoPath
from fabriclab.routing.shortest import FAR, ShortestPathSearch

__all__ = ["Forwarding", "Goals", "goals_of", "loads", "routes", "shortest", "utilisation"]

_CLOSE = 1e-12  # parts that differ by less are equal but for rounding
_ENTRIES = 2**22  # pairs times links that are spread together, so that they stay in memory


class Goals(NamedTuple):
    """Goals of a fabric: nodes (D,), the goal of each rank (R,), and the link into a rank from its goal, or -1 (R,)."""

    node: Ints
    of_rank: Ints
    last: Ints


def goals_of(fabric: Fabric) -> Goals:
    """Return the goals of a fabric, by its cables alone: links without capacity count, so goals never change."""
    ends = fabric.endpoint.astype(np.int64)
    degree = np.bincount(fabric.source, minlength=fabric.n_nodes)
    into = np.zeros(fabric.n_nodes, dtype=np.int64)  # (N,) a link into each node
    into[fabric.target] = np.arange(fabric.n_links)
    link = into[ends]
    switch = fabric.source[link].astype(np.int64)
    hangs = (degree[ends] == 1) & ~fabric.transit[ends] & fabric.transit[switch]
    node, of_rank = np.unique(np.where(hangs, switch, ends), return_inverse=True)
    return Goals(node, of_rank.astype(np.int64), np.where(hangs, link, -1))


@dataclass(frozen=True, eq=False)
class Forwarding(Value):
    """Rules of all nodes for D goals: which part of the traffic for a goal each link gets at its source.

    Parameters
    ----------
    goal : (D,) int64
        Node of each goal.
    of_rank : (R,) int64
        Goal of each rank.
    last : (R,) int64
        Link from the goal to the rank; -1 where the rank is the goal itself.
    part : (D, L) float64
        Part of what is at the source of the link for the goal that goes over the link. 0..1; over the links of a
        node that has a rule they sum to 1, and a node without a rule has zeros.
    """

    goal: Ints
    of_rank: Ints
    last: Ints
    part: Floats

    def __post_init__(self) -> None:
        """Freeze the arrays and check their shapes."""
        for name in ("goal", "of_rank", "last"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int64, name))
        object.__setattr__(self, "part", frozen(self.part, np.float64, "part"))
        if self.part.ndim != 2 or self.part.shape[0] != self.goal.size:
            raise ValueError(
                f"part must have one row for each of {self.goal.size} goals, got shape {self.part.shape}"
            )
        if not np.all((self.part >= 0) & (self.part <= 1 + 1e-9)):
            low, high = self.part.min(), self.part.max()
            raise ValueError(f"part must be within 0..1, got {low:g}..{high:g}")

    @property
    def uses(self) -> Flags:
        """Whether a link is used for a goal, (D, L)."""
        return self.part > 0

    def with_nodes_of(
        self, other: Forwarding, nodes: NDArray[np.integer], fabric: Fabric
    ) -> Forwarding:
        """Return these rules, in which some nodes have those of another forwarding, for all goals."""
        changes = np.isin(fabric.source, nodes)
        part = np.where(changes, other.part, self.part)
        return self.cut(part=part)

    def differs(self, other: Forwarding, fabric: Fabric) -> Flags:
        """Return where the rules of a node for a goal are not those of another forwarding, (D, N)."""
        links = self.uses != other.uses  # (D, L)
        links |= np.abs(self.part - other.part) > _CLOSE
        table = np.zeros((self.goal.size, fabric.n_nodes), dtype=np.bool_)
        goal, link = np.nonzero(links)
        table[goal, fabric.source[link]] = True
        return table

    def rules_of(self, fabric: Fabric, node: int, rank: int) -> dict[str, float]:
        """Return the parts of a node's traffic for a rank by the name of the next link."""
        goal = int(self.of_rank[rank])
        out = np.flatnonzero((fabric.source == node) & (self.part[goal] > 0))
        return {fabric.link_name(int(link)): float(self.part[goal, link]) for link in out}

    def __repr__(self) -> str:
        """Show the number of goals and of rules."""
        return f"<Forwarding: {self.goal.size} goals, {np.count_nonzero(self.part)} rules>"


def normalised(fabric: Fabric, share: Floats) -> Floats:
    """Return shares of links, (D, L), divided by their sum at each node."""
    total = np.zeros((share.shape[0], fabric.n_nodes))
    for d, row in enumerate(share):
        total[d] = np.bincount(fabric.source, row, fabric.n_nodes)
    of_link = total[:, fabric.source]
    return np.divide(share, of_link, out=np.zeros_like(share), where=of_link > 0)


def shortest(fabric: Fabric, *, equal: bool = False, goals: Goals | None = None) -> Forwarding:
    """Return the rules of shortest paths: each node divides traffic among all links that lead one hop nearer.

    Parameters
    ----------
    fabric : Fabric
        The network. Links of capacity 0 are avoided.
    equal : bool
        Whether every link gets the same part (ECMP without its hash); otherwise parts are proportional to capacity.
    goals : Goals, optional
        Those of `goals_of` unless given.
    """
    found = goals_of(fabric) if goals is None else goals
    hops = ShortestPathSearch(fabric).table(found.node)  # (N, D)
    onward = np.where(fabric.transit[:, None], hops, np.uint16(FAR))
    onward[found.node, np.arange(found.node.size)] = 0
    here = hops[fabric.source]  # (L, D)
    nearer = (onward[fabric.target] + 1 == here) & (here < FAR)
    nearer &= (fabric.capacity > 0)[:, None]
    share = np.where(nearer.T, 1.0 if equal else fabric.capacity, 0.0)  # (D, L)
    return Forwarding(found.node, found.of_rank, found.last, normalised(fabric, share))


class _Ends(NamedTuple):
    """Flows as a fabric of switches sees them: goals of both ends, first and last link, all (F,)."""

    start: Ints  # node at which the rules begin: the switch of the source, or the source
    goal: Ints
    first: Ints  # link from the source to `start`, or -1
    last: Ints  # link from the goal to the target, or -1
    rate: Floats  # bytes, with repetitions


def ends_of(fabric: Fabric, forwarding: Forwarding | Goals, flows: Flows) -> _Ends:
    """Return where the flows enter and leave the rules; a flow whose end is no rank is refused."""
    ranks = []
    for name in ("source", "target"):
        node = getattr(flows, name)
        if node.size and node.max() >= fabric.n_nodes:
            raise ValueError(f"{name} of a flow must be a node of the fabric, got {node.max()}")
        rank = fabric.rank_of[node]
        wrong = np.flatnonzero(rank < 0)
        if wrong.size:
            name_of = fabric.name(int(node[wrong[0]]))
            raise ValueError(
                f"flow {wrong[0]} has its {name} at {name_of}, no rank: rules lead to ranks"
            )
        ranks.append(rank)
    source, target = ranks
    goal_node = forwarding.node if isinstance(forwarding, Goals) else forwarding.goal
    last = forwarding.last
    hangs = last[source] >= 0
    return _Ends(
        start=np.where(hangs, goal_node[forwarding.of_rank[source]], flows.source),
        goal=forwarding.of_rank[target],
        first=np.where(hangs, last[source] ^ 1, -1),
        last=last[target],
        rate=flows.size * flows.repeat[flows.group],
    )


def routes(fabric: Fabric, forwarding: Forwarding, flows: Flows) -> Routes:
    """Return the routes of flows by given rules: one spray for each flow, with the part of each link.

    Raises
    ------
    NoPath
        If rules end before the goal, or lead round a loop; the message names the node.
    """
    moving = np.flatnonzero(flows.source != flows.target)
    ends = ends_of(fabric, forwarding, flows)
    key = ends.start[moving] * forwarding.goal.size + ends.goal[moving]
    pairs, of_flow = np.unique(key, return_inverse=True)
    start, goal = np.divmod(pairs, forwarding.goal.size)

    counts = []
    links = []
    parts = []
    step = max(1, _ENTRIES // max(1, fabric.n_links))
    for low in range(0, pairs.size, step):
        use = _spread(fabric, forwarding, start[low : low + step], goal[low : low + step])
        pair, link = np.nonzero(use)
        counts.append(np.bincount(pair, minlength=use.shape[0]))
        links.append(link)
        parts.append(use[pair, link])
    ptr = pointer(np.concatenate([np.zeros(0, np.int64), *counts]))
    link = np.concatenate([np.zeros(0, np.int64), *links])
    part = np.concatenate([np.zeros(0), *parts])

    # A row: the first link of the flow, those of its pair, and the last link.
    has_first = (ends.first[moving] >= 0).astype(np.int64)
    has_last = (ends.last[moving] >= 0).astype(np.int64)
    inner = np.diff(ptr)[of_flow]
    row_ptr = pointer(has_first + inner + has_last)
    row_link = np.empty(int(row_ptr[-1]), dtype=np.int64)
    row_use = np.ones(row_link.size)
    inside = expand(row_ptr[:-1] + has_first, inner)
    entry = expand(ptr[:-1][of_flow], inner)
    row_link[inside] = link[entry]
    row_use[inside] = np.minimum(part[entry], 1.0)
    begins = np.flatnonzero(has_first)
    row_link[row_ptr[:-1][begins]] = ends.first[moving][begins]
    stops = np.flatnonzero(has_last)
    row_link[row_ptr[1:][stops] - 1] = ends.last[moving][stops]

    n = moving.size
    delay = np.bincount(rows_of(row_ptr), fabric.delay[row_link] * row_use, n)
    return Routes(
        ptr=row_ptr,
        link=row_link.astype(np.int32),
        use=row_use,
        flow=moving.astype(np.int32),
        share=np.ones(n),
        delay=delay.astype(np.float64),
        kind=np.full(n, SPRAY, dtype=np.int8),
        adaptive=np.zeros(n, dtype=np.bool_),
    )


def _spread(fabric: Fabric, forwarding: Forwarding, start: Ints, goal: Ints) -> Floats:
    """Return which part of the traffic from each start to its goal each link carries, (P, L)."""
    here = np.zeros((start.size, fabric.n_nodes))
    here[np.arange(start.size), start] = 1.0
    return _passed_on(fabric, forwarding, goal, here)


def _passed_on(fabric: Fabric, forwarding: Forwarding, goal: Ints, here: Floats) -> Floats:
    """Return what each link carries until all traffic has come to its goal, (P, L); ``here`` is where it begins."""
    carried = np.zeros((goal.size, fabric.n_links))
    part = forwarding.part[goal]  # (P, L)
    has_rule = np.zeros(here.shape, dtype=np.bool_)
    row, link = np.nonzero(part)
    has_rule[row, fabric.source[link]] = True
    arrived = forwarding.goal[goal]
    number = np.arange(goal.size)
    for _ in range(fabric.n_nodes + 1):
        here[number, arrived] = 0.0
        if not here.any():
            return carried
        stuck = np.argwhere((here > 0) & ~has_rule)
        if stuck.size:
            pair, node = stuck[0]
            name = fabric.name(int(node))
            end = fabric.name(int(arrived[pair]))
            raise NoPath(f"the rules for {end} end at {name}; compute rules again for this fabric")
        on_link = here[:, fabric.source] * part
        carried += on_link
        here = np.zeros(here.shape)
        row, link = np.nonzero(on_link)
        np.add.at(here, (row, fabric.target[link]), on_link[row, link])
    pair, node = np.argwhere(here > 0)[0]
    end = fabric.name(int(arrived[pair]))
    raise NoPath(f"the rules for {end} lead round a loop through {fabric.name(int(node))}")


def loads(fabric: Fabric, forwarding: Forwarding, flows: Flows) -> Floats:
    """Return the bytes that flows put on each link by given rules, (L,). [B]; of flows as rates, [B/s]."""
    ends = ends_of(fabric, forwarding, flows)
    moves = flows.source != flows.target
    here = np.zeros((forwarding.goal.size, fabric.n_nodes))
    np.add.at(here, (ends.goal[moves], ends.start[moves]), ends.rate[moves])
    load = _passed_on(fabric, forwarding, np.arange(forwarding.goal.size), here).sum(axis=0)
    for link in (ends.first, ends.last):
        counts = moves & (link >= 0)
        load += np.bincount(link[counts], ends.rate[counts], fabric.n_links)
    return np.asarray(load, dtype=np.float64)


def utilisation(fabric: Fabric, load: Floats) -> float:
    """Return the load of the fullest link as a fraction of its capacity; inf if a link without capacity has load."""
    with np.errstate(divide="ignore"):
        each = np.divide(load, fabric.capacity, out=np.zeros_like(load), where=load > 0)
    return float(each.max(initial=0.0))
