"""Map of a direct network: switches (or chips) at the places that their coordinates give them.

A grid with coordinates x, y, ... is drawn as slabs of x and y, a hypercube as squares of squares, groups as circles
on a circle, and all else as one circle. A cable of a grid that leads to another slab or around the edge is drawn as a
stub at both ends. Any other cable is a line, which is bent where it would pass behind a box.
"""

from collections.abc import Mapping, Sequence
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
from fabriclab.views.loops import looped
from fabriclab.views.rings import MOST_IN_GROUPS, radius_in, ring_layers, ring_of
from fabriclab.views.scene import (
    COLOUR,
    FORM,
    KEYS,
    WIDTH,
    Layer,
    Scene,
    boxes,
    ink_on,
    key,
    lines,
    scale,
    shade,
    texts_at,
)
from fabriclab.views.solids import (
    closes,
    closing,
    solid_axes,
    solid_dots,
    solid_lines,
    solid_of,
    stubs,
)

_TOP, _EDGE = 16.0, 40.0  # room above and beside the drawing [px]
_ROUND = 326.0  # diameter of the outer circle [px]
_TALL = 316.0  # greatest height of a grid [px]
_GAP = 84.0  # greatest distance between the places of a grid [px]
_STRETCH = 1.8  # how much larger it may be across than down
_SOLID_HEIGHT = 364.0  # of a grid of three axes [px]
# Room beside the chips of a solid: left, above, right and below, in distances between chips.
_STUBS_ROOM = (0.42, 0.42, 0.42, 0.42)
_BROKEN_ROOM = (0.5, 0.5, 0.42, 0.5)
_BROKEN_BOW = 1.2  # how far a failed cable around the edge bows out of a solid, in such distances
_CHIP_ROOM = 0.13  # of a chip, from its middle, in such distances
_IN_FRONT = 20.0  # so much nearer, in such distances, lies what no chip may hide
_LETTER = 8.0  # width of a letter [px]
_TOTAL_INK = 1.5e5  # area that all busy cables together may cover [px^2]
_RING_HEIGHT = 350.0  # of groups on a ring with their endpoints and names [px]
_LOOP_HEIGHT = 396.0  # of groups on a ring or of a solid, beside the list of a circle of links [px]
MOST_PLACES = 4096
MOST_SINGLE = 200  # with more places, no cable is bent

Complexes = NDArray[np.complex128]


class Spots(NamedTuple):
    """Coordinates in the picture of the places of a network [px]."""

    x: Floats  # (P,)
    y: Floats  # (P,)
    slab: Ints  # (P,) slab of the grid that the place belongs to; 0 without slabs
    height: float  # height of the drawing
    gap: float  # distance between neighbours
    across: float  # the same along the axis that runs across, which may be larger


def is_direct(f: Fabric) -> bool:
    """Return whether a network is direct: most cables between forwarding nodes join two nodes of the same tier.

    The inside of a server, which has nodes of the kind "gpu", does not count as a direct network.
    """
    inner = f.transit[f.source] & f.transit[f.target]
    level = f.tier[f.source[inner]] == f.tier[f.target[inner]]
    return bool(inner.any() and level.mean() > 0.5 and "gpu" not in f.kinds)


