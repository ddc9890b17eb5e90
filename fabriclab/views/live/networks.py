"""Live views of networks: families compared, a twisted torus, traffic on rails, failures, and cuts."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab import catalog, collectives, metrics, operations, topologies
from fabriclab.core import Fabric, Floats, Flows, Ints
from fabriclab.routing import route
from fabriclab.texts import text
from fabriclab.views.fabrics import MOST_NODES, scene_of
from fabriclab.views.layout import counted, link_in_words, marks_of
from fabriclab.views.live.ways import uplinks
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.maps import is_direct, places_of
from fabriclab.views.scene import COLOUR, Layer, Scene, ink_on, key, lines

SIZES = (16, 64, 256, 1024)
# illustrative: for each family and each entry of SIZES, a member with about so many endpoints
_FILE = Path(__file__).with_name("families.json")
FAMILIES: dict[str, list[dict[str, Any]]] = json.loads(_FILE.read_text(encoding="utf-8"))
_MOST_FAILURES = 32
_BEND_POINTS = 24  # points of a cable that is drawn as a curve
Complex = NDArray[np.complexfloating[Any, Any]]


def send_rates(fabric: Fabric) -> Floats:
    """Return the total rate of all links out of each endpoint, (P,). [B/s]."""
    of_node = np.bincount(fabric.source, fabric.capacity, fabric.n_nodes)  # (N,)
    return np.asarray(of_node[fabric.endpoint])


# Uniform traffic --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UniformTraffic:
    """Uniform all-to-all traffic at the highest rate that the fullest link allows."""

    load: Floats  # (L,) load of each link, as a fraction of its capacity
    diameter: int  # [hops]
    mean_hops: float
    throughput: float  # fraction of line rate at which a rank can send
    rate: float  # mean rate at which a rank sends [B/s]
    cables: int

    @property
    def fields(self) -> dict[str, Any]:
        """The figures under the names that captions use for them."""
        return {
            "diameter": self.diameter,
            "mean": self.mean_hops,
            "part": 100 * self.throughput,
            "rate": self.rate,
            "cables": counted(self.cables, "cable"),
        }


def uniform_traffic(fabric: Fabric) -> UniformTraffic:
    """Return the load and the figures of uniform traffic at the throughput of a fabric."""
    hops = metrics.hops(fabric)
    # Each rank sends at its full rate, in equal parts to all others. [B/s]
    to_each = send_rates(fabric) / (fabric.n_ranks - 1)
    bytes_per_second, *_ = metrics.traffic.uniform_load(fabric, to_each)
    load = bytes_per_second / np.maximum(fabric.capacity, 1.0)
    part = 1 / load.max()  # fraction of line rate at which the fullest link is just full
    return UniformTraffic(
        load=load * part,
        diameter=hops.diameter,
        mean_hops=hops.mean,
        throughput=part,
        rate=part * (fabric.n_ranks - 1) * to_each.mean(),
        cables=fabric.n_cables,
    )


# Explorer ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """A network of a family, with its load under uniform traffic and its figures in words."""

    fabric: Fabric
    load: Floats  # (L,)
    caption: str


def explorer(
    family: str = "fat_tree",
    size: int = 64,
    colour: str = "load",
    *,
    families: tuple[str, ...] = tuple(FAMILIES),
) -> Live:
    """Compare families of networks of about equal size: switches, cables, hops, and throughput of uniform traffic.

    Parameters
    ----------
    family : str
        One of ``families``.
    size : int
        Approximate number of endpoints: 16, 64, 256 or 1,024.
    colour : str
        What the colour of a link shows: "load" (under all-to-all traffic at the rate that the fullest link allows) or
        "tier"; in a network without tiers, "tier" shows the axis of each cable.
    families : tuple of str
        Which families to offer.
    """
    arguments = {"family": family, "size": size, "colour": colour, "families": families}
    controls: dict[str, Control] = {
        "family": Choice(families),
        "size": Choice(SIZES),
        "colour": Choice(("load", "tier")),
    }
    return live_view("explorer", arguments, explorer_scene, controls)


def explorer_scene(family: str, size: int, colour: str) -> Scene:
    """Return a picture of the member of a family with about ``size`` endpoints."""
    member = family_member(family, size)
    load = member.load if colour == "load" else None
    return scene_of(member.fabric, load, colour, said=member.caption)


@cache
def family_member(family: str, size: int) -> FamilyMember:
    """Return the member of a family with about ``size`` endpoints, under uniform traffic."""
    fabric = topologies.build(family, **FAMILIES[family][SIZES.index(size)])
    traffic = uniform_traffic(fabric)
    endpoint_kind = fabric.kinds[fabric.kind[fabric.endpoint[0]]]
    caption = text(
        "live.explorer.said",
        ends=counted(fabric.n_ranks, endpoint_kind),
        links=links_in_words(fabric),
        switches=counted(int(np.sum(fabric.tier > 0)), "switch"),
        **traffic.fields,
    )
    return FamilyMember(fabric, traffic.load, caption)


def links_in_words(fabric: Fabric) -> str:
    """Return in words how many links an endpoint has: "4 links", or a range if endpoints differ."""
    links = np.bincount(fabric.source, minlength=fabric.n_nodes)[fabric.endpoint]  # (P,)
    words = counted(int(links.max()), "link")
    if np.ptp(links):
        return text("fabric.to", rate=links.min()) + " " + words
    return words


# Twist ------------------------------------------------------------------------------------------


def twist(shape: tuple[int, ...] = (4, 4, 8), shift: int = 0, colour: str = "load") -> Live:
    """Show a torus whose closing cables can be shifted: the same cables then give other routes.

    Parameters
    ----------
    shape : tuple of int
        Length of each side; some sides have k chips, the others 2k.
    shift : int
        By how many places along the long sides the cables that close a short side are shifted; 0 is the plain torus.
    colour : str
        As in `explorer`.
    """
    arguments = {"shape": shape, "shift": shift, "colour": colour}
    rate = catalog.value("links", "ici-tpu4", "bandwidth_per_link")
    scene = partial(twist_scene, shape, int(np.argmin(shape)), rate)
    controls: dict[str, Control] = {
        "shift": Slider(0, max(shape) - 1),
        "colour": Choice(("load", "tier")),
    }
    return live_view("twist", arguments, scene, controls)


def twist_scene(shape: tuple[int, ...], short: int, rate: float, shift: int, colour: str) -> Scene:
    """Return a picture of a twisted torus that highlights one of its rings along the axis ``short``."""
    fabric = topologies.build("twisted_torus", shape=shape, shift=shift, rate=rate)
    traffic = uniform_traffic(fabric)
    ring = short_ring(fabric, short)
    caption = text(
        "live.twist.said",
        shift=shift,
        along=loads_in_words(fabric, traffic.load),
        axis=fabric.coord_names[short],
        ring=counted(len(ring), "chip"),
        **traffic.fields,
    )
    load = traffic.load if colour == "load" else None
    drawn = scene_of(fabric, load, colour, said=caption)
    if drawn.wrong:  # too large to be drawn
        return drawn

    paths = ring_paths(fabric, ring, short, chip_places(drawn))
    # The ring is drawn above the cables and below everything else.
    layers = {
        "cables": drawn.layers["cables"],
        "stubs": drawn.layers["stubs"],
        "ring": lines(paths, width=3.0, colour=COLOUR["overloaded"]),
        **drawn.layers,
    }
    return replace(drawn, layers=layers)


def loads_in_words(fabric: Fabric, load: Floats) -> str:
    """Return in words the load of the fullest link of each axis of a torus, such as "x 50%, y 100%"."""
    by_axis = load.reshape(len(fabric.coord_names), -1)  # cables are numbered axis by axis
    percent = 100 * by_axis.max(axis=1)
    pairs = zip(fabric.coord_names, percent, strict=True)
    return ", ".join(f"{name} {part:.3g}%" for name, part in pairs)


def short_ring(fabric: Fabric, short: int) -> list[int]:
    """Return the chips of one ring along the axis ``short`` of a torus, in their order.

    The ring begins at an edge of the map with room outside for the cables that close it.
    """
    side = 1 if short == 0 else 0
    along = fabric.coord[:, short]
    across = fabric.coord[:, side]
    at_edge = (along == 0) & (across == across.max())  # (N,)
    first = int(np.flatnonzero(at_edge)[0])

    # Every second link is the forward direction of a cable, and cables are numbered axis by axis.
    next_chip = fabric.target[::2].reshape(len(fabric.coord_names), -1)[short]  # (N,)
    ring = [first]
    chip = int(next_chip[first])
    while chip != first:
        ring.append(chip)
        chip = int(next_chip[chip])
    return ring


def chip_places(drawn: Scene) -> Complex:
    """Return the middle of each chip (N,) in a picture, as complex numbers x + iy. [px]."""
    box = drawn.layers["nodes"].fields
    middle: Complex = box["x"] + box["w"] / 2 + 1j * (box["y"] + box["h"] / 2)
    return middle


def ring_paths(fabric: Fabric, ring: list[int], short: int, places: Complex) -> list[Floats]:
    """Return the cables of a ring as paths (24, 2): straight, or bent where a cable closes the ring.

    A bend is a cubic Bezier curve through four points, of which the first and the last are chips: for t from 0 to 1,
    (1-t)^3 p0 + 3 (1-t)^2 t p1 + 3 (1-t) t^2 p2 + t^3 p3.
    """
    t = np.linspace(0, 1, _BEND_POINTS)
    weights = np.stack([(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3])  # (4, 24)

    # Near both of its chips a bend leaves the map, by about one cell.
    cell = np.sort(np.abs(places - places[ring[0]]))[1]
    if short == 1:
        leave = cell * (1.6 + 1.2j)
        arrive = leave.conjugate()
    else:
        leave = cell * (1.2 + 1.6j)
        arrive = -leave.conjugate()
    swing = np.array([0, leave, arrive, 0])

    last = fabric.coord[:, short].max()
    paths = []
    for chip, following in pairwise([*ring, ring[0]]):
        points = places[[chip, chip, following, following]]
        if fabric.coord[chip, short] == last:
            points = points + swing
        curve = points @ weights  # (24,)
        paths.append(np.stack([curve.real, curve.imag], axis=1))
    return paths


# Mix --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of ranks that send to each other: the source and the target of each."""

    source: Ints  # (F,)
    target: Ints  # (F,)


