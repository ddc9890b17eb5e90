"""Legality: what speaks against building a fabric, each with the name of the node or cable, the rule and the figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Fabric
from fabriclab.economics._cables import of_kind, reach, switches

__all__ = ["Violation", "legality"]

_ANY: Final = 2**31 - 1


@dataclass(frozen=True)
class Violation:
    """A breach of one of the rules radix [ports], reach [m], connectivity and single failure [ranks cut off]."""

    where: str
    rule: str
    figure: float
    limit: float


def legality(fabric: Fabric, *, radix: int | None = None, may_lose: int = 0) -> tuple[Violation, ...]:
    """Return what speaks against building a fabric; empty if nothing does.

    Ranks are cut off if no path joins them to the largest part of all ranks; a failure cuts off as many as it
    takes from that part. GPUs pass on what the others of their server have for its NICs (a relay over the
    scale-up domain); hosts, and NICs that are endpoints, pass on nothing. Failures are of one cable, or of
    one node that is no endpoint. Left out: failures of several at once (power, planes), and the bandwidth that is left.

    Parameters
    ----------
    fabric : Fabric
        What has capacity 0 is not there. A node never has more ports than its own radix: `Fabric` refuses it.
    radix : int, optional
        Ports of the largest switch that can be bought.
    may_lose : int
        Ranks that one failure may cut off. >= 0

    Returns
    -------
    tuple of Violation
        In the order radix, reach, connectivity, failures of nodes, failures of cables.

    Raises
    ------
    ValueError, TypeError
        If ``radix`` or ``may_lose`` is no whole number in its range.
    """
    most, spare = units.count(_ANY if radix is None else radix, "radix"), units.count(may_lose, "may_lose", 0)
    limit = np.array([*map(reach, fabric.media)])[fabric.medium]
    long, big = np.flatnonzero(fabric.length > limit)[::2], switches(fabric) & (fabric.ports_used > most)
    apart, nodes, cables = _survey(fabric)
    found = [(fabric.name(n), "radix", fabric.ports_used[n], most) for n in np.flatnonzero(big).tolist()]
    found += [(fabric.link_name(c), "reach", fabric.length[c], limit[c]) for c in long.tolist()]
    found += [(fabric.name(n), "connectivity", apart.size, 0) for n in fabric.endpoint[apart[:1]].tolist()]
    lost = [(fabric.name(n), k) for n, k in nodes] + [(fabric.link_name(2 * c), k) for c, k in cables]
    found += [(where, "single failure", k, spare) for where, k in lost if k > spare]
    return tuple(Violation(where, rule, float(figure), float(bound)) for where, rule, figure, bound in found)


def _survey(fabric: Fabric) -> tuple[NDArray[Any], list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the ranks outside the largest part; nodes, then cables, with how many ranks it loses without them."""
    import networkx as nx
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    up = 2 * np.flatnonzero(np.minimum(fabric.capacity[::2], fabric.capacity[1::2]) > 0)
    passes, rank = fabric.transit | of_kind(fabric, "gpu"), np.full(fabric.n_nodes, -1)
    rank[fabric.endpoint] = np.arange(fabric.n_ranks)
    inner, both = up[passes[fabric.source[up]] & passes[fabric.target[up]]], np.concatenate([up, up + 1])
    a, b = fabric.source[inner], fabric.target[inner]
    # A rank that passes nothing on hangs by each of its cables on a node that does; one that does, on itself.
    leg = both[(rank[fabric.source[both]] >= 0) & ~passes[fabric.source[both]] & passes[fabric.target[both]]]
    own = fabric.endpoint[passes[fabric.endpoint]]
    who, on = rank[np.append(fabric.source[leg], own)], np.append(fabric.target[leg], own)
    by = np.append(leg // 2, np.full(own.size, -1))

    def parts(node: int = -1, cable: int = -1) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        works = (a != node) & (b != node) & (inner != 2 * cable)
        wires = coo_array((works[works], (a[works], b[works])), shape=(fabric.n_nodes,) * 2)
        part = connected_components(wires, directed=False)[1][on]
        pairs = np.unique(np.stack([part, who])[:, on != node], axis=1)
        return part, pairs, np.bincount(pairs[0], minlength=2)

    part, pairs, size = parts()
    main, (second, whole) = size.argmax(), np.sort(size)[-2:].tolist()
    mine, ways = part == main, np.bincount(who[part == main], minlength=fabric.n_ranks)
    once, (legs, ends) = mine & (by >= 0) & (ways[who] == 1), np.unique(np.stack([who, on])[:, mine], axis=1)
    nodes = np.bincount(ends[np.bincount(legs)[legs] == 1], minlength=fabric.n_nodes)
    nodes = np.minimum(nodes, whole - second)
    cables = dict.fromkeys(by[once].tolist(), min(1, whole - second))
    graph = nx.MultiGraph()
    graph.add_edges_from(zip(a.tolist(), b.tolist(), (inner // 2).tolist(), strict=True))
    for node in nx.articulation_points(graph):
        nodes[node] = whole - parts(node)[2].max()
    for pair in nx.bridges(graph):
        (cable,) = graph.get_edge_data(*pair)
        cables[cable] = int(whole - parts(cable=cable)[2].max())
    nodes[fabric.endpoint] = 0
    apart = np.setdiff1d(np.arange(fabric.n_ranks), pairs[1, pairs[0] == main])
    return apart, [(n, int(nodes[n])) for n in np.flatnonzero(nodes).tolist()], sorted(cables.items())
