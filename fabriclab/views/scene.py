"""A scene: what a live view shows at one setting of its controls, as layers of numbers.

Two painters draw the same layers: the browser on a canvas (live.js), and `printed` with matplotlib, for print and for
pages without a kernel. Coordinates are pixels of a picture that is 700 wide, with y downwards. Colours are places in
`PALETTE`.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import FancyBboxPatch
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import Floats
from fabriclab.views.page import (
    COLOURS,
    GREY,
    INK,
    NODE,
    ROLES,
    TINT,
    Axes,
    Picture,
    Table,
    plain,
    styled,
)

WIDTH = 700.0
_SHADES = 64  # steps of cividis, the colour map of loads
_NAMED = {
    "ink": INK,
    "grey": GREY,
    "white": "#ffffff",
    "black": "#000000",
    "tint": TINT,
    "switch": NODE[True],
    "host": NODE[False],
}
_NAMED |= {name: role.colour for name, role in ROLES.items() if role.colour not in (INK, GREY)}
_NAMED |= {f"other{i}": colour for i, colour in enumerate(COLOURS)}
_CIVIDIS = [
    matplotlib.colors.to_hex(c) for c in matplotlib.colormaps["cividis"](np.linspace(0, 1, _SHADES))
]
# Place 0 is the colour of the page's text.
PALETTE = (*_NAMED.values(), *_CIVIDIS)
COLOUR = {name: float(place) for place, name in enumerate(_NAMED)}
COLOUR |= {"none": -1.0, "published": COLOUR["ink"], "bound": COLOUR["grey"]}
# Colours that rows, rails and axes get in turn.
_IN_TURN = ("predicted", "measured", "guess", "other1", "tint", "failed", "other2", "other3")
KEYS = [COLOUR[name] for name in _IN_TURN]
DASHES = ((), (6, 3), (2, 3), (8, 3, 2, 3), (3, 2), (8, 3, 2, 3, 2, 3))
HATCHES = ("", "////", "\\\\\\\\", "xxxx", "||||")
# matplotlib's marker for each shape of dot. Shapes 1 and 7 to 10 are open circles, squares ..., 0 and 3 to 6 filled
# ones; 2 is a cross.
_SHAPES = ("o", "o", "X", "s", "^", "D", "v", "s", "^", "D", "v")
_KEY_LETTER = 7.0  # width of a letter of a legend [px]


@dataclass(frozen=True)
class Layer:
    """Items of one kind to draw: boxes, lines, dots, texts or movers.

    ``fields`` maps the name of each property to an array (one number per item, or per point of a line), a list of
    texts, or one value for all items. With ``names`` a reader can visit the items with the pointer or the arrow keys;
    ``notes`` adds a text to each. A dot that has the name of a slider in ``drag`` can be moved by hand, between the
    places of the slider's ends, ``drag_ends`` [px].
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
    """One picture with its sentence, ``said``, its alternative text and its table.

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
    verdict: int | None = None  # the line of ``said`` that judges an answer


def shade(share: ArrayLike) -> Floats:
    """Return the colour of each load between 0 and 1; NaN becomes grey."""
    load = np.asarray(share, dtype=np.float64)
    step = np.rint(np.clip(np.nan_to_num(load), 0, 1) * (_SHADES - 1))
    return np.where(np.isnan(load), COLOUR["grey"], len(_NAMED) + step)


def ink_on(colour: ArrayLike) -> Floats:
    """Return black or white, whichever is easier to read on each colour; its contrast is at least 4.5."""
    hexes = [PALETTE[int(place)] for place in np.atleast_1d(colour)]
    rgb = np.array([matplotlib.colors.to_rgb(hex) for hex in hexes]).reshape(-1, 3)
    # Relative luminance as WCAG 2.2 defines it; on a luminance of 0.179 black and white have the same contrast.
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    return np.where(luminance > 0.179, COLOUR["black"], COLOUR["white"])


def coloured(place: NDArray[Any], otherwise: ArrayLike = COLOUR["grey"]) -> Floats:
    """Return a colour for each row, rail or axis number, repeating after eight; ``otherwise`` where it is negative."""
    in_turn = np.array(KEYS)[place % len(KEYS)]
    return np.where(place >= 0, in_turn, otherwise)


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


def key(
    y: float, words: str, names: Sequence[str], colours: Sequence[float] = KEYS
) -> dict[str, Layer]:
    """Return a legend, drawn where the scale of loads would be: words, then a sample of each colour with names.

    The names get the colours in turn; if there are more names than colours, names of one colour share a sample. An
    empty name is left out.
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
    left = (WIDTH - np.sum(widths)) / 2
    x = left + np.cumsum(widths)  # right end of each, where the next sample begins
    labels: list[tuple[float, float, str, int]] = [(float(x[0]) - 8, y + 6, words, 2)]
    for at, name in zip(x.tolist(), seen_names, strict=False):  # no name follows the last end
        labels.append((at + 19, y + 6, name, 0))
    return {
        "scale": boxes(x[:-1], y, 14.0, 12.0, colour=np.array(seen_colours)),
        "ends": texts_at(*labels),
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
    words = [plain(show(float(value))) for value in places]
    low, high = ends
    if across:
        side = "x"
        paths = [np.array([[place, low], [place, high]]) for place in here]
        marks = texts(here, high + 12.0, words, align=1.0)
    else:
        side = "y"
        paths = [np.array([[low, place], [high, place]]) for place in here]
        marks = texts(low - 6.0, here, words, align=2.0)
    grid = lines(paths, width=1.0, colour=COLOUR["grey"], alpha=0.3)
    return {f"{side} grid": grid, f"{side} ticks": marks}


# Printing -----------------------------------------------------------------------------------------

_BOLD: dict[str, Any] = {"fontweight": "bold", "color": INK, "parse_math": False}
_NORMAL = _BOLD | {"fontweight": "normal"}


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
    alt = scene.alt or scene.said
    if finding:
        # The computed sentence follows, so that the alternative text contains numbers whatever the finding says.
        alt = f"{headline.rstrip('.')}. {alt[:1].upper()}{alt[1:]}"

    height = max(scene.height, 20.0)  # [px]
    if ax is None:
        ax = _new_axes(height, headline, scene.caption)
    else:
        ax.set_title(textwrap.fill(headline, 60), loc="left", pad=20, fontsize=10, **_BOLD)
    ax.set_axis_off()
    ax.set(xlim=(0, WIDTH), ylim=(height, 0))

    painters = {"lines": _lines, "boxes": _boxes, "dots": _dots, "texts": _texts}
    for order, layer in enumerate(scene.layers.values()):
        if layer.kind in painters:  # movers cannot be printed
            painters[layer.kind](ax, layer.fields, order)
    return Picture(ax, headline, alt, scene.table or Table({"what": [scene.said]}), scene.caption)


def _headline(finding: str) -> str:
    """Return a sentence with a capital letter at its beginning, or raise if it begins with "figure" or "plot"."""
    words = finding.strip()
    headline = words[:1].upper() + words[1:]
    if headline.lower().startswith(("figure", "plot")):
        raise ValueError(
            f"finding must be a sentence that says what is seen, got {headline!r};"
            " begin with the matter itself"
        )
    return headline


def _new_axes(height: float, headline: str, caption: str) -> Axes:
    """Return axes that fill a new figure between its headline and its caption."""
    above = textwrap.fill(headline, 76)
    below = textwrap.fill(caption, 105)
    # A long headline or caption makes the figure higher, not the drawing smaller. In inches of 100 px.
    extra = 0.18 * above.count("\n")
    if below:
        extra += 0.15 + 0.15 * (below.count("\n") + 1)
    figure = Figure(
        (WIDTH / 100, height / 100 + 0.35 + extra),
        layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06),
    )
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    figure.suptitle(above, x=0.01, ha="left", fontsize=10.0, **_BOLD)
    figure.supxlabel(below, x=0.01, ha="left", fontsize=8.5, **_NORMAL)
    return ax


