"""Live Fabric view: boxes and cables on rows, coloured by load, tier, rail or failure; a block can be opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fabriclab import units
from fabriclab.core import Fabric, Timeline
from fabriclab.texts import text
from fabriclab.views.fabrics import MOST_NODES, fabric_said, share_of
from fabriclab.views.layout import Lines, Marks, boxes_of, counted, lines_of, marks_of, paths_of
from fabriclab.views.live.controls import MOST_CONTROLS, Choice, Control, name_of
from fabriclab.views.live.scene import COLOUR, WIDTH, Layer, Scene, ink_on, lines, shade
from fabriclab.views.live.widget import Live
from fabriclab.views.tables import Table

_SAYS: Final = {
    "load": "live.fabric.says_load", "tier": "live.fabric.says_tier", "rail": "live.fabric.says_rail",
    "failure": "live.fabric.says_failure",
}  # fmt: skip
MODES: Final = tuple(_SAYS)
_MOST: Final = 4096  # boxes that a browser still redraws in time
_LEFT, _RIGHT, _ROW, _HALF = 176.0, 96.0, 70.0, 12.0
_KEYS: Final = [COLOUR[k] for k in ("predicted", "measured", "guess", "other1", "tint", "failed", "other2", "other3")]


def fabric(
    fabric: Fabric, load: Callable[..., Any] | Any = None, *, colour: str | None = None, layout: str = "tiers",
    open: int | None = None, said: str = "", controls: dict[str, Control] | None = None, **values: Any,
) -> Live:  # fmt: skip
    """Show a fabric that follows controls: hover or walk with the arrow keys to read links and nodes.

    Above 200 nodes each tier is drawn as blocks; Enter or a click opens a block, and closes it again.

    Parameters
    ----------
    fabric : Fabric
        What to show.
    load : callable, Timeline, simulation or array_like, optional
        Mean load of each link as a part of its capacity (L,), or a run from which it follows. A callable takes the
        values of ``controls`` and returns one of these, or a pair (fabric of the same cables, load).
    colour : str, optional
        What the colour of a link says: load, tier, rail or failure, as far as there is any. Where it is not the load,
        links with little load are pale.
    layout : str
        "tiers": rows from the endpoints upwards. "floor": every endpoint one cell, a column for each server.
    open : int, optional
        Lowest node of the block that is open.
    said : str
        The sentence; unless given it names the fullest link.
    controls : dict of str to Slider or Choice
        Controls of ``load``.
    **values
        Where they stand.
    """
    known = dict(controls or {})
    start = {name: c.samples()[0] for name, c in known.items()} | values

    def scene(colour: str, layout: str, open: int | None, **values: Any) -> Scene:
        return fabric_scene(fabric, load(**values) if callable(load) else load, colour, open, said, layout)

    name = name_of(load, "load") if load is not None else ""
    call = f"fl.live.fabric(fl.{fabric!r}{f', {name}' if name else ''}"
    call += (f", controls={known!r}" if known else "") + (f", said={said!r}" if said else "")
    here = {
        "load": load is not None,
        "rail": bool(np.any(fabric.rail > 0)),
        "failure": bool(np.any(fabric.capacity == 0)),
    }
    modes = tuple(mode for mode in MODES if here.get(mode, True))
    own = {
        "colour": (Choice(modes, text("live.fabric.colour")), colour or modes[0]),
        "layout": (Choice(("tiers", "floor"), text("live.fabric.layout")), layout),
    }
    hidden: dict[str, Any] = {"open": open}
    for name, (choice, value) in own.items():
        # What has no other option, or no room, is no control.
        if len(choice.options) > 1 and len(known) < MOST_CONTROLS:
            known[name], start[name] = choice, value
        else:
            hidden[name] = choice.check(value, name)
    return Live(call, scene, known, start, text("live.fabric.title"), hidden=hidden)


def fabric_scene(
    f: Fabric, load: Any = None, colour: str = "load", open: int | None = None, said: str = "", layout: str = "tiers"
) -> Scene:
    """Return one picture of a fabric; see `fabric`."""
    if isinstance(load, tuple):
        f, load = load
    if not f.n_links or not f.n_ranks:
        return Scene(text("live.fabric.empty", links=f.n_links, ends=f.n_ranks), wrong=True)
    run = getattr(load, "timeline", load)
    values = run.utilisation(f.capacity) if isinstance(run, Timeline) else run
    if values is not None and np.isnan(np.asarray(values, dtype=np.float64)).any():
        return Scene(text("live.fabric.nan"), wrong=True)
    share = np.full(f.n_links, np.nan) if values is None else share_of(f, values)
    if layout == "floor":
        return _floor(f, share, colour, said)
    marks = marks_of(f, f.n_nodes > MOST_NODES, open)
    if marks.row.size > _MOST:
        return Scene(text("live.fabric.many", n=f"{marks.row.size:,}"), wrong=True)
    cables = lines_of(f, marks, share)
    foot = 0.32 + 0.36 * (marks.server.max() >= 0) + 0.5 * bool(np.any(marks.row[cables.a] == marks.row[cables.b]))
    low, high = marks.row.min() - foot, marks.row.max() + 0.5
    left, right = float((marks.x - marks.width / 2).min() - 0.3), float((marks.x + marks.width / 2).max() + 0.3)

    def across(x: Any) -> NDArray[np.float64]:
        return np.asarray(_LEFT + (np.asarray(x) - left) * (WIDTH - _LEFT - _RIGHT) / (right - left))

    def down(y: Any) -> NDArray[np.float64]:
        return np.asarray((high - np.asarray(y)) * _ROW)

    table, notes = _table(f, marks, cables)
    paths = [np.stack([across(p[:, 0]), down(p[:, 1])], axis=1) for p in paths_of(marks, cables)]
    width = 1.5 * np.clip(cables.total / max(cables.total[cables.total > 0].min(initial=np.inf), 1.0), 1.0, 40.0) ** 0.4
    # A line is never wider than its box: an open block has narrow ones.
    room = np.minimum(marks.width[cables.a], marks.width[cables.b]) * (WIDTH - _LEFT - _RIGHT) / (right - left)
    width = np.minimum(width, np.maximum(0.9 * room, 1.0))
    names = [f"{marks.names[a]} – {marks.names[b]}" for a, b in zip(cables.a, cables.b, strict=True)]
    x0, x1 = across(marks.x - marks.width / 2), across(marks.x + marks.width / 2)
    box = {"x": x0, "y": down(marks.row) - _HALF, "w": np.maximum(x1 - x0, 1.5), "h": np.full(x0.size, 2 * _HALF)}
    keys = _node_colours(f, marks, colour)
    layers = {"servers": _servers(marks, foot, across, down)} | {
        "case": lines(paths, width=width + 2.5, colour=COLOUR["grey"], alpha=0.6 * (colour == "load")),
        "cables": lines(paths, width=width, colour=_coloured(f, marks, cables, colour), alpha=_strength(cables, colour),
                        dash=2 * (cables.failed == cables.cables), names=names, notes=notes),
        "nodes": Layer("boxes", {**box, "colour": keys, "ink": ink_on(keys),
                                 "texts": [n.split()[0 if marks.folded else -1] for n in marks.names],
                                 "names": list(marks.names), "pick": "open" if marks.folded else None,
                                 "picks": _picks(f, marks, open)}),
        "failed": _crosses(paths, cables),
        "margins": _margins(f, marks, cables, down),
    }  # fmt: skip
    if colour == "load" and np.isfinite(share).all():
        layers |= _scale(down(low) + 14)
    words = fabric_said(f, marks, cables, share)
    first = said or words[0][:1].upper() + words[0][1:] + "."
    height = float(down(low)) + (34 if "scale" in layers else 6)
    told = _told(
        colour, share, np.unique(marks.row if colour == "tier" else marks.rail), cables.failed.sum(), f.n_cables
    )
    return Scene(first, table, layers, height, "; ".join([first.rstrip("."), *words]) + f". {told}")


def _floor(f: Fabric, share: NDArray[np.float64], colour: str, said: str) -> Scene:
    """Return every endpoint as a cell in the column of its server, with the fullest link that leaves it."""
    if f.n_ranks > _MOST:
        return Scene(text("live.fabric.many", n=f"{f.n_ranks:,}"), wrong=True)
    _, column = np.unique(f.server, return_inverse=True)
    order = np.lexsort((np.arange(f.n_ranks), column))
    row = np.empty(f.n_ranks, dtype=np.int64)
    row[order] = np.arange(f.n_ranks) - np.searchsorted(column[order], column[order])
    wrap = max(1, min(int(column.max()) + 1, 128))  # columns side by side; more begin a new band
    row, column = row + (column // wrap) * (int(row.max()) + 2), column % wrap
    full, dead = np.full(f.n_nodes, -1.0), np.zeros(f.n_nodes, dtype=bool)
    np.maximum.at(full, f.source, np.nan_to_num(share, nan=-1.0))
    np.logical_or.at(dead, f.source, f.capacity == 0)
    full, dead = np.where(full < 0, np.nan, full)[f.endpoint], dead[f.endpoint]
    wide, high = (WIDTH - 20.0) / wrap, min(24.0, 420.0 / (int(row.max()) + 1))
    keys = np.where(dead, COLOUR["failed"], COLOUR["grey"]) if colour == "failure" else shade(full)
    place = f.rail if colour == "rail" else f.tier[f.endpoint]
    if colour in ("tier", "rail"):
        keys = np.where(place >= 0, np.array(_KEYS)[place % len(_KEYS)], COLOUR["grey"])
    names, links = [f.name(int(e)) for e in f.endpoint], np.nan_to_num(full)
    notes = [text("live.fabric.load", percent=f"{100 * v:.3g}") if np.isfinite(w) else text("live.fabric.rail", r=r)
             for v, w, r in zip(links, full, f.rail, strict=True)]  # fmt: skip
    cells = {"x": 10 + wide * column, "y": 10 + high * row, "w": np.full(f.n_ranks, max(wide - 1, 1.0)),
             "h": np.full(f.n_ranks, high - 2), "colour": keys, "hatch": 3 * dead, "round": 1.0}  # fmt: skip
    bottom = 10 + high * (int(row.max()) + 1)
    layers = {"nodes": Layer("boxes", {**cells, "names": names, "notes": notes})}
    layers |= _scale(bottom + 8) if colour == "load" and np.isfinite(full).any() else {}
    table = Table(
        {"endpoint": names, "server": f.server, "rail": f.rail, "load": full, "failed links": dead.astype(int)}
    )
    words = text(
        "live.fabric.floor", ends=f"{f.n_ranks:,}", servers=f"{np.unique(f.server).size:,}", cut=int(dead.sum())
    )
    top = int(np.argmax(np.nan_to_num(full, nan=-1)))
    words += f" {names[top]}: {notes[top]}." if np.isfinite(full).any() else ""
    return Scene(
        said or words, table, layers, bottom + 34, f"{words} {said} {_told(colour, full, place, dead.sum(), f.n_ranks)}"
    )


def _told(colour: str, load: NDArray[np.float64], places: NDArray[Any], failed: int, parts: int) -> str:
    """Return what the colour says, for those who do not see it."""
    seen = 100 * load[np.isfinite(load)] if np.isfinite(load).any() else np.zeros(1)
    numbers = {"low": f"{seen.min():.3g}", "high": f"{seen.max():.3g}", "failed": failed, "all": f"{parts:,}"}
    return text(_SAYS[colour], **numbers, n=np.unique(places[places >= 0]).size)


def _picks(f: Fabric, m: Marks, open: int | None) -> list[int | None]:
    """Return what is open after a box is chosen: its block, or nothing if that one is open already."""
    if not m.folded:
        return [None] * m.first.size
    size = np.bincount(m.of_node, minlength=m.first.size)
    return [None if open is not None and size[i] == 1 else int(m.first[i]) for i in range(m.first.size)]


def _coloured(f: Fabric, m: Marks, k: Lines, colour: str) -> NDArray[np.float64]:
    grey = np.full(k.a.size, COLOUR["grey"])
    if colour == "load":
        return shade(k.load)
    if colour == "failure":
        return np.where(k.failed > 0, COLOUR["failed"], grey)
    place = m.row[k.b] if colour == "tier" else np.maximum(m.rail[k.a], m.rail[k.b])
    return np.where(place >= 0, np.array(_KEYS)[place % len(_KEYS)], grey)


def _strength(k: Lines, colour: str) -> NDArray[np.float64]:
    """Return how strong each line is: pale if it is dead or, where the colour is not the load, idle."""
    busy = 1.0 if colour == "load" else 0.25 + 0.75 * np.clip(np.nan_to_num(k.load, nan=1.0), 0, 1)
    return np.where(k.failed == k.cables, 0.35, busy)


def _node_colours(f: Fabric, m: Marks, colour: str) -> NDArray[np.float64]:
    plain = np.where(f.transit[m.first], COLOUR["switch"], COLOUR["host"])
    if colour not in ("tier", "rail"):
        return plain
    place = m.row if colour == "tier" else m.rail
    return np.where(place >= 0, np.array(_KEYS)[place % len(_KEYS)], plain)


def _servers(m: Marks, foot: float, across: Callable[..., Any], down: Callable[..., Any]) -> Layer:
    ends = np.array(boxes_of(m, foot), dtype=np.float64).reshape(-1, 5)
    left, right, low, high, tinted = (ends[:, i] for i in range(5))
    return Layer("boxes", {
        "x": across(left), "y": down(high), "w": across(right) - across(left), "h": down(low) - down(high),
        "colour": np.where(tinted > 0, COLOUR["tint"], COLOUR["none"]), "alpha": 0.3, "round": 7.0,
        "edge": np.where(tinted > 0, 0, -1),
    })  # fmt: skip


def _crosses(paths: Sequence[NDArray[Any]], k: Lines) -> Layer:
    here = np.flatnonzero(k.failed)
    middle = np.concatenate([np.empty((0, 2)), *(paths[i].mean(axis=0, keepdims=True) for i in here.tolist())]).T
    return Layer("dots", {"x": middle[0], "y": middle[1], "size": 5.0, "shape": 2.0, "colour": COLOUR["failed"]})


def _margins(f: Fabric, m: Marks, k: Lines, down: Callable[..., Any]) -> Layer:
    """Name the rows on the left and the cables between them on the right."""
    out: list[tuple[float, float, str, int]] = []
    for row in np.unique(m.row):
        here = m.row[m.of_node] == row
        out.append((_LEFT - 16, float(down(row)), counted(int(here.sum()), f.kinds[f.kind[here][0]]), 2))
    for low, high in np.unique([m.row[k.a], m.row[k.b]], axis=1).T:
        here = (m.row[k.a] == low) & (m.row[k.b] == high)
        y = float(down((low + high) / 2 if low != high else low - 0.5))
        rate = units.format_rate(float(k.fastest[here].max()))
        out += [(WIDTH - _RIGHT + 8, y - 8, f"{k.cables[here].sum():,} x", 0), (WIDTH - _RIGHT + 8, y + 8, rate, 0)]
    texts = [words for _, _, words, _ in out]
    places = np.array([(x, y, align) for x, y, _, align in out]).T
    return Layer("texts", {"x": places[0], "y": places[1], "texts": texts, "align": places[2], "size": 12.0})


def _scale(y: Any) -> dict[str, Layer]:
    """Return the scale of loads: a bar of the map with its ends."""
    n, left, w = 32, 250.0, 200.0
    x = left + w * np.arange(n) / n
    bar = {"x": x, "y": np.full(n, float(y)), "w": np.full(n, w / n + 0.5), "h": np.full(n, 12.0), "round": 0.0}
    ends = {
        "x": np.array([left - 8, left + w + 8]),
        "y": np.full(2, float(y) + 6),
        "texts": [text("live.fabric.load", percent=0), "100%"],
    }
    return {
        "scale": Layer("boxes", {**bar, "colour": shade(np.linspace(0, 1, n))}),
        "ends": Layer("texts", {**ends, "align": np.array([2, 0])}),
    }


def _table(f: Fabric, m: Marks, k: Lines) -> tuple[Table, list[str]]:
    """Return the numbers of the lines, and each as a text."""
    table = Table({
        "from": [m.names[i] for i in k.a], "to": [m.names[i] for i in k.b], "cables": k.cables, "failed": k.failed,
        "fastest [B/s]": k.fastest, "load": k.load,
    })  # fmt: skip
    notes = []
    for i in range(k.a.size):
        words = [counted(int(k.cables[i]), "cable"), units.format_rate(float(k.fastest[i]))]
        words += [text("live.fabric.failed", n=k.failed[i])] * bool(k.failed[i])
        words += [] if np.isnan(k.load[i]) else [text("live.fabric.load", percent=f"{100 * k.load[i]:.3g}")]
        notes.append(", ".join(words))
    return table, notes
