"""Live views of routes: between two endpoints, hashed to cables, of rings over rails, and in servers or GPU boxes."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab import catalog, collectives, topologies, units
from fabriclab.core import Fabric, Flags, Floats, Flows, Ints, Routes
from fabriclab.routing import route
from fabriclab.routing.ecmp import expected_fullest
from fabriclab.routing.shortest import hashed
from fabriclab.simulation import Rings, best_rings, ring_busbw, simulate
from fabriclab.texts import text
from fabriclab.topologies.gigaio import WIRINGS, parts_of, rings
from fabriclab.views.common import common_ends
from fabriclab.views.fabrics import MOST_NODES, Canvas, row_names, scene_of
from fabriclab.views.layout import (
    Lines,
    Marks,
    Placed,
    boxes_of,
    counted,
    holder,
    lines_of,
    link_in_words,
    marks_of,
    number_in,
    part_apart,
    paths_of,
    place_name,
    port_gaps,
    server_name,
    spoken_names,
)
from fabriclab.views.live.controls import routing_name
from fabriclab.views.live.widget import Choice, Control, Live, Slider, Table, live_view
from fabriclab.views.loops import clear_numbers, drawn_path, step_numbers
from fabriclab.views.maps import is_direct, places_of
from fabriclab.views.page import spread
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    heading,
    ink_on,
    lines,
    link_width,
    texts,
    texts_at,
)
from fabriclab.views.sweeps import capitalised

SERVERS = ("mi300x", "dgx1v", "dgx_h100")

Complexes = NDArray[np.complex128]

# The picture of the roulette, in px: a row of bars, with a scale of flows on the left.
_BARS_ROOM = 604.0
_BARS_LEFT = 46.0
_BARS_WIDTH = 440.0
_BARS_FOOT = 290.0
_BARS_HEIGHT = 222.0
_LINE_ENDS = (_BARS_LEFT - 6, _BARS_LEFT + _BARS_WIDTH + 4)
_SEEDS = 100
_WORDS_STEP = 15.0
# Beside it: a bar for each number of flows on the fullest cable, as tall as seeds give it.
_SEEDS_LEFT = 24.0
_SEEDS_RIGHT = 256.0
_SEEDS_TOP = 66.0  # of the tallest bar
_SEEDS_STEP = 56.0  # greatest distance between two bars
_SEEDS_FILL = 0.76  # width of a bar over that distance
_SEEDS_NUMBERED = 18.0  # bars that are closer than this have no numbers
_SEEDS_TICKS = 9  # at most so many bars have a name below

# A picture with a panel beside it, in px.
HALL_WIDTH = 604.0
SIDE_WIDTH = 276.0
_FEWEST_FLOWS = 2  # an axis of flows ends there at least
_TWO_TIERS, _MARGIN_LINE = (
    4,
    15.0,
)  # lines of words beside two tiers of cables, and from one to the next [px]
_NAME_ROOM = 13.0  # from a dot to its name
_SHORT = 40.0  # a link between two boxes that has no room for its number
_BESIDE = 8.0  # from such a link to its number
_BAR_ROW = 20.0  # distance between two bars that compare routings
_BAR_NAMES = 66.0  # room for the names of routings
_STEP_ROW = 17.0  # distance between two links of a list
_PANEL_WIDTH = 390.0  # of a wiring, without the names of its rows
_DIGIT = 7.0  # width of a digit
_ORDER_HEIGHT = 110.0  # room for the order of a ring, below the servers


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
    kind = end_kind(fabric)
    ends = [
        Slider(0, fabric.n_ranks - 1, label=text(key, kind=kind))
        for key in ("live.paths.from", "live.paths.to")
    ]
    arguments = {
        "fabric": fabric,
        "source": source,
        "target": fabric.n_ranks - 1 if target is None else target,
        "routing": routing,
        "routings": routings,
    }
    controls: dict[str, Control] = {
        "source": ends[0],
        "target": ends[1],
        "routing": Choice(routings, names=tuple(map(routing_name, routings))),
    }
    scene = partial(paths_scene, fabric, routings)
    return live_view("paths", arguments, scene, controls)


def end_kind(fabric: Fabric) -> str:
    """Return what the ends of routes are called: "host" if rank 3 is named host 3, and so on, else "rank"."""
    names = spoken_names(fabric)
    kind = names[int(fabric.endpoint[0])].split()[0]
    is_plain = all(names[node] == f"{kind} {i}" for i, node in enumerate(fabric.endpoint.tolist()))
    return kind if is_plain and not is_direct(fabric) else text("trace.rank")


def paths_scene(
    fabric: Fabric, routings: tuple[str, ...], source: int, target: int, routing: str
) -> Scene:
    """Return a picture of a fabric with the links that a flow between two ranks uses.

    A direct network has a panel beside it, which compares the routings and lists the links of a single route; where its
    switches stand in groups, these links are numbered in the picture.
    """
    start = int(fabric.endpoint[source])
    names = rank_names(fabric) if is_direct(fabric) else spoken_names(fabric)
    if source == target:
        caption = text("live.paths.same", a=names[start])
        drawn = scene_of(fabric, np.zeros(fabric.n_links), said=caption)
        return beside(drawn, PathPanel((), (), 0, ())) if is_direct(fabric) else drawn

    taken = [routes_between(fabric, source, target, name) for name in routings]
    routes = taken[routings.index(routing)]
    use = use_of_links(routes, fabric.n_links)
    path: list[int] = []
    ends = {"a": names[start], "b": names[int(fabric.endpoint[target])]}
    if routes.n_rows == 1 and np.all(routes.use == 1):
        path = path_from(fabric, start, np.flatnonzero(use))
        caption = text(
            "live.paths.way",
            **ends,
            way=" → ".join(names[node] for node in path),
            hops=routes.link.size,
            routing=routing_name(routing),
        )
    else:
        caption = text(
            "live.paths.said",
            **ends,
            hops=use.sum(),
            links=np.count_nonzero(use),
            routing=routing_name(routing),
        )
    if not is_direct(fabric):
        return scene_of(fabric, use, said=caption)

    if path:  # the panel lists the links
        caption = text("live.paths.single", **ends, hops=use.sum(), routing=routing_name(routing))
    drawn = scene_of(fabric, use, said=caption)
    if drawn.wrong:
        return drawn
    ends_of_route = (start, int(fabric.endpoint[target]))
    layers = {**drawn.layers, **step_layers(fabric, drawn.layers, ends_of_route, path)}
    links = tuple(use_of_links(one, fabric.n_links) for one in taken)
    panel = PathPanel(
        tuple(map(routing_name, routings)),
        links,
        routings.index(routing),
        tuple(names[node] for node in path),
    )
    return beside(replace(drawn, layers=layers), panel)


def routes_between(fabric: Fabric, source: int, target: int, routing: str) -> Routes:
    """Return the routes of a flow between two ranks."""
    flow = Flows.make(fabric.endpoint[[source]], fabric.endpoint[[target]], 1.0)
    return route(fabric, flow, routing)


@lru_cache(maxsize=8)
def rank_names(fabric: Fabric) -> tuple[str, ...]:
    """Return the name of each node (N,) of a direct network; an endpoint beside its switch is called by its rank."""
    names = [place_name(fabric, node) for node in range(fabric.n_nodes)]
    for rank, node in enumerate(fabric.endpoint.tolist()):
        if not fabric.transit[node]:
            names[node] = text("live.paths.rank", n=rank)
    return tuple(names)


def step_layers(
    fabric: Fabric, layers: Mapping[str, Layer], ends: tuple[int, int], path: list[int]
) -> dict[str, Layer]:
    """Return the names of both ends of a flow, and the numbers of its links if it has a single ``path``.

    Only where switches stand in groups on a ring.
    """
    if "hosts" not in layers or fabric.transit[fabric.endpoint].any():
        return {}
    box, dots = layers["nodes"].fields, layers["hosts"].fields
    if "w" not in box or dots["x"].size != fabric.n_ranks:
        return {}
    middle = box["x"] + box["w"] / 2 + 1j * (box["y"] + box["h"] / 2)
    at = middle[places_of(fabric).of_node].astype(np.complex128)  # (N,) the box of each node
    at[fabric.endpoint] = dots["x"] + 1j * dots["y"]
    centre = middle.mean()
    found = {"ends of the route": end_names(fabric, at, centre, ends)}
    if path:
        inner = [drawn_path(layers, at[a], at[b]) for a, b in itertools.pairwise(path[1:-1])]
        first = np.linspace(at[path[0]], at[path[1]], 33)
        last = np.linspace(at[path[-2]], at[path[-1]], 33)
        ways = [first, *inner, last]
        places = clear_numbers(ways, layers)
        for i, way in enumerate(inner, 1):
            if abs(way[0] - way[-1]) < _SHORT:  # too short for a number: it stands outside
                out = way[16] - centre
                places[i] = way[16] + _BESIDE * out / abs(out)
        found["steps"] = step_numbers(places.real, places.imag, len(ways), colour=COLOUR["ink"])
    return found


def end_names(fabric: Fabric, at: Complexes, centre: complex, ends: tuple[int, int]) -> Layer:
    """Return the names of two endpoints, outside of their dots and on the side away from the name of their group."""
    out = at[list(ends)] - centre
    where = centre + out * (1 + _NAME_ROOM / np.abs(out))
    group = fabric.coordinate("group")
    align = []
    for node, own in zip(ends, out, strict=True):
        mates = at[fabric.transit & (group == group[node])]
        is_left = own.real < (mates.mean() - centre).real
        if abs(own.real) > abs(own.imag):
            is_left = own.real < 0
        align.append(2.0 if is_left else 0.0)
    names = rank_names(fabric)
    look = {"bold": 1.0, "halo": 1.0, "colour": COLOUR["ink"]}
    words = [names[node] for node in ends]
    return texts(where.real, where.imag, words, align=np.array(align), **look)


class PathPanel(NamedTuple):
    """What stands beside the picture of a route."""

    routings: tuple[str, ...]  # their names
    use: tuple[Floats, ...]  # of each routing, the part of the flow on each link (L,)
    now: int  # number of the routing that is shown
    names: tuple[str, ...]  # of the nodes of its route, if it is a single one


def beside(drawn: Scene, panel: PathPanel) -> Scene:
    """Return the picture of a direct network with a panel that compares the routings and lists the links of a route."""
    across = [float(use.sum()) for use in panel.use]
    spread_over = [float(np.count_nonzero(use)) for use in panel.use]
    of_crossed = text("live.paths.crossed")
    of_used = text("live.paths.used")
    below = 56.0 + _BAR_ROW * len(across)
    rows = {
        **routing_bars("crossed", of_crossed, 24.0, panel, across),
        **routing_bars("used", of_used, below, panel, spread_over),
        **route_list(panel, 96.0 + 2 * _BAR_ROW * len(across), drawn.height),
    }
    side = Scene("", layers=rows, height=drawn.height, width=SIDE_WIDTH)
    return replace(narrowed(drawn), side=side)


def narrowed(drawn: Scene) -> Scene:
    """Return the picture of a direct network with less room beside it, so that a panel has room there."""
    left = (drawn.width - HALL_WIDTH) / 2
    layers = {}
    for name, layer in drawn.layers.items():
        fields = dict(layer.fields)
        if "z" in fields:
            fields["middle"] = [fields["middle"][0] - left, fields["middle"][1]]
        elif "x" in fields:
            fields["x"] = np.asarray(fields["x"]) - left
        layers[name] = Layer(layer.kind, fields)
    return replace(drawn, layers=layers, width=HALL_WIDTH)


def routing_bars(
    name: str, title: str, top: float, panel: PathPanel, values: Sequence[float]
) -> dict[str, Layer]:
    """Return a title and a bar for each routing, that of the routing shown in ink; all are numbered."""
    if not values:
        return {}
    _, highest = common_ends(name, 0.0, max(values))
    y = top + 22.0 + _BAR_ROW * np.arange(len(values))
    start = 14.0 + _BAR_NAMES
    long = (SIDE_WIDTH - start - 54.0) * np.array(values) / highest
    is_now = np.arange(len(values)) == panel.now
    colours = np.where(is_now, COLOUR["ink"], COLOUR["soft"])
    layers = {
        "title": heading(top, title, 14.0),
        "names": texts(14.0, y, panel.routings, bold=is_now.astype(float), colour=colours),
        "bars": boxes(
            start,
            y - 6,
            np.maximum(long, 1.0),
            12.0,
            colour=np.where(is_now, COLOUR["ink"], COLOUR["hair"]),
            round=2.0,
            glide=True,
        ),
        "numbers": texts(
            start + long + 6,
            y,
            [plain_number(value) for value in values],
            bold=is_now.astype(float),
            colour=colours,
        ),
    }
    return {f"{name} {part}": layer for part, layer in layers.items()}


def plain_number(value: float) -> str:
    """Return a number with three significant digits, a whole one without decimals."""
    return f"{value:.0f}" if value == round(value) else f"{value:.3g}"


def route_list(panel: PathPanel, top: float, height: float) -> dict[str, Layer]:
    """Return the links of a single route in their order, as many as have room.

    A link begins where the one before ends, so only the first names both of its ends.
    """
    room = int((height - top - 12) // _STEP_ROW)
    links = list(itertools.pairwise(panel.names))[: max(room, 0)]
    if not links:
        return {}
    y = top + 22.0 + _STEP_ROW * np.arange(len(links))
    words = [text("loop.row", a="" if i else a, b=b).strip() for i, (a, b) in enumerate(links)]
    numbers = [str(i + 1) for i in range(len(links))]
    return {
        "route title": heading(top, text("live.paths.route"), 14.0),
        "route places": texts(14.0, y, numbers, size=11.0, bold=1.0),
        "route links": texts(34.0, y, words),
    }


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
    """Show how a hash assigns equal flows to equal cables, compared with the expected fullest cable and with spraying.

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
    return live_view("roulette", arguments, roulette_scene, controls, room=1)


