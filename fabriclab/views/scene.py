"""A scene: what a live view shows at one setting of its controls, as layers of numbers.

Two painters draw the same layers: the browser on a canvas (live.js), and `printed` with matplotlib, for print and for
pages without a kernel. Coordinates are pixels of a picture that is 700 wide, with y downwards. Colours are places in
`PALETTE`.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import FancyBboxPatch
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import Flags, Floats
from fabriclab.look import (
    COLOUR,
    KEYS,
    PALETTE,
    SHADES,
    TOKENS,
    coloured,
    graded,
    ink_on,
    link_width,
    shade,
)
from fabriclab.texts import text, wrapped
from fabriclab.views.page import INK, Axes, Picture, Table, plain, printed_hex, styled

__all__ = [
    "COLOUR",
    "DASHES",
    "EDGE",
    "FORM",
    "HATCHES",
    "KEYS",
    "PALETTE",
    "TOKENS",
    "WIDTH",
    "Layer",
    "Scene",
    "boxes",
    "coloured",
    "graded",
    "heading",
    "ink_on",
    "key",
    "lines",
    "link_width",
    "log_axis",
    "printed",
    "scale",
    "shade",
    "texts",
    "texts_at",
    "tick_layers",
    "tick_texts",
    "turned",
    "with_times_sign",
]

WIDTH = 700.0  # of a picture without a second panel [px]
EDGE = 12.0  # from the edge of a picture to its titles, which then stand below the beginning of the finding [px]
# From where a solid is seen at first: turn around its vertical axis, and tilt. So seen, no chip of a solid of up to
# 8 x 4 x 4 chips lies behind another, nor behind a cable between neighbours. [radians]
TURN = (-0.54, 0.59)
DASHES = ((), (6, 3), (2, 3), (8, 3, 2, 3), (3, 2), (8, 3, 2, 3, 2, 3))
HATCHES = ("", "////", "\\\\\\\\", "xxxx", "||||", "....", "----")
# How a line is drawn: as one stroke; as two rails with a gap, for a link that is asked for more than it carries;
# broken in the middle with a cross, for a failed one; as a ladder, for a drained one.
FORM = {"plain": 0.0, "overloaded": 1.0, "failed": 2.0, "drained": 3.0}
# matplotlib's marker for each shape of dot. Shapes 1 and 7 to 10 are open circles, squares ..., 0 and 3 to 6 filled
# ones; 2 is a cross.
_SHAPES = ("o", "o", "X", "s", "^", "D", "v", "s", "^", "D", "v")
_MANY_DOTS = 200
_TIMES = re.compile(r"(?<=\d )x(?= )|(?<= )x(?= \d)")
_AREA = 0.18  # how much colour an area below a line has
_POINT = 0.72  # a pixel of a picture, of which 100 are an inch [pt]
_BEHIND = 0.55  # of its width a cable in use has that lies furthest behind in a solid
_SCALE_IDLE = 48.0  # from the sample of an idle link to the end of the scale's name [px]
_SCALE_LETTER = 6.2  # width of a letter of that name, at most on average [px]
_SCALE_OF_MANY = 60.0  # how much further right the scale is whose name is longer [px]
_KEY_LETTER = 7.0  # width of a letter of a legend [px]


@dataclass(frozen=True)
class Layer:
    """Items of one kind to draw: boxes, lines, dots, texts or movers.

    ``fields`` maps the name of each property to an array (one number per item, or per point of a line), a list of
    texts, or one value for all items. Fields that any layer may have:

    - ``names`` lets a reader visit the items with the pointer or the arrow keys; ``notes`` adds a text to each.
    - ``drag`` names a slider for a dot that is moved by hand, between the places of the slider's ends, ``drag_ends``
      [px].
    - ``z`` makes lines, dots or texts part of a solid that a reader can turn. Then x, y and z count from the solid's
      middle, which is drawn at ``middle``, a pair [px]; z grows towards the reader. ``lift`` draws an item as if it
      were so much nearer [px], so that the lines that end in a dot lie behind it.
    - ``ghost=True`` keeps the former state of the layer in the picture, dashed and grey, while a control moves.
    - ``glide=True`` moves items from their former places and sizes to the new ones, for layers whose items keep their
      order.
    - ``focus=True`` lets all else recede while an item of the layer is read: what remains are items of any layer whose
      number ``a`` or ``b`` is that of the item, such as the cables of a group.
    - ``late=True`` shows the former state until the movers of the scene have arrived, since they cause the new one.

    Boxes have an area of a ``colour`` and a frame of the colour ``edge``; ``COLOUR["none"]``, or no ``edge``, is none.

    Dots with ``plain=True`` have no edge, for many small ones. Lines also take ``flow``, the load of each between 0 and
    1: packets run along it from its first point to its last, the denser and faster the fuller it is. ``form`` gives the
    look of a link by its state: `FORM`. With ``grows=True`` lines are areas, which widen with the picture. ``area``, a
    height [px], tints what lies between a line and that height.
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Convert all arrays of numbers to float32, so that a test sees exactly what the browser gets."""
        fields = {}
        for name, value in self.fields.items():
            if value is None:
                continue
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
                value = value.astype(np.float32)
            fields[name] = value
        object.__setattr__(self, "fields", fields)


@dataclass(frozen=True)
class Scene:
    """One picture with its finding, ``said``, its alternative text and its table.

    The first sentence of the finding says what is true, with its number; what follows it is the contrast, and is
    shown in grey. ``side`` is a second, smaller panel to the right, such as the curve on which the current state is
    one point; where there is no room it stands below. Of ``side`` only layers, height and width count.

    ``hint`` says what the marks of the picture mean; it stands below the picture while a reader points at nothing.

    ``limits`` gives the highest value of a slider where this state allows less than the slider does, such as the number
    of steps of an algorithm that a choice selects.

    ``pressed`` names buttons that have nothing left to do in this state, and what stands on them instead.

    ``moves`` asks the browser to animate the change to this scene; ``wrong`` says that ``said`` is an error message.
    """

    said: str
    table: Table | None = None
    layers: Mapping[str, Layer] = field(default_factory=dict)
    height: float = 0.0
    alt: str = ""
    moves: bool = False
    wrong: bool = False
    caption: str = ""
    hint: str = ""
    width: float = WIDTH  # [px]
    side: Self | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    pressed: Mapping[str, str] = field(default_factory=dict)

    def panels(self) -> list["Scene"]:
        """Return this scene and, if there is one, the panel beside it."""
        return [self] if self.side is None else [self, self.side]


# Layers -------------------------------------------------------------------------------------------


def lines(paths: Sequence[NDArray[Any]], **fields: Any) -> Layer:
    """Return a layer of lines; each line is given by an array of its points (P, 2)."""
    points = np.concatenate([np.empty((0, 2)), *paths])
    ptr = np.concatenate([[0], np.cumsum([len(path) for path in paths])])
    return Layer("lines", {"ptr": ptr, "x": points[:, 0], "y": points[:, 1], **fields})


def boxes(x: ArrayLike, y: ArrayLike, w: ArrayLike, h: ArrayLike, **fields: Any) -> Layer:
    """Return a layer of boxes from their upper left corners, widths and heights; a single number applies to all."""
    x, y, w, h = np.broadcast_arrays(*np.atleast_1d(x, y, w, h))
    return Layer("boxes", {"x": x, "y": y, "w": w, "h": h, **fields})


def texts(x: ArrayLike, y: ArrayLike, words: Sequence[str], **fields: Any) -> Layer:
    """Return a layer of texts at the given points; a single number applies to all texts."""
    x = np.broadcast_to(x, len(words))
    y = np.broadcast_to(y, len(words))
    return Layer("texts", {"x": x, "y": y, "texts": words, **fields})


def texts_at(*places: tuple[float, float, str, int]) -> Layer:
    """Return a layer of texts from tuples (x, y, words, align); x is the left end (0), middle (1) or right end (2)."""
    numbers = np.array([(x, y, align) for x, y, _, align in places]).reshape(-1, 3)
    x, y, align = numbers.T
    words = [words for _, _, words, _ in places]
    return Layer("texts", {"x": x, "y": y, "texts": words, "align": align})


def heading(y: float, words: str, left: float = EDGE) -> Layer:
    """Return the title of a picture, of a panel, or of an axis whose quantity stands above it."""
    return texts(left, y, [words], size=13.0, bold=1.0)


def key(
    y: float,
    words: str,
    names: Sequence[str],
    colours: Sequence[float] = KEYS,
    width: float = WIDTH,
) -> dict[str, Layer]:
    """Return a legend, drawn where the scale of loads would be: words, then a sample of each colour with names.

    The names get the colours in turn; if there are more names than colours, names of one colour share a sample. An
    empty name is left out. The legend is in the middle of a picture of a ``width``.
    """
    seen_colours = []
    seen_names = []
    for i, colour in enumerate(colours):
        shared = ", ".join(filter(None, names[i :: len(colours)]))
        if shared:
            seen_colours.append(colour)
            seen_names.append(shared)

    # Words and samples are side by side and centred in the picture.
    widths = [_KEY_LETTER * len(words) + 8]
    widths += [_KEY_LETTER * len(name) + 32 for name in seen_names]
    left = (width - np.sum(widths)) / 2
    x = left + np.cumsum(widths)  # right end of each, where the next sample begins
    labels: list[tuple[float, float, str, int]] = [(float(x[0]) - 8, y + 6, words, 2)]
    if not seen_names:  # words alone need no guess at how wide they are
        labels = [(width / 2, y + 6, words, 1)]
    for at, name in zip(x.tolist(), seen_names, strict=False):  # no name follows the last end
        labels.append((at + 19, y + 6, name, 0))
    return {
        "scale": boxes(x[:-1], y, 14.0, 12.0, colour=np.array(seen_colours)),
        "scale name": texts_at(),
        "ends": texts_at(*labels),
    }


def scale(
    y: float, left: float = 250.0, many: bool = False, *, named: bool = True
) -> dict[str, Layer]:
    """Return the scale of loads: a sample of an idle link, then links that get fuller and wider from left to right.

    Its name at its left says what is shown: the load of a link or, where a line stands for ``many`` cables, that of
    the fullest of them. The scale moves to the right as far as the name needs. Without ``named``, words of its own
    say it, and the scale stays where it is.
    """
    names = []
    if named:
        names = [text("fabric.scale_of" if many else "fabric.scale")]
        left += _SCALE_OF_MANY if many else 0.0
        left = max(left, _SCALE_IDLE + 4 + _SCALE_LETTER * len(names[0]))
    n = 32  # steps of colour
    width = 200.0  # [px]
    start = left + 70
    ends = start + width * np.arange(n + 1) / n
    share = (np.arange(n) + 0.5) / n
    middle = y + 6
    paths = [np.array([[a, middle], [b + 0.5, middle]]) for a, b in itertools.pairwise(ends)]
    idle = np.array([[left, middle], [left + 26, middle]])
    return {
        "scale name": texts(left - _SCALE_IDLE, middle, names, align=2.0, colour=COLOUR["soft"]),
        "scale": lines(paths, width=1.6 * link_width(share), colour=shade(share)),
        "idle": lines([idle], width=link_width(0.0), colour=COLOUR["hair"]),
        "ends": texts_at(
            (left - 6, middle, text("fabric.idle"), 2),
            (start - 6, middle, text("fabric.low"), 2),
            (start + width + 6, middle, text("fabric.full"), 0),
        ),
    }


def log_axis(low: float, high: float, start: float, end: float) -> Callable[[Any], Floats]:
    """Return a function from values to places [px] on an axis with ``low`` at ``start`` and ``high`` at ``end``.

    The axis is logarithmic, or linear if ``low`` is 0.
    """
    length = end - start

    if not low:

        def linear(value: Any) -> Floats:
            return np.asarray(start + length * np.asarray(value) / high)

        return linear

    span = np.log(high / low)

    def logarithmic(value: Any) -> Floats:
        return np.asarray(start + length * np.log(np.asarray(value) / low) / span)

    return logarithmic


def tick_texts(places: Iterable[float], show: Callable[[float], str]) -> list[str]:
    """Return what is written at the ticks of an axis; zero has the unit of the tick nearest to it.

    Examples
    --------
    >>> tick_texts([0.0, 5e-5, 1e-4], lambda seconds: f"{1e6 * seconds:g} µs")
    ['0 µs', '50 µs', '100 µs']
    """
    values = [float(value) for value in places]
    words = [plain(show(value)) for value in values]
    nearest = min(filter(None, values), key=abs, default=0.0)
    for place, value in enumerate(values):
        if not value and words[place].startswith("0"):
            words[place] = f"0 {plain(show(nearest)).partition(' ')[2]}".strip()
    return words


def tick_layers(
    places: Floats,
    at: Callable[[Any], Floats],
    show: Callable[[float], str],
    ends: tuple[float, float],
    across: bool,
) -> dict[str, Layer]:
    """Return the grid lines and tick labels of an axis.

    Parameters
    ----------
    places : ndarray, shape (T,)
        Values of the ticks.
    at, show : callable
        Functions from a value to its place on the axis [px], and to its text.
    ends : pair of float
        Where the grid lines begin and end [px]. Labels are below the end of their line (x axis) or to the left of its
        beginning (y axis).
    across : bool
        Whether this is the x axis.
    """
    here = at(places)
    words = tick_texts(places, show)
    low, high = ends
    if across:
        side = "x"
        paths = [np.array([[place, low], [place, high]]) for place in here]
        marks = texts(here, high + 12.0, words, align=1.0, colour=COLOUR["soft"])
    else:
        side = "y"
        paths = [np.array([[low, place], [high, place]]) for place in here]
        marks = texts(low - 6.0, here, words, align=2.0, colour=COLOUR["soft"])
    grid = lines(paths, width=1.0, colour=COLOUR["line"])
    return {f"{side} grid": grid, f"{side} ticks": marks}


# Printing -----------------------------------------------------------------------------------------

_BOLD: dict[str, Any] = {"fontweight": "bold", "color": INK, "parse_math": False}


@styled
def printed(scene: Scene, *, ax: Axes | None = None, finding: str | None = None) -> Picture:
    """Draw a scene with matplotlib, for print, for saved figures and for pages without a kernel.

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if scene.wrong:
        raise ValueError(scene.said)
    headline = _headline(finding or scene.said)
    below = with_times_sign(" ".join(filter(None, [scene.hint, scene.caption])))
    alt = with_times_sign(scene.alt or scene.said)
    if finding:
        # The computed sentence follows, so that the alternative text contains numbers whatever the finding says.
        alt = f"{headline.rstrip('.')}. {alt[:1].upper()}{alt[1:]}"

    panels = scene.panels()
    width = sum(panel.width for panel in panels)  # [px]
    height = max(20.0, *(panel.height for panel in panels))  # [px]
    if ax is None:
        ax = _new_axes(width, height)
    else:
        ax.set_title("\n".join(wrapped(headline, 60)), loc="left", pad=20, fontsize=10, **_BOLD)
    ax.set_axis_off()
    ax.set(xlim=(0, width), ylim=(height, 0))

    painters = {"lines": _lines, "boxes": _boxes, "dots": _dots, "texts": _texts}
    left = 0.0
    order = 0
    for panel in panels:
        deepest = _deepest(panel)
        for layer in panel.layers.values():
            if layer.kind in painters:  # movers cannot be printed
                fields = _flat(layer.fields, deepest)
                painters[layer.kind](ax, {**fields, "x": fields["x"] + left}, order)
                order += 1
        left += panel.width
    return Picture(ax, headline, alt, scene.table or Table({"what": [scene.said]}), below)


