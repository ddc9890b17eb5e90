"""The picture and what travels with it: the finding above it, alternative text, table twin, theme colours."""

from __future__ import annotations

import functools
import html
import io
import os
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import ArrayLike, NDArray

from fabriclab import units
from fabriclab.views.palette import INK, STYLE
from fabriclab.views.tables import Table

__all__ = ["Picture", "canvas", "finish", "joined", "plain", "positive_pair", "spread", "styled"]

WIDTH: Final = 7.0
P = ParamSpec("P")
R = TypeVar("R")


def styled(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function under the style of the course and leave the settings of matplotlib as they were."""

    @functools.wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.rc_context(STYLE):
            return function(*args, **kwargs)

    return inside


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawing with its words and its numbers.

    In a notebook it shows itself as SVG in the colours of the theme, with the alternative text for screen readers
    and the table twin to unfold. With ``FABRICLAB_TEXT=1`` it shows finding and table instead.

    Parameters
    ----------
    axes : Axes
        What was drawn; ``axes.figure`` is its figure.
    finding : str
        The sentence above the picture.
    alt : str
        What the picture says, for those who do not see it.
    table : Table
        The numbers that were drawn.
    caption : str
        Sources and what was left out.
    """

    axes: Axes
    finding: str
    alt: str
    table: Table
    caption: str = ""

    @property
    def figure(self) -> Figure:
        """The figure; it belongs to no window and is freed with this picture."""
        figure = self.axes.get_figure(root=True)
        if figure is None:
            msg = "this picture's axes were removed from their figure; draw it again"
            raise ValueError(msg)
        return figure

    @styled
    def svg(self) -> str:
        """Return the picture as an SVG element whose text has the colour of the page around it."""
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        self.figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
        text = buffer.getvalue()
        # matplotlib's style block would hold for the whole page; as an attribute it holds for this picture only.
        text = re.sub(r"<style.*?</style>", "", text[text.index("<svg") :], count=1, flags=re.DOTALL)
        # Group names would be there twice on a page with two pictures; nothing refers to them.
        text = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text)
        role = f'role="img" aria-label="{html.escape(self.alt)}" '
        shape = 'style="max-width:100%;height:auto;stroke-linejoin:round;stroke-linecap:butt" '
        text = re.sub(r'<svg (.*?)width="[^"]*"', rf'<svg \1width="{WIDTH * 100:.0f}"', text, count=1, flags=re.DOTALL)
        text = re.sub(r'height="[^"]*" ', "", text, count=1)
        return text.replace("<svg ", f"<svg {role}{shape}", 1).replace(INK, "currentColor")

    def save(self, path: str | Path) -> Path:
        """Write the picture as .svg, .pdf or .png (white background, 200 dots per inch) and return the path."""
        target = Path(path)
        if target.suffix == ".svg":
            target.write_text(self.svg(), encoding="utf-8")
        else:
            with matplotlib.rc_context(STYLE):
                self.figure.savefig(target, dpi=200, facecolor="white")
        return target

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
            unfold = f"<details><summary>The numbers</summary>{table}</details>"
            shown = f'<figure style="margin:0">{self.svg()}{unfold}</figure>'
        return {"text/plain": str(self), "text/html": shown}


def canvas(ax: Axes | None, height: float) -> Axes:
    """Return ``ax``, or new axes ``height`` inches high in a figure that belongs to no window."""
    if ax is not None:
        return ax
    figure = Figure(figsize=(WIDTH, height), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def finish(ax: Axes, own: bool, finding: str | None, said: Sequence[str], table: Table, caption: str = "") -> Picture:
    """Put the finding above the picture and the caption below, and return the `Picture`.

    ``said`` holds clauses computed from what was drawn. The first is the finding where none is given; all of them
    are in the alternative text, so that it names a number whatever the finding says.
    """
    clauses = "; ".join(said)
    headline = (finding or said[0]).strip()
    headline = headline[:1].upper() + headline[1:]
    if headline.lower().startswith(("figure", "plot")):
        msg = f"finding must be a sentence that says what is seen, got {headline!r}; begin with the matter itself"
        raise ValueError(msg)
    alt = (
        f"{headline.rstrip('.')}. {clauses[0].upper()}{clauses[1:]}"
        if finding
        else f"{headline}{clauses[len(said[0]) :]}"
    )
    words: dict[str, Any] = {"ha": "left", "color": INK, "parse_math": False}
    figure = ax.get_figure(root=True)
    if own and isinstance(figure, Figure):
        figure.suptitle(textwrap.fill(headline, 80), x=0.01, fontsize=10.5, fontweight="bold", **words)
        if caption:
            figure.supxlabel(textwrap.fill(caption, 105), x=0.01, fontsize=8.5, **words)
    else:
        ax.set_title(textwrap.fill(headline, 60), loc="left", fontsize=10, fontweight="bold", color=INK)
    return Picture(ax, headline, alt, table, caption)


def spread(wanted: ArrayLike, gap: float, low: float = 0.0, high: float = 1.0) -> NDArray[np.float64]:
    """Return positions nearest to ``wanted`` (least squares) that keep ``gap`` between neighbours.

    Positions minus rank times gap must not fall: an isotonic regression, solved by pooling neighbours [1]_.

    Parameters
    ----------
    wanted : array_like, shape (K,)
        Where the labels would stand.
    gap : float
        Least distance of neighbours, in the unit of ``wanted``.
    low, high : float
        Range; where the labels need more room than it has, they go past ``high``.

    Returns
    -------
    ndarray, shape (K,)
        In the order of ``wanted``.

    References
    ----------
    .. [1] R. E. Barlow et al., Statistical Inference under Order Restrictions, Wiley, 1972.
    """
    wish = np.asarray(wanted, dtype=np.float64)
    order = np.argsort(wish, kind="stable")
    steps = np.arange(wish.size) * gap
    pools: list[tuple[float, int]] = []
    for value in (wish[order] - steps).tolist():
        total, count = value, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            total, count = total + pools[-1][0], count + pools.pop()[1]
        pools.append((total, count))
    level = np.concatenate([np.full(n, total / n) for total, n in pools]) if pools else wish
    out = np.empty_like(wish)
    out[order] = np.clip(level, low, max(low, high - steps[-1] if steps.size else high)) + steps
    return out


def joined(words: Sequence[Any]) -> str:
    """Return "a, b and c"."""
    texts = [str(w) for w in words]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def positive_pair(value: Sequence[units.Quantity], quantity: str, name: str) -> tuple[float, float]:
    """Return a range (low, high) in SI units; it must be above 0, because it stands on a logarithmic axis."""
    low, high = (units.parse(v, quantity, name) for v in value)
    if not 0 < low <= high:
        msg = f"{name} must be two values with 0 < low <= high, got {tuple(value)!r}"
        raise ValueError(msg)
    return low, high


def plain(text: str) -> str:
    """Return "50 GB/s" for "50.0 GB/s"."""
    return re.sub(r"\.0+(?= )", "", text)