def roulette_scene(flows: int, cables: int, seed: int) -> Scene:
    """Return the flows on each cable as bars, with lines at the mean over all seeds and at spraying.

    Beside them is how often the fullest cable has how many flows.
    """
    on_cable = flows_on_cables(flows, cables, seed)
    found = HashedFlows(flows, on_cable, expected_most=expected_fullest(flows, cables))
    heights = rule_heights(found)
    title = text("live.roulette.flows_axis", cables=cables)
    layers = {
        "title": heading(22.0, title, 14.0),
        "bars": flow_bars(found),
        "rules": rules_layer(heights),
        "words": roulette_words(found, heights),
        "most": fullest_number(found),
    }
    caption = roulette_caption(found)
    hint = text("live.roulette.hint", mean=found.expected_most)
    height = _BARS_FOOT + 44
    return Scene(
        caption,
        Table({"cable": np.arange(cables), "flows": on_cable}),
        layers,
        height,
        alt=f"{caption} {hint}",
        hint=hint,
        width=_BARS_ROOM,
        side=seeds_panel(flows, cables, found.most, height),
    )


def flows_on_cables(flows: int, cables: int, seed: int) -> Ints:
    """Return how many of the flows a hash with a seed puts on each cable, (C,)."""
    cable_of_flow = hashed(seed, np.arange(flows)) % np.uint64(cables)
    return np.bincount(cable_of_flow.astype(np.int64), minlength=cables)


