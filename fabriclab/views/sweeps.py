"""Sweeps: time or bus bandwidth against size or ranks, for predicted, measured and published results."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Result, bus_factor
from fabriclab.views.page import Picture, canvas, finish, plain, positive_pair, spread, styled
from fabriclab.views.palette import DASHES, GREY, HERE, INK, MARKERS, ROLES
from fabriclab.views.tables import Table

__all__ = ["sweep"]

Floats = NDArray[np.float64]
Results = Result | Sequence[Result] | Mapping[str, Result | Sequence[Result]]
Format = Callable[[float], str]
_Y: Final = {
    "time": ("time [s]", "takes", units.format_time),
    "busbw": ("bus bandwidth [B/s]", "reaches", units.format_rate),
}
_MOST: Final = 5


@dataclass(frozen=True, eq=False)
class _Series:
    """Points of one label, with their spread, and the look of its line or marks."""

    label: str
    role: str
    points: Floats  # (4, K): x, y, low, high
    look: Mapping[str, Any]

    @property
    def x(self) -> Floats:
        column: Floats = self.points[0]
        return column

    @property
    def y(self) -> Floats:
        column: Floats = self.points[1]
        return column


@styled
def sweep(
    results: Results, *, y: str = "time", x: str = "size", bounds: Mapping[str, Result | units.Quantity] | None = None,
    guess: tuple[units.Quantity, units.Quantity] | None = None, crossover: units.Quantity | None = None,
    ax: Axes | None = None, finding: str | None = None,
) -> Picture:  # fmt: skip
    """Draw results on logarithmic axes, each kind of evidence in its own colour and shape.

    Parameters
    ----------
    results : Result, sequence of Result, or mapping of label to these
        Several results of one label form one series. The first five series are drawn in the colour of their kind,
        the others grey.
    y : {"time", "busbw"}
        What stands on the vertical axis. [s or B/s]
    x : {"size", "ranks"}
        What stands on the horizontal axis. [B or 1]
    bounds : mapping of label to Result or quantity, optional
        Grey dotted lines: a bound for each size, or one rate or time. [s or B/s]
    guess : pair of quantities, optional
        The reader's guess, a green band. [s or B/s]
    crossover : quantity, optional
        Size, or number of ranks, at which two lines change places. [B or 1]
    ax : Axes, optional
        Where to draw; a new picture where left out.
    finding : str, optional
        The sentence above the picture; computed where left out.

    Returns
    -------
    Picture
        With axes, finding, alternative text and table.

    Raises
    ------
    ValueError
        If there is nothing to draw, or ``x`` or ``y`` is unknown.
    """
    for name, value, known in (("y", y, tuple(_Y)), ("x", x, ("size", "ranks"))):
        if value not in known:
            msg = f"{name} must be one of {', '.join(known)}, got {value!r}"
            raise ValueError(msg)
    own, (title, verb, show) = ax is None, _Y[y]
    put = units.format_size if x == "size" else lambda v: f"{v:,.0f} ranks"
    groups = _by_label(results, x)
    series = _collect(groups, x, y)
    series += [_bound(k, v, series, x, y) for k, v in (bounds or {}).items()]
    band = () if guess is None else positive_pair(guess, "rate" if y == "busbw" else "time", "guess")
    ax = canvas(ax, 4.0 + 0.3 * max(0, min(len(groups), _MOST + 1) + len(bounds or {}) - 7))
    for s in reversed(series):
        _draw(ax, s)
    said = [_clause(s, verb, show, put) for s in series if s.role != "bound"][:_MOST]
    if band:
        ax.axhspan(*band, color=ROLES["guess"].colour, alpha=0.25, lw=0, zorder=0)
        said.append(f"the guess was {show(band[0])} to {show(band[1])}")
    _frame(ax, series, band, x, title, show)
    if crossover is not None:
        at = units.size(crossover, "crossover") if x == "size" else float(crossover)
        _crossover(ax, at, put)
        said.append(f"the lines change places at {put(at)}")
    _labels(ax, series, band)
    return finish(ax, own, finding, said, _table(series, x, y, title), _caption(groups))


def _clause(s: _Series, verb: str, show: Format, put: Format) -> str:
    ends = [f"{show(y)} at {put(x)}" for x, y in s.points[:2, sorted({0, s.x.size - 1})].T]
    return f"{s.label} {verb} {' and '.join(ends)}"


def _by_label(results: Results, x: str) -> dict[str, list[Result]]:
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


def _collect(groups: Mapping[str, list[Result]], x: str, y: str) -> list[_Series]:
    """Return the series with their points in order of x; what a logarithmic axis cannot show is left out."""
    out: list[_Series] = []
    seen: dict[str, int] = {}
    for label, members in groups.items():
        if not members:
            continue
        points = np.concatenate([_points(r, x, y) for r in members])
        points = points[np.argsort(points[:, 0], kind="stable")]
        points = points[np.all(points[:, :2] > 0, axis=1)]
        if points.size:
            role = members[0].obtained
            nth = seen[role] = seen.get(role, -1) + 1
            look = _look(role, nth) if len(out) < _MOST else {"color": GREY, "lw": 1.0, "alpha": 0.6}
            out.append(_Series(label, role if len(out) < _MOST else "other", points.T, look))
    if not out:
        msg = f"nothing to draw: results has no point with {x} > 0 and {y} > 0; one rank has busbw 0, draw its time"
        raise ValueError(msg)
    return out


def _points(r: Result, x: str, y: str) -> Floats:
    """Return rows of x, y, low, high; low and high are NaN where the result has no spread."""
    nothing = np.full(r.size.size, np.nan)
    at = r.size if x == "size" else np.full(r.size.size, float(r.n_ranks))
    low, high = (nothing if v is None else v for v in (r.low, r.high))
    if y == "time":
        return np.stack([at, r.time, low, high], axis=1)
    moved = r.size * bus_factor(r.what, r.n_ranks)
    return np.stack([at, r.busbw, moved / high, moved / low], axis=1)


def _bound(label: str, value: Result | units.Quantity, series: list[_Series], x: str, y: str) -> _Series:
    look = {"color": ROLES["bound"].colour, "ls": ROLES["bound"].line, "lw": 2.0}
    if isinstance(value, Result):
        return _Series(label, "bound", _points(value, x, y).T, look)
    level = units.parse(value, "rate" if y == "busbw" else "time", f"bounds[{label!r}]")
    ends = [min(s.x[0] for s in series), max(s.x[-1] for s in series)]
    return _Series(label, "bound", np.array([ends, [level] * 2, [np.nan] * 2, [np.nan] * 2]), look)


def _look(obtained: str, nth: int) -> dict[str, Any]:
    """Return the look of the nth series of one role: the colour stays, the shape changes."""
    role = ROLES.get(obtained, ROLES["published"])
    if not role.marker:
        return {"color": role.colour, "ls": DASHES[nth % len(DASHES)], "lw": 2.0}
    face = role.colour if role.filled else "none"
    edge = {"mec": INK, "mew": 0.7 if role.filled else 1.5}
    return {"color": role.colour, "ls": "", "marker": MARKERS[nth % len(MARKERS)], "ms": 6, "mfc": face, **edge}


def _draw(ax: Axes, s: _Series) -> None:
    x, y, low, high = s.points
    ax.plot(x, y, label=s.label, zorder=4 if s.look.get("marker") else 3, **s.look)
    if s.role in ("other", "bound") or not np.isfinite(low).any():
        return
    if s.look.get("marker"):
        ax.vlines(x, low, high, color=s.look["color"], lw=1.5, zorder=3)
    else:
        ax.fill_between(x, low, high, color=s.look["color"], alpha=0.15, lw=0)


def _frame(ax: Axes, series: list[_Series], band: tuple[float, ...], x: str, title: str, show: Format) -> None:
    """Set logarithmic axes with ticks that people read, and their titles."""
    # A bound that depends on the size may lie far off; it does not stretch the axis.
    seen = [s.points[1:].ravel() for s in series if s.role != "bound" or s.y[0] == s.y[-1]]
    values = np.concatenate([*seen, np.asarray(band, dtype=float)])
    values = values[np.isfinite(values) & (values > 0)]
    across = np.unique(np.concatenate([s.x for s in series]))
    few = x == "ranks" and across.size <= 8
    put: Format = units.format_size if x == "size" else lambda v: f"{v:,.0f}"
    ax.set(xscale="log", yscale="log", xlim=_padded(across), ylim=_padded(values))
    for axis, ticks, text in ((ax.xaxis, across if few else _powers(across), put), (ax.yaxis, _decades(values), show)):
        low, high = axis.get_view_interval()
        inside = [t for t in ticks if low <= t <= high]
        axis.set_ticks(inside, labels=[plain(text(t)) for t in inside])
    ax.minorticks_off()
    ax.grid(axis="y")
    ax.set_xlabel("message size [B]" if x == "size" else "number of ranks", loc="right")
    ax.annotate(title, (0, 1), (0, 6), xycoords="axes fraction", textcoords="offset points", ha="left")


def _padded(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    pad = (high / low) ** 0.04 if high > low else 1.6
    return low / pad, high * pad


def _powers(values: Floats) -> list[float]:
    """Return at most eight powers of two across the values."""
    low, high = np.log2(values.min()), np.log2(values.max())
    step = next((s for s in (1, 2, 5, 10, 20) if (high - low) / s < 7.5), 40)
    return [2.0**e for e in range(int(np.floor(low / step)) * step, int(np.ceil(high)) + step, step)]


def _decades(values: Floats) -> list[float]:
    """Return powers of ten across the values, or 1, 2 and 5 of each where there are few."""
    low, high = np.log10(values.min()), np.log10(values.max())
    parts = (1.0,) if high - low > 2 else (1.0, 2.0, 5.0)
    step = max(1, int((high - low) // 7))
    return [p * 10.0**e for e in range(int(np.floor(low)) - 1, int(np.ceil(high)) + 1, step) for p in parts]


def _crossover(ax: Axes, at: float, put: Format) -> None:
    ax.axvline(at, color=GREY, lw=1.2, ls="--", zorder=0)
    part = (ax.transData + ax.transAxes.inverted()).transform((at, 1.0))[0]
    # The title of the vertical axis stands above the left part; there the label goes to the foot of the line.
    height, side = (1.015, "center") if part > 0.4 else (0.03, "left")
    ax.annotate(f" change at {put(at)}", (part, height), xycoords="axes fraction", ha=side, fontsize=8.5)


def _labels(ax: Axes, series: list[_Series], band: tuple[float, ...]) -> None:
    """Write each label in the right margin at the height where its series ends, with a sample of its look."""
    named = [(textwrap.fill(s.label, 26), s.y[-1], s.look) for s in series if s.role != "other"]
    others = [s for s in series if s.role == "other"]
    if others:
        named.append((f"{len(others)} other{'s' if len(others) > 1 else ''}", others[-1].y[-1], others[0].look))
    if band:
        green = {"color": ROLES["guess"].colour, "alpha": 0.4, "lw": 9.0, "solid_capstyle": "butt"}
        named.append(("your guess", float(np.sqrt(band[0] * band[1])), green))
    to_axes = ax.transData + ax.transAxes.inverted()
    wanted = [to_axes.transform((ax.get_xlim()[1], v))[1] for _, v, _ in named]
    figure = ax.get_figure(root=True)
    figure.draw_without_rendering()  # type: ignore[union-attr]  # settles the height of the axes
    line = 12.0 / (ax.get_window_extent().height / figure.dpi * 72)  # type: ignore[union-attr]
    gap = line * max(1 + text.count("\n") for text, _, _ in named) * 1.05
    for (text, _, look), height in zip(named, spread(wanted, gap, line / 2, 1 - line / 2), strict=True):
        sample = {"transform": ax.transAxes, "clip_on": False, "markevery": [1], **look}
        ax.add_line(Line2D([1.02, 1.05, 1.08], [height] * 3, **sample))
        ax.annotate(text, (1.095, height), xycoords="axes fraction", va="center", fontsize=9)


def _table(series: list[_Series], x: str, y: str, title: str) -> Table:
    unit = title[title.index("[") :]
    across = np.concatenate([s.x for s in series])
    columns: dict[str, Any] = {"series": [s.label for s in series for _ in s.x]}
    columns["size [B]" if x == "size" else "ranks"] = across if x == "size" else across.astype(np.int64)
    points = np.concatenate([s.points for s in series], axis=1)
    columns |= {f"{n} {unit}": v for n, v in zip((y, "low", "high"), points[1:], strict=True) if np.isfinite(v).any()}
    return Table(columns)


def _caption(groups: Mapping[str, list[Result]]) -> str:
    """Return the sources of what was published and the notes of what was measured."""
    members = [r for group in groups.values() for r in group]
    said = [f"{HERE.get(r.obtained, r.obtained)}: {r.source}" for r in members if r.source]
    notes = [note.rstrip(".") for r in members for note in r.notes]
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in dict.fromkeys([*said, *notes]))
