"""A circle of links in a picture of a fabric, such as links that wait for each other in a deadlock."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Fabric, Floats
from fabriclab.texts import text
from fabriclab.views.layout import Placed, counted
from fabriclab.views.page import Table
from fabriclab.views.scene import COLOUR, Layer, Scene, lines, texts, turned
from fabriclab.views.solids import Solid, closing, solid_lines

_WIDE = 2.4  # width of a line of the circle [px]
_HEAD = 7.0  # length of the head of an arrow [px]
_ASIDE = 9.0  # distance of a number from its line [px]
_CLEAR = 15.0  # distance from the middle of a number to a box or another number that is enough [px]
# Where along its link a number may stand, in the order of preference.
_PARTS = (0.45, 0.5, 0.4, 0.55, 0.35, 0.6, 0.3, 0.65, 0.25, 0.7)
_IN_FRONT = 1e4  # draws a number in front of all chips of a solid, however it is turned [px]
_ROW = 17.0  # distance between two lines of the list [px]
_COLUMN = 176.0  # width of a column of the list [px]
_NARROWEST = 1.2  # columns, for the lines above and below the list
_WORD = 24.0  # about half of the width of a name in the picture [px]
_EDGE = 12.0  # margin at the left and right of the picture [px]

Complexes = NDArray[np.complex128]


def checked_loop(f: Fabric, loop: Sequence[int]) -> list[int]:
    """Return the links of a circle, after checking that each one begins where the link before it ends.

    Raises
    ------
    ValueError
        If there is no link, or the links are no circle.
    """
    links = [units.count(link, "loop", 0, f.n_links - 1) for link in loop]
    ends = f.target[links]
    if not links or not np.array_equal(np.roll(f.source[links], -1), ends):
        raise ValueError(
            f"loop must hold links that form a circle, got {len(links)} links;"
            " give what routing.deadlock returns, if that is not ()"
        )
    return links


def looped(scene: Scene, placed: Placed, loop: Sequence[int], solid: Solid | None = None) -> Scene:
    """Return a picture of a fabric with a circle of links in it, and their names in order beside it."""
    f = placed.fabric
    links = checked_loop(f, loop)
    if solid is None:
        drawn = _flat(scene.layers, placed, links)
    else:
        drawn = _in_solid(placed, links, solid)
    hidden = ("case", "scale", "idle", "ends")
    layers = {name: layer for name, layer in scene.layers.items() if name not in hidden}
    over = {"nodes": layers.pop("nodes"), "words": layers.pop("words", texts(0.0, 0.0, []))}
    numbers = drawn.pop("loop numbers")
    for name in ("cables", "stubs"):  # only the circle has a hue
        if name in layers:
            quiet = {**layers[name].fields, "colour": COLOUR["hair"], "width": 0.8}
            layers[name] = replace(layers[name], fields=quiet)
    layers |= drawn | over | {"loop numbers": numbers}
    said = text("loop.said", links=counted(len(links), "link"))
    table = Table(
        {
            "place": np.arange(1, len(links) + 1),
            "waits in": [f.name(int(f.source[link])) for link in links],
            "for": [f.name(int(f.target[link])) for link in links],
        }
    )
    ways = ", ".join(f.name(int(f.source[link])) for link in links)
    layers, width = _cropped(layers, scene.width)
    return replace(
        scene,
        width=width,
        said=said,
        alt=said + " " + text("loop.order", list=ways),
        layers=layers,
        table=table,
        side=_list(f, links, scene.height),
    )


def _cropped(layers: Mapping[str, Layer], width: float) -> tuple[dict[str, Layer], float]:
    """Return layers without the empty margins at their left and right, and the width that is left [px].

    So the fabric does not become small beside the list.
    """
    low, high = width, 0.0
    for layer in layers.values():
        fields = layer.fields
        if "x" not in fields or not len(fields["x"]):
            continue
        x = np.atleast_1d(fields["x"]).astype(np.float64)
        if "z" in fields:
            y, z = np.asarray(fields["y"]), np.asarray(fields["z"])
            x = fields["middle"][0] + turned(x, y, z)[0]
        more = _WORD if layer.kind == "texts" else 0.0
        low = min(low, float(x.min()) - more)
        high = max(high, float(np.max(x + fields.get("w", more))))
    left = max(0.0, low - _EDGE)
    moved = {}
    for name, layer in layers.items():
        fields = dict(layer.fields)
        if "z" in fields:
            fields["middle"] = [fields["middle"][0] - left, fields["middle"][1]]
        elif "x" in fields:
            fields["x"] = np.asarray(fields["x"]) - left
        moved[name] = replace(layer, fields=fields)
    return moved, min(width, high + _EDGE) - left


def _flat(layers: Mapping[str, Layer], placed: Placed, links: Sequence[int]) -> dict[str, Layer]:
    """Return the layers of a circle along the cables that a picture draws."""
    f, marks, _, _ = placed
    drawn = layers["cables"].fields
    points = drawn["x"].astype(np.float64) + 1j * drawn["y"]
    ptr = drawn["ptr"].astype(int)
    which = {name: i for i, name in enumerate(drawn["names"])}
    middle = _middles(layers["nodes"])
    paths = []
    for link in links:
        a, b = marks.of_node[[f.source[link], f.target[link]]]
        names = marks.names[a], marks.names[b]
        i = which.get(" – ".join(names), which.get(" – ".join(names[::-1]), -1))
        if i < 0:  # a cable around an edge is not drawn in full
            paths.append(np.linspace(middle[a], middle[b], 9))
            continue
        path = points[ptr[i] : ptr[i + 1]]
        backwards = abs(path[0] - middle[a]) > abs(path[-1] - middle[a])
        paths.append(path[::-1] if backwards else path)
    fine = [_resampled(path) for path in paths]
    heads = [_head(path, 0.72) for path in fine]
    beside = [[_beside(path, part, side) for side in (1, -1) for part in _PARTS] for path in fine]
    around = [_extents(layers[name]) for name in ("nodes", "hosts") if name in layers]
    middles = np.concatenate([of_layer[0] for of_layer in around])
    halves = np.concatenate([of_layer[1] for of_layer in around])
    at = _clear_places(np.array(beside), middles, halves)
    look = {"colour": COLOUR["wrong"], "width": _WIDE}
    return {
        "loop": lines([_pairs(path) for path in fine], **look),
        "loop heads": lines([_pairs(head) for head in heads], **look),
        "loop numbers": _numbers(at.real, at.imag, len(links)),
    }


def _middles(nodes: Layer) -> Complexes:
    """Return the middle of each box, band or dot of a picture."""
    fields = nodes.fields
    if nodes.kind == "boxes":
        return np.asarray(fields["x"] + fields["w"] / 2 + 1j * (fields["y"] + fields["h"] / 2))
    place = fields["x"] + 1j * fields["y"]
    if nodes.kind == "dots":
        return np.asarray(place)
    ptr = fields["ptr"].astype(int)
    return np.array([part.mean() for part in np.split(place, ptr[1:-1])])


def _extents(nodes: Layer) -> tuple[Complexes, Complexes]:
    """Return the middle of each box, band or dot of a picture, and half of its width and (imaginary) height."""
    middle = _middles(nodes)
    fields = nodes.fields
    if nodes.kind == "boxes":
        half = (fields["w"] + 1j * fields["h"]) / 2
    elif nodes.kind == "dots":
        half = fields.get("size", 4.0) * (1 + 1j)
    else:
        half = 0j
    return middle, np.broadcast_to(half, middle.shape)


def _clear_places(places: Complexes, middle: Complexes, half: Complexes) -> Complexes:
    """Return for each link (L,) the first of its places (L, K) that is clear of boxes and of the numbers before it.

    Where none is, the one with the most room is taken. ``middle`` and ``half`` (N,) are what to keep clear of: the
    middle of each box, and half of its width and height as real and imaginary part.
    """
    chosen: list[complex] = []
    for own in places:
        apart = own[:, None] - middle  # (K, N)
        right = np.maximum(np.abs(apart.real) - half.real, 0.0)
        down = np.maximum(np.abs(apart.imag) - half.imag, 0.0)
        room = np.hypot(right, down).min(axis=1)  # (K,)
        for other in chosen:
            room = np.minimum(room, np.abs(own - other))
        chosen.append(complex(own[np.argmax(np.minimum(room, _CLEAR))]))
    return np.array(chosen)


def _resampled(path: Complexes) -> Complexes:
    """Return 33 points of a path at equal distances along it."""
    along = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(path)))])
    wanted = np.linspace(0, along[-1], 33)
    return np.interp(wanted, along, path.real) + 1j * np.interp(wanted, along, path.imag)


def _head(path: Complexes, part: float) -> Complexes:
    """Return the three points of an arrow head that lies on a path."""
    i = int(part * (path.size - 1))
    tip, ahead = path[i], path[i] - path[i - 1]
    ahead = ahead / max(abs(ahead), 1e-9)
    return np.array([tip - _HEAD * ahead * np.exp(0.5j), tip, tip - _HEAD * ahead * np.exp(-0.5j)])


def _beside(path: Complexes, part: float, side: int) -> complex:
    """Return the point beside a path, a little to the right of it (side 1) or to the left (-1)."""
    i = int(part * (path.size - 1))
    ahead = path[i + 1] - path[i]
    return complex(path[i] + side * _ASIDE * 1j * ahead / max(abs(ahead), 1e-9))


def _pairs(path: Complexes) -> Floats:
    """Return complex numbers as points (P, 2)."""
    return np.stack([path.real, path.imag], axis=1)


def _numbers(x: Floats, y: Floats, many: int, **more: object) -> Layer:
    """Return the place of each link in the circle as a number on it."""
    words = [str(i + 1) for i in range(many)]
    look = {"align": 1.0, "size": 11.0, "bold": 1.0, "halo": 1.0, "colour": COLOUR["wrong"]}
    return texts(x, y, words, **look, **more)


def _in_solid(placed: Placed, links: Sequence[int], solid: Solid) -> dict[str, Layer]:
    """Return the layers of a circle in a solid; cables around an edge are curves outside it."""
    f, marks, _, _ = placed
    paths = []
    for link in links:
        a, b = marks.of_node[[f.source[link], f.target[link]]]
        ends = solid.place[[a, b]]
        far = (ends[1] - ends[0]) / solid.unit
        axis = int(np.argmax(np.abs(solid.step @ far)))
        if np.abs(far).max() < 1.5:
            paths.append(np.linspace(ends[0], ends[1], 25))
        elif far @ solid.step[axis] < 0:
            paths.append(closing(solid, np.array([a]), np.array([b]), axis)[0])
        else:
            paths.append(closing(solid, np.array([b]), np.array([a]), axis)[0][::-1])
    at = _clear_points(np.array(paths), solid)
    look = {"colour": COLOUR["wrong"], "width": _WIDE + 0.6, "strong": 1.0}
    middle = {"z": at[:, 2], "middle": list(solid.middle), "lift": _IN_FRONT}
    return {
        "loop": solid_lines(paths, solid, **look),
        "loop numbers": _numbers(at[:, 0], at[:, 1], len(links), **middle),
    }


def _clear_points(paths: Floats, solid: Solid) -> Floats:
    """Return a point (L, 3) on each path (L, 25, 3) that, as the solid is turned at first, no chip lies in front of."""
    choice = np.round(np.array(_PARTS) * (paths.shape[1] - 1)).astype(int)
    points = paths[:, choice]  # (L, K, 3)
    x, y, _ = turned(points[..., 0], points[..., 1], points[..., 2])
    chip_x, chip_y, _ = turned(*solid.place.T)
    chips = chip_x + 1j * chip_y
    seen = x + 1j * y  # (L, K)
    at = _clear_places(seen, chips, np.zeros_like(chips))
    best = np.argmin(np.abs(seen - at[:, None]), axis=1)
    return np.asarray(points[np.arange(len(points)), best])


def _list(f: Fabric, links: Sequence[int], height: float) -> Scene:
    """Return the links of a circle in order, in as many columns as they need."""
    rows = int((height - 60) // _ROW)
    columns = -(-len(links) // rows)
    rows = -(-len(links) // columns)
    place = np.arange(len(links))
    x = 20.0 + _COLUMN * (place // rows)
    y = 46.0 + _ROW * (place % rows)
    words = [
        text(
            "loop.row",
            number=i + 1,
            a=f.name(int(f.source[link])),
            b=f.name(int(f.target[link])),
        )
        for i, link in enumerate(links)
    ]
    last = float(y.max()) + _ROW + 6
    layers = {
        "title": texts(20.0, [20.0], [text("loop.title")], size=13.0, bold=1.0),
        "rows": texts(x, y, words),
        "again": texts(20.0, [last], [text("loop.again")], colour=COLOUR["soft"]),
    }
    return Scene("", layers=layers, height=height, width=40.0 + _COLUMN * max(columns, _NARROWEST))
