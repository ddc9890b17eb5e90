"""Traffic patterns, and the rate at which a fabric can carry them."""

from __future__ import annotations

from itertools import pairwise
from math import isqrt, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab import registry, routing, units
from fabriclab.core import Fabric, Floats, Flows, Ints, check_memory, pointer, rows_of
from fabriclab.errors import NoPath
from fabriclab.metrics.hops import access_switches, check_ranks
from fabriclab.routing.shortest import FAR, ShortestPathSearch

_ENTRIES = 2**18  # links times goals that are processed together, so that they stay in the cache
_PAIR_BYTES = 200  # peak for each pair of ranks, measured and rounded up


def _rates(fabric: Fabric) -> Floats:
    """Return the line rate of each rank, the capacity of all its links together, (R,). [B/s]."""
    out_of_node = np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)
    return out_of_node[fabric.endpoint].astype(np.float64)


def _flows(
    fabric: Fabric, source: Ints, target: Ints, group: Ints | int = 0, groups: int = 1
) -> Flows:
    """Return flows between ranks, each rank with one second of traffic in all; weights let all flows end together."""
    # A rank divides what it sends in one second equally among its flows. All patterns here give each rank equally many,
    # so it has source.size / n_ranks of the source.size flows, and its bytes are divided by that number.
    in_one_second = _rates(fabric)[source]  # (F,) of the sender of each flow [B]
    size = in_one_second * fabric.n_ranks / source.size  # (F,) [B]
    return Flows.make(
        fabric.endpoint[source],
        fabric.endpoint[target],
        size,
        weight=np.where(size > 0, size, 1.0),
        group=group,
        repeat=np.ones(groups, np.int64),
    )


class _Rounds(NamedTuple):
    """All pairs of ranks, each with the round in which it sends."""

    number: Ints
    source: Ints
    target: Ints


def _rounds(fabric: Fabric) -> _Rounds:
    """Return all pairs of ranks by rounds: in round k rank r sends to rank r + k + 1, modulo the number of ranks."""
    n = check_ranks(fabric)
    check_memory(
        _PAIR_BYTES * n * n,
        f"traffic of all pairs of {n} ranks",
        "take a smaller fabric, or no flows at all",
    )
    number, source = np.divmod(np.arange(n * (n - 1)), n)
    return _Rounds(number, source, (source + number + 1) % n)


def uniform(fabric: Fabric) -> Flows:
    """Return uniform traffic: every rank sends equal parts to all other ranks, all at the same time."""
    pairs = _rounds(fabric)
    return _flows(fabric, pairs.source, pairs.target)


def to_other_servers(fabric: Fabric, rate: units.Quantity) -> Flows:
    """Return even traffic between servers: every rank sends equal parts to all ranks of other servers.

    Parameters
    ----------
    fabric : Fabric
        The network, with two servers or more.
    rate : float or str
        What a rank offers in all, such as the rate of its NIC. [B/s]

    Raises
    ------
    ValueError
        If all ranks are in one server.

    Examples
    --------
    >>> from fabriclab import metrics, topologies
    >>> small = topologies.build("rail_only", servers=4, gpus=2, rails=2, radix=8)
    >>> round(metrics.throughput(small, metrics.to_other_servers(small, "400 Gb/s"), "pxn").part, 3)
    1.0
    """
    check_ranks(fabric)
    outside = fabric.server[:, None] != fabric.server[None, :]  # (R, R)
    source, target = np.nonzero(outside)
    if not source.size:
        raise ValueError("fabric must have two servers or more, got one")
    targets = np.bincount(source, minlength=fabric.n_ranks)  # of each rank
    size = units.rate(rate) / targets[source]
    return Flows.make(fabric.endpoint[source], fabric.endpoint[target], size)


def all_to_all(fabric: Fabric) -> Flows:
    """Return an all-to-all in rounds: rank r sends to r + 1, then, when all have finished, to r + 2, and so on."""
    pairs = _rounds(fabric)
    n_rounds = fabric.n_ranks - 1
    return _flows(fabric, pairs.source, pairs.target, pairs.number, n_rounds)


