"""Legality: what speaks against building a fabric, each with the name of the node or cable, the rule and the figure."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Fabric, distinct_pairs
from fabriclab.economics.floor import reach, switches
from fabriclab.metrics.hops import joined

_ANY = 2**31 - 1


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
    lost = [(fabric.name, n, k) for n, k in nodes] + [(fabric.link_name, 2 * c, k) for c, k in cables]
    found += [(name(i), "single failure", k, spare) for name, i, k in lost if k > spare]
    return tuple(Violation(where, rule, float(figure), float(bound)) for where, rule, figure, bound in found)


def _survey(fabric: Fabric) -> tuple[NDArray[Any], list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the ranks outside the largest part; nodes, then cables, with how many ranks it loses without them."""
    import networkx as nx

    n, (part, inner, (who, on, by)) = fabric.n_nodes, joined(fabric, relay=True)
    where, rank = distinct_pairs(part[on], who)
    size = np.bincount(where, minlength=2)
    main, (second, whole) = size.argmax(), np.sort(size)[-2:].tolist()
    apart = np.setdiff1d(np.arange(fabric.n_ranks), rank[where == main])
    who, on, by = (x[part[on] == main] for x in (who, on, by))
    cables = dict.fromkeys(by[(by >= 0) & (np.bincount(who)[who] == 1)].tolist(), min(1, whole - second))
    who, on = distinct_pairs(who, on)
    inner = inner[part[fabric.source[2 * inner]] == main]
    ends, graph = (fabric.source[2 * inner].tolist(), fabric.target[2 * inner].tolist()), nx.MultiGraph()
    graph.add_edges_from(zip(*ends, inner.tolist(), strict=True))
    # Blocks, which no single node parts, and nodes are a tree, lowest blocks first. Of a node or block and all below:
    # ranks with all of their ways there, ways of other ranks, and the most ranks that one branch has.
    blocks, ways = [*nx.biconnected_components(graph)], np.bincount(who)
    above = {node: i for i, block in enumerate(blocks, n) for node in block}
    inside = np.bincount(on[ways[who] == 1], minlength=n + len(blocks)).tolist()
    most, partly = [0] * len(inside), [dict[int, int]() for _ in inside]
    for r, node in zip(who[ways[who] > 1].tolist(), on[ways[who] > 1].tolist(), strict=True):
        partly[node][r] = 1
    for i, block in enumerate(blocks, n):
        steps = [(node, i) for node in block if above[node] == i] + [(i, node) for node in block if above[node] > i]
        for branch, at in steps:
            most[at] = max(most[at], inside[branch] + len(partly[branch]))
            inside[at] += inside[branch]
            few, partly[at] = sorted((partly[branch], partly[at]), key=len)
            for r, k in few.items():
                partly[at][r] = k + partly[at].get(r, 0)
                if partly[at][r] == ways[r]:
                    del partly[at][r]
                    inside[at] += 1
    lost = whole - np.maximum(np.maximum(whole - np.array(inside), most), second)
    for k, (u, v, *more) in zip(lost[n:].tolist(), blocks, strict=True):
        if not more and len(graph[u][v]) == 1:
            cables[next(iter(graph[u][v]))] = k
    lost[fabric.endpoint] = 0
    return apart, [(i, int(lost[i])) for i in np.flatnonzero(lost[:n]).tolist()], sorted(cables.items())