def mix(
    fabric: Fabric,
    share: int = 0,
    routing: str = "spray",
    colour: str = "load",
    *,
    routings: tuple[str, ...] = ("spray", "pxn"),
) -> Live:
    """Show rings on the rails mixed with all-to-all: how much traffic stays on a leaf, and how much crosses a spine.

    Every GPU sends the same number of bytes: one part in equal shares to all GPUs of other servers, and the rest to
    the next GPU of its rail.

    Parameters
    ----------
    fabric : Fabric
        A fabric with rails, such as ``topologies.build("rail_optimised", servers=16)``.
    share : int
        Share of the bytes that are all-to-all traffic. [%]
    routing, colour : str
        One of ``routings``; what the colour of a link shows: load, tier or rail.
    routings : tuple of str
        Routings to offer. "spray" sends from the GPU's own NIC; "pxn" sends over NVLink to the GPU on the target's
        rail, whose NIC then sends.
    """
    arguments = {
        "fabric": fabric,
        "share": share,
        "routing": routing,
        "colour": colour,
        "routings": routings,
    }
    controls: dict[str, Control] = {
        "share": Slider(0, 100, 5, unit="%"),
        "routing": Choice(routings),
        "colour": Choice(("load", "tier", "rail")),
    }
    ring_load = cache(partial(load_of_pairs, fabric, rail_neighbours(fabric)))
    all_load = cache(partial(load_of_pairs, fabric, pairs_of_servers(fabric)))
    scene = partial(mix_scene, fabric, ring_load, all_load, uplinks(fabric))
    return live_view("mix", arguments, scene, controls)


