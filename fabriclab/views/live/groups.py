"""Live view of a network with groups: all its endpoints send some groups further, by short ways or by detours."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from fabriclab import metrics
from fabriclab.core import Fabric, Floats, Ints
from fabriclab.routing import route
from fabriclab.texts import text
from fabriclab.views.layout import as_table, counted
from fabriclab.views.live.controls import routing_name
from fabriclab.views.live.widget import Choice, Control, Live, Slider, live_view
from fabriclab.views.maps import placed_on_ring, places_of
from fabriclab.views.rings import Ring, radius_in, ring_layers, ring_of
from fabriclab.views.scene import COLOUR, Layer, Scene, heading, lines, scale, texts, tick_layers

_HEIGHT = 390.0  # of the picture [px]
_MAIN, _SIDE = 420.0, 470.0  # width of the ring and of the curves beside it [px]
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 396.0, 52.0, 296.0  # the axes of the curves [px]
_LEAD = 18.0  # from the present point to the axis, from which on a line leads there [px]
_FULL = 0.9995  # load at which a cable counts as full
_ADAPTIVE = "ugal"  # how the names of routings begin that weigh ways by load, which takes long


@dataclass(frozen=True, slots=True)
class Shift:
    """What endpoints get if all of them send some groups further."""

    load: Floats  # (L,) of each link at that rate, as a fraction of its capacity
    part: float  # fraction of its rate that each endpoint gets


@dataclass(frozen=True, slots=True)
class Groups:
    """A network with groups, and what the picture needs of it whatever the controls say."""

    fabric: Fabric
    size: int  # endpoints of a group
    number: int  # groups
    ring: Ring
    shift: Callable[[int, str], Shift]
    curves: dict[str, Floats]  # share at each distance from 1 on, by routing


def distance(
    fabric: Fabric,
    groups: int = 1,
    routing: str = "minimal",
    *,
    routings: tuple[str, ...] = ("minimal", "valiant"),
) -> Live:
    """Show what is left of its rate for each endpoint of a network with groups if all send some groups further.

    Beside the ring of groups stands the share at every distance, for each routing that does not choose by load. For
    one that does, it shows the share at the present distance only, because the whole curve takes long to compute.

    Parameters
    ----------
    fabric : Fabric
        A network with groups of equal size, such as ``topologies.build("dragonfly", p=4, a=8, h=4)``.
    groups : int
        How many groups further each endpoint sends, to the one at the same place there.
    routing : str
        One of ``routings``.
    routings : tuple of str
        Routings to offer: those of `fabriclab.routing.names` that work on the fabric.

    Raises
    ------
    ValueError
        If the fabric has no groups of equal size.
    """
    whole = groups_of(fabric, routings)
    arguments = {"fabric": fabric, "groups": groups, "routing": routing, "routings": routings}
    controls: dict[str, Control] = {
        "groups": Slider(1, whole.number - 1),
        "routing": Choice(routings, names=tuple(map(routing_name, routings))),
    }
    return live_view("distance", arguments, partial(distance_scene, whole), controls)


def groups_of(fabric: Fabric, routings: tuple[str, ...]) -> Groups:
    """Return a network with its groups, its ring and the curves of all routings that do not choose by load."""
    sizes = np.zeros(1, dtype=np.int64)
    if "group" in fabric.coord_names:
        sizes = np.unique(fabric.coordinate("group")[fabric.endpoint], return_counts=True)[1]
    if sizes.size < 2 or np.ptp(sizes):
        raise ValueError(
            f"fabric must have groups with as many endpoints each, got {fabric!r};"
            ' give a dragonfly, such as topologies.build("dragonfly", p=4, a=8, h=4)'
        )
    size = int(sizes[0])
    places = places_of(fabric)
    ring = ring_of(
        fabric,
        places.switch,
        complex(_MAIN / 2, _HEIGHT / 2),
        radius_in(_HEIGHT / 2, places.folded),
    )
    shift = cache(partial(shifted, fabric, size))
    curves = {}
    for routing in routings:
        if not routing.startswith(_ADAPTIVE):
            shares = [shift(k, routing).part for k in range(1, sizes.size)]
            curves[routing] = np.array(shares)
    return Groups(fabric, size, sizes.size, ring, shift, curves)


def shifted(fabric: Fabric, size: int, groups: int, routing: str) -> Shift:
    """Return what endpoints get if all send ``groups`` groups of ``size`` endpoints further."""
    flows = metrics.shift(fabric, groups * size)
    carried = route(fabric, flows, routing).link_bytes(flows, fabric.n_links)
    seconds = carried / np.maximum(fabric.capacity, 1.0)  # for the bytes of one second at full rate
    most = max(float(seconds.max()), 1.0)
    return Shift(seconds / most, 1 / most)


def distance_scene(whole: Groups, groups: int, routing: str) -> Scene:
    """Return the ring with its loads, and the share at all distances beside it."""
    now = whole.shift(groups, routing)
    f = whole.fabric
    places = places_of(f)
    placed = placed_on_ring(f, places, now.load)
    said = finding(whole, now, groups, routing)
    shares = "; ".join(
        text(
            "live.distance.alt",
            routing=routing_name(name),
            low=100 * part.min(),
            high=100 * part.max(),
        )
        for name, part in whole.curves.items()
    )
    return Scene(
        said,
        as_table(placed, text("map.within")),
        ring_layers(placed, whole.ring, places.folded, "load"),
        _HEIGHT,
        alt=f"{said} {shares}",
        width=_MAIN,
        side=curve_panel(whole, now, groups, routing),
    )


def finding(whole: Groups, now: Shift, groups: int, routing: str) -> str:
    """Return in words what each endpoint gets, and why."""
    f = whole.fabric
    group = f.coordinate("group")
    inner = f.transit[f.source] & f.transit[f.target]
    out = inner & (group[f.source] == 0) & (group[f.target] != 0)
    used = int(np.count_nonzero(now.load[out] > 0))
    most = float(now.load[out].max())
    figures = {
        "ends": counted(whole.size, "gpu"),
        "distance": groups,
        "routing": routing_name(routing),
        "part": share_words(now.part),
        "times": now.part / whole.shift(groups, "minimal").part,
        "used": used,
        "idle": int(out.sum()) - used,
        "out": int(out.sum()),
        "most": 100 * most,
    }
    if used == 1:
        keys = ("one", "idle")
    elif most < _FULL:
        keys = ("many", "local")
        figures["full"] = full_inside(whole, now)
    else:
        keys = ("many", "global")
    return " ".join(text(f"live.distance.{key}", **figures) for key in keys)


def full_inside(whole: Groups, now: Shift) -> str:
    """Return in words how many cables inside each group are full; a range where groups differ."""
    f = whole.fabric
    group = f.coordinate("group").astype(np.int64)
    inner = f.transit[f.source] & f.transit[f.target] & (group[f.source] == group[f.target])
    full = np.flatnonzero(inner & (now.load >= _FULL))
    first = full[np.unique(full // 2, return_index=True)[1]]  # links 2 i and 2 i + 1 are a cable
    each = np.bincount(group[f.source[first]], minlength=whole.number)
    words = counted(int(each.max()), "cable")
    if np.ptp(each):
        words = text("fabric.to", rate=each.min()) + " " + words
    return words


# The curves beside it -----------------------------------------------------------------------------


def curve_panel(whole: Groups, now: Shift, groups: int, routing: str) -> Scene:
    """Return the share at every distance for each routing; the present point and its curve are ink."""
    last = whole.number - 1
    highest = max(now.part, *(float(part.max()) for part in whole.curves.values()))
    top = min(1.0, np.ceil(highest * 5 + 0.25) / 5)

    def across(value: Floats | float) -> Floats:
        return np.asarray(_LEFT + (_RIGHT - _LEFT) * (np.asarray(value) - 1) / max(last - 1, 1))

    def down(value: Floats | float) -> Floats:
        return np.asarray(_BOTTOM - (_BOTTOM - _TOP) * np.asarray(value) / top)

    distances = distance_ticks(last)
    layers: dict[str, Layer] = {
        "title": heading(22.0, text("live.distance.share"), 22.0),
        **tick_layers(share_ticks(top), down, _in_percent, (_LEFT, _RIGHT), across=False),
        "x ticks": texts(
            across(distances.astype(np.float64)),
            _BOTTOM + 14,
            [str(k) for k in distances],
            align=1.0,
            colour=COLOUR["soft"],
        ),
        "x name": texts(
            _RIGHT, [_BOTTOM + 32], [text("live.distance.groups")], align=2.0, colour=COLOUR["soft"]
        ),
    }
    here = np.arange(1.0, whole.number)
    paths = [np.stack([across(here), down(part)], axis=1) for part in whole.curves.values()]
    is_now = np.array([name == routing for name in whole.curves], dtype=bool)
    colours = np.where(is_now, COLOUR["ink"], COLOUR["edge"])
    layers["curves"] = lines(paths, width=np.where(is_now, 2.2, 1.2), colour=colours)
    points = np.concatenate(paths)
    each = here.size
    names, notes = list[str](), list[str]()
    for name, part in whole.curves.items():
        called = routing_name(name)
        names += [text("live.distance.point", routing=called, distance=int(k)) for k in here]
        notes += [share_words(share) for share in part.tolist()]
    layers["points"] = Layer(
        "dots",
        {
            "x": points[:, 0],
            "y": points[:, 1],
            "size": np.repeat(np.where(is_now, 2.4, 1.8), each),
            "colour": np.repeat(colours, each),
            "plain": 1.0,
            "names": names,
            "notes": notes,
        },
    )
    layers |= curve_names(whole, routing, down)
    x, y = float(across(groups)), float(down(now.part))
    if _BOTTOM - y > _LEAD:
        layers["lead"] = lines(
            [np.array([[x, y], [x, _BOTTOM]])], width=1.2, dash=2.0, colour=COLOUR["edge"]
        )
    layers["now"] = Layer(
        "dots",
        {"x": np.array([x]), "y": np.array([y]), "size": 5.5, "colour": COLOUR["ink"]}
        | {"ghost": True, "glide": True},
    )
    beside = 0 if groups <= last / 2 else 2
    # The number stands on the side on which its own curve does not pass.
    curve = whole.curves.get(routing, np.full(last, now.part))
    near = curve[max(groups - 2, 0) : groups + 1]
    low = float(near.mean()) > now.part + 1e-9 and now.part > 0.15 * top
    words = share_words(now.part)
    if routing not in whole.curves:  # this point has no curve that bears its name
        words = f"{routing_name(routing)}: {words}"
    layers["value"] = texts(
        x + (10 if beside == 0 else -10),
        [y + 18 if low else y - 16],
        [words],
        size=16.0,
        bold=1.0,
        align=float(beside),
        halo=1.0,
    )
    load = scale(_HEIGHT - 34, 164.0, named=False)
    layers |= load
    layers["scale name"] = texts(
        22.0,
        [_HEIGHT - 35, _HEIGHT - 21],
        text("live.distance.load").split("|"),
        size=11.0,
        colour=COLOUR["soft"],
    )
    return Scene("", layers=layers, height=_HEIGHT, width=_SIDE)


def share_ticks(top: float) -> Floats:
    """Return where the axis of shares has its numbers, from 0 to ``top``, which is a multiple of a fifth."""
    if round(top * 5) % 2:
        return np.linspace(0, top, 4)
    return np.linspace(0, top, 5 if top > 0.5 else 3)


def share_words(share: float) -> str:
    """Return a share with three digits, zeros too, as all shares of a picture have them: 41.0 %, 3.12 %, 100 %."""
    return f"{100 * share:#.3g}".rstrip(".") + " %"


def _in_percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def distance_ticks(last: int) -> Ints:
    """Return distances to name on the axis: the first, the last and some in between."""
    step = max(1, 2 ** int(np.ceil(np.log2(max(last, 1) / 5))))
    between = np.arange(step, last - step // 2, step)
    ticks: Ints = np.unique(np.concatenate([[1], between, [last]]))
    return ticks


def curve_names(whole: Groups, routing: str, down: Callable[[float], Floats]) -> dict[str, Layer]:
    """Return the names of the curves at their right ends, apart from each other."""
    ends = {name: float(down(float(part[-1]))) for name, part in whole.curves.items()}
    names = sorted(ends, key=lambda name: ends[name])
    y = np.array([ends[name] for name in names])
    for i in range(1, y.size):
        y[i] = max(y[i], y[i - 1] + 16)
    is_now = np.array([name == routing for name in names], dtype=bool)
    return {
        "curve names": texts(
            _RIGHT + 10,
            y,
            list(map(routing_name, names)),
            bold=is_now.astype(float),
            colour=np.where(is_now, COLOUR["ink"], COLOUR["soft"]),
        )
    }
