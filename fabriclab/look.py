"""The look of the course: every colour with its one meaning, in a light and a dark theme.

The colours stand in look.csv, each with its use. Everything that draws or styles takes them from here: the browser's
painter and style sheet, and matplotlib. Each colour that carries data has a contrast of at least 4.5 on the card, and
colours that meet in one picture can be told apart with red, green and blue blindness too; tests hold both. No picture
relies on hue alone: a mark, a pattern or a name says the same. So a full load is #ffe070 in the dark theme: a paler
yellow, such as #ffe891, is only 16 from a failed link for readers who are blind to blue, and the tests ask for 20.

A picture shows either loads or hues of algorithms, never both.
"""

import csv
import math
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabriclab.core import Floats

__all__ = [
    "CARDS",
    "COLOUR",
    "KEYS",
    "PALETTE",
    "ROLES",
    "SHADES",
    "Algorithm",
    "Hues",
    "Role",
    "algorithm",
    "both_themes",
    "coloured",
    "graded",
    "halves",
    "ink_on",
    "link_width",
    "shade",
    "tick_words",
    "variables",
]

SHADES = 64  # steps of the map of loads
_BLACK, _WHITE = "#000000", "#ffffff"
_FULL, _THINNEST, _IDLE = 4.5, 1.5, 0.8  # widths of links: in full use, hardly in use, idle [px]


# Where a page says that it is dark: JupyterLab, Visual Studio Code, and a browser that asks pages to be.
_DARK_PAGES = ('body[data-jp-theme-light="false"]', "body.vscode-dark")


class Hues(NamedTuple):
    """A colour in both themes, as hexadecimal RGB."""

    light: str
    dark: str


def _read() -> dict[str, Hues]:
    """Return the colours of look.csv by name."""
    file = Path(__file__).with_name("look.csv")
    with file.open(encoding="utf-8", newline="") as rows:
        return {row["token"]: Hues(row["light"], row["dark"]) for row in csv.DictReader(rows)}


def _rgb(hexadecimal: str) -> Floats:
    """Return red, green and blue of a colour between 0 and 1, (3,)."""
    return np.array([int(hexadecimal[place : place + 2], 16) / 255 for place in (1, 3, 5)])


def _ramp(ends: list[str]) -> list[str]:
    """Return `SHADES` colours from the first to the last of some colours, in equal steps between neighbours."""
    rgb = np.array([_rgb(end) for end in ends])  # (E, 3)
    at = np.linspace(0, len(ends) - 1, SHADES)
    channels = [np.interp(at, np.arange(len(ends)), rgb[:, channel]) for channel in range(3)]
    steps = np.rint(255 * np.array(channels).T).astype(int)  # (SHADES, 3)
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in steps.tolist()]


TOKENS = _read()
# The style sheet of cards for what a learner does, on a page of their own or as a live form.
CARDS = Path(__file__).with_name("cards.css").read_text(encoding="utf-8")
_LOADS = [TOKENS[f"load{step}"] for step in range(1, 6)]
# Text on a coloured area is black or white, whichever is easier to read; the choice may differ between the themes.
_ON = {
    (light, dark): f"on_{light == _WHITE:d}{dark == _WHITE:d}"
    for light in (_BLACK, _WHITE)
    for dark in (_BLACK, _WHITE)
}
_NAMED = TOKENS | {name: Hues(*pair) for pair, name in _ON.items()}
_RAMP = map(Hues, _ramp([hue.light for hue in _LOADS]), _ramp([hue.dark for hue in _LOADS]))

# A layer gives a colour as its place in this list. Place 0 is the colour of the page's text.
PALETTE: tuple[Hues, ...] = (*_NAMED.values(), *_RAMP)
COLOUR = {name: float(place) for place, name in enumerate(_NAMED)}
# Names by meaning: what kind of value it is, the form tells; the current state is ink, all else is grey.
COLOUR |= {
    "none": -1.0,
    "grey": COLOUR["edge"],
    "white": COLOUR["paper"],
    "tint": COLOUR["domain"],
    "switch": COLOUR["node"],
    "host": COLOUR["gpu"],
    "predicted": COLOUR["ink"],
    "measured": COLOUR["ink"],
    "published": COLOUR["ink"],
    "bound": COLOUR["edge"],
    "truth": COLOUR["ink"],
}
# Colours that kinds, rails and axes get in turn, where they are no algorithm, tenant or traffic of their own.
_IN_TURN = ("dp", "tp", "pp", "ep", "cp", "ink", "edge", "direct")
_TIERS = ("line", "hair", "edge", "soft")
KEYS = [COLOUR[name] for name in _IN_TURN]


class Role(NamedTuple):
    """The look of one kind of statement: its colour, and the marker of its dots; without a marker it is a line."""

    colour: str  # a key of `COLOUR`
    marker: str = ""
    filled: bool = True


ROLES = {
    "predicted": Role("predicted"),
    "measured": Role("measured", "o"),
    "published": Role("published", "o", filled=False),
    "bound": Role("bound"),
    "guess": Role("guess"),
    "failed": Role("failed", "X"),
}


class Algorithm(NamedTuple):
    """The look of one algorithm in the whole course: a colour, and a shape of dots as `Layer` counts them."""

    colour: float
    shape: float


