"""Logarithmic scales: rates measured here beside links of the catalog, and guesses divided by what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from fabriclab import units
from fabriclab.catalog import Comparison
from fabriclab.core import Result
from fabriclab.texts import text
from fabriclab.views.page import HERE, Axes, Picture, Table, three
from fabriclab.views.scene import (
    COLOUR,
    Layer,
    Scene,
    boxes,
    lines,
    log_axis,
    printed,
    texts,
    texts_at,
    tick_layers,
)

# rate, name, how it was obtained, rates of its rounds
Mark = tuple[float, str, str, Sequence[float]]


def ruler(
    measured: Mapping[str, Result | units.Quantity],
    links: Mapping[str, units.Quantity] | None = None,
    *,
    ax: Axes | None = None,
    finding: str | None = None,
    caption: str = "",
) -> Picture:
    """Place rates on a logarithmic ruler, the fastest on top.

    Parameters
    ----------
    measured : mapping of label to Result or rate
        Rates measured on this machine: orange, with every round as a small stroke where the result kept them. Of a
        result with several sizes the fastest counts. A stored result is an open circle, with its source below. [B/s]
    links : mapping of label to rate, optional
        Rates of real links, one direction: open circles. [B/s]
    ax, finding : optional
        Where to draw, and the sentence above the picture.
    caption : str
        Where the rates of ``links`` come from.

    Raises
    ------
    ValueError
        If there is no rate, or one that is not plausible.
    """
    origin = [
        f"{k}: {v.source}." for k, v in measured.items() if isinstance(v, Result) and v.source
    ]
    caption = " ".join(filter(None, [caption, *origin]))
    return printed(
        replace(ruler_scene(marks_of(measured, links or {})), caption=caption),
        ax=ax,
        finding=finding,
    )


def comparison(value: Comparison, *, ax: Axes | None = None, finding: str | None = None) -> Picture:
    """Draw compared links: a circle at the encoded rate, strokes at the signalled and the achievable one.

    Raises
    ------
    ValueError
        If no part has an encoded rate.
    """
    names, rates = [part.name for part in value.parts], value.rates
    ends = [[x for x in (reached, wire) if np.isfinite(x)] for wire, _, reached in rates.tolist()]
    both = [
        (rate, name, "catalog", end)
        for rate, name, end in zip(rates[:, 1].tolist(), names, ends, strict=True)
    ]
    if not (marks := [mark for mark in both if np.isfinite(mark[0])]):
        msg = f"value must hold links with an encoded rate, got {', '.join(names)}; "
        raise ValueError(msg + 'try catalog.links.compare("NDR", "nvlink4")')
    columns = dict(
        zip(("signalled [B/s]", "encoded [B/s]", "achievable [B/s]"), rates.T, strict=True)
    )
    quoted = [row[-1] for row in Comparison(value.parts, ("quoted",)).rows()[1:]]
    table = Table({"what": names, **columns, "as quoted": quoted})
    return printed(
        replace(ruler_scene(marks), table=table, caption=text("ruler.compared")),
        ax=ax,
        finding=finding,
    )


def ruler_scene(marks: Sequence[Mark], rate: float | None = None) -> Scene:
    """Return one picture of a ruler, with a link of ``rate`` [B/s] to compare if that is given."""
    yours = text("live.ruler.yours")
    rows = sorted(
        [*marks, *([] if rate is None else [(rate, yours, "chosen", ())])], key=lambda m: -m[0]
    )
    rates = np.array([m[0] for m in rows])
    slider = [1e7, 1e13] * (rate is not None)  # its ends
    reach = np.array([x for m in rows for x in (m[0], *m[3])] + slider)
    low, high = reach.min() / 1.5, reach.max() * 1.5
    x0, x1, row, top = 190.0, 610.0, 24.0, 10.0
    to_x = log_axis(low, high, x0, x1)
    y = top + row * (np.arange(rates.size) + 0.5)
    bottom = top + row * rates.size
    here = {HERE["measured"]: "measured", "chosen": "predicted"}
    key = np.array([COLOUR[here.get(m[2], "ink")] for m in rows])
    decades = 10.0 ** np.arange(np.ceil(np.log10(low)), np.log10(high))
    decades = decades[:: 1 + decades.size // 8]
    layers = tick_layers(decades, to_x, units.format_rate, (top - 4, bottom), True)
    layers["axis"] = texts_at((x1, bottom + 29, text("ruler.axis"), 2))
    layers["bars"] = lines(
        [np.array([[x0, b], [a, b]]) for a, b in zip(to_x(rates), y, strict=True)],
        width=np.where(key != COLOUR["ink"], 5.0, 1.5),
        colour=np.where(key == COLOUR["ink"], COLOUR["grey"], key),
    )
    strokes = [(x, b) for m, b in zip(rows, y, strict=True) for x in to_x(np.array(m[3]))]
    layers["rounds"] = lines([np.array([[x, b - 6], [x, b + 6]]) for x, b in strokes], width=1.2)
    shape = np.where(key == COLOUR["ink"], 1, np.where(key == COLOUR["measured"], 0, 3))
    names, bold = [m[1] for m in rows], np.array([float(m[2] == "chosen") for m in rows])
    times = shown = [units.format_rate(r) for r in rates]
    if rate:
        times = [
            t + f", {_factor(m[0], rate)} {yours}" * (m[2] != "chosen")
            for t, m in zip(shown, rows, strict=True)
        ]
    drag = (
        {"drag": ["rate" * (m[2] == "chosen") for m in rows], "drag_ends": to_x(slider)}
        if slider
        else {}
    )
    layers["dots"] = Layer(
        "dots",
        {
            "x": to_x(rates),
            "y": y,
            "size": 5.0,
            "colour": key,
            "shape": shape,
            "names": names,
            "notes": times,
            **drag,
        },
    )
    layers["names"] = texts(
        x0 - 8, y, [fitted(name, x0 - 8) for name in names], align=2.0, bold=bold
    )
    layers["rates"] = texts(to_x([max([m[0], *m[3]]) for m in rows]) + 10, y, shown)
    if rate is not None:
        mine = [m for m in marks if m[2] == HERE["measured"]] or list(marks)
        said = text(
            "live.ruler.said", rate=rate, factor=_factor(rate, mine[0][0]), other=mine[0][1]
        )
        table = Table({"what": names, "rate [B/s]": rates, "your link / this": rate / rates})
        words = [f"{m[1]}: {note}" for m, note in zip(rows, times, strict=True) if m[2] != "chosen"]
        return Scene(said, table, layers, bottom + 40, f"{said} " + "; ".join(words))
    slowest, fastest = ([pick(m[3], default=np.nan) for m in rows] for pick in (min, max))
    table = Table(
        {
            "what": names,
            "obtained": [m[2] for m in rows],
            "rate [B/s]": rates,
            "slowest round [B/s]": slowest,
            "fastest round [B/s]": fastest,
        }
    )
    words = _said(rows, marks[0])
    words[0] = words[0][:1].upper() + words[0][1:]
    return Scene(words[0], table, layers, bottom + 40, "; ".join(words))


def _said(rows: Sequence[Mark], first: Mark) -> list[str]:
    """Return the fastest rate beside the first, or beside the slowest where they are the same, then the others."""
    top, other = rows[0], first if first is not rows[0] else rows[-1]
    lead = text("ruler.moves", name=top[1], rate=top[0])
    if other is not top:
        lead += text("ruler.against", factor=three(top[0] / other[0]), name=other[1], rate=other[0])
    return [
        lead,
        *(f"{m[1]} {units.format_rate(m[0])}" for m in rows if m is not top and m is not other),
    ]


def marks_of(
    measured: Mapping[str, Result | units.Quantity], links: Mapping[str, units.Quantity]
) -> list[Mark]:
    """Return all rates with their names, or refuse to draw nothing."""
    marks = [_mark(name, value) for name, value in measured.items()]
    marks += [(units.rate(value, name), name, "catalog", ()) for name, value in links.items()]
    if not marks:
        raise ValueError('measured must hold at least one rate, such as {"copy": "10 GB/s"}')
    return marks


def _mark(name: str, value: Result | units.Quantity) -> Mark:
    if not isinstance(value, Result):
        return units.rate(value, name), name, HERE["measured"], ()
    best = int(np.argmax(value.busbw))
    rate = float(value.busbw[best])
    if not 0 < rate < np.inf:
        raise ValueError(
            f"{name} must have a rate above 0, got {rate:g} B/s; one rank alone has no bus bandwidth"
        )
    rounds = (
        () if value.samples is None else (rate * value.time[best] / value.samples[best]).tolist()
    )
    return rate, name, HERE.get(value.obtained, value.obtained), rounds


def fitted(name: str, room: float) -> str:
    """Return a name that fits into ``room`` [px] in letters of 12 px, which are a quarter larger on a narrow page."""
    most = int(room / 7.5)
    return name if len(name) <= most else f"{name[: most - 1].rstrip()}…"


def _factor(a: float, b: float) -> str:
    """Return how many times as fast ``a`` is as ``b``."""
    if max(a / b, b / a) < 1.05:
        return text("live.ruler.equal")
    return text(
        "live.ruler.faster" if a > b else "live.ruler.slower", factor=three(max(a / b, b / a))
    )


def calibration(
    names: Sequence[str],
    ratio: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    finding: str | None = None,
) -> Picture:
    """Draw a row per guess, the first on top: a dot for the guess, a bar for its range, a line where the truth is.

    Parameters
    ----------
    names : sequence of str
        What was guessed. (N,)
    ratio, low, high : array_like
        Best guess and ends of its range, divided by what came out; NaN for an end that was not given. (N,) [> 0]
    finding : str, optional
        The sentence above the picture.

    Raises
    ------
    ValueError
        If there is nothing to draw, or a number is not finite and above 0.
    """
    return printed(calibration_scene(names, ratio, low, high), finding=finding)


def calibration_scene(
    names: Sequence[str], ratio: ArrayLike, low: ArrayLike, high: ArrayLike
) -> Scene:
    """Return the picture; see `calibration`."""
    values = np.array([ratio, low, high], dtype=np.float64)  # (3, N)
    given = values[np.isfinite(values)]
    if (
        values.shape != (3, len(names))
        or not np.isfinite(values[0]).all()
        or not given.size
        or given.min() <= 0
    ):
        msg = f"ratio, low and high must hold one number above 0 for each of {list(names)}, got {values.tolist()}"
        raise ValueError(msg)
    left, right, top, row = 260.0, 620.0, 22.0, 27.0  # [px]
    least, most = min(0.2, given.min()), max(5.0, given.max())
    to_x = log_axis(least / 2, 2 * most, left, right)
    y, bottom = top + row * (np.arange(len(names)) + 0.5), top + row * len(names)
    tens = 10.0 ** np.arange(-12, 13, 1 + int((np.log10(most / least) + 1) / 8))
    shown = tens[(tens > least / 2) & (tens < 2 * most)]
    near, truth, far = (float(to_x(v)) for v in (0.5, 1.0, 2.0))
    ends = [
        (h, path) for h, path in zip(y, to_x(values[1:].T), strict=True) if np.isfinite(path).all()
    ]
    layers = {
        "near": boxes(
            near, top, far - near, bottom - top, colour=COLOUR["grey"], alpha=0.15, round=0.0
        ),
        **tick_layers(shown, to_x, lambda v: f"{v:g}", (top, bottom), True),
        "truth": lines([np.array([[truth, top], [truth, bottom]])]),
        "ranges": lines(
            [np.stack([x, [h, h]], axis=1) for h, x in ends],
            width=7.0,
            alpha=0.4,
            colour=COLOUR["guess"],
        ),
        "dots": Layer(
            "dots", {"x": to_x(values[0]), "y": y, "size": 5.0, "colour": COLOUR["guess"]}
        ),
        "names": texts(left - 8, y, [fitted(name, left - 8) for name in names], align=2.0),
        "ratios": texts(right + 8, y, [three(best) for best in values[0]]),
        "words": texts_at(
            (truth, 12.0, text("progress.band"), 1),
            (right, bottom + 29, text("progress.guesses"), 2),
        ),
    }
    close = int(np.sum((values[0] >= 0.5) & (values[0] <= 2.0)))
    table = Table(
        {
            "what": names,
            **dict(zip(("guess / truth", "low / truth", "high / truth"), values, strict=True)),
        }
    )
    return Scene(text("progress.near", near=close, n=len(names)), table, layers, bottom + 40)