def map_scene(
    f: Fabric, share: Floats, colour: str, said: str = "", loop: Sequence[int] = ()
) -> Scene:
    """Return a picture of a direct network with the load of each link, (L,); hosts are in the box of their switch.

    ``loop`` are links that form a circle, to be drawn as one.
    """
    places = places_of(f)
    node = places.node
    if node.size > MOST_PLACES:
        return Scene(text("fabric.too_many_places", n=node.size, most=MOST_PLACES), wrong=True)

    if "group" in f.coord_names and np.unique(f.coordinate("group")[node]).size > 1:
        return _groups_scene(f, places, share, colour, said, loop)

    where = {name: f.coord[node, i].astype(np.int64) for i, name in enumerate(f.coord_names)}
    grid = _grid_axes(where)
    if len(grid) == 3 and not is_cube(grid):
        marks = _marks(f, places, np.zeros(node.size))
        placed = Placed(f, marks, lines_of(f, marks, share), share)
        k = _between_places(placed.lines)
        if not _skipping(grid, k).any():
            return _solid_scene(placed, k, grid, colour, said, loop)
    if len(grid) == 2 and not is_cube(grid) and grid[1].max() > grid[0].max():
        grid = grid[::-1]  # the longer axis runs across, as the picture is wide
    spots = _spots(grid, where.get("group", np.zeros(node.size, np.int64)))
    half = 0.5 * float(np.clip((0.56 if places.folded else 0.62) * spots.gap, 3.0, 26.0))

    marks = _marks(f, places, spots.x)
    placed = Placed(f, marks, lines_of(f, marks, share), share)
    k = _between_places(placed.lines)
    near = _drawn_whole(grid, spots, k)
    flat = len(grid) == 2 and not is_cube(grid)
    look = _look(f, node, marks, k, colour, _cable_width(k, spots, half, colour))
    axes = _axis_names(f, look["colour"])
    layers = _cable_layers(k, spots, near, half, look, grid if flat else [])
    if not near.all() and not flat:
        layers |= _stub_layers(k, spots, grid, ~near, half, look)
    layers |= {
        "nodes": _node_layer(placed, spots, half, loaded=places.folded and colour == "load"),
        "words": _words(f, where, spots, half),
    }

    if colour == "load":
        if np.isfinite(share).all():
            layers |= scale(spots.height + 6)
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
    scene = scene_with_words(
        placed, layers, height, said=said, colours=colours, within=text("map.within")
    )
    return looped(scene, placed, loop) if loop else scene


# Places -------------------------------------------------------------------------------------------


class Places(NamedTuple):
    """The places of a network's map: nodes, or whole groups of nodes."""

    node: Ints  # (P,) the node that stands for each place
    of_node: Ints  # (N,) the place of each node
    switch: Ints  # (N,) the switch at which each node is: itself, or the one at its first link
    folded: bool  # whether a place is a whole group


def places_of(f: Fabric) -> Places:
    """Return the places of a network's map: its forwarding nodes or, if more than 64 stand in groups, the groups.

    An endpoint that forwards no traffic of others is at the place of the switch at its first link.
    """
    drawn = np.flatnonzero(f.transit)
    switch = np.arange(f.n_nodes)  # (N,) node at whose place each node is
    link = np.flatnonzero(~f.transit[f.source] & f.transit[f.target])[::-1]
    switch[f.source[link]] = f.target[link]  # links in reverse order, so the first one wins
    if drawn.size <= MOST_IN_GROUPS or "group" not in f.coord_names:
        return Places(drawn, np.searchsorted(drawn, switch), switch, folded=False)
    group = f.coordinate("group")
    _, first = np.unique(group[drawn], return_index=True)
    drawn = drawn[first]
    return Places(drawn, np.searchsorted(group[drawn], group[switch]), switch, folded=True)


def _marks(f: Fabric, places: Places, x: Floats) -> Marks:
    """Return a box for each place, named after its node or group, with the number of hosts in it."""
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
    """Return the coordinates x, y, ... of each place (P,), or nothing if the network is no grid."""
    if "half" in where or "x" not in where:
        return []
    return [values for name, values in where.items() if name != "local"]


def is_cube(grid: list[Ints]) -> bool:
    """Return whether a grid is a hypercube: more than two axes, with coordinates 0 and 1 only."""
    return len(grid) > 2 and max(int(values.max()) for values in grid) == 1


def _spots(grid: list[Ints], group: Ints) -> Spots:
    """Return the coordinates of places, as a hypercube, a grid or, where there is no grid, as groups on a circle."""
    if is_cube(grid):
        return cube_spots(grid)
    return _grid(grid) if grid else _circles(group)