def shift(fabric: Fabric, k: int = 1, places: ArrayLike | None = None) -> Flows:
    """Return a cyclic shift: every rank r sends to rank r + k, modulo the number of ranks.

    Parameters
    ----------
    fabric : Fabric
        The network.
    k : int
        How many ranks further each rank sends, 1..R - 1 for R ranks.
    places : array_like of int, optional
        For each rank of a job the rank of ``fabric`` on whose endpoint it runs, (R,): each of 0..R - 1 once. Unless
        given, a job's rank r runs on the endpoint of rank r.

    Raises
    ------
    ValueError
        If k is out of range, or ``places`` does not name each rank once.

    Examples
    --------
    >>> import numpy as np
    >>> from fabriclab import topologies
    >>> small = topologies.build("dragonfly", p=2, a=4, h=2)
    >>> shuffled = np.random.default_rng(seed=1).permutation(small.n_ranks)
    >>> throughput(small, shift(small, 8), "minimal").part  # eight GPUs of a group share one cable
    0.125
    >>> throughput(small, shift(small, 8, shuffled), "minimal").part
    0.2
    """
    n = check_ranks(fabric)
    rank = np.arange(n)
    place = rank if places is None else np.asarray(places)
    if not np.array_equal(np.sort(place.ravel()), rank):
        raise ValueError(
            f"places must have each of 0..{n - 1} once, got {place!r};"
            " a permutation of the ranks, such as numpy.random.default_rng(1).permutation(...), does"
        )
    target = (rank + units.count(k, "k", 1, n - 1)) % n
    return _flows(fabric, place, place[target])


def neighbours(fabric: Fabric) -> Flows:
    """Return the traffic of rings along all axes of a grid: every rank sends to the next and the previous along each.

    At the end of a row the next rank is the first one, also where no cable joins the two, as in a ``mesh``. Each flow
    offers the rate of one cable, so `throughput` tells which share of it all neighbours get at the same time. Along an
    axis of two ranks each sends to the other once.

    Parameters
    ----------
    fabric : Fabric
        A grid of ranks, such as ``torus``, ``mesh``, ``twisted_torus`` or ``hyperx`` with ``hosts=0``.

    Raises
    ------
    ValueError
        If the coordinates of the ranks do not fill a grid.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> for family in ("torus", "mesh"):
    ...     grid = topologies.build(family, shape=(4, 4))
    ...     print(family, throughput(grid, neighbours(grid)).part)
    torus 1.0
    mesh 0.5
    """
    n = check_ranks(fabric)
    place = fabric.coord[fabric.endpoint].astype(np.int64)  # (R, axes)
    sides = tuple(int(k) for k in place.max(axis=0) + 1)
    number = np.ravel_multi_index(tuple(place.T), sides) if place.min() >= 0 else place[:, 0]
    is_grid = prod(sides) == n and np.array_equal(np.sort(number), np.arange(n))
    if not is_grid or not fabric.transit[fabric.endpoint].all():
        raise ValueError(
            f"fabric must be a grid of ranks, one at each place, got {fabric!r:.80}; take a torus without hosts"
        )
    rank = np.argsort(number).reshape(sides)
    source = list[Ints]()
    target = list[Ints]()
    for axis, side in enumerate(sides):
        for step in (1, -1)[: min(side - 1, 2)]:  # none along one rank, one along two
            source.append(rank.ravel())
            target.append(np.roll(rank, -step, axis).ravel())
    sender = np.concatenate(source)
    ends = fabric.endpoint
    return Flows.make(ends[sender], ends[np.concatenate(target)], float(fabric.capacity.max()))


def transpose(fabric: Fabric) -> Flows:
    """Return the traffic of a matrix transpose: with m x m ranks, rank m i + j sends to rank m j + i.

    Each rank holds one block of a matrix of m x m blocks, and sends it to the rank that holds the block when rows have
    become columns. The m ranks of the diagonal send to themselves, over no link.

    Raises
    ------
    ValueError
        If the number of ranks is no square, or less than four.

    Examples
    --------
    >>> from fabriclab import topologies
    >>> torus = topologies.build("torus", shape=(8, 8), hosts=1)
    >>> throughput(torus, transpose(torus), "dimension_order").part  # four flows meet on one link
    0.25
    """
    n = check_ranks(fabric)
    side = isqrt(n)
    if side * side != n or side < 2:
        raise ValueError(f"a transpose needs m x m ranks with m >= 2, got {n} ranks")
    rank = np.arange(n)
    return _flows(fabric, rank, rank.reshape(side, side).T.ravel())


def permutation(fabric: Fabric, seed: int = 0) -> Flows:
    """Return a random permutation in which no rank sends to itself; all such permutations are equally likely."""
    n = check_ranks(fabric)
    rng = np.random.default_rng(units.count(seed, "seed", 0))
    source = np.arange(n)
    target = source
    while np.any(target == source):  # about one draw in 2.7 succeeds
        target = rng.permutation(n)
    return _flows(fabric, source, target)


