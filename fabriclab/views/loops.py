"""A circle of links in a picture of a fabric, such as links that wait for each other in a deadlock."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Fabric, Floats
from fabriclab.texts import text
from fabriclab.views.layout import Placed, counted, place_name
from fabriclab.views.page import Table
from fabriclab.views.scene import COLOUR, TURN, Layer, Scene, heading, lines, texts, turned
from fabriclab.views.solids import Solid, closing, solid_lines

_WIDE = 2.4  # width of a line of the circle [px]
_HEAD = 9.0  # length of the head of an arrow [px]
_LEAN = 0.5  # how far its two strokes lean away from the line [radians]
_CLEAR = 15.0  # distance from the middle of a number to a box that is enough [px]
_DIGITS = 20.0  # the same to another number [px]
_APART = 12.0  # the same to another line of the circle, and from an arrow head to such a line [px]
# Where along its link a number or the head of an arrow may stand, in the order of preference.
_PARTS = (0.45, 0.5, 0.4, 0.55, 0.35, 0.6, 0.3, 0.65, 0.25, 0.7, 0.2, 0.75)
_BESIDE = 9.0  # distance of a number from its link where it cannot stand on it [px]
_HEADS = (0.72, 0.68, 0.76, 0.64, 0.8, 0.6, 0.84, 0.56, 0.5, 0.44, 0.38, 0.3)
_IN_FRONT = 1e4  # draws a number in front of all chips of a solid, however it is turned [px]
_ROW = 16.0  # distance between two lines of the list [px]
_SIGN = 18.0  # room for the cross before the title of the list [px]
_NUMBER = 22.0  # room for the number before a line of the list [px]
_LETTER = 6.5  # width of a letter of the list [px]
_NARROWEST = 210.0  # width of a list, for the lines above and below it [px]
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
    hidden = ("case", "scale", "scale name", "idle", "ends")
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
            "waits in": [place_name(f, int(f.source[link])) for link in links],
            "for": [place_name(f, int(f.target[link])) for link in links],
        }
    )
    ways = ", ".join(place_name(f, int(f.source[link])) for link in links)
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
    middle = _middles(layers["nodes"])
    ends = marks.of_node[np.stack([f.source[links], f.target[links]])]  # (2, L)
    paths = [drawn_path(layers, middle[a], middle[b]) for a, b in ends.T]
    heads = _clear_heads(paths)
    at = clear_numbers(paths, layers, [head[1] for head in heads])
    look = {"colour": COLOUR["wrong"], "width": _WIDE}
    return {
        "loop": lines([_pairs(path) for path in paths], **look),
        "loop heads": lines([_pairs(head) for head in heads], **look),
        "loop numbers": step_numbers(at.real, at.imag, len(links)),
    }


def drawn_path(layers: Mapping[str, Layer], start: complex, end: complex) -> Complexes:
    """Return 33 points of the cable that a picture draws from one place to another, or of a straight line if none."""
    drawn = layers["cables"].fields
    points = drawn["x"].astype(np.float64) + 1j * drawn["y"]
    ptr = drawn["ptr"].astype(int)
    first, last = points[ptr[:-1]], points[ptr[1:] - 1]
    ahead = np.abs(first - start) + np.abs(last - end)  # (cables,)
    back = np.abs(first - end) + np.abs(last - start)
    i = int(np.argmin(np.minimum(ahead, back)))
    if min(ahead[i], back[i]) > 1.0:  # a cable around an edge is not drawn in full
        return np.linspace(start, end, 33).astype(np.complex128)
    path = points[ptr[i] : ptr[i + 1]]
    return _resampled(path if ahead[i] <= back[i] else path[::-1])


def _clear_heads(paths: Sequence[Complexes]) -> list[Complexes]:
    """Return the head of the arrow on each path, where it can be told apart from the other paths."""
    heads = []
    for i, path in enumerate(paths):
        others = np.concatenate([np.zeros(0, complex), *paths[:i], *paths[i + 1 :]])
        tips = path[(np.array(_HEADS) * (path.size - 1)).astype(int)]
        room = _room(tips, others)
        best = int(np.argmax(np.minimum(room, _APART)))
        heads.append(_head(path, _HEADS[best]))
    return heads


def _room(places: Complexes, others: Complexes) -> Floats:
    """Return how far each place is from the nearest of others [px]; far, if there are none."""
    if not others.size:
        return np.full(places.shape, np.inf)
    return np.asarray(np.abs(places[:, None] - others).min(axis=1))


def clear_numbers(
    paths: Sequence[Complexes], layers: Mapping[str, Layer], heads: Sequence[complex] = ()
) -> Complexes:
    """Return a place on each path for its number, clear of other paths, boxes, dots, other numbers and arrow heads."""
    around = [_extents(layers[name]) for name in ("nodes", "hosts") if name in layers]
    middles = np.concatenate([of_layer[0] for of_layer in around])
    halves = np.concatenate([of_layer[1] for of_layer in around])
    middles = np.concatenate([middles, np.array(heads, dtype=complex)])
    halves = np.concatenate([halves, np.zeros(len(heads), dtype=complex)])
    places = np.array([_number_places(path) for path in paths])
    return _clear_places(places, middles, halves, paths)


def _number_places(path: Complexes) -> Complexes:
    """Return where the number of a path may stand: on the path or, where boxes are close, on either side of it."""
    at = (np.array(_PARTS) * (path.size - 1)).astype(int)
    ahead = path[np.minimum(at + 1, path.size - 1)] - path[at - 1]
    aside = 1j * _BESIDE * ahead / np.maximum(np.abs(ahead), 1e-9)
    return np.concatenate([path[at], path[at] + aside, path[at] - aside])


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


def _clear_places(
    places: Complexes, middle: Complexes, half: Complexes, paths: Sequence[Complexes] = ()
) -> Complexes:
    """Return for each link (L,) the first of its places (L, K) that is clear of boxes and of the numbers before it.

    Where none is, the one with the most room is taken. ``middle`` and ``half`` (N,) are what to keep clear of: the
    middle of each box, and half of its width and height as real and imaginary part. If the ``paths`` of all links are
    given, a place on one is clear of the others, too.
    """
    chosen: list[complex] = []
    for i, own in enumerate(places):
        apart = own[:, None] - middle  # (K, N)
        right = np.maximum(np.abs(apart.real) - half.real, 0.0)
        down = np.maximum(np.abs(apart.imag) - half.imag, 0.0)
        room = np.hypot(right, down).min(axis=1)  # (K,)
        for other in chosen:
            room = np.minimum(room, np.abs(own - other) * _CLEAR / _DIGITS)
        for k, path in enumerate(paths):
            if k != i:  # a line needs less room than a box
                room = np.minimum(room, _room(own, path) * _CLEAR / _APART)
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
    ahead = _HEAD * ahead / max(abs(ahead), 1e-9)
    return np.array([tip - ahead * np.exp(_LEAN * 1j), tip, tip - ahead * np.exp(-_LEAN * 1j)])


def _pairs(path: Complexes) -> Floats:
    """Return complex numbers as points (P, 2)."""
    return np.stack([path.real, path.imag], axis=1)


def step_numbers(x: Floats, y: Floats, many: int, **more: object) -> Layer:
    """Return the place of each link in its order as a number on it."""
    words = [str(i + 1) for i in range(many)]
    look = {"align": 1.0, "size": 11.0, "bold": 1.0, "halo": 1.0, "colour": COLOUR["wrong"]}
    return texts(x, y, words, **(look | more))


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
    heads = [_solid_head(path) for path in paths]
    return {
        "loop": solid_lines(paths, solid, **look),
        "loop heads": solid_lines(heads, solid, **look, lift=solid.unit),
        "loop numbers": step_numbers(at[:, 0], at[:, 1], len(links), **middle),
    }


def _solid_head(path: Floats) -> Floats:
    """Return the three points (3, 3) of an arrow head on a path of a solid, as wide as can be when it is first seen."""
    around, tilt = TURN
    to_reader = np.array(
        [-np.sin(around) * np.cos(tilt), -np.sin(tilt), np.cos(around) * np.cos(tilt)]
    )
    i = int(_HEADS[0] * (len(path) - 1))
    ahead = path[i] - path[i - 1]
    ahead = ahead / np.linalg.norm(ahead)
    aside = np.cross(ahead, to_reader)
    aside = aside / max(float(np.linalg.norm(aside)), 1e-9)
    back, out = _HEAD * np.cos(_LEAN) * ahead, _HEAD * np.sin(_LEAN) * aside
    return np.array([path[i] - back + out, path[i], path[i] - back - out])


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
    """Return the links of a circle in order, in as many columns as they need, under the sign of what is wrong."""
    rows = int((height - 70) // _ROW)
    columns = -(-len(links) // rows)
    rows = -(-len(links) // columns)
    place = np.arange(len(links))
    words = []
    for link in links:
        ends = (int(f.source[link]), int(f.target[link]))
        words.append(text("loop.row", a=place_name(f, ends[0]), b=place_name(f, ends[1])))
    column = _NUMBER + _LETTER * max(map(len, words)) + 16  # [px]
    left = 20.0
    x = left + column * (place // rows)
    y = 46.0 + _ROW * (place % rows)
    last = float(y.max()) + _ROW + 6
    wrong = {"bold": 1.0, "colour": COLOUR["wrong"]}
    title = text("loop.title")
    layers = {
        "sign": texts(left, [20.0], [text("loop.sign")], size=13.0, **wrong),
        "title": heading(20.0, title, left + _SIGN),
        "places": texts(x, y, [str(i + 1) for i in place], size=11.0, **wrong),
        "rows": texts(x + _NUMBER, y, words),
        "again": texts(left, [last], [text("loop.again")], colour=COLOUR["soft"]),
    }
    return Scene("", layers=layers, height=height, width=left + max(columns * column, _NARROWEST))