def turned(x: Floats, y: Floats, z: Floats, turn: tuple[float, float] = TURN) -> Floats:
    """Return a parallel projection of points of a solid: x, y [px] and depth, (3, P), where near is large."""
    around, tilt = turn
    across = x * np.cos(around) + z * np.sin(around)
    towards = z * np.cos(around) - x * np.sin(around)
    down = y * np.cos(tilt) + towards * np.sin(tilt)
    depth = towards * np.cos(tilt) - y * np.sin(tilt)
    return np.array([across, down, depth])


def _deepest(panel: Scene) -> float:
    """Return how far the parts of a solid in a panel lie before or behind its middle, at most [px]."""
    most = 1.0
    for layer in panel.layers.values():
        if "z" in layer.fields and np.size(layer.fields["x"]):
            depth = turned(layer.fields["x"], layer.fields["y"], layer.fields["z"])[2]
            most = max(most, float(np.abs(depth).max()))
    return most


def _flat(fields: Mapping[str, Any], deepest: float) -> Mapping[str, Any]:
    """Return the fields of a layer in the plane of the paper: a solid is projected, near is dark and far is light.

    ``near`` is then how near each item is: 0 for the part furthest behind, 1 for the one nearest to the reader.
    """
    if "z" not in fields:
        return fields
    x, y, depth = turned(fields["x"], fields["y"], fields["z"])
    if "ptr" in fields:
        starts = fields["ptr"][:-1].astype(int)
        depth = np.add.reduceat(depth, starts) / np.diff(fields["ptr"]) if starts.size else depth
    middle = fields["middle"]
    near = 0.5 + 0.5 * depth / deepest
    return {**fields, "x": x + middle[0], "y": y + middle[1], "near": near}


