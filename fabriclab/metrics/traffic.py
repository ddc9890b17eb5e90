"""Traffic patterns, and the rate at which a fabric carries them."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import routing, units
from fabriclab.core import Fabric, Floats, Flows, Ints, check_memory, pointer, rows_of
from fabriclab.errors import NoPath
from fabriclab.metrics.hops import check_ranks, doors
from fabriclab.routing.shortest import FAR, Search

_ENTRIES = 2**20  # links times goals that are looked at together: they stay in the cache
_PAIR_BYTES = 200  # peak for each pair of ranks, measured and rounded up


def _rates(fabric: Fabric) -> Floats:
    """Return what each rank can send over all its links. [B/s], (R,)."""
    return np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)[fabric.endpoint].astype(
        np.float64
    )


def _flows(
    fabric: Fabric, source: Ints, target: Ints, group: Ints | int = 0, groups: int = 1
) -> Flows:
    """Return flows between ranks, each of which sends in all what it can in one second; weights let all end at once."""
    size, ends = _rates(fabric)[source] * fabric.n_ranks / source.size, fabric.endpoint
    weight, often = np.where(size > 0, size, 1.0), np.ones(groups, np.int64)
    return Flows.make(ends[source], ends[target], size, weight=weight, group=group, repeat=often)


def _rounds(fabric: Fabric) -> tuple[Ints, Ints, Ints]:
    """Return all pairs of ranks in rounds: round, source and target."""
    n = check_ranks(fabric)
    check_memory(
        _PAIR_BYTES * n * n,
        f"traffic of all pairs of {n} ranks",
        "take a smaller fabric, or no flows at all",
    )
    k, source = np.divmod(np.arange(n * (n - 1)), n)
    return k, source, (source + k + 1) % n


def uniform(fabric: Fabric) -> Flows:
    """Return traffic of every rank to every other, all at once, in equal parts."""
    _, source, target = _rounds(fabric)
    return _flows(fabric, source, target)


def all_to_all(fabric: Fabric) -> Flows:
    """Return an exchange of all with all in rounds: rank r sends to r + 1, then to r + 2 when all are ready, ..."""
    k, source, target = _rounds(fabric)
    return _flows(fabric, source, target, k, fabric.n_ranks - 1)


def shift(fabric: Fabric, k: int = 1) -> Flows:
    """Return traffic of every rank r to rank r + k, modulo the number of ranks."""
    n = check_ranks(fabric)
    return _flows(fabric, np.arange(n), (np.arange(n) + units.count(k, "k", 1, n - 1)) % n)


def permutation(fabric: Fabric, seed: int = 0) -> Flows:
    """Return a random permutation in which no rank sends to itself; all such are equally likely."""
    n, rng = check_ranks(fabric), np.random.default_rng(units.count(seed, "seed", 0))
    own = target = np.arange(n)
    while np.any(target == own):  # one draw in e will do
        target = rng.permutation(n)
    return _flows(fabric, own, target)


def longest_matching(fabric: Fabric) -> Flows:
    """Return the permutation with the most hops in all: near the worst case [1]_, which is not known in general.

    References
    ----------
    .. [1] S. A. Jyothi, A. Singla, P. B. Godfrey, A. Kolla, Measuring and understanding throughput of network
       topologies, SC 2016.
    """
    from scipy.optimize import linear_sum_assignment

    n, search, ends = check_ranks(fabric), Search(fabric), fabric.endpoint.astype(np.int64)
    check_memory(20 * n * n, f"a matching of {n} ranks", "take a smaller fabric, or a permutation")
    hops = np.concatenate([search.table(goals)[ends] for goals in search.blocks(ends)], axis=1)
    source, target = linear_sum_assignment(hops, maximize=True)
    return _flows(fabric, source[source != target], target[source != target])


class Throughput(NamedTuple):
    """The part of their rate at which all ranks can send a pattern at once, and the link that is full then."""

    part: float
    link: int


def throughput(
    fabric: Fabric, flows: Flows | None = None, method: str = "spray", *, seed: int = 0
) -> Throughput:
    """Return at which part of their rate all ranks can send a pattern at once.

    It is one second over the time in which the fullest link moves its bytes; for groups that wait for each other
    the times add up. The flow engine takes as long, but for delays, if the weight of each flow is its size. Left
    out: what flows wait for within a group.

    Parameters
    ----------
    fabric : Fabric
        Links of capacity 0 are avoided.
    flows : Flows, optional
        Their sizes are what they have to send in a second, at the full rate of the ranks (all links of a rank
        together). `uniform` traffic unless given, on an ideal split without making its flows.
    method, seed
        As in `fabriclab.routing.route`; ``"spray"`` is the ideal split over all shortest paths.

    Raises
    ------
    NoPath
        If a flow has no path.
    ValueError
        If no flow puts load on any link.
    """
    if flows is None and method == "spray":
        load, met = uniform_load(fabric, _rates(fabric) / (check_ranks(fabric) - 1))
        if (lost := fabric.n_ranks * (fabric.n_ranks - 1) - met) > 0:
            raise NoPath(
                f"{lost} pairs of ranks have no path; restore links, or ask operations.report what is left"
            )
        often = np.ones(1)
    else:
        traffic = uniform(fabric) if flows is None else flows
        routes, often = (
            routing.route(fabric, traffic, method, seed=seed),
            traffic.repeat.astype(np.float64),
        )
        size = (traffic.size[routes.flow] * routes.share)[rows_of(routes.ptr)] * routes.use
        place = (
            traffic.group[routes.flow][rows_of(routes.ptr)] * np.int64(fabric.n_links) + routes.link
        )
        load = np.bincount(place, size, often.size * fabric.n_links).astype(np.float64)
        if not load.any():
            raise ValueError(
                f"flows must send bytes between nodes, got {traffic!r}; take one such as shift(fabric)"
            )
    each = times(fabric, load.reshape(often.size, -1))
    return Throughput(float(1 / (often @ each.max(axis=1))), int(each.argmax()) % fabric.n_links)


def times(fabric: Fabric, load: Floats) -> Floats:
    """Return how long links take for their load [s]; 0 where there is none."""
    return np.divide(load, fabric.capacity, out=np.zeros_like(load), where=load > 0)


def uniform_load(fabric: Fabric, sends: Floats) -> tuple[Floats, int]:
    """Return the load of every link (L,), and how many pairs have a path, if ranks send to all that they reach.

    Every node splits what passes over its links on shortest paths in proportion to their capacity, as "spray" does.
    Traffic to ranks that hang on one switch is carried to that switch together. ``sends`` (R,) is what each rank
    sends to each other.
    """
    search, ends, live = Search(fabric), fabric.endpoint, np.flatnonzero(fabric.capacity > 0)
    # the last is for no link, -1
    (door, last), load, met = (doors(fabric), np.zeros(fabric.n_links + 1), 0)
    goals, goal, many = np.unique(door, return_inverse=True, return_counts=True)
    step = max(1, _ENTRIES // max(live.size, 1))
    for some in np.split(np.arange(goals.size), range(step, goals.size, step)):
        mine, table = np.flatnonzero(np.isin(goal, some)), search.table(goals[some])
        column = goal[mine] - some[0]
        reaches = table[ends] < FAR
        met += int(reaches.sum(axis=0) @ many[some]) - mine.size
        sent = np.where(reaches, sends[:, None], 0.0)
        np.add.at(load, last[mine], sent.sum(axis=0)[column] - sends[mine])
        sent *= many[some]
        sent[mine, column] -= sends[mine]
        load[:-1] += _carried(fabric, live, goals[some], table, sent)
    return load[:-1], met


def _carried(
    fabric: Fabric, links: Ints, goals: Ints, table: NDArray[np.uint16], sent: Floats
) -> Floats:
    """Return the load of every link if ranks send ``sent`` (R, goals) to the goals, those furthest away first."""
    n = goals.size
    ahead = np.where(fabric.transit[:, None], table, np.uint16(FAR))
    ahead[goals, np.arange(n)] = 0
    which, goal = np.nonzero(ahead[fabric.target[links]] + 1 == table[fabric.source[links]])
    level = table[fabric.source[links[which]], goal]
    order = np.argsort(FAR - level, kind="stable")
    link, goal = links[which[order]], goal[order]
    here, there = fabric.source[link] * np.int64(n) + goal, fabric.target[link] * np.int64(n) + goal
    part = fabric.capacity[link] / np.bincount(here, fabric.capacity[link], table.size)[here]
    held = np.zeros(table.shape)
    held[fabric.endpoint] = sent
    flat = held.ravel()
    for first, stop in pairwise(pointer(np.bincount(level)[::-1])):
        part[first:stop] *= flat[here[first:stop]]
        np.add.at(flat, there[first:stop], part[first:stop])
    return np.bincount(link, part, fabric.n_links).astype(np.float64)
