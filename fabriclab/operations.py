"""Faults and maintenance: what fails or is drained together, what is left then, and how bad luck may get."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Fabric, Flags, Floats, Ints, distinct_pairs
from fabriclab.metrics.hops import check_ranks, joined, outside
from fabriclab.metrics.traffic import times, uniform_load
from fabriclab.routing.shortest import FAR, Search

__all__ = ["MonteCarlo", "Report", "fail", "monte_carlo", "parts", "report"]

What = str | Mapping[Any, ArrayLike]


def parts(fabric: Fabric, what: What) -> dict[Any, Ints]:
    """Return what fails or is drained as one: the nodes of each part, or its cables.

    Parameters
    ----------
    fabric : Fabric
        What it is made of.
    what : str or mapping
        ``"cable"``: the cables outside the servers. A kind of node, such as ``"spine"``: each of them. A coordinate,
        such as ``"rail"``, ``"plane"`` or ``"server"``: all nodes that have the same one. A mapping: power domains
        by their names, each with its nodes, such as those of the servers of a rack.

    Returns
    -------
    dict
        By number, from 0: that of the cable, among the nodes of the kind, or of the coordinate.

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
        known = ", ".join(dict.fromkeys(["cable", *fabric.kinds, *fabric.coord_names]))
        raise ValueError(f"what must be one of {known}, or power domains by name, got {what!r}")
    order = np.argsort(number, kind="stable")
    found, first = np.unique(number[order], return_index=True)
    return {k: p for k, p in zip(found.tolist(), np.split(order, first[1:]), strict=True) if k >= 0}


def fail(fabric: Fabric, what: What, which: Sequence[Any]) -> Fabric:
    """Return a fabric without some of its `parts`, by number or by name: their links have capacity 0.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> fail(topologies.build("leaf_spine", hosts=16, radix=8), "spine", [1])
    topologies.build('leaf_spine', hosts=16, radix=8).without(nodes=[21])
    """
    there = parts(fabric, what)
    for name in [which] if isinstance(which, str) or not np.iterable(which) else which:
        if not isinstance(name, Hashable) or name not in there or name is which:
            raise ValueError(
                f"which must list some of {len(there)} parts, such as {[*there][:8]}, got {name!r}"
            )
    gone = np.concatenate([np.zeros(0, np.int64), *(there[name] for name in which)])
    return fabric.without(cables=gone) if what == "cable" else fabric.without(nodes=gone)


