"""Crossbar: one switch without limit, the network of the textbook formulas."""

from __future__ import annotations

import numpy as np

from fabriclab import catalog, units
from fabriclab.core import Fabric, FabricBuilder
from fabriclab.core.builder import check_size
from fabriclab.registry import register


@register("topology", "crossbar", small={"hosts": 4})
def crossbar(hosts: int, rate: units.Quantity | None = None, delay: units.Quantity = 0.0) -> Fabric:
    """Return hosts around one ideal switch: no two flows meet except at a host.

    ``hosts`` cables; diameter 2 links; every half can send to the other at hosts/2 times the rate.

    Parameters
    ----------
    hosts : int
        Number of hosts. >= 1
    rate : float or str, optional
        Rate of every link; a ConnectX-7 NIC unless given. [B/s]
    delay : float or str
        Delay of every link: two of them lie between two hosts. [s]
    """
    n = units.count(hosts, "hosts")
    capacity = catalog.value("nics", "cx7", "throughput") if rate is None else units.rate(rate)
    check_size(f"a crossbar of {n} hosts", n + 1, n)
    b = FabricBuilder(("host", "switch"), ("server",))
    host = b.add_nodes("host", n, tier=0, transit=False, server=np.arange(n))
    switch = b.add_nodes("switch", 1, tier=1, transit=True)
    b.add_cables(host, switch, capacity=capacity, delay=units.latency(delay, "delay"))
    return b.build("crossbar", {}, endpoint=host, rail=np.zeros(n), server=np.arange(n))
