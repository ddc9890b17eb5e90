"""A picture to show to others: one number, one claim, and a guess beside what came out; 1200 x 630 px."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from fabriclab.look import TOKENS, tick_words
from fabriclab.texts import text, wrapped
from fabriclab.views.page import styled
from fabriclab.views.scene import log_axis

__all__ = ["share_picture", "strengths_picture"]

_WIDTH, _HEIGHT = 1200, 630  # [px]
_DOTS = 100  # per inch
_LEFT, _RIGHT = 64.0, 1136.0  # of texts and ruler [px]
_RULER = 520.0  # from the top to the axis [px]
_BASE = 238.0  # from the top to the foot of the number and its unit [px]
_LINE = 58  # letters of the claim in a line
_MOST_TICKS = 8
_SIGNS = {"times": "\u00d7"}

# The fabric beside the number: GPUs, leaves and spines, from below. It is idle, since its load is not known here.
_SPINES, _LEAVES, _GPUS = 4, 8, 4  # the last: of each leaf
_FABRIC_LEFT = 760.0  # [px]
_ROWS = (64.0, 136.0, 208.0)  # of spines, leaves and GPUs [px]
_BESIDE = 40.0  # least distance from the number [px]

# Shares by topic: names on the left, bars beside them.
_BARS_TOP, _BARS_BOTTOM = 306.0, 596.0  # [px]
_BARS_LEFT = 380.0  # [px]


@styled
def share_picture(
    path: Path,
    *,
    theme: str,
    lesson: str,
    number: str,
    unit: str,
    claim: str,
    said: str,
    ends: tuple[float, float],
    guess: tuple[float | None, float, float | None],
    truth: float,
) -> str:
    """Write the picture as PNG, and return its alternative text.

    Parameters
    ----------
    path : Path
        The file to write.
    theme : {"light", "dark"}
        Its colours.
    lesson, number, unit, claim, said : str
        Title of the lesson; what came out, with its unit; what is claimed about that; what was guessed, as a sentence.
    ends : tuple of float
        Ends of the ruler.
    guess : tuple
        Low end, best guess and high end; the ends may be None.
    truth : float
        What came out, on the same ruler.
    """
    colour = {name: getattr(hues, theme) for name, hues in TOKENS.items()}
    figure = Figure((_WIDTH / _DOTS, _HEIGHT / _DOTS), dpi=_DOTS, facecolor=colour["paper"])
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1), facecolor=colour["paper"])
    ax.set_axis_off()
    ax.set(xlim=(0, _WIDTH), ylim=(_HEIGHT, 0))

    _write(ax, _LEFT, 72, f"fabriclab   {lesson}", 20, colour["soft"], bold=True)
    shown = _write(ax, _LEFT - 4, _BASE, number, 150, colour["ink"], bold=True, level="baseline")
    end = shown.get_window_extent().x1
    sign = _SIGNS.get(unit, unit)
    shown = _write(ax, end + 14, _BASE, sign, 64, colour["ink"], bold=True, level="baseline")
    if max(end, shown.get_window_extent().x1) < _FABRIC_LEFT - _BESIDE:
        _draw_fabric(ax, colour)
    lines = wrapped(claim.rstrip(".") + ".", _LINE)[:2]
    for place, line in enumerate(lines):
        _write(ax, _LEFT, 304 + 42 * place, line, 30, colour["ink"], bold=True)
    _write(ax, _LEFT, 304 + 42 * len(lines) + 8, said, 24, colour["soft"])
    _draw_ruler(ax, ends, guess, truth, unit, colour)

    alt = f"{number} {sign}: {claim.rstrip('.')}. {said}"
    figure.savefig(path, dpi=_DOTS, facecolor=colour["paper"], metadata={"Title": alt})
    return alt


@styled
def strengths_picture(
    path: Path, *, theme: str, level: str, said: str, shares: Mapping[str, float]
) -> str:
    """Write a picture of somebody's level and strengths as PNG, and return its alternative text.

    Parameters
    ----------
    path : Path
        The file to write.
    theme : {"light", "dark"}
        Its colours.
    level, said : str
        The level in a word or two, and a sentence below it.
    shares : mapping of str to float
        Topic -> share of right answers, the strongest first. 0..1
    """
    colour = {name: getattr(hues, theme) for name, hues in TOKENS.items()}
    figure = Figure((_WIDTH / _DOTS, _HEIGHT / _DOTS), dpi=_DOTS, facecolor=colour["paper"])
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0, 1, 1), facecolor=colour["paper"])
    ax.set_axis_off()
    ax.set(xlim=(0, _WIDTH), ylim=(_HEIGHT, 0))

    _write(ax, _LEFT, 72, "fabriclab", 20, colour["soft"], bold=True)
    _write(ax, _LEFT - 3, 190, level, 96, colour["ink"], bold=True, level="baseline")
    _write(ax, _LEFT, 244, said, 26, colour["soft"])
    row = (_BARS_BOTTOM - _BARS_TOP) / len(shares)
    wide = _RIGHT - 76 - _BARS_LEFT
    for place, (topic, share) in enumerate(shares.items()):
        y = _BARS_TOP + row * (place + 0.5)
        _write(ax, _BARS_LEFT - 16, y, topic, 19, colour["ink"], side="right")
        ends = [_BARS_LEFT, _BARS_LEFT + wide]
        ax.plot(ends, [y, y], color=colour["line"], lw=1.2, zorder=0)
        bar = FancyBboxPatch(
            (_BARS_LEFT, y - 0.28 * row),
            max(wide * share, 2.0),
            0.56 * row,
            boxstyle="round,pad=0,rounding_size=3",
            fc=colour["accent"] if not place else colour["edge"],
            ec="none",
        )
        ax.add_artist(bar)
        _write(ax, _RIGHT, y, f"{100 * share:.0f} %", 19, colour["ink"], side="right")

    listed = ", ".join(f"{topic} {100 * share:.0f} %" for topic, share in shares.items())
    alt = f"{level}: {said}. {listed}"
    figure.savefig(path, dpi=_DOTS, facecolor=colour["paper"], metadata={"Title": alt})
    return alt


def _write(ax: Any, x: float, y: float, words: str, size: float, colour: str, **look: Any) -> Any:
    """Write words at a place, with their middle, or with ``level="baseline"`` their feet, at y; the size is in px."""
    weight = "bold" if look.get("bold") else "normal"
    side = look.get("side", "left")
    return ax.text(
        x,
        y,
        words,
        fontsize=size * 72 / _DOTS,
        fontweight=weight,
        color=colour,
        ha=side,
        va=look.get("level", "center"),
        parse_math=False,
    )


def _draw_fabric(ax: Any, colour: dict[str, str]) -> None:
    """Draw a small fabric of two tiers: every leaf has a cable to every spine, and one to each of its GPUs."""
    top, middle, bottom = _ROWS
    pitch = (_RIGHT - _FABRIC_LEFT) / (_LEAVES * _GPUS)
    gpus = _FABRIC_LEFT + pitch * (np.arange(_LEAVES * _GPUS) + 0.5)
    leaves = gpus.reshape(_LEAVES, _GPUS).mean(axis=1)
    spines = np.linspace(leaves[1], leaves[-2], _SPINES)

    idle = {"color": colour["hair"], "lw": 1.2}
    for leaf in leaves:
        for spine in spines:
            ax.plot([leaf, spine], [middle, top], **idle)
    for gpu, leaf in zip(gpus, np.repeat(leaves, _GPUS), strict=True):
        ax.plot([gpu, leaf], [bottom, middle], **idle)

    for x, y in [*((x, top) for x in spines), *((x, middle) for x in leaves)]:
        box = FancyBboxPatch(
            (x - 14, y - 8),
            28,
            16,
            boxstyle="round,pad=0,rounding_size=4",
            fc=colour["paper"],
            ec=colour["edge"],
            lw=1.2,
            zorder=3,
        )
        ax.add_artist(box)
    ax.plot(gpus, np.full(gpus.size, bottom), "o", ms=5, color=colour["edge"], ls="none", zorder=3)


def _draw_ruler(
    ax: Any,
    ends: tuple[float, float],
    guess: tuple[float | None, float, float | None],
    truth: float,
    unit: str,
    colour: dict[str, str],
) -> None:
    """Draw guess, range and truth on a logarithmic axis."""
    to_x = log_axis(*ends, _LEFT, _RIGHT)
    low, best, high = guess
    if low and high:
        left, right = float(to_x(low)), float(to_x(high))
        band = FancyBboxPatch(
            (left, _RULER - 46),
            right - left,
            38,
            boxstyle="round,pad=0,rounding_size=8",
            fc=colour["guess_wash"],
            ec="none",
        )
        ax.add_artist(band)
    ax.plot([_LEFT, _RIGHT], [_RULER, _RULER], color=colour["edge"], lw=1.2)
    powers = 10.0 ** np.arange(
        np.ceil(np.log10(ends[0]) - 1e-9), np.floor(np.log10(ends[1]) + 1e-9) + 1
    )
    for place, power in enumerate(powers[::-1]):
        x = float(to_x(power))
        ax.plot([x, x], [_RULER, _RULER + 8], color=colour["edge"], lw=1.2)
        if place % (1 + len(powers) // (_MOST_TICKS + 1)) == 0:
            words = tick_words(float(power))
            if not place:
                words = f"{words} {unit}".strip()
            side = "right" if x > _RIGHT - 20 else "left" if x < _LEFT + 20 else "center"
            _write(ax, x, _RULER + 26, words, 18, colour["soft"], side=side)

    here, there = float(to_x(best)), float(to_x(truth))
    y = _RULER - 27
    ax.plot([here, there], [y, y], color=colour["ink"], lw=1.6, ls=":")
    ax.plot(here, y, "o", ms=18, color=colour["guess"], mec=colour["paper"], mew=2)
    ax.plot(there, y, "D", ms=15, color=colour["ink"], mec=colour["paper"], mew=2)
    # The two labels stand on the far sides of their marks, so they never touch.
    first, second = ("right", "left") if here <= there else ("left", "right")
    label = text("card.me")
    _write(
        ax,
        _held(here, first),
        _RULER - 66,
        label,
        20,
        colour["guess"],
        bold=True,
        side=_kept(here, first),
    )
    label = text("card.truth_short")
    _write(
        ax,
        _held(there, second),
        _RULER - 66,
        label,
        20,
        colour["ink"],
        bold=True,
        side=_kept(there, second),
    )


def _kept(x: float, side: str) -> str:
    """Return the side on which a label stands, which near an end of the ruler is the one with room."""
    if x < _LEFT + 140:
        return "left"
    return "right" if x > _RIGHT - 140 else side


def _held(x: float, side: str) -> float:
    """Return where a label begins or ends beside its mark."""
    return x + (12 if _kept(x, side) == "right" else -12)
