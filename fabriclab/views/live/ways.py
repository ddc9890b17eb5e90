"""Live views of ways: between two endpoints, of a hash, of rings over rails and wirings, and inside a server or box."""

from collections.abc import Mapping
from functools import cache

import numpy as np

from fabriclab import collectives, topologies, units
from fabriclab.core import Fabric, Flows, Ints
from fabriclab.routing import route
from fabriclab.routing.ecmp import expected_fullest
from fabriclab.routing.shortest import hashed
from fabriclab.simulation import Simulation, best_rings, ring_busbw, simulate
from fabriclab.texts import text
from fabriclab.topologies.gigaio import WIRINGS, rings
from fabriclab.views.fabrics import scene_of
from fabriclab.views.layout import counted
from fabriclab.views.live.widget import Choice, Live, Slider, Table, live_view
from fabriclab.views.page import spread
from fabriclab.views.scene import COLOUR, Scene, boxes, lines, shade, texts_at

SERVERS = ("mi300x", "dgx1v", "dgx_h100")


def paths(
    fabric: Fabric,
    source: int = 0,
    target: int | None = None,
    routing: str = "ecmp",
    *,
    routings: tuple[str, ...] = ("ecmp", "spray"),
) -> Live:
    """Show the links that a flow between two endpoints takes, by each routing.

    Parameters
    ----------
    fabric : Fabric
        Where.
    source, target : int
        Ranks; the last one is the target unless given.
    routing : str
        One of ``routings``.
    routings : tuple of str
        Names of `fabriclab.routing.names` that the fabric allows.
    """

    def scene(source: int, target: int, routing: str) -> Scene:
        ends = [fabric.name(int(fabric.endpoint[r])) for r in (source, target)]
        if source == target:
            return scene_of(
                fabric, np.zeros(fabric.n_links), said=text("live.paths.same", a=ends[0])
            )
        flows = Flows.make(fabric.endpoint[[source]], fabric.endpoint[[target]], 1.0)
        routes = route(fabric, flows, routing)
        use = np.bincount(
            routes.link, routes.use * np.repeat(routes.share, np.diff(routes.ptr)), fabric.n_links
        )
        on = np.flatnonzero(use)
        said = text(
            "live.paths.said", a=ends[0], b=ends[1], hops=use.sum(), links=on.size, routing=routing
        )
        if routes.n_rows == 1 and np.all(routes.use == 1):
            # in any order
            ahead = dict(zip(fabric.source[on].tolist(), fabric.target[on].tolist(), strict=True))
            way = [int(fabric.endpoint[source])]
            while way[-1] in ahead:
                way.append(ahead[way[-1]])
            said = text(
                "live.paths.way",
                way=" → ".join(map(fabric.name, way)),
                hops=routes.link.size,
                routing=routing,
            )
        return scene_of(fabric, use, said=said)

    ranks = Slider(0, fabric.n_ranks - 1)
    target = fabric.n_ranks - 1 if target is None else target
    return live_view(
        "paths", locals(), scene, {"source": ranks, "target": ranks, "routing": Choice(routings)}
    )