def _faded(fields: Mapping[str, Any], n: int) -> Floats:
    """Return the opacity of each item: in a solid, what is far is lighter, unless it is strong or shows a load."""
    alpha = _each(fields.get("alpha"), n, 1.0)
    if "near" not in fields:
        return alpha
    is_kept = (_each(fields.get("strong"), n, 0.0) > 0) | _are_loads(fields, n)
    return np.asarray(alpha * np.where(is_kept, 1.0, 0.4 + 0.6 * fields["near"]))


def _are_loads(fields: Mapping[str, Any], n: int) -> Flags:
    """Return whether each of some lines has a colour of the map of loads, which has its place on a scale."""
    is_load = _each(fields.get("colour"), n) >= len(PALETTE) - SHADES
    return np.asarray(is_load & ("ptr" in fields))


def _strokes(fields: Mapping[str, Any], n: int) -> Floats:
    """Return the width of each line [pt]; in a solid, one that shows a load is thinner further behind."""
    width = _POINT * _each(fields.get("width"), n, 1.5)
    if "near" not in fields:
        return np.asarray(width)
    part = _BEHIND + (1 - _BEHIND) * fields["near"]
    return np.asarray(width * np.where(_are_loads(fields, n), part, 1.0))


def with_times_sign(words: str) -> str:
    """Return words of a picture with "×" for an x beside a number, which is easier to type: "torus 8 x 8"."""
    return _TIMES.sub("×", words)