def rail_neighbours(fabric: Fabric) -> Pairs:
    """Pair each GPU with the next GPU of its rail."""
    groups = np.array(collectives.rail_groups(fabric))  # (rails, servers)
    return Pairs(groups.ravel(), np.roll(groups, -1, axis=-1).ravel())


def pairs_of_servers(fabric: Fabric) -> Pairs:
    """Pair each GPU with every GPU of another server."""
    server = fabric.server  # (P,)
    source, target = np.nonzero(server[:, None] != server[None, :])
    return Pairs(source, target)


def load_of_pairs(fabric: Fabric, pairs: Pairs, routing: str) -> Floats:
    """Return what each link carries (L,) if every GPU sends a total of 1, in equal shares to its targets."""
    source = fabric.endpoint[pairs.source]
    target = fabric.endpoint[pairs.target]
    flows = Flows.make(source, target, 1.0)
    carried = route(fabric, flows, routing).link_bytes(flows, fabric.n_links)
    return carried * fabric.n_ranks / pairs.source.size


def mix_scene(
    fabric: Fabric,
    ring_load: Callable[[str], Floats],
    all_load: Callable[[str], Floats],
    uplinks: Ints,
    share: int,
    routing: str,
    colour: str,
) -> Scene:
    """Return a picture of a fabric under both kinds of traffic, of which ``share`` per cent are all-to-all.

    ``ring_load`` and ``all_load`` return what each link carries (L,) of their kind, given the name of a routing;
    ``uplinks`` are the links from leaves to spines.
    """
    part = share / 100
    carried = (1 - part) * ring_load(routing) + part * all_load(routing)  # (L,)
    over_spine = float(carried[uplinks].sum()) / fabric.n_ranks
    time = carried / fabric.capacity  # (L,)
    caption = text(
        "live.mix.said",
        share=share,
        routing=routing,
        spine=100 * over_spine,
        leaf=100 * (1 - over_spine),
        link=link_in_words(fabric, int(time.argmax())),
    )
    return scene_of(fabric, time / time.max(), colour, said=caption)