def longest_matching(fabric: Fabric) -> Flows:
    """Return the permutation with the most hops in total, which is close to the worst case [1]_.

    The worst permutation itself is not known in general.

    References
    ----------
    .. [1] S. A. Jyothi, A. Singla, P. B. Godfrey, A. Kolla, Measuring and understanding throughput of network
       topologies, SC 2016.
    """
    from scipy.optimize import linear_sum_assignment

    n = check_ranks(fabric)
    search = ShortestPathSearch(fabric)
    ends = fabric.endpoint.astype(np.int64)
    check_memory(20 * n * n, f"a matching of {n} ranks", "take a smaller fabric, or a permutation")
    blocks = [search.table(goals)[ends] for goals in search.blocks(ends)]
    hops = np.concatenate(blocks, axis=1)  # (R, R)
    source, target = linear_sum_assignment(hops, maximize=True)
    moves = source != target
    return _flows(fabric, source[moves], target[moves])


class Throughput(NamedTuple):
    """The fraction of line rate that all ranks can sustain at the same time, and the link that limits it."""

    part: float
    link: int


def throughput(
    fabric: Fabric, flows: Flows | None = None, method: str = "spray", *, seed: int = 0
) -> Throughput:
    """Return the fraction of line rate that every rank can sustain while all send at the same time.

    A result of 0.03 means that the fullest link allows each rank 3 % of its line rate. It is one second divided by the
    time that the fullest link needs for its bytes; if groups wait for each other, their times add up. The flow engine
    needs the same time, except for delays, if the weight of each flow is its size. Leaves out dependencies within a
    group.

    Parameters
    ----------
    fabric : Fabric
        The network. Links of capacity 0 are avoided.
    flows : Flows, optional
        The traffic; the sizes are the bytes per second that the ranks offer at line rate (all links of a rank
        together). Unless given, `uniform` traffic, divided ideally among all shortest paths without making its flows.
    method, seed
        As in `fabriclab.routing.route`; ``"spray"`` divides traffic ideally among all shortest paths.

    Raises
    ------
    NoPath
        If a flow has no path.
    ValueError
        If no flow puts load on any link.
    """
    if flows is None and registry.find("routing", method) == "spray":
        load = _whole_uniform_load(fabric)[None, :]  # (1, L)
        often = np.ones(1)
    else:
        traffic = uniform(fabric) if flows is None else flows
        load = _load_of_groups(fabric, traffic, method, seed)  # (groups, L)
        often = traffic.repeat.astype(np.float64)

    seconds = times(fabric, load)  # (groups, L)
    of_group = seconds.max(axis=1)  # (groups,) a group takes the time of its fullest link
    total = often @ of_group
    fullest = int(seconds.argmax()) % fabric.n_links
    return Throughput(float(1 / total), fullest)


def _whole_uniform_load(fabric: Fabric) -> Floats:
    """Return the load of every link if all ranks send to all others at line rate, (L,). [B/s]."""
    n = check_ranks(fabric)
    uniform = uniform_load(fabric, _rates(fabric) / (n - 1))
    lost = n * (n - 1) - uniform.pairs
    if lost > 0:
        raise NoPath(
            f"{lost} pairs of ranks have no path; restore links, or ask operations.report what is left"
        )
    return uniform.load


def _load_of_groups(fabric: Fabric, traffic: Flows, method: str, seed: int) -> Floats:
    """Return the bytes that each group of flows puts on every link in one repetition, (groups, L)."""
    routes = routing.route(fabric, traffic, method, seed=seed)
    row = rows_of(routes.ptr)  # (E,) row of each entry

    # Bytes on an entry = size of the flow * share of the row * use of the link; they are summed by group and link.
    size = (traffic.size[routes.flow] * routes.share)[row] * routes.use
    group = traffic.group[routes.flow][row]
    place = group * np.int64(fabric.n_links) + routes.link
    n_groups = traffic.repeat.size
    load = np.bincount(place, size, n_groups * fabric.n_links).astype(np.float64)
    if not load.any():
        raise ValueError(
            f"flows must send bytes between nodes, got {traffic!r}; take one such as shift(fabric)"
        )
    return load.reshape(n_groups, -1)


def times(fabric: Fabric, load: Floats) -> Floats:
    """Return the time that each link needs for its load, 0 if it has none. [s]."""
    return np.divide(load, fabric.capacity, out=np.zeros_like(load), where=load > 0)