def _headline(finding: str) -> str:
    """Return a sentence from its capital letter to its full stop, or raise if it begins with "figure" or "plot"."""
    words = with_times_sign(finding.strip())
    headline = words[:1].upper() + words[1:]
    if not headline.endswith((".", "!", "?")):
        headline += "."
    if headline.lower().startswith(("figure", "plot")):
        raise ValueError(
            f"finding must be a sentence that says what is seen, got {headline!r};"
            " begin with the matter itself"
        )
    return headline


def _new_axes(width: float, height: float) -> Axes:
    """Return axes that fill a new figure of a width and height [px]; 100 px are an inch."""
    figure = Figure(
        (width / 100, height / 100), layout=ConstrainedLayoutEngine(w_pad=0.0, h_pad=0.0)
    )
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def _each(value: Any, n: int, otherwise: float = 0.0) -> Floats:
    """Return a number for each of n items from a field, which may be a single number or, as None, missing."""
    given = otherwise if value is None else value
    return np.broadcast_to(np.asarray(given, dtype=np.float64), n)


def _colours(value: Any, n: int) -> list[str]:
    """Return the colour of each of n items as matplotlib takes it."""
    return ["none" if place < 0 else printed_hex(int(place)) for place in _each(value, n)]


def _lines(ax: Any, fields: Mapping[str, Any], order: int) -> None:
    """Draw a layer of lines."""
    n = fields["ptr"].size - 1
    if not n:
        return
    points = np.stack([fields["x"], fields["y"]], axis=1)
    paths = np.split(points, fields["ptr"][1:-1].astype(int))
    styles: list[Any] = []
    for dash in _each(fields.get("dash"), n):
        styles.append((0, DASHES[int(dash)]) if dash else "-")
    forms = _each(fields.get("form"), n)
    for i in np.flatnonzero(forms == FORM["drained"]):
        styles[i] = (0, (0.5, 0.8))  # in widths of the line: short strokes across it
    colours = _colours(fields.get("colour"), n)
    if "area" in fields:
        for path, colour in zip(paths, colours, strict=True):
            ax.fill_between(
                path[:, 0],
                path[:, 1],
                fields["area"],
                color=colour,
                alpha=_AREA,
                lw=0,
                zorder=order,
            )
    ax.add_collection(
        LineCollection(
            paths,
            linewidths=_strokes(fields, n),
            colors=colours,
            alpha=_faded(fields, n),
            linestyles=styles,
            zorder=order,
        )
    )
    for i in np.flatnonzero(forms == FORM["overloaded"]):
        gap = _strokes(fields, n)[i] / 3
        paper = printed_hex(int(COLOUR["paper"]))
        ax.plot(*paths[i].T, color=paper, lw=gap, zorder=order)
    for i in np.flatnonzero(forms == FORM["failed"]):
        x, y = _halfway(paths[i])
        ax.plot(x, y, "o", ms=10, color=printed_hex(int(COLOUR["paper"])), zorder=order)
        ax.plot(x, y, "X", ms=7, mfc="none", mec=colours[i], mew=2 * _POINT, zorder=order)