@lru_cache(maxsize=64)
def fullest_of_seeds(flows: int, cables: int) -> Ints:
    """Return how many of 100 seeds have so many flows on their fullest cable, (most + 1,)."""
    most = [int(flows_on_cables(flows, cables, seed).max()) for seed in range(_SEEDS)]
    return np.bincount(most)


def seeds_panel(flows: int, cables: int, most: int, height: float) -> Scene:
    """Return how often the fullest cable has how many flows; the bar of the seed that is shown is in ink."""
    bars = seed_bars(fullest_of_seeds(flows, cables), most)
    title = text("live.roulette.seeds")
    below = text("live.roulette.seeds_below")
    layers = {
        "seeds title": heading(22.0, title, 14.0),
        "seeds": seed_boxes(bars),
        "seeds numbers": seed_numbers(bars),
        "seeds ticks": seed_ticks(bars),
        "seeds below": texts(
            _SEEDS_LEFT, np.array([_BARS_FOOT + 31]), [below], colour=COLOUR["soft"]
        ),
    }
    return Scene("", layers=layers, height=height, width=SIDE_WIDTH)


@dataclass(frozen=True, slots=True)
class SeedBars:
    """Where the bars of the fullest cables stand, one for each number of flows that a seed may give. B bars."""

    flows: Ints  # (B,) on the fullest cable
    seeds: Ints  # (B,) how many seeds have so many flows there
    is_shown: Flags  # (B,) whether the seed that is shown is one of them
    step: float  # from a bar to the next [px]
    left: Floats  # (B,) left edges [px]
    height: Floats  # (B,) [px]

    @property
    def top(self) -> Floats:
        """Upper edges of the bars, (B,) [px]."""
        return _BARS_FOOT - self.height

    @property
    def middle(self) -> Floats:
        """Middles of the bars, (B,) [px]."""
        return self.left + _SEEDS_FILL / 2 * self.step