# Failures ---------------------------------------------------------------------------------------


def failures(
    fabric: Fabric,
    what: str = "cable",
    count: int = 1,
    seed: int = 0,
    *,
    kinds: tuple[str, ...] = ("cable", "leaf", "spine"),
) -> Live:
    """Show a fabric in which some parts, chosen at random, have failed, and the bandwidth that is left.

    Parameters
    ----------
    fabric : Fabric
        What to show.
    what : str
        One of ``kinds``.
    count : int
        Number of parts that fail, at most 32.
    seed : int
        Seed of the random choice.
    kinds : tuple of str
        Kinds of parts that may fail, as in `fabriclab.operations.parts`.
    """
    arguments = {"fabric": fabric, "what": what, "count": count, "seed": seed, "kinds": kinds}
    parts = {kind: list(operations.parts(fabric, kind)) for kind in kinds}
    fewest = min(_MOST_FAILURES, *map(len, parts.values()))
    controls: dict[str, Control] = {
        "what": Choice(kinds),
        "count": Slider(0, fewest),
        "seed": Slider(0, 20),
    }
    scene = partial(failures_scene, fabric, parts)
    return live_view("failures", arguments, scene, controls)


def failures_scene(
    fabric: Fabric, parts: Mapping[str, list[Any]], what: str, count: int, seed: int
) -> Scene:
    """Return a picture of a fabric in which ``count`` parts of the kind ``what`` have failed, chosen by ``seed``."""
    candidates = parts[what]
    drawn = np.random.default_rng(seed).permutation(len(candidates))[:count]
    damaged = operations.fail(fabric, what, [candidates[i] for i in drawn])
    report = operations.report(fabric, damaged)
    caption = text(
        "live.failures.said",
        seed=seed,
        n=drawn.size,
        what=counted(len(candidates), what),
        part=100 * report.bandwidth,
        cut=counted(report.cut_off.size, "rank"),
    )
    through_neighbours = np.setdiff1d(report.alone, report.cut_off).size
    if through_neighbours:
        ranks = counted(through_neighbours, "rank")
        caption += " " + text("live.failures.alone", ranks=ranks)
    return scene_of(damaged, None, "failure", said=caption)


# Cut --------------------------------------------------------------------------------------------


# Colours of the picture of a cut, in the order of its key.
_CUT_COLOURS = {
    "one": COLOUR["dp"],
    "other": COLOUR["host"],
    "both": COLOUR["switch"],
    "cut": COLOUR["overloaded"],
}


def cut(fabric: Fabric, first: int = 0, order: str = "in order") -> Live:
    """Split the ranks into halves, and show the smallest set of links that separates them.

    Parameters
    ----------
    fabric : Fabric
        What to show.
    first : int
        Place in the order at which the first half begins.
    order : str
        Order of the ranks: "in order", "every other" rank first, or "shuffled".
    """
    arguments = {"fabric": fabric, "first": first, "order": order}
    orders = rank_orders(fabric.n_ranks)
    bound = metrics.bisection(fabric).lower
    scene = partial(cut_scene, fabric, orders, bound)
    controls: dict[str, Control] = {
        "first": Slider(0, fabric.n_ranks - 1),
        "order": Choice(tuple(orders)),
    }
    return live_view("cut", arguments, scene, controls)


def rank_orders(ranks: int) -> dict[str, Ints]:
    """Return the orders (P,) that the ranks can be split in, by name."""
    in_order = np.arange(ranks)
    return {
        "in order": in_order,
        "every other": np.argsort(in_order % 2, kind="stable"),
        "shuffled": np.random.default_rng(0).permutation(ranks),
    }


