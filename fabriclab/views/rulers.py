"""Ruler: rates on one logarithmic scale, measured here beside the links of the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from fabriclab import units
from fabriclab.core import Result
from fabriclab.views.page import Guess, Picture, canvas, finish, guess_band, styled, ticks
from fabriclab.views.palette import GREY, HERE, INK, ROLES
from fabriclab.views.tables import Table, three

Mark = tuple[float, str, str, Sequence[float]]  # rate, name, how it was obtained, rates of its rounds


@styled
def ruler(
    measured: Mapping[str, Result | units.Quantity], links: Mapping[str, units.Quantity] | None = None, *,
    guess: Guess | None = None, ax: Axes | None = None, finding: str | None = None,
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

    Raises
    ------
    ValueError
        If there is no rate, or one that is not plausible.
    """
    marks = marks_of(measured, links or {})
    own, ax = ax is None, canvas(ax, 1.25 + 0.29 * len(marks) + 0.2 * (guess is not None))
    band = guess_band(ax.axvspan, guess, "rate")
    if band:
        middle = float(np.sqrt(band[0] * band[1]))
        ax.annotate("your guess", (middle, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom")
    _draw(ax, sorted(marks), band)
    rate, name, obtained, rounds = zip(*sorted(marks, reverse=True), strict=True)
    slowest, fastest = ([pick(r, default=np.nan) for r in rounds] for pick in (min, max))
    table = Table({"what": name, "obtained": obtained, "rate [B/s]": rate, "slowest round [B/s]": slowest,
                   "fastest round [B/s]": fastest})  # fmt: skip
    said = _said(dict(zip(name, rate, strict=True)), marks[0][1])
    if band:
        said.append("the guess was {} to {}".format(*map(units.format_rate, band)))
    origin = [f"{k}: {v.source}." for k, v in measured.items() if isinstance(v, Result) and v.source]
    return finish(ax, own, finding, said, table, " ".join(filter(None, [caption, *origin])))


def marks_of(measured: Mapping[str, Result | units.Quantity], links: Mapping[str, units.Quantity]) -> list[Mark]:
    """Return all rates with their names, or refuse to draw nothing."""
    marks = [_mark(name, value) for name, value in measured.items()]
    marks += [(units.rate(value, name), name, "catalog", ()) for name, value in links.items()]
    if not marks:
        msg = 'measured must hold at least one rate, such as {"copy": "10 GB/s"}'
        raise ValueError(msg)
    return marks


def _mark(name: str, value: Result | units.Quantity) -> Mark:
    if not isinstance(value, Result):
        return units.rate(value, name), name, HERE["measured"], ()
    best = int(np.argmax(value.busbw))
    rate = float(value.busbw[best])
    rounds = () if value.samples is None else (rate * value.time[best] / value.samples[best]).tolist()
    return rate, name, HERE.get(value.obtained, value.obtained), rounds


def _draw(ax: Axes, marks: Sequence[Mark], band: Sequence[float]) -> None:
    """Draw a row for each rate, from the slowest at the bottom, with the rates of its rounds as strokes."""
    values = [*band, *(x for rate, _, _, rounds in marks for x in (rate, *rounds))]
    left, right = min(values) / 1.6, max(values) * 4.0
    ax.set(xscale="log", xlim=(left, right), ylim=(-0.6, len(marks) - 0.4))
    ticks(ax.xaxis, 10.0 ** np.arange(18), units.format_rate)
    ax.set_yticks(range(len(marks)), [name for _, name, _, _ in marks], fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x")
    ax.set_xlabel("rate, one direction [B/s], each step ten times", loc="right")
    for row, (rate, _, obtained, rounds) in enumerate(marks):
        here = obtained == HERE["measured"]
        role = ROLES["measured" if here else "published"]
        ax.hlines(row, left, rate, color=role.colour if here else GREY, lw=4.0 if here else 1.5, zorder=2)
        ax.plot(rounds, [row] * len(rounds), "|", ms=10, mew=1.2, color=INK, zorder=3)
        ax.plot(rate, row, zorder=4, **role.look() | {"ms": 7})
        place = (max([rate, *rounds]), row)
        ax.annotate(units.format_rate(rate), place, (9, 0), textcoords="offset points", va="center", fontsize=9)


def _said(rates: Mapping[str, float], first: str) -> list[str]:
    """Return the fastest rate beside the first, or beside the slowest where they are the same, then the others."""
    shown, order = {name: units.format_rate(rate) for name, rate in rates.items()}, list(rates)
    top, other = order[0], first if first != order[0] else order[-1]
    lead = f"{top} moves {shown.pop(top)}"
    if other != top:
        lead += f", {three(rates[top] / rates[other])} times {other} with {shown.pop(other)}"
    return [lead, *(f"{name} {rate}" for name, rate in shown.items())]
