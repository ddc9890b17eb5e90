"""A scene: what a live view shows at one setting of its controls, as layers of numbers that any painter can draw.

The browser draws it on a canvas (live.js), `printed` draws it with matplotlib for print and for pages without a
kernel. Coordinates are pixels of a picture 700 wide, y downwards. Colours are places in `PALETTE`.
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
_SHADES = 64  # of cividis, the map of loads
_NAMED = {
    "ink": INK,
    "grey": GREY,
    "white": "#ffffff",
    "black": "#000000",
    "tint": TINT,
    "switch": NODE[True],
    "host": NODE[False],
    **{name: role.colour for name, role in ROLES.items() if role.colour not in (INK, GREY)},
    **{f"other{i}": colour for i, colour in enumerate(COLOURS)},
}
_CIVIDIS = [
    matplotlib.colors.to_hex(c) for c in matplotlib.colormaps["cividis"](np.linspace(0, 1, _SHADES))
]
# Place 0 is the colour of the page's text.
PALETTE = (*_NAMED.values(), *_CIVIDIS)
COLOUR = {name: float(i) for i, name in enumerate(_NAMED)} | {
    "none": -1.0,
    "published": 0.0,
    "bound": 1.0,
}
# Of rows, rails and axes in turn.
KEYS = [
    COLOUR[k]
    for k in ("predicted", "measured", "guess", "other1", "tint", "failed", "other2", "other3")
]
DASHES = ((), (6, 3), (2, 3), (8, 3, 2, 3), (3, 2), (8, 3, 2, 3, 2, 3))
HATCHES = ("", "////", "\\\\\\\\", "xxxx", "||||")
_SHAPES = ("o", "o", "X", *"s^Dv", *"s^Dv")  # the second of each is open


@dataclass(frozen=True)
class Layer:
    """Items of one kind: boxes, lines, dots, texts or movers.

    ``fields`` holds arrays (one number per item, or per point of a line), lists of texts, or one value for all.
    ``names`` makes the items readable by pointer and arrow keys, ``notes`` adds a text to each. A dot with the name of
    a slider in ``drag`` is moved by hand, between where the slider's ends stand: ``drag_ends`` [px].
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make float32 arrays of all numbers: what the browser gets is what a test sees."""
        given = {k: v for k, v in self.fields.items() if v is not None}
        numbers = {
            k: v for k, v in given.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fiub"
        }
        object.__setattr__(
            self, "fields", given | {k: v.astype(np.float32) for k, v in numbers.items()}
        )


@dataclass(frozen=True)
class Scene:
    """One picture with its sentence, its alternative text and its table; ``moves`` asks for motion to this state."""

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
    """Return the colour of loads between 0 and 1; NaN is grey."""
    part = np.asarray(share, dtype=np.float64)
    place = len(_NAMED) + np.rint(np.clip(np.nan_to_num(part), 0, 1) * (_SHADES - 1))
    return np.where(np.isnan(part), COLOUR["grey"], place)


def ink_on(colour: ArrayLike) -> Floats:
    """Return black or white, whichever is read better on each colour: its contrast is at least 4.5."""
    rgb = np.array(
        [matplotlib.colors.to_rgb(PALETTE[int(c)]) for c in np.atleast_1d(colour)]
    ).reshape(-1, 3)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    # WCAG 2.2
    return np.where(linear @ [0.2126, 0.7152, 0.0722] > 0.179, COLOUR["black"], COLOUR["white"])


def coloured(place: NDArray[Any], otherwise: ArrayLike = COLOUR["grey"]) -> Floats:
    """Return a colour for each row, rail or axis, in turn, or another where there is none."""
    return np.where(place >= 0, np.array(KEYS)[place % len(KEYS)], otherwise)


def lines(paths: Sequence[NDArray[Any]], **fields: Any) -> Layer:
    """Return a layer of lines from one array of points (P, 2) each."""
    points = np.concatenate([np.empty((0, 2)), *paths])
    ptr = np.concatenate([[0], np.cumsum([len(p) for p in paths])])
    return Layer("lines", {"ptr": ptr, "x": points[:, 0], "y": points[:, 1], **fields})


def boxes(x: ArrayLike, y: ArrayLike, w: ArrayLike, h: ArrayLike, **fields: Any) -> Layer:
    """Return a layer of boxes; what all of them share is one number."""
    return Layer(
        "boxes",
        dict(zip("xywh", np.broadcast_arrays(*np.atleast_1d(x, y, w, h)), strict=True)) | fields,
    )


def texts(x: ArrayLike, y: ArrayLike, words: Sequence[str], **fields: Any) -> Layer:
    """Return a layer of texts; what all of them share is one number."""
    x, y = (np.broadcast_to(place, len(words)) for place in (x, y))
    return Layer("texts", {"x": x, "y": y, "texts": words} | fields)


def texts_at(*places: tuple[float, float, str, int]) -> Layer:
    """Return a layer of texts: x, y, words, and 0, 1 or 2 for a place at their left end, middle or right end."""
    x, y, align = np.array([(x, y, align) for x, y, _, align in places]).reshape(-1, 3).T
    return Layer(
        "texts", {"x": x, "y": y, "texts": [words for _, _, words, _ in places], "align": align}
    )


def key(
    y: float, words: str, names: Sequence[str], colours: Sequence[float] = KEYS
) -> dict[str, Layer]:
    """Return a legend in the place of the scale of loads: words, and a sample of each colour with what has it."""
    shared = [", ".join(filter(None, names[i :: len(colours)])) for i in range(len(colours))]
    seen = [(colour, name) for colour, name in zip(colours, shared, strict=True) if name]
    wide = np.array([7.0 * len(words) + 8, *(7.0 * len(name) + 32 for _, name in seen)])
    x = (WIDTH - wide.sum()) / 2 + np.cumsum(wide)
    names_at = [(at + 19, y + 6, name, 0) for at, (_, name) in zip(x.tolist(), seen, strict=False)]
    return {
        "scale": boxes(x[:-1], y, 14.0, 12.0, colour=np.array([colour for colour, _ in seen])),
        "ends": texts_at((float(x[0]) - 8, y + 6, words, 2), *names_at),
    }


def log_axis(low: float, high: float, start: float, end: float) -> Callable[[Any], Floats]:
    """Return where a value stands on a logarithmic axis from ``start`` to ``end`` [px], or on an even one from 0."""
    span, slope = (np.log(high / low) if low else high), end - start
    return lambda v: np.asarray(
        start + slope * (np.log(np.asarray(v) / low) if low else np.asarray(v)) / span
    )


def tick_layers(
    places: Floats,
    at: Callable[[Any], Floats],
    show: Callable[[float], str],
    ends: tuple[float, float],
    across: bool,
) -> dict[str, Layer]:
    """Return grid lines and texts of an axis: across the picture, or upwards."""
    here, words, (low, high) = at(places), [plain(show(float(v))) for v in places], ends
    points = [np.array([[p, low], [p, high]] if across else [[low, p], [high, p]]) for p in here]
    marks = (
        texts(here, high + 12.0, words, align=1.0)
        if across
        else texts(low - 6.0, here, words, align=2.0)
    )
    side = "x" if across else "y"
    return {
        f"{side} grid": lines(points, width=1.0, colour=COLOUR["grey"], alpha=0.3),
        f"{side} ticks": marks,
    }


def _each(value: Any, n: int, otherwise: float = 0.0) -> Floats:
    return np.broadcast_to(np.asarray(otherwise if value is None else value, dtype=np.float64), n)


def _colours(value: Any, n: int) -> list[str]:
    return ["none" if c < 0 else PALETTE[int(c)] for c in _each(value, n)]


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
    headline, alt = (finding or scene.said).strip(), scene.alt or scene.said
    headline = headline[:1].upper() + headline[1:]
    if headline.lower().startswith(("figure", "plot")):
        msg = f"finding must be a sentence that says what is seen, got {headline!r}; begin with the matter itself"
        raise ValueError(msg)
    # With what was computed the alternative text names a number whatever the finding says.
    alt = f"{headline.rstrip('.')}. {alt[:1].upper()}{alt[1:]}" if finding else alt
    high = max(scene.height, 20.0)
    words: dict[str, Any] = {"fontweight": "bold", "color": INK, "parse_math": False}
    if ax is None:
        above, below = textwrap.fill(headline, 76), textwrap.fill(scene.caption, 105)
        # Long words take no room from the drawing.
        more = 0.18 * above.count("\n") + (0.15 + 0.15 * (below.count("\n") + 1)) * bool(below)
        figure = Figure(
            (WIDTH / 100, high / 100 + 0.35 + more),
            layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06),
        )
        FigureCanvasAgg(figure)
        ax = figure.add_subplot()
        figure.suptitle(above, x=0.01, ha="left", fontsize=10.0, **words)
        figure.supxlabel(
            below, x=0.01, ha="left", fontsize=8.5, **{**words, "fontweight": "normal"}
        )
    else:
        ax.set_title(textwrap.fill(headline, 60), loc="left", pad=20, fontsize=10, **words)
    ax.set_axis_off()
    ax.set(xlim=(0, WIDTH), ylim=(high, 0))
    painters = {"lines": _lines, "boxes": _boxes, "dots": _dots, "texts": _texts}
    for order, layer in enumerate(scene.layers.values()):
        if layer.kind in painters:  # the others only move
            painters[layer.kind](ax, layer.fields, order)
    return Picture(ax, headline, alt, scene.table or Table({"what": [scene.said]}), scene.caption)


def _lines(ax: Any, f: Mapping[str, Any], order: int) -> None:
    points, n = np.stack([f["x"], f["y"]], axis=1), f["ptr"].size - 1
    if not n:
        return
    paths = np.split(points, f["ptr"][1:-1].astype(int))
    styles: list[Any] = [(0, DASHES[int(d)]) if d else "-" for d in _each(f.get("dash"), n)]
    alpha, width = _each(f.get("alpha"), n, 1.0), _each(f.get("width"), n, 1.5)
    ax.add_collection(
        LineCollection(
            paths,
            linewidths=width,
            colors=_colours(f.get("colour"), n),
            alpha=alpha,
            linestyles=styles,
            zorder=order,
        )
    )


def _boxes(ax: Any, f: Mapping[str, Any], order: int) -> None:
    n = f["x"].size
    look = zip(
        _colours(f.get("colour"), n),
        _each(f.get("edge"), n),
        _each(f.get("alpha"), n, 1.0),
        _each(f.get("hatch"), n),
        _each(f.get("round"), n, 3.0),
        strict=True,
    )
    for i, (face, edge, alpha, hatch, round_) in enumerate(look):
        x, y, w, h = (float(f[k][i]) for k in "xywh")
        shape = f"round,pad=0,rounding_size={min(round_, w / 2, h / 2):g}"
        line = "none" if not edge else INK if edge < 0 else PALETTE[int(edge)]
        # add_patch would reckon limits anew for each box, which takes longer than to draw it.
        ax.add_artist(
            FancyBboxPatch(
                (x, y),
                w,
                h,
                boxstyle=shape,
                fc=face,
                alpha=alpha if face != "none" else None,
                ec=line,
                hatch=HATCHES[int(hatch)],
                lw=1.0,
                zorder=order,
            )
        )
    if "texts" in f:
        middle = {"x": f["x"] + f["w"] / 2, "y": f["y"] + f["h"] / 2}
        _texts(
            ax,
            {**middle, "texts": f["texts"], "align": 1, "colour": f.get("ink"), "room": f["w"]},
            order,
        )


def _dots(ax: Any, f: Mapping[str, Any], order: int) -> None:
    n = f["x"].size
    look = zip(
        f["x"],
        f["y"],
        _each(f.get("size"), n, 4.0),
        _colours(f.get("colour"), n),
        _each(f.get("shape"), n),
        strict=True,
    )
    for x, y, size, colour, shape in look:
        full = shape == 0 or 2 < shape < 7  # with an edge in ink: orange alone is pale on white
        edge = {"mec": INK, "mew": 0.7} if full else {"mec": colour, "mew": 1.3}
        face = colour if full else "none"
        ax.plot(x, y, _SHAPES[int(shape)], ms=1.4 * size, mfc=face, **edge, zorder=order)


def _texts(ax: Any, f: Mapping[str, Any], order: int) -> None:
    n = len(f["texts"])
    columns = [
        _each(f.get(k), n, v)
        for k, v in (("align", 0), ("size", 12), ("bold", 0), ("room", np.inf))
    ]
    look = zip(f["x"], f["y"], f["texts"], _colours(f.get("colour"), n), *columns, strict=True)
    for x, y, text, colour, align, size, bold, room in look:
        if 0 < 0.56 * size * len(text) < room:
            ax.text(
                x,
                y,
                text,
                ha=("left", "center", "right")[int(align)],
                va="center",
                fontsize=0.71 * size,
                fontweight="bold" if bold else "normal",
                color=colour,
                zorder=order,
                parse_math=False,
            )
