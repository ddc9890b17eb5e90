"""Map of a direct network: switches (or chips) where their coordinates put them, as rows of tiers would not show it.

Grids with coordinates x, y, ... are drawn as slabs of x and y, a hypercube as squares of squares, groups as circles on
a circle, all else as one circle. A cable of a grid to another slab or round its edge is drawn as a stub at both ends,
any other as a line, which is bent where it would pass behind a box.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabriclab.core import Fabric, Flags, Floats, Ints
from fabriclab.texts import text
from fabriclab.views.layout import (
    Lines,
    Marks,
    colours_of,
    counted,
    lines_of,
    readable,
    told,
    worded,
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

_TOP, _EDGE, _ROUND, _TALL = 16.0, 40.0, 430.0, 520.0  # [px]
_IDLE = 0.22  # how strong a cable is drawn that carries nothing
MOST_PLACES = 4096
MOST_SINGLE = 200  # beyond it a group is one place


def is_direct(f: Fabric) -> bool:
    """Return whether most cables between nodes that pass traffic on join nodes of one tier; a server is none."""
    inner = f.transit[f.source] & f.transit[f.target]
    level = f.tier[f.source[inner]] == f.tier[f.target[inner]]
    return bool(inner.any() and level.mean() > 0.5 and "gpu" not in f.kinds)


def map_scene(f: Fabric, share: Floats, colour: str, said: str = "") -> Scene:
    """Return one picture of a direct network with loads (L,); its hosts stand in the box of their switch."""
    node, of_node, folded = places_of(f)
    if node.size > MOST_PLACES:
        return Scene(text("fabric.too_many_places", n=node.size, most=MOST_PLACES), wrong=True)
    where = {name: f.coord[node, i].astype(np.int64) for i, name in enumerate(f.coord_names)}
    grid = (
        [] if "half" in where or "x" not in where else [c for n, c in where.items() if n != "local"]
    )
    slab, cube = np.zeros(node.size, np.int64), len(grid) > 2 and max(map(np.max, grid)) == 1
    if cube:
        x, y, height, gap = _cube(grid)
    elif grid:
        x, y, slab, height, gap = _grid(grid)
    else:
        x, y, gap = _circles(where.get("group", slab))
        height = _ROUND + 2 * _TOP
    marks = _marks(f, node, of_node, x, folded)
    every = lines_of(f, marks, share)
    order = np.argsort(np.nan_to_num(every.load), kind="stable")  # what is full lies on top
    order = order[every.a[order] != every.b[order]]
    k = Lines._make(column[order] for column in every)
    near, long = np.ones(k.a.size, bool), np.hypot(x[k.a] - x[k.b], y[k.a] - y[k.b])
    if grid and not cube:
        near = (slab[k.a] == slab[k.b]) & ((long < 1.01 * gap) | _skipping(grid, k))
    half = 0.5 * float(np.clip((0.56 if folded else 0.62) * gap, 3.0, 26.0))
    look = _look(
        f, node, marks, k, colour, min(half / 3, 1.5e5 / max(long[_busy(k, colour)].sum(), 1.0))
    )
    keys = _box_colours(f, marks, every, folded and colour == "load")
    shown = max(map(len, (_label(n) for n in marks.names)), default=0) * 8.0 < 2 * half
    layers = {
        **_cables(k, x, y, near, half, look),
        **(_stubs(k, x, y, grid, ~near, half, gap, look) if not near.all() else {}),
        "nodes": boxes(
            x - half,
            y - half,
            2 * half,
            2 * half,
            colour=keys,
            ink=ink_on(keys),
            names=marks.names,
            texts=[_label(n) if shown else "" for n in marks.names],
        ),
        "words": _words(f, slab, where, x, y, half),
    }
    axes = [
        n if n != "local" and KEYS[i % len(KEYS)] in look["colour"] else ""
        for i, n in enumerate(f.coord_names)
    ]
    if colour == "load":
        layers |= scale(height + 6, idle=True) if np.isfinite(share).all() else {}
    else:
        words = text("fabric.key_failure" if colour == "failure" else "map.key_axis")
        layers |= key(height + 6, words, [] if colour == "failure" else axes)
    height += 34 * ("ends" in layers)
    words = text("map.says_axis", list=", ".join(filter(None, axes)))
    if colour in ("load", "failure"):
        words = told(colour, k.load, np.zeros(0), k.failed.sum(), f.n_cables)
    return worded(f, marks, every, share, layers, height, said, words, text("map.within"))


def _busy(k: Lines, colour: str) -> Flags:
    """Return which lines are not idle; only loads tell."""
    return np.asarray(k.load != 0) | (colour != "load")


def _look(
    f: Fabric, node: Ints, marks: Marks, k: Lines, colour: str, wide: float
) -> dict[str, Any]:
    """Return how the cables of a map look and what they say, ``wide`` pixels each unless that is too much or little."""
    differs = f.coord[node[k.a]] != f.coord[node[k.b]]
    # the first in which its ends differ
    axis = np.argmax(differs, axis=1) if differs.size else np.full(k.a.size, -1)
    dead, idle = k.failed == k.cables, ~_busy(k, colour)
    # What carries nothing is pale and thin, and what is full a little thicker: a few ways stand out among many cables.
    part = 0.7 + 0.5 * np.nan_to_num(k.load, nan=0.6) ** 2 if colour == "load" else 1.0
    said_by = (
        "load"
        if colour == "load" and np.isfinite(k.load).any()
        else "failure"
        if colour == "failure"
        else "axis"
    )
    return {
        "width": np.where(idle, 0.7, float(np.clip(wide, 0.8, 3.0)) * part),
        "colour": np.where(idle, COLOUR["ink"], colours_of(said_by, k.load, k.failed, axis)),
        "alpha": np.where(dead, 0.35, np.where(idle, _IDLE, 1.0)),
        "dash": 2.0 * dead,
        **readable(marks, k),
    }


def _box_colours(f: Fabric, marks: Marks, every: Lines, loaded: bool) -> Floats:
    """Return the colour of each box: its kind, or with ``loaded`` the load of the fullest cable within its block."""
    # cables to hosts, or within a group
    inside, own = (np.full(len(marks.names), np.nan), every.a == every.b)
    inside[every.a[own]] = every.fullest[own]
    kind = np.where(f.tier[marks.first] > 0, COLOUR["switch"], COLOUR["host"])
    return shade(inside) if loaded and np.isfinite(inside).any() else kind


def places_of(f: Fabric) -> tuple[Ints, Ints, bool]:
    """Return the nodes that are drawn (P,), the place of each node (N,), and whether a place is a whole group.

    An end that no other traffic passes stands at its first switch.
    """
    drawn, at = np.flatnonzero(f.transit), np.arange(f.n_nodes)
    link = np.flatnonzero(~f.transit[f.source] & f.transit[f.target])[::-1]
    at[f.source[link]] = f.target[link]  # the first link is written last
    if folded := drawn.size > MOST_SINGLE and "group" in f.coord_names:
        group = f.coordinate("group")
        drawn = drawn[np.unique(group[drawn], return_index=True)[1]]
        return drawn, np.searchsorted(group[drawn], group[at]), folded
    return drawn, np.searchsorted(drawn, at), folded


def _marks(f: Fabric, node: Ints, of_node: Ints, x: Floats, folded: bool) -> Marks:
    groups = f.coordinate("group")[node] if folded else ()
    names = [text("map.group", n=i) for i in groups] or [f.name(int(i)) for i in node]
    if not f.transit[f.endpoint].all():
        hosts = np.bincount(of_node[f.endpoint], minlength=node.size).tolist()
        names = [
            f"{name}, {counted(n, f.kinds[f.kind[f.endpoint[0]]])}"
            for name, n in zip(names, hosts, strict=True)
        ]
    none = np.full(node.size, -1, dtype=np.int64)
    return Marks(
        of_node,
        node,
        names,
        f.tier[node].astype(np.int64),
        none,
        none,
        x,
        np.ones(node.size),
        folded,
    )


def _label(name: str) -> str:
    return name.split(",")[0].split()[-1]


def _cube(grid: list[Ints]) -> tuple[Floats, Floats, float, float]:
    """Return x, y of places with coordinates 0 and 1, the height, and the room of a place [px].

    Two axes are a square, two more a square of these, turned and larger: all cables of an axis are parallel, those of
    no two axes are, and up to six axes no cable meets the place of another (found by trial).
    """
    axis = np.arange(len(grid))
    place = (2.2 * np.exp(0.45j)) ** (axis // 2) * 1j ** (axis % 2) @ np.array(grid)
    unit = min((WIDTH - 2 * _EDGE) / np.ptp(place.real), _TALL / np.ptp(place.imag), 120.0)
    place = unit * (place - place.real.mean() - 1j * place.imag.min())
    return (
        place.real + WIDTH / 2,
        place.imag + _EDGE,
        float(place.imag.max()) + 2 * _EDGE,
        0.36 * unit,
    )


def _skipping(grid: list[Ints], k: Lines) -> Flags:
    """Return which cables (K,) run along a row where some skip places without going round the edge, as in a HyperX."""
    table = np.array(grid)
    step = np.abs(table[:, k.b] - table[:, k.a])
    skips = (step > 1) & (step < table.max(axis=1)[:, None])
    return np.asarray(
        (np.count_nonzero(step, axis=0) == 1) & (step > 0)[skips.any(axis=1)].any(axis=0)
    )


def _grid(grid: list[Ints]) -> tuple[Floats, Floats, Ints, float, float]:
    """Return x, y, slab of each place, the height, and the way between neighbours [px]."""
    size = [int(c.max()) + 1 for c in grid] + [1, 1]
    columns, rows = size[0], size[1]
    inner = np.zeros(grid[0].size, np.int64)
    for c, n in zip(grid[2:], size[2:], strict=False):
        inner = inner * n + c
    slabs = int(inner.max()) + 1
    ways = [
        min(
            (WIDTH - 2 * _EDGE) / (n * (columns + 1.5) - 0.5),
            _TALL / (-(-slabs // n) * (rows + 1.9)),
            56.0,
        )
        for n in range(1, slabs + 1)
    ]
    across, gap = int(np.argmax(ways)) + 1, float(max(ways))
    left = (WIDTH - gap * (across * (columns + 1.5) - 2.5)) / 2
    second = grid[1] if len(grid) > 1 else np.zeros(grid[0].size, np.int64)
    x = left + gap * (grid[0] + (inner % across) * (columns + 1.5))
    y = _TOP + gap * (1.2 + second + (inner // across) * (rows + 1.9))
    return x, y, inner, float(y.max()) + 1.2 * gap + _TOP, gap


def _circles(group: Ints) -> tuple[Floats, Floats, float]:
    """Return x and y of places on circles on a circle, group by group, and the way between neighbours [px]."""
    number = np.unique(group, return_inverse=True)[1]
    n, each = int(number.max()) + 1, np.bincount(number)
    rank = np.arange(number.size) - (np.cumsum(each) - each)[number]
    big = _ROUND / 2 - 14.0
    small = (
        0.0
        if each.max() == 1
        else big
        if n == 1
        else min(big * np.sin(np.pi / n) / (1 + np.sin(np.pi / n)), 90.0)
    )
    small *= 1.0 if n == 1 else 0.7
    middle = 0.0 if n == 1 else big - small
    turn, own = 2 * np.pi * number / n, 2 * np.pi * rank / each[number]
    x = WIDTH / 2 + middle * np.sin(turn) + small * np.sin(turn + own)
    y = _TOP + _ROUND / 2 - middle * np.cos(turn) - small * np.cos(turn + own)
    ways = [2 * small * np.sin(np.pi / max(int(each.max()), 2)) if small else np.inf]
    ways += [2 * middle * np.sin(np.pi / n)] if n > 1 else []
    return x, y, float(min(*ways, 60.0))


def scale(y: float, idle: bool = False) -> dict[str, Layer]:
    """Return the scale of loads: a bar of the map with its ends, and with ``idle`` the look of a cable without load."""
    n, left, w = 32, 250.0, 200.0
    x = left + w * np.arange(n) / n
    ends = (
        (left - 8 - 32 * idle, y + 6, text("fabric.load", percent=0), 2),
        (left + w + 8, y + 6, "100%", 0),
    )
    bar = boxes(x, y, w / n + 0.5, 12.0, round=0.0, colour=shade(np.linspace(0, 1, n)))
    none = lines(
        [np.array([[left - 32, y + 6], [left - 8, y + 6]])], colour=COLOUR["ink"], alpha=_IDLE
    )
    return {"scale": bar, "ends": texts_at(*ends)} | ({"idle": none} if idle else {})


def _part(look: dict[str, Any], which: Ints) -> dict[str, Any]:
    return {
        name: v[which] if isinstance(v, np.ndarray) else [v[i] for i in which]
        for name, v in look.items()
    }


def _cables(
    k: Lines, x: Floats, y: Floats, near: Flags, half: float, look: dict[str, Any]
) -> dict[str, Layer]:
    here = np.flatnonzero(near)
    place, part = x + 1j * y, np.linspace(0, 1, 17)
    start, way = place[k.a[here]], place[k.b[here]] - place[k.a[here]]
    bend = _bends(place, start, way, half)
    top = start + way / 2 + 1j * way / np.abs(way) * bend
    # From the start over the top to the end: a parabola.
    points = [
        s + w * part + 4 * part * (1 - part) * (t - s - w / 2) if far else np.array([s, s + w])
        for s, w, t, far in zip(start, way, top, bend, strict=True)
    ]
    drawn = lines([np.stack([p.real, p.imag], axis=1) for p in points], **_part(look, here))
    cut = top[k.failed[here] > 0]
    return {"cables": drawn, **crosses("failed", cut.real, cut.imag)}


def _bends(
    place: NDArray[np.complex128],
    start: NDArray[np.complex128],
    way: NDArray[np.complex128],
    half: float,
) -> Floats:
    """Return how far each line is bent so that it passes beside the boxes of others, the least that does [px]."""
    tries = half * np.array(
        [0.0, *(side * far for far in np.arange(1.0, 6.5, 0.5) for side in (1, -1))]
    )
    if place.size > MOST_SINGLE:
        return np.zeros(start.size)
    # its real part is along the way, the imaginary one beside it
    at = (place - start[:, None]) / way[:, None]
    long = np.abs(way)[:, None]
    free = []
    for far in tries:
        off = at.imag * long - 4 * far * at.real * (1 - at.real)
        # a steep line is nearer than it is below or above
        steep = np.hypot(1, 4 * far / long * (1 - 2 * at.real))
        free.append(
            np.all(
                (at.real < 1e-9) | (at.real > 1 - 1e-9) | (np.abs(off) > 1.4 * half * steep), axis=1
            )
        )
    return np.asarray(tries[np.argmax(free, axis=0)])


def _stubs(
    k: Lines,
    x: Floats,
    y: Floats,
    grid: list[Ints],
    far: Flags,
    half: float,
    gap: float,
    look: dict[str, Any],
) -> dict[str, Layer]:
    """Return stubs of the cables to other slabs or round the edge: level for x, upright for y, slanted for the rest."""
    here = np.flatnonzero(far)
    table = np.array(grid)
    step = table[:, k.b[here]] - table[:, k.a[here]]
    longest = table.max(axis=1)[:, None]
    # A way round the edge leaves at the far side: from the last place upwards, from the first downwards.
    away = np.where(np.abs(step) == longest, -np.sign(step), np.sign(step))
    axis = np.array([[1.0, 0.0], [0.0, 1.0], [0.8, -0.8], [0.8, 0.8]])[
        np.minimum(np.arange(len(grid)), 3)
    ]
    # A cable that changes several coordinates goes round the edge of one of them.
    round_ = (np.abs(step) == longest) & (longest > 1)
    which = np.argmax((step != 0) + 2 * round_, axis=0)
    way = axis[which] * away[which, np.arange(here.size)][:, None] * (half + 0.24 * gap)
    ends = [(k.a[here], way), (k.b[here], -way)]
    paths = [
        np.array([[x[i], y[i]], [x[i] + dx, y[i] + dy]])
        for at, go in ends
        for i, (dx, dy) in zip(at, go, strict=True)
    ]
    both = np.tile(here, 2)
    tips = np.array([path[1] for path in paths])[k.failed[both] > 0]
    return {"stubs": lines(paths, **_part(look, both)), **crosses("failed ends", *tips.T)}


def crosses(name: str, x: Floats, y: Floats) -> dict[str, Layer]:
    """Return crosses where cables have failed."""
    return {
        name: Layer("dots", {"x": x, "y": y, "size": 5.0, "shape": 2.0, "colour": COLOUR["failed"]})
    }


def _words(
    f: Fabric, slab: Ints, where: dict[str, Ints], x: Floats, y: Floats, half: float
) -> Layer:
    """Name the slabs of a grid by their further coordinates."""
    first = np.unique(slab, return_index=True)[1]
    names = [
        ", ".join(f"{n} {where[n][i]}" for n in f.coord_names[2:] if n != "local") for i in first
    ]
    if first.size < 2 or np.ptp(x[slab == 0]) < 8.0 * max(map(len, names)):
        return texts_at()
    return texts_at(
        *(
            (float(x[i]) - half, float(y[i]) - half - 16, n, 0)
            for i, n in zip(first, names, strict=True)
        )
    )
