"""The picture and what travels with it: the finding above it, alternative text, table twin, theme colours.

Colours, markers and line styles have one place, here, and one meaning each. The colours stay apart for colour-blind
readers (M. Okabe, K. Ito, Color Universal Design, 2002, revised 2008); marker and line say the same. `INK` stands for
the text colour of the page: an SVG writes it as ``currentColor``, because no single grey reaches a contrast of 4.5 on
both white and the dark theme (the best grey has 4.34).
"""

import html
import io
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from fabriclab.core import Floats
from fabriclab.texts import text
from fabriclab.views.tables import Table, three

# What views take from here, with the types that all of them need.
__all__ = ["COLOURS", "GREY", "HERE", "INK", "NODE", "ROLES", "STYLE", "TINT", "Axes", "Picture", "Table", "plain",
           "spread", "styled", "three"]  # fmt: skip
INK = "#1a1a1b"  # a value that nothing else uses, so that an SVG can hand it to the page
GREY = "#6b6b6b"  # contrast 5.3 on white and 3.5 on #111111; for lines, never for text
# Further dots of one role keep its colour and change their shape. Further lines change dash and colour, to one that no
# role has, since five dashes of one colour cannot be told apart where lines cross; dots belong to the bound.
COLOURS = ("#A04A20", "#9A3FF0", "#C86FA4", "#758C4D")


class Role(NamedTuple):
    """How one kind of statement looks: its colour, and dots with their marker or else a line."""

    colour: str
    marker: str = ""
    filled: bool = True


ROLES = {"predicted": Role("#0072B2"), "measured": Role("#E69F00", "o"), "published": Role(INK, "o", filled=False),
         "bound": Role(GREY), "guess": Role("#009E73"), "failed": Role("#D55E00", "X")}  # fmt: skip
HERE = {"measured": "measured here", "stored": "measured elsewhere"}
NODE = {True: "#5c6878", False: "#766a5a"}  # passes traffic on, or not; white text on both has 5.6 and 5.3
TINT = "#56B4E9"  # NVLink domain

# Sizes in points: a figure is 7 inches = 504 pt and is shown 700 px wide, so 8.5 pt are 11.8 px.
STYLE: dict[Any, Any] = {"font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
                         "font.size": 8.5, "text.color": INK, "figure.facecolor": "none", "hatch.linewidth": 0.6,
                         "svg.fonttype": "none", "svg.hashsalt": "fabriclab"}  # fmt: skip

WIDTH = 7.0
styled = matplotlib.rc_context(STYLE)  # a decorator: what is drawn inside has the look of the course


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawing with its words and its numbers: finding above, alternative text, table twin, caption with sources.

    In a notebook it shows itself as SVG in the colours of the theme, with the alternative text for screen readers
    and the table twin to unfold. With ``FABRICLAB_TEXT=1`` it shows finding and table instead.
    """

    axes: Axes
    finding: str
    alt: str
    table: Table
    caption: str = ""

    @property
    def figure(self) -> Figure:
        """The figure; it belongs to no window and is freed with this picture."""
        return self.axes.figure.canvas.figure

    @styled
    def svg(self) -> str:
        """Return the picture as an SVG element whose text has the colour of the page around it."""
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        self.figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
        svg = buffer.getvalue()
        # matplotlib's style block would hold for the whole page; as an attribute it holds for this picture only.
        svg = re.sub(r"<style.*?</style>", "", svg[svg.index("<svg") :], count=1, flags=re.DOTALL)
        # Group names would be there twice on a page with two pictures; nothing refers to them.
        svg = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", svg)
        size = f'width="{WIDTH * 100:.0f}" style="max-width:100%;height:auto;stroke-linejoin:round;stroke-linecap:butt"'
        svg = re.sub(r'width="[^"]*" height="[^"]*"', size, svg, count=1)
        label = f'<svg role="img" aria-label="{html.escape(self.alt)}" '
        return svg.replace("<svg ", label, 1).replace(INK, "currentColor")

    @styled
    def save(self, path: str | Path) -> Path:
        """Write the picture as .svg, .pdf or .png (white background, 200 dots per inch) and return the path."""
        self.figure.savefig(path, dpi=200, facecolor="white", metadata={"Title": self.alt})
        return Path(path)

    def __str__(self) -> str:
        """Return finding, table and caption as text."""
        return "\n".join(x for x in (self.finding, str(self.table), self.caption) if x)

    def __repr__(self) -> str:
        """Show the finding in one line."""
        return f"<Picture: {self.finding}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return what a notebook shows: the drawing, or the words in text mode."""
        table = self.table._repr_html_()
        if os.environ.get("FABRICLAB_TEXT", "") not in ("", "0"):
            shown = f"<p>{html.escape(self.finding)}</p>{table}<p>{html.escape(self.caption)}</p>"
        else:
            unfold = f"<details><summary>{text('live.word.numbers')}</summary>{table}</details>"
            shown = f'<figure style="margin:0">{self.svg()}{unfold}</figure>'
        return {"text/plain": str(self), "text/html": shown}


def spread(wanted: ArrayLike, gap: float, low: float = 0.0, high: float = 1.0) -> Floats:
    """Return positions nearest to ``wanted`` (least squares) within the range that keep ``gap`` between neighbours."""
    from scipy.optimize import isotonic_regression

    wish = np.asarray(wanted, dtype=np.float64)
    order, rank, out = np.argsort(wish, kind="stable"), np.arange(wish.size), np.empty_like(wish)
    level = isotonic_regression(wish[order] - rank * gap).x  # positions minus rank times gap must not fall
    # Labels that need more room than there is go past the upper end.
    out[order] = np.clip(level, low, max(low, high - gap * rank[-1])) + rank * gap
    return out


def plain(words: str) -> str:
    """Return "50 GB/s" for "50.0 GB/s"."""
    return re.sub(r"\.0+(?= )", "", words)
