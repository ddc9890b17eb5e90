"""What pauses and credits do to those who are not meant: victims, storms, circles, and long cables."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from fabriclab import topologies, units
from fabriclab.core import Flows
from fabriclab.registry import register
from fabriclab.scenarios.parts import (
    all_to_all_ranks,
    custom_paths,
    hashed,
    link_between,
    one_switch,
    pairs,
    port_to,
    sample_of,
    two_tiers,
)
from fabriclab.scenarios.scenario import LINE_RATE, Scenario

__all__ = ["credit_loop", "cyclic_dependency", "pause_storm", "victim"]


# illustrative: small, for tests
@register("scenario", "victim", small={"senders": 2, "size": "200 kB"})
def victim(
    senders: int = 4,
    size: units.Quantity = "4 MB",  # illustrative: chosen for a short run
    *,
    rate: units.Quantity = "400 Gb/s",  # illustrative: a port of 400 Gb/s, as of a ConnectX-7
    buffer: units.Quantity = "4 MB",  # illustrative: memory that fills soon
    xoff: units.Quantity | None = "200 kB",  # illustrative: some packets per ingress
    **config: Any,
) -> Scenario:
    """Return a flow that shares a cable with an incast, but not its port, and waits with it (head-of-line blocking).

    Two switches are joined by one cable of twice the rate of a host. Two hosts of the first switch use it: one sends
    to the hot host on the second switch, and the victim's sender to an idle host there, so the cable has room for both.
    The other senders stand on the second switch. When the cable's ingress is full of packets for the hot port, the
    second switch pauses the whole cable, and the victim's packets stand still although their cable and their port have
    room. Without PFC packets of the incast are dropped instead, and the victim passes. Senders keep line rate.

    Parameters
    ----------
    senders : int
        Senders of the incast on the second switch, beside the one behind the cable. >= 1
    size : float or str
        What each sender and the victim send. [B], > 0
    rate : float or str
        Rate of the hosts' cables. [B/s]
    buffer : float or str
        Memory of each switch. [B]
    xoff : float, str or None
        Bytes of an ingress at which it pauses its sender; None: a share of the free buffer. [B]
    **config
        Settings of the run.
    """
    n = units.count(senders, "senders")
    each = units.size(size, "size", may_be_zero=False)
    hosts = n + 2
    fabric = topologies.build(
        "full_mesh", switches=2, hosts=hosts, rate=rate, radix=max(64, hosts + 1)
    )
    first, second = np.flatnonzero(fabric.tier == 1).tolist()
    cable = link_between(fabric, first, second)
    fabric = fabric.with_capacity([cable, cable ^ 1], 2 * units.rate(rate))
    # Hosts 0 and 1 of the first switch send; on the second, host 0 is hot, host 1 idle, and the others send.
    hot, idle = hosts, hosts + 1
    source = np.concatenate([[0, 1], np.arange(hosts + 2, 2 * hosts)])
    target = np.concatenate([[idle], np.full(n + 1, hot)])
    label = [1, *[0] * (n + 1)]
    ends = pairs(fabric, source, target)
    flows = Flows.make(*ends, each, label=label, labels=("incast", "victim"))
    node = fabric.endpoint
    given = {
        **LINE_RATE,
        "buffer": buffer,
        "xoff": xoff,
        "sample": sample_of((n + 1) * each, rate),
    }
    return Scenario(
        name="victim",
        shows="A pause stops a whole cable, and with it a flow whose own port is idle.",
        fabric=fabric,
        flows=flows,
        routes=hashed(fabric, flows),
        config=given | config,
        links={
            "hot port": port_to(fabric, int(node[hot])),
            "cable": cable,
            "victim's port": port_to(fabric, int(node[idle])),
        },
        groups={"victim": (0,), "incast": range(1, n + 2)},
    )


# illustrative: small, for tests
@register("scenario", "pause_storm", small={"leaves": 2, "hosts": 2, "size": "100 kB"})
def pause_storm(
    leaves: int = 4,
    hosts: int = 4,
    size: units.Quantity = "200 kB",  # illustrative: chosen for a short run
    *,
    begin: units.Quantity = "10 us",  # illustrative: chosen for a short run
    end: units.Quantity = "1 ms",  # illustrative: chosen for a short run
    rate: units.Quantity = "400 Gb/s",  # illustrative: a port of 400 Gb/s, as of a ConnectX-7
    buffer: units.Quantity = "2 MB",  # illustrative: memory that fills soon
    **config: Any,
) -> Scenario:
    """Return a fabric on which one broken network card pauses its switch for a while, and the pause spreads.

    All hosts send to all others. Packets for the broken host fill the buffer of its leaf, the leaf pauses the spines,
    the spines pause the other leaves, and those the hosts: flows between healthy hosts stand still. With
    ``watchdog="100 us"`` a switch throws away what waits for a port that stays paused, and the others go on; its
    packets have to be sent again. Real watchdogs wait for 100 ms and more; times here are shorter, as the run is.

    Parameters
    ----------
    leaves, hosts : int
        Leaves, and hosts on each; there are as many spines as hosts on a leaf. >= 2
    size : float or str
        What each host sends to each other one. [B], > 0
    begin, end : float or str
        When host 0 begins and ends to pause its switch. [s]
    rate, buffer, **config
        As in `victim`.
    """
    n_leaves = units.count(leaves, "leaves", 2)
    each_leaf = units.count(hosts, "hosts", 2)
    each = units.size(size, "size", may_be_zero=False)
    n = n_leaves * each_leaf
    fabric = two_tiers(n_leaves, each_leaf, each_leaf, rate)
    source, target = all_to_all_ranks(n)
    # Each host begins with the one after itself, so that no host gets everything at once.
    order = np.lexsort(((target - source) % n, source))
    source, target = source[order], target[order]
    is_broken = target == 0
    label = is_broken.astype(np.int64)
    labels = ("between healthy hosts", "to the broken host")
    flows = Flows.make(*pairs(fabric, source, target), each, label=label, labels=labels)

    node = fabric.endpoint
    port = port_to(fabric, int(node[0]))
    leaf = int(fabric.source[port])
    spine = int(fabric.source[(fabric.target == leaf) & (fabric.tier[fabric.source] == 2)][0])
    other = int(fabric.source[port_to(fabric, int(node[n - 1]))])
    stop = units.time(end, "end")
    given = {
        **LINE_RATE,
        "buffer": buffer,
        "storms": ((port, units.time(begin, "begin"), stop),),
        "sample": sample_of(n * each, rate, after=stop),
    }
    return Scenario(
        name="pause_storm",
        shows="One network card that pauses its switch stops flows between hosts that are well.",
        fabric=fabric,
        flows=flows,
        routes=hashed(fabric, flows),
        config=given | config,
        links={
            "broken host's port": port,
            "spine to its leaf": link_between(fabric, spine, leaf),
            "other leaf to spine": link_between(fabric, other, spine),
            "healthy host to its leaf": port_to(fabric, int(node[n - 1])) ^ 1,
        },
        groups={
            "to the broken host": np.flatnonzero(is_broken).tolist(),
            "between healthy hosts": np.flatnonzero(~is_broken).tolist(),
        },
    )


# illustrative: small, for tests
@register("scenario", "cyclic_dependency", small={"size": "20 kB"})
def cyclic_dependency(
    size: units.Quantity = "4 MB",  # illustrative: chosen for a short run
    *,
    rate: units.Quantity = "400 Gb/s",  # illustrative: a port of 400 Gb/s, as of a ConnectX-7
    buffer: units.Quantity = "1 MB",  # illustrative: memory that fills soon
    xoff: units.Quantity | None = "40 kB",  # illustrative: some packets per ingress
    **config: Any,
) -> Scenario:
    """Return three switches in a ring whose flows go two cables far, so that buffers can wait for each other.

    Each cable of the ring carries two flows: one that began at its first switch, and one that only passes. A switch
    holds packets for the next cable, which is paused by a switch that holds packets for the next: a circle. With
    buffers that fill, nothing moves any more, and the engine raises `fabriclab.errors.Deadlock` with the circle. A
    ``watchdog`` breaks it. Senders keep line rate.

    Parameters
    ----------
    size : float or str
        What each of the six senders sends, two on each switch. [B], > 0
    rate, buffer, xoff, **config
        As in `victim`.
    """
    each = units.size(size, "size", may_be_zero=False)
    senders = 2  # on each switch
    fabric = topologies.build("full_mesh", switches=3, hosts=2 * senders, rate=rate)
    switch = np.flatnonzero(fabric.tier == 1).tolist()
    node = fabric.endpoint.reshape(3, 2 * senders)
    source, target, paths = [], [], []
    for i in range(3):
        here, by, there = switch[i], switch[(i + 1) % 3], switch[(i + 2) % 3]
        for s in range(senders):
            sender, receiver = int(node[i, s]), int(node[(i + 2) % 3, senders + s])
            stops = [sender, here, by, there, receiver]
            links = [link_between(fabric, *ends) for ends in pairwise(stops)]
            source.append(sender)
            target.append(receiver)
            paths.append(links)
    flows = Flows.make(source, target, each, labels=("two cables far",))
    ring = [link_between(fabric, switch[i], switch[(i + 1) % 3]) for i in range(3)]
    given = {
        **LINE_RATE,
        "buffer": buffer,
        "xoff": xoff,
        "sample": sample_of(2 * senders * each, rate),
    }
    return Scenario(
        name="cyclic_dependency",
        shows="Three buffers wait for each other in a circle, and nothing moves any more.",
        fabric=fabric,
        flows=flows,
        routes=custom_paths(flows, paths),
        config=given | config,
        links={f"cable {i}": link for i, link in enumerate(ring)},
        groups={"all": range(flows.n_flows)},
    )


# illustrative: small, for tests
@register("scenario", "credit_loop", small={"size": "500 kB"})
def credit_loop(
    length: units.Quantity = "100 m",  # illustrative: a cable in a row of racks
    size: units.Quantity = "8 MB",  # illustrative: chosen for a short run
    *,
    credit: units.Quantity = "128 KiB",
    rate: units.Quantity = "400 Gb/s",  # illustrative: a port of 400 Gb/s, as of a ConnectX-7
    **config: Any,
) -> Scenario:
    """Return two hosts and a switch with credits, which limit the rate once the cable is long.

    A sender may have so many bytes on its way as the buffer behind the cable has given it credit for. A credit is back
    after the packet was sent, has travelled, was passed on, and the credit has travelled back. With 128 KiB, the most
    that InfiniBand can express for one lane, 400 Gb/s last until about 260 m.

    Parameters
    ----------
    length : float or str
        Length of the cables between hosts and switch. [m]
    size : float or str
        What the one flow carries. [B], > 0
    credit : float or str
        Room of the buffer behind a cable. [B]
    rate, **config
        As in `victim`.
    """
    each = units.size(size, "size", may_be_zero=False)
    fabric = one_switch(2, rate, length)
    flows = Flows.make(*pairs(fabric, np.array([0]), np.array([1])), each, labels=("flow",))
    node = fabric.endpoint
    given = {
        **LINE_RATE,
        "lossless": "credits",
        "credit": credit,
        "sample": sample_of(each, rate),
        "timeout": "10 ms",  # illustrative: chosen for a short run
    }
    return Scenario(
        name="credit_loop",
        shows="A cable that is longer than its credits last carries less than its rate.",
        fabric=fabric,
        flows=flows,
        routes=hashed(fabric, flows),
        config=given | config,
        links={"long cable": port_to(fabric, int(node[0])) ^ 1},
        groups={"flow": (0,)},
    )
