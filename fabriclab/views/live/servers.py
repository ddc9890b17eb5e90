"""Live view of one server: the links that an all-reduce over some of its GPUs can use."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from fabriclab import topologies, units
from fabriclab.core import Fabric
from fabriclab.simulation import Rings, best_rings
from fabriclab.texts import text
from fabriclab.views.live.controls import Choice, Control, Slider
from fabriclab.views.live.fabrics import scene_of
from fabriclab.views.live.widget import Live
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
    def facts(name: str, gpus: int) -> tuple[Fabric, Rings]:
        f = topologies.build(name)
        return f, best_rings(f, range(gpus))

    def scene(server: str, gpus: int) -> Scene:
        f, found = facts(server, gpus)
        own = (f.source == f.endpoint[0]) & np.isin(np.array(f.kinds)[f.kind[f.target]], ("gpu", "nvswitch"))
        said = text("live.server.said", n=gpus, server=server, rate=units.format_rate(found.rate),
                    used=f.ports[own & (found.load > 0)].sum(), all=f.ports[own].sum())  # fmt: skip
        said += " " + text("live.server.outside") if found.outside else ""
        return scene_of(f, np.minimum(found.load, 1.0), said=said)

    controls: dict[str, Control] = {"gpus": Slider(2, 8, label=text("live.server.gpus"))}
    hidden: dict[str, Any] = {"server": server}
    if len(servers) > 1:
        controls, hidden = {"server": Choice(servers, text("live.server.server")), **controls}, {}
    call = "fl.live.server(" + (f"servers={servers!r}" if servers != SERVERS else "")
    return Live(call, scene, controls, {"server": server, "gpus": gpus}, text("live.server.title"), hidden=hidden)