class Report(NamedTuple):
    """What is left of a fabric.

    Parameters
    ----------
    bandwidth : float
        Uniform traffic of all pairs of ranks that have a path, as a part of what the healthy fabric carries. Every
        pair sends the same, and nodes split it evenly over shortest paths, so the fullest link sets it.
    cut_off : (C,) int64
        Ranks without a path to the largest part of all ranks, even if the GPUs of their server pass on what reaches
        them over the scale-up domain. Ranks that hang together through a chain of others count as joined.
    alone : (A,) int64
        Ranks without a path of their own to another server: their own NIC is gone, or what it leads to.
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
        """Show the numbers."""
        lost = f"{self.cut_off.size} ranks cut off, {self.alone.size} alone"
        return f"<Report: {100 * self.bandwidth:.4g}% of the bandwidth, {lost}, worst pair {self.worst}>"


def report(healthy: Fabric, hurt: Fabric) -> Report:
    """Return what is left of ``healthy`` in ``hurt``, the same fabric with links of less capacity.

    A rank needs a path there and back over cables that work both ways. Left out: the time until the fault is known
    and routed around, and routing that looks at load.

    Raises
    ------
    ValueError
        If the two are not the same fabric, or the healthy one carries no traffic.
    """
    if any(
        not np.array_equal(getattr(healthy, k), getattr(hurt, k))
        for k in ("source", "target", "endpoint")
    ):
        raise ValueError(
            f"hurt must have the nodes and links of healthy, got {hurt!r:.80}; make it by fail or without"
        )
    whole, (left, link), (cut_off, alone) = _whole(healthy), _carries(hurt), _apart(hurt)
    worst = _across(hurt, link) if left else ()
    return Report(left / whole, np.flatnonzero(cut_off), np.flatnonzero(alone), worst, link)


def _carries(fabric: Fabric) -> tuple[float, int]:
    """Return the uniform traffic of all pairs that have a path, together [B/s], and the fullest link."""
    load, met = uniform_load(fabric, np.ones(check_ranks(fabric)))
    took = times(fabric, load)
    return (met / float(took.max()) if met else 0.0), int(took.argmax())


def _whole(healthy: Fabric) -> float:
    """Return what the healthy fabric carries, or refuse one that carries nothing. [B/s]."""
    if not (whole := _carries(healthy)[0]):
        msg = f"the healthy fabric must have two ranks with a path between them, got {healthy!r:.80}; restore links"
        raise ValueError(msg)
    return whole


def _apart(fabric: Fabric) -> tuple[Flags, Flags]:
    """Return which ranks are cut off with the help of their server, and which reach no other server alone, (R,)."""
    own, (part, _, (rank, on, _)) = np.arange(fabric.n_ranks), joined(fabric, relay=True)
    # one alone is a part too
    where, rank = distinct_pairs(part[np.append(on, fabric.endpoint)], np.append(rank, own))
    main = np.isin(own, rank[where == np.bincount(where).argmax()])
    part, _, (rank, on, _) = joined(fabric, relay=False)
    names, server = np.unique(fabric.server, return_inverse=True)
    near, server = main[rank], server if names.size > 1 else own
    # parts, once for each server that meets there
    met, _ = distinct_pairs(part[on[near]], server[rank[near]])
    return ~main, ~np.isin(own, rank[np.bincount(met, minlength=fabric.n_nodes)[part[on]] > 1])


def _across(fabric: Fabric, link: int) -> tuple[int, ...]:
    """Return two ranks that have the link on a shortest path."""
    u, v, ends, search = (
        fabric.source[link],
        fabric.target[link],
        fabric.endpoint.astype(np.int64),
        Search(fabric),
    )
    before = (
        search.table(np.array([u]))[ends]
        if fabric.transit[u]
        else np.where(ends == u, 0, FAR)[:, None]
    )
    for goals in search.blocks(ends):
        table = search.table(goals)
        after = table[v] if fabric.transit[v] else np.where(goals == v, 0, FAR)
        ways = np.argwhere((before + table[u] == table[ends]) & (after + 1 == table[u]))
        if ways.size:
            return int(ways[0, 0]), int(np.flatnonzero(ends == goals[ways[0, 1]])[0])
    return ()


class MonteCarlo(NamedTuple):
    """Draws of failures: the bandwidth that each leaves, and the ranks that it cuts off and leaves alone, (D,) each."""

    bandwidth: Floats
    cut_off: Floats
    alone: Floats

    def __repr__(self) -> str:
        """Show the medians."""
        median = ", ".join(
            f"{name} {np.median(column):.4g}" for name, column in self._asdict().items()
        )
        return f"<MonteCarlo: {self.bandwidth.size} draws, medians {median}>"


def monte_carlo(fabric: Fabric, what: What, k: int, draws: int = 100, seed: int = 0) -> MonteCarlo:
    """Return what `report` says of ``k`` parts that fail at once, drawn ``draws`` times; all are equally likely.

    The healthy fabric is measured once, and parts that are drawn again together are not measured again. A fabric
    without the inside of its servers (``expand=False``) is measured many times faster.

    Parameters
    ----------
    fabric : Fabric
        The healthy one.
    what
        As in `parts`.
    k, draws : int
        Failures of each draw, and draws. >= 0, >= 1
    seed : int
        The same seed gives the same draws on every machine.
    """
    there, rng = [*parts(fabric, what)], np.random.default_rng(units.count(seed, "seed", 0))
    many, whole, seen = units.count(k, "k", 0, len(there)), _whole(fabric), {}
    asked = range(units.count(draws, "draws"))
    drawn = [frozenset(rng.choice(len(there), many, replace=False).tolist()) for _ in asked]
    for lost in set(drawn):
        hurt = fail(fabric, what, [there[i] for i in lost])
        seen[lost] = (_carries(hurt)[0] / whole, *(np.count_nonzero(x) for x in _apart(hurt)))
    return MonteCarlo(*np.array([seen[lost] for lost in drawn], dtype=float).T)