def seed_bars(counts: Ints, most: int) -> SeedBars:
    """Return the places of the bars from the least to the greatest number of flows that any seed has.

    ``counts`` has the number of seeds for each number of flows, and ``most`` are the flows of the seed that is shown.
    """
    found = np.flatnonzero(counts)
    flows = np.arange(found[0], found[-1] + 1)
    seeds = counts[flows]
    room = _SEEDS_RIGHT - _SEEDS_LEFT
    step = min(room / flows.size, _SEEDS_STEP)
    return SeedBars(
        flows=flows,
        seeds=seeds,
        is_shown=flows == most,
        step=step,
        left=_SEEDS_LEFT + step * np.arange(flows.size, dtype=np.float64),
        height=(_BARS_FOOT - _SEEDS_TOP) * seeds / counts.max(),
    )


def seed_boxes(bars: SeedBars) -> Layer:
    """Return a bar for each number of flows, at least 1 px high."""
    names = [counted(int(flows), "flow") for flows in bars.flows]
    notes = [text("live.roulette.of_seeds", n=seeds) for seeds in bars.seeds]
    return boxes(
        bars.left,
        bars.top,
        max(_SEEDS_FILL * bars.step, 2.0),
        np.maximum(bars.height, 1.0),
        colour=np.where(bars.is_shown, COLOUR["ink"], COLOUR["edge"]),
        round=1.0,
        names=names,
        notes=notes,
    )


def seed_numbers(bars: SeedBars) -> Layer:
    """Return the number of seeds above each bar, if there are any and the bars are far enough apart."""
    has_room = bars.step > _SEEDS_NUMBERED
    numbers = []
    for seeds in bars.seeds.tolist():
        is_named = has_room and seeds > 0
        numbers.append(str(seeds) if is_named else "")
    return texts(
        bars.middle,
        bars.top - 10,
        numbers,
        align=1.0,
        size=11.0,
        colour=np.where(bars.is_shown, COLOUR["ink"], COLOUR["soft"]),
        bold=bars.is_shown,
    )


