"""Access switches of ranks, hops between ranks, number of paths from one to another, and cables and ports in use."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import Fabric, Flags, Floats, Flows, Ints, frozen, parts_of, whole
from fabriclab.routing import route
from fabriclab.routing.shortest import FAR, ShortestPathSearch, check_paths


class AccessSwitches(NamedTuple):
    """The node at which each rank enters the network, (R,)."""

    node: Ints
    link: Ints  # from the node to the rank; -1 if the rank is the node


def check_ranks(fabric: Fabric) -> int:
    """Return the number of ranks, or refuse a fabric with fewer than two ranks or without a cable."""
    if fabric.n_ranks < 2 or not fabric.n_cables:
        msg = f"fabric must have at least 2 ranks, got {fabric.n_ranks}, and a cable, got {fabric.n_cables}; "
        raise ValueError(msg + "take a larger one")
    return fabric.n_ranks


def access_switches(fabric: Fabric) -> AccessSwitches:
    """Return for each rank the switch to which a single cable joins it, and the link from that switch to the rank.

    A rank that lets traffic pass, or that has more or fewer cables, is its own access switch, with link -1.
    """
    ends = fabric.endpoint.astype(np.int64)  # (R,)
    live = np.flatnonzero(fabric.capacity > 0)
    into = np.zeros(
        fabric.n_nodes, dtype=np.int64
    )  # (N,) a link into each node; of ranks with one link, that link
    into[fabric.target[live]] = live
    link = into[ends]
    switch = fabric.source[link]

    # One working link out, one working link in, and both belong to one cable to a switch.
    hangs = ~fabric.transit[ends] & fabric.transit[switch] & (fabric.capacity[link ^ 1] > 0)
    for side in (fabric.source, fabric.target):
        degree = np.bincount(side[live], minlength=fabric.n_nodes)
        hangs &= degree[ends] == 1
    return AccessSwitches(node=np.where(hangs, switch, ends), link=np.where(hangs, link, -1))


class Attached(NamedTuple):
    """Which rank is attached to which node: one entry per rank and per cable to a node that lets traffic pass.

    A rank that lets traffic pass is attached to itself, by cable -1.
    """

    rank: Ints  # (M,)
    node: Ints  # (M,)
    cable: Ints  # (M,)


class Joined(NamedTuple):
    """Parts of a fabric that are connected by cables that work in both directions."""

    part: Ints  # (N,) the part of every node; nodes of one part reach each other
    cables: Ints  # (K,) cables within parts
    attached: Attached


def joined(fabric: Fabric, *, relay: bool) -> Joined:
    """Return the connected parts of the nodes that let traffic pass, and the nodes to which each rank is attached.

    Only cables that work in both directions count. With ``relay`` a GPU passes on traffic of other GPUs of its server
    to its NICs.
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

    # Ranks that let no traffic pass are attached by their cables, all others to themselves.
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
    """Return which links lead out of a server, to another server or to nodes outside of servers, (L,).

    If no link does, all of them count.
    """
    server = fabric.coordinate("server")
    start = server[fabric.source]
    end = server[fabric.target]
    is_outside: Flags = (start != end) | (start < 0)
    return is_outside if is_outside.any() else ~is_outside


class Hops(NamedTuple):
    """Distances between ranks: ``pairs[h]`` ordered pairs of different ranks are h links apart, (diameter + 1,)."""

    pairs: Ints

    @property
    def diameter(self) -> int:
        """Number of links between the two ranks that are farthest apart."""
        return self.pairs.size - 1

    @property
    def mean(self) -> float:
        """Mean number of links between two different ranks."""
        return float(np.arange(self.pairs.size) @ self.pairs / self.pairs.sum())

    def __repr__(self) -> str:
        """Show the diameter and the mean."""
        return f"hops: diameter {self.diameter:,}, mean way {self.mean:,.2f}"