_RING = Algorithm(COLOUR["ring"], 0.0)  # circle
_TREE = Algorithm(COLOUR["tree"], 4.0)  # triangle
_HALVING = Algorithm(COLOUR["halving"], 3.0)  # square
_IN_SWITCH = Algorithm(COLOUR["in_switch"], 5.0)  # diamond
_OTHER = Algorithm(COLOUR["direct"], 1.0)  # open circle
# A name that contains one of these words is that algorithm; the first that fits counts.
_ALGORITHMS = {
    "nvlstree": _IN_SWITCH,
    "nvls": _IN_SWITCH,
    "sharp": _IN_SWITCH,
    "in_switch": _IN_SWITCH,
    "in_network": _IN_SWITCH,
    "streaming": _IN_SWITCH,
    "recursive_doubling": _OTHER,  # sends whole arrays, where halving-doubling sends halves
    "halving": _HALVING,
    "doubling": _HALVING,
    "ring": _RING,
    "binomial": _OTHER,  # the hue of trees is that of the double tree
    "tree": _TREE,
}


def algorithm(name: str) -> Algorithm:
    """Return the look of an algorithm by its name in any spelling, such as "ring", "Double tree" or "NVLS".

    Ring, double tree, halving-doubling and in-switch reduction have a hue each; all others share one.
    """
    plain = name.lower().replace("-", "_").replace(" ", "_")
    for word, look in _ALGORITHMS.items():
        if word in plain:
            return look
    return _OTHER


def shade(share: ArrayLike) -> Floats:
    """Return the colour of each load between 0 and 1; NaN becomes grey."""
    load = np.asarray(share, dtype=np.float64)
    step = np.rint(np.clip(np.nan_to_num(load), 0, 1) * (SHADES - 1))
    return np.where(np.isnan(load), COLOUR["grey"], len(_NAMED) + step)


def link_width(share: ArrayLike) -> Floats:
    """Return the width of a link of each load [px]: a hairline when idle, and the wider the fuller it is."""
    load = np.clip(np.nan_to_num(np.asarray(share, dtype=np.float64)), 0, 1)
    return np.where(load > 0, _THINNEST + (_FULL - _THINNEST) * load, _IDLE)


def ink_on(colour: ArrayLike) -> Floats:
    """Return for each colour the one of black and white that is easier to read on it, in each theme."""
    return np.array([COLOUR[_ON[_text_on(PALETTE[int(place)])]] for place in np.atleast_1d(colour)])


def _text_on(hues: Hues) -> tuple[str, str]:
    """Return black or white for text on a colour in the light and in the dark theme."""
    return _text_on_one(hues.light), _text_on_one(hues.dark)


@cache
def _text_on_one(hexadecimal: str) -> str:
    """Return black or white, whichever has the greater contrast on a colour as WCAG 2.2 defines it."""
    luminance = _luminance(hexadecimal)
    to_white = 1.05 / (luminance + 0.05)
    to_black = (luminance + 0.05) / (_luminance(_BLACK) + 0.05)
    return _WHITE if to_white >= to_black else _BLACK


def _luminance(hexadecimal: str) -> float:
    """Return the relative luminance of a colour as WCAG 2.2 defines it, between 0 and 1."""
    rgb = _rgb(hexadecimal)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def coloured(place: NDArray[Any], otherwise: ArrayLike = COLOUR["edge"]) -> Floats:
    """Return a colour for each row, rail or axis number, repeating after eight; ``otherwise`` where it is negative."""
    in_turn = np.array(KEYS)[place % len(KEYS)]
    return np.where(place >= 0, in_turn, otherwise)


def graded(tier: NDArray[Any]) -> Floats:
    """Return a grey for each tier, further from the paper the higher: hues stand for traffic, ink for what failed."""
    greys: Floats = np.array([COLOUR[name] for name in _TIERS])
    return np.asarray(greys[np.minimum(tier, len(_TIERS) - 1)])


def variables(theme: str, names: Iterable[str] = TOKENS) -> str:
    """Return the colours of a theme, "light" or "dark", as custom properties of CSS such as ``--fl-ink: #16191d;``."""
    return "".join(
        f"--fl-{name.replace('_', '-')}:{getattr(TOKENS[name], theme)};" for name in names
    )


def both_themes(selector: str, light: str, dark: str) -> str:
    """Return rules that give elements the declarations for the theme of the page they stand on."""
    dark_pages = ",".join(f"{page} {selector}" for page in _DARK_PAGES)
    wish = f"@media (prefers-color-scheme:dark){{body:not([data-jp-theme-light]) {selector}"
    return f"{selector}{{{light}}}{dark_pages}{{{dark}}}{wish}{{{dark}}}}}"


def halves(finding: str) -> tuple[str, str]:
    """Split a finding after its first sentence, which says what is true; the rest is the contrast, if there is one.

    Examples
    --------
    >>> halves("The ring takes 0.7 s. One root takes 89.6 s.")
    ('The ring takes 0.7 s.', 'One root takes 89.6 s.')
    >>> halves("The tree takes 0.2 s. “Ring, ideal” comes next.")[1]
    '“Ring, ideal” comes next.'
    """
    parts = re.split(r"(?<=[.!?])\s+(?=[“A-Z0-9])", finding.strip(), maxsplit=1)
    return parts[0], parts[1] if len(parts) > 1 else ""


def tick_words(value: float) -> str:
    """Write a tick: up to 10,000 and down to 0.001 with all its digits, beyond that as a power of ten."""
    if value == 0 or 1e-3 <= value < 1e5:
        return f"{value:,.10g}"
    raised = str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}"