def seed_ticks(bars: SeedBars) -> Layer:
    """Return the number of flows below every bar, or below every second or third one where they are many."""
    every = -(-bars.flows.size // _SEEDS_TICKS)  # rounded up
    return texts(
        bars.middle[::every],
        _BARS_FOOT + 13,
        [str(flows) for flows in bars.flows[::every]],
        align=1.0,
        colour=COLOUR["soft"],
    )


def roulette_caption(found: HashedFlows) -> str:
    """Return the sentence of the picture: the fullest cable, idle cables, and the time compared with spraying."""
    slower = found.most / found.sprayed
    key = "live.roulette.slow" if found.most > found.sprayed else "live.roulette.even"
    return text(
        "live.roulette.said" if found.most > 1 else "live.roulette.alone",
        flows=counted(found.flows, "flow"),
        slow=text(key, slow=slower),
        most=found.most,
        idle=counted(int(np.sum(found.on_cable == 0)), "cable"),
    )


def flow_bars(found: HashedFlows) -> Layer:
    """Return a bar for each cable, at least 1 px high; the fullest one is in ink."""
    step = _BARS_WIDTH / found.cables  # [px]
    height = found.flow_height * found.on_cable  # (C,) [px]
    names = [text("live.roulette.cable", n=cable) for cable in range(found.cables)]
    notes = [counted(int(n), "flow") for n in found.on_cable]
    return boxes(
        _BARS_LEFT + step * np.arange(found.cables),
        _BARS_FOOT - height,
        max(step - 2, 2.0),
        np.maximum(height, 1.0),
        round=1.0,
        colour=np.where(
            np.arange(found.cables) == found.on_cable.argmax(), COLOUR["ink"], COLOUR["edge"]
        ),
        names=names,
        notes=notes,
        ghost=True,
        glide=True,
    )


def fullest_number(found: HashedFlows) -> Layer:
    """Return the number of flows on the fullest cable, above its bar."""
    step = _BARS_WIDTH / found.cables  # [px]
    x = _BARS_LEFT + step * found.on_cable.argmax() + max(step - 2, 2.0) / 2
    y = _BARS_FOOT - found.flow_height * found.most - 10
    return texts(x, np.array([y]), [str(found.most)], align=1.0, bold=1.0, size=13.0, halo=1.0)


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
    return lines(paths, width=1.5, colour=COLOUR["soft"], dash=np.array([1.0, 2.0]))


def roulette_words(found: HashedFlows, heights: Mapping[str, float]) -> Layer:
    """Return the names of the lines, the scale of flows, and the words below the bars."""
    words = []
    apart = spread(list(heights.values()), _WORDS_STEP, 0.0, _BARS_FOOT)
    for name, y in zip(heights, apart.tolist(), strict=True):
        words.append((_LINE_ENDS[1] + 6, y, text(f"live.roulette.{name}"), 0))

    ticks = range(0, found.highest + 1, max(1, found.most // 6))
    for flows in ticks:
        words.append((_BARS_LEFT - 12, _BARS_FOOT - found.flow_height * flows, str(flows), 2))

    below = text("live.roulette.below", cables=found.cables)
    words.append((_BARS_LEFT, _BARS_FOOT + 16, below, 0))
    return texts_at(*words)


# Rings over rails -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RailRings:
    """What rings over the rails of a fabric do to its links, and how often they cross a spine."""

    time: float  # of the whole run [s]
    load: Floats  # (L,) mean load of each link, as a fraction of its capacity
    flows: Floats  # (L,) load of each link, in flows, which all have the same size
    crossings: int  # hops of all rings that cross a spine


def run_rings(
    fabric: Fabric, groups: Ints, size: units.Quantity, seed: int, routing: str
) -> RailRings:
    """Run an all-reduce over each group, in random order or, with seed 0, in the given order."""
    order = collectives.shuffled(groups, seed)
    run = simulate("all_reduce", "ring", fabric, size, placement=order, method=routing)
    flow = run.flows.size[0] * run.timeline.repeat.sum()  # bytes of one flow in all steps [B]
    return RailRings(
        time=run.time,
        load=run.timeline.utilisation(fabric.capacity),
        flows=np.asarray(run.timeline.link_bytes / flow),
        crossings=collectives.spine_crossings(fabric, order),
    )


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
        "routing": Choice(("ecmp", "spray"), names=tuple(map(routing_name, ("ecmp", "spray")))),
        "colour": Choice(("load", "tier", "rail")),
    }
    groups = np.array(collectives.rail_groups(fabric))
    # Half of the time of a picture goes into the run, and a reader comes back to a seed, or changes the colour alone.
    run = cache(partial(run_rings, fabric, groups, size))
    scene = partial(placement_scene, fabric, groups.size, run)
    return live_view("placement", arguments, scene, controls, hidden=("open",))


def placement_scene(
    fabric: Fabric,
    hops: int,
    run: Callable[[int, str], RailRings],
    seed: int,
    routing: str,
    colour: str,
    open: int | None,
) -> Scene:
    """Return a picture of a fabric with the load of rings over its rails, in order or shuffled by ``seed``.

    ``run`` returns the rings for a seed and a routing; together they have so many ``hops``.

    Beside it is a bar, as high as it has flows, for each cable between one leaf and the tier above, in one direction:
    up from the leaf or down into it, wherever the fullest of all these cables is.
    """
    rings = run(seed, routing)
    most = float(rings.flows.max())
    if most > 1 + 1e-9:
        meeting = text("live.placement.flows", n=most)
        caption = text("live.placement.full", flows=meeting, time=rings.time)
    else:
        caption = text("live.placement.alone", time=rings.time)
    key = "live.placement.shuffled" if seed else "live.placement.order"
    caption += " " + text(
        key,
        hops=rings.crossings,
        all=hops,
        routing=routing_name(routing),
        seed=seed,
    )
    up = uplinks(fabric)
    if not up.size:
        return scene_of(fabric, rings.load, colour, open, caption)

    drawn = scene_of(fabric, rings.load, colour, open, caption, width=HALL_WIDTH)
    flows = rings.flows
    between = np.concatenate([up, up ^ 1])  # up, then down: of equally full ones, up is shown
    fullest = between[np.argmax(flows[between])]
    is_up = bool(fabric.tier[fabric.target[fullest]] > fabric.tier[fabric.source[fullest]])
    if is_up:
        leaf = int(fabric.source[fullest])
        cables = up[fabric.source[up] == leaf]
        others = fabric.target
    else:
        leaf = int(fabric.target[fullest])
        cables = up[fabric.source[up] == leaf] ^ 1
        others = fabric.source
    # The row of cables stands in the order of the spines at their other ends.
    cables = cables[np.argsort(others[cables], kind="stable")]
    side = cable_bars(fabric, cables, flows[cables], drawn.height, is_up=is_up)
    in_use = int(np.count_nonzero(np.maximum(flows[up], flows[up ^ 1]) > 0))
    layers = {**drawn.layers, **marked(drawn, spoken_names(fabric)[leaf]), **used(drawn, in_use)}
    hint = text("live.placement.hint", n=cables.size)
    return replace(drawn, layers=layers, side=side, hint=hint)


@lru_cache(maxsize=8)
def uplinks(fabric: Fabric) -> Ints:
    """Return the links from the lowest switches outside of servers to the tier above."""
    is_leaf = np.isin(np.arange(fabric.n_nodes), fabric.nodes("leaf"))  # (N,)
    leads_up = fabric.tier[fabric.target] > fabric.tier[fabric.source]  # (L,)
    return np.flatnonzero(is_leaf[fabric.source] & leads_up)


def marked(drawn: Scene, name: str) -> dict[str, Layer]:
    """Return a frame around the box of a picture with a name, and the name below that of its row, clear of links."""
    box = drawn.layers["nodes"].fields
    here = [i for i, of_box in enumerate(box["names"]) if of_box == name]
    x, y, w, h = (box[side][here] for side in ("x", "y", "w", "h"))
    frame = boxes(x - 2, y - 2, w + 4, h + 4, colour=COLOUR["none"], edge=COLOUR["ink"], round=5.0)
    words = drawn.layers["margins"].fields
    of_rows = np.asarray(words["x"])[np.asarray(words["align"]) > 1]
    label = texts(of_rows.max(), y + h / 2 + 15, [name] * len(here), align=2.0, bold=1.0)
    return {"fullest": frame, "fullest name": label}


def used(drawn: Scene, in_use: int) -> dict[str, Layer]:
    """Return how many cables between leaves and spines carry anything, below their number and rate.

    A line of the picture is as full as its fullest cable, so it does not show how many others stand idle.
    """
    margin = drawn.layers["margins"].fields
    right = np.max(margin["x"])
    lines_of_words = np.sort(margin["y"][margin["x"] == right])
    if lines_of_words.size != _TWO_TIERS:  # one that is open, or of three tiers
        return {}
    words = text("live.placement.in_use", n=in_use)
    below = lines_of_words[1] + _MARGIN_LINE
    return {"in use": texts([right], below, [words])}


def cable_bars(fabric: Fabric, links: Ints, flows: Floats, height: float, *, is_up: bool) -> Scene:
    """Return a panel with a bar for each of some links of one leaf, as high as it has flows; the fullest is in ink.

    All links lead up from the leaf if ``is_up``, else down into it.
    """
    spoken = spoken_names(fabric)
    sources = [spoken[node] for node in fabric.source[links].tolist()]
    targets = [spoken[node] for node in fabric.target[links].tolist()]
    if is_up:
        others = targets
        title = text("live.placement.cables_up", leaf=sources[0])
        below = text("live.placement.below_up", n=links.size, a=others[0], b=others[-1])
    else:
        others = sources
        title = text("live.placement.cables_down", leaf=targets[0])
        below = text("live.placement.below_down", n=links.size, a=others[0], b=others[-1])
    left, right, top, foot = 40.0, SIDE_WIDTH - 18, 66.0, height - 62
    highest = int(common_ends("flows", 0, max(_FEWEST_FLOWS, int(np.ceil(flows.max()))))[1])
    unit = (foot - top) / highest  # [px]
    step = (right - left) / links.size
    fullest = int(np.argmax(flows))
    colours = np.full(links.size, COLOUR["edge"])
    colours[fullest] = COLOUR["ink"]
    numbers = [others[:i].count(other) for i, other in enumerate(others)]
    names = [
        text("live.placement.cable", a=source, b=target, n=number)
        for source, target, number in zip(sources, targets, numbers, strict=True)
    ]
    ticks = np.arange(0, highest + 1, max(1, highest // 6))
    tick_y = foot - unit * ticks
    mean = float(flows.mean())
    even = foot - unit * mean
    shows_mean = unit * mean > 8
    words = [(left, foot + 16.0, below, 0)]
    if shows_mean:
        words.append((left, foot + 34.0, text("live.placement.even", n=mean), 0))
    labels = texts_at(*words)
    bar_x = left + step * np.arange(links.size)
    tall = np.where(flows > 0, np.maximum(unit * flows, 1.0), 0.0)
    bars = boxes(
        bar_x,
        foot - tall,
        max(0.72 * step, 1.5),
        tall,
        colour=colours,
        round=1.0,
        names=names,
        notes=[text("live.placement.flows", n=n) for n in flows.tolist()],
        ghost=True,
        glide=True,
    )
    grid = [np.array([[left, y], [right, y]]) for y in tick_y]
    rule = [np.array([[left, even], [right, even]])] if shows_mean else []
    is_left = fullest < links.size / 2
    most = texts(
        bar_x[[fullest]] + (0.0 if is_left else 0.72 * step),
        np.array([foot - unit * flows[fullest] - 11]),
        [text("live.placement.most", n=flows[fullest], other=others[fullest])],
        align=0.0 if is_left else 2.0,
        bold=1.0,
        size=13.0,
    )
    soft = COLOUR["soft"]
    layers = {
        "bar title": heading(24.0, title),
        "bar grid": lines(grid, width=1.0, colour=COLOUR["line"]),
        "bar ticks": texts(left - 8, tick_y, [str(n) for n in ticks], align=2.0, colour=soft),
        "bars": bars,
        "even": lines(rule, width=1.5, colour=soft, dash=np.array([1.0])),
        "bar words": Layer("texts", {**labels.fields, "colour": soft, "halo": 1.0}),
        "most": most,
    }
    return Scene("", layers=layers, height=height, width=SIDE_WIDTH)


# Wirings ----------------------------------------------------------------------------------------


def wirings(
    fabrics: Mapping[str, Fabric], wiring: str | None = None, seed: int = 0, *, ring: int = 0
) -> Live:
    """Show one of the rings over the rails on two wirings of the same servers, side by side.

    The rings follow the rails of the first wiring, which is on the left. Flows are sprayed over all cables, so only
    their routes differ between wirings. A circle below each server has its place in the ring; servers, rings and places
    are counted from 0.

    Parameters
    ----------
    fabrics : mapping of str to Fabric
        Wirings by name, with the same ranks and the same number of cables.
    wiring, seed : str, int
        The wiring to show on the right, by default the second; seed of the shuffle, or 0 for the order of the servers.
    ring : int
        Number of the ring that is lit.
    """
    first, *others = fabrics
    groups = np.array(collectives.rail_groups(fabrics[first]))
    arguments = {
        "fabrics": fabrics,
        "wiring": wiring or (others or [first])[0],
        "seed": seed,
        "ring": ring,
    }
    controls: dict[str, Control] = {
        "wiring": Choice(tuple(others or [first])),
        "ring": Slider(0, len(groups) - 1),
        "seed": Slider(0, 20),
    }
    scene = partial(wirings_scene, fabrics, groups)
    return live_view("wirings", arguments, scene, controls)


def wirings_scene(
    fabrics: Mapping[str, Fabric], groups: Ints, wiring: str, seed: int, ring: int
) -> Scene:
    """Return two wirings side by side, with one of the rings over ``groups`` lit."""
    order = collectives.shuffled(groups, seed)
    first = next(iter(fabrics))
    shown = [first] if wiring == first else [first, wiring]
    facts = []
    panels = []
    columns: dict[str, list[Any]] = {"wired": [], "from": [], "to": [], "carries": []}
    for name in shown:
        fabric = fabrics[name]
        hops = collectives.spine_crossings(fabric, order)
        facts.append(text("live.wirings.hops", wiring=name, hops=hops, all=groups.size))
        panels.append(ring_panel(fabric, name, order[ring], is_first=name == first))
        table = panels[-1].table
        if table:
            columns["wired"] += [name] * table.n_rows
            for column in ("from", "to", "carries"):
                columns[column] += list(table[column])

    key = "live.wirings.shuffled" if seed else "live.wirings.order"
    words = "; ".join(facts)
    caption = words[:1].upper() + words[1:] + ". " + text(key, seed=seed, ring=ring)
    servers = fabrics[first].server[order[ring]].tolist()
    alt = caption + " " + text("live.wirings.in_turn", list=", ".join(map(str, servers)))
    side = panels[1] if len(panels) > 1 else None
    return replace(panels[0], said=caption, alt=alt, table=Table(columns), side=side)


def ring_panel(fabric: Fabric, wiring: str, ring: Ints, *, is_first: bool) -> Scene:
    """Return a fabric in tiers on which only the cables of one ring are lit, with the place of each server in the ring.

    ``ring`` are the ranks of the ring in turn. Only the first of two panels names its rows.
    """
    hops = Flows.make(fabric.endpoint[ring], fabric.endpoint[np.roll(ring, -1)], 1.0)
    use = route(fabric, hops, "spray").link_bytes(hops, fabric.n_links)  # (L,) flows
    marks = marks_of(fabric, fabric.n_nodes > MOST_NODES, through=True)
    cables = lines_of(fabric, marks, use)
    cables = Lines._make(column[cables.a != cables.b] for column in cables)
    order = np.argsort(cables.fullest, kind="stable")
    cables = Lines._make(column[order] for column in cables)
    placed = Placed(fabric, marks, cables, use)
    canvas = ring_canvas(placed, is_first=is_first)
    paths = [canvas.path(path) for path in paths_of(marks, cables)]
    ways = [path[::-1] if back else path for path, back in zip(paths, cables.back, strict=True)]

    lit = cables.fullest > 0
    width = np.where(lit, 1.5 + 1.5 * np.minimum(cables.fullest, 1.0), link_width(0.0))
    gaps = canvas.unit * port_gaps(marks, cables)
    width *= np.where(lit, part_apart(width, gaps, marks.row[cables.a], lit), 1.0)
    ends = zip(cables.a, cables.b, strict=True)
    prefix = "" if is_first else "right "
    layers = {
        "servers": servers_layer(placed, canvas),
        "cables": lines(
            ways,
            width=width,
            colour=np.where(lit, COLOUR["ring"], COLOUR["hair"]),
            flow=np.where(lit, np.clip(cables.fullest, 0.25, 0.8), 0.0),
            names=[f"{marks.names[a]} – {marks.names[b]}" for a, b in ends],
            notes=[text("live.placement.flows", n=n) for n in cables.fullest.tolist()],
        ),
        "nodes": lit_nodes(placed, canvas),
        **order_layers(fabric, marks, canvas, ring),
    }
    crossings = collectives.spine_crossings(fabric, ring[None])
    head = text("live.wirings.head", wiring=wiring, hops=crossings, all=ring.size)
    left = canvas.start if is_first else 14.0
    layers["head"] = heading(18.0, head, left)
    if is_first:
        layers["row names"] = ring_row_names(placed, canvas)
    table = Table(
        {
            "from": [marks.names[a] for a in cables.a],
            "to": [marks.names[b] for b in cables.b],
            "carries": cables.fullest,
        }
    )
    return Scene(
        "",
        table,
        {prefix + name: layer for name, layer in layers.items()},
        canvas.bottom + _ORDER_HEIGHT,
        width=canvas.end + (12.0 if is_first else 16.0),
    )


def ring_canvas(placed: Placed, *, is_first: bool) -> Canvas:
    """Return where a panel of a wiring is drawn: both have the same width, and the first has names beside it."""
    m = placed.marks
    left = float((m.x - m.width / 2).min() - 0.3)
    right = float((m.x + m.width / 2).max() + 0.3)
    n_rows = int(m.row.max() - m.row.min())
    row = min(70.0, 190.0 / max(n_rows, 1))
    high = float(m.row.max()) + 0.25 + 34 / row
    start = 14.0
    if is_first:
        start = 22 + 7.2 * max(map(len, row_names(placed).values()))
    return Canvas(
        left=left,
        high=high,
        low=float(m.row.min()) - 0.34,
        unit=_PANEL_WIDTH / (right - left),
        row=row,
        start=start,
        end=start + _PANEL_WIDTH,
    )


def servers_layer(placed: Placed, canvas: Canvas) -> Layer:
    """Return a rounded frame around the parts of each server."""
    frames = boxes_of(placed.marks, 0.62)
    frames = [frame for frame in frames if not frame.tinted]
    left = canvas.across([frame.left for frame in frames])
    right = canvas.across([frame.right for frame in frames])
    high = canvas.down([frame.high for frame in frames])
    low = canvas.down([frame.low for frame in frames])
    return boxes(
        left, high, right - left, low - high, colour=COLOUR["none"], edge=COLOUR["edge"], round=6.0
    )


def lit_nodes(placed: Placed, canvas: Canvas) -> Layer:
    """Return the boxes of a fabric; those that no lit cable leads to are pale."""
    f, m, k, _ = placed
    lit = np.zeros(m.first.size, dtype=bool)
    lit[np.concatenate([k.a[k.fullest > 0], k.b[k.fullest > 0]])] = True
    kinds = np.array(f.kinds)[f.kind[m.first]]
    own = np.where(f.transit[m.first] | (kinds == "nic"), COLOUR["node"], COLOUR["gpu"])
    colours = np.where(lit, own, COLOUR["line"])
    left = canvas.across(m.x - m.width / 2)
    right = canvas.across(m.x + m.width / 2)
    numbers = [number_in(name) for name in m.names]
    for row in np.unique(m.row):  # all boxes of a row show their number, or none does
        here = np.flatnonzero(m.row == row).tolist()
        if any(_DIGIT * len(numbers[i]) + 4 > right[i] - left[i] for i in here):
            for i in here:
                numbers[i] = ""
    return boxes(
        left,
        canvas.down(m.row) - canvas.half,
        np.maximum(right - left, 1.5),
        2 * canvas.half,
        colour=colours,
        ink=ink_on(colours),
        texts=numbers,
        names=list(m.names),
    )


def order_layers(fabric: Fabric, m: Marks, canvas: Canvas, ring: Ints) -> dict[str, Layer]:
    """Return the place of each server in the ring, from 0 as servers are counted, and an arc to the next server."""
    middle = canvas.across(m.x[m.of_node[fabric.endpoint]])  # (R,) of each rank
    servers = fabric.server[ring]
    x = np.array([middle[fabric.server == server].mean() for server in servers])  # (S,) in turn
    y = canvas.bottom + 28
    half = np.abs(np.roll(x, -1) - x) / 2
    deepest = _ORDER_HEIGHT - 48
    arcs = []
    for start, end, depth in zip(x, np.roll(x, -1), half / max(half.max(), 1.0), strict=True):
        turn = np.linspace(0.0, np.pi, 33)
        across = (start + end) / 2 - (end - start) / 2 * np.cos(turn)
        down = y + 11 + (8 + (deepest - 8) * depth) * np.sin(turn)
        arcs.append(np.stack([across, down], axis=1))
    names = [text(f"fabric.{holder(fabric)}", s=server) for server in servers.tolist()]
    turns = [str(place) for place in range(ring.size)]
    below = texts(
        x,
        canvas.bottom + 8,
        [str(s) for s in servers.tolist()],
        align=1.0,
        size=11.0,
        colour=COLOUR["soft"],
    )
    hops = [
        text("live.wirings.hop", a=a, b=b)
        for a, b in zip(names, names[1:] + names[:1], strict=True)
    ]
    return {
        "arcs": lines(arcs, width=1.6, colour=COLOUR["ring"], flow=0.3, names=hops, glide=True),
        "order": boxes(
            x - 10,
            y - 10,
            20.0,
            20.0,
            round=10.0,
            colour=COLOUR["ring"],
            ink=ink_on(np.full(x.size, COLOUR["ring"])),
            texts=turns,
            names=[
                text("live.wirings.place", server=a, n=n) for a, n in zip(names, turns, strict=True)
            ],
            glide=True,
        ),
        "server numbers": below,
    }


def ring_row_names(placed: Placed, canvas: Canvas) -> Layer:
    """Return the names of the rows of a panel, at its left."""
    words = []
    for row, name in row_names(placed).items():
        words.append((canvas.start - 10, float(canvas.down(row)), name, 2))
    words.append((canvas.start - 10, canvas.bottom + 8, text("fabric.servers"), 2))
    words.append((canvas.start - 10, canvas.bottom + 28, text("live.wirings.places"), 2))
    return texts_at(*words)


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
    controls: dict[str, Control] = {
        "server": Choice(servers, names=tuple(map(server_name, servers))),
        "gpus": Slider(2, 8),
    }
    scene = cache(server_scene)  # the search for rings takes a while
    return live_view("server", arguments, scene, controls)


def rings_in_words(found: Rings) -> str:
    """Return how many rings of one rate there are, and whether two of them are one ring in both directions."""
    n, each = found.rates.size, float(found.rates[0])
    if n == 2 and np.array_equal(found.orders[1][1:], found.orders[0][:0:-1]):
        return text("live.server.both_ways", each=each)
    return text("live.server.rings", n=n, each=each)


def server_scene(server: str, gpus: int) -> Scene:
    """Return a picture of a server with the load of the best rings over its first GPUs."""
    fabric = topologies.build(server)
    found = best_rings(fabric, range(gpus))
    caption = text("live.server.said", n=gpus, server=server_name(server), rate=found.rate)
    caption += " " + limit_of_rings(fabric, found)
    if found.outside and found.rates.size > 1 and np.ptp(found.rates) == 0:
        caption += " " + rings_in_words(found)
    drawn = scene_of(fabric, np.minimum(found.load, 1.0), said=caption)
    names = spoken_names(fabric)
    idle = {names[node] for node in fabric.endpoint[gpus:].tolist()}
    return replace(drawn, layers={**drawn.layers, "nodes": outlined(drawn.layers["nodes"], idle)})


def outlined(nodes: Layer, names: set[str]) -> Layer:
    """Return boxes of which those with these names are outlines, since they take no part."""
    box = nodes.fields
    is_out = np.array([name in names for name in box["names"]])
    return Layer(
        "boxes",
        {
            **box,
            "colour": np.where(is_out, COLOUR["paper"], box["colour"]),
            "edge": np.where(is_out, COLOUR["edge"], COLOUR["none"]),
            "ink": np.where(is_out, COLOUR["soft"], box["ink"]),
        },
    )


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
    names = tuple(wiring_name(each, "short") for each in wirings)
    return live_view("gigaio", arguments, scene, {"wiring": Choice(wirings, names=names)})


# The text of a wiring's name by its form, and by whether all goes through one root port.
_WIRING_NAMES = {
    ("name", False): "live.gigaio.name",
    ("name", True): "live.gigaio.name_one_root",
    ("short", False): "live.gigaio.short",
    ("short", True): "live.gigaio.short_one_root",
}


def wiring_name(wiring: str, form: str = "name") -> str:
    """Return the name of a wiring as people say it, such as "split wiring, 2 switches, 4 cables a box".

    As the ``form`` "short" it fits into a menu: "split, 4 cables".
    """
    parts = parts_of(wiring)
    return text(
        _WIRING_NAMES[form, parts.roots == 1],
        how=text("live.gigaio.split" if parts.split else "live.gigaio.std"),
        n=parts.switches,
        cables=int(catalog.value("systems", "columba", f"cards_{parts.depth}")),
    )


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
        wiring=capitalised(wiring_name(wiring)),
        n=counted(len(order), "ring"),
        rate=ring_busbw("all_reduce", fabric, order),
        most=rings_on_link[fullest],
        link=link_in_words(fabric, fullest),
    )
    drawn = scene_of(fabric, load / load[fullest], said=caption)
    parts = parts_of(wiring)
    halves = ""
    if parts.switches < parts.roots:
        halves = text("live.gigaio.parts")
        drawn = replace(drawn, layers={**drawn.layers, "margins": one_switch(drawn, parts.roots)})
    hint = " ".join(filter(None, [drawn.hint, halves, text("live.gigaio.source")]))
    return replace(drawn, hint=hint)


def one_switch(drawn: Scene, halves: int) -> Layer:
    """Return the words beside the rows, in which the halves of one switch are counted as that."""
    margins = drawn.layers["margins"]
    before, after = counted(halves, "switch"), text("live.gigaio.one_switch", n=halves)
    words = [after if word == before else word for word in margins.fields["texts"]]
    return replace(margins, fields={**margins.fields, "texts": words})
