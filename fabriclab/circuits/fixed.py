"""Circuits that stay: placed once for the traffic of a job, with hosts that pass on what has no circuit of its own.

A host has a few fibres, and a circuit joins a fibre of one host to a fibre of another. `place` chooses the circuits for
a traffic matrix, `patched` builds the network, and `carried` says how far a byte travels in it and how much it carries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import metrics, routing, topologies, units
from fabriclab.circuits.switches import square
from fabriclab.core import Fabric, Floats, Flows

# illustrative: per cent of its bytes that a host sends to each neighbour in the ring, and to its partner
_TO_NEIGHBOUR = 30
_TO_PARTNER = 20


class Carried(NamedTuple):
    """What a network makes of a traffic matrix: mean hops of a byte, and the part of its rate that every host gets."""

    hops: float
    part: float


def ring_with_partners(hosts: int = 8, *, seed: int = 0) -> Floats:
    """Return the illustrative traffic of a job of hosts in a ring, in per cent of what each sends, (N, N).

    A host sends 30 % of its bytes to the next one in the ring, 30 % to the previous one, 20 % to the partner on the
    other side of the ring, and the rest in equal parts to all others. A scheduler has shuffled the ring over the hosts.

    Parameters
    ----------
    hosts : int
        Number of hosts, an even one. >= 6
    seed : int
        Seed of the shuffle. >= 0

    Raises
    ------
    TypeError, ValueError
        If the hosts are no even number from 6 on, or the seed is below 0.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> sorted(circuits.ring_with_partners()[0].tolist())
    [0.0, 5.0, 5.0, 5.0, 5.0, 20.0, 30.0, 30.0]
    """
    n = units.count(hosts, "hosts", 6)
    if n % 2:
        raise ValueError(
            f"hosts must be even, so that each has a partner, got {n}; take {n - 1} or {n + 1}"
        )
    order = np.random.default_rng(units.count(seed, "seed", 0)).permutation(n)
    others = n - 4  # all but the host itself, its two neighbours and its partner
    percent = np.full((n, n), (100 - 2 * _TO_NEIGHBOUR - _TO_PARTNER) / others)
    percent[order, order] = 0
    percent[order, np.roll(order, 1)] = _TO_NEIGHBOUR
    percent[order, np.roll(order, -1)] = _TO_NEIGHBOUR
    percent[order, np.roll(order, n // 2)] = _TO_PARTNER
    return percent


def place(traffic: ArrayLike, fibres: int) -> list[tuple[int, int]]:
    """Choose circuits greedily: the pair of hosts with the most bytes first, as long as both have a fibre left.

    A greedy choice is not always the best one, and it does not see to it that all hosts can reach each other.

    Parameters
    ----------
    traffic : (N, N) array_like of float
        Bytes from each host to each other, in any unit. What two hosts send to each other is added.
    fibres : int
        Fibres of a host. >= 1

    Returns
    -------
    list of (int, int)
        The hosts that each circuit joins, the lower number first; between two hosts there is one circuit at most.

    Raises
    ------
    TypeError, ValueError
        If the traffic is no square table of numbers from 0 on, or there is no fibre.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> circuits.place([[0, 9, 1], [0, 0, 5], [0, 0, 0]], fibres=1)
    [(0, 1)]
    """
    sent = square(traffic, "traffic")
    left = np.full(len(sent), units.count(fibres, "fibres"))
    both = sent + sent.T
    pairs = np.argwhere(np.triu(np.ones_like(both), 1)).tolist()
    chosen = []
    for one, other in sorted(pairs, key=lambda pair: -both[pair[0], pair[1]]):
        if left[one] and left[other]:
            chosen.append((one, other))
            left[[one, other]] -= 1
    return chosen


def patched(
    circuits: Iterable[tuple[int, int]], hosts: int, fibres: int, rate: units.Quantity
) -> Fabric:
    """Return the network of hosts that circuits join; hosts pass on what is not for them.

    Parameters
    ----------
    circuits : iterable of (int, int)
        The hosts that each circuit joins.
    hosts, fibres : int
        Number of hosts, and of the fibres of each. >= 2, >= 1
    rate : float or str
        Rate of a fibre. [B/s]

    Raises
    ------
    ValueError
        If a host has more circuits than fibres, or cannot be reached.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> circuits.patched([(0, 1), (1, 2)], hosts=3, fibres=2, rate="400 Gb/s").summary()
    {'host': 3, 'cables': 2, 'ranks': 3, 'servers': 3}
    """
    import networkx as nx

    graph = nx.empty_graph(units.count(hosts, "hosts", 2))
    graph.add_edges_from(circuits)
    each = units.count(fibres, "fibres")
    for name, value in {"endpoint": True, "transit": True, "radix": each}.items():
        nx.set_node_attributes(graph, value, name)
    return topologies.from_networkx(graph, rate)


def carried(fabric: Fabric, traffic: ArrayLike) -> Carried:
    """Return the mean hops of a byte of traffic, and which part of its rate every host can send at the same time.

    Traffic between two hosts is divided among its shortest paths. At a part of 1 the host that sends most
    sends at the rate of all links of a host, of the one that has most.

    Parameters
    ----------
    fabric : Fabric
        The network, such as `patched` returns it. A hop is a link, those of hosts to switches included.
    traffic : (N, N) array_like of float
        Bytes from each host to each other, in any unit.

    Raises
    ------
    TypeError, ValueError
        If the traffic is no table of numbers from 0 on with a row and a column for each rank.

    Examples
    --------
    >>> from fabriclab import circuits
    >>> line = circuits.patched([(0, 1), (1, 2)], hosts=3, fibres=2, rate="400 Gb/s")
    >>> circuits.carried(line, [[0, 1, 1], [0, 0, 0], [0, 0, 0]])
    Carried(hops=1.5, part=0.5)
    """
    sent = square(traffic, "traffic", fabric.n_ranks)
    source, target = np.nonzero(sent)
    leaving = np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)  # [B/s] of each node
    full_rate = leaving[fabric.endpoint].max()
    size = full_rate * sent[source, target] / sent.sum(axis=1).max()
    flows = Flows.make(fabric.endpoint[source], fabric.endpoint[target], size)
    over_links = routing.route(fabric, flows, "spray").link_bytes(flows, fabric.n_links)
    part = metrics.throughput(fabric, flows).part
    return Carried(float(over_links.sum() / size.sum()), min(1.0, part))