def cut_scene(
    fabric: Fabric, orders: Mapping[str, Ints], bound: float, first: int, order: str
) -> Scene:
    """Return a picture of a fabric with the smallest set of links that separates one half of the ranks from the other.

    The first half begins at place ``first`` of an order. Separating any half takes links of at least ``bound`` [B/s].
    """
    size = fabric.n_ranks // 2
    half = np.roll(orders[order], -first)[:size]
    links = metrics.cut(fabric, half)
    rate = float(fabric.capacity[links].sum())  # [B/s]
    own = send_rates(fabric)  # (P,) [B/s]
    caption = text(
        "live.cut.said",
        order=order,
        first=half[0],
        links=counted(links.size, "link"),
        rate=rate,
        part=100 * rate / own[half].sum(),
        least=bound,
    )
    # No cut needs more than the ranks of a half can send, and none is below the bound.
    if bound >= np.sort(own)[-size:].sum():
        caption += " " + text("live.cut.full")

    is_cut = np.isin(np.arange(fabric.n_links), links).astype(float)  # (L,)
    drawn = scene_of(fabric, is_cut, said=caption, hall=False)
    if drawn.wrong:
        return drawn
    return halved(drawn, box_colours(fabric, drawn, half))


def box_colours(fabric: Fabric, drawn: Scene, half: Ints) -> Floats:
    """Return the colour of each box (B,): its ranks are all of one half, all of the other, or of both or none."""
    if is_direct(fabric):
        _, box_of_node, _ = places_of(fabric)
    else:
        box_of_node = marks_of(fabric, fabric.n_nodes > MOST_NODES, through=True).of_node
    boxes = drawn.layers["nodes"].fields["x"].size
    ranks = np.bincount(box_of_node[fabric.endpoint], minlength=boxes)  # (B,)
    of_half = np.bincount(box_of_node[fabric.endpoint[half]], minlength=boxes)  # (B,)

    all_of_half = (of_half > 0) & (of_half == ranks)
    none_of_half = (of_half == 0) & (ranks > 0)
    return np.select(
        [all_of_half, none_of_half],
        [_CUT_COLOURS["one"], _CUT_COLOURS["other"]],
        _CUT_COLOURS["both"],
    )


def halved(drawn: Scene, colours: Floats) -> Scene:
    """Return the picture of a cut with its own colours and words; in ``drawn``, links of the cut have load 1.

    ``colours`` are the colours of the boxes, which show the halves.
    """
    table = cut_table(drawn)
    nodes = drawn.layers["nodes"].fields
    layers = {
        **drawn.layers,
        "nodes": Layer("boxes", {**nodes, "colour": colours, "ink": ink_on(colours)}),
    }
    cut_of = cut_by_name(table)
    for name in ("cables", "stubs"):
        if name in layers:
            layers[name] = cut_lines(layers[name], cut_of)
    layers |= cut_key(drawn, colours)
    for name in ("case", "idle"):
        layers.pop(name, None)
    return replace(drawn, layers=layers, alt=drawn.said, table=Table(table))


def cut_table(drawn: Scene) -> dict[str, Any]:
    """Return the table of a picture, with the number of cut cables in each line instead of the load."""
    table = dict(drawn.table.columns) if drawn.table else {}
    table["cut"] = np.rint(table.pop("load") * table["cables"]).astype(int)
    del table["fullest"]
    return table


@dataclass(frozen=True, slots=True)
class CutCables:
    """Number of cables that are drawn as one line, and of those among them that are cut."""

    cables: int
    cut: int

    @property
    def note(self) -> str:
        """Both numbers in words."""
        return text("live.cut.note", cables=counted(self.cables, "cable"), n=self.cut)


def cut_by_name(table: Mapping[str, Any]) -> dict[str, CutCables]:
    """Return the cables of each line of a picture, by the name of the line."""
    rows = zip(table["from"], table["to"], table["cables"], table["cut"], strict=True)
    return {f"{a} – {b}": CutCables(int(cables), cut) for a, b, cables, cut in rows}


def cut_lines(layer: Layer, cut_of: Mapping[str, CutCables]) -> Layer:
    """Return lines among which those with cut cables stand out."""
    fields = layer.fields
    is_cut = np.array([cut_of[name].cut > 0 for name in fields["names"]])
    look = {
        "colour": np.where(is_cut, _CUT_COLOURS["cut"], COLOUR["grey"]),
        "alpha": np.where(is_cut, 1.0, 0.4),
        "width": np.where(is_cut, np.maximum(fields["width"], 2.0), fields["width"]),
        "notes": [cut_of[name].note for name in fields["names"]],
    }
    return Layer("lines", {**fields, **look})


def cut_key(drawn: Scene, colours: Floats) -> dict[str, Layer]:
    """Return a key to the colours that occur, drawn where the scale of loads would be."""
    names = []
    for name, colour in _CUT_COLOURS.items():
        is_there = name == "cut" or colour in colours
        names.append(text(f"live.cut.{name}") if is_there else "")
    y = float(drawn.layers["scale"].fields["y"][0])
    return key(y, "", names, list(_CUT_COLOURS.values()))
