"""Live placement: the order of ranks on rails, on one wiring or on several, and the load that it brings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

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
        order = _order(groups, seed)
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


def wirings(fabrics: Mapping[str, Fabric], wiring: str | None = None, seed: int = 0) -> Live:
    """Show rings over the rails of the first of several wirings of the same servers, on each of them.

    Every ring sums 1 GB, and its flows are sprayed over all cables: what differs is where they go.

    Parameters
    ----------
    fabrics : mapping of str to Fabric
        Wirings by name, with the same ranks and as many cables.
    wiring, seed : str, int
        The first unless given; seed of the shuffle, 0 for the order of the servers.
    """
    names = tuple(fabrics)
    groups = np.array(collectives.rail_groups(fabrics[names[0]]))

    def scene(wiring: str, seed: int) -> Scene:
        fabric, order = fabrics[wiring], _order(groups, seed)
        # illustrative: large enough for rates alone to count
        run = simulate("all_reduce", "ring", fabric, "1 GB", placement=order, method="spray")
        hops = collectives.spine_crossings(fabric, order)
        key = "live.wirings.shuffled" if seed else "live.wirings.order"
        said = text(key, wiring=wiring, seed=seed, hops=f"{hops:,}", all=f"{order.size:,}")
        return scene_of(fabric, run, said=said)

    controls: dict[str, Control] = {
        "wiring": Choice(names, text("live.wirings.wiring")),
        "seed": Slider(0, 20, label=text("live.place.seed")),
    }
    call = f"fl.live.wirings({{{', '.join(f'{name!r}: fl.{fabric!r}' for name, fabric in fabrics.items())}}}"
    return Live(call, scene, controls, {"wiring": wiring or names[0], "seed": seed}, text("live.wirings.title"))


def _order(groups: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return each group in its own random order; seed 0 leaves them as they are."""
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(group) for group in groups]) if seed else groups
