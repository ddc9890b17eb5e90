"""Ruler: rates on one logarithmic scale, measured here beside the links of the catalog."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from fabriclab import units
from fabriclab.core import Result
from fabriclab.views.page import Picture, canvas, finish, plain, positive_pair, styled
from fabriclab.views.palette import GREY, HERE, INK, ROLES
from fabriclab.views.tables import Table, three

__all__ = ["ruler"]


@styled
def ruler(
    measured: Mapping[str, Result | units.Quantity], links: Mapping[str, units.Quantity] | None = None, *,
    guess: tuple[units.Quantity, units.Quantity] | None = None, ax: Axes | None = None, finding: str | None = None,
    caption: str = "",
) -> Picture:  # fmt: skip
    """Place rates on a logarithmic ruler, the fastest on top.

    Parameters
    ----------
    measured : mapping of label to Result or rate
        Rates measured on this machine: orange, with every round as a small stroke where the result kept them. Of a
        result with several sizes the fastest counts. A stored result is an open circle, with its source below. [B/s]
    links : mapping of label to rate, optional
        Rates of real links, one direction: open circles. [B/s]
    guess : pair of rates, optional
        The reader's guess, a green band. [B/s]
    ax, finding : optional
        Where to draw, and the sentence above the picture.
    caption : str
        Where the rates of ``links`` come from.

    Returns
    -------
    Picture
        With axes, finding, alternative text and table.

    Raises
    ------
    ValueError
        If there is no rate, or one that is not plausible.
    """
    mine = {k: _rounds(v, k) for k, v in measured.items()}
    how = {k: HERE.get(o := getattr(v, "obtained", "measured"), o) for k, v in measured.items()}
    rates = {k: v[0] for k, v in mine.items()} | {k: units.rate(v, k) for k, v in (links or {}).items()}
    if not rates:
        msg = 'measured must hold at least one rate, such as {"copy": "10 GB/s"}'
        raise ValueError(msg)
    band = () if guess is None else positive_pair(guess, "rate", "guess")
    order = sorted(rates, key=lambda k: rates[k])
    own, ax = ax is None, canvas(ax, 1.25 + 0.29 * len(order) + 0.2 * bool(band))
    _scale(ax, [*rates.values(), *band, *(x for v in mine.values() for x in v)], order)
    for row, name in enumerate(order):
        _mark(ax, row, rates[name], mine.get(name, []), how.get(name) == HERE["measured"])
    if band:
        ax.axvspan(*band, color=ROLES["guess"].colour, alpha=0.25, lw=0, zorder=0)
        middle = float(np.sqrt(band[0] * band[1]))
        ax.annotate("your guess", (middle, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom")
    rows = order[::-1]
    rounds = {k: v[1:] or v for k, v in mine.items()}
    table = Table({
        "what": rows, "obtained": [how.get(k, "catalog") for k in rows],
        "rate [B/s]": [rates[k] for k in rows],
        "slowest round [B/s]": [min(rounds.get(k, [np.nan])) for k in rows],
        "fastest round [B/s]": [max(rounds.get(k, [np.nan])) for k in rows],
    }, caption=f"Your guess: {units.format_rate(band[0])} to {units.format_rate(band[1])}" if band else "")  # fmt: skip
    origin = [f"{k}: {v.source}." for k, v in measured.items() if isinstance(v, Result) and v.source]
    return finish(ax, own, finding, _said(rows, rates, mine), table, " ".join(x for x in (caption, *origin) if x))


def _rounds(value: Result | units.Quantity, name: str) -> list[float]:
    """Return the rate that counts, then the rate of every round where the result has them."""
    if not isinstance(value, Result):
        return [units.rate(value, name)]
    best = int(np.argmax(value.busbw))
    moved = float(value.busbw[best] * value.time[best])
    return [float(value.busbw[best]), *([] if value.samples is None else (moved / value.samples[best]).tolist())]


def _scale(ax: Axes, values: list[float], names: list[str]) -> None:
    low, high = min(values) / 1.6, max(values) * 4.0
    ticks = [10.0**e for e in range(int(np.ceil(np.log10(low))), int(np.log10(high)) + 1)]
    ax.set(xscale="log", xlim=(low, high), ylim=(-0.6, len(names) - 0.4))
    ax.set_xticks(ticks, [plain(units.format_rate(t)) for t in ticks])
    ax.minorticks_off()
    ax.set_yticks(range(len(names)), names, fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x")
    ax.set_xlabel("rate, one direction [B/s], each step ten times", loc="right")


def _mark(ax: Axes, row: int, rate: float, rounds: list[float], here: bool) -> None:
    role = ROLES["measured" if here else "published"]
    ax.hlines(row, ax.get_xlim()[0], rate, color=role.colour if here else GREY, lw=4.0 if here else 1.5, zorder=2)
    ax.plot(rounds[1:], [row] * len(rounds[1:]), "|", ms=10, mew=1.2, color=INK, zorder=3)
    face, edge = (role.colour, 0.7) if role.filled else ("none", 1.5)
    ax.plot(rate, row, marker="o", ms=7, mec=INK, mew=edge, mfc=face, zorder=4)
    right = max([rate, *rounds])
    ax.annotate(units.format_rate(rate), (right, row), (9, 0), textcoords="offset points", va="center")


def _said(rows: list[str], rates: Mapping[str, float], mine: Mapping[str, list[float]]) -> list[str]:
    """Return the rates in words, the fastest first, and how it compares with the first one measured here."""
    shown = {k: units.format_rate(rates[k]) for k in rows}
    top, own = rows[0], next(iter(mine), rows[-1])
    if top == own:
        return [f"{top} is the fastest of {len(rows)} with {shown[top]}", *(f"{k} {shown[k]}" for k in rows[1:])]
    lead = f"{top} moves {shown[top]}, {three(rates[top] / rates[own])} times {own} with {shown[own]}"
    return [lead, *(f"{k} {shown[k]}" for k in rows if k not in (top, own))]
