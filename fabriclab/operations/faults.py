"""Faults and maintenance: which parts fail or are drained together, and how much of a fabric is left then."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Fabric, Flags, Floats, Ints, distinct_pairs
from fabriclab.metrics.hops import check_ranks, joined, outside
from fabriclab.metrics.traffic import times, uniform_load
from fabriclab.routing.shortest import FAR, ShortestPathSearch

__all__ = [
    "FaultReport",
    "MonteCarlo",
    "Separated",
    "fail",
    "monte_carlo",
    "parts",
    "report",
    "separated",
]

Grouping = str | Mapping[Any, ArrayLike]


def parts(fabric: Fabric, what: Grouping) -> dict[Any, Ints]:
    """Group a fabric into parts that fail or are drained as one, each with its nodes or its cables.

    Parameters
    ----------
    fabric : Fabric
        The network.
    what : str or mapping
        ``"cable"``: every cable outside the servers is a part. A kind of node, such as ``"spine"``: every node of that
        kind. A coordinate, such as ``"rail"``, ``"plane"`` or ``"server"``: all nodes that share its value. A mapping:
        power domains by name, each with its nodes, such as those of all servers of a rack.

    Returns
    -------
    dict
        Nodes or cables by part. The keys are numbers from 0 (of the cable, of the node among those of its kind, or the
        value of the coordinate), or the names of the power domains.

    Raises
    ------
    ValueError
        If the fabric has no such parts.
    """
    if isinstance(what, Mapping):
        return {name: np.unique(np.asarray(nodes)) for name, nodes in what.items()}
    if what == "cable":
        number = np.where(outside(fabric)[::2], np.arange(fabric.n_cables), -1)
    elif what in fabric.kinds:
        mine = fabric.kind == fabric.kinds.index(what)
        number = np.where(mine, np.cumsum(mine) - 1, -1)
    elif what in fabric.coord_names:
        number = fabric.coordinate(what)
    else:
        known = dict.fromkeys(["cable", *fabric.kinds, *fabric.coord_names])  # each once
        raise ValueError(
            f"what must be one of {', '.join(known)}, or power domains by name, got {what!r}"
        )

    # Nodes or cables with the same number form a part; those with -1 belong to no part.
    order = np.argsort(number, kind="stable")
    found, first = np.unique(number[order], return_index=True)
    members = np.split(order, first[1:])
    by_number = zip(found.tolist(), members, strict=True)
    return {number: part for number, part in by_number if number >= 0}


def fail(fabric: Fabric, what: Grouping, which: Sequence[Any]) -> Fabric:
    """Return a fabric in which some of its `parts`, given by number or name, have failed: their links have capacity 0.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> fail(topologies.build("leaf_spine", hosts=16, radix=8), "spine", [1])
    topologies.build('leaf_spine', hosts=16, radix=8).without(nodes=[21])
    """
    known = parts(fabric, what)
    is_list = np.iterable(which) and not isinstance(which, str)
    if not is_list:
        raise _unknown_part(known, which)

    lost = [np.zeros(0, np.int64)]
    for name in which:
        if not isinstance(name, Hashable) or name not in known:
            raise _unknown_part(known, name)
        lost.append(known[name])

    if what == "cable":
        return fabric.without(cables=np.concatenate(lost))
    return fabric.without(nodes=np.concatenate(lost))


def _unknown_part(known: Mapping[Any, Ints], name: object) -> ValueError:
    """Return the error for a name that is not a part, or that was given without a list around it."""
    return ValueError(
        f"which must list some of {len(known)} parts, such as {[*known][:8]}, got {name!r}"
    )


class FaultReport(NamedTuple):
    """Capacity and connectivity that are left of a fabric after faults.

    Parameters
    ----------
    bandwidth : float
        Uniform traffic that all pairs of ranks with a path can send, as a fraction of what the healthy fabric carries.
        Every pair sends the same amount, nodes divide it among shortest paths, and the fullest link sets the limit.
    cut_off : (C,) int64
        Ranks without a path to the largest connected part of all ranks, even if GPUs of their server relay for them
        over the scale-up domain. Ranks that are connected through a chain of others count as connected.
    alone : (A,) int64
        Ranks without a path of their own to another server, because their NIC, or what it leads to, has failed.
    worst : tuple of int
        Two ranks whose traffic crosses the fullest link; empty if no pair has a path.
    link : int
        The fullest link.
    """

    bandwidth: float
    cut_off: Ints
    alone: Ints
    worst: tuple[int, ...]
    link: int

    def __repr__(self) -> str:
        """Show the bandwidth and the numbers of ranks."""
        lost = f"{self.cut_off.size} ranks cut off, {self.alone.size} alone"
        return f"<FaultReport: {100 * self.bandwidth:.4g}% of the bandwidth, {lost}, worst pair {self.worst}>"


def report(healthy: Fabric, hurt: Fabric) -> FaultReport:
    """Compare a damaged fabric with the healthy one: bandwidth that is left, and ranks that are cut off.

    ``hurt`` is the same fabric as ``healthy``, with less capacity on some links. A rank needs a path there and back
    over cables that work in both directions. Leaves out the time until the fault is detected and routed around, and
    routing by load.

    Raises
    ------
    ValueError
        If the two are not the same fabric, or the healthy one carries no traffic.
    """
    for name in ("source", "target", "endpoint"):
        if not np.array_equal(getattr(healthy, name), getattr(hurt, name)):
            raise ValueError(
                f"hurt must have the nodes and links of healthy, got {hurt!r:.80}; make it by fail or without"
            )
    whole = _whole(healthy)
    left = _carried(hurt)
    apart = separated(hurt)
    worst = _across(hurt, left.link) if left.rate else ()
    return FaultReport(
        bandwidth=left.rate / whole,
        cut_off=np.flatnonzero(apart.cut_off),
        alone=np.flatnonzero(apart.alone),
        worst=worst,
        link=left.link,
    )


class _Carried(NamedTuple):
    """Uniform traffic of all pairs of ranks that have a path, in total [B/s], and the fullest link."""

    rate: float
    link: int


def _carried(fabric: Fabric) -> _Carried:
    """Return the uniform traffic that a fabric can carry; 0 if no pair has a path."""
    n = check_ranks(fabric)
    uniform = uniform_load(fabric, np.ones(n))  # 1 B for each pair
    seconds = times(fabric, uniform.load)
    rate = uniform.pairs / float(seconds.max()) if uniform.pairs else 0.0
    return _Carried(rate, link=int(seconds.argmax()))


def _whole(healthy: Fabric) -> float:
    """Return the traffic that the healthy fabric can carry, or refuse a fabric that carries nothing. [B/s]."""
    rate = _carried(healthy).rate
    if not rate:
        msg = f"the healthy fabric must have two ranks with a path between them, got {healthy!r:.80}; restore links"
        raise ValueError(msg)
    return rate


class Separated(NamedTuple):
    """Which ranks are cut off even with relays in their server, and which reach no other server without, (R,)."""

    cut_off: Flags
    alone: Flags


def separated(fabric: Fabric) -> Separated:
    """Return which ranks of a fabric with failed parts are separated from the others; see `FaultReport`."""
    rank = np.arange(fabric.n_ranks)

    # The main part is the one with most ranks, if GPUs of a server relay for each other. A rank that hangs on nothing
    # is a part too, so each rank is added with the part of its own node.
    helped = joined(fabric, relay=True)
    node = np.append(helped.attached.node, fabric.endpoint)
    part, member = distinct_pairs(helped.part[node], np.append(helped.attached.rank, rank))
    is_main = np.isin(rank, member[part == np.bincount(part).argmax()])

    # Without relays a rank is alone unless it is attached to a part with ranks of at least two servers. Only ranks of
    # the main part count; in a fabric of one server each rank counts as a server.
    names, server = np.unique(fabric.server, return_inverse=True)  # (R,)
    if names.size == 1:
        server = rank
    unhelped = joined(fabric, relay=False)
    owner = unhelped.attached.rank  # (M,)
    part = unhelped.part[unhelped.attached.node]  # (M,)
    counts = is_main[owner]
    part_once_per_server, _ = distinct_pairs(part[counts], server[owner[counts]])
    servers = np.bincount(part_once_per_server, minlength=fabric.n_nodes)  # of each part
    reaches_others = np.isin(rank, owner[servers[part] > 1])
    return Separated(cut_off=~is_main, alone=~reaches_others)


def _across(fabric: Fabric, link: int) -> tuple[int, ...]:
    """Return two ranks with the link on a shortest path between them, or () if there are none."""
    start = fabric.source[link]
    end = fabric.target[link]
    ends = fabric.endpoint.astype(np.int64)
    search = ShortestPathSearch(fabric)

    # Hops from each rank to the start of the link, (R, 1). If the start forbids transit, it sends only its own traffic.
    if fabric.transit[start]:
        before = search.table(np.array([start]))[ends]
    else:
        before = np.where(ends == start, 0, FAR)[:, None]

    for goals in search.blocks(ends):
        hops = search.table(goals)  # (N, goals)
        after = hops[end] if fabric.transit[end] else np.where(goals == end, 0, FAR)
        # The link is on a shortest path if its start is on one and its end is one hop nearer to the goal.
        through_start = before + hops[start] == hops[ends]
        leads_nearer = after + 1 == hops[start]
        found = np.argwhere(
            through_start & leads_nearer
        )  # pairs of a rank and a goal of this block
        if found.size:
            sender, column = found[0]
            receiver = np.flatnonzero(ends == goals[column])[0]
            return int(sender), int(receiver)
    return ()


class MonteCarlo(NamedTuple):
    """Results of D random draws of failures, (D,) each: bandwidth left, ranks cut off, and ranks left alone."""

    bandwidth: Floats
    cut_off: Floats
    alone: Floats

    def __repr__(self) -> str:
        """Show the medians."""
        medians = [f"{name} {np.median(column):.4g}" for name, column in self._asdict().items()]
        return f"<MonteCarlo: {self.bandwidth.size} draws, medians {', '.join(medians)}>"


def monte_carlo(
    fabric: Fabric, what: Grouping, k: int, draws: int = 100, seed: int = 0
) -> MonteCarlo:
    """Draw ``k`` failed parts at random ``draws`` times, and return the numbers of `report` for each draw.

    All parts are equally likely to fail. The healthy fabric is measured once, and a set of parts that is drawn again is
    not measured again. A fabric without the inside of its servers (``expand=False``) is measured many times faster.

    Parameters
    ----------
    fabric : Fabric
        The healthy fabric.
    what
        As in `parts`.
    k, draws : int
        Number of failures per draw, and number of draws. >= 0, >= 1
    seed : int
        Seed of the draws; the same seed gives the same draws on every machine.
    """
    names = list(parts(fabric, what))
    rng = np.random.default_rng(units.count(seed, "seed", 0))
    n_failures = units.count(k, "k", 0, len(names))
    whole = _whole(fabric)
    n_draws = units.count(draws, "draws")

    drawn = []
    for _ in range(n_draws):
        numbers = rng.choice(len(names), n_failures, replace=False)
        drawn.append(frozenset(numbers.tolist()))

    measured = {}
    for failures in set(drawn):
        hurt = fail(fabric, what, [names[i] for i in failures])
        bandwidth = _carried(hurt).rate / whole
        apart = separated(hurt)
        measured[failures] = (
            bandwidth,
            np.count_nonzero(apart.cut_off),
            np.count_nonzero(apart.alone),
        )

    table = np.array([measured[failures] for failures in drawn], dtype=float)  # (D, 3)
    return MonteCarlo(bandwidth=table[:, 0], cut_off=table[:, 1], alone=table[:, 2])