def hops(fabric: Fabric) -> Hops:
    """Count the links between any two ranks on their shortest paths: diameter, mean and distribution.

    Links of capacity 0 do not count. One rank represents all ranks that are attached to the same switch by one cable
    each, because every other rank is equally far from all of them. So the search goes back from a few ranks to all.

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

    # Ranks attached to the same switch are alike; a rank without an access switch is like no other. `first` has one
    # rank of each kind, `alike` the number of ranks of that kind.
    access = access_switches(fabric)
    key = np.where(access.link < 0, -1 - access.node, access.node)
    _, first, alike = np.unique(key, return_index=True, return_counts=True)

    pairs = [0]  # number of pairs by hops
    for many in np.unique(alike):
        for goals in search.blocks(ends[first[alike == many]]):
            n_found = goals.size  # every goal reaches itself
            for h, reached in enumerate(search.sweeps(goals), 1):
                # Each bit in the words of all ranks is a pair of a rank and a goal that are h hops apart.
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
    """Paths between P pairs of ranks: number of shortest paths, and largest number of paths that share no link."""

    shortest: NDArray[np.float64]  # (P,) whole numbers, which may not fit into int64
    disjoint: Ints  # (P,)


def diversity(fabric: Fabric, pairs: ArrayLike) -> Diversity:
    """Count the shortest paths between pairs of ranks, and the paths that share no link (path diversity).

    Parallel cables are different paths. The largest number of paths that share no link is the maximum flow if each link
    carries one unit (Menger's theorem).

    Parameters
    ----------
    fabric : Fabric
        The network. Links of capacity 0 are on no path.
    pairs : (P, 2) array_like of int
        Ranks from which and to which the paths lead.

    Raises
    ------
    ValueError, TypeError
        If ``pairs`` are not pairs of different ranks.

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
    ahead: Floats = paths  # paths from nodes one hop nearer, 0 if these let no traffic pass
    for h in range(1, 1 + int(hops.max(where=hops < FAR, initial=0))):
        # Paths from a node h hops away = sum over its links of the paths from the node ahead.
        paths_at_h = np.where(hops == h, links @ ahead, 0.0)
        paths = paths + paths_at_h
        ahead = paths_at_h * fabric.transit[:, None]
    return paths


def cables(fabric: Fabric) -> dict[str, tuple[int, float]]:
    """Return for each medium the number of cables and their total length [m], including failed cables."""
    medium = fabric.medium[::2]  # of each cable, which is two links
    length = fabric.length[::2]
    found = {}
    for code, name in enumerate(fabric.media):
        mine = medium == code
        found[name] = (int(np.sum(mine)), float(length[mine].sum()))
    return found


def long_cables(fabric: Fabric) -> int:
    """Count the cables between switches that leave a group of a dragonfly, or a pod of a tree.

    In a network with groups these are its global cables. In a tree they are the cables to its highest tier, of which
    each byte between two pods takes two: one up and one down. Which of them are long in a hall is a matter of its floor
    plan (`fabriclab.economics.floor_plan`).

    Examples
    --------
    >>> from fabriclab import topologies
    >>> long_cables(topologies.build("dragonfly", p=4, a=8, h=4))
    528
    >>> long_cables(topologies.build("fat_tree", k=16))
    1024
    """
    one, other = (
        fabric.source[::2],
        fabric.target[::2],
    )  # the ends of each cable, which is two links
    between = fabric.transit[one] & fabric.transit[other]
    if "group" in fabric.coord_names:
        group = fabric.coordinate("group")
        leaves = group[one] != group[other]
    else:
        top = fabric.tier.max(initial=0)
        leaves = (fabric.tier[one] == top) | (fabric.tier[other] == top)
    return int(np.sum(between & leaves))


class Ports(NamedTuple):
    """Number of nodes of one kind, and of their ports in use and free."""

    nodes: int
    used: int
    left: int


def ports(fabric: Fabric) -> dict[str, Ports]:
    """Count nodes, used ports and free ports for each kind of node whose number of ports is known."""
    left = fabric.radix - fabric.ports_used
    found = {}
    for code, kind in enumerate(fabric.kinds):
        mine = (fabric.kind == code) & (fabric.radix > 0)
        if mine.any():
            used = int(fabric.ports_used[mine].sum())
            found[kind] = Ports(nodes=int(mine.sum()), used=used, left=int(left[mine].sum()))
    return found


def switches(fabric: Fabric) -> int:
    """Count the switches between servers, such as leaves, spines and cores; chips inside a server do not count.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> switches(topologies.build("fat_tree", k=4))
    20
    """
    return int(np.sum(_outside_servers(fabric)))


def _outside_servers(fabric: Fabric) -> Flags:
    """Return for each node whether it is a switch in a tier above all ranks and NICs, (N,)."""
    nics = np.array(fabric.kinds)[fabric.kind] == "nic"
    highest = fabric.tier[fabric.endpoint].max(initial=0)
    highest = max(highest, fabric.tier[nics].max(initial=0))
    outside: Flags = (fabric.tier > highest) & fabric.transit
    return outside


def switches_passed(fabric: Fabric, source: ArrayLike, target: ArrayLike) -> dict[int, float]:
    """Return which fraction of some transfers passes how many switches on a shortest path.

    Parameters
    ----------
    fabric : Fabric
        The network. Links of capacity 0 are avoided.
    source, target : array_like, shape (n,)
        Ranks that send and that receive.

    Returns
    -------
    dict
        Number of switches, in ascending order -> fraction of the transfers that pass so many. [1]

    Raises
    ------
    NoPath
        If there is no path from a source to its target.

    Examples
    --------
    Two hosts of a fat tree on one leaf, in one pod, and in two pods:

    >>> from fabriclab import topologies
    >>> switches_passed(topologies.build("fat_tree", k=4), [0, 0, 0, 0], [1, 2, 3, 15])
    {1: 0.25, 3: 0.5, 5: 0.25}
    """
    sender = whole(source, "source", (-1,), "ranks", fabric.n_ranks)
    receiver = whole(target, "target", (sender.size,), "ranks", fabric.n_ranks)
    flows = Flows.make(fabric.endpoint[sender], fabric.endpoint[receiver], 1.0)
    routes = route(fabric, flows)
    is_switch = _outside_servers(fabric)[fabric.target[routes.link]]
    ends = np.concatenate([[0], np.cumsum(is_switch)])
    passed = ends[routes.ptr[1:]] - ends[routes.ptr[:-1]]
    number, count = np.unique(passed, return_counts=True)
    return dict(zip(number.tolist(), (count / passed.size).tolist(), strict=True))
