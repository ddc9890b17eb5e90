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
from fabriclab.views.live.widget import Live, live_view
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
        hops = f"{collectives.spine_crossings(fabric, order):,}"
        # Of the bytes of one flow: all flows of a ring have one size.
        full = run.timeline.link_bytes.max() / (run.flows.size[0] * run.timeline.repeat.sum())
        said = text("live.placement.shuffled" if seed else "live.placement.order", hops=hops, all=f"{order.size:,}",
                    time=units.format_time(run.time), routing=routing, seed=seed)  # fmt: skip
        said += " " + text("live.placement.full", n=f"{full:.3g}")
        return scene_of(fabric, run, colour, open, said)

    controls: dict[str, Control] = {"seed": Slider(0, 20), "routing": Choice(("ecmp", "spray")),
                                    "colour": Choice(("load", "tier", "rail"))}  # fmt: skip
    return live_view("placement", locals(), scene, controls, hidden=("open",))


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
    first = next(iter(fabrics))
    groups, wiring = np.array(collectives.rail_groups(fabrics[first])), wiring or first

    def scene(wiring: str, seed: int) -> Scene:
        fabric, order = fabrics[wiring], _order(groups, seed)
        # illustrative: large enough for rates alone to count
        run = simulate("all_reduce", "ring", fabric, "1 GB", placement=order, method="spray")
        hops = collectives.spine_crossings(fabric, order)
        key = "live.wirings.shuffled" if seed else "live.wirings.order"
        said = text(key, wiring=wiring, seed=seed, hops=f"{hops:,}", all=f"{order.size:,}")
        return scene_of(fabric, run, said=said)

    return live_view("wirings", locals(), scene, {"wiring": Choice(tuple(fabrics)), "seed": Slider(0, 20)})


def _order(groups: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return each group in its own random order; seed 0 leaves them as they are."""
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(group) for group in groups]) if seed else groups
