"""Sweeps: time or bus bandwidth against size or ranks, for predicted, measured and published results."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.core import Floats, Result
from fabriclab.texts import text
from fabriclab.views.page import COLOURS, HERE, ROLES, Axes, Picture, Table, spread
from fabriclab.views.rulers import fitted
from fabriclab.views.scene import (
    COLOUR,
    WIDTH,
    Layer,
    Scene,
    lines,
    log_axis,
    printed,
    texts,
    texts_at,
    tick_layers,
)

Results = Result | Sequence[Result] | Mapping[str, Result | Sequence[Result]]
Bounds = Mapping[str, units.Quantity]
Ends = tuple[float, float]
_MOST = 5
_LEFT, _RIGHT, _TOP, _ROW = 70.0, 500.0, 24.0, 17.0  # [px]
# Column or unit of an axis, and how a value is written; of y also its quantity.
X = {
    "size": ("size [B]", units.format_size),
    "ranks": ("ranks", lambda v: f"{v:,.0f} ranks"),
    "slots": ("slots", lambda v: f"{v:,.0f}"),
    "scale": ("scale", lambda v: f"2^{np.log2(v):.0f}"),
    "kelvin": ("change [K]", lambda v: f"{v:.0f} K"),
    "distance": ("distance [m]", lambda v: f"{v:.3g} m"),
    "elements": ("elements", "{:,.0f}".format),
    "servers": ("servers per rack", "{:.0f}".format),
    "noise": ("noise [mrad]", "{:.2g}".format),
}
Y = {
    "time": ("s", units.format_time, "time"),
    "busbw": ("B/s", units.format_rate, "rate"),
    "rate": ("B/s", units.format_rate, "rate"),
    "carried": ("Gb/s", lambda v: f"{v:.3g} Gb/s", ""),
    "power": ("kW", lambda v: f"{v:.3g} kW", ""),
    **dict.fromkeys(("error", "drift", "off"), ("", "{:.2g}".format, "")),
}


class Series(NamedTuple):
    """One line or one set of dots."""

    label: str
    role: str
    points: Floats  # (4, K): x, y, low, high
    look: Mapping[str, float]  # fields of the layer
    dots: bool = False  # else it is a line


def sweep(
    results: Results,
    *,
    y: str = "time",
    x: str = "size",
    bounds: Bounds | None = None,
    ax: Axes | None = None,
    finding: str | None = None,
) -> Picture:
    """Draw results on logarithmic axes, each kind of evidence in its own look.

    Parameters
    ----------
    results : Result, sequence of Result, or mapping of label to these
        Several results of one label form one series. The first five series are drawn in the look of their kind,
        the others grey; the second line of a kind and those after it have a colour and a dash of their own.
    y, x : str
        What the axes show: "time" [s] or "busbw" [B/s] against "size" [B] or "ranks" [1].
    bounds : mapping of label to quantity, optional
        Grey dotted lines at a rate or time. [s or B/s]
    ax, finding : optional
        Where to draw, and the sentence above the picture.

    Raises
    ------
    ValueError
        If there is nothing to draw, or ``x`` or ``y`` is unknown.
    """
    for name, value, known in (("y", y, ("time", "busbw")), ("x", x, ("size", "ranks"))):
        units.choice(value, name, known)
    groups = by_label(results, x)
    return printed(
        replace(sweep_scene(groups, y, x, bounds), caption=_caption(groups)), ax=ax, finding=finding
    )


def sweep_scene(
    results: Results,
    y: str = "time",
    x: str = "size",
    bounds: Bounds | None = None,
    said: str = "",
    cross: bool = False,
) -> Scene:
    """Return one picture of sweeps; ``said`` replaces its sentence, ``cross`` marks where two predicted lines cross."""
    try:
        series = collect(by_label(results, x), bounds or {}, x, y)
    except ValueError as error:
        return Scene(str(error), wrong=True)
    return _drawn(series, x, y, said, cross)


def curve(
    words: str,
    x: str,
    y: str,
    at: Floats,
    values: Sequence[ArrayLike],
    said: str,
    ends: Ends | None = None,
) -> Scene:
    """Return one picture of a curve, of its last point and of a bound, which ``words`` names; x, then y and bound.

    With ``ends`` the axis of y stays where it is when a control moves, so that more stands higher; from 0 it is even.
    """
    line, bound = (np.array([at, v, *np.full((2, at.size), np.nan)]) for v in values)
    series = [
        Series(text(f"{words}.line"), "predicted", line[:, :-1], _look("predicted", 0)),
        Series(
            text(f"{words}.here"),
            "predicted",
            line[:, -1:],
            _look("predicted", 0) | {"shape": 0.0},
            True,
        ),
        Series(text(f"{words}.bound"), "bound", bound[:, :-1], _look("bound", 0) | {"dash": 2.0}),
    ]
    return _drawn(series, x, y, said, ends=ends)


def _drawn(
    series: Sequence[Series],
    x: str,
    y: str,
    said: str,
    cross: bool = False,
    ends: Ends | None = None,
) -> Scene:
    xs, ys, x_ticks, y_ticks = axes_of(series, x, ends)
    words, rows = told(series, x, y), list[tuple[str, Series | None, float]]()
    for label, s in labelled(series):
        # A long label takes two rows; the sample of its series stands before the first.
        first, *more = textwrap.wrap(label, int((WIDTH - _RIGHT - 32) / 6.72)) or [label]
        rest = [" ".join(more)] if more else []
        rows += [(line, None if i else s, s.points[1, -1]) for i, line in enumerate([first, *rest])]
    bottom = max(250.0, _TOP + 6 + _ROW * len(rows))
    to_x, to_y = (log_axis(*at) for at in ((*xs, _LEFT, _RIGHT), (*ys, bottom, _TOP)))
    put, show = X[x][1], Y[y][1]
    layers = tick_layers(
        np.array(x_ticks), to_x, lambda v: put(v).removesuffix(" ranks"), (_TOP, bottom), True
    )
    layers |= tick_layers(np.array(y_ticks), to_y, show, (_LEFT, _RIGHT), False)
    layers["axes"] = texts_at(
        (_RIGHT, bottom + 30, text(f"sweep.axis_{x}"), 2), (_LEFT, 8, text(f"sweep.axis_{y}"), 0)
    )
    strokes = [
        (s, np.stack([to_x(s.points[0]), to_y(s.points[1])], axis=1))
        for s in series
        if not s.dots and s.points.shape[1] > 1
    ]
    layers["lines"] = _lines(strokes, names=[(told([s], x, y) or [s.label])[0] for s, _ in strokes])
    spreads = [
        (s, np.stack([to_x(p[[0, 0]]), to_y(p[2:])], 1))
        for s in series
        for p in s.points.T
        if p[2] < p[3]
    ]
    layers["spread"] = _lines(spreads, dash=0.0, width=1.0)
    dots = [(s, *p) for s in series if s.dots for p in s.points[:2].T]
    layers["dots"] = _dots(
        [(s, np.array([to_x(a), to_y(b)])) for s, a, b in dots],
        names=[f"{s.label}, {put(a)}: {show(b)}" for s, a, b in dots],
    )
    # Labels are in ink, which is read on every page; a sample beside each has its colour.
    height = spread(np.clip(to_y([wish for *_, wish in rows]), _TOP, bottom), _ROW, _TOP, bottom)
    left, beside = _RIGHT + 32, [(s, h) for (_, s, _), h in zip(rows, height, strict=True) if s]
    layers["samples"] = _lines(
        [(s, np.array([[left - 30, h], [left - 6, h]])) for s, h in beside if not s.dots]
    )
    layers["sample dots"] = _dots([(s, np.array([left - 18, h])) for s, h in beside if s.dots])
    layers["labels"] = texts(left, height, [fitted(line, WIDTH - left) for line, *_ in rows])
    predicted = [s.points[:2] for s in series if s.role == "predicted"][:2]
    at = crossover(*predicted) if cross and len(predicted) == 2 else None
    if at:
        place, right = float(to_x(at)), bool(to_x(at) > (_LEFT + _RIGHT) / 2)
        layers["cross line"] = lines(
            [np.array([[place, _TOP], [place, bottom]])], width=1.5, dash=1.0, colour=COLOUR["grey"]
        )
        # Lines rise to the right: there is room below them on the right of the mark, and above them on its left.
        layers["crossing"] = texts_at(
            (
                place + (-5 if right else 5),
                _TOP + 9 if right else bottom - 9,
                text("sweep.change", at=put(at)),
                2 * right,
            )
        )
        words.append(text("sweep.crossed", at=put(at)))
    alt = "; ".join([f"{words[0][:1].upper()}{words[0][1:]}", *words[1:]])
    points = np.concatenate([s.points for s in series], axis=1)
    whose = np.repeat([s.label for s in series], [s.points.shape[1] for s in series])
    across = points[0] if x in ("size", "distance", "noise") else points[0].astype(np.int64)
    names = [f"{name} [{Y[y][0]}]".removesuffix(" []") for name in (y, "low", "high")]
    table = Table({"series": whose, X[x][0]: across, **dict(zip(names, points[1:], strict=True))})
    return Scene(said or f"{words[0]}.", table, layers, bottom + 42, alt)


def told(series: Sequence[Series], x: str, y: str) -> list[str]:
    """Return a clause for each of the first series: its value at both ends."""
    ends = [
        (s.label, s.points[:2, :: max(1, s.points.shape[1] - 1)].T)
        for s in series
        if s.role != "bound"
    ]
    return [
        text(
            f"sweep.{y}",
            label=label,
            list=text("word.and").join(
                text("sweep.at", value=Y[y][1](v), x=X[x][1](a)) for a, v in points
            ),
        )
        for label, points in ends[:_MOST]
    ]


def by_label(results: Results, x: str) -> dict[str, list[Result]]:
    """Return label -> results; one without a label is named by its algorithm or system and how it came about."""
    if isinstance(results, Mapping):
        return {str(k): [v] if isinstance(v, Result) else list(v) for k, v in results.items()}
    out: dict[str, list[Result]] = {}
    for r in [results] if isinstance(results, Result) else results:
        named = [
            str(r.asked[k]) for k in ("label", "algorithm", "algo", "system") if r.asked.get(k)
        ]
        label = f"{(named or [r.what.replace('_', '-')])[0]} ({HERE.get(r.obtained, r.obtained)})"
        more = [
            label,
            *(f"{label}, {extra}" for extra in (*named[1:], f"{r.n_ranks} ranks", len(out) + 1)),
        ]
        # Over ranks the results of one label are one series; over sizes each is its own.
        out.setdefault(label if x == "ranks" else next(m for m in more if m not in out), []).append(
            r
        )
    return out


def collect(groups: Mapping[str, list[Result]], bounds: Bounds, x: str, y: str) -> list[Series]:
    """Return the series, with what a logarithmic axis can show in order of x, and the bounds."""
    out: list[Series] = []
    for label, members in groups.items():
        points = np.concatenate([np.empty((4, 0)), *(_points(r, x, y) for r in members)], axis=1)
        points = points[:, np.all(points[:2] > 0, axis=0)]
        points = points[:, np.argsort(points[0], kind="stable")]
        if points.size and len(out) < _MOST:
            role = members[0].obtained if members[0].obtained in ROLES else "published"
            look = _look(role, sum(s.role == role for s in out))
            out.append(Series(label, role, points, look, "shape" in look))
        elif points.size:
            points[2:] = np.nan
            out.append(
                Series(
                    label, "other", points, {"colour": COLOUR["grey"], "width": 1.0, "alpha": 0.6}
                )
            )
    if not out:
        msg = f"nothing to draw: results has no point with {x} > 0 and {y} > 0; one rank has busbw 0, draw its time"
        raise ValueError(msg)
    across = np.concatenate([s.points[0] for s in out])
    for label, value in bounds.items():
        at = units.parse(value, Y[y][2], f"bounds[{label!r}]")
        points = np.array(
            [[across.min(), across.max()], [at, at], [np.nan, np.nan], [np.nan, np.nan]]
        )
        out.append(Series(label, "bound", points, {"colour": COLOUR["grey"], "dash": 2.0}))
    return out


def _points(r: Result, x: str, y: str) -> Floats:
    """Return x, y, low, high; low and high are NaN where the result has no spread."""
    at = r.size if x == "size" else np.full(r.size.size, float(r.n_ranks))
    low, high = (np.full(r.size.size, np.nan) if v is None else v for v in (r.low, r.high))
    moved = r.busbw * r.time
    return np.stack(
        [at, r.time, low, high] if y == "time" else [at, r.busbw, moved / high, moved / low]
    )


def _look(kind: str, nth: int) -> dict[str, float]:
    """Return the look of the nth series of a kind: dots change their shape, lines their colour and dash."""
    nth, colour = nth % (len(COLOURS) + 1), COLOUR[kind]
    if not ROLES[kind].marker:
        return {
            "colour": COLOUR[f"other{nth - 1}"] if nth else colour,
            "dash": (0.0, 1.0, 3.0, 4.0, 5.0)[nth],
        }
    shapes = (0.0, 3.0, 4.0, 5.0, 6.0) if ROLES[kind].filled else (1.0, 7.0, 8.0, 9.0, 10.0)
    return {"colour": colour, "shape": shapes[nth]}


def axes_of(
    series: Sequence[Series], x: str, up: Ends | None = None
) -> tuple[Ends, Ends, list[float], list[float]]:
    """Return the ends of both axes, of y ``up`` unless the points decide, and the ticks, which lie between the ends."""
    across, *seen = np.concatenate([s.points for s in series], axis=1)
    across = np.unique(across)
    ends, up = _padded(across), up or _padded(np.concatenate(seen))
    low, high = np.log2(ends)
    step = next(s for s in (1, 2, 5, 10, 20, 40) if (high - low) / s < 8)
    few = x == "ranks" and across.size <= 8
    doubled = across if few else 2.0 ** np.arange(np.ceil(low / step) * step, high, step)
    span = np.ptp(np.log10(up)) if up[0] else 0.0
    tens = np.outer(10.0 ** np.arange(-12, 18), [1, 2, 5] if span < 2.2 else [1]).ravel()
    if span < 0.7:  # so few of these would lie between the ends that nobody could read a value
        tens = np.array(MaxNLocator(5).tick_values(*up))
    return ends, up, doubled.tolist(), tens[(tens >= up[0]) & (tens <= up[1])].tolist()


def crossover(one: Floats, other: Floats) -> float | None:
    """Return the first x at which two curves (2, K) of x and y change places, straight between points on log axes."""
    at = np.log(np.unique(np.concatenate([one[0], other[0]])))
    # NaN beyond ends
    here, there = (np.interp(at, np.log(c[0]), np.log(c[1]), np.nan, np.nan) for c in (one, other))
    ahead = here - there
    turn = np.flatnonzero(ahead[:-1] * ahead[1:] < 0)
    if not turn.size:
        return None
    i = turn[0]
    return float(
        f"{np.exp(at[i] + (at[i + 1] - at[i]) * ahead[i] / (ahead[i] - ahead[i + 1])):.2g}"
    )


def _padded(values: Floats) -> Ends:
    values = values[np.isfinite(values) & (values > 0)]
    low, high = float(values.min()), float(values.max())
    pad = (high / low) ** 0.04 if high > low else 1.6
    return low / pad, high * pad


def labelled(series: Sequence[Series]) -> list[tuple[str, Series]]:
    """Return each label with its series; the grey ones have one label, with the last of them."""
    others = [s for s in series if s.role == "other"]
    out = [(s.label, s) for s in series if s.role != "other"]
    return out + [(text("sweep.others", n=len(others)), s) for s in others[-1:]]


def _lines(paths: Sequence[tuple[Series, Floats]], **fields: Any) -> Layer:
    """Return lines in the looks of their series."""
    looks = {
        k: np.array([s.look.get(k, v) for s, _ in paths])
        for k, v in (("colour", 0.0), ("dash", 0.0), ("width", 2.0), ("alpha", 1.0))
    }
    return lines([path for _, path in paths], **{**looks, **fields})


def _dots(places: Sequence[tuple[Series, Floats]], **fields: Any) -> Layer:
    """Return dots in the looks of their series."""
    x, y = np.array([place for _, place in places]).reshape(-1, 2).T
    looks = {k: np.array([s.look[k] for s, _ in places]) for k in ("colour", "shape")}
    return Layer("dots", {"x": x, "y": y, **looks, **fields})


def _caption(groups: Mapping[str, list[Result]]) -> str:
    """Return the sources of what was published and the notes of what was measured."""
    members = [r for group in groups.values() for r in group]
    said = [f"{HERE.get(r.obtained, r.obtained)}: {r.source}" for r in members if r.source]
    notes = [
        f"{label}: {note.rstrip('.')}"
        for label, group in groups.items()
        for r in group
        for note in r.notes
    ]
    return " ".join(f"{words[:1].upper()}{words[1:]}." for words in dict.fromkeys([*said, *notes]))