def _halfway(path: Floats) -> Floats:
    """Return the point in the middle of a path (P, 2), measured along it."""
    lengths = np.hypot(*np.diff(path, axis=0).T)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    half = along[-1] / 2
    return np.array([np.interp(half, along, path[:, 0]), np.interp(half, along, path[:, 1])])


def _boxes(ax: Any, fields: Mapping[str, Any], order: int) -> None:
    """Draw a layer of boxes, with the texts in them."""
    n = fields["x"].size
    faces = _colours(fields.get("colour"), n)
    edges = _colours(fields.get("edge", COLOUR["none"]), n)
    alphas = _each(fields.get("alpha"), n, 1.0)
    hatches = _each(fields.get("hatch"), n)
    radii = _each(fields.get("round"), n, 3.0)
    for i, face in enumerate(faces):
        width, height = float(fields["w"][i]), float(fields["h"][i])
        radius = min(radii[i], width / 2, height / 2)
        # add_patch would compute all limits again for each box, which takes longer than drawing it.
        ax.add_artist(
            FancyBboxPatch(
                (float(fields["x"][i]), float(fields["y"][i])),
                width,
                height,
                boxstyle=f"round,pad=0,rounding_size={radius:g}",
                fc=face,
                alpha=None if face == "none" else alphas[i],
                ec=edges[i],
                hatch=HATCHES[int(hatches[i])],
                lw=1.2 * _POINT,
                zorder=order,
            )
        )
    if "texts" in fields:
        words = {
            "x": fields["x"] + fields["w"] / 2,
            "y": fields["y"] + fields["h"] / 2,
            "texts": fields["texts"],
            "align": 1,
            "colour": fields.get("ink"),
            "room": fields["w"],
            "size": fields.get("size"),
        }
        _texts(ax, words, order)


