"""Live views of rings: the order of ranks on rails and wirings, and the links of a server or box that rings can use."""

from collections.abc import Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fabriclab import collectives, topologies, units
from fabriclab.core import Fabric, Flows
from fabriclab.routing import route
from fabriclab.simulation import best_rings, ring_busbw, simulate
from fabriclab.texts import text
from fabriclab.topologies.gigaio import WIRINGS, rings
from fabriclab.views.live.controls import Choice, Slider
from fabriclab.views.live.fabrics import scene_of
from fabriclab.views.live.widget import Live, live_view
from fabriclab.views.scene import Scene

SERVERS = ("mi300x", "dgx1v", "dgx_h100")


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

    seeds, ways, says = Slider(0, 20), Choice(("ecmp", "spray")), Choice(("load", "tier", "rail"))
    return live_view("placement", locals(), scene, {"seed": seeds, "routing": ways, "colour": says}, hidden=("open",))


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
