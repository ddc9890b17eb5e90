"""What a workload puts on every link of a design, how long each axis takes, and how long a step is.

Servers follow each other in rings in the order of their switches, or in the design's own order. Between two servers
bytes leave by any NIC: those of a GPU whose NIC has failed, or is plugged in elsewhere, first move over the scale-up
domain, whose rate is nine times that of a NIC. Each port sends to the nearest port of the other server, switches divide
traffic among shortest paths (or by the design's rules), and the fullest link sets the time. Jobs whose GPUs are
scattered have no such servers; `fabriclab.designs.scattered` has their rules. Left out: hash collisions, congestion
control, latency, and axes that meet on a link at the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fabriclab import catalog
from fabriclab.core import Floats, Ints
from fabriclab.designs.needs import (
    NETWORK,
    Step,
    Workload,
    demand,
    expert_groups,
    stages_of,
    step,
)
from fabriclab.designs.network import FAR, Network
from fabriclab.designs.scattered import between_sockets, exchange
from fabriclab.designs.sheets import Design
from fabriclab.errors import NoPath

__all__ = ["Loads", "Messages", "loads", "mean_step", "messages", "placed", "step_time", "times"]


class Messages(NamedTuple):
    """Bytes from server to server in a step: source, target and size of each pair that talks, (M,)."""

    source: Ints
    target: Ints
    size: Floats


@dataclass(frozen=True, eq=False)
class Loads:
    """What a workload puts on the links of a design.

    Parameters
    ----------
    link : (L,) float64
        Bytes of a step on each link of the fabric; parallel cables share by their rates. [B]
    by_axis : mapping of str to float
        Time of each axis on the network: that of its fullest link. [s]
    fullest : mapping of str to int
        Fullest link of each axis; -1 if the CPUs of the servers take longer than any link.
    """

    link: Floats
    by_axis: Mapping[str, float]
    fullest: Mapping[str, int]

    def scaled(self, factor: float) -> Loads:
        """Return the loads of so many times as many bytes from the same places to the same places."""
        by_axis = {axis: seconds * factor for axis, seconds in self.by_axis.items()}
        return Loads(self.link * factor, by_axis, self.fullest)

    @property
    def seconds(self) -> float:
        """Time of the axis that takes longest [s]."""
        return max(self.by_axis.values(), default=0.0)


def placed(design: Design) -> Ints:
    """Return the servers in the order in which a job uses them, (S,).

    Unless the design gives an order, servers on the same switches follow each other, and each class of servers is
    followed by the nearest that has not come yet. So the numbers of servers do not matter.
    """
    if design.order is not None:
        return np.array(design.order)
    return _nearest_first(design.network)


def _nearest_first(net: Network) -> Ints:
    """Return the servers class by class, each followed by the nearest class."""
    classes = net.classes
    n = len(classes.ports)
    if n == 1:
        return np.arange(net.servers)
    distance = _class_distances(net)
    # A class with the switches of lowest numbers comes first; of equally near ones, too.
    rank = sorted(range(n), key=lambda c: tuple(classes.ports[c][0].tolist()))
    order = [rank.pop(0)]
    while rank:
        near = distance[order[-1], rank]
        order.append(rank.pop(int(np.argmin(near))))
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    return np.argsort(place[classes.of_server], kind="stable")


def _class_distances(net: Network) -> Floats:
    """Return the mean hops from the ports of each class to the nearest port of each other class, (C, C)."""
    classes = net.classes
    n = len(classes.ports)
    distance = np.full((n, n), float(FAR))
    to_class = np.full((net.n, n), float(FAR))  # from each switch
    for c, (switch, _) in enumerate(classes.ports):
        if switch.size:
            to_class[:, c] = net.hops[:, np.unique(switch)].min(axis=1)
    for c, (switch, _) in enumerate(classes.ports):
        if switch.size:
            distance[c] = to_class[switch].mean(axis=0)
    return distance


def messages(design: Design, workload: Workload) -> dict[str, Messages]:
    """Return what servers send to each other in a step, for each axis that uses the network.

    Nothing for scattered jobs, whose GPUs send by themselves; see `fabriclab.designs.scattered`.
    """
    if workload.scattered:
        return {}
    order = placed(design)
    needs = {
        need.axis: need.bytes * design.gpus
        for need in demand(workload, design.gpus, design.servers)
        if need.tier == NETWORK
    }
    found = {}
    if "FSDP" in needs:
        found["FSDP"] = _rings([order], needs["FSDP"])
        return found
    stages = min(stages_of(workload, design.gpus), design.servers)
    replicas = design.servers // stages
    table = order[: stages * replicas].reshape(
        stages, replicas
    )  # stage by stage, as Megatron places them
    if "DP" in needs:
        found["DP"] = _rings(list(table), needs["DP"])
    if "PP" in needs:
        # Half of what a server sends are activations for the next stage, half are gradients for the one before.
        lower, upper = table[:-1].ravel(), table[1:].ravel()
        found["PP"] = Messages(
            np.concatenate([lower, upper]),
            np.concatenate([upper, lower]),
            np.full(2 * lower.size, needs["PP"] / 2),
        )
    if "EP" in needs:
        found["EP"] = _exchanges(table, workload, needs["EP"])
    return found


def _rings(rings: list[Ints], size: float) -> Messages:
    """Return rings of servers in which each sends ``size`` bytes to the next one."""
    source = np.concatenate(rings)
    target = np.concatenate([np.roll(ring, -1) for ring in rings])
    return Messages(source, target, np.full(source.size, size))


def _exchanges(table: Ints, workload: Workload, size: float) -> Messages:
    """Return exchanges among groups of servers of each stage, in which each sends ``size`` bytes in all."""
    sources, targets, sizes = [], [], []
    for stage in table:
        for group in expert_groups(workload, stage.size):
            members = stage[group]
            one, other = np.nonzero(~np.eye(members.size, dtype=np.bool_))
            sources.append(members[one])
            targets.append(members[other])
            sizes.append(np.full(one.size, size / max(members.size - 1, 1)))
    return Messages(np.concatenate(sources), np.concatenate(targets), np.concatenate(sizes))


class Carried(NamedTuple):
    """Bytes on bundles (n, n), and out of and into each port (p,). [B]."""

    bundle: Floats
    out: Floats
    into: Floats


class Entering(NamedTuple):
    """Bytes from where they enter to where they leave the switches (n, n), and out of and into each port (p,). [B]."""

    between: Floats
    out: Floats
    into: Floats


def carried(net: Network, sent: Messages) -> Carried:
    """Return the bytes of messages on the bundles and ports of a network.

    Raises
    ------
    NoPath
        If two servers that talk have no path between any of their ports.
    """
    found = entering(net, sent)
    return Carried(net.carried(found.between), found.out, found.into)


def entering(net: Network, sent: Messages) -> Entering:
    """Return where the bytes of messages enter and leave a network, whatever path they take in it.

    Raises
    ------
    NoPath
        If two servers that talk have no path between any of their ports.
    """
    classes = net.classes
    n = len(classes.ports)
    first = net.first_port
    between = np.zeros((net.n, net.n))  # bytes from switch to switch
    out = np.zeros(net.port_server.size)
    into = np.zeros(net.port_server.size)

    pair = classes.of_server[sent.source] * n + classes.of_server[sent.target]
    kinds, which = np.unique(pair, return_inverse=True)
    total = np.bincount(which, sent.size)
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(kinds.size + 1))
    for i, kind in enumerate(kinds.tolist()):
        one, other = divmod(kind, n)
        match = net.matching(one, other)
        mine = order[bounds[i] : bounds[i + 1]]
        if not match.part.size:
            source, target = int(sent.source[mine[0]]), int(sent.target[mine[0]])
            raise NoPath(f"server {source} has no path to server {target}")
        here = classes.ports[one][0][match.source]
        there = classes.ports[other][0][match.target]
        np.add.at(between, (here, there), total[i] * match.part)
        bytes_ = sent.size[mine][:, None] * match.part
        np.add.at(out, first[sent.source[mine]][:, None] + match.source, bytes_)
        np.add.at(into, first[sent.target[mine]][:, None] + match.target, bytes_)
    return Entering(between, out, into)


class Times(NamedTuple):
    """Time of the fullest bundle or port [s], and where it is: a pair of switches, or (-1, port)."""

    seconds: float
    place: tuple[int, int]
    out: bool


def times(net: Network, load: Carried) -> Times:
    """Return how long the fullest link needs for its bytes.

    A port carries both directions at once. All ports of a NIC together have at most the rate of a NIC.
    """
    bundle = np.divide(
        load.bundle, net.capacity, out=np.zeros_like(load.bundle), where=load.bundle > 0
    )
    best = Times(0.0, (-1, -1), True)
    if bundle.size:
        u, v = np.unravel_index(int(np.argmax(bundle)), bundle.shape)
        best = Times(float(bundle[u, v]), (int(u), int(v)), True)
    for is_out, carried_ in ((True, load.out), (False, load.into)):
        port = carried_ / net.port_rate
        if port.size and float(port.max()) >= best.seconds:
            best = Times(float(port.max()), (-1, int(np.argmax(port))), is_out)
    return best


def loads(design: Design, workload: Workload, failed: tuple[int, ...] = ()) -> Loads:
    """Return what a workload puts on the links of a design.

    Parameters
    ----------
    design : Design
        The design.
    workload : Workload
        The workload.
    failed : tuple of int
        Nodes of switches that have failed.

    Raises
    ------
    NoPath
        If two servers that talk have no path.
    """
    net = design.network
    if failed:
        net = net.without(np.flatnonzero(np.isin(net.switch, failed)))
    if workload.scattered:
        return _scattered_loads(design, net, workload)
    link = np.zeros(design.fabric.n_links)
    by_axis = {}
    fullest = {}
    for axis, sent in messages(design, workload).items():
        load = carried(net, sent)
        worst = times(net, load)
        by_axis[axis] = worst.seconds
        fullest[axis] = link_at(design, net, worst)
        link += _on_links(design, net, load)
    return Loads(link, by_axis, fullest)


def _scattered_loads(design: Design, net: Network, workload: Workload) -> Loads:
    """Return what jobs with scattered GPUs put on the links of a design."""
    (need,) = demand(workload, design.gpus, design.servers)
    found = exchange(net, design.gpus, need.bytes)
    load = Carried(net.carried(found.between), found.out, found.into)
    cpus = found.cpus
    if found.lost.any():
        # No NIC of the one server reaches that NIC of the other: all NICs of both share the bytes, and half of these
        # change the socket at either end, as many one way as the other.
        source, target = np.nonzero(found.lost)
        rest = carried(net, Messages(source, target, found.lost[source, target]))
        load = Carried(*(one + other for one, other in zip(load, rest, strict=True)))
        cpus += float((found.lost.sum(axis=0) + found.lost.sum(axis=1)).max()) / 4
    worst = times(net, load)
    seconds = cpus / between_sockets()
    place = -1
    if worst.seconds >= seconds:
        seconds, place = worst.seconds, link_at(design, net, worst)
    return Loads(_on_links(design, net, load), {need.axis: seconds}, {need.axis: place})


def link_at(design: Design, net: Network, worst: Times) -> int:
    """Return the link of a fabric at the place of the longest time; of parallel ones the first."""
    one, other = worst.place
    if other < 0:
        return -1
    if one < 0:
        link = int(net.port_link[other])
        return link if worst.out else link ^ 1
    fabric = design.fabric
    between = (fabric.source == net.switch[one]) & (fabric.target == net.switch[other])
    return int(np.flatnonzero(between & (fabric.capacity > 0))[0])


def _on_links(design: Design, net: Network, load: Carried) -> Floats:
    """Return the bytes on each link, (L,)."""
    fabric = design.fabric
    number = np.full(fabric.n_nodes, -1)
    number[net.switch] = np.arange(net.n)
    one, other = number[fabric.source], number[fabric.target]
    link = np.zeros(fabric.n_links)
    inner = (one >= 0) & (other >= 0) & (fabric.capacity > 0)
    rate = net.capacity[one[inner], other[inner]]
    share = np.divide(fabric.capacity[inner], rate, out=np.zeros_like(rate), where=rate > 0)
    link[inner] = load.bundle[one[inner], other[inner]] * share
    link[net.port_link] = load.out
    link[net.port_link ^ 1] = load.into
    return link


def step_time(design: Design, workload: Workload) -> Step:
    """Return how long a step of a workload takes on a design, in parts. [s].

    Each replica has its own batch, so a larger cluster trains more tokens in a step; see `mean_step`.
    """
    return step(workload, dict(loads(design, workload).by_axis), design.gpus)


def mean_step(design: Design, seconds: list[float]) -> float:
    """Return the mean of steps, as if the cluster had the 1,024 GPUs of the running case and its batch. [s]."""
    job = catalog.case()
    return float(np.mean(seconds)) * int(job.gpus) / (design.servers * design.gpus)


def __dir__() -> list[str]:
    """Return the public names, for tab completion."""
    return sorted(__all__)
