"""The network of a design in arrays: switches, bundles of cables between them, and the ports of servers.

All cables between the same two switches are one bundle here, and servers with ports on the same switches are one class,
so that the load of every link follows from small matrices. Everything is found again after some switches have failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fabriclab.core import Fabric, Flags, Floats, Ints
from fabriclab.economics.floor import switches

__all__ = ["FAR", "Matching", "Network", "Rules", "shortest_rules", "spray"]

FAR = 10**6  # hops of a pair without a path


@dataclass(frozen=True, eq=False)
class Rules:
    """Forwarding rules: which next switches each switch uses towards each other one.

    Parameters
    ----------
    part : (n, n, n) float64
        ``part[d, u, v]``: what switch u sends on to v of the traffic for switch d. 0..1
    loops : tuple of (int, int)
        Goals for which traffic may come back to a switch, with one such switch.
    """

    part: Floats
    loops: tuple[tuple[int, int], ...] = ()


class Matching(NamedTuple):
    """How the ports of a server send to those of another one: pairs of ports, each with its part of the bytes."""

    source: Ints
    target: Ints
    part: Floats


_NO_PAIRS = Matching(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


@dataclass(frozen=True, eq=False)
class Network:
    """Switches, bundles and ports of a fabric, with or without some failed switches.

    Parameters
    ----------
    switch : (n,) int64
        Node of each switch.
    capacity : (n, n) float64
        Rate of all cables from a switch to another one; 0 without. [B/s]
    port_server, port_switch, port_link : (p,) int64
        Server, switch (number within ``switch``) and link to the switch of each port, sorted by server.
    port_nic : (p,) int64
        Number of the NIC of each port within its server.
    port_rate : (p,) float64
        Rate of each port. [B/s]
    servers : int
        Number of servers.
    rules : Rules or None
        Forwarding rules; None: all shortest paths share.
    alive : (n,) bool
        Which switches work.
    memory : dict
        Matchings that are known, by rates and distances of the ports; all copies share it.
    """

    switch: Ints
    capacity: Floats
    port_server: Ints
    port_switch: Ints
    port_link: Ints
    port_rate: Floats
    servers: int
    port_nic: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rules: Rules | None = None
    alive: Flags = field(default_factory=lambda: np.ones(0, dtype=np.bool_))
    memory: dict[tuple[bytes, bytes, bytes], Matching] = field(default_factory=dict)

    @classmethod
    def of(cls, fabric: Fabric, servers: int, *, idle: bool = True) -> Network:
        """Return the network of a fabric whose endpoints are NICs, with or without switches that have no cable.

        Raises
        ------
        ValueError
            If a cable joins two NICs.
        """
        is_switch = switches(fabric)
        switch = np.flatnonzero(is_switch)
        live = fabric.capacity > 0
        if not idle:
            switch = np.intersect1d(switch, fabric.source[live])
        number = np.full(fabric.n_nodes, -1)
        number[switch] = np.arange(switch.size)
        source = number[fabric.source]
        target = number[fabric.target]

        capacity = np.zeros((switch.size, switch.size))
        between = live & (source >= 0) & (target >= 0)
        np.add.at(capacity, (source[between], target[between]), fabric.capacity[between])

        rank = fabric.rank_of[fabric.source]
        port = np.flatnonzero(live & (rank >= 0) & (target >= 0))
        server = fabric.server[rank[port]].astype(np.int64)
        nic = _place_in_server(fabric.server.astype(np.int64))[rank[port]]
        rate = np.minimum(fabric.capacity[port], fabric.capacity[port ^ 1])
        order = np.lexsort((rate, target[port], server))
        port = port[order]
        return cls(
            switch=switch,
            capacity=capacity,
            port_server=server[order],
            port_switch=target[port],
            port_link=port,
            port_rate=rate[order],
            servers=servers,
            port_nic=nic[order],
            alive=np.ones(switch.size, dtype=np.bool_),
        )

    def without(self, failed: Ints) -> Network:
        """Return this network after some switches, given by number within ``switch``, have failed."""
        alive = self.alive.copy()
        alive[failed] = False
        capacity = self.capacity * alive[:, None] * alive
        has = alive[self.port_switch]
        return Network(
            switch=self.switch,
            capacity=capacity,
            port_server=self.port_server[has],
            port_switch=self.port_switch[has],
            port_link=self.port_link[has],
            port_rate=self.port_rate[has],
            servers=self.servers,
            port_nic=self.port_nic[has],
            rules=self.rules,
            alive=alive,
            memory=self.memory,
        )

    @property
    def n(self) -> int:
        """Number of switches."""
        return int(self.switch.size)

    @cached_property
    def hops(self) -> Ints:
        """Links between switches on the way from each switch to each other one, (n, n); `FAR` without a path."""
        if self.rules is not None:
            return _hops_by_rules(self.living_rules)
        return _distances(self.capacity)

    @cached_property
    def living_rules(self) -> Floats:
        """Rules without next switches that have failed or lead nowhere, (n, n, n); the others take their part.

        Where a switch has no next one left towards a goal, all switches take shortest paths to that goal, as a
        controller would find them.
        """
        rules = self.rules
        assert rules is not None
        part = _alive(rules.part, self.capacity)
        hops = _distances(self.capacity)
        lost = (hops.T < FAR) & ~part.any(axis=2)  # (goal, here)
        np.fill_diagonal(lost, False)
        for goal in np.flatnonzero(lost.any(axis=1)).tolist():
            part[goal] = shortest_rules(self.capacity, hops[:, goal])
        return part

    @cached_property
    def first_port(self) -> Ints:
        """Where the ports of each server begin, (servers + 1,)."""
        return np.searchsorted(self.port_server, np.arange(self.servers + 1))

    @cached_property
    def classes(self) -> Classes:
        """Servers with the same ports."""
        return _classes(self)

    def matching(self, one: int, other: int) -> Matching:
        """Return how a server of one class sends to a server of another: each port to the nearest that is free.

        The pairs are those with the fewest hops in total. Bytes are divided by the rates of the pairs. Servers without
        any path between them have no pairs.
        """
        found = self._matched.get((one, other))
        if found is None:
            found = _match(self, self.classes.ports[one], self.classes.ports[other])
            self._matched[one, other] = found
        return found

    @cached_property
    def _matched(self) -> dict[tuple[int, int], Matching]:
        return {}

    def carried(self, sent: Floats) -> Floats:
        """Return the bytes on each bundle, (n, n), if ``sent`` (n, n) bytes go from switch to switch."""
        if self.rules is not None:
            return _by_rules(self.living_rules, sent)
        return spray(self.capacity, self.hops, sent)


def _place_in_server(server: Ints) -> Ints:
    """Return the place of each rank among those of its server, (R,)."""
    order = np.argsort(server, kind="stable")
    first = np.searchsorted(server[order], server[order])
    place = np.empty(server.size, dtype=np.int64)
    place[order] = np.arange(server.size) - first
    return place


class Classes(NamedTuple):
    """Classes of servers: the class of each server, and switches and rates of the ports of a member of each."""

    of_server: Ints
    ports: list[tuple[Ints, Floats]]


def _classes(net: Network) -> Classes:
    """Return servers that have equal ports, in the same order, as one class.

    Ports of a server are sorted by their switch, so that servers whose NICs are plugged in another order are equal.
    """
    known: dict[bytes, int] = {}
    ports: list[tuple[Ints, Floats]] = []
    of_server = np.zeros(net.servers, dtype=np.int64)
    first = net.first_port
    for server in range(net.servers):
        mine = slice(first[server], first[server + 1])
        switch = net.port_switch[mine]
        rate = net.port_rate[mine]
        key = switch.tobytes() + b"/" + rate.tobytes()
        if key not in known:
            known[key] = len(ports)
            ports.append((switch, rate))
        of_server[server] = known[key]
    return Classes(of_server, ports)


def _match(net: Network, one: tuple[Ints, Floats], other: tuple[Ints, Floats]) -> Matching:
    """Return pairs of ports with the fewest hops, and their parts of the bytes."""
    from scipy.optimize import linear_sum_assignment

    if not one[0].size or not other[0].size:
        return _NO_PAIRS
    hops = net.hops[one[0][:, None], other[0]]  # (a, b)
    key = (one[1].tobytes(), other[1].tobytes(), hops.tobytes())
    known = net.memory.get(key)
    if known is not None:
        return known
    # A port that is faster than others counts as several of them, so that it may send to several.
    mine, yours = _units(one[1], other[1])
    source, target = linear_sum_assignment(np.minimum(hops[mine][:, yours], FAR))
    source, target = mine[source], yours[target]
    joined = hops[source, target] < FAR
    found = _NO_PAIRS
    if joined.any():
        source, target = source[joined], target[joined]
        of_source = one[1] / np.bincount(mine)  # rate of a unit of each port
        of_target = other[1] / np.bincount(yours)
        rate = np.minimum(of_source[source], of_target[target])
        found = Matching(source, target, rate / rate.sum())
    net.memory[key] = found
    return found


_MOST_UNITS = 16


def _units(one: Floats, other: Floats) -> tuple[Ints, Ints]:
    """Return the ports of two servers, each as often as its rate is a multiple of the slowest."""
    slowest = min(float(one.min()), float(other.min()))
    found = []
    for rates in (one, other):
        times = np.clip(np.round(rates / slowest), 1, _MOST_UNITS).astype(np.int64)
        found.append(np.repeat(np.arange(rates.size), times))
    return found[0], found[1]


def _distances(capacity: Floats) -> Ints:
    """Return the hops between all pairs of nodes, (n, n), by a search from all of them at once."""
    from scipy.sparse import csr_matrix

    n = len(capacity)
    # Sparse, since a dense product would occupy all cores of a machine.
    back = csr_matrix((capacity > 0).astype(np.float32).T)
    hops = np.full((n, n), FAR)
    reached = np.eye(n, dtype=np.bool_)  # (goal, from)
    hops[reached] = 0
    front = reached.astype(np.float32)
    for level in range(1, n):
        new = (back @ front > 0) & ~reached
        if not new.any():
            break
        hops[new] = level
        reached |= new
        front = new.astype(np.float32)
    return np.ascontiguousarray(hops.T)


def spray(capacity: Floats, hops: Ints, sent: Floats) -> Floats:
    """Return the bytes on each bundle if every switch divides traffic among its shortest paths by their rates.

    Parameters
    ----------
    capacity : (n, n) float64
        Rate from switch to switch. [B/s]
    hops : (n, n) int64
        Hops from switch to switch.
    sent : (n, n) float64
        Bytes from each switch to each other one. Pairs without a path must send nothing. [B]
    """
    from scipy.sparse import csr_matrix

    load = np.zeros_like(capacity)
    away = sent - np.diag(np.diag(sent))
    goals = np.flatnonzero(away.any(axis=0))
    if not goals.size:
        return load
    one, other = np.nonzero(capacity)
    rate = capacity[one, other]
    forth = csr_matrix((rate, (one, other)), shape=capacity.shape)
    back = csr_matrix((rate, (other, one)), shape=capacity.shape)
    distance = hops[:, goals]  # (n, g)
    waiting = np.where(distance < FAR, away[:, goals], 0.0)
    on_edge = np.zeros(one.size)
    for level in range(int(distance[distance < FAR].max()), 0, -1):
        here = (distance == level) & (waiting > 0)
        if not here.any():
            continue
        ahead = distance == level - 1  # (n, g)
        onward = forth @ ahead.astype(np.float64)  # (n, g) rate towards each goal
        flow = np.divide(waiting, onward, out=np.zeros_like(waiting), where=here)
        busy = np.flatnonzero(here.any(axis=1)[one])
        on_edge[busy] += np.einsum("eg,eg->e", flow[one[busy]], ahead[other[busy]])
        waiting += ahead * (back @ flow)
    load[one, other] = rate * on_edge
    return load


def shortest_rules(capacity: Floats, hops: Ints) -> Floats:
    """Return the rules towards one goal that divide traffic among all shortest paths by their rates, (n, n).

    Parameters
    ----------
    capacity : (n, n) float64
        Rate from switch to switch. [B/s]
    hops : (n,) int64
        Hops from each switch to the goal.
    """
    nearer = (hops[None, :] + 1 == hops[:, None]) & (hops[:, None] < FAR)
    rate = np.where(nearer, capacity, 0.0)
    total = rate.sum(axis=1, keepdims=True)
    part: Floats = np.divide(rate, total, out=np.zeros_like(rate), where=total > 0)
    return part


def _alive(part: Floats, capacity: Floats) -> Floats:
    """Return rules without next switches that cannot be reached, or from which the goal cannot."""
    n = len(capacity)
    useful = (part > 0) & (capacity > 0)  # (goal, here, next)
    arrives = np.eye(n, dtype=np.bool_)  # (goal, here)
    while True:
        more = arrives | np.einsum("duv,dv->du", useful, arrives)
        if np.array_equal(more, arrives):
            break
        arrives = more
    left = np.where(useful & arrives[:, None, :], part, 0.0)
    total = left.sum(axis=2, keepdims=True)
    shared: Floats = np.divide(left, total, out=np.zeros_like(left), where=total > 0)
    return shared


def _hops_by_rules(part: Floats) -> Ints:
    """Return the most hops from each switch to each goal by rules without loops, (n, n)."""
    n = len(part)
    hops = np.full((n, n), FAR)
    np.fill_diagonal(hops, 0)
    uses = part > 0
    for _ in range(n):
        ahead = np.where(uses, hops.T[:, None, :], -1).max(axis=2)  # (goal, here)
        has = uses.any(axis=2)
        new = np.where(has, np.minimum(ahead + 1, FAR), FAR)
        np.fill_diagonal(new, 0)
        if np.array_equal(new.T, hops):
            break
        hops = new.T.copy()
    return hops


def _by_rules(part: Floats, sent: Floats) -> Floats:
    """Return the bytes on each bundle by rules without loops, (n, n)."""
    n = len(part)
    away = sent - np.diag(np.diag(sent))
    load = np.zeros((n, n))
    goals = np.flatnonzero(away.any(axis=0))
    waiting = away[:, goals].T.copy()  # (g, n) what each switch has to send on
    onward = part[goals]
    for _ in range(n):
        waiting[np.arange(goals.size), goals] = 0.0
        if not waiting.any():
            break
        moved = waiting[:, :, None] * onward  # (g, here, next)
        load += moved.sum(axis=0)
        waiting = moved.sum(axis=1)
    return load


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