def roulette(flows: int = 32, cables: int = 32, seed: int = 0) -> Live:
    """Show how a hash deals equal flows out to equal cables, against the mean over all seeds and against spraying.

    Parameters
    ----------
    flows, cables : int
        How many. 1..256, 2..64
    seed : int
        Seed of the hash, the one of the routing "ecmp".
    """

    def scene(flows: int, cables: int, seed: int) -> Scene:
        number = np.arange(flows)
        pick = hashed(seed, number) % np.uint64(cables)
        held = np.bincount(pick.astype(np.int64), minlength=cables)
        # spraying splits a flow, but its sender is no faster
        least, most = (max(flows / cables, 1.0), int(held.max()))
        left, wide, foot, tall = 60.0, 510.0 / cables, 190.0, 160.0 / max(most, 4)
        x, scale = (
            left + wide * np.arange(cables),
            np.arange(0, max(most, 4) + 1, max(1, most // 6)),
        )
        names = [text("live.roulette.cable", n=i) for i in range(cables)]
        notes = [counted(int(n), "flow") for n in held]
        mean = expected_fullest(flows, cables)
        marks = {
            "expected": foot - tall * mean,
            "spray" if flows >= cables else "one": foot - tall * least,
        }
        rules = [np.array([[left - 6, y], [left + 516, y]]) for y in marks.values()]
        beside = zip(marks, spread([*marks.values()], 15.0, 0.0, foot).tolist(), strict=True)
        layers = {
            "bars": boxes(
                x,
                foot - tall * held,
                max(wide - 2, 2.0),
                np.maximum(tall * held, 1.0),
                round=0.0,
                colour=shade(held / most),
                names=names,
                notes=notes,
            ),
            "rules": lines(rules, width=1.5, colour=COLOUR["ink"], dash=np.array([1.0, 2.0])),
            "words": texts_at(
                *((left + 520, y, text(f"live.roulette.{mark}"), 0) for mark, y in beside),
                *((left - 12, foot - tall * int(v), str(v), 2) for v in scale),
                (left, foot + 16, text("live.roulette.below", cables=cables), 0),
            ),
        }
        slow = text(
            "live.roulette.slow" if most > least else "live.roulette.even", slow=most / least
        )
        said = text(
            "live.roulette.said",
            flows=counted(flows, "flow"),
            cables=counted(cables, "cable"),
            slow=slow,
            most=counted(most, "flow"),
            idle=int(np.sum(held == 0)),
            mean=mean,
        )
        return Scene(
            said, Table({"cable": np.arange(cables), "flows": held}), layers, foot + 30, said
        )

    controls = {"flows": Slider(1, 256), "cables": Slider(2, 64), "seed": Slider(0, 99, play=True)}
    return live_view("roulette", locals(), scene, controls)


def placement(
    fabric: Fabric,
    size: units.Quantity = "1 GB",  # illustrative: large enough for rates alone to count
    *,
    seed: int = 0,
    routing: str = "ecmp",
    colour: str = "load",
    open: int | None = None,
) -> Live:
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
        run, hops = _rings(fabric, groups, seed, size, routing)
        # Of the bytes of one flow: all flows of a ring have one size.
        full = run.timeline.link_bytes.max() / (run.flows.size[0] * run.timeline.repeat.sum())
        said = text(
            "live.placement.shuffled" if seed else "live.placement.order",
            hops=hops,
            all=groups.size,
            time=run.time,
            routing=routing,
            seed=seed,
        )
        said += " " + text("live.placement.full", n=full)
        return scene_of(fabric, run, colour, open, said)

    seeds, ways, says = Slider(0, 20), Choice(("ecmp", "spray")), Choice(("load", "tier", "rail"))
    return live_view(
        "placement",
        locals(),
        scene,
        {"seed": seeds, "routing": ways, "colour": says},
        hidden=("open",),
    )


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
        # illustrative: large enough for rates alone to count
        run, hops = _rings(fabrics[wiring], groups, seed, "1 GB", "spray")
        key = "live.wirings.shuffled" if seed else "live.wirings.order"
        said = text(key, wiring=wiring, seed=seed, hops=hops, all=groups.size)
        return scene_of(fabrics[wiring], run, said=said)

    return live_view(
        "wirings", locals(), scene, {"wiring": Choice(tuple(fabrics)), "seed": Slider(0, 20)}
    )


def _rings(
    fabric: Fabric, groups: Ints, seed: int, size: units.Quantity, routing: str
) -> tuple[Simulation, int]:
    """Return rings over groups, each in a random order or, with seed 0, as it is, and how many hops cross the spine."""
    order = collectives.shuffled(groups, seed)
    run = simulate("all_reduce", "ring", fabric, size, placement=order, method=routing)
    return run, collectives.spine_crossings(fabric, order)


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
        own = (f.source == f.endpoint[0]) & np.isin(
            np.array(f.kinds)[f.kind[f.target]], ("gpu", "nvswitch")
        )
        said = text("live.server.said", n=gpus, server=server, rate=found.rate) + " "
        if found.outside:
            full = np.concatenate(
                [f.kind[ends[found.load > 1 - 1e-6]] for ends in (f.source, f.target)]
            )
            said += text(
                "live.server.cpu" if "cpu" in np.array(f.kinds)[full] else "live.server.pcie"
            )
        else:
            said += text(
                "live.server.own",
                used=f.ports[own & (found.load > 0)].sum(),
                all=f.ports[own].sum(),
            )
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
        said = text(
            "live.gigaio.said",
            wiring=wiring,
            n=len(order),
            rate=ring_busbw("all_reduce", f, order),
            most=shared[full],
            link=f.link_name(full),
        )
        return scene_of(f, load / load[full], said=said)

    return live_view("gigaio", locals(), scene, {"wiring": Choice(wirings)})
