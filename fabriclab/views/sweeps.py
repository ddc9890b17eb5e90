"""Sweeps: time or bus bandwidth against size or ranks, for predicted, measured and published results."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from fabriclab import units
from fabriclab.core import Result
from fabriclab.texts import text
from fabriclab.views.page import Floats, Guess, Picture, canvas, finish, guess_of, spread, styled, ticks
from fabriclab.views.palette import GREY, HERE, ROLES
from fabriclab.views.tables import Table

Results = Result | Sequence[Result] | Mapping[str, Result | Sequence[Result]]
Bounds = Mapping[str, Result | units.Quantity]
_MOST: Final = 5
# Column or unit of an axis, and how a value is written; of y also its quantity.
X: Final = {
    "size": ("size [B]", units.format_size),
    "ranks": ("ranks", lambda v: f"{v:,.0f} ranks"),
}
Y: Final = {
    "time": ("s", units.format_time, "time"),
    "busbw": ("B/s", units.format_rate, "rate"),
}


class Series(NamedTuple):
    """One line or one set of dots."""

    label: str
    role: str
    points: Floats  # (4, K): x, y, low, high
    look: Mapping[str, Any]


@styled
def sweep(
    results: Results, *, y: str = "time", x: str = "size", bounds: Bounds | None = None, guess: Guess | None = None,
    crossover: units.Quantity | None = None, ax: Axes | None = None, finding: str | None = None,
) -> Picture:  # fmt: skip
    """Draw results on logarithmic axes, each kind of evidence in its own look.

    Parameters
    ----------
    results : Result, sequence of Result, or mapping of label to these
        Several results of one label form one series. The first five series are drawn in the look of their kind,
        the others grey; the second line of a kind and those after it have a colour and a dash of their own.
    y, x : str
        What the axes show: "time" [s] or "busbw" [B/s] against "size" [B] or "ranks" [1].
    bounds : mapping of label to Result or quantity, optional
        Grey dotted lines: a bound for each size, or one rate or time. [s or B/s]
    guess : pair of quantities, optional
        The reader's guess, a green band. [s or B/s]
    crossover : quantity, optional
        Size, or number of ranks, at which two lines change places. [B or 1]
    ax, finding : optional
        Where to draw, and the sentence above the picture.

    Raises
    ------
    ValueError
        If there is nothing to draw, or ``x`` or ``y`` is unknown.
    """
    for name, value, known in (("y", y, list(Y)), ("x", x, list(X))):
        if value not in known:
            msg = f"{name} must be one of {', '.join(known)}, got {value!r}"
            raise ValueError(msg)
    put, (_, show, quantity) = X[x][1], Y[y]
    groups = by_label(results, x)
    series = collect(groups, bounds or {}, x, y)
    own, ax = ax is None, canvas(ax, 4.0 + 0.3 * max(0, min(len(groups), _MOST + 1) + len(bounds or {}) - 7))
    band = guess_of(guess, quantity)
    if band:
        ax.axhspan(*band, color=ROLES["guess"].colour, alpha=0.25, lw=0, zorder=0)
    _frame(ax, series, band, x, y)
    for s in reversed(series):
        _draw(ax, s)
    _labels(ax, series, band)
    said = told(series, x, y)
    if band:
        said.append(text("view.guessed", low=show(band[0]), high=show(band[1])))
    if crossover is not None:
        at = units.size(crossover, "crossover") if x == "size" else float(crossover)
        ax.axvline(at, color=GREY, lw=1.2, ls="--", zorder=0)
        # The title of the vertical axis stands above the left part; there the label goes to the foot of the line.
        left = np.interp(np.log(at), np.log(ax.get_xlim()), (0, 1)) < 0.7
        height, side = (0.03, "left") if left else (1.015, "center")
        ax.annotate(" " + text("sweep.change", at=put(at)), (at, height), xycoords=("data", "axes fraction"), ha=side)
        said.append(text("sweep.crossed", at=put(at)))
    return finish(ax, own, finding, said, table_of(series, x, y), _caption(groups))


def told(series: Sequence[Series], x: str, y: str) -> list[str]:
    """Return a clause for each of the first series: its value at both ends."""
    out = []
    for s in [s for s in series if s.role != "bound"][:_MOST]:
        ends = s.points[:2, :: max(1, s.points.shape[1] - 1)].T
        at = [text("sweep.at", value=Y[y][1](v), x=X[x][1](a)) for a, v in ends]
        out.append(text(f"sweep.{y}", label=s.label, list=text("word.and").join(at)))
    return out


def by_label(results: Results, x: str) -> dict[str, list[Result]]:
    """Return label -> results; one without a label is named by its algorithm or system and how it came about."""
    if isinstance(results, Mapping):
        return {str(k): [v] if isinstance(v, Result) else list(v) for k, v in results.items()}
    out: dict[str, list[Result]] = {}
    for r in [results] if isinstance(results, Result) else results:
        named = [str(r.asked[k]) for k in ("label", "algorithm", "algo", "system") if r.asked.get(k)]
        label = f"{(named or [r.what.replace('_', '-')])[0]} ({HERE.get(r.obtained, r.obtained)})"
        more = [label, *(f"{label}, {extra}" for extra in (*named[1:], f"{r.n_ranks} ranks", len(out) + 1))]
        # Over ranks the results of one label are one series; over sizes each is its own.
        out.setdefault(label if x == "ranks" else next(m for m in more if m not in out), []).append(r)
    return out


def collect(groups: Mapping[str, list[Result]], bounds: Bounds, x: str, y: str) -> list[Series]:
    """Return the series, with what a logarithmic axis can show in order of x, and the bounds."""
    out: list[Series] = []
    for label, members in groups.items():
        points = np.concatenate([np.empty((4, 0)), *(_points(r, x, y) for r in members)], axis=1)
        points = points[:, np.all(points[:2] > 0, axis=0)]
        points = points[:, np.argsort(points[0], kind="stable")]
        if points.size and len(out) < _MOST:
            role = members[0].obtained
            kind = ROLES.get(role, ROLES["published"])
            look = kind.look(sum(ROLES.get(s.role, ROLES["published"]) is kind for s in out))
            out.append(Series(label, role, points, look))
        elif points.size:
            points[2:] = np.nan
            out.append(Series(label, "other", points, {"color": GREY, "lw": 1.0, "alpha": 0.6}))
    if not out:
        msg = f"nothing to draw: results has no point with {x} > 0 and {y} > 0; one rank has busbw 0, draw its time"
        raise ValueError(msg)
    across = np.concatenate([s.points[0] for s in out])
    for label, value in bounds.items():
        points = _points(value, x, y) if isinstance(value, Result) else np.empty((4, 2))
        if not isinstance(value, Result):
            points[0] = across.min(), across.max()
            points[1] = units.parse(value, Y[y][2], f"bounds[{label!r}]")
        points[2:] = np.nan
        out.append(Series(label, "bound", points, ROLES["bound"].look()))
    return out


def _points(r: Result, x: str, y: str) -> Floats:
    """Return x, y, low, high; low and high are NaN where the result has no spread."""
    at = r.size if x == "size" else np.full(r.size.size, float(r.n_ranks))
    low, high = (np.full(r.size.size, np.nan) if v is None else v for v in (r.low, r.high))
    moved = r.busbw * r.time
    return np.stack([at, r.time, low, high] if y == "time" else [at, r.busbw, moved / high, moved / low])


def _draw(ax: Axes, s: Series) -> None:
    x, y, low, high = s.points
    marks, colour = "marker" in s.look, s.look["color"]
    ax.plot(x, y, label=s.label, zorder=4 if marks else 3, **s.look)
    if np.isfinite(low).any() and marks:
        ax.vlines(x, low, high, color=colour, lw=1.5, zorder=3)
    elif np.isfinite(low).any():
        ax.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)


def _frame(ax: Axes, series: Sequence[Series], band: tuple[float, ...], x: str, y: str) -> None:
    """Set logarithmic axes with ticks that people read, and their titles."""
    across, up, x_ticks, y_ticks = axes_of(series, band, x, y)
    ax.set(xscale="log", yscale="log", xlim=across, ylim=up)
    ticks(ax.xaxis, x_ticks, lambda v: X[x][1](v).removesuffix(" ranks"))
    ticks(ax.yaxis, y_ticks, Y[y][1])
    ax.grid(axis="y")
    ax.set_xlabel(text(f"sweep.axis_{x}"), loc="right")
    ax.annotate(
        text(f"sweep.axis_{y}"), (0, 1), (0, 6), xycoords="axes fraction", textcoords="offset points", fontsize=9
    )


def axes_of(
    series: Sequence[Series], band: tuple[float, ...], x: str, y: str
) -> tuple[tuple[float, float], tuple[float, float], list[float], list[float]]:
    """Return the ends of both axes and the places of their ticks, which lie between the ends."""
    # A bound that depends on the size may lie far off; it does not stretch the axis.
    seen = [s.points[1:].ravel() for s in series if s.role != "bound" or s.points[1, 0] == s.points[1, -1]]
    across = np.unique(np.concatenate([s.points[0] for s in series]))
    ends, up = _padded(across), _padded(np.concatenate([*seen, band]))
    low, high = np.log2(ends)
    step = next(s for s in (1, 2, 5, 10, 20, 40) if (high - low) / s < 8)
    few = x == "ranks" and across.size <= 8
    doubled = across if few else 2.0 ** np.arange(np.ceil(low / step) * step, high, step)
    parts = [1, 2, 5] if np.ptp(np.log10(up)) < 2.2 else [1]
    tens = np.outer(10.0 ** np.arange(-12, 18), parts).ravel()
    return ends, up, doubled.tolist(), tens[(tens >= up[0]) & (tens <= up[1])].tolist()


def crossover(one: Floats, other: Floats) -> float | None:
    """Return the first x at which two curves (2, K) of x and y change places, straight between points on log axes."""
    low, high = max(one[0, 0], other[0, 0]), min(one[0, -1], other[0, -1])
    at = np.unique(np.concatenate([one[0], other[0]]))
    at = np.log(at[(at >= low) & (at <= high)])
    gap = [np.interp(at, np.log(c[0]), np.log(c[1])) for c in (one, other)]
    ahead = gap[0] - gap[1]
    turn = np.flatnonzero(ahead[:-1] * ahead[1:] < 0)
    if not turn.size:
        return None
    i = turn[0]
    return float(np.exp(at[i] + (at[i + 1] - at[i]) * ahead[i] / (ahead[i] - ahead[i + 1])))


def _padded(values: Floats) -> tuple[float, float]:
    values = values[np.isfinite(values) & (values > 0)]
    low, high = float(values.min()), float(values.max())
    pad = (high / low) ** 0.04 if high > low else 1.6
    return low / pad, high * pad


def labelled(series: Sequence[Series]) -> list[tuple[str, Series]]:
    """Return each label with its series; the grey ones have one label, with the last of them."""
    others = [s for s in series if s.role == "other"]
    last = [(text("sweep.others", n=len(others)), s) for s in others[-1:]]
    return [*((s.label, s) for s in series if s.role != "other"), *last]


def _labels(ax: Axes, series: Sequence[Series], band: tuple[float, ...]) -> None:
    """Write each label in the right margin at the height where its series ends, with a sample of its look."""
    named = [(textwrap.fill(label, 26), s.points[1, -1], s.look) for label, s in labelled(series)]
    if band:
        green = {"color": ROLES["guess"].colour, "alpha": 0.4, "lw": 9.0, "solid_capstyle": "butt"}
        named.append((text("view.guess"), float(np.sqrt(band[0] * band[1])), green))
    ax.figure.canvas.figure.draw_without_rendering()  # settles the height of the axes
    wanted = np.interp(np.log([value for _, value, _ in named]), np.log(ax.get_ylim()), (0, 1))
    line = 12.0 / (ax.get_window_extent().height / ax.figure.dpi * 72)
    gap = line * max(1 + name.count("\n") for name, _, _ in named) * 1.05
    for (name, _, look), height in zip(named, spread(wanted, gap, line / 2, 1 - line / 2), strict=True):
        ax.plot([1.02, 1.05, 1.08], [height] * 3, transform=ax.transAxes, clip_on=False, markevery=[1], **look)
        ax.annotate(name, (1.095, height), xycoords="axes fraction", va="center", fontsize=9)


def table_of(series: Sequence[Series], x: str, y: str) -> Table:
    """Return the numbers of all series."""
    points = np.concatenate([s.points for s in series], axis=1)
    label = np.repeat([s.label for s in series], [s.points.shape[1] for s in series])
    across = points[0] if x == "size" else points[0].astype(np.int64)
    names = [f"{name} [{Y[y][0]}]" for name in (y, "low", "high")]
    return Table({"series": label, X[x][0]: across, **dict(zip(names, points[1:], strict=True))})


def _caption(groups: Mapping[str, list[Result]]) -> str:
    """Return the sources of what was published and the notes of what was measured."""
    members = [r for group in groups.values() for r in group]
    said = [f"{HERE.get(r.obtained, r.obtained)}: {r.source}" for r in members if r.source]
    notes = [f"{label}: {note.rstrip('.')}" for label, group in groups.items() for r in group for note in r.notes]
    return " ".join(f"{words[:1].upper()}{words[1:]}." for words in dict.fromkeys([*said, *notes]))
