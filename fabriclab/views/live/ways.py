"""Live views of routes: between two endpoints, hashed to cables, of rings over rails, and in servers or GPU boxes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from fabriclab import collectives, topologies, units
from fabriclab.core import Fabric, Floats, Flows, Ints, Routes
from fabriclab.routing import route
from fabriclab.routing.ecmp import expected_fullest
from fabriclab.routing.shortest import hashed
from fabriclab.simulation import Rings, Simulation, best_rings, ring_busbw, simulate
from fabriclab.texts import text
from fabriclab.topologies.gigaio import WIRINGS, rings
from fabriclab.views.fabrics import scene_of
from fabriclab.views.layout import counted
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.page import spread
from fabriclab.views.scene import COLOUR, Layer, Scene, boxes, lines, shade, texts_at

SERVERS = ("mi300x", "dgx1v", "dgx_h100")

# The picture of the roulette, in px: a row of bars, with a scale of flows on the left.
_BARS_LEFT = 60.0
_BARS_WIDTH = 510.0
_BARS_FOOT = 190.0
_BARS_HEIGHT = 160.0
_LINE_ENDS = (_BARS_LEFT - 6, _BARS_LEFT + 516)
_WORDS_STEP = 15.0


# Paths ------------------------------------------------------------------------------------------


def paths(
    fabric: Fabric,
    source: int = 0,
    target: int | None = None,
    routing: str = "ecmp",
    *,
    routings: tuple[str, ...] = ("ecmp", "spray"),
) -> Live:
    """Show the links that a flow between two endpoints uses under a routing.

    Parameters
    ----------
    fabric : Fabric
        What to show.
    source, target : int
        Rank that sends and rank that receives; by default the target is the last rank.
    routing : str
        One of ``routings``.
    routings : tuple of str
        Routings to offer: those of `fabriclab.routing.names` that work on the fabric.
    """
    ranks = Slider(0, fabric.n_ranks - 1)
    arguments = {
        "fabric": fabric,
        "source": source,
        "target": fabric.n_ranks - 1 if target is None else target,
        "routing": routing,
        "routings": routings,
    }
    controls: dict[str, Control] = {"source": ranks, "target": ranks, "routing": Choice(routings)}
    scene = partial(paths_scene, fabric)
    return live_view("paths", arguments, scene, controls)


def paths_scene(fabric: Fabric, source: int, target: int, routing: str) -> Scene:
    """Return a picture of a fabric with the links that a flow between two ranks uses."""
    start = int(fabric.endpoint[source])
    end = int(fabric.endpoint[target])
    if source == target:
        caption = text("live.paths.same", a=fabric.name(start))
        return scene_of(fabric, np.zeros(fabric.n_links), said=caption)

    flow = Flows.make(fabric.endpoint[[source]], fabric.endpoint[[target]], 1.0)
    routes = route(fabric, flow, routing)
    use = use_of_links(routes, fabric.n_links)
    if routes.n_rows == 1 and np.all(routes.use == 1):
        path = path_from(fabric, start, np.flatnonzero(use))
        caption = text(
            "live.paths.way",
            way=" → ".join(map(fabric.name, path)),
            hops=routes.link.size,
            routing=routing,
        )
    else:
        caption = text(
            "live.paths.said",
            a=fabric.name(start),
            b=fabric.name(end),
            hops=use.sum(),
            links=np.count_nonzero(use),
            routing=routing,
        )
    return scene_of(fabric, use, said=caption)


def use_of_links(routes: Routes, n_links: int) -> Floats:
    """Return the fraction of a flow that each link carries, (L,).

    It is the sum over the routes that use the link: use of the link by the route, times the route's share of the flow.
    """
    share = np.repeat(routes.share, np.diff(routes.ptr))  # share of each entry's route
    return np.asarray(np.bincount(routes.link, routes.use * share, n_links), dtype=np.float64)


def path_from(fabric: Fabric, start: int, links: Ints) -> list[int]:
    """Return the nodes of the path from ``start`` along ``links``, which may be in any order."""
    sources = fabric.source[links].tolist()
    targets = fabric.target[links].tolist()
    next_node = dict(zip(sources, targets, strict=True))
    path = [start]
    while path[-1] in next_node:
        path.append(next_node[path[-1]])
    return path


# Roulette ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HashedFlows:
    """How many of a number of equal flows a hash puts on each cable."""

    flows: int
    on_cable: Ints  # (C,) flows on each cable
    expected_most: float  # mean over all seeds of the flows on the fullest cable

    @property
    def cables(self) -> int:
        """Number of cables."""
        return self.on_cable.size

    @property
    def most(self) -> int:
        """Number of flows on the fullest cable."""
        return int(self.on_cable.max())

    @property
    def sprayed(self) -> float:
        """Load of a cable if the flows are sprayed, in flows; at least 1, because no flow is faster than its sender."""
        return max(self.flows / self.cables, 1.0)

    @property
    def highest(self) -> int:
        """Number of flows at the upper end of the scale."""
        return max(self.most, 4)

    @property
    def flow_height(self) -> float:
        """Height of one flow in the picture [px]."""
        return _BARS_HEIGHT / self.highest


def roulette(flows: int = 32, cables: int = 32, seed: int = 0) -> Live:
    """Show how a hash assigns equal flows to equal cables, compared with the mean over all seeds and with spraying.

    Parameters
    ----------
    flows, cables : int
        Number of flows, 1..256, and of cables, 2..64.
    seed : int
        Seed of the hash, as for the routing "ecmp".
    """
    arguments = {"flows": flows, "cables": cables, "seed": seed}
    controls: dict[str, Control] = {
        "flows": Slider(1, 256),
        "cables": Slider(2, 64),
        "seed": Slider(0, 99, play=True),
    }
    return live_view("roulette", arguments, roulette_scene, controls)


def roulette_scene(flows: int, cables: int, seed: int) -> Scene:
    """Return the flows on each cable as bars, with lines at the mean over all seeds and at spraying."""
    cable_of_flow = hashed(seed, np.arange(flows)) % np.uint64(cables)
    on_cable = np.bincount(cable_of_flow.astype(np.int64), minlength=cables)
    found = HashedFlows(flows, on_cable, expected_most=expected_fullest(flows, cables))
    heights = rule_heights(found)
    layers = {
        "bars": flow_bars(found),
        "rules": rules_layer(heights),
        "words": roulette_words(found, heights),
    }
    caption = roulette_caption(found)
    table = Table({"cable": np.arange(cables), "flows": on_cable})
    return Scene(caption, table, layers, _BARS_FOOT + 30, alt=caption)


def roulette_caption(found: HashedFlows) -> str:
    """Return the sentence of the picture: the fullest cable, idle cables, and the time compared with spraying."""
    slower = found.most / found.sprayed
    key = "live.roulette.slow" if found.most > found.sprayed else "live.roulette.even"
    return text(
        "live.roulette.said",
        flows=counted(found.flows, "flow"),
        cables=counted(found.cables, "cable"),
        slow=text(key, slow=slower),
        most=counted(found.most, "flow"),
        idle=int(np.sum(found.on_cable == 0)),
        mean=found.expected_most,
    )


def flow_bars(found: HashedFlows) -> Layer:
    """Return a bar for each cable, at least 1 px high, and brighter the more flows it has."""
    step = _BARS_WIDTH / found.cables  # [px]
    height = found.flow_height * found.on_cable  # (C,) [px]
    names = [text("live.roulette.cable", n=cable) for cable in range(found.cables)]
    notes = [counted(int(n), "flow") for n in found.on_cable]
    return boxes(
        _BARS_LEFT + step * np.arange(found.cables),
        _BARS_FOOT - height,
        max(step - 2, 2.0),
        np.maximum(height, 1.0),
        round=0.0,
        colour=shade(found.on_cable / found.most),
        names=names,
        notes=notes,
    )


def rule_heights(found: HashedFlows) -> dict[str, float]:
    """Return the heights of the lines across the bars [px].

    One line is the mean over all seeds of the fullest cable; the other is spraying or, with fewer flows than cables,
    one flow.
    """
    even = "spray" if found.flows >= found.cables else "one"
    return {
        "expected": _BARS_FOOT - found.flow_height * found.expected_most,
        even: _BARS_FOOT - found.flow_height * found.sprayed,
    }


def rules_layer(heights: Mapping[str, float]) -> Layer:
    """Return a line across the bars at each height, each dashed differently."""
    left, right = _LINE_ENDS
    paths = [np.array([[left, y], [right, y]]) for y in heights.values()]
    return lines(paths, width=1.5, colour=COLOUR["ink"], dash=np.array([1.0, 2.0]))


def roulette_words(found: HashedFlows, heights: Mapping[str, float]) -> Layer:
    """Return the names of the lines, the scale of flows, and the words below the bars."""
    words = []
    apart = spread(list(heights.values()), _WORDS_STEP, 0.0, _BARS_FOOT)
    for name, y in zip(heights, apart.tolist(), strict=True):
        words.append((_BARS_LEFT + 520, y, text(f"live.roulette.{name}"), 0))

    ticks = range(0, found.highest + 1, max(1, found.most // 6))
    for flows in ticks:
        words.append((_BARS_LEFT - 12, _BARS_FOOT - found.flow_height * flows, str(flows), 2))

    below = text("live.roulette.below", cables=found.cables)
    words.append((_BARS_LEFT, _BARS_FOOT + 16, below, 0))
    return texts_at(*words)


# Rings over rails -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RailRings:
    """A run of rings over the rails of a fabric, and how often they cross a spine."""

    run: Simulation
    crossings: int  # hops of all rings that cross a spine

    @property
    def flows_on_fullest(self) -> float:
        """Load of the fullest cable, in flows, which all have the same size."""
        run = self.run
        flow = run.flows.size[0] * run.timeline.repeat.sum()  # bytes of one flow in all steps [B]
        flows: float = run.timeline.link_bytes.max() / flow
        return flows


def run_rings(
    fabric: Fabric, groups: Ints, seed: int, size: units.Quantity, routing: str
) -> RailRings:
    """Run an all-reduce over each group, in random order or, with seed 0, in the given order."""
    order = collectives.shuffled(groups, seed)
    run = simulate("all_reduce", "ring", fabric, size, placement=order, method=routing)
    return RailRings(run, collectives.spine_crossings(fabric, order))


def placement(
    fabric: Fabric,
    size: units.Quantity = "1 GB",  # illustrative: large enough for rates alone to count
    *,
    seed: int = 0,
    routing: str = "ecmp",
    colour: str = "load",
    open: int | None = None,
) -> Live:
    """Show the load that rings over the rails of a fabric cause, with servers in order (seed 0) or shuffled.

    Parameters
    ----------
    fabric : Fabric
        A fabric with rails, such as ``topologies.build("rail_optimised")``.
    size : float or str
        Size of the array of each ring. [B]
    seed, routing, colour : int, str, str
        Seed of the shuffle, or 0 for the order of the servers; "ecmp" or "spray"; what the colour of a link shows:
        load, tier or rail.
    """
    arguments = {
        "fabric": fabric,
        "size": size,
        "seed": seed,
        "routing": routing,
        "colour": colour,
        "open": open,
    }
    controls: dict[str, Control] = {
        "seed": Slider(0, 20),
        "routing": Choice(("ecmp", "spray")),
        "colour": Choice(("load", "tier", "rail")),
    }
    groups = np.array(collectives.rail_groups(fabric))
    scene = partial(placement_scene, fabric, groups, size)
    return live_view("placement", arguments, scene, controls, hidden=("open",))


def placement_scene(
    fabric: Fabric,
    groups: Ints,
    size: units.Quantity,
    seed: int,
    routing: str,
    colour: str,
    open: int | None,
) -> Scene:
    """Return a picture of a fabric with the load of rings over ``groups``, in order or shuffled by ``seed``."""
    rings = run_rings(fabric, groups, seed, size, routing)
    key = "live.placement.shuffled" if seed else "live.placement.order"
    caption = text(
        key,
        hops=rings.crossings,
        all=groups.size,
        time=rings.run.time,
        routing=routing,
        seed=seed,
    )
    caption += " " + text("live.placement.full", n=rings.flows_on_fullest)
    return scene_of(fabric, rings.run, colour, open, caption)


def wirings(fabrics: Mapping[str, Fabric], wiring: str | None = None, seed: int = 0) -> Live:
    """Show the load of the same rings on several wirings of the same servers.

    The rings follow the rails of the first wiring. Every ring reduces 1 GB, and its flows are sprayed over all cables,
    so only their routes differ between wirings.

    Parameters
    ----------
    fabrics : mapping of str to Fabric
        Wirings by name, with the same ranks and the same number of cables.
    wiring, seed : str, int
        The wiring to show, by default the first; seed of the shuffle, or 0 for the order of the servers.
    """
    first = next(iter(fabrics))
    arguments = {"fabrics": fabrics, "wiring": wiring or first, "seed": seed}
    groups = np.array(collectives.rail_groups(fabrics[first]))
    controls: dict[str, Control] = {"wiring": Choice(tuple(fabrics)), "seed": Slider(0, 20)}
    scene = partial(wirings_scene, fabrics, groups)
    return live_view("wirings", arguments, scene, controls)


def wirings_scene(fabrics: Mapping[str, Fabric], groups: Ints, wiring: str, seed: int) -> Scene:
    """Return a picture of one of the wirings with the load of rings over ``groups``."""
    fabric = fabrics[wiring]
    # illustrative: 1 GB is large enough for rates alone to count
    rings = run_rings(fabric, groups, seed, "1 GB", "spray")
    key = "live.wirings.shuffled" if seed else "live.wirings.order"
    caption = text(key, wiring=wiring, seed=seed, hops=rings.crossings, all=groups.size)
    return scene_of(fabric, rings.run, said=caption)


# Servers and boxes ------------------------------------------------------------------------------


def server(server: str = "mi300x", gpus: int = 2, *, servers: tuple[str, ...] = SERVERS) -> Live:
    """Show the load of an all-reduce over the first GPUs of a server, on the rings that reach the highest bandwidth.

    Parameters
    ----------
    server : str
        One of ``servers``.
    gpus : int
        Number of GPUs that take part, from GPU 0 on. 2..8
    servers : tuple of str
        Topologies to offer; each is one server with 8 GPUs.
    """
    arguments = {"server": server, "gpus": gpus, "servers": servers}
    controls: dict[str, Control] = {"server": Choice(servers), "gpus": Slider(2, 8)}
    scene = cache(server_scene)  # the search for rings takes a while
    return live_view("server", arguments, scene, controls)


def server_scene(server: str, gpus: int) -> Scene:
    """Return a picture of a server with the load of the best rings over its first GPUs."""
    fabric = topologies.build(server)
    found = best_rings(fabric, range(gpus))
    caption = text("live.server.said", n=gpus, server=server, rate=found.rate)
    caption += " " + limit_of_rings(fabric, found)
    return scene_of(fabric, np.minimum(found.load, 1.0), said=caption)


def limit_of_rings(fabric: Fabric, found: Rings) -> str:
    """Return a sentence on what limits rings in a server: the links between its GPUs, PCIe or a CPU."""
    kinds = np.array(fabric.kinds)
    kind_of_node = kinds[fabric.kind]  # (N,)
    if not found.outside:
        from_first = fabric.source == fabric.endpoint[0]
        to_peer = np.isin(kind_of_node[fabric.target], ("gpu", "nvswitch"))
        own = from_first & to_peer  # (L,)
        used = fabric.ports[own & (found.load > 0)].sum()
        return text("live.server.own", used=used, all=fabric.ports[own].sum())

    full = found.load > 1 - 1e-6  # (L,)
    ends = np.concatenate([fabric.source[full], fabric.target[full]])
    if "cpu" in kind_of_node[ends]:
        return text("live.server.cpu")
    return text("live.server.pcie")


def gigaio(wiring: str = "2s-2rp-std-flat", *, wirings: tuple[str, ...] = WIRINGS) -> Live:
    """Show two boxes of GPUs on a PCIe fabric, with the load that the rings of an all-reduce put on each link.

    Parameters
    ----------
    wiring : str
        One of ``wirings``.
    wirings : tuple of str
        Wirings to offer, by the names that `fabriclab.topologies.gigaio` takes.
    """
    arguments = {"wiring": wiring, "wirings": wirings}
    scene = cache(gigaio_scene)  # rings take a while
    return live_view("gigaio", arguments, scene, {"wiring": Choice(wirings)})


def gigaio_scene(wiring: str) -> Scene:
    """Return a picture of two boxes of GPUs with the load of each link by rings, relative to the fullest link."""
    fabric = topologies.build("gigaio", wiring=wiring)
    order = rings(fabric)  # (rings, GPUs)
    source = fabric.endpoint[order]
    target = np.roll(source, -1, axis=1)
    hops = Flows.make(source.ravel(), target.ravel(), 1.0)
    rings_on_link = route(fabric, hops).link_bytes(hops, fabric.n_links)  # (L,)
    load = rings_on_link / fabric.capacity
    fullest = int(load.argmax())
    caption = text(
        "live.gigaio.said",
        wiring=wiring,
        n=len(order),
        rate=ring_busbw("all_reduce", fabric, order),
        most=rings_on_link[fullest],
        link=fabric.link_name(fullest),
    )
    return scene_of(fabric, load / load[fullest], said=caption)