class UniformLoad(NamedTuple):
    """The load of every link, (L,), under uniform traffic, and the number of ordered pairs of ranks with a path."""

    load: Floats
    pairs: int


def uniform_load(fabric: Fabric, sends: Floats) -> UniformLoad:
    """Return the load of every link if each rank sends to all ranks that it reaches.

    Every node divides traffic among its links on shortest paths in proportion to their capacity, as "spray" does.
    Traffic to all ranks of one switch is computed together. ``sends`` (R,) is the rate, or the number of bytes, that
    each rank sends to each other rank.
    """
    search = ShortestPathSearch(fabric)
    ends = fabric.endpoint
    live = np.flatnonzero(fabric.capacity > 0)
    access = access_switches(fabric)
    load = np.zeros(fabric.n_links + 1)  # the last entry is for "no link", -1
    pairs = 0

    # Goals are the access switches, (D,): goal[r] is the switch of rank r, ranks[d] the number of ranks at switch d.
    goals, goal, ranks = np.unique(access.node, return_inverse=True, return_counts=True)
    step = max(1, _ENTRIES // max(live.size, 1))
    for some in np.split(np.arange(goals.size), range(step, goals.size, step)):
        mine = np.flatnonzero(np.isin(goal, some))  # ranks at these goals
        column = goal[mine] - some[0]  # column of each rank's goal in the arrays below
        hops = search.table(goals[some])  # (N, goals)
        reaches = hops[ends] < FAR  # (R, goals)
        with_itself = int(reaches.sum(axis=0) @ ranks[some])
        pairs += with_itself - mine.size  # a rank that reaches itself does not count

        # To one rank: the traffic of all other ranks that reach its goal. It arrives over the link from its switch.
        to_one: Floats = np.where(reaches, sends[:, None], 0.0)  # (R, goals)
        np.add.at(load, access.link[mine], to_one.sum(axis=0)[column] - sends[mine])
        # To the goal: that much for each of its ranks, except that a rank sends nothing to itself.
        to_goal = to_one * ranks[some]
        to_goal[mine, column] -= sends[mine]
        load[:-1] += _carried(fabric, live, goals[some], hops, to_goal)
    return UniformLoad(load[:-1], pairs)


def _carried(
    fabric: Fabric, links: Ints, goals: Ints, hops: NDArray[np.uint16], sent: Floats
) -> Floats:
    """Return the load of every link if rank r sends ``sent[r, g]`` to goal g, (L,).

    ``hops`` (N, goals) has the hops from each node to each goal, ``links`` the working links. Nodes farthest from
    their goal pass on their traffic first, so each node has received all of its traffic when its turn comes.
    """
    n_goals = goals.size

    # Pairs of a link and a goal to which the link leads one hop nearer, those furthest from the goal first. Nodes
    # that forbid transit lead nowhere, unless they are the goal.
    onward = np.where(fabric.transit[:, None], hops, np.uint16(FAR))  # (N, goals)
    onward[goals, np.arange(n_goals)] = 0
    nearer = onward[fabric.target[links]] + 1 == hops[fabric.source[links]]  # (links, goals)
    which, goal = np.nonzero(nearer)
    distance = hops[fabric.source[links[which]], goal]
    order = np.argsort(FAR - distance, kind="stable")
    link = links[which[order]]
    goal = goal[order]

    # Place of a node and a goal in `waiting`, flattened: node * goals + goal; where each pair begins and ends.
    here = fabric.source[link] * np.int64(n_goals) + goal
    ahead = fabric.target[link] * np.int64(n_goals) + goal
    # A node divides its traffic for a goal among its links towards that goal, in proportion to their capacity.
    capacity = fabric.capacity[link]  # of the link of each pair
    towards_goal = np.bincount(here, capacity, hops.size)  # of all links of a node towards a goal
    fraction = capacity / towards_goal[here]

    waiting = np.zeros(hops.shape)  # (N, goals) traffic at each node for each goal
    waiting[fabric.endpoint] = sent
    flat = waiting.ravel()
    passed_on = np.zeros(link.size)  # traffic of each pair, on its link
    # Where the pairs of each distance begin, the largest distance first.
    of_distance = pointer(np.bincount(distance)[::-1])
    for first, stop in pairwise(of_distance):
        pairs = slice(first, stop)
        passed_on[pairs] = fraction[pairs] * flat[here[pairs]]
        np.add.at(flat, ahead[pairs], passed_on[pairs])
    return np.bincount(link, passed_on, fabric.n_links).astype(np.float64)