def _each(value: Any, n: int, otherwise: float = 0.0) -> Floats:
    """Return a number for each of n items from a field, which may be a single number or, as None, missing."""
    given = otherwise if value is None else value
    return np.broadcast_to(np.asarray(given, dtype=np.float64), n)


def _colours(value: Any, n: int) -> list[str]:
    """Return the colour of each of n items as matplotlib takes it."""
    return ["none" if place < 0 else PALETTE[int(place)] for place in _each(value, n)]


def _lines(ax: Any, fields: Mapping[str, Any], order: int) -> None:
    """Draw a layer of lines."""
    n = fields["ptr"].size - 1
    if not n:
        return
    points = np.stack([fields["x"], fields["y"]], axis=1)
    styles: list[Any] = []
    for dash in _each(fields.get("dash"), n):
        styles.append((0, DASHES[int(dash)]) if dash else "-")
    ax.add_collection(
        LineCollection(
            np.split(points, fields["ptr"][1:-1].astype(int)),
            linewidths=_each(fields.get("width"), n, 1.5),
            colors=_colours(fields.get("colour"), n),
            alpha=_each(fields.get("alpha"), n, 1.0),
            linestyles=styles,
            zorder=order,
        )
    )


def _boxes(ax: Any, fields: Mapping[str, Any], order: int) -> None:
    """Draw a layer of boxes, with the texts in them."""
    n = fields["x"].size
    faces = _colours(fields.get("colour"), n)
    edges = _each(fields.get("edge"), n)  # 0: none; below: ink
    alphas = _each(fields.get("alpha"), n, 1.0)
    hatches = _each(fields.get("hatch"), n)
    radii = _each(fields.get("round"), n, 3.0)
    for i, face in enumerate(faces):
        width, height = float(fields["w"][i]), float(fields["h"][i])
        radius = min(radii[i], width / 2, height / 2)
        if not edges[i]:
            edge = "none"
        else:
            edge = INK if edges[i] < 0 else PALETTE[int(edges[i])]
        # add_patch would compute all limits again for each box, which takes longer than drawing it.
        ax.add_artist(
            FancyBboxPatch(
                (float(fields["x"][i]), float(fields["y"][i])),
                width,
                height,
                boxstyle=f"round,pad=0,rounding_size={radius:g}",
                fc=face,
                alpha=None if face == "none" else alphas[i],
                ec=edge,
                hatch=HATCHES[int(hatches[i])],
                lw=1.0,
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
        }
        _texts(ax, words, order)


def _dots(ax: Any, fields: Mapping[str, Any], order: int) -> None:
    """Draw a layer of dots."""
    n = fields["x"].size
    sizes = _each(fields.get("size"), n, 4.0)
    colours = _colours(fields.get("colour"), n)
    shapes = _each(fields.get("shape"), n)
    for i, colour in enumerate(colours):
        filled = shapes[i] == 0 or 2 < shapes[i] < 7
        if filled:  # with an edge in ink: orange alone is pale on white
            look = {"mfc": colour, "mec": INK, "mew": 0.7}
        else:
            look = {"mfc": "none", "mec": colour, "mew": 1.3}
        marker = _SHAPES[int(shapes[i])]
        ax.plot(fields["x"][i], fields["y"][i], marker, ms=1.4 * sizes[i], **look, zorder=order)


def _texts(ax: Any, fields: Mapping[str, Any], order: int) -> None:
    """Draw a layer of texts; a text wider than its ``room`` is left out."""
    n = len(fields["texts"])
    colours = _colours(fields.get("colour"), n)
    aligns = _each(fields.get("align"), n)
    sizes = _each(fields.get("size"), n, 12.0)
    bold = _each(fields.get("bold"), n)
    rooms = _each(fields.get("room"), n, np.inf)
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
        )
