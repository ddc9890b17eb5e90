"""Live views of servers and boxes of GPUs: the links that the rings of an all-reduce can use."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from fabriclab import topologies, units
from fabriclab.core import Flows
from fabriclab.routing import route
from fabriclab.simulation import best_rings, ring_busbw
from fabriclab.texts import text
from fabriclab.topologies.gigaio import WIRINGS, rings
from fabriclab.views.live.controls import Choice, Slider
from fabriclab.views.live.fabrics import scene_of
from fabriclab.views.live.widget import Live, live_view
from fabriclab.views.scene import Scene

SERVERS: Final = ("mi300x", "dgx1v", "dgx_h100")


def server(server: str = "mi300x", gpus: int = 2, *, servers: tuple[str, ...] = SERVERS) -> Live:
    """Show the load that an all-reduce over the first GPUs of a server brings, on the rings that reach most.

    Parameters
    ----------
    server : str
        One of ``servers``.
    gpus : int
        How many take part. 2..8
    servers : tuple of str
        Topologies of one server with 8 GPUs.
    """

    @cache
    def scene(server: str, gpus: int) -> Scene:
        f = topologies.build(server)
        found = best_rings(f, range(gpus))
        own = (f.source == f.endpoint[0]) & np.isin(np.array(f.kinds)[f.kind[f.target]], ("gpu", "nvswitch"))
        said = text("live.server.said", n=gpus, server=server, rate=units.format_rate(found.rate)) + " "
        if found.outside:
            full = np.concatenate([f.kind[ends[found.load > 1 - 1e-6]] for ends in (f.source, f.target)])
            said += text("live.server.cpu" if "cpu" in np.array(f.kinds)[full] else "live.server.pcie")
        else:
            said += text("live.server.own", used=f.ports[own & (found.load > 0)].sum(), all=f.ports[own].sum())
        return scene_of(f, np.minimum(found.load, 1.0), said=said)

    return live_view("server", locals(), scene, {"server": Choice(servers), "gpus": Slider(2, 8)})


def gigaio(wiring: str = "2s-2rp-std-flat", *, wirings: tuple[str, ...] = WIRINGS) -> Live:
    """Show two boxes of GPUs on a PCIe fabric, and how many rings of an all-reduce share each link.

    Parameters
    ----------
    wiring : str
        One of ``wirings``.
    wirings : tuple of str
        Names as `fabriclab.topologies.gigaio` takes them.
    """

    @cache
    def scene(wiring: str) -> Scene:
        f = topologies.build("gigaio", wiring=wiring)
        order = rings(f)
        ends = f.endpoint[order]
        hops = Flows.make(ends.ravel(), np.roll(ends, -1, axis=1).ravel(), 1.0)
        shared = route(f, hops).link_bytes(hops, f.n_links)  # rings on each link
        load = shared / f.capacity
        full = int(load.argmax())
        rate = units.format_rate(ring_busbw("all_reduce", f, order))
        said = text("live.gigaio.said", wiring=wiring, n=len(order), rate=rate, most=f"{shared[full]:.0f}",
                    link=f.link_name(full))  # fmt: skip
        return scene_of(f, load / load[full], said=said)

    return live_view("gigaio", locals(), scene, {"wiring": Choice(wirings)})