def _dots(ax: Any, fields: Mapping[str, Any], order: int) -> None:
    """Draw a layer of dots."""
    n = fields["x"].size
    sizes = _each(fields.get("size"), n, 4.0)
    colours = _colours(fields.get("colour"), n)
    if fields.get("plain"):  # one artist for all, because many of them would take long
        areas = (1.4 * sizes) ** 2
        ax.scatter(fields["x"], fields["y"], s=areas, c=colours, linewidths=0, zorder=order)
        return
    shapes = _each(fields.get("shape"), n)
    alphas = np.ones(n)
    if "near" in fields:
        sizes = sizes * (0.75 + 0.5 * fields["near"])
        alphas = _faded(fields, n)
    paper = printed_hex(int(COLOUR["paper"]))
    looks = list(zip(colours, shapes.tolist(), sizes.tolist(), alphas.tolist(), strict=True))
    groups: dict[Any, list[int]] = {}
    for i, look in enumerate(looks):
        # Many dots of one look are one item, since a drawing of thousands of items is slow and large.
        groups.setdefault(look if n > _MANY_DOTS else i, []).append(i)
    for members in groups.values():
        colour, shape, size, alpha = looks[members[0]]
        filled = shape == 0 or 2 < shape < 7
        if filled:  # full ones keep apart from what lies behind them
            edge = {"mfc": colour, "mec": paper, "mew": _POINT}
        else:
            # No line runs through an open one.
            edge = {"mfc": paper, "mec": colour, "mew": 1.5 * _POINT}
        marker = _SHAPES[int(shape)]
        x, y = fields["x"][members], fields["y"][members]
        if alpha < 1:  # what lies behind a chip of a solid must not shine through
            ax.plot(x, y, marker, ms=1.4 * size, mfc=paper, mew=0, zorder=order)
        ax.plot(x, y, marker, ms=1.4 * size, **edge, alpha=alpha, zorder=order)


def _texts(ax: Any, fields: Mapping[str, Any], order: int) -> None:
    """Draw a layer of texts; a text wider than its ``room`` is left out."""
    n = len(fields["texts"])
    colours = _colours(fields.get("colour"), n)
    aligns = _each(fields.get("align"), n)
    sizes = _each(fields.get("size"), n, 12.0)
    bold = _each(fields.get("bold"), n)
    rooms = _each(fields.get("room"), n, np.inf)
    halos = _each(fields.get("halo"), n)
    # A plate in the colour of the paper, because an outline would turn text into shapes.
    plate = {"boxstyle": "square,pad=0.08", "fc": printed_hex(int(COLOUR["paper"])), "ec": "none"}
    for i, words in enumerate(fields["texts"]):
        width = 0.56 * sizes[i] * len(words)  # about, since fonts differ
        if not 0 < width < rooms[i]:
            continue
        ax.text(
            fields["x"][i],
            fields["y"][i],
            words,
            ha=("left", "center", "right")[int(aligns[i])],
            va="center",
            fontsize=0.71 * sizes[i],
            fontweight="bold" if bold[i] else "normal",
            color=colours[i],
            zorder=order,
            parse_math=False,
            bbox=plate if halos[i] else None,
        )
