"""Where ranks enter the network, the hops between them, and how many paths lead from one to another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import Fabric, Flags, Floats, Ints, frozen, parts_of, whole
from fabriclab.routing.shortest import FAR, ShortestPathSearch, check_paths


class AccessSwitches(NamedTuple):
    """Where each rank enters the network, (R,)."""

    node: Ints
    link: Ints  # from the node to the rank; -1 if the rank is the node


def check_ranks(fabric: Fabric) -> int:
    """Return the number of ranks, or refuse a fabric with fewer than two ranks or without a cable."""
    if fabric.n_ranks < 2 or not fabric.n_cables:
        msg = f"fabric must have at least 2 ranks, got {fabric.n_ranks}, and a cable, got {fabric.n_cables}; "
        raise ValueError(msg + "take a larger one")
    return fabric.n_ranks


def access_switches(fabric: Fabric) -> AccessSwitches:
    """Return for each rank the switch on which it hangs by a single cable, and the link from there to the rank.

    A rank that lets traffic pass, or with another number of links, is its own access switch, by no link (-1).
    """
    ends = fabric.endpoint.astype(np.int64)  # (R,)
    live = np.flatnonzero(fabric.capacity > 0)
    into = np.zeros(
        fabric.n_nodes, dtype=np.int64
    )  # (N,) a link into each node; of ranks with one link, that link
    into[fabric.target[live]] = live
    link = into[ends]
    switch = fabric.source[link]

    # One working link out, one in, and the two are one cable to a switch.
    hangs = ~fabric.transit[ends] & fabric.transit[switch] & (fabric.capacity[link ^ 1] > 0)
    for side in (fabric.source, fabric.target):
        degree = np.bincount(side[live], minlength=fabric.n_nodes)
        hangs &= degree[ends] == 1
    return AccessSwitches(node=np.where(hangs, switch, ends), link=np.where(hangs, link, -1))


class Attached(NamedTuple):
    """Which rank hangs on which node: an entry for each rank and each cable to a node that passes traffic on.

    A rank that passes traffic on itself hangs on itself, by cable -1.
    """

    rank: Ints  # (M,)
    node: Ints  # (M,)
    cable: Ints  # (M,)


class Joined(NamedTuple):
    """What is joined by cables that work both ways."""

    part: Ints  # (N,) the part of every node; nodes of one part reach each other
    cables: Ints  # (K,) cables within parts
    attached: Attached


def joined(fabric: Fabric, *, relay: bool) -> Joined:
    """Return the parts into which nodes that pass traffic on fall, and on which of these nodes each rank hangs.

    Only cables that work both ways count. With ``relay`` GPUs pass on what the others of their server have for its
    NICs.
    """
    passes = fabric.transit
    if relay and "gpu" in fabric.kinds:
        passes = passes | (fabric.kind == fabric.kinds.index("gpu"))
    works_both_ways = fabric.capacity.reshape(-1, 2).min(axis=1) > 0  # (cables,)
    link = np.flatnonzero(np.repeat(works_both_ways, 2))
    start = fabric.source[link]
    end = fabric.target[link]

    inner = passes[start] & passes[end]
    part = parts_of(fabric.n_nodes, start[inner], end[inner])
    cables = link[inner][::2] // 2

    # Ranks that pass nothing on hang by their cables, all others on themselves.
    rank = fabric.rank_of
    hangs = (rank[start] >= 0) & ~passes[start] & passes[end]
    own = fabric.endpoint[passes[fabric.endpoint]]
    attached = Attached(
        rank=np.concatenate([rank[start[hangs]], rank[own]]),
        node=np.concatenate([end[hangs], own]).astype(np.int64),
        cable=np.concatenate([link[hangs] // 2, np.full(own.size, -1)]),
    )
    return Joined(part, cables, attached)


def outside(fabric: Fabric) -> Flags:
    """Return which links lead from one server to another, or to what is in no server, (L,); if none does, all."""
    server = fabric.coordinate("server")
    start = server[fabric.source]
    end = server[fabric.target]
    is_outside: Flags = (start != end) | (start < 0)
    return is_outside if is_outside.any() else ~is_outside


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
        """Show the diameter and the mean."""
        return f"hops: diameter {self.diameter:,}, mean way {self.mean:,.2f}"


def hops(fabric: Fabric) -> Hops:
    """Return how many links lie between any two ranks, over links that carry traffic.

    One rank stands for all that hang on the same switch by one cable each, since every other rank is equally far from
    all of them. So the search goes back from a few ranks to all.

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
    n_ranks = check_ranks(fabric)
    search = ShortestPathSearch(fabric)
    ends = fabric.endpoint.astype(np.int64)

    # Ranks that hang on the same switch are alike; a rank that hangs on none is like no other. `first` has one rank
    # of each kind, `alike` how many there are of it.
    access = access_switches(fabric)
    key = np.where(access.link < 0, -1 - access.node, access.node)
    _, first, alike = np.unique(key, return_index=True, return_counts=True)

    pairs = [0]  # by hops
    for many in np.unique(alike):
        for goals in search.blocks(ends[first[alike == many]]):
            n_found = goals.size  # every goal reaches itself
            for h, reached in enumerate(search.sweeps(goals), 1):
                # Bits in the words of all ranks: pairs of a rank and a goal that are h hops apart.
                words = np.take(reached, search.row[ends], axis=0)
                at_h = int(np.bitwise_count(words).sum())
                n_found += at_h
                if h == len(pairs):
                    pairs.append(0)
                pairs[h] += int(many) * at_h
            if n_found < goals.size * n_ranks:
                rank, goal = np.nonzero(search.table(goals)[ends] == FAR)
                check_paths(fabric, rank >= 0, ends[rank], goals[goal])
    return Hops(frozen(np.trim_zeros(np.array(pairs), "b"), np.int64))


