"""Many senders, one receiver; and one sender, many receivers that are slower than itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from fabriclab import units
from fabriclab.core import Flows
from fabriclab.registry import register
from fabriclab.scenarios.parts import (
    hashed,
    link_between,
    mixed_rates,
    one_switch,
    pairs,
    port_to,
    sample_of,
)
from fabriclab.scenarios.scenario import Scenario

__all__ = ["fan_out", "incast", "time_to_fill"]


def time_to_fill(senders: int, rate: units.Quantity, buffer: units.Quantity) -> float:
    """Return how long a buffer lasts while senders send at line rate into one port of the same rate. [s].

    What comes in and does not go out is (senders - 1) times the rate. Leaves out headers, of which the buffer stores a
    little less than the cable carries, and the delay of the first packet.

    Parameters
    ----------
    senders : int
        Number of senders. >= 2
    rate : float or str
        Rate of each sender and of the port. [B/s]
    buffer : float or str
        Memory that the queue may fill. [B]

    Examples
    --------
    >>> round(time_to_fill(32, "400 Gb/s", "64 MB") * 1e6, 1)
    41.3
    """
    n = units.count(senders, "senders", 2)
    surplus = (n - 1) * units.rate(rate)
    return units.size(buffer, "buffer") / surplus


# illustrative: small, for tests
@register("scenario", "incast", small={"senders": 4, "size": "100 kB"})
def incast(
    senders: int = 32,
    size: units.Quantity = "1 MB",  # illustrative: chosen for a short run
    *,
    rate: units.Quantity = "400 Gb/s",  # illustrative: a port of 400 Gb/s, as of a ConnectX-7
    buffer: units.Quantity = "64 MB",  # illustrative: memory of a switch chip
    length: units.Quantity = "10 m",  # illustrative: a cable in a row of racks
    **config: Any,
) -> Scenario:
    """Return many hosts around one switch that send to the same host at the same time.

    Watch link ``port``, the only one where a queue forms. Senders use DCQCN and the switch pauses them (PFC) unless
    ``config`` says otherwise; ``**LINE_RATE`` gives senders that never slow down.

    Parameters
    ----------
    senders : int
        Number of senders. >= 1
    size : float or str
        What each of them sends. [B], > 0
    rate : float or str
        Rate of all ports. [B/s]
    buffer : float or str
        Memory of the switch. [B]
    length : float or str
        Length of all cables. [m]
    **config
        Settings of the run.
    """
    n = units.count(senders, "senders")
    each = units.size(size, "size", may_be_zero=False)
    fabric = one_switch(n + 1, rate, length)
    source, target = pairs(fabric, np.arange(1, n + 1), np.zeros(n, dtype=np.int64))
    flows = Flows.make(source, target, each, labels=("incast",))
    given = {
        "control": "dcqcn",
        "buffer": buffer,
        "sample": sample_of(n * each, rate),
    }
    return Scenario(
        name="incast",
        shows=f"{n} senders share one port, and what they send at once waits in front of it.",
        fabric=fabric,
        flows=flows,
        routes=hashed(fabric, flows),
        config=given | config,
        links={"port": port_to(fabric, int(fabric.endpoint[0]))},
        groups={"senders": range(n)},
    )


# illustrative: small, for tests
@register("scenario", "fan_out", small={"receivers": 2, "size": "200 kB"})
def fan_out(
    receivers: int = 8,
    size: units.Quantity = "2 MB",  # illustrative: chosen for a short run
    *,
    rate: units.Quantity = "400 Gb/s",  # illustrative: a port of 400 Gb/s, as of a ConnectX-7
    slow_rate: units.Quantity = "25 Gb/s",  # illustrative: an old port
    xoff: units.Quantity = "200 kB",  # illustrative: some packets per ingress
    marking: tuple[float, ...] = (50e3, 100e3, 1.0),
    buffer: units.Quantity = "16 MB",  # illustrative: memory that fills soon
    length: units.Quantity = "10 m",  # illustrative: a cable in a row of racks
    **config: Any,
) -> Scenario:
    """Return one fast ingress that feeds many slow egresses, so that a pause comes before any queue marks.

    Marking looks at each egress queue, a pause at what one ingress holds. Bytes that came over one cable and wait in 8
    queues reach XOFF of the ingress while each queue holds an eighth of it. So PFC comes first although Kmax is below
    XOFF, the senders get no marks, and a flow of the same host to an idle fast port waits with the others: the victim.
    With ``receivers=1`` the queue holds what the ingress holds, and marks come first.

    Parameters
    ----------
    receivers : int
        Slow receivers, each of which gets one flow. >= 1
    size : float or str
        What each flow carries; the victim too. [B], > 0
    rate, slow_rate : float or str
        Rate of the sender and of the victim's receiver, and of the slow receivers. [B/s]
    xoff : float or str
        Bytes of an ingress at which it pauses its sender. [B]
    marking : (float, float, float)
        Kmin [B], Kmax [B] and the chance just below Kmax.
    buffer, length, **config
        As in `incast`. Each flow comes from a queue pair of its own and uses DCQCN.
    """
    n = units.count(receivers, "receivers")
    each = units.size(size, "size", may_be_zero=False)
    fast = units.rate(rate)
    slow = units.rate(slow_rate, "slow_rate")
    # Host 0 sends, host 1 receives the victim's flow, the others are slow.
    fabric = mixed_rates([fast, fast, *[slow] * n], length)
    source, target = pairs(fabric, np.zeros(n + 1, dtype=np.int64), np.arange(1, n + 2))
    flows = Flows.make(
        source, target, each, label=[1, *[0] * n], labels=("to slow ports", "victim")
    )
    node = fabric.endpoint
    switch = int(fabric.target[fabric.source == node[0]][0])
    given = {
        "control": "dcqcn",
        "buffer": buffer,
        "xoff": xoff,
        "marking": marking,
        "sample": sample_of(each, slow),
    }
    return Scenario(
        name="fan_out",
        shows="An ingress reaches XOFF while each of the queues that it feeds is still below Kmin.",
        fabric=fabric,
        flows=flows,
        routes=hashed(fabric, flows),
        config=given | config,
        links={
            "slow port": port_to(fabric, int(node[2])),
            "ingress": link_between(fabric, int(node[0]), switch),
            "victim's port": port_to(fabric, int(node[1])),
        },
        groups={"victim": (0,), "to slow ports": range(1, n + 1)},
    )
