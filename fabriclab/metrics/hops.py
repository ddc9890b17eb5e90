"""Where ranks enter the network, the hops between them, and how many ways lead from one to another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import Fabric, Ints, frozen, parts_of, whole
from fabriclab.routing.shortest import FAR, Search, check_paths


def check_ranks(fabric: Fabric) -> int:
    """Return the number of ranks, or refuse fewer than two, and what has no cable."""
    if fabric.n_ranks < 2 or not fabric.n_cables:
        msg = f"fabric must have at least 2 ranks, got {fabric.n_ranks}, and a cable, got {fabric.n_cables}; "
        raise ValueError(msg + "take a larger one")
    return fabric.n_ranks


def doors(fabric: Fabric) -> tuple[Ints, Ints]:
    """Return the switch on which each rank hangs by a single cable, and that link to the rank, (R,) each.

    A rank that lets traffic pass, or with another number of links, is its own door, by no link (-1).
    """
    ends, live, n = (
        fabric.endpoint.astype(np.int64),
        np.flatnonzero(fabric.capacity > 0),
        fabric.n_nodes,
    )
    last = np.zeros(n, dtype=np.int64)
    last[fabric.target[live]] = live
    link, door = last[ends], fabric.source[last[ends]]
    one = ~fabric.transit[ends] & fabric.transit[door] & (fabric.capacity[link ^ 1] > 0)
    for end in (fabric.source, fabric.target):
        one &= np.bincount(end[live], minlength=n)[ends] == 1
    return np.where(one, door, ends), np.where(one, link, -1)


def joined(fabric: Fabric, *, relay: bool) -> tuple[Ints, Ints, Ints]:
    """Return the part of every node (N,), cables within parts (K,), and on what ranks hang: rank, node, cable (3, M).

    Parts are what nodes that pass traffic on fall into, with cables that work both ways; with ``relay`` GPUs pass on
    what the others of their server have for its NICs. A rank that passes nothing on hangs by each of its cables on a
    node that does; one that does, on itself (cable -1).
    """
    ends = fabric.endpoint
    gpus = [code for code, kind in enumerate(fabric.kinds) if relay and kind == "gpu"]
    passes, rank = fabric.transit | np.isin(fabric.kind, gpus), fabric.rank_of
    link = np.flatnonzero(np.repeat(fabric.capacity.reshape(-1, 2).min(axis=1) > 0, 2))
    a, b = fabric.source[link], fabric.target[link]
    inner, hangs = passes[a] & passes[b], (rank[a] >= 0) & ~passes[a] & passes[b]
    own, by_cable = ends[passes[ends]], (rank[a[hangs]], b[hangs], link[hangs] // 2)
    on = np.concatenate([by_cable, [rank[own], own, np.full(own.size, -1)]], axis=1)
    return parts_of(fabric.n_nodes, a[inner], b[inner]), link[inner][::2] // 2, on


def outside(fabric: Fabric) -> NDArray[np.bool_]:
    """Return which links lead from one server to another, or to what is in no server, (L,); if none does, all."""
    server = fabric.coordinate("server")
    out: NDArray[np.bool_] = (server[fabric.source] != server[fabric.target]) | (
        server[fabric.source] < 0
    )
    return out if out.any() else ~out


class Hops(NamedTuple):
    """How far ranks are apart: ``pairs[h]`` ordered pairs of different ranks are h links apart, (diameter + 1,)."""

    pairs: Ints

    @property
    def diameter(self) -> int:
        """Links between the two ranks that are furthest apart."""
        return self.pairs.size - 1

    @property
    def mean(self) -> float:
        """Mean links between two different ranks."""
        return float(np.arange(self.pairs.size) @ self.pairs / self.pairs.sum())

    def __repr__(self) -> str:
        """Show both."""
        return f"hops: diameter {self.diameter:,}, mean way {self.mean:,.2f}"


def hops(fabric: Fabric) -> Hops:
    """Return how far all ranks are apart, in links that carry traffic.

    One rank stands for all that hang on the same switch by one cable each: the others are as far from it as from
    those. The search then goes from few ranks to all.

    Raises
    ------
    NoPath
        If two ranks have no path, naming them.
    ValueError
        If there are fewer than two ranks.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> hops(topologies.build("fat_tree", k=4))
    hops: diameter 6, mean way 5.47
    """
    n, search, ends, pairs = (
        check_ranks(fabric),
        Search(fabric),
        fabric.endpoint.astype(np.int64),
        [0],
    )
    door, link = doors(fabric)
    _, first, alike = np.unique(
        np.where(link < 0, -1 - door, door), return_index=True, return_counts=True
    )
    for many in np.unique(alike):
        for goals in search.blocks(ends[first[alike == many]]):
            met = goals.size  # every goal reaches itself
            for h, new in enumerate(search.sweeps(goals), 1):
                found = int(np.bitwise_count(np.take(new, search.row[ends], axis=0)).sum())
                pairs += [0] * (h + 1 - len(pairs))
                pairs[h], met = pairs[h] + int(many) * found, met + found
            if met < goals.size * n:
                rank, goal = np.nonzero(search.table(goals)[ends] == FAR)
                check_paths(fabric, rank >= 0, ends[rank], goals[goal])
    return Hops(frozen(np.trim_zeros(np.array(pairs), "b"), np.int64))


class Diversity(NamedTuple):
    """Ways between P pairs of ranks: how many are shortest, and how many there are that share no link."""

    shortest: NDArray[np.float64]  # (P,) whole numbers, of which there may be more than int64 holds
    disjoint: Ints  # (P,)


def diversity(fabric: Fabric, pairs: ArrayLike) -> Diversity:
    """Return how many ways lead from one rank to another; parallel cables are ways of their own.

    The ways that share no link are as many as a flow of one unit per link carries (Menger's theorem).

    Parameters
    ----------
    fabric : Fabric
        Links of capacity 0 are no way.
    pairs : (P, 2) array_like of int
        Ranks, from and to.

    Raises
    ------
    ValueError, TypeError
        If these are no pairs of different ranks.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> ways = diversity(topologies.build("torus", shape=(4, 4)), [[0, 5]])
    >>> ways.shortest.tolist(), ways.disjoint.tolist()
    ([2.0], [4])
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    given = whole(
        pairs, "pairs", (-1, 2), "rows of two ranks such as [[0, 5], [0, 9]]", fabric.n_ranks
    )
    if np.any(given[:, 0] == given[:, 1]):
        raise ValueError(f"pairs must be rows of two different ranks, got {given.tolist()!r:.80}")
    live, size = np.flatnonzero(fabric.capacity > 0), (fabric.n_nodes,) * 2
    source, target, transit = fabric.source[live], fabric.target[live], fabric.transit
    start, goal = fabric.endpoint[given].astype(np.int64).T
    graph, table, most = (
        csr_array((np.ones(live.size), (source, target)), shape=size),
        Search(fabric).table(goal),
        [],
    )
    step = ways = (table == 0).astype(np.float64)
    for h in range(1, 1 + int(table.max(where=table < FAR, initial=0))):
        step = np.where(table == h, graph @ step, 0.0)
        ways, step = ways + step, step * transit[:, None]
    for s, t in zip(start.tolist(), goal.tolist(), strict=True):
        on = (transit[source] | (source == s)) & (transit[target] | (target == t))
        unit = csr_array((on[on].astype(np.int32), (source[on], target[on])), shape=size)
        most.append(maximum_flow(unit, s, t).flow_value)
    return Diversity(ways[start, np.arange(goal.size)], np.array(most))


def cables(fabric: Fabric) -> dict[str, tuple[int, float]]:
    """Return the number of cables and their length together [m] by medium, failed ones too."""
    medium, length = fabric.medium[::2], fabric.length[::2]
    return {
        m: (int(np.sum(medium == i)), float(length[medium == i].sum()))
        for i, m in enumerate(fabric.media)
    }


class Ports(NamedTuple):
    """Nodes of one kind, and the ports of all of them together."""

    nodes: int
    used: int
    left: int


def ports(fabric: Fabric) -> dict[str, Ports]:
    """Return nodes and ports by kind, where the number of ports is known; a fabric never uses more than there are."""
    mine = {k: (fabric.kind == i) & (fabric.radix > 0) for i, k in enumerate(fabric.kinds)}
    used, left = fabric.ports_used, fabric.radix - fabric.ports_used
    return {
        k: Ports(int(m.sum()), int(used[m].sum()), int(left[m].sum()))
        for k, m in mine.items()
        if m.any()
    }
