"""Map of a direct network: switches (or chips) where their coordinates put them, as rows of tiers would not show it.

Grids with coordinates x, y, ... are drawn as slabs of x and y, a hypercube as squares of squares, groups as circles on
a circle, all else as one circle. A cable of a grid to another slab or round its edge is drawn as a stub at both ends,
any other as a line, which is bent where it would pass behind a box.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric, Flags, Floats, Ints
from fabriclab.texts import text
from fabriclab.views.layout import (
    Lines,
    Marks,
    Placed,
    colour_sentence,
    colours_of,
    counted,
    lines_of,
    readable,
    scene_with_words,
)
from fabriclab.views.scene import (
    COLOUR,
    KEYS,
    WIDTH,
    Layer,
    Scene,
    boxes,
    ink_on,
    key,
    lines,
    shade,
    texts_at,
)

_TOP, _EDGE = 16.0, 40.0  # room above and beside the drawing [px]
_ROUND = 430.0  # width of the outer circle [px]
_TALL = 520.0  # most that a grid may be high [px]
_IDLE = 0.22  # how strong a cable is drawn that carries nothing
_LETTER = 8.0  # width of a letter [px]
_TOTAL_INK = 1.5e5  # what all busy cables may cover [px^2]
MOST_PLACES = 4096
MOST_SINGLE = 200  # beyond it a group is one place

Complexes = NDArray[np.complex128]


class Spots(NamedTuple):
    """Where the places of a network stand in the picture [px]."""

    x: Floats  # (P,)
    y: Floats  # (P,)
    slab: Ints  # (P,) which part of a grid it belongs to; 0 elsewhere
    height: float  # of the picture
    gap: float  # between neighbours


def is_direct(f: Fabric) -> bool:
    """Return whether most cables between nodes that pass traffic on join nodes of one tier; servers are not direct."""
    inner = f.transit[f.source] & f.transit[f.target]
    level = f.tier[f.source[inner]] == f.tier[f.target[inner]]
    return bool(inner.any() and level.mean() > 0.5 and "gpu" not in f.kinds)


def map_scene(f: Fabric, share: Floats, colour: str, said: str = "") -> Scene:
    """Return one picture of a direct network with loads (L,); its hosts stand in the box of their switch."""
    places = places_of(f)
    node = places.node
    if node.size > MOST_PLACES:
        return Scene(text("fabric.too_many_places", n=node.size, most=MOST_PLACES), wrong=True)

    where = {name: f.coord[node, i].astype(np.int64) for i, name in enumerate(f.coord_names)}
    grid = _grid_axes(where)
    spots = _spots(grid, where.get("group", np.zeros(node.size, np.int64)))
    half = 0.5 * float(np.clip((0.56 if places.folded else 0.62) * spots.gap, 3.0, 26.0))

    marks = _marks(f, places, spots.x)
    placed = Placed(f, marks, lines_of(f, marks, share), share)
    k = _between_places(placed.lines)
    near = _drawn_whole(grid, spots, k)
    look = _look(f, node, marks, k, colour, _cable_width(k, spots, half, colour))
    axes = _axis_names(f, look["colour"])
    layers = _cable_layers(k, spots, near, half, look)
    if not near.all():
        layers |= _stub_layers(k, spots, grid, ~near, half, look)
    layers |= {
        "nodes": _node_layer(placed, spots, half, loaded=places.folded and colour == "load"),
        "words": _words(f, where, spots, half),
    }

    if colour == "load":
        if np.isfinite(share).all():
            layers |= scale(spots.height + 6, idle=True)
    elif colour == "failure":
        layers |= key(spots.height + 6, text("fabric.key_failure"), [])
    else:
        layers |= key(spots.height + 6, text("map.key_axis"), axes)
    height = spots.height + (34 if "ends" in layers else 0)

    if colour in ("load", "failure"):
        nowhere = np.zeros(0)
        colours = colour_sentence(colour, k.load, nowhere, k.failed.sum(), f.n_cables)
    else:
        colours = text("map.says_axis", list=", ".join(filter(None, axes)))
    return scene_with_words(
        placed, layers, height, said=said, colours=colours, within=text("map.within")
    )


# Places -------------------------------------------------------------------------------------------


class Places(NamedTuple):
    """Which nodes of a network are drawn."""

    node: Ints  # (P,) the node that stands for each place
    of_node: Ints  # (N,) the place of each node
    folded: bool  # whether a place is a whole group


def places_of(f: Fabric) -> Places:
    """Return the nodes that are drawn (P,), the place of each node (N,), and whether a place is a whole group.

    An end that no other traffic passes stands at its first switch.
    """
    drawn = np.flatnonzero(f.transit)
    switch = np.arange(f.n_nodes)  # (N,) where each node stands
    link = np.flatnonzero(~f.transit[f.source] & f.transit[f.target])[::-1]
    switch[f.source[link]] = f.target[link]  # the first link is written last
    if drawn.size <= MOST_SINGLE or "group" not in f.coord_names:
        return Places(drawn, np.searchsorted(drawn, switch), folded=False)
    group = f.coordinate("group")
    _, first = np.unique(group[drawn], return_index=True)
    drawn = drawn[first]
    return Places(drawn, np.searchsorted(group[drawn], group[switch]), folded=True)


def _marks(f: Fabric, places: Places, x: Floats) -> Marks:
    """Return a box for each place, named by its node or group and by how many hosts stand in it."""
    node = places.node
    if places.folded:
        names = [text("map.group", n=group) for group in f.coordinate("group")[node]]
    else:
        names = [f.name(int(i)) for i in node]
    if not f.transit[f.endpoint].all():
        hosts = np.bincount(places.of_node[f.endpoint], minlength=node.size).tolist()
        kind = f.kinds[f.kind[f.endpoint[0]]]
        names = [f"{name}, {counted(n, kind)}" for name, n in zip(names, hosts, strict=True)]
    none = np.full(node.size, -1, dtype=np.int64)
    return Marks(
        of_node=places.of_node,
        first=node,
        names=names,
        row=f.tier[node].astype(np.int64),
        rail=none,
        server=none,
        x=x,
        width=np.ones(node.size),
        folded=places.folded,
    )


def _label(name: str) -> str:
    """Return the number in the name of a box, such as "5" of "switch 5, 4 hosts"."""
    return name.split(",")[0].split()[-1]


def _grid_axes(where: Mapping[str, Ints]) -> list[Ints]:
    """Return the coordinates x, y, ... of each place (P,), if the network is a grid."""
    if "half" in where or "x" not in where:
        return []
    return [values for name, values in where.items() if name != "local"]


def _is_cube(grid: list[Ints]) -> bool:
    """Return whether a grid has more than two axes, with the coordinates 0 and 1 only."""
    return len(grid) > 2 and max(int(values.max()) for values in grid) == 1


def _spots(grid: list[Ints], group: Ints) -> Spots:
    """Return where the places of a grid, a hypercube or, without a grid, of groups stand."""
    if _is_cube(grid):
        return _cube(grid)
    return _grid(grid) if grid else _circles(group)


def _cube(grid: list[Ints]) -> Spots:
    """Return where places with coordinates 0 and 1 stand.

    Two axes are a square, two more a square of these, turned and larger: all cables of an axis are parallel, those of
    no two axes are, and up to six axes no cable meets the place of another (found by trial).
    """
    axis = np.arange(len(grid))
    # Steps along the axes, as complex numbers: 1 and i, then both turned and stretched, and so on.
    step = (2.2 * np.exp(0.45j)) ** (axis // 2) * 1j ** (axis % 2)
    place = step @ np.array(grid)
    unit = min((WIDTH - 2 * _EDGE) / np.ptp(place.real), _TALL / np.ptp(place.imag), 120.0)
    place = unit * (place - place.real.mean() - 1j * place.imag.min())
    return Spots(
        x=place.real + WIDTH / 2,
        y=place.imag + _EDGE,
        slab=np.zeros(place.size, np.int64),
        height=float(place.imag.max()) + 2 * _EDGE,
        gap=0.36 * unit,
    )


def _grid(grid: list[Ints]) -> Spots:
    """Return where the places of a grid stand: slabs of x and y side by side, then one below the other."""
    size = [int(values.max()) + 1 for values in grid] + [1, 1]
    columns, rows = size[0], size[1]
    slab = np.zeros(grid[0].size, np.int64)
    for values, n in zip(grid[2:], size[2:], strict=False):
        slab = slab * n + values

    # With n slabs side by side: the largest gap for which they fit in width and height.
    n_slabs = int(slab.max()) + 1
    gaps = []
    for n in range(1, n_slabs + 1):
        bands = -(-n_slabs // n)
        across = (WIDTH - 2 * _EDGE) / (n * (columns + 1.5) - 0.5)
        down = _TALL / (bands * (rows + 1.9))
        gaps.append(min(across, down, 56.0))
    n_across = int(np.argmax(gaps)) + 1
    gap = float(max(gaps))

    left = (WIDTH - gap * (n_across * (columns + 1.5) - 2.5)) / 2
    second = grid[1] if len(grid) > 1 else np.zeros(grid[0].size, np.int64)
    x = left + gap * (grid[0] + (slab % n_across) * (columns + 1.5))
    y = _TOP + gap * (1.2 + second + (slab // n_across) * (rows + 1.9))
    return Spots(x, y, slab, height=float(y.max()) + 1.2 * gap + _TOP, gap=gap)


def _circles(group: Ints) -> Spots:
    """Return where places stand on circles on a circle, group by group."""
    number = np.unique(group, return_inverse=True)[1]  # (P,) of the group
    n_groups = int(number.max()) + 1
    size = np.bincount(number)  # (groups,)
    rank = np.arange(number.size) - (np.cumsum(size) - size)[number]  # (P,) within its group

    outer, inner = _radii(n_groups, int(size.max()))
    turn = 2 * np.pi * number / n_groups  # of the group
    own = turn + 2 * np.pi * rank / size[number]  # of the place around the middle of its group
    x = WIDTH / 2 + outer * np.sin(turn) + inner * np.sin(own)
    y = _TOP + _ROUND / 2 - outer * np.cos(turn) - inner * np.cos(own)

    gaps = [60.0]
    if inner:
        gaps.append(2 * inner * np.sin(np.pi / max(int(size.max()), 2)))
    if n_groups > 1:
        gaps.append(2 * outer * np.sin(np.pi / n_groups))
    nowhere = np.zeros(group.size, np.int64)
    return Spots(x, y, nowhere, height=_ROUND + 2 * _TOP, gap=float(min(gaps)))


def _radii(n_groups: int, largest: int) -> tuple[float, float]:
    """Return the radius of the circle of groups, and of the circle of a group [px]."""
    big = _ROUND / 2 - 14.0
    if n_groups == 1:
        return 0.0, 0.0 if largest == 1 else big
    if largest == 1:
        return big, 0.0
    sine = np.sin(np.pi / n_groups)
    touching = big * sine / (1 + sine)  # with it the circles of two groups touch
    inner = 0.7 * min(touching, 90.0)
    return big - inner, inner


# Cables -------------------------------------------------------------------------------------------


def _between_places(every: Lines) -> Lines:
    """Return the lines that join two places, the fullest last, so that it lies on top."""
    order = np.argsort(np.nan_to_num(every.load), kind="stable")
    order = order[every.a[order] != every.b[order]]
    return Lines._make(column[order] for column in every)


def _lengths(k: Lines, spots: Spots) -> Floats:
    """Return the length of each line (K,) [px]."""
    return np.hypot(spots.x[k.a] - spots.x[k.b], spots.y[k.a] - spots.y[k.b])


def _drawn_whole(grid: list[Ints], spots: Spots, k: Lines) -> Flags:
    """Return which cables (K,) are lines: all but those of a grid to another slab or round its edge."""
    if not grid or _is_cube(grid):
        return np.ones(k.a.size, bool)
    in_slab = spots.slab[k.a] == spots.slab[k.b]
    to_neighbour = _lengths(k, spots) < 1.01 * spots.gap
    return np.asarray(in_slab & (to_neighbour | _skipping(grid, k)))


def _skipping(grid: list[Ints], k: Lines) -> Flags:
    """Return which cables (K,) run along a row where some skip places without going round the edge, as in a HyperX."""
    coordinates = np.array(grid)  # (axes, P)
    step = np.abs(coordinates[:, k.b] - coordinates[:, k.a])  # (axes, K)
    last = coordinates.max(axis=1)[:, None]
    skips = (step > 1) & (step < last)
    along_skipping_axis = (step > 0)[skips.any(axis=1)].any(axis=0)
    along_one_axis = np.count_nonzero(step, axis=0) == 1
    return np.asarray(along_one_axis & along_skipping_axis)


def _busy(k: Lines, colour: str) -> Flags:
    """Return which lines (K,) carry something; where the colour is not the load, all count as busy."""
    return np.asarray(k.load != 0) | (colour != "load")


def _cable_width(k: Lines, spots: Spots, half: float, colour: str) -> float:
    """Return how wide a cable may be so that all busy ones together do not cover the picture [px]."""
    total = float(_lengths(k, spots)[_busy(k, colour)].sum())
    return min(half / 3, _TOTAL_INK / max(total, 1.0))


def _look(
    f: Fabric, node: Ints, marks: Marks, k: Lines, colour: str, width: float
) -> dict[str, Any]:
    """Return how the cables of a map look and what they say; each is about ``width`` px wide."""
    # The axis of a cable is the first one in which its ends differ.
    differs = f.coord[node[k.a]] != f.coord[node[k.b]]
    axis = np.argmax(differs, axis=1) if differs.size else np.full(k.a.size, -1)
    coloured_by = "axis"
    if colour == "failure" or (colour == "load" and np.isfinite(k.load).any()):
        coloured_by = colour

    dead = k.failed == k.cables
    idle = ~_busy(k, colour)
    # What carries nothing is pale and thin, and what is full a little thicker: so a few routes stand out.
    part: float | Floats = 1.0
    if colour == "load":
        part = 0.7 + 0.5 * np.nan_to_num(k.load, nan=0.6) ** 2
    return {
        "width": np.where(idle, 0.7, float(np.clip(width, 0.8, 3.0)) * part),
        "colour": np.where(idle, COLOUR["ink"], colours_of(coloured_by, k.load, k.failed, axis)),
        "alpha": np.where(dead, 0.35, np.where(idle, _IDLE, 1.0)),
        "dash": np.where(dead, 2.0, 0.0),
        **readable(marks, k),
    }


def _part(look: dict[str, Any], which: Ints) -> dict[str, Any]:
    """Return the look of some of the cables."""
    out: dict[str, Any] = {}
    for name, values in look.items():
        if isinstance(values, np.ndarray):
            out[name] = values[which]
        else:
            out[name] = [values[i] for i in which]
    return out


def _cable_layers(
    k: Lines, spots: Spots, near: Flags, half: float, look: dict[str, Any]
) -> dict[str, Layer]:
    """Return the cables that are lines, bent where they would pass behind a box, and crosses on those that failed."""
    here = np.flatnonzero(near)
    place = spots.x + 1j * spots.y  # (P,)
    start = place[k.a[here]]
    vector = place[k.b[here]] - start
    bend = _bends(place, start, vector, half)
    sideways = 1j * vector / np.abs(vector)
    top = start + vector / 2 + sideways * bend  # of the arch

    points = []
    for s, v, t, bent in zip(start, vector, top, bend, strict=True):
        points.append(_parabola(s, v, t) if bent else np.array([s, s + v]))
    paths = [np.stack([p.real, p.imag], axis=1) for p in points]
    cut = top[k.failed[here] > 0]
    return {
        "cables": lines(paths, **_part(look, here)),
        **crosses("failed", cut.real, cut.imag),
    }


def _parabola(start: complex, vector: complex, top: complex) -> Complexes:
    """Return 17 points of an arch from ``start`` to ``start + vector`` that passes ``top`` in the middle."""
    part = np.linspace(0, 1, 17)
    rise = top - start - vector / 2
    return np.asarray(start + vector * part + 4 * part * (1 - part) * rise)


def _bends(place: Complexes, start: Complexes, vector: Complexes, half: float) -> Floats:
    """Return how far each line (K,) is bent so that it passes beside the boxes of others, the least that does [px]."""
    if place.size > MOST_SINGLE:
        return np.zeros(start.size)
    tries = [0.0]
    for far in np.arange(1.0, 6.5, 0.5):
        tries += [half * far, half * -far]

    # Each place as seen from each line (K, P): how far along it (0..1), and how far beside it [px].
    relative = (place - start[:, None]) / vector[:, None]
    along = relative.real
    length = np.abs(vector)[:, None]
    beyond_ends = (along < 1e-9) | (along > 1 - 1e-9)
    free = []  # (tries, K)
    for bend in tries:
        off = relative.imag * length - 4 * bend * along * (1 - along)
        # A steep line is nearer to a place than it is below or above it.
        steepness = np.hypot(1, 4 * bend / length * (1 - 2 * along))
        clear = np.abs(off) > 1.4 * half * steepness
        free.append(np.all(beyond_ends | clear, axis=1))
    return np.asarray(np.array(tries)[np.argmax(free, axis=0)])


# In which direction the cables of each axis leave a slab: level for x, upright for y, slanted for all others.
_STUB_DIRECTIONS = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, -0.8], [0.8, 0.8]])


def _stub_layers(
    k: Lines, spots: Spots, grid: list[Ints], far: Flags, half: float, look: dict[str, Any]
) -> dict[str, Layer]:
    """Return stubs at both ends of the cables to other slabs or round the edge, and crosses on those that failed."""
    here = np.flatnonzero(far)
    coordinates = np.array(grid)  # (axes, P)
    step = coordinates[:, k.b[here]] - coordinates[:, k.a[here]]  # (axes, cables)
    last = coordinates.max(axis=1)[:, None]  # (axes, 1)
    whole = (
        np.abs(step) == last
    )  # from the first place to the last one, which is a way round the edge
    # It leaves at the far side: from the last place upwards, from the first downwards.
    sign = np.where(whole, -np.sign(step), np.sign(step))

    # A cable that changes several coordinates goes round the edge of one of them.
    axis = np.argmax((step != 0) + 2 * (whole & (last > 1)), axis=0)  # (cables,)
    directions = _STUB_DIRECTIONS[np.minimum(np.arange(len(grid)), 3)]
    length = half + 0.24 * spots.gap
    offset = directions[axis] * sign[axis, np.arange(here.size)][:, None] * length  # (cables, 2)

    paths = []
    for ends, offsets in ((k.a[here], offset), (k.b[here], -offset)):
        for place, (dx, dy) in zip(ends, offsets, strict=True):
            x, y = spots.x[place], spots.y[place]
            paths.append(np.array([[x, y], [x + dx, y + dy]]))
    both = np.tile(here, 2)
    tips = np.array([path[1] for path in paths])[k.failed[both] > 0]
    return {"stubs": lines(paths, **_part(look, both)), **crosses("failed ends", *tips.T)}


def crosses(name: str, x: Floats, y: Floats) -> dict[str, Layer]:
    """Return crosses where cables have failed."""
    look = {"size": 5.0, "shape": 2.0, "colour": COLOUR["failed"]}
    return {name: Layer("dots", {"x": x, "y": y, **look})}


# Boxes, words, legend -----------------------------------------------------------------------------


def _node_layer(placed: Placed, spots: Spots, half: float, *, loaded: bool) -> Layer:
    """Return a box for each place, named if all names fit."""
    marks = placed.marks
    colours = _box_colours(placed, loaded)
    labels = [_label(name) for name in marks.names]
    if _LETTER * max(map(len, labels), default=0) >= 2 * half:
        labels = [""] * len(labels)
    return boxes(
        spots.x - half,
        spots.y - half,
        2 * half,
        2 * half,
        colour=colours,
        ink=ink_on(colours),
        names=marks.names,
        texts=labels,
    )


def _box_colours(placed: Placed, loaded: bool) -> Floats:
    """Return the colour of each box: its kind, or with ``loaded`` the load of the fullest cable within its block."""
    f, marks, every, _ = placed
    own = every.a == every.b  # cables to hosts, or within a group
    load = np.full(len(marks.names), np.nan)
    load[every.a[own]] = every.fullest[own]
    if loaded and np.isfinite(load).any():
        return shade(load)
    return np.where(f.tier[marks.first] > 0, COLOUR["switch"], COLOUR["host"])


def _axis_names(f: Fabric, colours: Floats) -> list[str]:
    """Return the name of each coordinate whose colour occurs among the cables, or an empty one."""
    names = []
    for i, name in enumerate(f.coord_names):
        occurs = name != "local" and KEYS[i % len(KEYS)] in colours
        names.append(name if occurs else "")
    return names


def _words(f: Fabric, where: Mapping[str, Ints], spots: Spots, half: float) -> Layer:
    """Name the slabs of a grid by their further coordinates, if there are several and the names fit."""
    further = [name for name in f.coord_names[2:] if name != "local"]
    _, first = np.unique(spots.slab, return_index=True)  # (slabs,) a place in each
    labels = [", ".join(f"{name} {where[name][i]}" for name in further) for i in first]
    room = np.ptp(spots.x[spots.slab == 0])
    if first.size < 2 or room < _LETTER * max(map(len, labels)):
        return texts_at()
    return texts_at(
        *(
            (float(spots.x[i]) - half, float(spots.y[i]) - half - 16, label, 0)
            for i, label in zip(first, labels, strict=True)
        )
    )


def scale(y: float, idle: bool = False) -> dict[str, Layer]:
    """Return the scale of loads: a bar with its ends, and with ``idle`` the look of a cable without load."""
    n = 32  # steps of the bar
    left, width = 250.0, 200.0  # [px]
    x = left + width * np.arange(n) / n
    sample = 32 if idle else 0  # room for the sample of a cable [px]
    words = texts_at(
        (left - 8 - sample, y + 6, text("fabric.load", percent=0), 2),
        (left + width + 8, y + 6, "100%", 0),
    )
    bar = boxes(x, y, width / n + 0.5, 12.0, round=0.0, colour=shade(np.linspace(0, 1, n)))
    layers = {"scale": bar, "ends": words}
    if idle:
        path = np.array([[left - 32, y + 6], [left - 8, y + 6]])
        layers["idle"] = lines([path], colour=COLOUR["ink"], alpha=_IDLE)
    return layers