class Diversity(NamedTuple):
    """Paths between P pairs of ranks: the number of shortest ones, and the most that share no link."""

    shortest: NDArray[np.float64]  # (P,) whole numbers, which may be larger than int64 holds
    disjoint: Ints  # (P,)


def diversity(fabric: Fabric, pairs: ArrayLike) -> Diversity:
    """Return how many paths lead from one rank to another; parallel cables are paths of their own.

    The largest number of paths that share no link is the maximum flow if each link carries one unit (Menger's theorem).

    Parameters
    ----------
    fabric : Fabric
        Links of capacity 0 are on no path.
    pairs : (P, 2) array_like of int
        Ranks, from and to.

    Raises
    ------
    ValueError, TypeError
        If these are not pairs of different ranks.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> ways = diversity(topologies.build("torus", shape=(4, 4)), [[0, 5]])
    >>> ways.shortest.tolist(), ways.disjoint.tolist()
    ([2.0], [4])
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    hint = "rows of two ranks such as [[0, 5], [0, 9]]"
    given = whole(pairs, "pairs", (-1, 2), hint, fabric.n_ranks)
    if np.any(given[:, 0] == given[:, 1]):
        raise ValueError(f"pairs must be rows of two different ranks, got {given.tolist()!r:.80}")
    live = np.flatnonzero(fabric.capacity > 0)
    source = fabric.source[live]
    target = fabric.target[live]
    start = fabric.endpoint[given[:, 0]].astype(np.int64)  # (P,)
    goal = fabric.endpoint[given[:, 1]].astype(np.int64)
    shortest = _shortest_paths(fabric, source, target, goal)[start, np.arange(goal.size)]

    transit = fabric.transit
    size = (fabric.n_nodes, fabric.n_nodes)
    disjoint = []
    for s, t in zip(start.tolist(), goal.tolist(), strict=True):
        begins = transit[source] | (source == s)
        ends = transit[target] | (target == t)
        usable = begins & ends
        units = usable[usable].astype(np.int32)  # 1 for each link that a path from s to t may take
        unit_graph = csr_array((units, (source[usable], target[usable])), shape=size)
        disjoint.append(maximum_flow(unit_graph, s, t).flow_value)
    return Diversity(shortest, np.array(disjoint))


def _shortest_paths(
    fabric: Fabric, source: NDArray[np.int32], target: NDArray[np.int32], goal: Ints
) -> Floats:
    """Return the number of shortest paths from every node to the goal of each column, (N, P).

    ``source`` and ``target`` are the ends of all links that work.
    """
    from scipy.sparse import csr_array

    size = (fabric.n_nodes, fabric.n_nodes)
    links = csr_array((np.ones(source.size), (source, target)), shape=size)
    hops = ShortestPathSearch(fabric).table(goal)  # (N, P)
    paths: Floats = (hops == 0).astype(np.float64)  # one path from the goal to itself
    ahead: Floats = paths  # paths from nodes one hop nearer, 0 where these let no traffic pass
    for h in range(1, 1 + int(hops.max(where=hops < FAR, initial=0))):
        # Paths of a node h hops away: the sum over its links of the paths of the node ahead.
        paths_at_h = np.where(hops == h, links @ ahead, 0.0)
        paths = paths + paths_at_h
        ahead = paths_at_h * fabric.transit[:, None]
    return paths


def cables(fabric: Fabric) -> dict[str, tuple[int, float]]:
    """Return by medium the number of cables and their length together [m], failed ones included."""
    medium = fabric.medium[::2]  # of each cable, which is two links
    length = fabric.length[::2]
    found = {}
    for code, name in enumerate(fabric.media):
        mine = medium == code
        found[name] = (int(np.sum(mine)), float(length[mine].sum()))
    return found


class Ports(NamedTuple):
    """Number of nodes of one kind, and of their ports: in use, and left."""

    nodes: int
    used: int
    left: int


def ports(fabric: Fabric) -> dict[str, Ports]:
    """Return nodes and ports by kind, where the number of ports is known; a fabric never uses more than there are."""
    left = fabric.radix - fabric.ports_used
    found = {}
    for code, kind in enumerate(fabric.kinds):
        mine = (fabric.kind == code) & (fabric.radix > 0)
        if mine.any():
            used = int(fabric.ports_used[mine].sum())
            found[kind] = Ports(nodes=int(mine.sum()), used=used, left=int(left[mine].sum()))
    return found
