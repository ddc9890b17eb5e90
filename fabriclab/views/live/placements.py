"""Live placement: the order of ranks on rails, and the load that it brings."""

from __future__ import annotations

import numpy as np

from fabriclab import collectives, units
from fabriclab.core import Fabric
from fabriclab.simulation import simulate
from fabriclab.texts import text
from fabriclab.views.live.controls import Choice, Control, Slider
from fabriclab.views.live.fabrics import scene_of
from fabriclab.views.live.widget import Live
from fabriclab.views.scene import Scene


def placement(
    fabric: Fabric, size: units.Quantity = "1 GB", *,  # illustrative: large enough for rates alone to count
    seed: int = 0, routing: str = "ecmp", colour: str = "load", open: int | None = None,
) -> Live:  # fmt: skip
    """Show rings over the rails of a fabric, in order (seed 0) or shuffled, and the load that each order brings.

    Parameters
    ----------
    fabric : Fabric
        With rails, such as ``topologies.build("rail_optimised")``.
    size : float or str
        Of the array of each ring. [B]
    seed, routing, colour : int, str, str
        Seed of the shuffle, 0 for the order of the servers; ecmp or spray; what the colour of a link says.
    """
    groups = np.array(collectives.rail_groups(fabric))

    def scene(seed: int, routing: str, colour: str, open: int | None) -> Scene:
        rng = np.random.default_rng(seed)
        order = np.array([rng.permutation(group) for group in groups]) if seed else groups
        run = simulate("all_reduce", "ring", fabric, size, placement=order, method=routing)
        numbers = {
            "hops": f"{collectives.spine_crossings(fabric, order):,}",
            "all": f"{order.size:,}",
            "routing": routing,
            "seed": seed,
        }
        # Of the bytes of one flow: all flows of a ring have one size.
        full = run.timeline.link_bytes.max() / (run.flows.size[0] * run.timeline.repeat.sum())
        said = text("live.place.shuffled" if seed else "live.place.order", time=units.format_time(run.time), **numbers)
        said += " " + text("live.place.full", n=f"{full:.3g}")
        return scene_of(fabric, run, colour, open, said)

    controls: dict[str, Control] = {"seed": Slider(0, 20, label=text("live.place.seed"))}
    controls |= {"routing": Choice(("ecmp", "spray"), text("live.place.routing"))}
    controls |= {"colour": Choice(("load", "tier", "rail"), text("live.fabric.colour"))}
    values = {"seed": seed, "routing": routing, "colour": colour}
    call = f"fl.live.placement(fl.{fabric!r}, {size!r}"
    return Live(call, scene, controls, values, text("live.place.title"), hidden={"open": open})