def cube_spots(grid: list[Ints]) -> Spots:
    """Return the coordinates of the places of a hypercube.

    The first two axes span a square, and the next two a square of such squares, turned and larger, and so on. All
    cables of one axis are parallel, cables of different axes never are, and up to six axes no cable passes through a
    place that is not its end (found by trial).
    """
    axis = np.arange(len(grid))
    # Steps along the axes, as complex numbers: 1 and i, then both rotated and stretched, and so on.
    step = (2.2 * np.exp(0.45j)) ** (axis // 2) * 1j ** (axis % 2)
    place = step @ np.array(grid)
    unit = min((WIDTH - 2 * _EDGE) / np.ptp(place.real), (_TALL - 44) / np.ptp(place.imag), 120.0)
    place = unit * (place - place.real.mean() - 1j * place.imag.min())
    return Spots(
        x=place.real + WIDTH / 2,
        y=place.imag + _EDGE,
        slab=np.zeros(place.size, np.int64),
        height=float(place.imag.max()) + 2 * _EDGE,
        gap=0.36 * unit,
        across=0.36 * unit,
    )


def _grid(grid: list[Ints]) -> Spots:
    """Return the coordinates of the places of a grid: slabs of x and y in rows that fill the width."""
    size = [int(values.max()) + 1 for values in grid] + [1, 1]
    columns, rows = size[0], size[1]
    slab = np.zeros(grid[0].size, np.int64)
    for values, n in zip(grid[2:], size[2:], strict=False):
        slab = slab * n + values

    # The largest gap at which the slabs fit in width and height, for each number n of slabs side by side.
    n_slabs = int(slab.max()) + 1
    margin = 1.2 if n_slabs > 1 else 0.85  # above and below a grid, for its stubs and names
    gaps = []
    for n in range(1, n_slabs + 1):
        bands = -(-n_slabs // n)
        across = (WIDTH - 2 * _EDGE) / (n * (columns + 1.5) - 0.5)
        down = _TALL / (bands * (rows + 2 * margin - 0.5))
        gaps.append(min(across, down, _GAP))
    n_across = int(np.argmax(gaps)) + 1
    gap = float(max(gaps))
    step = gap
    if n_slabs == 1 and columns > rows > 1:
        # A low grid is stretched, so that it does not stand small in the middle.
        fitting = (WIDTH - 2 * _EDGE) / (columns + 1.0)
        step = float(np.clip(fitting, gap, _STRETCH * gap))

    left = (WIDTH - step * (n_across * (columns + 1.5) - 2.5)) / 2
    second = grid[1] if len(grid) > 1 else np.zeros(grid[0].size, np.int64)
    x = left + step * (grid[0] + (slab % n_across) * (columns + 1.5))
    y = _TOP + gap * (margin + second + (slab // n_across) * (rows + 1.9))
    height = float(y.max()) + margin * gap + _TOP
    return Spots(x, y, slab, height=height, gap=gap, across=step)


def _circles(group: Ints) -> Spots:
    """Return the coordinates of places on small circles, one for each group, whose centres are on a large circle."""
    number = np.unique(group, return_inverse=True)[1]  # (P,) number of the group
    n_groups = int(number.max()) + 1
    size = np.bincount(number)  # (groups,) places in each
    rank = np.arange(number.size) - (np.cumsum(size) - size)[number]  # (P,) number within its group

    outer, inner = _radii(n_groups, int(size.max()))
    turn = 2 * np.pi * number / n_groups  # direction of the group from the centre
    own = turn + 2 * np.pi * rank / size[number]  # direction from the centre of the group
    x = WIDTH / 2 + outer * np.sin(turn) + inner * np.sin(own)
    y = _TOP + _ROUND / 2 - outer * np.cos(turn) - inner * np.cos(own)

    gaps = [60.0]
    if inner:
        gaps.append(2 * inner * np.sin(np.pi / max(int(size.max()), 2)))
    if n_groups > 1:
        gaps.append(2 * outer * np.sin(np.pi / n_groups))
    nowhere = np.zeros(group.size, np.int64)
    gap = float(min(gaps))
    return Spots(x, y, nowhere, height=_ROUND + 2 * _TOP, gap=gap, across=gap)


def _radii(n_groups: int, largest: int) -> tuple[float, float]:
    """Return the radius of the circle that groups are on, and the radius of the circle of one group [px]."""
    big = _ROUND / 2 - 14.0
    if n_groups == 1:
        return 0.0, 0.0 if largest == 1 else big
    if largest == 1:
        return big, 0.0
    sine = np.sin(np.pi / n_groups)
    touching = big * sine / (1 + sine)  # at this radius the circles of neighbouring groups touch
    inner = 0.7 * min(touching, 90.0)
    return big - inner, inner


# Solids ------------------------------------------------------------------------------------------


def _solid_scene(
    placed: Placed, k: Lines, grid: list[Ints], colour: str, said: str, loop: Sequence[int]
) -> Scene:
    """Return a picture of a grid of three axes as a solid; cables around an edge are stubs at both of their ends."""
    f, marks, _, share = placed
    tall = _LOOP_HEIGHT if loop else _SOLID_HEIGHT
    room = WIDTH - 120, tall - 20
    margins = _BROKEN_ROOM if colour == "failure" else _STUBS_ROOM
    solid = solid_of(grid, (WIDTH / 2, tall / 2), room, margins=margins)
    look = _look(f, marks.first, marks, k, colour, 1.6)
    around, axis, forward = closes(grid, k.a, k.b)
    dead = k.failed > 0
    here, far = np.flatnonzero(~around & ~dead), np.flatnonzero(around & ~dead)
    ends = solid.place[np.stack([k.a, k.b], axis=1)]  # (K, 2, 3)
    last = np.where(forward, k.b, k.a)
    first = np.where(forward, k.a, k.b)
    at_last, at_first = stubs(solid, last[far], first[far], axis[far])
    # A failed cable is drawn in full, also where it leads around the edge.
    broken, paths = np.flatnonzero(dead), []
    for i in broken.tolist():
        if around[i]:
            paths += closing(solid, last[[i]], first[[i]], int(axis[i]), _BROKEN_BOW)
        else:
            paths.append(ends[i])
    paths = [_trimmed(path, _CHIP_ROOM * solid.unit) for path in paths]
    gap = {
        **_part(look, broken),
        "width": 1.2,
        "colour": COLOUR["failed"],
        "alpha": 1.0,
        "dash": 0.0,
        "form": FORM["failed"],
        "strong": 1.0,
        "lift": _IN_FRONT * solid.unit,
    }
    layers = {
        "cables": solid_lines(list(ends[here]), solid, **_part(look, here)),
        "stubs": solid_lines([*at_last, *at_first], solid, **_part(look, np.tile(far, 2))),
        "nodes": solid_dots(
            solid.place,
            solid,
            size=float(np.clip(0.085 * solid.unit, 2.0, 5.0)),
            colour=COLOUR["node"],
            names=marks.names,
        ),
        "failed": solid_lines(paths, solid, **gap),
        "words": solid_axes(solid, f.coord_names[:3]),
    }
    axes = _axis_names(f, look["colour"])
    if colour == "load":
        if np.isfinite(share).all():
            layers |= scale(tall + 8)
    elif colour == "failure":
        layers |= key(tall + 8, text("fabric.key_failure"), [])
    else:
        layers |= key(tall + 8, text("map.key_axis"), axes)
    height = tall + (32 if "ends" in layers else 4)
    if colour in ("load", "failure"):
        colours = colour_sentence(colour, k.load, np.zeros(0), k.failed.sum(), f.n_cables)
    else:
        colours = text("map.says_axis", list=", ".join(filter(None, axes)))
    scene = scene_with_words(
        placed, layers, height, said=said, colours=colours, within=text("map.within")
    )
    return looped(scene, placed, loop, solid) if loop else scene


def _trimmed(path: Floats, room: float) -> Floats:
    """Return a path (49, 3) that leaves out a length of ``room`` at both of its ends, where a chip is."""
    far = np.linalg.norm(np.diff(path, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(far)])
    wanted = np.linspace(room, along[-1] - room, 49)
    return np.stack([np.interp(wanted, along, column) for column in path.T], axis=1)


# Groups on a ring ---------------------------------------------------------------------------------


def placed_on_ring(f: Fabric, places: Places, share: Floats) -> Placed:
    """Return the places and the lines of a network whose switches stand in groups."""
    marks = _marks(f, places, np.zeros(places.node.size))
    return Placed(f, marks, lines_of(f, marks, share), share)


def _groups_scene(
    f: Fabric, places: Places, share: Floats, colour: str, said: str, loop: Sequence[int]
) -> Scene:
    """Return a picture of a network whose switches stand in groups, on a ring."""
    placed = placed_on_ring(f, places, share)
    tall = _LOOP_HEIGHT if loop else _RING_HEIGHT
    radius = radius_in(tall / 2, places.folded)
    ring = ring_of(f, places.switch, complex(WIDTH / 2, tall / 2), radius)
    layers = ring_layers(placed, ring, places.folded, colour)
    k = placed.lines
    if colour == "load":
        if np.isfinite(share).all():
            layers |= scale(tall + 12, WIDTH / 2 - 150)
        colours = colour_sentence(colour, k.fullest, np.zeros(0), 0, f.n_cables)
    elif colour == "failure":
        layers |= key(tall + 12, text("fabric.key_failure"), [])
        colours = colour_sentence(colour, k.load, np.zeros(0), int(k.failed.sum()), f.n_cables)
    else:
        names = [text("ring.across"), "" if places.folded else text("ring.within")]
        layers |= key(tall + 12, text("ring.key"), names)
        colours = text("map.says_axis", list=", ".join(filter(None, names)))
    height = tall + (36 if "ends" in layers else 8)
    scene = scene_with_words(
        placed, layers, height, said=said, colours=colours, within=text("map.within")
    )
    return looped(scene, placed, loop) if loop else scene


# Cables -------------------------------------------------------------------------------------------


def _between_places(every: Lines) -> Lines:
    """Return the lines that join two different places, in order of load, so that the fullest is drawn on top."""
    order = np.argsort(np.nan_to_num(every.fullest), kind="stable")
    order = order[every.a[order] != every.b[order]]
    return Lines._make(column[order] for column in every)


def _lengths(k: Lines, spots: Spots) -> Floats:
    """Return the length of each line (K,) [px]."""
    return np.hypot(spots.x[k.a] - spots.x[k.b], spots.y[k.a] - spots.y[k.b])


def _drawn_whole(grid: list[Ints], spots: Spots, k: Lines) -> Flags:
    """Return which cables (K,) are drawn in full; those to another slab or around the edge of a grid become stubs."""
    if not grid or is_cube(grid):
        return np.ones(k.a.size, bool)
    in_slab = spots.slab[k.a] == spots.slab[k.b]
    apart_x = np.abs(spots.x[k.a] - spots.x[k.b]) / spots.across
    apart_y = np.abs(spots.y[k.a] - spots.y[k.b]) / spots.gap
    to_neighbour = np.hypot(apart_x, apart_y) < 1.01
    return np.asarray(in_slab & (to_neighbour | _skipping(grid, k)))


def _skipping(grid: list[Ints], k: Lines) -> Flags:
    """Return which cables (K,) run along one axis, if on that axis some skip places, as in a HyperX.

    Cables around the edge, from the first place to the last, do not count as skipping.
    """
    coordinates = np.array(grid)  # (axes, P)
    step = np.abs(coordinates[:, k.b] - coordinates[:, k.a])  # (axes, K)
    last = coordinates.max(axis=1)[:, None]
    skips = (step > 1) & (step < last)
    along_skipping_axis = (step > 0)[skips.any(axis=1)].any(axis=0)
    along_one_axis = np.count_nonzero(step, axis=0) == 1
    return np.asarray(along_one_axis & along_skipping_axis)


def _busy(k: Lines, colour: str) -> Flags:
    """Return which lines (K,) carry traffic; where colours do not show the load, all count as busy."""
    return np.asarray(k.fullest != 0) | (colour != "load")


def _cable_width(k: Lines, spots: Spots, half: float, colour: str) -> float:
    """Return the width of a cable at which all busy cables together leave most of the picture free [px]."""
    total = float(_lengths(k, spots)[_busy(k, colour)].sum())
    return min(half / 3, _TOTAL_INK / max(total, 1.0))


def _look(
    f: Fabric, node: Ints, marks: Marks, k: Lines, colour: str, width: float
) -> dict[str, Any]:
    """Return the look of the cables of a map, their names and their notes; each is about ``width`` px wide."""
    # The axis of a cable is the first one in which its ends differ.
    differs = f.coord[node[k.a]] != f.coord[node[k.b]]
    axis = np.argmax(differs, axis=1) if differs.size else np.full(k.a.size, -1)
    coloured_by = "axis"
    if colour == "failure" or (colour == "load" and np.isfinite(k.fullest).any()):
        coloured_by = colour

    dead = k.failed == k.cables
    idle = ~_busy(k, colour)
    widest = {"load": 3.0, "failure": 1.0}.get(coloured_by, 1.4)
    # Idle cables are pale and thin, and full ones a little thicker, so that a few routes stand out.
    part: float | Floats = 1.0
    if colour == "load":
        part = 0.7 + 0.5 * np.nan_to_num(k.fullest, nan=0.6) ** 2
    return {
        "width": np.where(idle, 0.8, float(np.clip(width, 0.8, widest)) * part),
        "colour": np.where(
            idle, COLOUR["hair"], colours_of(coloured_by, k.fullest, k.failed, axis)
        ),
        "alpha": np.where(dead, 0.35, 1.0),
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
    k: Lines, spots: Spots, near: Flags, half: float, look: dict[str, Any], grid: list[Ints]
) -> dict[str, Layer]:
    """Return the cables drawn in full, bent where they would pass behind a box, and crosses on failed ones.

    In a flat ``grid``, those around the edge are drawn as well, through the lanes between rows or columns.
    """
    here = np.flatnonzero(near)
    place = spots.x + 1j * spots.y  # (P,)
    start = place[k.a[here]]
    vector = place[k.b[here]] - start
    bend = _bends(place, start, vector, half)
    sideways = 1j * vector / np.abs(vector)
    top = start + vector / 2 + sideways * bend  # highest point of the bend

    points = []
    for s, v, t, bent in zip(start, vector, top, bend, strict=True):
        points.append(_parabola(s, v, t) if bent else np.array([s, s + v]))
    if grid:
        around = np.flatnonzero(~near)
        points += _around(k, place, around, grid, spots)
        # The corner at which a cable turns into its lane, for the cross on a failed one.
        top = np.concatenate([top, [path[path.size // 2] for path in points[here.size :]]])
        here = np.concatenate([here, around])
    paths = [np.stack([p.real, p.imag], axis=1) for p in points]
    cut = top[k.failed[here] > 0]
    return {
        "cables": lines(paths, **_part(look, here)),
        **crosses("failed", cut.real, cut.imag),
    }


def _around(
    k: Lines, place: Complexes, which: Ints, grid: list[Ints], spots: Spots
) -> list[Complexes]:
    """Return the paths of cables around the edge of a flat grid.

    A path leaves the last place outwards, runs back between two rows or columns, and arrives at the first from outside.
    """
    coordinates = np.array(grid)
    last = coordinates.max(axis=1)
    paths = []
    for i in which.tolist():
        a, b = int(k.a[i]), int(k.b[i])
        step = coordinates[:, b] - coordinates[:, a]
        axis = int(np.argmax((step != 0) + 2 * ((np.abs(step) == last) & (last > 1))))
        if step[axis] < 0:
            a, b = b, a  # from the first place to the last
        steps = complex(spots.across), 1j * spots.gap
        ahead, aside = steps if axis == 0 else steps[::-1]
        lane = place[b] + 0.5 * aside
        corners = [
            place[b],
            place[b] + 0.55 * ahead,
            lane + 0.55 * ahead,
            lane - (last[axis] + 0.55) * ahead,
            place[a] - 0.55 * ahead,
            place[a],
        ]
        paths.append(_rounded(np.array(corners), 0.3 * spots.gap))
    return paths


def _rounded(corners: Complexes, radius: float) -> Complexes:
    """Return a path whose inner corners are rounded, each by a quadratic Bezier curve."""
    t = np.linspace(0, 1, 9)
    parts = [corners[:1]]
    for before, corner, after in zip(corners[:-2], corners[1:-1], corners[2:], strict=True):
        ends = []
        for other in (before, after):
            far = abs(other - corner)
            ends.append(corner + (other - corner) * min(radius / max(far, 1e-9), 0.5))
        parts.append((1 - t) ** 2 * ends[0] + 2 * t * (1 - t) * corner + t**2 * ends[1])
    return np.concatenate([*parts, corners[-1:]])


def _parabola(start: complex, vector: complex, top: complex) -> Complexes:
    """Return 17 points of a parabola from ``start`` to ``start + vector`` that passes through ``top`` halfway."""
    part = np.linspace(0, 1, 17)
    rise = top - start - vector / 2
    return np.asarray(start + vector * part + 4 * part * (1 - part) * rise)


def _bends(place: Complexes, start: Complexes, vector: Complexes, half: float) -> Floats:
    """Return the smallest bend of each line (K,) with which it passes beside all boxes but its own two [px].

    Returns 0 for a line that no tried bend clears, and for all lines if there are more than 200 places.
    """
    if place.size > MOST_SINGLE:
        return np.zeros(start.size)
    tries = [0.0]
    for far in np.arange(1.0, 6.5, 0.5):
        tries += [half * far, half * -far]

    # Each place relative to each line (K, P): its position along the line (0..1), and its distance from it [px].
    relative = (place - start[:, None]) / vector[:, None]
    along = relative.real
    length = np.abs(vector)[:, None]
    beyond_ends = (along < 1e-9) | (along > 1 - 1e-9)
    free = []  # (tries, K)
    for bend in tries:
        off = relative.imag * length - 4 * bend * along * (1 - along)
        # Where the line is steep, its distance from a place is less than the height between them.
        steepness = np.hypot(1, 4 * bend / length * (1 - 2 * along))
        clear = np.abs(off) > 1.4 * half * steepness
        free.append(np.all(beyond_ends | clear, axis=1))
    return np.asarray(np.array(tries)[np.argmax(free, axis=0)])


# Direction in which the cables of each axis leave a slab: horizontal for x, vertical for y, diagonal for all others.
_STUB_DIRECTIONS = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, -0.8], [0.8, 0.8]])


def _stub_layers(
    k: Lines, spots: Spots, grid: list[Ints], far: Flags, half: float, look: dict[str, Any]
) -> dict[str, Layer]:
    """Return stubs at both ends of cables to other slabs or around the edge, and a cross on each failed one."""
    here = np.flatnonzero(far)
    coordinates = np.array(grid)  # (axes, P)
    step = coordinates[:, k.b[here]] - coordinates[:, k.a[here]]  # (axes, cables)
    last = coordinates.max(axis=1)[:, None]  # (axes, 1)
    whole = (
        np.abs(step) == last
    )  # from the first place to the last one: the cable goes around the edge
    # Such a cable leaves at the outer side: from the last place upwards, from the first downwards.
    sign = np.where(whole, -np.sign(step), np.sign(step))

    # A cable that changes several coordinates goes around the edge of one of them.
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
    # One cross for each cable: at the first of its stubs.
    tips = np.array([path[1] for path in paths[: here.size]]).reshape(-1, 2)[k.failed[here] > 0]
    return {"stubs": lines(paths, **_part(look, both)), **crosses("failed ends", *tips.T)}


def crosses(name: str, x: Floats, y: Floats) -> dict[str, Layer]:
    """Return a layer of crosses at the given points, which mark failed cables."""
    look = {"size": 5.0, "shape": 2.0, "colour": COLOUR["failed"]}
    return {name: Layer("dots", {"x": x, "y": y, **look})}


# Boxes, words, legend -----------------------------------------------------------------------------


def _node_layer(placed: Placed, spots: Spots, half: float, *, loaded: bool) -> Layer:
    """Return a box for each place, labelled if all labels fit."""
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
    """Return the colour of each box: that of its kind, or with ``loaded`` that of the fullest cable inside the box."""
    f, marks, every, _ = placed
    own = every.a == every.b  # cables to hosts, or within a group
    load = np.full(len(marks.names), np.nan)
    load[every.a[own]] = every.fullest[own]
    if loaded and np.isfinite(load).any():
        return shade(load)
    return np.where(f.tier[marks.first] > 0, COLOUR["switch"], COLOUR["host"])


def _axis_names(f: Fabric, colours: Floats) -> list[str]:
    """Return the name of each coordinate, empty where the colour of that axis occurs on no cable."""
    names = []
    for i, name in enumerate(f.coord_names):
        occurs = name != "local" and KEYS[i % len(KEYS)] in colours
        names.append(name if occurs else "")
    return names


def _words(f: Fabric, where: Mapping[str, Ints], spots: Spots, half: float) -> Layer:
    """Return the names of slabs by their further coordinates; none for a single slab or where they do not fit."""
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
